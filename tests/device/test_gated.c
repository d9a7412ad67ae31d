/* The kernels of one gate per channel, for every instruction set, compared with plain loops in double: odd sizes,
 * strides, closed gates, and no writes out of bounds. */
#include "testing.h"
#include "isas.h"

static const float untouched = -77.0f;
static const size_t widths[] = {1, 7, 8, 15, 16, 17, 31, 33, 64, 65, 80, 130};
enum { WIDTHS = sizeof widths / sizeof *widths, ROWS = BO_GATED_ROWS, WIDEST = 130, LD = 133, SIZE = ROWS * LD };

static void fill(float *x, size_t count, uint64_t seed)
{
    bo_rng rng = bo_rng_make(seed, 5);
    for (size_t i = 0; i < count; i++) x[i] = (float)bo_rng_normal(&rng);
}

/* Every seventh gate is closed. */
static void fill_gates(float *g, size_t count)
{
    bo_rng rng = bo_rng_make(4, 5);
    for (size_t i = 0; i < count; i++) g[i] = i % 7 == 3 ? 0.0f : (float)bo_rng_uniform(&rng);
}

static void products(void **state)
{
    (void)state;
    float x[WIDEST], y[WIDEST], z[WIDEST + 1], start[WIDEST];
    fill(x, WIDEST, 1), fill(y, WIDEST, 2), fill(start, WIDEST, 3);
    FOR_EACH_TABLE(table)
    for (size_t n = 0; n <= WIDEST; n++)
        for (int add = 0; add < 2; add++) {
            memcpy(z, start, n * sizeof *z);
            z[n] = untouched;
            table->product(n, x, y, add, z);
            for (size_t i = 0; i < n; i++) { /* one or two rounding errors */
                double product = (double)x[i] * (double)y[i], sum = product + (add ? (double)start[i] : 0);
                assert_close(z[i], sum, 0x1p-24 * (fabs(sum) + fabs(product)) * 1.01);
            }
            assert_true(z[n] == untouched);
        }
}

/* A score is a sum of n terms, each of at most ROWS + 1 factors: (n + ROWS + 1) rounding errors of their magnitudes. */
static void scores(void **state)
{
    (void)state;
    static float q[SIZE], k[SIZE], g[SIZE], out[ROWS * 19];
    fill(q, SIZE, 1), fill(k, SIZE, 2), fill_gates(g, SIZE);
    FOR_EACH_TABLE(table)
    for (size_t w = 0; w < WIDTHS; w++)
        for (size_t rows = 0; rows <= ROWS; rows++) {
            for (size_t i = 0; i < ROWS * 19; i++) out[i] = untouched;
            table->gated_scores(rows, widths[w], q, LD, k, LD, g, LD, out, 19);
            for (size_t i = 0; i < ROWS; i++)
                for (size_t j = 0; j < 19; j++) {
                    double sum = 0, size = 0;
                    if (i >= rows || j > i) {
                        assert_true(out[i * 19 + j] == untouched);
                        continue;
                    }
                    for (size_t c = 0; c < widths[w]; c++) {
                        double part = (double)q[i * LD + c] * (double)k[j * LD + c];
                        for (size_t t = j + 1; t <= i; t++) part *= (double)g[t * LD + c];
                        sum += part, size += fabs(part);
                    }
                    assert_close(out[i * 19 + j], sum, (double)(widths[w] + ROWS + 1) * 0x1p-24 * size);
                }
        }
}

