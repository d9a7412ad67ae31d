/* The Newton-Schulz iterations of Muon: singular values converge, matrices of every shape agree with the formula in
 * double, tall ones with their transposes, and the number of threads does not matter. */
#include "vectors.h"
#include "math/linalg.h"

typedef struct shape {
    size_t rows, columns;
} shape;

/* X for the gradients g[i], read from w = -X after a step from w = 0 with learning rate 1. */
static void orthogonalize(bo_context *context, bo_newton_schulz iteration, size_t steps, size_t count,
                          const shape *shapes, float *const *g, float *const *x)
{
    bo_device *device = bo_device_of(context);
    const bo_rule rule = {.scale = 1, .rate = -1};
    bo_muon_matrix matrices[16] = {{0}};
    for (size_t i = 0; i < count; i++) {
        const size_t n = shapes[i].rows * shapes[i].columns;
        matrices[i] = (bo_muon_matrix){
            .rows = shapes[i].rows,
            .columns = shapes[i].columns,
            .g = vector_create(context, n, g[i]),
            .w = vector_create(context, n, NULL),
            .rates = {.rate = 1, .factor = 1},
        };
    }
    void *scratch = bo_buffer_allocate(
        context, device, bo_backend_of(device)->updates->bytes(context, 0, NULL, count, matrices), "scratch");
    assert_non_null(scratch);
    assert_ok(context,
              bo_backend_of(device)->updates->muon(context, &rule, iteration, steps, count, matrices, scratch));
    bo_buffer_release(device, scratch);
    for (size_t i = 0; i < count; i++) {
        const size_t n = shapes[i].rows * shapes[i].columns;
        assert_ok(context, bo_buffer_read(context, device, x[i], matrices[i].w, n * sizeof **x));
        vector_drop(context, (void *)(uintptr_t)matrices[i].g);
        vector_drop(context, matrices[i].w);
    }
}

/* ---- singular values --------------------------------------------------------------------------------------------- */

/* g (rows x columns, rows <= columns) = U diag(s) Vᵀ, with log s falling linearly to `min_value` of |g|_F. */
static void with_values(bo_context *context, size_t rows, size_t columns, double min_value, float *g)
{
    double *u = malloc(rows * rows * sizeof *u), *v = malloc(rows * columns * sizeof *v);
    double *x = malloc(rows * columns * sizeof *x);
    bo_rng rng = bo_rng_make(5, 5);
    for (size_t i = 0; i < rows * rows; i++) u[i] = bo_rng_normal(&rng);
    for (size_t i = 0; i < rows * columns; i++) v[i] = bo_rng_normal(&rng);
    assert_ok(context, bo_haar(context, rows, rows, u, rows));
    assert_ok(context, bo_haar(context, rows, columns, v, columns));
    double smallest = min_value, squares = 0; /* relative to a largest of 1 */
    for (int round = 0; round < 50; round++) {
        squares = 0;
        for (size_t i = 0; i < rows; i++) squares += pow(smallest, 2 * (double)i / (double)(rows - 1));
        smallest = min_value * sqrt(squares);
    }
    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; j < columns; j++) v[i * columns + j] *= pow(smallest, (double)i / (double)(rows - 1));
    assert_ok(context, bo_gemm64(context, false, false, rows, columns, rows, 1, u, rows, v, columns, 0, x, columns));
    for (size_t i = 0; i < rows * columns; i++) g[i] = (float)x[i];
    free(u), free(v), free(x);
}

static void singular_values(bo_context *context, size_t rows, size_t columns, const float *x, double *values)
{
    double *wide = malloc(rows * columns * sizeof *wide), *square = malloc(rows * rows * sizeof *square);
    for (size_t i = 0; i < rows * columns; i++) wide[i] = x[i];
    assert_ok(context,
              bo_gemm64(context, false, true, rows, rows, columns, 1, wide, columns, wide, columns, 0, square, rows));
    assert_ok(context, bo_eigen(context, rows, square, rows, values));
    for (size_t i = 0; i < rows; i++) values[i] = sqrt(fmax(values[i], 0));
    free(wide), free(square);
}

