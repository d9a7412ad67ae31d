/* The table of kinds: every kind has a row, and rows agree with what is created, computed and refused; names parse
 * back. Expected values come from the table only (bo_attention_has, …), actual ones from bo_attention_create and
 * bo_attention_forward. */
#include <bochner/names.h>
#include "features/enums.h"
#include "features/facts.h"
#include "attention/enums.h"
#include "attention/kinds.h"
#include "testing.h"

enum { HEADS = 2, DIM = 4, TOKENS = 3, MAX_FLOATS = HEADS * DIM * DIM * TOKENS };

/* The minimal descriptor of a kind; kernel 0 means the default of the kind. */
static bo_attention_desc minimal_desc(bo_attention_kind kind, bo_kernel kernel)
{
    bo_attention_desc d = {.kind = kind, .heads = HEADS, .dim = DIM, .causal = true, .features = {.kernel = kernel}};
    const bool learned = kernel == (bo_kernel)0 && bo_attention_has(&d, BO_TRAIT_AFFINE);
    if (bo_attention_has(&d, BO_TRAIT_FEATURES) && !learned && bo_features_needs_length(&d.features))
        d.features.features = 16;
    return d;
}

static bo_status create_attention(bo_context *context, const bo_attention_desc *desc, bo_attention **out)
{
    const bo_status status = bo_attention_create(context, desc, out);
    if (status != BO_OK) assert_null(*out);
    return status;
}

static void expect(bo_context *context, const bo_attention_desc *d, bool expected, const char *what)
{
    bo_attention *attention;
    const bo_status status = create_attention(context, d, &attention);
    if ((status == BO_OK) != expected)
        fail_msg("kind %s, gate %s, kernel %s, %s: expected %s, found %s: %s", bo_attention_kind_name(d->kind),
                 bo_gate_name(d->gate), bo_kernel_name(d->features.kernel), what, expected ? "creation" : "refusal",
                 bo_status_string(status), status == BO_OK ? "" : bo_context_error(context));
    bo_attention_destroy(attention);
}

/* ---- rows -------------------------------------------------------------------------------------------------------- */

static void every_kind_has_a_row(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    for (int i = 0; i < BO_ATTENTION_COUNT; i++) {
        const bo_attention_kind kind = (bo_attention_kind)i;
        const bo_kind *row = bo_kind_of(kind);
        bo_attention_kind parsed = BO_ATTENTION_COUNT;
        assert_non_null(row->name);
        assert_non_null(row->engine);
        assert_string_equal(bo_attention_kind_name(kind), row->name);
        assert_true(bo_attention_kind_parse(row->name, &parsed));
        assert_int_equal(parsed, kind);
        assert_true(bo_attention_takes_gate(kind, BO_GATE_NONE));
        const bo_attention_desc d = minimal_desc(kind, (bo_kernel)0);
        expect(context, &d, true, "nothing else");
    }
    assert_null(bo_attention_kind_name(BO_ATTENTION_COUNT));
    assert_null(bo_attention_kind_name((bo_attention_kind)-1));
    assert_false(bo_attention_may(BO_ATTENTION_COUNT, ~0u));
    assert_false(bo_attention_takes_gate(BO_ATTENTION_COUNT, BO_GATE_NONE));
    assert_false(bo_attention_takes_kernel((bo_attention_kind)-1, BO_KERNEL_RBF));
    bo_context_destroy(context);
}

/* Every preset is a valid descriptor, and every kind has one. */
static void presets_are_kinds(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    bool named[BO_ATTENTION_COUNT] = {false};
    const char *name;
    for (size_t i = 0; (name = bo_enum_name(BO_ENUM_ATTENTION_PRESET, (int)i)); i++) {
        bo_attention_desc d = {.heads = HEADS, .dim = DIM};
        assert_true(bo_attention_preset(name, &d));
        named[d.kind] = true;
        assert_true(bo_attention_takes_gate(d.kind, d.gate));
        assert_int_equal(d.causal, d.gate != BO_GATE_NONE || bo_attention_has(&d, BO_TRAIT_CAUSAL));
        if (bo_attention_has(&d, BO_TRAIT_DRAWS) && bo_features_needs_length(&d.features)) d.features.features = 16;
        expect(context, &d, true, name);
    }
    for (int i = 0; i < BO_ATTENTION_COUNT; i++) assert_true(named[i]);
    bo_context_destroy(context);
}

/* ---- descriptors ------------------------------------------------------------------------------------------------- */

