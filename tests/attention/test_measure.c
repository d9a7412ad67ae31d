/* The comparison of attention: outputs with those of softmax and of the kernel, and single kernel values with features.
 * Checked where the result is known: softmax attention, exact maps, variances. */
#include <bochner/attention.h>
#include "features/enums.h"
#include "attention/enums.h"
#include "attention/internal.h"
#include "testing.h"

enum { HEADS = 4, KEY_HEADS = 2, TOKENS = 150, DIM = 8, VALUES = 5 };

typedef struct data {
    float q[HEADS * TOKENS * DIM], k[KEY_HEADS * TOKENS * DIM], v[KEY_HEADS * TOKENS * VALUES];
    float log_gate[KEY_HEADS * TOKENS], sigma[KEY_HEADS * DIM], m[KEY_HEADS * 3 * DIM], mix[HEADS];
    float m_k[KEY_HEADS * 3 * DIM], bias[KEY_HEADS * 3], bias_k[KEY_HEADS * 3], log_decay[KEY_HEADS];
    float channel_gate[KEY_HEADS * TOKENS * DIM];
    float out[HEADS * TOKENS * VALUES];
} data;

static data *make_data(double size)
{
    data *d = calloc(1, sizeof *d);
    bo_rng rng = bo_rng_make(11, bo_rng_stream("test.compare", 0));
    for (size_t i = 0; i < HEADS * TOKENS * DIM; i++) d->q[i] = (float)(size * bo_rng_normal(&rng));
    for (size_t i = 0; i < KEY_HEADS * TOKENS * DIM; i++) d->k[i] = (float)(size * bo_rng_normal(&rng));
    for (size_t i = 0; i < KEY_HEADS * TOKENS * VALUES; i++) d->v[i] = (float)bo_rng_normal(&rng);
    for (size_t i = 0; i < KEY_HEADS * TOKENS; i++) d->log_gate[i] = (float)(0.2 * log(bo_rng_uniform(&rng)));
    for (size_t i = 0; i < KEY_HEADS * DIM; i++) d->sigma[i] = (float)(0.5 + bo_rng_uniform(&rng));
    for (size_t i = 0; i < KEY_HEADS * 3 * DIM; i++) d->m[i] = (float)bo_rng_normal(&rng) / 3;
    for (size_t i = 0; i < HEADS; i++) d->mix[i] = (float)(0.5 + bo_rng_uniform(&rng));
    for (size_t i = 0; i < KEY_HEADS * 3 * DIM; i++) d->m_k[i] = (float)bo_rng_normal(&rng) / 3;
    for (size_t i = 0; i < KEY_HEADS * 3; i++) d->bias[i] = (float)(0.3 + 0.2 * bo_rng_normal(&rng));
    for (size_t i = 0; i < KEY_HEADS * 3; i++) d->bias_k[i] = (float)(0.3 + 0.2 * bo_rng_normal(&rng));
    for (size_t i = 0; i < KEY_HEADS; i++) d->log_decay[i] = (float)(-0.02 - 0.2 * (double)i);
    for (size_t i = 0; i < KEY_HEADS * TOKENS * DIM; i++) d->channel_gate[i] = (float)(0.1 * log(bo_rng_uniform(&rng)));
    return d;
}

static bo_attention_desc base_desc(bo_attention_kind kind, bool causal)
{
    return (bo_attention_desc){.kind = kind,
                               .heads = HEADS,
                               .key_heads = KEY_HEADS,
                               .dim = DIM,
                               .value_dim = VALUES,
                               .causal = causal,
                               .features = {.features = 64, .seed = 5}};
}

static bo_attention *create_attention(bo_context *context, const bo_attention_desc *desc)
{
    bo_attention *attention = NULL;
    assert_ok(context, bo_attention_create(context, desc, &attention));
    return attention;
}

static const bo_attention_shape one_sequence = {.sequences = 1, .tokens = TOKENS};

