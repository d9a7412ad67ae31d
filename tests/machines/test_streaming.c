/* Streams: blocks, merges and sums over ranks give the in-memory fit up to rounding. */
#include "machines/fitting.h"
#include "oracle.h"

enum { ROWS = 700, DIM = 3, FEATURES = 48, NEW_ROWS = 50 };

typedef struct fixture {
    bo_context *context;
    bo_samples train, classes, fresh;
} fixture;

static int open_fixture(void **state)
{
    fixture *f = calloc(1, sizeof *f);
    f->context = test_context(2);
    f->train = oracle_regression(ROWS, DIM, 2, 0.3, 1);
    f->classes = oracle_classes(ROWS, DIM, 3, 2, 2);
    f->fresh = oracle_regression(NEW_ROWS, DIM, 1, 0, 3);
    *state = f;
    return 0;
}

static int close_fixture(void **state)
{
    fixture *f = *state;
    oracle_drop(&f->train), oracle_drop(&f->classes), oracle_drop(&f->fresh);
    bo_context_destroy(f->context);
    free(f);
    return 0;
}

static bo_samples part(const bo_samples *all, size_t first, size_t rows)
{
    bo_samples out = *all;
    out.rows = rows;
    out.x += first * all->dim;
    out.y += first * all->targets;
    if (out.weights) out.weights += first;
    return out;
}

static bo_machine_desc plain_desc(void)
{
    return (bo_machine_desc){.features = {.features = FEATURES, .gamma = 0.3}, .lambda = 0.5, .seed = 4};
}

static bo_fitting *begin(bo_context *context, const bo_machine_desc *desc, const bo_samples *sample)
{
    bo_fitting *fitting = NULL;
    assert_ok(context, bo_fitting_create(context, desc, sample, &fitting));
    return fitting;
}

static void add_range(bo_context *context, bo_fitting *fitting, const bo_samples *all, size_t first, size_t end)
{
    static const size_t sizes[] = {1, 7, 130, 2, 61};
    for (size_t k = 0; first < end; k++) {
        size_t rows = sizes[k % 5] < end - first ? sizes[k % 5] : end - first;
        bo_samples block = part(all, first, rows);
        assert_ok(context, bo_fitting_add(context, fitting, &block));
        first += rows;
    }
}

static bo_machine *finish(bo_context *context, bo_fitting *fitting)
{
    bo_machine *machine = NULL;
    assert_ok(context, bo_fitting_finish(context, fitting, &machine));
    return machine;
}

/* Up to rounding: sums of float32 products in another grouping, ε |G| / λ (oracle_tolerance). */
static void expect_same(fixture *f, const bo_machine *a, const bo_machine *b, const bo_samples *train)
{
    assert_int_equal(a->report.rows, b->report.rows);
    assert_true(a->report.gamma == b->report.gamma);
    size_t outputs = a->report.outputs;
    double *p = oracle_mean(f->context, a, NEW_ROWS, f->fresh.x), *q = oracle_mean(f->context, b, NEW_ROWS, f->fresh.x);
    double *z = oracle_features(f->context, a, train->rows, train->x), deviation = 1;
    for (size_t t = 0; t < train->targets; t++)
        deviation = fmax(deviation, oracle_deviation(train->rows, train->targets, train->y, t));
    double tolerance = oracle_tolerance(train->rows, FEATURES, outputs, z, a->beta, a->report.lambda, deviation, false);
    double far = oracle_farthest(NEW_ROWS * outputs, p, q);
    if (!(far < 2 * tolerance)) fail_msg("predictions are %g apart, rounding explains %g", far, 2 * tolerance);
    free(p), free(q), free(z);
}

static void test_blocks(void **state)
{
    fixture *f = *state;
    float *weights = oracle_weights(ROWS, 5);
    for (int mode = 0; mode < 8; mode++) { /* classes, weights, regularizers */
        bo_samples train = mode & 1 ? f->classes : f->train;
        train.weights = mode & 2 ? weights : NULL;
        bo_machine_desc desc = plain_desc();
        desc.solver = BO_SOLVER_PRIMAL, desc.loss = BO_LOSS_RIDGE;
        if (mode & 4) desc.noise = 0.05, desc.dropout = 0.1, desc.balanced = mode & 1;
        bo_machine *whole = oracle_fit(f->context, &desc, &train);
        bo_fitting *fitting = begin(f->context, &desc, &train);
        add_range(f->context, fitting, &train, 0, ROWS);
        bo_machine *streamed = finish(f->context, fitting);
        expect_same(f, whole, streamed, &train);
        assert_true(streamed->report.lambda == whole->report.lambda);
        if (!(mode & 1)) assert_close(streamed->report.noise_std / whole->report.noise_std, 1, 1e-4);
        assert_non_null(strstr(streamed->report.why_solver, "stream"));
        bo_fitting_destroy(fitting);
        bo_machine_destroy(whole), bo_machine_destroy(streamed);
    }
    free(weights);
}

