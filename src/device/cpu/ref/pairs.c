/* Distances of pairs of rows, functions of them and sums of their gradients, in plain C. */
#include <math.h>
#include "ref.h"

static float pair_step(bo_distance distance, float d, float weight, float sum)
{
    if (distance == BO_DISTANCE_SQUARES) return sum + weight * d * d;
    if (distance == BO_DISTANCE_ABSOLUTES) return sum + weight * fabsf(d);
    return sum * (1 + weight * d * d);
}

void bo_ref_distances(bo_distance distance, size_t rows, size_t columns, size_t dim, const float *x, size_t ldx,
                      const float *weight, const float *panel, float *out, size_t ldo)
{
    for (size_t i = 0; i < rows; i++, x += ldx, out += ldo)
        for (size_t j = 0; j < columns; j++) {
            float sum = distance == BO_DISTANCE_PRODUCT ? 1.0f : 0.0f;
            for (size_t p = 0; p < dim; p++)
                sum = pair_step(distance, x[p] - panel[p * BO_PAIR_ROWS + j], weight ? weight[p] : 1.0f, sum);
            out[j] = sum;
        }
}

static double exp_minus(double a)
{
    return a > (double)BO_RADIAL_DEPTH ? 0 : exp(-a);
}

/* Functions of a are 0 where exp(-a) is; a may be infinite. */
static double radial_value(const bo_radial *radial, double s)
{
    double scale = radial->scale, a = fmin(100, scale * sqrt(s));
    if (isnan(s)) return s;
    switch (radial->form) {
    case BO_RADIAL_EXP:
        return exp_minus(scale * s);
    case BO_RADIAL_ROOT:
        return exp_minus(a);
    case BO_RADIAL_MATERN32:
        return (1 + a) * exp_minus(a);
    case BO_RADIAL_MATERN52:
        return (1 + a + a * a / 3) * exp_minus(a);
    case BO_RADIAL_RATIONAL:
        return exp_minus((double)radial->power * log1p(scale * s));
    default:
        return s > (double)BO_RADIAL_LARGEST ? 0 : 1 / s;
    }
}

static double radial_derivative(const bo_radial *radial, double s)
{
    double scale = radial->scale, a = fmin(100, scale * sqrt(s));
    if (isnan(s)) return s;
    switch (radial->form) {
    case BO_RADIAL_EXP:
        return -scale * exp_minus(scale * s);
    case BO_RADIAL_ROOT:
        return s == 0 ? 0 : -0.5 * scale / sqrt(s) * exp_minus(a);
    case BO_RADIAL_MATERN32:
        return -scale * scale / 2 * exp_minus(a);
    case BO_RADIAL_MATERN52:
        return -scale * scale / 6 * (1 + a) * exp_minus(a);
    case BO_RADIAL_RATIONAL:
        return -scale * (double)radial->power * radial_value(radial, s) / (1 + scale * s);
    default:
        return -radial_value(radial, s);
    }
}

void bo_ref_radial(const bo_radial *radial, size_t n, const float *s, float *y)
{
    for (size_t i = 0; i < n; i++) y[i] = (float)radial_value(radial, (double)s[i]);
}

void bo_ref_radial_derivative(const bo_radial *radial, size_t n, const float *s, float *y)
{
    for (size_t i = 0; i < n; i++) y[i] = (float)radial_derivative(radial, (double)s[i]);
}

void bo_ref_pair_sums(bo_distance distance, size_t dim, const float *x, const float *weight, const float *panel,
                      const float *factor, float *sums)
{
    for (size_t p = 0; p < dim; p++, panel += BO_PAIR_ROWS, sums += BO_PAIR_LANES)
        for (size_t j = 0; j < BO_PAIR_ROWS; j++) {
            float d = x[p] - panel[j], h = d;
            if (distance == BO_DISTANCE_ABSOLUTES) h = (float)((d > 0) - (d < 0));
            if (distance == BO_DISTANCE_PRODUCT) h = d / (1 + (weight ? weight[p] : 1.0f) * d * d);
            sums[j % BO_PAIR_LANES] += factor[j] * h;
        }
}
