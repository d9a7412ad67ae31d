/* Networks of one hidden layer, f(x) = Σ_j a_j relu(w_j·x / √dim) / √m, at their beginning: the features their gradient
 * is made of, their limit for m → ∞, and gradient flow on any kernel. */
#ifndef BO_LAB_LEARNING_TANGENT_H
#define BO_LAB_LEARNING_TANGENT_H

#include "../experiment.h"

/* Examples: rows of `dim` numbers (the last may be a constant for the bias), in three parts one after the other. */
typedef struct lab_examples {
    size_t dim, train, valid, test; /* how many of each */
    float *x, *y;                   /* rows x dim, rows */
} lab_examples;
static inline size_t lab_examples_rows(const lab_examples *e)
{
    return e->train + e->valid + e->test;
}
/* Mean square error of predictions of the `count` rows from `first` on, over the mean square of y there. */
double lab_examples_error(const lab_examples *e, size_t first, size_t count, const float *predicted);

/* Gradients of f in its m (1 + dim) parameters, w ~ N(0, I), a ~ N(0, 1): rows x m (1 + dim). Of a: the first m. */
size_t lab_tangent_features(size_t dim, size_t m);
bo_status lab_tangent_map(bo_context *context, const lab_examples *e, size_t m, bo_rng *rng, float *features);
/* Their inner products for m → ∞ (the neural tangent kernel, 1806.07572): rows x rows. */
void lab_tangent_kernel(const lab_examples *e, double *kernel);
/* Inner products of given features: rows x rows. */
bo_status lab_feature_kernel(bo_context *context, size_t rows, size_t features, const float *phi, double *kernel);

/* What gradient flow from zero on a kernel (rows x rows) reaches, stopped where the validation part says, or, if that is
 * earlier, after `steps` steps of the rate 1 / λ of the first mode (INFINITY: never). */
typedef struct lab_flow_result {
    double valid, test; /* errors as above */
} lab_flow_result;
bo_status lab_kernel_flow(bo_context *context, const lab_examples *e, const double *kernel, double steps,
                          lab_flow_result *out);

/* Orthogonal matching pursuit: features (rows x width) are taken one by one, each time the one that explains most of what is
 * left of the training part, all so far fitted anew; as many, at most `most`, as the validation part says. */
typedef struct lab_chosen {
    size_t count;
    double valid, test; /* errors as above */
} lab_chosen;
bo_status lab_choose_features(bo_context *context, const lab_examples *e, size_t width, const float *phi, size_t most,
                              lab_chosen *out);

#endif
