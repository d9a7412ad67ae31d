/* Operations on rows and elements compared with finite differences of the reference. */
#include "subjects.h"
#include "cases.h"

SUBJECT(embed)
SUBJECT(position)
SUBJECT(rope)
SUBJECT(norm)
SUBJECT(unary)
SUBJECT(glu)
SUBJECT(add)
SUBJECT(dropout)
SUBJECT(loss)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(of_embed), cmocka_unit_test(of_position), cmocka_unit_test(of_rope),
        cmocka_unit_test(of_norm),  cmocka_unit_test(of_unary),    cmocka_unit_test(of_glu),
        cmocka_unit_test(of_add),   cmocka_unit_test(of_dropout),  cmocka_unit_test(of_loss),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
