/* A run: steps, conversion of minutes into steps, and the work between steps. */
#include <stdio.h>
#include <string.h>
#include "../base/trace.h"
#include "../backend/backend.h"
#include "../base/rng.h"
#include "train.h"

/* ====================================================================================================================
 * One step: the gradients of the micro-batches are added, summed over the ranks, and passed to the optimizer. */

/* ---- a micro-batch ----------------------------------------------------------------------------------------------- */

/* Runs of graphs with gradients in a step, on all ranks. */
static double parts_of(const bo_trainer *trainer)
{
    return (double)(trainer->pieces * trainer->task->windows * bo_train_ranks(&trainer->desc));
}

/* Seed of dropout: different for every step, micro-batch, window and rank. */
static uint64_t pass_seed(const bo_trainer *trainer, size_t rank, size_t piece, size_t window)
{
    bo_rng rng = bo_rng_make(trainer->desc.seed, bo_rng_stream("train.pass", trainer->now.step));
    rng.next = (rank * trainer->pieces + piece) * trainer->task->windows + window;
    return bo_rng_bits(&rng);
}

/* Writes a window of this rank's micro-batch `piece` at step now.step into the graph. */
static bo_status load(bo_context *context, bo_trainer *trainer, size_t piece, size_t window, bo_graph_pass *pass)
{
    BO_SPAN(context, "train", "batch");
    const size_t micro = trainer->desc.micro_batch, rank = trainer->desc.ranks ? (size_t)trainer->desc.ranks->rank : 0;
    const bo_train_place place = {
        .step = trainer->now.step, .rank = rank, .first = piece * micro, .count = micro, .window = window};
    bo_train_task *task = trainer->task;
    *pass = (bo_graph_pass){.training = true, .seed = pass_seed(trainer, rank, piece, window)};
    task->weight = 1;
    BO_TRY(task->methods->load(context, task, &place, pass));
    pass->loss_scale = (float)(task->weight / parts_of(trainer));
    return BO_OK;
}

/* ---- NaN and infinity -------------------------------------------------------------------------------------------- */

/* Error message: the step, the cause, and the latest usable checkpoint. */
static bo_status named(bo_context *context, const bo_trainer *trainer, const char *what)
{
    char message[512], checkpoint[BO_TRAIN_PATH];
    snprintf(message, sizeof message, "%s", what);
    return bo_fail(context, BO_NUMERIC, "step %llu: %s%s", (unsigned long long)trainer->now.step + 1, message,
                   bo_train_last_checkpoint(trainer, checkpoint));
}

/* Reports the part of the model with the first NaN or infinity. Otherwise reports the message of the operation that
 * rejected its inputs, or of the loss. */
static bo_status not_finite(bo_context *context, bo_trainer *trainer, const bo_graph_pass *pass, const char *subject)
{
    char what[512];
    const char *scope = NULL;
    snprintf(what, sizeof what, "%s", subject);
    if (bo_graph_find_nonfinite(context, trainer->task->graph.graph, pass, &scope) == BO_OK && scope)
        snprintf(what, sizeof what, "the loss is NaN or infinite; the first NaN or infinity is in %s", scope);
    return named(context, trainer, what);
}

/* ---- gradients --------------------------------------------------------------------------------------------------- */

/* Runs a window that another window follows in the same step, to compute its final states. */
static bo_status read_window(bo_context *context, bo_trainer *trainer, size_t piece, size_t window)
{
    bo_graph_pass pass;
    BO_TRY(load(context, trainer, piece, window, &pass));
    const bo_status status = bo_graph_forward(context, trainer->task->graph.graph, &pass);
    return status == BO_NUMERIC ? not_finite(context, trainer, &pass, bo_context_error(context)) : status;
}

