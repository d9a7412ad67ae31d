/* Definitions of kernels, functions and draws of feature maps as tables. A new one is a file with one constant
 * definition and one line in registry.c; checks, gradients, files and tests use the definition.
 *
 * Notation. t: an input row after scaling, t_j = factor_j x_j with factor_j = 1 / length_scale_j, times √γ for kernels
 * of inner products (the spectra of shift-invariant kernels include γ). u = s w·t with s the factor of the function (1
 * except for OPRF). m: the number of frequencies. */
#ifndef BO_FEATURES_INTERNAL_H
#define BO_FEATURES_INTERNAL_H

#include <bochner/features.h>
#include <stdatomic.h>
#include "../base/base.h"
#include "../base/rng.h"
#include "../device/copies.h"
#include "../device/cpu/kernels.h"
#include "../math/linalg.h"
#include "block.h"
#include "propose.h"
#include "resolve.h"

/* ---- kernels ----------------------------------------------------------------------------------------------------- */

/* The quantities of a pair of rows that kernels and variances depend on. */
typedef struct bo_pair {
    double dot, norm_x, norm_y; /* t·t', |t|², |t'|² */
    double distance2;           /* |t - t'|² */
    double distance1;           /* |t - t'|₁ */
    double product, product2;   /* Π (1 + γ² (t - t')_j²), and the same for 2(t - t') */
    double plus2;               /* |t + t'|² */
    double quartic;             /* Σ t_j² t'_j² */
    double sum_x, sum_y;        /* sums of the lifted rows: bo_form */
} bo_pair;

/* Derivatives of a kernel with respect to members of a pair; log_product is the logarithm of `product`. */
typedef struct bo_pair_derivatives {
    double dot, norm_x, distance2, distance1, log_product, sum_x;
} bo_pair_derivatives;

typedef enum bo_form {
    BO_FORM_DISTANCE, /* distance2 */
    BO_FORM_DOT,      /* dot, norm_x, norm_y */
    BO_FORM_L1,       /* distance1 */
    BO_FORM_PRODUCT,  /* product */
    BO_FORM_COSH,     /* dot, which is Σ 2 cosh(t_j + t'_j) for this form */
    BO_FORM_BOTH,     /* dot, norm_x, norm_y, distance2 */
    BO_FORM_NONE,     /* no closed form */
    /* kernels defined by their features: rows are lifted first (bo_lift), dot and the sums refer to the lifted rows */
    BO_FORM_ELU,       /* elu(t) + 1 */
    BO_FORM_RECTIFIER, /* max(t, 0) */
    BO_FORM_SIGNS      /* [e^{t - top}, e^{-t - top}]: twice as long */
} bo_form;

/* The distribution of w. Radial: w = scale √V g with g standard normal and V > 0 independent of g (V = 1 if `mixing` is
 * NULL). Product: independent coordinates with this quantile function. */
typedef struct bo_spectrum {
    bool radial, finite_variance;
    double (*scale)(const bo_features_desc *desc);
    double (*mixing)(const bo_features_desc *desc, bo_rng *rng);
    double (*mixing_quantile)(const bo_features_desc *desc, double p);
    double (*quantile)(const bo_features_desc *desc, double p);
} bo_spectrum;

typedef struct bo_kernel_definition {
    const char *name;
    bo_form form;
    bool shift_invariant; /* k(x, y) = k(x - y), k(x, x) = 1; otherwise √γ scales the inputs */
    bool scaled;          /* grows exponentially: features have log scales (block.h) */
    bool learned;         /* meant for use after a learned map W x + b */
    /* a function of γ x·y that attention can use instead of exp(s q·k), with γ as its scale */
    bool of_products;
    const bo_spectrum *spectrum; /* NULL: nothing to draw */
    double (*value)(const bo_features_desc *desc, const bo_pair *pair);
    void (*derivatives)(const bo_features_desc *desc, const bo_pair *pair, bo_pair_derivatives *out);
} bo_kernel_definition;

extern const bo_spectrum bo_spectrum_gaussian, bo_spectrum_unit, bo_spectrum_student1, bo_spectrum_student3,
    bo_spectrum_student5, bo_spectrum_gamma_mixture, bo_spectrum_cauchy, bo_spectrum_laplace;

