/* rnn-bottleneck: not measured yet. */
#include "../lab.h"

static bo_status measure(lab_run *run)
{
    return bo_fail(lab_context(run), BO_UNSUPPORTED, "rnn-bottleneck cannot be measured yet");
}

const lab_experiment lab_rnn_bottleneck = {{.name = "rnn-bottleneck", .group = LAB_ARCHITECTURES}, measure};
