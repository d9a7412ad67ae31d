/* Invalid input is refused, and the message states what is wrong, why, and what is valid. */
#include "features/enums.h"
#include "features/facts.h"
#include "maps.h"

typedef struct refusal {
    bo_features_desc desc;
    bo_status status;
    const char *expected_text[3];
} refusal;

static const float zeros[4 * DIM] = {0};
static const float bad_scales[DIM] = {1, 1, -2, 1, 1, 1};

static const refusal refusals[] = {
    {{.dim = 0, .features = 8}, BO_INVALID, {"dim", "at least 1"}},
    {{.dim = 3, .features = 0}, BO_INVALID, {"features", "at least 1"}},
    {{.dim = 3, .features = 8, .gamma = -1}, BO_INVALID, {"gamma", "positive", "-1"}},
    {{.dim = 3, .features = 8, .gamma = NAN}, BO_INVALID, {"gamma"}},
    {{.dim = DIM, .features = 8, .length_scales = bad_scales}, BO_INVALID, {"length_scales[2]", "-2"}},
    {{.dim = 3, .features = 9}, BO_INVALID, {"sincos", "8 and 10"}},
    {{.dim = 3, .features = 1}, BO_INVALID, {"the nearest is 2"}},
    {{.kernel = BO_KERNEL_SOFTMAX, .function = BO_FUNCTION_HYPERBOLIC, .dim = 3, .features = 33},
     BO_INVALID,
     {"hyperbolic", "32 and 34"}},
    {{.kernel = BO_KERNEL_RBF, .function = BO_FUNCTION_POSITIVE, .dim = 3, .features = 8},
     BO_UNSUPPORTED,
     {"positive cannot be used with kernel rbf", "sincos, cosbias"}},
    {{.kernel = BO_KERNEL_SOFTMAX, .function = BO_FUNCTION_RELU, .dim = 3, .features = 8},
     BO_UNSUPPORTED,
     {"sincos, positive, hyperbolic, oprf"}},
    {{.kernel = BO_KERNEL_LAPLACIAN, .draw = BO_DRAW_ORTHOGONAL, .dim = 3, .features = 8},
     BO_UNSUPPORTED,
     {"orthogonal", "laplacian", "rotation-invariant"}},
    {{.kernel = BO_KERNEL_CAUCHY, .draw = BO_DRAW_HADAMARD, .dim = 3, .features = 8},
     BO_UNSUPPORTED,
     {"hadamard", "cauchy", "rotation-invariant"}},
    {{.kernel = BO_KERNEL_LAPLACIAN, .draw = BO_DRAW_SIMPLEX, .dim = 3, .features = 8},
     BO_UNSUPPORTED,
     {"simplex", "rotation-invariant"}},
    {{.kernel = BO_KERNEL_LAPLACIAN, .draw = BO_DRAW_MOMENT, .dim = 3, .features = 8},
     BO_UNSUPPORTED,
     {"moment", "no finite variance"}},
    {{.kernel = BO_KERNEL_MATERN12, .draw = BO_DRAW_MOMENT, .dim = 3, .features = 8},
     BO_UNSUPPORTED,
     {"moment", "matern12", "no finite variance"}},
    {{.draw = BO_DRAW_MOMENT, .dim = 8, .features = 16}, BO_INVALID, {"moment", "more than dim = 8", "found 8"}},
    {{.draw = BO_DRAW_SIMPLEX, .dim = 1, .features = 8}, BO_UNSUPPORTED, {"simplex", "dim >= 2"}},
    {{.draw = BO_DRAW_SOBOL, .dim = 5000, .features = 8}, BO_UNSUPPORTED, {"sobol", "5000"}},
    {{.kernel = BO_KERNEL_SOFTMAX,
      .draw = BO_DRAW_HADAMARD,
      .sampling = BO_SAMPLING_OPTIMAL,
      .dim = DIM,
      .features = 8,
      .sample = zeros,
      .sample_rows = 4},
     BO_UNSUPPORTED,
     {"sampling optimal", "hadamard"}},
    {{.sampling = BO_SAMPLING_LEVERAGE, .dim = DIM, .features = 8}, BO_INVALID, {"leverage", "sample"}},
    {{.kernel = BO_KERNEL_SOFTMAX,
      .sampling = BO_SAMPLING_OPTIMAL,
      .dim = DIM,
      .features = 8,
      .sample = zeros,
      .sample_rows = 4,
      .candidates = 5},
     BO_INVALID,
     {"candidates", "8", "found 5"}},
    {{.kernel = BO_KERNEL_SOFTMAX, .sampling = BO_SAMPLING_OPTIMAL, .dim = DIM, .features = 8, .sample = zeros},
     BO_INVALID,
     {"sample_rows"}},
    {{.kernel = BO_KERNEL_TAYLOR, .sampling = BO_SAMPLING_OPTIMAL, .dim = 3, .sample = zeros, .sample_rows = 4},
     BO_UNSUPPORTED,
     {"sampling optimal", "taylor", "no frequencies"}},
    {{.kernel = BO_KERNEL_POLYNOMIAL, .draw = BO_DRAW_ORTHOGONAL, .dim = 3},
     BO_UNSUPPORTED,
     {"orthogonal", "polynomial", "no frequencies"}},
    {{.kernel = BO_KERNEL_TAYLOR, .dim = 3, .features = 11}, BO_INVALID, {"exactly 10 features", "found 11"}},
    {{.kernel = BO_KERNEL_ELU, .dim = 3, .features = 4}, BO_INVALID, {"exactly 3 features"}},
    {{.kernel = BO_KERNEL_LINEAR, .dim = 3, .features = 4}, BO_INVALID, {"identity", "exactly 3 features"}},
    {{.kernel = BO_KERNEL_COSH, .dim = 3, .features = 3}, BO_INVALID, {"exponential", "exactly 6 features"}},
    {{.kernel = BO_KERNEL_HEDGEHOG, .dim = 3, .features = 3}, BO_INVALID, {"hedgehog", "exactly 6 features"}},
    {{.kernel = BO_KERNEL_RECTIFIER, .dim = BO_EXACT_MAX_SIZE + 1}, BO_INVALID, {"rectifier", "dim up to", "4194305"}},
    {{.kernel = BO_KERNEL_LINEAR, .function = BO_FUNCTION_RECTIFIER, .dim = 3},
     BO_UNSUPPORTED,
     {"rectifier cannot be used with kernel linear", "expected one of: identity"}},
    {{.kernel = BO_KERNEL_POLYNOMIAL, .dim = 4, .degree = 3, .features = 34}, BO_INVALID, {"exactly 35 features"}},
    {{.kernel = BO_KERNEL_POLYNOMIAL, .dim = 1000, .degree = 8},
     BO_INVALID,
     {"degree 8 in dim 1000", "2.571e+19", "4194304"}},
    {{.kernel = BO_KERNEL_POLYNOMIAL, .dim = 3, .degree = -1}, BO_INVALID, {"degree", "1 to 64", "found -1"}},
    {{.kernel = BO_KERNEL_POLYNOMIAL, .function = BO_FUNCTION_SELFTENSOR, .dim = 3, .degree = -2, .features = 6},
     BO_INVALID,
     {"degree", "1 to 64", "found -2"}},
    {{.kernel = BO_KERNEL_POLYNOMIAL, .function = BO_FUNCTION_SELFTENSOR, .dim = 3, .degree = 3, .features = 6},
     BO_INVALID,
     {"selftensor", "even", "found 3"}},
    {{.kernel = BO_KERNEL_POLYNOMIAL, .function = BO_FUNCTION_SELFTENSOR, .dim = 3, .degree = 4, .features = 64},
     BO_INVALID,
     {"r (r + 1) / 2", "found 64", "55 and 66"}},
    {{.kernel = BO_KERNEL_POLYNOMIAL, .function = BO_FUNCTION_SELFTENSOR, .dim = 3, .degree = 4},
     BO_INVALID,
     {"at least 1"}},
    {{.kernel = BO_KERNEL_POLYNOMIAL, .function = BO_FUNCTION_SELFTENSOR, .dim = 3, .features = BO_EXACT_MAX_SIZE + 1},
     BO_INVALID,
     {"selftensor", "at most 4194304"}},
    {{.kernel = BO_KERNEL_POLYNOMIAL, .function = BO_FUNCTION_TENSORSKETCH, .dim = 3}, BO_INVALID, {"at least 1"}},
    {{.kernel = BO_KERNEL_SOFTMAX, .function = BO_FUNCTION_OPRF, .dim = 3, .features = 8},
     BO_INVALID,
     {"oprf", "pair_norm", "sample"}},
    {{.kernel = BO_KERNEL_CUSTOM, .dim = 3, .features = 8}, BO_INVALID, {"custom", "callback"}},
    {{.kernel = BO_KERNEL_CUSTOM,
      .dim = DIM,
      .features = 8,
      .custom = test_custom,
      .sampling = BO_SAMPLING_LEVERAGE,
      .sample = zeros,
      .sample_rows = 4},
     BO_UNSUPPORTED,
     {"leverage", "custom"}},
    {{.kernel = (bo_kernel)99, .dim = 3, .features = 8}, BO_INVALID, {"kernel 99"}},
    {{.function = (bo_function)99, .dim = 3, .features = 8}, BO_INVALID, {"function 99"}},
    {{.draw = (bo_draw)99, .dim = 3, .features = 8}, BO_INVALID, {"draw 99"}},
    {{.sampling = (bo_sampling)99, .dim = 3, .features = 8}, BO_INVALID, {"sampling 99"}},
    {{.dim = (size_t)1 << 31, .features = (size_t)1 << 40}, BO_INVALID, {"address space"}},
};

