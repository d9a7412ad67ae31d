/* The tasks are correct: permutations form a group, and the targets follow their definitions. */
#include "testing.h"
#include "lab/internal.h"
#include "lab/degree/mixing_tasks.h"

static void test_permutations(void **state)
{
    (void)state;
    for (int a = 0; a < LAB_PERMUTATIONS; a++)
        for (int b = 0; b < LAB_PERMUTATIONS; b++) {
            const int c = lab_permutations_compose(a, b);
            for (int i = 0; i < 3; i++)
                assert_int_equal(lab_permutation_of(c, i), lab_permutation_of(a, lab_permutation_of(b, i)));
        }
    for (int a = 0; a < LAB_PERMUTATIONS; a++) assert_int_equal(lab_permutations_compose(0, a), a);
}

typedef struct place {
    lab_job job;
    lab_run run;
} place;

static lab_run *make_run(place *p, bo_context *context)
{
    *p = (place){.job = {.options = {.seed = 5}, .context = context}};
    p->run = (lab_run){.job = &p->job, .context = context};
    return &p->run;
}

static void test_parity(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    place p;
    lab_mixing_rows rows;
    assert_ok(context,
              lab_mixing_rows_open(make_run(&p, context), &(lab_mixing_desc){LAB_MIXING_PARITY, 5, 0, 200}, &rows));
    assert_int_equal(rows.examples->dim, 5);
    assert_int_equal(rows.examples->classes, 2);
    assert_int_equal(rows.examples->parts[BO_SPLIT_VALID].count, 40);
    assert_int_equal(rows.examples->parts[BO_SPLIT_TEST].count, 40);
    size_t odd = 0;
    for (size_t r = 0; r < 200; r++) {
        float product = 1;
        for (size_t i = 0; i < 5; i++) product *= rows.x[r * 5 + i];
        assert_close(rows.y[r], product < 0, 0);
        odd += product < 0;
    }
    assert_in_range(odd, 60, 140); /* 100 expected, deviation 7 */
    lab_mixing_rows_close(&rows);
    bo_context_destroy(context);
}

/* The positions of the ones give the permutations, of which the last is applied first. */
static void test_products(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    place p;
    lab_mixing_rows rows;
    assert_ok(context, lab_mixing_rows_open(make_run(&p, context),
                                            &(lab_mixing_desc){LAB_MIXING_PERMUTATIONS, 3, 0, 100}, &rows));
    assert_int_equal(rows.examples->dim, 18);
    for (size_t r = 0; r < 100; r++)
        for (int element = 0; element < 3; element++) {
            int at = element;
            for (size_t i = 3; i-- > 0;) {
                const float *ones = rows.x + (r * 3 + i) * LAB_PERMUTATIONS;
                int which = 0;
                while (ones[which] == 0) which++;
                at = lab_permutation_of(which, at);
            }
            assert_int_equal(lab_permutation_of((int)rows.y[r], element), at);
        }
    lab_mixing_rows_close(&rows);
    bo_context_destroy(context);
}

static void test_polynomial(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    place p;
    lab_mixing_rows rows;
    assert_ok(context,
              lab_mixing_rows_open(make_run(&p, context), &(lab_mixing_desc){LAB_MIXING_POLYNOMIAL, 0, 0, 300}, &rows));
    assert_int_equal(rows.examples->dim, 12);
    assert_int_equal(rows.examples->classes, 0);
    for (size_t i = 0; i < 300 * 12; i++) assert_true(fabsf(rows.x[i]) <= 1);
    lab_mixing_rows_close(&rows);
    bo_context_destroy(context);
}

/* With all 2^8 rows of signs, a sum of 24 parities of 5 signs has a Walsh transform that is an integer on sets of 5, 0
 * on all others, and whose sizes add up to at most 24. Rows are drawn, so copies of a row must agree. */
static void test_parities(void **state)
{
    (void)state;
    enum { SIGNS = 8, ORDER = 5, ROWS = 20000, ALL = 1 << SIGNS };
    bo_context *context = test_context(1);
    place p;
    lab_mixing_rows rows;
    double value[ALL];
    double sizes = 0;
    const lab_mixing_desc desc = {LAB_MIXING_PARITIES, SIGNS, ORDER, ROWS};
    assert_ok(context, lab_mixing_rows_open(make_run(&p, context), &desc, &rows));
    for (size_t i = 0; i < ALL; i++) value[i] = NAN;
    for (size_t r = 0; r < ROWS; r++) {
        size_t code = 0;
        for (size_t i = 0; i < SIGNS; i++) code |= (size_t)(rows.x[r * SIGNS + i] < 0) << i;
        if (!isnan(value[code])) assert_close(rows.y[r], value[code], 0);
        value[code] = rows.y[r];
    }
    for (unsigned set = 0; set < ALL; set++) {
        double sum = 0;
        for (unsigned code = 0; code < ALL; code++)
            sum += __builtin_popcount(set & code) % 2 ? -value[code] : value[code];
        sum /= ALL;
        if (__builtin_popcount(set) != ORDER) assert_close(sum, 0, 1e-12);
        assert_close(sum, round(sum), 1e-12);
        sizes += fabs(sum);
    }
    assert_true(sizes > 0 && sizes <= 24);
    lab_mixing_rows_close(&rows);
    bo_context_destroy(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_permutations), cmocka_unit_test(test_parity),
                                       cmocka_unit_test(test_products), cmocka_unit_test(test_polynomial),
                                       cmocka_unit_test(test_parities)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
