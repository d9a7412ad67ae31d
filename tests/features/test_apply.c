/* The float path compared with the float64 reference on every instruction set; the same bits for any number of threads;
 * strides; a custom function; setting frequencies. */
#include "maps.h"
#include "isas.h"

enum { ROWS = 150, MAX_LENGTH = 128 }; /* two blocks of rows and a part */

static void make_rows(float *x)
{
    test_inputs(9, ROWS * DIM, x);
}

/* exponents also contain |t|²/2 */
static double rounding(const bo_features *f, const double *w, const double *t, size_t i)
{
    double norm = 0;
    for (size_t j = 0; j < DIM; j++) norm += 0.5 * t[j] * t[j];
    return map_rounding(f, w, t, i, norm);
}

static void check_against_reference(bo_context *context, const bo_features_desc *desc, void *user)
{
    const float *x = user;
    bo_features *f;
    if (desc->kernel == BO_KERNEL_CUSTOM) return; /* float only */
    assert_ok(context, bo_features_create(context, desc, &f));
    size_t length = bo_features_describe(f)->features, m = bo_features_frequencies(f);
    float *z = malloc(ROWS * length * sizeof *z);
    double *wide = malloc(ROWS * DIM * sizeof *wide), *expected = malloc(ROWS * length * sizeof *expected);
    double w[FREQUENCIES * DIM], t[DIM];
    for (size_t i = 0; i < ROWS * DIM; i++) wide[i] = (double)x[i];
    assert_ok(context, bo_features_apply(context, f, &(bo_inputs){.rows = ROWS, .x = x, .stride = DIM}, z, length));
    assert_ok(context, bo_features_apply_f64(context, f, ROWS, wide, DIM, expected, length));
    if (m) assert_ok(context, bo_features_dense_f64(context, f, w));
    for (size_t r = 0; r < ROWS; r++) {
        double largest_value = 0;
        for (size_t i = 0; i < length; i++) largest_value = fmax(largest_value, fabs(expected[r * length + i]));
        for (size_t j = 0; j < DIM; j++) t[j] = wide[r * DIM + j] * f->factor[j];
        for (size_t i = 0; i < length; i++) {
            double limit = largest_value * rounding(f, w, t, m ? i % m : 0);
            double error = fabs((double)z[r * length + i] - expected[r * length + i]);
            if (!(error <= limit))
                fail_msg("%s on %s: feature %zu of row %zu is %.9g, expected %.9g within %.2g", map_name(desc),
                         bo_context_describe(context)->isa, i, r, (double)z[r * length + i], expected[r * length + i],
                         limit);
        }
    }
    free(z);
    free(wide);
    free(expected);
    bo_features_destroy(f);
}

static void every_isa_agrees_with_float64(void **state)
{
    (void)state;
    float x[ROWS * DIM];
    make_rows(x);
    for (size_t i = 0; i < TEST_ISAS; i++) {
        bo_context_desc desc = {.threads = 1, .isa = test_isas[i]};
        bo_context *context = NULL;
        if (bo_context_create(&desc, &context) != BO_OK) continue; /* not on this CPU */
        assert_true(for_each_map(context, x, check_against_reference, x) > 200);
        bo_context_destroy(context);
    }
}

/* ---- threads ----------------------------------------------------------------------------------------------------- */

typedef struct outcome {
    float z[ROWS * MAX_LENGTH], dx[ROWS * DIM], dl[DIM];
    double k[4];
} outcome;

typedef struct thread_test {
    bo_context *contexts[3];
    const float *x;
    outcome *outcomes;
} thread_test;

static void check_threads(bo_context *context, const bo_features_desc *desc, void *user)
{
    thread_test *test = user;
    (void)context;
    for (size_t i = 0; i < 3; i++) {
        bo_context *worker_context = test->contexts[i];
        outcome *o = &test->outcomes[i];
        bo_features *f;
        memset(o, 0, sizeof *o);
        assert_ok(worker_context, bo_features_create(worker_context, desc, &f));
        size_t length = bo_features_describe(f)->features;
        assert_true(length <= MAX_LENGTH);
        assert_ok(worker_context,
                  bo_features_apply(worker_context, f, &(bo_inputs){.rows = ROWS, .x = test->x, .stride = DIM}, o->z,
                                    length));
        float *dl = desc->function == BO_FUNCTION_LANDMARKS ? NULL : o->dl;
        assert_ok(worker_context, bo_features_backward(worker_context, f, &(bo_inputs){.rows = ROWS, .x = test->x},
                                                       o->z, length, o->dx, DIM, dl, NULL));
        bo_features_destroy(f);
        if (memcmp(o, &test->outcomes[0], sizeof *o))
            fail_msg("%s: %zu threads give other bits", map_name(desc), i + 1);
    }
}

static void threads_do_not_change_a_bit(void **state)
{
    (void)state;
    float x[ROWS * DIM];
    make_rows(x);
    thread_test test = {.x = x, .outcomes = calloc(3, sizeof(outcome))};
    for (int i = 0; i < 3; i++) test.contexts[i] = test_context(i + 1);
    for_each_map(test.contexts[0], x, check_threads, &test);
    for (int i = 0; i < 3; i++) bo_context_destroy(test.contexts[i]);
    free(test.outcomes);
}

/* ---- layout ------------------------------------------------------------------------------------------------------ */

