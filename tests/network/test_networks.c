/* Valid networks: shapes, widths, order, files, predictions; and every allocation fails once. */
#include <bochner/names.h>
#include "networks.h"
#include "base/counting.h"
#include "io/bytes.h"
#include "io/files.h"
#include "io/tensors.h"
#include "tape/internal.h"

/* ---- shapes and widths ------------------------------------------------------------------------------------------- */

static void expect_layer(const bo_model *network, size_t index, const char *name, const char *shape, uint64_t weights)
{
    const bo_layer_info *layer = &bo_model_report(network)->network->layer[index];
    assert_string_equal(layer->name, name);
    assert_string_equal(layer->shape, shape);
    assert_int_equal(layer->weights, weights);
}

static void test_shapes(void **state)
{
    test_directory *directory = *state;
    bo_context *context = directory->context;
    made *m = made_new(context, 784, 3, false);
    char *text = example_text("cnn");
    bo_model *network = network_new(context, text, m->examples);
    expect_layer(network, 0, "conv1", "28 x 28 x 24", 24 * 9 + 24);
    expect_layer(network, 1, "batchnorm.2", "28 x 28 x 24", 4 * 24);
    expect_layer(network, 3, "pool.4", "14 x 14 x 24", 0);
    expect_layer(network, 8, "flatten.9", "2352", 0);
    expect_layer(network, 12, "linear.13", "3", 97 * 3);
    assert_int_equal(bo_model_report(network)->network->layers, 13);
    bo_model_destroy(network);
    const bo_description twice = {.text = text, .examples = m->examples, .width_multiplier = 2};
    assert_ok(context, bo_model_create_described(context, &twice, &network));
    expect_layer(network, 4, "conv2", "14 x 14 x 96", 96 * 9 * 48 + 96);
    expect_layer(network, 12, "linear.13", "3", 193 * 3); /* the output width does not change */
    bo_model_destroy(network);
    free(text);
    made_free(m);
}

/* Images as sequences: the maps of "linear" determine their number of features, the others have a setting. */
static void test_patches(void **state)
{
    test_directory *directory = *state;
    bo_context *context = directory->context;
    made *m = made_new(context, 784, 3, false);
    char *exact = example_text("patches-softmax"), *linear = example_text("patches-linear");
    const char *const texts[] = {exact, linear};
    for (size_t i = 0; i < 2; i++) {
        bo_model *network = network_new(context, texts[i], m->examples);
        expect_layer(network, 0, "patches", "7 x 7 x 64", 64 * 16 + 64);
        expect_layer(network, 1, "places", "7 x 7 x 64", 49 * 64);
        assert_string_equal(bo_model_report(network)->network->layer[5].shape, "7 x 7 x 64");
        expect_layer(network, 7, "pool.8", "64", 0);
        expect_layer(network, 8, "linear.9", "3", 65 * 3);
        bo_model_destroy(network);
    }
    free(exact);
    free(linear);
    for (unsigned i = 0; bo_enum_name(BO_ENUM_ATTENTION_PRESET, (int)i); i++) {
        char text[512];
        snprintf(text, sizeof text,
                 "{\"input\": {\"kind\": \"sequence\", \"length\": 98, \"channels\": 8}, \"layers\": [{\"type\": "
                 "\"attention\", \"kind\": \"%s\"}, {\"type\": \"last\"}, {\"type\": \"linear\", \"width\": "
                 "\"classes\"}], \"loss\": \"cross-entropy\"}",
                 bo_enum_name(BO_ENUM_ATTENTION_PRESET, (int)i));
        const bo_description desc = {.text = text, .examples = m->examples};
        bo_model *network;
        assert_ok(context, bo_model_create_described(context, &desc, &network));
        bo_model_destroy(network);
    }
    made_free(m);
}

/* Layers in any order in the file, connected by name. */
static void test_order(void **state)
{
    test_directory *directory = *state;
    bo_context *context = directory->context;
    made *m = made_new(context, 8, 2, false);
    bo_model *network = network_new(
        context,
        "{\"input\": {\"kind\": \"array\"}, \"layers\": [{\"name\": \"out\", \"type\": \"linear\", \"width\": "
        "\"classes\", \"from\": \"sum\"}, {\"name\": \"sum\", \"type\": \"add\", \"from\": [\"a\", \"b\"]}, {\"name\": "
        "\"b\", \"type\": \"tanh\", \"from\": \"a\"}, {\"name\": \"a\", \"type\": \"linear\", \"width\": 5, \"from\": "
        "\"input\"}], \"output\": \"out\", \"loss\": \"cross-entropy\"}",
        m->examples);
    expect_layer(network, 0, "a", "5", 45);
    expect_layer(network, 1, "b", "5", 0);
    expect_layer(network, 2, "sum", "5", 0);
    expect_layer(network, 3, "out", "2", 12);
    bo_model_destroy(network);
    made_free(m);
}

