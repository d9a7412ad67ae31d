/* State-space systems against differences of the oracle. */
#include "subjects.h"
#include "cases_ssm.h"

SUBJECT(ssm)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(of_ssm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
