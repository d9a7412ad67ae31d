/* Leave-one-out without refitting compared with refitting without each row; GCV compared with its definition. */
#include "machines/fitting.h"
#include "machines/leave_one_out.h"
#include "machines/ridge.h"
#include "oracle.h"

enum { ROWS = 60, DIM = 2, FEATURES = 24 };

static double square(double x)
{
    return x * x;
}

/* ---- exact kernel on a sample ------------------------------------------------------------------------------------ */

/* Kernel ridge with an unpenalized intercept on all rows except `gone`: [K + λ, 1; 1ᵀ, 0] [α; b] = [y; 0]. Squared
 * errors of the prediction for `gone`, summed over outputs. */
static double refit_kernel(size_t n, size_t outputs, const double *k, const double *y, double lambda, bool intercept,
                           size_t gone)
{
    size_t size = n - 1 + (intercept ? 1 : 0);
    double *a = calloc(size * size, sizeof *a), *b = calloc(size * outputs, sizeof *b), error = 0;
    for (size_t i = 0; i + 1 < n; i++) {
        size_t row = i + (i >= gone);
        for (size_t j = 0; j + 1 < n; j++) a[i * size + j] = k[row * n + j + (j >= gone)] + (i == j ? lambda : 0);
        if (intercept) a[i * size + n - 1] = a[(n - 1) * size + i] = 1;
        for (size_t t = 0; t < outputs; t++) b[i * outputs + t] = y[row * outputs + t];
    }
    oracle_solve(size, outputs, a, b);
    for (size_t t = 0; t < outputs; t++) {
        double f = intercept ? b[(n - 1) * outputs + t] : 0;
        for (size_t j = 0; j + 1 < n; j++) f += k[gone * n + j + (j >= gone)] * b[j * outputs + t];
        error += square(f - y[gone * outputs + t]);
    }
    free(a);
    free(b);
    return error;
}

static void test_exact_kernel(void **state)
{
    (void)state;
    bo_context *context = test_context(2);
    enum { LAMBDAS = 4, TARGETS = 2 };
    static const double lambdas[LAMBDAS] = {1e-4, 1e-2, 1, 30};
    bo_samples samples = oracle_regression(ROWS, DIM, TARGETS, 0.2, 1);
    bo_machine_desc desc = {0};
    bo_targets targets;
    assert_ok(context, bo_targets_fit(context, &desc, &samples, &targets));
    double *k = malloc(ROWS * ROWS * sizeof *k), *y = malloc(ROWS * TARGETS * sizeof *y);
    const double gamma = 0.4;
    for (size_t i = 0; i < ROWS; i++) {
        for (size_t j = 0; j < ROWS; j++) {
            double distance = 0;
            for (size_t d = 0; d < DIM; d++)
                distance += square((double)samples.x[i * DIM + d] - (double)samples.x[j * DIM + d]);
            k[i * ROWS + j] = exp(-gamma * distance);
        }
        for (size_t t = 0; t < TARGETS; t++)
            y[i * TARGETS + t] = (double)bo_targets_value(&targets, samples.y + i * TARGETS, t);
    }
    bo_features_desc map = {.kernel = BO_KERNEL_RBF, .dim = DIM, .features = FEATURES};
    for (int intercept = 0; intercept < 2; intercept++) {
        bo_loo loo;
        double grid[LAMBDAS], largest;
        assert_ok(context, bo_loo_create(context, &samples, &targets, intercept, &loo));
        assert_ok(context, bo_loo_kernel(context, &loo, &map, gamma, true, &samples));
        for (size_t l = 0; l < LAMBDAS; l++) {
            double honest = 0, point;
            for (size_t i = 0; i < ROWS; i++) honest += refit_kernel(ROWS, TARGETS, k, y, lambdas[l], intercept, i);
            honest /= ROWS * TARGETS;
            assert_ok(context, bo_loo_point(context, &loo, lambdas[l], &point));
            /* both solve systems with condition number n/λ in double: 60 / 1e-4 * 2⁻⁵² * n */
            double tolerance = honest * (1e-12 + ROWS / lambdas[l] * 0x1p-52 * 100 * ROWS);
            assert_close(point, honest, tolerance);
            assert_ok(context, bo_loo_kernel(context, &loo, &map, gamma, true, &samples));
            assert_ok(context, bo_loo_grid(context, &loo, lambdas, LAMBDAS, grid, &largest));
            assert_close(grid[l], honest, tolerance);
            assert_ok(context, bo_loo_kernel(context, &loo, &map, gamma, true, &samples));
        }
        /* the largest eigenvalue is between the mean and the trace of a positive definite matrix */
        assert_true(largest > 1 && largest < ROWS);
        bo_loo_free(&loo);
    }
    free(k), free(y);
    bo_targets_free(&targets);
    oracle_drop(&samples);
    bo_context_destroy(context);
}

