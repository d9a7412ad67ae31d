/* The same bits for any number of threads: forward, backward, states, steps. */
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

static trial run(bo_context *context, const trial_desc *desc)
{
    trial t = trial_make(context, desc);
    trial_forward(&t);
    trial_backward(&t);
    return t;
}

static void check(const trial_desc *desc, bo_context *const *contexts)
{
    trial first = run(contexts[0], desc);
    for (size_t i = 1; i < 3; i++) {
        trial other = run(contexts[i], desc);
        assert_same(&first, &other);
        trial_drop(&other);
    }
    trial_drop(&first);
}

static void threads_change_no_bit(void **state)
{
    (void)state;
    static const size_t lengths[] = {90, 0, 1, 33, 150, 7, 64};
    bo_context *contexts[] = {test_context(1), test_context(2), test_context(3)};
    for (size_t i = 0; i < KINDS; i++) {
        trial_desc desc = {.name = kinds[i].name,
                           .attention = kind_desc(&kinds[i], 6, 3, 8, 5, true, 16),
                           .shape = {.sequences = 7, .lengths = lengths},
                           .past = 11,
                           .final_gradient = true,
                           .seed = i};
        check(&desc, contexts);
        desc.attention =
            kind_desc(&kinds[i], 1, 1, 8, 5, false, 16); /* a single task must not be split between threads */
        desc.shape = (bo_attention_shape){.sequences = 1, .tokens = 300};
        check(&desc, contexts);
    }
    for (size_t i = 0; i < 3; i++) bo_context_destroy(contexts[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(threads_change_no_bit)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
