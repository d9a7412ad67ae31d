#include "dark_variance.h"
#include <bochner/attention.h>
#include <math.h>
#include <stdio.h>

/* ---- closed forms ------------------------------------------------------------------------------------------------ */

double lab_dark_log_isotropic(size_t dim, const double *lambda)
{
    double sum = 0;
    for (size_t i = 0; i < dim; i++) {
        if (6 * lambda[i] >= 1) return INFINITY;
        sum -= 0.5 * (log1p(2 * lambda[i]) + log1p(-6 * lambda[i]));
    }
    return sum;
}

double lab_dark_log_optimal(size_t dim, const double *lambda)
{
    double sum = 0;
    for (size_t i = 0; i < dim; i++) {
        if (2 * lambda[i] >= 1) return INFINITY;
        sum -= log1p(-2 * lambda[i]);
    }
    return sum;
}

double lab_dark_log_kernel(size_t dim, const double *lambda)
{
    double sum = 0;
    for (size_t i = 0; i < dim; i++) sum -= 0.5 * log1p(-4 * lambda[i] * lambda[i]);
    return sum;
}

/* ---- measured ---------------------------------------------------------------------------------------------------- */

enum { MAX_DIM = 8, ROWS = 256, FREQUENCIES = 4096, CALIBRATION_ROWS = 8192 };

typedef enum sampling { ISOTROPIC, OPTIMAL, WHITENED, SAMPLINGS } sampling;
static const char *const sampling_names[SAMPLINGS] = {"isotropic", "Σ*", "whitened"};

/* Features with one sampling distribution, and data to test them on. */
typedef struct trial {
    lab_run *run;
    size_t dim, frequencies;
    const double *lambda;
    bo_rng rng;
    bo_attention *attention;
    float m[MAX_DIM * MAX_DIM]; /* the matrix M of a whitened kernel, otherwise the identity */
    float *calibration;         /* 2 x CALIBRATION_ROWS x dim: queries and keys from which the sampling distribution is
                                   estimated */
    float *x, *z;               /* ROWS x dim, ROWS x frequencies */
    double *square;             /* one second moment per frequency */
} trial;

static void trial_close(trial *t)
{
    bo_attention_destroy(t->attention);
    bo_free(t->calibration);
    bo_free(t->x);
    bo_free(t->z);
    bo_free(t->square);
}

/* Draws rows from N(0, diag λ) and multiplies them by M. */
static void draw_rows(trial *t, size_t rows, bool mapped, float *out)
{
    for (size_t r = 0; r < rows; r++) {
        double x[MAX_DIM];
        for (size_t c = 0; c < t->dim; c++) x[c] = sqrt(t->lambda[c]) * bo_rng_normal(&t->rng);
        for (size_t i = 0; i < t->dim; i++) {
            double y = x[i];
            if (mapped) {
                y = 0;
                for (size_t c = 0; c < t->dim; c++) y += (double)t->m[i * t->dim + c] * x[c];
            }
            out[r * t->dim + i] = (float)y;
        }
    }
}

static bo_status set_sampling(trial *t, sampling law)
{
    bo_context *context = lab_context(t->run);
    const bo_attention_call call = {.sequences = 1,
                                    .tokens = CALIBRATION_ROWS,
                                    .q = {t->calibration},
                                    .k = {t->calibration + CALIBRATION_ROWS * t->dim}};
    draw_rows(t, 2 * CALIBRATION_ROWS, false, t->calibration);
    for (size_t i = 0; i < t->dim; i++) t->m[i * t->dim + i] = 1;
    if (law == OPTIMAL) return bo_attention_propose(context, t->attention, &call, NULL);
    return law == WHITENED ? bo_attention_whiten(context, t->attention, &call, 0, t->m) : BO_OK;
}

static bo_status trial_open(lab_run *run, sampling law, size_t dim, const double *lambda, size_t frequencies, trial *t)
{
    bo_context *context = lab_context(run);
    *t = (trial){.run = run, .dim = dim, .lambda = lambda, .frequencies = frequencies, .rng = lab_rng(run, "lab.dark")};
    const bo_attention_desc desc = {.kind = BO_ATTENTION_DARK,
                                    .heads = 1,
                                    .dim = dim,
                                    .scale = 1,
                                    .features = {.features = frequencies, .draw = BO_DRAW_IID, .seed = lab_seed(run)}};
    t->calibration = bo_alloc(context, 2 * CALIBRATION_ROWS * dim, sizeof *t->calibration, "queries and keys");
    t->x = bo_alloc(context, ROWS * dim, sizeof *t->x, "queries and keys");
    t->z = bo_alloc(context, ROWS * frequencies, sizeof *t->z, "features");
    t->square = bo_alloc(context, frequencies, sizeof *t->square, "features");
    if (!t->calibration || !t->x || !t->z || !t->square) return BO_MEMORY;
    BO_TRY(bo_attention_create(context, &desc, &t->attention));
    return set_sampling(t, law);
}

