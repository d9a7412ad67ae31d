/* Stochastic gradient descent on least squares: many independent parallel runs, and exact expectations.
 *
 * A step uses b examples with replacement: w - (η/b) Σ (x_i·w - y_i) x_i, the gradient of half the mean square. */
#ifndef BO_LAB_TOOLS_STOCHASTIC_H
#define BO_LAB_TOOLS_STOCHASTIC_H

#include "descent.h"
#include "least_squares.h"

enum { LAB_STOCHASTIC_DIM = 32 }; /* maximum number of columns of a problem */

typedef struct lab_stochastic {
    lab_descent descent; /* row r of its weight "w" is the w of run r */
    bo_value x, y;
    size_t runs, batch;
    const lab_least_squares *problem; /* must outlive this structure */
    bo_rng rng;                       /* selects the examples */
    float *examples, *targets, *w;    /* runs x batch x dim, runs x batch, runs x dim */
} lab_stochastic;

bo_status lab_stochastic_open(bo_context *context, const lab_least_squares *problem, size_t runs, size_t batch,
                              bo_rng rng, lab_stochastic *out);
void lab_stochastic_close(lab_stochastic *s);
bo_status lab_stochastic_begin(lab_stochastic *s, const double *w); /* starts all runs at w; NULL: at 0 */
bo_status lab_stochastic_step(lab_stochastic *s, double rate);
/* Means over the runs of |y - Xw|² and |w - center|². */
bo_status lab_stochastic_loss(lab_stochastic *s, double *out);
bo_status lab_stochastic_error(lab_stochastic *s, const double *center, double *out);

/* S = E[e eᵀ] (dim x dim) after one more step, e = w - w*: S - η(HS + SH) + (η²/b) mean_i (x_iᵀ S x_i + r_i²) x_i x_iᵀ
 * + η² (1 - 1/b) HSH, where H is the mean of x xᵀ and r_i = left[i] the residual of w* for example i (NULL: zero). If r
 * is not zero, the mean of e must be. */
void lab_moments_next(const lab_least_squares *problem, const double *left, size_t batch, double rate, double *s);
double lab_moments_loss(const lab_least_squares *problem, const double *s); /* E |Xe|² */
/* The asymptotic factor of E|e|² per step. */
double lab_moments_growth(const lab_least_squares *problem, size_t batch, double rate, size_t steps);

#endif
