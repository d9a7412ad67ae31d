/* bochner linearize: replaces the softmax attention of a model by linear attention. */
#include "linearize.h"
#include "args.h"
#include "../text/corpora.h"
#include "../model/mixer_text.h"
#include "../network/network.h"
#include "../text/text_tasks.h"
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool ok(cli_linearize_job *job, bo_status status)
{
    cli_progress_clear(&job->session->progress);
    if (status != BO_OK) cli_fail_status(job->session, status);
    return status == BO_OK;
}

/* ---- options ----------------------------------------------------------------------------------------------------- */

static int check(const cli_linearize_options *o)
{
    if (!o->out) return cli_usage_error("linearize", "no directory for the result; give --out DIR");
    if (o->resume && access(o->out, F_OK) != 0 && !o->teacher)
        return cli_usage_error("linearize", "--resume: there is no directory %s", o->out);
    if (!o->teacher) return cli_usage_error("linearize", "no model; give its directory as the first argument");
    if (!o->data.count && !o->teacher_text)
        return cli_usage_error(
            "linearize", "no text: give --data FILE, or --teacher-text N to let the model write N tokens of text");
    const bool steps = CLI_GIVEN(o, steps) || CLI_GIVEN(o, transfer_steps);
    if (steps && CLI_GIVEN(o, minutes)) return cli_usage_error("linearize", "give --minutes or steps, not both");
    if (o->no_transfer && CLI_GIVEN(o, transfer_steps))
        return cli_usage_error("linearize", "give --no-transfer or --transfer-steps, not both");
    if (o->no_finetune && CLI_GIVEN(o, steps))
        return cli_usage_error("linearize", "give --no-finetune or --steps, not both");
    return CLI_DONE;
}

typedef struct head_widths {
    size_t lower, upper;
} head_widths;

/* Without --keep-softmax, layers with a window keep their attention. */
static head_widths widths_among(const cli_linearize_job *job, bool with_windows)
{
    const cli_blocks list = cli_blocks_of(bo_model_describe(job->teacher));
    head_widths found = {0};
    for (size_t i = 0; i < list.count; i++) {
        const bo_block *b = &list.blocks[i];
        if (!cli_is_softmax(b) || (b->attention.window && !with_windows)) continue;
        if (!found.upper || b->head_dim < found.lower) found.lower = b->head_dim;
        if (b->head_dim > found.upper) found.upper = b->head_dim;
    }
    return found;
}

/* The widths of the heads of the layers whose attention is replaced. */
static head_widths head_dims(const cli_linearize_job *job)
{
    const head_widths found = widths_among(job, job->options->keep != NULL);
    if (found.upper) return found;
    const size_t first =
        bo_model_describe(job->teacher)->block.head_dim; /* no layer is replaced; the library refuses this */
    return (head_widths){first, first};
}

/* The number of features of a learned map is determined by its rank. */
static bool set_features(cli_linearize_job *job, bo_attention_desc *a)
{
    const cli_linearize_options *o = job->options;
    const size_t dim = head_dims(job).lower;
    if (bo_attention_has(a, BO_TRAIT_AFFINE)) {
        const size_t per_row = a->features.kernel == BO_KERNEL_RECTIFIER ? 1 : 2;
        if (o->features && (o->features % per_row || o->features > per_row * dim)) {
            cli_fail(job->session,
                     "--features: %s has %zu features per row of its map and at most %zu rows, the width of a head; "
                     "expected %sat most %zu, found %zu",
                     bo_enum_name(BO_ENUM_ATTENTION_PRESET, (int)o->attention), per_row, dim,
                     per_row == 2 ? "an even number of " : "", per_row * dim, o->features);
            return false;
        }
        a->rank = o->features / per_row;
    } else if (bo_attention_has(a, BO_TRAIT_DRAWS)) {
        a->features.features = o->features                                               ? o->features
                               : bo_features_has(&a->features, BO_FEATURES_TRAIT_LENGTH) ? 256
                                                                                         : 0;
    } else if (o->features) {
        cli_fail(job->session, "--features has no effect with --attention %s; leave it out",
                 bo_enum_name(BO_ENUM_ATTENTION_PRESET, (int)o->attention));
        return false;
    }
    return true;
}

