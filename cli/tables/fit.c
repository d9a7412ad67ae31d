/* bochner fit: fits a kernel machine to a table. */
#include "../common/columns.h"
#include "fit.h"
#include "../common/paths.h"
#include "columns_line.h"
#include "folds.h"
#include "length_scales.h"
#include "maps.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool cli_fit_has_model(const cli_fit_job *job)
{
    return !job->folds || job->options->out || job->options->test;
}

const bo_schema *cli_fit_schema(const cli_fit_job *job)
{
    return job->schema ? job->schema : job->train->schema;
}

bool cli_fit_length_scales(cli_fit_job *job)
{
    if (!job->options->length_scales) return true;
    job->length_scales = cli_length_scales(job->session, job->options->length_scales, job->source.paths[0],
                                           bo_schema_describe(cli_fit_schema(job))->inputs);
    job->desc.features.length_scales = job->length_scales;
    return job->length_scales != NULL;
}

/* ---- the plan ---------------------------------------------------------------------------------------------------- */

static const char *solver_phrase(bo_solver solver)
{
    switch (solver) {
    case BO_SOLVER_PRIMAL:
        return "Cholesky factorization of the Gram matrix of the features";
    case BO_SOLVER_DUAL:
        return "Cholesky factorization of the kernel matrix (fewer rows than features)";
    case BO_SOLVER_CG:
        return "preconditioned conjugate gradients, without a Gram matrix";
    case BO_SOLVER_SGD:
        return "mini-batch gradient descent, step size from the spectrum";
    case BO_SOLVER_ADAM:
        return "Adam, rate and steps chosen on held-out rows";
    default:
        return "solver chosen by problem size";
    }
}

/* Reports why a number target with few distinct values is treated as classes. */
static bool is_class_of_numbers(const bo_schema *schema)
{
    const size_t classes = bo_schema_describe(schema)->classes;
    for (size_t i = 0; i < classes; i++) {
        const char *label = cli_class_name(schema, i);
        if (label[strspn(label, "-0123456789")]) return false;
    }
    return classes > 2;
}

static void report_data(cli_fit_job *job, size_t rows)
{
    const bo_schema *schema = cli_fit_schema(job);
    size_t classes = bo_schema_describe(schema)->classes, targets = bo_schema_describe(schema)->targets;
    char task[160];
    if (classes)
        snprintf(task, sizeof task, "classification into %s classes", cli_count(classes).s);
    else if (targets > 1)
        snprintf(task, sizeof task, "regression of %s targets", cli_count(targets).s);
    else
        snprintf(task, sizeof task, "regression of %s", cli_target_name(schema, 0));
    char files[64] = "";
    if (job->source.files > 1) snprintf(files, sizeof files, " and %s more", cli_count(job->source.files - 1).s);
    bool guessed = job->options->stream &&
                   job->options->holdout > 0; /* each row is assigned at random, so the number is approximate */
    cli_note(job->session, "Data        %s%s rows x %s column%s of %s%s: %s", guessed ? "about " : "",
             cli_count(rows).s, cli_count(bo_schema_describe(schema)->inputs).s,
             bo_schema_describe(schema)->inputs == 1 ? "" : "s", job->source.paths[0], files, task);
    cli_columns_report(job->session, schema);
    if (job->options->task == BO_TASK_AUTO && is_class_of_numbers(schema))
        cli_note(job->session,
                 "Task        classification, because %s has only %s different values, all integers (use --task "
                 "regression to predict a number)",
                 cli_target_name(schema, 0), cli_count(classes).s);
    if (2 * classes > rows)
        cli_warn(job->session, "the target has %s classes in %s rows; use --task regression if it is a number",
                 cli_count(classes).s, cli_count(rows).s);
}

