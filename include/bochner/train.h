/** @file
 * Training. A trainer owns a run: it loads batches, takes steps, evaluates, and writes checkpoints. An
 * interrupted run continues with the same bits.
 *
 *     bo_trainer_desc desc = {.model = model, .train.corpus = text, .valid.corpus = held_out, .directory = "run"};
 *     desc.steps = 400;
 *     bo_trainer *trainer;
 *     bo_trainer_create(context, &desc, &trainer);
 *     bo_trainer_run(context, trainer);                 // progress through desc.report; BO_CANCELED after a checkpoint
 *     bo_trainer_destroy(trainer);                      // the model has the weights of the last step
 *
 * The directory of a run contains:
 *
 *     config.json, model.safetensors, tokenizer.json   the latest checkpoint; the directory can be loaded as a model
 *     best/                                            the checkpoint with the lowest validation loss
 *     checkpoints/step-…                               with optimizer.safetensors, training.json and, for stateful
 *                                                      runs, states.safetensors, for resuming
 *     metrics.jsonl                                    one line per report
 *
 * Checkpoints are written atomically: a file is complete or absent.
 *
 * **Threads.** A trainer may be used by one thread at a time. During a call, no other thread may use the model or
 * network that it trains.
 *
 * **Ownership.** The model or network, the data and everything else that the descriptor points to must outlive the
 * trainer. Training changes the weights of the model or network in place.
 */
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

/** The progress of a run, filled in by the library. A line of metrics.jsonl has the same names. */
typedef struct bo_training_report {
    uint64_t step;            /**< steps taken */
    uint64_t steps;           /**< total number of steps; 0: not known yet (`minutes`, during the timed steps) */
    double loss;              /**< mean loss since the last report: nats per token, or the loss of the network */
    double valid_loss;        /**< validation loss of the latest evaluation; NAN: none yet */
    double valid_metric;      /**< validation metric of the latest evaluation; "valid_" + metric in metrics.jsonl */
    const char *metric;       /**< name of the metric: "bits_per_byte", "accuracy" */
    double best_valid_loss;   /**< lowest validation loss so far; NAN: none yet */
    double gradient_norm;     /**< norm of the gradient in the latest step, before clipping */
    double rate;              /**< learning rate of the latest step */
    const char *unit;         /**< the unit of `tokens`: "tokens" or "examples"; also its name in metrics.jsonl */
    uint64_t tokens;          /**< tokens or examples processed so far */
    double seconds;           /**< training time in seconds, over all parts of a resumed run */
    double tokens_per_second; /**< throughput since the last report */
    double gflops;            /**< useful floating-point operations per second since the last report, in 10^9 */
    double seconds_left;      /**< estimated remaining time in seconds; NAN: not known */
    bool evaluated;           /**< the report follows an evaluation */
    bool stopped_early;       /**< `patience` is exhausted: no more steps follow */
} bo_training_report;

/** Receives the reports of a run, from the thread that called bo_trainer_run(). In a parallel job, only on rank 0.
 *
 * It is called about ten times per `eval_every` steps (every step if `eval_every` is below 20), after each evaluation,
 * and after the last step.
 *
 * @param user    `user` of the descriptor
 * @param report  the report, valid during the call
 * @return true to continue; false to stop: a checkpoint is written, and bo_trainer_run() returns BO_CANCELED
 */
typedef bool (*bo_report_fn)(void *user, const bo_training_report *report);

/** Data of a run: one of these, as the task of the model requires. */
typedef struct bo_training_data {
    const bo_corpus *corpus;     /**< a language model: a text */
    const bo_texts *texts;       /**< a model that classifies, matches or translates: texts with labels, or pairs */
    const bo_examples *examples; /**< a model of the task `predict`: examples */
} bo_training_data;

/** Describes a run, which trains a model on data for its task. Zero means the default, except in `model` and `train`,
 * and in one of `steps` and `minutes`. */
