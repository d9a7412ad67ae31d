/* Data-aware sampling: many candidates are drawn, scored on a sample of the data, and resampled with probability q_i.
 * The features of a kept frequency are multiplied by √(1 / (M q_i)) with M candidates, which preserves E[φ(x)·φ(y)].
 *
 *   optimal q_i ~ √tr(A_i B_i), A_i = E f_i(x) f_i(x)ᵀ and B_i = E f_i(y) f_i(y)ᵀ over the data on both sides of the
 *             kernel, f_i the one or two features of the frequency. Independent choices with these q_i minimize the
 *             mean squared error of the kernel over pairs of the data: with weights p/ψ for frequencies from ψ in place
 *             of p it is (1/m) (∫ p²/ψ tr(A B) - E k²), with the minimum (1/m) ((∫ p √tr(A B))² - E k²) at ψ ~ p √tr(A
 *             B) (Cauchy-Schwarz; Sernau, Bonacina, Saurous 2024, arXiv 2406.18802, for one feature per frequency,
 *             where the root is √(E f_i(x)² E f_i(y)²)). Computed in logarithms, since positive features span many
 *             orders of magnitude. For candidates from a proposal, f_i includes the importance weights
 *   leverage  q_i ~ the ridge leverage scores of the frequency's features, diag(ZᵀZ (ZᵀZ + λI)⁻¹) (Li et al. 2019)
 *
 * One twentieth of the probability is uniform, so that no weight exceeds √20 and no frequency with low energy on the
 * sample is lost for other inputs. The choice is systematic: counts are m q_i rounded up or down, which makes the error
 * smaller than the error of independent choices. */
#include <assert.h>
#include <math.h>
#include <string.h>
#include "internal.h"

static const double even_share = 0.05;

/* ---- scores ------------------------------------------------------------------------------------------------------ */

enum { ROWS = BO_SIZE(64, 4) }; /* rows processed at a time */

/* The means over rows that the score of a frequency depends on. PRODUCTS: logarithms of the means of the products of
 * its features, `count` of them. CIRCLE: for the features r [cos u, sin u], whose norm r does not depend on the
 * frequency, the means of r² cos 2u, r² sin 2u and r². */
typedef struct moments_job {
    const bo_features *candidates;
    const double *u, *half_norms; /* rows x candidates; one number per row */
    size_t rows, count;
    double *sum; /* count x candidates, running sums over rows or their logarithms */
} moments_job;

static size_t moment_count(const bo_features *f)
{
    return f->function->flat ? 3 : f->function->per_frequency * (f->function->per_frequency + 1) / 2;
}

/* NaN and infinity are preserved. */
static void products_task(void *arg, size_t at, int worker)
{
    const moments_job *job = arg;
    const bo_features *f = job->candidates;
    const size_t i = at % f->frequencies;
    const int product_index = (int)(at / f->frequencies);
    double product[ROWS], before = job->sum[at], top = before;
    bool number = !isnan(before);
    float below[ROWS];
    (void)worker;
    for (size_t r = 0; r < job->rows; r++) {
        product[r] = f->function->log_product(f, i, product_index, job->u[r * f->frequencies + i], job->half_norms[r]);
        number &= !isnan(product[r]);
        top = fmax(top, product[r]);
    }
    job->sum[at] = number ? top : NAN;
    if (!isfinite(job->sum[at])) return;
    for (size_t r = 0; r < job->rows; r++) below[r] = (float)(product[r] - top);
    job->sum[at] = top + log(exp(before - top) + (double)f->kernels->exp_sum(job->rows, below, 0, below));
}

static void circle_task(void *arg, size_t at, int worker)
{
    const moments_job *job = arg;
    const size_t m = job->candidates->frequencies;
    const bool scaled = bo_kernel_find(job->candidates->desc.kernel)->scaled;
    (void)worker;
    for (size_t r = 0; r < job->rows; r++) {
        const double angle = 2 * job->u[r * m + at % m], norm2 = scaled ? exp(2 * job->half_norms[r]) : 1;
        job->sum[at] += norm2 * (at < m ? cos(angle) : at < 2 * m ? sin(angle) : 1);
    }
}

