/* The plan: how many tokens at a time, and what that takes. Chunks are chosen from the shape and the caches alone,
 * never from the number of threads, so that results do not depend on it. */
#include <string.h>
#include <unistd.h>
#include "calls.h"

static size_t cache_bytes(int name, size_t fallback)
{
    long bytes = sysconf(name);
    return bytes > 0 ? (size_t)bytes : fallback;
}

/* Operations of a forward pass, by a count that does not depend on the chunk: features 4dD, sums 4Dd_v, within chunks
 * 65(D + d_v) for each token and head; exact attention 2(d + d_v) operations a pair. Grouped
 * queries count as if each head had keys of its own. */
static double operations(const bo_attention *attention, const bo_sequence *sequences, size_t count)
{
    const bo_attention_desc *d = &attention->desc;
    double heads = (double)d->heads, dim = (double)d->dim, values = (double)d->value_dim, sum = 0;
    double features = (double)attention->count, window = (double)attention->desc.window;
    for (size_t s = 0; s < count; s++) {
        double queries = (double)sequences[s].queries, keys = (double)sequences[s].keys;
        double pairs = queries * (d->causal ? (keys + 1) / 2 : keys);
        if (d->window && window < keys) pairs = queries * window - window * (window - 1) / 2;
        if (d->kind == BO_ATTENTION_EXACT || d->kind == BO_ATTENTION_HYBRID) sum += heads * pairs * 2 * (dim + values);
        if (attention->count)
            sum += heads * ((queries + keys) * (2 * dim * features + 2 * features * values) +
                            (d->causal ? queries * 65 * (features + values) : 0));
    }
    return sum;
}

void bo_plan_make(const bo_attention *attention, const bo_sequence *sequences, size_t count, bo_attention_plan *plan)
{
    size_t queries = 0, keys = 0;
    for (size_t s = 0; s < count; s++) {
        if (sequences[s].queries > queries) queries = sequences[s].queries;
        if (sequences[s].keys > keys) keys = sequences[s].keys;
    }
    *plan = (bo_attention_plan){.level1_bytes = cache_bytes(_SC_LEVEL1_DCACHE_SIZE, 32 << 10),
                                .level2_bytes = cache_bytes(_SC_LEVEL2_CACHE_SIZE, 512 << 10),
                                .tasks = count * attention->desc.key_heads};
    plan->operations = operations(attention, sequences, count);
    attention->engine->plan(attention, queries, keys, plan);
}

bo_status bo_attention_plan_for(bo_context *context, const bo_attention *attention, const bo_attention_shape *shape,
                                bo_attention_plan *out)
{
    bo_geometry geometry;
    BO_TRY(bo_geometry_make(context, attention, shape, &geometry));
    *out = geometry.plan;
    out->tape_bytes = geometry.tape_bytes;
    size_t reverse_tasks = bo_parameter_groups(shape->sequences) * attention->desc.key_heads;
    if (bo_runs_together(context, attention, out))
        out->forward_bytes = attention->engine->together_bytes(attention, out, (size_t)bo_context_threads(context));
    else
        out->forward_bytes *= bo_scratch_count(context, out->tasks);
    out->backward_bytes = out->backward_bytes * bo_scratch_count(context, reverse_tasks) +
                          bo_parameter_bytes(attention, shape->sequences);
    bo_geometry_free(&geometry);
    return BO_OK;
}
