/* Bad input: a status, a message that names the error, no machine, no leak. */
#include "base/counting.h"
#include "oracle.h"

enum { ROWS = 60, DIM = 3, FEATURES = 16 };

typedef struct fixture {
    counting counted;
    bo_context *context;
    bo_samples train, classes;
    bo_machine_desc desc;
    size_t before;
} fixture;

static int open_fixture(void **state)
{
    fixture *f = calloc(1, sizeof *f);
    f->context = counting_context(&f->counted, 2);
    f->train = oracle_regression(ROWS, DIM, 1, 0.3, 1);
    f->classes = oracle_classes(ROWS, DIM, 3, 2, 2);
    f->desc = (bo_machine_desc){.features = {.features = FEATURES, .gamma = 0.5}, .lambda = 1, .seed = 1};
    f->before = f->counted.live;
    *state = f;
    return 0;
}

static int close_fixture(void **state)
{
    fixture *f = *state;
    oracle_drop(&f->train), oracle_drop(&f->classes);
    bo_context_destroy(f->context);
    size_t leaked = f->counted.live;
    free(f);
    return leaked ? -1 : 0;
}

/* Both entry points: the whole fit and the start of a stream. */
static void expect(fixture *f, const bo_machine_desc *desc, const bo_samples *samples, bo_status status,
                   const char *expected_text)
{
    bo_machine *machine = (bo_machine *)f;
    bo_status found = bo_machine_fit(f->context, desc, samples, &machine);
    if (found != status || !strstr(bo_context_error(f->context), expected_text))
        fail_msg("expected '%s' with '%s', found '%s': %s", bo_status_string(status), expected_text,
                 bo_status_string(found), bo_context_error(f->context));
    assert_null(machine);
    assert_true(f->counted.live == f->before);
    if (desc->solver != BO_SOLVER_AUTO || desc->loss == BO_LOSS_LOGISTIC) return;
    bo_fitting *fitting = (bo_fitting *)f;
    assert_int_equal(bo_fitting_create(f->context, desc, samples, &fitting), status);
    assert_null(fitting);
    assert_true(f->counted.live == f->before);
}

static void test_numbers(void **state)
{
    fixture *f = *state;
    static const float bad[] = {NAN, INFINITY, -INFINITY};
    float weights[ROWS];
    for (size_t i = 0; i < ROWS; i++) weights[i] = 1;
    for (size_t k = 0; k < 3; k++) {
        float *x = (float *)f->train.x + 7 * DIM + 2, kept = *x;
        *x = bad[k];
        expect(f, &f->desc, &f->train, BO_INVALID, "row 7, column 2");
        *x = kept;
        double *y = (double *)f->train.y + 59, right = *y;
        *y = (double)bad[k];
        expect(f, &f->desc, &f->train, BO_INVALID, "row 59");
        *y = right;
        f->train.weights = weights;
        weights[5] = bad[k];
        expect(f, &f->desc, &f->train, BO_INVALID, "row 5");
        weights[5] = 1;
        f->train.weights = NULL;
    }
    f->train.weights = weights;
    weights[ROWS - 1] = -1e-30f;
    expect(f, &f->desc, &f->train, BO_INVALID, "weight");
    memset(weights, 0, sizeof weights);
    expect(f, &f->desc, &f->train, BO_INVALID, "weight");
    f->train.weights = NULL;
}

static void test_classes(void **state)
{
    fixture *f = *state;
    double *y = (double *)f->classes.y, kept = y[11];
    static const double bad[] = {-1, 3, 0.5, 1e300, NAN};
    for (size_t k = 0; k < 5; k++) {
        y[11] = bad[k];
        expect(f, &f->desc, &f->classes, BO_INVALID, "row 11");
    }
    y[11] = kept;
    bo_samples one = f->classes;
    one.classes = 1;
    expect(f, &f->desc, &one, BO_INVALID, "class");
    double same[ROWS];
    for (size_t i = 0; i < ROWS; i++) same[i] = 2;
    one = f->classes, one.y = same;
    expect(f, &f->desc, &one, BO_INVALID, "at least 2 classes, found 1");
    static const float weights[][3] = {{1, -1, 1}, {1, NAN, 1}, {INFINITY, 1, 1}};
    for (size_t k = 0; k < 3; k++) {
        f->desc.class_weights = weights[k];
        expect(f, &f->desc, &f->classes, BO_INVALID, "weight");
    }
    static const float nothing[3] = {0};
    bo_machine *machine = (bo_machine *)f;
    f->desc.class_weights = nothing;
    assert_fails(f->context, BO_INVALID, "weight", bo_machine_fit(f->context, &f->desc, &f->classes, &machine));
    assert_null(machine);
    f->desc.class_weights = NULL;
    one = f->classes, one.targets = 2;
    expect(f, &f->desc, &one, BO_INVALID, "one target");
}