/* ---- predictions ------------------------------------------------------------------------------------------------- */

static float *predict(bo_context *context, const bo_model *network, const bo_examples *examples, bo_split part)
{
    const size_t count = bo_examples_rows(examples, part) * bo_model_report(network)->network->outputs;
    float *out = calloc(count, sizeof *out);
    assert_ok(context, bo_model_predict(context, network, examples, part, out));
    return out;
}

/* Probabilities sum to 1 and agree with the loss and accuracy of the evaluation. */
static void test_predictions(void **state)
{
    test_directory *directory = *state;
    bo_context *context = directory->context, *many = test_context(3);
    made *m = made_new(context, 8, 3, false);
    char *text = layer_case_text(layer_case_named("joins"));
    bo_model *network = network_new(context, text, m->examples);
    float *p = predict(context, network, m->examples, BO_SPLIT_ALL);
    float *again = predict(many, network, m->examples, BO_SPLIT_ALL);
    assert_memory_equal(p, again, MADE_ROWS * 3 * sizeof *p);
    double loss = 0, right = 0;
    for (size_t i = 0; i < MADE_ROWS; i++) {
        const float *row = p + 3 * i;
        const size_t class = (size_t)m->y[i], best = row[1] > row[0] ? 1 : 0;
        assert_close((double)row[0] + (double)row[1] + (double)row[2], 1, 1e-6);
        right += (row[2] > row[best] ? 2 : best) == class;
        loss -= log((double)row[class]) / MADE_ROWS;
    }
    bo_examples_evaluation found;
    assert_ok(context, bo_model_evaluate_examples(context, network, m->examples, BO_SPLIT_ALL, &found));
    assert_close(found.loss, loss, 1e-5 * (1 + loss));
    assert_close(found.accuracy, right / MADE_ROWS, 1e-12);
    assert_true(isnan(found.rmse));
    assert_int_equal(found.examples, MADE_ROWS);
    assert_ok(context, bo_examples_split(context, m->examples, 0.25, 0.25, 3));
    float *part = predict(context, network, m->examples, BO_SPLIT_TEST);
    for (size_t i = 0; i < bo_examples_rows(m->examples, BO_SPLIT_TEST); i++)
        assert_memory_equal(part + 3 * i, p + 3 * bo_examples_row(m->examples, BO_SPLIT_TEST, i), 3 * sizeof *p);
    free(p), free(again), free(part), free(text);
    bo_model_destroy(network);
    made_free(m);
    bo_context_destroy(many);
}

/* Predictions are in the unit of the targets: a network with zero weights predicts their mean. */
static void test_units(void **state)
{
    test_directory *directory = *state;
    bo_context *context = directory->context;
    made *m = made_new(context, 4, 0, false);
    bo_model *network = network_new(context,
                                    "{\"input\": {\"kind\": \"array\"}, \"layers\": [{\"type\": \"linear\", "
                                    "\"width\": \"targets\"}], \"loss\": \"mse\"}",
                                    m->examples);
    memset(bo_weights_data(network->weights), 0, bo_weights_floats(network->weights) * sizeof(float));
    double mean = 0, square = 0;
    for (size_t i = 0; i < MADE_ROWS; i++) mean += m->y[i] / MADE_ROWS;
    for (size_t i = 0; i < MADE_ROWS; i++) square += pow(m->y[i] - mean, 2) / MADE_ROWS;
    float *p = predict(context, network, m->examples, BO_SPLIT_ALL);
    for (size_t i = 0; i < MADE_ROWS; i++) assert_close((double)p[i], mean, 1e-5);
    bo_examples_evaluation found;
    assert_ok(context, bo_model_evaluate_examples(context, network, m->examples, BO_SPLIT_ALL, &found));
    assert_close(found.rmse, sqrt(square), 1e-5);
    assert_close(found.loss, 1, 1e-5); /* for standardized targets */
    free(p);
    bo_model_destroy(network);
    made_free(m);
}

