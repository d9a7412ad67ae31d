/* .npy version 1.0: the header is padded with blanks so that the numbers start at a multiple of 64 bytes. */
#include "output.h"

#include <bochner/data.h>
#include <stdio.h>
#include <string.h>

static bo_status count_numbers(bo_context *context, const char *path, const bo_array *shape, size_t item, size_t *count)
{
    char text[BO_ARRAY_TEXT];
    if (shape->rank > BO_ARRAY_RANK)
        return bo_fail(context, BO_INVALID, "%s: an array of rank %zu; up to %d are written", path ? path : "",
                       shape->rank, BO_ARRAY_RANK);
    *count = 1;
    for (size_t i = 0; i < shape->rank; ++i) {
        if (shape->shape[i] && *count > SIZE_MAX / item / shape->shape[i])
            return bo_fail(context, BO_INVALID, "%s: an array of shape %s is too large", path ? path : "",
                           bo_array_shape(shape, text));
        *count *= shape->shape[i];
    }
    return BO_OK;
}

/* `shape`: its rank and shape are read. */
static bo_status write_array(bo_context *context, const char *path, const bo_array *shape, const void *values,
                             size_t item)
{
    size_t count = 0;
    BO_TRY(count_numbers(context, path, shape, item, &count));
    char header[BO_ARRAY_TEXT + 128], text[BO_ARRAY_TEXT];
    const char order = __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? '<' : '>';
    memset(header, ' ', sizeof header);
    int length = snprintf(header + 10, sizeof header - 10, "{'descr': '%cf%zu', 'fortran_order': False, 'shape': %s, }",
                          order, item, bo_array_shape(shape, text));
    header[10 + length] = ' ';
    const size_t total = ((size_t)length + 10 + 1 + 63) / 64 * 64;
    memcpy(header, "\x93NUMPY\x01\x00", 8);
    header[8] = (char)((total - 10) & 255);
    header[9] = (char)((total - 10) >> 8);
    header[total - 1] = '\n';
    bo_output *output;
    BO_TRY(bo_output_open(context, path, &output));
    bo_status status = bo_output_write(context, output, header, total);
    if (status == BO_OK) status = bo_output_write(context, output, values, count * item);
    if (status == BO_OK) return bo_output_commit(context, output);
    bo_output_abandon(output);
    return status;
}

bo_status bo_npy_write_f32(bo_context *context, const char *path, size_t rows, size_t columns, const float *values)
{
    const bo_array table = {.rank = 2, .shape = {rows, columns}};
    return write_array(context, path, &table, values, sizeof *values);
}

bo_status bo_npy_write_f64(bo_context *context, const char *path, size_t rows, size_t columns, const double *values)
{
    const bo_array table = {.rank = 2, .shape = {rows, columns}};
    return write_array(context, path, &table, values, sizeof *values);
}

bo_status bo_array_save(bo_context *context, const bo_array *array, const char *path)
{
    return write_array(context, path, array, array->values, sizeof *array->values);
}
