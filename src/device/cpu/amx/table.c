/* The table for CPUs with AMX tiles; all other functions are the AVX-512 versions. */
#if defined(__x86_64__)
#include "../avx512/entries.h"
#include "../tables.h"

const bo_kernels bo_kernels_amx = {
    .isa = "amx",
    BO_AVX512_ENTRIES,
    BO_AVX512_BYTES,
    .bf16 = &bo_amx_bf16,
};
#endif
