/* The engine of gated linear attention: plan, forward, step; gla.h has the formulas. */
#include <string.h>
#include "gla.h"
#include "linear.h"

/* ---- blocks ------------------------------------------------------------------------------------------------------ */

/* A block of gated linear attention: products of gates, and queries and keys multiplied by them. */

bo_gla_block bo_gla_block_make(const bo_attention *attention, const bo_attention_inputs *in, size_t key_head,
                               bo_carver *carver)
{
    size_t dim = attention->desc.dim, size = BO_GATED_ROWS * dim;
    bo_gla_block block = {.attention = attention,
                          .kernels = attention->kernels,
                          .transform = bo_row_transform_make(attention, in, key_head, carver),
                          .dim = dim,
                          .value_dim = attention->desc.value_dim};
    block.g = bo_carve_floats(carver, size);
    block.upto = bo_carve_floats(carver, size);
    block.after = bo_carve_floats(carver, size);
    block.total = bo_carve_floats(carver, dim);
    block.k_after = bo_carve_floats(carver, size);
    block.q = bo_carve_floats(carver, size);
    block.q_upto = bo_carve_floats(carver, size);
    block.t = bo_carve_floats(carver, size);
    return block;
}

/* `total` is computed from the sum of the logarithms: the state is multiplied by it repeatedly, and rounding errors of
 * single gates would accumulate for gates near 1. */
static void load_gates(bo_gla_block *block, const float *log_gate, size_t ld)
{
    const bo_kernels *kernels = block->kernels;
    size_t dim = block->dim, last = block->rows - 1;
    memcpy(block->total, log_gate, dim * sizeof *block->total);
    for (size_t t = 0; t <= last; t++) {
        kernels->exp_below(dim, log_gate + t * ld, 0, block->g + t * dim);
        if (t) kernels->axpy(dim, 1, log_gate + t * ld, block->total);
    }
    kernels->exp_below(dim, block->total, 0, block->total);
    memcpy(block->upto, block->g, dim * sizeof *block->upto);
    for (size_t t = 1; t <= last; t++)
        kernels->product(dim, block->upto + (t - 1) * dim, block->g + t * dim, false, block->upto + t * dim);
    for (size_t c = 0; c < dim; c++) block->after[last * dim + c] = 1;
    for (size_t t = last; t > 0; t--)
        kernels->product(dim, block->after + t * dim, block->g + t * dim, false, block->after + (t - 1) * dim);
}

void bo_gla_load(bo_gla_block *block, size_t rows, const float *k, size_t ldk, const float *log_gate, size_t ldg)
{
    size_t dim = block->dim;
    block->rows = rows;
    load_gates(block, log_gate, ldg);
    block->k = bo_row_transform_forward(&block->transform, BO_OF_KEYS, rows, k, ldk, block->t, &block->ldk);
    for (size_t j = 0; j < rows; j++)
        block->kernels->product(dim, block->k + j * block->ldk, block->after + j * dim, false,
                                block->k_after + j * dim);
}

void bo_gla_scaled(const bo_gla_block *block, size_t rows, const float *q, size_t ldq, float *out)
{
    size_t ld, dim = block->dim;
    float scale = (float)block->attention->desc.scale;
    const float *ready = bo_row_transform_forward(&block->transform, BO_OF_QUERIES, rows, q, ldq, out, &ld);
    for (size_t i = 0; i < rows; i++) block->kernels->scale(dim, scale, ready + i * ld, out + i * dim);
}

void bo_gla_load_queries(bo_gla_block *block, const float *q, size_t ldq)
{
    bo_gla_scaled(block, block->rows, q, ldq, block->q);
    block->kernels->product(block->rows * block->dim, block->q, block->upto, false, block->q_upto);
}

void bo_gla_scores(const bo_gla_block *block, float *scores, size_t ld)
{
    size_t rows = block->rows, dim = block->dim;
    block->kernels->gated_scores(rows, dim, block->q, dim, block->k, block->ldk, block->g, dim, scores, ld);
    for (size_t i = 0; i < rows; i++) memset(scores + i * ld + i + 1, 0, (rows - i - 1) * sizeof *scores);
}

void bo_gla_decay(const bo_gla_block *block, const float *decay, float *s)
{
    size_t values = block->value_dim;
    for (size_t c = 0; c < block->dim; c++) block->kernels->scale(values, decay[c], s + c * values, s + c * values);
}

