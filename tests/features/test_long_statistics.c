/* Every map estimates its kernel without bias (or within its stated bias) and with the predicted variance.
 *
 * Over seeds s the estimate e_s = φ(x)·φ(y) has mean k and variance V. With N seeds,
 *   mean      (mean - k) / √(v/N) is standard normal, v the empirical variance;
 *   variance  (v - V) / √((m₄ - v²)/N) is standard normal, m₄ the empirical fourth central moment.
 * About 1,000 such numbers are checked; one of them exceeds 4.5 by chance with probability 1000 · 7e-6 = 0.7%, and the
 * seeds are fixed. */
#include <malloc.h>
#include "maps.h"
#include "features/facts.h"

enum { SEEDS_DRAWN = 1500, SEEDS_CHOSEN = 150, PAIRS = 2 };
static const double z_limit = 4.5;

/* E[(y·y')²] of the self-tensored sketch of degree h into r numbers. For an item let C = E[(v·v')²] and N =
 * E[|v|²|v'|²] for v, v' of the two inputs, before the projection by a Gaussian matrix with r columns. Then, for each
 * column, E[(g·v)² (g·v')²] = 2C + N, and for √(1/r) times the product of two projected items (C, N) = (2C₁ + N₁)(2C₂ +
 * N₂)/r + (1 - 1/r) (C₁C₂, N₁N₂). */
static double selftensor_mean(const bo_features_desc *desc, const bo_pair *pair)
{
    size_t h = (size_t)desc->degree / 2;
    double r = floor(sqrt(2 * (double)desc->features)), s = 1 + pair->dot, c[64], n[64];
    for (size_t k = 0; k < h; k++) c[k] = s * s, n[k] = (1 + pair->norm_x) * (1 + pair->norm_y);
    if (h == 1) return (2 * c[0] + n[0]) / r + (1 - 1 / r) * c[0];
    for (size_t k = h; k < 2 * h - 1; k++) {
        size_t a = 2 * (k - h), b = a + 1;
        double same = (2 * c[a] + n[a]) * (2 * c[b] + n[b]) / r;
        c[k] = same + (1 - 1 / r) * c[a] * c[b];
        n[k] = same + (1 - 1 / r) * n[a] * n[b];
    }
    return c[2 * h - 2];
}

/* Stated biases (docs/reference/features.md), m frequencies.
 *   moment    trigonometric: 0.55/m for Gaussian factors, 5/2 of it for Laplace coordinates, whose squares have 5/2
 *             the variance; exponential: |x+y|⁴/4m relative to first order, times k; relu: none, only |w|²
 *             matters
 *   hadamard  measured below 0.55/P, P the padded dim; the proven bound is 6z/√P + 0.55/P
 *   selftensor  exactly the variance of the sketch that is squared */
static double stated_bias(const bo_features *f, const bo_pair *pair, double k)
{
    double m = (double)f->frequencies;
    if (f->desc.function == BO_FUNCTION_SELFTENSOR) return selftensor_mean(&f->desc, pair) - k;
    bool exponential = f->function->exponential;
    if (f->desc.draw == BO_DRAW_MOMENT) {
        if (f->desc.function == BO_FUNCTION_RELU) return 0;
        if (exponential) return k * 1.5 * (pair->plus2 * pair->plus2 + 2 * pair->plus2) / (4 * m);
        if (f->desc.kernel == BO_KERNEL_SOFTMAX) return exp(0.5 * (pair->norm_x + pair->norm_y)) * 0.55 / m;
        return (f->desc.kernel == BO_KERNEL_CAUCHY ? 2.5 : 1) * 0.55 / m;
    }
    if (f->desc.draw == BO_DRAW_HADAMARD) return 0.55 / 8 * fmax(k, 1) * (exponential ? pair->plus2 : 1);
    return 0;
}

typedef struct moments {
    double mean, variance, fourth;
} moments;

static moments moments_of(const double *e, size_t count)
{
    moments m = {0, 0, 0};
    double n = (double)count;
    for (size_t s = 0; s < count; s++) m.mean += e[s] / n;
    for (size_t s = 0; s < count; s++) {
        double d = (e[s] - m.mean) * (e[s] - m.mean);
        m.variance += d / (n - 1);
        m.fourth += d * d / n;
    }
    return m;
}

