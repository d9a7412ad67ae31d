/* rff-regression: ridge regression on random Fourier features (Rahimi and Recht 2007), compared with kernel ridge
 * regression. */
#include "../experiment.h"
#include <bochner/machines.h>
#include <math.h>

static const char variances[] = "Sutherland and Schneider, On the error of random Fourier features, arXiv 1506.02785";

static const bo_lab_claim claims[] = {
    {.name = "kernel-rate",
     .statement = "The mean squared error of the estimated kernel falls as 1/R, where R is the number of features.",
     .number = "exponent of the squared error as a power of R, for sines and cosines",
     .rule = BO_LAB_BETWEEN,
     .bound = -1.05,
     .upper = -0.95},
    {.name = "variance-ratio",
     .statement =
         "With the same number R of features, cosines with a phase have the variance (1 + k(2D)/2 - k(D)²)/R and "
         "sines and cosines (1 + k(2D) - 2k(D)²)/R, which is smaller for the Gaussian kernel.",
     .number = "measured ratio of the two squared errors divided by the ratio of the formulas",
     .rule = BO_LAB_BETWEEN,
     .bound = 0.95,
     .upper = 1.05,
     .source = variances},
    {.name = "sin-cos",
     .statement =
         "The larger variance also shows in regression: with cosines and a phase, predictions are farther from exact "
         "kernel ridge regression.",
     .number = "mean squared distance to exact kernel ridge regression with cosines and a phase divided by that with "
               "sines and cosines",
     .rule = BO_LAB_AT_LEAST,
     .bound = 1.1},
    {.name = "primal-dual",
     .statement = "The primal and the dual solver give the same coefficients and predictions, up to rounding.",
     .number = "largest difference of coefficients or predictions divided by the largest coefficient or prediction",
     .rule = BO_LAB_EACH_AT_MOST,
     .bound = 1e-8,
     .source = "(ZᵀZ + λI)⁻¹Zᵀ = Zᵀ(ZZᵀ + λI)⁻¹",
     .passage = LAB_NOTES "line 116: \"(XᵀX + λI)⁻¹Xᵀy = Xᵀ(XXᵀ + λI)⁻¹y\""},
    {.name = "approach",
     .statement = "Predictions approach those of exact kernel ridge regression: the squared distance falls as 1/R.",
     .number = "exponent of the squared distance as a power of R, for R of at least a quarter of the number of rows",
     .rule = BO_LAB_BETWEEN,
     .bound = -1.3,
     .upper = -0.8},
    {.name = "orthogonal",
     .statement = "Orthogonal frequencies estimate the kernel better than independent ones.",
     .number = "squared error of orthogonal frequencies divided by squared error of independent ones",
     .rule = BO_LAB_AT_MOST,
     .bound = 0.9,
     .source = "Yu et al., Orthogonal Random Features, arXiv 1610.09072"},
    {.name = "bandwidth",
     .statement =
         "More features do not compensate for a wrong bandwidth: with γ 64 times too small or too large, the test "
         "error stays above the best one even with four features per row.",
     .number = "test error at the better end of the range of γ divided by the test error at the best γ",
     .rule = BO_LAB_AT_LEAST,
     .bound = 1.5},
    {.name = "lambda",
     .statement = "With as many features as rows and λ near 0, the model interpolates the noise; a larger λ prevents "
                  "it.",
     .number = "test error at λ = 10⁻⁶ divided by the test error at the best λ, with R equal to the number of rows",
     .rule = BO_LAB_AT_LEAST,
     .bound = 1.5,
     .source = "Rahimi and Recht 2007; Belkin et al., Reconciling modern machine learning practice, arXiv 1812.11118"},
};

static const bo_lab_table tables[] = {
    {.name = "kernel",
     .title = "Error of the estimated kernel",
     .rows = "R, number of features",
     .values = "mean squared error of φ(x)·φ(y)",
     .log_x = true,
     .log_y = true,
     .theory = "sines and cosines, formula"},
    {.name = "test",
     .title = "Test error by number of features",
     .rows = "R, number of features",
     .values = "root mean square error (target variance 1)",
     .log_x = true,
     .log_y = true,
     .theory = "exact kernel ridge"},
    {.name = "bandwidth",
     .title = "Test error by bandwidth",
     .rows = "γ of exp(-γ|x - y|²)",
     .values = "root mean square error (target variance 1)",
     .log_x = true,
     .log_y = true,
     .theory = "exact kernel ridge"},
    {.name = "lambda",
     .title = "Test error by regularization",
     .rows = "λ of |Zβ - y|² + λ|β|²",
     .values = "root mean square error (target variance 1)",
     .log_x = true,
     .log_y = true,
     .theory = "exact kernel ridge"},
};