static bo_status add_window(bo_context *context, bo_trainer *trainer, size_t piece, size_t window, double *loss)
{
    bo_graph_pass pass;
    float value = 0;
    BO_TRY(load(context, trainer, piece, window, &pass));
    const bo_status status = bo_graph_run(context, trainer->task->graph.graph, &pass);
    if (status == BO_NUMERIC) return not_finite(context, trainer, &pass, bo_context_error(context));
    if (status != BO_OK) return status;
    BO_TRY(bo_graph_read(context, trainer->task->graph.graph, trainer->task->graph.loss, &value));
    if (!isfinite(value)) return not_finite(context, trainer, &pass, "the loss is NaN or infinite");
    *loss += trainer->task->weight * (double)value;
    return BO_OK;
}

static bo_status add_gradients(bo_context *context, bo_trainer *trainer, size_t piece, double *loss)
{
    const size_t windows = trainer->task->windows;
    for (size_t i = 0; i + 1 < windows; i++) BO_TRY(read_window(context, trainer, piece, i));
    for (size_t i = windows; i-- > 0;) BO_TRY(add_window(context, trainer, piece, i, loss));
    return BO_OK;
}

static bo_status local_gradients(bo_context *context, bo_trainer *trainer, double *loss)
{
    bo_train_task *task = trainer->task;
    bo_weights *weights = task->desc->model->weights;
    *loss = 0;
    if (task->methods->prepare) BO_TRY(task->methods->prepare(context, task, trainer->now.step));
    BO_TRY(bo_weights_zero_gradients(context, weights));
    for (size_t piece = 0; piece < trainer->pieces; piece++) BO_TRY(add_gradients(context, trainer, piece, loss));
    return BO_OK;
}

/* Computes the gradients of step now.step and its mean loss over all ranks. */
static bo_status compute_gradients(bo_context *context, bo_trainer *trainer, double *loss)
{
    BO_TRY(bo_train_agree(context, trainer, local_gradients(context, trainer, loss)));
    BO_TRY(bo_train_sum_gradients(context, trainer));
    BO_TRY(bo_train_sum(context, trainer, loss, 1));
    *loss /= parts_of(trainer);
    return BO_OK;
}

/* Computes gradients and updates the weights. On failure or cancellation the weights are unchanged. */
static bo_status take_step(bo_context *context, bo_trainer *trainer, double *loss)
{
    BO_SPAN(context, "train", "step");
    const bo_trainer_desc *desc = &trainer->desc;
    bo_training *now = &trainer->now;
    BO_TRY(compute_gradients(context, trainer, loss));
    trainer->factor = bo_schedule_factor(&desc->schedule, now->step, now->steps ? now->steps : trainer->ahead);
    const bo_status status = bo_optimizer_step(context, trainer->optimizer, trainer->factor, &trainer->gradient_norm);
    if (status == BO_NUMERIC) return named(context, trainer, bo_context_error(context));
    if (status != BO_OK) return status;
    if (trainer->task->methods->advance) trainer->task->methods->advance(trainer->task);
    now->step++;
    now->tokens += desc->batch * trainer->task->units;
    now->loss_sum += *loss;
    now->loss_steps++;
    return BO_OK;
}

/* ====================================================================================================================
 * A run: steps and the work between them. Work that is due at the step of a checkpoint is repeated when the run is
 * resumed. An interrupted run therefore evaluates, reports and stops at the same steps as an uninterrupted one. */

/* ---- evaluation -------------------------------------------------------------------------------------------------- */

bo_status bo_trainer_evaluate(bo_context *context, bo_trainer *trainer, bo_training_score *out)
{
    BO_REQUIRE(context, trainer, out);
    BO_SPAN(context, "train", "evaluation");
    bo_train_task *task = trainer->task;
    *out = (bo_training_score){.name = task->metric, .metric = NAN};
    if (!task->evaluates) return bo_fail(context, BO_INVALID, "evaluate: there is no held-out %s", task->methods->data);
    BO_TRY(bo_optimizer_swap_average(context, trainer->optimizer));
    bo_status status = task->methods->evaluate(context, task, out);
    const bo_status back = bo_optimizer_swap_average(context, trainer->optimizer);
    return status == BO_OK ? back : status;
}

