/* Keys without queries (shape.no_queries): the states and the gradients through them are bit-identical to a call whose
 * outputs are not used, for any number of threads. */
#include "kind_cases.h"
#include "trial.h"

enum { SEQUENCES = 3, LONG = 260 };
static const size_t lengths[SEQUENCES] = {LONG, 0, 37};

typedef struct left_behind {
    void **final;
    float *gradient[TRIAL_ARRAYS], **d_initial;
} left_behind;

/* Forward, and backward from d_final only. */
static left_behind run(bo_context *context, const trial *t, bool alone)
{
    left_behind out = {.final = trial_states(t), .d_initial = trial_state_gradients(t)};
    bo_attention_shape shape = t->desc.shape;
    bo_attention_inputs in = trial_inputs(t);
    const void *const *initial = (const void *const *)t->initial;
    size_t bytes;
    shape.no_queries = alone;
    if (alone) in.q = NULL;
    assert_ok(context, bo_attention_tape_bytes(context, t->attention, &shape, &bytes));
    void *tape = aligned_alloc(64, (bytes + 127) / 64 * 64);
    float *to = alone ? NULL : t->array[OUT];
    bo_status status = bo_attention_forward_arrays(context, t->attention, &shape, &in, initial, out.final, to, tape);
    if (status != BO_OK) fail_msg("%s: forward: %s", t->desc.name, bo_context_error(context));
    float *requested[TRIAL_ARRAYS] = {0};
    for (size_t i = 0; i < OUT; i++) {
        out.gradient[i] = trial_floats(t->count[i]);
        if (t->count[i]) requested[i] = out.gradient[i];
    }
    if (alone) requested[Q] = NULL;
    bo_attention_gradients g = trial_gradients(requested, t->initial ? out.d_initial : NULL);
    status = bo_attention_backward_arrays(context, t->attention, &shape, &in, initial, to, tape, NULL,
                                          (const float *const *)t->d_final, &g);
    if (status != BO_OK) fail_msg("%s: backward: %s", t->desc.name, bo_context_error(context));
    free(tape);
    return out;
}

static void drop(left_behind *l)
{
    trial_free_each(l->final, SEQUENCES);
    trial_free_each((void **)l->d_initial, SEQUENCES);
    for (size_t i = 0; i < OUT; i++) free(l->gradient[i]);
}

static void compare(const trial *t, const left_behind *a, const left_behind *b)
{
    size_t state = bo_attention_state_bytes(t->attention), gradient = t->gradient_floats * sizeof(float);
    for (size_t s = 0; s < SEQUENCES; s++) {
        if (memcmp(a->final[s], b->final[s], state)) fail_msg("%s: another state of sequence %zu", t->desc.name, s);
        if (t->initial && memcmp(a->d_initial[s], b->d_initial[s], gradient))
            fail_msg("%s: another gradient of state %zu", t->desc.name, s);
    }
    for (size_t i = K; i < OUT; i++)
        if (memcmp(a->gradient[i], b->gradient[i], t->count[i] * sizeof(float)))
            fail_msg("%s: another gradient of %s", t->desc.name, trial_names[i]);
}

static void check(bo_context *const *contexts, const trial_desc *desc)
{
    trial t = trial_make(contexts[0], desc);
    left_behind expected = run(contexts[0], &t, false);
    for (size_t c = 0; c < 2; c++) {
        left_behind found = run(contexts[c], &t, true);
        compare(&t, &found, &expected);
        drop(&found);
    }
    drop(&expected);
    trial_drop(&t);
}

static void keys_alone_give_the_same_states(void **state)
{
    (void)state;
    bo_context *contexts[] = {test_context(1), test_context(32)}; /* more threads than heads */
    for (size_t i = 0; i < KINDS; i++)
        for (size_t n = 0; n < 4; n++) {
            bool causal = n % 2;
            trial_desc desc = {.name = kinds[i].name,
                               .attention = kind_desc(&kinds[i], 4, 2, 6, 5, causal, 14),
                               .shape = {SEQUENCES, .lengths = lengths, .layout = (bo_layout)(i % 2)},
                               .past = n / 2 * 9,
                               .final_gradient = true,
                               .seed = i};
            if (desc.attention.causal != causal) continue; /* the kind is always causal */
            check(contexts, &desc);
        }
    bo_context_destroy(contexts[0]);
    bo_context_destroy(contexts[1]);
}

static void refuses_calls_without_results(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    trial_desc desc = {.attention = kind_desc(kind_named("gla"), 2, 2, 4, 4, true, 0),
                       .shape = {.sequences = 1, .tokens = 5, .no_queries = true}};
    trial t = trial_make(context, &desc);
    bo_attention_inputs in = trial_inputs(&t);
    in.q = NULL;
    assert_fails(context, BO_INVALID, "final states are required",
                 bo_attention_forward_arrays(context, t.attention, &desc.shape, &in, NULL, NULL, NULL, NULL));
    t.array[K][7] = NAN;
    assert_fails(context, BO_NUMERIC, "k is nan",
                 bo_attention_forward_arrays(context, t.attention, &desc.shape, &in, NULL, t.final, NULL, NULL));
    trial_drop(&t);
    bo_context_destroy(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_alone_give_the_same_states),
        cmocka_unit_test(refuses_calls_without_results),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
