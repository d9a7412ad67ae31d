/* Writing of safetensors files: the widest types come first, so that every tensor is aligned; the header is padded with
 * spaces to 8 bytes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "json.h"
#include "tensors_layout.h"

static const char MARK[] = BO_TENSORS_MARK;

static bo_status check_tensor(bo_context *context, const char *path, const bo_file_tensor *tensors, size_t index)
{
    const bo_file_tensor *tensor = &tensors[index];
    size_t expected;
    if (!tensor->name || strcmp(tensor->name, "__metadata__") == 0)
        return bo_fail(context, BO_INVALID, "%s: tensor %zu: expected a name, found none or __metadata__", path, index);
    if ((unsigned)tensor->dtype >= BO_DTYPES || tensor->rank > BO_TENSORS_MAX_RANK ||
        !bo_tensor_size(tensor->dtype, tensor->rank, tensor->shape, &expected) || expected != tensor->bytes)
        return bo_fail(context, BO_INVALID, "%s: tensor '%s': %zu bytes do not match its dtype and shape", path,
                       tensor->name, tensor->bytes);
    return BO_OK;
}

static int by_name_of(const void *a, const void *b)
{
    return strcmp((*(const bo_file_tensor *const *)a)->name, (*(const bo_file_tensor *const *)b)->name);
}

static bo_status check_tensors(bo_context *context, const char *path, const bo_file_tensor *tensors, size_t count)
{
    for (size_t i = 0; i < count; ++i) BO_TRY(check_tensor(context, path, tensors, i));
    const bo_file_tensor **sorted = bo_alloc(context, count, sizeof *sorted, "the names of tensors");
    bo_status status = sorted ? BO_OK : BO_MEMORY;
    for (size_t i = 0; sorted && i < count; ++i) sorted[i] = &tensors[i];
    if (sorted) qsort(sorted, count, sizeof *sorted, by_name_of);
    for (size_t i = 1; status == BO_OK && i < count; ++i)
        if (strcmp(sorted[i - 1]->name, sorted[i]->name) == 0)
            status = bo_fail(context, BO_INVALID, "%s: tensor '%s' occurs twice", path, sorted[i]->name);
    bo_free(sorted);
    return status;
}

static void write_entry(bo_json_text *text, const bo_file_tensor *tensor, size_t begin)
{
    bo_json_string(text, tensor->name);
    bo_json_raw(text, ":{\"dtype\":");
    bo_json_string(text, bo_dtype_name(tensor->dtype));
    bo_json_raw(text, ",\"shape\":[");
    for (size_t i = 0; i < tensor->rank; ++i) {
        if (i) bo_json_raw(text, ",");
        bo_json_whole(text, tensor->shape[i]);
    }
    bo_json_raw(text, "],\"data_offsets\":[");
    bo_json_whole(text, begin);
    bo_json_raw(text, ",");
    bo_json_whole(text, begin + tensor->bytes);
    bo_json_raw(text, "]}");
}

/* The checksum comes first, with zeros that write_all replaces. */
static void write_meta(bo_json_text *text, const bo_meta *meta, size_t count)
{
    char zeros[BO_CHECKSUM_DIGITS + 1];
    snprintf(zeros, sizeof zeros, "%016d", 0);
    bo_json_raw(text, MARK);
    bo_json_raw(text, zeros);
    bo_json_raw(text, "\"");
    for (size_t i = 0; i < count; ++i) {
        bo_json_raw(text, ",");
        bo_json_string(text, meta[i].key);
        bo_json_raw(text, ":");
        bo_json_string(text, meta[i].value);
    }
    bo_json_raw(text, "}");
}

/* Items of 8 bytes, then 4, 2 and 1; equal widths keep their order. */
static void order_by_width(const bo_file_tensor *tensors, size_t count, size_t *order)
{
    size_t at = 0;
    for (size_t width = 8; width > 0; width /= 2)
        for (size_t i = 0; i < count; ++i)
            if (bo_dtype_size(tensors[i].dtype) == width) order[at++] = i;
}

