/* Adapters for `bochner train`. */
#include "train.h"
#include <string.h>

static const char *init_choice(int index)
{
    return index < BO_LORA_INIT_COUNT ? bo_lora_init_name((bo_lora_init)index) : NULL;
}

size_t cli_train_lora_table(cli_train_lora *o, cli_option out[CLI_TRAIN_LORA])
{
    const cli_option options[] = {
        {CLI_SECTION, "Adapters", NULL, NULL, NULL, NULL, 0, 0},
        {CLI_COUNT, "lora", "RANK", "train adapters of this rank around linear layers of --init, which stays as it is",
         &o->rank, NULL, 1, 1 << 16},
        {CLI_REAL, "lora-alpha", "A", "they count A / RANK times; twice the rank unless given", &o->alpha, NULL, 1e-6,
         1e6},
        {CLI_TEXT, "lora-targets", "NAMES",
         "ends of layers' names (q_proj,v_proj) or patterns with a star; all: the hidden ones, unless given",
         &o->targets, NULL, 0, 0},
        {CLI_CHOICE, "lora-init", "KIND", "where they begin: zero unless given, or singular vectors", &o->init,
         init_choice, 0, 0},
    };
    memcpy(out, options, sizeof options);
    return CLI_COUNT_OF(options);
}

static bo_status adapt(cli_train_job *job)
{
    const cli_train_lora *o = &job->options->lora;
    bo_context *context = job->session->context;
    const bo_lora_desc desc = {.rank = o->rank,
                               .alpha = o->alpha,
                               .targets = o->targets,
                               .init = o->init < 0 ? BO_LORA_ZERO : (bo_lora_init)o->init,
                               .data = job->train,
                               .seed = job->session->common.seed,
                               .base = job->options->init};
    return bo_model_adapt(context, job->model, &desc);
}

/* Adapters do not change what a model is for: what says labels would have no weights in its base. */
static bool fits_task(cli_train_job *job)
{
    const bo_model_task wanted = (bo_model_task)job->options->texts.task, found = bo_model_describe(job->model)->task;
    if (wanted == found) return true;
    cli_fail(job->session,
             "--lora: the task of %s is %s and stays so, found --task %s; make a model of that task first: "
             "bochner train --task %s --init %s%s --out DIR",
             job->options->init, bo_model_task_name(found), bo_model_task_name(wanted), bo_model_task_name(wanted),
             job->options->init, wanted == BO_MODEL_CLASSIFY || wanted == BO_MODEL_MATCH ? " --freeze model" : "");
    return false;
}

/* A run that goes on takes its adapters from its checkpoint; the trainer refuses others than it has. */
bool cli_train_lora_open(cli_train_job *job)
{
    if (!fits_task(job)) return false;
    const bo_status status = adapt(job);
    if (status != BO_OK) cli_fail_status(job->session, status);
    return status == BO_OK;
}
