/* Conversion of a shape into sequences, and the plan of their computation. */
#include <string.h>
#include "calls.h"
#include <unistd.h>

/* ---- sequences --------------------------------------------------------------------------------------------------- */

/* From a shape to sequences: lengths, starting positions, and the layout of the tape. */

/* More floats than this in one array are treated as an error; sums of lengths cannot overflow. */
#define MAX_FLOATS ((size_t)1 << 50)

static bo_status check_total(bo_context *context, const bo_attention_desc *desc, const char *what, size_t tokens)
{
    size_t widest = desc->heads * (desc->dim > desc->value_dim ? desc->dim : desc->value_dim);
    if (tokens > MAX_FLOATS / widest)
        return bo_fail(context, BO_INVALID, "attention: an array of %zu %s for %zu heads is too large", tokens, what,
                       desc->heads);
    return BO_OK;
}

static bo_status fill_sequences(bo_context *context, const bo_attention *attention, const bo_attention_shape *shape,
                                bo_geometry *out)
{
    const bo_attention_desc *desc = &attention->desc;
    for (size_t s = 0; s < shape->sequences; s++) {
        bo_sequence *at = &out->sequences[s];
        *at = (bo_sequence){0};
        size_t keys = shape->key_tokens ? shape->key_tokens : shape->tokens;
        at->queries = shape->lengths ? shape->lengths[s] : shape->tokens;
        if (shape->no_queries) at->queries = 0;
        if (shape->lengths) keys = shape->key_lengths ? shape->key_lengths[s] : shape->lengths[s];
        at->keys = shape->no_keys ? 0 : keys;
        if (desc->causal && !shape->no_keys && !shape->no_queries && at->queries != at->keys)
            return bo_fail(
                context, BO_INVALID,
                "attention: causal attention requires as many keys as queries; sequence %zu has %zu queries and %zu "
                "keys",
                s, at->queries, at->keys);
        at->query_start = out->queries_total;
        at->key_start = out->keys_total;
        BO_TRY(check_total(context, desc, "queries", at->queries));
        BO_TRY(check_total(context, desc, "keys", at->keys));
        out->queries_total += at->queries;
        out->keys_total += at->keys;
        BO_TRY(check_total(context, desc, "queries", out->queries_total));
        BO_TRY(check_total(context, desc, "keys", out->keys_total));
    }
    return BO_OK;
}

bo_tape bo_tape_at(const bo_attention *attention, const bo_geometry *geometry, void *bytes, size_t *size)
{
    bo_carver carver = {.at = bytes};
    bo_tape tape;
    tape.stamp = bo_carve(&carver, BO_STAMP, sizeof *tape.stamp);
    tape.top = bo_carve_floats(&carver, attention->desc.heads * geometry->queries_total);
    tape.sum = bo_carve_floats(&carver, attention->desc.heads * geometry->queries_total);
    tape.states = bo_carve(&carver, geometry->tape_states * attention->desc.key_heads, attention->sums_bytes);
    if (size) *size = carver.bytes;
    return tape;
}

static void plan_tape(const bo_attention *attention, size_t sequences, bo_geometry *out)
{
    const bo_engine *engine = attention->engine;
    for (size_t s = 0; s < sequences && engine->tape_states; s++) {
        bo_sequence *at = &out->sequences[s];
        at->tape_start = out->tape_states;
        out->tape_states += engine->tape_states(attention, &out->plan, at->queries, at->keys);
    }
    bo_tape_at(attention, out, NULL, &out->tape_bytes);
}

/* Chunks do not depend on lengths, and segments grow with the longest sequence, so they are smallest for equal
 * lengths. */
size_t bo_tape_max_bytes(const bo_attention *attention, size_t sequences, size_t queries, size_t keys)
{
    size_t bytes, tokens = bo_max(queries, keys), alike = sequences ? (tokens + sequences - 1) / sequences : 0;
    bo_geometry geometry = {.queries_total = queries, .keys_total = keys};
    bo_attention_plan_make(attention, &(bo_sequence){.queries = alike, .keys = alike}, 1, &geometry.plan);
    if (attention->engine->tape_states)
        geometry.tape_states = (attention->desc.causal ? tokens / geometry.plan.segment : 0) + sequences;
    bo_tape_at(attention, &geometry, NULL, &bytes);
    return bytes;
}

