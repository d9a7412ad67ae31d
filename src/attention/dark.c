/* Data-dependent parameters of DARK (Farzam et al., arXiv 2603.04127): a whitening matrix M, and frequencies. */
#include <math.h>
#include <string.h>
#include "../features/enums.h"
#include "enums.h"
#include "../features/propose.h"
#include "../math/metric.h"
#include "dark.h"

static bo_status check_keys(bo_context *context, const char *what, const bo_attention_shape *shape)
{
    if (shape->no_keys) return bo_fail(context, BO_INVALID, "%s needs keys; the shape has none", what);
    return BO_OK;
}

/* Moments of q and of k. */
typedef struct moments_pair {
    bo_second_moments q, k;
} moments_pair;

static bo_status measure(bo_context *context, const bo_call *call, const float *q, const float *k, double scale,
                         size_t first, size_t count, moments_pair *out)
{
    bo_side queries = bo_side_queries(call, q, first, count), keys = bo_side_keys(call, k, first, count);
    *out = (moments_pair){0};
    BO_TRY(bo_second_moments_measure(context, &queries, scale, &out->q));
    return bo_second_moments_measure(context, &keys, scale, &out->k);
}

static void free_pair(moments_pair *moments)
{
    bo_second_moments_free(&moments->q);
    bo_second_moments_free(&moments->k);
}

/* ---- whitening --------------------------------------------------------------------------------------------------- */

/* Off-diagonal covariances are reduced by the fraction `shrinkage`, and `ridge` times the mean variance is added to the
 * diagonal. The matrix is then invertible even with few rows or with directions of zero variance. */
static const double shrinkage = 0.01, ridge = 1e-4;

/* Computes the mean of the covariances of q and of k, each centered, with shrinkage. *variance: mean of its diagonal
 * before shrinkage. */
static void pooled_covariance(size_t dim, const moments_pair *m, double *out, double *variance)
{
    *variance = 0;
    for (size_t i = 0; i < dim; i++)
        for (size_t j = 0; j < dim; j++) {
            double q = m->q.second[i * dim + j] - m->q.mean[i] * m->q.mean[j];
            double k = m->k.second[i * dim + j] - m->k.mean[i] * m->k.mean[j];
            out[i * dim + j] = 0.5 * (q + k) * (i == j ? 1 : 1 - shrinkage);
            if (i == j) *variance += 0.5 * (q + k) / (double)dim;
        }
    for (size_t j = 0; j < dim; j++) out[j * dim + j] += ridge * *variance;
}

/* Returns uᵀSu, where S is the mean of the second moments: the mean square of the data along u. */
static double energy_along(size_t dim, const moments_pair *m, const double *u)
{
    double sum = 0;
    for (size_t i = 0; i < dim; i++)
        for (size_t j = 0; j < dim; j++)
            sum += 0.5 * (m->q.second[i * dim + j] + m->k.second[i * dim + j]) * u[i] * u[j];
    return sum;
}

/* Returns the amount for which |Mx|² and |x|² have equal means over the data; M has the `rank` leading directions. */
static double default_amount(size_t dim, size_t rank, const moments_pair *m, const double *vectors,
                             const double *values)
{
    double before = 0, after = 0;
    for (size_t i = 0; i < dim; i++) {
        double energy = energy_along(dim, m, vectors + i * dim);
        before += energy;
        if (i >= dim - rank) after += energy / values[i];
    }
    return sqrt(before / after);
}

static bo_status whiten_head(bo_context *context, const bo_attention *attention, const moments_pair *moments,
                             size_t key_head, double amount, double *buffer, float *m)
{
    size_t dim = attention->desc.dim, rank = attention->desc.rank;
    double *covariance = buffer, *vectors = covariance + dim * dim, *values = vectors + dim * dim, variance;
    pooled_covariance(dim, moments, covariance, &variance);
    if (!(variance > 0))
        return bo_fail(context, BO_NUMERIC, "whitening: q and k of key head %zu are constant", key_head);
    BO_TRY(bo_eigen_of(context, dim, covariance, vectors, values));
    if (amount == 0) amount = default_amount(dim, rank, moments, vectors, values);
    for (size_t i = 0; i < dim; i++) values[i] = amount / sqrt(values[i]);
    bo_metric_write(dim, rank, vectors, values, covariance, m + key_head * rank * dim);
    return BO_OK;
}

static bo_status whiten(bo_context *context, const bo_call *call, const float *q, const float *k, double amount,
                        float *m)
{
    const bo_attention *attention = call->attention;
    size_t dim = attention->desc.dim;
    double *buffer = bo_alloc_raw(context, dim * (2 * dim + 1), sizeof *buffer, "whitening");
    if (!buffer) return BO_MEMORY;
    bo_status status = BO_OK;
    for (size_t h = 0; status == BO_OK && h < attention->desc.key_heads; h++) {
        moments_pair moments;
        status = measure(context, call, q, k, 1, h, 1, &moments);
        if (status == BO_OK) status = whiten_head(context, attention, &moments, h, amount, buffer, m);
        free_pair(&moments);
    }
    bo_free(buffer);
    return status;
}

