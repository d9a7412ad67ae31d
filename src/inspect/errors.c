/* Errors of replacements of softmax attention, measured on the outputs of heads. */
#include <math.h>
#include <string.h>
#include "internal.h"

bo_status bo_errors_begin(bo_inspection_run *in, size_t layer)
{
    const size_t heads = bo_inspection_attention(in, layer)->heads, count = in->report->out.candidate_count;
    bo_layer_sums *sums = &in->sums[layer];
    sums->error2 = bo_alloc(in->context, heads * count, sizeof(double), "errors of heads");
    sums->norm2 = bo_alloc(in->context, heads, sizeof(double), "errors of heads");
    if (!sums->error2 || !sums->norm2) return BO_MEMORY;
    for (size_t i = 0; i < heads * count; i++) sums->error2[i] = NAN;
    return BO_OK;
}

/* The windows on which a layer is measured. */
typedef struct measuring {
    bo_inspection_run *in;
    bo_attention_shape fit, shape;
    bo_attention_inputs inputs; /* of the measured windows */
    const float *fit_q, *fit_k;
    float *exact, *out; /* outputs of the measured windows */
    float *m;           /* whitening: key_heads x dim x dim */
    double norms;       /* norm of √s q times norm of √s k */
} measuring;

static size_t outputs_of(const measuring *m)
{
    const bo_attention_desc *a = m->in->arrays.attention;
    return m->shape.sequences * m->shape.tokens * a->heads * a->value_dim;
}

static double norm_of(size_t rows, size_t count, const float *x)
{
    double squares = 0;
    for (size_t i = 0; i < count; i++) squares += (double)x[i] * (double)x[i];
    return sqrt(squares / (double)rows);
}

static measuring measuring_of(bo_inspection_run *in)
{
    const bo_layer_arrays *x = &in->arrays;
    const bo_attention_desc *a = x->attention;
    const size_t first = bo_first_measured(x) * x->tokens, rows = x->windows * x->tokens;
    measuring m = {.in = in, .fit_q = x->q, .fit_k = x->k};
    m.fit = (bo_attention_shape){.sequences = bo_fit_windows(x), .tokens = x->tokens, .layout = BO_LAYOUT_TOKENS_FIRST};
    m.shape = m.fit;
    m.shape.sequences = x->windows - bo_first_measured(x);
    m.inputs = (bo_attention_inputs){.q = x->q + first * a->heads * a->dim,
                                     .k = x->k + first * a->key_heads * a->dim,
                                     .v = x->v + first * a->key_heads * a->value_dim};
    m.norms = x->scale * norm_of(rows * a->heads, rows * a->heads * a->dim, x->q) *
              norm_of(rows * a->key_heads, rows * a->key_heads * a->dim, x->k);
    return m;
}

static void measuring_free(const measuring *m)
{
    bo_free(m->exact);
    bo_free(m->out);
    bo_free(m->m);
}

/* Finds the output of softmax attention: the output of the layer, or computed for other kinds. */
static bo_status find_exact(measuring *m)
{
    const bo_layer_arrays *x = &m->in->arrays;
    const bo_attention_desc *a = x->attention;
    bo_attention *softmax;
    if (a->kind == BO_ATTENTION_SOFTMAX) {
        memcpy(m->exact, x->out + bo_first_measured(x) * x->tokens * a->heads * a->value_dim,
               outputs_of(m) * sizeof *m->exact);
        return BO_OK;
    }
    const bo_attention_desc desc = {.heads = a->heads,
                                    .key_heads = a->key_heads,
                                    .dim = a->dim,
                                    .value_dim = a->value_dim,
                                    .causal = true,
                                    .scale = x->scale};
    BO_TRY(bo_attention_create(m->in->context, &desc, &softmax));
    const bo_status status =
        bo_attention_forward_arrays(m->in->context, softmax, &m->shape, &m->inputs, NULL, NULL, m->exact, NULL);
    bo_attention_destroy(softmax);
    return status;
}

/* If whitening fails, M is the identity for the layer. */
static bo_status find_whitening(measuring *m)
{
    const bo_attention_desc *a = m->in->arrays.attention;
    const bo_inspect_candidate *dark = &m->in->report->candidates[bo_map_candidate(BO_MAP_DARK, 0)];
    const bo_attention_desc desc = bo_candidate_desc(m->in, dark, a->heads, a->key_heads, m->norms);
    bo_attention *attention;
    BO_TRY(bo_attention_create(m->in->context, &desc, &attention));
    const bo_status status =
        bo_attention_whiten_arrays(m->in->context, attention, &m->fit, m->fit_q, m->fit_k, 0, m->m);
    bo_attention_destroy(attention);
    if (status != BO_NUMERIC) return status;
    bo_context_forget_error(m->in->context); /* a head with constant q and k, such as a removed head */
    for (size_t i = 0; i < a->key_heads * a->dim * a->dim; i++) m->m[i] = i % (a->dim * a->dim) % (a->dim + 1) == 0;
    return BO_OK;
}

