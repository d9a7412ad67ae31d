/* Exact kernels by conjugate gradients, compared with the factorization of the kernel matrix in double. */
#include "features/enums.h"
#include "oracle.h"
#include "features/sections.h"
#include "machines/pivots.h"
#include "machines/strips.h"

enum { ROWS = 320, DIM = 3, NEW_ROWS = 50, OUTPUTS = 3 };

static bo_machine_desc cg_desc(bo_kernel kernel)
{
    bo_machine_desc desc = oracle_exact(kernel, 0.1);
    desc.solver = BO_SOLVER_CG;
    return desc;
}

/* ---- products and preconditioner --------------------------------------------------------------------------------- */

static bo_features *sections(bo_context *context, bo_kernel kernel, size_t rows, const float *x)
{
    bo_features_desc map = cg_desc(kernel).features;
    bo_features *phi;
    map.dim = DIM;
    assert_ok(context, bo_sections_create(context, &map, rows, x, &phi));
    return phi;
}

/* The result has the same bits for every part of the matrix in memory, and equals explicit products up to rounding. */
static void test_products(void **state)
{
    (void)state;
    static const size_t sizes[] = {1, 7, 255, 512, 513, 1300};
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
        const size_t n = sizes[k];
        bo_samples rows = oracle_regression(n, DIM, OUTPUTS, 1, 1);
        float *v = malloc(OUTPUTS * n * sizeof *v);
        double *first = malloc(OUTPUTS * n * sizeof *first), *again = malloc(OUTPUTS * n * sizeof *again);
        double *matrix = malloc(n * n * sizeof *matrix);
        for (size_t i = 0; i < OUTPUTS * n; i++) v[i] = (float)rows.y[i];
        for (int mode = 0; mode < 4; mode++) {
            bo_context *context = test_context(mode == 3 ? 3 : 1);
            bo_features *phi = sections(context, BO_KERNEL_LAPLACIAN, n, rows.x);
            const double all = bo_strips_bytes((double)n), memory[] = {all, 0, 0.6 * all, all};
            bo_strips strips;
            assert_ok(context, bo_strips_create(context, phi, OUTPUTS, memory[mode], &strips));
            assert_ok(context, bo_strips_multiply(&strips, OUTPUTS, v, mode ? again : first, 0));
            if (mode) assert_memory_equal(first, again, OUTPUTS * n * sizeof *first);
            bo_strips_free(&strips);
            if (mode == 0) assert_ok(context, bo_sections_matrix(context, phi, n, rows.x, DIM, matrix, n));
            bo_features_destroy(phi);
            bo_context_destroy(context);
        }
        for (size_t t = 0; t < OUTPUTS; t++)
            for (size_t i = 0; i < n; i++) {
                double sum = 0, size = 0;
                for (size_t j = 0; j < n; j++)
                    sum += matrix[i * n + j] * (double)v[t * n + j], size += fabs((double)v[t * n + j]);
                assert_close(first[t * n + i], sum, 1e-6 * size);
            }
        free(v), free(first), free(again), free(matrix);
        oracle_drop(&rows);
    }
}

