/* Predictions of advice for attention without a causal mask. The outputs of all queries are then similar, close to the
 * mean of the values of each key head. With few heads their norm would depend on few numbers, so there are eight
 * heads. */
#define ADVICE_HEADS     8
#define ADVICE_KEY_HEADS 8
#include "attention/enums.h"
#include "advice.h"

/* The reported error is within a quarter of the error on other data of the same distribution. */
static void errors_hold_without_causality(void **state)
{
    (void)state;
    bo_context *context = test_context(2);
    static const double sizes[] = {0.8, 1.2};
    for (size_t n = 0; n < sizeof sizes / sizeof *sizes; n++) {
        data *d = make_data_of(sizes[n], 2 * n), *test_data = make_data_of(sizes[n], 2 * n + 1);
        bo_attention_advice *a = advise(context, d, false, 0.15, 256);
        float *exact = softmax_of(context, test_data, false);
        assert_true(a->reachable);
        double predicted = a->maps[0].error, found = follow(context, d, test_data, &a->maps[0].desc, exact);
        if (!(predicted > 0.75 * found && predicted < 1.25 * found))
            fail_msg("size %g, %s: predicted %g, found %g", sizes[n], bo_attention_kind_name(a->maps[0].desc.kind),
                     predicted, found);
        bo_attention_advice_destroy(a);
        free(exact);
        free(d);
        free(test_data);
    }
    bo_context_destroy(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(errors_hold_without_causality)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