static void check_values(bo_newton_schulz iteration, size_t steps, double min_value, double low, double high)
{
    enum { ROWS = 40, COLUMNS = 96 };
    bo_context *context = vector_context(1, NULL);
    float *g = malloc(ROWS * COLUMNS * sizeof *g), *x = malloc(ROWS * COLUMNS * sizeof *x);
    double values[ROWS];
    with_values(context, ROWS, COLUMNS, min_value, g);
    orthogonalize(context, iteration, steps, 1, &(shape){ROWS, COLUMNS}, &g, &x);
    singular_values(context, ROWS, COLUMNS, x, values);
    for (size_t i = 0; i < ROWS; i++)
        if (!(values[i] >= low && values[i] <= high))
            fail_msg("iteration %d, %zu steps: a singular value of %g", iteration, steps, values[i]);
    free(g), free(x);
    bo_context_destroy(context);
}

/* Of the scalar map: [0.6818, 1.1544], the ends at 0.0200 and 0.005. */
static void test_quintic(void **state)
{
    (void)state;
    check_values(BO_NEWTON_SCHULZ_QUINTIC, 5, 0.005, 0.68, 1.155);
}

/* Small values grow by 3/2 per step: 0.02 takes 10 steps to 1, and then the error is squared in each step. */
static void test_cubic(void **state)
{
    (void)state;
    check_values(BO_NEWTON_SCHULZ_CUBIC, 16, 0.02, 1 - 1e-5, 1 + 1e-5);
}

/* ---- comparison with double -------------------------------------------------------------------------------------- */

/* x (rows <= columns) after its steps, by the formula. */
static void formula(bo_context *context, bo_newton_schulz iteration, size_t steps, size_t rows, size_t columns,
                    double *x)
{
    bool quintic = iteration == BO_NEWTON_SCHULZ_QUINTIC;
    double a = quintic ? 3.4445 : 1.5, b = quintic ? -4.7750 : -0.5, c = quintic ? 2.0315 : 0, squares = 0;
    size_t n = rows * columns;
    double *gram = malloc(rows * rows * sizeof *gram), *poly = malloc(rows * rows * sizeof *poly);
    double *next = malloc(n * sizeof *next);
    for (size_t i = 0; i < n; i++) squares += x[i] * x[i];
    for (size_t i = 0; i < n; i++) x[i] /= sqrt(squares) + 1e-7;
    for (size_t step = 0; step < steps; step++) {
        assert_ok(context,
                  bo_gemm64(context, false, true, rows, rows, columns, 1, x, columns, x, columns, 0, gram, rows));
        memcpy(poly, gram, rows * rows * sizeof *poly);
        assert_ok(context,
                  bo_gemm64(context, false, false, rows, rows, rows, c, gram, rows, gram, rows, b, poly, rows));
        memcpy(next, x, n * sizeof *next);
        assert_ok(context,
                  bo_gemm64(context, false, false, rows, columns, rows, 1, poly, rows, x, columns, a, next, columns));
        memcpy(x, next, n * sizeof *next);
    }
    free(gram), free(poly), free(next);
}

enum { SHAPES = 7 };
static const shape shapes[SHAPES] = {{1, 1}, {1, 40}, {17, 33}, {64, 64}, {128, 512}, {200, 30}, {530, 610}};

/* The gradients of all shapes, or of their transposes. */
static void prepare(bool transposed, shape *s, float **g, float **x)
{
    for (size_t i = 0; i < SHAPES; i++) {
        size_t rows = shapes[i].rows, columns = shapes[i].columns;
        float *values = vector_normals(rows * columns, i);
        g[i] = malloc(rows * columns * sizeof *g[i]);
        x[i] = malloc(rows * columns * sizeof *x[i]);
        s[i] = transposed ? (shape){columns, rows} : shapes[i];
        for (size_t r = 0; r < rows; r++)
            for (size_t c = 0; c < columns; c++)
                g[i][transposed ? c * rows + r : r * columns + c] = values[r * columns + c];
        free(values);
    }
}

static void release(float **g, float **x)
{
    for (size_t i = 0; i < SHAPES; i++) free(g[i]), free(x[i]);
}

/* An error in a direction of small singular values grows by at most 3.4445 per step: 485 times in five steps; products
 * of up to 610 terms of size 1 / √columns have rounding errors of about 1e-7. */