/* ---- the problem ------------------------------------------------------------------------------------------------- */

enum { DIM = 5, BUMPS = 40 };
static const double true_gamma = 0.1, noise = 0.2, default_lambda = 0.1;

/* y = f(x) + noise, where x ~ N(0, I) and f is a sum of Gaussian bumps with variance 1 over the rows. The test set has
 * the same number of rows; its targets are f without noise. */
typedef struct problem {
    lab_run *run;
    bo_context *context;
    size_t rows;
    float *x, *other;          /* rows x DIM: training and test inputs */
    double *y, *truth;         /* y at x, f at other */
    double *prediction, *best; /* predictions at `other` of the features and of exact kernel ridge regression */
    double done, fits;         /* for progress */
} problem;

static double bumps(const float *centers, const double *heights, const float *x)
{
    double sum = 0;
    for (size_t b = 0; b < BUMPS; b++) {
        double distance2 = 0;
        for (size_t j = 0; j < DIM; j++) {
            const double d = (double)x[j] - (double)centers[b * DIM + j];
            distance2 += d * d;
        }
        sum += heights[b] * exp(-true_gamma * distance2);
    }
    return sum;
}

static void fill_problem(problem *p)
{
    float centers[BUMPS * DIM];
    double heights[BUMPS];
    bo_rng rng = lab_rng(p->run, "lab.rff-regression");
    lab_fill_normal(&rng, 1, BUMPS * DIM, centers);
    for (size_t b = 0; b < BUMPS; b++) heights[b] = bo_rng_normal(&rng);
    lab_fill_normal(&rng, 1, p->rows * DIM, p->x);
    lab_fill_normal(&rng, 1, p->rows * DIM, p->other);
    for (size_t i = 0; i < p->rows; i++) {
        p->y[i] = bumps(centers, heights, p->x + i * DIM);
        p->truth[i] = bumps(centers, heights, p->other + i * DIM);
    }
    const double deviation = lab_deviation(p->truth, p->rows);
    for (size_t i = 0; i < p->rows; i++) {
        p->y[i] = p->y[i] / deviation + noise * bo_rng_normal(&rng);
        p->truth[i] /= deviation;
    }
}

static bo_status make_problem(lab_run *run, problem *p)
{
    bo_context *context = lab_context(run);
    *p = (problem){.run = run, .context = context, .rows = lab_size(run, 1024, 128)};
    p->x = bo_alloc_raw(context, p->rows * DIM, sizeof(float), "rows");
    p->other = bo_alloc_raw(context, p->rows * DIM, sizeof(float), "rows");
    p->y = bo_alloc_raw(context, p->rows, sizeof(double), "targets");
    p->truth = bo_alloc_raw(context, p->rows, sizeof(double), "targets");
    p->prediction = bo_alloc_raw(context, p->rows, sizeof(double), "predictions");
    p->best = bo_alloc_raw(context, p->rows, sizeof(double), "predictions");
    if (!p->x || !p->other || !p->y || !p->truth || !p->prediction || !p->best) return BO_MEMORY;
    fill_problem(p);
    return BO_OK;
}

static void free_problem(problem *p)
{
    bo_free(p->x);
    bo_free(p->other);
    bo_free(p->y);
    bo_free(p->truth);
    bo_free(p->prediction);
    bo_free(p->best);
}

static double distance2(const problem *p, const double *a, const double *b)
{
    double sum = 0;
    for (size_t i = 0; i < p->rows; i++) sum += (a[i] - b[i]) * (a[i] - b[i]);
    return sum / (double)p->rows;
}

static bo_status fit_exact(problem *p, double gamma, double lambda, double *prediction)
{
    const bo_features_desc kernel = {.kernel = BO_KERNEL_RBF, .dim = DIM, .gamma = gamma};
    return lab_kernel_ridge_predict(
        p->context, &(lab_kernel_ridge){&kernel, p->rows, p->rows, p->x, p->other, p->y, lambda}, prediction);
}

