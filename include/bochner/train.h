/* Bochner: training. A trainer owns a run: it takes batches, steps, evaluates, writes checkpoints that appear whole or not
 * at all, and continues a run that was killed to the same bits.
 *
 *     bo_trainer_desc desc = {.model = model, .train = corpus, .valid = held_out, .folder = "run", .steps = 400};
 *     bo_trainer *trainer;
 *     bo_trainer_create(context, &desc, &trainer);
 *     bo_trainer_run(context, trainer);                 // progress through desc.report; BO_CANCELED after a checkpoint
 *     bo_trainer_destroy(trainer);
 *
 * The folder holds config.json, model.safetensors and tokenizer.json of the latest checkpoint, so that it loads as a model; best/
 * with the checkpoint of least validation loss; checkpoints/step-… with optimizer.safetensors and training.json for resuming;
 * metrics.jsonl with one line per report. */
#ifndef BOCHNER_TRAIN_H
#define BOCHNER_TRAIN_H

#include <bochner/model.h>
#include <bochner/network.h>
#include <bochner/optim.h>
#include <bochner/tasks.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ==== Simple ====================================================================================================== */

/* The progress of a run; also a line of metrics.jsonl, under the same names. Filled by the library. */
typedef struct bo_training_report {
    uint64_t step, steps; /* done, and in all; steps 0: not known yet (minutes, during the warm-up) */
    double loss;          /* mean nats per token (of a network: its own loss) over the steps since the last report */
    double valid_loss;    /* of the latest evaluation; NAN: none yet */
    double valid_metric;  /* likewise the metric of a score, "valid_" + metric in metrics.jsonl */
    const char *metric;   /* the name of the metric: "bits_per_byte", "accuracy" */
    double best_valid_loss;
    double gradient_norm, rate;
    const char *unit;                 /* what `tokens` counts: "tokens", "examples"; its name in metrics.jsonl */
    uint64_t tokens;                  /* seen so far */
    double seconds;                   /* of training, over all parts of a resumed run */
    double tokens_per_second, gflops; /* since the last report; useful operations */
    double seconds_left;              /* NAN: not known */
    bool evaluated;                   /* this report is of an evaluation */
    bool stopped_early;               /* patience has run out: no more steps follow */
} bo_training_report;
/* Return false to stop: a checkpoint is written, and bo_trainer_run returns BO_CANCELED. */
typedef bool (*bo_report_fn)(void *user, const bo_training_report *report);

/* Zero means the default, except what is trained, its data, and one of steps and minutes. */
typedef struct bo_trainer_desc {
    /* A language model and its corpora. The model is changed by training and must outlive the trainer, as must everything that
     * the descriptor points to. */
    bo_model *model;
    const bo_corpus *train, *valid; /* valid NULL: no evaluation */
    /* Or a network and its examples. */
    bo_network *network;
    const bo_examples *examples, *held_out; /* held_out NULL: no evaluation */
    /* Or a model whose task is to classify, match or translate, and its texts. A batch then counts packs of `pack` tokens (of
     * targets) instead of sequences (default: 2048, less if there are few texts, at least the longest). */
    const bo_texts *texts, *held_out_texts; /* held_out_texts NULL: no evaluation */
    size_t pack;
    double smoothing;   /* of their labels or targets, in [0, 1) */
    const char *folder; /* NULL: nothing is written */
    bool resume;        /* continue from the latest checkpoint of the folder; start if it has none */
    bo_optimizer_desc optimizer;
    bo_schedule schedule;
    /* Sequences, packs or examples per step over all ranks (default: 16; graphs: 1; packs: 16384 tokens, to translate 4096, at
     * most a sixteenth of all texts). */
    size_t batch;
    size_t micro_batch;   /* of these computed at a time (default: activations of about 1 GiB) */
    uint64_t steps;       /* either this … */
    double minutes;       /* … or this, which is turned into steps once, after a timed warm-up */
    uint64_t eval_every;  /* steps (default: a tenth of all, at least 25) */
    uint64_t eval_tokens; /* most validation tokens, from the first on (default: all); networks use every example */
    uint64_t checkpoint_every;  /* steps (default: eval_every) */
    size_t keep;                /* checkpoints kept (default: 2) */
    size_t patience;            /* evaluations without improvement before the run stops early; 0: never */
    bool checkpointing;         /* gradient checkpointing: keeps the activations of one layer at a time */
    bo_storage activations;     /* that wait for backward: FLOAT32, or BFLOAT16 in half the bytes */
    bool documents;             /* state and positions begin anew with each document */
    const char *freeze;         /* weights that are not trained: comma-separated beginnings of names or *patterns* */
    uint64_t seed;              /* of batches and dropout */
    uint64_t calibrate_every;   /* steps between new frequencies of data-aware attention; 0: only at the start */
    const bo_collective *ranks; /* data parallel over these; NULL: alone. Rank 0 writes */
    bo_report_fn report;        /* or NULL */
    void *user;                 /* passed to report */
    uint64_t reserved[4];       /* zero: room for later versions */
} bo_trainer_desc;

typedef struct bo_trainer bo_trainer;

BO_API bo_status bo_trainer_create(bo_context *context, const bo_trainer_desc *desc, bo_trainer **out);
BO_API void bo_trainer_destroy(bo_trainer *trainer);
/* Trains to the end. A loss that is not finite is BO_NUMERIC; the message names the step, the layer and the last good
 * checkpoint. */
BO_API bo_status bo_trainer_run(bo_context *context, bo_trainer *trainer);
/* The latest report. */
BO_API const bo_training_report *bo_trainer_report(const bo_trainer *trainer);

/* ==== Advanced ==================================================================================================== */

/* ---- the cost of a run, before it is spent ------------------------------------------------------------------------- */

typedef struct bo_training_cost {
    uint64_t parameters, trained; /* all, and those that are not frozen */
    size_t model_bytes, gradient_bytes, optimizer_bytes, activation_bytes, all_bytes;
    size_t micro_batch;
    double operations;  /* useful ones of a step */
    size_t state_bytes; /* of one sequence when decoding; 0: it has none */
    /* Texts: packs per step and in the first epoch, tokens that one of them has room for (of targets), and the fraction of all
     * rows that holds tokens; else 0. */
    size_t batch, items_of_epoch, item_tokens;
    double fill;
    uint64_t reserved[4]; /* zero: room for later versions */
} bo_training_cost;
BO_API bo_status bo_trainer_estimate(bo_context *context, const bo_trainer_desc *desc, bo_training_cost *out);

/* ---- a custom loop ------------------------------------------------------------------------------------------- */

typedef struct bo_training_score {
    double loss;
    double metric;        /* bits per byte of a text, accuracy of classes, …; NAN: there is none */
    const char *name;     /* of the metric */
    uint64_t count;       /* tokens or examples scored */
    uint64_t reserved[4]; /* zero: room for later versions */
} bo_training_score;
/* One step; *loss is its loss. */
BO_API bo_status bo_trainer_step(bo_context *context, bo_trainer *trainer, double *loss);
/* Scores the validation data. */
BO_API bo_status bo_trainer_evaluate(bo_context *context, bo_trainer *trainer, bo_training_score *out);
/* Writes a checkpoint. */
BO_API bo_status bo_trainer_checkpoint(bo_context *context, bo_trainer *trainer);

#ifdef __cplusplus
}
#endif
#endif