static bo_status features_of_rows(trial *t)
{
    draw_rows(t, ROWS, true, t->x);
    return bo_features_apply(lab_context(t->run), bo_attention_features(t->attention, 0),
                             &(bo_inputs){.rows = ROWS, .x = t->x}, t->z, t->frequencies);
}

/* Draws new frequencies. For each, estimates E[estimate²] without bias over ROWS² independent pairs. */
static bo_status next_squares(trial *t, uint64_t draw)
{
    BO_TRY(bo_attention_redraw(lab_context(t->run), t->attention, draw + 1));
    for (size_t i = 0; i < t->frequencies; i++) t->square[i] = 1;
    for (size_t side = 0; side < 2; side++) {
        BO_TRY(features_of_rows(t));
        for (size_t i = 0; i < t->frequencies; i++) {
            double sum = 0;
            for (size_t r = 0; r < ROWS; r++) {
                const double feature = t->z[r * t->frequencies + i];
                sum += feature * feature;
            }
            t->square[i] *= sum / ROWS * (double)t->frequencies;
        }
    }
    return BO_OK;
}

/* ---- by anisotropy ----------------------------------------------------------------------------------------------- */

static const double trace =
    0.22; /* the largest λ is 0.1 at condition number 64, so that the second moment can be measured accurately */

/* Fills in a geometric spectrum with this condition number and trace. */
static void spectrum(double condition, double *lambda)
{
    double sum = 0;
    for (size_t i = 0; i < MAX_DIM; i++) sum += lambda[i] = pow(condition, -(double)i / (MAX_DIM - 1));
    for (size_t i = 0; i < MAX_DIM; i++) lambda[i] *= trace / sum;
}

static bo_status mean_square(lab_run *run, sampling law, const double *lambda, double *out)
{
    trial t;
    const size_t draws = lab_size(run, 128, 8);
    double sum = 0;
    bo_status status = trial_open(run, law, MAX_DIM, lambda, FREQUENCIES, &t);
    for (size_t i = 0; status == BO_OK && i < draws; i++) {
        status = next_squares(&t, i);
        if (status == BO_OK) sum += lab_mean(t.square, FREQUENCIES);
    }
    trial_close(&t);
    *out = sum / (double)draws;
    return status;
}

/* Returns the variance of the estimate from one frequency divided by E[k²], measured and by the closed form. A whitened
 * kernel is given isotropic data. */
static bo_status relative_variance(lab_run *run, sampling law, double condition, double *measured, double *closed)
{
    double lambda[MAX_DIM], flat[MAX_DIM], square;
    spectrum(condition, lambda);
    spectrum(1, flat);
    const double *eigenvalues = law == WHITENED ? flat : lambda;
    const double kernel = lab_dark_log_kernel(MAX_DIM, eigenvalues);
    BO_TRY(mean_square(run, law, lambda, &square));
    *measured = square / exp(kernel) - 1;
    *closed = expm1((law == OPTIMAL ? lab_dark_log_optimal : lab_dark_log_isotropic)(MAX_DIM, eigenvalues) - kernel);
    return BO_OK;
}

bo_status lab_dark_variance(lab_run *run)
{
    enum { CONDITIONS = 4 };
    static const double conditions[CONDITIONS] = {1, 4, 16, 64};
    double measured[SAMPLINGS][CONDITIONS], worst = 0;
    for (size_t c = 0; c < CONDITIONS; c++)
        for (size_t law = 0; law < SAMPLINGS; law++) {
            double closed;
            char column[64];
            BO_TRY(relative_variance(run, (sampling)law, conditions[c], &measured[law][c], &closed));
            lab_point(run, "variance", sampling_names[law], conditions[c], measured[law][c]);
            snprintf(column, sizeof column, "%s, closed form", sampling_names[law]);
            if (law != WHITENED) lab_point(run, "variance", column, conditions[c], closed);
            worst = fmax(worst, fabs(log(measured[law][c] / closed)));
            BO_TRY(lab_progress(run, 0.1 * (double)(c + 1) / CONDITIONS));
        }
    lab_claim(run, "closed-forms", worst);
    lab_claim(run, "gain", measured[ISOTROPIC][CONDITIONS - 1] / measured[OPTIMAL][CONDITIONS - 1]);
    lab_claim(run, "whitened", measured[WHITENED][CONDITIONS - 1] / measured[WHITENED][0]);
    return BO_OK;
}

/* ---- thresholds -------------------------------------------------------------------------------------------------- */

enum { MIN_LOG = 6, MAX_LOG = 14, LOGS = MAX_LOG - MIN_LOG + 1, MAX_BLOCKS = 4096 };

