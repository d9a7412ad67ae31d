#include "fuzz.h"

/* What is read has the size its shape says. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    bo_context *context = fuzz_context();
    bo_bytes *bytes;
    bo_array *array;
    if (!fuzz_ok(context, bo_bytes_open_memory(context, "fuzz", data, size, &bytes))) return 0;
    if (!fuzz_ok(context, bo_array_load_bytes(context, bytes, &array))) return 0;
    size_t count = 1;
    for (size_t i = 0; i < array->rank; ++i) count *= array->shape[i];
    if (array->rank > BO_ARRAY_RANK || count != array->count) abort();
    volatile float sum = 0; /* every value is touched */
    for (size_t i = 0; i < count; ++i) sum += array->values[i];
    char text[BO_ARRAY_TEXT];
    if (*bo_array_shape(array, text) != '(' || text[strlen(text) - 1] != ')') abort();
    bo_array_destroy(array);
    return 0;
}
