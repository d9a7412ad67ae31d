/* dropout-is-ridge: not measured yet. */
#include "../lab.h"

static bo_status measure(lab_run *run)
{
    return bo_fail(lab_context(run), BO_UNSUPPORTED, "dropout-is-ridge cannot be measured yet");
}

const lab_experiment lab_dropout_is_ridge = {{.name = "dropout-is-ridge", .group = LAB_LEARNING}, measure};
