/* Two-sample tests: MMD² against quadratic references, p-values against enumeration, the rate of false alarms, power,
 * missing values and categories, threads and blocks, refusals. */
#include "machines/enums.h"
#include "testing.h"
#include <bochner/drift.h>
#include "base/rng.h"
#include "machines/drift.h"

enum { M = 70, N = 50, DIM = 3 };

static void normal_rows(double *x, size_t rows, size_t dim, double shift, uint64_t seed)
{
    bo_rng rng = bo_rng_make(seed, bo_rng_stream("test.drift", 0));
    for (size_t i = 0; i < rows * dim; i++) x[i] = bo_rng_normal(&rng) + shift;
}

/* Both samples one after the other, m rows and then n. */
static void compare(bo_context *context, const bo_drift_desc *desc, const double *x, bo_drift_report *report,
                    bo_drift_column *columns)
{
    bo_drift *drift;
    size_t m = desc->rows_a, n = desc->rows_b, dim = desc->columns;
    assert_ok(context, bo_drift_create(context, desc, m + n, x, &drift));
    assert_ok(context, bo_drift_add(context, drift, BO_DRIFT_A, m, x, dim));
    assert_ok(context, bo_drift_add(context, drift, BO_DRIFT_B, n, x + m * dim, dim));
    assert_ok(context, bo_drift_finish(context, drift, report, columns));
    bo_drift_destroy(drift);
}

/* ---- MMD² against its definition --------------------------------------------------------------------------------- */

typedef struct quadratic {
    double biased, unbiased;
} quadratic;

/* The V- and U-statistic of a kernel matrix of m + n rows: O(rows²). */
static quadratic by_definition(size_t m, size_t n, const double *k)
{
    quadratic out = {0, 0};
    for (size_t i = 0; i < m + n; i++)
        for (size_t j = 0; j < m + n; j++) {
            const bool a = i < m, b = j < m;
            const double size = a ? (double)m : (double)n, value = k[i * (m + n) + j];
            if (a != b) {
                out.biased -= value / (double)m / (double)n;
                out.unbiased -= value / (double)m / (double)n;
            } else {
                out.biased += value / size / size;
                if (i != j) out.unbiased += value / size / (size - 1);
            }
        }
    return out;
}

/* The rows as the test standardizes them by the pooled sample. */
static void standardize(const double *x, double *out)
{
    for (size_t j = 0; j < DIM; j++) {
        double mean = 0, square = 0;
        for (size_t i = 0; i < M + N; i++) mean += x[i * DIM + j] / (M + N);
        for (size_t i = 0; i < M + N; i++) square += pow(x[i * DIM + j] - mean, 2) / (M + N);
        for (size_t i = 0; i < M + N; i++) out[i * DIM + j] = (x[i * DIM + j] - mean) / sqrt(square);
    }
}

static double inner(const double *a, const double *b)
{
    double sum = 0;
    for (size_t j = 0; j < DIM; j++) sum += a[j] * b[j];
    return sum;
}

static double gaussian(const double *a, const double *b)
{
    return exp(-0.2 * (inner(a, a) - 2 * inner(a, b) + inner(b, b)));
}

static quadratic exact(const double *x, double (*kernel)(const double *a, const double *b))
{
    double s[(M + N) * DIM], *k = malloc(sizeof(double) * (M + N) * (M + N));
    standardize(x, s);
    for (size_t i = 0; i < (M + N) * (M + N); i++) k[i] = kernel(s + i / (M + N) * DIM, s + i % (M + N) * DIM);
    quadratic out = by_definition(M, N, k);
    free(k);
    return out;
}

static const bo_drift_desc default_desc = {
    .columns = DIM, .rows_a = M, .rows_b = N, .features = {.features = 64}, .permutations = 99, .seed = 1};

static void linear_kernel(void **state)
{
    (void)state;
    bo_context *context = test_context(2);
    double x[(M + N) * DIM];
    normal_rows(x, M, DIM, 0, 1);
    normal_rows(x + M * DIM, N, DIM, 0.3, 2);
    bo_drift_desc desc = default_desc;
    desc.features = (bo_features_desc){.kernel = BO_KERNEL_LINEAR};
    bo_drift_report report;
    compare(context, &desc, x, &report, NULL);
    quadratic expected = exact(x, inner);
    assert_close(report.mmd2_biased, expected.biased, 1e-6);
    assert_close(report.mmd2, expected.unbiased, 1e-6);
    bo_context_destroy(context);
}

