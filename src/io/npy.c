/* NumPy .npy files: reads headers and writes arrays. */
#include <bochner/data.h>
#include <stdio.h>
#include <string.h>
#include "foreign.h"
#include "output.h"
#include "reader.h"

/* ====================================================================================================================
 * The header of a .npy file, versions 1 to 3: magic, version, header length, and a Python dict literal with exactly the
 * keys descr, fortran_order and shape. */

enum { BO_NPY_HEADER = 1 << 20 };

typedef struct bo_npy_parser {
    bo_context *context;
    const char *path, *at, *end;
} bo_npy_parser;

typedef struct bo_npy_header {
    char descr[16];
    bool has_descr, has_order, has_shape, by_column;
    size_t rank;
    uint64_t *shape; /* BO_NPY_RANK numbers, owned by the caller */
} bo_npy_header;

static bo_status malformed(bo_npy_parser *parser, const char *what)
{
    return bo_fail(parser->context, BO_FORMAT, "%s: the .npy header is malformed: %s", parser->path, what);
}

static char next_token(bo_npy_parser *parser)
{
    while (parser->at < parser->end && strchr(" \t\r\n", *parser->at) && *parser->at) ++parser->at;
    return parser->at < parser->end ? *parser->at : 0;
}

static bool accept(bo_npy_parser *parser, char c)
{
    if (next_token(parser) != c || c == 0) return false;
    ++parser->at;
    return true;
}

static bool accept_literal(bo_npy_parser *parser, const char *literal)
{
    size_t length = strlen(literal);
    next_token(parser);
    if ((size_t)(parser->end - parser->at) < length || memcmp(parser->at, literal, length) != 0) return false;
    parser->at += length;
    return true;
}

static bo_status take_string(bo_npy_parser *parser, char *out, size_t size)
{
    char quote = next_token(parser);
    if (quote != '\'' && quote != '"') return malformed(parser, "expected a quoted string");
    const char *text = ++parser->at;
    const char *close = memchr(text, quote, (size_t)(parser->end - text));
    if (!close) return malformed(parser, "expected a closing quote");
    size_t length = (size_t)(close - text);
    if (length >= size || memchr(text, 0, length)) return malformed(parser, "a string is too long");
    memcpy(out, text, length);
    out[length] = 0;
    parser->at = close + 1;
    return BO_OK;
}

static bo_status take_shape(bo_npy_parser *parser, bo_npy_header *header)
{
    if (!accept(parser, '(')) return malformed(parser, "expected a tuple as shape");
    while (!accept(parser, ')')) {
        char c = next_token(parser);
        uint64_t value = 0;
        if (c < '0' || c > '9') return malformed(parser, "expected integers in shape");
        for (; parser->at < parser->end && *parser->at >= '0' && *parser->at <= '9'; ++parser->at) {
            if (value > (UINT64_MAX >> 8) / 10) return malformed(parser, "a number in shape is too large");
            value = value * 10 + (uint64_t)(*parser->at - '0');
        }
        if (header->rank == BO_NPY_RANK) return malformed(parser, "shape has more than 32 dimensions");
        header->shape[header->rank++] = value;
        if (!accept(parser, ',') && next_token(parser) != ')')
            return malformed(parser, "expected ) at the end of shape");
    }
    return BO_OK;
}

static bo_status take_pair(bo_npy_parser *parser, bo_npy_header *header)
{
    char key[32];
    BO_TRY(take_string(parser, key, sizeof key));
    if (!accept(parser, ':')) return malformed(parser, "expected a value after a key");
    if (strcmp(key, "descr") == 0 && !header->has_descr) {
        header->has_descr = true;
        if (next_token(parser) == '[')
            return bo_fail(
                parser->context, BO_UNSUPPORTED,
                "%s: expected a plain array, found a structured array (records with fields); save the numbers as one "
                "plain array",
                parser->path);
        return take_string(parser, header->descr, sizeof header->descr);
    }
    if (strcmp(key, "fortran_order") == 0 && !header->has_order) {
        header->has_order = true;
        header->by_column = accept_literal(parser, "True");
        return header->by_column || accept_literal(parser, "False")
                   ? BO_OK
                   : malformed(parser, "expected True or False as fortran_order");
    }
    if (strcmp(key, "shape") == 0 && !header->has_shape) {
        header->has_shape = true;
        return take_shape(parser, header);
    }
    return malformed(parser, "expected the keys descr, fortran_order and shape, found an unknown or repeated key");
}

static bo_status parse_header(bo_npy_parser *parser, bo_npy_header *header)
{
    if (!accept(parser, '{')) return malformed(parser, "expected a dictionary");
    while (!accept(parser, '}')) {
        BO_TRY(take_pair(parser, header));
        if (!accept(parser, ',') && next_token(parser) != '}') return malformed(parser, "expected , or }");
    }
    next_token(parser);
    if (parser->at != parser->end) return malformed(parser, "expected the end of the header after the dictionary");
    if (!header->has_descr || !header->has_order || !header->has_shape)
        return malformed(parser, "descr, fortran_order or shape is missing");
    return BO_OK;
}

