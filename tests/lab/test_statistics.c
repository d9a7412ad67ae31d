/* Descriptive statistics, with known answers. */
#include "testing.h"
#include "lab/statistics.h"

static void test_mean(void **state)
{
    (void)state;
    const double values[] = {1, 2, 6}, thirds[] = {0.1, 0.1, 0.1};
    assert_true(lab_mean(values, 3) == 3);
    assert_true(lab_mean(thirds, 3) == 0.1); /* 0.1 + 0.1 + 0.1 is not 0.3 */
    assert_true(isnan(lab_mean(values, 0)));
    assert_true(isinf(lab_mean((const double[]){1, INFINITY}, 2)));
    assert_true(isnan(lab_mean((const double[]){1, NAN}, 2)));
}

static void test_deviation(void **state)
{
    (void)state;
    const double values[] = {1, 2, 6};
    assert_close(lab_deviation(values, 3), sqrt(7), 1e-15);
    assert_true(lab_deviation(values, 1) == 0);
    assert_true(lab_deviation((const double[]){0.1, 0.1, 0.1}, 3) == 0);
}

static void test_median(void **state)
{
    (void)state;
    assert_true(lab_median((const double[]){5, 1, 3}, 3) == 3);
    assert_true(lab_median((const double[]){4, 1, 3, 2}, 4) == 2.5);
    assert_true(isnan(lab_median(NULL, 0)));
    assert_true(isnan(lab_median((const double[]){1, NAN, 2}, 3)));
}

static void test_lines(void **state)
{
    (void)state;
    const double x[] = {1, 2, 4, 8}, line[] = {5, 7, 11, 19}, power[] = {3, 1.5, 0.75, 0.375}, flat[] = {2, 2, 2, 2};
    assert_close(lab_slope(x, line, 4), 2, 1e-14);
    assert_close(lab_exponent(x, power, 4), -1, 1e-14);
    assert_close(lab_correlation(x, line, 4), 1, 1e-14);
    assert_close(lab_correlation(x, (const double[]){-1, -2, -4, -8}, 4), -1, 1e-14);
    assert_true(isnan(lab_slope(flat, line, 4)));
    assert_true(isnan(lab_correlation(x, flat, 4)));
    assert_true(isnan(lab_exponent(x, (const double[]){1, 0, 1, 1}, 4)));
}

/* Tables of Student's distribution, two-sided 1%. */
static void test_student(void **state)
{
    (void)state;
    assert_close(lab_student_99(1), 63.657, 1e-3);
    assert_close(lab_student_99(2), 9.925, 1e-3);
    assert_close(lab_student_99(4), 4.604, 1e-3);
    assert_close(lab_student_99(30), 2.750, 1e-3);
    assert_close(lab_student_99(31), 2.744, 1e-3);
    assert_close(lab_student_99(60), 2.660, 1e-3);
    assert_close(lab_student_99(120), 2.617, 1e-3);
    assert_close(lab_student_99(1000000), 2.5758, 1e-3);
    assert_true(isnan(lab_student_99(0)));
    for (size_t i = 1; i < 200; i++) assert_true(lab_student_99(i) > lab_student_99(i + 1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_mean), cmocka_unit_test(test_deviation),
                                       cmocka_unit_test(test_median), cmocka_unit_test(test_lines),
                                       cmocka_unit_test(test_student)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
