/* Graphs trained step by step, many runs of stochastic gradient descent, randomly changing inputs, and linear kernel
 * machines: known answers, and every allocation failing once. */
#include "testing.h"
#include "base/counting.h"
#include "lab/tools/descent.h"
#include "lab/tools/linear_machine.h"
#include "lab/tools/perturbed.h"
#include "lab/tools/stochastic.h"

/* ---- descent ----------------------------------------------------------------------------------------------------- */

/* x·w with two examples, |y - Xw|². */
static bo_status open_two(bo_context *context, lab_descent *d, bo_value *noisy, double noise, uint64_t seed)
{
    static const float x[4] = {1, 2, 3, -1}, y[2] = {1, 2};
    BO_TRY(lab_descent_open(context, d));
    const bo_value in = bo_graph_input(d->tape.graph, "x", BO_ELEMENT_FLOAT32, 2, 2);
    const bo_value target = bo_graph_input(d->tape.graph, "y", BO_ELEMENT_FLOAT32, 2, 1);
    *noisy = lab_graph_one(d->tape.graph, BO_OPERATION_NOISE, &(bo_noise_attributes){.amount = noise}, 1, &in);
    bo_graph_keep(d->tape.graph, *noisy);
    const bo_value out =
        lab_graph_linear(d->tape.graph, "w", *noisy, 1, (bo_weight_init){BO_WEIGHT_INIT_KIND_ONE, 0, 0});
    bo_status status = lab_descent_ready(d, lab_graph_squares(d->tape.graph, out, target), 2, &lab_plain_descent,
                                         seed); /* mean of two */
    if (status == BO_OK) status = bo_graph_write(context, d->tape.graph, in, x);
    if (status == BO_OK) status = bo_graph_write(context, d->tape.graph, target, y);
    if (status != BO_OK) lab_descent_close(d);
    return status;
}

static void test_step(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    lab_descent d;
    bo_value outputs;
    float w[2];
    double loss;
    assert_ok(context, open_two(context, &d, &outputs, 0, 1));
    assert_ok(context, lab_descent_gradients(&d, &loss));
    assert_close(loss, 2, 1e-6); /* residuals 3 - 1 and 2 - 2: (4 + 0) / 2 */
    assert_ok(context, lab_tape_gradient(&d.tape, "w", w));
    assert_close((double)w[0], 4, 1e-6); /* 2 · 2 · (1, 2) */
    assert_close((double)w[1], 8, 1e-6);
    assert_ok(context, lab_descent_step(&d, 0.125, NULL));
    assert_ok(context, lab_tape_read(&d.tape, "w", w));
    assert_close((double)w[0], 0.5, 1e-6);
    assert_close((double)w[1], 0, 1e-6);
    assert_ok(context, lab_tape_write(&d.tape, "w", (const float[]){7, 8}));
    assert_ok(context, lab_tape_read(&d.tape, "w", w));
    assert_true(w[0] == 7 && w[1] == 8);
    assert_fails(context, BO_INVALID, "no weight 'v'", lab_tape_read(&d.tape, "v", w));
    lab_descent_close(&d);
    lab_descent_close(&d); /* a zeroed structure */
    bo_context_destroy(context);
}

/* Two steps of plain descent from zero with prescribed gradients. */
static void test_given(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    lab_descent d;
    float w[2];
    assert_ok(context, lab_descent_weight(context, 1, 2, &lab_plain_descent, &d));
    assert_ok(context, lab_descent_apply(&d, (const float[]){1, -2}, 0.5));
    assert_ok(context, lab_tape_read(&d.tape, "w", w));
    assert_true(w[0] == -0.5F && w[1] == 1);
    assert_ok(context, lab_descent_apply(&d, (const float[]){4, 0}, 1));
    assert_ok(context, lab_tape_read(&d.tape, "w", w));
    assert_true(w[0] == -4.5F && w[1] == 1);
    lab_descent_close(&d);
    bo_context_destroy(context);
}

/* Every step draws different noise; the noise is determined by the seed. */
static void test_seeds(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    float outputs[4][4];
    for (size_t i = 0; i < 3; i++) {
        lab_descent d;
        bo_value value;
        assert_ok(context, open_two(context, &d, &value, 1, i == 2 ? 2 : 1));
        assert_ok(context, lab_descent_gradients(&d, NULL));
        assert_ok(context, bo_graph_read(context, d.tape.graph, value, outputs[i]));
        assert_ok(context, lab_descent_gradients(&d, NULL));
        assert_ok(context, bo_graph_read(context, d.tape.graph, value, outputs[3]));
        assert_memory_not_equal(outputs[i], outputs[3], sizeof outputs[3]);
        if (i == 0) { /* the second step of seed 1 is not the first of seed 2 */
            lab_descent other;
            float first[4];
            assert_ok(context, open_two(context, &other, &value, 1, 2));
            assert_ok(context, lab_descent_gradients(&other, NULL));
            assert_ok(context, bo_graph_read(context, other.tape.graph, value, first));
            assert_memory_not_equal(first, outputs[3], sizeof first);
            lab_descent_close(&other);
        }
        lab_descent_close(&d);
    }
    assert_memory_equal(outputs[0], outputs[1], sizeof outputs[0]);
    assert_memory_not_equal(outputs[0], outputs[2], sizeof outputs[0]);
    bo_context_destroy(context);
}

