/* bochner embed: principal components of a table in feature space, and coordinates of rows along them. */
#include "../common/columns.h"
#include "embed.h"
#include "columns_line.h"
#include "../common/spool.h"
#include "../common/paths.h"
#include "../common/predictions.h"
#include <stdlib.h>
#include <string.h>

enum { BLOCK = 4096, BLOCK_NUMBERS = 1 << 24 }; /* rows of a block, and numbers of it at most */

typedef struct embed_job {
    cli_session *session;
    const cli_embed_options *options;
    bo_table_desc source;
    bo_data *data;     /* in memory; NULL: the table is read in blocks */
    bo_schema *schema; /* owned unless data is set */
    bo_embedding *embedding;
    cli_predictions coordinates, pre_images;
    double *c, *error, *x, *row; /* of a block */
    cli_embed_result result;
} embed_job;

static bool failed(embed_job *job, bo_status status)
{
    if (status != BO_OK) cli_fail_status(job->session, status);
    return status != BO_OK;
}

static const bo_schema *schema_of(const embed_job *job)
{
    return job->data ? job->data->schema : job->schema;
}

static size_t block_rows(const embed_job *job)
{
    const size_t fitting_rows = BLOCK_NUMBERS / bo_schema_describe(schema_of(job))->inputs + 1;
    return fitting_rows < BLOCK ? fitting_rows : BLOCK;
}

/* ---- fitting ----------------------------------------------------------------------------------------------------- */

static bo_embedding_desc describe(const embed_job *job)
{
    const cli_embed_options *o = job->options;
    return (bo_embedding_desc){.components = o->components,
                               .features = {.kernel = o->kernel,
                                            .function = o->function,
                                            .draw = o->draw,
                                            .features = o->features,
                                            .gamma = o->gamma,
                                            .alpha = o->alpha,
                                            .degree = (int)o->degree},
                               .scaling = o->scaling,
                               .precision = o->precision,
                               .memory = o->memory,
                               .seed = job->session->common.seed};
}

static bool fit_in_memory(embed_job *job)
{
    bo_context *context = job->session->context;
    if (failed(job, bo_table_load(context, &job->source, &job->data, NULL, NULL))) return false;
    const bo_embedding_desc desc = describe(job);
    const bo_samples rows = {.rows = job->data->rows,
                             .dim = job->data->dim,
                             .x = job->data->x,
                             .common_unit = bo_schema_describe(job->data->schema)->common_unit,
                             .schema = job->data->schema};
    return !failed(job, bo_embedding_fit(context, &desc, &rows, &job->embedding));
}

typedef bo_status (*block_fn)(embed_job *job, void *user, size_t rows, const float *x);

/* Calls `use` for each block of rows of the files. */
static bo_status pass(embed_job *job, const char *what, block_fn use, void *user)
{
    cli_session *session = job->session;
    const size_t dim = bo_schema_describe(schema_of(job))->inputs, each = block_rows(job);
    float *x = cli_allocate(each * dim, sizeof(float), "a block of rows");
    bo_table *table = NULL;
    bo_table_rows rows = {.x = x};
    size_t done = 0;
    bo_status status = bo_table_open(session->context, &job->source, job->schema, BO_SPLIT_ALL, &table);
    while (status == BO_OK) {
        status = bo_table_next(session->context, table, each, &rows);
        if (status != BO_OK || rows.rows == 0) break;
        status = cli_interrupted() ? BO_CANCELED : use(job, user, rows.rows, x);
        done += rows.rows;
        cli_progress_report(&session->progress, what, (double)done, 0);
    }
    bo_table_close(table);
    free(x);
    cli_progress_clear(&session->progress);
    return status;
}

static bo_status add_block(embed_job *job, void *user, size_t rows, const float *x)
{
    const bo_samples block = {.rows = rows, .dim = bo_schema_describe(job->schema)->inputs, .x = x};
    return bo_fitting_add(job->session->context, user, &block);
}

