/* Conjugate gradients for all systems (H_i + Λ) x_i = q_i of a chunk at once: each row has its own steps, but the
 * products H_i p_i are products of matrices. Preconditioned with the diagonal; from x = 0, whose first step is the
 * best multiple of q / diagonal. A row's bits do not depend on the others. */
#include <math.h>
#include <string.h>
#include "ridge.h"

static const double least_diagonal = 1e-30; /* whose inverse is still a float */

/* Tolerances that rounding may add to what the steps say. */
enum { SLACK = 10 };

void bo_ridge_precondition(bo_attention_ridge *work)
{
    size_t dim = work->dim;
    const float *h = bo_ridge_h(work);
    work->taken = 0;
    for (size_t j = 0; j < dim; j++) work->diagonal[j] = (double)h[j * dim + j];
    for (size_t i = 0; i < work->rows; i++) {
        double gate = exp(work->b[i + 1] - work->b[i]);
        for (size_t j = 0; j < dim; j++) {
            size_t at = i * dim + j;
            if (i < work->keys)
                work->diagonal[j] = gate * work->diagonal[j] + (double)work->kb[at] * (double)work->k[at];
            work->inverse[at] = (float)(1 / fmax(work->diagonal[j] + (double)work->lambda[j], least_diagonal));
        }
    }
}

/* hp = (H_i + Λ) p_i for the rows in `active`. */
static void apply(const bo_attention_ridge *work, size_t count, const float *p)
{
    bo_ridge_sums sums = {
        .m = bo_ridge_h(work), .at = work->kt, .c = work->kb, .width = work->dim, .out_width = work->dim};
    bo_ridge_product(work, &sums, count, work->active, p, work->hp, work->dim);
    for (size_t s = 0; s < count; s++)
        for (size_t j = 0; j < work->dim; j++) work->hp[s * work->dim + j] += work->lambda[j] * p[s * work->dim + j];
}

/* z = r / diagonal; returns r·z. */
static double precondition(const bo_attention_ridge *work, size_t row)
{
    const float *r = work->r + row * work->dim, *inverse = work->inverse + row * work->dim;
    for (size_t j = 0; j < work->dim; j++) work->z[j] = inverse[j] * r[j];
    return work->kernels->dot(work->dim, r, work->z);
}

/* The first direction of every row that is not there already; how many. */
static size_t begin(bo_attention_ridge *work, const float *q, float *x)
{
    size_t dim = work->dim, count = 0;
    double tolerance = work->attention->desc.tolerance;
    memset(x, 0, work->rows * dim * sizeof *x);
    memcpy(work->r, q, work->rows * dim * sizeof *q);
    for (size_t i = 0; i < work->rows; i++) {
        double norm = work->kernels->dot(dim, q + i * dim, q + i * dim);
        work->goal[i] = tolerance * tolerance * norm;
        if (norm == 0) continue;
        work->rz[i] = precondition(work, i);
        memcpy(work->p + count * dim, work->z, dim * sizeof *work->z);
        work->active[count++] = i;
    }
    return count;
}

/* One step of the row in slot s; whether it goes on. */
static bool step_row(bo_attention_ridge *work, size_t s, float *x)
{
    const bo_kernels *kernels = work->kernels;
    size_t dim = work->dim, i = work->active[s];
    float *p = work->p + s * dim, *r = work->r + i * dim;
    const float *hp = work->hp + s * dim;
    double curvature = kernels->dot(dim, p, hp);
    if (!(curvature > 0)) return false;
    double length = work->rz[i] / curvature;
    kernels->axpy(dim, (float)length, p, x + i * dim);
    kernels->axpy(dim, (float)-length, hp, r);
    if (kernels->dot(dim, r, r) <= work->goal[i]) return false;
    double rz = precondition(work, i);
    float turn = (float)(rz / work->rz[i]);
    for (size_t j = 0; j < dim; j++) p[j] = work->z[j] + turn * p[j];
    work->rz[i] = rz;
    return true;
}

/* What x itself leaves, |(H + Λ)x - q| / |q|: rounding makes it differ from what the steps carry along. A row that is not
 * there is left, and so are those still `active`. */
static void check(bo_attention_ridge *work, size_t active, const float *q, const float *x, bool *left)
{
    size_t dim = work->dim;
    double most = SLACK * work->attention->desc.tolerance;
    memset(left, 0, work->chunk * sizeof *left);
    for (size_t s = 0; s < active; s++) left[work->active[s]] = true;
    for (size_t i = 0; i < work->rows; i++) work->active[i] = i;
    apply(work, work->rows, x);
    for (size_t i = 0; i < work->rows; i++) {
        double squares = 0, norm = work->kernels->dot(dim, q + i * dim, q + i * dim);
        for (size_t j = 0; j < dim; j++) {
            double rest = (double)work->hp[i * dim + j] - (double)q[i * dim + j];
            squares += rest * rest;
        }
        double residual = norm > 0 ? sqrt(squares / norm) : 0;
        left[i] = left[i] || !(residual <= most);
        if (!left[i]) work->solves.largest_residual = fmax(work->solves.largest_residual, residual);
    }
}

void bo_ridge_iterate(bo_attention_ridge *work, size_t side, const float *q, float *x)
{
    size_t dim = work->dim, count = begin(work, q, x);
    work->solves.systems += work->rows;
    for (size_t step = 0; count && step < work->attention->desc.iterations; step++) {
        size_t goes_on = 0;
        apply(work, count, work->p);
        work->solves.iterations += count;
        for (size_t s = 0; s < count; s++) {
            if (!step_row(work, s, x)) continue;
            if (goes_on != s) memcpy(work->p + goes_on * dim, work->p + s * dim, dim * sizeof *work->p);
            work->active[goes_on++] = work->active[s];
        }
        count = goes_on;
    }
    check(work, count, q, x, work->left + side * work->chunk);
}
