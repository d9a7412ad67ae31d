/* Statistics: moments of the queries and keys of every head, and the eigenvalues of Λ. */
#include <math.h>
#include <string.h>
#include "../math/linalg.h"
#include "internal.h"

double bo_inspection_scale(const bo_attention_desc *attention)
{
    return attention->scale > 0 ? attention->scale : 1 / sqrt((double)attention->dim);
}

/* ---- sums -------------------------------------------------------------------------------------------------------- */

bo_status bo_statistics_begin(bo_inspection_run *in, size_t layer)
{
    const bo_attention_desc *a = bo_inspection_attention(in, layer);
    bo_layer_sums *sums = &in->sums[layer];
    sums->queries = bo_alloc(in->context, a->heads, sizeof *sums->queries, "moments of heads");
    sums->keys = bo_alloc(in->context, a->key_heads, sizeof *sums->keys, "moments of heads");
    if (!sums->queries || !sums->keys) return BO_MEMORY;
    for (size_t h = 0; h < a->heads; h++) BO_TRY(bo_second_moments_alloc(in->context, a->dim, &sums->queries[h]));
    for (size_t h = 0; h < a->key_heads; h++) BO_TRY(bo_second_moments_alloc(in->context, a->dim, &sums->keys[h]));
    return BO_OK;
}

/* Adds x and x xᵀ of the rows of a head; the second moments are in the upper triangle. */
static bo_status add_rows(bo_context *context, size_t rows, size_t dim, const float *x, size_t stride,
                          bo_second_moments *m)
{
    BO_TRY(bo_gram(context, dim, rows, x, stride, m->second, dim, true));
    for (size_t r = 0; r < rows; r++)
        for (size_t j = 0; j < dim; j++) m->mean[j] += (double)x[r * stride + j];
    return BO_OK;
}

bo_status bo_statistics_add(bo_inspection_run *in)
{
    const bo_layer_arrays *x = &in->arrays;
    const bo_attention_desc *a = x->attention;
    bo_layer_sums *sums = &in->sums[x->layer];
    const size_t rows = x->windows * x->tokens;
    for (size_t h = 0; h < a->heads; h++)
        BO_TRY(add_rows(in->context, rows, a->dim, x->q + h * a->dim, a->heads * a->dim, &sums->queries[h]));
    for (size_t h = 0; h < a->key_heads; h++)
        BO_TRY(add_rows(in->context, rows, a->dim, x->k + h * a->dim, a->key_heads * a->dim, &sums->keys[h]));
    sums->rows += (double)rows;
    return BO_OK;
}

/* ---- results ----------------------------------------------------------------------------------------------------- */

/* Turns sums into moments of √s x. */
static bo_status average(bo_context *context, size_t layer, size_t dim, double rows, double scale, bo_second_moments *m)
{
    bo_symmetrize(context, dim, m->second, dim);
    for (size_t j = 0; j < dim; j++) m->mean[j] *= sqrt(scale) / rows;
    for (size_t i = 0; i < dim * dim; i++) m->second[i] *= scale / rows;
    if (isfinite(bo_second_moments_norm(dim, m))) return BO_OK;
    return bo_fail(context, BO_NUMERIC, "inspect: queries or keys of layer %zu contain NaN or infinity", layer);
}

static bo_status fill_spectrum(bo_inspection_run *in, size_t dim, const bo_second_moments *q,
                               const bo_second_moments *k, bo_head_moments *out)
{
    double *values = bo_inspection_alloc(in->context, in->report, dim, sizeof *values), sum = 0, squares = 0;
    if (!values) return BO_MEMORY;
    BO_TRY(bo_second_moments_eigenvalues(in->context, dim, q, k, values));
    for (size_t i = 0; i < dim / 2; i++) { /* descending */
        const double value = values[i];
        values[i] = values[dim - 1 - i];
        values[dim - 1 - i] = value;
    }
    for (size_t i = 0; i < dim; i++) sum += values[i], squares += values[i] * values[i];
    out->eigenvalues = values;
    out->largest = values[0];
    out->smallest = values[dim - 1];
    out->condition = out->smallest > 0 ? out->largest / out->smallest : INFINITY;
    out->effective = squares > 0 ? sum * sum / squares : 0;
    return BO_OK;
}

static bo_status fill(bo_inspection_run *in, size_t dim, const bo_second_moments *q, const bo_second_moments *k,
                      bo_head_moments *out)
{
    bo_law law;
    out->dim = dim;
    out->query_norm = sqrt(bo_second_moments_norm(dim, q));
    out->key_norm = sqrt(bo_second_moments_norm(dim, k));
    out->mean_share = bo_second_moments_mean_share(dim, q, k);
    BO_TRY(fill_spectrum(in, dim, q, k, out));
    BO_TRY(bo_law_make(in->context, dim, q->second, k->second, &law));
    out->isotropic_finite = law.isotropic_finite;
    out->proposal_finite = law.proposal_finite;
    out->log_gain = law.log_gain;
    bo_law_free(&law);
    return BO_OK;
}

