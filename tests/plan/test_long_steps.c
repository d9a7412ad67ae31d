/* Steps with shapes that were not fitted, with every attention. */
#include <bochner/names.h>
#include "steps.h"

static void steps_take_what_was_predicted(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    const char *name;
    for (size_t i = 0; (name = bo_enum_name(BO_ENUM_ATTENTION_PRESET, (int)i)); i++)
        assert_steps_are_predicted(context, name);
    bo_context_destroy(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(steps_take_what_was_predicted)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
