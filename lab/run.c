/* Runs an experiment for all seeds and combines the results. */
#include "internal.h"
#include <string.h>

static bo_status measure_to_the_end(lab_run *run)
{
    BO_TRY(lab_progress(run, 0));
    BO_TRY(run->job->experiment->measure(run));
    BO_TRY(lab_run_check(run));
    return lab_progress(run, 1);
}

static void measure(lab_run *run)
{
    run->status = measure_to_the_end(run);
    if (run->status != BO_OK) atomic_store(&run->job->stopped, true);
}

/* In parallel; if time is measured, one after another with all of the caller's threads. */
static bo_status measure_all(lab_job *job)
{
    if (!job->experiment->about.timed) return lab_measure_seeds(job, measure);
    for (size_t i = 0; i < job->seeds; i++)
        if (atomic_load(&job->stopped)) /* the context keeps the message of the failed seed */
            job->runs[i].status = BO_CANCELED;
        else
            measure(&job->runs[i]);
    return BO_OK;
}

/* ---- combining seeds ------------------------------------------------------------------------- */

/* The first seed that failed. Seeds that were stopped because of it, or canceled, count only if no other seed failed.
 */
static const lab_run *find_failure(const lab_job *job)
{
    const lab_run *found = NULL;
    for (size_t i = 0; i < job->seeds; i++) {
        const lab_run *run = &job->runs[i];
        if (run->status != BO_OK && run->status != BO_CANCELED) return run;
        if (run->status != BO_OK && !found) found = run;
    }
    return found;
}

static bo_status first_failure(const lab_job *job)
{
    const lab_run *run = find_failure(job);
    const char *name = job->experiment->about.name;
    if (!run) return BO_OK;
    if (run->status == BO_CANCELED) return bo_fail(job->context, BO_CANCELED, "%s was canceled", name);
    const char *message = bo_context_error(run->context);
    return bo_fail(job->context, run->status, "%s, seed %llu: %s", name, (unsigned long long)lab_seed(run),
                   *message ? message : bo_status_string(run->status));
}

static bo_status gather_run(bo_context *context, const lab_run *run, bo_lab_result *result)
{
    for (size_t i = 0; i < run->job->experiment->about.claim_count; i++)
        result->claims[i * result->seeds + run->index] = run->claims[i];
    for (size_t i = 0; i < run->record_count; i++) {
        const lab_record *r = &run->records[i];
        BO_TRY(lab_result_set(context, result, r->table, r->row, r->x, r->column, run->index, r->value));
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
    result->threads = bo_context_describe(context)->threads;
    result->seconds = seconds;
    BO_TRY(keep_name(context, job->options.text, &result->text));
    BO_TRY(keep_name(context, job->options.images, &result->images));
    BO_TRY(keep_name(context, bo_context_describe(context)->isa, &result->isa));
    BO_TRY(keep_name(context, bo_version(), &result->version));
    for (size_t i = 0; i < job->seeds; i++) BO_TRY(gather_run(context, &job->runs[i], result));
    return lab_result_finish(context, result);
}

/* ---- the run --------------------------------------------------------------------------------- */

static bo_status open_runs(lab_job *job)
{
    job->runs = bo_alloc(job->context, job->seeds, sizeof *job->runs, "the seeds of an experiment");
    if (!job->runs) return BO_MEMORY;
    for (size_t i = 0; i < job->seeds; i++) BO_TRY(lab_run_open(job, i, &job->runs[i]));
    return BO_OK;
}

static void close_runs(lab_job *job)
{
    for (size_t i = 0; job->runs && i < job->seeds; i++) lab_run_close(&job->runs[i]);
    bo_free(job->runs);
}

static bo_status run_job(lab_job *job, bo_lab_result *result)
{
    BO_TRY(open_runs(job));
    const double start = bo_seconds();
    BO_TRY(measure_all(job));
    BO_TRY(first_failure(job));
    return gather(job, bo_seconds() - start, result);
}

bo_status lab_run_seeds(bo_context *context, const lab_experiment *experiment, const bo_lab_options *options,
                        bo_lab_result **out)
{
    lab_job job = {.experiment = experiment, .context = context};
    if (options) job.options = *options;
    if (job.options.seed == 0) job.options.seed = 1;
    if (!experiment->about.text) job.options.text = NULL;
    if (!experiment->about.images) job.options.images = NULL;
    job.seeds = job.options.seeds ? job.options.seeds : job.options.quick ? BO_LAB_QUICK_SEEDS : BO_LAB_SEEDS;
    if (job.seeds > LAB_MAX_SEEDS)
        return bo_fail(context, BO_INVALID, "expected at most %d seeds, found %zu", LAB_MAX_SEEDS, job.seeds);
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

bo_status bo_lab_run(bo_context *context, const bo_lab_experiment *experiment, const bo_lab_options *options,
                     bo_lab_result **out)
{
    if (!out) return bo_fail(context, BO_INVALID, "out must not be NULL");
    *out = NULL;
    const lab_experiment *found = experiment ? lab_find(experiment->name) : NULL;
    if (!found) return bo_fail(context, BO_INVALID, "unknown experiment");
    return lab_run_seeds(context, found, options, out);
}
