/* Checks of descriptors. Every error gives the value found, the values allowed, and the reason. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "enums.h"
#include "internal.h"

/* ---- parameters of kernels --------------------------------------------------------------------------------------- */

static bo_status resolve_positive(bo_context *context, const char *name, double *value, double standard)
{
    if (*value == 0) *value = standard;
    if (!(*value > 0) || !isfinite(*value))
        return bo_fail(context, BO_INVALID, "%s must be a positive number, found %g", name, *value);
    return BO_OK;
}

static bo_status check_length_scales(bo_context *context, const bo_features_desc *desc)
{
    for (size_t j = 0; desc->length_scales && j < desc->dim; j++)
        if (!(desc->length_scales[j] > 0) || !isfinite(desc->length_scales[j]))
            return bo_fail(context, BO_INVALID, "length_scales[%zu] must be a positive number, found %g", j,
                           (double)desc->length_scales[j]);
    return BO_OK;
}

static bo_status resolve_network(bo_context *context, bo_features_desc *desc)
{
    if (desc->depth == 0) desc->depth = 1;
    if (desc->depth < 1 || desc->depth > BO_DEEPEST)
        return bo_fail(context, BO_INVALID, "depth must be 1 to %d hidden layers, found %d", (int)BO_DEEPEST,
                       desc->depth);
    if (!bo_hidden_activation_name(desc->activation))
        return bo_fail(context, BO_INVALID, "unknown activation %d (expected 0 to 1)", (int)desc->activation);
    if (!(desc->bias_variance >= 0) || !isfinite(desc->bias_variance))
        return bo_fail(context, BO_INVALID, "bias_variance must be at least 0, found %g", desc->bias_variance);
    return resolve_positive(context, "weight_variance", &desc->weight_variance, 2);
}

bo_status bo_kernel_resolve(bo_context *context, const bo_features_desc *desc, bo_features_desc *resolved)
{
    *resolved = *desc;
    BO_TRY(bo_check_reserved(context, "bo_features_desc", desc->reserved));
    if (!bo_kernel_find(desc->kernel))
        return bo_fail(context, BO_INVALID, "unknown kernel %d (expected 0 to %d)", (int)desc->kernel,
                       BO_KERNEL_COUNT - 1);
    if (desc->dim == 0) return bo_fail(context, BO_INVALID, "dim must be at least 1, found 0");
    if (desc->dim > UINT32_MAX) return bo_fail(context, BO_INVALID, "dim must be below 2^32, found %zu", desc->dim);
    bool network = bo_kernel_of_networks(desc->kernel);
    BO_TRY(resolve_positive(context, "gamma", &resolved->gamma, network ? 1 / (double)desc->dim : 1));
    if (network) BO_TRY(resolve_network(context, resolved));
    if (desc->kernel == BO_KERNEL_RATIONAL_QUADRATIC) BO_TRY(resolve_positive(context, "alpha", &resolved->alpha, 1));
    if (desc->kernel == BO_KERNEL_POLYNOMIAL) {
        if (desc->degree == 0) resolved->degree = 2;
        if (resolved->degree < 1 || resolved->degree > 64)
            return bo_fail(context, BO_INVALID, "degree must be 1 to 64, found %d", resolved->degree);
    }
    return check_length_scales(context, desc);
}

/* ---- function ---------------------------------------------------------------------------------------------------- */

/* Writes a list such as "sincos, cosbias" for the message of a mismatch. */
static void fitting_functions(bo_kernel kernel, char *text, size_t size)
{
    size_t used = 0;
    text[0] = 0;
    for (int i = 1; i < BO_FUNCTION_COUNT && used < size; i++)
        if (bo_function_find((bo_function)i)->kernels & BO_KERNEL_BIT(kernel))
            used +=
                (size_t)snprintf(text + used, size - used, "%s%s", used ? ", " : "", bo_function_name((bo_function)i));
}

