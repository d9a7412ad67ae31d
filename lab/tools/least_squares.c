/* Problems |y - Xw|² with a prescribed spectrum. */
#include "least_squares.h"
#include <string.h>
#include "../../src/math/linalg.h"

/* ---- data -------------------------------------------------------------------------------------------------------- */

static void draw(bo_rng *rng, size_t count, double *out)
{
    for (size_t i = 0; i < count; i++) out[i] = bo_rng_normal(rng);
}

/* X = Σ_i scales[i] u_i v_iᵀ with uniformly distributed orthonormal u and v. left: a buffer of rank x rows. */
static bo_status draw_spectrum(bo_context *context, const double *scales, bo_rng *rng, lab_least_squares *p,
                               double *left)
{
    BO_TRY(lab_orthonormal(context, rng, p->rank, p->rows, left));
    BO_TRY(lab_orthonormal(context, rng, p->rank, p->dim, p->directions));
    memcpy(p->scales, scales, p->rank * sizeof *scales);
    for (size_t i = 0; i < p->rank; i++)
        for (size_t r = 0; r < p->rows; r++) left[i * p->rows + r] *= scales[i];
    return bo_gemm64(context, true, false, p->rows, p->dim, p->rank, 1, left, p->rows, p->directions, p->dim, 0, p->x,
                     p->dim);
}

/* Copies or draws the entries and computes their spectrum. */
static bo_status fill_entries(bo_context *context, const float *x, bo_rng *rng, lab_least_squares *p, double *left)
{
    double *copy = bo_alloc_raw(context, p->rows * p->dim, sizeof *copy, "a least squares problem");
    if (!copy) return BO_MEMORY;
    if (!x) draw(rng, p->rows * p->dim, p->x);
    for (size_t i = 0; x && i < p->rows * p->dim; i++) p->x[i] = (double)x[i];
    memcpy(copy, p->x, p->rows * p->dim * sizeof *copy);
    const bo_status status = bo_svd(context, p->rows, p->dim, copy, left, p->scales, p->directions);
    bo_free(copy);
    return status;
}

static void round_x(lab_least_squares *p)
{
    for (size_t i = 0; i < p->rows * p->dim; i++) {
        p->x_single[i] = (float)p->x[i];
        p->x[i] = (double)p->x_single[i];
    }
}

static void draw_targets(bo_rng *rng, double noise, lab_least_squares *p)
{
    draw(rng, p->dim, p->truth);
    for (size_t r = 0; r < p->rows; r++) {
        const double error = noise > 0 ? noise * bo_rng_normal(rng) : 0;
        p->y[r] = lab_dot(p->x + r * p->dim, p->truth, p->dim) + error;
        p->y_single[r] = (float)p->y[r];
    }
}

static bo_status fill(bo_context *context, const lab_least_squares_desc *desc, bo_rng *rng, lab_least_squares *p)
{
    double *left = bo_alloc_raw(context, p->rank * p->rows, sizeof *left, "a least squares problem");
    if (!left) return BO_MEMORY;
    const bo_status status = desc->scales ? draw_spectrum(context, desc->scales, rng, p, left)
                                          : fill_entries(context, desc->x, rng, p, left);
    bo_free(left);
    BO_TRY(status);
    round_x(p);
    draw_targets(rng, desc->noise, p);
    return BO_OK;
}

bo_status lab_least_squares_open(bo_context *context, const lab_least_squares_desc *desc, bo_rng *rng,
                                 lab_least_squares *out)
{
    const size_t n = desc->rows, d = desc->dim, k = n < d ? n : d;
    const size_t doubles = n * d + n + d + k + k * d;
    *out = (lab_least_squares){.rows = n, .dim = d, .rank = k};
    out->x = bo_alloc(context, doubles, sizeof(double), "a least squares problem");
    out->x_single = bo_alloc(context, n * d + n, sizeof(float), "a least squares problem");
    bo_status status = out->x && out->x_single ? BO_OK : BO_MEMORY;
    if (status == BO_OK) {
        out->y = out->x + n * d;
        out->truth = out->y + n;
        out->scales = out->truth + d;
        out->directions = out->scales + k;
        out->y_single = out->x_single + n * d;
        status = fill(context, desc, rng, out);
    }
    if (status != BO_OK) lab_least_squares_close(out);
    return status;
}

void lab_least_squares_close(lab_least_squares *problem)
{
    bo_free(problem->x);
    bo_free(problem->x_single);
    *problem = (lab_least_squares){0};
}

/* ---- solutions --------------------------------------------------------------------------------------------------- */

double lab_squares(const lab_least_squares *p, const double *w)
{
    double sum = 0;
    for (size_t r = 0; r < p->rows; r++) {
        const double error = p->y[r] - lab_dot(p->x + r * p->dim, w, p->dim);
        sum += error * error;
    }
    return sum;
}

bo_status lab_ridge(bo_context *context, const lab_least_squares *p, double lambda, const double *penalty, double *w)
{
    const size_t d = p->dim;
    double *gram = bo_alloc_raw(context, d * d, sizeof *gram, "a ridge regression");
    if (!gram) return BO_MEMORY;
    bo_status status = bo_gemm64(context, true, false, d, d, p->rows, 1, p->x, d, p->x, d, 0, gram, d);
    for (size_t j = 0; j < d; j++) gram[j * d + j] += lambda * (penalty ? penalty[j] : 1);
    if (status == BO_OK) status = bo_gemm64(context, true, false, d, 1, p->rows, 1, p->x, d, p->y, 1, 0, w, 1);
    if (status == BO_OK) status = bo_cholesky(context, d, gram, d, NULL);
    if (status == BO_OK) status = bo_solve_lower(context, d, 1, gram, d, w, 1);
    if (status == BO_OK) status = bo_solve_lower_t(context, d, 1, gram, d, w, 1);
    bo_free(gram);
    return status;
}
