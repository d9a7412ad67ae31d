/* A run: steps, and what is due between them. What was due at the step of a checkpoint is done or made up for when the run is
 * resumed, so that an interrupted run evaluates, reports and stops where an uninterrupted one does. */
#include "train.h"

/* ---- evaluation --------------------------------------------------------------------------------------------------------- */

bo_status bo_trainer_evaluate(bo_context *context, bo_trainer *trainer, bo_training_score *out)
{
    bo_train_task *task = trainer->task;
    *out = (bo_training_score){.name = task->metric, .metric = NAN};
    if (!task->evaluates) return bo_fail(context, BO_INVALID, "there is no %s to evaluate with", task->methods->data);
    BO_TRY(bo_optimizer_swap_average(context, trainer->optimizer));
    bo_status status = task->methods->evaluate(context, task, out);
    const bo_status back = bo_optimizer_swap_average(context, trainer->optimizer);
    return status == BO_OK ? back : status;
}

bo_status bo_train_evaluate(bo_context *context, bo_trainer *trainer)
{
    bo_training *now = &trainer->now;
    bo_training_score score = {0};
    bo_status mine = bo_train_first(trainer) ? bo_trainer_evaluate(context, trainer, &score) : BO_OK;
    BO_TRY(bo_train_agree(context, trainer, mine));
    double values[2] = {score.loss, score.metric};
    BO_TRY(bo_train_broadcast(context, trainer, values, 2));
    now->valid_loss = values[0];
    now->valid_metric = values[1];
    now->evaluated = now->step;
    if (isnan(now->best_loss) || now->valid_loss < now->best_loss) {
        now->best_loss = now->valid_loss;
        now->best_step = now->step;
        now->waited = 0;
    } else {
        now->waited++;
    }
    return BO_OK;
}

/* ---- reports ------------------------------------------------------------------------------------------------------------ */

void bo_train_clock(bo_trainer *trainer)
{
    const double at = bo_seconds();
    trainer->now.seconds += at - trainer->since;
    trainer->since = at;
}

static double per_second(double amount, double seconds)
{
    return seconds > 0 ? amount / seconds : NAN;
}

void bo_train_fill_report(bo_trainer *trainer, bool evaluated)
{
    const bo_training *now = &trainer->now;
    const bo_trainer_desc *desc = &trainer->desc;
    const double taken = (double)(now->step - trainer->first), spent = now->seconds - trainer->began;
    const double steps = (double)trainer->timed_steps;
    const double tokens = (double)(desc->batch * trainer->task->units);
    const double operations = bo_graph_operations(trainer->task->graph) * (double)trainer->pieces;
    trainer->report = (bo_training_report){
        .step = now->step,
        .steps = now->steps,
        .loss = now->loss_steps ? now->loss_sum / (double)now->loss_steps : trainer->report.loss,
        .valid_loss = now->valid_loss,
        .valid_metric = now->valid_metric,
        .metric = trainer->task->metric,
        .best_valid_loss = now->best_loss,
        .gradient_norm = trainer->gradient_norm,
        .rate = trainer->factor * desc->optimizer.rate,
        .unit = trainer->task->methods->unit,
        .tokens = now->tokens,
        .seconds = now->seconds,
        .tokens_per_second = per_second(tokens * steps, trainer->step_seconds),
        .gflops = per_second(operations * steps, trainer->step_seconds) * 1e-9,
        .seconds_left = now->steps && taken > 0 ? (double)(now->steps - now->step) * spent / taken : NAN,
        .evaluated = evaluated,
        .stopped_early = desc->patience && now->waited >= desc->patience,
    };
}

bo_status bo_train_report(bo_context *context, bo_trainer *trainer, bool evaluated)
{
    bo_train_clock(trainer);
    bo_train_fill_report(trainer, evaluated);
    trainer->now.loss_sum = trainer->step_seconds = 0;
    trainer->now.loss_steps = trainer->timed_steps = 0;
    if (!bo_train_first(trainer)) return BO_OK;
    if (trainer->folder) BO_TRY(bo_train_metrics_add(context, trainer));
    if (trainer->desc.report && !trainer->desc.report(trainer->desc.user, &trainer->report)) trainer->stop = true;
    return BO_OK;
}