/* γ and the scaling are estimated from a sample; a second pass accumulates sums in constant memory. */
static bool fit_stream(embed_job *job)
{
    bo_context *context = job->session->context;
    if (failed(job, bo_schema_fit(context, &job->source, &job->schema))) return false;
    const size_t dim = bo_schema_describe(job->schema)->inputs;
    size_t *counts = cli_allocate(job->source.files, sizeof(size_t), "row counts"), all = 0;
    bo_status status = bo_table_count(context, &job->source, job->schema, counts);
    for (size_t i = 0; status == BO_OK && i < job->source.files; i++) all += counts[i];
    const size_t sample_rows = job->options->sample < all ? job->options->sample : all;
    float *x = cli_allocate(sample_rows * dim, sizeof(float), "a sample of the rows");
    double *y =
        cli_allocate(sample_rows * bo_schema_describe(job->schema)->targets, sizeof(double), "a sample of the rows");
    bo_samples sample = {
        .dim = dim, .x = x, .common_unit = bo_schema_describe(job->schema)->common_unit, .schema = job->schema};
    bo_fitting *fitting = NULL;
    const bo_embedding_desc desc = describe(job);
    if (status == BO_OK)
        status = bo_table_sample(context, &job->source, job->schema, counts, sample_rows, x, y, NULL, &sample.rows);
    if (status == BO_OK) status = bo_embedding_fitting_create(context, &desc, &sample, &fitting);
    if (status == BO_OK) status = pass(job, "fitting", add_block, fitting);
    if (status == BO_OK) status = bo_embedding_fitting_finish(context, fitting, &job->embedding);
    bo_fitting_destroy(fitting);
    free(counts);
    free(x);
    free(y);
    return !failed(job, status);
}

/* An embedding saved through the API may have no schema: then all columns of the file are inputs. */
static bool load(embed_job *job)
{
    bo_context *context = job->session->context;
    if (failed(job,
               bo_embedding_load(context, &(bo_source){.path = job->options->model}, &job->embedding, &job->schema)))
        return false;
    const size_t dim = bo_embedding_describe(job->embedding)->dim;
    job->source.data.no_target = job->source.data.no_origin = true;
    if (!job->schema && failed(job, bo_schema_fit(context, &job->source, &job->schema))) return false;
    if (bo_schema_describe(job->schema)->inputs == dim) return true;
    cli_fail(job->session, "%s: expected %zu input columns, as %s was fitted on, found %zu", job->source.paths[0], dim,
             job->options->model, bo_schema_describe(job->schema)->inputs);
    return false;
}

/* ---- coordinates ------------------------------------------------------------------------------------------------- */

static const char *coordinate_name(const void *user, size_t index, char buffer[CLI_NAME])
{
    const embed_job *job = user;
    if (index == bo_embedding_describe(job->embedding)->components) return "error";
    snprintf(buffer, CLI_NAME, "c%zu", index + 1);
    return buffer;
}

static const char *input_name(const void *user, size_t index, char buffer[CLI_NAME])
{
    const embed_job *job = user;
    const char *name = cli_input_name(schema_of(job), index);
    snprintf(buffer, CLI_NAME, "%s", name ? name : "");
    if (!name) snprintf(buffer, CLI_NAME, "column %zu", index);
    return buffer;
}

static bool open_outputs(embed_job *job)
{
    const cli_embed_options *o = job->options;
    const bo_embedding_report *report = bo_embedding_describe(job->embedding);
    const size_t rows = block_rows(job);
    job->c = cli_allocate(rows * report->components, sizeof(double), "coordinates");
    job->error = cli_allocate(rows, sizeof(double), "coordinates");
    job->row = cli_allocate(report->components + 1, sizeof(double), "coordinates");
    job->coordinates = (cli_predictions){.session = job->session,
                                         .out = o->out,
                                         .numbers = report->components + o->error,
                                         .name = coordinate_name,
                                         .user = job,
                                         .item = sizeof(double),
                                         .key = "coordinates"};
    if (!cli_predictions_open(&job->coordinates)) return false;
    if (!o->reconstruct) return true;
    job->x = cli_allocate(rows * report->dim, sizeof(double), "pre-images");
    job->pre_images = (cli_predictions){.session = job->session,
                                        .out = o->reconstruct,
                                        .numbers = report->dim,
                                        .name = input_name,
                                        .user = job,
                                        .item = sizeof(double)};
    return cli_predictions_open(&job->pre_images);
}

