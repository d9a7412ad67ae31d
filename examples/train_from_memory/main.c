/* Trains a small language model on text in memory and generates from it. No file is read or written. */
#include <bochner/bochner.h>
#include <stdio.h>
#include <string.h>

enum { COPIES = 200, VOCAB = 256 };
static const char sentence[] = "the quick brown fox jumps over the lazy dog and runs away. ";

static int fail(bo_context *context)
{
    fprintf(stderr, "train_from_memory: %s\n", bo_context_error(context));
    return 1;
}

/* Called every few steps. Returning false would stop the run. */
static bool show(void *user, const bo_training_report *report)
{
    (void)user;
    if (report->evaluated)
        printf("step %3u of %u  loss %.3f  validation %.3f bits per byte\n", (unsigned)report->step,
               (unsigned)report->steps, report->loss, report->valid_metric);
    return true;
}

static bo_status generate(bo_context *context, const bo_model *model, const char *prompt)
{
    bo_session *session;
    float logits[VOCAB];
    int32_t next = 0;
    bo_status status = bo_session_create(context, model, NULL, &session);
    if (status != BO_OK) return status;
    for (size_t i = 0; status == BO_OK && i < strlen(prompt) + 50; i++) {
        const int32_t id = i < strlen(prompt) ? prompt[i] : next;
        putchar(id);
        status = bo_session_feed(context, session, &id, 1, logits);
        next = 0;
        for (int32_t j = 1; j < VOCAB; j++) next = logits[j] > logits[next] ? j : next; /* the most likely byte */
    }
    putchar('\n');
    bo_session_destroy(session);
    return status;
}

int main(void)
{
    static char text[COPIES * (sizeof sentence - 1)];
    bo_context *context;
    bo_tokenizer *bytes;
    bo_corpus *train, *valid;
    bo_model *model;
    bo_trainer *trainer;
    for (size_t i = 0; i < sizeof text; i++) text[i] = sentence[i % (sizeof sentence - 1)];
    if (bo_context_create(NULL, &context) != BO_OK) return 1;

    /* A token is a byte. The last tenth of the text is held out for validation. */
    if (bo_tokenizer_create(context, &bytes) != BO_OK) return fail(context);
    bo_corpus_desc train_desc = {.tokenizer = bytes, .take = 0.9, .memory = text, .memory_bytes = sizeof text};
    bo_corpus_desc last = {.tokenizer = bytes, .skip = 0.9, .memory = text, .memory_bytes = sizeof text};
    if (bo_corpus_open(context, &train_desc, &train) != BO_OK || bo_corpus_open(context, &last, &valid) != BO_OK)
        return fail(context);

    bo_model_desc shape = {.layers = 2, .width = 64, .context = 64, .block = {.heads = 2}};
    if (!bo_attention_preset("rfa-gate", &shape.block.attention) ||
        bo_model_create(context, &shape, bytes, &model) != BO_OK)
        return fail(context);

    /* Without a directory the trainer writes no checkpoints; bo_model_save writes the model as bytes. */
    bo_trainer_desc run = {.model = model,
                           .train = {.corpus = train},
                           .valid = {.corpus = valid},
                           .steps = 60,
                           .batch = 8,
                           .report = show,
                           .eval_every = 20};
    if (bo_trainer_create(context, &run, &trainer) != BO_OK || bo_trainer_run(context, trainer) != BO_OK)
        return fail(context);
    const double bits = bo_trainer_report(trainer)->valid_metric;
    if (generate(context, model, "the quick ") != BO_OK) return fail(context);

    bo_trainer_destroy(trainer);
    bo_model_destroy(model);
    bo_corpus_close(valid);
    bo_corpus_close(train);
    bo_tokenizer_destroy(bytes);
    bo_context_destroy(context);
    return bits < 2 ? 0 : 1; /* 8 bits without training */
}
