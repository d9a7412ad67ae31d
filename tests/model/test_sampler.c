/* Sampling: draws follow the distribution, options restrict them as documented, and the seed determines them. */
#include "model/sampler.h"
#include "testing.h"

enum { CHOICES = 12, DRAWS = 20000 };

static const float logits[CHOICES] = {0.3f, -1.2f, 2.0f, 0.0f, -0.4f, 1.1f, 2.0f, -3.0f, 0.7f, 0.2f, -0.9f, 1.6f};

static bo_sampler *create_sampler(bo_context *context, bo_sampler_desc desc)
{
    bo_sampler *sampler;
    assert_ok(context, bo_sampler_create(context, &desc, &sampler));
    return sampler;
}

static int32_t draw(bo_sampler *sampler)
{
    float work[CHOICES];
    memcpy(work, logits, sizeof work);
    return bo_sampler_next(sampler, work, CHOICES);
}

/* Pearson's statistic of draws against the distribution softmax(logits / temperature) restricted to `kept`. With k - 1
 * degrees of freedom it has mean k - 1 and variance 2 (k - 1); for k up to 12 it exceeds the mean by 5 standard
 * deviations at most once in 1e4. */
static void check_law(bo_sampler_desc desc, double temperature, const bool *kept)
{
    bo_context *context = test_context(1);
    bo_sampler *sampler = create_sampler(context, desc);
    double expected[CHOICES], total = 0, statistic = 0;
    size_t counts[CHOICES] = {0}, choices = 0;
    for (size_t i = 0; i < CHOICES; i++) {
        expected[i] = kept[i] ? exp((double)logits[i] / temperature) : 0;
        total += expected[i];
        choices += kept[i];
    }
    for (size_t n = 0; n < DRAWS; n++) counts[draw(sampler)]++;
    for (size_t i = 0; i < CHOICES; i++) {
        double mean = DRAWS * expected[i] / total, off = (double)counts[i] - mean;
        if (!kept[i]) assert_int_equal(counts[i], 0);
        if (kept[i]) statistic += off * off / mean;
    }
    double freedom = (double)choices - 1;
    if (!(statistic <= freedom + 5 * sqrt(2 * freedom))) fail_msg("statistic %g with %g degrees", statistic, freedom);
    bo_sampler_destroy(sampler);
    bo_context_destroy(context);
}

static void keep_first(size_t count, bool *kept)
{
    static const size_t order[CHOICES] = {2, 6, 11, 5, 8, 0, 9, 3, 4, 10, 1, 7}; /* equal logits are ordered by id */
    for (size_t i = 0; i < CHOICES; i++) kept[order[i]] = i < count;
}

static void test_law(void **unused)
{
    (void)unused;
    bool kept[CHOICES];
    keep_first(CHOICES, kept);
    check_law((bo_sampler_desc){.seed = 1}, 1, kept);
    check_law((bo_sampler_desc){.seed = 2, .temperature = 0.7}, 0.7, kept);
    check_law((bo_sampler_desc){.seed = 3, .temperature = 3}, 3, kept);
    check_law((bo_sampler_desc){.seed = 4, .top_k = CHOICES + 5, .top_p = 1}, 1, kept);
    for (size_t k = 1; k < CHOICES; k++) {
        keep_first(k, kept);
        check_law((bo_sampler_desc){.seed = 5 + k, .top_k = k}, 1, kept);
    }
}

/* The smallest set of most likely tokens whose probabilities sum to at least p. */
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
        check_law((bo_sampler_desc){.seed = 20 + n, .top_p = ps[n]}, 1, kept);
    }
}

/* The tokens with at least min_p times the probability of the most likely one, at the temperature. */
static void test_min_p(void **unused)
{
    (void)unused;
    static const double ps[] = {0.001, 0.05, 0.3, 0.7, 1}, temperatures[] = {1, 2, 0.5, 1, 1};
    for (size_t n = 0; n < sizeof ps / sizeof *ps; n++) {
        bool kept[CHOICES];
        double largest = -INFINITY;
        for (size_t i = 0; i < CHOICES; i++) largest = fmax(largest, (double)logits[i]);
        for (size_t i = 0; i < CHOICES; i++)
            kept[i] = exp(((double)logits[i] - largest) / temperatures[n]) >= ps[n] * (1 - 1e-6);
        check_law((bo_sampler_desc){.seed = 40 + n, .min_p = ps[n], .temperature = temperatures[n]}, temperatures[n],
                  kept);
    }
}

