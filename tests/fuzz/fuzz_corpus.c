/* A corpus in memory: the first byte selects text or JSON lines. It is opened or refused; in an open corpus every token
 * can be read. */
#include "fuzz.h"
#include <bochner/text.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static bo_tokenizer *bytes;
    bo_context *context = fuzz_context();
    bo_corpus *corpus;
    if (size == 0) return 0;
    if (!bytes && bo_tokenizer_create(context, &bytes) != BO_OK) abort();
    const bo_corpus_desc desc = {.tokenizer = bytes,
                                 .memory = (const char *)data + 1,
                                 .memory_bytes = size - 1,
                                 .memory_lines = data[0] & 1,
                                 .separator = data[0] & 2 ? "\n\n" : NULL,
                                 .field = data[0] & 4 ? "body" : NULL};
    if (!fuzz_ok(context, bo_corpus_open(context, &desc, &corpus))) {
        if (corpus) abort();
        return 0;
    }
    const size_t tokens = (size_t)bo_corpus_tokens(corpus);
    int32_t *ids = malloc(tokens * sizeof *ids);
    if (tokens == 0 || tokens > size || bo_corpus_bytes(corpus) != tokens) abort();
    if (!fuzz_ok(context, bo_corpus_read(context, corpus, 0, tokens, ids))) abort();
    for (size_t i = 0; i < tokens; ++i)
        if (ids[i] < 0 || ids[i] > 255) abort();
    free(ids);
    bo_corpus_close(corpus);
    return 0;
}