/* x = row 0 of the inputs, y = rows 1, 2: e[pair * seeds + s] */
static void estimate(bo_context *context, const bo_features_desc *map, const float *x, size_t seeds, double *e)
{
    bo_features_desc desc = *map;
    for (size_t s = 0; s < seeds; s++) {
        bo_features *f;
        desc.seed = 1000 + s;
        assert_ok(context, bo_features_create(context, &desc, &f));
        size_t length = bo_features_describe(f)->features;
        float z[3 * 128];
        assert_true(length <= 128);
        assert_ok(context,
                  bo_features_apply(context, f, &(bo_inputs){.rows = 1 + PAIRS, .x = x, .stride = DIM}, z, length));
        for (size_t p = 0; p < PAIRS; p++) {
            e[p * seeds + s] = 0;
            for (size_t i = 0; i < length; i++) e[p * seeds + s] += (double)z[i] * (double)z[(p + 1) * length + i];
        }
        bo_features_destroy(f);
    }
}

static void check_pair(const bo_features *f, const float *x, const float *y, const double *e, size_t seeds)
{
    const bo_features_desc *desc = bo_features_describe(f);
    bo_pair pair = bo_pair_make(desc, f->factor, x, y);
    double k = bo_kernel_value(desc, &pair), predicted = bo_features_variance(f, x, y);
    moments m = moments_of(e, seeds);
    if (f->landmarks) { /* the rows are landmarks */
        assert_close(m.mean, k, 1e-5 * (1 + fabs(k)));
        return;
    }
    if (f->function->exact) {
        /* float32 inputs, products summed in double: a few rounding errors of the larger norm */
        assert_close(m.mean, k, 1e-6 * (1 + fabs(k)));
        return;
    }
    double standard = sqrt(m.variance / (double)seeds), bias = stated_bias(f, &pair, k);
    if (fabs(m.mean - k) > bias + z_limit * standard)
        fail_msg("%s: mean %.5f, kernel %.5f, stated bias %.5f, standard error %.5f", map_name(desc), m.mean, k, bias,
                 standard);
    if (f->weights) return; /* selected by data: no formula for a pair */
    double z = (m.variance - predicted) / sqrt((m.fourth - m.variance * m.variance) / (double)seeds);
    bool independent = desc->draw == BO_DRAW_IID;
    if (z > z_limit || (independent && z < -z_limit))
        fail_msg("%s: variance %.5g, predicted %.5g, z = %.2f", map_name(desc), m.variance, predicted, z);
    /* at these distances orthogonal and simplex frequencies of the RBF kernel must reduce the variance clearly */
    if (desc->kernel == BO_KERNEL_RBF && desc->function == BO_FUNCTION_SINCOS && desc->draw == BO_DRAW_ORTHOGONAL)
        assert_true(z < -z_limit);
    if (desc->function == BO_FUNCTION_POSITIVE && desc->draw == BO_DRAW_SIMPLEX) assert_true(z < -z_limit);
}

static void check_map(bo_context *context, const bo_features_desc *desc, void *user)
{
    const float *x = user;
    bo_features *f;
    if (desc->kernel == BO_KERNEL_CUSTOM) return; /* no closed form */
    assert_ok(context, bo_features_create(context, desc, &f));
    size_t seeds = f->function->exact || f->landmarks ? 2 : f->weights ? SEEDS_CHOSEN : SEEDS_DRAWN;
    double *e = malloc(PAIRS * seeds * sizeof *e);
    estimate(context, desc, x, seeds, e);
    for (size_t p = 0; p < PAIRS; p++) check_pair(f, x, x + (p + 1) * DIM, e + p * seeds, seeds);
    free(e);
    bo_features_destroy(f);
}

static void every_map_estimates_its_kernel(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    float x[SAMPLE_ROWS * DIM];
    test_inputs(1, SAMPLE_ROWS * DIM, x);
    size_t maps = for_each_map(context, x, check_map, x);
    assert_true(maps > 200); /* no combination was skipped by mistake */
    bo_context_destroy(context);
}

/* The square of an unbiased sketch is biased: its mean is selftensor_mean for every degree, and the bias falls like
 * 1/r. The estimate is heavy-tailed, so its empirical variance is used for the standard error. */
