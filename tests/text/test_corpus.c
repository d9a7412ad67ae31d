/* Corpora: files, documents, JSON lines, gzip, parts, bytes and encodings, and invalid files. */
#include "text/facts.h"
#include "texts.h"

static bo_corpus *open_corpus(test_directory *f, const bo_corpus_desc *desc)
{
    bo_corpus *corpus;
    assert_ok(f->context, bo_corpus_open(f->context, desc, &corpus));
    return corpus;
}

static void expect_tokens(test_directory *f, const bo_corpus *corpus, const char *expected)
{
    int32_t ids[256];
    size_t count = (size_t)bo_corpus_tokens(corpus);
    assert_int_equal(count, strlen(expected));
    assert_ok(f->context, bo_corpus_read(f->context, corpus, 0, count, ids));
    for (size_t i = 0; i < count; i++) assert_int_equal(ids[i], (unsigned char)expected[i]);
}

/* ---- bytes ------------------------------------------------------------------------------------------------------- */

static void test_files(void **state)
{
    test_directory *f = *state;
    bo_tokenizer *bytes;
    assert_ok(f->context, bo_tokenizer_create(f->context, &bytes));
    const char *paths[] = {test_text(f, "a.txt", "one|two||three|"), test_gzip(f, "b.gz", "four", 4),
                           test_text(f, "empty", ""),
                           test_text(f, "c.jsonl",
                                     "{\"text\": \"fi\\u0076e\"}\n\n  \r\n{\"id\": [1, {}], \"text\": \"\"}\n"
                                     "{\"text\": \"s\\u00efx\\n\"}")};
    bo_corpus_desc desc = {.paths = paths, .path_count = 4, .tokenizer = bytes};
    bo_corpus *corpus = open_corpus(f, &desc);
    expect_tokens(f, corpus, "one|two||three|fourfives\xc3\xafx\n");
    assert_int_equal(bo_corpus_bytes(corpus), bo_corpus_tokens(corpus));
    assert_int_equal(bo_corpus_documents(corpus), 4);
    assert_int_equal(bo_corpus_next_document(corpus, 0), 15);
    assert_int_equal(bo_corpus_next_document(corpus, 15), 19);
    assert_int_equal(bo_corpus_next_document(corpus, 22), 23);
    assert_int_equal(bo_corpus_next_document(corpus, 23), bo_corpus_tokens(corpus));
    uint64_t whole = bo_corpus_fingerprint(corpus);
    int32_t id;
    assert_fails(f->context, BO_INVALID, "the corpus has 28", bo_corpus_read(f->context, corpus, 28, 1, &id));
    bo_corpus_close(corpus);
    desc.separator = "|";
    corpus = open_corpus(f, &desc);
    expect_tokens(f, corpus, "onetwothreefourfives\xc3\xafx\n");
    assert_int_equal(bo_corpus_documents(corpus), 6);
    assert_true(bo_corpus_fingerprint(corpus) != whole);
    bo_corpus_close(corpus);
    bo_tokenizer_destroy(bytes);
}

/* Every read gives the same bytes, for any start and any count. */
static void test_reading(void **state)
{
    test_directory *f = *state;
    enum { LENGTH = 500 };
    char text[LENGTH];
    bo_rng rng = bo_rng_make(1, 2);
    for (size_t i = 0; i < LENGTH; i++) text[i] = (char)(i % 13 ? bo_rng_bits(&rng) | 128 : ';');
    const char *path = test_write(f, "t", text, LENGTH);
    bo_tokenizer *bytes;
    assert_ok(f->context, bo_tokenizer_create(f->context, &bytes));
    bo_corpus_desc desc = {.paths = &path, .path_count = 1, .tokenizer = bytes, .separator = ";"};
    bo_corpus *corpus = open_corpus(f, &desc);
    char plain[LENGTH];
    size_t count = 0;
    for (size_t i = 0; i < LENGTH; i++)
        if (text[i] != ';') plain[count++] = text[i];
    assert_int_equal(bo_corpus_tokens(corpus), count);
    for (size_t round = 0; round < 300; round++) {
        size_t first = bo_rng_below(&rng, count), length = bo_rng_below(&rng, count - first + 1);
        int32_t ids[LENGTH];
        assert_ok(f->context, bo_corpus_read(f->context, corpus, first, length, ids));
        for (size_t i = 0; i < length; i++) assert_int_equal(ids[i], (unsigned char)plain[first + i]);
        uint64_t next = bo_corpus_next_document(corpus, first);
        assert_int_equal(next, (first / 12 + 1) * 12 < count ? (first / 12 + 1) * 12 : count);
    }
    bo_corpus_close(corpus);
    bo_tokenizer_destroy(bytes);
}

