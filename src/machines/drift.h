/* Parts of a two-sample test, shared by drift.c, which tests whole rows, and drift_columns.c, which tests single
 * columns. */
#ifndef BO_MACHINES_DRIFT_H
#define BO_MACHINES_DRIFT_H

#include <bochner/drift.h>

/* ---- sums of the features of both sides -------------------------------------------------------------------------- */

/* Sums over rows. Invariant: gram is NULL, or size x size with Σ zzᵀ over both sides in its upper triangle. */
typedef struct bo_two_sums {
    size_t size, rows[2];
    double *sum[2];    /* size: Σ z */
    double squares[2]; /* Σ |z|² */
    double *gram;
} bo_two_sums;

bo_status bo_two_sums_create(bo_context *context, size_t size, bool gram, bo_two_sums *out);
void bo_two_sums_free(bo_two_sums *sums);
bo_status bo_two_sums_add(bo_context *context, bo_two_sums *sums, bo_drift_side side, size_t rows, const float *z,
                          size_t ldz, bool precise);
/* |mean_A - mean_B|², and the same without its bias. */
double bo_two_sums_mmd2(const bo_two_sums *sums, double *unbiased);
/* The asymptotic p-value of that distance; needs gram. */
bo_status bo_two_sums_p_value(bo_context *context, const bo_two_sums *sums, double *p_value);

/* ---- columns ----------------------------------------------------------------------------------------------------- */

/* A column of the tables. */
typedef struct bo_drift_part {
    size_t categories;      /* 0: numbers */
    double mean, deviation; /* numbers: of the sample; the deviation is positive */
    double width;           /* numbers: the root of the median squared difference of two values that differ */
    bool indicator;         /* numbers: the sample has missing values */
    size_t first;           /* column of the encoded rows */
    size_t missing[2];
    bo_two_sums sums; /* [φ, missing] of numbers, or of one-hot encoded categories */
} bo_drift_part;

/* BO_INVALID if the value is infinite or not a category. */
bo_status bo_drift_part_check(bo_context *context, const bo_drift_part *part, size_t row, size_t column, double value);
/* Fits the part to a column of the sample: rows numbers at x, with stride ldx. */
bo_status bo_drift_part_fit(bo_context *context, bo_drift_part *part, size_t column, size_t rows, const double *x,
                            size_t ldx, uint64_t seed);
/* Adds rows of a column. phi: the map of all columns of numbers; scratch: rows x (features of phi + 18) floats. */
bo_status bo_drift_part_add(bo_context *context, bo_drift_part *part, const bo_features *phi, bo_drift_side side,
                            size_t rows, const double *x, size_t ldx, float *scratch);
bo_status bo_drift_part_finish(bo_context *context, const bo_drift_part *part, bo_drift_column *out);
/* The p-value of the counts of categories (drift_categories.c). */
bo_status bo_drift_categories_p_value(bo_context *context, const bo_two_sums *sums, double *p_value);
/* Sets p_adjusted from p_value. */
bo_status bo_drift_adjust(bo_context *context, size_t count, bo_drift_column *columns);

enum { BO_DRIFT_COLUMN_FEATURES = 32 };

#endif
