/* training.json: the position of a run, and settings that must be those of the run. */
#include "fuzz.h"
#include "runs.h"
#include "train/train.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static bo_model *model;
    static bo_trainer *trainer;
    bo_context *context = fuzz_context();
    if (!trainer && fuzz_run(context, NULL, &model, &trainer) != BO_OK) abort();
    const bo_training before = trainer->now;
    char *text = malloc(size + 1);
    memcpy(text, data, size);
    text[size] = 0;
    if (!fuzz_ok(context, bo_train_record_parse(context, trainer, "fuzz", text, size)) &&
        memcmp(&before, &trainer->now, sizeof before) != 0)
        abort(); /* a refused record changes nothing */
    free(text);
    return 0;
}
