/* ridge-map: under a Gaussian prior, ridge regression is the mode and the mean of the posterior. */
#include "../experiment.h"
#include <math.h>
#include <string.h>

static const bo_lab_claim claims[] = {
    {.name = "conditional-mean",
     .statement = "With w ~ N(0, τ²I) and noise of variance σ², the conditional mean of w, Σ_wy Σ_yy⁻¹ y, is ridge "
                  "regression with λ = σ²/τ².",
     .number = "largest difference of the predictions of the kernel machine from those of the conditional mean, "
               "relative to their root mean square",
     .rule = BO_LAB_EACH_AT_MOST,
     .bound = 1e-5,
     .passage = LAB_NOTES "lines 128-134: \"Ŵ = E[W|Y=y] = Xᵀ(XXᵀ + λI)⁻¹y\""},
    {.name = "map",
     .statement = "The posterior mode, found by gradient descent with weight decay, is the conditional mean.",
     .number = "distance from the conditional mean, relative to its norm",
     .rule = BO_LAB_EACH_AT_MOST,
     .bound = 1e-4,
     .passage = LAB_NOTES "lines 144-154: \"MAP(w | Y=y) = […] argmin λ‖w‖² + ‖Xw - y‖²\""},
    {.name = "sampled",
     .statement = "Samples of the prior, weighted by their likelihood, have this mean.",
     .number = "distance of their mean from ridge divided by the standard deviation of the prior, two weights and "
               "four examples",
     .rule = BO_LAB_AT_MOST,
     .bound = 0.05},
    {.name = "best-lambda",
     .statement = "The λ with the smallest mean squared error is σ²/τ².",
     .number = "best λ divided by σ²/τ², Gaussian prior",
     .rule = BO_LAB_BETWEEN,
     .bound = 0.8,
     .upper = 1.25},
    {.name = "any-prior",
     .statement = "The best λ is σ²/τ² also for other priors of variance τ², because ridge regression is the best "
                  "linear estimate.",
     .number = "best λ divided by σ²/τ², mean of a Laplace and a two-point prior",
     .rule = BO_LAB_BETWEEN,
     .bound = 0.8,
     .upper = 1.25},
    {.name = "not-the-mean",
     .statement = "Control: under another prior, ridge regression is not the conditional mean, which has a smaller "
                  "error.",
     .number = "error of ridge regression divided by error of the conditional mean, two-point prior, σ = τ",
     .rule = BO_LAB_AT_LEAST,
     .bound = 1.1},
    {.name = "map-not-mean",
     .statement = "Control: under another prior, the posterior mode is not the conditional mean, which has a smaller "
                  "error.",
     .number = "error of the posterior mode divided by error of the conditional mean, Laplace prior, σ = τ",
     .rule = BO_LAB_AT_LEAST,
     .bound = 1.02},
};

static const bo_lab_table tables[] = {
    {.name = "lambda",
     .title = "Error of ridge regression by λ, for three priors of the same variance",
     .rows = "λ / (σ²/τ²)",
     .values = "mean |ŵ - w|² / |w|²",
     .log_x = true,
     .log_y = true,
     .theory = "expected"},
    {.name = "priors",
     .title = "One weight observed once with noise σ = τ: error by prior and estimate",
     .rows = "prior",
     .values = "mean (ŵ - w)² / τ²",
     .plot = BO_LAB_BARS},
};

enum { ROWS = 30, DIM = 20, DRAWS = 1000, TEST = 50 };
static const double sigma = 1, tau = 0.5; /* λ = 4 */

typedef enum prior { GAUSSIAN, LAPLACE, TWO_POINT, PRIORS } prior;
static const char *const prior_names[PRIORS] = {"Gaussian", "Laplace", "two points"};

/* Draws one weight of variance 1. */
static double draw_weight(bo_rng *rng, prior kind)
{
    const double uniform = bo_rng_uniform(rng) - 0.5;
    if (kind == LAPLACE) return (uniform > 0 ? -1 : 1) * log(1 - 2 * fabs(uniform)) / sqrt(2);
    if (kind == TWO_POINT) return uniform > 0 ? 1 : -1;
    return bo_rng_normal(rng);
}

