/* One step: gradients of micro-batches added up, summed over the ranks, given to the optimizer. */
#include "train.h"
#include <stdio.h>
#include <string.h>
#include "../backend/backend.h"
#include "../base/rng.h"

/* ---- a micro-batch ------------------------------------------------------------------------------------------------------ */

/* Of dropout: its own for every step, micro-batch and rank. */
static uint64_t pass_seed(const bo_trainer *trainer, size_t rank, size_t piece)
{
    bo_rng rng = bo_rng_make(trainer->desc.seed, bo_rng_stream("train.pass", trainer->now.step));
    rng.next = rank * trainer->pieces + piece;
    return bo_rng_bits(&rng);
}

/* Writes this rank's micro-batch `piece` of step now.step into the graph. */
static bo_status load(bo_context *context, bo_trainer *trainer, size_t piece, bo_pass *pass)
{
    const size_t micro = trainer->desc.micro_batch, rank = trainer->desc.ranks ? (size_t)trainer->desc.ranks->rank : 0;
    const bo_train_place place = {.step = trainer->now.step, .rank = rank, .first = piece * micro, .count = micro};
    bo_train_task *task = trainer->task;
    *pass = (bo_pass){.training = true, .seed = pass_seed(trainer, rank, piece)};
    task->weight = 1;
    BO_TRY(task->methods->load(context, task, &place, pass));
    bo_graph_loss_scale(task->graph,
                        (float)(task->weight / (double)(trainer->pieces * bo_train_ranks(&trainer->desc))));
    return BO_OK;
}

/* ---- numbers that are not finite ---------------------------------------------------------------------------------------- */

/* Step, what, and the checkpoint that stays. */
static bo_status named(bo_context *context, const bo_trainer *trainer, const char *what)
{
    char words[512], checkpoint[BO_TRAIN_PATH];
    snprintf(words, sizeof words, "%s", what);
    return bo_fail(context, BO_NUMERIC, "step %llu: %s%s", (unsigned long long)trainer->now.step + 1, words,
                   bo_train_last_words(trainer, checkpoint));
}

/* The part of the model where it began; else the words of the operation that refused its inputs, or of the loss. */
static bo_status not_finite(bo_context *context, bo_trainer *trainer, const bo_pass *pass, const char *words)
{
    char what[512];
    const char *scope = NULL;
    snprintf(what, sizeof what, "%s", words);
    if (bo_graph_blame(context, trainer->task->graph, pass, &scope) == BO_OK && scope)
        snprintf(what, sizeof what, "the loss is not finite; first in %s", scope);
    return named(context, trainer, what);
}

/* ---- gradients ---------------------------------------------------------------------------------------------------------- */

static bo_status add_gradients(bo_context *context, bo_trainer *trainer, size_t piece, double *loss)
{
    bo_pass pass;
    float value = 0;
    BO_TRY(load(context, trainer, piece, &pass));
    const bo_status status = bo_graph_run(context, trainer->task->graph, &pass);
    if (status == BO_NUMERIC) return not_finite(context, trainer, &pass, bo_context_error(context));
    if (status != BO_OK) return status;
    BO_TRY(bo_graph_read(context, trainer->task->graph, trainer->task->loss, &value));
    if (!isfinite(value)) return not_finite(context, trainer, &pass, "the loss is not finite");
    *loss += trainer->task->weight * (double)value;
    return BO_OK;
}

static bo_status own_gradients(bo_context *context, bo_trainer *trainer, double *loss)
{
    bo_train_task *task = trainer->task;
    bo_weights *weights = task->weights;
    const bo_backend *backend = bo_weights_backend(weights);
    *loss = 0;
    if (task->methods->prepare) BO_TRY(task->methods->prepare(context, task, trainer->now.step));
    BO_TRY(backend->zero(context, bo_weights_gradients(weights), bo_weights_floats(weights) * sizeof(float)));
    for (size_t piece = 0; piece < trainer->pieces; piece++) BO_TRY(add_gradients(context, trainer, piece, loss));
    return BO_OK;
}

bo_status bo_train_gradients(bo_context *context, bo_trainer *trainer, double *loss)
{
    BO_TRY(bo_train_agree(context, trainer, own_gradients(context, trainer, loss)));
    BO_TRY(bo_train_sum_gradients(context, trainer));
    BO_TRY(bo_train_sum(context, trainer, loss, 1));
    *loss /= (double)(trainer->pieces * bo_train_ranks(&trainer->desc));
    return BO_OK;
}

bo_status bo_train_step(bo_context *context, bo_trainer *trainer, double *loss)
{
    const bo_trainer_desc *desc = &trainer->desc;
    bo_training *now = &trainer->now;
    BO_TRY(bo_train_gradients(context, trainer, loss));
    trainer->factor = bo_schedule_factor(&desc->schedule, now->step, now->steps ? now->steps : trainer->ahead);
    const bo_status status = bo_optimizer_step(context, trainer->optimizer, trainer->factor, &trainer->gradient_norm);
    if (status == BO_NUMERIC) return named(context, trainer, bo_context_error(context));
    if (status != BO_OK) return status;
    now->step++;
    now->tokens += desc->batch * trainer->task->units;
    now->loss_sum += *loss;
    now->loss_steps++;
    return BO_OK;
}
