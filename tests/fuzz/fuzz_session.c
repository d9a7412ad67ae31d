/* A saved state in memory: a session of its model accepts or refuses it, and continues to work in both cases. */
#include "container.h"
#include <bochner/generate.h>

static void feed_again(bo_context *context, bo_session *session)
{
    float logits[256];
    if (!fuzz_ok(context, bo_session_reset(context, session))) abort();
    if (!fuzz_ok(context, bo_session_feed(context, session, (const int32_t[]){1, 2}, 2, logits))) abort();
}

/* The models of seeds.c, created once, each with a session that has read two tokens. */
static bo_session *open_session(bo_context *context, bool exact)
{
    static bo_session *sessions[2];
    if (sessions[exact]) return sessions[exact];
    bo_model_desc desc = {.layers = 1, .block.heads = 1, .width = 8, .context = 8, .block.hidden = 4};
    bo_tokenizer *bytes;
    bo_model *model;
    if (!bo_attention_preset(exact ? "softmax" : "rfa-gate", &desc.block.attention)) abort();
    if (exact)
        desc.block.positions = BO_POSITIONS_LEARNED, desc.block.mlp = BO_MLP_SWIGLU;
    else
        desc.block.attention.features.features = 8;
    if (bo_tokenizer_create(context, &bytes) != BO_OK || bo_model_create(context, &desc, bytes, &model) != BO_OK ||
        bo_session_create(context, model, NULL, &sessions[exact]) != BO_OK)
        abort();
    feed_again(context, sessions[exact]);
    return sessions[exact];
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    bo_context *context = fuzz_context();
    uint8_t *image = fuzz_image(data, size);
    for (int exact = 0; exact < 2; ++exact) {
        bo_session *session = open_session(context, exact);
        uint64_t tokens, before = bo_session_tokens(session);
        float logits[256];
        const bool known =
            fuzz_ok(context, bo_session_peek(context, &(bo_source){.bytes = image, .size = size}, &tokens));
        const bool loaded =
            fuzz_ok(context, bo_session_load(context, session, &(bo_source){.bytes = image, .size = size}));
        if (loaded && (!known || bo_session_tokens(session) != tokens)) abort();
        if (!loaded && bo_session_tokens(session) != before) abort();
        if (!loaded) continue;
        if (bo_session_remaining(session) > 0)
            fuzz_ok(context, bo_session_feed(context, session, (const int32_t[]){3}, 1, logits));
        feed_again(context, session);
    }
    free(image);
    return 0;
}
