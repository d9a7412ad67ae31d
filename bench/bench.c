/* bochner bench: speed and quality as ratios of measurements made in the same run. */
#include "bench.h"
#include "../cli/common/json.h"
#include "../cli/common/plot.h"
#include "device/device.h"
#include "tables/tables.h"
#include "yardstick.h"
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- figures ----------------------------------------------------------------------------------------------------- */

static const char *verdict(const bench_figure *figure)
{
    if (isnan(figure->goal) || isnan(figure->value)) return "";
    return (figure->at_most ? figure->value <= figure->goal : figure->value >= figure->goal) ? "yes" : "NO";
}

static void print_figure(const bench_figure *figure, FILE *out)
{
    char goal[48] = "", value[32] = "none";
    if (!isinf(figure->value)) snprintf(value, sizeof value, "%.4g", figure->value);
    if (!isnan(figure->goal))
        snprintf(goal, sizeof goal, "%s %.4g%s%s", figure->at_most ? "at most" : "at least", figure->goal,
                 *figure->unit ? " " : "", figure->unit);
    fprintf(out, "%-52s %9s %-7s %-19s %-4s %s\n", figure->name, value, figure->unit, goal, verdict(figure),
            figure->detail);
    fflush(out);
}

void bench_add(bench_run *bench, const char *name, double value, const char *unit, double goal, bool at_most,
               const char *detail, ...)
{
    if (bench->count == bench->room) {
        size_t room = 2 * bench->room + 16;
        bench_figure *grown = cli_allocate(room, sizeof(bench_figure), "figures");
        if (bench->count) memcpy(grown, bench->figures, bench->count * sizeof(bench_figure));
        free(bench->figures);
        bench->figures = grown;
        bench->room = room;
    }
    bench_figure *figure = &bench->figures[bench->count++];
    snprintf(figure->name, sizeof figure->name, "%s", name);
    snprintf(figure->unit, sizeof figure->unit, "%s", unit);
    figure->value = value;
    figure->goal = goal;
    figure->at_most = at_most;
    va_list arguments;
    va_start(arguments, detail);
    vsnprintf(figure->detail, sizeof figure->detail, detail, arguments);
    va_end(arguments);
    cli_progress_clear(&bench->session->progress);
    if (!bench->session->common.json) print_figure(figure, stdout);
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
        const bench_figure *figure = &bench->figures[i];
        cli_json_object(&json, NULL);
        cli_json_add_text(&json, "name", figure->name);
        cli_json_add_number(&json, "value", figure->value);
        cli_json_add_text(&json, "unit", figure->unit);
        if (!isnan(figure->goal)) {
            cli_json_add_number(&json, figure->at_most ? "at_most" : "at_least", figure->goal);
            cli_json_add_flag(&json, "met", strcmp(verdict(figure), "yes") == 0);
        }
        cli_json_add_text(&json, "detail", figure->detail);
        cli_json_end(&json);
    }
    cli_json_end(&json);
    cli_json_end(&json);
}

/* ---- peers ------------------------------------------------------------------------------------------------------- */

/* Reads the standard output of the child until its end. */
static char *read_all(int descriptor)
{
    size_t length = 0, room = 1 << 16;
    char *text = cli_allocate(room, 1, "output of a peer");
    for (ssize_t got; (got = read(descriptor, text + length, room - length - 1)) > 0;) {
        length += (size_t)got;
        if (length + 1 < room) continue;
        char *grown = cli_allocate(2 * room, 1, "output of a peer");
        memcpy(grown, text, length);
        free(text);
        text = grown;
        room *= 2;
    }
    text[length] = 0;
    return text;
}