static bo_attention_accuracy compare(bo_context *context, const bo_attention_desc *desc,
                                     const bo_attention_shape *shape, const bo_attention_inputs *in, size_t queries)
{
    bo_attention *attention = create_attention(context, desc);
    bo_attention_accuracy error;
    assert_ok(context, bo_attention_measure_arrays(context, attention, shape, in, NULL, queries, &error));
    bo_attention_destroy(attention);
    return error;
}

/* ---- softmax attention ------------------------------------------------------------------------------------------- */

/* Float outputs of a softmax over at most 150 keys: 1e-5 is far above rounding errors and far below the effect of a
 * bug. */
static void exact_attention_is_exact(void **state)
{
    (void)state;
    bo_context *context = test_context(2);
    data *d = make_data(1.5);
    bo_attention_inputs in = {.q = d->q, .k = d->k, .v = d->v};
    for (int causal = 0; causal < 2; causal++) {
        bo_attention_desc desc = base_desc(BO_ATTENTION_SOFTMAX, causal);
        bo_attention_accuracy e = compare(context, &desc, &one_sequence, &in, 0);
        assert_int_equal(e.queries, 128);
        assert_true(e.against_softmax < 1e-5 && e.against_kernel < 1e-5);
        assert_true(isnan(e.kernel_rms) && isnan(e.kernel_error) && isnan(e.kernel_predicted));
        assert_true(e.softmax_seconds > 0 && e.kind_seconds > 0);
        assert_true(e.softmax_bytes > 0 && e.kind_bytes == e.softmax_bytes);
    }
    /* with a window the function differs, and its kernel includes the window */
    bo_attention_desc desc = base_desc(BO_ATTENTION_SOFTMAX, true);
    desc.window = 7;
    bo_attention_accuracy e = compare(context, &desc, &one_sequence, &in, TOKENS);
    assert_true(e.against_softmax > 0.1 && e.against_kernel < 1e-5);
    free(d);
    bo_context_destroy(context);
}

/* Any output can be compared, not only that of forward: half of the output has an error of one half. */
static void errors_are_relative(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    data *d = make_data(1);
    bo_attention_inputs in = {.q = d->q, .k = d->k, .v = d->v};
    bo_attention_desc desc = base_desc(BO_ATTENTION_SOFTMAX, true);
    bo_attention *attention = create_attention(context, &desc);
    bo_attention_accuracy e;
    assert_ok(context, bo_attention_forward_arrays(context, attention, &one_sequence, &in, NULL, NULL, d->out, NULL));
    for (size_t i = 0; i < HEADS * TOKENS * VALUES; i++) d->out[i] *= 0.5f;
    assert_ok(context, bo_attention_measure_arrays(context, attention, &one_sequence, &in, d->out, 40, &e));
    assert_int_equal(e.queries, 40);
    assert_close(e.against_softmax, 0.5, 1e-5);
    assert_close(e.against_kernel, 0.5, 1e-5);
    bo_attention_destroy(attention);
    free(d);
    bo_context_destroy(context);
}

/* ---- exact maps -------------------------------------------------------------------------------------------------- */

/* TAYLOR, POLYNOMIAL (which may be negative), ELU and the column maps have φ(x)·φ(y) = k(x, y): the output equals that
 * of the kernel up to float rounding, with gates of every kind, without a normalizer, packed, in both layouts. */
