/* The weights and outputs of one query in float64: the reference for approximations. */
#ifndef BO_ATTENTION_MEASURE_H
#define BO_ATTENTION_MEASURE_H

#include "internal.h"

/* a_j = sign_j exp(log_j) for the keys first <= j < end that the query sees. */
typedef struct bo_compare_weights {
    size_t first, end;
    double *log;
    const double *sign; /* NULL: all 1 */
} bo_compare_weights;

/* Returns log Σ exp(x_i); -INFINITY if count is 0. */
double bo_log_sum(size_t count, const double *x);

/* Returns √(error / norm) of squares; INFINITY if the norm is 0 and the error is not. */
double bo_relative_error(double error, double norm);

/* Computes log_j = scale q·k_j: softmax attention. */
void bo_weights_softmax(const bo_kernels *kernels, size_t dim, double scale, const float *q, bo_rows k,
                        bo_compare_weights *w);

/* The computation of the denominator from the sum of weights: see `clamp` in attention.h. clamp 0: no clamp. */
typedef struct bo_denominator {
    bool none; /* no division */
    double clamp, log_unit;
} bo_denominator;

/* Computes out (value_dim) = Σ_j a_j v_j / denominator. */
void bo_weights_mix(const bo_compare_weights *w, bo_rows v, size_t value_dim, const bo_denominator *denominator,
                    double *out);

/* ---- a study of some queries ------------------------------------------------------------------------------------- */

enum {
    BO_STUDY_PAIRS = 8,             /* kernel values examined per query */
    BO_STUDY_TILE = BO_SIZE(16, 2), /* queries per tile of kernel values */
};

/* The result of one query. Pairs: logarithms, -INFINITY if the pair does not exist. */
typedef struct bo_query_result {
    double softmax_error, softmax_norm, kernel_error, kernel_norm; /* squares */
    double log_kernel[BO_STUDY_PAIRS], log_error[BO_STUDY_PAIRS], log_variance[BO_STUDY_PAIRS];
    size_t pairs;
} bo_query_result;

/* One comparison of an attention with its references. */
typedef struct bo_study {
    bo_context *context;
    const bo_attention *attention;
    const bo_call *call;
    const float *out;
    size_t samples;         /* queries per head */
    double scale;           /* scale of softmax attention */
    bool closed;            /* the kernel of the kind has a closed form */
    bool matrix;            /* the closed form is not exp(γ x·y), whose logarithm is computed directly */
    size_t longest_keys;    /* keys of the longest sequence */
    bo_query_result *found; /* heads x samples */
    char *scratch;          /* one `workplace` per worker */
    size_t per_worker;
    float *queries; /* queries of a tile after the transform: BO_STUDY_TILE x width */
    double *kernel; /* kernel values of a tile: BO_STUDY_TILE x longest_keys, if `matrix` */
} bo_study;

#endif
