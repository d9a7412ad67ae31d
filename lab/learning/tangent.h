/* Networks with one hidden layer, f(x) = Σ_j a_j relu(w_j·x / √dim) / √m, at initialization: the features given by
 * their gradient, their limit for m → ∞, and gradient flow on any kernel. */
#ifndef BO_LAB_LEARNING_TANGENT_H
#define BO_LAB_LEARNING_TANGENT_H

#include "../experiment.h"

/* Examples: rows of `dim` numbers (the last may be a constant for the bias), in three consecutive parts. */
typedef struct lab_examples {
    size_t dim, train, valid, test; /* number of rows of each part */
    float *x, *y;                   /* rows x dim, rows */
} lab_examples;
static inline size_t lab_examples_rows(const lab_examples *e)
{
    return e->train + e->valid + e->test;
}
/* Mean squared error of predictions for the `count` rows from `first` on, divided by the mean square of y there. */
double lab_examples_error(const lab_examples *e, size_t first, size_t count, const float *predicted);

/* Gradients of f with respect to its m (1 + dim) parameters, w ~ N(0, I), a ~ N(0, 1): rows x m (1 + dim). The first m
 * belong to a. */
size_t lab_tangent_features(size_t dim, size_t m);
bo_status lab_tangent_map(bo_context *context, const lab_examples *e, size_t m, bo_rng *rng, float *features);
/* Their inner products for m → ∞ (the neural tangent kernel, 1806.07572): rows x rows. */
bo_status lab_tangent_kernel(bo_context *context, const lab_examples *e, double *kernel);
/* Inner products of given features: rows x rows. */
bo_status lab_feature_kernel(bo_context *context, size_t rows, size_t features, const float *phi, double *kernel);

/* Gradient flow from zero on a kernel (rows x rows), with early stopping on the validation part, or after `steps` steps
 * with learning rate 1 / λ of the first mode if that is earlier (INFINITY: no limit). */
typedef struct lab_flow_result {
    double valid, test; /* errors as above */
} lab_flow_result;
bo_status lab_kernel_flow(bo_context *context, const lab_examples *e, const double *kernel, double steps,
                          lab_flow_result *out);

/* Orthogonal matching pursuit: selects features (rows x width) one by one, choosing the feature that explains most of
 * the residual on the training part, and refits all selected features. The validation part determines their number, at
 * most `max_features`. */
typedef struct lab_chosen {
    size_t count;
    double valid, test; /* errors as above */
} lab_chosen;
bo_status lab_choose_features(bo_context *context, const lab_examples *e, size_t width, const float *phi,
                              size_t max_features, lab_chosen *out);

#endif