static void test_shapes(void **state)
{
    fixture *f = *state;
    bo_samples bad = f->train;
    for (bad.rows = 0; bad.rows < 2; bad.rows++) expect(f, &f->desc, &bad, BO_INVALID, "at least 2 rows");
    bad = f->train, bad.dim = 0;
    expect(f, &f->desc, &bad, BO_INVALID, "expected input columns");
    bad = f->train, bad.targets = 0;
    expect(f, &f->desc, &bad, BO_INVALID, "expected a target");
    bad = f->train, bad.y = NULL;
    expect(f, &f->desc, &bad, BO_INVALID, "expected a target");
}

static void test_constant_inputs(void **state)
{
    fixture *f = *state;
    static const float values[] = {0, 1, -1e30f, 1e-30f, 16777216};
    for (size_t k = 0; k < 5; k++) {
        for (size_t i = 0; i < ROWS * DIM; i++) ((float *)f->train.x)[i] = values[k];
        for (int kind = BO_SCALING_AUTO; kind <= BO_SCALING_NONE; kind++) {
            f->desc.scaling = (bo_scaling)kind;
            expect(f, &f->desc, &f->train, BO_INVALID, "constant");
        }
    }
}

static void test_ranges(void **state)
{
    fixture *f = *state;
    static const double bad[] = {-1, -1e-300, NAN, INFINITY, -INFINITY};
    for (size_t k = 0; k < 5; k++) {
        bo_machine_desc desc = f->desc;
        desc.lambda = bad[k];
        expect(f, &desc, &f->train, BO_INVALID, "lambda");
        desc = f->desc, desc.features.gamma = bad[k];
        expect(f, &desc, &f->train, BO_INVALID, "gamma");
        desc = f->desc, desc.noise = bad[k];
        expect(f, &desc, &f->train, BO_INVALID, "noise");
        desc = f->desc, desc.dropout = bad[k];
        expect(f, &desc, &f->train, BO_INVALID, "dropout");
    }
    bo_machine_desc desc = f->desc;
    desc.dropout = 1;
    expect(f, &desc, &f->train, BO_INVALID, "dropout");
}

static void test_enums(void **state)
{
    fixture *f = *state;
    bo_machine_desc desc = f->desc;
    desc.task = BO_TASK_REGRESSION;
    expect(f, &desc, &f->classes, BO_INVALID, "expected a target with numbers, found classes");
    desc.task = BO_TASK_CLASSIFICATION;
    expect(f, &desc, &f->train, BO_INVALID, "expected a target with classes, found numbers");
    desc = f->desc, desc.loss = BO_LOSS_LOGISTIC;
    expect(f, &desc, &f->train, BO_INVALID, "logistic");
    /* values outside of the enums, as a program in another language may pass them */
    desc = f->desc, desc.solver = (bo_solver)17;
    expect(f, &desc, &f->train, BO_INVALID, "solver");
    desc = f->desc, desc.loss = (bo_loss)17;
    expect(f, &desc, &f->train, BO_INVALID, "loss");
    desc = f->desc, desc.scaling = (bo_scaling)17;
    expect(f, &desc, &f->train, BO_INVALID, "scaling");
    desc = f->desc, desc.task = (bo_task)17;
    expect(f, &desc, &f->train, BO_INVALID, "task");
    desc = f->desc, desc.features.kernel = (bo_kernel)99;
    expect(f, &desc, &f->train, BO_INVALID, "kernel");
}

