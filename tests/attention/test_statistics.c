/* Statistics over many draws: the kernel that attention uses has the target as its mean, and the variance that
 * bo_features_variance predicts. The kernel is read from states: a state that has absorbed a single key contains its
 * φ. */
#include "trial.h"

enum { HEADS = 2, WIDTH = 4, FEATURES = 32, PAIRS = 3, DRAWS = 2000 };

typedef struct estimator {
    const char *name;
    bo_attention_kind kind;
    bo_kernel kernel;
    bo_function function;
    bo_draw draw;
    size_t rank;
    bool variance; /* independent draws: the variance must be as predicted, not only the mean */
} estimator;

static const estimator estimators[] = {
    {.name = "favor", .kind = BO_ATTENTION_FAVOR, .draw = BO_DRAW_IID, .variance = true},
    {.name = "favor orthogonal", .kind = BO_ATTENTION_FAVOR, .draw = BO_DRAW_ORTHOGONAL},
    {.name = "favor hyperbolic",
     .kind = BO_ATTENTION_FAVOR,
     .function = BO_FUNCTION_HYPERBOLIC,
     .draw = BO_DRAW_IID,
     .variance = true},
    {.name = "favor oprf",
     .kind = BO_ATTENTION_FAVOR,
     .function = BO_FUNCTION_OPRF,
     .draw = BO_DRAW_IID,
     .variance = true},
    {.name = "favor sin/cos",
     .kind = BO_ATTENTION_FAVOR,
     .function = BO_FUNCTION_SINCOS,
     .draw = BO_DRAW_IID,
     .variance = true},
    {.name = "dark", .kind = BO_ATTENTION_DARK, .draw = BO_DRAW_IID, .variance = true},
    {.name = "dark of low rank", .kind = BO_ATTENTION_DARK, .draw = BO_DRAW_IID, .rank = 2, .variance = true},
    {.name = "dark orthogonal", .kind = BO_ATTENTION_DARK, .draw = BO_DRAW_ORTHOGONAL},
    {.name = "rfa", .kind = BO_ATTENTION_RFA, .draw = BO_DRAW_IID, .variance = true},
    {.name = "rfa orthogonal", .kind = BO_ATTENTION_RFA, .draw = BO_DRAW_ORTHOGONAL},
    {.name = "rfa arc-cosine",
     .kind = BO_ATTENTION_RFA,
     .kernel = BO_KERNEL_ARCCOS,
     .draw = BO_DRAW_IID,
     .variance = true},
    {.name = "hybrid beyond its window", .kind = BO_ATTENTION_HYBRID, .draw = BO_DRAW_IID, .variance = true},
    {.name = "linear rbf", .kind = BO_ATTENTION_LINEAR, .draw = BO_DRAW_IID, .variance = true},
    {.name = "linear softmax",
     .kind = BO_ATTENTION_LINEAR,
     .kernel = BO_KERNEL_SOFTMAX,
     .draw = BO_DRAW_IID,
     .variance = true},
};

static trial make_trial(bo_context *context, const estimator *e)
{
    trial_desc desc = {.name = e->name,
                       .attention = {.kind = e->kind,
                                     .heads = HEADS,
                                     .dim = WIDTH,
                                     .value_dim = 1,
                                     .causal = true,
                                     .scale = e->kind == BO_ATTENTION_RFA ? 0 : 0.7,
                                     .temperature = e->kind == BO_ATTENTION_RFA ? 0.8 : 0,
                                     .rank = e->rank,
                                     .window = e->kind == BO_ATTENTION_HYBRID ? 1 : 0,
                                     .features = {.kernel = e->kernel,
                                                  .function = e->function,
                                                  .draw = e->draw,
                                                  .features = FEATURES,
                                                  .pair_norm = e->function == BO_FUNCTION_OPRF ? 1 : 0,
                                                  .seed = 77}},
                       .shape = {.sequences = 1, .tokens = 2 * PAIRS},
                       .norm = 0.8, /* |x + y|² near one: the fourth moments of positive features are still small */
                       .seed = 12};
    return trial_make(context, &desc);
}

