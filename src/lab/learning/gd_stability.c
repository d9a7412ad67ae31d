/* gd-stability: not measured yet. */
#include "../lab.h"

static bo_status measure(lab_run *run)
{
    return bo_fail(lab_context(run), BO_UNSUPPORTED, "gd-stability cannot be measured yet");
}

const lab_experiment lab_gd_stability = {{.name = "gd-stability", .group = LAB_LEARNING}, measure};
