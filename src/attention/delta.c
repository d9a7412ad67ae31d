/* The engine of the delta rule: chunks, forward and step. delta.h has the formulas. */
#include <assert.h>
#include <math.h>
#include <string.h>
#include "delta.h"
#include "linear.h"

/* ---- a chunk ----------------------------------------------------------------------------------------------------- */

bo_delta bo_delta_make(const bo_attention *attention, const bo_attention_inputs *in, size_t key_head, size_t chunk,
                       bo_carver *carver)
{
    const bo_attention_desc *d = &attention->desc;
    size_t dim = d->dim, values = d->value_dim;
    bo_delta work = {.attention = attention,
                     .kernels = attention->kernels,
                     .chunk = chunk,
                     .dim = dim,
                     .values = values,
                     .gated = d->gate != BO_GATE_NONE};
    work.transform = bo_row_transform_make(attention, in, key_head, carver);
    work.s = bo_carve_floats(carver, dim * values);
    work.kt = bo_carve_floats(carver, dim * chunk);
    work.b = bo_carve(carver, chunk, sizeof(double));
    work.decay = bo_carve_floats(carver, work.gated ? chunk * chunk : 0);
    work.remains = bo_carve_floats(carver, chunk);
    work.weights = bo_carve_floats(carver, chunk);
    work.products = bo_carve_floats(carver, chunk * chunk);
    work.x = bo_carve_floats(carver, chunk * values);
    work.u = bo_carve_floats(carver, chunk * values);
    work.learned = bo_carve_floats(carver, chunk * values);
    work.q = bo_carve_floats(carver, chunk * dim);
    work.scores = bo_carve_floats(carver, chunk * chunk);
    work.t = bo_carve_floats(carver, chunk * dim);
    for (size_t i = 0; carver->at && i < chunk; i++) work.remains[i] = 1;
    return work;
}

void bo_delta_begin(bo_delta *work, const void *state, size_t key_head)
{
    size_t bytes = work->dim * work->values * sizeof(float);
    if (state)
        memcpy(work->s, bo_state_memory(work->attention, (void *)state, key_head), bytes);
    else
        memset(work->s, 0, bytes);
}

/* ---- triangles --------------------------------------------------------------------------------------------------- */

void bo_delta_triangle(const bo_delta *work, size_t rows, size_t depth, const float *x, size_t ldx, const float *yt,
                       float *out)
{
    for (size_t first = 0; first < rows; first += BO_DELTA_BAND)
        work->kernels->multiply(bo_min(BO_DELTA_BAND, rows - first), bo_delta_reach(work, first), depth,
                                x + first * ldx, ldx, 1, yt, work->chunk, false, out + first * work->chunk,
                                work->chunk);
}

void bo_delta_decay_row(const bo_delta *work, size_t i, size_t visible, float sign, float *row)
{
    const float *decay = work->decay + i * work->chunk;
    for (size_t j = 0; work->gated && j < visible; j++) row[j] *= sign * decay[j];
    for (size_t j = 0; !work->gated && sign < 0 && j < visible; j++) row[j] = -row[j];
    memset(row + visible, 0, (bo_delta_reach(work, i) - visible) * sizeof *row);
}

/* ---- keys -------------------------------------------------------------------------------------------------------- */

/* Sums of gates may be far larger than any relevant exponent, so their differences are computed in double. */
static void decays(bo_delta *work, const float *log_gate, size_t stride)
{
    double sum = 0;
    for (size_t i = 0; i < work->keys; i++) {
        float *row = work->decay + i * work->chunk;
        work->b[i] = sum += (double)bo_log_gate(log_gate + i * stride);
        for (size_t j = 0; j <= i; j++) row[j] = (float)(sum - work->b[j]);
        work->kernels->exp_below(i + 1, row, 0, row);
        work->remains[i] = (float)exp(sum);
    }
    memcpy(work->weights, work->decay + (work->keys - 1) * work->chunk, work->keys * sizeof *work->weights);
}

