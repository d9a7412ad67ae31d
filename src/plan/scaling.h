/* Robust fits of loss laws L = E + A N^-α + B D^-β to few runs, and replicates for intervals. */
#ifndef BO_PLAN_SCALING_H
#define BO_PLAN_SCALING_H

#include "plan.h"

typedef struct bo_plan_scaling_point {
    double size, data, loss; /* N, D, L */
} bo_plan_scaling_point;

/* The terms of a law and the fitted exponents. */
typedef struct bo_plan_scaling_form {
    bo_plan_origin size, data; /* of the exponents; ABSENT: no term */
} bo_plan_scaling_form;

typedef struct bo_plan_scaling_law {
    double floor, size, size_power, data, data_power;
} bo_plan_scaling_law;

/* Finds the form that these points determine. False: too few points, or all points are equal. */
bool bo_plan_scaling_form_of(const bo_plan_scaling_point *points, size_t count, bo_plan_scaling_form *out);
/* Likewise, but fails with BO_INVALID and a message that states what is missing. */
bo_status bo_plan_scaling_choose(bo_context *context, const bo_plan_scaling_point *points, size_t count,
                                 bo_plan_scaling_form *out);
/* The number of fitted parameters. */
size_t bo_plan_scaling_freedom(const bo_plan_scaling_form *form);
double bo_plan_scaling_at(const bo_plan_scaling_law *law, double size, double data);

/* Fits a law. Exponents that are not fitted come from `start`. With `near`, the search starts at the exponents of
 * `start` with Huber threshold `*delta`. Otherwise it starts at several points and sets *delta. False: no solution. */
bool bo_plan_scaling_fit(const bo_plan_scaling_point *points, size_t count, const bo_plan_scaling_form *form,
                         const bo_plan_scaling_law *start, bool near, double *delta, bo_plan_scaling_law *out);

#endif
