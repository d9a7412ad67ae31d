/* Calls of ridge attention: in pieces and step by step, from states, for many tokens, with numbers of any size, with
 * any number of threads; its report, and invalid calls. */
#include "ridge_problem.h"

static const problem plain = {"plain", 4, 2, 9, 5, 2, {70, 70}, .weighed = true, .lambda = 0.5, .chunk = 16};
static const problem gated = {
    "gated", 4, 2, 9, 5, 2, {70, 70}, .weighed = true, .lambda = 0.5, .chunk = 16, .gated = true, .gates = 0.2};

/* ---- pieces ------------------------------------------------------------------------------------------------------ */

/* One sequence, in layout TOKENS_FIRST. */
static problem single(const problem *from)
{
    problem p = *from;
    p.sequences = 1, p.tokens_first = true;
    return p;
}

static void begin_final(run *r)
{
    for (size_t s = 0; s < r->d->p->sequences; s++)
        memcpy(r->final[s], r->initial[s], bo_attention_state_bytes(r->attention));
}

static void test_pieces(void **state)
{
    for (int gates = 0; gates < 2; gates++) {
        problem p = single(gates ? &gated : &plain);
        p.carried = true;
        run *r = run_open(1, &p);
        begin_final(r);
        advance(r, 0, 5, true);
        advance(r, 5, 20, false);
        advance(r, 25, 1, false);
        advance(r, 26, 30, true);
        advance(r, 56, 14, false);
        recur(r->d, 1);
        compare(p.name, "out in pieces", r->d->outs, r->out, r->d->out, 1e-5);
        check_finals(r, "final in pieces", 1e-5);
        assert_int_equal(bo_attention_state_tokens(r->final[0]), 70);
        run_close(r);
    }
    (void)state;
}

/* A query without a key: the query of the last token, for the state after it. */
static void test_reading(void **state)
{
    for (int gates = 0; gates < 2; gates++) {
        problem p = single(gates ? &gated : &plain);
        run *r = run_open(1, &p);
        run_forward(r, NULL);
        size_t bytes = bo_attention_state_bytes(r->attention), outs = p.heads * p.values;
        char *before = malloc(bytes);
        memcpy(before, r->final[0], bytes);
        bo_attention_inputs in = {.q = r->in[Q] + 69 * p.heads * p.dim, .lambda = r->in[LAMBDA]};
        bo_attention_shape shape = {.sequences = 1, .tokens = 1, .no_keys = true, .layout = BO_LAYOUT_TOKENS_FIRST};
        float *found = floats_of(outs, NULL);
        recur(r->d, 1);
        assert_ok(r->context, bo_attention_step(r->context, r->attention, 1, &in, r->final, found));
        compare(p.name, "step without a key", outs, found, r->d->out + 69 * outs, 1e-5);
        assert_ok(r->context, bo_attention_forward_arrays(r->context, r->attention, &shape, &in,
                                                          (const void *const *)r->final, NULL, found, NULL));
        compare(p.name, "forward without keys", outs, found, r->d->out + 69 * outs, 1e-5);
        assert_memory_equal(before, r->final[0], bytes);
        free(before), free(found);
        run_close(r);
    }
    (void)state;
}

/* A query with another Λ, for a state with or without a factorization: no bit of the state changes, and the output is
 * correct. */
static void test_reading_changes_nothing(void **state)
{
    for (int gates = 0; gates < 2; gates++) {
        problem p = single(gates ? &gated : &plain);
        run *r = run_open(1, &p);
        run_forward(r, NULL);
        size_t bytes = bo_attention_state_bytes(r->attention), outs = p.heads * p.values;
        char *fresh = malloc(bytes), *before = malloc(bytes);
        assert_ok(r->context, bo_attention_state_init(r->context, r->attention, before));
        bo_attention_inputs other = inputs_from(r, 0), query_only = {.q = r->in[Q] + 69 * p.heads * p.dim};
        bo_attention_shape shape = {.sequences = 1, .tokens = 1, .no_keys = true, .layout = BO_LAYOUT_TOKENS_FIRST};
        bo_attention_shape one_sequence = {.sequences = 1, .tokens = 70, .layout = BO_LAYOUT_TOKENS_FIRST};
        float *found = floats_of(outs, NULL), *all = floats_of(70 * outs, NULL);
        other.lambda = NULL; /* the default 1; the state has 0.5 */
        assert_ok(r->context,
                  bo_attention_forward_arrays(r->context, r->attention, &one_sequence, &other, NULL, NULL, all, NULL));
        memcpy(fresh, before, bytes);
        for (int which = 0; which < 2; which++) {
            void *target = which ? r->final[0] : fresh;
            memcpy(before, target, bytes);
            assert_ok(r->context, bo_attention_step(r->context, r->attention, 1, &query_only, &target, found));
            assert_memory_equal(before, target, bytes);
            assert_ok(r->context, bo_attention_extend(r->context, r->attention, &shape, &query_only, &target, found));
            assert_memory_equal(before, target, bytes);
            for (size_t i = 0; i < outs; i++) assert_close(found[i], which ? all[69 * outs + i] : 0, 1e-4);
        }
        free(fresh), free(before), free(found), free(all);
        run_close(r);
    }
    (void)state;
}