static void exact_maps_match_their_kernel(void **state)
{
    (void)state;
    bo_context *context = test_context(2);
    data *d = make_data(0.4);
    const struct {
        bo_kernel kernel;
        int degree;
        bo_gate gate;
        bo_normalizer normalizer;
    } cases[] = {{BO_KERNEL_TAYLOR, 0, BO_GATE_NONE, BO_NORMALIZER_SUM},
                 {BO_KERNEL_TAYLOR, 0, BO_GATE_CONVEX, BO_NORMALIZER_SUM},
                 {BO_KERNEL_ELU, 0, BO_GATE_DECAY, BO_NORMALIZER_SUM},
                 {BO_KERNEL_ELU, 0, BO_GATE_CONVEX, BO_NORMALIZER_NONE},
                 {BO_KERNEL_POLYNOMIAL, 3, BO_GATE_DECAY, BO_NORMALIZER_NONE},
                 {BO_KERNEL_POLYNOMIAL, 2, BO_GATE_NONE, BO_NORMALIZER_SUM},
                 {BO_KERNEL_POLYNOMIAL, 2, BO_GATE_FIXED, BO_NORMALIZER_SUM},
                 {BO_KERNEL_LINEAR, 0, BO_GATE_FIXED, BO_NORMALIZER_NONE},
                 {BO_KERNEL_COSH, 0, BO_GATE_DECAY, BO_NORMALIZER_SUM},
                 {BO_KERNEL_RECTIFIER, 0, BO_GATE_NONE, BO_NORMALIZER_SUM}};
    size_t lengths[] = {1, 40, TOKENS - 41};
    const bo_attention_shape shapes[] = {
        one_sequence,
        {.sequences = 3, .tokens = TOKENS / 3},
        {.sequences = 3, .lengths = lengths},
        {.sequences = 3, .lengths = lengths, .layout = BO_LAYOUT_TOKENS_FIRST},
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++)
        for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
            bo_attention_desc desc = base_desc(BO_ATTENTION_LINEAR, true);
            bo_attention_inputs in = {.q = d->q, .k = d->k, .v = d->v};
            if (cases[c].gate == BO_GATE_FIXED)
                in.log_decay = d->log_decay;
            else if (cases[c].gate)
                in.log_gate = d->log_gate;
            desc.features = (bo_features_desc){.kernel = cases[c].kernel, .degree = cases[c].degree, .gamma = 0.7};
            desc.gate = cases[c].gate;
            desc.normalizer = cases[c].normalizer;
            bo_attention_accuracy e = compare(context, &desc, &shapes[s], &in, TOKENS);
            if (!(e.against_kernel < 1e-4)) fail_msg("case %zu, shape %zu: %g", c, s, e.against_kernel);
            assert_true(e.against_softmax > 0.005);
            assert_true(e.kernel_rms > 0 && e.kernel_error < 1e-5 && e.kernel_predicted == 0);
        }
    free(d);
    bo_context_destroy(context);
}

/* A softmax window with weights `mix` after an exact map; windows longer and shorter than some of the sequences. */
static void hybrids_match_their_kernel(void **state)
{
    (void)state;
    bo_context *context = test_context(2);
    data *d = make_data(0.6);
    size_t lengths[] = {5, 40, TOKENS - 45};
    bo_attention_shape packed = {.sequences = 3, .lengths = lengths};
    bo_attention_inputs in = {.q = d->q, .k = d->k, .v = d->v, .mix = d->mix};
    for (size_t window = 1; window <= 64; window *= 8)
        for (int s = 0; s < 2; s++) {
            bo_attention_desc desc = base_desc(BO_ATTENTION_HYBRID, true);
            desc.window = window;
            desc.features = (bo_features_desc){.kernel = BO_KERNEL_TAYLOR, .gamma = 0.3};
            bo_attention_accuracy e = compare(context, &desc, s ? &packed : &one_sequence, &in, TOKENS);
            if (!(e.against_kernel < 1e-4)) fail_msg("window %zu, shape %d: %g", window, s, e.against_kernel);
            assert_true(e.against_softmax > 0.005 && e.kernel_error < 1e-5);
        }
    for (int gate = 1; gate < BO_GATE_COUNT; gate++) {
        bo_attention_desc desc = base_desc(BO_ATTENTION_HYBRID, true);
        desc.window = 8;
        desc.gate = (bo_gate)gate;
        desc.features = (bo_features_desc){.kernel = gate == BO_GATE_DECAY ? BO_KERNEL_COSH : BO_KERNEL_TAYLOR};
        in.log_gate = gate == BO_GATE_FIXED ? NULL : d->log_gate;
        in.log_decay = gate == BO_GATE_FIXED ? d->log_decay : NULL;
        bo_attention_accuracy e = compare(context, &desc, &one_sequence, &in, TOKENS);
        if (!(e.against_kernel < 1e-4)) fail_msg("gate %d: %g", gate, e.against_kernel);
        desc.clamp = 0.5; /* in units of the running log scale */
        e = compare(context, &desc, &one_sequence, &in, TOKENS);
        if (!(e.against_kernel < 1e-4)) fail_msg("gate %d, clamped: %g", gate, e.against_kernel);
    }
    free(d);
    bo_context_destroy(context);
}

