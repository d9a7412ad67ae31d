/* The table for CPUs with AVX2 and FMA. */
#if defined(__x86_64__)
#include "../tables.h"
#include "avx2.h"

const bo_kernels bo_kernels_avx2 = {
    .isa = "avx2",
    .gemm = {.mr = BO_AVX2_MR, .nr = BO_AVX2_NR, .f32 = bo_avx2_gemm_f32, .f32_f64 = bo_avx2_gemm_f32_f64},
    .gemm64 = {.mr = BO_AVX2_MR, .nr = BO_AVX2_NR64, .f64 = bo_avx2_gemm_f64},
    .gram8 = {.mr = BO_AVX2_MR,
              .nr = BO_AVX2_NR,
              .group = 2,
              .element = 2,
              .pack_a = bo_avx2_gram8_words_pack_a,
              .pack_b = bo_avx2_gram8_words_pack_b,
              .multiply = bo_avx2_gram8_words},
    .sincos = bo_avx2_sincos,
    .cos_shift = bo_avx2_cos_shift,
    .exp_shift = bo_avx2_exp_shift,
    .relu = bo_avx2_relu,
    .axpy = bo_avx2_axpy,
    .dot = bo_avx2_dot,
    .affine = bo_avx2_affine,
    .quantize = bo_avx2_quantize,
    .hadamard = bo_avx2_hadamard,
    .multiply = bo_avx2_multiply,
    .transpose = bo_avx2_transpose,
    .triangle = bo_avx2_triangle,
    .triangle_back = bo_avx2_triangle_back,
    .max = bo_avx2_max,
    .scale = bo_avx2_scale,
    .dot_f32 = bo_avx2_dot_f32,
    .log_size = bo_avx2_log_size,
    .exp_below = bo_avx2_exp_below,
    .exp_sum = bo_avx2_exp_sum,
    .exp_weigh = bo_avx2_exp_weigh,
    .finite = bo_avx2_finite,
    .state_step = bo_avx2_state_step,
    .state_step_gated = bo_avx2_state_step_gated,
    .product = bo_avx2_product,
    .gated_scores = bo_avx2_gated_scores,
    .gated_gradients = bo_avx2_gated_gradients,
};
#endif
