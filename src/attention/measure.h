/* The weights of one query in float64, and what they make of the values: the truth that approximations are held
 * against. */
#ifndef BO_ATTENTION_MEASURE_H
#define BO_ATTENTION_MEASURE_H

#include "internal.h"

/* a_j = sign_j exp(log_j) for the keys first <= j < end: those the query sees. */
typedef struct bo_compare_weights {
    size_t first, end;
    double *log;
    const double *sign; /* NULL: all 1 */
} bo_compare_weights;

/* log Σ exp(x_i); -INFINITY for none */
double bo_log_sum(size_t count, const double *x);

/* √(error / norm) of squares; INFINITY where the norm is 0 and the error is not */
double bo_relative_error(double error, double norm);

/* log_j = scale q·k_j: softmax attention */
void bo_weights_softmax(const bo_kernels *kernels, size_t dim, double scale, const float *q, bo_rows k,
                        bo_compare_weights *w);

/* How the sum of weights becomes a denominator: see `clamp` in attention.h. A clamp of 0: there is none. */
typedef struct bo_denominator {
    bool none; /* do not divide */
    double clamp, log_unit;
} bo_denominator;

/* out (value_dim) = Σ_j a_j v_j / denominator */
void bo_weights_mix(const bo_compare_weights *w, bo_rows v, size_t value_dim, const bo_denominator *denominator,
                    double *out);

/* ---- a study of some queries ------------------------------------------------------------------------------------ */

enum {
    BO_STUDY_PAIRS = 8,             /* kernel values looked at, a query */
    BO_STUDY_TILE = BO_SIZE(16, 2), /* queries whose kernel values are held at a time */
};

/* Of one query. Pairs: logarithms, -INFINITY where there is none. */
typedef struct bo_finding {
    double softmax_error, softmax_norm, kernel_error, kernel_norm; /* squares */
    double log_kernel[BO_STUDY_PAIRS], log_error[BO_STUDY_PAIRS], log_variance[BO_STUDY_PAIRS];
    size_t pairs;
} bo_finding;

/* One comparison. */
typedef struct bo_study {
    bo_context *context;
    const bo_attention *attention;
    const bo_call *call;
    const float *out;
    size_t samples;      /* queries of each head */
    double scale;        /* of exact softmax */
    bool closed;         /* the kind's own kernel has a closed form … */
    bool matrix;         /* … other than exp(γ x·y), which is taken as its logarithm */
    size_t longest_keys; /* of a sequence */
    bo_finding *found;   /* heads x samples */
    char *scratch;       /* a workplace for each worker */
    size_t per_worker;
    float *queries; /* of a tile, after the transform: BO_STUDY_TILE x width */
    double *kernel; /* of a tile: BO_STUDY_TILE x longest_keys, where `matrix` */
} bo_study;

#endif
