/* A malicious tokenizer.json is applied to texts: loaded or refused; a loaded one encodes and decodes within its
 * ids. */
#include "text/facts.h"
#include "fuzz.h"
#include "text/tokenizer.h"

static const char *const texts[] = {
    "It's the  naïve\ttest, 123 of 東京\n\n<s>aaab \xff\xc3 end<|endoftext|> ",
    " the\u2028e\u0301\u0345\u0301 ½ ﬁ İ \U0001fae8\u180e한국👍🏽 A12,345 <s> <s>\r\n  x",
    "",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab",
};

static void use(bo_context *context, const bo_tokenizer *tokenizer, const char *text, bool specials)
{
    bo_ids ids = {0};
    char *back;
    size_t bytes;
    const size_t length = strlen(text) + (*text == ' '); /* one of them with its NUL */
    if (fuzz_ok(context, bo_tokenizer_encode(context, tokenizer, text, length,
                                             specials ? BO_ENCODE_PROMPT : BO_ENCODE_TEMPLATE, &ids))) {
        for (size_t i = 0; i < ids.count; ++i)
            if (ids.items[i] < 0 || (size_t)ids.items[i] >= bo_tokenizer_vocab(tokenizer)) abort();
        /* decoders may write too much, or exceed the backtracking limit */
        if (fuzz_ok(context, bo_tokenizer_decode(context, tokenizer, ids.items, ids.count, &back, &bytes)))
            bo_free(back);
    }
    bo_ids_free(&ids);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    bo_context *context = fuzz_context();
    bo_tokenizer *tokenizer;
    if (!fuzz_ok(context, bo_tokenizer_load(context, &(bo_source){.bytes = data, .size = size}, &tokenizer))) return 0;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; ++i)
        for (int specials = 0; specials < 2; ++specials) use(context, tokenizer, texts[i], specials);
    if (bo_tokenizer_end(tokenizer) >= (int32_t)bo_tokenizer_vocab(tokenizer)) abort();
    bo_tokenizer_cuttable(tokenizer);
    bo_tokenizer_destroy(tokenizer);
    return 0;
}
