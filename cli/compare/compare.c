/* bochner compare: reads the directories of several runs, warns if they are not comparable, prints a table or JSON. */
#include "compare.h"
#include "../common/json.h"
#include "../common/plot.h"
#include "../common/streams.h"
#include "../network/network.h"
#include "../text/text_tasks.h"
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct compare_options {
    cli_given was_given;
    const char *plot;
    unsigned by; /* cli_compare_axis */
    size_t tokens;
} compare_options;

enum { WARNINGS = 8, WARNING = 512 };

typedef struct compare_job {
    cli_session *session;
    const compare_options *options;
    cli_comparison all;
    char warnings[WARNINGS][WARNING];
    size_t warning_count;
} compare_job;

/* ---- one run ----------------------------------------------------------------------------------------------------- */

static bool is_directory(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

static bool has_options(const char *directory)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/train.json", directory);
    return access(path, F_OK) == 0;
}

static bool read_metrics(compare_job *job, cli_compared *run)
{
    if (!is_directory(run->name)) {
        cli_fail(job->session, "%s: %s; expected a directory written by bochner train --out", run->name,
                 access(run->name, F_OK) == 0 ? "not a directory" : "no such directory");
        return false;
    }
    errno = 0;
    const bool read = cli_run_read(run->name, &run->metrics);
    if (!read && errno != ENOENT) {
        cli_fail(job->session, "%s/metrics.jsonl: %s", run->name,
                 errno == EINVAL ? "not a regular file" : strerror(errno));
        return false;
    }
    if (!read && has_options(run->name)) {
        cli_fail(job->session, "%s: the run has no metrics yet; bochner train writes them every few steps", run->name);
        return false;
    }
    if (!read) {
        cli_fail(job->session,
                 "%s: not a training run: it has no metrics.jsonl; expected a directory written by bochner train --out",
                 run->name);
        return false;
    }
    if (run->metrics.count == 0) {
        cli_fail(job->session, "%s: metrics.jsonl has no entries: the run has not completed a step", run->name);
        return false;
    }
    run->last = run->metrics.points[run->metrics.count - 1];
    return true;
}

/* Bytes of the state of a language model after `tokens` tokens. */
static bo_status state_at(bo_context *context, const bo_model *model, size_t tokens, size_t *bytes)
{
    return bo_session_estimate(context, model, &(bo_session_desc){.capacity = tokens}, bytes, NULL);
}

/* The state grows if twice the tokens need more bytes. A model that cannot read so far is measured at its context. */
static bo_status measure_state(compare_job *job, const bo_model *model, cli_compared *run)
{
    bo_context *context = job->session->context;
    const size_t requested = job->options->tokens, context_length = bo_model_describe(model)->context;
    size_t bytes = 0, twice = 0;
    run->state_bytes = NAN;
    if (run->task != BO_MODEL_TASK_LANGUAGE) {
        if (run->task != BO_MODEL_TASK_TRANSLATE && bo_model_report(model)->state_bytes)
            run->state_bytes = (double)bo_model_report(model)->state_bytes;
        return BO_OK;
    }
    run->state_tokens = requested ? requested : context_length;
    if (state_at(context, model, run->state_tokens, &bytes) != BO_OK) run->state_tokens = context_length;
    const bo_status status = state_at(context, model, run->state_tokens, &bytes);
    run->state_grows = state_at(context, model, 2 * run->state_tokens, &twice) == BO_OK && twice > bytes;
    run->state_bytes = status == BO_OK ? (double)bytes : NAN;
    return status;
}

static bo_status read_model(compare_job *job, cli_compared *run)
{
    bo_model *model = NULL;
    bo_status status = bo_model_load(job->session->context, &(bo_source){.path = run->name}, NULL, &model);
    if (status == BO_OK) {
        const bo_model_desc *d = bo_model_describe(model);
        const bo_tokenizer *tokenizer = bo_model_tokenizer(model);
        run->has_model = true;
        run->task = d->task;
        run->attends = d->block.mixer == BO_MIXER_ATTENTION;
        cli_mixer_name(model, run->mixer);
        run->parameters = (double)bo_model_report(model)->parameters;
        if (tokenizer) run->tokenizer = bo_tokenizer_describe(tokenizer)->fingerprint;
        status = measure_state(job, model, run);
    }
    bo_model_destroy(model);
    return status;
}

