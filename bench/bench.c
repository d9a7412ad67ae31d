/* bochner bench: speed and quality as ratios of measurements from the same run. */
#include "bench.h"
#include "../cli/common/json.h"
#include "../cli/common/plot.h"
#include "device/device.h"
#include "tables/tables.h"
#include "reference.h"
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- metrics ----------------------------------------------------------------------------------------------------- */

static const char *verdict(const bench_metric *metric)
{
    if (isnan(metric->goal) || isnan(metric->value)) return "";
    return (metric->at_most ? metric->value <= metric->goal : metric->value >= metric->goal) ? "yes" : "NO";
}

static void print_metric(const bench_metric *metric, FILE *out)
{
    char goal[48] = "", value[32] = "none";
    if (!isinf(metric->value)) snprintf(value, sizeof value, "%.4g", metric->value);
    if (!isnan(metric->goal))
        snprintf(goal, sizeof goal, "%s %.4g%s%s", metric->at_most ? "at most" : "at least", metric->goal,
                 *metric->unit ? " " : "", metric->unit);
    fprintf(out, "%-52s %9s %-7s %-19s %-4s %s\n", metric->name, value, metric->unit, goal, verdict(metric),
            metric->detail);
    fflush(out);
}

void bench_add(bench_run *bench, const char *name, double value, const char *unit, double goal, bool at_most,
               const char *detail, ...)
{
    if (bench->count == bench->capacity) {
        size_t capacity = 2 * bench->capacity + 16;
        bench_metric *grown = cli_allocate(capacity, sizeof(bench_metric), "metrics");
        if (bench->count) memcpy(grown, bench->metrics, bench->count * sizeof(bench_metric));
        free(bench->metrics);
        bench->metrics = grown;
        bench->capacity = capacity;
    }
    bench_metric *metric = &bench->metrics[bench->count++];
    snprintf(metric->name, sizeof metric->name, "%s", name);
    snprintf(metric->unit, sizeof metric->unit, "%s", unit);
    metric->value = value;
    metric->goal = goal;
    metric->at_most = at_most;
    va_list arguments;
    va_start(arguments, detail);
    vsnprintf(metric->detail, sizeof metric->detail, detail, arguments);
    va_end(arguments);
    cli_progress_clear(&bench->session->progress);
    if (!bench->session->common.json) print_metric(metric, stdout);
}

static void report_json(const bench_run *bench)
{
    cli_json json = {.out = stdout};
    cli_json_object(&json, NULL);
    cli_json_add_text(&json, "version", bo_version());
    cli_json_add_text(&json, "isa", bo_context_describe(bench->session->context)->isa);
    cli_json_add_count(&json, "threads", (size_t)bo_context_describe(bench->session->context)->threads);
    cli_json_array(&json, "figures");
    for (size_t i = 0; i < bench->count; i++) {
        const bench_metric *metric = &bench->metrics[i];
        cli_json_object(&json, NULL);
        cli_json_add_text(&json, "name", metric->name);
        cli_json_add_number(&json, "value", metric->value);
        cli_json_add_text(&json, "unit", metric->unit);
        if (!isnan(metric->goal)) {
            cli_json_add_number(&json, metric->at_most ? "at_most" : "at_least", metric->goal);
            cli_json_add_flag(&json, "met", strcmp(verdict(metric), "yes") == 0);
        }
        cli_json_add_text(&json, "detail", metric->detail);
        cli_json_end(&json);
    }
    cli_json_end(&json);
    cli_json_end(&json);
}

/* ---- peers ------------------------------------------------------------------------------------------------------- */

/* Reads the standard output of the child until its end. */
static char *read_all(int descriptor)
{
    size_t length = 0, capacity = 1 << 16;
    char *text = cli_allocate(capacity, 1, "output of a peer");
    for (ssize_t got; (got = read(descriptor, text + length, capacity - length - 1)) > 0;) {
        length += (size_t)got;
        if (length + 1 < capacity) continue;
        char *grown = cli_allocate(2 * capacity, 1, "output of a peer");
        memcpy(grown, text, length);
        free(text);
        text = grown;
        capacity *= 2;
    }
    text[length] = 0;
    return text;
}

