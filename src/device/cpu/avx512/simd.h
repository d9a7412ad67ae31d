/* The vector operations of src/device/cpu/simd/ in AVX-512: v is 16 floats, d is 8 doubles. */
#ifndef BO_KERNELS_AVX512_SIMD_H
#define BO_KERNELS_AVX512_SIMD_H

#include <stddef.h>
#include <stdint.h>
#include <stdbool.h>
#include <string.h>
#include <immintrin.h>
#include "avx512.h" /* must precede the definition of ISA: it defines and undefines it */

enum { LANES = 16 };
typedef __m512 v;
typedef __m512d d;
typedef __m512i vi;

#define ISA(name)  bo_avx512_##name
#define V_REGISTER "v" /* constraint of an inline assembly operand of type v */

static inline v v_load(const float *p)
{
    return _mm512_loadu_ps(p);
}

static inline void v_store(float *p, v x)
{
    _mm512_storeu_ps(p, x);
}

/* Loads the first n < 16 lanes; the other lanes are zero. */
static inline v v_load_part(const float *p, size_t n)
{
    return _mm512_maskz_loadu_ps((__mmask16)((1u << n) - 1), p);
}

static inline void v_store_part(float *p, size_t n, v x)
{
    _mm512_mask_storeu_ps(p, (__mmask16)((1u << n) - 1), x);
}

/* Returns the first n < 16 lanes of x and the remaining lanes of other. */
static inline v v_part(size_t n, v x, v other)
{
    return _mm512_mask_mov_ps(other, (__mmask16)((1u << n) - 1), x);
}

static inline v v_set(float x)
{
    return _mm512_set1_ps(x);
}

static inline v v_add(v a, v b)
{
    return _mm512_add_ps(a, b);
}

static inline v v_sub(v a, v b)
{
    return _mm512_sub_ps(a, b);
}

static inline v v_mul(v a, v b)
{
    return _mm512_mul_ps(a, b);
}

static inline v v_div(v a, v b)
{
    return _mm512_div_ps(a, b);
}

/* a b + c and c - a b, rounded once */
static inline v v_fma(v a, v b, v c)
{
    return _mm512_fmadd_ps(a, b, c);
}

static inline v v_fnma(v a, v b, v c)
{
    return _mm512_fnmadd_ps(a, b, c);
}

static inline v v_round(v x)
{
    return _mm512_roundscale_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

static inline v v_max(v a, v b)
{
    return _mm512_max_ps(a, b);
}

/* Returns b if either is NaN, like v_max. */
static inline v v_min(v a, v b)
{
    return _mm512_min_ps(a, b);
}

static inline v v_sqrt(v x)
{
    return _mm512_sqrt_ps(x);
}

static inline v v_size(v x)
{
    return _mm512_abs_ps(x);
}

/* Per lane: sign bit of x set (also for zeros) ? negative : other */
static inline v v_choose_negative(v x, v other, v negative)
{
    return _mm512_mask_blend_ps(_mm512_movepi32_mask(_mm512_castps_si512(x)), other, negative);
}

/* max(x, 0); NaN stays NaN */
static inline v v_positive_part(v x)
{
    return _mm512_max_ps(_mm512_setzero_ps(), x);
}

static inline vi v_to_int(v x)
{
    return _mm512_cvtps_epi32(x);
}

/* Returns the nearest integers, clamped to [-127, 127]; 0 for NaN. Clamping first does not change the result, since the
 * limits are integers. */
static inline __m128i v_to_bytes(v x)
{
    v clamped = _mm512_min_ps(_mm512_max_ps(x, _mm512_set1_ps(-127.0f)), _mm512_set1_ps(127.0f));
    return _mm512_cvtepi32_epi8(_mm512_maskz_cvtps_epi32(_mm512_cmp_ps_mask(x, x, _CMP_ORD_Q), clamped));
}

static inline void v_store_bytes(int8_t *p, v x)
{
    _mm_storeu_si128((__m128i *)p, v_to_bytes(x));
}

static inline void v_store_bytes_part(int8_t *p, size_t n, v x)
{
    _mm_mask_storeu_epi8(p, (__mmask16)((1u << n) - 1), v_to_bytes(x));
}

static inline v v_load_s8(const int8_t *p)
{
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)p)));
}

