/* The backward pass of gated linear attention. The tape has the states at the start of each segment. Segments are
 * processed from the last to the first: for each, a forward pass recomputes the states before each block, then a
 * backward pass computes the gradients. G = dL/dS after a block is replaced by that before it:
 *
 *     dv_j = Gᵀ (k_j ∘ after_j) + Σ_{i>=j} score_ij do_i      dk_j = after_j ∘ G v_j + (pairs of the block)
 *     dq_i = s (upto_i ∘ S do_i + (pairs of the block))       G' = diag(total) G + Σ_i (s q_i ∘ upto_i) do_iᵀ
 *
 * d log g_t is the sum of all terms that contain g_t: from keys before t to queries from t on. For a gate in a block a
 * … e these are
 *
 *     total ∘ ⟨S, G⟩                    from before a to after e
 *     Σ_{j<t} k_j ∘ after_j ∘ G v_j     from the block to after e
 *     Σ_{i>=t} s q_i ∘ upto_i ∘ S do_i  from before a into the block, and pairs within the block.
 *
 * Each term has g_t as a factor. The common suffix sums of q ∘ dq - k ∘ dk give the same result as differences of large
 * numbers, so that the gradient of a closed gate would be a rounding error instead of 0. */
#include <string.h>
#include "gla.h"

typedef struct back_work {
    bo_gla_block block;
    float *states;         /* Sᵀ before each block of a segment: value_dim x dim each */
    float *g, *gt;         /* G (dim x value_dim), its transpose */
    float *vt;             /* the block's values: value_dim x rows */
    float *scores, *w;     /* rows x rows; w_ij = do_i·v_j */
    float *dq, *dk, *dlog; /* rows x dim */
    float *dv;             /* rows x value_dim */
    float *flow;           /* dim */
} back_work;

static size_t blocks_of(size_t tokens)
{
    return (tokens + BO_GATED_ROWS - 1) / BO_GATED_ROWS;
}

static back_work back_make(const bo_attention *attention, const bo_attention_inputs *in, size_t key_head,
                           const bo_attention_cost *plan, bo_carver *carver)
{
    enum { ROWS = BO_GATED_ROWS };
    size_t dim = attention->desc.dim, values = attention->desc.value_dim;
    back_work work = {.block = bo_gla_block_make(attention, in, key_head, carver)};
    work.states = bo_carve_floats(carver, blocks_of(plan->segment) * dim * values);
    work.g = bo_carve_floats(carver, dim * values);
    work.gt = bo_carve_floats(carver, dim * values);
    work.vt = bo_carve_floats(carver, values * ROWS);
    work.scores = bo_carve_floats(carver, ROWS * ROWS);
    work.w = bo_carve_floats(carver, ROWS * ROWS);
    work.dq = bo_carve_floats(carver, ROWS * dim);
    work.dk = bo_carve_floats(carver, ROWS * dim);
    work.dlog = bo_carve_floats(carver, ROWS * dim);
    work.dv = bo_carve_floats(carver, ROWS * values);
    work.flow = bo_carve_floats(carver, dim);
    return work;
}

size_t bo_gla_backward_bytes(const bo_attention *attention, const bo_attention_cost *plan)
{
    bo_carver carver = {0};
    back_make(attention, NULL, 0, plan, &carver);
    return carver.bytes;
}

static void load_block(const bo_gla_task *at, bo_gla_block *block, size_t first, size_t rows)
{
    bo_rows k = bo_rows_from(at->rows.k, first), gate = bo_rows_from(at->rows.gate, first);
    bo_gla_load(block, rows, k.at, k.stride, gate.at, gate.stride);
}

/* Prefetches the next block: `rows` tokens, starting at `first`. */
static void expect(const bo_gla_task *at, const bo_gla_block *block, size_t first, size_t rows)
{
    bo_gla_fetch(at->rows.k, first, first + rows, block->dim);
    bo_gla_fetch(at->rows.gate, first, first + rows, block->dim);
    bo_gla_fetch(at->rows.v, first, first + rows, block->value_dim);
}