static int run_peer(const char *python, const char *path, const char *const *arguments, char **out)
{
    enum { WORDS = 16 };
    const char *words[WORDS] = {python, path};
    for (size_t i = 0; arguments[i] && i + 3 < WORDS; i++) words[i + 2] = arguments[i];
    int ends[2], ended = -1;
    if (pipe(ends) != 0) return -1;
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], STDOUT_FILENO);
        close(ends[0]);
        close(ends[1]);
        execvp(python, (char *const *)(uintptr_t)words);
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
    const bool there = stat(path, &info) == 0;
    const char *python = there ? find_python(bench, library) : NULL;
    if (!python) {
        bench->missed = library;
        cli_warn(bench->session,
                 there ? "no comparison with %s: it is not installed (%s)"
                       : "no comparison with %s: there is no %s (--peers DIRECTORY)",
                 library->name, there ? library->package : path);
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
    char wanted[64];
    snprintf(wanted, sizeof wanted, "\"%s\":", key);
    const char *at = json ? strstr(json, wanted) : NULL;
    return at ? strtod(at + strlen(wanted), NULL) : NAN;
}

void bench_json_text(const char *json, const char *key, char *out, size_t room)
{
    char wanted[64];
    snprintf(wanted, sizeof wanted, "\"%s\": \"", key);
    const char *at = json ? strstr(json, wanted) : NULL;
    out[0] = 0;
    if (at) snprintf(out, room, "%.*s", (int)strcspn(at + strlen(wanted), "\""), at + strlen(wanted));
}

/* ---- the command ------------------------------------------------------------------------------------------------- */

bool bench_listed(const char *list, const char *word)
{
    if (!list) return true;
    size_t length = strlen(word);
    for (const char *at = list; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL)
        if (strncmp(at, word, length) == 0 && (at[length] == ',' || at[length] == 0)) return true;
    return false;
}

bool bench_wanted(const bench_run *bench, const char *part)
{
    return bench_listed(bench->only, part);
}