/* Adds the moments of all rows. Buffers for ROWS rows: t (ROWS x dim), u (ROWS x m), half_norms (ROWS). */
static bo_status add_moments(bo_context *context, const bo_features *f, const bo_feature_sample *x, const double *w,
                             double *t, double *sum)
{
    size_t m = f->frequencies, dim = f->desc.dim, count = moment_count(f);
    double *u = t + ROWS * dim, *half_norms = u + ROWS * m;
    for (size_t at = 0; at < count * m; at++) sum[at] = f->function->flat ? 0 : -INFINITY;
    for (size_t first = 0; first < x->count; first += ROWS) {
        size_t rows = x->count - first < ROWS ? x->count - first : ROWS;
        for (size_t r = 0; r < rows; r++) {
            half_norms[r] = 0;
            for (size_t j = 0; j < dim; j++) {
                double value = (double)x->rows[(first + r) * x->stride + j] * f->factor[j];
                t[r * dim + j] = value;
                half_norms[r] += 0.5 * value * value;
            }
        }
        BO_TRY(bo_gemm64(context, false, true, rows, m, dim, f->u_scale, t, dim, w, dim, 0, u, m));
        moments_job job = {f, u, half_norms, rows, count, sum};
        bo_parallel(context, count * m, f->function->flat ? circle_task : products_task, &job);
    }
    return BO_OK;
}

/* Computes the means, moment_count x frequencies. */
static bo_status measure_moments(bo_context *context, const bo_features *f, const bo_feature_sample *x, double *mean)
{
    size_t m = f->frequencies, dim = f->desc.dim, count = moment_count(f);
    double *w = bo_alloc_raw(context, m * dim, sizeof *w, "candidate frequencies");
    double *t = bo_alloc_raw(context, ROWS * (dim + m + 1), sizeof *t, "candidate features");
    bo_status status = w && t ? bo_features_dense_f64(context, f, w) : BO_MEMORY;
    if (status == BO_OK) status = add_moments(context, f, x, w, t, mean);
    for (size_t at = 0; status == BO_OK && at < count * m; at++) {
        if (f->function->flat) {
            mean[at] /= (double)x->count;
            continue;
        }
        mean[at] -= log((double)x->count);
        if (f->weights && !f->function->exponential) mean[at] += 2 * log((double)f->weights[at % m]);
    }
    bo_free(w);
    bo_free(t);
    return status;
}

bo_status bo_features_log_energies(bo_context *context, const bo_features *f, const bo_feature_sample *x,
                                   double *log_mean)
{
    assert(moment_count(f) == 1);
    return measure_moments(context, f, x, log_mean);
}

/* Returns log √tr(A B) from the moments a, b of both sides at frequency i. */
static double log_score(const bo_features *f, const double *a, const double *b, size_t i)
{
    size_t m = f->frequencies;
    if (f->function->flat) {
        double weight = f->weights ? (double)f->weights[i] : 1;
        double trace = 0.5 * (a[2 * m + i] * b[2 * m + i] + a[i] * b[i] + a[m + i] * b[m + i]);
        return 0.5 * log(fmax(0, trace)) + 2 * log(weight);
    }
    if (f->function->per_frequency == 1) return 0.5 * (a[i] + b[i]);
    double first = a[i] + b[i], second = a[m + i] + b[m + i], mixed = a[2 * m + i] + b[2 * m + i];
    double top = fmax(fmax(first, second), mixed);
    if (!isfinite(first + second + mixed)) return 0.5 * (first + second + mixed);
    return 0.5 * (top + log(exp(first - top) + exp(second - top) + 2 * exp(mixed - top)));
}

bo_status bo_features_log_scores(bo_context *context, const bo_features *f, const bo_feature_sample *q,
                                 const bo_feature_sample *k, double *log_scores)
{
    size_t m = f->frequencies, count = moment_count(f) * m;
    bool same = q->rows == k->rows && q->count == k->count && q->stride == k->stride;
    double *a = bo_alloc_raw(context, 2 * count, sizeof *a, "scores of candidate frequencies");
    if (!a) return BO_MEMORY;
    double *b = same ? a : a + count;
    bo_status status = measure_moments(context, f, q, a);
    if (status == BO_OK && !same) status = measure_moments(context, f, k, b);
    for (size_t i = 0; status == BO_OK && i < m; i++) log_scores[i] = log_score(f, a, b, i);
    bo_free(a);
    return status;
}

