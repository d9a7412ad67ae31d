/* Exact products of signed bytes, summed in 32-bit integers. A tile of 14 rows by two vectors stays in registers over
 * the whole depth.
 *
 * int16: packing widens bytes to int16, and vpmaddwd adds two products. Bytes (VNNI): vpdpbusd adds four products of
 * an unsigned byte and a signed byte, so B is packed as q + 128, and the sums start at -128 times the sums of the lines
 * of A, which packing stores in the head of the sliver. Sums wrap around, so only the final sums must stay below 2^31.
 */
#if defined(__x86_64__)
#include "../kernels.h"
#include "tile.h"

#define INLINE static inline __attribute__((always_inline))
#define VNNI   __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx512vnni")))

enum { NR = BO_AVX512_NR, HALF = 16 };

INLINE size_t fewer(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* ---- the tile of C ----------------------------------------------------------------------------------------------- */

/* Computes row[0..8) += scale sums under a mask, rounded once. */
static inline void add_s32(double *row, __mmask8 mask, __m512d scale, __m256i sums)
{
    if (!mask) return;
    __m512d old = _mm512_maskz_loadu_pd(mask, row);
    _mm512_mask_storeu_pd(row, mask, _mm512_fmadd_pd(scale, _mm512_cvtepi32_pd(sums), old));
}

/* Not inlined: with the edge masks in one function, gcc spills sums inside the loop over the depth. */
static __attribute__((noinline)) void add_tile(double *c, size_t ldc, double scale, size_t m, size_t n,
                                               const __m512i *sums)
{
    __mmask8 mask0 = lanes8(n), mask1 = lanes8(beyond(n, 8));
    __mmask8 mask2 = lanes8(beyond(n, 16)), mask3 = lanes8(beyond(n, 24));
    __m512d factor = _mm512_set1_pd(scale);
    for (size_t i = 0; i < m; i++, c += ldc, sums += 2) {
        add_s32(c, mask0, factor, _mm512_castsi512_si256(sums[0]));
        add_s32(c + 8, mask1, factor, _mm512_extracti32x8_epi32(sums[0], 1));
        add_s32(c + 16, mask2, factor, _mm512_castsi512_si256(sums[1]));
        add_s32(c + 24, mask3, factor, _mm512_extracti32x8_epi32(sums[1], 1));
    }
}

/* Loads up to 16 bytes of row r of q; zeros if there is no such row. */
INLINE __m128i load_row(size_t r, size_t rows, __mmask16 mask, const int8_t *q, size_t ldq)
{
    return r < rows ? _mm_maskz_loadu_epi8(mask, q + r * ldq) : _mm_setzero_si128();
}

/* ---- int16 ------------------------------------------------------------------------------------------------------- */

/* Loads two rows of q, of which `rows` exist, and up to 16 lines, as pairs of shorts. */
INLINE __m512i pair(size_t rows, size_t lines, const int8_t *q, size_t ldq)
{
    __mmask16 mask = lanes16(lines);
    __m128i first = load_row(0, rows, mask, q, ldq), second = load_row(1, rows, mask, q, ldq);
    __m256i bytes = _mm256_castsi128_si256(_mm_unpacklo_epi8(first, second));
    return _mm512_cvtepi8_epi16(_mm256_inserti128_si256(bytes, _mm_unpackhi_epi8(first, second), 1));
}

void bo_avx512_gram8_int16_pack_a(size_t k, size_t lines, const int8_t *q, size_t ldq, void *out)
{
    size_t sliver = BO_S8_HEAD + ((k + 1) / 2 * MR * 4 + 63) / 64 * 64;
    for (size_t p = 0; p < k; p += 2, q += 2 * ldq) {
        char *to = (char *)out + BO_S8_HEAD + p / 2 * MR * 4;
        for (size_t line = 0; line < lines; line += MR, to += sliver) {
            _mm512_mask_storeu_epi32(to, lanes16(MR), pair(k - p, fewer(MR, lines - line), q + line, ldq));
        }
    }
}

void bo_avx512_gram8_int16_pack_b(size_t k, size_t lines, const int8_t *q, size_t ldq, void *out)
{
    size_t sliver = BO_S8_HEAD + (k + 1) / 2 * NR * 4;
    for (size_t p = 0; p < k; p += 2, q += 2 * ldq) {
        char *to = (char *)out + BO_S8_HEAD + p / 2 * NR * 4;
        for (size_t line = 0; line < lines; line += NR, to += sliver) {
            size_t count = lines - line;
            __m512i x = pair(k - p, count, q + line, ldq);
            __m512i y = count > HALF ? pair(k - p, count - HALF, q + line + HALF, ldq) : _mm512_setzero_si512();
            _mm512_store_si512(to, x);
            _mm512_store_si512(to + 64, y);
        }
    }
}

void bo_avx512_gram8_int16(size_t k, const void *a, const void *b, double *c, size_t ldc, double scale, size_t m,
                           size_t n)
{
    __m512i low[MR], high[MR];
    prefetch_tile(c, ldc * sizeof *c, m, (n - 1) * sizeof *c);
    EACH_ROW
    {
        low[i] = _mm512_setzero_si512();
        high[i] = _mm512_setzero_si512();
    }
    const int32_t *left = (const int32_t *)((const char *)a + BO_S8_HEAD);
    const char *right = (const char *)b + BO_S8_HEAD;
    for (size_t p = 0; p < k; p += 2, left += MR, right += 2 * 64) {
        __m512i b0 = _mm512_load_si512(right), b1 = _mm512_load_si512(right + 64);
        EACH_ROW
        {
            __m512i factor = _mm512_set1_epi32(left[i]);
            low[i] = _mm512_add_epi32(low[i], _mm512_madd_epi16(factor, b0));
            high[i] = _mm512_add_epi32(high[i], _mm512_madd_epi16(factor, b1));
        }
    }
    __m512i sums[2 * MR];
    EACH_ROW
    {
        sums[2 * i] = low[i];
        sums[2 * i + 1] = high[i];
    }
    add_tile(c, ldc, scale, m, n, sums);
}

/* ---- bytes ------------------------------------------------------------------------------------------------------- */

/* Loads four rows of q, of which `rows` exist, and up to 16 lines: 16 times the four bytes of a line. */
INLINE __m512i quadruple(size_t rows, size_t lines, const int8_t *q, size_t ldq)
{
    __mmask16 mask = lanes16(lines);
    __m512i x = _mm512_castsi128_si512(load_row(0, rows, mask, q, ldq));
    x = _mm512_inserti32x4(x, load_row(1, rows, mask, q, ldq), 1);
    x = _mm512_inserti32x4(x, load_row(2, rows, mask, q, ldq), 2);
    x = _mm512_inserti32x4(x, load_row(3, rows, mask, q, ldq), 3);
    /* 4 x 4 blocks of 4 bytes are transposed, then each 4 x 4 block of bytes */
    const __m512i blocks = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    const __m128i bytes = _mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    return _mm512_shuffle_epi8(_mm512_permutexvar_epi32(blocks, x), _mm512_broadcast_i32x4(bytes));
}

VNNI void bo_avx512_gram8_bytes_pack_a(size_t k, size_t lines, const int8_t *q, size_t ldq, void *out)
{
    size_t sliver = BO_S8_HEAD + ((k + 3) / 4 * MR * 4 + 63) / 64 * 64;
    char *head = out;
    for (size_t line = 0; line < lines; line += MR, head += sliver) _mm512_store_si512(head, _mm512_setzero_si512());
    const __m512i offset = _mm512_set1_epi8((char)-128); /* 128 unsigned */
    for (size_t p = 0; p < k; p += 4, q += 4 * ldq) {
        head = out;
        for (size_t line = 0; line < lines; line += MR, head += sliver) {
            __m512i x = quadruple(k - p, fewer(MR, lines - line), q + line, ldq);
            _mm512_mask_storeu_epi32(head + BO_S8_HEAD + p * MR, lanes16(MR), x);
            _mm512_store_si512(head, _mm512_dpbusd_epi32(_mm512_load_si512(head), offset, x));
        }
    }
}

void bo_avx512_gram8_bytes_pack_b(size_t k, size_t lines, const int8_t *q, size_t ldq, void *out)
{
    size_t sliver = BO_S8_HEAD + (k + 3) / 4 * NR * 4;
    const __m512i offset = _mm512_set1_epi8((char)-128); /* flips the sign bit: q + 128 */
    for (size_t p = 0; p < k; p += 4, q += 4 * ldq) {
        char *to = (char *)out + BO_S8_HEAD + p * NR;
        for (size_t line = 0; line < lines; line += NR, to += sliver) {
            size_t count = lines - line;
            __m512i x = quadruple(k - p, count, q + line, ldq);
            __m512i y = count > HALF ? quadruple(k - p, count - HALF, q + line + HALF, ldq) : _mm512_setzero_si512();
            _mm512_store_si512(to, _mm512_xor_si512(x, offset));
            _mm512_store_si512(to + 64, _mm512_xor_si512(y, offset));
        }
    }
}

VNNI void bo_avx512_gram8_bytes(size_t k, const void *a, const void *b, double *c, size_t ldc, double scale, size_t m,
                                size_t n)
{
    __m512i low[MR], high[MR];
    prefetch_tile(c, ldc * sizeof *c, m, (n - 1) * sizeof *c);
    const int32_t *head = a, *left = head + BO_S8_HEAD / sizeof *head;
    const char *right = (const char *)b + BO_S8_HEAD;
    EACH_ROW
    {
        low[i] = _mm512_set1_epi32(-head[i]);
        high[i] = low[i];
    }
    for (size_t p = 0; p < k; p += 4, left += MR, right += 2 * 64) {
        __m512i b0 = _mm512_load_si512(right), b1 = _mm512_load_si512(right + 64);
        EACH_ROW
        {
            __m512i factor = _mm512_set1_epi32(left[i]);
            low[i] = _mm512_dpbusd_epi32(low[i], b0, factor);
            high[i] = _mm512_dpbusd_epi32(high[i], b1, factor);
        }
    }
    __m512i sums[2 * MR];
    EACH_ROW
    {
        sums[2 * i] = low[i];
        sums[2 * i + 1] = high[i];
    }
    add_tile(c, ldc, scale, m, n, sums);
}
#endif
