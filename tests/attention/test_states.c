/* States: any split of a sequence into blocks and steps gives the same result, gradients chain over segments, and the
 * bytes may be copied, forked and moved. One sequence in layout TOKENS_FIRST: a segment is then a slice of each
 * array. */
#include "cases.h"
#include "attention/kv_cache.h"

enum { HEADS = 4, KEY_HEADS = 2, WIDTH = 4, VALUE = 3, FEATURES = 8, TOKENS = 71 };

static trial make_trial(bo_context *context, const kind_of *kind, bool forward_only)
{
    trial_desc desc = {.name = kind->name,
                       .attention = kind_desc(kind, HEADS, KEY_HEADS, WIDTH, VALUE, true, FEATURES),
                       .shape = {.sequences = 1, .tokens = TOKENS, .layout = BO_LAYOUT_TOKENS_FIRST},
                       .forward_only = forward_only,
                       .final_gradient = !forward_only,
                       .seed = 3};
    return trial_make(context, &desc);
}

static bo_attention_shape piece_shape(size_t tokens)
{
    return (bo_attention_shape){.sequences = 1, .tokens = tokens, .layout = BO_LAYOUT_TOKENS_FIRST};
}

static void *state_new(const trial *t)
{
    void *state = aligned_alloc(64, (bo_attention_state_bytes(t->attention) + 63) / 64 * 64);
    assert_ok(t->context, bo_attention_state_init(t->context, t->attention, state));
    return state;
}

static void extend(const trial *t, size_t first, size_t tokens, void *state, float *out)
{
    bo_attention_inputs in = trial_inputs_from(t, first);
    bo_attention_shape shape = piece_shape(tokens);
    assert_ok(t->context,
              bo_attention_extend(t->context, t->attention, &shape, &in, &state, out + first * HEADS * VALUE));
}

static void step(const trial *t, size_t at, void *state, float *out)
{
    bo_attention_inputs in = trial_inputs_from(t, at);
    assert_ok(t->context, bo_attention_step(t->context, t->attention, 1, &in, &state, out + at * HEADS * VALUE));
}

static void compare_outputs(const trial *t, const verify_expected *v, const float *out, const char *what)
{
    const double *shaken[TRIAL_SHAKES];
    for (size_t n = 0; n < TRIAL_SHAKES; n++) shaken[n] = v->shaken[n].out;
    verify_compare(t, what, t->count[OUT], VALUE, out, v->truth.out, shaken);
}

/* ---- splits ------------------------------------------------------------------------------------------------------ */

static void check_halves(const trial *t, const verify_expected *expected, float *out)
{
    for (size_t first = 0; first <= TOKENS; first += 1 + first % 3) {
        void *state = state_new(t);
        extend(t, 0, first, state, out);
        extend(t, first, TOKENS - first, state, out);
        assert_int_equal(bo_attention_state_tokens(state), TOKENS);
        compare_outputs(t, expected, out, "two blocks");
        free(state);
    }
}

static void check_blocks(const trial *t, const verify_expected *expected, float *out)
{
    static const size_t sizes[] = {2, 3, 7, 16, 32, 33};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        void *state = state_new(t);
        for (size_t at = 0; at < TOKENS; at += sizes[i]) /* every third block as steps */
            for (size_t end = at + sizes[i] < TOKENS ? at + sizes[i] : TOKENS, by = at; by < end;) {
                bool steps = at / sizes[i] % 3 == 2;
                steps ? step(t, by, state, out) : extend(t, by, end - by, state, out);
                by = steps ? by + 1 : end;
            }
        compare_outputs(t, expected, out, "blocks and steps");
        free(state);
    }
}

static void check_steps(const trial *t, const verify_expected *expected, float *out)
{
    void *state = state_new(t);
    for (size_t at = 0; at < TOKENS; at++) step(t, at, state, out);
    assert_int_equal(bo_attention_state_tokens(state), TOKENS);
    compare_outputs(t, expected, out, "steps");
    free(state);
}

static void splits_agree(void **unused)
{
    (void)unused;
    bo_context *context = test_context(2);
    for (size_t i = 0; i < KINDS; i++) {
        trial t = make_trial(context, &kinds[i], true);
        verify_expected expected = verify_make(&t);
        float *out = trial_floats(t.count[OUT]);
        check_steps(&t, &expected, out);
        check_halves(&t, &expected, out);
        check_blocks(&t, &expected, out);
        free(out);
        verify_drop(&expected);
        trial_drop(&t);
    }
    bo_context_destroy(context);
}

