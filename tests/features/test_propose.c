/* Frequencies redrawn in place, and drawn from a proposal with importance weights: the kernel does not change, and its
 * error agrees with the theory. */
#include <unistd.h>
#include "maps.h"
#include "../base/counting.h"
#include "features/block.h"
#include "features/facts.h"
#include "features/files.h"
#include "features/propose.h"

enum { D = 3 };
static const double z_limit = 5;

static bo_features *positive(bo_context *context, size_t dim, size_t features, bo_draw draw, uint64_t seed)
{
    bo_features_desc desc = {.kernel = BO_KERNEL_SOFTMAX, .dim = dim, .features = features, .draw = draw, .seed = seed};
    bo_features *f;
    assert_ok(context, bo_features_create(context, &desc, &f));
    return f;
}

/* R = diag(roots) Q with a rotation Q, so that R Rᵀ = diag(roots²) and RᵀR is not diagonal. */
static void skewed(const double *roots, double *factor)
{
    const double q[D][D] = {{0.6, 0.8, 0}, {-0.64, 0.48, 0.6}, {0.48, -0.36, 0.8}};
    for (size_t i = 0; i < D; i++)
        for (size_t j = 0; j < D; j++) factor[i * D + j] = roots[i] * q[i][j];
}

/* The proposal of minimum variance for q, k ~ N(0, diag λ). */
static void best_for(const double *lambda, double *factor)
{
    double roots[D];
    for (size_t j = 0; j < D; j++) roots[j] = sqrt((1 + 2 * lambda[j]) / (1 - 2 * lambda[j]));
    skewed(roots, factor);
}

/* ---- the estimate ------------------------------------------------------------------------------------------------ */

/* With w ~ N(0, Σ), weights √(p/q) and s = x + y, the estimate of one frequency has mean exp(x·y) and second moment Π_j
 * √Σ_j / √(2 - 1/Σ_j) exp(2 s_j² / (2 - 1/Σ_j) - x_j² - y_j²). */
static void proposals_keep_the_kernel(void **state)
{
    (void)state;
    enum { SEEDS = 4000, M = 16 };
    const bo_draw draws[] = {BO_DRAW_IID, BO_DRAW_ORTHOGONAL};
    const double roots[D] = {1.4, 1, 0.8};
    const float pair[2 * D] = {0.4f, -0.3f, 0.2f, 0.5f, 0.1f, -0.4f};
    bo_context *context = test_context(1);
    double factor[D * D], dot = 0, second = 1;
    skewed(roots, factor);
    for (size_t j = 0; j < D; j++) {
        double x = (double)pair[j], y = (double)pair[D + j], sigma = roots[j] * roots[j], gap = 2 - 1 / sigma;
        dot += x * y;
        second *= sqrt(sigma / gap) * exp(2 * (x + y) * (x + y) / gap - x * x - y * y);
    }
    double expected = exp(dot), deviation = sqrt((second - expected * expected) / (SEEDS * M));
    for (size_t d = 0; d < 2; d++) {
        double mean = 0, covariance[D * D] = {0};
        for (size_t s = 0; s < SEEDS; s++) {
            bo_features *f = positive(context, D, M, draws[d], s);
            float z[2 * M];
            assert_ok(context, bo_features_propose(context, f, factor));
            assert_ok(context, bo_features_apply(context, f, &(bo_inputs){.rows = 2, .x = pair, .stride = D}, z, M));
            for (size_t i = 0; i < M; i++) mean += (double)z[i] * (double)z[M + i] / SEEDS;
            for (size_t i = 0; i < M; i++)
                for (size_t j = 0; j < D * D; j++)
                    covariance[j] += (double)f->w[i * D + j / D] * (double)f->w[i * D + j % D] / (SEEDS * M);
            double predicted = (second - expected * expected) / M;
            assert_close(bo_features_variance(f, pair, pair + D), predicted, 1e-6 * predicted); /* R in float */
            bo_features_destroy(f);
        }
        assert_close(mean, expected, z_limit * deviation);
        for (size_t i = 0; i < D; i++)
            for (size_t j = 0; j < D; j++) {
                double size = roots[i] * roots[j]; /* Var w_i w_j = Σ_i Σ_j (1 + [i = j]) */
                assert_close(covariance[i * D + j], i == j ? size : 0, z_limit * size * sqrt(2.0 / (SEEDS * M)));
            }
    }
    bo_context_destroy(context);
}

