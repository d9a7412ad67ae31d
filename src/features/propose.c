/* Replaces the frequencies of a map. With w = R w₀, w₀ ~ N(0, I), the density of w is q = N(0, Σ), Σ = R Rᵀ. A feature
 * is multiplied by the square root of p/q, p = N(0, I), since it appears twice in φ(x)·φ(y) = ∫ q (p/q) f(x) f(y):
 *   log √(p/q)(w) = ½ log |det R| + ¼ (wᵀ Σ⁻¹ w - |w|²).
 * For q, k ~ N(0, Λ) the variance is smallest for Σ = (I + 2Λ)(I - 2Λ)⁻¹. Exponents may leave the range of float
 * (weights of w with 64 coordinates at ten times the variance are about 1e-47). The map therefore computes with the
 * logarithms of the weights, which are recomputed from R and w when these change. */
#include <math.h>
#include <string.h>
#include "enums.h"
#include "internal.h"
#include "propose.h"

/* ---- weights and variance ---------------------------------------------------------------------------------------- */

/* Computes L (dim x dim) with L Lᵀ = R Rᵀ. */
static bo_status factorize(bo_context *context, const bo_features *f, double *l)
{
    size_t dim = f->desc.dim;
    for (size_t i = 0; i < dim; i++)
        for (size_t j = i; j < dim; j++) {
            double sum = 0;
            for (size_t k = 0; k < dim; k++) sum += (double)f->proposal[i * dim + k] * (double)f->proposal[j * dim + k];
            l[i * dim + j] = sum;
        }
    return bo_cholesky(context, dim, l, dim, NULL);
}

bo_status bo_proposal_weights(bo_context *context, const bo_features *features, const double *w, double *log_weight)
{
    size_t m = features->frequencies, dim = features->desc.dim;
    double *l = bo_alloc_raw(context, dim * dim, sizeof *l, "the covariance of a proposal");
    double *white =
        bo_alloc_raw(context, m * dim, sizeof *white, "the whitened frequencies of a proposal"); /* L⁻¹ Wᵀ */
    bo_status status = l && white ? factorize(context, features, l) : BO_MEMORY;
    for (size_t i = 0; status == BO_OK && i < m; i++)
        for (size_t j = 0; j < dim; j++) white[j * m + i] = w[i * dim + j];
    if (status == BO_OK) status = bo_solve_lower(context, dim, m, l, dim, white, m);
    for (size_t i = 0; status == BO_OK && i < m; i++) {
        log_weight[i] = 0;
        for (size_t j = 0; j < dim; j++) {
            double before = white[j * m + i], now = w[i * dim + j];
            log_weight[i] += 0.5 * log(l[j * dim + j]) + 0.25 * (before * before - now * now);
        }
    }
    bo_free(l);
    bo_free(white);
    return status;
}

/* Over w ~ N(0, Σ) and with s = t + t', the squared estimate of one frequency has the mean
 *   |Σ|^½ |2I - Σ⁻¹|^-½ exp(2 sᵀ(2I - Σ⁻¹)⁻¹ s - |t|² - |t'|²)
 * if 2Σ > I, and is infinite otherwise. With K Kᵀ = 2LᵀL - I and A = K⁻¹Lᵀ the quadratic form is |A s|² and the factor
 * is |L|² / |K|. */
static bo_status fill_spread(bo_context *context, size_t dim, const double *l, double *k, double *a, double *log_spread)
{
    for (size_t i = 0; i < dim; i++)
        for (size_t j = 0; j < dim; j++) a[i * dim + j] = j < i ? 0 : l[j * dim + i];
    BO_TRY(bo_gemm64(context, false, true, dim, dim, dim, 2, a, dim, a, dim, 0, k, dim));
    for (size_t i = 0; i < dim; i++) k[i * dim + i] -= 1;
    BO_TRY(bo_cholesky(context, dim, k, dim, NULL));
    *log_spread = 0;
    for (size_t i = 0; i < dim; i++) *log_spread += 2 * log(l[i * dim + i]) - log(k[i * dim + i]);
    return bo_solve_lower(context, dim, dim, k, dim, a, dim);
}

bo_status bo_proposal_prepare(bo_context *context, bo_features *features)
{
    size_t dim = features->desc.dim;
    double *l = bo_alloc_raw(context, dim * dim, 2 * sizeof *l, "the covariance of a proposal");
    double *a = bo_alloc_raw(context, dim * dim, sizeof *a, "the variance of a proposal");
    bo_status status = l && a ? factorize(context, features, l) : BO_MEMORY;
    if (status == BO_OK) {
        status = fill_spread(context, dim, l, l + dim * dim, a, &features->log_spread);
        if (status == BO_OK || status == BO_NUMERIC) {
            bo_free(features->spread);
            features->spread = status == BO_OK ? a : NULL;
            status = BO_OK;
        }
    }
    if (features->spread != a) bo_free(a);
    bo_free(l);
    return status;
}

