/* The operations of polynomials and random features compared with differences of the reference. */
#include "subjects.h"
#include "cases_degree.h"

SUBJECT(scale)
SUBJECT(product)
SUBJECT(features)
SUBJECT(quadratic)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(of_scale),
        cmocka_unit_test(of_product),
        cmocka_unit_test(of_features),
        cmocka_unit_test(of_quadratic),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
