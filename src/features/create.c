/* Creation and destruction of feature maps. */
#include <assert.h>
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "enums.h"
#include "../math/fft.h"
#include "facts.h"
#include "internal.h"
#include "files.h"

bo_features *bo_features_share(const bo_features *features)
{
    bo_features *shared = (bo_features *)features;
    atomic_fetch_add(&shared->other_owners, 1);
    return shared;
}

void bo_features_destroy(bo_features *features)
{
    if (!features || atomic_fetch_sub(&features->other_owners, 1) > 0) return;
    bo_free(features->factor);
    bo_free(features->slope);
    bo_free(features->square);
    bo_free(features->length_scales);
    bo_free(features->w);
    bo_packed_destroy(features->packed);
    bo_free(features->weights);
    bo_free(features->proposal);
    bo_free(features->chosen);
    bo_free(features->spread);
    bo_free(features->offset);
    bo_free(features->offset_f32);
    bo_free(features->bias);
    bo_free(features->hadamard.signs);
    bo_free(features->hadamard.norms);
    bo_sketch_destroy(features->sketch);
    bo_selftensor_destroy(features->selftensor);
    bo_random_network_destroy(features->network);
    bo_landmarks_destroy(features->landmarks);
    bo_free(features->runs);
    bo_device_copies_destroy(features->copies);
    bo_free(features);
}

/* ---- steps ------------------------------------------------------------------------------------------------------- */

static bo_status keep_length_scales(bo_context *context, bo_features *features)
{
    size_t dim = features->desc.dim;
    if (features->desc.length_scales) {
        features->length_scales = bo_alloc_raw(context, dim, sizeof(float), "length scales");
        if (!features->length_scales) return BO_MEMORY;
        memcpy(features->length_scales, features->desc.length_scales, dim * sizeof(float));
        features->desc.length_scales = features->length_scales;
    }
    features->factor = bo_alloc_raw(context, dim, sizeof(double), "length scales");
    if (!features->factor) return BO_MEMORY;
    bo_input_factors(&features->desc, features->factor);
    return BO_OK;
}

/* Call after derive: u_scale of OPRF is included. */
static bo_status store_float_factors(bo_context *context, bo_features *features)
{
    size_t dim = features->desc.dim;
    features->slope = bo_alloc_raw(context, dim, sizeof(float), "length scales");
    features->square = bo_alloc_raw(context, dim, sizeof(float), "length scales");
    if (!features->slope || !features->square) return BO_MEMORY;
    for (size_t j = 0; j < dim; j++) {
        features->slope[j] = (float)(features->factor[j] * features->u_scale);
        features->square[j] = (float)(features->factor[j] * features->factor[j]);
    }
    return BO_OK;
}

bo_status bo_features_begin(bo_context *context, const bo_features_desc *resolved, bo_features **out)
{
    *out = NULL;
    bo_features *features = bo_alloc(context, 1, sizeof *features, "a feature map");
    if (!features) return BO_MEMORY;
    features->desc = *resolved;
    features->function = bo_function_find(resolved->function);
    features->kernels = bo_context_kernels(context);
    features->frequencies = bo_frequencies_of(resolved);
    features->input_scale = bo_kernel_find(resolved->kernel)->shift_invariant ? 1 : sqrt(resolved->gamma);
    features->u_scale = 1;
    features->copies = bo_device_copies_create(context);
    bo_status status = features->copies ? keep_length_scales(context, features) : BO_MEMORY;
    if (status == BO_OK && features->function->derive) status = features->function->derive(context, features);
    if (status == BO_OK) status = store_float_factors(context, features);
    if (status != BO_OK) {
        bo_features_destroy(features);
        return status;
    }
    *out = features;
    return BO_OK;
}

