/* Converts models of other programs: opens the files and writes the imported model. */
#include <bochner/convert.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "enums.h"
#include "../base/trace.h"
#include "../io/input.h"
#include "config.h"
#include "import.h"

static const uint64_t SHARD = UINT64_C(5000000000);

static const char *const dtype_names[] = {"source", "float32", "float16", "bfloat16"};

BO_NAMED(convert_dtype, bo_convert_dtype, dtype_names)

/* A mapped file. */
typedef struct mapped {
    void *bytes; /* NULL: an empty file, or none */
    size_t size;
} mapped;

struct bo_conversion {
    mapped from, tokenizer;
    uint64_t shard;
    bo_import import;
    bool runs; /* Bochner reads the configuration of the result */
};

static bo_status map_file(bo_context *context, const char *path, mapped *out)
{
    struct stat about;
    int file;
    BO_TRY(bo_input_open(context, path, &bo_limits_weights, &file, &about));
    const bo_status status = bo_input_map(context, path, file, (size_t)about.st_size, &out->bytes);
    close(file);
    if (status == BO_OK) out->size = (size_t)about.st_size;
    return status;
}

static void unmap(mapped *file)
{
    if (file->bytes) munmap(file->bytes, file->size);
}

void bo_conversion_close(bo_conversion *conversion)
{
    if (!conversion) return;
    bo_import_free(&conversion->import);
    unmap(&conversion->from);
    unmap(&conversion->tokenizer);
    bo_free(conversion);
}

static bo_status open_source(bo_context *context, const bo_convert_desc *desc, bo_conversion *conversion)
{
    static const bo_dtype types[] = {BO_F32, BO_F32, BO_F16, BO_BF16};
    BO_TRY(map_file(context, desc->from, &conversion->from));
    if (desc->tokenizer) BO_TRY(map_file(context, desc->tokenizer, &conversion->tokenizer));
    const bo_import_source source = {.path = desc->from,
                                     .bytes = conversion->from.bytes ? conversion->from.bytes : "",
                                     .size = conversion->from.size,
                                     .tokenizer_path = desc->tokenizer,
                                     .tokenizer = !desc->tokenizer              ? NULL
                                                  : conversion->tokenizer.bytes ? conversion->tokenizer.bytes
                                                                                : "",
                                     .tokenizer_size = conversion->tokenizer.size,
                                     .keep = desc->dtype == BO_CONVERT_DTYPE_SOURCE,
                                     .dtype = types[desc->dtype]};
    return bo_import_any(context, &source, &conversion->import);
}

/* True if Bochner can run the result. Other programs may be able to, so that this is a warning only. */
static bool check_config(bo_context *context, const char *from, const bo_json_text *text)
{
    bo_config config;
    if (bo_config_read(context, "config.json", text->bytes, text->length, &config) == BO_OK) {
        bo_config_free(&config);
        return true;
    }
    bo_log(context, BO_LOG_WARNING, "%s: the result is for other programs; Bochner refuses it: %s", from,
           bo_context_error(context));
    return false;
}

static void count_type(bo_conversion_info *info, const bo_import_tensor *tensor)
{
    enum { MAX_TYPES = sizeof info->type / sizeof *info->type };
    const char *name = bo_import_type(tensor);
    size_t i = 0;
    while (i < info->types && strcmp(info->type[i].name, name) != 0) i++;
    if (i == MAX_TYPES) return;
    if (i == info->types) info->types++;
    info->type[i].name = name;
    info->type[i].tensors++;
    info->type[i].parameters += (double)bo_import_numbers(tensor);
}

static void describe(const bo_conversion *conversion, bo_conversion_info *out)
{
    const bo_import *import = &conversion->import;
    *out = (bo_conversion_info){.format = import->format,
                                .architecture = import->architecture,
                                .tokenizer = import->tokenizer,
                                .layers = import->layers,
                                .width = import->width,
                                .vocab = import->vocab,
                                .context = import->context,
                                .tokens = import->tokens,
                                .parameters = bo_import_parameters(import),
                                .runs = conversion->runs};
    for (size_t i = 0; i < import->count; i++) {
        const bo_import_tensor *tensor = &import->tensors[i];
        out->bytes += (double)bo_import_numbers(tensor) * (double)bo_dtype_size(tensor->dtype);
        count_type(out, tensor);
    }
}

bo_status bo_conversion_open(bo_context *context, const bo_convert_desc *desc, bo_conversion_info *info,
                             bo_conversion **out)
{
    if (info) *info = (bo_conversion_info){0};
    if (out) *out = NULL;
    BO_REQUIRE(context, desc, out);
    BO_REQUIRE(context, desc->from);
    BO_TRY(bo_check_reserved(context, "bo_convert_desc", desc->reserved));
    BO_SPAN(context, "data", "read foreign model");
    if (!bo_convert_dtype_name(desc->dtype))
        return bo_fail(context, BO_INVALID, "convert: expected a dtype of 0 to 3, found %d", (int)desc->dtype);
    bo_conversion *conversion = bo_alloc(context, 1, sizeof *conversion, "a conversion");
    if (!conversion) return BO_MEMORY;
    conversion->shard = desc->shard_bytes ? desc->shard_bytes : SHARD;
    const bo_status status = open_source(context, desc, conversion);
    if (status != BO_OK) {
        bo_conversion_close(conversion);
        return status;
    }
    conversion->runs = check_config(context, desc->from, &conversion->import.texts[BO_IMPORT_CONFIG]);
    if (info) describe(conversion, info);
    *out = conversion;
    return BO_OK;
}

bo_status bo_conversion_write(bo_context *context, const bo_conversion *conversion, const char *directory)
{
    BO_REQUIRE(context, conversion, directory);
    BO_SPAN(context, "data", "convert model");
    if (!*directory) return bo_fail(context, BO_INVALID, "convert: expected a directory, found NULL");
    return bo_import_write(context, &conversion->import, directory, conversion->shard);
}

bo_status bo_convert(bo_context *context, const bo_convert_desc *desc)
{
    bo_conversion *conversion;
    BO_REQUIRE(context, desc);
    BO_REQUIRE(context, desc->to);
    BO_TRY(bo_conversion_open(context, desc, NULL, &conversion));
    const bo_status status = bo_conversion_write(context, conversion, desc->to);
    bo_conversion_close(conversion);
    return status;
}
