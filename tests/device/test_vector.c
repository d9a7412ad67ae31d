/* Every vector kernel of every instruction set compared with the C library in long double, to the accuracy promised in
 * kernels.h: dense and log-uniform arguments, special values, tails of every length, in-place use, unaligned
 * pointers. */
#include "testing.h"
#include "isas.h"

enum { COUNT = 40000 };

/* kernels.h: |error| <= 2e-7 scale, relative 2e-7 for exp */
static const double promised = 2e-7;

/* Important arguments: a dense grid, every magnitude of float, neighbors of multiples of π/2 (where sine or cosine is
 * nearly zero) and of the points where the reduction method changes. */
static float *angles(void)
{
    float *x = malloc(COUNT * sizeof *x);
    bo_rng rng = bo_rng_make(5, 1);
    for (size_t i = 0; i < COUNT; i++) {
        double u = bo_rng_uniform(&rng), sign = bo_rng_uniform(&rng) < 0.5 ? -1.0 : 1.0;
        switch (i % 8) {
        case 0:
            x[i] = (float)(40.0 * u - 20.0);
            break;
        case 1:
            x[i] = (float)(sign * ldexp(1.0 + u, (int)(i / 8 % 254) - 126));
            break;
        case 2:
            x[i] = (float)(sign * M_PI_2 * floor(70000.0 * u));
            break;
        case 3:
            x[i] = (float)(sign * M_PI_2 * (0.5 + floor(64000.0 * u)));
            break;
        case 4:
            x[i] = (float)(sign * (1e5 + 200.0 * (u - 0.5)));
            break;
        case 5:
            x[i] = (float)(sign * 0x1p40 * (0.9 + 0.2 * u));
            break;
        case 6:
            x[i] = (float)(sign * M_PI_2 * floor(1e9 * u));
            break;
        default:
            x[i] = (float)(sign * 1e8 * u);
            break;
        }
    }
    const float special[] = {0.0f, -0.0f,  0x1p-149f, -0x1p-149f, 0x1p-126f, 1e8f,    -1e8f,          1e20f,
                             1e5f, 1e-20f, 0x1p40f,   3.4e38f,    -3.4e38f,  0x1p62f, 0x1.fffffep127f};
    memcpy(x, special, sizeof special);
    return x;
}

static void sincos_is_accurate(void **state)
{
    (void)state;
    float *x = angles(), *s = malloc(COUNT * sizeof *s), *c = malloc(COUNT * sizeof *c);
    FOR_EACH_TABLE(table)
    {
        const float scales[] = {1.0f, 0.03125f, -3.0f};
        for (size_t k = 0; k < 3; k++) {
            double scale = scales[k], bound = promised * fabs(scale);
            table->sincos(COUNT, scales[k], x, s, c);
            for (size_t i = 0; i < COUNT; i++) {
                long double angle = x[i];
                if (!(fabsl(s[i] - scale * sinl(angle)) <= bound && fabsl(c[i] - scale * cosl(angle)) <= bound)) {
                    fail_msg("%s: sincos(%a) = %.9g, %.9g, expected %.9Lg, %.9Lg", table->isa, (double)x[i],
                             (double)s[i], (double)c[i], scale * sinl(angle), scale * cosl(angle));
                }
            }
        }
        assert_true(s[0] == 0.0f && s[1] == 0.0f);
    }
    free(x), free(s), free(c);
}

static void sincos_of_no_number_is_none(void **state)
{
    (void)state;
    FOR_EACH_TABLE(table)
    {
        float x[19], s[19], c[19];
        for (int i = 0; i < 19; i++) x[i] = (float)i;
        x[3] = INFINITY, x[17] = NAN, x[18] = -INFINITY;
        table->sincos(19, 1.0f, x, s, c);
        for (int i = 0; i < 19; i++) {
            bool bad = i == 3 || i >= 17;
            assert_int_equal(isnan(s[i]) && isnan(c[i]), bad);
            if (!bad) assert_close(s[i], sin(i), promised);
        }
    }
}