/* ---- stochastic -------------------------------------------------------------------------------------------------- */

static lab_least_squares two_numbers(bo_context *context)
{
    static const float x[2] = {1, 3};
    bo_rng rng = bo_rng_make(1, 1);
    lab_least_squares p;
    assert_ok(context,
              lab_least_squares_open(context, &(lab_least_squares_desc){.rows = 2, .dim = 1, .x = x}, &rng, &p));
    return p;
}

/* One weight, examples 1 and 3: with b = 2 the mean of x² is 1, 5 or 9 with probabilities 1/4, 1/2, 1/4. */
static void test_moments(void **state)
{
    (void)state;
    const double rate = 0.1;
    bo_context *context = test_context(1);
    lab_least_squares p = two_numbers(context);
    double s = 2;
    lab_moments_next(&p, NULL, 1, rate, &s);
    assert_close(s, 2 * 0.5 * (0.9 * 0.9 + 0.1 * 0.1), 1e-12);
    s = 1;
    lab_moments_next(&p, NULL, 2, rate, &s);
    assert_close(s, 0.25 * 0.9 * 0.9 + 0.5 * 0.5 * 0.5 + 0.25 * 0.1 * 0.1, 1e-12);
    assert_close(lab_moments_growth(&p, 2, rate, 3), s, 1e-12);
    s = 0; /* residuals add η² mean(r² x²) */
    lab_moments_next(&p, (const double[]){3, -1}, 1, rate, &s);
    assert_close(s, 0.01 * 0.5 * (9 * 1 + 1 * 9), 1e-12);
    s = 2;
    assert_close(lab_moments_loss(&p, &s), 20, 1e-12);
    lab_least_squares_close(&p);
    bo_context_destroy(context);
}

/* Measured runs have this second moment. */
static void test_runs(void **state)
{
    (void)state;
    enum { RUNS = 20000 };
    bo_context *context = test_context(1);
    lab_least_squares p = two_numbers(context);
    for (size_t batch = 1; batch <= 2; batch++) {
        lab_stochastic r;
        double s = p.truth[0] * p.truth[0], loss, error;
        assert_ok(context, lab_stochastic_open(context, &p, RUNS, batch, bo_rng_make(5, 6), &r));
        assert_ok(context, lab_stochastic_begin(&r, NULL));
        assert_ok(context, lab_stochastic_loss(&r, &loss));
        assert_close(loss, lab_moments_loss(&p, &s), 1e-5 * loss);
        for (size_t t = 0; t < 2; t++) {
            assert_ok(context, lab_stochastic_step(&r, 0.1));
            lab_moments_next(&p, NULL, batch, 0.1, &s);
        }
        assert_ok(context, lab_stochastic_error(&r, p.truth, &error));
        assert_close(error / s, 1, 0.05);
        assert_ok(context, lab_stochastic_begin(&r, p.truth));
        assert_ok(context, lab_stochastic_error(&r, p.truth, &error));
        assert_close(error, 0, 1e-12);
        lab_stochastic_close(&r);
    }
    lab_least_squares wide = {.rows = 1, .dim = LAB_STOCHASTIC_DIM + 1};
    lab_stochastic r;
    assert_fails(context, BO_INVALID, "at most", lab_stochastic_open(context, &wide, 1, 1, bo_rng_make(1, 1), &r));
    lab_least_squares_close(&p);
    bo_context_destroy(context);
}

/* ---- perturbed --------------------------------------------------------------------------------------------------- */

