/* Reads the directories of runs for bochner plan --fit, and checks that they can share a law. */
#include "fit.h"
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* ---- metrics ----------------------------------------------------------------------------------------------------- */

/* A resumed run may have repeated steps: the later lines belong to the final weights. */
static bool drop_repeated(cli_run_metrics *m)
{
    size_t kept = 0;
    bool repeated = false;
    for (size_t i = 0; i < m->count; i++) {
        for (; kept > 0 && m->points[kept - 1].step >= m->points[i].step; kept--) repeated = true;
        m->points[kept++] = m->points[i];
    }
    m->count = kept;
    return repeated;
}

static int ascending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static bool same_host(const cli_run_point *a, const cli_run_point *b)
{
    return (a->threads == b->threads || (isnan(a->threads) && isnan(b->threads))) && strcmp(a->isa, b->isa) == 0;
}

/* The median of tokens per second over the last three quarters of the reports with the final number of threads. */
static double median_rate(const cli_run_metrics *m, bool *changed)
{
    const cli_run_point *last = &m->points[m->count - 1];
    double *rates = cli_allocate(m->count, sizeof *rates, "metrics");
    size_t count = 0;
    *changed = false;
    for (size_t i = 0; i < m->count; i++) {
        const bool same = same_host(&m->points[i], last);
        *changed |= !same;
        if (same && i >= m->count / 4 && m->points[i].rate > 0 && isfinite(m->points[i].rate))
            rates[count++] = m->points[i].rate;
    }
    qsort(rates, count, sizeof *rates, ascending);
    const double median = count ? (rates[count / 2] + rates[(count - 1) / 2]) / 2 : NAN;
    free(rates);
    return median;
}

static bool read_metrics(cli_session *session, const char *directory, cli_run_metrics *out)
{
    struct stat info;
    if (stat(directory, &info) != 0 || !S_ISDIR(info.st_mode)) {
        cli_fail(session, "%s: no such directory; expected a directory written by bochner train --out", directory);
        return false;
    }
    errno = 0;
    if (!cli_run_read(directory, out)) {
        cli_fail(session, "%s/metrics.jsonl: %s; expected a directory written by bochner train --out", directory,
                 errno == EINVAL ? "not a regular file" : strerror(errno));
        return false;
    }
    if (out->count && strcmp(out->metric, "bits_per_byte") == 0) return true;
    if (out->count)
        cli_fail(session, "%s: expected a run of a language model, with valid_bits_per_byte in metrics.jsonl",
                 directory);
    else
        cli_fail(session,
                 "%s/metrics.jsonl: it has no readable lines; the run has not completed a step, or the file is "
                 "damaged",
                 directory);
    cli_run_metrics_free(out);
    return false;
}

/* ---- shared properties of the runs ------------------------------------------------------------------------------- */

static const char *option_word(const bo_json *options, const char *name, const char *fallback)
{
    const char *word = bo_json_text_or_null(bo_json_member(options, name));
    return word ? word : fallback;
}

static bool read_config(cli_session *session, cli_plan_run *run)
{
    enum { MAX_FILE_BYTES = 1 << 24 };
    char path[4096];
    void *text = NULL;
    size_t size;
    snprintf(path, sizeof path, "%s/config.json", run->name);
    const bo_status status = bo_file_load(session->context, path, MAX_FILE_BYTES, &text, &size);
    if (status != BO_OK) {
        cli_fail_status(session, status);
        return false;
    }
    run->config_text = text;
    bo_json *config = bo_json_read(text, size, NULL);
    const bo_json *more = bo_json_member(config, "bochner");
    const bool read = bo_json_is(config, BO_JSON_OBJECT);
    snprintf(run->tokenizer, sizeof run->tokenizer, "%s",
             option_word(bo_json_is(more, BO_JSON_OBJECT) ? more : config, "tokenizer_fingerprint", ""));
    bo_json_delete(config);
    if (!read) cli_fail(session, "%s: damaged: expected a JSON object", path);
    return read;
}

