/* bochner train --lora: trains adapters of a model and leaves the model's weights fixed. */
#include "train.h"
#include <string.h>

const cli_option cli_train_lora_rows[] = {
    SECTION("Adapters"),
    COUNT(
        "lora", "RANK", cli_train_lora_options, rank,
        "rank of the adapters. With --lora, only adapters of the linear layers are trained; the weights of --init stay "
        "fixed",
        .low = 1, .high = 1 << 16),
    REAL("lora-alpha", "A", cli_train_lora_options, alpha,
         "scale of the adapters: their output is multiplied by A / RANK", .low = 1e-6, .high = 1e6,
         .otherwise = "twice the rank"),
    TEXT("lora-targets", "NAMES", cli_train_lora_options, targets,
         "layers with adapters: endings of layer names (q_proj,v_proj) or patterns with *, separated by commas",
         .otherwise = "all hidden layers"),
    CHOICE("lora-init", "KIND", cli_train_lora_options, init, bo_lora_init_name,
           "initial values of the adapters; weight and gradient: leading singular vectors of the weights or of their "
           "gradients",
           .initial = "zero"),
    END_OF_OPTIONS,
};

/* With adapters, model and tokenizer come from --init; --context is the length of the sequences. */
int cli_train_check_lora(const cli_train_options *o)
{
    static const char *const rank[] = {"lora", NULL}, *const shared[] = {"init", "freeze", "context", NULL};
    const cli_option *part = cli_train_given(cli_train_lora_rows, &o->lora, rank);
    if (!o->lora.rank) return part ? cli_wrong_use("train", "--%s needs --lora RANK", part->name) : CLI_DONE;
    if (!o->init && !o->resume) return cli_wrong_use("train", "--lora needs a model: give --init DIR");
    if (o->tokenizer || CLI_GIVEN(o, vocab))
        return cli_wrong_use("train", "--lora uses the tokenizer of --init; leave out --%s",
                             o->tokenizer ? "tokenizer" : "vocab");
    const cli_option *found = cli_train_given(cli_train_shape_rows, o, shared);
    if (!found) found = cli_train_attention_given(o, shared);
    if (!found) return CLI_DONE;
    return cli_wrong_use("train", "--lora does not change the model of --init; leave out --%s", found->name);
}

/* The memory of training grows with the length of the sequences, and a text must be longer than one. */
size_t cli_train_window(const cli_train_job *job)
{
    enum { MOST = 1024 };
    if (!job->options->lora.rank) return 0;
    const size_t context = bo_model_describe(job->model)->context;
    return job->options->context ? job->options->context : context < MOST ? context : MOST;
}

static bool fits_context(const cli_train_job *job)
{
    const size_t wanted = job->options->context, most = bo_model_describe(job->model)->context;
    if (wanted <= most) return true;
    cli_fail(job->session, "--context: with --lora, expected at most %zu, the context of %s, found %zu", most,
             job->options->init, wanted);
    return false;
}

/* Adapters are added to the model of --init itself, also when a run is resumed. */
static bool open_init(cli_train_job *job)
{
    if (!job->options->init) return true;
    return cli_train_ok(job, bo_model_load(job->session->context, job->options->init, &job->model)) &&
           job->kind->accepts(job, job->model) && fits_context(job);
}

static bo_status adapt(cli_train_job *job)
{
    const cli_train_lora_options *o = &job->options->lora;
    const bo_lora_desc desc = {.rank = o->rank,
                               .alpha = o->alpha,
                               .targets = o->targets,
                               .init = o->init,
                               .data = job->train,
                               .seed = job->session->common.seed,
                               .base = job->options->init,
                               .window = cli_train_window(job)};
    return bo_model_adapt(job->session->context, job->model, &desc);
}

/* Adapters do not change the task of a model: the base has no weights for the head of another task. */
static bool fits_task(cli_train_job *job)
{
    const bo_model_task wanted = job->options->texts.task, found = bo_model_describe(job->model)->task;
    if (wanted == found) return true;
    cli_fail(job->session,
             "--lora: the task of %s is %s, expected %s; adapters do not change the task. Make a model of that task "
             "first: bochner train --task %s --init %s%s --out DIR",
             job->options->init, bo_model_task_name(found), bo_model_task_name(wanted), bo_model_task_name(wanted),
             job->options->init,
             wanted == BO_MODEL_TASK_CLASSIFY || wanted == BO_MODEL_TASK_MATCH ? " --freeze model" : "");
    return false;
}

/* A resumed run reads its adapters from its checkpoint; the trainer refuses adapters of another shape. */
static bool open_model(cli_train_job *job)
{
    return fits_task(job) && cli_train_ok(job, adapt(job));
}

const cli_train_weights cli_train_adapters = {
    .file = "adapter_model.safetensors", .open_init = open_init, .open_model = open_model};