/* Over q, k ~ N(0, diag λ), the squared estimate of a frequency has mean weight⁴ Π exp(4λ w²/(1 + 2λ)) / (1 + 2λ),
 * which is the same number Π 1/(1 - 2λ) for every w under the best proposal: it does not depend on the draw. */
static void the_best_proposal_leaves_no_variance_over_frequencies(void **state)
{
    (void)state;
    enum { M = 64 };
    const double lambda[D] = {0.4, 0.1, 0.02};
    bo_context *context = test_context(1);
    bo_features *f = positive(context, D, M, BO_DRAW_ORTHOGONAL, 3);
    double factor[D * D], expected = 0;
    best_for(lambda, factor);
    for (size_t j = 0; j < D; j++) expected -= log(1 - 2 * lambda[j]);
    assert_ok(context, bo_features_propose(context, f, factor));
    for (size_t i = 0; i < M; i++) {
        double second = 4 * f->offset[i], size = 0;
        for (size_t j = 0; j < D; j++) {
            double w = (double)f->w[i * D + j];
            second += 4 * lambda[j] * w * w / (1 + 2 * lambda[j]) - log(1 + 2 * lambda[j]);
            size += w * w;
        }
        assert_close(second, expected, 1e-6 * (1 + size)); /* R is rounded to float */
        assert_close((double)f->weights[i], exp(f->offset[i]), 1e-7 * exp(f->offset[i]));
    }
    bo_features_destroy(f);
    bo_context_destroy(context);
}

/* Mean and standard error of the squared estimate of single frequencies over Gaussian pairs, computed from features. */
static void second_moment(bo_context *context, const double *lambda, const double *factor, double *mean, double *error)
{
    enum { SEEDS = 2000, M = 64 };
    double sum = 0, squares = 0, n = (double)SEEDS;
    bo_rng rng = bo_rng_make(11, 11);
    for (size_t s = 0; s < SEEDS; s++) {
        bo_features *f = positive(context, D, M, BO_DRAW_IID, s);
        float x[2 * M * D], *z = malloc(2 * M * M * sizeof *z);
        double part = 0;
        for (size_t i = 0; i < 2 * M * D; i++) x[i] = (float)(sqrt(lambda[i % D]) * bo_rng_normal(&rng));
        if (factor) assert_ok(context, bo_features_propose(context, f, factor));
        assert_ok(context, bo_features_apply(context, f, &(bo_inputs){.rows = 2 * M, .x = x, .stride = D}, z, M));
        for (size_t i = 0; i < M; i++) { /* a different pair for each frequency */
            double estimate = M * (double)z[i * M + i] * (double)z[(M + i) * M + i];
            part += estimate * estimate / M;
        }
        sum += part / n;
        squares += part * part / n;
        free(z);
        bo_features_destroy(f);
    }
    *mean = sum;
    *error = sqrt((squares - sum * sum) / n);
}

/* λ is small enough that the fourth moment of the estimate exists, so that the standard error can be measured: 16λ/(1 +
 * 4λ) < 1/2. */
static void the_best_proposal_beats_the_isotropic_one(void **state)
{
    (void)state;
    const double lambda[D] = {0.03, 0.02, 0.005};
    bo_context *context = test_context(1);
    double factor[D * D], best = 1, isotropic = 1, mean[2], error[2];
    best_for(lambda, factor);
    for (size_t j = 0; j < D; j++) {
        best /= 1 - 2 * lambda[j];
        isotropic /= sqrt((1 + 2 * lambda[j]) * (1 - 6 * lambda[j]));
    }
    second_moment(context, lambda, NULL, &mean[0], &error[0]);
    second_moment(context, lambda, factor, &mean[1], &error[1]);
    assert_close(mean[0], isotropic, z_limit * error[0]);
    assert_close(mean[1], best, z_limit * error[1]);
    assert_true(mean[1] < mean[0]);
    bo_context_destroy(context);
}

