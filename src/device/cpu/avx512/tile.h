/* Shared by the AVX-512 micro-kernels: 14 rows of registers, masks for edges, the tile of C. */
#ifndef BO_KERNELS_AVX512_TILE_H
#define BO_KERNELS_AVX512_TILE_H

#include <immintrin.h>
#include "avx512.h"

enum { MR = BO_AVX512_MR };

#define EACH_ROW _Pragma("GCC unroll 14") for (size_t i = 0; i < MR; i++)

/* Prefetches the tile of C into the first-level cache while the sums are being computed. */
static inline void prefetch_tile(const void *c, size_t row_bytes, size_t m, size_t width_bytes)
{
    const char *row = c;
    for (size_t i = 0; i < m; i++, row += row_bytes) {
        for (size_t at = 0; at <= width_bytes; at += 64) _mm_prefetch(row + at, _MM_HINT_T0);
    }
}

/* Returns a mask of the lowest `n` of 16 (or 8) lanes, 0 <= n. */
static inline __mmask16 lanes16(size_t n)
{
    return n >= 16 ? (__mmask16)0xffff : (__mmask16)((1u << n) - 1);
}

static inline __mmask8 lanes8(size_t n)
{
    return n >= 8 ? (__mmask8)0xff : (__mmask8)((1u << n) - 1);
}

static inline size_t beyond(size_t n, size_t start)
{
    return n > start ? n - start : 0;
}

#endif
