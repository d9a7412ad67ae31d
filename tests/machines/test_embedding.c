/* Embeddings: linear PCA and polynomial kernel PCA agree with quadratic references to rounding, Gaussian kernel PCA up
 * to an error that falls as 1/√features; streams, threads, files, pre-images and refusals. */
#include "testing.h"
#include <bochner/embedding.h>
#include "base/rng.h"
#include "machines/samples.h"

enum { ROWS = 60, DIM = 4 };

/* Rows on a bent sheet, so that components differ clearly. */
static void fill(float *x, size_t rows, uint64_t seed)
{
    bo_rng rng = bo_rng_make(seed, bo_rng_stream("test.embedding", 0));
    for (size_t i = 0; i < rows; i++) {
        double a = 2 * bo_rng_normal(&rng), b = bo_rng_normal(&rng);
        x[i * DIM] = (float)(a + 3);
        x[i * DIM + 1] = (float)(b + 0.2 * a * a);
        x[i * DIM + 2] = (float)(0.5 * a - b + 0.3 * bo_rng_normal(&rng));
        x[i * DIM + 3] = (float)(0.2 * bo_rng_normal(&rng));
    }
}

/* Eigenvalues (descending) and eigenvectors (rows of v) of a symmetric matrix by cyclic Jacobi rotations. */
static void jacobi(size_t n, double *a, double *values, double *v)
{
    for (size_t i = 0; i < n * n; i++) v[i] = i / n == i % n;
    for (int sweep = 0; sweep < 60; sweep++)
        for (size_t p = 0; p < n; p++)
            for (size_t q = p + 1; q < n; q++) {
                if (a[p * n + q] == 0) continue;
                double theta = (a[q * n + q] - a[p * n + p]) / (2 * a[p * n + q]);
                double t = (theta >= 0 ? 1 : -1) / (fabs(theta) + sqrt(theta * theta + 1));
                double c = 1 / sqrt(t * t + 1), s = t * c;
                for (size_t k = 0; k < n; k++) {
                    double x = a[k * n + p], y = a[k * n + q];
                    a[k * n + p] = c * x - s * y, a[k * n + q] = s * x + c * y;
                }
                for (size_t k = 0; k < n; k++) {
                    double x = a[p * n + k], y = a[q * n + k];
                    a[p * n + k] = c * x - s * y, a[q * n + k] = s * x + c * y;
                    x = v[p * n + k], y = v[q * n + k];
                    v[p * n + k] = c * x - s * y, v[q * n + k] = s * x + c * y;
                }
            }
    for (size_t i = 0; i < n; i++) values[i] = a[i * n + i];
    for (size_t i = 0; i < n; i++)
        for (size_t j = i + 1; j < n; j++)
            if (values[j] > values[i]) {
                double swap = values[i];
                values[i] = values[j], values[j] = swap;
                for (size_t k = 0; k < n; k++) swap = v[i * n + k], v[i * n + k] = v[j * n + k], v[j * n + k] = swap;
            }
}

typedef double (*kernel_fn)(const float *x, const float *y);

static double polynomial(const float *x, const float *y)
{
    double s = 1;
    for (size_t j = 0; j < DIM; j++) s += 0.1 * (double)x[j] * (double)y[j];
    return s * s;
}

static double gaussian(const float *x, const float *y)
{
    double d = 0;
    for (size_t j = 0; j < DIM; j++) d += ((double)x[j] - (double)y[j]) * ((double)x[j] - (double)y[j]);
    return exp(-0.1 * d);
}

/* Kernel PCA by its definition: u_k are the eigenvectors of the centered kernel matrix; coordinates are √μ_k u_k. */
static void exact(kernel_fn kernel, const float *x, double *values, double *u)
{
    double *k = malloc(sizeof(double) * ROWS * ROWS), row[ROWS] = {0}, all = 0;
    for (size_t i = 0; i < ROWS * ROWS; i++) {
        k[i] = kernel(x + i / ROWS * DIM, x + i % ROWS * DIM);
        row[i / ROWS] += k[i] / ROWS;
        all += k[i] / ROWS / ROWS;
    }
    for (size_t i = 0; i < ROWS * ROWS; i++) k[i] += all - row[i / ROWS] - row[i % ROWS];
    jacobi(ROWS, k, values, u);
    free(k);
}