static bo_status run_candidate(const measuring *m, const bo_inspect_candidate *candidate)
{
    const bo_attention_desc *a = m->in->arrays.attention;
    const bo_attention_desc desc = bo_candidate_desc(m->in, candidate, a->heads, a->key_heads, m->norms);
    bo_attention_inputs inputs = m->inputs;
    bo_attention *attention;
    if (candidate->whitened) inputs.m = m->m;
    BO_TRY(bo_attention_create(m->in->context, &desc, &attention));
    bo_status status = bo_candidate_fit(m->in->context, attention, &m->fit, m->fit_q, m->fit_k);
    if (status == BO_OK)
        status = bo_attention_forward_arrays(m->in->context, attention, &m->shape, &inputs, NULL, NULL, m->out, NULL);
    bo_attention_destroy(attention);
    return status;
}

/* Adds |out - exact|² of every head, or |exact|² if out is NULL. */
static void add_squares(const measuring *m, const float *out, double *sums, size_t stride)
{
    const bo_attention_desc *a = m->in->arrays.attention;
    for (size_t i = 0; i < outputs_of(m); i++) {
        const double difference = (double)m->exact[i] - (out ? (double)out[i] : 0);
        sums[i / a->value_dim % a->heads * stride] += difference * difference;
    }
}

/* Overflow is an infinite error, not a failure. */
static bo_status measure_candidate(const measuring *m, size_t index)
{
    bo_inspection_builder *report = m->in->report;
    const size_t count = report->out.candidate_count, heads = m->in->arrays.attention->heads;
    double *sums = m->in->sums[m->in->arrays.layer].error2 + index;
    if (report->candidates[index].window >= m->shape.tokens) return BO_OK;
    const bo_status status = run_candidate(m, &report->candidates[index]);
    if (status != BO_OK && status != BO_NUMERIC) return status;
    for (size_t h = 0; h < heads; h++) sums[h * count] = status == BO_OK ? 0 : INFINITY;
    if (status == BO_OK) add_squares(m, m->out, sums, count);
    return BO_OK;
}

/* ---- predictions ------------------------------------------------------------------------------------------------- */

static bo_status predict_heads(const measuring *m)
{
    bo_inspection_builder *report = m->in->report;
    const bo_attention_desc *a = m->in->arrays.attention;
    const size_t group = a->heads / a->key_heads;
    for (size_t h = 0; h < a->heads; h++) {
        bo_head_report *head = &report->heads[m->in->arrays.layer][h];
        double *predicted = bo_inspection_alloc(m->in->context, report, report->out.candidate_count, sizeof *predicted);
        if (!predicted) return BO_MEMORY;
        for (size_t c = 0; c < report->out.candidate_count; c++) predicted[c] = NAN;
        BO_TRY(bo_errors_predict(m->in, h, m->m + h / group * a->dim * a->dim, m->norms, predicted));
        head->predicted = predicted;
    }
    return BO_OK;
}

static bo_status measure_layer(measuring *m)
{
    bo_inspection_run *in = m->in;
    BO_TRY(find_exact(m));
    add_squares(m, NULL, in->sums[in->arrays.layer].norm2, 1);
    BO_TRY(find_whitening(m));
    for (size_t c = 0; c < in->report->out.candidate_count; c++) {
        BO_TRY(measure_candidate(m, c));
        BO_TRY(bo_progress(in->context, "inspecting", in->done + (double)c / (double)in->report->out.candidate_count,
                           in->steps));
    }
    return predict_heads(m);
}

bo_status bo_errors_add(bo_inspection_run *in)
{
    const bo_attention_desc *a = in->arrays.attention;
    if (!bo_has_pattern(a)) return BO_OK;
    measuring m = measuring_of(in);
    m.exact = bo_alloc_raw(in->context, outputs_of(&m), sizeof(float), "outputs of heads");
    m.out = bo_alloc_raw(in->context, outputs_of(&m), sizeof(float), "outputs of heads");
    m.m = bo_alloc_raw(in->context, a->key_heads * a->dim * a->dim, sizeof(float), "whitening matrices");
    const bo_status status = m.exact && m.out && m.m ? measure_layer(&m) : BO_MEMORY;
    measuring_free(&m);
    return status;
}

static bo_status keep_errors(bo_inspection_run *in, size_t layer, size_t head)
{
    const size_t count = in->report->out.candidate_count;
    const bo_layer_sums *sums = &in->sums[layer];
    double *errors = bo_inspection_alloc(in->context, in->report, count, sizeof *errors);
    if (!errors) return BO_MEMORY;
    for (size_t c = 0; c < count; c++)
        errors[c] = sums->norm2[head] > 0 ? sqrt(sums->error2[head * count + c] / sums->norm2[head]) : NAN;
    in->report->heads[layer][head].errors = errors;
    return BO_OK;
}

bo_status bo_errors_finish(bo_inspection_run *in, size_t layer)
{
    for (size_t h = 0; h < bo_inspection_attention(in, layer)->heads; h++) BO_TRY(keep_errors(in, layer, h));
    return BO_OK;
}
