/* Attention in float64 refuses what float32 refuses, with the same messages; states, CUSTOM maps and overflow are
 * separate cases. */
#include "cases.h"
#include "refusals.h"
#include "trial_f64.h"

/* ---- the same as float32 ----------------------------------------------------------------------------------------- */

/* Calls both precisions with the same inputs: both fail with the same status and message. */
static void refuse_both(trial *t, const bo_attention_inputs *in, const trial_f64 *w,
                        const bo_attention_inputs_f64 *in64)
{
    char message[512];
    bo_status status =
        bo_attention_forward_arrays(t->context, t->attention, &t->desc.shape, in, NULL, NULL, t->array[OUT], NULL);
    snprintf(message, sizeof message, "%s", bo_context_error(t->context));
    bo_status found = bo_attention_forward_f64(t->context, t->attention, &t->desc.shape, in64, w->array[OUT]);
    if (status == BO_OK || found != status || strcmp(message, bo_context_error(t->context)))
        fail_msg("%s: float32 %s '%s', float64 %s '%s'", t->desc.name, bo_status_string(status), message,
                 bo_status_string(found), bo_context_error(t->context));
    bo_attention_gradients_f64 g = {0};
    found = bo_attention_backward_f64(t->context, t->attention, &t->desc.shape, in64, w->gradient[OUT], &g);
    if (found != status || strcmp(message, bo_context_error(t->context)))
        fail_msg("%s: backward in float64: '%s', expected '%s'", t->desc.name, bo_context_error(t->context), message);
}

static trial make_case(bo_context *context, const char *name, size_t layout)
{
    trial_desc desc = {.name = name,
                       .attention = kind_desc(kind_named(name), 4, 2, 4, 3, true, 8),
                       .shape = {.sequences = 2, .tokens = 5, .layout = (bo_layout)layout},
                       .seed = 3};
    return trial_make(context, &desc);
}

/* Every array, at its last element: NaN, infinite, or out of range. */
static void bad_numbers_are_refused(void **state)
{
    (void)state;
    static const float bad[] = {NAN, INFINITY, -INFINITY, 0.5F, -0.5F};
    bo_context *context = test_context(2);
    for (size_t i = 0; i < CASE_ENGINES; i++) {
        trial t = make_case(context, case_engines[i], i % 2);
        trial_f64 w = trial_f64_make(&t);
        bo_attention_inputs in = trial_inputs(&t);
        bo_attention_inputs_f64 in64 = trial_f64_inputs(&w);
        for (size_t a = 0; a < OUT; a++)
            for (size_t n = 0; t.count[a] && n < sizeof bad / sizeof *bad; n++) {
                size_t at = t.count[a] - 1;
                float kept = t.array[a][at];
                bool outside = n < 3 || ((a == LOG_GATE || a == LOG_DECAY) && bad[n] > 0) ||
                               ((a == BETA || a == MIX || a == LAMBDA) && bad[n] < 0);
                t.array[a][at] = bad[n], w.array[a][at] = (double)bad[n];
                if (outside) refuse_both(&t, &in, &w, &in64);
                t.array[a][at] = kept, w.array[a][at] = (double)kept;
            }
        trial_f64_forward(context, &w);
        trial_f64_drop(&w);
        trial_drop(&t);
    }
    bo_context_destroy(context);
}

