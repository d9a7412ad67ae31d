/* The kernels of blocks in cache, for every instruction set, compared with plain loops in double: all boundary sizes,
 * strides, both orders of A, sums that start from C or from zero, and no writes outside of the block. */
#include "testing.h"
#include <float.h>
#include "isas.h"

static const float untouched = -77.0f;

static float *normals(size_t count, uint64_t seed)
{
    float *x = malloc((count + 1) * sizeof *x);
    bo_rng rng = bo_rng_make(seed, 2);
    for (size_t i = 0; i < count; i++) x[i] = (float)bo_rng_normal(&rng);
    return x;
}

static float *filled(size_t count, float value)
{
    float *x = malloc((count + 1) * sizeof *x);
    for (size_t i = 0; i < count; i++) x[i] = value;
    return x;
}

/* ---- multiply ---------------------------------------------------------------------------------------------------- */

/* Operands larger than any product below, with odd strides, so that rows start at any alignment. */
enum { LDA = 163, LDB = 159, LDC = 161, LARGEST = 150 };

typedef struct operands {
    float *a, *b, *start; /* LARGEST rows each */
} operands;

static operands make_operands(void)
{
    return (operands){normals(LARGEST * LDA, 1), normals(LARGEST * LDB, 2), normals(LARGEST * LDC, 3)};
}

static void free_operands(operands *o)
{
    free(o->a), free(o->b), free(o->start);
}

/* C before and around a product: `start` in the block, `untouched` elsewhere, with one more row below. */
static void prepare(const operands *o, size_t m, size_t n, float *c)
{
    for (size_t i = 0; i < (m + 1) * LDC; i++) c[i] = untouched;
    for (size_t i = 0; i < m; i++) memcpy(c + i * LDC, o->start + i * LDC, n * sizeof *c);
}

static void run(const bo_kernels *table, const operands *o, size_t m, size_t n, size_t k, bool transposed, bool add,
                float *c)
{
    prepare(o, m, n, c);
    table->multiply(m, n, k, o->a, transposed ? 1 : LDA, transposed ? LDA : 1, o->b, LDB, add, c, LDC);
}

/* A sum of k + 1 terms, with rounded or exact products, has an error of at most (k + 1) 2^-24 of the sum of magnitudes,
 * to first order; 1.01 covers higher orders. */
static void check_product(const char *isa, const operands *o, size_t m, size_t n, size_t k, bool transposed, bool add,
                          const float *c)
{
    for (size_t i = 0; i <= m; i++) {
        for (size_t j = 0; j < LDC; j++) {
            if (i == m || j >= n) {
                if (c[i * LDC + j] == untouched) continue;
                fail_msg("%s: %zu x %zu x %zu wrote (%zu, %zu)", isa, m, n, k, i, j);
            }
            double sum = add ? (double)o->start[i * LDC + j] : 0.0, size = fabs(sum);
            for (size_t p = 0; p < k; p++) {
                double product = (double)o->a[transposed ? p * LDA + i : i * LDA + p] * (double)o->b[p * LDB + j];
                sum += product, size += fabs(product);
            }
            if (fabs(c[i * LDC + j] - sum) <= 1.01 * (double)(k + 1) * 0x1p-24 * size) continue;
            fail_msg("%s: %zu x %zu x %zu%s%s: (%zu, %zu) = %.9g, expected %.9g", isa, m, n, k,
                     transposed ? " transposed" : "", add ? " added" : "", i, j, (double)c[i * LDC + j], sum);
        }
    }
}

static void check_shape(const bo_kernels *table, const operands *o, size_t m, size_t n, size_t k, float *c)
{
    for (int which = 0; which < 4; which++) {
        bool transposed = which & 1, add = which & 2;
        run(table, o, m, n, k, transposed, add, c);
        check_product(table->isa, o, m, n, k, transposed, add, c);
    }
}

/* Every m, n and k from 0 to 70, with the other two at boundary sizes. */
static void multiply_at_every_edge(void **state)
{
    (void)state;
    operands o = make_operands();
    float *c = malloc((LARGEST + 1) * LDC * sizeof *c);
    const size_t edges[] = {1, 5, 17, 64};
    FOR_EACH_TABLE(table)
    {
        for (size_t size = 0; size <= 70; size++) {
            for (size_t e = 0; e < 4; e++) {
                check_shape(table, &o, size, edges[e], edges[3 - e], c);
                check_shape(table, &o, edges[e], size, edges[(e + 1) % 4], c);
                check_shape(table, &o, edges[e], edges[(e + 2) % 4], size, c);
            }
        }
        for (size_t m = 1; m <= 20; m++) {
            for (size_t n = 1; n <= 70; n++) check_shape(table, &o, m, n, 3, c);
        }
        check_shape(table, &o, 64, 64, 128, c);
        check_shape(table, &o, 128, 64, 33, c);
        check_shape(table, &o, 37, LARGEST, 150, c);
        check_shape(table, &o, LARGEST, 129, 65, c);
    }
    free(c);
    free_operands(&o);
}

