/** @file
 * Tables and arrays from files or memory.
 *
 * Reads CSV, NumPy .npy, libsvm text, IDX (MNIST) and whitespace-separated values, each optionally gzip-compressed, as
 * a whole or in blocks. A schema describes the meaning of each column; it is saved with the model. Arrays of any rank
 * are read from .npy. Splits and tables hold out rows for validation and test. Error messages name file, line and
 * column.
 *
 *     bo_data_desc desc = {.path = "train.csv", .target = "price"};
 *     bo_data *data;
 *     bo_data_load(context, &desc, NULL, &data);            // data->x, data->y, data->rows, data->dim
 *     bo_data_destroy(data);
 *
 * **Ownership.** The caller destroys or closes each object. A bo_data owns its schema. **Threads.** Schemas, data and
 * arrays are immutable and may be shared by threads; tables and readers have a position and need exclusive access.
 */
#ifndef BOCHNER_DATA_H
#define BOCHNER_DATA_H

#include <bochner/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ==== Simple ====================================================================================================== */

/* ---- data: a whole table in memory ------------------------------------------------------------------------------- */

/** The format of a file. */
typedef enum bo_format {
    BO_FORMAT_AUTO = 0,   /**< detected from the contents, then from the name */
    BO_FORMAT_CSV = 1,    /**< values separated by commas, semicolons, tabs or vertical bars */
    BO_FORMAT_NPY = 2,    /**< NumPy array */
    BO_FORMAT_LIBSVM = 3, /**< sparse text; the label is column 0, named "label"; indices start at 1 */
    BO_FORMAT_IDX = 4,    /**< binary format of MNIST */
    BO_FORMAT_SPACED = 5  /**< values separated by spaces or tabs */
} bo_format;

/** The kind of prediction. */
typedef enum bo_task {
    BO_TASK_AUTO = 0,          /**< determined from the target */
    BO_TASK_REGRESSION = 1,    /**< numbers */
    BO_TASK_CLASSIFICATION = 2 /**< classes */
} bo_task;

/** The replacement of missing values. */
typedef enum bo_impute {
    /** The mean of the column. A column with missing values in the training data gets an indicator input, which is 1
     * where the value is missing. */
    BO_IMPUTE_AUTO = 0,
    BO_IMPUTE_NONE = 1,  /**< missing values are refused */
    BO_IMPUTE_MEAN = 2,  /**< the mean of the column */
    BO_IMPUTE_MEDIAN = 3 /**< the median of the column */
} bo_impute;

/** The meaning of the columns of a table: inputs, categories, targets, classes. Immutable. */
typedef struct bo_schema bo_schema;

/** A table and how to read it. The table is the file `path`, or the contents of such a file in memory (`bytes`). */
typedef struct bo_data_desc {
    const char *path;   /**< the file; "-": standard input. With `bytes`: its name in messages (default: "memory") */
    const void *bytes;  /**< contents of a file in memory; must stay valid while the table is read; or NULL */
    size_t size;        /**< number of `bytes` */
    bo_format format;   /**< the format (default: detected) */
    const char *labels; /**< a second file with the targets, one row per row of the table; NULL: not used */
    const void *label_bytes; /**< contents of such a file in memory; `labels` is then its name in messages; or NULL */
    size_t label_size;       /**< number of `label_bytes` */
    /** The target column: a name or a 0-based index (negative: from the end); comma-separated for several regression
     * targets (default: the last column; libsvm: the label). Ignored with `labels`. */
    const char *target;
    bool no_target; /**< no target: every column is an input */
    /** The task (default: classification if the target is text, or has at most 20 distinct values that are all
     * integers, or comes from an IDX file; otherwise regression). */
    bo_task task;
    /** Columns to encode one-hot, even if they are numbers: comma-separated names or indices. Other text columns are
     * encoded as bo_column_use describes. NULL or "auto": no additional columns; "none": text columns are refused. */
    const char *categorical;
    /** Columns to ignore: comma-separated names or indices. NULL: none. */
    const char *drop;
    /** The only columns to use as inputs, even if they look like row numbers or names: comma-separated names or
     * indices. NULL: all columns that are not dropped. */
    const char *keep;
    const char *weights; /**< a column of row weights >= 0 (bo_data.weights), which is not an input; or NULL */
    const char *group; /**< a column whose equal values form a group (bo_data.groups), which is not an input; or NULL */
    /** Replacement of missing values (default: BO_IMPUTE_AUTO). Unless it is BO_IMPUTE_NONE, rows whose target is
     * missing are omitted with a warning. */
    bo_impute impute;
    /** Rows whose target is missing are kept, with NAN as their target, and a fitted schema has no target-encoded
     * columns. For predictions and other results in the order of the file. */
    bool keep_unlabeled;
    /** bo_schema_fit() only: medians are computed from a random sample of this many rows (default: all rows).
     * Categories, classes and means are always computed from the whole table. */
    size_t sample_rows;
    uint64_t seed; /**< seed of the sample */
    /** bo_data_load() and bo_table_load(): keep libsvm text sparse, if fewer than a quarter of its numbers are nonzero
     * and there are no categories and no imputation; otherwise it is read as dense rows. */
    bool sparse;
    /** A fitted schema has no origins: x contains the original numbers. For methods that depend on their zero. */
    bool no_origin;
    uint64_t reserved[4]; /**< must be zero */
} bo_data_desc;

