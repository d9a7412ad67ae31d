/** @file
 * Feature maps: random features of kernels.
 *
 * A kernel is an inner product of features, k(x, y) = E[φ(x)·φ(y)]. This header computes φ.
 *
 *     bo_features_desc desc = {.kernel = BO_KERNEL_RBF, .dim = 10, .features = 512, .gamma = 0.1, .seed = 1};
 *     bo_features *phi;
 *     bo_features_create(context, &desc, &phi);
 *     bo_features_apply(context, phi, &(bo_inputs){.rows = rows, .x = x}, z, 512);      // z: rows x 512
 *     bo_features_destroy(phi);
 *
 * A map is chosen along four axes. Combinations that are mathematically wrong are refused with the reason.
 *
 *     kernel     the function of x and y that is estimated; it determines the distribution of the frequencies w
 *     function   the function of w·x that gives a feature
 *     draw       the dependence between the frequencies
 *     sampling   whether the frequencies are chosen by data
 *
 * **Terms.** `features` is the length of φ(x). Sin/cos and hyperbolic features use features/2 frequencies, so that
 * `features` must be even. A larger `gamma` makes a kernel more local. (Some texts use γ for the width of a kernel;
 * here it is the inverse.) Numbers such as 2310.01655 are papers on arXiv.
 *
 * **Ownership.** The caller destroys a map. **Threads.** A map may be used by several threads at once, except during
 * bo_features_set_frequencies().
 */
#ifndef BOCHNER_FEATURES_H
#define BOCHNER_FEATURES_H

#include <bochner/base.h>
#include <bochner/data.h>

