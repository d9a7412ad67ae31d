/* rff-regression: not measured yet. */
#include "../lab.h"

static bo_status measure(lab_run *run)
{
    return bo_fail(lab_context(run), BO_UNSUPPORTED, "rff-regression cannot be measured yet");
}

const lab_experiment lab_rff_regression = {{.name = "rff-regression", .group = LAB_FEATURES}, measure};
