/* autoencoder-downstream: not measured yet. */
#include "../lab.h"

static bo_status measure(lab_run *run)
{
    return bo_fail(lab_context(run), BO_UNSUPPORTED, "autoencoder-downstream cannot be measured yet");
}

const lab_experiment lab_autoencoder_downstream = {{.name = "autoencoder-downstream", .group = LAB_ARCHITECTURES},
                                                   measure};