/* The library checks the same, but its messages cannot name the file. */
static bool can_be_learned(cli_fit_job *job, size_t rows)
{
    const bo_schema *schema = cli_fit_schema(job);
    const char *path = job->source.paths[0];
    if (rows < 2) {
        cli_fail(job->session, "%s: expected at least 2 rows, found %zu", path, rows);
        return false;
    }
    const char *target = cli_target_name(schema, 0);
    if (bo_schema_describe(schema)->classes == 1) {
        cli_fail(job->session, "%s: column '%s': expected at least 2 classes, found only '%s'", path,
                 target ? target : "target", cli_class_name(schema, 0));
        return false;
    }
    if (job->options->loss != BO_LOSS_LOGISTIC || bo_schema_describe(schema)->classes > 0) return true;
    cli_fail(job->session,
             "%s: column '%s': --loss logistic expects classes, found numbers (use --task classification to treat them "
             "as classes)",
             path, target ? target : "target");
    return false;
}

/* Estimates the cost of the fit for this number of training rows. */
static bo_status estimate(cli_fit_job *job, size_t rows)
{
    const bo_schema_info *schema = bo_schema_describe(cli_fit_schema(job));
    const size_t classes = schema->classes, outputs = classes ? classes : schema->targets;
    bo_machine_desc desc = job->desc;
    desc.task = classes ? BO_TASK_CLASSIFICATION : BO_TASK_REGRESSION;
    const size_t stored_rows = job->options->stream && job->options->sample < rows ? job->options->sample : rows;
    const bo_sparse *sparse = job->train ? job->train->sparse : job->sample;
    const bo_fit_shape shape = {.rows = stored_rows,
                                .dim = schema->inputs,
                                .outputs = outputs,
                                .nonzeros = sparse ? sparse->start[sparse->rows] : 0};
    return bo_machine_estimate(job->session->context, &desc, &shape, &job->plan);
}

static void report_plan(cli_fit_job *job)
{
    const bo_fit_cost *plan = &job->plan;
    const char *chosen = plan->searches_gamma && plan->searches_lambda ? "gamma and lambda chosen by search"
                         : plan->searches_gamma                        ? "gamma chosen by search"
                         : plan->searches_lambda                       ? "lambda chosen by search"
                                                                       : "gamma and lambda given";
    if (job->desc.choose_kernel) chosen = "kernel, metric, gamma and lambda chosen by search";
    char kernel[64] = "";
    if (!job->desc.choose_kernel)
        snprintf(kernel, sizeof kernel, "%s ", bo_enum_name(BO_ENUM_KERNEL, job->desc.features.kernel));
    if (plan->exact)
        cli_note(job->session, "Plan        exact %skernel of %s rows, %s; %s", kernel, cli_count(plan->features).s,
                 chosen,
                 plan->solver == BO_SOLVER_CG ? "preconditioned conjugate gradients on the kernel matrix"
                                              : "Cholesky factorization of the kernel matrix");
    else
        cli_note(job->session, "Plan        %s %sfeatures, %s; %s%s", cli_count(plan->features).s, kernel, chosen,
                 solver_phrase(plan->solver), job->options->stream ? ", rows read in blocks" : "");
    double seconds = plan->seconds / job->session->ranks.size;
    cli_note(job->session, "            up to %s of memory%s%s", cli_bytes((double)plan->bytes).s,
             seconds >= 2 ? ", about " : "", seconds >= 2 ? cli_seconds(seconds).s : "");
}

bool cli_fit_plan(cli_fit_job *job, size_t rows)
{
    const size_t classes = bo_schema_describe(cli_fit_schema(job))->classes;
    if (!can_be_learned(job, rows) || !cli_plot_suits(job->session, job->options->plot_kind, classes)) return false;
    const bo_status status = estimate(job, rows);
    if (status != BO_OK) {
        cli_fail_status(job->session, status);
        return false;
    }
    report_data(job, rows);
    if (job->options->balanced && classes == 0)
        cli_warn(job->session, "--balanced is ignored, because it applies to classes and the target is a number");
    report_plan(job);
    return true;
}

/* ---- in memory --------------------------------------------------------------------------------------------------- */

/* Reads the test file before the fit, so that errors in it are reported early. */
static bool load_test(cli_fit_job *job)
{
    if (!job->options->test) return true;
    bo_data_desc desc = {.path = job->options->test,
                         .format = job->options->format,
                         .labels = job->options->test_labels,
                         .target = job->options->target,
                         .impute = job->options->impute,
                         .categorical = job->options->categorical,
                         .sparse = job->train->sparse != NULL};
    bo_status status = bo_data_load(job->session->context, &desc, job->train->schema, &job->test);
    if (status != BO_OK) {
        cli_fail_status(job->session, status);
        return false;
    }
    if (job->test->y) return true;
    cli_fail(job->session, "%s: expected the target column '%s' to test with, found none%s", job->options->test,
             cli_target_name(job->train->schema, 0),
             job->options->labels ? " (use --test-labels FILE if the targets are in another file)" : "");
    return false;
}