/* Computes the tail index α of estimate² = exp(2w(q + k) - q² - k² - r w²), where q, k ~ N(0, λ), w ~ N(0, v), and r
 * comes from the importance weight. In u = w/√v and s = (q + k)/√(2λ) the exponent is a quadratic form; its largest
 * eigenvalue μ gives α = 1/2μ. Sample means of a variable without a mean grow as n^(1/α - 1). */
static double predicted_growth(sampling law, double lambda)
{
    const double min_precision = 0.05; /* the lowest precision that the library allows */
    const double precision = law == OPTIMAL ? fmax(min_precision, 1 - 4 * lambda / (1 + 2 * lambda)) : 1;
    const double a = -(1 - precision) / precision, b = -lambda, c = sqrt(2 * lambda / precision);
    const double largest = (a + b + sqrt((a - b) * (a - b) + 4 * c * c)) / 2;
    return fmax(0, 2 * largest - 1);
}

/* Returns the exponent with which the median of block means grows with the block size. */
static double growth(size_t count, size_t max_log, const double *squares, double *means)
{
    double sizes[LOGS], typical[LOGS];
    for (size_t log_size = MIN_LOG; log_size <= max_log; log_size++) {
        const size_t size = (size_t)1 << log_size, blocks = count / size < MAX_BLOCKS ? count / size : MAX_BLOCKS;
        for (size_t b = 0; b < blocks; b++) means[b] = lab_mean(squares + b * size, size);
        sizes[log_size - MIN_LOG] = (double)size;
        typical[log_size - MIN_LOG] = lab_median(means, blocks);
    }
    return lab_exponent(sizes, typical, max_log - MIN_LOG + 1);
}

/* Computes estimate² for ROWS frequencies, with a separate query and key for each. */
static bo_status next_singles(trial *t, uint64_t draw, double *squares)
{
    BO_TRY(bo_attention_redraw(lab_context(t->run), t->attention, draw + 1));
    for (size_t i = 0; i < ROWS; i++) squares[i] = 1;
    for (size_t side = 0; side < 2; side++) {
        BO_TRY(features_of_rows(t));
        for (size_t i = 0; i < ROWS; i++) squares[i] *= (double)ROWS * t->z[i * ROWS + i] * t->z[i * ROWS + i];
    }
    return BO_OK;
}

static bo_status measure_growth(lab_run *run, sampling law, double lambda, double *out)
{
    trial t;
    const size_t count = lab_size(run, 1 << 19, 3 << 14);
    double *squares = bo_alloc(lab_context(run), count + MAX_BLOCKS, sizeof *squares, "second moments");
    bo_status status = trial_open(run, law, 1, &lambda, ROWS, &t);
    if (!squares) status = BO_MEMORY;
    for (size_t i = 0; status == BO_OK && i < count; i += ROWS) status = next_singles(&t, i / ROWS, squares + i);
    if (status == BO_OK) *out = growth(count, lab_size(run, MAX_LOG, 12), squares, squares + count);
    trial_close(&t);
    bo_free(squares);
    return status;
}

bo_status lab_dark_thresholds(lab_run *run)
{
    static const double below_sixth = 0.1, between = 0.4, past_half = 0.7;
    static const double lambdas[] = {0.05, below_sixth, 0.2, 0.3, between, 0.5, 0.6, past_half};
    double found[2][LAB_COUNT_OF(lambdas)], claimed[2][2] = {{NAN, NAN}, {NAN, NAN}};
    for (size_t i = 0; i < LAB_COUNT_OF(lambdas); i++) {
        for (size_t law = 0; law <= OPTIMAL; law++) {
            char column[64];
            snprintf(column, sizeof column, "%s, predicted", sampling_names[law]);
            BO_TRY(measure_growth(run, (sampling)law, lambdas[i], &found[law][i]));
            lab_point(run, "threshold", sampling_names[law], lambdas[i], found[law][i]);
            lab_point(run, "threshold", column, lambdas[i], predicted_growth((sampling)law, lambdas[i]));
        }
        if (lambdas[i] == below_sixth) claimed[ISOTROPIC][0] = found[ISOTROPIC][i];
        if (lambdas[i] == between) claimed[ISOTROPIC][1] = found[ISOTROPIC][i], claimed[OPTIMAL][0] = found[OPTIMAL][i];
        if (lambdas[i] == past_half) claimed[OPTIMAL][1] = found[OPTIMAL][i];
        BO_TRY(lab_progress(run, 0.1 + 0.1 * (double)(i + 1) / (double)LAB_COUNT_OF(lambdas)));
    }
    lab_claim(run, "sixth", claimed[ISOTROPIC][1] - claimed[ISOTROPIC][0]);
    lab_claim(run, "half", claimed[OPTIMAL][1] - claimed[OPTIMAL][0]);
    return BO_OK;
}
