/* Memory that requests reserve: what a client may have, and what is given back. */
#include "testing.h"
#include "serve/reserve.h"

enum { MEGABYTE = 1 << 20 };

static void test_shares(void **state)
{
    bo_reservations r;
    size_t a = 0, b = 0, c = 0, other = 0;
    (void)state;
    bo_reservations_open(&r, (size_t)16 * MEGABYTE);
    assert_true(bo_reserve(&r, 1, &a, (size_t)4 * MEGABYTE));
    assert_true(bo_reserve(&r, 1, &b, (size_t)4 * MEGABYTE));
    assert_false(bo_reserve(&r, 1, &c, (size_t)2 * MEGABYTE)); /* half of all */
    assert_int_equal(c, 0);
    assert_false(bo_reserve(&r, 1, &b, (size_t)5 * MEGABYTE)); /* nothing changes */
    assert_int_equal(b, (size_t)4 * MEGABYTE);
    assert_true(bo_reserve(&r, 1, &c, MEGABYTE - 1)); /* not counted */
    assert_true(bo_reserve(&r, 2, &other, (size_t)8 * MEGABYTE));
    assert_false(bo_reserve(&r, 3, &c, (size_t)2 * MEGABYTE)); /* all are taken */
    assert_int_equal(r.all, (size_t)16 * MEGABYTE);
    assert_true(bo_reserve(&r, 1, &a, 0));
    assert_true(bo_reserve(&r, 1, &b, (size_t)8 * MEGABYTE)); /* a reservation grows */
    assert_true(bo_reserve(&r, 2, &other, (size_t)2 * MEGABYTE));
    assert_true(bo_reserve(&r, 3, &c, (size_t)6 * MEGABYTE));
    assert_true(bo_reserve(&r, 3, &c, 0));
    assert_true(bo_reserve(&r, 2, &other, 0));
    assert_true(bo_reserve(&r, 1, &b, 0));
    assert_int_equal(r.count, 0);
    assert_true(bo_reserve(&r, 1, &a, (size_t)100 * MEGABYTE)); /* alone */
    assert_false(bo_reserve(&r, 2, &b, MEGABYTE));
    assert_false(bo_reserve(&r, 1, &a, (size_t)101 * MEGABYTE)); /* but it does not grow further */
    assert_true(bo_reserve(&r, 1, &a, (size_t)2 * MEGABYTE));
    assert_true(bo_reserve(&r, 1, &a, (size_t)16 * MEGABYTE));
    assert_false(bo_reserve(&r, 1, &a, (size_t)17 * MEGABYTE));
    assert_true(bo_reserve(&r, 1, &a, 0));
    bo_reservations_close(&r);
}

/* Tests of requests have none. */
static void test_unlimited(void **state)
{
    bo_reservations r;
    size_t a = 0, b = 0;
    (void)state;
    bo_reservations_open(&r, 0);
    assert_true(bo_reserve(&r, 1, &a, SIZE_MAX));
    assert_true(bo_reserve(&r, 1, &b, SIZE_MAX));
    bo_reservations_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_shares), cmocka_unit_test(test_unlimited)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