/* ---- three forms of the same estimate ---------------------------------------------------------------------------- */

/* Σ_wy Σ_yy⁻¹ y with Σ_wy = τ²Xᵀ and Σ_yy = τ²XXᵀ + σ²I. */
static bo_status conditional_mean(bo_context *context, const lab_least_squares *p, double *w)
{
    double covariance[ROWS * ROWS], solved[ROWS];
    const size_t n = p->rows;
    BO_TRY(lab_multiply(context, false, true, n, n, p->dim, tau * tau, p->x, p->dim, p->x, p->dim, 0, covariance, n));
    for (size_t r = 0; r < n; r++) covariance[r * n + r] += sigma * sigma;
    memcpy(solved, p->y, n * sizeof *solved);
    BO_TRY(lab_solve_positive(context, n, 1, covariance, solved));
    return lab_multiply(context, true, false, p->dim, 1, n, tau * tau, p->x, p->dim, solved, 1, 0, w, 1);
}

/* Compares the predictions of the kernel machine for new points. */
static bo_status measure_machine(lab_run *run, const lab_least_squares *p, const double *mean)
{
    float x[TEST * DIM];
    bo_rng rng = lab_rng(run, "lab.ridge-map.test");
    double gap;
    lab_fill_normal(&rng, 1, TEST * DIM, x);
    const lab_linear_machine machine = {.lambda = sigma * sigma / (tau * tau)};
    BO_TRY(lab_machine_gap(lab_context(run), p, &machine, TEST, x, mean, &gap));
    lab_claim(run, "conditional-mean", gap);
    return BO_OK;
}

/* -log posterior = |y - Xw|²/2σ² + |w|²/2τ²; the second term is weight decay. */
static bo_status measure_map(lab_run *run, const lab_least_squares *p, const double *mean)
{
    lab_descent d;
    float w[DIM];
    bo_optimizer_desc descent = lab_plain_descent;
    descent.decay = 1 / (tau * tau);
    const double rate = 1 / (p->scales[0] * p->scales[0] / (sigma * sigma) + descent.decay);
    bo_status status = lab_perturbed_open(lab_context(run), p, NULL, 1 / (2 * sigma * sigma), &descent, 1, &d);
    for (size_t t = 0; t < 1000 && status == BO_OK; t++) status = lab_descent_step(&d, rate, NULL);
    if (status == BO_OK) status = lab_tape_read(&d.tape, "w", w);
    lab_descent_close(&d);
    BO_TRY(status);
    lab_claim(run, "map", lab_distance_single(w, mean, DIM) / lab_norm(mean, DIM));
    return BO_OK;
}

/* Rescales the weights to the standard deviation of the prior and recomputes y. */
static void rescale(lab_least_squares *p, bo_rng *rng)
{
    for (size_t j = 0; j < p->dim; j++) p->truth[j] *= tau;
    for (size_t r = 0; r < p->rows; r++) {
        p->y[r] = lab_dot(p->x + r * p->dim, p->truth, p->dim) + sigma * bo_rng_normal(rng);
        p->y_single[r] = (float)p->y[r];
    }
}

static bo_status measure_estimate(lab_run *run)
{
    bo_rng rng = lab_rng(run, "lab.ridge-map");
    lab_least_squares p;
    double mean[DIM];
    BO_TRY(lab_least_squares_open(lab_context(run), &(lab_least_squares_desc){.rows = ROWS, .dim = DIM}, &rng, &p));
    rescale(&p, &rng);
    bo_status status = conditional_mean(lab_context(run), &p, mean);
    if (status == BO_OK) status = measure_machine(run, &p, mean);
    if (status == BO_OK) status = measure_map(run, &p, mean);
    lab_least_squares_close(&p);
    return status;
}