bo_status bo_attention_whiten_arrays(bo_context *context, const bo_attention *attention,
                                     const bo_attention_shape *shape, const float *q, const float *k, double amount,
                                     float *m)
{
    BO_REQUIRE(context, attention, shape, q, k, m);
    if (!(attention->traits & BO_TRAIT_MATRIX))
        return bo_fail(context, BO_INVALID, "whitening: expected kind dark, or hybrid with a rank, found %s",
                       bo_attention_kind_name(attention->desc.kind));
    if (!(amount >= 0 && isfinite(amount)))
        return bo_fail(context, BO_INVALID, "whitening: amount must be positive (0: the default), found %g", amount);
    BO_TRY(check_keys(context, "whitening", shape));
    bo_geometry geometry;
    BO_TRY(bo_geometry_make(context, attention, shape, &geometry));
    bo_call call = bo_layout_of(attention, shape, &geometry);
    bo_status status = whiten(context, &call, q, k, amount, m);
    bo_geometry_free(&geometry);
    return status;
}

/* ---- the proposal ------------------------------------------------------------------------------------------------ */

/* Computes E[(xᵀΛ⁻¹x)²] / (r(r + 2)) over a sample of a side, r the rank of Λ: 1 for Gaussian rows (Mardia 1970). */
static bo_status normality(bo_context *context, const bo_side *side, double scale, const bo_second_moments *m,
                           double *out)
{
    enum { ROWS = 4096 };
    size_t dim = side->dim, rank = 0;
    float *x = bo_alloc_raw(context, ROWS * dim, sizeof *x, "a sample of rows");
    double *vectors = bo_alloc_raw(context, dim * (dim + 1), sizeof *vectors, "a sample of rows");
    double *values = vectors ? vectors + dim * dim : NULL, sum = 0;
    bo_status status = x && vectors ? bo_eigen_of(context, dim, m->second, vectors, values) : BO_MEMORY;
    size_t rows = status == BO_OK ? bo_side_sample(side, ROWS, x) : 0;
    for (size_t r = 0; r < rows; r++) {
        double distance = 0;
        rank = 0;
        for (size_t i = 0; i < dim; i++) {
            if (values[i] <= 1e-9 * values[dim - 1]) continue;
            double along = 0;
            for (size_t j = 0; j < dim; j++) along += vectors[i * dim + j] * (double)x[r * dim + j];
            distance += scale * along * along / values[i];
            rank++;
        }
        sum += distance * distance;
    }
    *out = rank ? sum / (double)rows / (double)(rank * (rank + 2)) : 1;
    bo_free(x);
    bo_free(vectors);
    return status;
}

static double mismatch(size_t dim, const moments_pair *m)
{
    double difference = 0, sum = 0;
    for (size_t i = 0; i < dim * dim; i++) {
        double q = m->q.second[i], k = m->k.second[i];
        difference += (q - k) * (q - k);
        sum += (q + k) * (q + k);
    }
    return sum > 0 ? sqrt(difference / sum) : 0;
}

static bo_status extremes(bo_context *context, size_t dim, const moments_pair *m, double *smallest, double *largest)
{
    double *values = bo_alloc_raw(context, dim, sizeof *values, "eigenvalues");
    if (!values) return BO_MEMORY;
    bo_status status = bo_second_moments_eigenvalues(context, dim, &m->q, &m->k, values);
    if (status == BO_OK) {
        *smallest = values[0];
        *largest = values[dim - 1];
    }
    bo_free(values);
    return status;
}

/* Stores the report of the key head with the largest eigenvalue. Clipped eigenvalues are counted over all heads. */
static bo_status report_head(bo_context *context, const bo_call *call, const float *q, const float *k, size_t first,
                             size_t count, const moments_pair *m, const bo_law *law, bo_proposal_report *report)
{
    const bo_attention_desc *desc = &call->attention->desc;
    double smallest, largest, normal_q, normal_k;
    report->clipped += law->clipped;
    BO_TRY(extremes(context, desc->dim, m, &smallest, &largest));
    if (first > 0 && largest <= report->largest) return BO_OK;
    bo_side queries = bo_side_queries(call, q, first, count), keys = bo_side_keys(call, k, first, count);
    BO_TRY(normality(context, &queries, desc->scale, &m->q, &normal_q));
    BO_TRY(normality(context, &keys, desc->scale, &m->k, &normal_k));
    *report = (bo_proposal_report){.key_head = first,
                                   .largest = largest,
                                   .smallest = smallest,
                                   .mean_share = bo_second_moments_mean_share(desc->dim, &m->q, &m->k),
                                   .mismatch = mismatch(desc->dim, m),
                                   .normality = fmax(normal_q, normal_k),
                                   .isotropic_finite = law->isotropic_finite,
                                   .proposal_finite = law->proposal_finite,
                                   .clipped = report->clipped,
                                   .log_gain = law->log_gain};
    return BO_OK;
}

