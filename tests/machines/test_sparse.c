/* Sparse rows give the results of the same rows in dense form; their memory and time depend on the numbers in them. */
#include <float.h>
#include "../base/counting.h"
#include "io/sparse.h"
#include "machines/machine.h"
#include "oracle.h"

enum { ROWS = 260, DIM = 40, NEW = 70, FEATURES = 128 };

/* Rows with about `share` of their numbers not 0; the target depends on the first columns. */
static void make_rows(bo_context *context, size_t rows, size_t dim, double share, uint64_t seed, bo_samples *dense,
                      bo_sparse_block **block)
{
    bo_rng rng = bo_rng_make(seed, 1);
    float *x = calloc(rows * dim, sizeof *x);
    double *y = calloc(rows, sizeof *y);
    assert_ok(context, bo_sparse_create(context, dim, block));
    for (size_t i = 0; i < rows; i++) {
        assert_ok(context, bo_sparse_reserve(context, *block, dim));
        for (size_t j = 0; j < dim; j++) {
            if (bo_rng_uniform(&rng) > share) continue;
            x[i * dim + j] = (float)(1 + bo_rng_normal(&rng));
            bo_sparse_put(*block, j, x[i * dim + j]);
        }
        bo_sparse_end_row(*block);
        y[i] = sin((double)x[i * dim]) + (double)x[i * dim + 1] + 0.1 * bo_rng_normal(&rng);
    }
    *dense = (bo_samples){.rows = rows, .dim = dim, .targets = 1, .x = x, .y = y};
}

static bo_samples sparse_of(const bo_samples *dense, const bo_sparse_block *block)
{
    bo_samples sparse = *dense;
    sparse.x = NULL;
    sparse.sparse = &block->rows;
    return sparse;
}

static void drop(bo_samples *dense, bo_sparse_block *block)
{
    free((void *)dense->x);
    free((void *)dense->y);
    bo_sparse_destroy(&block->rows);
}

/* Kernels of differences do not depend on where 0 is, so that both fits have the same features up to phases. */
static void check_same(bo_context *context, const bo_machine_desc *desc, bool classes, double tolerance)
{
    bo_samples train, test;
    bo_sparse_block *sparse_train, *sparse_test;
    make_rows(context, ROWS, DIM, 0.2, 1, &train, &sparse_train);
    make_rows(context, NEW, DIM, 0.2, 2, &test, &sparse_test);
    for (size_t i = 0; classes && i < ROWS; i++) ((double *)train.y)[i] = train.y[i] > 1;
    train.classes = classes ? 2 : 0;
    const bo_samples sparse = sparse_of(&train, sparse_train);
    bo_machine *dense = oracle_fit(context, desc, &train), *machine = oracle_fit(context, desc, &sparse), *loaded;
    const size_t outputs = dense->report.outputs;
    double a[NEW * 2], b[NEW * 2], c[NEW * 2], d[NEW * 2], a_std[NEW * 2], b_std[NEW * 2];
    const bool std = dense->report.has_std;
    void *bytes;
    size_t size;
    assert_int_equal(machine->report.solver, dense->report.solver);
    assert_close(machine->report.gamma / dense->report.gamma, 1, 1e-3);
    assert_ok(context, bo_machine_predict(context, dense, &(bo_inputs){.rows = NEW, .x = test.x},
                                          &(bo_prediction){.mean = a, .std = std ? a_std : NULL}));
    assert_ok(context, bo_machine_predict(context, machine, &(bo_inputs){.sparse = &sparse_test->rows},
                                          &(bo_prediction){.mean = b, .std = std ? b_std : NULL}));
    assert_ok(context, bo_machine_save(context, machine, NULL, &(bo_sink){.bytes = &bytes, .size = &size}));
    assert_ok(context, bo_machine_load(context, &(bo_source){.bytes = bytes, .size = size}, &loaded, NULL));
    assert_ok(context, bo_machine_predict(context, loaded, &(bo_inputs){.rows = NEW, .x = test.x},
                                          &(bo_prediction){.mean = c})); /* dense rows */
    assert_ok(context, bo_machine_predict(context, dense, &(bo_inputs){.sparse = &sparse_test->rows},
                                          &(bo_prediction){.mean = d}));
    for (size_t k = 0; k < NEW * outputs; k++) {
        assert_close(b[k], a[k], tolerance);
        assert_close(c[k], b[k], 1e-4);
        assert_true(d[k] == a[k]); /* a machine of dense rows expands sparse ones */
        if (std) assert_close(b_std[k], a_std[k], tolerance);
    }
    bo_free(bytes);
    bo_machine_destroy(dense);
    bo_machine_destroy(machine);
    bo_machine_destroy(loaded);
    drop(&train, sparse_train);
    drop(&test, sparse_test);
}

