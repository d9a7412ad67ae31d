/* The table for CPUs with AVX2 and FMA. */
#if defined(__x86_64__)
#include "../entries.h"
#include "../tables.h"
#include "avx2.h"

#define ISA(name) bo_avx2_##name

const bo_kernels bo_kernels_avx2 = {
    .isa = "avx2",
    .channels = &bo_avx2_channels,
    .bf16 = &bo_avx2_bf16,
    .fft = &bo_avx2_fft,
    .gemm = {.mr = BO_AVX2_MR, .nr = BO_AVX2_NR, .f32 = bo_avx2_gemm_f32, .f32_f64 = bo_avx2_gemm_f32_f64},
    .gemm64 = {.mr = BO_AVX2_MR, .nr = BO_AVX2_NR64, .f64 = bo_avx2_gemm_f64},
    .gram8 = {.mr = BO_AVX2_MR,
              .nr = BO_AVX2_NR,
              .group = 2,
              .element = 2,
              .pack_a = bo_avx2_gram8_int16_pack_a,
              .pack_b = bo_avx2_gram8_int16_pack_b,
              .multiply = bo_avx2_gram8_int16},
    .dots_s4 = bo_avx2_dots_s4,
    BO_KERNEL_FUNCTIONS,
};
#endif
