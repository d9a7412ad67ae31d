/* The gate: log sigmoid and its gradients compared with float64, for very large and very small arguments, and for any
 * number of threads. */
#include "attention/gate.h"
#include "testing.h"

enum { TOKENS = 1031, WIDTH = 37, HEADS = 5 };

typedef struct gate {
    float x[TOKENS * WIDTH], w[HEADS * WIDTH], b[HEADS], log_gate[TOKENS * HEADS], dlog_gate[TOKENS * HEADS];
    float dx[TOKENS * WIDTH], dw[HEADS * WIDTH], db[HEADS];
} gate;

static void fill(bo_rng *rng, size_t count, float *x)
{
    for (size_t i = 0; i < count; i++) x[i] = (float)bo_rng_normal(rng);
}

static gate *make_gate(void)
{
    gate *g = calloc(1, sizeof *g);
    bo_rng rng = bo_rng_make(1, bo_rng_stream("test.gate", 0));
    fill(&rng, TOKENS * WIDTH, g->x);
    fill(&rng, HEADS * WIDTH, g->w);
    fill(&rng, HEADS, g->b);
    fill(&rng, TOKENS * HEADS, g->dlog_gate);
    return g;
}

static double logit(const gate *g, size_t t, size_t h, double *size)
{
    double u = (double)g->b[h];
    *size = fabs(u);
    for (size_t j = 0; j < WIDTH; j++) {
        double term = (double)g->x[t * WIDTH + j] * (double)g->w[h * WIDTH + j];
        u += term;
        *size += fabs(term);
    }
    return u;
}

/* The error of a sum of n float terms is at most n 2^-24 times the sum of their magnitudes; log sigmoid has a slope of
 * at most 1 and adds four rounding errors. */
static void forward_is_log_sigmoid(void **state)
{
    (void)state;
    bo_context *context = test_context(2);
    gate *g = make_gate();
    assert_ok(context, bo_gate_forward(context, TOKENS, WIDTH, HEADS, g->x, g->w, g->b, g->log_gate));
    for (size_t t = 0; t < TOKENS; t++)
        for (size_t h = 0; h < HEADS; h++) {
            double size, u = logit(g, t, h, &size), expected = fmin(u, 0) - log1p(exp(-fabs(u)));
            assert_close((double)g->log_gate[t * HEADS + h], expected,
                         ((WIDTH + 1) * size + 4 * fabs(expected)) * 0x1p-24);
        }
    free(g);
    bo_context_destroy(context);
}

static void both_ends_keep_their_digits(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    float x[] = {-200, -20, 0, 20, 80}, one = 1, log_gate[5], d[5] = {1, 1, 1, 1, 1}, dx[5];
    assert_ok(context, bo_gate_forward(context, 5, 1, 1, x, &one, NULL, log_gate));
    assert_ok(context, bo_gate_backward(context, 5, 1, 1, x, &one, log_gate, d, dx, NULL, NULL));
    for (size_t i = 0; i < 5; i++) {
        double u = (double)x[i], expected = fmin(u, 0) - log1p(exp(-fabs(u)));
        assert_close((double)log_gate[i] / expected, 1, 4 * 0x1p-24);
        assert_close((double)dx[i] * (1 + exp(u)), 1, 8 * 0x1p-24); /* 1 - g */
        assert_true(log_gate[i] < 0 || i == 4);
    }
    bo_context_destroy(context);
}