static void test_equal_to_dense(void **state)
{
    (void)state;
    bo_context *context = test_context(2);
    static const bo_solver solvers[] = {BO_SOLVER_PRIMAL, BO_SOLVER_DUAL, BO_SOLVER_CG, BO_SOLVER_SGD};
    for (size_t s = 0; s < 4; s++)
        for (bo_scaling scaling = BO_SCALING_COLUMNS; scaling <= BO_SCALING_NONE; scaling++) {
            bo_machine_desc desc = oracle_desc(FEATURES, 0.02, 1);
            desc.precision = BO_GRAM_PRECISION_FLOAT64;
            desc.solver = solvers[s];
            desc.scaling = scaling;
            check_same(context, &desc, false, 2e-3);
        }
    for (bo_kernel kernel = 0; kernel <= BO_KERNEL_RATIONAL_QUADRATIC; kernel++) {
        bo_machine_desc desc = oracle_desc(FEATURES, 0, 0);
        desc.features.kernel = kernel;
        desc.features.function = BO_FUNCTION_SINCOS;
        desc.precision = BO_GRAM_PRECISION_FLOAT64;
        check_same(context, &desc, false, 2e-2);
    }
    bo_machine_desc desc = oracle_desc(FEATURES, 0.02, 1);
    check_same(context, &desc, true, 2e-2);
    bo_context_destroy(context);
}

/* Columns that do not occur have no frequencies: memory as for the numbers that are there, and as planned. */
static void check_wide(bo_scaling scaling)
{
    enum { WIDE = 1000000, FEW = 20, EACH = 30 };
    counting c = {0};
    bo_context *context = counting_context(&c, 2);
    bo_sparse_block *block;
    double y[FEW], mean[FEW], std[FEW];
    assert_ok(context, bo_sparse_create(context, WIDE, &block));
    for (size_t i = 0; i < FEW; i++) {
        assert_ok(context, bo_sparse_reserve(context, block, EACH));
        for (size_t k = 0; k < EACH; k++) bo_sparse_put(block, k * 30000 + i % 7 * 1000 + i, (float)(1 + k % 3));
        bo_sparse_end_row(block);
        y[i] = (double)(i % 7);
    }
    const bo_samples train = {.rows = FEW, .dim = WIDE, .targets = 1, .y = y, .sparse = &block->rows};
    const bo_machine_desc desc = {.task = BO_TASK_REGRESSION, .scaling = scaling, .features = {.features = 1024}};
    const bo_fit_shape shape = {.rows = FEW, .dim = WIDE, .outputs = 1, .nonzeros = FEW * EACH};
    bo_fit_cost cost;
    assert_ok(context, bo_machine_estimate(context, &desc, &shape, &cost));
    bo_machine *machine = oracle_fit(context, &desc, &train);
    if (c.peak > cost.bytes || cost.bytes > 90e6)
        fail_msg("%.1f MB promised, %.1f MB taken", (double)cost.bytes / 1e6, (double)c.peak / 1e6);
    assert_int_equal(bo_features_describe(machine->phi)->dim, FEW * EACH);
    assert_ok(context, bo_machine_predict(context, machine, &(bo_inputs){.sparse = &block->rows},
                                          &(bo_prediction){.mean = mean, .std = std}));
    for (size_t i = 0; i < FEW; i++) assert_true(isfinite(mean[i]) && std[i] > 0);
    bo_machine_destroy(machine);
    bo_sparse_destroy(&block->rows);
    bo_context_destroy(context);
    assert_true(c.live == 0);
}

static void test_wide(void **state)
{
    (void)state;
    check_wide(BO_SCALING_AUTO);
    check_wide(BO_SCALING_NONE);
}

