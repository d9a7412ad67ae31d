/* Systems with a gate that conjugate gradients do not finish: where H + Λ is too ill-conditioned for float32, H_i and
 * G_i of the row are followed in double from the chunk's beginning, and H_i + Λ is factored anew. A row's bits do not
 * depend on which others are solved so. */
#include <math.h>
#include <string.h>
#include "ridge.h"

bo_ridge_exact bo_ridge_exact_make(size_t dim, size_t values, bo_carver *carver)
{
    bo_ridge_exact exact = {.dim = dim, .values = values, .width = bo_ridge_width(dim, values)};
    exact.sums = bo_carve(carver, dim * exact.width, sizeof(double));
    exact.token = bo_carve(carver, exact.width, sizeof(double));
    exact.zeros = bo_carve(carver, exact.width, sizeof(double));
    exact.side = bo_carve(carver, dim, sizeof(double));
    exact.x = bo_carve(carver, dim, sizeof(double));
    return exact;
}

void bo_ridge_exact_load(const bo_ridge_exact *exact, const float *g, const float *h)
{
    size_t dim = exact->dim, values = exact->values;
    memset(exact->zeros, 0, exact->width * sizeof *exact->zeros);
    memset(exact->token, 0, exact->width * sizeof *exact->token);
    memset(exact->sums, 0, dim * exact->width * sizeof *exact->sums);
    for (size_t i = 0; i < dim; i++) {
        double *row = exact->sums + i * exact->width;
        for (size_t j = 0; j < dim; j++) row[j] = ((double)h[i * dim + j] + (double)h[j * dim + i]) / 2;
        for (size_t j = 0; j < values; j++) row[dim + j] = (double)g[i * values + j];
    }
}

/* [H, G] = g [H, G] + β k [k, v]ᵀ, where side is still free for -β k. */
static void take_token(const bo_attention_ridge *work, size_t i)
{
    const bo_ridge_exact *exact = &work->exact;
    static const double one = 1, zero = 0;
    size_t dim = work->dim, values = work->value_dim, width = exact->width;
    double gate = exp(work->b[i + 1] - work->b[i]), beta = (double)work->beta[i];
    for (size_t j = 0; j < dim; j++) {
        exact->token[j] = (double)work->k[i * dim + j];
        exact->side[j] = -beta * exact->token[j];
    }
    for (size_t j = 0; j < values; j++) exact->token[dim + j] = (double)work->v[i * values + j];
    for (size_t n = 0; gate != 1 && n < dim * width; n++) exact->sums[n] *= gate;
    work->kernels->rotate(width, 1, &one, &zero, exact->token, exact->zeros, 0, dim, exact->side, exact->sums, width);
}

static bool row_is_left(const bo_attention_ridge *work, size_t sides, size_t i)
{
    for (size_t a = 0; a < sides; a++)
        if (work->left[a * work->chunk + i]) return true;
    return false;
}

size_t bo_ridge_direct_next(bo_attention_ridge *work, size_t sides, size_t i)
{
    size_t next = i;
    while (next < work->rows && !row_is_left(work, sides, next)) next++;
    if (next == work->rows) return next;
    if (work->taken == 0) bo_ridge_exact_load(&work->exact, work->memory, bo_ridge_h(work));
    for (; work->taken <= next; work->taken++)
        if (work->taken < work->keys) take_token(work, work->taken);
    bo_ridge_factor_fit(work->direct, 0, &work->exact, work->kernels, work->lambda);
    return next;
}

/* |(H + Λ)x - side| / |side| */
static double residual(const bo_attention_ridge *work)
{
    const bo_ridge_exact *exact = &work->exact;
    double squares = 0, norm = 0;
    for (size_t i = 0; i < work->dim; i++) {
        double left = (double)work->lambda[i] * exact->x[i] - exact->side[i];
        for (size_t j = 0; j < work->dim; j++) left += exact->sums[i * exact->width + j] * exact->x[j];
        squares += left * left;
        norm += exact->side[i] * exact->side[i];
    }
    return norm > 0 ? sqrt(squares / norm) : 0;
}

/* x of the right-hand side in `side`. */
static void solve(bo_attention_ridge *work)
{
    const bo_ridge_exact *exact = &work->exact;
    memcpy(exact->x, exact->side, work->dim * sizeof *exact->x);
    bo_ridge_factor_solve(work->direct, exact->x);
    work->solves.refactored++;
    if (work->measures) work->solves.largest_residual = fmax(work->solves.largest_residual, residual(work));
}

void bo_ridge_direct_query(bo_attention_ridge *work, const float *q)
{
    for (size_t j = 0; j < work->dim; j++) work->exact.side[j] = (double)q[j];
    solve(work);
}

void bo_ridge_direct_pull(bo_attention_ridge *work, const float *dout)
{
    const bo_ridge_exact *exact = &work->exact;
    for (size_t i = 0; i < work->dim; i++) {
        const double *g = exact->sums + i * exact->width + work->dim;
        double sum = 0;
        for (size_t j = 0; j < work->value_dim; j++) sum += g[j] * (double)dout[j];
        exact->side[i] = sum;
    }
    solve(work);
}

void bo_ridge_direct_output(const bo_attention_ridge *work, float *out)
{
    const bo_ridge_exact *exact = &work->exact;
    double *sum = exact->token;
    memset(sum, 0, work->value_dim * sizeof *sum);
    for (size_t i = 0; i < work->dim; i++) {
        const double *g = exact->sums + i * exact->width + work->dim;
        for (size_t j = 0; j < work->value_dim; j++) sum[j] += exact->x[i] * g[j];
    }
    for (size_t j = 0; j < work->value_dim; j++) out[j] = (float)sum[j];
}
