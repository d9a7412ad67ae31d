/* What optimisers ask of a backend: changes of weights in place, and sums over gradients. Vectors of `count` floats on the
 * device; results do not depend on the number of threads. */
#ifndef BO_BACKEND_UPDATES_H
#define BO_BACKEND_UPDATES_H

#include "../base/base.h"

typedef enum bo_newton_schulz {
    BO_NEWTON_SCHULZ_QUINTIC =
        0, /* aX + (bA + cA²)X, A = XXᵀ, (3.4445, -4.7750, 2.0315): singular values to [0.68, 1.15] */
    BO_NEWTON_SCHULZ_CUBIC = 1, /* ½(3I - XXᵀ)X: to 1 */
} bo_newton_schulz;

typedef struct bo_updates {
    bo_status (*sum_squares)(bo_context *context, size_t count, const void *x, double *out);
    bo_status (*sum_sizes)(bo_context *context, size_t count, const void *x, double *out); /* Σ|x_i| */
    bo_status (*scale)(bo_context *context, size_t count, float a, void *x);
    /* y = y + a (x - y): weight averaging; a = 1 copies */
    bo_status (*approach)(bo_context *context, size_t count, float a, const void *x, void *y);
    /* m = μ m + g; w = (1 - decay) w - rate (nesterov ? g + μ m : m). m NULL: no momentum */
    bo_status (*sgd)(bo_context *context, size_t count, float rate, float decay, float momentum, bool nesterov,
                     const void *g, void *m, void *w);
    /* w = (1 - decay) w - rate sign(u), u = g, or with m: m = μ m + (1 - μ) g, u = m. sign(0) = 0 */
    bo_status (*sign)(bo_context *context, size_t count, float rate, float decay, float momentum, const void *g,
                      void *m, void *w);
    /* AdamW (1711.05101) at step t = 1, 2, …: m, v moving averages, corrected for their start; w = (1 - decay) w - rate
     * m̂ / (√v̂ + ε) */
    bo_status (*adamw)(bo_context *context, size_t count, uint64_t step, float rate, float decay, float beta1,
                       float beta2, float epsilon, const void *g, void *m, void *v, void *w);
    /* Muon of one matrix: m = m + (1 - μ)(g - m), u = g + μ (m - g) where nesterov, else m; X = u / (|u|_F + 1e-7) made
     * nearly orthogonal by `iterations` steps on its smaller side; w = (1 - decay) w - rate X. */
    size_t (*muon_bytes)(bo_context *context, size_t rows, size_t columns); /* of scratch */
    bo_status (*muon)(bo_context *context, size_t rows, size_t columns, float rate, float decay, float momentum,
                      bool nesterov, bo_newton_schulz iteration, size_t iterations, const void *g, void *m, void *w,
                      void *scratch);
} bo_updates;

extern const bo_updates bo_cpu_updates;

#endif
