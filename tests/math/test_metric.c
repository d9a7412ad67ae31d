/* Metrics: powers of symmetric matrices and of their diagonals, and the resulting maps. */
#include "testing.h"
#include "math/metric.h"

enum { D = 3 };

/* S = Σ v_i u_i u_iᵀ for a rotation u in the plane of the first two axes. */
static void turned(const double *values, double *s, double u[D][D])
{
    const double c = cos(0.4), n = sin(0.4);
    const double rows[D][D] = {{c, n, 0}, {-n, c, 0}, {0, 0, 1}};
    memcpy(u, rows, sizeof rows);
    memset(s, 0, D * D * sizeof *s);
    for (size_t k = 0; k < D; k++)
        for (size_t i = 0; i < D; i++)
            for (size_t j = 0; j < D; j++) s[i * D + j] += values[k] * rows[k][i] * rows[k][j];
}

/* A is symmetric, and AᵀA has the eigenvectors of S with eigenvalues in proportion to powers of those of S, of mean
 * 1. */
static void test_powers(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    const double values[D] = {8, 2, 1}, powers[] = {1, 0.5, -1};
    double s[D * D], u[D][D];
    turned(values, s, u);
    for (size_t p = 0; p < 3; p++) {
        bo_metric metric;
        assert_ok(context, bo_metric_power(context, D, s, powers[p], false, 0, &metric));
        double mean = 0;
        for (size_t k = 0; k < D; k++) mean += pow(values[k], powers[p]) / D;
        for (size_t k = 0; k < D; k++) {
            float x[D], out[D];
            for (size_t j = 0; j < D; j++) x[j] = (float)u[k][j];
            bo_metric_row(&metric, x, out);
            for (size_t j = 0; j < D; j++)
                assert_close((double)out[j], sqrt(pow(values[k], powers[p]) / mean) * u[k][j], 1e-6);
        }
        bo_metric copy;
        assert_ok(context, bo_metric_copy(context, &metric, &copy));
        assert_memory_equal(copy.a, metric.a, D * D * sizeof(float));
        bo_metric_free(&copy);
        bo_metric_free(&metric);
        assert_null(metric.a);
    }
    bo_context_destroy(context);
}

/* The diagonal alone; entries below the floor are raised to it. */
static void test_diagonal(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    const double s[D * D] = {4, 9, 9, 9, 1, 9, 9, 9, 0};
    bo_metric metric;
    assert_ok(context, bo_metric_power(context, D, s, 1, true, 0.01, &metric));
    const float x[D] = {1, 1, 1};
    float out[D];
    bo_metric_row(&metric, x, out);
    const double mean = (1 + 0.25 + 0.01) / 3;
    assert_close((double)out[0], sqrt(1 / mean), 1e-6);
    assert_close((double)out[1], sqrt(0.25 / mean), 1e-6);
    assert_close((double)out[2], sqrt(0.01 / mean), 1e-6);
    bo_metric_free(&metric);
    bo_context_destroy(context);
}

/* Rows of low rank are the leading eigenvectors, largest first. */
static void test_low_rank(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    const double values[D] = {8, 2, 1};
    double s[D * D], u[D][D], vectors[D * D], found[D], full[D * D];
    turned(values, s, u);
    assert_ok(context, bo_eigen_of(context, D, s, vectors, found));
    float a[2 * D];
    bo_metric_write(D, 2, vectors, found, full, a);
    for (size_t r = 0; r < 2; r++) {
        double along = 0;
        for (size_t j = 0; j < D; j++) along += (double)a[r * D + j] * u[r][j];
        assert_close(fabs(along), values[r], 1e-5);
    }
    bo_context_destroy(context);
}

/* Nothing can be learned from a matrix of zeros. */
static void test_refused(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    const double zeros[D * D] = {0}, bad[D * D] = {NAN};
    bo_metric metric;
    assert_fails(context, BO_NUMERIC, "positive eigenvalue", bo_metric_power(context, D, zeros, 1, false, 0, &metric));
    assert_fails(context, BO_NUMERIC, "positive eigenvalue", bo_metric_power(context, D, bad, 1, true, 0, &metric));
    assert_null(metric.a);
    bo_context_destroy(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_powers), cmocka_unit_test(test_diagonal),
                                       cmocka_unit_test(test_low_rank), cmocka_unit_test(test_refused)};
    return cmocka_run_group_tests_name("math.metric", tests, NULL, NULL);
}
