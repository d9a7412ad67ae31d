/* Many random descriptors and shapes compared with the reference. */
#include "random.h"

enum { FIRST = 1000, SEEDS = 1500 };

static void random_trials_agree(void **state)
{
    (void)state;
    bo_context *context = test_context(2);
    for (uint64_t seed = FIRST; seed < FIRST + SEEDS; seed++) random_check(context, seed, NULL);
    bo_context_destroy(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(random_trials_agree)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
