/* bochner fit: rows in, model out. */
#include "fit.h"
#include "../common/paths.h"
#include "../common/plot.h"
#include "length_scales.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const bo_schema *cli_fit_schema(const cli_fit_job *job)
{
    return job->schema ? job->schema : job->train->schema;
}

bool cli_fit_length_scales(cli_fit_job *job)
{
    if (!job->options->length_scales) return true;
    job->length_scales = cli_length_scales(job->session, job->options->length_scales, job->source.paths[0],
                                           bo_schema_inputs(cli_fit_schema(job)));
    job->desc.features.length_scales = job->length_scales;
    return job->length_scales != NULL;
}

/* ---- the plan ------------------------------------------------------------------------------------------ */

static const char *solver_words(bo_solver solver)
{
    switch (solver) {
    case BO_SOLVER_PRIMAL:
        return "Cholesky of the features' Gram matrix";
    case BO_SOLVER_DUAL:
        return "Cholesky of the kernel matrix, the rows being fewer than the features";
    case BO_SOLVER_CG:
        return "preconditioned conjugate gradients, which need no Gram matrix";
    case BO_SOLVER_SGD:
        return "mini-batch gradient descent with a step from the spectrum";
    default:
        return "chosen by size";
    }
}

static void say_data(cli_fit_job *job, size_t rows)
{
    const bo_schema *schema = cli_fit_schema(job);
    size_t classes = bo_schema_classes(schema), targets = bo_schema_targets(schema);
    char task[160];
    if (classes)
        snprintf(task, sizeof task, "classification into %s classes", cli_count(classes).s);
    else if (targets > 1)
        snprintf(task, sizeof task, "regression of %s targets", cli_count(targets).s);
    else
        snprintf(task, sizeof task, "regression of %s", bo_schema_target(schema, 0));
    char files[64] = "";
    if (job->source.files > 1) snprintf(files, sizeof files, " and %s more", cli_count(job->source.files - 1).s);
    bool guessed = job->options->stream && job->options->holdout > 0; /* which rows are held out is found row by row */
    cli_say(job->session, "Data        %s%s rows x %s columns of %s%s: %s", guessed ? "about " : "", cli_count(rows).s,
            cli_count(bo_schema_inputs(schema)).s, job->source.paths[0], files, task);
    if (2 * classes > rows)
        cli_warn(job->session, "%s classes in %s rows: --task regression learns numbers", cli_count(classes).s,
                 cli_count(rows).s);
}

/* What the library would refuse too, but it does not know the file. */
static bool can_be_learned(cli_fit_job *job, size_t rows)
{
    const bo_schema *schema = cli_fit_schema(job);
    const char *path = job->source.paths[0];
    if (rows < 2) {
        cli_fail(job->session, "%s: fitting needs at least 2 rows, found %zu row%s", path, rows, rows == 1 ? "" : "s");
        return false;
    }
    const char *target = bo_schema_target(schema, 0);
    if (bo_schema_classes(schema) == 1) {
        cli_fail(job->session, "%s: column '%s': classification needs at least 2 classes, found only '%s'", path,
                 target ? target : "target", bo_schema_class(schema, 0));
        return false;
    }
    if (job->options->loss != BO_LOSS_LOGISTIC || bo_schema_classes(schema) > 0) return true;
    cli_fail(job->session,
             "%s: column '%s': the logistic loss is for classes, found numbers (--task classification makes classes of "
             "them)",
             path, target ? target : "target");
    return false;
}

bool cli_fit_plan(cli_fit_job *job, size_t rows)
{
    const bo_schema *schema = cli_fit_schema(job);
    if (!can_be_learned(job, rows)) return false;
    size_t classes = bo_schema_classes(schema), outputs = classes ? classes : bo_schema_targets(schema);
    bo_machine_desc desc = job->desc;
    desc.task = classes ? BO_TASK_CLASSIFICATION : BO_TASK_REGRESSION;
    const bo_fit_cost *plan = &job->plan;
    size_t held = job->options->stream && job->options->sample < rows ? job->options->sample : rows;
    bo_status status =
        bo_machine_estimate(job->session->context, &desc, held, bo_schema_inputs(schema), outputs, &job->plan);
    if (status != BO_OK) {
        cli_fail_status(job->session, status);
        return false;
    }
    say_data(job, rows);
    const char *chosen = plan->searches_gamma && plan->searches_lambda ? "gamma and lambda searched"
                         : plan->searches_gamma                        ? "gamma searched"
                         : plan->searches_lambda                       ? "lambda searched"
                                                                       : "gamma and lambda given";
    cli_say(job->session, "Plan        %s %s features, %s; %s%s", cli_count(plan->features).s,
            bo_kernel_name(desc.features.kernel), chosen, solver_words(plan->solver),
            job->options->stream ? ", in blocks" : "");
    double seconds = plan->seconds / job->session->ranks.size;
    cli_say(job->session, "            at most %s of memory%s%s", cli_bytes((double)plan->bytes).s,
            seconds >= 2 ? ", roughly " : "", seconds >= 2 ? cli_seconds(seconds).s : "");
    return true;
}