/* The sample is only a part of the rows, so its scaling would differ and is turned off; then the machine is the
 * same. */
static void test_from_a_sample(void **state)
{
    fixture *f = *state;
    bo_machine_desc desc = plain_desc();
    desc.solver = BO_SOLVER_PRIMAL;
    desc.scaling = BO_SCALING_NONE;
    bo_samples sample = part(&f->train, 100, 150);
    bo_machine *whole = oracle_fit(f->context, &desc, &f->train);
    bo_fitting *fitting = begin(f->context, &desc, &sample);
    add_range(f->context, fitting, &f->train, 0, ROWS);
    bo_machine *streamed = finish(f->context, fitting);
    expect_same(f, whole, streamed, &f->train);
    bo_fitting_destroy(fitting);
    bo_machine_destroy(whole), bo_machine_destroy(streamed);
}

/* No parameters given: γ and the initial λ from the sample, λ by GCV on all rows. The in-memory fit of the same rows
 * chooses the same γ, and finds its λ on the same path. */
static void test_everything_chosen(void **state)
{
    fixture *f = *state;
    bo_machine_desc desc = {.features = {.features = FEATURES}, .solver = BO_SOLVER_PRIMAL, .seed = 4};
    bo_machine *whole = oracle_fit(f->context, &desc, &f->train);
    bo_fitting *fitting = begin(f->context, &desc, &f->train);
    add_range(f->context, fitting, &f->train, 0, ROWS);
    bo_machine *streamed = finish(f->context, fitting);
    assert_true(whole->report.gamma == streamed->report.gamma);
    assert_close(log(whole->report.lambda / streamed->report.lambda), 0, 0.02);
    double *a = oracle_mean(f->context, whole, NEW_ROWS, f->fresh.x),
           *b = oracle_mean(f->context, streamed, NEW_ROWS, f->fresh.x);
    assert_true(oracle_rmse(2 * NEW_ROWS, a, b) < 0.02 * whole->report.noise_std);
    free(a), free(b);
    bo_fitting_destroy(fitting);
    bo_machine_destroy(whole), bo_machine_destroy(streamed);
}

static void test_merge(void **state)
{
    fixture *f = *state;
    for (int classes = 0; classes < 2; classes++) {
        const bo_samples *train = classes ? &f->classes : &f->train;
        bo_machine_desc desc = plain_desc();
        bo_fitting *one = begin(f->context, &desc, train), *two = begin(f->context, &desc, train);
        bo_fitting *all = begin(f->context, &desc, train);
        add_range(f->context, one, train, 0, 333);
        add_range(f->context, two, train, 333, ROWS);
        add_range(f->context, all, train, 0, ROWS);
        assert_ok(f->context, bo_fitting_merge(f->context, one, two));
        bo_machine *merged = finish(f->context, one), *whole = finish(f->context, all),
                   *other = finish(f->context, two);
        expect_same(f, whole, merged, train);
        assert_int_equal(other->report.rows, ROWS - 333); /* the second is unchanged */
        bo_machine_destroy(merged), bo_machine_destroy(whole), bo_machine_destroy(other);
        bo_fitting_destroy(one), bo_fitting_destroy(two), bo_fitting_destroy(all);
    }
}

/* Refused with the name of the difference, and unchanged. */
static void expect_refused(fixture *f, const bo_machine_desc *desc, const bo_samples *sample, const char *expected_text)
{
    bo_machine_desc plain = plain_desc();
    bo_fitting *fitting = begin(f->context, &plain, &f->train), *other = begin(f->context, desc, sample);
    add_range(f->context, fitting, &f->train, 0, 100);
    add_range(f->context, other, sample, 0, 100);
    bo_status status = bo_fitting_merge(f->context, fitting, other);
    if (status != BO_INVALID || !strstr(bo_context_error(f->context), expected_text))
        fail_msg("expected a refusal with '%s': %s, '%s'", expected_text, bo_status_string(status),
                 bo_context_error(f->context));
    bo_machine *machine = finish(f->context, fitting);
    assert_int_equal(machine->report.rows, 100);
    bo_machine_destroy(machine);
    bo_fitting_destroy(fitting), bo_fitting_destroy(other);
}

