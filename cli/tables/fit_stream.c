/* bochner fit --stream, and fits on several ranks: sums over blocks of rows, in memory that does not grow with the
 * number of rows. */
#include "fit.h"
#include <stdlib.h>
#include <string.h>

enum { BLOCK = 4096, BLOCK_NUMBERS = 1 << 24 }; /* rows of a block, and numbers of a dense one at most */

static bool failed(cli_fit_job *job, bo_status status)
{
    if (status != BO_OK) cli_fail_status(job->session, status);
    return status != BO_OK;
}

/* Rank 0 reads the schema and broadcasts it. */
static bool share_schema(cli_fit_job *job)
{
    cli_session *session = job->session;
    void *json = NULL;
    size_t size = 0;
    if (session->ranks.rank == 0) {
        if (failed(job, bo_schema_fit(session->context, &job->source, &job->schema))) return false;
        if (session->ranks.size < 2) return true;
        if (failed(job, bo_schema_share(session->context, job->schema, &(bo_sink){.bytes = &json, .size = &size})))
            return false;
    }
    bool ok = cli_ranks_broadcast(&session->ranks, &size, sizeof size);
    char *copy = cli_allocate(size, 1, "schema");
    if (json) memcpy(copy, json, size);
    ok = ok && cli_ranks_broadcast(&session->ranks, copy, size);
    bo_free(json);
    if (!ok) cli_fail(session, "the schema could not be sent to all ranks");
    if (ok && session->ranks.rank > 0)
        ok = !failed(job, bo_schema_load(session->context, &(bo_source){.bytes = copy, .size = size}, &job->schema));
    free(copy);
    return ok;
}

typedef struct sample {
    float *x; /* NULL: sparse */
    double *y;
    float *weights; /* NULL: all 1 */
    size_t rows;
    bo_data *sparse; /* on one rank */
} sample;

/* Sparse blocks are read on one rank: ranks exchange a dense sample. */
static bool is_sparse(const cli_fit_job *job)
{
    return job->source.data.sparse && job->session->ranks.size == 1 && bo_schema_describe(job->schema)->sparse;
}

static bool sample_sparse(cli_fit_job *job, sample *out)
{
    if (failed(job, bo_table_sample_sparse(job->session->context, &job->source, job->schema, job->options->sample,
                                           &out->sparse)))
        return false;
    job->sample = out->sparse->sparse;
    out->rows = out->sparse->rows;
    return true;
}

/* Rank 0 samples the rows for the choice of γ, the scaling and the grid of λ, so that all ranks build the same map. */
static bool share_sample(cli_fit_job *job, const size_t *counts, sample *out)
{
    cli_session *session = job->session;
    size_t dim = bo_schema_describe(job->schema)->inputs, targets = bo_schema_describe(job->schema)->targets,
           sample_rows = job->options->sample;
    if (session->ranks.rank == 0) {
        size_t all = 0;
        for (size_t i = 0; i < job->source.files; i++) all += counts[i];
        if (sample_rows > all) sample_rows = all;
    }
    if (!cli_ranks_broadcast(&session->ranks, &sample_rows, sizeof sample_rows)) return false;
    out->x = cli_allocate(sample_rows * dim, sizeof(float), "a sample of the rows");
    out->y = cli_allocate(sample_rows * targets, sizeof(double), "a sample of the rows");
    if (job->options->weights) out->weights = cli_allocate(sample_rows, sizeof(float), "a sample of the rows");
    if (session->ranks.rank == 0 && failed(job, bo_table_sample(session->context, &job->source, job->schema, counts,
                                                                sample_rows, out->x, out->y, out->weights, &out->rows)))
        return false;
    return cli_ranks_broadcast(&session->ranks, &out->rows, sizeof out->rows) &&
           (!out->weights || cli_ranks_broadcast(&session->ranks, out->weights, out->rows * sizeof(float))) &&
           cli_ranks_broadcast(&session->ranks, out->x, out->rows * dim * sizeof(float)) &&
           cli_ranks_broadcast(&session->ranks, out->y, out->rows * targets * sizeof(double));
}