/* |Z Wᵀ - Y|² + λ (|W|² + |b|²) of the training part, in units of the scaled targets. */
static double ridge_objective(bo_context *context, const bo_model *network, const made *m, double lambda)
{
    bo_examples_evaluation found;
    double sum = 0;
    assert_ok(context, bo_model_evaluate_examples(context, network, m->examples, BO_SPLIT_ALL, &found));
    for (size_t i = 0; i < bo_weights_count(network->weights); i++) {
        const bo_weight *w = bo_weights_at(network->weights, i);
        const float *values = w->data;
        for (size_t j = 0; strncmp(w->name, "out.", 4) == 0 && j < w->rows * w->columns; j++)
            sum += pow((double)values[j], 2);
    }
    return MADE_ROWS * found.loss + lambda * sum;
}

/* The readout of ridge regression is the minimum: along any line the objective is a parabola with its minimum there. */
static void test_readout(void **state)
{
    test_directory *directory = *state;
    bo_context *context = directory->context;
    const double lambda = 0.5;
    made *m = made_new(context, 5, 0, false);
    bo_model *network = network_new(context,
                                    "{\"input\": {\"kind\": \"array\"}, \"layers\": [{\"type\": "
                                    "\"random-features\", \"features\": 24}, {\"name\": \"out\", \"type\": "
                                    "\"linear\", \"width\": \"targets\"}], \"loss\": \"mse\"}",
                                    m->examples);
    const double before = ridge_objective(context, network, m, lambda);
    assert_ok(context, bo_model_solve(context, network, m->examples, lambda));
    const double minimum = ridge_objective(context, network, m, lambda);
    assert_true(minimum < before);
    const bo_weight *weight = bo_weights_find(network->weights, "out.weight");
    float *values = weight->data;
    bo_rng rng = bo_rng_make(1, bo_rng_stream("test.readout", 0));
    for (size_t line = 0; line < 4; line++) {
        double sides[2];
        float u[24], kept[24];
        for (size_t i = 0; i < 24; i++) u[i] = (float)(0.1 * bo_rng_normal(&rng)), kept[i] = values[i];
        for (int side = 0; side < 2; side++) {
            for (size_t i = 0; i < 24; i++) values[i] = kept[i] + (side ? u[i] : -u[i]);
            sides[side] = ridge_objective(context, network, m, lambda);
        }
        memcpy(values, kept, sizeof kept);
        const double height = sides[0] + sides[1] - 2 * minimum;
        assert_true(height > 0);
        assert_close(sides[1] - sides[0], 0,
                     1e-3 * height); /* float32 outputs: 2⁻²⁴ of a sum several hundred times larger */
    }
    bo_model_destroy(network);
    network = network_new(context,
                          "{\"input\": {\"kind\": \"array\"}, \"layers\": [{\"type\": \"linear\", \"width\": 1}, "
                          "{\"type\": \"tanh\"}], \"loss\": \"mse\"}",
                          m->examples);
    assert_fails(context, BO_INVALID, "a linear layer at the end, found layer 2 (tanh)",
                 bo_model_solve(context, network, m->examples, 1));
    bo_model_destroy(network);
    made_free(m);
}

/* ---- blocks ------------------------------------------------------------------------------------------------------ */

/* Earlier outputs of a sequence depend on its last element only if the block is bidirectional. Outputs of other
 * examples never do. */
