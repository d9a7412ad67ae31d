/* Softmax attention: tiles of queries over all keys that they see, and their gradients. */
#include "exact.h"
#include "parameters.h"
#include <math.h>
#include <string.h>
#include "work.h"

/* ---- backward ---------------------------------------------------------------------------------------------------- */

/* Returns the weight of softmax keys: mix for HYBRID, 1 for SOFTMAX. */
static float mix_of(const bo_call *call, size_t head)
{
    return call->in->mix ? call->in->mix[head] : 1.0f;
}

/* True if later products with dO / sum and δ / sum cannot overflow. */
static bool slope_fits(const bo_kernels *kernels, size_t width, const float *dout, float delta)
{
    double square = kernels->dot(width, dout, dout);
    return fabsf(delta) <= BO_MAX_GRADIENT && square <= (double)BO_MAX_GRADIENT * (double)BO_MAX_GRADIENT;
}

/* Computes top, dO / sum and δ / sum of the tile's rows. A clamped denominator is a constant: δ = 0. */
static void begin_gradient(bo_exact *work, size_t head, size_t first)
{
    const bo_call *call = work->call;
    const bo_kernels *kernels = call->kernels;
    const bo_softmax_tile *tile = &work->tile;
    size_t width = tile->value_dim, at = bo_exact_tape(work, head, first);
    float log_mix = logf(mix_of(call, head));
    bo_rows out = bo_exact_rows(work, call->out, width, head, first);
    bo_rows dout = bo_exact_rows(work, call->dout, width, head, first);
    for (size_t r = 0; r < tile->rows; r++) {
        const float *row = dout.at + r * dout.stride;
        float sum = call->tape.sum[at + r], inverse = 1.0f / fabsf(sum);
        tile->top[r] = call->tape.top[at + r] - log_mix;
        float *scaled = work->gradient.dout + r * width, *delta = &work->gradient.delta[r];
        kernels->scale(width, inverse, row, scaled);
        *delta = sum > 0.0f ? (float)kernels->dot(width, row, out.at + r * out.stride) * inverse : 0.0f;
        if (slope_fits(kernels, width, scaled, *delta)) continue;
        memset(scaled, 0, width * sizeof *scaled);
        *delta = 0.0f;
    }
    bo_exact_note(call, bo_rows_finite(kernels, tile->rows, width, dout.at, dout.stride));
}

void bo_exact_zero(bo_rows rows, size_t count, size_t width)
{
    for (size_t r = 0; rows.at && r < count; r++) memset(rows.at + r * rows.stride, 0, width * sizeof *rows.at);
}

void bo_exact_scale(const bo_kernels *kernels, bo_rows rows, size_t count, size_t width, double factor)
{
    for (size_t r = 0; rows.at && r < count; r++) {
        float *row = rows.at + r * rows.stride;
        kernels->scale(width, (float)factor, row, row);
    }
}

void bo_exact_begin_tile(bo_exact *work, size_t head, size_t first, size_t end, double *total)
{
    const bo_call *call = work->call;
    work->gradient.dq = bo_exact_rows(work, call->gradients->q, call->attention->desc.dim, head, first);
    work->gradient.total = total;
    bo_exact_fill(work, head, first, end);
    begin_gradient(work, head, first);
}

/* Processes queries first … end - 1 of a head and adds Σ dS to *total. */
static void backward_tile(bo_exact *work, size_t head, size_t first, size_t end, double *total)
{
    const bo_call *call = work->call;
    const bo_attention_desc *desc = &call->attention->desc;
    bo_exact_zero(bo_exact_rows(work, call->gradients->q, desc->dim, head, first), end - first, desc->dim);
    if (!call->dout) return;
    bo_exact_begin_tile(work, head, first, end, total);
    bo_softmax_add_keys_gradient(&work->tile, &work->gradient, &work->keys);
    bo_exact_scale(call->kernels, work->gradient.dq, end - first, desc->dim, desc->scale);
}