static void wrong_descriptors_are_refused(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
        bo_features *f = (bo_features *)1;
        size_t bytes;
        for (size_t w = 0; w < 3 && refusals[i].expected_text[w]; w++)
            assert_fails(context, refusals[i].status, refusals[i].expected_text[w],
                         bo_features_create(context, &refusals[i].desc, &f));
        assert_null(f);
        assert_int_equal(bo_features_estimate(context, &refusals[i].desc, &bytes), refusals[i].status);
    }
    bo_context_destroy(context);
}

static void wrong_calls_are_refused(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    bo_features_desc desc = {.dim = 3, .features = 8};
    bo_features *f;
    float x[3] = {0}, z[8], w[12];
    double k;
    bo_features_accuracy accuracy;
    assert_ok(context, bo_features_create(context, &desc, &f));
    assert_fails(context, BO_INVALID, "expected rows with 3 columns, found 2",
                 bo_features_apply(context, f, &(bo_inputs){.rows = 1, .x = x, .stride = 2}, z, 8));
    assert_fails(context, BO_INVALID, "ldz",
                 bo_features_apply(context, f, &(bo_inputs){.rows = 1, .x = x, .stride = 3}, z, 7));
    assert_fails(context, BO_INVALID, "NULL", bo_features_apply(context, f, &(bo_inputs){.rows = 1}, z, 8));
    assert_ok(context, bo_features_apply(context, f, &(bo_inputs){0}, NULL, 0));
    static const size_t start[2] = {0, 1};
    static const uint32_t column[1] = {2};
    const bo_sparse one = {1, 3, start, column, x}, wide = {1, 4, start, column, x};
    assert_fails(context, BO_INVALID, "found both",
                 bo_features_apply(context, f, &(bo_inputs){.x = x, .sparse = &one}, z, 8));
    assert_fails(context, BO_INVALID, "expected 2 sparse rows, found 1",
                 bo_features_apply(context, f, &(bo_inputs){.rows = 2, .sparse = &one}, z, 8));
    assert_fails(context, BO_INVALID, "expected sparse rows with 3 columns, found 4",
                 bo_features_apply(context, f, &(bo_inputs){.sparse = &wide}, z, 8));
    assert_fails(context, BO_INVALID, "ldz", bo_features_apply(context, f, &(bo_inputs){.sparse = &one}, z, 7));
    assert_ok(context, bo_features_apply(context, f, &(bo_inputs){.rows = 1, .sparse = &one}, z, 8));
    assert_fails(context, BO_INVALID, "strides",
                 bo_features_backward(context, f, &(bo_inputs){.rows = 1, .x = x}, z, 7, x, 3, NULL, NULL));
    assert_fails(context, BO_INVALID, "at least one row",
                 bo_features_measure(context, f, &(bo_inputs){.rows = 0, .x = x}, 10, 1, &accuracy));
    bo_features_destroy(f);
    desc.draw = BO_DRAW_HADAMARD;
    assert_ok(context, bo_features_create(context, &desc, &f));
    assert_fails(context, BO_UNSUPPORTED, "hadamard",
                 bo_features_backward(context, f, &(bo_inputs){.rows = 1, .x = x}, z, 8, NULL, 0, NULL, w));
    assert_fails(context, BO_UNSUPPORTED, "hadamard", bo_features_set_frequencies(context, f, w));
    bo_features_destroy(f);
    desc = (bo_features_desc){.kernel = BO_KERNEL_CUSTOM, .dim = 3, .features = 4, .custom = test_custom};
    assert_fails(context, BO_UNSUPPORTED, "closed form", bo_kernel_matrix(context, &desc, 1, x, 3, 1, x, 3, &k, 1));
    assert_ok(context, bo_features_create(context, &desc, &f));
    assert_fails(context, BO_UNSUPPORTED, "closed form",
                 bo_features_measure(context, f, &(bo_inputs){.rows = 1, .x = x}, 10, 1, &accuracy));
    assert_fails(context, BO_UNSUPPORTED, "custom",
                 bo_features_save(context, f, &(bo_sink){.path = "never-written.safetensors"}));
    bo_features_destroy(f);
    bo_features_destroy(NULL);
    bo_context_destroy(context);
}

