/* estimators: gradients of E f(x), x ~ N(θ, σ²I), with respect to θ, from samples x = θ + σε.
 *
 *     score function   (f(x) - b) ε / σ          needs only values of f
 *     pathwise         ∇f(x)                     needs the gradient of f */
#include "../experiment.h"
#include <math.h>

static const bo_lab_claim claims[] = {
    {.name = "unbiased",
     .statement = "If f is smooth, both estimators have the gradient as their mean.",
     .number = "larger of the two |mean estimate · gradient / |gradient|² - 1|, d = 16",
     .rule = BO_LAB_AT_MOST,
     .bound = 0.05,
     .passage = LAB_NOTES "lines 258-264: \"∇_μ F(μ) = E[((x - μ)/σ²) f(x)]\", \"∇_θ F(θ) = E_z[∇_θ g(z, θ)ᵀ ∇_x f]\""},
    {.name = "score",
     .statement = "For a sum of d terms, the variance of the score-function estimator per coordinate grows as d², "
                  "because it multiplies by all of f.",
     .number = "exponent of the variance per coordinate as a power of d, without baseline",
     .rule = BO_LAB_BETWEEN,
     .bound = 1.7,
     .upper = 2.2},
    {.name = "baseline",
     .statement = "A baseline removes the mean of f and reduces the growth to d.",
     .number = "exponent of the variance per coordinate as a power of d, with the mean of the other samples as "
               "baseline",
     .rule = BO_LAB_BETWEEN,
     .bound = 0.8,
     .upper = 1.2},
    {.name = "pathwise",
     .statement = "The variance of the pathwise estimator per coordinate does not grow with d, because a coordinate "
                  "depends only on its own term.",
     .number = "exponent of the variance per coordinate as a power of d",
     .rule = BO_LAB_BETWEEN,
     .bound = -0.1,
     .upper = 0.1},
    {.name = "predicted",
     .statement = "The variance with a baseline is E (f - b)² ε²/σ² minus the squared gradient.",
     .number = "measured variance divided by the variance predicted by quadrature, mean over d",
     .rule = BO_LAB_BETWEEN,
     .bound = 0.95,
     .upper = 1.05},
    {.name = "steep",
     .statement =
         "If f is steep and bounded, the score-function estimator has the smaller variance, because it does not "
         "depend on the steepness.",
     .number = "variance of the pathwise estimator divided by that of the score-function estimator with baseline, "
               "sigmoid(64 x), d = 1",
     .rule = BO_LAB_AT_LEAST,
     .bound = 4},
    {.name = "step",
     .statement = "For a step function the pathwise estimator is 0 and misses the whole gradient.",
     .number = "|mean pathwise estimate| / |gradient|, one step function in each of 16 coordinates",
     .rule = BO_LAB_EACH_AT_MOST,
     .bound = 0},
    {.name = "step-score",
     .statement = "The score-function estimator still estimates the gradient of a step function.",
     .number = "mean score-function estimate · gradient / |gradient|², one step function in each of 16 coordinates",
     .rule = BO_LAB_BETWEEN,
     .bound = 0.95,
     .upper = 1.05},
};

static const bo_lab_table tables[] = {
    {.name = "dimension",
     .title = "Variance of the estimate from one sample by dimension, f = Σ softplus(x_i)",
     .rows = "d",
     .values = "variance per coordinate",
     .log_x = true,
     .log_y = true,
     .theory = "score function with baseline, predicted"},
    {.name = "steepness",
     .title = "Variance by steepness, f = sigmoid(c x), d = 1",
     .rows = "c, steepness",
     .values = "variance",
     .log_x = true,
     .log_y = true,
     .theory = "pathwise, predicted"},
};

enum { MAX_SAMPLES = 256, SIZES = 5, STEEPS = 5 };
static const double sigma = 0.5;

/* ---- the functions: f(x) = Σ h(c x_i) ---------------------------------------------------------------------------- */

typedef enum function { SOFTPLUS, SIGMOID, STEP } function;

static double value_of(function h, double u)
{
    if (h == STEP) return u > 0;
    return h == SIGMOID ? 1 / (1 + exp(-u)) : u > 0 ? u + log1p(exp(-u)) : log1p(exp(u));
}

