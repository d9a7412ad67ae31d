/* The tables of kernels, functions, draws and sampling policies: one line each. */
#include "enums.h"
#include "facts.h"
#include "internal.h"

static const bo_kernel_definition kernels[BO_KERNEL_COUNT] = {
    [BO_KERNEL_RBF] = {"rbf", BO_FORM_DISTANCE, true, false, false, false, &bo_spectrum_gaussian, bo_value_rbf,
                       bo_derivatives_rbf},
    [BO_KERNEL_LAPLACIAN] = {"laplacian", BO_FORM_L1, true, false, false, false, &bo_spectrum_cauchy,
                             bo_value_laplacian, bo_derivatives_laplacian},
    [BO_KERNEL_CAUCHY] = {"cauchy", BO_FORM_PRODUCT, true, false, false, false, &bo_spectrum_laplace, bo_value_cauchy,
                          bo_derivatives_cauchy},
    [BO_KERNEL_MATERN12] = {"matern12", BO_FORM_DISTANCE, true, false, false, false, &bo_spectrum_student1,
                            bo_value_matern12, bo_derivatives_matern12},
    [BO_KERNEL_MATERN32] = {"matern32", BO_FORM_DISTANCE, true, false, false, false, &bo_spectrum_student3,
                            bo_value_matern32, bo_derivatives_matern32},
    [BO_KERNEL_MATERN52] = {"matern52", BO_FORM_DISTANCE, true, false, false, false, &bo_spectrum_student5,
                            bo_value_matern52, bo_derivatives_matern52},
    [BO_KERNEL_RATIONAL_QUADRATIC] = {"rational-quadratic", BO_FORM_DISTANCE, true, false, false, false,
                                      &bo_spectrum_gamma_mixture, bo_value_rational_quadratic,
                                      bo_derivatives_rational_quadratic},
    [BO_KERNEL_SOFTMAX] = {"softmax", BO_FORM_DOT, false, true, false, true, &bo_spectrum_unit, bo_value_softmax,
                           bo_derivatives_softmax},
    [BO_KERNEL_ARCCOS] = {"arccos", BO_FORM_DOT, false, false, false, false, &bo_spectrum_unit, bo_value_arccos,
                          bo_derivatives_arccos},
    [BO_KERNEL_POLYNOMIAL] = {"polynomial", BO_FORM_DOT, false, false, false, true, NULL, bo_value_polynomial,
                              bo_derivatives_polynomial},
    [BO_KERNEL_TAYLOR] = {"taylor", BO_FORM_DOT, false, false, false, true, NULL, bo_value_taylor,
                          bo_derivatives_taylor},
    [BO_KERNEL_ELU] = {"elu", BO_FORM_ELU, false, false, false, false, NULL, bo_value_dot, bo_derivatives_dot},
    [BO_KERNEL_CUSTOM] = {"custom", BO_FORM_NONE, false, false, false, false, &bo_spectrum_unit, NULL, NULL},
    [BO_KERNEL_LINEAR] = {"linear", BO_FORM_DOT, false, false, false, true, NULL, bo_value_dot, bo_derivatives_dot},
    [BO_KERNEL_COSH] = {"cosh", BO_FORM_COSH, false, true, true, false, NULL, bo_value_dot, bo_derivatives_dot},
    [BO_KERNEL_HEDGEHOG] = {"hedgehog", BO_FORM_SIGNS, false, false, true, false, NULL, bo_value_hedgehog,
                            bo_derivatives_hedgehog},
    [BO_KERNEL_RECTIFIER] = {"rectifier", BO_FORM_RECTIFIER, false, false, true, false, NULL, bo_value_dot,
                             bo_derivatives_dot},
    [BO_KERNEL_NNGP] = {"nngp", BO_FORM_BOTH, false, false, false, false, NULL, bo_value_nngp, bo_derivatives_nngp},
    [BO_KERNEL_NTK] = {"ntk", BO_FORM_BOTH, false, false, false, false, NULL, bo_value_ntk, bo_derivatives_ntk},
};

