/* The states of a stateful run in a checkpoint, read into those of the run. */
#include "container.h"
#include "runs.h"
#include "train/states.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static fuzz_run run;
    static bo_train_states *states;
    bo_context *context = fuzz_context();
    if (!states && fuzz_run_states(context, &run, &states) != BO_OK) abort();
    uint8_t *image = fuzz_image(data, size);
    bo_tensors *file;
    if (fuzz_ok(context, bo_tensors_open_memory(context, "fuzz", image, size, &file))) {
        fuzz_ok(context, bo_train_states_read_tensors(context, states, file));
        bo_tensors_close(file);
    }
    free(image);
    return 0;
}