/* Refuses, before the table is read, a number of features that exceeds the memory for any table. */
static bool can_be_planned(cli_fit_job *job)
{
    const bo_fit_shape unknown = {0};
    bo_fit_cost cost;
    if (bo_machine_estimate(job->session->context, &job->desc, &unknown, &cost) != BO_MEMORY) return true;
    cli_fail_status(job->session, BO_MEMORY);
    return false;
}

static bool load(cli_fit_job *job)
{
    const bo_status status = bo_table_load(job->session->context, &job->source, &job->train, NULL, &job->test);
    if (status != BO_OK) {
        cli_fail_status(job->session, status);
        return false;
    }
    return cli_fit_length_scales(job) && load_test(job) && cli_fit_plan(job, job->train->rows);
}

static bool fit_in_memory(cli_fit_job *job)
{
    bo_samples samples;
    bo_data_get_samples(job->train, &samples);
    const bo_status status = bo_machine_fit(job->session->context, &job->desc, &samples, &job->machine);
    if (status != BO_OK) cli_fail_status(job->session, status);
    return status == BO_OK;
}

static bool test_in_memory(cli_fit_job *job)
{
    bo_context *context = job->session->context;
    const bo_data *test = job->test;
    if (!test) return true;
    if (!cli_metrics_create(job->session, job->machine, &job->metrics)) return false;
    const bo_inputs inputs = {.rows = test->rows, .x = test->x, .sparse = test->sparse};
    const bo_status status = bo_machine_evaluate(context, job->machine, &inputs, test->y, job->metrics);
    if (status != BO_OK) cli_fail_status(job->session, status);
    return status == BO_OK;
}

/* ---- the command ------------------------------------------------------------------------------------------------- */

static bool save(cli_fit_job *job)
{
    if (!job->options->out) return true;
    bo_status status = cli_interrupted()
                           ? BO_CANCELED
                           : cli_record_output(job->session, job->options->out,
                                               bo_machine_save(job->session->context, job->machine, cli_fit_schema(job),
                                                               &(bo_sink){.path = job->options->out}));
    if (status != BO_OK) cli_fail_status(job->session, status);
    return status == BO_OK;
}

/* Cross-validation. Its report is printed before a fit to all rows, or is a part of the JSON of that fit. */
static int evaluate(cli_fit_job *job)
{
    const cli_fit_options *o = job->options;
    cli_session *session = job->session;
    if (!cli_folds_run(job, job->folds)) return CLI_FAILED;
    if (!session->common.json) {
        cli_folds_print(job->folds, stdout);
    } else if (!cli_fit_has_model(job)) {
        cli_json json = {.out = stdout};
        cli_json_object(&json, NULL);
        cli_folds_json(job->folds, &json);
        cli_json_end(&json);
    }
    int status = CLI_DONE;
    if (o->learning_curve) status = cli_learning_curve_plot(session, job->folds, o->learning_curve);
    if (status == CLI_DONE && o->plot && !o->test)
        status = cli_plot(session, job->folds->variants[0].all, cli_fit_schema(job), o->plot_kind, o->plot);
    return status;
}

