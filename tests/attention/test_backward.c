/* Gradients of every input, parameter and initial state compared with the reference, also with gradients of the final
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

CASES_RUN(check)