/* ---- valid input with a warning ---------------------------------------------------------------------------------- */

typedef struct log_record {
    bo_log_level level;
    char text[256];
} log_record;

static void listen(void *user, bo_log_level level, const char *message)
{
    log_record *h = user;
    if (!strstr(message, "simplex") && !strstr(message, "optimal")) return;
    h->level = level;
    snprintf(h->text, sizeof h->text, "%s", message);
}

static void unusual_settings_are_reported(void **state)
{
    (void)state;
    log_record h = {0};
    bo_context_desc with_log = {.threads = 1, .log = listen, .user = &h};
    bo_context *context = NULL;
    assert_int_equal(bo_context_create(&with_log, &context), BO_OK);
    bo_features_desc simplex = {.dim = 3, .features = 8, .draw = BO_DRAW_SIMPLEX};
    bo_features_desc optimal = {.dim = 3, .features = 8, .sampling = BO_SAMPLING_OPTIMAL};
    bo_features *f;
    assert_ok(context, bo_features_create(context, &simplex, &f));
    assert_int_equal(h.level, BO_LOG_WARNING);
    assert_non_null(strstr(h.text, "use orthogonal"));
    bo_features_destroy(f);
    assert_ok(context, bo_features_create(context, &optimal, &f));
    assert_int_equal(h.level, BO_LOG_INFO);
    assert_non_null(strstr(h.text, "used as drawn"));
    assert_null(bo_features_importance(f));
    bo_features_destroy(f);
    bo_context_destroy(context);
}

