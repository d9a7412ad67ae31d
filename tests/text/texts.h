/* Texts and tokenizers for the tests of src/text. */
#ifndef BO_TEST_TEXTS_H
#define BO_TEST_TEXTS_H

#include "io/files.h"
#include "text/tokenizer.h"
#include <bochner/text.h>

/* Language-like text: words of a few syllables, earlier ones more frequent, with punctuation and other alphabets. */
static inline size_t test_prose(uint64_t seed, char *out, size_t length)
{
    static const char *const syllables[] = {"th",  "e",  "an",  "d",          "ing", "o",
                                            "ver", "qu", "ick", "na\xc3\xaf", "st",  "r"};
    static const char *const between[] = {" ",   " ",    " ",  " ",   " ",      ", ",
                                          ".\n", "\n\n", "  ", "'s ", " 1234 ", " \xe6\x9d\xb1"};
    bo_rng rng = bo_rng_make(seed, bo_rng_stream("test.prose", 0));
    size_t at = 0;
    while (at + 32 < length) {
        double u = bo_rng_uniform(&rng);
        bo_rng word = bo_rng_make(7, (uint64_t)(400 * u * u));
        for (uint64_t i = 1 + bo_rng_below(&word, 3); i > 0; i--) {
            const char *piece = syllables[bo_rng_below(&word, sizeof syllables / sizeof *syllables)];
            memcpy(out + at, piece, strlen(piece));
            at += strlen(piece);
        }
        const char *gap = between[bo_rng_below(&rng, sizeof between / sizeof *between)];
        memcpy(out + at, gap, strlen(gap));
        at += strlen(gap);
    }
    return at;
}

static inline bo_tokenizer *test_parse(bo_context *context, const char *json)
{
    bo_tokenizer *tokenizer;
    assert_ok(context, bo_tokenizer_parse(context, "test", json, strlen(json), &tokenizer));
    return tokenizer;
}

/* A tokenizer trained on prose that is written to the directory. */
static inline bo_tokenizer *test_learn(test_directory *f, size_t vocab, size_t bytes)
{
    char *text = malloc(bytes);
    const char *path = test_write(f, "learn.txt", text, test_prose(1, text, bytes));
    free(text);
    bo_tokenizer_desc desc = {.vocab = vocab};
    bo_tokenizer *tokenizer;
    assert_ok(f->context, bo_tokenizer_train(f->context, &desc, &path, 1, &tokenizer));
    return tokenizer;
}

static inline bo_ids test_encode(bo_context *context, const bo_tokenizer *tokenizer, const char *text, size_t length)
{
    bo_ids ids = {0};
    assert_ok(context, bo_tokenizer_encode(context, tokenizer, text, length, true, &ids));
    return ids;
}

static inline void expect_round_trip(bo_context *context, const bo_tokenizer *tokenizer, const char *text,
                                     size_t length)
{
    bo_ids ids = test_encode(context, tokenizer, text, length);
    char *back;
    size_t bytes;
    assert_ok(context, bo_tokenizer_decode(context, tokenizer, ids.items, ids.count, &back, &bytes));
    assert_int_equal(bytes, length);
    assert_memory_equal(back, text, length);
    bo_free(back);
    bo_ids_free(&ids);
}

/* The tokens of a text, separated by |. */
static inline void expect_pieces(bo_context *context, const bo_tokenizer *tokenizer, const char *text,
                                 const char *expected)
{
    char joined[1024] = "";
    bo_ids ids = test_encode(context, tokenizer, text, strlen(text));
    for (size_t i = 0; i < ids.count; i++) {
        size_t bytes;
        const char *piece = bo_tokenizer_piece(tokenizer, ids.items[i], &bytes);
        if (i) strcat(joined, "|");
        strncat(joined, piece, bytes);
    }
    bo_ids_free(&ids);
    assert_string_equal(joined, expected);
}

#endif
