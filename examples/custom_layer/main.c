/* A custom layer inside a language model: W (sin(A x) ∘ B x) instead of an MLP. The sine is a custom operation, too.
 * The model is trained for some steps, saved, loaded again with the function, and writes. */
#include <bochner/bochner.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* y = sin(x) */
static bo_status sine_forward(bo_context *context, const bo_operation_call *call)
{
    const float *x = call->in[0].data;
    (void)context;
    for (size_t i = 0; i < call->in[0].rows * call->in[0].columns; i++) ((float *)call->out[0].data)[i] = sinf(x[i]);
    return BO_OK;
}

static bo_status sine_backward(bo_context *context, const bo_operation_call *call)
{
    const float *x = call->in[0].data;
    (void)context;
    for (size_t i = 0; call->din[0] && i < call->in[0].rows * call->in[0].columns; i++)
        call->din[0][i] += cosf(x[i]) * call->dout[0][i];
    return BO_OK;
}

static const bo_operation_desc sine = {
    .name = "sine", .inputs = 1, .forward = sine_forward, .backward = sine_backward, .unread_outputs = 1};

static bo_value record(bo_graph *graph, const bo_custom_place *place)
{
    char a[80], b[80], w[80];
    const bo_linear_layer inward = {.out = place->model->hidden};
    snprintf(a, sizeof a, "%s.a", place->prefix);
    snprintf(b, sizeof b, "%s.b", place->prefix);
    snprintf(w, sizeof w, "%s.w", place->prefix);
    bo_value wave = bo_nn_linear(graph, a, place->x, &inward);
    wave = bo_graph_apply_custom(graph, &sine, NULL, 0, 1, &wave);
    bo_value gate = bo_nn_linear(graph, b, place->x, &inward);
    return bo_nn_output(graph, w, bo_graph_multiply(graph, wave, gate), place->residual, NULL);
}

static const bo_custom_layer waves = {.name = "waves", .record = record};

static void write_text(bo_context *context, const bo_model *model, const char *prompt)
{
    bo_session *session;
    bo_sampler *sampler;
    float logits[256];
    int32_t next = 0;
    if (bo_sampler_create(context, &(bo_sampler_desc){.greedy = true}, &sampler) != BO_OK) return;
    if (bo_session_create(context, model, NULL, &session) != BO_OK) return;
    for (size_t i = 0; i < strlen(prompt) + 40; i++) {
        const int32_t id = i < strlen(prompt) ? prompt[i] : next;
        putchar(id);
        if (bo_session_feed(context, session, &id, 1, logits) != BO_OK) break;
        next = bo_sampler_next(sampler, logits, 256);
    }
    putchar('\n');
    bo_sampler_destroy(sampler);
    bo_session_destroy(session);
}

int main(int count, char **arguments)
{
    static const char text[] = "the quick brown fox jumps over the lazy dog and runs away. ";
    const char *folder = count > 1 ? arguments[1] : "waves";
    static int32_t ids[8192];
    bo_context *context;
    bo_tokenizer *tokenizer;
    bo_corpus *corpus;
    bo_model *model, *loaded;
    bo_trainer *trainer;
    double loss = 0;
    for (size_t i = 0; i < 8192; i++) ids[i] = text[i % (sizeof text - 1)];
    if (bo_context_create(NULL, &context) != BO_OK) return 1;
    if (bo_tokenizer_create(context, &tokenizer) != BO_OK ||
        bo_corpus_open_ids(context, tokenizer, ids, 8192, &corpus) != BO_OK)
        return puts(bo_context_error(context)), 1;

    bo_model_desc desc = {
        .layers = 2, .width = 64, .heads = 2, .context = 64, .mlp = BO_MLP_CUSTOM, .custom_mlp = waves};
    if (bo_model_create(context, &desc, tokenizer, &model) != BO_OK) return puts(bo_context_error(context)), 1;
    bo_trainer_desc run = {.model = model, .train = corpus, .batch = 8, .steps = 60, .seed = 1};
    if (bo_trainer_create(context, &run, &trainer) != BO_OK) return puts(bo_context_error(context)), 1;
    for (int step = 0; step < 60; step++) {
        if (bo_trainer_step(context, trainer, &loss) != BO_OK) return puts(bo_context_error(context)), 1;
        if (step % 20 == 0 || step == 59) printf("step %2d  loss %.3f\n", step, loss);
    }
    if (bo_model_save(context, model, folder) != BO_OK ||
        bo_model_load_custom(context, folder, &waves, 1, &loaded) != BO_OK) /* the function does not fit into a file */
        return puts(bo_context_error(context)), 1;
    write_text(context, loaded, "the quick ");
    bo_trainer_destroy(trainer);
    bo_model_destroy(loaded);
    bo_model_destroy(model);
    bo_corpus_close(corpus);
    bo_tokenizer_destroy(tokenizer);
    bo_context_destroy(context);
    return loss < 2.5 ? 0 : 1; /* from log 256 = 5.5 */
}
