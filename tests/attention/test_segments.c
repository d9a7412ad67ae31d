/* Gradients over segments: the gradient that one segment writes for its initial state is the gradient of the final
 * state of the previous segment, and the chain gives the gradients of one long sequence. Also sums that the caller
 * sets. */
#include "cases.h"

enum { HEADS = 4, KEY_HEADS = 2, WIDTH = 4, VALUE = 3, FEATURES = 8, TOKENS = 53, MAX_SEGMENTS = 8 };

typedef struct chain {
    size_t count;
    size_t first[MAX_SEGMENTS + 1]; /* first token of each segment, and the end */
    void *states[MAX_SEGMENTS + 1]; /* before each segment, and after the last */
    void *tapes[MAX_SEGMENTS];
} chain;

static bo_attention_shape piece_shape(const chain *c, size_t segment)
{
    size_t tokens = c->first[segment + 1] - c->first[segment];
    return (bo_attention_shape){.sequences = 1, .tokens = tokens, .layout = BO_LAYOUT_TOKENS_FIRST};
}

static void *aligned(size_t bytes)
{
    return aligned_alloc(64, bytes / 64 * 64 + 64);
}

static void chain_forward(trial *t, chain *c)
{
    c->states[0] = aligned(bo_attention_state_bytes(t->attention));
    assert_ok(t->context, bo_attention_state_init(t->context, t->attention, c->states[0]));
    for (size_t i = 0; i < c->count; i++) {
        size_t bytes;
        bo_attention_inputs in = trial_inputs_from(t, c->first[i]);
        bo_attention_shape shape = piece_shape(c, i);
        assert_ok(t->context, bo_attention_tape_bytes(t->context, t->attention, &shape, &bytes));
        c->tapes[i] = aligned(bytes);
        c->states[i + 1] = aligned(bo_attention_state_bytes(t->attention));
        const void *initial[] = {c->states[i]};
        assert_ok(t->context,
                  bo_attention_forward_arrays(t->context, t->attention, &shape, &in, initial, &c->states[i + 1],
                                              t->array[OUT] + c->first[i] * HEADS * VALUE, c->tapes[i]));
    }
}

/* The rows of a token are adjacent; gradients of parameters are sums over the segments. */
static void segment_backward(trial *t, const chain *c, size_t i, const float *d_final, float *d_initial)
{
    size_t at = c->first[i];
    bo_attention_inputs in = trial_inputs_from(t, at);
    bo_attention_shape shape = piece_shape(c, i);
    float *requested[TRIAL_ARRAYS] = {NULL};
    for (size_t a = Q; a < OUT; a++) {
        size_t row = (a == Q ? HEADS : KEY_HEADS) * trial_width(t->d, (trial_array)a);
        if (t->count[a]) requested[a] = a < SIGMA ? t->gradient[a] + at * row : trial_floats(t->count[a]);
    }
    bo_attention_gradients g = trial_gradients(requested, &d_initial);
    const void *initial[] = {c->states[i]};
    assert_ok(t->context, bo_attention_backward_arrays(t->context, t->attention, &shape, &in, initial,
                                                       t->array[OUT] + at * HEADS * VALUE, c->tapes[i],
                                                       t->gradient[OUT] + at * HEADS * VALUE, &d_final, &g));
    for (size_t a = SIGMA; a < OUT; a++) {
        for (size_t n = 0; n < t->count[a]; n++) t->gradient[a][n] += requested[a][n];
        free(requested[a]);
    }
}

static void chain_backward(trial *t, const chain *c)
{
    float *flowing = trial_floats(t->gradient_floats), *next = trial_floats(t->gradient_floats);
    memcpy(flowing, t->d_final[0], t->gradient_floats * sizeof *flowing);
    for (size_t i = c->count; i-- > 0;) {
        segment_backward(t, c, i, flowing, next);
        memcpy(flowing, next, t->gradient_floats * sizeof *flowing);
    }
    free(flowing);
    free(next);
}

