/* purification: not measured yet. */
#include "../lab.h"

static bo_status measure(lab_run *run)
{
    return bo_fail(lab_context(run), BO_UNSUPPORTED, "purification cannot be measured yet");
}

const lab_experiment lab_purification = {{.name = "purification", .group = LAB_ARCHITECTURES}, measure};