/* ---- in memory ----------------------------------------------------------------------------------------- */

/* The test file is read before the fit: what is wrong with it should not wait for the end of long work. */
static bool load_test(cli_fit_job *job)
{
    if (!job->options->test) return true;
    bo_data_desc desc = {.path = job->options->test,
                         .format = job->options->format,
                         .labels = job->options->test_labels,
                         .target = job->options->target,
                         .impute = job->options->impute,
                         .categorical = job->options->categorical};
    bo_status status = bo_data_load(job->session->context, &desc, job->train->schema, &job->test);
    if (status != BO_OK) {
        cli_fail_status(job->session, status);
        return false;
    }
    if (job->test->y) return true;
    cli_fail(job->session, "%s has no column %s to test with%s", job->options->test,
             bo_schema_target(job->train->schema, 0), job->options->labels ? "; give --test-labels FILE" : "");
    return false;
}

static bool fit_in_memory(cli_fit_job *job)
{
    cli_session *session = job->session;
    bo_status status = bo_table_load(session->context, &job->source, &job->train, NULL, &job->test);
    if (status != BO_OK) {
        cli_fail_status(session, status);
        return false;
    }
    if (!cli_fit_length_scales(job) || !load_test(job) || !cli_fit_plan(job, job->train->rows)) return false;
    bo_samples samples;
    bo_data_get_samples(job->train, &samples);
    status = bo_machine_fit(session->context, &job->desc, &samples, &job->machine);
    if (status != BO_OK) cli_fail_status(session, status);
    return status == BO_OK;
}

static bool test_in_memory(cli_fit_job *job)
{
    bo_context *context = job->session->context;
    const bo_data *test = job->test;
    if (!test) return true;
    bo_status status = bo_machine_create_metrics(context, job->machine, CLI_POINTS, &job->metrics);
    if (status == BO_OK)
        status = bo_machine_evaluate(context, job->machine, test->rows, test->x, test->dim, test->y, job->metrics);
    if (status != BO_OK) cli_fail_status(job->session, status);
    return status == BO_OK;
}

/* ---- the command --------------------------------------------------------------------------------------- */

static bool save(cli_fit_job *job)
{
    if (!job->options->out) return true;
    bo_status status = cli_interrupted() ? BO_CANCELED
                                         : bo_machine_save(job->session->context, job->machine, cli_fit_schema(job),
                                                           job->options->out);
    if (status != BO_OK) cli_fail_status(job->session, status);
    return status == BO_OK;
}

/* The model is written as soon as it exists; nothing that follows can lose it. */
static int run(cli_fit_job *job)
{
    const cli_fit_options *options = job->options;
    cli_session *session = job->session;
    if (options->out && session->ranks.rank == 0 && !cli_can_write(session, options->out)) return CLI_FAILED;
    if (options->plot && session->ranks.rank == 0 && !cli_can_write(session, options->plot)) return CLI_FAILED;
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
    if (!options->plot || !job->metrics) return CLI_DONE;
    return cli_plot(session, job->metrics, cli_fit_schema(job), options->plot);
}

static void describe(cli_fit_job *job, const cli_arguments *files)
{
    const cli_fit_options *o = job->options;
    uint64_t seed = job->session->common.seed;
    job->source = (bo_table_desc){
        .data = {.path = files->items[0],
                 .format = o->format,
                 .labels = o->labels,
                 .target = o->target,
                 .task = o->task,
                 .categorical = o->categorical,
                 .impute = o->impute,
                 .sample_rows = o->stream ? o->sample : 0,
                 .seed = seed},
        .paths = files->items,
        .files = files->count,
        .split = {.test = o->holdout, .seed = seed},
    };
    job->desc = (bo_machine_desc){
        .task = o->task,
        .loss = o->loss,
        .solver = o->solver,
        .scaling = o->scaling,
        .precision = o->precision,
        .features = {.kernel = o->kernel,
                     .function = o->function,
                     .draw = o->draw,
                     .sampling = o->sampling,
                     .features = o->features,
                     .gamma = o->gamma,
                     .alpha = o->alpha,
                     .degree = (int)o->degree,
                     .seed = seed},
        .lambda = o->lambda,
        .no_intercept = o->no_intercept,
        .noise = o->noise,
        .dropout = o->dropout,
        .balanced = o->balanced,
        .memory = o->memory,
        .seed = seed,
    };
}