static bo_embedding *fit(bo_context *context, const bo_embedding_desc *desc, const float *x)
{
    const bo_samples rows = {.rows = ROWS, .dim = DIM, .x = x};
    bo_embedding *embedding = NULL;
    assert_ok(context, bo_embedding_fit(context, desc, &rows, &embedding));
    return embedding;
}

/* ---- against references ------------------------------------------------------------------------------------------ */

static void linear(void **state)
{
    (void)state;
    enum { K = 3 };
    bo_context *context = test_context(2);
    float x[ROWS * DIM];
    double mean[DIM] = {0}, covariance[DIM * DIM] = {0}, values[DIM], v[DIM * DIM], c[ROWS * K], error[ROWS],
           back[ROWS * DIM];
    fill(x, ROWS, 1);
    for (size_t i = 0; i < ROWS * DIM; i++) mean[i % DIM] += (double)x[i] / ROWS;
    for (size_t i = 0; i < ROWS; i++)
        for (size_t a = 0; a < DIM; a++)
            for (size_t b = 0; b < DIM; b++)
                covariance[a * DIM + b] +=
                    ((double)x[i * DIM + a] - mean[a]) * ((double)x[i * DIM + b] - mean[b]) / (ROWS - 1);
    double total = 0, left = 0;
    for (size_t a = 0; a < DIM; a++) total += covariance[a * DIM + a];
    jacobi(DIM, covariance, values, v);
    bo_embedding_desc desc = {.components = K, .features = {.kernel = BO_KERNEL_LINEAR}, .scaling = BO_SCALING_NONE};
    bo_embedding *e = fit(context, &desc, x);
    const bo_embedding_report *report = bo_embedding_describe(e);
    assert_ok(context, bo_embedding_apply(context, e, &(bo_inputs){.rows = ROWS, .x = x}, c, error));
    assert_ok(context, bo_embedding_invert(context, e, ROWS, c, back));
    for (size_t k = 0; k < K; k++) {
        assert_close(bo_embedding_describe(e)->variances[k], values[k], 1e-12 * values[0]);
        const double *found = bo_embedding_describe(e)->vectors + k * DIM;
        size_t largest = 0;
        for (size_t j = 1; j < DIM; j++)
            if (fabs(found[j]) > fabs(found[largest])) largest = j;
        assert_true(found[largest] > 0);
        double sign = v[k * DIM + largest] < 0 ? -1 : 1;
        for (size_t j = 0; j < DIM; j++) assert_close(found[j], sign * v[k * DIM + j], 1e-10);
        for (size_t i = 0; i < ROWS; i++) {
            double expected = 0;
            for (size_t j = 0; j < DIM; j++) expected += sign * v[k * DIM + j] * ((double)x[i * DIM + j] - mean[j]);
            assert_close(c[i * K + k], expected, 1e-9);
        }
    }
    for (size_t i = 0; i < ROWS; i++) { /* the distance to the subspace is the distance to the reconstruction */
        double square = 0;
        for (size_t j = 0; j < DIM; j++) {
            double d = (double)x[i * DIM + j] - back[i * DIM + j];
            square += d * d;
        }
        assert_close(error[i], square, 1e-9);
        left += square / (ROWS - 1);
    }
    assert_close(report->feature_error, left / total, 1e-10);
    assert_close(report->input_error, left / total, 1e-10);
    assert_close(report->variance, total, 1e-10);
    bo_embedding_destroy(e);
    bo_context_destroy(context);
}

