/* The axes of a feature map as tables: what a kernel, a function and a draw must say of themselves. A new one
 * is a file with one constant definition and one line in registry.c; checks, gradients, files and tests
 * follow from it.
 *
 * Letters. t: an input row after scaling, t_j = factor_j x_j with factor_j = 1 / length_scale_j, times √γ for
 * kernels of inner products (spectra of shift-invariant kernels carry γ themselves). u = s w·t with s the
 * function's own factor (1 but for OPRF). m: the number of frequencies. */
#ifndef BO_FEATURES_INTERNAL_H
#define BO_FEATURES_INTERNAL_H

#include <bochner/features.h>
#include <stdatomic.h>
#include "../base/base.h"
#include "../base/rng.h"
#include "../kernels/kernels.h"
#include "../math/linalg.h"
#include "block.h"
#include "propose.h"
#include "resolve.h"

/* ---- kernels --------------------------------------------------------------------------------------------------- */

/* All that a kernel or a variance needs to know of a pair. */
typedef struct bo_pair {
    double dot, norm_x, norm_y; /* t·t', |t|², |t'|² */
    double distance2;           /* |t - t'|² */
    double distance1;           /* |t - t'|₁ */
    double product, product2;   /* Π (1 + γ² (t - t')_j²), and the same of 2(t - t') */
    double plus2;               /* |t + t'|² */
    double quartic;             /* Σ t_j² t'_j² */
    double sum_x, sum_y;        /* Σ of the lifted rows: bo_form */
} bo_pair;

typedef enum bo_form {
    BO_FORM_DISTANCE, /* distance2 */
    BO_FORM_DOT,      /* dot, norm_x, norm_y */
    BO_FORM_L1,       /* distance1 */
    BO_FORM_PRODUCT,  /* product */
    BO_FORM_COSH,     /* dot, which is Σ 2 cosh(t_j + t'_j) here */
    BO_FORM_NONE,     /* no closed form */
    /* kernels that their features define: rows are lifted first (bo_lift), dot and sums are those of the lifted */
    BO_FORM_ELU,       /* elu(t) + 1 */
    BO_FORM_RECTIFIER, /* max(t, 0) */
    BO_FORM_SIGNS      /* [e^{t - top}, e^{-t - top}]: twice as long */
} bo_form;

/* The law of w. Radial: w = scale √V g with g standard normal and V > 0 independent of it (V = 1 where
 * `mixing` is NULL). Product: independent coordinates with this quantile function. */
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
    bool shift_invariant;        /* k(x, y) = k(x - y), k(x, x) = 1; otherwise √γ scales the inputs */
    bool scaled;                 /* grows exponentially: features come with log scales (block.h) */
    bool learned;                /* made to follow a learned map W x + b */
    bool of_products;            /* a function of γ x·y that attention may have for exp(s q·k): γ is its scale */
    const bo_spectrum *spectrum; /* NULL: nothing to draw */
    double (*value)(const bo_features_desc *desc, const bo_pair *pair);
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

/* What a coordinate t of a row with max |t| = top becomes: `other` is its second column where there is one, else 0.
 * Forms without a lift leave t as it is. */
double bo_lift(bo_form form, double t, double top, double *other);
static inline size_t bo_lifted_columns(bo_form form, size_t dim)
{
    return form == BO_FORM_SIGNS ? 2 * dim : dim;
}

/* Everything about a pair of raw rows. */
bo_pair bo_pair_make(const bo_features_desc *desc, const double *factor, const float *x, const float *y);
double bo_kernel_value(const bo_features_desc *desc, const bo_pair *pair);
/* k(2D) of a shift-invariant kernel: variances of trigonometric features need it. */
double bo_kernel_value_doubled(const bo_features_desc *desc, const bo_pair *pair);
/* factor[j] of `desc`, see the top of this file. */
void bo_input_factors(const bo_features_desc *desc, double *factor);

/* ---- draws ----------------------------------------------------------------------------------------------------- */

typedef struct bo_draw_request {
    const bo_features_desc *desc;
    const bo_spectrum *spectrum;
    size_t dim, count;
    uint64_t seed;
} bo_draw_request;

