/* Every map that the registry can make, so that a new kernel, function or draw is tested without a change here: all
 * combinations are tried, and unsupported ones are skipped. */
#ifndef BO_TEST_MAPS_H
#define BO_TEST_MAPS_H

#include "features/enums.h"
#include "features/facts.h"
#include "testing.h"
#include "features/internal.h"

enum { DIM = 6, FREQUENCIES = 16, SAMPLE_ROWS = 12 };

static inline void test_custom(void *user, size_t rows, size_t frequencies, const float *u, size_t dim, const float *x,
                               size_t features, float *out)
{
    (void)user, (void)dim, (void)x;
    for (size_t r = 0; r < rows; r++)
        for (size_t i = 0; i < frequencies; i++) out[r * features + i] = tanhf(u[r * frequencies + i]);
}

static inline void test_custom_backward(void *user, size_t rows, size_t frequencies, const float *u, size_t dim,
                                        const float *x, size_t features, const float *dz, float *du, float *dx)
{
    (void)user, (void)dim, (void)x, (void)dx;
    for (size_t r = 0; r < rows; r++)
        for (size_t i = 0; i < frequencies; i++) {
            float t = tanhf(u[r * frequencies + i]);
            du[r * frequencies + i] = dz[r * features + i] * (1 - t * t);
        }
}

/* Inputs of moderate size: kernels around one half, and finite second moments of positive features. */
static inline void test_inputs(uint64_t seed, size_t count, float *x)
{
    bo_rng rng = bo_rng_make(seed, bo_rng_stream("test.inputs", 0));
    for (size_t i = 0; i < count; i++) x[i] = (float)(0.3 * bo_rng_normal(&rng));
}

static inline const char *map_name(const bo_features_desc *desc)
{
    static char text[128];
    snprintf(text, sizeof text, "%s %s %s %s", bo_kernel_name(desc->kernel), bo_function_name(desc->function),
             bo_draw_name(desc->draw), bo_sampling_name(desc->sampling));
    return text;
}

/* A descriptor of this combination with FREQUENCIES frequencies, or that many features if the map has no
 * frequencies. */
static inline bo_features_desc map_desc(bo_kernel kernel, bo_function function, bo_draw draw, bo_sampling sampling,
                                        const float *sample)
{
    const bo_function_definition *definition = bo_function_find(function);
    size_t features = definition->per_frequency ? definition->per_frequency * FREQUENCIES : 0;
    bool squared = function == BO_FUNCTION_SELFTENSOR;
    if (!definition->per_frequency && !definition->exact) features = squared ? 36 : 2 * FREQUENCIES;
    return (bo_features_desc){.kernel = kernel,
                              .function = function,
                              .draw = draw,
                              .sampling = sampling,
                              .dim = DIM,
                              .features = features,
                              .gamma = 0.8,
                              .alpha = 1.5,
                              .degree = squared ? 6 : 3,
                              .seed = 1,
                              .sample = sample,
                              .sample_rows = SAMPLE_ROWS,
                              .sample_stride = DIM,
                              .custom = test_custom,
                              .custom_backward = test_custom_backward};
}

/* The factor by which Nyström features amplify the relative rounding of kernel values: φ = W k has a size of about
 * √(k(x, x)/m), and k_j is at most √(k(x, x) k_jj). */
static inline double landmark_amplification(const bo_features *f)
{
    const bo_landmarks *l = f->landmarks;
    double largest_value = 1;
    for (size_t i = 0, at = 0; l->lower && i < l->count; i++) {
        double sum = 0;
        for (size_t j = 0; j <= i; j++, at++) {
            const float *z = l->rows + j * f->desc.dim;
            const bo_pair pair = bo_pair_make(&f->desc, f->factor, z, z);
            sum += fabs((double)l->lower[at]) * sqrt(bo_kernel_value(&f->desc, &pair));
        }
        largest_value = fmax(largest_value, sum * sqrt((double)l->count));
    }
    return largest_value;
}

/* Uncertainty of u for frequency i in float32, in units of the function's result: u is a sum of rounded products (d + 2
 * rounding errors of at most 2⁻²⁴ Σ|w_j t_j|, including the rounding of the scaled frequency), and the function adds a
 * few; `more` is the remaining part of its argument. w: dense frequencies, t: the scaled input. The self-tensored
 * sketch of degree h = 3 squares a product of 2h - 2 random sums of up to 8 terms, each of which cancels to about 1/√8
 * of the sizes of its terms: 8^(h - 1) times the uncertainty of y, and twice that for its square. */
static inline double map_rounding(const bo_features *f, const double *w, const double *t, size_t i, double more)
{
    double sum = 1 + more;
    if (f->frequencies)
        for (size_t j = 0; j < DIM; j++) sum += f->u_scale * fabs(w[i * DIM + j] * t[j]);
    if (f->desc.function == BO_FUNCTION_SELFTENSOR) sum *= 2 * 64;
    if (f->landmarks) sum *= landmark_amplification(f);
    if (f->offset) sum += fabs(f->offset[i]);
    if (f->hadamard.padded) { /* the transform sums P terms: Σ|t| with the norm of the row */
        double all = 0;
        for (size_t j = 0; j < DIM; j++) all += fabs(t[j]);
        sum += f->u_scale * all * (double)f->hadamard.norms[i] * (double)f->hadamard.padded;
    }
    return (DIM + 6) * 0x1p-24 * sum;
}

typedef void (*map_visitor)(bo_context *context, const bo_features_desc *desc, void *user);

/* Calls `visit` for every supported combination; returns their number. */
static inline size_t for_each_map(bo_context *context, const float *sample, map_visitor visit, void *user)
{
    size_t count = 0, bytes;
    for (int kernel = 0; kernel < BO_KERNEL_COUNT; kernel++)
        for (int function = 1; function < BO_FUNCTION_COUNT; function++)
            for (int draw = 1; draw < BO_DRAW_COUNT; draw++)
                for (int sampling = 0; sampling < BO_SAMPLING_COUNT; sampling++) {
                    bo_features_desc desc = map_desc((bo_kernel)kernel, (bo_function)function, (bo_draw)draw,
                                                     (bo_sampling)sampling, sample);
                    bo_status status = bo_features_estimate(context, &desc, &bytes);
                    if (status == BO_UNSUPPORTED) continue;
                    assert_ok(context, status);
                    visit(context, &desc, user);
                    count++;
                }
    return count;
}

#endif