static void the_bias_of_selftensor_is_its_variance(void **state)
{
    (void)state;
    enum { SEEDS = 4000 };
    bo_context *context = test_context(1);
    float x[2 * DIM], z[2 * 528];
    double *e = malloc(SEEDS * sizeof *e), bias[2];
    test_inputs(3, 2 * DIM, x);
    for (int degree = 2; degree <= 8; degree += 2)
        for (size_t large = 0; large < 2; large++) {
            size_t r = large ? 32 : 16, length = r * (r + 1) / 2;
            bo_features_desc desc = {.kernel = BO_KERNEL_POLYNOMIAL,
                                     .function = BO_FUNCTION_SELFTENSOR,
                                     .dim = DIM,
                                     .features = length,
                                     .degree = degree};
            bo_pair pair;
            for (size_t s = 0; s < SEEDS; s++) {
                bo_features *f;
                desc.seed = s;
                assert_ok(context, bo_features_create(context, &desc, &f));
                pair = bo_pair_make(bo_features_describe(f), f->factor, x, x + DIM);
                assert_ok(context,
                          bo_features_apply(context, f, &(bo_inputs){.rows = 2, .x = x, .stride = DIM}, z, length));
                e[s] = 0;
                for (size_t i = 0; i < length; i++) e[s] += (double)z[i] * (double)z[length + i];
                assert_true(e[s] > -1e-5 * f->kernels->dot(length, z, z)); /* a square, up to its rounding */
                assert_true(isnan(bo_features_variance(f, x, x + DIM)));
                bo_features_destroy(f);
            }
            moments m = moments_of(e, SEEDS);
            double mean = selftensor_mean(&desc, &pair);
            bias[large] = mean - bo_kernel_value(&desc, &pair);
            if (!(fabs(m.mean - mean) <= z_limit * sqrt(m.variance / SEEDS)))
                fail_msg("degree %d, r = %zu: mean %.5g, expected %.5g of kernel %.5g", degree, r, m.mean, mean,
                         mean - bias[large]);
            if (large) assert_true(bias[1] > 0.3 * bias[0] && bias[1] <= 0.501 * bias[0]); /* 1/r and higher orders */
        }
    free(e);
    bo_context_destroy(context);
}

/* ---- orthogonal blocks are Haar ---------------------------------------------------------------------------------- */

/* Rows of one block are orthogonal, for any norms. */
static void orthogonal_rows_are_orthogonal(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    bo_features_desc desc = {.dim = 7, .features = 28, .draw = BO_DRAW_ORTHOGONAL, .seed = 3};
    bo_features *f;
    float w[14 * 7];
    assert_ok(context, bo_features_create(context, &desc, &f));
    assert_ok(context, bo_features_get_frequencies(context, f, w));
    for (size_t i = 0; i < 14; i++)
        for (size_t j = i + 1; j < 14 && j / 7 == i / 7; j++) {
            double dot = 0, a = 0, b = 0;
            for (size_t c = 0; c < 7; c++) {
                dot += (double)w[i * 7 + c] * (double)w[j * 7 + c];
                a += (double)w[i * 7 + c] * (double)w[i * 7 + c];
                b += (double)w[j * 7 + c] * (double)w[j * 7 + c];
            }
            assert_close(dot / sqrt(a * b), 0, 7 * 6e-8); /* seven products of rounded floats */
        }
    bo_features_destroy(f);
    bo_context_destroy(context);
}

/* Q is Haar distributed: entries have mean 0 and variance 1/d, also on the diagonal, where a QR without the signs of R
 * fails, and Q₀₀² has fourth moment 3/(d(d+2)). Row norms are χ(d): E|w|² = d. */