typedef struct bo_draw_definition {
    const char *name;
    bool needs_rotation; /* refuses product spectra */
    bool structured;     /* no free matrix: the frequencies are a fast transform */
    /* What this draw needs beyond that; `count` frequencies. NULL: nothing. */
    bo_status (*check)(bo_context *context, const bo_draw_request *request);
    /* w: count x dim. NULL for the structured draw. */
    bo_status (*draw)(bo_context *context, const bo_draw_request *request, float *w);
} bo_draw_definition;

extern const bo_draw_definition bo_draw_iid, bo_draw_orthogonal, bo_draw_hadamard, bo_draw_simplex, bo_draw_sobol,
    bo_draw_moment;

/* Asks the caller now and then, from row `first` of a long draw, whether to go on. */
bo_status bo_draw_progress(bo_context *context, const bo_draw_request *request, size_t first, size_t *asked);
/* scale √V χ_d: the norm of one frequency of a radial spectrum in d dimensions. */
double bo_radial_norm(const bo_draw_request *request, size_t dim, bo_rng *rng);
/* Rows of iid standard normals in double, row r from its own stream, so that threads may share the work. */
void bo_fill_normal(bo_context *context, const char *purpose, uint64_t seed, uint64_t first, size_t rows,
                    size_t columns, double *out);

/* ---- functions ------------------------------------------------------------------------------------------------- */

typedef struct bo_function_definition {
    const char *name;
    unsigned kernels;     /* those it estimates: bits 1u << bo_kernel */
    size_t per_frequency; /* features per frequency; 0: no frequencies */
    bool exact;           /* φ(x)·φ(y) = k(x, y), nothing random */
    bool exponential;     /* features are exp(u + offset + …): weights enter as logarithms, through the offset */
    bool nonnegative;     /* φ(x)·φ(y) is never negative */
    bool flat;            /* every frequency has the same energy whatever the data: as drawn is already optimal */
    /* Maps without frequencies: the length of φ that the descriptor implies; *features 0 means any. */
    bo_status (*count)(bo_context *context, const bo_features_desc *desc, size_t *features);
    /* What this function needs beyond the common checks; fills its defaults. NULL: nothing. */
    bo_status (*check)(bo_context *context, bo_features_desc *desc);
    /* What follows from the descriptor alone (coefficients, tables); also after loading. NULL: nothing. */
    bo_status (*derive)(bo_context *context, bo_features *features);
    /* Draws the function's own parameters (biases, hashes). NULL: none. */
    bo_status (*prepare)(bo_context *context, bo_features *features);
    /* Bytes of scratch for one worker. NULL: none. */
    size_t (*scratch)(const bo_features *features);
    /* The fast path: u stands in the first m columns of each row of z, to be overwritten by the features. x
     * is the raw input. With log_scale (scaled kernels only) the features are to be multiplied by exp(log_scale[r]), as
     * features/block.h has it; without, they are φ itself. NULL: forward_f32. */
    void (*fast)(const bo_features *features, size_t rows, const float *x, size_t ldx, float *z, size_t ldz,
                 float *log_scale);
    /* du (rows x m; maps without frequencies: dt, rows x dim) from z as `fast` left it with log scales held fixed, and
     * for scaled kernels with frequencies the factor push[r] of t_r in dt (else push is NULL). NULL: backward_f32. */
    void (*fast_backward)(const bo_features *features, size_t rows, const float *z, size_t ldz, const float *dz,
                          size_t lddz, float *du, size_t lddu, float *push);
    /* The definition, in both precisions from one source. u: rows x m, t: rows x dim. */
    void (*forward_f32)(const bo_features *features, size_t rows, const float *u, const float *t, float *z, size_t ldz,
                        void *scratch);
    void (*forward_f64)(const bo_features *features, size_t rows, const double *u, const double *t, double *z,
                        size_t ldz, void *scratch);
    /* du (rows x m) is overwritten, dt (rows x dim) is added to. */
    void (*backward_f32)(const bo_features *features, size_t rows, const float *u, const float *t, const float *dz,
                         size_t lddz, float *du, float *dt, void *scratch);
    void (*backward_f64)(const bo_features *features, size_t rows, const double *u, const double *t, const double *dz,
                         size_t lddz, double *du, double *dt, void *scratch);
    /* Variance of φ(x)·φ(y) over independent draws; NULL: none known. */
    double (*variance)(const bo_features *features, const bo_pair *pair);
    /* log of the squared norm of the features of frequency i at one input, without the 1/√m; for resampling.
     * half_norm is |t|²/2. NULL: the function cannot be resampled. */
    double (*log_energy)(const bo_features *features, size_t i, double u, double half_norm);
} bo_function_definition;