/* P⁻¹ v solves (F Fᵀ + λ I) u = v, also without some rows; F Fᵀ is close to the kernel where that has a low rank. */
static void test_preconditioner(void **state)
{
    (void)state;
    enum { DROPPED = 30 };
    bo_context *context = test_context(2);
    bo_samples rows = oracle_regression(ROWS, DIM, 2, 1, 1);
    bo_features *phi = sections(context, BO_KERNEL_RBF, ROWS, rows.x);
    static double root[ROWS], v[2 * ROWS], u[2 * ROWS], matrix[ROWS * ROWS];
    for (size_t i = 0; i < ROWS; i++) root[i] = i % 7 ? 1 + (double)(i % 3) : 0;
    for (size_t i = 0; i < 2 * ROWS; i++) v[i] = rows.y[i];
    assert_ok(context, bo_sections_matrix(context, phi, ROWS, rows.x, DIM, matrix, ROWS));
    bo_pivots pivots;
    assert_ok(context, bo_pivots_create(context, phi, root, 0.1, 2, 1, &pivots));
    double trace = 0, left = 0;
    for (size_t i = 0; i < ROWS; i++) {
        double square = 0;
        for (size_t k = 0; k < pivots.rank; k++) square += pow((double)pivots.f[i * pivots.max_rank + k], 2);
        trace += root[i] * root[i];
        left += root[i] * root[i] - square;
        assert_true(root[i] * root[i] - square > -1e-4);
    }
    assert_true(left < BO_SIZE(0.05, 0.3) * trace);
    assert_close(pivots.trace, left, 0.01 * trace);
    for (int dropped = 0; dropped < 2; dropped++) {
        size_t index[DROPPED];
        for (size_t h = 0; h < DROPPED; h++) index[h] = 3 + 10 * h;
        if (dropped) assert_ok(context, bo_pivots_drop(&pivots, DROPPED, index));
        assert_ok(context, bo_pivots_solve(&pivots, 2, v, u));
        for (size_t t = 0; t < 2; t++) {
            double against[BO_SIZE(128, 24)] = {0}, norm = 0;
            assert_true(pivots.rank <= sizeof against / sizeof *against);
            for (size_t i = 0; i < ROWS; i++)
                for (size_t k = 0; k < pivots.rank; k++)
                    against[k] += (double)pivots.f[i * pivots.max_rank + k] * u[t * ROWS + i];
            for (size_t i = 0; i < ROWS; i++) norm = fmax(norm, fabs(v[t * ROWS + i]));
            for (size_t i = 0; i < ROWS; i++) {
                double sum = 0.1 * u[t * ROWS + i];
                for (size_t k = 0; k < pivots.rank; k++) sum += (double)pivots.f[i * pivots.max_rank + k] * against[k];
                assert_close(sum, v[t * ROWS + i], 3e-3 * norm);
                if (dropped && i % 10 == 3 && i < 3 + 10 * DROPPED)
                    assert_close(u[t * ROWS + i], v[t * ROWS + i] / 0.1, 1e-9 * norm);
            }
        }
    }
    bo_pivots_free(&pivots);
    bo_features_destroy(phi);
    oracle_drop(&rows);
    bo_context_destroy(context);
}

/* ---- machines ---------------------------------------------------------------------------------------------------- */

/* The root mean square difference of the predictions of two machines on new rows, in units of the noise. */
static double distance(bo_context *context, const bo_machine *a, const bo_machine *b, double noise)
{
    bo_samples fresh = oracle_regression(NEW_ROWS, DIM, 1, 0, 9);
    double *p = oracle_mean(context, a, NEW_ROWS, fresh.x), *q = oracle_mean(context, b, NEW_ROWS, fresh.x);
    double far = oracle_rmse(NEW_ROWS * a->report.outputs, p, q) / noise;
    free(p), free(q);
    oracle_drop(&fresh);
    return far;
}

static const bo_kernel kernels[] = {
    BO_KERNEL_RBF,      BO_KERNEL_LAPLACIAN,          BO_KERNEL_CAUCHY, BO_KERNEL_MATERN12, BO_KERNEL_MATERN32,
    BO_KERNEL_MATERN52, BO_KERNEL_RATIONAL_QUADRATIC, BO_KERNEL_NTK};