/* Fewer columns vary than there are numbers: the estimate covers the draw that needs the most memory. */
static void test_wide_estimate(void **state)
{
    (void)state;
    enum { COLUMNS = 16000, LINES = 82, EACH = 200 };
    counting c = {0};
    bo_context *context = counting_context(&c, 2);
    bo_sparse_block *block;
    double y[LINES];
    assert_ok(context, bo_sparse_create(context, 20000, &block));
    for (size_t i = 0; i < LINES; i++) {
        assert_ok(context, bo_sparse_reserve(context, block, EACH));
        for (size_t k = 0; k < EACH; k++) bo_sparse_put(block, k * 80 + i % 80, (float)(1 + (i + k) % 3));
        bo_sparse_end_row(block);
        y[i] = (double)(i % 7);
    }
    const bo_samples train = {.rows = LINES, .dim = 20000, .targets = 1, .y = y, .sparse = &block->rows};
    const bo_machine_desc desc = {
        .task = BO_TASK_REGRESSION, .features = {.features = 2048, .gamma = 0.1}, .lambda = 1};
    const bo_fit_shape shape = {.rows = LINES, .dim = 20000, .outputs = 1, .nonzeros = LINES * EACH};
    bo_fit_cost cost;
    assert_ok(context, bo_machine_estimate(context, &desc, &shape, &cost));
    bo_machine *machine = oracle_fit(context, &desc, &train);
    if (c.peak > cost.bytes)
        fail_msg("%.1f MB promised, %.1f MB taken", (double)cost.bytes / 1e6, (double)c.peak / 1e6);
    assert_in_range(bo_features_describe(machine->phi)->dim, 1, COLUMNS);
    bo_machine_destroy(machine);
    bo_sparse_destroy(&block->rows);
    bo_context_destroy(context);
}

/* Rows without numbers: the message is about the columns, not about memory. */
static void test_no_numbers(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    bo_sparse_block *block;
    double y[40];
    assert_ok(context, bo_sparse_create(context, 10000000, &block));
    for (size_t i = 0; i < 40; i++) {
        assert_ok(context, bo_sparse_reserve(context, block, 0));
        bo_sparse_end_row(block);
        y[i] = (double)i;
    }
    const bo_samples train = {.rows = 40, .dim = 10000000, .targets = 1, .y = y, .sparse = &block->rows};
    const bo_machine_desc desc = {.task = BO_TASK_REGRESSION, .features = {.features = 64}};
    bo_machine *machine = NULL;
    assert_fails(context, BO_INVALID, "only constant columns", bo_machine_fit(context, &desc, &train, &machine));
    bo_sparse_destroy(&block->rows);
    bo_context_destroy(context);
}

/* A stream of sparse blocks gives the machine of one block. */
static void test_stream(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    bo_samples dense;
    bo_sparse_block *block;
    make_rows(context, ROWS, DIM, 0.2, 1, &dense, &block);
    const bo_samples all = sparse_of(&dense, block);
    bo_machine_desc desc = oracle_desc(FEATURES, 0.02, 1);
    bo_fitting *fitting;
    bo_machine *once = oracle_fit(context, &desc, &all), *streamed;
    assert_ok(context, bo_fitting_create(context, &desc, &all, &fitting));
    for (size_t first = 0; first < ROWS; first += 100) {
        bo_sparse view;
        const bo_samples part = bo_samples_slice(&all, first, ROWS - first < 100 ? ROWS - first : 100, &view);
        assert_ok(context, bo_fitting_add(context, fitting, &part));
    }
    assert_ok(context, bo_fitting_finish(context, fitting, &streamed));
    double a[ROWS], b[ROWS];
    assert_ok(context,
              bo_machine_predict(context, once, &(bo_inputs){.sparse = &block->rows}, &(bo_prediction){.mean = a}));
    assert_ok(context,
              bo_machine_predict(context, streamed, &(bo_inputs){.sparse = &block->rows}, &(bo_prediction){.mean = b}));
    for (size_t i = 0; i < ROWS; i++) assert_close(a[i], b[i], 1e-4);
    bo_fitting_destroy(fitting);
    bo_machine_destroy(once);
    bo_machine_destroy(streamed);
    drop(&dense, block);
    bo_context_destroy(context);
}

