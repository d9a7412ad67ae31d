/* The GEMM micro-kernels of every instruction set: each tile size up to the full one, C unchanged outside of it, and
 * agreement with sums in double. Sums of small integers (and bytes) are exact, so results must be equal. */
#include "testing.h"
#include "isas.h"
#include "device/cpu/tables.h"

enum { LDC = 41, DEPTH = 37 };

static float small_integer(bo_rng *rng)
{
    return (float)bo_rng_below(rng, 17) - 8.0f;
}

static void check_f32(const bo_micro *micro, size_t m, size_t n, size_t k, bool add)
{
    float *a = aligned_alloc(64, 64 * DEPTH * sizeof *a), *b = aligned_alloc(64, 64 * DEPTH * sizeof *b);
    bo_rng rng = bo_rng_make(m * 100 + n, k);
    for (size_t i = 0; i < micro->mr * k; i++) a[i] = small_integer(&rng);
    for (size_t i = 0; i < micro->nr * k; i++) b[i] = small_integer(&rng);
    float c[32 * LDC];
    double g[32 * LDC];
    for (size_t i = 0; i < 32 * LDC; i++) c[i] = 0.5f, g[i] = 0.25;
    micro->f32(k, a, b, c + 1, LDC, m, n, add);
    micro->f32_f64(k, a, b, g + 1, LDC, m, n, add);
    for (size_t i = 0; i < 32; i++) {
        for (size_t j = 0; j < LDC; j++) {
            bool inside = i < m && j >= 1 && j <= n;
            double sum = 0, kept = inside && !add ? 0 : 1;
            for (size_t p = 0; p < k && inside; p++) {
                sum += (double)a[p * micro->mr + i] * b[p * micro->nr + j - 1];
            }
            assert_true(c[i * LDC + j] == 0.5 * kept + sum);
            assert_true(g[i * LDC + j] == 0.25 * kept + sum);
        }
    }
    free(a), free(b);
}

static void check_f64(const bo_micro_f64 *micro, size_t m, size_t n, size_t k, bool add)
{
    double *a = aligned_alloc(64, 64 * DEPTH * sizeof *a), *b = aligned_alloc(64, 64 * DEPTH * sizeof *b);
    bo_rng rng = bo_rng_make(m * 100 + n, k);
    for (size_t i = 0; i < micro->mr * k; i++) a[i] = small_integer(&rng) * 0x1p20;
    for (size_t i = 0; i < micro->nr * k; i++) b[i] = small_integer(&rng) + 0x1p-20;
    double c[32 * LDC];
    for (size_t i = 0; i < 32 * LDC; i++) c[i] = 0.5;
    micro->f64(k, a, b, c + 1, LDC, m, n, add);
    for (size_t i = 0; i < 32; i++) {
        for (size_t j = 0; j < LDC; j++) {
            bool inside = i < m && j >= 1 && j <= n;
            double sum = 0, kept = inside && !add ? 0 : 1;
            for (size_t p = 0; p < k && inside; p++) {
                sum += a[p * micro->mr + i] * b[p * micro->nr + j - 1];
            }
            assert_true(c[i * LDC + j] == 0.5 * kept + sum);
        }
    }
    free(a), free(b);
}

static void tiles_of_every_size(void **state)
{
    (void)state;
    const size_t depths[] = {0, 1, 2, DEPTH};
    FOR_EACH_TABLE(table)
    {
        for (size_t d = 0; d < 4; d++) {
            for (size_t m = 1; m <= table->gemm.mr; m++) {
                for (size_t n = 1; n <= table->gemm.nr; n++) check_f32(&table->gemm, m, n, depths[d], (m + n) % 2 == 0);
            }
            for (size_t m = 1; m <= table->gemm64.mr; m++) {
                for (size_t n = 1; n <= table->gemm64.nr; n++)
                    check_f64(&table->gemm64, m, n, depths[d], (m + n) % 2 == 0);
            }
        }
    }
}

/* Packed from a matrix of 3 slivers, the last of which is partial, then multiplied sliver by sliver: the middle tile is
 * full, the last has its own m and n. */
