/* Where adapters begin: random, or at singular vectors of the weight or of its gradient. */
#include <math.h>
#include <string.h>
#include "../math/linalg.h"
#include "lora.h"

/* U S Vᵀ of one matrix, out x in, and what becomes of it. */
typedef struct vectors {
    size_t rows, columns, least;
    double *matrix, *u, *s, *vt;
    float *host; /* the matrix, and then A and B */
} vectors;

static bo_status make(bo_context *context, const bo_weight *weight, vectors *v)
{
    static const char what[] = "singular vectors";
    const size_t m = weight->rows, n = weight->columns, k = m < n ? m : n;
    *v = (vectors){.rows = m, .columns = n, .least = k};
    v->host = bo_alloc_raw(context, m * n + k * (m + n), sizeof *v->host, what);
    v->matrix = bo_alloc_raw(context, m * n, sizeof *v->matrix, what);
    v->u = bo_alloc_raw(context, m * k, sizeof *v->u, what);
    v->s = bo_alloc_raw(context, k, sizeof *v->s, what);
    v->vt = bo_alloc_raw(context, k * n, sizeof *v->vt, what);
    return v->host && v->matrix && v->u && v->s && v->vt ? BO_OK : BO_MEMORY;
}

static void drop(vectors *v)
{
    bo_free(v->host);
    bo_free(v->matrix);
    bo_free(v->u);
    bo_free(v->s);
    bo_free(v->vt);
}

static bo_status decompose(bo_context *context, const bo_backend *backend, const void *data, vectors *v)
{
    const size_t count = v->rows * v->columns;
    BO_TRY(backend->read(context, v->host, data, count * sizeof *v->host));
    for (size_t i = 0; i < count; i++) v->matrix[i] = (double)v->host[i];
    return bo_svd(context, v->rows, v->columns, v->matrix, v->u, v->s, v->vt);
}

/* What multiplies singular vector `index` in A and in B. The weight: s B A is its best approximation of this rank (PiSSA,
 * 2404.02948); where it has none of this rank left, A's is 1 and B's 0, from where both can move. The gradient:
 * out^(1/4) / √γ with γ = 16 (LoRA-GA, 2407.05000, 3.3). */
static void lengths_of(const bo_lora *lora, const vectors *v, size_t index, double *a, double *b)
{
    const double gamma = 16, least = 0x1p-24 * v->s[0];
    *a = *b = sqrt(sqrt((double)v->rows) / gamma);
    if (lora->init != BO_LORA_WEIGHT) return;
    *a = *b = sqrt(v->s[index] * (double)lora->rank / lora->alpha);
    if (v->s[index] <= least) *a = 1, *b = 0;
}

static bo_status place(bo_context *context, const bo_backend *backend, const bo_lora *lora, const bo_lora_site *site,
                       const vectors *v)
{
    const size_t r = lora->rank, first = lora->init == BO_LORA_GRADIENT ? r : 0; /* of B's vectors */
    float *a = v->host, *b = v->host + r * v->columns;
    for (size_t k = 0; k < r; k++) {
        double of_a, of_b;
        lengths_of(lora, v, k, &of_a, &of_b);
        for (size_t j = 0; j < v->columns; j++) a[k * v->columns + j] = (float)(of_a * v->vt[k * v->columns + j]);
        for (size_t i = 0; i < v->rows; i++) b[i * r + k] = (float)(of_b * v->u[i * v->least + first + k]);
    }
    BO_TRY(backend->write(context, site->a->data, a, r * v->columns * sizeof *a));
    return backend->write(context, site->b->data, b, r * v->rows * sizeof *b);
}

static bo_status begin_site(bo_context *context, const bo_weights *weights, const bo_lora_site *site, const void *data)
{
    const bo_backend *backend = bo_weights_backend(weights);
    vectors v;
    bo_status status = make(context, site->weight, &v);
    if (status == BO_OK) status = decompose(context, backend, data, &v);
    if (status == BO_OK) status = place(context, backend, bo_weights_lora(weights), site, &v);
    drop(&v);
    return status;
}

static bo_status copy(bo_context *context, const bo_backend *backend, const bo_weight *from, const bo_weight *to)
{
    return to ? backend->copy(context, to->data, from->data, from->rows * from->columns * sizeof(float)) : BO_OK;
}

bo_status bo_lora_begin(bo_context *context, bo_weights *weights, bo_weights *base, uint64_t seed)
{
    const bo_backend *backend = bo_weights_backend(weights);
    const bo_lora_init init = bo_weights_lora(weights)->init;
    for (size_t i = 0; i < bo_weights_count(weights); i++) {
        const bo_weight *weight = bo_weights_at(weights, i);
        if (!weight->frozen && !bo_lora_is_whole(weights, weight))
            BO_TRY(bo_weights_init_one(context, weights, i, seed));
    }
    for (size_t i = 0; i < bo_weights_count(weights); i++) {
        bo_lora_site site;
        if (!bo_lora_site_at(weights, i, &site)) continue;
        const void *data = site.weight->data;
        if (init == BO_LORA_GRADIENT) data = bo_weights_find(base, site.weight->name)->gradient;
        if (init == BO_LORA_WEIGHT || init == BO_LORA_GRADIENT) BO_TRY(begin_site(context, weights, &site, data));
        BO_TRY(copy(context, backend, site.a, site.a0));
        BO_TRY(copy(context, backend, site.b, site.b0));
    }
    return BO_OK;
}