/* ∂/∂q, ∂/∂k, ∂/∂log g of Σ w score by the definition; sums of at most ROWS² / 4 terms. */
static void check_gradients(const bo_kernels *table, size_t rows, size_t n)
{
    enum { LDW = 18 };
    static float w[ROWS * LDW], q[SIZE], k[SIZE], g[SIZE], start[SIZE], d[3][SIZE + 1];
    static double sum[3][SIZE], size[3][SIZE];
    fill(w, ROWS * LDW, 1), fill(q, SIZE, 2), fill(k, SIZE, 3), fill_gates(g, SIZE), fill(start, SIZE, 4);
    for (int a = 0; a < 3; a++) {
        memcpy(d[a], start, rows * n * sizeof(float));
        d[a][rows * n] = untouched;
        for (size_t i = 0; i < rows * n; i++) sum[a][i] = (double)start[i], size[a][i] = fabs(sum[a][i]);
    }
    for (size_t c = 0; c < n; c++)
        for (size_t i = 0; i < rows; i++)
            for (size_t j = 0; j <= i; j++) {
                double decay = (double)w[i * LDW + j];
                for (size_t t = j + 1; t <= i; t++) decay *= (double)g[t * n + c];
                double key = (double)k[j * LD + c], query = (double)q[i * n + c], both = decay * key * query;
                sum[0][i * n + c] += decay * key, size[0][i * n + c] += fabs(decay * key);
                sum[1][j * n + c] += decay * query, size[1][j * n + c] += fabs(decay * query);
                for (size_t t = j + 1; t <= i; t++) sum[2][t * n + c] += both, size[2][t * n + c] += fabs(both);
            }
    table->gated_gradients(rows, n, w, LDW, q, k, LD, g, d[0], d[1], d[2]);
    for (int a = 0; a < 3; a++) {
        for (size_t i = 0; i < rows * n; i++)
            assert_close(d[a][i], sum[a][i], (ROWS * ROWS / 4 + ROWS + 2) * 0x1p-24 * size[a][i]);
        assert_true(d[a][rows * n] == untouched);
    }
    /* closed gates have a gradient of exactly 0 */
    for (size_t i = n; i < rows * n; i++)
        if (g[i] == 0) assert_true(d[2][i] == start[i]);
}

static void gradients(void **state)
{
    (void)state;
    FOR_EACH_TABLE(table)
    for (size_t w = 0; w < WIDTHS; w++)
        for (size_t rows = 0; rows <= ROWS; rows++) check_gradients(table, rows, widths[w]);
}

/* S: two rounding errors per element. out: a sum of `rows` terms over the updated S. */
static void steps(void **state)
{
    (void)state;
    enum { DEEPEST = 70 };
    static float s[DEEPEST * WIDEST + 1], old[DEEPEST * WIDEST], f[DEEPEST], decay[DEEPEST], v[WIDEST], q[9 * DEEPEST];
    static float out[9 * WIDEST];
    static const size_t depths[] = {1, 31, 32, 33, DEEPEST};
    fill(old, DEEPEST * WIDEST, 1), fill(f, DEEPEST, 2), fill(v, WIDEST, 3), fill(q, 9 * DEEPEST, 6);
    fill_gates(decay, DEEPEST);
    FOR_EACH_TABLE(table)
    for (size_t w = 0; w < WIDTHS * 5 * 4; w++) {
        size_t n = widths[w % WIDTHS], rows = depths[w / WIDTHS % 5], queries = (size_t[]){1, 2, 7, 9}[w / WIDTHS / 5];
        bool update = w % 5;
        memcpy(s, old, rows * n * sizeof *s);
        s[rows * n] = untouched;
        table->state_step_gated(rows, n, update, decay, f, v, s, queries, q, DEEPEST, out, WIDEST);
        for (size_t i = 0; i < rows * n; i++) {
            double kept = update ? (double)decay[i / n] * (double)old[i] : (double)old[i];
            double added = update ? (double)f[i / n] * (double)v[i % n] : 0;
            assert_close(s[i], kept + added, 2.02 * 0x1p-24 * (fabs(kept) + fabs(added)));
        }
        assert_true(s[rows * n] == untouched);
        for (size_t i = 0; i < queries * n; i++) {
            double sum = 0, size = 0;
            for (size_t r = 0; r < rows; r++) {
                double part = (double)q[i / n * DEEPEST + r] * (double)s[r * n + i % n];
                sum += part, size += fabs(part);
            }
            assert_close(out[i / n * WIDEST + i % n], sum, (double)rows * 0x1p-24 * 1.01 * size);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(products), cmocka_unit_test(scores),
                                       cmocka_unit_test(gradients), cmocka_unit_test(steps)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
