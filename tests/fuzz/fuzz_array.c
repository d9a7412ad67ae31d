#include "fuzz.h"

/* A loaded array has the size of its shape. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    bo_context *context = fuzz_context();
    bo_array *array, *again;
    void *bytes;
    if (!fuzz_ok(context, bo_array_load(context, &(bo_source){.bytes = data, .size = size}, &array))) return 0;
    size_t count = 1;
    for (size_t i = 0; i < array->rank; ++i) count *= array->shape[i];
    if (array->rank > 8 || count != array->count) abort();
    volatile float sum = 0; /* every value is read */
    for (size_t i = 0; i < count; ++i) sum += array->values[i];
    (void)sum;
    char text[192];
    const size_t length = bo_array_format(array, text, sizeof text);
    if (length >= sizeof text || *text != '(' || text[length - 1] != ')') abort();
    /* Written data can be read. */
    if (!fuzz_ok(context, bo_array_save(context, array, &(bo_sink){.bytes = &bytes, .size = &size}))) abort();
    if (!fuzz_ok(context, bo_array_load(context, &(bo_source){.bytes = bytes, .size = size}, &again)) ||
        again->count != count)
        abort();
    if (memcmp(again->values, array->values, count * sizeof *again->values) != 0) abort();
    bo_array_destroy(again);
    bo_free(bytes);
    bo_array_destroy(array);
    return 0;
}
