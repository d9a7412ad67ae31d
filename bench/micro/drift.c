/* The rate of false alarms of two-sample tests, their power, and their time by number of rows.
 *
 * Null draws: A and B from one normal distribution of five columns, and disjoint random rows of a table. Alternatives:
 * the mean of one column shifted by 0.3, its standard deviation times 1.3, and a correlation of 0.5 of two columns with
 * unchanged marginal distributions. Each fraction has its exact 95% binomial interval (Clopper and Pearson 1934).
 * Usage: bench_drift [draws] [rows] [table, or - for none] [first seed] */
#include <bochner/names.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <bochner/data.h>
#include <bochner/drift.h>
#include "../../src/base/base.h"
#include "../../src/base/rng.h"

enum { COLUMNS = 5 };
static const double alpha = 0.05;

typedef struct bench {
    bo_context *context;
    size_t draws, rows;
    uint64_t first; /* seed */
    size_t columns;
    const size_t *categories;
    double *x; /* 2 rows x columns: A, then B */
} bench;

typedef struct rejections {
    size_t draws, tables, columns; /* draws, and those in which the tables or at least one column differ */
} rejections;

/* ---- fractions --------------------------------------------------------------------------------------------------- */

/* P(at most k of n) with probability p. */
static double binomial_cdf(size_t k, size_t n, double p)
{
    double sum = 0;
    for (size_t i = 0; i <= k; i++)
        sum += exp(lgamma((double)n + 1) - lgamma((double)i + 1) - lgamma((double)(n - i) + 1) + (double)i * log(p) +
                   (double)(n - i) * log1p(-p));
    return sum;
}

/* The p at which P(at most k) falls to `level`, by bisection. */
static double binomial_bound(size_t k, size_t n, double level)
{
    double low = 0, high = 1;
    for (int step = 0; step < 60; step++) {
        double middle = 0.5 * (low + high);
        if (binomial_cdf(k, n, middle) > level)
            low = middle;
        else
            high = middle;
    }
    return low;
}

static void print_fraction(size_t k, size_t n)
{
    const double low = k == 0 ? 0 : binomial_bound(k - 1, n, 0.975), high = k == n ? 1 : binomial_bound(k, n, 0.025);
    printf("  %6.3f [%.3f, %.3f]", (double)k / (double)n, low, high);
}

static void print_rejections(const char *what, bo_p_value kind, const rejections *t)
{
    printf("%-24s %-12s", what, bo_enum_name(BO_ENUM_P_VALUE, kind));
    print_fraction(t->tables, t->draws);
    print_fraction(t->columns, t->draws);
    putchar('\n');
    fflush(stdout);
}

/* ---- draws ------------------------------------------------------------------------------------------------------- */

static bo_status test(const bench *b, bo_p_value kind, uint64_t seed, rejections *t)
{
    const bo_drift_desc desc = {.columns = b->columns,
                                .categories = b->categories,
                                .rows_a = b->rows,
                                .rows_b = b->rows,
                                .p_value = kind,
                                .seed = seed};
    bo_drift_column *columns = calloc(b->columns, sizeof *columns);
    bo_drift_report report;
    bo_drift *drift = NULL;
    bo_status status = bo_drift_create(b->context, &desc, 2 * b->rows, b->x, &drift);
    if (status == BO_OK) status = bo_drift_add(b->context, drift, BO_DRIFT_A, b->rows, b->x, b->columns);
    if (status == BO_OK)
        status = bo_drift_add(b->context, drift, BO_DRIFT_B, b->rows, b->x + b->rows * b->columns, b->columns);
    if (status == BO_OK) status = bo_drift_finish(b->context, drift, &report, columns);
    bool any = false;
    for (size_t j = 0; status == BO_OK && j < b->columns; j++) any |= columns[j].p_adjusted <= alpha;
    t->draws++;
    t->tables += status == BO_OK && report.p_value <= alpha;
    t->columns += any;
    bo_drift_destroy(drift);
    free(columns);
    return status;
}

typedef enum change { NO_CHANGE, MEAN, DEVIATION, CORRELATION } change;

static void draw_normal(bench *b, change what, uint64_t seed)
{
    bo_rng rng = bo_rng_make(seed, bo_rng_stream("bench.drift", (uint64_t)what));
    for (size_t i = 0; i < 2 * b->rows; i++) {
        double *row = b->x + i * COLUMNS;
        for (size_t j = 0; j < COLUMNS; j++) row[j] = bo_rng_normal(&rng);
        if (i < b->rows) continue;
        if (what == MEAN) row[0] += 0.3;
        if (what == DEVIATION) row[0] *= 1.3;
        if (what == CORRELATION) row[1] = 0.5 * row[0] + sqrt(0.75) * row[1];
    }
}

