/* Inside of a schema, and the source it is fitted on. */
#ifndef BO_IO_SCHEMA_H
#define BO_IO_SCHEMA_H

#include "categories.h"
#include "reader.h"

typedef enum bo_column_kind {
    BO_COLUMN_NUMBER = 0,
    BO_COLUMN_CATEGORY = 1, /* one-hot */
    BO_COLUMN_TARGET = 2,
    BO_COLUMN_UNUSED = 3 /* the label of libsvm text whose targets come from elsewhere */
} bo_column_kind;

typedef struct bo_column {
    char *name; /* NULL: the file had no header */
    bo_column_kind kind;
    size_t first;             /* first column of x, or of y for a target */
    bo_categories categories; /* sorted */
    double fill;              /* stands in for a missing number; NAN: missing numbers are refused */
} bo_column;

/* Immutable once made, shared by counting references. `columns` are those of the data file, in its order; the targets are
 * among them unless they came from a file of their own. */
struct bo_schema {
    int references; /* touched with __atomic builtins only */
    bo_format format;
    bool named, common_unit, separate_labels;
    bo_task task; /* AUTO: there is no target */
    bo_impute impute;
    size_t column_count;
    bo_column *columns;
    size_t dim, targets, rows;
    char **inputs, **target_names;
    bo_categories classes;
};

bo_status bo_schema_new(bo_context *context, size_t columns, size_t targets, bo_schema **out);
/* After kinds and categories are set: dim, places of the columns in x, names of x. */
bo_status bo_schema_finish(bo_context *context, bo_schema *schema);
bo_schema *bo_schema_retain(const bo_schema *schema);
/* Shares that leave some rows for training. */
bo_status bo_split_check(bo_context *context, const bo_split_desc *desc);

/* The data file and, perhaps, the file with the targets. */
typedef struct bo_source {
    bo_reader *data, *labels;
} bo_source;

/* Does the table or its labels come from standard input? */
bool bo_data_is_standard_input(const bo_data_desc *desc);
/* What messages call the table. */
const char *bo_data_name(const bo_data_desc *desc);
bo_status bo_source_open(bo_context *context, const bo_data_desc *desc, size_t min_columns, bool spool, bo_source *out);
void bo_source_close(bo_source *source);
bo_status bo_source_rewind(bo_context *context, bo_source *source);
bo_status bo_schema_fit_source(bo_context *context, const bo_data_desc *desc, bo_source *source, bo_schema **out);

/* Columns of a comma-separated list of names or 0-based indices (negative: from the end). *out is freed with bo_free. */
bo_status bo_columns_resolve(bo_context *context, const bo_reader *reader, const char *list, const char *what,
                             size_t **out, size_t *count);

/* "train.csv: line 7, column 'price'", or "x.npy: row 6, column 3" (rows count from 0). `line` 0: no lines. */
enum { BO_PLACE_TEXT = 512 };
const char *bo_place(const bo_reader *reader, size_t row, size_t line, size_t column, char out[BO_PLACE_TEXT]);

#endif
