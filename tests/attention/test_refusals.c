/* Invalid input is refused with a message that states what was expected and what was found. Nothing else changes. */
#include "attention/enums.h"
#include "refusals.h"

/* ---- descriptors ------------------------------------------------------------------------------------------------- */

typedef struct bad_desc {
    bo_status status;
    const char *one, *two; /* the message contains both */
    bo_attention_desc desc;
} bad_desc;

static const float ones[8] = {1, 1, 1, 1, 1, 1, 1, 1};

static const bad_desc bad_descs[] = {
    {BO_INVALID, "heads", "found 0", EXACT_(.dim = 8)},
    {BO_INVALID, "dim", "found 0", EXACT_(.heads = 4)},
    {BO_INVALID, "kind", "11", {.kind = BO_ATTENTION_COUNT, GOOD}},
    {BO_INVALID, "kind", "-1", {.kind = (bo_attention_kind)-1, GOOD}},
    {BO_INVALID, "heads = 4", "found 3", EXACT_(GOOD, .key_heads = 3)},
    {BO_INVALID, "heads = 4", "found 8", EXACT_(GOOD, .key_heads = 8)},
    {BO_INVALID, "heads", "found 18446744073709551615", EXACT_(.heads = SIZE_MAX, .dim = 8)},
    {BO_INVALID, "dim", "found 18446744073709551615", EXACT_(.heads = 1, .dim = SIZE_MAX)},
    {BO_INVALID, "value_dim", "found 18446744073709551615", EXACT_(GOOD, .value_dim = SIZE_MAX)},
    {BO_INVALID, "scale", "-1", EXACT_(GOOD, .scale = -1)},
    {BO_INVALID, "scale", "nan", FAVOR_(GOOD, .scale = NAN)},
    {BO_INVALID, "scale", "inf", FAVOR_(GOOD, .scale = INFINITY)},
    {BO_INVALID, "clamp", "-1", FAVOR_(GOOD, .clamp = -1)},
    {BO_INVALID, "clamp", "inf", FAVOR_(GOOD, .clamp = INFINITY)},
    {BO_INVALID, "temperature", "-2", RFA_(GOOD, .temperature = -2)},
    {BO_INVALID, "temperature 2", "favor", FAVOR_(GOOD, .temperature = 2)},
    {BO_INVALID, "scale", "rfa", RFA_(GOOD, .scale = 2)},
    {BO_INVALID, "gamma", "rfa", RFA_(GOOD, .features.gamma = 2)},
    {BO_INVALID, "rbf or arccos", "elu", RFA_(GOOD, .features.kernel = BO_KERNEL_ELU)},
    {BO_INVALID, "causal", "hybrid", HYBRID_(GOOD)},
    {BO_INVALID, "window 5", "causal", EXACT_(GOOD, .window = 5)},
    {BO_INVALID, "window 5", "favor", FAVOR_(GOOD, .window = 5, .causal = true)},
    {BO_INVALID, "window", "found 18446744073709551615", EXACT_(GOOD, .window = SIZE_MAX, .causal = true)},
    {BO_INVALID, "capacity", "found 18446744073709551615", EXACT_(GOOD, .capacity = SIZE_MAX)},
    {BO_INVALID, "capacity 7", "favor", FAVOR_(GOOD, .capacity = 7)},
    {BO_INVALID, "chunk", "found 18446744073709551615", FAVOR_(GOOD, .chunk = SIZE_MAX)},
    {BO_INVALID, "gate", "softmax", EXACT_(GOOD, .gate = BO_GATE_DECAY, .causal = true)},
    {BO_INVALID, "gate decay", "causal", FAVOR_(GOOD, .gate = BO_GATE_DECAY)},
    {BO_INVALID, "gate", "4", FAVOR_(GOOD, .gate = BO_GATE_COUNT)},
    {BO_INVALID, "normalizer", "2", FAVOR_(GOOD, .normalizer = BO_NORMALIZER_COUNT)},
    {BO_INVALID, "softmax", "normalizer", FAVOR_(GOOD, .normalizer = BO_NORMALIZER_NONE)},
    {BO_INVALID, "softmax", "normalizer", EXACT_(GOOD, .normalizer = BO_NORMALIZER_NONE)},
    {BO_INVALID, "dim = 8", "found 9", DARK_(GOOD, .rank = 9)},
    {BO_INVALID, "rank 2", "favor", FAVOR_(GOOD, .rank = 2)},
    {BO_INVALID, "must be 8", "found 9", LINEAR_(GOOD, .features.dim = 9)},
    {BO_INVALID, "must be 2", "found 8", DARK_(GOOD, .rank = 2, .features.dim = 8)},
    {BO_INVALID, "softmax", "elu", FAVOR_(GOOD, .features.kernel = BO_KERNEL_ELU)},
    {BO_INVALID, "scale = 2", "gamma = 3", FAVOR_(GOOD, .scale = 2, .features.gamma = 3)},
    {BO_INVALID, "found 2", "and 3", LINEAR_(GOOD, .scale = 2, .features.gamma = 3)},
    {BO_INVALID, "drawn", "leverage", FAVOR_(GOOD, .features.sampling = BO_SAMPLING_LEVERAGE)},
    {BO_INVALID,
     "multiple of 2",
     "found 17",
     {.kind = BO_ATTENTION_FAVOR, GOOD, .features = {.features = 17, .function = BO_FUNCTION_SINCOS}}},
    {BO_UNSUPPORTED, "relu", "softmax", FAVOR_(GOOD, .features.function = BO_FUNCTION_RELU)},
    {BO_INVALID, "features", "found 0", {.kind = BO_ATTENTION_FAVOR, GOOD}},
    {BO_INVALID, "exactly 8", "found 16", LINEAR_(GOOD, .features.kernel = BO_KERNEL_ELU)},
    {BO_INVALID, "kernel", "99", LINEAR_(GOOD, .features.kernel = (bo_kernel)99)},
    /* powers of |q·k|, polynomials */
    {BO_INVALID, "power", "-1", POWER_(GOOD, .power = -1)},
    {BO_INVALID, "power", "nan", POWER_(GOOD, .power = NAN)},
    {BO_INVALID, "power", "inf", POWER_(GOOD, .power = INFINITY)},
    {BO_INVALID, "power", "1e-46", POWER_(GOOD, .power = 1e-46)}, /* 0 in float32 */
    {BO_INVALID, "power", "1e-40", POWER_(GOOD, .power = 1e-40)},
    {BO_INVALID, "power", "1e+39", POWER_(GOOD, .power = 1e39)},
    {BO_INVALID, "power 3", "softmax", EXACT_(GOOD, .power = 3)},
    {BO_INVALID, "window 5", "causal", POWER_(GOOD, .window = 5)},
    {BO_INVALID, "gate", "power", POWER_(GOOD, .gate = BO_GATE_FIXED, .causal = true)},
    {BO_INVALID, "power", "normalizer", POWER_(GOOD, .normalizer = BO_NORMALIZER_NONE)},
    {BO_INVALID, "power", "proposal oprf", POWER_(GOOD, .proposal = BO_PROPOSAL_OPRF)},
    {BO_INVALID,
     "degree",
     "-1",
     {.kind = BO_ATTENTION_LINEAR, GOOD, .features = {.kernel = BO_KERNEL_POLYNOMIAL, .degree = -1}}},
    {BO_INVALID,
     "even",
     "3",
     {.kind = BO_ATTENTION_LINEAR,
      GOOD,
      .features = {.kernel = BO_KERNEL_POLYNOMIAL, .function = BO_FUNCTION_SELFTENSOR, .degree = 3, .features = 10}}},
    /* learned maps */
    {BO_INVALID, "learned", "elu", LEARNED_(GOOD, .features.kernel = BO_KERNEL_ELU)},
    {BO_INVALID, "scale", "learned", LEARNED_(GOOD, .scale = 2)},
    {BO_INVALID, "gamma", "3", LEARNED_(GOOD, .features.gamma = 3)},
    {BO_INVALID, "length scales", "learned", LEARNED_(GOOD, .features.length_scales = ones)},
    {BO_INVALID, "dim = 8", "found 9", LEARNED_(GOOD, .rank = 9)},
    {BO_INVALID, "must be 2", "found 8", LEARNED_(GOOD, .rank = 2, .features.dim = 8)},
    {BO_INVALID, "exactly 16", "found 8", LEARNED_(GOOD, .features.features = 8)},
    {BO_INVALID, "cosh", "normalizer", LEARNED_(GOOD, .normalizer = BO_NORMALIZER_NONE)},
    {BO_INVALID, "gate fixed", "causal", LEARNED_(GOOD, .gate = BO_GATE_FIXED)},
    {BO_INVALID, "temperature 2", "learned", LEARNED_(GOOD, .temperature = 2)},
    {BO_INVALID, "rank 2", "hybrid with the softmax kernel and a rank or a learned map",
     HYBRID_(GOOD, .causal = true, .rank = 2, .features.kernel = BO_KERNEL_ELU)},
    {BO_INVALID, "dim = 8", "found 9", HYBRID_(GOOD, .causal = true, .rank = 9)},
    {BO_INVALID, "must be 2", "found 8", HYBRID_(GOOD, .causal = true, .rank = 2, .features.dim = 8)},
    /* GLA, DELTA and RIDGE */
    {BO_INVALID, "gla", "causal", {.kind = BO_ATTENTION_GLA, GOOD}},
    {BO_INVALID, "delta", "causal", {.kind = BO_ATTENTION_DELTA, GOOD}},
    {BO_INVALID, "gate decay", "causal", {.kind = BO_ATTENTION_RIDGE, GOOD, .gate = BO_GATE_DECAY}},
    {BO_INVALID, "gla", "decay", GLA_(GOOD, .gate = BO_GATE_DECAY)},
    {BO_INVALID, "delta", "convex", DELTA_(GOOD, .gate = BO_GATE_CONVEX)},
    {BO_INVALID, "ridge", "fixed", RIDGE_(GOOD, .gate = BO_GATE_FIXED)},
    {BO_INVALID, "scale", "ridge", RIDGE_(GOOD, .scale = 2)},
    {BO_INVALID, "window 5", "delta", DELTA_(GOOD, .window = 5)},
    {BO_INVALID, "capacity 9", "ridge", RIDGE_(GOOD, .capacity = 9)},
    {BO_INVALID, "gla", "rank", GLA_(GOOD, .rank = 3)},
    {BO_INVALID, "delta", "temperature", DELTA_(GOOD, .temperature = 3)},
    {BO_INVALID, "clamp 0.5", "gla", GLA_(GOOD, .clamp = 0.5)},
    {BO_INVALID, "clamp 0.5", "softmax", EXACT_(GOOD, .clamp = 0.5)},
    {BO_INVALID, "one_draw", "delta", DELTA_(GOOD, .one_draw = true)},
    {BO_INVALID, "one_draw", "power", POWER_(GOOD, .one_draw = true)},
    {BO_INVALID, "unit", "favor", FAVOR_(GOOD, .unit = true)},
    {BO_INVALID, "iterations", "gate none", RIDGE_(GOOD, .iterations = 3)},
    {BO_INVALID, "tolerance", "delta", DELTA_(GOOD, .tolerance = 1e-3)},
    {BO_INVALID, "tolerance", "-1", RIDGE_(GOOD, .gate = BO_GATE_DECAY, .tolerance = -1)},
    {BO_INVALID, "iterations", "18446744073709551615", RIDGE_(GOOD, .gate = BO_GATE_DECAY, .iterations = SIZE_MAX)},
    /* frequencies from data */
    {BO_INVALID, "proposal", "4", FAVOR_(GOOD, .proposal = BO_PROPOSAL_COUNT)},
    {BO_INVALID, "proposal", "-1", FAVOR_(GOOD, .proposal = (bo_proposal)-1)},
    {BO_INVALID, "proposal sderf", "rfa", RFA_(GOOD, .proposal = BO_PROPOSAL_SDERF)},
    {BO_INVALID, "proposal oprf", "sincos",
     FAVOR_(GOOD, .proposal = BO_PROPOSAL_OPRF, .features.function = BO_FUNCTION_SINCOS)},
    {BO_INVALID, "proposal oprf", "kernel laplacian",
     HYBRID_(GOOD, .causal = true, .proposal = BO_PROPOSAL_OPRF, .features.kernel = BO_KERNEL_LAPLACIAN)},
    {BO_INVALID, "candidates", "found 4",
     FAVOR_(GOOD, .features.sampling = BO_SAMPLING_OPTIMAL, .features.candidates = 4)},
    {BO_INVALID, "4611686018427387904 candidates", "address space",
     FAVOR_(GOOD, .features.sampling = BO_SAMPLING_OPTIMAL, .features.candidates = (size_t)1 << 62)},
    {BO_MEMORY, "70368744177664 candidates", "but the limit is",
     FAVOR_(GOOD, .features.sampling = BO_SAMPLING_OPTIMAL, .features.candidates = (size_t)1 << 46)},
    {BO_INVALID, "proposal gaussian", "learned", LEARNED_(GOOD, .proposal = BO_PROPOSAL_GAUSSIAN)},
};

