/* Server memory per idle conversation. */
#include "serve.h"
#include "../../src/io/json_tree.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { TOGETHER = 8, ROUND = 64 };

/* Bytes available to programs, as reported by the system. */
static double free_bytes(void)
{
    char line[256];
    bo_memory_bound bound;
    bo_context_memory(NULL, &bound);
    double max_bytes = (double)bound.bytes;
    FILE *file = fopen("/proc/meminfo", "r");
    while (file && fgets(line, sizeof line, file))
        if (strncmp(line, "MemAvailable:", 13) == 0) max_bytes = fmin(max_bytes, 1024 * strtod(line + 13, NULL));
    if (file) fclose(file);
    return max_bytes;
}

static double state_bytes(const load_bench *bench)
{
    const load_model *model = &bench->model;
    return (double)model->state_bytes + (double)model->state_bytes_per_token * (double)bench->options->prompt;
}

/* The number of conversations that fit in memory. Prints a warning if it is less than requested. */
static size_t conversations_that_fit(load_bench *bench)
{
    const size_t requested = bench->options->conversations;
    const double each = state_bytes(bench), available = 0.8 * free_bytes();
    const double fit = each > 0 ? floor(available / each) : (double)requested;
    if ((double)requested <= fit) return requested;
    cli_warn(bench->run->session, "%s conversations of %s do not fit in %s, 80%% of the free memory; %s are measured",
             cli_count(requested).s, cli_bytes(each).s, cli_bytes(available).s, cli_count((size_t)fit).s);
    return (size_t)fit;
}

/* Bytes of a state, as the server reports them. */
static double reported_bytes(const load_outcome *outcome)
{
    bo_json *json = bo_json_read(outcome->body.bytes ? outcome->body.bytes : "",
                                 strlen(outcome->body.bytes ? outcome->body.bytes : ""), NULL);
    const bo_json *bytes = bo_json_member(json, "bytes");
    const double value = bo_json_is(bytes, BO_JSON_NUMBER) ? bytes->number : NAN;
    bo_json_delete(json);
    return value;
}

/* Starts conversations, `clients` in parallel, and sums the bytes of their states. */
static bool begin_conversations(load_bench *bench, size_t clients, size_t each, double *bytes)
{
    load_results results = load_results_make(clients * each);
    const size_t prompt = bench->options->prompt;
    for (size_t i = 0; i < results.count; i++) {
        if (!bench->model.is_bochner) { /* other servers store the prompts of their last requests */
            results.requests[i] = load_post(bench, load_completion(bench, prompt, 1));
            continue;
        }
        char *body = load_state(bench, prompt);
        results.requests[i] = load_request_make(&bench->server.address, "POST", "/v1/states", body);
        free(body);
    }
    const bool done =
        load_run(bench->run->session, &bench->server.address, clients, each, results.requests, results.outcomes);
    for (size_t i = 0; done && i < results.count; i++) *bytes += reported_bytes(&results.outcomes[i]);
    load_results_free(&results);
    return done;
}

static bool begin_all(load_bench *bench, size_t count, double *bytes)
{
    for (size_t done = 0; done < count;) {
        const size_t left = count - done, clients = left < TOGETHER ? 1 : TOGETHER;
        const size_t each = left < ROUND ? left / clients : ROUND / TOGETHER;
        if (!begin_conversations(bench, clients, each, bytes)) return false;
        done += clients * each;
        cli_progress_report(&bench->run->session->progress, "conversations", (double)done, (double)count);
    }
    return true;
}

static void report(load_bench *bench, size_t count, double growth, double bytes)
{
    const load_model *model = &bench->model;
    char cache[96] = "";
    if (model->kv_bytes_per_token)
        snprintf(cache, sizeof cache, "; a key-value cache: %s",
                 cli_bytes((double)model->kv_bytes_per_token * (double)bench->options->prompt).s);
    bench_add(bench->run, "idle conversation, memory of the server", 1e-3 * growth / (double)count, "kB", NAN, true,
              "growth of the resident memory by %s over %s conversations of %zu tokens%s", cli_bytes(growth).s,
              cli_count(count).s, bench->options->prompt, cache);
    if (isnan(bytes)) return;
    bench_add(bench->run, "idle conversation, state", 1e-3 * bytes / (double)count, "kB", NAN, true,
              "as the server reports it");
    bench_add(bench->run, "idle conversation, memory / state", growth / bytes, "x", NAN, true, "both as above");
}

/* The first conversations fill the memory that every request uses. */
static bool measure(load_bench *bench, size_t count)
{
    double ignored = 0, bytes = 0;
    if (!begin_conversations(bench, TOGETHER, 2, &ignored)) return false;
    const double before = (double)load_resident(bench);
    if (!begin_all(bench, count, &bytes)) return false;
    report(bench, count, (double)load_resident(bench) - before, bytes);
    return true;
}

bool load_idle_part(load_bench *bench)
{
    if (bench->server.pid == 0) {
        cli_note(bench->run->session, "idle: left out, because the process of the server is unknown (--pid)");
        return true;
    }
    const size_t count = conversations_that_fit(bench);
    if (count == 0) return true;
    if (bench->server.child) { /* restarted, with memory for all states and without leftovers of earlier parts */
        const double cache = 1.25 * state_bytes(bench) * (double)(count + 2 * TOGETHER) + (double)(1 << 26);
        load_close(bench);
        if (!load_open(bench, (size_t)cache)) return false;
    }
    return measure(bench, count);
}
