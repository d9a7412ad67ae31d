/* Layers on images: sizes, the weights they declare, and a network of them on the tape. */
#include "nn/nn.h"
#include "testing.h"

enum { IMAGES = 4, SIDE = 8, CHANNELS = 2, OUT = 5, PIXELS = IMAGES * SIDE * SIDE };

static void assert_image(bo_windows windows, size_t height, size_t width)
{
    bo_image after = bo_nn_image_after(&windows);
    assert_int_equal(after.height, height);
    assert_int_equal(after.width, width);
}

static void windows_have_sizes(void **state)
{
    (void)state;
    bo_image image = {7, 10};
    assert_image(bo_nn_windows(image, 3, 0, 0), 5, 8);
    assert_image(bo_nn_windows(image, 3, 2, 1), 4, 5);
    assert_image(bo_nn_windows(image, 9, 1, 0), 0, 0);
    assert_image(bo_nn_windows_all(image), 1, 1);
    for (size_t kernel = 1; kernel <= 12; kernel++)
        for (size_t stride = 1; stride <= 4; stride++) {
            size_t kernels[] = {kernel, 3}, strides[] = {stride, 1};
            bo_windows same = bo_nn_windows_same(image, kernels, strides);
            assert_image(same, (7 + stride - 1) / stride, 10);
            assert_true(same.height.after == same.height.before || same.height.after == same.height.before + 1);
        }
}

/* ---- networks ---------------------------------------------------------------------------------------------------- */

typedef struct network {
    bo_context *context;
    bo_weights *weights;
    bo_graph *graph;
    bo_value x, y;
} network;

/* Convolution, batch norm, relu, pooling, grouped convolution, global pooling; the targets of the loss are ones. */
static void build(network *n, bool checkpoint)
{
    const size_t two[] = {2, 2};
    *n = (network){.context = test_context(2)};
    assert_ok(n->context, bo_weights_create(n->context, &n->weights));
    assert_ok(n->context, bo_graph_create(n->context, n->weights, &n->graph));
    bo_graph *g = n->graph;
    n->x = bo_graph_input(g, "x", BO_ELEMENT_FLOAT32, PIXELS, CHANNELS);
    n->y = bo_graph_input(g, "y", BO_ELEMENT_FLOAT32, IMAGES, 2 * OUT);
    bo_image image = {SIDE, SIDE};
    bo_convolution_layer first = {.windows = bo_nn_windows(image, 3, 1, 1), .out = OUT, .relu = true};
    bo_graph_segment(g, true);
    bo_value h = bo_nn_convolution(g, "conv1", n->x, &first);
    h = bo_nn_batch_norm(g, "norm", h, 0, 0.5);
    h = bo_graph_one(g, BO_OPERATION_UNARY, &(bo_unary_attributes){.function = BO_UNARY_RELU}, 1, &h);
    bo_graph_segment(g, false);
    bo_windows halves = bo_nn_windows(bo_nn_image_after(&first.windows), 2, 2, 0);
    h = bo_nn_pool(g, h, BO_POOL_KIND_MAX, &halves);
    bo_convolution_layer second = {.windows = bo_nn_windows_same(bo_nn_image_after(&halves), two, two),
                                   .out = 2 * OUT,
                                   .groups = OUT,
                                   .bias = true};
    h = bo_nn_convolution(g, "conv2", h, &second);
    bo_windows all = bo_nn_windows_all(bo_nn_image_after(&second.windows));
    h = bo_nn_pool(g, h, BO_POOL_KIND_MEAN, &all);
    bo_value loss = bo_graph_one(g, BO_OPERATION_LOSS, &(bo_loss_attributes){0}, 2, (bo_value[]){h, n->y});
    bo_graph_compile_desc desc = {.loss = loss, .gradients = true, .checkpoint = checkpoint};
    assert_ok(n->context, bo_graph_compile(n->context, g, &desc));
    assert_ok(n->context, bo_weights_allocate(n->context, n->weights, true));
    assert_ok(n->context, bo_weights_init(n->context, n->weights, 7));
    assert_ok(n->context, bo_graph_allocate(n->context, g));
}

static void run(network *n, bool training)
{
    float x[PIXELS * CHANNELS], y[IMAGES * 2 * OUT];
    bo_rng rng = bo_rng_make(1, 2);
    for (size_t i = 0; i < PIXELS * CHANNELS; i++) x[i] = (float)(1 + bo_rng_normal(&rng));
    for (size_t i = 0; i < IMAGES * 2 * OUT; i++) y[i] = 1;
    assert_ok(n->context, bo_graph_write(n->context, n->graph, n->x, x));
    assert_ok(n->context, bo_graph_write(n->context, n->graph, n->y, y));
    assert_ok(n->context, bo_graph_run(n->context, n->graph, &(bo_graph_pass){.training = training}));
}

