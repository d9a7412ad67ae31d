/* Steps with shapes that were not fitted take the predicted time, within 20%. */
#include "steps.h"

static void steps_take_what_was_predicted(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    assert_steps_are_predicted(context, "rfa-gate");
    bo_context_destroy(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(steps_take_what_was_predicted)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