static void test_features(void **state)
{
    fixture *f = *state;
    bo_machine_desc desc = f->desc;
    desc.features.features = 17; /* sines and cosines come in pairs */
    expect(f, &desc, &f->train, BO_INVALID, "features");
    desc = f->desc, desc.features.function = BO_FUNCTION_RELU; /* not a function of this kernel */
    expect(f, &desc, &f->train, BO_UNSUPPORTED, "");
    desc = f->desc, desc.features.kernel = BO_KERNEL_CUSTOM; /* no callback */
    expect(f, &desc, &f->train, BO_INVALID, "");
    float scales[DIM] = {1, 0, 1};
    desc = f->desc, desc.features.length_scales = scales;
    expect(f, &desc, &f->train, BO_INVALID, "length_scales[1]");
}

/* Zero features means the default number. */
static void test_default_features(void **state)
{
    fixture *f = *state;
    bo_machine_desc desc = f->desc;
    desc.features.features = 0;
    bo_machine *machine = oracle_fit(f->context, &desc, &f->train);
    assert_int_equal(machine->report.features, 4096);
    assert_int_equal(machine->report.solver, BO_SOLVER_DUAL);
    bo_machine_destroy(machine);
    desc.features.kernel = BO_KERNEL_POLYNOMIAL; /* exact maps determine the number: C(3 + 2, 2) */
    machine = oracle_fit(f->context, &desc, &f->train);
    assert_int_equal(machine->report.features, 10);
    bo_machine_destroy(machine);
}

/* Unusual but valid input must fit. */
static void test_accepted(void **state)
{
    fixture *f = *state;
    bo_machine_desc desc = f->desc;
    bo_samples few = f->train;
    few.rows = 2;
    bo_machine *machine = oracle_fit(f->context, &desc, &few);
    bo_machine_destroy(machine);
    desc.lambda = 0, desc.features.gamma = 0; /* two rows, all parameters chosen automatically */
    machine = oracle_fit(f->context, &desc, &few);
    double mean, std;
    assert_ok(f->context, bo_machine_predict(f->context, machine, &(bo_inputs){.rows = 1, .x = few.x},
                                             &(bo_prediction){.mean = &mean, .std = &std}));
    assert_true(isfinite(mean) && isfinite(std));
    bo_machine_destroy(machine);
    /* a constant target is learned exactly */
    double same[ROWS];
    for (size_t i = 0; i < ROWS; i++) same[i] = 41.5;
    bo_samples constant = f->train;
    constant.y = same;
    machine = oracle_fit(f->context, &desc, &constant);
    assert_ok(f->context, bo_machine_predict(f->context, machine, &(bo_inputs){.rows = 1, .x = few.x},
                                             &(bo_prediction){.mean = &mean, .std = &std}));
    assert_close(mean, 41.5, 1e-9);
    assert_true(isfinite(std));
    bo_machine_destroy(machine);
    /* equal rows with different targets */
    bo_samples twins = f->train;
    float x[ROWS * DIM];
    for (size_t i = 0; i < ROWS * DIM; i++) x[i] = (float)(i / DIM % 2);
    twins.x = x;
    machine = oracle_fit(f->context, &desc, &twins);
    assert_ok(f->context, bo_machine_predict(f->context, machine, &(bo_inputs){.rows = 1, .x = x},
                                             &(bo_prediction){.mean = &mean, .std = &std}));
    assert_true(isfinite(mean) && isfinite(std));
    bo_machine_destroy(machine);
    /* a class without rows */
    bo_samples empty = f->classes;
    empty.classes = 5;
    desc = f->desc, desc.balanced = true;
    machine = oracle_fit(f->context, &desc, &empty);
    double p[5];
    assert_ok(f->context, bo_machine_predict(f->context, machine, &(bo_inputs){.rows = 1, .x = empty.x},
                                             &(bo_prediction){.probabilities = p}));
    assert_true(p[3] < 0.2 && p[4] < 0.2 && isfinite(p[0]));
    bo_machine_destroy(machine);
    assert_true(f->counted.live == f->before);
}

