/* ridge-attention: not measured yet. */
#include "../lab.h"

static bo_status measure(lab_run *run)
{
    return bo_fail(lab_context(run), BO_UNSUPPORTED, "ridge-attention cannot be measured yet");
}

const lab_experiment lab_ridge_attention = {{.name = "ridge-attention", .group = LAB_ARCHITECTURES}, measure};
