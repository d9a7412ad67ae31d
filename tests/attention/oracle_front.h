/* Transformations of queries and keys before φ: σ and unit norm of RFA, M of DARK and of HYBRID with a rank, W x + b of
 * learned maps. */
#ifndef BO_TEST_ATTENTION_ORACLE_FRONT_H
#define BO_TEST_ATTENTION_ORACLE_FRONT_H

#include "oracle_features.h"

/* y = σ∘x̂ with x̂ = x / (|x| + 1e-3) for RFA, M x for DARK and HYBRID with a rank, M x + b for learned maps, x for other
 * kinds. NULL means σ = 1, the rows of the identity, b = 0. The temperature of RFA is in its frequencies: N(0, I /
 * τ²). */
typedef struct oracle_front {
    bool normalizes, multiplies, learned;
    const double *sigma, *m, *bias;
    size_t dim, width; /* dimensions of x and y */
} oracle_front;

static inline bool oracle_learned(const bo_attention_desc *desc)
{
    bo_kernel kernel = desc->features.kernel;
    bool fits = kernel == BO_KERNEL_COSH || kernel == BO_KERNEL_HEDGEHOG || kernel == BO_KERNEL_RECTIFIER;
    return desc->kind == BO_ATTENTION_LEARNED || (desc->kind == BO_ATTENTION_HYBRID && fits);
}

static inline oracle_front oracle_front_make(const bo_attention_desc *desc, const double *sigma, const double *m,
                                             const double *bias)
{
    bool learned = oracle_learned(desc), ranked = desc->kind == BO_ATTENTION_HYBRID && desc->rank;
    bool multiplies = learned || ranked || desc->kind == BO_ATTENTION_DARK;
    return (oracle_front){.normalizes = desc->kind == BO_ATTENTION_RFA,
                          .multiplies = multiplies,
                          .learned = learned,
                          .sigma = sigma,
                          .m = m,
                          .bias = bias,
                          .dim = desc->dim,
                          .width = multiplies && desc->rank ? desc->rank : desc->dim};
}

static inline double oracle_m(const oracle_front *front, size_t row, size_t column)
{
    return front->m ? front->m[row * front->dim + column] : row == column;
}

/* Row i of M x + b. For DARK the rounding is part of that of the map; for a learned map it is added here. */
static inline double oracle_multiply(const oracle_front *front, size_t i, const double *x, oracle_noise *noise)
{
    double y = front->bias ? front->bias[i] : 0, magnitude = fabs(y);
    for (size_t j = 0; j < front->dim; j++) {
        double term = oracle_m(front, i, j) * x[j];
        y += term;
        magnitude += fabs(term);
    }
    return front->learned ? y + oracle_shake(noise, magnitude) : y;
}

static inline void oracle_front_apply(const oracle_front *front, const double *x, double *y, oracle_noise *noise)
{
    double reach = sqrt(oracle_dot(front->dim, x, x)) + 1e-3;
    for (size_t i = 0; i < front->width; i++) {
        y[i] = x[i];
        if (front->normalizes) y[i] = (front->sigma ? front->sigma[i] : 1) * x[i] / reach;
        if (front->multiplies) y[i] = oracle_multiply(front, i, x, noise);
    }
}

/* Gradient of x̂ = x / (|x| + 1e-3), added to dx. */
static inline void oracle_unit_backward(size_t dim, const double *x, const double *dy, double *dx)
{
    double norm = sqrt(oracle_dot(dim, x, x)), reach = norm + 1e-3, along = oracle_dot(dim, dy, x);
    for (size_t j = 0; j < dim; j++) {
        dx[j] += dy[j] / reach;
        if (norm > 0) dx[j] -= x[j] * along / (norm * reach * reach);
    }
}

static inline void oracle_normalize_backward(const oracle_front *front, const double *x, const double *dy, double *dx,
                                             double *dsigma)
{
    double reach = sqrt(oracle_dot(front->dim, x, x)) + 1e-3, *inner = oracle_zeros(front->dim);
    for (size_t j = 0; j < front->dim; j++) {
        inner[j] = dy[j] * (front->sigma ? front->sigma[j] : 1);
        if (dsigma) dsigma[j] += dy[j] * x[j] / reach;
    }
    oracle_unit_backward(front->dim, x, inner, dx);
    free(inner);
}

/* Adds to dx, and to the gradients of the parameters that are requested. */
static inline void oracle_front_backward(const oracle_front *front, const double *x, const double *dy, double *dx,
                                         double *dsigma, double *dm, double *dbias)
{
    if (front->normalizes) {
        oracle_normalize_backward(front, x, dy, dx, dsigma);
        return;
    }
    for (size_t i = 0; i < front->width; i++) {
        if (!front->multiplies) dx[i] += dy[i];
        if (dbias) dbias[i] += dy[i];
        for (size_t j = 0; front->multiplies && j < front->dim; j++) {
            dx[j] += oracle_m(front, i, j) * dy[i];
            if (dm) dm[i * front->dim + j] += dy[i] * x[j];
        }
    }
}

#endif
