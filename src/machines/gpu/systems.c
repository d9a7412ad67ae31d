/* Linear systems of fits on a GPU: right-looking Cholesky factorization A = UᵀU of the upper triangle, in float64. For
 * every block on the diagonal: U11 and its inverse V (device/cuda/cholesky.cu), U12 = Vᵀ A12, A22 -= U12ᵀ U12. U is
 * beside A, because products cannot be computed in place. Substitutions multiply by the inverses of the blocks. */
#include "../../base/base.h"
#include "../device_sums.h"
#include "sums.h"
#include <string.h>

enum { BLOCK = BO_GPU_CHOLESKY };

static double *inverse_of(const bo_device_sums *s, size_t first)
{
    return s->inverses + first / BLOCK * BLOCK * BLOCK;
}

/* ---- factorization ----------------------------------------------------------------------------------------------- */

static bo_status prepare(bo_context *context, bo_device_sums *s)
{
    const size_t n = s->features;
    const char *label = "the factor of the Gram matrix";
    if (s->pivot) return BO_OK;
    s->lda = bo_round_up(n, BLOCK);
    BO_TRY(bo_fit_reserve(context, s, n * s->lda, sizeof(double), label, &s->a));
    BO_TRY(bo_fit_reserve(context, s, n * s->lda, sizeof(double), label, &s->factor));
    BO_TRY(bo_fit_reserve(context, s, s->lda * BLOCK, sizeof(double), label, &s->inverses));
    return bo_fit_reserve(context, s, 1, sizeof *s->pivot, label, &s->pivot);
}

static bo_status assemble(bo_context *context, bo_device_sums *s, const bo_device_system *system)
{
    const size_t n = s->features, bytes = n * sizeof(double);
    const bo_gpu_pivot none = {0, 0};
    BO_TRY(bo_buffer_write(context, s->device, s->vectors, system->center, bytes));
    BO_TRY(bo_buffer_write(context, s->device, s->vectors + n, system->penalty, bytes));
    BO_TRY(bo_buffer_write(context, s->device, s->pivot, &none, sizeof none));
    return BO_LAUNCH(context, ridge_assemble,
                     &((bo_gpu_ridge_assemble){.n = n,
                                               .g = s->g,
                                               .ldg = s->ldg,
                                               .weight = system->weight,
                                               .center = s->vectors,
                                               .penalty = s->vectors + n,
                                               .a = s->a,
                                               .lda = s->lda}));
}

static bo_status factorize_block(bo_context *context, const bo_device_sums *s, size_t first)
{
    const size_t n = s->features, lda = s->lda, rows = bo_min(BLOCK, n - first), rest = n - first - rows;
    double *a = s->a + first * lda + first, *u = s->factor + first * lda + first;
    BO_TRY(BO_LAUNCH(context, cholesky_block,
                     &((bo_gpu_cholesky_block){.n = rows,
                                               .first = first,
                                               .a = a,
                                               .lda = lda,
                                               .u = u,
                                               .ldu = lda,
                                               .inverse = inverse_of(s, first),
                                               .pivot = s->pivot})));
    if (rest == 0) return BO_OK;
    BO_TRY(bo_fit_multiply(context, true, false, rows, rest, rows, 1, inverse_of(s, first), BLOCK, a + rows, lda, 0,
                           u + rows, lda));
    return bo_fit_upper(context, s, 0, rest, rows, -1, u + rows, lda, a + rows * lda + rows, lda);
}

static bo_status factorize(bo_context *context, bo_device_sums *s, const bo_device_system *system)
{
    BO_TRY(prepare(context, s));
    BO_TRY(assemble(context, s, system));
    for (size_t first = 0; first < s->features; first += BLOCK) BO_TRY(factorize_block(context, s, first));
    bo_gpu_pivot found;
    BO_TRY(bo_buffer_read(context, s->device, &found, s->pivot, sizeof found));
    if (found.place == 0) return BO_OK;
    return bo_fail(context, BO_NUMERIC,
                   "Cholesky: pivot %lld of %zu is %g, expected a positive number: the matrix is not positive definite",
                   (long long)found.place - 1, s->features, found.value);
}

