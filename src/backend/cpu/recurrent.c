/* Recurrent layers. Small blocks of sequences run over time independently. A step is one product of their hidden states
 * with U, which is packed once, and then the cell of each sequence. Backward computes the gradients of U h + b of all
 * tokens; the gradient of U is one large product with them. */
#include <string.h>
#include "../shapes.h"
#include "../../math/linalg.h"
#include "blocks.h"
#include "cells.h"
#include "columns.h"
#include "cpu.h"
#include "../sequences.h"

enum {
    BLOCK = 8,     /* sequences per task */
    FEW_STEPS = 2, /* number of steps up to which U is not packed */
};

typedef struct recurrent {
    const bo_op_call *call;
    const bo_recurrent_attributes *attributes;
    const bo_kernels *kernels;
    const bo_recurrent_cell *cell;
    bo_spans spans;
    size_t rows, size, columns; /* n, h, g h */
    const bo_packed *packed;    /* packed U; NULL: not packed */
    const float *zeros;         /* the saved floats per token, at least h */
    float *work;                /* memory of the blocks, one after the other */
    float *dproduct, *before;   /* backward: of all tokens; NULL: not needed. `before`: h of the token before each */
} recurrent;

static recurrent recurrent_of(bo_context *context, const bo_op_call *call)
{
    const bo_recurrent_attributes *a = call->attributes;
    return (recurrent){.call = call,
                       .attributes = a,
                       .kernels = bo_context_kernels(context),
                       .cell = bo_cell_of(a->cell),
                       .rows = call->in[0].rows,
                       .size = call->in[1].columns,
                       .columns = call->in[0].columns};
}

/* ---- workspace ---------------------------------------------------------------------------------------------- */

static size_t kept_floats(const recurrent *r)
{
    return r->cell->kept * r->size;
}

static size_t zero_floats(const recurrent *r)
{
    return bo_padded(kept_floats(r) > r->size ? kept_floats(r) : r->size);
}

/* Forward: h, c, U h, and the saved floats of one token if the call has no memory for them. */
static size_t step_floats(const recurrent *r)
{
    return bo_padded(BLOCK * (2 * r->size + r->columns)) + zero_floats(r);
}

/* Backward: the gradient through U, the carried gradient, the gradients of U h and x, h floats, and the saved floats
 * of the token before the first. */
static size_t back_floats(const recurrent *r)
{
    return bo_padded(BLOCK * (2 * r->size + r->columns) + r->columns) + bo_padded(r->size) + zero_floats(r);
}

/* True if din[0] can store the gradients of U h + b: they equal the gradients of x, and din[0] is not accumulated. */
static bool in_place(const recurrent *r)
{
    return !r->cell->apart && r->call->din[0] && !r->call->add[0];
}

static bool needs_weight_gradients(const bo_op_call *call)
{
    return call->din[1] || call->din[2];
}

static size_t backward_bytes(bo_context *context, const recurrent *r, size_t sequences)
{
    size_t floats = zero_floats(r) + bo_block_count(sequences, BLOCK) * back_floats(r);
    if (needs_weight_gradients(r->call))
        floats += bo_padded(r->rows * r->size) + (in_place(r) ? 0 : bo_padded(r->rows * r->columns));
    size_t packed = bo_packed_bytes(context, BO_PRECISION_FLOAT32, r->size, r->columns);
    size_t product = bo_gemm_bytes(context, bo_context_precision(context), r->columns, r->size, r->rows);
    return floats * sizeof(float) + (packed > product ? packed : product);
}

static bo_status sizes(bo_context *context, const bo_op_call *call, bool gradients, size_t *saved, size_t *scratch)
{
    recurrent r = recurrent_of(context, call);
    size_t sequences = bo_spans_max_count(call, &r.attributes->sequences);
    *saved = gradients ? r.rows * kept_floats(&r) * sizeof(float) : 0;
    *scratch = (zero_floats(&r) + bo_block_count(sequences, BLOCK) * step_floats(&r)) * sizeof(float) +
               bo_packed_bytes(context, BO_PRECISION_FLOAT32, r.columns, r.size);
    if (call->dout[0]) *scratch = backward_bytes(context, &r, sequences);
    return BO_OK;
}

