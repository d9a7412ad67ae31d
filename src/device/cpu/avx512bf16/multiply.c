/* GEMM of bfloat16 matrices with VDPBF16PS, which adds the products of a pair of depths to 16 sums. A tile of 11 rows
 * by two vectors stays in registers over the whole depth. */
#if defined(__x86_64__)
#include "../avx512/tile.h"
#include "avx512bf16.h"

enum { LINES = BO_BF16_LINES, DEPTH = BO_BF16_DEPTH, MAX_ROWS = 11 };

#define INLINE   static inline __attribute__((always_inline))
#define UNROLLED _Pragma("GCC unroll 16")

/* Row i of C belongs to sliver i / LINES of A. */
INLINE const uint16_t *row_of(const uint16_t *a, size_t sliver, size_t i)
{
    return a + i / LINES * sliver + i % LINES * DEPTH;
}

INLINE __m512 times_pair(__m512 sum, const uint16_t *pair, __m512i b)
{
    int32_t both;
    __builtin_memcpy(&both, pair, sizeof both);
    return _mm512_dpbf16_ps(sum, (__m512bh)_mm512_set1_epi32(both), (__m512bh)b);
}

/* Computes `rows` rows from row `first` on; rows and vectors are compile-time constants. */
INLINE void tile(size_t rows, size_t vectors, size_t first, size_t k, const uint16_t *a, const uint16_t *b, float *c,
                 size_t ldc, size_t n, bool add)
{
    size_t sliver = LINES * bo_bf16_depth(k);
    const uint16_t *row[MAX_ROWS];
    __m512 sum[MAX_ROWS][2];
    __mmask16 mask[2] = {lanes16(n), lanes16(beyond(n, 16))};
    UNROLLED for (size_t i = 0; i < rows; i++)
    {
        row[i] = row_of(a, sliver, first + i);
        for (size_t j = 0; j < vectors; j++)
            sum[i][j] = add ? _mm512_maskz_loadu_ps(mask[j], c + (first + i) * ldc + 16 * j) : _mm512_setzero_ps();
    }
    for (size_t block = 0; block < k; block += DEPTH, b += BO_BF16_BLOCK) {
        for (size_t q = 0; q < DEPTH / 2; q++) {
            __m512i b0 = _mm512_load_si512(b + q * 2 * LINES);
            __m512i b1 = vectors > 1 ? _mm512_load_si512(b + sliver + q * 2 * LINES) : b0;
            UNROLLED for (size_t i = 0; i < rows; i++)
            {
                sum[i][0] = times_pair(sum[i][0], row[i] + 2 * q, b0);
                if (vectors > 1) sum[i][1] = times_pair(sum[i][1], row[i] + 2 * q, b1);
            }
        }
        UNROLLED for (size_t i = 0; i < rows; i++) row[i] += BO_BF16_BLOCK;
    }
    UNROLLED for (size_t i = 0; i < rows; i++) for (size_t j = 0; j < vectors; j++)
        _mm512_mask_storeu_ps(c + (first + i) * ldc + 16 * j, mask[j], sum[i][j]);
}

#define TILE(rows)                                                                                                     \
    static __attribute__((noinline)) void tile_##rows(size_t first, size_t k, const uint16_t *a, const uint16_t *b,    \
                                                      float *c, size_t ldc, size_t n, bool add)                        \
    {                                                                                                                  \
        if (n > 16)                                                                                                    \
            tile(rows, 2, first, k, a, b, c, ldc, n, add);                                                             \
        else                                                                                                           \
            tile(rows, 1, first, k, a, b, c, ldc, n, add);                                                             \
    }
TILE(11)
TILE(8)
TILE(4)
TILE(2)
TILE(1)

static void multiply(size_t k, const uint16_t *a, const uint16_t *b, float *c, size_t ldc, size_t m, size_t n, bool add)
{
    size_t i = 0;
    prefetch_tile(c, ldc * sizeof *c, m, (n - 1) * sizeof *c);
    for (; i + 11 <= m; i += 11) tile_11(i, k, a, b, c, ldc, n, add);
    for (; i + 8 <= m; i += 8) tile_8(i, k, a, b, c, ldc, n, add);
    for (; i + 4 <= m; i += 4) tile_4(i, k, a, b, c, ldc, n, add);
    for (; i + 2 <= m; i += 2) tile_2(i, k, a, b, c, ldc, n, add);
    if (i < m) tile_1(i, k, a, b, c, ldc, n, add);
}

const bo_micro_bf16 bo_avx512bf16_bf16 = {.pack_a = bo_avx512bf16_pack_a,
                                          .pack_b = bo_avx512bf16_pack_b,
                                          .exp_line = bo_avx512bf16_exp_line,
                                          .multiply = multiply};
#endif