/* Fits on features once and writes the predictions to p->prediction. out: receives the kernel machine; may be NULL. */
static bo_status fit(problem *p, const bo_features_desc *map, double lambda, bo_solver solver, bo_machine **out)
{
    const bo_machine_desc desc = {.task = BO_TASK_REGRESSION,
                                  .solver = solver,
                                  .scaling = BO_SCALING_NONE,
                                  .features = *map,
                                  .lambda = lambda,
                                  .no_intercept = true,
                                  .precision = BO_GRAM_PRECISION_FLOAT64,
                                  .seed = map->seed};
    const bo_samples samples = {.rows = p->rows, .dim = DIM, .targets = 1, .x = p->x, .y = p->y};
    bo_machine *machine;
    BO_TRY(bo_machine_fit(p->context, &desc, &samples, &machine));
    bo_status status = bo_machine_predict(p->context, machine, &(bo_inputs){.rows = p->rows, .x = p->other},
                                          &(bo_prediction){.mean = p->prediction});
    if (out && status == BO_OK)
        *out = machine;
    else
        bo_machine_destroy(machine);
    return status == BO_OK ? lab_progress(p->run, fmin(++p->done / p->fits, 1)) : status;
}

/* ---- the kernel -------------------------------------------------------------------------------------------------- */

/* The three feature maps that are compared. */
enum { SINCOS, PHASE, ORTHOGONAL, MAPS };
static const char *const map_names[MAPS] = {"sines and cosines", "cosines with a phase",
                                            "orthogonal sines and cosines"};

static bo_features_desc map_of(int kind, size_t features, uint64_t seed)
{
    return (bo_features_desc){.kernel = BO_KERNEL_RBF,
                              .function = kind == PHASE ? BO_FUNCTION_COSBIAS : BO_FUNCTION_SINCOS,
                              .draw = kind == ORTHOGONAL ? BO_DRAW_ORTHOGONAL : BO_DRAW_IID,
                              .dim = DIM,
                              .features = features,
                              .gamma = true_gamma,
                              .seed = seed};
}

/* Computes the means of the two formulas over all pairs of rows, times R; k(2D) = k(D)⁴. */
static void predicted(size_t count, const double *k, double variance[2])
{
    variance[SINCOS] = variance[PHASE] = 0;
    for (size_t i = 0; i < count; i++) {
        const double k2 = k[i] * k[i];
        variance[SINCOS] += (1 + k2 * k2 - 2 * k2) / (double)count;
        variance[PHASE] += (1 + k2 * k2 / 2 - k2) / (double)count;
    }
}

enum { PAIR_ROWS = 100, LENGTHS = 7 };

/* error[kind][i]: squared error at R = 16·2^i over all pairs of the first rows, mean over draws. */
static bo_status kernel_errors(problem *p, const double *k, float *estimate, double error[MAPS][LENGTHS])
{
    const size_t draws = lab_size(p->run, 100, 24);
    for (size_t i = 0; i < LENGTHS; i++)
        for (int kind = 0; kind < MAPS; kind++) {
            error[kind][i] = 0;
            for (size_t d = 0; d < draws; d++) {
                const bo_features_desc map = map_of(kind, (size_t)16 << i, lab_seed(p->run) * 1000 + d);
                BO_TRY(lab_estimate_kernel(p->context, &map, PAIR_ROWS, p->x, estimate));
                error[kind][i] += lab_squared_error(PAIR_ROWS * PAIR_ROWS, estimate, k) / (double)draws;
            }
        }
    return BO_OK;
}

static void conclude_kernel(problem *p, const double *k, double error[MAPS][LENGTHS])
{
    double lengths[LENGTHS], variance[2], ratio[LENGTHS], gain[LENGTHS];
    predicted(PAIR_ROWS * PAIR_ROWS, k, variance);
    for (size_t i = 0; i < LENGTHS; i++) {
        lengths[i] = (double)((size_t)16 << i);
        for (int kind = 0; kind < MAPS; kind++)
            lab_point(p->run, "kernel", map_names[kind], lengths[i], error[kind][i]);
        lab_point(p->run, "kernel", "sines and cosines, formula", lengths[i], variance[SINCOS] / lengths[i]);
        ratio[i] = error[PHASE][i] / error[SINCOS][i];
        gain[i] = error[ORTHOGONAL][i] / error[SINCOS][i];
    }
    lab_claim(p->run, "kernel-rate", lab_exponent(lengths, error[SINCOS], LENGTHS));
    lab_claim(p->run, "variance-ratio", lab_mean(ratio, LENGTHS) * variance[SINCOS] / variance[PHASE]);
    lab_claim(p->run, "orthogonal", lab_mean(gain, LENGTHS));
    lab_note(p->run,
             "On the rows of this seed, the formulas give %.3f/R for cosines with a phase and %.3f/R for sines and "
             "cosines.",
             variance[PHASE], variance[SINCOS]);
}