double bo_value_rbf(const bo_features_desc *desc, const bo_pair *pair);
double bo_value_laplacian(const bo_features_desc *desc, const bo_pair *pair);
double bo_value_cauchy(const bo_features_desc *desc, const bo_pair *pair);
double bo_value_matern12(const bo_features_desc *desc, const bo_pair *pair);
double bo_value_matern32(const bo_features_desc *desc, const bo_pair *pair);
double bo_value_matern52(const bo_features_desc *desc, const bo_pair *pair);
double bo_value_rational_quadratic(const bo_features_desc *desc, const bo_pair *pair);
double bo_value_softmax(const bo_features_desc *desc, const bo_pair *pair);
double bo_value_arccos(const bo_features_desc *desc, const bo_pair *pair);
double bo_value_polynomial(const bo_features_desc *desc, const bo_pair *pair);
double bo_value_taylor(const bo_features_desc *desc, const bo_pair *pair);
double bo_value_dot(const bo_features_desc *desc, const bo_pair *pair);
double bo_value_hedgehog(const bo_features_desc *desc, const bo_pair *pair);
double bo_value_nngp(const bo_features_desc *desc, const bo_pair *pair); /* networks.c */
double bo_value_ntk(const bo_features_desc *desc, const bo_pair *pair);

void bo_derivatives_rbf(const bo_features_desc *desc, const bo_pair *pair, bo_pair_derivatives *out);
void bo_derivatives_laplacian(const bo_features_desc *desc, const bo_pair *pair, bo_pair_derivatives *out);
void bo_derivatives_cauchy(const bo_features_desc *desc, const bo_pair *pair, bo_pair_derivatives *out);
void bo_derivatives_matern12(const bo_features_desc *desc, const bo_pair *pair, bo_pair_derivatives *out);
void bo_derivatives_matern32(const bo_features_desc *desc, const bo_pair *pair, bo_pair_derivatives *out);
void bo_derivatives_matern52(const bo_features_desc *desc, const bo_pair *pair, bo_pair_derivatives *out);
void bo_derivatives_rational_quadratic(const bo_features_desc *desc, const bo_pair *pair, bo_pair_derivatives *out);
void bo_derivatives_softmax(const bo_features_desc *desc, const bo_pair *pair, bo_pair_derivatives *out);
void bo_derivatives_arccos(const bo_features_desc *desc, const bo_pair *pair, bo_pair_derivatives *out);
void bo_derivatives_polynomial(const bo_features_desc *desc, const bo_pair *pair, bo_pair_derivatives *out);
void bo_derivatives_taylor(const bo_features_desc *desc, const bo_pair *pair, bo_pair_derivatives *out);
void bo_derivatives_dot(const bo_features_desc *desc, const bo_pair *pair, bo_pair_derivatives *out);
void bo_derivatives_hedgehog(const bo_features_desc *desc, const bo_pair *pair, bo_pair_derivatives *out);
void bo_derivatives_nngp(const bo_features_desc *desc, const bo_pair *pair, bo_pair_derivatives *out); /* networks.c */
void bo_derivatives_ntk(const bo_features_desc *desc, const bo_pair *pair, bo_pair_derivatives *out);

static inline bool bo_kernel_of_networks(bo_kernel kernel)
{
    return kernel == BO_KERNEL_NNGP || kernel == BO_KERNEL_NTK;
}

/* Lifts a coordinate t of a row with max |t| = top. `other` receives its second column if the form has one, otherwise
 * 0. Forms without a lift return t. */
double bo_lift(bo_form form, double t, double top, double *other);
static inline size_t bo_lifted_columns(bo_form form, size_t dim)
{
    return form == BO_FORM_SIGNS ? 2 * dim : dim;
}
static inline bool bo_form_is_lifted(bo_form form)
{
    return form == BO_FORM_ELU || form == BO_FORM_RECTIFIER || form == BO_FORM_SIGNS;
}
/* True if inner products of (lifted) rows, their norms and sums are computed first; the other kernels need pairs of
 * rows. */
static inline bool bo_form_of_products(bo_form form)
{
    return form == BO_FORM_DOT || form == BO_FORM_BOTH || bo_form_is_lifted(form);
}

/* Adds a coordinate of two scaled rows, given with its difference and the largest absolute values of the rows, to the
 * quantities of the pair. The products start at 1. */
void bo_pair_add(bo_pair *pair, bo_form form, double gamma, double x, double y, double difference, double top_x,
                 double top_y);
/* Computes all quantities of a pair of raw rows. */
bo_pair bo_pair_make(const bo_features_desc *desc, const double *factor, const float *x, const float *y);
double bo_kernel_value(const bo_features_desc *desc, const bo_pair *pair);
/* Returns a shift-invariant kernel as a function of a distance, and that distance, for compute kernels: kernel_block.c.
 * The weights of PRODUCT include γ². */