/* Computes score[i] ~ √tr(A_i B_i), scaled so that the largest is 1. */
static bo_status optimal_scores(bo_context *context, const bo_features *f, const bo_feature_sample *q,
                                const bo_feature_sample *k, double *score)
{
    double high = -INFINITY;
    BO_TRY(bo_features_log_scores(context, f, q, k, score));
    for (size_t i = 0; i < f->frequencies; i++) high = fmax(high, score[i]);
    for (size_t i = 0; i < f->frequencies; i++) score[i] = high == -INFINITY ? 1 : exp(score[i] - high);
    return BO_OK;
}

/* Computes z_iᵀ (ZZᵀ + λI)⁻¹ z_i = |L⁻¹ z_i|², the form for few rows. z: rows x columns, overwritten. */
static bo_status scores_by_rows(bo_context *context, size_t rows, size_t columns, double lambda, double *z,
                                double *score)
{
    double *g = bo_alloc_raw(context, rows, rows * sizeof *g, "the Gram matrix of leverage scores");
    if (!g) return BO_MEMORY;
    bo_status status = bo_gemm64(context, false, true, rows, rows, columns, 1, z, columns, z, columns, 0, g, rows);
    for (size_t i = 0; i < rows; i++) g[i * rows + i] += lambda;
    if (status == BO_OK) status = bo_cholesky(context, rows, g, rows, NULL);
    if (status == BO_OK) status = bo_solve_lower(context, rows, columns, g, rows, z, columns);
    for (size_t i = 0; i < columns; i++) {
        score[i] = 0;
        for (size_t r = 0; r < rows; r++) score[i] += z[r * columns + i] * z[r * columns + i];
    }
    bo_free(g);
    return status;
}

/* Computes 1 - λ [(ZᵀZ + λI)⁻¹]_ii with the diagonal of the inverse from the columns of L⁻¹, the form for many rows. */
static bo_status scores_by_columns(bo_context *context, size_t rows, size_t columns, double lambda, const double *z,
                                   double *score)
{
    double *g = bo_alloc_raw(context, columns, columns * sizeof *g, "the Gram matrix of leverage scores");
    double *inverse = bo_alloc(context, columns, columns * sizeof *g, "the inverse of leverage scores");
    bo_status status = g && inverse ? BO_OK : BO_MEMORY;
    if (status == BO_OK)
        status = bo_gemm64(context, true, false, columns, columns, rows, 1, z, columns, z, columns, 0, g, columns);
    for (size_t i = 0; status == BO_OK && i < columns; i++) {
        g[i * columns + i] += lambda;
        inverse[i * columns + i] = 1;
    }
    if (status == BO_OK) status = bo_cholesky(context, columns, g, columns, NULL);
    if (status == BO_OK) status = bo_solve_lower(context, columns, columns, g, columns, inverse, columns);
    for (size_t i = 0; status == BO_OK && i < columns; i++) {
        double diagonal = 0;
        for (size_t r = i; r < columns; r++) diagonal += inverse[r * columns + i] * inverse[r * columns + i];
        score[i] = fmax(0, 1 - lambda * diagonal);
    }
    bo_free(g);
    bo_free(inverse);
    return status;
}

/* The score of a frequency is the sum of the scores of its features. */
static bo_status leverage_scores(bo_context *context, const bo_features *f, const bo_feature_sample *sample,
                                 double *score)
{
    size_t rows = sample->count, columns = f->desc.features, m = f->frequencies, dim = f->desc.dim;
    double lambda = f->desc.leverage_lambda;
    double *x = bo_alloc_raw(context, rows * dim, sizeof *x, "the sample in float64");
    double *z = bo_alloc_raw(context, rows, columns * sizeof *z, "candidate features");
    double *each = bo_alloc_raw(context, columns, sizeof *each, "leverage scores");
    bo_status status = x && z && each ? BO_OK : BO_MEMORY;
    for (size_t r = 0; status == BO_OK && r < rows; r++)
        for (size_t j = 0; j < dim; j++) x[r * dim + j] = (double)sample->rows[r * sample->stride + j];
    if (status == BO_OK) status = bo_features_apply_f64(context, f, rows, x, dim, z, columns);
    if (status == BO_OK)
        status = rows <= columns ? scores_by_rows(context, rows, columns, lambda, z, each)
                                 : scores_by_columns(context, rows, columns, lambda, z, each);
    for (size_t i = 0; status == BO_OK && i < m; i++) {
        score[i] = 0;
        for (size_t part = i; part < columns; part += m) score[i] += each[part];
    }
    bo_free(x);
    bo_free(z);
    bo_free(each);
    return status;
}

