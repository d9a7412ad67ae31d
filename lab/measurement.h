/* One measurement of an experiment: its description, its context and random numbers, and the recording of numbers. */
#ifndef BO_LAB_MEASUREMENT_H
#define BO_LAB_MEASUREMENT_H

#include "../src/base/base.h"
#include "../src/base/rng.h"
#include "lab.h"

typedef struct lab_run lab_run;

typedef struct lab_experiment {
    bo_lab_experiment about;
    bo_status (*measure)(lab_run *run);
} lab_experiment;

#define LAB_COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))
#define LAB_CLAIMS(array)   .claims = (array), .claim_count = LAB_COUNT_OF(array)
#define LAB_TABLES(array)   .tables = (array), .table_count = LAB_COUNT_OF(array)

#define LAB_FEATURES      "Random features and attention"
#define LAB_DEGREE        "Degree and separation rank"
#define LAB_LEARNING      "Learning theory"
#define LAB_ARCHITECTURES "Architectures"

/* The documents that the project started from, for bo_lab_claim.passage. Lines are those of the text version. */
#define LAB_DRAFT  "draft on random Fourier features (founding document 000), "
#define LAB_NAVON  "Attention is optimal building block (founding document 001), "
#define LAB_NOTES  "course notes (founding document 002), "
#define LAB_REVIEW "review of Random Feature Attention (founding document 003), "
#define LAB_PAPERS "abstracts of four papers (founding document 004), "

/* ---- one measurement --------------------------------------------------------------------------------------------- */

/* The context of this seed: one thread, unless the experiment is timed. */
bo_context *lab_context(const lab_run *run);
uint64_t lab_seed(const lab_run *run);
size_t lab_index(const lab_run *run); /* index of the seed: 0, 1, … */
bool lab_quick(const lab_run *run);
size_t lab_size(const lab_run *run, size_t full, size_t quick); /* full, or quick in a quick run */
const bo_lab_options *lab_options(const lab_run *run);
/* A stream of random numbers for this seed and purpose. */
bo_rng lab_rng(const lab_run *run, const char *purpose);

/* Recording reports no errors to the caller. Errors (a name that is not in the description, out of memory) are reported
 * when the measurement ends. A claim accepts one number per seed, and so does a cell. NAN marks a missing number. */
void lab_claim(lab_run *run, const char *claim, double number);
/* Rows that are numbers, and rows that have names; a table has one kind. */
void lab_point(lab_run *run, const char *table, const char *column, double x, double value);
void lab_cell(lab_run *run, const char *table, const char *row, const char *column, double value);
/* A sentence for the report, from the first seed only: an observation that no claim covers. */
void lab_note(lab_run *run, const char *format, ...) BO_PRINTF(2, 3);
/* Reports the fraction done, 0 to 1. Returns BO_CANCELED if the run should stop. Call it regularly. */
bo_status lab_progress(lab_run *run, double done);

#endif
