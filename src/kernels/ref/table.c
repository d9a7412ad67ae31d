/* The table every machine can run. */
#include "../tables.h"
#include "ref.h"

const bo_kernels bo_kernels_ref = {
    .isa = "ref",
    .gemm = {.mr = BO_REF_MR, .nr = BO_REF_NR, .f32 = bo_ref_gemm_f32, .f32_f64 = bo_ref_gemm_f32_f64},
    .gemm64 = {.mr = BO_REF_MR64, .nr = BO_REF_NR64, .f64 = bo_ref_gemm_f64},
    .gram8 = {.mr = BO_REF_MR8,
              .nr = BO_REF_NR8,
              .group = 1,
              .element = 1,
              .pack_a = bo_ref_gram8_pack_a,
              .pack_b = bo_ref_gram8_pack_b,
              .multiply = bo_ref_gram8},
    .sincos = bo_ref_sincos,
    .cos_shift = bo_ref_cos_shift,
    .exp_shift = bo_ref_exp_shift,
    .relu = bo_ref_relu,
    .axpy = bo_ref_axpy,
    .dot = bo_ref_dot,
    .affine = bo_ref_affine,
    .quantize = bo_ref_quantize,
    .hadamard = bo_ref_hadamard,
    .multiply = bo_ref_multiply,
    .transpose = bo_ref_transpose,
    .max = bo_ref_max,
    .scale = bo_ref_scale,
    .exp_sum = bo_ref_exp_sum,
    .exp_weigh = bo_ref_exp_weigh,
    .finite = bo_ref_finite,
    .state_step = bo_ref_state_step,
};