/* Weights of 1e-47 and less are kept as logarithms, in float, in float64 and in log scales. */
static void tiny_weights_are_not_lost(void **state)
{
    (void)state;
    enum { WIDE = 64, M = 32 };
    bo_context *context = test_context(1);
    bo_features *f = positive(context, WIDE, M, BO_DRAW_ORTHOGONAL, 1);
    double factor[WIDE * WIDE] = {0}, x[WIDE], expected[M];
    float row[WIDE], z[M], log_scale;
    for (size_t j = 0; j < WIDE; j++) factor[j * WIDE + j] = sqrt(10);
    test_inputs(1, WIDE, row);
    for (size_t j = 0; j < WIDE; j++) x[j] = (double)row[j];
    assert_ok(context, bo_features_propose(context, f, factor));
    assert_ok(context, bo_features_apply_f64(context, f, 1, x, WIDE, expected, M));
    char *scratch = aligned_alloc(64, bo_features_block_bytes(f, 1) + 64);
    bo_features_block(f, 1, row, WIDE, z, M, &log_scale, scratch);
    double smallest_value = 0;
    for (size_t i = 0; i < M; i++) {
        double value = (double)z[i] * exp((double)log_scale);
        smallest_value = fmin(smallest_value, f->offset[i]);
        /* exponents of 200, from parts rounded at 2⁻²⁴ */
        assert_close(value, expected[i], 1e-4 * expected[i] + 1e-37 * exp((double)log_scale));
        assert_true(f->weights[i] > 0);
    }
    assert_true(smallest_value < -103); /* below the smallest float */
    free(scratch);
    bo_features_destroy(f);
    bo_context_destroy(context);
}

/* ---- in place ---------------------------------------------------------------------------------------------------- */

static bool same_features(bo_context *context, const bo_features *a, const bo_features *b, const float *x)
{
    static float za[SAMPLE_ROWS * 128], zb[SAMPLE_ROWS * 128];
    size_t length = a->desc.features;
    assert_ok(context, bo_features_apply(context, a, &(bo_inputs){.rows = SAMPLE_ROWS, .x = x, .stride = a->desc.dim},
                                         za, length));
    assert_ok(context, bo_features_apply(context, b, &(bo_inputs){.rows = SAMPLE_ROWS, .x = x, .stride = a->desc.dim},
                                         zb, length));
    return !memcmp(za, zb, SAMPLE_ROWS * length * sizeof *za);
}

static void check_redraw(bo_context *context, const bo_features_desc *map, void *user)
{
    const float *x = user;
    float scales[DIM] = {1, 2, 0.5f, 1.1f, 0.9f, 1};
    bo_features_desc desc = *map;
    bo_features *f, *other;
    desc.length_scales = scales;
    assert_ok(context, bo_features_create(context, &desc, &f));
    desc.seed = 77;
    assert_ok(context, bo_features_create(context, &desc, &other));
    bo_features *shared = bo_features_share(f);
    if (f->weights || f->landmarks) {
        assert_fails(context, BO_UNSUPPORTED, "the sample", bo_features_redraw(context, f, 77));
    } else {
        assert_ok(context, bo_features_redraw(context, f, 77));
        if (!same_features(context, f, other, x)) fail_msg("%s: a redraw is not a draw", map_name(map));
        assert_int_equal(bo_features_describe(f)->seed, 77);
        assert_true(bo_features_describe(f)->length_scales == f->length_scales);
    }
    bo_features_destroy(shared);
    bo_features_destroy(f);
    bo_features_destroy(other);
}

static void a_redraw_is_a_draw_with_that_seed(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    float x[SAMPLE_ROWS * DIM];
    test_inputs(1, SAMPLE_ROWS * DIM, x);
    assert_true(for_each_map(context, x, check_redraw, x) > 200);
    bo_context_destroy(context);
}