/* Carves the zeros and the memory of the blocks. Returns the address after them. */
static float *place(recurrent *r, size_t block_floats)
{
    float *memory = r->call->scratch;
    r->zeros = memset(memory, 0, zero_floats(r) * sizeof *memory);
    r->work = memory + zero_floats(r);
    return r->work + bo_block_count(r->spans.count, BLOCK) * block_floats;
}

/* ---- blocks of sequences ----------------------------------------------------------------------------------------- */

/* Sequences of a task, longest first, so the sequences with a token at step t come first. */
typedef struct block {
    size_t count;
    size_t index[BLOCK], first[BLOCK], length[BLOCK]; /* indices, first rows and lengths */
} block;

static void insert(block *b, size_t index, size_t first, size_t length)
{
    size_t at = b->count++;
    for (; at > 0 && b->length[at - 1] < length; at--) {
        b->index[at] = b->index[at - 1];
        b->first[at] = b->first[at - 1];
        b->length[at] = b->length[at - 1];
    }
    b->index[at] = index;
    b->first[at] = first;
    b->length[at] = length;
}

static block block_of(const recurrent *r, size_t index)
{
    block b = {0};
    size_t row = 0, begin = index * BLOCK, end = begin + BLOCK;
    if (!r->spans.lengths) row = begin * r->spans.tokens;
    for (size_t s = 0; r->spans.lengths && s < begin; s++) row += r->spans.lengths[s];
    for (size_t s = begin; s < end && s < r->spans.count; s++) {
        insert(&b, s, row, bo_span_length(&r->spans, s));
        row += bo_span_length(&r->spans, s);
    }
    return b;
}

/* Returns how many sequences have a token at step t. */
static size_t active(const block *b, size_t t)
{
    size_t count = b->count;
    while (count > 0 && b->length[count - 1] <= t) count--;
    return count;
}

static size_t longest(const recurrent *r)
{
    size_t length = 0;
    for (size_t s = 0; s < r->spans.count; s++)
        if (bo_span_length(&r->spans, s) > length) length = bo_span_length(&r->spans, s);
    return length;
}

/* ---- forward ----------------------------------------------------------------------------------------------------- */

/* The current values of the sequences of a block: h and c of each, and U h. */
typedef struct stepping {
    float *hidden, *cell, *product, *kept;
} stepping;

static stepping stepping_of(const recurrent *r, size_t index)
{
    float *memory = r->work + index * step_floats(r);
    float *product = memory + 2 * BLOCK * r->size;
    return (stepping){memory, memory + BLOCK * r->size, product, product + bo_padded(BLOCK * r->columns)};
}

/* A state is h followed, for LSTM, by c. */
static void recall(const recurrent *r, const block *b, const stepping *w)
{
    memset(w->hidden, 0, 2 * BLOCK * r->size * sizeof(float));
    for (size_t i = 0; i < b->count; i++) {
        const float *state = bo_span_state(r->call, &r->attributes->sequences, &r->spans, b->index[i]);
        if (!state) continue;
        memcpy(w->hidden + i * r->size, state, r->size * sizeof(float));
        if (r->cell->states > 1) memcpy(w->cell + i * r->size, state + r->size, r->size * sizeof(float));
    }
}

static void remember(const recurrent *r, const block *b, const stepping *w)
{
    for (size_t i = 0; i < b->count && !r->call->again; i++) {
        float *state = bo_span_final(r->call, &r->attributes->sequences, &r->spans, b->index[i]);
        if (!state) continue;
        memcpy(state, w->hidden + i * r->size, r->size * sizeof(float));
        if (r->cell->states > 1) memcpy(state + r->size, w->cell + i * r->size, r->size * sizeof(float));
    }
}

static void multiply_forward(const recurrent *r, size_t m, const stepping *w)
{
    if (r->packed)
        bo_packed_multiply(r->packed, m, w->hidden, r->size, w->product, r->columns);
    else
        r->kernels->dots(r->columns, m, r->size, r->call->in[1].data, r->size, w->hidden, r->size, w->product,
                         r->columns);
}