/** Sparse rows in the CSR format (compressed sparse rows). */
typedef struct bo_sparse {
    size_t rows;            /**< number of rows */
    size_t dim;             /**< number of columns */
    const size_t *start;    /**< rows + 1 offsets: the numbers of row i are start[i] … start[i + 1] - 1 */
    const uint32_t *column; /**< columns of the numbers, ascending in each row, below `dim` */
    const float *value;     /**< the numbers */
} bo_sparse;

/** A table in memory.
 *
 * Numbers far from 0, such as Unix times, are stored as differences from the origin of their column
 * (bo_schema_info.origins).
 *
 * Allocated by the library and read-only for callers. Later versions may add members at the end.
 */
typedef struct bo_data {
    size_t rows;       /**< number of rows */
    size_t dim;        /**< number of input columns, after encoding */
    size_t targets;    /**< number of target columns; 1 for classes */
    float *x;          /**< inputs, rows x dim; NULL if they are sparse */
    double *y;         /**< targets, rows x targets; for classes the class index; NULL without a target */
    size_t classes;    /**< number of classes; 0: regression */
    bo_schema *schema; /**< the schema; owned by the data */
    bo_sparse *sparse; /**< the inputs as sparse rows (bo_data_desc.sparse); owned by the data; or NULL */
    float *weights;    /**< the weight of each row (bo_data_desc.weights); or NULL */
    uint64_t *groups;  /**< a number per row, equal for rows of the same group (bo_data_desc.group); or NULL */
} bo_data;

/** Reads a whole table.
 *
 * With a schema, the table must have the columns of the schema. They are matched by name if both have names, otherwise
 * by position. The target may be absent; then `y` is NULL.
 *
 * @param context    the context
 * @param desc       the table
 * @param schema     the schema to apply, or NULL: it is fitted on this table
 * @param[out] out   the data; release it with bo_data_destroy()
 * @return BO_OK; BO_IO if a file cannot be read; BO_FORMAT if it is malformed, a value is missing or not a number, or
 *     the table does not match the schema; BO_UNSUPPORTED if the file needs two passes and is standard input
 */
BO_API bo_status bo_data_load(bo_context *context, const bo_data_desc *desc, const bo_schema *schema, bo_data **out);

/** Destroys data and its schema.
 *
 * @param data   the object, or NULL
 */
BO_API void bo_data_destroy(bo_data *data);

/* ---- schema: the meaning of columns ------------------------------------------------------------------------------ */

/** Destroys a schema that was fitted or loaded. The schema of a bo_data is destroyed with the data.
 *
 * @param schema   the object, or NULL
 */
BO_API void bo_schema_destroy(bo_schema *schema);

