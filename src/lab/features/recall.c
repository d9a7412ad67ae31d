/* recall: not measured yet. */
#include "../lab.h"

static bo_status measure(lab_run *run)
{
    return bo_fail(lab_context(run), BO_UNSUPPORTED, "recall cannot be measured yet");
}

const lab_experiment lab_recall = {{.name = "recall", .group = LAB_FEATURES}, measure};