static bo_status measure_kernel(problem *p)
{
    const bo_features_desc map = map_of(SINCOS, 2, 1);
    double *k = bo_alloc_raw(p->context, PAIR_ROWS * PAIR_ROWS, sizeof *k, "a kernel matrix");
    float *estimate = bo_alloc_raw(p->context, PAIR_ROWS * PAIR_ROWS, sizeof *estimate, "an estimated kernel");
    double error[MAPS][LENGTHS];
    bo_status status = k && estimate ? BO_OK : BO_MEMORY;
    if (status == BO_OK)
        status = bo_kernel_matrix(p->context, &map, PAIR_ROWS, p->x, DIM, PAIR_ROWS, p->x, DIM, k, PAIR_ROWS);
    if (status == BO_OK) status = kernel_errors(p, k, estimate, error);
    if (status == BO_OK) conclude_kernel(p, k, error);
    bo_free(k);
    bo_free(estimate);
    return status;
}

/* ---- the regression ---------------------------------------------------------------------------------------------- */

static size_t fit_draws(const problem *p)
{
    return lab_size(p->run, 4, 3);
}

/* R from rows/64 to 4 x rows. Measures the mean squared distance to exact kernel ridge regression and the test error,
 * means over draws. */
enum { SIZES = 9, FIRST_LARGE = 4 };

static bo_status measure_sizes(problem *p)
{
    const size_t draws = fit_draws(p);
    double sizes[SIZES], gap[MAPS][SIZES] = {{0}}, ratio[SIZES];
    for (size_t i = 0; i < SIZES; i++) {
        const size_t features = (p->rows / 64) << i;
        sizes[i] = (double)features;
        for (int kind = 0; kind < MAPS; kind++) {
            double error = 0;
            for (size_t d = 0; d < draws; d++) {
                const bo_features_desc map = map_of(kind, features, lab_seed(p->run) * 1000 + d);
                BO_TRY(fit(p, &map, default_lambda, BO_SOLVER_AUTO, NULL));
                error += distance2(p, p->prediction, p->truth) / (double)draws;
                gap[kind][i] += distance2(p, p->prediction, p->best) / (double)draws;
            }
            lab_point(p->run, "test", map_names[kind], sizes[i], sqrt(error));
        }
        lab_point(p->run, "test", "exact kernel ridge", sizes[i], sqrt(distance2(p, p->best, p->truth)));
        ratio[i] = gap[PHASE][i] / gap[SINCOS][i];
    }
    lab_claim(p->run, "approach", lab_exponent(sizes + FIRST_LARGE, gap[SINCOS] + FIRST_LARGE, SIZES - FIRST_LARGE));
    lab_claim(p->run, "sin-cos", lab_mean(ratio + FIRST_LARGE, SIZES - FIRST_LARGE));
    return BO_OK;
}

enum { STEPS = 9, AMOUNTS = 3 };
static const char *const amount_names[AMOUNTS] = {"R = rows/4", "R = rows", "R = 4 rows"};

/* Measures test errors over a range of γ or λ for three numbers of features. error: one per number. */
static bo_status sweep(problem *p, const char *table, const double *gamma, const double *lambda, const double *x,
                       double error[AMOUNTS][STEPS])
{
    for (size_t s = 0; s < STEPS; s++) {
        for (size_t a = 0; a < AMOUNTS; a++) {
            bo_features_desc map = map_of(SINCOS, (p->rows / 4) << (2 * a), lab_seed(p->run));
            map.gamma = gamma[s];
            BO_TRY(fit(p, &map, lambda[s], BO_SOLVER_AUTO, NULL));
            error[a][s] = sqrt(distance2(p, p->prediction, p->truth));
            lab_point(p->run, table, amount_names[a], x[s], error[a][s]);
        }
        BO_TRY(fit_exact(p, gamma[s], lambda[s], p->prediction));
        lab_point(p->run, table, "exact kernel ridge", x[s], sqrt(distance2(p, p->prediction, p->truth)));
    }
    return BO_OK;
}