static void bad_descriptors_are_refused(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    for (size_t i = 0; i < sizeof bad_descs / sizeof *bad_descs; i++) {
        bo_attention *attention = (bo_attention *)&context;
        bo_status status = bo_attention_create(context, &bad_descs[i].desc, &attention);
        const char *message = bo_context_error(context);
        if (status != bad_descs[i].status || !strstr(message, bad_descs[i].one) || !strstr(message, bad_descs[i].two))
            fail_msg("descriptor %zu (%s, %s): %s, '%s'", i, bad_descs[i].one, bad_descs[i].two,
                     bo_status_string(status), message);
        assert_null(attention);
    }
    bo_attention *attention;
    assert_fails(context, BO_INVALID, "NULL", bo_attention_create(context, NULL, &attention));
    assert_fails(context, BO_INVALID, "argument 'out' is NULL", bo_attention_create(context, &bad_descs[0].desc, NULL));
    assert_fails(context, BO_INVALID, "argument 'attention' is NULL", bo_calibration_create(context, NULL, 0, NULL));
    assert_false(bo_attention_preset("ridge", NULL));
    bo_attention_destroy(NULL);
    bo_context_destroy(context);
}

/* An allocator with a limit of a gigabyte (a sanitizer's allocator would end the process instead). */
static void *small_allocator(void *user, size_t bytes)
{
    (void)user;
    return bytes > (size_t)1 << 30 ? NULL : aligned_alloc(64, (bytes + 63) / 64 * 64);
}

