/* Encoders for the workers of a pool. Each has its own context, so that tasks may allocate and fail. */
#include "encoder.h"

static bo_status create_one(bo_context *context, const bo_tokenizer *tokenizer, bool specials, size_t bytes,
                            bo_context **branch, bo_encoder *out)
{
    BO_TRY(bo_context_branch(context, branch));
    bo_status status = bo_encoder_create(*branch, tokenizer, specials, bytes, out);
    if (status != BO_OK) {
        bo_fail(context, status, "%s", bo_context_error(*branch));
        bo_context_destroy(*branch);
    }
    return status;
}

bo_status bo_encoders_create(bo_context *context, const bo_tokenizer *tokenizer, bool specials, size_t bytes,
                             bo_encoders *out)
{
    const int workers = bo_context_threads(context);
    *out = (bo_encoders){0};
    out->contexts = bo_alloc(context, (size_t)workers, sizeof *out->contexts, "encoders");
    out->items = bo_alloc(context, (size_t)workers, sizeof *out->items, "encoders");
    bo_status status = out->contexts && out->items ? BO_OK : BO_MEMORY;
    for (int w = 0; status == BO_OK && w < workers; ++w) {
        status = create_one(context, tokenizer, specials, bytes, &out->contexts[w], &out->items[w]);
        if (status == BO_OK) ++out->count;
    }
    if (status != BO_OK) bo_encoders_free(out);
    return status;
}

void bo_encoders_free(bo_encoders *encoders)
{
    for (int w = 0; w < encoders->count; ++w) {
        bo_encoder_free(&encoders->items[w]);
        bo_context_destroy(encoders->contexts[w]);
    }
    bo_free(encoders->contexts);
    bo_free(encoders->items);
    *encoders = (bo_encoders){0};
}

bo_status bo_encoders_failed(bo_context *context, const bo_encoders *encoders, bo_status status)
{
    for (int w = 0; w < encoders->count; ++w)
        if (*bo_context_error(encoders->contexts[w]))
            return bo_fail(context, status, "%s", bo_context_error(encoders->contexts[w]));
    return bo_fail(context, status, "encoding: %s", bo_status_string(status));
}
