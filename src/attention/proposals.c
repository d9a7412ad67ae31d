/* Moments of the data, and data-dependent distributions of frequencies. */
#include <math.h>
#include <string.h>
#include "../math/linalg.h"
#include "../math/metric.h"
#include "dark.h"

/* ---- moments ----------------------------------------------------------------------------------------------------- */

/* Moments of the rows of q or k, in float64. */

enum { BLOCK = BO_SIZE(256, 4) }; /* rows per transform */

/* ---- rows -------------------------------------------------------------------------------------------------------- */

bo_side bo_side_queries(const bo_call *call, const float *q, size_t first_key_head, size_t key_heads)
{
    const bo_attention *a = call->attention;
    return (bo_side){.call = call,
                     .array = q,
                     .name = "q",
                     .heads = a->desc.heads,
                     .first = first_key_head * a->group,
                     .count = key_heads * a->group,
                     .dim = a->desc.dim,
                     .width = a->desc.dim,
                     .step = 1};
}

bo_side bo_side_keys(const bo_call *call, const float *k, size_t first_key_head, size_t key_heads)
{
    return (bo_side){.call = call,
                     .array = k,
                     .name = "k",
                     .heads = call->attention->desc.key_heads,
                     .first = first_key_head,
                     .count = key_heads,
                     .dim = call->attention->desc.dim,
                     .keys = true,
                     .width = call->attention->desc.dim,
                     .step = 1};
}

static size_t tokens_of(const bo_side *side, size_t sequence)
{
    const bo_sequence *s = side->call->sequences + sequence;
    return ((side->keys ? s->keys : s->queries) + side->step - 1) / side->step;
}

size_t bo_side_rows(const bo_side *side)
{
    size_t tokens = 0;
    for (size_t s = 0; s < side->call->shape->sequences; s++) tokens += tokens_of(side, s);
    return side->count * tokens;
}

static bo_rows rows_of(const bo_side *side, size_t sequence, size_t head)
{
    bo_rows rows = bo_rows_at(side->call, side->array, side->heads, side->dim, side->keys, sequence, head);
    rows.stride *= side->step;
    return rows;
}

/* Returns transformed rows of a head: in place without a transform, else computed in t (rows x width). */
static const float *through_transform(const bo_side *side, size_t head, size_t rows, const float *x, size_t ldx,
                                      float *t, size_t *ldt)
{
    *ldt = ldx;
    if (!side->transforms) return x;
    const bo_row_transform *transform = side->transforms + (side->keys ? head : head / side->call->attention->group);
    return bo_row_transform_forward(transform, side->keys ? BO_OF_KEYS : BO_OF_QUERIES, rows, x, ldx, t, ldt);
}

void bo_side_spread(const bo_side *side, size_t count, double offset, float *out)
{
    size_t total = bo_side_rows(side), copied = 0, before = 0, ld;
    for (size_t s = 0; s < side->call->shape->sequences; s++)
        for (size_t h = side->first; h < side->first + side->count; h++) {
            bo_rows rows = rows_of(side, s, h);
            size_t tokens = tokens_of(side, s);
            for (; copied < count; copied++) {
                size_t at = (size_t)((double)total * ((double)copied + offset) / (double)count) - before;
                if (at >= tokens) break;
                float *to = out + copied * side->width;
                const float *row = through_transform(side, h, 1, rows.at + at * rows.stride, side->dim, to, &ld);
                if (row != to) memcpy(to, row, side->width * sizeof *out);
            }
            before += tokens;
        }
}

size_t bo_side_sample(const bo_side *side, size_t max_rows, float *out)
{
    size_t rows = bo_min(bo_side_rows(side), max_rows);
    bo_side_spread(side, rows, 0.5, out);
    return rows;
}

/* ---- moments ----------------------------------------------------------------------------------------------------- */

void bo_second_moments_free(bo_second_moments *moments)
{
    bo_free(moments->mean);
    bo_free(moments->second);
    *moments = (bo_second_moments){0};
}