static void test_directions(void **state)
{
    enum { LENGTH = 6, CHANNELS = 4, NUMBERS = LENGTH * CHANNELS, EXAMPLES = 3 };
    static const struct {
        const char *block;
        bool sees; /* what follows */
    } cases[] = {{"\"attention\": \"softmax\"", true},
                 {"\"attention\": \"softmax\", \"causal\": true", false},
                 {"\"attention\": {\"preset\": \"favor\", \"features\": 8}", true},
                 {"\"attention\": {\"preset\": \"favor\", \"features\": 8}, \"causal\": true", false},
                 {"\"attention\": \"gated-delta\"", false}, /* always causal */
                 {"\"mixer\": \"ssm\"", false},
                 {"\"mixer\": \"conv\", \"kernel\": 3, \"causal\": true", false},
                 {"\"mixer\": \"mlp\", \"causal\": true", false},
                 {"\"mixer\": \"gru\", \"causal\": true", false}};
    test_directory *directory = *state;
    bo_context *context = directory->context;
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        char text[512];
        float x[EXAMPLES * NUMBERS], before[EXAMPLES * NUMBERS], after[EXAMPLES * NUMBERS];
        bo_rng rng = bo_rng_make(5, c);
        bo_examples *examples;
        snprintf(text, sizeof text,
                 "{\"input\": " SEQUENCE_INPUT
                 ", \"layers\": [{\"type\": \"block\", \"heads\": 2, %s}, {\"type\": \"flatten\"}], "
                 "\"loss\": {\"type\": \"mse\", \"target\": \"input\"}}",
                 cases[c].block);
        for (size_t i = 0; i < EXAMPLES * NUMBERS; i++) x[i] = (float)bo_rng_normal(&rng);
        const bo_examples_arrays arrays = {.rows = EXAMPLES, .dim = NUMBERS, .x = x};
        assert_ok(context, bo_examples_create(context, &arrays, &examples));
        bo_model *network = network_new(context, text, NULL);
        for (size_t i = 0; i < bo_weights_count(network->weights); i++) { /* some start at 0 */
            const bo_weight *w = bo_weights_at(network->weights, i);
            for (size_t j = 0; j < w->rows * w->columns; j++)
                ((float *)w->data)[j] += (float)(0.3 * bo_rng_normal(&rng));
        }
        assert_ok(context, bo_model_predict(context, network, examples, BO_SPLIT_ALL, before));
        x[NUMBERS + NUMBERS - 1] += 1; /* the last place of the second example */
        assert_ok(context, bo_model_predict(context, network, examples, BO_SPLIT_ALL, after));
        for (size_t e = 0; e < EXAMPLES; e++) {
            const float *a = before + e * NUMBERS, *b = after + e * NUMBERS;
            const bool early = memcmp(a, b, (NUMBERS - CHANNELS) * sizeof *a) != 0;
            const bool last = memcmp(a + NUMBERS - CHANNELS, b + NUMBERS - CHANNELS, CHANNELS * sizeof *a) != 0;
            if (early != (e == 1 && cases[c].sees) || last != (e == 1))
                fail_msg("%s: example %zu changes%s%s", cases[c].block, e, early ? " early" : "",
                         last ? " at its end" : "");
        }
        bo_model_destroy(network);
        bo_examples_destroy(examples);
    }
}

/* Every dropout and noise has a separate stream, inside and outside of blocks. */
static void test_streams(void **state)
{
    test_directory *directory = *state;
    bo_context *context = directory->context;
    const char *text =
        "{\"input\": " SEQUENCE_INPUT
        ", \"classes\": 2, \"layers\": [{\"type\": \"dropout\", \"rate\": 0.1}, {\"type\": "
        "\"block\", \"heads\": 2, \"dropout\": 0.1}, {\"type\": \"noise\", \"amount\": 1}, {\"type\": \"block\", "
        "\"heads\": 2, \"dropout\": 0.1, \"residual\": \"parallel\", \"layers\": [{\"type\": \"noise\", \"amount\": "
        "1}, {\"type\": \"dropout\", \"rate\": 0.1}]}, {\"type\": \"dropout\", \"rate\": 0.1}, {\"type\": "
        "\"last\"}, {\"type\": \"linear\", \"width\": \"classes\"}], \"loss\": \"cross-entropy\"}";
    bo_model *network = network_new(context, text, NULL);
    bo_model_graph g;
    uint64_t streams[16];
    size_t count = 0;
    assert_ok(context,
              bo_model_graph_create(context, network, &(bo_model_graph_desc){.examples = 2, .loss = true}, &g));
    for (size_t i = 0; i < g.graph->nodes.count; i++) {
        const bo_node *node = bo_node_at(g.graph, i);
        const bool drops = node->op == bo_backend_of(g.graph->device)->ops[BO_OPERATION_DROPOUT];
        const bool adds = node->op == bo_backend_of(g.graph->device)->ops[BO_OPERATION_NOISE];
        if (!drops && !adds) continue;
        const uint64_t stream = drops ? ((const bo_dropout_attributes *)node->attributes)->stream
                                      : ((const bo_noise_attributes *)node->attributes)->stream;
        for (size_t k = 0; k < count; k++) assert_true(streams[k] != stream);
        streams[count++] = stream;
    }
    assert_int_equal(count, 9); /* two of each block, and two in its list */
    bo_model_graph_destroy(&g);
    bo_model_destroy(network);
}

