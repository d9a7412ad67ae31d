/* The kernels in closed form, for one pair, in float64. Inner-product kernels receive t = √γ x, so that γ does not
 * appear. */
#include <math.h>
#include "internal.h"

double bo_value_rbf(const bo_features_desc *desc, const bo_pair *pair)
{
    return exp(-desc->gamma * pair->distance2);
}

double bo_value_laplacian(const bo_features_desc *desc, const bo_pair *pair)
{
    return exp(-desc->gamma * pair->distance1);
}

double bo_value_cauchy(const bo_features_desc *desc, const bo_pair *pair)
{
    (void)desc;
    return 1 / pair->product;
}

double bo_value_matern12(const bo_features_desc *desc, const bo_pair *pair)
{
    return exp(-desc->gamma * sqrt(pair->distance2));
}

double bo_value_matern32(const bo_features_desc *desc, const bo_pair *pair)
{
    double a = sqrt(3 * pair->distance2) * desc->gamma;
    return (1 + a) * exp(-a);
}

double bo_value_matern52(const bo_features_desc *desc, const bo_pair *pair)
{
    double a = sqrt(5 * pair->distance2) * desc->gamma;
    return (1 + a + a * a / 3) * exp(-a);
}

double bo_value_rational_quadratic(const bo_features_desc *desc, const bo_pair *pair)
{
    return exp(-desc->alpha * log1p(desc->gamma * pair->distance2 / desc->alpha));
}

double bo_value_softmax(const bo_features_desc *desc, const bo_pair *pair)
{
    (void)desc;
    return exp(pair->dot);
}

/* The derivative with respect to c = cos θ is (π - θ)/2π: rounding of c near 1 is harmless, but c must stay in [-1,
 * 1]. */
double bo_value_arccos(const bo_features_desc *desc, const bo_pair *pair)
{
    double norms = sqrt(pair->norm_x * pair->norm_y), pi = 3.14159265358979323846;
    (void)desc;
    if (!(norms > 0)) return norms; /* 0, or NaN */
    double c = fmax(-1, fmin(1, pair->dot / norms)), theta = acos(c);
    return norms * (sqrt((1 - c) * (1 + c)) + (pi - theta) * c) / (2 * pi);
}

double bo_value_polynomial(const bo_features_desc *desc, const bo_pair *pair)
{
    double base = 1 + pair->dot, value = 1;
    for (int k = 0; k < desc->degree; k++) value *= base;
    return value;
}

double bo_value_taylor(const bo_features_desc *desc, const bo_pair *pair)
{
    (void)desc;
    return 1 + pair->dot + 0.5 * pair->dot * pair->dot;
}

double bo_value_dot(const bo_features_desc *desc, const bo_pair *pair)
{
    (void)desc;
    return pair->dot;
}

double bo_value_hedgehog(const bo_features_desc *desc, const bo_pair *pair)
{
    (void)desc;
    return pair->dot / (pair->sum_x * pair->sum_y);
}

double bo_lift(bo_form form, double t, double top, double *other)
{
    *other = 0;
    if (form == BO_FORM_ELU) return t > 0 ? t + 1 : exp(t);
    if (form == BO_FORM_RECTIFIER) return t < 0 ? 0 : t;
    if (form != BO_FORM_SIGNS) return t;
    *other = exp(-t - top);
    return exp(t - top);
}

static double largest(const double *factor, const float *x, size_t dim)
{
    double top = 0;
    for (size_t j = 0; j < dim; j++) top = fmax(top, fabs((double)x[j] * factor[j]));
    return top;
}

void bo_pair_add(bo_pair *pair, bo_form form, double gamma, double x, double y, double difference, double top_x,
                 double top_y)
{
    double a2, a = bo_lift(form, x, top_x, &a2), b2, b = bo_lift(form, y, top_y, &b2);
    double g = gamma * difference;
    pair->dot += form == BO_FORM_COSH ? 2 * cosh(a + b) : a * b + a2 * b2;
    pair->sum_x += a + a2;
    pair->sum_y += b + b2;
    pair->norm_x += a * a;
    pair->norm_y += b * b;
    pair->plus2 += (a + b) * (a + b);
    pair->quartic += a * a * b * b;
    pair->distance2 += difference * difference;
    pair->distance1 += fabs(difference);
    pair->product *= 1 + g * g;
    pair->product2 *= 1 + 4 * g * g;
}

bo_pair bo_pair_make(const bo_features_desc *desc, const double *factor, const float *x, const float *y)
{
    bo_form form = bo_kernel_find(desc->kernel)->form;
    bo_pair pair = {.product = 1, .product2 = 1};
    double top_x = largest(factor, x, desc->dim), top_y = largest(factor, y, desc->dim);
    for (size_t j = 0; j < desc->dim; j++)
        bo_pair_add(&pair, form, desc->gamma, (double)x[j] * factor[j], (double)y[j] * factor[j],
                    ((double)x[j] - (double)y[j]) * factor[j], top_x, top_y);
    return pair;
}

double bo_kernel_value(const bo_features_desc *desc, const bo_pair *pair)
{
    return bo_kernel_find(desc->kernel)->value(desc, pair);
}

double bo_kernel_value_doubled(const bo_features_desc *desc, const bo_pair *pair)
{
    bo_pair doubled = {.distance2 = 4 * pair->distance2, .distance1 = 2 * pair->distance1, .product = pair->product2};
    return bo_kernel_value(desc, &doubled);
}

void bo_input_factors(const bo_features_desc *desc, double *factor)
{
    double scale = bo_kernel_find(desc->kernel)->shift_invariant ? 1 : sqrt(desc->gamma);
    for (size_t j = 0; j < desc->dim; j++)
        factor[j] = desc->length_scales ? scale / (double)desc->length_scales[j] : scale;
}