/* W and b for each side, or shared; also with a window. */
static void learned_maps_match_their_kernel(void **state)
{
    (void)state;
    static const bo_kernel kernels[] = {BO_KERNEL_COSH, BO_KERNEL_RECTIFIER};
    bo_context *context = test_context(2);
    data *d = make_data(0.7);
    for (size_t i = 0; i < 8; i++) {
        bo_attention_desc desc = base_desc(i & 2 ? BO_ATTENTION_HYBRID : BO_ATTENTION_LEARNED, true);
        desc.rank = 3, desc.window = i & 2 ? 9 : 0;
        desc.features = (bo_features_desc){.kernel = kernels[i % 2]};
        bo_attention_inputs in = {.q = d->q, .k = d->k, .v = d->v, .m = d->m, .bias = d->bias};
        if (i & 4) in.m_k = d->m_k, in.bias_k = d->bias_k;
        bo_attention_accuracy e = compare(context, &desc, &one_sequence, &in, TOKENS);
        if (!(e.against_kernel < 1e-4)) fail_msg("learned map %zu: %g", i, e.against_kernel);
        assert_true(e.against_softmax > 0.005 && e.kernel_rms > 0 && e.kernel_error < 1e-5);
    }
    free(d);
    bo_context_destroy(context);
}

/* |s q·k|^p is a closed form; there are no features to compare. */
static void powers_match_their_kernel(void **state)
{
    (void)state;
    static const double powers[] = {0.4, 1, 2, 3.5};
    bo_context *context = test_context(2);
    data *d = make_data(1.5);
    bo_attention_inputs in = {.q = d->q, .k = d->k, .v = d->v};
    for (size_t i = 0; i < 8; i++) {
        bo_attention_desc desc = base_desc(BO_ATTENTION_POWER, i % 2);
        desc.power = powers[i / 2], desc.window = i % 2 && i > 4 ? 11 : 0;
        bo_attention_accuracy e = compare(context, &desc, &one_sequence, &in, TOKENS);
        if (!(e.against_kernel < 1e-5)) fail_msg("power %g: %g", powers[i / 2], e.against_kernel);
        assert_true(e.against_softmax > 0.05 && isnan(e.kernel_error));
    }
    free(d);
    bo_context_destroy(context);
}

/* Kinds with a matrix state have no weights: they are compared with softmax only. */
static void memories_have_no_kernel(void **state)
{
    (void)state;
    static const bo_attention_kind kinds[] = {BO_ATTENTION_GLA, BO_ATTENTION_DELTA, BO_ATTENTION_RIDGE};
    bo_context *context = test_context(2);
    data *d = make_data(0.5);
    for (size_t i = 0; i < 6; i++) {
        bo_attention_desc desc = base_desc(kinds[i / 2], true);
        bo_attention_inputs in = {.q = d->q, .k = d->k, .v = d->v};
        desc.features.features = 0, desc.unit = true;
        if (i > 1 && i % 2) desc.gate = BO_GATE_DECAY, in.log_gate = d->log_gate;
        if (i <= 1) in.log_gate = d->channel_gate;
        bo_attention_accuracy e = compare(context, &desc, &one_sequence, &in, TOKENS);
        assert_true(isfinite(e.against_softmax) && e.against_softmax > 0.05 && isnan(e.against_kernel));
        assert_true(isnan(e.kernel_rms) && isnan(e.kernel_error) && isnan(e.kernel_predicted));
    }
    free(d);
    bo_context_destroy(context);
}

