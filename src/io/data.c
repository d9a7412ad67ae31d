/* A whole table in memory: a stream read to its end. */
#include "enums.h"
#include "../base/trace.h"
#include "stream.h"

#include <stdio.h>
#include <string.h>

/* Names in command lines and schemas. */
static const char *const format_names[] = {"auto", "csv", "npy", "libsvm", "idx", "spaced"};
static const char *const task_names[] = {"auto", "regression", "classification"};
static const char *const impute_names[] = {"auto", "none", "mean", "median"};

BO_NAMED(format, bo_format, format_names)
BO_NAMED(task, bo_task, task_names)
BO_NAMED(impute, bo_impute, impute_names)

enum { BO_LOAD_ROWS = BO_SIZE(4096, 2) };

void bo_data_destroy(bo_data *data)
{
    if (!data) return;
    bo_free(data->x);
    bo_sparse_destroy(data->sparse);
    bo_free(data->y);
    bo_free(data->weights);
    bo_free(data->groups);
    bo_schema_destroy(data->schema);
    bo_free(data);
}

/* Refuses a table that does not fit into memory. The limits are not queried for small tables. */
static bo_status check_size(bo_context *context, size_t rows, size_t dim)
{
    enum { SMALL = 1 << 24 };
    const double bytes = (double)rows * (double)dim * sizeof(float);
    char what[96];
    if (bytes < SMALL) return BO_OK;
    snprintf(what, sizeof what, "a table of %zu rows x %zu columns", rows, dim);
    return bo_check_memory(context, what, bytes, bo_process_memory(), "read it as a stream (--stream)");
}

/* Grows the table to a capacity of `rows` rows and keeps the existing rows. */
static bo_status reserve_rows(bo_context *context, bo_data *data, const bo_stream *stream, size_t rows)
{
    if (data->dim && rows > SIZE_MAX / sizeof(double) / data->dim)
        return bo_fail(context, BO_MEMORY, "out of memory: %zu rows x %zu columns", rows, data->dim);
    BO_TRY(check_size(context, rows, data->dim));
    float *x = bo_realloc(context, data->x, rows * data->dim, sizeof *x, "the data");
    if (!x) return BO_MEMORY;
    data->x = x;
    if (stream->weight_column != SIZE_MAX) {
        float *weights = bo_realloc(context, data->weights, rows, sizeof *weights, "the weights");
        if (!weights) return BO_MEMORY;
        data->weights = weights;
    }
    if (stream->group_column != SIZE_MAX) {
        uint64_t *groups = bo_realloc(context, data->groups, rows, sizeof *groups, "the groups");
        if (!groups) return BO_MEMORY;
        data->groups = groups;
    }
    if (data->targets == 0) return BO_OK;
    double *y = bo_realloc(context, data->y, rows * data->targets, sizeof *y, "the targets");
    if (!y) return BO_MEMORY;
    data->y = y;
    return BO_OK;
}

/* Counts rows that were read, with their weights and groups. */
static void add_rows(bo_data *data, const bo_stream *stream, size_t rows)
{
    if (data->weights) memcpy(data->weights + data->rows, stream->notes.weight, rows * sizeof *data->weights);
    if (data->groups) memcpy(data->groups + data->rows, stream->notes.group, rows * sizeof *data->groups);
    data->rows += rows;
}

/* The table is full: reads one more row, if any, through a separate buffer, then grows. */
static bo_status read_one_more(bo_context *context, bo_data *data, bo_stream *stream, size_t *capacity)
{
    float *x = bo_alloc_raw(context, data->dim, sizeof *x, "a row");
    double *y = bo_alloc_raw(context, data->targets, sizeof *y, "a row");
    size_t got = 0;
    bo_status status = x && y ? bo_stream_next(context, stream, 1, x, data->y ? y : NULL, &got) : BO_MEMORY;
    if (status == BO_OK && got && *capacity > SIZE_MAX / 4)
        status = bo_fail(context, BO_MEMORY, "out of memory: the table has too many rows");
    if (status == BO_OK && got) status = reserve_rows(context, data, stream, *capacity *= 2);
    if (status == BO_OK && got) {
        memcpy(data->x + data->rows * data->dim, x, data->dim * sizeof *x);
        if (data->y) memcpy(data->y + data->rows * data->targets, y, data->targets * sizeof *y);
        add_rows(data, stream, 1);
    }
    bo_free(x);
    bo_free(y);
    return status;
}

