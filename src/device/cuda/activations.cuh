/* Activations and their derivatives (bo_unary). FAST: errors up to bfloat16 precision are allowed. */
#ifndef BO_CUDA_ACTIVATIONS_CUH
#define BO_CUDA_ACTIVATIONS_CUH

#include "device.cuh"

namespace bo {

template <bool FAST> __device__ inline float exponential(float x)
{
    return FAST ? exp2_fast(LOG2_E * x) : expf(x);
}

template <bool FAST> __device__ inline float sigmoid(float x)
{
    const float e = exponential<FAST>(-x);
    return FAST ? reciprocal_fast(1.0f + e) : 1.0f / (1.0f + e);
}

__device__ inline float softplus(float x)
{
    return fmaxf(x, 0.0f) + log1pf(expf(-fabsf(x)));
}

/* 2 √(2/π) (x + 0.044715 x³): BO_UNARY_GELU_TANH is x σ of it (1606.08415). */
__device__ inline float gelu_angle(float x)
{
    return x * fmaf(0.044715f * 1.5957691216f * x, x, 1.5957691216f);
}

template <bool FAST, int F> __device__ inline float activate(float x)
{
    switch (F) {
    case BO_UNARY_GELU:
        return x * normcdff(x);
    case BO_UNARY_GELU_TANH:
        return x * sigmoid<FAST>(gelu_angle(x));
    case BO_UNARY_RELU2:
        return x <= 0 ? 0.0f : x * x; /* NaN stays NaN */
    case BO_UNARY_SILU:
        return x * sigmoid<FAST>(x);
    case BO_UNARY_RELU:
        return x <= 0 ? 0.0f : x;
    case BO_UNARY_TANH:
        return tanhf(x);
    case BO_UNARY_SIGMOID:
        return sigmoid<FAST>(x);
    case BO_UNARY_LOG_SIGMOID:
        return -softplus(-x);
    case BO_UNARY_SOFTPLUS:
        return softplus(x);
    case BO_UNARY_EXP:
        return expf(x);
    default:
        return x;
    }
}

template <bool FAST, int F> __device__ inline float derivative(float x)
{
    float s;
    switch (F) {
    case BO_UNARY_GELU:
        return normcdff(x) + x * 0.39894228040f * exponential<FAST>(-0.5f * x * x);
    case BO_UNARY_GELU_TANH:
        s = sigmoid<FAST>(gelu_angle(x));
        return fmaf(x * fmaf(-s, s, s), fmaf(3 * 0.044715f * 1.5957691216f * x, x, 1.5957691216f), s);
    case BO_UNARY_RELU2:
        return x > 0 ? 2 * x : 0.0f;
    case BO_UNARY_SILU:
        s = sigmoid<FAST>(x);
        return s * fmaf(x, sigmoid<FAST>(-x), 1.0f);
    case BO_UNARY_RELU:
        return x > 0 ? 1.0f : 0.0f;
    case BO_UNARY_TANH:
        return 4 * sigmoid<FAST>(2 * x) * sigmoid<FAST>(-2 * x); /* 1 - tanh² x */
    case BO_UNARY_SIGMOID:
        return sigmoid<FAST>(x) * sigmoid<FAST>(-x);
    case BO_UNARY_LOG_SIGMOID:
        return sigmoid<FAST>(-x);
    case BO_UNARY_SOFTPLUS:
        return sigmoid<FAST>(x);
    case BO_UNARY_EXP:
        return expf(x);
    default:
        return 1.0f;
    }
}

/* f(values) and f'(values); all threads use the same function. */
template <bool FAST, bool DERIVATIVE, int N>
__device__ inline void activate_all(int function, const float (&x)[N], float (&y)[N])
{
    switch (function) {
#define BO_ACTIVATION(F)                                                                                               \
    case F:                                                                                                            \
        _Pragma("unroll") for (int i = 0; i < N; i++) y[i] =                                                           \
            DERIVATIVE ? derivative<FAST, F>(x[i]) : activate<FAST, F>(x[i]);                                          \
        break;
        BO_ACTIVATION(BO_UNARY_GELU)
        BO_ACTIVATION(BO_UNARY_GELU_TANH)
        BO_ACTIVATION(BO_UNARY_RELU2)
        BO_ACTIVATION(BO_UNARY_SILU)
        BO_ACTIVATION(BO_UNARY_RELU)
        BO_ACTIVATION(BO_UNARY_TANH)
        BO_ACTIVATION(BO_UNARY_SIGMOID)
        BO_ACTIVATION(BO_UNARY_LOG_SIGMOID)
        BO_ACTIVATION(BO_UNARY_SOFTPLUS)
        BO_ACTIVATION(BO_UNARY_EXP)
        BO_ACTIVATION(BO_UNARY_IDENTITY)
#undef BO_ACTIVATION
    }
}

} // namespace bo

#endif
