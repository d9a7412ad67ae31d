/* Optional arguments do not change results: any subset of gradients, no tape, no final states, unaligned rows, states
 * and attentions shared by threads. All results are bit-identical. */
#include "cases.h"
#include <pthread.h>

static trial_desc desc_of(const kind_of *kind)
{
    return (trial_desc){.name = kind->name,
                        .attention = kind_desc(kind, 4, 2, 7, 5, true, 10),
                        .shape = {.sequences = 2, .tokens = 75},
                        .past = 9,
                        .final_gradient = true,
                        .seed = 6};
}

static void assert_bits(const trial *t, const char *what, const float *found, const float *expected, size_t count)
{
    if (memcmp(found, expected, count * sizeof *found)) fail_msg("%s: %s", t->desc.name, what);
}

/* ---- separate gradients ------------------------------------------------------------------------------------------ */

static bo_status backward(const trial *t, const bo_attention_gradients *g)
{
    bo_attention_inputs in = trial_inputs(t);
    return bo_attention_backward_arrays(t->context, t->attention, &t->desc.shape, &in, (const void *const *)t->initial,
                                        t->array[OUT], t->tape, t->gradient[OUT], (const float *const *)t->d_final, g);
}

static void check_single_gradients(trial *t)
{
    for (size_t which = Q; which < OUT; which++) {
        float *separate[TRIAL_ARRAYS] = {NULL};
        if (!t->count[which]) continue;
        separate[which] = trial_floats(t->count[which]);
        bo_attention_gradients g = trial_gradients(separate, NULL);
        assert_ok(t->context, backward(t, &g));
        assert_bits(t, trial_names[which], separate[which], t->gradient[which], t->count[which]);
        free(separate[which]);
    }
    float **initial = trial_state_gradients(t);
    bo_attention_gradients g = {.initial = initial};
    assert_ok(t->context, backward(t, &g));
    for (size_t s = 0; s < t->desc.shape.sequences; s++)
        assert_bits(t, "initial", initial[s], t->d_initial[s], t->gradient_floats);
    trial_free_each((void **)initial, t->desc.shape.sequences);
}

static void gradients_do_not_depend_on_each_other(void **state)
{
    (void)state;
    bo_context *context = test_context(2);
    for (size_t i = 0; i < KINDS; i++) {
        trial_desc desc = desc_of(&kinds[i]);
        trial t = trial_make(context, &desc);
        trial_forward(&t);
        trial_backward(&t);
        check_single_gradients(&t);
        trial_drop(&t);
    }
    bo_context_destroy(context);
}

/* Without dout only the gradients of the final states are propagated. */
static void missing_output_gradients_are_zero(void **state)
{
    (void)state;
    bo_context *context = test_context(2);
    for (size_t i = 0; i < KINDS; i++) {
        trial_desc desc = desc_of(&kinds[i]);
        trial t = trial_make(context, &desc);
        trial_forward(&t);
        memset(t.gradient[OUT], 0, t.count[OUT] * sizeof(float));
        trial_backward(&t);
        float *separate[OUT];
        for (size_t which = Q; which < OUT; which++) separate[which] = trial_floats(t.count[which]);
        bo_attention_gradients g = {.q = separate[Q],
                                    .k = separate[K],
                                    .v = separate[V],
                                    .log_gate = t.count[LOG_GATE] ? separate[LOG_GATE] : NULL,
                                    .beta = t.count[BETA] ? separate[BETA] : NULL};
        bo_attention_inputs in = trial_inputs(&t);
        assert_ok(context,
                  bo_attention_backward_arrays(context, t.attention, &desc.shape, &in, (const void *const *)t.initial,
                                               t.array[OUT], t.tape, NULL, (const float *const *)t.d_final, &g));
        for (size_t which = Q; which <= BETA; which++)
            for (size_t j = 0; j < t.count[which]; j++)
                if (!(separate[which][j] == t.gradient[which][j])) /* 0 and -0 are equal */
                    fail_msg("%s: %s without dout: %g, not %g", desc.name, trial_names[which],
                             (double)separate[which][j], (double)t.gradient[which][j]);
        for (size_t which = Q; which < OUT; which++) free(separate[which]);
        trial_drop(&t);
    }
    bo_context_destroy(context);
}

/* ---- without tape, without final states, unaligned --------------------------------------------------------------- */

/* The same numbers, shifted by one float. */
static const float *shifted(const float *array, size_t count, float **block)
{
    *block = trial_floats(count + 1);
    memcpy(*block + 1, array, count * sizeof *array);
    return array ? *block + 1 : NULL;
}

static void outputs_do_not_depend_on_addresses(void **state)
{
    (void)state;
    bo_context *context = test_context(2);
    for (size_t i = 0; i < KINDS; i++) {
        trial_desc desc = desc_of(&kinds[i]);
        trial t = trial_make(context, &desc);
        trial_forward(&t);
        float *out = trial_floats(t.count[OUT] + 1), *blocks[3];
        bo_attention_inputs in = trial_inputs(&t);
        const void *const *from = (const void *const *)t.initial;
        assert_ok(context, bo_attention_forward_arrays(context, t.attention, &desc.shape, &in, from, NULL, out, NULL));
        assert_bits(&t, "without tape and final states", out, t.array[OUT], t.count[OUT]);
        in.q = shifted(in.q, t.count[Q], &blocks[0]);
        in.k = shifted(in.k, t.count[K], &blocks[1]);
        in.v = shifted(in.v, t.count[V], &blocks[2]);
        assert_ok(context,
                  bo_attention_forward_arrays(context, t.attention, &desc.shape, &in, from, t.final, out + 1, NULL));
        assert_bits(&t, "at odd addresses", out + 1, t.array[OUT], t.count[OUT]);
        for (size_t b = 0; b < 3; b++) free(blocks[b]);
        free(out);
        trial_drop(&t);
    }
    bo_context_destroy(context);
}

