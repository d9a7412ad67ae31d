/* Invalid descriptions and their messages. */
#include "networks.h"

typedef struct refusal {
    const char *model, *message;
    bo_status status; /* 0: BO_FORMAT */
} refusal;

/* For rows of 8 numbers in two classes. */
#define BLOCK(members)                                                                                                 \
    "{\"input\": {\"kind\": \"sequence\", \"length\": 2, \"channels\": 4}, \"layers\": [{\"name\": \"b\", \"type\": "  \
    "\"block\"" members "}, {\"type\": \"flatten\"}, " LAST "], \"loss\": \"cross-entropy\"}"
#define WITH(layers) "{\"input\": {\"kind\": \"array\"}, \"layers\": [" layers "], \"loss\": \"cross-entropy\"}"
#define LAST         "{\"type\": \"linear\", \"width\": \"classes\"}"
#define IMAGE(layers)                                                                                                  \
    "{\"input\": {\"kind\": \"image\", \"height\": 2, \"width\": 4}, \"layers\": [" layers                             \
    "], \"loss\": \"cross-entropy\"}"
#define LOSS(loss)                                                                                                     \
    "{\"input\": {\"kind\": \"array\"}, \"layers\": [{\"name\": \"a\", \"type\": \"linear\", \"width\": 2}, "          \
    "{\"type\": \"tanh\"}], \"loss\": " loss "}"

