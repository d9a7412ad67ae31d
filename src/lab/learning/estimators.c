/* estimators: not measured yet. */
#include "../lab.h"

static bo_status measure(lab_run *run)
{
    return bo_fail(lab_context(run), BO_UNSUPPORTED, "estimators cannot be measured yet");
}

const lab_experiment lab_estimators = {{.name = "estimators", .group = LAB_LEARNING}, measure};
