/* Moments of the rows of q or k, in float64. */
#include <math.h>
#include <string.h>
#include "../math/linalg.h"
#include "dark.h"

/* ---- rows ------------------------------------------------------------------------------------------------------ */

bo_side bo_side_queries(const bo_call *call, const float *q, size_t first_key_head, size_t key_heads)
{
    const bo_attention *a = call->attention;
    return (bo_side){.call = call,
                     .array = q,
                     .name = "q",
                     .heads = a->desc.heads,
                     .first = first_key_head * a->group,
                     .count = key_heads * a->group,
                     .dim = a->desc.dim};
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
                     .keys = true};
}

size_t bo_side_rows(const bo_side *side)
{
    return side->count * (side->keys ? side->call->keys_total : side->call->queries_total);
}

static size_t tokens_of(const bo_side *side, size_t sequence)
{
    const bo_sequence *s = side->call->sequences + sequence;
    return side->keys ? s->keys : s->queries;
}

static bo_rows rows_of(const bo_side *side, size_t sequence, size_t head)
{
    return bo_rows_at(side->call, side->array, side->heads, side->dim, side->keys, sequence, head);
}

size_t bo_side_sample(const bo_side *side, size_t most, float *out)
{
    size_t total = bo_side_rows(side), wanted = total < most ? total : most, taken = 0, before = 0;
    for (size_t s = 0; s < side->call->shape->sequences; s++)
        for (size_t h = side->first; h < side->first + side->count; h++) {
            bo_rows rows = rows_of(side, s, h);
            size_t tokens = tokens_of(side, s);
            for (; taken < wanted; taken++) {
                size_t at = (size_t)((double)total * ((double)taken + 0.5) / (double)wanted) - before;
                if (at >= tokens) break;
                memcpy(out + taken * side->dim, rows.at + at * rows.stride, side->dim * sizeof *out);
            }
            before += tokens;
        }
    return taken;
}

/* ---- moments --------------------------------------------------------------------------------------------------- */

void bo_second_moments_free(bo_second_moments *moments)
{
    bo_free(moments->mean);
    bo_free(moments->second);
    *moments = (bo_second_moments){0};
}

/* Which number it was that made a sum not finite. */
static bo_status blame(bo_context *context, const bo_side *side)
{
    for (size_t s = 0; s < side->call->shape->sequences; s++)
        for (size_t h = side->first; h < side->first + side->count; h++) {
            bo_rows rows = rows_of(side, s, h);
            for (size_t t = 0; t < tokens_of(side, s); t++)
                for (size_t j = 0; j < side->dim; j++)
                    if (!isfinite(rows.at[t * rows.stride + j]))
                        return bo_fail(context, BO_NUMERIC, BO_NOT_FINITE, side->name,
                                       (double)rows.at[t * rows.stride + j], s, h, t, j);
        }
    return bo_fail(context, BO_NUMERIC, "the second moments of %s are not finite", side->name);
}

static bo_status add_rows(bo_context *context, const bo_side *side, bo_second_moments *m)
{
    for (size_t s = 0; s < side->call->shape->sequences; s++)
        for (size_t h = side->first; h < side->first + side->count; h++) {
            bo_rows rows = rows_of(side, s, h);
            size_t tokens = tokens_of(side, s), dim = side->dim;
            BO_TRY(bo_gram(context, dim, tokens, rows.at, rows.stride, m->second, dim, true));
            for (size_t t = 0; t < tokens; t++)
                for (size_t j = 0; j < dim; j++) m->mean[j] += (double)rows.at[t * rows.stride + j];
        }
    return BO_OK;
}

bo_status bo_second_moments_measure(bo_context *context, const bo_side *side, double scale, bo_second_moments *out)
{
    size_t dim = side->dim, rows = bo_side_rows(side);
    *out = (bo_second_moments){0};
    if (rows == 0) return bo_fail(context, BO_INVALID, "moments of %s: there are no rows", side->name);
    out->mean = bo_alloc(context, dim, sizeof *out->mean, "moments of rows");
    out->second = bo_alloc(context, dim, dim * sizeof *out->second, "moments of rows");
    if (!out->mean || !out->second) return BO_MEMORY;
    BO_TRY(add_rows(context, side, out));
    bo_symmetrize(context, dim, out->second, dim);
    if (!isfinite(bo_second_moments_norm(dim, out))) return blame(context, side);
    for (size_t j = 0; j < dim; j++) out->mean[j] *= sqrt(scale) / (double)rows;
    for (size_t i = 0; i < dim * dim; i++) out->second[i] *= scale / (double)rows;
    return BO_OK;
}

bo_status bo_second_moments_eigenvalues(bo_context *context, size_t dim, const bo_second_moments *q,
                                        const bo_second_moments *k, double *values)
{
    double *mean = bo_alloc_raw(context, dim, dim * sizeof *mean, "eigenvalues");
    if (!mean) return BO_MEMORY;
    for (size_t i = 0; i < dim * dim; i++) mean[i] = 0.5 * (q->second[i] + k->second[i]);
    bo_status status = bo_eigen(context, dim, mean, dim, values);
    for (size_t i = 0; i < dim; i++) values[i] = fmax(0, values[i]); /* rounding may leave it just below */
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
    double whole = bo_second_moments_norm(dim, q) + bo_second_moments_norm(dim, k);
    return whole > 0 ? (dot(dim, q->mean, q->mean) + dot(dim, k->mean, k->mean)) / whole : 0;
}

double bo_second_moments_pair_norm(size_t dim, const bo_second_moments *q, const bo_second_moments *k)
{
    return bo_second_moments_norm(dim, q) + bo_second_moments_norm(dim, k) + 2 * dot(dim, q->mean, k->mean);
}
