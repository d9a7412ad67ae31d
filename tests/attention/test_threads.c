/* Results are bit-identical for any number of threads: forward, backward, states, steps. */
#include "cases.h"

/* Compares everything that the library wrote, bit for bit. */
static void assert_same(const trial *a, const trial *b)
{
    for (size_t i = 0; i < TRIAL_ARRAYS; i++) {
        if (memcmp(a->array[i], b->array[i], a->count[i] * sizeof(float)))
            fail_msg("%s: %s depends on the number of threads", a->desc.name, trial_names[i]);
        if (memcmp(a->gradient[i], b->gradient[i], a->count[i] * sizeof(float)))
            fail_msg("%s: the gradient of %s depends on the number of threads", a->desc.name, trial_names[i]);
    }
    for (size_t s = 0; s < a->desc.shape.sequences; s++) {
        if (memcmp(a->final[s], b->final[s], bo_attention_state_bytes(a->attention)))
            fail_msg("%s: final state %zu depends on the number of threads", a->desc.name, s);
        if (a->initial && memcmp(a->d_initial[s], b->d_initial[s], a->gradient_floats * sizeof(float)))
            fail_msg("%s: the gradient of initial state %zu depends on the number of threads", a->desc.name, s);
    }
}

static void assert_same_tape(const trial *a, const trial *b)
{
    size_t bytes;
    assert_ok(a->context, bo_attention_tape_bytes(a->context, a->attention, &a->desc.shape, &bytes));
    if (memcmp(a->tape, b->tape, bytes)) fail_msg("%s: the tape depends on the number of threads", a->desc.name);
}

static trial run(bo_context *context, const trial_desc *desc)
{
    trial t = trial_make(context, desc);
    trial_forward(&t);
    trial_backward(&t);
    return t;
}

enum { CONTEXTS = 6, ODD = 203 };
static const int threads[CONTEXTS] = {1, 2, 3, 5, 16, 64};

static void check(const trial_desc *desc, bo_context *const *contexts)
{
    trial first = run(contexts[0], desc);
    for (size_t i = 1; i < CONTEXTS; i++) {
        trial other = run(contexts[i], desc);
        assert_same(&first, &other);
        assert_same_tape(&first, &other);
        trial_drop(&other);
    }
    trial_drop(&first);
}

static int start(void **state)
{
    static bo_context *contexts[CONTEXTS];
    for (size_t i = 0; i < CONTEXTS; i++) contexts[i] = test_context(threads[i]);
    *state = contexts;
    return 0;
}

static int stop(void **state)
{
    bo_context **contexts = *state;
    for (size_t i = 0; i < CONTEXTS; i++) bo_context_destroy(contexts[i]);
    return 0;
}

static void threads_change_no_bit(void **state)
{
    static const size_t lengths[] = {90, 0, 1, 33, 150, 7, 64};
    bo_context **contexts = *state;
    for (size_t i = 0; i < KINDS; i++) {
        trial_desc desc = {.name = kinds[i].name,
                           .attention = kind_desc(&kinds[i], 6, 3, 8, 5, true, 16),
                           .shape = {.sequences = 7, .lengths = lengths},
                           .past = 11,
                           .final_gradient = true,
                           .seed = i};
        check(&desc, contexts);
    }
}

/* Fewer heads than threads, in chunks so short that there are several rounds and segments. Lengths are odd, and one
 * sequence is much shorter than the other. */
static void few_heads_change_no_bit(void **state)
{
    static const size_t lengths[] = {ODD, 37}, cross[] = {53, ODD};
    bo_context **contexts = *state;
    for (size_t i = 0; i < KINDS; i++)
        for (int variant = 0; variant < 4; variant++) {
            bool both_ways = variant == 3 && !kinds[i].causal_only;
            trial_desc desc = {.name = kinds[i].name,
                               .attention = kind_desc(&kinds[i], 2, 1, 8, 5, !both_ways, 16),
                               .shape = {.sequences = variant == 1 ? 1 : 2, .lengths = lengths},
                               .past = variant < 2 ? 11 : 0,
                               .final_gradient = variant != 2,
                               .seed = i};
            if (!kind_is_explicit(&kinds[i])) desc.attention.chunk = variant == 1 ? 1 : 4;
            if (both_ways) desc.shape.key_lengths = cross;
            if (variant == 2) desc.shape.layout = BO_LAYOUT_TOKENS_FIRST;
            check(&desc, contexts);
        }
}

/* Tiles of softmax attention are longer than the sequences above. */
static void few_tiles_change_no_bit(void **state)
{
    static const size_t lengths[] = {1131, 70}, cross[] = {300, 901};
    bo_context **contexts = *state;
    for (size_t i = 0; i < KINDS; i++)
        for (int variant = 0; variant < 3 && kind_is_explicit(&kinds[i]); variant++) {
            bool both_ways = variant == 2 && !kinds[i].causal_only;
            trial_desc desc = {.name = kinds[i].name,
                               .attention = kind_desc(&kinds[i], 2, 1, 8, 5, !both_ways, 0),
                               .shape = {.sequences = 2, .lengths = lengths},
                               .past = variant == 0 ? 77 : 0,
                               .final_gradient = true,
                               .seed = i};
            if (both_ways) desc.shape.key_lengths = cross;
            check(&desc, contexts);
        }
}

typedef struct spoiled {
    const char *name;
    trial_array array;
    bool backward; /* the gradient of the array, in the backward pass */
} spoiled;

/* A NaN or infinity in the middle is reported with its position for any number of threads. */
static void bad_numbers_are_reported(void **state)
{
    static const spoiled cases[] = {
        {"q is ", Q, false}, {"k is ", K, false}, {"v is ", V, false}, {"dout is ", OUT, true}};
    bo_context **contexts = *state;
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++)
        for (size_t i = 0; i < CONTEXTS; i++)
            for (size_t k = 0; k < CASE_ENGINES; k++) {
                trial_desc desc = {.name = case_engines[k],
                                   .attention = kind_desc(kind_named(case_engines[k]), 2, 1, 8, 5, true, 16),
                                   .shape = {.sequences = 1, .tokens = 301}};
                if (!kind_is_explicit(kind_named(case_engines[k]))) desc.attention.chunk = 4;
                trial t = trial_make(contexts[i], &desc);
                trial_forward(&t);
                float *spoil = cases[c].backward ? t.gradient[OUT] : t.array[cases[c].array];
                spoil[t.count[cases[c].array] / 2] = NAN;
                bo_attention_inputs in = trial_inputs(&t);
                bo_attention_gradients g = {.q = t.gradient[Q], .k = t.gradient[K], .v = t.gradient[V]};
                bo_status status = cases[c].backward
                                       ? bo_attention_backward_arrays(t.context, t.attention, &t.desc.shape, &in, NULL,
                                                                      t.array[OUT], t.tape, t.gradient[OUT], NULL, &g)
                                       : bo_attention_forward_arrays(t.context, t.attention, &t.desc.shape, &in, NULL,
                                                                     NULL, t.array[OUT], t.tape);
                assert_fails(t.context, BO_NUMERIC, cases[c].name, status);
                trial_drop(&t);
            }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_change_no_bit), cmocka_unit_test(few_heads_change_no_bit),
        cmocka_unit_test(few_tiles_change_no_bit), cmocka_unit_test(bad_numbers_are_reported)};
    return cmocka_run_group_tests(tests, start, stop);
}
