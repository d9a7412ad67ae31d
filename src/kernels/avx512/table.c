/* The table for CPUs with AVX-512. */
#if defined(__x86_64__)
#include "../tables.h"
#include "avx512.h"

const bo_kernels bo_kernels_avx512 = {
    .isa = "avx512",
    .gemm = {.mr = BO_AVX512_MR, .nr = BO_AVX512_NR, .f32 = bo_avx512_gemm_f32, .f32_f64 = bo_avx512_gemm_f32_f64},
    .gemm64 = {.mr = BO_AVX512_MR, .nr = BO_AVX512_NR64, .f64 = bo_avx512_gemm_f64},
    .sincos = bo_avx512_sincos,
    .cos_shift = bo_avx512_cos_shift,
    .exp_shift = bo_avx512_exp_shift,
    .relu = bo_avx512_relu,
    .axpy = bo_avx512_axpy,
    .dot = bo_avx512_dot,
    .affine = bo_avx512_affine,
    .hadamard = bo_avx512_hadamard,
};
#endif
