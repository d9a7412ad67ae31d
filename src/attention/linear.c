/* The engine of the kinds with features: forward of one key head, and step. */
#include <math.h>
#include <string.h>
#include "linear.h"
#include "linear_backward.h"

/* ---- a sequence -------------------------------------------------------------------------------------------------- */

/* The engine of the kinds with features: forward and step. */

/* ---- plan -------------------------------------------------------------------------------------------------------- */

/* Returns estimated cycles per token, from operation counts. A chunk has (C + 16)(D + d_v) operations per token at 32
 * per cycle (bands of 16 rows approximate the triangle; D is the depth of a row). Each chunk also reads and writes the
 * sums at 8 floats per cycle, and calls take about 1500 cycles. */
static double chunk_cost(const bo_attention *attention, double depth, size_t chunk)
{
    double features = (double)attention->count, values = (double)attention->desc.value_dim, tokens = (double)chunk;
    return (tokens + BO_BAND) * (depth + values) / 32 + (features * values / 8 + 1500) / tokens;
}

/* In bfloat16 the sums are packed for every chunk. Products are cheap compared with packing and exponentials. */
enum { BO_CHUNK_BF16 = BO_SIZE(64, 16) };

/* Returns the cheapest chunk for which three times its rows fit in half of the second-level cache. */
static size_t choose_chunk(const bo_attention *attention, const bo_attention_cost *plan)
{
    size_t best = 16, depth = bo_linear_depth(attention);
    if (attention->desc.chunk) return attention->desc.chunk;
    if (attention->precision == BO_PRECISION_BFLOAT16) return BO_CHUNK_BF16;
    for (size_t chunk = 32; chunk <= 128; chunk *= 2) {
        if (3 * chunk * depth * sizeof(float) > plan->level2_bytes / 2) break;
        if (!attention->desc.causal ||
            chunk_cost(attention, (double)depth, chunk) < chunk_cost(attention, (double)depth, best))
            best = chunk;
    }
    return best;
}

bo_linear_forward bo_linear_forward_make(const bo_attention *attention, const bo_attention_inputs *in, size_t key_head,
                                         size_t chunk, bo_carver *carver)
{
    bo_linear_forward work = {.linear = bo_linear_make(attention, in, key_head, chunk, carver)};
    work.n = bo_carve_floats(carver, chunk * attention->desc.value_dim);
    work.denominator = bo_carve_floats(carver, chunk);
    work.top = bo_carve_floats(carver, chunk);
    return work;
}

void bo_linear_plan(const bo_attention *attention, size_t longest_queries, size_t longest_keys, bo_attention_cost *plan)
{
    size_t longest = longest_queries > longest_keys ? longest_queries : longest_keys;
    bo_carver forward = {0};
    plan->chunk = choose_chunk(attention, plan);
    plan->segment = bo_segment(plan->chunk, longest ? longest : 1);
    bo_linear_forward_make(attention, NULL, 0, plan->chunk, &forward);
    plan->forward_bytes = forward.bytes;
    plan->backward_bytes = bo_linear_backward_bytes(attention, plan);
}

/* ---- forward ----------------------------------------------------------------------------------------------------- */

bo_linear_task bo_linear_task_make(const bo_call *call, size_t sequence, size_t key_head)
{
    bo_key_stream stream = bo_stream_of(call, sequence, key_head);
    return (bo_linear_task){.call = call,
                            .at = &call->sequences[sequence],
                            .sequence = sequence,
                            .key_head = key_head,
                            .k = stream.k,
                            .v = stream.v,
                            .gate = stream.gate};
}

/* Log scales include the norm of the row. They are NaN or infinite if the row is, so that the row needs no separate
 * check. */
static bool rows_checked_by_log_scale(const bo_linear *linear)
{
    return linear->attention->scaled && bo_row_transform_is_none(&linear->mapper.transform);
}

bool bo_linear_map_keys(const bo_linear_task *at, bo_linear *linear, size_t first, size_t keys, float *mapped,
                        float *log_scale)
{
    const bo_attention_desc *d = &at->call->attention->desc;
    const float *k = bo_rows_from(at->k, first).at, *v = bo_rows_from(at->v, first).at;
    if (!(rows_checked_by_log_scale(linear) || bo_rows_finite(linear->kernels, keys, d->dim, k, at->k.stride)) ||
        !bo_rows_finite(linear->kernels, keys, d->value_dim, v, at->v.stride))
        return false;
    bo_linear_map(linear, BO_OF_KEYS, keys, k, at->k.stride, mapped, log_scale);
    return bo_log_scales_fit(keys, log_scale);
}

