/* The tokens of a text that a model continues. */
#include "../base/base.h"
#include <bochner/text.h>

/* What an empty text begins with. */
static bo_status encode_start(bo_context *context, const bo_tokenizer *tokenizer, bo_ids *out)
{
    const int32_t end = bo_tokenizer_end(tokenizer);
    size_t bytes = 1;
    const char *text = end < 0 ? "\n" : bo_tokenizer_piece(tokenizer, end, &bytes);
    const bo_status status = bo_tokenizer_encode(context, tokenizer, text, bytes, true, out);
    if (status != BO_OK && status != BO_FORMAT) return status;
    if (out->count > 0) return BO_OK;
    return bo_fail(context, BO_INVALID,
                   "the prompt is empty, and the tokenizer has no token to start a text with (neither an end-of-text "
                   "token nor a line end)");
}

bo_status bo_tokenizer_encode_prompt(bo_context *context, const bo_tokenizer *tokenizer, const char *text, size_t bytes,
                                     bool continues, bo_ids *out)
{
    BO_REQUIRE(context, tokenizer, out);
    BO_REQUIRE_IF(context, bytes > 0, text);
    if (bytes) BO_TRY(bo_tokenizer_encode(context, tokenizer, text, bytes, true, out));
    if (continues) return BO_OK;
    BO_TRY(bo_tokenizer_add_specials(context, tokenizer, out));
    return out->count > 0 ? BO_OK : encode_start(context, tokenizer, out);
}