bo_status bo_device_sums_factorize(bo_context *context, bo_device_sums *sums, const bo_device_system *system)
{
    const bo_status status = factorize(context, sums, system);
    return status;
}

/* ---- substitution ------------------------------------------------------------------------------------------------ */

/* Allocates m right-hand sides and their solutions. */
static bo_status reserve(bo_context *context, bo_device_sums *s, size_t m)
{
    const size_t bytes = s->features * m * sizeof(double);
    if (m <= s->solved) return BO_OK;
    double **blocks[] = {&s->right, &s->solution};
    s->solved = 0;
    for (size_t i = 0; i < 2; i++) {
        bo_buffer_release(s->device, *blocks[i]);
        *blocks[i] = bo_buffer_allocate(context, s->device, bytes, "right-hand sides of a system");
        if (!*blocks[i]) return BO_MEMORY;
    }
    s->solved = m;
    return BO_OK;
}

/* Solves Uᵀ X = B from the first block on: X1 = Vᵀ B1, B2 -= U12ᵀ X1. */
static bo_status forward(bo_context *context, const bo_device_sums *s, size_t m)
{
    const size_t n = s->features, lda = s->lda;
    for (size_t first = 0; first < n; first += BLOCK) {
        const size_t rows = bo_min(BLOCK, n - first), next = first + rows;
        BO_TRY(bo_fit_multiply(context, true, false, rows, m, rows, 1, inverse_of(s, first), BLOCK,
                               s->right + first * m, m, 0, s->solution + first * m, m));
        if (next < n)
            BO_TRY(bo_fit_multiply(context, true, false, n - next, m, rows, -1, s->factor + first * lda + next, lda,
                                   s->solution + first * m, m, 1, s->right + next * m, m));
    }
    return BO_OK;
}

/* Solves U X = B from the last block on: X2 = V B2, B1 -= U12 X2. */
static bo_status backward(bo_context *context, const bo_device_sums *s, size_t m)
{
    const size_t n = s->features, lda = s->lda;
    for (size_t next = n; next > 0;) {
        const size_t first = (next - 1) / BLOCK * BLOCK, rows = next - first;
        BO_TRY(bo_fit_multiply(context, false, false, rows, m, rows, 1, inverse_of(s, first), BLOCK,
                               s->right + first * m, m, 0, s->solution + first * m, m));
        if (first > 0)
            BO_TRY(bo_fit_multiply(context, false, false, first, m, rows, -1, s->factor + first, lda,
                                   s->solution + first * m, m, 1, s->right, m));
        next = first;
    }
    return BO_OK;
}

static bo_status solve(bo_context *context, bo_device_sums *s, bool transposed, size_t m, double *x)
{
    const size_t bytes = s->features * m * sizeof *x;
    BO_TRY(reserve(context, s, m));
    BO_TRY(bo_buffer_write(context, s->device, s->right, x, bytes));
    BO_TRY((transposed ? backward : forward)(context, s, m));
    return bo_buffer_read(context, s->device, x, s->solution, bytes);
}

bo_status bo_device_sums_solve(bo_context *context, bo_device_sums *sums, bool transposed, size_t m, double *x)
{
    const bo_status status = solve(context, sums, transposed, m, x);
    return status;
}

/* ---- the factor -------------------------------------------------------------------------------------------------- */

static bo_status read_factor(bo_context *context, bo_device_sums *s, float *packed)
{
    const size_t n = s->features;
    float *device = (float *)s->a; /* the system is not needed after its factorization */
    BO_TRY(BO_LAUNCH(context, factor_pack,
                     &((bo_gpu_factor_pack){.n = n, .u = s->factor, .ldu = s->lda, .packed = device})));
    return bo_buffer_read(context, s->device, packed, device, n * (n + 1) / 2 * sizeof *packed);
}

bo_status bo_device_sums_factor(bo_context *context, bo_device_sums *sums, float *packed)
{
    const bo_status status = read_factor(context, sums, packed);
    return status;
}
