/* Tokenizers and corpora from memory give the same results as from files. */
#include "text/facts.h"
#include "texts.h"
#include "base/counting.h"

static const char prose[] =
    "It's the  na\xc3\xafve test of 123 words; the test of the words.\n\nA second document: \\ \"the\" end.\n";

static char *read_whole(const char *path, size_t *size)
{
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    char *bytes = malloc(1 << 20);
    *size = fread(bytes, 1, 1 << 20, file);
    fclose(file);
    return bytes;
}

/* ---- tokenizers -------------------------------------------------------------------------------------------------- */

static bo_tokenizer *make_tokenizer(test_directory *directory, bool learned)
{
    bo_tokenizer *tokenizer;
    const char *path = test_text(directory, "t.txt", prose);
    if (learned)
        assert_ok(directory->context,
                  bo_tokenizer_train(directory->context, &(bo_tokenizer_desc){.vocab = 280}, &path, 1, &tokenizer));
    else
        assert_ok(directory->context, bo_tokenizer_create(directory->context, &tokenizer));
    return tokenizer;
}

static void test_tokenizers(void **state)
{
    test_directory *directory = *state;
    bo_context *context = directory->context;
    for (int learned = 0; learned < 2; learned++) {
        bo_tokenizer *tokenizer = make_tokenizer(directory, learned), *read;
        const char *path = test_path(directory, "tokenizer.json");
        void *bytes, *again;
        size_t size, size_again;
        assert_ok(context, bo_tokenizer_save(context, tokenizer, &(bo_sink){.bytes = &bytes, .size = &size}));
        assert_ok(context, bo_tokenizer_save(context, tokenizer, &(bo_sink){.path = path}));
        assert_file_equal(path, bytes, size);
        assert_ok(context, bo_tokenizer_load(context, &(bo_source){.bytes = bytes, .size = size}, &read));
        assert_true(bo_tokenizer_fingerprint(read) == bo_tokenizer_fingerprint(tokenizer));
        assert_int_equal(bo_tokenizer_is_raw(read), !learned);
        assert_ok(context, bo_tokenizer_save(context, read, &(bo_sink){.bytes = &again, .size = &size_again}));
        assert_int_equal(size, size_again);
        assert_memory_equal(bytes, again, size);
        bo_ids a = {0}, b = {0};
        assert_ok(context, bo_tokenizer_encode(context, tokenizer, prose, sizeof prose - 1, true, &a));
        assert_ok(context, bo_tokenizer_encode(context, read, prose, sizeof prose - 1, true, &b));
        assert_int_equal(a.count, b.count);
        assert_memory_equal(a.items, b.items, a.count * sizeof *a.items);
        bo_ids_free(&a);
        bo_ids_free(&b);
        bo_tokenizer_destroy(read);
        for (size_t cut = 0; cut + 1 < size; cut += size / 100 + 1) {
            char *shorter = malloc(cut + 1);
            memcpy(shorter, bytes, cut);
            read = tokenizer;
            assert_int_equal(bo_tokenizer_load(context, &(bo_source){.bytes = shorter, .size = cut}, &read), BO_FORMAT);
            assert_null(read);
            free(shorter);
        }
        bo_free(bytes);
        bo_free(again);
        bo_tokenizer_destroy(tokenizer);
    }
    bo_tokenizer *none;
    void *bytes = directory;
    size_t size = 1;
    assert_int_equal(bo_tokenizer_load(context, &(bo_source){.bytes = "", .size = 0}, &none),
                     BO_FORMAT); /* as an empty file */
    assert_null(none);
    assert_fails(context, BO_INVALID, "NULL",
                 bo_tokenizer_save(context, NULL, &(bo_sink){.bytes = &bytes, .size = &size}));
    assert_true(!bytes && !size);
}

/* ---- corpora ----------------------------------------------------------------------------------------------------- */

static void same_corpus(bo_context *context, const bo_corpus_desc *file, const bo_corpus_desc *memory)
{
    bo_corpus *a, *b;
    int32_t one[512], other[512];
    assert_ok(context, bo_corpus_open(context, file, &a));
    char *copy = malloc(memory->memory_bytes);
    memcpy(copy, memory->memory, memory->memory_bytes);
    bo_corpus_desc desc = *memory;
    desc.memory = copy;
    assert_ok(context, bo_corpus_open(context, &desc, &b));
    free(copy); /* the bytes need not outlive the call */
    const size_t count = (size_t)bo_corpus_tokens(a);
    assert_true(count > 10 && count < 512);
    assert_int_equal(bo_corpus_tokens(b), count);
    assert_int_equal(bo_corpus_documents(a), bo_corpus_documents(b));
    assert_int_equal(bo_corpus_bytes(a), bo_corpus_bytes(b));
    assert_true(bo_corpus_fingerprint(a) == bo_corpus_fingerprint(b));
    assert_ok(context, bo_corpus_read(context, a, 0, count, one));
    assert_ok(context, bo_corpus_read(context, b, 0, count, other));
    assert_memory_equal(one, other, count * sizeof *one);
    bo_corpus_close(a);
    bo_corpus_close(b);
}

