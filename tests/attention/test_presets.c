/* Every preset creates an attention with the properties that docs/reference/attention.md lists, and its results agree
 * with the reference. */
#include <bochner/names.h>
#include "attention/enums.h"
#include "verify.h"

enum { HEADS = 2, DIM = 6, VALUE = 3, FEATURES = 16 };

/* The descriptor after creation, and the floats of one key head in a state. */
typedef struct expected {
    const char *name;
    bo_attention_kind kind;
    bo_gate gate;
    bo_normalizer normalizer;
    bo_proposal proposal;
    bo_kernel kernel; /* with its function; zero if there is no map */
    bo_function function;
    size_t features, sums;
    double scale;
    bool causal, unit, counted; /* causal: only with a causal mask; counted: the number of features is an option */
} expected;

#define DEFAULT_SCALE 0.40824829046386302 /* 1/√DIM */

#define POSITIVE_FEATURES                                                                                              \
    .kernel = BO_KERNEL_SOFTMAX, .function = BO_FUNCTION_POSITIVE, .features = FEATURES,                               \
    .sums = FEATURES * (VALUE + 1), .scale = DEFAULT_SCALE, .counted = true

static const expected presets[] = {
    {.name = "softmax", .kind = BO_ATTENTION_SOFTMAX, .scale = DEFAULT_SCALE},
    {.name = "linear",
     .kind = BO_ATTENTION_LINEAR,
     .kernel = BO_KERNEL_ELU,
     .function = BO_FUNCTION_ELU,
     .features = DIM,
     .sums = DIM * (VALUE + 1)},
    {.name = "rfa",
     .kind = BO_ATTENTION_RFA,
     .kernel = BO_KERNEL_RBF,
     .function = BO_FUNCTION_SINCOS,
     .features = FEATURES,
     .sums = FEATURES * (VALUE + 1),
     .counted = true},
    {.name = "rfa-gate",
     .kind = BO_ATTENTION_RFA,
     .gate = BO_GATE_CONVEX,
     .kernel = BO_KERNEL_RBF,
     .function = BO_FUNCTION_SINCOS,
     .features = FEATURES,
     .sums = FEATURES * (VALUE + 1),
     .causal = true,
     .counted = true},
    {.name = "favor", .kind = BO_ATTENTION_FAVOR, POSITIVE_FEATURES},
    {.name = "favor++", .kind = BO_ATTENTION_FAVOR, .proposal = BO_PROPOSAL_OPRF, POSITIVE_FEATURES},
    {.name = "favor#", .kind = BO_ATTENTION_FAVOR, .proposal = BO_PROPOSAL_SDERF, POSITIVE_FEATURES},
    {.name = "dark", .kind = BO_ATTENTION_DARK, POSITIVE_FEATURES},
    {.name = "hybrid",
     .kind = BO_ATTENTION_HYBRID,
     .kernel = BO_KERNEL_SOFTMAX,
     .function = BO_FUNCTION_POSITIVE,
     .features = FEATURES,
     .sums = FEATURES * (VALUE + 1) + 64 * (DIM + VALUE),
     .scale = DEFAULT_SCALE,
     .causal = true,
     .counted = true},
    {.name = "poly",
     .kind = BO_ATTENTION_LINEAR,
     .kernel = BO_KERNEL_POLYNOMIAL,
     .function = BO_FUNCTION_POLYNOMIAL,
     .features = 28, /* C(8, 2) */
     .sums = 28 * (VALUE + 1)},
    {.name = "taylor",
     .kind = BO_ATTENTION_LINEAR,
     .kernel = BO_KERNEL_TAYLOR,
     .function = BO_FUNCTION_TAYLOR,
     .features = 28,
     .sums = 28 * (VALUE + 1)},
    {.name = "retention",
     .kind = BO_ATTENTION_LINEAR,
     .gate = BO_GATE_FIXED,
     .normalizer = BO_NORMALIZER_NONE,
     .kernel = BO_KERNEL_LINEAR,
     .function = BO_FUNCTION_IDENTITY,
     .features = DIM,
     .sums = DIM * (VALUE + 1),
     .causal = true},
    {.name = "hedgehog",
     .kind = BO_ATTENTION_LEARNED,
     .kernel = BO_KERNEL_COSH,
     .function = BO_FUNCTION_EXPONENTIAL,
     .features = 2 * DIM,
     .sums = 2 * DIM * (VALUE + 1)},
    {.name = "t2r",
     .kind = BO_ATTENTION_LEARNED,
     .kernel = BO_KERNEL_RECTIFIER,
     .function = BO_FUNCTION_RECTIFIER,
     .features = DIM,
     .sums = DIM * (VALUE + 1)},
    {.name = "power", .kind = BO_ATTENTION_POWER, .scale = DEFAULT_SCALE},
    {.name = "gla",
     .kind = BO_ATTENTION_GLA,
     .normalizer = BO_NORMALIZER_NONE,
     .sums = DIM * VALUE,
     .scale = DEFAULT_SCALE,
     .causal = true},
    {.name = "delta",
     .kind = BO_ATTENTION_DELTA,
     .normalizer = BO_NORMALIZER_NONE,
     .sums = DIM * VALUE,
     .scale = DEFAULT_SCALE,
     .causal = true,
     .unit = true},
    {.name = "gated-delta",
     .kind = BO_ATTENTION_DELTA,
     .gate = BO_GATE_DECAY,
     .normalizer = BO_NORMALIZER_NONE,
     .sums = DIM * VALUE,
     .scale = DEFAULT_SCALE,
     .causal = true,
     .unit = true},
    {.name = "ridge", .kind = BO_ATTENTION_RIDGE, .normalizer = BO_NORMALIZER_NONE, .sums = DIM * (VALUE + DIM)},
    {.name = "gated-ridge",
     .kind = BO_ATTENTION_RIDGE,
     .gate = BO_GATE_DECAY,
     .normalizer = BO_NORMALIZER_NONE,
     .sums = DIM * (VALUE + DIM),
     .causal = true},
};
enum { PRESETS = sizeof presets / sizeof *presets };

