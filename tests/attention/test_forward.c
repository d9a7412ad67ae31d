/* Forward passes and their final states compared with the reference. */
#include "cases.h"

static void check(bo_context *context, const trial_desc *desc)
{
    trial_desc forward = *desc;
    forward.forward_only = true;
    trial t = trial_make(context, &forward);
    trial_forward(&t);
    verify_expected expected = verify_make(&t);
    verify_forward(&t, &expected);
    verify_drop(&expected);
    trial_drop(&t);
}

CASES_RUN(check)
