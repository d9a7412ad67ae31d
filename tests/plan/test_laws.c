/* Laws of runs: a known law is recovered, intervals have their nominal coverage, and few runs determine only some
 * parameters. */
#include "laws_made_up.h"
#include "plan/laws.h"
#include <unistd.h>

static double value_of(const bo_plan_laws *laws, size_t parameter)
{
    return laws->loss[parameter].range.value;
}

/* Without noise, the parameters equal those of the law, and each run is predicted from the other runs. */
static void a_known_law_is_found(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    bo_plan_observation runs[GRID];
    grid(runs, 0, 0, 0);
    bo_plan_laws *laws = fit_grid(context, runs, GRID);
    for (size_t k = 0; k < 5; k++) {
        assert_true(laws->loss[k].origin == BO_PLAN_ORIGIN_FITTED);
        assert_close(value_of(laws, k) / true_law[k], 1, 0.05); /* the search ends at steps of 0.1% in the powers */
    }
    for (size_t t = 0; t < 3; t++) assert_close(laws->costs[t].range.value / true_cost[t], 1, 1e-6);
    for (size_t i = 0; i < GRID; i++) {
        assert_close(laws->left_out[i].loss.value / runs[i].loss, 1, 2e-3);
        assert_close(laws->left_out[i].step.value / runs[i].seconds, 1, 1e-6);
    }
    bo_plan_laws_destroy(laws);
    bo_context_destroy(context);
}

static void one_bad_run_hardly_matters(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    bo_plan_observation runs[GRID];
    grid(runs, 0.003, 0, 3);
    runs[5].loss *= 1.5;
    bo_plan_laws *laws = fit_grid(context, runs, GRID);
    const bo_plan_counts counts = counts_of(4, 256);
    bo_plan_forecast far;
    assert_ok(context, bo_plan_forecast_run(context, laws, &counts, 2e7, &far));
    assert_close(far.loss.value / true_loss(counts.parameters, 2e7), 1, 0.03); /* least squares: 0.11 off */
    bo_plan_laws_destroy(laws);
    bo_context_destroy(context);
}

/* The same runs give the same bits. */
static void laws_are_repeatable(void **state)
{
    (void)state;
    bo_context *one = test_context(1), *two = test_context(2);
    bo_plan_observation runs[GRID];
    grid(runs, 0.01, 0.03, 4);
    bo_plan_laws *a = fit_grid(one, runs, GRID), *b = fit_grid(two, runs, GRID);
    for (size_t k = 0; k < 5; k++) assert_memory_equal(&a->loss[k].range, &b->loss[k].range, sizeof a->loss[k].range);
    for (size_t t = 0; t < 3; t++)
        assert_memory_equal(&a->costs[t].range, &b->costs[t].range, sizeof a->costs[t].range);
    bo_plan_laws_destroy(a);
    bo_plan_laws_destroy(b);
    bo_context_destroy(one);
    bo_context_destroy(two);
}

/* ---- few runs ---------------------------------------------------------------------------------------------------- */

static void origins_are(const bo_plan_laws *laws, bo_plan_origin size_power, bo_plan_origin data_power)
{
    assert_int_equal(laws->loss[2].origin, size_power);
    assert_int_equal(laws->loss[4].origin, data_power);
}

/* One size: the data term only, for this size only. */
static void one_size_has_no_size_term(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    bo_plan_observation runs[4];
    for (size_t i = 0; i < 4; i++) runs[i] = observation(2, 64, 2e5 * pow(2, (double)i));
    bo_plan_laws *laws = fit_grid(context, runs, 4);
    origins_are(laws, BO_PLAN_ORIGIN_ABSENT, BO_PLAN_ORIGIN_FITTED);
    assert_int_equal(laws->costs[0].origin, BO_PLAN_ORIGIN_ABSENT);
    const bo_plan_counts same = counts_of(2, 64), other = counts_of(2, 128);
    bo_plan_forecast f;
    assert_ok(context, bo_plan_forecast_run(context, laws, &same, 4e6, &f));
    assert_close(f.loss.value / true_loss(same.parameters, 4e6), 1, 0.01);
    assert_close(f.beyond, 2.5, 1e-9);
    assert_ok(context, bo_plan_forecast_run(context, laws, &other, 4e6, &f));
    assert_true(isnan(f.loss.value) && isfinite(f.step.value));
    bo_plan_laws_destroy(laws);
    bo_context_destroy(context);
}

