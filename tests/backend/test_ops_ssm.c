/* State-space systems compared with differences of the reference, and in pieces. */
#include "nn/enums.h"
#include "subjects.h"
#include "cases_ssm.h"
#include "pieces.h"
#include "backend/shapes.h"

SUBJECT(ssm)

static void in_pieces(void **state)
{
    (void)state;
    harness h;
    harness_begin(&h);
    for (int kind = 0; kind < BO_SSM_COUNT; kind++) {
        bo_ssm_attributes a = {.kind = (bo_ssm)kind, .form = (bo_ssm_form)(kind % BO_SSM_FORM_COUNT), .size = 3};
        a.sequences = (bo_sequences){.max_sequences = PIECES_SEQUENCES, .layer = PIECES_LAYER, .offset = 192};
        op_case c = case_ssm(&a, PIECES_ROWS, 18);
        c.name = bo_ssm_name(a.kind), c.large = true;
        pieces_check(&h, &c, bo_ssm_state_bytes(&a, 18), a.sequences.offset);
    }
    harness_end(&h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(of_ssm),
        cmocka_unit_test(in_pieces),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
