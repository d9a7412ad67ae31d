#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    bo_context *context = fuzz_context();
    bo_schema *schema;
    if (!fuzz_ok(context, bo_schema_load(context, &(bo_source){.bytes = data, .size = size}, &schema))) return 0;
    for (size_t i = 0; i < bo_schema_describe(schema)->inputs; ++i)
        if (!bo_schema_describe(schema)->input_names[i]) abort();
    for (size_t i = 0; i < bo_schema_describe(schema)->targets; ++i)
        if (!bo_schema_describe(schema)->target_names[i]) abort();
    if (bo_schema_describe(schema)->inputs <= FUZZ_COLUMNS) {
        bo_schema_destroy(fuzz_copy(context, schema, bo_schema_save));
        bo_schema_destroy(fuzz_copy(context, schema, bo_schema_share));
        /* A schema from a malicious model is applied to a normal file. */
        static const char csv[] = "a,b,c\n1,2,3\n4,x,6\n,2024-01-31,yes\n";
        const bo_data_desc desc = {.path = "fuzz"};
        bo_data_input source = {0};
        bo_bytes *bytes;
        if (!fuzz_ok(context, bo_bytes_open_memory(context, "fuzz", csv, sizeof csv - 1, &bytes))) abort();
        if (!fuzz_ok(context, bo_reader_open_bytes(context, bytes, BO_FORMAT_AUTO, 0, &source.data))) abort();
        fuzz_stream(context, &desc, schema, &source);
    }
    bo_schema_destroy(schema);
    return 0;
}
