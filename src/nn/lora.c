/* Low-rank adapters: recording them with linear layers, and merging them into the weights. */
#include <fnmatch.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "../math/linalg.h"
#include "internal.h"
#include "lora.h"

/* ---- names ------------------------------------------------------------------------------------------------------- */

static bool ends_with(const char *name, const char *end)
{
    const size_t length = strlen(name), last = strlen(end);
    return length >= last && strcmp(name + length - last, end) == 0;
}

/* Matches the whole name, or the part of it after any period; with wildcards, the whole name (fnmatch). */
static bool fits(const char *target, size_t length, const char *layer)
{
    char pattern[256];
    snprintf(pattern, sizeof pattern, ".%.*s", (int)length, target);
    if (strcmp(pattern, ".all") == 0) return true;
    if (strpbrk(pattern, "*?[")) return fnmatch(pattern + 1, layer, 0) == 0;
    return strcmp(pattern + 1, layer) == 0 || ends_with(layer, pattern);
}

/* Returns the next target and its length; NULL: there are no more. */
static const char *next_target(const char *at, size_t *length)
{
    at += strspn(at, ",");
    *length = strcspn(at, ",");
    return *length ? at : NULL;
}

static bool matches_any(const char *targets, const char *layer)
{
    size_t length = 0;
    for (const char *at = next_target(targets, &length); at; at = next_target(at + length, &length))
        if (fits(at, length, layer)) return true;
    return false;
}

/* "all" means the hidden layers: neither the output nor the small matrices of gates. */
static bool is_target(const bo_lora *lora, const char *layer, bo_weight_role role)
{
    if (lora->whole && matches_any(lora->whole, layer)) return false;
    if (strcmp(lora->targets, "all") == 0) return role == BO_WEIGHT_ROLE_MATRIX;
    return matches_any(lora->targets, layer);
}

bool bo_lora_is_whole(const bo_weights *weights, const bo_weight *weight)
{
    const char *whole = bo_weights_lora(weights)->whole, *end = strrchr(weight->name, '.');
    bo_nn_name layer;
    if (!whole || !end) return false;
    snprintf(layer.text, sizeof layer.text, "%.*s", (int)(end - weight->name), weight->name);
    return matches_any(whole, layer.text) ||
           matches_any(whole, weight->name); /* parameters without a layer, such as m */
}

static const bo_weight *part(const bo_weights *weights, const bo_nn_name *layer, const char *suffix)
{
    return bo_weights_find(weights, bo_nn_join(layer->text, suffix).text);
}

static bool layer_of(const char *weight, const char *suffix, bo_nn_name *out)
{
    if (!ends_with(weight, suffix)) return false;
    snprintf(out->text, sizeof out->text, "%.*s", (int)(strlen(weight) - strlen(suffix)), weight);
    return true;
}

bool bo_lora_site_at(bo_weights *weights, size_t index, bo_lora_site *out)
{
    bo_nn_name layer;
    *out = (bo_lora_site){.weight = bo_weights_at(weights, index)};
    if (!layer_of(out->weight->name, ".weight", &layer)) return false;
    out->a = part(weights, &layer, ".lora_A.weight");
    out->b = part(weights, &layer, ".lora_B.weight");
    out->a0 = part(weights, &layer, ".lora_A.first");
    out->b0 = part(weights, &layer, ".lora_B.first");
    return out->a && out->b;
}

/* ---- recording --------------------------------------------------------------------------------------------------- */

static bo_value factor(bo_graph *graph, const char *prefix, const char *suffix, size_t rows, size_t columns,
                       double deviation)
{
    bo_nn_name name = bo_nn_join(prefix, suffix);
    return bo_graph_weight(graph, &(bo_weight_desc){.name = name.text,
                                                    .rank = 2,
                                                    .shape = (size_t[]){rows, columns},
                                                    .role = BO_WEIGHT_ROLE_VECTOR, /* a thin matrix, updated by AdamW */
                                                    .init = {.kind = BO_WEIGHT_INIT_KIND_NORMAL, .b = deviation}});
}

