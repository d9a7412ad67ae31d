/* Models of several widths: sizes do not depend on the width under the maximal-update parametrization, for every layer
 * and every optimizer, but do depend on it otherwise.
 *
 * Sizes that depend on the width grow at least like its root. Random parts decrease like one over the root, learned
 * parts are constant, and sizes are sums of both. So slopes must be below 1/4, half of the growing ones, and above
 * -1/2. */
#include <bochner/widths.h>
#include "optim/enums.h"
#include "nn/enums.h"
#include "base/counting.h"

enum { WIDTHS = 4 };
static const size_t widths[WIDTHS] = {16, 32, 64, 128};

static bo_widths_desc describe(bo_parametrization kind)
{
    bo_widths_desc desc = {.model = {.layers = 2,
                                     .width = 16,
                                     .block.heads = 2,
                                     .context = 16,
                                     .vocab = 64,
                                     .seed = 1,
                                     .parametrization = kind,
                                     .base_width = 16},
                           .widths = widths,
                           .width_count = WIDTHS,
                           .optimizer = {.kind = BO_OPTIMIZER_ADAMW},
                           .steps = 4};
    assert_true(bo_attention_preset("softmax", &desc.model.block.attention));
    return desc;
}

static bo_widths *check(bo_context *context, const bo_widths_desc *desc)
{
    bo_widths *w;
    assert_ok(context, bo_widths_measure(context, desc, &w));
    return w;
}

/* Largest and smallest slope over the parts after the last step. */
static void slope_range(const bo_widths *w, double *lowest, double *highest)
{
    *lowest = INFINITY, *highest = -INFINITY;
    for (size_t part = 0; part < w->parts; part++) {
        double slope = w->activations[w->steps * w->parts + part].slope;
        *lowest = fmin(*lowest, slope), *highest = fmax(*highest, slope);
    }
}

static void expect_flat(bo_context *context, const bo_widths_desc *desc, const char *name)
{
    double lowest, highest;
    bo_widths *w = check(context, desc);
    slope_range(w, &lowest, &highest);
    if (!(lowest > -0.5 && highest < 0.25))
        fail_msg("%s: slopes from %.2f to %.2f, expected none outside -1/2 and 1/4", name, lowest, highest);
    bo_widths_destroy(w);
}

static void flat_or_not(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    double lowest, highest;
    for (bo_parametrization kind = 0; kind < BO_PARAMETRIZATION_COUNT; kind++) {
        bo_widths_desc desc = describe(kind);
        if (kind) {
            expect_flat(context, &desc, bo_parametrization_name(kind));
            continue;
        }
        bo_widths *w = check(context, &desc);
        slope_range(w, &lowest, &highest);
        assert_true(highest > 0.5);
        for (size_t i = 0; i < w->matrices; i++) assert_true(w->changes[i].slope > 0.4);
        bo_widths_destroy(w);
    }
    bo_context_destroy(context);
}

static void every_optimizer(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    for (bo_optimizer_kind kind = 0; kind < BO_OPTIMIZER_COUNT; kind++) {
        bo_widths_desc desc = describe(BO_PARAMETRIZATION_MUP);
        desc.optimizer.kind = kind;
        if (kind == BO_OPTIMIZER_SGD) desc.steps = 10; /* short runs: at first the random part dominates */
        expect_flat(context, &desc, bo_optimizer_kind_name(kind));
    }
    bo_context_destroy(context);
}

static void every_mixer_and_mlp(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    for (bo_mixer mixer = 0; mixer < BO_MIXER_COUNT; mixer++) {
        bo_widths_desc desc = describe(BO_PARAMETRIZATION_MUP);
        desc.model.block.mixer = mixer;
        if (mixer != BO_MIXER_ATTENTION) memset(&desc.model.block.attention, 0, sizeof desc.model.block.attention);
        expect_flat(context, &desc, bo_mixer_name(mixer));
    }
    for (bo_mlp mlp = 0; mlp < BO_MLP_COUNT; mlp++) {
        bo_widths_desc desc = describe(BO_PARAMETRIZATION_MUP);
        desc.model.block.mlp = mlp;
        if (mlp == BO_MLP_NONE) continue; /* a part without effect has size 0 */
        expect_flat(context, &desc, bo_mlp_name(mlp));
    }
    bo_context_destroy(context);
}

static void layers_in_blocks(void **state)
{
    (void)state;
    static const char *const lists[] = {
        "[{\"type\": \"linear\", \"width\": 48}, {\"type\": \"gelu\"}, {\"type\": \"linear\", \"width\": 16}]",
        "[{\"type\": \"linear\", \"width\": 32, \"bias\": false}, {\"type\": \"norm\"}, {\"type\": \"mlp\", "
        "\"hidden\": 24}, {\"type\": \"linear\", \"width\": \"input\"}]",
        "[{\"type\": \"degree\", \"degree\": 2, \"width\": 24}, {\"type\": \"linear\", \"width\": \"input\"}]"};
    bo_context *context = test_context(1);
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        for (int residual = 0; residual < 2; residual++) {
            bo_widths_desc desc = describe(BO_PARAMETRIZATION_MUP);
            desc.model.block.layers = lists[i];
            desc.model.block.residual = residual ? BO_RESIDUAL_SANDWICH : BO_RESIDUAL_SEQUENTIAL;
            expect_flat(context, &desc, lists[i]);
        }
    bo_context_destroy(context);
}

