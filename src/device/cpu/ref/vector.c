/* Vector functions in plain C: the reference for tests of the fast versions. */
#include <math.h>
#include "ref.h"

void bo_ref_sincos(size_t n, float scale, const float *x, float *s, float *c)
{
    for (size_t i = 0; i < n; i++) {
        double angle = x[i]; /* read before s and c are written, since either may be x */
        s[i] = (float)(scale * sin(angle));
        c[i] = (float)(scale * cos(angle));
    }
}

void bo_ref_cos_shift(size_t n, float scale, const float *x, const float *shift, float *y)
{
    for (size_t i = 0; i < n; i++) {
        /* If even a sum in double would lose the shift: cos(x + b) = cos x cos b - sin x sin b. */
        double angle = x[i], more = shift[i];
        double value =
            fabs(angle) + fabs(more) < 0x1p20 ? cos(angle + more) : cos(angle) * cos(more) - sin(angle) * sin(more);
        y[i] = (float)(scale * value);
    }
}

void bo_ref_exp_shift(size_t n, const float *x, float shift, float *y)
{
    for (size_t i = 0; i < n; i++) {
        float sum = x[i] + shift;
        double exact = (double)x[i] + (double)shift;
        if (sum < BO_EXP_LOWEST) {
            y[i] = 0.0f;
        } else if (sum > BO_EXP_HIGHEST) {
            y[i] = INFINITY;
        } else {
            y[i] = (float)exp(exact);
        }
    }
}

void bo_ref_relu(size_t n, float scale, const float *x, float *y)
{
    for (size_t i = 0; i < n; i++) y[i] = x[i] > 0.0f ? scale * x[i] : (x[i] != x[i] ? x[i] : 0.0f);
}

void bo_ref_axpy(size_t n, float a, const float *x, float *y)
{
    for (size_t i = 0; i < n; i++) y[i] = a * x[i] + y[i];
}

double bo_ref_dot(size_t n, const float *x, const float *y)
{
    double sum = 0.0;
    for (size_t i = 0; i < n; i++) sum += (double)x[i] * (double)y[i];
    return sum;
}

double bo_ref_sum(size_t n, const float *x)
{
    double sum = 0.0;
    for (size_t i = 0; i < n; i++) sum += (double)x[i];
    return sum;
}

void bo_ref_affine(size_t n, const float *x, const float *mean, const float *factor, float *y)
{
    for (size_t i = 0; i < n; i++) y[i] = (x[i] - mean[i]) * factor[i];
}

void bo_ref_quantize(size_t n, float scale, const float *x, int8_t *q)
{
    for (size_t i = 0; i < n; i++) {
        float scaled = x[i] * scale;
        if (scaled != scaled) scaled = 0.0f;
        q[i] = (int8_t)rintf(scaled < -127.0f ? -127.0f : scaled > 127.0f ? 127.0f : scaled);
    }
}

void bo_ref_hadamard(size_t n, float *x)
{
    for (size_t half = 1; half < n; half *= 2) {
        for (size_t start = 0; start < n; start += 2 * half) {
            for (size_t i = start; i < start + half; i++) {
                float low = x[i], high = x[i + half];
                x[i] = low + high;
                x[i + half] = low - high;
            }
        }
    }
}
