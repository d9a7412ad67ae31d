/* Bochner: tables in, arrays out. Reads CSV, NumPy .npy, libsvm text, IDX (MNIST) and whitespace-separated numbers,
 * each also gzip-compressed, from files or from memory, whole or in blocks. A schema says which column means what and
 * travels with the model. Arrays of any rank come from .npy. Splits and tables hold rows out for a test.
 *
 *     bo_data_desc desc = {.path = "train.csv", .target = "price"};
 *     bo_data *data;
 *     bo_data_load(context, &desc, NULL, &data);            // data->x, data->y, data->rows, data->dim
 *
 * Messages name file, line and column. */
#ifndef BOCHNER_DATA_H
#define BOCHNER_DATA_H

#include <bochner/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ==== Simple ====================================================================================================== */

/* ---- data: a whole table in memory ------------------------------------------------------------------------------- */

typedef enum bo_format {
    BO_FORMAT_AUTO = 0, /* by content, then by name */
    BO_FORMAT_CSV = 1,
    BO_FORMAT_NPY = 2,
    BO_FORMAT_LIBSVM = 3, /* the label is column 0, named "label"; indices start at 1 */
    BO_FORMAT_IDX = 4,
    BO_FORMAT_SPACED = 5 /* numbers separated by blanks or tabs */
} bo_format;

typedef enum bo_task { BO_TASK_AUTO = 0, BO_TASK_REGRESSION = 1, BO_TASK_CLASSIFICATION = 2 } bo_task;
typedef enum bo_impute { BO_IMPUTE_NONE = 0, BO_IMPUTE_MEAN = 1, BO_IMPUTE_MEDIAN = 2 } bo_impute;

/* Which column of a table means what. Immutable. */
typedef struct bo_schema bo_schema;

/* A table, and how it is read. The table is the file `path`, or the contents of such a file in memory. */
typedef struct bo_data_desc {
    const char *path;  /* the file; "-" is standard input. With `bytes`: its name in messages (default: "memory") */
    const void *bytes; /* NULL: the file is read. Borrowed while the table is being read: by a stream until it is
                              * closed */
    size_t size;       /* of `bytes` */
    bo_format format;
    const char *labels; /* a second file with the targets, one row per row of the table; NULL: a column of the table */
    const void *label_bytes; /* the same in memory; `labels` is then its name in messages */
    size_t label_size;
    const char *target;      /* name or 0-based index (negative: from the end); comma-separated for several regression
                              * targets. NULL: the last column (libsvm: the label). Ignored with labels */
    bool no_target;          /* features only: every column is an input */
    bo_task task;            /* AUTO: classification when the target is text, or has at most 20 distinct values which
                              * are all integers, or comes from an IDX file */
    const char *categorical; /* NULL: text columns are refused by name; "auto": text columns one-hot;
                              * else comma-separated names or indices to one-hot */
    bo_impute impute;        /* NONE: missing values are refused by row and column */
    size_t sample_rows;      /* bo_schema_fit only: medians come from a seeded sample of this many rows (default: all).
                              * Categories, classes and means always come from the whole table */
    uint64_t seed;
    uint64_t reserved[4]; /* zero: room for later versions */
} bo_data_desc;

/* Made by the library and read-only to callers; later versions may add members at its end. */
typedef struct bo_data {
    size_t rows, dim, targets;
    float *x;          /* rows x dim */
    double *y;         /* rows x targets; for classes the class index; NULL without target */
    size_t classes;    /* 0: regression */
    bo_schema *schema; /* owned by the data */
} bo_data;

/* `schema` NULL: it is fitted on this table. Otherwise the table must have the columns that the schema names (matched by
 * name when both have names, by position otherwise); the target may be absent, and then y is NULL. */
BO_API bo_status bo_data_load(bo_context *context, const bo_data_desc *desc, const bo_schema *schema, bo_data **out);
BO_API void bo_data_destroy(bo_data *data);

/* ---- schema: which column means what ----------------------------------------------------------------------------- */

