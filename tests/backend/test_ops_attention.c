/* Attention as an operation: every preset, kind and map compared with its reference. */
#include "cases_attention.h"

static void check(void (*cases)(harness *))
{
    harness h;
    harness_begin(&h);
    cases(&h);
    harness_end(&h);
}

static void of_presets(void **state)
{
    (void)state;
    check(cases_attention_presets);
}

static void of_kinds(void **state)
{
    (void)state;
    check(cases_attention_kinds);
}

static void of_extremes(void **state)
{
    (void)state;
    check(cases_attention_extremes);
}

static void across_streams(void **state)
{
    (void)state;
    check(cases_attention_across);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(of_presets),
        cmocka_unit_test(of_kinds),
        cmocka_unit_test(of_extremes),
        cmocka_unit_test(across_streams),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