/** The use of a column of a file. */
typedef enum bo_column_use {
    BO_USE_NUMBER = 0,  /**< an input: a number */
    BO_USE_BOOLEAN = 1, /**< an input that is 0 or 1: true and false, yes and no, t and f, y and n */
    /** Inputs: year, day of the year, weekday (1 Monday to 7 Sunday) and, if there are times, hour. Dates are written
     * as 2024-01-31, 31.01.2024 or 31/01/2024, or as 01/31/2024 if the column allows no other interpretation. */
    BO_USE_DATE = 2,
    /** One input per value of a text column: 1 where it has this value. For text columns with at most 32 distinct
     * values, so that a text column does not outweigh the other columns in distances between rows. */
    BO_USE_ONE_HOT = 3,
    /** Inputs: the mean of each target over the rows of the same value, adjusted linearly for the other columns; for
     * classes their frequencies, one input for two classes. For text columns with more than 32 distinct values. The
     * mean is shrunk toward the mean of all rows, the more the less the values differ; unknown values have the mean of
     * all rows. The code of a training row is computed from the four fifths of the rows that do not include it, so that
     * it does not contain its own target. */
    BO_USE_ENCODED = 4,
    BO_USE_TARGET = 5,  /**< the target */
    BO_USE_WEIGHTS = 6, /**< bo_data_desc.weights */
    BO_USE_GROUP = 7,   /**< bo_data_desc.group */
    BO_USE_NOTHING = 8  /**< omitted */
} bo_column_use;

/** The reason why a column is omitted. */
typedef enum bo_omission {
    BO_OMIT_REQUESTED = 0, /**< bo_data_desc.drop or .keep, or the label of libsvm text if `labels` is used */
    /** Row numbers: distinct, consecutive integers, in a table of at least 20 rows; or a column named id (or with the
     * suffix _id) with distinct values; or a column without a name, or named index or "Unnamed: 0", with distinct
     * integers from 0, such as the index of a pandas DataFrame after a split. */
    BO_OMIT_NUMBERED = 1,
    BO_OMIT_UNIQUE = 2,    /**< text such as names: more than 16 distinct values, and fewer than 2 rows per value */
    BO_OMIT_EMPTY = 3,     /**< all values are missing */
    BO_OMIT_UNTARGETED = 4 /**< text with more than 32 distinct values, without a target for target encoding */
} bo_omission;

/** A column of the file that a schema was fitted on. */
typedef struct bo_schema_column_info {
    const char *name;     /**< the name, owned by the schema; NULL: the file has no names */
    bo_column_use use;    /**< its use */
    size_t first;         /**< its first column of x */
    size_t inputs;        /**< its number of columns of x, including the indicator of missing values */
    size_t values;        /**< the number of distinct values of a text column */
    size_t missing;       /**< the number of missing values in the training data */
    bo_omission why;      /**< with BO_USE_NOTHING: the reason */
    uint64_t reserved[4]; /**< zero */
} bo_schema_column_info;

/** A schema. Allocated by the library. Later versions may add members at the end. */
typedef struct bo_schema_info {
    size_t inputs;  /**< number of columns of x, after encoding: `dim` of data and machines */
    size_t targets; /**< number of columns of y: 0 without a target, 1 for classes */
    size_t classes; /**< number of classes; 0: regression */
    size_t columns; /**< number of columns of the file that the schema was fitted on (bo_schema_column()) */
    size_t rows;    /**< number of rows that the schema was fitted on */
    /** Number of rows that were omitted because their target is missing; 0 for a schema of a model file. */
    size_t unlabeled;
    /** Names of the columns of x, such as "rooms", "town=Rye", "sold: year" or "rooms: missing"; followed by NULL. */
    const char *const *input_names;
    const char *const *target_names; /**< names of the columns of y, NULL for one without a name; followed by NULL */
    const char *const *class_names;  /**< original labels of the classes in the table; followed by NULL */
    /** Origins of the columns of x: numbers of the file are read as differences from them. NULL: all are 0.
     *
     * float32 has 24 bits, so that the Unix times 1.7e9 and 1.7e9 + 50 would become equal. Therefore a column of
     * numbers whose values other than 0 are farther from 0 than four times their range has an origin near them, which
     * is subtracted in float64. A few values far from the rest, such as -1 for a missing value, are ignored; columns of
     * sparse rows that are mostly absent have no origin. Tables that are read with the schema have the same origins.
     * float64 holds integers up to 2^53. */
    const double *origins;
    /** All inputs have the same unit, such as IDX pixels and libsvm columns. Such inputs should be scaled by a common
     * factor rather than per column. */
    bool common_unit;
    /** Tables with this schema can be read as sparse rows (bo_table_rows.sparse): libsvm text in which every column
     * except the label is a number without imputation. */
    bool sparse;
} bo_schema_info;

/** Describes a schema.
 *
 * @param schema   the schema
 * @return the description, owned by the schema
 */
BO_API const bo_schema_info *bo_schema_describe(const bo_schema *schema);

