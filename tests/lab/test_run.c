/* Running: equal bits for any number of threads, mistakes of experiments, canceling, out of memory. */
#include "sample.h"
#include "base/counting.h"

static bo_status run(bo_context *context, bo_status (*measure)(lab_run *run), bool timed, size_t seeds,
                     bo_lab_result **out)
{
    static lab_experiment experiment; /* results point to it */
    experiment = sample_experiment(measure);
    experiment.about.timed = timed;
    *out = NULL;
    return lab_run_seeds(context, &experiment, &(bo_lab_options){.seeds = seeds, .seed = 11}, out);
}

/* ---- results ----------------------------------------------------------------------------------------------------- */

static bool same_bits(double a, double b)
{
    return memcmp(&a, &b, sizeof a) == 0;
}

static void assert_same(const bo_lab_result *a, const bo_lab_result *b)
{
    for (size_t i = 0; i < LAB_COUNT_OF(sample_claims); i++) {
        const bo_lab_outcome x = bo_lab_result_claim(a, i), y = bo_lab_result_claim(b, i);
        assert_memory_equal(x.values, y.values, a->seeds * sizeof(double));
        assert_true(same_bits(x.mean, y.mean) && same_bits(x.low, y.low) && x.verdict == y.verdict);
    }
    for (size_t i = 0; i < LAB_COUNT_OF(sample_tables); i++) {
        const lab_grid *x = &a->grids[i], *y = &b->grids[i];
        assert_int_equal(x->rows, y->rows);
        assert_int_equal(x->columns, y->columns);
        for (size_t r = 0; r < x->rows; r++) assert_string_equal(x->row_names[r], y->row_names[r]);
        assert_memory_equal(x->values, y->values, x->rows * x->columns * a->seeds * sizeof(double));
    }
}

static void test_threads(void **state)
{
    (void)state;
    bo_context *one = test_context(1), *four = test_context(4);
    bo_lab_result *a, *b, *c;
    assert_ok(one, run(one, sample_measure, false, 7, &a));
    assert_ok(four, run(four, sample_measure, false, 7, &b));
    assert_ok(four, run(four, sample_measure, true, 7, &c));
    assert_same(a, b);
    assert_same(a, c);
    assert_int_equal(bo_lab_result_about(b).threads, 4);
    bo_lab_result_destroy(a);
    bo_lab_result_destroy(b);
    bo_lab_result_destroy(c);
    bo_context_destroy(one);
    bo_context_destroy(four);
}

static void test_contents(void **state)
{
    (void)state;
    bo_context *context = test_context(2);
    bo_lab_result *result;
    assert_ok(context, run(context, sample_measure, false, 3, &result));
    const bo_lab_grid curve = bo_lab_result_table(result, 0), kinds = bo_lab_result_table(result, 1);
    assert_true(curve.numbers && curve.rows == 8 && curve.columns == 2 && curve.x[0] == 1 && curve.x[7] == 8);
    assert_string_equal(curve.row_names[7], "8");
    assert_string_equal(curve.column_names[1], "theory");
    assert_true(curve.cells[1].mean == 0.5 && curve.cells[1].deviation == 0 && curve.cells[1].count == 3);
    assert_true(!kinds.numbers && !kinds.x && kinds.rows == 2 && kinds.columns == 2);
    assert_int_equal(kinds.cells[1].count, 0); /* first, b: not recorded */
    assert_int_equal(kinds.cells[3].count, 2); /* second, b: all seeds except the first */
    assert_true(kinds.cells[3].mean == 1.0 / 3 && kinds.cells[3].deviation == 0);
    assert_int_equal(bo_lab_result_notes(result), 1);
    assert_string_equal(bo_lab_result_note(result, 0), "seed 11, “full”");
    const bo_lab_about about = bo_lab_result_about(result);
    assert_true(about.seeds == 3 && about.seed == 11 && !about.quick && !about.text && about.seconds >= 0);
    bo_lab_result_destroy(result);
    bo_context_destroy(context);
}

/* ---- mistakes ---------------------------------------------------------------------------------------------------- */

static bo_status no_number(lab_run *r)
{
    lab_claim(r, "mean", 1);
    return BO_OK;
}

static bo_status two_numbers(lab_run *r)
{
    lab_claim(r, "mean", 1);
    lab_claim(r, "mean", 1);
    lab_claim(r, "each", 1);
    return BO_OK;
}

static bo_status unknown_claim(lab_run *r)
{
    lab_claim(r, "main", 1);
    return sample_measure(r);
}

static bo_status unknown_table(lab_run *r)
{
    lab_point(r, "kurve", "a", 1, 1);
    return sample_measure(r);
}

static bo_status two_cells(lab_run *r)
{
    lab_point(r, "curve", "measured", 3, 1);
    return sample_measure(r);
}

static bo_status two_kinds(lab_run *r)
{
    lab_cell(r, "curve", "three", "measured", 1);
    return sample_measure(r);
}

static bo_status invalid_row(lab_run *r)
{
    lab_point(r, "curve", "measured", NAN, 1);
    return sample_measure(r);
}

static bo_status third_fails(lab_run *r)
{
    if (lab_index(r) == 2) return bo_fail(lab_context(r), BO_NUMERIC, "a matrix is singular");
    for (int i = 0; i < 1000000; i++) BO_TRY(lab_progress(r, 0.5)); /* until the other seed has failed */
    return sample_measure(r);
}