/* Stores the nearest integers, clamped to [-32767, 32767]; 0 for NaN. */
static inline void v_store_s16(int16_t *p, v x)
{
    v clamped = _mm512_min_ps(_mm512_max_ps(x, _mm512_set1_ps(-32767.0f)), _mm512_set1_ps(32767.0f));
    vi whole = _mm512_maskz_cvtps_epi32(_mm512_cmp_ps_mask(x, x, _CMP_ORD_Q), clamped);
    _mm256_storeu_si256((__m256i *)p, _mm512_cvtepi32_epi16(whole));
}

/* Multiplies 64 bytes by 64 shorts and sums per lane: exact if sums of products stay below 2^31, then rounded to
 * float. */
static inline v v_dot_group(const int8_t *w, const int16_t *x)
{
    vi low = _mm512_cvtepi8_epi16(_mm256_loadu_si256((const __m256i *)w));
    vi high = _mm512_cvtepi8_epi16(_mm256_loadu_si256((const __m256i *)(w + 32)));
    vi sum = _mm512_add_epi32(_mm512_madd_epi16(low, _mm512_loadu_si512(x)),
                              _mm512_madd_epi16(high, _mm512_loadu_si512(x + 32)));
    return _mm512_cvtepi32_ps(sum);
}

/* The values of a group (BO_S4_GROUP) whose four quads of bytes are `stride` bytes apart. */
static inline void decode_group(const uint8_t *codes, size_t stride, int8_t *values)
{
    const __m256i table = _mm256_broadcastsi128_si256(_mm_setr_epi8(BO_S4_VALUES));
    int quads[4];
    _Pragma("GCC unroll 4") for (size_t i = 0; i < 4; i++) memcpy(&quads[i], codes + i * stride, sizeof *quads);
    __m128i pairs = _mm_setr_epi32(quads[0], quads[1], quads[2], quads[3]);
    __m256i halves = _mm256_inserti128_si256(_mm256_castsi128_si256(pairs), _mm_srli_epi16(pairs, 4), 1);
    __m256i bytes = _mm256_shuffle_epi8(table, _mm256_and_si256(halves, _mm256_set1_epi8(15)));
    _mm256_storeu_si256((__m256i *)values, bytes);
}

/* Adds the products of the values of 64 codes and 64 bytes, four per lane: the products of even bytes and of odd bytes
 * as shorts. */
static inline vi add_codes(vi sum, vi codes, const int8_t *x)
{
    const vi values = _mm512_broadcast_i32x4(_mm_setr_epi8(BO_S4_VALUES));
    vi w = _mm512_shuffle_epi8(values, _mm512_and_si512(codes, _mm512_set1_epi8(15)));
    vi bytes = _mm512_loadu_si512(x);
    vi even = _mm512_srai_epi16(_mm512_slli_epi16(w, 8), 8);
    vi even_x = _mm512_srai_epi16(_mm512_slli_epi16(bytes, 8), 8);
    vi odd = _mm512_madd_epi16(_mm512_srai_epi16(w, 8), _mm512_srai_epi16(bytes, 8));
    return _mm512_add_epi32(sum, _mm512_add_epi32(_mm512_madd_epi16(even, even_x), odd));
}

/* The exact sums of LANES groups of a whole block, one per lane. `x`: the bytes of these groups. */
static inline v v_dot_codes(const uint8_t *codes, const int8_t *x)
{
    vi sum = _mm512_setzero_si512();
    _Pragma("GCC unroll 4") for (size_t i = 0; i < 4; i++)
    {
        vi pairs = _mm512_loadu_si512(codes + 64 * i);
        sum = add_codes(sum, pairs, x + 128 * i);
        sum = add_codes(sum, _mm512_srli_epi16(pairs, 4), x + 128 * i + 64);
    }
    return _mm512_cvtepi32_ps(sum);
}

/* bfloat16 is the upper half of a float. */
static inline v v_load_bf16(const uint16_t *p)
{
    __m256i halves = _mm256_loadu_si256((const __m256i *)p);
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(halves), 16));
}

/* Widens a pair of bfloat16 and repeats it. */
static inline v v_load_bf16_pair(const uint16_t *p)
{
    uint32_t pair;
    memcpy(&pair, p, sizeof pair);
    uint64_t wide = (uint64_t)(pair & 0xffff0000u) << 32 | (uint32_t)(pair << 16);
    return _mm512_castsi512_ps(_mm512_set1_epi64((long long)wide));
}