/* Products in float32 of rows far from the origin: the covariance does not depend on where it is. */
static void far_from_the_origin(void **state)
{
    (void)state;
    enum { FAR = 10000 };
    bo_context *context = test_context(1);
    bo_embedding *near, *far;
    float x[ROWS * DIM], moved[ROWS * DIM];
    double at[ROWS * DIM], again[ROWS * DIM];
    fill(x, ROWS, 5);
    for (size_t i = 0; i < ROWS * DIM; i++) moved[i] = x[i] + FAR, x[i] = moved[i] - FAR; /* the same rounding */
    const bo_embedding_desc desc = {.components = DIM,
                                    .features = {.kernel = BO_KERNEL_LINEAR},
                                    .scaling = BO_SCALING_NONE,
                                    .precision = BO_GRAM_PRECISION_FLOAT32};
    const bo_samples near_samples = {.rows = ROWS, .dim = DIM, .x = x},
                     far_samples = {.rows = ROWS, .dim = DIM, .x = moved};
    assert_ok(context, bo_embedding_fit(context, &desc, &near_samples, &near));
    assert_ok(context, bo_embedding_fit(context, &desc, &far_samples, &far));
    for (size_t k = 0; k < DIM; k++)
        assert_close(bo_embedding_describe(far)->variances[k] / bo_embedding_describe(near)->variances[k], 1, 1e-4);
    assert_ok(context, bo_embedding_apply(context, far, &(bo_inputs){.rows = ROWS, .x = moved}, at, NULL));
    assert_ok(context, bo_embedding_invert(context, far, ROWS, at, again));
    for (size_t i = 0; i < ROWS * DIM; i++) assert_close(again[i], (double)moved[i], 1e-2);
    bo_embedding_destroy(near), bo_embedding_destroy(far);
    bo_context_destroy(context);
}

/* All monomials are exact features: kernel PCA to the rounding of float32 features, 1e-7 of their norm. */
static void finite_features(void **state)
{
    (void)state;
    enum { K = 4 };
    bo_context *context = test_context(2);
    float x[ROWS * DIM];
    double values[ROWS], *u = malloc(sizeof(double) * ROWS * ROWS), c[ROWS * K];
    fill(x, ROWS, 2);
    exact(polynomial, x, values, u);
    bo_embedding_desc desc = {.components = K,
                              .features = {.kernel = BO_KERNEL_POLYNOMIAL, .degree = 2, .gamma = 0.1},
                              .scaling = BO_SCALING_NONE};
    bo_embedding *e = fit(context, &desc, x);
    assert_ok(context, bo_embedding_apply(context, e, &(bo_inputs){.rows = ROWS, .x = x}, c, NULL));
    for (size_t k = 0; k < K; k++) {
        double along = 0, scale = sqrt(values[k]);
        assert_close(bo_embedding_describe(e)->variances[k], values[k] / (ROWS - 1), 1e-6 * values[0] / (ROWS - 1));
        for (size_t i = 0; i < ROWS; i++) along += c[i * K + k] * u[k * ROWS + i];
        for (size_t i = 0; i < ROWS; i++)
            assert_close(c[i * K + k], (along < 0 ? -1 : 1) * scale * u[k * ROWS + i], 1e-4 * sqrt(values[0]));
    }
    free(u);
    bo_embedding_destroy(e);
    bo_context_destroy(context);
}

/* |P - Q|_F of the projections on the columns of the coordinates and on the exact ones. */
static double subspace_error(bo_context *context, const float *x, const double *u, size_t features, uint64_t seed)
{
    enum { K = 3 };
    bo_embedding_desc desc = {
        .components = K,
        .features = {.kernel = BO_KERNEL_RBF, .gamma = 0.1, .features = features, .draw = BO_DRAW_IID},
        .scaling = BO_SCALING_NONE,
        .seed = seed};
    double c[ROWS * K], shared = 0;
    bo_embedding *e = fit(context, &desc, x);
    assert_ok(context, bo_embedding_apply(context, e, &(bo_inputs){.rows = ROWS, .x = x}, c, NULL));
    for (size_t k = 0; k < K; k++) {
        /* coordinates of the training rows are uncorrelated: their normalized columns are an orthonormal basis */
        double norm = sqrt(bo_embedding_describe(e)->variances[k] * (ROWS - 1));
        for (size_t l = 0; l < K; l++) {
            double inner = 0;
            for (size_t i = 0; i < ROWS; i++) inner += c[i * K + k] / norm * u[l * ROWS + i];
            shared += inner * inner;
        }
    }
    bo_embedding_destroy(e);
    return sqrt(fmax(2 * (K - shared), 0));
}

/* The errors of φ(x)·φ(y) and of the subspace are of order 1/√features (Davis and Kahan 1970). 16 times the
 * features: a factor of 4; the mean over 6 seeds is within a factor of 1.6 of that by a wide margin. */
