/* The exponential and the elementwise kernels, in the vector operations of the including file. */

#include "exp_vector.h"

void ISA(exp_shift)(size_t n, const float *x, float shift, float *y)
{
    v more = v_set(shift);
    size_t i = 0;
    for (; i + LANES <= n; i += LANES) v_store(y + i, exp_vector(v_load(x + i), more));
    if (i < n) v_store_part(y + i, n - i, exp_vector(v_load_part(x + i, n - i), more));
}

void ISA(exp_below)(size_t n, const float *x, float shift, float *y)
{
    v more = v_set(shift);
    size_t i = 0;
    for (; i + LANES <= n; i += LANES) v_store(y + i, exp_below_vector(v_load(x + i), more));
    if (i < n) v_store_part(y + i, n - i, exp_below_vector(v_load_part(x + i, n - i), more));
}

/* log|x| = e ln 2 + log(1 + f), |x| = (1 + f) 2^e with 1 + f between √½ and √2; log(1 + f) = f - f²/2 + f³ p(f), p
 * minimax (total relative error 6e-9). */
static inline v log_size_vector(v x)
{
    v e, m = v_split(x, &e);
    e = v_choose_beyond(m, 0x1.6a09e6p+0f, e, v_add(e, v_set(1.0f)));
    v f = v_sub(v_choose_beyond(m, 0x1.6a09e6p+0f, m, v_mul(m, v_set(0.5f))), v_set(1.0f));
    v p = v_fma(f, v_set(-0x1.38b576p-4f), v_set(0x1.055b68p-3f));
    p = v_fma(f, p, v_set(-0x1.0d8542p-3f));
    p = v_fma(f, p, v_set(0x1.22da1ep-3f));
    p = v_fma(f, p, v_set(-0x1.547244p-3f));
    p = v_fma(f, p, v_set(0x1.99a008p-3f));
    p = v_fma(f, p, v_set(-0x1.000226p-2f));
    p = v_fma(f, p, v_set(0x1.555554p-2f));
    v square = v_mul(f, f);
    v low = v_fma(v_mul(square, f), p, v_fma(e, v_set(-0x1.05c61p-29f), v_mul(square, v_set(-0.5f))));
    return v_fma(e, v_set(0x1.62e43p-1f), v_add(f, low));
}

static inline v log_size_bounded(v a, v x)
{
    v y = v_mul(a, log_size_vector(x));
    y = v_choose_beyond(x, BO_LOG_LOWEST, v_set(-__builtin_inff()), y);
    return v_choose_beyond(x, BO_LOG_HIGHEST, y, v_set(__builtin_inff()));
}

void ISA(log_size)(size_t n, float a, const float *x, float *y)
{
    v factor = v_set(a);
    size_t i = 0;
    for (; i + LANES <= n; i += LANES) v_store(y + i, log_size_bounded(factor, v_load(x + i)));
    if (i < n) v_store_part(y + i, n - i, log_size_bounded(factor, v_load_part(x + i, n - i)));
}

/* Computes y and returns its sum, first per lane, then over the lanes. weigh: y is multiplied by its previous
 * values. */
static inline __attribute__((always_inline)) float exp_total(size_t n, const float *x, float shift, float *y,
                                                             bool weigh)
{
    v more = v_set(shift), sum = v_set(0.0f);
    size_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        v value = exp_below_vector(v_load(x + i), more);
        if (weigh) value = v_mul(value, v_load(y + i));
        v_store(y + i, value);
        sum = v_add(sum, value);
    }
    if (i < n) {
        v value = exp_below_vector(v_load_part(x + i, n - i), more);
        if (weigh) value = v_mul(value, v_load_part(y + i, n - i));
        v_store_part(y + i, n - i, value);
        sum = v_add(sum, v_part(n - i, value, v_set(0.0f)));
    }
    return v_sum(sum);
}

float ISA(exp_sum)(size_t n, const float *x, float shift, float *y)
{
    return exp_total(n, x, shift, y, false);
}

float ISA(exp_weigh)(size_t n, const float *x, float shift, float *y)
{
    return exp_total(n, x, shift, y, true);
}