/* Rounds to nearest, ties to even, by a carry out of the lower half; NaN stays NaN. */
static inline void v_store_bf16(uint16_t *p, v x)
{
    vi bits = _mm512_castps_si512(x), odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    vi rounded = _mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff)));
    vi quiet = _mm512_or_si512(bits, _mm512_set1_epi32(0x400000));
    rounded = _mm512_mask_mov_epi32(rounded, _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q), quiet);
    _mm256_storeu_si256((__m256i *)p, _mm512_cvtepi32_epi16(_mm512_srli_epi32(rounded, 16)));
}

/* True if the magnitude of some lane exceeds limit, or some lane is NaN. */
static inline bool v_any_beyond(v x, float limit)
{
    return _mm512_cmp_ps_mask(_mm512_abs_ps(x), _mm512_set1_ps(limit), _CMP_NLE_UQ) != 0;
}

/* Per lane: |x| > limit or NaN ? beyond : within */
static inline v v_choose_beyond(v x, float limit, v within, v beyond)
{
    __mmask16 far = _mm512_cmp_ps_mask(_mm512_abs_ps(x), _mm512_set1_ps(limit), _CMP_NLE_UQ);
    return _mm512_mask_blend_ps(far, within, beyond);
}

/* Per lane: q odd ? odd : even */
static inline v v_choose_odd(vi q, v even, v odd)
{
    return _mm512_mask_blend_ps(_mm512_test_epi32_mask(q, _mm512_set1_epi32(1)), even, odd);
}

/* -x in lanes where bit 1 of q + plus is set, else x */
static inline v v_negate_by(v x, vi q, int plus)
{
    vi bit = _mm512_and_si512(_mm512_add_epi32(q, _mm512_set1_epi32(plus)), _mm512_set1_epi32(2));
    return _mm512_castsi512_ps(_mm512_xor_si512(_mm512_castps_si512(x), _mm512_slli_epi32(bit, 30)));
}

/* x 2^n for a result in the normal range */
static inline v v_scale(v x, v n)
{
    return _mm512_scalef_ps(x, n);
}

/* x 2^n, or 0 in lanes with t < lowest */
static inline v v_scale_above(v x, v n, v t, float lowest)
{
    return _mm512_maskz_scalef_ps(_mm512_cmp_ps_mask(t, _mm512_set1_ps(lowest), _CMP_NLT_UQ), x, n);
}

/* value, or 0 in lanes with t < lowest and inf in lanes with t > highest */
static inline v v_flush(v value, v t, float lowest, float highest)
{
    __mmask16 low = _mm512_cmp_ps_mask(t, _mm512_set1_ps(lowest), _CMP_LT_OQ);
    __mmask16 high = _mm512_cmp_ps_mask(t, _mm512_set1_ps(highest), _CMP_GT_OQ);
    value = _mm512_mask_mov_ps(value, low, _mm512_setzero_ps());
    return _mm512_mask_mov_ps(value, high, _mm512_set1_ps(__builtin_inff()));
}

/* Splits |x| = m 2^e, 1 <= m < 2, for normal x: returns m and writes e to *exponent. */
static inline v v_split(v x, v *exponent)
{
    *exponent = _mm512_getexp_ps(x);
    return _mm512_getmant_ps(x, _MM_MANT_NORM_1_2, _MM_MANT_SIGN_zero);
}

/* The sum of the lanes, and their maximum. */
static inline float v_sum(v x)
{
    return _mm512_reduce_add_ps(x);
}

static inline float v_largest(v x)
{
    return _mm512_reduce_max_ps(x);
}

static inline vi i_set(uint32_t x)
{
    return _mm512_set1_epi32((int)x);
}

/* Returns x, x + 1, … in consecutive lanes. */
static inline vi i_count(uint32_t x)
{
    return _mm512_add_epi32(i_set(x), _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15));
}

static inline vi i_xor(vi a, vi b)
{
    return _mm512_xor_si512(a, b);
}

