/* The vector operations of src/device/cpu/simd/ in NEON (Advanced SIMD of AArch64): v is 4 floats, d is 2 doubles. */
#ifndef BO_KERNELS_NEON_SIMD_H
#define BO_KERNELS_NEON_SIMD_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <stdbool.h>
#include <arm_neon.h>
#include "neon.h" /* must precede the definition of ISA: it defines and undefines it */

enum { LANES = 4 };
typedef float32x4_t v;
typedef float64x2_t d;
typedef uint32x4_t vi;

#define ISA(name)  bo_neon_##name
#define V_REGISTER "w" /* constraint of an inline assembly operand of type v */

static inline v v_load(const float *p)
{
    return vld1q_f32(p);
}

static inline void v_store(float *p, v x)
{
    vst1q_f32(p, x);
}

static inline v v_set(float x)
{
    return vdupq_n_f32(x);
}

static inline vi i_set(uint32_t x)
{
    return vdupq_n_u32(x);
}

/* Returns x, x + 1, … in consecutive lanes. */
static inline vi i_count(uint32_t x)
{
    return vaddq_u32(i_set(x), (vi){0, 1, 2, 3});
}

/* Loads the first n < 4 lanes; the other lanes are zero. */
static inline v v_load_part(const float *p, size_t n)
{
    v x = v_set(0.0f);
    if (n > 0) x = vld1q_lane_f32(p, x, 0);
    if (n > 1) x = vld1q_lane_f32(p + 1, x, 1);
    if (n > 2) x = vld1q_lane_f32(p + 2, x, 2);
    return x;
}

static inline void v_store_part(float *p, size_t n, v x)
{
    if (n > 0) vst1q_lane_f32(p, x, 0);
    if (n > 1) vst1q_lane_f32(p + 1, x, 1);
    if (n > 2) vst1q_lane_f32(p + 2, x, 2);
}

/* Returns the first n < 4 lanes of x and the remaining lanes of other. */
static inline v v_part(size_t n, v x, v other)
{
    return vbslq_f32(vcltq_u32(i_count(0), i_set((uint32_t)n)), x, other);
}

static inline v v_add(v a, v b)
{
    return vaddq_f32(a, b);
}

static inline v v_sub(v a, v b)
{
    return vsubq_f32(a, b);
}

static inline v v_mul(v a, v b)
{
    return vmulq_f32(a, b);
}

static inline v v_div(v a, v b)
{
    return vdivq_f32(a, b);
}

/* a b + c and c - a b, rounded once */
static inline v v_fma(v a, v b, v c)
{
    return vfmaq_f32(c, a, b);
}

static inline v v_fnma(v a, v b, v c)
{
    return vfmsq_f32(c, a, b);
}

static inline v v_round(v x)
{
    return vrndnq_f32(x);
}

/* Returns NaN if either operand is NaN. */
static inline v v_max(v a, v b)
{
    return vmaxq_f32(a, b);
}

static inline v v_min(v a, v b)
{
    return vminq_f32(a, b);
}

static inline v v_sqrt(v x)
{
    return vsqrtq_f32(x);
}

static inline v v_size(v x)
{
    return vabsq_f32(x);
}

/* Per lane: sign bit of x set (also for zeros) ? negative : other */
static inline v v_choose_negative(v x, v other, v negative)
{
    return vbslq_f32(vcltzq_s32(vreinterpretq_s32_f32(x)), negative, other);
}

/* max(x, 0); NaN stays NaN */
static inline v v_positive_part(v x)
{
    return vmaxq_f32(v_set(0.0f), x);
}

static inline vi v_to_int(v x)
{
    return vreinterpretq_u32_s32(vcvtnq_s32_f32(x));
}

/* Returns the nearest integers, clamped to [-limit, limit]; the conversion turns NaN into 0. */
static inline int16x4_t v_to_shorts(v x, float limit)
{
    return vmovn_s32(vcvtnq_s32_f32(vminq_f32(vmaxq_f32(x, v_set(-limit)), v_set(limit))));
}

