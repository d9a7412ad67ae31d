/* Polynomial and Taylor attention: scores within a chunk use the closed form, scores across chunks use features.
 * Compared with the direct sum in float64, which has neither chunks nor features. */
#include "direct.h"

/* (1 + s)^p and 1 + s + s²/2, s = x·y / √width: the default scale. The terms of a feature product have the signs of
 * monomials: their magnitudes sum to the same function of Σ |x_j y_j|. */
static double scaled(size_t width, const double *x, const double *y, double *size)
{
    double sum = 0;
    *size = 0;
    for (size_t j = 0; j < width; j++) sum += x[j] * y[j], *size += fabs(x[j] * y[j]);
    *size /= sqrt((double)width);
    return sum / sqrt((double)width);
}

static double power(size_t width, const double *x, const double *y, double *size, int p)
{
    double s = scaled(width, x, y, size);
    *size = pow(1 + *size, p);
    return pow(1 + s, p);
}

static double power1(size_t width, const double *x, const double *y, double *size)
{
    return power(width, x, y, size, 1);
}

static double power2(size_t width, const double *x, const double *y, double *size)
{
    return power(width, x, y, size, 2);
}

static double power3(size_t width, const double *x, const double *y, double *size)
{
    return power(width, x, y, size, 3);
}

static double power4(size_t width, const double *x, const double *y, double *size)
{
    return power(width, x, y, size, 4);
}

static double taylor(size_t width, const double *x, const double *y, double *size)
{
    double s = scaled(width, x, y, size);
    *size = 1 + *size + *size * *size / 2;
    return 1 + s + s * s / 2;
}

static const struct {
    bo_kernel kernel;
    int degree;
    direct_kernel direct;
} maps[] = {{BO_KERNEL_POLYNOMIAL, 1, power1},
            {BO_KERNEL_POLYNOMIAL, 2, power2},
            {BO_KERNEL_POLYNOMIAL, 3, power3},
            {BO_KERNEL_POLYNOMIAL, 4, power4},
            {BO_KERNEL_TAYLOR, 0, taylor}};
enum { MAPS = sizeof maps / sizeof *maps };

static bo_attention_desc describe(size_t map, size_t dim)
{
    return (bo_attention_desc){.kind = BO_ATTENTION_LINEAR,
                               .heads = 4,
                               .key_heads = 2,
                               .dim = dim,
                               .value_dim = dim - 1,
                               .features = {.kernel = maps[map].kernel, .degree = maps[map].degree}};
}

/* Odd degrees could have denominators near 0, so they are not normalized. Chunks of fewer rows than a panel, of one
 * panel, and of more; with and without decay. */
static void agrees_with_the_sum(void **state)
{
    (void)state;
    const size_t tokens[] = {1, 31, 50, 77}, chunks[] = {5, 0, 40, 64};
    for (size_t map = 0; map < MAPS; map++)
        for (size_t i = 0; i < 4; i++) {
            bo_attention_desc desc = describe(map, 3 + i);
            desc.chunk = chunks[(i + map) % 4];
            desc.causal = i != 1;
            desc.normalizer = maps[map].degree % 2 ? BO_NORMALIZER_NONE : BO_NORMALIZER_SUM;
            desc.gate = i == 2 ? BO_GATE_FIXED : BO_GATE_NONE;
            bo_attention_shape shape = {.sequences = 1, .tokens = tokens[i], .layout = BO_LAYOUT_TOKENS_FIRST};
            direct d = direct_make(1, desc, shape, maps[map].direct);
            if (i == 2) direct_decays(&d, (double[]){-0.05, -0.9});
            size_t terms = tokens[i] + d.desc.features.features + 10;
            direct_run(&d);
            direct_check_outputs(&d, d.out, terms);
            direct_check_gradients(&d, 30);
            if (desc.causal) direct_check_pieces(&d, terms);
            if (desc.causal) direct_check_causal(&d);
            direct_free(&d);
        }
}

/* Length scales are part of s: attention of x / ℓ with length scales equals attention of x without. */
static void has_length_scales(void **state)
{
    (void)state;
    const float lengths[] = {0.5f, 2, 4, 1, 0.25f}; /* powers of two: exact */
    bo_attention_desc desc = describe(1, 5);
    desc.causal = true;
    bo_attention_shape shape = {.sequences = 2, .tokens = 45};
    direct plain = direct_make(1, desc, shape, power2);
    desc.features.length_scales = lengths;
    direct scaled = direct_make(1, desc, shape, power2);
    for (int a = Q; a <= K; a++)
        for (size_t i = 0; i < scaled.count[a]; i++) scaled.given[a][i] *= lengths[i % 5];
    direct_run(&plain);
    direct_run(&scaled);
    for (size_t i = 0; i < plain.outputs; i++) assert_close((double)scaled.out[i], (double)plain.out[i], 2e-5);
    for (int a = Q; a <= K; a++)
        for (size_t i = 0; i < plain.count[a]; i++) {
            double expected = (double)plain.gradient[a][i] / (double)lengths[i % 5];
            assert_close((double)scaled.gradient[a][i], expected, 1e-4 * (1 + fabs(expected)));
        }
    direct_free(&plain);
    direct_free(&scaled);
}

/* 64 columns, 2145 features: the intended size. Forward, and gradients along a few directions. */
static void large_maps_agree(void **state)
{
    (void)state;
    for (size_t map = 1; map < MAPS; map += 3) { /* degree 2, Taylor */
        bo_attention_desc desc = describe(map, 64);
        desc.causal = true;
        desc.heads = desc.key_heads = 1;
        bo_attention_shape shape = {.sequences = 1, .tokens = 150};
        direct d = direct_make(2, desc, shape, maps[map].direct);
        direct_run(&d);
        direct_check_outputs(&d, d.out, shape.tokens + d.desc.features.features);
        direct_check_gradients(&d, 10);
        direct_free(&d);
    }
}

static void threads_change_nothing(void **state)
{
    (void)state;
    bo_attention_desc desc = describe(1, 6);
    desc.causal = true;
    for (size_t tokens = 300; tokens <= 3000; tokens += 2700) {
        bo_attention_shape shape = {.sequences = 1, .tokens = tokens};
        direct one = direct_make(1, desc, shape, power2);
        direct_run(&one);
        for (int threads = 2; threads <= 9; threads += 7) { /* nine threads run in waves */
            direct many = direct_make(threads, desc, shape, power2);
            direct_run(&many);
            assert_memory_equal(many.out, one.out, one.outputs * sizeof(float));
            for (int a = Q; a <= V; a++)
                assert_memory_equal(many.gradient[a], one.gradient[a], one.count[a] * sizeof(float));
            direct_free(&many);
        }
        direct_free(&one);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(agrees_with_the_sum),
        cmocka_unit_test(has_length_scales),
        cmocka_unit_test(large_maps_agree),
        cmocka_unit_test(threads_change_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