static bool read_options(cli_session *session, cli_plan_run *run)
{
    run->options = cli_read_json(session, run->name, "train.json");
    const char *optimizer = option_word(run->options, "optim", "muon");
    const char *activations = option_word(run->options, "activations", "float32");
    const double batch = cli_json_number(run->options, "batch"), micro = cli_json_number(run->options, "micro-batch");
    run->batch = batch >= 1 && batch < 1e9 ? (size_t)batch : 16;
    run->micro_batch = micro >= 1 && micro <= (double)run->batch ? (size_t)micro : 0;
    run->checkpointing = bo_json_is(bo_json_member(run->options, "checkpointing"), BO_JSON_TRUE);
    const int kind = bo_enum_parse(BO_ENUM_OPTIMIZER_KIND, optimizer);
    const int storage = bo_enum_parse(BO_ENUM_STORAGE, activations);
    run->optimizer = (bo_optimizer_kind)kind;
    run->activations = (bo_storage)storage;
    if (run->options && kind >= 0 && storage >= 0) return true;
    cli_fail(session, "%s/train.json: %s; it holds the options of the run", run->name,
             run->options ? "unknown optimizer or storage" : "missing or damaged");
    return false;
}

/* Counts the costs of a training step. The weights are read from the directory. */
static bool count_step(cli_session *session, cli_plan_run *run)
{
    bo_model *model = NULL;
    const bo_trainer_desc training = {.batch = run->batch,
                                      .micro_batch = run->micro_batch,
                                      .optimizer = {.kind = run->optimizer},
                                      .activations = run->activations,
                                      .checkpointing = run->checkpointing};
    bo_status status = bo_model_load(session->context, &(bo_source){.path = run->name}, NULL, &model);
    if (status == BO_OK) {
        const bo_model_desc *desc = bo_model_describe(model);
        status = bo_plan_count_training(session->context, desc, &training, &run->observation.counts);
        if (status == BO_OK) status = bo_model_desc_copy(session->context, desc, &run->model);
    }
    bo_model_destroy(model);
    if (status != BO_OK) cli_fail_status(session, status);
    return status == BO_OK;
}

/* ---- one run ----------------------------------------------------------------------------------------------------- */

/* The final held-out loss, in nats per byte. Under a decaying schedule, earlier losses are not the final losses of
 * shorter runs. */
static double final_loss(cli_session *session, const cli_plan_run *run, const cli_run_point *last)
{
    const bool constant = strcmp(option_word(run->options, "schedule", "cosine"), "constant") == 0;
    if (!isfinite(last->loss))
        cli_warn(session, "%s: the run diverged: its loss at step %g is not a number; only its time is used", run->name,
                 last->step);
    else if (!isfinite(last->valid_metric) || !(last->valid_metric > 0))
        cli_warn(session, "%s: the run has no held-out loss; only its time is used", run->name);
    else if (last->step < last->steps && !constant)
        cli_warn(session,
                 "%s: the run is not finished (step %g of %g) and its learning rate decays; only its time is used",
                 run->name, last->step, last->steps);
    else
        return last->valid_metric * log(2);
    return NAN;
}

static bool fill(cli_session *session, const cli_run_metrics *m, cli_plan_run *run)
{
    const cli_run_point *last = &m->points[m->count - 1];
    bool changed;
    bo_plan_observation *o = &run->observation;
    const double rate = median_rate(m, &changed);
    if (changed)
        cli_warn(session,
                 "%s: the number of threads or the instruction set changed; only the time of the last part is used",
                 run->name);
    run->threads = last->threads >= 1 && last->threads < 1e6 ? (int)last->threads : 0;
    snprintf(run->isa, sizeof run->isa, "%s", last->isa);
    run->token_bytes =
        last->valid_metric > 0 && last->valid_loss > 0 ? last->valid_loss / (last->valid_metric * log(2)) : 1;
    o->name = run->name;
    o->loss = final_loss(session, run, last);
    o->bytes = last->count * run->token_bytes;
    o->seconds = o->counts.tokens / rate;
    if (last->count > 0 && fabs(last->count / last->step / o->counts.tokens - 1) < 1e-6) return true;
    cli_fail(session, "%s: metrics.jsonl and train.json differ: %g tokens per step, expected %g", run->name,
             last->count / last->step, o->counts.tokens);
    return false;
}

bool cli_plan_run_read(cli_session *session, const char *directory, cli_plan_run *out)
{
    cli_run_metrics metrics;
    size_t length = strlen(directory);
    while (length > 1 && directory[length - 1] == '/') length--;
    *out = (cli_plan_run){.name = cli_allocate(length + 1, 1, "a name")};
    memcpy(out->name, directory, length);
    if (!read_metrics(session, out->name, &metrics)) return false;
    if (drop_repeated(&metrics))
        cli_warn(session, "%s: metrics.jsonl repeats steps, as after an interrupted run; the later lines are used",
                 out->name);
    cli_run_find(session, out->name, &out->record);
    const bool read = read_config(session, out) && read_options(session, out) && count_step(session, out) &&
                      fill(session, &metrics, out);
    cli_run_metrics_free(&metrics);
    return read;
}