bo_radial bo_kernel_radial(const bo_features_desc *desc);
bo_distance bo_form_distance(bo_form form);
/* Returns the derivatives of the kernel: derivatives.c. */
bo_pair_derivatives bo_kernel_derivatives(const bo_features_desc *desc, const bo_pair *pair);
/* Returns ∂k/∂t_j for a coordinate x = t_j of the first row and y of the second, with the arguments of bo_pair_add. */
double bo_derivative_along(const bo_pair_derivatives *derivatives, bo_form form, double gamma, double x, double y,
                           double top_x, double top_y);
/* Returns k(2D) of a shift-invariant kernel; variances of trigonometric features use it. */
double bo_kernel_value_doubled(const bo_features_desc *desc, const bo_pair *pair);
/* Computes factor[j] of `desc`, defined at the top of this file. */
void bo_input_factors(const bo_features_desc *desc, double *factor);

/* ---- draws ------------------------------------------------------------------------------------------------------- */

typedef struct bo_draw_request {
    const bo_features_desc *desc;
    const bo_spectrum *spectrum;
    size_t dim, count;
    uint64_t seed;
} bo_draw_request;

typedef struct bo_draw_definition {
    const char *name;
    bool needs_rotation; /* product spectra are refused */
    bool structured;     /* no dense matrix: the frequencies are a fast transform */
    /* Checks the additional requirements of this draw for `count` frequencies. NULL: there are none. */
    bo_status (*check)(bo_context *context, const bo_draw_request *request);
    /* Draws w: count x dim. NULL for the structured draw. */
    bo_status (*draw)(bo_context *context, const bo_draw_request *request, float *w);
} bo_draw_definition;

extern const bo_draw_definition bo_draw_iid, bo_draw_orthogonal, bo_draw_hadamard, bo_draw_simplex, bo_draw_sobol,
    bo_draw_moment;

/* Calls the caller's progress callback from time to time, at row `first` of a long draw. Returns an error if the caller
 * cancels. */
bo_status bo_draw_progress(bo_context *context, const bo_draw_request *request, size_t first, size_t *last_report);
/* Returns scale √V χ_d: the norm of one frequency of a radial spectrum in d dimensions. */
double bo_radial_norm(const bo_draw_request *request, size_t dim, bo_rng *rng);
/* Fills rows with iid standard normals in double. Each row has a separate random stream, so that threads can share the
 * work. */
void bo_fill_normal(bo_context *context, const char *purpose, uint64_t seed, uint64_t first, size_t rows,
                    size_t columns, double *out);

/* ---- functions --------------------------------------------------------------------------------------------------- */

