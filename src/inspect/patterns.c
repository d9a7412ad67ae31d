/* Attention patterns: entropy, and attention to the previous token, to itself, to the first token, and to the tokens
 * that followed earlier occurrences of the current one. */
#include <math.h>
#include <string.h>
#include "../math/linalg.h"
#include "internal.h"

bool bo_has_pattern(const bo_attention_desc *attention)
{
    switch (attention->kind) {
    case BO_ATTENTION_SOFTMAX:
    case BO_ATTENTION_FAVOR:
    case BO_ATTENTION_DARK:
        return attention->gate == BO_GATE_NONE;
    case BO_ATTENTION_HYBRID: /* if its features estimate the same weights */
        return attention->features.kernel == BO_KERNEL_SOFTMAX;
    default:
        return false;
    }
}

bo_status bo_patterns_begin(bo_inspection_run *in, size_t layer)
{
    const size_t heads = bo_inspection_attention(in, layer)->heads;
    bo_layer_sums *sums = &in->sums[layer];
    sums->patterns = bo_alloc(in->context, heads, sizeof *sums->patterns, "sums over attention patterns");
    sums->repeated = bo_alloc(in->context, heads, sizeof *sums->repeated, "sums over attention patterns");
    return sums->patterns && sums->repeated ? BO_OK : BO_MEMORY;
}

/* ---- the weights of a head --------------------------------------------------------------------------------------- */

typedef struct weighing {
    size_t tokens;
    size_t window; /* SOFTMAX with a window: keys that a query sees; 0: all */
    double scale;
    float *scores; /* tokens x tokens: q·k, replaced by the weights */
} weighing;

/* The first key that query i sees. */
static size_t first_key(const weighing *w, size_t i)
{
    return w->window && i + 1 > w->window ? i + 1 - w->window : 0;
}

static void weigh_row(void *arg, size_t i, int worker)
{
    const weighing *w = arg;
    float *row = w->scores + i * w->tokens;
    const size_t first = first_key(w, i);
    double largest = -INFINITY, sum = 0;
    (void)worker;
    for (size_t j = first; j <= i; j++) largest = fmax(largest, (double)row[j]);
    for (size_t j = 0; j < w->tokens; j++) {
        const double weight = j < first || j > i ? 0 : exp(w->scale * ((double)row[j] - largest));
        row[j] = (float)weight;
        sum += weight;
    }
    for (size_t j = first; j <= i; j++) row[j] = (float)((double)row[j] / sum);
}

/* y (tokens x rank) = x Mᵀ */
static bo_status through_matrix(bo_context *context, size_t tokens, size_t rank, size_t dim, const float *x,
                                size_t stride, const float *m, float *y)
{
    return bo_gemm(context, false, true, tokens, rank, dim, 1, x, stride, m, dim, 0, y, rank);
}

static bo_status scores_of(bo_inspection_run *in, size_t window, size_t head, const float *m, float *workspace,
                           float *out)
{
    const bo_layer_arrays *x = &in->arrays;
    const bo_attention_desc *a = x->attention;
    const size_t n = x->tokens, key_head = head / (a->heads / a->key_heads);
    const size_t ldq = a->heads * a->dim, ldk = a->key_heads * a->dim;
    const float *q = x->q + window * n * ldq + head * a->dim, *k = x->k + window * n * ldk + key_head * a->dim;
    if (!m) return bo_gemm(in->context, false, true, n, n, a->dim, 1, q, ldq, k, ldk, 0, out, n);
    float *mq = workspace, *mk = workspace + n * a->rank;
    BO_TRY(through_matrix(in->context, n, a->rank, a->dim, q, ldq, m, mq));
    BO_TRY(through_matrix(in->context, n, a->rank, a->dim, k, ldk, m, mk));
    return bo_gemm(in->context, false, true, n, n, a->rank, 1, mq, a->rank, mk, a->rank, 0, out, n);
}

static weighing weighing_of(const bo_layer_arrays *x, float *scores)
{
    const size_t window = x->attention->kind == BO_ATTENTION_SOFTMAX ? x->attention->window : 0;
    return (weighing){x->tokens, window, x->scale, scores};
}