/* The error of features is of order 1/√features: 16 times as many, a quarter of the error. The mean absolute error over
 * 24 seeds has a standard error of about 15%, so that the ratio is within a factor of 2 with a wide margin. */
static void gaussian_kernel(void **state)
{
    (void)state;
    enum { SEEDS = 24 };
    bo_context *context = test_context(2);
    double x[(M + N) * DIM], few = 0, many = 0;
    normal_rows(x, M, DIM, 0, 3);
    normal_rows(x + M * DIM, N, DIM, 0.5, 4);
    quadratic expected = exact(x, gaussian);
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        bo_drift_desc desc = default_desc;
        bo_drift_report report;
        desc.seed = seed, desc.permutations = 1;
        desc.features = (bo_features_desc){.features = 256, .gamma = 0.2, .draw = BO_DRAW_IID};
        compare(context, &desc, x, &report, NULL);
        few += fabs(report.mmd2 - expected.unbiased) / SEEDS;
        desc.features.features = 4096;
        compare(context, &desc, x, &report, NULL);
        many += fabs(report.mmd2 - expected.unbiased) / SEEDS;
        assert_close(report.mmd2_biased - report.mmd2, expected.biased - expected.unbiased, 1e-3);
    }
    print_message("MMD2 %.4f, error %.2g with 256 features, %.2g with 4096\n", expected.unbiased, few, many);
    assert_true(few / many > 2 && few / many < 8 && many < 0.05 * expected.unbiased);
    bo_context_destroy(context);
}

/* ---- p-values ---------------------------------------------------------------------------------------------------- */

/* 3 + 3 rows have 20 partitions: the p-value is the fraction whose MMD² is at least as large. With 20,000 permutations
 * its standard error is below 0.0036. */
static void enumeration(void **state)
{
    (void)state;
    enum { ROWS = 6 };
    bo_context *context = test_context(1);
    double x[ROWS] = {0.1, 0.5, -0.3, 0.9, 1.4, 0.2};
    size_t all = 0, larger = 0;
    double observed = fabs((x[0] + x[1] + x[2]) / 3 - (x[3] + x[4] + x[5]) / 3);
    for (unsigned set = 0; set < 1u << ROWS; set++) {
        double a = 0, b = 0;
        if (__builtin_popcount(set) != 3) continue;
        for (size_t i = 0; i < ROWS; i++) (set >> i & 1) ? (a += x[i] / 3) : (b += x[i] / 3);
        all++;
        larger += fabs(a - b) >= observed - 1e-12;
    }
    bo_drift_desc desc = {.columns = 1,
                          .rows_a = 3,
                          .rows_b = 3,
                          .features = {.kernel = BO_KERNEL_LINEAR},
                          .permutations = 20000,
                          .seed = 3};
    bo_drift_report report;
    compare(context, &desc, x, &report, NULL);
    double expected = (double)larger / (double)all;
    assert_true(expected > 0.1 && expected < 0.9);
    assert_close(report.p_value, expected, 4 * 0.0036);
    bo_context_destroy(context);
}

/* Under the null hypothesis p-values are uniform. 200 draws: the number below 0.05 has mean 10 and standard deviation
 * 3.1, and is outside [1, 24] with probability below 1e-4; their mean has standard deviation 0.0204. The columns of a
 * draw are tested together: at least one adjusted p-value below 0.05 at most as often. */
static void false_alarms(void **state)
{
    (void)state;
    enum { DRAWS = 200 };
    bo_context *context = test_context(2);
    for (bo_p_value kind = BO_P_VALUE_PERMUTATION; kind <= BO_P_VALUE_ASYMPTOTIC; kind++) {
        size_t alarms = 0, column_alarms = 0;
        double mean = 0;
        for (uint64_t draw = 0; draw < DRAWS; draw++) {
            double x[(M + N) * DIM];
            normal_rows(x, M + N, DIM, 0, 1000 + draw);
            bo_drift_desc desc = default_desc;
            bo_drift_report report;
            bo_drift_column columns[DIM];
            desc.p_value = kind, desc.seed = draw;
            compare(context, &desc, x, &report, columns);
            assert_true(report.p_value > 0 && report.p_value <= 1);
            alarms += report.p_value <= 0.05;
            mean += report.p_value / DRAWS;
            bool any = false;
            for (size_t j = 0; j < DIM; j++) any |= columns[j].p_adjusted <= 0.05;
            column_alarms += any;
        }
        print_message("%s: %zu of %d below 0.05, mean %.3f; columns: %zu\n", bo_p_value_name(kind), alarms, DRAWS, mean,
                      column_alarms);
        assert_in_range(alarms, 1, 24);
        assert_close(mean, 0.5, 4.5 * 0.0204);
        assert_true(column_alarms <= 24);
    }
    bo_context_destroy(context);
}