/* The argument of φ: row `token` of this key head, after σ and M. */
static void front(const trial *t, size_t head, size_t token, double *y)
{
    double x[WIDTH], sigma[WIDTH], m[WIDTH * WIDTH];
    for (size_t i = 0; i < WIDTH; i++) x[i] = (double)t->array[K][(head * 2 * PAIRS + token) * WIDTH + i];
    for (size_t i = 0; t->count[SIGMA] && i < WIDTH; i++) sigma[i] = (double)t->array[SIGMA][head * WIDTH + i];
    for (size_t i = 0; t->count[M] && i < t->d->rank * WIDTH; i++)
        m[i] = (double)t->array[M][head * t->d->rank * WIDTH + i];
    oracle_front f = oracle_front_make(t->d, t->count[SIGMA] ? sigma : NULL, t->count[M] ? m : NULL, NULL);
    oracle_noise none = {0};
    oracle_front_apply(&f, x, y, &none);
}

/* The kernel in closed form. */
static double target(const trial *t, size_t head, size_t pair)
{
    double x[WIDTH] = {0}, y[WIDTH] = {0}, dot = 0, distance = 0, nx = 0, ny = 0;
    front(t, head, 2 * pair, x);
    front(t, head, 2 * pair + 1, y);
    for (size_t i = 0; i < WIDTH; i++) {
        dot += x[i] * y[i];
        nx += x[i] * x[i], ny += y[i] * y[i];
        distance += (x[i] - y[i]) * (x[i] - y[i]);
    }
    double tau = t->d->kind == BO_ATTENTION_RFA ? t->d->temperature : 1;
    if (t->d->features.kernel == BO_KERNEL_SOFTMAX) return exp(0.7 * dot);
    if (t->d->kind == BO_ATTENTION_LINEAR) return exp(-0.7 * distance);
    if (t->d->features.kernel == BO_KERNEL_RBF) return exp(-distance / (2 * tau * tau));
    double theta = acos(dot / sqrt(nx * ny));
    return sqrt(nx * ny) * (sin(theta) + (acos(-1) - theta) * cos(theta)) / (2 * acos(-1)) / (tau * tau);
}

static double predicted_variance(const trial *t, size_t head, size_t pair)
{
    double x[WIDTH], y[WIDTH];
    float x32[WIDTH], y32[WIDTH];
    front(t, head, 2 * pair, x);
    front(t, head, 2 * pair + 1, y);
    for (size_t i = 0; i < t->d->features.dim; i++) x32[i] = (float)x[i], y32[i] = (float)y[i];
    return bo_features_variance(bo_attention_features(t->attention, head), x32, y32);
}

/* φ of a token of the key head, from a state that has absorbed only this token (and one more if a window keeps the
 * latest). */
static void read_features(const trial *t, void *state, size_t head, size_t token, double *phi)
{
    float k[2 * HEADS * WIDTH] = {0}, v[2 * HEADS] = {0}, q[2 * HEADS * WIDTH] = {0}, out[2 * HEADS], s[FEATURES],
                        z[FEATURES];
    double log_scale;
    bo_attention_shape shape = {.sequences = 1, .tokens = t->d->window ? 2 : 1, .layout = BO_LAYOUT_TOKENS_FIRST};
    bo_attention_inputs in = trial_inputs(t);
    memcpy(k + head * WIDTH, t->array[K] + (head * 2 * PAIRS + token) * WIDTH, WIDTH * sizeof *k);
    in.q = q, in.k = k, in.v = v;
    assert_ok(t->context, bo_attention_state_init(t->context, t->attention, state));
    assert_ok(t->context, bo_attention_extend(t->context, t->attention, &shape, &in, &state, out));
    assert_ok(t->context, bo_attention_state_get(t->context, t->attention, state, head, s, z, &log_scale));
    for (size_t f = 0; f < FEATURES; f++) phi[f] = exp(log_scale) * (double)z[f];
}

/* |mean - target| <= 5 standard errors: one in two million for a normal distribution, and there are a hundred of these
 * checks. The variance of DRAWS values with the kurtosis κ of a mean over FEATURES frequencies has the relative
 * deviation √((κ - 1) / DRAWS); κ is below 10 here, so a factor of 1 ± 0.4 is 5 deviations. */