/* With a window, attention with features becomes the long-range part of hybrid attention. */
static bool set_window(cli_linearize_job *job, bo_attention_desc *a)
{
    const cli_linearize_options *o = job->options;
    const bool data_aware = a->kind == BO_ATTENTION_DARK || a->kind == BO_ATTENTION_HYBRID;
    const head_widths dims = head_dims(job);
    const bool past = data_aware || a->kind == BO_ATTENTION_FAVOR || bo_attention_has(a, BO_TRAIT_AFFINE);
    if (o->window && !past && !bo_attention_has(a, BO_TRAIT_WINDOW)) {
        cli_fail(job->session, "--window needs --attention dark, favor, hedgehog, t2r, hybrid or softmax, found %s",
                 bo_enum_name(BO_ENUM_ATTENTION_PRESET, (int)o->attention));
        return false;
    }
    if (o->window && past) a->kind = BO_ATTENTION_HYBRID;
    if (a->kind == BO_ATTENTION_HYBRID && data_aware && dims.lower != dims.upper) {
        cli_fail(job->session,
                 "--attention %s: its rank is the head width, but the head widths of the replaced layers are %zu to "
                 "%zu; give "
                 "another --attention",
                 bo_enum_name(BO_ENUM_ATTENTION_PRESET, (int)o->attention), dims.lower, dims.upper);
        return false;
    }
    if (a->kind == BO_ATTENTION_HYBRID && data_aware) a->rank = dims.lower;
    if (a->kind == BO_ATTENTION_HYBRID) a->causal = true;
    a->window = o->window ? o->window : a->kind == BO_ATTENTION_HYBRID ? 64 : 0;
    return true;
}

static bool describe(cli_linearize_job *job)
{
    const cli_linearize_options *o = job->options;
    bo_attention_desc *a = &job->attention;
    bo_attention_preset(bo_enum_name(BO_ENUM_ATTENTION_PRESET, (int)o->attention), a);
    if (!set_window(job, a) || !set_features(job, a)) return false;
    const bool default_gate = a->gate == BO_GATE_NONE && bo_attention_has(a, BO_TRAIT_FEATURES);
    if (CLI_GIVEN(o, gate))
        a->gate = o->gate;
    else if (default_gate && bo_attention_may(a->kind, BO_TRAIT_GATE_DECAY))
        a->gate = BO_GATE_DECAY;
    return true;
}

static const char *kept_layers(const cli_linearize_options *o)
{
    return o->keep && strcmp(o->keep, "none") == 0 ? "" : o->keep;
}

/* Makes the checks of bo_linearize early, before the model writes its text. */
static bool check_replacement(cli_linearize_job *job)
{
    const cli_linearize_options *o = job->options;
    const bo_replacement_desc desc = {.attention = job->attention,
                                      .kept_layers = kept_layers(o),
                                      .gate_first = o->gate_bias,
                                      .gate_last = o->gate_bias};
    bo_model *student = NULL;
    const bool fits = ok(job, bo_model_replace_attention(job->session->context, job->teacher, &desc, &student));
    bo_model_destroy(student);
    return fits;
}

/* ---- text -------------------------------------------------------------------------------------------------------- */

/* The model writes its text only once; a resumed run reads the file. */
static bool write_text(cli_linearize_job *job, const char *path)
{
    const cli_linearize_options *o = job->options;
    if (o->resume && access(path, F_OK) == 0) return true;
    const bo_compose_desc desc = {.tokens = o->teacher_text,
                                  .sampler = {.temperature = o->temperature, .seed = job->session->common.seed},
                                  .separator = o->separator};
    bo_composition found;
    cli_note(job->session, "Text        the model writes %s tokens to %s", cli_count(o->teacher_text).s, path);
    if (!ok(job, bo_model_compose(job->session->context, job->teacher, &desc, path, &found))) return false;
    cli_note(job->session, "Text        %s documents of %s tokens in %s", cli_count(found.documents).s,
             cli_count(found.tokens).s, cli_seconds(found.seconds).s);
    return true;
}

