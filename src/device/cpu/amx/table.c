/* The table for CPUs with the matrix tiles of AMX; all other functions are those of AVX-512. */
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
