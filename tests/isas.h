/* The instruction sets of this architecture, for tests that iterate over them; a CPU may lack some. */
#ifndef BO_TEST_ISAS_H
#define BO_TEST_ISAS_H

#include "kernels/kernels.h"

static const char *const test_isas[] = {
    "ref",
#if defined(__x86_64__)
    "avx2",
    "avx512",
#elif defined(__aarch64__)
    "neon",
#endif
};
enum { TEST_ISAS = sizeof test_isas / sizeof *test_isas };

#define FOR_EACH_TABLE(table)                                                                                          \
    for (size_t isa_ = 0; isa_ < TEST_ISAS; isa_++)                                                                    \
        for (const bo_kernels *table = bo_kernels_find(test_isas[isa_]); table; table = NULL)

#endif