/** Describes a column of the file that the schema was fitted on. The inputs of a column are consecutive.
 *
 * @param schema     the schema
 * @param index      the column
 * @param[out] out   the description
 * @return false if there is no such column
 */
BO_API bool bo_schema_column(const bo_schema *schema, size_t index, bo_schema_column_info *out);

/* ---- tables: one or several files as one, with rows held out ----------------------------------------------------- */

/** The fractions of held-out rows. The remaining rows are for training. */
typedef struct bo_split_desc {
    double valid;  /**< fraction for validation (default: 0) */
    double test;   /**< fraction for test (default: 0) */
    uint64_t seed; /**< seed of the selection of rows */
    /** Cross-validation: the rows are divided into this many folds, and `fold` is the test fold; 0: not used. `valid`
     * and `test` must then be 0. */
    size_t folds;
    size_t fold;          /**< the test fold, below `folds` */
    uint64_t reserved[2]; /**< must be zero */
} bo_split_desc;

/** One or several files that are read as one table, with a split. */
typedef struct bo_table_desc {
    bo_data_desc data;        /**< the settings for reading a file */
    const char *const *paths; /**< files that are read in order; NULL: the table of `data` */
    size_t files;             /**< number of paths */
    bo_split_desc split;      /**< the split, by row number over all files or by group (bo_split_row()) */
    /** bo_table_open() only: the schema was fitted on rows outside the first file, for example on the training rows of
     * a model. Missing targets and invalid dates are then reported, and target-encoded columns have no codes of
     * training rows. */
    bool other_rows;
    size_t rank; /**< bo_table_open() only: the rank of this process in a parallel job, below `ranks` */
    /** bo_table_open() only: the number of ranks, each of which reads its part of the rows; 0 means 1 */
    size_t ranks;
    uint64_t reserved[4]; /**< must be zero */
} bo_table_desc;

/** Reads a table and splits its rows.
 *
 * The schema of the first file applies to all files. A part whose fraction is 0 becomes NULL. The caller destroys each
 * part with bo_data_destroy().
 *
 * @param context      the context
 * @param desc         the table
 * @param[out] train   rows for training
 * @param[out] valid   rows for validation; or NULL if the split has none
 * @param[out] test    rows for test; or NULL if the split has none
 * @return BO_OK; BO_INVALID if a fraction is too small for one row or leaves none for training; errors of
 *     bo_data_load()
 */
BO_API bo_status bo_table_load(bo_context *context, const bo_table_desc *desc, bo_data **train, bo_data **valid,
                               bo_data **test);

/* ---- arrays: a whole .npy of any rank ---------------------------------------------------------------------------- */

/** An array, loaded by the library or filled in by the caller. */
typedef struct bo_array {
    size_t rank;         /**< number of dimensions; 0: a single number */
    const size_t *shape; /**< `rank` numbers */
    size_t count;        /**< number of values, the product of the shape; ignored in arrays that the caller filled in */
    float *values;       /**< the values in C order: the last dimension varies fastest */
    uint64_t reserved[4]; /**< must be zero */
} bo_array;

/* ==== Advanced ==================================================================================================== */

/* ---- schemas ----------------------------------------------------------------------------------------------------- */

/** Fits a schema to the first file of a table: uses of columns, categories, classes, imputation values, number of rows.
 *
 * Takes one pass, one more if a column has text after numbers, and two more if there are target-encoded columns.
 * Held-out rows do not influence the codes of target-encoded columns.
 *
 * @param context    the context
 * @param desc       the table
 * @param[out] out   the schema; release it with bo_schema_destroy()
 * @return as bo_data_load()
 */
BO_API bo_status bo_schema_fit(bo_context *context, const bo_table_desc *desc, bo_schema **out);

/** Writes a schema as JSON text.
 *
 * @param context   the context
 * @param schema    the schema
 * @param sink      where to write
 * @return BO_OK; BO_IO if the file cannot be written
 */
BO_API bo_status bo_schema_save(bo_context *context, const bo_schema *schema, const bo_sink *sink);

/** Reads a schema from JSON text.
 *
 * @param context    the context
 * @param source     the text
 * @param[out] out   the schema; release it with bo_schema_destroy()
 * @return BO_OK; BO_IO if the file cannot be read; BO_FORMAT if the text is malformed; BO_VERSION if a newer version
 *     wrote it
 */
BO_API bo_status bo_schema_load(bo_context *context, const bo_source *source, bo_schema **out);