/* [0, 0.9) and [0.9, 1) contain every token once. */
static void test_split(void **state)
{
    test_directory *f = *state;
    bo_tokenizer *bytes;
    assert_ok(f->context, bo_tokenizer_create(f->context, &bytes));
    for (size_t length = 1; length < 60; length++) {
        char text[64];
        for (size_t i = 0; i < length; i++) text[i] = (char)('0' + i);
        text[length] = 0;
        const char *path = test_text(f, "t", text);
        bo_corpus_desc train = {.paths = &path, .path_count = 1, .tokenizer = bytes, .take = 0.9}, valid = train;
        valid.skip = 0.9;
        valid.take = 0;
        size_t cut = (size_t)floor(0.9 * (double)length);
        bo_corpus *corpus;
        if (cut > 0) {
            char first[64];
            snprintf(first, sizeof first, "%.*s", (int)cut, text);
            corpus = open_corpus(f, &train);
            expect_tokens(f, corpus, first);
            bo_corpus_close(corpus);
        } else {
            assert_fails(f->context, BO_INVALID, "none is left", bo_corpus_open(f->context, &train, &corpus));
        }
        corpus = open_corpus(f, &valid);
        expect_tokens(f, corpus, text + cut);
        bo_corpus_close(corpus);
    }
    bo_tokenizer_destroy(bytes);
}

/* ---- encodings --------------------------------------------------------------------------------------------------- */

/* The ids of a corpus are those of each whole document, followed by an end token, for any number of threads; a large
 * document is cut for parallel encoding. */
static void test_encoding(void **state)
{
    test_directory *f = *state;
    enum { BYTES = 3 << 19 };
    bo_tokenizer *tokenizer;
    bo_tokenizer_desc learned = {.vocab = 400};
    char *text = malloc(BYTES);
    size_t length = test_prose(9, text, BYTES), half = length / 2;
    /* so that cuts are in runs of spaces */
    for (size_t i = half; i < length; i++) text[i] = "the\n\n\n\n\n\n\n\n"[i % 11];
    memcpy(text + half, "<SEP>", 5);
    const char *path = test_write(f, "t.txt", text, length);
    assert_ok(f->context, bo_tokenizer_train(f->context, &learned, &path, 1, &tokenizer));
    bo_ids expected = test_encode(f->context, tokenizer, text, half);
    assert_ok(f->context, bo_ids_reserve(f->context, &expected, 1));
    expected.items[expected.count++] = bo_tokenizer_end(tokenizer);
    size_t second = expected.count;
    assert_ok(f->context,
              bo_tokenizer_encode(f->context, tokenizer, text + half + 5, length - half - 5, true, &expected));
    assert_ok(f->context, bo_ids_reserve(f->context, &expected, 1));
    expected.items[expected.count++] = bo_tokenizer_end(tokenizer);
    int32_t *ids = malloc(expected.count * sizeof *ids);
    for (int threads = 1; threads < 4; threads++) {
        bo_context *context = test_context(threads);
        bo_corpus_desc desc = {.paths = &path, .path_count = 1, .tokenizer = tokenizer, .separator = "<SEP>"};
        bo_corpus *corpus;
        assert_ok(context, bo_corpus_open(context, &desc, &corpus));
        assert_int_equal(bo_corpus_tokens(corpus), expected.count);
        assert_ok(context, bo_corpus_read(context, corpus, 0, expected.count, ids));
        assert_memory_equal(ids, expected.items, expected.count * sizeof *ids);
        assert_int_equal(bo_corpus_bytes(corpus), length - 5);
        assert_int_equal(bo_corpus_next_document(corpus, 0), second);
        bo_corpus_close(corpus);
        bo_context_destroy(context);
    }
    free(ids);
    free(text);
    bo_ids_free(&expected);
    bo_tokenizer_destroy(tokenizer);
}

