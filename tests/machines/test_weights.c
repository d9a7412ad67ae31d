/* Weights with automatic choices: their unit does not matter, and rows of weight 0 are equivalent to absent rows. */
#include "machines/leave_one_out.h"
#include "oracle.h"

enum { DIM = 2, NEW = 100, FEATURES = 128 };

static void fit_weighted(bo_context *context, const bo_samples *train, const bo_samples *fresh, double *mean,
                         double *std)
{
    bo_machine_desc desc = {.features = {.features = FEATURES}, .precision = BO_GRAM_PRECISION_FLOAT64, .seed = 1};
    bo_machine *machine = oracle_fit(context, &desc, train);
    assert_ok(context, bo_machine_predict(context, machine, &(bo_inputs){.rows = NEW, .x = fresh->x},
                                          &(bo_prediction){.mean = mean, .std = std}));
    bo_machine_destroy(machine);
}

/* λ is found on a grid of absolute numbers, so another unit leads to a neighboring λ: predictions agree to a fraction
 * of the noise, and standard deviations to a few percent. */
static void test_unit_does_not_matter(void **state)
{
    (void)state;
    bo_context *context = test_context(2);
    static const size_t rows[] = {100, 600, 2500}; /* dual, primal by leave-one-out, primal by GCV */
    for (size_t r = 0; r < 3; r++) {
        bo_samples train = oracle_regression(rows[r], DIM, 1, 0.3, 3), fresh = oracle_regression(NEW, DIM, 1, 0, 4);
        double mean[3][NEW], std[3][NEW];
        const double units[] = {1, 100, 1 / (double)rows[r]};
        float *weights = malloc(rows[r] * sizeof *weights);
        for (size_t u = 0; u < 3; u++) {
            for (size_t i = 0; i < rows[r]; i++) weights[i] = (float)units[u];
            train.weights = weights;
            fit_weighted(context, &train, &fresh, mean[u], std[u]);
        }
        for (size_t u = 1; u < 3; u++) {
            double ratio = 0;
            for (size_t i = 0; i < NEW; i++) ratio += std[u][i] / std[0][i] / NEW;
            assert_close(ratio, 1, 0.1);
            assert_true(oracle_rmse(NEW, mean[u], mean[0]) < 0.3 * 0.3);
        }
        train.weights = NULL;
        free(weights);
        oracle_drop(&train), oracle_drop(&fresh);
    }
    bo_context_destroy(context);
}

/* A third of the rows is invalid and has weight 0. */
static void test_weight_zero_is_absent(void **state)
{
    (void)state;
    bo_context *context = test_context(2);
    static const size_t rows[] = {300, 3000};
    for (size_t r = 0; r < 2; r++) {
        bo_samples all = oracle_regression(rows[r], DIM, 1, 0.1, 5), fresh = oracle_regression(NEW, DIM, 1, 0, 6);
        float *weights = malloc(rows[r] * sizeof *weights);
        double *y = (double *)all.y, clean[NEW], masked[NEW], std[NEW];
        size_t good = rows[r] / 3 * 2;
        bo_samples some = all;
        some.rows = good;
        fit_weighted(context, &some, &fresh, clean, std);
        for (size_t i = 0; i < rows[r]; i++) {
            weights[i] = i < good;
            if (i >= good) y[i] = i % 2 ? 50 : -50;
        }
        all.weights = weights;
        fit_weighted(context, &all, &fresh, masked, std);
        double truth = oracle_rmse(NEW, clean, fresh.y);
        assert_true(oracle_rmse(NEW, masked, fresh.y) < 1.5 * truth + 0.02);
        all.weights = NULL;
        free(weights);
        oracle_drop(&all), oracle_drop(&fresh);
    }
    bo_context_destroy(context);
}

/* Leave-one-out errors of weighted rows in the search compared with refits without each row. */
static void test_left_out_rows(void **state)
{
    (void)state;
    enum { ROWS = 40, FEW = 16 };
    const double lambda = 0.3;
    bo_context *context = test_context(2);
    bo_samples train = oracle_regression(ROWS, DIM, 1, 0.3, 7);
    float weights[ROWS];
    double w[ROWS], y[ROWS], honest = 0, total = 0, error;
    for (size_t i = 0; i < ROWS; i++) total += w[i] = weights[i] = 0.5f + (float)(i % 4);
    train.weights = weights;
    bo_machine_desc desc = {.seed = 1};
    bo_features_desc map = {.dim = DIM, .features = FEW, .gamma = 0.4, .seed = 3};
    bo_targets targets;
    bo_loo loo;
    bo_features *phi;
    float z[ROWS * FEW];
    double wide[ROWS * FEW], *penalty = oracle_constant(FEW, lambda);
    assert_ok(context, bo_targets_fit(context, &desc, &train, &targets));
    assert_ok(context, bo_loo_create(context, &train, &targets, true, &loo));
    assert_ok(context, bo_loo_kernel(context, &loo, &map, map.gamma, false, &train));
    assert_ok(context, bo_loo_point(context, &loo, lambda, &error));
    assert_ok(context, bo_features_create(context, &map, &phi));
    assert_ok(context,
              bo_features_apply(context, phi, &(bo_inputs){.rows = ROWS, .x = train.x, .stride = DIM}, z, FEW));
    for (size_t k = 0; k < ROWS * FEW; k++) wide[k] = (double)z[k];
    for (size_t i = 0; i < ROWS; i++) y[i] = (double)bo_targets_value(&targets, train.y + i, 0);
    for (size_t i = 0; i < ROWS; i++) {
        double kept = w[i];
        w[i] = 0;
        double *beta = oracle_ridge(ROWS, FEW, 1, wide, y, w, penalty, true);
        honest += kept * pow(y[i] - oracle_predict(FEW, 1, wide + i * FEW, beta, 0), 2) / total;
        w[i] = kept;
        free(beta);
    }
    assert_close(error / honest, 1, 1e-6);
    free(penalty);
    bo_features_destroy(phi);
    bo_loo_free(&loo);
    bo_targets_free(&targets);
    train.weights = NULL;
    oracle_drop(&train);
    bo_context_destroy(context);
}

static void test_logistic_without_intercept(void **state)
{
    (void)state;
    bo_context *context = test_context(2);
    bo_samples train = oracle_classes(200, DIM, 3, 2, 1);
    bo_machine_desc desc = {.loss = BO_LOSS_LOGISTIC, .features = {.features = 32}, .no_intercept = true, .seed = 1};
    bo_machine *machine = oracle_fit(context, &desc, &train);
    for (size_t c = 0; c < 3; c++) assert_true(machine->intercept[c] == 0 && machine->offset[c] == 0);
    bo_machine_destroy(machine);
    oracle_drop(&train);
    bo_context_destroy(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_unit_does_not_matter),
        cmocka_unit_test(test_weight_zero_is_absent),
        cmocka_unit_test(test_left_out_rows),
        cmocka_unit_test(test_logistic_without_intercept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
