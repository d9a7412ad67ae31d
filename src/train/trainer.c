/* The trainer: checks and defaults of its descriptor, memory estimates, creation and destruction. */
#include <assert.h>
#include <math.h>
#include <string.h>
#include <unistd.h>
#include "../nn/enums.h"
#include "../base/trace.h"
#include "train.h"

/* ====================================================================================================================
 * Descriptors of runs: checks, defaults, and memory estimates. */

enum { BATCH = 16, KEEP = 2 };
static const uint64_t MAX_STEPS = 1000000000000000; /* JSON numbers hold these exactly */

/* ---- defaults ---------------------------------------------------------------------------------------------------- */

uint64_t bo_train_interval(uint64_t requested, uint64_t steps)
{
    if (requested) return requested;
    return steps / 10 > 25 ? steps / 10 : 25;
}

/* More than a few items at a time are faster on a GPU only. */
static double micro_batch_bytes(bo_device *device)
{
    const double min_bytes = 1073741824.0;
    return bo_device_is_gpu(device) ? fmax(min_bytes, 0.4 * (double)bo_device_memory(device).bytes) : min_bytes;
}

static size_t default_micro_batch(const bo_train_task *task)
{
    const size_t batch = task->desc->batch / bo_train_ranks(task->desc);
    const double max_examples =
        micro_batch_bytes(bo_weights_device(task->desc->model->weights)) / task->methods->item_bytes(task);
    size_t micro = batch;
    while (micro > 1 && (batch % micro != 0 || (double)micro > max_examples)) micro--;
    return micro;
}

/* ---- checks ------------------------------------------------------------------------------------------------------ */

static bo_status check(bo_context *context, const bo_trainer_desc *desc)
{
    if (desc->resume && !desc->directory)
        return bo_fail(context, BO_INVALID, "resume: expected the directory of a run, found NULL");
    if (desc->steps && desc->minutes > 0)
        return bo_fail(context, BO_INVALID, "steps or minutes: expected one of them, found both");
    if (!desc->resume && !desc->steps && !(desc->minutes > 0))
        return bo_fail(context, BO_INVALID, "steps or minutes: expected one of them, found neither");
    if (!(desc->minutes >= 0 && desc->minutes <= 1e7))
        return bo_fail(context, BO_INVALID, "minutes: expected a number of at most 1e7, found %g", desc->minutes);
    if (desc->steps > MAX_STEPS)
        return bo_fail(context, BO_INVALID, "steps: expected at most %llu, found %llu", (unsigned long long)MAX_STEPS,
                       (unsigned long long)desc->steps);
    if (desc->activations != BO_STORAGE_FLOAT32 && desc->activations != BO_STORAGE_BFLOAT16)
        return bo_fail(context, BO_INVALID, "activations: expected float32 or bfloat16, found %s",
                       bo_storage_name(desc->activations) ? bo_storage_name(desc->activations) : "an unknown storage");
    if (desc->redraw_every && desc->train.examples)
        return bo_fail(context, BO_INVALID, "redraw: expected a model with attention, found a network");
    if ((desc->stateful || desc->state_windows) && (desc->train.examples || desc->train.texts))
        return bo_fail(context, BO_INVALID, "stateful: expected a language model, found %s",
                       desc->train.examples ? "a network" : "a model of another task");
    if (desc->imitate && (desc->train.examples || desc->train.texts))
        return bo_fail(context, BO_INVALID, "imitate: expected a language model, found %s",
                       desc->train.examples ? "a network" : "a model of another task");
    if (desc->whiten && (desc->train.examples || desc->train.texts))
        return bo_fail(context, BO_INVALID, "whiten: expected a language model, found %s",
                       desc->train.examples ? "a network" : "a model of another task");
    const bo_collective *ranks = desc->ranks;
    if (ranks) BO_TRY(bo_check_reserved(context, "bo_collective", ranks->reserved));
    if (ranks && ranks->size > 1 && (!ranks->sum || !ranks->sum_f32))
        return bo_fail(context, BO_INVALID,
                       "ranks: training on %d ranks needs the functions that sum doubles and floats", ranks->size);
    return BO_OK;
}

