/* Products without repetition and their gradients, for every instruction set, compared with plain loops in double:
 * every size up to several tiles, arrays of exact size, one array for both gradients. */
#include "testing.h"
#include "isas.h"

enum { MAX = 83, ENTRIES = MAX * (MAX + 1) / 2 };
static const float head = 0.3f, diagonal = 0.7f, off_diagonal = 1.4f;

static void normals(size_t count, uint64_t seed, float *x)
{
    bo_rng rng = bo_rng_make(seed, 3);
    for (size_t i = 0; i < count; i++) x[i] = (float)bo_rng_normal(&rng);
}

/* A copy of exact size, so that a sanitizer detects reads after its end. */
static float *exactly(size_t count, const float *x)
{
    float *copy = malloc(count * sizeof *copy + 1);
    memcpy(copy, x, count * sizeof *copy);
    return copy;
}

static double factor(size_t i, size_t j)
{
    return (double)(j > i ? off_diagonal : i ? diagonal : head);
}

static void check_forward(const bo_kernels *table, size_t n, const float *a, const float *t)
{
    size_t entries = n * (n + 1) / 2, at = 0;
    float *out = malloc((entries + 1) * sizeof *out);
    out[entries] = -77;
    table->triangle(n, a, t, head, diagonal, off_diagonal, out);
    for (size_t i = 0; i < n; i++)
        for (size_t j = i; j < n; j++, at++) {
            double expected = factor(i, j) * (double)a[i] * (double)t[j];
            if (!(fabs((double)out[at] - expected) <= 2.01 * 0x1p-24 * fabs(expected))) /* two products */
                fail_msg("%s, n = %zu: (%zu, %zu) is %.9g, expected %.9g", table->isa, n, i, j, (double)out[at],
                         expected);
        }
    assert_true(out[entries] == -77);
    free(out);
}

/* da and dt start with `start`. A sum of n terms of three factors plus the start: n + 4 rounding errors of the
 * magnitudes, twice for the diagonal, which uses the off-diagonal factor. */
static void check_backward(const bo_kernels *table, size_t n, const float *a, const float *t, const float *g,
                           const float *start, bool one)
{
    double da[MAX], dt[MAX], size_a[MAX], size_t_[MAX];
    float *found_a = exactly(n, start), *found_t = one ? found_a : exactly(n, start);
    for (size_t i = 0; i < n; i++) {
        da[i] = dt[i] = (double)start[i];
        size_a[i] = size_t_[i] = fabs((double)start[i]);
    }
    for (size_t i = 0, at = 0; i < n; i++)
        for (size_t j = i; j < n; j++, at++) {
            double across = factor(i, j) * (double)g[at] * (double)t[j],
                   down = factor(i, j) * (double)g[at] * (double)a[i];
            double more = (double)off_diagonal / factor(i, j);
            da[i] += across, size_a[i] += (1 + 2 * more) * fabs(across);
            dt[j] += down, size_t_[j] += (1 + 2 * more) * fabs(down);
        }
    table->triangle_back(n, a, t, head, diagonal, off_diagonal, g, found_a, found_t);
    for (size_t i = 0; i < n; i++) {
        double limit = (double)(n + 4) * 0x1p-24;
        double expected = one ? da[i] + dt[i] - (double)start[i] : da[i], size = size_a[i] + (one ? size_t_[i] : 0);
        if (!(fabs((double)found_a[i] - expected) <= limit * size))
            fail_msg("%s, n = %zu: da[%zu] is %.9g, expected %.9g", table->isa, n, i, (double)found_a[i], expected);
        if (!one && !(fabs((double)found_t[i] - dt[i]) <= limit * size_t_[i]))
            fail_msg("%s, n = %zu: dt[%zu] is %.9g, expected %.9g", table->isa, n, i, (double)found_t[i], dt[i]);
    }
    free(found_a);
    if (!one) free(found_t);
}

static void products_without_repeats(void **state)
{
    (void)state;
    float *g = malloc(ENTRIES * sizeof *g), a[MAX], t[MAX], start[MAX];
    normals(MAX, 1, a), normals(MAX, 2, t), normals(MAX, 3, start), normals(ENTRIES, 4, g);
    FOR_EACH_TABLE(table)
    {
        for (size_t n = 0; n <= MAX; n++) {
            float *exact_a = exactly(n, a), *exact_t = exactly(n, t), *exact_g = exactly(n * (n + 1) / 2, g);
            check_forward(table, n, exact_a, exact_t);
            check_backward(table, n, exact_a, exact_t, exact_g, start, false);
            check_backward(table, n, exact_a, exact_t, exact_g, start, true);
            free(exact_a), free(exact_t), free(exact_g);
        }
    }
    free(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(products_without_repeats)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
