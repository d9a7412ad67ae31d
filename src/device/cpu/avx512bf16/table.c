/* The table for CPUs with AVX-512, byte products (VNNI) and bfloat16 products. */
#if defined(__x86_64__)
#include "../avx512/entries.h"
#include "../tables.h"

const bo_kernels bo_kernels_avx512bf16 = {
    .isa = "avx512bf16",
    BO_AVX512_ENTRIES,
    BO_AVX512_BYTES,
    .bf16 = &bo_avx512bf16_bf16,
};
#endif
