/* Derivatives of the kernels in closed form with respect to the members of a pair, where they are not 0. Kernels that
 * are not differentiable at x = y (Matérn 1/2, Laplacian, NTK of ReLU networks) have derivative 0 there. */
#include <math.h>
#include "internal.h"

bo_pair_derivatives bo_kernel_derivatives(const bo_features_desc *desc, const bo_pair *pair)
{
    bo_pair_derivatives derivatives = {0};
    bo_kernel_find(desc->kernel)->derivatives(desc, pair, &derivatives);
    return derivatives;
}

double bo_derivative_along(const bo_pair_derivatives *s, bo_form form, double gamma, double x, double y, double top_x,
                           double top_y)
{
    double x2, y2, a, b, d = x - y;
    switch (form) {
    case BO_FORM_L1:
        return s->distance1 * (double)((d > 0) - (d < 0));
    case BO_FORM_PRODUCT:
        return s->log_product * 2 * gamma * gamma * d / (1 + gamma * gamma * d * d);
    case BO_FORM_COSH:
        return 2 * sinh(x + y);
    case BO_FORM_ELU:
        return s->dot * (x > 0 ? 1 : exp(x)) * bo_lift(form, y, top_y, &y2);
    case BO_FORM_RECTIFIER:
        return s->dot * (x > 0) * bo_lift(form, y, top_y, &y2);
    case BO_FORM_SIGNS: /* the kernel does not depend on `top` */
        a = bo_lift(form, x, top_x, &x2), b = bo_lift(form, y, top_y, &y2);
        return s->dot * (a * b - x2 * y2) + s->sum_x * (a - x2);
    default:
        return s->dot * y + 2 * s->norm_x * x + 2 * s->distance2 * d;
    }
}

/* ---- kernels ----------------------------------------------------------------------------------------------------- */

void bo_derivatives_rbf(const bo_features_desc *desc, const bo_pair *pair, bo_pair_derivatives *out)
{
    out->distance2 = -desc->gamma * exp(-desc->gamma * pair->distance2);
}

void bo_derivatives_laplacian(const bo_features_desc *desc, const bo_pair *pair, bo_pair_derivatives *out)
{
    out->distance1 = -desc->gamma * exp(-desc->gamma * pair->distance1);
}

void bo_derivatives_cauchy(const bo_features_desc *desc, const bo_pair *pair, bo_pair_derivatives *out)
{
    (void)desc;
    out->log_product = -1 / pair->product;
}

void bo_derivatives_matern12(const bo_features_desc *desc, const bo_pair *pair, bo_pair_derivatives *out)
{
    const double r = sqrt(pair->distance2);
    out->distance2 = r > 0 ? -desc->gamma * exp(-desc->gamma * r) / (2 * r) : 0;
}

void bo_derivatives_matern32(const bo_features_desc *desc, const bo_pair *pair, bo_pair_derivatives *out)
{
    out->distance2 = -1.5 * desc->gamma * desc->gamma * exp(-sqrt(3 * pair->distance2) * desc->gamma);
}

void bo_derivatives_matern52(const bo_features_desc *desc, const bo_pair *pair, bo_pair_derivatives *out)
{
    const double a = sqrt(5 * pair->distance2) * desc->gamma;
    out->distance2 = -5.0 / 6 * desc->gamma * desc->gamma * (1 + a) * exp(-a);
}

void bo_derivatives_rational_quadratic(const bo_features_desc *desc, const bo_pair *pair, bo_pair_derivatives *out)
{
    out->distance2 = -desc->gamma * exp(-(desc->alpha + 1) * log1p(desc->gamma * pair->distance2 / desc->alpha));
}

void bo_derivatives_softmax(const bo_features_desc *desc, const bo_pair *pair, bo_pair_derivatives *out)
{
    (void)desc;
    out->dot = exp(pair->dot);
}

/* k = N J(c)/2π with N = |t||t'|, c = cos θ and J' = π - θ. */
void bo_derivatives_arccos(const bo_features_desc *desc, const bo_pair *pair, bo_pair_derivatives *out)
{
    const double norms = sqrt(pair->norm_x * pair->norm_y), pi = 3.14159265358979323846;
    (void)desc;
    if (!(norms > 0)) return;
    const double c = fmax(-1, fmin(1, pair->dot / norms));
    out->dot = (pi - acos(c)) / (2 * pi);
    out->norm_x = norms * sqrt((1 - c) * (1 + c)) / (4 * pi * pair->norm_x);
}

void bo_derivatives_polynomial(const bo_features_desc *desc, const bo_pair *pair, bo_pair_derivatives *out)
{
    out->dot = desc->degree;
    for (int k = 1; k < desc->degree; k++) out->dot *= 1 + pair->dot;
}

void bo_derivatives_taylor(const bo_features_desc *desc, const bo_pair *pair, bo_pair_derivatives *out)
{
    (void)desc;
    out->dot = 1 + pair->dot;
}

void bo_derivatives_dot(const bo_features_desc *desc, const bo_pair *pair, bo_pair_derivatives *out)
{
    (void)desc, (void)pair;
    out->dot = 1;
}

void bo_derivatives_hedgehog(const bo_features_desc *desc, const bo_pair *pair, bo_pair_derivatives *out)
{
    (void)desc;
    out->dot = 1 / (pair->sum_x * pair->sum_y);
    out->sum_x = -pair->dot / (pair->sum_x * pair->sum_x * pair->sum_y);
}
