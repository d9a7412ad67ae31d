/* time-law: not measured yet. */
#include "../lab.h"

static bo_status measure(lab_run *run)
{
    return bo_fail(lab_context(run), BO_UNSUPPORTED, "time-law cannot be measured yet");
}

const lab_experiment lab_time_law = {{.name = "time-law", .group = LAB_LEARNING}, measure};
