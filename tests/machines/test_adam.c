/* Adam on features: its error compared with ridge, its limit for many features, and wide networks trained by Adam. */
#include "oracle.h"

enum { DIM = 3, NEW_ROWS = 200 };

static bo_machine_desc adam_desc(size_t features, uint64_t seed)
{
    return (bo_machine_desc){.features = {.kernel = BO_KERNEL_NTK,
                                          .function = BO_FUNCTION_NETWORK,
                                          .features = features,
                                          .gamma = 1.0 / DIM,
                                          .bias_variance = 0.1},
                             .solver = BO_SOLVER_ADAM,
                             .lambda = 1,
                             .seed = seed};
}

static double error_of(bo_context *context, const bo_machine *machine, const bo_samples *fresh)
{
    double *mean = oracle_mean(context, machine, fresh->rows, fresh->x);
    double error = oracle_rmse(fresh->rows, mean, fresh->y);
    free(mean);
    return error;
}

/* The noise of the targets is 0.1: both errors are errors of the function, at most a quarter of its variance. */
static void test_adam_learns(void **state)
{
    (void)state;
    bo_context *context = test_context(2);
    bo_samples train = oracle_regression(400, DIM, 1, 0.1, 1), fresh = oracle_regression(NEW_ROWS, DIM, 1, 0, 9);
    bo_machine_desc desc = adam_desc(512, 1);
    bo_machine *adam = oracle_fit(context, &desc, &train);
    assert_int_equal(adam->report.solver, BO_SOLVER_ADAM);
    assert_true(adam->report.iterations > 500 && adam->report.validation_rows == 80);
    desc.solver = BO_SOLVER_PRIMAL;
    desc.lambda = 0.1;
    bo_machine *ridge = oracle_fit(context, &desc, &train);
    const double one = error_of(context, adam, &fresh), other = error_of(context, ridge, &fresh);
    if (!(one < 1.3 * other && one < 0.5 * oracle_deviation(NEW_ROWS, 1, fresh.y, 0)))
        fail_msg("RMSE %g by Adam, %g by ridge", one, other);
    bo_machine_destroy(adam), bo_machine_destroy(ridge);
    oracle_drop(&train), oracle_drop(&fresh);
    bo_context_destroy(context);
}

static void test_threads_do_not_matter(void **state)
{
    (void)state;
    bo_context *one = test_context(1), *four = test_context(4);
    bo_samples train = oracle_classes(120, DIM, 3, 2, 1);
    bo_machine_desc desc = adam_desc(64, 1);
    bo_machine *a = oracle_fit(one, &desc, &train), *b = oracle_fit(four, &desc, &train);
    assert_memory_equal(a->beta, b->beta, 64 * 3 * sizeof(double));
    bo_machine_destroy(a), bo_machine_destroy(b);
    oracle_drop(&train);
    bo_context_destroy(one), bo_context_destroy(four);
}

static void test_overflow_is_refused(void **state)
{
    (void)state;
    enum { FEW = 60 };
    bo_context *context = test_context(1);
    float x[FEW];
    double y[FEW];
    for (size_t i = 0; i < FEW; i++) x[i] = 1e25f * (float)i, y[i] = (double)i;
    const bo_samples samples = {.rows = FEW, .dim = 1, .targets = 1, .x = x, .y = y};
    const bo_machine_desc desc = {
        .scaling = BO_SCALING_NONE, .solver = BO_SOLVER_ADAM, .features = {.kernel = BO_KERNEL_POLYNOMIAL, .gamma = 1}};
    bo_machine *machine;
    assert_fails(context, BO_NUMERIC, "not finite", bo_machine_fit(context, &desc, &samples, &machine));
    bo_context_destroy(context);
}

/* ---- the limit of wide networks ---------------------------------------------------------------------------------- */

enum { EXAMPLES = 24, QUERIES = 16, ALL = EXAMPLES + QUERIES, STEPS = 60, WIDEST = 4096 };

/* f(x) = Σ_j a_j relu(w_j·x)/√m with pairs of equal units and opposite a, so that f = 0 at the start. */
typedef struct units {
    size_t m;
    double w[WIDEST * DIM], a[WIDEST];
} units;

typedef struct moments {
    double first, second;
} moments;

static double moved(moments *m, double gradient, int step, double rate)
{
    m->first = 0.9 * m->first + 0.1 * gradient;
    m->second = 0.999 * m->second + 0.001 * gradient * gradient;
    if (m->second == 0) return 0;
    return rate * m->first / (1 - pow(0.9, step)) / sqrt(m->second / (1 - pow(0.999, step)));
}

static double output(const units *u, const double *x)
{
    double sum = 0;
    for (size_t j = 0; j < u->m; j++) {
        double s = 0;
        for (size_t i = 0; i < DIM; i++) s += u->w[j * DIM + i] * x[i];
        sum += u->a[j] * fmax(s, 0);
    }
    return sum / sqrt((double)u->m);
}