/* The kernel of the features, ZZᵀ, centered explicitly. */
static void test_kernel_of_features(void **state)
{
    (void)state;
    bo_context *context = test_context(2);
    bo_samples samples = oracle_regression(ROWS, DIM, 1, 0.2, 1);
    bo_machine_desc desc = {0};
    bo_features_desc map = {.dim = DIM, .features = FEATURES, .seed = 3}, fitted_map = map;
    fitted_map.gamma = 0.4;
    bo_targets targets;
    bo_loo loo;
    bo_features *phi;
    float *z = malloc(ROWS * FEATURES * sizeof *z);
    assert_ok(context, bo_features_create(context, &fitted_map, &phi));
    assert_ok(context,
              bo_features_apply(context, phi, &(bo_inputs){.rows = ROWS, .x = samples.x, .stride = DIM}, z, FEATURES));
    assert_ok(context, bo_targets_fit(context, &desc, &samples, &targets));
    assert_ok(context, bo_loo_create(context, &samples, &targets, true, &loo));
    assert_ok(context, bo_loo_kernel(context, &loo, &map, 0.4, false, &samples));
    double mean[FEATURES] = {0};
    for (size_t i = 0; i < ROWS * FEATURES; i++) mean[i % FEATURES] += (double)z[i] / ROWS;
    for (size_t i = 0; i < ROWS; i++)
        for (size_t j = 0; j < ROWS; j++) {
            double k = 0;
            for (size_t f = 0; f < FEATURES; f++)
                k += ((double)z[i * FEATURES + f] - mean[f]) * ((double)z[j * FEATURES + f] - mean[f]);
            assert_close(loo.kernel[i * ROWS + j], k, 1e-12);
        }
    free(z);
    bo_features_destroy(phi);
    bo_loo_free(&loo);
    bo_targets_free(&targets);
    oracle_drop(&samples);
    bo_context_destroy(context);
}

/* A row that is interpolated has no residual information: the score is bad, but the call does not fail. */
static void test_interpolation_scores_badly(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    bo_samples samples = oracle_regression(ROWS, 1, 1, 0.5, 1);
    bo_machine_desc desc = {0};
    bo_targets targets;
    bo_loo loo;
    double error[2], largest, tiny = 1e-300;
    assert_ok(context, bo_targets_fit(context, &desc, &samples, &targets));
    assert_ok(context, bo_loo_create(context, &samples, &targets, true, &loo));
    bo_features_desc map = {.kernel = BO_KERNEL_RBF, .dim = 1, .features = FEATURES};
    assert_ok(context,
              bo_loo_kernel(context, &loo, &map, 1e-4, true, &samples)); /* nearly constant, so singular in double */
    assert_ok(context, bo_loo_point(context, &loo, tiny, error));
    assert_ok(context, bo_loo_grid(context, &loo, &tiny, 1, error + 1, &largest));
    assert_false(error[0] < 1e-3 || isnan(error[0]));
    assert_false(error[1] < 1e-3 || isnan(error[1]));
    bo_loo_free(&loo);
    bo_targets_free(&targets);
    oracle_drop(&samples);
    bo_context_destroy(context);
}

/* ---- the kernel machine ------------------------------------------------------------------------------------------ */

typedef struct setting {
    bool intercept, weighted, classes, corrupted;
} setting;

static const setting settings[] = {
    {true, false, false, false}, {false, false, false, false}, {true, true, false, false},
    {false, true, false, true},  {true, false, true, false},   {true, true, true, true},
};

static bo_samples samples_of(const setting *s)
{
    bo_samples samples = s->classes ? oracle_classes(ROWS, DIM, 3, 2, 2) : oracle_regression(ROWS, DIM, 2, 0.2, 2);
    if (s->weighted) samples.weights = oracle_weights(ROWS, 3);
    return samples;
}