/* Task: runs some sequences from their first token to their last. */
static void forward_task(void *arg, size_t index, int worker)
{
    (void)worker;
    const recurrent *r = arg;
    const bo_op_call *call = r->call;
    const block b = block_of(r, index);
    const stepping w = stepping_of(r, index);
    float *out = call->out[0].data, *saved = call->saved;
    bo_cell_step step = {.kernels = r->kernels, .size = r->size, .bias = call->in[2].data};
    recall(r, &b, &w);
    for (size_t t = 0, m; (m = active(&b, t)) > 0; t++) {
        multiply_forward(r, m, &w);
        for (size_t i = 0; i < m; i++) {
            size_t row = b.first[i] + t;
            step.x = (const float *)call->in[0].data + row * r->columns;
            step.product = w.product + i * r->columns;
            step.kept = saved ? saved + row * kept_floats(r) : w.kept;
            step.hidden = w.hidden + i * r->size;
            step.cell = w.cell + i * r->size;
            r->cell->step(&step);
            memcpy(out + row * r->size, step.hidden, r->size * sizeof *out);
        }
    }
    remember(r, &b, &w);
}

static bo_status forward(bo_context *context, const bo_op_call *call)
{
    recurrent r = recurrent_of(context, call);
    BO_TRY(bo_spans_of_input(context, call, 0, &r.attributes->sequences, "recurrent", &r.spans));
    float *rest = place(&r, step_floats(&r));
    if (longest(&r) > FEW_STEPS)
        r.packed = bo_packed_in(context, BO_PRECISION_FLOAT32, true, r.columns, r.size, call->in[1].data, r.size, rest);
    bo_parallel(context, bo_block_count(r.spans.count, BLOCK), forward_task, &r);
    return BO_OK;
}

/* ---- backward ---------------------------------------------------------------------------------------------------- */

/* Writes dx of one token, if it is needed and not stored in dproduct. */
static void hand_back_x(const recurrent *r, size_t row, const float *dx)
{
    if (!r->call->din[0]) return;
    float *to = (float *)r->call->din[0] + row * r->columns;
    if (r->call->add[0])
        r->kernels->axpy(r->columns, 1.0f, dx, to);
    else
        memcpy(to, dx, r->columns * sizeof *to);
}

/* Stores the data of one token for the large products. */
static void keep_product(const recurrent *r, size_t row, const float *dproduct, const float *hidden_before)
{
    if (!r->dproduct) return;
    if (!in_place(r)) memcpy(r->dproduct + row * r->columns, dproduct, r->columns * sizeof(float));
    memcpy(r->before + row * r->size, hidden_before, r->size * sizeof(float));
}

/* Starts with the gradients of the final states: of h in `back`, for LSTM of c in `carry`. */
static void begin_back(const recurrent *r, const block *b, float *back, float *carry)
{
    const size_t h = r->size;
    memset(back, 0, BLOCK * h * sizeof *back);
    memset(carry, 0, BLOCK * h * sizeof *carry);
    for (size_t i = 0; i < b->count; i++) {
        const float *gradient = bo_span_final_gradient(r->call, &r->attributes->sequences, &r->spans, b->index[i]);
        if (!gradient) continue;
        memcpy(back + i * h, gradient, h * sizeof *back);
        if (r->cell->states > 1) memcpy(carry + i * h, gradient + h, h * sizeof *carry);
    }
}

/* Ends with the gradients of the initial states. Without c, `carry` is the part of the gradient of h that does not pass
 * through U. */
static void end_back(const recurrent *r, const block *b, const float *back, const float *carry)
{
    const size_t h = r->size;
    for (size_t i = 0; i < b->count; i++) {
        float *gradient = bo_span_state_gradient(r->call, &r->attributes->sequences, &r->spans, b->index[i]);
        if (!gradient) continue;
        memcpy(gradient, back + i * h, h * sizeof *gradient);
        if (r->cell->states > 1)
            memcpy(gradient + h, carry + i * h, h * sizeof *gradient);
        else
            r->kernels->axpy(h, 1.0f, carry + i * h, gradient);
    }
}

/* Sets h and the saved values before the first token of a sequence; c is the last saved value. */
static void before_first(const recurrent *r, size_t sequence, float *memory, bo_cell_back *step)
{
    const float *state = bo_span_state(r->call, &r->attributes->sequences, &r->spans, sequence);
    step->hidden_before = state ? state : r->zeros;
    step->kept_before = r->zeros;
    if (!state || r->cell->states == 1) return;
    memset(memory, 0, kept_floats(r) * sizeof *memory);
    memcpy(memory + kept_floats(r) - r->size, state + r->size, r->size * sizeof *memory);
    step->kept_before = memory;
}

