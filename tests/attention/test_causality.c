/* Causality: any change of a token keeps the bits of every output before it. */
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
