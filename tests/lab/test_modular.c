/* Arithmetic and ranks modulo 2³¹ − 1, with known answers. */
#include "testing.h"
#include "lab/tools/modular.h"

static void test_arithmetic(void **state)
{
    (void)state;
    bo_rng rng = bo_rng_make(1, bo_rng_stream("test.modular", 0));
    assert_int_equal(lab_mod_of(-1), LAB_PRIME - 1);
    assert_int_equal(lab_mod_of(LAB_PRIME), 0);
    assert_int_equal(lab_mod_reduce((uint64_t)(LAB_PRIME - 1) * (LAB_PRIME - 1) + LAB_PRIME - 1), 0);
    assert_int_equal(lab_mod_power(2, 31), 1);
    for (int i = 0; i < 1000; i++) {
        const uint32_t a = lab_mod_random(&rng), b = lab_mod_random(&rng);
        assert_true(a < LAB_PRIME);
        assert_int_equal(lab_mod_multiply(a, b), (uint64_t)a * b % LAB_PRIME);
        assert_int_equal(lab_mod_add(a, b), ((uint64_t)a + b) % LAB_PRIME);
        if (a) assert_int_equal(lab_mod_multiply(a, lab_mod_inverse(a)), 1);
    }
}

/* A product of a rows x rank and a rank x columns matrix of random residues has that rank. */
static void test_rank_of_products(void **state)
{
    (void)state;
    enum { ROWS = 40, COLUMNS = 33 };
    bo_rng rng = bo_rng_make(2, bo_rng_stream("test.modular", 1));
    for (size_t rank = 0; rank <= COLUMNS; rank++) {
        uint32_t left[ROWS * COLUMNS], right[COLUMNS * COLUMNS], product[ROWS * COLUMNS] = {0};
        for (size_t i = 0; i < ROWS * COLUMNS; i++) left[i] = lab_mod_random(&rng);
        for (size_t i = 0; i < COLUMNS * COLUMNS; i++) right[i] = lab_mod_random(&rng);
        for (size_t i = 0; i < ROWS; i++)
            for (size_t j = 0; j < COLUMNS; j++)
                for (size_t r = 0; r < rank; r++)
                    product[i * COLUMNS + j] = lab_mod_add(
                        product[i * COLUMNS + j], lab_mod_multiply(left[i * COLUMNS + r], right[r * COLUMNS + j]));
        assert_int_equal(lab_mod_rank(product, ROWS, COLUMNS), rank);
    }
}

/* Zero pivots in the first positions: a permutation, and zero columns. */
static void test_rank_needs_exchanges(void **state)
{
    (void)state;
    uint32_t cycle[9] = {0, 1, 0, 0, 0, 1, 1, 0, 0};
    uint32_t gap[8] = {0, 0, 2, 1, 0, 0, 4, 3};
    uint32_t twice[6] = {1, 2, 3, LAB_PRIME - 1, LAB_PRIME - 2, LAB_PRIME - 3};
    assert_int_equal(lab_mod_rank(cycle, 3, 3), 3);
    assert_int_equal(lab_mod_rank(gap, 2, 4), 2);
    assert_int_equal(lab_mod_rank(twice, 2, 3), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_arithmetic), cmocka_unit_test(test_rank_of_products),
                                       cmocka_unit_test(test_rank_needs_exchanges)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