typedef struct bo_function_definition {
    const char *name;
    unsigned kernels;     /* the kernels it estimates: bits 1u << bo_kernel */
    size_t per_frequency; /* features per frequency; 0: no frequencies */
    bool exact;           /* φ(x)·φ(y) = k(x, y), without randomness */
    bool exponential;     /* features are exp(u + offset + …): weights enter the offset as logarithms */
    bool nonnegative;     /* φ(x)·φ(y) is never negative */
    bool flat;            /* r [cos u, sin u] / √m, r the same for all frequencies: resampling gains little */
    /* For maps without frequencies: sets the length of φ that the descriptor implies; *features = 0 means any
     * length. */
    bo_status (*count)(bo_context *context, const bo_features_desc *desc, size_t *features);
    /* Checks the additional requirements of this function and fills in its defaults. NULL: there are none. */
    bo_status (*check)(bo_context *context, bo_features_desc *desc);
    /* Computes what depends only on the descriptor (coefficients, tables); also called after loading. NULL: nothing. */
    bo_status (*derive)(bo_context *context, bo_features *features);
    /* Draws the parameters of the function (biases, hashes). NULL: it has none. */
    bo_status (*prepare)(bo_context *context, bo_features *features);
    /* Returns the bytes of scratch memory per worker. NULL: none. */
    size_t (*scratch)(const bo_features *features);
    /* The fast path: the first m columns of each row of z contain u and are overwritten by the features. x is the raw
     * input. With log_scale (scaled kernels only) the features are to be multiplied by exp(log_scale[r]), as in
     * features/block.h; without it they are φ. NULL: forward_f32 is used. */
    void (*fast)(const bo_features *features, size_t rows, const float *x, size_t ldx, float *z, size_t ldz,
                 float *log_scale);
    /* Computes du (rows x m; for maps without frequencies dt, rows x dim) from the z of `fast` with log scales held
     * fixed, and, for scaled kernels with frequencies, the factor push[r] of t_r in dt (otherwise push is NULL). NULL:
     * backward_f32 is used. */
    void (*fast_backward)(const bo_features *features, size_t rows, const float *z, size_t ldz, const float *dz,
                          size_t lddz, float *du, size_t lddu, float *push);
    /* The reference implementation, in both precisions from one source. u: rows x m, t: rows x dim. */
    void (*forward_f32)(const bo_features *features, size_t rows, const float *u, const float *t, float *z, size_t ldz,
                        void *scratch);
    void (*forward_f64)(const bo_features *features, size_t rows, const double *u, const double *t, double *z,
                        size_t ldz, void *scratch);
    /* Overwrites du (rows x m) and adds to dt (rows x dim). */
    void (*backward_f32)(const bo_features *features, size_t rows, const float *u, const float *t, const float *dz,
                         size_t lddz, float *du, float *dt, void *scratch);
    void (*backward_f64)(const bo_features *features, size_t rows, const double *u, const double *t, const double *dz,
                         size_t lddz, double *du, double *dt, void *scratch);
    /* The reference of `fast` with log scales and of `fast_backward`, for one row in double. NULL: the function has no
     * log scales. */
    void (*scaled_f64)(const bo_features *features, const double *u, const double *t, double *z, double *log_scale);
    void (*scaled_backward_f64)(const bo_features *features, const double *z, const double *dz, double *du,
                                double *push);
    /* Returns the variance of φ(x)·φ(y) over independent draws. NULL: no formula is known. */
    double (*variance)(const bo_features *features, const bo_pair *pair);
    /* Returns the logarithm of a product of two features of frequency i at one input, without the factor 1/√m, for
     * resampling: the square of the first, the square of the second, the first times the second (product_index = 0, 1,
     * 2; with one feature per frequency only 0). half_norm is |t|²/2. NULL: the function cannot be resampled. */
    double (*log_product)(const bo_features *features, size_t i, int product_index, double u, double half_norm);
} bo_function_definition;

extern const bo_function_definition bo_function_sincos, bo_function_cosbias, bo_function_positive,
    bo_function_hyperbolic, bo_function_oprf, bo_function_relu, bo_function_elu, bo_function_polynomial,
    bo_function_tensorsketch, bo_function_taylor, bo_function_custom, bo_function_identity, bo_function_exponential,
    bo_function_hedgehog, bo_function_rectifier, bo_function_selftensor, bo_function_network, bo_function_sections,
    bo_function_landmarks;

#define BO_KERNEL_BIT(kernel) (1u << (kernel))
enum {
    BO_SHIFT_INVARIANT_KERNELS = (1u << BO_KERNEL_RBF) | (1u << BO_KERNEL_LAPLACIAN) | (1u << BO_KERNEL_CAUCHY) |
        (1u << BO_KERNEL_MATERN12) | (1u << BO_KERNEL_MATERN32) | (1u << BO_KERNEL_MATERN52) |
        (1u << BO_KERNEL_RATIONAL_QUADRATIC),
    BO_CLOSED_KERNELS = ((1u << BO_KERNEL_COUNT) - 1) & ~(1u << BO_KERNEL_CUSTOM)
};

/* ---- registry ---------------------------------------------------------------------------------------------------- */

const bo_kernel_definition *bo_kernel_find(bo_kernel kernel);         /* NULL outside the enum */
const bo_function_definition *bo_function_find(bo_function function); /* NULL also for DEFAULT */
const bo_draw_definition *bo_draw_find(bo_draw draw);
/* Returns the first function that estimates this kernel. */
bo_function bo_function_default(bo_kernel kernel);

/* ---- the object -------------------------------------------------------------------------------------------------- */

/* Three HD blocks: u = norm ∘ H D₁ H D₂ H D₃ t with t padded by zeros. H is not normalized; the norms include its
 * scale. */
typedef struct bo_hadamard {
    size_t padded, blocks; /* padded: the smallest power of two >= dim; 0: not in use */
    float *signs;          /* blocks x 3 x padded, ±1: D₃, D₂, D₁ in the order they are applied */
    float *norms;          /* one per frequency */
} bo_hadamard;

typedef struct bo_sketch bo_sketch;                 /* functions/tensorsketch.c */
typedef struct bo_selftensor bo_selftensor;         /* functions/selftensor.c */
typedef struct bo_random_network bo_random_network; /* functions/network.c */

