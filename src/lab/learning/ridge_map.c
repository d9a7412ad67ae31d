/* ridge-map: not measured yet. */
#include "../lab.h"

static bo_status measure(lab_run *run)
{
    return bo_fail(lab_context(run), BO_UNSUPPORTED, "ridge-map cannot be measured yet");
}

const lab_experiment lab_ridge_map = {{.name = "ridge-map", .group = LAB_LEARNING}, measure};