/* An element is bitwise equal in any block, and when the depth is processed in pieces. */
static void multiply_does_not_depend_on_its_tiles(void **state)
{
    (void)state;
    operands o = make_operands();
    float *whole = malloc((LARGEST + 1) * LDC * sizeof *whole), *c = malloc((LARGEST + 1) * LDC * sizeof *c);
    enum { M = 41, N = 137, K = 70 };
    FOR_EACH_TABLE(table)
    {
        for (int which = 0; which < 4; which++) {
            bool transposed = which & 1, add = which & 2;
            size_t row = transposed ? 1 : LDA, column = transposed ? LDA : 1;
            run(table, &o, M, N, K, transposed, add, whole);
            bo_rng rng = bo_rng_make(11, (uint64_t)which);
            for (int round = 0; round < 300; round++) {
                size_t i = (size_t)(bo_rng_uniform(&rng) * M), j = (size_t)(bo_rng_uniform(&rng) * N);
                size_t m = 1 + (size_t)(bo_rng_uniform(&rng) * (double)(M - i));
                size_t n = 1 + (size_t)(bo_rng_uniform(&rng) * (double)(N - j));
                size_t cut = (size_t)(bo_rng_uniform(&rng) * K);
                prepare(&o, M, N, c);
                float *block = c + i * LDC + j;
                table->multiply(m, n, cut, o.a + i * row, row, column, o.b + j, LDB, add, block, LDC);
                table->multiply(m, n, K - cut, o.a + i * row + cut * column, row, column, o.b + cut * LDB + j, LDB,
                                true, block, LDC);
                for (size_t r = 0; r < m; r++) {
                    assert_memory_equal(block + r * LDC, whole + (i + r) * LDC + j, n * sizeof *c);
                }
            }
        }
    }
    free(whole), free(c);
    free_operands(&o);
}

/* Separate runs, and overlapping ones as in neighboring patches, are bitwise equal to a contiguous product. */
static void runs_are_one_product(void **state)
{
    (void)state;
    operands o = make_operands();
    enum { K = 7, MAX = 5 };
    const size_t sizes[][2] = {{1, 1}, {5, 17}, {6, 64}, {13, 150}, {28, 32}};
    float *a = malloc(LARGEST * K * MAX * sizeof *a), *b = malloc(K * MAX * LDB * sizeof *b);
    float *whole = malloc((LARGEST + 1) * LDC * sizeof *whole), *c = malloc((LARGEST + 1) * LDC * sizeof *c);
    FOR_EACH_TABLE(table)
    {
        for (size_t which = 0; which < 5 * 4 * (MAX + 1); which++) {
            const size_t *size = sizes[which % 5], count = which / 20;
            bool transposed = which / 5 & 1, add = which / 10 & 1;
            size_t m = size[0], n = size[1], row = transposed ? 1 : LDA, column = transposed ? LDA : 1;
            bo_runs runs = {count, 3 * column, 9 * LDB};
            for (size_t p = 0; p < count * K; p++) {
                size_t from = p / K * 3 + p % K;
                for (size_t i = 0; i < m; i++) a[i * count * K + p] = o.a[i * row + from * column];
                memcpy(b + p * LDB, o.b + (p / K * 9 + p % K) * LDB, LDB * sizeof *b);
            }
            prepare(&o, m, n, whole), prepare(&o, m, n, c);
            table->multiply(m, n, count * K, a, count * K, 1, b, LDB, add, whole, LDC);
            table->multiply_runs(m, n, runs, K, o.a, row, column, o.b, LDB, add, c, LDC);
            assert_memory_equal(c, whole, (m + 1) * LDC * sizeof *c);
        }
    }
    free(a), free(b), free(whole), free(c);
    free_operands(&o);
}

/* ---- transpose --------------------------------------------------------------------------------------------------- */

