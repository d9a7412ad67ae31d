/* Rate and latency by number of concurrent clients. */
#include "serve.h"
#include <math.h>
#include <stdlib.h>
#include <sys/resource.h>

/* Summary of the requests for one number of clients. */
typedef struct load_summary {
    double seconds;                /* from the first request to the last response */
    size_t prompt, tokens, events; /* sums over the requests */
    double *firsts, *pauses;       /* seconds to the first token of each request, and between tokens */
    size_t first_count, pause_count;
    double busy; /* CPU time of this client, as a share of the time */
} load_summary;

static double cpu_seconds(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (double)usage.ru_utime.tv_sec + (double)usage.ru_stime.tv_sec +
           1e-6 * (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

static void summarize(const load_results *results, load_summary *out)
{
    double start = INFINITY, end = 0;
    *out = (load_summary){0};
    for (size_t i = 0; i < results->count; i++) out->events += results->outcomes[i].count;
    out->firsts = cli_allocate(results->count, sizeof *out->firsts, "times");
    out->pauses = cli_allocate(out->events + 1, sizeof *out->pauses, "times");
    for (size_t i = 0; i < results->count; i++) {
        const load_outcome *o = &results->outcomes[i];
        start = fmin(start, o->sent);
        end = fmax(end, o->ended);
        out->prompt += o->prompt;
        out->tokens += o->generated ? o->generated : o->count;
        if (o->count) out->firsts[out->first_count++] = o->tokens[0] - o->sent;
        for (size_t k = 1; k < o->count; k++) out->pauses[out->pause_count++] = o->tokens[k] - o->tokens[k - 1];
    }
    out->seconds = end - start;
}

/* Sends the requests of all clients and summarizes the responses. Prints a message and returns false on failure. */
static bool run_clients(load_bench *bench, size_t clients, size_t each, size_t tokens, load_summary *out)
{
    load_results results = load_results_make(clients * each);
    for (size_t i = 0; i < results.count; i++)
        results.requests[i] = load_post(bench, load_completion(bench, bench->options->prompt, tokens));
    const double before = cpu_seconds();
    const bool done =
        load_run(bench->run->session, &bench->server.address, clients, each, results.requests, results.outcomes);
    const double busy = cpu_seconds() - before;
    if (done) {
        summarize(&results, out);
        out->busy = busy / out->seconds;
    }
    load_results_free(&results);
    return done;
}

static void add_percentiles(load_bench *bench, size_t clients, const char *what, double *values, size_t count,
                            const char *of)
{
    static const double shares[] = {0.5, 0.99};
    static const char *const names[] = {"median", "99th percentile"};
    for (size_t i = 0; i < CLI_COUNT_OF(shares); i++) {
        char name[96];
        snprintf(name, sizeof name, "%zu client%s, %s, %s", clients, clients > 1 ? "s" : "", what, names[i]);
        bench_add(bench->run, name, 1e3 * load_percentile(values, count, shares[i]), "ms", NAN, true, "of %s %s",
                  cli_count(count).s, of);
    }
}

/* `one` is the rate of one client, NAN before it is known. */
static void report(load_bench *bench, size_t clients, load_summary *s, double *one)
{
    const double requests = (double)(clients * bench->options->requests), rate = (double)s->tokens / s->seconds;
    const char *plural = clients > 1 ? "s" : "";
    char name[96];
    if (clients == 1) *one = rate;
    snprintf(name, sizeof name, "%zu client%s, rate", clients, plural);
    bench_add(bench->run, name, rate, "tokens/s", NAN, false,
              "%.0f request%s: prompts of %.4g tokens, %.4g tokens generated; the benchmark used %.0f%% of a CPU",
              requests, requests > 1 ? "s" : "", (double)s->prompt / requests, (double)s->tokens / requests,
              100 * s->busy);
    snprintf(name, sizeof name, "%zu clients, rate / 1 client", clients);
    if (clients > 1 && !isnan(*one)) bench_add(bench->run, name, rate / *one, "x", NAN, false, "sum over all clients");
    add_percentiles(bench, clients, "time to first token", s->firsts, s->first_count, "requests");
    add_percentiles(bench, clients, "time between tokens", s->pauses, s->pause_count, "pauses");
}

bool load_clients_part(load_bench *bench)
{
    enum { WARM = 2 };
    const load_options *o = bench->options;
    double one = NAN;
    for (size_t i = 0; i < o->clients.count; i++) {
        const size_t clients = o->clients.items[i];
        load_summary warm = {0}, s = {0};
        const bool done =
            run_clients(bench, clients, 1, WARM, &warm) && run_clients(bench, clients, o->requests, o->tokens, &s);
        if (done) report(bench, clients, &s, &one);
        free(warm.firsts);
        free(warm.pauses);
        free(s.firsts);
        free(s.pauses);
        if (!done) return false;
    }
    return true;
}
