/* Kernels of fully connected networks of infinite width in closed form: nngp (Lee et al. 2018, arXiv 1711.00165) and
 * ntk (Jacot et al. 2018, arXiv 1806.07572), by the recursion stated in features.h. For ReLU, F and F' are the
 * arc-cosine kernels of order 1 and 0 (Cho and Saul 2009); for erf, F is the arcsine kernel (Williams 1997).
 *
 * A layer is described by the variances a and b of two Gaussian variables and the variance d of their difference,
 * instead of their covariance c = (a + b - d)/2. Near x = y the angle between them is of order √d, and 1 - c/√(ab)
 * would lose all of its digits there, whereas d is computed without cancellation in every layer. */
#include <math.h>
#include "enums.h"
#include "internal.h"

static const char *const activation_names[] = {"relu", "erf"};

BO_NAMED(hidden_activation, bo_hidden_activation, activation_names)

typedef struct layer {
    double a, b, d;
} layer;

/* E[act(u) act(v)] through the variances of u, v and u - v, and E[act'(u) act'(v)]. */
typedef struct moments {
    layer f;
    double slope;
} moments;

static const double pi = 3.14159265358979323846;

/* √(pq) - (p + q - d)/2 = (d - (√p - √q)²)/2 for p, q > 0 */
static double excess(double p, double q, double d)
{
    double roots = (p - q) / (sqrt(p) + sqrt(q));
    return fmax(0, (d - roots * roots) / 2);
}

/* sin θ - θ cos θ, by its series where the difference would cancel */
static double sine_excess(double theta)
{
    double square = theta * theta;
    if (theta < 0.05) return theta * square * (1.0 / 3 - square * (1.0 / 30 - square * (1.0 / 840 - square / 45360)));
    return sin(theta) - theta * cos(theta);
}

/* With θ = the angle, E[relu relu] = √(ab) (sin θ + (π - θ) cos θ)/2π = c/2 + √(ab) (sin θ - θ cos θ)/2π. */
static moments relu_moments(layer l)
{
    double norms = sqrt(l.a * l.b);
    if (!(norms > 0)) return (moments){{l.a / 2, l.b / 2, (l.a + l.b) / 2}, 0.25}; /* F(0, b) = 0; NaN stays NaN */
    double half = sqrt(fmin(1, excess(l.a, l.b, l.d) / (2 * norms))), theta = 2 * asin(half);
    return (moments){{l.a / 2, l.b / 2, fmax(0, l.d / 2 - norms * sine_excess(theta) / pi)}, (pi - theta) / (2 * pi)};
}

/* E[erf erf] = (2/π) asin(2c/√(AB)) and E[erf' erf'] = (4/π)/√(AB - 4c²) with A = 1 + 2a, B = 1 + 2b: smooth at x =
 * y. */
static moments erf_moments(layer l)
{
    double p = 1 + 2 * l.a, q = 1 + 2 * l.b, root = sqrt(p * q);
    double gap = 1 + excess(p, q, 2 * l.d); /* √(AB) - 2c, since 2c = (A + B - 2d)/2 - 1 */
    double a = 2 / pi * asin(2 * l.a / p), b = 2 / pi * asin(2 * l.b / q);
    double f = 2 / pi * asin(fmax(-1, fmin(1, 1 - gap / root)));
    return (moments){{a, b, fmax(0, a + b - 2 * f)}, 4 / pi / sqrt(gap * (2 * root - gap))};
}

static double covariance(layer l)
{
    return (l.a + l.b - l.d) / 2;
}

/* Returns Σ and Θ at the output. */
static void recursion(const bo_features_desc *desc, const bo_pair *pair, double *sigma, double *theta)
{
    double w = desc->weight_variance, b = desc->bias_variance;
    layer l = {b + w * pair->norm_x, b + w * pair->norm_y, w * pair->distance2};
    *theta = covariance(l);
    for (int i = 0; i < desc->depth; i++) {
        moments m = desc->activation == BO_HIDDEN_ERF ? erf_moments(l) : relu_moments(l);
        l = (layer){b + w * m.f.a, b + w * m.f.b, w * m.f.d};
        *theta = covariance(l) + w * m.slope * *theta;
    }
    *sigma = covariance(l);
}

double bo_value_nngp(const bo_features_desc *desc, const bo_pair *pair)
{
    double sigma, theta;
    recursion(desc, pair, &sigma, &theta);
    return sigma;
}

double bo_value_ntk(const bo_features_desc *desc, const bo_pair *pair)
{
    double sigma, theta;
    recursion(desc, pair, &sigma, &theta);
    return theta;
}

