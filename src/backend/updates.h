/* Optimizer functions of a backend: sums over gradients, and in-place weight updates. Each function has a list of
 * vectors as argument, so one call processes all weights. Results do not depend on the number of threads or on the
 * other vectors of a list. Nothing is allocated. */
#ifndef BO_BACKEND_UPDATES_H
#define BO_BACKEND_UPDATES_H

#include "../base/base.h"

/* One update w = (1 - decay) w - rate u, with the direction u of a rule below. g is `scale` times the stored gradient
 * (so clipping needs no separate pass), μ is the momentum. */
typedef struct bo_rule {
    double scale;
    double rate; /* factor of the rates of all vectors */
    double momentum;
    bool nesterov;
    double beta1, beta2, epsilon; /* of AdamW */
    uint64_t step;                /* t = 1, 2, … of AdamW */
} bo_rule;

/* The rates of one weight: its update has the learning rate rule.rate · rate · factor and the weight decay rule.rate ·
 * rate · decay. */
typedef struct bo_rates {
    double rate, decay, factor;
} bo_rates;

static inline double bo_rates_rate(const bo_rule *rule, const bo_rates *rates)
{
    return rule->rate * rates->rate * rates->factor;
}

/* 1 - decay */
static inline double bo_rates_keep(const bo_rule *rule, const bo_rates *rates)
{
    return 1 - rule->rate * rates->rate * rates->decay;
}

/* Vectors of `count` floats in device memory. Vectors that a function does not use may be NULL. */
typedef struct bo_update {
    size_t count;
    const void *g;
    void *m, *v, *w;
    bo_rates rates;
} bo_update;

typedef enum bo_newton_schulz {
    /* aX + (bA + cA²)X, A = XXᵀ, (a, b, c) = (3.4445, -4.7750, 2.0315): five steps map singular values in [0.005, 1] to
     * [0.68, 1.155] */
    BO_NEWTON_SCHULZ_QUINTIC = 0,
    BO_NEWTON_SCHULZ_CUBIC = 1, /* ½(3I - A)X: converges to 1 */
} bo_newton_schulz;

typedef struct bo_muon_matrix {
    size_t rows, columns;
    const void *g;
    void *m, *w;    /* m NULL: no momentum */
    bo_rates rates; /* its factor depends on the shape */
} bo_muon_matrix;

typedef struct bo_updates {
    /* Workspace in bytes for the sums of these vectors (only `count` is read), and for the update of these matrices
     * (only rows and columns are read). */
    size_t (*bytes)(bo_context *context, size_t count, const bo_update *list, size_t matrices,
                    const bo_muon_matrix *matrix);
    /* out[i] = Σ g² or Σ |g| of vector i, in host memory */
    bo_status (*sum_squares)(bo_context *context, size_t count, const bo_update *list, void *scratch, double *out);
    bo_status (*sum_sizes)(bo_context *context, size_t count, const bo_update *list, void *scratch, double *out);
    /* w = w + a (g - w): weight averaging; a = 1 copies */
    bo_status (*approach)(bo_context *context, double a, size_t count, const bo_update *list);
    /* exchanges m and w */
    bo_status (*swap)(bo_context *context, size_t count, const bo_update *list);
    /* m = μ m + g; u = nesterov ? g + μ m : m. m NULL: u = g */
    bo_status (*sgd)(bo_context *context, const bo_rule *rule, size_t count, const bo_update *list);
    /* m = μ m + (1 - μ) g; u = sign(m), sign(0) = 0. m NULL: u = sign(g) */
    bo_status (*sign)(bo_context *context, const bo_rule *rule, size_t count, const bo_update *list);
    /* AdamW (1711.05101): m = β₁ m + (1 - β₁) g, v = β₂ v + (1 - β₂) g²; u = m̂ / (√v̂ + ε), m̂ = m / (1 - β₁ᵗ) and v̂
     * = v / (1 - β₂ᵗ) */
    bo_status (*adamw)(bo_context *context, const bo_rule *rule, size_t count, const bo_update *list);
    /* Muon: m = μ m + (1 - μ) g, x = nesterov ? (1 - μ) g + μ m : m, or g without m; u = X, where X is x / (|x|_F +
     * 1e-7) after `steps` steps of the iteration, which works on the smaller side of the matrix. One call updates
     * many matrices, since a single one is too small for many threads. */
    bo_status (*muon)(bo_context *context, const bo_rule *rule, bo_newton_schulz iteration, size_t steps, size_t count,
                      const bo_muon_matrix *matrices, void *scratch);
} bo_updates;

extern const bo_updates bo_cpu_updates;

#endif
