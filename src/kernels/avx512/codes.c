/* Products with 4-bit codes by VNNI: vpdpbusd adds four products of an unsigned byte and a signed byte. The values of the
 * codes are therefore taken plus 128, and the sums start at -128 times the sums of the rows (bo_byte_rows.quads). Two
 * groups are processed at a time: one in each half of a vector. */
#if defined(__x86_64__)
#include "avx512.h"
#include <immintrin.h>

#define VNNI static inline __attribute__((always_inline, target("avx512f,avx512bw,avx512vl,avx512dq,avx512vnni")))

enum { GROUPS = 16 }; /* groups per vector of scales */

/* The values of the codes of two groups plus 128, in the order of their numbers. */
VNNI __m512i values_of(__m256i codes)
{
    const __m512i values =
        _mm512_xor_si512(_mm512_broadcast_i32x4(_mm_setr_epi8(BO_S4_VALUES)), _mm512_set1_epi8((char)-128));
    const __m512i shifts = _mm512_setr_epi64(0, 0, 4, 4, 0, 0, 4, 4);
    __m512i twice = _mm512_shuffle_i64x2(_mm512_castsi256_si512(codes), _mm512_castsi256_si512(codes), 0x50);
    return _mm512_shuffle_epi8(values, _mm512_and_si512(_mm512_srlv_epi64(twice, shifts), _mm512_set1_epi8(15)));
}

/* Adds the products of two groups with 64 bytes. `factors` has the factors of 16 groups; `pick` selects two of them,
 * each for 8 lanes. */
VNNI __m512 add_groups(__m512 total, __m256i codes, const int8_t *bytes, const int32_t *quads, __m512 factors,
                       __m512i pick)
{
    __m512i sums = _mm512_dpbusd_epi32(_mm512_loadu_si512(quads), values_of(codes), _mm512_loadu_si512(bytes));
    return _mm512_fmadd_ps(_mm512_permutexvar_ps(pick, factors), _mm512_cvtepi32_ps(sums), total);
}

/* The product of a line and one row. */
VNNI float multiply_line(size_t groups, const uint8_t *line, const int8_t *bytes, const int32_t *quads,
                         const float *factors)
{
    const uint16_t *scales = (const uint16_t *)(const void *)(line + groups * BO_S4_BYTES);
    const __m512i first_two = _mm512_setr_epi32(0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1);
    const __m512i two = _mm512_set1_epi32(2);
    __m512 total = _mm512_setzero_ps();
    for (size_t g = 0; g < groups;) {
        const size_t count = groups - g < GROUPS ? groups - g : GROUPS, end = g + count;
        const __mmask16 mask = (__mmask16)((1u << count) - 1);
        __m512i halves = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(mask, scales + g));
        __m512 both =
            _mm512_mul_ps(_mm512_castsi512_ps(_mm512_slli_epi32(halves, 16)), _mm512_maskz_loadu_ps(mask, factors + g));
        __m512i pick = first_two;
        for (; g + 2 <= end; g += 2, pick = _mm512_add_epi32(pick, two))
            total = add_groups(total, _mm256_loadu_si256((const __m256i *)(const void *)(line + g * BO_S4_BYTES)),
                               bytes + g * BO_S4_GROUP, quads + g * (BO_S4_GROUP / 4), both, pick);
        if (g < end) {
            __m256i codes =
                _mm256_zextsi128_si256(_mm_loadu_si128((const __m128i *)(const void *)(line + g * BO_S4_BYTES)));
            total = add_groups(total, codes, bytes + g * BO_S4_GROUP, quads + g * (BO_S4_GROUP / 4), both, pick);
            g++;
        }
    }
    return _mm512_reduce_add_ps(total);
}

__attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx512vnni"))) void
bo_avx512_dots_s4_bytes(size_t lines, size_t rows, size_t n, const uint8_t *w, size_t ldw, const bo_byte_rows *x,
                        float *out, size_t ldo)
{
    const size_t groups = bo_s4_groups(n);
    for (size_t j = 0; j < lines; j++)
        for (size_t r = 0; r < rows; r++)
            out[r * ldo + j] = multiply_line(groups, w + j * ldw, x->bytes + r * x->length,
                                             x->quads + r * (x->length / 4), x->scales + r * (x->length / BO_S4_GROUP));
}
#endif
