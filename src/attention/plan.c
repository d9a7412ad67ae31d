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

/* The forward pass; explicit keys count 2(d + d_v) operations a pair. */
static double operations(const bo_attention *attention, const bo_sequence *sequences, size_t count)
{
    const bo_attention_desc *d = &attention->desc;
    double heads = (double)d->heads, window = (double)d->window, sum = 0;
    bool keeps = attention->held > 0;
    bo_token_operations token = {0};
    if (attention->engine->operations) token = attention->engine->operations(attention);
    for (size_t s = 0; s < count; s++) {
        double queries = (double)sequences[s].queries, keys = (double)sequences[s].keys;
        double pairs = queries * (d->causal ? (keys + 1) / 2 : keys);
        if (d->window && window < keys) pairs = queries * window - window * (window - 1) / 2;
        if (keeps) sum += heads * pairs * 2 * (double)(d->dim + d->value_dim);
        sum += heads * (queries * token.query + keys * token.key);
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
                                .tasks = count * attention->desc.key_heads,
                                .keys = keys};
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

/* Forward takes the more of its two ways: each worker by itself, or all on few heads. */
static size_t forward_most(bo_context *context, const bo_attention *attention, const bo_attention_plan *plan)
{
    const bo_engine *engine = attention->engine;
    size_t threads = (size_t)bo_context_threads(context), desks = bo_scratch_count(context, plan->tasks);
    bo_attention_plan few = *plan;
    few.tasks = desks;
    size_t alone = bo_work_bytes(desks, plan->forward_bytes);
    size_t together = engine->together ? engine->together_bytes(attention, &few, threads) + 3 * 64 : 0;
    size_t step = bo_work_bytes(desks, engine->step_bytes(attention, BO_STEP_BLOCK));
    return bo_most(step, bo_most(alone, together));
}

size_t bo_attention_work_bytes(bo_context *context, const bo_attention *attention, size_t sequences, size_t queries,
                               size_t keys, bool backward)
{
    bo_attention_plan plan;
    bo_plan_make(attention, &(bo_sequence){.queries = queries, .keys = keys}, 1, &plan);
    plan.tasks = sequences * attention->desc.key_heads;
    size_t lists = bo_work_bytes(sequences, sizeof(bo_sequence)) + bo_work_bytes(sequences, 2 * sizeof(void *));
    size_t reverse_tasks = bo_parameter_groups(sequences) * attention->desc.key_heads;
    if (!backward) return lists + forward_most(context, attention, &plan);
    return lists + bo_work_bytes(bo_scratch_count(context, reverse_tasks), plan.backward_bytes) +
           bo_work_bytes(bo_parameter_bytes(attention, sequences), 1);
}