/* Stores them, in [-127, 127], as bytes. */
static inline void v_store_bytes_part(int8_t *p, size_t n, v x)
{
    int16x4_t shorts = v_to_shorts(x, 127.0f);
    int8x8_t bytes = vmovn_s16(vcombine_s16(shorts, shorts));
    memcpy(p, &bytes, n);
}

static inline void v_store_bytes(int8_t *p, v x)
{
    v_store_bytes_part(p, LANES, x);
}

static inline v v_load_s8(const int8_t *p)
{
    uint32_t bytes;
    memcpy(&bytes, p, LANES);
    return vcvtq_f32_s32(vmovl_s16(vget_low_s16(vmovl_s8(vreinterpret_s8_u32(vdup_n_u32(bytes))))));
}

/* Stores the nearest integers, clamped to [-32767, 32767]; 0 for NaN. */
static inline void v_store_s16(int16_t *p, v x)
{
    vst1_s16(p, v_to_shorts(x, 32767.0f));
}

/* Multiplies 64 bytes by 64 shorts and sums per lane: exact if sums of products stay below 2^31, then rounded to
 * float. */
static inline v v_dot_group(const int8_t *w, const int16_t *x)
{
    int32x4_t low = vdupq_n_s32(0), high = low;
    _Pragma("GCC unroll 8") for (size_t i = 0; i < 64; i += 8)
    {
        int16x8_t codes = vmovl_s8(vld1_s8(w + i)), factors = vld1q_s16(x + i);
        low = vmlal_s16(low, vget_low_s16(codes), vget_low_s16(factors));
        high = vmlal_high_s16(high, codes, factors);
    }
    return vcvtq_f32_s32(vaddq_s32(low, high));
}

/* The values of 16 codes. */
static inline int8x16_t codes_to_bytes(uint8x16_t codes)
{
    static const int8_t values[] = {BO_S4_VALUES};
    return vqtbl1q_s8(vld1q_s8(values), codes);
}

/* The values of a group (BO_S4_GROUP) whose four quads of bytes are `stride` bytes apart. */
static inline void decode_group(const uint8_t *codes, size_t stride, int8_t *values)
{
    uint32_t quads[4];
    for (size_t i = 0; i < 4; i++) memcpy(&quads[i], codes + i * stride, sizeof *quads);
    uint8x16_t pairs = vreinterpretq_u8_u32(vld1q_u32(quads));
    vst1q_s8(values, codes_to_bytes(vandq_u8(pairs, vdupq_n_u8(15))));
    vst1q_s8(values + 16, codes_to_bytes(vshrq_n_u8(pairs, 4)));
}

/* Adds the products of 16 bytes in [-127, 127], four per lane. Two products of bytes fit in 16 bits, because no value
 * is -128. */
static inline int32x4_t add_bytes(int32x4_t sum, int8x16_t w, int8x16_t x)
{
    int16x8_t low = vmull_s8(vget_low_s8(w), vget_low_s8(x)), high = vmull_high_s8(w, x);
    return vpadalq_s16(sum, vpaddq_s16(low, high));
}

/* The exact sums of LANES groups of a whole block, one per lane. `x`: the bytes of these groups. */
static inline v v_dot_codes(const uint8_t *codes, const int8_t *x)
{
    int32x4_t sum = vdupq_n_s32(0);
    _Pragma("GCC unroll 4") for (size_t i = 0; i < 4; i++)
    {
        uint8x16_t pairs = vld1q_u8(codes + 64 * i);
        sum = add_bytes(sum, codes_to_bytes(vandq_u8(pairs, vdupq_n_u8(15))), vld1q_s8(x + 128 * i));
        sum = add_bytes(sum, codes_to_bytes(vshrq_n_u8(pairs, 4)), vld1q_s8(x + 128 * i + 64));
    }
    return vcvtq_f32_s32(sum);
}