static void small_allocator_release(void *user, void *pointer)
{
    (void)user;
    free(pointer);
}

/* Features that exceed any memory. The message contains the numbers. */
static void sizes_beyond_memory_are_refused(void **state)
{
    (void)state;
    bo_context *context = NULL;
    bo_context_desc limited = {.threads = 1, .allocator = {small_allocator, small_allocator_release, NULL}};
    assert_int_equal(bo_context_create(&limited, &context), BO_OK);
    bo_attention *attention;
    bo_attention_desc many = {.kind = BO_ATTENTION_FAVOR, GOOD, .features.features = (size_t)1 << 44};
    assert_fails(context, BO_MEMORY, "17592186044416 features",
                 bo_attention_create(context, &many, &attention)); /* 2^44 x 8 floats */
    many.features.features = SIZE_MAX / 2;
    assert_fails(context, BO_INVALID, "9223372036854775807", bo_attention_create(context, &many, &attention));
    /* C(dim + p, p) features: more than the maximum, or with value_dim columns more than any host can hold */
    bo_attention_desc poly = {
        .kind = BO_ATTENTION_LINEAR, .heads = 1, .dim = 1 << 20, .features.kernel = BO_KERNEL_POLYNOMIAL};
    assert_fails(context, BO_INVALID, "1048576", bo_attention_create(context, &poly, &attention));
    poly.dim = 64, poly.features.degree = 30;
    assert_fails(context, BO_INVALID, "4194304", bo_attention_create(context, &poly, &attention));
    poly.dim = 2800, poly.value_dim = 1 << 20, poly.features.degree = 2;
    assert_fails(context, BO_MEMORY, "3924201 x 1048576", bo_attention_create(context, &poly, &attention));
    bo_attention_desc square = {.kind = BO_ATTENTION_RIDGE, .heads = 1, .dim = 1 << 20, .value_dim = 1, .causal = true};
    assert_fails(context, BO_MEMORY, "1048576", bo_attention_create(context, &square, &attention));
    assert_null(attention);
    bo_context_destroy(context);
}