/* ---- random maps ------------------------------------------------------------------------------------------------- */

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* With m frequencies the error relative to the kind's kernel decreases as 1/√m: between 256 and 4096 by a factor of 4
 * (relative to any other kernel it would not decrease). Medians are used because denominators of signed features may be
 * close to 0. Independent draws: the mean of kernel_error² over thousands of pairs is kernel_predicted². Eight seeds
 * with two key heads each are 16 draws, whose errors vary by about 1/√(2·16), or twice that with the heavy tails of
 * positive features: within a factor of 1.6. */
static void check_near(bo_context *context, const bo_attention_desc *desc, const bo_attention_inputs *in)
{
    enum { SEEDS = 8 };
    bo_attention_desc few = *desc, many = *desc;
    double coarse[SEEDS], fine[SEEDS], measured = 0, predicted = 0;
    few.features.features = 256;
    many.features.features = 4096;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        few.features.seed = many.features.seed = seed;
        bo_attention_accuracy e = compare(context, &few, &one_sequence, in, TOKENS);
        coarse[seed] = e.against_kernel;
        e = compare(context, &many, &one_sequence, in, TOKENS);
        fine[seed] = e.against_kernel;
        measured += e.kernel_error * e.kernel_error;
        predicted += e.kernel_predicted * e.kernel_predicted;
    }
    qsort(coarse, SEEDS, sizeof *coarse, ascending);
    qsort(fine, SEEDS, sizeof *fine, ascending);
    double fall = coarse[SEEDS / 2] / fine[SEEDS / 2], excess = sqrt(measured / predicted);
    if (!(fall > 4 / 1.6 && fall < 4 * 1.6) || !(excess > 1 / 1.6 && excess < 1.6))
        fail_msg("%s, %s: from its own kernel %g and %g, of single values %g, predicted %g",
                 bo_attention_kind_name(desc->kind), bo_function_name(desc->features.function), coarse[SEEDS / 2],
                 fine[SEEDS / 2], sqrt(measured / SEEDS), sqrt(predicted / SEEDS));
}

static void kinds_match_their_kernel(void **state)
{
    (void)state;
    bo_context *context = test_context(2);
    data *d = make_data(0.5);
    bo_attention_inputs in = {.q = d->q, .k = d->k, .v = d->v};
    for (int causal = 0; causal < 2; causal++) {
        bo_attention_desc desc = base_desc(BO_ATTENTION_FAVOR, causal);
        desc.features = (bo_features_desc){.seed = 3, .draw = BO_DRAW_IID};
        check_near(context, &desc, &in);
        desc.features.function = BO_FUNCTION_SINCOS;
        check_near(context, &desc, &in);
        desc.features.function = BO_FUNCTION_HYPERBOLIC;
        check_near(context, &desc, &in);

        desc = base_desc(BO_ATTENTION_DARK, causal);
        desc.rank = 3;
        desc.features = (bo_features_desc){.seed = 4, .draw = BO_DRAW_IID};
        in.m = d->m;
        check_near(context, &desc, &in);
        desc.features.features = 512;
        assert_true(compare(context, &desc, &one_sequence, &in, 0).against_softmax > 0.1);
        in.m = NULL;

        desc = base_desc(BO_ATTENTION_RFA, causal);
        desc.temperature = 0.8;
        desc.features = (bo_features_desc){.seed = 4, .draw = BO_DRAW_IID};
        in.sigma = d->sigma;
        check_near(context, &desc, &in);
        desc.features.kernel = BO_KERNEL_ARCCOS;
        check_near(context, &desc, &in);
        in.sigma = NULL;
    }
    bo_attention_desc desc = base_desc(BO_ATTENTION_FAVOR, true);
    float lengths[DIM] = {1, 2, 0.8f, 1, 3, 1, 1, 1}; /* a kernel other than softmax */
    desc.features = (bo_features_desc){.length_scales = lengths, .draw = BO_DRAW_IID};
    check_near(context, &desc, &in);
    desc = base_desc(BO_ATTENTION_HYBRID, true);
    desc.window = 16;
    desc.features.draw = BO_DRAW_IID;
    in.mix = d->mix;
    check_near(context, &desc, &in);
    desc.rank = 3;
    in.m = d->m;
    check_near(context, &desc, &in);
    free(d);
    bo_context_destroy(context);
}

