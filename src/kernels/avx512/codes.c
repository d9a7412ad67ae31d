/* Products with 4-bit codes by VNNI: vpdpbusd adds four products of an unsigned byte and a signed byte. The values of the
 * codes are therefore taken plus 128, and the sums start at -128 times the sums of the rows (bo_byte_rows.quads). Four
 * groups are processed at a time, one in each quarter of a vector. */
#if defined(__x86_64__)
#include "avx512.h"
#include <immintrin.h>

#define TARGET "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni"
#define VNNI   static inline __attribute__((always_inline, target(TARGET)))

enum { GROUPS = 16, QUADS = 16, LOW = 64 }; /* groups per vector of scales; sums and lower halves per block */

/* The values plus 128 of the codes in the lower halves of the bytes; the upper halves are ignored except for their
 * highest bit. */
VNNI __m512i values_of(__m512i codes)
{
    const __m512i values =
        _mm512_xor_si512(_mm512_broadcast_i32x4(_mm_setr_epi8(BO_S4_VALUES)), _mm512_set1_epi8((char)-128));
    return _mm512_shuffle_epi8(values, _mm512_and_si512(codes, _mm512_set1_epi8(15)));
}

/* Adds the products of a block of four groups; `factors` has one factor per lane. */
VNNI __m512 add_block(__m512 total, __m512i codes, const int8_t *bytes, const int32_t *quads, __m512 factors)
{
    __m512i sums = _mm512_loadu_si512(quads);
    sums = _mm512_dpbusd_epi32(sums, values_of(codes), _mm512_loadu_si512(bytes));
    sums = _mm512_dpbusd_epi32(sums, values_of(_mm512_srli_epi16(codes, 4)), _mm512_loadu_si512(bytes + LOW));
    return _mm512_fmadd_ps(factors, _mm512_cvtepi32_ps(sums), total);
}

/* Adds the products of up to 16 groups. The mask of a part of a block spares the memory after the line. */
VNNI __m512 add_groups(__m512 total, size_t count, const uint8_t *codes, const uint16_t *scales, const int8_t *bytes,
                       const int32_t *quads, const float *factors)
{
    static const int32_t picks[4][16] = {{0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3},
                                         {4, 4, 4, 4, 5, 5, 5, 5, 6, 6, 6, 6, 7, 7, 7, 7},
                                         {8, 8, 8, 8, 9, 9, 9, 9, 10, 10, 10, 10, 11, 11, 11, 11},
                                         {12, 12, 12, 12, 13, 13, 13, 13, 14, 14, 14, 14, 15, 15, 15, 15}};
    const __mmask16 mask = (__mmask16)((1u << count) - 1);
    __m512i halves = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(mask, scales));
    __m512 both =
        _mm512_mul_ps(_mm512_castsi512_ps(_mm512_slli_epi32(halves, 16)), _mm512_maskz_loadu_ps(mask, factors));
    for (size_t g = 0; g < count; g += 4) {
        const __mmask16 part = (__mmask16)(count - g >= 4 ? 0xffff : (1u << 4 * (count - g)) - 1);
        __m512 lanes = _mm512_permutexvar_ps(_mm512_loadu_si512(picks[g / 4]), both);
        total = add_block(total, _mm512_maskz_loadu_epi32(part, codes + g * BO_S4_BYTES), bytes + g * BO_S4_GROUP,
                          quads + g / 4 * QUADS, lanes);
    }
    return total;
}

__attribute__((target(TARGET))) void bo_avx512_dots_s4_bytes(size_t lines, size_t rows, size_t n, const uint8_t *w,
                                                             size_t ldw, const bo_byte_rows *x, float *out, size_t ldo)
{
    const size_t groups = bo_s4_groups(n);
    for (size_t j = 0; j < lines; j++, w += ldw) {
        const uint16_t *scales = bo_s4_scales(w, n);
        for (size_t r = 0; r < rows; r++) {
            const int8_t *bytes = x->bytes + r * x->length;
            const int32_t *quads = x->quads + r * (x->length / BO_S4_BLOCK * QUADS);
            const float *factors = x->scales + r * (x->length / BO_S4_GROUP);
            __m512 total = _mm512_setzero_ps();
            for (size_t g = 0; g < groups; g += GROUPS)
                total = add_groups(total, groups - g < GROUPS ? groups - g : GROUPS, w + g * BO_S4_BYTES, scales + g,
                                   bytes + g * BO_S4_GROUP, quads + g / 4 * QUADS, factors + g);
            out[r * ldo + j] = _mm512_reduce_add_ps(total);
        }
    }
}
#endif
