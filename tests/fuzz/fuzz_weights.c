/* The weights of a checkpoint, loaded into the model of the run. */
#include "container.h"
#include "runs.h"
#include "model/model.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static fuzz_run run;
    bo_context *context = fuzz_context();
    if (!run.model && fuzz_run_model(context, &run) != BO_OK) abort();
    uint8_t *image = fuzz_image(data, size);
    fuzz_ok(context, bo_weights_load(context, run.model->weights, &(bo_source){.bytes = image, .size = size}));
    free(image);
    return 0;
}