/* ---- bytes ------------------------------------------------------------------------------------------------------- */

/* A copy at another address, aligned to only 8 bytes, and two forks of one state continue bit-identically. */
static void copies_continue_with_the_same_bits(void **unused)
{
    (void)unused;
    bo_context *context = test_context(2);
    for (size_t i = 0; i < KINDS; i++) {
        trial t = make_trial(context, &kinds[i], true);
        size_t bytes = bo_attention_state_bytes(t.attention), out_bytes = t.count[OUT] * sizeof(float);
        void *state = state_new(&t), *block = aligned_alloc(64, (bytes + 191) / 64 * 64), *copy = (char *)block + 8;
        float *one = trial_floats(t.count[OUT]), *two = trial_floats(t.count[OUT]);
        extend(&t, 0, 40, state, one);
        memcpy(copy, state, bytes);
        memcpy(two, one, out_bytes);
        extend(&t, 40, 20, state, one);
        for (size_t at = 60; at < TOKENS; at++) step(&t, at, state, one);
        extend(&t, 40, 20, copy, two);
        for (size_t at = 60; at < TOKENS; at++) step(&t, at, copy, two);
        if (memcmp(one, two, out_bytes)) fail_msg("%s: a copied state continues differently", kinds[i].name);
        if (memcmp(state, copy, bytes)) fail_msg("%s: a copied state ends differently", kinds[i].name);
        free(state);
        free(block);
        free(one);
        free(two);
        trial_drop(&t);
    }
    bo_context_destroy(context);
}

/* forward from one state into another: the first does not change, and the second gets the same bytes as from extend. */
static void initial_states_do_not_change(void **unused)
{
    (void)unused;
    bo_context *context = test_context(2);
    for (size_t i = 0; i < KINDS; i++) {
        trial t = make_trial(context, &kinds[i], true);
        size_t bytes = bo_attention_state_bytes(t.attention), out_bytes = t.count[OUT] * sizeof(float);
        void *initial = state_new(&t), *before = state_new(&t), *final = state_new(&t);
        float *one = trial_floats(t.count[OUT]), *two = trial_floats(t.count[OUT]);
        extend(&t, 0, 37, initial, one);
        memcpy(before, initial, bytes);
        memcpy(two, one, out_bytes);
        bo_attention_inputs in = trial_inputs_from(&t, 37);
        bo_attention_shape shape = piece_shape(TOKENS - 37);
        const void *from[] = {initial};
        memset(final, 0x77, bytes);
        assert_ok(context, bo_attention_forward_arrays(context, t.attention, &shape, &in, from, &final,
                                                       one + 37 * HEADS * VALUE, NULL));
        if (memcmp(initial, before, bytes)) fail_msg("%s: forward changed its initial state", kinds[i].name);
        extend(&t, 37, TOKENS - 37, initial, two);
        if (memcmp(one, two, out_bytes)) fail_msg("%s: extend and forward differ", kinds[i].name);
        if (memcmp(initial, final, bytes)) fail_msg("%s: extend and forward leave different states", kinds[i].name);
        free(initial);
        free(before);
        free(final);
        free(one);
        free(two);
        trial_drop(&t);
    }
    bo_context_destroy(context);
}

/* A query without a key does not change the state; the query of the last token gives the output of that token. */
static void reading_changes_nothing(void **unused)
{
    (void)unused;
    bo_context *context = test_context(2);
    for (size_t i = 0; i < KINDS; i++) {
        trial t = make_trial(context, &kinds[i], true);
        verify_expected expected = verify_make(&t);
        size_t bytes = bo_attention_state_bytes(t.attention);
        void *state = state_new(&t), *before = state_new(&t);
        float *out = trial_floats(t.count[OUT]);
        extend(&t, 0, TOKENS, state, out);
        memcpy(before, state, bytes);
        bo_attention_inputs in = trial_inputs_from(&t, TOKENS - 1);
        in.k = in.v = in.log_gate = in.beta = NULL;
        float *last = out + (TOKENS - 1) * HEADS * VALUE;
        memset(last, 0, HEADS * VALUE * sizeof *last);
        assert_ok(context, bo_attention_step(context, t.attention, 1, &in, &state, last));
        if (memcmp(state, before, bytes)) fail_msg("%s: reading changed the state", kinds[i].name);
        compare_outputs(&t, &expected, out, "read again");
        memset(last, 0, HEADS * VALUE * sizeof *last);
        bo_attention_shape shape = piece_shape(1);
        shape.no_keys = true;
        assert_ok(context, bo_attention_extend(context, t.attention, &shape, &in, &state, last));
        if (memcmp(state, before, bytes)) fail_msg("%s: reading by extend changed the state", kinds[i].name);
        compare_outputs(&t, &expected, out, "read again by extend");
        free(state);
        free(before);
        free(out);
        verify_drop(&expected);
        trial_drop(&t);
    }
    bo_context_destroy(context);
}