static void check_chain(bo_context *context, const kind_of *kind, chain c)
{
    trial_desc desc = {.name = kind->name,
                       .attention = kind_desc(kind, HEADS, KEY_HEADS, WIDTH, VALUE, true, FEATURES),
                       .shape = {.sequences = 1, .tokens = TOKENS, .layout = BO_LAYOUT_TOKENS_FIRST},
                       .final_gradient = true,
                       .seed = 4};
    if (kind_is_explicit(kind) && !kind->window) desc.attention.capacity = TOKENS;
    trial t = trial_make(context, &desc);
    chain_forward(&t, &c);
    chain_backward(&t, &c);
    memcpy(t.final[0], c.states[c.count], bo_attention_state_bytes(t.attention)); /* d_final is in its units */
    verify_expected expected = verify_make(&t);
    verify_forward(&t, &expected);
    verify_backward(&t, &expected);
    verify_drop(&expected);
    for (size_t i = 0; i <= c.count; i++) free(c.states[i]);
    for (size_t i = 0; i < c.count; i++) free(c.tapes[i]);
    trial_drop(&t);
}

static void gradients_chain_over_segments(void **unused)
{
    (void)unused;
    static const chain chains[] = {{.count = 1, .first = {0, TOKENS}},
                                   {.count = 2, .first = {0, 1, TOKENS}},
                                   {.count = 2, .first = {0, TOKENS - 1, TOKENS}},
                                   {.count = 3, .first = {0, 16, 32, TOKENS}},
                                   {.count = 7, .first = {0, 3, 4, 4, 11, 30, 31, TOKENS}}};
    bo_context *context = test_context(2);
    for (size_t i = 0; i < KINDS; i++)
        for (size_t n = 0; n < sizeof chains / sizeof *chains; n++) check_chain(context, &kinds[i], chains[n]);
    bo_context_destroy(context);
}

/* ---- sums set by the caller -------------------------------------------------------------------------------------- */

/* A step of every state, compared with a pass over one token. */
static void verify_step(trial *t)
{
    verify_expected expected = verify_make(t);
    bo_attention_inputs in = trial_inputs(t);
    assert_ok(t->context, bo_attention_step(t->context, t->attention, 2, &in, t->initial, t->array[OUT]));
    for (size_t s = 0; s < 2; s++) /* the states are now the final states of the pass */
        memcpy(t->final[s], t->initial[s], bo_attention_state_bytes(t->attention));
    verify_forward(t, &expected);
    verify_drop(&expected);
}

/* A state may contain any sums: the reference reads them and continues from there, forward and backward; steps too. */
static void check_sums(bo_context *context, const kind_of *kind, double log_scale, size_t tokens)
{
    trial_desc desc = {.name = kind->name,
                       .attention = kind_desc(kind, HEADS, KEY_HEADS, WIDTH, VALUE, true, FEATURES),
                       .shape = {.sequences = 2, .tokens = tokens},
                       .past = 1,
                       .final_gradient = true,
                       .seed = 5};
    trial t = trial_make(context, &desc);
    size_t features = trial_features(&t);
    float *s = trial_floats(features * VALUE), *z = trial_floats(features), *s2 = trial_floats(features * VALUE),
          *z2 = trial_floats(features);
    bo_rng rng = bo_rng_make(6, 6);
    for (size_t i = 0; i < 2 * KEY_HEADS; i++) {
        bool scaled = kind->kernel == BO_KERNEL_SOFTMAX || kind->kernel == BO_KERNEL_COSH;
        double found, scale = scaled ? log_scale : 0;
        trial_normal(&rng, s, features * VALUE, 1);
        for (size_t f = 0; f < features; f++) z[f] = (float)(0.5 + bo_rng_uniform(&rng));
        void *state = t.initial[i / KEY_HEADS];
        assert_ok(context, bo_attention_state_set(context, t.attention, state, i % KEY_HEADS, s, z, scale));
        assert_ok(context, bo_attention_state_get(context, t.attention, state, i % KEY_HEADS, s2, z2, &found));
        assert_memory_equal(s, s2, features * VALUE * sizeof *s);
        assert_memory_equal(z, z2, features * sizeof *z);
        assert_close(found, scale, 0);
    }
    verify_trial(&t);
    if (tokens == 1) verify_step(&t);
    free(s);
    free(z);
    free(s2);
    free(z2);
    trial_drop(&t);
}

