#include "time_terms.h"
#include "../../src/plan/plan.h"

void lab_plan_terms(const bo_plan_counts *counts, double terms[BO_PLAN_TERM_COUNT])
{
    bo_plan_terms_of(counts, terms);
}

bool lab_plan_least_squares(size_t rows, const double (*a)[BO_PLAN_TERM_COUNT], const double *y, unsigned terms,
                            double x[BO_PLAN_TERM_COUNT])
{
    return bo_plan_least_squares(rows, a, y, terms, x);
}