static void gaussian_converges(void **state)
{
    (void)state;
    enum { SEEDS = 6 };
    bo_context *context = test_context(2);
    float x[ROWS * DIM];
    double values[ROWS], *u = malloc(sizeof(double) * ROWS * ROWS), few = 0, many = 0;
    fill(x, ROWS, 3);
    exact(gaussian, x, values, u);
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        few += subspace_error(context, x, u, 128, seed) / SEEDS;
        many += subspace_error(context, x, u, 2048, seed + 100) / SEEDS;
    }
    print_message("subspace error %.3g with 128 features, %.3g with 2048: ratio %.2f\n", few, many, few / many);
    assert_true(few / many > 4 / 1.6 && few / many < 4 * 1.6);
    assert_true(many < 0.2);
    free(u);
    bo_context_destroy(context);
}

/* ---- streams, threads, files ------------------------------------------------------------------------------------- */

static const bo_embedding_desc default_desc = {.components = 3, .features = {.features = 64}, .seed = 5};

static void streams_and_threads(void **state)
{
    (void)state;
    enum { MORE = 700 };
    bo_context *one = test_context(1), *three = test_context(3);
    float *x = malloc(sizeof(float) * MORE * DIM);
    fill(x, MORE, 4);
    const bo_samples all = {.rows = MORE, .dim = DIM, .x = x};
    bo_embedding *whole, *parallel, *streamed;
    bo_fitting *fitting;
    assert_ok(one, bo_embedding_fit(one, &default_desc, &all, &whole));
    assert_ok(three, bo_embedding_fit(three, &default_desc, &all, &parallel));
    assert_ok(one, bo_embedding_fitting_create(one, &default_desc, &all, &fitting));
    for (size_t first = 0, rows = 1; first < MORE; first += rows, rows = 2 * rows + 1) {
        bo_samples part = {.rows = rows < MORE - first ? rows : MORE - first, .dim = DIM, .x = x + first * DIM};
        assert_ok(one, bo_fitting_add(one, fitting, &part));
    }
    assert_ok(one, bo_embedding_fitting_finish(one, fitting, &streamed));
    double *a = malloc(sizeof(double) * MORE * 3), *b = malloc(sizeof(double) * MORE * 3);
    assert_ok(one, bo_embedding_apply(one, whole, &(bo_inputs){.rows = MORE, .x = x}, a, NULL));
    assert_ok(three, bo_embedding_apply(three, parallel, &(bo_inputs){.rows = MORE, .x = x}, b, NULL));
    assert_memory_equal(a, b, sizeof(double) * MORE * 3);
    assert_ok(one, bo_embedding_apply(one, streamed, &(bo_inputs){.rows = MORE, .x = x}, b, NULL));
    for (size_t i = 0; i < MORE * 3; i++) assert_close(a[i], b[i], 1e-9);
    assert_int_equal(bo_embedding_describe(streamed)->rows, MORE);
    free(a), free(b), free(x);
    bo_fitting_destroy(fitting);
    bo_embedding_destroy(whole), bo_embedding_destroy(parallel), bo_embedding_destroy(streamed);
    bo_context_destroy(one), bo_context_destroy(three);
}

static void files(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    float x[ROWS * DIM];
    double a[ROWS * 3], b[ROWS * 3], p[ROWS * DIM], q[ROWS * DIM];
    fill(x, ROWS, 6);
    bo_embedding *e = fit(context, &default_desc, x), *loaded = NULL;
    void *bytes;
    size_t size;
    assert_ok(context, bo_embedding_save(context, e, NULL, &(bo_sink){.bytes = &bytes, .size = &size}));
    assert_ok(context, bo_embedding_load(context, &(bo_source){.bytes = bytes, .size = size}, &loaded, NULL));
    assert_ok(context, bo_embedding_apply(context, e, &(bo_inputs){.rows = ROWS, .x = x}, a, NULL));
    assert_ok(context, bo_embedding_apply(context, loaded, &(bo_inputs){.rows = ROWS, .x = x}, b, NULL));
    assert_memory_equal(a, b, sizeof a);
    assert_ok(context, bo_embedding_invert(context, e, ROWS, a, p));
    assert_ok(context, bo_embedding_invert(context, loaded, ROWS, a, q));
    assert_memory_equal(p, q, sizeof p);
    assert_close(bo_embedding_describe(loaded)->feature_error, bo_embedding_describe(e)->feature_error, 0);
    bo_embedding_destroy(loaded);
    assert_int_equal(bo_embedding_load(context, &(bo_source){.bytes = bytes, .size = size / 2}, &loaded, NULL),
                     BO_FORMAT);
    assert_null(loaded);
    bo_free(bytes);
    bo_embedding_destroy(e);
    bo_context_destroy(context);
}

