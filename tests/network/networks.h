/* Networks and small generated examples for the tests of src/network. */
#ifndef BO_TEST_NETWORKS_H
#define BO_TEST_NETWORKS_H

#include "testing.h"
#include "model/model.h"
#include "model/network/internal.h"

enum { MADE_ROWS = 48, MADE_MAX_DIM = 1024 };

/* Examples of any kind, generated from their class or a smooth function. */
typedef struct made {
    float x[MADE_ROWS * MADE_MAX_DIM];
    double y[MADE_ROWS];
    int32_t first[MADE_ROWS + 1], neighbors[3 * MADE_ROWS];
    bo_examples *examples;
} made;

/* classes 0: regression. With `graph`, node i has the neighbors i + 1, i + 3 and i + 7; every seventh node does not
 * have the last one. */
static inline made *made_new(bo_context *context, size_t dim, size_t classes, bool graph)
{
    made *m = calloc(1, sizeof *m);
    bo_rng rng = bo_rng_make(dim, bo_rng_stream("test.made", classes));
    assert_true(dim <= MADE_MAX_DIM);
    size_t edges = 0;
    for (size_t i = 0; i < MADE_ROWS; i++) {
        const size_t class = classes ? i % classes : 0;
        double sum = 0;
        for (size_t j = 0; j < dim; j++) {
            const double mean = classes ? cos(1.0 + (double)class * (double)(j + 1)) : 0;
            m->x[i * dim + j] = (float)(mean + 0.3 * bo_rng_normal(&rng));
            sum += (double)m->x[i * dim + j];
        }
        m->y[i] = classes ? (double)class : 5 + 2 * sin(sum);
        m->first[i] = (int32_t)edges;
        for (size_t k = 1; graph && i % 7 && k <= 7; k += k == 1 ? 2 : 4)
            m->neighbors[edges++] = (int32_t)((i + k) % MADE_ROWS);
    }
    m->first[MADE_ROWS] = (int32_t)edges;
    bo_examples_arrays arrays = {.rows = MADE_ROWS, .dim = dim, .targets = 1, .classes = classes, .x = m->x, .y = m->y};
    if (graph) arrays.first = m->first, arrays.neighbors = m->neighbors, arrays.edges = edges;
    assert_ok(context, bo_examples_create(context, &arrays, &m->examples));
    return m;
}

static inline void made_free(made *m)
{
    bo_examples_destroy(m->examples);
    free(m);
}

static inline bo_model *network_new(bo_context *context, const char *model, const bo_examples *examples)
{
    bo_model *network;
    const bo_description desc = {.text = model, .examples = examples, .seed = 7};
    assert_ok(context, bo_model_create_described(context, &desc, &network));
    return network;
}

/* One layer and a readout to two classes, for a sequence of 6 x 4, an image of 4 x 4 x 2, rows of 8, or the nodes of a
 * graph. */
typedef struct layer_case {
    const char *name, *input, *layers;
    size_t dim;
    bool graph;
} layer_case;

#define SEQUENCE_INPUT "{\"kind\": \"sequence\", \"length\": 6, \"channels\": 4}"
#define IMAGE_INPUT    "{\"kind\": \"image\", \"height\": 4, \"width\": 4, \"channels\": 2}"
#define ARRAY_INPUT    "{\"kind\": \"array\"}"
#define GRAPH_INPUT    "{\"kind\": \"graph\"}"