static void check_s8(const bo_micro_s8 *micro, size_t m, size_t n, size_t k)
{
    size_t lines_a = 2 * micro->mr + m, lines_b = 2 * micro->nr + n, ldq = lines_b + 1;
    size_t sliver_a = bo_sliver_s8(micro, micro->mr, k), sliver_b = bo_sliver_s8(micro, micro->nr, k);
    assert_true(sliver_a % 64 == 0 && sliver_b % 64 == 0);
    int8_t *q = malloc(k * ldq + 1);
    char *a = aligned_alloc(64, 3 * sliver_a), *b = aligned_alloc(64, 3 * sliver_b);
    memset(a, 77, 3 * sliver_a), memset(b, 77, 3 * sliver_b);
    bo_rng rng = bo_rng_make(m * 100 + n, k);
    for (size_t i = 0; i < k * ldq; i++) q[i] = (int8_t)((int)bo_rng_below(&rng, 255) - 127);
    micro->pack_a(k, lines_a, q, ldq, a);
    micro->pack_b(k, lines_b, q, ldq, b);
    for (size_t s = 1; s < 3; s++) {
        size_t rows = s == 1 ? micro->mr : m, columns = s == 1 ? micro->nr : n;
        double c[32 * LDC];
        for (size_t i = 0; i < 32 * LDC; i++) c[i] = 0.5;
        micro->multiply(k, a + s * sliver_a, b + s * sliver_b, c + 1, LDC, -2.0, rows, columns);
        for (size_t i = 0; i < 32; i++) {
            for (size_t j = 0; j < LDC; j++) {
                int sum = 0;
                for (size_t p = 0; p < k && i < rows && j >= 1 && j <= columns; p++) {
                    sum += q[p * ldq + s * micro->mr + i] * q[p * ldq + s * micro->nr + j - 1];
                }
                assert_true(c[i * LDC + j] == 0.5 - 2.0 * sum);
            }
        }
    }
    free(q), free(a), free(b);
}

enum { TABLES = TEST_ISAS + 1 };

/* Every table of this CPU; NULL if the CPU lacks it. */
static void find_tables(const bo_kernels *tables[TABLES])
{
    tables[TEST_ISAS] = NULL;
    for (size_t i = 0; i < TEST_ISAS; i++) tables[i] = bo_kernels_find(test_isas[i]);
#if defined(__x86_64__)
    if (bo_kernels_find("avx512")) tables[TEST_ISAS] = &bo_kernels_avx512; /* the table without byte products */
#endif
}

static void tiles_of_bytes(void **state)
{
    (void)state;
    const bo_kernels *tables[TABLES];
    find_tables(tables);
    const size_t depths[] = {1, 2, 3, 4, 5, DEPTH};
    for (size_t t = 0; t < TABLES; t++) {
        if (!tables[t]) continue;
        const bo_micro_s8 *micro = &tables[t]->gram8;
        for (size_t d = 0; d < 6; d++) {
            for (size_t m = 1; m <= micro->mr; m++) {
                for (size_t n = 1; n <= micro->nr; n++) check_s8(micro, m, n, depths[d]);
            }
        }
    }
}

/* The maximum depth, at the ends of the range. */
static void deepest_run_of_bytes(void **state)
{
    (void)state;
    const bo_kernels *tables[TABLES];
    find_tables(tables);
    enum { LINES = 5 };
    int8_t *q = malloc((size_t)LINES * BO_S8_DEPTH);
    for (size_t i = 0; i < (size_t)LINES * BO_S8_DEPTH; i++) q[i] = i % LINES == 1 ? -127 : 127;
    for (size_t t = 0; t < TABLES; t++) {
        if (!tables[t]) continue;
        const bo_micro_s8 *micro = &tables[t]->gram8;
        char *a = aligned_alloc(64, 2 * bo_sliver_s8(micro, micro->mr, BO_S8_DEPTH));
        char *b = aligned_alloc(64, bo_sliver_s8(micro, micro->nr, BO_S8_DEPTH));
        double c[4 * LINES] = {0}, sum = 127.0 * 127.0 * BO_S8_DEPTH;
        micro->pack_a(BO_S8_DEPTH, LINES, q, LINES, a);
        micro->pack_b(BO_S8_DEPTH, LINES, q, LINES, b);
        micro->multiply(BO_S8_DEPTH, a, b, c, LINES, 1.0, 4, LINES);
        for (size_t i = 0; i < 4 * LINES; i++) {
            assert_true(c[i] == ((i / LINES == 1) != (i % LINES == 1) ? -sum : sum));
        }
        free(a), free(b);
    }
    free(q);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(tiles_of_every_size), cmocka_unit_test(tiles_of_bytes),
                                       cmocka_unit_test(deepest_run_of_bytes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