/* If memory suffices for one map but not for one map per head, the maps are refused before any is drawn. */
static void maps_beyond_memory_are_refused(void **state)
{
    (void)state;
    bo_context *context = NULL;
    bo_context_desc limited = {.threads = 1, .allocator = {small_allocator, small_allocator_release, NULL}};
    assert_int_equal(bo_context_create(&limited, &context), BO_OK);
    bo_memory_bound limit;
    bo_context_memory(NULL, &limit);
    bo_attention *attention;
    bo_attention_desc many = {
        .kind = BO_ATTENTION_FAVOR, .heads = 8, .dim = 64, .features.features = limit.bytes / 1024};
    assert_fails(context, BO_MEMORY, "8 maps of", bo_attention_create(context, &many, &attention));
    many.one_draw = true;
    assert_fails(context, BO_MEMORY, "could not be allocated", bo_attention_create(context, &many, &attention));
    bo_context_destroy(context);
}

/* ---- calls ------------------------------------------------------------------------------------------------------- */

static void missing_arrays_are_refused(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    trial t = make_trial(context, (bo_attention_desc)FAVOR_(GOOD, .causal = true, .gate = BO_GATE_DECAY), 0);
    bo_attention_inputs good = trial_inputs(&t), in = good;
    float *out = t.array[OUT];
    in.q = NULL, refuse(&t, &in, BO_INVALID, "q", "NULL");
    in = good, in.k = NULL, refuse(&t, &in, BO_INVALID, "k", "NULL");
    in = good, in.v = NULL, refuse(&t, &in, BO_INVALID, "v", "NULL");
    in = good, in.log_gate = NULL, refuse(&t, &in, BO_INVALID, "decay", "log_gate");
    in = good, in.sigma = out, refuse(&t, &in, BO_INVALID, "sigma", "favor");
    in = good, in.m = out, refuse(&t, &in, BO_INVALID, "m applies", "favor");
    in = good, in.mix = out, refuse(&t, &in, BO_INVALID, "mix", "favor");
    refuse(&t, NULL, BO_INVALID, "inputs", "NULL");
    const bo_attention_shape *shape = &t.desc.shape;
    assert_fails(context, BO_INVALID, "NULL",
                 bo_attention_forward_arrays(context, t.attention, NULL, &good, NULL, NULL, out, NULL));
    assert_fails(context, BO_INVALID, "NULL",
                 bo_attention_forward_arrays(context, NULL, shape, &good, NULL, NULL, out, NULL));
    assert_fails(context, BO_INVALID, "out",
                 bo_attention_forward_arrays(context, t.attention, shape, &good, NULL, NULL, NULL, NULL));
    assert_fails(context, BO_INVALID, "states", bo_attention_extend(context, t.attention, shape, &good, NULL, out));
    assert_fails(context, BO_INVALID, "states", bo_attention_step(context, t.attention, 1, &good, NULL, out));
    assert_fails(context, BO_INVALID, "out", bo_attention_step(context, t.attention, 1, &good, t.final, NULL));
    assert_fails(context, BO_INVALID, "inputs", bo_attention_step(context, t.attention, 1, NULL, t.final, out));
    trial_drop(&t);
    t = make_trial(context, (bo_attention_desc)EXACT_(GOOD), 0);
    in = trial_inputs(&t), in.log_gate = t.array[OUT];
    refuse(&t, &in, BO_INVALID, "log_gate", "none");
    trial_drop(&t);
    bo_context_destroy(context);
}

