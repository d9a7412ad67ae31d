/* A whole model in memory: loaded or refused; a small one reads tokens, and is written and read again. */
#include "container.h"
#include <bochner/generate.h>

enum { MAX_CONTEXT = 64, MAX_VOCAB = 1 << 12 };

static void read_tokens(bo_context *context, const bo_model *model)
{
    static float logits[MAX_VOCAB];
    bo_session *session;
    if (!fuzz_ok(context, bo_session_create(context, model, NULL, &session))) return;
    fuzz_ok(context, bo_session_feed(context, session, (const int32_t[]){0, 1, 2}, 3, logits));
    bo_session_destroy(session);
}

/* Written data can be read. */
static void write_again(bo_context *context, const bo_model *model)
{
    void *bytes;
    size_t size;
    bo_model *again;
    if (!fuzz_ok(context, bo_model_save(context, model, &(bo_sink){.bytes = &bytes, .size = &size}))) abort();
    if (!fuzz_ok(context, bo_model_load(context, &(bo_source){.bytes = bytes, .size = size}, NULL, &again))) abort();
    bo_model_destroy(again);
    bo_free(bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    bo_context *context = fuzz_context();
    bo_model *model;
    uint8_t *image = fuzz_image(data, size);
    const bool loaded =
        fuzz_ok(context, bo_model_load(context, &(bo_source){.bytes = image, .size = size}, NULL, &model));
    free(image);
    if (loaded != (model != NULL)) abort();
    if (!loaded) return 0;
    const bo_model_desc *desc = bo_model_describe(model);
    if (desc->context <= MAX_CONTEXT && desc->vocab <= MAX_VOCAB && desc->block.attention.capacity <= MAX_CONTEXT) {
        read_tokens(context, model);
        write_again(context, model);
    }
    bo_model_destroy(model);
    return 0;
}
