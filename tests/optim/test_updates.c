/* The updates of a backend, each compared with the same formula in double; any number of threads gives the same bits,
 * and so do lists of any length. */
#include "vectors.h"
#include "isas.h"
#include "math/linalg.h"

enum { STEPS = 5, COUNTS = 7, MANY = 70 };
static const size_t counts[COUNTS] = {1, 15, 16, 1000, 16384, 16385, 70001};

/* Lists of vectors: those of `counts`, or many short ones, which are more than a device takes at once. */
static size_t length_of(bool many, size_t i)
{
    return many ? i * 37 % 53 : counts[i];
}

static size_t list_length(bool many)
{
    return many ? MANY : COUNTS;
}

/* ---- sums -------------------------------------------------------------------------------------------------------- */

enum { SUMS = 6 };

static void sum_of(bo_context *context, const size_t *sizes, float *const *x, double *squares, double *total)
{
    bo_update list[SUMS] = {{0}};
    for (size_t s = 0; s < SUMS; s++)
        list[s] = (bo_update){.count = sizes[s], .g = vector_create(context, sizes[s], x[s])};
    const bo_updates *updates = vector_updates(context);
    bo_device *device = bo_device_of(context);
    void *scratch = bo_buffer_allocate(context, device, updates->bytes(context, SUMS, list, 0, NULL), "scratch");
    assert_ok(context, updates->sum_squares(context, SUMS, list, scratch, squares));
    assert_ok(context, updates->sum_sizes(context, SUMS, list, scratch, total));
    bo_buffer_release(device, scratch);
    for (size_t s = 0; s < SUMS; s++) vector_drop(context, (void *)(uintptr_t)list[s].g);
}

/* The last size has larger blocks than the default on a CPU, because there would be too many. */
static void test_sums(void **state)
{
    (void)state;
    bo_context *one = vector_context(1, NULL), *three = vector_context(3, NULL);
    const size_t sizes[SUMS] = {0, 1, 7, 16385, 300007, ((size_t)1 << 24) + 5};
    float *x[SUMS];
    double squares[SUMS] = {0}, total[SUMS] = {0}, a[2][SUMS], b[2][SUMS];
    for (size_t s = 0; s < SUMS; s++) {
        x[s] = malloc((sizes[s] + 1) * sizeof **x);
        for (size_t i = 0; i < sizes[s]; i++) {
            x[s][i] = (float)((i * 2654435761u) % 1999) / 999.0f - 1.0f;
            squares[s] += (double)x[s][i] * x[s][i];
            total[s] += fabs((double)x[s][i]);
        }
    }
    sum_of(one, sizes, x, a[0], a[1]);
    sum_of(three, sizes, x, b[0], b[1]);
    assert_memory_equal(a, b, sizeof a);
    for (size_t s = 0; s < SUMS; s++) {
        assert_close(a[0][s], squares[s], 1e-11 * squares[s]); /* n 2^-53, in double */
        assert_close(a[1][s], total[s], 1e-11 * total[s]);
        free(x[s]);
    }
    bo_context_destroy(one);
    bo_context_destroy(three);
}

/* The sums of many vectors, which are the numbers 1, 2, … */
static void test_many_sums(void **state)
{
    (void)state;
    bo_context *context = vector_context(2, NULL);
    bo_device *device = bo_device_of(context);
    bo_update list[MANY] = {{0}};
    double found[MANY];
    for (size_t i = 0; i < MANY; i++) {
        const size_t n = length_of(true, i);
        float x[64];
        for (size_t j = 0; j < n; j++) x[j] = (float)(j + 1);
        list[i] = (bo_update){.count = n, .g = vector_create(context, n, x)};
    }
    void *scratch = bo_buffer_allocate(context, device,
                                       bo_backend_of(device)->updates->bytes(context, MANY, list, 0, NULL), "scratch");
    assert_ok(context, bo_backend_of(device)->updates->sum_sizes(context, MANY, list, scratch, found));
    for (size_t i = 0; i < MANY; i++) {
        const double n = (double)length_of(true, i);
        assert_true(found[i] == n * (n + 1) / 2);
        vector_drop(context, (void *)(uintptr_t)list[i].g);
    }
    bo_buffer_release(device, scratch);
    bo_context_destroy(context);
}