double bo_proposal_variance(const bo_features *features, const bo_pair *pair, const float *x, const float *y)
{
    size_t dim = features->desc.dim;
    double form = 0;
    if (!features->spread) return INFINITY;
    for (size_t i = 0; i < dim; i++) {
        double sum = 0;
        for (size_t j = 0; j < dim; j++)
            sum += features->spread[i * dim + j] * features->factor[j] * ((double)x[j] + (double)y[j]);
        form += sum * sum;
    }
    double excess = features->log_spread + 2 * form - pair->norm_x - pair->norm_y - 2 * pair->dot;
    return exp(2 * pair->dot) * fmax(0, expm1(excess)) / (double)features->frequencies;
}

/* ---- maps derived from other maps -------------------------------------------------------------------------------- */

/* Computes w = R w₀ for all frequencies. */
static bo_status stretch(bo_context *context, bo_features *f)
{
    size_t m = f->frequencies, dim = f->desc.dim;
    double *row = bo_alloc_raw(context, dim, sizeof *row, "a frequency");
    if (!row) return BO_MEMORY;
    for (float *w = f->w; w < f->w + m * dim; w += dim) {
        for (size_t j = 0; j < dim; j++) {
            row[j] = 0;
            for (size_t k = 0; k < dim; k++) row[j] += (double)f->proposal[j * dim + k] * (double)w[k];
        }
        for (size_t j = 0; j < dim; j++) w[j] = (float)row[j];
    }
    bo_free(row);
    return BO_OK;
}

bo_status bo_proposal_keep(bo_context *context, bo_features *features, const float *proposal)
{
    size_t count = features->desc.dim * features->desc.dim;
    features->proposal = bo_alloc_raw(context, count, sizeof(float), "a proposal");
    if (!features->weights)
        features->weights = bo_alloc_raw(context, features->frequencies, sizeof(float), "importance weights");
    if (!features->proposal || !features->weights) return BO_MEMORY;
    memcpy(features->proposal, proposal, count * sizeof(float));
    return BO_OK;
}

bo_status bo_proposal_draw(bo_context *context, bo_features *features, const float *proposal)
{
    BO_TRY(bo_features_draw(context, features));
    if (!proposal) return BO_OK;
    BO_TRY(bo_proposal_keep(context, features, proposal));
    return stretch(context, features);
}

/* Creates the map described by `origin`, without applying the factor. */
static bo_status make_like(bo_context *context, const bo_features *features, const bo_frequency_origin *origin,
                           const float *proposal, bo_features **out)
{
    bo_features_desc desc = features->desc;
    bool choose = origin->q && !features->function->flat;
    size_t per = features->frequencies ? desc.features / features->frequencies : 1;
    desc.seed = origin->seed;
    if (origin->frequencies) desc.features = per * origin->frequencies;
    if (!features->function->flat) desc.sampling = choose ? BO_SAMPLING_OPTIMAL : BO_SAMPLING_DRAWN;
    if (choose) desc.candidates = origin->candidates ? origin->candidates : 8 * (desc.features / per);
    bo_status status = bo_features_begin(context, &desc, out);
    if (status == BO_OK)
        status = choose ? bo_features_select(context, *out, proposal, origin->q, origin->k)
                        : bo_proposal_draw(context, *out, proposal);
    if (status == BO_OK) status = bo_features_finish(context, *out);
    if (status == BO_OK) status = bo_features_set_precision(context, *out, features->precision);
    if (status == BO_OK) return BO_OK;
    bo_features_destroy(*out);
    *out = NULL;
    return status;
}

bo_status bo_features_check_proposal(bo_context *context, const bo_features *features)
{
    if (features->desc.kernel != BO_KERNEL_SOFTMAX || features->desc.function != BO_FUNCTION_POSITIVE)
        return bo_fail(context, BO_UNSUPPORTED,
                       "a proposal requires function positive and kernel softmax, found function %s and kernel %s",
                       features->function->name, bo_kernel_name(features->desc.kernel));
    if (bo_draw_find(features->desc.draw)->structured)
        return bo_fail(
            context, BO_UNSUPPORTED,
            "a proposal cannot be used with draw %s: its frequencies form one fast transform and cannot be multiplied "
            "by a matrix; use orthogonal",
            bo_draw_name(features->desc.draw));
    return BO_OK;
}

static bo_status check_factor(bo_context *context, const bo_features *features, const double *factor)
{
    size_t dim = features->desc.dim;
    BO_TRY(bo_features_check_proposal(context, features));
    for (size_t i = 0; factor && i < dim * dim; i++)
        if (!isfinite((float)factor[i]))
            return bo_fail(context, BO_INVALID, "the proposal's factor, row %zu, column %zu must be finite, found %g",
                           i / dim, i % dim, factor[i]);
    return BO_OK;
}

