/* Singular values and vectors of any matrix. A wide matrix X = L Q is reduced to the square L, this to a bidiagonal
 * matrix; its singular vectors are multiplied by the reflectors of both steps. A tall matrix is transposed. Vectors are
 * rows throughout. */
#include <string.h>
#include "../base/trace.h"
#include "bidiagonal.h"
#include "linalg.h"
#include "reflect.h"
#include "scaling.h"

enum { BLOCK = BO_SIZE(64, 4) }; /* reflectors per block */

/* X is k x l with k <= l. u: the k left vectors as rows; v: the k right vectors, of length l. square, left: L and the
 * left reflectors, then the singular vectors of the bidiagonal matrix. */
typedef struct problem {
    bo_context *context;
    size_t k, l;
    double *x, *u, *v;
    double *square, *left, *ut, *vt;
    double *d, *e, *left_tau, *right_tau, *tau;
    size_t *order;
    bo_reflectors *reflectors;
} problem;

static void transpose(size_t rows, size_t columns, const double *a, double *t)
{
    enum { TILE = 8 };
    for (size_t i0 = 0; i0 < rows; i0 += TILE) {
        for (size_t j = 0; j < columns; j++) {
            for (size_t i = i0; i < bo_min(i0 + TILE, rows); i++) t[j * rows + i] = a[i * columns + j];
        }
    }
}

/* Applies H_0 … H_{count-1}, whose vector i starts at vectors[i * stride + i], to the k rows of x. */
static void apply(const problem *p, size_t count, size_t length, const double *vectors, size_t stride,
                  const double *tau, double *x, size_t ldx)
{
    for (size_t block = bo_ceil_div(count, BLOCK); block-- > 0;) {
        size_t i = block * BLOCK;
        bo_reflectors_load(p->context, p->reflectors, bo_min(BLOCK, count - i), length - i, vectors + i * stride + i,
                           stride, tau + i, false);
        bo_reflectors_apply(p->context, p->reflectors, p->k, x + i, ldx);
    }
}

/* Sorts rows by descending value, equal ones by index. */
static void sort_rows(size_t n, const double *d, size_t *order)
{
    for (size_t i = 0; i < n; i++) {
        size_t at = i;
        for (; at > 0 && d[order[at - 1]] < d[i]; at--) order[at] = order[at - 1];
        order[at] = i;
    }
}

static bo_status solve(problem *p, double *values)
{
    size_t k = p->k, l = p->l;
    if (l > k) bo_lq(p->context, k, l, p->x, l, p->tau, p->reflectors);
    for (size_t i = 0; i < k; i++) {
        memset(p->square + i * k, 0, k * sizeof(double));
        memcpy(p->square + i * k, p->x + i * l, (l > k ? i + 1 : k) * sizeof(double));
    }
    bo_bidiagonal b = {k, p->square, p->left, p->d, p->e, p->left_tau, p->right_tau};
    BO_TRY(bo_bidiagonalize(p->context, &b));
    BO_TRY(bo_bidiagonal_svd(p->context, k, p->d, p->e, p->ut, p->vt));
    sort_rows(k, p->d, p->order);
    for (size_t i = 0; i < k; i++) {
        values[i] = p->d[p->order[i]];
        memcpy(p->u + i * k, p->ut + p->order[i] * k, k * sizeof(double));
        memcpy(p->v + i * l, p->vt + p->order[i] * k, k * sizeof(double));
        memset(p->v + i * l + k, 0, (l - k) * sizeof(double));
    }
    apply(p, k, k, p->left, k, p->left_tau, p->u, k);
    apply(p, k - 1, k - 1, p->square + 1, k, p->right_tau, p->v + 1, l);
    if (l > k) apply(p, k, l, p->x, l, p->tau, p->v, l);
    return BO_OK;
}

/* u or v of the problem is the result in memory; the other is transposed to it. */
static bo_status decompose(problem *p, bool tall, const double *a, double *u, double *values, double *vt)
{
    bo_context *context = p->context;
    size_t k = p->k, l = p->l;
    double *squares = bo_alloc_raw(context, k, 4 * k * sizeof *squares, "singular vectors");
    double *rest = bo_alloc_raw(context, k, (tall ? 2 * l : k) * sizeof *rest, "singular vectors");
    double *lines = bo_alloc_raw(context, k, 5 * sizeof *lines, "singular vectors");
    p->order = bo_alloc_raw(context, k, sizeof *p->order, "singular vectors");
    bo_status status = squares && rest && lines && p->order ? BO_OK : BO_MEMORY;
    if (status == BO_OK) status = bo_reflectors_create(context, bo_min(BLOCK, k), l, k, &p->reflectors);
    if (status == BO_OK) {
        p->square = squares, p->left = squares + k * k, p->ut = p->left + k * k, p->vt = p->ut + k * k;
        p->d = lines, p->e = lines + k, p->left_tau = p->e + k, p->right_tau = p->left_tau + k;
        p->tau = p->right_tau + k;
        if (tall) {
            p->x = rest, p->v = rest + k * l, p->u = vt;
            transpose(l, k, a, p->x);
        } else {
            p->u = rest, p->v = vt;
        }
        status = solve(p, values);
    }
    if (status == BO_OK) transpose(k, tall ? l : k, tall ? p->v : p->u, u);
    bo_reflectors_destroy(p->reflectors);
    bo_free(squares);
    bo_free(rest);
    bo_free(lines);
    bo_free(p->order);
    return status;
}

bo_status bo_svd(bo_context *context, size_t m, size_t n, double *a, double *u, double *values, double *vt)
{
    const size_t k = bo_min(m, n), l = bo_max(m, n);
    if (k == 0) return BO_OK;
    BO_SPAN(context, "math", "singular vectors");
    double largest = 0;
    for (size_t i = 0; i < m; i++) {
        if (!bo_largest(n, a + i * n, &largest))
            return bo_fail(context, BO_NUMERIC, "singular values: row %zu of a %zu x %zu matrix is not finite", i, m,
                           n);
    }
    int exponent = bo_exponent(largest);
    bo_scale_by(m * n, -exponent, a);
    problem p = {.context = context, .k = k, .l = l, .x = a};
    BO_TRY(decompose(&p, m > n, a, u, values, vt));
    bo_scale_by(k, exponent, values);
    if (isfinite(values[0])) return BO_OK;
    return bo_fail(context, BO_NUMERIC, "singular values of a %zu x %zu matrix exceed the largest number", m, n);
}
