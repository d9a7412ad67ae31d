#include "powers.h"
#include <math.h>
#include <string.h>

/* Multiplies rows of x by Aᵀ. */
static bo_status product(bo_context *context, size_t rows, size_t n, const double *x, const double *a, double *out)
{
    return lab_multiply(context, false, true, rows, n, n, 1, x, n, a, n, 0, out, n);
}

bo_status lab_powers_steps(bo_context *context, size_t n, const double *a, const double *b, size_t length, double *out)
{
    memcpy(out, b, n * sizeof *b);
    for (size_t k = 1; k < length; k++) BO_TRY(product(context, 1, n, out + (k - 1) * n, a, out + k * n));
    return BO_OK;
}

bo_status lab_powers_doubling(bo_context *context, size_t n, const double *a, const double *b, size_t length,
                              double *scratch, double *out)
{
    double *power = scratch, *next = scratch + n * n;
    memcpy(out, b, n * sizeof *b);
    memcpy(power, a, n * n * sizeof *a);
    for (size_t done = 1; done < length; done *= 2) {
        BO_TRY(product(context, done, n, out, power, out + done * n));
        BO_TRY(product(context, n, n, power, power, next));
        memcpy(power, next, n * n * sizeof *next);
    }
    return BO_OK;
}

bo_status lab_powers_ranks(bo_context *context, size_t n, const double *diagonal, const double *p, const double *q,
                           size_t count, double *ranks)
{
    enum { MAX_SIZE = 16, SQUARE = MAX_SIZE * MAX_SIZE };
    double a[SQUARE], power[SQUARE], next[SQUARE], u[SQUARE], vt[SQUARE], values[MAX_SIZE];
    if (n > MAX_SIZE) return bo_fail(context, BO_INVALID, "expected a matrix of at most 16 rows");
    for (size_t i = 0; i < n * n; i++) power[i] = a[i] = p[i / n] * q[i % n] + (i / n == i % n ? diagonal[i / n] : 0);
    for (size_t length = 1; length <= count; length++) {
        memcpy(next, power, n * n * sizeof *next);
        for (size_t i = 0; i < n; i++) next[i * n + i] -= pow(diagonal[i], (double)length);
        BO_TRY(lab_svd(context, n, n, next, u, values, vt));
        ranks[length - 1] = (double)lab_numerical_rank(values, n, 1e-10);
        BO_TRY(lab_multiply(context, false, false, n, n, n, 1, power, n, a, n, 0, next, n));
        memcpy(power, next, n * n * sizeof *next);
    }
    return BO_OK;
}

void lab_powers_closed(size_t n, const double *p, const double *b, size_t length, double *out)
{
    const double square = lab_dot(p, p, n);
    const double factor = lab_dot(p, b, n) * (pow(1 + square, (double)length) - 1) / square;
    for (size_t i = 0; i < n; i++) out[i] = b[i] + factor * p[i];
}