/* Landmarks of the Nyström method: landmarks.c. Invariant: panels exist exactly if `lower` does. */
typedef struct bo_landmarks {
    size_t count;       /* at most desc.features */
    float *rows;        /* count x dim, raw */
    float *lower;       /* W, a lower triangle in packed rows; NULL: the features are the kernel values */
    float *t;           /* count x lifted columns: scaled and lifted rows */
    double *norm;       /* norms of t, then sums of t */
    bo_packed *packed;  /* t, for forms of products */
    float *pairs;       /* t in panels of BO_PAIR_ROWS rows (device/cpu/pairs.h), for shift-invariant kernels */
    float *weight;      /* dim: weights of the coordinates of a pair; NULL: all 1 */
    bo_packed **panels; /* BO_LANDMARK_PANEL rows of W each, with the columns up to the diagonal */
} bo_landmarks;

enum { BO_LANDMARK_PANEL = BO_SIZE(256, 5) };

/* Factors of products without repeats: bo_kernels.triangle. */
typedef struct bo_factors {
    double head, diagonal, other;
} bo_factors;

/* Features that are products of the features `parents`, `parents` + 1, … with t[variable], t[variable + 1], …, without
 * repeats: functions/polynomial.c. */
typedef struct bo_polynomial_run {
    uint32_t parents, children, variable;
    bo_factors factors;
} bo_polynomial_run;

/* Maximum columns and features of maps without frequencies. A file has no arrays that confirm these sizes, so they are
 * limited to tens of megabytes. */
enum { BO_EXACT_MAX_SIZE = 1 << 22 };

/* Maximum number of hidden layers of nngp and ntk. */
enum { BO_DEEPEST = 16 };

/* Rows per task: a block of z stays in the second-level cache. */
enum { BO_BLOCK_ROWS = BO_SIZE(64, 4) };

/* Invariants: w is NULL exactly for HADAMARD and for maps without frequencies; packed exists exactly if w does and
 * desc.sparse is false, and holds w ∘ factor times u_scale; factor has desc.dim entries; a map with a proposal has
 * weights computed from it. */
struct bo_features {
    atomic_int other_owners; /* number of owners besides the first: bo_features_share */
    bo_features_desc desc;   /* defaults filled in */
    const bo_function_definition *function;
    const bo_kernels *kernels; /* of the context that created the map; the layout of packed depends on them */
    size_t frequencies;
    double input_scale;   /* √γ or 1; included in factor */
    double *factor;       /* dim */
    float *slope;         /* dim: factor times u_scale, the factor of du W in dx */
    float *square;        /* dim: factor² */
    float *length_scales; /* dim, or NULL: all 1 */
    float *w;             /* frequencies x dim */
    bo_packed *packed;
    bo_precision precision; /* of the product with the frequencies, and of its gradient */
    float *weights;         /* one per frequency, multiplies its features; NULL: all 1 */
    /* dim x dim: R of the distribution N(0, R Rᵀ) that w was drawn from; NULL: the kernel's spectrum */
    float *proposal;
    /* with a proposal and a choice among its candidates: the part of the weights due to the choice; else NULL */
    float *chosen;
    double *spread;    /* dim x dim, the matrix in the variance of a proposal; NULL: the variance is infinite */
    double log_spread; /* logarithm of the factor in the same variance */
    double *offset;    /* exponential functions: added to u; NULL: 0 */
    float *offset_f32;
    float *bias;    /* COSBIAS: one per frequency */
    double u_scale; /* B of OPRF, otherwise 1 */
    double oprf_a;  /* A of OPRF, otherwise 0 */
    double log_d;   /* log D of OPRF, otherwise 0 */
    bo_hadamard hadamard;
    bo_sketch *sketch;
    bo_selftensor *selftensor;
    bo_random_network *network;
    bo_landmarks *landmarks;
    bo_polynomial_run *runs;  /* for POLYNOMIAL */
    uint64_t version;         /* changes with the numbers of the map */
    bo_device_copies *copies; /* of these numbers, on GPUs */
};

/* Creates an object with its factors but without frequencies. */
bo_status bo_features_begin(bo_context *context, const bo_features_desc *resolved, bo_features **out);
/* Computes what depends on w, weights and the function's parameters: offsets and the packed factor. */
bo_status bo_features_finish(bo_context *context, bo_features *features);
/* Draws `count` frequencies (candidates may exceed those kept) and the function's parameters. */
bo_status bo_features_draw(bo_context *context, bo_features *features);
/* Chooses among candidates by data, in place of bo_features_draw; candidates are drawn from the proposal if there is
 * one. Leverage scores use only q. */
