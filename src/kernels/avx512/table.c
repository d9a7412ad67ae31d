/* The tables for CPUs with AVX-512, with byte products (VNNI) and without; otherwise they are equal. */
#if defined(__x86_64__)
#include "../entries.h"
#include "../tables.h"
#include "avx512.h"

#define ISA(name) bo_avx512_##name

#define SHARED                                                                                                         \
    .isa = "avx512",                                                                                                   \
    .gemm = {.mr = BO_AVX512_MR, .nr = BO_AVX512_NR, .f32 = bo_avx512_gemm_f32, .f32_f64 = bo_avx512_gemm_f32_f64},    \
    .gemm64 = {.mr = BO_AVX512_MR, .nr = BO_AVX512_NR64, .f64 = bo_avx512_gemm_f64}, BO_KERNEL_FUNCTIONS,              \
    .fft = &bo_avx2_fft /* wider vectors are not faster, because strides start at 4 */

const bo_kernels bo_kernels_avx512 = {
    SHARED,
    .dots_s4 = bo_avx512_dots_s4,
    .channels = &bo_avx512_channels,
    .gram8 = {.mr = BO_AVX512_MR,
              .nr = BO_AVX512_NR,
              .group = 2,
              .element = 2,
              .pack_a = bo_avx512_gram8_words_pack_a,
              .pack_b = bo_avx512_gram8_words_pack_b,
              .multiply = bo_avx512_gram8_words},
};

const bo_kernels bo_kernels_avx512_vnni = {
    SHARED,
    .dots_s4 = bo_avx512_dots_s4_bytes,
    .channels = &bo_avx512_channels,
    .gram8 = {.mr = BO_AVX512_MR,
              .nr = BO_AVX512_NR,
              .group = 4,
              .element = 1,
              .pack_a = bo_avx512_gram8_bytes_pack_a,
              .pack_b = bo_avx512_gram8_bytes_pack_b,
              .multiply = bo_avx512_gram8_bytes},
};
#endif
