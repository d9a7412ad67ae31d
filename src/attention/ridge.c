/* The engine of ridge attention: plan, forward, step. */
#include <math.h>
#include <string.h>
#include "linear.h"
#include "ridge.h"

/* ---- plan ------------------------------------------------------------------------------------------------------ */

/* With a gate every step of conjugate gradients multiplies within the chunk, some dim (chunk + 16) operations a
 * product and row, besides 2 dim² with the sums: few tokens are best. Without, only G and H take a chunk in at a
 * time. */
static size_t choose_chunk(const bo_attention_desc *d)
{
    if (d->chunk) return d->chunk;
    return d->gate == BO_GATE_NONE ? 64 : 32;
}

static void plan(const bo_attention *attention, size_t longest_queries, size_t longest_keys, bo_attention_plan *out)
{
    bo_carver forward = {0};
    out->chunk = choose_chunk(&attention->desc);
    out->segment = bo_segment(out->chunk, bo_most(bo_most(longest_queries, longest_keys), 1));
    bo_ridge_make(attention, NULL, 0, out->chunk, attention->group, &forward);
    out->forward_bytes = forward.bytes;
    out->backward_bytes = bo_ridge_backward_bytes(attention, out);
}

static size_t memory_gradient(const bo_attention *attention)
{
    return attention->desc.dim * (attention->desc.value_dim + attention->desc.dim);
}

/* ---- the report ------------------------------------------------------------------------------------------------ */