/* Many states in one step: each gets the result of a single step. 37 is more than two blocks of sequences. */
static void batched_steps_agree_with_single_steps(void **unused)
{
    (void)unused;
    enum { MANY = 37 };
    bo_context *context = test_context(2);
    for (size_t i = 0; i < KINDS; i++) {
        trial t = make_trial(context, &kinds[i], true);
        size_t bytes = bo_attention_state_bytes(t.attention);
        void *states[MANY], *separate[MANY];
        float *one = trial_floats(t.count[OUT]), *two = trial_floats(t.count[OUT]);
        for (size_t s = 0; s < MANY; s++) {
            states[s] = state_new(&t), separate[s] = state_new(&t);
            extend(&t, 0, s, states[s], one); /* each has a different state */
            memcpy(separate[s], states[s], bytes);
        }
        bo_attention_inputs in = trial_inputs_from(&t, 20); /* sequence s takes token 20 + s */
        assert_ok(context, bo_attention_step(context, t.attention, MANY, &in, states, one));
        for (size_t s = 0; s < MANY; s++) {
            bo_attention_inputs step_inputs = trial_inputs_from(&t, 20 + s);
            float *out = two + s * HEADS * VALUE;
            assert_ok(context, bo_attention_step(context, t.attention, 1, &step_inputs, &separate[s], out));
            if (memcmp(out, one + s * HEADS * VALUE, HEADS * VALUE * sizeof *out))
                fail_msg("%s: sequence %zu of a step depends on the others", kinds[i].name, s);
            if (memcmp(separate[s], states[s], bytes))
                fail_msg("%s: the state of sequence %zu depends on the others", kinds[i].name, s);
            free(states[s]);
            free(separate[s]);
        }
        free(one);
        free(two);
        trial_drop(&t);
    }
    bo_context_destroy(context);
}

/* Before the first key leaves the window, the sums of a hybrid are empty for all gates. */
static void hybrids_start_with_empty_sums(void **unused)
{
    (void)unused;
    bo_context *context = test_context(1);
    for (size_t i = 0; i < KINDS; i++) {
        if (kinds[i].kind != BO_ATTENTION_HYBRID) continue;
        trial t = make_trial(context, &kinds[i], true);
        size_t features = trial_features(&t), tokens = t.d->window - 1;
        float *out = trial_floats(t.count[OUT]), *s = trial_floats(features * VALUE), *z = trial_floats(features);
        for (int steps = 0; steps < 2; steps++) {
            void *state = state_new(&t);
            double log_scale;
            if (!steps && tokens) extend(&t, 0, tokens, state, out);
            for (size_t at = 0; steps && at < tokens; at++) step(&t, at, state, out);
            assert_ok(context, bo_attention_state_get(context, t.attention, state, KEY_HEADS - 1, s, z, &log_scale));
            assert_true(log_scale == (t.attention->scaled ? -INFINITY : 0));
            for (size_t n = 0; n < features * VALUE; n++) assert_true(s[n] == 0 && z[n / VALUE] == 0);
            free(state);
        }
        free(out);
        free(s);
        free(z);
        trial_drop(&t);
    }
    bo_context_destroy(context);
}

/* ---- corrupted bytes --------------------------------------------------------------------------------------------- */

static void use_spoilt(const trial *t, void *state)
{
    bo_attention_inputs in = trial_inputs_from(t, 0);
    bo_attention_shape shape = piece_shape(9);
    float *out = trial_floats(t->count[OUT]);
    const void *from[] = {state};
    void *to = state_new(t);
    float *d_final = trial_floats(t->gradient_floats), *d_initial = trial_floats(t->gradient_floats);
    const float *given[] = {d_final};
    bo_attention_gradients g = {.initial = &d_initial};
    size_t tape_bytes = 0;
    assert_ok(t->context, bo_attention_tape_bytes(t->context, t->attention, &shape, &tape_bytes));
    void *tape = aligned_alloc(64, tape_bytes / 64 * 64 + 64);
    if (bo_attention_forward_arrays(t->context, t->attention, &shape, &in, from, NULL, out, tape) == BO_OK)
        (void)bo_attention_backward_arrays(t->context, t->attention, &shape, &in, from, out, tape, out, given, &g);
    (void)bo_attention_forward_arrays(t->context, t->attention, &shape, &in, from, &to, out, NULL);
    (void)bo_attention_extend(t->context, t->attention, &shape, &in, &state, out);
    (void)bo_attention_step(t->context, t->attention, 1, &in, &state, out);
    free(to);
    free(out);
    free(tape);
    free(d_final);
    free(d_initial);
}

