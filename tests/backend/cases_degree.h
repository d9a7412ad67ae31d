/* Test cases of the operations of polynomials and random features. */
#ifndef BO_TEST_BACKEND_CASES_DEGREE_H
#define BO_TEST_BACKEND_CASES_DEGREE_H

#include "features/enums.h"
#include "cases.h"

/* One value, one per column, one per row. */
static inline void cases_scale(op_visitor visit, void *user)
{
    static const char *const labels[] = {"one number", "columns", "rows"};
    char name[128];
    for (size_t n = 0; n <= CASE_SIZES; n++)
        for (size_t by = 0; by < 3; by++) {
            size_t rows = n < CASE_SIZES ? case_sizes[n][0] : 233, columns = n < CASE_SIZES ? case_sizes[n][1] : 131;
            op_case c = {.name = CASE_NAME("scale %zu x %zu by %s", rows, columns, labels[by]),
                         .op = BO_OPERATION_SCALE,
                         .inputs = 2,
                         .in = {{.rows = rows, .columns = columns},
                                {.rows = by == 2 ? rows : 1, .columns = by == 1 ? columns : 1, .b = 0.5}},
                         .large = n == CASE_SIZES,
                         .seed = 3 * n + by};
            visit(user, &c);
        }
}

/* One to four factors, plain and in powers; values near 0 of both signs. */
static inline void cases_product(op_visitor visit, void *user)
{
    static const bo_product_attributes powers[] = {
        {0, 0, 0, 0}, {1, 0, 1, 1}, {1, 1, 0.71828, 0}, {2, 0.71828, 0.5, 3}, {1, 0.25, 1, 1.5}};
    char name[128];
    for (size_t n = 0; n <= CASE_SIZES; n++)
        for (size_t p = 0; p < sizeof powers / sizeof *powers; p++)
            for (size_t factors = 1; factors <= 4; factors++) {
                size_t rows = n < CASE_SIZES ? case_sizes[n][0] : 157,
                       columns = n < CASE_SIZES ? case_sizes[n][1] : 127;
                op_case c = {.name = CASE_NAME("product of %zu, powers %zu, %zu x %zu", factors, p, rows, columns),
                             .op = BO_OPERATION_PRODUCT,
                             .attributes = &powers[p],
                             .inputs = factors,
                             .large = n == CASE_SIZES,
                             .step = 1e-4, /* derivatives of powers of small values are large */
                             .seed = 11 * n + factors};
                if (c.large && (factors + p) % 3) continue;
                for (size_t k = 0; k < factors; k++)
                    c.in[k] = (op_input){.law = LAW_AWAY, .rows = rows, .columns = columns, .a = k % 2 ? 2 : 0.7};
                visit(user, &c);
            }
}

/* Visits x (rows x dim) with the map of `desc`. */
static inline void case_features(op_visitor visit, void *user, bo_context *context, size_t rows,
                                 const bo_features_desc *desc)
{
    char name[128];
    bo_features *features;
    assert_ok(context, bo_features_create(context, desc, &features));
    bo_features_attributes attributes = {features};
    const bo_features_desc *made = bo_features_describe(features);
    op_case c = {.name =
                     CASE_NAME("features %s of %s, draw %s, %zu x %zu to %zu", bo_function_name(made->function),
                               bo_kernel_name(made->kernel), bo_draw_name(made->draw), rows, made->dim, made->features),
                 .op = BO_OPERATION_FEATURES,
                 .attributes = &attributes,
                 .inputs = 1,
                 .in = {{.law = LAW_AWAY, .rows = rows, .columns = desc->dim, .a = 0.5}},
                 .large = rows > 40,
                 .step = 1e-5, /* kinks within a step of 0 are rare */
                 .seed = rows + (uint64_t)desc->function};
    visit(user, &c);
    bo_features_destroy(features);
}

/* Every function, the draw without a matrix, length scales; more rows than one task processes. */
static inline void cases_features(op_visitor visit, void *user)
{
    static const struct {
        bo_kernel kernel;
        bo_function function;
        size_t features;
    } maps[] = {
        {BO_KERNEL_RBF, BO_FUNCTION_SINCOS, 22},           {BO_KERNEL_RBF, BO_FUNCTION_COSBIAS, 21},
        {BO_KERNEL_MATERN52, BO_FUNCTION_SINCOS, 6},       {BO_KERNEL_SOFTMAX, BO_FUNCTION_POSITIVE, 19},
        {BO_KERNEL_SOFTMAX, BO_FUNCTION_SINCOS, 20},       {BO_KERNEL_SOFTMAX, BO_FUNCTION_HYPERBOLIC, 18},
        {BO_KERNEL_ARCCOS, BO_FUNCTION_RELU, 17},          {BO_KERNEL_ELU, BO_FUNCTION_ELU, 0},
        {BO_KERNEL_POLYNOMIAL, BO_FUNCTION_POLYNOMIAL, 0}, {BO_KERNEL_POLYNOMIAL, BO_FUNCTION_TENSORSKETCH, 16},
        {BO_KERNEL_TAYLOR, BO_FUNCTION_TAYLOR, 0},         {BO_KERNEL_LINEAR, BO_FUNCTION_IDENTITY, 0},
        {BO_KERNEL_COSH, BO_FUNCTION_EXPONENTIAL, 0},      {BO_KERNEL_HEDGEHOG, BO_FUNCTION_HEDGEHOG, 0},
        {BO_KERNEL_RECTIFIER, BO_FUNCTION_RECTIFIER, 0},
    };
    static const float scales[] = {0.5F, 1, 2, 0.7F, 1.5F};
    bo_context *context = test_context(1);
    for (size_t i = 0; i < sizeof maps / sizeof *maps; i++) {
        bo_features_desc desc = {.kernel = maps[i].kernel,
                                 .function = maps[i].function,
                                 .dim = 5,
                                 .features = maps[i].features,
                                 .gamma = 0.7,
                                 .seed = 1 + i};
        case_features(visit, user, context, 1, &desc);
        case_features(visit, user, context, 7, &desc);
        desc.length_scales = scales;
        case_features(visit, user, context, 141, &desc);
    }
    bo_features_desc fast = {.dim = 20, .features = 70, .draw = BO_DRAW_HADAMARD, .seed = 3};
    case_features(visit, user, context, 66, &fast);
    bo_context_destroy(context);
}

static inline void cases_quadratic(op_visitor visit, void *user)
{
    static const size_t shapes[][3] = {{1, 1, 1},  {1, 5, 3},  {7, 2, 9},   {6, 7, 1},
                                       {9, 4, 17}, {70, 9, 5}, {41, 33, 3}, {300, 61, 2}};
    char name[128];
    for (size_t n = 0; n < sizeof shapes / sizeof *shapes; n++) {
        const size_t *s = shapes[n];
        op_case c = {.name = CASE_NAME("quadratic %zu x %zu to %zu", s[0], s[1], s[2]),
                     .op = BO_OPERATION_QUADRATIC,
                     .inputs = 2,
                     .in = {{.rows = s[0], .columns = s[1]}, {.rows = s[2], .columns = s[1] * s[1], .a = 0.5}},
                     .large = s[0] > 40,
                     .seed = n};
        visit(user, &c);
    }
}

#endif
