/* Loads a language model from a directory and generates text: generate [DIRECTORY [PROMPT]]
 *
 * `bochner train --data text.txt --out model --minutes 2` creates such a directory. */
#include <bochner/bochner.h>
#include <stdio.h>

static int fail(bo_context *context)
{
    fprintf(stderr, "generate: %s\n", bo_context_error(context));
    return 1;
}

/* Receives each token as soon as it is chosen. Its text is whole UTF-8 characters. */
static bool show(void *user, const bo_token *token)
{
    (void)user;
    fwrite(token->text, 1, token->bytes, stdout);
    fflush(stdout);
    return true;
}

int main(int argc, char **argv)
{
    const char *directory = argc > 1 ? argv[1] : "model", *prompt = argc > 2 ? argv[2] : "In the beginning";
    bo_context *context;
    bo_model *model;
    if (bo_context_create(NULL, &context) != BO_OK) return 1;
    const bo_source source = {.path = directory};
    if (bo_model_load(context, &source, NULL, &model) != BO_OK) return fail(context);

    bo_generate_desc desc = {.prompt = prompt, .max_tokens = 100};
    desc.sampling.temperature = 0.8;
    desc.sampling.top_k = 40;
    desc.sampling.seed = 1;
    fputs(prompt, stdout);
    if (bo_generate(context, model, &desc, show, NULL) != BO_OK) return fail(context);
    putchar('\n');

    bo_model_destroy(model);
    bo_context_destroy(context);
    return 0;
}
