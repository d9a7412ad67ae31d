/* Counters and histograms of the server in the Prometheus text format. All functions may be called from any thread. */
#ifndef BO_SERVE_COUNTERS_H
#define BO_SERVE_COUNTERS_H

#include "../io/json.h"
#include <stdatomic.h>

/* Counts of values up to each bound, in seconds. */
enum { BO_HISTOGRAM_BINS = 16 };
typedef struct bo_histogram {
    atomic_ullong bins[BO_HISTOGRAM_BINS + 1]; /* the last: above all bounds */
    atomic_ullong nanoseconds;                 /* the sum */
} bo_histogram;

typedef struct bo_counters {
    atomic_ullong prompt_tokens, cached_tokens, generated_tokens, steps, rejected, canceled, failed;
    atomic_size_t queued, running, connections;
    atomic_ullong responses[6]; /* by status / 100 */
    bo_histogram first_token, next_token, request, step;
} bo_counters;

void bo_histogram_add(bo_histogram *histogram, double seconds);
struct bo_store_stats;
/* Writes all metrics, including the number of slots and the statistics of the store. */
void bo_counters_write(const bo_counters *counters, size_t slots, size_t state_bytes,
                       const struct bo_store_stats *store, bo_json_text *out);

#endif
