/* Memory: any allocation may fail and nothing leaks; a plan reports the memory of a call. Forward passes of kinds with
 * features need the same memory for any length, backward passes memory proportional to the square root of the
 * length. */
#include "attention/gate.h"
#include "cases.h"
#include "trial_f64.h"
#include "../base/counting.h"

/* ---- any allocation may fail ------------------------------------------------------------------------------------- */

/* Calls all functions of an attention, stopping at the first failure. The caller's arrays have another allocator. */
static bo_status use(bo_context *context, const trial *t)
{
    bo_attention *attention = NULL;
    bo_attention_cost plan;
    bo_attention_inputs in = trial_inputs(t);
    bo_attention_gradients g = {.q = t->gradient[Q], .k = t->gradient[K], .v = t->gradient[V]};
    const bo_attention_shape *shape = &t->desc.shape;
    size_t bytes = 0;
    bo_status status = bo_attention_create(context, &t->desc.attention, &attention);
    if (status == BO_OK) status = bo_attention_redraw(context, attention, 3);
    if (status == BO_OK) status = bo_attention_redraw(context, attention, 0);
    if (status == BO_OK) status = trial_calibrate(context, t, attention);
    if (status == BO_OK) status = bo_attention_estimate_arrays(context, attention, shape, &plan);
    if (status == BO_OK) status = bo_attention_tape_bytes(context, attention, shape, &bytes);
    void *tape = aligned_alloc(64, bytes / 64 * 64 + 64);
    if (status == BO_OK)
        status = bo_attention_forward_arrays(context, attention, shape, &in, NULL, t->final, t->array[OUT], tape);
    if (status == BO_OK)
        status = bo_attention_backward_arrays(context, attention, shape, &in, NULL, t->array[OUT], tape,
                                              t->gradient[OUT], (const float *const *)t->d_final, &g);
    if (status == BO_OK) status = bo_attention_extend(context, attention, shape, &in, t->final, t->array[OUT]);
    if (status == BO_OK) status = bo_attention_step(context, attention, shape->sequences, &in, t->final, t->array[OUT]);
    bo_attention_destroy(attention);
    free(tape);
    return status;
}

/* The passes in float64. */
static bo_status use_f64(bo_context *context, const trial *t)
{
    bo_attention *attention = NULL;
    trial_f64 w = trial_f64_make(t);
    bo_attention_inputs_f64 in = trial_f64_inputs(&w);
    bo_attention_gradients_f64 g = trial_f64_gradients(&w);
    const bo_attention_shape *shape = &t->desc.shape;
    bo_status status = bo_attention_create(context, &t->desc.attention, &attention);
    if (status == BO_OK) status = bo_attention_forward_f64(context, attention, shape, &in, w.array[OUT]);
    if (status == BO_OK) status = bo_attention_backward_f64(context, attention, shape, &in, w.gradient[OUT], &g);
    bo_attention_destroy(attention);
    trial_f64_drop(&w);
    return status;
}

/* Functions other than the passes: gates, parameters of DARK, the comparison. */
static bo_status use_other_calls(bo_context *context, const trial *t)
{
    bo_attention *attention = NULL;
    bo_attention_inputs in = trial_inputs(t);
    bo_attention_accuracy error;
    bo_proposal_report report;
    const bo_attention_shape *shape = &t->desc.shape;
    float x[3 * 5] = {1}, w[2 * 5] = {1}, gates[3 * 2], dx[3 * 5], dw[2 * 5], db[2], *m = trial_floats(2 * 4 * 4);
    bo_status status = bo_gate_forward(context, 3, 5, 2, x, w, NULL, gates);
    if (status == BO_OK) status = bo_gate_backward(context, 3, 5, 2, x, w, gates, gates, dx, dw, db);
    if (status == BO_OK) status = bo_attention_create(context, &t->desc.attention, &attention);
    if (status == BO_OK && t->d->kind == BO_ATTENTION_DARK)
        status = bo_attention_whiten_arrays(context, attention, shape, in.q, in.k, 0, m);
    if (status == BO_OK) status = bo_attention_propose_arrays(context, attention, shape, in.q, in.k, &report);
    if (status == BO_OK) status = bo_attention_measure_arrays(context, attention, shape, &in, t->array[OUT], 3, &error);
    bo_attention_destroy(attention);
    free(m);
    return status;
}

