/* Dropout: how many, which, and that backward drops the same. */
#include "calls.h"

enum { ROWS = 300, COLUMNS = 201, COUNT = ROWS * COLUMNS };

static test_call drop(bo_context *context, const bo_dropout_attributes *a, const bo_pass *pass, float *x)
{
    test_call t = test_begin(BO_OP_DROPOUT, a);
    t.call.pass = pass;
    test_input(&t, x, BO_ELEMENT_FLOAT32, ROWS, COLUMNS);
    test_forward(context, &t, true);
    return t;
}

/* The share that is dropped is within 5 deviations of the rate, over all and at each place of a group of 64 (a place is
 * seen by COUNT / 64 = 942 elements). */
static void share_is_the_rate(void **state)
{
    (void)state;
    bo_context *context = test_context(2);
    const double rates[] = {0.01, 0.1, 0.5, 0.9};
    float *x = test_floats(COUNT, 1);
    for (size_t r = 0; r < 4; r++) {
        bo_dropout_attributes a = {.rate = rates[r], .stream = r};
        test_call t = drop(context, &a, &(bo_pass){.training = true, .seed = 3}, x);
        size_t all = 0, places[64] = {0};
        for (size_t i = 0; i < COUNT; i++) {
            float y = test_out(&t)[i];
            assert_true(y == 0 || y == (float)(1 / (1 - rates[r])));
            all += y == 0, places[i % 64] += y == 0;
        }
        double deviation = sqrt(rates[r] * (1 - rates[r]));
        assert_close((double)all / COUNT, rates[r], 5 * deviation / sqrt(COUNT));
        for (size_t p = 0; p < 64; p++)
            assert_close((double)places[p] / (COUNT / 64.0), rates[r], 5 * deviation / sqrt(COUNT / 64.0) + 2e-3);
        test_end(&t);
    }
    free(x);
    bo_context_destroy(context);
}

static size_t agreements(const test_call *a, const test_call *b)
{
    size_t alike = 0;
    for (size_t i = 0; i < COUNT; i++) alike += test_out(a)[i] == test_out(b)[i];
    return alike;
}

/* Another seed or stream drops others: with rate 1/2 half of the elements agree, give or take 5 deviations. */
static void seed_and_stream_choose(void **state)
{
    (void)state;
    bo_context *context = test_context(2);
    float *x = test_floats(COUNT, 1);
    bo_dropout_attributes a = {.rate = 0.5, .stream = 1}, other = {.rate = 0.5, .stream = 2};
    const bo_pass pass = {.training = true, .seed = 3}, later = {.training = true, .seed = 4};
    test_call first = drop(context, &a, &pass, x), same = drop(context, &a, &pass, x);
    test_call seed = drop(context, &a, &later, x), stream = drop(context, &other, &pass, x);
    assert_int_equal(agreements(&first, &same), COUNT);
    assert_close((double)agreements(&first, &seed), 0.5 * COUNT, 2.5 * sqrt(COUNT));
    assert_close((double)agreements(&first, &stream), 0.5 * COUNT, 2.5 * sqrt(COUNT));
    test_backward(context, &first, NULL, false);
    assert_memory_equal(first.call.din[0], test_out(&first), test_out_bytes(&first)); /* x and dout are ones */
    test_backward(context, &first, NULL, true);
    for (size_t i = 0; i < COUNT; i++) assert_true(((float *)first.call.din[0])[i] == 1 + test_out(&first)[i]);
    test_end(&first), test_end(&same), test_end(&seed), test_end(&stream);
    free(x);
    bo_context_destroy(context);
}

static void identity_without_training(void **state)
{
    (void)state;
    bo_context *context = test_context(2);
    float *x = test_normals(COUNT, 1), *dout = test_normals(COUNT, 2);
    bo_dropout_attributes a = {.rate = 0.5};
    test_call t = drop(context, &a, &no_pass, x);
    assert_memory_equal(test_out(&t), x, test_out_bytes(&t));
    test_backward(context, &t, dout, false);
    assert_memory_equal(t.call.din[0], dout, test_out_bytes(&t));
    test_end(&t);
    free(x), free(dout);
    bo_context_destroy(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(share_is_the_rate),
        cmocka_unit_test(seed_and_stream_choose),
        cmocka_unit_test(identity_without_training),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
