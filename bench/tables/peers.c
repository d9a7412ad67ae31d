/* Results of bench/peers/tables.py: one JSON object per line. */
#include "tables.h"
#include "../../src/io/json_tree.h"
#include <math.h>
#include <string.h>

static const char *peer_name(const void *unused, size_t index)
{
    static const char *const names[BENCH_PEERS] = {"hist", "xgboost", "lightgbm", "catboost", "xrfm"};
    (void)unused;
    return names[index];
}

static const char *mode_name(const void *unused, size_t index)
{
    static const char *const names[BENCH_MODES + 1] = {"default", "tuned", "trial"};
    (void)unused;
    return names[index];
}

static const char *text_of(const bo_json *line, const char *key) /* "" if the key is missing */
{
    const char *text = bo_json_text_or_null(bo_json_member(line, key));
    return text ? text : "";
}

static double number_of(const bo_json *line, const char *key) /* NAN if the key is missing */
{
    return (bo_json_is(bo_json_member(line, key), BO_JSON_NUMBER) ? bo_json_member(line, key)->number : NAN);
}

/* The index of the text under a key; `count` if it is unknown. */
static size_t find(const bo_json *line, const char *key, size_t count, const char *(*name)(const void *, size_t))
{
    size_t index = 0;
    while (index < count && strcmp(text_of(line, key), name(NULL, index)) != 0) index++;
    return index;
}

/* A failed fit has no score. Times on a GPU are not compared; a fit on the CPU replaces a fit on a GPU. */
static void add_line(const bo_json *line, bench_peer_fits *out)
{
    size_t table = find(line, "table", BENCH_TABLES, bench_table_name);
    size_t peer = find(line, "peer", BENCH_PEERS, peer_name), mode = find(line, "mode", BENCH_MODES + 1, mode_name);
    double split = number_of(line, "split"), threads = number_of(line, "threads");
    bool cpu = strcmp(text_of(line, "device"), "cpu") == 0;
    bench_peer_fit fit = {.score = number_of(line, "score"),
                          .seconds = cpu ? number_of(line, "seconds") : NAN,
                          .threads = threads >= 1 && threads < 1e6 ? (size_t)threads : 0};
    if (table == BENCH_TABLES || peer == BENCH_PEERS || mode > BENCH_MODES) return;
    fit.peer = peer_name(NULL, peer);
    if (mode == BENCH_MODES) {
        if (fit.seconds > 0) out->search[table][peer] += fit.seconds;
    } else if (split >= 0 && split < BENCH_SPLITS && !isnan(fit.score)) {
        bench_peer_fit *old = &out->fits[table][peer][mode][(size_t)split];
        if (cpu || !old->peer) *old = fit;
    }
}

bool bench_peers_read(bench_run *bench, const char *where, const char *text, bench_peer_fits *out)
{
    size_t count = 1;
    for (const char *end; *text; text = end, count++) {
        size_t length = strcspn(text, "\n");
        end = text + length + (text[length] == '\n');
        if (length == 0) continue;
        bo_json *line = bo_json_read(text, length, NULL);
        bool good = bo_json_is(line, BO_JSON_OBJECT);
        if (good) add_line(line, out);
        bo_json_delete(line);
        if (good) continue;
        cli_fail(bench->session, "%s, line %zu: expected a JSON object, as tables.py writes it", where, count);
        return false;
    }
    return true;
}

bench_peer_fit bench_peer_mean(const bench_peer_fits *all, size_t table, size_t peer, bench_mode mode, size_t splits)
{
    bench_peer_fit mean = {.peer = peer_name(NULL, peer)};
    double timed = 0;
    for (size_t split = 0; split < splits; split++) {
        const bench_peer_fit *fit = &all->fits[table][peer][mode][split];
        mean.score += fit->peer ? fit->score / (double)splits : NAN;
        if (!fit->peer || isnan(fit->seconds)) continue;
        mean.seconds += fit->seconds;
        mean.threads = fit->threads;
        timed++;
    }
    mean.seconds = timed > 0 ? mean.seconds / timed : NAN;
    return mean;
}
