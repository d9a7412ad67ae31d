#include "run.h"
#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- JSON -------------------------------------------------------------------------------------------------------- */

/* A file or directory that does not exist is not an error. */
static bool is_missing(const char *path)
{
    return access(path, F_OK) != 0 && (errno == ENOENT || errno == ENOTDIR);
}

bo_json *cli_read_json(cli_session *session, const char *directory, const char *name)
{
    enum { MAX_FILE_BYTES = 1 << 20 };
    char path[4096];
    void *text = NULL;
    size_t length = 0;
    bo_json *json = NULL;
    snprintf(path, sizeof path, "%s/%s", directory, name);
    if (is_missing(path)) return NULL;
    if (bo_file_load(session->context, path, MAX_FILE_BYTES, &text, &length) != BO_OK)
        cli_warn(session, "%s is ignored, because it cannot be read: %s", path, bo_context_error(session->context));
    else if (bo_json_check(session->context, path, text, length) != BO_OK)
        cli_warn(session, "%s is ignored, because it is damaged or was edited: its checksum does not match", path);
    else
        json = bo_json_read(text, length, NULL);
    bo_free(text);
    return json;
}

double cli_json_number(const bo_json *json, const char *name)
{
    const bo_json *value = bo_json_member(json, name);
    return bo_json_is(value, BO_JSON_NUMBER) ? value->number : NAN;
}

/* ---- training.json ----------------------------------------------------------------------------------------------- */

/* The first existing member of a list. */
static void copy_setting(const bo_json *settings, const char *const names[3], char out[24])
{
    out[0] = 0;
    for (size_t i = 0; i < 3 && names[i] && !out[0]; i++) {
        const char *text = bo_json_text_or_null(bo_json_member(settings, names[i]));
        if (text) snprintf(out, 24, "%s", text);
    }
}

static bool read_record(cli_session *session, const char *directory, cli_run_record *out)
{
    static const char *const seed[3] = {"seed"}, *const train[3] = {"corpus", "texts", "examples"},
                             *const valid[3] = {"validation_corpus", "validation_texts", "held_out"};
    bo_json *json = cli_read_json(session, directory, "training.json");
    const bo_json *settings = bo_json_member(json, "settings");
    *out = (cli_run_record){.step = cli_json_number(json, "step"),
                            .steps = cli_json_number(json, "steps"),
                            .tokens = cli_json_number(json, "tokens"),
                            .valid_loss = cli_json_number(json, "valid_loss"),
                            .best_valid_loss = cli_json_number(json, "best_valid_loss"),
                            .waited = cli_json_number(json, "evaluations_without_improvement")};
    copy_setting(settings, seed, out->seed);
    copy_setting(settings, train, out->train_data);
    copy_setting(settings, valid, out->valid_data);
    bo_json_delete(json);
    return !isnan(out->step);
}

/* "step-120", as the trainer names them. Incomplete checkpoints, and checkpoints set aside as damaged, have a
 * suffix. */
static bool is_checkpoint(const char *name)
{
    static const char start[] = "step-";
    const char *digits = name + strlen(start);
    if (strncmp(name, start, strlen(start)) != 0 || !*digits || (*digits == '0' && digits[1])) return false;
    return digits[strspn(digits, "0123456789")] == 0;
}

bool cli_run_find(cli_session *session, const char *directory, cli_run_record *out)
{
    char path[4096];
    cli_run_record found;
    if (read_record(session, directory, out)) return true;
    snprintf(path, sizeof path, "%s/checkpoints", directory);
    DIR *listing = opendir(path);
    if (!listing && !is_missing(path))
        cli_warn(session, "%s is ignored, because it cannot be read: %s", path, strerror(errno));
    for (struct dirent *entry; listing && (entry = readdir(listing));) {
        if (!is_checkpoint(entry->d_name)) continue;
        snprintf(path, sizeof path, "%s/checkpoints/%s", directory, entry->d_name);
        if (read_record(session, path, &found) && !(found.step <= out->step)) *out = found;
    }
    if (listing) closedir(listing);
    return !isnan(out->step);
}

