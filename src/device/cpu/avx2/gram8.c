/* Exact products of signed bytes. Bytes are widened to shorts when packed; one instruction (vpmaddwd) computes two
 * products, summed in 32-bit integers. A tile of 6 rows by two vectors stays in registers over the whole depth. */
#if defined(__x86_64__)
#include <math.h>
#include <string.h>
#include <immintrin.h>
#include "../kernels.h"
#include "avx2.h"

enum { MR = BO_AVX2_MR, NR = BO_AVX2_NR, EIGHT = 8 };

#define EACH_ROW _Pragma("GCC unroll 6") for (size_t i = 0; i < MR; i++)

/* Loads up to eight bytes, padded with zeros. The two most frequent counts use registers only. */
static inline __m128i load_bytes(const int8_t *q, size_t n)
{
    uint64_t bytes = 0;
    if (n >= EIGHT) {
        memcpy(&bytes, q, EIGHT);
    } else if (n == MR) {
        uint32_t four;
        uint16_t two;
        memcpy(&four, q, 4);
        memcpy(&two, q + 4, 2);
        bytes = four | (uint64_t)two << 32;
    } else {
        memcpy(&bytes, q, n);
    }
    return _mm_cvtsi64_si128((long long)bytes);
}

/* Loads two rows of q, of which `rows` exist, and up to eight lines, as pairs of shorts. */
static inline __m256i pair(size_t rows, size_t lines, const int8_t *q, size_t ldq)
{
    __m128i first = load_bytes(q, lines), second = rows > 1 ? load_bytes(q + ldq, lines) : _mm_setzero_si128();
    return _mm256_cvtepi8_epi16(_mm_unpacklo_epi8(first, second));
}

void bo_avx2_gram8_int16_pack_a(size_t k, size_t lines, const int8_t *q, size_t ldq, void *out)
{
    size_t sliver = BO_S8_HEAD + ((k + 1) / 2 * MR * 4 + 63) / 64 * 64;
    for (size_t p = 0; p < k; p += 2, q += 2 * ldq) {
        char *to = (char *)out + BO_S8_HEAD + p / 2 * MR * 4;
        for (size_t line = 0; line < lines; line += MR, to += sliver) {
            size_t count = lines - line < MR ? lines - line : MR;
            __m256i x = pair(k - p, count, q + line, ldq);
            _mm_storeu_si128((__m128i *)to, _mm256_castsi256_si128(x));
            _mm_storel_epi64((__m128i *)(to + 16), _mm256_extracti128_si256(x, 1));
        }
    }
}

void bo_avx2_gram8_int16_pack_b(size_t k, size_t lines, const int8_t *q, size_t ldq, void *out)
{
    size_t sliver = BO_S8_HEAD + (k + 1) / 2 * NR * 4;
    for (size_t p = 0; p < k; p += 2, q += 2 * ldq) {
        char *to = (char *)out + BO_S8_HEAD + p / 2 * NR * 4;
        for (size_t line = 0; line < lines; line += NR, to += sliver) {
            size_t count = lines - line, more = count > EIGHT ? count - EIGHT : 0;
            _mm256_store_si256((__m256i *)to, pair(k - p, count, q + line, ldq));
            __m256i upper = more ? pair(k - p, more, q + line + EIGHT, ldq) : _mm256_setzero_si256();
            _mm256_store_si256((__m256i *)(to + 32), upper);
        }
    }
}

/* Computes row[0..4) += scale sums, rounded once. */
static inline void add_s32(double *row, __m256d scale, __m128i sums)
{
    _mm256_storeu_pd(row, _mm256_fmadd_pd(scale, _mm256_cvtepi32_pd(sums), _mm256_loadu_pd(row)));
}

/* Not inlined, so that the loop over the depth can use all registers. */
static __attribute__((noinline)) void add_tile(double *c, size_t ldc, double scale, size_t m, size_t n,
                                               const __m256i *sums)
{
    for (size_t i = 0; i < m; i++, c += ldc, sums += 2) {
        if (n == NR) {
            add_s32(c, _mm256_set1_pd(scale), _mm256_castsi256_si128(sums[0]));
            add_s32(c + 4, _mm256_set1_pd(scale), _mm256_extracti128_si256(sums[0], 1));
            add_s32(c + 8, _mm256_set1_pd(scale), _mm256_castsi256_si128(sums[1]));
            add_s32(c + 12, _mm256_set1_pd(scale), _mm256_extracti128_si256(sums[1], 1));
        } else {
            int32_t row[NR];
            memcpy(row, sums, sizeof row);
            for (size_t j = 0; j < n; j++) c[j] = fma(scale, row[j], c[j]);
        }
    }
}

void bo_avx2_gram8_int16(size_t k, const void *a, const void *b, double *c, size_t ldc, double scale, size_t m,
                         size_t n)
{
    __m256i low[MR], high[MR];
    EACH_ROW
    {
        low[i] = _mm256_setzero_si256();
        high[i] = _mm256_setzero_si256();
    }
    const int32_t *left = (const int32_t *)((const char *)a + BO_S8_HEAD);
    const __m256i *right = (const __m256i *)((const char *)b + BO_S8_HEAD);
    for (size_t p = 0; p < k; p += 2, left += MR, right += 2) {
        __m256i b0 = _mm256_load_si256(right), b1 = _mm256_load_si256(right + 1);
        EACH_ROW
        {
            __m256i factor = _mm256_set1_epi32(left[i]);
            low[i] = _mm256_add_epi32(low[i], _mm256_madd_epi16(factor, b0));
            high[i] = _mm256_add_epi32(high[i], _mm256_madd_epi16(factor, b1));
        }
    }
    __m256i sums[2 * MR];
    EACH_ROW
    {
        sums[2 * i] = low[i];
        sums[2 * i + 1] = high[i];
    }
    add_tile(c, ldc, scale, m, n, sums);
}
#endif
