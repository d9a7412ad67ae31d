/* conv: not measured yet. */
#include "../lab.h"

static bo_status measure(lab_run *run)
{
    return bo_fail(lab_context(run), BO_UNSUPPORTED, "conv cannot be measured yet");
}

const lab_experiment lab_conv = {{.name = "conv", .group = LAB_ARCHITECTURES}, measure};
