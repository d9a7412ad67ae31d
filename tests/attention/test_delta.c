/* The delta rule compared with its recurrence: outputs, final states, and every gradient. */
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
    for (size_t i = 0; i < sizeof problems / sizeof *problems; i++) {
        run *r = run_open(2, &problems[i]);
        check(r, tolerance);
        run_close(r);
    }
}

/* Many tokens with the planned chunk, outputs only: reflections (β|k|² = 2) neither grow nor decay, and neither do
 * errors. */
static void test_long(void **state)
{
    (void)state;
    static const problem reflections = {"reflections",   1,        1, 20, 9, 1, {1500}, .weighed = true, .unit = true,
                                        .carried = true, .norm = 5};
    bo_context *context = test_context(1);
    data d = make_data(&reflections);
    for (size_t i = 0; i < d.count[BETA]; i++) d.in[BETA][i] = 2;
    /* Each of the 1500 tokens adds a few rounding errors, which grow as √1500. */
    check_outputs(context, &d, "out", sqrt(1500) * 0x1p-22);
    discard(&d);
    bo_context_destroy(context);
}

/* ---- gates of every size ----------------------------------------------------------------------------------------- */

static void extreme_gates(const data *d)
{
    static const float sizes[] = {0, -1e-3F, -0.1F, -30, -0.5F, -1e9F, -0.7F, -3e38F, -0.01F, -1e4F, -0.3F};
    for (size_t i = 0; i < d->count[GATE]; i++) d->in[GATE][i] = (double)sizes[i * 7 % 11];
}

/* da = ⟨dL/d(g S), g S⟩ is at most g times its value for g = 1. */
static void check_closed(const run *r)
{
    const data *d = r->d;
    for (size_t i = 0; i < d->count[GATE]; i++) {
        double g = exp(d->in[GATE][i]), limit = 1e3 * g, found = fabs((double)r->gradient[GATE][i]);
        if (g < 1e-10 && found > limit) fail_msg("log_gate[%zu] = %g: gradient %g", i, d->in[GATE][i], found);
    }
}

static void test_extreme_gates(void **state)
{
    (void)state;
    static const problem closed = {"closed gates", 2, 1, 6, 5, 1, {61}, .gated = true, .weighed = true,
                                   .carried = true};
    bo_context *context = test_context(1);
    data d = make_data(&closed);
    extreme_gates(&d);
    run *r = run_make(context, &d);
    check(r, tolerance);
    check_closed(r);
    run_free(r);
    discard(&d);
    bo_context_destroy(context);
}

/* ---- partial inputs and gradients -------------------------------------------------------------------------------- */

/* Queries of a state without keys: o = s Sᵀq is linear in q and S, so its gradients are explicit. */
static void test_no_keys(void **state)
{
    (void)state;
    enum { TOKENS = 40, DIM = 3, VALUES = 2 };
    static const problem small = {"no keys", 1, 1, DIM, VALUES, 1, {TOKENS}, .carried = true};
    run *r = run_open(1, &small);
    const data *d = r->d;
    r->inputs = (bo_attention_inputs){.q = r->in[Q]};
    r->shape.no_keys = true;
    float *initial = r->gradient[START];
    bo_attention_gradients gradients = {.q = r->gradient[Q], .initial = &initial};
    assert_ok(r->context, bo_attention_forward_arrays(r->context, r->attention, &r->shape, &r->inputs, r->past, NULL,
                                                      r->out, r->tape));
    assert_ok(r->context,
              bo_attention_backward_arrays(r->context, r->attention, &r->shape, &r->inputs, r->past, r->out, r->tape,
                                           r->dout, (const float *const[]){r->dfinal}, &gradients));
    const double *s = d->in[START], *q = d->in[Q], scale = 1 / sqrt((double)DIM);
    double *out = d->out, *dq = doubles(TOKENS * DIM), *ds = d->dfinal; /* the gradient of the final state is added */
    for (size_t i = 0; i < TOKENS * DIM * VALUES; i++) {
        size_t t = i / (DIM * VALUES), m = i / VALUES % DIM, n = i % VALUES;
        out[t * VALUES + n] += scale * s[m * VALUES + n] * q[t * DIM + m];
        dq[t * DIM + m] += scale * s[m * VALUES + n] * d->dout[t * VALUES + n];
        ds[m * VALUES + n] += scale * q[t * DIM + m] * d->dout[t * VALUES + n];
    }
    compare(small.name, "out", d->outs, r->out, out, tolerance);
    compare(small.name, "q", TOKENS * DIM, r->gradient[Q], dq, tolerance);
    compare(small.name, "initial", DIM * VALUES, initial, ds, tolerance);
    free(dq);
    run_close(r);
}

/* Without dout, only d_final is used; gradients without a destination are not written. */
static void test_some_gradients(void **state)
{
    (void)state;
    static const problem brief = {
        "brief",      2,          1, 4, 7, 1, {21}, .gated = true, .weighed = true, .carried = true, .chunk = 8,
        .gates = 0.1, .norm = 0.8};
    run *r = run_open(1, &brief);
    run_forward(r, r->tape);
    for (size_t i = 0; i < r->d->count[Q]; i++) r->gradient[Q][i] = 1;
    memset(r->d->dout, 0, r->d->outs * sizeof(double));
    float *dout = r->dout;
    r->dout = NULL;
    assert_ok(r->context, try_backward(r));
    check_gradients(r, tolerance);
    r->dout = dout;
    bo_attention_gradients none = {0};
    assert_ok(r->context, bo_attention_backward_arrays(r->context, r->attention, &r->shape, &r->inputs, r->past, r->out,
                                                       r->tape, dout, NULL, &none));
    run_close(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_recurrence), cmocka_unit_test(test_long),           cmocka_unit_test(test_extreme_gates),
        cmocka_unit_test(test_no_keys),    cmocka_unit_test(test_some_gradients),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
