/* Labeled texts and pairs from lines: their contents and order, and errors with file and line. */
#include "text/facts.h"
#include "texts.h"
#include "text/packs.h"
#include <bochner/text.h>
#include <fcntl.h>

typedef struct setting {
    test_directory *directory;
    bo_context *context;
    bo_tokenizer *bytes;
} setting;

static setting open_setting(void **state)
{
    test_directory *f = *state;
    setting s = {.directory = f, .context = f->context};
    assert_ok(s.context, bo_tokenizer_create(s.context, &s.bytes));
    return s;
}

static bo_status try_texts(const setting *s, bo_texts_desc desc, const char *path, bo_texts **out)
{
    *out = NULL;
    desc.paths = &path;
    desc.path_count = 1;
    if (!desc.tokenizer) desc.tokenizer = s->bytes;
    return bo_texts_open(s->context, &desc, out);
}

static bo_texts *read_texts(const setting *s, bo_texts_desc desc, const char *path)
{
    bo_texts *texts;
    assert_ok(s->context, try_texts(s, desc, path, &texts));
    return texts;
}

static void expect_text(const bo_texts *texts, size_t example, size_t side, const char *expected)
{
    size_t bytes;
    const char *content = bo_texts_text(texts, example, side, &bytes);
    assert_int_equal(bytes, strlen(expected));
    assert_memory_equal(content, expected, bytes);
    bo_text_view view = bo_text_at(texts, example, side);
    assert_int_equal(view.count, bytes);
    for (size_t i = 0; i < view.count; i++) assert_int_equal(view.ids[i], (unsigned char)expected[i]);
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */

static void test_labeled(void **state)
{
    setting s = open_setting(state);
    static const char *const ends[] = {"", "\n", "\r\n", "\n\n", "\r\n\r\n\n"};
    static const char *const labels[] = {"neg", "pos"};
    for (size_t e = 0; e < sizeof ends / sizeof *ends; e++) {
        char text[256];
        snprintf(text, sizeof text, "\xef\xbb\xbfpos\ta film\r\nneg\tna\xc3\xaf ve \npos\tb%s", ends[e]);
        const char *path =
            e % 2 ? test_gzip(s.directory, "t.tsv.gz", text, strlen(text)) : test_text(s.directory, "t.tsv", text);
        bo_texts *texts = read_texts(&s, (bo_texts_desc){.kind = BO_TEXTS_LABELED}, path);
        assert_int_equal(bo_texts_get_kind(texts), BO_TEXTS_LABELED);
        assert_int_equal(bo_texts_count(texts), 3);
        assert_int_equal(bo_texts_sides(texts), 1);
        assert_int_equal(bo_texts_classes(texts), 2);
        for (size_t i = 0; i < 2; i++) assert_string_equal(bo_texts_class_names(texts)[i], labels[i]);
        expect_text(texts, 0, 0, "a film");
        expect_text(texts, 1, 0, "na\xc3\xaf ve ");
        expect_text(texts, 2, 0, "b");
        assert_int_equal(bo_texts_label(texts, 0), 1);
        assert_int_equal(bo_texts_label(texts, 1), 0);
        assert_int_equal(bo_texts_label(texts, 2), 1);
        size_t length = 1;
        const char *file = "";
        assert_null(bo_texts_ids(texts, bo_texts_count(texts), 0, &length)); /* past the end */
        assert_null(bo_texts_text(texts, 0, bo_texts_sides(texts), &length));
        assert_int_equal(length, 0);
        assert_int_equal(bo_texts_label(texts, SIZE_MAX), -1);
        assert_int_equal(bo_texts_line(texts, SIZE_MAX, &file), 0);
        assert_null(file);
        assert_int_equal(bo_texts_tokens(texts, 9) + bo_texts_longest(texts, 9), 0);
        assert_int_equal(bo_texts_tokens(texts, 0), 6 + 8 + 1);
        assert_int_equal(bo_texts_longest(texts, 0), 8);
        const char *where;
        assert_int_equal(bo_texts_line(texts, 1, &where), 2);
        assert_string_equal(where, path);
        bo_texts_close(texts);
    }
    bo_tokenizer_destroy(s.bytes);
}

static void test_kinds(void **state)
{
    setting s = open_setting(state);
    bo_texts *texts = read_texts(&s, (bo_texts_desc){.kind = BO_TEXTS_LABELED_PAIR},
                                 test_text(s.directory, "p.tsv", "1\ta\tbb\n0\tccc\td\n"));
    assert_int_equal(bo_texts_sides(texts), 2);
    expect_text(texts, 0, 1, "bb");
    expect_text(texts, 1, 0, "ccc");
    assert_int_equal(bo_texts_tokens(texts, 0), 4);
    assert_int_equal(bo_texts_tokens(texts, 1), 3);
    bo_texts_close(texts);

    texts = read_texts(&s, (bo_texts_desc){.kind = BO_TEXTS_PAIR, .end = 257, .longest = 3},
                       test_text(s.directory, "t.tsv", "ein\tone\nx\ty\n"));
    assert_null(bo_texts_class_names(texts));
    assert_int_equal(bo_texts_label(texts, 0), -1);
    for (size_t side = 0; side < 2; side++) {
        bo_text_view view = bo_text_at(texts, 0, side);
        assert_int_equal(view.count, 4);
        assert_int_equal(view.ids[3], 256);
        assert_int_equal(bo_texts_longest(texts, side), 4);
    }
    bo_texts_close(texts);

    texts = read_texts(&s, (bo_texts_desc){.kind = BO_TEXTS_ALONE}, test_text(s.directory, "a.txt", "a b\nc"));
    expect_text(texts, 0, 0, "a b");
    expect_text(texts, 1, 0, "c");
    bo_texts_close(texts);

    texts = read_texts(&s, (bo_texts_desc){.kind = BO_TEXTS_ALONE_PAIR}, test_text(s.directory, "b.txt", "a b\tc d"));
    expect_text(texts, 0, 0, "a b");
    expect_text(texts, 0, 1, "c d");
    bo_texts_close(texts);
    bo_tokenizer_destroy(s.bytes);
}

static void test_several_files_and_input(void **state)
{
    setting s = open_setting(state);
    const char *first = test_text(s.directory, "1.tsv", "b\tx\n"),
               *second = test_text(s.directory, "2.tsv", "a\ty\nb\tz");
    const char *paths[] = {first, second};
    bo_texts *texts;
    bo_texts_desc desc = {.paths = paths, .path_count = 2, .tokenizer = s.bytes};
    assert_ok(s.context, bo_texts_open(s.context, &desc, &texts));
    assert_int_equal(bo_texts_count(texts), 3);
    const char *path;
    assert_int_equal(bo_texts_line(texts, 2, &path), 2);
    assert_string_equal(path, second);
    bo_texts_close(texts);

    const int saved = dup(0), file = open(second, O_RDONLY);
    assert_true(saved >= 0 && dup2(file, 0) == 0);
    texts = read_texts(&s, (bo_texts_desc){.kind = BO_TEXTS_LABELED}, "-");
    bo_texts_line(texts, 0, &path);
    assert_string_equal(path, "standard input");
    bo_texts_close(texts);
    dup2(saved, 0);
    close(saved);
    close(file);
    bo_tokenizer_destroy(s.bytes);
}

/* Numeric classes are ordered by value and equal in any notation; given classes keep their order. */
static void test_classes(void **state)
{
    setting s = open_setting(state);
    const char *path = test_text(s.directory, "n.tsv", "10\ta\n9\tb\n10.0\tc\n-1\td\n");
    bo_texts *texts = read_texts(&s, (bo_texts_desc){.kind = BO_TEXTS_LABELED}, path);
    static const char *const sorted[] = {"-1", "9", "10"};
    assert_int_equal(bo_texts_classes(texts), 3);
    for (size_t i = 0; i < 3; i++) assert_string_equal(bo_texts_class_names(texts)[i], sorted[i]);
    assert_int_equal(bo_texts_label(texts, 0), 2);
    assert_int_equal(bo_texts_label(texts, 2), 2);
    assert_int_equal(bo_texts_label(texts, 3), 0);
    bo_texts_close(texts);

    static const char *const given[] = {"x", "10", "9", "-1"};
    texts = read_texts(&s, (bo_texts_desc){.labels = given, .classes = 4}, path);
    assert_int_equal(bo_texts_classes(texts), 4);
    assert_int_equal(bo_texts_label(texts, 0), 1);
    assert_int_equal(bo_texts_label(texts, 3), 3);
    bo_texts_close(texts);

    texts = read_texts(&s, (bo_texts_desc){0},
                       test_text(s.directory, "m.tsv", "b\ta\n10\tb\n9\tc\n")); /* not all are numbers */
    assert_string_equal(bo_texts_class_names(texts)[0], "10");
    assert_string_equal(bo_texts_class_names(texts)[2], "b");
    bo_texts_close(texts);
    static const char *const twice[] = {"1", "1.0"};
    assert_fails(s.context, BO_INVALID, "\"1.0\" is listed twice",
                 try_texts(&s, (bo_texts_desc){.labels = twice, .classes = 2}, path, &texts));
    bo_tokenizer_destroy(s.bytes);
}

/* ---- parts ------------------------------------------------------------------------------------------------------- */

static void test_parts(void **state)
{
    enum { LINES = 101 };
    setting s = open_setting(state);
    char text[LINES * 16];
    size_t length = 0;
    for (int i = 0; i < LINES; i++) length += (size_t)sprintf(text + length, "%d\t%d\n", i >= LINES / 2, i);
    const char *path = test_text(s.directory, "s.tsv", text);
    bool seen[LINES] = {false};
    size_t in_order = 0, ones = 0, total = 0;
    for (int part = 0; part < 2; part++) {
        bo_texts *texts =
            read_texts(&s, (bo_texts_desc){.skip = part ? 0.8 : 0, .take = part ? 0 : 0.8, .seed = 3}, path);
        assert_int_equal(bo_texts_classes(texts), 2);
        assert_int_equal(bo_texts_count(texts), part ? LINES - 80 : 80);
        for (size_t i = 0; i < bo_texts_count(texts); i++, total++) {
            const size_t line = bo_texts_line(texts, i, NULL) - 1;
            char expected[16];
            snprintf(expected, sizeof expected, "%zu", line);
            expect_text(texts, i, 0, expected);
            assert_false(seen[line]);
            seen[line] = true;
            in_order += line == total;
            if (!part) ones += (size_t)bo_texts_label(texts, i);
        }
        bo_texts_close(texts);
    }
    assert_int_equal(total, LINES);
    assert_true(in_order < 10); /* the expected number is one, with standard deviation one */
    /* 40.4 expected; the hypergeometric standard deviation is 2.02, and the bound is five of them */
    assert_true(ones > 30 && ones < 51);
    bo_texts *texts[3];
    for (int i = 0; i < 3; i++) texts[i] = read_texts(&s, (bo_texts_desc){.take = 0.5, .seed = i == 2 ? 4 : 3}, path);
    assert_true(bo_texts_fingerprint(texts[0]) == bo_texts_fingerprint(texts[1]));
    assert_true(bo_texts_fingerprint(texts[0]) != bo_texts_fingerprint(texts[2]));
    for (int i = 0; i < 3; i++) bo_texts_close(texts[i]);
    bo_texts *none;
    assert_fails(s.context, BO_INVALID, "skip 0.5 and take",
                 try_texts(&s, (bo_texts_desc){.skip = 0.5, .take = 0.6}, path, &none));
    assert_fails(s.context, BO_INVALID, "none is left", try_texts(&s, (bo_texts_desc){.take = 0.001}, path, &none));
    bo_tokenizer_destroy(s.bytes);
}

/* ---- tokenizers -------------------------------------------------------------------------------------------------- */

/* The ids of every text equal the ids of the text alone, for one and three threads. The tokenizer is trained on the
 * texts only: "zq" occurs only in labels and is not a token. */
static void test_learned(void **state)
{
    enum { LINES = 1500 };
    setting s = open_setting(state);
    char *text = malloc(LINES * 200), prose[160];
    size_t length = 0;
    for (uint64_t i = 0; i < LINES; i++) {
        size_t bytes = test_prose(i, prose, sizeof prose);
        for (size_t b = 0; b < bytes; b++)
            if (prose[b] == '\n') prose[b] = ' ';
        length += (size_t)sprintf(text + length, "zq%d\t%.*s%s\n", (int)(i % 3), (int)bytes, prose,
                                  i % 100 ? "" : "<|endoftext|>");
    }
    const char *path = test_write(s.directory, "p.tsv", text, length);
    bo_context *threads = test_context(3);
    bo_tokenizer *learned[2];
    bo_texts_desc desc = {.paths = &path, .path_count = 1};
    const bo_tokenizer_desc how = {.vocab = 400};
    assert_ok(s.context, bo_tokenizer_train_texts(s.context, &how, &desc, &learned[0]));
    assert_ok(threads, bo_tokenizer_train_texts(threads, &how, &desc, &learned[1]));
    assert_true(bo_tokenizer_fingerprint(learned[0]) == bo_tokenizer_fingerprint(learned[1]));
    assert_int_equal(bo_tokenizer_find(learned[0], "zq"), -1);
    desc.tokenizer = learned[0];
    bo_texts *one, *many;
    assert_ok(s.context, bo_texts_open(s.context, &desc, &one));
    assert_ok(threads, bo_texts_open(threads, &desc, &many));
    assert_true(bo_texts_fingerprint(one) == bo_texts_fingerprint(many));
    assert_true(bo_texts_tokens(one, 0) * 2 < length);
    const int32_t end = bo_tokenizer_end(learned[0]);
    for (size_t i = 0; i < LINES; i += 50) {
        size_t bytes;
        const char *content = bo_texts_text(many, i, 0, &bytes);
        bo_ids ids = {0};
        assert_ok(s.context, bo_tokenizer_encode(s.context, learned[0], content, bytes, false, &ids));
        bo_text_view view = bo_text_at(many, i, 0);
        assert_int_equal(view.count, ids.count);
        assert_memory_equal(view.ids, ids.items, ids.count * sizeof *ids.items);
        /* special tokens in a text are plain text */
        for (size_t t = 0; t < view.count; t++) assert_true(view.ids[t] != end);
        bo_ids_free(&ids);
    }
    bo_texts_close(one);
    bo_texts_close(many);
    for (int i = 0; i < 2; i++) bo_tokenizer_destroy(learned[i]);
    bo_context_destroy(threads);
    bo_tokenizer_destroy(s.bytes);
    free(text);
}

static void test_cut(void **state)
{
    setting s = open_setting(state);
    const char *path = test_text(s.directory, "c.tsv", "abcdef\tab\nabc\tabcde\n");
    bo_texts *texts = read_texts(&s, (bo_texts_desc){.kind = BO_TEXTS_PAIR, .longest = 3, .cut = true, .end = 1}, path);
    assert_int_equal(bo_texts_truncated(texts), 2);
    assert_int_equal(bo_text_at(texts, 0, 0).count, 4);
    assert_int_equal(bo_text_at(texts, 0, 0).ids[2], 'c');
    assert_int_equal(bo_text_at(texts, 0, 0).ids[3], 0);
    assert_int_equal(bo_text_at(texts, 0, 1).count, 3);
    bo_texts_close(texts);
    bo_tokenizer_destroy(s.bytes);
}

/* ---- invalid input ----------------------------------------------------------------------------------------------- */

static void test_refusals(void **state)
{
    setting s = open_setting(state);
    static const char *const known[] = {"neg", "pos"};
    const bo_texts_desc closed = {.labels = known, .classes = 2}, labeled = {0},
                        match = {.kind = BO_TEXTS_LABELED_PAIR};
    const bo_texts_desc pair = {.kind = BO_TEXTS_PAIR, .longest = 4}, alone = {.kind = BO_TEXTS_ALONE};
    const struct {
        const bo_texts_desc *desc;
        const char *text, *message;
        bo_status status;
    } cases[] = {
        {&labeled, "pos\tgood\nneg bad\n", "t.tsv, line 2: expected label, tab, text; found 0 tabs: \"neg bad\"",
         BO_FORMAT},
        {&labeled, "pos\tgood\tfilm\n", "line 1: expected label, tab, text; found 2 tabs", BO_FORMAT},
        {&match, "1\ta\tb\n0\ta\n", "line 2: expected label, tab, text, tab, text; found 1 tab:", BO_FORMAT},
        {&match, "1\ta\tb\tc\n", "found 3 tabs", BO_FORMAT},
        {&labeled, "pos\tgood\n\nneg\tbad\n", "line 2: the line is empty; expected label", BO_FORMAT},
        {&labeled, "pos\tgood\n\tbad\n", "line 2: the label is empty", BO_FORMAT},
        {&labeled, "pos\tgood\nneg\t\n", "line 2: the text is empty", BO_FORMAT},
        {&labeled, "pos\tgood\nneg\t \xc2\xa0 \n", "line 2: the text is empty", BO_FORMAT},
        {&pair, "a\t\n", "line 1: the target is empty", BO_FORMAT},
        {&pair, "\ta\n", "line 1: the source is empty", BO_FORMAT},
        {&match, "1\ta\t \n", "the second text is empty", BO_FORMAT},
        {&alone, "a\n\nb\n", "line 2: the text is empty", BO_FORMAT},
        {&alone, "a\npos\tgood\n", "line 2: expected a text alone; found 1 tab: \"pos\\tgood\"", BO_FORMAT},
        {&labeled, "pos\tgood\nn\x1b[31m\tbad\n",
         "line 2: expected a label without control characters, found \"n\\x1b[31m\"", BO_FORMAT},
        {&labeled, "n\xc2\x9b\tbad\n", "line 1: expected a label without control characters, found \"n\\x9b\"",
         BO_FORMAT},
        {&closed, "pos\tgood\nmeh\tbad\n",
         "line 2: unknown class \"meh\"; expected one of the 2 known classes: neg, pos", BO_FORMAT},
        {&pair, "abcd\ta\na\tabcde\n", "line 2: expected at most 4 tokens, found a target of 5", BO_FORMAT},
        {&labeled, "pos\tgood\nneg\tb\xffz\n", "line 2: byte 6 of the line (0xff) is not UTF-8", BO_FORMAT},
        {&labeled, "p\xc3\tgood\n", "line 1: byte 2 of the line", BO_FORMAT},
        {&labeled, "pos\tgood\npos\tbetter\n", "t.tsv: all 2 lines have the class \"pos\"", BO_INVALID},
        {&labeled, "", "t.tsv: contains no text", BO_INVALID},
        {&labeled, "\xef\xbb\xbf\r\n\n", "t.tsv: contains no text", BO_INVALID},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        bo_texts *texts = (bo_texts *)&s;
        const char *path = test_text(s.directory, "t.tsv", cases[i].text);
        assert_fails(s.context, cases[i].status, cases[i].message, try_texts(&s, *cases[i].desc, path, &texts));
        assert_null(texts);
    }
    bo_texts *texts;
    assert_fails(s.context, BO_FORMAT, "line 1: byte 4 of the line is NUL",
                 try_texts(&s, alone, test_write(s.directory, "z.txt", "abc\0d", 5), &texts));
    bo_texts_desc drawn = pair; /* independent of the first line */
    drawn.take = 1;
    assert_fails(
        s.context, BO_FORMAT, "line 2: expected at most 4 tokens, found a source of 5; 4 texts are too long",
        try_texts(&s, drawn, test_text(s.directory, "l.tsv", "a\tb\nabcde\tb\nabcdef\tabcdefg\na\tabcdef\n"), &texts));
    assert_fails(s.context, BO_IO, "absent.tsv", try_texts(&s, labeled, test_path(s.directory, "absent.tsv"), &texts));
    assert_fails(s.context, BO_INVALID, "tokenizer", bo_texts_open(s.context, &labeled, &texts));
    assert_fails(s.context, BO_INVALID, "at least one path",
                 bo_texts_open(s.context, &(bo_texts_desc){.tokenizer = s.bytes}, &texts));
    assert_fails(s.context, BO_INVALID, "kind 9",
                 try_texts(&s, (bo_texts_desc){.kind = (bo_texts_kind)9}, "x", &texts));
    bo_tokenizer_destroy(s.bytes);
}

/* Swapped columns: the label is a whole review, of which the message shows the start, cut at the end of a character. */
static void test_long_labels(void **state)
{
    setting s = open_setting(state);
    char text[1000];
    for (size_t i = 0; i < 300; i++) memcpy(text + 2 * i, "\xc3\xa9", 2);
    strcpy(text + 600, "\tpos\n");
    bo_texts *texts;
    const char *path = test_text(s.directory, "t.tsv", text);
    assert_fails(s.context, BO_FORMAT, "line 1: expected a label of at most 255 bytes, found 600: \"\xc3\xa9",
                 try_texts(&s, (bo_texts_desc){0}, path, &texts));
    assert_non_null(strstr(bo_context_error(s.context), "\xc3\xa9\xe2\x80\xa6\""));
    bo_tokenizer_destroy(s.bytes);
}

int main(void)
{
#define WITH_DIRECTORY(test) cmocka_unit_test_setup_teardown(test, test_setup, test_teardown)
    const struct CMUnitTest tests[] = {
        WITH_DIRECTORY(test_labeled), WITH_DIRECTORY(test_kinds),    WITH_DIRECTORY(test_several_files_and_input),
        WITH_DIRECTORY(test_classes), WITH_DIRECTORY(test_parts),    WITH_DIRECTORY(test_learned),
        WITH_DIRECTORY(test_cut),     WITH_DIRECTORY(test_refusals), WITH_DIRECTORY(test_long_labels),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