static double minimum(const double *values, size_t count)
{
    double low = values[0];
    for (size_t i = 1; i < count; i++) low = fmin(low, values[i]);
    return low;
}

static bo_status measure_sweeps(problem *p)
{
    double gamma[STEPS], lambda[STEPS], default_lambdas[STEPS], same[STEPS], error[AMOUNTS][STEPS];
    for (size_t s = 0; s < STEPS; s++) {
        gamma[s] = true_gamma * pow(64, ((double)s - 4) / 4);
        lambda[s] = pow(10, (double)s - 6);
        default_lambdas[s] = default_lambda;
        same[s] = true_gamma;
    }
    BO_TRY(sweep(p, "bandwidth", gamma, default_lambdas, gamma, error));
    lab_claim(p->run, "bandwidth", fmin(error[2][0], error[2][STEPS - 1]) / minimum(error[2], STEPS));
    BO_TRY(sweep(p, "lambda", same, lambda, lambda, error));
    lab_claim(p->run, "lambda", error[1][0] / minimum(error[1], STEPS));
    return BO_OK;
}

/* ---- the solvers ------------------------------------------------------------------------------------------------- */

/* max |a - b| / max |a| */
static double relative_difference(size_t count, const double *a, const double *b)
{
    double difference = 0, max = 0;
    for (size_t i = 0; i < count; i++) {
        difference = fmax(difference, fabs(a[i] - b[i]));
        max = fmax(max, fabs(a[i]));
    }
    return difference / max;
}

/* Uses half as many features as rows, and twice as many, so that each solver is in its intended range once. */
static bo_status measure_solvers(problem *p)
{
    double worst = 0;
    for (size_t i = 0; i < 2; i++) {
        const bo_features_desc map = map_of(SINCOS, p->rows / 2 << (2 * i), lab_seed(p->run));
        bo_machine *primal = NULL, *dual = NULL;
        bo_status status = fit(p, &map, default_lambda, BO_SOLVER_PRIMAL, &primal);
        for (size_t k = 0; status == BO_OK && k < p->rows; k++) p->best[k] = p->prediction[k];
        if (status == BO_OK) status = fit(p, &map, default_lambda, BO_SOLVER_DUAL, &dual);
        if (status == BO_OK) {
            worst = fmax(worst, relative_difference(p->rows, p->best, p->prediction));
            worst = fmax(worst, relative_difference(map.features, bo_machine_report(primal)->beta,
                                                    bo_machine_report(dual)->beta));
        }
        bo_machine_destroy(primal);
        bo_machine_destroy(dual);
        BO_TRY(status);
    }
    lab_claim(p->run, "primal-dual", worst);
    return BO_OK;
}

static bo_status measure_all(problem *p)
{
    p->fits = (double)(SIZES * MAPS * fit_draws(p) + 2 * STEPS * AMOUNTS + 4);
    BO_TRY(measure_kernel(p));
    BO_TRY(fit_exact(p, true_gamma, default_lambda, p->best));
    BO_TRY(measure_sizes(p));
    BO_TRY(measure_sweeps(p));
    return measure_solvers(p);
}

static bo_status measure(lab_run *run)
{
    problem p;
    bo_status status = make_problem(run, &p);
    if (status == BO_OK) status = measure_all(&p);
    free_problem(&p);
    return status;
}

const lab_experiment lab_rff_regression = {
    {.name = "rff-regression",
     .group = LAB_FEATURES,
     .title = "Ridge regression on random Fourier features",
     .claim = "R random features replace an n x n kernel matrix. The error of the kernel falls as 1/R, the regression "
              "approaches exact kernel ridge regression, and the primal and dual linear systems give the same answer.",
     .source = "Rahimi and Recht, Random Features for Large-Scale Kernel Machines, 2007",
     .method =
         "The data are 1024 rows of 5 independent normal inputs. The target is a random sum of 40 Gaussian bumps (γ = "
         "0.1, variance 1) plus noise of standard deviation 0.2. Errors are measured against the noiseless sum on "
         "1024 other rows. The Gaussian kernel has the γ of the bumps and λ = 0.1, fixed in advance unless one of "
         "them is swept. Kernel errors: all pairs of 100 rows, mean over 100 draws for each R. Distances to exact "
         "kernel ridge regression (n x n, float64): mean over 4 draws. Exponents are least-squares slopes of "
         "logarithms.",
     LAB_CLAIMS(claims),
     LAB_TABLES(tables)},
    measure};