static const refusal refusals[] = {
    {"", "malformed", 0},
    {"[1, 2", "malformed", 0},
    {"[]", "should be an object", 0},
    {"{\"a\": {\"a\": {\"a\": {\"a\": {\"a\": {\"a\": {\"a\": {\"a\": {\"a\": 1}}}}}}}}}", "nested deeper", 0},
    {"{\"format\": 2, \"layers\": []}", "has format 2", BO_VERSION},
    {"{\"layers\": []}", "\"input\" is missing", 0},
    {"{\"input\": 5, \"layers\": []}", "should be an object with a \"kind\"", 0},
    {"{\"input\": {\"kind\": \"sound\"}}", "should be one of array, sequence, image, graph, found \"sound\"", 0},
    {"{\"input\": {\"kind\": \"array\", \"length\": 3}}", "unknown member \"length\"", 0},
    {"{\"input\": {\"kind\": \"array\", \"width\": 9}}", "expected data with 9 numbers per example, found 8", 0},
    {"{\"input\": {\"kind\": \"image\", \"height\": 3}}", "an image needs its \"height\" and \"width\"", 0},
    {"{\"input\": {\"kind\": \"sequence\", \"channels\": 3}}", "a sequence needs its \"length\"", 0},
    {"{\"input\": {\"kind\": \"array\", \"standardize\": 1}}", "should be true or false", 0},
    {"{\"input\": {\"kind\": \"array\"}, \"loss\": \"mse\"}", "\"layers\" should be a list", 0},
    {"{\"input\": {\"kind\": \"array\"}, \"layers\": [" LAST "]}", "\"loss\" is missing", 0},
    {"{\"input\": {\"kind\": \"array\"}, \"layer\": []}", "unknown member \"layer\"; did you mean \"layers\"?", 0},
    {"{\"input\": {\"kind\": \"array\"}, \"classes\": 3}", "expected data with 3 classes, found 2", 0},
    /* layers */
    {WITH("7"), "layer 1: should be an object", 0},
    {WITH("{\"width\": 3}"), "layer 1: \"type\" is missing", 0},
    {WITH("{\"name\": \"x\", \"type\": \"liner\"}"),
     "layer 1 (x): there is no type \"liner\"; did you mean \"linear\"?", 0},
    {WITH("{\"type\": \"conv2d\"}"), "did you mean \"conv\"?", 0},
    {WITH("{\"type\": \"zzzzzzzzzzzz\"}"), "there is no type \"zzzzzzzzzzzz\"", 0},
    {WITH("{\"name\": \"a.b\", \"type\": \"relu\"}"), "fewer than 64 letters", 0},
    {WITH("{\"name\": \"input\", \"type\": \"relu\"}"), "not \"input\"", 0},
    {WITH("{\"name\": \"a\", \"type\": \"relu\"}, {\"name\": \"a\", \"type\": \"relu\"}"),
     "layers 1 and 2 have the same name \"a\"", 0},
    {WITH("{\"name\": \"fc\", \"type\": \"linear\"}"), "layer 1 (fc): \"width\" is missing", 0},
    {WITH("{\"type\": \"linear\", \"width\": 0}"), "layer 1 (linear): \"width\" should be a whole number from 1", 0},
    {WITH("{\"type\": \"linear\", \"width\": \"wide\"}"), "\"classes\", \"targets\" or \"input\", found \"wide\"", 0},
    {WITH("{\"type\": \"linear\", \"width\": 3, \"widht\": 3}"), "unknown member \"widht\"; did you mean \"width\"?",
     0},
    {WITH("{\"type\": \"linear\", \"width\": 3, \"bias\": \"no\"}"), "\"bias\" should be true or false", 0},
    {WITH("{\"name\": \"a\", \"type\": \"linear\", \"width\": 3, \"width\": 4}, " LAST),
     "layer 1 (a): linear: has the member \"width\" twice", 0},
    {"{\"input\": {\"kind\": \"array\"}, \"layers\": [], \"layers\": [" LAST "]}", "has the member \"layers\" twice",
     0},
    {WITH("{\"type\": \"dropout\", \"rate\": 1}"), "\"rate\" should be a number from 0 to less than 1", 0},
    {WITH("{\"type\": \"scale\", \"first\": 1e6}, " LAST),
     "\"first\" should be a number from -1e+06 to less than 1e+06", 0},
    {WITH("{\"type\": \"noise\", \"kind\": \"mask\", \"amount\": 2}"), "\"amount\" is a probability here", 0},
    {WITH("{\"type\": \"norm\", \"kind\": \"batch\"}"), "should be one of rms, layer", 0},
    {WITH("{\"type\": \"linear\", \"width\": \"targets\"}"), "the number of targets is unknown", 0},
    /* wiring */
    {WITH("{\"name\": \"relu1\", \"type\": \"relu\"}, {\"type\": \"tanh\", \"from\": \"relu2\"}, " LAST),
     "layer 2 (tanh): \"from\": there is no layer \"relu2\"; did you mean \"relu1\"?", 0},
    {WITH("{\"name\": \"a\", \"type\": \"tanh\", \"from\": \"b\"}, {\"name\": \"b\", \"type\": \"tanh\"}, " LAST),
     "a cycle: layer 2 (b), which reads from layer 1 (a), which reads from layer 2 (b)", 0},
    {WITH("{\"name\": \"a\", \"type\": \"tanh\", \"from\": \"a\"}, " LAST), "a cycle: layer 1 (a)", 0},
    {WITH("{\"type\": \"add\"}, " LAST), "layer 1 (add): expected at least 2 inputs, found 1", 0},
    {WITH("{\"name\": \"a\", \"type\": \"tanh\"}, {\"type\": \"tanh\", \"from\": [\"a\", \"a\"]}, " LAST),
     "expected at most 1 inputs, found 2", 0},
    {WITH("{\"type\": \"tanh\"}, {\"type\": \"linear\", \"width\": \"classes\", \"from\": \"input\"}"),
     "layer 1 (tanh): its output is not used", 0},
    {WITH("{\"type\": \"tanh\", \"from\": 3}, " LAST), "\"from\" should be the name of a layer, found 3", 0},
    /* shapes */
    {WITH("{\"name\": \"a\", \"type\": \"linear\", \"width\": 3}, {\"type\": \"add\", \"from\": [\"a\", "
          "\"input\"]}, " LAST),
     "layer 2 (add): its inputs should have the same shape, found 3 and 8", 0},
    {WITH("{\"type\": \"conv\", \"channels\": 3, \"kernel\": 3}, " LAST), "conv does not accept rows", 0},
    {IMAGE("{\"name\": \"conv1\", \"type\": \"conv\", \"channels\": 3, \"kernel\": 5}"),
     "layer 1 (conv1): kernel 5 x 5 is larger than its input of 2 x 4", 0},
    {IMAGE("{\"type\": \"pool\", \"kernel\": 3}"), "kernel 3 x 3 is larger than its input of 2 x 4", 0},
    {IMAGE("{\"type\": \"pool\"}"), "expected \"kernel\", or \"global\": true", 0},
    {IMAGE("{\"type\": \"conv\", \"channels\": 3, \"kernel\": [1, 2, 3]}"), "[height, width] of them", 0},
    {IMAGE("{\"type\": \"conv\", \"channels\": 3, \"kernel\": 1, \"stride\": 0}"), "\"stride\" should be", 0},
    {IMAGE("{\"type\": \"conv\", \"channels\": 3, \"kernel\": 1, \"groups\": 2}"), "2 groups should divide", 0},
    {IMAGE("{\"type\": \"conv\", \"channels\": 3, \"kernel\": 1, \"padding\": \"causal\"}"), "is for sequences", 0},
    {IMAGE("{\"type\": \"reshape\", \"length\": 3, \"channels\": 3}"), "the shape 1 x 3 x 3 is requested", 0},
    {IMAGE(LAST), "the output should be one row per example, found 2 x 4 x 2: use flatten", 0},
    {IMAGE("{\"type\": \"attention\", \"heads\": 3}, {\"type\": \"flatten\"}, " LAST),
     "layer 1 (attention): 3 heads should divide the 1 channels", 0},
    {IMAGE("{\"type\": \"mixer\", \"kind\": \"conv\", \"output\": false}, {\"type\": \"flatten\"}, " LAST),
     "layer 1 (mixer): \"output\": false needs a mixer of a degree, found conv", 0},
    {BLOCK(""), "layer 1 (b): \"heads\" is missing", 0},
    {BLOCK(", \"heads\": 3"), "layer 1 (b): model: heads must divide width = 4", 0},
    {BLOCK(", \"heads\": 2, \"repeat\": 2"), "layer 1 (b): \"repeat\" is for lists of blocks: list the layer again", 0},
    {BLOCK(", \"heads\": 2, \"layers\": [{\"type\": \"linear\", \"width\": 3}]"),
     "layer 1 (b): layers: layer 1 (linear): its output is 3, expected the 4 numbers", 0},
    {BLOCK(", \"heads\": 2, \"layers\": [{\"type\": \"block\", \"heads\": 2}]"),
     "block does not accept rows, but its input is 4", 0},
    {BLOCK(", \"heads\": 2, \"layers\": 3"), "layer 1 (b): ", 0},
    {BLOCK(", \"heads\": 2, \"mlp\": \"layers\""), "layer 1 (b): ", 0},
    {BLOCK(", \"heads\": 2, \"replaced\": {\"kind\": \"softmax\"}"),
     "layer 1 (b): \"replaced\" and \"cross_attention\" are for text models", 0},
    {BLOCK(", \"heads\": 2, \"cross_attention\": {\"kind\": \"softmax\"}"), "\"cross_attention\" are for text models",
     0},
    {BLOCK(", \"heads\": 2, \"positions\": \"learned\""),
     "layer 1 (b): positions learned are added before the layers: use a layer of type positions", 0},
    {BLOCK(", \"heads\": 2, \"positions\": \"sinusoidal\""), "use a layer of type positions", 0},
    {BLOCK(", \"heads\": 2, \"head\": 2"), "layer 1 (b): unknown member \"head\"; did you mean \"heads\"?", 0},
    {BLOCK(", \"heads\": 2, \"causal\": 1"), "layer 1 (b): \"causal\" should be true or false", 0},
    {BLOCK(", \"heads\": 2, \"dropout\": 1"), "layer 1 (b): \"dropout\" should be a number from 0 to less than 1", 0},
    {BLOCK(", \"heads\": 2, \"heads\": 2"), "layer 1 (b): has the member \"heads\" twice", 0},
    {BLOCK(", \"heads\": 2, \"attention\": \"soft\""),
     "layer 1 (b): \"attention\" should be the name of a preset, found \"soft\"", 0},
    {BLOCK(", \"heads\": 2, \"attention\": {\"kind\": \"softmax\", \"widow\": 2}"),
     "\"attention\": unknown member \"widow\"; did you mean \"window\"?", 0},
    {BLOCK(", \"heads\": 2, \"mlp\": \"custom\""), "layer 1 (b): model: custom_mlp needs a name", 0},
    {BLOCK(", \"heads\": 2, \"custom_mlp\": \"mine\""), "layer 1 (b): model: custom_mlp requires the MLP custom", 0},
    {BLOCK(", \"heads\": 2, \"mixer\": \"mlp\""), "layer 1 (b): the mixer mlp reads forward only", 0},
    {BLOCK(", \"heads\": 4"), "layer 1 (b): model: positions rope rotate pairs of columns", 0},
    {BLOCK(", \"heads\": 99999999999999999999"), "layer 1 (b): \"heads\" should be a whole number", 0},
    {WITH("{\"type\": \"block\", \"heads\": 2}, " LAST), "layer 1 (block): block does not accept rows", 0},
    {WITH("{\"type\": \"graph\"}, " LAST), "needs the edges of a graph", 0},
    {WITH("{\"type\": \"linear\", \"width\": 3}"), "should have 2 columns, one for each class, found 3", 0},
    {WITH("{\"type\": \"random-features\", \"features\": 8, \"kernel\": \"custom\"}, " LAST), "\"kernel\" should be",
     0},
    {WITH("{\"type\": \"random-features\", \"features\": 8, \"kernel\": \"arccos\", \"function\": \"sincos\"}, " LAST),
     "layer 1 (random-features): ", 0},
    /* losses */
    {LOSS("\"hinge\""), "should be mse, l1, bce, kl or cross-entropy", 0},
    {LOSS("{\"target\": \"input\"}"), "\"type\" is missing", 0},
    {LOSS("\"mse\""), "the loss mse needs targets: the data has classes", 0},
    {LOSS("{\"type\": \"mse\", \"target\": \"input\"}"), "should have as many numbers as the target, 8, found 2", 0},
    {LOSS("{\"type\": \"mse\", \"target\": \"b\"}"), "\"input\" or the name of a layer", 0},
    {LOSS("{\"type\": \"mse\", \"target\": \"a\"}"), "should have no weights, found weights of layer 1 (a)", 0},
    {LOSS("{\"type\": \"cross-entropy\", \"target\": \"input\"}"), "cross-entropy needs classes", 0},
    {LOSS("{\"type\": \"cross-entropy\", \"masked\": \"a\"}"), "needs a \"target\"", 0},
    {"{\"input\": {\"kind\": \"array\"}, \"layers\": [{\"name\": \"code\", \"type\": \"linear\", \"width\": "
     "\"input\"}, "
     "{\"name\": \"sum\", \"type\": \"add\", \"from\": [\"input\", \"code\"]}, {\"type\": \"tanh\", \"from\": "
     "\"code\"}], "
     "\"loss\": {\"type\": \"mse\", \"target\": \"sum\"}}",
     "the target of the loss should have no weights, found weights of layer 1 (code)", 0},
};