/* Output equals x, tails of every length, no writes after n. */
static void sincos_in_place_and_tails(void **state)
{
    (void)state;
    FOR_EACH_TABLE(table)
    {
        for (size_t n = 0; n <= 50; n++) {
            float buffer[64], other[64];
            for (size_t i = 0; i < 64; i++) buffer[i] = (float)i * 3.7f - 50.0f, other[i] = -77.0f;
            float *x = buffer + n % 3, *y = other + 1;
            if (n % 2) {
                table->sincos(n, 2.0f, x, x, y);
            } else {
                table->sincos(n, 2.0f, x, y, x);
            }
            for (size_t i = 0; i < n; i++) {
                double angle = (double)((float)(i + n % 3) * 3.7f - 50.0f);
                assert_close(n % 2 ? x[i] : y[i], 2 * sin(angle), 2 * promised);
                assert_close(n % 2 ? y[i] : x[i], 2 * cos(angle), 2 * promised);
            }
            assert_true(other[0] == -77.0f && y[n] == -77.0f);
            assert_true(x[n] == (float)(n + n % 3) * 3.7f - 50.0f);
        }
    }
}

/* The shift is kept for a large argument. The accuracy is promised for sincos; the same bound holds here. */
static void cos_shift_adds_the_angle_first(void **state)
{
    (void)state;
    float *x = angles(), *shift = malloc(COUNT * sizeof *shift), *y = malloc(COUNT * sizeof *y);
    bo_rng rng = bo_rng_make(6, 1);
    for (size_t i = 0; i < COUNT; i++) {
        shift[i] = (float)(2 * M_PI * bo_rng_uniform(&rng));
        if (i % 97 == 0) shift[i] = i % 2 ? 12345.678f : -3e7f;
    }
    FOR_EACH_TABLE(table)
    {
        table->cos_shift(COUNT, 0.5f, x, shift, y);
        for (size_t i = 0; i < COUNT; i++) {
            long double a = x[i], b = shift[i], expected = cosl(a) * cosl(b) - sinl(a) * sinl(b);
            if (!(fabsl(y[i] - 0.5L * expected) <= 0.5 * promised)) {
                fail_msg("%s: cos(%a + %a) / 2 = %.9g, expected %.9Lg", table->isa, (double)x[i], (double)shift[i],
                         (double)y[i], 0.5L * expected);
            }
        }
        for (size_t n = 0; n < 40; n++) {
            float z[48];
            for (int i = 0; i < 48; i++) z[i] = (float)i;
            table->cos_shift(n, 1.0f, z, shift + 1, z);
            for (size_t i = 0; i < n; i++) assert_close(z[i], cos((double)i + (double)shift[i + 1]), promised);
            for (size_t i = n; i < 48; i++) assert_true(z[i] == (float)i);
        }
    }
    free(x), free(shift), free(y);
}

static void exp_is_accurate(void **state)
{
    (void)state;
    float *x = malloc(COUNT * sizeof *x), *y = malloc(COUNT * sizeof *y);
    bo_rng rng = bo_rng_make(7, 1);
    FOR_EACH_TABLE(table)
    {
        const float shifts[] = {0.0f, -3.3f, 41.17f, -80.123f};
        for (int k = 0; k < 4; k++) {
            for (size_t i = 0; i < COUNT; i++) {
                double u = bo_rng_uniform(&rng);
                x[i] = i % 4 ? (float)(-87.3 + 176.0 * u - shifts[k]) : (float)ldexp(u - 0.5, -(int)(i / 4 % 140));
            }
            table->exp_shift(COUNT, x, shifts[k], y);
            for (size_t i = 0; i < COUNT; i++) {
                long double t = (long double)x[i] + shifts[k];
                if (t < -87.3L || t > 88.7L) continue;
                if (!(fabsl(y[i] / expl(t) - 1.0L) <= promised)) {
                    fail_msg("%s: exp(%a + %a) = %.9g, expected %.9Lg", table->isa, (double)x[i], (double)shifts[k],
                             (double)y[i], expl(t));
                }
            }
        }
    }
    free(x), free(y);
}