void bo_delta_keys(bo_delta *work, const bo_delta_task *task, size_t first, size_t keys)
{
    assert(keys <= work->chunk);
    work->keys = keys;
    work->beta = bo_rows_from(task->rows.beta, first).at;
    work->beta_stride = task->rows.beta.stride;
    if (keys == 0) return;
    work->k = bo_row_transform_forward(&work->transform, BO_OF_KEYS, keys, bo_rows_from(task->rows.k, first).at,
                                       task->rows.k.stride, work->t, &work->ldk);
    work->kernels->transpose(keys, work->dim, work->k, work->ldk, work->kt, work->chunk);
    if (work->gated) decays(work, bo_rows_from(task->rows.gate, first).at, task->rows.gate.stride);
    bo_delta_triangle(work, keys, work->dim, work->k, work->ldk, work->kt, work->products);
    for (size_t i = 0; i < keys; i++) bo_delta_decay_row(work, i, i, -1, work->products + i * work->chunk);
}

/* ---- the update of the memory ------------------------------------------------------------------------------------ */

static void weigh_row(const bo_delta *work, size_t i)
{
    size_t at = i * work->values;
    work->kernels->scale(work->values, bo_delta_beta(work, i), work->x + at, work->u + at);
}

void bo_delta_weigh(bo_delta *work)
{
    for (size_t i = 0; i < work->keys; i++) weigh_row(work, i);
}

void bo_delta_solve(bo_delta *work, const float *v, size_t ldv)
{
    const bo_kernels *kernels = work->kernels;
    size_t values = work->values, chunk = work->chunk;
    float *x = work->x;
    kernels->multiply(work->keys, values, work->dim, work->k, work->ldk, 1, work->s, values, false, x, values);
    for (size_t i = 0; i < work->keys; i++) {
        const float *row = v + i * ldv;
        for (size_t j = 0; j < values; j++) x[i * values + j] = row[j] - work->remains[i] * x[i * values + j];
    }
    for (size_t first = 0; first < work->keys; first += BO_DELTA_BAND) {
        size_t end = bo_delta_reach(work, first);
        kernels->multiply(end - first, values, first, work->products + first * chunk, chunk, 1, work->u, values, true,
                          x + first * values, values);
        for (size_t i = first; i < end; i++) {
            if (i > first)
                kernels->multiply(1, values, i - first, work->products + i * chunk + first, chunk, 1,
                                  work->u + first * values, values, true, x + i * values, values);
            weigh_row(work, i);
        }
    }
}

void bo_delta_absorb(const bo_delta *work, float *to)
{
    const bo_kernels *kernels = work->kernels;
    size_t values = work->values, keys = work->keys, size = work->dim * values;
    if (work->gated)
        kernels->scale(size, work->remains[keys - 1], work->s, to);
    else if (to != work->s)
        memcpy(to, work->s, size * sizeof *to);
    for (size_t j = 0; work->gated && j < keys; j++)
        kernels->scale(values, work->weights[j], work->u + j * values, work->learned + j * values);
    kernels->multiply(work->dim, values, keys, work->k, 1, work->ldk, work->gated ? work->learned : work->u, values,
                      true, to, values);
}

/* ---- queries ----------------------------------------------------------------------------------------------------- */

void bo_delta_queries(bo_delta *work, size_t queries, const float *q, size_t ldq)
{
    size_t ldt, dim = work->dim;
    const float *t = bo_row_transform_forward(&work->transform, BO_OF_QUERIES, queries, q, ldq, work->q, &ldt);
    for (size_t i = 0; i < queries; i++)
        work->kernels->scale(dim, (float)work->attention->desc.scale, t + i * ldt, work->q + i * dim);
    if (work->keys == 0) return;
    bo_delta_triangle(work, queries, dim, work->q, dim, work->kt, work->scores);
    for (size_t i = 0; i < queries; i++) bo_delta_decay_row(work, i, i + 1, 1, work->scores + i * work->chunk);
}