void cli_plan_run_free(cli_plan_run *run)
{
    bo_model_desc_release(&run->model);
    bo_json_delete(run->options);
    bo_free(run->config_text);
    free(run->name);
    *run = (cli_plan_run){.name = NULL};
}

/* ---- one law ----------------------------------------------------------------------------------------------------- */

static bool differ(cli_session *session, const cli_plan_run *a, const cli_plan_run *b, const char *what,
                   const bo_json *x, const bo_json *y)
{
    char *first = x ? bo_json_print(x) : NULL, *second = y ? bo_json_print(y) : NULL;
    cli_fail(session, "%s and %s cannot share a law: %s is %.80s and %.80s; fit them separately", a->name, b->name,
             what, first ? first : "the default", second ? second : "the default");
    free(first);
    free(second);
    return false;
}

static bool same_model(cli_session *session, const cli_plan_run *a, const cli_plan_run *b)
{
    if (bo_plan_compare(session->context, &a->model, &b->model) == BO_OK) return true;
    cli_fail(session, "%s and %s cannot share a law: %s; fit them separately", a->name, b->name,
             bo_context_error(session->context));
    return false;
}

static bool same_options(cli_session *session, const cli_plan_run *a, const cli_plan_run *b, const char *const *names,
                         size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const bo_json *x = bo_json_member(a->options, names[i]), *y = bo_json_member(b->options, names[i]);
        char option[64];
        snprintf(option, sizeof option, "--%s", names[i]);
        if ((x || y) && !bo_json_equal(x, y)) return differ(session, a, b, option, x, y);
    }
    return true;
}

/* Fingerprints of token ids are comparable if the tokenizers are equal; otherwise the file names are compared. Losses
 * and amounts of data are per byte, so runs with different tokenizers can share a law. */
static bool same_data(cli_session *session, const cli_plan_run *a, const cli_plan_run *b)
{
    static const char *const names[] = {"data", "valid", "valid-fraction", "field", "separator"};
    const cli_run_record *x = &a->record, *y = &b->record;
    const bool known = x->train_data[0] && y->train_data[0] && x->valid_data[0] && y->valid_data[0];
    if (strcmp(a->tokenizer, b->tokenizer) != 0 || !known)
        return same_options(session, a, b, names, CLI_COUNT_OF(names));
    if (strcmp(x->train_data, y->train_data) == 0 && strcmp(x->valid_data, y->valid_data) == 0) return true;
    cli_fail(session,
             "%s and %s cannot share a law: their %s data differ; losses on different text are not "
             "comparable",
             a->name, b->name, strcmp(x->train_data, y->train_data) == 0 ? "validation" : "training");
    return false;
}

static bool same_times(cli_session *session, const cli_plan_run *a, const cli_plan_run *b)
{
    if (a->threads == b->threads && strcmp(a->isa, b->isa) == 0) return true;
    cli_fail(session,
             "%s and %s cannot share a time law: %d threads with %s and %d threads with %s (0: not recorded); give "
             "runs of one host, or --loss-only",
             a->name, b->name, a->threads, a->isa[0] ? a->isa : "unknown instructions", b->threads,
             b->isa[0] ? b->isa : "unknown instructions");
    return false;
}

bool cli_plan_run_matches(cli_session *session, const cli_plan_run *a, const cli_plan_run *b, bool timed)
{
    static const char *const options[] = {
        "optim",       "schedule",    "average",       "eval-tokens", "documents", "init",       "freeze", "lora",
        "activations", "micro-batch", "checkpointing", "features",    "rank",      "iterations", "scale",  "gamma"};
    if (!same_model(session, a, b) || !same_options(session, a, b, options, CLI_COUNT_OF(options)) ||
        !same_data(session, a, b))
        return false;
    if (a->observation.counts.tokens != b->observation.counts.tokens) {
        cli_fail(session, "%s and %s cannot share a law: %g and %g tokens per step; the law has no term for the batch",
                 a->name, b->name, a->observation.counts.tokens, b->observation.counts.tokens);
        return false;
    }
    return !timed || same_times(session, a, b);
}
