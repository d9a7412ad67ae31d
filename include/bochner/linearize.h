/** @file
 * Linearization: converts a softmax transformer into a model that decodes from a state of fixed size.
 *
 *     bo_model_load(context, &(bo_source){.path = "stories15M"}, NULL, &teacher);
 *     bo_linearize_desc desc = {.teacher = teacher, .train = text, .valid = held_out, .directory = "linear"};
 *     desc.minutes = 60;
 *     bo_attention_preset("dark", &desc.attention);
 *     desc.attention.gate = BO_GATE_DECAY;
 *     bo_linearize(context, &desc, &student);    // progress through desc.report; BO_CANCELED after a checkpoint
 *
 * There are three stages, as in LoLCATs (2410.10254). **Calibration** runs the teacher on text and chooses the initial
 * parameters of the new attention, head by head: the matrix M of DARK (identity or whitening) and its scale, σ of RFA,
 * the scale of learned maps. **Transfer** trains only these parameters, so that every layer makes the same contribution
 * to the residual stream as the teacher's layer, for the teacher's q, k and v. **Finetuning** trains them together with
 * adapters of q, k, v and o, so that the distribution of the next token is that of the teacher.
 *
 * The directory contains:
 *
 *     config.json, model.safetensors, …   the student, with the adapters merged into its weights
 *     adapter/                            the adapters and the weights before merging (lora.h), unless `merge` is set
 *     transfer/, finetune/                the runs (train.h), from which an interrupted call continues
 *
 * **Ownership.** The teacher and the corpora must outlive the call; the teacher is not changed, and its tokenizer must
 * outlive the student. **Threads.** No other thread may use the directory.
 */
#ifndef BOCHNER_LINEARIZE_H
#define BOCHNER_LINEARIZE_H

#include <bochner/train.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ==== Simple ====================================================================================================== */

/** The stages of a linearization. */
typedef enum bo_linearize_stage {
    BO_LINEARIZE_STAGE_CALIBRATE = 0, /**< initial parameters from text */
    BO_LINEARIZE_STAGE_TRANSFER = 1,  /**< attention learns from the teacher, layer by layer */
    BO_LINEARIZE_STAGE_FINETUNE = 2   /**< adapters learn from the teacher's distribution */
} bo_linearize_stage;

/** Receives the reports of the runs of a linearization; see bo_report_fn.
 *
 * @param user    `user` of the descriptor
 * @param stage   TRANSFER or FINETUNE
 * @param report  the report, valid during the call; the loss of TRANSFER is the mean relative squared error of the
 *     layers
 * @return true to continue; false to stop after a checkpoint
 */
typedef bool (*bo_linearize_report_fn)(void *user, bo_linearize_stage stage, const bo_training_report *report);

/** How the initial parameters of one head of the new attention were chosen. */
typedef struct bo_head_fit {
    size_t layer;  /**< the layer */
    size_t head;   /**< the key head */
    double start;  /**< relative squared error of the outputs against softmax, with the default parameters */
    double error;  /**< likewise with the chosen parameters */
    double factor; /**< the chosen factor of M, σ or the learned map; 1: the default parameters */
    bool whitened; /**< M whitens the queries and keys */
    /** FAVOR, DARK: error of the outputs that the variance formula predicts for this number of independent features,
     * relative to attention with the exact kernel; NAN for other kinds. */
    double predicted;
    uint64_t reserved[4]; /**< zero */
} bo_head_fit;

/** Receives the result of the calibration.
 *
 * @param user   `user` of the descriptor
 * @param fits   the key heads of all layers whose attention is replaced by attention with features
 * @param count  their number
 */
typedef void (*bo_calibrated_fn)(void *user, const bo_head_fit *fits, size_t count);

/** Receives the errors of attention after the transfer.
 *
 * @param user    `user` of the descriptor
 * @param errors  one number per layer (BO_IMITATION_ATTENTION), on the validation text, or else on the training text
 * @param layers  the number of layers
 */
typedef void (*bo_transferred_fn)(void *user, const double *errors, size_t layers);

