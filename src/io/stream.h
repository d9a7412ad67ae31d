/* Internals of a stream: rows of a source, converted with a schema. */
#ifndef BO_IO_STREAM_H
#define BO_IO_STREAM_H

#include "schema.h"
#include "sparse.h"

/* A run of adjacent columns of the file that are adjacent inputs. */
typedef struct bo_stream_run {
    size_t from, to, count;
} bo_stream_run;

struct bo_stream {
    bo_schema *schema;
    bo_source source;
    size_t *input_columns;  /* file column of each column of the schema; SIZE_MAX: none (target, unused) */
    size_t *target_columns; /* of the data or the labels file; NULL: no targets */
    bool one_hot, parted;
    bo_stream_run *runs; /* fast path: binary file, numbers only */
    size_t run_count;
    size_t part, parts, first, last; /* rows [first, last) of a seekable file; otherwise every parts-th block */
    size_t unseen;                   /* values of unknown categories */
    size_t vanished;                 /* numbers that float32 rounds to 0 */
    bo_sparse_block *block;          /* the rows of the last bo_stream_next_sparse; NULL: none yet */
};

/* Takes ownership of `source`, even if it fails; the source must be at its start. */
bo_status bo_stream_create(bo_context *context, const bo_data_desc *desc, const bo_schema *schema, bo_source *source,
                           bo_stream **out);
/* Appends up to max_rows sparse rows to `block`; like bo_stream_next. */
bo_status bo_stream_append_sparse(bo_context *context, bo_stream *stream, size_t max_rows, bo_sparse_block *block,
                                  double *y, size_t *rows);
bool bo_stream_has_target(const bo_stream *stream);
const bo_source *bo_stream_source(const bo_stream *stream);

#endif