static const layer_case layer_cases[] = {
    {"linear", ARRAY_INPUT, "{\"type\": \"linear\", \"width\": 5}, {\"type\": \"tanh\"}", 8, false},
    {"norms", ARRAY_INPUT,
     "{\"type\": \"linear\", \"width\": 6}, {\"type\": \"norm\", \"kind\": \"layer\"}, {\"type\": \"gelu\"}, "
     "{\"type\": "
     "\"norm\"}",
     8, false},
    {"joins", ARRAY_INPUT,
     "{\"name\": \"a\", \"type\": \"linear\", \"width\": 8}, {\"name\": \"b\", \"type\": \"silu\"}, {\"name\": \"c\", "
     "\"type\": \"add\", \"from\": [\"a\", \"b\", \"input\"]}, {\"name\": \"d\", \"type\": \"product\", \"from\": "
     "[\"c\", \"b\"]}, {\"type\": \"concat\", \"from\": [\"d\", \"a\"]}, {\"type\": \"scale\"}",
     8, false},
    {"dropout", ARRAY_INPUT,
     "{\"type\": \"dropout\", \"rate\": 0.3}, {\"type\": \"noise\", \"amount\": 0.2}, {\"type\": \"noise\", \"kind\": "
     "\"mask\", \"amount\": 0.2}",
     8, false},
    {"conv", IMAGE_INPUT,
     "{\"type\": \"conv\", \"channels\": 3, \"kernel\": 3, \"padding\": \"same\"}, {\"type\": \"batchnorm\"}, "
     "{\"type\": \"softplus\"}, {\"type\": \"pool\", \"kind\": \"mean\", \"kernel\": 2}, {\"type\": \"flatten\"}",
     32, false},
    {"groups", IMAGE_INPUT,
     "{\"type\": \"conv\", \"channels\": 4, \"kernel\": [2, 3], \"stride\": [2, 1], \"padding\": [0, 1], \"groups\": "
     "2}, {\"type\": \"tanh\"}, {\"type\": \"pool\", \"kind\": \"mean\", \"global\": true}",
     32, false},
    {"causal", SEQUENCE_INPUT,
     "{\"type\": \"conv\", \"channels\": 4, \"kernel\": 3, \"padding\": \"causal\", \"depthwise\": true}, {\"type\": "
     "\"last\"}",
     24, false},
    {"gru", SEQUENCE_INPUT, "{\"type\": \"gru\", \"width\": 3}, {\"type\": \"last\"}", 24, false},
    {"lstm", SEQUENCE_INPUT, "{\"type\": \"lstm\", \"width\": 3}, {\"type\": \"last\"}", 24, false},
    {"rnn", SEQUENCE_INPUT, "{\"type\": \"rnn\", \"width\": 3}, {\"type\": \"last\"}", 24, false},
    {"ssm", SEQUENCE_INPUT, "{\"type\": \"ssm\", \"size\": 4}, {\"type\": \"flatten\"}", 24, false},
    {"mix", SEQUENCE_INPUT, "{\"type\": \"mix\", \"heads\": 2}, {\"type\": \"gelu\"}, {\"type\": \"last\"}", 24, false},
    {"mixer", SEQUENCE_INPUT, "{\"type\": \"mixer\", \"kind\": \"ssm\", \"size\": 4}, {\"type\": \"last\"}", 24, false},
    {"attention", SEQUENCE_INPUT,
     "{\"type\": \"positions\"}, {\"type\": \"attention\", \"kind\": \"exact\", \"heads\": 2}, {\"type\": \"last\"}",
     24, false},
    {"favor", SEQUENCE_INPUT,
     "{\"type\": \"attention\", \"kind\": \"favor\", \"heads\": 2, \"features\": 8, \"causal\": true, \"positions\": "
     "\"rope\"}, {\"type\": \"mlp\", \"kind\": \"swiglu\", \"hidden\": 6}, {\"type\": \"flatten\"}",
     24, false},
    {"patches", IMAGE_INPUT,
     "{\"type\": \"conv\", \"channels\": 4, \"kernel\": 2, \"stride\": 2}, {\"type\": \"positions\"}, {\"type\": "
     "\"attention\", \"kind\": \"linear\", \"heads\": 2}, {\"type\": \"mlp\", \"kind\": \"gelu\", \"hidden\": 6}, "
     "{\"type\": \"norm\"}, {\"type\": \"pool\", \"kind\": \"mean\", \"global\": true}",
     32, false},
    {"random-features", ARRAY_INPUT, "{\"type\": \"random-features\", \"features\": 16}", 8, false},
    {"degree", ARRAY_INPUT, "{\"type\": \"degree\", \"degree\": 3, \"width\": 5}", 8, false},
    {"degree e", ARRAY_INPUT, "{\"type\": \"degree\", \"degree\": \"e\", \"width\": 5}", 8, false},
    {"degree without norm", ARRAY_INPUT, "{\"type\": \"degree\", \"degree\": 4, \"width\": 5, \"norm\": false}", 8,
     false},
    {"mixers without output", SEQUENCE_INPUT,
     "{\"type\": \"mixer\", \"kind\": \"degree-e\", \"output\": false}, {\"type\": \"mixer\", \"kind\": \"degree-3\", "
     "\"heads\": 2, \"output\": false}, {\"type\": \"last\"}",
     24, false},
    {"quadratic", ARRAY_INPUT, "{\"type\": \"quadratic\", \"width\": 3}", 8, false},
    {"mlps", ARRAY_INPUT,
     "{\"type\": \"mlp\", \"kind\": \"random-features\", \"hidden\": 12}, {\"type\": \"mlp\", \"kind\": \"degree-2\", "
     "\"hidden\": 6}",
     8, false},
    {"graph", GRAPH_INPUT,
     "{\"type\": \"graph\", \"width\": 5, \"edge-dropout\": 0.2}, {\"type\": \"tanh\"}, {\"type\": \"graph\", "
     "\"aggregate\": \"sum\"}",
     8, true},
    {"message", GRAPH_INPUT, "{\"type\": \"message\", \"hidden\": 3, \"node-dropout\": 0.2}", 8, true},
    /* blocks of text models */
    {"block", SEQUENCE_INPUT, "{\"type\": \"block\", \"heads\": 2}, {\"type\": \"last\"}", 24, false},
    {"causal block", SEQUENCE_INPUT,
     "{\"type\": \"block\", \"heads\": 2, \"causal\": true, \"positions\": \"none\", \"attention\": {\"kind\": "
     "\"softmax\", \"window\": 3}, \"mlp\": \"swiglu\", \"hidden\": 6, \"residual\": \"sandwich\", \"bias\": false}, "
     "{\"type\": \"last\"}",
     24, false},
    {"block with maps", SEQUENCE_INPUT,
     "{\"type\": \"block\", \"heads\": 2, \"attention\": {\"preset\": \"favor\", \"features\": {\"features\": 8}}, "
     "\"mlp\": \"random-features\", \"hidden\": 12, \"dropout\": 0.3, \"residual\": \"parallel\"}, {\"type\": "
     "\"flatten\"}",
     24, false},
    {"blocks", SEQUENCE_INPUT,
     "{\"name\": \"a\", \"type\": \"block\", \"heads\": 2, \"key_heads\": 1, \"attention\": {\"preset\": \"rfa-gate\", "
     "\"features\": 8}, \"causal\": true, \"norm\": \"layer\", \"mlp\": \"none\"}, {\"name\": \"b\", \"type\": "
     "\"block\", \"heads\": 1, \"attention\": \"gated-delta\", \"mlp\": \"degree-3\", \"hidden\": 4, \"bias\": true}, "
     "{\"name\": \"c\", \"type\": \"block\", \"heads\": 2, \"head_dim\": 4, \"attention\": \"linear\", \"mlp\": "
     "\"geglu\", \"hidden\": 5, \"from\": \"a\"}, {\"type\": \"add\", \"from\": [\"b\", \"c\"]}, {\"type\": \"last\"}",
     24, false},
    {"blocks with layers", SEQUENCE_INPUT,
     "{\"type\": \"block\", \"heads\": 2, \"residual\": \"after\", \"layers\": [{\"name\": \"gate\", \"type\": "
     "\"linear\", \"width\": 5}, {\"name\": \"open\", \"type\": \"sigmoid\"}, {\"name\": \"up\", \"type\": \"linear\", "
     "\"width\": 5, \"from\": \"input\"}, {\"type\": \"product\", \"from\": [\"open\", \"up\"]}, {\"type\": "
     "\"linear\", \"width\": \"input\"}]}, {\"type\": \"block\", \"heads\": 1, \"mixer\": \"conv\", \"causal\": true, "
     "\"layers\": [{\"type\": \"random-features\", \"features\": 6}, {\"type\": \"noise\", \"amount\": 0.1}, "
     "{\"type\": \"linear\", \"width\": \"input\"}]}, {\"type\": \"last\"}",
     24, false},
    {"ssm block", SEQUENCE_INPUT,
     "{\"type\": \"block\", \"heads\": 1, \"mixer\": \"ssm\", \"state_size\": 3, \"causal\": true, \"mlp\": \"gelu\", "
     "\"hidden\": 5}, {\"type\": \"block\", \"heads\": 1, \"mixer\": \"conv\", \"kernel\": 3, \"dropout\": 0.2, "
     "\"residual\": \"shared\"}, {\"type\": \"block\", \"heads\": 1, \"mixer\": \"mlp\", \"causal\": true}, {\"type\": "
     "\"last\"}",
     24, false},
    {"block of an image", IMAGE_INPUT,
     "{\"type\": \"block\", \"heads\": 1, \"attention\": \"hedgehog\", \"mlp\": \"degree-2\", \"hidden\": 4}, "
     "{\"type\": \"pool\", \"kind\": \"mean\", \"global\": true}",
     32, false},
};
enum { LAYER_CASES = sizeof layer_cases / sizeof *layer_cases };

static inline const layer_case *layer_case_named(const char *name)
{
    for (size_t i = 0; i < LAYER_CASES; i++)
        if (strcmp(layer_cases[i].name, name) == 0) return &layer_cases[i];
    fail_msg("there is no case '%s'", name);
    return NULL;
}

/* The whole description; the caller frees it. */
static inline char *layer_case_text(const layer_case *c)
{
    char *text = malloc(4096);
    snprintf(text, 4096,
             "{\"input\": %s, \"layers\": [%s, {\"type\": \"linear\", \"width\": \"classes\"}], \"loss\": "
             "\"cross-entropy\"}",
             c->input, c->layers);
    return text;
}

/* A file of examples/networks; the caller frees it. */
static inline char *example_text(const char *name)
{
    const char *source = getenv("BOCHNER_SOURCE");
    char path[1024], *text = calloc(1, 1 << 16);
    assert_non_null(source);
    snprintf(path, sizeof path, "%s/examples/networks/%s.json", source, name);
    FILE *file = fopen(path, "r");
    if (!file) fail_msg("%s is not there", path);
    assert_true(fread(text, 1, (1 << 16) - 1, file) > 0);
    fclose(file);
    return text;
}

#endif
