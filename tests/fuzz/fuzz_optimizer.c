/* The state of the optimizer of a checkpoint, loaded into that of the run. */
#include "container.h"
#include "runs.h"
#include "train/train.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static bo_model *model;
    static bo_trainer *trainer;
    bo_context *context = fuzz_context();
    if (!trainer && fuzz_run(context, NULL, &model, &trainer) != BO_OK) abort();
    uint8_t *image = fuzz_image(data, size);
    fuzz_ok(context, bo_optimizer_load_memory(context, trainer->optimizer, image, size));
    free(image);
    return 0;
}
