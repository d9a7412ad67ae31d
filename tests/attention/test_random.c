/* Random descriptors and shapes compared with the reference; long_random tests many more. */
#include "random.h"

enum { SEEDS = 60 };

static void random_trials_agree(void **state)
{
    (void)state;
    bo_context *context = test_context(2);
    for (uint64_t seed = 1; seed <= SEEDS; seed++) random_check(context, seed, NULL);
    /* its denominator is barely above the smallest float */
    random_check(context, 31949, kind_named("hybrid#"));
    bo_context_destroy(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(random_trials_agree)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
