/* bochner features: computes the random features of a table and measures their accuracy. */
#include "../common/cli.h"
#include "../common/json.h"
#include "../common/output.h"
#include "../common/paths.h"
#include "../tables/length_scales.h"
#include "../tables/maps.h"
#include "../tables/accuracy_statement.h"
#include "../shared/hash.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK = 4096, BLOCK_NUMBERS = 1 << 24, SAMPLE = 2000 };

typedef struct features_options {
    cli_given was_given;
    const char *out, *save, *target, *length_scales, *categorical;
    bo_kernel kernel;
    bo_function function;
    bo_draw draw;
    bo_sampling sampling;
    bo_format format;
    bo_impute impute;
    bo_hidden_activation activation;
    size_t features, degree, depth, pairs;
    double gamma, alpha, weight_variance, bias_variance;
    bool error;
} features_options;

typedef struct features_job {
    cli_session *session;
    const features_options *options;
    bo_data_desc data;
    bo_schema *schema;
    bo_table *table;
    float *sample; /* rows for the choice of γ, for data-dependent frequencies and for --error */
    size_t sampled;
    float *length_scales;
    bo_features *map;
    const char *gamma_from;
    size_t rows; /* written */
} features_job;

static bool failed(features_job *job, bo_status status)
{
    if (status != BO_OK) cli_fail_status(job->session, status);
    return status != BO_OK;
}

/* ---- γ ----------------------------------------------------------------------------------------------------------- */

static int ascending(const void *a, const void *b)
{
    double left = *(const double *)a, right = *(const double *)b;
    return (left > right) - (left < right);
}

/* Median of the kernel's distance over at most 1000 pairs of rows. */
static double median_distance(const features_job *job, bool absolute)
{
    enum { PAIRS = 1000 };
    double distances[PAIRS];
    size_t dim = bo_schema_describe(job->schema)->inputs, pairs = 0;
    for (size_t i = 0; i < PAIRS; i++) {
        size_t a = (size_t)(cli_hash(1, 2 * i) % job->sampled), b = (size_t)(cli_hash(1, 2 * i + 1) % job->sampled);
        if (a == b) continue;
        double sum = 0;
        for (size_t j = 0; j < dim; j++) {
            double d = (double)job->sample[a * dim + j] - (double)job->sample[b * dim + j];
            if (job->length_scales) d /= (double)job->length_scales[j];
            sum += absolute ? fabs(d) : d * d;
        }
        distances[pairs++] = absolute ? sum : sqrt(sum);
    }
    qsort(distances, pairs, sizeof(double), ascending);
    return pairs ? distances[pairs / 2] : 0;
}

static double mean_square(const features_job *job)
{
    size_t dim = bo_schema_describe(job->schema)->inputs;
    double sum = 0;
    for (size_t i = 0; i < job->sampled * dim; i++) {
        double value = job->sample[i] / (job->length_scales ? job->length_scales[i % dim] : 1);
        sum += value * value;
    }
    return sum / (double)job->sampled;
}

/* Chooses γ so that the kernel is about e^-½ at the median distance; for kernels of x·y, so that γ|x|² is about 1. */
static double choose_gamma(features_job *job)
{
    bo_kernel kernel = job->options->kernel;
    if (kernel > BO_KERNEL_RATIONAL_QUADRATIC) {
        double square = mean_square(job);
        job->gamma_from = "1 / mean |x|^2";
        return square > 0 ? 1 / square : 1;
    }
    double median = median_distance(job, kernel == BO_KERNEL_LAPLACIAN);
    bool squared = kernel == BO_KERNEL_RBF || kernel == BO_KERNEL_RATIONAL_QUADRATIC;
    job->gamma_from = squared ? "1 / (2 median distance^2)" : "1 / median distance";
    if (!(median > 0)) return 1;
    return squared ? 1 / (2 * median * median) : 1 / median;
}

/* ---- the map ----------------------------------------------------------------------------------------------------- */

