/* A malicious tokenizer.json is applied to text: loaded or refused; a loaded one encodes and decodes within its ids. */
#include "fuzz.h"
#include "text/tokenizer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char text[] = "It's the  naïve\ttest, 123 of 東京\n\n<s>aaab \xff\xc3 end<|endoftext|> ";
    bo_context *context = fuzz_context();
    bo_tokenizer *tokenizer;
    if (!fuzz_ok(context, bo_tokenizer_load_memory(context, data, size, &tokenizer))) return 0;
    for (int specials = 0; specials < 2; ++specials) {
        bo_ids ids = {0};
        char *back;
        size_t bytes;
        if (fuzz_ok(context, bo_tokenizer_encode(context, tokenizer, text, sizeof text - 1, specials, &ids)) &&
            fuzz_ok(context, bo_tokenizer_add_specials(context, tokenizer, &ids))) {
            if (!fuzz_ok(context, bo_tokenizer_decode(context, tokenizer, ids.items, ids.count, &back, &bytes)))
                abort();
            bo_free(back);
        }
        bo_ids_free(&ids);
    }
    if (bo_tokenizer_end(tokenizer) >= (int32_t)bo_tokenizer_vocab(tokenizer)) abort();
    bo_tokenizer_cuttable(tokenizer);
    bo_tokenizer_destroy(tokenizer);
    return 0;
}