/* Fails with the position of the NaN or infinity that made a sum NaN or infinite. */
static bo_status locate_nonfinite(bo_context *context, const bo_side *side)
{
    for (size_t s = 0; s < side->call->shape->sequences; s++)
        for (size_t h = side->first; h < side->first + side->count; h++) {
            bo_rows rows = rows_of(side, s, h);
            for (size_t t = 0; t < tokens_of(side, s); t++)
                for (size_t j = 0; j < side->dim; j++)
                    if (!isfinite(rows.at[t * rows.stride + j]))
                        return bo_fail(context, BO_NUMERIC, BO_NOT_FINITE, side->name,
                                       (double)rows.at[t * rows.stride + j], s, h, t * side->step, j);
        }
    return bo_fail(context, BO_NUMERIC, "the second moments of %s are not finite", side->name);
}

/* Adds x and x xᵀ of rows after the transform; t: BLOCK x width. */
static bo_status add_rows(bo_context *context, const bo_side *side, float *t, bo_second_moments *m)
{
    size_t width = side->width, ld;
    for (size_t s = 0; s < side->call->shape->sequences; s++)
        for (size_t h = side->first; h < side->first + side->count; h++) {
            bo_rows rows = rows_of(side, s, h);
            size_t tokens = tokens_of(side, s), step = side->transforms ? BLOCK : tokens;
            for (size_t first = 0; first < tokens; first += step) {
                size_t count = bo_min(step, tokens - first);
                const float *x = through_transform(side, h, count, rows.at + first * rows.stride, rows.stride, t, &ld);
                BO_TRY(bo_gram(context, width, count, x, ld, m->second, width, true));
                for (size_t r = 0; r < count; r++)
                    for (size_t j = 0; j < width; j++) m->mean[j] += (double)x[r * ld + j];
            }
        }
    return BO_OK;
}

bo_status bo_second_moments_alloc(bo_context *context, size_t width, bo_second_moments *out)
{
    out->mean = bo_alloc(context, width, sizeof *out->mean, "moments of rows");
    out->second = bo_alloc(context, width, width * sizeof *out->second, "moments of rows");
    return out->mean && out->second ? BO_OK : BO_MEMORY;
}

bo_status bo_second_moments_measure(bo_context *context, const bo_side *side, double scale, bo_second_moments *out)
{
    size_t width = side->width, rows = bo_side_rows(side);
    *out = (bo_second_moments){0};
    if (rows == 0) return bo_fail(context, BO_INVALID, "moments of %s: there are no rows", side->name);
    BO_TRY(bo_second_moments_alloc(context, width, out));
    float *t = bo_alloc_raw(context, side->transforms ? BLOCK * width : 0, sizeof *t, "moments of rows");
    bo_status status = t ? add_rows(context, side, t, out) : BO_MEMORY;
    bo_free(t);
    if (status != BO_OK) return status;
    bo_symmetrize(context, width, out->second, width);
    if (!isfinite(bo_second_moments_norm(width, out))) return locate_nonfinite(context, side);
    for (size_t j = 0; j < width; j++) out->mean[j] *= sqrt(scale) / (double)rows;
    for (size_t i = 0; i < width * width; i++) out->second[i] *= scale / (double)rows;
    return BO_OK;
}

bo_status bo_second_moments_eigenvalues(bo_context *context, size_t dim, const bo_second_moments *q,
                                        const bo_second_moments *k, double *values)
{
    double *mean = bo_alloc_raw(context, dim, dim * sizeof *mean, "eigenvalues");
    if (!mean) return BO_MEMORY;
    for (size_t i = 0; i < dim * dim; i++) mean[i] = 0.5 * (q->second[i] + k->second[i]);
    bo_status status = bo_eigen(context, dim, mean, dim, values);
    for (size_t i = 0; i < dim; i++) values[i] = fmax(0, values[i]); /* rounding may make it slightly negative */
    bo_free(mean);
    return status;
}

