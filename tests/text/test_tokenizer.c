/* Tokenizers: bytes, reference cases, round trips of any bytes, merging compared with the definition, files. */
#include <stdlib.h>
#include "text/facts.h"
#include "texts.h"
#include "io/json.h"
#include "text/vocabulary.h"

/* ---- bytes ------------------------------------------------------------------------------------------------------- */

static void test_bytes(void **state)
{
    test_directory *f = *state;
    bo_tokenizer *bytes, *read;
    assert_ok(f->context, bo_tokenizer_create(f->context, &bytes));
    assert_true(bo_tokenizer_is_raw(bytes));
    assert_int_equal(bo_tokenizer_vocab(bytes), 256);
    assert_int_equal(bo_tokenizer_end(bytes), -1);
    assert_int_equal(bo_tokenizer_find(bytes, "a"), 'a');
    assert_int_equal(bo_tokenizer_find(bytes, "ab"), -1);
    char every[256];
    for (int i = 0; i < 256; i++) every[i] = (char)i;
    expect_round_trip(f->context, bytes, every, sizeof every);
    bo_ids ids = test_encode(f->context, bytes, every, sizeof every);
    for (int i = 0; i < 256; i++) assert_int_equal(ids.items[i], i);
    bo_ids_free(&ids);
    /* Saved as a tokenizer.json of 256 byte-level symbols, and recognized when loaded. */
    const char *path = test_path(f, "tokenizer.json");
    assert_ok(f->context, bo_tokenizer_save(f->context, bytes, &(bo_sink){.path = path}));
    assert_ok(f->context, bo_tokenizer_load(f->context, &(bo_source){.path = path}, &read));
    assert_true(bo_tokenizer_is_raw(read));
    assert_true(bo_tokenizer_fingerprint(read) == bo_tokenizer_fingerprint(bytes));
    bo_tokenizer_destroy(read);
    const int32_t wrong[] = {1, 256};
    char *text;
    size_t length;
    assert_fails(f->context, BO_INVALID, "token 1 is 256",
                 bo_tokenizer_decode(f->context, bytes, wrong, 2, &text, &length));
    bo_tokenizer_destroy(bytes);
}

/* ---- reference --------------------------------------------------------------------------------------------------- */

static bo_tokenizer *load_reference(bo_context *context)
{
    char path[1024];
    snprintf(path, sizeof path, "%s/tests/data/gpt2-tiny", getenv("BOCHNER_SOURCE"));
    bo_tokenizer *tokenizer;
    assert_ok(context, bo_tokenizer_load(context, &(bo_source){.path = path}, &tokenizer));
    return tokenizer;
}

static bo_json *load_cases(bo_context *context)
{
    char path[1024];
    static char text[1 << 16];
    snprintf(path, sizeof path, "%s/tests/data/gpt2-tiny/tokenizer_cases.json", getenv("BOCHNER_SOURCE"));
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    size_t length = fread(text, 1, sizeof text, file);
    fclose(file);
    bo_json *cases;
    assert_ok(context, bo_json_parse(context, path, text, length, 8, &cases));
    return cases;
}

/* Results of Hugging Face's tokenizers. */
static void test_reference(void **state)
{
    test_directory *f = *state;
    bo_tokenizer *tokenizer = load_reference(f->context);
    assert_int_equal(bo_tokenizer_vocab(tokenizer), 1024);
    assert_int_equal(bo_tokenizer_end(tokenizer), bo_tokenizer_find(tokenizer, "<|endoftext|>"));
    bo_json *cases = load_cases(f->context), *item;
    size_t seen = 0;
    BO_JSON_EACH(item, cases)
    {
        const char *text = bo_json_member(item, "text")->text;
        const bo_json *expected = bo_json_member(item, "ids"), *id;
        bo_ids ids = test_encode(f->context, tokenizer, text, strlen(text));
        assert_int_equal(ids.count, bo_json_count(expected));
        size_t i = 0;
        BO_JSON_EACH(id, expected) assert_int_equal(ids.items[i++], (int)id->number);
        bo_ids_free(&ids);
        expect_round_trip(f->context, tokenizer, text, strlen(text));
        seen++;
    }
    assert_int_equal(seen, 7);
    bo_json_delete(cases);
    bo_tokenizer_destroy(tokenizer);
}

static void test_specials(void **state)
{
    test_directory *f = *state;
    bo_tokenizer *tokenizer = load_reference(f->context);
    expect_pieces(f->context, tokenizer, "<|endoftext|>the<|endoftext|>", "<|endoftext|>|the|<|endoftext|>");
    bo_ids ids = {0};
    assert_ok(f->context, bo_tokenizer_encode(f->context, tokenizer, "<|endoftext|>", 13, false, &ids));
    assert_true(ids.count > 1);
    for (size_t i = 0; i < ids.count; i++) assert_int_not_equal(ids.items[i], bo_tokenizer_end(tokenizer));
    bo_ids_free(&ids);
    bo_tokenizer_destroy(tokenizer);
}

