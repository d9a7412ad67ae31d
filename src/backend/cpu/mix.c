/* Products along the tokens: y = W_h x for the columns of each head of each sequence; W is lower triangular if causal.
 * Rows of W are processed in blocks. A causal block multiplies all earlier tokens, then its own tokens by a copied
 * triangle of W. */
#include <stdint.h>
#include <string.h>
#include "../shapes.h"
#include "../../device/cpu/kernels.h"
#include "blocks.h"
#include "cpu.h"
#include "../sequences.h"

enum {
    ROWS = BO_SIZE(32, 4), /* rows per block */
    TILE = BO_SIZE(64, 8), /* columns of dW per tile */
};

/* A state: its number of tokens and, from HEAD on, one row of x per column of W. */
enum { HEAD = BO_MIX_HEAD };

typedef struct mix {
    const bo_op_call *call;
    const bo_mix_attributes *attributes;
    const bo_kernels *kernels;
    bo_spans spans;
    size_t columns, heads, dim, max_tokens; /* columns of x; heads, columns per head; T */
    float *turned;                          /* backward: x of every sequence and head, transposed */
} mix;

static mix mix_of(bo_context *context, const bo_op_call *call)
{
    const bo_mix_attributes *a = call->attributes;
    size_t heads = a->heads ? a->heads : 1, columns = call->in[0].columns;
    return (mix){.call = call,
                 .attributes = a,
                 .kernels = bo_context_kernels(context),
                 .columns = columns,
                 .heads = heads,
                 .dim = columns / heads,
                 .max_tokens = call->in[1].columns};
}

/* ---- one head of one sequence ------------------------------------------------------------------------------------ */

/* Tokens `first` … end - 1 are computed; x has the rows of all tokens from 0. */
typedef struct part {
    size_t row;        /* row of token `first` in the operation */
    size_t first, end; /* tokens */
    const float *x;
} part;

static part part_of(const mix *m, size_t s)
{
    part out = {.end = bo_span_length(&m->spans, s)};
    out.row = s * m->spans.tokens;
    if (m->spans.lengths) {
        out.row = 0;
        for (size_t i = 0; i < s; i++) out.row += m->spans.lengths[i];
    }
    out.x = (const float *)m->call->in[0].data + out.row * m->columns;
    char *state = bo_span_state(m->call, &m->attributes->sequences, &m->spans, s);
    if (!state) return out;
    out.first = *(const uint32_t *)(const void *)state;
    if (m->call->again) out.first -= out.end; /* the state already contains them */
    out.end += out.first;
    out.x = (const float *)(const void *)(state + HEAD);
    return out;
}

static const float *matrix(const mix *m, size_t head)
{
    return (const float *)m->call->in[1].data + head * m->max_tokens * m->max_tokens;
}

/* Copies the triangle of W on tokens t0 … t1 - 1, or the whole square. */
static void copy_corner(const mix *m, const float *w, size_t t0, size_t t1, float *out)
{
    for (size_t t = t0; t < t1; t++)
        for (size_t s = t0; s < t1; s++)
            out[(t - t0) * ROWS + s - t0] = s <= t || !m->attributes->causal ? w[t * m->max_tokens + s] : 0;
}

static void mix_head(const mix *m, const part *p, size_t head)
{
    const float *w = matrix(m, head), *x = p->x + head * m->dim;
    float *y = (float *)m->call->out[0].data + p->row * m->columns + head * m->dim;
    float corner[ROWS * ROWS];
    for (size_t t0 = p->first, t1; t0 < p->end; t0 = t1, y += ROWS * m->columns) {
        t1 = p->end - t0 < ROWS ? p->end : t0 + ROWS;
        size_t visible = m->attributes->causal ? t0 : p->end;
        m->kernels->multiply(t1 - t0, m->dim, visible, w + t0 * m->max_tokens, m->max_tokens, 1, x, m->columns, false,
                             y, m->columns);
        if (!m->attributes->causal) continue;
        copy_corner(m, w, t0, t1, corner);
        m->kernels->multiply(t1 - t0, m->dim, t1 - t0, corner, ROWS, 1, x + t0 * m->columns, m->columns, true, y,
                             m->columns);
    }
}

