/* Kernel matrices in float32 compared with float64, and gradients of kernel expansions with finite differences. */
#include "features/enums.h"
#include "maps.h"
#include "../base/counting.h"
#include "features/kernel_block.h"

enum { NX = 270, NY = 331, LDK = 339, MAX_DIM = 100 }; /* more than one tile, and parts of panels */

static bool is_fast(int kernel)
{
    return BO_SHIFT_INVARIANT_KERNELS & BO_KERNEL_BIT(kernel);
}

static bo_features_desc describe(int kernel, size_t dim, const float *scales)
{
    return (bo_features_desc){.kernel = (bo_kernel)kernel,
                              .dim = dim,
                              .gamma = 0.6,
                              .alpha = 1.5,
                              .degree = 3,
                              .depth = 2,
                              .weight_variance = 2,
                              .length_scales = scales};
}

/* The bound that the header promises: roundings of s are independent, so that its relative error is about √dim 2⁻²⁴,
 * and |s f'(s)| < 1; f adds 5e-7. Values of the other kernels are rounded once. */
static double block_limit(int kernel, double expected)
{
    return is_fast(kernel) ? 1e-6 : 0x1.01p-24 * fabs(expected);
}

static void check_block(bo_context *context, const bo_features_desc *desc, const float *x, size_t ldx, const float *y,
                        size_t ldy)
{
    double *expected = malloc(NX * LDK * sizeof *expected);
    float *k = malloc(NX * LDK * sizeof *k);
    for (size_t i = 0; i < NX * LDK; i++) k[i] = -77;
    assert_ok(context, bo_kernel_matrix(context, desc, NX, x, ldx, NY, y, ldy, expected, LDK));
    assert_ok(context, bo_kernel_block(context, desc, NX, x, ldx, NY, y, ldy, k, LDK));
    for (size_t i = 0; i < NX; i++)
        for (size_t j = 0; j < LDK; j++) {
            double found = (double)k[i * LDK + j], value = expected[i * LDK + j];
            bool equal = j < NY && !memcmp(x + i * ldx, y + j * ldy, desc->dim * sizeof *x);
            if (j >= NY)
                assert_true(found == -77);
            else if (!(fabs(found - value) <= block_limit((int)desc->kernel, value)) ||
                     (is_fast((int)desc->kernel) && equal && found != 1))
                fail_msg("%s, dim %zu: k(%zu, %zu) = %.9g, expected %.9g", bo_kernel_name(desc->kernel), desc->dim, i,
                         j, found, value);
        }
    free(expected);
    free(k);
}

/* Every kernel, with and without length scales; y contains rows of x and rows very close to them. */
static void blocks_match_float64(void **state)
{
    (void)state;
    enum { LDX = 103, LDY = 101 };
    bo_context *context = test_context(2);
    float *x = malloc(NX * LDX * sizeof *x), *y = malloc(NY * LDY * sizeof *y), scales[MAX_DIM];
    test_inputs(1, NX * LDX, x);
    test_inputs(2, NY * LDY, y);
    for (size_t j = 0; j < MAX_DIM; j++) scales[j] = (float)(0.7 + 0.01 * (double)j);
    for (size_t i = 0; i < 33; i++) {
        memcpy(y + 10 * i * LDY, x + 7 * i * LDX, MAX_DIM * sizeof *y);
        if (i % 2) y[10 * i * LDY] += 1e-4f;
    }
    const size_t dims[] = {1, 11, MAX_DIM};
    for (int kernel = 0; kernel < BO_KERNEL_COUNT; kernel++)
        for (size_t d = 0; d < 3 && kernel != BO_KERNEL_CUSTOM; d++) {
            if (d != 1 && !is_fast(kernel)) continue;
            bo_features_desc desc = describe(kernel, dims[d], d == 1 ? scales : NULL);
            check_block(context, &desc, x, LDX, y, LDY);
            desc.length_scales = scales;
            if (d == 2) check_block(context, &desc, x, LDX, y, LDY);
        }
    free(x);
    free(y);
    bo_context_destroy(context);
}

/* The coordinates are 10⁶ times their differences. Far pairs give 0, also where the square overflows; constants outside
 * the range of float are computed in double. */
static void far_inputs_keep_their_digits(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    float *x = malloc(2 * NY * DIM * sizeof *x), *y = x + NY * DIM, tiny[DIM];
    test_inputs(3, 2 * NY * DIM, x);
    for (size_t i = 0; i < 2 * NY * DIM; i++) x[i] = 1000 + 0.001f * x[i];
    x[5 * DIM] = 1e4f;
    x[6 * DIM] = 3e30f;
    for (size_t j = 0; j < DIM; j++) tiny[j] = 1e-25f;
    for (int kernel = 0; kernel <= BO_KERNEL_RATIONAL_QUADRATIC; kernel++) {
        bo_features_desc desc = {.kernel = (bo_kernel)kernel, .dim = DIM, .gamma = 300, .alpha = 200};
        check_block(context, &desc, x, DIM, y, DIM);
        desc.length_scales = tiny;
        check_block(context, &desc, x, DIM, y, DIM);
    }
    free(x);
    bo_context_destroy(context);
}