/* bfloat16 is the upper half of a float. */
static inline v v_load_bf16(const uint16_t *p)
{
    return vreinterpretq_f32_u32(vshll_n_u16(vld1_u16(p), 16));
}

/* Widens a pair of bfloat16 and repeats it. */
static inline v v_load_bf16_pair(const uint16_t *p)
{
    uint32_t pair;
    memcpy(&pair, p, sizeof pair);
    uint64_t wide = (uint64_t)(pair & 0xffff0000u) << 32 | (uint32_t)(pair << 16);
    return vreinterpretq_f32_u64(vdupq_n_u64(wide));
}

/* Rounds to nearest, ties to even, by a carry out of the lower half; NaN stays NaN. */
static inline void v_store_bf16(uint16_t *p, v x)
{
    vi bits = vreinterpretq_u32_f32(x), odd = vandq_u32(vshrq_n_u32(bits, 16), i_set(1));
    vi rounded = vaddq_u32(bits, vaddq_u32(odd, i_set(0x7fff)));
    rounded = vbslq_u32(vceqq_f32(x, x), rounded, vorrq_u32(bits, i_set(0x400000)));
    vst1_u16(p, vshrn_n_u32(rounded, 16));
}

/* Returns a mask: all bits set in lanes with |x| <= limit. */
static inline vi within(v x, float limit)
{
    return vcleq_f32(vabsq_f32(x), v_set(limit));
}

/* True if the magnitude of some lane exceeds limit, or some lane is NaN. */
static inline bool v_any_beyond(v x, float limit)
{
    return vminvq_u32(within(x, limit)) == 0;
}

/* Per lane: |x| > limit or NaN ? beyond : inside */
static inline v v_choose_beyond(v x, float limit, v inside, v beyond)
{
    return vbslq_f32(within(x, limit), inside, beyond);
}

/* Per lane: q odd ? odd : even */
static inline v v_choose_odd(vi q, v even, v odd)
{
    return vbslq_f32(vtstq_u32(q, i_set(1)), odd, even);
}

/* -x in lanes where bit 1 of q + plus is set, else x */
static inline v v_negate_by(v x, vi q, int plus)
{
    vi bit = vandq_u32(vaddq_u32(q, i_set((uint32_t)plus)), i_set(2));
    return vreinterpretq_f32_u32(veorq_u32(vreinterpretq_u32_f32(x), vshlq_n_u32(bit, 30)));
}

/* 2^n for integers -126 <= n <= 127 */
static inline v power_of_two(int32x4_t n)
{
    return vreinterpretq_f32_s32(vshlq_n_s32(vaddq_s32(n, vdupq_n_s32(127)), 23));
}

/* x 2^n for a result in the normal range, in two steps: 2^128 is not a float although x 2^128 may be one */
static inline v v_scale(v x, v n)
{
    int32x4_t whole = vcvtnq_s32_f32(n), half = vshrq_n_s32(whole, 1);
    return vmulq_f32(vmulq_f32(x, power_of_two(half)), power_of_two(vsubq_s32(whole, half)));
}

/* x 2^n, or 0 in lanes with t < lowest */
static inline v v_scale_above(v x, v n, v t, float lowest)
{
    return vbslq_f32(vcltq_f32(t, v_set(lowest)), v_set(0.0f), v_scale(x, n));
}

/* value, or 0 in lanes with t < lowest and inf in lanes with t > highest */
static inline v v_flush(v value, v t, float lowest, float highest)
{
    value = vbslq_f32(vcltq_f32(t, v_set(lowest)), v_set(0.0f), value);
    return vbslq_f32(vcgtq_f32(t, v_set(highest)), v_set(__builtin_inff()), value);
}