static bo_machine_desc desc_of(const setting *s)
{
    bo_machine_desc desc = oracle_desc(FEATURES, 0.4, 0.3);
    desc.no_intercept = !s->intercept;
    if (s->corrupted) desc.noise = 0.05, desc.dropout = 0.1;
    return desc;
}

/* The prediction of a fit without row `gone` for this row, from features z and targets y in the units of the system. */
static void refit(size_t features, size_t outputs, const double *z, const double *y, const double *w,
                  const double *penalty, bool intercept, size_t gone, double *out)
{
    double *less = malloc(ROWS * sizeof *less);
    memcpy(less, w, ROWS * sizeof *less);
    less[gone] = 0;
    double *beta = oracle_ridge(ROWS, features, outputs, z, y, less, penalty, intercept);
    for (size_t t = 0; t < outputs; t++) out[t] = oracle_predict(features, outputs, z + gone * features, beta, t);
    free(less);
    free(beta);
}

/* Features, encoded targets and weights of the rows of a fitting, in double. */
static void system_of(bo_context *context, const bo_fitting *fitting, const bo_samples *samples, double *z, double *y,
                      double *w)
{
    float *narrow = malloc(ROWS * FEATURES * sizeof *narrow);
    assert_ok(context, bo_features_apply(context, fitting->phi,
                                         &(bo_inputs){.rows = ROWS, .x = samples->x, .stride = DIM}, narrow, FEATURES));
    for (size_t i = 0; i < ROWS * FEATURES; i++) z[i] = oracle_round((double)narrow[i], (double)fitting->quantum);
    free(narrow);
    size_t outputs = fitting->targets.outputs;
    for (size_t i = 0; i < ROWS; i++) {
        w[i] = samples->weights ? (double)samples->weights[i] : 1;
        for (size_t t = 0; t < outputs; t++)
            y[i * outputs + t] = (double)bo_targets_value(&fitting->targets, samples->y + i * samples->targets, t);
    }
}

static void test_ridge_left_out(void **state)
{
    (void)state;
    bo_context *context = test_context(2);
    for (size_t k = 0; k < sizeof settings / sizeof *settings; k++) {
        const setting *s = &settings[k];
        bo_samples samples = samples_of(s);
        bo_machine_desc desc = desc_of(s);
        bo_fitting *fitting;
        assert_ok(context, bo_fitting_create(context, &desc, &samples, &fitting));
        assert_ok(context, bo_fitting_add(context, fitting, &samples));
        bo_penalty penalty = {desc.lambda, desc.noise, desc.dropout};
        bo_machine_ridge ridge;
        bo_left_out left_out;
        bo_row_map row_map = bo_fitting_row_map(fitting);
        assert_ok(context, bo_ridge_solve(context, &fitting->moments, &penalty, s->intercept, 1, &ridge));
        assert_ok(context,
                  bo_ridge_left_out(context, &ridge, &row_map, &fitting->targets, &samples, s->intercept, &left_out));
        size_t outputs = fitting->targets.outputs;
        double z[ROWS * FEATURES], y[ROWS * 3], w[ROWS], d[FEATURES], squares[FEATURES] = {0}, weight = 0, honest[3];
        system_of(context, fitting, &samples, z, y, w);
        for (size_t i = 0; i < ROWS * FEATURES; i++) squares[i % FEATURES] += w[i / FEATURES] * z[i] * z[i];
        for (size_t i = 0; i < ROWS; i++) weight += w[i];
        for (size_t j = 0; j < FEATURES; j++)
            d[j] = desc.lambda + weight * square(desc.noise) + desc.dropout / (1 - desc.dropout) * squares[j];
        double tolerance = 20 * oracle_tolerance(ROWS, FEATURES, outputs, z, ridge.beta, desc.lambda, 1, false);
        for (size_t i = 0; i < ROWS; i++) {
            refit(FEATURES, outputs, z, y, w, d, s->intercept, i, honest);
            for (size_t t = 0; t < outputs; t++) {
                assert_close(left_out.prediction[i * outputs + t], honest[t], tolerance);
                assert_true(left_out.truth[i * outputs + t] == y[i * outputs + t]);
            }
            assert_true(left_out.leverage[i] >= 0 && left_out.leverage[i] < 1);
            if (s->classes) assert_int_equal(left_out.label[i], (int)samples.y[i]);
        }
        bo_left_out_free(&left_out);
        bo_ridge_free(&ridge);
        bo_fitting_destroy(fitting);
        oracle_drop(&samples);
    }
    bo_context_destroy(context);
}

