/* Inside of training. A run is a pure function of its settings: data, dropout and rate of step t follow from (seed, t), so
 * that weights, the optimizer's vectors and a few numbers (bo_training) are all that resuming needs. */
#ifndef BO_TRAIN_H
#define BO_TRAIN_H

#include <bochner/train.h>
#include <math.h>
#include "../optim/optim.h"
#include "task.h"

/* ---- where a run is -------------------------------------------------------------------------------------------------- */

/* The numbers of a run that a checkpoint keeps, beside weights and the optimizer's vectors. */
typedef struct bo_training {
    uint64_t step, steps; /* done, and in all; steps 0: still to be found from `minutes` */
    double minutes;       /* 0: steps were given */
    uint64_t eval_every, checkpoint_every;
    uint64_t micro_batch; /* another one rounds differently */
    uint64_t tokens;
    double seconds;
    double loss_sum;                            /* over the steps … */
    uint64_t loss_steps;                        /* … since the last report */
    double valid_loss, valid_metric, best_loss; /* NAN: none yet */
    uint64_t best_step;
    uint64_t waited;    /* evaluations without a better one */
    uint64_t evaluated; /* step of the latest evaluation */
} bo_training;

/* ---- the trainer ------------------------------------------------------------------------------------------------------ */

enum { BO_TRAIN_EXCHANGE = BO_SIZE(1 << 20, 64) }; /* floats of gradients that travel at a time */

/* Invariants: `desc` has no zero left where zero meant a default, but steps and minutes, of which `now` knows; pieces
 * divides the batch of a rank; the task is open, its graph has memory, and so have gradients. */
struct bo_trainer {
    bo_trainer_desc desc;
    char *folder;        /* NULL: nothing is written. Rank 0 writes, the others read */
    int lock;            /* a file of the folder, held while the trainer lives; -1: none */
    bo_train_task *task; /* whose descriptor is `desc` */
    bo_optimizer *optimizer;
    size_t pieces;                /* micro-batches of a step, on each rank */
    float *exchange;              /* gradients on their way to other ranks; NULL: alone */
    uint64_t ahead;               /* number of steps that the schedule goes by while `steps` is not known */
    bool stop;                    /* somebody asked to stop */
    uint64_t saved;               /* step of the newest checkpoint; UINT64_MAX: none */
    double since;                 /* when now.seconds was last brought up to date */
    double began;                 /* now.seconds … */
    uint64_t first;               /* … and now.step when this process took over */
    double step_seconds;          /* spent in the steps since the last report … */
    uint64_t timed_steps;         /* … and their number in this process */
    double gradient_norm, factor; /* of the latest step */
    bo_training now;
    bo_training_report report;
};

/* Ranks. Doubles become their sums over the ranks. */
bo_status bo_train_sum(bo_context *context, const bo_trainer *trainer, double *values, size_t count);
/* Doubles of rank 0 to all. */
bo_status bo_train_broadcast(bo_context *context, const bo_trainer *trainer, double *values, size_t count);
/* Did every rank come through? Its own failure, or word of another's. */
bo_status bo_train_agree(bo_context *context, const bo_trainer *trainer, bo_status mine);
/* Are all ranks at the same step of the same run? Machines may have another folder or another text under the same name. */
bo_status bo_train_same(bo_context *context, const bo_trainer *trainer);
/* *flag on any rank becomes true on all. */
bo_status bo_train_any(bo_context *context, const bo_trainer *trainer, bool *flag);
/* Gradients become their sums over the ranks. */
bo_status bo_train_sum_gradients(bo_context *context, bo_trainer *trainer);
static inline bool bo_train_first(const bo_trainer *trainer)
{
    return !trainer->desc.ranks || trainer->desc.ranks->rank == 0;
}
static inline size_t bo_train_ranks(const bo_trainer_desc *desc)
{
    return desc->ranks ? (size_t)desc->ranks->size : 1;
}

/* ---- descriptors (trainer.c) ------------------------------------------------------------------------------------------ */

/* Intervals that are not given, of a run of so many steps. */
uint64_t bo_train_interval(uint64_t given, uint64_t steps);

/* ---- what is on disk ----------------------------------------------------------------------------------------------------- */

enum { BO_TRAIN_PATH = 4096 };

/* checkpoint.c: plain file system, errors with the path. */
bo_status bo_train_join(bo_context *context, const char *folder, const char *name, char out[BO_TRAIN_PATH]);
bo_status bo_train_read_text(bo_context *context, const char *path, char **out, size_t *length); /* bo_free */

/* run_file.c: training.json. */
bo_status bo_train_record_write(bo_context *context, const bo_trainer *trainer, const char *folder);
/* BO_INVALID where the run in `folder` was another: what, expected, found. */
bo_status bo_train_record_read(bo_context *context, bo_trainer *trainer, const char *folder);

/* checkpoint.c */
bo_status bo_train_save(bo_context *context, bo_trainer *trainer);
bo_status bo_train_prepare(bo_context *context, bo_trainer *trainer); /* the folder, before a run */
bo_status bo_train_restore(bo_context *context, bo_trainer *trainer); /* the newest whole checkpoint, if any */
const char *bo_train_last_words(const bo_trainer *trainer, char out[BO_TRAIN_PATH]); /* which checkpoint stays */

/* run_file.c: metrics.jsonl. */
bo_status bo_train_metrics_add(bo_context *context, const bo_trainer *trainer);
bo_status bo_train_metrics_cut(bo_context *context, const bo_trainer *trainer); /* lines of steps not yet done */

#endif