static void bad_shapes_are_refused(void **state)
{
    (void)state;
    static const size_t lengths[] = {3, 7}, shorter[] = {3, 6};
    bo_context *context = test_context(1);
    trial t = make_trial(context, (bo_attention_desc)FAVOR_(GOOD, .causal = true), 0);
    bo_attention_inputs in = trial_inputs(&t);
    t.desc.shape.key_tokens = 4, refuse(&t, &in, BO_INVALID, "5 queries", "4 keys");
    t.desc.shape = (bo_attention_shape){.sequences = 2, .lengths = lengths, .key_lengths = shorter};
    refuse(&t, &in, BO_INVALID, "7 queries", "6 keys");
    t.desc.shape = (bo_attention_shape){.sequences = 2, .tokens = TOKENS, .key_lengths = lengths};
    refuse(&t, &in, BO_INVALID, "key_lengths", "lengths");
    t.desc.shape = (bo_attention_shape){.sequences = 2, .tokens = TOKENS, .layout = (bo_layout)2};
    refuse(&t, &in, BO_INVALID, "layout", "2");
    t.desc.shape = (bo_attention_shape){.sequences = 2, .tokens = SIZE_MAX / 2};
    refuse(&t, &in, BO_INVALID, "9223372036854775807", "4 heads");
    t.desc.shape = (bo_attention_shape){.sequences = 2, .tokens = TOKENS, .no_keys = true};
    refuse(&t, &in, BO_INVALID, "no keys", "given");
    in.k = in.v = NULL;
    refuse(&t, &in, BO_INVALID, "no keys", "initial states are required");
    in = trial_inputs(&t);
    t.desc.shape = (bo_attention_shape){.sequences = 2, .lengths = lengths, .key_tokens = 4};
    refuse(&t, &in, BO_INVALID, "key_tokens = 4", "lengths");
    size_t bytes;
    bo_attention_cost plan;
    t.desc.shape = (bo_attention_shape){.sequences = 2, .tokens = TOKENS, .key_tokens = 4};
    assert_fails(context, BO_INVALID, "4 keys", bo_attention_tape_bytes(context, t.attention, &t.desc.shape, &bytes));
    assert_fails(context, BO_INVALID, "4 keys",
                 bo_attention_estimate_arrays(context, t.attention, &t.desc.shape, &plan));
    t.desc.shape = (bo_attention_shape){.sequences = 2, .tokens = TOKENS};
    trial_drop(&t);
    bo_context_destroy(context);
}