/* ---- rules ------------------------------------------------------------------------------------------------------- */

typedef enum rule_kind { SGD, SGD_PLAIN, SGD_NESTEROV, SIGN, SIGN_MOMENTUM, ADAMW, RULES } rule_kind;

static bo_status run(bo_context *context, rule_kind kind, const bo_rule *rule, size_t count, const bo_update *list)
{
    const bo_updates *updates = vector_updates(context);
    if (kind == ADAMW) return updates->adamw(context, rule, count, list);
    return (kind == SIGN || kind == SIGN_MOMENTUM ? updates->sign : updates->sgd)(context, rule, count, list);
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

/* Gradients of a step: every seventh number is 0. */
static float *gradient_of(size_t n, uint64_t step)
{
    float *g = vector_normals(n, 10 + step);
    for (size_t i = 0; i < n; i += 7) g[i] = 0;
    return g;
}

/* The vectors have different rates, factors and decays. */
static bo_rates pace_of(size_t i)
{
    return (bo_rates){.rate = i % 2 ? 0.1 : 0.05, .decay = i % 3 ? 0.1 : 0, .factor = i % 2 ? 1 : 2};
}

static void create_list(bo_context *context, rule_kind kind, bool many, bo_update *list)
{
    for (size_t i = 0; i < list_length(many); i++) {
        const size_t n = length_of(many, i);
        list[i] = (bo_update){.count = n, .w = vector_create_normals(context, n, 1), .rates = pace_of(i)};
        if (kind != SGD_PLAIN && kind != SIGN) list[i].m = vector_create(context, n, NULL);
        if (kind == ADAMW) list[i].v = vector_create(context, n, NULL);
    }
}

static void drop_list(bo_context *context, bool many, bo_update *list)
{
    for (size_t i = 0; i < list_length(many); i++)
        vector_drop(context, list[i].w), vector_drop(context, list[i].m), vector_drop(context, list[i].v);
}

static void step_list(bo_context *context, rule_kind kind, const bo_rule *rule, bool many, bo_update *list)
{
    for (size_t i = 0; i < list_length(many); i++) {
        float *g = gradient_of(list[i].count, rule->step);
        list[i].g = vector_create(context, list[i].count, g);
        free(g);
    }
    assert_ok(context, run(context, kind, rule, list_length(many), list));
    for (size_t i = 0; i < list_length(many); i++) vector_drop(context, (void *)(uintptr_t)list[i].g);
}

static bo_rule rule_of(rule_kind kind, uint64_t step)
{
    return (bo_rule){.scale = 0.5,
                     .rate = 1,
                     .momentum = 0.9,
                     .nesterov = kind == SGD_NESTEROV,
                     .beta1 = 0.9,
                     .beta2 = 0.95,
                     .epsilon = 1e-3,
                     .step = step};
}

/* Each step has about five rounding errors of numbers below 8. */
static void check_vector(bo_context *context, rule_kind kind, const bo_update *u)
{
    const size_t n = u->count;
    double *state = calloc(3 * n + 1, sizeof *state);
    float *before = vector_normals(n, 1), *w = vector_read(context, n, u->w);
    for (size_t i = 0; i < n; i++) state[i] = before[i];
    for (uint64_t step = 1; step <= STEPS; step++) {
        const bo_rule rule = rule_of(kind, step);
        float *g = gradient_of(n, step);
        for (size_t i = 0; i < n; i++) {
            double along = direction(kind, &rule, g[i], &state[n + i], &state[2 * n + i]);
            state[i] = (1 - u->rates.rate * u->rates.decay) * state[i] - u->rates.rate * u->rates.factor * along;
        }
        free(g);
    }
    for (size_t i = 0; i < n; i++)
        if (!(fabs(w[i] - state[i]) <= STEPS * 5 * 8 * 6e-8))
            fail_msg("rule %d: w[%zu] = %g, not %g", kind, i, w[i], state[i]);
    free(before), free(w), free(state);
}

static void same(bo_context *one, bo_context *other, size_t n, const void *a, const void *b)
{
    if (!a) return;
    float *x = vector_read(one, n, a), *y = vector_read(other, n, b);
    assert_memory_equal(x, y, n * sizeof *x);
    free(x), free(y);
}

/* Both contexts give the same bits, which are close to the result in double. */
static void check_rule(bo_context *one, bo_context *three, rule_kind kind, bool many)
{
    bo_update list[MANY] = {{0}}, list3[MANY] = {{0}};
    create_list(one, kind, many, list);
    create_list(three, kind, many, list3);
    for (uint64_t step = 1; step <= STEPS; step++) {
        const bo_rule rule = rule_of(kind, step);
        step_list(one, kind, &rule, many, list);
        step_list(three, kind, &rule, many, list3);
    }
    for (size_t i = 0; i < list_length(many); i++) {
        check_vector(one, kind, &list[i]);
        same(one, three, list[i].count, list[i].w, list3[i].w);
        same(one, three, list[i].count, list[i].m, list3[i].m);
    }
    drop_list(one, many, list);
    drop_list(three, many, list3);
}

static void test_rules(void **state)
{
    (void)state;
    for (size_t i = 0; i < TEST_ISAS; i++) {
        bo_context *one = vector_context(1, test_isas[i]), *three = vector_context(3, test_isas[i]);
        for (int kind = 0; one && kind < RULES; kind++)
            check_rule(one, three, (rule_kind)kind, false), check_rule(one, three, (rule_kind)kind, true);
        bo_context_destroy(one);
        bo_context_destroy(three);
        if (getenv("BOCHNER_TEST_DEVICE")) break; /* a device does not depend on it */
    }
}

static void check_average(bo_context *context, const bo_update *u)
{
    float *x = vector_normals(u->count, 1), *y = vector_normals(u->count, 2),
          *found = vector_read(context, u->count, u->w);
    for (size_t i = 0; i < u->count; i++) assert_close(found[i], y[i] + 0.25 * ((double)x[i] - y[i]), 2e-6);
    free(x), free(y), free(found);
}

static void check_swap(bo_context *context, const bo_update *u)
{
    float *x = vector_normals(u->count, 1), *y = vector_normals(u->count, 2);
    float *m = vector_read(context, u->count, u->m), *w = vector_read(context, u->count, u->w);
    assert_memory_equal(w, y, u->count * sizeof *w);
    assert_memory_equal(m, x, u->count * sizeof *m);
    free(x), free(y), free(m), free(w);
}

static void test_averages(void **state)
{
    (void)state;
    bo_context *context = vector_context(2, NULL);
    const bo_updates *updates = vector_updates(context);
    for (int many = 0; many < 2; many++) {
        const size_t count = list_length(many);
        bo_update list[MANY] = {{0}};
        for (size_t i = 0; i < count; i++) {
            const size_t n = length_of(many, i);
            list[i] = (bo_update){
                .count = n, .m = vector_create_normals(context, n, 1), .w = vector_create_normals(context, n, 2)};
            list[i].g = list[i].m;
        }
        assert_ok(context, updates->approach(context, 0.25, count, list));
        for (size_t i = 0; i < count; i++) check_average(context, &list[i]);
        assert_ok(context, updates->approach(context, 1, count, list));
        for (size_t i = 0; i < count; i++) {
            same(context, context, list[i].count, list[i].m, list[i].w);
            vector_drop(context, list[i].m);
            list[i].m = vector_create_normals(context, list[i].count, 2);
        }
        assert_ok(context, updates->swap(context, count, list));
        for (size_t i = 0; i < count; i++) check_swap(context, &list[i]);
        drop_list(context, many, list);
    }
    bo_context_destroy(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sums),
        cmocka_unit_test(test_many_sums),
        cmocka_unit_test(test_rules),
        cmocka_unit_test(test_averages),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