/* Two sizes do not determine an exponent: it is stored, and its uncertainty widens the interval of other sizes. */
static void two_sizes_use_the_stored_power(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    bo_plan_observation runs[8];
    for (size_t i = 0; i < 8; i++) runs[i] = observation(2, i % 2 ? 64 : 128, 2e5 * pow(2, (double)(i / 2)));
    bo_plan_laws *laws = fit_grid(context, runs, 8);
    origins_are(laws, BO_PLAN_ORIGIN_STORED, BO_PLAN_ORIGIN_FITTED);
    assert_true(laws->loss[2].range.low < laws->loss[2].range.value - 0.05);
    bo_plan_forecast near, far;
    const bo_plan_counts inside = counts_of(2, 128), outside = counts_of(4, 512);
    assert_ok(context, bo_plan_forecast_run(context, laws, &inside, 1e6, &near));
    assert_ok(context, bo_plan_forecast_run(context, laws, &outside, 1e6, &far));
    assert_true(near.beyond == 1 && far.beyond > 10);
    assert_true(far.loss.high - far.loss.low > 4 * (near.loss.high - near.loss.low));
    bo_plan_laws_destroy(laws);
    bo_context_destroy(context);
}

/* Four runs of four sizes determine an exponent, three do not: the prediction of the fourth uses the stored exponent,
 * as a law of the other three does, and not one that was fitted to the fourth as well. */
static void left_out_runs_are_not_used(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    bo_plan_observation runs[4];
    for (size_t i = 0; i < 4; i++) runs[i] = observation(2, 32 * pow(2, (double)i), 1e6);
    bo_plan_laws *all = fit_grid(context, runs, 4), *three = fit_grid(context, runs, 3);
    bo_plan_forecast alone;
    origins_are(all, BO_PLAN_ORIGIN_FITTED, BO_PLAN_ORIGIN_ABSENT);
    origins_are(three, BO_PLAN_ORIGIN_STORED, BO_PLAN_ORIGIN_ABSENT);
    assert_ok(context, bo_plan_forecast_run(context, three, &runs[3].counts, runs[3].bytes, &alone));
    assert_close(all->left_out[3].loss.value / alone.loss.value, 1, 1e-9);
    bo_plan_laws_destroy(all);
    bo_plan_laws_destroy(three);
    bo_context_destroy(context);
}

static void too_few_runs_are_refused(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    bo_plan_observation runs[GRID];
    bo_plan_laws *laws = (bo_plan_laws *)runs;
    grid(runs, 0, 0, 0);
    assert_fails(context, BO_INVALID, "1 run with", bo_plan_laws_fit(context, &family, runs, 1, &laws));
    assert_null(laws);
    assert_fails(context, BO_INVALID, "at least 3 runs", bo_plan_laws_fit(context, &family, runs, 2, &laws));
    bo_plan_observation same[4] = {runs[0], runs[0], runs[0], runs[0]};
    assert_fails(context, BO_INVALID, "same size", bo_plan_laws_fit(context, &family, same, 4, &laws));
    assert_fails(context, BO_INVALID, "at most 64", bo_plan_laws_fit(context, &family, runs, 65, &laws));
    runs[2].name = "third";
    runs[2].loss = -1;
    assert_fails(context, BO_INVALID, "third: expected a positive loss",
                 bo_plan_laws_fit(context, &family, runs, GRID, &laws));
    runs[2].loss = 1;
    runs[2].bytes = NAN;
    assert_fails(context, BO_INVALID, "third", bo_plan_laws_fit(context, &family, runs, GRID, &laws));
    bo_context_destroy(context);
}

/* A run without a loss, or without a time, is used for the other law. */
static void unknown_numbers_are_left_out(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    bo_plan_observation runs[GRID];
    grid(runs, 0, 0, 0);
    runs[0].loss = runs[1].seconds = NAN;
    bo_plan_laws *laws = fit_grid(context, runs, GRID);
    assert_close(value_of(laws, 2) / true_law[2], 1, 0.05);
    assert_true(isnan(laws->left_out[0].loss.value) && isfinite(laws->left_out[0].step.value));
    assert_true(isfinite(laws->left_out[1].loss.value) && isnan(laws->left_out[1].step.value));
    bo_plan_laws_destroy(laws);
    for (size_t i = 0; i < GRID; i++) runs[i].seconds = NAN;
    laws = fit_grid(context, runs, GRID);
    const bo_plan_counts counts = counts_of(2, 64);
    bo_plan_forecast f;
    bo_plan *plan;
    assert_ok(context, bo_plan_forecast_run(context, laws, &counts, 1e6, &f));
    assert_true(isnan(laws->step_error) && isnan(f.step.value) && isfinite(f.loss.value));
    assert_fails(context, BO_INVALID, "no time law",
                 bo_plan_create(context, &(bo_plan_basis){.laws = laws}, &(bo_plan_budget){.minutes = 1}, &plan));
    bo_plan_laws_destroy(laws);
    bo_context_destroy(context);
}