/* ---- choice ------------------------------------------------------------------------------------------------------ */

static bo_status to_probabilities(bo_context *context, size_t count, double *score)
{
    double sum = 0;
    for (size_t i = 0; i < count; i++) sum += score[i];
    if (!(sum > 0) || !isfinite(sum))
        return bo_fail(
            context, BO_NUMERIC,
            "the scores of %zu candidate frequencies sum to %g: the sample contains NaN, infinity, or values too "
            "large for this kernel",
            count, sum);
    for (size_t i = 0; i < count; i++) score[i] = (1 - even_share) * score[i] / sum + even_share / (double)count;
    return BO_OK;
}

/* Systematic resampling: points at distance 1/kept, shifted by one uniform offset. */
static void choose(bo_features *features, const bo_features *candidates, const double *probability)
{
    size_t dim = features->desc.dim, kept = features->frequencies, count = candidates->frequencies, i = 0;
    bo_rng rng = bo_rng_make(features->desc.seed, bo_rng_stream("features.choice", 0));
    double offset = bo_rng_uniform(&rng), reached = probability[0];
    float *weights = features->chosen ? features->chosen : features->weights;
    for (size_t k = 0; k < kept; k++) {
        double tooth = ((double)k + offset) / (double)kept;
        while (reached < tooth && i + 1 < count) reached += probability[++i];
        memcpy(features->w + k * dim, candidates->w + i * dim, dim * sizeof(float));
        weights[k] = (float)sqrt(1 / ((double)count * probability[i]));
        if (features->bias) features->bias[k] = candidates->bias[i];
    }
}

static bo_status make_candidates(bo_context *context, const bo_features *features, const float *proposal,
                                 bo_features **out)
{
    bo_features_desc desc = features->desc;
    desc.features = desc.candidates * (features->desc.features / features->frequencies);
    BO_TRY(bo_features_begin(context, &desc, out));
    BO_TRY(bo_proposal_draw(context, *out, proposal));
    /* exponential functions have offsets to compute */
    return features->function->exponential ? bo_features_finish(context, *out) : BO_OK;
}

/* Allocates the arrays of the kept frequencies. */
static bo_status prepare(bo_context *context, bo_features *features, const float *proposal)
{
    size_t kept = features->frequencies;
    features->w = bo_alloc_raw(context, kept * features->desc.dim, sizeof(float), "frequencies");
    features->weights = bo_alloc_raw(context, kept, sizeof(float), "importance weights");
    if (!features->w || !features->weights) return BO_MEMORY;
    if (proposal) {
        features->chosen = bo_alloc_raw(context, kept, sizeof(float), "importance weights");
        if (!features->chosen) return BO_MEMORY;
        BO_TRY(bo_proposal_keep(context, features, proposal));
    }
    return features->function->prepare ? features->function->prepare(context, features) : BO_OK;
}

bo_status bo_features_select(bo_context *context, bo_features *features, const float *proposal,
                             const bo_feature_sample *q, const bo_feature_sample *k)
{
    size_t count = features->desc.candidates;
    bo_features *candidates = NULL;
    double *score = bo_alloc_raw(context, count, sizeof *score, "scores of candidate frequencies");
    bo_status status = score ? prepare(context, features, proposal) : BO_MEMORY;
    if (status == BO_OK) status = make_candidates(context, features, proposal, &candidates);
    if (status == BO_OK)
        status = features->desc.sampling == BO_SAMPLING_OPTIMAL ? optimal_scores(context, candidates, q, k, score)
                                                                : leverage_scores(context, candidates, q, score);
    if (status == BO_OK) status = to_probabilities(context, count, score);
    if (status == BO_OK) choose(features, candidates, score);
    bo_features_destroy(candidates);
    bo_free(score);
    return status;
}