/* A redraw uses the proposal again, also after loading; without one it uses the original distribution. */
static void a_proposal_stays_with_the_map(void **state)
{
    (void)state;
    enum { M = 16 };
    const double roots[D] = {1.4, 1, 0.8};
    bo_context *context = test_context(1);
    bo_features *f = positive(context, D, M, BO_DRAW_ORTHOGONAL, 1);
    bo_features *loaded, *first = positive(context, D, M, BO_DRAW_ORTHOGONAL, 1);
    float x[SAMPLE_ROWS * D];
    double factor[D * D];
    char path[64];
    snprintf(path, sizeof path, "test_propose_%ld.safetensors", (long)getpid());
    test_inputs(1, SAMPLE_ROWS * D, x);
    skewed(roots, factor);
    assert_ok(context, bo_features_propose(context, f, factor));
    assert_false(same_features(context, f, first, x));
    assert_ok(context, bo_features_save(context, f, &(bo_sink){.path = path}));
    assert_ok(context, bo_features_load(context, &(bo_source){.path = path}, &loaded));
    assert_true(same_features(context, f, loaded, x));
    assert_ok(context, bo_features_redraw(context, f, 9));
    assert_false(same_features(context, f, loaded, x));
    assert_ok(context, bo_features_redraw(context, loaded, 9));
    assert_true(same_features(context, f, loaded, x));
    assert_ok(context, bo_features_redraw(context, f, 1));
    assert_ok(context, bo_features_propose(context, f, NULL));
    assert_true(same_features(context, f, first, x));
    assert_null(bo_features_importance(f));
    memset(loaded->proposal, 0, D * D * sizeof(float)); /* a file may contain anything */
    assert_ok(context, bo_features_save(context, loaded, &(bo_sink){.path = path}));
    bo_features_destroy(loaded);
    assert_fails(context, BO_FORMAT, "invalid feature map",
                 bo_features_load(context, &(bo_source){.path = path}, &loaded));
    unlink(path);
    bo_features_destroy(f);
    bo_features_destroy(first);
    bo_features_destroy(loaded);
    bo_context_destroy(context);
}

/* Frequencies selected from the candidates of a proposal: the mean over seeds is the kernel, in float64, in a block and
 * after loading; another draw needs the data again. */
static void choices_of_a_proposal_keep_the_kernel(void **state)
{
    (void)state;
    enum { SEEDS = 3000, M = 16, ROWS = 40 };
    const double roots[D] = {0.8, 1, 0.9}; /* not the best for this data, so that the selection matters */
    const float pair[2 * D] = {0.1f, -0.2f, 0.1f, 0.2f, 0.1f, -0.1f}; /* smaller than the data of the selection */
    bo_context *context = test_context(1);
    bo_features *map = positive(context, D, M, BO_DRAW_ORTHOGONAL, 1), *f, *loaded;
    float x[2 * ROWS * D], z[2 * M], block[2 * M], scales[2];
    double factor[D * D], wide[2 * D], exact[2 * M], sum = 0, squares = 0, dot = 0;
    char path[64], *scratch = aligned_alloc(64, bo_features_block_bytes(map, 2) + 64);
    bo_feature_sample q = {x, ROWS, D}, k = {x + ROWS * D, ROWS, D};
    test_inputs(1, 2 * ROWS * D, x);
    for (size_t i = 0; i < ROWS * D; i++) x[i] *= 1.5f; /* queries are larger than keys */
    for (size_t i = 0; i < 2 * D; i++) wide[i] = (double)pair[i];
    for (size_t j = 0; j < D; j++) dot += wide[j] * wide[D + j];
    skewed(roots, factor);
    for (uint64_t s = 0; s < SEEDS; s++) {
        bo_frequency_origin origin = {.seed = s, .factor = factor, .q = &q, .k = &k, .candidates = 4 * M};
        double value = 0;
        assert_ok(context, bo_features_like(context, map, &origin, &f));
        assert_ok(context, bo_features_apply(context, f, &(bo_inputs){.rows = 2, .x = pair, .stride = D}, z, M));
        for (size_t i = 0; i < M; i++) value += (double)z[i] * (double)z[M + i];
        sum += value / SEEDS;
        squares += value * value / SEEDS;
        if (s + 1 < SEEDS) bo_features_destroy(f);
    }
    assert_close(sum, exp(dot), z_limit * sqrt((squares - sum * sum) / SEEDS));
    assert_true(bo_features_resampled(f) && f->chosen && f->proposal);
    float smallest_value = 1e9f, largest_value = 0;
    for (size_t i = 0; i < M; i++)
        smallest_value = fminf(smallest_value, f->chosen[i]), largest_value = fmaxf(largest_value, f->chosen[i]);
    assert_true(largest_value > 2 * smallest_value);
    assert_true(isnan(bo_features_variance(f, pair, pair + D)));
    assert_true(bo_features_choice_variance(f, z, z + M) > 0 && bo_features_candidate_variance(f, pair, pair + D) > 0);
    assert_ok(context, bo_features_apply_f64(context, f, 2, wide, D, exact, M));
    bo_features_block(f, 2, pair, D, block, M, scales, scratch);
    for (size_t i = 0; i < 2 * M; i++) {
        assert_close((double)z[i], exact[i], 1e-5 * exact[i]);
        assert_close((double)block[i] * exp((double)scales[i / M]), exact[i], 1e-5 * exact[i]);
    }
    snprintf(path, sizeof path, "test_propose_choice_%ld.safetensors", (long)getpid());
    assert_ok(context, bo_features_save(context, f, &(bo_sink){.path = path}));
    assert_ok(context, bo_features_load(context, &(bo_source){.path = path}, &loaded));
    unlink(path);
    float again[2 * M];
    assert_ok(context, bo_features_apply(context, loaded, &(bo_inputs){.rows = 2, .x = pair, .stride = D}, again, M));
    assert_memory_equal(z, again, sizeof z);
    assert_fails(context, BO_UNSUPPORTED, "sampling optimal", bo_features_redraw(context, loaded, 3));
    assert_fails(context, BO_UNSUPPORTED, "sampling optimal", bo_features_propose(context, f, NULL));
    bo_features_destroy(loaded);
    bo_features_destroy(f);
    bo_features_destroy(map);
    free(scratch);
    bo_context_destroy(context);
}

