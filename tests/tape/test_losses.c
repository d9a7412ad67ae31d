/* Losses that other operations read, with the operations of the CPU: a loss at the end is computed in the backward
 * pass; here it is computed in the forward pass, and the backward pass must not write it again. */
#include "testing.h"
#include "tape/graph.h"

enum { ROWS = 5, WIDTH = 3, VOCAB = 7 };

typedef struct fixture {
    bo_context *context;
    bo_weights *weights;
    bo_graph *graph;
    bo_value x, head, targets;
} fixture;

static fixture begin(void)
{
    fixture f = {.context = test_context(2)};
    assert_int_equal(bo_weights_create(f.context, &f.weights), BO_OK);
    assert_int_equal(bo_graph_create(f.context, f.weights, &f.graph), BO_OK);
    bo_weight_init init = {.kind = BO_WEIGHT_INIT_KIND_NORMAL, .b = 1};
    f.x = bo_graph_weight(f.graph,
                          &(bo_weight_desc){.name = "x", .rank = 2, .shape = (size_t[]){ROWS, WIDTH}, .init = init});
    f.head = bo_graph_weight(
        f.graph, &(bo_weight_desc){.name = "head", .rank = 2, .shape = (size_t[]){VOCAB, WIDTH}, .init = init});
    f.targets = bo_graph_input(f.graph, "targets", BO_ELEMENT_INT32, ROWS, 1);
    return f;
}

/* The loss, and the gradient of x. */
static float run(fixture *f, bo_value loss, bool checkpoint, float *gradient)
{
    bo_graph_compile_desc desc = {.loss = loss, .gradients = true, .checkpoint = checkpoint};
    const int32_t targets[ROWS] = {0, 6, -1, 3, 3};
    float value;
    assert_int_equal(bo_graph_compile(f->context, f->graph, &desc), BO_OK);
    assert_int_equal(bo_weights_allocate(f->context, f->weights, true), BO_OK);
    assert_int_equal(bo_weights_init(f->context, f->weights, 1), BO_OK);
    assert_int_equal(bo_graph_allocate(f->context, f->graph), BO_OK);
    assert_int_equal(bo_graph_write(f->context, f->graph, f->targets, targets), BO_OK);
    assert_int_equal(bo_graph_run(f->context, f->graph, NULL), BO_OK);
    assert_int_equal(bo_graph_read(f->context, f->graph, loss, &value), BO_OK);
    memcpy(gradient, bo_weights_find(f->weights, "x")->gradient, ROWS * WIDTH * sizeof *gradient);
    bo_graph_destroy(f->graph);
    bo_weights_destroy(f->weights);
    bo_context_destroy(f->context);
    return value;
}

static bo_value entropy(fixture *f)
{
    return bo_graph_one(f->graph, BO_OPERATION_CROSS_ENTROPY, &(bo_cross_entropy_attributes){0}, 3,
                        (bo_value[]){f->x, f->head, f->targets});
}

static bo_value half_of_entropy(fixture *f)
{
    bo_unary_attributes half = {.function = BO_UNARY_IDENTITY, .factor = 0.5};
    bo_graph_segment(f->graph, true);
    bo_value term = bo_graph_one(f->graph, BO_OPERATION_UNARY, &half, 1, (bo_value[]){entropy(f)});
    bo_graph_segment(f->graph, false);
    return term;
}

/* Two halves of one cross-entropy give the whole. */
static void a_loss_may_be_a_term(void **state)
{
    (void)state;
    float alone[ROWS * WIDTH], summed[ROWS * WIDTH];
    fixture f = begin();
    float expected = run(&f, entropy(&f), false, alone);
    for (int checkpoint = 0; checkpoint < 2; checkpoint++) {
        f = begin();
        bo_value terms[2] = {half_of_entropy(&f), half_of_entropy(&f)};
        float found = run(&f, bo_graph_one(f.graph, BO_OPERATION_ADD, NULL, 2, terms), checkpoint, summed);
        assert_float_equal(found, expected, 1e-6f);
        for (size_t i = 0; i < ROWS * WIDTH; i++) assert_float_equal(summed[i], alone[i], 1e-6f);
    }
}

/* The teacher of a cross-entropy may depend on trained weights, but gives them no gradient. If it is the student times
 * 1, the loss and the gradients are half of those of the targets alone. */
static void a_teacher_gives_no_gradient(void **state)
{
    (void)state;
    float alone[ROWS * WIDTH], taught[ROWS * WIDTH];
    fixture f = begin();
    float expected = run(&f, entropy(&f), false, alone);
    for (int checkpoint = 0; checkpoint < 2; checkpoint++) {
        f = begin();
        bo_unary_attributes same = {.function = BO_UNARY_IDENTITY};
        bo_cross_entropy_attributes half = {.teacher = 0.5};
        bo_value teacher = bo_graph_one(f.graph, BO_OPERATION_UNARY, &same, 1, &f.x);
        bo_value loss =
            bo_graph_one(f.graph, BO_OPERATION_CROSS_ENTROPY, &half, 4, (bo_value[]){f.x, f.head, f.targets, teacher});
        assert_float_equal(run(&f, loss, checkpoint, taught), 0.5f * expected, 1e-6f);
        for (size_t i = 0; i < ROWS * WIDTH; i++) assert_float_equal(taught[i], 0.5f * alone[i], 1e-6f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_loss_may_be_a_term),
                                       cmocka_unit_test(a_teacher_gives_no_gradient)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