double bo_second_moments_norm(size_t dim, const bo_second_moments *moments)
{
    double sum = 0;
    for (size_t j = 0; j < dim; j++) sum += moments->second[j * dim + j];
    return sum;
}

static double dot(size_t dim, const double *a, const double *b)
{
    double sum = 0;
    for (size_t j = 0; j < dim; j++) sum += a[j] * b[j];
    return sum;
}

double bo_second_moments_mean_share(size_t dim, const bo_second_moments *q, const bo_second_moments *k)
{
    double total = bo_second_moments_norm(dim, q) + bo_second_moments_norm(dim, k);
    return total > 0 ? (dot(dim, q->mean, q->mean) + dot(dim, k->mean, k->mean)) / total : 0;
}

/* Returns the mean of |x + y|² over independent x and y. */
static double second_moments_pair_norm(size_t dim, const bo_second_moments *q, const bo_second_moments *k)
{
    return bo_second_moments_norm(dim, q) + bo_second_moments_norm(dim, k) + 2 * dot(dim, q->mean, k->mean);
}

/* ---- the distribution of minimum variance ------------------------------------------------------------------------ */

typedef struct work {
    double *vectors, *values, *part;
} work;

/* precision -= 2Λ(I + 2Λ)⁻¹ */
static bo_status lower_precision(bo_context *context, size_t dim, const double *lambda, const work *w,
                                 double *precision)
{
    BO_TRY(bo_eigen_of(context, dim, lambda, w->vectors, w->values));
    for (size_t i = 0; i < dim; i++) {
        double value = fmax(0, w->values[i]); /* rounding may make it slightly negative */
        w->values[i] = 2 * value / (1 + 2 * value);
    }
    bo_eigen_compose(dim, w->vectors, w->values, w->part);
    for (size_t i = 0; i < dim * dim; i++) precision[i] -= w->part[i];
    return BO_OK;
}

/* Computes the results from the eigenvalues p of P. Stores the eigenvalues of C in `w->values`. */
static void clip_eigenvalues(size_t dim, const work *w, bo_law *law)
{
    double isotropic = 0, proposal = 0;
    law->isotropic_finite = law->proposal_finite = true;
    for (size_t i = 0; i < dim; i++) {
        double p = w->values[i], c = fmax(p, BO_MIN_PRECISION);
        law->clipped += c > p;
        law->isotropic_finite &= 2 * p > 1;
        law->proposal_finite &= 2 * p > c;
        isotropic -= 0.5 * log(2 * p - 1);
        proposal -= 0.5 * (log(c) + log(2 * p - c));
        law->log_det += log(c);
        w->values[i] = c;
    }
    if (!law->isotropic_finite) isotropic = INFINITY;
    law->log_gain = law->proposal_finite ? isotropic - proposal : NAN;
}

static bo_status compute_law(bo_context *context, size_t dim, const double *lambda_q, const double *lambda_k,
                             const work *w, bo_law *law)
{
    for (size_t j = 0; j < dim; j++) law->shape[j * dim + j] = 1;
    BO_TRY(lower_precision(context, dim, lambda_q, w, law->shape));
    BO_TRY(lower_precision(context, dim, lambda_k, w, law->shape));
    BO_TRY(bo_eigen_of(context, dim, law->shape, w->vectors, w->values));
    clip_eigenvalues(dim, w, law);
    bo_eigen_compose(dim, w->vectors, w->values, law->shape);
    for (size_t i = 0; i < dim; i++) w->values[i] = 1 / sqrt(w->values[i]);
    bo_eigen_compose(dim, w->vectors, w->values, law->root);
    return BO_OK;
}