/* ---- intervals --------------------------------------------------------------------------------------------------- */

/* Of SETS simulated sets, the share whose 90% interval contains the truth is binomial: within 3.3 standard deviations,
 * sqrt(0.9 · 0.1 / SETS), with probability 0.999. The bootstrap is an approximation; its intervals may be too wide by
 * more than that (bounds of the exponents), so the upper limit is 1. */
static void intervals_have_their_probability(void **state)
{
    (void)state;
    enum { SETS = 12, CHECKED = 7 };
    bo_context *context = test_context(1);
    size_t covered[CHECKED] = {0};
    const bo_plan_counts far = counts_of(4, 192);
    for (size_t s = 0; s < SETS; s++) hold_truth(context, s, &far, covered);
    for (size_t k = 0; k < CHECKED; k++) assert_true((double)covered[k] / SETS > 0.9 - 3.3 * sqrt(0.09 / SETS));
    bo_context_destroy(context);
}

/* ---- files ------------------------------------------------------------------------------------------------------- */

static const char *const path = "plan_test_law.json";

static void saved_laws_are_loaded_unchanged(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    bo_plan_observation runs[GRID];
    grid(runs, 0.01, 0.02, 6);
    runs[3].loss = NAN;
    runs[4].seconds = NAN;
    bo_plan_laws *laws = fit_grid(context, runs, GRID), *again;
    assert_ok(context, bo_plan_laws_save(context, laws, path));
    assert_ok(context, bo_plan_laws_load(context, path, &again));
    assert_string_equal(again->family.config, family.config);
    assert_true(again->family.batch == family.batch && again->count == GRID);
    for (size_t k = 0; k < 5; k++)
        assert_memory_equal(&again->loss[k].range, &laws->loss[k].range, sizeof laws->loss[k].range);
    bo_plan_laws_destroy(laws);
    bo_plan_laws_destroy(again);
    unlink(path);
    bo_context_destroy(context);
}

/* The text of a law with one word replaced. */
static void refused_with(bo_context *context, const char *message, const char *old, const char *new)
{
    bo_plan_observation runs[GRID], parsed[BO_PLAN_RUNS];
    bo_plan_family read;
    size_t count;
    bo_json *root;
    bo_json_text text = {.context = context};
    static char other[1 << 16];
    grid(runs, 0, 0, 0);
    bo_plan_laws *laws = fit_grid(context, runs, GRID);
    bo_plan_laws_text(laws, &text);
    char *at = strstr(text.bytes, old);
    assert_non_null(at);
    snprintf(other, sizeof other, "%.*s%s%s", (int)(at - text.bytes), text.bytes, new, at + strlen(old));
    assert_fails(context, BO_FORMAT, message,
                 bo_plan_laws_parse(context, path, other, strlen(other), &root, &read, parsed, &count));
    assert_null(root);
    bo_free(text.bytes);
    bo_plan_laws_destroy(laws);
}

static void broken_files_are_refused(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    bo_plan_laws *laws = (bo_plan_laws *)context;
    assert_fails(context, BO_IO, "nowhere.json", bo_plan_laws_load(context, "nowhere.json", &laws));
    assert_null(laws);
    refused_with(context, "found 'other'", "bochner law 1", "other");
    refused_with(context, "config", "\"config\"", "\"cfg\"");
    refused_with(context, "unknown optimizer 'hope'", "\"muon\"", "\"hope\"");
    refused_with(context, "storage", "\"float32\"", "\"float3\"");
    refused_with(context, "batch", "\"batch\": 8", "\"batch\": -8");
    refused_with(context, "threads", "\"threads\": 1", "\"threads\": 1.5");
    refused_with(context, "runs", "\"runs\": [", "\"run\": [");
    refused_with(context, "loss", "\"loss\": ", "\"loss\": true, \"l\": ");
    refused_with(context, "bytes: expected a number", "\"bytes\": ", "\"bytes\": null, \"b\": ");
    bo_context_destroy(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_known_law_is_found),
        cmocka_unit_test(one_bad_run_hardly_matters),
        cmocka_unit_test(laws_are_repeatable),
        cmocka_unit_test(one_size_has_no_size_term),
        cmocka_unit_test(two_sizes_use_the_stored_power),
        cmocka_unit_test(left_out_runs_are_not_used),
        cmocka_unit_test(too_few_runs_are_refused),
        cmocka_unit_test(unknown_numbers_are_left_out),
        cmocka_unit_test(intervals_have_their_probability),
        cmocka_unit_test(saved_laws_are_loaded_unchanged),
        cmocka_unit_test(broken_files_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