/* The model is written before the test, so that it is not lost if the test fails. */
static int run(cli_fit_job *job)
{
    const cli_fit_options *options = job->options;
    cli_session *session = job->session;
    if (options->out && session->ranks.rank == 0 && !cli_can_write(session, options->out)) return CLI_FAILED;
    if (options->plot && session->ranks.rank == 0 && !cli_can_write(session, options->plot)) return CLI_FAILED;
    if (options->learning_curve && !cli_can_write(session, options->learning_curve)) return CLI_FAILED;
    if (!can_be_planned(job)) return CLI_FAILED;
    if (!options->stream && !load(job)) return cli_interrupted() ? CLI_INTERRUPTED : CLI_FAILED;
    if (job->folds) {
        const int result = evaluate(job);
        if (result != CLI_DONE || !cli_fit_has_model(job)) return result;
    }
    if (!(options->stream ? cli_fit_stream(job) : fit_in_memory(job)))
        return cli_interrupted() ? CLI_INTERRUPTED : CLI_FAILED;
    if (session->ranks.rank > 0) return CLI_DONE;
    if (!save(job)) return CLI_FAILED;
    if (!(options->stream ? cli_fit_stream_test(job) : test_in_memory(job))) return CLI_FAILED;
    cli_progress_clear(&session->progress);
    if (session->common.json)
        cli_fit_json(job);
    else
        cli_fit_print(job);
    int status = CLI_DONE;
    if (options->plot && job->metrics)
        status = cli_plot(session, job->metrics, cli_fit_schema(job), options->plot_kind, options->plot);
    if (status == CLI_DONE) cli_fit_suggest_next(job);
    return status;
}

/* Sparse rows need a kernel of x - y; leverage scores need dense rows. */
static bool can_be_sparse(const cli_fit_options *o)
{
    return (o->kernel <= BO_KERNEL_RATIONAL_QUADRATIC || o->kernel == CLI_KERNEL_AUTO) && o->metric <= BO_METRIC_NONE &&
           o->sampling != BO_SAMPLING_LEVERAGE;
}

/* The default --kernel auto, unless an option applies to random features or to one kernel only. */
static bool chooses_kernel(const cli_fit_options *o)
{
    return o->kernel == CLI_KERNEL_AUTO && !CLI_GIVEN(o, features) && !CLI_GIVEN(o, function) && !CLI_GIVEN(o, draw) &&
           !CLI_GIVEN(o, sampling) && !CLI_GIVEN(o, alpha) && !CLI_GIVEN(o, degree) && !(o->gamma > 0) &&
           !o->length_scales && !o->stream;
}

static bo_table_desc describe_source(const cli_fit_options *o, const cli_arguments *files, uint64_t seed)
{
    return (bo_table_desc){
        .data = {.path = files->items[0],
                 .format = o->format,
                 .labels = o->labels,
                 .target = o->target,
                 .task = o->task,
                 .categorical = o->categorical,
                 .drop = o->drop,
                 .keep = o->keep,
                 .weights = o->weights,
                 .group = o->group,
                 .impute = o->impute,
                 .sample_rows = o->stream ? o->sample : 0,
                 .seed = seed,
                 .sparse = can_be_sparse(o),
                 .no_origin = o->scaling == BO_SCALING_NONE},
        .paths = files->items,
        .files = files->count,
        .split = {.test = o->holdout, .seed = seed},
    };
}

static bo_features_desc describe_features(const cli_fit_options *o, uint64_t seed)
{
    return (bo_features_desc){.kernel = o->kernel == CLI_KERNEL_AUTO ? BO_KERNEL_RBF : (bo_kernel)o->kernel,
                              .function = o->exact ? BO_FUNCTION_SECTIONS : o->function,
                              .draw = o->draw,
                              .sampling = o->sampling,
                              .features = o->features,
                              .gamma = o->gamma,
                              .alpha = o->alpha,
                              .degree = (int)o->degree,
                              .depth = o->depth ? (int)o->depth : -1,
                              .activation = o->activation,
                              .weight_variance = o->weight_variance,
                              .bias_variance = o->bias_variance,
                              .seed = seed};
}

static bo_machine_desc describe_machine(const cli_fit_options *o, uint64_t seed)
{
    return (bo_machine_desc){
        .task = o->task,
        .loss = o->loss,
        .solver = o->solver,
        .scaling = o->scaling,
        .precision = o->precision,
        .choose_kernel = chooses_kernel(o),
        .metric = o->metric,
        .target_scale = o->target_scale,
        .features = describe_features(o, seed),
        .lambda = o->lambda,
        .budget = o->budget,
        .no_intercept = o->no_intercept,
        .noise = o->noise,
        .dropout = o->dropout,
        .balanced = o->balanced,
        .memory = o->memory,
        .seed = seed,
    };
}

