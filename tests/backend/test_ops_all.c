/* No operation without a backend's word on it, and none without cases. */
#include "cases_degree.h"
#include "cases_graph.h"
#include "cases_grid.h"
#include "cases_matrix.h"
#include "cases_mixers.h"
#include "cases_ssm.h"
#include "cases_round.h"

typedef void (*cases_of)(op_visitor visit, void *user);

/* A line an operation, added with its cases. Attention's are in cases_attention.h. */
static const cases_of all[BO_OP_COUNT] = {
    [BO_OP_EMBED] = cases_embed,
    [BO_OP_POSITION] = cases_position,
    [BO_OP_LINEAR] = cases_linear,
    [BO_OP_NORM] = cases_norm,
    [BO_OP_DROPOUT] = cases_dropout,
    [BO_OP_ROPE] = cases_rope,
    [BO_OP_UNARY] = cases_unary,
    [BO_OP_GLU] = cases_glu,
    [BO_OP_ADD] = cases_add,
    [BO_OP_CROSS_ENTROPY] = cases_cross_entropy,
    [BO_OP_LOSS] = cases_loss,
    [BO_OP_RECURRENT] = cases_recurrent,
    [BO_OP_MIX] = cases_mix,
    [BO_OP_SSM] = cases_ssm,
    [BO_OP_ROUND] = cases_round,
    [BO_OP_RESHAPE] = cases_reshape,
    [BO_OP_CONCAT] = cases_concat,
    [BO_OP_AGGREGATE] = cases_aggregate,
    [BO_OP_NOISE] = cases_noise,
    [BO_OP_SCALE] = cases_scale,
    [BO_OP_PRODUCT] = cases_product,
    [BO_OP_FEATURES] = cases_features,
    [BO_OP_QUADRATIC] = cases_quadratic,
    [BO_OP_CONVOLUTION] = cases_convolution,
    [BO_OP_POOL] = cases_pool,
    [BO_OP_BATCH_NORM] = cases_batch_norm,
};

typedef struct seen {
    size_t cases[BO_OP_COUNT];
    unsigned functions, gates, losses; /* bits */
} seen;

static void see(void *user, const op_case *c)
{
    seen *s = user;
    s->cases[c->op]++;
    if (c->op == BO_OP_UNARY) s->functions |= 1U << ((const bo_unary_attributes *)c->attributes)->function;
    if (c->op == BO_OP_GLU) s->gates |= 1U << ((const bo_unary_attributes *)c->attributes)->function;
    if (c->op == BO_OP_LOSS) s->losses |= 1U << ((const bo_loss_attributes *)c->attributes)->kind;
}

static void every_operation_has_cases(void **state)
{
    (void)state;
    const bo_backend *backend = bo_backend_cpu();
    seen s = {.cases = {[BO_OP_ATTENTION] = 1}};
    for (size_t op = 0; op < BO_OP_COUNT; op++)
        if (all[op]) all[op](see, &s);
    for (size_t op = 0; op < BO_OP_COUNT; op++) {
        const bo_op *found = backend->ops[op];
        if (!found) fail_msg("the backend %s lacks operation %zu", backend->name, op);
        if (!s.cases[op]) fail_msg("operation %s has no cases", found->name);
        if (op != BO_OP_ATTENTION && !plain_forward_of((bo_op_kind)op))
            fail_msg("operation %s has no oracle", found->name);
    }
    assert_int_equal(s.functions, (1U << BO_UNARY_COUNT) - 1);
    assert_int_equal(s.gates, (1U << BO_UNARY_COUNT) - 1);
    assert_int_equal(s.losses, (1U << BO_LOSS_KIND_COUNT) - 1);
}

/* Names differ, functions are there, and forward_in_backward asks for no saved room that only forward would fill. */
static void every_operation_is_whole(void **state)
{
    (void)state;
    const bo_op *const *ops = bo_backend_cpu()->ops;
    for (size_t op = 0; op < BO_OP_COUNT; op++) {
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