static double slope_of(function h, double u)
{
    if (h == STEP) return 0;
    const double s = 1 / (1 + exp(-u));
    return h == SIGMOID ? s * (1 - s) : s;
}

/* Moments of one coordinate with mean θ, by quadrature over ε. */
typedef struct moments {
    double mean, square;        /* E h, E h² */
    double gradient;            /* E h ε / σ */
    double mean_2, square_2;    /* E h ε², E h² ε² */
    double slope, slope_square; /* E h', E h'² */
} moments;

static moments moments_of(function h, double c, double theta)
{
    const double step = 1e-3;
    moments m = {0};
    for (double e = -8 + step / 2; e < 8; e += step) {
        const double weight = step * exp(-0.5 * e * e) / sqrt(2 * acos(-1));
        const double u = c * (theta + sigma * e), value = value_of(h, u), slope = c * slope_of(h, u);
        m.mean += weight * value;
        m.square += weight * value * value;
        m.gradient += weight * value * e / sigma;
        m.mean_2 += weight * value * e * e;
        m.square_2 += weight * value * value * e * e;
        m.slope += weight * slope;
        m.slope_square += weight * slope * slope;
    }
    return m;
}

/* Mean over coordinates of the variance of the score-function estimator with b = E f. With S the sum of the other terms
 * minus b, E (S + h)² ε² = E S² + 2 E S E h ε² + E h² ε². */
static double predicted_variance(size_t dim, const moments *m)
{
    double spread = 0, sum = 0;
    for (size_t i = 0; i < dim; i++) spread += m[i].square - m[i].mean * m[i].mean;
    for (size_t i = 0; i < dim; i++) {
        const double other_variance = spread - (m[i].square - m[i].mean * m[i].mean), mean = -m[i].mean;
        const double second = other_variance + mean * mean + 2 * mean * m[i].mean_2 + m[i].square_2;
        sum += second / (sigma * sigma) - m[i].gradient * m[i].gradient;
    }
    return sum / (double)dim;
}

/* ---- samples ----------------------------------------------------------------------------------------------------- */

/* x = θ + σε, c x as the input of the graph, h and h' of every number, f of every row. */
typedef struct samples {
    lab_run *run;
    size_t rows, dim;
    double c;
    double theta[MAX_SAMPLES];
    float *noise, *x, *h, *slope; /* rows x dim */
    double *f;                    /* rows */
} samples;

static bo_status open_samples(lab_run *run, size_t rows, size_t dim, samples *s)
{
    bo_context *context = lab_context(run);
    *s = (samples){.run = run, .rows = rows, .dim = dim, .c = 1};
    for (size_t i = 0; i < dim; i++) s->theta[i] = i % 2 ? -0.5 : 0.5;
    s->noise = bo_alloc_raw(context, rows * dim, sizeof *s->noise, "samples");
    s->x = bo_alloc_raw(context, rows * dim, sizeof *s->x, "samples");
    s->h = bo_alloc_raw(context, rows * dim, sizeof *s->h, "samples");
    s->slope = bo_alloc_raw(context, rows * dim, sizeof *s->slope, "samples");
    s->f = bo_alloc_raw(context, rows, sizeof *s->f, "samples");
    return s->noise && s->x && s->h && s->slope && s->f ? BO_OK : BO_MEMORY;
}

static void close_samples(samples *s)
{
    bo_free(s->noise);
    bo_free(s->x);
    bo_free(s->h);
    bo_free(s->slope);
    bo_free(s->f);
}

/* Computes h and h' by a forward and backward pass of one operation. */
static bo_status differentiate(samples *s, lab_tape *tape, bo_unary op)
{
    BO_TRY(lab_tape_open(lab_context(s->run), tape));
    const bo_value x = lab_tape_leaf(tape, "x", s->rows, s->dim);
    BO_TRY(lab_tape_plan(tape, lab_graph_unary(tape->graph, op, x), 1));
    BO_TRY(lab_tape_write(tape, "x", s->x));
    BO_TRY(lab_tape_run(tape, NULL));
    BO_TRY(lab_tape_output(tape, s->h));
    return lab_tape_gradient(tape, "x", s->slope);
}

