/* Internals of a schema, and the source that it is fitted on. */
#ifndef BO_IO_SCHEMA_H
#define BO_IO_SCHEMA_H

#include "categories.h"
#include "reader.h"

typedef enum bo_column_kind {
    BO_COLUMN_NUMBER = 0,
    BO_COLUMN_CATEGORY = 1, /* one-hot */
    BO_COLUMN_TARGET = 2,
    BO_COLUMN_UNUSED = 3 /* ignored on request, or the label of libsvm text if the targets are in another file */
} bo_column_kind;

typedef struct bo_column {
    char *name; /* NULL: the file had no header */
    bo_column_kind kind;
    size_t first;             /* first column of x, or of y for a target */
    bo_categories categories; /* sorted */
    double fill;              /* replaces a missing number; NAN: missing numbers are errors */
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
    size_t numbers; /* pairs of libsvm text that were counted when the schema was fitted; 0: not counted */
    char **inputs, **target_names;
    char *input_text; /* the names that `inputs` points to */
    bo_categories classes;
};

bo_status bo_schema_new(bo_context *context, size_t columns, size_t targets, bo_schema **out);
/* Sets dim, the places of columns in x, and the names of inputs; kinds and categories must be set. */
bo_status bo_schema_finish(bo_context *context, bo_schema *schema);
bo_schema *bo_schema_retain(const bo_schema *schema);
/* Checks that the fractions leave rows for training. */
bo_status bo_split_check(bo_context *context, const bo_split_desc *desc);

/* The data file, and the file with the targets or NULL. */
typedef struct bo_source {
    bo_reader *data, *labels;
} bo_source;

/* True if the table or its labels are read from standard input. */
bool bo_data_is_standard_input(const bo_data_desc *desc);
/* The name of the table in messages. */
const char *bo_data_name(const bo_data_desc *desc);
bo_status bo_source_open(bo_context *context, const bo_data_desc *desc, size_t min_columns, bool spool, bo_source *out);
void bo_source_close(bo_source *source);
bo_status bo_source_rewind(bo_context *context, bo_source *source);
bo_status bo_schema_fit_source(bo_context *context, const bo_data_desc *desc, bo_source *source, bo_schema **out);

/* Columns of a comma-separated list of names or 0-based indices (negative: from the end). *out is freed with bo_free. */
bo_status bo_columns_resolve(bo_context *context, const bo_reader *reader, const char *list, const char *what,
                             size_t **out, size_t *count);

/* "train.csv: line 7, column 'price'", or "x.npy: row 6, column 3" (rows count from 0) if `line` is 0. */
enum { BO_PLACE_TEXT = 512 };
const char *bo_place(const bo_reader *reader, size_t row, size_t line, size_t column, char out[BO_PLACE_TEXT]);

#endif
