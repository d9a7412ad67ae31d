/* The mask of dropout: its drop rate, its dependence on seed, stream and position only, and the independence of
 * masks. */
#include "harness.h"

enum { ROWS = 251, COLUMNS = 64, COUNT = ROWS * COLUMNS };

static double *mask_of(harness *h, double rate, uint64_t seed, uint64_t stream, size_t rows)
{
    bo_dropout_attributes attributes = {.rate = rate, .stream = stream};
    op_case c = {.name = "dropout",
                 .op = BO_OPERATION_DROPOUT,
                 .attributes = &attributes,
                 .inputs = 1,
                 .in = {{.rows = rows, .columns = COLUMNS}},
                 .pass = {.training = true, .seed = seed}};
    return harness_mask(h, bo_backend_of(h->device)->ops[BO_OPERATION_DROPOUT], &c);
}

/* Correlation of two masks, `shift` positions apart, in standard deviations of independent masks. */
static double correlation(const double *a, const double *b, size_t shift, double rate)
{
    double sum = 0;
    for (size_t i = 0; i + shift < COUNT; i++) sum += (a[i] - (1 - rate)) * (b[i + shift] - (1 - rate));
    return sum / (rate * (1 - rate) * sqrt((double)(COUNT - shift)));
}

/* Five standard deviations: exceeded by one draw in two million. */
static void drops_as_many_as_it_should(void **state)
{
    (void)state;
    static const double rates[] = {0.05, 0.1, 0.3, 0.5, 0.9};
    harness h;
    harness_begin(&h);
    for (size_t r = 0; r < sizeof rates / sizeof *rates; r++) {
        double *mask = mask_of(&h, rates[r], 5, 1, ROWS), dropped = COUNT;
        for (size_t i = 0; i < COUNT; i++) dropped -= mask[i];
        assert_close(dropped, rates[r] * COUNT, 5 * sqrt(rates[r] * (1 - rates[r]) * COUNT));
        for (size_t column = 0; column < COLUMNS; column++) { /* in every column too */
            double in_column = ROWS;
            for (size_t row = 0; row < ROWS; row++) in_column -= mask[row * COLUMNS + column];
            assert_close(in_column, rates[r] * ROWS, 5 * sqrt(rates[r] * (1 - rates[r]) * ROWS));
        }
        free(mask);
    }
    harness_end(&h);
}

static void seeds_and_streams_share_nothing(void **state)
{
    (void)state;
    harness h;
    harness_begin(&h);
    double *mask = mask_of(&h, 0.5, 5, 1, ROWS), *same = mask_of(&h, 0.5, 5, 1, ROWS);
    double *masks[] = {mask_of(&h, 0.5, 6, 1, ROWS), mask_of(&h, 0.5, 5, 2, ROWS), mask_of(&h, 0.5, 1, 5, ROWS),
                       mask_of(&h, 0.5, 5 + (1ULL << 32), 1, ROWS), mask_of(&h, 0.5, 5, 1 + (1ULL << 32), ROWS)};
    assert_memory_equal(mask, same, COUNT * sizeof *mask);
    for (size_t i = 0; i < sizeof masks / sizeof *masks; i++) {
        for (size_t shift = 0; shift < 4; shift++)
            if (fabs(correlation(mask, masks[i], shift, 0.5)) > 5) fail_msg("mask %zu follows the first", i);
        free(masks[i]);
    }
    for (size_t shift = 1; shift < 200; shift++) /* neighbors and rows */
        if (fabs(correlation(mask, mask, shift, 0.5)) > 5) fail_msg("a mask repeats itself after %zu places", shift);
    free(mask);
    free(same);
    harness_end(&h);
}

/* A position keeps its mask when rows are added after it. */
static void a_place_is_a_place(void **state)
{
    (void)state;
    harness h;
    harness_begin(&h);
    double *mask = mask_of(&h, 0.5, 5, 1, ROWS), *fewer = mask_of(&h, 0.5, 5, 1, 7);
    assert_memory_equal(mask, fewer, 7 * COLUMNS * sizeof *mask);
    free(mask);
    free(fewer);
    harness_end(&h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(drops_as_many_as_it_should),
        cmocka_unit_test(seeds_and_streams_share_nothing),
        cmocka_unit_test(a_place_is_a_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