/* Arrays that are missing or that belong to other kinds, in inputs and in gradients. */
static void wrong_arrays_are_refused(void **state)
{
    (void)state;
    static const trial_array required[] = {Q, K, V, LOG_GATE};
    bo_context *context = test_context(1);
    for (size_t i = 0; i < CASE_ENGINES; i++) {
        trial t = make_case(context, case_engines[i], 0);
        trial_f64 w = trial_f64_make(&t);
        float *given[TRIAL_ARRAYS];
        double *given64[TRIAL_ARRAYS];
        for (size_t a = 0; a < TRIAL_ARRAYS; a++) {
            given[a] = t.count[a] ? t.array[a] : NULL;
            given64[a] = t.count[a] ? w.array[a] : NULL;
        }
        for (size_t n = 0; n < TRIAL_ARRAYS - 1 + 4; n++) {
            bool missing = n >= OUT;
            size_t a = missing ? (size_t)required[n - OUT] : n;
            if (missing != (t.count[a] > 0)) continue;
            float *kept = given[a];
            double *kept64 = given64[a];
            given[a] = missing ? NULL : t.array[OUT], given64[a] = missing ? NULL : w.array[OUT];
            bo_attention_inputs in = {TRIAL_F64_MEMBERS(given)};
            bo_attention_inputs_f64 in64 = {TRIAL_F64_MEMBERS(given64)};
            refuse_both(&t, &in, &w, &in64);
            given[a] = kept, given64[a] = kept64;
            if (missing) continue;
            double *requested[TRIAL_ARRAYS] = {0};
            requested[a] = w.array[OUT];
            bo_attention_gradients_f64 g = {TRIAL_F64_MEMBERS(requested)};
            in64 = trial_f64_inputs(&w);
            char message[64];
            snprintf(message, sizeof message, "gradient of %s is requested", trial_names[a]);
            assert_fails(context, BO_INVALID, message,
                         bo_attention_backward_f64(context, t.attention, &t.desc.shape, &in64, w.gradient[OUT], &g));
        }
        trial_f64_drop(&w);
        trial_drop(&t);
    }
    bo_context_destroy(context);
}

/* ---- cases of float64 -------------------------------------------------------------------------------------------- */

#define FORWARD(message, status)                                                                                       \
    assert_fails(context, status, message, bo_attention_forward_f64(context, t.attention, &shape, &in, w.array[OUT]))
#define BACKWARD(message, status)                                                                                      \
    assert_fails(context, status, message,                                                                             \
                 bo_attention_backward_f64(context, t.attention, &shape, &in, w.gradient[OUT], &g))

static void shapes_are_refused(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    trial t = make_case(context, "favor", 0);
    trial_f64 w = trial_f64_make(&t);
    bo_attention_inputs_f64 in = trial_f64_inputs(&w);
    bo_attention_gradients_f64 g = trial_f64_gradients(&w);
    bo_attention_shape shape = {.sequences = 2, .tokens = 5, .no_keys = true};
    FORWARD("no_keys", BO_INVALID);
    BACKWARD("no_keys", BO_INVALID);
    shape = (bo_attention_shape){.sequences = 2, .tokens = 5, .no_queries = true};
    FORWARD("no_queries", BO_INVALID);
    BACKWARD("no_queries", BO_INVALID);
    shape = (bo_attention_shape){.sequences = 2, .tokens = 5, .key_tokens = 4};
    FORWARD("as many keys as queries", BO_INVALID);
    BACKWARD("as many keys as queries", BO_INVALID);
    shape = (bo_attention_shape){.sequences = 2, .tokens = 5};
    in.reserved[2] = 1;
    FORWARD("bo_attention_inputs_f64", BO_INVALID);
    BACKWARD("bo_attention_inputs_f64", BO_INVALID);
    in.reserved[2] = 0, g.reserved[0] = 1;
    BACKWARD("bo_attention_gradients_f64", BO_INVALID);
    g.reserved[0] = 0, w.gradient[OUT][t.count[OUT] - 1] = NAN;
    BACKWARD("dout is nan at sequence 1, head 3, token 4, column 2; expected a finite number", BO_NUMERIC);
    shape = (bo_attention_shape){.sequences = 0, .tokens = 5};
    w.gradient[OUT][t.count[OUT] - 1] = 0;
    assert_ok(context, bo_attention_forward_f64(context, t.attention, &shape, &in, w.array[OUT]));
    assert_ok(context, bo_attention_backward_f64(context, t.attention, &shape, &in, w.gradient[OUT], &g));
    trial_f64_drop(&w);
    trial_drop(&t);
    bo_context_destroy(context);
}