/* Pre-images of a smooth sheet: two Gaussian components explain most of two-dimensional data, and the reported error is
 * the error of the training rows. */
static void pre_images(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    float x[ROWS * DIM];
    double c[ROWS * 8], back[ROWS * DIM], left = 0, total = 0, mean[DIM] = {0};
    fill(x, ROWS, 7);
    bo_embedding_desc desc = {
        .components = 8, .features = {.features = 256, .gamma = 0.02}, .scaling = BO_SCALING_NONE};
    bo_embedding *e = fit(context, &desc, x);
    assert_ok(context, bo_embedding_apply(context, e, &(bo_inputs){.rows = ROWS, .x = x}, c, NULL));
    assert_ok(context, bo_embedding_invert(context, e, ROWS, c, back));
    for (size_t i = 0; i < ROWS * DIM; i++) mean[i % DIM] += (double)x[i] / ROWS;
    for (size_t i = 0; i < ROWS * DIM; i++) {
        double d = (double)x[i] - back[i], t = (double)x[i] - mean[i % DIM];
        left += d * d, total += t * t;
    }
    assert_close(bo_embedding_describe(e)->input_error, left / total, 1e-5);
    assert_true(left / total < 0.05);
    bo_embedding_destroy(e);
    bo_context_destroy(context);
}

/* Sparse rows are embedded like the same rows in dense form. */
static void sparse_rows(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    float x[ROWS * DIM], value[ROWS * DIM];
    size_t start[ROWS + 1] = {0}, count = 0;
    uint32_t column[ROWS * DIM];
    double dense[ROWS * 3], dense_error[ROWS], sparse[ROWS * 3], sparse_error[ROWS];
    fill(x, ROWS, 9);
    for (size_t i = 0; i < ROWS; i++) {
        for (size_t j = 0; j < DIM; j++) {
            if ((i + j) % 3 == 0) x[i * DIM + j] = 0;
            if (x[i * DIM + j] != 0) column[count] = (uint32_t)j, value[count++] = x[i * DIM + j];
        }
        start[i + 1] = count;
    }
    bo_embedding *e = fit(context, &default_desc, x);
    const bo_sparse rows = {ROWS, DIM, start, column, value};
    assert_ok(context, bo_embedding_apply(context, e, &(bo_inputs){.rows = ROWS, .x = x}, dense, dense_error));
    assert_ok(context, bo_embedding_apply(context, e, &(bo_inputs){.sparse = &rows}, sparse, sparse_error));
    assert_memory_equal(dense, sparse, sizeof dense);
    assert_memory_equal(dense_error, sparse_error, sizeof dense_error);
    bo_embedding_destroy(e);
    bo_context_destroy(context);
}

/* ---- refusals ---------------------------------------------------------------------------------------------------- */

