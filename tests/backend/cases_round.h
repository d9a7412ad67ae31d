/* Test cases of rounding. The gradient passes unchanged; rounding of gradients is tested in test_ops_round.c. */
#ifndef BO_TEST_BACKEND_CASES_ROUND_H
#define BO_TEST_BACKEND_CASES_ROUND_H

#include "cases.h"

static inline void cases_round(op_visitor visit, void *user)
{
    /* where formats are normal, subnormal, at their maximum */
    static const double sizes[] = {1, 1e-3, 1e-5, 300, 40000};
    char name[128];
    for (size_t n = 0; n <= CASE_SIZES; n++)
        for (size_t kind = 0; kind < BO_SMALL_FLOAT_COUNT; kind++)
            for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
                bo_round_attributes attributes = {.value = (bo_small_float)kind};
                size_t rows = n < CASE_SIZES ? case_sizes[n][0] : 163,
                       columns = n < CASE_SIZES ? case_sizes[n][1] : 109;
                op_case c = {.name =
                                 CASE_NAME("round %zu x %zu of size %g to format %zu", rows, columns, sizes[s], kind),
                             .op = BO_OPERATION_ROUND,
                             .attributes = &attributes,
                             .inputs = 1,
                             .in = {{.rows = rows, .columns = columns, .a = sizes[s]}},
                             .exact = true,
                             .large = n == CASE_SIZES,
                             .step = 1e-3 * sizes[s],
                             .seed = n};
                if (n == CASE_SIZES && s > 0) continue; /* all sizes are divided among threads in the same way */
                visit(user, &c);
            }
}

#endif