/* y + s (x Aᵀ) Bᵀ. */
static bo_value add(bo_graph *graph, bo_value x, bo_value a, bo_value b, double s, bo_value y)
{
    const bo_linear_attributes down = {.weights = 1}, up = {.weights = 1, .residual = true, .scale = s};
    const bo_value inner = bo_graph_one(graph, BO_OPERATION_LINEAR, &down, 2, (bo_value[]){x, a});
    return bo_graph_one(graph, BO_OPERATION_LINEAR, &up, 3, (bo_value[]){inner, b, y});
}

bo_value bo_nn_adapted(bo_graph *graph, const char *prefix, bo_weight_role role, double before, bo_value x, bo_value y)
{
    const bo_lora *lora = bo_weights_lora(bo_graph_describe(graph)->weights);
    if (!lora || !x || !y || bo_graph_is_plain(graph) || !is_target(lora, prefix, role)) return y;
    const size_t in = bo_graph_columns(graph, x), out = bo_graph_columns(graph, y), r = lora->rank;
    const double s = (before != 0 ? before : 1) * lora->alpha / (double)r, row = 1 / sqrt((double)in);
    const bool moves = lora->init != BO_LORA_INIT_ZERO;
    const double column = moves ? 1 / sqrt((double)out) : 0; /* rows of A and columns of B have length 1 */
    const bo_value a = factor(graph, prefix, ".lora_A.weight", r, in, row);
    const bo_value b = factor(graph, prefix, ".lora_B.weight", out, r, column);
    y = add(graph, x, a, b, s, y);
    if (!moves) return y;
    const bo_value a0 = factor(graph, prefix, ".lora_A.first", r, in, row);
    const bo_value b0 = factor(graph, prefix, ".lora_B.first", out, r, column);
    return add(graph, x, a0, b0, -s, y);
}

/* ---- whole set --------------------------------------------------------------------------------------------------- */

static bool any_fits(bo_weights *weights, const char *target, size_t length)
{
    for (size_t i = 0; i < bo_weights_count(weights); i++) {
        bo_nn_name layer;
        if (layer_of(bo_weights_at(weights, i)->name, ".lora_A.weight", &layer) && fits(target, length, layer.text))
            return true;
    }
    return false;
}

static bo_status check_targets(bo_context *context, bo_weights *weights, const bo_lora *lora)
{
    size_t length = 0, found = 0;
    for (const char *at = next_target(lora->targets, &length); at; at = next_target(at + length, &length), found++)
        if (!any_fits(weights, at, length))
            return bo_fail(context, BO_INVALID, "lora: no linear layer's name ends with or matches '%.*s'", (int)length,
                           at);
    return found ? BO_OK : bo_fail(context, BO_INVALID, "lora: no target layer is given");
}

/* The first r singular vectors of the gradient give A, the next r give B. */
static bo_status check_rank(bo_context *context, const bo_lora *lora, const bo_lora_site *site)
{
    const size_t rows = site->weight->rows, columns = site->weight->columns, min_side = rows < columns ? rows : columns;
    const bool gradient = lora->init == BO_LORA_INIT_GRADIENT;
    if (lora->any_rank || (gradient ? 2 : 1) * lora->rank <= min_side) return BO_OK;
    return bo_fail(context, BO_INVALID, "lora: rank %zu is too large for %s (%zu x %zu): expected at most %zu%s",
                   lora->rank, site->weight->name, rows, columns, gradient ? min_side / 2 : min_side,
                   gradient ? " with initialization from the gradient" : "");
}

bo_status bo_lora_check(bo_context *context, bo_weights *weights)
{
    const bo_lora *lora = bo_weights_lora(weights);
    bo_lora_site site;
    BO_TRY(check_targets(context, weights, lora));
    for (size_t i = 0; i < bo_weights_count(weights); i++)
        if (bo_lora_site_at(weights, i, &site)) BO_TRY(check_rank(context, lora, &site));
    return BO_OK;
}

void bo_lora_freeze(bo_weights *weights)
{
    for (size_t i = 0; i < bo_weights_count(weights); i++) {
        const bo_weight *weight = bo_weights_at(weights, i);
        const bool trained = ends_with(weight->name, ".lora_A.weight") || ends_with(weight->name, ".lora_B.weight") ||
                             bo_lora_is_whole(weights, weight);
        bo_weights_set_frozen(weights, i, !trained);
    }
}

/* ---- merging ----------------------------------------------------------------------------------------------------- */