/* Sums that are written to a state with a factorization: outputs equal those of a state without a factorization. */
static void test_sums_set(void **state)
{
    bo_context *context = test_context(1);
    problem p = plain;
    p.sequences = 1, p.tokens_first = true;
    data d = make_data(&p);
    run *r = run_make(context, &d);
    run_forward(r, NULL);
    size_t bytes = bo_attention_state_bytes(r->attention), outs = p.heads * p.values;
    float *g = floats_of(p.dim * p.values, NULL), *h = floats_of(p.dim * p.dim, NULL);
    float *found = floats_of(outs, NULL), *expected = floats_of(outs, NULL);
    void *fresh = malloc(bytes);
    assert_ok(context, bo_attention_state_init(context, r->attention, fresh));
    for (size_t i = 0; i < p.dim * p.values; i++) g[i] = 0.1f * (float)(i % 7);
    for (size_t i = 0; i < p.dim; i++) h[i * p.dim + i] = 2;
    bo_attention_inputs in = {.q = r->in[Q], .lambda = r->in[LAMBDA]};
    for (int which = 0; which < 2; which++) {
        void *to = which ? r->final[0] : fresh;
        for (size_t head = 0; head < p.key_heads; head++)
            assert_ok(context, bo_attention_state_set(context, r->attention, to, head, g, h, 0));
        assert_ok(context, bo_attention_step(context, r->attention, 1, &in, &to, which ? found : expected));
    }
    assert_memory_equal(found, expected, outs * sizeof *found);
    free(g), free(h), free(found), free(expected), free(fresh);
    run_free(r);
    discard(&d);
    bo_context_destroy(context);
    (void)state;
}

/* A state from one Λ that is used with another Λ gives the outputs of a state from the other Λ. */
static void test_other_lambda(void **state)
{
    problem p = single(&plain);
    run *r = run_open(1, &p);
    begin_final(r);
    r->inputs.lambda = NULL;
    advance(r, 0, 30, false);
    advance(r, 30, 3, true);
    r->inputs.lambda = r->in[LAMBDA];
    advance(r, 33, 3, true);
    r->inputs.lambda = NULL;
    advance(r, 36, 4, true);
    r->inputs.lambda = r->in[LAMBDA];
    advance(r, 40, 30, false);
    recur(r->d, 1);
    size_t row = p.heads * p.values;
    compare(p.name, "steps with another lambda", 3 * row, r->out + 33 * row, r->d->out + 33 * row, 1e-5);
    compare(p.name, "a block with another lambda", 30 * row, r->out + 40 * row, r->d->out + 40 * row, 1e-5);
    run_close(r);
    (void)state;
}

/* ---- long, large and small --------------------------------------------------------------------------------------- */

/* Every thousandth of 10^5 tokens equals refitting, for keys with a common component (a condition number of several
 * hundred): without a gate U is updated in double, so that only outputs are rounded to float32. */
static void test_long(void **state)
{
    static const problem p = {"long", 1, 1, 16, 4, 1, {100000}, .lambda = 0.01, .tilt = 3, .tokens_first = true};
    enum { STRIDE = 1000 };
    run *r = run_open(1, &p);
    recur(r->d, STRIDE);
    for (int steps = 0; steps < 2; steps++) {
        begin_final(r);
        if (steps)
            advance(r, 0, p.lengths[0], true);
        else
            run_forward(r, NULL);
        for (size_t t = 0; t < p.lengths[0]; t += STRIDE)
            compare(p.name, steps ? "out of steps" : "out", p.values, r->out + t * p.values, r->d->out + t * p.values,
                    1e-6);
    }
    assert_true(r->solves.largest_residual < 1e-3); /* residual of the H in the state, sums of 10^5 floats */
    run_close(r);
    (void)state;
}