static void test_merge_refused(void **state)
{
    fixture *f = *state;
    bo_machine_desc desc = plain_desc();
    desc.features.features = 32;
    expect_refused(f, &desc, &f->train, "features");
    desc = plain_desc(), desc.features.gamma = 0.4;
    expect_refused(f, &desc, &f->train, "gamma");
    desc = plain_desc(), desc.seed = 5;
    expect_refused(f, &desc, &f->train, "seed");
    desc = plain_desc(), desc.features.kernel = BO_KERNEL_MATERN32;
    expect_refused(f, &desc, &f->train, "feature maps differ");
    desc = plain_desc(), desc.features.draw = BO_DRAW_IID;
    expect_refused(f, &desc, &f->train, "feature maps differ");
    desc = plain_desc();
    expect_refused(f, &desc, &f->classes, "outputs");
    bo_samples half = part(&f->train, 0, ROWS / 2);
    expect_refused(f, &desc, &half, "scaled differently");
    desc.scaling = BO_SCALING_NONE;
    expect_refused(f, &desc, &f->train, "scaled differently");
}

/* Maps with the same kernel, draw, γ and seed that still differ. */
static void test_merge_of_other_maps_refused(void **state)
{
    fixture *f = *state;
    bo_machine_desc desc = plain_desc();
    static const float scales[DIM] = {1, 2, 1};
    desc.features.length_scales = scales;
    expect_refused(f, &desc, &f->train, "feature maps differ");
    desc = plain_desc(), desc.features.sampling = BO_SAMPLING_LEVERAGE;
    expect_refused(f, &desc, &f->train, "feature maps differ");
}

static void test_add_refused(void **state)
{
    fixture *f = *state;
    bo_machine_desc desc = plain_desc();
    bo_fitting *fitting = begin(f->context, &desc, &f->train);
    bo_machine *machine;
    assert_fails(f->context, BO_INVALID, "at least 2 rows", bo_fitting_finish(f->context, fitting, &machine));
    assert_null(machine);
    bo_samples wide = f->train, narrow = f->train, bad = part(&f->train, 0, 5);
    wide.dim = DIM + 1, wide.rows = 2;
    assert_fails(f->context, BO_INVALID, "columns", bo_fitting_add(f->context, fitting, &wide));
    narrow.targets = 1;
    assert_fails(f->context, BO_INVALID, "targets", bo_fitting_add(f->context, fitting, &narrow));
    assert_fails(f->context, BO_INVALID, "classes", bo_fitting_add(f->context, fitting, &f->classes));
    float x[5 * DIM] = {0};
    x[7] = NAN;
    bad.x = x;
    assert_fails(f->context, BO_INVALID, "row 2, column 1", bo_fitting_add(f->context, fitting, &bad));
    assert_int_equal(fitting->moments.rows, 0);
    bo_fitting_destroy(fitting);
    bo_fitting_destroy(NULL);
}

static void test_solvers_refused(void **state)
{
    fixture *f = *state;
    bo_fitting *fitting = (bo_fitting *)f;
    bo_machine_desc desc = plain_desc();
    desc.loss = BO_LOSS_LOGISTIC;
    assert_fails(f->context, BO_UNSUPPORTED, "several passes",
                 bo_fitting_create(f->context, &desc, &f->classes, &fitting));
    assert_null(fitting);
    static const struct {
        bo_solver solver;
        const char *name;
    } solvers[] = {{BO_SOLVER_DUAL, "dual"}, {BO_SOLVER_CG, "cg"}, {BO_SOLVER_SGD, "sgd"}};
    for (size_t k = 0; k < 3; k++) {
        desc = plain_desc(), desc.solver = solvers[k].solver;
        assert_fails(f->context, BO_UNSUPPORTED, solvers[k].name,
                     bo_fitting_create(f->context, &desc, &f->train, &fitting));
    }
    desc = plain_desc(), desc.solver = BO_SOLVER_PRIMAL;
    fitting = begin(f->context, &desc, &f->train);
    bo_fitting_destroy(fitting);
}