static int run_peer(const char *python, const char *path, const char *const *arguments, char **out)
{
    enum { ARGS = 16 };
    const char *args[ARGS] = {python, path};
    for (size_t i = 0; arguments[i] && i + 3 < ARGS; i++) args[i + 2] = arguments[i];
    int ends[2], ended = -1;
    if (pipe(ends) != 0) return -1;
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], STDOUT_FILENO);
        close(ends[0]);
        close(ends[1]);
        execvp(python, (char *const *)(uintptr_t)args);
        _exit(127);
    }
    close(ends[1]);
    *out = child > 0 ? read_all(ends[0]) : NULL;
    close(ends[0]);
    if (child > 0) waitpid(child, &ended, 0);
    return ended;
}

const bench_library bench_sklearn = {"scikit-learn", "sklearn", "python3-sklearn"};
const bench_library bench_torch = {"PyTorch", "torch", "python3-torch"};

static bool has_module(const char *python, const char *module)
{
    char command[1024];
    snprintf(command, sizeof command, "'%s' -c 'import %s' >/dev/null 2>&1", python, module);
    return strchr(python, '\'') == NULL && system(command) == 0;
}

/* Returns a Python interpreter that can import the library, or NULL. */
static const char *find_python(const bench_run *bench, const bench_library *library)
{
    const char *const candidates[] = {bench->python, "python3", "/usr/bin/python3"};
    for (size_t i = 0; i < CLI_COUNT_OF(candidates); i++)
        if (candidates[i] && has_module(candidates[i], library->module)) return candidates[i];
    return NULL;
}

char *bench_peer(bench_run *bench, const bench_library *library, const char *script, const char *const *arguments)
{
    char path[1024], *text = NULL;
    struct stat info;
    if (bench->missed == library) return NULL;
    snprintf(path, sizeof path, "%s/%s", bench->peers, script);
    const bool exists = stat(path, &info) == 0;
    const char *python = exists ? find_python(bench, library) : NULL;
    if (!python) {
        bench->missed = library;
        cli_warn(bench->session,
                 exists ? "no comparison with %s: it is not installed (%s)"
                        : "no comparison with %s: there is no %s (--peers DIRECTORY)",
                 library->name, exists ? library->package : path);
        return NULL;
    }
    cli_note(bench->session, "running %s %s", python, path);
    if (run_peer(python, path, arguments, &text) == 0) return text;
    cli_warn(bench->session, "no comparison with %s: %s failed", library->name, path);
    free(text);
    return NULL;
}

double bench_json_number(const char *json, const char *key)
{
    char pattern[64];
    snprintf(pattern, sizeof pattern, "\"%s\":", key);
    const char *at = json ? strstr(json, pattern) : NULL;
    return at ? strtod(at + strlen(pattern), NULL) : NAN;
}

void bench_json_text(const char *json, const char *key, char *out, size_t size)
{
    char pattern[64];
    snprintf(pattern, sizeof pattern, "\"%s\": \"", key);
    const char *at = json ? strstr(json, pattern) : NULL;
    out[0] = 0;
    if (at) snprintf(out, size, "%.*s", (int)strcspn(at + strlen(pattern), "\""), at + strlen(pattern));
}

/* ---- the command ------------------------------------------------------------------------------------------------- */

bool bench_listed(const char *list, const char *item)
{
    if (!list) return true;
    size_t length = strlen(item);
    for (const char *at = list; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL)
        if (strncmp(at, item, length) == 0 && (at[length] == ',' || at[length] == 0)) return true;
    return false;
}

bool bench_selected(const bench_run *bench, const char *part)
{
    return bench_listed(bench->only, part);
}

bool bench_names_known(const char *command, const char *option, const char *what, const char *list, size_t count,
                       const char *(*name)(const void *unused, size_t index))
{
    for (const char *at = list; at;) {
        char item[32];
        snprintf(item, sizeof item, "%.*s", (int)strcspn(at, ","), at);
        bool known = strcmp(item, "none") == 0;
        for (size_t i = 0; i < count; i++) known |= strcmp(item, name(NULL, i)) == 0;
        const char *near = known ? NULL : cli_nearest(item, count, name, NULL);
        if (!known) {
            cli_usage_error(command, "--%s: there is no %s '%s'%s%s", option, what, item, near ? "; did you mean " : "",
                            near ? near : "");
            return false;
        }
        at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL;
    }
    return true;
}

