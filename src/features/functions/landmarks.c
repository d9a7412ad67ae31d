/* φ(x) = W k(Z, x): the Nyström features of landmarks Z (landmarks.c). Without W, φ(x) = k(Z, x). Features beyond the
 * number of landmarks are 0.
 *
 * Gradients: with dk = Wᵀ dφ, dt = Σ_i dk_i ∂k(t, t_i)/∂t, by the derivatives of the kernel with respect to the members
 * of the pair (derivatives.c). */
#ifdef REAL

/* The pair of a scaled row and landmark i. */
static bo_pair R(pair_of)(const bo_features *f, const REAL *t, size_t i, double *top_x, double *top_y)
{
    const bo_form form = bo_kernel_find(f->desc.kernel)->form;
    const size_t dim = f->desc.dim;
    const float *z = f->landmarks->rows + i * dim;
    bo_pair pair = {.product = 1, .product2 = 1};
    *top_x = *top_y = 0;
    for (size_t j = 0; j < dim; j++) {
        *top_x = fmax(*top_x, fabs((double)t[j]));
        *top_y = fmax(*top_y, fabs((double)z[j] * f->factor[j]));
    }
    for (size_t j = 0; j < dim; j++) {
        const double a = (double)t[j], b = (double)z[j] * f->factor[j];
        bo_pair_add(&pair, form, f->desc.gamma, a, b, a - b, *top_x, *top_y);
    }
    return pair;
}

/* dk = Wᵀ dz of one row. */
static void R(unwhiten)(const bo_landmarks *l, const REAL *dz, double *dk)
{
    const float *w = l->lower;
    for (size_t i = 0; i < l->count; i++) dk[i] = w ? 0 : (double)dz[i];
    for (size_t i = 0; w && i < l->count; w += ++i)
        for (size_t j = 0; j <= i; j++) dk[j] += (double)w[j] * (double)dz[i];
}

static void R(backward)(const bo_features *f, size_t rows, const REAL *u, const REAL *t, const REAL *dz, size_t lddz,
                        REAL *du, REAL *dt, void *scratch)
{
    const bo_form form = bo_kernel_find(f->desc.kernel)->form;
    const size_t dim = f->desc.dim;
    double *dk = scratch, top_x, top_y;
    (void)u, (void)du;
    for (size_t r = 0; r < rows; r++) {
        R(unwhiten)(f->landmarks, dz + r * lddz, dk);
        for (size_t i = 0; i < f->landmarks->count; i++) {
            const float *z = f->landmarks->rows + i * dim;
            const bo_pair pair = R(pair_of)(f, t + r * dim, i, &top_x, &top_y);
            const bo_pair_derivatives derivatives = bo_kernel_derivatives(&f->desc, &pair);
            for (size_t j = 0; j < dim; j++) {
                const double a = (double)t[r * dim + j], b = (double)z[j] * f->factor[j];
                dt[r * dim + j] +=
                    (REAL)(dk[i] * bo_derivative_along(&derivatives, form, f->desc.gamma, a, b, top_x, top_y));
            }
        }
    }
}

#else
#include <math.h>
#include <string.h>
#include "../../base/carver.h"
#include "common.h"

#define BO_TEMPLATE "functions/landmarks.c"
#include "../both_precisions.h"

/* ---- the reference ----------------------------------------------------------------------------------------------- */

static void forward_f64(const bo_features *f, size_t rows, const double *u, const double *t, double *z, size_t ldz,
                        void *scratch)
{
    const bo_landmarks *l = f->landmarks;
    double *k = scratch, top_x, top_y;
    (void)u;
    for (size_t r = 0; r < rows; r++) {
        const float *w = l->lower;
        for (size_t i = 0; i < l->count; i++) {
            const bo_pair pair = pair_of_f64(f, t + r * f->desc.dim, i, &top_x, &top_y);
            k[i] = bo_kernel_value(&f->desc, &pair);
        }
        for (size_t i = 0; i < f->desc.features; i++) {
            double sum = i < l->count && !w ? k[i] : 0;
            for (size_t j = 0; w && i < l->count && j <= i; j++) sum += (double)w[j] * k[j];
            z[r * ldz + i] = sum;
            if (w && i < l->count) w += i + 1;
        }
    }
}

