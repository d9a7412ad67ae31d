/* Gradients of machines by their scaled inputs, compared with central differences of predictions: every kernel with
 * random features and in exact form, classes, sparse machines, constant columns, clipped inputs; the mean of their
 * outer products; threads, refusals. */
#include "features/enums.h"
#include "features/facts.h"
#include "machines/prediction.h"
#include "oracle.h"

enum { ROWS = 80, DIM = 4, NEW_ROWS = 9 };

static const bo_kernel kernels[] = {BO_KERNEL_RBF,
                                    BO_KERNEL_LAPLACIAN,
                                    BO_KERNEL_CAUCHY,
                                    BO_KERNEL_MATERN12,
                                    BO_KERNEL_MATERN32,
                                    BO_KERNEL_MATERN52,
                                    BO_KERNEL_RATIONAL_QUADRATIC,
                                    BO_KERNEL_SOFTMAX,
                                    BO_KERNEL_ARCCOS,
                                    BO_KERNEL_POLYNOMIAL,
                                    BO_KERNEL_TAYLOR,
                                    BO_KERNEL_ELU,
                                    BO_KERNEL_LINEAR,
                                    BO_KERNEL_COSH,
                                    BO_KERNEL_HEDGEHOG,
                                    BO_KERNEL_RECTIFIER,
                                    BO_KERNEL_NNGP,
                                    BO_KERNEL_NTK};

static bo_machine_desc describe(bo_kernel kernel, bool exact)
{
    return (bo_machine_desc){.loss = BO_LOSS_RIDGE,
                             .precision = BO_GRAM_PRECISION_FLOAT64,
                             .features = {.kernel = kernel,
                                          .function = exact ? BO_FUNCTION_SECTIONS : BO_FUNCTION_DEFAULT,
                                          .features = exact ? 0 : 64,
                                          .gamma = 0.1,
                                          .depth = 2,
                                          .bias_variance = 0.1},
                             .lambda = 0.5,
                             .seed = 1};
}

/* f of one machine in double from scaled inputs in double, before the metric: features by the float64 reference, exact
 * kernels by their closed form. The steps of the differences would be lost in float inputs. */
static double predict64(bo_context *context, const bo_machine *machine, const double *scaled, size_t output)
{
    const bo_metric *metric = &machine->scaler.metric;
    const size_t features = machine->report.features, outputs = machine->report.outputs, kept = machine->scaler.kept;
    double *z = malloc(features * sizeof *z), *mapped = calloc(kept, sizeof *mapped), sum = machine->intercept[output];
    for (size_t p = 0; p < kept; p++) {
        if (!metric->a) mapped[p] = scaled[p];
        if (metric->a && metric->diagonal) mapped[p] = (double)metric->a[p] * scaled[p];
        for (size_t j = 0; metric->a && !metric->diagonal && j < metric->dim; j++)
            mapped[p] += (double)metric->a[p * metric->dim + j] * scaled[j];
    }
    assert_ok(context, bo_features_apply_f64(context, machine->phi, 1, mapped, kept, z, features));
    for (size_t j = 0; j < features; j++) sum += (z[j] - machine->center[j]) * machine->beta[j * outputs + output];
    free(z), free(mapped);
    return sum;
}

/* The central difference of f in input j at a row, by the scaled inputs of this machine. With step h in double the
 * truncation is of order h² times the third derivative and the rounding of order 1e-15 Σ|β| / h: both below 1e-6 of the
 * scale for h = 1e-4. */
