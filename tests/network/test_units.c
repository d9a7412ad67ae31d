/* Limits: units that float cannot represent, fewer rows than outputs, parts of a graph, rows of a softmax. */
#include "networks.h"

enum { DIM = 6 };

static bo_examples *examples_of(bo_context *context, size_t rows, size_t targets, const float *x, const double *y)
{
    bo_examples *examples;
    const bo_examples_arrays arrays = {.rows = rows, .dim = 2, .targets = targets, .x = x, .y = y};
    assert_ok(context, bo_examples_create(context, &arrays, &examples));
    return examples;
}

/* Columns of denormal numbers, and targets whose differences are below or above the range of float: all results are
 * finite. */
static void test_extremes(void **state)
{
    (void)state;
    static const double targets[][3] = {{1, 2, 4}, {1e-300, -1e-300, 0}, {3e37, -3e37, 1}};
    const float x[6] = {1e-42f, 1, 2e-42f, 2, 3e-42f, 3};
    bo_context *context = test_context(1);
    for (size_t i = 0; i < sizeof targets / sizeof *targets; i++) {
        bo_examples *examples = examples_of(context, 3, 1, x, targets[i]);
        bo_model *network = network_new(context,
                                        "{\"input\": {\"kind\": \"array\"}, \"layers\": [{\"type\": \"linear\", "
                                        "\"width\": \"targets\"}], \"loss\": \"mse\"}",
                                        examples);
        float out[3];
        bo_examples_evaluation found;
        assert_true(isfinite(network->network->inputs.scale[0]) && network->network->inputs.scale[0] > 0);
        assert_true(isfinite(network->network->outputs.scale[0]) && network->network->outputs.scale[0] > 0);
        assert_ok(context, bo_model_predict(context, network, examples, BO_SPLIT_ALL, out));
        assert_ok(context, bo_model_evaluate_examples(context, network, examples, BO_SPLIT_ALL, &found));
        assert_true(isfinite(out[0]) && isfinite(out[2]) && isfinite(found.loss));
        bo_model_destroy(network);
        bo_examples_destroy(examples);
    }
    bo_context_destroy(context);
}

/* A readout with more outputs than rows. */
static void test_few_rows(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    enum { TARGETS = 40 };
    const float x[4] = {1, 2, -1, 3};
    double y[2 * TARGETS];
    for (size_t i = 0; i < 2 * TARGETS; i++) y[i] = sin((double)i);
    bo_examples *examples = examples_of(context, 2, TARGETS, x, y);
    bo_model *network = network_new(context,
                                    "{\"input\": {\"kind\": \"array\"}, \"layers\": [{\"type\": \"linear\", "
                                    "\"width\": \"targets\"}], \"loss\": \"mse\"}",
                                    examples);
    float out[2 * TARGETS];
    assert_ok(context, bo_model_solve(context, network, examples, 1e-6));
    assert_ok(context, bo_model_predict(context, network, examples, BO_SPLIT_ALL, out));
    for (size_t i = 0; i < 2 * TARGETS; i++) assert_close(out[i], y[i], 1e-3);
    bo_model_destroy(network);
    bo_examples_destroy(examples);
    bo_context_destroy(context);
}

/* Identical inputs do not determine the readout without lambda. */
static void test_no_solution(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    const float x[4] = {1, 1, 1, 1};
    const double y[2] = {1, 2};
    bo_examples *examples = examples_of(context, 2, 1, x, y);
    bo_model *network = network_new(context,
                                    "{\"input\": {\"kind\": \"array\"}, \"layers\": [{\"type\": \"linear\", "
                                    "\"width\": \"targets\"}], \"loss\": \"mse\"}",
                                    examples);
    assert_fails(context, BO_NUMERIC, "layer 1 (linear): a ridge readout with lambda 0 has no solution",
                 bo_model_solve(context, network, examples, 0));
    assert_ok(context, bo_model_solve(context, network, examples, 1));
    bo_model_destroy(network);
    bo_examples_destroy(examples);
    bo_context_destroy(context);
}

