/* adapter_model.safetensors: loaded into a model with adapters. */
#include "container.h"
#include "runs.h"
#include "io/tensors.h"
#include "model/adapter.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static fuzz_run run;
    bo_context *context = fuzz_context();
    bo_tensors *file;
    if (!run.model && (fuzz_run_model(context, &run) != BO_OK || fuzz_adapt(context, run.model, NULL) != BO_OK))
        abort();
    uint8_t *image = fuzz_image(data, size);
    if (fuzz_ok(context, bo_tensors_open_memory(context, "fuzz", image, size, &file))) {
        bo_adapter_config config = {.rank = 2, .alpha = 4};
        fuzz_ok(context, bo_adapter_read_tensors(context, run.model, file, NULL));
        fuzz_ok(context, bo_adapter_derive(context, run.model, file, &config)); /* as a file of PEFT */
        bo_adapter_config_free(&config);
        bo_tensors_close(file);
    }
    free(image);
    return 0;
}