/* dx_s = Σ_t W[t, s] dy_t */
static void back_head(const mix *m, const part *p, size_t head)
{
    const float *w = matrix(m, head);
    const float *dy = (const float *)m->call->dout[0] + p->row * m->columns + head * m->dim;
    float *dx = (float *)m->call->din[0] + p->row * m->columns + head * m->dim;
    float corner[ROWS * ROWS];
    for (size_t s0 = 0, s1; s0 < p->end; s0 = s1, dx += ROWS * m->columns) {
        s1 = p->end - s0 < ROWS ? p->end : s0 + ROWS;
        size_t from = m->attributes->causal ? s1 : 0;
        m->kernels->multiply(s1 - s0, m->dim, p->end - from, w + from * m->max_tokens + s0, 1, m->max_tokens,
                             dy + from * m->columns, m->columns, m->call->add[0], dx, m->columns);
        if (!m->attributes->causal) continue;
        copy_corner(m, w, s0, s1, corner);
        m->kernels->multiply(s1 - s0, m->dim, s1 - s0, corner, 1, ROWS, dy + s0 * m->columns, m->columns, true, dx,
                             m->columns);
    }
}

/* ---- forward ----------------------------------------------------------------------------------------------------- */

static bo_status check_spans(bo_context *context, const mix *m)
{
    bool states = bo_spans_have_states(m->call, &m->attributes->sequences);
    if (states && !m->attributes->causal)
        return bo_fail(context, BO_INVALID, "mix: a matrix that is not causal cannot be applied in pieces");
    for (size_t s = 0; s < m->spans.count; s++) {
        const void *state = bo_span_state(m->call, &m->attributes->sequences, &m->spans, s);
        size_t stored = state ? *(const uint32_t *)state : 0, length = bo_span_length(&m->spans, s);
        size_t tokens = length + (m->call->again ? 0 : stored);
        if (state && m->call->again && stored < length)
            return bo_fail(context, BO_INVALID, "mix: %zu tokens are repeated, but the state has %zu", length, stored);
        if (tokens > m->max_tokens)
            return bo_fail(context, BO_INVALID, "mix: the matrix supports %zu tokens per sequence, found %zu",
                           m->max_tokens, tokens);
    }
    return BO_OK;
}

/* Appends the new tokens to the state, which is then the input. */
static void append_tokens(const mix *m)
{
    for (size_t s = 0, row = 0; s < m->spans.count; s++) {
        size_t tokens = bo_span_length(&m->spans, s);
        char *state = bo_span_state(m->call, &m->attributes->sequences, &m->spans, s);
        const float *x = (const float *)m->call->in[0].data + row * m->columns;
        row += tokens;
        if (!state || m->call->again) continue;
        float *stored = (float *)(void *)(state + HEAD) + *(uint32_t *)(void *)state * m->columns;
        memcpy(stored, x, tokens * m->columns * sizeof *x);
    }
}

static void count_tokens(const mix *m)
{
    for (size_t s = 0; s < m->spans.count && !m->call->again; s++) {
        void *state = bo_span_state(m->call, &m->attributes->sequences, &m->spans, s);
        if (state) *(uint32_t *)state += (uint32_t)bo_span_length(&m->spans, s);
    }
}

/* Task: computes a head of a sequence. */
static void forward_task(void *arg, size_t index, int worker)
{
    (void)worker;
    const mix *m = arg;
    part p = part_of(m, index / m->heads);
    mix_head(m, &p, index % m->heads);
}

static bo_status forward(bo_context *context, const bo_op_call *call)
{
    mix m = mix_of(context, call);
    BO_TRY(bo_spans_of(context, call, &m.attributes->sequences, "mix", &m.spans));
    BO_TRY(check_spans(context, &m));
    append_tokens(&m);
    bo_parallel(context, m.spans.count * m.heads, forward_task, &m);
    count_tokens(&m);
    return BO_OK;
}

/* ---- backward ---------------------------------------------------------------------------------------------------- */

