/* Least squares with inputs that change randomly in every step: noise, dropout, masks. */
#ifndef BO_LAB_TOOLS_PERTURBED_H
#define BO_LAB_TOOLS_PERTURBED_H

#include "descent.h"
#include "least_squares.h"

/* Records the perturbation of the inputs. */
typedef bo_value (*lab_perturb)(bo_graph *graph, bo_value x, const void *user);

typedef struct lab_perturbation {
    lab_perturb record;
    const void *user;
    double power; /* estimate of the largest eigenvalue of E[X̃ᵀX̃]; the step is a fifth of its inverse */
} lab_perturbation;

/* Common perturbations; `user` points to their attributes. */
bo_value lab_perturb_noise(bo_graph *graph, bo_value x, const void *attributes);   /* bo_noise_attributes */
bo_value lab_perturb_dropout(bo_graph *graph, bo_value x, const void *attributes); /* bo_dropout_attributes */

/* The graph of |y - X̃w|² with a zero weight "w" (1 x dim) and gradients of `scale` times it. perturbation: NULL for
 * unchanged X. */
bo_status lab_perturbed_open(bo_context *context, const lab_least_squares *problem,
                             const lab_perturbation *perturbation, double scale, const bo_optimizer_desc *optimizer,
                             uint64_t seed, lab_descent *out);
/* Full-batch gradient descent on |y - X̃w|² from w = 0; *mean: the mean of w over the second half of the steps. X̃ is
 * drawn in each step independently of w, so this mean converges to the minimum of the expected loss. */
bo_status lab_perturbed_mean(bo_context *context, const lab_least_squares *problem,
                             const lab_perturbation *perturbation, size_t steps, uint64_t seed, double *mean);
/* The mean loss |y - X̃w|² at a given w over `draws`. */
bo_status lab_perturbed_loss(bo_context *context, const lab_least_squares *problem,
                             const lab_perturbation *perturbation, const double *w, size_t draws, uint64_t seed,
                             double *loss);

#endif