static size_t numbers(const bo_weight *weight)
{
    return weight ? weight->rows * weight->columns : 0;
}

bo_status bo_lora_copy(bo_context *context, bo_weights *from, bo_weights *to)
{
    bo_device *device = bo_weights_device(to);
    for (size_t i = 0; i < bo_weights_count(from); i++) {
        const bo_weight *source = bo_weights_at(from, i), *target = bo_weights_find(to, source->name);
        if (target)
            BO_TRY(bo_buffer_copy(context, device, target->data, source->data, numbers(source) * sizeof(float)));
    }
    return BO_OK;
}

/* Arrays on the host, one after the other: those of the adapter, and a row of W. */
typedef struct parts {
    float *a, *b, *a0, *b0, *w;
} parts;

static bo_status read_parts(bo_context *context, bo_device *device, const bo_lora_site *site, float *buffer, parts *out)
{
    const bo_weight *const from[] = {site->a, site->b, site->a0, site->b0, site->weight};
    float **const to[] = {&out->a, &out->b, &out->a0, &out->b0, &out->w};
    for (size_t i = 0; i < sizeof from / sizeof *from; i++) {
        *to[i] = from[i] ? buffer : NULL;
        if (from[i]) BO_TRY(bo_buffer_read(context, device, buffer, from[i]->data, numbers(from[i]) * sizeof *buffer));
        buffer += numbers(from[i]);
    }
    return BO_OK;
}

static double product(const float *b, const float *a, size_t row, size_t column, size_t rank, size_t columns)
{
    double sum = 0;
    for (size_t k = 0; k < rank; k++) sum += (double)b[row * rank + k] * (double)a[k * columns + column];
    return sum;
}

static void add_product(const bo_lora *lora, const parts *p, size_t rows, size_t columns)
{
    const double s = lora->alpha / (double)lora->rank;
    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; j < columns; j++) {
            double sum = product(p->b, p->a, i, j, lora->rank, columns);
            if (p->a0) sum -= product(p->b0, p->a0, i, j, lora->rank, columns);
            p->w[i * columns + j] = (float)((double)p->w[i * columns + j] + s * sum);
        }
}

static bo_status merge_site(bo_context *context, bo_weights *adapted, const bo_lora_site *site, const bo_weight *into)
{
    bo_device *device = bo_weights_device(adapted);
    const size_t all =
        numbers(site->weight) + numbers(site->a) + numbers(site->b) + numbers(site->a0) + numbers(site->b0);
    float *buffer = bo_alloc_raw(context, all, sizeof *buffer, "a merged weight");
    if (!buffer) return BO_MEMORY;
    parts p;
    bo_status status = read_parts(context, device, site, buffer, &p);
    if (status == BO_OK) add_product(bo_weights_lora(adapted), &p, site->weight->rows, site->weight->columns);
    if (status == BO_OK) status = bo_buffer_write(context, device, into->data, p.w, numbers(into) * sizeof(float));
    bo_free(buffer);
    return status;
}

bo_status bo_lora_merge(bo_context *context, bo_weights *adapted, bo_weights *plain)
{
    bo_lora_site site;
    BO_TRY(bo_lora_copy(context, adapted, plain));
    for (size_t i = 0; i < bo_weights_count(adapted); i++)
        if (bo_lora_site_at(adapted, i, &site))
            BO_TRY(merge_site(context, adapted, &site, bo_weights_find(plain, site.weight->name)));
    return BO_OK;
}

/* ====================================================================================================================
 * Initial values of adapters: random, or singular vectors of the weight or of its gradient. */

/* U S Vᵀ of one matrix (out x in), and scratch memory. */
typedef struct vectors {
    size_t rows, columns, min_side;
    double *matrix, *u, *s, *vt;
    float *host; /* the matrix, later A and B */
} vectors;