static bo_status measure_normal(bench *b, const char *label, change what, size_t draws)
{
    for (bo_p_value kind = BO_P_VALUE_PERMUTATION; kind <= BO_P_VALUE_ASYMPTOTIC; kind++) {
        rejections t = {0};
        for (uint64_t draw = 0; draw < draws; draw++) {
            draw_normal(b, what, b->first + draw);
            BO_TRY(test(b, kind, b->first + draw, &t));
        }
        print_rejections(label, kind, &t);
    }
    return BO_OK;
}

/* ---- a table ----------------------------------------------------------------------------------------------------- */

static bo_status measure_table(bench *b, const char *path)
{
    const bo_data_desc desc = {.path = path, .no_target = true, .categorical = "auto", .impute = BO_IMPUTE_MEDIAN};
    bo_data *data;
    BO_TRY(bo_data_load(b->context, &desc, NULL, &data));
    bo_status status = 2 * b->rows <= data->rows ? BO_OK : BO_INVALID;
    b->columns = data->dim;
    double *x = calloc(2 * b->rows * b->columns, sizeof *x), *former = b->x;
    size_t *order = malloc(data->rows * sizeof *order);
    b->x = x;
    for (bo_p_value kind = BO_P_VALUE_PERMUTATION; kind <= BO_P_VALUE_ASYMPTOTIC && status == BO_OK; kind++) {
        rejections t = {0};
        for (uint64_t draw = 0; draw < b->draws && status == BO_OK; draw++) {
            bo_rng rng = bo_rng_make(b->first + draw, bo_rng_stream("bench.drift.table", 0));
            bo_rng_permutation(&rng, data->rows, order);
            for (size_t i = 0; i < 2 * b->rows; i++)
                for (size_t j = 0; j < b->columns; j++)
                    x[i * b->columns + j] = (double)data->x[order[i] * data->dim + j];
            status = test(b, kind, b->first + draw, &t);
        }
        if (status == BO_OK) print_rejections("rows of the table", kind, &t);
    }
    if (status == BO_INVALID) fprintf(stderr, "%s has fewer than %zu rows\n", path, 2 * b->rows);
    b->x = former;
    b->columns = COLUMNS;
    free(x), free(order);
    bo_data_destroy(data);
    return status;
}

/* ---- time -------------------------------------------------------------------------------------------------------- */

static bo_status measure_time(bench *b)
{
    static const size_t rows[] = {2500, 10000, 40000, 160000};
    printf("\nrows of A and B   permutation  asymptotic   (seconds, %d columns, 512 features)\n", COLUMNS);
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
        bench large = *b;
        large.rows = rows[k];
        large.x = malloc(2 * rows[k] * COLUMNS * sizeof *large.x);
        draw_normal(&large, NO_CHANGE, 0);
        printf("%15zu", rows[k]);
        bo_status status = BO_OK;
        for (bo_p_value kind = BO_P_VALUE_PERMUTATION; kind <= BO_P_VALUE_ASYMPTOTIC && status == BO_OK; kind++) {
            rejections t = {0};
            double begin = bo_seconds();
            status = test(&large, kind, 0, &t);
            printf("%13.3f", bo_seconds() - begin);
        }
        putchar('\n');
        free(large.x);
        BO_TRY(status);
    }
    return BO_OK;
}

int main(int argc, char **argv)
{
    bench b = {.draws = argc > 1 ? (size_t)atol(argv[1]) : 1000, .rows = argc > 2 ? (size_t)atol(argv[2]) : 200};
    if (b.draws < 1 || b.draws > 1000000 || b.rows < 2 || b.rows > 1000000) return 2;
    if (bo_context_create(NULL, &b.context) != BO_OK) return 1;
    b.first = argc > 4 ? strtoull(argv[4], NULL, 10) : 0;
    b.columns = COLUMNS;
    b.x = malloc(2 * b.rows * COLUMNS * sizeof *b.x);
    printf(
        "%zu draws of %zu rows in A and B, level %g: fractions of draws in which the tables, or one column, differ\n",
        b.draws, b.rows, alpha);
    const size_t fewer = (b.draws + 4) / 5;
    bo_status status = measure_normal(&b, "normal, no difference", NO_CHANGE, b.draws);
    if (status == BO_OK && argc > 3 && strcmp(argv[3], "-") != 0) status = measure_table(&b, argv[3]);
    if (status == BO_OK) status = measure_normal(&b, "mean + 0.3", MEAN, fewer);
    if (status == BO_OK) status = measure_normal(&b, "deviation x 1.3", DEVIATION, fewer);
    if (status == BO_OK) status = measure_normal(&b, "correlation 0.5", CORRELATION, fewer);
    if (status == BO_OK) status = measure_time(&b);
    if (status != BO_OK) fprintf(stderr, "%s\n", bo_context_error(b.context));
    free(b.x);
    bo_context_destroy(b.context);
    return status == BO_OK ? 0 : 1;
}
