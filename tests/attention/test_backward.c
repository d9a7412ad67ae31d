/* Gradients of every input, parameter and initial state against the oracle, also with gradients into the final
 * states. */
#include "cases.h"

static void check(bo_context *context, const trial_desc *desc)
{
    trial t = trial_make(context, desc);
    trial_forward(&t);
    trial_backward(&t);
    judge_verdict verdict = judge_make(&t);
    judge_backward(&t, &verdict);
    judge_drop(&verdict);
    trial_drop(&t);
}

#define BACKWARD(subject)                                                                                              \
    static void of_##subject(void **state)                                                                             \
    {                                                                                                                  \
        (void)state;                                                                                                   \
        bo_context *context = test_context(2);                                                                         \
        cases_##subject(context, check);                                                                               \
        bo_context_destroy(context);                                                                                   \
    }

BACKWARD(kinds)
BACKWARD(lengths)
BACKWARD(widths)
BACKWARD(groups)
BACKWARD(packed)
BACKWARD(cross)
BACKWARD(states)
BACKWARD(norms)
BACKWARD(clamps)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(of_kinds),  cmocka_unit_test(of_lengths), cmocka_unit_test(of_widths),
        cmocka_unit_test(of_groups), cmocka_unit_test(of_packed),  cmocka_unit_test(of_cross),
        cmocka_unit_test(of_states), cmocka_unit_test(of_norms),   cmocka_unit_test(of_clamps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
