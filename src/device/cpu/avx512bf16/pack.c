/* Packing for GEMM of bfloat16 matrices: conversion and transposition of pairs, exponentials. */
#if defined(__x86_64__)
#include "../ref/ref.h" /* must precede simd.h, which defines ISA */
#include "../avx512/simd.h"
#include "../kernels.h"
#include "../simd/exp_vector.h"
#include "avx512bf16.h"

enum { LINES = BO_BF16_LINES, DEPTH = BO_BF16_DEPTH, PAIRS = DEPTH / 2 };

#define INLINE   static inline __attribute__((always_inline))
#define UNROLLED _Pragma("GCC unroll 16")

INLINE __mmask16 lanes(size_t n)
{
    return n >= 16 ? (__mmask16)0xffff : (__mmask16)((1u << n) - 1);
}

/* Loads the first n of 16 floats, times `scale`; the other lanes are zero. */
INLINE v load(const float *x, size_t n, bool scaled, v scale)
{
    v numbers = n >= 16 ? _mm512_loadu_ps(x) : _mm512_maskz_loadu_ps(lanes(n), x);
    return scaled ? _mm512_mul_ps(numbers, scale) : numbers;
}

/* Rounds 32 floats; lane q has pair q, with the first element in the low half. */
INLINE v rounded(v first, v second)
{
    return _mm512_castsi512_ps((__m512i)_mm512_cvtne2ps_pbh(second, first));
}

/* Loads up to 16 lines that are rows in memory: lane q of vector i has the pair (2 q, 2 q + 1) of line i. */
INLINE void load_along(size_t lines, size_t k, bool scaled, v scale, const float *x, size_t ld, v pairs[LINES])
{
    UNROLLED for (size_t i = 0; i < LINES; i++)
    {
        pairs[i] = _mm512_setzero_ps();
        if (i < lines) {
            v first = load(x + i * ld, k, scaled, scale);
            v second = k > 16 ? load(x + i * ld + 16, k - 16, scaled, scale) : _mm512_setzero_ps();
            pairs[i] = rounded(first, second);
        }
    }
}

/* Loads up to 16 lines that are adjacent in memory: lane i of vector q has the pair (2 q, 2 q + 1) of line i. */
INLINE void load_across(size_t lines, size_t k, bool scaled, v scale, const float *x, size_t ld, v pairs[PAIRS])
{
    const __m512i interleave = _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7, 22,
                                                6, 21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
    UNROLLED for (size_t q = 0; q < PAIRS; q++)
    {
        pairs[q] = _mm512_setzero_ps();
        if (2 * q < k) {
            v first = load(x + 2 * q * ld, lines, scaled, scale);
            v second = 2 * q + 1 < k ? load(x + (2 * q + 1) * ld, lines, scaled, scale) : _mm512_setzero_ps();
            __m512i both = _mm512_castps_si512(rounded(first, second));
            pairs[q] = _mm512_castsi512_ps(_mm512_permutexvar_epi16(interleave, both));
        }
    }
}

INLINE void store(const v pairs[16], uint16_t *out)
{
    UNROLLED for (size_t i = 0; i < 16; i++) _mm512_store_ps((float *)(void *)(out + i * DEPTH), pairs[i]);
}

/* Packs one block. by_line: a vector of the block belongs to a line (A), else to a pair of depths (B). */
INLINE void pack_block(bool by_line, size_t lines, size_t k, bool scaled, float scale, const float *x, size_t ld,
                       bool along, uint16_t *out)
{
    v pairs[16];
    if (along)
        load_along(lines, k, scaled, _mm512_set1_ps(scale), x, ld, pairs);
    else
        load_across(lines, k, scaled, _mm512_set1_ps(scale), x, ld, pairs);
    if (along != by_line) v_transpose(pairs);
    store(pairs, out);
}

/* A separate function for whole blocks without a factor has a shape known at compile time. */
static __attribute__((noinline)) void whole_block(bool by_line, const float *x, size_t ld, bool along, uint16_t *out)
{
    if (along && by_line)
        pack_block(true, LINES, DEPTH, false, 1, x, ld, true, out);
    else if (along)
        pack_block(false, LINES, DEPTH, false, 1, x, ld, true, out);
    else if (by_line)
        pack_block(true, LINES, DEPTH, false, 1, x, ld, false, out);
    else
        pack_block(false, LINES, DEPTH, false, 1, x, ld, false, out);
}

static __attribute__((noinline)) void edge_block(bool by_line, size_t lines, size_t k, float scale, const float *x,
                                                 size_t ld, bool along, uint16_t *out)
{
    pack_block(by_line, lines, k, scale != 1, scale, x, ld, along, out);
}

static void pack(bool by_line, size_t lines, size_t k, float scale, const float *x, size_t ld, bool along,
                 uint16_t *out)
{
    for (size_t i = 0; i < lines; i += LINES)
        for (size_t p = 0; p < k; p += DEPTH, out += BO_BF16_BLOCK) {
            const float *from = along ? x + i * ld + p : x + p * ld + i;
            size_t count = lines - i < LINES ? lines - i : LINES, depth = k - p < DEPTH ? k - p : DEPTH;
            if (count == LINES && depth == DEPTH && scale == 1)
                whole_block(by_line, from, ld, along, out);
            else
                edge_block(by_line, count, depth, scale, from, ld, along, out);
        }
}

void bo_avx512bf16_pack_a(size_t lines, size_t k, float scale, const float *x, size_t ld, bool along, uint16_t *out)
{
    pack(true, lines, k, scale, x, ld, along, out);
}

void bo_avx512bf16_pack_b(size_t lines, size_t k, float scale, const float *x, size_t ld, bool along, uint16_t *out)
{
    pack(false, lines, k, scale, x, ld, along, out);
}

float bo_avx512bf16_exp_line(size_t n, const float *x, float shift, size_t depth, uint16_t *line)
{
    v more = _mm512_set1_ps(shift), sum = _mm512_setzero_ps();
    size_t p = 0;
    for (; p + DEPTH <= n; p += DEPTH, line += BO_BF16_BLOCK) {
        v first = exp_below_vector(v_load(x + p), more), second = exp_below_vector(v_load(x + p + 16), more);
        sum = _mm512_add_ps(sum, _mm512_add_ps(first, second));
        _mm512_store_ps((float *)(void *)line, rounded(first, second));
    }
    for (; p < depth; p += DEPTH, line += BO_BF16_BLOCK) {
        __mmask16 low = lanes(p < n ? n - p : 0), high = lanes(p + 16 < n ? n - p - 16 : 0);
        v first = _mm512_maskz_mov_ps(low, exp_below_vector(_mm512_maskz_loadu_ps(low, x + p), more));
        v second = _mm512_maskz_mov_ps(high, exp_below_vector(_mm512_maskz_loadu_ps(high, x + p + 16), more));
        sum = _mm512_add_ps(sum, _mm512_add_ps(first, second));
        _mm512_store_ps((float *)(void *)line, rounded(first, second));
    }
    return _mm512_reduce_add_ps(sum);
}
#endif
