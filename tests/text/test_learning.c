/* Training of a byte-pair encoding: the merges of the definition, for any number of threads; invalid input. */
#include "text/facts.h"
#include "texts.h"
#include "text/learn.h"

enum { WORDS = 600, MAX_LENGTH = 24 };

/* ---- the definition ---------------------------------------------------------------------------------------------- */

/* Words as lists of symbols; all pairs are counted again for each merge. */
typedef struct plain {
    int32_t symbols[WORDS][MAX_LENGTH];
    size_t lengths[WORDS], counts[WORDS], words;
} plain;

static size_t occurrences(const plain *p, int32_t left, int32_t right)
{
    size_t count = 0;
    for (size_t w = 0; w < p->words; w++)
        for (size_t i = 0; i + 1 < p->lengths[w]; i++)
            if (p->symbols[w][i] == left && p->symbols[w][i + 1] == right) count += p->counts[w];
    return count;
}

/* The most frequent pair; among equals the smallest. */
static size_t best_pair(const plain *p, int32_t pair[2])
{
    size_t best = 0;
    for (size_t w = 0; w < p->words; w++)
        for (size_t i = 0; i + 1 < p->lengths[w]; i++) {
            int32_t left = p->symbols[w][i], right = p->symbols[w][i + 1];
            size_t count = occurrences(p, left, right);
            if (count > best || (count == best && bo_pair(left, right) < bo_pair(pair[0], pair[1]))) {
                best = count;
                pair[0] = left;
                pair[1] = right;
            }
        }
    return best;
}

static void merge(plain *p, const int32_t pair[2], int32_t id)
{
    for (size_t w = 0; w < p->words; w++) {
        size_t kept = 0;
        for (size_t i = 0; i < p->lengths[w]; i++) {
            bool joins = i + 1 < p->lengths[w] && p->symbols[w][i] == pair[0] && p->symbols[w][i + 1] == pair[1];
            p->symbols[w][kept++] = joins ? id : p->symbols[w][i];
            i += joins;
        }
        p->lengths[w] = kept;
    }
}

static void test_definition(void **state)
{
    test_directory *f = *state;
    static plain p;
    bo_rng rng = bo_rng_make(5, 5);
    bo_tally tally;
    static char texts[WORDS][MAX_LENGTH];
    int32_t byte_ids[256], merges[200][2];
    for (int i = 0; i < 256; i++) byte_ids[i] = 300 - i; /* the numbering is arbitrary */
    assert_ok(f->context, bo_tally_create(f->context, &tally));
    for (size_t w = 0; w < WORDS; w++) {
        size_t length = 1 + bo_rng_below(&rng, w % 9 ? 8 : MAX_LENGTH - 2); /* few symbols: many ties and overlaps */
        for (size_t i = 0; i < length; i++) texts[w][i] = "aabc"[bo_rng_below(&rng, 4)];
        assert_ok(f->context, bo_tally_add(f->context, &tally, texts[w], length, 1 + w % 3));
    }
    p.words = tally.count;
    for (size_t w = 0; w < tally.count; w++) {
        p.lengths[w] = tally.words[w].length;
        p.counts[w] = tally.words[w].count;
        for (size_t i = 0; i < p.lengths[w]; i++) p.symbols[w][i] = byte_ids[(unsigned char)tally.words[w].text[i]];
    }
    size_t count;
    assert_ok(f->context, bo_learn_merges(f->context, &tally, byte_ids, 1000, 200, 3, merges, &count));
    assert_true(count > 60);
    for (size_t m = 0; m < count; m++) {
        int32_t pair[2] = {0, 0};
        assert_true(best_pair(&p, pair) >= 3);
        assert_int_equal(merges[m][0], pair[0]);
        assert_int_equal(merges[m][1], pair[1]);
        merge(&p, pair, 1000 + (int32_t)m);
    }
    int32_t pair[2] = {0, 0};
    if (count < 200) assert_true(best_pair(&p, pair) < 3);
    bo_tally_free(&tally);
}

