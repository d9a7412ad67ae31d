/* Kernel matrices compared with the definitions in the table of the header. */
#include "features/enums.h"
#include "maps.h"
#include "../base/counting.h"
#include "network_oracle.h"

/* D and γ as in <bochner/features.h>; x and y after length scales */
static double definition(const bo_features_desc *desc, const double *x, const double *y)
{
    double g = desc->gamma, d2 = 0, d1 = 0, product = 1, dot = 0, nx = 0, ny = 0, elu = 0, pi = acos(-1);
    double rectified = 0, cosh_sum = 0, cosh_x = 0, cosh_y = 0;
    for (size_t j = 0; j < desc->dim; j++) {
        double d = x[j] - y[j], a = sqrt(g) * x[j], b = sqrt(g) * y[j];
        d2 += d * d;
        d1 += fabs(d);
        product /= 1 + g * g * d * d;
        dot += x[j] * y[j];
        nx += x[j] * x[j];
        ny += y[j] * y[j];
        rectified += fmax(a, 0) * fmax(b, 0);
        cosh_sum += 2 * cosh(a + b);
        cosh_x += 2 * cosh(a);
        cosh_y += 2 * cosh(b);
        elu += (a > 0 ? a + 1 : exp(a)) * (b > 0 ? b + 1 : exp(b));
    }
    double d = sqrt(d2), s = g * dot, theta = acos(fmin(1, fmax(-1, dot / sqrt(nx * ny))));
    switch (desc->kernel) {
    case BO_KERNEL_RBF:
        return exp(-g * d2);
    case BO_KERNEL_LAPLACIAN:
        return exp(-g * d1);
    case BO_KERNEL_CAUCHY:
        return product;
    case BO_KERNEL_MATERN12:
        return exp(-g * d);
    case BO_KERNEL_MATERN32:
        return (1 + sqrt(3) * g * d) * exp(-sqrt(3) * g * d);
    case BO_KERNEL_MATERN52:
        return (1 + sqrt(5) * g * d + 5.0 / 3 * g * g * d2) * exp(-sqrt(5) * g * d);
    case BO_KERNEL_RATIONAL_QUADRATIC:
        return pow(1 + g * d2 / desc->alpha, -desc->alpha);
    case BO_KERNEL_SOFTMAX:
        return exp(s);
    case BO_KERNEL_ARCCOS:
        return g * sqrt(nx * ny) * (sin(theta) + (pi - theta) * cos(theta)) / (2 * pi);
    case BO_KERNEL_POLYNOMIAL:
        return pow(1 + s, desc->degree);
    case BO_KERNEL_TAYLOR:
        return 1 + s + s * s / 2;
    case BO_KERNEL_ELU:
        return elu;
    case BO_KERNEL_LINEAR:
        return s;
    case BO_KERNEL_COSH:
        return cosh_sum;
    case BO_KERNEL_HEDGEHOG:
        return cosh_sum / (cosh_x * cosh_y);
    case BO_KERNEL_RECTIFIER:
        return rectified;
    case BO_KERNEL_NNGP:
    case BO_KERNEL_NTK:
        return oracle_network(desc, x, y);
    default:
        return NAN;
    }
}

enum { NX = 530, NY = 70, D = 11, LDX = 13, LDY = 12, LDK = 77 }; /* more rows than a tile */

/* Float coordinates, sums in double; the L1 kernel multiplies and adds 64 floats at a time: 70 · 2⁻²⁴ of its exponent,
 * which is at most 30 here. */
static double tolerance(bo_kernel kernel)
{
    return kernel == BO_KERNEL_LAPLACIAN ? 1e-6 : 1e-11;
}

static void matrices_match_their_definition(void **state)
{
    (void)state;
    bo_context *context = test_context(2);
    float *x = malloc(NX * LDX * sizeof *x), *y = malloc(NY * LDY * sizeof *y), scales[D];
    double *k = malloc(NX * LDK * sizeof *k), tx[D], ty[D];
    test_inputs(1, NX * LDX, x);
    test_inputs(2, NY * LDY, y);
    for (size_t j = 0; j < D; j++) scales[j] = (float)(0.7 + 0.1 * (double)j);
    memcpy(y, x, D * sizeof *y); /* a pair at distance zero */
    for (int kernel = 0; kernel < BO_KERNEL_COUNT; kernel++) {
        bo_features_desc desc = {.kernel = (bo_kernel)kernel,
                                 .dim = D,
                                 .gamma = 0.6,
                                 .alpha = 1.5,
                                 .degree = 3,
                                 .depth = 2,
                                 .weight_variance = 2,
                                 .length_scales = scales};
        if (kernel == BO_KERNEL_CUSTOM) continue; /* it has no closed form */
        assert_ok(context, bo_kernel_matrix(context, &desc, NX, x, LDX, NY, y, LDY, k, LDK));
        for (size_t i = 0; i < NX; i++)
            for (size_t j = 0; j < NY; j++) {
                for (size_t c = 0; c < D; c++) {
                    tx[c] = (double)x[i * LDX + c] / (double)scales[c];
                    ty[c] = (double)y[j * LDY + c] / (double)scales[c];
                }
                double expected = definition(&desc, tx, ty), limit = tolerance(desc.kernel) * (fabs(expected) + 1e-3);
                if (!(fabs(k[i * LDK + j] - expected) <= limit))
                    fail_msg("%s: k(%zu, %zu) = %.15g, expected %.15g", bo_kernel_name(desc.kernel), i, j,
                             k[i * LDK + j], expected);
            }
    }
    free(x);
    free(y);
    free(k);
    bo_context_destroy(context);
}