static double difference(bo_context *context, const bo_machine *machine, const float *row, size_t output, size_t j)
{
    const double step = 1e-4;
    bo_scaler scaler;
    assert_ok(context, bo_scaler_copy(context, &machine->scaler, &scaler));
    if (!scaler.place) assert_ok(context, bo_scaler_set_metric(context, &scaler, NULL));
    float scaled[DIM];
    double at[DIM], found = 0;
    const bo_input_view inputs = {.rows = 1, .x = row, .ldx = machine->report.dim};
    assert_ok(context, bo_scaler_apply(context, &scaler, &inputs, scaled));
    for (int side = -1; side < 2 && scaler.factor[j] != 0; side += 2) {
        for (size_t k = 0; k < scaler.kept; k++) at[k] = (double)scaled[k];
        at[scaler.place ? scaler.place[j] : j] += side * step;
        found += side * predict64(context, machine, at, output) / (2 * step);
    }
    bo_scaler_free(&scaler);
    return found;
}

/* Every row, output and column. Float32 sums over the features or rows have errors of 1e-6 of Σ |β ∂φ|; the tolerance
 * is relative to the largest gradient. */
static void compare(bo_context *context, const bo_machine *machine, size_t rows, const float *x, double tolerance)
{
    const size_t dim = machine->report.dim, outputs = machine->report.outputs;
    float *g = malloc(rows * outputs * dim * sizeof *g);
    double *mean = malloc(rows * outputs * sizeof *mean), top = 0;
    assert_ok(context, bo_machine_gradients(context, machine, &(bo_inputs){.rows = rows, .x = x}, g));
    assert_ok(context,
              bo_machine_predict(context, machine, &(bo_inputs){.rows = rows, .x = x}, &(bo_prediction){.mean = mean}));
    for (size_t k = 0; k < rows * outputs * dim; k++) top = fmax(top, fabs((double)g[k]));
    assert_true(top > 1e-3);
    for (size_t k = 0; k < rows * outputs * dim; k++) {
        const size_t j = k % dim, t = k / dim % outputs;
        const float *row = x + k / dim / outputs * dim;
        double expected =
            difference(context, machine, row, t, j) * (machine->other_members_count ? machine->share[0] : 1);
        for (size_t a = 0; a < machine->other_members_count; a++)
            expected += difference(context, machine->other_members[a], row, t, j) * machine->share[a + 1];
        if (machine->report.target_scale == BO_TARGET_SCALE_LOG) expected *= mean[k / dim]; /* d exp f = exp f df */
        if (!(fabs((double)g[k] - expected) <= tolerance * top))
            fail_msg("%s %s, row %zu, output %zu, column %zu: %.9g, expected %.9g (largest %.3g)",
                     bo_kernel_name(machine->report.kernel), bo_function_name(machine->report.function),
                     k / dim / outputs, t, j, (double)g[k], expected, top);
    }
    free(g), free(mean);
}

static void test_every_kernel_agrees_with_differences(void **state)
{
    (void)state;
    bo_context *context = test_context(2);
    bo_samples train = oracle_regression(ROWS, DIM, 2, 0.1, 1), fresh = oracle_regression(NEW_ROWS, DIM, 1, 0, 9);
    for (size_t k = 0; k < sizeof kernels / sizeof *kernels; k++)
        for (int exact = 0; exact < 2; exact++) {
            bo_machine_desc desc = describe(kernels[k], exact);
            if (!bo_features_needs_length(&desc.features)) desc.features.features = 0;
            bo_machine *machine = oracle_fit(context, &desc, &train);
            compare(context, machine, NEW_ROWS, fresh.x, 1e-4);
            bo_machine_destroy(machine);
        }
    bo_machine_desc landmarks = describe(BO_KERNEL_MATERN32, false);
    landmarks.features.function = BO_FUNCTION_LANDMARKS;
    landmarks.features.features = 30;
    bo_machine *nystrom = oracle_fit(context, &landmarks, &train);
    compare(context, nystrom, NEW_ROWS, fresh.x, 1e-4);
    bo_machine_destroy(nystrom);
    for (int activation = 0; activation < 2; activation++) { /* erf, and one hidden layer without biases */
        bo_machine_desc desc = describe(BO_KERNEL_NTK, true);
        desc.features.activation = activation ? BO_HIDDEN_ERF : BO_HIDDEN_RELU;
        desc.features.depth = activation ? 3 : 1;
        desc.features.bias_variance = activation ? 0.2 : 0;
        bo_machine *machine = oracle_fit(context, &desc, &train);
        compare(context, machine, NEW_ROWS, fresh.x, 1e-4);
        bo_machine_destroy(machine);
    }
    oracle_drop(&train), oracle_drop(&fresh);
    bo_context_destroy(context);
}