/* Shifts of the mean, of the variance, and of only the correlation, which tests of single columns cannot detect. */
static void power(void **state)
{
    (void)state;
    enum { ROWS = 1000 };
    bo_context *context = test_context(2);
    double *x = malloc(sizeof(double) * 2 * ROWS * DIM);
    for (int change = 0; change < 3; change++)
        for (bo_p_value kind = BO_P_VALUE_PERMUTATION; kind <= BO_P_VALUE_ASYMPTOTIC; kind++) {
            normal_rows(x, 2 * ROWS, DIM, 0, 50 + (uint64_t)change);
            for (size_t i = ROWS; i < 2 * ROWS; i++) {
                double *row = x + i * DIM;
                if (change == 0) row[1] += 0.5;
                if (change == 1) row[1] *= 1.5;
                if (change == 2) row[1] = 0.7 * row[0] + sqrt(1 - 0.49) * row[1];
            }
            bo_drift_desc desc = default_desc;
            bo_drift_report report;
            bo_drift_column columns[DIM];
            desc.rows_a = desc.rows_b = ROWS, desc.p_value = kind, desc.features.features = 256;
            compare(context, &desc, x, &report, columns);
            assert_true(report.p_value <= 0.01);
            assert_true(report.mmd2 > 0);
            for (size_t j = 0; j < DIM; j++)
                if (j == 1 && change < 2)
                    assert_true(columns[j].p_adjusted < 1e-4);
                else
                    assert_true(columns[j].p_adjusted > 0.01);
        }
    free(x);
    bo_context_destroy(context);
}

/* ---- many categories --------------------------------------------------------------------------------------------- */

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Equal frequencies; frequencies of words in a text; equal ones beside one category with 30% of the rows. */
typedef enum shape { EQUAL, ZIPF, DOMINATED } shape;

/* The p-value of one column of categories: of `rows` of A and a third as many of B, which prefer the first categories
 * if `power` is above 1. */
static double category_p_value(bo_context *context, size_t categories, size_t rows, shape form, double power,
                               uint64_t seed)
{
    const size_t all = rows + rows / 3;
    double *x = malloc(all * sizeof *x);
    bo_rng rng = bo_rng_make(seed, bo_rng_stream("test.drift.categories", categories));
    for (size_t i = 0; i < all; i++) {
        const double u = pow(bo_rng_uniform(&rng), i < rows ? 1 : power), count = (double)categories;
        x[i] = floor(form == ZIPF ? pow(count + 1, u) - 1 : count * (form == EQUAL ? u : fmax(0, u - 0.3) / 0.7));
        if (x[i] > count - 1) x[i] = count - 1;
    }
    bo_drift_desc desc = {.columns = 1, .categories = &categories, .rows_a = rows, .rows_b = rows / 3, .seed = seed};
    desc.p_value = BO_P_VALUE_ASYMPTOTIC;
    desc.features.features = 2;
    bo_drift_report report;
    bo_drift_column column;
    compare(context, &desc, x, &report, &column);
    free(x);
    return column.p_value;
}

/* Under the null hypothesis the p-values of a column are uniform, for categories of all sizes: the largest difference
 * of 200 of them from a uniform distribution is above 1.95/√200 with probability 0.001 (Kolmogorov and Smirnov). Half
 * of them are between 0.25 and 0.75, up to 3.3 standard deviations √(0.25/200); in the case of rare categories, whose
 * variance is 0.39 times the variance of the sum of squared normal variables, 72% would be. A shift is found. */
