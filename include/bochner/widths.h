/* Bochner: how a model behaves as its width grows. Experimental.
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
 *     bo_widths_destroy(widths); */
#ifndef BOCHNER_WIDTHS_H
#define BOCHNER_WIDTHS_H

#include <bochner/model.h>
#include <bochner/optim.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ==== Experimental ================================================================================================ */

#ifdef BO_EXPERIMENTAL

typedef struct bo_widths bo_widths;

/* Zero means the default where one is stated. */
typedef struct bo_widths_desc {
    bo_model_desc model;  /* of any width. The others keep the head dimension and scale `hidden`. vocab 0: 256 */
    const size_t *widths; /* at least two */
    size_t width_count;
    bo_optimizer_desc optimizer;
    size_t steps;          /* training steps (default: 5) */
    size_t batch;          /* sequences of `context` tokens (default: 1); few make the learned part stand out */
    const int32_t *tokens; /* batch (context + 1) ids; NULL: a random chain with two likely successors per token */
    uint64_t seed;         /* of that chain */
    uint64_t reserved[4];  /* zero: room for later versions */
} bo_widths_desc;

/* Trains one model per width and records activations, norms and losses. */
BO_API bo_status bo_widths_measure(bo_context *context, const bo_widths_desc *desc, bo_widths **out);
BO_API void bo_widths_destroy(bo_widths *widths);

/* One number per width, and the slope of its logarithm against the logarithm of the width. Owned by the bo_widths. */
typedef struct bo_widths_trend {
    const char *name;
    const double *values; /* in the order of the widths */
    double slope;         /* NAN: some value is 0 or not finite */
} bo_widths_trend;

BO_API size_t bo_widths_steps(const bo_widths *widths);
/* Number of parts: bo_model_activations. */
BO_API size_t bo_widths_parts(const bo_widths *widths);
/* Number of hidden matrices, and of the output matrix where the model has its own. */
BO_API size_t bo_widths_matrices(const bo_widths *widths);

/* The mean absolute activation of a part after `step` steps, 0 to bo_widths_steps. Here and below, NULL means that an
 * index is out of range. */
BO_API const bo_widths_trend *bo_widths_activation(const bo_widths *widths, size_t step, size_t part);
/* |W|₂ / √(fan out / fan in) before the first step. */
BO_API const bo_widths_trend *bo_widths_norm(const bo_widths *widths, size_t matrix);
/* |W - W before|₂ / √(fan out / fan in) after the last step. */
BO_API const bo_widths_trend *bo_widths_change(const bo_widths *widths, size_t matrix);
/* The training loss after `step` steps. */
BO_API const bo_widths_trend *bo_widths_loss(const bo_widths *widths, size_t step);

#endif

#ifdef __cplusplus
}
#endif
#endif
