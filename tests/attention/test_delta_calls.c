/* Calls of the delta rule: in parts, in batches, with threads, bitwise causal; and errors. */
#include "delta.h"

/* ---- equivalent calls -------------------------------------------------------------------------------------------- */

static const problem delta_problem = {
    "whole",      4,        2, 7, 5, 1, {75}, .gated = true, .weighed = true, .unit = true, .tokens_first = true,
    .gates = 0.2, .norm = 2};

/* Blocks, then steps, then blocks; the last output again without keys. */
static void test_splits(void **state)
{
    (void)state;
    run *r = run_open(2, &delta_problem);
    const data *d = r->d;
    size_t last = delta_problem.lengths[0] - 1, width = delta_problem.heads * delta_problem.values;
    float *again = floats_of(width, NULL);
    recur(d, 1);
    advance(r, 0, 20, false);
    advance(r, 20, 25, true);
    advance(r, 45, last + 1 - 45, false);
    compare(delta_problem.name, "out in parts", d->outs, r->out, d->out, tolerance);
    bo_attention_inputs query_only = {.q = r->in[Q] + last * delta_problem.heads * delta_problem.dim};
    assert_ok(r->context, bo_attention_step(r->context, r->attention, 1, &query_only, r->final, again));
    compare(delta_problem.name, "out read again", width, again, d->out + last * width, tolerance);
    assert_int_equal(bo_attention_state_tokens(r->final[0]), last + 1);
    free(again);
    run_close(r);
}

/* A step of twenty states gives the same results as twenty single steps. */
static void test_step_batch(void **state)
{
    (void)state;
    enum { BATCH = 20 };
    run *r = run_open(2, &delta_problem);
    size_t width = delta_problem.heads * delta_problem.values;
    void *together[BATCH], *separate[BATCH];
    float *out = floats_of(BATCH * width, NULL), *single = floats_of(width, NULL);
    for (size_t s = 0; s < BATCH; s++) together[s] = state_of(r), separate[s] = state_of(r);
    for (size_t round = 0; round < 3; round++) { /* tokens 20 round + s of the problem belong to sequence s */
        bo_attention_inputs in = inputs_from(r, round * BATCH);
        assert_ok(r->context, bo_attention_step(r->context, r->attention, BATCH, &in, together, out));
        for (size_t s = 0; s < BATCH; s++) {
            bo_attention_inputs step_inputs = inputs_from(r, round * BATCH + s);
            assert_ok(r->context, bo_attention_step(r->context, r->attention, 1, &step_inputs, &separate[s], single));
            assert_memory_equal(single, out + s * width, width * sizeof *out);
        }
    }
    for (size_t s = 0; s < BATCH; s++) free(together[s]), free(separate[s]);
    free(out), free(single);
    run_close(r);
}

static void test_threads(void **state)
{
    (void)state;
    static const int threads[] = {1, 2, 5};
    static const problem several = {"several",       6,           3, 8, 8, 2, {90, 90}, .gated = true, .weighed = true,
                                    .carried = true, .gates = 0.2};
    run *runs[3];
    for (size_t n = 0; n < 3; n++) {
        run *r = runs[n] = run_open(threads[n], &several);
        run_forward(r, r->tape);
        assert_ok(r->context, try_backward(r));
        assert_memory_equal(r->out, runs[0]->out, r->d->outs * sizeof *r->out);
        for (int a = 0; a < ARRAYS; a++)
            if (r->d->count[a])
                assert_memory_equal(r->gradient[a], runs[0]->gradient[a], r->d->count[a] * sizeof(float));
    }
    for (size_t n = 0; n < 3; n++) run_close(runs[n]);
}

/* Changing token t changes no bit of earlier outputs. */
static void test_causality(void **state)
{
    (void)state;
    run *before = run_open(1, &delta_problem);
    const data *d = before->d;
    size_t width = delta_problem.heads * delta_problem.values, tokens = delta_problem.lengths[0];
    run_forward(before, before->tape);
    for (size_t t = 0; t < tokens; t += 7) {
        run *r = run_make(before->context, d);
        for (int array = 0; array < START; array++)
            for (size_t each = d->count[array] / tokens, i = t * each; i < (t + 1) * each; i++)
                r->in[array][i] = array == GATE ? -5 : 1 - r->in[array][i] / 2;
        run_forward(r, r->tape);
        assert_memory_equal(r->out, before->out, t * width * sizeof *r->out);
        assert_memory_not_equal(r->out + t * width, before->out + t * width, width * sizeof *r->out);
        run_free(r);
    }
    run_close(before);
}

/* ---- errors ------------------------------------------------------------------------------------------------------ */

static void test_divergence(void **state)
{
    (void)state;
    static const problem large = {"large keys", 1, 1, 8, 4, 1, {400}, .norm = 5};
    run *r = run_open(1, &large);
    assert_fails(r->context, BO_NUMERIC, "stable up to 2 (set unit", try_forward(r, r->tape));
    r->in[K][17] = NAN;
    assert_fails(r->context, BO_NUMERIC, "k is nan at sequence 0, head 0, token 2, column 1", try_forward(r, r->tape));
    run_close(r);
}

/* k vᵀ overflows float32, which a zero query does not detect. */
static void test_final_overflow(void **state)
{
    (void)state;
    static const problem one = {"one", 1, 1, 2, 2, 1, {1}, .norm = 1};
    run *r = run_open(1, &one);
    for (size_t i = 0; i < 2; i++) r->in[Q][i] = 0, r->in[K][i] = r->in[V][i] = 1e20F;
    assert_fails(r->context, BO_NUMERIC, "overflowed float32", try_forward(r, r->tape));
    run_close(r);
}

static void test_not_finite(void **state)
{
    (void)state;
    static const char *const messages[] = {"q is inf", "k is inf", "v is inf", "log_gate is inf", "beta is inf"};
    run *r = run_open(1, &delta_problem);
    for (int array = Q; array <= BETA; array++) {
        float *last = r->in[array] + r->d->count[array] - 1, was = *last;
        *last = INFINITY;
        assert_fails(r->context, BO_NUMERIC, messages[array], try_forward(r, r->tape));
        *last = was;
    }
    run_forward(r, r->tape);
    r->dout[3] = NAN;
    assert_fails(r->context, BO_NUMERIC, "dout is nan", try_backward(r));
    run_close(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_splits),     cmocka_unit_test(test_step_batch), cmocka_unit_test(test_threads),
        cmocka_unit_test(test_causality),  cmocka_unit_test(test_divergence), cmocka_unit_test(test_final_overflow),
        cmocka_unit_test(test_not_finite),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
