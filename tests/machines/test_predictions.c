/* One prediction call: any selection of its results has the bits of all of them, for dense and sparse rows, and the
 * call writes nothing else. */
#include "oracle.h"

enum { TRAIN = 260, NEW = 70, DIM = 3, MAX_COUNT = NEW * 3, RESULTS = 6 };
static const double untouched = -1234.5;

/* Results in the order of bits of a selection: mean, low, high, std, classes, probabilities. */
typedef struct results {
    double number[4][MAX_COUNT], probability[MAX_COUNT];
    int label[NEW];
} results;

static void predict(bo_context *context, const bo_machine *machine, const bo_inputs *inputs, double level,
                    unsigned selection, results *out)
{
    for (size_t k = 0; k < MAX_COUNT; k++) {
        for (size_t j = 0; j < 4; j++) out->number[j][k] = untouched;
        out->probability[k] = untouched;
    }
    for (size_t i = 0; i < NEW; i++) out->label[i] = -1;
    double *number[4];
    for (size_t j = 0; j < 4; j++) number[j] = selection >> j & 1 ? out->number[j] : NULL;
    assert_ok(context,
              bo_machine_predict(context, machine, inputs,
                                 &(bo_prediction){.mean = number[0],
                                                  .low = number[1],
                                                  .high = number[2],
                                                  .level = level,
                                                  .std = number[3],
                                                  .classes = selection >> 4 & 1 ? out->label : NULL,
                                                  .probabilities = selection >> 5 & 1 ? out->probability : NULL}));
}

/* The selected results equal the results of `all`; the rest is untouched. */
static void check_selection(const results *all, const results *found, unsigned selection, size_t outputs)
{
    for (size_t k = 0; k < NEW * outputs; k++) {
        for (size_t j = 0; j < 4; j++)
            assert_true(found->number[j][k] == (selection >> j & 1 ? all->number[j][k] : untouched));
        assert_true(found->probability[k] == (selection >> 5 & 1 ? all->probability[k] : untouched));
    }
    for (size_t i = 0; i < NEW; i++) assert_int_equal(found->label[i], selection >> 4 & 1 ? all->label[i] : -1);
}

/* The rows of a table as sparse rows. */
static bo_sparse sparse_of(const float *x, size_t *start, uint32_t *column)
{
    for (size_t k = 0; k < NEW * DIM; k++) column[k] = (uint32_t)(k % DIM);
    for (size_t i = 0; i <= NEW; i++) start[i] = i * DIM;
    return (bo_sparse){NEW, DIM, start, column, x};
}

static void check_all(bo_context *context, const bo_machine *machine, const float *x, unsigned possible)
{
    static results all, sparse, found;
    size_t start[NEW + 1];
    uint32_t column[NEW * DIM];
    const size_t outputs = bo_machine_report(machine)->outputs;
    const bo_sparse rows = sparse_of(x, start, column);
    const bo_inputs dense = {.rows = NEW, .x = x}, other = {.sparse = &rows};
    predict(context, machine, &dense, 0.8, possible, &all);
    predict(context, machine, &other, 0.8, possible, &sparse);
    check_selection(&all, &sparse, possible, outputs);
    for (unsigned selection = 1; selection < 1U << RESULTS; selection++) {
        if (selection & ~possible) continue;
        predict(context, machine, &dense, 0.8, selection, &found);
        check_selection(&all, &found, selection, outputs);
    }
    for (size_t k = 0; possible & 2 && k < NEW * outputs; k++)
        assert_true(all.number[1][k] <= all.number[0][k] && all.number[0][k] <= all.number[2][k]);
}

/* The standard deviation is computed from the 95% interval at any level, and 95% is the default. */
static void check_level(bo_context *context, const bo_machine *machine, const float *x)
{
    static results narrow, wide, default_level;
    const bo_inputs inputs = {.rows = NEW, .x = x};
    predict(context, machine, &inputs, 0.5, 15, &narrow);
    predict(context, machine, &inputs, 0.95, 15, &wide);
    predict(context, machine, &inputs, 0, 15, &default_level);
    check_selection(&wide, &default_level, 15, bo_machine_report(machine)->outputs);
    for (size_t k = 0; k < NEW; k++) {
        assert_true(narrow.number[3][k] == wide.number[3][k]);
        assert_true(narrow.number[2][k] - narrow.number[1][k] < wide.number[2][k] - wide.number[1][k]);
    }
}

