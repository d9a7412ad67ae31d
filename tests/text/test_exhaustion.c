/* Every allocation of texts, packs and BLEU fails once: BO_MEMORY with a message, nothing leaks, and a second call
 * succeeds. */
#include "texts.h"
#include "base/counting.h"
#include "text/packs.h"

typedef struct setting {
    counting counted;
    bo_context *context;
    const char *labeled, *pairs; /* files */
    bo_tokenizer *bytes, *learned;
    bo_texts *texts;
} setting;

static bo_texts_desc texts_desc(setting *s, bo_texts_kind kind, const bo_tokenizer *tokenizer)
{
    const bool pair = kind == BO_TEXTS_PAIR;
    return (bo_texts_desc){.kind = kind,
                           .paths = pair ? &s->pairs : &s->labeled,
                           .path_count = 1,
                           .tokenizer = tokenizer,
                           .end = pair ? 1 : 0,
                           .take = 0.9};
}

static bo_status open_texts(setting *s, bo_texts_kind kind, const bo_tokenizer *tokenizer)
{
    bo_texts *texts = (bo_texts *)s;
    const bo_texts_desc desc = texts_desc(s, kind, tokenizer);
    bo_status status = bo_texts_open(s->context, &desc, &texts);
    if (status != BO_OK) assert_null(texts);
    bo_texts_close(texts);
    return status;
}

static bo_status open_bytes(void *what)
{
    setting *s = what;
    return open_texts(s, BO_TEXTS_LABELED, s->bytes);
}

static bo_status open_learned(void *what)
{
    setting *s = what;
    return open_texts(s, BO_TEXTS_PAIR, s->learned);
}

static bo_status learn(void *what)
{
    setting *s = what;
    const bo_tokenizer_desc desc = {.vocab = 262};
    const bo_texts_desc texts = texts_desc(s, BO_TEXTS_LABELED, NULL);
    bo_tokenizer *tokenizer = (bo_tokenizer *)s;
    bo_status status = bo_tokenizer_train_texts(s->context, &desc, &texts, &tokenizer);
    if (status != BO_OK) assert_null(tokenizer);
    bo_tokenizer_destroy(tokenizer);
    return status;
}

static bo_status pack(void *what)
{
    setting *s = what;
    const bo_packs_desc desc = {.texts = s->texts, .rows = 40, .target_rows = 40, .max_examples = 8, .batch = 2};
    bo_packs *packs = (bo_packs *)s;
    bo_status status = bo_packs_create(s->context, &desc, &packs);
    if (status != BO_OK) assert_null(packs);
    size_t examples[8], count;
    for (uint64_t step = 0; status == BO_OK && step < 200; step += 50) /* many epochs */
        status = bo_packs_get(s->context, packs, step, 1, examples, &count);
    bo_packs_destroy(packs);
    return status;
}

static bo_status lay_out(void *what)
{
    setting *s = what;
    const size_t rows[2] = {40, 40};
    bo_text_pack *packed = (bo_text_pack *)s;
    bo_status status = bo_text_pack_create(s->context, s->texts, rows, 8, 1, &packed);
    if (status != BO_OK) assert_null(packed);
    bo_text_pack_destroy(packed);
    return status;
}

static bo_status score(void *what)
{
    setting *s = what;
    static const char hypothesis[] = "a few words, and more (2-3).", reference[] = "few words and more.";
    bo_bleu_counts counts = {0};
    bo_status status =
        bo_bleu_add(s->context, &counts, hypothesis, sizeof hypothesis - 1, reference, sizeof reference - 1, true);
    if (status != BO_OK) assert_int_equal(counts.length, 0); /* all or nothing */
    return status;
}

static void test_all(void **state)
{
    static bo_status (*const works[])(void *) = {open_bytes, open_learned, learn, pack, lay_out, score};
    setting s = {.labeled = test_text(*state, "l.tsv", "pos\tgood good\nneg\tbad\npos\tgood film\nneg\tbad bad film\n"),
                 .pairs = test_text(*state, "p.tsv", "ein haus\ta house\nzwei\ttwo\ndrei\tthree\nvier\tfour\n")};
    s.context = counting_context(&s.counted, 2);
    assert_ok(s.context, bo_tokenizer_create(s.context, &s.bytes));
    const bo_tokenizer_desc how = {.vocab = 260};
    const bo_texts_desc from = texts_desc(&s, BO_TEXTS_PAIR, NULL);
    assert_ok(s.context, bo_tokenizer_train_texts(s.context, &how, &from, &s.learned));
    const bo_texts_desc desc = texts_desc(&s, BO_TEXTS_PAIR, s.bytes);
    assert_ok(s.context, bo_texts_open(s.context, &desc, &s.texts));
    for (size_t i = 0; i < sizeof works / sizeof *works; i++)
        counting_inject(&(injection){&s.counted, s.context, works[i], &s, 60, 7, NULL});
    bo_texts_close(s.texts);
    bo_tokenizer_destroy(s.learned);
    bo_tokenizer_destroy(s.bytes);
    bo_context_destroy(s.context);
    assert_true(s.counted.live == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test_setup_teardown(test_all, test_setup, test_teardown)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
