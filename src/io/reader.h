/* Inside of a reader. reader.c opens and dispatches; detect.c decides the format; text.c cuts records and keeps strings;
 * delimited.c, libsvm.c parse them; npy.c, idx.c read headers of arrays, array.c their rows or a whole one. */
#ifndef BO_IO_READER_H
#define BO_IO_READER_H

#include <bochner/data.h>
#include "bytes.h"
#include "numbers.h"

enum {
    BO_MAX_COLUMNS = 1 << 22,  /* a wider table is a damaged or hostile file */
    BO_MAX_RECORD = 1 << 28,   /* bytes of one line of text */
    BO_BLOCK_CELLS = 1 << 17,  /* cells of one block of bo_reader_next: stays in cache */
    BO_RAW_BLOCK = 1 << 20,    /* bytes of one block of bo_reader_next_raw */
    BO_SAMPLE_BYTES = 1 << 16, /* what detection looks at, at first */
    BO_SAMPLE_MOST = 1 << 24,  /* and at most, when lines are very long */
    BO_SAMPLE_RECORDS = 50
};

typedef enum bo_number_type {
    BO_TYPE_F16,
    BO_TYPE_F32,
    BO_TYPE_F64,
    BO_TYPE_I8,
    BO_TYPE_I16,
    BO_TYPE_I32,
    BO_TYPE_I64,
    BO_TYPE_U8, /* also bool */
    BO_TYPE_U16,
    BO_TYPE_U32,
    BO_TYPE_U64
} bo_number_type;

/* How the cells of a binary file lie: rows x columns items from `offset`, row after row, or column after column. */
typedef struct bo_array_layout {
    bo_number_type type;
    size_t item;
    bool swap;      /* the other byte order than this machine's */
    bool by_column; /* Fortran order */
    uint64_t offset;
} bo_array_layout;

/* Strings of a block: pieces that never move, dropped together. */
typedef struct bo_strings {
    struct bo_strings_piece *first, *current;
} bo_strings;

/* The text not yet parsed: [begin, end) of buffer; `line` is the number of the line at begin, from 1. */
typedef struct bo_records {
    char *buffer;
    size_t begin, end, capacity;
    size_t line;
    bool ended;
} bo_records;

struct bo_reader {
    bo_bytes *bytes;
    bo_format format;
    size_t columns;
    char **names; /* NULL: no header */
    bool rows_known;
    size_t rows;     /* when known */
    size_t next_row; /* index of the row that comes next */

    double *cells;
    size_t cell_capacity;
    const char **text; /* from the first text cell of the block on; [0, text_used) is set */
    size_t text_capacity, text_used;
    bool block_has_text;
    size_t *lines;
    size_t line_capacity;

    char delimiter; /* CSV: , ; or tab; ' ' for blanks */
    bo_records records;
    bo_strings strings;

    bo_array_layout array;
    unsigned char *raw, *raw_columns;
    size_t raw_capacity, raw_columns_capacity;
};

/* Like bo_reader_open, of bytes that are already open; takes them over, also when it fails. */
bo_status bo_reader_open_bytes(bo_context *context, bo_bytes *bytes, bo_format format, size_t min_columns,
                               bo_reader **out);
/* Passes over rows without looking at their cells. Fewer only at the end. */
bo_status bo_reader_skip(bo_context *context, bo_reader *reader, size_t rows, size_t *skipped);
/* What was taken as a header is the first row after all; rewinds. */
bo_status bo_reader_drop_header(bo_context *context, bo_reader *reader);
/* How far it is, in rows of an array and in bytes of a text (*total 0: unknown). */
double bo_reader_progress(const bo_reader *reader, double *total);
bool bo_reader_seekable(const bo_reader *reader);
/* "column 'price'", or "column 3" without names. */
enum { BO_COLUMN_TEXT = 160 };
const char *bo_reader_column_label(const bo_reader *reader, size_t column, char out[BO_COLUMN_TEXT]);

/* ---- arrays (npy, IDX) --------------------------------------------------------------------------------- */