static bo_samples samples_of(const cli_fit_job *job, size_t rows, const float *x, const bo_sparse *sparse,
                             const double *y, const float *weights)
{
    return (bo_samples){.rows = rows,
                        .dim = bo_schema_describe(job->schema)->inputs,
                        .targets = bo_schema_describe(job->schema)->targets,
                        .x = x,
                        .y = y,
                        .classes = bo_schema_describe(job->schema)->classes,
                        .weights = weights,
                        .common_unit = bo_schema_describe(job->schema)->common_unit,
                        .schema = job->schema,
                        .sparse = sparse};
}

/* Rows of a dense block: fewer if rows are long. */
static size_t block_rows(size_t dim)
{
    const size_t max_rows = BLOCK_NUMBERS / dim + 1;
    return max_rows < BLOCK ? max_rows : BLOCK;
}

static bo_status add_rows(cli_fit_job *job, bo_fitting *fitting, double expected)
{
    cli_session *session = job->session;
    const bo_schema_info *schema = bo_schema_describe(job->schema);
    const size_t dim = schema->inputs, max_rows = is_sparse(job) ? BLOCK : block_rows(dim);
    bo_table_rows rows = {.x = is_sparse(job) ? NULL : cli_allocate(max_rows * dim, sizeof(float), "a block of rows"),
                          .y = cli_allocate(max_rows * schema->targets, sizeof(double), "a block of rows")};
    bo_table *table = NULL;
    bo_table_desc part = job->source;
    part.rank = (size_t)session->ranks.rank, part.ranks = (size_t)session->ranks.size;
    size_t done = 0;
    bo_status status = bo_table_open(session->context, &part, job->schema, BO_SPLIT_TRAIN, &table);
    while (status == BO_OK) {
        status = bo_table_next(session->context, table, max_rows, &rows);
        if (status != BO_OK || rows.rows == 0) break;
        bo_samples block = samples_of(job, rows.rows, rows.x, rows.x ? NULL : &rows.sparse, rows.y, rows.weights);
        status = cli_interrupted() ? BO_CANCELED : bo_fitting_add(session->context, fitting, &block);
        done += rows.rows;
        cli_progress_report(&session->progress, "reading rows", (double)done, expected);
    }
    bo_table_close(table);
    free(rows.x);
    free(rows.y);
    job->read = done;
    return status;
}

/* Every pass must read the same rows. With several ranks, each rank reads a part. */
static bool check_unchanged(cli_fit_job *job, size_t rows)
{
    if (job->session->ranks.size > 1 || rows == job->rows) return true;
    cli_fail(job->session,
             "%s%s changed while the fit read the rows: expected %zu rows as before, found %zu; run the fit again when "
             "no program writes to the data",
             job->source.paths[0], job->source.files > 1 ? " or another file" : "", job->rows, rows);
    return false;
}

static bool fit_blocks(cli_fit_job *job, const sample *chosen, double expected)
{
    cli_session *session = job->session;
    bo_samples samples = samples_of(job, chosen->rows, chosen->x, job->sample,
                                    job->sample ? chosen->sparse->y : chosen->y, chosen->weights);
    bo_fitting *fitting = NULL;
    bo_status status = bo_fitting_create(session->context, &job->desc, &samples, &fitting);
    if (status == BO_OK) status = add_rows(job, fitting, expected);
    if (status == BO_OK && session->ranks.size > 1) {
        bo_collective collective = cli_ranks_collective(&session->ranks);
        status = bo_fitting_reduce(session->context, fitting, &collective);
    }
    if (status == BO_OK && session->ranks.rank == 0)
        status = bo_fitting_finish(session->context, fitting, &job->machine);
    bo_fitting_destroy(fitting);
    return !failed(job, status) && (job->options->holdout > 0 || check_unchanged(job, job->read));
}

/* ---- the test ---------------------------------------------------------------------------------------------------- */

