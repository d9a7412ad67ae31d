/* Tensor sketch (Pham and Pagh 2013) of (1 + t·t')^p: the count sketch of the p-fold tensor power of a = [1, t] is the
 * circular convolution of p independent count sketches of a, so it is computed as a product of their spectra. */
#ifdef REAL

static void R(count_sketch)(const bo_features *f, size_t factor, const REAL *t, REAL *out)
{
    size_t dim = f->desc.dim, columns = dim + 1;
    const int32_t *hash = f->sketch->hashes + factor * columns;
    const float *sign = f->sketch->signs + factor * columns;
    for (size_t i = 0; i < f->desc.features; i++) out[i] = 0;
    out[hash[0]] += (REAL)sign[0];
    for (size_t j = 0; j < dim; j++) out[hash[j + 1]] += (REAL)sign[j + 1] * t[j];
}

/* a := a b, or a conj(b), of complex numbers */
static void R(multiply)(size_t bins, REAL *a, const REAL *b, bool conjugate)
{
    for (size_t i = 0; i < bins; i++) {
        REAL re = a[2 * i], im = a[2 * i + 1], c = b[2 * i], s = conjugate ? -b[2 * i + 1] : b[2 * i + 1];
        a[2 * i] = re * c - im * s;
        a[2 * i + 1] = re * s + im * c;
    }
}

static void R(forward)(const bo_features *f, size_t rows, const REAL *u, const REAL *t, REAL *z, size_t ldz,
                       void *scratch)
{
    const bo_fft_plan *plan = f->sketch->plan;
    size_t bins = bo_fft_bins(plan), n = f->desc.features;
    REAL *workspace = scratch, *sketch = workspace + bo_fft_workspace(plan), *product = sketch + n,
         *spectrum = product + 2 * bins;
    (void)u;
    for (size_t r = 0; r < rows; r++) {
        for (size_t k = 0; k < (size_t)f->desc.degree; k++) {
            R(count_sketch)(f, k, t + r * f->desc.dim, sketch);
            R(bo_fft_forward)(plan, sketch, k ? spectrum : product, workspace);
            if (k) R(multiply)(bins, product, spectrum, false);
        }
        R(bo_fft_inverse)(plan, product, z + r * ldz, workspace);
    }
}

/* The gradient of a convolution with respect to one factor is the correlation with the other factors. */
static void R(backward)(const bo_features *f, size_t rows, const REAL *u, const REAL *t, const REAL *dz, size_t lddz,
                        REAL *du, REAL *dt, void *scratch)
{
    const bo_fft_plan *plan = f->sketch->plan;
    size_t bins = bo_fft_bins(plan), n = f->desc.features, dim = f->desc.dim, degree = (size_t)f->desc.degree;
    REAL *workspace = scratch, *sketch = workspace + bo_fft_workspace(plan), *grad = sketch + n,
         *product = grad + 2 * bins;
    REAL *spectra = product + 2 * bins;
    (void)u, (void)du;
    for (size_t r = 0; r < rows; r++) {
        for (size_t k = 0; k < degree; k++) {
            R(count_sketch)(f, k, t + r * dim, sketch);
            R(bo_fft_forward)(plan, sketch, spectra + k * 2 * bins, workspace);
        }
        R(bo_fft_forward)(plan, dz + r * lddz, grad, workspace);
        for (size_t k = 0; k < degree; k++) {
            const int32_t *hash = f->sketch->hashes + k * (dim + 1);
            const float *sign = f->sketch->signs + k * (dim + 1);
            for (size_t i = 0; i < 2 * bins; i++) product[i] = grad[i];
            for (size_t other = 0; other < degree; other++)
                if (other != k) R(multiply)(bins, product, spectra + other * 2 * bins, true);
            R(bo_fft_inverse)(plan, product, sketch, workspace);
            for (size_t j = 0; j < dim; j++) dt[r * dim + j] += (REAL)sign[j + 1] * sketch[hash[j + 1]];
        }
    }
}

#else
#include "common.h"
#include "../../math/fft.h"

struct bo_sketch {
    int32_t *hashes; /* degree x (dim + 1): the feature that a coordinate is added to */
    float *signs;
    bo_fft_plan *plan;
};

#define bo_fft_forward_f32 bo_fft_forward
#define bo_fft_forward_f64 bo_fft_forward64
#define bo_fft_inverse_f32 bo_fft_inverse
#define bo_fft_inverse_f64 bo_fft_inverse64
#define BO_TEMPLATE        "functions/tensorsketch.c"
#include "../both_precisions.h"

