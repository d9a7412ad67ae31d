/* bochner predict: applies a model to a table, block by block, in constant memory. */
#include "../common/columns.h"
#include "../common/cli.h"
#include "../common/metrics.h"
#include "../common/spool.h"
#include "copied_columns.h"
#include "../network/network.h"
#include "../common/paths.h"
#include "../common/plot.h"
#include "../common/predictions.h"
#include "../text/text_tasks.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { BLOCK = 4096, BLOCK_NUMBERS = 1 << 24 }; /* rows of a block, and numbers of a dense one at most */

typedef struct predict_options {
    cli_given was_given;
    const char *labels, *out, *plot, *copy;
    cli_plot_kind plot_kind;
    bo_format format;
    bool std, proba, labeled;
    double interval;
    size_t context;
    bo_storage weights;
    const char *device;
    bo_precision precision;
    cli_network_data network;
} predict_options;

typedef struct predict_job {
    cli_session *session;
    const predict_options *options;
    const char *model_path, *data_path;
    bo_machine *machine;
    const bo_fit_report *report;
    bo_schema *schema;
    bo_table *table;
    bool has_target;
    bo_metrics *metrics;
    cli_predictions predictions;
    cli_copied copied;
    size_t rows;      /* predicted */
    float *x;         /* dense rows of a block; NULL: the rows are sparse */
    bo_sparse sparse; /* the rows of a block, owned by the table */
    size_t block;     /* rows of a block */
    double *y, *mean, *std, *row;
    double *low, *high;     /* interval of --interval, or of 95% */
    double *low95, *high95; /* 95% interval: same arrays as low and high, or separate ones */
    int *classes;
} predict_job;

static bool failed(predict_job *job, bo_status status)
{
    if (status != BO_OK) cli_fail_status(job->session, status);
    return status != BO_OK;
}

/* ---- columns ----------------------------------------------------------------------------------------------------- */

static const char *class_name(const void *user, size_t index, char buffer[CLI_NAME])
{
    const predict_job *job = user;
    cli_short_text number;
    snprintf(buffer, CLI_NAME, "%s", cli_class_label(job->schema, index, &number));
    return buffer;
}

/* The level of the printed intervals; 0: none. */
static bool has_interval(const predict_options *o)
{
    return o->std || CLI_GIVEN(o, interval);
}

static double level_of(const predict_options *o)
{
    return CLI_GIVEN(o, interval) ? o->interval : 0.95;
}

/* Numbers per target of a regression. */
static size_t numbers_each(const predict_options *o)
{
    return 1 + (o->std ? 1 : 0) + (has_interval(o) ? 2 : 0);
}

/* For regression, columns per target: the mean, with --std the standard deviation, and with --std or --interval the
 * ends of the interval, whose names contain the level in percent. */
static const char *number_name(const void *user, size_t index, char buffer[CLI_NAME])
{
    const predict_job *job = user;
    const size_t each = numbers_each(job->options), target = index / each, part = index % each;
    const char *target_name = job->schema ? cli_target_name(job->schema, target) : NULL;
    char what[32] = "mean";
    if (part == 1 && job->options->std)
        snprintf(what, sizeof what, "std");
    else if (part > 0)
        snprintf(what, sizeof what, "%s%.10g", part + 1 == each ? "high" : "low", 100 * level_of(job->options));
    if (job->report->outputs == 1)
        snprintf(buffer, CLI_NAME, "%s", each == 1 ? "prediction" : what);
    else if (target_name)
        snprintf(buffer, CLI_NAME, "%s%s%s", target_name, part ? "_" : "", part ? what : "");
    else
        snprintf(buffer, CLI_NAME, "prediction%zu%s%s", target, part ? "_" : "", part ? what : "");
    return buffer;
}

static const char *copy_name(const void *user, size_t index, char buffer[CLI_NAME])
{
    const predict_job *job = user;
    return cli_copied_name(&job->copied, index, buffer);
}