typedef struct bo_trainer_desc {
    bo_model *model;        /**< the model; changed by training */
    bo_training_data train; /**< training data; the part TRAIN of examples */
    bo_training_data valid; /**< validation data, the part VALID of examples; all NULL: no evaluation */
    const char *directory;  /**< the directory of the run; NULL: no files are written */
    bool resume;            /**< continue from the latest checkpoint of the directory; start if there is none */
    uint64_t steps;         /**< number of steps; or `minutes` instead */
    double minutes;         /**< time limit in minutes; converted to a number of steps after a few timed steps */
    /** Sequences, packs or examples per step, over all ranks (default: 16; graphs: 1; packs: 16384 tokens, for
     * translation 4096, and at most a sixteenth of all texts). */
    size_t batch;
    /** The optimizer (default: Muon, with a learning rate of 0.02). A trainer clips the gradient to the norm 1 unless
     * `clip` has another value; negative: no clipping. */
    bo_optimizer_desc optimizer;
    bo_schedule schedule;       /**< the learning rate schedule (default: cosine, with 2% of the steps as warmup) */
    uint64_t seed;              /**< seed of batches and dropout */
    bo_report_fn report;        /**< receives the reports, or NULL */
    void *user;                 /**< passed to `report` */
    const char *freeze;         /**< weights not to train: comma-separated prefixes or patterns (bo_weights_freeze()) */
    uint64_t eval_every;        /**< steps between evaluations (default: a tenth of all steps, at least 25) */
    uint64_t eval_tokens;       /**< number of validation tokens to use (default: all); networks use every example */
    size_t patience;            /**< evaluations without improvement before the run stops early; 0: never */
    uint64_t checkpoint_every;  /**< steps between checkpoints (default: eval_every) */
    size_t keep;                /**< number of checkpoints to keep (default: 2) */
    size_t micro_batch;         /**< the part of a batch computed at a time (default: about 1 GiB of activations) */
    bool checkpointing;         /**< activation checkpointing: keeps the activations of one layer at a time */
    bo_storage activations;     /**< storage of activations for backward: FLOAT32, or BFLOAT16 in half the bytes */
    const bo_collective *ranks; /**< data-parallel job, in which rank 0 writes; NULL: a single process */
    /** Language models: tokens per sequence of training and of evaluation, at most the context of the model, which is
     * unchanged (default: the context of the model). */
    size_t window;
    bool documents; /**< language models: state and positions restart with each document */
    /** Language models: every sequence of a step continues the corresponding sequence of the previous step, from its
     * final state. */
    bool stateful;
    /** Language models: consecutive windows per step and sequence; the gradient flows through their states (default: 1:
     * the gradient ends at the start of each window). More than 1 requires `stateful`. */
    size_t state_windows;
    /** Texts: tokens of a pack (translation: of targets). A batch then counts packs instead of sequences (default:
     * 2048; less if there are few texts; at least the longest text). */
    size_t pack;
    double smoothing;         /**< texts: label smoothing of labels or targets, in [0, 1) */
    uint64_t calibrate_every; /**< steps between new frequencies of data-aware attention; 0: only at the start */
    /** Interval in steps at which the random frequencies of attention are redrawn, from the seed and the step number;
     * 0: never. The final model has the last draw. */
    uint64_t redraw_every;
    /** Language models: the matrices M of DARK, and of HYBRID with a rank, start as the whitening of the queries and
     * keys that the model has on about 4096 tokens of the training text before the first step
     * (bo_attention_whiten()). */
    bool whiten;
    /** Linearized models: the training target. ATTENTION trains only the parameters that the teacher does not have.
     * LOGITS requires adapters (lora.h), because the teacher shares the adapted weights. */
    bo_imitation imitate;
    double share; /**< imitate LOGITS: share of the teacher's distribution in the loss, in (0, 1] (default: 0.9) */
    /** imitate LOGITS: the loss is computed at every sparsity-th token, with another offset in each step (default: 1:
     * at all tokens). The output projection of a small model with a large vocabulary dominates the time of a step. */
    size_t sparsity;
    uint64_t reserved[4]; /**< must be zero */
} bo_trainer_desc;

/** A trainer. */
typedef struct bo_trainer bo_trainer;

/** Creates a trainer, and with `resume` restores the latest checkpoint.
 *
 * @param context   the context
 * @param desc      the run; copied, but not what it points to
 * @param[out] out  the new trainer; release it with bo_trainer_destroy() before the model and the data
 * @return BO_OK; BO_INVALID if the data does not fit the model, if the directory contains another run or files that
 *     would be overwritten, if another process is training there, or if a run is resumed with other settings; BO_IO if
 *     a file cannot be read or written, or if another rank failed; BO_FORMAT if a checkpoint is malformed
 */
BO_API bo_status bo_trainer_create(bo_context *context, const bo_trainer_desc *desc, bo_trainer **out);

