/* The GEMM micro-kernels of every instruction set: each tile size up to the full one, C untouched outside it,
 * and agreement with sums in double. Small integers make every sum exact, so that equality is the test. */
#include "testing.h"
#include "kernels/kernels.h"

static const char *const isas[] = {"ref", "avx2", "avx512"};

enum { LDC = 41, DEPTH = 37 };

static float small_integer(bo_rng *rng)
{
    return (float)bo_rng_below(rng, 17) - 8.0f;
}

static void check_f32(const bo_micro *micro, size_t m, size_t n, size_t k)
{
    float *a = aligned_alloc(64, 64 * DEPTH * sizeof *a), *b = aligned_alloc(64, 64 * DEPTH * sizeof *b);
    bo_rng rng = bo_rng_make(m * 100 + n, k);
    for (size_t i = 0; i < micro->mr * k; i++) a[i] = small_integer(&rng);
    for (size_t i = 0; i < micro->nr * k; i++) b[i] = small_integer(&rng);
    float c[32 * LDC];
    double g[32 * LDC];
    for (size_t i = 0; i < 32 * LDC; i++) c[i] = 0.5f, g[i] = 0.25;
    micro->f32(k, a, b, c + 1, LDC, m, n);
    micro->f32_f64(k, a, b, g + 1, LDC, m, n);
    for (size_t i = 0; i < 32; i++) {
        for (size_t j = 0; j < LDC; j++) {
            double sum = 0;
            for (size_t p = 0; p < k && i < m && j >= 1 && j <= n; p++) {
                sum += (double)a[p * micro->mr + i] * b[p * micro->nr + j - 1];
            }
            assert_true(c[i * LDC + j] == 0.5 + sum);
            assert_true(g[i * LDC + j] == 0.25 + sum);
        }
    }
    free(a), free(b);
}

static void check_f64(const bo_micro_f64 *micro, size_t m, size_t n, size_t k)
{
    double *a = aligned_alloc(64, 64 * DEPTH * sizeof *a), *b = aligned_alloc(64, 64 * DEPTH * sizeof *b);
    bo_rng rng = bo_rng_make(m * 100 + n, k);
    for (size_t i = 0; i < micro->mr * k; i++) a[i] = small_integer(&rng) * 0x1p20;
    for (size_t i = 0; i < micro->nr * k; i++) b[i] = small_integer(&rng) + 0x1p-20;
    double c[32 * LDC];
    for (size_t i = 0; i < 32 * LDC; i++) c[i] = 0.5;
    micro->f64(k, a, b, c + 1, LDC, m, n);
    for (size_t i = 0; i < 32; i++) {
        for (size_t j = 0; j < LDC; j++) {
            double sum = 0;
            for (size_t p = 0; p < k && i < m && j >= 1 && j <= n; p++) {
                sum += a[p * micro->mr + i] * b[p * micro->nr + j - 1];
            }
            assert_true(c[i * LDC + j] == 0.5 + sum);
        }
    }
    free(a), free(b);
}

static void tiles_of_every_size(void **state)
{
    (void)state;
    const size_t depths[] = {0, 1, 2, DEPTH};
    for (size_t s = 0; s < 3; s++) {
        const bo_kernels *table = bo_kernels_find(isas[s]);
        if (!table) continue;
        for (size_t d = 0; d < 4; d++) {
            for (size_t m = 1; m <= table->gemm.mr; m++) {
                for (size_t n = 1; n <= table->gemm.nr; n++) check_f32(&table->gemm, m, n, depths[d]);
            }
            for (size_t m = 1; m <= table->gemm64.mr; m++) {
                for (size_t n = 1; n <= table->gemm64.nr; n++) check_f64(&table->gemm64, m, n, depths[d]);
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(tiles_of_every_size)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
