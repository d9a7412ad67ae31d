/* Errors of feature maps predicted by the variance formula, for one head. */
#include <math.h>
#include <string.h>
#include "../math/linalg.h"
#include "internal.h"

/* The rows of one head: those for fitting maps, and one window for the prediction. */
typedef struct head_rows {
    bo_inspection_run *in;
    size_t tokens, dim, value_dim, fit; /* fit: windows */
    float *fit_q, *fit_k, *q, *k, *v;
    float *mq, *mk;         /* q and k after M */
    float *exact, *changed; /* outputs of softmax attention of q, k and of M q, M k */
} head_rows;

static void head_rows_free(const head_rows *r)
{
    float *const blocks[] = {r->fit_q, r->fit_k, r->q, r->k, r->v, r->mq, r->mk, r->exact, r->changed};
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++) bo_free(blocks[i]);
}

static bo_status head_rows_alloc(head_rows *r)
{
    const size_t window = r->tokens * r->dim, outputs = r->tokens * r->value_dim;
    float **const blocks[] = {&r->fit_q, &r->fit_k, &r->q, &r->k, &r->v, &r->mq, &r->mk, &r->exact, &r->changed};
    const size_t sizes[] = {r->fit * window, r->fit * window, window,  window, outputs,
                            window,          window,          outputs, outputs};
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++) {
        *blocks[i] = bo_alloc_raw(r->in->context, sizes[i], sizeof(float), "the rows of a head");
        if (!*blocks[i]) return BO_MEMORY;
    }
    return BO_OK;
}

static void copy_rows(size_t rows, size_t width, const float *from, size_t stride, float *to)
{
    for (size_t t = 0; t < rows; t++) memcpy(to + t * width, from + t * stride, width * sizeof *to);
}

static bo_status head_rows_fill(head_rows *r, size_t head, const float *m)
{
    const bo_layer_arrays *x = &r->in->arrays;
    const bo_attention_desc *a = x->attention;
    const size_t key_head = head / (a->heads / a->key_heads), at = bo_first_measured(x) * x->tokens;
    const size_t ldq = a->heads * a->dim, ldk = a->key_heads * a->dim, ldv = a->key_heads * a->value_dim;
    copy_rows(r->fit * r->tokens, a->dim, x->q + head * a->dim, ldq, r->fit_q);
    copy_rows(r->fit * r->tokens, a->dim, x->k + key_head * a->dim, ldk, r->fit_k);
    copy_rows(r->tokens, a->dim, x->q + at * ldq + head * a->dim, ldq, r->q);
    copy_rows(r->tokens, a->dim, x->k + at * ldk + key_head * a->dim, ldk, r->k);
    copy_rows(r->tokens, a->value_dim, x->v + at * ldv + key_head * a->value_dim, ldv, r->v);
    BO_TRY(
        bo_gemm(r->in->context, false, true, r->tokens, r->dim, r->dim, 1, r->q, r->dim, m, r->dim, 0, r->mq, r->dim));
    return bo_gemm(r->in->context, false, true, r->tokens, r->dim, r->dim, 1, r->k, r->dim, m, r->dim, 0, r->mk,
                   r->dim);
}

/* Computes the distance between softmax attention of M q and M k and softmax attention of q and k, which remains for
 * any number of features. */
static bo_status changed_kernel(const head_rows *r, double *out)
{
    const bo_attention_desc desc = {
        .heads = 1, .dim = r->dim, .value_dim = r->value_dim, .causal = true, .scale = r->in->arrays.scale};
    const bo_attention_shape shape = {.sequences = 1, .tokens = r->tokens};
    const bo_attention_inputs plain = {.q = r->q, .k = r->k, .v = r->v}, mapped = {.q = r->mq, .k = r->mk, .v = r->v};
    bo_attention *softmax;
    double error = 0, norm = 0;
    BO_TRY(bo_attention_create(r->in->context, &desc, &softmax));
    bo_status status = bo_attention_forward_arrays(r->in->context, softmax, &shape, &plain, NULL, NULL, r->exact, NULL);
    if (status == BO_OK)
        status = bo_attention_forward_arrays(r->in->context, softmax, &shape, &mapped, NULL, NULL, r->changed, NULL);
    bo_attention_destroy(softmax);
    for (size_t i = 0; status == BO_OK && i < r->tokens * r->value_dim; i++) {
        const double difference = (double)r->changed[i] - (double)r->exact[i];
        error += difference * difference;
        norm += (double)r->exact[i] * (double)r->exact[i];
    }
    *out = norm > 0 ? sqrt(error / norm) : 0;
    return status;
}

/* DARK is FAVOR on M q and M k. */
static bo_status predict_map(const head_rows *r, bo_map map, double norms, bo_error_prediction *out)
{
    const bool whitened = map == BO_MAP_DARK;
    const bo_inspect_candidate *candidates = r->in->report->candidates;
    const bo_inspect_candidate *candidate = &candidates[bo_map_candidate(whitened ? BO_MAP_FAVOR : map, 0)];
    const bo_attention_desc desc = bo_candidate_desc(r->in, candidate, 1, 1, norms);
    const bo_attention_shape fit = {.sequences = r->fit, .tokens = r->tokens},
                             one = {.sequences = 1, .tokens = r->tokens};
    bo_attention *attention;
    double floor = 0;
    if (whitened) BO_TRY(changed_kernel(r, &floor));
    BO_TRY(bo_attention_create(r->in->context, &desc, &attention));
    bo_status status = bo_candidate_fit(r->in->context, attention, &fit, r->fit_q, r->fit_k);
    if (status == BO_OK)
        status = bo_attention_predict(r->in->context, attention, &one, whitened ? r->mq : r->q, whitened ? r->mk : r->k,
                                      r->v, r->in->arrays.scale, out);
    bo_attention_destroy(attention);
    if (whitened) out->floor = floor;
    return status;
}

static bo_status predict_maps(const head_rows *r, double norms, double *predicted)
{
    for (size_t m = 0; m < BO_MAPS; m++) {
        bo_error_prediction found = {NAN, NAN};
        const bo_status status = predict_map(r, (bo_map)m, norms, &found);
        if (status == BO_NUMERIC) continue; /* overflow: no prediction */
        if (status != BO_OK) return status;
        for (size_t f = 0; f < BO_FEATURE_COUNTS; f++) {
            const size_t index = bo_map_candidate((bo_map)m, f);
            predicted[index] = bo_error_predicted(&found, r->in->report->candidates[index].features);
        }
    }
    return BO_OK;
}

bo_status bo_errors_predict(bo_inspection_run *in, size_t head, const float *m, double norms, double *predicted)
{
    const bo_layer_arrays *x = &in->arrays;
    head_rows r = {.in = in,
                   .tokens = x->tokens,
                   .dim = x->attention->dim,
                   .value_dim = x->attention->value_dim,
                   .fit = bo_fit_windows(x)};
    bo_status status = head_rows_alloc(&r);
    if (status == BO_OK) status = head_rows_fill(&r, head, m);
    if (status == BO_OK) status = predict_maps(&r, norms, predicted);
    head_rows_free(&r);
    return status;
}