bo_status bo_features_draw(bo_context *context, bo_features *features)
{
    const bo_draw_definition *draw = bo_draw_find(features->desc.draw);
    bo_draw_request request = {.desc = &features->desc,
                               .spectrum = bo_kernel_find(features->desc.kernel)->spectrum,
                               .dim = features->desc.dim,
                               .count = features->frequencies,
                               .seed = features->desc.seed};
    if (features->frequencies && draw->structured) {
        BO_TRY(bo_hadamard_prepare(context, &request, &features->hadamard));
    } else if (features->frequencies) {
        features->w = bo_alloc_raw(context, request.count * request.dim, sizeof(float), "frequencies");
        if (!features->w) return BO_MEMORY;
        BO_TRY(draw->draw(context, &request, features->w));
    }
    return features->function->prepare ? features->function->prepare(context, features) : BO_OK;
}

bo_status bo_features_dense_f32(bo_context *context, const bo_features *features, float *w)
{
    if (features->hadamard.padded) return bo_hadamard_dense(context, features, w, NULL);
    memcpy(w, features->w, features->frequencies * features->desc.dim * sizeof(float));
    return BO_OK;
}

bo_status bo_features_dense_f64(bo_context *context, const bo_features *features, double *w)
{
    if (features->hadamard.padded) return bo_hadamard_dense(context, features, NULL, w);
    for (size_t i = 0; i < features->frequencies * features->desc.dim; i++) w[i] = (double)features->w[i];
    return BO_OK;
}

/* Packs the projection as one product with the raw input: w ∘ factor, times the function's factor. */
static bo_status pack(bo_context *context, bo_features *features)
{
    size_t m = features->frequencies, dim = features->desc.dim;
    float *scaled = bo_alloc_raw(context, m * dim, sizeof(float), "packed frequencies");
    if (!scaled) return BO_MEMORY;
    for (size_t i = 0; i < m; i++)
        for (size_t j = 0; j < dim; j++)
            scaled[i * dim + j] = (float)((double)features->w[i * dim + j] * (features->factor[j] * features->u_scale));
    bo_packed *packed = NULL;
    bo_status status = bo_packed_create(context, features->precision, m, dim, scaled, dim, &packed);
    bo_free(scaled);
    if (status != BO_OK) return status;
    bo_packed_destroy(features->packed);
    features->packed = packed;
    return BO_OK;
}

bo_status bo_features_set_precision(bo_context *context, bo_features *features, bo_precision precision)
{
    if (features->precision == precision) return BO_OK;
    features->precision = precision;
    return features->packed ? pack(context, features) : BO_OK;
}

static bo_status log_weights(bo_context *context, const bo_features *features, const double *w, double *out)
{
    if (features->proposal) BO_TRY(bo_proposal_weights(context, features, w, out));
    const float *given = features->proposal ? features->chosen : features->weights;
    for (size_t i = 0; i < features->frequencies; i++)
        out[i] = (features->proposal ? out[i] : 0) + (given ? log((double)given[i]) : 0);
    return BO_OK;
}

/* Exponential functions add A|w|² and the logarithm of the weight to u; other functions multiply by the weight.
 * Existing arrays are replaced only after the last step that can fail. */
static bo_status pack_with_offsets(bo_context *context, bo_features *features)
{
    size_t m = features->frequencies, dim = features->desc.dim;
    if (!features->offset) features->offset = bo_alloc(context, m, sizeof(double), "offsets of the features");
    if (!features->offset_f32) features->offset_f32 = bo_alloc(context, m, sizeof(float), "offsets of the features");
    double *w = bo_alloc_raw(context, m * dim, sizeof(double), "frequencies");
    double *log_weight = bo_alloc_raw(context, m, sizeof(double), "importance weights");
    bool allocated = features->offset && features->offset_f32 && w && log_weight;
    bo_status status = allocated ? bo_features_dense_f64(context, features, w) : BO_MEMORY;
    if (status == BO_OK) status = log_weights(context, features, w, log_weight);
    if (status == BO_OK && features->w && !features->desc.sparse) status = pack(context, features);
    for (size_t i = 0; status == BO_OK && i < m; i++) {
        double norm = 0;
        for (size_t j = 0; j < dim; j++) norm += w[i * dim + j] * w[i * dim + j];
        features->offset[i] = features->oprf_a * norm + log_weight[i];
        features->offset_f32[i] = (float)features->offset[i];
        /* the weight of a proposal, rounded to float and kept positive so that a file with it can be loaded */
        if (features->proposal) features->weights[i] = fminf(fmaxf((float)exp(log_weight[i]), FLT_MIN), FLT_MAX);
    }
    bo_free(w);
    bo_free(log_weight);
    return status;
}