/* CG stops when the predictions of the training rows are accurate to 3e-3 of their errors, root mean square. */
static void test_equals_dual(void **state)
{
    (void)state;
    bo_context *context = test_context(2);
    float *weights = oracle_weights(ROWS, 2);
    for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++)
        for (int mode = 0; mode < 4; mode++) {
            bo_samples train = mode == 3 ? oracle_classes(ROWS, DIM, 3, 2, 1)
                                         : oracle_regression(ROWS, DIM, mode == 1 ? OUTPUTS : 1, 0.3, 1);
            bo_machine_desc desc = cg_desc(kernels[i]);
            desc.no_intercept = mode == 1;
            if (mode == 2) train.weights = weights;
            bo_machine *cg = oracle_fit(context, &desc, &train);
            desc.solver = BO_SOLVER_DUAL;
            bo_machine *dual = oracle_fit(context, &desc, &train);
            assert_int_equal(cg->report.solver, BO_SOLVER_CG);
            assert_int_equal(cg->report.rows, ROWS);
            assert_true(cg->report.iterations > 0 && cg->report.residual < 1e-2);
            assert_int_equal(cg->report.has_std, !train.classes);
            double noise = train.classes ? 1 : dual->report.noise_std, far = distance(context, cg, dual, noise);
            if (!(far < 3e-3))
                fail_msg("%s, mode %d: predictions differ by %g of the noise", bo_kernel_name(kernels[i]), mode, far);
            assert_int_equal(cg->report.validation_rows > 0, true);
            if (train.classes) assert_close(cg->report.validation_log_loss, dual->report.validation_log_loss, 0.3);
            bo_machine_destroy(cg), bo_machine_destroy(dual);
            train.weights = NULL;
            oracle_drop(&train);
        }
    free(weights);
    bo_context_destroy(context);
}

/* The validation error equals the error of a machine fitted without the validation rows: rows of weight 0. */
static void test_validation(void **state)
{
    (void)state;
    enum { HELD_OUT = ROWS / 8 };
    bo_context *context = test_context(2);
    bo_samples train = oracle_regression(ROWS, DIM, 1, 0.3, 1);
    bo_machine_desc desc = cg_desc(BO_KERNEL_MATERN32);
    bo_machine *cg = oracle_fit(context, &desc, &train);
    assert_int_equal(cg->report.validation_rows, HELD_OUT);
    static size_t order[ROWS];
    static float weights[ROWS];
    bo_rng rng = bo_rng_make(desc.seed, bo_rng_stream("machines.held_out", 0));
    bo_rng_permutation(&rng, ROWS, order);
    for (size_t i = 0; i < ROWS; i++) weights[order[i]] = i < HELD_OUT ? 0 : 1;
    train.weights = weights;
    desc.solver = BO_SOLVER_DUAL;
    bo_machine *rest = oracle_fit(context, &desc, &train);
    double *mean = oracle_mean(context, rest, ROWS, train.x), squares = 0;
    for (size_t i = 0; i < HELD_OUT; i++) squares += pow(mean[order[i]] - train.y[order[i]], 2);
    assert_close(cg->report.validation_rmse / sqrt(squares / HELD_OUT), 1, 0.01);
    free(mean);
    bo_machine_destroy(cg), bo_machine_destroy(rest);
    train.weights = NULL;
    oracle_drop(&train);
    bo_context_destroy(context);
}

/* The same bits for any number of threads, and after a file. */
static void test_threads_and_files(void **state)
{
    (void)state;
    bo_samples train = oracle_regression(ROWS, DIM, 2, 0.3, 1);
    bo_machine_desc desc = cg_desc(BO_KERNEL_LAPLACIAN);
    double *expected = NULL;
    for (int threads = 1; threads <= 4; threads += 3) {
        bo_context *context = test_context(threads);
        bo_machine *machine = oracle_fit(context, &desc, &train), *again;
        double *mean = oracle_mean(context, machine, ROWS, train.x);
        if (expected) assert_memory_equal(mean, expected, 2 * ROWS * sizeof *mean);
        void *bytes;
        size_t size;
        assert_ok(context, bo_machine_save(context, machine, NULL, &(bo_sink){.bytes = &bytes, .size = &size}));
        assert_ok(context, bo_machine_load(context, &(bo_source){.bytes = bytes, .size = size}, &again, NULL));
        free(expected);
        expected = oracle_mean(context, again, ROWS, train.x);
        assert_memory_equal(mean, expected, 2 * ROWS * sizeof *mean);
        bo_free(bytes);
        free(mean);
        bo_machine_destroy(machine), bo_machine_destroy(again);
        bo_context_destroy(context);
    }
    free(expected);
    oracle_drop(&train);
}

