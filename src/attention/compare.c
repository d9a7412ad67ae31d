/* How far attention's output is from exact softmax and from its own kernel in closed form, on some of the queries;
 * and how far single values φ(q)·φ(k) are from the kernel, measured and by the variance formula. */
#include <math.h>
#include <string.h>
#include "compare.h"
#include "dark.h"

enum { QUERIES = 128 }; /* of each head, unless told */

/* ---- conclusions ----------------------------------------------------------------------------------------------- */

/* Root of the mean of exp(2 x) or exp(x), relative to exp(log_rms) */
static double relative_rms(size_t count, const double *log_squares, double log_rms)
{
    return exp(0.5 * (bo_log_sum(count, log_squares) - log((double)count)) - log_rms);
}

static bo_status conclude_pairs(const bo_study *s, bo_attention_error *out)
{
    size_t findings = s->attention->desc.heads * s->samples, count = 0;
    out->kernel_rms = out->kernel_error = out->kernel_predicted = NAN;
    if (!s->closed || !s->attention->features) return BO_OK;
    double *logs = bo_alloc_raw(s->context, 3 * findings * BO_STUDY_PAIRS, sizeof *logs, "kernel values of pairs");
    if (!logs) return BO_MEMORY;
    double *kernel = logs, *error = logs + findings * BO_STUDY_PAIRS, *variance = logs + 2 * findings * BO_STUDY_PAIRS;
    for (size_t i = 0; i < findings; i++)
        for (size_t p = 0; p < s->found[i].pairs; p++, count++) {
            kernel[count] = 2 * s->found[i].log_kernel[p];
            error[count] = 2 * s->found[i].log_error[p];
            variance[count] = s->found[i].log_variance[p];
        }
    if (count) {
        double log_rms = 0.5 * (bo_log_sum(count, kernel) - log((double)count));
        out->kernel_rms = exp(log_rms);
        out->kernel_error = relative_rms(count, error, log_rms);
        out->kernel_predicted = relative_rms(count, variance, log_rms);
    }
    bo_free(logs);
    return BO_OK;
}

static bo_status conclude(const bo_study *s, bo_attention_error *out)
{
    bo_finding sum = {0};
    for (size_t i = 0; i < s->attention->desc.heads * s->samples; i++) {
        sum.softmax_error += s->found[i].softmax_error;
        sum.softmax_norm += s->found[i].softmax_norm;
        sum.kernel_error += s->found[i].kernel_error;
        sum.kernel_norm += s->found[i].kernel_norm;
    }
    out->queries = s->samples;
    out->against_softmax = bo_relative_error(sum.softmax_error, sum.softmax_norm);
    out->against_kernel = s->closed ? bo_relative_error(sum.kernel_error, sum.kernel_norm) : NAN;
    return conclude_pairs(s, out);
}

/* ---- the call -------------------------------------------------------------------------------------------------- */

/* Kinds that do not estimate softmax are held against the usual one. */
static double softmax_scale(const bo_attention_desc *desc)
{
    bo_kernel kernel = desc->features.kernel;
    bool one_number = bo_attention_has(desc, BO_TRAIT_ANY_KERNEL) && !bo_attention_has(desc, BO_TRAIT_GAMMA);
    if (one_number && (kernel == BO_KERNEL_SOFTMAX || kernel == BO_KERNEL_TAYLOR)) return desc->features.gamma;
    return !one_number && desc->scale != 0 ? desc->scale : 1 / sqrt((double)desc->dim);
}

static bo_status time_forward(bo_context *context, const bo_attention *attention, const bo_attention_shape *shape,
                              const bo_attention_inputs *inputs, float *out, double *seconds, size_t *bytes)
{
    bo_attention_plan plan;
    BO_TRY(bo_attention_plan_for(context, attention, shape, &plan));
    double start = bo_seconds();
    BO_TRY(bo_attention_forward(context, attention, shape, inputs, NULL, NULL, out, NULL));
    *seconds = bo_seconds() - start;
    *bytes = plan.forward_bytes;
    return BO_OK;
}

static bo_status time_softmax(const bo_study *s, float *out, bo_attention_error *error)
{
    const bo_attention_desc *desc = &s->attention->desc;
    const bo_attention_inputs *in = s->call->in, plain = {.q = in->q, .k = in->k, .v = in->v};
    bo_attention_desc exact = {.kind = BO_ATTENTION_EXACT,
                               .heads = desc->heads,
                               .key_heads = desc->key_heads,
                               .dim = desc->dim,
                               .value_dim = desc->value_dim,
                               .causal = desc->causal,
                               .scale = s->scale};
    bo_attention *softmax = NULL;
    BO_TRY(bo_attention_create(s->context, &exact, &softmax));
    bo_status status =
        time_forward(s->context, softmax, s->call->shape, &plain, out, &error->softmax_seconds, &error->softmax_bytes);
    bo_attention_destroy(softmax);
    return status;
}

static bo_status compare(bo_study *s, bo_attention_error *error)
{
    const bo_attention_desc *desc = &s->attention->desc;
    size_t floats = s->call->queries_total * desc->heads * desc->value_dim;
    float *own = bo_alloc_raw(s->context, floats, sizeof *own, "attention's output");
    s->found = bo_alloc(s->context, desc->heads * s->samples, sizeof *s->found, "comparing attention");
    if (own) memset(own, 0, floats * sizeof *own); /* so that neither pass pays for fresh memory */
    bo_status status = own && s->found ? time_softmax(s, own, error) : BO_MEMORY;
    if (status == BO_OK)
        status = time_forward(s->context, s->attention, s->call->shape, s->call->in, own, &error->kind_seconds,
                              &error->kind_bytes);
    if (!s->out) s->out = own;
    if (status == BO_OK) status = bo_study_run(s);
    if (status == BO_OK) status = conclude(s, error);
    bo_free(own);
    bo_free(s->found);
    return status;
}

bo_status bo_attention_compare(bo_context *context, const bo_attention *attention, const bo_attention_shape *shape,
                               const bo_attention_inputs *inputs, const float *out, size_t queries,
                               bo_attention_error *error)
{
    bo_geometry geometry;
    if (!error) return bo_fail(context, BO_INVALID, "comparing attention: there is nowhere to put the errors");
    memset(error, 0, sizeof *error);
    if (!inputs) return bo_fail(context, BO_INVALID, "comparing attention: the inputs are NULL");
    BO_TRY(bo_geometry_make(context, attention, shape, &geometry));
    bo_call call = bo_layout_of(attention, shape, &geometry);
    call.in = inputs;
    bo_study s = {.context = context, .attention = attention, .call = &call, .out = out};
    s.samples = queries ? queries : QUERIES;
    if (s.samples > call.queries_total) s.samples = call.queries_total;
    for (size_t i = 0; i < shape->sequences; i++)
        if (geometry.sequences[i].keys > s.longest_keys) s.longest_keys = geometry.sequences[i].keys;
    const bo_features_desc *map = attention->features ? bo_features_describe(attention->features[0]) : NULL;
    s.scale = softmax_scale(&attention->desc);
    s.closed = map ? map->kernel != BO_KERNEL_CUSTOM : (attention->traits & BO_TRAIT_CAPACITY) != 0;
    s.matrix = map && s.closed && (map->kernel != BO_KERNEL_SOFTMAX || map->length_scales);
    bo_status status = shape->no_keys
                           ? bo_fail(context, BO_INVALID, "comparing attention needs keys; the shape has none")
                           : compare(&s, error);
    bo_geometry_free(&geometry);
    return status;
}
