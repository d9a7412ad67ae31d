/* The state of an optimizer: resumed runs continue with the same bits, the number of threads does not matter, averages,
 * invalid gradients, and memory. */
#include "optim_testing.h"
#include "base/counting.h"

enum { FIRST = 7, ALL = 15 };

static bo_optimizer *create(bo_context *context, bo_weights *weights, bo_optimizer_kind kind)
{
    bo_optimizer_desc desc = {.kind = kind, .decay = 0.1, .average = 0.8};
    bo_optimizer *optimizer = NULL;
    assert_ok(context, bo_optimizer_create(context, &desc, weights, &optimizer));
    return optimizer;
}

static void assert_same_weights(bo_weights *a, bo_weights *b)
{
    assert_int_equal(bo_weights_floats(a), bo_weights_floats(b));
    assert_memory_equal(bo_weights_data(a), bo_weights_data(b), bo_weights_floats(a) * sizeof(float));
}

static void assert_same_states(const bo_optimizer *a, const bo_optimizer *b)
{
    assert_int_equal(bo_optimizer_states(a), bo_optimizer_states(b));
    for (size_t i = 0; i < bo_optimizer_states(a); i++) {
        bo_optimizer_state x = bo_optimizer_state_at(a, i), y = bo_optimizer_state_at(b, i);
        assert_string_equal(x.name, y.name);
        assert_int_equal(x.count, y.count);
        assert_memory_equal(x.data, y.data, x.count * sizeof(float));
    }
}

/* ---- resuming and threads ---------------------------------------------------------------------------------------- */

static void copy_by_name(const bo_optimizer *from, bo_optimizer *to)
{
    for (size_t i = 0; i < bo_optimizer_states(from); i++) {
        bo_optimizer_state x = bo_optimizer_state_at(from, i);
        for (size_t j = 0; j < bo_optimizer_states(to); j++) {
            bo_optimizer_state y = bo_optimizer_state_at(to, j);
            if (strcmp(x.name, y.name) == 0) memcpy(y.data, x.data, x.count * sizeof(float));
        }
    }
    bo_optimizer_set_steps(to, bo_optimizer_describe(from)->steps);
}

static void check_resume(bo_optimizer_kind kind)
{
    bo_context *context = test_context(1), *other = test_context(3);
    bo_weights *uninterrupted = test_weights(context), *first = test_weights(context), *second = test_weights(other);
    bo_optimizer *a = create(context, uninterrupted, kind), *b = create(context, first, kind),
                 *c = create(other, second, kind);
    test_steps(context, a, uninterrupted, 0, ALL);
    test_steps(context, b, first, 0, FIRST);
    memcpy(bo_weights_data(second), bo_weights_data(first), bo_weights_floats(first) * sizeof(float));
    copy_by_name(b, c);
    test_steps(other, c, second, FIRST, ALL);
    assert_same_weights(uninterrupted, second);
    assert_same_states(a, c);
    bo_optimizer_destroy(a);
    bo_optimizer_destroy(b);
    bo_optimizer_destroy(c);
    bo_weights_destroy(uninterrupted);
    bo_weights_destroy(first);
    bo_weights_destroy(second);
    bo_context_destroy(context);
    bo_context_destroy(other);
}

static void test_resume(void **state)
{
    (void)state;
    for (int kind = 0; kind < BO_OPTIMIZER_COUNT; kind++) check_resume((bo_optimizer_kind)kind);
}

static void test_names(void **state)
{
    (void)state;
    static const char *const expected[] = {
        "first_moment.embed", "second_moment.embed", "average.embed",     "momentum.wide",      "average.wide",
        "momentum.tall",      "average.tall",        "momentum.square",   "average.square",     "first_moment.gain",
        "second_moment.gain", "average.gain",        "first_moment.head", "second_moment.head", "average.head",
    };
    bo_context *context = test_context(1);
    bo_weights *weights = test_weights(context);
    bo_optimizer *optimizer = create(context, weights, BO_OPTIMIZER_MUON);
    assert_int_equal(bo_optimizer_states(optimizer), sizeof expected / sizeof *expected);
    for (size_t i = 0; i < bo_optimizer_states(optimizer); i++)
        assert_string_equal(bo_optimizer_state_at(optimizer, i).name, expected[i]);
    bo_optimizer_destroy(optimizer);
    bo_weights_destroy(weights);
    bo_context_destroy(context);
}

/* ---- averages ---------------------------------------------------------------------------------------------------- */