/* One triangle and its mirror image, the whole matrix, and any number of threads give the same bits. */
static void triangles_and_threads_do_not_change_a_bit(void **state)
{
    (void)state;
    enum { N = 530 };
    float *x = malloc(2 * N * DIM * sizeof *x), *copy = x + N * DIM;
    float *first = malloc(2 * N * N * sizeof *first), *k = first + N * N;
    test_inputs(4, N * DIM, x);
    memcpy(copy, x, N * DIM * sizeof *x);
    for (int kernel = 0; kernel <= BO_KERNEL_RATIONAL_QUADRATIC; kernel++)
        for (int threads = 1; threads <= 3; threads++) {
            bo_context *context = test_context(threads);
            bo_features_desc desc = describe(kernel, DIM, NULL);
            if (threads == 1) assert_ok(context, bo_kernel_block(context, &desc, N, x, DIM, N, copy, DIM, first, N));
            memset(k, 0, N * N * sizeof *k);
            assert_ok(context, bo_kernel_block(context, &desc, N, x, DIM, N, x, DIM, k, N));
            assert_memory_equal(k, first, N * N * sizeof *k);
            bo_context_destroy(context);
        }
    free(x);
    free(first);
}

static void nan_spreads_along_its_row(void **state)
{
    (void)state;
    enum { N = 70 };
    bo_context *context = test_context(1);
    float x[N * DIM], k[N * N];
    test_inputs(5, N * DIM, x);
    x[3 * DIM + 2] = NAN;
    for (int kernel = 0; kernel <= BO_KERNEL_RATIONAL_QUADRATIC; kernel++) {
        bo_features_desc desc = describe(kernel, DIM, NULL);
        assert_ok(context, bo_kernel_block(context, &desc, N, x, DIM, N, x, DIM, k, N));
        for (size_t i = 0; i < N * N; i++) assert_true(isnan(k[i]) == (i % N == 3 || i / N == 3));
    }
    bo_context_destroy(context);
}

/* ---- gradients --------------------------------------------------------------------------------------------------- */

enum { GX = 37, GY = 139, GD = 11, LDG = 12, OUTPUTS = 3 };

/* Returns f_o(x). */
static double expansion(const bo_features_desc *desc, const double *factor, const float *x, const float *y,
                        const float *alpha, size_t outputs, size_t o)
{
    double sum = 0;
    for (size_t j = 0; j < GY; j++) {
        bo_pair pair = bo_pair_make(desc, factor, x, y + j * LDG);
        sum += (double)alpha[j * outputs + o] * bo_kernel_value(desc, &pair);
    }
    return sum;
}

/* Coordinates are multiples of 1/64 and the step is less than half of that, so that no difference changes its sign, and
 * central differences are 0 where the kernels have kinks. Their error is h²/6 Σ|α| |f'''|; |f'''| < 200 for these
 * kernels at the distances of this test. Σ|α| is about 60, and sums of 139 terms in float32 add 2e-5. */
static void check_gradient(bo_context *context, const bo_features_desc *desc, size_t outputs, const float *x,
                           const float *y, const float *alpha)
{
    const double h = 0x1p-12, limit = 60 * (h * h / 6 * 200 + 2e-6);
    double factor[GD];
    float *gradient = malloc(GX * outputs * GD * sizeof *gradient), moved[GD];
    bo_input_factors(desc, factor);
    assert_ok(context, bo_kernel_gradient(context, desc, GX, x, LDG, GY, y, LDG, outputs, alpha, gradient));
    for (size_t i = 0; i < GX; i += i < 4 ? 1 : 7)
        for (size_t o = 0; o < outputs; o++)
            for (size_t p = 0; p < GD; p++) {
                memcpy(moved, x + i * LDG, sizeof moved);
                moved[p] = x[i * LDG + p] + (float)h;
                double up = expansion(desc, factor, moved, y, alpha, outputs, o);
                moved[p] = x[i * LDG + p] - (float)h;
                double expected = (up - expansion(desc, factor, moved, y, alpha, outputs, o)) / (2 * h);
                double found = (double)gradient[(i * outputs + o) * GD + p];
                if (!(fabs(found - expected) <= limit))
                    fail_msg("%s: gradient (%zu, %zu, %zu) = %.9g, expected %.9g", bo_kernel_name(desc->kernel), i, o,
                             p, found, expected);
            }
    free(gradient);
}

