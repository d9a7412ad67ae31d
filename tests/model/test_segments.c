/* Consecutive segments of a text: a pass continues from the states of the segment before it, and the gradients of these
 * states flow back. Together the segments have the losses and the gradients of one long window. */
#include <bochner/names.h>
#include "models.h"
#include "tape/graph.h"
#include <math.h>

enum { LANES = 2, LONG = CONTEXT, MAX_SEGMENTS = 3 };

/* All layers of all lanes, before each segment and after the last. */
typedef struct chain {
    void *states[MAX_SEGMENTS + 1][LAYERS * LANES];
    float *gradients[MAX_SEGMENTS + 1][LAYERS * LANES];
} chain;

static chain make_chain(bo_context *context, const bo_model *model)
{
    chain c;
    for (size_t i = 0; i < LAYERS * LANES; i++) {
        const bo_attention *attention = model->attentions[i / LANES];
        const size_t bytes = bo_layer_state_bytes(&model->desc, i / LANES, attention);
        const size_t floats = attention ? bo_attention_state_gradient_floats(attention) : bytes / sizeof(float);
        for (size_t s = 0; s <= MAX_SEGMENTS; s++) {
            c.states[s][i] = malloc(bytes);
            c.gradients[s][i] = calloc(floats, sizeof(float));
        }
        assert_ok(context, bo_layer_state_begin(context, model, i / LANES, attention, c.states[0][i]));
    }
    return c;
}

static void free_chain(chain *c)
{
    for (size_t i = 0; i < LAYERS * LANES; i++)
        for (size_t s = 0; s <= MAX_SEGMENTS; s++) free(c->states[s][i]), free(c->gradients[s][i]);
}

/* Every lane reads its own text of LONG + 1 tokens. */
static void write_segment(bo_context *context, const bo_model_graph *g, size_t first, size_t tokens)
{
    int32_t all[LANES * (LONG + 1)], ids[LANES * LONG], targets[LANES * LONG], positions[LANES * LONG];
    test_tokens(LANES * (LONG + 1), all);
    for (size_t lane = 0; lane < LANES; lane++)
        for (size_t i = 0; i < tokens; i++) {
            const int32_t *at = all + lane * (LONG + 1) + first + i;
            ids[lane * tokens + i] = at[0];
            targets[lane * tokens + i] = at[1];
            positions[lane * tokens + i] = (int32_t)(first + i);
        }
    assert_ok(context, bo_graph_write(context, g->graph, g->tokens, ids));
    assert_ok(context, bo_graph_write(context, g->graph, g->targets, targets));
    if (g->positions) assert_ok(context, bo_graph_write(context, g->graph, g->positions, positions));
}

static bo_model_graph make_graph(bo_context *context, const bo_model *model, size_t tokens, bool checkpoint)
{
    bo_model_graph g;
    const bo_model_graph_desc desc = {
        .rows = LANES * tokens, .tokens = tokens, .loss = true, .gradients = true, .checkpoint = checkpoint};
    assert_ok(context, bo_model_graph_create(context, model, &desc, &g));
    assert_ok(context, bo_graph_allocate(context, g.graph));
    return g;
}

/* Runs the segments; with `flow` the gradient crosses their borders. Returns the mean loss; gradients are added to the
 * gradients of the weights. */
static double run_segments(bo_context *context, const bo_model *model, size_t segments, bool flow, bool checkpoint)
{
    const size_t tokens = LONG / segments;
    bo_model_graph g = make_graph(context, model, tokens, checkpoint);
    chain c = make_chain(context, model);
    double sum = 0;
    for (size_t s = 0; s + 1 < segments; s++) {
        const bo_graph_pass pass = {.states = c.states[s], .final_states = c.states[s + 1]};
        write_segment(context, &g, s * tokens, tokens);
        assert_ok(context, bo_graph_forward(context, g.graph, &pass));
    }
    for (size_t s = segments; s-- > 0;) {
        float loss;
        const bo_graph_pass pass = {.loss_scale = 1.0f / (float)segments,
                                    .states = c.states[s],
                                    .final_states = c.states[s + 1],
                                    .final_gradients =
                                        flow && s + 1 < segments ? (const float *const *)c.gradients[s + 1] : NULL,
                                    .state_gradients = flow ? c.gradients[s] : NULL};
        write_segment(context, &g, s * tokens, tokens);
        assert_ok(context, bo_graph_run(context, g.graph, &pass));
        assert_ok(context, bo_graph_read(context, g.graph, g.loss, &loss));
        sum += (double)loss;
    }
    free_chain(&c);
    bo_model_graph_destroy(&g);
    return sum / (double)segments;
}

