/* separation-rank: not measured yet. */
#include "../lab.h"

static bo_status measure(lab_run *run)
{
    return bo_fail(lab_context(run), BO_UNSUPPORTED, "separation-rank cannot be measured yet");
}

const lab_experiment lab_separation_rank = {{.name = "separation-rank", .group = LAB_DEGREE}, measure};
