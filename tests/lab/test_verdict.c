/* From numbers to verdicts: every rule, bounds hit exactly, few seeds, missing numbers. */
#include "sample.h"

enum { MAX_SEEDS = 5 };

/* The outcome of a claim with these numbers. */
static bo_lab_outcome outcome_for(bo_lab_rule rule, double bound, double upper, size_t seeds, const double *values)
{
    static bo_lab_claim claim;
    static double kept[MAX_SEEDS];
    claim = (bo_lab_claim){.name = "c", .statement = "s", .number = "n", .rule = rule, .bound = bound, .upper = upper};
    const lab_experiment experiment = {{.name = "made", .claims = &claim, .claim_count = 1}, NULL};
    bo_context *context = test_context(1);
    bo_lab_result *result;
    assert_ok(context, lab_result_create(context, &experiment, seeds, &result));
    memcpy(result->claims, values, seeds * sizeof *values);
    memcpy(kept, values, seeds * sizeof *values);
    assert_ok(context, lab_result_finish(context, result));
    bo_lab_outcome outcome = bo_lab_result_claim(result, 0);
    assert_int_equal(bo_lab_result_verdict(result), outcome.verdict);
    assert_int_equal(bo_lab_result_count(result, outcome.verdict), 1);
    outcome.values = kept;
    bo_lab_result_destroy(result);
    bo_context_destroy(context);
    return outcome;
}

static bo_lab_verdict verdict(bo_lab_rule rule, double bound, double upper, size_t seeds, const double *values)
{
    return outcome_for(rule, bound, upper, seeds, values).verdict;
}

#define VALUES(...)                                                                                                    \
    sizeof((const double[]){__VA_ARGS__}) / sizeof(double), (const double[])                                           \
    {                                                                                                                  \
        __VA_ARGS__                                                                                                    \
    }

/* Of 1, 2, 3 the mean is 2 and the interval 2 ± 9.925 · 1 / √3 = 2 ± 5.730. */
static void test_interval(void **state)
{
    (void)state;
    const bo_lab_outcome o = outcome_for(BO_LAB_AT_LEAST, 0, 0, VALUES(1, 2, 3));
    assert_close(o.mean, 2, 1e-15);
    assert_close(o.low, 2 - 5.7302, 1e-3);
    assert_close(o.high, 2 + 5.7302, 1e-3);
}

static void test_at_least(void **state)
{
    (void)state;
    assert_int_equal(verdict(BO_LAB_AT_LEAST, -4, 0, VALUES(1, 2, 3)), BO_LAB_HELD);
    /* all above the bound, but too few */
    assert_int_equal(verdict(BO_LAB_AT_LEAST, 0, 0, VALUES(1, 2, 3)), BO_LAB_INCONCLUSIVE);
    assert_int_equal(verdict(BO_LAB_AT_LEAST, 8, 0, VALUES(1, 2, 3)), BO_LAB_FAILED);
    assert_int_equal(verdict(BO_LAB_AT_LEAST, 0.1, 0, VALUES(0.1, 0.1, 0.1)), BO_LAB_HELD); /* hit exactly */
    assert_int_equal(verdict(BO_LAB_AT_LEAST, 0.1, 0, VALUES(0.099, 0.099, 0.099)), BO_LAB_FAILED);
}

static void test_at_most(void **state)
{
    (void)state;
    assert_int_equal(verdict(BO_LAB_AT_MOST, 8, 0, VALUES(1, 2, 3)), BO_LAB_HELD);
    assert_int_equal(verdict(BO_LAB_AT_MOST, 4, 0, VALUES(1, 2, 3)), BO_LAB_INCONCLUSIVE);
    assert_int_equal(verdict(BO_LAB_AT_MOST, -4, 0, VALUES(1, 2, 3)), BO_LAB_FAILED);
    assert_int_equal(verdict(BO_LAB_AT_MOST, 0.1, 0, VALUES(0.1, 0.1, 0.1)), BO_LAB_HELD);
}

static void test_between(void **state)
{
    (void)state;
    assert_int_equal(verdict(BO_LAB_BETWEEN, -4, 8, VALUES(1, 2, 3)), BO_LAB_HELD);
    assert_int_equal(verdict(BO_LAB_BETWEEN, 0, 8, VALUES(1, 2, 3)), BO_LAB_INCONCLUSIVE);
    assert_int_equal(verdict(BO_LAB_BETWEEN, -4, 5, VALUES(1, 2, 3)), BO_LAB_INCONCLUSIVE);
    assert_int_equal(verdict(BO_LAB_BETWEEN, 8, 9, VALUES(1, 2, 3)), BO_LAB_FAILED);
    assert_int_equal(verdict(BO_LAB_BETWEEN, -9, -8, VALUES(1, 2, 3)), BO_LAB_FAILED);
    assert_int_equal(verdict(BO_LAB_BETWEEN, 0.1, 0.1, VALUES(0.1, 0.1, 0.1)), BO_LAB_HELD);
}

