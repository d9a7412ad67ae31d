/* Householder reflectors, their blocks, and the LQ factorization. */
#include "reflect.h"

#include <math.h>
#include <string.h>
#include "../device/cpu/kernels.h"
#include "linalg.h"

/* ---- one reflector ----------------------------------------------------------------------------------------------- */

/* |x|; squares that overflow or lose digits are avoided by scaling with the largest number. */
static double norm(const bo_kernels *kernels, size_t n, const double *x)
{
    double sum = 0;
    kernels->dots64(1, n, x, n, x, &sum);
    if (sum > 0x1p-900 && sum < 0x1p+1000) return sqrt(sum);
    double largest = 0;
    for (size_t i = 0; i < n; i++) largest = fmax(largest, fabs(x[i]));
    if (!(largest > 0)) return 0;
    sum = 0;
    for (size_t i = 0; i < n; i++) sum += (x[i] / largest) * (x[i] / largest);
    return largest * sqrt(sum);
}

double bo_reflector(const bo_context *context, size_t n, double *x, double *tau)
{
    const double small = 0x1p-960, up = 0x1p+600;
    double rest = norm(bo_context_kernels(context), n - 1, x + 1), first = x[0];
    if (rest > 0 && rest < small && fabs(first) < small) { /* subnormal numbers have few digits */
        for (size_t i = 0; i < n; i++) x[i] *= up;
        return bo_reflector(context, n, x, tau) / up;
    }
    x[0] = 1;
    *tau = 0;
    if (rest == 0) return first;
    double beta = -copysign(hypot(first, rest), first), divisor = first - beta;
    for (size_t i = 1; i < n; i++) x[i] /= divisor;
    *tau = (beta - first) / beta;
    return beta;
}

/* ---- blocks ------------------------------------------------------------------------------------------------------ */

/* v: the loaded block, count x n, with zeros left of each vector. y = T V or Tᵀ V. t: count x count. products: X Vᵀ. */
struct bo_reflectors {
    size_t max_count, longest, rows; /* capacity */
    size_t count, n;                 /* of the loaded block */
    double *v, *y, *t, *products;
    void *workspace;
};

void bo_reflectors_destroy(bo_reflectors *reflectors)
{
    if (!reflectors) return;
    bo_free(reflectors->v);
    bo_free(reflectors->products);
    bo_free(reflectors->workspace);
    bo_free(reflectors);
}

bo_status bo_reflectors_create(bo_context *context, size_t max_count, size_t n, size_t rows, bo_reflectors **out)
{
    *out = NULL;
    bo_reflectors *made = bo_alloc(context, 1, sizeof *made, "reflectors");
    if (!made) return BO_MEMORY;
    made->max_count = max_count, made->longest = n, made->rows = rows;
    made->v = bo_alloc_raw(context, 2 * n + 2 * max_count, max_count * sizeof(double), "reflectors");
    made->products = bo_alloc_raw(context, rows, max_count * sizeof(double), "reflectors");
    size_t gram = bo_gemm64_bytes(context, max_count, bo_max(n, max_count), max_count);
    size_t inner =
        bo_max(bo_gemm64_bytes(context, rows, max_count, n), bo_gemm64_bytes(context, max_count, max_count, n));
    size_t outer = bo_gemm64_bytes(context, rows, n, max_count);
    made->workspace = bo_alloc_raw(context, bo_max(gram, bo_max(inner, outer)), 1, "packed reflectors");
    if (!made->v || !made->products || !made->workspace) {
        bo_reflectors_destroy(made);
        return BO_MEMORY;
    }
    made->y = made->v + n * max_count;
    made->t = made->y + n * max_count;
    *out = made;
    return BO_OK;
}

/* T of the block, from the products G = V Vᵀ: t_ii = τ_i, and the column above it is -τ_i T G_i. */
static void make_factor(size_t count, const double *tau, const double *g, double *t)
{
    memset(t, 0, count * count * sizeof *t);
    for (size_t i = 0; i < count; i++) {
        for (size_t r = 0; r < i; r++) {
            double sum = 0;
            for (size_t p = r; p < i; p++) sum += t[r * count + p] * g[p * count + i];
            t[r * count + i] = -tau[i] * sum;
        }
        t[i * count + i] = tau[i];
    }
}