static bo_status check_batch(bo_context *context, const bo_trainer_desc *desc)
{
    const size_t ranks = bo_train_ranks(desc), share = desc->batch / ranks;
    if (desc->batch % ranks != 0 || share == 0)
        return bo_fail(context, BO_INVALID, "batch: expected a multiple of the %zu ranks, found %zu", ranks,
                       desc->batch);
    if (desc->micro_batch && (desc->micro_batch > share || share % desc->micro_batch != 0))
        return bo_fail(context, BO_INVALID, "micro_batch: expected a divisor of the batch of %s%zu, found %zu",
                       ranks > 1 ? "one rank, " : "", share, desc->micro_batch);
    return BO_OK;
}

static bo_status resolve(bo_context *context, const bo_train_task *task, bo_trainer_desc *desc)
{
    BO_TRY(check(context, desc));
    BO_TRY(bo_schedule_check(context, &desc->schedule));
    if (!desc->batch) desc->batch = task->batch ? task->batch : BATCH;
    if (!desc->keep) desc->keep = KEEP;
    desc->optimizer = bo_train_optimizer(&desc->optimizer);
    if (desc->ranks && desc->ranks->size < 2) desc->ranks = NULL;
    if (task->batch == 1 && desc->ranks)
        return bo_fail(context, BO_INVALID,
                       "ranks: the %s form a single batch that cannot be divided: expected 1 rank, found %d",
                       task->methods->data, desc->ranks->size);
    return check_batch(context, desc);
}

/* Checks the descriptor, fills in defaults, and creates the task it names. */
static bo_status make_task(bo_context *context, bo_trainer_desc *desc, bo_train_task **task)
{
    BO_TRY(bo_check_reserved(context, "bo_trainer_desc", desc->reserved));
    BO_TRY(bo_train_task_create(context, desc, task));
    bo_status status = resolve(context, *task, desc);
    if (status == BO_OK) status = (*task)->methods->check(context, *task);
    if (status == BO_OK) return BO_OK;
    bo_train_task_destroy(*task);
    *task = NULL;
    return status;
}

/* ---- sizes ------------------------------------------------------------------------------------------------------- */

static bo_status sizes(bo_context *context, bo_train_task *task, bo_training_cost *out)
{
    const bo_trainer_desc *desc = task->desc;
    bo_weights *weights = task->desc->model->weights;
    BO_TRY(bo_train_freeze(context, task));
    out->parameters = bo_weights_describe(weights)->parameters;
    out->trained = bo_weights_describe(weights)->trained;
    out->micro_batch = desc->micro_batch ? desc->micro_batch : default_micro_batch(task);
    out->model_bytes = bo_weights_floats(weights) * sizeof(float);
    out->gradient_bytes = bo_weights_gradient_floats(weights) * sizeof(float);
    out->optimizer_bytes = bo_optimizer_bytes(context, &desc->optimizer, weights);
    BO_TRY(task->methods->open(context, task, out->micro_batch));
    out->activation_bytes = bo_graph_describe(task->graph.graph)->bytes;
    out->operations =
        bo_graph_describe(task->graph.graph)->flops * (double)(desc->batch / out->micro_batch * task->windows);
    out->all_bytes = out->model_bytes + out->gradient_bytes + out->optimizer_bytes + out->activation_bytes;
    return task->methods->plan ? task->methods->plan(context, task, out) : BO_OK;
}

bo_status bo_trainer_estimate(bo_context *context, const bo_trainer_desc *desc, bo_training_cost *out)
{
    BO_REQUIRE(context, desc, out);
    bo_trainer_desc full = *desc;
    bo_train_task *task;
    *out = (bo_training_cost){0};
    BO_TRY(make_task(context, &full, &task));
    const bo_status status = sizes(context, task, out);
    bo_train_task_destroy(task);
    return status;
}

/* ====================================================================================================================
 * The trainer. All resources of a run are created once. A step allocates no memory. */

static bo_status make_graph(bo_context *context, bo_trainer *trainer)
{
    const bo_trainer_desc *desc = &trainer->desc;
    bo_train_task *task = trainer->task;
    const size_t ranks = bo_train_ranks(desc);
    trainer->pieces = desc->batch / ranks / desc->micro_batch;
    BO_TRY(task->methods->open(context, task, desc->micro_batch));
    assert(task->graph.graph && task->graph.loss && trainer->pieces * desc->micro_batch * ranks == desc->batch);
    BO_TRY(bo_graph_allocate(context, task->graph.graph));
    if (ranks > 1) {
        trainer->exchange = bo_alloc_raw(context, BO_TRAIN_EXCHANGE, sizeof(float), "an exchange of gradients");
        if (!trainer->exchange) return BO_MEMORY;
    }
    return BO_OK;
}