static bool read_length_scales(features_job *job)
{
    if (!job->options->length_scales) return true;
    job->length_scales = cli_length_scales(job->session, job->options->length_scales, job->data.path,
                                           bo_schema_describe(job->schema)->inputs);
    return job->length_scales != NULL;
}

static bool open_data(features_job *job)
{
    bo_context *context = job->session->context;
    const bo_table_desc source = {.data = job->data, .split = {.seed = job->session->common.seed}, .other_rows = true};
    if (failed(job, bo_schema_fit(context, &source, &job->schema)) || !read_length_scales(job)) return false;
    if (failed(job, bo_table_open(context, &source, job->schema, BO_SPLIT_ALL, &job->table))) return false;
    const size_t rows = bo_schema_describe(job->schema)->rows, landmarks = 2 * job->options->features;
    const size_t sample = job->options->function == BO_FUNCTION_LANDMARKS && landmarks > SAMPLE ? landmarks : SAMPLE;
    const size_t sample_rows = rows && rows < sample ? rows : sample;
    job->sample =
        cli_allocate(sample_rows * bo_schema_describe(job->schema)->inputs, sizeof(float), "a sample of the rows");
    return !failed(
        job, bo_table_sample(context, &source, job->schema, NULL, sample_rows, job->sample, NULL, NULL, &job->sampled));
}

static bool create_map(features_job *job)
{
    const features_options *o = job->options;
    size_t dim = bo_schema_describe(job->schema)->inputs;
    double gamma = o->gamma > 0 ? o->gamma : choose_gamma(job);
    bo_features_desc desc = {.kernel = o->kernel,
                             .function = o->function,
                             .draw = o->draw,
                             .sampling = o->sampling,
                             .dim = dim,
                             .features = o->features,
                             .gamma = gamma,
                             .length_scales = job->length_scales,
                             .alpha = o->alpha,
                             .degree = (int)o->degree,
                             .depth = (int)o->depth,
                             .activation = o->activation,
                             .weight_variance = o->weight_variance,
                             .bias_variance = o->bias_variance,
                             .seed = job->session->common.seed,
                             .sample = job->sample,
                             .sample_rows = job->sampled,
                             .sample_stride = dim};
    bool self = o->function == BO_FUNCTION_SELFTENSOR; /* has r(r + 1)/2 features for some r */
    if (desc.features == 0 && bo_features_has(&desc, BO_FEATURES_TRAIT_LENGTH)) desc.features = self ? 1035 : 1024;
    if (job->gamma_from) cli_note(job->session, "gamma %s = %s", cli_significant(gamma, 4).s, job->gamma_from);
    return !failed(job, bo_features_create(job->session->context, &desc, &job->map));
}

/* ---- output ------------------------------------------------------------------------------------------------------ */

/* Rows of a block: fewer for long rows or many features. */
static size_t block_rows(const features_job *job)
{
    const size_t numbers = bo_schema_describe(job->schema)->inputs + bo_features_describe(job->map)->features;
    const size_t fitting_rows = BLOCK_NUMBERS / numbers + 1;
    return fitting_rows < BLOCK ? fitting_rows : BLOCK;
}

static bo_status write_blocks(features_job *job, cli_output *output, float *x, float *z, bool *written)
{
    cli_session *session = job->session;
    const size_t features = bo_features_describe(job->map)->features;
    bo_table_rows rows = {.x = x};
    bo_status status;
    while ((status = bo_table_next(session->context, job->table, block_rows(job), &rows)) == BO_OK && rows.rows > 0) {
        if (cli_interrupted()) return BO_CANCELED;
        status = bo_features_apply(session->context, job->map, &(bo_inputs){.rows = rows.rows, .x = x}, z, features);
        if (status != BO_OK) return status;
        *written = cli_output_rows(session, output, rows.rows, z);
        if (!*written) return BO_OK;
        job->rows += rows.rows;
        cli_progress_report(&session->progress, "features", (double)job->rows,
                            (double)bo_schema_describe(job->schema)->rows);
    }
    return status;
}

