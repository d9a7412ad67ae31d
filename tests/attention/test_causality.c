/* Causality: a change of a token changes no bit of earlier outputs, of the gradients of an earlier loss, and of the
 * earlier state. The gradient of such a loss with respect to the token is zero. */
#include "cases.h"

enum { HEADS = 2, WIDTH = 4, VALUE = 3, FEATURES = 8 };

/* Multiplies the rows of token `at` in every array by `factor` and sets its gate to forget nearly everything. */
static void change_token(trial *t, size_t at, float factor)
{
    for (size_t c = 0; c < HEADS * WIDTH; c++) t->array[Q][at * HEADS * WIDTH + c] *= factor;
    for (size_t c = 0; c < WIDTH; c++) t->array[K][at * WIDTH + c] *= factor;
    for (size_t c = 0; c < VALUE; c++) t->array[V][at * VALUE + c] *= factor;
    size_t gates = trial_width(t->d, LOG_GATE);
    for (size_t c = 0; t->count[LOG_GATE] && c < gates; c++) t->array[LOG_GATE][at * gates + c] = -20;
    if (t->count[BETA]) t->array[BETA][at] = 0.5F * t->array[BETA][at] / fmaxf(1, factor * factor);
}

static void restore_token(trial *t, const trial *original, size_t at)
{
    memcpy(t->array[Q] + at * HEADS * WIDTH, original->array[Q] + at * HEADS * WIDTH, HEADS * WIDTH * sizeof(float));
    memcpy(t->array[K] + at * WIDTH, original->array[K] + at * WIDTH, WIDTH * sizeof(float));
    memcpy(t->array[V] + at * VALUE, original->array[V] + at * VALUE, VALUE * sizeof(float));
    size_t gates = trial_width(t->d, LOG_GATE);
    for (size_t c = 0; t->count[LOG_GATE] && c < gates; c++)
        t->array[LOG_GATE][at * gates + c] = original->array[LOG_GATE][at * gates + c];
    if (t->count[BETA]) t->array[BETA][at] = original->array[BETA][at];
}

static void check_token(trial *t, const trial *original, size_t at, float factor)
{
    size_t row = HEADS * VALUE;
    change_token(t, at, factor);
    trial_forward(t);
    restore_token(t, original, at);
    for (size_t i = 0; i < at * row; i++)
        if (memcmp(&t->array[OUT][i], &original->array[OUT][i], sizeof(float)))
            fail_msg("%s: token %zu times %g changes the output of token %zu from %.9g to %.9g", t->desc.name, at,
                     (double)factor, i / row, (double)original->array[OUT][i], (double)t->array[OUT][i]);
    for (size_t i = 0; i < t->count[OUT]; i++)
        if (!isfinite(t->array[OUT][i]))
            fail_msg("%s: token %zu times %g makes the output of token %zu %g", t->desc.name, at, (double)factor,
                     i / row, (double)t->array[OUT][i]);
}

/* The gradients of the rows before token `at` of each array that has rows per token; those of later rows must be
 * zero. */
static void check_gradients(trial *t, const trial *original, size_t at)
{
    static const size_t heads[] = {[Q] = HEADS, [K] = 1, [V] = 1, [LOG_GATE] = 1, [BETA] = 1};
    for (size_t a = Q; a <= BETA; a++) {
        const size_t row = heads[a] * trial_width(t->d, (trial_array)a), before = at * row;
        if (t->count[a] == 0) continue;
        if (memcmp(t->gradient[a], original->gradient[a], before * sizeof(float)))
            fail_msg("%s: token %zu changes a gradient of %s before it", t->desc.name, at, trial_names[a]);
        for (size_t i = before; i < t->count[a]; i++)
            if (t->gradient[a][i] != 0)
                fail_msg("%s: a loss before token %zu has the gradient %g of %s at token %zu", t->desc.name, at,
                         (double)t->gradient[a][i], trial_names[a], i / row);
    }
}

