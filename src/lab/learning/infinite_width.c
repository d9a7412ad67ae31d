/* infinite-width: not measured yet. */
#include "../lab.h"

static bo_status measure(lab_run *run)
{
    return bo_fail(lab_context(run), BO_UNSUPPORTED, "infinite-width cannot be measured yet");
}

const lab_experiment lab_infinite_width = {{.name = "infinite-width", .group = LAB_LEARNING}, measure};
