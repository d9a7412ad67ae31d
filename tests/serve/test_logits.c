/* Log probabilities against float64, the list of the most likely tokens, and the choice with penalties and bias. */
#include "testing.h"
#include "serve/logits.h"

enum { VOCAB = 1003 };

static void draw(bo_rng *rng, size_t count, double scale, float *logits)
{
    for (size_t i = 0; i < count; i++) logits[i] = (float)(scale * bo_rng_normal(rng));
}

static double exact_logprob(const float *logits, size_t count, int32_t id)
{
    double largest = -INFINITY, total = 0;
    for (size_t i = 0; i < count; i++) largest = fmax(largest, (double)logits[i]);
    for (size_t i = 0; i < count; i++) total += exp((double)logits[i] - largest);
    return (double)logits[id] - largest - log(total);
}

/* Errors: expf and the difference before it have relative errors of 2^-23 or less each, so log Σ differs by at most 4
 * 2^-23 plus |x| 2^-23 of the difference, which is below 1e-5 here; the result is rounded to float. */
static double bound(double logprob)
{
    return 1e-5 + fabs(logprob) * 1e-6;
}

static void test_scores(void **state)
{
    (void)state;
    static float logits[VOCAB];
    static const size_t sizes[] = {1, 2, 7, 8, 9, 16, 31, 256, VOCAB};
    static const double scales[] = {0, 0.1, 3, 30, 1000};
    bo_rng rng = bo_rng_make(1, 1);
    for (size_t n = 0; n < sizeof sizes / sizeof *sizes; n++)
        for (size_t s = 0; s < sizeof scales / sizeof *scales; s++) {
            const size_t vocab = sizes[n];
            draw(&rng, vocab, scales[s], logits);
            for (int top = 0; top <= BO_MAX_TOP; top += 5) {
                bo_job_token token = {.id = (int32_t)bo_rng_below(&rng, vocab), .top_count = 77};
                bo_score_token(logits, vocab, top, &token);
                const double expected = exact_logprob(logits, vocab, token.id);
                assert_true(token.scored);
                assert_close((double)token.logprob, expected, bound(expected));
                assert_int_equal(token.top_count, bo_min((size_t)top, vocab));
                for (size_t i = 0; i < token.top_count; i++) {
                    const int32_t id = token.top_ids[i];
                    assert_close((double)token.top_logprobs[i], exact_logprob(logits, vocab, id),
                                 bound(exact_logprob(logits, vocab, id)));
                    size_t before = 0; /* tokens that belong before it */
                    for (size_t k = 0; k < vocab; k++)
                        before += logits[k] > logits[id] || (logits[k] == logits[id] && (int32_t)k < id);
                    assert_int_equal(before, i);
                }
            }
        }
}

static void test_ties(void **state)
{
    (void)state;
    const float logits[] = {1, 3, 2, 3, 1, 3, -INFINITY, 2};
    const int32_t expected[] = {1, 3, 5, 2, 7, 0, 4, 6};
    bo_job_token token = {.id = 6};
    bo_score_token(logits, 8, BO_MAX_TOP, &token);
    assert_int_equal(token.top_count, 8);
    for (size_t i = 0; i < 8; i++) assert_int_equal(token.top_ids[i], expected[i]);
    assert_true(token.logprob == -INFINITY);
    assert_true(token.top_logprobs[7] == -INFINITY);
    bo_score_token(logits, 8, 2, &token);
    assert_int_equal(token.top_count, 2);
    assert_int_equal(token.top_ids[0], 1);
    assert_int_equal(token.top_ids[1], 3);
    bo_score_token(logits, 8, -1, &token);
    assert_int_equal(token.top_count, 0);
}

static bo_sampler *greedy(bo_context *context)
{
    bo_sampler *sampler;
    assert_ok(context, bo_sampler_create(context, &(bo_sampler_desc){.greedy = true}, &sampler));
    return sampler;
}

/* The choice is that of logits - presence - frequency x times + bias, in float64. */
static void test_choice(void **state)
{
    (void)state;
    enum { SMALL = 50, ROUNDS = 400 };
    bo_context *context = test_context(1);
    bo_rng rng = bo_rng_make(4, 4);
    size_t changed = 0;
    for (int round = 0; round < ROUNDS; round++) {
        float logits[SMALL], given[SMALL], scratch[SMALL];
        double adjusted[SMALL];
        bo_bias biases[3];
        bo_occurrences made = {0};
        uint32_t times[SMALL] = {0};
        bo_job job = {.sampler = greedy(context), .top = round % 3 - 1, .biases = biases, .bias_count = 3};
        job.presence_penalty = round % 2 ? 4 * bo_rng_uniform(&rng) - 2 : 0;
        job.frequency_penalty = round % 5 ? 4 * bo_rng_uniform(&rng) - 2 : 0;
        draw(&rng, SMALL, 2, logits);
        memcpy(given, logits, sizeof given);
        for (int i = 0; i < 30; i++) {
            const int32_t id = (int32_t)bo_rng_below(&rng, SMALL);
            times[id]++;
            assert_ok(context, bo_occurrences_add(context, &made, id));
        }
        for (int i = 0; i < 3; i++)
            biases[i] = (bo_bias){(int32_t)bo_rng_below(&rng, SMALL), (float)bo_rng_normal(&rng)};
        size_t best = 0, plain = 0;
        for (size_t i = 0; i < SMALL; i++) {
            adjusted[i] = (double)logits[i];
            if (times[i]) adjusted[i] -= job.presence_penalty + job.frequency_penalty * times[i];
            for (int b = 0; b < 3; b++)
                if (biases[b].id == (int32_t)i) adjusted[i] += (double)biases[b].amount;
            if (adjusted[i] > adjusted[best]) best = i;
            if (logits[i] > logits[plain]) plain = i;
        }
        changed += best != plain;
        bo_job_token token;
        bo_choose_token(&job, &made, logits, scratch, SMALL, &token);
        assert_int_equal(token.id, best);
        assert_false(token.of_prompt);
        assert_int_equal(token.scored, job.top >= 0);
        if (job.top >= 0) { /* the log probability is that of the model */
            assert_memory_equal(logits, given, sizeof given);
            const double expected = exact_logprob(given, SMALL, token.id);
            assert_close((double)token.logprob, expected, bound(expected));
            assert_int_equal(token.top_count, job.top);
        }
        bo_free(made.items);
        bo_sampler_destroy(job.sampler);
    }
    assert_true(changed > ROUNDS / 4); /* penalties and bias have an effect */
    bo_context_destroy(context);
}

static void test_occurrences(void **state)
{
    (void)state;
    enum { IDS = 500 };
    bo_context *context = test_context(1);
    bo_occurrences made = {0};
    for (int32_t round = 0; round < 3; round++)
        for (int32_t id = 0; id < IDS; id++)
            if (id % (round + 1) == 0) assert_ok(context, bo_occurrences_add(context, &made, 7 * id));
    assert_int_equal(made.count, IDS);
    for (size_t i = 0; i < made.count; i++) {
        const int32_t id = made.items[i].id / 7;
        assert_int_equal(made.items[i].id % 7, 0);
        assert_int_equal(made.items[i].times, 1 + (id % 2 == 0) + (id % 3 == 0));
    }
    bo_free(made.items);
    bo_context_destroy(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_scores),
        cmocka_unit_test(test_ties),
        cmocka_unit_test(test_choice),
        cmocka_unit_test(test_occurrences),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