/* ---- files ------------------------------------------------------------------------------------------------------- */

static bo_model *through_memory(bo_context *context, const bo_model *network)
{
    bo_model *loaded;
    void *bytes;
    size_t size;
    assert_ok(context, bo_model_save(context, network, &(bo_sink){.bytes = &bytes, .size = &size}));
    assert_ok(context, bo_model_load(context, &(bo_source){.bytes = bytes, .size = size}, NULL, &loaded));
    bo_free(bytes);
    return loaded;
}

/* Every type of layer is restored from its directory and from memory with bitwise equal predictions. */
static void test_files(void **state)
{
    test_directory *directory = *state;
    bo_context *context = directory->context;
    for (size_t c = 0; c < LAYER_CASES; c++) {
        made *m = made_new(context, layer_cases[c].dim, 2, layer_cases[c].graph);
        char *text = layer_case_text(&layer_cases[c]);
        bo_model *network = network_new(context, text, m->examples), *loaded;
        assert_ok(context, bo_model_save(context, network, &(bo_sink){.path = directory->path}));
        assert_ok(context, bo_model_load(context, &(bo_source){.path = directory->path}, NULL, &loaded));
        float *p = predict(context, network, m->examples, BO_SPLIT_ALL);
        float *q = predict(context, loaded, m->examples, BO_SPLIT_ALL);
        if (memcmp(p, q, 2 * MADE_ROWS * sizeof *p) != 0) fail_msg("%s answers differently", layer_cases[c].name);
        assert_true(bo_model_fingerprint(network) == bo_model_fingerprint(loaded));
        bo_model_destroy(loaded);
        loaded = through_memory(context, network);
        free(q);
        q = predict(context, loaded, m->examples, BO_SPLIT_ALL);
        if (memcmp(p, q, 2 * MADE_ROWS * sizeof *p) != 0)
            fail_msg("%s answers differently from memory", layer_cases[c].name);
        free(p), free(q), free(text);
        bo_model_destroy(network);
        bo_model_destroy(loaded);
        made_free(m);
    }
}

static void write_text(test_directory *directory, const char *name, const char *text)
{
    assert_ok(directory->context, bo_file_save(directory->context, test_path(directory, name), text, strlen(text)));
}

/* Writes the file that described a network in earlier versions, with this format, from config.json, and removes
 * that. */
static void write_former(test_directory *directory, const char *format)
{
    bo_context *context = directory->context;
    char *saved, text[4096];
    size_t length;
    assert_ok(context,
              bo_bytes_text(context, test_path(directory, "config.json"), &bo_limits_network, &saved, &length));
    char *from = strstr(saved, "\"seed\""), *network = strstr(saved, "\"network\": ");
    assert_true(from && network);
    *network = 0;
    snprintf(text, sizeof text, "{\"bochner_network\": %s, %s\"model\": %s", format, from,
             network + strlen("\"network\": "));
    write_text(directory, "network.json", text);
    assert_int_equal(remove(test_path(directory, "config.json")), 0);
    bo_free(saved);
}

/* In files of format 1 of earlier versions, ridge attention is causal. */
static void test_earlier_ridge(void **state)
{
    test_directory *directory = *state;
    bo_context *context = directory->context;
    static const char *const kinds[] = {"\"ridge\"", "\"ridge\", \"causal\": true", "\"gated-ridge\"", "\"softmax\""};
    made *m = made_new(context, 24, 2, false);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        for (int format = 1; format <= 2; format++) {
            char layers[160];
            snprintf(layers, sizeof layers, "{\"type\": \"attention\", \"kind\": %s}, {\"type\": \"flatten\"}",
                     kinds[i]);
            const layer_case ridge = {"ridge", SEQUENCE_INPUT, layers, 24, false};
            char *text = layer_case_text(&ridge);
            bo_model *network = network_new(context, text, m->examples), *loaded;
            assert_ok(context, bo_model_save(context, network, &(bo_sink){.path = directory->path}));
            assert_ok(context, bo_model_load(context, &(bo_source){.path = directory->path}, NULL, &loaded));
            bo_model_destroy(loaded);
            write_former(directory, format == 1 ? "1" : "2");
            if (i == 0 && format == 1) {
                assert_fails(context, BO_VERSION, "ridge attention was always causal",
                             bo_model_load(context, &(bo_source){.path = directory->path}, NULL, &loaded));
            } else {
                assert_ok(context, bo_model_load(context, &(bo_source){.path = directory->path}, NULL, &loaded));
                bo_model_destroy(loaded);
            }
            free(text);
            bo_model_destroy(network);
        }
    made_free(m);
}

