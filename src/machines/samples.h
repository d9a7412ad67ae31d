/* Rows of inputs, training rows and their targets: samples.c. */
#ifndef BO_MACHINES_SAMPLES_H
#define BO_MACHINES_SAMPLES_H

#include <bochner/machines.h>
#include "../base/base.h"
#include "../io/sparse.h"

/* ---- inputs ------------------------------------------------------------------------------------------------------ */

/* Checked rows of inputs, dense or sparse, or a range of them. */
typedef struct bo_input_view {
    size_t rows;
    const float *x; /* NULL: sparse */
    size_t ldx;
    bo_sparse sparse;
} bo_input_view;

/* A view of the rows of a caller, which must have `dim` columns. */
bo_status bo_input_view_make(bo_context *context, const bo_inputs *inputs, size_t dim, bo_input_view *out);
/* BO_INVALID if a number of the rows [first, first + rows) is not finite. */
bo_status bo_input_view_check_finite(bo_context *context, const bo_input_view *inputs, size_t first, size_t rows,
                                     size_t dim);
/* Rows [first, first + rows) of the samples. */
bo_input_view bo_samples_inputs(const bo_samples *samples, size_t first, size_t rows);
static inline bo_input_view bo_input_view_slice(const bo_input_view *inputs, size_t first, size_t rows)
{
    if (!inputs->x) return (bo_input_view){.rows = rows, .sparse = bo_sparse_slice(&inputs->sparse, first, rows)};
    return (bo_input_view){.rows = rows, .x = inputs->x + first * inputs->ldx, .ldx = inputs->ldx};
}

/* ---- training rows ----------------------------------------------------------------------------------------------- */

bo_status bo_samples_check(bo_context *context, const bo_samples *samples);
/* Copies `count` rows of `samples`, given by `index`; bo_samples_free frees them. */
bo_status bo_samples_gather(bo_context *context, const bo_samples *samples, const size_t *index, size_t count,
                            bo_samples *out);
void bo_samples_free(bo_samples *samples);
/* Rows [first, first + rows) of the samples; nothing is copied. `view` receives the sparse rows, if they are sparse. */
bo_samples bo_samples_slice(const bo_samples *samples, size_t first, size_t rows, bo_sparse *view);
/* A seeded uniform subset of at most `count` rows. */
bo_status bo_samples_subset(bo_context *context, const bo_samples *samples, size_t count, uint64_t seed,
                            bo_samples *out);

/* Rows per block when features are computed; bounds scratch memory. */
enum { BO_MACHINE_BLOCK = BO_SIZE(2048, 8) };

/* ---- targets ----------------------------------------------------------------------------------------------------- */

/* The right-hand side of the linear system: regression targets or their logarithms, standardized by mean and deviation,
 * or ±1 for classes. */
typedef struct bo_targets {
    size_t classes, outputs;
    bool logarithms;          /* of positive targets; mean, deviation and range refer to the logarithms */
    double *mean, *deviation; /* regression, per output; NULL for classes */
    double *range;            /* regression: outputs x 2: the smallest and the largest */
    float *class_weight;      /* per class, or NULL */
} bo_targets;

bo_status bo_targets_fit(bo_context *context, const bo_machine_desc *desc, const bo_samples *samples, bo_targets *out);
void bo_targets_free(bo_targets *targets);
/* Checks that the standardized targets of all rows are in the range of float32. */
bo_status bo_targets_in_range(bo_context *context, const bo_targets *targets, const bo_samples *samples);
/* Column t of the right-hand side for a row with targets y. */
float bo_targets_value(const bo_targets *targets, const double *y, size_t t);
/* sqrt of the weight of row i: sample weight times class weight. */
float bo_targets_root_weight(const bo_targets *targets, const bo_samples *samples, size_t row);

#endif
