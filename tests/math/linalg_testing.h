/* Shared by the tests of src/math: contexts for every instruction set, random matrices, naive products. */
#ifndef BO_LINALG_TESTING_H
#define BO_LINALG_TESTING_H

#include "testing.h"
#include "isas.h"
#include "math/linalg.h"

/* A context for this instruction set, or NULL if the CPU lacks it. */
static inline bo_context *test_isa_context(const char *isa, int threads)
{
    if (!bo_kernels_find(isa)) return NULL;
    bo_context_desc desc = {.threads = threads, .isa = isa};
    bo_context *context = NULL;
    assert_int_equal(bo_context_create(&desc, &context), BO_OK);
    assert_string_equal(bo_context_describe(context)->isa, isa);
    return context;
}

/* Runs `body` with `context` set, once for every instruction set of this CPU. */
#define FOR_EACH_ISA(context, threads)                                                                                 \
    for (size_t isa_ = 0; isa_ < TEST_ISAS; isa_++)                                                                    \
        for (bo_context *context = test_isa_context(test_isas[isa_], threads); context;                                \
             bo_context_destroy(context), context = NULL)

static inline float *test_floats(size_t count, uint64_t seed)
{
    float *values = malloc((count + 1) * sizeof *values);
    bo_rng rng = bo_rng_make(seed, 7);
    for (size_t i = 0; i < count; i++) values[i] = (float)bo_rng_normal(&rng);
    return values;
}

static inline double *test_doubles(size_t count, uint64_t seed)
{
    double *values = malloc((count + 1) * sizeof *values);
    bo_rng rng = bo_rng_make(seed, 8);
    for (size_t i = 0; i < count; i++) values[i] = bo_rng_normal(&rng);
    return values;
}

/* A sum of k products computed in any order, with or without FMA, in a format of unit roundoff u has an error of at
 * most k u / (1 - k u) times the sum of absolute products (Higham, Accuracy and Stability, 3.1); two more rounding
 * errors cover alpha and beta. */
static inline double sum_bound(size_t k, double u)
{
    double n = (double)(k + 3) * u;
    return n / (1.0 - n);
}

#endif