/* The mean of the first five (1 - 0.8 = 1/5), then a moving average. */
static void test_average(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    bo_weights *weights = test_weights(context);
    bo_optimizer *optimizer = create(context, weights, BO_OPTIMIZER_MUON);
    const bo_weight *tall = bo_weights_find(weights, "tall");
    float *w = tall->data, frozen = *(float *)bo_weights_find(weights, "frozen")->data;
    assert_ok(context, bo_optimizer_swap_average(context, optimizer)); /* nothing to swap yet */
    double mean = 0;
    for (uint64_t t = 1; t <= 9; t++) {
        test_steps(context, optimizer, weights, t - 1, t);
        mean += (w[5] - mean) * fmax(0.2, 1 / (double)t);
    }
    float now = w[5];
    assert_ok(context, bo_optimizer_swap_average(context, optimizer));
    assert_close(w[5], mean, 1e-6);
    assert_true(w[5] != now);
    double norm;
    assert_fails(context, BO_INVALID, "averaged weights", bo_optimizer_step(context, optimizer, 1, &norm));
    assert_true(*(float *)bo_weights_find(weights, "frozen")->data == frozen);
    assert_ok(context, bo_optimizer_swap_average(context, optimizer));
    assert_true(w[5] == now);
    bo_optimizer_destroy(optimizer);
    bo_weights_destroy(weights);
    bo_context_destroy(context);
}

/* ---- invalid gradients ------------------------------------------------------------------------------------------- */

static void test_not_finite(void **state)
{
    (void)state;
    bo_context *context = test_context(2);
    static const float bad[] = {INFINITY, -INFINITY, NAN};
    for (size_t k = 0; k < 3; k++) {
        bo_weights *weights = test_weights(context), *same = test_weights(context);
        bo_optimizer *a = create(context, weights, BO_OPTIMIZER_MUON), *b = create(context, same, BO_OPTIMIZER_MUON);
        test_steps(context, a, weights, 0, 3);
        test_steps(context, b, same, 0, 3);
        ((float *)bo_weights_find(weights, "gain")->gradient)[7] = bad[k];
        double norm;
        assert_fails(context, BO_NUMERIC, "gradient of gain", bo_optimizer_step(context, a, 1, &norm));
        assert_false(isfinite(norm));
        assert_same_weights(weights, same);
        assert_same_states(a, b);
        assert_int_equal(bo_optimizer_describe(a)->steps, 3);
        /* Large but finite gradients are only clipped. */
        ((float *)bo_weights_find(weights, "gain")->gradient)[7] = 3e38f;
        assert_ok(context, bo_optimizer_step(context, a, 1, &norm));
        assert_close(norm, 3e38, 1e32);
        bool finite;
        assert_ok(context, bo_backend_cpu()->finite(context, BO_ELEMENT_FLOAT32, bo_weights_data(weights),
                                                    bo_weights_floats(weights), &finite));
        assert_true(finite);
        bo_optimizer_destroy(a);
        bo_optimizer_destroy(b);
        bo_weights_destroy(weights);
        bo_weights_destroy(same);
    }
    bo_context_destroy(context);
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

/* Creation fails cleanly at every allocation; a step allocates nothing; bo_optimizer_bytes is the device memory. */
static void test_memory(void **state)
{
    (void)state;
    counting account = {0};
    bo_context *context = counting_context(&account, 2);
    bo_weights *weights = test_weights(context);
    bo_optimizer_desc desc = {.average = 0.9};
    bo_optimizer *optimizer = NULL;
    size_t before = atomic_load(&account.live), failures = 0;
    for (size_t k = 1; !optimizer; k++) {
        account.fail_at = atomic_load(&account.calls) + k;
        bo_status status = bo_optimizer_create(context, &desc, weights, &optimizer);
        account.fail_at = 0;
        if (status == BO_OK) break;
        assert_int_equal(status, BO_MEMORY);
        assert_null(optimizer);
        assert_int_equal(atomic_load(&account.live), before);
        failures++;
    }
    assert_true(failures >= 7);
    size_t calls = atomic_load(&account.calls), bytes = atomic_load(&account.bytes);
    test_steps(context, optimizer, weights, 0, 3);
    assert_ok(context, bo_optimizer_swap_average(context, optimizer));
    assert_int_equal(atomic_load(&account.calls), calls);
    bo_optimizer_destroy(optimizer);
    size_t freed = bytes - atomic_load(&account.bytes), reported = bo_optimizer_bytes(context, &desc, weights);
    assert_int_equal(atomic_load(&account.live), before);
    assert_in_range(freed, reported, reported + 8192); /* names and tables are in host memory */
    bo_weights_destroy(weights);
    bo_context_destroy(context);
    assert_int_equal(atomic_load(&account.live), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_resume),     cmocka_unit_test(test_names),  cmocka_unit_test(test_average),
        cmocka_unit_test(test_not_finite), cmocka_unit_test(test_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