static bool load_keys(const bo_linear_task *at, bo_linear *linear, size_t first, size_t keys)
{
    if (!bo_linear_map_keys(at, linear, first, keys, linear->fk, linear->lk)) return false;
    bo_linear_begin_chunk(
        linear, &(bo_key_rows){.keys = keys, .gate = bo_rows_from(at->gate, first).at, .gate_stride = at->gate.stride});
    return true;
}

void bo_linear_record(const bo_linear_task *at, const bo_linear *linear, size_t first)
{
    const bo_call *call = at->call;
    if (call->tape.top && first && first % call->plan.segment == 0)
        bo_sums_copy(call->attention, bo_tape_sums(call, at->sequence, at->key_head, first / call->plan.segment - 1),
                     linear->sums);
}

bool bo_linear_forward_queries(const bo_linear_task *at, bo_linear_forward *work, size_t first, size_t queries)
{
    const bo_call *call = at->call;
    const bo_attention *attention = call->attention;
    const bo_attention_desc *d = &attention->desc;
    bo_linear *linear = &work->linear;
    if (call->shape->no_queries) return true;
    if (linear->keys && queries) bo_linear_transpose(linear);
    for (size_t g = 0; g < attention->group; g++) {
        size_t head = at->key_head * attention->group + g;
        bo_rows q = bo_rows_at(call, call->in->q, d->heads, d->dim, false, at->sequence, head);
        bo_rows out = bo_rows_at(call, call->out, d->heads, d->value_dim, false, at->sequence, head);
        const float *rows = bo_rows_from(q, first).at;
        if (!rows_checked_by_log_scale(linear) && !bo_rows_finite(linear->kernels, queries, d->dim, rows, q.stride))
            return false;
        bo_linear_map_queries(linear, queries, rows, q.stride);
        if (!bo_log_scales_fit(queries, linear->lq)) return false;
        bo_rows_fetch(q, first + queries, bo_min(first + queries + linear->chunk, at->at->queries), d->dim);
        bo_linear_queries(linear, queries, bo_rows_from(at->v, first).at, at->v.stride, work->n, d->value_dim,
                          work->denominator, work->top);
        size_t tape = head * call->queries_total + at->at->query_start + first;
        for (size_t i = 0; i < queries; i++) {
            if (!bo_linear_finite(attention, work->denominator[i], work->n + i * d->value_dim)) return false;
            float sum = bo_normalize(attention, work->denominator[i], work->n + i * d->value_dim,
                                     out.at + (first + i) * out.stride);
            if (!call->tape.top) continue;
            call->tape.top[tape + i] = work->top[i];
            call->tape.sum[tape + i] = sum;
        }
    }
    return true;
}

static bool forward_causal(const bo_linear_task *at, bo_linear_forward *work)
{
    size_t chunk = work->linear.chunk, tokens = at->at->keys;
    for (size_t first = 0; first < tokens; first += chunk) {
        size_t rows = bo_min(chunk, tokens - first);
        if (bo_pass_stops(at->call->watch, rows)) return false;
        bo_linear_record(at, &work->linear, first);
        if (!load_keys(at, &work->linear, first, rows)) return false;
        size_t next = first + rows, end = bo_min(next + chunk, tokens);
        bo_rows_fetch(at->k, next, end, at->call->attention->desc.dim);
        if (!bo_linear_forward_queries(at, work, first, rows)) return false;
        bo_rows_fetch(at->v, next, end, at->call->attention->desc.value_dim);
        bo_linear_absorb(&work->linear, bo_rows_from(at->v, first).at, at->v.stride);
    }
    return true;
}

