/* Concatenation of any number of tensors. One operation has at most BO_OP_INPUTS inputs, so that more become a tree:
 * the columns keep their order, and each tensor gets its columns of the gradient. */
#include "testing.h"
#include "tape/graph.h"

enum { ROWS = 3, WIDEST = 3, LARGEST = BO_OP_INPUTS * BO_OP_INPUTS + 1 };

static size_t columns_of(size_t i)
{
    return 1 + i % WIDEST;
}

static const char *name_of(size_t i, char name[24])
{
    snprintf(name, 24, "x%zu", i);
    return name;
}

/* The columns of the result, and those of its gradient, are those of the tensors bit for bit. */
static void compare(bo_context *context, bo_weights *weights, size_t count, size_t columns, const float *y,
                    const float *dy)
{
    char name[24];
    float x[ROWS * WIDEST], dx[ROWS * WIDEST];
    for (size_t i = 0, at = 0; i < count; at += columns_of(i++)) {
        assert_ok(context, bo_weights_get(context, weights, name_of(i, name), x, NULL));
        assert_ok(context, bo_weights_get(context, weights, name, NULL, dx));
        for (size_t r = 0; r < ROWS; r++)
            for (size_t c = 0; c < columns_of(i); c++) {
                const size_t from = r * columns_of(i) + c, to = r * columns + at + c;
                if (x[from] != y[to] || dx[from] != dy[to] || dy[to] == 0)
                    fail_msg("%zu tensors: row %zu, column %zu of tensor %zu: %g and %g, gradients %g and %g", count, r,
                             c, i, (double)x[from], (double)y[to], (double)dx[from], (double)dy[to]);
            }
    }
}

static void check(size_t count)
{
    bo_context *context = test_context(2);
    bo_weights *weights;
    bo_graph *graph;
    bo_value values[LARGEST];
    char name[24];
    size_t columns = 0;
    assert_ok(context, bo_weights_create(context, &weights));
    assert_ok(context, bo_graph_create(context, weights, &graph));
    for (size_t i = 0; i < count; columns += columns_of(i++))
        values[i] = bo_graph_weight(graph, &(bo_weight_desc){.name = name_of(i, name),
                                                             .rank = 2,
                                                             .shape = (size_t[]){ROWS, columns_of(i)},
                                                             .init = {.kind = BO_WEIGHT_INIT_KIND_NORMAL, .b = 1}});
    const bo_value target = bo_graph_input(graph, "target", BO_ELEMENT_FLOAT32, ROWS, columns);
    const bo_value y = bo_graph_concat(graph, count, values);
    const bo_value loss = bo_graph_loss(graph, BO_LOSS_KIND_MSE, y, target);
    float *numbers = calloc(3 * ROWS * columns, sizeof *numbers);
    bo_graph_keep(graph, y);
    bo_graph_keep_gradient(graph, y);
    assert_ok(context, bo_graph_compile(context, graph, &(bo_graph_compile_desc){.loss = loss, .gradients = true}));
    assert_ok(context, bo_weights_allocate(context, weights, true));
    assert_ok(context, bo_weights_init(context, weights, 1));
    assert_ok(context, bo_graph_allocate(context, graph));
    assert_ok(context, bo_graph_write(context, graph, target, numbers));
    assert_ok(context, bo_graph_run(context, graph, NULL));
    assert_ok(context, bo_graph_read(context, graph, y, numbers + ROWS * columns));
    assert_ok(context, bo_graph_read_gradient(context, graph, y, numbers + 2 * ROWS * columns));
    compare(context, weights, count, columns, numbers + ROWS * columns, numbers + 2 * ROWS * columns);
    free(numbers);
    bo_graph_destroy(graph);
    bo_weights_destroy(weights);
    bo_context_destroy(context);
}

/* One tensor, a full operation, one more, the layers of a real model, a full tree of two levels, and one more. */
static void of_any_number(void **state)
{
    (void)state;
    static const size_t counts[] = {1, 2, BO_OP_INPUTS, BO_OP_INPUTS + 1, 80, LARGEST - 1, LARGEST};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) check(counts[i]);
}

/* Where a tree is no help, the limit is named. */
static void one_operation_is_limited(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    bo_weights *weights;
    bo_graph *graph;
    bo_value values[BO_OP_INPUTS + 1];
    assert_ok(context, bo_weights_create(context, &weights));
    for (size_t count = 0; count <= BO_OP_INPUTS + 1; count += BO_OP_INPUTS + 1) {
        assert_ok(context, bo_graph_create(context, weights, &graph));
        for (size_t i = 0; i < count; i++) values[i] = bo_graph_input(graph, "x", BO_ELEMENT_FLOAT32, ROWS, 1);
        const bo_value y =
            count ? bo_graph_one(graph, BO_OPERATION_CONCAT, NULL, count, values) : bo_graph_concat(graph, 0, values);
        bo_graph_keep(graph, y);
        assert_fails(context, BO_INVALID,
                     count ? "concat: 17 inputs, expected at most 16" : "concat: no inputs, expected 1 to 16",
                     bo_graph_compile(context, graph, &(bo_graph_compile_desc){0}));
        bo_graph_destroy(graph);
    }
    bo_weights_destroy(weights);
    bo_context_destroy(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(of_any_number), cmocka_unit_test(one_operation_is_limited)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