#ifdef __cplusplus
extern "C" {
#endif

/** A feature map φ. */
typedef struct bo_features bo_features;

/* ==== Simple ====================================================================================================== */

/* ---- kernels, functions, draws, sampling ------------------------------------------------------------------------- */

/** A kernel k(x, y).
 *
 * D = x - y, with each coordinate divided by its length scale first.
 *
 *     kernel             k(x, y)                                  distribution of w (gamma included)
 *     RBF                exp(-γ |D|²)                             N(0, 2γ I)
 *     LAPLACIAN          exp(-γ |D|₁)                             each coordinate Cauchy(γ)
 *     CAUCHY             Π_j 1 / (1 + γ² D_j²)                    each coordinate Laplace(γ)
 *     MATERN12           exp(-γ |D|)                              multivariate Student-t, 1 degree of freedom
 *     MATERN32           (1 + √3 γ|D|) exp(-√3 γ|D|)              multivariate Student-t, 3 degrees of freedom
 *     MATERN52           (1 + √5 γ|D| + 5/3 γ²|D|²) exp(-√5 γ|D|) multivariate Student-t, 5 degrees of freedom
 *     RATIONAL_QUADRATIC (1 + γ|D|²/α)^-α                         N(0, 2γ I) √G, G ~ Gamma(α, 1/α)
 *     SOFTMAX            exp(γ x·y)                               N(0, I), applied to √γ x
 *     ARCCOS             γ|x||y| (sin θ + (π - θ) cos θ) / (2π)   N(0, γ I); order 1, θ is the angle between x and y
 *                                                                 (normalized so that E[relu(w·x) relu(w·y)] = k)
 *     POLYNOMIAL         (1 + γ x·y)^degree                       none (exact) or a sketch
 *     TAYLOR             1 + s + s²/2, s = γ x·y                  none (exact)
 *     ELU                φ(x)·φ(y), φ = elu(√γ x) + 1             none: the kernel is defined by its features
 *     LINEAR             γ x·y                                    none (exact)
 *     COSH               Σ_j 2 cosh(√γ (x + y)_j)                 none (exact)
 *     HEDGEHOG           φ(x)·φ(y), φ = softmax([√γ x, -√γ x])    none: defined by its features (2402.04347)
 *     RECTIFIER          γ Σ_j max(x_j, 0) max(y_j, 0)            none (exact)
 *     CUSTOM             defined by the features of the callback  N(0, I), applied to √γ x
 *     NNGP               covariance of the outputs of a random    none: random networks
 *                        network of infinite width
 *     NTK                neural tangent kernel of that network    none: random networks
 *
 * **Networks of infinite width.** NNGP and NTK are the limits of fully connected networks with `depth` hidden layers,
 * whose weights are drawn with variance σ_w² / (number of inputs of the layer) and whose biases are drawn with variance
 * σ_b². The first layer reads √γ x, so that γ = 1/dim is the common choice. With Σ⁰ = σ_b² + σ_w² γ x·y, F(Σ)(x, y) =
 * E[act(u) act(v)] and F'(Σ)(x, y) = E[act'(u) act'(v)] for (u, v) normal with the covariance Σ at (x, x), (x, y), (y,
 * y),
 *
 *     Σˡ = σ_b² + σ_w² F(Σˡ⁻¹),   Θ⁰ = Σ⁰,   Θˡ = Σˡ + σ_w² F'(Σˡ⁻¹) Θˡ⁻¹,   l = 1 … depth,
 *
 * NNGP is Σ and NTK is Θ at l = depth (1711.00165, 1806.07572, 1902.06720).
 */
typedef enum bo_kernel {
    BO_KERNEL_RBF = 0,                /**< Gaussian */
    BO_KERNEL_LAPLACIAN = 1,          /**< Laplacian, with the 1-norm */
    BO_KERNEL_CAUCHY = 2,             /**< product of Cauchy functions */
    BO_KERNEL_MATERN12 = 3,           /**< Matérn 1/2 */
    BO_KERNEL_MATERN32 = 4,           /**< Matérn 3/2 */
    BO_KERNEL_MATERN52 = 5,           /**< Matérn 5/2 */
    BO_KERNEL_RATIONAL_QUADRATIC = 6, /**< rational quadratic, with parameter `alpha` */
    BO_KERNEL_SOFTMAX = 7,            /**< exponential of the inner product */
    BO_KERNEL_ARCCOS = 8,             /**< arc-cosine of order 1 */
    BO_KERNEL_POLYNOMIAL = 9,         /**< polynomial, with parameter `degree` */
    BO_KERNEL_TAYLOR = 10,            /**< second-order Taylor polynomial of the exponential */
    BO_KERNEL_ELU = 11,               /**< elu + 1 features */
    BO_KERNEL_CUSTOM = 12,            /**< features of a callback */
    BO_KERNEL_LINEAR = 13,            /**< inner product */
    BO_KERNEL_COSH = 14,              /**< sum of hyperbolic cosines */
    BO_KERNEL_HEDGEHOG = 15,          /**< softmax features */
    BO_KERNEL_RECTIFIER = 16,         /**< rectified features */
    BO_KERNEL_NNGP = 17,              /**< random networks of infinite width */
    BO_KERNEL_NTK = 18                /**< tangents of networks of infinite width */
} bo_kernel;

/** The function that gives the features. u = w·x; m is the number of frequencies.
 *
 *     function     features                                             kernels
 *     SINCOS       [cos u, sin u] / √m                                  the seven shift-invariant ones;
 *                  the same times exp(|x|²/2)                           SOFTMAX
 *     COSBIAS      √(2/m) cos(u + b), b ~ U[0, 2π)                      the seven shift-invariant ones
 *     POSITIVE     exp(u - |x|²/2) / √m                                 SOFTMAX
 *     HYPERBOLIC   exp(-|x|²/2) [exp u, exp -u] / √(2m)                 SOFTMAX
 *     OPRF         D exp(A|w|² + B u - |x|²/2) / √m, A from `pair_norm`  SOFTMAX (bounded for A < 0)
 *     RELU         max(u, 0) / √m                                       ARCCOS
 *     ELU          elu(x) + 1, no projection; features = dim            ELU
 *     POLYNOMIAL   all monomials with their √multinomial, exact         POLYNOMIAL; features = C(dim + p, p)
 *     TENSORSKETCH FFT of count sketches of [1, x]                      POLYNOMIAL
 *     TAYLOR       [1, x, x⊗x / √2 without repetitions]                 TAYLOR; features = 1 + dim + dim(dim+1)/2
 *     CUSTOM       the callback                                         CUSTOM
 *     SELFTENSOR   y⊗y without repetitions, y a sketch of degree p/2    POLYNOMIAL of even degree; features = r(r+1)/2
 *     IDENTITY     √γ x; features = dim                                 LINEAR
 *     EXPONENTIAL  [exp(√γ x), exp(-√γ x)]; features = 2 dim            COSH
 *     HEDGEHOG     softmax of [√γ x, -√γ x]; features = 2 dim           HEDGEHOG
 *     RECTIFIER    max(√γ x, 0); features = dim                         RECTIFIER
 *     NETWORK      the last hidden layer of a random network            NNGP
 *                  some entries of the gradient of a random network     NTK
 *     SECTIONS     k(x, s) for all training rows s: not a map of the    all kernels with a closed form,
 *                  kernel, but the map of exact kernel machines         in kernel machines
 *     LANDMARKS    W k(z, x) for rows z of the sample, where WᵀW is     all kernels with a closed form
 *                  the inverse of the kernel matrix of these rows
 *
 * NETWORK is unbiased for `depth` 1; for deeper networks, the bias is of order 1 / features, and the error of order 1 /
 * √features. LANDMARKS (the Nyström method) requires `sample` and uses no frequencies and no draw: `features` rows
 * of it are chosen, uniformly or, with sampling LEVERAGE, by ridge leverage scores. φ(x)·φ(y) = k(x, y) if x or y is a
 * landmark, up to about 1e-6, and |φ(x)|² <= k(x, x) elsewhere. If the sample has fewer rows, the remaining features
 * are 0. SELFTENSOR (2310.01655) keeps φ(x)·φ(y) >= 0. On average it exceeds k by the variance of the sketch, which is
 * of order 1/r. ELU, TAYLOR and the last four functions accept up to 2^22 columns. POLYNOMIAL, TENSORSKETCH and
 * SELFTENSOR have up to 2^22 features.
 */
typedef enum bo_function {
    /** The first function that estimates the kernel: SINCOS, POSITIVE, RELU, ELU, POLYNOMIAL, TAYLOR, … */
    BO_FUNCTION_DEFAULT = 0,
    BO_FUNCTION_SINCOS = 1,       /**< cosine and sine */
    BO_FUNCTION_COSBIAS = 2,      /**< cosine with a random phase */
    BO_FUNCTION_POSITIVE = 3,     /**< exponential (FAVOR+) */
    BO_FUNCTION_HYPERBOLIC = 4,   /**< exponentials of both signs */
    BO_FUNCTION_OPRF = 5,         /**< optimal positive random features (FAVOR++) */
    BO_FUNCTION_RELU = 6,         /**< rectified projection */
    BO_FUNCTION_ELU = 7,          /**< elu + 1 */
    BO_FUNCTION_POLYNOMIAL = 8,   /**< monomials */
    BO_FUNCTION_TENSORSKETCH = 9, /**< TensorSketch */
    BO_FUNCTION_TAYLOR = 10,      /**< monomials of degree 0 to 2 */
    BO_FUNCTION_CUSTOM = 11,      /**< callback */
    BO_FUNCTION_SELFTENSOR = 12,  /**< tensor square of a sketch */
    BO_FUNCTION_IDENTITY = 13,    /**< the input */
    BO_FUNCTION_EXPONENTIAL = 14, /**< exponentials of the input */
    BO_FUNCTION_HEDGEHOG = 15,    /**< softmax of the input */
    BO_FUNCTION_RECTIFIER = 16,   /**< rectified input */
    BO_FUNCTION_NETWORK = 17,     /**< random network */
    BO_FUNCTION_SECTIONS = 18,    /**< kernel values with the training rows; created by bo_machine_fit() only */
    BO_FUNCTION_LANDMARKS = 19    /**< Nyström features of rows of the sample */
} bo_function;

/** The activation of the networks of NNGP and NTK. */
typedef enum bo_hidden_activation {
    BO_HIDDEN_RELU = 0, /**< max(u, 0) */
    BO_HIDDEN_ERF = 1   /**< erf(u) */
} bo_hidden_activation;

/** The dependence between frequencies.
 *
 * All draws are unbiased except two (docs/reference/features.md): HADAMARD, whose directions are not exactly uniform,
 * has a bias of order 1/dim; MOMENT, whose fourth moments are smaller than the moments of the distribution, has a bias
 * of order 1/m.
 */
typedef enum bo_draw {
    BO_DRAW_DEFAULT = 0,    /**< ORTHOGONAL for rotation-invariant distributions, otherwise IID */
    BO_DRAW_IID = 1,        /**< independent */
    BO_DRAW_ORTHOGONAL = 2, /**< blocks of Haar-distributed rows with independent χ norms */
    BO_DRAW_HADAMARD = 3,   /**< three HD blocks; applied in O(dim log dim) */
    BO_DRAW_SIMPLEX = 4,    /**< rows of a block at equal obtuse angles: best for positive features of small norm */
    BO_DRAW_SOBOL = 5,      /**< scrambled Sobol points through the inverse distribution function */
    /** Independent, then centered and whitened. Needs finite variance and more than dim frequencies. */
    BO_DRAW_MOMENT = 6,
} bo_draw;

/** Whether data chooses the frequencies. */
typedef enum bo_sampling {
    BO_SAMPLING_DRAWN = 0,   /**< as drawn */
    BO_SAMPLING_OPTIMAL = 1, /**< candidates resampled by second moments of the data (2406.18802), with weights */
    /** candidates resampled by ridge leverage scores of the data, with weights; LANDMARKS: rows chosen by their
     * scores */
    BO_SAMPLING_LEVERAGE = 2,
} bo_sampling;

/* ---- describe, create, apply ------------------------------------------------------------------------------------- */

/** Computes the features of a CUSTOM function. Called from several threads at once.
 *
 * @param user          `custom_user` of the descriptor
 * @param rows          the number of rows
 * @param frequencies   the number of frequencies
 * @param u             projections, rows x frequencies
 * @param dim           the number of columns of x
 * @param x             inputs after length scales and √γ, rows x dim
 * @param features      the length of φ
 * @param[out] out      features, rows x features
 */
typedef void (*bo_feature_fn)(void *user, size_t rows, size_t frequencies, const float *u, size_t dim, const float *x,
                              size_t features, float *out);

/** Computes the gradients of a CUSTOM function. Called from several threads at once.
 *
 * @param user          `custom_user` of the descriptor
 * @param rows          the number of rows
 * @param frequencies   the number of frequencies
 * @param u             projections, rows x frequencies
 * @param dim           the number of columns of x
 * @param x             inputs after length scales and √γ, rows x dim
 * @param features      the length of φ
 * @param dz            gradient of the features, rows x features
 * @param[out] du       gradient of the projections, rows x frequencies; overwritten
 * @param[in,out] dx    gradient of the inputs, rows x dim; added to
 */
typedef void (*bo_feature_backward_fn)(void *user, size_t rows, size_t frequencies, const float *u, size_t dim,
                                       const float *x, size_t features, const float *dz, float *du, float *dx);

/** The settings of a feature map. `dim` has no default. `features` has no default if the map is random. */
typedef struct bo_features_desc {
    bo_kernel kernel;           /**< the kernel (default: RBF) */
    bo_function function;       /**< the function (default: the first that estimates the kernel) */
    bo_draw draw;               /**< the draw (default: orthogonal, or independent where that is not possible) */
    bo_sampling sampling;       /**< the sampling (default: as drawn) */
    size_t dim;                 /**< number of columns of x; required */
    size_t features;            /**< length of φ(x); may be 0 only if the function determines it (exact maps) */
    double gamma;               /**< γ of the kernel (default: 1; NNGP and NTK: 1/dim) */
    const float *length_scales; /**< `dim` positive numbers, copied; NULL: all 1 */
    double alpha;               /**< RATIONAL_QUADRATIC: α (default: 1) */
    int degree;                 /**< POLYNOMIAL kernel: degree (default: 2) */
    /** OPRF: mean of |x + y|² over pairs, after gamma and length scales (default: computed from `sample`). */
    double pair_norm;
    uint64_t seed; /**< seed of the frequencies */
    /** data for sampling, OPRF and LANDMARKS, sample_rows x dim; read during create only; or NULL */
    const float *sample;
    size_t sample_rows;     /**< number of rows of `sample` */
    size_t sample_stride;   /**< floats between two rows of `sample` (default: dim) */
    size_t candidates;      /**< number of frequencies to choose from (default: 8 times the number kept) */
    double leverage_lambda; /**< λ of the leverage scores (default: 1e-3 sample_rows) */
    bo_feature_fn custom;   /**< CUSTOM: computes features */
    bo_feature_backward_fn custom_backward; /**< CUSTOM: computes gradients; NULL: bo_features_backward() is refused */
    void *custom_user;                      /**< CUSTOM: passed to both functions; must outlive the map */
    size_t custom_per_frequency;            /**< CUSTOM: features per frequency (default: 1) */
    /** The map is for sparse rows (bo_inputs.sparse): it takes half of the memory, and dense rows are slow. */
    bool sparse;
    /** NNGP, NTK: number of hidden layers, 1 to 16 (default: 1); in bo_machine_desc also -1: 1 to 3, chosen by
     * search. */
    int depth;
    bo_hidden_activation activation; /**< NNGP, NTK: activation of the hidden layers (default: RELU) */
    double weight_variance;          /**< NNGP, NTK: σ_w² (default: 2) */
    double bias_variance;            /**< NNGP, NTK: σ_b² (default: 0, no biases) */
    uint64_t reserved[4];            /**< must be zero */
} bo_features_desc;

/** Creates a feature map.
 *
 * @param context    the context
 * @param desc       the map
 * @param[out] out   the new map; release it with bo_features_destroy()
 * @return BO_OK; BO_UNSUPPORTED if kernel, function, draw and sampling do not fit together; BO_NUMERIC if the sample is
 *     not finite or its scores cannot be computed
 */
BO_API bo_status bo_features_create(bo_context *context, const bo_features_desc *desc, bo_features **out);

/** Destroys a feature map.
 *
 * @param features   the object, or NULL
 */
BO_API void bo_features_destroy(bo_features *features);

/** Rows of inputs, dense or sparse. Zero is the default of each member. */
typedef struct bo_inputs {
    size_t rows;             /**< number of rows; sparse rows: 0, or the same number as in `sparse` */
    const float *x;          /**< dense rows: rows x dim numbers */
    size_t stride;           /**< dense rows: floats between two rows, at least dim (default: dim) */
    const bo_sparse *sparse; /**< sparse rows instead of `x` */
    uint64_t reserved[2];    /**< must be zero */
} bo_inputs;

/** Computes z = φ(x), on all threads of the context.
 *
 * The inputs are not checked: a row with NaN or infinity gives features that are NaN or arbitrary. Other rows are not
 * affected.
 *
 * The cost of sparse rows is proportional to the numbers that are not 0, if the map has a matrix of frequencies and its
 * function depends on w·x only (trigonometric functions); other maps copy a few rows at a time.
 *
 * @param context    the context
 * @param features   the map
 * @param inputs     the rows
 * @param[out] z     features, rows x features
 * @param ldz        floats between two rows of z
 * @return BO_OK; BO_INVALID if rows have fewer columns than the map, or if offsets or columns of sparse rows do not
 *     ascend
 */
BO_API bo_status bo_features_apply(bo_context *context, const bo_features *features, const bo_inputs *inputs, float *z,
                                   size_t ldz);

/** Returns the descriptor of a map with the defaults filled in.
 *
 * @param features   the map
 * @return the descriptor, owned by the map; `length_scales` points to the copy of the map, `sample` is NULL
 */
BO_API const bo_features_desc *bo_features_describe(const bo_features *features);

/* ---- files ------------------------------------------------------------------------------------------------------- */

/** Writes a map to a safetensors file, which contains everything that bo_features_apply() needs.
 *
 * @param context    the context
 * @param features   the map
 * @param sink       where to write
 * @return BO_OK; BO_IO if the file cannot be written; BO_UNSUPPORTED for CUSTOM
 */
BO_API bo_status bo_features_save(bo_context *context, const bo_features *features, const bo_sink *sink);

/** Reads a map from a file.
 *
 * @param context    the context
 * @param source     the file
 * @param[out] out   the map; release it with bo_features_destroy()
 * @return BO_OK; BO_IO if the file cannot be read; BO_FORMAT if it is malformed; BO_VERSION if a newer version wrote it
 */
BO_API bo_status bo_features_load(bo_context *context, const bo_source *source, bo_features **out);

/* ==== Advanced ==================================================================================================== */

/* ---- information ------------------------------------------------------------------------------------------------- */

/** Properties of feature maps. Each needs `kernel` only, except LENGTH, which needs `function` as well. */
typedef enum bo_features_trait {
    /** `features` is free and must be set, because the map is random or consists of landmarks. Other maps determine
     * it. */
    BO_FEATURES_TRAIT_LENGTH = 0,
    /** The features grow exponentially (SOFTMAX, COSH). They come with log scales, and attention must divide by their
     * sum. */
    BO_FEATURES_TRAIT_SCALED = 1,
    BO_FEATURES_TRAIT_LEARNED =
        2, /**< the kernel is meant to follow a learned map W x + b: COSH, HEDGEHOG, RECTIFIER */
    /** k(x, y) depends on x - y only, so that a constant row may be subtracted from all rows. */
    BO_FEATURES_TRAIT_SHIFT_INVARIANT = 3
} bo_features_trait;

/** Reports whether a map has a property.
 *
 * @param desc    the map; only `kernel` and `function` are read
 * @param trait   the property
 * @return true if it does; false for values out of range
 */
BO_API bool bo_features_has(const bo_features_desc *desc, bo_features_trait trait);

/** Returns the number of frequencies.
 *
 * @param features   the map
 * @return the number of rows of w; 0 for exact maps
 */
BO_API size_t bo_features_frequencies(const bo_features *features);

/* ---- exact kernels and accuracy ---------------------------------------------------------------------------------- */

/** Computes the exact kernel matrix k(x_i, y_j).
 *
 * @param context   the context
 * @param desc      the map; its kernel, the parameters of the kernel, length scales and dim are read
 * @param rows_x    the number of rows of x
 * @param x         rows_x x dim
 * @param ldx       floats between two rows of x
 * @param rows_y    the number of rows of y
 * @param y         rows_y x dim
 * @param ldy       floats between two rows of y
 * @param[out] k    rows_x x rows_y
 * @param ldk       doubles between two rows of k
 * @return BO_OK; BO_UNSUPPORTED for CUSTOM
 */
BO_API bo_status bo_kernel_matrix(bo_context *context, const bo_features_desc *desc, size_t rows_x, const float *x,
                                  size_t ldx, size_t rows_y, const float *y, size_t ldy, double *k, size_t ldk);

/** The accuracy report: measured and predicted kernel error over random pairs of rows.
 *
 * Predictions are for independent draws. Other draws are usually more accurate, which `ratio` < 1 shows. For
 * frequencies that were chosen by the data, the prediction assumes independent choices with the same probabilities
 * among independent candidates. It is the variance of the choice, estimated from the features of the pairs, plus the
 * variance of the candidates. The actual choice is systematic, which is more accurate.
 */
typedef struct bo_features_accuracy {
    size_t pairs;         /**< number of pairs */
    double kernel_rms;    /**< root mean square of k */
    double error_rms;     /**< root mean square of φ(x)·φ(y) - k(x, y) */
    double error_mean;    /**< mean error over these pairs; for a single draw not zero, even if the map is unbiased */
    double error_max;     /**< maximum absolute error */
    double predicted_rms; /**< error_rms as the variance predicts it; 0 for exact maps; NAN if unknown */
    double ratio;         /**< error_rms / predicted_rms */
    /** features at which predicted_rms would be 1% of kernel_rms, with the same number of candidates per feature; NAN
     * if unknown */
    double features_for_1pct;
    /** Σ (k(x, x) - |φ(x)|²) / Σ k(x, x) over the pairs. For LANDMARKS it is the part of the kernel that the landmarks
     * do not span, and never negative. For other maps its mean over draws is 0. */
    double trace_error;
    uint64_t reserved[3]; /**< must be zero */
} bo_features_accuracy;

/** Measures the accuracy of a map on random pairs of given rows.
 *
 * @param context    the context
 * @param features   the map
 * @param inputs     the rows, at least one
 * @param pairs      the number of pairs; 0 means 1000
 * @param seed       the seed of the choice of pairs
 * @param[out] out   the accuracy report
 * @return BO_OK; BO_UNSUPPORTED for CUSTOM
 */
BO_API bo_status bo_features_measure(bo_context *context, const bo_features *features, const bo_inputs *inputs,
                                     size_t pairs, uint64_t seed, bo_features_accuracy *out);

/* ---- gradients --------------------------------------------------------------------------------------------------- */

/** Computes gradients from dz = dL/dφ. All outputs are overwritten.
 *
 * @param context               the context
 * @param features              the map
 * @param inputs                dense rows
 * @param dz                    gradient of the features, rows x features
 * @param lddz                  floats between two rows of dz
 * @param[out] dx               gradient of the inputs, rows x dim; or NULL
 * @param lddx                  floats between two rows of dx
 * @param[out] dlength_scales   gradient of the length scales, `dim` numbers; or NULL
 * @param[out] dfrequencies     gradient of the frequencies, frequencies x dim; or NULL
 * @return BO_OK; BO_UNSUPPORTED if the rows are sparse, if the function has no gradient (CUSTOM without
 *     `custom_backward`), or if `dfrequencies` is requested for frequencies that are not free (HADAMARD, exact maps,
 *     proposals), or `dlength_scales` for LANDMARKS
 */
BO_API bo_status bo_features_backward(bo_context *context, const bo_features *features, const bo_inputs *inputs,
                                      const float *dz, size_t lddz, float *dx, size_t lddx, float *dlength_scales,
                                      float *dfrequencies);

/* ==== Experimental ================================================================================================ */

#ifdef BO_EXPERIMENTAL

/** Returns the predicted variance of φ(x)·φ(y) for one pair and independent draws.
 *
 * @param features   the map
 * @param x          `dim` numbers
 * @param y          `dim` numbers
 * @return the variance; NAN if no formula is known
 */
BO_API double bo_features_variance(const bo_features *features, const float *x, const float *y);

/** Copies the frequencies w, as applied to x after the length scales: gamma is included.
 *
 * @param context    the context
 * @param features   the map
 * @param[out] w     frequencies x dim
 * @return BO_OK; BO_UNSUPPORTED if the map has no frequencies
 */
BO_API bo_status bo_features_get_frequencies(bo_context *context, const bo_features *features, float *w);

/** Replaces the frequencies.
 *
 * The map changes: no other thread and no other object, such as a kernel machine, may use it during the call.
 *
 * @param context            the context
 * @param[in,out] features   the map
 * @param w                  frequencies x dim, as from bo_features_get_frequencies(); copied
 * @return BO_OK; BO_UNSUPPORTED if the frequencies are not free (HADAMARD, exact maps)
 */
BO_API bo_status bo_features_set_frequencies(bo_context *context, bo_features *features, const float *w);

/** Computes φ(x) in float64 with the plain C reference, to check gradients and the fast path.
 *
 * @param context    the context
 * @param features   the map
 * @param rows       the number of rows
 * @param x          inputs, rows x dim
 * @param ldx        doubles between two rows of x
 * @param[out] z     features, rows x features
 * @param ldz        doubles between two rows of z
 * @return BO_OK; BO_UNSUPPORTED for CUSTOM
 */
BO_API bo_status bo_features_apply_f64(bo_context *context, const bo_features *features, size_t rows, const double *x,
                                       size_t ldx, double *z, size_t ldz);

#endif

#ifdef __cplusplus
}
#endif
#endif