/* Importance sampling with two weights and four examples. */
static bo_status measure_samples(lab_run *run)
{
    bo_rng rng = lab_rng(run, "lab.ridge-map.samples");
    lab_least_squares p;
    double ridge[2], sum[2] = {0}, all = 0;
    BO_TRY(lab_least_squares_open(lab_context(run), &(lab_least_squares_desc){.rows = 4, .dim = 2}, &rng, &p));
    rescale(&p, &rng);
    const bo_status status = lab_ridge(lab_context(run), &p, sigma * sigma / (tau * tau), NULL, ridge);
    for (size_t i = 0; i < lab_size(run, 1000000, 100000); i++) {
        const double w[2] = {tau * bo_rng_normal(&rng), tau * bo_rng_normal(&rng)};
        const double likelihood = exp(-lab_squares(&p, w) / (2 * sigma * sigma));
        for (size_t j = 0; j < 2; j++) sum[j] += likelihood * w[j];
        all += likelihood;
    }
    lab_least_squares_close(&p);
    for (size_t j = 0; j < 2; j++) sum[j] /= all;
    lab_claim(run, "sampled", lab_distance(sum, ridge, 2) / tau);
    return status;
}

/* ---- the best λ -------------------------------------------------------------------------------------------------- */

enum { LAMBDAS = 33 };

/* Many problems with one X: weights from a prior (DRAWS x DIM) and their targets (ROWS x DRAWS). */
typedef struct draws {
    float x[ROWS * DIM], y[ROWS * DRAWS], truth[DRAWS * DIM], found[DRAWS * DIM];
} draws;

static void draw_problems(bo_rng *rng, prior kind, size_t count, draws *d)
{
    for (size_t i = 0; i < count * DIM; i++) d->truth[i] = (float)(tau * draw_weight(rng, kind));
    for (size_t r = 0; r < ROWS; r++)
        for (size_t i = 0; i < count; i++) {
            double sum = sigma * bo_rng_normal(rng);
            for (size_t j = 0; j < DIM; j++) sum += (double)d->x[r * DIM + j] * (double)d->truth[i * DIM + j];
            d->y[r * count + i] = (float)sum;
        }
}

/* Mean |ŵ - w|² / |w|² over the problems, by the ridge regression of the library. */
static bo_status error_of(bo_context *context, draws *d, size_t count, double lambda, double *out)
{
    const lab_readout readout = {
        .rows = ROWS, .features = DIM, .outputs = count, .z = d->x, .y = d->y, .lambda = lambda};
    double error = 0, size = 0;
    BO_TRY(lab_ridge_readout(context, &readout, d->found));
    for (size_t i = 0; i < count * DIM; i++) {
        const double off = (double)d->found[i] - (double)d->truth[i];
        error += off * off;
        size += (double)d->truth[i] * (double)d->truth[i];
    }
    *out = error / size;
    return BO_OK;
}

/* Σ over modes of (τ²λ² + σ²s²)/(s² + λ)², divided by τ². */
static double expected_error(const double *scales, double lambda)
{
    double sum = 0;
    for (size_t i = 0; i < DIM; i++) {
        const double square = scales[i] * scales[i];
        sum += (tau * tau * lambda * lambda + sigma * sigma * square) / ((square + lambda) * (square + lambda));
    }
    return sum / (DIM * tau * tau);
}

static bo_status best_lambda(lab_run *run, prior kind, draws *d, bo_rng *rng, const double *scales, double *best)
{
    const size_t count = lab_size(run, DRAWS, 200);
    double ratios[LAMBDAS], error, min_error = INFINITY;
    lab_geometric(1.0 / 16, 16, LAMBDAS, ratios);
    draw_problems(rng, kind, count, d);
    for (size_t i = 0; i < LAMBDAS; i++) {
        const double lambda = ratios[i] * sigma * sigma / (tau * tau);
        BO_TRY(error_of(lab_context(run), d, count, lambda, &error));
        if (i % 4 == 0) {
            lab_point(run, "lambda", prior_names[kind], ratios[i], error);
            if (kind == GAUSSIAN) lab_point(run, "lambda", "expected", ratios[i], expected_error(scales, lambda));
        }
        if (error >= min_error) continue;
        min_error = error;
        *best = ratios[i];
    }
    return lab_progress(run, 0.4 + 0.2 * (double)kind);
}

