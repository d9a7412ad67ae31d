/* For test_long_sacrebleu.sh: reads corpora from standard input and prints the BLEU of each. A corpus is a line
 * "TOKENIZE PAIRS" and its pairs: a line "BYTES BYTES", then the bytes of hypothesis and reference and a line end. */
#include <bochner/bochner.h>
#include <stdio.h>
#include <stdlib.h>

static int fail(const char *message)
{
    fprintf(stderr, "print_bleu: %s\n", message);
    return EXIT_FAILURE;
}

static bool read_text(size_t bytes, char *text)
{
    return fread(text, 1, bytes, stdin) == bytes;
}

static bool add_pair(bo_context *context, bo_bleu_counts *counts, bool tokenize)
{
    static char hypothesis[1 << 16], reference[1 << 16];
    size_t bytes, reference_bytes;
    if (scanf("%zu %zu", &bytes, &reference_bytes) != 2 || getchar() != '\n') return false;
    if (bytes > sizeof hypothesis || reference_bytes > sizeof reference) return false;
    if (!read_text(bytes, hypothesis) || !read_text(reference_bytes, reference)) return false;
    return bo_bleu_add(context, counts, hypothesis, bytes, reference, reference_bytes, tokenize) == BO_OK;
}

int main(void)
{
    bo_context *context;
    int tokenize;
    size_t pairs;
    if (bo_context_create(NULL, &context) != BO_OK) return fail("no context");
    while (scanf("%d %zu", &tokenize, &pairs) == 2) {
        bo_bleu_counts counts = {0};
        bo_bleu b;
        while (pairs--)
            if (!add_pair(context, &counts, tokenize)) return fail("a pair could not be read");
        bo_bleu_score(&counts, &b);
        printf("%.17g %.17g %.17g %.17g %.17g %.17g %llu %llu\n", b.score, b.precisions[0], b.precisions[1],
               b.precisions[2], b.precisions[3], b.brevity_penalty, (unsigned long long)b.length,
               (unsigned long long)b.reference_length);
    }
    bo_context_destroy(context);
    return EXIT_SUCCESS;
}