/* Computes o (queries x values) for the queries set before. */
static void delta_output(const bo_delta *work, size_t queries, float *out, size_t ldout)
{
    const bo_kernels *kernels = work->kernels;
    size_t values = work->values, chunk = work->chunk;
    kernels->multiply(queries, values, work->dim, work->q, work->dim, 1, work->s, values, false, out, ldout);
    for (size_t i = 0; work->gated && i < work->keys; i++)
        kernels->scale(values, work->remains[i], out + i * ldout, out + i * ldout);
    for (size_t first = 0; first < work->keys; first += BO_DELTA_BAND) {
        size_t end = bo_delta_reach(work, first);
        kernels->multiply(end - first, values, end, work->scores + first * chunk, chunk, 1, work->u, values, true,
                          out + first * ldout, ldout);
    }
}

/* ---- the engine -------------------------------------------------------------------------------------------------- */

/* The engine of the delta rule: plan, forward and step. */

/* ---- plan -------------------------------------------------------------------------------------------------------- */

/* Returns estimated cycles per token, from operation counts and timings. A chunk has 2(C + 16)(d + d_v) operations per
 * token at 32 per cycle. Each chunk also reads and writes the memory, and calls take about 700 cycles. */
static double chunk_cost(const bo_attention *attention, size_t chunk)
{
    double dim = (double)attention->desc.dim, values = (double)attention->desc.value_dim, tokens = (double)chunk;
    return (tokens + BO_DELTA_BAND) * (dim + values) / 16 + (dim * values / 4 + 700) / tokens;
}

static size_t choose_chunk(const bo_attention *attention)
{
    size_t best = 16;
    if (attention->desc.chunk) return attention->desc.chunk;
    for (size_t chunk = 32; chunk <= 64; chunk *= 2)
        if (chunk_cost(attention, chunk) < chunk_cost(attention, best)) best = chunk;
    return best;
}

static void plan(const bo_attention *attention, size_t longest_queries, size_t longest_keys, bo_attention_cost *plan)
{
    size_t longest = bo_max(longest_queries, longest_keys);
    bo_carver forward = {0};
    plan->chunk = choose_chunk(attention);
    plan->segment = bo_segment(plan->chunk, longest ? longest : 1);
    bo_delta_make(attention, NULL, 0, plan->chunk, &forward);
    plan->forward_bytes = forward.bytes;
    plan->backward_bytes = bo_delta_backward_bytes(attention, plan);
}

static size_t memory(const bo_attention *attention)
{
    return attention->desc.dim * attention->desc.value_dim;
}

/* ---- forward ----------------------------------------------------------------------------------------------------- */

bo_delta_task bo_delta_task_make(const bo_call *call, size_t sequence, size_t key_head)
{
    return (bo_delta_task){
        .call = call,
        .at = &call->sequences[sequence],
        .sequence = sequence,
        .key_head = key_head,
        .rows = bo_token_rows_at(call, sequence, key_head),
    };
}

/* Computes the outputs of every query head of the group, rows [first, first + rows). NaN or infinity in q, k or v
 * propagates to the outputs of its token. */
static bool forward_queries(const bo_delta_task *at, bo_delta *work, size_t first, size_t rows)
{
    const bo_call *call = at->call;
    const bo_attention_desc *d = &call->attention->desc;
    for (size_t g = 0; g < call->attention->group; g++) {
        size_t head = at->key_head * call->attention->group + g;
        bo_rows q = bo_rows_at(call, call->in->q, d->heads, d->dim, false, at->sequence, head);
        bo_rows all = bo_rows_at(call, call->out, d->heads, d->value_dim, false, at->sequence, head);
        bo_rows out = bo_rows_from(all, first);
        bo_delta_queries(work, rows, bo_rows_from(q, first).at, q.stride);
        delta_output(work, rows, out.at, out.stride);
        if (!bo_rows_finite(call->kernels, rows, d->value_dim, out.at, out.stride)) return false;
    }
    return true;
}