static const bo_function_definition *const functions[BO_FUNCTION_COUNT] = {
    [BO_FUNCTION_SINCOS] = &bo_function_sincos,
    [BO_FUNCTION_COSBIAS] = &bo_function_cosbias,
    [BO_FUNCTION_POSITIVE] = &bo_function_positive,
    [BO_FUNCTION_HYPERBOLIC] = &bo_function_hyperbolic,
    [BO_FUNCTION_OPRF] = &bo_function_oprf,
    [BO_FUNCTION_RELU] = &bo_function_relu,
    [BO_FUNCTION_ELU] = &bo_function_elu,
    [BO_FUNCTION_POLYNOMIAL] = &bo_function_polynomial,
    [BO_FUNCTION_TENSORSKETCH] = &bo_function_tensorsketch,
    [BO_FUNCTION_TAYLOR] = &bo_function_taylor,
    [BO_FUNCTION_CUSTOM] = &bo_function_custom,
    [BO_FUNCTION_SELFTENSOR] = &bo_function_selftensor,
    [BO_FUNCTION_IDENTITY] = &bo_function_identity,
    [BO_FUNCTION_EXPONENTIAL] = &bo_function_exponential,
    [BO_FUNCTION_HEDGEHOG] = &bo_function_hedgehog,
    [BO_FUNCTION_RECTIFIER] = &bo_function_rectifier,
    [BO_FUNCTION_NETWORK] = &bo_function_network,
    [BO_FUNCTION_SECTIONS] = &bo_function_sections,
    [BO_FUNCTION_LANDMARKS] = &bo_function_landmarks,
};

static const bo_draw_definition *const draws[BO_DRAW_COUNT] = {
    [BO_DRAW_IID] = &bo_draw_iid,           [BO_DRAW_ORTHOGONAL] = &bo_draw_orthogonal,
    [BO_DRAW_HADAMARD] = &bo_draw_hadamard, [BO_DRAW_SIMPLEX] = &bo_draw_simplex,
    [BO_DRAW_SOBOL] = &bo_draw_sobol,       [BO_DRAW_MOMENT] = &bo_draw_moment,
};

static const char *const samplings[BO_SAMPLING_COUNT] = {
    [BO_SAMPLING_DRAWN] = "drawn",
    [BO_SAMPLING_OPTIMAL] = "optimal",
    [BO_SAMPLING_LEVERAGE] = "leverage",
};

/* ---- lookup ------------------------------------------------------------------------------------------------------ */

const bo_kernel_definition *bo_kernel_find(bo_kernel kernel)
{
    return (unsigned)kernel < BO_KERNEL_COUNT ? &kernels[kernel] : NULL;
}

const bo_function_definition *bo_function_find(bo_function which)
{
    return (unsigned)which < BO_FUNCTION_COUNT ? functions[which] : NULL;
}

const bo_draw_definition *bo_draw_find(bo_draw draw)
{
    return (unsigned)draw < BO_DRAW_COUNT ? draws[draw] : NULL;
}

bo_function bo_function_default(bo_kernel kernel)
{
    if ((unsigned)kernel >= BO_KERNEL_COUNT) return BO_FUNCTION_DEFAULT;
    for (int i = 1; i < BO_FUNCTION_COUNT; i++) {
        /* SINCOS also estimates SOFTMAX, but not with positive features; POSITIVE is the default there */
        if (kernel == BO_KERNEL_SOFTMAX && i == BO_FUNCTION_SINCOS) continue;
        if (functions[i]->kernels & BO_KERNEL_BIT(kernel)) return (bo_function)i;
    }
    return BO_FUNCTION_DEFAULT;
}

bool bo_kernel_is_scaled(bo_kernel kernel)
{
    const bo_kernel_definition *definition = bo_kernel_find(kernel);
    return definition && definition->scaled;
}

