/* An experiment over its seeds, and what they say put together. */
#include "internal.h"
#include <string.h>

enum { SEEDS = 5, QUICK_SEEDS = 3, MOST_SEEDS = 1000 };

static bo_status measure(lab_run *run)
{
    BO_TRY(lab_progress(run, 0));
    BO_TRY(run->job->experiment->measure(run));
    BO_TRY(lab_run_check(run));
    return lab_progress(run, 1);
}

static void measure_task(void *arg, size_t index, int worker)
{
    lab_run *run = &((lab_job *)arg)->runs[index];
    (void)worker;
    run->status = measure(run);
}

/* Every seed on a context of its own, or, where time is measured, each with all of the caller's threads. */
static void measure_all(lab_job *job)
{
    if (!job->experiment->about.timed) {
        bo_parallel(job->context, job->seeds, measure_task, job);
        return;
    }
    for (size_t i = 0; i < job->seeds; i++) {
        measure_task(job, i, 0);
        if (job->runs[i].status != BO_OK) return;
    }
}

/* ---- putting together ------------------------------------------------------------------------------------------------------- */

static bo_status first_failure(const lab_job *job)
{
    for (size_t i = 0; i < job->seeds; i++) {
        const lab_run *run = &job->runs[i];
        if (run->status == BO_OK) continue;
        char message[1024] = "";
        strncat(message, bo_context_error(run->context), sizeof message - 1);
        return bo_fail(job->context, run->status, "%s, seed %llu: %s", job->experiment->about.name,
                       (unsigned long long)lab_seed(run), message[0] ? message : bo_status_string(run->status));
    }
    return BO_OK;
}

static bo_status gather_run(bo_context *context, const lab_run *run, bo_lab_result *result)
{
    for (size_t i = 0; i < run->job->experiment->about.claim_count; i++)
        result->claims[i * result->seeds + run->index] = run->claims[i];
    for (size_t i = 0; i < run->record_count; i++) {
        const lab_record *r = &run->records[i];
        BO_TRY(lab_result_put(context, result, r->table, r->row, r->x, r->column, run->index, r->value));
    }
    for (size_t i = 0; i < run->note_count; i++) BO_TRY(lab_result_note(context, result, run->notes[i]));
    return BO_OK;
}

static bo_status keep_name(bo_context *context, const char *path, char **out)
{
    if (!path) return BO_OK;
    const char *slash = strrchr(path, '/');
    *out = bo_strdup(context, slash && slash[1] ? slash + 1 : path);
    return *out ? BO_OK : BO_MEMORY;
}

static bo_status gather(lab_job *job, double seconds, bo_lab_result *result)
{
    bo_context *context = job->context;
    result->quick = job->options.quick;
    result->seed = job->options.seed;
    result->threads = bo_context_threads(context);
    result->seconds = seconds;
    BO_TRY(keep_name(context, job->options.text, &result->text));
    BO_TRY(keep_name(context, job->options.images, &result->images));
    BO_TRY(keep_name(context, bo_context_isa(context), &result->isa));
    BO_TRY(keep_name(context, bo_version(), &result->version));
    for (size_t i = 0; i < job->seeds; i++) BO_TRY(gather_run(context, &job->runs[i], result));
    return lab_result_finish(context, result);
}

/* ---- the run ------------------------------------------------------------------------------------------------------------------ */

static bo_status open_runs(lab_job *job)
{
    job->runs = bo_alloc(job->context, job->seeds, sizeof *job->runs, "the seeds of an experiment");
    if (!job->runs) return BO_MEMORY;
    for (size_t i = 0; i < job->seeds; i++) {
        bo_context *context = job->context;
        if (!job->experiment->about.timed) BO_TRY(bo_context_branch(job->context, &context));
        job->runs[i].context = context;
        BO_TRY(lab_run_open(job, i, context, &job->runs[i]));
    }
    return BO_OK;
}

static void close_runs(lab_job *job)
{
    for (size_t i = 0; job->runs && i < job->seeds; i++) {
        lab_run_close(&job->runs[i]);
        if (job->runs[i].context != job->context) bo_context_destroy(job->runs[i].context);
    }
    bo_free(job->runs);
}

static bo_status run_job(lab_job *job, bo_lab_result *result)
{
    BO_TRY(open_runs(job));
    const double start = bo_seconds();
    measure_all(job);
    BO_TRY(first_failure(job));
    return gather(job, bo_seconds() - start, result);
}

bo_status bo_lab_run(bo_context *context, const bo_lab_experiment *experiment, const bo_lab_options *options,
                     bo_lab_result **out)
{
    if (!out) return bo_fail(context, BO_INVALID, "a result has nowhere to go: out is NULL");
    *out = NULL;
    lab_job job = {.experiment = experiment ? lab_find(experiment->name) : NULL, .context = context};
    if (!job.experiment) return bo_fail(context, BO_INVALID, "there is no such experiment");
    if (options) job.options = *options;
    if (job.options.seed == 0) job.options.seed = 1;
    job.seeds = job.options.seeds ? job.options.seeds : job.options.quick ? QUICK_SEEDS : SEEDS;
    if (job.seeds > MOST_SEEDS)
        return bo_fail(context, BO_INVALID, "an experiment takes at most %d seeds, not %zu", MOST_SEEDS, job.seeds);
    job.caller = pthread_self();
    bo_lab_result *result;
    BO_TRY(lab_result_create(context, job.experiment, job.seeds, &result));
    const bo_status status = run_job(&job, result);
    close_runs(&job);
    if (status == BO_OK)
        *out = result;
    else
        bo_lab_result_destroy(result);
    return status;
}