static bool open_output(predict_job *job)
{
    const size_t classes = job->report->classes;
    job->predictions = (cli_predictions){.session = job->session,
                                         .out = job->options->out,
                                         .classes = classes,
                                         .label = class_name,
                                         .numbers = classes ? (job->options->proba ? classes : 0)
                                                            : job->report->outputs * numbers_each(job->options),
                                         .name = classes ? class_name : number_name,
                                         .user = job,
                                         .item = sizeof(double),
                                         .copies = job->copied.count,
                                         .copy_name = copy_name,
                                         .copied = job->copied.cells};
    return cli_predictions_open(&job->predictions);
}

/* Numbers of one row, without the label. */
static void row_numbers(const predict_job *job, size_t i, double *row)
{
    const bo_fit_report *report = job->report;
    size_t count = 0;
    if (report->classes) {
        if (job->predictions.numbers) memcpy(row, job->mean + i * report->classes, report->classes * sizeof(double));
        return;
    }
    for (size_t t = 0; t < report->outputs; t++) {
        const size_t at = i * report->outputs + t;
        row[count++] = job->mean[at];
        if (job->options->std) row[count++] = job->std[at];
        if (!has_interval(job->options)) continue;
        row[count++] = job->low[at];
        row[count++] = job->high[at];
    }
}

static bool write_rows(predict_job *job, size_t rows)
{
    for (size_t i = 0; i < rows; i++) {
        row_numbers(job, i, job->row);
        if (job->copied.count && !cli_copied_next(job->session, &job->copied)) return false;
        if (!cli_predictions_row(&job->predictions, job->classes ? (size_t)job->classes[i] : 0, job->row)) return false;
    }
    return cli_predictions_flush(&job->predictions);
}

/* ---- predicting -------------------------------------------------------------------------------------------------- */

static bo_inputs inputs_of(const predict_job *job, size_t rows)
{
    return (bo_inputs){.rows = rows, .x = job->x, .sparse = job->x ? NULL : &job->sparse};
}

/* Predicts classes, or numbers with intervals of the requested level, and of 95% for the metrics if the levels
 * differ. */
static bo_status predict_block(predict_job *job, size_t rows)
{
    bo_context *context = job->session->context;
    const bo_inputs inputs = inputs_of(job, rows);
    const bo_prediction classes = {.classes = job->classes, .probabilities = job->mean};
    bo_prediction numbers = {
        .mean = job->mean, .low = job->low, .high = job->high, .level = level_of(job->options), .std = job->std};
    if (job->report->classes) return bo_machine_predict(context, job->machine, &inputs, &classes);
    const bo_status status = bo_machine_predict(context, job->machine, &inputs, &numbers);
    if (status != BO_OK || job->low95 == job->low) return status;
    numbers = (bo_prediction){.low = job->low95, .high = job->high95, .level = 0.95};
    return bo_machine_predict(context, job->machine, &inputs, &numbers);
}

static bo_status read_block(predict_job *job, size_t *rows)
{
    bo_context *context = job->session->context;
    bo_table_rows block = {.x = job->x, .y = job->y};
    const bo_status status = bo_table_next(context, job->table, job->block, &block);
    job->sparse = block.sparse;
    *rows = block.rows;
    return status;
}

static bool is_labeled(const double *y, size_t targets)
{
    for (size_t t = 0; t < targets; t++)
        if (isnan(y[t])) return false;
    return true;
}

/* Compares the predictions with the targets of the rows that have one. */
static bo_status compare(predict_job *job, size_t rows)
{
    bo_context *context = job->session->context;
    const size_t targets = bo_schema_describe(job->schema)->targets, classes = job->report->classes;
    bo_status status = BO_OK;
    for (size_t i = 0, end; i < rows && status == BO_OK; i = end + 1) {
        const double *y = job->y + i * targets;
        for (end = i; end < rows && is_labeled(job->y + end * targets, targets);) end++;
        bo_metrics_rows labeled = {.rows = end - i, .y = y};
        if (classes) {
            labeled.predicted = job->classes + i;
            labeled.probabilities = job->mean + i * classes;
        } else {
            labeled.mean = job->mean + i * targets;
        }
        if (job->std && !classes) {
            labeled.std = job->std + i * targets;
            labeled.low = job->low95 + i * targets;
            labeled.high = job->high95 + i * targets;
        }
        if (end > i) status = bo_metrics_add(context, job->metrics, &labeled);
    }
    return status;
}

