/* Products with 4-bit codes by VNNI: vpdpbusd adds four products of an unsigned byte and a signed byte. So 128 is added
 * to the values of the codes, and the sums start at -128 times the sums of the rows (bo_byte_rows.starts). Each lane
 * processes one of sixteen groups. */
#if defined(__x86_64__)
#include "avx512.h"
#include <immintrin.h>

#define TARGET "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni"
#define VNNI   static inline __attribute__((always_inline, target(TARGET)))

_Static_assert(BO_S4_GROUP == 32 && BO_S4_WIDE == 16, "a lane of a vector per group, four words per group");

/* The values plus 128 of the codes in the lower halves of the bytes. */
VNNI __m512i values_of(__m512i codes)
{
    const __m512i values =
        _mm512_xor_si512(_mm512_broadcast_i32x4(_mm_setr_epi8(BO_S4_VALUES)), _mm512_set1_epi8((char)-128));
    return _mm512_shuffle_epi8(values, _mm512_and_si512(codes, _mm512_set1_epi8(15)));
}

/* Adds the products of one quad of each group: the lower and upper halves of its bytes. */
VNNI __m512i add_dots(__m512i sums, __m512i codes, const int8_t *bytes)
{
    sums = _mm512_dpbusd_epi32(sums, values_of(codes), _mm512_loadu_si512(bytes));
    return _mm512_dpbusd_epi32(sums, values_of(_mm512_srli_epi16(codes, 4)), _mm512_loadu_si512(bytes + 64));
}

/* Adds the products of up to 16 groups. Masks spare the memory after the line. Two chains of sums halve the latency. */
VNNI __m512 add_groups(__m512 total, __mmask16 mask, size_t stride, const uint8_t *codes, const uint16_t *scales,
                       const int8_t *bytes, const int32_t *starts, const float *factors)
{
    __m512i even = _mm512_loadu_si512(starts), odd = _mm512_setzero_si512();
    even = add_dots(even, _mm512_maskz_loadu_epi32(mask, codes), bytes);
    odd = add_dots(odd, _mm512_maskz_loadu_epi32(mask, codes + stride), bytes + 128);
    even = add_dots(even, _mm512_maskz_loadu_epi32(mask, codes + 2 * stride), bytes + 256);
    odd = add_dots(odd, _mm512_maskz_loadu_epi32(mask, codes + 3 * stride), bytes + 384);
    __m512i halves = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(mask, scales));
    __m512 both = _mm512_mul_ps(_mm512_castsi512_ps(_mm512_slli_epi32(halves, 16)), _mm512_loadu_ps(factors));
    return _mm512_fmadd_ps(both, _mm512_cvtepi32_ps(_mm512_add_epi32(even, odd)), total);
}

__attribute__((target(TARGET))) void bo_avx512_dots_s4_bytes(size_t lines, size_t rows, size_t n, const uint8_t *w,
                                                             size_t ldw, const bo_byte_rows *x, float *out, size_t ldo)
{
    const size_t groups = bo_s4_groups(n), rest = groups % BO_S4_WIDE;
    for (size_t j = 0; j < lines; j++, w += ldw) {
        const uint16_t *scales = bo_s4_scales(w, n);
        for (size_t r = 0; r < rows; r++) {
            const int8_t *bytes = x->bytes + r * x->length;
            const int32_t *starts = x->starts + r * (x->length / BO_S4_GROUP);
            const float *factors = x->scales + r * (x->length / BO_S4_GROUP);
            __m512 total = _mm512_setzero_ps();
            size_t g = 0;
            for (; g + BO_S4_WIDE <= groups; g += BO_S4_WIDE) {
                bo_fetch_ahead(w + g * BO_S4_BYTES, BO_S4_WIDE * BO_S4_BYTES);
                total = add_groups(total, 0xffff, 64, w + g * BO_S4_BYTES, scales + g, bytes + g * BO_S4_GROUP,
                                   starts + g, factors + g);
            }
            if (rest)
                total = add_groups(total, (__mmask16)((1u << rest) - 1), 4 * rest, w + g * BO_S4_BYTES, scales + g,
                                   bytes + g * BO_S4_GROUP, starts + g, factors + g);
            out[r * ldo + j] = _mm512_reduce_add_ps(total);
        }
    }
}
#endif