static bool write_features(features_job *job)
{
    size_t dim = bo_schema_describe(job->schema)->inputs, features = bo_features_describe(job->map)->features;
    cli_output output;
    if (!cli_output_npy(job->session, &output, job->options->out, features, sizeof(float))) return false;
    float *x = cli_allocate(block_rows(job) * dim, sizeof(float), "a block of rows");
    float *z = cli_allocate(block_rows(job) * features, sizeof(float), "a block of features");
    bool written = true;
    bo_status status = write_blocks(job, &output, x, z, &written);
    free(x);
    free(z);
    bool ok = written && !failed(job, status) && cli_output_commit(job->session, &output);
    if (!ok) cli_output_abandon(&output);
    return ok;
}

/* ---- reports ----------------------------------------------------------------------------------------------------- */

static void report_json(const features_job *job, const bo_features_accuracy *accuracy)
{
    const bo_features_desc *desc = bo_features_describe(job->map);
    cli_json json = {.out = stdout};
    cli_json_object(&json, NULL);
    cli_json_add_text(&json, "data", job->data.path);
    cli_json_add_count(&json, "rows", bo_schema_describe(job->schema)->rows);
    cli_json_add_count(&json, "dim", desc->dim);
    cli_json_add_text(&json, "kernel", bo_enum_name(BO_ENUM_KERNEL, desc->kernel));
    cli_json_add_text(&json, "function", bo_enum_name(BO_ENUM_FUNCTION, desc->function));
    cli_json_add_text(&json, "draw", bo_enum_name(BO_ENUM_DRAW, desc->draw));
    cli_json_add_text(&json, "sampling", bo_enum_name(BO_ENUM_SAMPLING, desc->sampling));
    cli_json_add_count(&json, "features", desc->features);
    cli_json_add_count(&json, "frequencies", bo_features_frequencies(job->map));
    cli_json_add_number(&json, "gamma", desc->gamma);
    cli_json_add_text(&json, "gamma_from", job->gamma_from ? job->gamma_from : "given");
    cli_json_add_text(&json, "out", job->options->out);
    cli_json_add_text(&json, "saved", job->options->save);
    if (accuracy) cli_statement_json(&json, accuracy);
    cli_json_end(&json);
}

static void print_value(const char *name, double value)
{
    printf("  %-34s", name);
    if (isfinite(value))
        printf("%s\n", cli_significant(value, 4).s);
    else
        printf("not available\n");
}

static void print_error(const features_job *job, const bo_features_accuracy *accuracy)
{
    const bo_features_desc *desc = bo_features_describe(job->map);
    printf("Accuracy of %s features of the %s kernel (%s, %s), gamma %s\n", cli_count(desc->features).s,
           bo_enum_name(BO_ENUM_KERNEL, desc->kernel), bo_enum_name(BO_ENUM_FUNCTION, desc->function),
           bo_enum_name(BO_ENUM_DRAW, desc->draw), cli_significant(desc->gamma, 4).s);
    printf("  %-34s%s\n", "pairs of rows", cli_count(accuracy->pairs).s);
    print_value("kernel, RMS", accuracy->kernel_rms);
    print_value("error, RMS", accuracy->error_rms);
    print_value("error, mean", accuracy->error_mean);
    print_value("error, maximum", accuracy->error_max);
    print_value("error, predicted RMS", accuracy->predicted_rms);
    print_value("measured RMS / predicted RMS", accuracy->ratio);
    print_value("features for a 1% relative error", accuracy->features_for_1pct);
    printf("Summary: ");
    cli_statement_print(stdout, accuracy, desc->features, desc->function, desc->draw, 9);
}

static void print_written(const features_job *job)
{
    const features_options *o = job->options;
    if (o->out)
        printf("%s: %s rows x %s features, float32\n", o->out, cli_count(job->rows).s,
               cli_count(bo_features_describe(job->map)->features).s);
    if (o->save) printf("%s: the feature map (load it with bo_features_load)\n", o->save);
}