float ISA(exp_weigh_wide)(size_t n, const double *x, double shift, float *y)
{
    d more = d_set(shift);
    v sum = v_set(0.0f);
    for (size_t i = 0; i < n; i += LANES) {
        d low = d_add(d_load(x + i), more), high = d_add(d_load(x + i + LANES / 2), more);
        v weight = exp_below_vector(d_join(low, high), v_set(0.0f));
        if (n - i >= LANES) {
            weight = v_mul(weight, v_load(y + i));
            v_store(y + i, weight);
            sum = v_add(sum, weight);
        } else {
            weight = v_mul(weight, v_load_part(y + i, n - i));
            v_store_part(y + i, n - i, weight);
            sum = v_add(sum, v_part(n - i, weight, v_set(0.0f)));
        }
    }
    return v_sum(sum);
}

float ISA(dot_f32)(size_t n, const float *x, const float *y)
{
    v first = v_set(0.0f), second = first;
    size_t i = 0;
    for (; i + 2 * LANES <= n; i += 2 * LANES) {
        first = v_fma(v_load(x + i), v_load(y + i), first);
        second = v_fma(v_load(x + i + LANES), v_load(y + i + LANES), second);
    }
    for (; i + LANES <= n; i += LANES) first = v_fma(v_load(x + i), v_load(y + i), first);
    if (i < n) second = v_fma(v_load_part(x + i, n - i), v_load_part(y + i, n - i), second);
    return v_sum(v_add(first, second));
}

float ISA(max)(size_t n, const float *x)
{
    v first = v_set(-__builtin_inff()), second = first;
    size_t i = 0;
    for (; i + 2 * LANES <= n; i += 2 * LANES) {
        first = v_max(first, v_load(x + i));
        second = v_max(second, v_load(x + i + LANES));
    }
    for (; i + LANES <= n; i += LANES) first = v_max(first, v_load(x + i));
    if (i < n) second = v_max(second, v_part(n - i, v_load_part(x + i, n - i), second));
    return v_largest(v_max(first, second));
}

void ISA(scale)(size_t n, float a, const float *x, float *y)
{
    v factor = v_set(a);
    size_t i = 0;
    for (; i + LANES <= n; i += LANES) v_store(y + i, v_mul(factor, v_load(x + i)));
    if (i < n) v_store_part(y + i, n - i, v_mul(factor, v_load_part(x + i, n - i)));
}

/* 0 x is 0 for every finite x and NaN for others, and NaN propagates to the sum. */
bool ISA(finite_rows)(size_t rows, size_t n, const float *x, size_t ldx)
{
    v zero = v_set(0.0f), first = zero, second = zero;
    for (size_t r = 0; r < rows; r++, x += ldx) {
        size_t i = 0;
        for (; i + 2 * LANES <= n; i += 2 * LANES) {
            first = v_fma(zero, v_load(x + i), first);
            second = v_fma(zero, v_load(x + i + LANES), second);
        }
        for (; i + LANES <= n; i += LANES) first = v_fma(zero, v_load(x + i), first);
        if (i < n) second = v_fma(zero, v_load_part(x + i, n - i), second);
    }
    return !v_any_beyond(v_add(first, second), 0.0f);
}

bool ISA(finite)(size_t n, const float *x)
{
    return ISA(finite_rows)(1, n, x, n);
}

void ISA(scale_rows)(size_t rows, size_t n, const float *a, const float *x, size_t ldx, float *y, size_t ldy)
{
    for (size_t r = 0; r < rows; r++, x += ldx, y += ldy) {
        v factor = v_set(a[r]);
        size_t i = 0;
        for (; i + LANES <= n; i += LANES) v_store(y + i, v_mul(factor, v_load(x + i)));
        if (i < n) v_store_part(y + i, n - i, v_mul(factor, v_load_part(x + i, n - i)));
    }
}

void ISA(relu)(size_t n, float scale, const float *x, float *y)
{
    v factor = v_set(scale);
    size_t i = 0;
    for (; i + LANES <= n; i += LANES) v_store(y + i, v_mul(factor, v_positive_part(v_load(x + i))));
    if (i < n) v_store_part(y + i, n - i, v_mul(factor, v_positive_part(v_load_part(x + i, n - i))));
}

void ISA(axpy)(size_t n, float a, const float *x, float *y)
{
    v factor = v_set(a);
    size_t i = 0;
    for (; i + LANES <= n; i += LANES) v_store(y + i, v_fma(factor, v_load(x + i), v_load(y + i)));
    if (i < n) {
        size_t rest = n - i;
        v_store_part(y + i, rest, v_fma(factor, v_load_part(x + i, rest), v_load_part(y + i, rest)));
    }
}