/* A description that does not match the weights of the file, or that is unknown. */
static void test_lies(void **state)
{
    test_directory *directory = *state;
    bo_context *context = directory->context;
    static const char *const form =
        "{\"model_type\": \"bochner\", \"task\": \"predict\", \"bochner_format\": %d, \"seed\": \"7\", "
        "\"width_multiplier\": 1, \"parametrization\": \"standard\", \"dim\": 8, \"targets\": 0, \"classes\": 2, "
        "\"schema\": null, \"network\": {\"input\": {\"kind\": \"array\"}, \"layers\": [%s], \"loss\": "
        "\"cross-entropy\"}}";
    made *m = made_new(context, 8, 2, false);
    bo_model *network = network_new(context,
                                    "{\"input\": {\"kind\": \"array\"}, \"layers\": [{\"name\": \"a\", \"type\": "
                                    "\"linear\", \"width\": \"classes\"}], \"loss\": \"cross-entropy\"}",
                                    m->examples),
             *loaded;
    assert_ok(context, bo_model_save(context, network, &(bo_sink){.path = directory->path}));
    bo_model_destroy(network);
    char text[2048];
    snprintf(text, sizeof text, form, 5, "");
    write_text(directory, "config.json", text);
    assert_fails(context, BO_VERSION, "format 5",
                 bo_model_load(context, &(bo_source){.path = directory->path}, NULL, &loaded));
    snprintf(text, sizeof text, form, 4, "{\"name\": \"b\", \"type\": \"linear\", \"width\": \"classes\"}");
    write_text(directory, "config.json", text);
    assert_fails(context, BO_FORMAT, "b.weight",
                 bo_model_load(context, &(bo_source){.path = directory->path}, NULL, &loaded));
    snprintf(
        text, sizeof text, form, 4,
        "{\"name\": \"h\", \"type\": \"linear\", \"width\": 9}, {\"name\": \"a\", \"type\": \"linear\", \"width\": "
        "\"classes\"}");
    write_text(directory, "config.json", text);
    assert_fails(context, BO_FORMAT, "h.weight",
                 bo_model_load(context, &(bo_source){.path = directory->path}, NULL, &loaded));
    snprintf(text, sizeof text, form, 4,
             "{\"name\": \"a\", \"type\": \"linear\", \"width\": \"classes\", \"bias\": false}");
    write_text(directory, "config.json", text);
    assert_fails(context, BO_FORMAT, "is not part of the network",
                 bo_model_load(context, &(bo_source){.path = directory->path}, NULL, &loaded));
    write_text(directory, "config.json", "{}");
    assert_fails(context, BO_FORMAT, "model_type",
                 bo_model_load(context, &(bo_source){.path = directory->path}, NULL, &loaded));
    assert_fails(context, BO_IO, "config.json",
                 bo_model_load(context, &(bo_source){.path = "/nowhere"}, NULL, &loaded));
    assert_int_equal(remove(test_path(directory, "config.json")), 0);
    write_text(directory, "network.json", "{}");
    assert_fails(context, BO_FORMAT, "model_type",
                 bo_model_load(context, &(bo_source){.path = directory->path}, NULL, &loaded));
    made_free(m);
}

static char *read_text(const char *path)
{
    char *text = calloc(1, 1 << 16);
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    assert_true(fread(text, 1, (1 << 16) - 1, file) > 0);
    fclose(file);
    return text;
}

/* The image has the tensors of model.safetensors and, as metadata, the text of config.json with the schema of a
 * table. */