static void any_sums_may_be_set(void **unused)
{
    (void)unused;
    static const double scales[] = {0, -40, 300};
    bo_context *context = test_context(2);
    for (size_t i = 0; i < KINDS; i++)
        for (size_t n = 0; n < 3 && kind_has_map(&kinds[i]); n++) {
            check_sums(context, &kinds[i], scales[n], 17);
            check_sums(context, &kinds[i], scales[n], 1);
        }
    bo_context_destroy(context);
}

/* S, or G and a covariance H; data that a state derives from them must be updated. */
static void check_matrices(bo_context *context, const kind_of *kind)
{
    enum { MATRIX = WIDTH * VALUE, SQUARE = WIDTH * WIDTH };
    trial_desc desc = {.name = kind->name,
                       .attention = kind_desc(kind, HEADS, KEY_HEADS, WIDTH, VALUE, true, FEATURES),
                       .shape = {.sequences = 2, .tokens = 17},
                       .past = 9,
                       .final_gradient = true,
                       .seed = 5};
    trial t = trial_make(context, &desc);
    bool ridge = kind->kind == BO_ATTENTION_RIDGE;
    float s[MATRIX], h[SQUARE], s2[MATRIX], h2[SQUARE], *z = ridge ? h : NULL, *z2 = ridge ? h2 : NULL;
    bo_rng rng = bo_rng_make(6, 6);
    for (size_t i = 0; i < 2 * KEY_HEADS; i++) {
        float x[WIDTH];
        double log_scale;
        trial_normal(&rng, s, MATRIX, 1);
        trial_normal(&rng, x, WIDTH, 1);
        for (size_t n = 0; n < SQUARE; n++) h[n] = x[n / WIDTH] * x[n % WIDTH] + (n % (WIDTH + 1) == 0);
        void *state = t.initial[i / KEY_HEADS];
        assert_ok(context, bo_attention_state_set(context, t.attention, state, i % KEY_HEADS, s, z, 0));
        assert_ok(context, bo_attention_state_get(context, t.attention, state, i % KEY_HEADS, s2, z2, &log_scale));
        assert_memory_equal(s, s2, sizeof s);
        if (ridge) assert_memory_equal(h, h2, sizeof h);
        assert_close(log_scale, 0, 0);
    }
    verify_trial(&t);
    trial_drop(&t);
}

static void any_matrices_may_be_set(void **unused)
{
    (void)unused;
    bo_context *context = test_context(2);
    for (size_t i = 0; i < KINDS; i++)
        if (kind_is_memory(&kinds[i])) check_matrices(context, &kinds[i]);
    bo_context_destroy(context);
}

/* Parameters belong to a call: a state made with other parameters continues with these. Steps too. */
static void parameters_may_change(void **unused)
{
    (void)unused;
    bo_context *context = test_context(2);
    for (size_t i = 0; i < KINDS; i++) {
        trial_desc desc = {.name = kinds[i].name,
                           .attention = kind_desc(&kinds[i], HEADS, KEY_HEADS, WIDTH, VALUE, true, FEATURES),
                           .shape = {.sequences = 2, .tokens = 1},
                           .past = 9,
                           .final_gradient = true,
                           .seed = 5};
        trial t = trial_make(context, &desc);
        for (size_t a = SIGMA; a < OUT; a++)
            for (size_t n = 0; n < t.count[a]; n++) t.array[a][n] *= n % 2 ? 3 : 0.5F;
        verify_trial(&t);
        verify_step(&t);
        trial_drop(&t);
    }
    bo_context_destroy(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_chain_over_segments),
        cmocka_unit_test(any_sums_may_be_set),
        cmocka_unit_test(any_matrices_may_be_set),
        cmocka_unit_test(parameters_may_change),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
