/* The exponential of a vector, in the vector operations of the including file. */
#ifndef BO_KERNELS_SIMD_EXP_VECTOR_H
#define BO_KERNELS_SIMD_EXP_VECTOR_H

/* exp(x + shift) from the sum t and its rounding error e: t = n ln 2 + r; 2^n (1 + r' + r'² p(r')) with r' = r + e, p
 * minimax on |r| <= 0.352 (total error 4e-9). The first function returns n, the second the term added to 1. */
static inline v exp_whole(v t)
{
    return v_round(v_mul(t, v_set(0x1.715476p+0f)));
}

static inline v exp_rest(v r)
{
    v p = v_fma(r, v_set(0x1.6dc126p-10f), v_set(0x1.1244b4p-7f));
    p = v_fma(r, p, v_set(0x1.55544ep-5f));
    p = v_fma(r, p, v_set(0x1.555482p-3f));
    p = v_fma(r, p, v_set(0.5f));
    return v_fma(v_mul(r, r), p, r);
}

static inline v exp_vector(v x, v shift)
{
    v t = v_add(x, shift), back = v_sub(t, x), n = exp_whole(t);
    v error = v_add(v_sub(x, v_sub(t, back)), v_sub(shift, back));
    v r = v_fnma(n, v_set(-0x1.05c61p-29f), v_add(v_fnma(n, v_set(0x1.62e43p-1f), t), error));
    return v_flush(v_scale(v_add(exp_rest(r), v_set(1.0f)), n), t, BO_EXP_LOWEST, BO_EXP_HIGHEST);
}

/* A variant for t <= 0 with an absolute error bound. The rounding errors of t and n ln 2 are not corrected; relative to
 * exp(t) they are at most |t| 2^-24, and |t| exp(t) < 0.37. */
static inline v exp_below_vector(v x, v shift)
{
    v t = v_add(x, shift);
    v n = v_round(v_mul(t, v_set(0x1.715476p+0f)));
    v r = v_fnma(n, v_set(0x1.62e43p-1f), t);
    v p = v_fma(r, v_set(0x1.6dc126p-10f), v_set(0x1.1244b4p-7f));
    p = v_fma(r, p, v_set(0x1.55544ep-5f));
    p = v_fma(r, p, v_set(0x1.555482p-3f));
    p = v_fma(r, p, v_set(0.5f));
    p = v_fma(v_mul(r, r), p, r);
    return v_scale_above(v_add(p, v_set(1.0f)), n, t, BO_EXP_LOWEST);
}

#endif
