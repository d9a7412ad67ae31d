/* The power fails during a training run: every moment, and a sample of what survives. test_long_power_loss.c tries
 * more. */
#include "faults/power.h"

#ifndef SUBSETS
enum { EACH_OPERATION = false, SUBSETS = 1 }; /* what survives: every single operation or all but it; random subsets */
#endif

static void run_resumes_after_power_loss(void **state)
{
    power_trial t = {.r = *state};
    power_record(&t, false);
    for (size_t count = 0; count <= disk.count; count++) power_fail_at(&t, count, EACH_OPERATION, SUBSETS);
    power_finish(&t);
}

/* The same for a run whose newest checkpoint was damaged and that is resumed from the one before it. */
static void fallback_survives_power_loss(void **state)
{
    power_trial t = {.r = *state};
    power_record(&t, true);
    for (size_t count = t.damaged; count <= disk.count; count++) power_fail_at(&t, count, EACH_OPERATION, SUBSETS);
    power_finish(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(run_resumes_after_power_loss, runs_setup, runs_teardown),
        cmocka_unit_test_setup_teardown(fallback_survives_power_loss, runs_setup, runs_teardown)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