/* ---- splits: rows for training, validation and test -------------------------------------------------------------- */

/** The part of a split that a row belongs to. */
typedef enum bo_split {
    BO_SPLIT_TRAIN = 0, /**< training */
    BO_SPLIT_VALID = 1, /**< validation */
    BO_SPLIT_TEST = 2,  /**< test */
    BO_SPLIT_ALL = 3,   /**< every row, in the order of the table */
    BO_SPLIT_NONE = 4   /**< a row that belongs to no part */
} bo_split;

/** Folds for cross-validation: parts of the rows of about equal size. */
typedef struct bo_folds_desc {
    size_t folds;           /**< number of folds, at least 2 */
    uint64_t seed;          /**< seed of the assignment */
    const double *classes;  /**< class index of each row: every fold gets its share of each class; NULL: not used */
    const uint64_t *groups; /**< group of each row: rows of one group are in the same fold; NULL: no groups */
    uint64_t reserved[4];   /**< must be zero */
} bo_folds_desc;

/* ---- tables block by block --------------------------------------------------------------------------------------- */

/** One part of a table that is read block by block, in constant memory. */
typedef struct bo_table bo_table;

/** Opens one part of a table for reading block by block.
 *
 * @param context    the context
 * @param desc       the table; everything that it points to must outlive the bo_table
 * @param schema     the schema to apply, for example from bo_schema_fit()
 * @param split      the part to read
 * @param[out] out   the table; release it with bo_table_close()
 * @return as bo_data_load(); BO_UNSUPPORTED if rows are held out and there is more than one rank
 */
BO_API bo_status bo_table_open(bo_context *context, const bo_table_desc *desc, const bo_schema *schema, bo_split split,
                               bo_table **out);

/** A table that is read block by block. Allocated by the library. Later versions may add members at the end. */
typedef struct bo_table_info {
    bool has_target; /**< the current file has the targets of the schema */
    bool sparse;     /**< the current file can be read as sparse rows: libsvm text, with such a schema */
} bo_table_info;

/** Describes a table.
 *
 * @param table   the table
 * @return the description, owned by the table; changes when the next file is opened
 */
BO_API const bo_table_info *bo_table_describe(const bo_table *table);

/** Closes a table.
 *
 * @param table   the object, or NULL
 */
BO_API void bo_table_close(bo_table *table);

/** A block of rows of a table. The caller sets `x` and `y`; bo_table_next() sets the other members. */
typedef struct bo_table_rows {
    float *x;    /**< receives inputs, max_rows x dim; NULL: the rows are read as sparse rows */
    double *y;   /**< receives targets, max_rows x targets; NULL: not read, and rows without a target are kept */
    size_t rows; /**< number of rows; 0 at the end */
    const float *weights; /**< a weight per row, owned by the table; NULL if the schema has no weights */
    bo_sparse sparse;     /**< without `x`: the inputs, owned by the table */
    uint64_t reserved[4]; /**< must be zero */
} bo_table_rows;

/** Reads the next rows. Memory owned by the table is valid until the next call.
 *
 * @param context         the context
 * @param[in,out] table   the table
 * @param max_rows        the maximum number of rows to read
 * @param[in,out] rows    the rows
 * @return as bo_data_load(); BO_INVALID if targets are requested and the table has none; BO_UNSUPPORTED if sparse rows
 *     are requested and a file is not sparse (bo_table_info.sparse)
 */
BO_API bo_status bo_table_next(bo_context *context, bo_table *table, size_t max_rows, bo_table_rows *rows);

/* ---- readers: rows of cells from any format ---------------------------------------------------------------------- */

/** A file that is read as rows of cells, without a schema. */
typedef struct bo_reader bo_reader;

/** A block of rows. Valid until the next call with the reader. */
typedef struct bo_data_block {
    size_t rows;    /**< number of rows */
    size_t columns; /**< number of columns */
    /** Numbers, rows x columns. NAN for a missing value (empty, NA, N/A, NaN, null or ? in text; NaN in binary formats)
     * and for text. */
    const double *cells;
    /** Text, rows x columns: the string of a cell that is or may be text. Text may be: NaN, null, Infinity, and numbers
     * that are spelled like codes (leading zeros, as in 007, integers with exponents, as in 1e5, or more digits than a
     * double holds). NULL for other numbers and missing values. NULL if the block has no text. */
    const char *const *text;
    size_t first_row;     /**< index of the first row, from 0 */
    const size_t *lines;  /**< line of each row in the file; NULL for binary formats */
    uint64_t reserved[4]; /**< must be zero */
} bo_data_block;

