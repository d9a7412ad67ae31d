/* The output error predicted by the variance formula, for other modules. */
#include <math.h>
#include "enums.h"
#include "advise.h"

enum { QUERIES = 32 }; /* queries of a prediction */

static bo_status predict(bo_context *context, const bo_call *call, const bo_attention *attention, const float *q,
                         const float *k, const float *v, bo_error_prediction *out)
{
    bo_survey survey;
    bo_survey_prediction found = {0};
    bo_status status = bo_survey_make(context, call, q, k, v, QUERIES, &survey);
    if (status == BO_OK) status = bo_survey_predict(&survey, attention, &found);
    bo_survey_free(&survey);
    if (status != BO_OK) return status;
    const size_t frequencies = bo_features_frequencies(attention->features[0]);
    const double each = frequencies ? (double)attention->count / (double)frequencies : 0;
    *out = (bo_error_prediction){.floor = found.floor, .slope = each * found.slope};
    return BO_OK;
}

bo_status bo_attention_predict(bo_context *context, const bo_attention *attention, const bo_attention_shape *shape,
                               const float *q, const float *k, const float *v, double scale, bo_error_prediction *out)
{
    const bo_attention_desc *d = &attention->desc;
    const bo_attention_desc plain = {.kind = BO_ATTENTION_SOFTMAX,
                                     .heads = 1,
                                     .dim = d->dim,
                                     .value_dim = d->value_dim,
                                     .causal = d->causal,
                                     .scale = scale};
    bo_attention *exact;
    bo_geometry geometry;
    *out = (bo_error_prediction){NAN, NAN};
    if (d->heads != 1 || !attention->features)
        return bo_fail(context, BO_INVALID, "prediction: expected one head with features, found %zu heads of kind %s",
                       d->heads, bo_attention_kind_name(d->kind));
    BO_TRY(bo_attention_create(context, &plain, &exact));
    bo_status status = bo_geometry_make(context, exact, shape, &geometry);
    if (status == BO_OK) {
        const bo_call call = bo_layout_of(exact, shape, &geometry);
        status = predict(context, &call, attention, q, k, v, out);
        bo_geometry_free(&geometry);
    }
    bo_attention_destroy(exact);
    return status;
}

double bo_error_predicted(const bo_error_prediction *prediction, size_t features)
{
    return sqrt(prediction->floor * prediction->floor + prediction->slope / (double)features);
}
