/* The vector operations of src/device/cpu/simd/ in AVX2 with FMA: v is 8 floats, d is 4 doubles. */
#ifndef BO_KERNELS_AVX2_SIMD_H
#define BO_KERNELS_AVX2_SIMD_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <stdbool.h>
#include <immintrin.h>
#include "avx2.h" /* must precede the definition of ISA: it defines and undefines it */

enum { LANES = 8 };
typedef __m256 v;
typedef __m256d d;
typedef __m256i vi;

#define ISA(name)  bo_avx2_##name
#define V_REGISTER "v" /* constraint of an inline assembly operand of type v */

static inline v v_load(const float *p)
{
    return _mm256_loadu_ps(p);
}

static inline void v_store(float *p, v x)
{
    _mm256_storeu_ps(p, x);
}

/* Returns a mask with all bits set in the first n lanes. */
static inline vi part(size_t n)
{
    return _mm256_cmpgt_epi32(_mm256_set1_epi32((int)n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

/* Loads the first n < 8 lanes; the other lanes are zero. */
static inline v v_load_part(const float *p, size_t n)
{
    return _mm256_maskload_ps(p, part(n));
}

static inline void v_store_part(float *p, size_t n, v x)
{
    _mm256_maskstore_ps(p, part(n), x);
}

/* Returns the first n < 8 lanes of x and the remaining lanes of other. */
static inline v v_part(size_t n, v x, v other)
{
    return _mm256_blendv_ps(other, x, _mm256_castsi256_ps(part(n)));
}

static inline v v_set(float x)
{
    return _mm256_set1_ps(x);
}

static inline v v_add(v a, v b)
{
    return _mm256_add_ps(a, b);
}

static inline v v_sub(v a, v b)
{
    return _mm256_sub_ps(a, b);
}

static inline v v_mul(v a, v b)
{
    return _mm256_mul_ps(a, b);
}

static inline v v_div(v a, v b)
{
    return _mm256_div_ps(a, b);
}

/* a b + c and c - a b, rounded once */
static inline v v_fma(v a, v b, v c)
{
    return _mm256_fmadd_ps(a, b, c);
}

static inline v v_fnma(v a, v b, v c)
{
    return _mm256_fnmadd_ps(a, b, c);
}

static inline v v_round(v x)
{
    return _mm256_round_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

static inline v v_max(v a, v b)
{
    return _mm256_max_ps(a, b);
}

/* Returns b if either is NaN, like v_max. */
static inline v v_min(v a, v b)
{
    return _mm256_min_ps(a, b);
}

static inline v v_sqrt(v x)
{
    return _mm256_sqrt_ps(x);
}

static inline v v_size(v x)
{
    return _mm256_andnot_ps(_mm256_set1_ps(-0.0f), x);
}

/* Per lane: sign bit of x set (also for zeros) ? negative : other */
static inline v v_choose_negative(v x, v other, v negative)
{
    return _mm256_blendv_ps(other, negative, x);
}

/* max(x, 0); NaN stays NaN */
static inline v v_positive_part(v x)
{
    return _mm256_max_ps(_mm256_setzero_ps(), x);
}

static inline vi v_to_int(v x)
{
    return _mm256_cvtps_epi32(x);
}

/* Returns the nearest integers, clamped to [-127, 127], as the low 8 bytes; 0 for NaN. Clamping first does not change
 * the result, since the limits are integers. */
static inline __m128i v_to_bytes(v x)
{
    v clamped = _mm256_min_ps(_mm256_max_ps(x, _mm256_set1_ps(-127.0f)), _mm256_set1_ps(127.0f));
    vi whole = _mm256_cvtps_epi32(_mm256_and_ps(clamped, _mm256_cmp_ps(x, x, _CMP_ORD_Q)));
    __m128i shorts = _mm_packs_epi32(_mm256_castsi256_si128(whole), _mm256_extracti128_si256(whole, 1));
    return _mm_packs_epi16(shorts, shorts);
}

static inline void v_store_bytes(int8_t *p, v x)
{
    _mm_storel_epi64((__m128i *)p, v_to_bytes(x));
}

static inline void v_store_bytes_part(int8_t *p, size_t n, v x)
{
    int8_t bytes[16];
    _mm_storeu_si128((__m128i *)bytes, v_to_bytes(x));
    memcpy(p, bytes, n);
}

static inline v v_load_s8(const int8_t *p)
{
    return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)p)));
}