typedef struct field {
    const char *name;
    void (*set)(bo_attention_desc *d);
    bool (*accepts)(const bo_attention_desc *d); /* according to the table; the field is not set in d */
} field;

/* The kernel that is created. */
static bo_kernel kernel_of(const bo_attention_desc *d)
{
    return d->features.kernel ? d->features.kernel : bo_kind_of(d->kind)->default_kernel;
}

#define FIELD(stem, assignment, condition)                                                                             \
    static void set_##stem(bo_attention_desc *d)                                                                       \
    {                                                                                                                  \
        assignment;                                                                                                    \
    }                                                                                                                  \
    static bool accepts_##stem(const bo_attention_desc *d)                                                             \
    {                                                                                                                  \
        return condition;                                                                                              \
    }
#define HAS(trait) bo_attention_has(d, BO_TRAIT_##trait)

/* True if a rank adds M to the descriptor. */
static bool ranked(const bo_attention_desc *d)
{
    bo_attention_desc with_rank = *d;
    with_rank.rank = 2;
    return bo_attention_has(&with_rank, BO_TRAIT_MATRIX);
}

FIELD(scale, d->scale = 0.5, HAS(SCALE))
FIELD(window, d->window = 3, HAS(WINDOW))
FIELD(capacity, d->capacity = 9, HAS(CAPACITY))
FIELD(rank, d->rank = 2, HAS(MATRIX) || HAS(AFFINE) || ranked(d))
FIELD(temperature, d->temperature = 2, HAS(TEMPERATURE))
FIELD(power, d->power = 3, HAS(POWER))
FIELD(unit, d->unit = true, HAS(UNIT))
FIELD(clamp, d->clamp = 0.5, HAS(FEATURES))
FIELD(one_draw, d->one_draw = true, HAS(FEATURES))
FIELD(chunk, d->chunk = 16, bo_attention_kind_name(d->kind) != NULL)
FIELD(iterations, d->iterations = 3, HAS(ITERATIONS) && d->gate != BO_GATE_NONE)
FIELD(tolerance, d->tolerance = 1e-3, HAS(ITERATIONS) && d->gate != BO_GATE_NONE)
FIELD(proposal, d->proposal = BO_PROPOSAL_OPRF, HAS(PROPOSAL) && kernel_of(d) == BO_KERNEL_SOFTMAX)
FIELD(sampling, d->features.sampling = BO_SAMPLING_OPTIMAL,
      HAS(DRAWS) && bo_features_needs_length(&(bo_features_desc){.kernel = kernel_of(d)}))
FIELD(normalizer, d->normalizer = BO_NORMALIZER_NONE,
      HAS(MEMORY) || (HAS(UNNORMALIZED) && !bo_kernel_is_scaled(kernel_of(d))))

#define ROW(stem) {#stem, set_##stem, accepts_##stem}
static const field fields[] = {ROW(scale),      ROW(window),    ROW(capacity), ROW(rank),     ROW(temperature),
                               ROW(power),      ROW(unit),      ROW(clamp),    ROW(one_draw), ROW(chunk),
                               ROW(iterations), ROW(tolerance), ROW(proposal), ROW(sampling), ROW(normalizer)};
enum { FIELDS = sizeof fields / sizeof *fields };

/* Every pair of fields, with this kernel and gate. */
static void check_fields(bo_context *context, const bo_attention_desc *plain)
{
    const bool gate = bo_attention_takes_gate(plain->kind, plain->gate);
    for (size_t a = 0; a < FIELDS; a++)
        for (size_t b = a; b < FIELDS; b++) {
            bo_attention_desc d = *plain;
            char name[64];
            snprintf(name, sizeof name, "%s and %s", fields[a].name, fields[b].name);
            fields[a].set(&d);
            fields[b].set(&d);
            expect(context, &d, gate && fields[a].accepts(plain) && fields[b].accepts(plain), name);
        }
}

