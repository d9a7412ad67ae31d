/* Internals of a reader. reader.c opens and dispatches; detect.c detects the format; text.c splits records and stores
 * strings; delimited.c and libsvm.c parse records; npy.c and idx.c read headers of arrays; array.c reads rows of arrays
 * and whole arrays; foreign.c identifies formats that are not supported. */
#ifndef BO_IO_READER_H
#define BO_IO_READER_H

#include <bochner/data.h>
#include "bytes.h"
#include "numbers.h"

enum {
    BO_MAX_COLUMNS = 1 << 22,      /* a wider table is considered damaged */
    BO_MAX_RECORD = 1 << 28,       /* bytes of one line of text */
    BO_MAX_NAME = 4096,            /* bytes of the name of a column, which is repeated for each of its categories */
    BO_BLOCK_CELLS = 1 << 17,      /* cells of one block of bo_reader_next: stays in cache */
    BO_RAW_BLOCK = 1 << 20,        /* bytes of one block of bo_reader_next_raw */
    BO_SAMPLE_BYTES = 1 << 16,     /* initial size of the sample that detection examines */
    BO_MAX_SAMPLE_BYTES = 1 << 24, /* maximum size, for very long lines */
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

/* The layout of a binary file: rows x columns items from `offset`, in row or column order. */
typedef struct bo_array_layout {
    bo_number_type type;
    size_t item;
    bool swap;      /* not the byte order of this host */
    bool by_column; /* Fortran order */
    uint64_t offset;
} bo_array_layout;

/* Strings of a block, in pieces that do not move and are cleared together. */
typedef struct bo_strings {
    struct bo_strings_piece *first, *current;
} bo_strings;

/* The unparsed text: [begin, end) of buffer; `line` is the number of the line at begin, from 1. */
typedef struct bo_records {
    char *buffer;
    size_t begin, end, capacity;
    size_t line;
    bool ended;
} bo_records;

/* A row of libsvm text: its label and pairs. */
typedef struct bo_libsvm_items {
    double label;
    size_t count, capacity;
    uint32_t *column; /* indices, which are columns of the file */
    double *value;
} bo_libsvm_items;

struct bo_reader {
    bo_reader_info info; /* when the reader was opened */
    bo_bytes *bytes;
    bo_format format;
    size_t columns;
    char **names;  /* NULL: no header */
    bool *unnamed; /* with names: the header has no name for this column; its number is used */
    bool rows_known;
    size_t rows;     /* when known */
    size_t next_row; /* index of the next row */

    double *cells;
    size_t cell_capacity;
    const char **text; /* set if the block has a text cell; [0, text_used) is valid */
    size_t text_capacity, text_used;
    bool block_has_text;
    size_t *lines;
    size_t line_capacity;

    char delimiter; /* CSV: comma, semicolon, tab or vertical bar; ' ': whitespace */
    bo_number_form number_form;
    bo_records records;
    bo_strings strings;
    bo_libsvm_items items;