/* Computes the distributions: one if all key heads share one draw. */
static bo_status make_laws(bo_context *context, const bo_call *call, const float *q, const float *k, size_t maps,
                           bo_law *laws, bo_proposal_report *report)
{
    const bo_attention_desc *desc = &call->attention->desc;
    size_t count = desc->key_heads / maps;
    for (size_t h = 0; h < maps; h++) {
        moments_pair moments;
        bo_status status = measure(context, call, q, k, desc->scale, h * count, count, &moments);
        if (status == BO_OK) status = bo_law_make(context, desc->dim, moments.q.second, moments.k.second, laws + h);
        if (status == BO_OK) status = report_head(context, call, q, k, h * count, count, &moments, laws + h, report);
        free_pair(&moments);
        BO_TRY(status);
    }
    return BO_OK;
}

/* Replaces all maps; on failure, none. */
static bo_status use_laws(bo_context *context, bo_attention *attention, size_t maps, const bo_law *laws)
{
    bo_features **fresh = bo_alloc(context, maps, sizeof *fresh, "maps of a proposal");
    bo_status status = fresh ? BO_OK : BO_MEMORY;
    for (size_t h = 0; status == BO_OK && h < maps; h++) {
        bo_frequency_origin origin = {.seed = bo_features_describe(attention->features[h])->seed,
                                      .factor = laws[h].root};
        status = bo_features_like(context, attention->features[h], &origin, &fresh[h]);
    }
    for (size_t h = 0; fresh && h < maps; h++) {
        if (status == BO_OK) bo_features_exchange(attention->features[h], fresh[h]);
        bo_features_destroy(fresh[h]);
    }
    bo_free(fresh);
    if (status != BO_OK) return status;
    attention->ready = true;
    bo_attention_refresh(attention);
    return BO_OK;
}

static void warn(bo_context *context, const bo_proposal_report *r)
{
    if (r->clipped)
        bo_log(context, BO_LOG_WARNING,
               "proposal: %zu eigenvalues of the precision were raised to %g, because the norms of the data are too "
               "large for the optimal distribution to exist (largest eigenvalue %.3g, key head %zu; it must be below "
               "0.45)",
               r->clipped, BO_MIN_PRECISION, r->largest, r->key_head);
    if (r->mean_share > BO_CENTERED_SHARE)
        bo_log(context, BO_LOG_WARNING,
               "proposal: the mean is %.0f%% of the second moment of q and k; the theory assumes 0",
               100 * r->mean_share);
}

static bo_status check_proposal(bo_context *context, const bo_attention *attention)
{
    const bo_attention_desc *desc = &attention->desc;
    if (!(attention->traits & BO_TRAIT_PROPOSE))
        return bo_fail(context, BO_INVALID, "proposal: expected kind favor or dark, found %s",
                       bo_attention_kind_name(desc->kind));
    if (desc->features.function != BO_FUNCTION_POSITIVE)
        return bo_fail(context, BO_INVALID, "proposal: expected function positive, found %s",
                       bo_function_name(desc->features.function));
    if (desc->features.dim != desc->dim)
        return bo_fail(context, BO_INVALID, "proposal: M must have full rank (dim %zu), found rank %zu", desc->dim,
                       desc->features.dim);
    if (bo_features_describe(attention->features[0])->length_scales)
        return bo_fail(context, BO_INVALID, "proposal: features with length scales are not supported");
    if (desc->features.sampling != BO_SAMPLING_DRAWN ||
        (desc->proposal != BO_PROPOSAL_NONE && desc->proposal != BO_PROPOSAL_GAUSSIAN))
        return bo_fail(
            context, BO_INVALID,
            "proposal: expected proposal gaussian and sampling drawn, found %s and %s (use bo_calibration_apply)",
            bo_proposal_name(desc->proposal), bo_sampling_name(desc->features.sampling));
    return BO_OK;
}

bo_status bo_attention_propose_arrays(bo_context *context, bo_attention *attention, const bo_attention_shape *shape,
                                      const float *q, const float *k, bo_proposal_report *out)
{
    BO_REQUIRE(context, attention, shape, q, k);
    bo_proposal_report report = {0};
    BO_TRY(check_proposal(context, attention));
    BO_TRY(check_keys(context, "a proposal", shape));
    size_t maps = attention->desc.one_draw ? 1 : attention->desc.key_heads;
    bo_geometry geometry;
    BO_TRY(bo_geometry_make(context, attention, shape, &geometry));
    bo_call call = bo_layout_of(attention, shape, &geometry);
    bo_law *laws = bo_alloc(context, maps, sizeof *laws, "distributions of frequencies");
    bo_status status = laws ? make_laws(context, &call, q, k, maps, laws, &report) : BO_MEMORY;
    if (status == BO_OK) status = use_laws(context, attention, maps, laws);
    for (size_t h = 0; laws && h < maps; h++) bo_law_free(laws + h);
    bo_free(laws);
    bo_geometry_free(&geometry);
    if (status != BO_OK) return status;
    warn(context, &report);
    if (out) *out = report;
    return BO_OK;
}
