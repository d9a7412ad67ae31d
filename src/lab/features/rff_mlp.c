/* rff-mlp: not measured yet. */
#include "../lab.h"

static bo_status measure(lab_run *run)
{
    return bo_fail(lab_context(run), BO_UNSUPPORTED, "rff-mlp cannot be measured yet");
}

const lab_experiment lab_rff_mlp = {{.name = "rff-mlp", .group = LAB_FEATURES}, measure};