bool bench_words_known(const char *command, const char *option, const char *what, const char *words, size_t count,
                       const char *(*name)(const void *unused, size_t index))
{
    for (const char *at = words; at;) {
        char word[32];
        snprintf(word, sizeof word, "%.*s", (int)strcspn(at, ","), at);
        bool known = strcmp(word, "none") == 0;
        for (size_t i = 0; i < count; i++) known |= strcmp(word, name(NULL, i)) == 0;
        const char *near = known ? NULL : cli_nearest(word, count, name, NULL);
        if (!known) {
            cli_usage_error(command, "--%s: there is no %s '%s'%s%s", option, what, word, near ? "; did you mean " : "",
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
    return bench_words_known(command, "only", "part", only, count, name);
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

double bench_yardstick(bench_run *bench)
{
    bo_yardstick yard;
    return bo_yardstick_gemm(bench->session->context, bench->gemm, 3, &yard) == BO_OK ? yard.best_gflops : NAN;
}

void bench_rate_name(char *name, size_t room, const char *what, bo_gram_precision asked)
{
    if (asked == BO_GRAM_PRECISION_AUTO)
        snprintf(name, room, "%s, fit rate / GEMM rate", what);
    else
        snprintf(name, room, "%s, %s, fit rate / GEMM rate", what, bo_enum_name(BO_ENUM_GRAM_PRECISION, asked));
}

bool bench_gemm(bench_run *bench)
{
    bo_yardstick yard;
    bo_status status = bo_yardstick_gemm(bench->session->context, bench->gemm, 0, &yard);
    if (status != BO_OK) {
        cli_fail_status(bench->session, status);
        return false;
    }
    char rate[48] = "";
    if (yard.openblas_threads)
        snprintf(rate, sizeof rate, " %.0f on %d threads", yard.openblas_gflops, yard.openblas_threads);
    bench_add(bench, "GEMM rate", yard.best_gflops, "GFLOP/s", NAN, false,
              "%zu^3 float32: %s%s, bochner (%s) %.0f on %d threads", yard.n, yard.library, rate, yard.isa,
              yard.own_gflops, yard.own_threads);
    return true;
}

bool bench_narrow_gemm(bench_run *bench)
{
    bo_narrow_yardstick yard;
    const char *isa = bo_context_describe(bench->session->context)->isa;
    bo_status status = bo_yardstick_narrow_gemm(bench->session->context, bench->gemm, 5, &yard);
    if (status != BO_OK) {
        cli_fail_status(bench->session, status);
        return false;
    }
    bench_add(bench, "bfloat16 GEMM rate", yard.gflops, "GFLOP/s", NAN, false, "%zu^3 on %d threads, %s, float32 sums",
              yard.n, bo_context_describe(bench->session->context)->threads, isa);
    if (yard.peak_gflops > 0)
        bench_add(bench, "bfloat16 GEMM rate / peak", yard.gflops / yard.peak_gflops, "",
                  strcmp(isa, "amx") == 0 ? 0.6 : 0.85, false, "the peak is %.0f GFLOP/s, a loop of %s on registers",
                  yard.peak_gflops, yard.instruction);
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
    const size_t most = bench->argument ? 1 : 0;
    if (parsed == CLI_PARSED && arguments.count > most) {
        cli_usage_error(usage->command, "expected %s, found '%s'", most ? "one argument" : "options only",
                        arguments.items[most]);
    } else if (parsed == CLI_PARSED) {
        status = CLI_FAILED;
        if (arguments.count) *bench->argument = arguments.items[0];
        if (cli_session_open(&session, "bench", &common, false)) {
            session.terse = true;
            bench->session = &session;
            status = measure(bench, options);
            if (status == CLI_DONE && common.json && !bench->own_json) report_json(bench);
            free(bench->figures);
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
        !bench_words_known(command, "only-tables", "table", o->only_tables, BENCH_TABLES, bench_table_name))
        return CLI_USAGE_ERROR;
    if (device_wanted(&(device_options){.device = o->device})) return measure_device(bench, o);
    if (!o->mnist && !o->fashion && !o->tables && !o->scratch)
        cli_note(bench->session,
                 "no data: only the reference matrix product is measured (--mnist, --fashion, --tables, --scratch)");
    bool ok = bench_gemm(bench);
    for (size_t i = 0; ok && i < CLI_COUNT_OF(parts); i++)
        if (bench_wanted(bench, parts[i].name)) ok = parts[i].measure(bench);
    return ok ? CLI_DONE : CLI_FAILED;
}

static const cli_option rows[] = {
    SECTION("Data"),
    TEXT("mnist", "DIR", bench_options, mnist, "directory with the four IDX files of MNIST, for speed and quality"),
    TEXT("fashion", "DIR", bench_options, fashion, "directory with the four IDX files of Fashion-MNIST",
         .default_text = "Debian's dataset-fashion-mnist"),
    TEXT("tables", "DIR", bench_options, tables, "directory with uci/ and tables/, for the part tables"),
    TEXT("scratch", "DIR", bench_options, scratch, "directory for the temporary file of the part stream, 1.3 GB"),
    SECTION("Measuring"),
    TEXT("only", "PARTS", bench_options, run.only, "parts to measure: speed, quality, stream, tables",
         .default_text = "all"),
    COUNT("gemm", "N", bench_options, run.gemm, "size N of the reference matrix product, N x N x N", .low = 1,
          .high = 32768, .default_text = "2048"),
    COUNT("rows", "N", bench_options, rows, "number of rows in the part stream", .low = 1000, .initial = "10000000"),
    COUNT("features", "R", bench_options, features, "number of features in the part speed", .low = 2,
          .initial = "4096"),
    CHOICE("draw", "D", bench_options, draw, BO_ENUM_DRAW,
           "sampling scheme of the frequencies in the part speed; hadamard makes the projection nearly free",
           .initial = "default"),
    COUNT("quality-features", "R", bench_options, quality_features, "number of features in the part quality", .low = 2,
          .initial = "8192"),
    COUNT("stream-features", "R", bench_options, stream_features, "number of features in the part stream", .low = 2,
          .initial = "1024"),
    COUNT("repeats", "N", bench_options, repeats, "number of fits in the part speed; the fastest counts", .low = 1,
          .high = 100, .initial = "2"),
    TEXT("only-tables", "NAMES", bench_options, only_tables, "tables of the part tables, such as yacht,letter",
         .default_text = "all twelve"),
    COUNT("splits", "N", bench_options, splits, "number of splits in the part tables", .low = 1, .high = BENCH_SPLITS,
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
