#include "container.h"
#include <bochner/machines.h>

static void predict(bo_context *context, const bo_machine *machine)
{
    static float x[FUZZ_APPLIED_ROWS * FUZZ_MAX_DIM];
    static double mean[FUZZ_APPLIED_ROWS * FUZZ_MAX_OUTPUTS], std[FUZZ_APPLIED_ROWS * FUZZ_MAX_OUTPUTS];
    static double low[FUZZ_APPLIED_ROWS * FUZZ_MAX_OUTPUTS], high[FUZZ_APPLIED_ROWS * FUZZ_MAX_OUTPUTS];
    const bo_fit_report *report = bo_machine_report(machine);
    const size_t rows = FUZZ_APPLIED_ROWS, dim = report->dim;
    int classes[FUZZ_APPLIED_ROWS];
    if (dim > FUZZ_MAX_DIM || report->outputs > FUZZ_MAX_OUTPUTS || report->features > FUZZ_MAX_OUTPUTS) return;
    fuzz_inputs(rows * dim, x);
    fuzz_ok(context,
            bo_machine_predict(context, machine, &(bo_inputs){.rows = rows, .x = x}, &(bo_prediction){.mean = mean}));
    if (report->has_std)
        fuzz_ok(context,
                bo_machine_predict(context, machine, &(bo_inputs){.rows = rows, .x = x},
                                   &(bo_prediction){.mean = mean, .low = low, .high = high, .level = 0.9, .std = std}));
    if (!report->classes) return;
    fuzz_ok(context, bo_machine_predict(context, machine, &(bo_inputs){.rows = rows, .x = x},
                                        &(bo_prediction){.probabilities = mean}));
    if (!fuzz_ok(context, bo_machine_predict(context, machine, &(bo_inputs){.rows = rows, .x = x},
                                             &(bo_prediction){.classes = classes})))
        return;
    for (size_t i = 0; i < rows; ++i)
        if (classes[i] < 0 || (size_t)classes[i] >= report->classes) abort();
}

/* Written data can be read. */
static void again(bo_context *context, const bo_machine *machine, const bo_schema *schema)
{
    bo_machine *copy;
    void *bytes;
    size_t size;
    if (!fuzz_ok(context, bo_machine_save(context, machine, schema, &(bo_sink){.bytes = &bytes, .size = &size})))
        abort();
    if (!fuzz_ok(context, bo_machine_load(context, &(bo_source){.bytes = bytes, .size = size}, &copy, NULL))) abort();
    bo_machine_destroy(copy);
    bo_free(bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    bo_context *context = fuzz_context();
    bo_machine *machine;
    bo_schema *schema;
    uint8_t *image = fuzz_image(data, size);
    const bool loaded =
        fuzz_ok(context, bo_machine_load(context, &(bo_source){.bytes = image, .size = size}, &machine, &schema));
    free(image);
    if (!loaded) return 0;
    predict(context, machine);
    again(context, machine, schema);
    bo_machine_destroy(machine);
    bo_schema_destroy(schema);
    return 0;
}