bo_status bo_sketch_create(bo_context *context, size_t dim, size_t features, int degree, bo_sketch **out)
{
    *out = NULL;
    bo_sketch *sketch = bo_alloc(context, 1, sizeof *sketch, "a tensor sketch");
    if (!sketch) return BO_MEMORY;
    sketch->hashes = bo_alloc_raw(context, (size_t)degree * (dim + 1), sizeof(int32_t), "a tensor sketch");
    sketch->signs = bo_alloc_raw(context, (size_t)degree * (dim + 1), sizeof(float), "a tensor sketch");
    bo_status status = sketch->hashes && sketch->signs ? BO_OK : BO_MEMORY;
    if (status == BO_OK) status = bo_fft_plan_create(context, features, &sketch->plan);
    if (status != BO_OK) {
        bo_sketch_destroy(sketch);
        return status;
    }
    *out = sketch;
    return BO_OK;
}

void bo_sketch_destroy(bo_sketch *sketch)
{
    if (!sketch) return;
    bo_free(sketch->hashes);
    bo_free(sketch->signs);
    bo_fft_plan_destroy(sketch->plan);
    bo_free(sketch);
}

int32_t *bo_sketch_hashes(bo_sketch *sketch)
{
    return sketch->hashes;
}

float *bo_sketch_signs(bo_sketch *sketch)
{
    return sketch->signs;
}

static bo_status check(bo_context *context, bo_features_desc *desc)
{
    if (desc->features > BO_EXACT_MAX_SIZE)
        return bo_fail(context, BO_INVALID, "function tensorsketch supports at most %d features, found %zu",
                       (int)BO_EXACT_MAX_SIZE, desc->features);
    return BO_OK;
}

static bo_status prepare(bo_context *context, bo_features *f)
{
    size_t count = (size_t)f->desc.degree * (f->desc.dim + 1);
    BO_TRY(bo_sketch_create(context, f->desc.dim, f->desc.features, f->desc.degree, &f->sketch));
    bo_rng rng = bo_rng_make(f->desc.seed, bo_rng_stream("features.sketch", 0));
    for (size_t i = 0; i < count; i++) {
        f->sketch->hashes[i] = (int32_t)bo_rng_below(&rng, f->desc.features);
        f->sketch->signs[i] = bo_rng_bits(&rng) & 1 ? 1.0f : -1.0f;
    }
    return BO_OK;
}

static size_t scratch(const bo_features *f)
{
    size_t bins = bo_fft_bins(f->sketch->plan), workspace = bo_fft_workspace(f->sketch->plan);
    return (workspace + f->desc.features + ((size_t)f->desc.degree + 2) * 2 * bins) * sizeof(double);
}

/* Returns the exact variance for independent hashes. In each of the p factors the four indices (a, b; c, e) of the
 * squared estimate must pair up for the signs not to vanish: a = b, c = e with weight s² (s = a·b); a = c ≠ b = e with
 * weight v = |a|²|b|² - q; a = e ≠ b = c with weight x = s² - q, where q = Σ a_j² b_j². Both differences of hashes
 * vanish with probability 1 if all factors are of the first kind, with probability 1/m if the rest are of one kind, and
 * gcd(2, m)/m² if both other kinds occur. */
static double variance(const bo_features *f, const bo_pair *pair)
{
    double m = (double)f->desc.features, p = f->desc.degree, s2 = (1 + pair->dot) * (1 + pair->dot);
    double quartic = 1 + pair->quartic;
    double v = (1 + pair->norm_x) * (1 + pair->norm_y) - quartic, x = s2 - quartic;
    double none = pow(s2, p), one = pow(s2 + v, p), other = pow(s2 + x, p), both = pow(s2 + v + x, p);
    double even = f->desc.features % 2 ? 1 : 2;
    return fmax(0, (one + other - 2 * none) / m + even / (m * m) * (both - one - other + none));
}

const bo_function_definition bo_function_tensorsketch = {
    .name = "tensorsketch",
    .kernels = BO_KERNEL_BIT(BO_KERNEL_POLYNOMIAL),
    .check = check,
    .prepare = prepare,
    .scratch = scratch,
    .forward_f32 = forward_f32,
    .forward_f64 = forward_f64,
    .backward_f32 = backward_f32,
    .backward_f64 = backward_f64,
    .variance = variance,
};
#endif