void bo_reflectors_load(bo_context *context, bo_reflectors *reflectors, size_t count, size_t n, const double *v,
                        size_t ldv, const double *tau, bool transposed)
{
    bo_reflectors *r = reflectors;
    r->count = count, r->n = n;
    for (size_t i = 0; i < count; i++) {
        double *to = r->v + i * n;
        memset(to, 0, i * sizeof *to);
        to[i] = 1;
        memcpy(to + i + 1, v + i * ldv + i + 1, (n - i - 1) * sizeof *to);
    }
    double *g = r->t + count * count;
    bo_gemm64_in(context, false, true, count, count, n, 1, r->v, n, r->v, n, 0, g, count, r->workspace);
    make_factor(count, tau, g, r->t);
    /* a row is multiplied from the right: Q x is xᵀ - (xᵀ Vᵀ) Tᵀ V as a row */
    bo_gemm64_in(context, !transposed, false, count, n, count, 1, r->t, count, r->v, n, 0, r->y, n, r->workspace);
}

void bo_reflectors_apply(bo_context *context, const bo_reflectors *reflectors, size_t rows, double *x, size_t ldx)
{
    const bo_reflectors *r = reflectors;
    bo_gemm64_in(context, false, true, rows, r->count, r->n, 1, x, ldx, r->v, r->n, 0, r->products, r->count,
                 r->workspace);
    bo_gemm64_in(context, false, false, rows, r->n, r->count, -1, r->products, r->count, r->y, r->n, 1, x, ldx,
                 r->workspace);
}

/* ---- LQ factorization -------------------------------------------------------------------------------------------- */

/* Factors `rows` rows; each reflector is applied to the rows below it immediately. */
static void factor_panel(bo_context *context, size_t rows, size_t n, double *a, size_t lda, double *tau)
{
    const bo_kernels *kernels = bo_context_kernels(context);
    for (size_t i = 0; i < rows; i++) {
        double *v = a + i * lda + i, beta = bo_reflector(context, n - i, v, &tau[i]);
        for (size_t j = i + 1; j < rows && tau[i] != 0; j++) {
            double *row = a + j * lda + i, product = 0;
            kernels->dots64(1, n - i, row, lda, v, &product);
            product *= -tau[i];
            kernels->combine64(1, n - i, v, lda, &product, row);
        }
        *v = beta;
    }
}

void bo_lq(bo_context *context, size_t rows, size_t n, double *a, size_t lda, double *tau, bo_reflectors *reflectors)
{
    for (size_t i = 0; i < rows; i += reflectors->max_count) {
        size_t count = bo_min(reflectors->max_count, rows - i), below = rows - i - count;
        double *panel = a + i * lda + i;
        factor_panel(context, count, n - i, panel, lda, tau + i);
        if (below == 0) break;
        bo_reflectors_load(context, reflectors, count, n - i, panel, lda, tau + i, true);
        bo_reflectors_apply(context, reflectors, below, panel + count * lda, lda);
    }
}

/* Blocks are applied to the rows of the unit matrix, the last one first: then the rows above a block are still unit
 * rows, and those below it are zero left of it. */
void bo_lq_rows(bo_context *context, size_t rows, size_t n, double *a, size_t lda, const double *tau,
                bo_reflectors *reflectors)
{
    size_t step = reflectors->max_count;
    for (size_t block = bo_ceil_div(rows, step); block-- > 0;) {
        size_t i = block * step, count = bo_min(step, rows - i);
        bo_reflectors_load(context, reflectors, count, n - i, a + i * lda + i, lda, tau + i, false);
        for (size_t r = i; r < i + count; r++) {
            memset(a + r * lda, 0, n * sizeof *a);
            a[r * lda + r] = 1;
        }
        for (size_t r = i + count; r < rows; r++) memset(a + r * lda + i, 0, count * sizeof *a);
        bo_reflectors_apply(context, reflectors, rows - i, a + i * lda + i, lda);
    }
}
