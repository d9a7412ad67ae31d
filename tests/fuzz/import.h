/* Shared by the fuzz targets of models of other programs. */
#ifndef BO_FUZZ_IMPORT_H
#define BO_FUZZ_IMPORT_H

#include "fuzz.h"
#include "model/import.h"

static inline void fuzz_decode(const bo_import_tensor *tensor)
{
    const size_t count = bo_import_numbers(tensor);
    float *scratch = malloc((tensor->first_row + tensor->shape[0]) * sizeof *scratch);
    float *numbers = malloc(count * sizeof *numbers);
    if (!scratch || !numbers) abort();
    if (bo_import_is_whole(tensor))
        bo_import_whole(tensor, scratch, numbers);
    else
        bo_import_rows(tensor, 0, tensor->shape[0], numbers);
    free(scratch);
    free(numbers);
}

/* Texts of an accepted file are JSON, which a tokenizer and a configuration are read from. */
static inline void fuzz_text(bo_context *context, const bo_json_text *text)
{
    bo_json *json;
    if (!text->length) return;
    if (!fuzz_ok(context, bo_json_parse(context, "text", text->bytes, text->length, 16, &json))) abort();
    bo_json_delete(json);
}

static inline void fuzz_import(bo_context *context, const bo_import_source *source)
{
    bo_import import;
    if (!fuzz_ok(context, bo_import_any(context, source, &import))) return;
    for (size_t i = 0; i < import.count; i++) fuzz_decode(&import.tensors[i]);
    for (size_t i = 0; i < BO_IMPORT_TEXTS; i++) fuzz_text(context, &import.texts[i]);
    bo_import_free(&import);
}

#endif
