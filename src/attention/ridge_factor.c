/* The factor of H + Λ, updated with every token by Givens rotations: recursive least squares by QR, which never subtracts
 * and so keeps what double has for any number of tokens. [U Γ] and a token √β [k v] are rotated into one another until the
 * token's first dim numbers are 0:
 *
 *     UᵀU + β k kᵀ = U'ᵀU'        UᵀΓ + β k vᵀ = U'ᵀΓ'
 */
#include <math.h>
#include "ridge.h"

/* ---- rows of double -------------------------------------------------------------------------------------------- */

/* y -= a x */
static void take_away(size_t n, double a, const double *restrict x, double *restrict y)
{
    for (size_t i = 0; i < n; i++) y[i] -= a * x[i];
}

/* Four sums, so that they can go side by side. */
static double dot(size_t n, const double *x, const double *y)
{
    double sums[4] = {0};
    size_t i = 0;
    for (; i + 4 <= n; i += 4)
        for (size_t j = 0; j < 4; j++) sums[j] += x[i + j] * y[i + j];
    for (; i < n; i++) sums[0] += x[i] * y[i];
    return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

static void rotate(size_t n, double c, double s, double *restrict x, double *restrict y)
{
    for (size_t i = 0; i < n; i++) {
        double a = x[i], b = y[i];
        x[i] = c * a + s * b;
        y[i] = c * b - s * a;
    }
}

/* ---- the factor ------------------------------------------------------------------------------------------------ */

/* Numbers in row i. */
static size_t row_length(bo_ridge_factor factor, size_t i)
{
    return factor.dim - i + factor.value_dim;
}

static double *row_at(bo_ridge_factor factor, size_t i)
{
    return factor.rows + i * (factor.dim + factor.value_dim) - i * (i - (i > 0)) / 2;
}

static void begin_rows(bo_ridge_factor factor, const float *g, const float *h, const float *lambda)
{
    size_t dim = factor.dim, values = factor.value_dim;
    for (size_t i = 0; i < dim; i++) {
        double *row = row_at(factor, i);
        for (size_t j = i; j < dim; j++) row[j - i] = ((double)h[i * dim + j] + (double)h[j * dim + i]) / 2;
        row[0] += (double)lambda[i];
        for (size_t j = 0; j < values; j++) row[dim - i + j] = (double)g[i * values + j];
    }
}

void bo_ridge_factor_fit(bo_ridge_factor factor, const float *g, const float *h, const float *lambda)
{
    begin_rows(factor, g, h, lambda);
    for (size_t i = 0; i < factor.dim; i++) {
        double *row = row_at(factor, i);
        /* H >= 0, so no pivot of H + Λ is less than that of Λ, however H was rounded. */
        double pivot = sqrt(fmax(row[0], (double)lambda[i]));
        row[0] = pivot;
        for (size_t j = 1; j < row_length(factor, i); j++) row[j] /= pivot;
        for (size_t j = i + 1; j < factor.dim; j++)
            take_away(row_length(factor, j), row[j - i], row + (j - i), row_at(factor, j));
    }
}

void bo_ridge_factor_take(bo_ridge_factor factor, double *token)
{
    double *row = factor.rows;
    for (size_t i = 0; i < factor.dim; row += row_length(factor, i++)) {
        if (token[i] == 0) continue;
        double length = sqrt(row[0] * row[0] + token[i] * token[i]), c = row[0] / length, s = token[i] / length;
        row[0] = length;
        rotate(row_length(factor, i) - 1, c, s, row + 1, token + i + 1);
    }
}

void bo_ridge_factor_ask(bo_ridge_factor factor, double *asked)
{
    const double *row = factor.rows;
    for (size_t i = 0; i < factor.dim; row += row_length(factor, i++)) {
        asked[i] /= row[0];
        take_away(row_length(factor, i) - 1, asked[i], row + 1, asked + i + 1);
    }
}

void bo_ridge_factor_pull(bo_ridge_factor factor, const float *dout, double *z)
{
    for (size_t i = 0; i < factor.dim; i++) {
        const double *row = row_at(factor, i) + factor.dim - i;
        z[i] = 0;
        for (size_t j = 0; j < factor.value_dim; j++) z[i] += row[j] * (double)dout[j];
    }
}

void bo_ridge_factor_back(bo_ridge_factor factor, double *z)
{
    for (size_t i = factor.dim; i-- > 0;) {
        const double *row = row_at(factor, i);
        z[i] = (z[i] - dot(factor.dim - i - 1, row + 1, z + i + 1)) / row[0];
    }
}