static bool predict_all(predict_job *job)
{
    cli_session *session = job->session;
    size_t rows = 0;
    bo_status status;
    while ((status = read_block(job, &rows)) == BO_OK && rows > 0) {
        status = cli_interrupted() ? BO_CANCELED : predict_block(job, rows);
        if (status != BO_OK) break;
        if (job->has_target) status = compare(job, rows);
        if (status != BO_OK) break;
        if (!write_rows(job, rows)) return false;
        job->rows += rows;
        cli_progress_report(&session->progress, "predicting", (double)job->rows, 0);
    }
    cli_progress_clear(&session->progress);
    return !failed(job, status);
}

/* ---- the command ------------------------------------------------------------------------------------------------- */

/* Reports that the file is not a model, and its type if known. Returns false. */
static bool no_model(predict_job *job)
{
    char message[1024];
    snprintf(message, sizeof message, "%s", bo_context_error(job->session->context));
    bo_features *map = NULL;
    if (bo_features_load(job->session->context, &(bo_source){.path = job->model_path}, &map) == BO_OK)
        cli_fail(job->session, "%s is a feature map, expected a model; bochner fit --out MODEL writes one",
                 job->model_path);
    else
        cli_fail(job->session, "%s (expected: bochner predict MODEL DATA)", message);
    bo_features_destroy(map);
    return false;
}

/* Checks that the model predicts the requested columns. */
static bool check_outputs(const predict_job *job)
{
    if (has_interval(job->options) && !job->report->has_std) {
        cli_fail(job->session, "--%s: %s does not predict standard deviations and intervals: %s",
                 job->options->std ? "std" : "interval", job->model_path,
                 job->report->classes
                     ? "it predicts classes (use --proba for probabilities)"
                     : "it was fitted with solver cg, sgd or adam to too few rows for a held-out part");
        return false;
    }
    if (job->options->proba && !job->report->classes) {
        cli_fail(job->session, "--proba: %s predicts numbers, not classes (use --std for standard deviations)",
                 job->model_path);
        return false;
    }
    return true;
}

static bool open_model(predict_job *job)
{
    bo_context *context = job->session->context;
    struct stat about;
    if (stat(job->model_path, &about) == 0 && S_ISDIR(about.st_mode)) {
        cli_fail(job->session, "%s: not a model directory: it has no config.json", job->model_path);
        return false;
    }
    bo_status status = bo_machine_load(context, &(bo_source){.path = job->model_path}, &job->machine, &job->schema);
    if (status == BO_FORMAT) return no_model(job);
    if (failed(job, status)) return false;
    job->report = bo_machine_report(job->machine);
    return check_outputs(job) && cli_plot_suits(job->session, job->options->plot_kind, job->report->classes);
}

/* A model saved through the API may have no schema: then all columns of the file are inputs. */
static bool open_data(predict_job *job)
{
    bo_context *context = job->session->context;
    const bo_table_desc desc = {.data = {.path = job->data_path,
                                         .format = job->options->format,
                                         .labels = job->options->labels,
                                         .keep_unlabeled = true,
                                         .no_target = job->schema == NULL,
                                         .no_origin = true},
                                .other_rows = true};
    bool all_columns = job->schema == NULL;
    if (all_columns && failed(job, bo_schema_fit(context, &desc, &job->schema))) return false;
    if (bo_schema_describe(job->schema)->inputs != job->report->dim) {
        cli_fail(job->session, "%s: expected %zu input columns, as %s was fitted on, found %zu", job->data_path,
                 job->report->dim, job->model_path, bo_schema_describe(job->schema)->inputs);
        return false;
    }
    if (failed(job, bo_table_open(context, &desc, job->schema, BO_SPLIT_ALL, &job->table))) return false;
    job->has_target = !all_columns && bo_table_describe(job->table)->has_target;
    const char *copy = job->options->copy;
    return !copy || cli_copied_open(job->session, &job->copied, job->data_path, job->options->format, copy);
}