static bool open_text(cli_linearize_job *job)
{
    const cli_linearize_options *o = job->options;
    const char *paths[CLI_LIST_CAPACITY + 1];
    char teacher_file[4096];
    size_t count = 0;
    for (size_t i = 0; i < o->data.count; i++) paths[count++] = o->data.items[i];
    snprintf(teacher_file, sizeof teacher_file, "%s/teacher.txt", o->out);
    if (o->teacher_text) {
        if (!write_text(job, teacher_file)) return false;
        /* first, so that the held-out end of the text belongs to --data */
        memmove(paths + 1, paths, count * sizeof *paths);
        paths[0] = teacher_file;
        count++;
    }
    const cli_corpora files = {.paths = paths,
                               .count = count,
                               .valid = o->valid,
                               .valid_fraction = o->valid_fraction,
                               .field = o->field,
                               .separator = !o->separator && o->teacher_text ? BO_COMPOSE_SEPARATOR : o->separator,
                               .tokenizer = bo_model_tokenizer(job->teacher)};
    if (!ok(job, cli_corpora_open(job->session->context, &files, &job->train, &job->valid))) return false;
    char held_out[96] = "";
    if (job->valid) snprintf(held_out, sizeof held_out, ", %s held out", cli_count(bo_corpus_tokens(job->valid)).s);
    cli_note(job->session, "Text        %s tokens for training%s", cli_count(bo_corpus_tokens(job->train)).s, held_out);
    return true;
}

/* ---- progress ---------------------------------------------------------------------------------------------------- */

static void report_head(cli_linearize_job *job, const bo_head_fit *fit)
{
    char predicted[96] = "";
    if (!isnan(fit->predicted))
        snprintf(predicted, sizeof predicted, "; predicted error of the features %s",
                 cli_significant(fit->predicted, 3).s);
    cli_note(job->session, "Head        layer %zu head %zu: relative squared error %.3f -> %.3f, %sfactor %.2f%s",
             fit->layer, fit->head, fit->start, fit->error, fit->whitened ? "whitened, " : "", fit->factor, predicted);
}

static void calibrated(void *user, const bo_head_fit *fits, size_t count)
{
    cli_linearize_job *job = user;
    double start = 0, error = 0;
    size_t whitened = 0;
    cli_progress_clear(&job->session->progress);
    for (size_t i = 0; i < count; i++) {
        start += fits[i].start / (double)count;
        error += fits[i].error / (double)count;
        whitened += fits[i].whitened;
        if (job->session->common.verbose) report_head(job, &fits[i]);
    }
    if (!count) return;
    char whitening[96] = "";
    if (bo_attention_has(&job->attention, BO_TRAIT_MATRIX))
        snprintf(whitening, sizeof whitening, "; M whitens in %s of them", cli_count(whitened).s);
    cli_note(job->session, "Calibration %s heads: mean relative error of the outputs %.3f -> %.3f%s",
             cli_count(count).s, start, error, whitening);
}

static void transferred(void *user, const double *errors, size_t layers)
{
    cli_linearize_job *job = user;
    job->errors = cli_allocate(layers, sizeof *job->errors, "errors of layers");
    memcpy(job->errors, errors, layers * sizeof *errors);
}