/* Task: runs some sequences from their last token to their first. */
static void backward_task(void *arg, size_t index, int worker)
{
    (void)worker;
    const recurrent *r = arg;
    const bo_op_call *call = r->call;
    const block b = block_of(r, index);
    const size_t h = r->size, kept = kept_floats(r);
    const float *out = call->out[0].data, *saved = call->saved, *dout = call->dout[0];
    float *back = r->work + index * back_floats(r), *carry = back + BLOCK * h, *dproduct = carry + BLOCK * h;
    float *dx = dproduct + BLOCK * r->columns;
    bo_cell_back step = {.kernels = r->kernels, .size = h, .work = dx + r->columns};
    float *first = back + back_floats(r) - zero_floats(r);
    const bool flows = bo_pass_segments(call->pass) && call->pass->state_gradients;
    begin_back(r, &b, back, carry);
    for (size_t t = b.count ? b.length[0] : 0; t-- > 0;) {
        size_t m = active(&b, t);
        for (size_t i = 0; i < m; i++) {
            size_t row = b.first[i] + t;
            step.hidden = out + row * h;
            step.hidden_before = step.hidden - (t > 0 ? h : 0);
            if (kept > 0) { /* else nothing was saved */
                step.kept = saved + row * kept;
                step.kept_before = step.kept - (t > 0 ? kept : 0);
            }
            if (t == 0) before_first(r, b.index[i], first, &step);
            step.dout = dout + row * h;
            step.back = back + i * h;
            step.carry = carry + i * h;
            step.dproduct = dproduct + i * r->columns;
            step.dx = r->cell->apart ? dx : step.dproduct;
            r->cell->back(&step);
            hand_back_x(r, row, step.dx);
            keep_product(r, row, step.dproduct, step.hidden_before);
        }
        if (t > 0 || flows) bo_packed_multiply(r->packed, m, dproduct, r->columns, back, h);
    }
    if (flows) end_back(r, &b, back, carry);
}

/* Computes dU = Σ dproduct hᵀ over all tokens, and db, the sum of dproduct. */
static void weight_gradients(bo_context *context, const recurrent *r, void *memory)
{
    const bo_op_call *call = r->call;
    if (call->din[1])
        bo_gemm_in(context, bo_context_precision(context), true, false, r->columns, r->size, r->rows, 1, r->dproduct,
                   r->columns, r->before, r->size, call->add[1] ? 1.0f : 0.0f, call->din[1], r->size, memory);
    if (call->din[2]) bo_sum_columns(context, r->rows, r->columns, r->dproduct, call->add[2], call->din[2]);
}

static bo_status backward(bo_context *context, const bo_op_call *call)
{
    recurrent r = recurrent_of(context, call);
    if (bo_backward_is_zero(call)) return BO_OK;
    BO_TRY(bo_spans_refuse_states(context, call, &r.attributes->sequences, "recurrent"));
    BO_TRY(bo_spans_of_input(context, call, 0, &r.attributes->sequences, "recurrent", &r.spans));
    float *rest = place(&r, back_floats(&r));
    if (needs_weight_gradients(call)) {
        r.before = rest;
        rest += bo_padded(r.rows * r.size);
        r.dproduct = in_place(&r) ? call->din[0] : rest;
        rest += in_place(&r) ? 0 : bo_padded(r.rows * r.columns);
    }
    r.packed = bo_packed_in(context, BO_PRECISION_FLOAT32, false, r.size, r.columns, call->in[1].data, r.size, rest);
    bo_parallel(context, bo_block_count(r.spans.count, BLOCK), backward_task, &r);
    if (needs_weight_gradients(call)) weight_gradients(context, &r, rest);
    return BO_OK;
}

static double operations(bo_context *context, const bo_op_call *call)
{
    (void)context;
    return 2.0 * (double)call->in[0].rows * (double)bo_operand_floats(&call->in[1]);
}

const bo_op bo_cpu_recurrent = {
    .name = "recurrent",
    .attributes = sizeof(bo_recurrent_attributes),
    .reads_inputs = 1 << 1,
    .reads_outputs = 1 << 0,
    .shape = bo_shape_recurrent,
    .sizes = sizes,
    .forward = forward,
    .backward = backward,
    .operations = operations,
};