void bo_gla_fetch(bo_rows rows, size_t first, size_t end, size_t width)
{
    bo_rows_fetch(rows, first, bo_min(first + BO_GATED_ROWS, end), width);
}

/* ---- the engine -------------------------------------------------------------------------------------------------- */

/* Workspace of a forward pass. Invariant: kt contains the chunk's keys so far, decayed to the start of the next
 * block. */
typedef struct forward_work {
    bo_gla_block block;
    size_t chunk;
    float *s;      /* the state before the chunk: dim x value_dim */
    float *kt;     /* dim x chunk */
    float *since;  /* dim: product of the gates since the start of the chunk */
    float *q;      /* s q ∘ upto ∘ since: rows x dim */
    float *scores; /* rows x chunk */
} forward_work;

static forward_work forward_make(const bo_attention *attention, const bo_attention_inputs *in, size_t key_head,
                                 size_t chunk, bo_carver *carver)
{
    size_t dim = attention->desc.dim;
    forward_work work = {.block = bo_gla_block_make(attention, in, key_head, carver), .chunk = chunk};
    work.s = bo_carve_floats(carver, dim * attention->desc.value_dim);
    work.kt = bo_carve_floats(carver, dim * chunk);
    work.since = bo_carve_floats(carver, dim);
    work.q = bo_carve_floats(carver, BO_GATED_ROWS * dim);
    work.scores = bo_carve_floats(carver, BO_GATED_ROWS * chunk);
    return work;
}

/* ---- plan -------------------------------------------------------------------------------------------------------- */

/* Small states are cheap to update block by block. Larger states are in slower caches and updated less often. */
static size_t choose_chunk(const bo_attention *attention, const bo_attention_cost *plan)
{
    size_t state = attention->desc.dim * attention->desc.value_dim * sizeof(float), chunk = BO_GATED_ROWS;
    if (attention->desc.chunk) return attention->desc.chunk;
    if (state > plan->level1_bytes) chunk *= 2;
    if (state > plan->level2_bytes / 2) chunk *= 2;
    return chunk;
}

static void make_plan(const bo_attention *attention, size_t longest_queries, size_t longest_keys,
                      bo_attention_cost *plan)
{
    bo_carver carver = {0};
    plan->chunk = choose_chunk(attention, plan);
    plan->segment = bo_segment(plan->chunk, bo_max(1, bo_max(longest_queries, longest_keys)));
    forward_make(attention, NULL, 0, plan->chunk, &carver);
    plan->forward_bytes = carver.bytes;
    plan->backward_bytes = bo_gla_backward_bytes(attention, plan);
}

/* ---- forward ----------------------------------------------------------------------------------------------------- */

bo_gla_task bo_gla_task_make(const bo_call *call, size_t sequence, size_t key_head)
{
    const bo_sequence *at = &call->sequences[sequence];
    return (bo_gla_task){.call = call,
                         .sequence = sequence,
                         .key_head = key_head,
                         .tokens = at->keys ? at->keys : at->queries,
                         .rows = bo_token_rows_at(call, sequence, key_head)};
}

/* Computes the outputs of the block's queries, `done` tokens after the start of the chunk. False: overflow. NaN and
 * infinity in q, k or v propagate to the outputs. */
static bool forward_queries(const bo_gla_task *at, forward_work *work, size_t first, size_t done)
{
    const bo_call *call = at->call;
    const bo_attention_desc *d = &call->attention->desc;
    const bo_kernels *kernels = call->kernels;
    bo_gla_block *block = &work->block;
    size_t rows = block->rows, dim = block->dim, values = block->value_dim, group = call->attention->group;
    for (size_t head = at->key_head * group; head < (at->key_head + 1) * group; head++) {
        bo_rows q = bo_rows_from(bo_rows_at(call, call->in->q, d->heads, dim, false, at->sequence, head), first);
        bo_rows out = bo_rows_from(bo_rows_at(call, call->out, d->heads, values, false, at->sequence, head), first);
        const float *read_q = block->q_upto;
        bo_gla_load_queries(block, q.at, q.stride);
        bo_gla_fetch(q, rows, at->tokens - first, dim);
        if (done) {
            kernels->multiply(rows, done, dim, block->q_upto, dim, 1, work->kt, work->chunk, false, work->scores,
                              work->chunk);
            for (size_t i = 0; i < rows; i++)
                kernels->product(dim, block->q_upto + i * dim, work->since, false, work->q + i * dim);
            read_q = work->q;
        }
        bo_gla_scores(block, work->scores + done, work->chunk);
        kernels->multiply(rows, values, dim, read_q, dim, 1, work->s, values, false, out.at, out.stride);
        kernels->multiply(rows, values, done + rows, work->scores, work->chunk, 1,
                          bo_rows_from(at->rows.v, first - done).at, at->rows.v.stride, true, out.at, out.stride);
        if (!bo_rows_finite(kernels, rows, values, out.at, out.stride)) return false;
    }
    return true;
}

