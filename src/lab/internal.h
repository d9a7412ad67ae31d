/* What a run of an experiment leaves: numbers by seed, in a form that is the same whether they were measured or read. */
#ifndef BO_LAB_RESULT_H
#define BO_LAB_RESULT_H

#include "lab.h"
#include <pthread.h>
#include <stdatomic.h>

/* ---- while it runs -------------------------------------------------------------------------------------------------------- */

typedef struct lab_record {
    size_t table;
    bool number; /* the row is x */
    double x;
    char *row, *column; /* row NULL where it is a number */
    double value;
} lab_record;

/* What all seeds of a run share. */
typedef struct lab_job {
    const lab_experiment *experiment;
    bo_lab_options options;
    bo_context *context; /* the caller's … */
    pthread_t caller;    /* … whose thread alone may report progress */
    lab_run *runs;
    size_t seeds;
    atomic_bool cancelled;
} lab_job;

struct lab_run {
    lab_job *job;
    bo_context *context;
    size_t index;
    bo_status status; /* of recording */
    double *claims;   /* a number each; NAN until there is one */
    bool *claimed;
    lab_record *records;
    size_t record_count, record_room;
    char **notes;
    size_t note_count, note_room;
    _Atomic double done;
};

bo_status lab_run_open(lab_job *job, size_t index, bo_context *context, lab_run *run);
void lab_run_close(lab_run *run);
/* BO_OK, or what recording met; a claim without a number is an error. */
bo_status lab_run_check(lab_run *run);

/* ---- afterwards ------------------------------------------------------------------------------------------------------------ */

/* cells and values: rows x columns, values x seeds with NAN where a seed has none. */
typedef struct lab_grid {
    size_t rows, columns;
    bool numbers;
    double *x;
    char **row_names, **column_names;
    double *values;
    bo_lab_cell *cells;
} lab_grid;

struct bo_lab_result {
    const lab_experiment *experiment;
    bool quick;
    size_t seeds;
    uint64_t seed;
    char *text, *images, *isa, *version;
    int threads;
    double seconds;
    double *claims; /* claim_count x seeds */
    bo_lab_outcome *outcomes;
    lab_grid *grids; /* table_count */
    char **notes;
    size_t note_count;
};

/* With room for claims and grids, all numbers NAN, no rows. */
bo_status lab_result_create(bo_context *context, const lab_experiment *experiment, size_t seeds, bo_lab_result **out);
/* A place in a table, which grows as rows and columns appear; `row` NULL: the row is x. BO_FORMAT: rows of both kinds. */
bo_status lab_result_put(bo_context *context, bo_lab_result *result, size_t table, const char *row, double x,
                         const char *column, size_t seed, double value);
bo_status lab_result_note(bo_context *context, bo_lab_result *result, const char *note);
/* Sorts rows that are numbers; computes means, intervals, verdicts. Once, at the end. */
bo_status lab_result_finish(bo_context *context, bo_lab_result *result);

/* Which one it is; -1: none. */
int lab_find_claim(const bo_lab_experiment *experiment, const char *name);
int lab_find_table(const bo_lab_experiment *experiment, const char *name);

const lab_experiment *lab_at(size_t index); /* registry.c; NULL: past the last */
const lab_experiment *lab_find(const char *name);

#endif
