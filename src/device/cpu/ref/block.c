/* Kernels on blocks in cache, in plain C: the reference for tests of the fast versions. */
#include <float.h>
#include <math.h>
#include "ref.h"

void bo_ref_multiply(size_t m, size_t n, size_t k, const float *a, size_t row, size_t column, const float *b,
                     size_t ldb, bool add, float *c, size_t ldc)
{
    for (size_t i = 0; i < m; i++) {
        float *restrict sum = c + i * ldc;
        for (size_t j = 0; !add && j < n; j++) sum[j] = 0.0f;
        for (size_t p = 0; p < k; p++) {
            float factor = a[i * row + p * column];
            const float *restrict line = b + p * ldb;
            for (size_t j = 0; j < n; j++) sum[j] += factor * line[j];
        }
    }
}

void bo_ref_multiply_runs(size_t m, size_t n, bo_runs runs, size_t k, const float *a, size_t row, size_t column,
                          const float *b, size_t ldb, bool add, float *c, size_t ldc)
{
    if (!runs.count) bo_ref_multiply(m, n, 0, a, row, column, b, ldb, add, c, ldc);
    for (size_t r = 0; r < runs.count; r++)
        bo_ref_multiply(m, n, k, a + r * runs.a, row, column, b + r * runs.b, ldb, add || r > 0, c, ldc);
}

void bo_ref_renew(size_t m, size_t n, size_t k, const float *a, size_t row, size_t column, const float *b, size_t ldb,
                  float keep, float *c, size_t ldc)
{
    for (size_t i = 0; i < m; i++) bo_ref_scale(n, keep, c + i * ldc, c + i * ldc);
    bo_ref_multiply(m, n, k, a, row, column, b, ldb, true, c, ldc);
}

void bo_ref_transpose(size_t rows, size_t columns, const float *a, size_t lda, float *b, size_t ldb)
{
    for (size_t i = 0; i < rows; i++) {
        for (size_t j = 0; j < columns; j++) b[j * ldb + i] = a[i * lda + j];
    }
}

float bo_ref_max(size_t n, const float *x)
{
    float largest = -INFINITY;
    for (size_t i = 0; i < n; i++) largest = x[i] > largest ? x[i] : largest;
    return largest;
}

void bo_ref_scale(size_t n, float a, const float *x, float *y)
{
    for (size_t i = 0; i < n; i++) y[i] = a * x[i];
}

void bo_ref_scale_rows(size_t rows, size_t n, const float *a, const float *x, size_t ldx, float *y, size_t ldy)
{
    for (size_t r = 0; r < rows; r++) bo_ref_scale(n, a[r], x + r * ldx, y + r * ldy);
}

float bo_ref_dot_f32(size_t n, const float *x, const float *y)
{
    float sum = 0.0f;
    for (size_t i = 0; i < n; i++) sum += x[i] * y[i];
    return sum;
}

void bo_ref_dots(size_t lines, size_t rows, size_t n, const float *w, size_t ldw, const float *x, size_t ldx,
                 float *out, size_t ldo)
{
    for (size_t j = 0; j < lines; j++) {
        for (size_t r = 0; r < rows; r++) out[r * ldo + j] = bo_ref_dot_f32(n, w + j * ldw, x + r * ldx);
    }
}

void bo_ref_log_size(size_t n, float a, const float *x, float *y)
{
    for (size_t i = 0; i < n; i++) {
        float size = fabsf(x[i]);
        if (!isfinite(size))
            y[i] = INFINITY;
        else
            y[i] = size < FLT_MIN ? -INFINITY : (float)((double)a * log((double)size));
    }
}

void bo_ref_exp_below(size_t n, const float *x, float shift, float *y)
{
    bo_ref_exp_shift(n, x, shift, y);
}

float bo_ref_exp_sum(size_t n, const float *x, float shift, float *y)
{
    double sum = 0.0;
    bo_ref_exp_shift(n, x, shift, y);
    for (size_t i = 0; i < n; i++) sum += (double)y[i];
    return (float)sum;
}

float bo_ref_exp_weigh(size_t n, const float *x, float shift, float *y)
{
    double sum = 0.0;
    for (size_t i = 0; i < n; i++) {
        float weight;
        bo_ref_exp_shift(1, x + i, shift, &weight);
        y[i] *= weight;
        sum += (double)y[i];
    }
    return (float)sum;
}

float bo_ref_exp_weigh_wide(size_t n, const double *x, double shift, float *y)
{
    double sum = 0.0;
    for (size_t i = 0; i < n; i++) {
        float exponent = (float)(x[i] + shift);
        sum += (double)bo_ref_exp_weigh(1, &exponent, 0.0f, y + i);
    }
    return (float)sum;
}

bool bo_ref_finite(size_t n, const float *x)
{
    size_t excluded = 0;
    for (size_t i = 0; i < n; i++) excluded += !(fabsf(x[i]) <= FLT_MAX);
    return excluded == 0;
}

bool bo_ref_finite_rows(size_t rows, size_t n, const float *x, size_t ldx)
{
    for (size_t r = 0; r < rows; r++)
        if (!bo_ref_finite(n, x + r * ldx)) return false;
    return true;
}

void bo_ref_state_step(size_t rows, size_t n, bool update, float decay, const float *f, const float *v, float *s,
                       size_t queries, const float *q, size_t ldq, float *out, size_t ldo)
{
    for (size_t i = 0; update && i < rows; i++) {
        for (size_t j = 0; j < n; j++) s[i * n + j] = decay * s[i * n + j] + f[i] * v[j];
    }
    bo_ref_multiply(queries, n, rows, q, ldq, 1, s, n, false, out, ldo);
}
