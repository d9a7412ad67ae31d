/* Loads a language model from a folder and generates text: generate [FOLDER [PROMPT]]
 *
 * `bochner train --data text.txt --out model --minutes 2` makes such a folder. */
#include <bochner/bochner.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TOKENS = 100 };

static int fail(bo_context *context)
{
    fprintf(stderr, "generate: %s\n", bo_context_error(context));
    return 1;
}

int main(int argc, char **argv)
{
    const char *folder = argc > 1 ? argv[1] : "model", *prompt = argc > 2 ? argv[2] : "In the beginning";
    bo_context *context;
    bo_model *model;
    bo_session *session;
    bo_sampler *sampler;
    if (bo_context_create(NULL, &context) != BO_OK) return 1;
    const bo_source source = {.path = folder};
    if (bo_model_load(context, &source, NULL, &model) != BO_OK) return fail(context);

    /* The tokenizer is part of the model. */
    const bo_tokenizer *tokenizer = bo_model_tokenizer(model);
    bo_ids ids = {0};
    if (bo_tokenizer_encode(context, tokenizer, prompt, strlen(prompt), false, &ids) != BO_OK) return fail(context);

    /* A session holds the state of one sequence. Feeding it tokens gives the logits of the next token. */
    const size_t vocab = bo_model_describe(model)->vocab;
    float *logits = (float *)malloc(vocab * sizeof(float));
    if (!logits || bo_session_create(context, model, NULL, &session) != BO_OK) return fail(context);
    if (bo_session_feed(context, session, ids.items, ids.count, logits) != BO_OK) return fail(context);

    bo_sampler_desc choice = {.temperature = 0.8, .top_k = 40, .seed = 1};
    if (bo_sampler_create(context, &choice, &sampler) != BO_OK) return fail(context);
    fputs(prompt, stdout);
    for (int i = 0; i < TOKENS; i++) {
        const int32_t next = bo_sampler_next(sampler, logits, vocab);
        size_t bytes;
        const char *piece = bo_tokenizer_piece(tokenizer, next, &bytes);
        fwrite(piece, 1, bytes, stdout);
        if (bo_session_feed(context, session, &next, 1, logits) != BO_OK) return fail(context);
    }
    putchar('\n');

    bo_sampler_destroy(sampler);
    bo_session_destroy(session);
    free(logits);
    bo_ids_free(&ids);
    bo_model_destroy(model);
    bo_context_destroy(context);
    return 0;
}