/* Stores the nearest integers, clamped to [-32767, 32767]; 0 for NaN. */
static inline void v_store_s16(int16_t *p, v x)
{
    v clamped = _mm256_min_ps(_mm256_max_ps(x, _mm256_set1_ps(-32767.0f)), _mm256_set1_ps(32767.0f));
    vi whole = _mm256_cvtps_epi32(_mm256_and_ps(clamped, _mm256_cmp_ps(x, x, _CMP_ORD_Q)));
    __m128i low = _mm256_castsi256_si128(whole), high = _mm256_extracti128_si256(whole, 1);
    _mm_storeu_si128((__m128i *)p, _mm_packs_epi32(low, high));
}

/* Multiplies 64 bytes by 64 shorts and sums per lane: exact if sums of products stay below 2^31, then rounded to
 * float. */
static inline v v_dot_group(const int8_t *w, const int16_t *x)
{
    vi sum = _mm256_setzero_si256();
    _Pragma("GCC unroll 4") for (size_t i = 0; i < 64; i += 16)
    {
        vi codes = _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)(w + i)));
        sum = _mm256_add_epi32(sum, _mm256_madd_epi16(codes, _mm256_loadu_si256((const vi *)(const void *)(x + i))));
    }
    return _mm256_cvtepi32_ps(sum);
}

/* The values of 16 codes, the lower halves of the bytes. */
static inline __m128i codes_to_bytes(__m128i codes)
{
    return _mm_shuffle_epi8(_mm_setr_epi8(BO_S4_VALUES), _mm_and_si128(codes, _mm_set1_epi8(15)));
}

/* The values of a group (BO_S4_GROUP) whose four quads of bytes are `stride` bytes apart. */
static inline void decode_group(const uint8_t *codes, size_t stride, int8_t *values)
{
    int quads[4];
    _Pragma("GCC unroll 4") for (size_t i = 0; i < 4; i++) memcpy(&quads[i], codes + i * stride, sizeof *quads);
    __m128i pairs = _mm_setr_epi32(quads[0], quads[1], quads[2], quads[3]);
    _mm_storeu_si128((__m128i *)values, codes_to_bytes(pairs));
    _mm_storeu_si128((__m128i *)(values + 16), codes_to_bytes(_mm_srli_epi16(pairs, 4)));
}

/* Adds the products of the values of 32 codes and 32 bytes in [-127, 127], four per lane. Two products of bytes fit in
 * 16 bits, because no value is -128. */
static inline vi add_codes(vi sum, vi codes, const int8_t *x)
{
    const vi values = _mm256_broadcastsi128_si256(_mm_setr_epi8(BO_S4_VALUES));
    vi w = _mm256_shuffle_epi8(values, _mm256_and_si256(codes, _mm256_set1_epi8(15)));
    vi bytes = _mm256_loadu_si256((const vi *)(const void *)x);
    vi pairs = _mm256_maddubs_epi16(_mm256_abs_epi8(bytes), _mm256_sign_epi8(w, bytes));
    return _mm256_add_epi32(sum, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
}

/* The exact sums of LANES groups of a whole block, one per lane. `x`: the bytes of these groups. */
static inline v v_dot_codes(const uint8_t *codes, const int8_t *x)
{
    vi sum = _mm256_setzero_si256();
    _Pragma("GCC unroll 4") for (size_t i = 0; i < 4; i++)
    {
        vi pairs = _mm256_loadu_si256((const vi *)(const void *)(codes + 64 * i));
        sum = add_codes(sum, pairs, x + 128 * i);
        sum = add_codes(sum, _mm256_srli_epi16(pairs, 4), x + 128 * i + 64);
    }
    return _mm256_cvtepi32_ps(sum);
}

/* bfloat16 is the upper half of a float. */
static inline v v_load_bf16(const uint16_t *p)
{
    vi halves = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)p));
    return _mm256_castsi256_ps(_mm256_slli_epi32(halves, 16));
}

/* Widens a pair of bfloat16 and repeats it. */
static inline v v_load_bf16_pair(const uint16_t *p)
{
    uint32_t pair;
    memcpy(&pair, p, sizeof pair);
    uint64_t wide = (uint64_t)(pair & 0xffff0000u) << 32 | (uint32_t)(pair << 16);
    return _mm256_castsi256_ps(_mm256_set1_epi64x((long long)wide));
}