extern const bo_function_definition bo_function_sincos, bo_function_cosbias, bo_function_positive,
    bo_function_hyperbolic, bo_function_oprf, bo_function_relu, bo_function_elu, bo_function_polynomial,
    bo_function_tensorsketch, bo_function_taylor, bo_function_custom, bo_function_identity, bo_function_exponential,
    bo_function_hedgehog, bo_function_rectifier, bo_function_selftensor;

#define BO_KERNEL_BIT(kernel) (1u << (kernel))
enum {
    BO_SHIFT_INVARIANT_KERNELS = (1u << BO_KERNEL_RBF) | (1u << BO_KERNEL_LAPLACIAN) | (1u << BO_KERNEL_CAUCHY) |
                                 (1u << BO_KERNEL_MATERN12) | (1u << BO_KERNEL_MATERN32) | (1u << BO_KERNEL_MATERN52) |
                                 (1u << BO_KERNEL_RATIONAL_QUADRATIC)
};

/* ---- registry -------------------------------------------------------------------------------------------------- */

const bo_kernel_definition *bo_kernel_find(bo_kernel kernel);      /* NULL outside the enum */
const bo_function_definition *bo_function_find(bo_function which); /* NULL for DEFAULT too */
const bo_draw_definition *bo_draw_find(bo_draw draw);
/* The first function that estimates this kernel. */
bo_function bo_function_default(bo_kernel kernel);

/* ---- the object ------------------------------------------------------------------------------------------------ */

/* Three HD blocks: u = norm ∘ H D₁ H D₂ H D₃ t on t padded with zeros, H unnormalized (norms carry its size). */
typedef struct bo_hadamard {
    size_t padded, blocks; /* padded: the power of two >= dim; 0: not in use */
    float *signs;          /* blocks x 3 x padded, ±1: D₃, D₂, D₁ in the order they are applied */
    float *norms;          /* frequencies */
} bo_hadamard;

typedef struct bo_sketch bo_sketch;         /* functions/tensorsketch.c */
typedef struct bo_selftensor bo_selftensor; /* functions/selftensor.c */

/* Of products without repeats: bo_kernels.triangle. */
typedef struct bo_factors {
    double head, diagonal, other;
} bo_factors;

/* Features that are products of the features `parents`, `parents` + 1, … with t[variable], t[variable + 1], …, without
 * repeats: functions/polynomial.c. */
typedef struct bo_polynomial_run {
    uint32_t parents, children, variable;
    bo_factors factors;
} bo_polynomial_run;

/* Columns and features of maps without frequencies, whose sizes nothing in a file bears out: at most tens of megabytes. */
enum { BO_EXACT_MOST = 1 << 22 };

/* Rows that one task takes: a block of z stays in the second-level cache. */
enum { BO_BLOCK_ROWS = BO_SIZE(64, 4) };

/* Invariants: w is NULL exactly for HADAMARD and for maps without frequencies; packed exists exactly when w
 * does and holds w ∘ factor times u_scale; factor has desc.dim entries; with a proposal there are weights, made from it. */
struct bo_features {
    atomic_int other_owners; /* besides the first: bo_features_share */
    bo_features_desc desc;   /* defaults filled in */
    const bo_function_definition *function;
    const bo_kernels *kernels; /* of the context it was made with: packed is laid out for them */
    size_t frequencies;
    double input_scale;   /* √γ or 1: part of factor */
    double *factor;       /* dim */
    float *slope;         /* dim: factor u_scale, what du W is multiplied by on its way to dx */
    float *square;        /* dim: factor² */
    float *length_scales; /* dim, or NULL: all 1 */
    float *w;             /* frequencies x dim */
    bo_packed *packed;
    float *weights;  /* one per frequency, multiplies its features; NULL: all 1 */
    float *proposal; /* dim x dim: R of N(0, R Rᵀ), which w was drawn from; NULL: from the kernel's spectrum */
    float *chosen;  /* with a proposal and a choice among its candidates: the choice's part of the weights; else NULL */
    double *spread; /* dim x dim, of a proposal's variance; NULL: it is infinite */
    double log_spread; /* the same variance's factor */
    double *offset;    /* exponential functions: added to u; NULL: 0 */
    float *offset_f32;
    float *bias;    /* COSBIAS: one per frequency */
    double u_scale; /* OPRF's B, else 1 */
    double oprf_a;  /* OPRF's A, else 0 */
    double log_d;   /* OPRF's log D, else 0 */
    bo_hadamard hadamard;
    bo_sketch *sketch;
    bo_selftensor *selftensor;
    bo_polynomial_run *runs; /* POLYNOMIAL */
};

