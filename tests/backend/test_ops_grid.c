/* Operations on grids compared with differences of the reference. */
#include "subjects.h"
#include "cases_grid.h"

SUBJECT(convolution)
SUBJECT(causal_convolution)
SUBJECT(pool)
SUBJECT(batch_norm)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(of_convolution),
        cmocka_unit_test(of_causal_convolution),
        cmocka_unit_test(of_pool),
        cmocka_unit_test(of_batch_norm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
