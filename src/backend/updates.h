/* Functions of a backend for optimizers: sums over gradients, and updates of weights in place. Vectors have `count`
 * floats on the device. Results do not depend on the number of threads, and nothing is allocated. */
#ifndef BO_BACKEND_UPDATES_H
#define BO_BACKEND_UPDATES_H

#include "../base/base.h"

/* One update w = (1 - decay) w - rate u, with the direction u of a rule below. g is `scale` times the stored gradient
 * (so clipping needs no separate pass), μ is the momentum. */
typedef struct bo_rule {
    double scale, rate, decay;
    double momentum;
    bool nesterov;
    double beta1, beta2, epsilon; /* of AdamW */
    uint64_t step;                /* t = 1, 2, … of AdamW */
} bo_rule;

typedef enum bo_newton_schulz {
    /* aX + (bA + cA²)X, A = XXᵀ, (a, b, c) = (3.4445, -4.7750, 2.0315): five steps map singular values in [0.005, 1] to
     * [0.68, 1.155] */
    BO_NEWTON_SCHULZ_QUINTIC = 0,
    BO_NEWTON_SCHULZ_CUBIC = 1, /* ½(3I - A)X: converges to 1 */
} bo_newton_schulz;

typedef struct bo_muon_matrix {
    size_t rows, columns;
    double factor; /* factor of the learning rate for the shape */
    const void *g;
    void *m, *w; /* m NULL: no momentum */
} bo_muon_matrix;

typedef struct bo_updates {
    bo_status (*sum_squares)(bo_context *context, size_t count, const void *x, double *out);
    bo_status (*sum_sizes)(bo_context *context, size_t count, const void *x, double *out); /* Σ|x_i| */
    /* y = y + a (x - y): weight averaging; a = 1 copies */
    bo_status (*approach)(bo_context *context, size_t count, double a, const void *x, void *y);
    bo_status (*swap)(bo_context *context, size_t count, void *x, void *y);
    /* m = μ m + g; u = nesterov ? g + μ m : m. m NULL: u = g */
    bo_status (*sgd)(bo_context *context, const bo_rule *rule, size_t count, const void *g, void *m, void *w);
    /* m = μ m + (1 - μ) g; u = sign(m), sign(0) = 0. m NULL: u = sign(g) */
    bo_status (*sign)(bo_context *context, const bo_rule *rule, size_t count, const void *g, void *m, void *w);
    /* AdamW (1711.05101): m = β₁ m + (1 - β₁) g, v = β₂ v + (1 - β₂) g²; u = m̂ / (√v̂ + ε), m̂ = m / (1 - β₁ᵗ) and
     * v̂ = v / (1 - β₂ᵗ) */
    bo_status (*adamw)(bo_context *context, const bo_rule *rule, size_t count, const void *g, void *m, void *v,
                       void *w);
    /* Muon: m = μ m + (1 - μ) g, x = nesterov ? (1 - μ) g + μ m : m, or g without m; u = factor X, where X is x /
     * (|x|_F + 1e-7) after `steps` steps of the iteration, which works on the smaller side of the matrix. Many matrices
     * are updated at once, since a single one is too small for many threads. scratch: the maximum of muon_bytes over
     * all of them. */
    size_t (*muon_bytes)(bo_context *context, size_t rows, size_t columns);
    bo_status (*muon)(bo_context *context, const bo_rule *rule, bo_newton_schulz iteration, size_t steps, size_t count,
                      const bo_muon_matrix *matrices, void *scratch);
} bo_updates;

extern const bo_updates bo_cpu_updates;

#endif
