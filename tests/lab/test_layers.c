/* Layers on a tape, graphs of nodes, linear systems and powers of matrices: known answers, and every allocation failing
 * once. */
#include "sample.h"
#include "base/counting.h"
#include "lab/architectures/nets.h"
#include "lab/architectures/powers.h"
#include "lab/architectures/systems.h"

/* ---- tape -------------------------------------------------------------------------------------------------------- */

static bo_status open_tanh(bo_context *context, lab_tape *tape)
{
    BO_TRY(lab_tape_open(context, tape));
    bo_value x = lab_tape_leaf(tape, "x", 1, 3);
    return lab_tape_plan(tape, lab_graph_unary(tape->graph, BO_UNARY_TANH, x), 1);
}

static void test_tape(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    const float x[3] = {0, 0.5f, -1}, arriving[3] = {1, 2, 0};
    float y[3], gradient[3];
    lab_tape tape;
    assert_ok(context, open_tanh(context, &tape));
    assert_ok(context, lab_tape_write(&tape, "x", x));
    assert_ok(context, lab_tape_run(&tape, NULL));
    assert_ok(context, lab_tape_gradient(&tape, "x", gradient)); /* for an arriving gradient of ones */
    assert_close((double)gradient[2], 1 - tanh(1) * tanh(1), 1e-6);
    assert_ok(context, lab_tape_write(&tape, LAB_ARRIVING, arriving));
    /* the gradients of the first run are discarded */
    for (int i = 0; i < 2; i++) assert_ok(context, lab_tape_run(&tape, NULL));
    assert_ok(context, lab_tape_output(&tape, y));
    assert_ok(context, lab_tape_gradient(&tape, "x", gradient));
    for (size_t i = 0; i < 3; i++) {
        const double t = tanh((double)x[i]);
        assert_close((double)y[i], t, 1e-6);
        assert_close((double)gradient[i], (double)arriving[i] * (1 - t * t), 1e-6);
    }
    assert_ok(context, lab_tape_read(&tape, "x", y));
    assert_memory_equal(x, y, sizeof x);
    assert_fails(context, BO_INVALID, "no weight 'z'", lab_tape_write(&tape, "z", x));
    assert_fails(context, BO_INVALID, "has no gradient", lab_tape_gradient(&tape, LAB_ARRIVING, y));
    lab_tape_close(&tape);
    lab_tape_close(&tape); /* a zeroed structure */
    bo_context_destroy(context);
}

static bo_status tape_once(void *context)
{
    lab_tape tape;
    const bo_status status = open_tanh(context, &tape);
    lab_tape_close(&tape);
    return status;
}

static void test_memory(void **state)
{
    (void)state;
    counting c = {0};
    bo_context *context = counting_context(&c, 1);
    counting_inject(&(injection){.counted = &c, .context = context, .work = tape_once, .what = context, .all = 100});
    bo_context_destroy(context);
}

/* ---- nodes ------------------------------------------------------------------------------------------------------- */

/* Node 2 has the neighbors 0 and 1, node 1 has the neighbor 0, and node 0 has no neighbors. */
static const bool sees[9] = {false, false, false, true, false, false, true, true, false};