static bo_status read_all(bo_context *context, bo_data *data, bo_stream *stream, size_t expected)
{
    const bo_reader *reader = bo_stream_source(stream)->data;
    size_t capacity = expected ? expected : BO_LOAD_ROWS;
    BO_TRY(reserve_rows(context, data, stream, capacity));
    for (;;) {
        const size_t left = capacity - data->rows, count = left < BO_LOAD_ROWS ? left : BO_LOAD_ROWS;
        size_t got;
        double total, done = bo_reader_progress(reader, &total);
        BO_TRY(bo_progress(context, "loading", done, total));
        if (count == 0) {
            const size_t before = data->rows;
            BO_TRY(read_one_more(context, data, stream, &capacity));
            if (data->rows == before) break;
            continue;
        }
        BO_TRY(bo_stream_next(context, stream, count, data->x + data->rows * data->dim,
                              data->y ? data->y + data->rows * data->targets : NULL, &got));
        add_rows(data, stream, got);
        if (got < count) break;
    }
    if (data->rows == 0) return bo_fail(context, BO_FORMAT, "%s: expected rows, found none", bo_reader_path(reader));
    return BO_OK;
}

/* Reads all rows as sparse rows. */
static bo_status read_sparse(bo_context *context, bo_data *data, bo_stream *stream)
{
    const bo_reader *reader = bo_stream_source(stream)->data;
    bo_sparse_block *block;
    size_t capacity = 0, got = BO_LOAD_ROWS;
    BO_TRY(bo_sparse_create(context, data->dim, &block));
    data->sparse = &block->rows;
    for (; got > 0; data->rows += got) {
        double total, done = bo_reader_progress(reader, &total);
        BO_TRY(bo_progress(context, "loading", done, total));
        if (data->targets && data->rows + BO_LOAD_ROWS > capacity) {
            capacity = 2 * capacity + BO_LOAD_ROWS;
            double *y = bo_realloc(context, data->y, capacity * data->targets, sizeof *y, "the targets");
            if (!y) return BO_MEMORY;
            data->y = y;
        }
        BO_TRY(bo_stream_append_sparse(context, stream, BO_LOAD_ROWS, block,
                                       data->y ? data->y + data->rows * data->targets : NULL, &got));
    }
    if (data->rows == 0) return bo_fail(context, BO_FORMAT, "%s: expected rows, found none", bo_reader_path(reader));
    return BO_OK;
}

/* True if sparse rows take less memory: fewer than a quarter of the counted numbers are stored. */
static bool is_worthwhile(const bo_schema *schema)
{
    return 4.0 * (double)schema->numbers < (double)schema->rows * (double)schema->dim;
}

static bo_status load(bo_context *context, const bo_data_desc *desc, const bo_schema *schema,
                      const bo_split_desc *split, bo_data *data)
{
    bo_data_input source;
    bo_stream *stream;
    BO_TRY(bo_data_input_open(context, desc, schema ? schema->column_count : 0, !schema, &source));
    bo_status status = BO_OK;
    if (schema) {
        data->schema = bo_schema_retain(schema);
    } else {
        status = bo_schema_fit_source(context, desc, &source, split, &data->schema);
        if (status == BO_OK) status = bo_data_input_rewind(context, &source);
    }
    if (status != BO_OK) {
        bo_data_input_close(&source);
        return status;
    }
    size_t expected = schema ? 0 : data->schema->rows, known;
    if (bo_reader_rows(source.data, &known) && bo_bytes_bound(source.data->bytes) != UINT64_MAX) expected = known;
    BO_TRY(bo_stream_create(context, desc, data->schema, &source, &stream));
    if (!schema) bo_stream_train(stream, split);
    data->dim = data->schema->dim;
    data->targets = bo_stream_has_target(stream) ? data->schema->targets : 0;
    data->classes = bo_schema_classes(data->schema);
    const bool sparse = desc->sparse && bo_stream_is_sparse(stream) && (schema || is_worthwhile(data->schema));
    status = sparse ? read_sparse(context, data, stream) : read_all(context, data, stream, expected);
    bo_stream_close(stream);
    return status;
}

bo_status bo_data_load_split(bo_context *context, const bo_data_desc *desc, const bo_schema *schema,
                             const bo_split_desc *split, bo_data **out)
{
    BO_SPAN(context, "data", "load table");
    bo_data *data = bo_alloc(context, 1, sizeof *data, "a table");
    if (!data) return BO_MEMORY;
    bo_status status = load(context, desc, schema, split, data);
    if (status != BO_OK)
        bo_data_destroy(data);
    else
        *out = data;
    return status;
}

bo_status bo_data_load(bo_context *context, const bo_data_desc *desc, const bo_schema *schema, bo_data **out)
{
    if (out) *out = NULL;
    BO_REQUIRE(context, desc, out);
    return bo_data_load_split(context, desc, schema, NULL, out);
}
