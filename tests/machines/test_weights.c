/* Weights with everything left to the machine: their unit does not matter, and rows of weight 0 might as well be absent. */
#include "oracle.h"

enum { DIM = 2, NEW = 100, FEATURES = 128 };

static void fit_weighted(bo_context *context, const bo_samples *train, const bo_samples *fresh, double *mean, double *std)
{
    bo_machine_desc desc = {.features = {.features = FEATURES}, .precision = BO_PRECISION_FLOAT64, .seed = 1};
    bo_machine *machine = oracle_fit(context, &desc, train);
    assert_ok(context, bo_machine_predict(context, machine, NEW, fresh->x, DIM, mean, std));
    bo_machine_destroy(machine);
}

/* λ is found on a grid of absolute numbers, so that another unit leads to a neighbouring λ: predictions agree to a fraction of
 * the noise, and standard deviations to a few per cent. */
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

/* A third of the rows is nonsense, and weighs nothing. */
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_unit_does_not_matter),
        cmocka_unit_test(test_weight_zero_is_absent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
