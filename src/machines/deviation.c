/* The deviation s(x) of a machine's errors, fitted to the sizes a_i = |e_i| of errors on left-out rows.
 *
 * The sizes are modeled as exponentially distributed with mean s(x_i): θ minimizes
 *
 *     Σ_i (η_i + a_i exp(-η_i)) + ½ θᵀDθ,   η = log s = η_0 + B θ,
 *
 * where the columns of B are hat functions of the prediction and features of the row. The expected second derivative of
 * a row with respect to η is 1, so Fisher scoring has the same matrix H = BᵀB + D in every step:
 *
 *     δ = H⁻¹ (Bᵀr - Dθ),   r_i = a_i exp(-η_i) - 1,
 *
 * and the approximate leave-one-out value of η_i is η_i - r_i h_i / (1 - h_i) with h_i = b_iᵀ H⁻¹ b_i. The penalty of
 * the features is the one with the best leave-one-out interval score. */
#include "../base/base.h"
#include "../math/linalg.h"
#include "intervals.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_KNOTS = 8, ROWS_PER_KNOT = 50, MAX_COLUMNS = 64, ROWS_PER_COLUMN = 16, OUTPUTS_WITH_COLUMNS = 4 };
/* Penalty of the hat functions, in rows. */
static const double hat_penalty = 1;
/* Features must reduce the score of the hat functions without features by this fraction. */
static const double min_gain = 0.002;

size_t bo_deviation_knots(size_t rows)
{
    const size_t knots = rows / ROWS_PER_KNOT;
    return knots < 2 ? 1 : knots < MAX_KNOTS ? knots : MAX_KNOTS;
}

size_t bo_deviation_columns(size_t features, size_t outputs, size_t rows)
{
    if (outputs > OUTPUTS_WITH_COLUMNS) return 0;
    size_t columns = rows / ROWS_PER_COLUMN;
    if (columns > MAX_COLUMNS) columns = MAX_COLUMNS;
    if (columns > features) columns = features;
    return columns - columns % 2; /* an even selection then has the sine and the cosine of a frequency */
}

/* The hat functions that are not 0 at a prediction: `first` with 1 - share, the next one with `share`. */
static size_t find_hats(const double *knot, size_t knots, double prediction, double *share)
{
    *share = 0;
    if (!(prediction > knot[0])) return 0;
    if (!(prediction < knot[knots - 1])) return knots - 1;
    size_t first = 0;
    while (prediction >= knot[first + 1]) first++;
    *share = (prediction - knot[first]) / (knot[first + 1] - knot[first]);
    return first;
}

double bo_deviation_log(const bo_intervals *intervals, size_t t, double prediction, const double *columns)
{
    const size_t knots = intervals->knots;
    const double *a = intervals->coefficient + t * (knots + intervals->columns), *c = a + knots;
    double share, value;
    size_t first = find_hats(intervals->knot + t * knots, knots, prediction, &share);
    value = a[first];
    if (share > 0) value += share * (a[first + 1] - a[first]);
    for (size_t j = 0; j < intervals->columns; j++) value += c[j] * columns[j];
    return fmin(fmax(value, intervals->bound[2 * t]), intervals->bound[2 * t + 1]);
}

typedef struct scale_fit {
    size_t rows, knots, columns, size; /* size = knots + columns: parameters */
    double start;                      /* η_0 */
    double *a;                         /* rows */
    double *b;                         /* rows x size */
    double *gram;                      /* size x size: BᵀB, upper triangle */
    double *factor;                    /* size x size */
    double *theta, *step, *best;       /* size */
    double *eta, *trial;               /* rows */
    double *solved;                    /* size x rows: L⁻¹Bᵀ */
    double *mean;                      /* columns: subtracted from the features */
    double scale;                      /* of the features */
} scale_fit;

static void scale_free(scale_fit *f)
{
    double *blocks[] = {f->a,    f->b,   f->gram,  f->factor, f->theta, f->step,
                        f->best, f->eta, f->trial, f->solved, f->mean};
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++) bo_free(blocks[i]);
}

static bo_status scale_create(bo_context *context, size_t rows, size_t knots, size_t columns, scale_fit *f)
{
    const size_t size = knots + columns;
    *f = (scale_fit){.rows = rows, .knots = knots, .columns = columns, .size = size, .scale = 1};
    static const char label[] = "the deviations of the errors";
    f->a = bo_alloc_raw(context, rows, sizeof(double), label);
    f->b = bo_alloc(context, rows * size, sizeof(double), label);
    f->gram = bo_alloc(context, size * size, sizeof(double), label);
    f->factor = bo_alloc(context, size * size, sizeof(double), label);
    f->theta = bo_alloc(context, size, sizeof(double), label);
    f->step = bo_alloc(context, size, sizeof(double), label);
    f->best = bo_alloc(context, size, sizeof(double), label);
    f->eta = bo_alloc(context, rows, sizeof(double), label);
    f->trial = bo_alloc(context, rows, sizeof(double), label);
    f->solved = bo_alloc(context, rows * size, sizeof(double), label);
    f->mean = bo_alloc(context, columns, sizeof(double), label);
    return f->a && f->b && f->gram && f->factor && f->theta && f->step && f->best && f->eta && f->trial && f->solved &&
                   f->mean
               ? BO_OK
               : BO_MEMORY;
}

