/* Every optimizer on weights of every role, compared with the same rules in double: which weight follows which rule,
 * with which learning rate and decay, clipped and scheduled. */
#include "optim/enums.h"
#include "optim_testing.h"
#include "math/linalg.h"

typedef struct reference {
    double *w, *m, *v;
} reference;

static void open_reference(bo_weights *weights, reference *refs)
{
    for (size_t i = 0; i < TEST_WEIGHTS; i++) {
        const bo_weight *weight = bo_weights_at(weights, i);
        size_t n = test_count(weight);
        refs[i] = (reference){calloc(n, sizeof(double)), calloc(n, sizeof(double)), calloc(n, sizeof(double))};
        for (size_t j = 0; j < n; j++) refs[i].w[j] = ((const float *)weight->data)[j];
    }
}

static void close_reference(reference *refs)
{
    for (size_t i = 0; i < TEST_WEIGHTS; i++) free(refs[i].w), free(refs[i].m), free(refs[i].v);
}

/* Element (i, j) of op(a) op(b), for small products such as C = Aᵀ B. */
static double product(size_t depth, const double *a, size_t row_a, size_t step_a, const double *b, size_t row_b,
                      size_t step_b)
{
    double sum = 0;
    for (size_t p = 0; p < depth; p++) sum += a[row_a + p * step_a] * b[row_b + p * step_b];
    return sum;
}

/* x (rows x columns) after one quintic step with XXᵀ for any shape: the same polynomial of the singular values. */
static void quintic(size_t rows, size_t columns, double *x)
{
    double *a = malloc(rows * rows * sizeof *a), *b = malloc(rows * rows * sizeof *b);
    double *y = malloc(rows * columns * sizeof *y);
    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; j < rows; j++) a[i * rows + j] = product(columns, x, i * columns, 1, x, j * columns, 1);
    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; j < rows; j++)
            b[i * rows + j] = -4.7750 * a[i * rows + j] + 2.0315 * product(rows, a, i * rows, 1, a, j, rows);
    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; j < columns; j++)
            y[i * columns + j] = 3.4445 * x[i * columns + j] + product(rows, b, i * rows, 1, x, j, columns);
    memcpy(x, y, rows * columns * sizeof *x);
    free(a), free(b), free(y);
}

static void muon(const bo_weight *weight, const double *g, double *m, double *u)
{
    size_t n = test_count(weight);
    double squares = 0, factor = sqrt(fmax(1, (double)weight->rows / (double)weight->columns));
    for (size_t j = 0; j < n; j++) {
        m[j] += 0.05 * (g[j] - m[j]);
        u[j] = g[j] + 0.95 * (m[j] - g[j]);
        squares += u[j] * u[j];
    }
    for (size_t j = 0; j < n; j++) u[j] /= sqrt(squares) + 1e-7;
    for (size_t k = 0; k < 5; k++) quintic(weight->rows, weight->columns, u);
    for (size_t j = 0; j < n; j++) u[j] *= factor;
}

static void adamw(size_t n, uint64_t t, const double *g, double *m, double *v, double *u)
{
    for (size_t j = 0; j < n; j++) {
        m[j] += 0.1 * (g[j] - m[j]);
        v[j] += 0.05 * (g[j] * g[j] - v[j]);
        u[j] = m[j] / (1 - pow(0.9, (double)t)) / (sqrt(v[j] / (1 - pow(0.95, (double)t))) + 1e-10);
    }
}

/* The momentum 0.9 (Nesterov) and its sign; LINF has no momentum. */
static void plain(bo_optimizer_kind kind, size_t n, const double *g, double *m, double *u)
{
    double size = 0;
    for (size_t j = 0; j < n; j++) size += fabs(g[j]);
    for (size_t j = 0; j < n; j++) {
        if (kind == BO_OPTIMIZER_SGD) {
            m[j] = 0.9 * m[j] + g[j];
            u[j] = g[j] + 0.9 * m[j];
        } else if (kind == BO_OPTIMIZER_SIGN) {
            m[j] = 0.9 * m[j] + 0.1 * g[j];
            u[j] = (m[j] > 0) - (m[j] < 0);
        } else {
            u[j] = size / 2 * ((g[j] > 0) - (g[j] < 0));
        }
    }
}

static double total_norm(bo_weights *weights)
{
    double squares = 0;
    for (size_t i = 0; i < TEST_WEIGHTS; i++) {
        const bo_weight *weight = bo_weights_at(weights, i);
        const float *g = weight->gradient;
        for (size_t j = 0; j < test_count(weight) && !weight->frozen; j++) squares += (double)g[j] * g[j];
    }
    return sqrt(squares);
}

static const double rates[BO_OPTIMIZER_COUNT] = {0.02, 3e-3, 0.1, 1e-3, 1e-4};
enum { STEPS = 6 };
static const double decay = 0.3, clip = 2;