static void check_failures(const kind_of *kind, int threads, bo_status (*call)(bo_context *, const trial *))
{
    counting c = {0};
    bo_context *plain = test_context(1), *context = counting_context(&c, threads);
    trial_desc desc = {.name = kind->name,
                       .attention = kind_desc(kind, 4, 2, 4, 3, true, 8),
                       .shape = {.sequences = 3, .tokens = 20},
                       .seed = 1};
    trial t = trial_make(plain, &desc);
    size_t before = c.live;
    bo_status status = BO_MEMORY;
    for (size_t nth = 1; status == BO_MEMORY; nth++) {
        c.calls = 0;
        c.fail_at = nth;
        c.once = true;
        status = call(context, &t);
        bool reached = c.calls >= nth;
        c.fail_at = 0;
        if (c.live != before) fail_msg("%s: allocation %zu failing leaks", kind->name, nth);
        if (status != BO_OK && (status != BO_MEMORY || !strlen(bo_context_error(context))))
            fail_msg("%s: allocation %zu failing: %s", kind->name, nth, bo_context_error(context));
        if (status == BO_OK && reached) fail_msg("%s: allocation %zu failed without an error", kind->name, nth);
    }
    trial_drop(&t);
    bo_context_destroy(context);
    bo_context_destroy(plain);
    assert_int_equal(c.live, 0);
}

static void any_allocation_may_fail(void **state)
{
    (void)state;
    for (size_t i = 0; i < KINDS; i++) check_failures(&kinds[i], 1 + (int)(i % 2), use);
    for (size_t i = 0; i < CASE_ENGINES; i++) check_failures(kind_named(case_engines[i]), 1 + (int)(i % 2), use_f64);
    check_failures(kind_named("favor"), 1, use_other_calls);
    check_failures(kind_named("dark"), 2, use_other_calls);
}

/* After a redraw that runs out of memory, the attention works and accepts no incompatible state. */
static void failed_redraws_keep_the_attention(void **state)
{
    (void)state;
    counting c = {0};
    bo_context *context = counting_context(&c, 1);
    trial_desc desc = {.name = "redraw",
                       .attention = kind_desc(kind_named("favor"), 4, 4, 4, 3, true, 8),
                       .shape = {.sequences = 1, .tokens = 20},
                       .past = 5,
                       .forward_only = true};
    bo_status status = BO_MEMORY;
    for (size_t nth = 1; status == BO_MEMORY; nth++) {
        trial t = trial_make(context, &desc);
        trial_forward(&t);
        float *before = trial_floats(t.count[OUT]);
        memcpy(before, t.array[OUT], t.count[OUT] * sizeof *before);
        c.calls = 0;
        c.fail_at = nth;
        c.once = true;
        status = bo_attention_redraw(context, t.attention, 9);
        c.fail_at = 0;
        if (status == BO_MEMORY && bo_attention_state_check(context, t.attention, t.initial[0]) == BO_OK) {
            trial_forward(&t); /* its fingerprint has not changed */
            assert_memory_equal(before, t.array[OUT], t.count[OUT] * sizeof *before);
        }
        assert_ok(context, bo_attention_redraw(context, t.attention, 0));
        trial_forward(&t);
        assert_memory_equal(before, t.array[OUT], t.count[OUT] * sizeof *before);
        free(before);
        trial_drop(&t);
    }
    assert_int_equal(status, BO_OK);
    bo_context_destroy(context);
    assert_int_equal(c.live, 0);
}

/* ---- memory use -------------------------------------------------------------------------------------------------- */

