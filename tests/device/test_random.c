/* Random values and sums of every instruction set compared with plain C. */
#include "testing.h"
#include "isas.h"

/* Value j of group g by the definition in kernels.h, from the generator. */
static uint32_t value_of(uint64_t seed, uint64_t stream, uint64_t group, size_t j)
{
    uint32_t bits[4];
    bo_rng_words(&(bo_rng){seed, stream, 16 * group + j % 16}, 1, bits);
    return bits[j / 16];
}

static void values_are_the_generators(void **state)
{
    (void)state;
    enum { GROUPS = 5 };
    /* The last blocks of a 32-bit counter and the first of the next, to test the carry. */
    const uint64_t firsts[] = {0, 7, (1u << 28) - 3, 1ull << 40};
    uint32_t out[GROUPS * BO_RANDOM_GROUP + 1];
    FOR_EACH_TABLE(table)
    {
        for (size_t f = 0; f < 4; f++) {
            uint64_t seed = 0x0123456789abcdefu + f, stream = bo_rng_stream("test", f);
            out[GROUPS * BO_RANDOM_GROUP] = 77;
            table->random(seed, stream, firsts[f], GROUPS, out);
            for (size_t i = 0; i < GROUPS * BO_RANDOM_GROUP; i++)
                assert_int_equal(out[i], value_of(seed, stream, firsts[f] + i / BO_RANDOM_GROUP, i % BO_RANDOM_GROUP));
            assert_int_equal(out[GROUPS * BO_RANDOM_GROUP], 77);
        }
    }
}

/* In double: n rounding errors of at most 2^-53 of the sum of magnitudes. */
static void sums(void **state)
{
    (void)state;
    enum { MAX = 100 };
    float x[MAX];
    bo_rng rng = bo_rng_make(2, 2);
    for (size_t i = 0; i < MAX; i++) x[i] = (float)(bo_rng_normal(&rng) * pow(10, (double)(i % 7)));
    FOR_EACH_TABLE(table)
    {
        for (size_t n = 0; n <= MAX; n++) {
            double sum = 0, size = 0;
            for (size_t i = 0; i < n; i++) sum += (double)x[i], size += fabs((double)x[i]);
            assert_close(table->sum(n, x), sum, 2 * (double)n * 0x1p-53 * size);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_are_the_generators),
        cmocka_unit_test(sums),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