/* The loss is a function of the outputs before token `at`. */
static void check_loss(trial *t, trial *original, size_t at, float factor)
{
    const size_t row = HEADS * VALUE, after = (t->count[OUT] / row - at) * row;
    float *saved = trial_floats(after), *later[2] = {t->gradient[OUT] + at * row, original->gradient[OUT] + at * row};
    memcpy(saved, later[0], after * sizeof *saved);
    for (int i = 0; i < 2; i++) memset(later[i], 0, after * sizeof *saved);
    trial_forward(original);
    trial_backward(original);
    change_token(t, at, factor);
    trial_forward(t);
    trial_backward(t);
    restore_token(t, original, at);
    check_gradients(t, original, at);
    for (int i = 0; i < 2; i++) memcpy(later[i], saved, after * sizeof *saved);
    free(saved);
}

/* Reads the tokens before `at` and then single tokens, one of which is changed: earlier outputs are bit-identical. */
static void check_steps(trial *t, const trial *original, size_t at, float factor)
{
    enum { STEPS = 5 };
    const size_t tokens = t->desc.shape.tokens, first = at > STEPS ? at - STEPS : 0, row = HEADS * VALUE;
    float *outs[2] = {trial_floats(t->count[OUT]), trial_floats(t->count[OUT])};
    for (int i = 0; i < 2; i++) {
        void **state = trial_states(t);
        const bo_attention_inputs in = trial_inputs(t);
        const bo_attention_shape shape = {.sequences = 1, .tokens = first, .layout = BO_LAYOUT_TOKENS_FIRST};
        assert_ok(t->context, bo_attention_extend(t->context, t->attention, &shape, &in, state, outs[i]));
        if (i == 1) change_token(t, at, factor);
        for (size_t n = first; n < at + STEPS && n < tokens; n++) {
            const bo_attention_inputs one = trial_inputs_from(t, n);
            assert_ok(t->context, bo_attention_step(t->context, t->attention, 1, &one, state, outs[i] + n * row));
        }
        trial_free_each(state, 1);
    }
    restore_token(t, original, at);
    if (memcmp(outs[0], outs[1], at * row * sizeof(float)))
        fail_msg("%s: token %zu changes a step before it", t->desc.name, at);
    free(outs[0]);
    free(outs[1]);
}

static void check_kind(bo_context *context, const kind_of *kind, size_t tokens, size_t chunk, size_t stride)
{
    char name[128];
    snprintf(name, sizeof name, "%s, %zu tokens, chunk %zu", kind->name, tokens, chunk);
    trial_desc desc = {.name = name,
                       .attention = kind_desc(kind, HEADS, 1, WIDTH, VALUE, true, FEATURES),
                       .shape = {.sequences = 1, .tokens = tokens, .layout = BO_LAYOUT_TOKENS_FIRST},
                       .seed = 8};
    desc.attention.chunk = chunk;
    trial original = trial_make(context, &desc), changed = trial_make(context, &desc);
    trial_forward(&original);
    for (size_t at = 0; at < tokens; at += stride) {
        check_token(&changed, &original, at, -1);
        check_token(&changed, &original, at, 1e4F);
    }
    for (size_t at = 1; at < tokens; at += tokens / 3) {
        check_loss(&changed, &original, at, 3);
        check_steps(&changed, &original, at, -2);
    }
    trial_drop(&original);
    trial_drop(&changed);
}

static void the_past_does_not_know_the_future(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    for (size_t i = 0; i < KINDS; i++) {
        check_kind(context, &kinds[i], 3, 0, 1);
        check_kind(context, &kinds[i], 67, 0, 1);
        if (!kind_is_explicit(&kinds[i])) check_kind(context, &kinds[i], 49, 16, 1);
        check_kind(context, &kinds[i], 131, 0, 13);
        check_kind(context, &kinds[i], 300, 0, 43);
    }
    bo_context_destroy(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_past_does_not_know_the_future)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