bo_status bo_features_select(bo_context *context, bo_features *features, const float *proposal,
                             const bo_feature_sample *q, const bo_feature_sample *k);
/* Writes the frequencies as a dense matrix, frequencies x dim, also for HADAMARD; block.h has the float64 variant. */
bo_status bo_features_dense_f32(bo_context *context, const bo_features *features, float *w);

/* Calls bo_features_draw, then multiplies: w = R w₀. proposal NULL: w = w₀. */
bo_status bo_proposal_draw(bo_context *context, bo_features *features, const float *proposal);
/* Copies R and allocates the weights. */
bo_status bo_proposal_keep(bo_context *context, bo_features *features, const float *proposal);
/* Computes the quantities in the variance of a proposal. */
bo_status bo_proposal_prepare(bo_context *context, bo_features *features);
/* Returns the variance of φ(x)·φ(y) over independent draws from the proposal; x and y are raw. */
double bo_proposal_variance(const bo_features *features, const bo_pair *pair, const float *x, const float *y);
/* Computes the logarithms of the weights that features->proposal gives the frequencies w: propose.c. */
bo_status bo_proposal_weights(bo_context *context, const bo_features *features, const double *w, double *log_weight);

bo_status bo_hadamard_prepare(bo_context *context, const bo_draw_request *request, bo_hadamard *hadamard);
/* Computes u (stride ldu) for rows of raw x; buffer holds `padded` floats. */
void bo_hadamard_project(const bo_features *features, size_t rows, const float *x, size_t ldx, float *u, size_t ldu,
                         float *buffer);
/* Computes dx (stride lddx) = du W by the transposed transform, without factors and u_scale. */
void bo_hadamard_project_back(const bo_features *features, size_t rows, const float *du, size_t lddu, float *dx,
                              size_t lddx, float *buffer);

/* Writes the equivalent dense frequencies to each output that is not NULL. */
bo_status bo_hadamard_dense(bo_context *context, const bo_features *features, float *w, double *wide);

bo_status bo_sketch_create(bo_context *context, size_t dim, size_t features, int degree, bo_sketch **out);
void bo_sketch_destroy(bo_sketch *sketch);
int32_t *bo_sketch_hashes(bo_sketch *sketch); /* degree x (dim + 1) */
float *bo_sketch_signs(bo_sketch *sketch);    /* degree x (dim + 1) */

size_t bo_polynomial_runs(const bo_features_desc *desc); /* number of bo_polynomial_run of the features */

size_t bo_selftensor_count(const bo_features_desc *desc); /* number of floats in its matrices */
bo_status bo_selftensor_create(bo_context *context, const bo_features_desc *desc, bo_selftensor **out);
void bo_selftensor_destroy(bo_selftensor *selftensor);
float *bo_selftensor_matrices(bo_selftensor *selftensor);
void bo_selftensor_finish(bo_features *features); /* computes what depends on its matrices */

size_t bo_random_network_count(const bo_features_desc *desc); /* number of floats in its matrices */
size_t bo_random_network_bytes(const bo_features_desc *desc); /* of all that it holds */
bo_status bo_random_network_create(bo_context *context, const bo_features_desc *desc, bo_random_network **out);
void bo_random_network_destroy(bo_random_network *network);
float *bo_random_network_matrices(bo_random_network *network);
bo_status bo_random_network_finish(bo_context *context,
                                   bo_features *features); /* computes what depends on its matrices */

/* Chooses the landmarks from the sample and factorizes their kernel matrix. */
bo_status bo_landmarks_prepare(bo_context *context, bo_features *features);
/* Allocates rows and, if `whitened`, the factor. */
bo_status bo_landmarks_create(bo_context *context, const bo_features_desc *desc, size_t count, bool whitened,
                              bo_landmarks **out);
void bo_landmarks_destroy(bo_landmarks *landmarks);
size_t bo_landmarks_bytes(const bo_features_desc *desc);                   /* of all that the map holds */
bo_status bo_landmarks_finish(bo_context *context, bo_features *features); /* computes what depends on the rows and W */
/* Lifts a scaled row, and computes the norm and the sum of the lifted row. out has bo_lifted_columns and may be t. */
void bo_landmark_lift(bo_form form, size_t dim, const float *t, float *out, double *norm, double *sum);

#endif