static void maps_are_refused(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    trial t = make_case(context, "linear custom", 0);
    trial_f64 w = trial_f64_make(&t);
    bo_attention_inputs_f64 in = trial_f64_inputs(&w);
    bo_attention_gradients_f64 g = trial_f64_gradients(&w);
    bo_attention_shape shape = t.desc.shape;
    FORWARD("custom", BO_UNSUPPORTED);
    BACKWARD("custom", BO_UNSUPPORTED);
    trial_f64_drop(&w);
    trial_drop(&t);
    bo_attention_desc desc = kind_desc(kind_named("favor#"), 4, 2, 4, 3, true, 8);
    t = make_case(context, "favor", 0);
    w = trial_f64_make(&t);
    in = trial_f64_inputs(&w);
    bo_attention_destroy(t.attention);
    assert_ok(context, bo_attention_create(context, &desc, &t.attention));
    FORWARD("calibrate first", BO_INVALID);
    trial_f64_drop(&w);
    trial_drop(&t);
    bo_context_destroy(context);
}

/* Finite inputs whose results exceed double. */
static void overflow_is_reported(void **state)
{
    (void)state;
    static const char *const names[] = {"softmax", "favor", "delta of plain keys", "gla", "linear identity"};
    bo_context *context = test_context(1);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        trial t = make_case(context, names[i], 0);
        trial_f64 w = trial_f64_make(&t);
        bo_attention_inputs_f64 in = trial_f64_inputs(&w);
        bo_attention_gradients_f64 g = trial_f64_gradients(&w);
        bo_attention_shape shape = t.desc.shape;
        for (size_t n = 0; n < t.count[Q]; n++) w.array[Q][n] *= 1e200;
        for (size_t n = 0; n < t.count[K]; n++) w.array[K][n] *= 1e200;
        FORWARD("overflowed float64", BO_NUMERIC);
        BACKWARD("overflowed float64", BO_NUMERIC);
        trial_f64_drop(&w);
        trial_drop(&t);
    }
    bo_context_destroy(context);
}

/* ---- cancellation ------------------------------------------------------------------------------------------------ */

static bool stop(void *user, const char *what, double done, double total)
{
    if (!strstr(what, "attention in float64") || done > total) fail_msg("%s: %g of %g", what, done, total);
    ++*(int *)user;
    return false;
}

static void passes_end_on_request(void **state)
{
    (void)state;
    enum { TOKENS_LONG = 6000, WIDTH = 4 };
    static const bo_attention_kind some[] = {BO_ATTENTION_SOFTMAX, BO_ATTENTION_RIDGE};
    double *x = oracle_zeros(TOKENS_LONG * WIDTH), *out = oracle_zeros(TOKENS_LONG * WIDTH);
    for (size_t i = 0; i < 2; i++) {
        int calls = 0;
        bo_context *context = NULL;
        bo_attention *attention;
        bo_context_desc how = {.threads = 1, .progress = stop, .user = &calls};
        bo_attention_desc desc = {.kind = some[i], .heads = 1, .dim = WIDTH, .causal = true};
        bo_attention_shape shape = {.sequences = 1, .tokens = TOKENS_LONG};
        bo_attention_inputs_f64 in = {.q = x, .k = x, .v = x};
        bo_attention_gradients_f64 g = {.q = out};
        assert_int_equal(bo_context_create(&how, &context), BO_OK);
        assert_ok(context, bo_attention_create(context, &desc, &attention));
        bo_status status = bo_attention_forward_f64(context, attention, &shape, &in, out);
        assert_int_equal(status, calls ? BO_CANCELED : BO_OK);
        calls = 0;
        status = bo_attention_backward_f64(context, attention, &shape, &in, x, &g);
        assert_int_equal(status, calls ? BO_CANCELED : BO_OK);
        assert_true(calls == 1 || i == 1); /* softmax takes far longer than the time between two calls */
        bo_attention_destroy(attention);
        bo_context_destroy(context);
    }
    free(x), free(out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bad_numbers_are_refused), cmocka_unit_test(wrong_arrays_are_refused),
        cmocka_unit_test(shapes_are_refused),      cmocka_unit_test(maps_are_refused),
        cmocka_unit_test(overflow_is_reported),    cmocka_unit_test(passes_end_on_request),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