/* The rows of the test file, or those that are held out. */
static bo_status open_test(cli_fit_job *job, bo_table **table)
{
    const bo_table_desc desc = {.data = {.path = job->options->test,
                                         .format = job->options->format,
                                         .labels = job->options->test_labels,
                                         .target = job->options->target,
                                         .impute = job->options->impute,
                                         .categorical = job->options->categorical},
                                .other_rows = true};
    bo_context *context = job->session->context;
    return job->options->test ? bo_table_open(context, &desc, job->schema, BO_SPLIT_ALL, table)
                              : bo_table_open(context, &job->source, job->schema, BO_SPLIT_TEST, table);
}

static bo_status evaluate_block(cli_fit_job *job, const bo_table_rows *rows)
{
    const bo_inputs inputs = {.rows = rows->rows, .x = rows->x, .sparse = rows->x ? NULL : &rows->sparse};
    return bo_machine_evaluate(job->session->context, job->machine, &inputs, rows->y, job->metrics);
}

/* Reads the test rows and evaluates the machine on them. Without a machine it only checks the file. */
static bool pass_test(cli_fit_job *job)
{
    cli_session *session = job->session;
    const bo_schema_info *schema = bo_schema_describe(job->schema);
    size_t done = 0;
    bo_table *table = NULL;
    bo_status status = open_test(job, &table);
    const bool sparse = is_sparse(job) && status == BO_OK && bo_table_describe(table)->sparse;
    const size_t max_rows = sparse ? BLOCK : block_rows(schema->inputs);
    bo_table_rows rows = {.x =
                              sparse ? NULL : cli_allocate(max_rows * schema->inputs, sizeof(float), "a block of rows"),
                          .y = cli_allocate(max_rows * schema->targets, sizeof(double), "a block of rows")};
    while (status == BO_OK) {
        status = bo_table_next(session->context, table, max_rows, &rows);
        if (status != BO_OK || rows.rows == 0) break;
        done += rows.rows;
        if (cli_interrupted())
            status = BO_CANCELED;
        else if (job->machine)
            status = evaluate_block(job, &rows);
        if (job->machine) cli_progress_report(&session->progress, "testing", (double)done, 0);
    }
    bo_table_close(table);
    free(rows.x);
    free(rows.y);
    if (failed(job, status)) return false;
    if (!job->options->test && !check_unchanged(job, job->read + done)) return false;
    if (done > 0) return true;
    cli_fail(session, "%s: expected rows to test with, found none",
             job->options->test ? job->options->test : job->source.paths[0]);
    return false;
}

bool cli_fit_stream_test(cli_fit_job *job)
{
    if (!job->options->test && !(job->options->holdout > 0)) return true;
    if (!cli_metrics_create(job->session, job->machine, &job->metrics)) return false;
    return pass_test(job);
}

bool cli_fit_stream(cli_fit_job *job)
{
    cli_session *session = job->session;
    if (!share_schema(job) || !cli_fit_length_scales(job)) return false;
    bool first = session->ranks.rank == 0;
    if (first && job->options->test && !pass_test(job)) return false;
    size_t *counts = cli_allocate(job->source.files, sizeof(size_t), "row counts");
    bool ok = !first || !failed(job, bo_table_count(session->context, &job->source, job->schema, counts));
    size_t all = 0;
    for (size_t i = 0; i < job->source.files; i++) all += counts[i];
    if (!cli_ranks_broadcast(&session->ranks, &all, sizeof all)) ok = false;
    job->rows = all;
    double learned = (double)all * (1 - job->options->holdout);
    job->desc.stream_rows = (size_t)learned;
    sample chosen = {0};
    if (ok && is_sparse(job)) ok = sample_sparse(job, &chosen);
    ok = ok && (!first || cli_fit_plan(job, (size_t)learned));
    if (ok && !chosen.sparse) ok = share_sample(job, counts, &chosen);
    ok = ok && fit_blocks(job, &chosen, learned / session->ranks.size);
    bo_data_destroy(chosen.sparse);
    job->sample = NULL;
    free(chosen.x);
    free(chosen.y);
    free(chosen.weights);
    free(counts);
    return ok;
}