/* No output overwrites an input or another output. */
static int check_paths(const cli_fit_options *o, const cli_arguments *files)
{
    const cli_path outputs[] = {{"out", o->out}, {"plot", o->plot}, {"learning-curve", o->learning_curve}};
    const cli_path inputs_and_outputs[] = {
        {"labels", o->labels}, {"test", o->test}, {"test-labels", o->test_labels}, {"length-scales", o->length_scales}};
    int status =
        cli_paths_apart("fit", outputs, CLI_COUNT_OF(outputs), inputs_and_outputs, CLI_COUNT_OF(inputs_and_outputs));
    for (size_t i = 0; i < files->count && status == CLI_DONE; i++)
        status = cli_paths_apart("fit", outputs, CLI_COUNT_OF(outputs), &(cli_path){NULL, files->items[i]}, 1);
    return status;
}

/* The options of cross-validation. */
static int check_folds(const cli_fit_options *o)
{
    const char *folds_option = o->compare            ? "compare"
                               : o->learning_curve   ? "learning-curve"
                               : CLI_GIVEN(o, score) ? "score"
                                                     : NULL;
    if (!o->folds && folds_option) return cli_usage_error("fit", "--%s needs --folds K", folds_option);
    if (!o->folds) return CLI_DONE;
    if (o->holdout > 0)
        return cli_usage_error("fit", "--folds and --holdout exclude each other; every fold is held out once");
    if (o->stream || cli_ranks_announced())
        return cli_usage_error("fit", "--folds reads the rows into memory; %s is not supported",
                               o->stream ? "--stream" : "a run on several ranks");
    if (o->learning_curve && !cli_plot_known(o->learning_curve))
        return cli_usage_error("fit",
                               "--learning-curve: expected a file name that ends in .svg, .png or .pdf, found '%s'",
                               o->learning_curve);
    return cli_variants_check(o->compare);
}

/* The kernels of the library, and auto. */
static const char *kernel_name(unsigned kernel)
{
    return kernel == CLI_KERNEL_AUTO ? "auto" : bo_enum_name(BO_ENUM_KERNEL, (bo_kernel)kernel);
}

static int check(const cli_fit_options *o, const cli_arguments *files)
{
    const char *network = CLI_UNUSED_NETWORK_OPTION(o);
    if (files->count == 0)
        return cli_usage_error("fit", "expected a training file, found none (example: bochner fit train.csv "
                                      "--target price --out price.model)");
    const int result = check_folds(o);
    if (result != CLI_DONE) return result;
    if (!o->out && !o->test && !(o->holdout > 0) && !o->folds)
        return cli_usage_error("fit",
                               "no result requested; use --out MODEL to save the model, or --test FILE, --holdout F "
                               "or --folds K to test it");
    if (o->exact && (CLI_GIVEN(o, features) || CLI_GIVEN(o, function) || o->stream))
        return cli_usage_error("fit", "--exact uses no features: it excludes --features, --function and --stream");
    if (o->test && o->holdout > 0)
        return cli_usage_error("fit", "--test and --holdout exclude each other; use one of them");
    if (o->test_labels && !o->test) return cli_usage_error("fit", "--test-labels needs --test FILE");
    if (o->labels && files->count > 1)
        return cli_usage_error("fit", "--labels expects one training file, found %zu", files->count);
    if (network)
        return cli_usage_error("fit", "--%s describes the networks of --kernel nngp and ntk; the kernel is %s", network,
                               kernel_name(o->kernel));
    if (o->labels && o->target)
        return cli_usage_error("fit", "--labels and --target exclude each other; use one of them");
    if (o->plot && !cli_plot_known(o->plot))
        return cli_usage_error("fit", "--plot: expected a file name that ends in .svg, .png or .pdf, found '%s'",
                               o->plot);
    if (o->plot && !o->test && !(o->holdout > 0) && !o->folds)
        return cli_usage_error("fit",
                               "--plot shows predictions of test rows; add --test FILE, --holdout F or --folds K");
    if (CLI_GIVEN(o, plot_kind) && !o->plot) return cli_usage_error("fit", "--plot-kind needs --plot FILE");
    if (o->holdout > 0 && cli_ranks_announced())
        return cli_usage_error(
            "fit", "--holdout is not supported with several ranks, which read rows in different orders; put the test "
                   "rows into a separate file and use --test FILE");
    return check_paths(o, files);
}