/* Rows of one query head of the group: q, dout, and the destination of dq. */
typedef struct query_rows {
    bo_rows q, dout, dq;
} query_rows;

static query_rows queries_at(const bo_gla_task *at, size_t g, size_t first)
{
    const bo_call *call = at->call;
    const bo_attention_desc *d = &call->attention->desc;
    size_t head = at->key_head * call->attention->group + g;
    return (query_rows){
        .q = bo_rows_from(bo_rows_at(call, call->in->q, d->heads, d->dim, false, at->sequence, head), first),
        .dout = bo_rows_from(bo_rows_at(call, call->dout, d->heads, d->value_dim, false, at->sequence, head), first),
        .dq = bo_rows_from(bo_rows_at(call, call->gradients->q, d->heads, d->dim, false, at->sequence, head), first)};
}

/* Converts dq (rows x dim) from the gradient of s q to the gradient of the rows of q. */
static void write_query_gradients(const bo_gla_block *block, size_t rows, const query_rows *at, float *dq)
{
    block->kernels->scale(rows * block->dim, (float)block->attention->desc.scale, dq, dq);
    if (at->dq.at)
        bo_row_transform_backward(&block->transform, BO_OF_QUERIES, rows, at->q.at, at->q.stride, dq, at->dq.at,
                                  at->dq.stride, NULL);
}

/* ---- a block ----------------------------------------------------------------------------------------------------- */

/* Computes from G: dk, dv, and the part of the gates' gradients through the memory after the block. st: Sᵀ before the
 * block. */
static void back_later(back_work *work, const float *st, const float *v, size_t ldv)
{
    const bo_gla_block *block = &work->block;
    const bo_kernels *kernels = block->kernels;
    size_t rows = block->rows, dim = block->dim, values = block->value_dim;
    kernels->transpose(dim, values, work->g, values, work->gt, dim);
    kernels->multiply(rows, values, dim, block->k_after, dim, 1, work->g, values, false, work->dv, values);
    kernels->multiply(rows, dim, values, v, ldv, 1, work->gt, dim, false, work->dk, dim);
    kernels->product(rows * dim, work->dk, block->after, false, work->dk);
    memset(work->flow, 0, dim * sizeof *work->flow);
    for (size_t j = 0; j < values; j++) kernels->product(dim, st + j * dim, work->gt + j * dim, true, work->flow);
    kernels->product(dim, work->flow, block->total, false, work->dlog);
    for (size_t t = 1; t < rows; t++) {
        float *row = work->dlog + t * dim;
        memcpy(row, row - dim, dim * sizeof *row);
        kernels->product(dim, block->k + (t - 1) * block->ldk, work->dk + (t - 1) * dim, true, row);
    }
}

/* Processes one query head: computes dq and adds to dk, dv, G and the gates' gradients. False: dout contains NaN or
 * infinity. */
static bool back_queries(back_work *work, const query_rows *at, const float *st, float *g)
{
    bo_gla_block *block = &work->block;
    const bo_kernels *kernels = block->kernels;
    size_t rows = block->rows, dim = block->dim, values = block->value_dim, ldo = at->dout.stride;
    const float *dout = at->dout.at;
    if (!bo_rows_finite(kernels, rows, values, dout, ldo)) return false;
    bo_gla_load_queries(block, at->q.at, at->q.stride);
    bo_gla_scores(block, work->scores, BO_GATED_ROWS);
    kernels->multiply(rows, values, rows, work->scores, 1, BO_GATED_ROWS, dout, ldo, true, work->dv, values);
    kernels->multiply(rows, rows, values, dout, ldo, 1, work->vt, BO_GATED_ROWS, false, work->w, BO_GATED_ROWS);
    kernels->multiply(rows, dim, values, dout, ldo, 1, st, dim, false, work->dq, dim);
    kernels->product(rows * dim, work->dq, block->upto, false, work->dq);
    memset(work->flow, 0, dim * sizeof *work->flow);
    for (size_t t = rows; t-- > 0;) {
        kernels->product(dim, block->q + t * dim, work->dq + t * dim, true, work->flow);
        kernels->axpy(dim, 1, work->flow, work->dlog + t * dim);
    }
    kernels->gated_gradients(rows, dim, work->w, BO_GATED_ROWS, block->q, block->k, block->ldk, block->g, work->dq,
                             work->dk, work->dlog);
    kernels->multiply(dim, values, rows, block->q_upto, 1, dim, dout, ldo, true, g, values);
    write_query_gradients(block, rows, at, work->dq);
    return true;
}

