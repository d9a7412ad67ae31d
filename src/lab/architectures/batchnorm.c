/* batchnorm: not measured yet. */
#include "../lab.h"

static bo_status measure(lab_run *run)
{
    return bo_fail(lab_context(run), BO_UNSUPPORTED, "batchnorm cannot be measured yet");
}

const lab_experiment lab_batchnorm = {{.name = "batchnorm", .group = LAB_ARCHITECTURES}, measure};