/* Tokens in several blocks of a large vocabulary, in which most blocks have no weight. The frequency of a token is
 * within 5 standard deviations of its probability. */
static void test_large(void **unused)
{
    (void)unused;
    enum { MANY = 3001, KEPT = 5 };
    static const size_t ids[KEPT] = {0, 255, 256, 1700, 3000};
    static const double weights[KEPT] = {1, 4, 2, 2, 1};
    static float work[MANY];
    bo_context *context = test_context(1);
    for (size_t p = 0; p < 2; p++) { /* top_p keeps 255 and the two with weight 2: 0.8 of all */
        bo_sampler *sampler = create_sampler(context, (bo_sampler_desc){.seed = 3 + p, .top_p = p ? 0.75 : 1});
        size_t counts[KEPT] = {0};
        for (size_t n = 0; n < DRAWS; n++) {
            for (size_t i = 0; i < MANY; i++) work[i] = n % 2 ? -INFINITY : -200;
            for (size_t i = 0; i < KEPT; i++) work[ids[i]] = (float)log(weights[i]);
            const int32_t id = bo_sampler_next(sampler, work, MANY);
            size_t at = 0;
            while (at < KEPT && (int32_t)ids[at] != id) at++;
            assert_true(at < KEPT);
            counts[at]++;
        }
        for (size_t i = 0; i < KEPT; i++) {
            const double chance = p ? (weights[i] > 1 ? weights[i] / 8 : 0) : weights[i] / 10;
            assert_close((double)counts[i] / DRAWS, chance, 5 * sqrt(chance * (1 - chance) / DRAWS));
        }
        bo_sampler_destroy(sampler);
    }
    bo_context_destroy(context);
}

static void test_greedy(void **unused)
{
    (void)unused;
    bo_context *context = test_context(1);
    bo_sampler *sampler = create_sampler(context, (bo_sampler_desc){.greedy = true});
    bo_sampler *one = create_sampler(context, (bo_sampler_desc){.top_k = 1, .seed = 9});
    assert_int_equal(draw(sampler), 2); /* the first of two equal logits */
    assert_int_equal(draw(one), 2);
    bo_sampler_destroy(sampler);
    bo_sampler_destroy(one);
    bo_context_destroy(context);
}

/* After how many tokens a token is forgotten. */
static void check_window(bo_context *context, size_t window_option, size_t window)
{
    for (size_t later = window - 1; later <= window; later++) {
        bo_sampler *sampler = create_sampler(
            context, (bo_sampler_desc){.greedy = true, .repetition_penalty = 10, .window = window_option});
        bo_sampler_remember(sampler, 2);
        for (size_t i = 0; i < later; i++) bo_sampler_remember(sampler, 1);
        assert_int_equal(draw(sampler), later == window ? 2 : 6);
        bo_sampler_destroy(sampler);
    }
}

static void test_penalty(void **unused)
{
    (void)unused;
    bo_context *context = test_context(1);
    bo_sampler *sampler = create_sampler(context, (bo_sampler_desc){.greedy = true, .repetition_penalty = 2});
    /* 2.0, 2.0, 1.6, 1.1 … : each is halved after its first use, however often it is used */
    static const int32_t expected[] = {2, 6, 11, 5, 2, 2, 2};
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) assert_int_equal(draw(sampler), expected[i]);
    bo_sampler *negative = create_sampler(context, (bo_sampler_desc){.greedy = true, .repetition_penalty = 2});
    float below[2] = {-1, -1.5f};
    bo_sampler_remember(negative, 0);
    assert_int_equal(bo_sampler_next(negative, below, 2), 1);
    check_window(context, 0, 64);
    check_window(context, 1, 1);
    check_window(context, 200, 200);
    bo_sampler_destroy(sampler);
    bo_sampler_destroy(negative);
    bo_context_destroy(context);
}

static void test_seed(void **unused)
{
    (void)unused;
    bo_context *context = test_context(1);
    bo_sampler *a = create_sampler(context, (bo_sampler_desc){.seed = 5}),
               *b = create_sampler(context, (bo_sampler_desc){.seed = 5}),
               *c = create_sampler(context, (bo_sampler_desc){.seed = 6});
    int same = 0;
    for (uint64_t i = 0; i < 200; i++) {
        if (i == 100) { /* resumed */
            bo_sampler_destroy(b);
            b = create_sampler(context, (bo_sampler_desc){.seed = 5, .drawn = bo_sampler_drawn(a)});
        }
        assert_int_equal(bo_sampler_drawn(a), i);
        const int32_t id = draw(a);
        assert_int_equal(id, draw(b));
        same += id == draw(c);
    }
    assert_true(same < 100);
    bo_sampler_destroy(a);
    bo_sampler_destroy(b);
    bo_sampler_destroy(c);
    bo_context_destroy(context);
}

