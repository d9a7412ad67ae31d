/* Networks with every type of layer and every example: gradients of all weights compared with differences of a loss
 * that is computed in double by references only (tests/model/interpreter.h). Tolerances as in
 * tests/model/gradients.h. */
#include "networks.h"
#include "model/interpreter.h"
#include "tape/gradients.h"

enum { BATCH = 4, SLACK = 12 };
#define NOISE 0x1p-23

/* A graph that is planned, has memory, and contains rows. */
static bo_model_graph graph_of(bo_context *context, bo_model *network, const bo_examples *examples)
{
    bo_model_graph g;
    const bo_model_graph_desc desc = {.data = examples, .examples = BATCH, .loss = true, .gradients = true};
    const size_t rows[BATCH] = {3, 8, 21, 34};
    assert_ok(context, bo_weights_allocate(context, network->weights, true));
    assert_ok(context, bo_model_graph_create(context, network, &desc, &g));
    assert_ok(context, bo_graph_allocate(context, g.graph));
    assert_ok(context,
              bo_model_graph_fill(context, network, &g, &(bo_model_batch){.examples = examples, .rows = rows}, NULL));
    return g;
}

/* Copies the inputs of the graph to double. */
static void give_inputs(bo_context *context, const bo_model_graph *g, interpreter *in)
{
    for (size_t v = 1; v < g->graph->tensors.count; v++) {
        const bo_graph_tensor *tensor = bo_graph_tensor_at(g->graph, (bo_value)v);
        const size_t count = tensor->rows * tensor->columns;
        if (tensor->origin != BO_ORIGIN_INPUT) continue;
        float *host = malloc(count * sizeof *host);
        assert_ok(context, bo_graph_read(context, g->graph, (bo_value)v, host));
        for (size_t i = 0; i < count; i++) {
            if (tensor->element == BO_ELEMENT_INT32)
                in->tensors[v].index[i] = ((int32_t *)host)[i];
            else
                in->tensors[v].x[i] = (double)host[i];
        }
        free(host);
    }
}

/* The random mask of a dropout or noise node, obtained by applying the operation to ones or zeros. */
static double *mask_of(bo_context *context, const bo_node *node, bo_operation kind, const bo_graph *graph,
                       const bo_graph_pass *pass)
{
    const bo_graph_tensor *in = bo_graph_tensor_at(graph, node->in[0]);
    const size_t count = in->rows * in->columns;
    const bo_noise_attributes *noise = node->attributes;
    const bo_dropout_attributes *dropout = node->attributes;
    const bool added = kind == BO_OPERATION_NOISE && noise->kind == BO_NOISE_NORMAL;
    float *host = malloc(count * sizeof *host);
    double *mask = plain_zeros(count);
    bo_weights *none;
    bo_graph *single;
    assert_ok(context, bo_weights_create(context, &none));
    assert_ok(context, bo_graph_create(context, none, &single));
    const bo_value x = bo_graph_input(single, "x", BO_ELEMENT_FLOAT32, in->rows, in->columns);
    const bo_value y = bo_graph_one(single, kind, node->attributes, 1, &x);
    bo_graph_keep(single, y);
    assert_ok(context, bo_graph_compile(context, single, &(bo_graph_compile_desc){0}));
    assert_ok(context, bo_weights_allocate(context, none, false));
    assert_ok(context, bo_graph_allocate(context, single));
    for (size_t i = 0; i < count; i++) host[i] = added ? 0 : 1;
    assert_ok(context, bo_graph_write(context, single, x, host));
    assert_ok(context, bo_graph_run(context, single, pass));
    assert_ok(context, bo_graph_read(context, single, y, host));
    for (size_t i = 0; i < count; i++)
        mask[i] = (double)host[i] * (kind == BO_OPERATION_DROPOUT ? 1 - dropout->rate : 1);
    bo_graph_destroy(single);
    bo_weights_destroy(none);
    free(host);
    return mask;
}

static void give_masks(bo_context *context, const bo_model_graph *g, const bo_graph_pass *pass, interpreter *in)
{
    in->masks = calloc(g->graph->nodes.count, sizeof *in->masks);
    for (size_t i = 0; i < g->graph->nodes.count; i++) {
        const bo_node *node = bo_node_at(g->graph, i);
        const bo_operation kind = interpreter_kind(in, node->op);
        if (kind == BO_OPERATION_DROPOUT || kind == BO_OPERATION_NOISE)
            in->masks[i] = mask_of(context, node, kind, g->graph, pass);
    }
}

static void drop_masks(const bo_model_graph *g, interpreter *in)
{
    for (size_t i = 0; i < g->graph->nodes.count; i++) free(in->masks[i]);
    free(in->masks);
}

static double largest_of(const float *x, size_t count)
{
    double largest = 0;
    for (size_t i = 0; i < count; i++) largest = fmax(largest, fabs((double)x[i]));
    return largest;
}

