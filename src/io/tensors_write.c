/* Writing safetensors: widest types first, so that every tensor is aligned; the header padded with blanks to 8 bytes. */
#include "tensors_internal.h"
#include "json.h"
#include "output.h"

#include <string.h>

static bo_status check_tensor(bo_context *context, const char *path, const bo_file_tensor *tensors, size_t index)
{
    const bo_file_tensor *tensor = &tensors[index];
    size_t wanted;
    if (!tensor->name || strcmp(tensor->name, "__metadata__") == 0)
        return bo_fail(context, BO_INVALID, "%s: tensor %zu has no usable name", path, index);
    if ((unsigned)tensor->dtype >= BO_DTYPES || tensor->rank > BO_TENSORS_RANK ||
        !bo_tensor_size(tensor->dtype, tensor->rank, tensor->shape, &wanted) || wanted != tensor->bytes)
        return bo_fail(context, BO_INVALID, "%s: tensor '%s': dtype, shape and %zu bytes do not fit together", path,
                       tensor->name, tensor->bytes);
    for (size_t i = 0; i < index; ++i)
        if (strcmp(tensors[i].name, tensor->name) == 0)
            return bo_fail(context, BO_INVALID, "%s: tensor '%s' is given twice", path, tensor->name);
    return BO_OK;
}

static void write_entry(bo_json_text *text, const bo_file_tensor *tensor, size_t begin)
{
    bo_json_string(text, tensor->name);
    bo_json_raw(text, ":{\"dtype\":");
    bo_json_string(text, bo_dtypes[tensor->dtype].name);
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

static void write_meta(bo_json_text *text, const bo_meta *meta, size_t count)
{
    bo_json_raw(text, "\"__metadata__\":{");
    for (size_t i = 0; i < count; ++i) {
        if (i) bo_json_raw(text, ",");
        bo_json_string(text, meta[i].key);
        bo_json_raw(text, ":");
        bo_json_string(text, meta[i].value);
    }
    bo_json_raw(text, "}");
}

/* Items of 8 bytes, then 4, 2, 1; among equals in the order given. */
static void order_by_width(const bo_file_tensor *tensors, size_t count, size_t *order)
{
    size_t at = 0;
    for (size_t width = 8; width > 0; width /= 2)
        for (size_t i = 0; i < count; ++i)
            if (bo_dtypes[tensors[i].dtype].size == width) order[at++] = i;
}

static bo_status write_file(bo_context *context, const char *path, const bo_file_tensor *tensors, const size_t *order,
                            size_t count, const bo_json_text *header)
{
    bo_output *output;
    unsigned char length[8];
    for (int i = 0; i < 8; ++i) length[i] = (unsigned char)((uint64_t)header->length >> (8 * i));
    BO_TRY(bo_output_open(context, path, &output));
    bo_status status = bo_output_write(context, output, length, sizeof length);
    if (status == BO_OK) status = bo_output_write(context, output, header->bytes, header->length);
    for (size_t i = 0; i < count && status == BO_OK; ++i)
        status = bo_output_write(context, output, tensors[order[i]].data, tensors[order[i]].bytes);
    if (status == BO_OK) return bo_output_commit(context, output);
    bo_output_abandon(output);
    return status;
}

bo_status bo_tensors_write(bo_context *context, const char *path, const bo_file_tensor *tensors, size_t count,
                           const bo_meta *meta, size_t meta_count)
{
    if (!path || !*path) return bo_fail(context, BO_INVALID, "no file to write was named");
    if (__BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__)
        return bo_fail(context, BO_UNSUPPORTED, "%s: safetensors are not supported on big-endian machines", path);
    for (size_t i = 0; i < count; ++i) BO_TRY(check_tensor(context, path, tensors, i));
    size_t *order = bo_alloc(context, count, sizeof *order, "the order of tensors");
    if (!order) return BO_MEMORY;
    order_by_width(tensors, count, order);
    bo_json_text header = {.context = context};
    size_t begin = 0;
    bo_json_raw(&header, "{");
    if (meta_count) write_meta(&header, meta, meta_count);
    for (size_t i = 0; i < count; ++i) {
        if (i || meta_count) bo_json_raw(&header, ",");
        write_entry(&header, &tensors[order[i]], begin);
        begin += tensors[order[i]].bytes;
    }
    bo_json_raw(&header, "}");
    while (!header.failed && header.length % 8) bo_json_raw(&header, " ");
    bo_status status = header.failed ? BO_MEMORY : BO_OK;
    if (status == BO_OK && header.length > BO_TENSORS_HEADER)
        status = bo_fail(context, BO_INVALID, "%s: names and metadata take %zu bytes, %d are allowed", path,
                         header.length, BO_TENSORS_HEADER);
    if (status == BO_OK) status = write_file(context, path, tensors, order, count, &header);
    bo_free(header.bytes);
    bo_free(order);
    return status;
}