/** Describes a linearization. Zero means the default, except in teacher, train and directory. */
typedef struct bo_linearize_desc {
    const bo_model *teacher; /**< a language model with softmax attention */
    const bo_corpus *train;  /**< training text, with the tokenizer of the teacher */
    const bo_corpus *valid;  /**< validation text; NULL: no evaluation */
    const char *directory;   /**< the directory to write */
    bool resume;             /**< continue an interrupted linearization of the directory; start if there is none */
    /** The new attention: start from a preset (bo_attention_preset()); heads, dim and similar fields are filled in. */
    bo_attention_desc attention;
    /** Layers that keep the attention of the teacher: indices from 0, ranges and blocks, "0,5-7,block-1"; "": none.
     * NULL: the layers with a window, whose state already has a fixed size. */
    const char *kept_layers;
    double gate;                 /**< initial bias b of the gates, which start at σ(b) (default: 5) */
    uint64_t calibration_tokens; /**< tokens of the calibration (default: 4096) */
    double minutes;              /**< total time of both runs; or steps instead (default: 60 if no steps are set) */
    uint64_t transfer_steps;     /**< steps of the transfer; UINT64_MAX: none */
    uint64_t finetune_steps;     /**< steps of the finetuning; UINT64_MAX: none */
    double transfer_share;       /**< share of the minutes for the transfer (default: 0.2) */
    size_t batch;                /**< sequences per step (default: 16) */
    /** tokens per sequence, not the window of attention (default: the context of the teacher, at most 1024) */
    size_t window;
    double transfer_rate; /**< learning rate of the transfer (default: 0.01) */
    double finetune_rate; /**< learning rate of the finetuning (default: 0.001) */
    double share;         /**< share of the teacher's distribution in the loss, the rest is the text (default: 0.9) */
    size_t sparsity;      /**< finetuning: the loss is computed at every sparsity-th token (default: 4) */
    size_t rank;          /**< rank of the adapters (default: 16, or less if the matrices are smaller) */
    double alpha;         /**< α of the adapters (default: twice the rank) */
    const char *targets;  /**< layers with adapters (default: "q_proj,k_proj,v_proj,o_proj") */
    uint64_t eval_tokens; /**< number of validation tokens to use in evaluations (default: 16384) */
    bool merge;           /**< the directory does not store the adapters separately */
    uint64_t seed;        /**< seed of frequencies, adapters and batches */
    bo_linearize_report_fn report; /**< receives the reports, or NULL */
    bo_calibrated_fn calibrated;   /**< receives the result of the calibration, or NULL */
    bo_transferred_fn transferred; /**< receives the errors after the transfer, or NULL */
    void *user;                    /**< passed to these functions */
    uint64_t reserved[4];          /**< must be zero */
} bo_linearize_desc;

/** Linearizes a model and writes the result to a directory.
 *
 * @param context   the context
 * @param desc      the linearization
 * @param[out] out  the student, release it with bo_model_destroy(); or NULL
 * @return BO_OK; BO_INVALID if the teacher is not a language model with softmax attention, if the attention, the layers
 *     or the text do not fit, or if the directory contains other files; BO_CANCELED after a checkpoint if a callback
 *     requested a stop; errors of bo_trainer_run()
 */
BO_API bo_status bo_linearize(bo_context *context, const bo_linearize_desc *desc, bo_model **out);

/* ==== Experimental ================================================================================================ */

#ifdef BO_EXPERIMENTAL

/** Chooses the initial parameters of attention from text, head by head.
 *
 * The queries, keys and values come from `source`, a model with the same shape, such as the teacher. Parameters are
 * tried in a fixed order. The parameters with the smallest error of the head's output, relative to `source`, are set.
 * Frequencies that depend on data (a proposal, sampling OPTIMAL) are drawn instead, unless they have been drawn before.
 * Weights of gates become zero, so that gates start at their biases.
 *
 * @param context      the context
 * @param source       a language model with softmax attention, or the model itself
 * @param[in,out] model  the model whose parameters are set
 * @param corpus       the text
 * @param tokens       number of tokens to use; 0 means 4096
 * @param[out] fits    one entry per key head of every layer: the heads of layers with features, in order; or NULL
 * @param[out] count   the number of entries; or NULL
 * @return BO_OK; BO_INVALID if the models have different shapes or the text is shorter than one window
 */
BO_API bo_status bo_model_calibrate(bo_context *context, const bo_model *source, bo_model *model,
                                    const bo_corpus *corpus, uint64_t tokens, bo_head_fit *fits, size_t *count);

#endif

#ifdef __cplusplus
}
#endif
#endif