static void test_perturbed(void **state)
{
    (void)state;
    enum { ROWS = 16, DIM = 3 };
    static const double scales[DIM] = {4, 3, 2};
    bo_context *context = test_context(1);
    bo_rng rng = bo_rng_make(7, 8);
    lab_least_squares p;
    double w[DIM], exact[DIM], loss;
    assert_ok(context, lab_least_squares_open(
                           context, &(lab_least_squares_desc){.rows = ROWS, .dim = DIM, .scales = scales, .noise = 1},
                           &rng, &p));
    const bo_noise_attributes none = {.amount = 0}, some = {.amount = 0.5};
    const lab_perturbation no_noise = {lab_perturb_noise, &none, 16},
                           noisy = {lab_perturb_noise, &some, 16 + ROWS * 0.25};
    assert_ok(context, lab_perturbed_mean(context, &p, &no_noise, 1000, 1, w));
    assert_ok(context, lab_ridge(context, &p, 0, NULL, exact));
    assert_close(lab_distance(w, exact, DIM), 0, 1e-5);
    assert_ok(context, lab_perturbed_loss(context, &p, &no_noise, w, 1, 1, &loss));
    assert_close(loss, lab_squares(&p, w), 1e-5 * loss);
    assert_ok(context, lab_perturbed_loss(context, &p, &noisy, w, 4000, 1, &loss));
    assert_close(loss / (lab_squares(&p, w) + ROWS * 0.25 * lab_dot(w, w, DIM)), 1, 0.03);
    const bo_dropout_attributes half = {.rate = 0.5};
    const lab_perturbation dropped = {lab_perturb_dropout, &half, 32};
    double penalty = 0; /* q/(1 - q) = 1 */
    for (size_t i = 0; i < ROWS * DIM; i++) penalty += p.x[i] * p.x[i] * w[i % DIM] * w[i % DIM];
    assert_ok(context, lab_perturbed_loss(context, &p, &dropped, w, 4000, 1, &loss));
    assert_close(loss / (lab_squares(&p, w) + penalty), 1, 0.03);
    lab_least_squares_close(&p);
    bo_context_destroy(context);
}

/* One weight, examples 1 and 3: w = Σxy / (Σx² + λ). */
static void test_machine(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    lab_least_squares p = two_numbers(context);
    const lab_linear_machine machine = {.lambda = 1, .noise = 0.5}; /* n σ² = 0.5 */
    const double w = 10 * p.truth[0] / (10 + 1 + 0.5);
    double predicted, gap;
    assert_ok(context, lab_machine_predict(context, &p, &machine, 1, (const float[]){2}, &predicted));
    assert_close(predicted, 2 * w, 1e-6);
    assert_ok(context, lab_machine_gap(context, &p, &machine, 2, (const float[]){2, 2}, &w, &gap));
    assert_close(gap, 0, 1e-6);
    const double off = 0.5 * w;
    assert_ok(context, lab_machine_gap(context, &p, &machine, 1, (const float[]){2}, &off, &gap));
    assert_close(gap, 1, 1e-6);
    lab_least_squares_close(&p);
    bo_context_destroy(context);
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

static bo_status run_all(void *what)
{
    bo_context *context = what;
    static const double scales[2] = {2, 1};
    bo_rng rng = bo_rng_make(1, 1);
    lab_least_squares p;
    lab_stochastic runs;
    lab_descent d;
    double w[2];
    const bo_noise_attributes some = {.amount = 0.5};
    const lab_perturbation noisy = {lab_perturb_noise, &some, 8};
    BO_TRY(lab_least_squares_open(context, &(lab_least_squares_desc){.rows = 4, .dim = 2, .scales = scales}, &rng, &p));
    bo_status status = lab_ridge(context, &p, 1, NULL, w);
    if (status == BO_OK) status = lab_stochastic_open(context, &p, 3, 2, rng, &runs);
    if (status == BO_OK) {
        status = lab_stochastic_step(&runs, 0.1);
        lab_stochastic_close(&runs);
    }
    if (status == BO_OK) status = lab_perturbed_mean(context, &p, &noisy, 2, 1, w);
    if (status == BO_OK) status = lab_perturbed_loss(context, &p, &noisy, w, 2, 1, &w[0]);
    if (status == BO_OK)
        status = lab_machine_gap(context, &p, &(lab_linear_machine){.lambda = 1}, 4, p.x_single, p.truth, &w[0]);
    lab_least_squares_close(&p);
    if (status == BO_OK) status = lab_descent_weight(context, 2, 3, &lab_plain_descent, &d);
    if (status == BO_OK) lab_descent_close(&d);
    return status;
}

static void test_memory(void **state)
{
    (void)state;
    counting counted = {0};
    bo_context *context = counting_context(&counted, 1);
    counting_inject(&(injection){&counted, context, run_all, context, 2000, 1, NULL});
    bo_context_destroy(context);
    assert_int_equal(counted.live, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_step),    cmocka_unit_test(test_given),  cmocka_unit_test(test_seeds),
        cmocka_unit_test(test_moments), cmocka_unit_test(test_runs),   cmocka_unit_test(test_perturbed),
        cmocka_unit_test(test_machine), cmocka_unit_test(test_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