static void gates_and_random_maps(void **state)
{
    (void)state;
    bo_context *context = test_context(2);
    data *d = make_data(0.5);
    bo_attention_inputs in = {.q = d->q, .k = d->k, .v = d->v};
    for (int gate = 1; gate < BO_GATE_COUNT; gate++) {
        bo_attention_desc desc = base_desc(BO_ATTENTION_FAVOR, true);
        in.log_gate = gate == BO_GATE_FIXED ? NULL : d->log_gate;
        in.log_decay = gate == BO_GATE_FIXED ? d->log_decay : NULL;
        desc.gate = (bo_gate)gate;
        desc.features = (bo_features_desc){.seed = 3, .draw = BO_DRAW_IID};
        check_near(context, &desc, &in);
    }
    free(d);
    bo_context_destroy(context);
}

/* Nothing overflows: |q| = 30 gives weights of exp(±300) and more. Softmax attention is exact; features have large
 * errors, reported as finite numbers or INFINITY, never NaN. */
static void large_norms_are_reported(void **state)
{
    (void)state;
    bo_context *context = test_context(2);
    data *d = make_data(30 / sqrt(DIM));
    bo_attention_inputs in = {.q = d->q, .k = d->k, .v = d->v};
    bo_attention_desc desc = base_desc(BO_ATTENTION_SOFTMAX, true);
    bo_attention_accuracy e = compare(context, &desc, &one_sequence, &in, TOKENS);
    assert_true(e.against_softmax < 1e-3 && e.against_kernel < 1e-3);
    const bo_function functions[] = {BO_FUNCTION_POSITIVE, BO_FUNCTION_HYPERBOLIC, BO_FUNCTION_SINCOS};
    for (size_t i = 0; i < 3; i++) {
        desc = base_desc(BO_ATTENTION_FAVOR, true);
        desc.features.function = functions[i];
        e = compare(context, &desc, &one_sequence, &in, TOKENS);
        assert_true(isfinite(e.against_softmax) && e.against_softmax > 0.1);
        assert_true(e.kernel_rms > 1e20 && e.kernel_error > 0.1 && e.kernel_predicted > 1);
        assert_false(isnan(e.kernel_predicted));
    }
    free(d);
    bo_context_destroy(context);
}

static void custom(void *user, size_t rows, size_t frequencies, const float *u, size_t dim, const float *x,
                   size_t features, float *out)
{
    (void)user, (void)dim, (void)x;
    for (size_t r = 0; r < rows; r++)
        for (size_t i = 0; i < frequencies; i++) out[r * features + i] = 1 + tanhf(u[r * frequencies + i]);
}

static void unknown_values_are_nan(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    data *d = make_data(0.5);
    bo_attention_inputs in = {.q = d->q, .k = d->k, .v = d->v};
    bo_attention_desc desc = base_desc(BO_ATTENTION_LINEAR, true);
    desc.features = (bo_features_desc){.kernel = BO_KERNEL_CUSTOM, .features = 16, .custom = custom};
    bo_attention_accuracy e = compare(context, &desc, &one_sequence, &in, 0);
    assert_true(e.against_softmax > 0.01 && isnan(e.against_kernel));
    assert_true(isnan(e.kernel_rms) && isnan(e.kernel_error) && isnan(e.kernel_predicted));
    free(d);
    bo_context_destroy(context);
}

