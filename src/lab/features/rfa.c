/* rfa: not measured yet. */
#include "../lab.h"

static bo_status measure(lab_run *run)
{
    return bo_fail(lab_context(run), BO_UNSUPPORTED, "rfa cannot be measured yet");
}

const lab_experiment lab_rfa = {{.name = "rfa", .group = LAB_FEATURES}, measure};
