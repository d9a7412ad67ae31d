/* The degree of layers: products of DEGREE_d before their norm, and layers of network descriptions, scale as t^d if all
 * tokens are multiplied by t. */
#include <bochner/network.h>
#include "nn/nn.h"
#include "nn/internal.h"
#include "testing.h"

enum { ROWS = 12, TOKENS = 6, WIDTH = 8, HIDDEN = 12, DEGREES = 4 };

static const struct degree {
    const char *name;
    double value;
    bo_mlp mlp;
    bo_mixer mixer;
} degrees[DEGREES] = {{"2", 2, BO_MLP_DEGREE_2, BO_MIXER_DEGREE_2},
                      {"e", BO_NN_E, BO_MLP_DEGREE_E, BO_MIXER_DEGREE_E},
                      {"3", 3, BO_MLP_DEGREE_3, BO_MIXER_DEGREE_3},
                      {"4", 4, BO_MLP_DEGREE_4, BO_MIXER_DEGREE_4}};

static double size_of(size_t count, const float *y)
{
    double sum = 0;
    for (size_t i = 0; i < count; i++) sum += (double)y[i] * (double)y[i];
    return sqrt(sum);
}

static void draw_rows(float x[ROWS * WIDTH])
{
    bo_rng rng = bo_rng_make(1, bo_rng_stream("test.degree", 0));
    for (size_t i = 0; i < ROWS * WIDTH; i++) x[i] = (float)bo_rng_normal(&rng);
}

/* Rounding changes sizes by at most 1e-5, and log t is at least 0.69. */
static void check_power(const char *label, const struct degree *degree, double t, double first, double second)
{
    const double found = log(second / first) / log(t);
    if (!(fabs(found - degree->value) < 1e-3))
        fail_msg("%s of degree %s: sizes %g and %g are the power %g of %g", label, degree->name, first, second, found,
                 t);
}

/* ---- products on the tape ---------------------------------------------------------------------------------------- */

typedef struct bench {
    bo_context *context;
    bo_weights *weights;
    bo_graph *graph;
    bo_value x, positions;
} bench;

static void open_bench(bench *b)
{
    b->context = test_context(1);
    assert_ok(b->context, bo_weights_create(b->context, &b->weights));
    assert_ok(b->context, bo_graph_create(b->context, b->weights, &b->graph));
    b->x = bo_graph_input(b->graph, "x", BO_ELEMENT_FLOAT32, ROWS, WIDTH);
    b->positions = bo_graph_input(b->graph, "positions", BO_ELEMENT_INT32, ROWS, 1);
}

static double run_at(bench *b, double t, bo_value out, size_t count)
{
    float x[ROWS * WIDTH], y[ROWS * HIDDEN];
    draw_rows(x);
    for (size_t i = 0; i < ROWS * WIDTH; i++) x[i] *= (float)t;
    assert_ok(b->context, bo_graph_write(b->context, b->graph, b->x, x));
    assert_ok(b->context, bo_graph_run(b->context, b->graph, &(bo_graph_pass){0}));
    assert_ok(b->context, bo_graph_read(b->context, b->graph, out, y));
    return size_of(count, y);
}

static void measure(bench *b, const char *label, const struct degree *degree, bo_value out)
{
    static const double scales[] = {0.25, 2, 10};
    int32_t positions[ROWS];
    for (size_t i = 0; i < ROWS; i++) positions[i] = (int32_t)(i % TOKENS);
    bo_graph_keep(b->graph, out);
    assert_ok(b->context, bo_graph_compile(b->context, b->graph, &(bo_graph_compile_desc){0}));
    assert_ok(b->context, bo_weights_allocate(b->context, b->weights, false));
    assert_ok(b->context, bo_weights_init(b->context, b->weights, 5));
    assert_ok(b->context, bo_graph_allocate(b->context, b->graph));
    assert_ok(b->context, bo_graph_write(b->context, b->graph, b->positions, positions));
    const size_t count = ROWS * bo_graph_columns(b->graph, out);
    const double first = run_at(b, 1, out, count);
    assert_true(first > 0);
    for (size_t i = 0; i < sizeof scales / sizeof *scales; i++)
        check_power(label, degree, scales[i], first, run_at(b, scales[i], out, count));
    bo_graph_destroy(b->graph);
    bo_weights_destroy(b->weights);
    bo_context_destroy(b->context);
}

