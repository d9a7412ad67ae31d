/* The model of step times used by `bochner plan`: linear in a few counts of a model. */
#ifndef BO_LAB_TOOLS_TIME_TERMS_H
#define BO_LAB_TOOLS_TIME_TERMS_H

#include "../measurement.h"
#include <bochner/plan.h>

void lab_plan_terms(const bo_plan_counts *counts, double terms[BO_PLAN_TERM_COUNT]);
/* Nonnegative costs that minimize |A x - y|², for the terms whose bits are set; other costs are 0. Returns false if the
 * rows do not determine them. */
bool lab_plan_least_squares(size_t rows, const double (*a)[BO_PLAN_TERM_COUNT], const double *y, unsigned terms,
                            double x[BO_PLAN_TERM_COUNT]);

#endif