/* Along one random direction over all numbers of the weight. */
static void check_weight(interpreter *in, const char *name, size_t index, const float *all, double any)
{
    const bo_weight *w = bo_weights_at(in->graph->weights, index);
    const size_t count = weight_numbers(w);
    const float *gradient = all + w->offset;
    double *u = plain_zeros(count), found = 0, reach = 0, moved = 0;
    bo_rng rng = bo_rng_make(index, bo_rng_stream("test.direction", 0));
    for (size_t i = 0; i < count; i++) u[i] = bo_rng_normal(&rng);
    for (size_t i = 0; i < count; i++) found += u[i] * (double)gradient[i], reach += u[i] * u[i];
    in->noise = 0;
    const double truth = interpreter_derivative(in, index, u, 1e-5);
    in->noise = NOISE;
    for (in->seed = 1; in->seed <= 2; in->seed++)
        moved = fmax(moved, fabs(interpreter_derivative(in, index, u, 1e-5) - truth));
    const double tolerance = SLACK * moved + 0x1p-23 * (16 * largest_of(gradient, count) + any) * sqrt(reach);
    if (!(fabs(found - truth) <= tolerance))
        fail_msg("%s: the gradient of %s is %.9g, expected %.9g within %.3g", name, w->name, found, truth, tolerance);
    free(u);
}

/* Changes all weights: output weights of blocks start at zero, so the inside of a block would have no gradient. */
static void stir(bo_model *network)
{
    for (size_t i = 0; i < bo_weights_count(network->weights); i++) {
        const bo_weight *w = bo_weights_at(network->weights, i);
        bo_rng rng = bo_rng_make(11, bo_rng_stream(w->name, 0));
        float *values = w->data;
        for (size_t j = 0; !w->frozen && j < w->rows * w->columns; j++)
            values[j] += (float)(0.2 / sqrt((double)w->columns) * bo_rng_normal(&rng));
    }
}

static void check(bo_context *context, const char *name, const char *model, const bo_examples *examples, double width)
{
    const bo_graph_pass pass = {.training = true, .seed = 5};
    const bo_description desc = {.text = model, .examples = examples, .width_multiplier = width, .seed = 7};
    bo_model *network;
    assert_ok(context, bo_model_create_described(context, &desc, &network));
    stir(network);
    /* the reference does not drop edges */
    for (size_t i = 0; i < network->network->count; i++) network->network->layers[i].options.edges = 0;
    bo_model_graph g = graph_of(context, network, examples);
    const size_t floats = bo_weights_floats(network->weights);
    interpreter in = interpreter_create(context, g.graph, &pass); /* before running statistics change */
    give_inputs(context, &g, &in);
    give_masks(context, &g, &pass, &in);
    gradients_clear(network->weights);
    assert_ok(context, bo_graph_run(context, g.graph, &pass));
    float *all = malloc(floats * sizeof *all);
    gradients_copy(network->weights, all);
    float loss;
    assert_ok(context, bo_graph_read(context, g.graph, g.loss, &loss));
    const double truth = interpreter_run(&in);
    if (!(fabs((double)loss - truth) <= 1e-4 * (1 + fabs(truth))))
        fail_msg("%s: the loss is %.9g, expected %.9g", name, (double)loss, truth);
    const double any = largest_of(all, floats);
    assert_true(any > 0);
    for (size_t i = 0; i < bo_weights_count(network->weights); i++)
        if (!bo_weights_at(network->weights, i)->frozen) check_weight(&in, name, i, all, any);
    free(all);
    drop_masks(&g, &in);
    interpreter_drop(&in);
    bo_model_graph_destroy(&g);
    bo_model_destroy(network);
}

static void test_layers(void **state)
{
    (void)state;
    bo_context *context = test_context(2);
    for (size_t i = 0; i < LAYER_CASES; i++) {
        made *m = made_new(context, layer_cases[i].dim, 2, layer_cases[i].graph);
        char *text = layer_case_text(&layer_cases[i]);
        check(context, layer_cases[i].name, text, m->examples, 1);
        free(text);
        made_free(m);
    }
    bo_context_destroy(context);
}

/* The example networks with fewer channels: finite differences of whole networks are slow. */
static void test_examples(void **state)
{
    static const struct {
        const char *name;
        size_t dim, classes;
        bool graph;
        double width;
    } examples[] = {
        {"mlp", 784, 3, false, 0.02},          {"cnn", 784, 3, false, 0.05},       {"graph", 6, 3, true, 0.1},
        {"autoencoder", 12, 0, false, 0.1},    {"denoising", 784, 0, false, 0.01}, {"masked", 784, 0, false, 0.0625},
        {"random-features", 5, 0, false, 0.02}};
    (void)state;
    bo_context *context = test_context(2);
    for (size_t i = 0; i < sizeof examples / sizeof *examples; i++) {
        made *m = made_new(context, examples[i].dim, examples[i].classes, examples[i].graph);
        char *text = example_text(examples[i].name);
        bo_model *wide;
        const bo_description desc = {.text = text, .examples = m->examples};
        assert_ok(context, bo_model_create_described(context, &desc, &wide)); /* unchanged */
        bo_model_destroy(wide);
        check(context, examples[i].name, text, m->examples, examples[i].width);
        free(text);
        made_free(m);
    }
    bo_context_destroy(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_layers), cmocka_unit_test(test_examples)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
