/* Layers of networks under the maximal-update parametrization: which extents of their weights grow, and the
 * consequences. */
#include "networks.h"

/* Fan-in and fan-out relative to the base at four times its widths, and the factor of the weight. */
typedef struct expectation {
    const char *name;
    double in, out, scale;
} expectation;

static void expect(const char *model, const bo_examples *examples, size_t count, const expectation *expected)
{
    bo_context *context = test_context(1);
    bo_model *network;
    const bo_description desc = {.text = model,
                                 .examples = examples,
                                 .width_multiplier = 4,
                                 .parametrization = BO_PARAMETRIZATION_MUP,
                                 .seed = 7};
    assert_ok(context, bo_model_create_described(context, &desc, &network));
    for (size_t i = 0; i < count; i++) {
        const bo_weight *w = bo_weights_find(network->weights, expected[i].name);
        if (!w) fail_msg("no weight %s", expected[i].name);
        if (w->in != expected[i].in || w->out != expected[i].out || w->scale != expected[i].scale)
            fail_msg("%s: fans %g, %g and factor %g; expected %g, %g and %g", w->name, w->in, w->out, w->scale,
                     expected[i].in, expected[i].out, expected[i].scale);
        assert_close(w->rate, 1 / (w->in * w->scale), 1e-12);
    }
    bo_model_destroy(network);
    bo_context_destroy(context);
}

static void images(void **state)
{
    (void)state;
    static const char model[] =
        "{\"format\": 1, \"input\": " IMAGE_INPUT ", \"layers\": ["
        "{\"name\": \"first\", \"type\": \"conv\", \"channels\": 3, \"kernel\": 3, \"padding\": \"same\"}, "
        "{\"name\": \"normed\", \"type\": \"batchnorm\"}, {\"type\": \"relu\"}, "
        "{\"name\": \"second\", \"type\": \"conv\", \"channels\": 5, \"kernel\": 3, \"padding\": \"same\"}, "
        "{\"type\": \"flatten\"}, {\"name\": \"out\", \"type\": \"linear\", \"width\": \"classes\"}], "
        "\"loss\": \"cross-entropy\"}";
    static const expectation expected[] = {
        {"first.weight", 1, 4, 1},
        {"normed.weight", 1, 4, 1},
        {"second.weight", 4, 4, 1},
        {"out.weight", 4, 1, 0.25},
    };
    bo_context *context = test_context(1);
    made *m = made_new(context, 32, 3, false);
    expect(model, m->examples, sizeof expected / sizeof *expected, expected);
    made_free(m);
    bo_context_destroy(context);
}

/* Widths in the list of a block are multiplied like widths of the network. */
static void blocks(void **state)
{
    (void)state;
    static const char model[] =
        "{\"format\": 1, \"input\": " SEQUENCE_INPUT ", \"layers\": ["
        "{\"name\": \"first\", \"type\": \"conv\", \"channels\": 8, \"kernel\": 1}, "
        "{\"name\": \"b\", \"type\": \"block\", \"heads\": 2, \"layers\": [{\"name\": \"up\", \"type\": \"linear\", "
        "\"width\": 5}, {\"type\": \"gelu\"}, {\"name\": \"down\", \"type\": \"linear\", \"width\": \"input\"}]}, "
        "{\"type\": \"last\"}, {\"name\": \"out\", \"type\": \"linear\", \"width\": \"classes\"}], "
        "\"loss\": \"cross-entropy\"}";
    static const expectation expected[] = {
        {"b.layers.0.self_attn.q_proj.weight", 4, 4, 1},
        {"b.layers.0.mlp.up.weight", 4, 4, 1},
        {"b.layers.0.mlp.down.weight", 4, 4, 1},
        {"out.weight", 4, 1, 0.25},
    };
    bo_context *context = test_context(1);
    made *m = made_new(context, 24, 3, false);
    expect(model, m->examples, sizeof expected / sizeof *expected, expected);
    made_free(m);
    bo_context_destroy(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(images), cmocka_unit_test(blocks)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
