/* Activations and their derivatives in the vector operations of the including file; include after vector_body.h. Errors
 * are a few units in the last place of the result, except near a zero of a derivative. */

#define ALWAYS static inline __attribute__((always_inline))

static inline v one(void)
{
    return v_set(1.0f);
}

static inline v v_minus(v x)
{
    return v_sub(v_set(0.0f), x);
}

/* r of exp(t), t = n ln 2 + r: vector_body.h */
static inline v exp_left(v t, v n)
{
    return v_fnma(n, v_set(-0x1.05c61p-29f), v_fnma(n, v_set(0x1.62e43p-1f), t));
}

/* exp(t + e) for t <= 0 and e no larger than the rounding error of t; like exp_vector without splitting a sum and
 * without an upper bound. */
static inline v exp_low(v t, v e)
{
    v n = exp_whole(t);
    return v_scale_above(v_add(exp_rest(v_add(exp_left(t, n), e)), one()), n, t, BO_EXP_LOWEST);
}

/* ---- logistic ---------------------------------------------------------------------------------------------------- */

/* With e = exp(-|x|), which never overflows, the larger of σ(x) and σ(-x) is 1 / (1 + e) and the smaller is e / (1 +
 * e). */
typedef struct logistic {
    v large, small;
} logistic;

static inline logistic logistic_of(v x)
{
    v e = exp_low(v_minus(v_size(x)), v_set(0.0f)), large = v_div(one(), v_add(one(), e));
    return (logistic){large, v_mul(e, large)};
}

static inline v sigmoid(v x)
{
    logistic s = logistic_of(x);
    return v_choose_negative(x, s.large, s.small);
}

static inline v sigmoid_derivative(v x)
{
    logistic s = logistic_of(x);
    return v_mul(s.large, s.small);
}

static inline v silu(v x)
{
    return v_mul(x, sigmoid(x));
}

/* σ(x) + x σ(x) σ(-x). Beyond the bounds it is 1 or 0, and x may be too large to multiply. */
static inline v silu_derivative(v x)
{
    x = v_min(v_set(100.0f), v_max(v_set(-100.0f), x));
    logistic s = logistic_of(x);
    return v_fma(x, v_mul(s.large, s.small), v_choose_negative(x, s.large, s.small));
}

/* log(1 + exp(x)) = max(x, 0) + log(1 + e). u = 1 + e is rounded; its rounding error is e - (u - 1). */
static inline v softplus(v x)
{
    v e = exp_low(v_minus(v_size(x)), v_set(0.0f)), u = v_add(one(), e);
    v lost = v_sub(e, v_sub(u, one()));
    return v_add(v_positive_part(x), v_add(log_size_vector(u), v_div(lost, u)));
}

static inline v log_sigmoid(v x)
{
    return v_minus(softplus(v_minus(x)));
}

static inline v log_sigmoid_derivative(v x)
{
    return sigmoid(v_minus(x));
}

/* ---- hyperbolic tangent ------------------------------------------------------------------------------------------ */

/* tanh|x| = -m / (2 + m), m = exp(-2|x|) - 1 = 2^n p + (2^n - 1) without cancellation. Beyond 20 it is 1. */
static inline v hyperbolic(v x)
{
    v t = v_max(v_set(-40.0f), v_mul(v_set(-2.0f), v_size(x))), n = exp_whole(t), p = exp_rest(exp_left(t, n));
    v m = v_add(v_scale(p, n), v_sub(v_scale(one(), n), one()));
    v y = v_div(m, v_add(v_set(2.0f), m));
    return v_choose_negative(x, v_minus(y), y);
}

static inline v hyperbolic_derivative(v x) /* 1 - tanh² x = 4 σ'(2x) */
{
    return v_mul(v_set(4.0f), sigmoid_derivative(v_add(x, x)));
}

/* x σ(2u), u = √(2/π) (x + 0.044715 x³). */
static inline v gelu_tanh_argument(v x)
{
    return v_mul(v_mul(x, v_set(0x1.988454p+0f)), v_fma(v_mul(x, x), v_set(0.044715f), one()));
}

static inline v gelu_tanh(v x)
{
    return v_mul(x, sigmoid(gelu_tanh_argument(x)));
}

/* σ + x σ' 2u', 2u' = 2√(2/π) (1 + 0.134145 x²). */
static inline v gelu_tanh_derivative(v x)
{
    x = v_min(v_set(100.0f), v_max(v_set(-100.0f), x));
    v u = gelu_tanh_argument(x), inner = v_mul(v_set(0x1.988454p+0f), v_fma(v_mul(x, x), v_set(0.134145f), one()));
    logistic s = logistic_of(u);
    return v_fma(v_mul(x, inner), v_mul(s.large, s.small), v_choose_negative(u, s.large, s.small));
}

/* ---- normal distribution ----------------------------------------------------------------------------------------- */

/* exp(-x²/2), including the rounding error of the square. Beyond 20 it is 0. Adding 0 forces rounding of the square
 * before further use. */