static void test_image(void **state)
{
    test_directory *directory = *state;
    bo_context *context = directory->context;
    static const char csv[] = "a,b,kind\n1,2,x\n2,1,y\n0,1,x\n3,0,y\n";
    const bo_examples_desc data = {.data = {.bytes = csv, .size = sizeof csv - 1, .target = "kind"}};
    bo_examples *examples;
    assert_ok(context, bo_examples_load(context, &data, NULL, &examples));
    bo_model *network = network_new(context,
                                    "{\"input\": {\"kind\": \"array\"}, \"layers\": [{\"name\": \"a\", \"type\": "
                                    "\"linear\", \"width\": \"classes\"}], \"loss\": \"cross-entropy\"}",
                                    examples),
             *loaded;
    void *bytes;
    size_t size;
    bo_tensors *image, *file;
    assert_ok(context, bo_model_save(context, network, &(bo_sink){.path = directory->path}));
    assert_ok(context, bo_model_save(context, network, &(bo_sink){.bytes = &bytes, .size = &size}));
    assert_ok(context, bo_tensors_open_memory(context, "image", bytes, size, &image));
    assert_ok(context, bo_tensors_open(context, test_path(directory, "model.safetensors"), &file));
    assert_int_equal(bo_tensors_count(image), bo_tensors_count(file));
    for (size_t i = 0; i < bo_tensors_count(file); i++) {
        const bo_file_tensor *a = bo_tensors_at(image, i), *b = bo_tensors_at(file, i);
        assert_string_equal(a->name, b->name);
        assert_int_equal(a->bytes, b->bytes);
        assert_memory_equal(a->data, b->data, a->bytes);
    }
    char *text = read_text(test_path(directory, "config.json"));
    assert_string_equal(bo_tensors_meta(image, "config.json"), text);
    free(text);
    bo_tensors_close(image);
    assert_ok(context, bo_model_load(context, &(bo_source){.bytes = bytes, .size = size}, NULL, &loaded));
    assert_string_equal(bo_schema_describe(bo_model_report(loaded)->network->schema)->class_names[1], "y");
    bo_model_destroy(loaded);
    /* truncated images are refused, and so is a file without a description */
    for (size_t cut = 0; cut < size; cut += 1 + size / 300) {
        assert_int_not_equal(bo_model_load(context, &(bo_source){.bytes = bytes, .size = cut}, NULL, &loaded), BO_OK);
        assert_null(loaded);
    }
    bo_free(bytes);
    assert_ok(context,
              bo_tensors_write_memory(context, bo_tensors_at(file, 0), bo_tensors_count(file), NULL, 0, &bytes, &size));
    assert_fails(context, BO_FORMAT, "not a model",
                 bo_model_load(context, &(bo_source){.bytes = bytes, .size = size}, NULL, &loaded));
    assert_null(loaded);
    bo_free(bytes);
    bo_tensors_close(file);
    bo_model_destroy(network);
    bo_examples_destroy(examples);
}

/* Changed bytes are accepted or refused with a reason; an accepted network predicts. */
static void mutate(bo_context *context, const layer_case *subject)
{
    enum { MUTATIONS = 400 };
    float out[2 * MADE_ROWS];
    made *m = made_new(context, subject->dim, 2, subject->graph);
    char *text = layer_case_text(subject), *bytes, *copy;
    bo_model *network = network_new(context, text, m->examples);
    size_t size, header = 0, refused = 0;
    assert_ok(context, bo_model_save(context, network, &(bo_sink){.bytes = (void **)&bytes, .size = &size}));
    memcpy(&header, bytes, 8);
    copy = malloc(size);
    bo_rng rng = bo_rng_make(3, bo_rng_stream("test.mutations", 1));
    for (int i = 0; i < MUTATIONS; i++) {
        bo_model *loaded;
        memcpy(copy, bytes, size);
        for (uint64_t flips = 1 + bo_rng_below(&rng, 3); flips > 0; flips--) {
            const size_t at = (size_t)bo_rng_below(&rng, bo_rng_below(&rng, 4) ? 8 + header : size);
            copy[at] = bo_rng_below(&rng, 2) ? (char)(copy[at] ^ 1 << bo_rng_below(&rng, 8))
                                             : "0123456789{}[]\",:-eE."[bo_rng_below(&rng, 21)];
        }
        if (bo_model_load(context, &(bo_source){.bytes = copy, .size = size}, NULL, &loaded) == BO_OK) {
            if (bo_model_report(loaded)->network->outputs == 2) /* weights may be such that no output is finite */
                (void)bo_model_predict(context, loaded, m->examples, BO_SPLIT_ALL, out);
        } else {
            assert_null(loaded);
            assert_true(*bo_context_error(context) != 0);
            refused++;
        }
        bo_model_destroy(loaded);
    }
    assert_true(refused > MUTATIONS / 2); /* most changes hit the header, so the checks are reached */
    free(copy), free(text);
    bo_free(bytes);
    bo_model_destroy(network);
    made_free(m);
}