static void begin(bo_trainer *trainer)
{
    const bo_trainer_desc *desc = &trainer->desc;
    trainer->now = (bo_training){.steps = desc->steps,
                                 .minutes = desc->minutes,
                                 .micro_batch = desc->micro_batch,
                                 .valid_loss = NAN,
                                 .valid_metric = NAN,
                                 .best_loss = NAN};
    trainer->saved = UINT64_MAX;
    trainer->lock = -1;
}

/* Sets the values that the checkpoint does not contain. */
static void settle(bo_trainer *trainer)
{
    bo_training *now = &trainer->now;
    bo_trainer_desc *desc = &trainer->desc;
    const size_t share = desc->batch / bo_train_ranks(desc);
    if (desc->micro_batch)
        now->micro_batch = desc->micro_batch;
    else if (now->micro_batch == 0 || share % now->micro_batch != 0)
        now->micro_batch = default_micro_batch(trainer->task);
    desc->micro_batch = (size_t)now->micro_batch;
    if (desc->eval_every) now->eval_every = desc->eval_every;
    if (desc->checkpoint_every) now->checkpoint_every = desc->checkpoint_every;
    if (now->steps) now->eval_every = bo_train_interval(now->eval_every, now->steps);
    if (now->steps && !now->checkpoint_every) now->checkpoint_every = now->eval_every;
}

static bo_status make_optimizer(bo_context *context, bo_trainer *trainer)
{
    BO_TRY(bo_train_freeze(context, trainer->task));
    BO_TRY(bo_weights_allocate(context, trainer->task->desc->model->weights, true));
    BO_TRY(bo_optimizer_create(context, &trainer->desc.optimizer, trainer->task->desc->model->weights,
                               &trainer->optimizer));
    trainer->desc.optimizer = bo_optimizer_describe(trainer->optimizer)->desc;
    return BO_OK;
}

/* Ranks synchronize after each part, so that no rank waits for a failed one. */
static bo_status create(bo_context *context, const bo_trainer_desc *desc, bo_trainer *trainer)
{
    trainer->desc = *desc;
    trainer->precision = bo_context_precision(context);
    BO_TRY(make_task(context, &trainer->desc, &trainer->task));
    begin(trainer);
    BO_TRY(bo_train_agree(context, trainer, make_optimizer(context, trainer)));
    if (desc->directory) BO_TRY(bo_train_agree(context, trainer, bo_train_prepare(context, trainer)));
    if (desc->directory && desc->resume) BO_TRY(bo_train_agree(context, trainer, bo_train_restore(context, trainer)));
    BO_TRY(bo_train_same(context, trainer));
    BO_TRY(bo_train_agree(context, trainer, bo_train_connect(context, trainer)));
    if (!trainer->now.steps && !(trainer->now.minutes > 0))
        return bo_fail(context, BO_INVALID,
                       "steps or minutes: expected one of them, found neither, and there is no run to resume");
    settle(trainer);
    return bo_train_agree(context, trainer, make_graph(context, trainer));
}

bo_status bo_trainer_create(bo_context *context, const bo_trainer_desc *desc, bo_trainer **out)
{
    if (out) *out = NULL;
    BO_REQUIRE(context, desc, out);
    BO_SPAN(context, "train", "prepare training");
    bo_trainer *trainer = bo_alloc(context, 1, sizeof *trainer, "a trainer");
    if (!trainer) return BO_MEMORY;
    trainer->lock = -1;
    const bo_status status = create(context, desc, trainer);
    if (status != BO_OK)
        bo_trainer_destroy(trainer);
    else
        *out = trainer;
    return status;
}

void bo_trainer_destroy(bo_trainer *trainer)
{
    if (!trainer) return;
    bo_optimizer_destroy(trainer->optimizer);
    bo_train_task_destroy(trainer->task);
    bo_free(trainer->exchange);
    bo_free(trainer->directory);
    if (trainer->lock >= 0) close(trainer->lock);
    bo_free(trainer);
}

const bo_training_report *bo_trainer_report(const bo_trainer *trainer)
{
    return trainer ? &trainer->report : NULL;
}