static void check(bo_context *context, const estimator *e)
{
    trial t = make_trial(context, e);
    void *state = aligned_alloc(64, bo_attention_state_bytes(t.attention) / 64 * 64 + 64);
    double sum[HEADS * PAIRS] = {0}, squares[HEADS * PAIRS] = {0}, x[FEATURES], y[FEATURES];
    for (size_t draw = 1; draw <= DRAWS; draw++) {
        assert_ok(context, bo_attention_redraw(context, t.attention, draw));
        for (size_t i = 0; i < HEADS * PAIRS; i++) {
            read_features(&t, state, i / PAIRS, 2 * (i % PAIRS), x);
            read_features(&t, state, i / PAIRS, 2 * (i % PAIRS) + 1, y);
            double a = oracle_dot(FEATURES, x, y) - target(&t, i / PAIRS, i % PAIRS);
            sum[i] += a, squares[i] += a * a;
        }
    }
    for (size_t i = 0; i < HEADS * PAIRS; i++) {
        double truth = target(&t, i / PAIRS, i % PAIRS), variance = predicted_variance(&t, i / PAIRS, i % PAIRS);
        double error = sum[i] / DRAWS, found = squares[i] / DRAWS;
        if (!(fabs(error) <= 5 * sqrt(variance / DRAWS)))
            fail_msg("%s, head %zu, pair %zu: mean off by %.3g of %.4g, standard error %.3g", e->name, i / PAIRS,
                     i % PAIRS, error, truth, sqrt(variance / DRAWS));
        if (!(found <= 1.4 * variance) || (e->variance && !(found >= 0.6 * variance)))
            fail_msg("%s, head %zu, pair %zu: variance %.3g, predicted %.3g", e->name, i / PAIRS, i % PAIRS, found,
                     variance);
    }
    free(state);
    trial_drop(&t);
}

static void kernels_have_their_targets_as_means(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    for (size_t i = 0; i < sizeof estimators / sizeof *estimators; i++) check(context, &estimators[i]);
    bo_context_destroy(context);
}

/* Each key head has a separate draw unless one shared draw is requested. A draw does not depend on earlier draws. */
static void draws_differ_where_they_should(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    for (int one = 0; one < 2; one++) {
        bo_attention_desc desc = {.kind = BO_ATTENTION_FAVOR,
                                  .heads = 4,
                                  .key_heads = 2,
                                  .dim = 4,
                                  .one_draw = one,
                                  .features = {.features = 8, .seed = 3}};
        bo_attention *attention;
        float w[3][8 * 4], other[8 * 4];
        assert_ok(context, bo_attention_create(context, &desc, &attention));
        for (size_t draw = 0; draw < 3; draw++) {
            assert_ok(context, bo_attention_redraw(context, attention, draw));
            assert_ok(context, bo_features_get_frequencies(context, bo_attention_features(attention, 0), w[draw]));
            assert_ok(context, bo_features_get_frequencies(context, bo_attention_features(attention, 1), other));
            assert_int_equal(memcmp(w[draw], other, sizeof other) == 0, one);
        }
        assert_memory_not_equal(w[0], w[1], sizeof other);
        assert_memory_not_equal(w[1], w[2], sizeof other);
        assert_ok(context, bo_attention_redraw(context, attention, 1));
        assert_ok(context, bo_features_get_frequencies(context, bo_attention_features(attention, 0), other));
        assert_memory_equal(w[1], other, sizeof other);
        assert_null(bo_attention_features(attention, 2));
        bo_attention_destroy(attention);
        /* draw 0 is the draw of bo_attention_create */
        assert_ok(context, bo_attention_create(context, &desc, &attention));
        assert_ok(context, bo_features_get_frequencies(context, bo_attention_features(attention, 0), other));
        assert_memory_equal(w[0], other, sizeof other);
        bo_attention_destroy(attention);
    }
    bo_context_destroy(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kernels_have_their_targets_as_means),
        cmocka_unit_test(draws_differ_where_they_should),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