/* Rounds to nearest, ties to even, by a carry out of the lower half; NaN stays NaN. */
static inline void v_store_bf16(uint16_t *p, v x)
{
    vi bits = _mm256_castps_si256(x), odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    vi rounded = _mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));
    vi quiet = _mm256_or_si256(bits, _mm256_set1_epi32(0x400000));
    rounded = _mm256_blendv_epi8(rounded, quiet, _mm256_castps_si256(_mm256_cmp_ps(x, x, _CMP_UNORD_Q)));
    rounded = _mm256_srli_epi32(rounded, 16);
    __m128i halves = _mm_packus_epi32(_mm256_castsi256_si128(rounded), _mm256_extracti128_si256(rounded, 1));
    _mm_storeu_si128((__m128i *)p, halves);
}

/* True if the magnitude of some lane exceeds limit, or some lane is NaN. */
static inline bool v_any_beyond(v x, float limit)
{
    v size = _mm256_andnot_ps(_mm256_set1_ps(-0.0f), x);
    return _mm256_movemask_ps(_mm256_cmp_ps(size, _mm256_set1_ps(limit), _CMP_NLE_UQ)) != 0;
}

/* Per lane: |x| > limit or NaN ? beyond : within */
static inline v v_choose_beyond(v x, float limit, v within, v beyond)
{
    v size = _mm256_andnot_ps(_mm256_set1_ps(-0.0f), x);
    return _mm256_blendv_ps(within, beyond, _mm256_cmp_ps(size, _mm256_set1_ps(limit), _CMP_NLE_UQ));
}

/* Per lane: q odd ? odd : even */
static inline v v_choose_odd(vi q, v even, v odd)
{
    return _mm256_blendv_ps(even, odd, _mm256_castsi256_ps(_mm256_slli_epi32(q, 31)));
}

/* -x in lanes where bit 1 of q + plus is set, else x */
static inline v v_negate_by(v x, vi q, int plus)
{
    vi bit = _mm256_and_si256(_mm256_add_epi32(q, _mm256_set1_epi32(plus)), _mm256_set1_epi32(2));
    return _mm256_xor_ps(x, _mm256_castsi256_ps(_mm256_slli_epi32(bit, 30)));
}

/* 2^n for integers -126 <= n <= 127 */
static inline v power_of_two(vi n)
{
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(n, _mm256_set1_epi32(127)), 23));
}

/* x 2^n for a result in the normal range, in two steps: 2^128 is not a float although x 2^128 may be one */
static inline v v_scale(v x, v n)
{
    vi whole = _mm256_cvtps_epi32(n), half = _mm256_srai_epi32(whole, 1);
    return _mm256_mul_ps(_mm256_mul_ps(x, power_of_two(half)), power_of_two(_mm256_sub_epi32(whole, half)));
}

/* x 2^n, or 0 in lanes with t < lowest */
static inline v v_scale_above(v x, v n, v t, float lowest)
{
    return _mm256_andnot_ps(_mm256_cmp_ps(t, _mm256_set1_ps(lowest), _CMP_LT_OQ), v_scale(x, n));
}

/* value, or 0 in lanes with t < lowest and inf in lanes with t > highest */
static inline v v_flush(v value, v t, float lowest, float highest)
{
    v low = _mm256_cmp_ps(t, _mm256_set1_ps(lowest), _CMP_LT_OQ);
    v high = _mm256_cmp_ps(t, _mm256_set1_ps(highest), _CMP_GT_OQ);
    return _mm256_blendv_ps(_mm256_andnot_ps(low, value), _mm256_set1_ps(__builtin_inff()), high);
}

/* Splits |x| = m 2^e, 1 <= m < 2, for normal x: returns m and writes e to *exponent. */
static inline v v_split(v x, v *exponent)
{
    vi bits = _mm256_and_si256(_mm256_castps_si256(x), _mm256_set1_epi32(0x7fffffff));
    *exponent = _mm256_cvtepi32_ps(_mm256_sub_epi32(_mm256_srli_epi32(bits, 23), _mm256_set1_epi32(127)));
    vi mantissa = _mm256_and_si256(bits, _mm256_set1_epi32(0x7fffff));
    return _mm256_castsi256_ps(_mm256_or_si256(mantissa, _mm256_set1_epi32(0x3f800000)));
}

/* The sum of the lanes, and their maximum. */
static inline float v_sum(v x)
{
    __m128 four = _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}

static inline float v_largest(v x)
{
    __m128 four = _mm_max_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
}

static inline vi i_set(uint32_t x)
{
    return _mm256_set1_epi32((int)x);
}

