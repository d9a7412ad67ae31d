/* φ = y ⊗ y without repeats, where y is a random sketch of degree h = p/2 of [1, t] into r numbers (Kacham, Mirrokni,
 * Zhong 2023, PolySketchFormer, arXiv 2310.01655): φ(x)·φ(y) = (y·y')² is never negative and approximates (1 + t·t')^p.
 *
 * The sketch is a binary tree of items of r numbers each. With independent standard Gaussian matrices G,
 *   item k = [1, t] G_k for k < h,   item h + n = (item 2n ∘ item 2n+1) G'_n / √r,
 * and the last item, 2h - 2, is y, without a G'. (h = 1: y = item 0 / √r.) Since E[G Gᵀ] = r I and all matrices are
 * independent, E[y·y'] = (1 + t·t')^h. The square is biased: E[(y·y')²] exceeds (1 + t·t')^p by the variance of y·y',
 * which decreases like 1/r. Its value C follows from C = s², N = |a|²|b|² for a = [1, t], b = [1, t'], s = a·b at a
 * leaf, and
 *   (C, N) of the product of two factors = (2C₁ + N₁)(2C₂ + N₂)/r + (1 - 1/r) (C₁C₂, N₁N₂). */
#ifdef REAL

/* Computes the items (rows x (2h-1) r) of the tree; `product` holds rows x r. */
static void R(sketch)(const bo_features *f, size_t rows, const REAL *t, REAL *items, REAL *product)
{
    const bo_selftensor *s = f->selftensor;
    size_t r = s->r, h = s->half, line = (2 * h - 1) * r, leaves = h * r;
    const REAL root = (REAL)(1 / sqrt((double)r));
    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; j < leaves; j++) items[i * line + j] = (REAL)s->g[j];
    R(times)(f, rows, leaves, f->desc.dim, t, f->desc.dim, s->g + leaves, true, items, line);
    for (size_t n = 0; n + 1 < h; n++) {
        bool last = n + 2 == h;
        REAL *made = items + (h + n) * r, *to = last ? made : product;
        for (size_t i = 0; i < rows; i++) {
            const REAL *a = items + i * line + 2 * n * r, *b = a + r;
            REAL *out = to + i * (last ? line : r);
            for (size_t j = 0; j < r; j++) out[j] = root * a[j] * b[j];
        }
        if (!last) R(times)(f, rows, r, r, product, r, joint(s, s->g, f->desc.dim + 1, n), false, made, line);
    }
    for (size_t i = 0; h == 1 && i < rows; i++)
        for (size_t j = 0; j < r; j++) items[i * line + j] *= root;
}

/* Computes the gradients of all items from the gradient of y, which is stored at the last item of `grad`. */
static void R(sketch_back)(const bo_features *f, size_t rows, const REAL *items, REAL *grad, REAL *product)
{
    const bo_selftensor *s = f->selftensor;
    size_t r = s->r, h = s->half, line = (2 * h - 1) * r;
    const REAL root = (REAL)(1 / sqrt((double)r));
    for (size_t i = 0; h == 1 && i < rows; i++)
        for (size_t j = 0; j < r; j++) grad[i * line + j] *= root;
    for (size_t n = h - 1; n-- > 0;) {
        bool last = n + 2 == h;
        REAL *made = grad + (h + n) * r, *from = last ? made : product;
        if (!last) R(times)(f, rows, r, r, made, line, joint(s, s->turned, f->desc.dim, n), false, product, r);
        for (size_t i = 0; i < rows; i++) {
            const REAL *a = items + i * line + 2 * n * r, *b = a + r, *in = from + i * (last ? line : r);
            REAL *da = grad + i * line + 2 * n * r, *db = da + r;
            for (size_t j = 0; j < r; j++) {
                da[j] = root * in[j] * b[j];
                db[j] = root * in[j] * a[j];
            }
        }
    }
}

