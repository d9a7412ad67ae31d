/* dropout-and-batchnorm: not measured yet. */
#include "../lab.h"

static bo_status measure(lab_run *run)
{
    return bo_fail(lab_context(run), BO_UNSUPPORTED, "dropout-and-batchnorm cannot be measured yet");
}

const lab_experiment lab_dropout_and_batchnorm = {{.name = "dropout-and-batchnorm", .group = LAB_LEARNING}, measure};
