/* Calibrations of hosts: read if their shapes are small, then written and read again. */
#include "fuzz.h"
#include "plan/plan.h"
#include <stdio.h>
#include <unistd.h>

/* Written data can be read. */
static void again(bo_context *context, const bo_plan_machine *machine)
{
    bo_plan_machine *other;
    char path[64];
    snprintf(path, sizeof path, "/tmp/bochner-fuzz-calibration-%ld.json", (long)getpid());
    if (!fuzz_ok(context, bo_plan_machine_save(context, machine, path))) abort();
    if (!fuzz_ok(context, bo_plan_machine_load(context, path, &other)) || other->timing_count != machine->timing_count)
        abort();
    bo_plan_machine_destroy(other);
    unlink(path);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    bo_context *context = fuzz_context();
    bo_plan_machine *machine;
    char *text = malloc(size + 1);
    memcpy(text, data, size);
    text[size] = 0;
    if (fuzz_ok(context, bo_plan_machine_parse(context, "fuzz", text, size, &machine))) {
        bo_plan_range step;
        if (machine->timing_count > BO_PLAN_SHAPES) abort();
        for (size_t i = 0; i < machine->timing_count; i++)
            if (!fuzz_ok(context, bo_plan_step(context, machine, &machine->timings[i].shape, &step))) abort();
        again(context, machine);
        bo_plan_machine_destroy(machine);
    }
    free(text);
    return 0;
}