/** A table that is read as rows of cells. Allocated by the library. Later versions may add members at the end. */
typedef struct bo_reader_info {
    bo_format format; /**< the format; never AUTO */
    const char *path; /**< the name of the table in messages: the path, "standard input" or "memory" */
    size_t columns;   /**< number of columns */
    size_t rows;      /**< number of rows; SIZE_MAX: not known without reading the file */
} bo_reader_info;

/* ==== Experimental ================================================================================================ */

#ifdef BO_EXPERIMENTAL

/* ---- tables ------------------------------------------------------------------------------------------------------ */

/** Writes a schema as bo_schema_save() does, with the codes for training rows, for the other ranks of a parallel job.
 *
 * @param context   the context
 * @param schema    the schema
 * @param sink      where to write
 * @return BO_OK; BO_IO if the file cannot be written
 */
BO_API bo_status bo_schema_share(bo_context *context, const bo_schema *schema, const bo_sink *sink);

/** Counts the rows of each file of a table, including held-out rows, without rows whose target is missing.
 *
 * @param context       the context
 * @param desc          the table
 * @param schema        the schema of the first file
 * @param[out] counts   the number of rows of each file
 * @return as bo_data_load()
 */
BO_API bo_status bo_table_count(bo_context *context, const bo_table_desc *desc, const bo_schema *schema,
                                size_t *counts);

/** Draws a uniform random sample of the training rows of a table, by `split.seed`.
 *
 * Seeks if the format allows it; otherwise reads the table once (reservoir sampling).
 *
 * @param context        the context
 * @param desc           the table
 * @param schema         the schema of the first file
 * @param counts         the result of bo_table_count(); may be NULL for one file
 * @param count          the maximum number of rows to draw
 * @param[out] x         inputs, count x dim
 * @param[out] y         targets, count x targets; or NULL
 * @param[out] weights   weights of the rows, `count` numbers; or NULL
 * @param[out] sampled   the number of rows drawn
 * @return as bo_data_load()
 */
BO_API bo_status bo_table_sample(bo_context *context, const bo_table_desc *desc, const bo_schema *schema,
                                 const size_t *counts, size_t count, float *x, double *y, float *weights,
                                 size_t *sampled);

/** Draws a uniform sample of the training rows of a table as sparse rows, in one pass.
 *
 * @param context    the context
 * @param desc       the table
 * @param schema     the schema
 * @param count      the number of rows; fewer if the table has fewer
 * @param[out] out   the sample; release it with bo_data_destroy()
 * @return as bo_table_next()
 */
BO_API bo_status bo_table_sample_sparse(bo_context *context, const bo_table_desc *desc, const bo_schema *schema,
                                        size_t count, bo_data **out);

/* ---- texts ------------------------------------------------------------------------------------------------------- */

/** The possible meanings of a text in a table, other than a category. */
typedef struct bo_text_meaning {
    bool missing;   /**< None, -, NaN or null: a missing value, but text in a column of text and the name of a class */
    bool date[3];   /**< a date: year-month-day, day-month-year, month-day-year */
    double days[3]; /**< days since 1970-01-01 for each order, with the time of day as a fraction */
    uint64_t reserved[4]; /**< zero */
} bo_text_meaning;

/** Interprets the text of a cell (bo_data_block.text).
 *
 * @param text       the text
 * @param[out] out   its meanings
 */
BO_API void bo_text_interpret(const char *text, bo_text_meaning *out);

/** Writes the shape of an array as text, such as "(8, 1024, 64)".
 *
 * @param array      the array
 * @param[out] out   receives the text and a NUL, truncated to `size` bytes
 * @param size       the size of `out`; if it is 0, nothing is written
 * @return the length of the whole text without the NUL, as snprintf() returns it
 */
BO_API size_t bo_array_format(const bo_array *array, char *out, size_t size);

/* ---- writing ----------------------------------------------------------------------------------------------------- */

/** A file that is being written. Writing is atomic.
 *
 * All functions that save write to a temporary file in the same directory, flush it and rename it: a reader sees the
 * old or the new file, never a partial file. A path that exists and is not a regular file (a device, a pipe) is written
 * directly. A killed process leaves the temporary file FILE.bochner-N.part; the next process that writes FILE removes
 * it.
 */