/* Evaluates on rank 0 and sends the result to all ranks; sets the validation numbers of `now`. */
static bo_status validate(bo_context *context, bo_trainer *trainer)
{
    bo_training *now = &trainer->now;
    bo_training_score score = {0};
    bo_status status = bo_train_first(trainer) ? bo_trainer_evaluate(context, trainer, &score) : BO_OK;
    BO_TRY(bo_train_agree(context, trainer, status));
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

/* ---- reports ----------------------------------------------------------------------------------------------------- */

/* Adds the time since the last call to now.seconds. */
static void update_clock(bo_trainer *trainer)
{
    const double at = bo_seconds();
    trainer->now.seconds += at - trainer->since;
    trainer->since = at;
}

static double per_second(double amount, double seconds)
{
    return seconds > 0 ? amount / seconds : NAN;
}

static void fill_report(bo_trainer *trainer, bool evaluated)
{
    const bo_training *now = &trainer->now;
    const bo_trainer_desc *desc = &trainer->desc;
    const double done = (double)(now->step - trainer->first), spent = now->seconds - trainer->began;
    const double steps = (double)trainer->timed_steps;
    const double tokens = (double)(desc->batch * trainer->task->units);
    const double operations =
        bo_graph_describe(trainer->task->graph.graph)->flops * (double)(trainer->pieces * trainer->task->windows);
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
        .seconds_left = now->steps && done > 0 ? (double)(now->steps - now->step) * spent / done : NAN,
        .evaluated = evaluated,
        .stopped_early = desc->patience && now->waited >= desc->patience,
    };
}

static bo_status send_report(bo_context *context, bo_trainer *trainer, bool evaluated)
{
    update_clock(trainer);
    fill_report(trainer, evaluated);
    trainer->now.loss_sum = trainer->step_seconds = 0;
    trainer->now.loss_steps = trainer->timed_steps = 0;
    if (!bo_train_first(trainer)) return BO_OK;
    if (trainer->directory) BO_TRY(bo_train_metrics_add(context, trainer));
    if (trainer->desc.report && !trainer->desc.report(trainer->desc.user, &trainer->report)) trainer->stop = true;
    return BO_OK;
}

static bo_status timed_step(bo_context *context, bo_trainer *trainer)
{
    double loss;
    const double start = bo_seconds();
    BO_TRY(take_step(context, trainer, &loss));
    trainer->step_seconds += bo_seconds() - start;
    trainer->timed_steps++;
    if (bo_progress(context, "training", (double)trainer->now.step, (double)trainer->now.steps) != BO_OK)
        trainer->stop = true;
    return bo_train_any(context, trainer, &trainer->stop);
}

/* ---- minutes into steps ------------------------------------------------------------------------------------------ */

/* Converts minutes into steps once. The first steps, one evaluation and one checkpoint are timed, and the number of
 * steps that fit is stored in that checkpoint. From then on the run has that number of steps. */
enum { MIN_STEPS = 3, MAX_STEPS = 10 }; /* number of timed steps */
static const double MARGIN = 0.985, SHARE = 0.03, OVERHEAD = 0.1;

/* Seconds of each kind of work. */
typedef struct costs {
    double step, evaluation, checkpoint;
} costs;

/* Evaluations with a default interval may take a tenth of the time. */
static uint64_t interval(const bo_trainer *trainer, const costs *c, uint64_t steps)
{
    if (trainer->desc.eval_every) return trainer->desc.eval_every;
    const double rare = ceil((c->evaluation + c->checkpoint) / (OVERHEAD * c->step));
    const uint64_t every = bo_train_interval(0, steps);
    return rare > (double)every ? (uint64_t)fmin(rare, 1e15) : every;
}