static bool progress(void *user, bo_linearize_stage stage, const bo_training_report *r)
{
    cli_linearize_job *job = user;
    cli_session *session = job->session;
    const bool transfer = stage == BO_LINEARIZE_STAGE_TRANSFER;
    char loss[96], step[64] = "";
    if (job->stage != stage)
        cli_note(session, "%s",
                 transfer ? "Transfer    attention learns layer by layer; the loss is its relative error"
                          : "Finetuning  adapters learn the teacher's distribution");
    job->stage = stage;
    job->steps[stage] = r->step;
    job->seconds[stage] = r->seconds;
    int length = snprintf(loss, sizeof loss, "loss %.4f", r->loss);
    if (!isnan(r->valid_loss)) snprintf(loss + length, sizeof loss - (size_t)length, "  held out %.4f", r->valid_loss);
    snprintf(session->progress.note, sizeof session->progress.note, "%.100s  %s tokens/s", loss,
             cli_count((size_t)fmax(r->tokens_per_second, 0)).s);
    if (r->steps) snprintf(step, sizeof step, "/%llu", (unsigned long long)r->steps);
    if (r->evaluated)
        cli_note(session, "Step %6llu%-7s %s%s%s%s", (unsigned long long)r->step, step, loss,
                 r->seconds_left > 0 ? "  " : "", r->seconds_left > 0 ? cli_seconds(r->seconds_left).s : "",
                 r->seconds_left > 0 ? " left" : "");
    return !cli_interrupted();
}

/* ---- run --------------------------------------------------------------------------------------------------------- */

static void report_plan(const cli_linearize_job *job)
{
    const bo_model_desc *d = bo_model_describe(job->teacher);
    const cli_linearize_options *o = job->options;
    char mixer[CLI_MIXER_TEXT], heads[CLI_RANGE];
    cli_note(job->session, "Teacher     %s: %s parameters, %zu layers, width %zu, %s, context %s", o->teacher,
             cli_count((size_t)bo_model_report(job->teacher)->parameters).s, d->layers, d->width,
             cli_heads_text(d, heads), cli_count(d->context).s);
    cli_note(job->session, "Student     %s attention%s%s", cli_attention_summary(&job->attention, mixer),
             o->keep ? "; layers that keep softmax: " : "", o->keep ? o->keep : "");
}

static bo_linearize_desc describe_run(cli_linearize_job *job)
{
    const cli_linearize_options *o = job->options;
    return (bo_linearize_desc){.teacher = job->teacher,
                               .train = job->train,
                               .valid = job->valid,
                               .directory = o->out,
                               .resume = o->resume,
                               .attention = job->attention,
                               .kept_layers = kept_layers(o),
                               .gate = o->gate_bias,
                               .calibration_tokens = o->calibrate_tokens,
                               .minutes = o->minutes,
                               .transfer_share = o->transfer_share,
                               .transfer_steps = o->no_transfer ? UINT64_MAX : o->transfer_steps,
                               .finetune_steps = o->no_finetune ? UINT64_MAX : o->steps,
                               .batch = o->batch,
                               .window = o->context,
                               .transfer_rate = o->transfer_lr,
                               .finetune_rate = o->lr,
                               .share = o->share,
                               .sparsity = o->sparsity,
                               .rank = o->lora,
                               .alpha = o->lora_alpha,
                               .targets = o->lora_targets,
                               .eval_tokens = o->eval_tokens,
                               .merge = o->merge,
                               .seed = job->session->common.seed,
                               .report = progress,
                               .calibrated = calibrated,
                               .transferred = transferred,
                               .user = job};
}

static int stopped(cli_linearize_job *job)
{
    char *directory = cli_shell_quoted(job->options->out);
    cli_warn(job->session, "stopped; to continue: bochner linearize --resume --out %s", directory);
    free(directory);
    return CLI_INTERRUPTED;
}

static bool holds(const char *directory, const char *name)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    return access(path, F_OK) == 0;
}

/* Refuses to overwrite the options and text of another run. */
static bool create_directory(cli_linearize_job *job)
{
    static const char *const names[] = {"config.json", "model.safetensors", "adapter_config.json", "transfer",
                                        "finetune"};
    enum { MODELS = 3 };
    const char *out = job->options->out;
    for (size_t i = 0; i < sizeof names / sizeof *names && !job->options->resume; i++)
        if (holds(out, names[i])) {
            cli_fail(job->session, "--out: %s already holds a %s; %sgive another directory", out,
                     i >= MODELS ? "linearization" : "model",
                     i >= MODELS || holds(out, "transfer") ? "continue it with --resume, or " : "");
            return false;
        }
    job->made = mkdir(out, 0777) == 0;
    if (job->made || errno == EEXIST) return true;
    cli_fail(job->session, "%s: the directory cannot be created: %s", out, strerror(errno));
    return false;
}

