/* Losses and gradients of classifiers and matchers compared with a float64 interpreter of the same graph: bidirectional
 * attention, mixers that alternate between forward and backward reading, every pooling, packs with padding and with
 * unused examples; the same bits with checkpoints and for any number of threads. */
#include "model/enums.h"
#include "gradients.h"
#include "labelers.h"
#include "stacks.h"

static const struct {
    const char *kind;
    bo_model_task task;
    bo_pooling pooling;
    bool forward;
    const char *layers; /* in the place of the MLP */
} cases[] = {
    {"softmax", BO_MODEL_TASK_CLASSIFY, BO_POOLING_MEAN, false, NULL},
    {"softmax", BO_MODEL_TASK_MATCH, BO_POOLING_MAX, false, NULL},
    {"rfa", BO_MODEL_TASK_CLASSIFY, BO_POOLING_MAX, false, NULL},
    {"rfa", BO_MODEL_TASK_MATCH, BO_POOLING_MEAN, false, NULL},
    {"rfa-gate", BO_MODEL_TASK_CLASSIFY, BO_POOLING_MEAN, false, NULL},
    {"rfa-gate", BO_MODEL_TASK_MATCH, BO_POOLING_FIRST, false, NULL},
    {"favor", BO_MODEL_TASK_CLASSIFY, BO_POOLING_FIRST, false, NULL},
    {"dark", BO_MODEL_TASK_MATCH, BO_POOLING_LAST, false, NULL},
    {"favor#", BO_MODEL_TASK_CLASSIFY, BO_POOLING_MEAN, false, NULL},
    {"ssm", BO_MODEL_TASK_CLASSIFY, BO_POOLING_LAST, false, NULL},
    {"gru", BO_MODEL_TASK_MATCH, BO_POOLING_MEAN, false, NULL},
    {"hybrid", BO_MODEL_TASK_CLASSIFY, BO_POOLING_MEAN, false, NULL},
    {"delta", BO_MODEL_TASK_CLASSIFY, BO_POOLING_MAX, false, NULL},
    {"degree-4", BO_MODEL_TASK_MATCH, BO_POOLING_MEAN, false, NULL},
    {"softmax", BO_MODEL_TASK_CLASSIFY, BO_POOLING_LAST, true, NULL},
    {"rfa-gate", BO_MODEL_TASK_MATCH, BO_POOLING_MAX, true, NULL},
    {"lstm", BO_MODEL_TASK_CLASSIFY, BO_POOLING_MEAN, true, NULL},
    {"rfa", BO_MODEL_TASK_CLASSIFY, BO_POOLING_MEAN, false, STACK_GATE},
    {"ssm", BO_MODEL_TASK_MATCH, BO_POOLING_MAX, false, STACK_MAPS},
};
enum { CASES = sizeof cases / sizeof *cases, EXAMPLES = 3, MOST = 4, ROWS = 27 };

typedef struct labeled {
    bo_context *context;
    bo_tokenizer *tokenizer;
    bo_texts *texts;
    bo_text_pack *pack;
    bo_model *model;
    char name[64];
} labeled;

static bo_model_desc case_desc(size_t index)
{
    bo_model_desc desc = labeler_desc(cases[index].kind, cases[index].task);
    desc.pooling = cases[index].pooling, desc.forward = cases[index].forward;
    desc.width = 8, desc.block.hidden = 12, desc.block.attention.features.features = 8;
    desc.block.positions = (bo_positions)(index % BO_POSITIONS_COUNT);
    desc.block.bias = index % 3 == 1;
    desc.block.layers = cases[index].layers;
    return desc;
}

static labeled labeled_make(size_t index, int threads, double dropout)
{
    static const size_t lengths[EXAMPLES] = {5, 1, 8};
    labeled l = {.context = test_context(threads)};
    bo_model_desc desc = case_desc(index);
    desc.dropout = dropout;
    snprintf(l.name, sizeof l.name, "%s %s %s", cases[index].kind, bo_model_task_name(cases[index].task),
             bo_pooling_name(cases[index].pooling));
    assert_ok(l.context, bo_tokenizer_create(l.context, &l.tokenizer));
    l.texts = labeled_texts(l.context, l.tokenizer, &desc, EXAMPLES, lengths);
    l.pack = labeled_pack(l.context, l.texts, ROWS, MOST, EXAMPLES);
    l.model = labeler(l.context, &desc, l.tokenizer);
    return l;
}

static void labeled_drop(labeled *l)
{
    bo_model_destroy(l->model);
    bo_text_pack_destroy(l->pack);
    bo_texts_close(l->texts);
    bo_tokenizer_destroy(l->tokenizer);
    bo_context_destroy(l->context);
}