typedef struct bo_output bo_output;

/** Starts to write a file.
 *
 * @param context    the context
 * @param path       the file; a link is followed
 * @param[out] out   the output; end it with bo_output_commit() or bo_output_abandon()
 * @return BO_OK; BO_IO if the file cannot be written
 */
BO_API bo_status bo_output_open(bo_context *context, const char *path, bo_output **out);

/** Appends bytes.
 *
 * @param context   the context
 * @param output    the output
 * @param data      the bytes
 * @param size      their number
 * @return BO_OK; BO_IO if the file cannot be written
 */
BO_API bo_status bo_output_write(bo_context *context, bo_output *output, const void *data, size_t size);

/** Returns the descriptor of the temporary file, for other ways of writing it.
 *
 * @param output   the output
 * @return the descriptor, which belongs to the output
 */
BO_API int bo_output_descriptor(const bo_output *output);

/** Completes the file: flushes it, renames it to its final name and flushes the directory.
 *
 * @param context   the context
 * @param output    the output, which is released, also if writing fails; a refused call (NULL) releases nothing
 * @return BO_OK; BO_IO if the file cannot be written; then the old file, if any, is unchanged
 */
BO_API bo_status bo_output_commit(bo_context *context, bo_output *output);

/** Discards an output without writing the file.
 *
 * @param output   the output, or NULL
 */
BO_API void bo_output_abandon(bo_output *output);

/** Writes bytes to a file, atomically, as bo_output_open() describes.
 *
 * @param context   the context
 * @param path      the file
 * @param bytes     the contents
 * @param size      the number of bytes
 * @return BO_OK; BO_IO if the file cannot be written
 */
BO_API bo_status bo_file_save(bo_context *context, const char *path, const void *bytes, size_t size);

/** Reads a whole file without decompression.
 *
 * The size is checked before the file is read, and again while it is read, because standard input has no known size and
 * a file may grow.
 *
 * @param context      the context
 * @param path         a regular file; "-" is standard input
 * @param max_size     the maximum number of bytes
 * @param[out] bytes   the contents, followed by a NUL; release them with bo_free()
 * @param[out] size    the number of bytes without the NUL
 * @return BO_OK; BO_IO if the file cannot be read or is not regular; BO_FORMAT if it has more than `max_size` bytes
 */
BO_API bo_status bo_file_load(bo_context *context, const char *path, size_t max_size, void **bytes, size_t *size);

/** Copies a text from standard input or a pipe to a temporary file, so that it can be read several times.
 *
 * The file is in the directory TMPDIR (default: /tmp). It has no name and is removed when it is closed. The path of the
 * copy is /dev/fd/N, where N is the descriptor. The copy is not decompressed.
 *
 * @param context            the context; its progress function is called while the text is awaited and copied
 * @param path               the text; "-": standard input
 * @param[out] descriptor    the temporary file, to be closed by the caller; -1 if the text is a regular file, which can
 *     be read again
 * @return BO_OK; BO_IO if the text cannot be read or copied, or is a device or a directory; BO_FORMAT if it is too
 *     large; BO_UNSUPPORTED if it has an unsupported format; BO_INVALID if it is empty; BO_CANCELED
 */
BO_API bo_status bo_file_spool(bo_context *context, const char *path, int *descriptor);

/** Reads a .npy file.
 *
 * Accepts every numeric type of .npy, both byte orders, C and Fortran order, and gzip compression. NaN stays NaN;
 * numbers beyond the range of float32 become infinite.
 *
 * @param context    the context
 * @param source     the file; the path "-" is standard input
 * @param[out] out   the array; release it with bo_array_destroy()
 * @return BO_OK; BO_IO if the file cannot be read; BO_FORMAT if it is malformed; BO_UNSUPPORTED if its type is not
 *     numeric
 */
BO_API bo_status bo_array_load(bo_context *context, const bo_source *source, bo_array **out);

/** Writes a .npy file, atomically as bo_file_save() does.
 *
 * @param context   the context
 * @param array     the array
 * @param sink      where to write
 * @return BO_OK; BO_IO if the file cannot be written
 */
BO_API bo_status bo_array_save(bo_context *context, const bo_array *array, const bo_sink *sink);

/** Destroys an array that the library loaded.
 *
 * @param array   the object, or NULL
 */
BO_API void bo_array_destroy(bo_array *array);