static bo_status read_network(compare_job *job, cli_compared *run)
{
    bo_model *network = NULL;
    const bo_status status = bo_model_load(job->session->context, &(bo_source){.path = run->name}, NULL, &network);
    if (status == BO_OK) {
        run->has_model = true;
        run->parameters = (double)bo_model_report(network)->network->parameters;
        snprintf(run->mixer, sizeof run->mixer, "%zu layers", bo_model_report(network)->network->layers);
    }
    bo_model_destroy(network);
    return status;
}

/* A run without a checkpoint has no model yet. */
static bool read_weights(compare_job *job, cli_compared *run)
{
    bo_status status = BO_OK;
    run->parameters = run->state_bytes = NAN;
    run->network = cli_is_network(run->name) || strcmp(run->metrics.unit, "examples") == 0;
    snprintf(run->mixer, sizeof run->mixer, "-");
    if (cli_is_network(run->name))
        status = read_network(job, run);
    else if (bo_model_exists(job->session->context, run->name))
        status = read_model(job, run);
    if (status != BO_OK) cli_fail_status(job->session, status);
    return status == BO_OK;
}

/* Reads the options that select the data, as text, and whether --patience ended the run. */
static void read_options(cli_session *session, cli_compared *run)
{
    static const char *const names[] = {"data", "valid", "valid-fraction", "eval-tokens", "field", "separator"};
    bo_json *json = cli_read_json(session, run->name, "train.json");
    char *parts[CLI_COUNT_OF(names)] = {NULL};
    size_t length = 1;
    for (size_t i = 0; i < CLI_COUNT_OF(names); i++) {
        const bo_json *item = bo_json_member(json, names[i]);
        parts[i] = item ? bo_json_print(item) : NULL;
        length += parts[i] ? strlen(parts[i]) + 1 : 1;
    }
    run->data = cli_allocate(length, 1, "options");
    for (size_t i = 0; i < CLI_COUNT_OF(names); i++) {
        if (parts[i]) strcat(run->data, parts[i]);
        strcat(run->data, "\n");
        free(parts[i]);
    }
    const double patience = cli_json_number(json, "patience");
    run->finished = (run->last.steps > 0 && run->last.step >= run->last.steps) || run->record.waited >= patience;
    bo_json_delete(json);
}

static int ascending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median_rate(const cli_run_metrics *m)
{
    double *rates = cli_allocate(m->count, sizeof *rates, "metrics");
    size_t count = 0;
    for (size_t i = 0; i < m->count; i++)
        if (isfinite(m->points[i].rate)) rates[count++] = m->points[i].rate;
    qsort(rates, count, sizeof *rates, ascending);
    const double median = count ? rates[count / 2] : NAN;
    free(rates);
    return median;
}

static bool read_run(compare_job *job, const char *directory, cli_compared *run)
{
    size_t length = strlen(directory);
    while (length > 1 && directory[length - 1] == '/') length--;
    run->name = cli_allocate(length + 1, 1, "a name");
    memcpy(run->name, directory, length);
    if (!read_metrics(job, run)) return false;
    cli_run_find(job->session, run->name, &run->record);
    read_options(job->session, run);
    run->rate = median_rate(&run->metrics);
    run->best_metric = run->last.best_valid_loss * run->last.valid_metric / run->last.valid_loss;
    return read_weights(job, run);
}

/* ---- order and warnings ------------------------------------------------------------------------------------------ */

const char *cli_compared_unit(const cli_compared *run)
{
    if (run->network) return "loss";
    if (strcmp(run->metrics.metric, "accuracy") == 0) return "nats per example";
    return "nats per token";
}

double cli_compared_score(const cli_comparison *all, const cli_compared *run)
{
    return all->by_bits ? run->best_metric : run->last.best_valid_loss;
}

/* Runs without validation come last, ordered by training loss. */
static bool comes_before(const cli_comparison *all, const cli_compared *a, const cli_compared *b)
{
    const double x = cli_compared_score(all, a), y = cli_compared_score(all, b);
    if (isfinite(x) != isfinite(y)) return isfinite(x);
    return isfinite(x) ? x < y : a->last.loss < b->last.loss;
}

