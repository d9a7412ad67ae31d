/* The tables for CPUs with AVX-512: with byte products (VNNI) and without; all else is the same. */
#if defined(__x86_64__)
#include "../tables.h"
#include "avx512.h"

#define SHARED                                                                                                         \
    .isa = "avx512",                                                                                                   \
    .gemm = {.mr = BO_AVX512_MR, .nr = BO_AVX512_NR, .f32 = bo_avx512_gemm_f32, .f32_f64 = bo_avx512_gemm_f32_f64},    \
    .gemm64 = {.mr = BO_AVX512_MR, .nr = BO_AVX512_NR64, .f64 = bo_avx512_gemm_f64}, .sincos = bo_avx512_sincos,       \
    .cos_shift = bo_avx512_cos_shift, .exp_shift = bo_avx512_exp_shift, .relu = bo_avx512_relu,                        \
    .axpy = bo_avx512_axpy, .dot = bo_avx512_dot, .affine = bo_avx512_affine, .quantize = bo_avx512_quantize,          \
    .hadamard = bo_avx512_hadamard, .multiply = bo_avx512_multiply, .transpose = bo_avx512_transpose,                  \
    .multiply_runs = bo_avx512_multiply_runs, .renew = bo_avx512_renew, .scale_rows = bo_avx512_scale_rows,            \
    .exp_weigh_wide = bo_avx512_exp_weigh_wide, .log_size = bo_avx512_log_size, .triangle = bo_avx512_triangle,        \
    .triangle_back = bo_avx512_triangle_back, .max = bo_avx512_max, .scale = bo_avx512_scale,                          \
    .dot_f32 = bo_avx512_dot_f32, .dots = bo_avx512_dots, .exp_below = bo_avx512_exp_below,                            \
    .exp_sum = bo_avx512_exp_sum, .exp_weigh = bo_avx512_exp_weigh, .finite = bo_avx512_finite,                        \
    .finite_rows = bo_avx512_finite_rows, .state_step = bo_avx512_state_step,                                          \
    .state_step_gated = bo_avx512_state_step_gated, .product = bo_avx512_product,                                      \
    .gated_scores = bo_avx512_gated_scores, .gated_gradients = bo_avx512_gated_gradients, .rotate = bo_avx512_rotate,  \
    .adamw = bo_avx512_adamw, .sum = bo_avx512_sum, .random = bo_avx512_random, .curve = bo_avx512_curve,              \
    .curve_slope = bo_avx512_curve_slope, .round_bf16 = bo_avx512_round_bf16, .widen_bf16 = bo_avx512_widen_bf16,      \
    .widen_s8 = bo_avx512_widen_s8, .dots_bf16 = bo_avx512_dots_bf16, .dots_s8 = bo_avx512_dots_s8,                    \
    .quantize_s16 = bo_avx512_quantize_s16

const bo_kernels bo_kernels_avx512 = {
    SHARED,
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
