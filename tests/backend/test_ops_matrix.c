/* Linear layers and cross-entropy compared with differences of the reference. */
#include "subjects.h"
#include "cases_matrix.h"

SUBJECT(linear)
SUBJECT(cross_entropy)

/* A multiplication and an addition count as two operations. */
static void counts_operations(void **state)
{
    (void)state;
    const bo_op *const *ops = bo_backend_cpu()->ops;
    if (!ops[BO_OPERATION_LINEAR] || !ops[BO_OPERATION_CROSS_ENTROPY]) skip(); /* test_ops_all.c reports this */
    bo_context *context = test_context(1);
    bo_linear_attributes linear = {.weights = 2};
    bo_op_call call = {.attributes = &linear, .inputs = 3, .in = {{.rows = 7, .columns = 5}}};
    call.in[1] = (bo_tensor){.rows = 11, .columns = 5}, call.in[2] = (bo_tensor){.rows = 3, .columns = 5};
    assert_ok(context, ops[BO_OPERATION_LINEAR]->shape(context, &call));
    assert_close(ops[BO_OPERATION_LINEAR]->operations(context, &call), 2 * 7 * 5 * (11 + 3), 0);
    bo_cross_entropy_attributes plain = {0};
    call = (bo_op_call){.attributes = &plain, .inputs = 3, .in = {{.rows = 7, .columns = 5}}};
    call.in[1] = (bo_tensor){.rows = 13, .columns = 5};
    call.in[2] = (bo_tensor){.element = BO_ELEMENT_INT32, .rows = 7, .columns = 1};
    assert_ok(context, ops[BO_OPERATION_CROSS_ENTROPY]->shape(context, &call));
    assert_close(ops[BO_OPERATION_CROSS_ENTROPY]->operations(context, &call), 2 * 7 * 5 * 13, 0);
    bo_cross_entropy_attributes taught = {.teacher = 0.5};
    call.attributes = &taught, call.in[call.inputs++] = (bo_tensor){.rows = 7, .columns = 5};
    assert_ok(context, ops[BO_OPERATION_CROSS_ENTROPY]->shape(context, &call));
    assert_close(ops[BO_OPERATION_CROSS_ENTROPY]->operations(context, &call), 2 * 2 * 7 * 5 * 13, 0);
    bo_context_destroy(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(of_linear),
        cmocka_unit_test(of_cross_entropy),
        cmocka_unit_test(counts_operations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
