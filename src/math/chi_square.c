/* The upper tail of a weighted sum of chi-square variables, Q = Σ λ_i z_i².
 *
 * With K(s) = -½ Σ ln(1 - 2 λ_i s), the logarithm of E exp(sQ),
 *
 *     P(Q > x) = 1/(2πi) ∫ exp(K(s) - s x) / s ds
 *
 * along any path from -i∞ to i∞ that crosses the real axis at a c between 0 and 1/(2 λ_max). If it crosses below 0, the
 * integral is -P(Q <= x). The path here is the parabola s = c + a y² + iy. With c at the saddle point K'(c) = x, and a
 * = K'''/(6 K''), which follows the path of steepest descent near c, the integrand neither oscillates nor cancels, so
 * that tiny probabilities have the same relative accuracy as large ones. (Daniels 1954 for the saddle point; Imhof 1961
 * integrates along the imaginary axis.)
 *
 * Far from c this parabola may come close to the poles 1/(2 λ_i) of many smaller weights, where the integrand is larger
 * than at c, and its sum cancels. Then a smaller a is tried. On the line a = 0 the integrand decreases for any weights.
 *
 * The trapezoidal rule converges exponentially: a change of 1e-9 after its step was halved leaves an error far below
 * it. Its points are y = sinh(u) / √K'', because the integrand decays only like y⁻² for few weights and a small x. */
#include <complex.h>
#include <math.h>
#include "special.h"

typedef struct mixture {
    size_t count;
    const double *weight;
    double largest;
} mixture;

/* The integrand with y = sinh(u) scale, divided by its exponential at c. */
typedef struct contour {
    const mixture *of;
    double x, c, bend, scale, height;
} contour;

/* The end of the run of equal weights that starts at i. */
static size_t run_end(const mixture *m, size_t i)
{
    size_t end = i + 1;
    while (end < m->count && m->weight[end] == m->weight[i]) end++;
    return end;
}

/* The derivatives 1, 2 and 3 of K at a real t below 1/(2 λ_max). */
static void derivatives(const mixture *m, double t, double out[3])
{
    out[0] = out[1] = out[2] = 0;
    for (size_t i = 0, end; i < m->count; i = end) {
        end = run_end(m, i);
        const double n = (double)(end - i), r = m->weight[i] / (1 - 2 * m->weight[i] * t);
        out[0] += n * r;
        out[1] += n * 2 * r * r;
        out[2] += n * 8 * r * r * r;
    }
}

/* K'(t) = x by bisection; K' increases. With the pole p = 1/(2 λ_max), t is p (1 - e^u) for a u from -690 to 0 if x is
 * above the mean, and p (1 - e^u) for a u above 0 otherwise, where K'(t) <= count/(2 (p - t)) limits u. */
static double saddle_point(const mixture *m, double x, double mean)
{
    const double pole = 0.5 / m->largest;
    double low = x > mean ? -690 : 0, high = x > mean ? 0 : log1p(0.5 * (double)m->count / (x * pole)), d[3];
    for (int step = 0; step < 80; step++) {
        const double middle = 0.5 * (low + high);
        derivatives(m, pole * -expm1(middle), d);
        if (d[0] > x)
            low = middle;
        else
            high = middle;
    }
    return pole * -expm1(0.5 * (low + high));
}

/* K(s) - s x */
static double complex exponent(const mixture *m, double complex s, double x)
{
    double logarithm = 0, angle = 0; /* of Π (1 - 2 λ s) */
    for (size_t i = 0, end; i < m->count; i = end) {
        end = run_end(m, i);
        const double n = (double)(end - i), re = -2 * m->weight[i] * creal(s), im = -2 * m->weight[i] * cimag(s);
        logarithm += n * 0.5 * (re > -0.5 ? log1p(re * (2 + re) + im * im) : log((1 + re) * (1 + re) + im * im));
        angle += n * atan2(im, 1 + re);
    }
    return -0.5 * (logarithm + I * angle) - s * x;
}

/* The sum of the terms at u = first, first + step, …; NAN if the integrand increases. */
static double sum_terms(const contour *path, double first, double step)
{
    enum { TERMS = 1 << 14 };
    double sum = 0, before = 0;
    for (int k = 0; k < TERMS; k++) {
        const double u = first + k * step, y = path->scale * sinh(u);
        const double complex s = path->c + path->bend * y * y + I * y,
                             f = exponent(path->of, s, path->x) - path->height;
        const double complex term = cexp(f) / s * (2 * path->bend * y + I) * cosh(u);
        if (creal(f) > before + 1e-9 * fabs(path->height) + 1e-6) return NAN;
        before = creal(f);
        sum += cimag(term);
        if (cabs(term) < 1e-18 / fabs(path->c)) break;
    }
    return sum;
}

/* ∫ from y = 0 in units of scale exp(height); NAN if the integrand increases. */
static double integrate(const contour *path)
{
    double step = 0.16, sum = 0.5 / path->c + sum_terms(path, step, step), value = step * sum;
    for (int halvings = 0; halvings < 10 && !isnan(sum); halvings++) {
        const double before = value;
        sum += sum_terms(path, 0.5 * step, step);
        step *= 0.5;
        value = step * sum;
        if (fabs(value - before) <= 1e-9 * fabs(value)) break;
    }
    return value;
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
    if (x < 1e-34 * m.largest) return 1; /* P(Q <= x) <= √(2 x/(π λ_max)) */
    double d[3];
    derivatives(&m, 0, d);
    const double saddle = saddle_point(&m, x, d[0]),
                 min_distance = 0.4 / sqrt(d[1]); /* the distance from the pole at 0 */
    contour path = {.of = &m, .x = x, .c = saddle < 0 ? fmin(saddle, -min_distance) : fmax(saddle, min_distance)};
    derivatives(&m, path.c, d);
    path.scale = 1 / sqrt(d[1]);
    path.height = creal(exponent(&m, path.c, x));
    double value = NAN;
    for (double share = 1; isnan(value); share = share < 1e-3 ? 0 : share / 2) {
        path.bend = share * d[2] / (6 * d[1]);
        value = integrate(&path);
        if (share == 0) break;
    }
    const double part = exp(path.height) * value * path.scale / M_PI, tail = path.c < 0 ? 1 + part : part;
    return isnan(tail) ? NAN : fmin(1, fmax(0, tail)); /* weights near the ends of the range of double */
}