bo_status bo_geometry_make_in(bo_context *context, const bo_attention *attention, const bo_attention_shape *shape,
                              bo_work *work, bo_geometry *out)
{
    *out = (bo_geometry){.work = work};
    BO_TRY(bo_check_reserved(context, "bo_attention_shape", shape->reserved));
    if (shape->key_lengths && !shape->lengths)
        return bo_fail(context, BO_INVALID, "attention: key_lengths requires lengths, found NULL");
    if (shape->key_tokens && shape->lengths)
        return bo_fail(context, BO_INVALID,
                       "attention: key_tokens = %zu cannot be combined with lengths; use key_lengths",
                       shape->key_tokens);
    if (shape->layout != BO_LAYOUT_HEADS_FIRST && shape->layout != BO_LAYOUT_TOKENS_FIRST)
        return bo_fail(context, BO_INVALID, "attention: unknown layout %d", (int)shape->layout);
    out->sequences = bo_work_alloc(context, work, shape->sequences, sizeof *out->sequences, "the sequences of a call");
    if (!out->sequences) return BO_MEMORY;
    bo_status status = fill_sequences(context, attention, shape, out);
    if (status != BO_OK) {
        bo_geometry_free(out);
        return status;
    }
    bo_attention_plan_make(attention, out->sequences, shape->sequences, &out->plan);
    plan_tape(attention, shape->sequences, out);
    return BO_OK;
}

bo_status bo_geometry_make(bo_context *context, const bo_attention *attention, const bo_attention_shape *shape,
                           bo_geometry *out)
{
    return bo_geometry_make_in(context, attention, shape, NULL, out);
}

void bo_geometry_free(bo_geometry *geometry)
{
    bo_work_free(geometry->work, geometry->sequences);
    geometry->sequences = NULL;
}

size_t bo_row_index(const bo_call *call, size_t heads, size_t width, bool keys, size_t sequence, size_t head,
                    size_t *stride)
{
    const bo_sequence *at = &call->sequences[sequence];
    size_t start = keys ? at->key_start : at->query_start, tokens = keys ? at->keys : at->queries;
    bool tokens_first = call->shape->layout == BO_LAYOUT_TOKENS_FIRST;
    *stride = tokens_first ? heads * width : width;
    if (tokens_first) return (start * heads + head) * width;
    /* If packed, the tokens of a head are contiguous over all sequences; otherwise the heads of a sequence are
     * contiguous. */
    size_t total = keys ? call->keys_total : call->queries_total;
    return (call->shape->lengths ? head * total + start : start * heads + head * tokens) * width;
}

bo_rows bo_rows_at(const bo_call *call, const float *array, size_t heads, size_t width, bool keys, size_t sequence,
                   size_t head)
{
    size_t stride;
    if (!array) return (bo_rows){NULL, 0};
    size_t first = bo_row_index(call, heads, width, keys, sequence, head, &stride);
    return (bo_rows){(float *)array + first, stride};
}

void bo_rows_fetch(bo_rows rows, size_t first, size_t end, size_t width)
{
    enum { LINE = 16 }; /* floats in a cache line */
    for (size_t t = first; rows.at && t < end; t++)
        for (size_t j = 0; j < width; j += LINE) __builtin_prefetch(rows.at + t * rows.stride + j, 0, 2);
}

bool bo_rows_finite(const bo_kernels *kernels, size_t rows, size_t width, const float *x, size_t stride)
{
    return stride == width ? kernels->finite(rows * width, x) : kernels->finite_rows(rows, width, x, stride);
}

/* ---- the plan ---------------------------------------------------------------------------------------------------- */

/* The plan: the number of tokens per chunk, and the required memory. Chunks depend on the shape and the cache sizes but
 * never on the number of threads, so that results do not depend on it. */

#if defined(_SC_LEVEL1_DCACHE_SIZE)
enum { LEVEL1 = _SC_LEVEL1_DCACHE_SIZE, LEVEL2 = _SC_LEVEL2_CACHE_SIZE };
#else
enum { LEVEL1 = -1, LEVEL2 = -1 }; /* C libraries other than glibc do not report cache sizes, nor does glibc on ARM */
#endif

static size_t cache_bytes(int name, size_t fallback)
{
    long bytes = sysconf(name);
    return bytes > 0 ? (size_t)bytes : fallback;
}