static bo_status resolve_function(bo_context *context, bo_features_desc *desc)
{
    char fitting[160];
    if (desc->function == BO_FUNCTION_DEFAULT) desc->function = bo_function_default(desc->kernel);
    const bo_function_definition *function = bo_function_find(desc->function);
    if (!function)
        return bo_fail(context, BO_INVALID, "unknown function %d (expected 0 to %d)", (int)desc->function,
                       BO_FUNCTION_COUNT - 1);
    if (function->kernels & BO_KERNEL_BIT(desc->kernel)) return BO_OK;
    if (desc->function == BO_FUNCTION_SECTIONS)
        return bo_fail(context, BO_UNSUPPORTED,
                       "function sections is available in kernel machines only, which know the training rows");
    fitting_functions(desc->kernel, fitting, sizeof fitting);
    return bo_fail(context, BO_UNSUPPORTED, "function %s cannot be used with kernel %s; expected one of: %s",
                   function->name, bo_kernel_name(desc->kernel), fitting);
}

/* ---- number of features ------------------------------------------------------------------------------------------ */

static size_t features_per_frequency(const bo_features_desc *desc)
{
    if (desc->function == BO_FUNCTION_CUSTOM) return desc->custom_per_frequency;
    return bo_function_find(desc->function)->per_frequency;
}

size_t bo_frequencies_of(const bo_features_desc *resolved)
{
    size_t per = features_per_frequency(resolved);
    return per ? resolved->features / per : 0;
}

static bo_status resolve_exact_count(bo_context *context, bo_features_desc *desc)
{
    const bo_function_definition *function = bo_function_find(desc->function);
    size_t count = 0;
    BO_TRY(function->count(context, desc, &count));
    if (count && desc->features && desc->features != count)
        return bo_fail(context, BO_INVALID,
                       "function %s with dim %zu has exactly %zu features, found %zu; set features to 0 or %zu",
                       function->name, desc->dim, count, desc->features, count);
    if (count) desc->features = count;
    return BO_OK;
}

static bo_status resolve_count(bo_context *context, bo_features_desc *desc)
{
    const bo_function_definition *function = bo_function_find(desc->function);
    if (function->count) BO_TRY(resolve_exact_count(context, desc));
    if (desc->features == 0)
        return bo_fail(context, BO_INVALID,
                       "features must be at least 1, found 0 (function %s has no default number of features)",
                       function->name);
    if (desc->features > SIZE_MAX / sizeof(double) / desc->dim / 64)
        return bo_fail(context, BO_INVALID, "%zu features of dim %zu do not fit in the address space", desc->features,
                       desc->dim);
    size_t per = features_per_frequency(desc);
    if (per > 1 && desc->features % per) {
        size_t below = desc->features / per * per;
        if (below == 0)
            return bo_fail(
                context, BO_INVALID,
                "function %s has %zu features per frequency: features must be a multiple of %zu, found %zu; the "
                "nearest is %zu",
                function->name, per, per, desc->features, per);
        return bo_fail(
            context, BO_INVALID,
            "function %s has %zu features per frequency: features must be a multiple of %zu, found %zu; the nearest "
            "are %zu and %zu",
            function->name, per, per, desc->features, below, below + per);
    }
    return BO_OK;
}

/* ---- draw -------------------------------------------------------------------------------------------------------- */

static bo_status resolve_no_draw(bo_context *context, bo_features_desc *desc)
{
    const char *name = bo_function_find(desc->function)->name;
    if (desc->draw != BO_DRAW_DEFAULT && desc->draw != BO_DRAW_IID)
        return bo_fail(context, BO_UNSUPPORTED, "draw %s cannot be used with function %s, which has no frequencies",
                       bo_draw_name(desc->draw), name);
    if (desc->sampling != BO_SAMPLING_DRAWN && desc->function != BO_FUNCTION_LANDMARKS)
        return bo_fail(context, BO_UNSUPPORTED, "sampling %s cannot be used with function %s, which has no frequencies",
                       bo_sampling_name(desc->sampling), name);
    desc->draw = BO_DRAW_IID;
    return BO_OK;
}

