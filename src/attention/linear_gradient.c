/* The backward pass of a chunk: linear_gradient.h has the formulas. */
#include <math.h>
#include <string.h>
#include "linear_gradient.h"

/* The hybrid's window may weigh e^-100 in the sums' units: what nothing in them answers to stays a number. */
static const float most_exponent = 69.0f;

/* Beyond this what dL/dn is multiplied with may leave float: no gradient flows from such a row. */
static const float most_slope = 1e36f;

/* Columns of a triangular right factor taken together: two vectors wide on the widest machines. */
enum { COLUMNS = 32 };

bo_linear_back bo_linear_back_make(const bo_attention *attention, const bo_attention_inputs *in, size_t key_head,
                                   size_t chunk, bo_carver *carver)
{
    size_t count = attention->count, values = attention->desc.value_dim, wide = values + 1;
    bo_linear_back back = {.linear = bo_linear_make(attention, in, key_head, chunk, carver), .wide = wide};
    back.gt = bo_carve_floats(carver, wide * count);
    back.dn = bo_carve_floats(carver, chunk * wide);
    back.carried = bo_carve_floats(carver, chunk * wide);
    back.vt = bo_carve_floats(carver, wide * chunk);
    back.vw = bo_carve_floats(carver, chunk * wide);
    back.p = bo_carve_floats(carver, chunk * chunk);
    back.dfq = bo_carve_floats(carver, chunk * count);
    back.dfk = bo_carve_floats(carver, chunk * count);
    back.dvt = bo_carve_floats(carver, values * chunk);
    back.dt = bo_carve_floats(carver, chunk * back.linear.front.width);
    back.dx = bo_carve_floats(carver, chunk * attention->desc.dim);
    back.dv = bo_carve_floats(carver, chunk * values);
    back.flow = bo_carve(carver, chunk, sizeof(double));
    return back;
}

void bo_sums_widen(const bo_linear_back *back, bo_sums sums, float *st)
{
    size_t count = back->linear.count, values = back->linear.value_dim;
    back->linear.kernels->transpose(count, values, sums.s, values, st, count);
    memcpy(st + values * count, sums.z, count * sizeof *st);
}

void bo_linear_advance(const bo_linear_back *back, const float *st, float *next)
{
    const bo_linear *work = &back->linear;
    size_t count = work->count;
    work->kernels->scale(back->wide * count, bo_linear_remains(work, work->keys), st, next);
    work->kernels->multiply(back->wide, count, work->keys, back->vw, 1, back->wide, work->fk, count, true, next, count);
}

void bo_linear_back_values(bo_linear_back *back, const bo_key_rows *rows)
{
    const bo_linear *work = &back->linear;
    size_t values = work->value_dim;
    for (size_t j = 0; j < rows->keys; j++) {
        float weight = work->weights[j];
        work->kernels->scale(values, weight, rows->v + j * rows->ldv, back->vw + j * back->wide);
        back->vw[j * back->wide + values] = weight;
    }
}

void bo_linear_back_sums(bo_linear_back *back, const bo_key_rows *rows)
{
    const bo_linear *work = &back->linear;
    const bo_kernels *kernels = work->kernels;
    size_t count = work->count, values = work->value_dim, keys = rows->keys, chunk = work->chunk, wide = back->wide;
    kernels->transpose(keys, count, work->fk, count, work->fkt, chunk);
    kernels->transpose(keys, values, rows->v, rows->ldv, back->vt, chunk);
    for (size_t j = 0; j < keys; j++) back->vt[values * chunk + j] = 1;
    bo_linear_back_values(back, rows);
    kernels->multiply(keys, count, wide, back->vw, wide, 1, back->gt, count, false, back->dfk, count);
    kernels->multiply(values, keys, count, back->gt, count, 1, work->fkt, chunk, false, back->dvt, chunk);
    for (size_t i = 0; work->weighted && i < values; i++)
        for (size_t j = 0; j < keys; j++) back->dvt[i * chunk + j] *= work->weights[j];
}

void bo_linear_back_keys(bo_linear_back *back, const bo_key_rows *rows)
{
    const bo_linear *work = &back->linear;
    memset(back->flow, 0, work->chunk * sizeof *back->flow);
    if (rows->keys == 0) return;
    bo_linear_back_sums(back, rows);
    float remains = bo_linear_remains(work, rows->keys);
    if (remains != 1) work->kernels->scale(back->wide * work->count, remains, back->gt, back->gt);
}

/* dn~ of one row: o = n / denominator, denominator = exp(top) |sum| (internal.h). `own` is what n is relative to. */
static void output_gradient(const bo_linear *work, const float *dout, const float *out, float own, float top, float sum,
                            float *dn)
{
    const bo_kernels *kernels = work->kernels;
    size_t values = work->value_dim;
    float factor = 0;
    if (isfinite(sum) && isfinite(top)) factor = expf(fminf(own - top, most_exponent)) / fabsf(sum);
    kernels->scale(values, factor, dout, dn);
    dn[values] = sum > 0 && factor > 0 ? -factor * (float)kernels->dot(values, dout, out) : 0;
    for (size_t j = 0; j <= values; j++) {
        if (fabsf(dn[j]) <= most_slope) continue;
        memset(dn, 0, (values + 1) * sizeof *dn);
        return;
    }
}

/* dn~ and ρ dn~ of each row. */
static void output_gradients(bo_linear_back *back, const bo_query_rows *rows)
{
    const bo_linear *work = &back->linear;
    size_t wide = back->wide;
    for (size_t i = 0; i < rows->rows; i++) {
        size_t t = bo_visible(i, rows->lag, work->keys);
        float *dn = back->dn + i * wide;
        output_gradient(work, rows->dout + i * rows->lddout, rows->out + i * rows->ldout, work->lq[i] + work->r[t],
                        rows->top[i], rows->sum[i], dn);
        work->kernels->scale(wide, bo_linear_remains(work, t), dn, back->carried + i * wide);
    }
}

