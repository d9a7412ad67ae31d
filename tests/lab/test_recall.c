/* Memories with known capacity, equal bits for any number of threads, and out of memory. */
#include "../base/counting.h"
#include "lab/tools/recall.h"

static bo_recall_options small(void)
{
    return (bo_recall_options){.tokens = 64, .lanes = 3, .width = 16, .codes = 32, .seed = 7};
}

static bo_recall_result measured(bo_context *context, const char *kind, size_t size, const bo_recall_options *options)
{
    bo_recall_result result;
    assert_non_null(bo_recall_find(kind));
    assert_ok(context, bo_recall_measure(context, bo_recall_find(kind), size, options, &result));
    return result;
}

/* Softmax attention keeps every pair. A window of 16 keeps the latest 16, a quarter of 64; the remaining values are
 * guessed. */
static void attention_recalls_the_pairs_it_keeps(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    const bo_recall_options options = small();
    const bo_recall_result exact = measured(context, "softmax", 0, &options);
    const bo_recall_result window = measured(context, "window", 16, &options);
    assert_int_equal(exact.points, 7);
    assert_close(exact.capacity, 64, 0);
    assert_close(exact.mean, 1, 1e-12);
    assert_close(window.by_distance[4], 1, 0); /* 9 to 16 tokens earlier */
    assert_true(window.by_distance[6] < 0.3);
    assert_close(window.by_length[6], 0.25, 0.1);
    bo_context_destroy(context);
}

/* A sum of 16 pairs has a signal of 1 against crosstalk of variance 16/d: 16 dimensions lose some pairs, 256 none. */
static void a_larger_state_holds_more(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    const bo_recall_options options = small();
    const bo_recall_result few = measured(context, "identity", 8, &options);
    const bo_recall_result many = measured(context, "identity", 256, &options);
    assert_true(few.capacity < 40 && many.capacity == 64);
    assert_true(isnan(many.knob));
    assert_true(measured(context, "ridge", 16, &options).knob > 0);
    bo_context_destroy(context);
}

static void threads_do_not_matter(void **state)
{
    (void)state;
    bo_context *one = test_context(1), *three = test_context(3);
    const bo_recall_options options = small();
    const bo_recall_result a = measured(one, "favor++", 32, &options), b = measured(three, "favor++", 32, &options);
    assert_memory_equal(a.by_length, b.by_length, sizeof a.by_length);
    assert_memory_equal(a.by_distance, b.by_distance, sizeof a.by_distance);
    bo_context_destroy(one);
    bo_context_destroy(three);
}

static void names_are_found(void **state)
{
    (void)state;
    size_t count = 0;
    for (; bo_recall_at(count); count++)
        assert_ptr_equal(bo_recall_find(bo_recall_at(count)->name), bo_recall_at(count));
    assert_true(count > 20);
    assert_null(bo_recall_find("deltas"));
    assert_null(bo_recall_find(NULL));
}

static void wrong_options_are_refused(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    const bo_recall_kind *rfa = bo_recall_find("rfa");
    bo_recall_options options = small();
    bo_recall_result result;
    assert_fails(context, BO_INVALID, "unknown kind of memory", bo_recall_measure(context, NULL, 4, &options, &result));
    assert_fails(context, BO_INVALID, "size 0", bo_recall_measure(context, rfa, 0, &options, &result));
    assert_fails(context, BO_INVALID, "keeps everything",
                 bo_recall_measure(context, bo_recall_find("softmax"), 4, &options, &result));
    options.noise = NAN;
    assert_fails(context, BO_INVALID, "noise", bo_recall_measure(context, rfa, 4, &options, &result));
    options.noise = 0,
    options.tokens = (size_t)1 << BO_RECALL_POINTS; /* one point more than the capacity of a result */
    assert_fails(context, BO_INVALID, "tokens", bo_recall_measure(context, rfa, 4, &options, &result));
    options.tokens = 4, options.lanes = (size_t)1 << 60;
    assert_fails(context, BO_INVALID, "lanes", bo_recall_measure(context, rfa, 4, &options, &result));
    bo_context_destroy(context);
}

static bo_status measure_favor(void *user)
{
    const bo_recall_options options = {.tokens = 4, .lanes = 1, .width = 4, .codes = 4};
    bo_recall_result result;
    return bo_recall_measure(user, bo_recall_find("favor++"), 8, &options, &result);
}

static void any_allocation_may_fail(void **state)
{
    (void)state;
    counting c = {0};
    bo_context *context = counting_context(&c, 1);
    counting_inject(&(injection){&c, context, measure_favor, context, 100, 13, NULL});
    bo_context_destroy(context);
    assert_int_equal(c.live, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(attention_recalls_the_pairs_it_keeps),
        cmocka_unit_test(a_larger_state_holds_more),
        cmocka_unit_test(threads_do_not_matter),
        cmocka_unit_test(names_are_found),
        cmocka_unit_test(wrong_options_are_refused),
        cmocka_unit_test(any_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