/* Far from the origin the inner products are 10⁸ times the distances; equal rows still give exactly k(x, x) = 1, and
 * Matérn 1/2, which uses the root of the squared distance, keeps six digits. */
static void far_inputs_keep_their_digits(void **state)
{
    (void)state;
    enum { N = 40 };
    bo_context *context = test_context(1);
    float x[N * DIM];
    double k[N * N], tx[DIM], ty[DIM];
    test_inputs(3, N * DIM, x);
    for (size_t i = 0; i < N * DIM; i++) x[i] = 1000 + 0.001f * x[i];
    for (int kernel = 0; kernel <= BO_KERNEL_RATIONAL_QUADRATIC; kernel++) {
        bo_features_desc desc = {.kernel = (bo_kernel)kernel, .dim = DIM, .gamma = 300, .alpha = 2};
        assert_ok(context, bo_kernel_matrix(context, &desc, N, x, DIM, N, x, DIM, k, N));
        for (size_t i = 0; i < N; i++)
            for (size_t j = 0; j < N; j++) {
                for (size_t c = 0; c < DIM; c++) tx[c] = (double)x[i * DIM + c], ty[c] = (double)x[j * DIM + c];
                double expected = definition(&desc, tx, ty);
                if (i == j)
                    assert_true(k[i * N + j] == 1);
                else
                    assert_close(k[i * N + j], expected, 1e-6 * expected);
            }
    }
    bo_context_destroy(context);
}

static void threads_do_not_change_a_bit(void **state)
{
    (void)state;
    enum { N = 300 };
    float x[N * DIM];
    test_inputs(4, N * DIM, x);
    double *first = malloc(N * N * sizeof *first), *other = malloc(N * N * sizeof *other);
    for (int kernel = 0; kernel < BO_KERNEL_CUSTOM; kernel++)
        for (int threads = 1; threads <= 3; threads++) {
            bo_context *context = test_context(threads);
            bo_features_desc desc = {.kernel = (bo_kernel)kernel, .dim = DIM};
            double *k = threads == 1 ? first : other;
            assert_ok(context, bo_kernel_matrix(context, &desc, N, x, DIM, N, x, DIM, k, N));
            assert_memory_equal(k, first, N * N * sizeof *k);
            bo_context_destroy(context);
        }
    free(first);
    free(other);
}

/* e^800 overflows double, but the results of the kernels do not. */
static void large_exponents_cancel(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    float x[2] = {800, -799}, y[2] = {-800, 799.5f};
    double k;
    bo_features_desc desc = {.kernel = BO_KERNEL_COSH, .dim = 2};
    assert_ok(context, bo_kernel_matrix(context, &desc, 1, x, 2, 1, y, 2, &k, 1));
    assert_close(k, 2 + 2 * cosh(0.5), 1e-12);
    desc.kernel = BO_KERNEL_HEDGEHOG; /* e^800 and e^799 of each row count: of x + x, of x - y */
    assert_ok(context, bo_kernel_matrix(context, &desc, 1, x, 2, 1, x, 2, &k, 1));
    assert_close(k, (1 + exp(-2)) / ((1 + exp(-1)) * (1 + exp(-1))), 1e-12);
    assert_ok(context, bo_kernel_matrix(context, &desc, 1, x, 2, 1, y, 2, &k, 1));
    assert_close(k, 0, 0);
    bo_context_destroy(context);
}

/* The memory of tiles is bounded by the number of rows, and for long rows by a few megabytes. */
static void test_wide_rows(void **state)
{
    (void)state;
    enum { WIDE = 100000, FEW = 3 };
    counting c = {0};
    bo_context *context = counting_context(&c, 1);
    float *x = calloc((size_t)FEW * WIDE, sizeof *x);
    double k[FEW * FEW];
    for (size_t i = 0; i < FEW; i++) x[i * WIDE + i * 1000] = 1;
    const bo_features_desc desc = {.kernel = BO_KERNEL_RBF, .dim = WIDE, .gamma = 0.5};
    const size_t before = c.bytes;
    c.peak = before;
    assert_ok(context, bo_kernel_matrix(context, &desc, FEW, x, WIDE, FEW, x, WIDE, k, FEW));
    if (c.peak - before > 14e6) fail_msg("%zu bytes for 3 rows of 100000 columns", (size_t)c.peak - before);
    for (size_t i = 0; i < FEW * FEW; i++) assert_close(k[i], i % (FEW + 1) ? exp(-1) : 1, 1e-12);
    free(x);
    bo_context_destroy(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(matrices_match_their_definition),
        cmocka_unit_test(far_inputs_keep_their_digits),
        cmocka_unit_test(large_exponents_cancel),
        cmocka_unit_test(threads_do_not_change_a_bit),
        cmocka_unit_test(test_wide_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