bool bo_kernel_is_learned(bo_kernel kernel)
{
    const bo_kernel_definition *definition = bo_kernel_find(kernel);
    return definition && definition->learned;
}

bool bo_kernel_of_products(bo_kernel kernel)
{
    const bo_kernel_definition *definition = bo_kernel_find(kernel);
    return definition && definition->of_products;
}

bool bo_features_needs_length(const bo_features_desc *desc)
{
    if (!desc) return false;
    const bo_function which = desc->function ? desc->function : bo_function_default(desc->kernel);
    const bo_function_definition *function = bo_function_find(which);
    return function && !function->count;
}

bool bo_features_has(const bo_features_desc *desc, bo_features_trait trait)
{
    if (!desc) return false;
    const bo_kernel_definition *kernel = bo_kernel_find(desc->kernel);
    switch (trait) {
    case BO_FEATURES_TRAIT_LENGTH:
        return bo_features_needs_length(desc);
    case BO_FEATURES_TRAIT_SCALED:
        return bo_kernel_is_scaled(desc->kernel);
    case BO_FEATURES_TRAIT_LEARNED:
        return bo_kernel_is_learned(desc->kernel);
    case BO_FEATURES_TRAIT_SHIFT_INVARIANT:
        return kernel && kernel->shift_invariant;
    }
    return false;
}

/* ---- names ------------------------------------------------------------------------------------------------------- */

const char *bo_kernel_name(bo_kernel kernel)
{
    const bo_kernel_definition *definition = bo_kernel_find(kernel);
    return definition ? definition->name : NULL;
}

const char *bo_function_name(bo_function function)
{
    const bo_function_definition *definition = bo_function_find(function);
    if (function == BO_FUNCTION_DEFAULT) return "default";
    return definition ? definition->name : NULL;
}

const char *bo_draw_name(bo_draw draw)
{
    const bo_draw_definition *definition = bo_draw_find(draw);
    if (draw == BO_DRAW_DEFAULT) return "default";
    return definition ? definition->name : NULL;
}

const char *bo_sampling_name(bo_sampling sampling)
{
    return (unsigned)sampling < BO_SAMPLING_COUNT ? samplings[sampling] : NULL;
}

/* Returns the index of the entry with this name, or -1. */
static int find_name(const char *name, int count, const char *(*name_of)(int))
{
    for (int i = 0; i < count; i++)
        if (bo_same_name(name, name_of(i))) return i;
    return -1;
}

static const char *kernel_name_at(int i)
{
    return bo_kernel_name((bo_kernel)i);
}

static const char *function_name_at(int i)
{
    return bo_function_name((bo_function)i);
}

static const char *draw_name_at(int i)
{
    return bo_draw_name((bo_draw)i);
}

static const char *sampling_name_at(int i)
{
    return bo_sampling_name((bo_sampling)i);
}

bool bo_kernel_parse(const char *name, bo_kernel *out)
{
    if (!out) return false;
    int found = find_name(name, BO_KERNEL_COUNT, kernel_name_at);
    if (found >= 0) *out = (bo_kernel)found;
    return found >= 0;
}

bool bo_function_parse(const char *name, bo_function *out)
{
    if (!out) return false;
    int found = find_name(name, BO_FUNCTION_COUNT, function_name_at);
    if (found >= 0) *out = (bo_function)found;
    return found >= 0;
}

bool bo_draw_parse(const char *name, bo_draw *out)
{
    if (!out) return false;
    int found = find_name(name, BO_DRAW_COUNT, draw_name_at);
    if (found >= 0) *out = (bo_draw)found;
    return found >= 0;
}

bool bo_sampling_parse(const char *name, bo_sampling *out)
{
    if (!out) return false;
    int found = find_name(name, BO_SAMPLING_COUNT, sampling_name_at);
    if (found >= 0) *out = (bo_sampling)found;
    return found >= 0;
}
