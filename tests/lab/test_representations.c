/* Representations of exp(x·y): with standard and with optimal sampling their mean is the kernel. With optimal sampling
 * all features have the same energy, and R features have the error ((E K(x,x))² - E K²) / R. */
#include "testing.h"
#include "lab/features/representations.h"

enum { ROWS = 12, DIM = 3, FEATURES = 64, DRAWS = 400 };

typedef struct setting {
    bo_context *context;
    lab_rows rows;
    double kernel[ROWS * ROWS], optimum;
} setting;

static setting open_setting(void)
{
    setting s = {.context = test_context(1)};
    bo_rng rng = bo_rng_make(5, 0);
    const bo_features_desc kernel = {.kernel = BO_KERNEL_SOFTMAX, .dim = DIM};
    assert_ok(s.context, lab_rows_create(s.context, &rng, ROWS, DIM, 0.5, 1, &s.rows));
    assert_ok(s.context,
              bo_kernel_matrix(s.context, &kernel, ROWS, s.rows.x, DIM, ROWS, s.rows.x, DIM, s.kernel, ROWS));
    s.optimum = pow(lab_rows_diagonal(&s.rows), 2);
    for (size_t i = 0; i < ROWS * ROWS; i++) s.optimum -= s.kernel[i] * s.kernel[i] / (ROWS * ROWS);
    for (size_t i = 0; i < ROWS; i++) assert_close(s.rows.diagonal[i], s.kernel[i * ROWS + i], 1e-5);
    return s;
}

static void close_setting(setting *s)
{
    lab_rows_free(&s->rows);
    bo_context_destroy(s->context);
}

/* bias: |mean over draws - K| over all pairs; error: mean squared error of a draw. */
static void draw_many(const setting *s, lab_representation r, bool optimal, double *bias, double *error)
{
    float z[ROWS * FEATURES], estimate[ROWS * ROWS];
    double mean[ROWS * ROWS] = {0};
    *bias = *error = 0;
    for (size_t d = 0; d < DRAWS; d++) {
        assert_ok(s->context, lab_draw_features(s->context, r, optimal, &s->rows, FEATURES, d, z));
        assert_ok(s->context, lab_products(s->context, ROWS, FEATURES, z, estimate));
        *error += lab_squared_error(ROWS * ROWS, estimate, s->kernel) / DRAWS;
        for (size_t i = 0; i < ROWS * ROWS; i++) mean[i] += (double)estimate[i] / DRAWS;
    }
    for (size_t i = 0; i < ROWS * ROWS; i++) *bias += pow(mean[i] - s->kernel[i], 2) / (ROWS * ROWS);
    *bias = sqrt(*bias);
}

/* The mean of D draws deviates by the root of error / D, while a bias would remain. The bound is three times that,
 * because the errors of pairs are dependent. */
static void draws_are_unbiased(void **state)
{
    (void)state;
    setting s = open_setting();
    for (int r = 0; r < LAB_REPRESENTATIONS; r++)
        for (int optimal = 0; optimal < 2; optimal++) {
            double bias, error;
            draw_many(&s, (lab_representation)r, optimal, &bias, &error);
            if (bias > 3 * sqrt(error / DRAWS))
                fail_msg("%s%s: off by %g, expected at most %g", lab_representation_names[r],
                         optimal ? ", optimal" : "", bias, 3 * sqrt(error / DRAWS));
        }
    close_setting(&s);
}

/* The error of a draw has a deviation of about its size, because few directions dominate: 1/√400 of that, times
 * three. */
static void optimal_draws_reach_the_optimum(void **state)
{
    (void)state;
    setting s = open_setting();
    for (int r = 0; r < LAB_REPRESENTATIONS; r++) {
        double bias, error;
        draw_many(&s, (lab_representation)r, true, &bias, &error);
        assert_close(error * FEATURES / s.optimum, 1, 0.15);
    }
    close_setting(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(draws_are_unbiased),
        cmocka_unit_test(optimal_draws_reach_the_optimum),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
