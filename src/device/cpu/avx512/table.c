/* The tables for CPUs with AVX-512, with and without byte products (VNNI); all other entries are equal. */
#if defined(__x86_64__)
#include "../tables.h"
#include "entries.h"

const bo_kernels bo_kernels_avx512 = {
    .isa = "avx512",
    BO_AVX512_ENTRIES,
    BO_AVX512_GRAM8_INT16,
    .bf16 = &bo_avx512_bf16,
};

const bo_kernels bo_kernels_avx512_vnni = {
    .isa = "avx512",
    BO_AVX512_ENTRIES,
    BO_AVX512_BYTES,
    .bf16 = &bo_avx512_bf16,
};
#endif