void bo_exact_backward(const bo_call *call, size_t sequence, size_t key_head, float *parameters, void *scratch)
{
    size_t group = call->attention->group, queries = call->sequences[sequence].queries;
    size_t mix = bo_parameter_offset(call->attention, BO_PARAMETER_MIX);
    bool mixes = call->gradients->mix != NULL;
    bo_exact work = bo_exact_begin(call, sequence, key_head, BO_SOFTMAX_TILE, true, scratch);
    bo_softmax_begin_gradients(&work.keys);
    for (size_t first = 0, end; first < queries; first = end) {
        end = bo_softmax_tile_end(work.keys.old, first, queries);
        if (bo_pass_stops(call->watch, end - first)) return;
        bo_exact_load(&work, end);
        for (size_t g = 0; g < group; g++) {
            size_t head = key_head * group + g;
            double total = 0.0;
            backward_tile(&work, head, first, end, mixes ? &total : NULL);
            if (mixes) parameters[mix + g] += (float)(total / (double)mix_of(call, head));
        }
    }
}

/* ---- forward and step -------------------------------------------------------------------------------------------- */

/* Softmax attention: tiles of queries over all keys that they see. */

/* Weights up to exp(slack) cannot overflow, and rows are rarely rescaled. */
static const float slack = 4.0f;

static bo_exact carve(const bo_attention *attention, size_t longest, size_t span, bool backward, bo_carver *carver)
{
    bo_exact work = {.tile = bo_softmax_carve(attention, carver)};
    work.keys.fresh = bo_softmax_carve_keys(attention, longest, span, carver);
    if (backward) work.gradient = bo_softmax_carve_gradient(attention, carver);
    return work;
}

size_t bo_exact_bytes(const bo_attention *attention, size_t longest, size_t span, bool backward)
{
    bo_carver carver = {NULL, 0};
    carve(attention, longest, span, backward, &carver);
    return carver.bytes;
}

static void plan(const bo_attention *attention, size_t longest_queries, size_t longest_keys, bo_attention_cost *out)
{
    (void)longest_queries;
    out->query_tile = BO_SOFTMAX_TILE;
    out->key_tile = BO_PANEL;
    out->forward_bytes = bo_exact_bytes(attention, longest_keys, BO_SOFTMAX_TILE, false);
    out->backward_bytes = bo_exact_bytes(attention, longest_keys, BO_SOFTMAX_TILE, true);
}

void bo_exact_open(const bo_call *call, size_t sequence, size_t key_head, bo_exact *work)
{
    const bo_attention_desc *desc = &call->attention->desc;
    work->call = call;
    work->sequence = sequence;
    work->key_head = key_head;
    work->keys = bo_softmax_keys_of(call, sequence, key_head, work->keys.fresh);
    work->tile.causal = desc->causal && work->keys.count; /* without new keys, all keys precede every query */
    work->tile.window = desc->window;
}

bo_exact bo_exact_begin(const bo_call *call, size_t sequence, size_t key_head, size_t span, bool backward,
                        void *scratch)
{
    bo_carver carver = {scratch, 0};
    bo_exact work = carve(call->attention, call->sequences[sequence].keys, span, backward, &carver);
    bo_exact_open(call, sequence, key_head, &work);
    return work;
}

void bo_exact_note(const bo_call *call, bool finite)
{
    if (!finite) atomic_store(call->not_finite, true);
}

bo_rows bo_exact_rows(const bo_exact *work, const float *array, size_t width, size_t head, size_t first)
{
    size_t heads = work->call->attention->desc.heads;
    return bo_rows_from(bo_rows_at(work->call, array, heads, width, false, work->sequence, head), first);
}

size_t bo_exact_tape(const bo_exact *work, size_t head, size_t query)
{
    return head * work->call->queries_total + work->call->sequences[work->sequence].query_start + query;
}

void bo_exact_load(bo_exact *work, size_t end)
{
    bo_exact_note(work->call, bo_softmax_load(&work->keys, work->tile.causal ? end : work->keys.count));
}

void bo_exact_fill(bo_exact *work, size_t head, size_t first, size_t end)
{
    const bo_call *call = work->call;
    const bo_attention_desc *desc = &call->attention->desc;
    bo_rows q = bo_exact_rows(work, call->in->q, desc->dim, head, first);
    bo_exact_note(call, bo_softmax_begin(&work->tile, work->keys.old + first, end - first, q, desc->scale));
}

/* ---- forward ----------------------------------------------------------------------------------------------------- */

