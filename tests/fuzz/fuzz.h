/* Shared by the fuzz targets: bytes are read twice by a reader, then by schema, JSON and stream. Any result other than
 * success or an error with a message is a crash. */
#ifndef BO_FUZZ_H
#define BO_FUZZ_H

#include "io/stream.h"
#include <bochner/data.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { FUZZ_COLUMNS = 512, FUZZ_ROWS = 64 };

static inline bo_context *fuzz_context(void)
{
    static bo_context *context;
    bo_context_desc desc = {.threads = 1};
    if (!context && bo_context_create(&desc, &context) != BO_OK) abort();
    return context;
}

/* A failure must have a message. */
static inline bool fuzz_ok(bo_context *context, bo_status status)
{
    if (status != BO_OK && !*bo_context_error(context)) abort();
    return status == BO_OK;
}

/* Sums all cells and lengths of text, so that every byte of a block is read. */
static inline bool fuzz_pass(bo_context *context, bo_reader *reader, size_t block_rows, size_t *rows,
                             size_t *text_bytes)
{
    *rows = *text_bytes = 0;
    for (;;) {
        bo_data_block block;
        double sum = 0;
        if (!fuzz_ok(context, bo_reader_next(context, reader, block_rows, &block))) return false;
        if (block.rows == 0) return true;
        if (block.first_row != *rows || block.rows > block_rows || block.columns != bo_reader_describe(reader)->columns)
            abort();
        for (size_t i = 0; i < block.rows * block.columns; ++i) {
            sum += block.cells[i];
            if (block.text && block.text[i]) *text_bytes += strlen(block.text[i]);
        }
        volatile double sink = sum;
        (void)sink;
        *rows += block.rows;
    }
}

static inline void fuzz_stream(bo_context *context, const bo_data_desc *desc, const bo_schema *schema,
                               bo_data_input *source)
{
    bo_stream *stream;
    const size_t dim = bo_schema_describe(schema)->inputs, targets = bo_schema_describe(schema)->targets;
    if (!fuzz_ok(context, bo_stream_create(context, desc, schema, source, &stream))) return;
    bo_stream_train(stream, &(bo_split_desc){.test = 0.3});
    float *x = malloc(FUZZ_ROWS * dim * sizeof *x + 1);
    double *y = malloc(FUZZ_ROWS * (targets + 1) * sizeof *y);
    size_t rows = 0, sampled;
    double *target_rows = bo_stream_has_target(stream) ? y : NULL;
    do {
        if (!fuzz_ok(context, bo_stream_next(context, stream, FUZZ_ROWS, x, target_rows, &rows))) break;
        for (size_t i = 0; i < rows * dim; ++i)
            if (!(x[i] - x[i] == 0)) abort(); /* only finite numbers are accepted */
    } while (rows > 0);
    fuzz_ok(context, bo_stream_sample(context, stream, FUZZ_ROWS / 2, 1, x, target_rows, NULL, &sampled));
    bo_stream_close(stream);
    free(x);
    free(y);
}

/* Written data can be read, and is written again as the same bytes. */
static inline bo_schema *fuzz_copy(bo_context *context, const bo_schema *schema,
                                   bo_status (*save)(bo_context *, const bo_schema *, const bo_sink *))
{
    bo_schema *copy;
    void *json, *again;
    size_t size, size_again;
    if (!fuzz_ok(context, save(context, schema, &(bo_sink){.bytes = &json, .size = &size}))) abort();
    if (!fuzz_ok(context, bo_schema_load(context, &(bo_source){.bytes = json, .size = size}, &copy))) abort();
    if (!fuzz_ok(context, save(context, copy, &(bo_sink){.bytes = &again, .size = &size_again}))) abort();
    if (size != size_again || memcmp(json, again, size) != 0) abort();
    bo_free(json);
    bo_free(again);
    return copy;
}

static inline void fuzz_schema(bo_context *context, bo_reader *reader, unsigned choices)
{
    const bo_data_desc desc = {.path = "fuzz",
                               .categorical = choices & 1   ? "none"
                                              : choices & 2 ? "0"
                                                            : NULL,
                               .impute = (bo_impute)(choices >> 2 & 3),
                               .target = choices & 16 ? "0" : NULL,
                               .no_target = (choices & 96) == 96,
                               .weights = (choices & 96) == 32 ? "1" : NULL,
                               .group = (choices & 96) == 64 ? "1" : NULL,
                               .keep_unlabeled = choices & 128};
    const bo_split_desc split = {.test = 0.3};
    bo_data_input source = {reader, NULL};
    bo_schema *schema;
    if (!fuzz_ok(context, bo_schema_fit_source(context, &desc, &source, &split, &schema))) {
        bo_data_input_close(&source);
        return;
    }
    bo_schema_destroy(fuzz_copy(context, schema, bo_schema_save));
    bo_schema *copy = fuzz_copy(context, schema, bo_schema_share);
    if (!fuzz_ok(context, bo_data_input_rewind(context, &source)))
        bo_data_input_close(&source);
    else
        fuzz_stream(context, &desc, copy, &source);
    bo_schema_destroy(schema);
    bo_schema_destroy(copy);
}

static inline int fuzz_table(const uint8_t *data, size_t size, bo_format format)
{
    bo_context *context = fuzz_context();
    bo_bytes *bytes;
    bo_reader *reader;
    if (!fuzz_ok(context, bo_bytes_open_memory(context, "fuzz", data, size, &bytes))) return 0;
    if (!fuzz_ok(context, bo_reader_open_bytes(context, bytes, format, 0, &reader))) return 0;
    size_t rows, text_bytes, rows_again, text_bytes_again;
    const bool narrow = bo_reader_describe(reader)->columns <= FUZZ_COLUMNS;
    if (narrow && fuzz_pass(context, reader, 7, &rows, &text_bytes)) {
        if (!fuzz_ok(context, bo_reader_rewind(context, reader))) abort();
        if (!fuzz_pass(context, reader, 1000, &rows_again, &text_bytes_again)) abort();
        if (rows != rows_again || text_bytes != text_bytes_again) abort();
    }
    if (narrow && fuzz_ok(context, bo_reader_rewind(context, reader)))
        fuzz_schema(context, reader, size ? data[size / 2] : 0);
    else
        bo_reader_close(reader);
    return 0;
}

#endif
