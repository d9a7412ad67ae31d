/* The other solvers: conjugate gradients and gradient descent compared with the primal solution, the choice by memory,
 * and the logistic loss compared with a plain Newton method; probabilities compared with those that generated the
 * data. */
#include "machines/fitting.h"
#include "machines/enums.h"
#include "base/counting.h"
#include "machines/ridge.h"
#include "oracle.h"

enum { DIM = 3, FEATURES = 48, NEW_ROWS = 100 };

/* Largest difference of predictions on new rows, in standard deviations of the target. */
static double distance(bo_context *context, const bo_machine *a, const bo_machine *b, const bo_samples *train)
{
    bo_samples fresh = oracle_regression(NEW_ROWS, DIM, 1, 0, 9);
    double *p = oracle_mean(context, a, NEW_ROWS, fresh.x), *q = oracle_mean(context, b, NEW_ROWS, fresh.x), scale = 1;
    size_t outputs = a->report.outputs;
    for (size_t t = 0; !train->classes && t < outputs; t++)
        scale = fmax(scale, oracle_deviation(train->rows, outputs, train->y, t));
    double far = oracle_farthest(NEW_ROWS * outputs, p, q) / scale;
    free(p), free(q);
    oracle_drop(&fresh);
    return far;
}

/* ---- conjugate gradients ----------------------------------------------------------------------------------------- */

/* CG stops at a relative residual of 1e-5 in the unknown D^½ β, where the smallest eigenvalue of the system is 1: the
 * error of D^½ β is at most 1e-5 |D^-½ Zᵀy| <= 1e-5 √n |y| √(|G|/λ), and the error of f is at most this times |z|/√λ.
 */
static void test_cg_equals_primal(void **state)
{
    (void)state;
    bo_context *context = test_context(2);
    float *weights = oracle_weights(190, 2);
    for (int mode = 0; mode < 8; mode++) { /* below 200 rows no row is held out */
        bo_samples train = mode & 1 ? oracle_classes(190, DIM, 3, 2, 1) : oracle_regression(190, DIM, 2, 0.3, 1);
        if (mode & 2) train.weights = weights;
        bo_machine_desc desc = oracle_desc(FEATURES, 0.5, 1);
        desc.precision = BO_GRAM_PRECISION_FLOAT32; /* CG never rounds features */
        if (mode & 4) desc.dropout = 0.1, desc.no_intercept = true;
        bo_machine *primal = oracle_fit(context, &desc, &train);
        desc.solver = BO_SOLVER_CG;
        bo_machine *cg = oracle_fit(context, &desc, &train);
        assert_int_equal(cg->report.solver, BO_SOLVER_CG);
        assert_true(cg->report.residual <= 1e-5 && cg->report.iterations >= 1);
        assert_true(distance(context, primal, cg, &train) < 1e-5 * 190);
        bo_machine_destroy(primal), bo_machine_destroy(cg);
        train.weights = NULL;
        oracle_drop(&train);
    }
    free(weights);
    bo_context_destroy(context);
}

/* More rows than the sample of the preconditioner: still few iterations, while CG without it needs about √(|G|/λ). */
static void test_cg_is_preconditioned(void **state)
{
    (void)state;
    bo_context *context = test_context(2);
    bo_samples train = oracle_regression(3000, DIM, 1, 0.3, 1);
    bo_machine_desc desc = oracle_desc(FEATURES, 0.5, 0.01);
    bo_machine *primal = oracle_fit(context, &desc, &train);
    desc.solver = BO_SOLVER_CG;
    bo_machine *cg = oracle_fit(context, &desc, &train);
    double plain = sqrt(primal->report.spectrum / 0.01);
    assert_true(plain > 150 && cg->report.iterations < 30);
    assert_true(cg->report.residual <= 1e-5);
    /* a tenth of the rows is held out by a seeded permutation; primal on the other rows is the same machine */
    enum { HELD_OUT = 300, REST = 2700 };
    static size_t order[HELD_OUT + REST];
    static float x[REST * DIM];
    static double y[REST];
    bo_rng rng = bo_rng_make(desc.seed, bo_rng_stream("machines.held_out", 0));
    bo_rng_permutation(&rng, HELD_OUT + REST, order);
    for (size_t i = 0; i < REST; i++) {
        memcpy(x + i * DIM, train.x + order[HELD_OUT + i] * DIM, DIM * sizeof *x);
        y[i] = train.y[order[HELD_OUT + i]];
    }
    bo_samples rest = {.rows = REST, .dim = DIM, .targets = 1, .x = x, .y = y};
    desc.solver = BO_SOLVER_PRIMAL;
    bo_machine *same = oracle_fit(context, &desc, &rest);
    assert_true(distance(context, same, cg, &rest) < 1e-2);
    bo_machine_destroy(same);
    assert_close(cg->report.noise_std / primal->report.noise_std, 1, 5 / sqrt(2 * 300.0));
    bo_machine_destroy(primal), bo_machine_destroy(cg);
    oracle_drop(&train);
    bo_context_destroy(context);
}