/* Bytes may come from a file or a network. For any bytes the result is a status or numbers, never a crash; sanitizers
 * check this. The token count is corrupted separately, because positions depend on it. */
static void corrupted_bytes_do_not_crash(void **unused)
{
    (void)unused;
    static const uint64_t counts[] = {0, 1, 4096, (uint64_t)1 << 32, (uint64_t)1 << 63, UINT64_MAX - 4, UINT64_MAX};
    bo_context *context = test_context(1);
    for (size_t i = 0; i < KINDS; i++) {
        trial t = make_trial(context, &kinds[i], true);
        size_t bytes = bo_attention_state_bytes(t.attention), at = 0;
        void *good = state_new(&t), *state = state_new(&t);
        float *out = trial_floats(t.count[OUT]);
        extend(&t, 0, 40, good, out);
        memcpy(state, good, bytes);
        while (at < 64 && bo_attention_state_tokens(state) == 40) { /* find the position of the count */
            ((char *)state)[at] ^= 1;
            if (bo_attention_state_tokens(state) == 40) ((char *)state)[at] ^= 1, at++;
        }
        assert_true(at < 64);
        for (size_t n = 0; n < sizeof counts / sizeof *counts; n++) {
            memcpy(state, good, bytes);
            memcpy((char *)state + at, &counts[n], sizeof counts[n]);
            use_spoilt(&t, state);
        }
        bo_rng rng = bo_rng_make(9, i);
        for (size_t n = 0; n < 20; n++) {
            memcpy(state, good, bytes);
            for (size_t b = 0; b < 1 + n; b++)
                ((unsigned char *)state)[bo_rng_below(&rng, bytes)] = (unsigned char)bo_rng_below(&rng, 256);
            use_spoilt(&t, state);
        }
        free(good);
        free(state);
        free(out);
        trial_drop(&t);
    }
    bo_context_destroy(context);
}

/* The check of a state finds NaN and infinity in the sums, the memory and the cached keys of every head. */
static void nonfinite_states_are_found(void **unused)
{
    (void)unused;
    bo_context *context = test_context(1);
    for (size_t i = 0; i < KINDS; i++) {
        trial t = make_trial(context, &kinds[i], true);
        void *state = state_new(&t);
        const size_t last = t.d->key_heads - 1;
        const bool memory = t.attention->engine->memory, kept = t.attention->kept_bytes;
        float *out = trial_floats(t.count[OUT]),
              *places[] = {t.attention->count ? bo_state_sums(t.attention, state, last).s : NULL,
                           t.attention->count ? bo_state_sums(t.attention, state, 0).z : NULL,
                           memory ? bo_state_memory(t.attention, state, last) : NULL,
                           kept ? bo_state_cache(t.attention, state, 0) : NULL};
        extend(&t, 0, 40, state, out);
        assert_ok(context, bo_attention_state_check(context, t.attention, state));
        for (size_t n = 0; n < sizeof places / sizeof *places; n++) {
            if (!places[n]) continue;
            const float good = *places[n];
            *places[n] = n % 2 ? INFINITY : NAN;
            assert_fails(context, BO_INVALID, "NaN or infinity", bo_attention_state_check(context, t.attention, state));
            *places[n] = good;
        }
        if (t.attention->cached_gates) {
            bo_cached_gates(t.attention, state, last)[t.attention->cached_gates - 1] = 0.5F;
            assert_fails(context, BO_INVALID, "a gate above 1", bo_attention_state_check(context, t.attention, state));
        }
        free(state);
        free(out);
        trial_drop(&t);
    }
    bo_context_destroy(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(splits_agree),
        cmocka_unit_test(copies_continue_with_the_same_bits),
        cmocka_unit_test(initial_states_do_not_change),
        cmocka_unit_test(reading_changes_nothing),
        cmocka_unit_test(batched_steps_agree_with_single_steps),
        cmocka_unit_test(corrupted_bytes_do_not_crash),
        cmocka_unit_test(nonfinite_states_are_found),
        cmocka_unit_test(hybrids_start_with_empty_sums),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