/* Of a schema that was fitted or loaded; that of a bo_data is the data's. */
BO_API void bo_schema_destroy(bo_schema *schema);
/* Columns of x after one-hot encoding: the dim of data and machines. */
BO_API size_t bo_schema_inputs(const bo_schema *schema);
/* The name of a column of x: "rooms", "town=Rye". NULL past the last. */
BO_API const char *bo_schema_input(const bo_schema *schema, size_t index);
/* Columns of y: 0, 1 (also for classes), or more. */
BO_API size_t bo_schema_targets(const bo_schema *schema);
/* The name of a column of y. NULL past the last. */
BO_API const char *bo_schema_target(const bo_schema *schema, size_t index);
/* 0: regression. */
BO_API size_t bo_schema_classes(const bo_schema *schema);
/* The label of a class as it stood in the table. NULL past the last. */
BO_API const char *bo_schema_class(const bo_schema *schema, size_t index);
/* Rows that bo_schema_fit saw. */
BO_API size_t bo_schema_rows(const bo_schema *schema);
/* True when all inputs share one unit (IDX pixels, libsvm): scale them together rather than column by column. */
BO_API bool bo_schema_has_common_unit(const bo_schema *schema);

/* ---- tables: one or several files as one, with rows held out ----------------------------------------------------- */

/* Shares of the rows that are held out; the others are for training. */
typedef struct bo_split_desc {
    double valid, test;
    uint64_t seed;
    uint64_t reserved[4]; /* zero: room for later versions */
} bo_split_desc;

typedef struct bo_table_desc {
    bo_data_desc data;        /* how a table is read */
    const char *const *paths; /* files that are read one after the other; NULL: the table that `data` names */
    size_t files;             /* number of paths */
    bo_split_desc split;      /* bo_split_row of a row's number over all files */
    uint64_t reserved[4];     /* zero: room for later versions */
} bo_table_desc;

/* The rows of each part; NULL for a part that has no share. The schema of the first file applies to all of them. A share that
 * is too small for one row, or that leaves none for training, is BO_INVALID. `valid` and `test` may be NULL where the split
 * has no such share. The caller destroys each part with bo_data_destroy. */
BO_API bo_status bo_table_load(bo_context *context, const bo_table_desc *desc, bo_data **train, bo_data **valid,
                               bo_data **test);

/* ---- arrays: a whole .npy of any rank ---------------------------------------------------------------------------- */

/* An array that was loaded, or one of the caller's own. */
typedef struct bo_array {
    size_t rank;          /* 0: a single number */
    const size_t *shape;  /* `rank` numbers */
    size_t count;         /* product of the shape; not read from arrays of the caller's own */
    float *values;        /* in C order: the last dimension varies fastest */
    uint64_t reserved[4]; /* zero: room for later versions */
} bo_array;

/* Numbers of any type .npy has for them, either byte order, C or Fortran order, perhaps gzipped; "-" is standard input.
 * NaN stays NaN, and what is beyond float32 becomes infinite. */
BO_API bo_status bo_array_load(bo_context *context, const char *path, bo_array **out);
/* Writes a .npy file as bo_file_save does. */
BO_API bo_status bo_array_save(bo_context *context, const bo_array *array, const char *path);
/* Of a loaded array. */
BO_API void bo_array_destroy(bo_array *array);

/* ---- writing ----------------------------------------------------------------------------------------------------- */

/* Any text or bytes. All functions that save write beside the file, flush, and rename: a reader sees the old file or the new
 * one, never half. */
BO_API bo_status bo_file_save(bo_context *context, const char *path, const void *bytes, size_t size);
/* A table of numbers as .npy. */
BO_API bo_status bo_npy_save_f32(bo_context *context, const char *path, size_t rows, size_t columns,
                                 const float *values);
/* The same for double. */
BO_API bo_status bo_npy_save_f64(bo_context *context, const char *path, size_t rows, size_t columns,
                                 const double *values);

/* ==== Advanced ==================================================================================================== */

/* ---- names ------------------------------------------------------------------------------------------------------- */

/* Names of the enums: "csv", "regression", "median"; NULL outside the enum. parse returns false for an unknown name (or NULL),
 * and *out is then unchanged; case does not matter. */