bo_status bo_features_check_choice(bo_context *context, const bo_features *features, size_t candidates)
{
    if (features->function->flat) return BO_OK;
    if (!features->function->log_product)
        return bo_fail(
            context, BO_UNSUPPORTED, "sampling optimal cannot be used with function %s: %s", features->function->name,
            features->frequencies ? "the energy of its features is not known" : "it has no frequencies to choose");
    if (!features->w)
        return bo_fail(
            context, BO_UNSUPPORTED,
            "sampling optimal cannot be used with draw %s: its frequencies form one fast transform and cannot be "
            "chosen individually; use orthogonal",
            bo_draw_name(features->desc.draw));
    if (!candidates) return BO_OK;
    return bo_candidates_check(context, features->frequencies, features->desc.dim, candidates);
}

static bo_status check_origin(bo_context *context, const bo_features *features, const bo_frequency_origin *origin)
{
    size_t kept = origin->frequencies ? origin->frequencies : features->frequencies;
    if (origin->factor) BO_TRY(check_factor(context, features, origin->factor));
    if (!origin->q) return BO_OK;
    BO_TRY(bo_features_check_choice(context, features, 0));
    if (!origin->candidates) return BO_OK;
    return bo_candidates_check(context, kept, features->desc.dim, origin->candidates);
}

bo_status bo_features_like(bo_context *context, const bo_features *features, const bo_frequency_origin *origin,
                           bo_features **out)
{
    size_t count = origin->factor ? features->desc.dim * features->desc.dim : 0;
    *out = NULL;
    BO_TRY(check_origin(context, features, origin));
    float *proposal = bo_alloc_raw(context, count, sizeof *proposal, "a proposal");
    if (!proposal) return BO_MEMORY;
    for (size_t i = 0; i < count; i++) proposal[i] = (float)origin->factor[i];
    bo_status status = make_like(context, features, origin, count ? proposal : NULL, out);
    bo_free(proposal);
    if (status == BO_NUMERIC && count && !origin->q)
        return bo_fail(context, BO_NUMERIC,
                       "the proposal's factor is singular in float32; the numbers may be too large");
    return status;
}

/* ---- changes in place -------------------------------------------------------------------------------------------- */

void bo_features_exchange(bo_features *a, bo_features *b)
{
    int owners = atomic_load(&a->other_owners), other_count = atomic_load(&b->other_owners);
    const uint64_t version = 1 + (a->version > b->version ? a->version : b->version);
    bo_device_copies *copies = a->copies, *other_copies = b->copies; /* keep their addresses */
    bo_features kept = *a;
    *a = *b;
    *b = kept;
    a->copies = copies, b->copies = other_copies;
    a->version = b->version = version;
    atomic_store(&a->other_owners, owners);
    atomic_store(&b->other_owners, other_count);
}

static void become(bo_features *features, bo_features *fresh)
{
    bo_features_exchange(features, fresh);
    bo_features_destroy(fresh);
}

static bo_status check_drawn(bo_context *context, const bo_features *features)
{
    if (features->landmarks)
        return bo_fail(context, BO_UNSUPPORTED, "landmarks cannot be chosen again: the sample is not kept");
    if (bo_features_resampled(features))
        return bo_fail(context, BO_UNSUPPORTED,
                       "frequencies chosen by sampling %s cannot be redrawn: the sample is not kept",
                       bo_sampling_name(features->desc.sampling));
    return BO_OK;
}

bo_status bo_features_redraw(bo_context *context, bo_features *features, uint64_t seed)
{
    bo_features *fresh;
    BO_TRY(check_drawn(context, features));
    BO_TRY(make_like(context, features, &(bo_frequency_origin){.seed = seed}, features->proposal, &fresh));
    become(features, fresh);
    return BO_OK;
}

bo_status bo_features_propose(bo_context *context, bo_features *features, const double *factor)
{
    bo_features *fresh;
    BO_TRY(check_factor(context, features, factor));
    BO_TRY(check_drawn(context, features));
    BO_TRY(bo_features_like(context, features, &(bo_frequency_origin){.seed = features->desc.seed, .factor = factor},
                            &fresh));
    become(features, fresh);
    return BO_OK;
}

/* ---- queries ----------------------------------------------------------------------------------------------------- */

const float *bo_features_proposal(const bo_features *features)
{
    return features->proposal;
}

bool bo_features_random(const bo_features *features)
{
    return !features->function->exact;
}

bool bo_features_resampled(const bo_features *features)
{
    return features->weights && (!features->proposal || features->chosen);
}

bool bo_features_flat(const bo_features *features)
{
    return features->function->flat;
}
