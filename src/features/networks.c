/* Kernels of fully connected networks of infinite width in closed form: nngp (Lee et al. 2018, arXiv 1711.00165) and ntk
 * (Jacot et al. 2018, arXiv 1806.07572), by the recursion stated in features.h. For ReLU, F and F' are the arc-cosine kernels
 * of order 1 and 0 (Cho and Saul 2009); for erf, F is the arcsine kernel (Williams 1997).
 *
 * A layer is described by the variances a and b of two Gaussian variables and the variance d of their difference, instead of
 * their covariance c = (a + b - d)/2. Near x = y the angle between them is of order √d, and 1 - c/√(ab) would lose all of its
 * digits there, whereas d is computed without cancellation in every layer. */
#include <math.h>
#include "internal.h"

static const char *const activation_names[] = {"relu", "erf"};

BO_NAMED(hidden_activation, bo_hidden_activation, activation_names)

typedef struct layer {
    double a, b, d;
} layer;

/* E[act(u) act(v)] through its variances and that of its difference, and E[act'(u) act'(v)]. */
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

/* E[erf erf] = (2/π) asin(2c/√(AB)) and E[erf' erf'] = (4/π)/√(AB - 4c²) with A = 1 + 2a, B = 1 + 2b: smooth at x = y. */
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
