/* Locating NaN and infinity in a network with running statistics: the operation that causes them is reported, not the
 * statistics, which the run has made invalid. The search does not change the statistics. */
#include "nn/nn.h"
#include "testing.h"

enum { ROWS = 4, COLUMNS = 3 };

typedef struct network {
    bo_context *context;
    bo_weights *weights;
    bo_graph *graph;
    bo_value x;
} network;

static network build(void)
{
    network n = {.context = test_context(1)};
    assert_ok(n.context, bo_weights_create(n.context, &n.weights));
    assert_ok(n.context, bo_graph_create(n.context, n.weights, &n.graph));
    n.x = bo_graph_input(n.graph, "x", BO_ELEMENT_FLOAT32, ROWS, COLUMNS);
    bo_graph_scope(n.graph, "squares");
    bo_value y = bo_graph_one(n.graph, BO_OPERATION_GLU, &(bo_unary_attributes){.function = BO_UNARY_RELU2}, 2,
                              (bo_value[]){n.x, n.x});
    bo_graph_scope(n.graph, "normalized");
    y = bo_nn_batch_norm(n.graph, "norm", y, 0, 0.5);
    bo_graph_keep(n.graph, y);
    assert_ok(n.context, bo_graph_compile(n.context, n.graph, &(bo_graph_compile_desc){0}));
    assert_ok(n.context, bo_weights_allocate(n.context, n.weights, false));
    assert_ok(n.context, bo_weights_init(n.context, n.weights, 1));
    assert_ok(n.context, bo_graph_allocate(n.context, n.graph));
    return n;
}

static void run(network *n, float largest)
{
    float x[ROWS * COLUMNS];
    for (size_t i = 0; i < ROWS * COLUMNS; i++) x[i] = largest * (float)(i + 1) / (ROWS * COLUMNS);
    assert_ok(n->context, bo_graph_write(n->context, n->graph, n->x, x));
    assert_ok(n->context, bo_graph_run(n->context, n->graph, &(bo_graph_pass){.training = true}));
}

static void end(network *n)
{
    bo_graph_destroy(n->graph);
    bo_weights_destroy(n->weights);
    bo_context_destroy(n->context);
}

static const float *kept_mean(const network *n)
{
    return bo_weights_find(n->weights, "norm.running_mean")->data;
}

static void reports_the_cause(void **state)
{
    (void)state;
    network n = build();
    const char *scope;
    run(&n, 1e20f);
    assert_false(isfinite(kept_mean(&n)[COLUMNS - 1]));
    assert_ok(n.context, bo_graph_find_nonfinite(n.context, n.graph, &(bo_graph_pass){.training = true}, &scope));
    assert_string_equal(scope, "squares");
    end(&n);
}

static void searching_changes_no_state(void **state)
{
    (void)state;
    network n = build();
    const char *scope;
    run(&n, 2);
    float mean[COLUMNS];
    memcpy(mean, kept_mean(&n), sizeof mean);
    assert_ok(n.context, bo_graph_find_nonfinite(n.context, n.graph, &(bo_graph_pass){.training = true}, &scope));
    assert_null(scope);
    assert_memory_equal(mean, kept_mean(&n), sizeof mean);
    end(&n);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(reports_the_cause),
                                       cmocka_unit_test(searching_changes_no_state)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