static double seconds_of(const bo_trainer *trainer, const costs *c, uint64_t more)
{
    const uint64_t steps = trainer->now.step + more, every = interval(trainer, c, steps);
    const uint64_t saving = trainer->desc.checkpoint_every ? trainer->desc.checkpoint_every : every;
    return (double)more * c->step + (double)(more / every + 1) * c->evaluation +
           (double)(more / saving + 1) * c->checkpoint;
}

/* The maximum number of steps that fit into this many seconds. */
static uint64_t steps_within(const bo_trainer *trainer, const costs *c, double seconds)
{
    uint64_t low = 0, high = (uint64_t)fmin(fmax(seconds, 0) / c->step, 1e15);
    while (low < high) {
        const uint64_t middle = low + (high - low + 1) / 2;
        if (seconds_of(trainer, c, middle) <= seconds)
            low = middle;
        else
            high = middle - 1;
    }
    return low;
}

static double seconds_left(bo_trainer *trainer)
{
    update_clock(trainer);
    return 60 * trainer->now.minutes * MARGIN - trainer->now.seconds;
}

/* Computes unused gradients to warm up memory and caches, and to get a first estimate for the schedule. */
static bo_status warm_up(bo_context *context, bo_trainer *trainer)
{
    double loss;
    const double start = bo_seconds();
    BO_TRY(compute_gradients(context, trainer, &loss));
    double guess = fmax(seconds_left(trainer) / (bo_seconds() - start), 1);
    BO_TRY(bo_train_broadcast(context, trainer, &guess, 1));
    trainer->ahead = trainer->now.step + (uint64_t)fmin(guess, 1e15);
    return BO_OK;
}

static bo_status measure_steps(bo_context *context, bo_trainer *trainer, double *step)
{
    const double enough = 60 * trainer->now.minutes * SHARE;
    const uint64_t first = trainer->now.step;
    double spent = 0, left;
    do {
        const double start = bo_seconds();
        BO_TRY(timed_step(context, trainer));
        if (trainer->stop) return BO_CANCELED;
        spent += bo_seconds() - start;
        left = trainer->now.step - first < MIN_STEPS ? seconds_left(trainer) : enough - spent;
        if (trainer->now.step - first >= MAX_STEPS) left = 0;
        BO_TRY(bo_train_broadcast(context, trainer, &left, 1));
    } while (left > 0);
    *step = spent / (double)(trainer->now.step - first);
    return BO_OK;
}

static bo_status measure_rest(bo_context *context, bo_trainer *trainer, costs *c)
{
    double start = bo_seconds();
    if (trainer->task->evaluates) BO_TRY(validate(context, trainer));
    c->evaluation = bo_seconds() - start;
    BO_TRY(bo_train_agree(context, trainer, send_report(context, trainer, trainer->task->evaluates)));
    start = bo_seconds();
    BO_TRY(bo_train_agree(context, trainer, bo_train_save(context, trainer)));
    c->checkpoint = bo_seconds() - start;
    return BO_OK;
}

/* Times the first steps, an evaluation and a checkpoint, and sets now.steps. */
static bo_status find_steps(bo_context *context, bo_trainer *trainer)
{
    bo_training *now = &trainer->now;
    costs c = {0};
    BO_TRY(warm_up(context, trainer));
    BO_TRY(measure_steps(context, trainer, &c.step));
    BO_TRY(measure_rest(context, trainer, &c));
    double found[2] = {(double)steps_within(trainer, &c, seconds_left(trainer)), 0};
    found[1] = (double)interval(trainer, &c, now->step + (uint64_t)found[0]);
    BO_TRY(bo_train_broadcast(context, trainer, found, 2));
    now->steps = now->step + (uint64_t)found[0];
    now->eval_every = (uint64_t)found[1];
    now->checkpoint_every = trainer->desc.checkpoint_every ? trainer->desc.checkpoint_every : now->eval_every;
    update_clock(trainer);
    return bo_train_agree(context, trainer, bo_train_save(context, trainer)); /* saves the number of steps */
}