static void check_formula(bo_newton_schulz iteration, size_t steps)
{
    bo_context *context = vector_context(2, NULL);
    shape s[SHAPES];
    float *g[SHAPES], *x[SHAPES];
    prepare(false, s, g, x);
    orthogonalize(context, iteration, steps, SHAPES, s, g, x);
    for (size_t i = 0; i < SHAPES; i++) {
        bool tall = s[i].rows > s[i].columns;
        size_t rows = tall ? s[i].columns : s[i].rows, columns = tall ? s[i].rows : s[i].columns;
        double *wide = malloc(rows * columns * sizeof *wide);
        for (size_t r = 0; r < rows; r++)
            for (size_t c = 0; c < columns; c++) wide[r * columns + c] = g[i][tall ? c * rows + r : r * columns + c];
        formula(context, iteration, steps, rows, columns, wide);
        for (size_t r = 0; r < rows; r++)
            for (size_t c = 0; c < columns; c++)
                assert_close(x[i][tall ? c * rows + r : r * columns + c], wide[r * columns + c], 485 * 1e-7);
        free(wide);
    }
    release(g, x);
    bo_context_destroy(context);
}

static void test_formula(void **state)
{
    (void)state;
    check_formula(BO_NEWTON_SCHULZ_QUINTIC, 5);
    check_formula(BO_NEWTON_SCHULZ_CUBIC, 12);
}

static void test_transposes(void **state)
{
    (void)state;
    bo_context *context = vector_context(2, NULL);
    shape s[SHAPES], t[SHAPES];
    float *g[SHAPES], *x[SHAPES], *gt[SHAPES], *xt[SHAPES];
    prepare(false, s, g, x);
    prepare(true, t, gt, xt);
    orthogonalize(context, BO_NEWTON_SCHULZ_QUINTIC, 5, SHAPES, s, g, x);
    orthogonalize(context, BO_NEWTON_SCHULZ_QUINTIC, 5, SHAPES, t, gt, xt);
    for (size_t i = 0; i < SHAPES; i++) /* |x|_F is summed in another order */
        for (size_t r = 0; r < s[i].rows; r++)
            for (size_t c = 0; c < s[i].columns; c++)
                assert_close(xt[i][c * s[i].rows + r], x[i][r * s[i].columns + c], 485 * 1e-7);
    release(g, x);
    release(gt, xt);
    bo_context_destroy(context);
}

static void test_threads(void **state)
{
    (void)state;
    bo_context *one = vector_context(1, NULL), *three = vector_context(3, NULL);
    shape s[SHAPES];
    float *g[SHAPES], *x[SHAPES], *g3[SHAPES], *x3[SHAPES];
    prepare(false, s, g, x);
    prepare(false, s, g3, x3);
    orthogonalize(one, BO_NEWTON_SCHULZ_QUINTIC, 5, SHAPES, s, g, x);
    orthogonalize(three, BO_NEWTON_SCHULZ_QUINTIC, 5, SHAPES, s, g3, x3);
    for (size_t i = 0; i < SHAPES; i++) assert_memory_equal(x[i], x3[i], s[i].rows * s[i].columns * sizeof *x[i]);
    release(g, x);
    release(g3, x3);
    bo_context_destroy(one);
    bo_context_destroy(three);
}

/* For a gradient of zeros the weight only decays. */
static void test_zero(void **state)
{
    (void)state;
    bo_context *context = vector_context(1, NULL);
    float *g = calloc(12, sizeof *g), *x = calloc(12, sizeof *x);
    orthogonalize(context, BO_NEWTON_SCHULZ_QUINTIC, 5, 1, &(shape){3, 4}, &g, &x);
    for (size_t i = 0; i < 12; i++) assert_true(x[i] == 0);
    free(g), free(x);
    bo_context_destroy(context);
}

/* In bfloat16 the last two steps have factors of 8 significant bits; directions of small singular values grow, and
 * their errors with them. */