/* Very few rows, targets that do not vary, equal rows, and more outputs than one product takes. */
static void test_corners(void **state)
{
    (void)state;
    bo_context *context = test_context(2);
    bo_machine_desc desc = cg_desc(BO_KERNEL_RBF);
    static const size_t sizes[] = {2, 3, 9, 30};
    for (size_t k = 0; k < 4; k++) {
        bo_samples train = oracle_regression(sizes[k], DIM, 33, 0.3, 1);
        desc.solver = BO_SOLVER_CG;
        bo_machine *cg = oracle_fit(context, &desc, &train);
        desc.solver = BO_SOLVER_DUAL;
        bo_machine *dual = oracle_fit(context, &desc, &train);
        double far = distance(context, cg, dual, 1);
        if (!(far < 3e-3)) fail_msg("%zu rows: predictions differ by %g", sizes[k], far);
        bo_machine_destroy(cg), bo_machine_destroy(dual);
        oracle_drop(&train);
    }
    desc.solver = BO_SOLVER_CG;
    bo_samples train = oracle_regression(200, DIM, 1, 0.3, 1);
    for (size_t i = 4; i < 200; i++) memcpy((float *)train.x + i * DIM, train.x + i % 4 * DIM, DIM * sizeof(float));
    for (int constant = 0; constant < 2; constant++) {
        for (size_t i = 0; constant && i < 200; i++) ((double *)train.y)[i] = 3;
        bo_machine *machine = oracle_fit(context, &desc, &train);
        double *mean = oracle_mean(context, machine, 200, train.x), sum = 0;
        for (size_t i = 0; i < 200; i += 4) sum += train.y[i] / 50;
        assert_close(mean[0], sum, constant ? 1e-6 : 0.02);
        free(mean);
        bo_machine_destroy(machine);
    }
    oracle_drop(&train);
    bo_context_destroy(context);
}

/* Few rows and a tiny λ are factorized; many rows are solved by CG, within the memory that is allowed. */
static void test_choice(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    bo_machine_desc desc = cg_desc(BO_KERNEL_RBF);
    bo_fit_cost cost;
    bo_fit_shape shape = {.rows = 4096, .dim = DIM, .outputs = 1};
    desc.solver = BO_SOLVER_AUTO;
    desc.memory = (size_t)8 << 30;
    assert_ok(context, bo_machine_estimate(context, &desc, &shape, &cost));
    assert_int_equal(cost.solver, BO_SOLVER_DUAL);
    shape.rows = 8000;
    assert_ok(context, bo_machine_estimate(context, &desc, &shape, &cost));
    assert_int_equal(cost.solver, BO_SOLVER_CG);
    desc.lambda = 1e-5;
    assert_ok(context, bo_machine_estimate(context, &desc, &shape, &cost));
    assert_int_equal(cost.solver, BO_SOLVER_DUAL);
    desc.lambda = 0.1;
    shape.rows = 40000;
    assert_ok(context, bo_machine_estimate(context, &desc, &shape, &cost));
    assert_true(cost.bytes > (size_t)2 * 40000 * 40000);
    desc.memory = (size_t)1 << 30;
    assert_ok(context, bo_machine_estimate(context, &desc, &shape, &cost));
    assert_true(cost.solver == BO_SOLVER_CG && cost.bytes <= desc.memory);
    bo_context_destroy(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_products),   cmocka_unit_test(test_preconditioner),    cmocka_unit_test(test_equals_dual),
        cmocka_unit_test(test_validation), cmocka_unit_test(test_threads_and_files), cmocka_unit_test(test_corners),
        cmocka_unit_test(test_choice),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