static void orthogonal_rows_are_haar(void **state)
{
    (void)state;
    enum { SEEDS = 4000, D = 3 };
    bo_context *context = test_context(1);
    double mean[D * D] = {0}, square[D * D] = {0}, fourth = 0, norm = 0;
    for (size_t s = 0; s < SEEDS; s++) {
        bo_features_desc desc = {.dim = D, .features = 2 * D, .gamma = 0.5, .draw = BO_DRAW_ORTHOGONAL, .seed = s};
        bo_features *f;
        float w[D * D];
        assert_ok(context, bo_features_create(context, &desc, &f));
        assert_ok(context, bo_features_get_frequencies(context, f, w));
        for (size_t i = 0; i < D; i++) {
            double n2 = 0;
            for (size_t j = 0; j < D; j++) n2 += (double)w[i * D + j] * (double)w[i * D + j];
            norm += n2 / (SEEDS * D);
            for (size_t j = 0; j < D; j++) {
                double q = (double)w[i * D + j] / sqrt(n2);
                mean[i * D + j] += q / SEEDS;
                square[i * D + j] += q * q / SEEDS;
                if (i == 0 && j == 0) fourth += q * q * q * q / SEEDS;
            }
        }
        bo_features_destroy(f);
    }
    for (size_t i = 0; i < D * D; i++) {
        /* Var q = 1/d; Var q² = 3/(d(d+2)) - 1/d² */
        assert_close(mean[i], 0, z_limit * sqrt(1.0 / D / SEEDS));
        assert_close(square[i], 1.0 / D, z_limit * sqrt((3.0 / (D * (D + 2)) - 1.0 / (D * D)) / SEEDS));
    }
    /* q² ~ Beta(1/2, (d-1)/2): E q⁸ = 105/(d(d+2)(d+4)(d+6)) */
    double eighth = 105.0 / (D * (D + 2) * (D + 4) * (D + 6)), expected = 3.0 / (D * (D + 2));
    assert_close(fourth, expected, z_limit * sqrt((eighth - expected * expected) / SEEDS));
    assert_close(norm, D, z_limit * sqrt(2.0 * D / (SEEDS * D))); /* Var χ²(d) = 2d */
    bo_context_destroy(context);
}

/* Rows of a simplex block have unit directions with inner products -1/(d-1). */
static void simplex_rows_stand_at_equal_angles(void **state)
{
    (void)state;
    enum { D = 5 };
    bo_context *context = test_context(1);
    bo_features_desc desc = {.kernel = BO_KERNEL_SOFTMAX, .dim = D, .features = D, .draw = BO_DRAW_SIMPLEX, .seed = 4};
    bo_features *f;
    float w[D * D];
    assert_ok(context, bo_features_create(context, &desc, &f));
    assert_ok(context, bo_features_get_frequencies(context, f, w));
    for (size_t i = 0; i < D; i++)
        for (size_t j = i + 1; j < D; j++) {
            double dot = 0, a = 0, b = 0;
            for (size_t c = 0; c < D; c++) {
                dot += (double)w[i * D + c] * (double)w[j * D + c];
                a += (double)w[i * D + c] * (double)w[i * D + c];
                b += (double)w[j * D + c] * (double)w[j * D + c];
            }
            assert_close(dot / sqrt(a * b), -1.0 / (D - 1), D * 6e-8);
        }
    bo_features_destroy(f);
    bo_context_destroy(context);
}

/* Moment-matched frequencies have exactly the mean and covariance of their distribution. */
static void moments_are_matched(void **state)
{
    (void)state;
    enum { D = 4, M = 32 };
    bo_context *context = test_context(1);
    bo_features_desc desc = {.dim = D, .features = 2 * M, .gamma = 0.5, .draw = BO_DRAW_MOMENT, .seed = 5};
    bo_features *f;
    float w[M * D];
    assert_ok(context, bo_features_create(context, &desc, &f));
    assert_ok(context, bo_features_get_frequencies(context, f, w));
    for (size_t i = 0; i < D; i++)
        for (size_t j = 0; j < D; j++) {
            double mean = 0, covariance = 0;
            for (size_t r = 0; r < M; r++) {
                mean += (double)w[r * D + i] / M;
                covariance += (double)w[r * D + i] * (double)w[r * D + j] / M;
            }
            assert_close(mean, 0, 3 * 6e-8); /* entries up to 3, rounded to float */
            assert_close(covariance, i == j ? 1 : 0, 1e-6);
        }
    bo_features_destroy(f);
    bo_context_destroy(context);
}

/* Optimal sampling reduces the mean squared error of positive features over the data to the theoretical bound ((E
 * k(x,x))² - E k²)/m, plus the error of the candidates. */