    bo_array_layout array;
    unsigned char *raw, *raw_columns;
    size_t raw_capacity, raw_columns_capacity;
};

const char *bo_reader_path(const bo_reader *reader);
size_t bo_reader_columns(const bo_reader *reader);
bool bo_reader_rows(const bo_reader *reader, size_t *rows); /* false: not known without reading the file */
/* Moves to a row: the next block starts there. BO_UNSUPPORTED unless the file is an uncompressed .npy or IDX file. */
bo_status bo_reader_seek(bo_context *context, bo_reader *reader, size_t row);
/* Like bo_reader_open, from open bytes; takes ownership of them, even if it fails. */
bo_status bo_reader_open_bytes(bo_context *context, bo_bytes *bytes, bo_format format, size_t min_columns,
                               bo_reader **out);
/* Skips rows without parsing their cells; *skipped < rows only at the end. */
bo_status bo_reader_skip(bo_context *context, bo_reader *reader, size_t rows, size_t *skipped);
/* Treats the header as the first row, and rewinds. */
bo_status bo_reader_drop_header(bo_context *context, bo_reader *reader);
/* Progress in rows (arrays) or bytes (text); *total 0: unknown. */
double bo_reader_progress(const bo_reader *reader, double *total);
bool bo_reader_seekable(const bo_reader *reader);
/* "column 'price'", or "column 3" without names. */
enum { BO_COLUMN_TEXT = 160 };
const char *bo_reader_column_label(const bo_reader *reader, size_t column, char out[BO_COLUMN_TEXT]);

/* ---- arrays (npy, IDX) ------------------------------------------------------------------------------------------- */

static inline bool bo_reader_is_array(const bo_reader *reader)
{
    return reader->format == BO_FORMAT_NPY || reader->format == BO_FORMAT_IDX;
}
bo_status bo_npy_open(bo_context *context, bo_reader *reader);
bo_status bo_idx_open(bo_context *context, bo_reader *reader);
/* Checks that rows x columns are plausible and that the file contains them. */
bo_status bo_array_rows_check(bo_context *context, bo_reader *reader, uint64_t rows, uint64_t columns);
/* Skips the header, which was only peeked before. */
bo_status bo_array_rows_start(bo_context *context, bo_reader *reader);
bo_status bo_array_rows_rewind(bo_context *context, bo_reader *reader);
bo_status bo_array_rows_skip(bo_context *context, bo_reader *reader, size_t rows);
/* Rows as stored in the file: *raw has *rows x columns items. The hot path of streams. */
bo_status bo_reader_next_raw(bo_context *context, bo_reader *reader, size_t max_rows, const unsigned char **raw,
                             size_t *rows);

/* ---- whole arrays ------------------------------------------------------------------------ */

/* Maximum rank of a .npy header and of a bo_array; sizes of texts that describe a shape. */
enum { BO_NPY_RANK = 32, BO_ARRAY_RANK = 8, BO_SHAPE_TEXT = 192, BO_DECLARED_TEXT = 256 };
/* Peeks at the header of a .npy file: the layout and the shape. */
bo_status bo_npy_header_read(bo_context *context, bo_bytes *bytes, bo_array_layout *array, size_t *rank,
                             uint64_t shape[BO_NPY_RANK]);
/* Like bo_array_load, from open bytes; takes ownership of them, even if it fails. */
bo_status bo_array_load_bytes(bo_context *context, bo_bytes *bytes, bo_array **out);
void bo_convert_f64(const bo_array_layout *array, const unsigned char *raw, size_t count, double *out);
void bo_convert_f32(const bo_array_layout *array, const unsigned char *raw, size_t count, float *out);

/* ---- text -------------------------------------------------------------------------------------------------------- */

/* The result of detection. */
typedef struct bo_text_form {
    bo_format format;
    char delimiter;
    bool header;
    bo_number_form number;
} bo_text_form;

bo_status bo_detect(bo_context *context, bo_bytes *bytes, bo_format requested, bo_text_form *form);

typedef enum bo_record_end { BO_RECORD_FOUND, BO_RECORD_MORE, BO_RECORD_OPEN_QUOTE } bo_record_end;
/* Finds the end (newline) of the record that starts at `text`; quotes are respected unless delimiter is 0 or ' '. */
bo_record_end bo_record_find(const char *text, const char *end, char delimiter, const char **stop);
/* The next record that is not empty, without its line ending; *text is NULL at the end. */
bo_status bo_records_next(bo_context *context, bo_reader *reader, const char **text, const char **end, size_t *line);
bo_status bo_records_rewind(bo_context *context, bo_reader *reader);

/* A copy in UTF-8 that is valid until bo_strings_clear; text that is not UTF-8 is read as Latin-1. NULL: out of
 * memory. */
char *bo_strings_add(bo_context *context, bo_strings *strings, const char *text, size_t length);
void bo_strings_clear(bo_strings *strings);
void bo_strings_free(bo_strings *strings);

/* One field of a delimited record. Moves *at behind the field and its delimiter; *last: it was the last field. False if
 * text follows a closing quote. */
typedef struct bo_reader_field {
    const char *text, *end;
    bool quoted;
} bo_reader_field;
bool bo_field_next(char delimiter, const char **at, const char *end, bo_reader_field *field, bool *last);

bo_status bo_delimited_open(bo_context *context, bo_reader *reader, const bo_text_form *form);
bo_status bo_delimited_row(bo_context *context, bo_reader *reader, const char *text, const char *end, size_t line,
                           size_t row);
/* Reserves one string per cell; cells without text have NULL. */
bo_status bo_text_reserve(bo_context *context, bo_reader *reader);
bo_status bo_libsvm_open(bo_context *context, bo_reader *reader, size_t min_columns);
bo_status bo_libsvm_row(bo_context *context, bo_reader *reader, const char *text, const char *end, size_t line,
                        double *cells);
/* The next row of libsvm text without its zeros; *items belongs to the reader, NULL: the end. */
bo_status bo_libsvm_next(bo_context *context, bo_reader *reader, const bo_libsvm_items **items, size_t *line);

#endif
