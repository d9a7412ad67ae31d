#include "rates.h"
#include <math.h>

lab_rates lab_rates_make(size_t count, double first, double factor)
{
    lab_rates r = {.count = count < LAB_MAX_RATES ? count : LAB_MAX_RATES};
    for (size_t i = 0; i < r.count; i++) {
        r.rates[i] = first * pow(factor, (double)i);
        r.losses[i] = NAN;
    }
    return r;
}

size_t lab_rates_best(const lab_rates *r)
{
    size_t best = 0;
    for (size_t i = 1; i < r->count; i++)
        if (r->losses[i] < r->losses[best]) best = i;
    return best;
}

double lab_rates_between(const lab_rates *r)
{
    const size_t best = lab_rates_best(r);
    if (best == 0 || best + 1 >= r->count) return r->rates[best];
    /* The parabola through f(-1), f(0), f(1) has its minimum at (f(-1) - f(1)) / 2 (f(-1) - 2 f(0) + f(1)), within half
     * a step of 0. */
    const double left = r->losses[best - 1], middle = r->losses[best], right = r->losses[best + 1];
    const double curvature = left - 2 * middle + right;
    const double at = curvature > 0 ? (left - right) / (2 * curvature) : 0;
    return r->rates[best] * pow(r->rates[best + 1] / r->rates[best], at);
}

double lab_rates_loss(const lab_rates *r, double rate)
{
    size_t next = 0;
    while (next < r->count && r->rates[next] < rate) next++;
    if (next == 0) return r->losses[0];
    if (next == r->count) return r->losses[r->count - 1];
    const double part = log(rate / r->rates[next - 1]) / log(r->rates[next] / r->rates[next - 1]);
    return r->losses[next - 1] + part * (r->losses[next] - r->losses[next - 1]);
}