/* Cross attention with more queries than keys and with fewer. */
static void cross_attention(void **state)
{
    (void)state;
    bo_context *context = test_context(2);
    data *d = make_data(0.5);
    bo_attention_inputs in = {.q = d->q, .k = d->k, .v = d->v};
    for (int i = 0; i < 2; i++) {
        bo_attention_shape shape = {.sequences = 1, .tokens = i ? 20 : TOKENS, .key_tokens = i ? TOKENS : 20};
        bo_attention_desc desc = base_desc(BO_ATTENTION_LINEAR, false);
        desc.features = (bo_features_desc){.kernel = BO_KERNEL_TAYLOR};
        bo_attention_accuracy e = compare(context, &desc, &shape, &in, 0);
        assert_true(e.against_kernel < 1e-4 && e.against_softmax > 0.005);
        assert_int_equal(e.queries, i ? 20 : 128);
    }
    free(d);
    bo_context_destroy(context);
}

static void threads_do_not_matter(void **state)
{
    (void)state;
    data *d = make_data(0.7);
    bo_attention_inputs in = {.q = d->q, .k = d->k, .v = d->v};
    bo_attention_desc desc = base_desc(BO_ATTENTION_FAVOR, true);
    bo_attention_accuracy e[2];
    for (int i = 0; i < 2; i++) {
        bo_context *context = test_context(i ? 3 : 1);
        e[i] = compare(context, &desc, &one_sequence, &in, 50);
        bo_context_destroy(context);
    }
    assert_true(e[0].against_softmax == e[1].against_softmax && e[0].against_kernel == e[1].against_kernel);
    assert_true(e[0].kernel_error == e[1].kernel_error && e[0].kernel_predicted == e[1].kernel_predicted);
    free(d);
}

static void nonsense_is_refused(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    data *d = make_data(0.7);
    bo_attention_inputs in = {.q = d->q, .k = d->k, .v = d->v};
    bo_attention_desc desc = base_desc(BO_ATTENTION_FAVOR, false);
    bo_attention *attention = create_attention(context, &desc);
    bo_attention_shape no_keys = {.sequences = 1, .tokens = TOKENS, .no_keys = true};
    bo_attention_accuracy e;
    assert_fails(context, BO_INVALID, "keys",
                 bo_attention_measure_arrays(context, attention, &no_keys, &in, NULL, 0, &e));
    assert_fails(context, BO_INVALID, "NULL", bo_attention_measure_arrays(context, attention, NULL, &in, NULL, 0, &e));
    assert_fails(context, BO_INVALID, "NULL",
                 bo_attention_measure_arrays(context, attention, &one_sequence, NULL, NULL, 0, &e));
    d->q[3] = NAN;
    assert_int_equal(bo_attention_measure_arrays(context, attention, &one_sequence, &in, NULL, 0, &e), BO_NUMERIC);
    bo_attention_destroy(attention);
    free(d);
    bo_context_destroy(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exact_attention_is_exact),        cmocka_unit_test(errors_are_relative),
        cmocka_unit_test(exact_maps_match_their_kernel),   cmocka_unit_test(hybrids_match_their_kernel),
        cmocka_unit_test(learned_maps_match_their_kernel), cmocka_unit_test(powers_match_their_kernel),
        cmocka_unit_test(memories_have_no_kernel),         cmocka_unit_test(kinds_match_their_kernel),
        cmocka_unit_test(gates_and_random_maps),           cmocka_unit_test(large_norms_are_reported),
        cmocka_unit_test(unknown_values_are_nan),          cmocka_unit_test(cross_attention),
        cmocka_unit_test(threads_do_not_matter),           cmocka_unit_test(nonsense_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