/* Writes the coordinates of a block. BO_IO: after a message. */
static bo_status write_block(embed_job *job, void *stopped, size_t rows, const float *x)
{
    bo_context *context = job->session->context;
    const bo_embedding_report *report = bo_embedding_describe(job->embedding);
    const size_t components = report->components, dim = report->dim;
    const double begin = cli_now();
    bo_status status =
        bo_embedding_apply(context, job->embedding, &(bo_inputs){.rows = rows, .x = x}, job->c, job->error);
    job->result.seconds += cli_now() - begin;
    if (status == BO_OK && job->x) status = bo_embedding_invert(context, job->embedding, rows, job->c, job->x);
    if (status != BO_OK) return status;
    for (size_t k = 0; job->x && k < rows * dim; k++) job->x[k] += cli_origin_of(schema_of(job), k % dim);
    bool written = true;
    for (size_t i = 0; i < rows && written; i++) {
        memcpy(job->row, job->c + i * components, components * sizeof(double));
        job->row[components] = job->error[i];
        job->result.error += job->error[i];
        for (size_t k = 0; k < components; k++)
            job->result.inside += job->c[i * components + k] * job->c[i * components + k];
        written = cli_predictions_row(&job->coordinates, 0, job->row) &&
                  (!job->x || cli_predictions_row(&job->pre_images, 0, job->x + i * dim));
    }
    job->result.rows += rows;
    written =
        written && cli_predictions_flush(&job->coordinates) && (!job->x || cli_predictions_flush(&job->pre_images));
    *(bool *)stopped = !written;
    return written ? BO_OK : BO_IO;
}

static bool write_all(embed_job *job)
{
    bool stopped = false;
    bo_status status = BO_OK;
    if (job->data) {
        const size_t each = block_rows(job), rows = job->data->rows;
        for (size_t first = 0; first < rows && status == BO_OK; first += each) {
            const size_t count = rows - first < each ? rows - first : each;
            status = cli_interrupted() ? BO_CANCELED
                                       : write_block(job, &stopped, count, job->data->x + first * job->data->dim);
        }
    } else {
        status = pass(job, "embedding", write_block, &stopped);
    }
    if (stopped || failed(job, status)) return false;
    return cli_predictions_end(&job->coordinates) && (!job->x || cli_predictions_end(&job->pre_images));
}

/* ---- the command ------------------------------------------------------------------------------------------------- */

static bool save(embed_job *job)
{
    const char *path = job->options->save;
    if (!path) return true;
    return !failed(job, cli_record_output(job->session, path,
                                          bo_embedding_save(job->session->context, job->embedding, schema_of(job),
                                                            &(bo_sink){.path = path})));
}

static int run(embed_job *job)
{
    const cli_embed_options *o = job->options;
    cli_session *session = job->session;
    const char *const outputs[] = {o->out, o->save, o->reconstruct};
    for (size_t i = 0; i < CLI_COUNT_OF(outputs); i++)
        if (outputs[i] && !cli_can_write(session, outputs[i])) return CLI_FAILED;
    if (!(o->model ? load(job) : o->stream ? fit_stream(job) : fit_in_memory(job))) return CLI_FAILED;
    cli_progress_clear(&session->progress);
    if (!save(job) || !open_outputs(job) || !write_all(job)) return CLI_FAILED;
    job->result.embedding = job->embedding;
    if (session->common.json)
        cli_embed_json(&job->result, o, cli_predictions_json(&job->coordinates));
    else if (!session->common.quiet)
        cli_embed_print(&job->result, o, o->out ? stdout : stderr);
    if (o->save && !o->model) {
        char *model = cli_shell_quoted(o->save), *data = cli_shell_quoted(job->result.data);
        cli_suggest_next(session, "bochner embed %s --model %s --out coordinates.csv", data, model);
        free(model);
        free(data);
    }
    return CLI_DONE;
}

/* The first given option of a fit, which does not apply to a loaded model; NULL: none. */
static const char *fit_option(const cli_embed_options *o)
{
    return CLI_GIVEN(o, components)    ? "components"
           : CLI_GIVEN(o, kernel)      ? "kernel"
           : CLI_GIVEN(o, features)    ? "features"
           : CLI_GIVEN(o, function)    ? "function"
           : CLI_GIVEN(o, draw)        ? "draw"
           : CLI_GIVEN(o, gamma)       ? "gamma"
           : CLI_GIVEN(o, alpha)       ? "alpha"
           : CLI_GIVEN(o, degree)      ? "degree"
           : CLI_GIVEN(o, scaling)     ? "scaling"
           : CLI_GIVEN(o, precision)   ? "gram-precision"
           : CLI_GIVEN(o, target)      ? "target"
           : CLI_GIVEN(o, drop)        ? "drop"
           : CLI_GIVEN(o, categorical) ? "categorical"
           : CLI_GIVEN(o, impute)      ? "impute"
           : CLI_GIVEN(o, save)        ? "save"
                                       : NULL;
}