static double run_long(bo_context *context, const bo_model *model)
{
    bo_model_graph g = make_graph(context, model, LONG, false);
    float loss;
    write_segment(context, &g, 0, LONG);
    assert_ok(context, bo_graph_run(context, g.graph, NULL));
    assert_ok(context, bo_graph_read(context, g.graph, g.loss, &loss));
    bo_model_graph_destroy(&g);
    return (double)loss;
}

/* Copies the gradients of all weights and sets them to zero. */
static float *take_gradients(bo_context *context, const bo_model *model)
{
    const size_t floats = bo_weights_floats(model->weights);
    float *out = malloc(floats * sizeof *out);
    memcpy(out, bo_weights_gradients(model->weights)->data, floats * sizeof *out);
    assert_ok(context, bo_weights_zero_gradients(context, model->weights));
    return out;
}

/* |a - b| / |b| */
static double distance(const bo_model *model, const float *a, const float *b)
{
    double difference = 0, norm = 0;
    for (size_t i = 0; i < bo_weights_floats(model->weights); i++) {
        difference += ((double)a[i] - (double)b[i]) * ((double)a[i] - (double)b[i]);
        norm += (double)b[i] * (double)b[i];
    }
    return sqrt(difference / norm);
}

/* The gradient without flow differs, so the comparison is not vacuous. */
static void compare(bo_context *context, const bo_model *model, const char *name)
{
    assert_ok(context, bo_weights_allocate(context, model->weights, true));
    assert_ok(context, bo_weights_zero_gradients(context, model->weights));
    const double expected = run_long(context, model);
    float *whole = take_gradients(context, model);
    for (size_t segments = 2; segments <= MAX_SEGMENTS; segments++) {
        const double loss = run_segments(context, model, segments, true, segments == 3);
        float *flowing = take_gradients(context, model);
        const double cut_loss = run_segments(context, model, segments, false, false);
        float *cut = take_gradients(context, model);
        const double error = distance(model, flowing, whole), missing = distance(model, cut, whole);
        if (!(error < 2e-4) || !(missing > 1e-3))
            fail_msg("%s, %zu segments: error %g, without flow %g", name, segments, error, missing);
        assert_close(loss, expected, 1e-5);
        assert_close(cut_loss, expected, 1e-5);
        free(flowing);
        free(cut);
    }
    free(whole);
}

/* Every attention, softmax with a window, and recurrent layers. */
static void segments_are_a_long_window(void **state)
{
    (void)state;
    static const char *const recurrent[] = {"rnn", "gru", "lstm"};
    bo_context *context = test_context(2);
    size_t presets = 0;
    while (bo_enum_name(BO_ENUM_ATTENTION_PRESET, (int)presets)) presets++;
    for (size_t k = 0; k < presets + 3; k++) {
        const char *name = k < presets ? bo_enum_name(BO_ENUM_ATTENTION_PRESET, (int)k) : recurrent[k - presets];
        bo_model_desc desc = test_desc(name);
        if (k < presets && bo_attention_has(&desc.block.attention, BO_TRAIT_CAPACITY)) desc.block.attention.window = 20;
        bo_model *model = test_model(context, &desc, NULL);
        compare(context, model, name);
        bo_model_destroy(model);
    }
    bo_context_destroy(context);
}

/* Other mixers update states in place and refuse such a pass. */
static void other_mixers_refuse(void **state)
{
    (void)state;
    static const char *const kinds[] = {"ssm", "conv", "mlp"};
    bo_context *context = test_context(1);
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        const bo_model_desc desc = test_desc(kinds[k]);
        bo_model *model = test_model(context, &desc, NULL);
        assert_ok(context, bo_weights_allocate(context, model->weights, true));
        bo_model_graph g = make_graph(context, model, LONG, false);
        char bytes[LAYERS * LANES][1 << 14] = {{0}};
        void *states[LAYERS * LANES];
        for (size_t i = 0; i < LAYERS * LANES; i++) states[i] = bytes[i];
        const bo_graph_pass pass = {.states = states, .final_states = states};
        write_segment(context, &g, 0, LONG);
        assert_fails(context, BO_INVALID,
                     "a pass with final states is supported by attention and recurrent layers only",
                     bo_graph_run(context, g.graph, &pass));
        bo_model_graph_destroy(&g);
        bo_model_destroy(model);
    }
    bo_context_destroy(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(segments_are_a_long_window),
        cmocka_unit_test(other_mixers_refuse),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