/* The noise level of a machine, primal and dual: s² is the mean of e² (1 - h), where e is the leave-one-out error; the
 * residual is r = e (1 - h), so this is the mean of e r, both computed by refitting. */
static void test_noise_level(void **state)
{
    (void)state;
    bo_context *context = test_context(2);
    static const bo_solver solvers[] = {BO_SOLVER_PRIMAL, BO_SOLVER_DUAL};
    for (size_t v = 0; v < 4; v++) {
        setting s = {.intercept = !(v & 1), .corrupted = v & 2};
        bo_samples samples = samples_of(&s);
        double noise[2][2];
        for (size_t k = 0; k < 2; k++) {
            bo_machine_desc desc = desc_of(&s);
            desc.solver = solvers[k];
            desc.precision = BO_GRAM_PRECISION_FLOAT32; /* so that both use the same features */
            bo_machine *machine = oracle_fit(context, &desc, &samples);
            double *z = oracle_features(context, machine, ROWS, samples.x), d[FEATURES], w[ROWS], y[ROWS * 2],
                   honest[2];
            double *fitted = oracle_mean(context, machine, ROWS, samples.x), sum[2] = {0};
            for (size_t j = 0; j < FEATURES; j++) d[j] = desc.lambda + ROWS * square(desc.noise);
            for (size_t i = 0; i < ROWS * FEATURES; i++)
                d[i % FEATURES] += desc.dropout / (1 - desc.dropout) * square(z[i]);
            /* without an intercept, the constant added to β·φ in predictions is not part of the fit */
            double base[2] = {s.intercept ? 0 : machine->intercept[0], s.intercept ? 0 : machine->intercept[1]};
            for (size_t i = 0; i < ROWS * 2; i++) y[i] = samples.y[i] - base[i % 2];
            for (size_t i = 0; i < ROWS; i++) w[i] = 1;
            for (size_t i = 0; i < ROWS; i++) {
                refit(FEATURES, 2, z, y, w, d, s.intercept, i, honest);
                for (size_t t = 0; t < 2; t++)
                    sum[t] += (y[i * 2 + t] - honest[t]) * (samples.y[i * 2 + t] - fitted[i * 2 + t]) / ROWS;
            }
            for (size_t t = 0; t < 2; t++) {
                noise[k][t] = pow(machine->noise[t], 2);
                assert_close(pow(machine->noise[t], 2) / sum[t], 1, 1e-4);
            }
            assert_close(machine->report.noise_std, machine->noise[0], 1e-12);
            free(z), free(fitted);
            bo_machine_destroy(machine);
        }
        for (size_t t = 0; t < 2; t++) assert_close(noise[0][t] / noise[1][t], 1, 1e-4);
        oracle_drop(&samples);
    }
    bo_context_destroy(context);
}

/* ---- generalized cross-validation -------------------------------------------------------------------------------- */

/* GCV = Σ_t RSS_t / n / (1 - tr S / n)². RSS is exact; the trace is Hutchinson's estimate with 32 sign vectors, whose
 * variance is 2/32 times the sum of squared off-diagonal elements of D^½ (A + D)⁻¹ D^½. */
