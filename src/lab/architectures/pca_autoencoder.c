/* pca-autoencoder: not measured yet. */
#include "../lab.h"

static bo_status measure(lab_run *run)
{
    return bo_fail(lab_context(run), BO_UNSUPPORTED, "pca-autoencoder cannot be measured yet");
}

const lab_experiment lab_pca_autoencoder = {{.name = "pca-autoencoder", .group = LAB_ARCHITECTURES}, measure};