static void optimal_sampling_reaches_its_bound(void **state)
{
    (void)state;
    enum { SEEDS = 200, ROWS = 12 };
    bo_context *context = test_context(1);
    float x[ROWS * DIM], z[ROWS * FREQUENCIES];
    double k[ROWS * ROWS], error[2] = {0, 0}, square[2] = {0, 0}, diagonal = 0, squares = 0;
    test_inputs(2, ROWS * DIM, x);
    for (size_t i = 0; i < ROWS * DIM; i++) x[i] *= 1.5f;
    for (int policy = 0; policy < 2; policy++)
        for (size_t s = 0; s < SEEDS; s++) {
            bo_features_desc desc = {.kernel = BO_KERNEL_SOFTMAX,
                                     .dim = DIM,
                                     .features = FREQUENCIES,
                                     .draw = BO_DRAW_IID,
                                     .seed = s,
                                     .sample = x,
                                     .sample_rows = ROWS,
                                     .sampling = policy ? BO_SAMPLING_OPTIMAL : BO_SAMPLING_DRAWN,
                                     .candidates = 64 * FREQUENCIES};
            bo_features *f;
            assert_ok(context, bo_features_create(context, &desc, &f));
            assert_ok(context,
                      bo_features_apply(context, f, &(bo_inputs){.rows = ROWS, .x = x, .stride = DIM}, z, FREQUENCIES));
            assert_ok(context, bo_kernel_matrix(context, &desc, ROWS, x, DIM, ROWS, x, DIM, k, ROWS));
            double mean = 0;
            for (size_t i = 0; i < ROWS; i++)
                for (size_t j = 0; j < ROWS; j++) {
                    double dot = 0;
                    for (size_t c = 0; c < FREQUENCIES; c++)
                        dot += (double)z[i * FREQUENCIES + c] * (double)z[j * FREQUENCIES + c];
                    mean += (dot - k[i * ROWS + j]) * (dot - k[i * ROWS + j]) / (ROWS * ROWS);
                }
            error[policy] += mean / SEEDS;
            square[policy] += mean * mean / SEEDS;
            bo_features_destroy(f);
        }
    for (size_t i = 0; i < ROWS; i++) {
        diagonal += k[i * ROWS + i] / ROWS;
        for (size_t j = 0; j < ROWS; j++) squares += k[i * ROWS + j] * k[i * ROWS + j] / (ROWS * ROWS);
    }
    double bound = (diagonal * diagonal - squares) / FREQUENCIES + error[0] / 64;
    double standard = sqrt((square[1] - error[1] * error[1]) / SEEDS);
    /* 1/0.95: a twentieth of the probability is reserved for uniform selection */
    if (error[1] > bound / 0.95 + z_limit * standard || error[1] >= error[0])
        fail_msg("mean squared error %.4g, bound %.4g, as drawn %.4g", error[1], bound, error[0]);
    bo_context_destroy(context);
}

/* A sample along one direction excites few frequencies. The other candidates have a twentieth of the probability: some
 * are selected, with weights of at most √20. */
static void no_frequency_is_given_up(void **state)
{
    (void)state;
    enum { KEPT = 400 };
    bo_context *context = test_context(1);
    float x[DIM] = {5};
    bo_features_desc desc = {.kernel = BO_KERNEL_SOFTMAX,
                             .dim = DIM,
                             .features = KEPT,
                             .draw = BO_DRAW_IID,
                             .sample = x,
                             .sample_rows = 1,
                             .sampling = BO_SAMPLING_OPTIMAL};
    bo_features *f;
    assert_ok(context, bo_features_create(context, &desc, &f));
    const float *weights = bo_features_importance(f);
    size_t even = 0;
    for (size_t i = 0; i < KEPT; i++) {
        assert_true((double)weights[i] < sqrt(20) * (1 + 1e-6));
        even += (double)weights[i] > 0.9 * sqrt(20);
    }
    if (even < KEPT / 40 || even > KEPT / 15) fail_msg("%zu of %d frequencies are not excited", even, KEPT);
    bo_features_destroy(f);
    bo_context_destroy(context);
}

int main(void)
{
    /* half a million maps are created and destroyed: keep their memory instead of returning it to the system */
#if defined(__GLIBC__)
    mallopt(M_MMAP_THRESHOLD, 1 << 28);
    mallopt(M_TRIM_THRESHOLD, 1 << 28);
#endif
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_map_estimates_its_kernel),     cmocka_unit_test(the_bias_of_selftensor_is_its_variance),
        cmocka_unit_test(orthogonal_rows_are_orthogonal),     cmocka_unit_test(orthogonal_rows_are_haar),
        cmocka_unit_test(simplex_rows_stand_at_equal_angles), cmocka_unit_test(moments_are_matched),
        cmocka_unit_test(optimal_sampling_reaches_its_bound), cmocka_unit_test(no_frequency_is_given_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