/* NaN and infinity at the start, at the end and in the middle of each array: the message names sequence, head and
 * token. */
static void nonfinite_inputs_are_refused(void **state)
{
    (void)state;
    static const bo_attention_desc descs[] = {EXACT_(GOOD),
                                              EXACT_(GOOD, .causal = true, .window = 3),
                                              LINEAR_(GOOD, .causal = true),
                                              FAVOR_(GOOD),
                                              FAVOR_(GOOD, .causal = true),
                                              HYBRID_(GOOD, .causal = true, .window = 2),
                                              LEARNED_(GOOD),
                                              POWER_(GOOD, .causal = true),
                                              GLA_(GOOD),
                                              DELTA_(GOOD, .unit = true),
                                              DELTA_(GOOD, .gate = BO_GATE_DECAY),
                                              RIDGE_(GOOD),
                                              RIDGE_(GOOD, .gate = BO_GATE_DECAY, .unit = true)};
    static const float bad[] = {NAN, INFINITY, -INFINITY};
    bo_context *context = test_context(2);
    for (size_t i = 0; i < sizeof descs / sizeof *descs; i++) {
        trial t = make_trial(context, descs[i], 0);
        bo_attention_inputs in = trial_inputs(&t);
        for (size_t which = Q; which <= V; which++)
            for (size_t n = 0; n < 9; n++) {
                size_t at = n / 3 == 0 ? 0 : n / 3 == 1 ? t.count[which] - 1 : t.count[which] / 2 + 3;
                float kept = t.array[which][at];
                t.array[which][at] = bad[n % 3];
                char place[64];
                size_t row = at / t.d->dim, tokens = TOKENS, heads = 4;
                snprintf(place, sizeof place, "sequence %zu, head %zu, token %zu", row / tokens / heads,
                         row / tokens % heads, row % tokens);
                char name[16];
                snprintf(name, sizeof name, "%s is", trial_names[which]);
                refuse(&t, &in, BO_NUMERIC, place, name);
                t.array[which][at] = kept;
            }
        trial_drop(&t);
    }
    bo_context_destroy(context);
}