static bo_attention_desc desc_of(const expected *e)
{
    bo_attention_desc desc = {.heads = HEADS, .dim = DIM, .value_dim = VALUE, .features.seed = 4};
    if (e->counted) desc.features.features = FEATURES;
    if (!bo_attention_preset(e->name, &desc)) fail_msg("no preset %s", e->name);
    return desc;
}

static void names_match_the_header(void **state)
{
    (void)state;
    for (size_t i = 0; i < PRESETS; i++) assert_string_equal(bo_attention_preset_name(i), presets[i].name);
    assert_null(bo_attention_preset_name(PRESETS));
    assert_null(bo_attention_preset_name(SIZE_MAX));
}

static void descriptions_match_the_table(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    for (size_t i = 0; i < PRESETS; i++) {
        const expected *e = &presets[i];
        bo_attention_desc desc = desc_of(e);
        bo_attention *attention;
        assert_int_equal(desc.causal, e->causal);
        assert_ok(context, bo_attention_create(context, &desc, &attention));
        const bo_attention_desc *d = bo_attention_describe(attention);
        bool same = d->kind == e->kind && d->gate == e->gate && d->normalizer == e->normalizer &&
                    d->proposal == e->proposal && d->features.kernel == e->kernel &&
                    d->features.function == e->function && d->features.features == e->features &&
                    d->causal == e->causal && d->unit == e->unit && d->heads == HEADS && d->key_heads == HEADS;
        if (!same) fail_msg("%s does not have the descriptor of the table", e->name);
        if (e->scale > 0) assert_close(d->scale, e->scale, 1e-15);
        bool products = d->kind == BO_ATTENTION_LINEAR && e->kernel != BO_KERNEL_ELU;
        if (products) assert_close(d->features.gamma, DEFAULT_SCALE, 1e-15);
        size_t sums = e->sums ? e->sums : 4096 * (DIM + VALUE); /* explicit keys: the default capacity */
        if (bo_attention_state_gradient_floats(attention) != HEADS * sums)
            fail_msg("%s: a state of %zu numbers, expected %zu", e->name, bo_attention_state_gradient_floats(attention),
                     HEADS * sums);
        if (d->kind == BO_ATTENTION_POWER) assert_close(d->power, 2, 0);
        if (d->kind == BO_ATTENTION_RIDGE && d->gate) {
            assert_int_equal(d->iterations, DIM);
            assert_close(d->tolerance, 1e-6, 0);
        }
        bo_attention_destroy(attention);
    }
    bo_context_destroy(context);
}

/* A preset sets only the options that it defines. */
static void other_fields_stay(void **state)
{
    (void)state;
    for (size_t i = 0; i < PRESETS; i++) {
        bo_attention_desc before = {.kind = BO_ATTENTION_HYBRID,
                                    .heads = 3,
                                    .dim = 5,
                                    .gate = BO_GATE_CONVEX,
                                    .normalizer = BO_NORMALIZER_NONE,
                                    .proposal = BO_PROPOSAL_GAUSSIAN,
                                    .causal = !presets[i].causal,
                                    .unit = !presets[i].unit,
                                    .scale = 7,
                                    .window = 9,
                                    .chunk = 11,
                                    .features = {.kernel = BO_KERNEL_CAUCHY, .features = 13, .seed = 15}};
        bo_attention_desc after = before;
        assert_true(bo_attention_preset(presets[i].name, &after));
        bool decided = after.kind == presets[i].kind && after.gate == presets[i].gate &&
                       after.normalizer == presets[i].normalizer && after.proposal == presets[i].proposal &&
                       after.unit == presets[i].unit && after.causal && after.features.kernel != BO_KERNEL_CAUCHY;
        bool kept = after.heads == 3 && after.dim == 5 && after.scale == 7 && after.window == 9 && after.chunk == 11 &&
                    after.features.features == 13 && after.features.seed == 15;
        if (!decided || !kept) fail_msg("%s: decided %d, kept the others %d", presets[i].name, decided, kept);
    }
}

