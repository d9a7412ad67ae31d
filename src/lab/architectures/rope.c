/* rope: not measured yet. */
#include "../lab.h"

static bo_status measure(lab_run *run)
{
    return bo_fail(lab_context(run), BO_UNSUPPORTED, "rope cannot be measured yet");
}

const lab_experiment lab_rope = {{.name = "rope", .group = LAB_ARCHITECTURES}, measure};
