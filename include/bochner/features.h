/* Bochner: feature maps. A kernel is an inner product of features, k(x, y) = E[φ(x)·φ(y)]; this header makes φ.
 *
 *     bo_features_desc desc = {.kernel = BO_KERNEL_RBF, .dim = 10, .features = 512, .gamma = 0.1, .seed = 1};
 *     bo_features *phi;
 *     bo_features_create(context, &desc, &phi);
 *     bo_features_apply(context, phi, rows, x, 10, z, 512);      // z: rows x 512
 *     bo_features_destroy(phi);
 *
 * Four axes combine freely; what is mathematically wrong is refused with the reason:
 *   kernel    which function of x and y is estimated (and so the spectrum of w)
 *   function  which function of w·x makes a feature
 *   draw      how the w are coupled
 *   sampling  whether the data chooses among the w
 *
 * Words. `features` is the length of φ; sin/cos and hyperbolic use features/2 frequencies. gamma is the one of the table
 * below: larger is more local. (Some texts call the width γ: here it is its inverse.) */
#ifndef BOCHNER_FEATURES_H
#define BOCHNER_FEATURES_H

#include <bochner/base.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct bo_features bo_features;

/* ==== Simple ====================================================================================================== */

/* ---- kernels, functions, draws, sampling ------------------------------------------------------------------------- */

/* D = x - y, each coordinate divided by its length scale first.
 *
 *   kernel             k(x, y)                                  spectrum of w (gamma folded in)
 *   RBF                exp(-γ |D|²)                             N(0, 2γ I)
 *   LAPLACIAN          exp(-γ |D|₁)                             each coordinate Cauchy(γ)
 *   CAUCHY             Π_j 1 / (1 + γ² D_j²)                    each coordinate Laplace(γ)
 *   MATERN12           exp(-γ |D|)                              multivariate Student-t, 1 degree of freedom
 *   MATERN32           (1 + √3 γ|D|) exp(-√3 γ|D|)              … 3
 *   MATERN52           (1 + √5 γ|D| + 5/3 γ²|D|²) exp(-√5 γ|D|) … 5
 *   RATIONAL_QUADRATIC (1 + γ|D|²/α)^-α                         N(0, 2γ I) √G, G ~ Gamma(α, 1/α)
 *   SOFTMAX            exp(γ x·y)                               N(0, I) on √γ x
 *   ARCCOS             γ|x||y| (sin θ + (π - θ) cos θ) / (2π)   N(0, γ I); order 1, θ the angle of x and y.
 *                                                               (normalized so that E[relu(w·x) relu(w·y)] = k)
 *   POLYNOMIAL         (1 + γ x·y)^degree                       none (exact) or a sketch
 *   TAYLOR             1 + s + s²/2, s = γ x·y                  none (exact)
 *   ELU                φ(x)·φ(y), φ = elu(√γ x) + 1             none: the kernel is defined by its features
 *   LINEAR             γ x·y                                    none (exact)
 *   COSH               Σ_j 2 cosh(√γ (x + y)_j)                 none (exact)
 *   HEDGEHOG           φ(x)·φ(y), φ = softmax([√γ x, -√γ x])    none: defined by its features (2402.04347)
 *   RECTIFIER          γ Σ_j max(x_j, 0) max(y_j, 0)            none (exact)
 *   CUSTOM             whatever the callback's features make    N(0, I) on √γ x */
typedef enum bo_kernel {
    BO_KERNEL_RBF = 0,
    BO_KERNEL_LAPLACIAN = 1,
    BO_KERNEL_CAUCHY = 2,
    BO_KERNEL_MATERN12 = 3,
    BO_KERNEL_MATERN32 = 4,
    BO_KERNEL_MATERN52 = 5,
    BO_KERNEL_RATIONAL_QUADRATIC = 6,
    BO_KERNEL_SOFTMAX = 7,
    BO_KERNEL_ARCCOS = 8,
    BO_KERNEL_POLYNOMIAL = 9,
    BO_KERNEL_TAYLOR = 10,
    BO_KERNEL_ELU = 11,
    BO_KERNEL_CUSTOM = 12,
    BO_KERNEL_LINEAR = 13,
    BO_KERNEL_COSH = 14,
    BO_KERNEL_HEDGEHOG = 15,
    BO_KERNEL_RECTIFIER = 16
} bo_kernel;