static void test_gcv(void **state)
{
    (void)state;
    bo_context *context = test_context(2);
    for (size_t k = 0; k < sizeof settings / sizeof *settings; k++) {
        const setting *s = &settings[k];
        bo_samples samples = samples_of(s);
        bo_machine_desc desc = desc_of(s);
        bo_fitting *fitting;
        bo_machine_ridge ridge;
        assert_ok(context, bo_fitting_create(context, &desc, &samples, &fitting));
        assert_ok(context, bo_fitting_add(context, fitting, &samples));
        bo_penalty penalty = {desc.lambda, desc.noise, desc.dropout};
        assert_ok(context, bo_ridge_solve(context, &fitting->moments, &penalty, s->intercept, 1, &ridge));
        size_t outputs = fitting->targets.outputs;
        double z[ROWS * FEATURES], y[ROWS * 3], w[ROWS], d[FEATURES], center[FEATURES] = {0}, weight = 0;
        system_of(context, fitting, &samples, z, y, w);
        for (size_t i = 0; i < ROWS; i++) weight += w[i];
        for (size_t j = 0; j < FEATURES; j++) d[j] = desc.lambda + weight * square(desc.noise);
        for (size_t i = 0; i < ROWS * FEATURES; i++) {
            d[i % FEATURES] += desc.dropout / (1 - desc.dropout) * w[i / FEATURES] * square(z[i]);
            if (s->intercept) center[i % FEATURES] += w[i / FEATURES] * z[i] / weight;
        }
        double *beta = oracle_ridge(ROWS, FEATURES, outputs, z, y, w, d, s->intercept), rss[3] = {0},
               a[FEATURES * FEATURES] = {0};
        for (size_t i = 0; i < ROWS; i++) {
            for (size_t t = 0; t < outputs; t++)
                rss[t] +=
                    w[i] * square(y[i * outputs + t] - oracle_predict(FEATURES, outputs, z + i * FEATURES, beta, t));
            for (size_t p = 0; p < FEATURES; p++)
                for (size_t q = 0; q < FEATURES; q++)
                    a[p * FEATURES + q] += w[i] * (z[i * FEATURES + p] - center[p]) * (z[i * FEATURES + q] - center[q]);
        }
        for (size_t j = 0; j < FEATURES; j++) a[j * FEATURES + j] += d[j];
        double *inverse = oracle_inverse(FEATURES, a), trace = 0, off = 0, score = 0;
        for (size_t p = 0; p < FEATURES; p++)
            for (size_t q = 0; q < FEATURES; q++) {
                double b = sqrt(d[p] * d[q]) * inverse[p * FEATURES + q];
                if (p == q)
                    trace += b;
                else
                    off += b * b;
            }
        double freedom = FEATURES - trace + (s->intercept ? 1 : 0);
        assert_close(ridge.freedom, freedom, 5 * sqrt(2 * off / 32) + 1e-3);
        double present = 0; /* GCV counts rows regardless of their weights */
        for (size_t i = 0; i < ROWS; i++) present += w[i] > 0;
        double left = 1 - ridge.freedom / present;
        for (size_t t = 0; t < outputs; t++) {
            assert_close(ridge.rss[t] / rss[t], 1, 1e-4);
            score += rss[t] / weight / (left * left);
        }
        assert_close(ridge.gcv / score, 1, 1e-4);
        /* The sum of a whole block rounds to the total; sums of tiny blocks keep the float32 rounding of √w √w. */
        assert_close(ridge.weight, weight, BO_SIZE(1e-9, 0x1p-24) * weight);
        free(beta), free(inverse);
        bo_ridge_free(&ridge);
        bo_fitting_destroy(fitting);
        oracle_drop(&samples);
    }
    bo_context_destroy(context);
}

/* The same sign vectors for every λ: the estimated degrees of freedom fall as λ grows, like the true ones. */
static void test_freedom_falls(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    setting s = {.intercept = true};
    bo_samples samples = samples_of(&s);
    bo_machine_desc desc = desc_of(&s);
    bo_fitting *fitting;
    assert_ok(context, bo_fitting_create(context, &desc, &samples, &fitting));
    assert_ok(context, bo_fitting_add(context, fitting, &samples));
    double before = FEATURES + 2;
    for (double lambda = 1e-3; lambda < 1e5; lambda *= 4) {
        bo_penalty penalty = {.lambda = lambda};
        bo_machine_ridge ridge;
        assert_ok(context, bo_ridge_solve(context, &fitting->moments, &penalty, true, 1, &ridge));
        assert_true(ridge.freedom < before && ridge.freedom > 1 - 1e-9);
        before = ridge.freedom;
        bo_ridge_free(&ridge);
    }
    assert_close(before, 1, 0.05);
    bo_fitting_destroy(fitting);
    oracle_drop(&samples);
    bo_context_destroy(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_exact_kernel),
        cmocka_unit_test(test_kernel_of_features),
        cmocka_unit_test(test_interpolation_scores_badly),
        cmocka_unit_test(test_ridge_left_out),
        cmocka_unit_test(test_noise_level),
        cmocka_unit_test(test_gcv),
        cmocka_unit_test(test_freedom_falls),
    };
    return cmocka_run_group_tests_name("machines.left_out", tests, NULL, NULL);
}
