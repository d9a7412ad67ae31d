/* unit-scale: not measured yet. */
#include "../lab.h"

static bo_status measure(lab_run *run)
{
    return bo_fail(lab_context(run), BO_UNSUPPORTED, "unit-scale cannot be measured yet");
}

const lab_experiment lab_unit_scale = {{.name = "unit-scale", .group = LAB_LEARNING}, measure};