static int check(const cli_embed_options *o, const cli_arguments *files)
{
    if (files->count == 0)
        return cli_usage_error(
            "embed", "expected a file, found none (example: bochner embed data.csv --components 2 --out c.csv)");
    const char *other = o->model ? fit_option(o) : NULL;
    if (other) return cli_usage_error("embed", "--%s applies to a fit only; --model defines the components", other);
    int status = cli_predictions_check_name("embed", o->out);
    if (status != CLI_DONE) return status;
    const cli_path outputs[] = {{"out", o->out}, {"save", o->save}, {"reconstruct", o->reconstruct}};
    const cli_path model = {"model", o->model};
    if (o->reconstruct && !cli_ends_with(o->reconstruct, ".csv") && !cli_ends_with(o->reconstruct, ".npy") &&
        !cli_ends_with(o->reconstruct, ".tsv"))
        return cli_usage_error("embed", "--reconstruct: expected a name ending in .csv or .npy (or .tsv), found '%s'",
                               o->reconstruct);
    status = cli_paths_apart("embed", outputs, CLI_COUNT_OF(outputs), &model, 1);
    for (size_t i = 0; i < files->count && status == CLI_DONE; i++)
        status = cli_paths_apart("embed", outputs, CLI_COUNT_OF(outputs), &(cli_path){NULL, files->items[i]}, 1);
    return status;
}

static bo_table_desc describe_source(const cli_embed_options *o, const char **paths, size_t files, uint64_t seed)
{
    return (bo_table_desc){.data = {.path = paths[0],
                                    .format = o->format,
                                    .target = o->target,
                                    .keep_unlabeled = true,
                                    .no_target = !o->target,
                                    .categorical = o->categorical,
                                    .drop = o->drop,
                                    .impute = o->impute,
                                    .no_origin = o->scaling == BO_SCALING_NONE,
                                    .seed = seed},
                           .paths = paths,
                           .files = files,
                           .split = {.seed = seed}};
}

static void close_job(embed_job *job)
{
    cli_predictions_close(&job->coordinates);
    cli_predictions_close(&job->pre_images);
    bo_embedding_destroy(job->embedding);
    bo_schema_destroy(job->schema);
    bo_data_destroy(job->data);
    free(job->c);
    free(job->error);
    free(job->x);
    free(job->row);
}

static int embed(void *given, const cli_common *common, const cli_arguments *files)
{
    const cli_embed_options *o = given;
    int status = check(o, files);
    if (status != CLI_DONE) return status;
    cli_session session;
    if (!cli_session_open(&session, "embed", common, false)) return CLI_FAILED;
    const char **paths = cli_allocate(files->count, sizeof *paths, "a list of files");
    for (size_t i = 0; i < files->count; i++) paths[i] = files->items[i];
    cli_spools spools = {0};
    if (o->stream) status = cli_spool_all(&session, &spools, paths, files->count); /* several passes */
    embed_job job = {.session = &session,
                     .options = o,
                     .result = {.data = files->items[0]},
                     .source = describe_source(o, paths, files->count, common->seed)};
    if (status == CLI_DONE) status = run(&job);
    if (status == CLI_FAILED && cli_interrupted()) status = CLI_INTERRUPTED;
    close_job(&job);
    free(paths);
    cli_spools_close(&spools);
    cli_session_close(&session);
    return status;
}