/* P, zero where nothing is seen. */
static void value_products(bo_linear_back *back, const bo_query_rows *rows)
{
    const bo_linear *work = &back->linear;
    const bo_kernels *kernels = work->kernels;
    for (size_t first = 0; first < rows->rows; first += BO_BAND) {
        size_t band = bo_least(BO_BAND, rows->rows - first),
               width = bo_visible(first + band - 1, rows->lag, work->keys);
        kernels->multiply(band, width, back->wide, back->dn + first * back->wide, back->wide, 1, back->vt, work->chunk,
                          false, back->p + first * work->chunk, work->chunk);
        for (size_t i = first; i < first + band; i++) {
            size_t t = bo_visible(i, rows->lag, work->keys);
            float *row = back->p + i * work->chunk;
            memset(row + t, 0, (work->keys - t) * sizeof *row);
            if (work->weighted) bo_linear_weigh(work, t, row);
        }
    }
}

/* What queries and keys of the chunk owe each other: df_i, df_j and dv_j through P and A. */
static void within_chunk(bo_linear_back *back, const bo_query_rows *rows)
{
    const bo_linear *work = &back->linear;
    const bo_kernels *kernels = work->kernels;
    size_t count = work->count, keys = work->keys, chunk = work->chunk;
    bo_linear_scores(work, rows->rows, rows->lag, NULL);
    value_products(back, rows);
    for (size_t first = 0; first < rows->rows; first += BO_BAND) {
        size_t band = bo_least(BO_BAND, rows->rows - first), width = bo_visible(first + band - 1, rows->lag, keys);
        kernels->multiply(band, count, width, back->p + first * chunk, chunk, 1, work->fk, count, true,
                          back->dfq + first * count, count);
    }
    for (size_t j = 0; j < keys; j += COLUMNS) { /* keys from j on are seen by rows from j + lag on */
        size_t columns = bo_least(COLUMNS, keys - j), from = j + rows->lag, seen = rows->rows - from;
        kernels->multiply(columns, count, seen, back->p + from * chunk + j, 1, chunk, work->fq + from * count, count,
                          true, back->dfk + j * count, count);
        kernels->multiply(work->value_dim, columns, seen, back->dn + from * back->wide, 1, back->wide,
                          work->scores + from * chunk + j, chunk, true, back->dvt + j, chunk);
    }
}

/* d inputs of the features in `features`, through map and front. */
static void through_map(bo_linear_back *back, bo_role role, size_t rows, const float *x, size_t ldx,
                        const float *features, const float *gradient, float *dx, size_t lddx, float *parameters)
{
    bo_linear *work = &back->linear;
    size_t ldt, count = work->count;
    const float *t = bo_front_forward(&work->front, role, rows, x, ldx, work->t, &ldt);
    if (bo_front_is_none(&work->front)) {
        bo_features_block_backward(work->map, rows, t, ldt, features, count, gradient, count, dx, lddx, work->block);
        return;
    }
    bo_features_block_backward(work->map, rows, t, ldt, features, count, gradient, count, back->dt, work->front.width,
                               work->block);
    bo_front_backward(&work->front, role, rows, x, ldx, back->dt, dx, lddx, parameters);
}

void bo_linear_back_queries(bo_linear_back *back, const bo_query_rows *rows, float *parameters)
{
    bo_linear *work = &back->linear;
    const bo_kernels *kernels = work->kernels;
    size_t count = work->count, wide = back->wide, dim = work->front.dim;
    bo_linear_features(work, rows->rows, rows->q, rows->ldq);
    output_gradients(back, rows);
    kernels->multiply(rows->rows, count, wide, back->carried, wide, 1, back->st, count, false, back->dfq, count);
    kernels->multiply(wide, count, rows->rows, back->carried, 1, wide, work->fq, count, true, back->gt, count);
    if (work->keys) within_chunk(back, rows);
    for (size_t i = 0; work->attention->desc.gate != BO_GATE_NONE && i < rows->rows; i++)
        back->flow[i] += kernels->dot(count, work->fq + i * count, back->dfq + i * count);
    if (!rows->dq && !parameters) return;
    float *dq = rows->dq && !rows->add ? rows->dq : back->dx;
    size_t lddq = rows->dq && !rows->add ? rows->lddq : dim;
    through_map(back, BO_OF_QUERIES, rows->rows, rows->q, rows->ldq, work->fq, back->dfq, dq, lddq, parameters);
    for (size_t i = 0; rows->dq && rows->add && i < rows->rows; i++)
        kernels->axpy(dim, 1, back->dx + i * dim, rows->dq + i * rows->lddq);
}

void bo_linear_back_finish(bo_linear_back *back, const bo_key_rows *rows, float *parameters, double *own)
{
    bo_linear *work = &back->linear;
    const bo_kernels *kernels = work->kernels;
    size_t count = work->count, values = work->value_dim;
    for (size_t j = 0; work->attention->desc.gate != BO_GATE_NONE && j < rows->keys; j++)
        own[j] = kernels->dot(count, work->fk + j * count, back->dfk + j * count);
    through_map(back, BO_OF_KEYS, rows->keys, rows->k, rows->ldk, work->fk, back->dfk, back->dx, work->front.dim,
                parameters);
    kernels->transpose(values, rows->keys, back->dvt, work->chunk, back->dv, values);
}