/* The byte counts of parts add up to the byte count of the whole. */
static void test_bytes_of_parts(void **state)
{
    test_directory *f = *state;
    bo_tokenizer *tokenizer = test_learn(f, 400, 1 << 15);
    char text[4096];
    size_t length = test_prose(2, text, sizeof text);
    text[1000] = text[2000] = '|';
    const char *path = test_write(f, "t.txt", text, length);
    bo_corpus_desc desc = {.paths = &path, .path_count = 1, .tokenizer = tokenizer, .separator = "|"};
    bo_corpus *corpus = open_corpus(f, &desc);
    assert_int_equal(bo_corpus_bytes(corpus), length - 2);
    bo_corpus_close(corpus);
    for (double at = 0.05; at < 1; at += 0.05) {
        bo_corpus_desc first = desc, last = desc;
        first.take = last.skip = at;
        corpus = open_corpus(f, &first);
        uint64_t bytes = bo_corpus_bytes(corpus);
        bo_corpus_close(corpus);
        corpus = open_corpus(f, &last);
        assert_int_equal(bytes + bo_corpus_bytes(corpus), length - 2);
        bo_corpus_close(corpus);
    }
    bo_tokenizer_destroy(tokenizer);
}

/* Bytes that are not UTF-8 give one warning with their position; a tokenizer that cannot represent them fails. */
static void test_invalid(void **state)
{
    test_directory *f = *state;
    bo_tokenizer *tokenizer = test_learn(f, 300, 1 << 14), *bytes, *byte_level;
    const char *path = test_write(f, "odd.txt", "good \xff bad \xfe worse", 17);
    bo_corpus_desc desc = {.paths = &path, .path_count = 1, .tokenizer = tokenizer};
    bo_corpus_close(open_corpus(f, &desc));
    assert_int_equal(f->warnings, 1);
    assert_non_null(strstr(f->last_log, "odd.txt: byte 5 "));
    assert_ok(f->context, bo_tokenizer_create(f->context, &bytes));
    desc.tokenizer = bytes;
    bo_corpus_close(open_corpus(f, &desc));
    assert_int_equal(f->warnings, 1);
    byte_level =
        test_parse(f->context, "{\"model\": {\"type\": \"BPE\", \"vocab\": {\"g\": 0, \"o\": 1}, \"merges\": []}}");
    desc.tokenizer = byte_level;
    bo_corpus *corpus;
    assert_fails(f->context, BO_FORMAT, "byte 5 of the file is not UTF-8", bo_corpus_open(f->context, &desc, &corpus));
    bo_tokenizer_destroy(byte_level);
    bo_tokenizer_destroy(bytes);
    bo_tokenizer_destroy(tokenizer);
}

/* ---- invalid input ----------------------------------------------------------------------------------------------- */

