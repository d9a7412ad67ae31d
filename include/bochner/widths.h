/** @file
 * Checks how a model behaves as its width grows. Experimental.
 *
 * Models of several widths are trained for the same few steps and compared by two checks. The coordinate check
 * (2203.03466): the mean absolute activation of each part must not depend on the width. The spectral condition
 * (2310.17813): the norms |W|₂ and |ΔW|₂ of each matrix must be proportional to √(fan out / fan in).
 *
 *     bo_widths *widths;
 *     bo_widths_measure(context, &desc, &widths);
 *     for (size_t part = 0; part < widths->parts; part++) {                      // after the last step
 *         const bo_widths_trend *trend = &widths->activations[widths->steps * widths->parts + part];
 *         printf("%s: slope %g\n", trend->name, trend->slope);                   // near 0: independent of the width
 *     }
 *     bo_widths_destroy(widths);
 *
 * **Ownership.** The result is a copy and does not refer to the descriptor. Its pointers are valid as long as the
 * result.
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

/** One number per width, and the slope of its logarithm against the logarithm of the width. */
typedef struct bo_widths_trend {
    const char *name;     /**< the part, the matrix, or "loss" */
    const double *values; /**< one number per width, in the order of the descriptor */
    double slope;         /**< the slope; NAN if a value is 0, NaN or infinite */
} bo_widths_trend;

/** The results of the checks. Created by the library and read-only; later versions may add members at the end.
 *
 * Parts are "embedding", "layer 0 attention", "layer 0 mlp", …, "logits". Their activation is the mean absolute value
 * over tokens and columns; for a layer, of its contribution to the residual stream. Matrices are the hidden matrices,
 * and the output matrix if the model has a separate one. */
typedef struct bo_widths {
    size_t steps;    /**< number of training steps */
    size_t parts;    /**< number of parts */
    size_t matrices; /**< number of matrices */
    /** mean absolute activations: (steps + 1) x parts, from before the first step */
    const bo_widths_trend *activations;
    const bo_widths_trend *losses;  /**< training losses: steps + 1 */
    const bo_widths_trend *norms;   /**< |W|₂ / √(fan out / fan in) before the first step: matrices */
    const bo_widths_trend *changes; /**< |W - W₀|₂ / √(fan out / fan in) after the last step: matrices */
} bo_widths;

/** Trains one model per width and records activations, norms and losses.
 *
 * @param context   the context
 * @param desc      the models and the training
 * @param[out] out  the results; release them with bo_widths_destroy()
 * @return BO_OK; BO_INVALID if the number of heads is not a whole number at one of the widths; BO_NUMERIC if a gradient
 *     is NaN or infinite
 */
BO_API bo_status bo_widths_measure(bo_context *context, const bo_widths_desc *desc, bo_widths **out);

/** Destroys results. @param widths  the results, or NULL */
BO_API void bo_widths_destroy(bo_widths *widths);

#endif

#ifdef __cplusplus
}
#endif
#endif