/* Removes the directory of a run that was refused before the first step. */
static void remove_directory(const cli_linearize_job *job)
{
    char path[4096];
    const char *out = job->options->out;
    if (!job->made || holds(out, "transfer") || holds(out, "finetune") || holds(out, "teacher.txt")) return;
    snprintf(path, sizeof path, "%s/" CLI_LINEARIZE_OPTIONS_FILE, out);
    unlink(path);
    rmdir(out);
}

static int train(cli_linearize_job *job, const cli_linearize_args *args)
{
    cli_session *session = job->session;
    const bool kept = job->options->resume && holds(job->options->out, CLI_LINEARIZE_OPTIONS_FILE);
    if (!kept && !cli_linearize_save_options(session, args)) return CLI_FAILED;
    if (!open_text(job)) return CLI_FAILED;
    const bo_linearize_desc desc = describe_run(job);
    cli_signals_saving();
    const bo_status status = bo_linearize(session->context, &desc, &job->student);
    cli_progress_clear(&session->progress);
    if (status == BO_CANCELED) return stopped(job);
    return status == BO_OK ? CLI_DONE : cli_fail_status(session, status);
}

static int run(cli_linearize_job *job, const cli_linearize_args *args)
{
    cli_session *session = job->session;
    const cli_linearize_options *o = job->options;
    if (!cli_is_no_network(session, o->teacher)) return CLI_FAILED;
    const bo_status loaded = bo_model_load(session->context, &(bo_source){.path = o->teacher}, NULL, &job->teacher);
    if (loaded != BO_OK) return cli_fail_model(session, o->teacher, loaded);
    if (!describe(job)) return CLI_FAILED;
    report_plan(job);
    session->terse = true; /* no list of new weights */
    if (!check_replacement(job) || !create_directory(job)) return CLI_FAILED;
    const int trained = train(job, args);
    if (trained == CLI_FAILED) remove_directory(job);
    if (trained != CLI_DONE) return trained;
    session->progress.note[0] = 0;
    const bo_status status = cli_linearize_measure(job);
    cli_progress_clear(&session->progress);
    if (status == BO_CANCELED) return stopped(job); /* the report is missing */
    if (status != BO_OK) return cli_fail_status(session, status);
    (session->common.json ? cli_linearize_json : cli_linearize_print)(job);
    char *directory = cli_shell_quoted(o->out);
    cli_suggest_next(session, "bochner generate %s --prompt 'Once upon a time'", directory);
    free(directory);
    return CLI_DONE;
}

static int linearize(const cli_linearize_args *args)
{
    const int status = check(&args->options);
    if (status != CLI_DONE) return status;
    cli_session session;
    if (!cli_session_open_in(&session, "linearize", &args->common, false, CLI_COMPUTE(&args->options)))
        return CLI_FAILED;
    cli_linearize_job job = {.session = &session, .options = &args->options};
    const int ended = run(&job, args);
    bo_model_destroy(job.student);
    bo_corpus_close(job.valid);
    bo_corpus_close(job.train);
    bo_model_destroy(job.teacher);
    free(job.errors);
    cli_session_close(&session);
    return ended;
}

int cli_linearize(int argc, char **argv)
{
    cli_linearize_args args = {0};
    const cli_parsed parsed = cli_linearize_parse(argc, argv, &args);
    const int status = parsed == CLI_PARSED       ? linearize(&args)
                       : parsed == CLI_HELP_SHOWN ? CLI_DONE
                       : parsed == CLI_UNREADABLE ? CLI_FAILED
                                                  : CLI_USAGE_ERROR;
    cli_linearize_args_free(&args);
    return status;
}