static void mismatched_arguments_are_refused(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    float sample[SAMPLE_ROWS * DIM];
    double factor[DIM * DIM] = {0};
    test_inputs(1, SAMPLE_ROWS * DIM, sample);
    const struct {
        bo_kernel kernel;
        bo_function function;
        bo_draw draw;
        bo_sampling sampling;
        const char *expected_text;
    } refused[] = {
        {BO_KERNEL_RBF, BO_FUNCTION_SINCOS, BO_DRAW_IID, BO_SAMPLING_DRAWN, "function sincos and kernel rbf"},
        {BO_KERNEL_SOFTMAX, BO_FUNCTION_OPRF, BO_DRAW_IID, BO_SAMPLING_DRAWN, "function oprf"},
        {BO_KERNEL_SOFTMAX, BO_FUNCTION_POSITIVE, BO_DRAW_HADAMARD, BO_SAMPLING_DRAWN, "draw hadamard"},
        {BO_KERNEL_SOFTMAX, BO_FUNCTION_POSITIVE, BO_DRAW_IID, BO_SAMPLING_OPTIMAL, "sampling optimal"},
    };
    bo_features *f;
    for (size_t i = 0; i < DIM; i++) factor[i * DIM + i] = 1;
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        bo_features_desc desc =
            map_desc(refused[i].kernel, refused[i].function, refused[i].draw, refused[i].sampling, sample);
        assert_ok(context, bo_features_create(context, &desc, &f));
        assert_fails(context, BO_UNSUPPORTED, refused[i].expected_text, bo_features_propose(context, f, factor));
        bo_features_destroy(f);
    }
    f = positive(context, DIM, 16, BO_DRAW_IID, 1);
    bo_features *same = positive(context, DIM, 16, BO_DRAW_IID, 1);
    factor[3] = NAN;
    assert_fails(context, BO_INVALID, "row 0, column 3", bo_features_propose(context, f, factor));
    factor[3] = 0;
    factor[0] = 0;
    assert_fails(context, BO_NUMERIC, "singular", bo_features_propose(context, f, factor));
    assert_true(same_features(context, f, same, sample));
    factor[0] = 2;
    float dw[16 * DIM], dz[SAMPLE_ROWS * 16] = {0};
    assert_ok(context, bo_features_propose(context, f, factor));
    assert_fails(
        context, BO_UNSUPPORTED, "proposal",
        bo_features_backward(context, f, &(bo_inputs){.rows = SAMPLE_ROWS, .x = sample}, dz, 16, NULL, 0, NULL, dw));
    bo_features_destroy(f);
    bo_features_destroy(same);
    bo_context_destroy(context);
}