/* u = w·x. m frequencies.
 *
 *   function     features                                             of kernel
 *   SINCOS       [cos u, sin u] / √m                                  the seven shift-invariant ones;
 *                and, times exp(|x|²/2), SOFTMAX
 *   COSBIAS      √(2/m) cos(u + b), b ~ U[0, 2π)                      the seven shift-invariant ones
 *   POSITIVE     exp(u - |x|²/2) / √m                                 SOFTMAX
 *   HYPERBOLIC   exp(-|x|²/2) [exp u, exp -u] / √(2m)                 SOFTMAX
 *   OPRF         D exp(A|w|² + B u - |x|²/2) / √m, A from `pair_norm`  SOFTMAX (bounded for A < 0)
 *   RELU         max(u, 0) / √m                                       ARCCOS
 *   ELU          elu(x) + 1, no projection; features = dim            ELU
 *   POLYNOMIAL   every monomial with its √multinomial, exactly         POLYNOMIAL; features = C(dim + p, p)
 *   TENSORSKETCH FFT of count sketches of [1, x]                      POLYNOMIAL
 *   TAYLOR       [1, x, x⊗x / √2 without repeats]                     TAYLOR; features = 1 + dim + dim(dim+1)/2
 *   CUSTOM       the callback                                         CUSTOM
 *   SELFTENSOR   y⊗y without repeats, y a sketch of degree p/2        POLYNOMIAL of even degree; features = r(r+1)/2.
 *                (2310.01655), so that φ(x)·φ(y) >= 0: above k on average, by the variance of the sketch, of order 1/r
 *   IDENTITY     √γ x; features = dim                                 LINEAR
 *   EXPONENTIAL  [exp(√γ x), exp(-√γ x)]; features = 2 dim            COSH
 *   HEDGEHOG     softmax of [√γ x, -√γ x]; features = 2 dim           HEDGEHOG
 *   RECTIFIER    max(√γ x, 0); features = dim                         RECTIFIER
 *
 * ELU, TAYLOR and the last four take up to 2^22 columns; POLYNOMIAL, TENSORSKETCH and SELFTENSOR have up to 2^22
 * features. */
typedef enum bo_function {
    BO_FUNCTION_DEFAULT = 0, /* the first that fits the kernel: SINCOS, POSITIVE, RELU, ELU, POLYNOMIAL, TAYLOR, … */
    BO_FUNCTION_SINCOS = 1,
    BO_FUNCTION_COSBIAS = 2,
    BO_FUNCTION_POSITIVE = 3,
    BO_FUNCTION_HYPERBOLIC = 4,
    BO_FUNCTION_OPRF = 5,
    BO_FUNCTION_RELU = 6,
    BO_FUNCTION_ELU = 7,
    BO_FUNCTION_POLYNOMIAL = 8,
    BO_FUNCTION_TENSORSKETCH = 9,
    BO_FUNCTION_TAYLOR = 10,
    BO_FUNCTION_CUSTOM = 11,
    BO_FUNCTION_SELFTENSOR = 12,
    BO_FUNCTION_IDENTITY = 13,
    BO_FUNCTION_EXPONENTIAL = 14,
    BO_FUNCTION_HEDGEHOG = 15,
    BO_FUNCTION_RECTIFIER = 16
} bo_function;

/* How frequencies are coupled. All are unbiased but two, whose bias vanishes as 1/dim and 1/m (docs/reference/features.md):
 * HADAMARD, whose directions are not quite uniform, and MOMENT, whose fourth moments are smaller than the law's. */
typedef enum bo_draw {
    BO_DRAW_DEFAULT = 0, /* ORTHOGONAL for rotation-invariant spectra, else IID */
    BO_DRAW_IID = 1,
    BO_DRAW_ORTHOGONAL = 2, /* blocks of Haar rows with independent χ norms */
    BO_DRAW_HADAMARD = 3,   /* three HD blocks, O(dim log dim) to apply */
    BO_DRAW_SIMPLEX = 4,    /* rows of a block at equal obtuse angles: best for positive features of small norm */
    BO_DRAW_SOBOL = 5,      /* scrambled Sobol points through the inverse distribution function */
    BO_DRAW_MOMENT = 6,     /* iid, then centered and whitened; needs a finite variance and more than dim frequencies */
} bo_draw;

typedef enum bo_sampling {
    BO_SAMPLING_DRAWN = 0,    /* as drawn */
    BO_SAMPLING_OPTIMAL = 1,  /* candidates resampled by the data's second moments (2406.18802), with weights */
    BO_SAMPLING_LEVERAGE = 2, /* candidates resampled by ridge leverage scores of the data, with weights */
} bo_sampling;