static void transpose_turns_rows_into_columns(void **state)
{
    (void)state;
    enum { MAX = 70, LD = 75 };
    float *a = normals(MAX * LD, 4), *b = malloc((MAX + 1) * LD * sizeof *b);
    FOR_EACH_TABLE(table)
    {
        for (size_t rows = 0; rows <= MAX; rows++) {
            for (size_t columns = 0; columns <= MAX; columns++) {
                for (size_t i = 0; i < (MAX + 1) * LD; i++) b[i] = untouched;
                table->transpose(rows, columns, a, LD, b, LD);
                for (size_t j = 0; j <= columns; j++) {
                    for (size_t i = 0; i < LD; i++) {
                        bool inside = i < rows && j < columns;
                        if (b[j * LD + i] == (inside ? a[i * LD + j] : untouched)) continue;
                        fail_msg("%s: %zu x %zu is wrong at (%zu, %zu)", table->isa, rows, columns, i, j);
                    }
                }
            }
        }
    }
    free(a), free(b);
}

/* ---- vectors ----------------------------------------------------------------------------------------------------- */

enum { LONGEST = 150 };

static void max_and_scale(void **state)
{
    (void)state;
    float *x = normals(LONGEST, 5);
    FOR_EACH_TABLE(table)
    {
        for (size_t n = 0; n <= LONGEST; n++) {
            float largest = -INFINITY, out[LONGEST + 2];
            for (size_t i = 0; i < n; i++) largest = fmaxf(largest, x[i]);
            assert_true(table->max(n, x) == largest);
            for (size_t i = 0; i < LONGEST + 2; i++) out[i] = untouched;
            table->scale(n, -1.7f, x, out + 1);
            for (size_t i = 0; i < n; i++) assert_true(out[i + 1] == -1.7f * x[i]);
            assert_true(out[0] == untouched && out[n + 1] == untouched);
        }
        float negative[LONGEST], single[LONGEST]; /* lanes after the end must not win; each position must count */
        for (size_t i = 0; i < LONGEST; i++) negative[i] = single[i] = -5.0f;
        for (size_t n = 1; n <= LONGEST; n++) assert_true(table->max(n, negative) == -5.0f);
        for (size_t i = 0; i < LONGEST; i++) {
            single[i] = -4.0f;
            assert_true(table->max(LONGEST, single) == -4.0f && table->max(i + 1, single) == -4.0f);
            assert_true(table->max(i, single) == (i == 0 ? -INFINITY : -5.0f));
            single[i] = -5.0f;
        }
    }
    free(x);
}

static void finite_finds_every_nan_and_infinity(void **state)
{
    (void)state;
    const float bad_values[] = {NAN, -NAN, INFINITY, -INFINITY};
    FOR_EACH_TABLE(table)
    {
        float x[LONGEST];
        for (size_t i = 0; i < LONGEST; i++) x[i] = i % 3 ? 3.4e38f : i % 2 ? -0x1.fffffep127f : 0x1p-149f;
        for (size_t n = 0; n <= LONGEST; n++) assert_true(table->finite(n, x));
        for (size_t i = 0; i < LONGEST; i++) {
            float was = x[i];
            x[i] = bad_values[i % 4];
            assert_false(table->finite(LONGEST, x));
            assert_false(table->finite(i + 1, x));
            assert_true(table->finite(i, x));
            enum { WIDTH = 7, STRIDE = 9 }; /* elements between rows are ignored */
            size_t rows = LONGEST / STRIDE;
            bool covered = i / STRIDE < rows && i % STRIDE < WIDTH;
            assert_int_equal(table->finite_rows(rows, WIDTH, x, STRIDE), !covered);
            assert_int_equal(table->finite_rows(2, LONGEST / 2, x, LONGEST / 2), i >= LONGEST / 2 * 2);
            x[i] = was;
        }
    }
}

/* n products have an error of at most n 2^-24 of the sum of their magnitudes. */
static void products_and_their_sums(void **state)
{
    (void)state;
    float *x = normals(LONGEST, 8), *y = normals(LONGEST, 9);
    FOR_EACH_TABLE(table)
    {
        for (size_t n = 0; n <= LONGEST; n++) {
            double sum = 0.0, size = 0.0;
            for (size_t i = 0; i < n; i++)
                sum += (double)x[i] * (double)y[i], size += fabs((double)x[i] * (double)y[i]);
            assert_close(table->dot_f32(n, x, y), sum, (double)n * 0x1p-24 * size);
        }
    }
    free(x), free(y);
}

/* y has the accuracy of exp_below, 2e-7 (for t > 0 the rounding of t dominates, |t| exp(t) 2^-24); a sum of n float32
 * values of one sign has an error of at most (n - 1) 2^-24 of itself. */