/* ---- round trips ------------------------------------------------------------------------------------------------- */

/* Random bytes, and random bytes in text. */
static void test_round_trips(void **state)
{
    test_directory *f = *state;
    bo_tokenizer *tokenizer = load_reference(f->context);
    bo_rng rng = bo_rng_make(1, 1);
    char text[3000];
    for (size_t i = 0; i < 300; i++) {
        size_t length = i % 2 ? test_prose(i, text, sizeof text) : bo_rng_below(&rng, sizeof text);
        for (size_t at = 0; at < length; at++)
            if (i % 2 == 0 || bo_rng_below(&rng, 50) == 0) text[at] = (char)bo_rng_bits(&rng);
        expect_round_trip(f->context, tokenizer, text, length);
    }
    bo_tokenizer_destroy(tokenizer);
}

/* One word of a megabyte: quadratic time would be too slow. */
static void test_long_words(void **state)
{
    test_directory *f = *state;
    enum { LENGTH = 1 << 20 };
    bo_tokenizer *tokenizer = load_reference(f->context);
    char *text = malloc(LENGTH);
    memset(text, 'a', LENGTH);
    expect_round_trip(f->context, tokenizer, text, LENGTH);
    memset(text, ' ', LENGTH);
    expect_round_trip(f->context, tokenizer, text, LENGTH);
    for (size_t i = 0; i < LENGTH; i++) text[i] = "thearndis"[(i * i + i / 7) % 9];
    expect_round_trip(f->context, tokenizer, text, LENGTH);
    free(text);
    bo_tokenizer_destroy(tokenizer);
}

/* ---- merging by the definition ----------------------------------------------------------------------------------- */

/* Merges the leftmost pair of lowest rank until no pair has a rank. */
static size_t merge_plainly(const bo_tokenizer *tokenizer, const char *word, size_t length, int32_t *ids)
{
    for (size_t i = 0; i < length; i++) ids[i] = tokenizer->byte_ids[(unsigned char)word[i]];
    for (;;) {
        const bo_merge *best = NULL;
        size_t place = 0;
        for (size_t i = 0; i + 1 < length; i++) {
            const bo_merge *merge = bo_merges_find(&tokenizer->merges, ids[i], ids[i + 1]);
            if (merge && (!best || merge->rank < best->rank)) {
                best = merge;
                place = i;
            }
        }
        if (!best) return length;
        ids[place] = best->id;
        length--;
        for (size_t i = place + 1; i < length; i++) ids[i] = ids[i + 1];
    }
}

static void test_merging(void **state)
{
    test_directory *f = *state;
    bo_tokenizer *tokenizer = load_reference(f->context);
    bo_rng rng = bo_rng_make(3, 3);
    for (size_t round = 0; round < 600; round++) {
        char word[400];
        int32_t expected[400];
        size_t length = 1 + round % sizeof word; /* words with more than 32 symbols use another algorithm */
        const char *alphabet = round % 3 ? "thearndis" : "aaab";
        for (size_t i = 0; i < length; i++) word[i] = alphabet[bo_rng_below(&rng, strlen(alphabet))];
        size_t count = merge_plainly(tokenizer, word, length, expected);
        bo_ids ids = test_encode(f->context, tokenizer, word, length);
        assert_int_equal(ids.count, count);
        assert_memory_equal(ids.items, expected, count * sizeof *expected);
        bo_ids_free(&ids);
    }
    bo_tokenizer_destroy(tokenizer);
}

/* ---- files ------------------------------------------------------------------------------------------------------- */