/* Sizes of errors. A small part of their mean is added, so that log s of rows without error is finite. */
static bool fill_sizes(const bo_errors *errors, scale_fit *f)
{
    double mean = 0;
    for (size_t i = 0; i < f->rows; i++) mean += fabs(errors->error[i]) / (double)f->rows;
    if (!(mean > 0) || !isfinite(mean)) return false;
    for (size_t i = 0; i < f->rows; i++) f->a[i] = (fabs(errors->error[i]) + 0.02 * mean) / 1.02;
    f->start = log(mean);
    return true;
}

/* B: hat functions, and features with mean 0 whose squares sum to 1 for a typical row. */
static void fill_basis(const bo_errors *errors, const double *knot, scale_fit *f)
{
    double squares = 0;
    for (size_t i = 0; i < f->rows; i++)
        for (size_t j = 0; j < f->columns; j++) f->mean[j] += errors->columns[i * f->columns + j] / (double)f->rows;
    for (size_t i = 0; i < f->rows; i++) {
        double *row = f->b + i * f->size, share;
        size_t first = find_hats(knot, f->knots, errors->prediction[i], &share);
        row[first] = 1 - share;
        if (share > 0) row[first + 1] = share;
        for (size_t j = 0; j < f->columns; j++) {
            const double z = errors->columns[i * f->columns + j] - f->mean[j];
            row[f->knots + j] = z;
            squares += z * z;
        }
    }
    f->scale = squares > 0 ? sqrt((double)f->rows / squares) : 0;
    for (size_t i = 0; i < f->rows; i++)
        for (size_t j = f->knots; j < f->size; j++) f->b[i * f->size + j] *= f->scale;
    for (size_t i = 0; i < f->rows; i++) {
        const double *row = f->b + i * f->size;
        for (size_t j = 0; j < f->size; j++)
            for (size_t k = j; row[j] != 0 && k < f->size; k++) f->gram[j * f->size + k] += row[j] * row[k];
    }
}

static double objective(const scale_fit *f, const double *penalty, const double *theta, double *eta)
{
    double sum = 0;
    for (size_t i = 0; i < f->rows; i++) {
        eta[i] = f->start;
        for (size_t j = 0; j < f->size; j++) eta[i] += f->b[i * f->size + j] * theta[j];
        sum += eta[i] + f->a[i] * exp(-eta[i]);
    }
    for (size_t j = 0; j < f->size; j++) sum += 0.5 * penalty[j] * theta[j] * theta[j];
    return sum;
}

/* Minimizes the objective from θ = 0 with H factored; returns with η of the solution. */
static bo_status minimize(bo_context *context, scale_fit *f, const double *penalty)
{
    enum { STEPS = 50, HALVES = 20 };
    memset(f->theta, 0, f->size * sizeof *f->theta);
    double value = objective(f, penalty, f->theta, f->eta);
    for (int step = 0; step < STEPS; step++) {
        for (size_t j = 0; j < f->size; j++) f->step[j] = -penalty[j] * f->theta[j];
        for (size_t i = 0; i < f->rows; i++) {
            const double r = f->a[i] * exp(-f->eta[i]) - 1;
            for (size_t j = 0; j < f->size; j++) f->step[j] += r * f->b[i * f->size + j];
        }
        BO_TRY(bo_solve_lower(context, f->size, 1, f->factor, f->size, f->step, 1));
        BO_TRY(bo_solve_lower_t(context, f->size, 1, f->factor, f->size, f->step, 1));
        double next = INFINITY;
        for (int half = 0; half < HALVES && !(next < value); half++) {
            for (size_t j = 0; j < f->size; j++) f->best[j] = f->theta[j] + ldexp(f->step[j], -half);
            next = objective(f, penalty, f->best, f->trial);
        }
        if (!(next < value)) break;
        memcpy(f->theta, f->best, f->size * sizeof *f->theta);
        memcpy(f->eta, f->trial, f->rows * sizeof *f->eta);
        const bool done = value - next < 1e-9 * (double)f->rows;
        value = next;
        if (done) break;
    }
    return BO_OK;
}

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The interval score (Gneiting and Raftery, JASA 102, 2007) of symmetric intervals with leave-one-out deviations
 * exp(trial): the width plus 2/α times the distance of values outside, for α = 0.1; and the quantile is computed from
 * the same rows. */
