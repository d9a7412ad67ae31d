/* The table every machine can run. */
#include "../tables.h"
#include "ref.h"

const bo_kernels bo_kernels_ref = {
    .isa = "ref",
    .gemm = {.mr = BO_REF_MR, .nr = BO_REF_NR, .f32 = bo_ref_gemm_f32, .f32_f64 = bo_ref_gemm_f32_f64},
    .gemm64 = {.mr = BO_REF_MR64, .nr = BO_REF_NR64, .f64 = bo_ref_gemm_f64},
    .sincos = bo_ref_sincos,
    .cos_shift = bo_ref_cos_shift,
    .exp_shift = bo_ref_exp_shift,
    .relu = bo_ref_relu,
    .axpy = bo_ref_axpy,
    .dot = bo_ref_dot,
    .affine = bo_ref_affine,
    .hadamard = bo_ref_hadamard,
};