/** Destroys a trainer. The model or network keeps the weights of the last step. @param trainer  the trainer, or NULL */
BO_API void bo_trainer_destroy(bo_trainer *trainer);

/** Trains to the end of the run, with evaluations, reports and checkpoints.
 *
 * @param context  the context
 * @param trainer  the trainer
 * @return BO_OK; BO_CANCELED if the report function or the progress callback requested a stop, after a checkpoint;
 *     BO_NUMERIC if the loss, a gradient or a weight is NaN or infinite; the message names the step, the layer and the
 *     last good checkpoint; BO_IO if a file cannot be written or if another rank failed
 */
BO_API bo_status bo_trainer_run(bo_context *context, bo_trainer *trainer);

/** Returns the latest report.
 *
 * @param trainer  the trainer
 * @return the report, owned by the trainer; overwritten by the next report
 */
BO_API const bo_training_report *bo_trainer_report(const bo_trainer *trainer);

/* ==== Advanced ==================================================================================================== */

/* ---- the cost of a run ------------------------------------------------------------------------------------------- */

/** The cost of a run, estimated before it starts. */
typedef struct bo_training_cost {
    uint64_t parameters;     /**< all parameters */
    uint64_t trained;        /**< parameters that are not frozen */
    size_t model_bytes;      /**< bytes of the weights */
    size_t gradient_bytes;   /**< bytes of the gradients of the trained weights */
    size_t optimizer_bytes;  /**< bytes of the state of the optimizer */
    size_t activation_bytes; /**< bytes of activations and their gradients */
    size_t all_bytes;        /**< the sum of the four, and bytes of evaluation and of carried states */
    size_t micro_batch;      /**< the micro-batch that will be used */
    double operations;       /**< useful floating-point operations per step */
    size_t state_bytes;      /**< bytes of the state of one sequence in decoding; 0: there is none */
    size_t batch;            /**< texts: packs per step; otherwise 0 */
    size_t items_of_epoch;   /**< texts: packs in the first epoch; otherwise 0 */
    size_t item_tokens;      /**< texts: tokens that fit into a pack (translation: of targets); otherwise 0 */
    double fill;             /**< texts: fraction of all rows with tokens; otherwise 0 */
    uint64_t reserved[4];    /**< must be zero */
} bo_training_cost;

/** Estimates the cost of a run. Nothing is trained or written, and the model or network is unchanged.
 *
 * @param context   the context
 * @param desc      the run
 * @param[out] out  the cost
 * @return BO_OK; BO_INVALID if the data does not fit the model
 */
BO_API bo_status bo_trainer_estimate(bo_context *context, const bo_trainer_desc *desc, bo_training_cost *out);

/* ---- a custom loop ----------------------------------------------------------------------------------------------- */

/** The result of an evaluation. */
typedef struct bo_training_score {
    double loss;          /**< mean loss */
    double metric;        /**< the metric: bits per byte of a text, accuracy of classes, …; NAN: there is none */
    const char *name;     /**< name of the metric */
    uint64_t count;       /**< tokens or examples scored */
    uint64_t reserved[4]; /**< must be zero */
} bo_training_score;

/** Takes one step, without evaluation, report or checkpoint.
 *
 * @param context    the context
 * @param trainer    a trainer with `steps`, not `minutes`
 * @param[out] loss  the loss of the step, or NULL
 * @return BO_OK; BO_INVALID if the number of steps is not known; BO_NUMERIC if the loss or a gradient is NaN or
 *     infinite; then the weights have not changed; BO_IO if another rank failed
 */
BO_API bo_status bo_trainer_step(bo_context *context, bo_trainer *trainer, double *loss);

/** Evaluates the model or network on the validation data, with the averaged weights if the optimizer has them.
 *
 * @param context   the context
 * @param trainer   the trainer
 * @param[out] out  the result
 * @return BO_OK; BO_INVALID if there is no validation data
 */
BO_API bo_status bo_trainer_evaluate(bo_context *context, bo_trainer *trainer, bo_training_score *out);

/** Writes a checkpoint.
 *
 * @param context  the context
 * @param trainer  the trainer
 * @return BO_OK; BO_INVALID if the trainer has no directory; BO_NUMERIC if a weight is NaN or infinite; BO_IO if a file
 *     cannot be written
 */
BO_API bo_status bo_trainer_checkpoint(bo_context *context, bo_trainer *trainer);

#ifdef __cplusplus
}
#endif
#endif
