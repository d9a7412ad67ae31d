/* The AVX2 kernels (with FMA). */
#ifndef BO_KERNELS_AVX2_H
#define BO_KERNELS_AVX2_H

#include <stddef.h>
#include <stdint.h>
#include <stdbool.h>
#include "../kernels.h"

/* 12 of the 16 registers hold sums, two hold a row of B, and one holds a broadcast element of A. */
enum { BO_AVX2_MR = 6, BO_AVX2_NR = 16, BO_AVX2_NR64 = 8 };

#define ISA(name) bo_avx2_##name
#include "../functions.h"
#undef ISA

/* Bytes widened to shorts, two products per instruction. */
void bo_avx2_gram8_int16_pack_a(size_t k, size_t lines, const int8_t *q, size_t ldq, void *out);
void bo_avx2_gram8_int16_pack_b(size_t k, size_t lines, const int8_t *q, size_t ldq, void *out);
void bo_avx2_gram8_int16(size_t k, const void *a, const void *b, double *c, size_t ldc, double scale, size_t m,
                         size_t n);

#endif
