/** @file
 * Checks how a model behaves as its width grows. Experimental.
 *
 * Models of several widths take the same few training steps. Two checks compare them. The coordinate check
 * (2203.03466): the mean absolute activation of each part must not depend on the width. The spectral condition
 * (2310.17813): the norms |W|₂ and |ΔW|₂ of each matrix must be proportional to √(fan out / fan in).
 *
 *     bo_widths *widths;
 *     bo_widths_measure(context, &desc, &widths);
 *     for (size_t part = 0; part < bo_widths_parts(widths); part++) {
 *         const bo_widths_trend *trend = bo_widths_activation(widths, bo_widths_steps(widths), part);
 *         printf("%s: slope %g\n", trend->name, trend->slope);                   // near 0: independent of the width
 *     }
 *     bo_widths_destroy(widths);
 *
 * **Ownership.** The result is a copy and does not refer to the descriptor. The pointers that its functions return are
 * valid as long as the result.
 *
 * **Threads.** The result does not change. Any number of threads may read it.
 */
#ifndef BOCHNER_WIDTHS_H
#define BOCHNER_WIDTHS_H

#include <bochner/model.h>
#include <bochner/optim.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ==== Experimental ================================================================================================ */

#ifdef BO_EXPERIMENTAL

/** The results of the checks. */
typedef struct bo_widths bo_widths;

/** Describes the checks. Zero means the default if one is stated. */
typedef struct bo_widths_desc {
    bo_model_desc model;         /**< a language model of any width; head_dim is kept; vocab (default: 256) */
    const size_t *widths;        /**< the widths to compare */
    size_t width_count;          /**< number of widths, at least 2 */
    bo_optimizer_desc optimizer; /**< the optimizer, with the defaults of a trainer (bo_trainer_desc) */
    size_t steps;                /**< training steps (default: 5) */
    size_t batch;                /**< sequences of `context` tokens; small batches show learning best (default: 1) */
    const int32_t *tokens;       /**< batch (context + 1) ids; NULL: a random chain, two likely successors per token */
    uint64_t seed;               /**< seed of that chain */
    uint64_t reserved[4];        /**< must be zero */
} bo_widths_desc;

/** Trains one model per width and records activations, norms and losses.
 *
 * @param context   the context
 * @param desc      the models and the training
 * @param[out] out  the results; release them with bo_widths_destroy()
 * @return BO_OK; BO_INVALID if the number of heads is not a whole number at one of the widths; BO_NUMERIC if a gradient
 *     is not finite
 */
BO_API bo_status bo_widths_measure(bo_context *context, const bo_widths_desc *desc, bo_widths **out);

/** Destroys results. @param widths  the results, or NULL */
BO_API void bo_widths_destroy(bo_widths *widths);

/** One number per width, and the slope of its logarithm against the logarithm of the width. Owned by the results. */
typedef struct bo_widths_trend {
    const char *name;     /**< the part, the matrix, or "loss" */
    const double *values; /**< one number per width, in the order of the descriptor */
    double slope;         /**< the slope; NAN if a value is 0 or not finite */
} bo_widths_trend;

/** Returns the number of training steps.
 *
 * @param widths  the results
 * @return the number of steps
 */
BO_API size_t bo_widths_steps(const bo_widths *widths);

/** Returns the number of parts, as bo_model_activations().
 *
 * @param widths  the results
 * @return the number of parts
 */
BO_API size_t bo_widths_parts(const bo_widths *widths);

/** Returns the number of matrices: hidden matrices, and the output matrix if the model has a separate one.
 *
 * @param widths  the results
 * @return the number of matrices
 */
BO_API size_t bo_widths_matrices(const bo_widths *widths);

/** Returns the mean absolute activation of a part.
 *
 * @param widths  the results
 * @param step    the number of steps taken, 0 to bo_widths_steps()
 * @param part    the part, below bo_widths_parts()
 * @return the trend, owned by the results; NULL if an index is out of range
 */
BO_API const bo_widths_trend *bo_widths_activation(const bo_widths *widths, size_t step, size_t part);

/** Returns |W|₂ / √(fan out / fan in) before the first step.
 *
 * @param widths  the results
 * @param matrix  the matrix, below bo_widths_matrices()
 * @return the trend, owned by the results; NULL if the index is out of range
 */
BO_API const bo_widths_trend *bo_widths_norm(const bo_widths *widths, size_t matrix);

/** Returns |W - W₀|₂ / √(fan out / fan in) after the last step, where W₀ is the initial matrix.
 *
 * @param widths  the results
 * @param matrix  the matrix, below bo_widths_matrices()
 * @return the trend, owned by the results; NULL if the index is out of range
 */
BO_API const bo_widths_trend *bo_widths_change(const bo_widths *widths, size_t matrix);

/** Returns the training loss.
 *
 * @param widths  the results
 * @param step    the number of steps taken, 0 to bo_widths_steps()
 * @return the trend, owned by the results; NULL if the index is out of range
 */
BO_API const bo_widths_trend *bo_widths_loss(const bo_widths *widths, size_t step);

#endif

#ifdef __cplusplus
}
#endif
#endif
