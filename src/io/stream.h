/* Internals of a stream: rows of a source, converted with a schema. match.c finds the columns of the schema in the
 * file, convert.c converts rows, stream_sample.c draws a sample. */
#ifndef BO_IO_STREAM_H
#define BO_IO_STREAM_H

#include "schema.h"
#include "sparse.h"

/* A run of adjacent columns of the file that are adjacent inputs. */
typedef struct bo_stream_run {
    size_t from, to, count;
} bo_stream_run;

/* The row number in the file, the weight and the group of each row of the last read; capacity: `capacity` rows. */
typedef struct bo_row_notes {
    size_t *row;
    float *weight;
    uint64_t *group;
    size_t capacity;
} bo_row_notes;

typedef struct bo_stream bo_stream;
struct bo_stream {
    bo_schema *schema;
    bo_data_input source;
    size_t *input_columns;              /* file column of each column of the schema; SIZE_MAX: none (target, unused) */
    size_t *target_columns;             /* of the data or the labels file; NULL: no targets */
    size_t weight_column, group_column; /* SIZE_MAX: none */
    bool plain;                         /* every input is a number */
    bool encodes;                       /* some inputs are 0 unless a cell sets them */
    bool coded;                         /* some columns are target-encoded */
    bool noted;                         /* the notes are kept */
    bool parted, keep_unlabeled;
    bool silent;         /* without warnings */
    bool training;       /* the schema was fitted on these rows, with this split */
    bo_split_desc split; /* zero: all rows are for training */
    uint64_t next_kept;  /* index of the next row among those with a target */
    bo_row_notes notes;
    bo_stream_run *runs; /* fast path: binary file, numbers only */
    size_t run_count;
    size_t *shifted; /* libsvm text: columns that have an origin, ascending */
    size_t shifted_count;
    size_t part, parts, first, last; /* rows [first, last) of a seekable file; otherwise every parts-th block */
    size_t unseen;                   /* values of unknown categories */
    size_t dated, undated;           /* cells of date columns, and invalid dates */
    char first_undated[BO_PLACE_TEXT + 128];
    size_t vanished;        /* numbers that float32 rounds to 0 */
    size_t unlabeled;       /* omitted rows without a target */
    bo_sparse_block *block; /* the rows of the last bo_stream_next_sparse; NULL: none yet */
};

/* A file that is read block by block, in constant memory. `bytes` of the descriptor must outlive the stream. */
bo_status bo_stream_open(bo_context *context, const bo_data_desc *desc, const bo_schema *schema, bo_stream **out);
void bo_stream_close(bo_stream *stream); /* accepts NULL */
/* The next rows; none: the end. `y` may be NULL, and must be without a target. */
bo_status bo_stream_next(bo_context *context, bo_stream *stream, size_t max_rows, float *x, double *y, size_t *rows);
/* The same as sparse rows, owned by the stream and valid until the next call. BO_UNSUPPORTED unless
 * bo_stream_is_sparse. */
bo_status bo_stream_next_sparse(bo_context *context, bo_stream *stream, size_t max_rows, bo_sparse *x, double *y);
bool bo_stream_is_sparse(const bo_stream *stream);
/* The weights of the rows of the last read; NULL: none. */
const float *bo_stream_weights(const bo_stream *stream);
bo_status bo_stream_rewind(bo_context *context, bo_stream *stream);
/* Draws a uniform random sample of at most `rows` rows of the file. Seeks if the format allows it; otherwise reads the
 * whole file once (reservoir sampling). Afterwards the stream is at its first row. y and weights may be NULL. */
bo_status bo_stream_sample(bo_context *context, bo_stream *stream, size_t rows, uint64_t seed, float *x, double *y,
                           float *weights, size_t *sampled);
/* Restricts a stream that was not read yet to one part of the file: a contiguous range of rows if the format allows
 * seeking, otherwise every parts-th block. */
bo_status bo_stream_restrict(bo_context *context, bo_stream *stream, size_t index, size_t parts);

/* Takes ownership of `source`, even if it fails; the source must be at its start. */
bo_status bo_stream_create(bo_context *context, const bo_data_desc *desc, const bo_schema *schema,
                           bo_data_input *source, bo_stream **out);
/* The schema was fitted on these rows: target-encoded columns have the codes for training rows, except in the held-out
 * rows of `split` (NULL: no row is held out). */
void bo_stream_train(bo_stream *stream, const bo_split_desc *split);
/* The groups of the rows of the last read; NULL: none. */
const uint64_t *bo_stream_groups(const bo_stream *stream);
/* Like bo_stream_next, but ends after the rows of one read: rows without a target are not replaced by later rows. */
bo_status bo_stream_next_few(bo_context *context, bo_stream *stream, size_t max_rows, float *x, double *y,
                             size_t *rows);

/* Finds the columns of the schema in the files. */
bo_status bo_stream_match(bo_context *context, bo_stream *stream, bool no_target);
/* Converts the next rows of the data file; `at` is the place of the first one in the notes. */
bo_status bo_stream_next_cells(bo_context *context, bo_stream *stream, size_t max_rows, size_t at, float *x, double *y,
                               size_t *rows);
bo_status bo_stream_next_items(bo_context *context, bo_stream *stream, size_t max_rows, bo_sparse_block *block,
                               double *y, size_t *rows);
bo_status bo_stream_next_array(bo_context *context, bo_stream *stream, size_t max_rows, float *x, double *y,
                               size_t *rows);
/* Converts the targets of a block of the data file or of the file with the labels. */
bo_status bo_stream_put_targets(bo_context *context, const bo_stream *stream, const bo_reader *reader,
                                const bo_data_block *block, double *y);

/* Appends up to max_rows sparse rows to `block`; like bo_stream_next. */
bo_status bo_stream_append_sparse(bo_context *context, bo_stream *stream, size_t max_rows, bo_sparse_block *block,
                                  double *y, size_t *rows);
bool bo_stream_has_target(const bo_stream *stream);
const bo_data_input *bo_stream_source(const bo_stream *stream);

#endif