static void test_refusals(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    bo_samples dense;
    bo_sparse_block *block;
    bo_machine *machine;
    make_rows(context, ROWS, DIM, 0.2, 1, &dense, &block);
    bo_samples sparse = sparse_of(&dense, block);
    bo_machine_desc desc = oracle_desc(0, 0.02, 1);
    desc.features.kernel = BO_KERNEL_LINEAR;
    assert_fails(context, BO_UNSUPPORTED, "shift-invariant", bo_machine_fit(context, &desc, &sparse, &machine));
    desc = oracle_desc(FEATURES, 0.02, 1);
    sparse.x = dense.x;
    assert_fails(context, BO_INVALID, "both", bo_machine_fit(context, &desc, &sparse, &machine));
    sparse.x = NULL;
    sparse.dim++;
    assert_fails(context, BO_INVALID, "found 260 x 40", bo_machine_fit(context, &desc, &sparse, &machine));
    sparse.dim--;
    const size_t at = block->rows.start[3];
    const uint32_t column = block->rows.column[at];
    ((uint32_t *)block->rows.column)[at] = DIM;
    assert_fails(context, BO_INVALID, "row 3: expected ascending columns below 40, found column 40",
                 bo_machine_fit(context, &desc, &sparse, &machine));
    ((uint32_t *)block->rows.column)[at] = column;
    ((float *)block->rows.value)[at] = INFINITY;
    assert_fails(context, BO_INVALID, "row 3, column", bo_machine_fit(context, &desc, &sparse, &machine));
    drop(&dense, block);
    bo_context_destroy(context);
}

/* Rows of a caller that would be read outside of their arrays. */
static void test_malformed_rows(void **state)
{
    (void)state;
    static const struct {
        size_t start[3];
        uint32_t column[2];
        const char *expected_text;
    } cases[] = {{{0, 2, 1}, {0, 1}, "row 1: expected ascending offsets, found 1 after 2"},
                 {{0, 1, 2}, {0, 3}, "row 1: expected ascending columns below 3, found column 3"},
                 {{0, 2, 2}, {1, 1}, "row 0: expected ascending columns below 3, found column 1"}};
    bo_context *context = test_context(1);
    const bo_features_desc desc = {.dim = 3, .features = 4, .gamma = 0.5, .sparse = true};
    static const float value[2] = {1, 2};
    float z[8];
    bo_features *map;
    assert_ok(context, bo_features_create(context, &desc, &map));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const bo_sparse x = {2, 3, cases[i].start, cases[i].column, value};
        assert_fails(context, BO_INVALID, cases[i].expected_text,
                     bo_features_apply(context, map, &(bo_inputs){.sparse = &x}, z, 4));
    }
    static const size_t none[3] = {0, 0, 0};
    const bo_sparse empty = {2, 3, none, NULL, NULL};
    assert_ok(context, bo_features_apply(context, map, &(bo_inputs){.sparse = &empty}, z, 4));
    bo_features_destroy(map);
    bo_context_destroy(context);
}

static bo_status fit_and_predict(void *what)
{
    injection *i = what;
    const bo_samples *train = i->what;
    const bo_machine_desc desc = oracle_desc(16, 0.02, 1);
    bo_machine *machine = NULL;
    double mean[ROWS];
    bo_status status = bo_machine_fit(i->context, &desc, train, &machine);
    if (status == BO_OK)
        status = bo_machine_predict(i->context, machine, &(bo_inputs){.sparse = train->sparse},
                                    &(bo_prediction){.mean = mean});
    bo_machine_destroy(machine);
    return status;
}

static void test_out_of_memory(void **state)
{
    (void)state;
    counting c = {0};
    bo_context *context = counting_context(&c, 1), *other = test_context(1);
    bo_samples dense;
    bo_sparse_block *block;
    make_rows(other, 60, DIM, 0.2, 1, &dense, &block);
    bo_samples sparse = sparse_of(&dense, block);
    injection i = {.counted = &c, .context = context, .work = fit_and_predict, .all = 60, .stride = 7};
    injection inner = i;
    inner.what = &sparse;
    i.what = &inner;
    counting_inject(&i);
    drop(&dense, block);
    bo_context_destroy(context);
    bo_context_destroy(other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_equal_to_dense), cmocka_unit_test(test_wide),
        cmocka_unit_test(test_wide_estimate),  cmocka_unit_test(test_no_numbers),
        cmocka_unit_test(test_stream),         cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_out_of_memory),  cmocka_unit_test(test_malformed_rows),
    };
    return cmocka_run_group_tests_name("machines.sparse", tests, NULL, NULL);
}
