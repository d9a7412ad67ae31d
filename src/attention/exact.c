/* Exact softmax attention: tiles of queries over all the keys they see. */
#include "softmax.h"
#include <math.h>
#include <string.h>

/* Everything a task works on. */
typedef struct workspace {
    bo_softmax_tile tile;
    bo_kept fresh;
    bo_softmax_slope slope; /* backward only */
} workspace;

static workspace carve(const bo_attention *attention, const bo_kernels *kernels, size_t longest_keys, bool backward,
                       bo_carver *carver)
{
    workspace work = {.tile = bo_softmax_carve(attention, kernels, carver)};
    work.fresh = bo_softmax_carve_keys(attention, longest_keys, carver);
    if (backward) work.slope = bo_softmax_carve_slope(attention, carver);
    return work;
}

static void plan(const bo_attention *attention, size_t longest_queries, size_t longest_keys, bo_attention_plan *out)
{
    (void)longest_queries;
    bo_carver forward = {NULL, 0}, backward = {NULL, 0};
    carve(attention, NULL, longest_keys, false, &forward);
    carve(attention, NULL, longest_keys, true, &backward);
    out->query_tile = BO_SOFTMAX_TILE;
    out->key_tile = BO_PANEL;
    out->forward_bytes = forward.bytes;
    out->backward_bytes = backward.bytes;
}

/* One (sequence, key head) of a call, ready to go through its tiles. */
typedef struct task {
    const bo_call *call;
    size_t sequence, key_head;
    bo_softmax_keys keys;
    workspace work;
} task;

static task begin(const bo_call *call, size_t sequence, size_t key_head, bool backward, void *scratch)
{
    const bo_attention_desc *desc = &call->attention->desc;
    bo_carver carver = {scratch, 0};
    size_t keys = call->shape->no_keys ? 0 : call->sequences[sequence].keys;
    task t = {.call = call, .sequence = sequence, .key_head = key_head};
    t.work = carve(call->attention, call->kernels, keys, backward, &carver);
    t.work.tile.causal = desc->causal && !call->shape->no_keys; /* a state alone is the past of every query */
    t.work.tile.window = desc->window;
    t.keys = bo_softmax_keys_of(call, sequence, key_head, t.work.fresh);
    return t;
}

static void note(const bo_call *call, bool finite)
{
    if (!finite) atomic_store(call->not_finite, true);
}

/* Rows from `first` on of query head `head` in an array of rows of queries. */
static bo_rows query_rows(const task *t, const float *array, size_t width, size_t head, size_t first)
{
    bo_rows rows = bo_rows_at(t->call, array, t->call->attention->desc.heads, width, false, t->sequence, head);
    if (rows.at) rows.at += first * rows.stride;
    return rows;
}

/* The keys that queries before `end` see are loaded. */
static void load(task *t, size_t end)
{
    note(t->call, bo_softmax_load(&t->keys, t->work.tile.causal ? end : t->keys.count));
}

static void begin_tile(task *t, size_t head, size_t first, size_t end)
{
    const bo_attention_desc *desc = &t->call->attention->desc;
    bo_rows q = query_rows(t, t->call->in->q, desc->dim, head, first);
    note(t->call, bo_softmax_begin(&t->work.tile, t->keys.old + first, end - first, q, desc->scale));
}

static size_t tape_at(const task *t, size_t head, size_t query)
{
    return head * t->call->queries_total + t->call->sequences[t->sequence].query_start + query;
}

/* ---- forward --------------------------------------------------------------------------------------------------- */

/* out = numerator / sum, 0 where no key was seen. */
static bool divide(const bo_softmax_tile *tile, bo_rows out)
{
    bool finite = true;
    for (size_t r = 0; r < tile->rows; r++) {
        float sum = tile->sum[r];
        finite = finite && isfinite(sum);
        tile->kernels->scale(tile->value_dim, sum > 0.0f ? 1.0f / sum : 0.0f, tile->numerator + r * tile->value_dim,
                             out.at + r * out.stride);
    }
    return finite;
}

static void record(const task *t, size_t head, size_t first)
{
    const bo_softmax_tile *tile = &t->work.tile;
    float *top = t->call->tape.top + tape_at(t, head, first), *sum = t->call->tape.sum + tape_at(t, head, first);
    for (size_t r = 0; r < tile->rows; r++) {
        top[r] = tile->sum[r] > 0.0f ? tile->top[r] : 0.0f;
        sum[r] = tile->sum[r] > 0.0f ? tile->sum[r] : INFINITY;
    }
}

static void forward(const bo_call *call, size_t sequence, size_t key_head, void *scratch)
{
    size_t group = call->attention->group, queries = call->sequences[sequence].queries;
    task t = begin(call, sequence, key_head, false, scratch);
    for (size_t first = 0, end; first < queries; first = end) {
        end = bo_softmax_tile_end(t.keys.old, first, queries);
        load(&t, end);
        for (size_t head = key_head * group; head < (key_head + 1) * group; head++) {
            begin_tile(&t, head, first, end);
            bo_softmax_add_keys(&t.work.tile, &t.keys);
            note(call, divide(&t.work.tile, query_rows(&t, call->out, call->attention->desc.value_dim, head, first)));
            if (call->tape.top) record(&t, head, first);
        }
    }
    bo_softmax_keep(&t.keys);
}

