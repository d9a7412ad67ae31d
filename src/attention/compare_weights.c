/* One query in float64: see compare.h. */
#include <float.h>
#include <math.h>
#include <string.h>
#include "compare.h"

static double largest(size_t count, const double *x)
{
    double high = -INFINITY;
    for (size_t i = 0; i < count; i++) high = fmax(high, x[i]);
    return high;
}

double bo_log_sum(size_t count, const double *x)
{
    double high = largest(count, x), sum = 0;
    for (size_t i = 0; i < count; i++) {
        if (isnan(x[i])) return x[i];
        sum += exp(x[i] - high);
    }
    return isfinite(high) ? high + log(sum) : high; /* infinity, or nothing */
}

double bo_relative_error(double error, double norm)
{
    return norm > 0 ? sqrt(error / norm) : error == 0 ? 0 : INFINITY;
}

void bo_weights_softmax(const bo_kernels *kernels, size_t dim, double scale, const float *q, bo_rows k,
                        bo_compare_weights *w)
{
    for (size_t j = w->first; j < w->end; j++) w->log[j] = scale * kernels->dot(dim, q, k.at + j * k.stride);
    w->sign = NULL;
}

/* The denominator relative to exp(top); 0 where the output is to be 0. */
static double divisor(double sum, double top, const bo_denominator *d)
{
    if (d->none) return exp(-top);
    if (d->clamp == 0) return sum;
    double unit = exp(d->log_unit - top), least = fmax(sum, d->clamp * unit);
    return least > (double)FLT_MIN * unit ? least : 0;
}

void bo_weights_mix(const bo_compare_weights *w, bo_rows v, size_t value_dim, const bo_denominator *denominator,
                    double *out)
{
    double top = largest(w->end - w->first, w->log + w->first), sum = 0;
    memset(out, 0, value_dim * sizeof *out);
    if (top == -INFINITY) return;
    for (size_t j = w->first; j < w->end; j++) {
        double a = exp(w->log[j] - top) * (w->sign ? w->sign[j] : 1);
        const float *value = v.at + j * v.stride;
        sum += a;
        for (size_t c = 0; c < value_dim; c++) out[c] += a * (double)value[c];
    }
    double by = divisor(sum, top, denominator), factor = by != 0 ? 1 / by : 0;
    for (size_t c = 0; c < value_dim; c++) out[c] *= factor;
}
