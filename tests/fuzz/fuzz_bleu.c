/* BLEU of two halves of any bytes: counts are consistent; a text compared with itself is fully correct. */
#include "fuzz.h"
#include "text/bleu.h"
#include <bochner/text.h>

static void check_counts(const bo_bleu_counts *counts, bool same)
{
    for (int n = 0; n < 4; ++n) {
        const uint64_t runs = counts->reference_length > (uint64_t)n ? counts->reference_length - (uint64_t)n : 0;
        if (counts->matches[n] > counts->totals[n] || counts->matches[n] > runs) abort();
        if (same && counts->matches[n] != counts->totals[n]) abort();
    }
    bo_bleu bleu;
    bo_bleu_score(counts, &bleu);
    if (!(bleu.score >= 0 && bleu.score <= 100 + 1e-9) || !(bleu.brevity_penalty >= 0 && bleu.brevity_penalty <= 1))
        abort();
}

/* Tokens are the bytes of the text, separated by spaces. */
static void check_tokens(bo_context *context, const char *text, size_t size)
{
    bo_buffer tokens = {0};
    size_t characters = 0;
    if (!fuzz_ok(context, bo_bleu_tokenize(context, text, size, &tokens))) abort();
    for (size_t i = 0; i < tokens.length; ++i) characters += tokens.bytes[i] != ' ';
    if (characters > size || tokens.length > 6 * (size + 2)) abort();
    bo_buffer_free(&tokens);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    bo_context *context = fuzz_context();
    const char *text = size ? (const char *)data : "";
    const size_t half = size / 2;
    check_tokens(context, text, size);
    for (int tokenize = 0; tokenize < 2; ++tokenize) {
        bo_bleu_counts counts = {0}, same = {0};
        if (!fuzz_ok(context, bo_bleu_add(context, &counts, text, half, text + half, size - half, tokenize))) abort();
        if (!fuzz_ok(context, bo_bleu_add(context, &same, text, size, text, size, tokenize))) abort();
        check_counts(&counts, false);
        check_counts(&same, true);
    }
    return 0;
}
