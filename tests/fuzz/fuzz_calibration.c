/* Calibrations of machines: read where their shapes are small, then written and read again. */
#include "fuzz.h"
#include "plan/plan.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    bo_context *context = fuzz_context();
    bo_plan_machine machine;
    char *text = malloc(size + 1);
    memcpy(text, data, size);
    text[size] = 0;
    if (fuzz_ok(context, bo_plan_machine_parse(context, "fuzz", text, size, &machine))) {
        bo_plan_range step;
        if (machine.count > BO_PLAN_SHAPES) abort();
        for (size_t i = 0; i < machine.count; i++)
            if (!fuzz_ok(context, bo_plan_step(context, &machine, &machine.timings[i].shape, &step))) abort();
    }
    free(text);
    return 0;
}
