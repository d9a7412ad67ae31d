/* Moments of the rows of q or k, in float64. */
#include <math.h>
#include <string.h>
#include "../math/linalg.h"
#include "dark.h"

enum { BLOCK = BO_SIZE(256, 4) }; /* rows that go through a front at a time */

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

/* Rows of a head after its front: themselves, or made in t (rows x width). */
static const float *through_front(const bo_side *side, size_t head, size_t rows, const float *x, size_t ldx, float *t,
                                  size_t *ldt)
{
    *ldt = ldx;
    if (!side->fronts) return x;
    const bo_row_transform *front = side->fronts + (side->keys ? head : head / side->call->attention->group);
    return bo_row_transform_forward(front, side->keys ? BO_OF_KEYS : BO_OF_QUERIES, rows, x, ldx, t, ldt);
}

void bo_side_spread(const bo_side *side, size_t wanted, double offset, float *out)
{
    size_t total = bo_side_rows(side), taken = 0, before = 0, ld;
    for (size_t s = 0; s < side->call->shape->sequences; s++)
        for (size_t h = side->first; h < side->first + side->count; h++) {
            bo_rows rows = rows_of(side, s, h);
            size_t tokens = tokens_of(side, s);
            for (; taken < wanted; taken++) {
                size_t at = (size_t)((double)total * ((double)taken + offset) / (double)wanted) - before;
                if (at >= tokens) break;
                float *to = out + taken * side->width;
                const float *row = through_front(side, h, 1, rows.at + at * rows.stride, side->dim, to, &ld);
                if (row != to) memcpy(to, row, side->width * sizeof *out);
            }
            before += tokens;
        }
}

size_t bo_side_sample(const bo_side *side, size_t most, float *out)
{
    size_t wanted = bo_least(bo_side_rows(side), most);
    bo_side_spread(side, wanted, 0.5, out);
    return wanted;
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
                                       (double)rows.at[t * rows.stride + j], s, h, t * side->step, j);
        }
    return bo_fail(context, BO_NUMERIC, "the second moments of %s are not finite", side->name);
}

/* Adds x and x xᵀ of rows after the front; t: BLOCK x width. */
static bo_status add_rows(bo_context *context, const bo_side *side, float *t, bo_second_moments *m)
{
    size_t width = side->width, ld;
    for (size_t s = 0; s < side->call->shape->sequences; s++)
        for (size_t h = side->first; h < side->first + side->count; h++) {
            bo_rows rows = rows_of(side, s, h);
            size_t tokens = tokens_of(side, s), step = side->fronts ? BLOCK : tokens;
            for (size_t first = 0; first < tokens; first += step) {
                size_t count = bo_least(step, tokens - first);
                const float *x = through_front(side, h, count, rows.at + first * rows.stride, rows.stride, t, &ld);
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
    float *t = bo_alloc_raw(context, side->fronts ? BLOCK * width : 0, sizeof *t, "moments of rows");
    bo_status status = t ? add_rows(context, side, t, out) : BO_MEMORY;
    bo_free(t);
    if (status != BO_OK) return status;
    bo_symmetrize(context, width, out->second, width);
    if (!isfinite(bo_second_moments_norm(width, out))) return blame(context, side);
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