/* ---- float ------------------------------------------------------------------------------------------------------- */

typedef struct buffers {
    float *k;      /* BO_BLOCK_ROWS x landmarks, with a stride of whole panels of pairs */
    float *lifted; /* BO_BLOCK_ROWS x columns, for forms that lift rows */
} buffers;

static size_t stride_of(const bo_features *f)
{
    return bo_round_up(f->landmarks->count, BO_PAIR_ROWS);
}

static size_t carve(const bo_features *f, void *scratch, buffers *b)
{
    bo_carver carver = {scratch, 0};
    const bo_form form = bo_kernel_find(f->desc.kernel)->form;
    b->k = bo_carve_floats(&carver, BO_BLOCK_ROWS * stride_of(f));
    b->lifted =
        bo_form_is_lifted(form) ? bo_carve_floats(&carver, BO_BLOCK_ROWS * bo_lifted_columns(form, f->desc.dim)) : NULL;
    return carver.bytes;
}

/* A row of landmarks in double, for gradients and the reference, is shorter than a block of rows. */
static size_t scratch(const bo_features *f)
{
    buffers b;
    const size_t forward = carve(f, NULL, &b), row = bo_padded_bytes(f->landmarks->count * sizeof(double));
    return forward > row ? forward : row;
}

void bo_landmark_lift(bo_form form, size_t dim, const float *t, float *out, double *norm, double *sum)
{
    double top = 0, other;
    for (size_t j = 0; j < dim; j++) top = fmax(top, fabs((double)t[j]));
    *norm = *sum = 0;
    for (size_t j = 0; j < dim; j++) {
        const double value = bo_lift(form, (double)t[j], top, &other);
        out[j] = (float)value;
        if (bo_lifted_columns(form, dim) > dim) out[dim + j] = (float)other;
        *norm += value * value;
        *sum += value + other;
    }
}

static double distance2(const float *x, const float *y, size_t dim)
{
    double sum = 0;
    for (size_t j = 0; j < dim; j++) sum += ((double)x[j] - (double)y[j]) * ((double)x[j] - (double)y[j]);
    return sum;
}

/* Kernel values of one row from its inner products with the landmarks, in k. Squared distances below 1% of the norms
 * would lose digits in the difference and are computed directly. */
static void values_of_products(const bo_features *f, const float *t, double norm, double sum, float *k)
{
    const bo_landmarks *l = f->landmarks;
    const bo_kernel_definition *kernel = bo_kernel_find(f->desc.kernel);
    const bool distances = kernel->form == BO_FORM_BOTH;
    for (size_t i = 0; i < l->count; i++) {
        bo_pair pair = {.dot = (double)k[i], .norm_x = norm, .norm_y = l->norm[i]};
        pair.sum_x = sum, pair.sum_y = l->norm[l->count + i];
        if (distances) {
            pair.distance2 = norm + pair.norm_y - 2 * pair.dot;
            if (!(pair.distance2 >= 0.01 * (norm + pair.norm_y)))
                pair.distance2 = distance2(t, l->t + i * f->desc.dim, f->desc.dim);
        }
        k[i] = (float)kernel->value(&f->desc, &pair);
    }
}

/* The same by definition: for COSH, and for constants outside the range of float. */
static void values_of_pairs(const bo_features *f, const float *t, float *k)
{
    double top_x, top_y;
    for (size_t i = 0; i < f->landmarks->count; i++) {
        const bo_pair pair = pair_of_f32(f, t, i, &top_x, &top_y);
        k[i] = (float)bo_kernel_value(&f->desc, &pair);
    }
}

/* The same for a block of rows and shift-invariant kernels. */
static void values_of_distances(const bo_features *f, size_t rows, const float *t, float *k, size_t ldk)
{
    const bo_landmarks *l = f->landmarks;
    const bo_distance distance = bo_form_distance(bo_kernel_find(f->desc.kernel)->form);
    const bo_radial radial = bo_kernel_radial(&f->desc);
    const size_t dim = f->desc.dim;
    for (size_t i = 0; i < l->count; i += BO_PAIR_ROWS)
        f->kernels->distances(distance, rows, BO_PAIR_ROWS, dim, t, dim, l->weight, l->pairs + i * dim, k + i, ldk);
    for (size_t r = 0; r < rows; r++) f->kernels->radial(&radial, l->count, k + r * ldk, k + r * ldk);
}

