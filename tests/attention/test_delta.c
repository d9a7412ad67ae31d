/* The delta rule against its own recurrence: outputs, final states, and every gradient. */
#include "delta.h"

static const problem problems[] = {
    {"plain", 1, 1, 5, 3, 1, {37}, .chunk = 8, .norm = 0.9},
    {"one token", 1, 1, 4, 4, 1, {1}, .gated = true, .weighed = true, .carried = true, .gates = 1},
    {"beta", 2, 2, 6, 5, 1, {45}, .weighed = true, .carried = true, .norm = 0.9},
    {"gate", 2, 1, 4, 7, 1, {83}, .gated = true, .weighed = true, .carried = true, .chunk = 16, .gates = 0.3},
    {"unit",
     4,
     2,
     5,
     4,
     2,
     {40, 40},
     .gated = true,
     .weighed = true,
     .unit = true,
     .carried = true,
     .gates = 0.1,
     .norm = 3},
    {"packed", 2, 2, 3, 5, 3, {33, 0, 20}, .packed = true, .weighed = true, .unit = true, .carried = true},
    {"tokens first", 4, 2, 3, 4, 2, {35, 35}, .tokens_first = true, .gated = true, .gates = 0.5, .norm = 0.8},
    {"packed tokens first",
     2,
     1,
     4,
     3,
     2,
     {50, 17},
     .packed = true,
     .tokens_first = true,
     .gated = true,
     .weighed = true,
     .carried = true,
     .gates = 0.2,
     .chunk = 5},
    {"wide", 1, 1, 33, 20, 1, {70}, .weighed = true, .gated = true, .gates = 0.05, .unit = true},
};

static void test_recurrence(void **state)
{
    (void)state;
    bo_context *context = test_context(2);
    for (size_t i = 0; i < sizeof problems / sizeof *problems; i++) {
        data d = make(&problems[i]);
        answers a = ready(context, &d);
        loss(&d);
        assert_ok(context, forward(context, &d, &a));
        assert_array(d.p, "out", a.out, d.out, d.outs);
        check_finals(context, &d, &a);
        assert_ok(context, backward(context, &d, &a));
        check_gradients(&d, &a);
        drop(&d, &a);
        discard(&d);
    }
    bo_context_destroy(context);
}

/* Many tokens, the planner's chunk, outputs only: reflections (β|k|² = 2) neither grow nor forget, nor do errors. */
static void test_long(void **state)
{
    (void)state;
    static const problem reflections = {"reflections",   1,        1, 20, 9, 1, {1500}, .weighed = true, .unit = true,
                                        .carried = true, .norm = 5};
    bo_context *context = test_context(1);
    data d = make(&reflections);
    for (size_t i = 0; i < d.count[BETA]; i++) d.in[BETA][i] = 2;
    answers a = ready(context, &d);
    loss(&d);
    assert_ok(context, forward(context, &d, &a));
    /* Each token adds some roundings, 1500 of them: √1500 times as much as one. */
    for (size_t i = 0; i < d.outs; i++)
        assert_close((double)a.out[i], d.out[i], sqrt(1500) * 0x1p-22 * largest(d.out, d.outs));
    drop(&d, &a);
    discard(&d);
    bo_context_destroy(context);
}

/* ---- gates of every size ---------------------------------------------------------------------------------------- */

static void extreme_gates(const data *d)
{
    static const float sizes[] = {0, -1e-3F, -0.1F, -30, -0.5F, -1e9F, -0.7F, -3e38F, -0.01F, -1e4F, -0.3F};
    for (size_t i = 0; i < d->count[GATE]; i++) d->in[GATE][i] = (double)sizes[i * 7 % 11];
}

/* da = ⟨dL/d(g S), g S⟩ is at most g times what it would be with g = 1: nothing else may be left of it. */
static void check_closed(const data *d, const answers *a)
{
    for (size_t i = 0; i < d->count[GATE]; i++) {
        double g = exp(d->in[GATE][i]), most = 1e3 * g, found = fabs((double)a->gradient[GATE][i]);
        if (g < 1e-10 && found > most) fail_msg("log_gate[%zu] = %g: gradient %g", i, d->in[GATE][i], found);
    }
}