/* ---- defaults and names ------------------------------------------------------------------------------------------ */

static void defaults_are_filled_in(void **state)
{
    (void)state;
    static const bo_function expected[BO_KERNEL_COUNT] = {
        [BO_KERNEL_SOFTMAX] = BO_FUNCTION_POSITIVE,
        [BO_KERNEL_ARCCOS] = BO_FUNCTION_RELU,
        [BO_KERNEL_POLYNOMIAL] = BO_FUNCTION_POLYNOMIAL,
        [BO_KERNEL_TAYLOR] = BO_FUNCTION_TAYLOR,
        [BO_KERNEL_ELU] = BO_FUNCTION_ELU,
        [BO_KERNEL_CUSTOM] = BO_FUNCTION_CUSTOM,
        [BO_KERNEL_LINEAR] = BO_FUNCTION_IDENTITY,
        [BO_KERNEL_COSH] = BO_FUNCTION_EXPONENTIAL,
        [BO_KERNEL_HEDGEHOG] = BO_FUNCTION_HEDGEHOG,
        [BO_KERNEL_RECTIFIER] = BO_FUNCTION_RECTIFIER,
        [BO_KERNEL_NNGP] = BO_FUNCTION_NETWORK,
        [BO_KERNEL_NTK] = BO_FUNCTION_NETWORK,
    };
    for (int k = 0; k < BO_KERNEL_COUNT; k++)
        assert_int_equal(bo_function_default((bo_kernel)k), expected[k] ? expected[k] : BO_FUNCTION_SINCOS);
    bo_context *context = test_context(1);
    bo_features_desc desc = {.kernel = BO_KERNEL_POLYNOMIAL, .dim = 4};
    bo_features *f;
    assert_ok(context, bo_features_create(context, &desc, &f));
    assert_int_equal(bo_features_describe(f)->features, 15); /* C(4 + 2, 2) */
    assert_int_equal(bo_features_describe(f)->degree, 2);
    assert_close(bo_features_describe(f)->gamma, 1, 0);
    bo_features_destroy(f);
    desc = (bo_features_desc){.kernel = BO_KERNEL_LAPLACIAN, .dim = 4, .features = 8};
    assert_ok(context, bo_features_create(context, &desc, &f));
    assert_int_equal(bo_features_describe(f)->draw, BO_DRAW_IID);
    bo_features_destroy(f);
    desc.kernel = BO_KERNEL_MATERN12;
    assert_ok(context, bo_features_create(context, &desc, &f));
    assert_int_equal(bo_features_describe(f)->draw, BO_DRAW_ORTHOGONAL);
    bo_features_destroy(f);
    bo_context_destroy(context);
}

