/* gd-best-rate: not measured yet. */
#include "../lab.h"

static bo_status measure(lab_run *run)
{
    return bo_fail(lab_context(run), BO_UNSUPPORTED, "gd-best-rate cannot be measured yet");
}

const lab_experiment lab_gd_best_rate = {{.name = "gd-best-rate", .group = LAB_LEARNING}, measure};
