/* A result file: read, inspected completely, written and read again. */
#include "fuzz.h"
#include "lab/internal.h"

static double read_result(const bo_lab_result *result)
{
    const bo_lab_about about = bo_lab_result_about(result);
    double sum = (double)(bo_lab_result_verdict(result) + strlen(about.isa) + strlen(about.version));
    for (size_t i = 0; i < about.experiment->claim_count; i++) {
        const bo_lab_outcome o = bo_lab_result_claim(result, i);
        if (!bo_lab_verdict_name(o.verdict)) abort();
        for (size_t s = 0; s < about.seeds; s++) sum += o.values[s];
    }
    for (size_t t = 0; t < about.experiment->table_count; t++) {
        const bo_lab_grid grid = bo_lab_result_table(result, t);
        for (size_t r = 0; r < grid.rows; r++) {
            sum += (double)strlen(grid.row_names[r]);
            if (grid.numbers && r && !(grid.x[r] > grid.x[r - 1])) abort();
        }
        for (size_t c = 0; c < grid.columns; c++) sum += (double)strlen(grid.column_names[c]);
        for (size_t i = 0; i < grid.rows * grid.columns; i++) sum += grid.cells[i].mean;
    }
    for (size_t i = 0; i < bo_lab_result_notes(result); i++) sum += (double)strlen(bo_lab_result_note(result, i));
    return sum;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    bo_context *context = fuzz_context();
    bo_lab_result *result, *again;
    if (!fuzz_ok(context, lab_result_parse(context, "fuzz", (const char *)data, size, &result))) return 0;
    volatile double sink = read_result(result);
    (void)sink;
    bo_json_text text = {.context = context};
    lab_result_text(result, &text);
    if (text.failed || !fuzz_ok(context, lab_result_parse(context, "again", text.bytes, text.length, &again)))
        abort(); /* written data can be read */
    if (bo_lab_result_verdict(again) != bo_lab_result_verdict(result)) abort();
    bo_free(text.bytes);
    bo_lab_result_destroy(result);
    bo_lab_result_destroy(again);
    return 0;
}