static void add_checksum(const unsigned char length[BO_TENSORS_LENGTH], const bo_file_tensor *tensors,
                         const size_t *order, size_t count, bo_json_text *header)
{
    unsigned char before[BO_TENSORS_DIGITS_AT];
    char *digits = header->bytes + (BO_TENSORS_DIGITS_AT - BO_TENSORS_LENGTH), *after = digits + BO_CHECKSUM_DIGITS;
    bo_checksum sum;
    memcpy(before, length, BO_TENSORS_LENGTH);
    memcpy(before + BO_TENSORS_LENGTH, MARK, sizeof MARK - 1);
    bo_checksum_start(&sum, before, sizeof before);
    bo_checksum_add(&sum, after, header->length - (size_t)(after - header->bytes));
    for (size_t i = 0; i < count; ++i) bo_checksum_add(&sum, tensors[order[i]].data, tensors[order[i]].bytes);
    bo_checksum_end(&sum, digits);
}

static bo_status write_all(bo_context *context, bo_output *output, const bo_file_tensor *tensors, const size_t *order,
                           size_t count, size_t bytes, bo_json_text *header)
{
    unsigned char length[BO_TENSORS_LENGTH];
    for (int i = 0; i < BO_TENSORS_LENGTH; ++i) length[i] = (unsigned char)((uint64_t)header->length >> (8 * i));
    add_checksum(length, tensors, order, count, header);
    BO_TRY(bo_output_reserve(context, output, sizeof length + header->length + bytes));
    BO_TRY(bo_output_write(context, output, length, sizeof length));
    BO_TRY(bo_output_write(context, output, header->bytes, header->length));
    for (size_t i = 0; i < count; ++i)
        BO_TRY(bo_output_write(context, output, tensors[order[i]].data, tensors[order[i]].bytes));
    return BO_OK;
}

bo_status bo_tensors_write_output(bo_context *context, bo_output *output, const bo_file_tensor *tensors, size_t count,
                                  const bo_meta *meta, size_t meta_count)
{
    const char *path = bo_output_path(output);
    if (__BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__)
        return bo_fail(context, BO_UNSUPPORTED, "%s: safetensors files are not supported on big-endian computers",
                       path);
    BO_TRY(check_tensors(context, path, tensors, count));
    size_t *order = bo_alloc(context, count, sizeof *order, "the order of tensors");
    if (!order) return BO_MEMORY;
    order_by_width(tensors, count, order);
    bo_json_text header = {.context = context};
    size_t begin = 0;
    write_meta(&header, meta, meta_count);
    for (size_t i = 0; i < count; ++i) {
        bo_json_raw(&header, ",");
        write_entry(&header, &tensors[order[i]], begin);
        begin += tensors[order[i]].bytes;
    }
    bo_json_raw(&header, "}");
    while (!header.failed && header.length % 8) bo_json_raw(&header, " ");
    bo_status status = header.failed ? BO_MEMORY : BO_OK;
    if (status == BO_OK && header.length > BO_TENSORS_MAX_HEADER)
        status = bo_fail(context, BO_INVALID, "%s: names and metadata take %zu bytes, more than the maximum of %d",
                         path, header.length, BO_TENSORS_MAX_HEADER);
    if (status == BO_OK) status = write_all(context, output, tensors, order, count, begin, &header);
    bo_free(header.bytes);
    bo_free(order);
    return status;
}

bo_status bo_tensors_write(bo_context *context, const char *path, const bo_file_tensor *tensors, size_t count,
                           const bo_meta *meta, size_t meta_count)
{
    bo_output *output;
    BO_TRY(bo_output_open(context, path, &output));
    return bo_output_finish(context, output,
                            bo_tensors_write_output(context, output, tensors, count, meta, meta_count));
}

bo_status bo_tensors_write_memory(bo_context *context, const bo_file_tensor *tensors, size_t count, const bo_meta *meta,
                                  size_t meta_count, void **bytes, size_t *size)
{
    bo_output *output;
    BO_TRY(bo_output_open_memory(context, bytes, size, &output));
    return bo_output_finish(context, output,
                            bo_tensors_write_output(context, output, tensors, count, meta, meta_count));
}