static void test_mistakes(void **state)
{
    (void)state;
    bo_context *context = test_context(3);
    bo_lab_result *result;
    for (int timed = 0; timed < 2; timed++) {
        assert_fails(context, BO_INVALID, "made, seed 11: claim each has no number",
                     run(context, no_number, timed, 2, &result));
        assert_fails(context, BO_INVALID, "claim mean has two numbers", run(context, two_numbers, timed, 2, &result));
        assert_fails(context, BO_INVALID, "claim main is not described",
                     run(context, unknown_claim, timed, 2, &result));
        assert_fails(context, BO_INVALID, "table kurve is not described",
                     run(context, unknown_table, timed, 2, &result));
        assert_fails(context, BO_INVALID, "two numbers for row 3, column measured",
                     run(context, two_cells, timed, 2, &result));
        assert_fails(context, BO_INVALID, "both named and numeric rows", run(context, two_kinds, timed, 2, &result));
        assert_fails(context, BO_INVALID, "NaN or infinite row", run(context, invalid_row, timed, 2, &result));
        assert_null(result);
    }
    assert_fails(context, BO_NUMERIC, "made, seed 13: a matrix is singular",
                 run(context, third_fails, false, 3, &result));
    assert_null(result);
    assert_fails(context, BO_INVALID, "at most 1000 seeds", run(context, sample_measure, false, 1001, &result));
    assert_fails(context, BO_INVALID, "unknown experiment", bo_lab_run(context, NULL, NULL, &result));
    const bo_lab_experiment unregistered = {.name = "unregistered"};
    assert_fails(context, BO_INVALID, "unknown experiment", bo_lab_run(context, &unregistered, NULL, &result));
    assert_fails(context, BO_INVALID, "out must not be NULL", bo_lab_run(context, bo_lab_at(0), NULL, NULL));
    bo_context_destroy(context);
}

/* ---- stopping ---------------------------------------------------------------------------------------------------- */

static bo_status forever(lab_run *r)
{
    for (;;) BO_TRY(lab_progress(r, 0.25));
}

/* A library call that reports progress itself. */
static bo_status forever_inside(lab_run *r)
{
    for (;;) BO_TRY(bo_progress(lab_context(r), "inside", 1, 2));
}

typedef struct patience {
    size_t calls, max_calls;
    double last;
} patience;

static bool cancel_after(void *user, const char *what, double done, double total)
{
    patience *p = user;
    (void)what, (void)total;
    p->last = done;
    return ++p->calls < p->max_calls;
}

static void test_cancel(void **state)
{
    (void)state;
    patience p = {.max_calls = 3};
    bo_context *context;
    bo_lab_result *result;
    const bo_context_desc desc = {.threads = 2, .progress = cancel_after, .user = &p};
    assert_int_equal(bo_context_create(&desc, &context), BO_OK);
    bo_status (*const endless[])(lab_run *) = {forever, forever_inside};
    for (size_t i = 0; i < 2; i++)
        for (int timed = 0; timed < 2; timed++) {
            p.calls = 0;
            assert_int_equal(run(context, endless[i], timed, 5, &result), BO_CANCELED);
            assert_null(result);
            assert_true(strstr(bo_context_error(context), "made was canceled"));
            assert_true(p.calls >= 3);
        }
    p = (patience){.max_calls = (size_t)-1};
    assert_ok(context, run(context, sample_measure, true, 2, &result)); /* and works afterwards */
    assert_close(p.last, 1, 1e-12);
    bo_lab_result_destroy(result);
    bo_context_destroy(context);
}

/* ---- out of memory ----------------------------------------------------------------------------------------------- */

typedef struct setting {
    counting counted;
    bo_context *context;
    bool timed;
} setting;

static bo_status work(void *what)
{
    setting *s = what;
    bo_lab_result *result;
    const bo_status status = run(s->context, sample_measure, s->timed, 2, &result);
    if (status != BO_OK) assert_null(result);
    bo_lab_result_destroy(result);
    return status;
}

static void test_memory(void **state)
{
    (void)state;
    for (int timed = 0; timed < 2; timed++) {
        setting s = {.timed = timed};
        s.context = counting_context(&s.counted, 1);
        counting_inject(&(injection){&s.counted, s.context, work, &s, 2000, 1, NULL});
        bo_context_destroy(s.context);
        assert_true(s.counted.live == 0);
    }
}

static bo_status long_note(lab_run *r)
{
    char text[4096] = "";
    for (size_t i = 0; i + 4 < sizeof text; i += 3) strcpy(text + i, "…");
    lab_note(r, "x%s", text);
    return sample_measure(r);
}

/* A truncated note ends with a complete character. */
static void test_note(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    bo_lab_result *result;
    assert_ok(context, run(context, long_note, false, 2, &result));
    const char *note = bo_lab_result_note(result, 0);
    assert_true(strlen(note) > 2000 && strlen(note) % 3 == 1);
    bo_lab_result_destroy(result);
    bo_context_destroy(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_threads),  cmocka_unit_test(test_contents),
                                       cmocka_unit_test(test_mistakes), cmocka_unit_test(test_cancel),
                                       cmocka_unit_test(test_memory),   cmocka_unit_test(test_note)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