static void test_mlps(void **unused)
{
    (void)unused;
    for (size_t i = 0; i < DEGREES; i++) {
        bench b;
        open_bench(&b);
        const bo_block block = {.mlp = degrees[i].mlp, .hidden = HIDDEN};
        measure(&b, "MLP", &degrees[i], bo_nn_degree_product(b.graph, "mlp", b.x, &block));
    }
}

static void test_mixers(void **unused)
{
    (void)unused;
    for (size_t i = 0; i < DEGREES; i++) {
        bench b;
        bo_attention *attention;
        bo_attention_desc desc = bo_nn_mixer_attention();
        open_bench(&b);
        desc.heads = 2, desc.dim = WIDTH / 2;
        assert_ok(b.context, bo_attention_create(b.context, &desc, &attention));
        const bo_block block = {.mixer = degrees[i].mixer,
                                .heads = 2,
                                .positions = BO_POSITIONS_ROPE,
                                .rope_base = 10000,
                                .output_norm = BO_CHOICE_YES,
                                .sigma = 1};
        const bo_branch layer = {.block = &block, .attention = attention, .width = WIDTH, .tokens = TOKENS};
        measure(&b, "mixer", &degrees[i], bo_nn_mixer_product(b.graph, "mixer", b.x, b.positions, &layer));
        bo_attention_destroy(attention);
    }
}

/* ---- layers of descriptions -------------------------------------------------------------------------------------- */

/* Size of the predictions of a linear readout without bias for inputs of size t. */
static double size_at(bo_context *context, const char *model, double t)
{
    enum { EXAMPLES = ROWS / TOKENS, DIM = TOKENS * WIDTH };
    float x[ROWS * WIDTH], out[EXAMPLES];
    double y[EXAMPLES] = {-1, 1};
    bo_examples *examples;
    bo_model *network;
    draw_rows(x);
    for (size_t i = 0; i < ROWS * WIDTH; i++) x[i] *= (float)t;
    const bo_examples_arrays arrays = {.rows = EXAMPLES, .dim = DIM, .targets = 1, .x = x, .y = y};
    assert_ok(context, bo_examples_create(context, &arrays, &examples));
    assert_ok(context, bo_model_create_described(
                           context, &(bo_description){.text = model, .examples = examples, .seed = 3}, &network));
    assert_ok(context, bo_model_predict(context, network, examples, BO_SPLIT_ALL, out));
    bo_model_destroy(network);
    bo_examples_destroy(examples);
    return size_of(EXAMPLES, out);
}

/* The norm of a product is y / √(mean y² + 1). For inputs of size t it changes the exponent by less than mean y² =
 * O(t^4), 1e-5 for t up to 0.04. */
static void check_description(const char *label, const struct degree *degree, const char *layer, const double t[2])
{
    char model[512];
    bo_context *context = test_context(1);
    snprintf(model, sizeof model,
             "{\"input\": {\"kind\": \"sequence\", \"length\": %d, \"channels\": %d, \"standardize\": false}, "
             "\"layers\": [%s, {\"type\": \"flatten\"}, {\"type\": \"linear\", \"width\": \"targets\", \"bias\": "
             "false}], \"loss\": \"mse\"}",
             TOKENS, WIDTH, layer);
    check_power(label, degree, t[1] / t[0], size_at(context, model, t[0]), size_at(context, model, t[1]));
    bo_context_destroy(context);
}

static void test_descriptions(void **unused)
{
    (void)unused;
    static const double small[] = {0.02, 0.04}, any[] = {0.5, 3};
    for (size_t i = 0; i < DEGREES; i++) {
        char layer[256];
        const char *name = degrees[i].name;
        snprintf(layer, sizeof layer, "{\"type\": \"degree\", \"degree\": \"%s\", \"width\": 5}", name);
        check_description("layer", &degrees[i], layer, small);
        snprintf(layer, sizeof layer, "{\"type\": \"degree\", \"degree\": \"%s\", \"width\": 5, \"norm\": false}",
                 name);
        check_description("layer without norm", &degrees[i], layer, any);
        snprintf(layer, sizeof layer, "{\"type\": \"mixer\", \"kind\": \"degree-%s\", \"heads\": 2, \"output\": false}",
                 name);
        check_description("mixer without output", &degrees[i], layer, small);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_mlps), cmocka_unit_test(test_mixers),
                                       cmocka_unit_test(test_descriptions)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