/* Keys without queries are checked before they are added to a state, and on failure the state does not change. */
static void keys_without_queries_are_checked(void **state)
{
    (void)state;
    static const bo_attention_desc descs[] = {EXACT_(GOOD, .capacity = 64), LINEAR_(GOOD), FAVOR_(GOOD),
                                              POWER_(GOOD, .capacity = 64), LEARNED_(GOOD)};
    bo_context *context = test_context(1);
    for (size_t i = 0; i < 5; i++)
        for (size_t which = K; which <= V; which++) {
            trial t = make_trial(context, descs[i], TOKENS);
            size_t bytes = bo_attention_state_bytes(t.attention);
            void *before = malloc(bytes);
            memcpy(before, t.initial[0], bytes);
            bo_attention_inputs in = trial_inputs(&t);
            bo_attention_shape shape = {.sequences = 2, .key_tokens = TOKENS};
            t.array[which][9] = NAN;
            in.q = NULL;
            assert_fails(context, BO_NUMERIC, "sequence 0, head 0, token 1",
                         bo_attention_extend(context, t.attention, &shape, &in, t.initial, NULL));
            assert_fails(context, BO_NUMERIC, "sequence 0, head 0, token 1",
                         bo_attention_forward_arrays(context, t.attention, &shape, &in, NULL, t.final, NULL, NULL));
            assert_memory_equal(before, t.initial[0], bytes);
            t.array[which][9] = 1;
            assert_ok(context, bo_attention_extend(context, t.attention, &shape, &in, t.initial, NULL));
            free(before);
            trial_drop(&t);
        }
    bo_context_destroy(context);
}

static void bad_parameters_are_refused(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    trial t = make_trial(context, (bo_attention_desc)FAVOR_(GOOD, .causal = true, .gate = BO_GATE_CONVEX), 0);
    bo_attention_inputs in = trial_inputs(&t);
    t.array[LOG_GATE][7] = 0.25F, refuse(&t, &in, BO_INVALID, "log_gate", "0.25");
    t.array[LOG_GATE][7] = NAN, refuse(&t, &in, BO_NUMERIC, "log_gate is nan", "sequence 0, head 1, token 2");
    t.array[LOG_GATE][7] = -INFINITY, refuse(&t, &in, BO_NUMERIC, "log_gate is -inf", "sequence 0, head 1, token 2");
    trial_drop(&t);
    t = make_trial(context, (bo_attention_desc)HYBRID_(GOOD, .causal = true), 0);
    in = trial_inputs(&t);
    t.array[MIX][2] = 0, refuse(&t, &in, BO_INVALID, "mix[2] is 0", "positive");
    t.array[MIX][2] = -1, refuse(&t, &in, BO_INVALID, "mix[2] is -1", "positive");
    t.array[MIX][2] = INFINITY, refuse(&t, &in, BO_NUMERIC, "mix[2] is inf", "finite");
    trial_drop(&t);
    t = make_trial(context, (bo_attention_desc)HYBRID_(GOOD, .causal = true), 0);
    in = trial_inputs(&t);
    in.m = t.array[Q], refuse(&t, &in, BO_INVALID,
                              "m applies only to kinds dark, hybrid with the softmax kernel and a rank", "kind hybrid");
    trial_drop(&t);
    t = make_trial(context, (bo_attention_desc)HYBRID_(GOOD, .causal = true, .rank = 3), 0);
    in = trial_inputs(&t);
    in.m_k = t.array[Q], refuse(&t, &in, BO_INVALID, "m_k applies only to kinds hybrid with a learned map", "hybrid");
    in.m_k = NULL;
    t.array[M][4 * 3 * 8 - 1] = INFINITY, refuse(&t, &in, BO_NUMERIC, "m[95]", "finite");
    trial_drop(&t);
    t = make_trial(context, (bo_attention_desc)RFA_(GOOD), 0);
    in = trial_inputs(&t);
    t.array[SIGMA][9] = NAN, refuse(&t, &in, BO_NUMERIC, "sigma[9]", "finite");
    trial_drop(&t);
    t = make_trial(context, (bo_attention_desc)DARK_(GOOD, .rank = 3), 0);
    in = trial_inputs(&t);
    t.array[M][4 * 3 * 8 - 1] = INFINITY, refuse(&t, &in, BO_NUMERIC, "m[95]", "finite");
    trial_drop(&t);
    bo_context_destroy(context);
}

