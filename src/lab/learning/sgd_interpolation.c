/* sgd-interpolation: not measured yet. */
#include "../lab.h"

static bo_status measure(lab_run *run)
{
    return bo_fail(lab_context(run), BO_UNSUPPORTED, "sgd-interpolation cannot be measured yet");
}

const lab_experiment lab_sgd_interpolation = {{.name = "sgd-interpolation", .group = LAB_LEARNING}, measure};
