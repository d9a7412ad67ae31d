/* .npy version 1.0: the header is padded with blanks so that the numbers start at a multiple of 64 bytes. */
#include "output.h"

#include <bochner/data.h>
#include <stdio.h>
#include <string.h>

static bo_status write_array(bo_context *context, const char *path, size_t rows, size_t columns, const void *values,
                             size_t item)
{
    if (columns && rows > SIZE_MAX / item / columns)
        return bo_fail(context, BO_INVALID, "%s: %zu rows x %zu columns are too many", path ? path : "", rows, columns);
    char header[192];
    const char order = __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? '<' : '>';
    memset(header, ' ', sizeof header);
    int length =
        snprintf(header + 10, sizeof header - 10, "{'descr': '%cf%zu', 'fortran_order': False, 'shape': (%zu, %zu), }",
                 order, item, rows, columns);
    header[10 + length] = ' ';
    const size_t total = ((size_t)length + 10 + 1 + 63) / 64 * 64;
    memcpy(header, "\x93NUMPY\x01\x00", 8);
    header[8] = (char)((total - 10) & 255);
    header[9] = (char)((total - 10) >> 8);
    header[total - 1] = '\n';
    bo_output *output;
    BO_TRY(bo_output_open(context, path, &output));
    bo_status status = bo_output_write(context, output, header, total);
    if (status == BO_OK) status = bo_output_write(context, output, values, rows * columns * item);
    if (status == BO_OK) return bo_output_commit(context, output);
    bo_output_abandon(output);
    return status;
}

bo_status bo_npy_write_f32(bo_context *context, const char *path, size_t rows, size_t columns, const float *values)
{
    return write_array(context, path, rows, columns, values, sizeof *values);
}

bo_status bo_npy_write_f64(bo_context *context, const char *path, size_t rows, size_t columns, const double *values)
{
    return write_array(context, path, rows, columns, values, sizeof *values);
}