static void test_refusals(void **state)
{
    test_directory *f = *state;
    bo_tokenizer *bytes;
    bo_corpus *corpus;
    assert_ok(f->context, bo_tokenizer_create(f->context, &bytes));
    const char *paths[2] = {test_text(f, "no.txt", ""), test_text(f, "none.jsonl", "\n\n")};
    bo_corpus_desc desc = {.paths = paths, .path_count = 1, .tokenizer = bytes};
    assert_fails(f->context, BO_INVALID, "no.txt: contains no text", bo_corpus_open(f->context, &desc, &corpus));
    desc.path_count = 2;
    assert_fails(f->context, BO_INVALID, "none.jsonl", bo_corpus_open(f->context, &desc, &corpus));
    desc.path_count = 0;
    assert_fails(f->context, BO_INVALID, "paths or memory", bo_corpus_open(f->context, &desc, &corpus));
    static const char *const lines[][2] = {
        {"{\"text\": \"a\"}\n{\"text\": \"b\"\n", "l.jsonl, line 2: the JSON is malformed"},
        {"{\"text\": \"a\"}\n\n[1]\n", "l.jsonl, line 3: expected a JSON object"},
        {"{\"body\": \"a\"}\n", "l.jsonl, line 1: the object has no field \"text\""},
        {"{\"text\": 7}\n", "line 1: the field \"text\" is not a string"},
        {"{\"text\": \"a\\u0000b\"}\n", "line 1: contains a NUL character (\\u0000)"},
        {"{\"text\": \"a\\\\\\u0000b\"}\n", "line 1: contains a NUL character (\\u0000)"},
        {"{\"text\": \"a\"} x\n", "line 1: expected the end of the JSON"},
        {"\x01\x02", "line 1"},
    };
    desc.path_count = 1;
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        paths[0] = test_text(f, "l.jsonl", lines[i][0]);
        assert_fails(f->context, BO_FORMAT, lines[i][1], bo_corpus_open(f->context, &desc, &corpus));
    }
    paths[0] = test_text(f, "l.jsonl", "{\"body\": \"a\"}\n");
    desc.field = "body";
    corpus = open_corpus(f, &desc);
    expect_tokens(f, corpus, "a");
    bo_corpus_close(corpus);
    paths[0] = test_write(f, "l.jsonl", "{\"text\": \"a\0b\"}\n", 16);
    assert_fails(f->context, BO_FORMAT, "line 1: contains a NUL", bo_corpus_open(f->context, &desc, &corpus));
    paths[0] = test_text(f, "l.jsonl", "{\"body\": \"a \\\\u0000 in words\"}\n");
    corpus = open_corpus(f, &desc);
    expect_tokens(f, corpus, "a \\u0000 in words");
    bo_corpus_close(corpus);
    paths[0] = "/nowhere/at/all";
    assert_fails(f->context, BO_IO, "/nowhere/at/all", bo_corpus_open(f->context, &desc, &corpus));
    paths[0] = f->path;
    assert_fails(f->context, BO_IO, "is a directory", bo_corpus_open(f->context, &desc, &corpus));
    paths[0] = test_text(f, "t", "text");
    desc.skip = 1;
    assert_fails(f->context, BO_INVALID, "skip 1", bo_corpus_open(f->context, &desc, &corpus));
    desc.skip = 0.5;
    desc.take = 0.7;
    assert_fails(f->context, BO_INVALID, "take 0.7", bo_corpus_open(f->context, &desc, &corpus));
    desc.tokenizer = NULL;
    assert_fails(f->context, BO_INVALID, "tokenizer", bo_corpus_open(f->context, &desc, &corpus));
    bo_tokenizer_destroy(bytes);
}

/* A file in use is truncated: an error, not a crash. A file that is replaced keeps its old contents. */
static void test_shortened(void **state)
{
    test_directory *f = *state;
    enum { LENGTH = 20000 };
    char *text = malloc(LENGTH);
    memset(text, 'x', LENGTH);
    bo_tokenizer *bytes;
    assert_ok(f->context, bo_tokenizer_create(f->context, &bytes));
    for (int replaced = 0; replaced < 2; replaced++) {
        int32_t ids[8];
        const char *path = test_write(f, "t", text, LENGTH);
        bo_corpus_desc desc = {.paths = &path, .path_count = 1, .tokenizer = bytes};
        bo_corpus *corpus = open_corpus(f, &desc);
        if (replaced) assert_int_equal(unlink(path), 0);
        FILE *file = fopen(path, "w");
        fclose(file);
        const bo_status status = bo_corpus_read(f->context, corpus, LENGTH - 8, 8, ids);
        assert_int_equal(status, replaced ? BO_OK : BO_IO);
        if (!replaced) assert_non_null(strstr(bo_context_error(f->context), "expected 20000 bytes, found 0"));
        bo_corpus_close(corpus);
    }
    bo_tokenizer_destroy(bytes);
    free(text);
}

int main(void)
{
#define WITH_DIRECTORY(test) cmocka_unit_test_setup_teardown(test, test_setup, test_teardown)
    const struct CMUnitTest tests[] = {
        WITH_DIRECTORY(test_files),    WITH_DIRECTORY(test_reading),        WITH_DIRECTORY(test_split),
        WITH_DIRECTORY(test_encoding), WITH_DIRECTORY(test_bytes_of_parts), WITH_DIRECTORY(test_invalid),
        WITH_DIRECTORY(test_refusals), WITH_DIRECTORY(test_shortened),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
