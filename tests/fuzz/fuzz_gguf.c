/* A hostile GGUF file is read, and converted if its model is known: every number is decoded. */
#include "fuzz.h"
#include "import.h"
#include "io/gguf.h"

static void read_entries(const bo_gguf *file)
{
    static const char *const keys[] = {"general.architecture", "tokenizer.ggml.tokens", "tokenizer.ggml.scores",
                                       "tokenizer.ggml.merges"};
    size_t sum = 0;
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        const bo_gguf_entry *entry = bo_gguf_find(file, keys[i]);
        const char *text;
        size_t at = 0, length, count = 0;
        if (!entry) continue;
        for (; bo_gguf_next_text(entry, &at, &text, &length); count++)
            for (size_t k = 0; k < length; k++) sum += (unsigned char)text[k];
        if (count && count != entry->count) abort();
        for (size_t k = 0; k < entry->count; k++) {
            double number;
            if (bo_gguf_number(entry, k, &number)) sum += number > 0;
        }
    }
    volatile size_t sink = sum;
    (void)sink;
}

static void read_tensors(const bo_gguf *file)
{
    unsigned sum = 0;
    for (size_t i = 0; i < bo_gguf_tensors(file); i++) {
        const bo_gguf_tensor *tensor = bo_gguf_tensor_at(file, i);
        if (bo_gguf_tensor_find(file, tensor->name) != tensor) abort();
        for (size_t k = 0; k < tensor->bytes; k++) sum += tensor->data[k];
    }
    volatile unsigned sink = sum;
    (void)sink;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    bo_context *context = fuzz_context();
    bo_gguf *file;
    if (!fuzz_ok(context, bo_gguf_open(context, "fuzz", data, size, &file))) return 0;
    read_entries(file);
    read_tensors(file);
    bo_gguf_close(file);
    const bo_import_source source = {.path = "fuzz", .bytes = data, .size = size, .keep = true};
    fuzz_import(context, &source);
    return 0;
}
