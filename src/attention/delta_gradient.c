/* The backward pass of a chunk: delta_gradient.h has the formulas. */
#include <string.h>
#include "delta_gradient.h"

bo_delta_back bo_delta_back_make(const bo_attention *attention, const bo_attention_inputs *in, size_t key_head,
                                 size_t chunk, bo_carver *carver)
{
    bo_delta_back back = {.delta = bo_delta_make(attention, in, key_head, chunk, carver)};
    size_t dim = back.delta.dim, values = back.delta.values;
    back.g = bo_carve_floats(carver, dim * values);
    back.st = bo_carve_floats(carver, values * dim);
    back.gt = bo_carve_floats(carver, values * dim);
    back.ut = bo_carve_floats(carver, values * chunk);
    back.du = bo_carve_floats(carver, chunk * values);
    back.y = bo_carve_floats(carver, chunk * values);
    back.carried = bo_carve_floats(carver, chunk * values);
    back.pairs = bo_carve_floats(carver, chunk * chunk);
    back.z = bo_carve_floats(carver, back.delta.gated ? chunk * chunk : 0);
    back.from_s = bo_carve(carver, chunk, sizeof(double));
    back.to_s = bo_carve(carver, chunk, sizeof(double));
    back.dq = bo_carve_floats(carver, chunk * dim);
    back.dk = bo_carve_floats(carver, chunk * dim);
    return back;
}

/* ---- the memory ------------------------------------------------------------------------------------------------- */

/* Gᵀk_j and G u_j, weighed; the gates' part of them. */
static void back_learned(bo_delta_back *back)
{
    const bo_delta *work = &back->delta;
    const bo_kernels *kernels = work->kernels;
    size_t dim = work->dim, values = work->values, keys = work->keys;
    kernels->transpose(dim, values, back->g, values, back->gt, dim);
    kernels->transpose(keys, values, work->u, values, back->ut, work->chunk);
    kernels->multiply(keys, values, dim, work->k, work->ldk, 1, back->g, values, false, back->du, values);
    kernels->multiply(keys, dim, values, work->u, values, 1, back->gt, dim, false, back->dk, dim);
    for (size_t j = 0; work->gated && j < keys; j++) {
        float *du = back->du + j * values, *dk = back->dk + j * dim;
        kernels->scale(values, work->weights[j], du, du);
        kernels->scale(dim, work->weights[j], dk, dk);
        back->to_s[j] = kernels->dot(values, work->u + j * values, du);
    }
}

void bo_delta_back_memory(bo_delta_back *back)
{
    const bo_delta *work = &back->delta;
    const bo_kernels *kernels = work->kernels;
    size_t dim = work->dim, values = work->values, keys = work->keys;
    kernels->transpose(dim, values, work->s, values, back->st, dim);
    if (keys == 0) return;
    back_learned(back);
    if (!work->gated) return;
    float remains = work->remains[keys - 1];
    back->through = (double)remains * kernels->dot(dim * values, work->s, back->g);
    kernels->scale(dim * values, remains, back->g, back->g);
    memset(back->z, 0, work->chunk * work->chunk * sizeof *back->z);
    memset(back->from_s, 0, work->chunk * sizeof *back->from_s);
}

/* ---- queries ---------------------------------------------------------------------------------------------------- */

/* dx (rows x dim) += pairs k, and dk += pairsᵀ x. */
static void through_pairs(bo_delta_back *back, const float *x, size_t ldx, float *dx)
{
    const bo_delta *work = &back->delta;
    const bo_kernels *kernels = work->kernels;
    size_t dim = work->dim, chunk = work->chunk, keys = work->keys;
    for (size_t first = 0; first < keys; first += BO_DELTA_BAND) {
        size_t end = bo_delta_reach(work, first);
        const float *square = back->pairs + first * chunk;
        kernels->multiply(end - first, dim, end, square, chunk, 1, work->k, work->ldk, true, dx + first * dim, dim);
        kernels->multiply(end - first, dim, keys - first, square + first, 1, chunk, x + first * ldx, ldx, true,
                          back->dk + first * dim, dim);
    }
}

/* The gates' part of row i of `pairs` before it is decayed: products with A or -P. */
static void note_pairs(bo_delta_back *back, size_t i, const float *decayed)
{
    const bo_delta *work = &back->delta;
    const float *row = back->pairs + i * work->chunk;
    for (size_t j = 0; work->gated && j < i; j++) back->z[i * work->chunk + j] += decayed[j] * row[j];
}

/* What queries and keys of the chunk owe each other. */
static void within_chunk(bo_delta_back *back, const float *dout, size_t lddout)
{
    const bo_delta *work = &back->delta;
    size_t values = work->values, chunk = work->chunk, keys = work->keys;
    for (size_t first = 0; first < keys; first += BO_DELTA_BAND)
        work->kernels->multiply(bo_delta_reach(work, first) - first, values, keys - first,
                                work->scores + first * chunk + first, 1, chunk, dout + first * lddout, lddout, true,
                                back->du + first * values, values);
    bo_delta_triangle(work, keys, values, dout, lddout, back->ut, back->pairs);
    for (size_t i = 0; i < keys; i++) {
        note_pairs(back, i, work->scores + i * chunk);
        bo_delta_decay_row(work, i, i + 1, 1, back->pairs + i * chunk);
    }
    through_pairs(back, work->q, work->dim, back->dq);
}