static void exp_at_its_ends(void **state)
{
    (void)state;
    FOR_EACH_TABLE(table)
    {
        float x[] = {-87.4f, -100.0f, -1e30f, -INFINITY, 88.8f, 1e30f, INFINITY, NAN, 0.0f, -0.0f};
        enum { N = sizeof x / sizeof *x };
        table->exp_shift(N, x, 0.0f, x); /* in place */
        for (int i = 0; i < 4; i++) assert_true(x[i] == 0.0f);
        for (int i = 4; i < 7; i++) assert_true(isinf(x[i]) && x[i] > 0);
        assert_true(isnan(x[7]) && x[8] == 1.0f && x[9] == 1.0f);
        for (size_t n = 0; n < 40; n++) {
            float z[48];
            for (int i = 0; i < 48; i++) z[i] = 0.1f * (float)i;
            table->exp_shift(n, z, -1.0f, z);
            for (size_t i = 0; i < n; i++) {
                double expected = exp((double)(0.1f * (float)i) - 1.0);
                assert_close(z[i], expected, promised * expected);
            }
            for (size_t i = n; i < 48; i++) assert_true(z[i] == 0.1f * (float)i);
        }
    }
}

/* The rounding error of a single operation is allowed. */
static void elementwise_kernels(void **state)
{
    (void)state;
    FOR_EACH_TABLE(table)
    {
        for (size_t n = 0; n <= 70; n++) {
            float x[80], y[80], mean[80], factor[80], out[80];
            bo_rng rng = bo_rng_make(n, 3);
            for (size_t i = 0; i < 80; i++) {
                x[i] = (float)bo_rng_normal(&rng), y[i] = (float)bo_rng_normal(&rng), out[i] = -9.0f;
                mean[i] = (float)bo_rng_normal(&rng), factor[i] = (float)bo_rng_normal(&rng);
            }
            float *to = out + 1;
            table->relu(n, 0.3f, x, to);
            for (size_t i = 0; i < n; i++) assert_true(to[i] == 0.3f * (x[i] > 0 ? x[i] : 0.0f));
            assert_true(out[0] == -9.0f && to[n] == -9.0f);
            table->affine(n, x, mean, factor, to);
            for (size_t i = 0; i < n; i++) assert_true(to[i] == (x[i] - mean[i]) * factor[i]);
            assert_true(out[0] == -9.0f && to[n] == -9.0f);
            for (size_t i = 0; i < n; i++) to[i] = y[i];
            table->axpy(n, -1.7f, x, to);
            double dot = 0, size = 0;
            for (size_t i = 0; i < n; i++) {
                double product = -1.7f * (double)x[i], exact = product + (double)y[i];
                assert_close(to[i], exact, 0x1p-24 * (fabs(product) + fabs(exact)) * (1 + 0x1p-20));
                dot += (double)x[i] * y[i], size += fabs((double)x[i] * y[i]);
            }
            assert_true(out[0] == -9.0f && to[n] == -9.0f);
            assert_close(table->dot(n, x, y), dot, 2 * (double)(n + 1) * 0x1p-53 * size);
        }
        float none[] = {NAN, -0.0f, INFINITY, -INFINITY};
        table->relu(4, 1.0f, none, none);
        assert_true(isnan(none[0]) && none[1] == 0.0f && isinf(none[2]) && none[3] == 0.0f);
    }
}

