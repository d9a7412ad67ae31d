/* Two-sample tests of single columns, and the sums that tests of columns and of whole rows share. */
#include "../base/base.h"
#include "../base/rng.h"
#include "../math/linalg.h"
#include "../math/special.h"
#include "drift.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double rounding = 1e-10; /* of sums, relative */

/* ---- sums -------------------------------------------------------------------------------------------------------- */

bo_status bo_two_sums_create(bo_context *context, size_t size, bool gram, bo_two_sums *out)
{
    *out = (bo_two_sums){.size = size};
    for (int side = 0; side < 2; side++) {
        out->sum[side] = bo_alloc(context, size, sizeof(double), "sums of features");
        if (!out->sum[side]) return BO_MEMORY;
    }
    if (!gram) return BO_OK;
    out->gram = bo_alloc(context, size * size, sizeof(double), "the covariance of the features");
    return out->gram ? BO_OK : BO_MEMORY;
}

void bo_two_sums_free(bo_two_sums *sums)
{
    bo_free(sums->sum[0]);
    bo_free(sums->sum[1]);
    bo_free(sums->gram);
    *sums = (bo_two_sums){0};
}

bo_status bo_two_sums_add(bo_context *context, bo_two_sums *sums, bo_drift_side side, size_t rows, const float *z,
                          size_t ldz, bool precise)
{
    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; j < sums->size; j++) {
            double value = (double)z[i * ldz + j];
            sums->sum[side][j] += value;
            sums->squares[side] += value * value;
        }
    sums->rows[side] += rows;
    return sums->gram ? bo_gram(context, sums->size, rows, z, ldz, sums->gram, sums->size, precise) : BO_OK;
}

/* The unbiased estimate subtracts tr C / rows of both sides, (Σ|z|² - rows |mean|²)/(rows (rows - 1)): the U-statistic
 * of Gretton et al. 2012, equation 3. */
double bo_two_sums_mmd2(const bo_two_sums *sums, double *unbiased)
{
    double m = (double)sums->rows[0], n = (double)sums->rows[1], square = 0, means[2] = {0, 0};
    for (size_t j = 0; j < sums->size; j++) {
        double a = sums->sum[0][j] / m, b = sums->sum[1][j] / n;
        square += (a - b) * (a - b);
        means[0] += a * a;
        means[1] += b * b;
    }
    *unbiased = square - fmax(sums->squares[0] - m * means[0], 0) / (m * (m - 1)) -
                fmax(sums->squares[1] - n * means[1], 0) / (n * (n - 1));
    return square;
}

/* Without variation inside A and B only the distance d of their means is left. The covariance of all rows together then
 * has one eigenvalue, mn/N d²/(N - 1), and the statistic is N - 1 times it: the probability is approximately the
 * probability of such a partition of N rows. */
static double p_value_of_constants(const bo_two_sums *sums, double second_moment, double mmd2)
{
    const double weight = 1;
    return mmd2 > rounding * second_moment ? bo_chi_square_tail(1, &weight, (double)(sums->rows[0] + sums->rows[1]) - 1)
                                           : 1;
}