static void descriptors_are_accepted_as_the_table_states(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    /* the default of the kind, and a learned one */
    static const bo_kernel kernels[] = {BO_KERNEL_RBF, BO_KERNEL_HEDGEHOG};
    for (int kind = 0; kind < BO_ATTENTION_COUNT; kind++)
        for (size_t k = 0; k < 2; k++)
            for (int gate = 0; gate < BO_GATE_COUNT; gate++) {
                bo_attention_desc d = minimal_desc((bo_attention_kind)kind, kernels[k]);
                const bool mapped = bo_attention_has(&d, BO_TRAIT_FEATURES);
                if (kernels[k] && (!mapped || !bo_attention_takes_kernel(d.kind, kernels[k]))) continue;
                d.gate = (bo_gate)gate;
                expect(context, &d, bo_attention_takes_gate(d.kind, d.gate), "nothing else");
                check_fields(context, &d);
                d.causal = false;
                expect(context, &d, d.gate == BO_GATE_NONE && !bo_attention_has(&d, BO_TRAIT_CAUSAL), "not causal");
            }
    bo_context_destroy(context);
}

static void kernels_are_accepted_as_the_table_states(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    for (int kind = 0; kind < BO_ATTENTION_COUNT; kind++)
        for (int kernel = 1; kernel < BO_KERNEL_COUNT; kernel++) {
            const bo_attention_desc d = minimal_desc((bo_attention_kind)kind, (bo_kernel)kernel);
            if (!bo_attention_has(&d, BO_TRAIT_FEATURES) || kernel == BO_KERNEL_CUSTOM) continue;
            expect(context, &d, bo_attention_takes_kernel(d.kind, d.features.kernel), "a kernel");
            if (bo_attention_has(&d, BO_TRAIT_AFFINE))
                assert_true(bo_kernel_is_learned((bo_kernel)kernel) ||
                            !bo_attention_takes_kernel(d.kind, (bo_kernel)kernel));
        }
    bo_context_destroy(context);
}

/* A map has the given number of features if the number is free, else a fixed number. */
static void free_lengths_are_free(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    for (int kernel = 0; kernel < BO_KERNEL_COUNT; kernel++)
        for (int function = 0; function < BO_FUNCTION_COUNT; function++) {
            bo_features_desc d = {.kernel = (bo_kernel)kernel, .function = (bo_function)function, .dim = DIM};
            bo_features *map = NULL;
            if (kernel == BO_KERNEL_CUSTOM) continue;
            d.features = 12; /* = DIM (DIM + 1) / 2 + 2: not the size of any exact map */
            if (function == BO_FUNCTION_SELFTENSOR) d.features = 10;
            const bool free_length = bo_features_create(context, &d, &map) == BO_OK;
            bo_features_destroy(map), map = NULL;
            d.features = 0;
            const bool fixed_length = bo_features_create(context, &d, &map) == BO_OK;
            bo_features_destroy(map);
            if (!free_length && !fixed_length) continue; /* they do not combine */
            if (free_length == fixed_length || bo_features_needs_length(&d) != free_length)
                fail_msg("kernel %s, function %s: free %d, fixed %d", bo_kernel_name(d.kernel),
                         bo_function_name(d.function), free_length, fixed_length);
        }
    bo_context_destroy(context);
}

/* ---- inputs ------------------------------------------------------------------------------------------------------ */

static const float zeros[MAX_FLOATS],
    ones[MAX_FLOATS] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,
                        1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,
                        1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};

static void expect_forward(bo_context *context, const bo_attention *attention, const bo_attention_inputs *in,
                           bool expected, const char *what)
{
    float out[MAX_FLOATS];
    const bo_attention_desc *d = bo_attention_describe(attention);
    const bo_attention_shape shape = {.sequences = 1, .tokens = TOKENS};
    const bo_status status = bo_attention_forward_arrays(context, attention, &shape, in, NULL, NULL, out, NULL);
    if ((status == BO_OK) != expected)
        fail_msg("kind %s, gate %s, kernel %s, with %s: expected %s, found %s: %s", bo_attention_kind_name(d->kind),
                 bo_gate_name(d->gate), bo_kernel_name(d->features.kernel), what, expected ? "outputs" : "refusal",
                 bo_status_string(status), status == BO_OK ? "" : bo_context_error(context));
}

