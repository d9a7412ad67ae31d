/* Tensors of models that are converted: decoding, and the order of their rows. */
#include "import.h"
#include <string.h>

void bo_import_free(bo_import *import)
{
    for (size_t i = 0; i < import->count; i++) bo_free(import->tensors[i].name);
    for (size_t i = 0; i < BO_IMPORT_TEXTS; i++) bo_free(import->texts[i].bytes);
    bo_free(import->tensors);
    bo_gguf_close(import->gguf);
    *import = (bo_import){0};
}

static bo_dtype kept_type(const bo_import_tensor *tensor)
{
    if (tensor->scales) return BO_F32;
    return tensor->format->number == BO_BLOCK_F16 ? BO_F16 : tensor->format->number == BO_BLOCK_BF16 ? BO_BF16 : BO_F32;
}

bo_status bo_import_add(bo_context *context, const bo_import_source *source, const char *name,
                        const bo_import_tensor *tensor, bo_import *import)
{
    if (import->count == import->capacity) {
        const size_t capacity = import->capacity ? 2 * import->capacity : 64;
        bo_import_tensor *larger = bo_realloc(context, import->tensors, capacity, sizeof *larger, "a list of tensors");
        if (!larger) return BO_MEMORY;
        import->tensors = larger;
        import->capacity = capacity;
    }
    char *copy = bo_strdup(context, name);
    if (!copy) return BO_MEMORY;
    bo_import_tensor *added = &import->tensors[import->count++];
    *added = *tensor;
    added->name = copy;
    added->dtype = source->keep ? kept_type(tensor) : source->dtype;
    return BO_OK;
}

size_t bo_import_numbers(const bo_import_tensor *tensor)
{
    return tensor->rank == 2 ? tensor->shape[0] * tensor->shape[1] : tensor->shape[0];
}

double bo_import_parameters(const bo_import *import)
{
    double sum = 0;
    for (size_t i = 0; i < import->count; i++) sum += (double)bo_import_numbers(&import->tensors[i]);
    return sum;
}

const char *bo_import_type(const bo_import_tensor *tensor)
{
    return tensor->scales ? "int8 groups" : tensor->format->name;
}

/* ---- texts ------------------------------------------------------------------------------------------------------- */

void bo_import_write_dtype(const bo_import *import, bo_json_text *text)
{
    double sums[BO_BF16 + 1] = {0};
    bo_dtype dominant = BO_F32;
    for (size_t i = 0; i < import->count; i++)
        sums[import->tensors[i].dtype] += (double)bo_import_numbers(&import->tensors[i]);
    if (sums[BO_F16] > sums[dominant]) dominant = BO_F16;
    if (sums[BO_BF16] > sums[dominant]) dominant = BO_BF16;
    bo_json_raw(text, "  \"dtype\": ");
    bo_json_string(text, dominant == BO_F16 ? "float16" : dominant == BO_BF16 ? "bfloat16" : "float32");
    bo_json_raw(text, ",\n");
}

static void write_id(bo_json_text *text, const char *name, int64_t id)
{
    bo_json_raw(text, "  \"");
    bo_json_raw(text, name);
    bo_json_raw(text, "\": ");
    if (id == BO_TOKEN_NONE)
        bo_json_raw(text, "null");
    else
        bo_json_whole(text, (uint64_t)id);
}

/* The end tokens of a chat and of a text differ. Both end the generation. */
static void write_end(bo_json_text *text, const bo_import_vocab *vocab)
{
    if (vocab->eot == BO_TOKEN_NONE || vocab->eot == vocab->eos || vocab->eos == BO_TOKEN_NONE) {
        write_id(text, "eos_token_id", vocab->eos != BO_TOKEN_NONE ? vocab->eos : vocab->eot);
        return;
    }
    bo_json_raw(text, "  \"eos_token_id\": [");
    bo_json_whole(text, (uint64_t)vocab->eos);
    bo_json_raw(text, ", ");
    bo_json_whole(text, (uint64_t)vocab->eot);
    bo_json_raw(text, "]");
}