static void test_corpora(void **state)
{
    static const char lines[] = "{\"text\": \"a few words\", \"body\": \"another text entirely\"}\n\n"
                                "{\"text\": \"more of the \\u00e9\", \"body\": \"and its end\"}\n";
    test_directory *directory = *state;
    bo_context *context = directory->context;
    for (int learned = 0; learned < 2; learned++) {
        bo_tokenizer *tokenizer = make_tokenizer(directory, learned);
        const char *text = test_text(directory, "t.txt", prose), *json = test_text(directory, "l.jsonl", lines);
        bo_corpus_desc file = {.paths = &text, .path_count = 1, .tokenizer = tokenizer};
        bo_corpus_desc memory = {.memory = prose, .memory_bytes = sizeof prose - 1, .tokenizer = tokenizer};
        same_corpus(context, &file, &memory);
        file.separator = memory.separator = "\n\n";
        same_corpus(context, &file, &memory);
        file.skip = memory.skip = 0.25, file.take = memory.take = 0.5;
        same_corpus(context, &file, &memory);
        file = (bo_corpus_desc){.paths = &json, .path_count = 1, .tokenizer = tokenizer};
        memory = (bo_corpus_desc){
            .memory = lines, .memory_bytes = sizeof lines - 1, .memory_lines = true, .tokenizer = tokenizer};
        same_corpus(context, &file, &memory);
        file.field = memory.field = "body";
        same_corpus(context, &file, &memory);
        bo_corpus *none;
        file.field = memory.field = "nothing";
        assert_fails(context, BO_FORMAT, "memory, line 1: the object has no field \"nothing\"",
                     bo_corpus_open(context, &memory, &none));
        assert_null(none);
        memory = (bo_corpus_desc){.memory = "", .tokenizer = tokenizer};
        assert_fails(context, BO_INVALID, "memory: contains no text", bo_corpus_open(context, &memory, &none));
        bo_tokenizer_destroy(tokenizer);
    }
}

/* ---- out of memory ----------------------------------------------------------------------------------------------- */

typedef struct starved {
    bo_context *context;
    bo_tokenizer *tokenizer;
    char *json;
    size_t size;
} starved;

static bo_status save(void *what)
{
    starved *s = what;
    void *bytes = what;
    size_t size;
    bo_tokenizer *raw; /* which is generated on saving, not copied */
    BO_TRY(bo_tokenizer_create(s->context, &raw));
    bo_status status = bo_tokenizer_save(s->context, raw, &(bo_sink){.bytes = &bytes, .size = &size});
    if (status != BO_OK) assert_true(!bytes && !size);
    bo_free(bytes);
    if (status == BO_OK) {
        status = bo_tokenizer_save(s->context, s->tokenizer, &(bo_sink){.bytes = &bytes, .size = &size});
        if (status != BO_OK) assert_true(!bytes && !size);
        bo_free(bytes);
    }
    bo_tokenizer_destroy(raw);
    return status;
}

static bo_status load(void *what)
{
    starved *s = what;
    bo_tokenizer *tokenizer = what;
    const bo_status status = bo_tokenizer_load(s->context, &(bo_source){.bytes = s->json, .size = s->size}, &tokenizer);
    if (status != BO_OK) assert_null(tokenizer);
    bo_tokenizer_destroy(tokenizer);
    return status;
}

static bo_status open_corpus(void *what)
{
    starved *s = what;
    bo_corpus *corpus = what;
    const bo_corpus_desc desc = {.memory = prose, .memory_bytes = sizeof prose - 1, .tokenizer = s->tokenizer};
    const bo_status status = bo_corpus_open(s->context, &desc, &corpus);
    if (status != BO_OK) assert_null(corpus);
    bo_corpus_close(corpus);
    return status;
}

static void test_starved(void **state)
{
    test_directory *directory = *state;
    counting memory = {0};
    starved s = {.context = counting_context(&memory, 1)};
    bo_tokenizer *tokenizer = make_tokenizer(directory, true);
    const char *path = test_path(directory, "tokenizer.json");
    assert_ok(directory->context, bo_tokenizer_save(directory->context, tokenizer, &(bo_sink){.path = path}));
    bo_tokenizer_destroy(tokenizer);
    s.json = read_whole(path, &s.size);
    assert_ok(s.context, bo_tokenizer_load(s.context, &(bo_source){.bytes = s.json, .size = s.size}, &s.tokenizer));
    bo_status (*const works[])(void *) = {save, load, open_corpus};
    for (size_t i = 0; i < sizeof works / sizeof *works; i++)
        counting_inject(&(injection){&memory, s.context, works[i], &s, 60, 7, NULL});
    free(s.json);
    bo_tokenizer_destroy(s.tokenizer);
    bo_context_destroy(s.context);
    assert_int_equal(memory.live, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_tokenizers, test_setup, test_teardown),
        cmocka_unit_test_setup_teardown(test_corpora, test_setup, test_teardown),
        cmocka_unit_test_setup_teardown(test_starved, test_setup, test_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
