/* Every operation is implemented or declared missing by every backend, and has test cases. */
#include "cases_degree.h"
#include "cases_graph.h"
#include "cases_grid.h"
#include "cases_matrix.h"
#include "cases_mixers.h"
#include "cases_ssm.h"
#include "cases_round.h"

typedef void (*cases_of)(op_visitor visit, void *user);

/* One line per operation. The cases of attention are in cases_attention.h. */
static const cases_of all[BO_OPERATION_COUNT] = {
    [BO_OPERATION_EMBED] = cases_embed,
    [BO_OPERATION_POSITION] = cases_position,
    [BO_OPERATION_LINEAR] = cases_linear,
    [BO_OPERATION_NORM] = cases_norm,
    [BO_OPERATION_DROPOUT] = cases_dropout,
    [BO_OPERATION_ROPE] = cases_rope,
    [BO_OPERATION_UNARY] = cases_unary,
    [BO_OPERATION_GLU] = cases_glu,
    [BO_OPERATION_ADD] = cases_add,
    [BO_OPERATION_CROSS_ENTROPY] = cases_cross_entropy,
    [BO_OPERATION_LOSS] = cases_loss,
    [BO_OPERATION_RECURRENT] = cases_recurrent,
    [BO_OPERATION_MIX] = cases_mix,
    [BO_OPERATION_SSM] = cases_ssm,
    [BO_OPERATION_ROUND] = cases_round,
    [BO_OPERATION_RESHAPE] = cases_reshape,
    [BO_OPERATION_CONCAT] = cases_concat,
    [BO_OPERATION_AGGREGATE] = cases_aggregate,
    [BO_OPERATION_NOISE] = cases_noise,
    [BO_OPERATION_SCALE] = cases_scale,
    [BO_OPERATION_PRODUCT] = cases_product,
    [BO_OPERATION_FEATURES] = cases_features,
    [BO_OPERATION_QUADRATIC] = cases_quadratic,
    [BO_OPERATION_CONVOLUTION] = cases_convolution,
    [BO_OPERATION_POOL] = cases_pool,
    [BO_OPERATION_BATCH_NORM] = cases_batch_norm,
};

typedef struct coverage {
    size_t cases[BO_OPERATION_COUNT];
    unsigned functions, gates, losses; /* bits */
} coverage;

static void count_case(void *user, const op_case *c)
{
    coverage *s = user;
    s->cases[c->op]++;
    if (c->op == BO_OPERATION_UNARY) s->functions |= 1U << ((const bo_unary_attributes *)c->attributes)->function;
    if (c->op == BO_OPERATION_GLU) s->gates |= 1U << ((const bo_unary_attributes *)c->attributes)->function;
    if (c->op == BO_OPERATION_LOSS) s->losses |= 1U << ((const bo_loss_attributes *)c->attributes)->kind;
}

static void every_operation_has_cases(void **state)
{
    (void)state;
    bo_device *device = bo_device_cpu();
    coverage s = {.cases = {[BO_OPERATION_ATTENTION] = 1}};
    for (size_t op = 0; op < BO_OPERATION_COUNT; op++)
        if (all[op]) all[op](count_case, &s);
    for (size_t op = 0; op < BO_OPERATION_COUNT; op++) {
        const bo_op *found = bo_backend_of(device)->ops[op];
        if (!found) fail_msg("the backend %s lacks operation %zu", bo_device_name(device), op);
        if (!s.cases[op]) fail_msg("operation %s has no cases", found->name);
        if (op != BO_OPERATION_ATTENTION && !plain_forward_of((bo_operation)op))
            fail_msg("operation %s has no oracle", found->name);
    }
    assert_int_equal(s.functions, (1U << BO_UNARY_COUNT) - 1);
    assert_int_equal(s.gates, (1U << BO_UNARY_COUNT) - 1);
    assert_int_equal(s.losses, (1U << BO_LOSS_KIND_COUNT) - 1);
}

/* Names are unique, functions are present, and forward_in_backward needs no saved memory that only forward would
 * fill. */
static void every_operation_is_whole(void **state)
{
    (void)state;
    const bo_op *const *ops = bo_backend_cpu()->ops;
    for (size_t op = 0; op < BO_OPERATION_COUNT; op++) {
        if (!ops[op]) continue;
        if (!ops[op]->name || !ops[op]->shape || !ops[op]->sizes || !ops[op]->forward || !ops[op]->backward)
            fail_msg("operation %zu lacks a part", op);
        for (size_t other = 0; other < op; other++)
            if (ops[other] && !strcmp(ops[op]->name, ops[other]->name))
                fail_msg("operations %zu and %zu are both called %s", other, op, ops[op]->name);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_operation_has_cases),
        cmocka_unit_test(every_operation_is_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