bo_status bo_pattern_of(bo_inspection_run *in, size_t window, size_t head, const float *m, float *out)
{
    const bo_layer_arrays *x = &in->arrays;
    weighing w = weighing_of(x, out);
    const size_t rank = m ? x->attention->rank : 0;
    float *workspace = bo_alloc_raw(in->context, 2 * x->tokens * rank, sizeof *workspace, "queries and keys after M");
    bo_status status = workspace ? scores_of(in, window, head, m, workspace, out) : BO_MEMORY;
    if (status == BO_OK) bo_parallel(in->context, x->tokens, weigh_row, &w);
    bo_free(workspace);
    return status;
}

/* ---- sums -------------------------------------------------------------------------------------------------------- */

static void add_entropy(const weighing *w, size_t i, bo_pattern_sums *sums)
{
    const size_t first = first_key(w, i), visible = i + 1 - first;
    double entropy = 0;
    if (visible < 2) return;
    for (size_t j = first; j <= i; j++) {
        const double weight = (double)w->scores[i * w->tokens + j];
        if (weight > 0) entropy -= weight * log(weight);
    }
    sums->entropy += entropy;
    sums->share += entropy / log((double)visible);
    sums->several++;
}

/* Attention to keys j whose token before is the token of query i. */
static void add_induction(const weighing *w, size_t i, const int32_t *ids, bo_pattern_sums *sums)
{
    const size_t first = first_key(w, i);
    double mass = 0, count = 0;
    for (size_t j = first > 1 ? first : 1; j <= i; j++)
        if (ids[j - 1] == ids[i]) {
            mass += (double)w->scores[i * w->tokens + j];
            count++;
        }
    if (count == 0) return;
    sums->induction += mass;
    sums->uniform += count / (double)(i + 1 - first);
    sums->occurred++;
}

static void add_window(const weighing *w, const int32_t *ids, size_t period, bo_pattern_sums *sums)
{
    for (size_t i = 0; i < w->tokens; i++) {
        const float *row = w->scores + i * w->tokens;
        add_entropy(w, i, sums);
        add_induction(w, i, ids, sums);
        sums->self += (double)row[i];
        sums->queries++;
        if (i == 0) continue;
        sums->previous += (double)row[i - 1];
        sums->first += (double)row[0];
        sums->later++;
        if (!period || i < period) continue;
        sums->copy += (double)row[i - period + 1];
        sums->copies++;
    }
}

static bo_status add_heads(bo_inspection_run *in, const int32_t *ids, size_t period, const float *m, float *scores)
{
    const bo_layer_arrays *x = &in->arrays;
    const bo_attention_desc *a = x->attention;
    const size_t group = a->heads / a->key_heads;
    bo_pattern_sums *sums = period ? in->sums[x->layer].repeated : in->sums[x->layer].patterns;
    const weighing w = weighing_of(x, scores);
    for (size_t n = 0; n < x->windows; n++)
        for (size_t h = 0; h < a->heads; h++) {
            BO_TRY(bo_pattern_of(in, n, h, m ? m + h / group * a->rank * a->dim : NULL, scores));
            add_window(&w, ids + n * x->tokens, period, &sums[h]);
        }
    return BO_OK;
}

bo_status bo_patterns_add(bo_inspection_run *in, const int32_t *ids, size_t period)
{
    const bo_layer_arrays *x = &in->arrays;
    float *m;
    if (!bo_has_pattern(x->attention)) return BO_OK;
    BO_TRY(bo_matrix_read(in, x->layer, &m));
    float *scores = bo_alloc_raw(in->context, x->tokens * x->tokens, sizeof *scores, "an attention pattern");
    const bo_status status = scores ? add_heads(in, ids, period, m, scores) : BO_MEMORY;
    bo_free(scores);
    bo_free(m);
    return status;
}

static double mean(double sum, double count)
{
    return count > 0 ? sum / count : NAN;
}

void bo_patterns_finish(bo_inspection_run *in, size_t layer)
{
    const size_t heads = bo_inspection_attention(in, layer)->heads;
    for (size_t h = 0; h < heads; h++) {
        bo_head_report *head = &in->report->heads[layer][h];
        const bo_pattern_sums *text = &in->sums[layer].patterns[h], *random = &in->sums[layer].repeated[h];
        head->entropy = mean(text->entropy, text->several);
        head->entropy_share = mean(text->share, text->several);
        head->previous = mean(text->previous, text->later);
        head->self = mean(text->self, text->queries);
        head->first = mean(text->first, text->later);
        head->induction = mean(text->induction, text->occurred);
        head->induction_uniform = mean(text->uniform, text->occurred);
        head->previous_repeated = mean(random->previous, random->later);
        head->induction_repeated = mean(random->copy, random->copies);
    }
}