static int fit(void *given, const cli_common *common, const cli_arguments *files)
{
    cli_fit_options *options = given;
    int status = check(options, files);
    if (status != CLI_DONE) return status;
    cli_session session;
    const cli_compute compute = {.device = options->device,
                                 .precision_given = true}; /* has its own option --gram-precision */
    if (!cli_session_open_in(&session, "fit", common, true, compute)) return CLI_FAILED;
    if (CLI_GIVEN(options, features) && options->features == 0) {
        status = cli_fail(&session, "--features: expected at least 1, found 0");
        cli_session_close(&session);
        return status;
    }
    if (session.ranks.size > 1) options->stream = true; /* ranks exchange sums over rows, which streaming computes */
    cli_folds folds = {0};
    cli_fit_job job = {
        .session = &session, .options = options, .folds = options->folds ? &folds : NULL, .started = cli_now()};
    job.source = describe_source(options, files, session.common.seed);
    job.desc = describe_machine(options, session.common.seed);
    status = run(&job);
    if (status == CLI_FAILED && cli_interrupted()) status = CLI_INTERRUPTED;
    bo_machine_destroy(job.machine);
    bo_data_destroy(job.train);
    bo_data_destroy(job.test);
    bo_schema_destroy(job.schema);
    bo_metrics_destroy(job.metrics);
    cli_folds_free(&folds);
    free(job.length_scales);
    cli_session_close(&session);
    return status;
}

