/* The p-value of a column of categories.
 *
 * Given the total counts t_i of the categories, the counts of A under equal distributions are the counts of m rows
 * drawn without replacement from all N = m + n rows. For large counts the statistic U = mn/N |mean_A - mean_B|² is then
 * Σ λ_i z_i², with the eigenvalues of the covariance (diag(t) - ttᵀ/N)/(N - 1). Rare categories have a different
 * variance: one row in one of many categories is in A or in B. Therefore U is shifted and scaled to the exact mean and
 * variance that it has given t. */
#include "../base/base.h"
#include "../math/special.h"
#include "drift.h"

#include <math.h>
#include <stdlib.h>

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The variance of U. With ξ = 1{A} - m/N of a row, whose sum over all rows is 0, and S_k the sum of ξ^k, the means
 * of products of different rows follow from S_2 and S_4. */
static double exact_variance(size_t count, const double *t, double m, double n)
{
    const double N = m + n, v = m / N * (n / N), s2 = N * v, s4 = N * v * (1 - 3 * v);
    const double pairs = N * (N - 1), triples = pairs * (N - 2), quadruples = triples * (N - 3);
    const double e4 = s4 / N, e31 = -s4 / pairs, e22 = (s2 * s2 - s4) / pairs, e211 = (2 * s4 - s2 * s2) / triples,
                 e1111 = (3 * s2 * s2 - 6 * s4) / quadruples;
    double squares = 0, chosen = 0, mixed = 0, chosen_squares = 0, fourth = 0, mean = 0;
    for (size_t i = 0; i < count; i++) {
        const double two = t[i] * (t[i] - 1), three = two * (t[i] - 2), four = three * (t[i] - 3);
        squares += t[i] * t[i];
        chosen += two;
        mixed += two * t[i];
        chosen_squares += two * two;
        fourth += t[i] * e4 + two * (4 * e31 + 3 * e22) + three * 6 * e211 + four * e1111;
        mean += v * t[i] * (N - t[i]) / (N - 1);
    }
    const double different =
        (N * N - squares) * e22 + 2 * (chosen * N - mixed) * e211 + (chosen * chosen - chosen_squares) * e1111;
    const double scale = N / (m * n);
    return scale * scale * (fourth + different - mean * mean);
}

/* The root of Σ t_i/(t_i - λ) between two consecutive different counts, where it increases: an eigenvalue of diag(t) -
 * ttᵀ/N. */
static double root_between(size_t count, const double *t, double low, double high)
{
    enum { STEPS = 44 };
    for (int step = 0; step < STEPS; step++) {
        const double middle = 0.5 * (low + high);
        double sum = 0;
        for (size_t i = 0, end; i < count; i = end) {
            for (end = i + 1; end < count && t[end] == t[i];) end++;
            sum += (double)(end - i) * t[i] / (t[i] - middle);
        }
        if (sum < 0)
            low = middle;
        else
            high = middle;
    }
    return 0.5 * (low + high);
}

/* The eigenvalues of diag(t) - ttᵀ/N for ascending t; the smallest is 0. Equal counts are eigenvalues, all but one. */
static void eigenvalues(size_t count, const double *t, double *out)
{
    out[0] = 0;
    for (size_t i = 1; i < count; i++) out[i] = t[i] == t[i - 1] ? t[i] : root_between(count, t, t[i - 1], t[i]);
}

bo_status bo_drift_categories_p_value(bo_context *context, const bo_two_sums *sums, double *p_value)
{
    const double m = (double)sums->rows[0], n = (double)sums->rows[1], N = m + n;
    double *t = bo_alloc_raw(context, 2 * sums->size, sizeof *t, "the counts of categories");
    if (!t) return BO_MEMORY;
    double *values = t + sums->size;
    size_t count = 0;
    for (size_t c = 0; c < sums->size; c++)
        if (sums->sum[0][c] + sums->sum[1][c] > 0) t[count++] = sums->sum[0][c] + sums->sum[1][c];
    qsort(t, count, sizeof *t, by_value);
    eigenvalues(count, t, values);
    double mean = 0, variance = 0, unbiased;
    for (size_t i = 0; i < count; i++) {
        values[i] /= N - 1;
        mean += values[i];
        variance += 2 * values[i] * values[i];
    }
    const double exact = exact_variance(count, t, m, n), tolerance = 1e-12 * variance; /* the rounding error */
    *p_value = 1;                                                                      /* the statistic is constant */
    if (exact > tolerance)
        *p_value = bo_chi_square_tail(
            count, values, mean + (m * n / N * bo_two_sums_mmd2(sums, &unbiased) - mean) * sqrt(variance / exact));
    bo_free(t);
    return BO_OK;
}