/* Called before the chunk that starts at token `first`: the tape stores the memory at the start of a segment. */
static void record(const bo_delta_task *at, const bo_delta *work, size_t first)
{
    const bo_call *call = at->call;
    if (call->tape.top && first && first % call->plan.segment == 0)
        memcpy(bo_tape_memory(call, at->sequence, at->key_head, first / call->plan.segment - 1), work->s,
               memory(call->attention) * sizeof(float));
}

static bool forward_rows(const bo_delta_task *at, bo_delta *work)
{
    bool read_only = at->at->keys == 0;
    size_t tokens = read_only ? at->at->queries : at->at->keys;
    for (size_t first = 0; first < tokens; first += work->chunk) {
        size_t rows = bo_min(work->chunk, tokens - first);
        if (bo_pass_stops(at->call->watch, rows)) return false;
        if (!read_only) record(at, work, first);
        bo_delta_keys(work, at, first, read_only ? 0 : rows);
        if (!read_only) bo_delta_solve(work, bo_rows_from(at->rows.v, first).at, at->rows.v.stride);
        if (!at->call->shape->no_queries && !forward_queries(at, work, first, rows)) return false;
        if (!read_only) bo_delta_absorb(work, work->s);
    }
    return true;
}

static void forward(const bo_call *call, size_t sequence, size_t key_head, void *scratch)
{
    bo_carver carver = {.at = scratch};
    size_t floats = memory(call->attention);
    bo_delta work = bo_delta_make(call->attention, call->in, key_head, call->plan.chunk, &carver);
    bo_delta_task at = bo_delta_task_make(call, sequence, key_head);
    bo_delta_begin(&work, call->initial ? call->initial[sequence] : NULL, key_head);
    if (!forward_rows(&at, &work) || !call->kernels->finite(floats, work.s)) {
        bo_note_stop(call);
        return;
    }
    if (call->final)
        memcpy(bo_state_memory(call->attention, call->final[sequence], key_head), work.s, floats * sizeof(float));
}

/* ---- step -------------------------------------------------------------------------------------------------------- */

/* Keys of `count` sequences (count x dim), queries of the group (group x count x dim), and u (values) of one
 * sequence. */
typedef struct step_work {
    bo_row_transform transform;
    float *k, *q, *u;
} step_work;

static step_work step_make(const bo_attention *attention, const bo_attention_inputs *in, size_t key_head, size_t count,
                           bo_carver *carver)
{
    size_t rows = count * attention->desc.dim;
    step_work work = {.transform = bo_row_transform_make(attention, in, key_head, carver)};
    work.k = bo_carve_floats(carver, rows);
    work.q = bo_carve_floats(carver, attention->group * rows);
    work.u = bo_carve_floats(carver, attention->desc.value_dim);
    return work;
}

static size_t step_bytes(const bo_attention *attention, size_t count)
{
    bo_carver carver = {0};
    step_make(attention, NULL, 0, count, &carver);
    return carver.bytes;
}

/* Computes rows after the transform, times `factor`. */
static void load_rows(const bo_row_transform *transform, bo_role role, size_t rows, const float *x, size_t ldx,
                      float factor, float *to)
{
    size_t ldt, dim = transform->dim;
    const float *t = bo_row_transform_forward(transform, role, rows, x, ldx, to, &ldt);
    for (size_t i = 0; i < rows; i++) transform->kernels->scale(dim, factor, t + i * ldt, to + i * dim);
}

/* Reads S for Sᵀk, then updates S and computes the outputs of the group's queries in the same pass. */
static bool step_one(const bo_attention *attention, const step_work *work, const float *k, const float *v,
                     float log_gate, float beta, float *s, const float *q, size_t ldq, float *out)
{
    const bo_kernels *kernels = attention->kernels;
    size_t dim = attention->desc.dim, values = attention->desc.value_dim;
    float decay = expf(log_gate);
    if (v) {
        kernels->state_step(dim, values, false, 1, NULL, NULL, s, 1, k, dim, work->u, values);
        for (size_t j = 0; j < values; j++) work->u[j] = beta * (v[j] - decay * work->u[j]);
    }
    kernels->state_step(dim, values, v != NULL, decay, k, work->u, s, attention->group, q, ldq, out, values);
    return kernels->finite(attention->group * values, out); /* also detects infinities in S: 0 times infinity is NaN */
}

