/* The instruction sets of this architecture, for tests that iterate over them; a CPU may lack some. */
#ifndef BO_TEST_ISAS_H
#define BO_TEST_ISAS_H

#include "device/cpu/kernels.h"

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

/* Instruction sets that differ from avx512 only in products of bfloat16 numbers (device/cpu/bf16.h), which have
 * separate tests. */
static const char *const test_bf16_isas[] = {"ref", "avx2", "avx512", "avx512bf16", "amx", "neon"};
enum { TEST_BF16_ISAS = sizeof test_bf16_isas / sizeof *test_bf16_isas };

#define FOR_EACH_BF16_TABLE(table)                                                                                     \
    for (size_t isa_ = 0; isa_ < TEST_BF16_ISAS; isa_++)                                                               \
        for (const bo_kernels *table = bo_kernels_find(test_bf16_isas[isa_]); table; table = NULL)

#define FOR_EACH_TABLE(table)                                                                                          \
    for (size_t isa_ = 0; isa_ < TEST_ISAS; isa_++)                                                                    \
        for (const bo_kernels *table = bo_kernels_find(test_isas[isa_]); table; table = NULL)

#endif