static void names_are_parsed_back(void **state)
{
    (void)state;
    bo_kernel kernel;
    bo_function function;
    bo_draw draw;
    bo_sampling sampling;
    for (int i = 0; i < BO_KERNEL_COUNT; i++)
        assert_true(bo_kernel_parse(bo_kernel_name((bo_kernel)i), &kernel) && (int)kernel == i);
    for (int i = 0; i < BO_FUNCTION_COUNT; i++)
        assert_true(bo_function_parse(bo_function_name((bo_function)i), &function) && (int)function == i);
    for (int i = 0; i < BO_DRAW_COUNT; i++)
        assert_true(bo_draw_parse(bo_draw_name((bo_draw)i), &draw) && (int)draw == i);
    for (int i = 0; i < BO_SAMPLING_COUNT; i++)
        assert_true(bo_sampling_parse(bo_sampling_name((bo_sampling)i), &sampling) && (int)sampling == i);
    assert_true(bo_kernel_parse("RATIONAL_QUADRATIC", &kernel) && kernel == BO_KERNEL_RATIONAL_QUADRATIC);
    assert_false(bo_kernel_parse("rb", &kernel));
    assert_false(bo_kernel_parse("rbfs", &kernel));
    assert_false(bo_draw_parse(NULL, &draw));
    assert_null(bo_kernel_name(BO_KERNEL_COUNT));
    static const struct {
        bo_kernel kernel;
        bool has[4]; /* LENGTH, SCALED, LEARNED, SHIFT_INVARIANT */
    } info[] = {{BO_KERNEL_RBF, {true, false, false, true}},      {BO_KERNEL_SOFTMAX, {true, true, false, false}},
                {BO_KERNEL_COSH, {false, true, true, false}},     {BO_KERNEL_HEDGEHOG, {false, false, true, false}},
                {BO_KERNEL_LINEAR, {false, false, false, false}}, {(bo_kernel)99, {false, false, false, false}}};
    for (size_t i = 0; i < sizeof info / sizeof *info; i++)
        for (int trait = -1; trait <= 4; trait++)
            assert_int_equal(bo_features_has(&(bo_features_desc){.kernel = info[i].kernel}, (bo_features_trait)trait),
                             trait >= 0 && trait < 4 && info[i].has[trait]);
    assert_true(bo_features_has(&(bo_features_desc){.function = BO_FUNCTION_LANDMARKS}, BO_FEATURES_TRAIT_LENGTH));
    assert_null(bo_draw_name((bo_draw)-1));
}

static bool stop_at_once(void *user, const char *what, double done, double total)
{
    (void)what;
    assert_true(done > 0 && done < total);
    ++*(int *)user;
    return false;
}

static void long_draws_can_be_canceled(void **state)
{
    (void)state;
    static const bo_draw draws[] = {BO_DRAW_IID, BO_DRAW_ORTHOGONAL, BO_DRAW_SIMPLEX};
    for (size_t i = 0; i < sizeof draws / sizeof *draws; i++) {
        int calls = 0;
        bo_context_desc how = {.progress = stop_at_once, .user = &calls};
        bo_context *context = NULL;
        assert_int_equal(bo_context_create(&how, &context), BO_OK);
        bo_features_desc desc = {.kernel = BO_KERNEL_SOFTMAX, .dim = 4, .features = 70000, .draw = draws[i]};
        bo_features *phi;
        assert_fails(context, BO_CANCELED, "drawing frequencies", bo_features_create(context, &desc, &phi));
        assert_null(phi);
        assert_int_equal(calls, 1);
        bo_context_destroy(context);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wrong_descriptors_are_refused), cmocka_unit_test(wrong_calls_are_refused),
        cmocka_unit_test(unusual_settings_are_reported), cmocka_unit_test(defaults_are_filled_in),
        cmocka_unit_test(names_are_parsed_back),         cmocka_unit_test(long_draws_can_be_canceled),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