/* Computes out = numerator / sum, 0 without keys. False: a score was too large. */
static bool divide(const bo_softmax_tile *tile, bo_rows out)
{
    bool finite = true;
    for (size_t r = 0; r < tile->rows; r++) {
        float sum = tile->sum[r];
        finite =
            finite && isfinite(sum) && tile->kernels->finite(tile->value_dim, tile->numerator + r * tile->value_dim);
        tile->kernels->scale(tile->value_dim, sum > 0.0f ? 1.0f / sum : 0.0f, tile->numerator + r * tile->value_dim,
                             out.at + r * out.stride);
    }
    return finite;
}

static void record(const bo_exact *work, size_t head, size_t first)
{
    const bo_tape *tape = &work->call->tape;
    size_t at = bo_exact_tape(work, head, first);
    for (size_t r = 0; r < work->tile.rows; r++) {
        bool visible = work->tile.sum[r] > 0.0f;
        tape->top[at + r] = visible ? work->tile.top[r] : 0.0f;
        tape->sum[at + r] = visible ? work->tile.sum[r] : INFINITY;
    }
}

void bo_exact_forward_queries(bo_exact *work, size_t first, size_t end, bool last)
{
    work->tile.slack = slack;
    const bo_call *call = work->call;
    size_t group = call->attention->group, next;
    for (; first < end; first = next) {
        next = bo_softmax_tile_end(work->keys.old, first, end);
        if (bo_pass_stops(call->watch, next - first)) return;
        bo_exact_load(work, next);
        for (size_t head = work->key_head * group; head < (work->key_head + 1) * group; head++) {
            bo_exact_fill(work, head, first, next);
            bo_softmax_add_keys(&work->tile, &work->keys);
            bo_exact_note(call, divide(&work->tile, bo_exact_rows(work, call->out, work->tile.value_dim, head, first)));
            if (call->tape.top) record(work, head, first);
        }
    }
    if (last) bo_exact_load(work, work->keys.count);
}

static void forward(const bo_call *call, size_t sequence, size_t key_head, void *scratch)
{
    bo_exact work = bo_exact_begin(call, sequence, key_head, BO_SOFTMAX_TILE, false, scratch);
    bo_exact_forward_queries(&work, 0, call->sequences[sequence].queries, true);
    bo_softmax_store_keys(&work.keys);
}

/* ---- one token at a time ----------------------------------------------------------------------------------------- */

static size_t step_bytes(const bo_attention *attention, size_t count)
{
    (void)count;
    bo_carver carver = {NULL, 0};
    bo_softmax_carve(attention, &carver);
    return carver.bytes;
}

/* The query heads of a group are the rows of a tile, so that keys and values are read once for all of them. */
static void step(const bo_attention *attention, const bo_attention_inputs *in, size_t first, size_t count,
                 size_t key_head, void *const *states, float *out, atomic_bool *not_finite, void *scratch)
{
    const bo_attention_desc *desc = &attention->desc;
    bo_carver carver = {scratch, 0};
    bo_softmax_tile tile = bo_softmax_carve(attention, &carver);
    bo_softmax_unpacked(&tile);
    tile.slack = slack;
    for (size_t sequence = first; sequence < first + count; sequence++) {
        bo_kv_cache kept = bo_kv_cache_in(attention, states[sequence], key_head);
        size_t tokens = bo_kv_cache_token(attention, in, sequence, key_head, states[sequence]);
        size_t head = sequence * desc->heads + key_head * attention->group;
        for (size_t row = 0, rows; row < attention->group; row += rows) {
            rows = attention->group - row < BO_SOFTMAX_TILE ? attention->group - row : BO_SOFTMAX_TILE;
            bo_rows q = {(float *)in->q + (head + row) * desc->dim, desc->dim};
            bool finite = bo_softmax_begin(&tile, 0, rows, q, desc->scale);
            bo_softmax_add(&tile, &kept, bo_kv_cache_first(tokens, kept.ring), tokens);
            finite = divide(&tile, (bo_rows){out + (head + row) * desc->value_dim, desc->value_dim}) && finite;
            if (!finite) atomic_store(not_finite, true);
        }
    }
}

const bo_engine bo_engine_exact = {.rounds = true,
                                   .plan = plan,
                                   .forward = forward,
                                   .together = bo_exact_waves,
                                   .together_pays = bo_exact_waves_pay,
                                   .together_bytes = bo_exact_waves_bytes,
                                   .backward_together = bo_exact_waves_backward,
                                   .backward_together_bytes = bo_exact_waves_backward_bytes,
                                   .backward = bo_exact_backward,
                                   .step_bytes = step_bytes,
                                   .step = step};