/* Task: computes dx of a head of a sequence, and transposes its x. */
static void backward_task(void *arg, size_t index, int worker)
{
    (void)worker;
    const mix *m = arg;
    part p = part_of(m, index / m->heads);
    size_t head = index % m->heads;
    if (m->call->din[0]) back_head(m, &p, head);
    if (!m->turned) return;
    float *turned = m->turned + p.row * m->columns + head * m->dim * p.end;
    m->kernels->transpose(p.end, m->dim, p.x + head * m->dim, m->columns, turned, p.end);
}

/* Computes dW[t, s] = Σ dy_t x_sᵀ over the sequences, for tokens t0 …, s0 … of one head, into `sum` (ROWS x TILE). */
static void sum_tile(const mix *m, size_t head, size_t t0, size_t s0, float *sum)
{
    memset(sum, 0, ROWS * TILE * sizeof *sum);
    for (size_t i = 0; i < m->spans.count; i++) {
        part p = part_of(m, i);
        if (p.end <= t0 || p.end <= s0) continue;
        size_t rows = p.end - t0 < ROWS ? p.end - t0 : ROWS;
        size_t columns = p.end - s0 < TILE ? p.end - s0 : TILE;
        const float *dy = (const float *)m->call->dout[0] + (p.row + t0) * m->columns + head * m->dim;
        const float *turned = m->turned + p.row * m->columns + head * m->dim * p.end + s0;
        m->kernels->multiply(rows, columns, m->dim, dy, m->columns, 1, turned, p.end, true, sum, TILE);
    }
}

/* Task: computes some rows of dW of one head. */
static void weight_task(void *arg, size_t index, int worker)
{
    (void)worker;
    const mix *m = arg;
    const bool causal = m->attributes->causal, add = m->call->add[1];
    size_t blocks = bo_block_count(m->max_tokens, ROWS), head = index / blocks, t0 = index % blocks * ROWS;
    size_t t1 = m->max_tokens - t0 < ROWS ? m->max_tokens : t0 + ROWS;
    float *dw = (float *)m->call->din[1] + head * m->max_tokens * m->max_tokens, sum[ROWS * TILE] = {0};
    for (size_t s0 = 0; s0 < m->max_tokens; s0 += TILE) {
        size_t s1 = m->max_tokens - s0 < TILE ? m->max_tokens : s0 + TILE;
        if (!causal || s0 < t1) sum_tile(m, head, t0, s0, sum);
        for (size_t t = t0; t < t1; t++)
            for (size_t s = s0; s < s1; s++) {
                float value = causal && s > t ? 0 : sum[(t - t0) * TILE + s - s0];
                bo_store(&dw[t * m->max_tokens + s], add, value);
            }
    }
}

static bo_status backward(bo_context *context, const bo_op_call *call)
{
    mix m = mix_of(context, call);
    if (bo_backward_is_zero(call)) return BO_OK;
    BO_TRY(bo_spans_refuse_states(context, call, &m.attributes->sequences, "mix"));
    BO_TRY(bo_spans_of(context, call, &m.attributes->sequences, "mix", &m.spans));
    BO_TRY(check_spans(context, &m));
    if (call->din[1]) m.turned = call->scratch;
    bo_parallel(context, m.spans.count * m.heads, backward_task, &m);
    if (call->din[1]) bo_parallel(context, m.heads * bo_block_count(m.max_tokens, ROWS), weight_task, &m);
    return BO_OK;
}

static bo_status sizes(bo_context *context, const bo_op_call *call, bool gradients, size_t *saved, size_t *scratch)
{
    (void)context, (void)gradients;
    *saved = 0;
    *scratch = call->dout[0] && call->din[1] ? bo_operand_floats(&call->in[0]) * sizeof(float) : 0;
    return BO_OK;
}

static double operations(bo_context *context, const bo_op_call *call)
{
    mix m = mix_of(context, call);
    size_t rows = call->in[0].rows, tokens = m.attributes->sequences.tokens ? m.attributes->sequences.tokens : rows;
    double all = 2.0 * (double)rows * (double)tokens * (double)m.columns;
    return m.attributes->causal ? all / 2 : all;
}

const bo_op bo_cpu_mix = {
    .name = "mix",
    .attributes = sizeof(bo_mix_attributes),
    .reads_inputs = 3,
    .shape = bo_shape_mix,
    .sizes = sizes,
    .forward = forward,
    .backward = backward,
    .operations = operations,
};
