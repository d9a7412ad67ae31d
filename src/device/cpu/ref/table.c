/* The table that every CPU supports. */
#include "../entries.h"
#include "../tables.h"
#include "ref.h"

#define ISA(name) bo_ref_##name

const bo_kernels bo_kernels_ref = {
    .isa = "ref",
    .channels = &bo_ref_channels,
    .bf16 = &bo_ref_bf16,
    .fft = &bo_ref_fft,
    .gemm = {.mr = BO_REF_MR, .nr = BO_REF_NR, .f32 = bo_ref_gemm_f32, .f32_f64 = bo_ref_gemm_f32_f64},
    .gemm64 = {.mr = BO_REF_MR64, .nr = BO_REF_NR64, .f64 = bo_ref_gemm_f64},
    .gram8 = {.mr = BO_REF_MR8,
              .nr = BO_REF_NR8,
              .group = 1,
              .element = 1,
              .pack_a = bo_ref_gram8_pack_a,
              .pack_b = bo_ref_gram8_pack_b,
              .multiply = bo_ref_gram8},
    .dots_s4 = bo_ref_dots_s4,
    BO_KERNEL_FUNCTIONS,
};