static void sort_runs(cli_comparison *all)
{
    for (size_t i = 1; i < all->count; i++)
        for (size_t k = i; k > 0 && comes_before(all, &all->runs[k], &all->runs[k - 1]); k--) {
            const cli_compared run = all->runs[k];
            all->runs[k] = all->runs[k - 1];
            all->runs[k - 1] = run;
        }
}

__attribute__((format(printf, 2, 3))) static void warn(compare_job *job, const char *format, ...)
{
    va_list arguments;
    if (job->warning_count == WARNINGS) return;
    va_start(arguments, format);
    vsnprintf(job->warnings[job->warning_count++], WARNING, format, arguments);
    va_end(arguments);
}

typedef bool (*same_fn)(const cli_compared *a, const cli_compared *b);

static bool same_task(const cli_compared *a, const cli_compared *b)
{
    return a->network == b->network && strcmp(a->metrics.metric, b->metrics.metric) == 0 &&
           (!a->has_model || !b->has_model || a->task == b->task);
}

static bool same_tokenizer(const cli_compared *a, const cli_compared *b)
{
    return !a->has_model || !b->has_model || a->tokenizer == b->tokenizer;
}

/* Fingerprints of tokens are not comparable across tokenizers; in that case the options are compared. */
static bool same_validation(const cli_compared *a, const cli_compared *b)
{
    const bool known = a->record.valid_data[0] && b->record.valid_data[0];
    if (known && same_tokenizer(a, b)) return strcmp(a->record.valid_data, b->record.valid_data) == 0;
    return strcmp(a->data, b->data) == 0;
}

static bool same_training(const cli_compared *a, const cli_compared *b)
{
    const bool known = a->record.train_data[0] && b->record.train_data[0];
    return !known || !same_tokenizer(a, b) || strcmp(a->record.train_data, b->record.train_data) == 0;
}

static bool all_same(const cli_comparison *all, same_fn same)
{
    for (size_t i = 1; i < all->count; i++)
        if (!same(&all->runs[0], &all->runs[i])) return false;
    return true;
}

static void check_runs(compare_job *job)
{
    cli_comparison *all = &job->all;
    const bool tasks = all_same(all, same_task), tokenizers = all_same(all, same_tokenizer);
    const bool language = strcmp(all->runs[0].metrics.metric, "bits_per_byte") == 0;
    if (!tasks) {
        warn(job, "the runs have different tasks; their losses are not comparable");
    } else if (!tokenizers && language) {
        all->by_bits = true;
        warn(job, "the runs have different tokenizers; losses per token are not comparable, bits per byte are");
    } else if (!tokenizers && strcmp(all->runs[0].metrics.metric, "perplexity") == 0) {
        warn(job, "the runs have different tokenizers; losses per token are not comparable: compare the BLEU scores of "
                  "bochner eval");
    }
    if (tasks && !all_same(all, same_validation))
        warn(job, "the runs have different validation data; their losses are not comparable: give all runs the same "
                  "--valid FILE");
    else if (tasks && !all_same(all, same_training))
        warn(job, "the runs have different training data");
    for (size_t i = 0; i < all->count; i++) {
        const cli_compared *run = &all->runs[i];
        if (!run->finished && run->last.steps > 0)
            warn(job, "%.200s is not finished: step %.15g of %.15g", run->name, run->last.step, run->last.steps);
        else if (!run->finished)
            warn(job, "%.200s is not finished: step %.15g", run->name, run->last.step);
    }
}

/* ---- the table --------------------------------------------------------------------------------------------------- */

enum { COLUMNS = 11, CELL = 112 };
typedef char table_row[COLUMNS][CELL];

/* Files are not validated when they are read, so counts may have any value. */
static bool is_count(double value)
{
    return value >= 0 && value < 1e15;
}

static void full_count(double value, const char *mark, char out[CELL])
{
    snprintf(out, CELL, "%s%s", is_count(value) ? cli_count((size_t)value).s : "-", mark);
}