static inline void dot_vector(v x, v y, d *low, d *high)
{
    *low = d_fma(d_low(x), d_low(y), *low);
    *high = d_fma(d_high(x), d_high(y), *high);
}

/* Uses four sums so that the additions overlap; their order depends only on n. */
double ISA(dot)(size_t n, const float *x, const float *y)
{
    d sum0 = d_set(0.0), sum1 = d_set(0.0), sum2 = d_set(0.0), sum3 = d_set(0.0);
    size_t i = 0;
    for (; i + 2 * LANES <= n; i += 2 * LANES) {
        dot_vector(v_load(x + i), v_load(y + i), &sum0, &sum1);
        dot_vector(v_load(x + i + LANES), v_load(y + i + LANES), &sum2, &sum3);
    }
    for (; i + LANES <= n; i += LANES) dot_vector(v_load(x + i), v_load(y + i), &sum0, &sum1);
    if (i < n) dot_vector(v_load_part(x + i, n - i), v_load_part(y + i, n - i), &sum2, &sum3);
    return d_sum(d_add(d_add(sum0, sum1), d_add(sum2, sum3)));
}

double ISA(sum)(size_t n, const float *x)
{
    d sum0 = d_set(0.0), sum1 = d_set(0.0), sum2 = d_set(0.0), sum3 = d_set(0.0);
    size_t i = 0;
    for (; i + 2 * LANES <= n; i += 2 * LANES) {
        v low = v_load(x + i), high = v_load(x + i + LANES);
        sum0 = d_add(sum0, d_low(low)), sum1 = d_add(sum1, d_high(low));
        sum2 = d_add(sum2, d_low(high)), sum3 = d_add(sum3, d_high(high));
    }
    for (; i < n; i += LANES) {
        v rest = n - i < LANES ? v_load_part(x + i, n - i) : v_load(x + i);
        sum0 = d_add(sum0, d_low(rest)), sum1 = d_add(sum1, d_high(rest));
    }
    return d_sum(d_add(d_add(sum0, sum1), d_add(sum2, sum3)));
}

void ISA(affine)(size_t n, const float *x, const float *mean, const float *factor, float *y)
{
    size_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        v_store(y + i, v_mul(v_sub(v_load(x + i), v_load(mean + i)), v_load(factor + i)));
    }
    if (i < n) {
        size_t rest = n - i;
        v centered = v_sub(v_load_part(x + i, rest), v_load_part(mean + i, rest));
        v_store_part(y + i, rest, v_mul(centered, v_load_part(factor + i, rest)));
    }
}

void ISA(quantize)(size_t n, float scale, const float *x, int8_t *q)
{
    v factor = v_set(scale);
    size_t i = 0;
    for (; i + LANES <= n; i += LANES) v_store_bytes(q + i, v_mul(v_load(x + i), factor));
    if (i < n) v_store_bytes_part(q + i, n - i, v_mul(v_load_part(x + i, n - i), factor));
}

/* Fuses two butterfly stages over blocks of 4 half elements, which halves the memory traffic. */
static inline void hadamard_two_stages(size_t n, size_t half, float *x)
{
    for (size_t start = 0; start < n; start += 4 * half) {
        for (float *p = x + start; p < x + start + half; p += LANES) {
            v a = v_load(p), b = v_load(p + half), c = v_load(p + 2 * half), e = v_load(p + 3 * half);
            v ab = v_add(a, b), a_b = v_sub(a, b), ce = v_add(c, e), c_e = v_sub(c, e);
            v_store(p, v_add(ab, ce));
            v_store(p + half, v_add(a_b, c_e));
            v_store(p + 2 * half, v_sub(ab, ce));
            v_store(p + 3 * half, v_sub(a_b, c_e));
        }
    }
}

static inline void hadamard_last_stage(size_t n, float *x)
{
    for (float *p = x; p < x + n / 2; p += LANES) {
        v a = v_load(p), b = v_load(p + n / 2);
        v_store(p, v_add(a, b));
        v_store(p + n / 2, v_sub(a, b));
    }
}

void ISA(hadamard)(size_t n, float *x)
{
    if (n < LANES) {
        bo_ref_hadamard(n, x);
        return;
    }
    for (size_t i = 0; i < n; i += LANES) v_store(x + i, v_hadamard(v_load(x + i)));
    size_t half = LANES;
    for (; 4 * half <= n; half *= 4) hadamard_two_stages(n, half, x);
    if (2 * half <= n) hadamard_last_stage(n, x);
}