BO_API const char *bo_format_name(bo_format format);
BO_API const char *bo_task_name(bo_task task);
BO_API const char *bo_impute_name(bo_impute impute);
BO_API bool bo_format_parse(const char *name, bo_format *out);
BO_API bool bo_task_parse(const char *name, bo_task *out);
BO_API bool bo_impute_parse(const char *name, bo_impute *out);

/* ---- arrays in memory -------------------------------------------------------------------------------------------- */

/* As bo_array_load, of the contents of a file. The bytes are not needed afterwards. */
BO_API bo_status bo_array_load_memory(bo_context *context, const void *bytes, size_t size, bo_array **out);
/* The bytes that bo_array_save writes. *bytes is released with bo_free. */
BO_API bo_status bo_array_save_memory(bo_context *context, const bo_array *array, void **bytes, size_t *size);
/* The shape as text, "(8, 1024, 64)", as snprintf writes: at most `size` bytes with the NUL, nothing where `size` is 0.
 * Returns the length of the whole text. */
BO_API size_t bo_array_format(const bo_array *array, char *out, size_t size);

/* ---- schemas ----------------------------------------------------------------------------------------------------- */

/* One pass over the table: kinds of columns, categories, classes, imputation values, row count. */
BO_API bo_status bo_schema_fit(bo_context *context, const bo_data_desc *desc, bo_schema **out);
/* JSON text, followed by a NUL that *size does not count. *bytes is released with bo_free. */
BO_API bo_status bo_schema_save_memory(bo_context *context, const bo_schema *schema, void **bytes, size_t *size);
/* The bytes are not needed afterwards. */
BO_API bo_status bo_schema_load_memory(bo_context *context, const void *bytes, size_t size, bo_schema **out);

/* ---- stream: a table block by block, in constant memory ---------------------------------------------------------- */

typedef struct bo_stream bo_stream;
/* As bo_data_load. */
BO_API bo_status bo_stream_open(bo_context *context, const bo_data_desc *desc, const bo_schema *schema,
                                bo_stream **out);
BO_API void bo_stream_close(bo_stream *stream);
/* Up to max_rows rows into x (max_rows x dim) and y (max_rows x targets, or NULL); *rows is 0 at the end. */
BO_API bo_status bo_stream_next(bo_context *context, bo_stream *stream, size_t max_rows, float *x, double *y,
                                size_t *rows);
/* Back to the first row. BO_UNSUPPORTED on standard input. */
BO_API bo_status bo_stream_rewind(bo_context *context, bo_stream *stream);
/* A seeded sample of `rows` rows (fewer if the table is shorter), uniform over the table: by seeking where the format
 * allows, by a pass with a reservoir otherwise. y or NULL. Leaves the stream at its start. */
BO_API bo_status bo_stream_sample(bo_context *context, bo_stream *stream, size_t rows, uint64_t seed, float *x,
                                  double *y, size_t *sampled);
/* Restricts the stream to part `index` of `parts` (ranks of a parallel job): contiguous ranges of rows where the format
 * seeks, every parts-th block otherwise. Call before reading. */
BO_API bo_status bo_stream_restrict(bo_context *context, bo_stream *stream, size_t index, size_t parts);

/* ---- splits: which rows are for training, validation and test ---------------------------------------------------- */

typedef enum bo_split {
    BO_SPLIT_TRAIN = 0,
    BO_SPLIT_VALID = 1,
    BO_SPLIT_TEST = 2,
    BO_SPLIT_ALL = 3, /* every row, in the table's order */
    BO_SPLIT_NONE = 4 /* a row that belongs nowhere */
} bo_split;
/* "train", "valid", "test"; NULL for the others. */
BO_API const char *bo_split_name(bo_split split);
BO_API bool bo_split_parse(const char *name, bo_split *out);

/* Where row number `row` belongs: a hash of (seed, row) says so. The number of rows need not be known: a stream and a
 * table in memory agree. The shares are met on average, not exactly. */
BO_API bo_split bo_split_row(const bo_split_desc *desc, uint64_t row);
/* The same for a known number of rows, of which exactly ⌈valid rows⌉ and ⌈test rows⌉ are held out: splits[i] is where
 * row i belongs. */