/* The table of words grows without losing or duplicating a word: every word occurs again at the end, and every third
 * also 100 words later. */
static void test_many_words(void **state)
{
    enum { MANY = 20000, RECENT = 100 };
    test_directory *f = *state;
    static char texts[MANY][8];
    bo_tally tally;
    assert_ok(f->context, bo_tally_create(f->context, &tally));
    for (size_t i = 0; i < MANY; i++) {
        snprintf(texts[i], sizeof texts[i], "w%zu", i);
        assert_ok(f->context, bo_tally_add(f->context, &tally, texts[i], strlen(texts[i]), 2));
        if (i % 3 == 0 && i >= RECENT)
            assert_ok(f->context, bo_tally_add(f->context, &tally, texts[i - RECENT], strlen(texts[i - RECENT]), 5));
    }
    for (size_t i = 0; i < MANY; i++)
        assert_ok(f->context, bo_tally_add(f->context, &tally, texts[i], strlen(texts[i]), 7));
    assert_int_equal(tally.count, MANY);
    for (size_t i = 0; i < MANY; i++) {
        const size_t expected = 2 + ((i + RECENT) % 3 == 0 && i + RECENT < MANY ? 5 : 0) + 7;
        assert_int_equal(tally.words[i].length, strlen(texts[i]));
        assert_memory_equal(tally.words[i].text, texts[i], tally.words[i].length);
        assert_int_equal(tally.words[i].count, expected);
    }
    bo_tally_free(&tally);
}

/* ---- files ------------------------------------------------------------------------------------------------------- */

/* The same for one thread and many, for one file and several, for text, gzip and JSON lines. */
static void test_same(void **state)
{
    test_directory *f = *state;
    enum { BYTES = 1 << 20 };
    char *text = malloc(BYTES);
    size_t length = test_prose(1, text, BYTES), half = length / 2;
    /* no word spans this position */
    while (!(text[half] == '\n' && text[half - 1] == '.' && text[half + 1] > ' ')) half++;
    const char *ways[3][2] = {
        {test_write(f, "all.txt", text, length), NULL},
        {test_write(f, "first.txt", text, half), test_gzip(f, "second.txt.gz", text + half, length - half)},
        {NULL, NULL}};
    char *lines = malloc(2 * BYTES), *to = lines;
    to += sprintf(to, "{\"text\": \"");
    for (size_t i = 0; i < length; i++) /* the same documents, escaped */
        if (i == half)
            to += sprintf(to, "\"}\n{\"n\": 1, \"text\": \"\\n");
        else
            to += text[i] == '\n' ? sprintf(to, "\\n") : sprintf(to, "%c", text[i]);
    to += sprintf(to, "\"}\n");
    ways[2][0] = test_write(f, "all.jsonl", lines, (size_t)(to - lines));
    uint64_t first = 0;
    for (size_t w = 0; w < 3; w++)
        for (int threads = 1; threads <= 4; threads += 3) {
            bo_context *context = test_context(threads);
            bo_tokenizer *tokenizer;
            bo_tokenizer_desc desc = {.vocab = 700};
            assert_ok(context, bo_tokenizer_train(context, &desc, ways[w], ways[w][1] ? 2 : 1, &tokenizer));
            assert_int_equal(bo_tokenizer_vocab(tokenizer), 700);
            if (!first) first = bo_tokenizer_fingerprint(tokenizer);
            assert_true(bo_tokenizer_fingerprint(tokenizer) == first);
            if (w == 0) expect_round_trip(context, tokenizer, text, length);
            bo_tokenizer_destroy(tokenizer);
            bo_context_destroy(context);
        }
    free(text);
    free(lines);
}