/* Checks the invariants listed above struct bo_features. */
static void check_invariants(const bo_features *features)
{
    assert(!features->w == (!features->frequencies || features->hadamard.padded));
    assert((features->w && !features->desc.sparse) == (features->packed != NULL));
    assert(features->factor);
    assert(!features->proposal || features->weights);
    (void)features;
}

bo_status bo_features_finish(bo_context *context, bo_features *features)
{
    if (features->proposal) BO_TRY(bo_proposal_prepare(context, features));
    if (features->selftensor) bo_selftensor_finish(features);
    if (features->network) BO_TRY(bo_random_network_finish(context, features));
    if (features->landmarks) BO_TRY(bo_landmarks_finish(context, features));
    if (features->function->exponential && (features->oprf_a != 0 || features->weights))
        BO_TRY(pack_with_offsets(context, features));
    else if (features->w && !features->desc.sparse)
        BO_TRY(pack(context, features));
    features->version++;
    check_invariants(features);
    return BO_OK;
}

/* ---- create ------------------------------------------------------------------------------------------------------ */

static void warn_of_unusual_settings(bo_context *context, const bo_features_desc *desc)
{
    bool trigonometric = desc->function == BO_FUNCTION_SINCOS || desc->function == BO_FUNCTION_COSBIAS;
    if (desc->draw == BO_DRAW_SIMPLEX && trigonometric)
        bo_log(context, BO_LOG_WARNING,
               "draw simplex has no advantage for trigonometric features, which are even in w; use orthogonal");
    if (desc->sampling == BO_SAMPLING_OPTIMAL && bo_function_find(desc->function)->flat)
        bo_log(context, BO_LOG_INFO,
               "sampling optimal: the frequencies of function %s are used as drawn, because a choice would gain at "
               "most 3%%",
               bo_function_name(desc->function));
}

/* The choice of landmarks has a separate function. */
static bool needs_selection(const bo_features_desc *desc)
{
    if (desc->sampling == BO_SAMPLING_DRAWN || desc->function == BO_FUNCTION_LANDMARKS) return false;
    return !(desc->sampling == BO_SAMPLING_OPTIMAL && bo_function_find(desc->function)->flat);
}

/* Refuses a map that does not fit into memory before any work. The limits are not queried for small maps. */
static bo_status check_memory(bo_context *context, const bo_features_desc *resolved)
{
    enum { SMALL = 1 << 24 };
    size_t bytes = 0;
    char label[96];
    BO_TRY(bo_features_estimate(context, resolved, &bytes));
    if (bytes < SMALL) return BO_OK;
    snprintf(label, sizeof label, "a map of %zu features of %zu columns", resolved->features, resolved->dim);
    return bo_check_memory(context, label, (double)bytes, bo_process_memory(),
                           "use fewer features, or the structured draw hadamard");
}

bo_status bo_features_create(bo_context *context, const bo_features_desc *desc, bo_features **out)
{
    if (out) *out = NULL;
    BO_REQUIRE(context, desc, out);
    bo_features_desc resolved;
    BO_TRY(bo_features_resolve(context, desc, &resolved));
    BO_TRY(check_memory(context, &resolved));
    warn_of_unusual_settings(context, &resolved);
    bo_features *features = NULL;
    BO_TRY(bo_features_begin(context, &resolved, &features));
    const bo_feature_sample sample = {resolved.sample, resolved.sample_rows, resolved.sample_stride};
    bo_status status = needs_selection(&resolved) ? bo_features_select(context, features, NULL, &sample, &sample)
                                                  : bo_features_draw(context, features);
    if (status == BO_OK) status = bo_features_finish(context, features);
    if (status != BO_OK) {
        bo_features_destroy(features);
        return status;
    }
    features->desc.sample = NULL; /* the sample belongs to the caller */
    features->desc.sample_rows = features->desc.sample_stride = 0;
    *out = features;
    return BO_OK;
}