/* Gates, σ, M, low rank, decays: parameters of attention other than projections. */
static void every_attention(void **state)
{
    (void)state;
    static const char *const presets[] = {"rfa-gate", "dark",      "hybrid",   "gla",
                                          "delta",    "retention", "hedgehog", "gated-ridge"};
    bo_context *context = test_context(1);
    for (size_t i = 0; i < sizeof presets / sizeof *presets; i++) {
        bo_widths_desc desc = describe(BO_PARAMETRIZATION_MUP);
        desc.model.block.attention = (bo_attention_desc){0};
        assert_true(bo_attention_preset(presets[i], &desc.model.block.attention));
        if (!strcmp(presets[i], "hybrid")) desc.model.block.attention.window = 5;
        if (i < 3) desc.model.block.attention.features.features = 16;
        desc.model.untied = i % 2;
        expect_flat(context, &desc, presets[i]);
    }
    bo_context_destroy(context);
}

/* |W|₂ and |ΔW|₂ over √(out/in). A random matrix has √in + √out times its standard deviation: a slope of 0 for hidden
 * ones; for the head, whose √out is constant, a slope between -1/2 and 0 that rises as the width exceeds the
 * vocabulary. */
static void spectral_condition(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    bo_widths_desc desc = describe(BO_PARAMETRIZATION_MUP);
    desc.model.untied = true;
    for (int muon = 0; muon < 2; muon++) {
        desc.optimizer.kind = muon ? BO_OPTIMIZER_MUON : BO_OPTIMIZER_ADAMW;
        bo_widths *w = check(context, &desc);
        for (size_t i = 0; i < w->matrices; i++) {
            const bo_widths_trend *norm = &w->norms[i], *change = &w->changes[i];
            bool zeros = norm->values[0] == 0; /* output projections start at zero */
            if (!zeros && !(norm->slope < 0.25 && norm->slope > -0.5))
                fail_msg("%s: slope %.2f of its norm", norm->name, norm->slope);
            if (!(change->slope < 0.25 && change->slope > -0.5))
                fail_msg("%s: slope %.2f of its change's norm", change->name, change->slope);
        }
        bo_widths_destroy(w);
    }
    bo_context_destroy(context);
}

/* At the base width everything equals the standard parametrization, bit by bit. */
static void base_is_standard(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    bo_widths_desc standard = describe(BO_PARAMETRIZATION_STANDARD), mup = describe(BO_PARAMETRIZATION_MUP);
    bo_widths *a = check(context, &standard), *b = check(context, &mup);
    for (size_t step = 0; step <= a->steps; step++) {
        assert_true(a->losses[step].values[0] == b->losses[step].values[0]);
        for (size_t part = 0; part < a->parts; part++)
            assert_true(a->activations[step * a->parts + part].values[0] ==
                        b->activations[step * b->parts + part].values[0]);
        if (step > 0) assert_true(a->losses[step].values[3] != b->losses[step].values[3]);
    }
    bo_widths_destroy(a);
    bo_widths_destroy(b);
    bo_context_destroy(context);
}

/* The last step, part and matrix have their trends. */
static void last_places(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    bo_widths_desc desc = describe(BO_PARAMETRIZATION_MUP);
    desc.width_count = 2, desc.steps = 1;
    bo_widths *w = check(context, &desc);
    const size_t steps = w->steps, parts = w->parts, matrices = w->matrices;
    assert_string_equal(w->losses[steps].name, "loss");
    assert_int_equal(steps, 1);
    assert_string_equal(w->activations[steps * parts + parts - 1].name, "logits");
    assert_string_equal(w->activations[parts - 1].name, "logits");
    assert_true(w->norms[matrices - 1].name == w->changes[matrices - 1].name);
    bo_widths_destroy(w);
    bo_widths_destroy(NULL);
    bo_context_destroy(context);
}

static void refusals(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    bo_widths_desc desc = describe(BO_PARAMETRIZATION_MUP);
    const size_t odd[] = {16, 20};
    bo_widths *w = (bo_widths *)&desc;
    desc.reserved[3] = 1;
    assert_fails(context, BO_INVALID, "reserved", bo_widths_measure(context, &desc, &w));
    assert_null(w);
    desc.reserved[3] = 0;
    desc.width_count = 1;
    assert_fails(context, BO_INVALID, "two widths", bo_widths_measure(context, &desc, &w));
    desc.widths = odd, desc.width_count = 2;
    assert_fails(context, BO_INVALID, "2 heads at width 16 would be 2.5 heads at width 20",
                 bo_widths_measure(context, &desc, &w));
    bo_context_destroy(context);
}

typedef struct setting {
    counting counted;
    bo_context *context;
    bo_widths_desc desc;
} setting;

static bo_status once(void *what)
{
    setting *s = what;
    bo_widths *w = (bo_widths *)s;
    bo_status status = bo_widths_measure(s->context, &s->desc, &w);
    bo_widths_destroy(w);
    return status;
}

/* For the base model, graphs, probes and norms. */
static void out_of_memory(void **state)
{
    (void)state;
    setting s = {.desc = describe(BO_PARAMETRIZATION_MUP)};
    s.context = counting_context(&s.counted, 1);
    s.desc.model.layers = 1, s.desc.model.context = 4, s.desc.width_count = 2, s.desc.steps = 1;
    counting_inject(&(injection){&s.counted, s.context, once, &s, 40, 37, "the sequences of a call"});
    bo_context_destroy(s.context);
    assert_true(s.counted.live == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(flat_or_not),      cmocka_unit_test(every_optimizer), cmocka_unit_test(every_mixer_and_mlp),
        cmocka_unit_test(layers_in_blocks), cmocka_unit_test(every_attention), cmocka_unit_test(spectral_condition),
        cmocka_unit_test(base_is_standard), cmocka_unit_test(last_places),     cmocka_unit_test(refusals),
        cmocka_unit_test(out_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