static bo_model_graph graph_of(const labeled *l, bool checkpoint, bo_graph_pass *pass)
{
    bo_model_graph_desc desc = {.loss = true, .gradients = true, .checkpoint = checkpoint, .smoothing = 0.1};
    assert_ok(l->context, bo_weights_allocate(l->context, l->model->weights, true));
    return labeler_graph(l->context, l->model, l->pack, desc, pass);
}

/* The inputs that bo_model_graph_fill should write. */
static void write_inputs(interpreter *in, const bo_model_graph *g, const labeled *l)
{
    const bo_text_pack *p = l->pack;
    const size_t sides = p->max_sequences > MOST + 1 ? 2 : 1, texts = sides * MOST, there = sides * EXAMPLES;
    int32_t first[2 * MOST + 1] = {0}, ends[2 * MOST] = {0}, all[ROWS], side[2][MOST];
    for (size_t i = 0; i < texts; i++) first[i + 1] = first[i] + (i < there ? (int32_t)p->stream.lengths[i] : 0);
    for (size_t i = 0; i < texts; i++) {
        const bool last = l->model->desc.pooling == BO_POOLING_LAST && i < there;
        ends[i] = last ? first[i + 1] - 1 : first[i];
    }
    for (size_t i = 0; i < ROWS; i++) all[i] = (int32_t)i;
    for (size_t i = 0; i < 2 * MOST; i++) side[i % 2][i / 2] = (int32_t)i;
    interpreter_index(in, g->tokens, p->stream.tokens);
    interpreter_index(in, g->positions, p->stream.positions);
    interpreter_index(in, g->reversal, p->stream.reversal);
    interpreter_index(in, g->targets, p->labels);
    interpreter_index(in, g->first, first);
    interpreter_index(in, g->places, g->first ? all : ends);
    for (size_t s = 0; s < 2; s++) interpreter_index(in, g->sides[s], side[s]);
}

static void check(size_t index)
{
    labeled l = labeled_make(index, 2, 0);
    bo_graph_pass pass = {0};
    float loss, losses[MOST];
    bo_model_graph g = graph_of(&l, false, &pass);
    clear_gradients(l.model);
    assert_ok(l.context, bo_graph_run(l.context, g.graph, &pass));
    assert_ok(l.context, bo_graph_read(l.context, g.graph, g.loss, &loss));
    assert_ok(l.context, bo_graph_read(l.context, g.graph, g.losses, losses));
    interpreter in = interpreter_make(l.context, g.graph, &pass);
    write_inputs(&in, &g, &l);
    double truth = interpreter_run(&in), sum = 0;
    for (size_t i = 0; i < EXAMPLES; i++) sum += (double)losses[i] / EXAMPLES;
    if (!(fabs((double)loss - truth) <= 1e-5 * truth && fabs(sum - truth) <= 1e-5 * truth))
        fail_msg("%s: loss %g, mean %g, expected %g", l.name, (double)loss, sum, truth);
    for (size_t i = 0; i < bo_weights_count(l.model->weights); i++)
        judge_weight(&in, l.name, i, bo_weights_gradients(l.model->weights)->data);
    interpreter_drop(&in);
    bo_model_graph_destroy(&g);
    labeled_drop(&l);
}

static void of_several_kinds(void **state)
{
    (void)state;
    for (size_t i = 0; i < CASES; i++) check(i);
}

static float *gradients_with(const labeled *l, bool checkpoint)
{
    bo_graph_pass pass = {.training = true, .seed = 5};
    size_t bytes = bo_weights_floats(l->model->weights) * sizeof(float);
    bo_model_graph g = graph_of(l, checkpoint, &pass);
    float *found = malloc(bytes);
    clear_gradients(l->model);
    assert_ok(l->context, bo_graph_run(l->context, g.graph, &pass));
    memcpy(found, bo_weights_gradients(l->model->weights)->data, bytes);
    bo_model_graph_destroy(&g);
    return found;
}

static void checkpoints_and_threads_change_nothing(void **state)
{
    (void)state;
    for (size_t i = 0; i < CASES; i++) {
        labeled one = labeled_make(i, 1, 0.2), many = labeled_make(i, 5, 0.2);
        float *first = gradients_with(&one, false), *other = gradients_with(&many, true);
        if (memcmp(first, other, bo_weights_floats(one.model->weights) * sizeof *first))
            fail_msg("%s: gradients differ", one.name);
        free(first);
        free(other);
        labeled_drop(&one);
        labeled_drop(&many);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(of_several_kinds),
        cmocka_unit_test(checkpoints_and_threads_change_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
