/* Bochner: how a model follows its width. Models of several widths take a few steps on the same tokens; what each part
 * computes, and what each matrix is and becomes, are to be of the same size in all of them: the coordinate check
 * (2203.03466) and the spectral condition |W|₂, |ΔW|₂ ∝ √(fan out / fan in) (2310.17813). */
#ifndef BOCHNER_WIDTHS_H
#define BOCHNER_WIDTHS_H

#include <bochner/model.h>
#include <bochner/optim.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Zero means the default where one is named. */
typedef struct bo_widths_desc {
    /* of any one width; the others have heads of the same dim, and a hidden that scales alike. vocab 0: 256 */
    bo_model_desc model;
    const size_t *widths;
    size_t width_count;
    bo_optimizer_desc optimizer;
    size_t steps; /* 0: 5 */
    /* sequences of `context` tokens; 0: 1. Few: what steps learn of each stands out from what is random */
    size_t batch;
    const int32_t
        *tokens;   /* batch (context + 1) of them; NULL: a chain in which every token has two likely successors */
    uint64_t seed; /* of those */
} bo_widths_desc;

typedef struct bo_widths bo_widths;

BO_API bo_status bo_widths_measure(bo_context *context, const bo_widths_desc *desc, bo_widths **out);
BO_API void bo_widths_destroy(bo_widths *widths); /* NULL is fine */

/* A number for each width, and how it follows: the slope of its logarithm against that of the width. */
typedef struct bo_trend {
    const char *name;
    const double *values; /* one per width */
    double slope;         /* NAN: some value is 0 or not finite */
} bo_trend;
BO_API size_t bo_widths_steps(const bo_widths *widths);
BO_API size_t bo_widths_parts(const bo_widths *widths);    /* bo_model_activations */
BO_API size_t bo_widths_matrices(const bo_widths *widths); /* hidden ones, and the head where it has its own */
/* Mean |activation| of a part after `step` steps, 0 to bo_widths_steps. */
BO_API bo_trend bo_widths_activation(const bo_widths *widths, size_t step, size_t part);
/* |W|₂ before the first step, and |W - W before|₂ after the last, over √(fan out / fan in). */
BO_API bo_trend bo_widths_norm(const bo_widths *widths, size_t matrix);
BO_API bo_trend bo_widths_change(const bo_widths *widths, size_t matrix);
/* The loss after `step` steps, on the tokens it is trained on. */
BO_API bo_trend bo_widths_loss(const bo_widths *widths, size_t step);

#ifdef __cplusplus
}
#endif
#endif
