/* Sine and cosine in the vector operations of the including file.
 *
 * x = n π/2 + r with |r| at most slightly above π/4, and polynomials in r (minimax on |r| <= 0.8: errors below 3e-9).
 * Up to FAST the reduction runs in float: π/2 is a sum of two floats; n times the first is subtracted exactly by FMA,
 * and the remainder beyond the second contributes less than 7e4 * 2e-15. Up to WIDE it runs in double in the same way;
 * the remainder contributes less than 2^40 * 2e-33. Beyond that, and for infinities and NaN, the plain C kernel
 * computes the vector: the C library reduces any double exactly. */

#define FAST 1e5f
#define WIDE 0x1p40f

/* Computes r and the quadrant n mod 4 (any representative) of t + tail, |tail| << 1. */
static inline v reduce_fast(v t, v tail, vi *quadrant)
{
    v n = v_round(v_mul(t, v_set(0x1.45f306p-1f)));
    v r = v_fnma(n, v_set(0x1.921fb6p+0f), t);
    *quadrant = v_to_int(n);
    return v_fnma(n, v_set(-0x1.777a5cp-25f), v_add(r, tail));
}

static inline d reduce_double(d t, d *quadrant)
{
    d n = d_round(d_mul(t, d_set(0x1.45f306dc9c883p-1)));
    d r = d_fnma(n, d_set(0x1.921fb54442d18p+0), t);
    *quadrant = d_fma(d_round(d_mul(n, d_set(0.25))), d_set(-4.0), n);
    return d_fnma(n, d_set(0x1.1a62633145c07p-54), r);
}

/* The shift is added after x is reduced: the sum of the two could round it away. */
static inline d reduce_wide_half(d x, d shift, d *quadrant)
{
    d first, second;
    d r = reduce_double(d_add(reduce_double(x, &first), shift), &second);
    *quadrant = d_add(first, second);
    return r;
}

static inline v reduce_wide(v x, v shift, vi *quadrant)
{
    d low, high;
    d r0 = reduce_wide_half(d_low(x), d_low(shift), &low), r1 = reduce_wide_half(d_high(x), d_high(shift), &high);
    *quadrant = v_to_int(d_join(low, high));
    return d_join(r0, r1);
}

static inline v sine(v r, v z)
{
    v p = v_fma(z, v_set(-0x1.98955ap-13f), v_set(0x1.1104d6p-7f));
    p = v_fma(z, p, v_set(-0x1.55553ep-3f));
    return v_fma(v_mul(r, z), p, r);
}

static inline v cosine(v z)
{
    v p = v_fma(z, v_set(0x1.99c84p-16f), v_set(-0x1.6c0bc4p-10f));
    p = v_fma(z, p, v_set(0x1.55554ap-5f));
    p = v_fma(z, p, v_set(-0.5f));
    return v_fma(z, p, v_set(1.0f));
}

/* Computes sine and cosine of n π/2 + r, times scale. */
static inline void sincos_reduced(v r, vi quadrant, v scale, v *s, v *c)
{
    v z = v_mul(r, r), sin_r = v_mul(scale, sine(r, z)), cos_r = v_mul(scale, cosine(z));
    *s = v_negate_by(v_choose_odd(quadrant, sin_r, cos_r), quadrant, 0);
    *c = v_negate_by(v_choose_odd(quadrant, cos_r, sin_r), quadrant, 1);
}

static inline v cos_reduced(v r, vi quadrant, v scale)
{
    v z = v_mul(r, r);
    return v_mul(scale, v_negate_by(v_choose_odd(quadrant, cosine(z), sine(r, z)), quadrant, 1));
}

/* Replaces the lanes that the fast reduction cannot handle. Not inlined: it is rare and must not use registers of the
 * loop. */
static __attribute__((noinline)) void sincos_beyond(v x, float scale, v *s, v *c)
{
    vi quadrant;
    v sin_x, cos_x, r = reduce_wide(x, v_set(0.0f), &quadrant);
    sincos_reduced(r, quadrant, v_set(scale), &sin_x, &cos_x);
    *s = v_choose_beyond(x, FAST, *s, sin_x);
    *c = v_choose_beyond(x, FAST, *c, cos_x);
    if (!v_any_beyond(x, WIDE)) return;
    float angle[LANES], sin_angle[LANES], cos_angle[LANES];
    v_store(angle, x);
    bo_ref_sincos(LANES, scale, angle, sin_angle, cos_angle);
    *s = v_choose_beyond(x, WIDE, *s, v_load(sin_angle));
    *c = v_choose_beyond(x, WIDE, *c, v_load(cos_angle));
}

static inline void sincos_vector(v x, float scale, v *s, v *c)
{
    vi quadrant;
    v r = reduce_fast(x, v_set(0.0f), &quadrant);
    sincos_reduced(r, quadrant, v_set(scale), s, c);
    if (__builtin_expect(v_any_beyond(x, FAST), 0)) sincos_beyond(x, scale, s, c);
}

void ISA(sincos)(size_t n, float scale, const float *x, float *s, float *c)
{
    v sin_x, cos_x;
    size_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        sincos_vector(v_load(x + i), scale, &sin_x, &cos_x);
        v_store(s + i, sin_x);
        v_store(c + i, cos_x);
    }
    if (i < n) {
        sincos_vector(v_load_part(x + i, n - i), scale, &sin_x, &cos_x);
        v_store_part(s + i, n - i, sin_x);
        v_store_part(c + i, n - i, cos_x);
    }
}

/* Like sincos_beyond, for the lanes in which the sum or one of its terms is large. */
static __attribute__((noinline)) v cos_shift_beyond(v x, v shift, v sum, float scale, v cosine_so_far)
{
    vi quadrant;
    v r = reduce_wide(x, shift, &quadrant), value = cos_reduced(r, quadrant, v_set(scale));
    value = v_choose_beyond(sum, FAST, v_choose_beyond(x, FAST, cosine_so_far, value), value);
    if (!v_any_beyond(x, WIDE) && !v_any_beyond(shift, FAST)) return value;
    float angle[LANES], more[LANES], exact[LANES];
    v_store(angle, x);
    v_store(more, shift);
    bo_ref_cos_shift(LANES, scale, angle, more, exact);
    return v_choose_beyond(shift, FAST, v_choose_beyond(x, WIDE, value, v_load(exact)), v_load(exact));
}

static inline v cos_shift_vector(v x, v shift, float scale)
{
    vi quadrant;
    v sum = v_add(x, shift), back = v_sub(sum, x);
    /* the rounding error of the sum, exactly (Knuth's two-sum) */
    v tail = v_add(v_sub(x, v_sub(sum, back)), v_sub(shift, back));
    v r = reduce_fast(sum, tail, &quadrant), value = cos_reduced(r, quadrant, v_set(scale));
    bool far = v_any_beyond(sum, FAST) || v_any_beyond(x, FAST) || v_any_beyond(shift, FAST);
    return __builtin_expect(far, 0) ? cos_shift_beyond(x, shift, sum, scale, value) : value;
}

void ISA(cos_shift)(size_t n, float scale, const float *x, const float *shift, float *y)
{
    size_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        v_store(y + i, cos_shift_vector(v_load(x + i), v_load(shift + i), scale));
    }
    if (i < n) {
        size_t rest = n - i;
        v_store_part(y + i, rest, cos_shift_vector(v_load_part(x + i, rest), v_load_part(shift + i, rest), scale));
    }
}

#undef FAST
#undef WIDE
