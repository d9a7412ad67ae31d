/* The state of the optimizer of a checkpoint, loaded into that of the run. */
#include "container.h"
#include "runs.h"
#include "train/train.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static fuzz_run run;
    bo_context *context = fuzz_context();
    if (!run.trainer && fuzz_run_open(context, NULL, &run) != BO_OK) abort();
    uint8_t *image = fuzz_image(data, size);
    fuzz_ok(context, bo_optimizer_load(context, run.trainer->optimizer, &(bo_source){.bytes = image, .size = size}));
    free(image);
    return 0;
}