/* 1,234; 33.1k; 1.23M. */
static void short_count(double value, char out[CELL])
{
    static const char prefixes[] = "kMGT";
    int power = -1;
    if (!is_count(value)) {
        snprintf(out, CELL, "-");
    } else if (value < 1e4) {
        snprintf(out, CELL, "%s", cli_count((size_t)value).s);
    } else {
        for (; value >= 999.5 && power < 3; power++) value /= 1000;
        snprintf(out, CELL, "%.*f%c", value < 9.995 ? 2 : value < 99.95 ? 1 : 0, value, prefixes[power]);
    }
}

static void number(double value, const char *format, char out[CELL])
{
    if (!isfinite(value))
        snprintf(out, CELL, "-");
    else if (strcmp(format, "%") == 0 && fabs(value) < 1e6)
        snprintf(out, CELL, "%.2f%%", 100 * value);
    else if (strcmp(format, "g") == 0 || fabs(value) >= 1e6)
        snprintf(out, CELL, "%.5g", value);
    else
        snprintf(out, CELL, "%.4f", value);
}

static const struct {
    const char *name, *title, *format;
} metrics[] = {{"bits_per_byte", "bits/byte", "f"},
               {"accuracy", "accuracy", "%"},
               {"perplexity", "perplexity", "g"},
               {"rmse", "RMSE", "g"}};

static size_t metric_of(const cli_compared *run)
{
    size_t i = 0;
    while (i + 1 < CLI_COUNT_OF(metrics) && strcmp(metrics[i].name, run->metrics.metric) != 0) i++;
    return i;
}

static void fill_heading(const cli_comparison *all, table_row out)
{
    bool attention = true, tokens = true, metric = true;
    for (size_t i = 0; i < all->count; i++) {
        const cli_compared *run = &all->runs[i];
        attention = attention && (!run->has_model || run->attends);
        tokens = tokens && strcmp(run->metrics.unit, "tokens") == 0;
        metric = metric && metric_of(run) == metric_of(&all->runs[0]);
    }
    const char *const titles[COLUMNS] = {"run",
                                         attention ? "attention" : "mixer",
                                         "parameters",
                                         "steps",
                                         tokens ? "tokens" : "examples",
                                         "valid loss",
                                         "best",
                                         metric ? metrics[metric_of(&all->runs[0])].title : "metric",
                                         tokens ? "tokens/s" : "examples/s",
                                         "state",
                                         "time"};
    for (size_t i = 0; i < COLUMNS; i++) snprintf(out[i], CELL, "%s", titles[i]);
}

static void fill_state(const cli_compared *run, char out[CELL])
{
    if (!isfinite(run->state_bytes))
        snprintf(out, CELL, "-");
    else if (run->state_grows)
        snprintf(out, CELL, "%s at %s tokens", cli_bytes(run->state_bytes).s, cli_count(run->state_tokens).s);
    else
        snprintf(out, CELL, "%s fixed", cli_bytes(run->state_bytes).s);
}

static void fill_row(const cli_compared *run, table_row out)
{
    const cli_run_point *last = &run->last;
    const char *format = run->network ? "g" : "f";
    cli_clean(run->name, out[0], 73);
    cli_clean(run->mixer, out[1], 73);
    short_count(run->parameters, out[2]);
    full_count(last->step, run->finished ? "" : "*", out[3]);
    short_count(last->count, out[4]);
    number(last->valid_loss, format, out[5]);
    number(last->best_valid_loss, format, out[6]);
    number(last->valid_metric, metrics[metric_of(run)].format, out[7]);
    short_count(run->rate, out[8]);
    fill_state(run, out[9]);
    snprintf(out[10], CELL, "%s", is_count(last->seconds) ? cli_seconds(last->seconds).s : "-");
}

/* Sets the widths of columns to 0, the least important first, until a line fits on the terminal. Returns the number of
 * omitted columns. */
static int omit_columns(int widths[COLUMNS])
{
    static const size_t order[] = {4, 10, 5, 3, 2, 8}; /* tokens, time, latest loss, steps, parameters, throughput */
    int total = -2, omitted = 0;
    for (size_t c = 0; c < COLUMNS; c++) total += widths[c] + 2;
    for (size_t i = 0; isatty(STDOUT_FILENO) && i < CLI_COUNT_OF(order) && total > cli_columns(stdout); i++) {
        total -= widths[order[i]] + 2;
        widths[order[i]] = 0;
        omitted++;
    }
    return omitted;
}