static void test_files(void **state)
{
    test_directory *f = *state;
    bo_tokenizer *tokenizer = load_reference(f->context), *again;
    const char *path = test_path(f, "copy.json");
    assert_ok(f->context, bo_tokenizer_save(f->context, tokenizer, &(bo_sink){.path = path}));
    assert_ok(f->context, bo_tokenizer_load(f->context, &(bo_source){.path = path}, &again));
    assert_true(bo_tokenizer_fingerprint(again) == bo_tokenizer_fingerprint(tokenizer));
    bo_tokenizer_destroy(again);
    bo_tokenizer_destroy(tokenizer);
    /* A directory without a tokenizer.json has byte tokens, if its model does. */
    assert_fails(f->context, BO_IO, "neither a tokenizer.json nor a config.json",
                 bo_tokenizer_load(f->context, &(bo_source){.path = f->path}, &tokenizer));
    test_text(f, "config.json", "{\"vocab_size\": 32000}");
    assert_fails(f->context, BO_IO, "vocabulary of 32000",
                 bo_tokenizer_load(f->context, &(bo_source){.path = f->path}, &tokenizer));
    test_text(f, "config.json", "{\"vocab_size\": 256}");
    assert_ok(f->context, bo_tokenizer_load(f->context, &(bo_source){.path = f->path}, &tokenizer));
    assert_true(bo_tokenizer_is_raw(tokenizer));
    bo_tokenizer_destroy(tokenizer);
    assert_fails(f->context, BO_IO, "nowhere",
                 bo_tokenizer_load(f->context, &(bo_source){.path = "/nowhere/x.json"}, &tokenizer));
    /* tokenizer_config.json names the end token. */
    test_text(f, "tokenizer.json",
              "{\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0, \"<stop>\": 1, \"</s>\": 2}, "
              "\"merges\": []}}");
    assert_ok(f->context, bo_tokenizer_load(f->context, &(bo_source){.path = f->path}, &tokenizer));
    assert_int_equal(bo_tokenizer_end(tokenizer), 2);
    bo_tokenizer_destroy(tokenizer);
    test_text(f, "tokenizer_config.json", "{\"eos_token\": {\"content\": \"<stop>\"}}");
    assert_ok(f->context, bo_tokenizer_load(f->context, &(bo_source){.path = f->path}, &tokenizer));
    assert_int_equal(bo_tokenizer_end(tokenizer), 1);
    bo_tokenizer_destroy(tokenizer);
    test_text(f, "tokenizer_config.json", "{");
    assert_fails(f->context, BO_FORMAT, "tokenizer_config.json",
                 bo_tokenizer_load(f->context, &(bo_source){.path = f->path}, &tokenizer));
}

/* NULL is refused for required arguments and accepted for optional ones. */
static void test_nothing(void **state)
{
    test_directory *f = *state;
    bo_tokenizer *bytes, *learned;
    bo_corpus *corpus;
    const char *paths[] = {test_text(f, "t", "text"), NULL};
    assert_fails(f->context, BO_INVALID, "argument 'desc' is NULL",
                 bo_tokenizer_train(f->context, NULL, paths, 1, &learned));
    assert_fails(f->context, BO_INVALID, "argument 'out' is NULL",
                 bo_tokenizer_train(f->context, &(bo_tokenizer_desc){.vocab = 300}, paths, 1, NULL));
    assert_fails(f->context, BO_INVALID, "the path of file 1 is NULL",
                 bo_tokenizer_train(f->context, &(bo_tokenizer_desc){.vocab = 300}, paths, 2, &learned));
    assert_fails(f->context, BO_INVALID, "argument 'out' is NULL", bo_tokenizer_create(f->context, NULL));
    assert_fails(f->context, BO_INVALID, "argument 'out' is NULL",
                 bo_tokenizer_load(f->context, &(bo_source){.path = f->path}, NULL));
    assert_ok(f->context, bo_tokenizer_create(f->context, &bytes));
    const bo_corpus_desc desc = {.paths = paths, .path_count = 2, .tokenizer = bytes};
    assert_fails(f->context, BO_INVALID, "the path of file 1 is NULL", bo_corpus_open(f->context, &desc, &corpus));
    assert_int_equal(bo_tokenizer_find(bytes, NULL), -1);
    assert_string_equal(bo_tokenizer_piece(bytes, 300, NULL), "");
    assert_int_equal(bo_tokenizer_piece(bytes, 'x', NULL)[0], 'x');
    bo_ids ids = {0};
    char *text;
    size_t length;
    assert_fails(f->context, BO_INVALID, "argument 'text' is NULL",
                 bo_tokenizer_encode(f->context, bytes, NULL, 3, true, &ids));
    assert_ok(f->context, bo_tokenizer_encode(f->context, bytes, NULL, 0, true, &ids));
    assert_fails(f->context, BO_INVALID, "NULL", bo_tokenizer_decode(f->context, bytes, NULL, 3, &text, &length));
    bo_tokenizer_destroy(bytes);
}

int main(void)
{
#define WITH_DIRECTORY(test) cmocka_unit_test_setup_teardown(test, test_setup, test_teardown)
    const struct CMUnitTest tests[] = {
        WITH_DIRECTORY(test_bytes),       WITH_DIRECTORY(test_reference),  WITH_DIRECTORY(test_specials),
        WITH_DIRECTORY(test_round_trips), WITH_DIRECTORY(test_long_words), WITH_DIRECTORY(test_merging),
        WITH_DIRECTORY(test_files),       WITH_DIRECTORY(test_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