static bool allocate_inputs(predict_job *job)
{
    job->block = BLOCK;
    if (!bo_table_describe(job->table)->sparse) {
        const size_t max_block = BLOCK_NUMBERS / job->report->dim + 1;
        if (job->block > max_block) job->block = max_block;
        job->x = cli_allocate(job->block * job->report->dim, sizeof(float), "a block of rows");
    }
    if (!job->has_target) return true;
    job->y = cli_allocate(BLOCK * bo_schema_describe(job->schema)->targets, sizeof(double), "a block of rows");
    return cli_metrics_create(job->session, job->machine, &job->metrics);
}

static void allocate_predictions(predict_job *job)
{
    const bo_fit_report *report = job->report;
    const size_t outputs = report->classes ? report->classes : report->outputs;
    if (report->classes) job->classes = cli_allocate(BLOCK, sizeof(int), "predictions");
    if (!report->classes || job->options->proba || job->has_target)
        job->mean = cli_allocate(BLOCK * outputs, sizeof(double), "predictions");
    if (!report->classes && report->has_std && (has_interval(job->options) || job->has_target)) {
        job->std = cli_allocate(5 * BLOCK * outputs, sizeof(double), "predictions");
        job->low = job->low95 = job->std + BLOCK * outputs;
        job->high = job->high95 = job->low + BLOCK * outputs;
        if (job->has_target && level_of(job->options) != 0.95) {
            job->low95 = job->high + BLOCK * outputs;
            job->high95 = job->low95 + BLOCK * outputs;
        }
    }
    job->row = cli_allocate(4 * outputs + 1, sizeof(double), "predictions");
}

static void report_json(predict_job *job)
{
    cli_json *json = cli_predictions_json(&job->predictions);
    cli_json_add_text(json, "model", job->model_path);
    cli_json_add_text(json, "data", job->data_path);
    cli_json_add_count(json, "rows", job->rows);
    cli_json_add_text(json, "out", job->options->out);
    if (job->has_target) cli_metrics_json(job->session, job->metrics, job->schema, json);
    cli_json_end(json);
}

/* Opens the model, the data and the output. */
static bool prepare(predict_job *job)
{
    const predict_options *options = job->options;
    if (options->out && !cli_can_write(job->session, options->out)) return false;
    if (!open_model(job) || !open_data(job)) return false;
    if (options->plot && !job->has_target) {
        cli_fail(job->session, "--plot: %s does not have the target column, which the plot needs", job->data_path);
        return false;
    }
    if (!allocate_inputs(job)) return false;
    allocate_predictions(job);
    return open_output(job);
}

/* Writes the predictions of all rows. */
static bool write_predictions(predict_job *job)
{
    if (!predict_all(job)) return false;
    if (job->has_target && job->rows == 0) {
        cli_fail(job->session, "%s has no rows", job->data_path);
        return false;
    }
    return cli_predictions_end(&job->predictions);
}

/* Prints the metrics, or the rest of the JSON object, and plots. */
static int report(predict_job *job)
{
    const predict_options *options = job->options;
    job->has_target = job->has_target && job->metrics->rows > 0; /* the target column may be empty */
    if (options->plot && !job->has_target)
        return cli_fail(job->session, "--plot: all targets of %s are missing", job->data_path);
    if (job->session->common.json)
        report_json(job);
    else if (job->has_target && !job->session->common.quiet)
        cli_metrics_print(job->session, job->metrics, job->schema, stderr);
    return options->plot ? cli_plot(job->session, job->metrics, job->schema, options->plot_kind, options->plot)
                         : CLI_DONE;
}

/* The first given option that applies to tables only; NULL: none. */
static const char *table_option(const predict_options *o)
{
    return o->std                   ? "std"
           : CLI_GIVEN(o, interval) ? "interval"
           : o->labels              ? "labels"
           : o->copy                ? "copy"
           : CLI_GIVEN(o, format)   ? "format"
                                    : NULL;
}