/* Returns x, x + 1, … in consecutive lanes. */
static inline vi i_count(uint32_t x)
{
    return _mm256_add_epi32(i_set(x), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

static inline vi i_xor(vi a, vi b)
{
    return _mm256_xor_si256(a, b);
}

/* Computes the upper and lower halves of the unsigned products a factor: even lanes, then odd lanes. */
static inline void i_multiply(vi a, uint32_t factor, vi *high, vi *low)
{
    vi f = i_set(factor), even = _mm256_mul_epu32(a, f), odd = _mm256_mul_epu32(_mm256_srli_epi64(a, 32), f);
    *high = _mm256_blend_epi32(_mm256_srli_epi64(even, 32), odd, 0xaa);
    *low = _mm256_blend_epi32(even, _mm256_slli_epi64(odd, 32), 0xaa);
}

static inline void i_store(uint32_t *p, vi x)
{
    _mm256_storeu_si256((__m256i *)p, x);
}

static inline d d_set(double x)
{
    return _mm256_set1_pd(x);
}

static inline d d_load(const double *p)
{
    return _mm256_loadu_pd(p);
}

static inline d d_low(v x)
{
    return _mm256_cvtps_pd(_mm256_castps256_ps128(x));
}

static inline d d_high(v x)
{
    return _mm256_cvtps_pd(_mm256_extractf128_ps(x, 1));
}

static inline v d_join(d low, d high)
{
    return _mm256_insertf128_ps(_mm256_castps128_ps256(_mm256_cvtpd_ps(low)), _mm256_cvtpd_ps(high), 1);
}

static inline d d_add(d a, d b)
{
    return _mm256_add_pd(a, b);
}

static inline d d_mul(d a, d b)
{
    return _mm256_mul_pd(a, b);
}

static inline d d_fma(d a, d b, d c)
{
    return _mm256_fmadd_pd(a, b, c);
}

static inline d d_fnma(d a, d b, d c)
{
    return _mm256_fnmadd_pd(a, b, c);
}

static inline d d_round(d x)
{
    return _mm256_round_pd(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

static inline double d_sum(d x)
{
    double lane[4];
    _mm256_storeu_pd(lane, x);
    return (lane[0] + lane[1]) + (lane[2] + lane[3]);
}

/* Butterflies of the Walsh-Hadamard transform between lanes whose indices differ in one bit: the lower lane receives
 * the sum, the upper lane the difference. `signs` is -0 in the upper lanes. */
static inline v butterfly(v x, v partner, v signs)
{
    return _mm256_add_ps(partner, _mm256_xor_ps(x, signs));
}

static inline v v_hadamard(v x)
{
    x = butterfly(x, _mm256_permute_ps(x, 0xb1), _mm256_setr_ps(0, -0.0f, 0, -0.0f, 0, -0.0f, 0, -0.0f));
    x = butterfly(x, _mm256_permute_ps(x, 0x4e), _mm256_setr_ps(0, 0, -0.0f, -0.0f, 0, 0, -0.0f, -0.0f));
    return butterfly(x, _mm256_permute2f128_ps(x, x, 1), _mm256_setr_ps(0, 0, 0, 0, -0.0f, -0.0f, -0.0f, -0.0f));
}

/* Interleaves pairs of rows, then pairs of pairs, then exchanges halves. */
static inline void v_transpose(v x[8])
{
    v y[8];
    _Pragma("GCC unroll 4") for (int i = 0; i < 8; i += 2)
    {
        y[i] = _mm256_unpacklo_ps(x[i], x[i + 1]);
        y[i + 1] = _mm256_unpackhi_ps(x[i], x[i + 1]);
    }
    _Pragma("GCC unroll 2") for (int i = 0; i < 8; i += 4)
    {
        x[i] = _mm256_shuffle_ps(y[i], y[i + 2], 0x44);
        x[i + 1] = _mm256_shuffle_ps(y[i], y[i + 2], 0xee);
        x[i + 2] = _mm256_shuffle_ps(y[i + 1], y[i + 3], 0x44);
        x[i + 3] = _mm256_shuffle_ps(y[i + 1], y[i + 3], 0xee);
    }
    _Pragma("GCC unroll 4") for (int i = 0; i < 4; i++)
    {
        y[i] = _mm256_permute2f128_ps(x[i], x[i + 4], 0x20);
        y[i + 4] = _mm256_permute2f128_ps(x[i], x[i + 4], 0x31);
    }
    _Pragma("GCC unroll 8") for (int i = 0; i < 8; i++) x[i] = y[i];
}

#endif