bo_status bo_law_make(bo_context *context, size_t dim, const double *lambda_q, const double *lambda_k, bo_law *out)
{
    *out = (bo_law){0};
    out->root = bo_alloc(context, dim, dim * sizeof *out->root, "the distribution of frequencies");
    out->shape = bo_alloc(context, dim, dim * sizeof *out->shape, "the distribution of frequencies");
    double *buffer = bo_alloc_raw(context, dim * (2 * dim + 1), sizeof *buffer, "the distribution of frequencies");
    bo_status status = BO_MEMORY;
    if (out->root && out->shape && buffer) {
        work w = {buffer, buffer + 2 * dim * dim, buffer + dim * dim};
        status = compute_law(context, dim, lambda_q, lambda_k, &w, out);
    }
    bo_free(buffer);
    if (status != BO_OK) bo_law_free(out);
    return status;
}

void bo_law_free(bo_law *law)
{
    bo_free(law->root);
    bo_free(law->shape);
    *law = (bo_law){0};
}

/* ---- proposals --------------------------------------------------------------------------------------------------- */

/* The distributions from which frequencies of positive features are drawn, given statistics of the data. With f(w, x) =
 * D exp(wᵀA w + wᵀB x - |x|²/2), w ~ N(0, I), B = (I - 4A)^½ and D = |I - 4A|^¼ the estimate of exp(x·y) is unbiased
 * for every symmetric A < I/8 (Likhosherstov et al., arXiv 2205.15317 and 2302.00787). This is equivalent to drawing w'
 * = B w ~ N(0, I - 4A) with the weight √(p/q)(w') = |B|^½ exp((|w|² - |w'|²)/4) = D exp(wᵀA w): a proposal with R =
 * B. */

/* Returns the optimal A in `d` dimensions in which |x + y|² has the mean z2: never positive. */
static double best_a(double d, double z2)
{
    return (d - 2 * z2 - sqrt((2 * z2 + d) * (2 * z2 + d) + 8 * d * z2)) / (16 * d);
}

/* FAVOR++: the same A for all directions. */
static void oprf_root(size_t dim, const bo_second_moments *q, const bo_second_moments *k, double *root)
{
    double b = sqrt(1 - 4 * best_a((double)dim, fmax(0, second_moments_pair_norm(dim, q, k))));
    memset(root, 0, dim * dim * sizeof *root);
    for (size_t j = 0; j < dim; j++) root[j * dim + j] = b;
}

/* FAVOR#: one A per principal direction of x + y, E (x + y)(x + y)ᵀ = Λ_q + Λ_k + μ_q μ_kᵀ + μ_k μ_qᵀ. */
static bo_status sderf_root(bo_context *context, size_t dim, const bo_second_moments *q, const bo_second_moments *k,
                            double *root)
{
    double *vectors = bo_alloc_raw(context, dim * (dim + 1), sizeof *vectors, "the directions of a proposal");
    if (!vectors) return BO_MEMORY;
    double *values = vectors + dim * dim;
    for (size_t i = 0; i < dim; i++)
        for (size_t j = 0; j < dim; j++)
            root[i * dim + j] =
                q->second[i * dim + j] + k->second[i * dim + j] + q->mean[i] * k->mean[j] + k->mean[i] * q->mean[j];
    bo_status status = bo_eigen_of(context, dim, root, vectors, values);
    for (size_t i = 0; status == BO_OK && i < dim; i++) values[i] = sqrt(1 - 4 * best_a(1, fmax(0, values[i])));
    if (status == BO_OK) bo_eigen_compose(dim, vectors, values, root);
    bo_free(vectors);
    return status;
}

bo_status bo_proposal_root(bo_context *context, bo_proposal proposal, size_t dim, const bo_second_moments *q,
                           const bo_second_moments *k, double *root)
{
    bo_law law;
    switch (proposal) {
    case BO_PROPOSAL_OPRF:
        oprf_root(dim, q, k, root);
        return BO_OK;
    case BO_PROPOSAL_SDERF:
        return sderf_root(context, dim, q, k, root);
    default:
        BO_TRY(bo_law_make(context, dim, q->second, k->second, &law));
        memcpy(root, law.root, dim * dim * sizeof *root);
        bo_law_free(&law);
        return BO_OK;
    }
}
