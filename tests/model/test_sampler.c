/* Sampling: the draws follow the law, the choices are what they say, and the seed decides. */
#include <bochner/model.h>
#include "testing.h"

enum { CHOICES = 12, DRAWS = 20000 };

static const float logits[CHOICES] = {0.3f, -1.2f, 2.0f, 0.0f, -0.4f, 1.1f, 2.0f, -3.0f, 0.7f, 0.2f, -0.9f, 1.6f};

/* Pearson's statistic of draws against the law softmax(logits / temperature) restricted to `kept`. With k - 1 degrees of
 * freedom it has mean k - 1 and variance 2 (k - 1); 5 deviations above that for k up to 12 happen once in 1e4 at most. */
static void check_law(bo_sampler sampler, double temperature, const bool *kept)
{
    double expected[CHOICES], total = 0, statistic = 0;
    size_t counts[CHOICES] = {0}, choices = 0;
    for (size_t i = 0; i < CHOICES; i++) {
        expected[i] = kept[i] ? exp((double)logits[i] / temperature) : 0;
        total += expected[i];
        choices += kept[i];
    }
    for (size_t n = 0; n < DRAWS; n++) {
        float work[CHOICES];
        memcpy(work, logits, sizeof work);
        counts[bo_sampler_next(&sampler, work, CHOICES)]++;
    }
    for (size_t i = 0; i < CHOICES; i++) {
        double mean = DRAWS * expected[i] / total, off = (double)counts[i] - mean;
        if (!kept[i]) assert_int_equal(counts[i], 0);
        if (kept[i]) statistic += off * off / mean;
    }
    double freedom = (double)choices - 1;
    if (!(statistic <= freedom + 5 * sqrt(2 * freedom))) fail_msg("statistic %g with %g degrees", statistic, freedom);
}

static void keep_first(size_t count, bool *kept)
{
    static const size_t order[CHOICES] = {2, 6, 11, 5, 8, 0, 9, 3, 4, 10, 1, 7}; /* equal ones by id */
    for (size_t i = 0; i < CHOICES; i++) kept[order[i]] = i < count;
}

static void test_law(void **unused)
{
    (void)unused;
    bool kept[CHOICES];
    keep_first(CHOICES, kept);
    check_law((bo_sampler){.seed = 1}, 1, kept);
    check_law((bo_sampler){.seed = 2, .temperature = 0.7}, 0.7, kept);
    check_law((bo_sampler){.seed = 3, .temperature = 3}, 3, kept);
    check_law((bo_sampler){.seed = 4, .top_k = CHOICES + 5, .top_p = 1}, 1, kept);
    for (size_t k = 1; k < CHOICES; k++) {
        keep_first(k, kept);
        check_law((bo_sampler){.seed = 5 + k, .top_k = k}, 1, kept);
    }
}

/* The fewest most likely whose probabilities reach p. */
static void test_top_p(void **unused)
{
    (void)unused;
    static const double ps[] = {0.01, 0.2, 0.35, 0.5, 0.75, 0.9, 0.99, 0.9999};
    double total = 0;
    for (size_t i = 0; i < CHOICES; i++) total += exp((double)logits[i]);
    for (size_t n = 0; n < sizeof ps / sizeof *ps; n++) {
        bool kept[CHOICES];
        double sum = 0;
        size_t count = 0;
        while (sum < ps[n] * total) {
            keep_first(++count, kept);
            sum = 0;
            for (size_t i = 0; i < CHOICES; i++)
                if (kept[i]) sum += exp((double)logits[i]);
        }
        check_law((bo_sampler){.seed = 20 + n, .top_p = ps[n]}, 1, kept);
    }
}

static void test_greedy(void **unused)
{
    (void)unused;
    bo_sampler sampler = {.greedy = true}, one = {.top_k = 1, .seed = 9};
    float work[CHOICES];
    memcpy(work, logits, sizeof work);
    assert_int_equal(bo_sampler_next(&sampler, work, CHOICES), 2); /* the first of two equals */
    memcpy(work, logits, sizeof work);
    assert_int_equal(bo_sampler_next(&one, work, CHOICES), 2);
}

