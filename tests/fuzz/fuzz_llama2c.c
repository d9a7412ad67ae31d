/* A hostile llama2.c model with its tokenizer: the first two bytes are the length of the tokenizer, which comes
 * next. */
#include "import.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2) return 0;
    const size_t length = (size_t)(data[0] | data[1] << 8) < size - 2 ? (size_t)(data[0] | data[1] << 8) : size - 2;
    uint8_t *tokenizer = malloc(length + 1),
            *model = malloc(size - 1 - length); /* separate blocks, so that reads past the end are detected */
    if (!tokenizer || !model) abort();
    memcpy(tokenizer, data + 2, length);
    memcpy(model, data + 2 + length, size - 2 - length);
    const bo_import_source source = {.path = "fuzz",
                                     .bytes = model,
                                     .size = size - 2 - length,
                                     .tokenizer_path = "fuzz.tokenizer",
                                     .tokenizer = length ? tokenizer : NULL,
                                     .tokenizer_size = length,
                                     .keep = true};
    bo_import import;
    bo_context *context = fuzz_context();
    if (fuzz_ok(context, bo_import_llama2c(context, &source, &import))) {
        for (size_t i = 0; i < import.count; i++) fuzz_decode(&import.tensors[i]);
        for (size_t i = 0; i < BO_IMPORT_TEXTS; i++) fuzz_text(context, &import.texts[i]);
        bo_import_free(&import);
    }
    free(tokenizer);
    free(model);
    return 0;
}
