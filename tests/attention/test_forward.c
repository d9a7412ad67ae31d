/* Forward passes and their final states compared with the reference. */
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

CASES_RUN(check)