static void test_refusals(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    made *m = made_new(context, 8, 2, false);
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
        bo_model *network;
        const bo_description desc = {.text = refusals[i].model, .where = "net.json", .examples = m->examples};
        const bo_status expected = refusals[i].status ? refusals[i].status : BO_FORMAT;
        const bo_status status = bo_model_create_described(context, &desc, &network);
        if (status != expected || !strstr(bo_context_error(context), refusals[i].message) ||
            strncmp(bo_context_error(context), "net.json: ", 10) != 0)
            fail_msg("%s: expected '%s', found %s: %s", refusals[i].model, refusals[i].message,
                     bo_status_string(status), bo_context_error(context));
        assert_null(network);
    }
    made_free(m);
    bo_context_destroy(context);
}

/* Without data a description must be complete. */
static void test_without_data(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    bo_model *network;
    bo_description desc = {.text = WITH(LAST)};
    assert_fails(context, BO_FORMAT, "\"width\" is missing, and there is no data",
                 bo_model_create_described(context, &desc, &network));
    desc.text = "{\"input\": {\"kind\": \"array\", \"width\": 4}, \"layers\": [" LAST "], \"loss\": \"cross-entropy\"}";
    assert_fails(context, BO_FORMAT, "the number of classes is unknown",
                 bo_model_create_described(context, &desc, &network));
    desc.text = "{\"input\": {\"kind\": \"array\", \"width\": 4}, \"classes\": 3, \"layers\": [" LAST
                "], \"loss\": \"cross-entropy\"}";
    assert_ok(context, bo_model_create_described(context, &desc, &network));
    assert_int_equal(bo_model_report(network)->network->outputs, 3);
    bo_model_destroy(network);
    assert_fails(context, BO_INVALID, "argument 'desc->text' is NULL",
                 bo_model_create_described(context, &(bo_description){0}, &network));
    desc.width_multiplier = -1;
    assert_fails(context, BO_INVALID, "multiplier", bo_model_create_described(context, &desc, &network));
    bo_context_destroy(context);
}

