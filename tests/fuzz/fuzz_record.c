/* training.json: the position of a run, and settings that must match the run. */
#include "fuzz.h"
#include "runs.h"
#include "train/train.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static fuzz_run run;
    bo_context *context = fuzz_context();
    if (!run.trainer && fuzz_run_open(context, NULL, &run) != BO_OK) abort();
    const bo_training before = run.trainer->now;
    char *text = malloc(size + 1);
    memcpy(text, data, size);
    text[size] = 0;
    if (!fuzz_ok(context, bo_train_record_parse(context, run.trainer, "fuzz", text, size)) &&
        memcmp(&before, &run.trainer->now, sizeof before) != 0)
        abort(); /* a refused record changes nothing */
    free(text);
    return 0;
}
