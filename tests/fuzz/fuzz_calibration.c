/* Calibrations of hosts: read if their shapes are small, then written and read again. */
#include "fuzz.h"
#include "plan/plan.h"

/* Written data can be read. */
static void again(bo_context *context, const bo_plan_host *machine)
{
    bo_plan_host *other;
    bo_json_text text = {.context = context};
    bo_plan_host_text(machine, &text);
    if (text.failed || !fuzz_ok(context, bo_plan_host_parse(context, "again", text.bytes, text.length, &other)) ||
        other->timing_count != machine->timing_count)
        abort();
    bo_plan_host_destroy(other);
    bo_free(text.bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    bo_context *context = fuzz_context();
    bo_plan_host *machine;
    char *text = malloc(size + 1);
    memcpy(text, data, size);
    text[size] = 0;
    if (fuzz_ok(context, bo_plan_host_parse(context, "fuzz", text, size, &machine))) {
        bo_plan_range step;
        if (machine->timing_count > BO_PLAN_SHAPES) abort();
        for (size_t i = 0; i < machine->timing_count; i++)
            if (!fuzz_ok(context, bo_plan_step(context, machine, &machine->timings[i].shape, &step))) abort();
        again(context, machine);
        bo_plan_host_destroy(machine);
    }
    free(text);
    return 0;
}