static void gradients_match_finite_differences(void **state)
{
    (void)state;
    bo_context *context = test_context(2);
    float x[GX * LDG], y[GY * LDG], alpha[GY * OUTPUTS], scales[GD];
    test_inputs(6, GX * LDG, x);
    test_inputs(7, GY * LDG, y);
    test_inputs(8, GY * OUTPUTS, alpha);
    for (size_t i = 0; i < GX * LDG; i++) x[i] = 100 + rintf(2 * x[i] * 64) / 64;
    for (size_t i = 0; i < GY * LDG; i++) y[i] = 100 + rintf(2 * y[i] * 64) / 64;
    for (size_t j = 0; j < GD; j++) scales[j] = (float)(0.7 + 0.1 * (double)j);
    memcpy(y + 130 * LDG, x + 2 * LDG, GD * sizeof *x); /* an equal row, and one with equal coordinates */
    memcpy(y + 131 * LDG, x + 3 * LDG, GD / 2 * sizeof *x);
    for (int kernel = 0; kernel <= BO_KERNEL_RATIONAL_QUADRATIC; kernel++) {
        bo_features_desc desc = describe(kernel, GD, scales);
        check_gradient(context, &desc, OUTPUTS, x, y, alpha);
        desc.length_scales = NULL;
        check_gradient(context, &desc, 1, x, y, alpha);
    }
    bo_context_destroy(context);
}

static void gradients_do_not_depend_on_threads(void **state)
{
    (void)state;
    float x[GX * LDG], alpha[GX * OUTPUTS], first[GX * OUTPUTS * GD], other[GX * OUTPUTS * GD];
    test_inputs(9, GX * LDG, x);
    test_inputs(10, GX * OUTPUTS, alpha);
    for (int threads = 1; threads <= 3; threads++) {
        bo_context *context = test_context(threads);
        bo_features_desc desc = describe(BO_KERNEL_MATERN12, GD, NULL);
        float *gradient = threads == 1 ? first : other;
        assert_ok(context, bo_kernel_gradient(context, &desc, GX, x, LDG, GX, x, LDG, OUTPUTS, alpha, gradient));
        assert_memory_equal(gradient, first, sizeof first);
        bo_context_destroy(context);
    }
}

static void arguments_are_checked(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    float x[4] = {0}, k[4] = {7, 7, 7, 7};
    bo_features_desc desc = {.kernel = BO_KERNEL_RBF, .dim = 2};
    assert_fails(context, BO_INVALID, "ldk", bo_kernel_block(context, &desc, 2, x, 2, 2, x, 2, k, 1));
    assert_fails(context, BO_INVALID, "ldx", bo_kernel_gradient(context, &desc, 2, x, 1, 2, x, 2, 1, x, k));
    assert_ok(context, bo_kernel_block(context, &desc, 0, NULL, 2, 2, x, 2, NULL, 2));
    assert_true(k[0] == 7);
    assert_ok(context, bo_kernel_gradient(context, &desc, 2, x, 2, 0, NULL, 2, 1, NULL, k));
    assert_true(k[0] == 0 && k[3] == 0);
    desc.kernel = BO_KERNEL_CUSTOM;
    assert_fails(context, BO_UNSUPPORTED, "closed form", bo_kernel_block(context, &desc, 2, x, 2, 2, x, 2, k, 2));
    desc.kernel = BO_KERNEL_LINEAR;
    assert_fails(context, BO_UNSUPPORTED, "linear", bo_kernel_gradient(context, &desc, 2, x, 2, 2, x, 2, 1, x, k));
    bo_context_destroy(context);
}

static bo_status all_allocations(void *what)
{
    bo_context *context = what;
    float x[4] = {0, 1, 2, 3}, scales[2] = {1, 2}, k[4];
    bo_features_desc desc = {.kernel = BO_KERNEL_RBF, .dim = 2, .length_scales = scales};
    BO_TRY(bo_kernel_block(context, &desc, 2, x, 2, 2, x, 2, k, 2));
    BO_TRY(bo_kernel_gradient(context, &desc, 2, x, 2, 2, x, 2, 1, x, k));
    desc.kernel = BO_KERNEL_LINEAR;
    return bo_kernel_block(context, &desc, 2, x, 2, 2, x, 2, k, 2);
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    counting c = {0};
    bo_context *context = counting_context(&c, 1);
    counting_inject(&(injection){&c, context, all_allocations, context, .all = 100, .stride = 1});
    bo_context_destroy(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_match_float64),
        cmocka_unit_test(far_inputs_keep_their_digits),
        cmocka_unit_test(triangles_and_threads_do_not_change_a_bit),
        cmocka_unit_test(nan_spreads_along_its_row),
        cmocka_unit_test(gradients_match_finite_differences),
        cmocka_unit_test(gradients_do_not_depend_on_threads),
        cmocka_unit_test(arguments_are_checked),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
