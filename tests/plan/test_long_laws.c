/* The 90% intervals of laws, over 200 simulated sets of runs. */
#include "laws_made_up.h"

/* The share of sets whose interval contains the truth is within 3.3 standard deviations of 0.9. */
static void intervals_have_their_probability(void **state)
{
    (void)state;
    enum { SETS = 200 };
    static const char *const names[] = {"floor", "size", "size_power", "data", "data_power", "loss", "step"};
    bo_context *context = test_context(1);
    size_t covered[7] = {0};
    const bo_plan_counts far = counts_of(4, 192);
    for (size_t s = 0; s < SETS; s++) hold_truth(context, 1000 + s, &far, covered);
    for (size_t k = 0; k < 7; k++) {
        print_message("%s: %.3f\n", names[k], (double)covered[k] / SETS);
        assert_true(fabs((double)covered[k] / SETS - 0.9) < 3.3 * sqrt(0.09 / SETS));
    }
    bo_context_destroy(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(intervals_have_their_probability)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
