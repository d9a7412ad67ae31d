/* Gradients of every input, parameter and initial state compared with the reference, also with gradients of the final
 * states. */
#include "cases.h"

static void check(bo_context *context, const trial_desc *desc)
{
    trial t = trial_make(context, desc);
    trial_forward(&t);
    trial_backward(&t);
    verify_expected expected = verify_make(&t);
    verify_backward(&t, &expected);
    verify_drop(&expected);
    trial_drop(&t);
}

CASES_RUN(check)
