/* Bochner: training. A trainer owns a run: it takes batches, steps, evaluates, writes checkpoints that appear whole or not
 * at all, and continues a run that was killed to the same bits.
 *
 *     bo_trainer_desc desc = {.model = model, .train = corpus, .valid = held_out, .folder = "run", .steps = 400};
 *     bo_trainer *trainer;
 *     bo_trainer_create(context, &desc, &trainer);
 *     bo_trainer_run(context, trainer);                 // progress through desc.report; BO_CANCELED after a checkpoint
 *     bo_trainer_destroy(trainer);
 *
 * The folder: config.json, model.safetensors, tokenizer.json of the latest checkpoint (so that it loads as a model), best/
 * with the one of least validation loss, checkpoints/step-… with optimizer.safetensors and training.json for resuming,
 * metrics.jsonl with a line for each report. */
#ifndef BOCHNER_TRAIN_H
#define BOCHNER_TRAIN_H

#include <bochner/model.h>
#include <bochner/network.h>
#include <bochner/optim.h>
#include <bochner/tasks.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- the trainer --------------------------------------------------------------------------------------------------- */

/* What an evaluation says. */
typedef struct bo_training_score {
    double loss;
    double metric;    /* bits per byte of a text, accuracy of classes, …; NAN: there is none */
    const char *name; /* of the metric */
    uint64_t count;   /* tokens or examples scored */
} bo_training_score;

/* What a report says; also a line of metrics.jsonl, under the same names. */
typedef struct bo_training_report {
    uint64_t step, steps; /* done, and in all; steps 0: not known yet (--minutes, warming up) */
    double loss;          /* mean nats per token (of a network: its own loss) over the steps since the last report */
    double valid_loss;    /* of the latest evaluation; NAN: none yet */
    double valid_metric;  /* likewise the second number of a score, "valid_" + metric in metrics.jsonl … */
    const char *metric;   /* … by its name: "bits_per_byte", "accuracy" */
    double best_valid_loss;
    double gradient_norm, rate;
    const char *unit;                 /* what is counted: "tokens", "examples"; in metrics.jsonl under that name */
    uint64_t tokens;                  /* of these seen */
    double seconds;                   /* of training, over all parts of a resumed run */
    double tokens_per_second, gflops; /* since the last report; useful operations */
    double seconds_left;              /* NAN: not known */
    bool evaluated;                   /* this report is of an evaluation */
    bool stopped_early;               /* patience is at its end: no more steps follow */
} bo_training_report;
/* Return false to stop: a checkpoint is written, and bo_trainer_run returns BO_CANCELED. */
typedef bool (*bo_report_fn)(void *user, const bo_training_report *report);

typedef struct bo_trainer_desc {
    bo_model *model;                        /* changed by training; must outlive the trainer */
    const bo_corpus *train, *valid;         /* valid NULL: no evaluation */
    bo_network *network;                    /* or a network, likewise, which learns … */
    const bo_examples *examples, *held_out; /* … these; held_out NULL: no evaluation */
    /* A model whose task is to classify, match or translate learns these; held_out_texts NULL: no evaluation. Items are packs
     * of `pack` tokens (of targets; 0: 2048, less of few texts, at least the longest), so a batch is that many packs and not
     * examples. */
    const bo_texts *texts, *held_out_texts;
    size_t pack;
    double smoothing;   /* of their labels or targets, in [0, 1) */
    const char *folder; /* NULL: nothing is written */
    bool resume;        /* continue the folder's latest checkpoint; without one, start */
    bo_optimizer_desc optimizer;
    bo_schedule schedule;
    size_t batch;         /* sequences, packs or examples of a step over all ranks; 0: 16, of a graph 1, of packs what
                                 * makes 16384 tokens, to translate 4096; a sixteenth of all texts at most */
    size_t micro_batch;   /* of them computed at a time; 0: what about 1 GiB of activations holds */
    uint64_t steps;       /* one of the two */
    double minutes;       /* turned into steps once, after a timed warm-up */
    uint64_t eval_every;  /* steps; 0: a tenth of all, at least 25 */
    uint64_t eval_tokens; /* most of the validation tokens, the first; 0: all. Networks look at every example */
    uint64_t checkpoint_every;  /* steps; 0: as eval_every */
    size_t keep;                /* checkpoints kept; 0: 2 */
    size_t patience;            /* evaluations without a better one before stopping early; 0: never */
    bool checkpointing;         /* gradient checkpointing: activations of one layer at a time */
    bo_storage activations;     /* that wait for backward: FLOAT32, or BFLOAT16 in half the bytes */
    bool documents;             /* state and positions begin anew where documents do */
    const char *freeze;         /* names of weights not to be trained: comma-separated beginnings or *patterns* */
    uint64_t seed;              /* of batches and dropout */
    uint64_t calibrate_every;   /* steps between new frequencies of data-aware attention; 0: only at the start */
    const bo_collective *ranks; /* data parallel over these; NULL: alone. Rank 0 writes */
    bo_report_fn report;
    void *user;
} bo_trainer_desc;

typedef struct bo_trainer bo_trainer;

/* What a run will take, before it takes it. */
typedef struct bo_training_cost {
    uint64_t parameters, trained; /* all, and those that are not frozen */
    size_t model_bytes, gradient_bytes, optimizer_bytes, activation_bytes, all_bytes;
    size_t micro_batch;
    double operations;  /* useful ones of a step */
    size_t state_bytes; /* of one sequence when decoding; 0: it has none */
    /* Texts: packs of a step and of the first epoch, tokens that one of them has room for (of targets), and the part of all rows
     * that holds some; else 0. */
    size_t batch, items_of_epoch, item_tokens;
    double fill;
} bo_training_cost;
BO_API bo_status bo_trainer_estimate(bo_context *context, const bo_trainer_desc *desc, bo_training_cost *out);

BO_API bo_status bo_trainer_create(bo_context *context, const bo_trainer_desc *desc, bo_trainer **out);
BO_API void bo_trainer_destroy(bo_trainer *trainer); /* NULL is fine */
/* To the end. A loss that is not finite is BO_NUMERIC: step and layer are named, and the last good checkpoint. */
BO_API bo_status bo_trainer_run(bo_context *context, bo_trainer *trainer);
/* Or one step at a time: for those who have a loop of their own. */
BO_API bo_status bo_trainer_step(bo_context *context, bo_trainer *trainer, double *loss);
BO_API bo_status bo_trainer_evaluate(bo_context *context, bo_trainer *trainer, bo_training_score *out);
BO_API bo_status bo_trainer_checkpoint(bo_context *context, bo_trainer *trainer);
BO_API const bo_training_report *bo_trainer_report(const bo_trainer *trainer); /* the latest */

#ifdef __cplusplus
}
#endif
#endif
