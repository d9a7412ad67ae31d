/* Writes an imported model as a directory, tensor by tensor: only a block of rows, or one small tensor, is in
 * memory. */
#include "import.h"
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "../io/checksum.h"
#include "../io/output.h"
#include "../device/cpu/kernels.h"
#include "files.h"

/* The start of a safetensors file of Bochner (io/tensors.h); the digits of the checksum follow. */
static const char MARK[] = "{\"__metadata__\":{\"bochner.checksum\":\"" BO_CHECKSUM_VERSION;
enum { LENGTH = 8, DIGITS_AT = LENGTH + sizeof MARK - 1, BLOCK = BO_SIZE(1 << 18, 64) /* numbers */, NAME = 64 };

/* ---- numbers ----------------------------------------------------------------------------------------------------- */

/* Rounds to float16, to nearest with ties to even. The caller refuses numbers that become infinite. */
static uint16_t to_half(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    const uint32_t sign = bits >> 16 & 0x8000, magnitude = bits & 0x7FFFFFFF;
    if (magnitude >= 0x47800000) return (uint16_t)(sign | 0x7C00); /* 65536 and more */
    if (magnitude < 0x38800000) {                                  /* below the normal numbers: units of 2^-24 */
        const float units = ldexpf(fabsf(value), 24);
        return (uint16_t)(sign | (uint32_t)nearbyintf(units));
    }
    const uint32_t shifted = magnitude - 0x38000000; /* the bias of the exponent is 15 instead of 127 */
    return (uint16_t)(sign | ((shifted + 0xFFF + (shifted >> 13 & 1)) >> 13));
}