/* No file that is read is written, and the model and the picture are two files. */
static int check_paths(const cli_fit_options *o, const cli_arguments *files)
{
    const cli_path outputs[] = {{"out", o->out}, {"plot", o->plot}};
    const cli_path others[] = {
        {"labels", o->labels}, {"test", o->test}, {"test-labels", o->test_labels}, {"length-scales", o->length_scales}};
    int status = cli_paths_apart("fit", outputs, CLI_COUNT_OF(outputs), others, CLI_COUNT_OF(others));
    for (size_t i = 0; i < files->count && status == CLI_DONE; i++)
        status = cli_paths_apart("fit", outputs, CLI_COUNT_OF(outputs), &(cli_path){NULL, files->items[i]}, 1);
    return status;
}

static int check(const cli_fit_options *o, const cli_arguments *files)
{
    if (files->count == 0) return cli_wrong_use("fit", "no file to learn from");
    if (!o->out && !o->test && !(o->holdout > 0))
        return cli_wrong_use("fit", "give --out MODEL to keep the model, or --test FILE or --holdout F to try it");
    if (o->test && o->holdout > 0) return cli_wrong_use("fit", "give --test or --holdout, not both");
    if (o->test_labels && !o->test) return cli_wrong_use("fit", "--test-labels needs --test FILE");
    if (o->labels && files->count > 1)
        return cli_wrong_use("fit", "--labels goes with one file, found %zu", files->count);
    if (o->labels && o->target) return cli_wrong_use("fit", "give --labels or --target, not both");
    if (o->plot && !cli_plot_known(o->plot))
        return cli_wrong_use("fit", "--plot: expected a name ending in .svg, .png or .pdf, found '%s'", o->plot);
    if (o->plot && !o->test && !(o->holdout > 0))
        return cli_wrong_use("fit",
                             "--plot shows predictions of rows not learned from: give --test FILE or --holdout F");
    if (o->holdout > 0 && cli_ranks_announced())
        return cli_wrong_use(
            "fit", "--holdout is not for several ranks, which read rows in different orders: keep the test rows in a "
                   "file of their own and give --test FILE");
    return check_paths(o, files);
}

static int fit(void *given, const cli_common *common, const cli_arguments *files)
{
    cli_fit_options *options = given;
    int status = check(options, files);
    if (status != CLI_DONE) return status;
    cli_session session;
    if (!cli_session_open(&session, "fit", common, true)) return CLI_FAILED;
    if (CLI_GIVEN(options, features) && options->features == 0) {
        status = cli_fail(&session, "--features 0: at least one feature is needed (sin/cos takes them in pairs)");
        cli_session_close(&session);
        return status;
    }
    if (session.ranks.size > 1) options->stream = true; /* ranks share sums over rows, as a stream does */
    cli_fit_job job = {.session = &session, .options = options, .started = cli_now()};
    describe(&job, files);
    status = run(&job);
    if (status == CLI_FAILED && cli_interrupted()) status = CLI_INTERRUPTED;
    bo_machine_destroy(job.machine);
    bo_data_destroy(job.train);
    bo_data_destroy(job.test);
    bo_schema_destroy(job.schema);
    bo_metrics_destroy(job.metrics);
    free(job.length_scales);
    cli_session_close(&session);
    return status;
}