/* ---- derivatives ------------------------------------------------------------------------------------------------- */

/* A number with its derivatives with respect to |t|² and |t - t'|². */
typedef struct dual {
    double value, norm, distance;
} dual;

/* p x + q y + r */
static dual combine(double p, dual x, double q, dual y, double r)
{
    return (dual){p * x.value + q * y.value + r, p * x.norm + q * y.norm, p * x.distance + q * y.distance};
}

/* f(x, y) with its value and its derivatives f_x and f_y */
static dual chain(double value, double f_x, dual x, double f_y, dual y)
{
    return (dual){value, f_x * x.norm + f_y * y.norm, f_x * x.distance + f_y * y.distance};
}

/* F at (x, x) and (x, y), and F', with their derivatives; F at (y, y) is constant. */
typedef struct dual_moments {
    dual a, c, slope;
} dual_moments;

/* ∂F/∂c = (π - θ)/2π and ∂F/∂a = √(b/a) sin θ/4π, and with cos θ = c/√(ab): dθ = (c da/2a - dc)/(√(ab) sin θ). */
static dual_moments relu_duals(layer l, dual a, dual c)
{
    const double norms = sqrt(l.a * l.b);
    const dual none = {0};
    dual_moments m = {.a = combine(0.5, a, 0, none, 0), .slope.value = 0.25};
    if (!(norms > 0)) return m;
    const double half = sqrt(fmin(1, excess(l.a, l.b, l.d) / (2 * norms))), theta = 2 * asin(half), sine = sin(theta);
    const double slope = (pi - theta) / (2 * pi), value = c.value / 2 + norms * sine_excess(theta) / (2 * pi);
    m.c = chain(value, slope, c, sqrt(l.b / l.a) * sine / (4 * pi), a);
    const double turn = sine > 1e-12 ? 1 / (2 * pi * norms * sine) : 0; /* not differentiable at x = y */
    m.slope = chain(slope, turn, c, -turn * c.value / (2 * l.a), a);
    return m;
}

static dual_moments erf_duals(layer l, dual a, dual c)
{
    const double p = 1 + 2 * l.a, q = 1 + 2 * l.b, root = sqrt(p * q), gap = 1 + excess(p, q, 2 * l.d);
    const double left = gap * (2 * root - gap), slope = 4 / pi / sqrt(left); /* left = AB - 4c² */
    const double s = fmax(-1, fmin(1, 1 - gap / root));
    dual_moments m;
    m.a = chain(2 / pi * asin(2 * l.a / p), 4 / pi / (p * sqrt(1 + 4 * l.a)), a, 0, a);
    m.c = chain(2 / pi * asin(s), slope, c, -2 / pi * s * root / (p * sqrt(left)), a);
    m.slope = chain(slope, 4 * slope * c.value / left, c, -slope * q / left, a);
    return m;
}

/* Σ and Θ at the output, with their derivatives. */
static void recursion_duals(const bo_features_desc *desc, const bo_pair *pair, dual *sigma, dual *theta)
{
    const double w = desc->weight_variance, b = desc->bias_variance;
    layer l = {b + w * pair->norm_x, b + w * pair->norm_y, w * pair->distance2};
    dual a = {l.a, w, 0}, c = {covariance(l), w / 2, -w / 2};
    *theta = c;
    for (int i = 0; i < desc->depth; i++) {
        const moments next = desc->activation == BO_HIDDEN_ERF ? erf_moments(l) : relu_moments(l);
        const dual_moments m = desc->activation == BO_HIDDEN_ERF ? erf_duals(l, a, c) : relu_duals(l, a, c);
        const dual none = {0};
        l = (layer){b + w * next.f.a, b + w * next.f.b, w * next.f.d};
        a = combine(w, m.a, 0, none, b);
        c = combine(w, m.c, 0, none, b);
        const dual product = chain(m.slope.value * theta->value, m.slope.value, *theta, theta->value, m.slope);
        *theta = combine(1, c, w, product, 0);
    }
    *sigma = c;
}

void bo_derivatives_nngp(const bo_features_desc *desc, const bo_pair *pair, bo_pair_derivatives *out)
{
    dual sigma, theta;
    recursion_duals(desc, pair, &sigma, &theta);
    out->norm_x = sigma.norm;
    out->distance2 = sigma.distance;
}

void bo_derivatives_ntk(const bo_features_desc *desc, const bo_pair *pair, bo_pair_derivatives *out)
{
    dual sigma, theta;
    recursion_duals(desc, pair, &sigma, &theta);
    out->norm_x = theta.norm;
    out->distance2 = theta.distance;
}