static void check_inputs(bo_context *context, const bo_attention *attention)
{
    const bo_attention_desc *d = bo_attention_describe(attention);
    const bool gated = d->gate == BO_GATE_CONVEX || d->gate == BO_GATE_DECAY || bo_attention_has(d, BO_TRAIT_CHANNELS);
    const bo_attention_inputs plain = {.q = ones, .k = ones, .v = ones, .log_gate = gated ? zeros : NULL};
    const unsigned affine = BO_TRAIT_AFFINE, matrix = BO_TRAIT_MATRIX | BO_TRAIT_AFFINE;
    bo_attention_inputs in = plain;
    bo_solves solves;
    expect_forward(context, attention, &in, true, "nothing else");
    in.log_gate = gated ? NULL : zeros;
    expect_forward(context, attention, &in, false, gated ? "no log_gate" : "log_gate");
#define TRY(member, value, condition)                                                                                  \
    in = plain, in.member = value, expect_forward(context, attention, &in, condition, #member)
    TRY(sigma, ones, bo_attention_has(d, BO_TRAIT_SIGMA));
    TRY(m, ones, bo_attention_has(d, matrix));
    TRY(m_k, ones, bo_attention_has(d, affine));
    TRY(bias, ones, bo_attention_has(d, affine));
    TRY(bias_k, ones, bo_attention_has(d, affine));
    TRY(mix, ones, bo_attention_has(d, BO_TRAIT_MIX));
    TRY(beta, ones, bo_attention_has(d, BO_TRAIT_BETA));
    TRY(lambda, ones, bo_attention_has(d, BO_TRAIT_LAMBDA));
    TRY(log_decay, zeros, d->gate == BO_GATE_FIXED);
    TRY(solves, &solves, bo_attention_has(d, BO_TRAIT_ITERATIONS));
}

static void inputs_are_accepted_as_the_table_states(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    static const bo_kernel kernels[] = {BO_KERNEL_RBF, BO_KERNEL_HEDGEHOG};
    for (int kind = 0; kind < BO_ATTENTION_COUNT; kind++)
        for (size_t k = 0; k < 2; k++)
            for (int gate = 0; gate < BO_GATE_COUNT; gate++) {
                bo_attention_desc d = minimal_desc((bo_attention_kind)kind, kernels[k]);
                const bool mapped = bo_attention_has(&d, BO_TRAIT_FEATURES);
                if (kernels[k] && (!mapped || !bo_attention_takes_kernel(d.kind, kernels[k]))) continue;
                if (!bo_attention_takes_gate(d.kind, (bo_gate)gate)) continue;
                d.gate = (bo_gate)gate;
                for (int rank = 0; rank < (ranked(&d) ? 2 : 1); rank++) {
                    bo_attention *attention;
                    d.rank = rank ? DIM : 0;
                    assert_ok(context, create_attention(context, &d, &attention));
                    check_inputs(context, attention);
                    bo_attention_destroy(attention);
                }
            }
    bo_context_destroy(context);
}

/* HYBRID has M if and only if its kernel is SOFTMAX, given or by default, and the rank is set; there is no default
 * rank. */
static void a_rank_adds_m_to_hybrid(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    static const bo_kernel kernels[] = {(bo_kernel)0, BO_KERNEL_SOFTMAX, BO_KERNEL_ELU, BO_KERNEL_HEDGEHOG};
    for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++)
        for (size_t rank = 0; rank <= DIM; rank++) {
            bo_attention_desc d = minimal_desc(BO_ATTENTION_HYBRID, kernels[i]);
            bo_attention *attention;
            d.rank = rank;
            assert_int_equal(bo_attention_has(&d, BO_TRAIT_MATRIX), i < 2 && rank > 0);
            assert_int_equal(bo_attention_has(&d, BO_TRAIT_AFFINE), i == 3);
            expect(context, &d, i != 2 || rank == 0, "a rank");
            if (i == 2 && rank) continue;
            assert_ok(context, create_attention(context, &d, &attention));
            const bo_attention_desc *resolved = bo_attention_describe(attention);
            assert_int_equal(resolved->rank, i == 3 && !rank ? DIM : rank);
            assert_int_equal(resolved->features.dim, resolved->rank ? resolved->rank : DIM);
            assert_int_equal(bo_attention_traits(resolved), bo_attention_traits(&d));
            bo_attention_destroy(attention);
        }
    assert_true(bo_attention_may(BO_ATTENTION_HYBRID, BO_TRAIT_MATRIX));
    assert_false(bo_attention_may(BO_ATTENTION_FAVOR, BO_TRAIT_MATRIX));
    bo_context_destroy(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kind_has_a_row),
        cmocka_unit_test(presets_are_kinds),
        cmocka_unit_test(descriptors_are_accepted_as_the_table_states),
        cmocka_unit_test(kernels_are_accepted_as_the_table_states),
        cmocka_unit_test(free_lengths_are_free),
        cmocka_unit_test(inputs_are_accepted_as_the_table_states),
        cmocka_unit_test(a_rank_adds_m_to_hybrid),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
