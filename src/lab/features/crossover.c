/* crossover: not measured yet. */
#include "../lab.h"

static bo_status measure(lab_run *run)
{
    return bo_fail(lab_context(run), BO_UNSUPPORTED, "crossover cannot be measured yet");
}

const lab_experiment lab_crossover = {{.name = "crossover", .group = LAB_FEATURES}, measure};