/* A type string: byte order, kind, bytes. */
static bo_status parse_descr(bo_npy_parser *parser, const char *descr, bo_array_layout *array)
{
    static const struct {
        const char *name;
        bo_number_type type;
        size_t item;
    } known[] = {{"f2", BO_TYPE_F16, 2}, {"f4", BO_TYPE_F32, 4}, {"f8", BO_TYPE_F64, 8}, {"i1", BO_TYPE_I8, 1},
                 {"i2", BO_TYPE_I16, 2}, {"i4", BO_TYPE_I32, 4}, {"i8", BO_TYPE_I64, 8}, {"u1", BO_TYPE_U8, 1},
                 {"u2", BO_TYPE_U16, 2}, {"u4", BO_TYPE_U32, 4}, {"u8", BO_TYPE_U64, 8}, {"b1", BO_TYPE_U8, 1}};
    const bool little_machine = __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__;
    char order = descr[0];
    if (order && strchr("<>|=", order))
        for (size_t i = 0; i < sizeof known / sizeof *known; ++i)
            if (strcmp(descr + 1, known[i].name) == 0 && (order != '|' || known[i].item == 1)) {
                array->type = known[i].type;
                array->item = known[i].item;
                array->swap =
                    known[i].item > 1 && ((order == '<' && !little_machine) || (order == '>' && little_machine));
                return BO_OK;
            }
    return bo_fail(
        parser->context, BO_UNSUPPORTED,
        "%s: expected numbers of type float16, float32, float64, integer or bool, found '%.15s'; convert them with "
        "astype(numpy.float32)",
        parser->path, descr);
}

/* *start: bytes before the dictionary; *length: bytes of the dictionary. Both are in *data. */
static bo_status find_header(bo_context *context, bo_bytes *bytes, const unsigned char **data, size_t *start,
                             size_t *length)
{
    const char *path = bo_bytes_path(bytes);
    size_t have;
    BO_TRY(bo_bytes_peek(context, bytes, 12, data, &have));
    if (have < 6 || memcmp(*data, "\x93NUMPY", 6) != 0) {
        BO_TRY(bo_foreign_refuse(context, path, *data, have, "a NumPy .npy file"));
        return bo_fail(context, BO_FORMAT,
                       "%s: expected a NumPy .npy file (it starts with \\x93NUMPY), found another format; save the "
                       "array with numpy.save",
                       path);
    }
    if (have < 12)
        return bo_fail(context, BO_FORMAT,
                       "%s: the file is truncated: expected a version and a header, found %zu bytes", path, have);
    const unsigned char *head = *data;
    unsigned major = head[6];
    if (major < 1 || major > 3)
        return bo_fail(context, BO_FORMAT, "%s: expected .npy version 1, 2 or 3, found %u", path, major);
    *start = major == 1 ? 10 : 12;
    *length = head[8] | (size_t)head[9] << 8;
    if (major > 1) *length |= (size_t)head[10] << 16 | (size_t)head[11] << 24;
    if (*length > BO_NPY_HEADER)
        return bo_fail(context, BO_FORMAT, "%s: the .npy header declares %zu bytes, more than the maximum of %d", path,
                       *length, BO_NPY_HEADER);
    BO_TRY(bo_bytes_peek(context, bytes, *start + *length, data, &have));
    if (have < *start + *length)
        return bo_fail(context, BO_FORMAT, "%s: the file is truncated: expected a header of %zu bytes, found %zu", path,
                       *start + *length, have);
    return BO_OK;
}

bo_status bo_npy_header_read(bo_context *context, bo_bytes *bytes, bo_array_layout *array, size_t *rank,
                             uint64_t shape[BO_NPY_RANK])
{
    const unsigned char *data;
    size_t start = 0, length = 0;
    BO_TRY(find_header(context, bytes, &data, &start, &length));
    const char *text = (const char *)data + start;
    bo_npy_parser parser = {context, bo_bytes_path(bytes), text, text + length};
    bo_npy_header header = {.shape = shape};
    BO_TRY(parse_header(&parser, &header));
    BO_TRY(parse_descr(&parser, header.descr, array));
    array->offset = start + length;
    array->by_column = header.by_column;
    *rank = header.rank;
    return BO_OK;
}