/* The loss of a part of the nodes is the mean over them: the parts add up to the whole. */
static void test_hidden_nodes(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    made *m = made_new(context, DIM, 2, true);
    bo_model *network = network_new(context,
                                    "{\"input\": {\"kind\": \"graph\"}, \"layers\": [{\"name\": \"hide\", \"type\": "
                                    "\"noise\", \"kind\": \"mask\", \"amount\": 0.5}, {\"type\": \"message\"}, "
                                    "{\"type\": \"linear\", \"width\": \"input\"}], \"loss\": {\"type\": \"l1\", "
                                    "\"target\": \"input\", \"masked\": \"hide\"}}",
                                    m->examples);
    bo_examples_evaluation all, part;
    double sum = 0;
    uint64_t counted = 0;
    assert_ok(context, bo_model_evaluate_examples(context, network, m->examples, BO_SPLIT_ALL, &all));
    assert_ok(context, bo_examples_split(context, m->examples, 0.25, 0.25, 3));
    for (int p = 0; p < BO_SPLIT_COUNT; p++) {
        assert_ok(context, bo_model_evaluate_examples(context, network, m->examples, (bo_split)p, &part));
        sum += part.loss * (double)part.examples;
        counted += part.examples;
    }
    assert_int_equal(counted, all.examples);
    assert_close(sum / (double)counted, all.loss, 1e-6);
    bo_model_destroy(network);
    made_free(m);
    bo_context_destroy(context);
}

/* Predictions of a loss over rows of a softmax are probabilities in each row. */
static void test_rows_of_softmax(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    made *m = made_new(context, DIM, 2, false);
    bo_model *network = network_new(context,
                                    "{\"input\": {\"kind\": \"sequence\", \"length\": 2, \"channels\": 3}, "
                                    "\"layers\": [{\"type\": \"linear\", \"width\": 3}], \"loss\": {\"type\": "
                                    "\"kl\", \"target\": \"input\"}}",
                                    m->examples);
    float out[MADE_ROWS * DIM];
    assert_ok(context, bo_model_predict(context, network, m->examples, BO_SPLIT_ALL, out));
    for (size_t i = 0; i < MADE_ROWS * DIM; i += 3) assert_close(out[i] + out[i + 1] + out[i + 2], 1, 1e-5);
    bo_model_destroy(network);
    made_free(m);
    bo_context_destroy(context);
}

/* The weights of an unnamed layer differ from those of a layer that is named like its type. */
static void test_names(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    made *m = made_new(context, DIM, 2, false);
    bo_model *network =
        network_new(context,
                    "{\"input\": {\"kind\": \"array\"}, \"layers\": [{\"name\": \"linear\", \"type\": \"linear\", "
                    "\"width\": 4}, {\"type\": \"linear\", \"width\": \"classes\"}], \"loss\": \"cross-entropy\"}",
                    m->examples);
    assert_int_equal(bo_model_report(network)->network->layer[0].weights, 4 * DIM + 4);
    assert_int_equal(bo_model_report(network)->network->layer[1].weights, 2 * 4 + 2);
    bo_model_destroy(network);
    made_free(m);
    bo_context_destroy(context);
}

/* Any number of layers that mark the same positions share one table. */
static void test_many_places(void **state)
{
    (void)state;
    enum { LAYERS = BO_NETWORK_CONSTANTS + 1 };
    static const char layer[] = "{\"type\": \"attention\", \"positions\": \"rope\"}, ";
    bo_context *context = test_context(1);
    made *m = made_new(context, 2 * DIM, 2, false);
    char *text = calloc(1, 512 + LAYERS * sizeof layer);
    strcat(text, "{\"input\": {\"kind\": \"sequence\", \"channels\": 2}, \"layers\": [");
    for (size_t i = 0; i < LAYERS; i++) strcat(text, layer);
    strcat(text, "{\"type\": \"last\"}, {\"type\": \"linear\", \"width\": \"classes\"}], \"loss\": \"cross-entropy\"}");
    bo_model *network = network_new(context, text, m->examples);
    bo_examples_evaluation found;
    assert_ok(context, bo_model_evaluate_examples(context, network, m->examples, BO_SPLIT_ALL, &found));
    assert_true(isfinite(found.loss));
    bo_model_destroy(network);
    free(text);
    made_free(m);
    bo_context_destroy(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_extremes),        cmocka_unit_test(test_few_rows),
                                       cmocka_unit_test(test_no_solution),     cmocka_unit_test(test_hidden_nodes),
                                       cmocka_unit_test(test_rows_of_softmax), cmocka_unit_test(test_names),
                                       cmocka_unit_test(test_many_places)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
