/* poly-kernel: not measured yet. */
#include "../lab.h"

static bo_status measure(lab_run *run)
{
    return bo_fail(lab_context(run), BO_UNSUPPORTED, "poly-kernel cannot be measured yet");
}

const lab_experiment lab_poly_kernel = {{.name = "poly-kernel", .group = LAB_ARCHITECTURES}, measure};