static inline v bell(v x)
{
    x = v_min(v_set(20.0f), v_size(x));
    v half = v_mul(v_set(-0.5f), x), square = v_fma(half, x, v_set(0.0f));
    return exp_low(square, v_fma(half, x, v_minus(square)));
}

/* Φ(-|x|) = exp(-x²/2) t p(t), t = 1 / (1 + 0.345 |x|), p minimax (relative error 2e-8) for |x| <= 13.5. */
static inline v tail(v x, v e)
{
    v t = v_div(one(), v_fma(v_set(0x1.6147aep-2f), v_size(x), one()));
    v p = v_fma(t, v_set(-0x1.d1c04p-6f), v_set(0x1.29f584p-3f));
    p = v_fma(t, p, v_set(-0x1.161652p-2f));
    p = v_fma(t, p, v_set(0x1.803d86p-3f));
    p = v_fma(t, p, v_set(-0x1.363abap-5f));
    p = v_fma(t, p, v_set(0x1.ca5c4p-4f));
    p = v_fma(t, p, v_set(0x1.e01b9ep-4f));
    p = v_fma(t, p, v_set(0x1.1aac52p-3f));
    p = v_fma(t, p, v_set(0x1.19d80ep-3f));
    return v_mul(e, v_mul(t, p));
}

static inline v gelu(v x)
{
    v below = tail(x, bell(x));
    return v_mul(x, v_choose_negative(x, v_sub(one(), below), below));
}

/* Φ(x) + x exp(-x²/2) / √(2π). */
static inline v gelu_derivative(v x)
{
    v e = bell(x), below = tail(x, e);
    return v_fma(v_mul(x, v_set(0x1.988454p-2f)), e, v_choose_negative(x, v_sub(one(), below), below));
}

/* ---- other activations ------------------------------------------------------------------------------------------- */

static inline v relu2(v x)
{
    v p = v_positive_part(x);
    return v_mul(p, p);
}

static inline v relu2_derivative(v x)
{
    v p = v_positive_part(x);
    return v_add(p, p);
}

static inline v relu_derivative(v x)
{
    return v_choose_negative(v_minus(x), v_set(0.0f), one()); /* 0 - 0 is +0 */
}

static inline v exponential(v x)
{
    return exp_vector(x, v_set(0.0f));
}

static inline v identity(v x)
{
    return x;
}

static inline v identity_derivative(v x)
{
    (void)x;
    return one();
}

ALWAYS void each(size_t n, const float *x, float *y, v (*f)(v))
{
    size_t i = 0;
    for (; i + LANES <= n; i += LANES) v_store(y + i, f(v_load(x + i)));
    if (i < n) v_store_part(y + i, n - i, f(v_load_part(x + i, n - i)));
}

void ISA(curve)(bo_curve curve, size_t n, const float *x, float *y)
{
    switch (curve) {
    case BO_CURVE_GELU:
        each(n, x, y, gelu);
        break;
    case BO_CURVE_GELU_TANH:
        each(n, x, y, gelu_tanh);
        break;
    case BO_CURVE_RELU2:
        each(n, x, y, relu2);
        break;
    case BO_CURVE_SILU:
        each(n, x, y, silu);
        break;
    case BO_CURVE_RELU:
        each(n, x, y, v_positive_part);
        break;
    case BO_CURVE_TANH:
        each(n, x, y, hyperbolic);
        break;
    case BO_CURVE_SIGMOID:
        each(n, x, y, sigmoid);
        break;
    case BO_CURVE_LOG_SIGMOID:
        each(n, x, y, log_sigmoid);
        break;
    case BO_CURVE_SOFTPLUS:
        each(n, x, y, softplus);
        break;
    case BO_CURVE_EXP:
        each(n, x, y, exponential);
        break;
    default:
        each(n, x, y, identity);
        break;
    }
}

void ISA(curve_derivative)(bo_curve curve, size_t n, const float *x, float *y)
{
    switch (curve) {
    case BO_CURVE_GELU:
        each(n, x, y, gelu_derivative);
        break;
    case BO_CURVE_GELU_TANH:
        each(n, x, y, gelu_tanh_derivative);
        break;
    case BO_CURVE_RELU2:
        each(n, x, y, relu2_derivative);
        break;
    case BO_CURVE_SILU:
        each(n, x, y, silu_derivative);
        break;
    case BO_CURVE_RELU:
        each(n, x, y, relu_derivative);
        break;
    case BO_CURVE_TANH:
        each(n, x, y, hyperbolic_derivative);
        break;
    case BO_CURVE_SIGMOID:
        each(n, x, y, sigmoid_derivative);
        break;
    case BO_CURVE_LOG_SIGMOID:
        each(n, x, y, log_sigmoid_derivative);
        break;
    case BO_CURVE_SOFTPLUS:
        each(n, x, y, sigmoid);
        break;
    case BO_CURVE_EXP:
        each(n, x, y, exponential);
        break;
    default:
        each(n, x, y, identity_derivative);
        break;
    }
}