static bo_status measure_nodes(lab_run *run)
{
    static const float x[6] = {1, 10, 2, 20, 4, -40};
    static const float expected[BO_AGGREGATE_COUNT][6] = {
        [BO_AGGREGATE_SUM] = {0, 0, 1, 10, 3, 30},
        [BO_AGGREGATE_MEAN] = {0, 0, 1, 10, 1.5f, 15},
        [BO_AGGREGATE_MAX] = {0, 0, 1, 10, 2, 20},
    };
    lab_net net;
    float y[6], once[6];
    lab_net_make(3, sees, &net);
    for (int kind = 0; kind < BO_AGGREGATE_COUNT; kind++) {
        lab_layers layers = {LAB_AGGREGATES, (bo_aggregate_kind)kind, 1, 2, false};
        BO_TRY(lab_net_apply(run, &net, &layers, x, once));
        for (size_t i = 0; i < 6; i++) CHECK(fabsf(once[i] - expected[kind][i]) < 1e-6f);
        layers.depth = 2;
        BO_TRY(lab_net_apply(run, &net, &layers, x, y));
        BO_TRY(
            lab_net_apply(run, &net, &(lab_layers){LAB_AGGREGATES, (bo_aggregate_kind)kind, 1, 2, false}, once, once));
        for (size_t i = 0; i < 6; i++) CHECK(fabsf(y[i] - once[i]) < 1e-6f);
        layers = (lab_layers){LAB_MESSAGES, (bo_aggregate_kind)kind, 1, 2, false};
        BO_TRY(lab_net_apply(run, &net, &layers, x, y));
        CHECK(memcmp(x, y, 2 * sizeof *x) == 0); /* node 0 receives no messages … */
        CHECK(y[4] != x[4]);                     /* … but node 2 does */
    }
    lab_claim(run, "mean", 0);
    lab_claim(run, "each", 0);
    return BO_OK;
}

static void test_nodes(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    const lab_experiment experiment = sample_experiment(measure_nodes);
    bo_lab_result *result;
    assert_ok(context, lab_run_seeds(context, &experiment, &(bo_lab_options){.seeds = 1}, &result));
    bo_lab_result_destroy(result);
    bo_context_destroy(context);
}

/* ---- systems and powers ------------------------------------------------------------------------------------------ */

/* Eight states that halve, each with B = C = 1, and D = 2: the impulse response is 10, 4, 2, 1, … */
static void test_system(void **state)
{
    (void)state;
    const double u[4] = {1, 0, 0, 0}, expected[4] = {10, 4, 2, 1};
    double y[4];
    lab_system system = {.d = 2};
    for (size_t i = 0; i < LAB_SYSTEM_STATES; i++)
        system.a[i * LAB_SYSTEM_STATES + i] = 0.5, system.b[i] = system.c[i] = 1;
    lab_system_run(&system, 4, u, y);
    for (size_t i = 0; i < 4; i++) assert_close(y[i], expected[i], 1e-15);
}

static void test_powers(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    const double a[4] = {2, 1, 1, 3}, b[2] = {1, -1}, p[2] = {1, 0}, identity[2] = {1, 1}, apart[2] = {1, 2},
                 q[2] = {1, 1};
    const double expected[8] = {1, -1, 1, -2, 0, -5, -5, -15};
    double steps[8], doubled[8], scratch[8], closed[2], ranks[2];
    assert_ok(context, lab_powers_steps(context, 2, a, b, 4, steps));
    assert_ok(context, lab_powers_doubling(context, 2, a, b, 4, scratch, doubled));
    for (size_t i = 0; i < 8; i++) {
        assert_close(steps[i], expected[i], 1e-12);
        assert_close(doubled[i], expected[i], 1e-12);
    }
    lab_powers_closed(2, p, b, 3, closed); /* diag(2, 1)³ */
    assert_close(closed[0], 8, 1e-12);
    assert_close(closed[1], -1, 1e-12);
    assert_ok(context, lab_powers_ranks(context, 2, identity, q, q, 2, ranks));
    assert_true(ranks[0] == 1 && ranks[1] == 1);
    assert_ok(context, lab_powers_ranks(context, 2, apart, q, q, 2, ranks));
    assert_true(ranks[0] == 1 && ranks[1] == 2);
    assert_fails(context, BO_INVALID, "at most 16", lab_powers_ranks(context, 17, a, a, a, 1, ranks));
    bo_context_destroy(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tape),   cmocka_unit_test(test_memory), cmocka_unit_test(test_nodes),
        cmocka_unit_test(test_system), cmocka_unit_test(test_powers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
