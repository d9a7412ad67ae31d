/* The AVX-512 kernels (F, DQ, BW, VL). */
#ifndef BO_KERNELS_AVX512_H
#define BO_KERNELS_AVX512_H

#include <stddef.h>
#include <stdint.h>
#include <stdbool.h>
#include "../kernels.h"

/* 28 of the 32 registers hold sums, two hold a row of B, and one holds a broadcast element of A. */
enum { BO_AVX512_MR = 14, BO_AVX512_NR = 32, BO_AVX512_NR64 = 16 };

#define ISA(name) bo_avx512_##name
#include "../functions.h"
#undef ISA

/* Bytes widened to shorts, two products per instruction. */
void bo_avx512_gram8_int16_pack_a(size_t k, size_t lines, const int8_t *q, size_t ldq, void *out);
void bo_avx512_gram8_int16_pack_b(size_t k, size_t lines, const int8_t *q, size_t ldq, void *out);
void bo_avx512_gram8_int16(size_t k, const void *a, const void *b, double *c, size_t ldc, double scale, size_t m,
                           size_t n);
/* Byte products, four per instruction; requires VNNI. */
void bo_avx512_gram8_bytes_pack_a(size_t k, size_t lines, const int8_t *q, size_t ldq, void *out);
void bo_avx512_gram8_bytes_pack_b(size_t k, size_t lines, const int8_t *q, size_t ldq, void *out);
void bo_avx512_gram8_bytes(size_t k, const void *a, const void *b, double *c, size_t ldc, double scale, size_t m,
                           size_t n);
/* dots_s4 with byte products; requires VNNI. */
void bo_avx512_dots_s4_bytes(size_t lines, size_t rows, size_t n, const uint8_t *w, size_t ldw, const bo_byte_rows *x,
                             float *out, size_t ldo);

#endif