/* At training rows kernels with a kink have a derivative between the one-sided derivatives: finite. */
static void test_training_rows_of_exact_kernels_are_finite(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    bo_samples train = oracle_regression(ROWS, DIM, 1, 0.1, 1);
    float *g = malloc(ROWS * DIM * sizeof *g);
    for (size_t k = 0; k < sizeof kernels / sizeof *kernels; k++) {
        const bo_machine_desc desc = describe(kernels[k], true);
        bo_machine *machine = oracle_fit(context, &desc, &train);
        assert_ok(context, bo_machine_gradients(context, machine, &(bo_inputs){.rows = ROWS, .x = train.x}, g));
        for (size_t i = 0; i < ROWS * DIM; i++) assert_true(fabs((double)g[i]) < 100);
        bo_machine_destroy(machine);
    }
    free(g);
    oracle_drop(&train);
    bo_context_destroy(context);
}

static void test_classes_length_scales_and_constant_columns(void **state)
{
    (void)state;
    bo_context *context = test_context(2);
    bo_samples train = oracle_classes(ROWS, DIM, 3, 2, 1), fresh = oracle_classes(NEW_ROWS, DIM, 3, 2, 5);
    const float lengths[DIM] = {0.5F, 2, 1, 3};
    for (size_t i = 0; i < ROWS; i++) ((float *)(uintptr_t)train.x)[i * DIM + 2] = 7; /* constant */
    ((float *)(uintptr_t)fresh.x)[1] = 1e6F; /* clipped to 5 standard deviations */
    for (int exact = 0; exact < 2; exact++)
        for (int logistic = 0; logistic < 2 - exact; logistic++) {
            bo_machine_desc desc = describe(BO_KERNEL_MATERN32, exact);
            desc.features.length_scales = lengths;
            desc.loss = logistic ? BO_LOSS_LOGISTIC : BO_LOSS_RIDGE;
            bo_machine *machine = oracle_fit(context, &desc, &train);
            compare(context, machine, NEW_ROWS, fresh.x, 1e-4);
            bo_machine_destroy(machine);
        }
    oracle_drop(&train), oracle_drop(&fresh);
    bo_context_destroy(context);
}

/* Quantiles as scaling, metrics, logarithms of targets, and machines of several kernels. */
static void test_metrics_logarithms_and_committees(void **state)
{
    (void)state;
    bo_context *context = test_context(2);
    bo_samples train = oracle_regression(ROWS, DIM, 1, 0.1, 1), fresh = oracle_regression(NEW_ROWS, DIM, 1, 0, 9);
    double *y = (double *)(uintptr_t)train.y;
    for (size_t i = 0; i < ROWS; i++) y[i] = exp(0.3 * y[i]);
    for (int exact = 0; exact < 2; exact++)
        for (int diagonal = 0; diagonal < 2; diagonal++) {
            bo_machine_desc desc = describe(BO_KERNEL_RBF, exact);
            desc.metric = diagonal ? BO_METRIC_DIAGONAL : BO_METRIC_LEARN;
            desc.scaling = diagonal ? BO_SCALING_COLUMNS : BO_SCALING_QUANTILE;
            desc.target_scale = BO_TARGET_SCALE_LOG;
            bo_machine *machine = oracle_fit(context, &desc, &train);
            assert_non_null(machine->scaler.metric.a);
            compare(context, machine, NEW_ROWS, fresh.x, 1e-3);
            bo_machine_destroy(machine);
        }
    bo_machine_desc leader = describe(BO_KERNEL_RBF, true), second = describe(BO_KERNEL_LAPLACIAN, true);
    second.scaling = BO_SCALING_QUANTILE;
    bo_machine *machine = oracle_fit(context, &leader, &train);
    machine->other_members = bo_alloc(context, 1, sizeof *machine->other_members, "a committee");
    machine->share = bo_alloc(context, 2, sizeof *machine->share, "a committee");
    machine->other_members[machine->other_members_count++] = oracle_fit(context, &second, &train);
    machine->share[0] = 0.7, machine->share[1] = 0.3;
    compare(context, machine, NEW_ROWS, fresh.x, 1e-3);
    bo_machine_destroy(machine);
    oracle_drop(&train), oracle_drop(&fresh);
    bo_context_destroy(context);
}

