#include "fuzz.h"
#include "io/tensors.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    bo_context *context = fuzz_context();
    bo_tensors *file;
    if (!fuzz_ok(context, bo_tensors_open_memory(context, "fuzz", data, size, &file))) return 0;
    unsigned sum = 0;
    for (size_t i = 0; i < bo_tensors_count(file); ++i) {
        const bo_file_tensor *tensor = bo_tensors_at(file, i);
        if (bo_tensors_find(file, tensor->name) != tensor) abort();
        for (size_t b = 0; b < tensor->bytes; ++b) sum += ((const unsigned char *)tensor->data)[b];
    }
    for (size_t i = 0; i < bo_tensors_meta_count(file); ++i) {
        bo_meta meta = bo_tensors_meta_at(file, i);
        if (bo_tensors_meta(file, meta.key) != meta.value) abort();
    }
    volatile unsigned sink = sum;
    (void)sink;
    bo_tensors_close(file);
    return 0;
}