/* bo_fitting_finish does not end a fitting: more rows can be added, and it can be finished again. */
static void test_finish_and_go_on(void **state)
{
    fixture *f = *state;
    for (int chosen = 0; chosen < 2; chosen++) {
        bo_machine_desc desc = plain_desc();
        if (chosen) desc.lambda = 0;
        bo_fitting *fitting = begin(f->context, &desc, &f->train);
        add_range(f->context, fitting, &f->train, 0, 200);
        bo_machine *early = finish(f->context, fitting), *again = finish(f->context, fitting);
        assert_int_equal(early->report.rows, 200);
        if (!chosen) assert_memory_equal(early->beta, again->beta, 2 * FEATURES * sizeof(double));
        bo_machine_destroy(again);
        double *before = oracle_mean(f->context, early, NEW_ROWS, f->fresh.x);
        add_range(f->context, fitting, &f->train, 200, ROWS);
        bo_machine *late = finish(f->context, fitting);
        bo_fitting_destroy(fitting); /* machines are independent of the fitting */
        double *after = oracle_mean(f->context, early, NEW_ROWS, f->fresh.x);
        assert_memory_equal(before, after, 2 * NEW_ROWS * sizeof *before);
        free(before), free(after);
        if (!chosen) {
            desc.solver = BO_SOLVER_PRIMAL;
            bo_machine *whole = oracle_fit(f->context, &desc, &f->train);
            expect_same(f, whole, late, &f->train);
            bo_machine_destroy(whole);
        }
        bo_machine_destroy(early), bo_machine_destroy(late);
    }
}

/* ---- several ranks ----------------------------------------------------------------------------------------------- */

/* A collective for ranks that are called one after the other: each call of sum() adds its values to the values of the
 * other ranks, read from their fittings. */
enum { RANKS = 3 };
typedef struct fake {
    double *totals[2]; /* of the Gram matrices and of the row counts */
    size_t counts[2];
    int call;
    bo_status status;
} fake;

static bo_status fake_sum(void *user, double *values, size_t count)
{
    fake *c = user;
    if (c->status != BO_OK) return c->status;
    assert_true(c->call < 2);
    assert_int_equal(count, c->counts[c->call]);
    memcpy(values, c->totals[c->call], count * sizeof *values);
    c->call++;
    return BO_OK;
}

static void test_reduce(void **state)
{
    fixture *f = *state;
    bo_machine_desc desc = plain_desc();
    bo_fitting *ranks[RANKS], *all = begin(f->context, &desc, &f->train);
    add_range(f->context, all, &f->train, 0, ROWS);
    for (size_t r = 0; r < RANKS; r++) {
        ranks[r] = begin(f->context, &desc, &f->train);
        add_range(f->context, ranks[r], &f->train, r * ROWS / RANKS, (r + 1) * ROWS / RANKS);
    }
    size_t count = ranks[0]->moments.size * ranks[0]->moments.size;
    double *gram = calloc(count, sizeof *gram), rows = 0;
    for (size_t r = 0; r < RANKS; r++) {
        for (size_t k = 0; k < count; k++) gram[k] += ranks[r]->moments.gram[k];
        rows += (double)ranks[r]->moments.rows;
    }
    bo_machine *whole = finish(f->context, all), *machines[RANKS];
    for (int r = 0; r < RANKS; r++) {
        fake c = {.totals = {gram, &rows}, .counts = {count, 1}};
        bo_collective collective = {.rank = r, .size = RANKS, .sum = fake_sum, .user = &c};
        assert_ok(f->context, bo_fitting_reduce(f->context, ranks[r], &collective));
        machines[r] = finish(f->context, ranks[r]);
        expect_same(f, whole, machines[r], &f->train);
        assert_memory_equal(machines[r]->beta, machines[0]->beta, 2 * FEATURES * sizeof(double));
    }
    for (int r = 0; r < RANKS; r++) bo_machine_destroy(machines[r]), bo_fitting_destroy(ranks[r]);
    /* a single rank needs no collective; a failure is reported with the rank */
    bo_collective alone = {.rank = 0, .size = 1, .sum = NULL};
    assert_ok(f->context, bo_fitting_reduce(f->context, all, &alone));
    fake broken = {.status = BO_IO};
    bo_collective lost = {.rank = 2, .size = 4, .sum = fake_sum, .user = &broken};
    assert_fails(f->context, BO_IO, "rank 2 of 4", bo_fitting_reduce(f->context, all, &lost));
    free(gram);
    bo_machine_destroy(whole);
    bo_fitting_destroy(all);
}

int main(void)
{
#define WITH_FIXTURE(test) cmocka_unit_test_setup_teardown(test, open_fixture, close_fixture)
    const struct CMUnitTest tests[] = {
        WITH_FIXTURE(test_blocks),
        WITH_FIXTURE(test_from_a_sample),
        WITH_FIXTURE(test_everything_chosen),
        WITH_FIXTURE(test_merge),
        WITH_FIXTURE(test_merge_refused),
        WITH_FIXTURE(test_merge_of_other_maps_refused),
        WITH_FIXTURE(test_add_refused),
        WITH_FIXTURE(test_solvers_refused),
        WITH_FIXTURE(test_finish_and_go_on),
        WITH_FIXTURE(test_reduce),
    };
    return cmocka_run_group_tests_name("machines.streaming", tests, NULL, NULL);
}