static bo_status keep_copy(bo_inspection_run *in, size_t dim, const bo_second_moments *m, const double **mean,
                           const double **second)
{
    double *copy = bo_inspection_alloc(in->context, in->report, dim * (dim + 1), sizeof *copy);
    if (!copy) return BO_MEMORY;
    memcpy(copy, m->mean, dim * sizeof *copy);
    memcpy(copy + dim, m->second, dim * dim * sizeof *copy);
    *mean = copy;
    *second = copy + dim;
    return BO_OK;
}

/* ---- after M ----------------------------------------------------------------------------------------------------- */

bo_status bo_matrix_read(const bo_inspection_run *in, size_t layer, float **out)
{
    const bo_attention_desc *a = bo_inspection_attention(in, layer);
    char name[96];
    *out = NULL;
    if (!bo_attention_has(a, BO_TRAIT_MATRIX)) return BO_OK;
    snprintf(name, sizeof name, "model.layers.%zu.self_attn.m", layer);
    float *m = bo_alloc_raw(in->context, a->key_heads * a->rank * a->dim, sizeof *m, "the matrices of heads");
    const bo_status status = m ? bo_weights_get(in->context, bo_model_weights(in->model), name, m, NULL) : BO_MEMORY;
    if (status == BO_OK)
        *out = m;
    else
        bo_free(m);
    return status;
}

/* Computes the moments of M x from those of x: M μ and M Λ Mᵀ. product: rank x dim. */
static void transform(size_t rank, size_t dim, const float *m, const bo_second_moments *x, double *product,
                      const bo_second_moments *out)
{
    memset(product, 0, rank * dim * sizeof *product);
    for (size_t r = 0; r < rank; r++) {
        out->mean[r] = 0;
        for (size_t i = 0; i < dim; i++) {
            out->mean[r] += (double)m[r * dim + i] * x->mean[i];
            for (size_t j = 0; j < dim; j++) product[r * dim + j] += (double)m[r * dim + i] * x->second[i * dim + j];
        }
    }
    for (size_t r = 0; r < rank; r++)
        for (size_t s = 0; s < rank; s++) {
            double sum = 0;
            for (size_t j = 0; j < dim; j++) sum += product[r * dim + j] * (double)m[s * dim + j];
            out->second[r * rank + s] = sum;
        }
}

static bo_status fill_mapped(bo_inspection_run *in, size_t rank, size_t dim, const float *m, const bo_second_moments *q,
                             const bo_second_moments *k, bo_head_moments *out)
{
    bo_second_moments mq = {0}, mk = {0};
    double *product = bo_alloc_raw(in->context, rank * dim, sizeof *product, "moments after M");
    bo_status status = product ? bo_second_moments_alloc(in->context, rank, &mq) : BO_MEMORY;
    if (status == BO_OK) status = bo_second_moments_alloc(in->context, rank, &mk);
    if (status == BO_OK) {
        transform(rank, dim, m, q, product, &mq);
        transform(rank, dim, m, k, product, &mk);
        status = fill(in, rank, &mq, &mk, out);
    }
    bo_second_moments_free(&mq);
    bo_second_moments_free(&mk);
    bo_free(product);
    return status;
}

static bo_status finish_heads(bo_inspection_run *in, size_t layer, const float *m)
{
    const bo_attention_desc *a = bo_inspection_attention(in, layer);
    const bo_layer_sums *sums = &in->sums[layer];
    const size_t group = a->heads / a->key_heads;
    for (size_t h = 0; h < a->heads; h++) {
        const bo_second_moments *q = &sums->queries[h], *k = &sums->keys[h / group];
        bo_head_report *head = &in->report->heads[layer][h];
        BO_TRY(fill(in, a->dim, q, k, &head->moments));
        if (m) BO_TRY(fill_mapped(in, a->rank, a->dim, m + h / group * a->rank * a->dim, q, k, &head->mapped));
        if (!in->desc.moments) continue;
        BO_TRY(keep_copy(in, a->dim, q, &head->moments.query_mean, &head->moments.query_second));
        BO_TRY(keep_copy(in, a->dim, k, &head->moments.key_mean, &head->moments.key_second));
    }
    return BO_OK;
}

bo_status bo_statistics_finish(bo_inspection_run *in, size_t layer)
{
    const bo_attention_desc *a = bo_inspection_attention(in, layer);
    const bo_layer_sums *sums = &in->sums[layer];
    const double scale = bo_inspection_scale(a);
    float *m;
    for (size_t h = 0; h < a->heads; h++)
        BO_TRY(average(in->context, layer, a->dim, sums->rows, scale, &sums->queries[h]));
    for (size_t h = 0; h < a->key_heads; h++)
        BO_TRY(average(in->context, layer, a->dim, sums->rows, scale, &sums->keys[h]));
    BO_TRY(bo_matrix_read(in, layer, &m));
    const bo_status status = finish_heads(in, layer, m);
    bo_free(m);
    return status;
}