typedef struct usage {
    bo_attention_cost plan;
    size_t forward, backward, tape; /* peak bytes of each pass, and the caller's tape */
} usage;

/* One sequence, one thread. The caller's arrays are not counted. */
static usage measure(const kind_of *kind, size_t tokens)
{
    counting c = {0};
    bo_context *context = counting_context(&c, 1);
    trial_desc desc = {.name = kind->name,
                       .attention = kind_desc(kind, 2, 1, 8, 8, true, 32),
                       .shape = {.sequences = 1, .tokens = tokens},
                       .seed = 2};
    trial t = trial_make(context, &desc);
    usage u = {0};
    assert_ok(context, bo_attention_estimate_arrays(context, t.attention, &desc.shape, &u.plan));
    assert_ok(context, bo_attention_tape_bytes(context, t.attention, &desc.shape, &u.tape));
    size_t before = c.bytes;
    c.peak = before;
    trial_forward(&t);
    u.forward = c.peak - before;
    c.peak = before;
    trial_backward(&t);
    u.backward = c.peak - before;
    assert_int_equal(c.bytes, before);
    trial_drop(&t);
    bo_context_destroy(context);
    return u;
}

/* Headers of blocks and the list of sequences. */
enum { SUNDRIES = 1024 };

static void plans_state_the_memory_of_calls(void **state)
{
    (void)state;
    for (size_t i = 0; i < KINDS; i++) {
        usage u = measure(&kinds[i], 500);
        assert_int_equal(u.plan.tape_bytes, u.tape);
        if (u.forward > u.plan.forward_bytes + SUNDRIES || u.plan.forward_bytes > u.forward)
            fail_msg("%s: forward took %zu bytes, the plan states %zu", kinds[i].name, u.forward, u.plan.forward_bytes);
        if (u.backward > u.plan.backward_bytes + SUNDRIES || u.plan.backward_bytes > u.backward)
            fail_msg("%s: backward took %zu bytes, the plan states %zu", kinds[i].name, u.backward,
                     u.plan.backward_bytes);
    }
}

/* Operations per token and head, and once per sequence and head, by the table of docs/reference/attention.md. */
static void check_operations(bo_context *context, bo_attention_desc desc, double each, double once)
{
    desc.heads = 2, desc.dim = 8, desc.value_dim = 6;
    bo_attention_shape shape = {.sequences = 3, .tokens = 1000};
    bo_attention_cost plan;
    bo_attention *attention;
    assert_ok(context, bo_attention_create(context, &desc, &attention));
    assert_ok(context, bo_attention_estimate_arrays(context, attention, &shape, &plan));
    assert_close(plan.operations, 3000.0 * 2 * each + 3 * 2 * once, 0.5);
    bo_attention_destroy(attention);
}

/* The count of operations on which rates are based: N H (4dD + 4D d_v + 65 (D + d_v)) for a causal pass with features,
 * and 4 d operations per pair that softmax attention uses, for d_v = d. */
