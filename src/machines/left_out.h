/* Left-out predictions of training rows: leave_one_out.c. */
#ifndef BO_MACHINES_LEFT_OUT_H
#define BO_MACHINES_LEFT_OUT_H

#include "row_map.h"

/* Leave-one-out predictions and leverages of `rows` training rows. */
typedef struct bo_left_out {
    size_t rows, outputs;
    double *prediction; /* rows x outputs, for standardized targets */
    double *truth;      /* rows x outputs */
    double *leverage;   /* rows: h_ii */
    double *weight;     /* rows: sample weight times class weight */
    int *label;         /* rows: class, or NULL */
    /* Σ w of the rows of the fit, if these rows are among them and it has an intercept; otherwise 0. Leaving a row out
     * of the mean of the targets moves its prediction away from its target, by this share of its error. */
    double fit_weight;
    double inflation; /* errors were multiplied by it (bo_left_out_inflate) */
    size_t columns_count;
    double *columns; /* rows x columns_count: a few features, for deviations; or NULL */
} bo_left_out;

bo_status bo_left_out_create(bo_context *context, size_t rows, size_t outputs, bool labels, bo_left_out *out);
void bo_left_out_free(bo_left_out *left_out);
/* Multiplies all errors. */
void bo_left_out_inflate(bo_left_out *left_out, double factor);
/* Adds the columns of regression rows, in their order, for deviations: conformal.c. */
bo_status bo_left_out_columns(bo_context *context, const bo_row_map *row_map, const bo_samples *samples,
                              bo_left_out *left_out);
/* Mean log loss of classes from left-out scores, calibrated on the same rows. */
bo_status bo_left_out_log_loss(bo_context *context, const bo_left_out *left_out, double *loss);

/* Rows of a block. */
enum { BO_LEFT_OUT_BLOCK = 1024 };

#endif