static void test_bfloat16(void **state)
{
    (void)state;
    enum { ROWS = 40, COLUMNS = 96 };
    bo_context *wide = vector_context(1, NULL), *narrow = NULL;
    assert_int_equal(bo_context_create(&(bo_context_desc){.threads = 1, .precision = BO_PRECISION_BFLOAT16}, &narrow),
                     BO_OK);
    if (getenv("BOCHNER_TEST_DEVICE")) assert_ok(narrow, bo_context_use_device(narrow, getenv("BOCHNER_TEST_DEVICE")));
    for (int tall = 0; tall < 2; tall++) {
        const shape s = tall ? (shape){COLUMNS, ROWS} : (shape){ROWS, COLUMNS};
        float *g = vector_normals(ROWS * COLUMNS, 7), *x = malloc(ROWS * COLUMNS * sizeof *x),
              *y = malloc(ROWS * COLUMNS * sizeof *y);
        double error = 0, size = 0;
        orthogonalize(wide, BO_NEWTON_SCHULZ_QUINTIC, 5, 1, &s, &g, &x);
        orthogonalize(narrow, BO_NEWTON_SCHULZ_QUINTIC, 5, 1, &s, &g, &y);
        for (size_t i = 0; i < ROWS * COLUMNS; i++) error += pow((double)x[i] - y[i], 2), size += pow(x[i], 2);
        assert_true(error > 0 && sqrt(error) < 0.02 * sqrt(size));
        free(g), free(x), free(y);
    }
    bo_context_destroy(wide);
    bo_context_destroy(narrow);
}

/* Matrices with the same sides, some of them transposed, are updated together: each as if it were alone. */
enum { TOGETHER = 5 };

static void update_some(bo_context *context, size_t first, size_t count, const bo_muon_matrix *all)
{
    bo_device *device = bo_device_of(context);
    const bo_rule rule = {.scale = 0.5, .rate = 0.1, .momentum = 0.9, .nesterov = true};
    void *scratch = bo_buffer_allocate(
        context, device, bo_backend_of(device)->updates->bytes(context, 0, NULL, count, all + first), "scratch");
    assert_ok(context, bo_backend_of(device)->updates->muon(context, &rule, BO_NEWTON_SCHULZ_QUINTIC, 5, count,
                                                            all + first, scratch));
    bo_buffer_release(device, scratch);
}

static void test_together(void **state)
{
    (void)state;
    static const shape sides[TOGETHER] = {{40, 56}, {56, 40}, {40, 56}, {24, 33}, {33, 24}};
    bo_context *context = vector_context(2, NULL);
    bo_muon_matrix all[2][TOGETHER] = {{{0}}};
    for (int alone = 0; alone < 2; alone++) {
        for (size_t i = 0; i < TOGETHER; i++) {
            const size_t n = sides[i].rows * sides[i].columns;
            all[alone][i] = (bo_muon_matrix){
                .rows = sides[i].rows,
                .columns = sides[i].columns,
                .g = vector_create_normals(context, n, 40 + i),
                .m = vector_create_normals(context, n, 50 + i),
                .w = vector_create_normals(context, n, 60 + i),
                .rates = {.rate = 1, .decay = i % 2 ? 0.1 : 0, .factor = 1 + (double)i},
            };
        }
        for (size_t i = 0; alone && i < TOGETHER; i++) update_some(context, i, 1, all[1]);
        if (!alone) update_some(context, 0, TOGETHER, all[0]);
    }
    for (size_t i = 0; i < TOGETHER; i++) {
        const size_t n = sides[i].rows * sides[i].columns;
        float *w[2], *m[2];
        for (int alone = 0; alone < 2; alone++) {
            w[alone] = vector_read(context, n, all[alone][i].w), m[alone] = vector_read(context, n, all[alone][i].m);
            vector_drop(context, (void *)(uintptr_t)all[alone][i].g);
            vector_drop(context, all[alone][i].m), vector_drop(context, all[alone][i].w);
        }
        assert_memory_equal(m[0], m[1], n * sizeof **m);
        for (size_t k = 0; k < n; k++) assert_close(w[0][k], w[1][k], 485 * 1e-7);
        for (int alone = 0; alone < 2; alone++) free(w[alone]), free(m[alone]);
    }
    bo_context_destroy(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_quintic),    cmocka_unit_test(test_cubic),    cmocka_unit_test(test_formula),
        cmocka_unit_test(test_transposes), cmocka_unit_test(test_threads),  cmocka_unit_test(test_zero),
        cmocka_unit_test(test_together),   cmocka_unit_test(test_bfloat16),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