static bo_status measure_lambda(lab_run *run)
{
    bo_rng rng = lab_rng(run, "lab.ridge-map.lambda");
    lab_least_squares p;
    double best[PRIORS] = {0};
    draws *d = bo_alloc(lab_context(run), 1, sizeof *d, "problems");
    if (!d) return BO_MEMORY;
    bo_status status =
        lab_least_squares_open(lab_context(run), &(lab_least_squares_desc){.rows = ROWS, .dim = DIM}, &rng, &p);
    if (status == BO_OK) memcpy(d->x, p.x_single, sizeof d->x);
    for (int kind = 0; kind < PRIORS && status == BO_OK; kind++)
        status = best_lambda(run, (prior)kind, d, &rng, p.scales, &best[kind]);
    lab_least_squares_close(&p);
    bo_free(d);
    lab_claim(run, "best-lambda", best[GAUSSIAN]);
    lab_claim(run, "any-prior", 0.5 * (best[LAPLACE] + best[TWO_POINT]));
    return status;
}

/* ---- other priors ------------------------------------------------------------------------------------------------ */

/* E[w | y] for one weight of variance 1 and noise of variance 1; for Laplace by quadrature. */
static double posterior_mean(prior kind, double y)
{
    if (kind == GAUSSIAN) return y / 2;
    if (kind == TWO_POINT) return tanh(y);
    double sum = 0, all = 0;
    for (int i = -400; i <= 400; i++) {
        const double w = 0.025 * i, density = exp(-sqrt(2) * fabs(w) - 0.5 * (y - w) * (y - w));
        sum += w * density;
        all += density;
    }
    return sum / all;
}

static double posterior_mode(prior kind, double y)
{
    if (kind == GAUSSIAN) return y / 2;
    if (kind == TWO_POINT) return y > 0 ? 1 : -1;
    return fabs(y) > sqrt(2) ? y - copysign(sqrt(2), y) : 0;
}

static void measure_prior(lab_run *run, prior kind, bo_rng *rng)
{
    const size_t count = lab_size(run, 40000, 8000);
    double ridge = 0, likely = 0, mean = 0;
    for (size_t i = 0; i < count; i++) {
        const double w = draw_weight(rng, kind), y = w + bo_rng_normal(rng);
        ridge += pow(y / 2 - w, 2) / (double)count;
        likely += pow(posterior_mode(kind, y) - w, 2) / (double)count;
        mean += pow(posterior_mean(kind, y) - w, 2) / (double)count;
    }
    lab_cell(run, "priors", prior_names[kind], "ridge, λ = σ²/τ²", ridge);
    lab_cell(run, "priors", prior_names[kind], "posterior mode", likely);
    lab_cell(run, "priors", prior_names[kind], "conditional mean", mean);
    if (kind == TWO_POINT) lab_claim(run, "not-the-mean", ridge / mean);
    if (kind == LAPLACE) lab_claim(run, "map-not-mean", likely / mean);
}

static bo_status measure(lab_run *run)
{
    bo_rng rng = lab_rng(run, "lab.ridge-map.priors");
    BO_TRY(measure_estimate(run));
    BO_TRY(measure_samples(run));
    BO_TRY(lab_progress(run, 0.3));
    BO_TRY(measure_lambda(run));
    for (int kind = 0; kind < PRIORS; kind++) measure_prior(run, (prior)kind, &rng);
    return BO_OK;
}

const lab_experiment lab_ridge_map = {
    {.name = "ridge-map",
     .group = LAB_LEARNING,
     .title = "Ridge regression as posterior mode and mean under a Gaussian prior",
     .claim = "With w ~ N(0, τ²I) and y = Xw + noise of variance σ², ridge regression with λ = σ²/τ² is the mode and "
              "the mean of w given y, and this λ has the smallest error.",
     .source = "course notes, another perspective of ridge and the MAP perspective",
     .method =
         "30 examples have 20 Gaussian inputs, σ = 1, τ = 0.5. The conditional mean is computed from covariances in "
         "float64. A linear kernel machine with λ = σ²/τ² predicts 50 new points. Gradient descent with weight decay "
         "1/τ² finds the posterior mode. Importance sampling (a million draws) checks a problem with two weights. The "
         "best of 33 values of λ between 1/16 and 16 times σ²/τ² is found over 1000 problems with one X, for a "
         "Gaussian, a Laplace and a two-point prior of the same variance. For one weight observed once with σ = τ, "
         "the three estimates are compared over 40000 draws.",
     LAB_CLAIMS(claims),
     LAB_TABLES(tables)},
    measure};