/* An object with its factors, without frequencies. */
bo_status bo_features_begin(bo_context *context, const bo_features_desc *resolved, bo_features **out);
/* What follows from w, weights and the function's parameters: offsets and the packed factor. */
bo_status bo_features_finish(bo_context *context, bo_features *features);
/* Draws frequencies (count of them: candidates may exceed those kept) and the function's parameters. */
bo_status bo_features_draw(bo_context *context, bo_features *features);
/* Data-aware choice among candidates, drawn from the proposal where there is one: replaces bo_features_draw. Leverage
 * scores look at q alone. */
bo_status bo_features_select(bo_context *context, bo_features *features, const float *proposal,
                             const bo_feature_sample *q, const bo_feature_sample *k);
/* Frequencies as a dense matrix, also for HADAMARD: frequencies x dim. */
bo_status bo_features_dense_f32(bo_context *context, const bo_features *features, float *w);
bo_status bo_features_dense_f64(bo_context *context, const bo_features *features, double *w);

/* bo_features_draw, then R w₀; proposal NULL: w₀. */
bo_status bo_proposal_draw(bo_context *context, bo_features *features, const float *proposal);
/* A copy of R, and room for the weights. */
bo_status bo_proposal_keep(bo_context *context, bo_features *features, const float *proposal);
/* What the variance of a proposal needs. */
bo_status bo_proposal_prepare(bo_context *context, bo_features *features);
/* Variance of φ(x)·φ(y) over independent draws from the proposal; x and y are raw. */
double bo_proposal_variance(const bo_features *features, const bo_pair *pair, const float *x, const float *y);
/* Logarithms of the weights that features->proposal gives the frequencies w: propose.c. */
bo_status bo_proposal_weights(bo_context *context, const bo_features *features, const double *w, double *log_weight);

bo_status bo_hadamard_prepare(bo_context *context, const bo_draw_request *request, bo_hadamard *hadamard);
/* u (stride ldu) for rows of raw x; buffer holds `padded` floats. */
void bo_hadamard_project(const bo_features *features, size_t rows, const float *x, size_t ldx, float *u, size_t ldu,
                         float *buffer);
/* dx (stride lddx) = du W, without factors and u_scale: the transposed transform. */
void bo_hadamard_project_back(const bo_features *features, size_t rows, const float *du, size_t lddu, float *dx,
                              size_t lddx, float *buffer);

/* The frequencies it stands for, into whichever of the two is not NULL. */
bo_status bo_hadamard_dense(bo_context *context, const bo_features *features, float *w, double *wide);

bo_status bo_sketch_create(bo_context *context, size_t dim, size_t features, int degree, bo_sketch **out);
void bo_sketch_destroy(bo_sketch *sketch);
int32_t *bo_sketch_hashes(bo_sketch *sketch); /* degree x (dim + 1) */
float *bo_sketch_signs(bo_sketch *sketch);    /* degree x (dim + 1) */

size_t bo_polynomial_runs(const bo_features_desc *desc); /* how many bo_polynomial_run its features are made in */

size_t bo_selftensor_count(const bo_features_desc *desc); /* floats of its matrices */
bo_status bo_selftensor_create(bo_context *context, const bo_features_desc *desc, bo_selftensor **out);
void bo_selftensor_destroy(bo_selftensor *selftensor);
float *bo_selftensor_matrices(bo_selftensor *selftensor);
void bo_selftensor_finish(bo_features *features); /* what follows from its matrices */

#endif
