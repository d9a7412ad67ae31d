/* Ridge attention against float64: outputs, states and all gradients. Tolerances: without a gate the systems are
 * solved in float64, and some hundred float32 products of numbers of order one leave 1e-5 of an array's largest
 * number room for a hundred roundings; with a gate the residual, 1e-6 of the right-hand side, times a condition
 * number of some tens. */
#include "ridge_problem.h"

static const char *const names[ARRAYS] = {"q", "k", "v", "log_gate", "beta", "lambda", "initial"};

/* ---- outputs and gradients ------------------------------------------------------------------------------------- */

static void check_gradients(run *r, const void *tape, double tolerance)
{
    const data *d = r->d;
    const problem *p = d->p;
    size_t states = p->sequences * p->key_heads * head_floats(p), each = p->key_heads * head_floats(p);
    float *found[ARRAYS], *dout = floats_of(d->outs, d->dout), *dfinal = floats_of(states, d->dfinal);
    float *initial[MOST_SEQUENCES];
    const float *final[MOST_SEQUENCES];
    for (int a = 0; a < ARRAYS; a++) found[a] = d->count[a] ? floats_of(d->count[a], NULL) : NULL;
    for (size_t s = 0; s < p->sequences; s++) {
        initial[s] = found[START] + (p->carried ? s * each : 0);
        final[s] = dfinal + s * each;
    }
    bo_attention_gradients to = {.q = found[Q],
                                 .k = found[K],
                                 .v = found[V],
                                 .log_gate = found[GATE],
                                 .beta = found[BETA],
                                 .lambda = found[LAMBDA],
                                 .initial = p->carried ? initial : NULL};
    assert_ok(r->context,
              bo_attention_backward(r->context, r->attention, &r->shape, &r->inputs, (const void *const *)r->initial,
                                    r->out, tape, dout, p->carried ? final : NULL, &to));
    for (int a = 0; a < ARRAYS; a++) {
        double *expected = doubles(d->count[a]);
        for (size_t i = 0; i < d->count[a]; i++) expected[i] = difference(d, a, i);
        compare(p->name, names[a], d->count[a], found[a], expected, tolerance);
        free(expected), free(found[a]);
    }
    free(dout), free(dfinal);
}

static void check(bo_context *context, const problem *p, double tolerance)
{
    data d = make(p);
    run *r = run_make(context, &d);
    size_t bytes;
    assert_ok(context, bo_attention_tape_bytes(context, r->attention, &r->shape, &bytes));
    void *tape = malloc(bytes ? bytes : 1);
    run_forward(r, tape);
    recur(&d, 1);
    compare(p->name, "out", d.outs, r->out, d.out, tolerance);
    float *final = final_sums(r);
    compare(p->name, "final", p->sequences * p->key_heads * head_floats(p), final, d.final, tolerance);
    check_gradients(r, tape, tolerance);
    free(final), free(tape);
    run_free(r);
    discard(&d);
}

static const problem problems[] = {
    {"one token", 1, 1, 1, 1, 1, {1}, .lambda = 1},
    {"plain", 2, 2, 5, 3, 2, {23, 23}, .chunk = 4},
    {"groups", 6, 2, 4, 5, 1, {17}, .chunk = 8, .weighed = true, .lambda = 0.3, .tokens_first = true},
    {"packed, carried", 2, 1, 7, 2, 3, {9, 1, 14}, .packed = true, .carried = true, .lambda = 2, .chunk = 3},
    {"unit, weighed", 1, 1, 6, 6, 1, {30}, .unit = true, .weighed = true, .lambda = 0.5},
    {"gated", 2, 2, 5, 3, 2, {23, 23}, .chunk = 4, .gated = true, .gates = 0.5},
    {"gated groups", 4, 2, 4, 5, 1, {17}, .chunk = 8, .gated = true, .gates = 1, .weighed = true, .lambda = 0.5},
    {"gated, packed, carried",
     2,
     1,
     7,
     2,
     3,
     {9, 1, 14},
     .packed = true,
     .carried = true,
     .gated = true,
     .gates = 0.1,
     .lambda = 2,
     .chunk = 3,
     .tokens_first = true},
    {"gated, unit, one chunk",
     1,
     1,
     6,
     9,
     1,
     {40},
     .gated = true,
     .gates = 0.3,
     .unit = true,
     .weighed = true,
     .carried = true},
    {"gated, directly", 4, 2, 5, 3, 1, {23}, .chunk = 8, .gated = true, .gates = 0.5, .iterations = 1, .carried = true},
    {"gates of all sizes", 1, 1, 3, 4, 1, {40}, .chunk = 16, .gated = true, .gates = 60, .lambda = 1},
};

static void test_against_float64(void **state)
{
    bo_context *context = test_context(2);
    for (size_t i = 0; i < sizeof problems / sizeof *problems; i++)
        check(context, &problems[i], problems[i].gated ? 1e-5 : 3e-6);
    bo_context_destroy(context);
    (void)state;
}

/* Wider than a vector and than a chunk; outputs only, differences would take long. Small Λ, where conjugate gradients in
 * float32 end nowhere: what is left is the rounding of the sums from chunk to chunk, which 32 keys in 32 dimensions, near
 * to dependent, make some hundred times larger. */
static void test_widths(void **state)
{
    static const problem wide[] = {
        {"dim 64", 2, 1, 64, 64, 1, {150}, .lambda = 0.5},
        {"dim 33", 1, 1, 33, 17, 1, {70}, .chunk = 16, .weighed = true},
        {"dim 64, gated", 2, 1, 64, 64, 1, {150}, .lambda = 0.5, .gated = true, .gates = 0.02},
        {"dim 32, a small lambda", 1, 1, 32, 32, 1, {100}, .unit = true, .lambda = 1e-4, .gated = true, .gates = 0.1},
        {"dim 32, a tiny lambda", 1, 1, 32, 32, 1, {100}, .unit = true, .lambda = 1e-8, .gated = true, .gates = 0.1},
        {"dim 33, gated", 1, 1, 33, 17, 1, {70}, .chunk = 16, .weighed = true, .gated = true, .gates = 0.2},
    };
    bo_context *context = test_context(1);
    for (size_t i = 0; i < sizeof wide / sizeof *wide; i++) {
        data d = make(&wide[i]);
        run *r = run_make(context, &d);
        run_forward(r, NULL);
        recur(&d, 1);
        compare(wide[i].name, "out", d.outs, r->out, d.out, wide[i].unit ? 1e-4 : 1e-5);
        run_free(r);
        discard(&d);
    }
    bo_context_destroy(context);
    (void)state;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_against_float64),
        cmocka_unit_test(test_widths),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