/* By the central limit theorem, √(mn/(m+n)) (mean_A - mean_B) is normal with the covariance of the features. */
bo_status bo_two_sums_p_value(bo_context *context, const bo_two_sums *sums, double *p_value)
{
    size_t size = sums->size;
    double m = (double)sums->rows[0], n = (double)sums->rows[1], unbiased, trace = 0, second_moment = 0;
    double *matrix = bo_alloc_raw(context, size * size, sizeof *matrix, "the covariance of the features");
    double *values = bo_alloc_raw(context, size, sizeof *values, "eigenvalues");
    bo_status status = matrix && values ? BO_OK : BO_MEMORY;
    for (size_t i = 0; status == BO_OK && i < size; i++)
        for (size_t j = i; j < size; j++)
            matrix[i * size + j] = (sums->gram[i * size + j] - sums->sum[0][i] * sums->sum[0][j] / m -
                                    sums->sum[1][i] * sums->sum[1][j] / n) /
                                   (m + n - 2);
    for (size_t i = 0; status == BO_OK && i < size; i++) {
        trace += matrix[i * size + i];
        second_moment += sums->gram[i * size + i] / (m + n);
    }
    const bool constant = status == BO_OK && trace <= rounding * second_moment;
    if (constant) *p_value = p_value_of_constants(sums, second_moment, bo_two_sums_mmd2(sums, &unbiased));
    if (status == BO_OK && !constant) status = bo_eigen(context, size, matrix, size, values);
    if (status == BO_OK && !constant) {
        /* values below the rounding error of the sums are noise, and may be negative */
        for (size_t i = 0; i < size; i++)
            if (values[i] < rounding * trace) values[i] = 0;
        *p_value = bo_chi_square_tail(size, values, m * n / (m + n) * bo_two_sums_mmd2(sums, &unbiased));
    }
    bo_free(matrix);
    bo_free(values);
    return status;
}

/* ---- a column ---------------------------------------------------------------------------------------------------- */