/* ---- between steps ----------------------------------------------------------------------------------------------- */

static bool at_end(const bo_trainer *trainer)
{
    return trainer->now.step >= trainer->now.steps ||
           (trainer->desc.patience && trainer->now.waited >= trainer->desc.patience);
}

static bool is_due(uint64_t step, uint64_t every)
{
    return step > 0 && step % every == 0;
}

/* Evaluates, reports and writes a checkpoint if they are due at this step and not done yet. */
static bo_status between(bo_context *context, bo_trainer *trainer)
{
    bo_training *now = &trainer->now;
    const uint64_t step = now->step, often = now->eval_every / 10 ? now->eval_every / 10 : 1;
    const bool last = step >= now->steps;
    const bool evaluate = trainer->task->evaluates && now->evaluated != step && (is_due(step, now->eval_every) || last);
    if (evaluate) BO_TRY(validate(context, trainer));
    const bool report = now->loss_steps && (evaluate || last || is_due(step, often));
    if (report) BO_TRY(bo_train_agree(context, trainer, send_report(context, trainer, evaluate)));
    const bool better = evaluate && now->best_step == step;
    /* a run that stopped before its evaluation still has to save the result */
    if (trainer->saved == step && !evaluate) return BO_OK;
    if (!(better || at_end(trainer) || is_due(step, now->checkpoint_every))) return BO_OK;
    update_clock(trainer);
    return bo_train_agree(context, trainer, bo_train_save(context, trainer));
}

static bo_status go_on(bo_context *context, bo_trainer *trainer)
{
    if (!trainer->now.steps) BO_TRY(find_steps(context, trainer));
    for (;;) {
        BO_TRY(between(context, trainer));
        if (at_end(trainer)) return BO_OK;
        BO_TRY(bo_train_any(context, trainer, &trainer->stop));
        if (trainer->stop) return BO_CANCELED;
        BO_TRY(timed_step(context, trainer));
    }
}

/* Stops after the last complete step. */
static bo_status stopped(bo_context *context, bo_trainer *trainer)
{
    update_clock(trainer);
    if (trainer->now.step > 0) BO_TRY(bo_train_agree(context, trainer, bo_train_save(context, trainer)));
    fill_report(trainer, false);
    return bo_fail(context, BO_CANCELED, "stopped on request after step %llu", (unsigned long long)trainer->now.step);
}

bo_status bo_trainer_run(bo_context *context, bo_trainer *trainer)
{
    BO_REQUIRE(context, trainer);
    trainer->since = bo_seconds();
    trainer->began = trainer->now.seconds;
    trainer->first = trainer->now.step;
    trainer->stop = false;
    const bo_status status = go_on(context, trainer);
    if (status == BO_CANCELED) return stopped(context, trainer);
    /* the run was already complete */
    if (status == BO_OK && trainer->first == trainer->now.step) fill_report(trainer, false);
    return status;
}

/* ---- step by step ------------------------------------------------------------------------------------------------ */

bo_status bo_trainer_step(bo_context *context, bo_trainer *trainer, double *loss)
{
    BO_REQUIRE(context, trainer);
    double found;
    if (!trainer->now.steps)
        return bo_fail(context, BO_INVALID,
                       "bo_trainer_step: the run has a time limit (minutes); single steps need a number of steps");
    trainer->since = bo_seconds();
    BO_TRY(take_step(context, trainer, loss ? loss : &found));
    update_clock(trainer);
    return BO_OK;
}

bo_status bo_trainer_checkpoint(bo_context *context, bo_trainer *trainer)
{
    BO_REQUIRE(context, trainer);
    if (!trainer->directory)
        return bo_fail(context, BO_INVALID, "checkpoint: the trainer was created without a directory");
    return bo_train_agree(context, trainer, bo_train_save(context, trainer));
}
