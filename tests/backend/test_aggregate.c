/* Graphs: invalid ones are refused, and edges are dropped. */
#include "calls.h"

enum { NODES = 40, EDGES = 3000 };

typedef struct sparse {
    int32_t first[NODES + 1], neighbors[EDGES];
    float x[NODES * NODES];
} sparse;

/* Every node has at least one edge; x is the identity, so y[i][j] is the weight of the edges i <- j. */
static sparse sparse_make(void)
{
    sparse s = {0};
    bo_rng rng = bo_rng_make(3, 1);
    for (size_t i = 0; i <= NODES; i++) s.first[i] = (int32_t)(i * EDGES / NODES);
    for (size_t e = 0; e < EDGES; e++) s.neighbors[e] = (int32_t)bo_rng_below(&rng, NODES);
    for (size_t i = 0; i < NODES; i++) s.x[i * NODES + i] = 1;
    return s;
}

static test_call sparse_call(sparse *s, const bo_aggregate_attributes *attributes, const bo_graph_pass *pass)
{
    test_call t = test_begin(BO_OPERATION_AGGREGATE, attributes);
    t.call.pass = pass;
    test_input(&t, s->x, BO_ELEMENT_FLOAT32, NODES, NODES);
    test_input(&t, s->first, BO_ELEMENT_INT32, NODES + 1, 1);
    test_input(&t, s->neighbors, BO_ELEMENT_INT32, EDGES, 1);
    return t;
}

/* For a sum: the expected number of edges is dropped, within five standard deviations, and the other edges are scaled
 * up. */
static void drops_edges(void **state)
{
    (void)state;
    bo_context *context = test_context(2);
    sparse s = sparse_make();
    bo_aggregate_attributes attributes = {.kind = BO_AGGREGATE_SUM, .dropout = 0.25, .stream = 9};
    bo_graph_pass pass = {.training = true, .seed = 5}, other = {.training = true, .seed = 6};
    test_call t = sparse_call(&s, &attributes, &pass), u = sparse_call(&s, &attributes, &other);
    test_forward(context, &t, false);
    test_forward(context, &u, false);
    const float *y = t.call.out[0].data;
    double kept = 0;
    for (size_t i = 0; i < NODES * NODES; i++) kept += (double)y[i] * 0.75;
    assert_close(kept, 0.75 * EDGES, 5 * sqrt(0.25 * 0.75 * EDGES));
    assert_memory_not_equal(y, u.call.out[0].data, NODES * NODES * sizeof(float));
    test_end(&t);
    test_end(&u);
    bo_context_destroy(context);
}

/* dx = Wᵀ dy for the W of the forward pass, which is read from the identity. */
static void backward_drops_the_same(void **state)
{
    (void)state;
    bo_context *context = test_context(3);
    for (size_t kind = 0; kind < BO_AGGREGATE_MAX; kind++) {
        sparse s = sparse_make();
        bo_aggregate_attributes attributes = {.kind = (bo_aggregate_kind)kind, .dropout = 0.6, .stream = 1};
        bo_graph_pass pass = {.training = true, .seed = 11};
        float *dy = test_normals(NODES * NODES, 4);
        test_call t = sparse_call(&s, &attributes, &pass);
        test_forward(context, &t, true);
        test_backward(context, &t, dy, false);
        const float *w = t.call.out[0].data, *dx = t.call.din[0];
        for (size_t j = 0; j < NODES; j++)
            for (size_t c = 0; c < NODES; c++) {
                double expected = 0, size = 0;
                for (size_t i = 0; i < NODES; i++) {
                    double term = (double)w[i * NODES + j] * (double)dy[i * NODES + c];
                    expected += term, size += fabs(term);
                }
                /* at most 80 rounding errors of 2^-24 */
                assert_close((double)dx[j * NODES + c], expected, 0x1p-20 * size);
            }
        free(dy);
        test_end(&t);
    }
    bo_context_destroy(context);
}

static void expect(bo_context *context, sparse *s, const char *message)
{
    static const bo_aggregate_attributes attributes = {0};
    test_call t = sparse_call(s, &attributes, &no_pass);
    size_t saved, scratch;
    assert_ok(context, t.op->shape(context, &t.call));
    assert_ok(context, t.op->sizes(context, &t.call, false, &saved, &scratch));
    t.call.scratch = test_allocate(scratch);
    t.call.out[0].data = test_allocate(NODES * NODES * sizeof(float));
    assert_int_equal(t.op->forward(context, &t.call), BO_INVALID);
    if (!strstr(bo_context_error(context), message)) fail_msg("'%s' lacks '%s'", bo_context_error(context), message);
    test_leave(t.call.scratch);
    test_leave(t.call.out[0].data);
}

static void refuses_invalid_graphs(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    sparse s = sparse_make();
    s.neighbors[17] = -1;
    expect(context, &s, "edge 17 refers to node -1, expected 0 to 39");
    s.neighbors[17] = NODES;
    expect(context, &s, "edge 17 refers to node 40");
    s = sparse_make();
    s.first[0] = 1;
    expect(context, &s, "first edge of node 0 is 1, expected 0");
    s = sparse_make();
    s.first[7] = s.first[6] - 1;
    expect(context, &s, "the edges of node 6 end at 449, expected 450 to 3000");
    s = sparse_make();
    s.first[NODES] = EDGES + 1;
    expect(context, &s, "the edges of node 39 end at 3001");
    bo_context_destroy(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(drops_edges),
        cmocka_unit_test(backward_drops_the_same),
        cmocka_unit_test(refuses_invalid_graphs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
