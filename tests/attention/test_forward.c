/* Forward passes, and the states they leave, against the oracle. */
#include "cases.h"

static void check(bo_context *context, const trial_desc *desc)
{
    trial_desc forward = *desc;
    forward.forward_only = true;
    trial t = trial_make(context, &forward);
    trial_forward(&t);
    judge_verdict verdict = judge_make(&t);
    judge_forward(&t, &verdict);
    judge_drop(&verdict);
    trial_drop(&t);
}

#define FORWARD(subject)                                                                                               \
    static void of_##subject(void **state)                                                                             \
    {                                                                                                                  \
        (void)state;                                                                                                   \
        bo_context *context = test_context(2);                                                                         \
        cases_##subject(context, check);                                                                               \
        bo_context_destroy(context);                                                                                   \
    }

FORWARD(kinds)
FORWARD(lengths)
FORWARD(widths)
FORWARD(groups)
FORWARD(packed)
FORWARD(cross)
FORWARD(states)
FORWARD(norms)
FORWARD(clamps)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(of_kinds),  cmocka_unit_test(of_lengths), cmocka_unit_test(of_widths),
        cmocka_unit_test(of_groups), cmocka_unit_test(of_packed),  cmocka_unit_test(of_cross),
        cmocka_unit_test(of_states), cmocka_unit_test(of_norms),   cmocka_unit_test(of_clamps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