bool bench_parts_known(const char *command, const char *only, size_t count,
                       const char *(*name)(const void *unused, size_t index))
{
    return bench_names_known(command, "only", "part", only, count, name);
}

static int ascending(const void *a, const void *b)
{
    double left = *(const double *)a, right = *(const double *)b;
    return (left > right) - (left < right);
}

double bench_median(double *values, size_t count)
{
    qsort(values, count, sizeof *values, ascending);
    return (values[(count - 1) / 2] + values[count / 2]) / 2;
}

bo_context *bench_narrow_context(bench_run *bench)
{
    bo_context *context = NULL;
    const bo_context_desc desc = {.threads = bo_context_describe(bench->session->context)->threads,
                                  .isa = bo_context_describe(bench->session->context)->isa,
                                  .precision = BO_PRECISION_BFLOAT16};
    bo_status status = bo_context_create(&desc, &context);
    if (status != BO_OK) cli_fail(bench->session, "a context of bfloat16 products: %s", bo_status_string(status));
    return context;
}

double bench_narrow_goal(const bench_run *bench, double goal)
{
    return strcmp(bo_context_describe(bench->session->context)->isa, "amx") == 0 ? goal : NAN;
}

int bench_can_draw(bench_run *bench, const char *command, const char *option, const char *path)
{
    if (!path) return CLI_DONE;
    if (!cli_plot_known(path))
        return cli_usage_error(command, "--%s: expected a file ending in .svg, .png or .pdf, found '%s'", option, path);
    return cli_can_write(bench->session, path) ? CLI_DONE : CLI_FAILED;
}

double bench_reference_rate(bench_run *bench)
{
    bo_reference_rate reference;
    return bo_reference_gemm(bench->session->context, bench->gemm, 3, &reference) == BO_OK ? reference.best_gflops
                                                                                           : NAN;
}

void bench_rate_name(char *name, size_t size, const char *what, bo_gram_precision requested)
{
    if (requested == BO_GRAM_PRECISION_AUTO)
        snprintf(name, size, "%s, fit rate / GEMM rate", what);
    else
        snprintf(name, size, "%s, %s, fit rate / GEMM rate", what, bo_enum_name(BO_ENUM_GRAM_PRECISION, requested));
}

bool bench_gemm(bench_run *bench)
{
    bo_reference_rate reference;
    bo_status status = bo_reference_gemm(bench->session->context, bench->gemm, 0, &reference);
    if (status != BO_OK) {
        cli_fail_status(bench->session, status);
        return false;
    }
    char rate[48] = "";
    if (reference.openblas_threads)
        snprintf(rate, sizeof rate, " %.0f on %d threads", reference.openblas_gflops, reference.openblas_threads);
    bench_add(bench, "GEMM rate", reference.best_gflops, "GFLOP/s", NAN, false,
              "%zu^3 float32: %s%s, bochner (%s) %.0f on %d threads", reference.n, reference.library, rate,
              reference.isa, reference.bochner_gflops, reference.bochner_threads);
    return true;
}

bool bench_narrow_gemm(bench_run *bench)
{
    bo_narrow_reference reference;
    const char *isa = bo_context_describe(bench->session->context)->isa;
    bo_status status = bo_reference_narrow_gemm(bench->session->context, bench->gemm, 5, &reference);
    if (status != BO_OK) {
        cli_fail_status(bench->session, status);
        return false;
    }
    bench_add(bench, "bfloat16 GEMM rate", reference.gflops, "GFLOP/s", NAN, false,
              "%zu^3 on %d threads, %s, float32 sums", reference.n,
              bo_context_describe(bench->session->context)->threads, isa);
    if (reference.peak_gflops > 0)
        bench_add(bench, "bfloat16 GEMM rate / peak", reference.gflops / reference.peak_gflops, "",
                  strcmp(isa, "amx") == 0 ? 0.6 : 0.85, false, "the peak is %.0f GFLOP/s, a loop of %s on registers",
                  reference.peak_gflops, reference.instruction);
    return true;
}