/* Sums and largest numbers, whatever the order in which tasks report. */
static void report(bo_solves *to, const bo_solves *from)
{
    if (!to) return;
    __atomic_fetch_add(&to->systems, from->systems, __ATOMIC_RELAXED);
    __atomic_fetch_add(&to->iterations, from->iterations, __ATOMIC_RELAXED);
    __atomic_fetch_add(&to->refactored, from->refactored, __ATOMIC_RELAXED);
    double most = from->largest_residual, held;
    __atomic_load(&to->largest_residual, &held, __ATOMIC_RELAXED);
    while (held < most &&
           !__atomic_compare_exchange(&to->largest_residual, &held, &most, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        continue;
}

/* Without a gate: of x as the factor gives it for the chunk's last query, in the system of the state's own H. */
static void measure_factor(bo_attention_ridge *work, size_t member)
{
    size_t dim = work->dim;
    const float *q = work->q + (member * work->chunk + work->rows - 1) * dim, *h = bo_ridge_h(work);
    double *x = work->block.asked, residual = 0, norm = work->kernels->dot(dim, q, q);
    for (size_t j = 0; j < dim; j++) x[j] = (double)q[j];
    bo_ridge_factor_solve(bo_ridge_factor_of(work), x);
    for (size_t i = 0; i < dim; i++) {
        double left = (double)work->lambda[i] * x[i] - (double)q[i];
        for (size_t j = 0; j < dim; j++) left += (double)h[i * dim + j] * x[j];
        residual += left * left;
    }
    if (norm > 0) work->solves.largest_residual = fmax(work->solves.largest_residual, sqrt(residual / norm));
}

/* ---- a chunk --------------------------------------------------------------------------------------------------- */

/* Where the rows of the group's query heads go; row 0 is the chunk's first. */
typedef struct outputs {
    float *at;
    size_t row, head; /* strides */
} outputs;

/* With a gate. */
static void iterate_chunk(bo_attention_ridge *work, const outputs *out)
{
    size_t group = work->attention->group, each = work->chunk * work->dim;
    bo_ridge_sums sums = bo_ridge_sums_g(work);
    bo_ridge_precondition(work);
    for (size_t g = 0; g < group; g++) {
        bo_ridge_iterate(work, g, work->q + g * each, work->x);
        for (size_t i = 0; i < work->rows; i++) work->active[i] = i;
        bo_ridge_product(work, &sums, work->rows, work->active, work->x, out->at + g * out->head, out->row);
    }
    for (size_t i = 0; (i = bo_ridge_direct_next(work, group, i)) < work->rows; i++)
        for (size_t g = 0; g < group; g++) {
            if (!work->left[g * work->chunk + i]) continue;
            bo_ridge_direct_query(work, work->q + g * each + i * work->dim);
            bo_ridge_direct_output(work, out->at + g * out->head + i * out->row);
        }
}

/* The factor without a gate takes the chunk's keys in on the way to answers; here there is nobody to answer. */
static void take_chunk(bo_attention_ridge *work)
{
    bo_ridge_block block = work->block;
    block.sides = 0;
    bo_ridge_sweep sweep = {.factor = bo_ridge_factor_of(work), .block = &block, .values = true};
    if (!work->gated) bo_ridge_sweep_run(work, &sweep);
    bo_ridge_absorb(work);
}

/* Answers the queries in work->q and takes the chunk's keys in; false: numbers left float. */
static bool run_chunk(bo_attention_ridge *work, const outputs *out)
{
    size_t group = work->attention->group;
    if (work->gated) {
        iterate_chunk(work, out);
    } else {
        bo_ridge_sweep sweep = {.factor = bo_ridge_factor_of(work),
                                .block = &work->block,
                                .values = true,
                                .asked = work->q,
                                .out = out->at,
                                .tail = work->value_dim,
                                .row = out->row,
                                .side = out->head};
        bo_ridge_sweep_run(work, &sweep);
        work->solves.systems += group * work->rows;
    }
    bo_ridge_absorb(work);
    for (size_t g = 0; g < group; g++) {
        if (!work->gated && work->measures) measure_factor(work, g);
        if (!bo_rows_finite(work->kernels, work->rows, work->value_dim, out->at + g * out->head, out->row))
            return false;
    }
    return true;
}

/* ---- forward --------------------------------------------------------------------------------------------------- */

static bool forward_rows(const bo_call *call, size_t sequence, size_t key_head, bo_attention_ridge *work)
{
    const bo_attention *attention = call->attention;
    const bo_attention_desc *d = &attention->desc;
    bo_token_rows at = bo_token_rows_at(call, sequence, key_head);
    const bo_sequence *size = &call->sequences[sequence];
    size_t tokens = size->keys ? size->keys : size->queries, head = key_head * attention->group;
    for (size_t first = 0; first < tokens; first += work->chunk) {
        size_t rows = bo_least(work->chunk, tokens - first);
        if (bo_pass_stops(call->watch, rows)) return false;
        if (call->tape.top && at.k.at && first && first % call->plan.segment == 0)
            memcpy(bo_tape_memory(call, sequence, key_head, first / call->plan.segment - 1), work->memory,
                   bo_ridge_memory(attention) * sizeof(float));
        if (!bo_ridge_keys(work, &at, first, rows)) return false;
        if (call->shape->no_queries) {
            take_chunk(work);
            continue;
        }
        for (size_t g = 0; g < attention->group; g++) {
            bo_rows q = bo_rows_at(call, call->in->q, d->heads, d->dim, false, sequence, head + g);
            if (!bo_ridge_queries(work, g, q, first)) return false;
        }
        bo_rows out = bo_rows_at(call, call->out, d->heads, d->value_dim, false, sequence, head);
        bo_rows next = bo_rows_at(call, call->out, d->heads, d->value_dim, false, sequence, head + 1);
        outputs to = {bo_rows_from(out, first).at, out.stride, (size_t)(next.at - out.at)};
        if (!run_chunk(work, &to)) return false;
    }
    return true;
}

static bool sums_finite(const bo_attention_ridge *work)
{
    return work->kernels->finite(work->dim * work->value_dim, work->memory) &&
           work->kernels->finite(work->dim * work->dim, bo_ridge_h(work));
}

static void forward(const bo_call *call, size_t sequence, size_t key_head, void *scratch)
{
    const bo_attention *attention = call->attention;
    bo_carver carver = {.at = scratch};
    bo_attention_ridge work = bo_ridge_make(attention, call->in, key_head, call->plan.chunk, attention->group, &carver);
    void *initial = call->initial ? (void *)call->initial[sequence] : NULL;
    bo_ridge_begin(&work, initial ? bo_state_memory(attention, initial, key_head) : NULL);
    if (!forward_rows(call, sequence, key_head, &work) || !sums_finite(&work)) {
        bo_note_stop(call);
        return;
    }
    if (call->final && call->sequences[sequence].keys) /* a state that was only asked stays as it is */
        memcpy(bo_state_memory(attention, call->final[sequence], key_head), work.memory,
               bo_ridge_memory(attention) * sizeof(float));
    report(call->in->solves, &work.solves);
}

/* ---- step ------------------------------------------------------------------------------------------------------ */

static size_t step_bytes(const bo_attention *attention, size_t count)
{
    bo_carver carver = {0};
    (void)count;
    bo_ridge_make(attention, NULL, 0, 1, attention->group, &carver);
    return carver.bytes;
}

/* The rows of a token; strides do not matter. */
static bo_token_rows token_at(const bo_attention_desc *d, const bo_attention_inputs *in, size_t at)
{
    return (bo_token_rows){.k = {in->k ? (float *)in->k + at * d->dim : NULL, d->dim},
                           .v = {in->v ? (float *)in->v + at * d->value_dim : NULL, d->value_dim},
                           .gate = {in->log_gate ? (float *)in->log_gate + at : NULL, 1},
                           .beta = {in->beta ? (float *)in->beta + at : NULL, 1}};
}

/* The memory of a step: the state's own, or a copy where it is only asked, since the factor may be made anew and is
 * written to even by tokens of zero. With a gate asking writes nothing. */
static void step_memory(bo_attention_ridge *work, float *own, float *memory, bool asks)
{
    work->memory = asks && !work->gated ? own : memory;
    if (work->memory == own)
        bo_ridge_begin(work, memory);
    else
        bo_ridge_refit(work);
}

/* A chunk of one token. */
static void step(const bo_attention *attention, const bo_attention_inputs *in, size_t first, size_t count,
                 size_t key_head, void *const *states, float *out, atomic_bool *not_finite, void *scratch)
{
    const bo_attention_desc *d = &attention->desc;
    bo_carver carver = {.at = scratch};
    bo_attention_ridge work = bo_ridge_make(attention, in, key_head, 1, attention->group, &carver);
    float *own = work.memory;
    for (size_t s = first; s < first + count; s++) {
        size_t head = s * d->heads + key_head * attention->group;
        bo_token_rows at = token_at(d, in, s * d->key_heads + key_head);
        step_memory(&work, own, bo_state_memory(attention, states[s], key_head), !in->k);
        bool finite = bo_ridge_keys(&work, &at, 0, 1);
        for (size_t g = 0; g < attention->group; g++) {
            bo_rows q = {(float *)in->q + (head + g) * d->dim, d->dim};
            finite = finite && bo_ridge_queries(&work, g, q, 0);
        }
        outputs to = {out + head * d->value_dim, d->value_dim, d->value_dim};
        if (!finite || !run_chunk(&work, &to) || !sums_finite(&work)) atomic_store(not_finite, true);
    }
    report(in->solves, &work.solves);
}

/* H */
static size_t memory_second(const bo_attention *attention)
{
    return attention->desc.dim * attention->desc.dim;
}

/* two triangular systems, Gᵀx; k vᵀ, k kᵀ, the factor's update */
static bo_token_operations operations(const bo_attention *attention)
{
    double dim = (double)attention->desc.dim, values = (double)attention->desc.value_dim;
    return (bo_token_operations){2 * dim * dim + 2 * dim * values, 2 * dim * values + 4 * dim * dim};
}

const bo_engine bo_engine_ridge = {
    .plan = plan,
    .forward = forward,
    .backward = bo_ridge_backward,
    .tape_states = bo_segment_states,
    .memory = bo_ridge_memory,
    .memory_gradient = memory_gradient,
    .memory_second = memory_second,
    .operations = operations,
    .step_bytes = step_bytes,
    .step = step,
};