static bo_status allocate_vectors(bo_context *context, const bo_weight *weight, vectors *v)
{
    static const char what[] = "singular vectors";
    const size_t m = weight->rows, n = weight->columns, k = m < n ? m : n;
    *v = (vectors){.rows = m, .columns = n, .min_side = k};
    v->host = bo_alloc_raw(context, m * n + k * (m + n), sizeof *v->host, what);
    v->matrix = bo_alloc_raw(context, m * n, sizeof *v->matrix, what);
    v->u = bo_alloc_raw(context, m * k, sizeof *v->u, what);
    v->s = bo_alloc_raw(context, k, sizeof *v->s, what);
    v->vt = bo_alloc_raw(context, k * n, sizeof *v->vt, what);
    return v->host && v->matrix && v->u && v->s && v->vt ? BO_OK : BO_MEMORY;
}

static void free_vectors(vectors *v)
{
    bo_free(v->host);
    bo_free(v->matrix);
    bo_free(v->u);
    bo_free(v->s);
    bo_free(v->vt);
}

static bo_status decompose(bo_context *context, bo_device *device, const void *data, vectors *v)
{
    const size_t count = v->rows * v->columns;
    BO_TRY(bo_buffer_read(context, device, v->host, data, count * sizeof *v->host));
    for (size_t i = 0; i < count; i++) v->matrix[i] = (double)v->host[i];
    return bo_svd(context, v->rows, v->columns, v->matrix, v->u, v->s, v->vt);
}

/* Returns the factors of singular vector `index` in A and in B. WEIGHT: s B A is the best approximation of the weight
 * of this rank (PiSSA, 2404.02948); if its rank is smaller, the factor of A is 1 and that of B is 0, so that both can
 * be trained. GRADIENT: out^(1/4) / √γ with γ = 16 (LoRA-GA, 2407.05000, 3.3). */
static void lengths_of(const bo_lora *lora, const vectors *v, size_t index, double *a, double *b)
{
    const double gamma = 16, threshold = 0x1p-24 * v->s[0];
    *a = *b = sqrt(sqrt((double)v->rows) / gamma);
    if (lora->init != BO_LORA_INIT_WEIGHT) return;
    *a = *b = sqrt(v->s[index] * (double)lora->rank / lora->alpha);
    if (v->s[index] <= threshold) *a = 1, *b = 0;
}

static bo_status place(bo_context *context, bo_device *device, const bo_lora *lora, const bo_lora_site *site,
                       const vectors *v)
{
    const size_t r = lora->rank, first = lora->init == BO_LORA_INIT_GRADIENT ? r : 0; /* first singular vector of B */
    float *a = v->host, *b = v->host + r * v->columns;
    for (size_t k = 0; k < r; k++) {
        double of_a, of_b;
        lengths_of(lora, v, k, &of_a, &of_b);
        for (size_t j = 0; j < v->columns; j++) a[k * v->columns + j] = (float)(of_a * v->vt[k * v->columns + j]);
        for (size_t i = 0; i < v->rows; i++) b[i * r + k] = (float)(of_b * v->u[i * v->min_side + first + k]);
    }
    BO_TRY(bo_buffer_write(context, device, site->a->data, a, r * v->columns * sizeof *a));
    return bo_buffer_write(context, device, site->b->data, b, r * v->rows * sizeof *b);
}

static bo_status begin_site(bo_context *context, const bo_weights *weights, const bo_lora_site *site, const void *data)
{
    bo_device *device = bo_weights_device(weights);
    vectors v;
    bo_status status = allocate_vectors(context, site->weight, &v);
    if (status == BO_OK) status = decompose(context, device, data, &v);
    if (status == BO_OK) status = place(context, device, bo_weights_lora(weights), site, &v);
    free_vectors(&v);
    return status;
}

static bo_status copy(bo_context *context, bo_device *device, const bo_weight *from, const bo_weight *to)
{
    return to ? bo_buffer_copy(context, device, to->data, from->data, from->rows * from->columns * sizeof(float))
              : BO_OK;
}

bo_status bo_lora_begin(bo_context *context, bo_weights *weights, bo_weights *base, uint64_t seed)
{
    bo_device *device = bo_weights_device(weights);
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
        if (init == BO_LORA_INIT_GRADIENT) data = bo_weights_find(base, site.weight->name)->gradient;
        if (init == BO_LORA_INIT_WEIGHT || init == BO_LORA_INIT_GRADIENT)
            BO_TRY(begin_site(context, weights, &site, data));
        BO_TRY(copy(context, device, site.a, site.a0));
        BO_TRY(copy(context, device, site.b, site.b0));
    }
    return BO_OK;
}