static void write_rows(bo_rows to, size_t rows, size_t width, const float *from)
{
    for (size_t t = 0; to.at && t < rows; t++) memcpy(to.at + t * to.stride, from + t * width, width * sizeof *from);
}

/* Destinations of the requested gradients of the block's keys, values and gates. */
typedef struct key_gradients {
    bo_rows k, v, gate;
} key_gradients;

static key_gradients gradients_at(const bo_gla_task *at, size_t first)
{
    const bo_call *call = at->call;
    const bo_attention_desc *d = &call->attention->desc;
    const bo_attention_gradients *to = call->gradients;
    size_t sequence = at->sequence, head = at->key_head;
    return (key_gradients){
        .k = bo_rows_from(bo_rows_at(call, to->k, d->key_heads, d->dim, true, sequence, head), first),
        .v = bo_rows_from(bo_rows_at(call, to->v, d->key_heads, d->value_dim, true, sequence, head), first),
        .gate = bo_rows_from(bo_rows_at(call, to->log_gate, d->key_heads, d->dim, true, sequence, head), first)};
}

static void write_key_gradients(const back_work *work, bo_rows k, const key_gradients *to)
{
    const bo_gla_block *block = &work->block;
    size_t rows = block->rows, dim = block->dim, values = block->value_dim;
    if (to->k.at)
        bo_row_transform_backward(&block->transform, BO_OF_KEYS, rows, k.at, k.stride, work->dk, to->k.at, to->k.stride,
                                  NULL);
    write_rows(to->v, rows, values, work->dv);
    write_rows(to->gate, rows, dim, work->dlog);
}

static bool back_block(const bo_gla_task *at, back_work *work, size_t first, size_t rows, const float *st)
{
    const bo_call *call = at->call;
    bo_gla_block *block = &work->block;
    bo_rows v = bo_rows_from(at->rows.v, first);
    key_gradients to = gradients_at(at, first);
    if (bo_pass_stops(call->watch, rows)) return false;
    load_block(at, block, first, rows);
    if (first >= BO_GATED_ROWS) expect(at, block, first - BO_GATED_ROWS, BO_GATED_ROWS);
    back_later(work, st, v.at, v.stride);
    bo_gla_fetch(to.k, 0, rows, block->dim);
    bo_gla_fetch(to.gate, 0, rows, block->dim);
    bo_gla_decay(block, block->total, work->g);
    call->kernels->transpose(rows, block->value_dim, v.at, v.stride, work->vt, BO_GATED_ROWS);
    bo_gla_fetch(to.v, 0, rows, block->value_dim);
    for (size_t g = 0; call->dout && g < call->attention->group; g++) {
        query_rows query = queries_at(at, g, first), next = {0};
        if (first >= BO_GATED_ROWS) next = queries_at(at, g, first - BO_GATED_ROWS);
        bo_gla_fetch(next.q, 0, BO_GATED_ROWS, block->dim);
        bo_gla_fetch(next.dout, 0, BO_GATED_ROWS, block->value_dim);
        bo_gla_fetch(query.dq, 0, rows, block->dim);
        if (!back_queries(work, &query, st, work->g)) return false;
    }
    write_key_gradients(work, bo_rows_from(at->rows.k, first), &to);
    return true;
}

/* ---- the pass ---------------------------------------------------------------------------------------------------- */