int bench_command(const cli_usage *usage, int argc, char **argv, bench_run *bench,
                  int (*measure)(bench_run *bench, void *options), void *options)
{
    cli_common common = {0};
    cli_arguments arguments = {0};
    cli_session session;
    cli_parsed parsed = cli_parse(usage, argc, argv, options, &common, &arguments);
    int status = parsed == CLI_HELP_SHOWN ? CLI_DONE : CLI_USAGE_ERROR;
    const size_t max_count = bench->argument ? 1 : 0;
    if (parsed == CLI_PARSED && arguments.count > max_count) {
        cli_usage_error(usage->command, "expected %s, found '%s'", max_count ? "one argument" : "options only",
                        arguments.items[max_count]);
    } else if (parsed == CLI_PARSED) {
        status = CLI_FAILED;
        if (arguments.count) *bench->argument = arguments.items[0];
        if (cli_session_open(&session, "bench", &common, false)) {
            session.terse = true;
            bench->session = &session;
            status = measure(bench, options);
            if (status == CLI_DONE && common.json && !bench->prints_json) report_json(bench);
            free(bench->metrics);
            cli_session_close(&session);
        }
    }
    free(arguments.items);
    return status;
}

static const struct {
    const char *name;
    bool (*measure)(bench_run *bench);
} parts[] = {{"speed", bench_mnist}, {"quality", bench_quality}, {"stream", bench_stream}, {"tables", bench_on_tables}};

static const char *part_name(const void *unused, size_t index)
{
    (void)unused;
    return parts[index].name;
}

/* A fit of random rows on a GPU. */
static int measure_device(bench_run *bench, const bench_options *o)
{
    const device_options device = {.device = o->device};
    return device_fit(bench, &(device_fit_options){.device = &device,
                                                   .rows = CLI_GIVEN(o, rows) ? o->rows : 1000000,
                                                   .columns = o->columns,
                                                   .features = CLI_GIVEN(o, features) ? o->features : 8192,
                                                   .repeats = o->repeats,
                                                   .seed = bench->session->common.seed});
}

static int measure_machines(bench_run *bench, void *options)
{
    static const char fashion[] = "/usr/share/datasets/fashion-mnist", command[] = "bench machines";
    bench_options *o = options;
    struct stat info;
    if (!o->fashion && stat(fashion, &info) == 0) o->fashion = fashion;
    bench->options = o;
    if (!bench_parts_known(command, bench->only, CLI_COUNT_OF(parts), part_name) ||
        !bench_names_known(command, "only-tables", "table", o->only_tables, BENCH_TABLES, bench_table_name))
        return CLI_USAGE_ERROR;
    if (device_requested(&(device_options){.device = o->device})) return measure_device(bench, o);
    if (!o->mnist && !o->fashion && !o->tables && !o->scratch)
        cli_note(bench->session,
                 "no data: only the reference matrix product is measured (--mnist, --fashion, --tables, --scratch)");
    bool ok = bench_gemm(bench);
    for (size_t i = 0; ok && i < CLI_COUNT_OF(parts); i++)
        if (bench_selected(bench, parts[i].name)) ok = parts[i].measure(bench);
    return ok ? CLI_DONE : CLI_FAILED;
}

static const cli_option rows[] = {
    SECTION("Data"),
    TEXT("mnist", "DIR", bench_options, mnist, "directory with the four IDX files of MNIST, for speed and quality"),
    TEXT("fashion", "DIR", bench_options, fashion, "directory with the four IDX files of Fashion-MNIST",
         .default_text = "Debian's dataset-fashion-mnist"),
    TEXT("tables", "DIR", bench_options, tables, "directory with uci/ and tables/, for the tables part"),
    TEXT("scratch", "DIR", bench_options, scratch, "directory for the temporary file of the stream part, 1.3 GB"),
    SECTION("Measuring"),
    TEXT("only", "PARTS", bench_options, run.only, "parts to measure: speed, quality, stream, tables",
         .default_text = "all"),
    COUNT("gemm", "N", bench_options, run.gemm, "size N of the reference matrix product, N x N x N", .low = 1,
          .high = 32768, .default_text = "2048"),
    COUNT("rows", "N", bench_options, rows, "number of rows in the stream part", .low = 1000, .initial = "10000000"),
    COUNT("features", "R", bench_options, features, "number of features in the speed part", .low = 2,
          .initial = "4096"),
    CHOICE("draw", "D", bench_options, draw, BO_ENUM_DRAW,
           "sampling scheme of the frequencies in the speed part; hadamard makes the projection nearly free",
           .initial = "default"),
    COUNT("quality-features", "R", bench_options, quality_features, "number of features in the quality part", .low = 2,
          .initial = "8192"),
    COUNT("stream-features", "R", bench_options, stream_features, "number of features in the stream part", .low = 2,
          .initial = "1024"),
    COUNT("repeats", "N", bench_options, repeats, "number of fits in the speed part; the fastest counts", .low = 1,
          .high = 100, .initial = "2"),
    TEXT("only-tables", "NAMES", bench_options, only_tables, "tables of the tables part, such as yacht,letter",
         .default_text = "all twelve"),
    COUNT("splits", "N", bench_options, splits, "number of splits in the tables part", .low = 1, .high = BENCH_SPLITS,
          .initial = "5"),
    SECTION("GPU"),
    DEVICE(bench_options),
    COUNT("columns", "N", bench_options, columns, "with --device cuda: columns of the random rows", .low = 1,
          .high = 100000, .initial = "90"),
    SECTION("Comparison"),
    TEXT("peers", "DIR", bench_options, run.peers, "directory with the comparison scripts", .initial = "bench/peers"),
    TEXT("python", "FILE", bench_options, run.python, "Python interpreter with scikit-learn",
         .default_text = "python3"),
    TEXT("tables-peers", "FILE", bench_options, tables_peers, "saved output of tables.py, which takes hours"),
    END_OF_OPTIONS,
};