/** Chooses the origins of columns of float64 rows, as a schema does (bo_schema_info).
 *
 *     bo_origins_choose(n, d, x, d, origins);
 *     bo_origins_subtract(n, d, x, d, origins, narrow);     // bo_samples.x; the same origins for rows to predict
 *
 * @param rows           the number of rows
 * @param dim            the number of columns
 * @param x              rows x dim numbers; NaN is a missing value
 * @param ldx            doubles between two rows of x
 * @param[out] origins   `dim` numbers
 */
BO_API void bo_origins_choose(size_t rows, size_t dim, const double *x, size_t ldx, double *origins);

/** Converts float64 rows to float32 rows for kernel machines, without loss at large offsets.
 *
 * @param rows       the number of rows
 * @param dim        the number of columns
 * @param x          rows x dim numbers
 * @param ldx        doubles between two rows of x
 * @param origins    `dim` numbers, from bo_origins_choose(), or those of a schema
 * @param[out] out   x - origins, rows x dim, without gaps
 */
BO_API void bo_origins_subtract(size_t rows, size_t dim, const double *x, size_t ldx, const double *origins,
                                float *out);

/** Returns the part that a row belongs to, by a hash of seed and row number.
 *
 * The number of rows need not be known: a table in blocks and a table in memory are split in the same way. The
 * fractions are met on average, not exactly. If the number of its group (bo_data.groups) replaces the row number, the
 * rows of a group stay together.
 *
 * @param desc   the split
 * @param row    the row number, from 0, or the number of the group
 * @return TRAIN, VALID or TEST
 */
BO_API bo_split bo_split_row(const bo_split_desc *desc, uint64_t row);

/** Assigns rows to folds.
 *
 * Without groups, the sizes of the folds differ by at most one row, and so do the numbers of rows of each class in
 * them. With groups, the largest groups are assigned first, each to the fold with the smallest share of its classes.
 *
 * @param context      the context
 * @param desc         the folds
 * @param rows         the number of rows
 * @param[out] folds   the fold of each row, from 0
 * @return BO_OK; BO_INVALID if there are fewer rows or groups than folds, or a class is not an index
 */
BO_API bo_status bo_split_folds(bo_context *context, const bo_folds_desc *desc, size_t rows, size_t *folds);

/** Opens a table as rows of cells.
 *
 * @param context       the context
 * @param source        the table; the path "-" is standard input. Memory must outlive the reader
 * @param format        the format
 * @param min_columns   libsvm: the minimum number of columns. 0: the width of the widest row, found by a pass over the
 *     file; standard input needs a number
 * @param[out] out      the reader; release it with bo_reader_close()
 * @return BO_OK; BO_IO if the file cannot be read; BO_FORMAT if it is malformed; BO_UNSUPPORTED if the type of its
 *     numbers is not supported or standard input needs a second pass
 */
BO_API bo_status bo_reader_open(bo_context *context, const bo_source *source, bo_format format, size_t min_columns,
                                bo_reader **out);

/** Closes a reader.
 *
 * @param reader   the object, or NULL
 */
BO_API void bo_reader_close(bo_reader *reader);

/** Describes the table that a reader reads.
 *
 * @param reader   the reader
 * @return the description, owned by the reader
 */
BO_API const bo_reader_info *bo_reader_describe(const bo_reader *reader);

/** Returns the name of a column.
 *
 * @param reader   the reader
 * @param index    the column
 * @return the name, owned by the reader; NULL if the file has no header or no such column
 */
BO_API const char *bo_reader_column(const bo_reader *reader, size_t index);

/** Reads the next rows.
 *
 * @param context          the context
 * @param[in,out] reader   the reader
 * @param max_rows         the maximum number of rows to read
 * @param[out] block       the rows, possibly fewer than `max_rows`; `rows` is 0 at the end. Owned by the reader
 * @return BO_OK; BO_IO if reading fails; BO_FORMAT if the file is malformed
 */
BO_API bo_status bo_reader_next(bo_context *context, bo_reader *reader, size_t max_rows, bo_data_block *block);

/** Returns to the first row.
 *
 * @param context          the context
 * @param[in,out] reader   the reader
 * @return BO_OK; BO_IO if reading fails; BO_UNSUPPORTED for standard input
 */
BO_API bo_status bo_reader_rewind(bo_context *context, bo_reader *reader);

#endif

#ifdef __cplusplus
}
#endif
#endif
