/** @file
 * Optimizers and learning rate schedules. train.h takes their descriptors. As objects (advanced tier), they train
 * custom weights:
 *
 *     bo_optimizer_desc desc = {.kind = BO_OPTIMIZER_ADAMW, .rate = 1e-2};
 *     bo_schedule schedule = {.kind = BO_SCHEDULE_COSINE};
 *     bo_optimizer *optimizer;
 *     bo_optimizer_create(context, &desc, weights, &optimizer);       // weights of graph.h, with memory for gradients
 *     for (uint64_t t = 0; t < steps; t++) {
 *         bo_weights_zero_gradients(context, weights);
 *         … bo_graph_run(context, graph, &pass) …
 *         bo_optimizer_step(context, optimizer, bo_schedule_factor(&schedule, t, steps), NULL);
 *     }
 *
 * **Threads.** An optimizer and its weights may be used by one thread at a time.
 *
 * **Ownership.** The weights must outlive the optimizer.
 */
#ifndef BOCHNER_OPTIM_H
#define BOCHNER_OPTIM_H

#include <bochner/graph.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ==== Simple ====================================================================================================== */

/** Optimizers. */
typedef enum bo_optimizer_kind {
    BO_OPTIMIZER_MUON = 0,  /**< Muon for hidden matrices, AdamW for all other weights */
    BO_OPTIMIZER_ADAMW = 1, /**< AdamW */
    BO_OPTIMIZER_SGD = 2,   /**< stochastic gradient descent with momentum */
    BO_OPTIMIZER_SIGN = 3,  /**< signSGD: steps by the sign of the momentum */
    BO_OPTIMIZER_LINF = 4,  /**< steepest descent in the ℓ∞ norm, per tensor: -(α/2) |g|₁ sign g */
} bo_optimizer_kind;

/** The course of the learning rate after warmup. */
typedef enum bo_schedule_kind {
    BO_SCHEDULE_COSINE = 0,  /**< falls along a half cosine */
    BO_SCHEDULE_LINEAR = 1,  /**< falls linearly */
    BO_SCHEDULE_WSD = 2,     /**< constant, then falls linearly over the last fraction `decay` of the steps */
    BO_SCHEDULE_CONSTANT = 3 /**< constant */
} bo_schedule_kind;

/** A learning rate schedule. */
typedef struct bo_schedule {
    bo_schedule_kind kind; /**< the course after warmup */
    uint64_t warmup;       /**< warmup steps; UINT64_MAX: none (default: 2% of all steps, at least 10, at most half) */
    double floor;          /**< factor at the end, in [0, 1] */
    double decay;          /**< WSD: fraction of the steps with decay, in [0, 1] (default: 0.2) */
    uint64_t reserved[4];  /**< must be zero */
} bo_schedule;

/** The factor by which Muon scales the update of a matrix. */
typedef enum bo_muon_factor {
    BO_MUON_FACTOR_TALL = 0,     /**< √max(1, rows/columns) */
    BO_MUON_FACTOR_SPECTRAL = 1, /**< √(rows/columns) */
    BO_MUON_FACTOR_RMS = 2,      /**< 0.2 √max(rows, columns): the update size of AdamW (2502.16982) */
    BO_MUON_FACTOR_NONE = 3      /**< 1 */
} bo_muon_factor;

/** The Newton-Schulz iteration by which Muon orthogonalizes an update. */
typedef enum bo_muon_iteration {
    BO_MUON_ITERATION_QUINTIC = 0, /**< fast; singular values end near 1 */
    BO_MUON_ITERATION_CUBIC = 1,   /**< slower; singular values converge to 1 */
} bo_muon_iteration;

/** Describes an optimizer. Zero means the default in every field. */
typedef struct bo_optimizer_desc {
    bo_optimizer_kind kind; /**< the optimizer */
    /** Learning rate (default: MUON 0.02 for its matrices, ADAMW 3e-3, SGD 0.1, SIGN 1e-3, LINF 1e-4, which is
     * multiplied by |g|₁). */
    double rate;
    double decay;                /**< decoupled weight decay, times `rate`, of matrices, embeddings and the head */
    double clip;                 /**< maximum norm of the gradient; 0 or less: no clipping (a trainer: 0 means 1) */
    double average;              /**< weight of the past in the averaged weights, in [0, 1); 0: no averaging */
    double momentum;             /**< MUON, SGD, SIGN: in [0, 1); negative: none (default: MUON 0.95, others 0.9) */
    bool no_nesterov;            /**< use plain momentum instead of Nesterov momentum */
    double other_rate;           /**< MUON: learning rate of the weights that AdamW updates (default: 3e-3) */
    bo_muon_factor factor;       /**< MUON: scale of the update of a matrix */
    bo_muon_iteration iteration; /**< MUON: the orthogonalization */
    size_t iterations;           /**< MUON: its number of iterations (default: 5; CUBIC: 12) */
    double beta1;                /**< ADAMW: decay rate of the first moment (default: 0.9) */
    double beta2;                /**< ADAMW: decay rate of the second moment (default: 0.95) */
    double epsilon;              /**< ADAMW: added to the root of the second moment (default: 1e-10) */
    uint64_t reserved[4];        /**< must be zero */
} bo_optimizer_desc;

