/* A whole .npy array of any rank as float32 in C order. */
#include "reader.h"

#include <stdio.h>

const char *bo_array_shape(const bo_array *array, char out[BO_ARRAY_TEXT])
{
    size_t used = 1;
    out[0] = '(';
    for (size_t i = 0; i < array->rank && i < BO_ARRAY_RANK; ++i)
        used += (size_t)snprintf(out + used, BO_ARRAY_TEXT - used, "%s%zu", i ? ", " : "", array->shape[i]);
    snprintf(out + used, BO_ARRAY_TEXT - used, array->rank == 1 ? ",)" : ")");
    return out;
}

void bo_array_destroy(bo_array *array)
{
    if (!array) return;
    bo_free(array->values);
    bo_free(array);
}

static bo_status take_shape(bo_context *context, const char *path, size_t rank, const uint64_t *shape, bo_array *array)
{
    if (rank > BO_ARRAY_RANK)
        return bo_fail(context, BO_FORMAT, "%s: an array of rank %zu; up to %d are read", path, rank, BO_ARRAY_RANK);
    uint64_t count = 1, plausible = 1; /* a dimension of 0 does not excuse the others */
    for (size_t i = 0; i < rank; ++i) {
        if (shape[i] > SIZE_MAX || (shape[i] && plausible > (UINT64_MAX >> 8) / shape[i]))
            return bo_fail(context, BO_FORMAT, "%s: the shape in the .npy header overflows", path);
        if (shape[i]) plausible *= shape[i];
        count *= shape[i];
        array->shape[i] = (size_t)shape[i];
    }
    array->rank = rank;
    if (count > SIZE_MAX)
        return bo_fail(context, BO_FORMAT, "%s: %llu numbers are too many for this machine", path,
                       (unsigned long long)count);
    array->count = (size_t)count;
    return BO_OK;
}

static bo_status read_exactly(bo_context *context, bo_bytes *bytes, void *data, size_t size, const char *promise)
{
    size_t got;
    BO_TRY(bo_bytes_read(context, bytes, data, size, &got));
    if (got == size) return BO_OK;
    return bo_fail(context, BO_FORMAT, "%s: is truncated: its header promises %s, it ends before", bo_bytes_path(bytes),
                   promise);
}

/* The place in C order of the numbers of a file in Fortran order, one after the other: there the first dimension varies
 * fastest. */
typedef struct bo_permuted {
    size_t at;
    size_t index[BO_ARRAY_RANK], stride[BO_ARRAY_RANK];
} bo_permuted;

static void permuted_begin(bo_permuted *permuted, const bo_array *array)
{
    *permuted = (bo_permuted){0};
    size_t stride = 1;
    for (size_t i = array->rank; i-- > 0; stride *= array->shape[i]) permuted->stride[i] = stride;
}

static void permuted_next(bo_permuted *permuted, const bo_array *array)
{
    for (size_t i = 0; i < array->rank; ++i) {
        permuted->at += permuted->stride[i];
        if (++permuted->index[i] < array->shape[i]) return;
        permuted->at -= permuted->index[i] * permuted->stride[i];
        permuted->index[i] = 0;
    }
}

/* Through `raw` and `converted`, each with room for `room` numbers. */
static bo_status read_pieces(bo_context *context, bo_bytes *bytes, const bo_array_layout *layout, bo_array *array,
                             unsigned char *raw, float *converted, size_t room, const char *promise)
{
    bo_permuted permuted;
    permuted_begin(&permuted, array);
    for (size_t done = 0; done < array->count;) {
        const size_t piece = array->count - done < room ? array->count - done : room;
        BO_TRY(read_exactly(context, bytes, raw, piece * layout->item, promise));
        bo_convert_f32(layout, raw, piece, layout->by_column ? converted : array->values + done);
        for (size_t i = 0; layout->by_column && i < piece; ++i, permuted_next(&permuted, array))
            array->values[permuted.at] = converted[i];
        done += piece;
        BO_TRY(bo_progress(context, "reading", (double)done, (double)array->count));
    }
    return BO_OK;
}

static bo_status read_converted(bo_context *context, bo_bytes *bytes, const bo_array_layout *layout, bo_array *array,
                                const char *promise)
{
    const size_t most = BO_RAW_BLOCK / layout->item, room = array->count < most ? array->count : most;
    unsigned char *raw = bo_alloc_raw(context, room, layout->item, "a piece of an array");
    float *converted =
        raw ? bo_alloc_raw(context, layout->by_column ? room : 0, sizeof *converted, "a piece of an array") : NULL;
    bo_status status =
        converted ? read_pieces(context, bytes, layout, array, raw, converted, room, promise) : BO_MEMORY;
    bo_free(converted);
    bo_free(raw);
    return status;
}

static bo_status read_array(bo_context *context, bo_bytes *bytes, bo_array *array)
{
    bo_array_layout layout = {0};
    uint64_t shape[BO_NPY_RANK];
    size_t rank;
    char text[BO_ARRAY_TEXT], promise[BO_PROMISE_TEXT];
    BO_TRY(bo_npy_header_read(context, bytes, &layout, &rank, shape));
    BO_TRY(take_shape(context, bo_bytes_path(bytes), rank, shape, array));
    snprintf(promise, sizeof promise, "an array of shape %s", bo_array_shape(array, text));
    BO_TRY(bo_array_fits(context, bytes, &layout, array->count, promise));
    BO_TRY(bo_array_skip_header(context, bytes, &layout));
    array->values = bo_alloc_raw(context, array->count, sizeof *array->values, "an array");
    if (!array->values) return BO_MEMORY;
    if (layout.type == BO_TYPE_F32 && !layout.swap && !layout.by_column)
        BO_TRY(read_exactly(context, bytes, array->values, array->count * sizeof *array->values, promise));
    else
        BO_TRY(read_converted(context, bytes, &layout, array, promise));
    return bo_array_ends(context, bytes, promise);
}

bo_status bo_array_load_bytes(bo_context *context, bo_bytes *bytes, bo_array **out)
{
    *out = NULL;
    bo_array *array = bo_alloc(context, 1, sizeof *array, "an array");
    bo_status status = array ? read_array(context, bytes, array) : BO_MEMORY;
    bo_bytes_close(bytes);
    if (status == BO_OK)
        *out = array;
    else
        bo_array_destroy(array);
    return status;
}

bo_status bo_array_load(bo_context *context, const char *path, bo_array **out)
{
    bo_bytes *bytes;
    *out = NULL;
    BO_TRY(bo_bytes_open(context, path, false, &bytes));
    return bo_array_load_bytes(context, bytes, out);
}
