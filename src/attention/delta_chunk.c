/* A chunk of the delta rule: delta.h has the formulas. */
#include <math.h>
#include <string.h>
#include "delta.h"
#include "linear.h"

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
    work.front = bo_row_transform_make(attention, in, key_head, carver);
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

/* ---- triangles -------------------------------------------------------------------------------------------------- */

void bo_delta_triangle(const bo_delta *work, size_t rows, size_t depth, const float *x, size_t ldx, const float *yt,
                       float *out)
{
    for (size_t first = 0; first < rows; first += BO_DELTA_BAND)
        work->kernels->multiply(bo_least(BO_DELTA_BAND, rows - first), bo_delta_reach(work, first), depth,
                                x + first * ldx, ldx, 1, yt, work->chunk, false, out + first * work->chunk,
                                work->chunk);
}

void bo_delta_decay_row(const bo_delta *work, size_t i, size_t seen, float sign, float *row)
{
    const float *decay = work->decay + i * work->chunk;
    for (size_t j = 0; work->gated && j < seen; j++) row[j] *= sign * decay[j];
    for (size_t j = 0; !work->gated && sign < 0 && j < seen; j++) row[j] = -row[j];
    memset(row + seen, 0, (bo_delta_reach(work, i) - seen) * sizeof *row);
}

/* ---- keys ------------------------------------------------------------------------------------------------------- */

/* Sums of gates may be far larger than any exponent that counts, so they cancel in double. */
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
    work->keys = keys;
    work->beta = bo_rows_from(task->rows.beta, first).at;
    work->beta_stride = task->rows.beta.stride;
    if (keys == 0) return;
    work->k = bo_row_transform_forward(&work->front, BO_OF_KEYS, keys, bo_rows_from(task->rows.k, first).at,
                                       task->rows.k.stride, work->t, &work->ldk);
    work->kernels->transpose(keys, work->dim, work->k, work->ldk, work->kt, work->chunk);
    if (work->gated) decays(work, bo_rows_from(task->rows.gate, first).at, task->rows.gate.stride);
    bo_delta_triangle(work, keys, work->dim, work->k, work->ldk, work->kt, work->products);
    for (size_t i = 0; i < keys; i++) bo_delta_decay_row(work, i, i, -1, work->products + i * work->chunk);
}

/* ---- what is learned --------------------------------------------------------------------------------------------- */

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

/* ---- queries ---------------------------------------------------------------------------------------------------- */

void bo_delta_queries(bo_delta *work, size_t queries, const float *q, size_t ldq)
{
    size_t ldt, dim = work->dim;
    const float *t = bo_row_transform_forward(&work->front, BO_OF_QUERIES, queries, q, ldq, work->q, &ldt);
    for (size_t i = 0; i < queries; i++)
        work->kernels->scale(dim, (float)work->attention->desc.scale, t + i * ldt, work->q + i * dim);
    if (work->keys == 0) return;
    bo_delta_triangle(work, queries, dim, work->q, dim, work->kt, work->scores);
    for (size_t i = 0; i < queries; i++) bo_delta_decay_row(work, i, i + 1, 1, work->scores + i * work->chunk);
}

void bo_delta_answer(const bo_delta *work, size_t queries, float *out, size_t ldout)
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
