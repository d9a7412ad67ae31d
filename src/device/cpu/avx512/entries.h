/* The functions of this directory as members of a table (bo_kernels), for the instruction sets that extend AVX-512. */
#ifndef BO_KERNELS_AVX512_ENTRIES_H
#define BO_KERNELS_AVX512_ENTRIES_H

#include "../entries.h"
#include "avx512.h"

#define ISA(name) bo_avx512_##name

#define BO_AVX512_ENTRIES                                                                                              \
    .gemm = {.mr = BO_AVX512_MR, .nr = BO_AVX512_NR, .f32 = bo_avx512_gemm_f32, .f32_f64 = bo_avx512_gemm_f32_f64},    \
    .gemm64 = {.mr = BO_AVX512_MR, .nr = BO_AVX512_NR64, .f64 = bo_avx512_gemm_f64}, BO_KERNEL_FUNCTIONS,              \
    .channels = &bo_avx512_channels,                                                                                   \
    .fft = &bo_avx2_fft /* wider vectors are not faster, because strides start at 4 */

/* GEMM of bytes, widened to int16. */
#define BO_AVX512_GRAM8_INT16                                                                                          \
    .dots_s4 = bo_avx512_dots_s4, .gram8 = {.mr = BO_AVX512_MR,                                                        \
                                            .nr = BO_AVX512_NR,                                                        \
                                            .group = 2,                                                                \
                                            .element = 2,                                                              \
                                            .pack_a = bo_avx512_gram8_int16_pack_a,                                    \
                                            .pack_b = bo_avx512_gram8_int16_pack_b,                                    \
                                            .multiply = bo_avx512_gram8_int16}

/* Products of bytes (VNNI). */
#define BO_AVX512_BYTES                                                                                                \
    .dots_s4 = bo_avx512_dots_s4_bytes, .gram8 = {.mr = BO_AVX512_MR,                                                  \
                                                  .nr = BO_AVX512_NR,                                                  \
                                                  .group = 4,                                                          \
                                                  .element = 1,                                                        \
                                                  .pack_a = bo_avx512_gram8_bytes_pack_a,                              \
                                                  .pack_b = bo_avx512_gram8_bytes_pack_b,                              \
                                                  .multiply = bo_avx512_gram8_bytes}

#endif
