/* The state of fitting a schema. targets.c observes targets, columns.c observes inputs and decides their kinds,
 * schema_fit.c reads the table. */
#ifndef BO_IO_SCHEMA_FIT_H
#define BO_IO_SCHEMA_FIT_H

#include <stdio.h>
#include "../base/rng.h"
#include "origins.h"
#include "schema.h"

enum {
    BO_AUTO_CLASSES = 20,        /* different integers that are classes */
    BO_MAX_ONE_HOT = 32,         /* values of a text column that is one-hot encoded by default */
    BO_MIN_UNIQUE_VALUES = 16,   /* a text column with more values, most of which occur once, contains names or ids */
    BO_MIN_NUMBERED_ROWS = 20,   /* rows of a table in which consecutive integers are row numbers */
    BO_SKETCH_COLUMNS = 1 << 15, /* maximum number of columns whose values are sampled for their origins */
    BO_MAX_INDEX_RATIO = 100     /* integers per row in the range of an index of selected rows */
};

/* A copy of a cell, for messages after the end of the table. */
typedef struct bo_noted_cell {
    size_t row, line;
    char text[64];
} bo_noted_cell;

/* Statistics of one input column from the passes over a table. */
typedef struct bo_collector {
    bool forced; /* categories were requested */
    bool kept;   /* the column was requested: it is used even if it looks like row numbers or names */
    bool late;   /* text after numbers and missing values: the categories need the second pass */
    size_t numbers, texts;
    double mean;    /* of the numbers */
    double *values; /* for the median: all values, or a reservoir */
    size_t stored, capacity;
    bo_rng rng;
    double low, high;    /* of the numbers */
    double from, to;     /* likewise, without zeros; from > to: there are no others */
    bool fraction;       /* some number is not an integer */
    uint64_t print;      /* sum of the hashes of the integers, which does not depend on their order */
    bool is_index;       /* the name is that of an index */
    bool names_rows;     /* the name is that of an index or an id */
    bool repeated;       /* such a column has a value twice */
    bo_categories first; /* its first values */
    size_t full_at;      /* values seen when the set of categories became full; 0: it is not */
    unsigned truths;     /* families of Booleans (bo_truth_read) that contain all texts, as a mask */
    size_t true_count;
    size_t dates[BO_DATE_FORMS]; /* texts that are a date in each form (bo_date_form) */
    bool has_time;
    double days[BO_DATE_FORMS];           /* sum of the dates in each form */
    bo_noted_cell no_date[BO_DATE_FORMS]; /* the first text that is not a date in this form */
    bo_noted_cell odd;                    /* the first text after numbers */
    size_t missing_texts, infinite;       /* number of texts that are bo_is_missing_text, and of infinite numbers */
    bo_noted_cell first_missing, first_infinite, first_number;
} bo_collector;

typedef struct bo_fit {
    const bo_data_desc *desc;
    bo_schema *schema;
    bo_collector *collectors;
    bo_value_sketch *sketches; /* of the columns; NULL: there are too many */
    size_t *target_columns;    /* in the data file; NULL: none */
    bool refuse_text, second_pass;
    bo_categories ambiguous_labels; /* texts that are classes or missing values (bo_is_missing_text) */
    bool unlabeled, ambiguous;      /* the target of the current row is missing, or ambiguous */
    size_t ambiguous_rows;
    size_t infinite; /* targets that are infinite if they are numbers, or names of classes */
    bo_noted_cell first_infinite;
} bo_fit;

/* A cell and its place. */
typedef struct bo_cell {
    const bo_reader *reader;
    size_t row, line, column;
    double value;
    const char *text; /* NULL: a number or a missing value */
} bo_cell;

static inline bo_cell bo_block_cell(const bo_reader *reader, const bo_data_block *block, size_t row, size_t column)
{
    const size_t i = row * block->columns + column;
    return (bo_cell){.reader = reader,
                     .row = block->first_row + row,
                     .line = block->lines ? block->lines[row] : 0,
                     .column = column,
                     .value = block->cells[i],
                     .text = block->text ? block->text[i] : NULL};
}
static inline const char *bo_cell_place(const bo_cell *cell, char out[BO_PLACE_TEXT])
{
    return bo_place(cell->reader, cell->row, cell->line, cell->column, out);
}

/* Copies the first of several cells. */
static inline void bo_note_cell(bo_noted_cell *note, const bo_cell *cell)
{
    if (note->text[0]) return;
    *note = (bo_noted_cell){.row = cell->row, .line = cell->line};
    snprintf(note->text, sizeof note->text, "%.60s", cell->text);
}

/* ---- targets.c: classes, and rows without a target --------------------------------------------------------------- */

bo_status bo_target_observe(bo_context *context, bo_fit *fit, const bo_cell *cell);
/* Counts the row whose targets were observed. */
void bo_target_end_row(bo_fit *fit);
/* Integers in an IDX file are classes. */
void bo_target_decide_by_format(bo_schema *schema, const bo_reader *reader);
/* Reads the targets of a separate file. */
bo_status bo_target_fit_labels(bo_context *context, bo_fit *fit, bo_reader *labels);
/* Decides the task and the classes after all rows. */
bo_status bo_target_settle(bo_context *context, bo_fit *fit, const bo_reader *reader);

/* ---- columns.c: inputs ------------------------------------------------------------------------------------------- */

/* Notes the hints in the name of a column. */
void bo_column_name_rows(const bo_reader *reader, size_t column, bo_collector *collector);
bo_status bo_column_observe(bo_context *context, bo_fit *fit, const bo_cell *cell);
/* Adds the value of a cell to the categories of its column. */
bo_status bo_column_observe_label(bo_context *context, bo_fit *fit, const bo_cell *cell);
/* Decides the kinds of all inputs and the replacements of missing values. */
bo_status bo_columns_settle(bo_context *context, bo_fit *fit, const bo_reader *reader);

#endif