/* Returns the operations of the forward pass. Explicit keys require 2(d + d_v) operations per pair. */
static double operations(const bo_attention *attention, const bo_sequence *sequences, size_t count)
{
    const bo_attention_desc *d = &attention->desc;
    double heads = (double)d->heads, window = (double)d->window, sum = 0;
    bool caches = attention->cached_keys > 0;
    bo_token_operations token = {0};
    if (attention->engine->operations) token = attention->engine->operations(attention);
    for (size_t s = 0; s < count; s++) {
        double queries = (double)sequences[s].queries, keys = (double)sequences[s].keys;
        double pairs = queries * (d->causal ? (keys + 1) / 2 : keys);
        if (d->window && window < keys) pairs = queries * window - window * (window - 1) / 2;
        if (caches) sum += heads * pairs * 2 * (double)(d->dim + d->value_dim);
        sum += heads * (queries * token.query + keys * token.key + token.sequence);
    }
    return sum;
}

void bo_attention_plan_make(const bo_attention *attention, const bo_sequence *sequences, size_t count,
                            bo_attention_cost *plan)
{
    size_t queries = 0, keys = 0;
    for (size_t s = 0; s < count; s++) {
        if (sequences[s].queries > queries) queries = sequences[s].queries;
        if (sequences[s].keys > keys) keys = sequences[s].keys;
    }
    *plan = (bo_attention_cost){.level1_bytes = cache_bytes(LEVEL1, 32 << 10),
                                .level2_bytes = cache_bytes(LEVEL2, 512 << 10),
                                .tasks = count * attention->desc.key_heads,
                                .keys = keys};
    plan->operations = operations(attention, sequences, count);
    attention->engine->plan(attention, queries, keys, plan);
}

bo_status bo_attention_estimate_arrays(bo_context *context, const bo_attention *attention,
                                       const bo_attention_shape *shape, bo_attention_cost *out)
{
    BO_REQUIRE(context, attention, shape, out);
    bo_geometry geometry;
    BO_TRY(bo_geometry_make(context, attention, shape, &geometry));
    *out = geometry.plan;
    out->tape_bytes = geometry.tape_bytes;
    if (bo_runs_together(context, attention, out))
        out->forward_bytes = attention->engine->together_bytes(attention, out, (size_t)bo_context_threads(context));
    else
        out->forward_bytes *= bo_scratch_count(context, out->tasks);
    out->backward_bytes =
        bo_backward_bytes(context, attention, &geometry.plan) + bo_parameter_bytes(attention, shape->sequences);
    bo_geometry_free(&geometry);
    return BO_OK;
}

/* The plan of a call with fewer sequences, in which all threads work on every head and the memory is largest. Pages
 * that are never touched are not resident. */
static bo_attention_cost few_tasks(bo_context *context, const bo_attention_cost *plan)
{
    bo_attention_cost few = *plan;
    few.tasks = bo_min(plan->tasks, (size_t)bo_context_threads(context) - 1);
    return few;
}

/* Returns the maximum over a step and both methods of the forward pass: one task per worker, or all workers on few
 * heads. */
static size_t max_forward_bytes(bo_context *context, const bo_attention *attention, const bo_attention_cost *plan)
{
    const bo_engine *engine = attention->engine;
    size_t threads = (size_t)bo_context_threads(context), blocks = bo_scratch_count(context, plan->tasks);
    bo_attention_cost few = few_tasks(context, plan);
    size_t together = engine->together && few.tasks ? engine->together_bytes(attention, &few, threads) + 3 * 64 : 0;
    size_t step = bo_work_bytes(blocks, engine->step_bytes(attention, BO_STEP_BLOCK));
    return bo_max(step, bo_max(bo_work_bytes(blocks, plan->forward_bytes), together));
}

static size_t max_backward_bytes(bo_context *context, const bo_attention *attention, const bo_attention_cost *plan)
{
    const bo_engine *engine = attention->engine;
    size_t threads = (size_t)bo_context_threads(context);
    bo_attention_cost few = few_tasks(context, plan);
    size_t together =
        engine->backward_together && few.tasks ? engine->backward_together_bytes(attention, &few, threads) + 3 * 64 : 0;
    return bo_max(bo_padded_bytes(bo_backward_bytes(context, attention, plan)), together);
}

size_t bo_attention_work_bytes(bo_context *context, const bo_attention *attention, size_t sequences, size_t queries,
                               size_t keys, bool backward)
{
    bo_attention_cost plan;
    bo_attention_plan_make(attention, &(bo_sequence){.queries = queries, .keys = keys}, 1, &plan);
    plan.tasks = sequences * attention->desc.key_heads;
    size_t lists = bo_work_bytes(sequences, sizeof(bo_sequence)) + bo_work_bytes(sequences, 2 * sizeof(void *));
    if (!backward) return lists + max_forward_bytes(context, attention, &plan);
    return lists + max_backward_bytes(context, attention, &plan) +
           bo_work_bytes(bo_parameter_bytes(attention, sequences), 1);
}
