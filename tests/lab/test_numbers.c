/* Vectors of numbers, with known answers. */
#include "testing.h"
#include "lab/tools/numbers.h"

static void test_lengths(void **state)
{
    (void)state;
    assert_close(lab_dot((const double[]){3, 4}, (const double[]){2, -1}, 2), 2, 1e-15);
    assert_close(lab_norm((const double[]){3, 4}, 2), 5, 1e-15);
    assert_close(lab_distance((const double[]){3, 4}, (const double[]){0, 8}, 2), 5, 1e-15);
    assert_close(lab_distance_single((const float[]){3, 4}, (const double[]){0, 8}, 2), 5, 1e-15);
    assert_true(lab_largest((const double[]){1, 7, 3}, 3) == 7);
    assert_true(lab_largest((const double[]){-1, -7}, 2) == 0);
}

static void test_sequences(void **state)
{
    (void)state;
    double out[3];
    lab_geometric(1, 100, 3, out);
    assert_true(out[0] == 1);
    assert_close(out[1], 10, 1e-12);
    assert_close(out[2], 100, 1e-10);
    lab_geometric(7, 1, 1, out);
    assert_true(out[0] == 7);
    assert_true(lab_choose(0, 0) == 1);
    assert_true(lab_choose(7, 0) == 1);
    assert_true(lab_choose(12, 5) == 792);
    assert_true(lab_choose(50, 25) == 126410606437752.0);
}

static void test_drawn(void **state)
{
    (void)state;
    enum { COUNT = 10000, ROWS = 3, DIM = 5 };
    static float x[COUNT];
    bo_context *context = test_context(1);
    bo_rng rng = bo_rng_make(1, 1);
    double rows[ROWS * DIM], mean = 0, square = 0;
    lab_fill_normal(&rng, 3, COUNT, x);
    for (size_t i = 0; i < COUNT; i++) mean += (double)x[i] / COUNT, square += (double)x[i] * (double)x[i] / COUNT;
    assert_close(mean, 0, 5 * 3 / sqrt(COUNT));
    assert_close(square, 9, 5 * 9 * sqrt(2.0 / COUNT));
    assert_ok(context, lab_orthonormal(context, &rng, ROWS, DIM, rows));
    for (size_t i = 0; i < ROWS; i++)
        for (size_t j = 0; j < ROWS; j++) assert_close(lab_dot(rows + i * DIM, rows + j * DIM, DIM), i == j, 1e-14);
    bo_context_destroy(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_lengths), cmocka_unit_test(test_sequences),
                                       cmocka_unit_test(test_drawn)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
