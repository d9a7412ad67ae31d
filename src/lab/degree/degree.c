/* degree: not measured yet. */
#include "../lab.h"

static bo_status measure(lab_run *run)
{
    return bo_fail(lab_context(run), BO_UNSUPPORTED, "degree cannot be measured yet");
}

const lab_experiment lab_degree = {{.name = "degree", .group = LAB_DEGREE}, measure};