bo_status bo_drift_part_check(bo_context *context, const bo_drift_part *part, size_t row, size_t column, double value)
{
    if (isinf(value))
        return bo_fail(context, BO_INVALID, "row %zu, column %zu: expected a finite number, found %g", row, column,
                       value);
    if (part->categories && !isnan(value) && !(value >= 0 && value < (double)part->categories && value == floor(value)))
        return bo_fail(context, BO_INVALID, "row %zu, column %zu: expected a category from 0 to %zu, found %g", row,
                       column, part->categories - 1, value);
    return BO_OK;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The median |difference| of random pairs of different values: the median heuristic without ties, so that a column with
 * mostly equal values has a bandwidth too. */
static bo_status fit_width(bo_context *context, bo_drift_part *part, size_t rows, const double *x, size_t ldx,
                           uint64_t seed)
{
    enum { PAIRS = 1000 };
    double *distance = bo_alloc_raw(context, PAIRS, sizeof *distance, "distances");
    if (!distance) return BO_MEMORY;
    bo_rng rng = bo_rng_make(seed, bo_rng_stream("drift.width", part->first));
    size_t count = 0;
    for (size_t p = 0; p < PAIRS; p++) {
        double a = x[bo_rng_below(&rng, rows) * ldx], b = x[bo_rng_below(&rng, rows) * ldx];
        double d = fabs(a / part->deviation - b / part->deviation);
        if (d > 0 && isfinite(d)) distance[count++] = d;
    }
    qsort(distance, count, sizeof *distance, by_value);
    part->width = part->deviation * (count ? distance[count / 2] : 1);
    if (!(part->width > 0 && isfinite(part->width))) part->width = part->deviation;
    bo_free(distance);
    return BO_OK;
}

bo_status bo_drift_part_fit(bo_context *context, bo_drift_part *part, size_t column, size_t rows, const double *x,
                            size_t ldx, uint64_t seed)
{
    size_t present = 0;
    double mean = 0, largest = 0, squares = 0;
    for (size_t i = 0; i < rows; i++) {
        double value = x[i * ldx];
        BO_TRY(bo_drift_part_check(context, part, i, column, value));
        if (isnan(value)) continue;
        largest = fmax(largest, fabs(value));
        mean += (value - mean) / (double)++present;
    }
    part->mean = isfinite(mean) ? mean : 0;
    for (size_t i = 0; i < rows; i++) { /* relative to the largest, whose square may overflow */
        double d = isnan(x[i * ldx]) || largest == 0 ? 0 : x[i * ldx] / largest - part->mean / largest;
        squares += d * d;
    }
    part->deviation = present ? largest * sqrt(squares / (double)present) : 0;
    if (!(part->deviation > 1e-300 && isfinite(part->deviation))) part->deviation = 1;
    part->indicator = present < rows;
    const size_t size = part->categories ? part->categories + 1 : BO_DRIFT_COLUMN_FEATURES + 1;
    BO_TRY(bo_two_sums_create(context, size, part->categories == 0, &part->sums));
    return part->categories ? BO_OK : fit_width(context, part, rows, x, ldx, seed);
}

/* [φ(x), 0], or [0, 1] for a missing value. */
static bo_status add_numbers(bo_context *context, bo_drift_part *part, const bo_features *phi, bo_drift_side side,
                             size_t rows, const double *x, size_t ldx, float *scratch)
{
    enum { SIZE = BO_DRIFT_COLUMN_FEATURES, STRIDE = SIZE + 16 };
    float *z = scratch, *scaled = scratch + rows * STRIDE;
    for (size_t i = 0; i < rows; i++) {
        double u = (x[i * ldx] - part->mean) / part->width;
        scaled[i] = isnan(u) ? 0 : (float)fmax(-1e6, fmin(1e6, u));
    }
    BO_TRY(bo_features_apply(context, phi, &(bo_inputs){.rows = rows, .x = scaled, .stride = 1}, z, STRIDE));
    for (size_t i = 0; i < rows; i++) {
        const bool missing = isnan(x[i * ldx]);
        if (missing) memset(z + i * STRIDE, 0, SIZE * sizeof *z);
        z[i * STRIDE + SIZE] = missing;
    }
    return bo_two_sums_add(context, &part->sums, side, rows, z, STRIDE, true);
}

bo_status bo_drift_part_add(bo_context *context, bo_drift_part *part, const bo_features *phi, bo_drift_side side,
                            size_t rows, const double *x, size_t ldx, float *scratch)
{
    for (size_t i = 0; i < rows; i++) part->missing[side] += isnan(x[i * ldx]) != 0;
    if (!part->categories) return add_numbers(context, part, phi, side, rows, x, ldx, scratch);
    for (size_t i = 0; i < rows; i++) {
        double value = x[i * ldx];
        part->sums.sum[side][isnan(value) ? part->categories : (size_t)value] += 1;
    }
    part->sums.squares[side] += (double)rows;
    part->sums.rows[side] += rows;
    return BO_OK;
}

bo_status bo_drift_part_finish(bo_context *context, const bo_drift_part *part, bo_drift_column *out)
{
    *out = (bo_drift_column){.missing_a = part->missing[0], .missing_b = part->missing[1]};
    bo_two_sums_mmd2(&part->sums, &out->mmd2);
    return part->categories ? bo_drift_categories_p_value(context, &part->sums, &out->p_value)
                            : bo_two_sums_p_value(context, &part->sums, &out->p_value);
}

/* ---- adjustment -------------------------------------------------------------------------------------------------- */

typedef struct ranked {
    double p;
    size_t column;
} ranked;

static int by_p(const void *a, const void *b)
{
    const ranked *x = a, *y = b;
    return x->p != y->p ? (x->p > y->p) - (x->p < y->p) : (x->column > y->column) - (x->column < y->column);
}

/* Holm 1979: the i-th smallest of k p-values, i = 0, 1, …, times k - i; never below the one before it. */
bo_status bo_drift_adjust(bo_context *context, size_t count, bo_drift_column *columns)
{
    ranked *order = bo_alloc_raw(context, count, sizeof *order, "p-values");
    if (!order) return BO_MEMORY;
    for (size_t j = 0; j < count; j++) order[j] = (ranked){columns[j].p_value, j};
    qsort(order, count, sizeof *order, by_p);
    double running_max = 0;
    for (size_t i = 0; i < count; i++) {
        running_max = fmax(running_max, fmin(1, (double)(count - i) * order[i].p));
        columns[order[i].column].p_adjusted = running_max;
    }
    bo_free(order);
    return BO_OK;
}