static bo_status evaluate(samples *s, function h)
{
    const size_t count = s->rows * s->dim;
    lab_tape tape = {0};
    bo_status status = BO_OK;
    if (h == STEP)
        for (size_t i = 0; i < count; i++) {
            s->h[i] = (float)value_of(STEP, (double)s->x[i]);
            s->slope[i] = 0;
        }
    else {
        status = differentiate(s, &tape, h == SIGMOID ? BO_UNARY_SIGMOID : BO_UNARY_SOFTPLUS);
        lab_tape_close(&tape);
    }
    return status;
}

static bo_status draw(samples *s, function h, uint64_t number)
{
    bo_rng rng = bo_rng_make(lab_seed(s->run), bo_rng_stream("lab.estimators.samples", number));
    for (size_t i = 0; i < s->rows * s->dim; i++) {
        s->noise[i] = (float)bo_rng_normal(&rng);
        s->x[i] = (float)(s->c * (s->theta[i % s->dim] + sigma * (double)s->noise[i]));
    }
    BO_TRY(evaluate(s, h));
    for (size_t r = 0; r < s->rows; r++) {
        s->f[r] = 0;
        for (size_t i = 0; i < s->dim; i++) s->f[r] += (double)s->h[r * s->dim + i];
    }
    return lab_progress(s->run, 0.5);
}

/* ---- estimators -------------------------------------------------------------------------------------------------- */

typedef enum estimator { SCORE, BASELINE, PATHWISE, ESTIMATORS } estimator;
static const char *const estimator_names[ESTIMATORS] = {"score function", "score function with baseline", "pathwise"};

/* Estimate of sample r in coordinate i; total: Σ f. The baseline is the mean over the other samples, so the estimate
 * stays unbiased. */
static double estimate(const samples *s, estimator e, double total, size_t r, size_t i)
{
    const size_t at = r * s->dim + i;
    if (e == PATHWISE) return s->c * (double)s->slope[at];
    const double baseline = e == BASELINE ? (total - s->f[r]) / (double)(s->rows - 1) : 0;
    return (s->f[r] - baseline) * (double)s->noise[at] / sigma;
}

/* variance: mean over coordinates; along: mean estimate · gradient / |gradient|². */
typedef struct outcome {
    double variance, along;
} outcome;

static outcome evaluate_estimator(const samples *s, estimator e, const moments *m)
{
    outcome out = {0, 0};
    double total = 0, norm = 0;
    for (size_t r = 0; r < s->rows; r++) total += s->f[r];
    for (size_t i = 0; i < s->dim; i++) {
        double sum = 0, squares = 0;
        for (size_t r = 0; r < s->rows; r++) {
            const double value = estimate(s, e, total, r, i);
            sum += value;
            squares += value * value;
        }
        const double n = (double)s->rows, mean = sum / n;
        out.variance += (squares / n - mean * mean) * n / (n - 1) / (double)s->dim;
        out.along += mean * m[i].gradient;
        norm += m[i].gradient * m[i].gradient;
    }
    out.along /= norm;
    return out;
}

/* ---- measuring --------------------------------------------------------------------------------------------------- */

static size_t row_count(const lab_run *run)
{
    return lab_size(run, 12000, 2000);
}

static bo_status measure_dimension(lab_run *run, size_t dim, outcome out[ESTIMATORS], double *predicted)
{
    moments m[MAX_SAMPLES];
    samples s;
    bo_status status = open_samples(run, row_count(run), dim, &s);
    for (size_t i = 0; i < dim; i++) m[i] = moments_of(SOFTPLUS, 1, s.theta[i]);
    if (status == BO_OK) status = draw(&s, SOFTPLUS, dim);
    for (int e = 0; status == BO_OK && e < ESTIMATORS; e++) {
        out[e] = evaluate_estimator(&s, (estimator)e, m);
        lab_point(run, "dimension", estimator_names[e], (double)dim, out[e].variance);
    }
    *predicted = predicted_variance(dim, m);
    lab_point(run, "dimension", "score function with baseline, predicted", (double)dim, *predicted);
    close_samples(&s);
    return status;
}