bo_status bo_npy_open(bo_context *context, bo_reader *reader)
{
    const char *path = bo_bytes_path(reader->bytes);
    uint64_t shape[BO_NPY_RANK], columns = 1;
    size_t rank;
    BO_TRY(bo_npy_header_read(context, reader->bytes, &reader->array, &rank, shape));
    if (rank == 0) return bo_fail(context, BO_FORMAT, "%s: expected a table, found a single number (rank 0)", path);
    for (size_t i = 1; i < rank; ++i) {
        if (shape[i] != 0 && columns > (UINT64_MAX >> 8) / shape[i])
            return bo_fail(context, BO_FORMAT, "%s: the shape in the .npy header is too large", path);
        columns *= shape[i];
    }
    if (reader->array.by_column && rank > 2)
        return bo_fail(
            context, BO_UNSUPPORTED,
            "%s: expected an array in C order, found rank %zu in Fortran order; save it with numpy.ascontiguousarray",
            path, rank);
    BO_TRY(bo_array_rows_check(context, reader, shape[0], columns));
    return bo_array_rows_start(context, reader);
}

/* ====================================================================================================================
 * Writing .npy version 1.0: the header is padded with spaces, so that the numbers start at a multiple of 64 bytes. */

static bo_status count_numbers(bo_context *context, const char *path, const bo_array *shape, size_t item, size_t *count)
{
    char text[BO_SHAPE_TEXT];
    if (shape->rank > BO_ARRAY_RANK)
        return bo_fail(context, BO_INVALID, "%s: expected an array of rank at most %d, found %zu", path, BO_ARRAY_RANK,
                       shape->rank);
    *count = 1;
    for (size_t i = 0; i < shape->rank; ++i) {
        if (shape->shape[i] && *count > SIZE_MAX / item / shape->shape[i]) {
            bo_array_format(shape, text, sizeof text);
            return bo_fail(context, BO_INVALID, "%s: an array of shape %s is too large", path, text);
        }
        *count *= shape->shape[i];
    }
    return BO_OK;
}

/* Only the members rank and shape of `shape` are used. */
static bo_status write_array(bo_context *context, bo_output *output, const bo_array *shape, const void *values,
                             size_t item)
{
    size_t count = 0;
    BO_TRY(count_numbers(context, bo_output_path(output), shape, item, &count));
    char header[BO_SHAPE_TEXT + 128], text[BO_SHAPE_TEXT];
    const char order = __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? '<' : '>';
    memset(header, ' ', sizeof header);
    bo_array_format(shape, text, sizeof text);
    int length = snprintf(header + 10, sizeof header - 10, "{'descr': '%cf%zu', 'fortran_order': False, 'shape': %s, }",
                          order, item, text);
    header[10 + length] = ' ';
    const size_t total = bo_padded_bytes((size_t)length + 10 + 1);
    memcpy(header, "\x93NUMPY\x01\x00", 8);
    header[8] = (char)((total - 10) & 255);
    header[9] = (char)((total - 10) >> 8);
    header[total - 1] = '\n';
    BO_TRY(bo_output_reserve(context, output, total + count * item));
    BO_TRY(bo_output_write(context, output, header, total));
    return bo_output_write(context, output, values, count * item);
}

/* Writes the array and closes the output. */
static bo_status save_array(bo_context *context, bo_output *output, const bo_array *shape, const void *values,
                            size_t item)
{
    return bo_output_finish(context, output, write_array(context, output, shape, values, item));
}

static bo_status save_table(bo_context *context, const char *path, size_t rows, size_t columns, const void *values,
                            size_t item)
{
    const bo_array table = {.rank = 2, .shape = (const size_t[]){rows, columns}};
    bo_output *output;
    BO_TRY(bo_output_open(context, path, &output));
    return save_array(context, output, &table, values, item);
}

bo_status bo_npy_save_f32(bo_context *context, const char *path, size_t rows, size_t columns, const float *values)
{
    BO_REQUIRE(context, path);
    BO_REQUIRE_IF(context, rows > 0 && columns > 0, values);
    return save_table(context, path, rows, columns, values, sizeof *values);
}

bo_status bo_npy_save_f64(bo_context *context, const char *path, size_t rows, size_t columns, const double *values)
{
    BO_REQUIRE(context, path);
    BO_REQUIRE_IF(context, rows > 0 && columns > 0, values);
    return save_table(context, path, rows, columns, values, sizeof *values);
}

/* False also for an array of too many dimensions, which count_numbers refuses: its shape may be shorter than its
 * rank. */
static bool has_values(const bo_array *array)
{
    if (array->rank > BO_ARRAY_RANK) return false;
    for (size_t i = 0; i < array->rank; i++)
        if (!array->shape[i]) return false;
    return true;
}

bo_status bo_array_save(bo_context *context, const bo_array *array, const bo_sink *sink)
{
    bo_sink_clear(sink);
    BO_REQUIRE(context, array, sink);
    bo_output *output;
    BO_TRY(bo_check_reserved(context, "bo_array", array->reserved));
    BO_REQUIRE_IF(context, array->rank > 0, array->shape);
    BO_REQUIRE_IF(context, has_values(array), array->values);
    BO_TRY(bo_output_open_sink(context, sink, &output));
    return save_array(context, output, array, array->values, sizeof *array->values);
}
