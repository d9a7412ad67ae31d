/* A linear model of the targets by the inputs that are not target-encoded, fitted without each fold of the rows. The
 * codes of categories are means of its residuals, which are much less noisy without the effect of the other columns. */
#ifndef BO_IO_ADJUST_H
#define BO_IO_ADJUST_H

#include "schema.h"

/* Set s < folds is fitted without the rows of fold s, and set `folds` with all rows. */
typedef struct bo_adjustment {
    size_t folds, width;             /* width: numbers that are modeled, as bo_schema_code_width */
    size_t inputs, *columns;         /* columns of x that are used */
    double *origin;                  /* of inputs and targets: a row, for precision */
    double *moments;                 /* folds x (1 + inputs + width)²: sums of products of 1, inputs and targets */
    double *constant, *coefficients; /* (folds + 1) x width, (folds + 1) x width x inputs */
    double *means;                   /* (folds + 1) x width: the means of the targets */
    double *row;                     /* 1 + inputs + width numbers */
    bool started;
} bo_adjustment;

/* The places of columns must be set (bo_schema_finish). With very many inputs no model is fitted. */
bo_status bo_adjustment_create(bo_context *context, const bo_schema *schema, size_t folds, bo_adjustment *out);
void bo_adjustment_free(bo_adjustment *adjustment);
/* Adds a row of this fold: inputs x and `width` targets. */
void bo_adjustment_add(bo_adjustment *adjustment, size_t fold, const float *x, const double *targets);
bo_status bo_adjustment_solve(bo_context *context, bo_adjustment *adjustment);
/* Target k minus its prediction by the model of a set. */
double bo_adjustment_residual(const bo_adjustment *adjustment, size_t set, const float *x, double target, size_t k);

#endif
