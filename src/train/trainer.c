/* The trainer: everything a run needs, made once. A step allocates nothing. */
#include "train.h"
#include <unistd.h>

static bo_status make_graph(bo_context *context, bo_trainer *trainer)
{
    const bo_trainer_desc *desc = &trainer->desc;
    bo_train_task *task = trainer->task;
    const size_t ranks = bo_train_ranks(desc);
    trainer->pieces = desc->batch / ranks / desc->micro_batch;
    BO_TRY(task->methods->open(context, task, desc->micro_batch));
    BO_TRY(bo_graph_allocate(context, task->graph));
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

/* What the checkpoint did not settle. */
static void settle(bo_trainer *trainer)
{
    bo_training *now = &trainer->now;
    bo_trainer_desc *desc = &trainer->desc;
    const size_t share = desc->batch / bo_train_ranks(desc);
    if (desc->micro_batch)
        now->micro_batch = desc->micro_batch;
    else if (now->micro_batch == 0 || share % now->micro_batch != 0)
        now->micro_batch = bo_train_default_micro_batch(trainer->task);
    desc->micro_batch = (size_t)now->micro_batch;
    if (desc->eval_every) now->eval_every = desc->eval_every;
    if (desc->checkpoint_every) now->checkpoint_every = desc->checkpoint_every;
    if (now->steps) now->eval_every = bo_train_interval(now->eval_every, now->steps);
    if (now->steps && !now->checkpoint_every) now->checkpoint_every = now->eval_every;
}

static bo_status make_optimizer(bo_context *context, bo_trainer *trainer)
{
    BO_TRY(bo_train_freeze(context, trainer->task));
    BO_TRY(bo_weights_allocate(context, trainer->task->weights, true));
    BO_TRY(bo_optimizer_create(context, &trainer->desc.optimizer, trainer->task->weights, &trainer->optimizer));
    trainer->desc.optimizer = *bo_optimizer_describe(trainer->optimizer);
    return BO_OK;
}

/* Ranks agree after each part: none waits for one that failed. */
static bo_status create(bo_context *context, const bo_trainer_desc *desc, bo_trainer *trainer)
{
    trainer->desc = *desc;
    BO_TRY(bo_train_resolve(context, &trainer->desc, &trainer->task));
    begin(trainer);
    BO_TRY(bo_train_agree(context, trainer, make_optimizer(context, trainer)));
    if (desc->folder) BO_TRY(bo_train_agree(context, trainer, bo_train_prepare(context, trainer)));
    if (desc->folder && desc->resume) BO_TRY(bo_train_agree(context, trainer, bo_train_restore(context, trainer)));
    BO_TRY(bo_train_same(context, trainer));
    if (!trainer->now.steps && !(trainer->now.minutes > 0))
        return bo_fail(context, BO_INVALID,
                       "steps or minutes: expected one of them, found neither, nor a run to resume");
    settle(trainer);
    return bo_train_agree(context, trainer, make_graph(context, trainer));
}

bo_status bo_trainer_create(bo_context *context, const bo_trainer_desc *desc, bo_trainer **out)
{
    if (!out) return bo_fail(context, BO_INVALID, "trainer: there is nowhere to put it: out is NULL");
    *out = NULL;
    if (!desc) return bo_fail(context, BO_INVALID, "trainer: the descriptor is NULL");
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
    bo_free(trainer->folder);
    if (trainer->lock >= 0) close(trainer->lock);
    bo_free(trainer);
}

const bo_training_report *bo_trainer_report(const bo_trainer *trainer)
{
    return &trainer->report;
}