static void step(const bo_attention *attention, const bo_attention_inputs *in, size_t first, size_t count,
                 size_t key_head, void *const *states, float *out, atomic_bool *not_finite, void *scratch)
{
    const bo_attention_desc *d = &attention->desc;
    bo_carver carver = {.at = scratch};
    step_work work = step_make(attention, in, key_head, count, &carver);
    size_t head = key_head * attention->group, dim = d->dim;
    if (in->k)
        load_rows(&work.transform, BO_OF_KEYS, count, in->k + (first * d->key_heads + key_head) * dim,
                  d->key_heads * dim, 1, work.k);
    for (size_t g = 0; g < attention->group; g++)
        load_rows(&work.transform, BO_OF_QUERIES, count, in->q + (first * d->heads + head + g) * dim, d->heads * dim,
                  (float)d->scale, work.q + g * count * dim);
    for (size_t row = 0; row < count; row++) {
        size_t at = (first + row) * d->key_heads + key_head;
        if (!step_one(attention, &work, work.k + row * dim, in->k ? in->v + at * d->value_dim : NULL,
                      bo_log_gate(in->log_gate ? in->log_gate + at : NULL), in->beta ? in->beta[at] : 1,
                      bo_state_memory(attention, states[first + row], key_head), work.q + row * dim, count * dim,
                      out + ((first + row) * d->heads + head) * d->value_dim))
            atomic_store(not_finite, true);
    }
}

/* qᵀS, scores and their product with v; k vᵀ, Sᵀk, products of keys, and a triangular system */
static bo_token_operations operations(const bo_attention *attention)
{
    double dim = (double)attention->desc.dim, values = (double)attention->desc.value_dim;
    double within = BO_WITHIN_CHUNK * (dim + values);
    return (bo_token_operations){.query = 2 * dim * values + within, .key = 4 * dim * values + within};
}

/* ---- stability --------------------------------------------------------------------------------------------------- */

typedef struct unstable {
    double square; /* β|k|² */
    size_t sequence, head, token;
} unstable;

/* Finds the maximum of β|k|². Beyond 2, an update reverses and amplifies the memory along the key. */
static unstable find_unstable(const bo_call *call)
{
    const bo_attention_desc *d = &call->attention->desc;
    unstable worst = {0};
    for (size_t s = 0; s < call->shape->sequences; s++)
        for (size_t h = 0; h < d->key_heads; h++) {
            bo_rows k = bo_rows_at(call, call->in->k, d->key_heads, d->dim, true, s, h);
            bo_rows beta = bo_rows_at(call, call->in->beta, d->key_heads, 1, true, s, h);
            for (size_t t = 0; k.at && t < call->sequences[s].keys; t++) {
                const float *row = k.at + t * k.stride;
                double square = d->unit ? 1 : call->kernels->dot(d->dim, row, row);
                if (beta.at) square *= (double)beta.at[t * beta.stride];
                if (square > worst.square) worst = (unstable){square, s, h, t};
            }
        }
    return worst;
}

static bo_status explain_overflow(bo_context *context, const bo_call *call)
{
    const unstable worst = find_unstable(call);
    if (!(worst.square > 2)) return BO_OK;
    return bo_fail(
        context, BO_NUMERIC,
        "attention: the result overflowed float32: beta |k|² is %.3g at sequence %zu, head %zu, token %zu; the delta "
        "rule is stable up to 2%s",
        worst.square, worst.sequence, worst.head, worst.token,
        call->attention->desc.unit ? "" : " (set unit in the descriptor to normalize keys)");
}

const bo_engine bo_engine_delta = {
    .plan = plan,
    .forward = forward,
    .backward = bo_delta_backward,
    .tape_states = bo_segment_states,
    .memory = memory,
    .memory_gradient = memory,
    .operations = operations,
    .explain_overflow = explain_overflow,
    .step_bytes = step_bytes,
    .step = step,
};