static void many_categories(void **state)
{
    (void)state;
    enum { DRAWS = 200 };
    static const struct {
        size_t categories, rows;
        shape form;
    } cases[] = {{10, 1200, EQUAL},   {100, 900, ZIPF},        {300, 900, EQUAL}, {1000, 600, ZIPF},
                 {1024, 9000, EQUAL}, {1024, 9000, DOMINATED}, {1000, 450, EQUAL}};
    bo_context *context = test_context(2);
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        double p[DRAWS], largest = 0;
        for (uint64_t d = 0; d < DRAWS; d++)
            p[d] = category_p_value(context, cases[k].categories, cases[k].rows, cases[k].form, 1, d);
        size_t middle = 0;
        for (size_t d = 0; d < DRAWS; d++) middle += p[d] > 0.25 && p[d] < 0.75;
        qsort(p, DRAWS, sizeof *p, by_value);
        for (size_t d = 0; d < DRAWS; d++)
            largest = fmax(largest, fmax((double)(d + 1) / DRAWS - p[d], p[d] - (double)d / DRAWS));
        const double shifted = category_p_value(context, cases[k].categories, cases[k].rows, cases[k].form, 3, 1);
        print_message("%zu categories: largest difference %.3f, %zu in the middle, p of a shift %.3g\n",
                      cases[k].categories, largest, middle, shifted);
        assert_true(largest < 1.95 / sqrt(DRAWS));
        assert_true(fabs((double)middle / DRAWS - 0.5) < 3.3 * sqrt(0.25 / DRAWS));
        assert_true(shifted < 1e-3);
    }
    bo_context_destroy(context);
}

/* ---- missing values and categories ------------------------------------------------------------------------------- */

static void missing_and_categories(void **state)
{
    (void)state;
    enum { ROWS = 600 };
    bo_context *context = test_context(1);
    double *x = malloc(sizeof(double) * 2 * ROWS * 4);
    const size_t categories[4] = {0, 0, 3, 3};
    bo_rng rng = bo_rng_make(1, bo_rng_stream("test.drift.missing", 0));
    for (size_t i = 0; i < 2 * ROWS; i++) {
        const bool b = i >= ROWS;
        x[i * 4] = bo_rng_uniform(&rng) < (b ? 0.2 : 0.05) ? NAN : bo_rng_normal(&rng); /* more values are missing */
        x[i * 4 + 1] = bo_rng_uniform(&rng) < 0.1 ? NAN : bo_rng_normal(&rng);
        x[i * 4 + 2] = (double)bo_rng_below(&rng, b ? 3 : 2); /* a new category */
        x[i * 4 + 3] = (double)bo_rng_below(&rng, 3);
    }
    bo_drift_desc desc = {.columns = 4, .categories = categories, .rows_a = ROWS, .rows_b = ROWS, .permutations = 199};
    bo_drift_report report;
    bo_drift_column columns[4];
    compare(context, &desc, x, &report, columns);
    assert_int_equal(report.dim, 2 + 2 + 4 + 4);
    assert_true(report.p_value <= 0.01);
    assert_true(columns[0].p_adjusted < 1e-6 && columns[2].p_adjusted < 1e-6);
    assert_true(columns[1].p_adjusted > 0.01 && columns[3].p_adjusted > 0.01);
    size_t missing = 0;
    for (size_t i = 0; i < ROWS; i++) missing += isnan(x[i * 4]) != 0;
    assert_int_equal(columns[0].missing_a, missing);
    assert_int_equal(columns[2].missing_b, 0);
    /* the MMD² of categories is the squared distance of their frequencies, less its bias */
    double p[2][3] = {{0}}, square = 0, bias = 0;
    for (size_t i = 0; i < 2 * ROWS; i++) p[i >= ROWS][(size_t)x[i * 4 + 3]] += 1.0 / ROWS;
    for (int side = 0; side < 2; side++) {
        double left = 1;
        for (size_t c = 0; c < 3; c++) left -= p[side][c] * p[side][c];
        bias += left / (ROWS - 1);
    }
    for (size_t c = 0; c < 3; c++) square += (p[0][c] - p[1][c]) * (p[0][c] - p[1][c]);
    assert_close(columns[3].mmd2, square - bias, 1e-12);
    free(x);
    bo_context_destroy(context);
}

static void equal_tables(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    double x[2 * 20 * 2];
    normal_rows(x, 20, 2, 0, 9);
    for (size_t i = 0; i < 20; i++) x[2 * i + 1] = 7; /* a constant column */
    memcpy(x + 40, x, 40 * sizeof *x);
    bo_drift_desc desc = {.columns = 2, .rows_a = 20, .rows_b = 20, .permutations = 99};
    for (bo_p_value kind = BO_P_VALUE_PERMUTATION; kind <= BO_P_VALUE_ASYMPTOTIC; kind++) {
        bo_drift_report report;
        bo_drift_column columns[2];
        desc.p_value = kind;
        compare(context, &desc, x, &report, columns);
        assert_close(report.mmd2_biased, 0, 1e-12);
        assert_true(report.p_value > 0.99 && columns[0].p_value > 0.99 && columns[1].p_value == 1);
    }
    bo_context_destroy(context);
}

