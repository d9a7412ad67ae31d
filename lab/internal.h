/* The result of an experiment: numbers by seed, in the same form whether measured or read from a file. */
#ifndef BO_LAB_INTERNAL_H
#define BO_LAB_INTERNAL_H

#include "measurement.h"
#include "../src/io/json.h"
#include <stdatomic.h>

enum { LAB_MAX_SEEDS = 1000 };

/* ---- during a run ---------------------------------------------------------------------------- */

typedef struct lab_record {
    size_t table;
    bool number; /* the row is x */
    double x;
    char *row, *column; /* row: NULL if the row is a number */
    double value;
} lab_record;

/* Data shared by all seeds of a run. */
typedef struct lab_job {
    const lab_experiment *experiment;
    bo_lab_options options;
    bo_context *context; /* of the caller; only the caller's thread may report progress */
    lab_run *runs;
    size_t seeds;
    bool watched;        /* the caller's thread reports while others measure; otherwise the seeds report */
    atomic_bool stopped; /* canceled, or a seed has failed: the remaining seeds should stop */
} lab_job;

struct lab_run {
    lab_job *job;
    bo_context *context;
    size_t index;
    bo_status status; /* of recording */
    double *claims;   /* one number per claim; NAN until recorded */
    bool *claimed;
    lab_record *records;
    size_t record_count, record_capacity;
    char **notes;
    size_t note_count, note_capacity;
    _Atomic double done;
};

/* Creates a context for the seed, unless the experiment is timed. */
bo_status lab_run_open(lab_job *job, size_t index, lab_run *run);
void lab_run_close(lab_run *run);
/* Returns BO_OK or the recording error; a claim without a number is an error. */
bo_status lab_run_check(lab_run *run);
/* Reports the progress of all seeds to the caller's callback; called on the caller's thread. */
bo_status lab_job_progress(lab_job *job);
/* bo_lab_run for any experiment, including one that is not in the registry. */
bo_status lab_run_seeds(bo_context *context, const lab_experiment *experiment, const bo_lab_options *options,
                        bo_lab_result **out);
/* Measures every seed and sets the status of each. seed_threads.c: in parallel on threads, while the caller's thread
 * reports progress. */
bo_status lab_measure_seeds(lab_job *job, void (*measure)(lab_run *run));

/* ---- after a run ----------------------------------------------------------------------------- */

/* cells and values: rows x columns; values x seeds, NAN if a seed has none. */
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

/* Allocates claims and grids, with all numbers NAN and no rows. */
bo_status lab_result_create(bo_context *context, const lab_experiment *experiment, size_t seeds, bo_lab_result **out);
/* Stores a number in a table, which grows as rows and columns appear. row: NULL if the row is x. Returns BO_INVALID for
 * rows of both kinds, a NaN or infinite row, or a second number for a cell. */
bo_status lab_result_set(bo_context *context, bo_lab_result *result, size_t table, const char *row, double x,
                         const char *column, size_t seed, double value);
bo_status lab_result_note(bo_context *context, bo_lab_result *result, const char *note);
/* Sorts rows that are numbers and computes means, intervals and verdicts. Called once, at the end. */
bo_status lab_result_finish(bo_context *context, bo_lab_result *result);

/* A row that is a number, as text: integers in full, other numbers with four digits. */
enum { LAB_ROW_NAME = 32 };
const char *lab_row_name(double x, char out[LAB_ROW_NAME]);

/* Writes the text of a result file, without its checksum. */
void lab_result_text(const bo_lab_result *result, bo_json_text *out);
/* Parses it; `where` starts the error messages. */
bo_status lab_result_parse(bo_context *context, const char *where, const char *text, size_t length,
                           bo_lab_result **out);

/* Returns the index, or -1 if the name is unknown. */
int lab_find_claim(const bo_lab_experiment *experiment, const char *name);
int lab_find_table(const bo_lab_experiment *experiment, const char *name);

const lab_experiment *lab_at(size_t index); /* registry.c; NULL: past the last */
const lab_experiment *lab_find(const char *name);

#endif