/* The same for options of text models. */
static const char *text_option(const predict_options *o)
{
    return o->labeled ? "labeled" : CLI_GIVEN(o, context) ? "context" : CLI_GIVEN(o, weights) ? "weights" : NULL;
}

/* The same for options of text models and networks. */
static const char *compute_option(const predict_options *o)
{
    return CLI_GIVEN(o, device) ? "device" : CLI_GIVEN(o, precision) ? "precision" : NULL;
}

/* Predicts with a network or a text model. */
static int predict_directory(cli_session *session, const predict_options *o, const cli_network_use *use)
{
    const cli_texts_use texts = {.directory = use->directory,
                                 .path = use->path,
                                 .out = o->out,
                                 .plot = o->plot,
                                 .plot_kind = o->plot_kind,
                                 .context = o->context,
                                 .weights = o->weights,
                                 .proba = o->proba,
                                 .labeled = o->labeled,
                                 .other = table_option(o)};
    return cli_is_network(use->directory) ? cli_predict_network(session, use) : cli_predict_texts(session, &texts);
}

static void close_job(predict_job *job)
{
    cli_copied_close(&job->copied);
    bo_table_close(job->table);
    bo_machine_destroy(job->machine);
    bo_schema_destroy(job->schema);
    bo_metrics_destroy(job->metrics);
    cli_predictions_close(&job->predictions);
    free(job->x);
    free(job->y);
    free(job->mean);
    free(job->std);
    free(job->row);
    free(job->classes);
}

/* Predicts with a kernel machine. */
static int predict_table(cli_session *session, const predict_options *o, const cli_network_use *use)
{
    predict_job job = {.session = session, .options = o, .model_path = use->directory, .data_path = use->path};
    cli_spools spools = {0};
    int status = o->copy ? cli_spool_all(session, &spools, &job.data_path, 1) : CLI_DONE; /* read twice */
    if (status == CLI_DONE) status = prepare(&job) && write_predictions(&job) ? report(&job) : CLI_FAILED;
    close_job(&job);
    cli_spools_close(&spools);
    return status;
}

/* Checks the options that do not depend on the model. */
static int check_options(const predict_options *o, const cli_network_use *use)
{
    const int named = cli_predictions_check_name("predict", o->out);
    if (named != CLI_DONE) return named;
    if (o->plot && !cli_plot_known(o->plot))
        return cli_usage_error("predict", "--plot: expected a name ending in .svg, .png or .pdf, found '%s'", o->plot);
    if (CLI_GIVEN(o, plot_kind) && !o->plot) return cli_usage_error("predict", "--plot-kind needs --plot FILE");
    if (o->copy && o->out && cli_ends_with(o->out, ".npy"))
        return cli_usage_error("predict", "--copy: a .npy file has only numbers; use a name ending in .csv or .tsv");
    const cli_path outputs[] = {{"out", o->out}, {"plot", o->plot}};
    const cli_path inputs[] = {{NULL, use->directory}, {NULL, use->path}, {"labels", o->labels}};
    const int apart = cli_paths_apart("predict", outputs, CLI_COUNT_OF(outputs), inputs, CLI_COUNT_OF(inputs));
    if (apart != CLI_DONE) return apart;
    const char *of_table = table_option(o);
    return cli_network_use_check("predict", use, of_table ? of_table : o->plot ? "plot" : text_option(o));
}

/* Predicts with the kind of model in the file or directory, and checks the options for it. */
static int predict_with(cli_session *session, const predict_options *o, const cli_network_use *use)
{
    const char *of_text = text_option(o), *of_compute = compute_option(o);
    const bool model = bo_model_exists(session->context, use->directory);
    if (!model && of_text)
        return cli_usage_error("predict", "--%s applies to text models only; %s does not hold a text model", of_text,
                               use->directory);
    if (model || cli_is_network(use->directory)) return predict_directory(session, o, use);
    if (of_compute)
        return cli_usage_error("predict", "--%s applies to text models and networks only; %s does not hold one",
                               of_compute, use->directory);
    return predict_table(session, o, use);
}