/* ---- describe, create, apply ------------------------------------------------------------------------------------- */

/* The callback of a CUSTOM function: out[i * features + j] for i < rows, from projections u (rows x frequencies) and the
 * inputs after length scales and √γ (rows x dim). Called from several threads at once. */
typedef void (*bo_feature_fn)(void *user, size_t rows, size_t frequencies, const float *u, size_t dim, const float *x,
                              size_t features, float *out);
/* Its gradient: du and dx from dz. du (rows x frequencies) is overwritten, dx (rows x dim) is added to. */
typedef void (*bo_feature_backward_fn)(void *user, size_t rows, size_t frequencies, const float *u, size_t dim,
                                       const float *x, size_t features, const float *dz, float *du, float *dx);

/* Zero means the default, except for dim and features. */
typedef struct bo_features_desc {
    bo_kernel kernel;
    bo_function function;
    bo_draw draw;
    bo_sampling sampling;
    size_t dim;                 /* columns of x; required */
    size_t features;            /* length of φ; 0 is allowed only where the function fixes it (exact maps) */
    double gamma;               /* (default: 1) */
    const float *length_scales; /* dim positive numbers, or NULL: all 1. Copied. */
    double alpha;               /* RATIONAL_QUADRATIC (default: 1) */
    int degree;                 /* kernel POLYNOMIAL (default: 2) */
    double pair_norm; /* OPRF: mean of |x + y|² over pairs, after gamma and length scales (default: from the sample) */
    uint64_t seed;
    /* data-aware sampling and OPRF: rows x dim inputs, read during create only */
    const float *sample;
    size_t sample_rows, sample_stride;
    size_t candidates;      /* frequencies to choose from (default: 8 times those kept) */
    double leverage_lambda; /* λ of the leverage scores (default: 1e-3 sample_rows) */
    /* CUSTOM */
    bo_feature_fn custom;
    bo_feature_backward_fn custom_backward; /* NULL: bo_features_backward is refused */
    void *custom_user;
    size_t custom_per_frequency; /* features per frequency (default: 1) */
    uint64_t reserved[4];        /* zero: room for later versions */
} bo_features_desc;

BO_API bo_status bo_features_create(bo_context *context, const bo_features_desc *desc, bo_features **out);
BO_API void bo_features_destroy(bo_features *features);

/* z (rows x features, stride ldz) from x (rows x dim, stride ldx). Strides are in floats. Uses every thread. */
BO_API bo_status bo_features_apply(bo_context *context, const bo_features *features, size_t rows, const float *x,
                                   size_t ldx, float *z, size_t ldz);

/* What was made: the descriptor with defaults filled in. length_scales points to the object's own copy, sample is NULL. */
BO_API const bo_features_desc *bo_features_describe(const bo_features *features);

/* ---- files ------------------------------------------------------------------------------------------------------- */

/* A safetensors file with everything that apply needs. CUSTOM cannot be saved. */
BO_API bo_status bo_features_save(bo_context *context, const bo_features *features, const char *path);
BO_API bo_status bo_features_load(bo_context *context, const char *path, bo_features **out);

/* ==== Advanced ==================================================================================================== */

/* ---- files in memory --------------------------------------------------------------------------------------------- */

/* The bytes that bo_features_save writes. *bytes is released with bo_free. */
BO_API bo_status bo_features_save_memory(bo_context *context, const bo_features *features, void **bytes, size_t *size);
/* The bytes are not needed afterwards. */
BO_API bo_status bo_features_load_memory(bo_context *context, const void *bytes, size_t size, bo_features **out);

/* ---- facts ------------------------------------------------------------------------------------------------------- */

/* Bytes that the object will hold. What create checks is checked here too. */
BO_API bo_status bo_features_estimate(bo_context *context, const bo_features_desc *desc, size_t *bytes);
/* Something is drawn at random, so that `features` is free and must be given; other maps fix it. Looks at kernel and
 * function only. */
BO_API bool bo_features_needs_length(const bo_features_desc *desc);
/* Features grow exponentially, so that they come with log scales and attention must divide by their sum: SOFTMAX, COSH. */
BO_API bool bo_kernel_is_scaled(bo_kernel kernel);
/* Made to follow a learned map W x + b: COSH, HEDGEHOG, RECTIFIER. */
BO_API bool bo_kernel_is_learned(bo_kernel kernel);

/* ---- names ------------------------------------------------------------------------------------------------------- */