/* ==== Advanced ==================================================================================================== */

/* ---- custom weights ---------------------------------------------------------------------------------------------- */

/** Computes the factor of the learning rate at a step.
 *
 * The factor rises linearly to 1 over the warmup, (step + 1) / warmup. It then follows the kind of the schedule such
 * that it would be `floor` at step = steps.
 *
 * @param schedule  the schedule
 * @param step      the step, from 0
 * @param steps     the number of steps; 0: not known yet, the factor does not fall
 * @return the factor
 */
BO_API double bo_schedule_factor(const bo_schedule *schedule, uint64_t step, uint64_t steps);

/** An optimizer of a set of weights. */
typedef struct bo_optimizer bo_optimizer;

/** Creates an optimizer.
 *
 * It updates the weights that are not frozen at the time of the call.
 *
 * @param context   the context
 * @param desc      the optimizer; copied
 * @param weights   the weights, with memory for gradients (bo_weights_allocate()); must outlive the optimizer
 * @param[out] out  the new optimizer; release it with bo_optimizer_destroy()
 * @return BO_OK; BO_INVALID if there is no weight to train, if a weight has no memory for its gradient, or if the
 *     optimizer is SGD or LINF and the weights have the unit-scaled parametrization
 */
BO_API bo_status bo_optimizer_create(bo_context *context, const bo_optimizer_desc *desc, bo_weights *weights,
                                     bo_optimizer **out);

/** Destroys an optimizer. The weights remain. @param optimizer  the optimizer, or NULL */
BO_API void bo_optimizer_destroy(bo_optimizer *optimizer);

/** Information about an optimizer. Made by the library; later versions may add members at the end. */
typedef struct bo_optimizer_info {
    bo_optimizer_desc desc; /**< the descriptor, with the defaults filled in */
    uint64_t steps;         /**< number of steps taken so far */
} bo_optimizer_info;

/** Returns information about an optimizer.
 *
 * @param optimizer  the optimizer
 * @return the info, owned by the optimizer; later steps change `steps`
 */
BO_API const bo_optimizer_info *bo_optimizer_describe(const bo_optimizer *optimizer);

/** Takes one step with the gradients of the weights, which are only read.
 *
 * Weight decay applies to matrices, embeddings and the head, not to vectors (gains and biases).
 *
 * @param context    the context
 * @param optimizer  the optimizer
 * @param factor     factor of the learning rates, at least 0
 * @param[out] norm  the norm of the gradient over the trained weights before clipping, or NULL
 * @return BO_OK; BO_NUMERIC if a gradient is not finite, with the name of the weight in the message; then nothing has
 *     changed. BO_INVALID if the averaged weights are in place (bo_optimizer_swap_average())
 */
BO_API bo_status bo_optimizer_step(bo_context *context, bo_optimizer *optimizer, double factor, double *norm);

/** Saves the state (moments, average, number of steps) to a safetensors file.
 *
 * With this state, the weights (bo_weights_save()) and the position in the data, a run continues with the same bits.
 *
 * @param context    the context
 * @param optimizer  the optimizer
 * @param sink       where to write
 * @return BO_OK; BO_IO if the file cannot be written
 */
BO_API bo_status bo_optimizer_save(bo_context *context, const bo_optimizer *optimizer, const bo_sink *sink);

/** Loads a state that bo_optimizer_save() wrote. After a failure the state is unchanged.
 *
 * @param context    the context
 * @param optimizer  an optimizer with the same descriptor and weights
 * @param source     the file
 * @return BO_OK; BO_IO if the file cannot be read; BO_FORMAT if it is not a safetensors file, if a tensor is missing,
 *     has another shape or is not finite, or if the number of steps is missing
 */
BO_API bo_status bo_optimizer_load(bo_context *context, bo_optimizer *optimizer, const bo_source *source);

/* ==== Experimental ================================================================================================ */

#ifdef BO_EXPERIMENTAL

/** Swaps the averaged weights (`average` of the descriptor) with the current ones.
 *
 * Call it once before the averaged weights are evaluated or saved and once after, with no step in between. It does
 * nothing if there is no averaging, or before the first step.
 *
 * @param context    the context
 * @param optimizer  the optimizer
 * @return BO_OK or an error (see base.h)
 */
BO_API bo_status bo_optimizer_swap_average(bo_context *context, bo_optimizer *optimizer);

#endif

#ifdef __cplusplus
}
#endif
#endif