static void test_each(void **state)
{
    (void)state;
    assert_int_equal(verdict(BO_LAB_EACH_AT_MOST, 3, 0, VALUES(1, 2, 3)), BO_LAB_HELD);
    assert_int_equal(verdict(BO_LAB_EACH_AT_MOST, 2.9, 0, VALUES(1, 2, 3)), BO_LAB_FAILED);
    assert_int_equal(verdict(BO_LAB_EACH_AT_LEAST, 1, 0, VALUES(1, 2, 3)), BO_LAB_HELD);
    assert_int_equal(verdict(BO_LAB_EACH_AT_LEAST, 1.1, 0, VALUES(1, 2, 3)), BO_LAB_FAILED);
    assert_int_equal(verdict(BO_LAB_EACH_AT_MOST, 3, 0, VALUES(2)), BO_LAB_HELD); /* one seed is enough */
    const bo_lab_outcome o = outcome_for(BO_LAB_EACH_AT_MOST, 3, 0, VALUES(1, 2, 3));
    assert_true(o.low == 1 && o.high == 3 && o.mean == 2);
}

static void test_few(void **state)
{
    (void)state;
    const bo_lab_outcome one = outcome_for(BO_LAB_AT_LEAST, -100, 0, VALUES(7));
    assert_int_equal(one.verdict, BO_LAB_INCONCLUSIVE); /* no interval */
    assert_true(one.low == 7 && one.high == 7 && one.mean == 7);
    const bo_lab_outcome two = outcome_for(BO_LAB_AT_LEAST, -100, 0, VALUES(1, 2));
    assert_close(two.high - two.low, 2 * 63.657 * sqrt(0.5) / sqrt(2), 0.01);
    assert_int_equal(two.verdict, BO_LAB_HELD);
    assert_int_equal(verdict(BO_LAB_AT_LEAST, -1, 0, VALUES(1, 2)), BO_LAB_INCONCLUSIVE);
}

static void test_missing(void **state)
{
    (void)state;
    const bo_lab_outcome o = outcome_for(BO_LAB_AT_LEAST, -100, 0, VALUES(1, NAN, 3));
    assert_int_equal(o.verdict, BO_LAB_INCONCLUSIVE);
    assert_true(isnan(o.mean) && o.low == 1 && o.high == 3);
    assert_int_equal(verdict(BO_LAB_EACH_AT_MOST, 3, 0, VALUES(1, NAN, 3)), BO_LAB_INCONCLUSIVE);
    assert_int_equal(verdict(BO_LAB_EACH_AT_MOST, 2, 0, VALUES(1, NAN, 3)), BO_LAB_FAILED); /* a counterexample */
    assert_int_equal(verdict(BO_LAB_EACH_AT_LEAST, 2, 0, VALUES(NAN, NAN)), BO_LAB_INCONCLUSIVE);
    assert_int_equal(verdict(BO_LAB_BETWEEN, 0, 1, VALUES(NAN)), BO_LAB_INCONCLUSIVE);
}

static void test_infinite(void **state)
{
    (void)state;
    assert_int_equal(verdict(BO_LAB_AT_LEAST, 1, 0, VALUES(INFINITY, INFINITY, 5)), BO_LAB_INCONCLUSIVE);
    assert_int_equal(verdict(BO_LAB_EACH_AT_LEAST, 1, 0, VALUES(INFINITY, 5)), BO_LAB_HELD);
    assert_int_equal(verdict(BO_LAB_EACH_AT_MOST, 1, 0, VALUES(INFINITY, 0)), BO_LAB_FAILED);
    assert_int_equal(verdict(BO_LAB_EACH_AT_MOST, 1, 0, VALUES(-INFINITY, 0)), BO_LAB_HELD);
}

/* The overall verdict of an experiment is that of its worst claim. */
static void test_worst(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    const lab_experiment experiment = sample_experiment(NULL);
    const struct {
        double mean, each;
        bo_lab_verdict expected;
    } cases[] = {{0, 0, BO_LAB_HELD}, {NAN, 0, BO_LAB_INCONCLUSIVE}, {NAN, 5, BO_LAB_FAILED}, {5, 0, BO_LAB_FAILED}};
    for (size_t i = 0; i < LAB_COUNT_OF(cases); i++) {
        bo_lab_result *result;
        assert_ok(context, lab_result_create(context, &experiment, 2, &result));
        for (size_t s = 0; s < 2; s++) result->claims[s] = cases[i].mean, result->claims[2 + s] = cases[i].each;
        assert_ok(context, lab_result_finish(context, result));
        assert_int_equal(bo_lab_result_verdict(result), cases[i].expected);
        bo_lab_result_destroy(result);
    }
    bo_context_destroy(context);
}

static void test_names(void **state)
{
    (void)state;
    for (int v = 0; v < 3; v++) {
        bo_lab_verdict back;
        assert_true(bo_lab_verdict_parse(bo_lab_verdict_name((bo_lab_verdict)v), &back) && (int)back == v);
    }
    for (int r = 0; r < 5; r++) assert_non_null(bo_lab_rule_name((bo_lab_rule)r));
    assert_null(bo_lab_rule_name((bo_lab_rule)5));
    assert_null(bo_lab_verdict_name((bo_lab_verdict)3));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_interval), cmocka_unit_test(test_at_least),
                                       cmocka_unit_test(test_at_most),  cmocka_unit_test(test_between),
                                       cmocka_unit_test(test_each),     cmocka_unit_test(test_few),
                                       cmocka_unit_test(test_missing),  cmocka_unit_test(test_infinite),
                                       cmocka_unit_test(test_worst),    cmocka_unit_test(test_names)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