/* A single class cannot be classified. */
static void test_one_class(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    made *m = made_new(context, 8, 1, false);
    bo_model *network;
    assert_fails(
        context, BO_FORMAT, "at least two classes, found 1",
        bo_model_create_described(context, &(bo_description){.text = WITH(LAST), .examples = m->examples}, &network));
    made_free(m);
    bo_context_destroy(context);
}

/* Data that does not match an existing network. */
static void test_other_data(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    made *m = made_new(context, 8, 2, false), *wide = made_new(context, 9, 2, false),
         *more = made_new(context, 8, 3, false);
    made *graph = made_new(context, 8, 2, true), *numbers = made_new(context, 8, 0, false);
    bo_model *network = network_new(context, WITH(LAST), m->examples);
    bo_examples_evaluation found;
    assert_fails(context, BO_INVALID, "expects 8 numbers per example, but the data has 9",
                 bo_model_evaluate_examples(context, network, wide->examples, BO_SPLIT_ALL, &found));
    assert_fails(context, BO_INVALID, "has 2 classes, but the data has 3",
                 bo_model_evaluate_examples(context, network, more->examples, BO_SPLIT_ALL, &found));
    assert_fails(context, BO_INVALID, "expects array, but the data has edges",
                 bo_model_evaluate_examples(context, network, graph->examples, BO_SPLIT_ALL, &found));
    assert_fails(context, BO_INVALID, "has 2 classes, but the data has 0",
                 bo_model_evaluate_examples(context, network, numbers->examples, BO_SPLIT_ALL, &found));
    bo_model_destroy(network);
    made_free(m), made_free(wide), made_free(more), made_free(graph), made_free(numbers);
    bo_context_destroy(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_refusals), cmocka_unit_test(test_without_data),
                                       cmocka_unit_test(test_one_class), cmocka_unit_test(test_other_data)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