static bool forward_bidirectional(const bo_linear_task *at, bo_linear_forward *work)
{
    size_t chunk = work->linear.chunk;
    for (size_t first = 0; first < at->at->keys; first += chunk) {
        if (bo_pass_stops(at->call->watch, bo_min(chunk, at->at->keys - first))) return false;
        if (!load_keys(at, &work->linear, first, bo_min(chunk, at->at->keys - first))) return false;
        bo_linear_absorb(&work->linear, bo_rows_from(at->v, first).at, at->v.stride);
    }
    if (at->call->tape.top)
        bo_sums_copy(at->call->attention, bo_tape_sums(at->call, at->sequence, at->key_head, 0), work->linear.sums);
    for (size_t first = 0; first < at->at->queries; first += chunk) {
        size_t rows = bo_min(chunk, at->at->queries - first);
        if (bo_pass_stops(at->call->watch, rows) || !bo_linear_forward_queries(at, work, first, rows)) return false;
    }
    return true;
}

static void forward(const bo_call *call, size_t sequence, size_t key_head, void *scratch)
{
    const bo_attention *attention = call->attention;
    bo_carver carver = {.at = scratch};
    bo_linear_forward work = bo_linear_forward_make(attention, call->in, key_head, call->plan.chunk, &carver);
    bo_linear_task at = bo_linear_task_make(call, sequence, key_head);
    bo_linear_begin(&work.linear, call->initial ? call->initial[sequence] : NULL, key_head);
    if (!(bo_linear_sweeps(call, sequence) ? forward_causal : forward_bidirectional)(&at, &work)) {
        bo_note_stop(call);
        return;
    }
    if (call->final)
        bo_sums_copy(attention, bo_state_sums(attention, call->final[sequence], key_head), work.linear.sums);
}

bo_token_operations bo_linear_operations(const bo_attention *attention)
{
    const bo_attention_desc *d = &attention->desc;
    double dim = (double)d->dim, values = (double)d->value_dim, features = (double)attention->count;
    bool drawn = bo_features_frequencies(attention->features[0]) > 0,
         closed = bo_features_closed(attention->features[0]);
    double map = (drawn ? 2 * (double)d->features.dim * features : 0) + (d->rank ? 2 * (double)d->rank * dim : 0);
    double scores = d->causal ? BO_WITHIN_CHUNK * ((closed ? dim : features) + values) : 0;
    return (bo_token_operations){.query = map + 2 * features * values + scores, .key = map + 2 * features * values};
}

/* ---- steps ------------------------------------------------------------------------------------------------------- */

/* Decoding: one token for some sequences of one key head. Their features are computed together, as in a chunk; then
 * each state is read and written once. */

bo_linear_step_work bo_linear_step_make(const bo_attention *attention, const bo_attention_inputs *in, size_t key_head,
                                        size_t count, bo_carver *carver)
{
    bo_linear_step_work work = {.mapper = bo_mapper_make(attention, in, key_head, count, carver)};
    work.mapper.transform.products.panels = NULL; /* packing M takes longer than its product with few rows */
    work.fk = bo_carve_floats(carver, count * attention->count);
    work.lk = bo_carve_floats(carver, count);
    work.fq = bo_carve_floats(carver, attention->group * count * attention->count);
    work.lq = bo_carve_floats(carver, attention->group * count);
    work.n = bo_carve_floats(carver, attention->group * attention->desc.value_dim);
    return work;
}

void bo_linear_step_queries(const bo_attention *attention, const bo_linear_step_work *work,
                            const bo_attention_inputs *in, size_t first, size_t count, size_t key_head)
{
    const bo_attention_desc *d = &attention->desc;
    for (size_t g = 0; g < attention->group; g++) {
        const float *q = in->q + (first * d->heads + key_head * attention->group + g) * d->dim;
        bo_mapper_features(&work->mapper, BO_OF_QUERIES, count, q, d->heads * d->dim,
                           work->fq + g * count * attention->count, work->lq + g * count);
    }
}

static size_t linear_step_bytes(const bo_attention *attention, size_t count)
{
    bo_carver carver = {0};
    bo_linear_step_make(attention, NULL, 0, count, &carver);
    return carver.bytes;
}