static void R(forward)(const bo_features *f, size_t rows, const REAL *u, const REAL *t, REAL *z, size_t ldz,
                       void *scratch)
{
    size_t r = f->selftensor->r, line = (2 * f->selftensor->half - 1) * r;
    REAL *items = scratch, *product = items + GROUP * line;
    (void)u;
    for (size_t first = 0; first < rows; first += GROUP) {
        size_t count = rows - first < GROUP ? rows - first : GROUP;
        R(sketch)(f, count, t + first * f->desc.dim, items, product);
        for (size_t i = 0; i < count; i++) {
            const REAL *y = items + (i + 1) * line - r;
            R(bo_products)(f, r, y, y, square, z + (first + i) * ldz);
        }
    }
}

static void R(backward)(const bo_features *f, size_t rows, const REAL *u, const REAL *t, const REAL *dz, size_t lddz,
                        REAL *du, REAL *dt, void *scratch)
{
    const bo_selftensor *s = f->selftensor;
    size_t r = s->r, line = (2 * s->half - 1) * r, dim = f->desc.dim;
    REAL *items = scratch, *product = items + GROUP * line, *grad = product + GROUP * r;
    (void)u, (void)du;
    for (size_t first = 0; first < rows; first += GROUP) {
        size_t count = rows - first < GROUP ? rows - first : GROUP;
        R(sketch)(f, count, t + first * dim, items, product);
        for (size_t i = 0; i < count; i++) {
            const REAL *y = items + (i + 1) * line - r;
            REAL *dy = grad + (i + 1) * line - r;
            memset(dy, 0, r * sizeof *dy);
            R(bo_products_back)(f, r, y, y, square, dz + (first + i) * lddz, dy, dy);
        }
        R(sketch_back)(f, count, items, grad, product);
        R(times)(f, count, dim, s->half * r, grad, line, s->turned, true, dt + first * dim, dim);
    }
}

#else
#include <math.h>
#include <string.h>
#include "common.h"
#include "products.h"

/* (y·y')² = Σ_i (y_i y'_i)² + 2 Σ_{i<j} y_i y_j y'_i y'_j */
static const bo_factors square = {1, 1, 1.41421356237309504880};

enum { GROUP = BO_SIZE(16, 2) }; /* rows per group: their items stay in the first-level cache */

/* g: the matrices of the leaves side by side, (dim + 1) x h r, then the h - 2 other matrices, r x r each. turned: their
 * transposes for gradients, the leaves without the row for 1: h r x dim, then r x r each. */
struct bo_selftensor {
    size_t r, half;
    float *g, *turned;
};

/* Returns G'_n in g (whose leaves have dim + 1 rows) or in turned (dim rows). */
static const float *joint(const bo_selftensor *s, const float *from, size_t rows, size_t n)
{
    return from + rows * s->half * s->r + n * s->r * s->r;
}

/* Computes C = A B or C += A B; B is contiguous. */
static void times_f32(const bo_features *f, size_t rows, size_t n, size_t k, const float *a, size_t lda, const float *b,
                      bool add, float *c, size_t ldc)
{
    f->kernels->multiply(rows, n, k, a, lda, 1, b, n, add, c, ldc);
}

static void times_f64(const bo_features *f, size_t rows, size_t n, size_t k, const double *a, size_t lda,
                      const float *b, bool add, double *c, size_t ldc)
{
    (void)f;
    for (size_t i = 0; i < rows; i++) {
        for (size_t j = 0; !add && j < n; j++) c[i * ldc + j] = 0;
        for (size_t p = 0; p < k; p++)
            for (size_t j = 0; j < n; j++) c[i * ldc + j] += a[i * lda + p] * (double)b[p * n + j];
    }
}

#define BO_TEMPLATE "functions/selftensor.c"
#include "../both_precisions.h"

/* ---- sizes ------------------------------------------------------------------------------------------------------- */

/* Returns the largest r with r (r + 1) / 2 <= features. */
static size_t side_of(size_t features)
{
    size_t r = (size_t)((sqrt(8 * (double)features + 1) - 1) / 2);
    while (r * (r + 1) / 2 > features) r--;
    while ((r + 1) * (r + 2) / 2 <= features) r++;
    return r;
}

