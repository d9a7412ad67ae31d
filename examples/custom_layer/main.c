/* A custom layer in a language model: W (sin(A x) ∘ B x) instead of an MLP. The sine is a custom operation.
 * The program trains the model, saves it, and loads it again with the function. */
#include <bochner/bochner.h>
#include <math.h>
#include <stdio.h>

static int fail(bo_context *context)
{
    fprintf(stderr, "custom_layer: %s\n", bo_context_error(context));
    return 1;
}

/* y = sin(x) */
static bo_status sine_forward(bo_context *context, const bo_operation_call *call)
{
    const float *x = (const float *)call->in[0].data;
    float *y = (float *)call->out[0].data;
    (void)context;
    for (size_t i = 0; i < call->in[0].rows * call->in[0].columns; i++) y[i] = sinf(x[i]);
    return BO_OK;
}

/* dx += cos(x) dy. din[0] is NULL if no gradient of the input is needed. */
static bo_status sine_backward(bo_context *context, const bo_operation_call *call)
{
    const float *x = (const float *)call->in[0].data;
    (void)context;
    for (size_t i = 0; call->din[0] && i < call->in[0].rows * call->in[0].columns; i++)
        call->din[0][i] += cosf(x[i]) * call->dout[0][i];
    return BO_OK;
}

static const bo_operation_desc sine = {
    .name = "sine", .inputs = 1, .forward = sine_forward, .backward = sine_backward, .unread_outputs = 1};

/* Records the layer in a graph: its weights have names that start with place->prefix. */
static bo_value record(bo_graph *graph, const bo_custom_place *place)
{
    char a[80], b[80], w[80];
    const bo_linear_layer inward = {.out = place->model->block.hidden};
    snprintf(a, sizeof a, "%s.a", place->prefix);
    snprintf(b, sizeof b, "%s.b", place->prefix);
    snprintf(w, sizeof w, "%s.w", place->prefix);
    bo_value wave = bo_nn_linear(graph, a, place->x, &inward);
    wave = bo_graph_apply_custom(graph, &sine, NULL, 0, 1, &wave);
    bo_value gate = bo_nn_linear(graph, b, place->x, &inward);
    return bo_nn_output(graph, w, bo_graph_multiply(graph, wave, gate), place->residual, NULL);
}

static const bo_custom_layer waves = {.name = "waves", .record = record};

/* The logits of the byte that follows ten bytes. */
static bo_status predict_next(bo_context *context, const bo_model *model, const int32_t *ids, float *logits)
{
    bo_session *session;
    bo_status status = bo_session_create(context, model, NULL, &session);
    if (status != BO_OK) return status;
    status = bo_session_feed(context, session, ids, 10, logits);
    bo_session_destroy(session);
    return status;
}

int main(void)
{
    static const char text[] = "the quick brown fox jumps over the lazy dog and runs away. ";
    static int32_t ids[8192];
    bo_context *context;
    bo_tokenizer *tokenizer;
    bo_corpus *corpus;
    bo_model *model, *loaded;
    bo_trainer *trainer;
    float trained[256], again[256];
    for (size_t i = 0; i < 8192; i++) ids[i] = text[i % (sizeof text - 1)];
    if (bo_context_create(NULL, &context) != BO_OK) return 1;
    if (bo_tokenizer_create(context, &tokenizer) != BO_OK) return fail(context);
    const bo_corpus_desc corpus_desc = {.tokenizer = tokenizer, .ids = ids, .id_count = 8192};
    if (bo_corpus_open(context, &corpus_desc, &corpus) != BO_OK) return fail(context);
    const bo_block block = {.heads = 2, .mlp = BO_MLP_CUSTOM, .custom_mlp = waves};
    bo_model_desc desc = {.layers = 2, .width = 64, .context = 64, .block = block};
    if (bo_model_create(context, &desc, tokenizer, &model) != BO_OK) return fail(context);
    bo_trainer_desc run = {.model = model, .train = {.corpus = corpus}, .steps = 60, .batch = 8, .seed = 1};
    if (bo_trainer_create(context, &run, &trainer) != BO_OK || bo_trainer_run(context, trainer) != BO_OK)
        return fail(context);
    const double loss = bo_trainer_report(trainer)->loss;
    const bo_sink to = {.path = "waves"};
    const bo_source from = {.path = "waves"};
    const bo_model_load_desc with = {.layers = &waves, .layer_count = 1}; /* a file cannot store the function */
    if (bo_model_save(context, model, &to) != BO_OK || bo_model_load(context, &from, &with, &loaded) != BO_OK)
        return fail(context);
    if (predict_next(context, model, ids, trained) != BO_OK || predict_next(context, loaded, ids, again) != BO_OK)
        return fail(context);
    printf("loss %.3f, logit of 'b' %g; after loading %g\n", loss, (double)trained[(int)'b'], (double)again[(int)'b']);
    bo_trainer_destroy(trainer);
    bo_model_destroy(loaded);
    bo_model_destroy(model);
    bo_corpus_close(corpus);
    bo_tokenizer_destroy(tokenizer);
    bo_context_destroy(context);
    return loss < 2.5 && trained[(int)'b'] == again[(int)'b'] ? 0 : 1; /* loss without training: log 256 = 5.5 */
}