/* Recomputes the states before each block of the segment [first, end), from the state before the first block. */
static void replay(const bo_gla_task *at, back_work *work, size_t first, size_t end)
{
    bo_gla_block *block = &work->block;
    const bo_kernels *kernels = block->kernels;
    size_t dim = block->dim, values = block->value_dim, size = dim * values;
    float *st = work->states;
    for (size_t start = first; start + BO_GATED_ROWS < end; start += BO_GATED_ROWS, st += size) {
        bo_rows v = bo_rows_from(at->rows.v, start);
        load_block(at, block, start, BO_GATED_ROWS);
        expect(at, block, start + BO_GATED_ROWS, bo_min(BO_GATED_ROWS, end - start - BO_GATED_ROWS));
        for (size_t j = 0; j < values; j++)
            kernels->product(dim, st + j * dim, block->total, false, st + size + j * dim);
        kernels->multiply(values, dim, BO_GATED_ROWS, v.at, 1, v.stride, block->k_after, dim, true, st + size, dim);
    }
}

/* Writes Sᵀ of a state to the first state of the segment; NULL: zeros. */
static void begin_states(back_work *work, const float *s)
{
    size_t dim = work->block.dim, values = work->block.value_dim;
    if (s)
        work->block.kernels->transpose(dim, values, s, values, work->states, dim);
    else
        memset(work->states, 0, dim * values * sizeof *work->states);
}

static bool reverse_causal(const bo_gla_task *at, back_work *work, const float *initial)
{
    const bo_call *call = at->call;
    size_t segment = call->plan.segment, size = work->block.dim * work->block.value_dim;
    for (size_t segments = (at->tokens + segment - 1) / segment; segments-- > 0;) {
        size_t first = segments * segment, end = bo_min(first + segment, at->tokens);
        begin_states(work, segments ? bo_tape_memory(call, at->sequence, at->key_head, segments - 1) : initial);
        replay(at, work, first, end);
        for (size_t b = blocks_of(end - first); b-- > 0;) {
            size_t start = first + b * BO_GATED_ROWS;
            if (!back_block(at, work, start, bo_min(BO_GATED_ROWS, end - start), work->states + b * size)) return false;
        }
    }
    return true;
}

/* Without keys: dq = s S do, and s q doᵀ is added to G. */
static bool reverse_read_only(const bo_gla_task *at, back_work *work, const float *initial)
{
    const bo_call *call = at->call;
    const bo_kernels *kernels = call->kernels;
    bo_gla_block *block = &work->block;
    size_t dim = block->dim, values = block->value_dim;
    begin_states(work, initial);
    for (size_t first = 0; call->dout && first < at->tokens; first += BO_GATED_ROWS) {
        size_t rows = bo_min(BO_GATED_ROWS, at->tokens - first);
        if (bo_pass_stops(call->watch, rows)) return false;
        for (size_t g = 0; g < call->attention->group; g++) {
            query_rows query = queries_at(at, g, first);
            if (!bo_rows_finite(kernels, rows, values, query.dout.at, query.dout.stride)) return false;
            bo_gla_scaled(block, rows, query.q.at, query.q.stride, block->q);
            kernels->multiply(rows, dim, values, query.dout.at, query.dout.stride, 1, work->states, dim, false,
                              work->dq, dim);
            kernels->multiply(dim, values, rows, block->q, 1, dim, query.dout.at, query.dout.stride, true, work->g,
                              values);
            write_query_gradients(block, rows, &query, work->dq);
        }
    }
    return true;
}

void bo_gla_backward(const bo_call *call, size_t sequence, size_t key_head, float *parameters, void *scratch)
{
    const bo_attention *attention = call->attention;
    bo_carver carver = {.at = scratch};
    back_work work = back_make(attention, call->in, key_head, &call->plan, &carver);
    bo_gla_task at = bo_gla_task_make(call, sequence, key_head);
    size_t bytes = work.block.dim * work.block.value_dim * sizeof(float);
    const float *initial = call->initial ? bo_state_memory(attention, (void *)call->initial[sequence], key_head) : NULL;
    (void)parameters;
    if (call->d_final)
        memcpy(work.g, bo_memory_gradient(attention, call->d_final[sequence], key_head), bytes);
    else
        memset(work.g, 0, bytes);
    if (!(call->sequences[sequence].keys ? reverse_causal : reverse_read_only)(&at, &work, initial)) bo_note_stop(call);
    if (call->gradients->initial)
        memcpy(bo_memory_gradient(attention, call->gradients->initial[sequence], key_head), work.g, bytes);
}
