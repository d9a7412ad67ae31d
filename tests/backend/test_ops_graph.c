/* Operations on graphs, and operations that move elements or add noise, compared with finite differences of the
 * reference. */
#include "subjects.h"
#include "cases_graph.h"

SUBJECT(reshape)
SUBJECT(concat)
SUBJECT(aggregate)
SUBJECT(noise)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(of_reshape),
        cmocka_unit_test(of_concat),
        cmocka_unit_test(of_aggregate),
        cmocka_unit_test(of_noise),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