/* Appends the block's keys to the keys that are not yet in the state. */
static void kept(forward_work *work, size_t done)
{
    const bo_gla_block *block = &work->block;
    const bo_kernels *kernels = block->kernels;
    for (size_t c = 0; done && c < block->dim; c++)
        kernels->scale(done, block->total[c], work->kt + c * work->chunk, work->kt + c * work->chunk);
    kernels->transpose(block->rows, block->dim, block->k_after, block->dim, work->kt + done, work->chunk);
    if (done)
        kernels->product(block->dim, work->since, block->total, false, work->since);
    else
        memcpy(work->since, block->total, block->dim * sizeof *work->since);
}

static bool forward_chunk(const bo_gla_task *at, forward_work *work, size_t first, size_t tokens)
{
    bo_gla_block *block = &work->block;
    const bo_kernels *kernels = block->kernels;
    size_t values = block->value_dim;
    for (size_t done = 0; done < tokens; done += BO_GATED_ROWS) {
        bo_rows k = bo_rows_from(at->rows.k, first + done), gate = bo_rows_from(at->rows.gate, first + done);
        bo_gla_load(block, bo_min(BO_GATED_ROWS, tokens - done), k.at, k.stride, gate.at, gate.stride);
        size_t left = at->tokens - first - done;
        bo_gla_fetch(gate, block->rows, left, block->dim);
        if (!at->call->shape->no_queries && !forward_queries(at, work, first + done, done)) return false;
        bo_gla_fetch(k, block->rows, left, block->dim);
        kept(work, done);
        bo_gla_fetch(bo_rows_from(at->rows.v, first + done), block->rows, left, values);
    }
    bo_gla_decay(block, work->since, work->s);
    kernels->multiply(block->dim, values, tokens, work->kt, work->chunk, 1, bo_rows_from(at->rows.v, first).at,
                      at->rows.v.stride, true, work->s, values);
    return true;
}

static bool forward_causal(const bo_gla_task *at, forward_work *work)
{
    const bo_call *call = at->call;
    size_t size = work->block.dim * work->block.value_dim;
    for (size_t first = 0; first < at->tokens; first += work->chunk) {
        size_t tokens = bo_min(work->chunk, at->tokens - first);
        if (bo_pass_stops(call->watch, tokens)) return false;
        if (call->tape.top && first && first % call->plan.segment == 0)
            memcpy(bo_tape_memory(call, at->sequence, at->key_head, first / call->plan.segment - 1), work->s,
                   size * sizeof *work->s);
        if (!forward_chunk(at, work, first, tokens)) return false;
    }
    return call->kernels->finite(size, work->s);
}

/* Without keys: computes outputs from the state, which does not change. */
static bool forward_read_only(const bo_gla_task *at, forward_work *work)
{
    const bo_call *call = at->call;
    const bo_attention_desc *d = &call->attention->desc;
    size_t group = call->attention->group, values = d->value_dim;
    for (size_t first = 0; first < at->tokens; first += BO_GATED_ROWS) {
        size_t rows = bo_min(BO_GATED_ROWS, at->tokens - first);
        if (bo_pass_stops(call->watch, rows)) return false;
        for (size_t head = at->key_head * group; head < (at->key_head + 1) * group; head++) {
            bo_rows q = bo_rows_from(bo_rows_at(call, call->in->q, d->heads, d->dim, false, at->sequence, head), first);
            bo_rows out = bo_rows_from(bo_rows_at(call, call->out, d->heads, values, false, at->sequence, head), first);
            if (!bo_rows_finite(call->kernels, rows, d->dim, q.at, q.stride)) return false;
            bo_gla_scaled(&work->block, rows, q.at, q.stride, work->q);
            call->kernels->multiply(rows, values, d->dim, work->q, d->dim, 1, work->s, values, false, out.at,
                                    out.stride);
            if (!bo_rows_finite(call->kernels, rows, values, out.at, out.stride)) return false;
        }
    }
    return true;
}