static void test_machines_of_sparse_rows(void **state)
{
    (void)state;
    bo_context *context = test_context(2);
    bo_samples dense = oracle_regression(ROWS, DIM, 1, 0.1, 1);
    size_t start[ROWS + 1], count = 0;
    uint32_t column[ROWS * DIM];
    float value[ROWS * DIM];
    for (size_t i = 0; i < ROWS; i++) {
        start[i] = count;
        for (uint32_t j = 0; j < DIM; j++) { /* column 1 is empty: the machine has three columns */
            if (j == 1 || (i + j) % 2) continue;
            column[count] = j;
            value[count++] = dense.x[i * DIM + j];
        }
    }
    start[ROWS] = count;
    const bo_sparse rows = {ROWS, DIM, start, column, value};
    bo_samples train = dense;
    train.x = NULL, train.sparse = &rows;
    const bo_machine_desc desc = describe(BO_KERNEL_RBF, false);
    bo_machine *machine = oracle_fit(context, &desc, &train);
    assert_int_equal(machine->scaler.kept, DIM - 1);
    compare(context, machine, NEW_ROWS, dense.x, 1e-4);
    bo_machine_destroy(machine);
    oracle_drop(&dense);
    bo_context_destroy(context);
}

/* ---- outer products ---------------------------------------------------------------------------------------------- */

/* Gradients are rounded to float here, but not in the products: relative errors below 1e-6. */
static void test_products_are_means_of_outer_products(void **state)
{
    (void)state;
    bo_context *context = test_context(2);
    enum { T = 2 };
    bo_samples train = oracle_regression(ROWS, DIM, T, 0.1, 1);
    for (int exact = 0; exact < 2; exact++) {
        const bo_machine_desc desc = describe(BO_KERNEL_RBF, exact);
        bo_machine *machine = oracle_fit(context, &desc, &train);
        float g[ROWS * T * DIM];
        double matrix[DIM * DIM], diagonal[DIM], alone[DIM];
        assert_ok(context, bo_machine_gradients(context, machine, &(bo_inputs){.rows = ROWS, .x = train.x}, g));
        assert_ok(context, bo_machine_gradient_products(context, machine,
                                                        &(bo_input_view){.rows = ROWS, .x = train.x, .ldx = DIM},
                                                        diagonal, matrix));
        assert_ok(context,
                  bo_machine_gradient_products(context, machine,
                                               &(bo_input_view){.rows = ROWS, .x = train.x, .ldx = DIM}, alone, NULL));
        double trace = 0;
        for (size_t j = 0; j < DIM; j++) trace += diagonal[j];
        for (size_t a = 0; a < DIM; a++) {
            for (size_t b = 0; b < DIM; b++) {
                double expected = 0;
                for (size_t i = 0; i < ROWS * T; i++)
                    expected += (double)g[i * DIM + a] * (double)g[i * DIM + b] / ROWS;
                assert_close(matrix[a * DIM + b], expected, 1e-6 * trace);
            }
            assert_close(diagonal[a], matrix[a * DIM + a], 1e-12 * trace);
            assert_close(alone[a], diagonal[a], 1e-12 * trace);
        }
        /* the targets depend on the first two columns only */
        assert_true(diagonal[0] > 3 * diagonal[2] && diagonal[1] > 3 * diagonal[3]);
        bo_machine_destroy(machine);
    }
    oracle_drop(&train);
    bo_context_destroy(context);
}

