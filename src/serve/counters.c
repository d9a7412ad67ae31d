#include "counters.h"
#include "store.h"
#include <stdio.h>

/* Upper bounds in seconds. */
static const double BOUNDS[BO_HISTOGRAM_BINS] = {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25,
                                                 0.5,   1,      2.5,   5,    10,    25,   50,  100};

void bo_histogram_add(bo_histogram *histogram, double seconds)
{
    size_t bin = 0;
    while (bin < BO_HISTOGRAM_BINS && seconds > BOUNDS[bin]) bin++;
    atomic_fetch_add(&histogram->bins[bin], 1);
    if (seconds > 0) atomic_fetch_add(&histogram->nanoseconds, (unsigned long long)(seconds * 1e9));
}

static void head(bo_json_text *out, const char *name, const char *type, const char *help)
{
    char line[320];
    snprintf(line, sizeof line, "# HELP bochner_%s %s\n# TYPE bochner_%s %s\n", name, help, name, type);
    bo_json_raw(out, line);
}

static void value(bo_json_text *out, const char *name, unsigned long long number)
{
    char line[160];
    snprintf(line, sizeof line, "bochner_%s %llu\n", name, number);
    bo_json_raw(out, line);
}

static void counter(bo_json_text *out, const char *name, unsigned long long number, const char *help)
{
    head(out, name, "counter", help);
    value(out, name, number);
}

static void gauge(bo_json_text *out, const char *name, unsigned long long number, const char *help)
{
    head(out, name, "gauge", help);
    value(out, name, number);
}

static void histogram(bo_json_text *out, const char *name, const bo_histogram *h, const char *help)
{
    char line[200];
    unsigned long long total = 0;
    head(out, name, "histogram", help);
    for (size_t i = 0; i < BO_HISTOGRAM_BINS; i++) {
        total += atomic_load(&h->bins[i]);
        snprintf(line, sizeof line, "bochner_%s_bucket{le=\"%g\"} %llu\n", name, BOUNDS[i], total);
        bo_json_raw(out, line);
    }
    total += atomic_load(&h->bins[BO_HISTOGRAM_BINS]);
    snprintf(line, sizeof line, "bochner_%s_bucket{le=\"+Inf\"} %llu\nbochner_%s_sum %.9g\nbochner_%s_count %llu\n",
             name, total, name, (double)atomic_load(&h->nanoseconds) * 1e-9, name, total);
    bo_json_raw(out, line);
}

static void responses(bo_json_text *out, const bo_counters *m)
{
    char line[100];
    head(out, "answers_total", "counter", "HTTP responses by status class.");
    for (int i = 2; i <= 5; i++) {
        snprintf(line, sizeof line, "bochner_answers_total{status=\"%dxx\"} %llu\n", i, atomic_load(&m->responses[i]));
        bo_json_raw(out, line);
    }
}

void bo_counters_write(const bo_counters *m, size_t slots, size_t state_bytes, const bo_store_stats *s,
                       bo_json_text *out)
{
    counter(out, "prompt_tokens_total", atomic_load(&m->prompt_tokens), "Prompt tokens, cached ones included.");
    counter(out, "cached_tokens_total", atomic_load(&m->cached_tokens), "Prompt tokens found in the prefix cache.");
    counter(out, "generated_tokens_total", atomic_load(&m->generated_tokens), "Generated tokens.");
    counter(out, "steps_total", atomic_load(&m->steps), "Decoding steps.");
    counter(out, "rejected_total", atomic_load(&m->rejected), "Requests refused because the queue was full.");
    counter(out, "canceled_total", atomic_load(&m->canceled), "Sequences whose client disconnected.");
    counter(out, "failed_total", atomic_load(&m->failed), "Sequences that failed.");
    responses(out, m);
    gauge(out, "connections", atomic_load(&m->connections), "Open connections.");
    gauge(out, "queued", atomic_load(&m->queued), "Sequences that wait for a slot.");
    gauge(out, "running", atomic_load(&m->running), "Sequences in slots.");
    gauge(out, "slots", slots, "Slots.");
    gauge(out, "state_bytes", state_bytes, "Bytes of the state of an empty conversation.");
    counter(out, "cache_hits_total", s->hits, "Prompts with a cached prefix.");
    counter(out, "cache_misses_total", s->misses, "Prompts without a cached prefix.");
    counter(out, "cache_evictions_total", s->evictions, "Cached prefixes that were evicted.");
    gauge(out, "cache_prefixes", s->prefixes, "Cached prefixes.");
    gauge(out, "kept_states", s->kept, "States kept by id.");
    gauge(out, "cache_memory_bytes", s->memory_bytes, "Memory of cached prefixes and kept states.");
    gauge(out, "cache_disk_bytes", s->disk_bytes, "Files of cached prefixes and kept states.");
    histogram(out, "first_token_seconds", &m->first_token, "Time from a request to its first token.");
    histogram(out, "next_token_seconds", &m->next_token, "Time between two tokens of a sequence.");
    histogram(out, "request_seconds", &m->request, "Time of a sequence from request to end.");
    histogram(out, "step_seconds", &m->step, "Time of a decoding step.");
}