static void drop(network *n)
{
    bo_graph_destroy(n->graph);
    bo_weights_destroy(n->weights);
    bo_context_destroy(n->context);
}

static void weights_are_as_files_have_them(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        size_t rank, shape[4], rows, columns;
        bool frozen;
    } expected[] = {{"conv1.weight", 4, {OUT, 3, 3, CHANNELS}, OUT, 9 * CHANNELS, false},
                    {"norm.weight", 1, {OUT}, 1, OUT, false},
                    {"norm.bias", 1, {OUT}, 1, OUT, false},
                    {"norm.running_mean", 1, {OUT}, 1, OUT, true},
                    {"norm.running_var", 1, {OUT}, 1, OUT, true},
                    {"conv2.weight", 4, {2 * OUT, 2, 2, 1}, 2 * OUT, 4, false},
                    {"conv2.bias", 1, {2 * OUT}, 1, 2 * OUT, false}};
    network n;
    build(&n, false);
    assert_int_equal(bo_weights_count(n.weights), sizeof expected / sizeof *expected);
    for (size_t i = 0; i < bo_weights_count(n.weights); i++) {
        const bo_weight *w = bo_weights_at(n.weights, i);
        assert_string_equal(w->name, expected[i].name);
        assert_int_equal(w->rank, expected[i].rank);
        assert_memory_equal(w->shape, expected[i].shape, w->rank * sizeof *w->shape);
        assert_true(w->rows == expected[i].rows && w->columns == expected[i].columns);
        assert_true(w->frozen == expected[i].frozen && !w->gradient == w->frozen);
    }
    /* √(2 / 18): the mean square of 90 numbers is within 5 standard deviations, √(1 / 180) relative */
    const bo_weight *w = bo_weights_find(n.weights, "conv1.weight");
    double squares = 0;
    for (size_t i = 0; i < 90; i++) squares += pow((double)((const float *)w->data)[i], 2) / 90;
    assert_close(sqrt(squares * 9), 1, 5 * sqrt(1.0 / 180));
    drop(&n);
}

/* Training updates the running statistics once, even if a segment is computed twice; evaluation does not. */
static void statistics_move_once(void **state)
{
    (void)state;
    float kept[2][OUT], gradients[2][OUT * 9 * CHANNELS];
    for (int checkpoint = 0; checkpoint < 2; checkpoint++) {
        network n;
        build(&n, checkpoint);
        const bo_weight *mean = bo_weights_find(n.weights, "norm.running_mean");
        const bo_weight *w = bo_weights_find(n.weights, "conv1.weight");
        run(&n, false);
        for (size_t j = 0; j < OUT; j++) assert_true(((const float *)mean->data)[j] == 0);
        memset(w->gradient, 0, sizeof gradients[0]);
        run(&n, true);
        memcpy(kept[checkpoint], mean->data, sizeof kept[0]);
        memcpy(gradients[checkpoint], w->gradient, sizeof gradients[0]);
        drop(&n);
    }
    for (size_t j = 0; j < OUT; j++) assert_true(kept[0][j] != 0);
    assert_memory_equal(kept[0], kept[1], sizeof kept[0]);
    assert_memory_equal(gradients[0], gradients[1], sizeof gradients[0]);
}

static void refusals_name_the_layer(void **state)
{
    (void)state;
    network n = {.context = test_context(1)};
    assert_ok(n.context, bo_weights_create(n.context, &n.weights));
    assert_ok(n.context, bo_graph_create(n.context, n.weights, &n.graph));
    bo_value x = bo_graph_input(n.graph, "x", BO_ELEMENT_FLOAT32, 12, 3);
    bo_graph_scope(n.graph, "layer 2 (conv)");
    bo_convolution_layer desc = {.windows = bo_nn_windows((bo_image){3, 4}, 5, 1, 0), .out = 4};
    bo_nn_convolution(n.graph, "conv", x, &desc);
    assert_int_equal(bo_graph_compile(n.context, n.graph, &(bo_graph_compile_desc){0}), BO_INVALID);
    assert_non_null(strstr(bo_context_error(n.context), "layer 2 (conv)"));
    assert_non_null(strstr(bo_context_error(n.context), "the kernel's height is 5, expected at most 3"));
    drop(&n);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(windows_have_sizes),
        cmocka_unit_test(weights_are_as_files_have_them),
        cmocka_unit_test(statistics_move_once),
        cmocka_unit_test(refusals_name_the_layer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