static void forward(const bo_call *call, size_t sequence, size_t key_head, void *scratch)
{
    const bo_attention *attention = call->attention;
    bo_carver carver = {.at = scratch};
    forward_work work = forward_make(attention, call->in, key_head, call->plan.chunk, &carver);
    bo_gla_task at = bo_gla_task_make(call, sequence, key_head);
    size_t bytes = work.block.dim * work.block.value_dim * sizeof *work.s;
    if (call->initial)
        memcpy(work.s, bo_state_memory(attention, (void *)call->initial[sequence], key_head), bytes);
    else
        memset(work.s, 0, bytes);
    if (!(call->sequences[sequence].keys ? forward_causal : forward_read_only)(&at, &work)) {
        bo_note_stop(call);
        return;
    }
    if (call->final) memcpy(bo_state_memory(attention, call->final[sequence], key_head), work.s, bytes);
}

/* ---- step -------------------------------------------------------------------------------------------------------- */

typedef struct step_work {
    bo_gla_block block;
    float *q; /* group x dim */
} step_work;

static step_work step_make(const bo_attention *attention, const bo_attention_inputs *in, size_t key_head,
                           bo_carver *carver)
{
    step_work work = {.block = bo_gla_block_make(attention, in, key_head, carver)};
    work.q = bo_carve_floats(carver, attention->group * attention->desc.dim);
    return work;
}

static size_t step_bytes(const bo_attention *attention, size_t count)
{
    bo_carver carver = {0};
    (void)count;
    step_make(attention, NULL, 0, &carver);
    return carver.bytes;
}

/* Computes one token of one sequence. False: overflow. */
static bool step_one(const bo_attention *attention, const bo_attention_inputs *in, size_t sequence, size_t key_head,
                     step_work *work, float *s, float *out)
{
    const bo_attention_desc *d = &attention->desc;
    bo_gla_block *block = &work->block;
    size_t key = sequence * d->key_heads + key_head, head = sequence * d->heads + key_head * attention->group;
    out += head * d->value_dim;
    bo_gla_scaled(block, attention->group, in->q + head * d->dim, d->dim, work->q);
    if (in->k) {
        block->k = bo_row_transform_forward(&block->transform, BO_OF_KEYS, 1, in->k + key * d->dim, d->dim, block->t,
                                            &block->ldk);
        attention->kernels->exp_below(d->dim, in->log_gate + key * d->dim, 0, block->g);
    }
    attention->kernels->state_step_gated(d->dim, d->value_dim, in->k != NULL, block->g, block->k,
                                         in->v ? in->v + key * d->value_dim : NULL, s, attention->group, work->q,
                                         d->dim, out, d->value_dim);
    return attention->kernels->finite(attention->group * d->value_dim, out);
}

static void step(const bo_attention *attention, const bo_attention_inputs *in, size_t first, size_t count,
                 size_t key_head, void *const *states, float *out, atomic_bool *not_finite, void *scratch)
{
    bo_carver carver = {.at = scratch};
    step_work work = step_make(attention, in, key_head, &carver);
    for (size_t s = first; s < first + count; s++)
        if (!step_one(attention, in, s, key_head, &work, bo_state_memory(attention, states[s], key_head), out))
            atomic_store(not_finite, true);
}

/* ---- the engine -------------------------------------------------------------------------------------------------- */

static size_t memory(const bo_attention *attention)
{
    return attention->desc.dim * attention->desc.value_dim;
}

/* qᵀS, scores and their product with v; k vᵀ */
static bo_token_operations operations(const bo_attention *attention)
{
    double dim = (double)attention->desc.dim, values = (double)attention->desc.value_dim;
    return (bo_token_operations){.query = 2 * dim * values + BO_WITHIN_CHUNK * (dim + values), .key = 2 * dim * values};
}

const bo_engine bo_engine_gla = {
    .plan = make_plan,
    .forward = forward,
    .backward = bo_gla_backward,
    .tape_states = bo_segment_states,
    .memory = memory,
    .memory_gradient = memory,
    .operations = operations,
    .step_bytes = step_bytes,
    .step = step,
};
