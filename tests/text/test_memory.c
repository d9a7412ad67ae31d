/* Every allocation fails once: BO_MEMORY with a message, nothing leaks, and a second call succeeds. */
#include "texts.h"
#include "base/counting.h"

typedef struct setting {
    counting counted;
    bo_context *context;
    test_directory *directory;
    const char *text, *lines, *json, *bytes; /* files */
    bo_tokenizer *tokenizer;
} setting;

static void inject(setting *s, bo_status (*work)(void *setting))
{
    counting_inject(&(injection){&s->counted, s->context, work, s, 60, 7, NULL});
}

static void open_setting(void **state, setting *s)
{
    static char text[20000];
    *s = (setting){.directory = *state};
    s->context = counting_context(&s->counted, 2);
    s->text = test_write(s->directory, "t.txt", text, test_prose(1, text, sizeof text));
    s->lines = test_text(s->directory, "l.jsonl", "{\"text\": \"a few\"}\n{\"text\": \"words more\"}\n");
    bo_tokenizer_desc desc = {.vocab = 300};
    assert_ok(s->context, bo_tokenizer_train(s->context, &desc, &s->text, 1, &s->tokenizer));
    s->bytes = test_path(s->directory, "bytes.json");
    s->json = test_path(s->directory, "tokenizer.json");
    assert_ok(s->context, bo_tokenizer_save(s->context, s->tokenizer, &(bo_sink){.path = s->json}));
}

static void close_setting(setting *s)
{
    bo_tokenizer_destroy(s->tokenizer);
    bo_context_destroy(s->context);
    assert_true(s->counted.live == 0);
}

static bo_status learn(void *what)
{
    setting *s = what;
    bo_tokenizer_desc desc = {.vocab = 300};
    bo_tokenizer *tokenizer = (bo_tokenizer *)s;
    bo_status status = bo_tokenizer_train(s->context, &desc, &s->text, 1, &tokenizer);
    if (status != BO_OK) assert_null(tokenizer);
    bo_tokenizer_destroy(tokenizer);
    return status;
}

static bo_status load(void *what)
{
    setting *s = what;
    bo_tokenizer *tokenizer = (bo_tokenizer *)s;
    bo_status status = bo_tokenizer_load(s->context, &(bo_source){.path = s->json}, &tokenizer);
    if (status != BO_OK) assert_null(tokenizer);
    bo_tokenizer_destroy(tokenizer);
    return status;
}

static bo_status save_bytes(void *what)
{
    setting *s = what;
    bo_tokenizer *tokenizer;
    BO_TRY(bo_tokenizer_create(s->context, &tokenizer));
    bo_status status = bo_tokenizer_save(s->context, tokenizer, &(bo_sink){.path = s->bytes});
    bo_tokenizer_destroy(tokenizer);
    return status;
}

static bo_status code(void *what)
{
    setting *s = what;
    bo_ids ids = {0};
    static const char text[] =
        "the quick brown fox jumps over it, and over everything-that-is-one-long-word-without-blanks";
    bo_status status = bo_tokenizer_encode(s->context, s->tokenizer, text, sizeof text - 1, true, &ids);
    char *back = NULL;
    size_t bytes;
    if (status == BO_OK) status = bo_tokenizer_decode(s->context, s->tokenizer, ids.items, ids.count, &back, &bytes);
    bo_free(back);
    bo_ids_free(&ids);
    return status;
}

static bo_status open_corpus(void *what)
{
    setting *s = what;
    const char *paths[] = {s->text, s->lines};
    bo_corpus_desc desc = {.paths = paths, .path_count = 2, .tokenizer = s->tokenizer, .separator = "\n\n"};
    bo_corpus *corpus = (bo_corpus *)s;
    bo_status status = bo_corpus_open(s->context, &desc, &corpus);
    if (status != BO_OK) assert_null(corpus);
    bo_corpus_close(corpus);
    return status;
}

static void test_all(void **state)
{
    setting s;
    open_setting(state, &s);
    inject(&s, learn);
    inject(&s, load);
    inject(&s, save_bytes);
    inject(&s, code);
    inject(&s, open_corpus);
    close_setting(&s);
}

/* Loads, encodes and decodes with the components of a file. */
static bo_status use_kind(void *what)
{
    setting *s = what;
    static const char text[] = " the\u2028e\u0301 ab\U0001fae8 Aa12,345 \u180e<s>  the\U0001fae8 \xff\n";
    bo_tokenizer *tokenizer = NULL;
    bo_ids ids = {0};
    char *back = NULL;
    size_t bytes;
    bo_status status = bo_tokenizer_load(s->context, &(bo_source){.path = s->json}, &tokenizer);
    if (status == BO_OK) status = bo_tokenizer_encode(s->context, tokenizer, text, sizeof text - 1, true, &ids);
    if (status == BO_OK) status = bo_tokenizer_decode(s->context, tokenizer, ids.items, ids.count, &back, &bytes);
    bo_free(back);
    bo_ids_free(&ids);
    bo_tokenizer_destroy(tokenizer);
    return status;
}

static void test_kinds(void **state)
{
    static const char *const kinds[] = {"unigram", "wordpiece",   "affixes",  "added",
                                        "words",   "expressions", "decoders", "charsmap"};
    char path[1024];
    setting s = {.directory = *state, .json = path};
    s.context = counting_context(&s.counted, 1);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        snprintf(path, sizeof path, "%s/tests/fuzz/corpus/tokenizer/%s", getenv("BOCHNER_SOURCE"), kinds[i]);
        inject(&s, use_kind);
    }
    close_setting(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test_setup_teardown(test_all, test_setup, test_teardown),
                                       cmocka_unit_test_setup_teardown(test_kinds, test_setup, test_teardown)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