/* Splits |x| = m 2^e, 1 <= m < 2, for normal x: returns m and writes e to *exponent. */
static inline v v_split(v x, v *exponent)
{
    vi bits = vreinterpretq_u32_f32(vabsq_f32(x));
    *exponent = vcvtq_f32_s32(vsubq_s32(vreinterpretq_s32_u32(vshrq_n_u32(bits, 23)), vdupq_n_s32(127)));
    return vreinterpretq_f32_u32(vorrq_u32(vandq_u32(bits, i_set(0x7fffff)), i_set(0x3f800000)));
}

/* The sum of the lanes, and their maximum. */
static inline float v_sum(v x)
{
    return vaddvq_f32(x);
}

static inline float v_largest(v x)
{
    return vmaxvq_f32(x);
}

static inline vi i_xor(vi a, vi b)
{
    return veorq_u32(a, b);
}

/* Computes the upper and lower halves of the unsigned products a factor. */
static inline void i_multiply(vi a, uint32_t factor, vi *high, vi *low)
{
    vi first = vreinterpretq_u32_u64(vmull_n_u32(vget_low_u32(a), factor));
    vi second = vreinterpretq_u32_u64(vmull_high_n_u32(a, factor));
    *high = vuzp2q_u32(first, second);
    *low = vuzp1q_u32(first, second);
}

static inline void i_store(uint32_t *p, vi x)
{
    vst1q_u32(p, x);
}

static inline d d_set(double x)
{
    return vdupq_n_f64(x);
}

static inline d d_load(const double *p)
{
    return vld1q_f64(p);
}

static inline d d_low(v x)
{
    return vcvt_f64_f32(vget_low_f32(x));
}

static inline d d_high(v x)
{
    return vcvt_high_f64_f32(x);
}

static inline v d_join(d low, d high)
{
    return vcvt_high_f32_f64(vcvt_f32_f64(low), high);
}

static inline d d_add(d a, d b)
{
    return vaddq_f64(a, b);
}

static inline d d_mul(d a, d b)
{
    return vmulq_f64(a, b);
}

static inline d d_fma(d a, d b, d c)
{
    return vfmaq_f64(c, a, b);
}

static inline d d_fnma(d a, d b, d c)
{
    return vfmsq_f64(c, a, b);
}

static inline d d_round(d x)
{
    return vrndnq_f64(x);
}

static inline double d_sum(d x)
{
    return vaddvq_f64(x);
}

/* Butterflies of the Walsh-Hadamard transform between lanes whose indices differ in one bit: the lower lane receives
 * the sum, the upper lane the difference. `signs` is the sign bit in the upper lanes. */
static inline v butterfly(v x, v partner, vi signs)
{
    return vaddq_f32(partner, vreinterpretq_f32_u32(veorq_u32(vreinterpretq_u32_f32(x), signs)));
}

static inline v v_hadamard(v x)
{
    x = butterfly(x, vrev64q_f32(x), (vi){0, 0x80000000u, 0, 0x80000000u});
    return butterfly(x, vextq_f32(x, x, 2), (vi){0, 0, 0x80000000u, 0x80000000u});
}

/* Returns lane 0 (or 1) of each pair of lanes: first of a, then of b. */
static inline v first_pairs(v a, v b)
{
    return vreinterpretq_f32_f64(vtrn1q_f64(vreinterpretq_f64_f32(a), vreinterpretq_f64_f32(b)));
}

static inline v second_pairs(v a, v b)
{
    return vreinterpretq_f32_f64(vtrn2q_f64(vreinterpretq_f64_f32(a), vreinterpretq_f64_f32(b)));
}

static inline void v_transpose(v x[4])
{
    v even01 = vtrn1q_f32(x[0], x[1]), odd01 = vtrn2q_f32(x[0], x[1]);
    v even23 = vtrn1q_f32(x[2], x[3]), odd23 = vtrn2q_f32(x[2], x[3]);
    x[0] = first_pairs(even01, even23), x[1] = first_pairs(odd01, odd23);
    x[2] = second_pairs(even01, even23), x[3] = second_pairs(odd01, odd23);
}

#endif
