/* circuits: not measured yet. */
#include "../lab.h"

static bo_status measure(lab_run *run)
{
    return bo_fail(lab_context(run), BO_UNSUPPORTED, "circuits cannot be measured yet");
}

const lab_experiment lab_circuits = {{.name = "circuits", .group = LAB_ARCHITECTURES}, measure};