void bo_import_write_ids(const bo_import_vocab *vocab, bo_json_text *text)
{
    write_id(text, "bos_token_id", vocab->bos);
    bo_json_raw(text, ",\n");
    write_id(text, "eos_token_id", vocab->eos != BO_TOKEN_NONE ? vocab->eos : vocab->eot);
    bo_json_raw(text, ",\n");
    write_id(text, "pad_token_id", vocab->pad);
    bo_json_raw(text, ",\n");
}

void bo_import_write_generation(const bo_import_vocab *vocab, bo_json_text *text)
{
    bo_json_raw(text, "{\n");
    write_id(text, "bos_token_id", vocab->bos);
    bo_json_raw(text, ",\n");
    write_end(text, vocab);
    bo_json_raw(text, ",\n");
    write_id(text, "pad_token_id", vocab->pad);
    bo_json_raw(text, "\n}\n");
}

/* ---- decoding ---------------------------------------------------------------------------------------------------- */

static float float_at(const unsigned char *bytes)
{
    const uint32_t bits = bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 | (uint32_t)bytes[3] << 24;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* Decodes a row of `columns` numbers of the source. Groups do not end with rows. */
static void decode_row(const bo_import_tensor *tensor, size_t row, size_t columns, float *out)
{
    const bo_block_format *format = tensor->format;
    if (tensor->scales) {
        const size_t first = row * columns;
        for (size_t i = 0; i < columns; i++)
            out[i] =
                (float)(int8_t)tensor->data[first + i] * float_at(tensor->scales + (first + i) / tensor->group * 4);
    } else {
        bo_blocks_decode(format, tensor->data + row * (columns / format->numbers) * format->bytes, columns, out);
    }
    for (size_t i = 0; tensor->minus != 0 && i < columns; i++) out[i] -= tensor->minus;
}

/* The row of the source that becomes row `row` of `rows`. */
static size_t source_row(const bo_import_tensor *tensor, size_t row, size_t rows)
{
    if (tensor->order == BO_ROWS_PAIRS) {
        const size_t size = rows / tensor->heads, half = size / 2, at = row % size;
        return row - at + (at < half ? 2 * at : 2 * (at - half) + 1);
    }
    if (tensor->order == BO_ROWS_QKV_BLOCKS) {
        const size_t size = rows / tensor->heads / 3, head = row / (3 * size), part = row / size % 3;
        return (part * tensor->heads + head) * size + row % size;
    }
    return row;
}

bool bo_import_is_whole(const bo_import_tensor *tensor)
{
    return tensor->rank == 1 || tensor->order == BO_ROWS_COLUMNS;
}

void bo_import_rows(const bo_import_tensor *tensor, size_t first, size_t count, float *out)
{
    const size_t rows = tensor->shape[0], columns = tensor->shape[1];
    for (size_t i = 0; i < count; i++)
        decode_row(tensor, tensor->first_row + source_row(tensor, first + i, rows), columns, out + i * columns);
}

static void decode_vector(const bo_import_tensor *tensor, float *scratch, float *out)
{
    const size_t size = tensor->shape[0];
    decode_row(tensor, 0, tensor->first_row + size, scratch);
    for (size_t i = 0; i < size; i++) out[i] = scratch[tensor->first_row + source_row(tensor, i, size)];
}

void bo_import_whole(const bo_import_tensor *tensor, float *scratch, float *out)
{
    if (tensor->rank == 1) {
        decode_vector(tensor, scratch, out);
        return;
    }
    const size_t rows = tensor->shape[0], columns = tensor->shape[1]; /* of the result */
    for (size_t c = 0; c < columns; c++) {
        decode_row(tensor, c, rows, scratch);
        for (size_t r = 0; r < rows; r++) out[r * columns + c] = scratch[r];
    }
}