/* Λ from 1e-12 to 1e12, keys and β that are 0; without a gate everything is computed in double and is exact. */
static void test_extremes(void **state)
{
    bo_context *context = test_context(1);
    problem p = plain;
    data d = make_data(&p);
    for (size_t i = 0; i < d.count[LAMBDA]; i++) d.in[LAMBDA][i] = (double)(float)pow(10, (double)(i % 9) * 3 - 12);
    for (size_t i = 0; i < d.count[K]; i++)
        if (i / p.dim % 5 == 0) d.in[K][i] = 0;
    check_outputs(context, &d, "out with lambdas of all sizes", 1e-5);
    for (size_t i = 0; i < d.count[LAMBDA]; i++) d.in[LAMBDA][i] = (double)1e-8f;
    check_outputs(context, &d, "out with tiny lambdas", 1e-5);
    discard(&d);
    p = gated;
    p.chunk = 0;
    d = make_data(&p);
    for (size_t i = 0; i < d.count[LAMBDA]; i++) d.in[LAMBDA][i] = (double)(float)pow(10, (double)(i % 9) - 1);
    for (size_t i = 0; i < d.count[GATE]; i += 7) d.in[GATE][i] = i % 3 ? -30 : (double)-1e9f;
    check_outputs(context, &d, "out with gates that forget", 1e-5);
    for (size_t i = 0; i < d.count[Q]; i++)
        if (i / p.dim % 5 == 0) d.in[Q][i] = 0;
    for (size_t i = 0; i < d.count[K]; i++) d.in[K][i] = 0;
    check_outputs(context, &d, "out of nothing", 0);
    discard(&d);
    bo_context_destroy(context);
    (void)state;
}

/* A state whose H has rank one up to rounding and is much larger than Λ: in the other directions H + Λ is at least
 * Λ. */
static void test_rounded_state(void **state)
{
    static const problem p = {"rounded", 1, 1, 9, 1, 1, {1}, .lambda = 1e-8, .carried = true};
    bo_context *context = test_context(1);
    data d = make_data(&p);
    for (size_t i = 0; i < p.dim; i++) {
        d.in[Q][i] = 1 + 0.1 * (double)i;
        d.in[START][i] = 30 * d.in[Q][i];
        d.in[K][i] = 0;
    }
    for (size_t i = 0; i < p.dim * p.dim; i++) d.in[START][p.dim + i] = 30 * d.in[Q][i / p.dim] * d.in[Q][i % p.dim];
    run *r = run_make(context, &d);
    run_forward(r, NULL);
    assert_close((double)r->out[0], 1, 1e-3); /* = qᵀHq / (qᵀHq + Λ qᵀq) */
    run_free(r);
    discard(&d);
    bo_context_destroy(context);
    (void)state;
}

/* ---- bits -------------------------------------------------------------------------------------------------------- */

/* The systems of the third problem are solved both ways. */
static void test_threads_and_causality(void **state)
{
    static const int threads[] = {1, 2, 5};
    for (int which = 0; which < 3; which++) {
        problem p = which ? gated : plain;
        if (which == 2) p.iterations = 5;
        p.tokens_first = true, p.weighed = false; /* a token with β = 0 is not detected */
        data d = make_data(&p);
        float *first = NULL;
        size_t row = p.heads * p.values;
        for (size_t n = 0; n < 3; n++) {
            bo_context *context = test_context(threads[n]);
            run *r = run_make(context, &d);
            run_forward(r, NULL);
            if (!first) {
                first = floats_of(d.outs, NULL);
                memcpy(first, r->out, d.outs * sizeof *first);
            }
            assert_memory_equal(first, r->out, d.outs * sizeof *first);
            for (size_t t = 0; t < p.lengths[0]; t += 13) {
                r->in[K][t * p.key_heads * p.dim] += 100;
                r->in[V][t * p.key_heads * p.values] -= 3;
                run_forward(r, NULL);
                assert_memory_equal(first, r->out, t * row * sizeof *first);
                assert_memory_not_equal(first + t * row, r->out + t * row, row * sizeof *first);
                r->in[K][t * p.key_heads * p.dim] = (float)d.in[K][t * p.key_heads * p.dim];
                r->in[V][t * p.key_heads * p.values] = (float)d.in[V][t * p.key_heads * p.values];
            }
            run_free(r);
            bo_context_destroy(context);
        }
        free(first);
        discard(&d);
    }
    (void)state;
}