/* Layouts only change the positions of elements. */
static void layouts_agree(void **state)
{
    (void)state;
    bo_context *context = test_context(2);
    for (size_t i = 0; i < KINDS; i++) {
        trial_desc desc = desc_of(&kinds[i]);
        desc.past = 0;
        trial a = trial_make(context, &desc);
        desc.shape.layout = BO_LAYOUT_TOKENS_FIRST;
        trial b = trial_make(context, &desc);
        static const trial_array per_token[] = {Q, K, V, LOG_GATE, BETA};
        for (size_t n = 0; n < 5; n++) {
            trial_array which = per_token[n];
            size_t width = trial_width(a.d, which), heads = which == Q ? a.d->heads : a.d->key_heads;
            for (size_t row = 0; row * width < a.count[which]; row++) {
                size_t s = row / heads / 75, h = row / 75 % heads, token = row % 75;
                memcpy(b.array[which] + trial_at(&b, heads, width, which != Q, s, h, token),
                       a.array[which] + trial_at(&a, heads, width, which != Q, s, h, token), width * sizeof(float));
            }
        }
        trial_forward(&a);
        trial_forward(&b);
        for (size_t row = 0; row < a.count[OUT] / 5; row++) {
            size_t s = row / 4 / 75, h = row / 75 % 4, token = row % 75;
            assert_bits(&a, "in the other layout", b.array[OUT] + trial_at(&b, 4, 5, false, s, h, token),
                        a.array[OUT] + trial_at(&a, 4, 5, false, s, h, token), 5);
        }
        trial_drop(&a);
        trial_drop(&b);
    }
    bo_context_destroy(context);
}

/* ---- shared by threads ------------------------------------------------------------------------------------------- */

typedef struct sharer {
    const trial *t;
    float *out;
    bo_status status;
} sharer;

static void *share(void *arg)
{
    sharer *s = arg;
    bo_context_desc desc = {.threads = 2};
    bo_context *context = NULL;
    bo_attention_inputs in = trial_inputs(s->t);
    s->status = bo_context_create(&desc, &context);
    for (size_t n = 0; s->status == BO_OK && n < 5; n++)
        s->status = bo_attention_forward_arrays(context, s->t->attention, &s->t->desc.shape, &in,
                                                (const void *const *)s->t->initial, NULL, s->out, NULL);
    bo_context_destroy(context);
    return NULL;
}

static void attentions_and_states_are_shared(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    for (size_t i = 0; i < CASE_ENGINES; i++) {
        trial_desc desc = desc_of(kind_named(case_engines[i]));
        trial t = trial_make(context, &desc);
        pthread_t threads[3];
        sharer sharers[3];
        trial_forward(&t);
        for (size_t n = 0; n < 3; n++) {
            sharers[n] = (sharer){.t = &t, .out = trial_floats(t.count[OUT])};
            assert_int_equal(pthread_create(&threads[n], NULL, share, &sharers[n]), 0);
        }
        for (size_t n = 0; n < 3; n++) {
            pthread_join(threads[n], NULL);
            assert_int_equal(sharers[n].status, BO_OK);
            assert_bits(&t, "in several threads at once", sharers[n].out, t.array[OUT], t.count[OUT]);
            free(sharers[n].out);
        }
        trial_drop(&t);
    }
    bo_context_destroy(context);
}

/* ---- many sequences ---------------------------------------------------------------------------------------------- */

/* Gradients of parameters are sums over all sequences; rows of zeros have gradients too. */
static void parameter_gradients_sum_over_sequences(void **state)
{
    (void)state;
    static const char *const names[] = {"rfa-gate",         "dark of low rank", "hybrid with M",
                                        "hedgehog, convex", "retention",        "gated ridge"};
    bo_context *context = test_context(3);
    for (size_t i = 0; i < 12; i++) {
        trial_desc desc = {.name = names[i / 2],
                           .attention = kind_desc(kind_named(names[i / 2]), 2, 1, 3, 2, true, 6),
                           .shape = {.sequences = i % 2 ? 65 : 131, .tokens = 8},
                           .seed = i};
        trial t = trial_make(context, &desc);
        for (size_t j = 0; j < 5 * 3; j++) t.array[Q][j] = t.array[K][j] = 0; /* the first five rows */
        verify_trial(&t);
        trial_drop(&t);
    }
    bo_context_destroy(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_do_not_depend_on_each_other),
        cmocka_unit_test(missing_output_gradients_are_zero),
        cmocka_unit_test(outputs_do_not_depend_on_addresses),
        cmocka_unit_test(layouts_agree),
        cmocka_unit_test(attentions_and_states_are_shared),
        cmocka_unit_test(parameter_gradients_sum_over_sequences),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