/* A step with a NaN reports its position. */
static void steps_report_nonfinite_inputs(void **state)
{
    (void)state;
    static const bo_attention_desc descs[] = {EXACT_(GOOD, .capacity = 2),        FAVOR_(GOOD, .causal = true),
                                              HYBRID_(GOOD, .causal = true),      LEARNED_(GOOD, .causal = true),
                                              POWER_(GOOD, .capacity = 2),        GLA_(GOOD),
                                              DELTA_(GOOD, .unit = true),         RIDGE_(GOOD),
                                              RIDGE_(GOOD, .gate = BO_GATE_DECAY)};
    bo_context *context = test_context(1);
    for (size_t i = 0; i < sizeof descs / sizeof *descs; i++) {
        trial t = make_trial(context, descs[i], 0);
        bo_attention_inputs in = trial_inputs(&t);
        bo_status (*step)(bo_context *, const bo_attention *, size_t, const bo_attention_inputs *, void *const *,
                          float *) = bo_attention_step;
        size_t bytes = bo_attention_state_bytes(t.attention);
        void *before = malloc(bytes);
        memcpy(before, t.final[0], bytes);
        t.array[K][4 * 8 + 2 * 8] = NAN;
        assert_fails(context, BO_NUMERIC, "k is nan at sequence 1, head 2",
                     step(context, t.attention, 2, &in, t.final, t.array[OUT]));
        t.array[K][4 * 8 + 2 * 8] = 0;
        t.array[Q][3] = INFINITY;
        assert_fails(context, BO_NUMERIC, "q is inf at sequence 0, head 0",
                     step(context, t.attention, 2, &in, t.final, t.array[OUT]));
        assert_memory_equal(before, t.final[0], bytes); /* refused before any state changes */
        free(before);
        in.v = NULL;
        assert_fails(context, BO_INVALID, "v is NULL", step(context, t.attention, 2, &in, t.final, t.array[OUT]));
        trial_drop(&t);
    }
    bo_context_destroy(context);
}

/* ---- names ------------------------------------------------------------------------------------------------------- */

static void names_go_both_ways(void **state)
{
    (void)state;
    for (int i = 0; i < BO_ATTENTION_COUNT; i++) {
        bo_attention_kind kind = BO_ATTENTION_COUNT;
        assert_true(bo_attention_kind_parse(bo_attention_kind_name((bo_attention_kind)i), &kind));
        assert_int_equal(kind, i);
    }
    for (int i = 0; i < BO_PROPOSAL_COUNT; i++) {
        bo_proposal proposal = BO_PROPOSAL_COUNT;
        assert_true(bo_proposal_parse(bo_proposal_name((bo_proposal)i), &proposal));
        assert_int_equal(proposal, i);
    }
    for (int i = 0; i < BO_GATE_COUNT; i++) {
        bo_gate gate = BO_GATE_COUNT;
        assert_true(bo_gate_parse(bo_gate_name((bo_gate)i), &gate));
        assert_int_equal(gate, i);
    }
    bo_attention_kind kind = BO_ATTENTION_DARK;
    bo_gate gate = BO_GATE_DECAY;
    assert_true(bo_attention_kind_parse("EXACT", &kind) && kind == BO_ATTENTION_SOFTMAX);
    assert_false(bo_attention_kind_parse("exactly", &kind) || bo_attention_kind_parse(NULL, &kind) ||
                 bo_attention_kind_parse("", &kind));
    assert_false(bo_gate_parse("open", &gate) || bo_gate_parse(NULL, &gate));
    assert_true(kind == BO_ATTENTION_SOFTMAX && gate == BO_GATE_DECAY);
    assert_null(bo_attention_kind_name(BO_ATTENTION_COUNT));
    assert_null(bo_attention_kind_name((bo_attention_kind)-1));
    assert_null(bo_gate_name(BO_GATE_COUNT));
    bo_proposal proposal = BO_PROPOSAL_SDERF;
    assert_true(bo_proposal_parse("OPRF", &proposal) && proposal == BO_PROPOSAL_OPRF);
    assert_false(bo_proposal_parse("favor", &proposal) || bo_proposal_parse(NULL, &proposal));
    assert_null(bo_proposal_name(BO_PROPOSAL_COUNT));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bad_descriptors_are_refused),      cmocka_unit_test(sizes_beyond_memory_are_refused),
        cmocka_unit_test(maps_beyond_memory_are_refused),   cmocka_unit_test(missing_arrays_are_refused),
        cmocka_unit_test(bad_shapes_are_refused),           cmocka_unit_test(nonfinite_inputs_are_refused),
        cmocka_unit_test(keys_without_queries_are_checked), cmocka_unit_test(bad_parameters_are_refused),
        cmocka_unit_test(steps_report_nonfinite_inputs),    cmocka_unit_test(names_go_both_ways),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