/* ---- gradient descent -------------------------------------------------------------------------------------------- */

/* Twenty epochs with a step of b/(m + (b - 1)λ₁) contract a direction of eigenvalue e (of the mean ZᵀZ/n) by (1 - rate
 * e) per step. With λ = n/20 no direction is slower than rate/20, so the result is close to convergence. The numbers of
 * rows make the last batch of an epoch full, single or half. */
static void test_sgd_close_to_primal(void **state)
{
    (void)state;
    bo_context *context = test_context(2);
    static const size_t sizes[] = {190, 285, 428, 1000};
    for (size_t k = 0; k < 4; k++) {
        bo_samples train = oracle_regression(sizes[k], DIM, 1, 0.3, 1);
        bo_machine_desc desc = oracle_desc(FEATURES, 0.5, (double)sizes[k] / 20);
        bo_machine *primal = oracle_fit(context, &desc, &train);
        desc.solver = BO_SOLVER_SGD;
        bo_machine *sgd = oracle_fit(context, &desc, &train);
        assert_true(sgd->report.iterations > 0);
        double far = distance(context, primal, sgd, &train);
        if (!(far < 0.25)) fail_msg("%zu rows: descent ends %g deviations from the solution", sizes[k], far);
        bo_machine_destroy(primal), bo_machine_destroy(sgd);
        oracle_drop(&train);
    }
    bo_context_destroy(context);
}

