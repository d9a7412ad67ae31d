/* Internal declarations of training. A run is a pure function of its settings: the data, dropout and learning rate of
 * step t follow from (seed, t). Resuming therefore needs only the weights, the optimizer state and a few numbers
 * (bo_training). */
#ifndef BO_TRAIN_H
#define BO_TRAIN_H

#include <bochner/train.h>
#include <math.h>
#include "../optim/optim.h"
#include "task.h"

/* ---- the position of a run --------------------------------------------------------------------------------------- */

/* The numbers that a checkpoint stores besides weights and optimizer state. */
typedef struct bo_training {
    uint64_t step, steps; /* steps done, and total steps; steps 0: to be determined from `minutes` */
    double minutes;       /* 0: the number of steps was specified */
    uint64_t eval_every, checkpoint_every;
    uint64_t micro_batch; /* a different micro-batch would round differently */
    uint64_t tokens;
    double seconds;
    double loss_sum;                            /* sum of the losses … */
    uint64_t loss_steps;                        /* … of this many steps since the last report */
    double valid_loss, valid_metric, best_loss; /* NAN: not evaluated yet */
    uint64_t best_step;
    uint64_t waited;    /* evaluations since the best one */
    uint64_t evaluated; /* step of the latest evaluation */
} bo_training;

/* ---- the trainer ------------------------------------------------------------------------------------------------- */

enum { BO_TRAIN_EXCHANGE = BO_SIZE(1 << 20, 64) }; /* gradients exchanged at a time, in floats */

/* Invariants: `desc` has all defaults filled in except steps and minutes, which are in `now`. `pieces` divides the
 * batch of a rank. The task is open, and its graph and gradients have memory. */
struct bo_trainer {
    bo_trainer_desc desc;
    bo_precision precision; /* of the context that created the trainer */
    char *directory;        /* NULL: no files. Rank 0 writes, other ranks read */
    int lock;               /* file descriptor of the lock file, open while the trainer exists; -1: none */
    bo_train_task *task;    /* its descriptor is `desc` */
    bo_optimizer *optimizer;
    size_t pieces;                /* micro-batches per step on each rank */
    float *exchange;              /* gradients being exchanged; NULL: single rank */
    bool joined;                  /* the devices of the ranks sum gradients themselves */
    uint64_t ahead;               /* number of steps assumed by the schedule while `steps` is unknown */
    bool stop;                    /* a stop was requested */
    uint64_t saved;               /* step of the newest checkpoint; UINT64_MAX: none */
    double since;                 /* time of the last update of now.seconds */
    double began;                 /* now.seconds … */
    uint64_t first;               /* … and now.step when this process started */
    double step_seconds;          /* seconds spent in steps since the last report … */
    uint64_t timed_steps;         /* … and their number in this process */
    double gradient_norm, factor; /* of the latest step */
    bo_training now;
    bo_training_report report;
};

/* Functions of ranks. Replaces doubles by their sums over the ranks. */
bo_status bo_train_sum(bo_context *context, const bo_trainer *trainer, double *values, size_t count);
/* Sends doubles of rank 0 to all ranks. */
bo_status bo_train_broadcast(bo_context *context, const bo_trainer *trainer, double *values, size_t count);
/* Checks that every rank succeeded. Returns this rank's failure, or reports that another rank failed. */
bo_status bo_train_agree(bo_context *context, const bo_trainer *trainer, bo_status status);
/* Checks that all ranks are at the same step of the same run. Hosts may have different directories or texts with the
 * same name. */
bo_status bo_train_same(bo_context *context, const bo_trainer *trainer);
/* Sets *flag on all ranks if it is true on any. */
bo_status bo_train_any(bo_context *context, const bo_trainer *trainer, bool *flag);
/* Sums gradients on the devices of the ranks without the host, if possible. */
bo_status bo_train_connect(bo_context *context, bo_trainer *trainer);
/* Replaces gradients by their sums over the ranks. */
bo_status bo_train_sum_gradients(bo_context *context, bo_trainer *trainer);
static inline bool bo_train_first(const bo_trainer *trainer)
{
    return !trainer->desc.ranks || trainer->desc.ranks->rank == 0;
}
static inline size_t bo_train_ranks(const bo_trainer_desc *desc)
{
    return desc->ranks ? (size_t)desc->ranks->size : 1;
}

/* ---- descriptors (trainer.c) ------------------------------------------------------------------------------------- */

/* The optimizer with the defaults of a trainer: gradients are clipped to the norm 1. */
static inline bo_optimizer_desc bo_train_optimizer(const bo_optimizer_desc *desc)
{
    bo_optimizer_desc optimizer = *desc;
    if (optimizer.clip == 0) optimizer.clip = 1;
    return optimizer;
}

/* Returns the requested interval, or the default for a run of this many steps if it is 0. */
uint64_t bo_train_interval(uint64_t requested, uint64_t steps);

/* ---- files ------------------------------------------------------------------------------------------------------- */

/* A longer directory is refused before the first step, because the names of the files of a checkpoint would not fit. */
enum { BO_TRAIN_PATH = 4096, BO_TRAIN_LONGEST_DIRECTORY = 3950 };

/* checkpoint.c: file system functions; errors contain the path. */
bo_status bo_train_join(bo_context *context, const char *directory, const char *name, char out[BO_TRAIN_PATH]);

/* run_file.c: training.json. */
bo_status bo_train_record_write(bo_context *context, const bo_trainer *trainer, const char *directory);
/* BO_INVALID if the run in `directory` has different settings; the message names the setting, the expected and the
 * found value. */
bo_status bo_train_record_read(bo_context *context, bo_trainer *trainer, const char *directory);
/* Likewise for the text of the file, without its checksum. */
bo_status bo_train_record_parse(bo_context *context, bo_trainer *trainer, const char *where, const char *text,
                                size_t length);

/* checkpoint.c */
bo_status bo_train_save(bo_context *context, bo_trainer *trainer);
bo_status bo_train_prepare(bo_context *context, bo_trainer *trainer); /* prepares the directory before a run */
/* restores the newest intact checkpoint, if any */
bo_status bo_train_restore(bo_context *context, bo_trainer *trainer);
/* returns a text about the latest checkpoint for messages */
const char *bo_train_last_checkpoint(const bo_trainer *trainer, char out[BO_TRAIN_PATH]);

/* run_file.c: metrics.jsonl. */
bo_status bo_train_metrics_add(bo_context *context, const bo_trainer *trainer);
/* removes lines of later steps */
bo_status bo_train_metrics_cut(bo_context *context, bo_trainer *trainer);

#endif