/* A column that has one value in A and another one in B differs, although no row varies inside its table; so does one
 * that is missing in one of them. The p-value is P(z² > N - 1) for N rows. */
static void constants(void **state)
{
    (void)state;
    static const struct {
        size_t rows_a, rows_b;
        double a, b;
    } cases[] = {{60, 60, 1, 2}, {400, 100, 1, 2}, {30, 90, 1e9, 1e9 + 1}, {80, 20, NAN, 3}, {50, 50, -5, NAN}};
    bo_context *context = test_context(1);
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++)
        for (bo_p_value kind = BO_P_VALUE_PERMUTATION; kind <= BO_P_VALUE_ASYMPTOTIC; kind++) {
            const size_t rows = cases[k].rows_a + cases[k].rows_b;
            double x[2 * 500];
            normal_rows(x, rows, 2, 0, k);
            for (size_t i = 0; i < rows; i++) x[2 * i] = i < cases[k].rows_a ? cases[k].a : cases[k].b;
            const bo_drift_desc desc = {.columns = 2,
                                        .rows_a = cases[k].rows_a,
                                        .rows_b = cases[k].rows_b,
                                        .p_value = kind,
                                        .permutations = kind == BO_P_VALUE_PERMUTATION ? 99 : 0};
            bo_drift_report report;
            bo_drift_column columns[2];
            compare(context, &desc, x, &report, columns);
            const double exact = erfc(sqrt(0.5 * (double)(rows - 1)));
            assert_close(columns[0].p_value / exact, 1, 1e-9);
            assert_true(columns[1].p_value > 1e-4 && report.p_value <= 0.01);
        }
    bo_context_destroy(context);
}

/* Holm 1979: 0.01 · 4, 0.02 · 3, 0.03 · 2 -> not below 0.06, 0.5. */
static void holm(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    bo_drift_column columns[] = {{.p_value = 0.03}, {.p_value = 0.5}, {.p_value = 0.01}, {.p_value = 0.02}};
    const double expected[] = {0.06, 0.5, 0.04, 0.06};
    assert_ok(context, bo_drift_adjust(context, 4, columns));
    for (size_t j = 0; j < 4; j++) assert_close(columns[j].p_adjusted, expected[j], 1e-15);
    bo_context_destroy(context);
}

/* ---- threads, blocks, refusals ----------------------------------------------------------------------------------- */

/* The same bits, without the padding between members. */
static void assert_same_report(const bo_drift_report *a, const bo_drift_report *b)
{
    assert_true(a->rows_a == b->rows_a && a->rows_b == b->rows_b && a->dim == b->dim && a->features == b->features);
    assert_true(a->kernel == b->kernel && a->p_kind == b->p_kind && a->permutations == b->permutations);
    assert_memory_equal(&a->gamma, &b->gamma, offsetof(bo_drift_report, p_kind) - offsetof(bo_drift_report, gamma));
}

static void threads_and_blocks(void **state)
{
    (void)state;
    bo_context *one = test_context(1), *three = test_context(3);
    double x[(M + N) * DIM];
    normal_rows(x, M + N, DIM, 0, 20);
    bo_drift_report a, b;
    bo_drift_column c[DIM], d[DIM];
    compare(one, &default_desc, x, &a, c);
    compare(three, &default_desc, x, &b, d);
    assert_same_report(&a, &b);
    assert_memory_equal(c, d, sizeof c);
    /* the same rows in small parts, which share the assignments */
    bo_drift *drift;
    assert_ok(one, bo_drift_create(one, &default_desc, M + N, x, &drift));
    for (size_t i = 0; i < M + N;) {
        size_t end = i < M ? M : M + N, rows = 1 + i % 7 < end - i ? 1 + i % 7 : end - i;
        assert_ok(one, bo_drift_add(one, drift, i < M ? BO_DRIFT_A : BO_DRIFT_B, rows, x + i * DIM, DIM));
        i += rows;
    }
    assert_ok(one, bo_drift_finish(one, drift, &b, d));
    assert_close(a.mmd2, b.mmd2, 1e-9);
    assert_close(a.p_value, b.p_value, 1e-12);
    for (size_t j = 0; j < DIM; j++) assert_close(c[j].p_value, d[j].p_value, 1e-9);
    bo_drift_destroy(drift);
    bo_context_destroy(one), bo_context_destroy(three);
}