static void test_extreme_gates(void **state)
{
    (void)state;
    static const problem closed = {"closed gates", 2, 1, 6, 5, 1, {61}, .gated = true, .weighed = true,
                                   .carried = true};
    bo_context *context = test_context(1);
    data d = make(&closed);
    extreme_gates(&d);
    answers a = ready(context, &d);
    loss(&d);
    assert_ok(context, forward(context, &d, &a));
    assert_array(d.p, "out", a.out, d.out, d.outs);
    check_finals(context, &d, &a);
    assert_ok(context, backward(context, &d, &a));
    check_gradients(&d, &a);
    check_closed(&d, &a);
    drop(&d, &a);
    discard(&d);
    bo_context_destroy(context);
}

/* ---- less than everything --------------------------------------------------------------------------------------- */

/* Queries of a state alone: o = s Sᵀq is linear in q and S, so its gradients are seen at once. */
static void test_no_keys(void **state)
{
    (void)state;
    enum { TOKENS = 40, DIM = 3, VALUES = 2 };
    static const problem small = {"no keys", 1, 1, DIM, VALUES, 1, {TOKENS}, .carried = true};
    bo_context *context = test_context(1);
    data d = make(&small);
    answers a = ready(context, &d);
    bo_attention_inputs in = {.q = a.in[Q]};
    bo_attention_gradients gradients = {.q = a.gradient[Q], .initial = a.d_initial};
    a.shape.no_keys = true;
    assert_ok(context, bo_attention_forward(context, a.attention, &a.shape, &in, (const void *const *)a.states, NULL,
                                            a.out, a.tape));
    assert_ok(context, bo_attention_backward(context, a.attention, &a.shape, &in, (const void *const *)a.states, a.out,
                                             a.tape, a.dout, (const float *const *)a.d_final, &gradients));
    const double *s = d.in[START], *q = d.in[Q], scale = 1 / sqrt((double)DIM);
    double *out = d.out, *dq = doubles(TOKENS * DIM), *ds = d.dfinal; /* what leads to the final state, and more */
    memset(out, 0, d.outs * sizeof *out);
    for (size_t i = 0; i < TOKENS * DIM * VALUES; i++) {
        size_t t = i / (DIM * VALUES), m = i / VALUES % DIM, n = i % VALUES;
        out[t * VALUES + n] += scale * s[m * VALUES + n] * q[t * DIM + m];
        dq[t * DIM + m] += scale * s[m * VALUES + n] * d.dout[t * VALUES + n];
        ds[m * VALUES + n] += scale * q[t * DIM + m] * d.dout[t * VALUES + n];
    }
    assert_array(d.p, "out", a.out, out, d.outs);
    assert_array(d.p, "q", a.gradient[Q], dq, TOKENS * DIM);
    assert_array(d.p, "initial", a.gradient[START], ds, DIM * VALUES);
    free(dq);
    drop(&d, &a);
    discard(&d);
    bo_context_destroy(context);
}

/* Without dout, only d_final counts; without places for them, gradients are not written. */
static void test_some_gradients(void **state)
{
    (void)state;
    static const problem brief = {
        "brief",      2,          1, 4, 7, 1, {21}, .gated = true, .weighed = true, .carried = true, .chunk = 8,
        .gates = 0.1, .norm = 0.8};
    bo_context *context = test_context(1);
    data d = make(&brief);
    memset(d.dout, 0, d.outs * sizeof *d.dout);
    answers a = ready(context, &d);
    assert_ok(context, forward(context, &d, &a));
    for (size_t i = 0; i < d.count[Q]; i++) a.gradient[Q][i] = 1;
    float *dout = a.dout;
    a.dout = NULL;
    assert_ok(context, backward(context, &d, &a));
    check_gradients(&d, &a);
    bo_attention_gradients none = {0};
    assert_ok(context, bo_attention_backward(context, a.attention, &a.shape, &a.inputs, (const void *const *)a.states,
                                             a.out, a.tape, dout, NULL, &none));
    a.dout = dout;
    drop(&d, &a);
    discard(&d);
    bo_context_destroy(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_recurrence), cmocka_unit_test(test_long),           cmocka_unit_test(test_extreme_gates),
        cmocka_unit_test(test_no_keys),    cmocka_unit_test(test_some_gradients),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