BO_API bo_status bo_split_rows(bo_context *context, const bo_split_desc *desc, size_t rows, bo_split *splits);
/* The same from a file with one column of "train", "valid", "test" or "none" (0, 1, 2, -1), one line per row. */
BO_API bo_status bo_split_load(bo_context *context, const char *path, size_t rows, bo_split *splits);

/* ---- tables block by block --------------------------------------------------------------------------------------- */

/* A table being read: the rows of one part, block by block, in constant memory. What `desc` points to must outlive it. */
typedef struct bo_table bo_table;
/* Rank `rank` of `ranks` of a parallel job reads its share of the files (one process: 0 of 1). */
BO_API bo_status bo_table_open(bo_context *context, const bo_table_desc *desc, const bo_schema *schema, bo_split split,
                               size_t rank, size_t ranks, bo_table **out);
BO_API void bo_table_close(bo_table *table);
/* As bo_stream_next. */
BO_API bo_status bo_table_next(bo_context *context, bo_table *table, size_t max_rows, float *x, double *y,
                               size_t *count);

/* ---- readers: rows of cells from any format ---------------------------------------------------------------------- */

typedef struct bo_reader bo_reader;

/* A block of rows. A missing value (empty, NA, NaN, null or ? in text; NaN in binary) is NAN; a cell that is text is NAN in
 * `cells` and its string in `text` (NULL there for numbers and missing values). Valid until the next call. */
typedef struct bo_data_block {
    size_t rows, columns;
    const double *cells;     /* rows x columns */
    const char *const *text; /* rows x columns, or NULL when the block has no text */
    size_t first_row;        /* index of the first row, from 0 */
    const size_t *lines;     /* line of each row in the file, or NULL for binary formats */
    uint64_t reserved[4];    /* zero: room for later versions */
} bo_data_block;

/* path "-" is standard input. `min_columns` widens sparse libsvm rows (0: as wide as the widest row in the file, which needs
 * a pass over it, so it must be given for standard input). */
BO_API bo_status bo_reader_open(bo_context *context, const char *path, bo_format format, size_t min_columns,
                                bo_reader **out);
/* The contents of a file in memory, borrowed until the reader is closed. */
BO_API bo_status bo_reader_open_memory(bo_context *context, const void *bytes, size_t size, bo_format format,
                                       size_t min_columns, bo_reader **out);
BO_API void bo_reader_close(bo_reader *reader);
/* The format that was found; never AUTO. */
BO_API bo_format bo_reader_format(const bo_reader *reader);
/* As messages name it: the path, "standard input" or "memory". */
BO_API const char *bo_reader_path(const bo_reader *reader);
BO_API size_t bo_reader_columns(const bo_reader *reader);
/* The name of a column in the header; NULL without one, and past the last. */
BO_API const char *bo_reader_column(const bo_reader *reader, size_t index);
/* False: the number of rows is not known without reading on. */
BO_API bool bo_reader_rows(const bo_reader *reader, size_t *rows);
/* Up to max_rows rows, perhaps fewer; block->rows is 0 at the end. */
BO_API bo_status bo_reader_next(bo_context *context, bo_reader *reader, size_t max_rows, bo_data_block *block);
/* Back to the first row. BO_UNSUPPORTED on standard input. */
BO_API bo_status bo_reader_rewind(bo_context *context, bo_reader *reader);
/* Random access, for uncompressed .npy and IDX; BO_UNSUPPORTED elsewhere. The next block starts at `row`. */
BO_API bo_status bo_reader_seek(bo_context *context, bo_reader *reader, size_t row);

/* ==== Experimental ================================================================================================ */

#ifdef BO_EXPERIMENTAL

/* Rows of each file, also of those held out. `schema` is that of the first file. */
BO_API bo_status bo_table_count(bo_context *context, const bo_table_desc *desc, const bo_schema *schema,
                                size_t *counts);
/* A uniform sample of at most `want` rows to learn from, chosen by split.seed; counts as bo_table_count has them. */
BO_API bo_status bo_table_sample(bo_context *context, const bo_table_desc *desc, const bo_schema *schema,
                                 const size_t *counts, size_t want, float *x, double *y, size_t *sampled);

#endif

#ifdef __cplusplus
}
#endif
#endif