/* ---- the command ------------------------------------------------------------------------------------------------- */

static int run(features_job *job)
{
    const features_options *o = job->options;
    cli_session *session = job->session;
    if (CLI_GIVEN(o, features) && o->features == 0)
        return cli_fail(session, "--features: expected at least 1, found 0");
    if ((o->out && !cli_can_write(session, o->out)) || (o->save && !cli_can_write(session, o->save))) return CLI_FAILED;
    if (!open_data(job) || !create_map(job)) return CLI_FAILED;
    if (o->out && !write_features(job)) return CLI_FAILED;
    if (o->save &&
        failed(job, cli_record_output(session, o->save,
                                      bo_features_save(session->context, job->map, &(bo_sink){.path = o->save}))))
        return CLI_FAILED;
    bo_features_accuracy accuracy;
    if (o->error && failed(job, bo_features_measure(session->context, job->map,
                                                    &(bo_inputs){.rows = job->sampled, .x = job->sample}, o->pairs,
                                                    session->common.seed, &accuracy)))
        return CLI_FAILED;
    cli_progress_clear(&session->progress);
    if (session->common.json) {
        report_json(job, o->error ? &accuracy : NULL);
        return CLI_DONE;
    }
    print_written(job);
    if (o->error) print_error(job, &accuracy);
    return CLI_DONE;
}

static int check(const features_options *o, const cli_arguments *arguments)
{
    if (arguments->count != 1)
        return cli_usage_error("features", "expected one DATA file, found %zu", arguments->count);
    if (!o->out && !o->error && !o->save)
        return cli_usage_error("features",
                               "no output requested; use --out Z.npy to write the features, --error to measure their "
                               "accuracy, or --save FILE to write the feature map");
    if (o->out && !cli_ends_with(o->out, ".npy"))
        return cli_usage_error("features", "--out: expected a file name that ends in .npy, found '%s'", o->out);
    const char *network = CLI_UNUSED_NETWORK_OPTION(o);
    if (network)
        return cli_usage_error("features", "--%s describes the networks of --kernel nngp and ntk; the kernel is %s",
                               network, bo_enum_name(BO_ENUM_KERNEL, o->kernel));
    const cli_path outputs[] = {{"out", o->out}, {"save", o->save}};
    const cli_path inputs[] = {{NULL, arguments->items[0]}, {"length-scales", o->length_scales}};
    return cli_paths_apart("features", outputs, CLI_COUNT_OF(outputs), inputs, CLI_COUNT_OF(inputs));
}

static int features(void *options, const cli_common *common, const cli_arguments *arguments)
{
    const features_options *o = options;
    int status = check(o, arguments);
    if (status != CLI_DONE) return status;
    cli_session session;
    if (!cli_session_open(&session, "features", common, false)) return CLI_FAILED;
    features_job job = {.session = &session,
                        .options = o,
                        .data = {.path = arguments->items[0],
                                 .format = o->format,
                                 .target = o->target,
                                 .keep_unlabeled = true,
                                 .no_target = o->target == NULL,
                                 .categorical = o->categorical,
                                 .impute = o->impute,
                                 .no_origin = true,
                                 .seed = common->seed}};
    status = run(&job);
    if (status == CLI_FAILED && cli_interrupted()) status = CLI_INTERRUPTED;
    bo_features_destroy(job.map);
    bo_table_close(job.table);
    bo_schema_destroy(job.schema);
    free(job.sample);
    free(job.length_scales);
    cli_session_close(&session);
    return status;
}

