/* Internals of a schema, and the source that it is fitted on. schema.c has the object, schema_json.c its text in model
 * files, schema_fit.c fits it to a table with columns.c (which decides the kind of each column) and codes.c (target
 * encoding, with the linear model of adjust.c). */
#ifndef BO_IO_SCHEMA_H
#define BO_IO_SCHEMA_H

#include "categories.h"
#include "dates.h"
#include "reader.h"

enum { BO_DATE_SHARE = 100 }; /* of this many cells, at most one is invalid in a column of dates */

typedef enum bo_column_kind {
    BO_COLUMN_NUMBER = 0,
    BO_COLUMN_CATEGORY = 1, /* one-hot */
    BO_COLUMN_TARGET = 2,
    BO_COLUMN_UNUSED = 3,  /* see bo_column.why */
    BO_COLUMN_BOOLEAN = 4, /* 0 or 1 */
    BO_COLUMN_DATE = 5,    /* year, day of the year, weekday and perhaps hour */
    BO_COLUMN_ENCODED = 6, /* target-encoded */
    BO_COLUMN_WEIGHT = 7,
    BO_COLUMN_GROUP = 8,
    BO_COLUMN_KINDS
} bo_column_kind;

typedef struct bo_column {
    char *name; /* NULL: the file had no header */
    bo_column_kind kind;
    size_t first;             /* first column of x, or of y for a target */
    bo_categories categories; /* of one-hot and target-encoded columns; sorted */
    double origin;            /* NUMBER: x is the difference from it */
    double fill;              /* replaces a missing number, Boolean or date (in days); NAN: missing values are errors */
    bool indicator;           /* the last input of the column is 1 where the value is missing */
    size_t missing;           /* missing values in the training data */
    size_t values;            /* distinct values of an omitted text column */
    bo_omission why;          /* UNUSED */
    bo_date_form date;        /* DATE */
    bool has_time;            /* DATE: the hour is an input */
    /* ENCODED: (categories + 1) x width codes; the last row is for missing and unknown values. NULL while the schema is
     * fitted: the index of the category is the only input. */
    double *codes;
    double *fold_codes; /* ENCODED: folds x (categories + 1) x width codes that exclude the rows of a fold; or NULL */
} bo_column;

/* Immutable after creation, shared by reference counting. `columns` are the columns of the data file, in its order,
 * including the targets unless they are in a separate file. */
struct bo_schema {
    int references; /* accessed with __atomic builtins only */
    bo_format format;
    bool named, common_unit, separate_labels;
    bo_task task; /* AUTO: no target */
    bo_impute impute;
    size_t column_count;
    bo_column *columns;
    size_t dim, targets, rows;
    size_t unlabeled; /* rows without a target, which are omitted */
    size_t numbers;   /* pairs of libsvm text that were counted when the schema was fitted; 0: not counted */
    char **inputs, **target_names;
    char *input_text; /* the names that `inputs` points to */
    double *origins;  /* of the inputs; NULL: all 0 */
    bo_categories classes;
    const char **class_names; /* point to the classes; followed by NULL, as inputs and target_names are */
    bo_schema_info info;
    size_t folds;       /* of the codes for training rows; 0: none */
    uint64_t fold_seed; /* decides the fold of a row */
};

bo_status bo_schema_new(bo_context *context, size_t columns, size_t targets, bo_schema **out);
/* Sets dim, the places of columns in x, and the names and origins of inputs; kinds and categories must be set. May be
 * called again. */
bo_status bo_schema_finish(bo_context *context, bo_schema *schema);
/* Fills in the description of a schema, after its last change. */
bo_status bo_schema_note(bo_context *context, bo_schema *schema);
bo_schema *bo_schema_retain(const bo_schema *schema);
/* Number of columns of x for a column of the file, without its indicator. */
size_t bo_column_width(const bo_schema *schema, const bo_column *column);
static inline bool bo_column_is_input(const bo_column *column)
{
    return column->kind == BO_COLUMN_NUMBER || column->kind == BO_COLUMN_CATEGORY ||
           (column->kind >= BO_COLUMN_BOOLEAN && column->kind <= BO_COLUMN_ENCODED);
}
/* Codes of a target-encoded column: one per target, one for two classes, otherwise one per class. */
size_t bo_schema_code_width(const bo_schema *schema);
/* Parts of a schema by index; NULL (an origin: NAN) beyond the last one. */
const char *bo_schema_input(const bo_schema *schema, size_t index);
const char *bo_schema_target(const bo_schema *schema, size_t index);
const char *bo_schema_class(const bo_schema *schema, size_t index);
double bo_schema_origin(const bo_schema *schema, size_t index);
size_t bo_schema_classes(const bo_schema *schema);
bool bo_schema_is_sparse(const bo_schema *schema);
/* 1 or 0 for true, yes, t, y or false, no, f, n; -1 for other text. *family: which pair (0 to 3). Case is ignored. */
int bo_truth_read(const char *text, int *family);

/* Checks that the fractions leave rows for training. */
bo_status bo_split_check(bo_context *context, const bo_split_desc *desc);

/* The data file, and the file with the targets or NULL. */
typedef struct bo_data_input {
    bo_reader *data, *labels;
} bo_data_input;

/* Writes a schema as JSON text, followed by a NUL that *size does not count, and reads it. folds: includes the codes
 * for training rows. */
bo_status bo_schema_write(bo_context *context, const bo_schema *schema, bool folds, void **bytes, size_t *size);
bo_status bo_schema_parse(bo_context *context, const char *text, size_t size, bo_schema **out);

/* True if the table or its labels are read from standard input. */
bool bo_data_is_standard_input(const bo_data_desc *desc);
/* The name of the table in messages. */
const char *bo_data_name(const bo_data_desc *desc);
bo_status bo_data_input_open(bo_context *context, const bo_data_desc *desc, size_t min_columns, bool spool,
                             bo_data_input *out);
void bo_data_input_close(bo_data_input *source);
bo_status bo_data_input_rewind(bo_context *context, bo_data_input *source);
/* Fits a schema. Only the training rows of `split` (NULL: all rows) decide the codes of target-encoded columns. */
bo_status bo_schema_fit_source(bo_context *context, const bo_data_desc *desc, bo_data_input *source,
                               const bo_split_desc *split, bo_schema **out);
/* Computes the codes of target-encoded columns in two passes over the rows, and completes the schema. The source is
 * read from its start. */
bo_status bo_schema_encode(bo_context *context, const bo_data_desc *desc, bo_data_input *source,
                           const bo_split_desc *split, bo_schema *schema);
/* The fold of a training row, by its number in the file. */
size_t bo_schema_fold(const bo_schema *schema, size_t row);
/* bo_data_load() for the first file of a table: held-out rows of `split` do not influence the codes. */
bo_status bo_data_load_split(bo_context *context, const bo_data_desc *desc, const bo_schema *schema,
                             const bo_split_desc *split, bo_data **out);

/* Columns of a comma-separated list of names or 0-based indices (negative: from the end). *out is freed with
 * bo_free. */
bo_status bo_columns_resolve(bo_context *context, const bo_reader *reader, const char *list, const char *what,
                             size_t **out, size_t *count);

/* "train.csv: line 7, column 'price'", or "x.npy: row 6, column 3" (rows count from 0) if `line` is 0. */
enum { BO_PLACE_TEXT = 512 };
const char *bo_place(const bo_reader *reader, size_t row, size_t line, size_t column, char out[BO_PLACE_TEXT]);

#endif