/* Rows with gaps give the same features, and the gaps do not change. */
static void check_strides(bo_context *context, const bo_features_desc *desc, void *user)
{
    enum { FEW = 70, GAP = 3 };
    const float *x = user;
    bo_features *f;
    assert_ok(context, bo_features_create(context, desc, &f));
    size_t length = bo_features_describe(f)->features, wide = length + GAP;
    float *dense = malloc(FEW * length * sizeof *dense), *gaps = malloc(FEW * wide * sizeof *gaps);
    float *spread = malloc(FEW * (DIM + GAP) * sizeof *spread);
    for (size_t i = 0; i < FEW * wide; i++) gaps[i] = -7;
    for (size_t r = 0; r < FEW; r++) memcpy(spread + r * (DIM + GAP), x + r * DIM, DIM * sizeof *x);
    assert_ok(context, bo_features_apply(context, f, &(bo_inputs){.rows = FEW, .x = x, .stride = DIM}, dense, length));
    assert_ok(context,
              bo_features_apply(context, f, &(bo_inputs){.rows = FEW, .x = spread, .stride = DIM + GAP}, gaps, wide));
    for (size_t r = 0; r < FEW; r++) {
        assert_memory_equal(gaps + r * wide, dense + r * length, length * sizeof *dense);
        for (size_t i = length; i < wide; i++) assert_true(gaps[r * wide + i] == -7);
    }
    free(dense);
    free(gaps);
    free(spread);
    bo_features_destroy(f);
}

static void strides_are_honored(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    float x[ROWS * DIM];
    make_rows(x);
    for_each_map(context, x, check_strides, x);
    bo_context_destroy(context);
}

/* ---- frequencies ------------------------------------------------------------------------------------------------- */

/* The returned w is the one applied to x: compared with cos(w·x). Setting other frequencies gives their features. */
static void frequencies_are_documented(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    for (int kernel = 0; kernel < 2; kernel++) {
        bo_features_desc desc = {.kernel = kernel ? BO_KERNEL_SOFTMAX : BO_KERNEL_RBF,
                                 .dim = DIM,
                                 .features = 8,
                                 .function = kernel ? BO_FUNCTION_POSITIVE : BO_FUNCTION_SINCOS,
                                 .gamma = 2.5,
                                 .seed = 1};
        bo_features *f;
        float w[8 * DIM], x[DIM], z[8];
        assert_ok(context, bo_features_create(context, &desc, &f));
        test_inputs(3, DIM, x);
        for (int round = 0; round < 2; round++) {
            assert_ok(context, bo_features_get_frequencies(context, f, w));
            assert_ok(context, bo_features_apply(context, f, &(bo_inputs){.rows = 1, .x = x, .stride = DIM}, z, 8));
            for (size_t i = 0; i < bo_features_frequencies(f); i++) {
                double u = 0, norm = 0;
                for (size_t j = 0; j < DIM; j++) u += (double)w[i * DIM + j] * (double)x[j];
                for (size_t j = 0; j < DIM; j++) norm += 2.5 * (double)x[j] * (double)x[j];
                double expected = kernel ? exp(u - norm / 2) / sqrt(8) : cos(u) / 2;
                assert_close((double)z[i], expected, 2e-6 * (1 + fabs(expected)));
            }
            for (size_t i = 0; i < bo_features_frequencies(f) * DIM; i++) w[i] *= 0.5f;
            assert_ok(context, bo_features_set_frequencies(context, f, w));
        }
        w[3] = NAN;
        assert_fails(context, BO_INVALID, "coordinate 3", bo_features_set_frequencies(context, f, w));
        bo_features_destroy(f);
    }
    bo_context_destroy(context);
}

/* ---- custom functions -------------------------------------------------------------------------------------------- */

static void squares(void *user, size_t rows, size_t frequencies, const float *u, size_t dim, const float *x,
                    size_t features, float *out)
{
    (void)dim, (void)x;
    for (size_t r = 0; r < rows; r++)
        for (size_t i = 0; i < frequencies; i++) {
            out[r * features + 2 * i] = u[r * frequencies + i] * *(const float *)user;
            out[r * features + 2 * i + 1] = u[r * frequencies + i] * u[r * frequencies + i];
        }
}

static void a_callback_makes_features(void **state)
{
    (void)state;
    bo_context *context = test_context(2);
    float three = 3, x[ROWS * DIM], w[4 * DIM], *z = malloc(ROWS * 8 * sizeof *z);
    bo_features_desc desc = {.kernel = BO_KERNEL_CUSTOM,
                             .dim = DIM,
                             .features = 8,
                             .gamma = 4,
                             .custom = squares,
                             .custom_user = &three,
                             .custom_per_frequency = 2};
    bo_features *f;
    make_rows(x);
    assert_ok(context, bo_features_create(context, &desc, &f));
    assert_int_equal(bo_features_frequencies(f), 4);
    assert_ok(context, bo_features_get_frequencies(context, f, w));
    assert_ok(context, bo_features_apply(context, f, &(bo_inputs){.rows = ROWS, .x = x, .stride = DIM}, z, 8));
    for (size_t r = 0; r < ROWS; r++)
        for (size_t i = 0; i < 4; i++) {
            double u = 0;
            for (size_t j = 0; j < DIM; j++) u += (double)w[i * DIM + j] * (double)x[r * DIM + j];
            assert_close((double)z[r * 8 + 2 * i], 3 * u, 1e-5);
            assert_close((double)z[r * 8 + 2 * i + 1], u * u, 1e-5 * (1 + u * u));
        }
    free(z);
    bo_features_destroy(f);
    bo_context_destroy(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_isa_agrees_with_float64), cmocka_unit_test(threads_do_not_change_a_bit),
        cmocka_unit_test(strides_are_honored),           cmocka_unit_test(frequencies_are_documented),
        cmocka_unit_test(a_callback_makes_features),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