const cli_usage bench_machines_usage = {
    .command = "bench machines",
    .synopsis = "[options]",
    .about = "Measures kernel machines: the rate of a fit relative to a large matrix product, time and "
             "accuracy compared with scikit-learn, accuracy with default settings, memory and rate of a "
             "stream, errors and times on twelve tables compared with gradient boosting and xRFM. Parts without data "
             "are skipped. With --device cuda it measures fits of random rows on a GPU instead, in every precision.",
    .examples = "  bochner bench machines --only stream --scratch . --rows 20000\n",
    .groups = {{rows, 0}},
    .short_help = {"only", "mnist", "fashion", "tables", "scratch", "rows", "features", "repeats", "json"},
};

int bench_machines(int argc, char **argv)
{
    bench_options o = {0};
    return bench_command(&bench_machines_usage, argc, argv, &o.run, measure_machines, &o);
}

static const struct {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *summary;
} subjects[] = {
    {"machines", bench_machines, "Kernel machines: speed, accuracy, streams"},
    {"attention", bench_attention, "Attention: speed, memory, decoding, error"},
    {"train", bench_train, "Training: speed of a step, memory, decoding"},
    {"layers", bench_layers, "Layers: speed of each kind"},
    {"recall", bench_recall, "Recall: number of pairs that a state holds"},
    {"tasks", bench_tasks, "Classification and translation: training and decoding"},
    {"decode", bench_decode, "Pretrained models: decoding and reading, also llama2.c"},
    {"scale", bench_scale, "Speed by number of threads"},
    {"serve", bench_serve, "Server: rate and latency by clients, also other servers"},
};

static void bench_overview(void)
{
    puts("Usage: bochner bench SUBJECT [options]\n");
    cli_print_wrapped(stdout,
                      "Measures speed and quality. Most results are ratios of two measurements of the same run.", 0);
    puts("\nSubjects");
    for (size_t i = 0; i < CLI_COUNT_OF(subjects); i++) printf("  %-12s%s\n", subjects[i].name, subjects[i].summary);
    fputs("\nExample\n"
          "  bochner bench tasks --quick\n\n"
          "bochner bench SUBJECT --help shows the options of a subject.\n",
          stdout);
}

int cli_bench(int argc, char **argv)
{
    const char *subject = argc > 0 ? argv[0] : "nothing";
    for (size_t i = 0; i < CLI_COUNT_OF(subjects); i++)
        if (strcmp(subject, subjects[i].name) == 0) return subjects[i].run(argc - 1, argv + 1);
    if (strcmp(subject, "--help") == 0 || strcmp(subject, "-h") == 0) {
        bench_overview();
        return CLI_DONE;
    }
    if (strcmp(subject, "--help-all") != 0)
        return cli_usage_error("bench",
                               "expected a subject first: machines, attention, train, layers, recall, tasks, decode, "
                               "scale or serve; found %s",
                               subject);
    for (size_t i = 0; i < CLI_COUNT_OF(subjects); i++) {
        if (i) putchar('\n');
        subjects[i].run(argc, argv);
    }
    return CLI_DONE;
}
