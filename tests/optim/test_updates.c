/* The updates of the CPU backend, each compared with the same formula in double; any number of threads gives the same
 * bits. */
#include "testing.h"
#include "isas.h"
#include "backend/backend.h"
#include "backend/updates.h"
#include "math/linalg.h"

static const size_t counts[] = {1, 15, 16, 1000, 16384, 16385, 70001};
enum { COUNTS = sizeof counts / sizeof *counts, STEPS = 5 };

static float *normals(size_t count, uint64_t seed)
{
    float *out = malloc((count + 1) * sizeof *out);
    bo_rng rng = bo_rng_make(seed, 3);
    for (size_t i = 0; i < count; i++) out[i] = (float)bo_rng_normal(&rng);
    return out;
}

static const bo_updates *updates(void)
{
    return bo_backend_cpu()->updates;
}

/* ---- sums -------------------------------------------------------------------------------------------------------- */

/* The second size has larger blocks than usual, because there would be too many. */
static void test_sums(void **state)
{
    (void)state;
    bo_context *one = test_context(1), *three = test_context(3);
    size_t sizes[] = {0, 1, 7, 16385, 300007, ((size_t)1 << 24) + 5};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        size_t n = sizes[s];
        float *x = malloc((n + 1) * sizeof *x);
        double squares = 0, total = 0;
        for (size_t i = 0; i < n; i++) {
            x[i] = (float)((i * 2654435761u) % 1999) / 999.0f - 1.0f;
            squares += (double)x[i] * x[i];
            total += fabs((double)x[i]);
        }
        double a, b;
        assert_ok(one, updates()->sum_squares(one, n, x, &a));
        assert_ok(three, updates()->sum_squares(three, n, x, &b));
        assert_memory_equal(&a, &b, sizeof a);
        assert_close(a, squares, 1e-11 * squares); /* n 2^-53, in double */
        assert_ok(one, updates()->sum_sizes(one, n, x, &a));
        assert_ok(three, updates()->sum_sizes(three, n, x, &b));
        assert_memory_equal(&a, &b, sizeof a);
        assert_close(a, total, 1e-11 * total);
        free(x);
    }
    bo_context_destroy(one);
    bo_context_destroy(three);
}

/* ---- rules ------------------------------------------------------------------------------------------------------- */

typedef enum rule_kind { SGD, SGD_PLAIN, SGD_NESTEROV, SIGN, SIGN_MOMENTUM, ADAMW, RULES } rule_kind;

static bo_status run(bo_context *context, rule_kind kind, const bo_rule *rule, size_t n, const float *g, float *m,
                     float *v, float *w)
{
    if (kind == ADAMW) return updates()->adamw(context, rule, n, g, m, v, w);
    if (kind == SIGN || kind == SIGN_MOMENTUM) return updates()->sign(context, rule, n, g, kind == SIGN ? NULL : m, w);
    return updates()->sgd(context, rule, n, g, kind == SGD_PLAIN ? NULL : m, w);
}

static double direction(rule_kind kind, const bo_rule *r, double g, double *m, double *v)
{
    g *= r->scale;
    switch (kind) {
    case SGD:
        return *m = r->momentum * *m + g;
    case SGD_NESTEROV:
        *m = r->momentum * *m + g;
        return g + r->momentum * *m;
    case SIGN:
        return (g > 0) - (g < 0);
    case SIGN_MOMENTUM:
        *m = r->momentum * *m + (1 - r->momentum) * g;
        return (*m > 0) - (*m < 0);
    case ADAMW:
        *m = r->beta1 * *m + (1 - r->beta1) * g;
        *v = r->beta2 * *v + (1 - r->beta2) * g * g;
        return *m / (1 - pow(r->beta1, (double)r->step)) /
               (sqrt(*v / (1 - pow(r->beta2, (double)r->step))) + r->epsilon);
    default:
        return g;
    }
}

/* Both contexts give these bits; w is close to the result in double: each step has about five rounding errors of
 * numbers below 8. */
static void check_rule(bo_context *one, bo_context *three, rule_kind kind, size_t n)
{
    bo_rule rule = {.scale = 0.5, .rate = 0.1, .decay = 0.01, .momentum = 0.9, .nesterov = kind == SGD_NESTEROV};
    rule.beta1 = 0.9, rule.beta2 = 0.95, rule.epsilon = 1e-3;
    float *w = normals(n, 1), *w3 = normals(n, 1);
    float *m = calloc(n, sizeof *m), *m3 = calloc(n, sizeof *m), *v = calloc(n, sizeof *v), *v3 = calloc(n, sizeof *v);
    double *state = calloc(3 * n, sizeof *state);
    for (size_t i = 0; i < n; i++) state[i] = w[i];
    for (rule.step = 1; rule.step <= STEPS; rule.step++) {
        float *g = normals(n, 10 + rule.step);
        for (size_t i = 0; i < n; i += 7) g[i] = 0;
        assert_ok(one, run(one, kind, &rule, n, g, m, v, w));
        assert_ok(three, run(three, kind, &rule, n, g, m3, v3, w3));
        for (size_t i = 0; i < n; i++) {
            double u = direction(kind, &rule, g[i], &state[n + i], &state[2 * n + i]);
            state[i] = (1 - rule.decay) * state[i] - rule.rate * u;
        }
        free(g);
    }
    for (size_t i = 0; i < n; i++)
        if (!(fabs(w[i] - state[i]) <= STEPS * 5 * 8 * 6e-8))
            fail_msg("rule %d: w[%zu] = %g, not %g", kind, i, w[i], state[i]);
    assert_memory_equal(w, w3, n * sizeof *w);
    assert_memory_equal(m, m3, n * sizeof *m);
    free(w), free(w3), free(m), free(m3), free(v), free(v3), free(state);
}

static void test_rules(void **state)
{
    (void)state;
    for (size_t i = 0; i < TEST_ISAS; i++) {
        bo_context *one, *three;
        if (bo_context_create(&(bo_context_desc){.threads = 1, .isa = test_isas[i]}, &one) != BO_OK) continue;
        assert_int_equal(bo_context_create(&(bo_context_desc){.threads = 3, .isa = test_isas[i]}, &three), BO_OK);
        for (int kind = 0; kind < RULES; kind++)
            for (size_t c = 0; c < COUNTS; c++) check_rule(one, three, (rule_kind)kind, counts[c]);
        bo_context_destroy(one);
        bo_context_destroy(three);
    }
}

static void test_averages(void **state)
{
    (void)state;
    bo_context *context = test_context(2);
    for (size_t c = 0; c < COUNTS; c++) {
        size_t n = counts[c];
        float *x = normals(n, 1), *y = normals(n, 2), *x0 = normals(n, 1), *y0 = normals(n, 2);
        assert_ok(context, updates()->approach(context, n, 0.25, x, y));
        for (size_t i = 0; i < n; i++) assert_close(y[i], y0[i] + 0.25 * ((double)x[i] - y0[i]), 2e-6);
        assert_ok(context, updates()->approach(context, n, 1, x, y));
        assert_memory_equal(x, y, n * sizeof *x);
        memcpy(y, y0, n * sizeof *y);
        assert_ok(context, updates()->swap(context, n, x, y));
        assert_memory_equal(x, y0, n * sizeof *x);
        assert_memory_equal(y, x0, n * sizeof *x);
        free(x), free(y), free(x0), free(y0);
    }
    bo_context_destroy(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sums),
        cmocka_unit_test(test_rules),
        cmocka_unit_test(test_averages),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
