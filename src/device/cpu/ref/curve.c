/* Activations in plain C and double: the reference for tests of the fast versions. */
#include <math.h>
#include "../kernels.h"
#include "ref.h"

/* √(2/π) and the coefficient of x³ in the tanh approximation of GELU (arXiv 1606.08415). */
static const double root = 0.79788456080286535588, cube = 0.044715;

static double sigmoid(double x)
{
    return x < 0 ? exp(x) / (1 + exp(x)) : 1 / (1 + exp(-x));
}

static double softplus(double x)
{
    return fmax(x, 0) + log1p(exp(-fabs(x)));
}

static double normal_below(double x)
{
    return 0.5 * erfc(-x * 0.70710678118654752440);
}

static double value(bo_curve curve, double x)
{
    switch (curve) {
    case BO_CURVE_GELU:
        return x * normal_below(x);
    case BO_CURVE_GELU_TANH:
        return x * sigmoid(2 * root * (x + cube * x * x * x));
    case BO_CURVE_RELU2:
        return x <= 0 ? 0 : x * x; /* NaN stays NaN */
    case BO_CURVE_SILU:
        return x * sigmoid(x);
    case BO_CURVE_RELU:
        return x <= 0 ? 0 : x;
    case BO_CURVE_TANH:
        return tanh(x);
    case BO_CURVE_SIGMOID:
        return sigmoid(x);
    case BO_CURVE_LOG_SIGMOID:
        return -softplus(-x);
    case BO_CURVE_SOFTPLUS:
        return softplus(x);
    case BO_CURVE_EXP:
        return exp(x);
    default:
        return x;
    }
}

static double derivative(bo_curve curve, double x)
{
    double s;
    switch (curve) {
    case BO_CURVE_GELU:
        return normal_below(x) + x * 0.39894228040143267794 * exp(-0.5 * x * x);
    case BO_CURVE_GELU_TANH:
        s = sigmoid(2 * root * (x + cube * x * x * x));
        return s + x * s * (1 - s) * 2 * root * (1 + 3 * cube * x * x);
    case BO_CURVE_RELU2:
        return x > 0 ? 2 * x : 0;
    case BO_CURVE_SILU:
        return sigmoid(x) * (1 + x * sigmoid(-x));
    case BO_CURVE_RELU:
        return x > 0 ? 1 : 0;
    case BO_CURVE_TANH:
        return 4 * sigmoid(2 * x) * sigmoid(-2 * x); /* 1 - tanh² x */
    case BO_CURVE_SIGMOID:
        return sigmoid(x) * sigmoid(-x);
    case BO_CURVE_LOG_SIGMOID:
        return sigmoid(-x);
    case BO_CURVE_SOFTPLUS:
        return sigmoid(x);
    case BO_CURVE_EXP:
        return exp(x);
    default:
        return 1;
    }
}

void bo_ref_curve(bo_curve curve, size_t n, const float *x, float *y)
{
    for (size_t i = 0; i < n; i++) y[i] = (float)value(curve, (double)x[i]);
}

void bo_ref_curve_derivative(bo_curve curve, size_t n, const float *x, float *y)
{
    for (size_t i = 0; i < n; i++) y[i] = (float)derivative(curve, (double)x[i]);
}