bo_status bo_features_estimate(bo_context *context, const bo_features_desc *desc, size_t *bytes)
{
    BO_REQUIRE(context, desc, bytes);
    bo_features_desc resolved;
    BO_TRY(bo_features_resolve(context, desc, &resolved));
    size_t m = bo_frequencies_of(&resolved), dim = resolved.dim, padded = 1;
    size_t total =
        sizeof(bo_features) + dim * (sizeof(double) + 2 * sizeof(float) + (resolved.length_scales ? sizeof(float) : 0));
    while (padded < dim) padded *= 2;
    if (m && bo_draw_find(resolved.draw)->structured)
        total += ((m + padded - 1) / padded * 3 * padded + m) * sizeof(float);
    else if (m) /* w, and w packed in whole slivers of frequencies */
        total += (m + (resolved.sparse ? 0 : bo_round_up(m, 64))) * dim * sizeof(float);
    if (resolved.function == BO_FUNCTION_COSBIAS) total += m * sizeof(float);
    bool chosen = needs_selection(&resolved), exponential = bo_function_find(resolved.function)->exponential;
    if (chosen) total += m * sizeof(float);
    if (resolved.function == BO_FUNCTION_OPRF || (chosen && exponential)) total += m * (sizeof(float) + sizeof(double));
    if (resolved.function == BO_FUNCTION_POLYNOMIAL) total += bo_polynomial_runs(&resolved) * sizeof(bo_polynomial_run);
    if (resolved.function == BO_FUNCTION_TENSORSKETCH)
        total +=
            (size_t)resolved.degree * (dim + 1) * (sizeof(int32_t) + sizeof(float)) + bo_fft_memory(resolved.features);
    if (resolved.function == BO_FUNCTION_SELFTENSOR) total += 2 * bo_selftensor_count(&resolved) * sizeof(float);
    if (resolved.function == BO_FUNCTION_NETWORK) total += bo_random_network_bytes(&resolved);
    if (resolved.function == BO_FUNCTION_LANDMARKS) total += bo_landmarks_bytes(&resolved);
    *bytes = total;
    return BO_OK;
}

/* ---- queries ----------------------------------------------------------------------------------------------------- */

const bo_features_desc *bo_features_describe(const bo_features *features)
{
    return features ? &features->desc : NULL;
}

size_t bo_features_frequencies(const bo_features *features)
{
    return features ? features->frequencies : 0;
}

const float *bo_features_importance(const bo_features *features)
{
    return features ? features->weights : NULL;
}

bo_status bo_features_get_frequencies(bo_context *context, const bo_features *features, float *w)
{
    BO_REQUIRE(context, features, w);
    size_t count = features->frequencies * features->desc.dim;
    if (!count) return bo_fail(context, BO_UNSUPPORTED, "function %s has no frequencies", features->function->name);
    BO_TRY(bo_features_dense_f32(context, features, w));
    for (size_t i = 0; features->input_scale != 1 && i < count; i++)
        w[i] = (float)((double)w[i] * features->input_scale);
    return BO_OK;
}

bo_status bo_features_set_frequencies(bo_context *context, bo_features *features, const float *w)
{
    BO_REQUIRE(context, features, w);
    size_t count = features->frequencies * features->desc.dim;
    if (!features->w)
        return bo_fail(context, BO_UNSUPPORTED, "the frequencies of function %s, draw %s cannot be set",
                       features->function->name, bo_draw_name(features->desc.draw));
    for (size_t i = 0; i < count; i++)
        if (!isfinite(w[i]))
            return bo_fail(context, BO_INVALID, "frequency %zu, coordinate %zu must be finite, found %g",
                           i / features->desc.dim, i % features->desc.dim, (double)w[i]);
    float *old = features->w, *now = bo_alloc_raw(context, count, sizeof *now, "frequencies");
    if (!now) return BO_MEMORY;
    for (size_t i = 0; i < count; i++) now[i] = (float)((double)w[i] / features->input_scale);
    features->w = now;
    bo_status status = bo_features_finish(context, features);
    if (status != BO_OK) features->w = old;
    bo_free(status == BO_OK ? old : now);
    return status;
}