/* ---- backward -------------------------------------------------------------------------------------------------- */

/* top, dO / sum and δ / sum of the tile's rows. */
static void begin_slope(task *t, size_t head, size_t first)
{
    const bo_call *call = t->call;
    const bo_kernels *kernels = call->kernels;
    const bo_softmax_tile *tile = &t->work.tile;
    size_t width = tile->value_dim, at = tape_at(t, head, first);
    bo_rows out = query_rows(t, call->out, width, head, first), dout = query_rows(t, call->dout, width, head, first);
    for (size_t r = 0; r < tile->rows; r++) {
        const float *row = dout.at + r * dout.stride;
        float inverse = 1.0f / call->tape.sum[at + r];
        tile->top[r] = call->tape.top[at + r];
        kernels->scale(width, inverse, row, t->work.slope.dout + r * width);
        t->work.slope.delta[r] = (float)kernels->dot(width, row, out.at + r * out.stride) * inverse;
    }
    t->work.slope.dq = query_rows(t, call->gradients->q, tile->dim, head, first);
}

static void zero_rows(bo_rows rows, size_t count, size_t width)
{
    for (size_t r = 0; rows.at && r < count; r++) memset(rows.at + r * rows.stride, 0, width * sizeof *rows.at);
}

static void scale_rows(const bo_kernels *kernels, bo_rows rows, size_t count, size_t width, double factor)
{
    for (size_t r = 0; rows.at && r < count; r++) {
        float *row = rows.at + r * rows.stride;
        kernels->scale(width, (float)factor, row, row);
    }
}

static void backward_tile(task *t, size_t head, size_t first, size_t end)
{
    const bo_attention_desc *desc = &t->call->attention->desc;
    bo_rows dq = query_rows(t, t->call->gradients->q, desc->dim, head, first);
    zero_rows(dq, end - first, desc->dim);
    if (!t->call->dout) return;
    begin_tile(t, head, first, end);
    begin_slope(t, head, first);
    bo_softmax_add_keys_slope(&t->work.tile, &t->work.slope, &t->keys);
    scale_rows(t->call->kernels, dq, end - first, desc->dim, desc->scale);
}

static void backward(const bo_call *call, size_t sequence, size_t key_head, float *parameters, void *scratch)
{
    (void)parameters;
    size_t group = call->attention->group, queries = call->sequences[sequence].queries;
    task t = begin(call, sequence, key_head, true, scratch);
    bo_softmax_begin_slopes(&t.keys);
    for (size_t first = 0, end; first < queries; first = end) {
        end = bo_softmax_tile_end(t.keys.old, first, queries);
        load(&t, end);
        for (size_t head = key_head * group; head < (key_head + 1) * group; head++) backward_tile(&t, head, first, end);
    }
}

/* ---- a token at a time ----------------------------------------------------------------------------------------- */

static size_t step_bytes(const bo_attention *attention, size_t count)
{
    (void)count;
    bo_carver carver = {NULL, 0};
    bo_softmax_carve(attention, NULL, &carver);
    return carver.bytes;
}

/* Stores the token's key and value; how many tokens the state has then. False: they are not finite. */
static bool store_token(const bo_attention *attention, const bo_attention_inputs *in, size_t row, const bo_kept *kept,
                        size_t *tokens)
{
    const bo_kernels *kernels = attention->kernels;
    bo_rows k = {(float *)in->k + row * kept->dim, kept->dim};
    bo_rows v = {(float *)in->v + row * kept->value_dim, kept->value_dim};
    bo_kept_append(kernels, kept, (*tokens)++, 1, k, v);
    return kernels->finite(kept->dim, k.at) && kernels->finite(kept->value_dim, v.at);
}

/* The query heads of a group are the rows of one tile, so that keys and values are read once for all of them. */
static void step(const bo_attention *attention, const bo_attention_inputs *in, size_t first, size_t count,
                 size_t key_head, void *const *states, float *out, atomic_bool *not_finite, void *scratch)
{
    const bo_attention_desc *desc = &attention->desc;
    bo_carver carver = {scratch, 0};
    bo_softmax_tile tile = bo_softmax_carve(attention, attention->kernels, &carver);
    for (size_t sequence = first; sequence < first + count; sequence++) {
        bo_kept kept = bo_kept_in(attention, states[sequence], key_head);
        size_t tokens = (size_t)((const bo_state_header *)states[sequence])->tokens;
        size_t head = sequence * desc->heads + key_head * attention->group;
        bool finite = !in->k || store_token(attention, in, sequence * desc->key_heads + key_head, &kept, &tokens);
        for (size_t row = 0, rows; row < attention->group; row += rows) {
            rows = attention->group - row < BO_SOFTMAX_TILE ? attention->group - row : BO_SOFTMAX_TILE;
            bo_rows q = {(float *)in->q + (head + row) * desc->dim, desc->dim};
            finite = bo_softmax_begin(&tile, 0, rows, q, desc->scale) && finite;
            bo_softmax_add(&tile, &kept, bo_kept_first(tokens, kept.ring), tokens);
            finite = divide(&tile, (bo_rows){out + (head + row) * desc->value_dim, desc->value_dim}) && finite;
        }
        if (!finite) atomic_store(not_finite, true);
    }
}

const bo_engine bo_engine_exact = {
    .plan = plan, .forward = forward, .backward = backward, .step_bytes = step_bytes, .step = step};