static void reference_step(bo_optimizer_kind kind, bo_weights *weights, reference *refs, uint64_t t, double factor)
{
    double norm = total_norm(weights), scale = norm > clip ? clip / norm : 1;
    for (size_t i = 0; i < TEST_WEIGHTS; i++) {
        const bo_weight *weight = bo_weights_at(weights, i);
        if (weight->frozen) continue;
        size_t n = test_count(weight);
        double *g = malloc(n * sizeof *g), *u = malloc(n * sizeof *u), rate = rates[kind] * factor;
        for (size_t j = 0; j < n; j++) g[j] = scale * (double)((const float *)weight->gradient)[j];
        bool left = kind == BO_OPTIMIZER_MUON && weight->role != BO_WEIGHT_ROLE_MATRIX;
        if (left) rate = rates[BO_OPTIMIZER_ADAMW] * factor;
        if (left || kind == BO_OPTIMIZER_ADAMW)
            adamw(n, t, g, refs[i].m, refs[i].v, u);
        else if (kind == BO_OPTIMIZER_MUON)
            muon(weight, g, refs[i].m, u);
        else
            plain(kind, n, g, refs[i].m, u);
        double weight_decay = weight->role == BO_WEIGHT_ROLE_VECTOR ? 0 : decay;
        for (size_t j = 0; j < n; j++) refs[i].w[j] = (1 - rate * weight_decay) * refs[i].w[j] - rate * u[j];
        free(g), free(u);
    }
}

/* Weights are below 8; a step moves them by at most 0.6 with five rounding errors, and the error 5e-5 of Muon is
 * multiplied by 0.02. */
static void check_kind(bo_optimizer_kind kind)
{
    bo_context *context = test_context(2);
    bo_weights *weights = test_weights(context);
    bo_optimizer_desc desc = {.kind = kind, .decay = decay, .clip = clip};
    bo_optimizer *optimizer;
    reference refs[TEST_WEIGHTS];
    assert_ok(context, bo_optimizer_create(context, &desc, weights, &optimizer));
    open_reference(weights, refs);
    for (uint64_t t = 1; t <= STEPS; t++) {
        double norm, factor = 1 / (double)t;
        test_gradients(weights, t, t % 2 ? 1 : 0.01);
        double expected = total_norm(weights);
        reference_step(kind, weights, refs, t, factor);
        assert_ok(context, bo_optimizer_step(context, optimizer, factor, &norm));
        assert_close(norm, expected, 1e-9 * expected);
        assert_int_equal(bo_optimizer_describe(optimizer)->steps, t);
    }
    for (size_t i = 0; i < TEST_WEIGHTS; i++) {
        const bo_weight *weight = bo_weights_at(weights, i);
        const float *w = weight->data;
        for (size_t j = 0; j < test_count(weight); j++)
            if (!(fabs(w[j] - refs[i].w[j]) <= STEPS * 5 * 8 * 6e-8))
                fail_msg("%s: %s[%zu] = %.8g, expected %.8g", bo_optimizer_kind_name(kind), weight->name, j, w[j],
                         refs[i].w[j]);
    }
    close_reference(refs);
    bo_optimizer_destroy(optimizer);
    bo_weights_destroy(weights);
    bo_context_destroy(context);
}

static void test_kinds(void **state)
{
    (void)state;
    for (int kind = 0; kind < BO_OPTIMIZER_COUNT; kind++) check_kind((bo_optimizer_kind)kind);
}

/* Without momentum, SGD is w - rate g, however large the gradient is: by default, nothing is clipped. The product with
 * the rate 1/2 is exact. */
static void test_bare(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    bo_weights *weights = test_weights(context);
    bo_optimizer_desc desc = {.kind = BO_OPTIMIZER_SGD, .rate = 0.5, .momentum = -1};
    bo_optimizer *optimizer;
    assert_ok(context, bo_optimizer_create(context, &desc, weights, &optimizer));
    assert_int_equal(bo_optimizer_states(optimizer), 0);
    const bo_weight *wide = bo_weights_find(weights, "wide");
    float *w = wide->data, before = w[3];
    double norm;
    test_gradients(weights, 1, 10);
    assert_ok(context, bo_optimizer_step(context, optimizer, 1, &norm));
    assert_true(norm > 100);
    assert_true(w[3] == before - 0.5F * ((float *)wide->gradient)[3]);
    bo_optimizer_destroy(optimizer);
    bo_weights_destroy(weights);
    bo_context_destroy(context);
}

/* The factors of a 24 x 8 matrix and its transpose: |w - w₀| relative to that without a factor. */
static void test_factors(void **state)
{
    (void)state;
    static const double expected[BO_MUON_FACTOR_COUNT][2] = {
        {1, 1.7320508}, {0.57735027, 1.7320508}, {0.97979590, 0.97979590}, {1, 1}};
    bo_context *context = test_context(1);
    double sizes[BO_MUON_FACTOR_COUNT][2];
    for (int factor = 0; factor < BO_MUON_FACTOR_COUNT; factor++) {
        bo_weights *weights = test_weights(context);
        bo_optimizer_desc desc = {.factor = (bo_muon_factor)factor};
        bo_optimizer *optimizer;
        assert_ok(context, bo_optimizer_create(context, &desc, weights, &optimizer));
        float before[2] = {*(float *)bo_weights_find(weights, "wide")->data,
                           *(float *)bo_weights_find(weights, "tall")->data};
        test_steps(context, optimizer, weights, 0, 1);
        sizes[factor][0] = *(float *)bo_weights_find(weights, "wide")->data - (double)before[0];
        sizes[factor][1] = *(float *)bo_weights_find(weights, "tall")->data - (double)before[1];
        bo_optimizer_destroy(optimizer);
        bo_weights_destroy(weights);
    }
    for (int factor = 0; factor < BO_MUON_FACTOR_COUNT; factor++)
        for (int i = 0; i < 2; i++) {
            double ratio = sizes[factor][i] / sizes[BO_MUON_FACTOR_NONE][i];
            assert_close(ratio, expected[factor][i], 1e-6 / fabs(sizes[BO_MUON_FACTOR_NONE][i]));
        }
    bo_context_destroy(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kinds),
        cmocka_unit_test(test_bare),
        cmocka_unit_test(test_factors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