static void test_regression(void **state)
{
    (void)state;
    bo_context *context = test_context(2);
    for (size_t outputs = 1; outputs <= 2; outputs++)
        for (int logarithms = 0; logarithms < 2; logarithms++) {
            bo_samples train = oracle_regression(TRAIN, DIM, outputs, 0.3, 1);
            for (size_t k = 0; logarithms && k < TRAIN * outputs; k++) ((double *)train.y)[k] = exp(train.y[k]);
            bo_machine_desc desc = oracle_desc(64, 0.5, 1);
            desc.target_scale = logarithms ? BO_TARGET_SCALE_LOG : BO_TARGET_SCALE_LINEAR;
            bo_machine *machine = oracle_fit(context, &desc, &train);
            check_all(context, machine, train.x, 15);
            check_level(context, machine, train.x);
            bo_machine_destroy(machine);
            oracle_drop(&train);
        }
    bo_context_destroy(context);
}

static void test_classes(void **state)
{
    (void)state;
    bo_context *context = test_context(2);
    bo_samples train = oracle_classes(TRAIN, DIM, 3, 2, 1);
    const bo_machine_desc desc = oracle_desc(64, 0.5, 1);
    bo_machine *machine = oracle_fit(context, &desc, &train);
    check_all(context, machine, train.x, 1 | 16 | 32);
    static results all;
    predict(context, machine, &(bo_inputs){.rows = NEW, .x = train.x}, 0, 1 | 16 | 32, &all);
    for (size_t i = 0; i < NEW; i++) {
        const double *score = all.number[0] + 3 * i, *p = all.probability + 3 * i;
        assert_close(p[0] + p[1] + p[2], 1, 1e-14);
        for (size_t c = 0; c < 3; c++) assert_true(score[c] <= score[all.label[i]]);
    }
    bo_machine_destroy(machine);
    oracle_drop(&train);
    bo_context_destroy(context);
}

/* Distances between rows; and calls that are refused. */
static void test_rows(void **state)
{
    (void)state;
    enum { STRIDE = DIM + 2 };
    bo_context *context = test_context(1);
    bo_samples train = oracle_regression(TRAIN, DIM, 1, 0.3, 1);
    const bo_machine_desc desc = oracle_desc(64, 0.5, 1);
    bo_machine *machine = oracle_fit(context, &desc, &train);
    static results dense, spread;
    float apart[NEW * STRIDE];
    for (size_t k = 0; k < NEW * STRIDE; k++)
        apart[k] = k % STRIDE < DIM ? train.x[k / STRIDE * DIM + k % STRIDE] : NAN;
    predict(context, machine, &(bo_inputs){.rows = NEW, .x = train.x}, 0.9, 15, &dense);
    predict(context, machine, &(bo_inputs){.rows = NEW, .x = apart, .stride = STRIDE}, 0.9, 15, &spread);
    check_selection(&dense, &spread, 15, 1);

    size_t start[NEW + 1];
    uint32_t column[NEW * DIM];
    const bo_sparse rows = sparse_of(train.x, start, column);
    const bo_prediction mean = {.mean = dense.number[0]}, none = {.level = 0.9}, later = {.reserved = {0, 0, 0, 1}};
    const bo_inputs one = {.rows = 1, .x = train.x};
    assert_fails(context, BO_INVALID, "at least one array", bo_machine_predict(context, machine, &one, &none));
    assert_fails(context, BO_INVALID, "bo_prediction: its reserved",
                 bo_machine_predict(context, machine, &one, &later));
    assert_fails(context, BO_INVALID, "bo_inputs: its reserved",
                 bo_machine_predict(context, machine, &(bo_inputs){.reserved = {1}}, &mean));
    assert_fails(context, BO_INVALID, "x is NULL, but there are 2 rows",
                 bo_machine_predict(context, machine, &(bo_inputs){.rows = 2}, &mean));
    assert_fails(context, BO_INVALID, "found both",
                 bo_machine_predict(context, machine, &(bo_inputs){.x = train.x, .sparse = &rows}, &mean));
    assert_fails(context, BO_INVALID, "expected 3 sparse rows, found 70",
                 bo_machine_predict(context, machine, &(bo_inputs){.rows = 3, .sparse = &rows}, &mean));
    const bo_sparse wide = {NEW, DIM + 1, start, column, train.x};
    assert_fails(context, BO_INVALID, "expected sparse rows with 3 columns, as in the fit, found 4",
                 bo_machine_predict(context, machine, &(bo_inputs){.sparse = &wide}, &mean));
    float gradients[DIM];
    assert_fails(context, BO_UNSUPPORTED, "dense rows",
                 bo_machine_gradients(context, machine, &(bo_inputs){.sparse = &rows}, gradients));
    bo_machine_destroy(machine);
    oracle_drop(&train);
    bo_context_destroy(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_regression),
        cmocka_unit_test(test_classes),
        cmocka_unit_test(test_rows),
    };
    return cmocka_run_group_tests_name("machines.predictions", tests, NULL, NULL);
}