size_t bo_selftensor_count(const bo_features_desc *desc)
{
    size_t r = side_of(desc->features), h = (size_t)desc->degree / 2;
    return (desc->dim + 1) * h * r + (h > 2 ? h - 2 : 0) * r * r;
}

static bo_status check(bo_context *context, bo_features_desc *desc)
{
    if (desc->degree % 2)
        return bo_fail(context, BO_INVALID, "function selftensor requires an even degree, found %d; use tensorsketch",
                       desc->degree);
    if (desc->features > BO_EXACT_MAX_SIZE)
        return bo_fail(context, BO_INVALID, "function selftensor supports at most %d features, found %zu",
                       (int)BO_EXACT_MAX_SIZE, desc->features);
    size_t r = side_of(desc->features), below = r * (r + 1) / 2;
    if (desc->features != below)
        return bo_fail(
            context, BO_INVALID,
            "function selftensor has r (r + 1) / 2 features for a sketch of r numbers, found %zu; the nearest "
            "are %zu and %zu",
            desc->features, below, below + r + 1);
    return BO_OK;
}

static size_t scratch(const bo_features *f)
{
    size_t r = f->selftensor->r, line = (2 * f->selftensor->half - 1) * r;
    return GROUP * (2 * line + r) * sizeof(double);
}

/* ---- matrices ---------------------------------------------------------------------------------------------------- */

void bo_selftensor_destroy(bo_selftensor *s)
{
    if (!s) return;
    bo_free(s->g);
    bo_free(s->turned);
    bo_free(s);
}

bo_status bo_selftensor_create(bo_context *context, const bo_features_desc *desc, bo_selftensor **out)
{
    size_t count = bo_selftensor_count(desc);
    *out = NULL;
    bo_selftensor *s = bo_alloc(context, 1, sizeof *s, "a self-tensored sketch");
    if (!s) return BO_MEMORY;
    s->r = side_of(desc->features);
    s->half = (size_t)desc->degree / 2;
    s->g = bo_alloc_raw(context, count, sizeof(float), "a self-tensored sketch");
    s->turned = bo_alloc_raw(context, count - s->half * s->r, sizeof(float), "a self-tensored sketch");
    if (!s->g || !s->turned) {
        bo_selftensor_destroy(s);
        return BO_MEMORY;
    }
    *out = s;
    return BO_OK;
}

float *bo_selftensor_matrices(bo_selftensor *s)
{
    return s->g;
}

void bo_selftensor_finish(bo_features *f)
{
    bo_selftensor *s = f->selftensor;
    size_t r = s->r, leaves = s->half * r, dim = f->desc.dim;
    f->kernels->transpose(dim, leaves, s->g + leaves, leaves, s->turned, dim);
    for (size_t n = 0; n + 2 < s->half; n++)
        f->kernels->transpose(r, r, joint(s, s->g, dim + 1, n), r, (float *)joint(s, s->turned, dim, n), r);
}

static bo_status prepare(bo_context *context, bo_features *f)
{
    size_t count = bo_selftensor_count(&f->desc);
    BO_TRY(bo_selftensor_create(context, &f->desc, &f->selftensor));
    bo_rng rng = bo_rng_make(f->desc.seed, bo_rng_stream("features.selftensor", 0));
    for (size_t i = 0; i < count; i++) f->selftensor->g[i] = (float)bo_rng_normal(&rng);
    return BO_OK;
}

const bo_function_definition bo_function_selftensor = {
    .name = "selftensor",
    .kernels = BO_KERNEL_BIT(BO_KERNEL_POLYNOMIAL),
    .nonnegative = true,
    .check = check,
    .prepare = prepare,
    .scratch = scratch,
    .forward_f32 = forward_f32,
    .forward_f64 = forward_f64,
    .backward_f32 = backward_f32,
    .backward_f64 = backward_f64,
};
#endif
