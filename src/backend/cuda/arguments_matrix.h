/* Arguments of products of matrices: device/gemm.cu. */
#ifndef BO_CUDA_ARGUMENTS_MATRIX_H
#define BO_CUDA_ARGUMENTS_MATRIX_H

/* D = alpha op(A) op(B) + beta C + bias, all row-major: op(A) is m x k, op(B) is k x n. `ta`: A is stored as k x m;
 * `tb`: B is stored as n x k. A and B have the type `factors`; C and D have the type `result`. Sums are float32; with
 * factors F32 products are float32 too (no TF32). The same arguments give the same bits. Factors F64 have results F64, in
 * float64. Factors I8 have results I32, which are exact: for tb without ta, alpha 1, beta 0 or 1, no bias, multiples of 16
 * as sizes and strides. */
typedef struct bo_cuda_gemm {
    size_t m, n, k;
    bool ta, tb;
    const void *a, *b, *c; /* c NULL: D itself if beta is not 0 */
    void *d;
    size_t lda, ldb, ldc, ldd; /* numbers between two rows as stored */
    bo_cuda_type factors, result;
    float alpha, beta;
    const void *bias;  /* n numbers of the type `result`; NULL: none */
    size_t batch;      /* 0 or 1: one product */
    size_t stride_a, stride_b, stride_c, stride_d;
} bo_cuda_gemm;

#define BO_CUDA_LAUNCHES_MATRIX(X) X(gemm, bo_cuda_gemm)

#endif
