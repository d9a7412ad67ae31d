/* The backward pass of a normalized group: every instruction set has the bits of plain C, whatever is requested. */
#include "testing.h"
#include "isas.h"

enum { MAX = 40, ARRAYS = 3 };

static void every_table_has_the_same_bits(void **state)
{
    (void)state;
    static const size_t lengths[] = {0, 1, 7, 16, 33, 40};
    static const bo_norm_row row = {.mean = 0.3f, .rate = 1.7f, .shift = -0.2f, .slope = 0.9f};
    float x[MAX], dy[MAX], gain[MAX], start[MAX];
    bo_rng rng = bo_rng_make(1, bo_rng_stream("test.norm", 0));
    for (size_t j = 0; j < MAX; j++) {
        x[j] = (float)bo_rng_normal(&rng), dy[j] = (float)bo_rng_normal(&rng);
        gain[j] = (float)bo_rng_normal(&rng), start[j] = (float)bo_rng_normal(&rng);
    }
    FOR_EACH_TABLE(table)
    for (size_t c = 0; c < sizeof lengths / sizeof *lengths; c++)
        for (unsigned what = 0; what < 32; what++) {
            float found[ARRAYS][MAX], expected[ARRAYS][MAX];
            for (size_t a = 0; a < ARRAYS; a++)
                memcpy(found[a], start, sizeof start), memcpy(expected[a], start, sizeof start);
            const float *gains = what & 1 ? gain : NULL;
            bool add = what & 2, dx = what & 4, dgain = what & 8, dbias = what & 16;
            bo_kernels_find("ref")->norm_back(lengths[c], &row, x, dy, gains, add, dx ? expected[0] : NULL,
                                              dgain ? expected[1] : NULL, dbias ? expected[2] : NULL);
            table->norm_back(lengths[c], &row, x, dy, gains, add, dx ? found[0] : NULL, dgain ? found[1] : NULL,
                             dbias ? found[2] : NULL);
            assert_memory_equal(found, expected, sizeof found);
            if (lengths[c] && dx && !add && gains) { /* the formula */
                double g = (double)dy[0] * (double)gain[0];
                double value =
                    (double)row.rate * (g - (double)row.shift - ((double)x[0] - (double)row.mean) * (double)row.slope);
                assert_close(found[0][0], value, 1e-5);
            }
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_table_has_the_same_bits)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