/* ---- between steps ------------------------------------------------------------------------------------------------------ */

static bool at_end(const bo_trainer *trainer)
{
    return trainer->now.step >= trainer->now.steps ||
           (trainer->desc.patience && trainer->now.waited >= trainer->desc.patience);
}

static bool is_due(uint64_t step, uint64_t every)
{
    return step > 0 && step % every == 0;
}

/* Evaluation, report and checkpoint, as far as this step has them and they are not done yet. */
static bo_status between(bo_context *context, bo_trainer *trainer)
{
    bo_training *now = &trainer->now;
    const uint64_t step = now->step, often = now->eval_every / 10 ? now->eval_every / 10 : 1;
    const bool last = step >= now->steps;
    const bool evaluate = trainer->task->evaluates && now->evaluated != step && (is_due(step, now->eval_every) || last);
    if (evaluate) BO_TRY(bo_train_evaluate(context, trainer));
    const bool report = now->loss_steps && (evaluate || last || is_due(step, often));
    if (report) BO_TRY(bo_train_agree(context, trainer, bo_train_report(context, trainer, evaluate)));
    const bool better = evaluate && now->best_step == step;
    if (trainer->saved == step && !evaluate) return BO_OK; /* a run stopped before its evaluation has that to add */
    if (!(better || at_end(trainer) || is_due(step, now->checkpoint_every))) return BO_OK;
    bo_train_clock(trainer);
    return bo_train_agree(context, trainer, bo_train_save(context, trainer));
}

bo_status bo_train_timed_step(bo_context *context, bo_trainer *trainer)
{
    double loss;
    const double start = bo_seconds();
    BO_TRY(bo_train_step(context, trainer, &loss));
    trainer->step_seconds += bo_seconds() - start;
    trainer->timed_steps++;
    if (bo_progress(context, "training", (double)trainer->now.step, (double)trainer->now.steps) != BO_OK)
        trainer->stop = true;
    return bo_train_any(context, trainer, &trainer->stop);
}

static bo_status go_on(bo_context *context, bo_trainer *trainer)
{
    if (!trainer->now.steps) BO_TRY(bo_train_find_steps(context, trainer));
    for (;;) {
        BO_TRY(between(context, trainer));
        if (at_end(trainer)) return BO_OK;
        BO_TRY(bo_train_any(context, trainer, &trainer->stop));
        if (trainer->stop) return BO_CANCELED;
        BO_TRY(bo_train_timed_step(context, trainer));
    }
}

/* Weights are those after the last whole step, whenever the request came. */
static bo_status stopped(bo_context *context, bo_trainer *trainer)
{
    bo_train_clock(trainer);
    if (trainer->now.step > 0) BO_TRY(bo_train_agree(context, trainer, bo_train_save(context, trainer)));
    bo_train_fill_report(trainer, false);
    return bo_fail(context, BO_CANCELED, "stopped on request after step %llu", (unsigned long long)trainer->now.step);
}

bo_status bo_trainer_run(bo_context *context, bo_trainer *trainer)
{
    trainer->since = bo_seconds();
    trainer->began = trainer->now.seconds;
    trainer->first = trainer->now.step;
    trainer->stop = false;
    const bo_status status = go_on(context, trainer);
    if (status == BO_CANCELED) return stopped(context, trainer);
    if (status == BO_OK && trainer->first == trainer->now.step) bo_train_fill_report(trainer, false); /* it was done */
    return status;
}

/* ---- step by step ------------------------------------------------------------------------------------------------------- */

bo_status bo_trainer_step(bo_context *context, bo_trainer *trainer, double *loss)
{
    double found;
    if (!trainer->now.steps)
        return bo_fail(context, BO_INVALID, "minutes are for whole runs; single steps need a number of steps");
    trainer->since = bo_seconds();
    BO_TRY(bo_train_step(context, trainer, loss ? loss : &found));
    bo_train_clock(trainer);
    return BO_OK;
}

bo_status bo_trainer_checkpoint(bo_context *context, bo_trainer *trainer)
{
    if (!trainer->folder) return bo_fail(context, BO_INVALID, "there is no folder for checkpoints");
    return bo_train_agree(context, trainer, bo_train_save(context, trainer));
}
