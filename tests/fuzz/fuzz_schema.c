#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    bo_context *context = fuzz_context();
    void *json, *again;
    size_t size_again;
    bo_schema *schema, *copy;
    if (!fuzz_ok(context, bo_schema_load_memory(context, data, size, &schema))) return 0;
    for (size_t i = 0; i < bo_schema_inputs(schema); ++i)
        if (!bo_schema_input(schema, i)) abort();
    for (size_t i = 0; i < bo_schema_targets(schema); ++i)
        if (!bo_schema_target(schema, i)) abort();
    if (bo_schema_inputs(schema) <= FUZZ_COLUMNS) {
        if (!fuzz_ok(context, bo_schema_save_memory(context, schema, &json, &size))) abort();
        if (!fuzz_ok(context, bo_schema_load_memory(context, json, size, &copy))) abort();
        if (!fuzz_ok(context, bo_schema_save_memory(context, copy, &again, &size_again))) abort();
        if (size != size_again || memcmp(json, again, size) != 0) abort();
        bo_free(json);
        bo_free(again);
        bo_schema_destroy(copy);
        /* A schema from a malicious model is applied to a normal file. */
        static const char csv[] = "a,b,c\n1,2,3\n4,x,6\n";
        const bo_data_desc desc = {.path = "fuzz"};
        bo_source source = {0};
        bo_bytes *bytes;
        if (!fuzz_ok(context, bo_bytes_open_memory(context, "fuzz", csv, sizeof csv - 1, &bytes))) abort();
        if (!fuzz_ok(context, bo_reader_open_bytes(context, bytes, BO_FORMAT_AUTO, 0, &source.data))) abort();
        fuzz_stream(context, &desc, schema, &source);
    }
    bo_schema_destroy(schema);
    return 0;
}
