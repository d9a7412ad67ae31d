/* Minutes into steps, once: the first steps are taken and measured, an evaluation and a checkpoint too, and the number of
 * steps that fit is kept in that checkpoint. From there on the run is one of so many steps. */
#include "train.h"

enum { LEAST = 3, MOST = 10 }; /* steps that are measured */
static const double MARGIN = 0.985, SHARE = 0.03, OVERHEAD = 0.1;

/* Seconds of each. */
typedef struct costs {
    double step, evaluation, checkpoint;
} costs;

/* Evaluations that nobody asked for in number may take a tenth of the time. */
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

/* The most steps that fit into so many seconds. */
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
    bo_train_clock(trainer);
    return 60 * trainer->now.minutes * MARGIN - trainer->now.seconds;
}

/* Gradients that are not used bring memory and caches into their usual state, and a first guess for the schedule. */
static bo_status warm_up(bo_context *context, bo_trainer *trainer)
{
    double loss;
    const double start = bo_seconds();
    BO_TRY(bo_train_gradients(context, trainer, &loss));
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
        BO_TRY(bo_train_timed_step(context, trainer));
        if (trainer->stop) return BO_CANCELED;
        spent += bo_seconds() - start;
        left = trainer->now.step - first < LEAST ? seconds_left(trainer) : enough - spent;
        if (trainer->now.step - first >= MOST) left = 0;
        BO_TRY(bo_train_broadcast(context, trainer, &left, 1));
    } while (left > 0);
    *step = spent / (double)(trainer->now.step - first);
    return BO_OK;
}

static bo_status measure_rest(bo_context *context, bo_trainer *trainer, costs *c)
{
    double start = bo_seconds();
    if (trainer->task->evaluates) BO_TRY(bo_train_evaluate(context, trainer));
    c->evaluation = bo_seconds() - start;
    BO_TRY(bo_train_agree(context, trainer, bo_train_report(context, trainer, trainer->task->evaluates)));
    start = bo_seconds();
    BO_TRY(bo_train_agree(context, trainer, bo_train_save(context, trainer)));
    c->checkpoint = bo_seconds() - start;
    return BO_OK;
}

bo_status bo_train_find_steps(bo_context *context, bo_trainer *trainer)
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
    bo_train_clock(trainer);
    return bo_train_agree(context, trainer, bo_train_save(context, trainer)); /* now with the number of steps */
}