void bo_sums_step(const bo_attention *attention, bo_sums sums, const bo_sums_token *token, float *fk, const float *v,
                  const float *fq, size_t ldq, float *n)
{
    const bo_kernels *kernels = attention->kernels;
    size_t features = attention->count, values = attention->desc.value_dim;
    float decay = token ? token->decay : 1;
    if (token) *sums.log_scale = token->log_scale;
    if (decay != 1) kernels->scale(features, decay, sums.z, sums.z);
    if (decay != 1 && !v) kernels->scale(features * values, decay, sums.s, sums.s);
    if (v) {
        if (token->weight != 1) kernels->scale(features, token->weight, fk, fk);
        kernels->axpy(features, 1, fk, sums.z);
    }
    kernels->state_step(features, values, v != NULL, decay, fk, v, sums.s, attention->group, fq, ldq, n, values);
}

/* Updates the state with its token and computes the outputs of every query of the group. False: overflow. */
static bool step_one(const bo_attention *attention, bo_linear_step_work *work, size_t row, size_t count, const float *v,
                     const float *log_gate, bo_sums sums, float *out)
{
    size_t features = attention->count, values = attention->desc.value_dim;
    bo_sums_token token = {.decay = 1};
    if (v) {
        double log_key = (double)work->lk[row] + (double)bo_log_input(attention, bo_log_gate(log_gate));
        token = bo_linear_token(attention, *sums.log_scale, log_key, log_gate);
    }
    bo_sums_step(attention, sums, v ? &token : NULL, work->fk + row * features, v, work->fq + row * features,
                 count * features, work->n);
    for (size_t g = 0; g < attention->group; g++) {
        const float *fq = work->fq + (g * count + row) * features;
        float denominator = attention->kernels->dot_f32(features, fq, sums.z);
        if (!bo_linear_finite(attention, denominator, work->n + g * values)) return false;
        bo_normalize(attention, denominator, work->n + g * values, out + g * values);
    }
    return true;
}

const float *bo_step_gate(const bo_attention *attention, const bo_attention_inputs *in, size_t key_head, size_t at)
{
    if (attention->desc.gate == BO_GATE_FIXED) return bo_fixed_gate(attention, in, key_head);
    return in->log_gate ? in->log_gate + at : NULL;
}

static bool queries_fit(const bo_linear_step_work *work, size_t group, size_t count, size_t row)
{
    bool fit = true;
    for (size_t g = 0; g < group; g++) fit = fit && bo_log_scales_fit(1, work->lq + g * count + row);
    return fit;
}

static void linear_step(const bo_attention *attention, const bo_attention_inputs *in, size_t first, size_t count,
                        size_t key_head, void *const *states, float *out, atomic_bool *not_finite, void *scratch)
{
    const bo_attention_desc *d = &attention->desc;
    bo_carver carver = {.at = scratch};
    bo_linear_step_work work = bo_linear_step_make(attention, in, key_head, count, &carver);
    size_t head = key_head * attention->group;
    if (in->k) {
        const float *k = in->k + (first * d->key_heads + key_head) * d->dim;
        bo_mapper_features(&work.mapper, BO_OF_KEYS, count, k, d->key_heads * d->dim, work.fk, work.lk);
    }
    bo_linear_step_queries(attention, &work, in, first, count, key_head);
    for (size_t row = 0; row < count; row++) {
        size_t at = (first + row) * d->key_heads + key_head;
        bo_sums sums = bo_state_sums(attention, states[first + row], key_head);
        bool fit = (!in->k || bo_log_scales_fit(1, work.lk + row)) && queries_fit(&work, attention->group, count, row);
        if (!fit || !step_one(attention, &work, row, count, in->k ? in->v + at * d->value_dim : NULL,
                              bo_step_gate(attention, in, key_head, at), sums,
                              out + ((first + row) * d->heads + head) * d->value_dim))
            atomic_store(not_finite, true);
    }
}

/* ---- the engine -------------------------------------------------------------------------------------------------- */

const bo_engine bo_engine_linear = {
    .rounds = true,
    .plan = bo_linear_plan,
    .forward = forward,
    .together = bo_linear_waves,
    .together_pays = bo_linear_waves_pay,
    .together_bytes = bo_linear_waves_bytes,
    .backward_together = bo_linear_waves_backward,
    .backward_together_bytes = bo_linear_waves_backward_bytes,
    .backward = bo_linear_backward,
    .tape_states = bo_segment_states,
    .step_bytes = linear_step_bytes,
    .step = linear_step,
    .operations = bo_linear_operations,
};
