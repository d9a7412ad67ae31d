/* Losses and gradients of translators compared with a float64 interpreter of the same graph: several kinds of attention
 * within and across streams, different kinds in encoder and decoder, recurrent models with attention and with a summary
 * only, packed with padding; the same bits with checkpoints and for any number of threads. */
#include "gradients.h"
#include "translators.h"

typedef struct translator_case {
    const char *kind, *cross; /* cross NULL: the same kind; "summary": BO_CROSS_SUMMARY */
    const char *encoder;      /* NULL: the same kind */
} translator_case;

static const translator_case cases[] = {
    {"softmax", NULL, NULL},
    {"rfa", NULL, NULL},
    {"favor", NULL, NULL},
    {"softmax", "delta", NULL},
    {"gla", "gla", NULL},
    {"gru", NULL, NULL},
    {"gru", "summary", NULL},
    {"ssm", "favor", NULL},
    {"dark", NULL, NULL},
    {"lstm", "rfa", NULL},
    {"t2r", NULL, NULL},
    {"conv", "softmax", NULL},
    {"rfa-gate", NULL, NULL},
    {"softmax", "summary", NULL},
    {"rfa", "softmax", "softmax"},
    {"softmax", NULL, "rfa"},
    {"softmax", "rfa", "rfa-gate"},
    {"delta", "favor", "dark"},
};
enum { CASES = sizeof cases / sizeof *cases };

static bo_model_desc case_desc(size_t index)
{
    bo_model_desc desc = translator_desc(cases[index].kind);
    desc.layers = 1 + index % 2, desc.encoder_layers = 2 - index % 2;
    if (!test_same_word(cases[index].kind, "t2r")) desc.block.attention.features.features = 8;
    desc.block.positions = (bo_positions)(index % BO_POSITIONS_COUNT);
    desc.untied = index % 4 == 1;
    desc.block.bias = index % 3 == 1;
    if (cases[index].encoder) test_encode_kind(&desc, cases[index].encoder);
    if (!cases[index].cross) return desc;
    if (test_same_word(cases[index].cross, "summary")) {
        desc.cross = BO_CROSS_SUMMARY;
        return desc;
    }
    assert_true(bo_attention_preset(cases[index].cross, &desc.block.cross_attention));
    desc.block.cross_attention.heads = desc.block.heads; /* all zero would mean: the attention of the mixer */
    return desc;
}

static bo_model_graph graph_of(bo_context *context, bo_model *model, const pack *p, bool checkpoint,
                               bo_graph_pass *pass)
{
    bo_model_graph_desc desc = {.loss = true, .gradients = true, .checkpoint = checkpoint, .smoothing = 0.1};
    assert_ok(context, bo_weights_allocate(context, model->weights, true));
    return pack_graph(context, model, p, &desc, pass);
}

static void write_inputs(interpreter *in, const bo_model_graph *g, const pack *p)
{
    const bo_text_pack *q = &p->packed;
    int32_t sources[TARGET_ROWS];
    for (size_t s = 0, row = 0, end = 0; s <= PAIRS; s++) {
        end += source_lengths[s];
        for (size_t i = 0; i < target_lengths[s]; i++) sources[row++] = (int32_t)end - 1;
    }
    interpreter_index(in, g->tokens, q->stream.tokens);
    interpreter_index(in, g->targets, q->targets);
    interpreter_index(in, g->positions, q->stream.positions);
    interpreter_index(in, g->source_tokens, q->source.tokens);
    interpreter_index(in, g->source_positions, q->source.positions);
    interpreter_index(in, g->source_reversal, q->source.reversal);
    interpreter_index(in, g->sources, sources);
}

static void check(bo_context *context, const char *name, const bo_model_desc *desc)
{
    pack p;
    bo_graph_pass pass = {0};
    float loss;
    pack_create(&p);
    bo_model *model = translator(context, desc);
    bo_model_graph g = graph_of(context, model, &p, false, &pass);
    clear_gradients(model);
    assert_ok(context, bo_graph_run(context, g.graph, &pass));
    assert_ok(context, bo_graph_read(context, g.graph, g.loss, &loss));
    interpreter in = interpreter_create(context, g.graph, &pass);
    write_inputs(&in, &g, &p);
    double truth = interpreter_run(&in);
    if (!(fabs((double)loss - truth) <= 1e-5 * truth)) fail_msg("%s: loss %g, expected %g", name, (double)loss, truth);
    for (size_t i = 0; i < bo_weights_count(model->weights); i++)
        check_weight(&in, name, i, bo_weights_gradients(model->weights)->data);
    interpreter_drop(&in);
    bo_model_graph_destroy(&g);
    bo_model_destroy(model);
}

static void of_several_kinds(void **state)
{
    (void)state;
    bo_context *context = test_context(2);
    for (size_t i = 0; i < CASES; i++) {
        const bo_model_desc desc = case_desc(i);
        char name[64];
        snprintf(name, sizeof name, "%s with %s, encoder %s", cases[i].kind,
                 cases[i].cross ? cases[i].cross : "its own", cases[i].encoder ? cases[i].encoder : "likewise");
        check(context, name, &desc);
    }
    bo_context_destroy(context);
}

/* Decoders and encoders with blocks of several kinds. */
static void of_lists_of_blocks(void **state)
{
    (void)state;
    bo_context *context = test_context(2);
    for (size_t i = 0; i < LISTS; i++) {
        bo_block blocks[2 * LIST_BLOCKS];
        char name[32];
        snprintf(name, sizeof name, "list %zu", i);
        const bo_model_desc desc = translator_lists(i, blocks);
        check(context, name, &desc);
    }
    bo_context_destroy(context);
}

static float *gradients_with(bo_context *context, bo_model *model, const pack *p, bool checkpoint)
{
    bo_graph_pass pass = {.training = true, .seed = 5};
    size_t bytes = bo_weights_floats(model->weights) * sizeof(float);
    bo_model_graph g = graph_of(context, model, p, checkpoint, &pass);
    float *found = malloc(bytes);
    clear_gradients(model);
    assert_ok(context, bo_graph_run(context, g.graph, &pass));
    memcpy(found, bo_weights_gradients(model->weights)->data, bytes);
    bo_model_graph_destroy(&g);
    return found;
}

static void checkpoints_and_threads_change_nothing(void **state)
{
    (void)state;
    bo_context *contexts[] = {test_context(1), test_context(5)};
    pack p;
    pack_create(&p);
    for (size_t i = 0; i < CASES; i++) {
        bo_model_desc desc = case_desc(i);
        desc.dropout = 0.2;
        bo_model *model = translator(contexts[0], &desc);
        size_t bytes = bo_weights_floats(model->weights) * sizeof(float);
        float *first = gradients_with(contexts[0], model, &p, false),
              *other = gradients_with(contexts[1], model, &p, true);
        if (memcmp(first, other, bytes)) fail_msg("%s: gradients differ", cases[i].kind);
        free(first);
        free(other);
        bo_model_destroy(model);
    }
    for (size_t i = 0; i < 2; i++) bo_context_destroy(contexts[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(of_several_kinds),
        cmocka_unit_test(of_lists_of_blocks),
        cmocka_unit_test(checkpoints_and_threads_change_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