static void test_threads_and_blocks_give_the_same_bits(void **state)
{
    (void)state;
    enum { MANY = 1500 }; /* more than a block */
    bo_samples train = oracle_regression(MANY, DIM, 1, 0.1, 1);
    float *g[2];
    double matrix[2][DIM * DIM];
    for (int i = 0; i < 2; i++) {
        bo_context *context = test_context(i ? 3 : 1);
        const bo_machine_desc desc = describe(BO_KERNEL_RBF, false);
        bo_machine *machine = oracle_fit(context, &desc, &train);
        g[i] = malloc(MANY * DIM * sizeof *g[i]);
        assert_ok(context, bo_machine_gradients(context, machine, &(bo_inputs){.rows = MANY, .x = train.x}, g[i]));
        assert_ok(context, bo_machine_gradient_products(context, machine,
                                                        &(bo_input_view){.rows = MANY, .x = train.x, .ldx = DIM}, NULL,
                                                        matrix[i]));
        float last[DIM]; /* a row does not depend on its block */
        assert_ok(context, bo_machine_gradients(context, machine,
                                                &(bo_inputs){.rows = 1, .x = train.x + (MANY - 1) * DIM}, last));
        for (size_t j = 0; j < DIM; j++) assert_close((double)last[j], (double)g[i][(MANY - 1) * DIM + j], 1e-4);
        bo_machine_destroy(machine);
        bo_context_destroy(context);
    }
    assert_memory_equal(g[0], g[1], MANY * DIM * sizeof *g[0]);
    assert_memory_equal(matrix[0], matrix[1], sizeof matrix[0]);
    free(g[0]), free(g[1]);
    oracle_drop(&train);
}

static bool cancel(void *user, const char *what, double done, double total)
{
    (void)user, (void)done, (void)total;
    return strcmp(what, "gradients") != 0;
}

static void test_refusals(void **state)
{
    (void)state;
    bo_context *context;
    const bo_context_desc settings = {.threads = 1, .progress = cancel};
    assert_int_equal(bo_context_create(&settings, &context), BO_OK);
    bo_samples train = oracle_regression(ROWS, DIM, 1, 0.1, 1);
    const bo_machine_desc desc = describe(BO_KERNEL_RBF, false);
    bo_machine *machine = oracle_fit(context, &desc, &train);
    float g[ROWS * DIM], bad[DIM] = {0, NAN, 0, 0};
    double diagonal[DIM];
    assert_fails(context, BO_INVALID, "columns",
                 bo_machine_gradients(context, machine, &(bo_inputs){.rows = 1, .x = train.x, .stride = DIM - 1}, g));
    assert_fails(context, BO_INVALID, "finite",
                 bo_machine_gradients(context, machine, &(bo_inputs){.rows = 1, .x = bad}, g));
    assert_fails(context, BO_INVALID, "at least one row",
                 bo_machine_gradient_products(context, machine, &(bo_input_view){.rows = 0, .x = NULL, .ldx = DIM},
                                              diagonal, NULL));
    assert_int_equal(bo_machine_gradients(context, machine, &(bo_inputs){.rows = ROWS, .x = train.x}, g), BO_CANCELED);
    assert_ok(context, bo_machine_gradients(context, machine, &(bo_inputs){0}, NULL));
    bo_machine_destroy(machine);
    oracle_drop(&train);
    bo_context_destroy(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_kernel_agrees_with_differences),
        cmocka_unit_test(test_training_rows_of_exact_kernels_are_finite),
        cmocka_unit_test(test_classes_length_scales_and_constant_columns),
        cmocka_unit_test(test_metrics_logarithms_and_committees),
        cmocka_unit_test(test_machines_of_sparse_rows),
        cmocka_unit_test(test_products_are_means_of_outer_products),
        cmocka_unit_test(test_threads_and_blocks_give_the_same_bits),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