static void test_penalty(void **unused)
{
    (void)unused;
    bo_sampler sampler = {.greedy = true, .repetition_penalty = 2};
    float work[CHOICES];
    /* 2.0, 2.0, 1.6, 1.1 … : each is halved once it was taken, however often it was */
    static const int32_t expected[] = {2, 6, 11, 5, 2, 2, 2};
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
        memcpy(work, logits, sizeof work);
        assert_int_equal(bo_sampler_next(&sampler, work, CHOICES), expected[i]);
    }
    bo_sampler negative = {.greedy = true, .repetition_penalty = 2};
    float below[2] = {-1, -1.5f};
    bo_sampler_remember(&negative, 0);
    assert_int_equal(bo_sampler_next(&negative, below, 2), 1);
    bo_sampler forgets = {.greedy = true, .repetition_penalty = 10};
    bo_sampler_remember(&forgets, 2);
    bo_sampler_remember(&forgets, 6);
    for (int i = 0; i < 64; i++) bo_sampler_remember(&forgets, 1);
    memcpy(work, logits, sizeof work);
    assert_int_equal(bo_sampler_next(&forgets, work, CHOICES), 2); /* 64 tokens later */
}

static void test_seed(void **unused)
{
    (void)unused;
    bo_sampler a = {.seed = 5}, b = {.seed = 5}, c = {.seed = 6};
    int same = 0;
    for (int i = 0; i < 200; i++) {
        float x[CHOICES], y[CHOICES], z[CHOICES];
        memcpy(x, logits, sizeof x);
        memcpy(y, logits, sizeof y);
        memcpy(z, logits, sizeof z);
        if (i == 100) b = (bo_sampler){.seed = 5, .drawn = a.drawn}; /* continued */
        int32_t id = bo_sampler_next(&a, x, CHOICES);
        assert_int_equal(id, bo_sampler_next(&b, y, CHOICES));
        same += id == bo_sampler_next(&c, z, CHOICES);
    }
    assert_true(same < 100);
}

static void test_edges(void **unused)
{
    (void)unused;
    bo_context *context = test_context(1);
    float nans[3] = {NAN, 1, NAN}, nothing[3] = {-INFINITY, NAN, -INFINITY}, infinite[3] = {1, INFINITY, 0};
    float wide[4] = {-3e38f, 3e38f, -INFINITY, 0}, alone[1] = {-5};
    bo_sampler s = {.seed = 1, .temperature = 1e-6, .top_k = 2, .top_p = 0.5};
    assert_int_equal(bo_sampler_next(&s, nans, 3), 1);
    assert_int_equal(bo_sampler_next(&s, nothing, 3), 0);
    assert_int_equal(bo_sampler_next(&s, infinite, 3), 1);
    assert_int_equal(bo_sampler_next(&s, wide, 4), 1);
    assert_int_equal(bo_sampler_next(&s, alone, 1), 0);
    assert_ok(context, bo_sampler_check(context, &s));
    assert_fails(context, BO_INVALID, "temperature", bo_sampler_check(context, &(bo_sampler){.temperature = -1}));
    assert_fails(context, BO_INVALID, "temperature", bo_sampler_check(context, &(bo_sampler){.temperature = NAN}));
    assert_fails(context, BO_INVALID, "top_p", bo_sampler_check(context, &(bo_sampler){.top_p = 1.5}));
    assert_fails(context, BO_INVALID, "top_p", bo_sampler_check(context, &(bo_sampler){.top_p = NAN}));
    assert_fails(context, BO_INVALID, "penalty", bo_sampler_check(context, &(bo_sampler){.repetition_penalty = -2}));
    bo_context_destroy(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_law),     cmocka_unit_test(test_top_p), cmocka_unit_test(test_greedy),
        cmocka_unit_test(test_penalty), cmocka_unit_test(test_seed),  cmocka_unit_test(test_edges),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
