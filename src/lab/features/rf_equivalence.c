/* rf-equivalence: not measured yet. */
#include "../lab.h"

static bo_status measure(lab_run *run)
{
    return bo_fail(lab_context(run), BO_UNSUPPORTED, "rf-equivalence cannot be measured yet");
}

const lab_experiment lab_rf_equivalence = {{.name = "rf-equivalence", .group = LAB_FEATURES}, measure};
