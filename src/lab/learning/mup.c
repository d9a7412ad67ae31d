/* mup: not measured yet. */
#include "../lab.h"

static bo_status measure(lab_run *run)
{
    return bo_fail(lab_context(run), BO_UNSUPPORTED, "mup cannot be measured yet");
}

const lab_experiment lab_mup = {{.name = "mup", .group = LAB_LEARNING}, measure};