static uint16_t to_bfloat16(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return (uint16_t)((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

/* Converts in place: the results are not larger than the numbers. */
static bo_status narrow(bo_context *context, const bo_import_tensor *tensor, float *numbers, size_t count)
{
    const uint16_t infinite = tensor->dtype == BO_F16 ? 0x7C00 : 0x7F80;
    if (tensor->dtype == BO_F32) return BO_OK;
    for (size_t i = 0; i < count; i++) {
        const float value = numbers[i];
        const uint16_t half = tensor->dtype == BO_F16 ? to_half(value) : to_bfloat16(value);
        if ((half & 0x7FFF) >= infinite)
            return bo_fail(context, BO_INVALID, "tensor '%s': %g is outside the range of %s: choose %s", tensor->name,
                           (double)value, tensor->dtype == BO_F16 ? "float16" : "bfloat16",
                           tensor->dtype == BO_F16 ? "bfloat16 or float32" : "float32");
        memcpy((char *)numbers + 2 * i, &half, sizeof half);
    }
    return BO_OK;
}

/* ---- one tensor -------------------------------------------------------------------------------------------------- */

/* A file that is being written. */
typedef struct writer {
    bo_context *context;
    bo_output *output;
    bo_checksum sum;
    double *done; /* bytes of all files */
    double total;
} writer;

static bo_status write_numbers(writer *w, const bo_import_tensor *tensor, float *numbers, size_t count)
{
    if (!bo_context_kernels(w->context)->finite(count, numbers))
        return bo_fail(w->context, BO_FORMAT, "tensor '%s' contains a NaN or infinity", tensor->name);
    BO_TRY(narrow(w->context, tensor, numbers, count));
    const size_t bytes = count * bo_dtype_size(tensor->dtype);
    bo_checksum_add(&w->sum, numbers, bytes);
    BO_TRY(bo_output_write(w->context, w->output, numbers, bytes));
    *w->done += (double)bytes;
    return bo_progress(w->context, "convert", *w->done, w->total);
}

static bo_status write_whole(writer *w, const bo_import_tensor *tensor)
{
    const size_t count = bo_import_numbers(tensor);
    float *scratch = bo_alloc_raw(w->context, tensor->first_row + tensor->shape[0], sizeof *scratch, tensor->name);
    float *numbers = bo_alloc_raw(w->context, count, sizeof *numbers, tensor->name);
    bo_status status = scratch && numbers ? BO_OK : BO_MEMORY;
    if (status == BO_OK) {
        bo_import_whole(tensor, scratch, numbers);
        status = write_numbers(w, tensor, numbers, count);
    }
    bo_free(scratch);
    bo_free(numbers);
    return status;
}

static bo_status write_rows(writer *w, const bo_import_tensor *tensor)
{
    const size_t rows = tensor->shape[0], columns = tensor->shape[1];
    const size_t step = bo_min(rows, columns < BLOCK ? BLOCK / columns : 1);
    float *numbers = bo_alloc_raw(w->context, step * columns, sizeof *numbers, tensor->name);
    bo_status status = numbers ? BO_OK : BO_MEMORY;
    for (size_t row = 0; status == BO_OK && row < rows; row += step) {
        const size_t count = bo_min(step, rows - row);
        bo_import_rows(tensor, row, count, numbers);
        status = write_numbers(w, tensor, numbers, count * columns);
    }
    bo_free(numbers);
    return status;
}

/* ---- one file ---------------------------------------------------------------------------------------------------- */

static void write_entry(bo_json_text *text, const bo_import_tensor *tensor, uint64_t begin)
{
    static const char *const names[] = {[BO_F32] = "F32", [BO_F16] = "F16", [BO_BF16] = "BF16"};
    bo_json_raw(text, ",");
    bo_json_string(text, tensor->name);
    bo_json_raw(text, ":{\"dtype\":");
    bo_json_string(text, names[tensor->dtype]);
    bo_json_raw(text, ",\"shape\":[");
    bo_json_whole(text, tensor->shape[0]);
    if (tensor->rank == 2) {
        bo_json_raw(text, ",");
        bo_json_whole(text, tensor->shape[1]);
    }
    bo_json_raw(text, "],\"data_offsets\":[");
    bo_json_whole(text, begin);
    bo_json_raw(text, ",");
    bo_json_whole(text, begin + bo_import_numbers(tensor) * bo_dtype_size(tensor->dtype));
    bo_json_raw(text, "]}");
}

/* The next tensor of [first, end) of this width after *at; wider types come first, so that all are aligned. */
static const bo_import_tensor *next(const bo_import *import, size_t first, size_t end, size_t *width, size_t *at)
{
    for (; *width >= 2; *width -= 2, *at = first)
        while (*at < end) {
            const bo_import_tensor *tensor = &import->tensors[(*at)++];
            if (bo_dtype_size(tensor->dtype) == *width) return tensor;
        }
    return NULL;
}

static bo_status write_header(writer *w, const bo_import *import, size_t first, size_t end)
{
    char zeros[BO_CHECKSUM_DIGITS + 1];
    unsigned char length[LENGTH], before[DIGITS_AT];
    bo_json_text text = {.context = w->context};
    uint64_t begin = 0;
    snprintf(zeros, sizeof zeros, "%016d", 0);
    bo_json_raw(&text, MARK);
    bo_json_raw(&text, zeros);
    bo_json_raw(&text, "\",\"format\":\"pt\"}");
    size_t width = 4, at = first;
    for (const bo_import_tensor *tensor; (tensor = next(import, first, end, &width, &at));) {
        write_entry(&text, tensor, begin);
        begin += bo_import_numbers(tensor) * bo_dtype_size(tensor->dtype);
    }
    bo_json_raw(&text, "}");
    while (!text.failed && text.length % 8) bo_json_raw(&text, " ");
    bo_status status = text.failed ? BO_MEMORY : BO_OK;
    if (status == BO_OK) {
        for (int i = 0; i < LENGTH; i++) length[i] = (unsigned char)((uint64_t)text.length >> (8 * i));
        memcpy(before, length, LENGTH);
        memcpy(before + LENGTH, MARK, sizeof MARK - 1);
        bo_checksum_start(&w->sum, before, sizeof before);
        const size_t after = DIGITS_AT - LENGTH + BO_CHECKSUM_DIGITS;
        bo_checksum_add(&w->sum, text.bytes + after, text.length - after);
        status = bo_output_write(w->context, w->output, length, sizeof length);
    }
    if (status == BO_OK) status = bo_output_write(w->context, w->output, text.bytes, text.length);
    bo_free(text.bytes);
    return status;
}

/* The checksum covers the data and is known only at the end. Its digits overwrite the zeros. */
static bo_status finish_checksum(writer *w)
{
    char digits[BO_CHECKSUM_DIGITS];
    bo_checksum_end(&w->sum, digits);
    const ssize_t written = pwrite(bo_output_descriptor(w->output), digits, sizeof digits, DIGITS_AT);
    if (written == (ssize_t)sizeof digits) return BO_OK;
    return bo_fail(w->context, BO_IO, "%s: writing failed: %s", bo_output_path(w->output), strerror(errno));
}

static bo_status write_tensors(writer *w, const bo_import *import, size_t first, size_t end)
{
    size_t width = 4, at = first;
    BO_TRY(write_header(w, import, first, end));
    for (const bo_import_tensor *tensor; (tensor = next(import, first, end, &width, &at));)
        BO_TRY(bo_import_is_whole(tensor) ? write_whole(w, tensor) : write_rows(w, tensor));
    return finish_checksum(w);
}

/* ---- directory ------------------------------------------------------------------------------------------------------
 */

/* The outputs of a directory. They get their names together, the weights last. */
typedef struct directory {
    bo_context *context;
    const char *path;
    bo_output **outputs;
    size_t count;
} directory;

static bo_status open_in(directory *f, const char *name)
{
    char *path = bo_model_path(f->context, f->path, name);
    if (!path) return BO_MEMORY;
    const bo_status status = bo_output_open(f->context, path, &f->outputs[f->count]);
    f->count += status == BO_OK;
    bo_free(path);
    return status;
}

static bo_status write_text(directory *f, const char *name, const bo_json_text *text)
{
    if (text->failed) return BO_MEMORY;
    if (text->length == 0) return BO_OK;
    BO_TRY(open_in(f, name));
    return bo_output_write(f->context, f->outputs[f->count - 1], text->bytes, text->length);
}

static uint64_t bytes_of(const bo_import_tensor *tensor)
{
    return (uint64_t)bo_import_numbers(tensor) * bo_dtype_size(tensor->dtype);
}

/* The end of the shard that starts with tensor `first`. */
static size_t shard_end(const bo_import *import, size_t first, uint64_t max_bytes)
{
    uint64_t left = max_bytes;
    size_t end = first;
    for (; end < import->count; end++) {
        const uint64_t bytes = bytes_of(&import->tensors[end]);
        if (bytes > left && end > first) break;
        left -= bo_min(bytes, left);
    }
    return end;
}

static size_t count_shards(const bo_import *import, uint64_t max_bytes)
{
    size_t count = 0;
    for (size_t first = 0; first < import->count; first = shard_end(import, first, max_bytes)) count++;
    return count ? count : 1;
}

static void shard_name(size_t index, size_t count, char out[NAME])
{
    if (count == 1)
        snprintf(out, NAME, "model.safetensors");
    else
        snprintf(out, NAME, "model-%05zu-of-%05zu.safetensors", index + 1, count);
}

static bo_status write_index(directory *f, const bo_import *import, size_t shards, uint64_t max_bytes)
{
    char name[NAME];
    bo_json_text text = {.context = f->context};
    uint64_t total = 0;
    for (size_t i = 0; i < import->count; i++) total += bytes_of(&import->tensors[i]);
    bo_json_raw(&text, "{\n  \"metadata\": {\n    \"total_size\": ");
    bo_json_whole(&text, total);
    bo_json_raw(&text, "\n  },\n  \"weight_map\": {");
    size_t first = 0;
    for (size_t shard = 0; shard < shards; shard++) {
        const size_t end = shard_end(import, first, max_bytes);
        shard_name(shard, shards, name);
        for (; first < end; first++) {
            bo_json_raw(&text, first ? ",\n    " : "\n    ");
            bo_json_string(&text, import->tensors[first].name);
            bo_json_raw(&text, ": ");
            bo_json_string(&text, name);
        }
    }
    bo_json_raw(&text, "\n  }\n}\n");
    const bo_status status = write_text(f, "model.safetensors.index.json", &text);
    bo_free(text.bytes);
    return status;
}

static bo_status write_files(directory *f, const bo_import *import, size_t shards, uint64_t max_bytes)
{
    static const char *const names[] = {"config.json", "generation_config.json", "tokenizer.json",
                                        "tokenizer_config.json"};
    char name[NAME];
    double done = 0;
    writer w = {.context = f->context, .done = &done};
    for (size_t i = 0; i < import->count; i++) w.total += (double)bytes_of(&import->tensors[i]);
    for (size_t i = 0; i < BO_IMPORT_TEXTS; i++) BO_TRY(write_text(f, names[i], &import->texts[i]));
    size_t first = 0;
    for (size_t shard = 0; shard < shards; shard++) {
        const size_t end = shard_end(import, first, max_bytes);
        shard_name(shard, shards, name);
        BO_TRY(open_in(f, name));
        w.output = f->outputs[f->count - 1];
        BO_TRY(write_tensors(&w, import, first, end));
        first = end;
    }
    return shards > 1 ? write_index(f, import, shards, max_bytes) : BO_OK;
}

bo_status bo_import_write(bo_context *context, const bo_import *import, const char *path, uint64_t shard)
{
    const size_t shards = count_shards(import, shard);
    directory f = {.context = context, .path = path};
    BO_TRY(bo_output_directory(context, path));
    f.outputs = bo_alloc(context, BO_IMPORT_TEXTS + shards + 1, sizeof *f.outputs, "a list of files");
    if (!f.outputs) return BO_MEMORY;
    bo_status status = write_files(&f, import, shards, shard);
    status = bo_output_finish_all(context, f.outputs, f.count, status);
    bo_free(f.outputs);
    return status;
}