static const cli_option rows[] = {
    SECTION("Data"),
    TEXT("target", "NAME|INDEX", cli_fit_options, target,
         "column to predict, by name or index; negative indices count from the end; several columns are separated by "
         "commas",
         .default_text = "the last column"),
    TEXT("labels", "FILE", cli_fit_options, labels, "file with the targets, one row per training row"),
    CHOICE("task", "TASK", cli_fit_options, task, BO_ENUM_TASK, "task", .initial = "auto"),
    TEXT(
        "categorical", "COLS|auto|none", cli_fit_options, categorical,
        "columns to one-hot encode, by name or index, also if they are numbers or have more than 32 values; none: text "
        "columns are an error",
        .default_text = "auto: text columns are one-hot encoded up to 32 values, and target-encoded beyond"),
    TEXT("drop", "COLS", cli_fit_options, drop, "columns to ignore, by name or index"),
    TEXT("keep", "COLS", cli_fit_options, keep, "the only columns to use as inputs, by name or index",
         .default_text = "all, except row numbers and text that is nearly unique"),
    TEXT("sample-weights", "COL", cli_fit_options, weights,
         "column with the weights of the rows, numbers >= 0; it is not an input"),
    TEXT("group", "COL", cli_fit_options, group,
         "column whose equal values are one group; --holdout keeps the rows of a group together; it is not an input"),
    CHOICE("impute", "HOW", cli_fit_options, impute, BO_ENUM_IMPUTE,
           "replacement of missing values; auto: the mean, and a column that is 1 where a value is missing; none: they "
           "are an error; rows without a target are left out, except with none",
           .initial = "auto"),
    CHOICE("format", "FORMAT", cli_fit_options, format, BO_ENUM_FORMAT, "format of the files", .initial = "auto"),
    TEXT("test", "FILE", cli_fit_options, test, "test the model on the rows of this file"),
    TEXT("test-labels", "FILE", cli_fit_options, test_labels, "file with the targets of --test"),
    REAL("holdout", "F", cli_fit_options, holdout,
         "hold out this fraction of the rows, chosen at random by the seed, and test the model on them", .high = 0.95,
         .default_text = "none"),
    FLAG("stream", cli_fit_options, stream,
         "read the files in blocks, in several passes; the memory does not depend on the number of rows"),
    COUNT("sample", "N", cli_fit_options, sample, "rows of a stream for the choice of gamma and the scaling", .low = 2,
          .initial = "10000"),
    SECTION("Features"),
    CHOICE_OF("kernel", "K", cli_fit_options, kernel, kernel_name,
              "kernel, the similarity of two rows; auto chooses it by the leave-one-out error, or is rbf if options of "
              "the features, gamma or length scales are set",
              .without = CLI_FIT_KERNELS_WITHOUT, .initial = "auto"),
    CHOICE("metric", "M", cli_fit_options, metric, BO_ENUM_METRIC_CHOICE,
           "metric of the kernel: learn weights the columns and their combinations by the gradients of the fitted "
           "function, diagonal weights columns only (auto: learn with --kernel auto, otherwise none)",
           .initial = "auto"),
    COUNT("features", "R", cli_fit_options, features, "number of random features", .default_text = "4096"),
    CHOICE(
        "function", "F", cli_fit_options, function, BO_ENUM_FUNCTION,
        "function of the projections; network: random networks for nngp and ntk; sections: no features, but the exact "
        "kernel with all training rows; landmarks: Nystrom features of training rows",
        .without = CLI_FUNCTIONS_WITHOUT, .default_text = "chosen by kernel"),
    CHOICE("draw", "D", cli_fit_options, draw, BO_ENUM_DRAW, "sampling scheme of the frequencies",
           .default_text = "chosen by kernel"),
    CHOICE("sampling", "S", cli_fit_options, sampling, BO_ENUM_SAMPLING,
           "choice of the frequencies (optimal and leverage select them by the data)", .initial = "drawn"),
    REAL_OR_AUTO("gamma", cli_fit_options, gamma,
                 "bandwidth gamma of the kernel, applied to scaled inputs; a larger gamma makes the kernel more local",
                 .default_text = "chosen by search"),
    REAL("alpha", "X", cli_fit_options, alpha, "alpha of the rational quadratic kernel", .low = 1e-6, .high = 1e6,
         .default_text = "1"),
    COUNT("degree", "P", cli_fit_options, degree, "degree of the polynomial kernel", .low = 1, .high = 64,
          .default_text = "2"),
    COUNT("depth", "L", cli_fit_options, depth,
          "for nngp and ntk: hidden layers of the infinitely wide network (0: 1 to 3, chosen by search)", .high = 16,
          .initial = "1"),
    CHOICE("activation", "A", cli_fit_options, activation, BO_ENUM_HIDDEN_ACTIVATION,
           "for nngp and ntk: activation of the network", .initial = "relu"),
    REAL("weight-variance", "X", cli_fit_options, weight_variance,
         "for nngp and ntk: variance of the weights, times the number of inputs of the layer", .low = 1e-6, .high = 1e6,
         .initial = "2"),
    REAL("bias-variance", "X", cli_fit_options, bias_variance, "for nngp and ntk: variance of the biases", .high = 1e6,
         .initial = "0.1"),
    TEXT("length-scales", "FILE", cli_fit_options, length_scales,
         "file with one positive number per column; each column is divided by its number after scaling"),
    CHOICE("scaling", "HOW", cli_fit_options, scaling, BO_ENUM_SCALING, "scaling of the inputs", .initial = "auto"),
    FLAG("exact", cli_fit_options, exact,
         "use the exact kernel with all training rows instead of features, as --function sections does; with --kernel "
         "auto this is the default up to 50,000 rows that fit into memory"),
    SECTION("Fit"),
    REAL("budget", "SECONDS", cli_fit_options, budget,
         "approximate time limit of the fit; the search is shortened, and large tables get fewer features", .high = 1e7,
         .default_text = "no limit"),
    CHOICE("gram-precision", "P", cli_fit_options, precision, BO_ENUM_GRAM_PRECISION,
           "precision of the products in the Gram matrix (auto: the lowest whose rounding is negligible beside lambda)",
           .initial = "auto"),
    CHOICE("loss", "LOSS", cli_fit_options, loss, BO_ENUM_LOSS,
           "loss to minimize (auto: logistic for classes with at least as many rows in memory as features, otherwise "
           "ridge)",
           .initial = "auto"),
    REAL_OR_AUTO(
        "lambda", cli_fit_options, lambda,
        "regularization: ridge minimizes |Zb - y|^2 + lambda |b|^2, without a factor n; logistic minimizes the sum "
        "of the losses + lambda/2 |b|^2",
        .default_text = "chosen by search"),
    CHOICE("target-scale", "HOW", cli_fit_options, target_scale, BO_ENUM_TARGET_SCALE,
           "scale on which a number is fitted; log needs positive targets (auto: log if it reduces the error of skewed "
           "positive targets)",
           .initial = "auto"),
    CHOICE("solver", "S", cli_fit_options, solver, BO_ENUM_SOLVER, "solver of the linear system", .initial = "auto"),
    REAL("noise", "S", cli_fit_options, noise,
         "standard deviation of noise added to the features; its expected effect is computed in closed form",
         .high = 1e6, .initial = "0"),
    REAL("dropout", "P", cli_fit_options, dropout,
         "probability that a feature is dropped; the expected effect is computed in closed form", .high = 0.99,
         .initial = "0"),
    FLAG("balanced", cli_fit_options, balanced, "give all classes the same total weight"),
    FLAG("no-intercept", cli_fit_options, no_intercept, "fit without a constant term"),
    BYTES("memory", "BYTES", cli_fit_options, memory, "maximum memory for the fit, such as 4G",
          .default_text = "three quarters of the memory that the process may use", .low = 1),
    DEVICE(cli_fit_options),
    SECTION("Evaluation"),
    COUNT("folds", "K", cli_fit_options, folds,
          "cross-validation: divide the rows into K parts, test a model on each part that is fitted to the other "
          "parts, and report mean and deviation of each metric",
          .low = 2, .high = 1000, .default_text = "none"),
    TEXT("compare", "LIST", cli_fit_options, compare,
         "with --folds: compare all kernels, metrics, scalings or losses, or, separated by commas, their combinations; "
         "--out saves a model with the best"),
    CHOICE("score", "METRIC", cli_fit_options, score, BO_ENUM_SCORE, "metric of --compare and --learning-curve",
           .without = 1u << BO_SCORE_COVERAGE, .default_text = "rmse, or log_loss for classes"),
    TEXT("learning-curve", "FILE", cli_fit_options, learning_curve,
         "with --folds: draw the score for growing numbers of training rows; .svg, .png or .pdf"),
    SECTION("Output"),
    TEXT("out", "MODEL", cli_fit_options, out, "model file to write"),
    TEXT("plot", "FILE", cli_fit_options, plot,
         "plot the test: .svg, .png or .pdf; with --folds the test rows of all folds"),
    CHOICE_OF("plot-kind", "KIND", cli_fit_options, plot_kind, cli_plot_kind_name,
              "kind of plot: predicted against true values, residuals, ROC curves, reliability of probabilities, or "
              "the confusion matrix",
              .default_text = "predictions, or confusion for classes"),
    END_OF_OPTIONS,
};