static const cli_option rows[] = {
    SECTION("Components"),
    COUNT("components", "K", cli_embed_options, components, "number of components", .low = 1, .default_text = "2"),
    CHOICE("kernel", "K", cli_embed_options, kernel, BO_ENUM_KERNEL,
           "kernel, the similarity of two rows; linear: principal component analysis of the columns themselves",
           .without = 1u << BO_KERNEL_CUSTOM, .initial = "rbf"),
    COUNT("features", "R", cli_embed_options, features, "number of random features", .low = 1, .default_text = "2048"),
    CHOICE("function", "F", cli_embed_options, function, BO_ENUM_FUNCTION, "function of the projections",
           .without = 1u << BO_FUNCTION_CUSTOM | 1u << BO_FUNCTION_SECTIONS, .default_text = "chosen by kernel"),
    CHOICE("draw", "D", cli_embed_options, draw, BO_ENUM_DRAW, "sampling scheme of the frequencies",
           .default_text = "chosen by kernel"),
    REAL_OR_AUTO("gamma", cli_embed_options, gamma,
                 "bandwidth gamma of the kernel, applied to scaled columns; a larger gamma makes the kernel more local",
                 .default_text = "the median heuristic; 1 for the linear kernel"),
    REAL("alpha", "X", cli_embed_options, alpha, "alpha of the rational quadratic kernel", .low = 1e-6, .high = 1e6,
         .default_text = "1"),
    COUNT("degree", "P", cli_embed_options, degree, "degree of the polynomial kernel", .low = 1, .high = 64,
          .default_text = "2"),
    CHOICE("scaling", "HOW", cli_embed_options, scaling, BO_ENUM_SCALING,
           "scaling of the columns (auto: each has variance 1, or one common factor for pixels and libsvm)",
           .initial = "auto"),
    CHOICE("gram-precision", "P", cli_embed_options, precision, BO_ENUM_GRAM_PRECISION,
           "precision of the products in the covariance (auto: float64 up to 512 features, then float32)",
           .without = 1u << BO_GRAM_PRECISION_INT8, .initial = "auto"),
    BYTES("memory", "BYTES", cli_embed_options, memory, "maximum memory for the covariance, such as 4G",
          .default_text = "three quarters of the memory that the process may use", .low = 1),
    SECTION("Data"),
    TEXT("target", "NAME|INDEX", cli_embed_options, target, "column that is not an input, such as the target of a fit",
         .default_text = "every column is an input"),
    TEXT("drop", "COLS", cli_embed_options, drop, "columns to ignore, by name or index"),
    TEXT("categorical", "COLS|auto|none", cli_embed_options, categorical,
         "columns to one-hot encode, by name or index; none: text columns are an error",
         .default_text = "auto: text columns of up to 32 values"),
    CHOICE("impute", "HOW", cli_embed_options, impute, BO_ENUM_IMPUTE,
           "replacement of missing values; auto: the mean, and a column that is 1 where a value is missing; none: they "
           "are an error",
           .initial = "auto"),
    CHOICE("format", "FORMAT", cli_embed_options, format, BO_ENUM_FORMAT, "format of the files", .initial = "auto"),
    FLAG("stream", cli_embed_options, stream,
         "read the files in blocks, in several passes; the memory does not depend on the number of rows"),
    COUNT("sample", "N", cli_embed_options, sample, "rows of a stream for the choice of gamma and the scaling",
          .low = 2, .initial = "10000"),
    SECTION("Output"),
    TEXT("out", "FILE", cli_embed_options, out, "file for the coordinates: .csv, .tsv or .npy",
         .default_text = "CSV on standard output"),
    FLAG("error", cli_embed_options, error,
         "add a column with the squared distance of each row to the subspace of the components, in feature space"),
    TEXT("reconstruct", "FILE", cli_embed_options, reconstruct,
         "write the pre-images, the rows reconstructed from the components: .csv, .tsv or .npy"),
    TEXT("save", "MODEL", cli_embed_options, save, "write the components to a model file for --model"),
    TEXT("model", "MODEL", cli_embed_options, model,
         "do not fit; compute coordinates along the components of a model file written by --save"),
    END_OF_OPTIONS,
};

const cli_usage cli_embed_usage = {
    .command = "embed",
    .synopsis = "DATA... [options]",
    .about =
        "Computes the coordinates of the rows of a table along its principal components, the directions in which the "
        "features of the rows vary most: kernel PCA by random features, in time linear in the number of rows, or "
        "PCA with --kernel linear. The variance of each component and the reconstruction error are printed after "
        "the coordinates. DATA is read as by bochner fit.",
    .examples = "  bochner embed table.csv --target price --components 2 --out coordinates.csv\n"
                "  bochner embed table.csv --target price --kernel linear --components 3 --save pca.model\n"
                "  bochner embed new.csv --model pca.model --error\n",
    .groups = {{rows, 0}},
    .short_help = {"components", "kernel", "features", "gamma", "target", "drop", "categorical", "impute", "out",
                   "error", "reconstruct", "save", "model", "stream", "seed", "json"},
};

int cli_embed(int argc, char **argv)
{
    cli_embed_options o = {0};
    return cli_command(&cli_embed_usage, argc, argv, &o, embed);
}