/* Computes the upper and lower halves of the unsigned products a factor: even lanes, then odd lanes. */
static inline void i_multiply(vi a, uint32_t factor, vi *high, vi *low)
{
    vi f = i_set(factor), even = _mm512_mul_epu32(a, f), odd = _mm512_mul_epu32(_mm512_srli_epi64(a, 32), f);
    *high = _mm512_mask_mov_epi32(_mm512_srli_epi64(even, 32), 0xaaaa, odd);
    *low = _mm512_mask_mov_epi32(even, 0xaaaa, _mm512_slli_epi64(odd, 32));
}

static inline void i_store(uint32_t *p, vi x)
{
    _mm512_storeu_si512(p, x);
}

static inline d d_set(double x)
{
    return _mm512_set1_pd(x);
}

static inline d d_load(const double *p)
{
    return _mm512_loadu_pd(p);
}

static inline d d_low(v x)
{
    return _mm512_cvtps_pd(_mm512_castps512_ps256(x));
}

static inline d d_high(v x)
{
    return _mm512_cvtps_pd(_mm512_extractf32x8_ps(x, 1));
}

static inline v d_join(d low, d high)
{
    return _mm512_insertf32x8(_mm512_castps256_ps512(_mm512_cvtpd_ps(low)), _mm512_cvtpd_ps(high), 1);
}

static inline d d_add(d a, d b)
{
    return _mm512_add_pd(a, b);
}

static inline d d_mul(d a, d b)
{
    return _mm512_mul_pd(a, b);
}

static inline d d_fma(d a, d b, d c)
{
    return _mm512_fmadd_pd(a, b, c);
}

static inline d d_fnma(d a, d b, d c)
{
    return _mm512_fnmadd_pd(a, b, c);
}

static inline d d_round(d x)
{
    return _mm512_roundscale_pd(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

static inline double d_sum(d x)
{
    return _mm512_reduce_add_pd(x);
}

/* Butterflies of the Walsh-Hadamard transform between lanes whose indices differ in one bit: the lower lane receives
 * the sum, the upper lane the difference. */
static inline v butterfly(v x, v partner, __mmask16 upper)
{
    return _mm512_add_ps(partner, _mm512_mask_sub_ps(x, upper, _mm512_setzero_ps(), x));
}

static inline v v_hadamard(v x)
{
    x = butterfly(x, _mm512_permute_ps(x, 0xb1), 0xaaaa);
    x = butterfly(x, _mm512_permute_ps(x, 0x4e), 0xcccc);
    x = butterfly(x, _mm512_shuffle_f32x4(x, x, 0xb1), 0xf0f0);
    return butterfly(x, _mm512_shuffle_f32x4(x, x, 0x4e), 0xff00);
}

/* Interleaves pairs of rows, then pairs of pairs, then exchanges quarters twice. */
static inline void v_transpose(v x[16])
{
    v y[16];
    _Pragma("GCC unroll 8") for (int i = 0; i < 16; i += 2)
    {
        y[i] = _mm512_unpacklo_ps(x[i], x[i + 1]);
        y[i + 1] = _mm512_unpackhi_ps(x[i], x[i + 1]);
    }
    _Pragma("GCC unroll 4") for (int i = 0; i < 16; i += 4)
    {
        x[i] = _mm512_shuffle_ps(y[i], y[i + 2], 0x44);
        x[i + 1] = _mm512_shuffle_ps(y[i], y[i + 2], 0xee);
        x[i + 2] = _mm512_shuffle_ps(y[i + 1], y[i + 3], 0x44);
        x[i + 3] = _mm512_shuffle_ps(y[i + 1], y[i + 3], 0xee);
    }
    _Pragma("GCC unroll 4") for (int i = 0; i < 4; i++)
    {
        y[i] = _mm512_shuffle_f32x4(x[i], x[i + 4], 0x88);
        y[i + 4] = _mm512_shuffle_f32x4(x[i], x[i + 4], 0xdd);
        y[i + 8] = _mm512_shuffle_f32x4(x[i + 8], x[i + 12], 0x88);
        y[i + 12] = _mm512_shuffle_f32x4(x[i + 8], x[i + 12], 0xdd);
    }
    _Pragma("GCC unroll 8") for (int i = 0; i < 8; i++)
    {
        x[i] = _mm512_shuffle_f32x4(y[i], y[i + 8], 0x88);
        x[i + 8] = _mm512_shuffle_f32x4(y[i], y[i + 8], 0xdd);
    }
}

#endif