static void print_row(table_row row, const int widths[COLUMNS])
{
    for (size_t c = 0; c < COLUMNS; c++) {
        if (!widths[c]) continue;
        const int fill = widths[c] - (int)cli_display_width(row[c]);
        if (c < 2)
            printf("%s%*s", row[c], fill, "");
        else
            printf("  %*s%s", fill, "", row[c]);
        if (c == 0) fputs("  ", stdout);
    }
    putchar('\n');
}

static void print_table(const compare_job *job)
{
    const cli_comparison *all = &job->all;
    table_row *rows = cli_allocate(all->count + 1, sizeof *rows, "a table");
    int widths[COLUMNS] = {0};
    bool unfinished = false;
    fill_heading(all, rows[0]);
    for (size_t i = 0; i < all->count; i++) {
        fill_row(&all->runs[i], rows[i + 1]);
        unfinished = unfinished || !all->runs[i].finished;
    }
    for (size_t i = 0; i <= all->count; i++)
        for (size_t c = 0; c < COLUMNS; c++)
            if ((int)cli_display_width(rows[i][c]) > widths[c]) widths[c] = (int)cli_display_width(rows[i][c]);
    const int omitted = omit_columns(widths);
    for (size_t i = 0; i <= all->count; i++) print_row(rows[i], widths);
    free(rows);
    printf("\nSorted by the best %s.", all->by_bits ? "bits per byte" : "validation loss");
    if (!all->runs[0].network) printf(" Losses in %s.", cli_compared_unit(&all->runs[0]));
    puts(unfinished ? " *: not finished." : "");
    if (omitted) printf("%d column%s omitted; use a wider terminal or --json.\n", omitted, omitted == 1 ? "" : "s");
}

/* ---- JSON -------------------------------------------------------------------------------------------------------- */

static void json_run(cli_json *json, const cli_compared *run)
{
    char metric[48], rate[48];
    snprintf(metric, sizeof metric, "valid_%s", run->metrics.metric);
    snprintf(rate, sizeof rate, "%s_per_second", run->metrics.unit);
    cli_json_object(json, NULL);
    cli_json_add_text(json, "run", run->name);
    cli_json_add_text(json, "task",
                      run->network     ? "network"
                      : run->has_model ? bo_enum_name(BO_ENUM_MODEL_TASK, run->task)
                                       : NULL);
    cli_json_add_text(json, "mixer", run->has_model && !run->network ? run->mixer : NULL);
    cli_json_add_number(json, "parameters", run->parameters);
    cli_json_add_number(json, "step", run->last.step);
    cli_json_add_number(json, "steps", run->last.steps);
    cli_json_add_flag(json, "finished", run->finished);
    cli_json_add_number(json, run->metrics.unit, run->last.count);
    cli_json_add_number(json, "loss", run->last.loss);
    cli_json_add_number(json, "valid_loss", run->last.valid_loss);
    cli_json_add_number(json, metric, run->last.valid_metric);
    cli_json_add_number(json, "best_valid_loss", run->last.best_valid_loss);
    cli_json_add_number(json, rate, run->rate);
    cli_json_add_number(json, "state_bytes", run->state_bytes);
    cli_json_add_flag(json, "state_grows", run->state_grows);
    cli_json_add_number(json, "state_tokens", run->state_tokens ? (double)run->state_tokens : NAN);
    cli_json_add_number(json, "seconds", run->last.seconds);
    if (run->record.seed[0])
        cli_json_add_count(json, "seed", strtoull(run->record.seed, NULL, 16));
    else
        cli_json_add_text(json, "seed", NULL);
    cli_json_end(json);
}