static void test_options(void **state)
{
    test_directory *f = *state;
    static const char text[] = "aa bb<x>aa bb<x>aa bb<y>aa bb aa";
    static const char *const special[] = {"<x>", "<y>"};
    const char *path = test_write(f, "t.txt", text, sizeof text - 1);
    bo_tokenizer *tokenizer;
    bo_tokenizer_desc desc = {.vocab = 1000, .special = special, .special_count = 2};
    assert_ok(f->context, bo_tokenizer_train(f->context, &desc, &path, 1, &tokenizer));
    /* aa, bb and " bb" are merged; " aa" occurs once, and <x> is not text. */
    assert_int_equal(bo_tokenizer_vocab(tokenizer), 2 + 256 + 3);
    expect_pieces(f->context, tokenizer, "aa bb<x>", "aa| bb|<x>");
    assert_int_equal(bo_tokenizer_find(tokenizer, "<y>"), 1);
    bo_tokenizer_destroy(tokenizer);
    /* A custom pattern and no special token. */
    desc =
        (bo_tokenizer_desc){.vocab = 1000, .special = special, .special_count = 0, .pattern = "[^<>]+", .min_count = 3};
    assert_ok(f->context, bo_tokenizer_train(f->context, &desc, &path, 1, &tokenizer));
    expect_pieces(f->context, tokenizer, "aa bb<x>", "aa bb|<|x|>");
    const char *out = test_path(f, "own.json");
    bo_tokenizer *read;
    assert_ok(f->context, bo_tokenizer_save(f->context, tokenizer, &(bo_sink){.path = out}));
    assert_ok(f->context, bo_tokenizer_load(f->context, &(bo_source){.path = out}, &read));
    expect_pieces(f->context, read, "aa bb<x>", "aa bb|<|x|>");
    assert_true(bo_tokenizer_fingerprint(read) == bo_tokenizer_fingerprint(tokenizer));
    bo_tokenizer_destroy(read);
    bo_tokenizer_destroy(tokenizer);
}

static void test_refusals(void **state)
{
    test_directory *f = *state;
    const char *path = test_text(f, "t.txt", "some text"), *empty = test_text(f, "empty.txt", "");
    bo_tokenizer *tokenizer;
    bo_tokenizer_desc desc = {.vocab = 256};
    static const char *const twice[] = {"<x>", "<x>"}, *const single[] = {"x"};
    assert_fails(f->context, BO_INVALID, "257", bo_tokenizer_train(f->context, &desc, &path, 1, &tokenizer));
    desc.vocab = (size_t)1 << 40;
    assert_fails(f->context, BO_INVALID, "vocabulary", bo_tokenizer_train(f->context, &desc, &path, 1, &tokenizer));
    desc = (bo_tokenizer_desc){.vocab = 300, .special = twice, .special_count = 2};
    assert_fails(f->context, BO_INVALID, "twice", bo_tokenizer_train(f->context, &desc, &path, 1, &tokenizer));
    desc = (bo_tokenizer_desc){.vocab = 300, .special = single, .special_count = 1};
    assert_fails(f->context, BO_INVALID, "single byte", bo_tokenizer_train(f->context, &desc, &path, 1, &tokenizer));
    desc = (bo_tokenizer_desc){.vocab = 300, .pattern = "(a"};
    assert_fails(f->context, BO_INVALID, "(a", bo_tokenizer_train(f->context, &desc, &path, 1, &tokenizer));
    desc = (bo_tokenizer_desc){.vocab = 300};
    assert_fails(f->context, BO_INVALID, "empty.txt", bo_tokenizer_train(f->context, &desc, &empty, 1, &tokenizer));
    assert_fails(f->context, BO_INVALID, "paths or memory", bo_tokenizer_train(f->context, &desc, NULL, 0, &tokenizer));
    assert_null(tokenizer);
}

int main(void)
{
#define WITH_DIRECTORY(test) cmocka_unit_test_setup_teardown(test, test_setup, test_teardown)
    const struct CMUnitTest tests[] = {
        WITH_DIRECTORY(test_definition), WITH_DIRECTORY(test_many_words), WITH_DIRECTORY(test_same),
        WITH_DIRECTORY(test_options),    WITH_DIRECTORY(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