/* Kernel values of a block of rows with all landmarks. */
static void kernel_rows(const bo_features *f, size_t rows, const float *t, float *lifted, float *k, size_t ldk)
{
    const bo_landmarks *l = f->landmarks;
    const bo_form form = bo_kernel_find(f->desc.kernel)->form;
    const size_t dim = f->desc.dim, columns = bo_lifted_columns(form, dim);
    double norm[BO_BLOCK_ROWS], sum[BO_BLOCK_ROWS];
    if (l->pairs) {
        values_of_distances(f, rows, t, k, ldk);
        return;
    }
    if (!l->packed) {
        for (size_t r = 0; r < rows; r++) values_of_pairs(f, t + r * dim, k + r * ldk);
        return;
    }
    for (size_t r = 0; r < rows; r++) {
        float *to = lifted ? lifted + r * columns : NULL;
        if (to) bo_landmark_lift(form, dim, t + r * dim, to, &norm[r], &sum[r]);
        if (!to) norm[r] = 2 * bo_half_norm_f32(t + r * dim, dim), sum[r] = 0;
    }
    bo_packed_multiply(l->packed, rows, lifted ? lifted : t, columns, k, ldk);
    for (size_t r = 0; r < rows; r++) values_of_products(f, t + r * dim, norm[r], sum[r], k + r * ldk);
}

static void forward_f32(const bo_features *f, size_t rows, const float *u, const float *t, float *z, size_t ldz,
                        void *scratch)
{
    const bo_landmarks *l = f->landmarks;
    buffers b;
    (void)u;
    carve(f, scratch, &b);
    const size_t ldk = stride_of(f);
    kernel_rows(f, rows, t, b.lifted, b.k, ldk);
    for (size_t first = 0, p = 0; l->lower && first < l->count; first += BO_LANDMARK_PANEL, p++)
        bo_packed_multiply(l->panels[p], rows, b.k, ldk, z + first, ldz);
    for (size_t r = 0; r < rows; r++) {
        if (!l->lower) memcpy(z + r * ldz, b.k + r * ldk, l->count * sizeof *z);
        memset(z + r * ldz + l->count, 0, (f->desc.features - l->count) * sizeof *z);
    }
}

/* ---- the definition ---------------------------------------------------------------------------------------------- */

static bo_status check(bo_context *context, bo_features_desc *desc)
{
    enum { MAX_FEATURES = 1 << 16 };
    if (desc->features > MAX_FEATURES)
        return bo_fail(context, BO_INVALID, "function landmarks supports at most %d features, found %zu",
                       (int)MAX_FEATURES, desc->features);
    if (desc->sampling == BO_SAMPLING_OPTIMAL)
        return bo_fail(context, BO_UNSUPPORTED,
                       "sampling optimal cannot be used with function landmarks; use drawn or leverage");
    if (desc->sampling == BO_SAMPLING_LEVERAGE && desc->leverage_lambda == 0)
        desc->leverage_lambda = 1e-3 * (double)(desc->sample_rows ? desc->sample_rows : 1);
    if (desc->sampling == BO_SAMPLING_LEVERAGE && !(desc->leverage_lambda > 0 && isfinite(desc->leverage_lambda)))
        return bo_fail(context, BO_INVALID, "leverage_lambda must be a positive number, found %g",
                       desc->leverage_lambda);
    return BO_OK;
}

const bo_function_definition bo_function_landmarks = {
    .name = "landmarks",
    .kernels = BO_CLOSED_KERNELS,
    .check = check,
    .prepare = bo_landmarks_prepare,
    .scratch = scratch,
    .forward_f32 = forward_f32,
    .forward_f64 = forward_f64,
    .backward_f32 = backward_f32,
    .backward_f64 = backward_f64,
};
#endif