static int predict(void *given, const cli_common *common, const cli_arguments *arguments)
{
    const predict_options *o = given;
    if (arguments->count != 2)
        return cli_usage_error("predict", "expected MODEL and DATA, found %zu argument%s", arguments->count,
                               arguments->count == 1 ? "" : "s");
    const cli_network_use use = {.data = o->network,
                                 .directory = arguments->items[0],
                                 .path = arguments->items[1],
                                 .out = o->out,
                                 .proba = o->proba};
    const int checked = check_options(o, &use);
    if (checked != CLI_DONE) return checked;
    cli_session session;
    if (!cli_session_open_in(&session, "predict", common, false, CLI_COMPUTE(o))) return CLI_FAILED;
    const int status = predict_with(&session, o, &use);
    cli_session_close(&session);
    return status;
}

static const cli_option rows[] = {
    SECTION("Predictions"),
    FLAG("std", predict_options, std, "for regression: print mean, standard deviation and 95% interval"),
    REAL("interval", "LEVEL", predict_options, interval,
         "for regression: print mean and the interval that contains the true value with this probability, such as 0.9",
         .low = 0.001, .high = 0.9999, .default_text = "none; 0.95 with --std"),
    FLAG("proba", predict_options, proba, "for classification: print the probability of each class"),
    TEXT("copy", "COLS", predict_options, copy,
         "copy these columns of DATA, by name or index, to the output before the predictions; a column whose name is "
         "already used, for example by a class, is renamed to NAME_copied"),
    TEXT("out", "FILE", predict_options, out, "output file: .csv, .tsv or .npy",
         .default_text = "CSV on standard output"),
    TEXT("plot", "FILE", predict_options, plot, "plot the predictions and the true values: .svg, .png or .pdf"),
    CHOICE_OF("plot-kind", "KIND", predict_options, plot_kind, cli_plot_kind_name,
              "kind of plot: predicted against true values, residuals, ROC curves, reliability of probabilities, or "
              "the confusion matrix",
              .default_text = "predictions, or confusion for classes"),
    SECTION("Data"),
    TEXT("labels", "FILE", predict_options, labels, "separate file with the true values"),
    CHOICE("format", "FORMAT", predict_options, format, BO_ENUM_FORMAT, "format of DATA", .initial = "auto"),
    SECTION("Texts"),
    FLAG("labeled", predict_options, labeled, "DATA also has labels, as in training; reports the accuracy"),
    COUNT("context", "N", predict_options, context, "maximum tokens per text; longer texts are truncated", .low = 1,
          .default_text = "as in training"),
    DEVICE(predict_options),
    PRECISION(predict_options, .traits = 0),
    CHOICE("weights", "HOW", predict_options, weights, BO_ENUM_STORAGE, "storage of the weights in memory",
           .without = 1u << BO_STORAGE_FLOAT8, .initial = "float32"),
    END_OF_OPTIONS,
};

const cli_usage cli_predict_usage = {
    .command = "predict",
    .synopsis = "MODEL DATA [options]",
    .about = "Applies a model to each row of DATA. Columns are matched by name if both files have names, otherwise by "
             "position. If DATA also has the target column, the predictions are compared with it, and the metrics are "
             "printed on standard error. MODEL may also be the directory of a network, or of a model of bochner train "
             "--task classify or match. For the latter, DATA has one text per line, or two texts separated by a tab; "
             "- reads standard input line by line.",
    .examples = "  bochner predict price.model new.csv\n"
                "  bochner predict price.model new.csv --std --out predicted.csv\n"
                "  bochner predict price.model new.csv --interval 0.9\n"
                "  bochner predict price.model new.csv --copy id,town --out predicted.csv\n"
                "  bochner predict reviews new.txt --proba\n",
    .groups = {{rows, 0},
               {cli_network_part_rows, offsetof(predict_options, network)},
               {cli_network_graph_rows, offsetof(predict_options, network)}},
    .short_help = {"out", "std", "interval", "proba", "copy", "plot", "labels", "labeled", "context", "json"},
};

int cli_predict(int argc, char **argv)
{
    predict_options o = {0};
    return cli_command(&cli_predict_usage, argc, argv, &o, predict);
}
