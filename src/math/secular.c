/* Roots of the secular equation by rational interpolation within a bracket (Li 1993, LAPACK working note 89). */
#include "secular.h"

#include <float.h>
#include <math.h>
#include <stdbool.h>

enum { LANES = 4, MAX_STEPS = 200, FREE_STEPS = 12 };

/* Σ w_j / (δ_j - τ) and its derivative, over some j. */
typedef struct part {
    double sum, derivative;
} part;

/* f at the point origin + τ, divided at root i: the sum over j <= i is negative, that over j > i positive. */
typedef struct point {
    double tau, value, bound; /* bound: of the rounding errors in the value, relative to DBL_EPSILON */
    part left, right;
} point;

/* Uses several sums so that the divisions overlap; their order is fixed. */
static part sum_part(size_t n, const double *differences, const double *weights, double tau)
{
    double sums[LANES] = {0}, derivatives[LANES] = {0};
    size_t j = 0;
    for (; j + LANES <= n; j += LANES) {
        for (size_t l = 0; l < LANES; l++) {
            double inverse = 1 / (differences[j + l] - tau), term = weights[j + l] * inverse;
            sums[l] += term;
            derivatives[l] += term * inverse;
        }
    }
    for (; j < n; j++) {
        double inverse = 1 / (differences[j] - tau), term = weights[j] * inverse;
        sums[0] += term;
        derivatives[0] += term * inverse;
    }
    return (part){(sums[0] + sums[1]) + (sums[2] + sums[3]),
                  (derivatives[0] + derivatives[1]) + (derivatives[2] + derivatives[3])};
}

static point evaluate(const bo_secular *s, size_t i, const double *differences, double tau)
{
    point p = {.tau = tau};
    p.left = sum_part(i + 1, differences, s->weights, tau);
    p.right = sum_part(s->n - i - 1, differences + i + 1, s->weights + i + 1, tau);
    p.value = s->inverse + p.left.sum + p.right.sum;
    p.bound = s->inverse + 8 * (p.right.sum - p.left.sum) + fabs(tau) * (p.left.derivative + p.right.derivative);
    return p;
}

/* Sets differences to d_j - d_origin. */
static void shift_to(const bo_secular *s, size_t origin, double *differences)
{
    for (size_t j = 0; j < s->n; j++) differences[j] = s->poles[j] - s->poles[origin];
}

/* The root between the poles p < q of c + u / (p - x) + v / (q - x), which is a root of c x² - a x + b. */
static double between(double a, double b, double c)
{
    double root = sqrt(fabs(a * a - 4 * b * c));
    return a <= 0 ? (a - root) / (2 * c) : 2 * b / (a + root);
}

/* The root of the function that keeps the two poles next to the root with their weights and is constant otherwise. */
static double first_guess(const bo_secular *s, size_t i, const point *middle, const double *differences)
{
    double p = differences[i], q = differences[i + 1], u = s->weights[i], v = s->weights[i + 1];
    double from = p + (q - p) / 2, c = middle->value - u / (p - from) - v / (q - from);
    return between(c * (p + q) + u + v, c * p * q + u * q + v * p, c);
}

/* The distance to the root of a function with the same value and slope at this point and the same poles next to it.
 * Either the weight of the nearer pole is kept (weighted), or the derivatives of both sides. */
static double interpolate(const bo_secular *s, size_t i, const double *differences, const point *at, bool weighted)
{
    double p = differences[i] - at->tau, derivative = at->left.derivative + at->right.derivative, value = at->value;
    if (i + 1 == s->n) return value * p / (value - derivative * p); /* the only pole next to the last root */
    double q = differences[i + 1] - at->tau, c;
    if (!weighted) {
        c = value - p * at->left.derivative - q * at->right.derivative;
    } else if (-p < q) {
        c = value - q * derivative - (p - q) * (s->weights[i] / (p * p));
    } else {
        c = value - p * derivative - (q - p) * (s->weights[i + 1] / (q * q));
    }
    double step = between((p + q) * value - p * q * derivative, p * q * value, c);
    return value * step < 0 ? step : -value / derivative;
}

/* Both ends have the same sign; they may differ by orders of magnitude. */
static double bisect(double low, double high)
{
    return copysign(sqrt(fabs(low)) * sqrt(fabs(high)), high + low);
}

/* Iterates from `tau` until the value is as small as its rounding errors, or the bracket has no number inside. The
 * bracket ensures termination: after some free steps, every other step bisects it. */
static double iterate(const bo_secular *s, size_t i, const double *differences, double low, double high, double tau)
{
    bool weighted = true;
    double before = INFINITY;
    for (int step = 0; step < MAX_STEPS; step++) {
        if (!(tau > low && tau < high)) tau = bisect(low, high);
        point at = evaluate(s, i, differences, tau);
        if (fabs(at.value) <= DBL_EPSILON * at.bound) break;
        if (at.value < 0) {
            low = tau;
        } else {
            high = tau;
        }
        if (fabs(at.value) > before / 10) weighted = !weighted;
        before = fabs(at.value);
        double next = tau + interpolate(s, i, differences, &at, weighted);
        if (step > FREE_STEPS && step % 2 == 1) next = bisect(low, high);
        if (!(next > low && next < high)) next = bisect(low, high);
        if (next == tau || !(next > low && next < high)) break;
        tau = next;
    }
    return tau;
}

double bo_secular_root(const bo_secular *s, size_t i, double *differences)
{
    size_t origin = i;
    double low, high, tau;
    shift_to(s, i, differences);
    if (i + 1 == s->n) { /* one term alone, and all weight at the last pole, bound the last root */
        low = s->weights[i] / s->inverse;
        high = s->total / s->inverse;
        tau = high;
    } else {
        double half = differences[i + 1] / 2;
        point middle = evaluate(s, i, differences, half);
        if (middle.value > 0) {
            low = s->weights[i] / (s->inverse + middle.right.sum);
            high = half;
        } else {
            origin = i + 1;
            shift_to(s, origin, differences);
            low = -half;
            high = s->weights[i + 1] / middle.left.sum;
        }
        tau = first_guess(s, i, &middle, differences);
    }
    if (low < high) {
        tau = iterate(s, i, differences, low, high, tau);
    } else {
        tau = origin == i ? high : low;
    }
    for (size_t j = 0; j < s->n; j++) differences[j] -= tau;
    return s->poles[origin] + tau;
}
