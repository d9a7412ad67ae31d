/* The messages of `bochner train`: the plan, the progress, the report at the end. */
#include "train.h"
#include "../shared/rates.h"
#include "../model/mixer_text.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- the plan ---------------------------------------------------------------------------------------------------- */

const char *cli_train_files(const cli_train_job *job, char out[CLI_TRAIN_FILES])
{
    const cli_train_options *o = job->options;
    const char *first = o->data.count ? o->data.items[0] : job->args->files.items[0];
    const size_t files = o->data.count + job->args->files.count;
    if (files > 1)
        snprintf(out, CLI_TRAIN_FILES, "%s and %s more", first, cli_count(files - 1).s);
    else
        snprintf(out, CLI_TRAIN_FILES, "%s", first);
    return out;
}

void cli_train_report_model(const cli_train_job *job)
{
    const bo_model_desc *d = bo_model_describe(job->model);
    char mixer[CLI_MIXER_TEXT];
    const uint64_t frozen = bo_model_report(job->model)->frozen_parameters;
    char heads[CLI_RANGE], stays[96] = "", trained[96] = "";
    if (frozen) snprintf(stays, sizeof stays, " and %s fixed frequencies", cli_count((size_t)frozen).s);
    if (job->plan.trained < job->plan.parameters)
        snprintf(trained, sizeof trained, " (%s trained)", cli_count((size_t)job->plan.trained).s);
    cli_note(job->session, "Model       %s parameters%s%s: %zu layer%s, width %zu, %s, context %s; %s %s",
             cli_count((size_t)job->plan.parameters).s, trained, stays, d->layers, d->layers == 1 ? "" : "s", d->width,
             cli_heads_text(d, heads), cli_count(d->context).s, cli_mixer_title(d), cli_mixer_text(job->model, mixer));
}

void cli_train_model_title(const bo_model *model, char out[CLI_TRAIN_TITLE])
{
    const bo_model_desc *d = bo_model_describe(model);
    char mixer[CLI_MIXER_TEXT];
    snprintf(out, CLI_TRAIN_TITLE, "%zu layers, width %zu, context %zu; %s %s", d->layers, d->width, d->context,
             cli_mixer_title(d), cli_mixer_text(model, mixer));
}

/* Assumes half the GEMM rate, because no step has been measured yet. */
const char *cli_train_about(const cli_train_job *job, char out[CLI_TRAIN_ABOUT])
{
    const double ranks = job->desc.ranks ? job->desc.ranks->size : 1;
    const double seconds = (double)job->desc.steps * job->plan.operations / (0.5e9 * job->gemm * ranks);
    *out = 0;
    if (!isnan(seconds)) snprintf(out, CLI_TRAIN_ABOUT, ", about %s", cli_seconds(seconds).s);
    return out;
}

void cli_train_report_memory(const cli_train_job *job)
{
    char state[96] = "";
    if (job->plan.state_bytes)
        snprintf(state, sizeof state, "; state per sequence %s", cli_bytes((double)job->plan.state_bytes).s);
    cli_note(job->session, "Memory      %s: activations %s%s, weights %s, gradients %s, optimizer %s%s",
             cli_bytes((double)job->plan.all_bytes).s, cli_bytes((double)job->plan.activation_bytes).s,
             job->desc.activations == BO_STORAGE_BFLOAT16 ? " (stored as bfloat16)" : "",
             cli_bytes((double)job->plan.model_bytes).s, cli_bytes((double)job->plan.gradient_bytes).s,
             cli_bytes((double)job->plan.optimizer_bytes).s, state);
}

static bool fits(cli_train_job *job)
{
    bo_memory_bound limit;
    bo_context_memory(job->session->context, &limit);
    const double needed = (double)job->plan.all_bytes;
    if (needed <= 0.95 * (double)limit.bytes) return true;
    cli_fail(job->session,
             "training needs %s of memory, but the limit is %s (%s); to need less, give a smaller --micro-batch, "
             "--checkpointing, --activations bfloat16, a smaller --context or a smaller model",
             cli_bytes(needed).s, cli_bytes((double)limit.bytes).s, limit.source);
    return false;
}

