/* The power fails during a training run: after every operation, with a sample of surviving subsets.
 * test_long_power_loss.c tests more subsets. */
#include "faults/power.h"

#ifndef SUBSETS
enum { EACH_OPERATION = false, SUBSETS = 1 }; /* surviving operations: a single one, all but one, or random subsets */
#endif

static void run_resumes_after_power_loss(void **state)
{
    power_trial t = {.r = *state};
    power_record(&t, false);
    for (size_t count = 0; count <= disk.count; count++) power_fail_at(&t, count, EACH_OPERATION, SUBSETS);
    power_finish(&t);
}

/* The same for a run whose newest checkpoint is damaged and that is resumed from the previous one. */
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