/* The first ids that version 0.1.0 drew. */
static void test_kept(void **unused)
{
    static const struct {
        bo_sampler_desc desc;
        uint64_t drawn;
        int32_t ids[24];
    } cases[] = {
        {{.seed = 1}, 0, {6, 4, 5, 8, 0, 2, 2, 11, 6, 11, 6, 5, 9, 1, 2, 2, 8, 3, 11, 6, 0, 5, 6, 11}},
        {{.seed = 2, .temperature = 0.7, .top_k = 5}, 0, {11, 11, 6, 2, 6, 11, 11, 6, 6, 6, 8, 2,
                                                          8,  11, 6, 2, 8, 6,  6,  6, 6, 2, 2, 8}},
        {{.seed = 3, .top_p = 0.6, .repetition_penalty = 1.3}, 0, {6,  6, 6, 2, 2, 6, 5, 2, 2, 11, 5, 2,
                                                                   11, 2, 6, 2, 2, 2, 2, 2, 6, 5,  6, 2}},
        {{.seed = UINT64_MAX, .temperature = 2, .top_k = 9, .top_p = 0.9, .repetition_penalty = 0.8},
         1000,
         {9, 8, 8, 6, 3, 8, 2, 3, 11, 11, 2, 2, 8, 8, 0, 9, 6, 6, 2, 5, 5, 2, 2, 6}},
    };
    (void)unused;
    bo_context *context = test_context(1);
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        bo_sampler_desc desc = cases[k].desc;
        desc.drawn = cases[k].drawn;
        bo_sampler *sampler = create_sampler(context, desc);
        for (size_t i = 0; i < 24; i++) assert_int_equal(draw(sampler), cases[k].ids[i]);
        bo_sampler_destroy(sampler);
    }
    bo_context_destroy(context);
}

static void refuses(bo_context *context, const char *message, bo_sampler_desc desc)
{
    bo_sampler *sampler = (bo_sampler *)context;
    assert_fails(context, BO_INVALID, message, bo_sampler_create(context, &desc, &sampler));
    assert_null(sampler);
}

static void test_edges(void **unused)
{
    (void)unused;
    bo_context *context = test_context(1);
    float nans[3] = {NAN, 1, NAN}, nothing[3] = {-INFINITY, NAN, -INFINITY}, infinite[3] = {1, INFINITY, 0};
    float wide[4] = {-3e38f, 3e38f, -INFINITY, 0}, alone[1] = {-5};
    bo_sampler *s =
        create_sampler(context, (bo_sampler_desc){.seed = 1, .temperature = 1e-6, .top_k = 2, .top_p = 0.5});
    assert_int_equal(bo_sampler_next(s, nans, 3), 1);
    assert_int_equal(bo_sampler_next(s, nothing, 3), 0);
    assert_int_equal(bo_sampler_next(s, infinite, 3), 1);
    assert_int_equal(bo_sampler_next(s, wide, 4), 1);
    assert_int_equal(bo_sampler_next(s, alone, 1), 0);
    bo_sampler_destroy(s);
    assert_ok(context, bo_sampler_create(context, NULL, &s));
    bo_sampler_destroy(s);
    refuses(context, "temperature", (bo_sampler_desc){.temperature = -1});
    refuses(context, "temperature", (bo_sampler_desc){.temperature = NAN});
    refuses(context, "top_p", (bo_sampler_desc){.top_p = 1.5});
    refuses(context, "top_p", (bo_sampler_desc){.top_p = NAN});
    refuses(context, "min_p", (bo_sampler_desc){.min_p = -0.1});
    refuses(context, "min_p", (bo_sampler_desc){.min_p = NAN});
    refuses(context, "penalty", (bo_sampler_desc){.repetition_penalty = -2});
    bo_context_destroy(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_law),   cmocka_unit_test(test_top_p),  cmocka_unit_test(test_min_p),
        cmocka_unit_test(test_large), cmocka_unit_test(test_greedy), cmocka_unit_test(test_penalty),
        cmocka_unit_test(test_seed),  cmocka_unit_test(test_kept),   cmocka_unit_test(test_edges),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