/* Adds r(x) ∂f(x) of the network `at` to the gradient; f is linear in the movement for tangent features. */
static void add_gradient(const units *at, const double *x, double r, double *gradient)
{
    const double root = sqrt((double)at->m);
    for (size_t j = 0; j < at->m; j++) {
        double s = 0;
        for (size_t i = 0; i < DIM; i++) s += at->w[j * DIM + i] * x[i];
        if (s <= 0) continue;
        gradient[at->m * DIM + j] += r * s / root;
        for (size_t i = 0; i < DIM; i++) gradient[j * DIM + i] += r * at->a[j] * x[i] / root;
    }
}

static double tangent_output(const units *start, const double *movement, const double *x)
{
    double *gradient = calloc(start->m * (DIM + 1), sizeof *gradient), sum = 0;
    add_gradient(start, x, 1, gradient);
    for (size_t k = 0; k < start->m * (DIM + 1); k++) sum += gradient[k] * movement[k];
    free(gradient);
    return sum;
}

/* Trains by Adam with full batches: the network, or its tangent features. out: f at all rows. */
static void train_units(const units *start, bool tangent, double x[ALL][DIM], const double *y, double out[ALL])
{
    size_t count = start->m * (DIM + 1);
    units *now = malloc(sizeof *now);
    double *gradient = malloc(count * sizeof *gradient), *movement = calloc(count, sizeof *movement), reach = 0;
    moments *m = calloc(count, sizeof *m);
    *now = *start;
    memset(gradient, 0, count * sizeof *gradient);
    add_gradient(start, x[0], 1, gradient);
    for (size_t k = 0; k < count; k++) reach += fabs(gradient[k]);
    for (int step = 1; step <= STEPS; step++) {
        memset(gradient, 0, count * sizeof *gradient);
        for (size_t r = 0; r < EXAMPLES; r++) {
            double f = tangent ? tangent_output(start, movement, x[r]) : output(now, x[r]);
            add_gradient(tangent ? start : now, x[r], (f - y[r]) / EXAMPLES, gradient);
        }
        for (size_t k = 0; k < count; k++) {
            double d = moved(&m[k], gradient[k], step, 0.1 / reach);
            movement[k] -= d;
            *(k < start->m * DIM ? &now->w[k] : &now->a[k - start->m * DIM]) -= d;
        }
    }
    for (size_t r = 0; r < ALL; r++) out[r] = tangent ? tangent_output(start, movement, x[r]) : output(now, x[r]);
    free(now), free(gradient), free(movement), free(m);
}

/* The wider the network, the less its gradients change: f approaches the function that Adam fits to the gradients at
 * the start. The difference is of order 1/√m; from 64 to 4096 units it decreases by a factor of 8 on average, and at
 * least 3 is required. Functions that Adam and gradient descent reach differ by much more. */
static void test_wide_networks_approach_the_limit(void **state)
{
    (void)state;
    static double x[ALL][DIM], y[EXAMPLES], net[ALL], linear[ALL];
    units *start = malloc(sizeof *start);
    double difference[2], size = 0;
    bo_rng rng = bo_rng_make(5, bo_rng_stream("test.units", 0));
    for (size_t r = 0; r < ALL; r++) {
        for (size_t i = 0; i + 1 < DIM; i++) x[r][i] = bo_rng_normal(&rng);
        x[r][DIM - 1] = 1;
        if (r < EXAMPLES) y[r] = sin(2 * x[r][0]) + 0.5 * x[r][1];
    }
    for (size_t k = 0; k < 2; k++) {
        start->m = k ? WIDEST : 64;
        for (size_t j = 0; j < start->m; j += 2) {
            start->a[j] = 1, start->a[j + 1] = -1;
            for (size_t i = 0; i < DIM; i++) start->w[j * DIM + i] = start->w[(j + 1) * DIM + i] = bo_rng_normal(&rng);
        }
        train_units(start, false, x, y, net);
        train_units(start, true, x, y, linear);
        difference[k] = size = 0;
        for (size_t r = EXAMPLES; r < ALL; r++) {
            difference[k] += pow(net[r] - linear[r], 2) / QUERIES;
            size += pow(linear[r], 2) / QUERIES;
        }
        difference[k] = sqrt(difference[k] / size);
    }
    if (!(difference[1] < 0.05 && difference[1] < difference[0] / 3))
        fail_msg("relative difference %g with 64 units, %g with %d", difference[0], difference[1], (int)WIDEST);
    free(start);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_adam_learns),
        cmocka_unit_test(test_threads_do_not_matter),
        cmocka_unit_test(test_overflow_is_refused),
        cmocka_unit_test(test_wide_networks_approach_the_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
