/* The header of an IDX file (MNIST): two zero bytes, a type, a rank, and the sizes, big-endian. */
#include "reader.h"

enum { BO_IDX_RANK = 8 };

bo_status bo_idx_open(bo_context *context, bo_reader *reader)
{
    const char *path = bo_bytes_path(reader->bytes);
    const unsigned char *data;
    size_t have;
    BO_TRY(bo_bytes_peek(context, reader->bytes, 4, &data, &have));
    if (have < 4 || data[0] != 0 || data[1] != 0)
        return bo_fail(context, BO_FORMAT,
                       "%s: expected an IDX file (it starts with two zero bytes), found another format", path);
    bo_array_layout *array = &reader->array;
    switch (data[2]) {
    case 0x08:
        array->type = BO_TYPE_U8, array->item = 1;
        break;
    case 0x09:
        array->type = BO_TYPE_I8, array->item = 1;
        break;
    case 0x0b:
        array->type = BO_TYPE_I16, array->item = 2;
        break;
    case 0x0c:
        array->type = BO_TYPE_I32, array->item = 4;
        break;
    case 0x0d:
        array->type = BO_TYPE_F32, array->item = 4;
        break;
    case 0x0e:
        array->type = BO_TYPE_F64, array->item = 8;
        break;
    default:
        return bo_fail(context, BO_FORMAT,
                       "%s: expected an IDX type of 0x08, 0x09, 0x0b, 0x0c, 0x0d or 0x0e, found 0x%02x", path, data[2]);
    }
    array->swap = array->item > 1 && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__;
    size_t rank = data[3];
    if (rank == 0 || rank > BO_IDX_RANK)
        return bo_fail(context, BO_FORMAT, "%s: expected an IDX array of rank 1 to %d, found rank %zu", path,
                       BO_IDX_RANK, rank);
    array->offset = 4 + 4 * rank;
    BO_TRY(bo_bytes_peek(context, reader->bytes, (size_t)array->offset, &data, &have));
    if (have < array->offset)
        return bo_fail(context, BO_FORMAT, "%s: the file is truncated: expected a header of %zu bytes, found %zu", path,
                       (size_t)array->offset, have);
    uint64_t rows = 0, columns = 1;
    for (size_t i = 0; i < rank; ++i) {
        const unsigned char *p = data + 4 + 4 * i;
        uint64_t size = (uint64_t)p[0] << 24 | (uint64_t)p[1] << 16 | (uint64_t)p[2] << 8 | p[3];
        if (i == 0)
            rows = size;
        else if (size != 0 && columns > (UINT64_MAX >> 8) / size)
            return bo_fail(context, BO_FORMAT, "%s: the sizes in the IDX header are too large", path);
        else
            columns *= size;
    }
    BO_TRY(bo_array_rows_check(context, reader, rows, columns));
    return bo_array_rows_start(context, reader);
}
