/* Scaling of rows: scaler.c. */
#ifndef BO_MACHINES_SCALER_H
#define BO_MACHINES_SCALER_H

#include "../math/metric.h"
#include "samples.h"

/* s(x)_j = (x_j - mean_j) * factor_j, clamped to ±limit; factor 0 drops a constant column. QUANTILE: the normal
 * quantile of the rank of x_j among the knots of the column instead. Then the metric, if there is one, maps the row.
 *
 * Rows are first reduced by `shift`: a machine that was loaded without its schema predicts the unmodified numbers of a
 * table, but it was fitted to differences from the origins of the columns (src/io/origins.h).
 *
 * Sparse samples are fitted with kernels of differences, which do not change if s(0) is subtracted: the scaled rows are
 * s(x) - s(0), as sparse as x, and have only the columns that vary (`place`).
 *
 * Invariants: kind is not AUTO; limit >= 0; kept <= dim is the number of columns of scaled rows, the rank of the metric
 * if there is one; knots exist exactly if kind is QUANTILE; sparse rows have neither knots nor a metric; place exists
 * exactly if the scaler is for sparse rows, and has dim entries: an index below `kept`, or UINT32_MAX for a dropped
 * column. */
typedef struct bo_scaler {
    bo_scaling kind;
    size_t dim, kept;
    float *mean, *factor;
    uint32_t *place;
    double limit; /* 0: none */
    /* dim x BO_KNOTS, ascending in each column; descending: a column of two values, scaled like COLUMNS */
    float *knots;
    bo_metric metric; /* a NULL: none */
    double *origin;   /* subtracted from the numbers of the table to get the rows of the fit; NULL: not known */
    double *shift;    /* in float64, subtracted from rows before scaling; NULL: none; not used in a fit */
} bo_scaler;

enum { BO_KNOTS = 256 };
bo_status bo_scaler_fit(bo_context *context, bo_scaling kind, const bo_samples *samples, bo_scaler *out);
/* Logs which columns are constant. sampled: rows that the scaler was fitted to, of more; 0: all rows. schema: names of
 * the columns, or NULL. */
void bo_scaler_report(bo_context *context, const bo_scaler *scaler, size_t sampled, const bo_schema *schema);
/* Sets kept and place, for sparse rows or not; mean and factor must be set. */
bo_status bo_scaler_finish(bo_context *context, bool sparse, bo_scaler *scaler);
bo_status bo_scaler_copy(bo_context *context, const bo_scaler *scaler, bo_scaler *out);
/* For a file whose rows are read with `schema`, or unmodified if it is NULL. *out: the numbers to subtract from the
 * rows; NULL: none. */
bo_status bo_scaler_shift_of_file(bo_context *context, const bo_scaler *scaler, const bo_schema *schema, double **out);
/* After loading: `shift` is subtracted from rows that are read with `schema`, or NULL. Sets the origin, and for a
 * caller who does not know the schema (`raw`) the shift of rows that are read without it. */
bo_status bo_scaler_resolve(bo_context *context, const bo_schema *schema, bool raw, bo_scaler *scaler);
void bo_scaler_free(bo_scaler *scaler);
/* Replaces the metric by a copy; NULL: none. For dense rows. */
bo_status bo_scaler_set_metric(bo_context *context, bo_scaler *scaler, const bo_metric *metric);
/* Scaled rows in dense form: rows x kept. `out` may be equal to the inputs if there is no metric. */
bo_status bo_scaler_apply(bo_context *context, const bo_scaler *scaler, const bo_input_view *inputs, float *out);
/* Scaled sparse rows; released with bo_sparse_destroy. */
bo_status bo_scaler_apply_sparse(bo_context *context, const bo_scaler *scaler, const bo_sparse *x,
                                 bo_sparse_block **out);
/* A seeded subset of at most `count` rows of the samples, scaled. */
bo_status bo_samples_scaled(bo_context *context, const bo_scaler *scaler, const bo_samples *samples, size_t count,
                            uint64_t seed, bo_samples *out);

#endif