static void test_predict(void **state)
{
    fixture *f = *state;
    bo_machine *machine = oracle_fit(f->context, &f->desc, &f->train);
    double mean[ROWS];
    assert_fails(f->context, BO_INVALID, "3 columns",
                 bo_machine_predict(f->context, machine, &(bo_inputs){.rows = ROWS, .x = f->train.x, .stride = 2},
                                    &(bo_prediction){.mean = mean}));
    const float bad[2 * DIM] = {[DIM + 1] = NAN};
    assert_fails(
        f->context, BO_INVALID, "row 1, column 1",
        bo_machine_predict(f->context, machine, &(bo_inputs){.rows = 2, .x = bad}, &(bo_prediction){.mean = mean}));
    bo_machine_destroy(machine);
    bo_machine_destroy(NULL);
}

/* ---- cancellation ------------------------------------------------------------------------------------------------ */

typedef struct patience {
    int calls, max_calls;
} patience;

static bool be_patient(void *user, const char *what, double done, double total)
{
    patience *p = user;
    assert_true(what[0] != 0 && done >= 0 && (total == 0 || done <= total));
    return ++p->calls <= p->max_calls;
}

/* Canceled at the first call, the second, … until the work completes: always BO_CANCELED, nothing leaks. */
static void expect_cancellable(const bo_machine_desc *desc, const bo_samples *samples, int min_calls)
{
    for (int max_calls = 0;; max_calls++) {
        assert_true(max_calls < 500);
        counting counted = {0};
        patience p = {.max_calls = max_calls};
        bo_context_desc described = {
            .threads = 2, .progress = be_patient, .user = &p, .allocator = counting_allocator(&counted)};
        bo_context *context;
        assert_int_equal(bo_context_create(&described, &context), BO_OK);
        size_t before = counted.live;
        bo_machine *machine = (bo_machine *)&p;
        bo_status status = bo_machine_fit(context, desc, samples, &machine);
        if (status != BO_OK) {
            assert_int_equal(status, BO_CANCELED);
            assert_null(machine);
            assert_true(strstr(bo_context_error(context), "canceled") != NULL);
            assert_int_equal(p.calls, max_calls + 1); /* the callback is not called again */
        }
        bo_machine_destroy(status == BO_OK ? machine : NULL);
        assert_true(counted.live == before);
        bo_context_destroy(context);
        assert_true(counted.live == 0);
        if (status != BO_OK) continue;
        assert_true(max_calls >= min_calls); /* there were this many calls */
        return;
    }
}

static void test_cancel(void **state)
{
    fixture *f = *state;
    bo_machine_desc desc = f->desc;
    desc.lambda = 0, desc.features.gamma = 0;
    expect_cancellable(&desc, &f->train, 5);
    expect_cancellable(&desc, &f->classes, 5);
    desc = f->desc, desc.solver = BO_SOLVER_CG;
    expect_cancellable(&desc, &f->train, 2);
    desc.features.function = BO_FUNCTION_SECTIONS;
    expect_cancellable(&desc, &f->train, 5);
    desc = f->desc, desc.solver = BO_SOLVER_SGD;
    expect_cancellable(&desc, &f->train, 10);
    desc = f->desc, desc.loss = BO_LOSS_LOGISTIC, desc.lambda = 0;
    expect_cancellable(&desc, &f->classes, 5);
}

int main(void)
{
#define WITH_FIXTURE(test) cmocka_unit_test_setup_teardown(test, open_fixture, close_fixture)
    const struct CMUnitTest tests[] = {
        WITH_FIXTURE(test_numbers),         WITH_FIXTURE(test_classes),          WITH_FIXTURE(test_shapes),
        WITH_FIXTURE(test_constant_inputs), WITH_FIXTURE(test_ranges),           WITH_FIXTURE(test_enums),
        WITH_FIXTURE(test_features),        WITH_FIXTURE(test_default_features), WITH_FIXTURE(test_accepted),
        WITH_FIXTURE(test_predict),         WITH_FIXTURE(test_cancel),
    };
    return cmocka_run_group_tests_name("machines.refusals", tests, NULL, NULL);
}
