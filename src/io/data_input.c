/* The files of a table, and the lookup of columns by name or number. */
#include "schema.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A file, or its contents in memory with an optional name. */
typedef struct input {
    const char *path;
    const void *bytes;
    size_t size;
} input;

static bo_status open_reader(bo_context *context, const input *from, bo_format format, size_t min_columns, bool spool,
                             bo_reader **out)
{
    bo_bytes *bytes;
    BO_TRY(from->bytes
               ? bo_bytes_open_memory(context, from->path ? from->path : "memory", from->bytes, from->size, &bytes)
               : bo_bytes_open(context, from->path, &bo_limits_table, spool, &bytes));
    return bo_reader_open_bytes(context, bytes, format, min_columns, out);
}

static bool is_standard_input(const input *from)
{
    return !from->bytes && from->path && strcmp(from->path, "-") == 0;
}

bool bo_data_is_standard_input(const bo_data_desc *desc)
{
    const input table = {.path = desc->path, .bytes = desc->bytes},
                labels = {.path = desc->labels, .bytes = desc->label_bytes};
    return is_standard_input(&table) || is_standard_input(&labels);
}

const char *bo_data_name(const bo_data_desc *desc)
{
    return desc->path ? desc->path : desc->bytes ? "memory" : "";
}

bo_status bo_data_input_open(bo_context *context, const bo_data_desc *desc, size_t min_columns, bool spool,
                             bo_data_input *out)
{
    *out = (bo_data_input){0};
    if (!desc || (!desc->path && !desc->bytes))
        return bo_fail(context, BO_INVALID, "expected the name of a data file, found none");
    BO_TRY(bo_check_reserved(context, "bo_data_desc", desc->reserved));
    if ((unsigned)desc->format > BO_FORMAT_SPACED || (unsigned)desc->task > BO_TASK_CLASSIFICATION ||
        (unsigned)desc->impute > BO_IMPUTE_MEDIAN)
        return bo_fail(context, BO_INVALID, "bo_data_desc: expected known values for format, task and impute");
    const input table = {desc->path, desc->bytes, desc->size},
                labels = {desc->labels, desc->label_bytes, desc->label_size};
    const bool labeled = (labels.path || labels.bytes) && !desc->no_target;
    if (labeled && is_standard_input(&table) && is_standard_input(&labels))
        return bo_fail(context, BO_INVALID,
                       "data and labels cannot both be read from standard input; use a file for one of them");
    BO_TRY(open_reader(context, &table, desc->format, min_columns, spool, &out->data));
    bo_status status = labeled ? open_reader(context, &labels, BO_FORMAT_AUTO, 0, spool, &out->labels) : BO_OK;
    size_t rows, given;
    if (status == BO_OK && labeled && bo_reader_rows(out->data, &rows) && bo_reader_rows(out->labels, &given) &&
        rows != given)
        status = bo_fail(context, BO_FORMAT, "%s: expected %zu labels, one per row of %s, found %zu",
                         bo_reader_path(out->labels), rows, bo_reader_path(out->data), given);
    if (status != BO_OK) bo_data_input_close(out);
    return status;
}

void bo_data_input_close(bo_data_input *source)
{
    bo_reader_close(source->data);
    bo_reader_close(source->labels);
    *source = (bo_data_input){0};
}

bo_status bo_data_input_rewind(bo_context *context, bo_data_input *source)
{
    BO_TRY(bo_reader_rewind(context, source->data));
    return source->labels ? bo_reader_rewind(context, source->labels) : BO_OK;
}

/* ---- columns by name or number ----------------------------------------------------------------------------------- */

static size_t find_name(const bo_reader *reader, const char *text, size_t length)
{
    const size_t named = reader->names ? reader->columns : 1; /* in libsvm text only the label has a name */
    for (size_t i = 0; i < named; ++i) {
        const char *name = bo_reader_column(reader, i);
        if (name && strlen(name) == length && memcmp(name, text, length) == 0) return i;
    }
    return SIZE_MAX;
}

static size_t find_number(const bo_reader *reader, const char *text, size_t length)
{
    char copy[24], *stop;
    if (length == 0 || length >= sizeof copy || !strchr("-0123456789", *text)) return SIZE_MAX;
    memcpy(copy, text, length);
    copy[length] = 0;
    long long index = strtoll(copy, &stop, 10);
    if (*stop || stop == copy) return SIZE_MAX;
    if (index < 0) index += (long long)reader->columns;
    return index >= 0 && (unsigned long long)index < reader->columns ? (size_t)index : SIZE_MAX;
}

static bo_status no_column(bo_context *context, const bo_reader *reader, const char *what, const char *text,
                           size_t length)
{
    char known[400] = "";
    size_t used = 0;
    for (size_t i = 0; reader->names && i < reader->columns; ++i) {
        int n = snprintf(known + used, sizeof known - used, "%s%.60s", i ? ", " : ": ", reader->names[i]);
        used += (size_t)n;
        if (used > sizeof known - 70) {
            snprintf(known + used, sizeof known - used, ", …");
            break;
        }
    }
    return bo_fail(context, BO_INVALID, "%s: no column '%.*s' for %s; the file has %zu column%s%s%s",
                   bo_reader_path(reader), (int)(length < 80 ? length : 80), text, what, reader->columns,
                   reader->columns == 1 ? "" : "s", reader->names ? "" : " without names; use an index from 0", known);
}

bo_status bo_columns_resolve(bo_context *context, const bo_reader *reader, const char *list, const char *what,
                             size_t **out, size_t *count)
{
    size_t max_columns = 1, whole = find_name(reader, list, strlen(list));
    for (const char *p = list; *p; ++p) max_columns += *p == ',';
    size_t *columns = bo_alloc(context, max_columns, sizeof *columns, "a list of columns");
    if (!columns) return BO_MEMORY;
    *count = 0;
    if (whole != SIZE_MAX) columns[(*count)++] = whole; /* a name may contain a comma */
    const char *at = list;
    while (whole == SIZE_MAX) {
        const char *comma = strchr(at, ','), *end = comma ? comma : at + strlen(at), *start = at;
        while (start < end && *start == ' ') ++start;
        while (start < end && end[-1] == ' ') --end;
        size_t length = (size_t)(end - start), found = find_name(reader, start, length);
        if (found == SIZE_MAX) found = find_number(reader, start, length);
        bo_status status = found == SIZE_MAX ? no_column(context, reader, what, start, length) : BO_OK;
        for (size_t i = 0; i < *count && status == BO_OK; ++i)
            if (columns[i] == found)
                status = bo_fail(context, BO_INVALID, "%s: column '%.*s' is named twice for %s", bo_reader_path(reader),
                                 (int)(length < 80 ? length : 80), start, what);
        if (status != BO_OK) {
            bo_free(columns);
            return status;
        }
        columns[(*count)++] = found;
        if (!comma) break;
        at = comma + 1;
    }
    *out = columns;
    return BO_OK;
}
