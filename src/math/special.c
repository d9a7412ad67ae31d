/* The normal distribution: Φ from the complementary error function, its inverse by Halley's iteration; and quantiles of
 * Student's t distribution. */
#include <math.h>
#include <stdbool.h>
#include "special.h"

double bo_normal_cdf(double x)
{
    return 0.5 * erfc(-x * M_SQRT1_2);
}

/* Returns an initial value within a few percent for 0 < p <= 1/2. Tail: Φ(-t) ≈ φ(t) / t, inverted, t² = L - ln(L +
 * ...) with L = -2 ln(p √(2π)); middle: the odd series Φ⁻¹(1/2 + q) = s + s³/6 + 7 s⁵/120, s = √(2π) q. */
static double quantile_start(double p)
{
    double root_two_pi = 2.5066282746310002;
    if (p > 0.1) {
        double s = (p - 0.5) * root_two_pi, s2 = s * s;
        return s * (1.0 + s2 * (1.0 / 6.0 + s2 * (7.0 / 120.0)));
    }
    double level = -2.0 * log(p * root_two_pi), square = level;
    for (int i = 0; i < 3; i++) square = level - log(square > 1.0 ? square : 1.0);
    return -sqrt(square > 0.5 ? square : 0.5);
}

/* The iteration uses f(x) = ln Φ(x) - ln p, which is well scaled over 300 orders of magnitude; Φ itself is not. f' =
 * φ/Φ = h, f'' = -h (x + h). Halley: x -= f / (f' - f f'' / (2 f')) = f / (h + f (x + h) / 2). */
double bo_normal_quantile(double p)
{
    if (!(p >= 0.0 && p <= 1.0)) return NAN;
    if (p == 0.0) return -INFINITY;
    if (p == 1.0) return INFINITY;
    bool upper = p > 0.5;
    double tail = upper ? 1.0 - p : p, x = quantile_start(tail); /* 1 - p is exact for p > 1/2 */
    double log_tail = log(tail);
    for (int i = 0; i < 6; i++) {
        double cdf = bo_normal_cdf(x);
        /* Far from p the logarithm of the ratio is used; near p the difference of logarithms would cancel. */
        double ratio = cdf / tail, f = fabs(ratio - 1.0) < 0.5 ? log1p((cdf - tail) / tail) : log(cdf) - log_tail;
        double hazard = exp(-0.5 * x * x) * 0.3989422804014327 / cdf;
        double step = f / (hazard + 0.5 * f * (x + hazard));
        x -= step;
        if (fabs(step) <= 1e-9 * fabs(x)) break; /* convergence is cubic: the next step is below rounding */
    }
    return upper ? -x : x;
}

/* P(|T| <= t) for an integer number of degrees of freedom, with θ = atan(t / √ν): sin θ (1 + cos²θ/2 + 1·3/(2·4) cos⁴θ
 * + …) for even ν, 2/π (θ + sin θ cos θ (1 + 2/3 cos²θ + …)) for odd ν, up to the power ν - 2 of cos θ (Abramowitz and
 * Stegun, 26.7.3 and 26.7.4). */
static double student_inside(double t, int freedom)
{
    double angle = atan(t / sqrt((double)freedom)), square = cos(angle) * cos(angle), term = 1, sum = 0;
    bool odd = freedom % 2 == 1;
    for (int k = odd ? 3 : 2; k <= freedom; k += 2) {
        sum += term;
        term *= square * (double)(k - 1) / (double)k;
    }
    return odd ? (angle + sin(angle) * cos(angle) * sum) * M_2_PI : sin(angle) * sum;
}

/* Bisection: a few dozen quantiles are needed at most, and any start converges. */
double bo_student_quantile(double p, int freedom)
{
    if (!(p >= 0.0 && p <= 1.0) || freedom < 1) return NAN;
    if (p == 0.0 || p == 1.0) return p == 0.0 ? -INFINITY : INFINITY;
    if (p < 0.5) return -bo_student_quantile(1.0 - p, freedom);
    double inside = 2.0 * p - 1.0, low = 0, high = 1;
    while (student_inside(high, freedom) < inside && high < 0x1p60) low = high, high *= 2;
    for (int i = 0; i < 60; i++) {
        double middle = 0.5 * (low + high);
        if (student_inside(middle, freedom) < inside)
            low = middle;
        else
            high = middle;
    }
    return 0.5 * (low + high);
}