/* "rbf", "laplacian", …; NULL outside the enum. */
BO_API const char *bo_kernel_name(bo_kernel kernel);
BO_API const char *bo_function_name(bo_function function);
BO_API const char *bo_draw_name(bo_draw draw);
BO_API const char *bo_sampling_name(bo_sampling sampling);
/* False: there is no such name (or it is NULL), and *out is unchanged. Case does not matter, and "_" is "-". */
BO_API bool bo_kernel_parse(const char *name, bo_kernel *out);
BO_API bool bo_function_parse(const char *name, bo_function *out);
BO_API bool bo_draw_parse(const char *name, bo_draw *out);
BO_API bool bo_sampling_parse(const char *name, bo_sampling *out);

/* ---- exact kernels, and how far the features are from them ------------------------------------------------------- */

/* k(x_i, y_j) in closed form, rows_x x rows_y. BO_UNSUPPORTED for CUSTOM. */
BO_API bo_status bo_kernel_matrix(bo_context *context, const bo_features_desc *desc, size_t rows_x, const float *x,
                                  size_t ldx, size_t rows_y, const float *y, size_t ldy, double *k, size_t ldk);

/* The statement of accuracy: over random pairs of rows, the kernel's measured error and what the variance formula predicts
 * for it. Predictions are for independent draws; couplings usually do better, which `ratio` < 1 shows. */
typedef struct bo_features_accuracy {
    size_t pairs;
    double kernel_rms; /* root mean square of k */
    double error_rms;  /* of φ(x)·φ(y) - k(x, y), measured */
    double error_mean; /* bias over these pairs (one draw: not zero even if unbiased) */
    double error_max;
    double predicted_rms;     /* from the variance formula; 0 for exact maps; NAN where none is known */
    double ratio;             /* error_rms / predicted_rms */
    double features_for_1pct; /* features at which predicted_rms would be 1% of kernel_rms; NAN where unknown */
    uint64_t reserved[4];     /* zero: room for later versions */
} bo_features_accuracy;
/* Over `pairs` (default: 1000) random pairs of rows of x, chosen by `seed`. */
BO_API bo_status bo_features_measure(bo_context *context, const bo_features *features, size_t rows, const float *x,
                                     size_t ldx, size_t pairs, uint64_t seed, bo_features_accuracy *out);
/* Predicted variance of φ(x)·φ(y) for one pair, independent draws. NAN where no formula is known. */
BO_API double bo_features_variance(const bo_features *features, const float *x, const float *y);

/* ---- gradients --------------------------------------------------------------------------------------------------- */

/* From dz = dL/dφ: dx (rows x dim, overwritten), dlength_scales (dim, overwritten), dfrequencies (frequencies x dim,
 * overwritten; refused for HADAMARD, whose frequencies are not free). Any of the three may be NULL. */
BO_API bo_status bo_features_backward(bo_context *context, const bo_features *features, size_t rows, const float *x,
                                      size_t ldx, const float *dz, size_t lddz, float *dx, size_t lddx,
                                      float *dlength_scales, float *dfrequencies);

/* ---- frequencies ------------------------------------------------------------------------------------------------- */

/* Rows of w; 0 for exact maps. */
BO_API size_t bo_features_frequencies(const bo_features *features);
/* Copies w (frequencies x dim), as applied to x after length scales: gamma is folded in. */
BO_API bo_status bo_features_get_frequencies(bo_context *context, const bo_features *features, float *w);
/* Changes the map, which nobody else may be using meanwhile: no other thread, no machine. */
BO_API bo_status bo_features_set_frequencies(bo_context *context, bo_features *features, const float *w);
/* Importance weights: one per frequency, the factor √(p/q) that its features are multiplied by, as far as float holds it: at
 * least the smallest normal one. NULL: all 1. */
BO_API const float *bo_features_importance(const bo_features *features);

/* ==== Experimental ================================================================================================ */

#ifdef BO_EXPERIMENTAL

/* The same map in float64, by the plain C reference: for checking gradients and the fast path. Not for CUSTOM. */
BO_API bo_status bo_features_apply_f64(bo_context *context, const bo_features *features, size_t rows, const double *x,
                                       size_t ldx, double *z, size_t ldz);
/* bo_features_backward in float64. */
BO_API bo_status bo_features_backward_f64(bo_context *context, const bo_features *features, size_t rows,
                                          const double *x, size_t ldx, const double *dz, size_t lddz, double *dx,
                                          size_t lddx, double *dlength_scales, double *dfrequencies);

#endif

#ifdef __cplusplus
}
#endif
#endif