/* If memory runs out, the map does not change. */
static void any_allocation_may_fail(void **state)
{
    (void)state;
    counting c = {0};
    bo_context *context = counting_context(&c, 1);
    const double roots[D] = {1.4, 1, 0.8};
    double factor[D * D];
    float x[SAMPLE_ROWS * D];
    skewed(roots, factor);
    test_inputs(1, SAMPLE_ROWS * D, x);
    bo_features *f = positive(context, D, 16, BO_DRAW_IID, 1), *same = positive(context, D, 16, BO_DRAW_IID, 1);
    for (size_t k = 1;; k++) {
        size_t live = atomic_load(&c.live);
        c.fail_at = atomic_load(&c.calls) + k;
        bo_status status = bo_features_propose(context, f, factor);
        c.fail_at = 0;
        if (status == BO_OK) break;
        assert_int_equal(status, BO_MEMORY);
        assert_int_equal(atomic_load(&c.live), live);
        assert_true(same_features(context, f, same, x));
        assert_true(k < 100);
    }
    bo_features_destroy(f);
    bo_features_destroy(same);
    bo_context_destroy(context);
    assert_int_equal(atomic_load(&c.live), 0);
}

/* ---- leverage scores --------------------------------------------------------------------------------------------- */

/* They are computed from a matrix of the rows of the sample or of the features of the candidates, whichever is smaller.
 * A repeated sample with λ multiplied accordingly has the same scores, diag(cZᵀZ (cZᵀZ + cλI)⁻¹), by the other method:
 * the same frequencies are selected, with the same weights up to float32 rounding. */
static void leverage_scores_both_ways(void **state)
{
    (void)state;
    enum { ROWS = 12, TIMES = 9, M = 16, CANDIDATES = 40 };
    bo_context *context = test_context(1);
    static float sample[TIMES * ROWS * D], x[ROWS * D], few[ROWS * 2 * M], many[ROWS * 2 * M];
    test_inputs(31, ROWS * D, sample);
    for (size_t i = 1; i < TIMES; i++) memcpy(sample + i * ROWS * D, sample, ROWS * D * sizeof *sample);
    test_inputs(32, ROWS * D, x);
    for (uint64_t seed = 1; seed <= 5; seed++) {
        bo_features *f;
        bo_features_desc desc = {.kernel = BO_KERNEL_RBF,
                                 .function = BO_FUNCTION_SINCOS,
                                 .sampling = BO_SAMPLING_LEVERAGE,
                                 .dim = D,
                                 .features = 2 * M,
                                 .gamma = 0.8,
                                 .candidates = CANDIDATES,
                                 .leverage_lambda = 0.1,
                                 .sample = sample,
                                 .sample_rows = ROWS,
                                 .seed = seed};
        assert_ok(context, bo_features_create(context, &desc, &f));
        assert_ok(context, bo_features_apply(context, f, &(bo_inputs){.rows = ROWS, .x = x, .stride = D}, few, 2 * M));
        bo_features_destroy(f);
        desc.sample_rows *= TIMES, desc.leverage_lambda *= TIMES;
        assert_true(ROWS <= 2 * CANDIDATES && desc.sample_rows > 2 * CANDIDATES);
        assert_ok(context, bo_features_create(context, &desc, &f));
        assert_ok(context, bo_features_apply(context, f, &(bo_inputs){.rows = ROWS, .x = x, .stride = D}, many, 2 * M));
        bo_features_destroy(f);
        for (size_t i = 0; i < ROWS * 2 * M; i++) assert_close(many[i], few[i], 0x1p-22 * fabs((double)few[i]));
    }
    bo_context_destroy(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(leverage_scores_both_ways),
        cmocka_unit_test(proposals_keep_the_kernel),
        cmocka_unit_test(the_best_proposal_leaves_no_variance_over_frequencies),
        cmocka_unit_test(the_best_proposal_beats_the_isotropic_one),
        cmocka_unit_test(tiny_weights_are_not_lost),
        cmocka_unit_test(a_redraw_is_a_draw_with_that_seed),
        cmocka_unit_test(a_proposal_stays_with_the_map),
        cmocka_unit_test(choices_of_a_proposal_keep_the_kernel),
        cmocka_unit_test(mismatched_arguments_are_refused),
        cmocka_unit_test(any_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