static void other_names_change_nothing(void **state)
{
    (void)state;
    static const char *const unknown[] = {"", "favor+++", "favor ++", "learned", "exact ", " exact", "ridges"};
    bo_attention_desc before = {.heads = 3, .dim = 5, .kind = BO_ATTENTION_DARK}, after = before;
    for (size_t i = 0; i < sizeof unknown / sizeof *unknown; i++)
        if (bo_attention_preset(unknown[i], &after)) fail_msg("'%s' is a preset", unknown[i]);
    assert_false(bo_attention_preset(NULL, &after));
    assert_memory_equal(&before, &after, sizeof before);
    assert_true(bo_attention_preset("FAVOR#", &after) && after.proposal == BO_PROPOSAL_SDERF);
    assert_true(bo_attention_preset("Gated_Delta", &after) && after.gate == BO_GATE_DECAY);
}

static void aliases_stand_for_presets(void **state)
{
    (void)state;
    static const char *const pairs[][2] = {{"exact", "softmax"},    {"Performer", "favor"},
                                           {"favor+", "favor"},     {"darkformer", "dark"},
                                           {"retnet", "retention"}, {"linear_transformer", "linear"},
                                           {"deltanet", "delta"},   {"gated-deltanet", "gated-delta"}};
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        bo_attention_desc by_alias = {0}, by_name = {0};
        assert_string_equal(bo_attention_preset_find(pairs[i][0]), pairs[i][1]);
        const int index = bo_enum_parse(BO_ENUM_ATTENTION_PRESET, pairs[i][0]);
        assert_string_equal(bo_enum_name(BO_ENUM_ATTENTION_PRESET, index), pairs[i][1]);
        assert_true(bo_attention_preset(pairs[i][0], &by_alias) && bo_attention_preset(pairs[i][1], &by_name));
        assert_memory_equal(&by_alias, &by_name, sizeof by_name);
    }
    bo_attention_kind kind = BO_ATTENTION_RIDGE;
    assert_true(bo_attention_kind_parse("exact", &kind) && kind == BO_ATTENTION_SOFTMAX);
    assert_int_equal(bo_enum_parse(BO_ENUM_ATTENTION_PRESET, "exact "), -1);
    assert_null(bo_attention_preset_find("exact "));
    assert_null(bo_attention_preset_find(NULL));
}

/* A descriptor from a preset has the name of the preset, also after its defaults are resolved. */
static void descriptors_have_the_names_of_presets(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    for (size_t i = 0; i < PRESETS; i++) {
        const char *name = presets[i].name;
        bo_attention_desc desc = desc_of(&presets[i]);
        bo_attention *attention;
        assert_string_equal(bo_attention_name(&desc), name);
        assert_ok(context, bo_attention_create(context, &desc, &attention));
        assert_string_equal(bo_attention_name(bo_attention_describe(attention)), name);
        bo_attention_destroy(attention);
    }
    assert_string_equal(bo_attention_name(&(bo_attention_desc){.kind = BO_ATTENTION_RFA, .gate = BO_GATE_FIXED}),
                        "rfa");
    bo_context_destroy(context);
}

/* Forward, backward and a step of each preset. */
static void presets_agree_with_the_oracle(void **state)
{
    (void)state;
    bo_context *context = test_context(2);
    for (size_t i = 0; i < 2 * PRESETS; i++) {
        trial_desc desc = {.name = presets[i / 2].name,
                           .attention = desc_of(&presets[i / 2]),
                           .shape = {.sequences = 2, .tokens = 23},
                           .past = i % 2 ? 9 : 0,
                           .final_gradient = true,
                           .no_parameters = i % 2, /* the defaults */
                           .seed = i};
        desc.attention.causal |= i % 2;
        if (oracle_explicit(&desc.attention)) desc.attention.capacity = 64;
        trial t = trial_make(context, &desc);
        verify_trial(&t);
        trial_drop(&t);
    }
    bo_context_destroy(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_match_the_header),
        cmocka_unit_test(descriptions_match_the_table),
        cmocka_unit_test(other_fields_stay),
        cmocka_unit_test(other_names_change_nothing),
        cmocka_unit_test(presets_agree_with_the_oracle),
        cmocka_unit_test(aliases_stand_for_presets),
        cmocka_unit_test(descriptors_have_the_names_of_presets),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