static void plans_count_operations(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    check_operations(context, (bo_attention_desc){.kind = BO_ATTENTION_GLA, .causal = true}, 4 * 8 * 6 + 65 * (8 + 6),
                     0);
    check_operations(context, (bo_attention_desc){.kind = BO_ATTENTION_DELTA, .causal = true},
                     6 * 8 * 6 + 130 * (8 + 6), 0);
    check_operations(context, (bo_attention_desc){.kind = BO_ATTENTION_RIDGE, .causal = true}, 4 * 8 * 6 + 6 * 8 * 8,
                     0);
    check_operations(context, (bo_attention_desc){.kind = BO_ATTENTION_RIDGE}, 4 * 8 * 6 + 8 * 8,
                     8 * 8 * 8 / 3.0 + 2 * 8 * 8 * 6);
    bo_attention_desc retention = {.kind = BO_ATTENTION_LINEAR,
                                   .causal = true,
                                   .gate = BO_GATE_FIXED,
                                   .normalizer = BO_NORMALIZER_NONE,
                                   .features.kernel = BO_KERNEL_LINEAR};
    check_operations(context, retention, 4 * 8 * 6 + 65 * (8 + 6), 0);
    bo_attention_desc poly = {.kind = BO_ATTENTION_LINEAR, .causal = true, .features.kernel = BO_KERNEL_POLYNOMIAL};
    check_operations(context, poly, 4 * 45 * 6 + 65 * (8 + 6), 0);
    bo_attention_desc favor = {
        .kind = BO_ATTENTION_FAVOR, .heads = 8, .dim = 64, .value_dim = 32, .causal = true, .features.features = 128};
    bo_attention_desc exact = {.kind = BO_ATTENTION_SOFTMAX, .heads = 8, .dim = 64, .causal = true};
    bo_attention_shape shape = {.sequences = 3, .tokens = 1000};
    bo_attention_cost plan;
    bo_attention *attention;
    assert_ok(context, bo_attention_create(context, &favor, &attention));
    assert_ok(context, bo_attention_estimate_arrays(context, attention, &shape, &plan));
    assert_close(plan.operations, 3000.0 * 8 * (4 * 64 * 128 + 4 * 128 * 32 + 65 * (128 + 32)), 0.5);
    bo_attention_destroy(attention);
    assert_ok(context, bo_attention_create(context, &exact, &attention));
    assert_ok(context, bo_attention_estimate_arrays(context, attention, &shape, &plan));
    assert_close(plan.operations, 3 * 8.0 * (1000.0 * 1001 / 2) * 4 * 64, 0.5);
    bo_attention_destroy(attention);
    bo_context_destroy(context);
}

/* For 16 times the length, the forward pass requires the same memory, and the backward pass and the tape require at
 * most 4 times the memory, except for two floats per query. One state may be added at each end if lengths do not divide
 * evenly. */
static void long_sequences_need_little_memory(void **state)
{
    (void)state;
    static const char *const names[] = {"linear elu", "favor", "rfa-gate", "dark",  "hybrid",     "retention",
                                        "hedgehog",   "gla",   "delta",    "ridge", "gated ridge"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const kind_of *kind = kind_named(names[i]);
        size_t tokens = 4096, state_bytes = 32 * 9 * sizeof(float) + 256, query_bytes = 2 * 2 * sizeof(float);
        usage less = measure(kind, tokens), more = measure(kind, 16 * tokens);
        if (more.forward != less.forward)
            fail_msg("%s: forward takes %zu bytes for %zu tokens, %zu for %zu", kind->name, less.forward, tokens,
                     more.forward, 16 * tokens);
        size_t first = less.backward + less.tape - query_bytes * tokens;
        size_t second = more.backward + more.tape - 16 * query_bytes * tokens;
        if (second > 4 * (first + 2 * state_bytes))
            fail_msg("%s: backward and tape take %zu bytes for %zu tokens, %zu for %zu", kind->name, first, tokens,
                     second, 16 * tokens);
    }
}

/* Softmax attention: the memory besides inputs and outputs grows no faster than inputs and outputs. */
static void softmax_attention_needs_no_square_matrix(void **state)
{
    (void)state;
    const kind_of *kind = kind_named("softmax");
    size_t tokens = 512;
    usage less = measure(kind, tokens), more = measure(kind, 4 * tokens);
    assert_true(more.forward <= 4 * less.forward + SUNDRIES);
    assert_true(more.backward <= 4 * less.backward + SUNDRIES);
    assert_true(more.tape <= 4 * less.tape + SUNDRIES);
    assert_true(more.forward + more.backward + more.tape < 4 * tokens * 4 * tokens * sizeof(float));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_allocation_may_fail),           cmocka_unit_test(failed_redraws_keep_the_attention),
        cmocka_unit_test(plans_state_the_memory_of_calls),   cmocka_unit_test(plans_count_operations),
        cmocka_unit_test(long_sequences_need_little_memory), cmocka_unit_test(softmax_attention_needs_no_square_matrix),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