static void exponentials_and_their_sums(void **state)
{
    (void)state;
    float *x = normals(LONGEST, 6), *weight = normals(LONGEST, 7);
    FOR_EACH_TABLE(table)
    {
        for (size_t n = 0; n <= LONGEST; n++) {
            float plain[LONGEST + 2], y[LONGEST + 2], shift = 0.37f * (float)n - 20.0f;
            double sum = 0.0, size = 0.0;
            for (size_t i = 0; i < LONGEST + 2; i++) plain[i] = y[i] = untouched;
            float total = table->exp_sum(n, x, shift, y + 1);
            table->exp_below(n, x, shift, plain + 1);
            assert_memory_equal(y, plain, sizeof y);
            for (size_t i = 0; i < n; i++) {
                double t = (double)x[i] + (double)shift, expected = exp(t);
                assert_close(y[i + 1], expected, 2e-7 * (t > 0 ? (1 + t) * expected : 1));
                sum += (double)y[i + 1];
            }
            assert_close(total, sum, (double)n * 0x1p-24 * sum);
            memcpy(y + 1, weight, n * sizeof *y);
            total = table->exp_weigh(n, x, shift, y + 1);
            sum = 0.0;
            for (size_t i = 0; i < n; i++) {
                assert_true(y[i + 1] == weight[i] * plain[i + 1]);
                sum += (double)y[i + 1], size += fabs((double)y[i + 1]);
            }
            assert_close(total, sum, (double)n * 0x1p-24 * size);
            assert_true(y[0] == untouched && y[n + 1] == untouched);
        }
        float ends[] = {-INFINITY, -1e30f, 0.0f, -INFINITY}, copy[4];
        assert_true(table->exp_sum(4, ends, 0.0f, copy) == 1.0f); /* masked keys have weight 0 */
        memcpy(copy, ends, sizeof copy);
        assert_true(table->exp_sum(4, copy, 0.0f, copy) == 1.0f && copy[2] == 1.0f); /* in place */
        assert_true(table->exp_sum(0, ends, 0.0f, copy) == 0.0f && table->exp_weigh(0, ends, 0.0f, copy) == 0.0f);
    }
    free(x), free(weight);
}

/* a log|x| with the promised accuracy, in every binade and at the extremes. */
static void logarithms_of_sizes(void **state)
{
    (void)state;
    enum { COUNT = 4096 + 5 };
    float *x = normals(COUNT, 8), *y = normals(COUNT, 9);
    for (size_t i = 0; i < COUNT; i++) x[i] = ldexpf(x[i], (int)(i % 240) - 120);
    for (size_t i = 0; i < 64; i++) x[i] = 1 + ((float)i - 32) * 0x1p-23f; /* log near 0 keeps its precision */
    FOR_EACH_TABLE(table)
    {
        float a = 2.5f;
        table->log_size(COUNT, a, x, y);
        for (size_t i = 0; i < COUNT; i++) {
            double expected = log(fabs((double)x[i]));
            assert_close(y[i], (double)a * expected, (double)a * 3e-7 * (i < 64 ? fabs(expected) : 1 + fabs(expected)));
        }
        float ends[] = {0.0f, -0.0f, 0x1p-149f, 0x0.fffffep-126f, FLT_MIN, INFINITY, -INFINITY, NAN, FLT_MAX}, to[9];
        table->log_size(9, 1.0f, ends, to);
        for (size_t i = 0; i < 4; i++) assert_true(to[i] == -INFINITY);
        assert_close(to[4], log((double)FLT_MIN), 1e-4);
        for (size_t i = 5; i < 8; i++) assert_true(to[i] == INFINITY);
        assert_close(to[8], log((double)FLT_MAX), 1e-4);
        table->log_size(9, 1.0f, ends, ends); /* in place */
        assert_memory_equal(ends, to, sizeof to);
        table->log_size(0, 1.0f, NULL, NULL);
    }
    free(x), free(y);
}

/* ---- the state of linear attention ------------------------------------------------------------------------------- */

typedef struct step {
    size_t rows, n, queries;
    bool update;
} step;

