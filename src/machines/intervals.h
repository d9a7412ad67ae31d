/* Prediction intervals. Errors on left-out rows are divided by a deviation s(x) that is fitted to them (deviation.c),
 * and quantiles of the ratios give intervals f(x) + s(x) q (conformal.c). */
#ifndef BO_MACHINES_INTERVALS_H
#define BO_MACHINES_INTERVALS_H

#include <bochner/base.h>

/* The deviation of output t, relative to the standard deviation of a machine with noise of equal size everywhere, is
 *
 *     log s_t(x) = Σ_k a_tk hat_k(f_t(x)) + Σ_j c_tj z_j(x),
 *
 * with piecewise linear functions hat_k of the prediction and a few of the features z of the row. Scores are errors of
 * left-out rows divided by their deviations. Invariants: all members are 0 without left-out rows; otherwise rows and
 * knots are positive, and the predictions of an output ascend. Predictions have the units of bo_machine.beta. */
typedef struct bo_intervals {
    size_t rows;         /* left-out rows */
    size_t knots;        /* per output */
    size_t columns;      /* features used in deviations */
    double *knot;        /* outputs x knots: predictions, ascending */
    double *coefficient; /* outputs x (knots + columns): a, then c */
    double *bound;       /* outputs x 2: smallest and largest log s of the left-out rows */
    double *prediction;  /* outputs x rows */
    double *score;       /* outputs x rows */
} bo_intervals;

/* log s is at most this large: exp cannot overflow. */
#define BO_DEVIATION_BOUND 50.0

void bo_intervals_free(bo_intervals *intervals);

/* The errors of one output on left-out rows. */
typedef struct bo_errors {
    size_t rows;
    const double *prediction; /* rows */
    const double *error;      /* rows: errors relative to a machine with noise of equal size */
    const double *columns;    /* rows x intervals->columns */
} bo_errors;

/* Fits s of output t into the arrays of `intervals`, which exist. `left_out` receives log s of each row without this
 * row. */
bo_status bo_deviation_fit(bo_context *context, const bo_errors *errors, size_t t, bo_intervals *intervals,
                           double *left_out);
/* log s of one row of output t, from its prediction and its columns. */
double bo_deviation_log(const bo_intervals *intervals, size_t t, double prediction, const double *columns);
/* The number of knots of a fit to this number of left-out rows. */
size_t bo_deviation_knots(size_t rows);
/* The number of features that deviations use, and the index of one of them among `features`. */
size_t bo_deviation_columns(size_t features, size_t outputs, size_t rows);
static inline size_t bo_deviation_column(size_t features, size_t columns, size_t k)
{
    return k * features / columns;
}

/* Quantiles of scores as a piecewise linear function of the prediction. */
enum { BO_MAX_WINDOWS = 16 };
typedef struct bo_quantiles {
    size_t windows;
    double center[BO_MAX_WINDOWS], low[BO_MAX_WINDOWS], high[BO_MAX_WINDOWS];
} bo_quantiles;

/* Quantiles of output t between which a new score lies with probability `level`. */
bo_status bo_quantiles_find(bo_context *context, const bo_intervals *intervals, size_t t, double level,
                            bo_quantiles *out);
/* The quantiles at a prediction. */
void bo_quantiles_at(const bo_quantiles *quantiles, double prediction, double *low, double *high);

#endif