void bo_delta_back_queries(bo_delta_back *back, size_t queries, const float *dout, size_t lddout)
{
    const bo_delta *work = &back->delta;
    const bo_kernels *kernels = work->kernels;
    size_t dim = work->dim, values = work->values;
    const float *carried = dout;
    size_t stride = lddout;
    if (work->gated && work->keys) {
        for (size_t i = 0; i < queries; i++)
            kernels->scale(values, work->remains[i], dout + i * lddout, back->carried + i * values);
        carried = back->carried;
        stride = values;
    }
    kernels->multiply(queries, dim, values, carried, stride, 1, back->st, dim, false, back->dq, dim);
    kernels->multiply(dim, values, queries, work->q, 1, dim, carried, stride, true, back->g, values);
    for (size_t i = 0; work->gated && i < work->keys; i++)
        back->from_s[i] += kernels->dot(dim, work->q + i * dim, back->dq + i * dim);
    if (work->keys) within_chunk(back, dout, lddout);
}

/* ---- keys ------------------------------------------------------------------------------------------------------- */

/* du and y from the last row to the first. */
static void solve(bo_delta_back *back)
{
    const bo_delta *work = &back->delta;
    const bo_kernels *kernels = work->kernels;
    size_t values = work->values, chunk = work->chunk, keys = work->keys;
    for (size_t bands = (keys + BO_DELTA_BAND - 1) / BO_DELTA_BAND; bands-- > 0;) {
        size_t first = bands * BO_DELTA_BAND, end = bo_delta_reach(work, first);
        kernels->multiply(end - first, values, keys - end, work->products + end * chunk + first, 1, chunk,
                          back->y + end * values, values, true, back->du + first * values, values);
        for (size_t i = end; i-- > first;) {
            float *du = back->du + i * values;
            if (i + 1 < end)
                kernels->multiply(1, values, end - i - 1, work->products + (i + 1) * chunk + i, 1, chunk,
                                  back->y + (i + 1) * values, values, true, du, values);
            kernels->scale(values, bo_delta_beta(work, i), du, back->y + i * values);
        }
    }
}

/* The parts of G and dk that come through Sᵀk_i. */
static void back_wrong(bo_delta_back *back)
{
    const bo_delta *work = &back->delta;
    const bo_kernels *kernels = work->kernels;
    size_t dim = work->dim, values = work->values, keys = work->keys;
    float *part = back->dq; /* the queries are done with it */
    for (size_t i = 0; i < keys; i++)
        kernels->scale(values, -work->remains[i], back->y + i * values, back->carried + i * values);
    kernels->multiply(dim, values, keys, work->k, 1, work->ldk, back->carried, values, true, back->g, values);
    kernels->multiply(keys, dim, values, back->carried, values, 1, back->st, dim, false, part, dim);
    for (size_t i = 0; i < keys; i++) {
        if (work->gated) back->from_s[i] += kernels->dot(dim, work->k + i * work->ldk, part + i * dim);
        kernels->axpy(dim, 1, part + i * dim, back->dk + i * dim);
    }
}

void bo_delta_back_keys(bo_delta_back *back)
{
    const bo_delta *work = &back->delta;
    size_t chunk = work->chunk;
    solve(back);
    back_wrong(back);
    bo_delta_triangle(work, work->keys, work->values, back->y, work->values, back->ut, back->pairs);
    for (size_t i = 0; i < work->keys; i++) {
        note_pairs(back, i, work->products + i * chunk);
        bo_delta_decay_row(work, i, i, -1, back->pairs + i * chunk);
    }
    through_pairs(back, work->k, work->ldk, back->dk);
}

/* ---- β and gates ------------------------------------------------------------------------------------------------ */

void bo_delta_back_beta(const bo_delta_back *back, float *dbeta, size_t stride)
{
    size_t values = back->delta.values;
    for (size_t i = 0; i < back->delta.keys; i++)
        dbeta[i * stride] = (float)back->delta.kernels->dot(values, back->du + i * values, back->delta.x + i * values);
}

void bo_delta_back_gates(bo_delta_back *back, float *dgate, size_t stride)
{
    double *from = back->to_s, from_s = back->through; /* Σ_{i>=t} Z_ij of every j, and from S */
    for (size_t t = back->delta.keys; t-- > 0;) {
        const float *row = back->z + t * back->delta.chunk;
        double sum = from_s += back->from_s[t];
        for (size_t j = 0; j < t; j++) sum += from[j] += (double)row[j];
        dgate[t * stride] = (float)sum;
    }
}