static const cli_option rows[] = {
    SECTION("Feature map"),
    CHOICE("kernel", "K", features_options, kernel, BO_ENUM_KERNEL, "kernel, the similarity of two rows",
           .without = CLI_KERNELS_WITHOUT, .initial = "rbf"),
    COUNT("features", "R", features_options, features, "number of random features; fixed for exact maps",
          .default_text = "1024"),
    CHOICE("function", "F", features_options, function, BO_ENUM_FUNCTION, "function of the projections",
           .without = CLI_MAPS_WITHOUT, .default_text = "chosen by kernel"),
    CHOICE("draw", "D", features_options, draw, BO_ENUM_DRAW, "sampling scheme of the frequencies",
           .default_text = "chosen by kernel"),
    CHOICE("sampling", "S", features_options, sampling, BO_ENUM_SAMPLING,
           "choice of the frequencies (optimal and leverage select them by the data)", .initial = "drawn"),
    REAL_OR_AUTO("gamma", features_options, gamma,
                 "bandwidth gamma of the kernel; a larger gamma makes the kernel more local",
                 .default_text = "from the median distance between rows"),
    REAL("alpha", "X", features_options, alpha, "alpha of the rational quadratic kernel", .low = 1e-6, .high = 1e6,
         .default_text = "1"),
    COUNT("degree", "P", features_options, degree, "degree of the polynomial kernel", .low = 1, .high = 64,
          .default_text = "2"),
    COUNT("depth", "L", features_options, depth, "for nngp and ntk: hidden layers of the infinitely wide network",
          .low = 1, .high = 16, .initial = "1"),
    CHOICE("activation", "A", features_options, activation, BO_ENUM_HIDDEN_ACTIVATION,
           "for nngp and ntk: activation of the network", .initial = "relu"),
    REAL("weight-variance", "X", features_options, weight_variance,
         "for nngp and ntk: variance of the weights, times the number of inputs of the layer", .low = 1e-6, .high = 1e6,
         .initial = "2"),
    REAL("bias-variance", "X", features_options, bias_variance, "for nngp and ntk: variance of the biases", .high = 1e6,
         .initial = "0.1"),
    TEXT("length-scales", "FILE", features_options, length_scales,
         "file with one positive number per column; each column is divided by its number"),
    SECTION("Data"),
    TEXT("target", "NAME|INDEX", features_options, target, "column to exclude from the inputs", .default_text = "none"),
    TEXT("categorical", "COLS|auto|none", features_options, categorical,
         "columns to one-hot encode, by name or index; none: text columns are an error",
         .default_text = "auto: text columns of up to 32 values"),
    CHOICE("impute", "HOW", features_options, impute, BO_ENUM_IMPUTE,
           "replacement of missing values; auto: the mean, and a column that is 1 where a value is missing; none: they "
           "are an error",
           .initial = "auto"),
    CHOICE("format", "FORMAT", features_options, format, BO_ENUM_FORMAT, "format of DATA", .initial = "auto"),
    SECTION("Output"),
    TEXT("out", "Z.npy", features_options, out, "write the features: rows x R, float32"),
    TEXT("save", "FILE", features_options, save, "write the feature map"),
    FLAG("error", features_options, error, "print the accuracy report: measured and predicted kernel error"),
    COUNT("pairs", "N", features_options, pairs, "number of pairs of rows that --error compares", .low = 1, .high = 1e6,
          .initial = "2000"),
    END_OF_OPTIONS,
};

const cli_usage cli_features_usage = {
    .command = "features",
    .synopsis = "DATA --out Z.npy [options]   or   --error DATA [options]",
    .about = "Computes random features z(x) of every row, with z(x).z(y) approximately equal to the kernel k(x, y), "
             "and measures the error. Inputs are not scaled: scale the columns first if their units differ.",
    .examples = "  bochner features train.csv --kernel rbf --features 512 --out Z.npy\n"
                "  bochner features --error train.csv --kernel matern52 --features 512\n",
    .groups = {{rows, 0}},
    .short_help = {"kernel", "features", "gamma", "target", "categorical", "out", "save", "error", "seed", "json"},
};

int cli_features(int argc, char **argv)
{
    features_options o = {0};
    return cli_command(&cli_features_usage, argc, argv, &o, features);
}
