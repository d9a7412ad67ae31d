/* The AVX-512 kernels (F, DQ, BW, VL). */
#ifndef BO_KERNELS_AVX512_H
#define BO_KERNELS_AVX512_H

#include <stddef.h>
#include <stdint.h>
#include <stdbool.h>
#include "../kernels.h"

/* 28 of the 32 registers hold sums, two hold a row of B, one a broadcast element of A. */
enum { BO_AVX512_MR = 14, BO_AVX512_NR = 32, BO_AVX512_NR64 = 16 };

void bo_avx512_gemm_f32(size_t k, const float *a, const float *b, float *c, size_t ldc, size_t m, size_t n, bool add);
void bo_avx512_gemm_f32_f64(size_t k, const float *a, const float *b, double *c, size_t ldc, size_t m, size_t n,
                            bool add);
void bo_avx512_gemm_f64(size_t k, const double *a, const double *b, double *c, size_t ldc, size_t m, size_t n,
                        bool add);

/* Bytes widened to shorts, two products an instruction. */
void bo_avx512_gram8_words_pack_a(size_t k, size_t lines, const int8_t *q, size_t ldq, void *out);
void bo_avx512_gram8_words_pack_b(size_t k, size_t lines, const int8_t *q, size_t ldq, void *out);
void bo_avx512_gram8_words(size_t k, const void *a, const void *b, double *c, size_t ldc, double scale, size_t m,
                           size_t n);
/* Byte products, four an instruction: only with VNNI. */
void bo_avx512_gram8_bytes_pack_a(size_t k, size_t lines, const int8_t *q, size_t ldq, void *out);
void bo_avx512_gram8_bytes_pack_b(size_t k, size_t lines, const int8_t *q, size_t ldq, void *out);
void bo_avx512_gram8_bytes(size_t k, const void *a, const void *b, double *c, size_t ldc, double scale, size_t m,
                           size_t n);

void bo_avx512_sincos(size_t n, float scale, const float *x, float *s, float *c);
void bo_avx512_cos_shift(size_t n, float scale, const float *x, const float *shift, float *y);
void bo_avx512_exp_shift(size_t n, const float *x, float shift, float *y);
void bo_avx512_relu(size_t n, float scale, const float *x, float *y);
void bo_avx512_axpy(size_t n, float a, const float *x, float *y);
double bo_avx512_dot(size_t n, const float *x, const float *y);
void bo_avx512_affine(size_t n, const float *x, const float *mean, const float *factor, float *y);
void bo_avx512_quantize(size_t n, float scale, const float *x, int8_t *q);
void bo_avx512_hadamard(size_t n, float *x);

void bo_avx512_multiply(size_t m, size_t n, size_t k, const float *a, size_t row, size_t column, const float *b,
                        size_t ldb, bool add, float *c, size_t ldc);
void bo_avx512_multiply_runs(size_t m, size_t n, bo_runs runs, size_t k, const float *a, size_t row, size_t column,
                             const float *b, size_t ldb, bool add, float *c, size_t ldc);
void bo_avx512_transpose(size_t rows, size_t columns, const float *a, size_t lda, float *b, size_t ldb);
void bo_avx512_triangle(size_t n, const float *a, const float *t, float head, float diagonal, float other, float *out);
void bo_avx512_triangle_back(size_t n, const float *a, const float *t, float head, float diagonal, float other,
                             const float *g, float *da, float *dt);
float bo_avx512_max(size_t n, const float *x);
void bo_avx512_scale(size_t n, float a, const float *x, float *y);
void bo_avx512_scale_rows(size_t rows, size_t n, const float *a, const float *x, size_t ldx, float *y, size_t ldy);
void bo_avx512_renew(size_t m, size_t n, size_t k, const float *a, size_t row, size_t column, const float *b,
                     size_t ldb, float keep, float *c, size_t ldc);
float bo_avx512_dot_f32(size_t n, const float *x, const float *y);
void bo_avx512_dots(size_t lines, size_t rows, size_t n, const float *w, size_t ldw, const float *x, size_t ldx,
                    float *out, size_t ldo);
void bo_avx512_log_size(size_t n, float a, const float *x, float *y);
void bo_avx512_exp_below(size_t n, const float *x, float shift, float *y);
float bo_avx512_exp_sum(size_t n, const float *x, float shift, float *y);
float bo_avx512_exp_weigh(size_t n, const float *x, float shift, float *y);
float bo_avx512_exp_weigh_wide(size_t n, const double *x, double shift, float *y);
bool bo_avx512_finite(size_t n, const float *x);
bool bo_avx512_finite_rows(size_t rows, size_t n, const float *x, size_t ldx);
void bo_avx512_state_step(size_t rows, size_t n, bool update, float decay, const float *f, const float *v, float *s,
                          size_t queries, const float *q, size_t ldq, float *out, size_t ldo);
void bo_avx512_state_step_gated(size_t rows, size_t n, bool update, const float *decay, const float *f, const float *v,
                                float *s, size_t queries, const float *q, size_t ldq, float *out, size_t ldo);
void bo_avx512_product(size_t n, const float *x, const float *y, bool add, float *z);
void bo_avx512_gated_scores(size_t rows, size_t n, const float *q, size_t ldq, const float *k, size_t ldk,
                            const float *g, size_t ldg, float *out, size_t ldo);
void bo_avx512_gated_gradients(size_t rows, size_t n, const float *w, size_t ldw, const float *q, const float *k,
                               size_t ldk, const float *g, float *dq, float *dk, float *dlog);
void bo_avx512_rotate(size_t n, size_t count, const double *c, const double *s, double *row, double *y, size_t ldy,
                      size_t asked, const double *z, double *w, size_t ldw);
void bo_avx512_adamw(size_t n, const bo_adamw_step *step, const float *g, float *m, float *v, float *w);
double bo_avx512_sum(size_t n, const float *x);
void bo_avx512_random(uint64_t seed, uint64_t stream, uint64_t first, size_t groups, uint32_t *out);
void bo_avx512_curve(bo_curve curve, size_t n, const float *x, float *y);
void bo_avx512_curve_slope(bo_curve curve, size_t n, const float *x, float *y);
void bo_avx512_round_bf16(size_t n, const float *x, uint16_t *y);
void bo_avx512_widen_bf16(size_t n, const uint16_t *x, float *y);
void bo_avx512_widen_s8(size_t n, float scale, const int8_t *q, float *y);
void bo_avx512_dots_bf16(size_t lines, size_t rows, size_t n, const uint16_t *w, size_t ldw, const float *x, size_t ldx,
                         float *out, size_t ldo);
void bo_avx512_quantize_s16(size_t n, float scale, const float *x, int16_t *q);
void bo_avx512_dots_s8(size_t lines, size_t rows, size_t n, const int8_t *w, size_t ldw, const int16_t *x, size_t ldx,
                       const float *scale, float *out, size_t ldo);

#endif