static void print_json(const compare_job *job)
{
    cli_json json = {.out = stdout};
    cli_json_object(&json, NULL);
    cli_json_add_text(&json, "sorted_by", job->all.by_bits ? "bits_per_byte" : "best_valid_loss");
    cli_json_array(&json, "runs");
    for (size_t i = 0; i < job->all.count; i++) json_run(&json, &job->all.runs[i]);
    cli_json_end(&json);
    cli_json_array(&json, "warnings");
    for (size_t i = 0; i < job->warning_count; i++) cli_json_add_text(&json, NULL, job->warnings[i]);
    cli_json_end(&json);
    cli_json_end(&json);
}

/* ---- the command ------------------------------------------------------------------------------------------------- */

static int run(compare_job *job, const cli_arguments *arguments)
{
    cli_session *session = job->session;
    const char *plot = job->options->plot;
    if (plot && !cli_can_write(session, plot)) return CLI_FAILED;
    for (size_t i = 0; i < arguments->count; i++) {
        job->all.count++;
        if (!read_run(job, arguments->items[i], &job->all.runs[i])) return CLI_FAILED;
    }
    check_runs(job);
    sort_runs(&job->all);
    (session->common.json ? print_json : print_table)(job);
    cli_streams_flush();
    for (size_t i = 0; i < job->warning_count; i++) cli_warn(session, "%s", job->warnings[i]);
    return plot ? cli_compare_plot(session, plot, &job->all) : CLI_DONE;
}

static int compare(void *options, const cli_common *common, const cli_arguments *arguments)
{
    const compare_options *o = options;
    if (arguments->count == 0)
        return cli_usage_error("compare", "no runs; give one or more directories of bochner train");
    if (arguments->count > CLI_LIST_CAPACITY)
        return cli_usage_error("compare", "expected at most %d runs, found %zu", CLI_LIST_CAPACITY, arguments->count);
    if (o->plot && !cli_plot_known(o->plot))
        return cli_usage_error("compare", "--plot: expected a name ending in .svg, .png or .pdf, found '%s'", o->plot);
    if (CLI_GIVEN(o, by) && !o->plot) return cli_usage_error("compare", "--by needs --plot FILE");
    cli_session session;
    if (!cli_session_open(&session, "compare", common, false)) return CLI_FAILED;
    compare_job *job = cli_allocate(1, sizeof *job, "a comparison");
    job->session = &session;
    job->options = o;
    job->all.axis = (cli_compare_axis)o->by;
    job->all.runs = cli_allocate(arguments->count, sizeof *job->all.runs, "runs");
    const int status = run(job, arguments);
    for (size_t i = 0; i < job->all.count; i++) {
        cli_run_metrics_free(&job->all.runs[i].metrics);
        free(job->all.runs[i].name);
        free(job->all.runs[i].data);
    }
    free(job->all.runs);
    free(job);
    cli_session_close(&session);
    return status;
}

static const char *axis_name(unsigned index)
{
    static const char *const names[] = {"step", "tokens", "seconds"};
    return index < CLI_COUNT_OF(names) ? names[index] : NULL;
}

static const cli_option rows[] = {
    SECTION("Comparison"),
    TEXT("plot", "FILE", compare_options, plot, "draw the loss curves of all runs: .svg, .png or .pdf"),
    CHOICE_OF("by", "AXIS", compare_options, by, axis_name,
              "for --plot: horizontal axis; networks count examples as tokens", .initial = "step"),
    COUNT("tokens", "N", compare_options, tokens, "number of tokens at which the state of a language model is measured",
          .low = 1, .high = 1 << 30, .default_text = "the context of the model"),
    END_OF_OPTIONS,
};

const cli_usage cli_compare_usage = {
    .command = "compare",
    .synopsis = "RUN... [--plot FILE]",
    .about =
        "Compares training runs. RUN is a directory written by bochner train. It prints one row per run: attention, "
        "parameters, steps, tokens, validation loss, throughput, state and training time, sorted by the best "
        "validation loss. It warns if the losses are not comparable because tasks, tokenizers or validation data "
        "differ, and if a run is not finished.",
    .examples = "  bochner compare model softmax\n"
                "  bochner compare model softmax --plot curves.svg --by seconds\n"
                "  bochner compare model softmax --tokens 65536 --json\n",
    .groups = {{rows, 0}},
};

int cli_compare(int argc, char **argv)
{
    compare_options o = {0};
    return cli_command(&cli_compare_usage, argc, argv, &o, compare);
}
