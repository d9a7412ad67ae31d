/* The upper tail of a weighted sum of chi-square variables, Q = Σ λ_i z_i².
 *
 * With K(s) = -½ Σ ln(1 - 2 λ_i s), the logarithm of E exp(sQ),
 *
 *     P(Q > x) = 1/(2πi) ∫ exp(K(s) - s x) / s ds
 *
 * along any path from -i∞ to i∞ that crosses the real axis at a c between 0 and 1/(2 λ_max). The path here is the parabola
 * s = c + a y² + iy. With c at the saddle point K'(c) = x, and a = K'''/(6 K''), which follows the path of steepest
 * descent, the integrand neither oscillates nor cancels, so that tiny probabilities have the same relative accuracy as
 * large ones. The trapezoidal rule converges exponentially. Its points are y = sinh(u) / √K'', because for few weights and a
 * small x the integrand decays only like y⁻². (Daniels 1954 for the saddle point; Imhof 1961 integrates along
 * the imaginary axis.) */
#include <complex.h>
#include <math.h>
#include "special.h"

typedef struct mixture {
    size_t count;
    const double *weight;
    double largest;
} mixture;

/* The derivatives 1, 2 and 3 of K at a real t below 1/(2 λ_max). */
static void derivatives(const mixture *m, double t, double out[3])
{
    out[0] = out[1] = out[2] = 0;
    for (size_t i = 0; i < m->count; i++) {
        double r = m->weight[i] / (1 - 2 * m->weight[i] * t);
        out[0] += r;
        out[1] += 2 * r * r;
        out[2] += 8 * r * r * r;
    }
}

/* K'(t) = x by bisection in the logarithm of the distance to the pole 1/(2 λ_max); K' increases. */
static double saddle_point(const mixture *m, double x)
{
    double pole = 0.5 / m->largest, low = -690, high = 0, d[3]; /* t = pole (1 - e^u), u from high to low */
    for (int step = 0; step < 80; step++) {
        double middle = 0.5 * (low + high);
        derivatives(m, pole * -expm1(middle), d);
        if (d[0] > x)
            low = middle;
        else
            high = middle;
    }
    return pole * -expm1(0.5 * (low + high));
}

static double complex exponent(const mixture *m, double complex s, double x)
{
    double complex sum = 0;
    for (size_t i = 0; i < m->count; i++) sum += clog(1 - 2 * m->weight[i] * s);
    return -0.5 * sum - s * x;
}

double bo_chi_square_tail(size_t count, const double *weights, double x)
{
    mixture m = {count, weights, 0};
    for (size_t i = 0; i < count; i++) {
        if (!(weights[i] >= 0) || isinf(weights[i])) return NAN;
        m.largest = fmax(m.largest, weights[i]);
    }
    if (isnan(x)) return NAN;
    if (x <= 0) return 1;
    if (m.largest == 0 || isinf(x)) return 0;
    double d[3];
    derivatives(&m, 0, d);
    /* the path stays away from the pole at s = 0, also for an x below the mean, whose saddle point is negative */
    double least = 0.4 / sqrt(d[1]), c = x > d[0] ? fmax(saddle_point(&m, x), least) : least;
    derivatives(&m, c, d);
    const double bend = d[2] / (6 * d[1]), scale = 1 / sqrt(d[1]), step = 0.04;
    const double height = creal(exponent(&m, c, x));
    double sum = 0.5 / c; /* y = 0 */
    for (int k = 1; k < 2000; k++) {
        double y = scale * sinh(k * step);
        double complex s = c + bend * y * y + I * y;
        double complex term = cexp(exponent(&m, s, x) - height) / s * (2 * bend * y + I) * cosh(k * step);
        sum += cimag(term);
        if (cabs(term) < 1e-17 / c) break;
    }
    return fmin(1, fmax(0, exp(height) * sum * scale * step / M_PI));
}
