/* Tangent features and their kernel, gradient flow and early stopping, with known answers. */
#include "sample.h"
#include "base/counting.h"
#include "lab/learning/stopping.h"

enum { DIM = 4, TRAIN = 24, VALID = 24, TEST = 48, ROWS = TRAIN + VALID + TEST };

typedef struct data {
    lab_examples examples;
    float x[ROWS * DIM], y[ROWS];
} data;

/* Rows of length √DIM; y depends only on the first two inputs. */
static void draw(data *d)
{
    bo_rng rng = bo_rng_make(1, bo_rng_stream("test.tangent", 0));
    for (size_t r = 0; r < ROWS; r++) {
        double square = 0;
        for (size_t i = 0; i < DIM; i++) {
            d->x[r * DIM + i] = (float)bo_rng_normal(&rng);
            square += (double)d->x[r * DIM + i] * (double)d->x[r * DIM + i];
        }
        for (size_t i = 0; i < DIM; i++) d->x[r * DIM + i] *= (float)sqrt(DIM / square);
        d->y[r] = 2 * d->x[r * DIM] - d->x[r * DIM + 1];
    }
    d->examples = (lab_examples){DIM, TRAIN, VALID, TEST, d->x, d->y};
}

static void test_error(void **state)
{
    (void)state;
    data d;
    draw(&d);
    float predicted[VALID] = {0};
    assert_close(lab_examples_error(&d.examples, TRAIN, VALID, predicted), 1, 1e-12);
    assert_close(lab_examples_error(&d.examples, TRAIN, VALID, d.y + TRAIN), 0, 0);
}

/* The contribution of a unit to an inner product has a deviation below √E relu⁴ + √E a⁴ [·]: √1.5 + √1.5 for rows of
 * this length. The bound is five of those over √m. */
static void test_kernel(void **state)
{
    (void)state;
    enum { UNITS = 16384, FEW = 6 };
    bo_context *context = test_context(1);
    data d;
    draw(&d);
    lab_examples few = d.examples;
    few.train = FEW, few.valid = few.test = 0;
    const size_t features = lab_tangent_features(DIM, UNITS);
    float *phi = calloc(FEW * features, sizeof *phi);
    double kernel[FEW * FEW], sampled[FEW * FEW];
    bo_rng rng = bo_rng_make(2, bo_rng_stream("test.tangent", 1));
    assert_int_equal(features, UNITS * (DIM + 1));
    assert_ok(context, lab_tangent_map(context, &few, UNITS, &rng, phi));
    assert_ok(context, lab_feature_kernel(context, FEW, features, phi, sampled));
    assert_ok(context, lab_tangent_kernel(context, &few, kernel));
    for (size_t i = 0; i < FEW * FEW; i++) assert_close(sampled[i], kernel[i], 5 * 2 * sqrt(1.5) / sqrt(UNITS));
    for (size_t i = 0; i < FEW; i++) assert_close(kernel[i * FEW + i], 1, 1e-6); /* |x|²/dim (π + π) / 2π */
    free(phi);
    bo_context_destroy(context);
}

/* The kernel of inner products on a linear target: the error vanishes with time, but not after one step. */
static void test_flow(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    data d;
    static double kernel[ROWS * ROWS];
    lab_flow_result converged, stopped;
    draw(&d);
    assert_ok(context, lab_feature_kernel(context, ROWS, DIM, d.x, kernel));
    assert_ok(context, lab_kernel_flow(context, &d.examples, kernel, INFINITY, &converged));
    assert_ok(context, lab_kernel_flow(context, &d.examples, kernel, 1, &stopped));
    assert_true(converged.test < 1e-8 && converged.valid < 1e-8);
    assert_true(stopped.test > 0.05 && stopped.test < 1);
    bo_context_destroy(context);
}

/* ---- training ---------------------------------------------------------------------------------------------------- */

static lab_stopped latest; /* of the latest measurement */

static bo_status measure(lab_run *run)
{
    data d;
    draw(&d);
    const lab_stopping desc = {.examples = &d.examples,
                               .inputs = d.x,
                               .width = DIM,
                               .record = lab_record_linear,
                               .kind = BO_OPTIMIZER_SGD,
                               .rate = 0.01,
                               .rates = 3, /* the last diverges */
                               .steps = 200,
                               .relevant = 2};
    lab_claim(run, "mean", 0);
    lab_claim(run, "each", 0);
    lab_stopping unstable = desc;
    unstable.rate = 3, unstable.rates = 1;
    BO_TRY(lab_stop(run, &unstable, &latest));
    if (isfinite(latest.test) && latest.test < 1) return bo_fail(lab_context(run), BO_INVALID, "it did not diverge");
    return lab_stop(run, &desc, &latest);
}

static bo_status run_sample(bo_context *context)
{
    lab_experiment experiment = sample_experiment(measure);
    experiment.about.timed = true; /* on this thread */
    bo_lab_result *result;
    BO_TRY(lab_run_seeds(context, &experiment, &(bo_lab_options){.seeds = 1}, &result));
    bo_lab_result_destroy(result);
    return BO_OK;
}

static void test_stopping(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    assert_ok(context, run_sample(context));
    assert_true(latest.test < 1e-6 && latest.valid < 1e-6);
    assert_close(latest.share, 1, 1e-6);
    bo_context_destroy(context);
}

/* Two of twenty features form the target: two steps find them, and a third finds nothing. */
static void test_chosen(void **state)
{
    enum { PART = 40, ALL = 3 * PART, WIDTH = 20 };
    float phi[ALL * WIDTH], y[ALL];
    (void)state;
    bo_context *context = test_context(1);
    bo_rng rng = bo_rng_make(5, 0);
    for (size_t i = 0; i < ALL * WIDTH; i++) phi[i] = (float)bo_rng_normal(&rng);
    for (size_t i = 0; i < ALL; i++) y[i] = 2 * phi[i * WIDTH + 3] - phi[i * WIDTH + 7];
    const lab_examples e = {.dim = 1, .train = PART, .valid = PART, .test = PART, .y = y};
    lab_chosen chosen;
    assert_ok(context, lab_choose_features(context, &e, WIDTH, phi, 1, &chosen));
    assert_int_equal(chosen.count, 1);
    assert_true(chosen.test > 0.05 && chosen.test < 0.6);
    assert_ok(context, lab_choose_features(context, &e, WIDTH, phi, 2, &chosen));
    assert_int_equal(chosen.count, 2);
    assert_true(chosen.valid < 1e-12 && chosen.test < 1e-12);
    bo_context_destroy(context);
}

typedef struct setting {
    counting counted;
    bo_context *context;
} setting;

static bo_status work(void *what)
{
    return run_sample(((setting *)what)->context);
}

static void test_memory(void **state)
{
    setting s = {0};
    (void)state;
    s.context = counting_context(&s.counted, 1);
    counting_inject(&(injection){&s.counted, s.context, work, &s, 60, 5, NULL});
    bo_context_destroy(s.context);
    assert_int_equal(s.counted.live, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_error),    cmocka_unit_test(test_kernel),
                                       cmocka_unit_test(test_flow),     cmocka_unit_test(test_chosen),
                                       cmocka_unit_test(test_stopping), cmocka_unit_test(test_memory)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