static const cli_option rows[] = {
    SECTION("Data"),
    TEXT("target", "NAME|INDEX", cli_fit_options, target,
         "column to predict; negative indices count from the end; several are separated by commas",
         .otherwise = "the last"),
    TEXT("labels", "FILE", cli_fit_options, labels, "targets in a file of their own"),
    CHOICE("task", "TASK", cli_fit_options, task, bo_task_name, "what to learn", .initial = "auto"),
    TEXT("categorical", "COLS|auto", cli_fit_options, categorical,
         "columns to encode as one-hot, by name or index; auto: every text column"),
    CHOICE("impute", "HOW", cli_fit_options, impute, bo_impute_name, "what replaces missing values", .initial = "none"),
    CHOICE("format", "FORMAT", cli_fit_options, format, bo_format_name, "format of the files", .initial = "auto"),
    TEXT("test", "FILE", cli_fit_options, test, "evaluate the model on these rows"),
    TEXT("test-labels", "FILE", cli_fit_options, test_labels, "targets of --test in a file of their own"),
    REAL("holdout", "F", cli_fit_options, holdout,
         "evaluate the model on this part of the rows, chosen by the seed, and learn from the rest", .high = 0.95,
         .otherwise = "none"),
    FLAG("stream", cli_fit_options, stream,
         "read the file in blocks, in several passes: memory does not grow with its size"),
    COUNT("sample", "N", cli_fit_options, sample, "rows that choose gamma and the scaling of a stream", .low = 2,
          .initial = "10000"),
    SECTION("Features"),
    CHOICE("kernel", "K", cli_fit_options, kernel, bo_kernel_name, "kernel, the similarity of two rows",
           .without = ~0u << BO_KERNEL_CUSTOM, .initial = "rbf"),
    COUNT("features", "R", cli_fit_options, features, "length of the feature vector", .otherwise = "4096"),
    CHOICE("function", "F", cli_fit_options, function, bo_function_name, "function of the projections",
           .without = ~0u << BO_FUNCTION_CUSTOM, .otherwise = "chosen by kernel"),
    CHOICE("draw", "D", cli_fit_options, draw, bo_draw_name, "how frequencies are coupled",
           .otherwise = "chosen by kernel"),
    CHOICE("sampling", "S", cli_fit_options, sampling, bo_sampling_name, "whether the data chooses frequencies",
           .initial = "drawn"),
    REAL_OR_AUTO("gamma", cli_fit_options, gamma, "gamma of the kernel, after scaling; larger is more local",
                 .otherwise = "searched"),
    REAL("alpha", "X", cli_fit_options, alpha, "alpha of the rational quadratic kernel", .low = 1e-6, .high = 1e6,
         .otherwise = "1"),
    COUNT("degree", "P", cli_fit_options, degree, "degree of the polynomial kernel", .low = 1, .high = 64,
          .otherwise = "2"),
    TEXT("length-scales", "FILE", cli_fit_options, length_scales,
         "file with one positive number for each column, which divides it after scaling"),
    CHOICE("scaling", "HOW", cli_fit_options, scaling, bo_scaling_name, "how inputs are scaled", .initial = "auto"),
    SECTION("Learning"),
    CHOICE("precision", "P", cli_fit_options, precision, bo_precision_name,
           "precision of the products in the Gram matrix; auto: the coarsest that lambda does not notice",
           .initial = "auto"),
    CHOICE("loss", "LOSS", cli_fit_options, loss, bo_loss_name, "what is minimized", .initial = "auto"),
    REAL_OR_AUTO("lambda", cli_fit_options, lambda,
                 "ridge of |Zb - y|^2 + lambda |b|^2, without a factor n; of logistic: losses + lambda/2 |b|^2",
                 .otherwise = "searched"),
    CHOICE("solver", "S", cli_fit_options, solver, bo_solver_name, "how the system is solved", .initial = "auto"),
    REAL("noise", "S", cli_fit_options, noise, "deviation of noise on the features, in expectation", .high = 1e6,
         .initial = "0"),
    REAL("dropout", "P", cli_fit_options, dropout, "probability that a feature is dropped, in expectation",
         .high = 0.99, .initial = "0"),
    FLAG("balanced", cli_fit_options, balanced, "all classes weigh the same, however many rows they have"),
    FLAG("no-intercept", cli_fit_options, no_intercept, "no constant term"),
    BYTES("memory", "BYTES", cli_fit_options, memory, "memory that fitting may use, such as 4G",
          .otherwise = "three quarters of the machine's"),
    SECTION("Results"),
    TEXT("out", "MODEL", cli_fit_options, out, "file to write"),
    TEXT("plot", "FILE", cli_fit_options, plot,
         "picture of the test, predicted against true or the confusion matrix: .svg, .png, .pdf"),
    END_OF_OPTIONS,
};

const cli_usage cli_fit_usage = {
    .command = "fit",
    .synopsis = "TRAIN... --out MODEL [options]",
    .about = "Learns to predict a column of a table with a kernel machine on random features. TRAIN is CSV, "
             ".npy, libsvm, IDX or whitespace-separated numbers, also gzip-compressed; several files are read "
             "as one. Nothing needs to be tuned: gamma and lambda are searched. With mpirun the rows are split "
             "over the ranks.",
    .examples = "  bochner fit train.csv --target price --out price.model\n"
                "  bochner fit train.csv --target price --test test.csv --features 1024 --plot price.svg --json\n"
                "  bochner fit train.csv --target price --stream --gamma 0.1 --holdout 0.2 --out price.model\n",
    .groups = {{rows, 0}},
    .essential = {"target", "test", "holdout", "categorical", "impute", "kernel", "features", "gamma", "lambda",
                  "stream", "out", "plot", "seed", "threads", "json"},
};

int cli_fit(int argc, char **argv)
{
    cli_fit_options o = {0};
    return cli_command(&cli_fit_usage, argc, argv, &o, fit);
}
