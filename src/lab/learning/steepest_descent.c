/* steepest-descent: not measured yet. */
#include "../lab.h"

static bo_status measure(lab_run *run)
{
    return bo_fail(lab_context(run), BO_UNSUPPORTED, "steepest-descent cannot be measured yet");
}

const lab_experiment lab_steepest_descent = {{.name = "steepest-descent", .group = LAB_LEARNING}, measure};