static double interval_score(scale_fit *f)
{
    const double alpha = 0.1;
    double *ratio = f->solved, sum = 0;
    for (size_t i = 0; i < f->rows; i++) ratio[i] = f->a[i] * exp(-f->trial[i]);
    qsort(ratio, f->rows, sizeof *ratio, compare);
    const double q = ratio[(size_t)((1 - alpha) * (double)(f->rows - 1))];
    for (size_t i = 0; i < f->rows; i++) {
        const double half = q * exp(f->trial[i]);
        sum += 2 * half + 2 / alpha * fmax(f->a[i] - half, 0);
    }
    return log(sum);
}

/* Fits θ with this penalty of the features (0: without them) and computes leave-one-out values of η (into trial) and
 * the logarithm of their interval score. */
static bo_status fit_penalized(bo_context *context, scale_fit *f, double column_penalty, double *score)
{
    const size_t size = f->size;
    double penalty[MAX_KNOTS + MAX_COLUMNS];
    for (size_t j = 0; j < size; j++)
        penalty[j] = j < f->knots ? hat_penalty : column_penalty > 0 ? column_penalty : 1e12;
    memcpy(f->factor, f->gram, size * size * sizeof *f->factor);
    for (size_t j = 0; j < size; j++) f->factor[j * size + j] += penalty[j];
    BO_TRY(bo_cholesky(context, size, f->factor, size, NULL));
    BO_TRY(minimize(context, f, penalty));
    for (size_t i = 0; i < f->rows; i++)
        for (size_t j = 0; j < size; j++) f->solved[j * f->rows + i] = f->b[i * size + j];
    BO_TRY(bo_solve_lower(context, size, f->rows, f->factor, size, f->solved, f->rows));
    for (size_t i = 0; i < f->rows; i++) {
        double h = 0, r = f->a[i] * exp(-f->eta[i]) - 1;
        for (size_t j = 0; j < size; j++) h += f->solved[j * f->rows + i] * f->solved[j * f->rows + i];
        h = fmin(h, 0.5); /* an approximation: rows with leverage near 1 are not corrected further */
        f->trial[i] = f->eta[i] - r * h / (1 - h);
    }
    *score = interval_score(f);
    return BO_OK;
}

/* Chooses the penalty of the features by the leave-one-out score. */
static bo_status choose(bo_context *context, scale_fit *f, double *left_out)
{
    static const double penalties[] = {30, 10, 3, 1, 0.3};
    double best, score, chosen = 0;
    BO_TRY(fit_penalized(context, f, 0, &best));
    best -= min_gain;
    for (size_t k = 0; f->columns > 0 && k < sizeof penalties / sizeof *penalties; k++) {
        BO_TRY(fit_penalized(context, f, penalties[k], &score));
        if (!(score < best)) break;
        best = score;
        chosen = penalties[k];
    }
    BO_TRY(fit_penalized(context, f, chosen, &score));
    if (!(chosen > 0)) memset(f->theta + f->knots, 0, f->columns * sizeof *f->theta);
    memcpy(left_out, f->trial, f->rows * sizeof *left_out);
    return BO_OK;
}

/* The coefficients for features that are neither centered nor scaled: the hat functions add up to 1 and take the
 * constant. */
static void store_coefficients(const scale_fit *f, size_t t, bo_intervals *out)
{
    double *a = out->coefficient + t * f->size, constant = f->start, low = INFINITY, high = -INFINITY;
    for (size_t j = 0; j < f->columns; j++) {
        a[f->knots + j] = f->theta[f->knots + j] * f->scale;
        constant -= a[f->knots + j] * f->mean[j];
    }
    for (size_t k = 0; k < f->knots; k++) a[k] = f->theta[k] + constant;
    for (size_t i = 0; i < f->rows; i++) {
        low = fmin(low, f->eta[i]);
        high = fmax(high, f->eta[i]);
    }
    out->bound[2 * t] = fmax(low, -BO_DEVIATION_BOUND);
    out->bound[2 * t + 1] = fmin(high, BO_DEVIATION_BOUND);
}

/* Knots at evenly spaced ranks of the predictions. */
static void place_knots(const bo_errors *errors, size_t knots, double *sorted, double *knot)
{
    memcpy(sorted, errors->prediction, errors->rows * sizeof *sorted);
    qsort(sorted, errors->rows, sizeof *sorted, compare);
    for (size_t k = 0; k < knots; k++) knot[k] = sorted[(2 * k + 1) * errors->rows / (2 * knots)];
}

bo_status bo_deviation_fit(bo_context *context, const bo_errors *errors, size_t t, bo_intervals *intervals,
                           double *left_out)
{
    scale_fit f;
    bo_status status = scale_create(context, errors->rows, intervals->knots, intervals->columns, &f);
    double *knot = intervals->knot + t * intervals->knots;
    if (status == BO_OK) {
        place_knots(errors, f.knots, f.trial, knot);
        if (fill_sizes(errors, &f)) {
            fill_basis(errors, knot, &f);
            status = choose(context, &f, left_out);
        } else { /* no errors: s = 1, and the scores are 0 */
            memset(left_out, 0, f.rows * sizeof *left_out);
        }
    }
    if (status == BO_OK) store_coefficients(&f, t, intervals);
    scale_free(&f);
    return status;
}