static bo_status resolve_draw(bo_context *context, bo_features_desc *desc)
{
    const bo_spectrum *spectrum = bo_kernel_find(desc->kernel)->spectrum;
    if ((unsigned)desc->draw >= BO_DRAW_COUNT)
        return bo_fail(context, BO_INVALID, "unknown draw %d (expected 0 to %d)", (int)desc->draw, BO_DRAW_COUNT - 1);
    if (!features_per_frequency(desc)) return resolve_no_draw(context, desc);
    if (desc->draw == BO_DRAW_DEFAULT) desc->draw = spectrum->radial ? BO_DRAW_ORTHOGONAL : BO_DRAW_IID;
    const bo_draw_definition *draw = bo_draw_find(desc->draw);
    if (draw->needs_rotation && !spectrum->radial)
        return bo_fail(
            context, BO_UNSUPPORTED,
            "draw %s cannot be used with kernel %s: it requires a rotation-invariant spectrum; use iid or sobol",
            draw->name, bo_kernel_name(desc->kernel));
    bo_draw_request request = {
        .desc = desc, .spectrum = spectrum, .dim = desc->dim, .count = bo_frequencies_of(desc), .seed = desc->seed};
    return draw->check ? draw->check(context, &request) : BO_OK;
}

/* ---- sampling ---------------------------------------------------------------------------------------------------- */

static bo_status check_sample(bo_context *context, bo_features_desc *desc)
{
    if (!desc->sample) return BO_OK;
    if (desc->sample_rows == 0) return bo_fail(context, BO_INVALID, "sample_rows must be at least 1, found 0");
    if (desc->sample_stride == 0) desc->sample_stride = desc->dim;
    if (desc->sample_stride < desc->dim)
        return bo_fail(context, BO_INVALID, "sample_stride must be at least dim = %zu, found %zu", desc->dim,
                       desc->sample_stride);
    return BO_OK;
}

bo_status bo_candidates_check(bo_context *context, size_t kept, size_t dim, size_t candidates)
{
    char label[96];
    if (candidates < kept)
        return bo_fail(context, BO_INVALID, "candidates must be at least the number of frequencies, %zu, found %zu",
                       kept, candidates);
    if (candidates > SIZE_MAX / sizeof(double) / dim / 64)
        return bo_fail(context, BO_INVALID, "%zu candidates of dim %zu do not fit in the address space", candidates,
                       dim);
    snprintf(label, sizeof label, "a choice among %zu candidates of dim %zu", candidates, dim);
    return bo_check_memory(context, label, (double)candidates * (double)dim * sizeof(float), bo_process_memory(),
                           "use fewer candidates");
}

static bo_status resolve_sampling(bo_context *context, bo_features_desc *desc)
{
    const bo_function_definition *function = bo_function_find(desc->function);
    size_t kept = bo_frequencies_of(desc);
    if ((unsigned)desc->sampling >= BO_SAMPLING_COUNT)
        return bo_fail(context, BO_INVALID, "unknown sampling %d (expected 0 to %d)", (int)desc->sampling,
                       BO_SAMPLING_COUNT - 1);
    if (desc->sampling == BO_SAMPLING_DRAWN || kept == 0) return BO_OK;
    if (bo_draw_find(desc->draw)->structured)
        return bo_fail(
            context, BO_UNSUPPORTED,
            "sampling %s cannot be used with draw hadamard: its frequencies form one fast transform and cannot be "
            "chosen individually; use orthogonal",
            bo_sampling_name(desc->sampling));
    if (desc->sampling == BO_SAMPLING_OPTIMAL && function->flat)
        return BO_OK; /* frequencies as drawn are optimal: no sample is needed */
    if (!desc->sample)
        return bo_fail(context, BO_INVALID, "sampling %s needs a sample of the data, found none",
                       bo_sampling_name(desc->sampling));
    if (desc->candidates == 0) desc->candidates = 8 * kept;
    BO_TRY(bo_candidates_check(context, kept, desc->dim, desc->candidates));
    if (desc->sampling == BO_SAMPLING_LEVERAGE)
        BO_TRY(resolve_positive(context, "leverage_lambda", &desc->leverage_lambda, 1e-3 * (double)desc->sample_rows));
    return BO_OK;
}

/* ---- the whole descriptor ---------------------------------------------------------------------------------------- */

bo_status bo_features_resolve(bo_context *context, const bo_features_desc *desc, bo_features_desc *resolved)
{
    BO_TRY(bo_kernel_resolve(context, desc, resolved));
    BO_TRY(resolve_function(context, resolved));
    BO_TRY(check_sample(context, resolved));
    const bo_function_definition *function = bo_function_find(resolved->function);
    if (function->check) BO_TRY(function->check(context, resolved));
    BO_TRY(resolve_count(context, resolved));
    BO_TRY(resolve_draw(context, resolved));
    return resolve_sampling(context, resolved);
}