static void refusals(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    float x[ROWS * DIM], same[2 * DIM] = {0};
    double c[ROWS * 3];
    fill(x, ROWS, 8);
    bo_samples rows = {.rows = ROWS, .dim = DIM, .x = x};
    bo_embedding *e;
    bo_embedding_desc desc = default_desc;
    desc.components = 65;
    assert_fails(context, BO_INVALID, "at most 64", bo_embedding_fit(context, &desc, &rows, &e));
    desc = default_desc, desc.precision = BO_GRAM_PRECISION_INT8;
    assert_fails(context, BO_UNSUPPORTED, "int8", bo_embedding_fit(context, &desc, &rows, &e));
    desc = default_desc, desc.features.gamma = -1;
    assert_fails(context, BO_INVALID, "gamma", bo_embedding_fit(context, &desc, &rows, &e));
    desc = default_desc, desc.memory = 1000;
    assert_fails(context, BO_MEMORY, "fewer features", bo_embedding_fit(context, &desc, &rows, &e));
    desc = default_desc, desc.reserved[0] = 1;
    assert_int_equal(bo_embedding_fit(context, &desc, &rows, &e), BO_INVALID);
    bo_samples few = {.rows = 1, .dim = DIM, .x = x};
    assert_fails(context, BO_INVALID, "at least 2 rows", bo_embedding_fit(context, &default_desc, &few, &e));
    bo_samples constant = {.rows = 2, .dim = DIM, .x = same};
    assert_fails(context, BO_INVALID, "vary", bo_embedding_fit(context, &default_desc, &constant, &e));
    x[5] = NAN;
    assert_fails(context, BO_INVALID, "row 1, column 1", bo_embedding_fit(context, &default_desc, &rows, &e));
    assert_null(e);
    x[5] = 0;
    bo_fitting *fitting;
    assert_ok(context, bo_embedding_fitting_create(context, &default_desc, &rows, &fitting));
    assert_fails(context, BO_INVALID, "at least 2 rows", bo_embedding_fitting_finish(context, fitting, &e));
    bo_machine *machine;
    assert_fails(context, BO_INVALID, "found a fitting of an embedding", bo_fitting_finish(context, fitting, &machine));
    assert_null(machine);
    assert_fails(context, BO_INVALID, "found a fitting of an embedding", bo_fitting_merge(context, fitting, fitting));
    const bo_collective alone = {.size = 1};
    assert_fails(context, BO_INVALID, "found a fitting of an embedding", bo_fitting_reduce(context, fitting, &alone));
    rows.dim = DIM - 1;
    assert_fails(context, BO_INVALID, "expected 4 columns", bo_fitting_add(context, fitting, &rows));
    const float weights[ROWS] = {1};
    bo_samples weighted = {.rows = ROWS, .dim = DIM, .x = x, .weights = weights};
    assert_fails(context, BO_UNSUPPORTED, "weights", bo_fitting_add(context, fitting, &weighted));
    assert_fails(context, BO_UNSUPPORTED, "weights", bo_embedding_fit(context, &default_desc, &weighted, &e));
    static const size_t start[3] = {0};
    const bo_sparse zeros = {2, DIM, start, NULL, NULL};
    bo_samples sparse = {.rows = 2, .dim = DIM, .sparse = &zeros};
    assert_fails(context, BO_UNSUPPORTED, "dense", bo_embedding_fit(context, &default_desc, &sparse, &e));
    bo_fitting_destroy(fitting);
    double y[ROWS] = {1};
    bo_samples numbers = {.rows = ROWS, .dim = DIM, .targets = 1, .x = x, .y = y};
    const bo_machine_desc machine_desc = {.features = {.features = 8}, .lambda = 1};
    assert_ok(context, bo_fitting_create(context, &machine_desc, &numbers, &fitting));
    assert_fails(context, BO_INVALID, "found a fitting of a machine",
                 bo_embedding_fitting_finish(context, fitting, &e));
    bo_fitting_destroy(fitting);
    e = fit(context, &default_desc, x);
    assert_fails(context, BO_INVALID, "4 columns",
                 bo_embedding_apply(context, e, &(bo_inputs){.rows = 2, .x = x, .stride = DIM - 1}, c, NULL));
    x[0] = INFINITY;
    assert_fails(context, BO_INVALID, "finite",
                 bo_embedding_apply(context, e, &(bo_inputs){.rows = ROWS, .x = x}, c, NULL));
    bo_embedding_destroy(e);
    float far[ROWS * DIM];
    fill(far, ROWS, 6);
    far[0] = 1e20f;
    const bo_samples outlier = {.rows = ROWS, .dim = DIM, .x = far};
    const bo_embedding_desc polynomials = {.features = {.kernel = BO_KERNEL_POLYNOMIAL, .degree = 3, .gamma = 1},
                                           .scaling = BO_SCALING_NONE};
    assert_fails(context, BO_NUMERIC, "polynomial are not finite",
                 bo_embedding_fit(context, &polynomials, &outlier, &e));
    bo_context_destroy(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(linear),
        cmocka_unit_test(far_from_the_origin),
        cmocka_unit_test(finite_features),
        cmocka_unit_test(gaussian_converges),
        cmocka_unit_test(streams_and_threads),
        cmocka_unit_test(files),
        cmocka_unit_test(pre_images),
        cmocka_unit_test(sparse_rows),
        cmocka_unit_test(refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
