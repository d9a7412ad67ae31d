/* The table for 64-bit ARM CPUs. */
#if defined(__aarch64__)
#include "../entries.h"
#include "../ref/ref.h"
#include "../tables.h"
#include "neon.h"

#define ISA(name) bo_neon_##name

const bo_kernels bo_kernels_neon = {
    .isa = "neon",
    .channels = &bo_neon_channels,
    .bf16 = &bo_neon_bf16,
    .fft = &bo_neon_fft,
    .gemm = {.mr = BO_NEON_MR, .nr = BO_NEON_NR, .f32 = bo_neon_gemm_f32, .f32_f64 = bo_neon_gemm_f32_f64},
    .gemm64 = {.mr = BO_NEON_MR, .nr = BO_NEON_NR64, .f64 = bo_neon_gemm_f64},
    .gram8 = {.mr = BO_REF_MR8,
              .nr = BO_REF_NR8,
              .group = 1,
              .element = 1,
              .pack_a = bo_ref_gram8_pack_a,
              .pack_b = bo_ref_gram8_pack_b,
              .multiply = bo_neon_gram8},
    .dots_s4 = bo_neon_dots_s4,
    BO_KERNEL_FUNCTIONS,
};
#endif