/* ---- metrics.jsonl ----------------------------------------------------------------------------------------------- */

/* The name of the metric, from the first key "valid_..." that is not the loss. */
static void find_names(const bo_json *json, cli_run_metrics *m)
{
    static const char start[] = "valid_";
    snprintf(m->unit, sizeof m->unit, "%s", bo_json_member(json, "examples") != NULL ? "examples" : "tokens");
    for (const bo_json *item = json->child; item; item = item->next)
        if (strncmp(item->key, start, strlen(start)) == 0 && strcmp(item->key, "valid_loss") != 0)
            snprintf(m->metric, sizeof m->metric, "%s", item->key + strlen(start));
}

static cli_run_point point_of(const bo_json *json, const cli_run_metrics *m)
{
    char metric[48], rate[48];
    snprintf(metric, sizeof metric, "valid_%s", m->metric);
    snprintf(rate, sizeof rate, "%s_per_second", m->unit);
    const char *isa = bo_json_text_or_null(bo_json_member(json, "isa"));
    cli_run_point point = {.step = cli_json_number(json, "step"),
                           .steps = cli_json_number(json, "steps"),
                           .count = cli_json_number(json, m->unit),
                           .seconds = cli_json_number(json, "seconds"),
                           .rate = cli_json_number(json, rate),
                           .loss = cli_json_number(json, "loss"),
                           .valid_loss = cli_json_number(json, "valid_loss"),
                           .valid_metric = cli_json_number(json, metric),
                           .best_valid_loss = cli_json_number(json, "best_valid_loss"),
                           .threads = cli_json_number(json, "threads"),
                           .evaluated = bo_json_is(bo_json_member(json, "evaluated"), BO_JSON_TRUE)};
    snprintf(point.isa, sizeof point.isa, "%s", isa ? isa : "");
    return point;
}

static void add(cli_run_metrics *m, size_t *capacity, cli_run_point point)
{
    if (m->count == *capacity) {
        cli_run_point *larger = cli_allocate(*capacity = 2 * *capacity + 256, sizeof *larger, "metrics");
        if (m->count) memcpy(larger, m->points, m->count * sizeof *larger);
        free(m->points);
        m->points = larger;
    }
    m->points[m->count++] = point;
}

/* Opens only a regular file of bounded size: opening a pipe would block, and a device may be endless. On failure errno
 * is set. */
static FILE *open_metrics(const char *directory)
{
    enum { MAX_FILE_BYTES = 1 << 28 };
    char path[4096];
    struct stat info;
    snprintf(path, sizeof path, "%s/metrics.jsonl", directory);
    if (stat(path, &info) != 0) return NULL;
    if (S_ISREG(info.st_mode) && info.st_size <= MAX_FILE_BYTES) return fopen(path, "rb");
    errno = S_ISREG(info.st_mode) ? EFBIG : EINVAL;
    return NULL;
}

bool cli_run_read(const char *directory, cli_run_metrics *out)
{
    char *line = NULL;
    size_t size = 0, capacity = 0;
    *out = (cli_run_metrics){.count = 0};
    FILE *file = open_metrics(directory);
    if (!file) return false;
    while (getline(&line, &size, file) > 0) {
        bo_json *json = bo_json_read(line, strlen(line), NULL);
        if (!isnan(cli_json_number(json, "step"))) {
            find_names(json, out);
            add(out, &capacity, point_of(json, out));
        }
        bo_json_delete(json);
    }
    const bool complete = !ferror(file);
    const int error = errno;
    free(line);
    fclose(file);
    if (!complete) cli_run_metrics_free(out);
    errno = error;
    return complete;
}

void cli_run_metrics_free(cli_run_metrics *metrics)
{
    free(metrics->points);
    *metrics = (cli_run_metrics){.count = 0};
}