/* dL/du in float64, from which the three gradients follow; L = Σ dlog_gate log g. */
static void gradients_match_float64(void **state)
{
    (void)state;
    bo_context *context = test_context(2);
    gate *g = make_gate();
    double *du = malloc(TOKENS * HEADS * sizeof *du);
    assert_ok(context, bo_gate_forward(context, TOKENS, WIDTH, HEADS, g->x, g->w, g->b, g->log_gate));
    assert_ok(context, bo_gate_backward(context, TOKENS, WIDTH, HEADS, g->x, g->w, g->log_gate, g->dlog_gate, g->dx,
                                        g->dw, g->db));
    for (size_t t = 0; t < TOKENS; t++)
        for (size_t h = 0; h < HEADS; h++) {
            double size, u = logit(g, t, h, &size);
            du[t * HEADS + h] = (double)g->dlog_gate[t * HEADS + h] / (1 + exp(u));
        }
    /* the relative error of du is at most 2^-24 (40 · 40 + 8), from the error of u times the slope, and typically far
     * smaller */
    for (size_t t = 0; t < TOKENS; t++)
        for (size_t j = 0; j < WIDTH; j++) {
            double expected = 0, size = 0;
            for (size_t h = 0; h < HEADS; h++) {
                expected += du[t * HEADS + h] * (double)g->w[h * WIDTH + j];
                size += fabs(du[t * HEADS + h] * (double)g->w[h * WIDTH + j]);
            }
            assert_close((double)g->dx[t * WIDTH + j], expected, 1e-4 * size);
        }
    for (size_t h = 0; h < HEADS; h++) {
        double bias = 0, sizes = 0;
        for (size_t t = 0; t < TOKENS; t++) bias += du[t * HEADS + h], sizes += fabs(du[t * HEADS + h]);
        assert_close((double)g->db[h], bias, 1e-5 * sizes);
        for (size_t j = 0; j < WIDTH; j++) {
            double expected = 0, size = 0;
            for (size_t t = 0; t < TOKENS; t++) {
                double term = du[t * HEADS + h] * (double)g->x[t * WIDTH + j];
                expected += term, size += fabs(term);
            }
            assert_close((double)g->dw[h * WIDTH + j], expected, 1e-5 * size);
        }
    }
    free(du);
    free(g);
    bo_context_destroy(context);
}

static void threads_do_not_matter(void **state)
{
    (void)state;
    gate *g[2];
    for (int i = 0; i < 2; i++) {
        bo_context *context = test_context(i == 0 ? 1 : 3);
        g[i] = make_gate();
        assert_ok(context, bo_gate_forward(context, TOKENS, WIDTH, HEADS, g[i]->x, g[i]->w, g[i]->b, g[i]->log_gate));
        assert_ok(context, bo_gate_backward(context, TOKENS, WIDTH, HEADS, g[i]->x, g[i]->w, g[i]->log_gate,
                                            g[i]->dlog_gate, g[i]->dx, g[i]->dw, g[i]->db));
        bo_context_destroy(context);
    }
    assert_memory_equal(g[0], g[1], sizeof *g[0]);
    free(g[0]);
    free(g[1]);
}

static void nonsense_is_refused(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    float x[6] = {1, 2, 3, 4, 5, 6}, w[3] = {1, 1, 1}, b = 0, log_gate[2], dw[3] = {7, 7, 7}, db = 7;
    assert_fails(context, BO_INVALID, "found 0 and 1", bo_gate_forward(context, 2, 0, 1, x, w, &b, log_gate));
    assert_fails(context, BO_INVALID, "found 3 and 0", bo_gate_forward(context, 2, 3, 0, x, w, &b, log_gate));
    assert_fails(context, BO_INVALID, "argument 'x' is NULL", bo_gate_forward(context, 2, 3, 1, NULL, w, &b, log_gate));
    assert_fails(context, BO_INVALID, "argument 'w' is NULL", bo_gate_forward(context, 2, 3, 1, x, NULL, &b, log_gate));
    assert_fails(context, BO_INVALID, "argument 'w' is NULL",
                 bo_gate_backward(context, 2, 3, 1, x, NULL, log_gate, log_gate, x, NULL, NULL));
    x[4] = NAN;
    assert_fails(context, BO_NUMERIC, "token 1, head 0", bo_gate_forward(context, 2, 3, 1, x, w, &b, log_gate));
    x[4] = INFINITY; /* log g = 0 would hide the error */
    assert_fails(context, BO_NUMERIC, "token 1, head 0", bo_gate_forward(context, 2, 3, 1, x, w, &b, log_gate));
    assert_ok(context, bo_gate_forward(context, 0, 3, 1, NULL, w, &b, NULL));
    assert_ok(context, bo_gate_backward(context, 0, 3, 1, NULL, w, NULL, NULL, NULL, dw, &db));
    assert_true(dw[0] == 0 && dw[2] == 0 && db == 0);
    bo_context_destroy(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(forward_is_log_sigmoid),  cmocka_unit_test(both_ends_keep_their_digits),
        cmocka_unit_test(gradients_match_float64), cmocka_unit_test(threads_do_not_matter),
        cmocka_unit_test(nonsense_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