static void refusals(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    double x[(M + N) * DIM];
    normal_rows(x, M + N, DIM, 0, 30);
    bo_drift *drift;
    bo_drift_report report;
    bo_drift_desc desc = default_desc;
    desc.rows_b = 1;
    assert_fails(context, BO_INVALID, "at least 2 rows", bo_drift_create(context, &desc, M, x, &drift));
    desc = default_desc, desc.columns = 0;
    assert_fails(context, BO_INVALID, "columns", bo_drift_create(context, &desc, M, x, &drift));
    desc = default_desc, desc.p_value = (bo_p_value)7;
    assert_fails(context, BO_INVALID, "p_value", bo_drift_create(context, &desc, M, x, &drift));
    desc = default_desc, desc.permutations = 2000000;
    assert_fails(context, BO_INVALID, "permutations", bo_drift_create(context, &desc, M, x, &drift));
    desc = default_desc, desc.permutations = 1000000, desc.features.features = 1 << 20; /* 8 TB of sums */
    assert_fails(context, BO_MEMORY, "fewer permutations or features", bo_drift_create(context, &desc, M, x, &drift));
    const size_t many[DIM] = {0, 5000, 0}, some[DIM] = {0, 2, 0};
    desc = default_desc, desc.categories = many;
    assert_fails(context, BO_UNSUPPORTED, "at most 1024", bo_drift_create(context, &desc, M, x, &drift));
    desc.categories = some;
    assert_fails(context, BO_INVALID, "expected a category from 0 to 1", bo_drift_create(context, &desc, M, x, &drift));
    assert_fails(context, BO_INVALID, "sample", bo_drift_create(context, &default_desc, 1, x, &drift));
    assert_null(drift);
    assert_ok(context, bo_drift_create(context, &default_desc, M + N, x, &drift));
    assert_fails(context, BO_INVALID, "expected 70 and 50 rows", bo_drift_finish(context, drift, &report, NULL));
    assert_fails(context, BO_INVALID, "expected 70 rows of sample A",
                 bo_drift_add(context, drift, BO_DRIFT_A, M + 1, x, DIM));
    x[4] = INFINITY;
    assert_fails(context, BO_INVALID, "row 1, column 1", bo_drift_add(context, drift, BO_DRIFT_A, M, x, DIM));
    bo_drift_destroy(drift);
    bo_context_destroy(context);
}

/* A polynomial of a value that is far outside the sample overflows: there is no p-value then. */
static void overflow(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    double x[(M + N) * DIM];
    for (int k = 0; k < 2; k++) {
        bo_drift *drift;
        bo_drift_report report;
        bo_drift_desc desc = default_desc;
        desc.p_value = k ? BO_P_VALUE_ASYMPTOTIC : BO_P_VALUE_PERMUTATION;
        desc.features = (bo_features_desc){.kernel = BO_KERNEL_POLYNOMIAL, .degree = 8};
        normal_rows(x, M + N, DIM, 0, 31);
        assert_ok(context, bo_drift_create(context, &desc, M + N, x, &drift));
        x[5] = 1e9;
        assert_ok(context, bo_drift_add(context, drift, BO_DRIFT_A, M, x, DIM));
        assert_ok(context, bo_drift_add(context, drift, BO_DRIFT_B, N, x + M * DIM, DIM));
        assert_fails(context, BO_NUMERIC, "overflow", bo_drift_finish(context, drift, &report, NULL));
        bo_drift_destroy(drift);
    }
    bo_context_destroy(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(linear_kernel),
        cmocka_unit_test(gaussian_kernel),
        cmocka_unit_test(enumeration),
        cmocka_unit_test(false_alarms),
        cmocka_unit_test(power),
        cmocka_unit_test(many_categories),
        cmocka_unit_test(missing_and_categories),
        cmocka_unit_test(equal_tables),
        cmocka_unit_test(constants),
        cmocka_unit_test(holm),
        cmocka_unit_test(threads_and_blocks),
        cmocka_unit_test(overflow),
        cmocka_unit_test(refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