static bo_status measure_dimensions(lab_run *run)
{
    double dims[SIZES], variance[ESTIMATORS][SIZES], ratio[SIZES];
    for (size_t i = 0; i < SIZES; i++) {
        const size_t dim = (size_t)1 << 2 * i;
        outcome out[ESTIMATORS];
        double predicted;
        BO_TRY(measure_dimension(run, dim, out, &predicted));
        dims[i] = (double)dim;
        for (int e = 0; e < ESTIMATORS; e++) variance[e][i] = out[e].variance;
        ratio[i] = out[BASELINE].variance / predicted;
        if (dim == 16) lab_claim(run, "unbiased", fmax(fabs(out[BASELINE].along - 1), fabs(out[PATHWISE].along - 1)));
    }
    lab_claim(run, "predicted", lab_mean(ratio, SIZES));
    lab_claim(run, "score",
              /* starts at d = 4, because the law is asymptotic in the number of terms */
              lab_exponent(dims + 1, variance[SCORE] + 1, SIZES - 1));
    lab_claim(run, "baseline", lab_exponent(dims + 1, variance[BASELINE] + 1, SIZES - 1));
    lab_claim(run, "pathwise", lab_exponent(dims + 1, variance[PATHWISE] + 1, SIZES - 1));
    return BO_OK;
}

static bo_status measure_steepness(lab_run *run)
{
    samples s;
    bo_status status = open_samples(run, 4 * row_count(run), 1, &s);
    s.theta[0] = 0;
    for (size_t i = 0; status == BO_OK && i < STEEPS; i++) {
        s.c = (double)((size_t)1 << 2 * i);
        const moments m = moments_of(SIGMOID, s.c, 0);
        status = draw(&s, SIGMOID, 1000 + i);
        if (status != BO_OK) break;
        const outcome score = evaluate_estimator(&s, BASELINE, &m), pathwise = evaluate_estimator(&s, PATHWISE, &m);
        lab_point(run, "steepness", "pathwise", s.c, pathwise.variance);
        lab_point(run, "steepness", "score function with baseline", s.c, score.variance);
        lab_point(run, "steepness", "pathwise, predicted", s.c, m.slope_square - m.slope * m.slope);
        if (i == 3) lab_claim(run, "steep", pathwise.variance / score.variance);
    }
    close_samples(&s);
    return status;
}

static bo_status measure_step(lab_run *run)
{
    enum { DIM = 16 };
    moments m[DIM];
    samples s;
    bo_status status = open_samples(run, 4 * row_count(run), DIM, &s);
    for (size_t i = 0; i < DIM; i++) m[i] = moments_of(STEP, 1, s.theta[i]);
    if (status == BO_OK) status = draw(&s, STEP, 2000);
    if (status == BO_OK) {
        lab_claim(run, "step", fabs(evaluate_estimator(&s, PATHWISE, m).along));
        lab_claim(run, "step-score", evaluate_estimator(&s, BASELINE, m).along);
    }
    close_samples(&s);
    return status;
}

static bo_status measure(lab_run *run)
{
    BO_TRY(measure_dimensions(run));
    BO_TRY(measure_steepness(run));
    return measure_step(run);
}

const lab_experiment lab_estimators = {
    {.name = "estimators",
     .group = LAB_LEARNING,
     .title = "Score-function and reparametrized gradients",
     .claim = "Both estimators of the gradient of an expectation are unbiased. The variance of the score-function "
              "estimator grows with the dimension, that of the pathwise estimator with the steepness of f. If f is "
              "discontinuous, the pathwise estimator is wrong.",
     .source =
         "Williams 1992 (REINFORCE); Kingma and Welling, 1312.6114; Mohamed et al., Monte Carlo Gradient Estimation "
         "in Machine Learning, arXiv 1906.10652",
     .method =
         "x ~ N(θ, I/4), with θ alternately 1/2 and -1/2. Smooth: f is the sum of softplus over d = 1 to 256 "
         "coordinates, with gradients by automatic differentiation; 12,000 samples. Variances are those of the "
         "estimate from one sample, averaged over coordinates; exponents are fitted over d = 4 to 256. Steep: "
         "sigmoid(c x) in one dimension, 48,000 samples. Discontinuous: the number of coordinates above 0, d = 16, "
         "48,000 samples. Exact gradients and variances come from quadrature. The baseline is the mean of the other "
         "samples.",
     LAB_CLAIMS(claims),
     LAB_TABLES(tables)},
    measure};