/* S: two rounding errors per element. out: a sum of `rows` terms over the updated S. */
static void check_step(const bo_kernels *table, const step *t)
{
    size_t rows = t->rows, n = t->n, ldq = rows + 3, ldo = n + 2;
    float *f = normals(rows, 8), *v = normals(n, 9), *s = normals(rows * n, 10), *q = normals(t->queries * ldq, 12);
    float *old = normals(rows * n, 10), *out = filled(t->queries * ldo, untouched);
    s[rows * n] = untouched;
    table->state_step(rows, n, t->update, 0.875f, t->update ? f : NULL, t->update ? v : NULL, s, t->queries, q, ldq,
                      out, ldo);
    for (size_t i = 0; i < rows * n; i++) {
        double kept = 0.875 * (double)old[i], more = (double)f[i / n] * (double)v[i % n], exact = kept + more;
        if (t->update) {
            assert_close(s[i], exact, 1.01 * 0x1p-24 * (fabs(kept) + fabs(more) + fabs(exact)));
        } else {
            assert_true(s[i] == old[i]);
        }
    }
    assert_true(s[rows * n] == untouched);
    for (size_t g = 0; g < t->queries; g++) {
        for (size_t j = 0; j < n; j++) {
            double sum = 0.0, size = 0.0;
            for (size_t i = 0; i < rows; i++) {
                double product = (double)q[g * ldq + i] * (double)s[i * n + j];
                sum += product, size += fabs(product);
            }
            assert_close(out[g * ldo + j], sum, 1.01 * (double)(rows + 1) * 0x1p-24 * size);
        }
        assert_true(out[g * ldo + n] == untouched && out[g * ldo + n + 1] == untouched);
    }
    free(f), free(v), free(s), free(q), free(old), free(out);
}

static void state_step_is_one_token(void **state)
{
    (void)state;
    const size_t sizes[] = {0, 1, 2, 7, 15, 16, 17, 31, 33, 48, 63, 64, 65, 100, 128, 129};
    enum { SIZES = sizeof sizes / sizeof *sizes };
    FOR_EACH_TABLE(table)
    {
        for (size_t r = 0; r < SIZES; r++) {
            for (size_t c = 1; c < SIZES; c++) {
                for (size_t queries = 0; queries <= 9; queries++) {
                    check_step(table, &(step){sizes[r], sizes[c], queries, (r + c + queries) % 2});
                }
                check_step(table, &(step){sizes[r], sizes[c], 2, true});
                check_step(table, &(step){sizes[r], sizes[c], 2, false});
            }
        }
    }
}

/* The output of a query and the new S do not depend on other queries or on other columns. */
static void state_step_answers_each_query_alone(void **state)
{
    (void)state;
    enum { ROWS = 130, N = 72, QUERIES = 8, SIZE = ROWS * N };
    float *s = normals(SIZE, 13), *q = normals(QUERIES * ROWS, 14), *f = normals(ROWS, 15), *v = normals(N, 16);
    float *shared = malloc(SIZE * sizeof *s), *separate = malloc(SIZE * sizeof *s), together[QUERIES * N], alone[N];
    FOR_EACH_TABLE(table)
    {
        for (int update = 0; update < 2; update++) {
            memcpy(shared, s, SIZE * sizeof *s);
            table->state_step(ROWS, N, update, 0.9f, f, v, shared, QUERIES, q, ROWS, together, N);
            for (size_t g = 0; g < QUERIES; g++) {
                memcpy(separate, s, SIZE * sizeof *s);
                table->state_step(ROWS, N, update, 0.9f, f, v, separate, 1, q + g * ROWS, ROWS, alone, N);
                assert_memory_equal(separate, shared, SIZE * sizeof *s);
                assert_memory_equal(alone, together + g * N, sizeof alone);
            }
            for (size_t j = 0; j < N; j++) { /* a state of one column */
                for (size_t i = 0; i < ROWS; i++) separate[i] = s[i * N + j];
                table->state_step(ROWS, 1, update, 0.9f, f, v + j, separate, 1, q, ROWS, alone, 1);
                assert_true(alone[0] == together[j]);
                for (size_t i = 0; i < ROWS; i++) assert_true(separate[i] == shared[i * N + j]);
            }
        }
    }
    free(s), free(q), free(f), free(v), free(shared), free(separate);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(multiply_at_every_edge),
        cmocka_unit_test(multiply_does_not_depend_on_its_tiles),
        cmocka_unit_test(runs_are_one_product),
        cmocka_unit_test(transpose_turns_rows_into_columns),
        cmocka_unit_test(max_and_scale),
        cmocka_unit_test(finite_finds_every_nan_and_infinity),
        cmocka_unit_test(products_and_their_sums),
        cmocka_unit_test(exponentials_and_their_sums),
        cmocka_unit_test(logarithms_of_sizes),
        cmocka_unit_test(state_step_is_one_token),
        cmocka_unit_test(state_step_answers_each_query_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