const cli_usage cli_fit_usage = {
    .command = "fit",
    .synopsis = "TRAIN... --out MODEL [options]",
    .about =
        "Fits a kernel machine that predicts a column of a table. TRAIN is CSV, TSV, .npy, libsvm, IDX or "
        "whitespace-separated values, optionally gzip-compressed; several files are read as one. Text, dates and "
        "missing values need no options. No tuning is needed: kernel, scaling, metric, gamma and lambda are chosen by "
        "the leave-one-out error. The kernel is exact up to 50,000 rows, and approximated by random features "
        "for more rows, for streams, or if --kernel or --features is set. Under mpirun, the rows are divided among the "
        "ranks.",
    .examples = "  bochner fit train.csv --target price --out price.model\n"
                "  bochner fit train.csv --target price --test test.csv --features 1024 --plot price.svg --json\n"
                "  bochner fit train.csv --target price --stream --gamma 0.1 --holdout 0.2 --out price.model\n"
                "  bochner fit train.csv --target price --folds 5 --compare kernels\n",
    .groups = {{rows, 0}},
    .short_help = {"target", "test", "holdout", "folds", "categorical", "impute", "kernel", "features", "gamma",
                   "lambda", "stream", "out", "plot", "seed", "threads", "json"},
};

int cli_fit(int argc, char **argv)
{
    cli_fit_options o = {0};
    return cli_command(&cli_fit_usage, argc, argv, &o, fit);
}