static inline bool bo_reader_is_array(const bo_reader *reader)
{
    return reader->format == BO_FORMAT_NPY || reader->format == BO_FORMAT_IDX;
}
bo_status bo_npy_open(bo_context *context, bo_reader *reader);
bo_status bo_idx_open(bo_context *context, bo_reader *reader);
/* After a header was read: rows x columns are plausible and the file holds them. */
bo_status bo_array_rows_check(bo_context *context, bo_reader *reader, uint64_t rows, uint64_t columns);
/* Passes over the header, which was only looked at so far. */
bo_status bo_array_rows_start(bo_context *context, bo_reader *reader);
bo_status bo_array_rows_rewind(bo_context *context, bo_reader *reader);
bo_status bo_array_rows_skip(bo_context *context, bo_reader *reader, size_t rows);
/* Rows as they lie in the file: *raw has *rows x columns items. The hot path of streams. */
bo_status bo_reader_next_raw(bo_context *context, bo_reader *reader, size_t max_rows, const unsigned char **raw,
                             size_t *rows);

/* ---- arrays, whatever reads them ------------------------------------------------------------------------ */

/* The most dimensions of a .npy header and of a bo_array, and room for what bo_array_format writes of the latter. */
enum { BO_NPY_RANK = 32, BO_ARRAY_RANK = 8, BO_SHAPE_TEXT = 192, BO_PROMISE_TEXT = 256 };
/* The header of a .npy file, looked at and not consumed: how the numbers lie, and the shape as it says. */
bo_status bo_npy_header_read(bo_context *context, bo_bytes *bytes, bo_array_layout *array, size_t *rank,
                             uint64_t shape[BO_NPY_RANK]);
/* Like bo_array_load, of bytes that are already open; takes them over, also when it fails. */
bo_status bo_array_load_bytes(bo_context *context, bo_bytes *bytes, bo_array **out);
void bo_convert_f64(const bo_array_layout *array, const unsigned char *raw, size_t count, double *out);
void bo_convert_f32(const bo_array_layout *array, const unsigned char *raw, size_t count, float *out);

/* ---- text ---------------------------------------------------------------------------------------------- */

/* What detection found. */
typedef struct bo_text_form {
    bo_format format;
    char delimiter;
    bool header;
} bo_text_form;

bo_status bo_detect(bo_context *context, bo_bytes *bytes, bo_format wanted, bo_text_form *form);

typedef enum bo_record_end { BO_RECORD_FOUND, BO_RECORD_MORE, BO_RECORD_OPEN_QUOTE } bo_record_end;
/* Where the record that starts at `text` ends (at its newline); quotes count when delimiter is not 0 or ' '. */
bo_record_end bo_record_find(const char *text, const char *end, char delimiter, const char **stop);
/* The next record that is not blank, without its line ending; *text NULL at the end. */
bo_status bo_records_next(bo_context *context, bo_reader *reader, const char **text, const char **end, size_t *line);
bo_status bo_records_rewind(bo_context *context, bo_reader *reader);

/* A copy in UTF-8 that lives until bo_strings_clear; what is not UTF-8 is taken as Latin-1. NULL: out of memory. */
char *bo_strings_add(bo_context *context, bo_strings *strings, const char *text, size_t length);
void bo_strings_clear(bo_strings *strings);
void bo_strings_free(bo_strings *strings);

/* One field of a delimited record. Moves *at behind the field and its delimiter; *last: no more follow. A quoted field
 * with doubled quotes is copied to `strings`. Fails when text follows a closing quote. */
typedef struct bo_reader_field {
    const char *text, *end;
    bool quoted;
} bo_reader_field;
bool bo_field_next(char delimiter, const char **at, const char *end, bo_reader_field *field, bool *last);

bo_status bo_delimited_open(bo_context *context, bo_reader *reader, const bo_text_form *form);
bo_status bo_delimited_row(bo_context *context, bo_reader *reader, const char *text, const char *end, size_t line,
                           size_t row);
/* As many strings as cells; those of cells without text are NULL. */
bo_status bo_text_room(bo_context *context, bo_reader *reader);
bo_status bo_libsvm_open(bo_context *context, bo_reader *reader, size_t min_columns);
bo_status bo_libsvm_row(bo_context *context, bo_reader *reader, const char *text, const char *end, size_t line,
                        double *cells, size_t *widest);

#endif