bool cli_train_plan(cli_train_job *job)
{
    bo_context *context = job->session->context;
    bo_trainer_desc desc = job->desc;
    if (!desc.steps && !(desc.minutes > 0)) desc.steps = 1;
    bo_status status = bo_trainer_estimate(context, &desc, &job->plan);
    if (status != BO_OK) return cli_fail_status(job->session, status), false;
    if (!fits(job)) return false;
    const bool on_cpu = strcmp(bo_context_describe(context)->device, "cpu") == 0;
    if (!on_cpu || bo_gemm_rate(context, 768, 3, &job->gemm) != BO_OK) job->gemm = NAN;
    job->kind->report_plan(job);
    return true;
}

/* ---- progress ---------------------------------------------------------------------------------------------------- */

static void format_speed(const cli_train_job *job, const bo_training_report *r, char out[96])
{
    int length = snprintf(out, 96, "%s %s/s", cli_count((size_t)fmax(r->tokens_per_second, 0)).s, r->unit);
    if (job->session->common.verbose && r->gflops <= job->gemm)
        snprintf(out + length, 96 - (size_t)length, "  %.0f%% of the GEMM rate", 100 * r->gflops / job->gemm);
}

/* Steps faster than the GEMM rate mean that the host was busy when the rate was measured: measures it again. */
static void measure_again(cli_train_job *job, double gflops)
{
    enum { MAX_MEASUREMENTS = 3 };
    double again;
    if (!(gflops > job->gemm) || job->measured_again == MAX_MEASUREMENTS) return;
    job->measured_again++;
    if (bo_gemm_rate(job->session->context, 768, 3, &again) == BO_OK) job->gemm = fmax(job->gemm, again);
}

bool cli_train_progress(void *user, const bo_training_report *r)
{
    cli_train_job *job = user;
    char loss[CLI_TRAIN_LOSS], speed[96], step[64] = "";
    job->kind->format_loss(job, r, loss);
    measure_again(job, r->gflops);
    format_speed(job, r, speed);
    snprintf(job->session->progress.note, sizeof job->session->progress.note, "%.100s  %.56s", loss, speed);
    if (r->steps) snprintf(step, sizeof step, "/%llu", (unsigned long long)r->steps);
    if (r->evaluated)
        cli_note(job->session, "Step %6llu%-7s %s  %s%s%s%s", (unsigned long long)r->step, step, loss, speed,
                 r->seconds_left > 0 ? "  " : "", r->seconds_left > 0 ? cli_seconds(r->seconds_left).s : "",
                 r->seconds_left > 0 ? " left" : "");
    return !cli_interrupted();
}

/* ---- the report -------------------------------------------------------------------------------------------------- */

void cli_train_print_directory(const cli_train_job *job, const char *title)
{
    const bool tested = !isnan(bo_trainer_report(job->trainer)->valid_loss);
    printf("%-12s%s", title, job->options->out);
    if (tested) printf("; weights with the best validation loss: %s/best", job->options->out);
    putchar('\n');
}

void cli_train_model_json(const cli_train_job *job, void (*data)(const cli_train_job *job, cli_json *json))
{
    const bo_training_report *r = bo_trainer_report(job->trainer);
    char metric[64];
    cli_json json = {.out = stdout};
    snprintf(metric, sizeof metric, "valid_%s", r->metric);
    cli_json_object(&json, NULL);
    cli_json_add_text(&json, "out", job->options->out);
    if (data) data(job, &json);
    cli_json_add_count(&json, "parameters", (size_t)job->plan.parameters);
    cli_json_add_count(&json, "trained_parameters", (size_t)job->plan.trained);
    cli_json_add_count(&json, "steps", r->step);
    cli_json_add_count(&json, "tokens", r->tokens);
    cli_json_add_number(&json, "loss", r->loss);
    cli_json_add_number(&json, "valid_loss", r->valid_loss);
    cli_json_add_number(&json, metric, r->valid_metric);
    cli_json_add_number(&json, "best_valid_loss", r->best_valid_loss);
    cli_json_add_number(&json, "seconds", r->seconds);
    cli_json_add_text(&json, "device", bo_context_describe(job->session->context)->device);
    cli_json_add_text(&json, "precision",
                      bo_enum_name(BO_ENUM_PRECISION, bo_context_describe(job->session->context)->precision));
    cli_json_add_number(&json, "tokens_per_second", r->tokens_per_second);
    cli_json_add_number(&json, "gflops", r->gflops);
    cli_json_add_number(&json, "gemm_gflops", job->gemm);
    cli_json_add_count(&json, "memory_bytes", job->plan.all_bytes);
    cli_json_add_count(&json, "state_bytes", job->plan.state_bytes);
    cli_json_add_flag(&json, "stopped_early", r->stopped_early);
    cli_json_end(&json);
}
