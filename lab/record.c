/* The numbers of one seed, as recorded by the experiment. */
#include "internal.h"
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Cancels library calls that report progress themselves. */
static bool keep_running(void *user, const char *what, double done, double total)
{
    lab_job *job = user;
    (void)what, (void)done, (void)total;
    return !atomic_load(&job->stopped);
}

bo_status lab_run_open(lab_job *job, size_t index, lab_run *run)
{
    const bo_lab_experiment *about = &job->experiment->about;
    run->job = job;
    run->index = index;
    run->claims = bo_alloc(job->context, about->claim_count, sizeof *run->claims, "the numbers of claims");
    run->claimed = bo_alloc(job->context, about->claim_count, sizeof *run->claimed, "the numbers of claims");
    if (!run->claims || !run->claimed) return BO_MEMORY;
    for (size_t i = 0; i < about->claim_count; i++) run->claims[i] = NAN;
    run->context = job->context;
    if (about->timed) return BO_OK;
    BO_TRY(bo_context_branch(job->context, &run->context));
    bo_context_watch(run->context, keep_running, job);
    return BO_OK;
}

void lab_run_close(lab_run *run)
{
    for (size_t i = 0; i < run->record_count; i++) {
        bo_free(run->records[i].row);
        bo_free(run->records[i].column);
    }
    for (size_t i = 0; i < run->note_count; i++) bo_free(run->notes[i]);
    bo_free(run->records);
    bo_free(run->notes);
    bo_free(run->claims);
    bo_free(run->claimed);
    if (run->job && run->context != run->job->context) bo_context_destroy(run->context);
}

bo_status lab_run_check(lab_run *run)
{
    const bo_lab_experiment *about = &run->job->experiment->about;
    if (run->status != BO_OK) return run->status;
    for (size_t i = 0; i < about->claim_count; i++)
        if (!run->claimed[i]) return bo_fail(run->context, BO_INVALID, "claim %s has no number", about->claims[i].name);
    return BO_OK;
}

/* ---- queries of the experiment --------------------------------------------------------------- */

bo_context *lab_context(const lab_run *run)
{
    return run->context;
}

uint64_t lab_seed(const lab_run *run)
{
    return run->job->options.seed + run->index;
}

size_t lab_index(const lab_run *run)
{
    return run->index;
}

bool lab_quick(const lab_run *run)
{
    return run->job->options.quick;
}

size_t lab_size(const lab_run *run, size_t full, size_t quick)
{
    return lab_quick(run) ? quick : full;
}

const bo_lab_options *lab_options(const lab_run *run)
{
    return &run->job->options;
}

bo_rng lab_rng(const lab_run *run, const char *purpose)
{
    return bo_rng_make(lab_seed(run), bo_rng_stream(purpose, 0));
}

/* ---- recording ------------------------------------------------------------------------------- */

static void fail(lab_run *run, bo_status status)
{
    if (run->status == BO_OK) run->status = status;
}

void lab_claim(lab_run *run, const char *claim, double number)
{
    const int index = lab_find_claim(&run->job->experiment->about, claim);
    if (index < 0 || run->claimed[index]) {
        fail(run, bo_fail(run->context, BO_INVALID, "claim %s %s", claim,
                          index < 0 ? "is not described" : "has two numbers"));
        return;
    }
    run->claims[index] = number;
    run->claimed[index] = true;
}

/* Ensures capacity for one more item; the capacity doubles. */
static bool grow(lab_run *run, void **items, size_t count, size_t *capacity, size_t size)
{
    if (count < *capacity) return true;
    const size_t new_capacity = *capacity ? 2 * *capacity : 16;
    void *block = bo_realloc(run->context, *items, new_capacity, size, "the numbers of an experiment");
    if (!block) {
        fail(run, BO_MEMORY);
        return false;
    }
    *items = block;
    *capacity = new_capacity;
    return true;
}

static void record(lab_run *run, const char *table, const char *row, double x, const char *column, double value)
{
    const int index = lab_find_table(&run->job->experiment->about, table);
    if (index < 0) {
        fail(run, bo_fail(run->context, BO_INVALID, "table %s is not described", table));
        return;
    }
    if (!grow(run, (void **)&run->records, run->record_count, &run->record_capacity, sizeof *run->records)) return;
    lab_record *r = &run->records[run->record_count++];
    *r = (lab_record){.table = (size_t)index, .number = !row, .x = x, .value = value};
    if (row) r->row = bo_strdup(run->context, row);
    r->column = bo_strdup(run->context, column);
    if (!r->column || (row && !r->row)) fail(run, BO_MEMORY);
}

void lab_point(lab_run *run, const char *table, const char *column, double x, double value)
{
    record(run, table, NULL, x, column, value);
}

void lab_cell(lab_run *run, const char *table, const char *row, const char *column, double value)
{
    record(run, table, row, 0, column, value);
}

/* Ends a truncated text after a complete UTF-8 character. */
static void end_whole(char *text, size_t length)
{
    while (length > 0 && ((unsigned char)text[length] & 0xc0) == 0x80) length--;
    text[length] = 0;
}

void lab_note(lab_run *run, const char *format, ...)
{
    char text[2048];
    va_list arguments;
    if (run->index > 0) return;
    va_start(arguments, format);
    const int length = vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (length >= (int)sizeof text) end_whole(text, sizeof text - 4);
    if (!grow(run, (void **)&run->notes, run->note_count, &run->note_capacity, sizeof *run->notes)) return;
    run->notes[run->note_count] = bo_strdup(run->context, text);
    if (run->notes[run->note_count])
        run->note_count++;
    else
        fail(run, BO_MEMORY);
}

/* ---- progress -------------------------------------------------------------------------------- */

bo_status lab_job_progress(lab_job *job)
{
    double sum = 0;
    for (size_t i = 0; i < job->seeds; i++) sum += atomic_load(&job->runs[i].done);
    return bo_progress(job->context, job->experiment->about.name, sum / (double)job->seeds, 1);
}

bo_status lab_progress(lab_run *run, double done)
{
    lab_job *job = run->job;
    atomic_store(&run->done, done);
    if (!job->watched && lab_job_progress(job) != BO_OK) atomic_store(&job->stopped, true);
    if (atomic_load(&job->stopped)) return bo_fail(run->context, BO_CANCELED, "stopped");
    return BO_OK;
}