/* The step must be stable for any penalty. */
static void test_sgd_with_a_large_lambda(void **state)
{
    (void)state;
    bo_context *context = test_context(2);
    bo_samples train = oracle_regression(500, DIM, 1, 0.3, 1);
    for (double lambda = 500; lambda < 1e7; lambda *= 10) {
        bo_machine_desc desc = oracle_desc(FEATURES, 0.5, lambda);
        bo_machine *primal = oracle_fit(context, &desc, &train);
        desc.solver = BO_SOLVER_SGD;
        bo_machine *sgd = oracle_fit(context, &desc, &train);
        assert_true(distance(context, primal, sgd, &train) < 0.25);
        bo_machine_destroy(primal), bo_machine_destroy(sgd);
    }
    oracle_drop(&train);
    bo_context_destroy(context);
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

static void test_choice_by_memory(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    bo_fit_cost larger, smaller;
    bo_machine_desc desc = {.features = {.features = 4096}};
    assert_ok(context,
              bo_machine_estimate(context, &desc, &(bo_fit_shape){.rows = 100000, .dim = 10, .outputs = 1}, &larger));
    assert_int_equal(larger.solver, BO_SOLVER_PRIMAL);
    assert_true(larger.bytes > (size_t)16 * 4096 * 4096);
    assert_ok(context,
              bo_machine_estimate(context, &desc, &(bo_fit_shape){.rows = 1000, .dim = 10, .outputs = 1}, &smaller));
    assert_int_equal(smaller.solver, BO_SOLVER_DUAL);
    assert_true(smaller.bytes < larger.bytes);
    desc.memory = (size_t)16 * 4096 * 4096;
    assert_ok(context,
              bo_machine_estimate(context, &desc, &(bo_fit_shape){.rows = 100000, .dim = 10, .outputs = 1}, &smaller));
    assert_int_equal(smaller.solver, BO_SOLVER_CG);
    assert_true(smaller.bytes < larger.bytes);
    desc.memory = 0, desc.features.features = 0; /* the default number */
    assert_ok(context,
              bo_machine_estimate(context, &desc, &(bo_fit_shape){.rows = 100000, .dim = 10, .outputs = 1}, &smaller));
    assert_true(smaller.bytes == larger.bytes && smaller.features == larger.features);
    desc.solver = BO_SOLVER_SGD;
    assert_ok(context,
              bo_machine_estimate(context, &desc, &(bo_fit_shape){.rows = 100000, .dim = 10, .outputs = 1}, &smaller));
    assert_int_equal(smaller.solver, BO_SOLVER_SGD);
    assert_true(smaller.bytes < larger.bytes);
    desc = (bo_machine_desc){.features = {.features = 3}};
    assert_fails(context, BO_INVALID, "features",
                 bo_machine_estimate(context, &desc, &(bo_fit_shape){.rows = 100, .dim = 10, .outputs = 1}, &smaller));

    bo_context_destroy(context);
}

/* Estimated losses and solvers equal the losses and solvers of the fit; stream_rows selects a stream. */
static void test_estimate(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    bo_fit_cost all, part;
    bo_machine_desc desc = {.task = BO_TASK_CLASSIFICATION, .features = {.features = 128}};
    bo_samples train = oracle_classes(600, DIM, 3, 2, 1);
    for (int noisy = 0; noisy < 2; noisy++) {
        desc.noise = noisy ? 0.1 : 0;
        bo_machine *machine = oracle_fit(context, &desc, &train);
        assert_ok(context,
                  bo_machine_estimate(context, &desc, &(bo_fit_shape){.rows = 600, .dim = DIM, .outputs = 3}, &all));
        assert_int_equal(all.loss, noisy ? BO_LOSS_RIDGE : BO_LOSS_LOGISTIC);
        assert_int_equal(all.loss, machine->report.loss);
        assert_int_equal(all.solver, machine->report.solver);
        assert_string_equal(all.why_solver, machine->report.why_solver);
        assert_int_equal(all.features, machine->report.features);
        assert_true(all.searches_gamma && all.searches_lambda);
        bo_machine_destroy(machine);
    }
    oracle_drop(&train);
    desc = (bo_machine_desc){.task = BO_TASK_REGRESSION, .features = {.gamma = 1}, .lambda = 1};
    assert_ok(context,
              bo_machine_estimate(context, &desc, &(bo_fit_shape){.rows = 1000, .dim = 10, .outputs = 1}, &all));
    assert_true(all.features == 4096 && !all.searches_gamma && !all.searches_lambda);
    desc.lambda = 0;
    assert_ok(context,
              bo_machine_estimate(context, &desc, &(bo_fit_shape){.rows = 1000, .dim = 10, .outputs = 1}, &part));
    assert_true(part.searches_lambda && part.seconds > all.seconds && part.operations > all.operations);
    desc.stream_rows = 1000000, desc.lambda = 1;
    assert_ok(context,
              bo_machine_estimate(context, &desc, &(bo_fit_shape){.rows = 1000, .dim = 10, .outputs = 1}, &part));
    assert_int_equal(part.solver, BO_SOLVER_PRIMAL);
    assert_non_null(strstr(part.why_solver, "stream"));
    /* n d R + n R² + R³/3 */
    assert_close(part.operations, 1e6 * 4096 * (10 + 4096.) + pow(4096, 3) / 3, 1e-9 * part.operations);
    desc = (bo_machine_desc){.features = {.kernel = BO_KERNEL_POLYNOMIAL}};
    assert_ok(context,
              bo_machine_estimate(context, &desc, &(bo_fit_shape){.rows = 1000, .dim = 10, .outputs = 1}, &all));
    assert_int_equal(all.features, 66); /* products of at most 2 of 10 columns and a constant: (12 over 2) */
    bo_context_destroy(context);
}

static void test_choice_is_done(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    bo_machine_desc desc;
    /* the fit does the same: the Gram matrix exceeds the limit */
    bo_samples train = oracle_regression(400, DIM, 1, 0.3, 1);
    desc = (bo_machine_desc){.features = {.features = 2048, .gamma = 0.5}, .lambda = 1};
    const bo_fit_shape shape = {.rows = 400, .dim = DIM, .outputs = 1};
    bo_fit_cost cost;
    desc.solver = BO_SOLVER_CG;
    assert_ok(context, bo_machine_estimate(context, &desc, &shape, &cost));
    desc.solver = BO_SOLVER_AUTO;
    desc.memory = cost.bytes;
    bo_machine *machine = oracle_fit(context, &desc, &train);
    assert_int_equal(machine->report.solver, BO_SOLVER_CG);
    assert_non_null(strstr(machine->report.why_solver, "does not fit into memory"));
    bo_machine_destroy(machine);
    desc.memory = 0, desc.features.features = 64;
    machine = oracle_fit(context, &desc, &train);
    assert_int_equal(machine->report.solver, BO_SOLVER_PRIMAL);
    bo_machine_destroy(machine);
    oracle_drop(&train);
    bo_context_destroy(context);
}

/* A fit or stream that does not fit into memory is refused before any work: before the rows are looked at. */
static void test_too_large(void **state)
{
    (void)state;
    counting c = {0};
    bo_context *context = counting_context(&c, 1);
    bo_machine *machine = NULL;
    bo_fitting *fitting = NULL;
    bo_samples train = oracle_regression(400, DIM, 1, 0.3, 1);
    bo_machine_desc desc = {.memory = 1024};
    const size_t calls = c.calls;
    assert_fails(context, BO_MEMORY, "but the limit is 1.0 kB (set by --memory",
                 bo_machine_fit(context, &desc, &train, &machine));
    assert_fails(context, BO_MEMORY, "400 rows of 3 columns", bo_fitting_create(context, &desc, &train, &fitting));
    desc = (bo_machine_desc){.features = {.features = (size_t)4e9}};
    assert_fails(context, BO_MEMORY, "fitting 4000000000 features to 400 rows of 3 columns needs",
                 bo_machine_fit(context, &desc, &train, &machine));
    assert_fails(context, BO_MEMORY, "three quarters of", bo_fitting_create(context, &desc, &train, &fitting));
    assert_true(c.calls == calls && !machine && !fitting);
    oracle_drop(&train);
    bo_context_destroy(context);
}

/* The estimate is an upper bound of the peak of live bytes during a fit, and not a loose one. */
static void test_memory_is_an_upper_bound(void **state)
{
    (void)state;
    enum { WIDE = 3000 };
    static const struct {
        size_t rows, dim, classes, features;
        bo_solver solver;
        double gamma, lambda;
        bo_draw draw;
        bo_kernel kernel;
    } cases[] = {
        {1500, DIM, 0, 256, BO_SOLVER_PRIMAL, 0.5, 1, 0, BO_KERNEL_NTK}, /* features */
        {900, DIM, 0, 1024, BO_SOLVER_AUTO, 0.5, 1, 0, BO_KERNEL_NTK},   /* exact */
        {900, DIM, 0, 1024, BO_SOLVER_AUTO, 0, 0, 0, BO_KERNEL_NNGP},
        {1500, DIM, 0, 256, BO_SOLVER_ADAM, 0.5, 1, 0, BO_KERNEL_NTK},
        {1500, DIM, 0, 128, BO_SOLVER_PRIMAL, 0.5, 1, 0, 0},
        {600, DIM, 0, 1024, BO_SOLVER_PRIMAL, 0.5, 1, 0, 0},
        {300, DIM, 0, 512, BO_SOLVER_DUAL, 0.5, 1, 0, 0},
        {1500, DIM, 0, 128, BO_SOLVER_CG, 0.5, 1, 0, 0},
        {1500, DIM, 0, 128, BO_SOLVER_SGD, 0.5, 1, 0, 0},
        {1200, DIM, 0, 64, BO_SOLVER_PRIMAL, 0, 0, 0, 0},
        {2500, DIM, 0, 512, BO_SOLVER_PRIMAL, 0, 0.1, 0, 0},
        {600, DIM, 3, 256, BO_SOLVER_AUTO, 0.5, 0.1, 0, 0},
        {2100, DIM, 5, 256, BO_SOLVER_AUTO, 0.5, 0.1, 0, 0},
        {20, WIDE, 0, 512, BO_SOLVER_AUTO, 0.01, 1, 0, 0},
        {600, WIDE, 0, 512, BO_SOLVER_AUTO, 0.01, 1, 0, 0},
        {600, WIDE, 0, 512, BO_SOLVER_AUTO, 0.01, 1, BO_DRAW_HADAMARD, 0},
        {100, DIM, 0, 32768, BO_SOLVER_DUAL, 0.5, 1, 0, 0},
        {300, DIM, 0, 4096, BO_SOLVER_CG, 0.5, 1, 0, 0},
        {600, WIDE, 0, 512, BO_SOLVER_SGD, 0.01, 1, 0, 0},
        {50, WIDE, 0, 256, BO_SOLVER_AUTO, 0, 0, 0, 0},
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        counting c = {0};
        bo_context *context = counting_context(&c, 2);
        bo_samples train = cases[k].classes ? oracle_classes(cases[k].rows, cases[k].dim, cases[k].classes, 2, 1)
                                            : oracle_regression(cases[k].rows, cases[k].dim, 1, 0.3, 1);
        bo_machine_desc desc = {.task = cases[k].classes ? BO_TASK_CLASSIFICATION : BO_TASK_REGRESSION,
                                .features = {.kernel = cases[k].kernel,
                                             .features = cases[k].features,
                                             .gamma = cases[k].gamma,
                                             .draw = cases[k].draw},
                                .lambda = cases[k].lambda,
                                .solver = cases[k].solver};
        bo_fit_cost estimate;
        const bo_fit_shape shape = {
            .rows = cases[k].rows, .dim = cases[k].dim, .outputs = cases[k].classes ? cases[k].classes : 1};
        assert_ok(context, bo_machine_estimate(context, &desc, &shape, &estimate));
        bo_machine *machine = oracle_fit(context, &desc, &train);
        const double rows = (double)cases[k].rows * (4 * (double)cases[k].dim + 8), peak = (double)c.peak + rows;
        if (peak > (double)estimate.bytes || (double)estimate.bytes > 2 * peak + 1.2e7)
            fail_msg("case %zu: %s: %.1f MB promised, %.1f MB taken", k, bo_solver_name(estimate.solver),
                     (double)estimate.bytes / 1e6, peak / 1e6);
        bo_machine_destroy(machine);
        oracle_drop(&train);
        bo_context_destroy(context);
        assert_true(c.live == 0);
    }
}

/* ---- logistic loss ----------------------------------------------------------------------------------------------- */

enum { L_ROWS = 300, L_FEATURES = 16, CLASSES = 3, UNKNOWNS = (L_FEATURES + 1) * CLASSES };

/* F = Σ w (log Σ exp s - s_y) + λ/2 |B|², s = Bᵀ(z - center) + b, theta = [B (features x classes); b]; the intercept is
 * not penalized. gradient and hessian may be NULL. */
static double logistic_loss(const bo_samples *train, const double *z, const double *w, double lambda,
                            const double *theta, double *gradient, double *hessian)
{
    double value = 0;
    if (gradient) memset(gradient, 0, UNKNOWNS * sizeof *gradient);
    if (hessian) memset(hessian, 0, UNKNOWNS * UNKNOWNS * sizeof *hessian);
    for (size_t i = 0; i < train->rows; i++) {
        double s[CLASSES], p[CLASSES], sum = 0, row[L_FEATURES + 1];
        for (size_t j = 0; j <= L_FEATURES; j++) row[j] = j < L_FEATURES ? z[i * L_FEATURES + j] : 1;
        for (size_t c = 0; c < CLASSES; c++) {
            s[c] = 0;
            for (size_t j = 0; j <= L_FEATURES; j++) s[c] += row[j] * theta[j * CLASSES + c];
            sum += exp(s[c]);
        }
        value += w[i] * (log(sum) - s[(size_t)train->y[i]]);
        for (size_t c = 0; c < CLASSES; c++) p[c] = exp(s[c]) / sum;
        for (size_t j = 0; gradient && j <= L_FEATURES; j++)
            for (size_t c = 0; c < CLASSES; c++) {
                gradient[j * CLASSES + c] += w[i] * row[j] * (p[c] - (train->y[i] == (double)c));
                for (size_t k = 0; hessian && k <= L_FEATURES; k++)
                    for (size_t d = 0; d < CLASSES; d++)
                        hessian[(j * CLASSES + c) * UNKNOWNS + k * CLASSES + d] +=
                            w[i] * row[j] * row[k] * (p[c] * (c == d) - p[c] * p[d]);
            }
    }
    for (size_t k = 0; k < L_FEATURES * CLASSES; k++) {
        value += 0.5 * lambda * theta[k] * theta[k];
        if (gradient) gradient[k] += lambda * theta[k];
        if (hessian) hessian[k * UNKNOWNS + k] += lambda;
    }
    return value;
}

static void test_logistic_is_the_minimum(void **state)
{
    (void)state;
    bo_context *context = test_context(2);
    static const double lambdas[] = {0.03, 1, 30};
    static double hessian[UNKNOWNS * UNKNOWNS];
    static const float class_weights[CLASSES] = {1, 2, 0.5f};
    for (size_t k = 0; k < 6; k++) {
        bo_samples train = oracle_classes(L_ROWS, DIM, CLASSES, 1.5, 3);
        if (k >= 3) train.weights = oracle_weights(L_ROWS, 4);
        bo_machine_desc desc = oracle_desc(L_FEATURES, 0.3, lambdas[k % 3]);
        desc.loss = BO_LOSS_LOGISTIC;
        if (k >= 3) desc.class_weights = class_weights;
        bo_machine *machine = oracle_fit(context, &desc, &train);
        assert_true(machine->report.lambda == lambdas[k % 3] && machine->report.loss == BO_LOSS_LOGISTIC);
        double *z = oracle_features(context, machine, L_ROWS, train.x), w[L_ROWS], theta[UNKNOWNS] = {0},
               gradient[UNKNOWNS];
        for (size_t i = 0; i < L_ROWS; i++)
            w[i] = (train.weights ? (double)train.weights[i] : 1) *
                   (k >= 3 ? (double)class_weights[(size_t)train.y[i]] : 1);
        double best = INFINITY;
        for (int step = 0; step < 60; step++) { /* Newton, with halved steps until the loss decreases */
            best = logistic_loss(&train, z, w, desc.lambda, theta, gradient, hessian);
            for (size_t c = 0; c < UNKNOWNS; c++)
                hessian[c * UNKNOWNS + c] += 1e-9; /* b may be shifted by a constant */
            double move[UNKNOWNS], trial[UNKNOWNS], rate = 1;
            memcpy(move, gradient, sizeof move);
            oracle_solve(UNKNOWNS, 1, hessian, move);
            for (int half = 0; half < 30; half++, rate /= 2) {
                for (size_t c = 0; c < UNKNOWNS; c++) trial[c] = theta[c] - rate * move[c];
                if (logistic_loss(&train, z, w, desc.lambda, trial, NULL, NULL) <= best) break;
            }
            memcpy(theta, trial, sizeof theta);
        }
        /* the solution of the machine, with the center included in its intercept */
        double parameters[UNKNOWNS];
        memcpy(parameters, machine->beta, L_FEATURES * CLASSES * sizeof *parameters);
        for (size_t c = 0; c < CLASSES; c++) {
            parameters[L_FEATURES * CLASSES + c] = machine->intercept[c];
            for (size_t j = 0; j < L_FEATURES; j++)
                parameters[L_FEATURES * CLASSES + c] -= machine->center[j] * machine->beta[j * CLASSES + c];
        }
        double value = logistic_loss(&train, z, w, desc.lambda, parameters, gradient, hessian);
        assert_true(value >= best * (1 - 1e-9));
        /* it stops when g·H⁻¹g < 1e-6 F, so it is half of that above the minimum; float32 sums add as much */
        assert_true(value <= best * (1 + 2e-6));
        /* the gradient in the norm of the Hessian shows the same without the minimum */
        double move[UNKNOWNS], decrement = 0;
        memcpy(move, gradient, sizeof move);
        for (size_t c = 0; c < UNKNOWNS; c++) hessian[c * UNKNOWNS + c] += 1e-9;
        oracle_solve(UNKNOWNS, 1, hessian, move);
        for (size_t c = 0; c < UNKNOWNS; c++) decrement += move[c] * gradient[c];
        assert_true(fabs(decrement) <= 4e-6 * best);
        free(z);
        bo_machine_destroy(machine);
        oracle_drop(&train);
    }
    bo_context_destroy(context);
}

static void test_logistic_refusals(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    bo_samples train = oracle_classes(100, DIM, 3, 2, 3), numbers = oracle_regression(100, DIM, 1, 0.1, 1);
    bo_machine *machine = (bo_machine *)context;
    bo_machine_desc desc = oracle_desc(L_FEATURES, 0.3, 1);
    desc.loss = BO_LOSS_LOGISTIC;
    assert_fails(context, BO_INVALID, "expected a target with classes",
                 bo_machine_fit(context, &desc, &numbers, &machine));
    assert_null(machine);
    for (int solver = BO_SOLVER_DUAL; solver <= BO_SOLVER_ADAM; solver++) {
        desc.solver = (bo_solver)solver;
        assert_fails(context, BO_UNSUPPORTED, bo_solver_name(desc.solver),
                     bo_machine_fit(context, &desc, &train, &machine));
    }
    desc.solver = BO_SOLVER_AUTO, desc.dropout = 0.2;
    assert_fails(context, BO_UNSUPPORTED, "dropout", bo_machine_fit(context, &desc, &train, &machine));
    assert_null(machine);
    oracle_drop(&train), oracle_drop(&numbers);
    bo_context_destroy(context);
}

/* ---- probabilities ----------------------------------------------------------------------------------------------- */

/* The probabilities that generated the classes of oracle_classes: priors (c + 1), densities exp(-|x - center|²/2). */
static void bayes(size_t dim, size_t classes, double apart, const float *x, double *p)
{
    double sum = 0;
    for (size_t c = 0; c < classes; c++) {
        double square = 0;
        for (size_t j = 0; j < dim; j++) {
            double d = (double)x[j] - (j == c && c + 1 < classes ? apart : 0);
            square += d * d;
        }
        sum += p[c] = (double)(c + 1) * exp(-square / 2);
    }
    for (size_t c = 0; c < classes; c++) p[c] /= sum;
}

static double log_loss(size_t rows, size_t classes, const double *p, const double *y)
{
    double sum = 0;
    for (size_t i = 0; i < rows; i++) sum -= log(p[i * classes + (size_t)y[i]]) / (double)rows;
    return sum;
}

/* Learning from n rows costs about (effective coefficients)/2n nats more than the Bayes classifier: 30 degrees of
 * freedom and 3 classes at 1000 rows give 0.03. Uncalibrated scores in a softmax cost several times that. */
static void test_probabilities(void **state)
{
    (void)state;
    bo_context *context = test_context(2);
    enum { TRAIN = 1000, FRESH = 3000 };
    for (int k = 0; k < 3; k++) {
        size_t classes = k & 1 ? 2 : 3;
        bo_samples train = oracle_classes(TRAIN, DIM, classes, 1.7, 5),
                   fresh = oracle_classes(FRESH, DIM, classes, 1.7, 6);
        bo_machine_desc desc = {
            .features = {.features = 64}, .loss = k & 2 ? BO_LOSS_LOGISTIC : BO_LOSS_RIDGE, .seed = 1};
        bo_machine *machine = oracle_fit(context, &desc, &train);
        double *p = malloc(FRESH * classes * sizeof *p), *best = malloc(FRESH * classes * sizeof *best);
        double *scores = oracle_mean(context, machine, FRESH, fresh.x);
        assert_ok(context, bo_machine_predict(context, machine, &(bo_inputs){.rows = FRESH, .x = fresh.x},
                                              &(bo_prediction){.probabilities = p}));
        for (size_t i = 0; i < FRESH; i++) {
            double sum = 0, raw = 0;
            for (size_t c = 0; c < classes; c++) {
                assert_true(p[i * classes + c] > 0 && p[i * classes + c] < 1);
                sum += p[i * classes + c];
                raw += scores[i * classes + c] = exp(scores[i * classes + c]);
            }
            for (size_t c = 0; c < classes; c++) scores[i * classes + c] /= raw;
            assert_close(sum, 1, 1e-12);
            bayes(DIM, classes, 1.7, fresh.x + i * DIM, best + i * classes);
        }
        double loss = log_loss(FRESH, classes, p, fresh.y), ideal = log_loss(FRESH, classes, best, fresh.y);
        double plain = log_loss(FRESH, classes, scores, fresh.y);
        if (!(loss < ideal + 0.04))
            fail_msg("%zu classes, %s: log loss %g, Bayes %g", classes, bo_loss_name(desc.loss), loss, ideal);
        if (!(k & 2)) assert_true(loss < plain);
        free(p), free(best), free(scores);
        bo_machine_destroy(machine);
        oracle_drop(&train), oracle_drop(&fresh);
    }
    bo_context_destroy(context);
}

/* Sharpness and offsets minimize the log loss of held-out rows (plus 2 |offset|², equivalent to 4 rows): no small step
 * in any of them improves it. */
static void test_calibration_is_a_minimum(void **state)
{
    (void)state;
    bo_context *context = test_context(2);
    enum { TRAIN = 300 };
    bo_samples train = oracle_classes(TRAIN, DIM, 3, 1.7, 5);
    bo_machine_desc desc = oracle_desc(32, 0.2, 0.5);
    bo_machine *machine = oracle_fit(context, &desc, &train);
    bo_fitting *fitting;
    assert_ok(context, bo_fitting_create(context, &desc, &train, &fitting));
    assert_ok(context, bo_fitting_add(context, fitting, &train));
    bo_penalty penalty = {.lambda = 0.5};
    bo_machine_ridge ridge;
    bo_left_out left_out;
    bo_row_map row_map = bo_fitting_row_map(fitting);
    assert_ok(context, bo_ridge_solve(context, &fitting->moments, &penalty, true, 1, &ridge));
    assert_ok(context, bo_ridge_left_out(context, &ridge, &row_map, &fitting->targets, &train, true, &left_out));
    double values[9], *p = malloc(TRAIN * 3 * sizeof *p);
    for (int k = 0; k < 9; k++) { /* 0: unchanged; then each of the four parameters, up and down */
        double sharpness = machine->sharpness, offset[3] = {machine->offset[0], machine->offset[1], machine->offset[2]};
        double step = k % 2 ? 0.03 : -0.03;
        if (k == 1 || k == 2) sharpness *= 1 + step;
        if (k > 2) offset[(k - 3) / 2] += step;
        for (size_t i = 0; i < TRAIN; i++) {
            double sum = 0;
            for (size_t c = 0; c < 3; c++)
                sum += p[i * 3 + c] = exp(sharpness * left_out.prediction[i * 3 + c] + offset[c]);
            for (size_t c = 0; c < 3; c++) p[i * 3 + c] /= sum;
        }
        values[k] = TRAIN * log_loss(TRAIN, 3, p, train.y);
        for (size_t c = 0; c < 3; c++) values[k] += 2 * offset[c] * offset[c];
    }
    for (int k = 1; k < 9; k++)
        if (!(values[k] >= values[0] * (1 - 1e-5))) fail_msg("step %d: %g is below %g", k, values[k], values[0]);
    free(p);
    bo_left_out_free(&left_out);
    bo_ridge_free(&ridge);
    bo_fitting_destroy(fitting);
    bo_machine_destroy(machine);
    oracle_drop(&train);
    bo_context_destroy(context);
}

/* ---- names ------------------------------------------------------------------------------------------------------- */

static void test_names(void **state)
{
    (void)state;
    for (int i = 0; i <= 4; i++) {
        bo_solver solver = BO_SOLVER_AUTO;
        assert_true(bo_solver_parse(bo_solver_name((bo_solver)i), &solver) && (int)solver == i);
    }
    for (int i = 0; i <= 2; i++) {
        bo_loss loss = BO_LOSS_RIDGE;
        assert_true(bo_loss_parse(bo_loss_name((bo_loss)i), &loss) && (int)loss == i);
    }
    for (int i = 0; i <= 3; i++) {
        bo_scaling scaling = BO_SCALING_AUTO;
        assert_true(bo_scaling_parse(bo_scaling_name((bo_scaling)i), &scaling) && (int)scaling == i);
    }
    bo_solver kept = BO_SOLVER_CG;
    assert_false(bo_solver_parse("cholesky", &kept));
    assert_int_equal(kept, BO_SOLVER_CG);
    assert_null(bo_solver_name((bo_solver)6));
    assert_null(bo_loss_name((bo_loss)3));
    assert_null(bo_scaling_name((bo_scaling)5));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cg_equals_primal),         cmocka_unit_test(test_cg_is_preconditioned),
        cmocka_unit_test(test_sgd_close_to_primal),      cmocka_unit_test(test_sgd_with_a_large_lambda),
        cmocka_unit_test(test_choice_by_memory),         cmocka_unit_test(test_estimate),
        cmocka_unit_test(test_choice_is_done),           cmocka_unit_test(test_too_large),
        cmocka_unit_test(test_memory_is_an_upper_bound), cmocka_unit_test(test_logistic_is_the_minimum),
        cmocka_unit_test(test_logistic_refusals),        cmocka_unit_test(test_probabilities),
        cmocka_unit_test(test_calibration_is_a_minimum), cmocka_unit_test(test_names),
    };
    return cmocka_run_group_tests_name("machines.solvers", tests, NULL, NULL);
}