/* Networks with feature maps. */
static void test_mutated(void **state)
{
    test_directory *directory = *state;
    mutate(directory->context, layer_case_named("favor"));
    mutate(directory->context, layer_case_named("block with maps"));
}

/* ---- out of memory ----------------------------------------------------------------------------------------------- */

typedef struct work {
    bo_context *context;
    const char *model, *directory;
    const bo_examples *examples;
} work;

static bo_status use_network(void *what)
{
    const work *w = what;
    bo_model *network;
    bo_examples_evaluation found;
    const bo_description desc = {.text = w->model, .examples = w->examples, .seed = 7};
    BO_TRY(bo_model_create_described(w->context, &desc, &network));
    const bo_status status = bo_model_evaluate_examples(w->context, network, w->examples, BO_SPLIT_ALL, &found);
    bo_model_destroy(network);
    return status;
}

static bo_status use_files(void *what)
{
    const work *w = what;
    bo_model *network, *loaded;
    BO_TRY(bo_model_load(w->context, &(bo_source){.path = w->directory}, NULL, &network));
    bo_status status = bo_model_save(w->context, network, &(bo_sink){.path = w->directory});
    if (status == BO_OK) status = bo_model_load(w->context, &(bo_source){.path = w->directory}, NULL, &loaded);
    if (status == BO_OK) bo_model_destroy(loaded);
    bo_model_destroy(network);
    return status;
}

static bo_status use_memory(void *what)
{
    const work *w = what;
    bo_model *network, *loaded = NULL;
    void *bytes = NULL;
    size_t size;
    BO_TRY(bo_model_load(w->context, &(bo_source){.path = w->directory}, NULL, &network));
    bo_status status = bo_model_save(w->context, network, &(bo_sink){.bytes = &bytes, .size = &size});
    if (status != BO_OK) assert_null(bytes);
    if (status == BO_OK) status = bo_model_load(w->context, &(bo_source){.bytes = bytes, .size = size}, NULL, &loaded);
    bo_model_destroy(loaded);
    bo_free(bytes);
    bo_model_destroy(network);
    return status;
}

/* Files are written in each try, so only one network uses them; the others are created and used. */
static void test_starved(void **state)
{
    static const char *const cases[] = {"joins", "conv", "mlps", "message", "favor", "block with maps"};
    test_directory *directory = *state;
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        const layer_case *subject = layer_case_named(cases[c]);
        made *m = made_new(directory->context, subject->dim, 2, subject->graph);
        char *text = layer_case_text(subject);
        counting counted = {0};
        bo_context *context = counting_context(&counted, 1);
        work w = {context, text, directory->path, m->examples};
        injection injected = {.counted = &counted,
                              .context = context,
                              .work = use_network,
                              .what = &w,
                              .all = 400,
                              .stride = 7,
                              .spared = "the sequences of a call"};
        counting_inject(&injected);
        if (c + 1 == sizeof cases / sizeof *cases) {
            bo_model *network = network_new(directory->context, text, m->examples);
            assert_ok(directory->context,
                      bo_model_save(directory->context, network, &(bo_sink){.path = directory->path}));
            bo_model_destroy(network);
            injected.work = use_files;
            injected.all = 1;
            injected.stride = 5;
            counting_inject(&injected);
            injected.work = use_memory;
            counting_inject(&injected);
        }
        bo_context_destroy(context);
        free(text);
        made_free(m);
    }
}

int main(void)
{
#define IN_DIRECTORY(test) cmocka_unit_test_setup_teardown(test, test_setup, test_teardown)
    const struct CMUnitTest tests[] = {
        IN_DIRECTORY(test_shapes),      IN_DIRECTORY(test_patches),       IN_DIRECTORY(test_order),
        IN_DIRECTORY(test_predictions), IN_DIRECTORY(test_units),         IN_DIRECTORY(test_readout),
        IN_DIRECTORY(test_directions),  IN_DIRECTORY(test_streams),       IN_DIRECTORY(test_files),
        IN_DIRECTORY(test_lies),        IN_DIRECTORY(test_earlier_ridge), IN_DIRECTORY(test_starved),
        IN_DIRECTORY(test_image),       IN_DIRECTORY(test_mutated)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