/* ---- gates ------------------------------------------------------------------------------------------------------- */

/* The gradient of a closed gate, and of the first gate, is 0 for any accuracy of the solver. */
static void test_closed_gates(void **state)
{
    bo_context *context = test_context(1);
    problem p = gated;
    p.sequences = p.key_heads = p.heads = 1, p.weighed = false, p.tolerance = 0.1;
    data d = make_data(&p);
    for (size_t t = 9; t < p.lengths[0]; t += 20) d.in[GATE][t] = -1e9;
    run *r = run_make(context, &d);
    r->past = (const void *const *)r->initial;
    run_forward(r, r->tape);
    const float *dgate = r->gradient[GATE];
    bo_attention_gradients to = {.log_gate = r->gradient[GATE]};
    assert_ok(context, bo_attention_backward_arrays(context, r->attention, &r->shape, &r->inputs, r->past, r->out,
                                                    r->tape, r->dout, NULL, &to));
    for (size_t t = 0; t < p.lengths[0]; t++) assert_true((dgate[t] == 0) == (t == 0 || t % 20 == 9));
    run_free(r);
    discard(&d);
    bo_context_destroy(context);
    (void)state;
}

/* ---- the report and refusals ------------------------------------------------------------------------------------- */

static bo_solves solves_of(const problem *p)
{
    run *r = run_open(2, p);
    run_forward(r, NULL);
    bo_solves solves = r->solves;
    run_close(r);
    return solves;
}

static void test_report(void **state)
{
    bo_solves solves = solves_of(&plain);
    assert_int_equal(solves.systems, 2 * 70 * 4);
    assert_int_equal(solves.iterations, 0);
    assert_int_equal(solves.refactored, 0);
    assert_true(solves.largest_residual > 0 && solves.largest_residual < 1e-5);
    solves = solves_of(&gated);
    assert_int_equal(solves.systems, 2 * 70 * 4);
    assert_true(solves.iterations > solves.systems && solves.iterations < 9 * 2 * solves.systems);
    assert_true(solves.refactored < solves.systems / 10 && solves.largest_residual < 1e-5);
    problem p = gated;
    p.iterations = 1;
    solves = solves_of(&p);
    assert_int_equal(solves.iterations, solves.systems);
    assert_true(solves.refactored > solves.systems / 2 && solves.largest_residual < 1e-5);
    p.iterations = 1000, p.lambda = 1e-6; /* the solver stops early: its residual estimate is too small */
    solves = solves_of(&p);
    assert_true(solves.refactored > 0 && solves.largest_residual <= 1e-5);
    (void)state;
}

static void test_refusals(void **state)
{
    run *r = run_open(1, &plain);
#define FORWARD bo_attention_forward_arrays(r->context, r->attention, &r->shape, &r->inputs, NULL, NULL, r->out, NULL)
    r->in[LAMBDA][4] = 0;
    assert_fails(r->context, BO_INVALID, "lambda[4] is 0", FORWARD);
    r->in[LAMBDA][4] = -1;
    assert_fails(r->context, BO_INVALID, "lambda[4] is -1", FORWARD);
    r->in[LAMBDA][4] = 1;
    r->in[BETA][3] = -0.5f;
    assert_fails(r->context, BO_INVALID, "beta is -0.5", FORWARD);
    r->in[BETA][3] = 0;
    r->in[K][5] = INFINITY;
    assert_fails(r->context, BO_NUMERIC, "k is inf", FORWARD);
    r->in[K][5] = 1e30f, r->in[BETA][0] = 1;
    assert_fails(r->context, BO_NUMERIC, "overflowed float32", FORWARD);
    r->in[K][5] = 0;
    r->in[Q][5] = NAN;
    assert_fails(r->context, BO_NUMERIC, "q is nan", FORWARD);
    r->in[Q][5] = 0;
    assert_ok(r->context, FORWARD);
#undef FORWARD
    run_close(r);
    (void)state;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pieces),
        cmocka_unit_test(test_reading),
        cmocka_unit_test(test_reading_changes_nothing),
        cmocka_unit_test(test_other_lambda),
        cmocka_unit_test(test_sums_set),
        cmocka_unit_test(test_long),
        cmocka_unit_test(test_extremes),
        cmocka_unit_test(test_rounded_state),
        cmocka_unit_test(test_threads_and_causality),
        cmocka_unit_test(test_closed_gates),
        cmocka_unit_test(test_report),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
