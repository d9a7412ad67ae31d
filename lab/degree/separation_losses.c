/* ε-ranks in the mean error d₁, the root mean squared error √d₂ and the largest error, and whether the three differ
 * only by constants. */
#include "separation.h"
#include <math.h>

enum { SIZES = 5, LARGEST = 128 };

static double equal(const void *user, const double *x)
{
    (void)user;
    return x[0] == x[1];
}

/* Computes the error of truncation to `rank`, on a grid of `size` points of [-1, 1] on each side. */
static bo_status left_over(lab_run *run, const lab_function *f, size_t size, size_t rank, lab_sizes *out)
{
    bo_context *context = lab_context(run);
    double templates[LARGEST];
    lab_sizes errors[LARGEST + 1];
    double *matrix = bo_alloc_raw(context, size * size, sizeof *matrix, "a matricization");
    if (!matrix) return BO_MEMORY;
    for (size_t i = 0; i < size; i++) templates[i] = (2 * (double)i + 1) / (double)size - 1;
    bo_status status = lab_matricize_grid(context, f, size, templates, matrix);
    if (status == BO_OK) status = lab_truncation_errors(context, size, size, matrix, errors);
    if (status == BO_OK) *out = errors[rank];
    bo_free(matrix);
    return status;
}

/* Computes √d₂ / d₁ and largest error / √d₂ of the truncation error by grid size, for the function that is 1 if A = B
 * (truncated to half its rank) and for a polynomial of degree 9 with constant rank 10 (truncated to rank 3). */
static bo_status by_grid(lab_run *run, const lab_function *polynomial)
{
    const lab_function equality = {1, 1, NULL, equal, NULL};
    double x[SIZES], sparse[SIZES], smooth[SIZES];
    const size_t count = lab_size(run, SIZES, SIZES - 1);
    for (size_t i = 0; i < count; i++) {
        const size_t size = (size_t)8 << i;
        lab_sizes a, b;
        BO_TRY(left_over(run, &equality, size, size / 2, &a));
        BO_TRY(left_over(run, polynomial, size, 3, &b));
        x[i] = (double)size;
        sparse[i] = a.square / a.mean;
        smooth[i] = b.square / b.mean;
        lab_point(run, "losses", "equality, √d₂ / d₁", x[i], sparse[i]);
        lab_point(run, "losses", "equality, d∞ / √d₂", x[i], a.largest / a.square);
        lab_point(run, "losses", "polynomial, √d₂ / d₁", x[i], smooth[i]);
        lab_point(run, "losses", "polynomial, d∞ / √d₂", x[i], b.largest / b.square);
    }
    lab_claim(run, "losses", lab_exponent(x, sparse, count));
    lab_claim(run, "losses-smooth", fabs(lab_exponent(x, smooth, count)));
    return BO_OK;
}

/* Computes ε-ranks of a network with 3 + 3 inputs and exact rank 70, on a grid of 5 points of [-1, 1] in each input. */
static bo_status by_epsilon(lab_run *run, const lab_function *network)
{
    enum { POINTS = 5, SETTINGS = 125 };
    static const double epsilons[] = {0.001, 0.003, 0.01, 0.03, 0.1, 0.3};
    const double templates[POINTS] = {-0.8, -0.4, 0, 0.4, 0.8};
    bo_context *context = lab_context(run);
    lab_sizes errors[SETTINGS + 1];
    double *matrix = bo_alloc_raw(context, SETTINGS * SETTINGS, sizeof *matrix, "a matricization");
    if (!matrix) return BO_MEMORY;
    bo_status status = lab_matricize_grid(context, network, POINTS, templates, matrix);
    if (status == BO_OK) status = lab_truncation_errors(context, SETTINGS, SETTINGS, matrix, errors);
    for (size_t e = 0; status == BO_OK && e < LAB_COUNT_OF(epsilons); e++) {
        const lab_epsilon_ranks ranks = lab_epsilon_rank(errors, SETTINGS, epsilons[e]);
        lab_point(run, "epsilon", "d₁", epsilons[e], (double)ranks.mean);
        lab_point(run, "epsilon", "d₂", epsilons[e], (double)ranks.square);
        lab_point(run, "epsilon", "d∞", epsilons[e], (double)ranks.largest);
    }
    bo_free(matrix);
    return status;
}

bo_status lab_separation_losses(lab_run *run)
{
    bo_rng rng = lab_rng(run, "lab.separation.losses");
    lab_polynomial *small = NULL, *network = NULL;
    const lab_polynomial_desc of_two = {3, 2, 4, 2, 0}, of_six = {3, 2, 6, 6, 0};
    bo_status status = lab_polynomial_create(lab_context(run), &of_two, &rng, &small);
    if (status == BO_OK) status = lab_polynomial_create(lab_context(run), &of_six, &rng, &network);
    if (status == BO_OK) {
        const lab_function f = lab_polynomial_function(small), g = lab_polynomial_function(network);
        status = by_grid(run, &f);
        if (status == BO_OK) status = by_epsilon(run, &g);
    }
    lab_polynomial_destroy(small);
    lab_polynomial_destroy(network);
    return status == BO_OK ? lab_progress(run, 0.6) : status;
}