/* Every length and both scales, compared with the long double rounding of the float product. */
static void quantize_rounds_to_the_nearest_byte(void **state)
{
    (void)state;
    const float special[] = {0.5f,         1.5f,   2.5f,      -0.5f,          -1.5f,           -2.5f,   126.5f,
                             -126.5f,      127.0f, 127.5f,    128.0f,         -127.5f,         -128.0f, 1e9f,
                             -1e9f,        3e38f,  -3e38f,    INFINITY,       -INFINITY,       NAN,     -NAN,
                             0.0f,         -0.0f,  0x1p-149f, 0x1.fffffep-2f, -0x1.fffffep-2f, 125.5f,  0x1.7fffffp6f,
                             2147483648.0f};
    const int expected[] = {0,   2,    2,   0,    -2, -2, 126, -126, 127, 127, 127, -127, -127, 127, -127,
                            127, -127, 127, -127, 0,  0,  0,   0,    0,   0,   0,   126,  96,   127};
    enum { SPECIAL = sizeof special / sizeof *special, MAX = 70 };
    assert_int_equal(sizeof expected / sizeof *expected, SPECIAL);
    FOR_EACH_TABLE(table)
    {
        int8_t q[MAX + 2];
        table->quantize(SPECIAL, 1.0f, special, q);
        for (size_t i = 0; i < SPECIAL; i++) assert_int_equal(q[i], expected[i]);
        for (size_t i = 0; i < SPECIAL; i++) { /* a single element, handled by the tail code */
            table->quantize(1, 1.0f, special + i, q);
            assert_int_equal(q[0], expected[i]);
        }
        float infinite = INFINITY;
        table->quantize(1, 0.0f, &infinite, q);
        assert_int_equal(q[0], 0);
        for (size_t n = 0; n <= MAX; n++) {
            float x[MAX + 1], scale = n % 2 ? 90.0f : -0.37f;
            bo_rng rng = bo_rng_make(n, 6);
            for (size_t i = 0; i < n; i++) x[i + 1] = (float)bo_rng_normal(&rng) * (n % 2 ? 1.0f : 300.0f);
            memset(q, 55, sizeof q);
            table->quantize(n, scale, x + 1, q + 1);
            assert_true(q[0] == 55 && q[n + 1] == 55);
            for (size_t i = 1; i <= n; i++) {
                float scaled = x[i] * scale;
                long double nearest = rintl(scaled);
                assert_true(q[i] == (nearest > 127 ? 127 : nearest < -127 ? -127 : nearest));
            }
        }
    }
}

/* H[i][j] = (-1)^popcount(i & j); sums of log2 n levels have log2 n rounding errors. H applied twice is n times the
 * identity, exactly for small integers. */
static void hadamard_is_the_sign_matrix(void **state)
{
    (void)state;
    FOR_EACH_TABLE(table)
    {
        for (size_t n = 1; n <= 512; n *= 2) {
            float *x = malloc(n * sizeof *x), *y = malloc(n * sizeof *y);
            bo_rng rng = bo_rng_make(n, 4);
            double size = 0;
            for (size_t i = 0; i < n; i++) x[i] = y[i] = (float)bo_rng_normal(&rng), size += fabs((double)x[i]);
            table->hadamard(n, y);
            for (size_t i = 0; i < n; i++) {
                double sum = 0;
                for (size_t j = 0; j < n; j++) sum += __builtin_popcountll(i & j) % 2 ? -x[j] : x[j];
                assert_close(y[i], sum, log2((double)n) * 0x1p-24 * size);
            }
            free(x), free(y);
        }
        for (size_t n = 1; n <= 1 << 15; n *= 2) {
            float *x = malloc(n * sizeof *x);
            for (size_t i = 0; i < n; i++) x[i] = (float)(i % 7) - 3.0f;
            table->hadamard(n, x);
            table->hadamard(n, x);
            for (size_t i = 0; i < n; i++) assert_true(x[i] == (float)n * ((float)(i % 7) - 3.0f));
            free(x);
        }
    }
}

static void tables_are_found_by_name(void **state)
{
    (void)state;
    assert_non_null(bo_kernels_find(NULL));
    assert_non_null(bo_kernels_find("ref"));
    assert_null(bo_kernels_find("abacus"));
    FOR_EACH_TABLE(table) assert_string_equal(bo_kernels_isa(table), test_isas[isa_]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sincos_is_accurate),
        cmocka_unit_test(sincos_of_no_number_is_none),
        cmocka_unit_test(sincos_in_place_and_tails),
        cmocka_unit_test(cos_shift_adds_the_angle_first),
        cmocka_unit_test(exp_is_accurate),
        cmocka_unit_test(exp_at_its_ends),
        cmocka_unit_test(elementwise_kernels),
        cmocka_unit_test(hadamard_is_the_sign_matrix),
        cmocka_unit_test(quantize_rounds_to_the_nearest_byte),
        cmocka_unit_test(tables_are_found_by_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
