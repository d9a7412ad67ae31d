/* Texts from lines in memory, added in pieces: their numbers, empty lines, and the end token of each. */
#include "text/facts.h"
#include "texts.h"
#include "text/packs.h"
#include <bochner/text.h>

static bo_texts *read_lines(bo_context *context, bo_texts_desc desc, const char *lines)
{
    bo_texts *texts;
    desc.memory = lines;
    desc.memory_bytes = strlen(lines);
    assert_ok(context, bo_texts_open(context, &desc, &texts));
    return texts;
}

static void test_lines(void **state)
{
    test_directory *f = *state;
    bo_tokenizer *bytes;
    const char *path;
    char lines[] = "one\ntwo\r\n\n";
    assert_ok(f->context, bo_tokenizer_create(f->context, &bytes));
    bo_texts *texts =
        read_lines(f->context, (bo_texts_desc){.kind = BO_TEXTS_ALONE, .tokenizer = bytes, .before = 7}, lines);
    memset(lines, 'x', strlen(lines)); /* the bytes need not stay */
    assert_int_equal(bo_texts_count(texts), 2);
    assert_int_equal(bo_texts_line(texts, 1, &path), 9);
    assert_string_equal(path, "standard input");
    assert_int_equal(bo_text_at(texts, 1, 0).count, 3);
    assert_int_equal(bo_text_at(texts, 1, 0).ids[0], 't');
    bo_texts_close(texts);
    bo_tokenizer_destroy(bytes);
}

/* As many texts as line ends, plus one after the last; each ends with the end token, even if it is empty. */
static void test_empty_lines(void **state)
{
    test_directory *f = *state;
    const struct {
        const char *lines;
        size_t count, bytes[4];
    } cases[] = {{"\n", 1, {0}},
                 {"a\n\nbc\n", 3, {1, 0, 2}},
                 {"a\n\n\n", 3, {1, 0, 0}},
                 {" \r\nab", 2, {0, 2}},
                 {"\n\nx", 3, {0, 0, 1}}};
    bo_tokenizer *bytes;
    assert_ok(f->context, bo_tokenizer_create(f->context, &bytes));
    const bo_texts_desc desc = {.kind = BO_TEXTS_ALONE, .tokenizer = bytes, .end = 300, .empty = true};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        bo_texts *texts = read_lines(f->context, desc, cases[c].lines);
        assert_int_equal(bo_texts_count(texts), cases[c].count);
        for (size_t i = 0; i < cases[c].count; i++) {
            size_t found;
            const bo_text_view view = bo_text_at(texts, i, 0);
            bo_texts_text(texts, i, 0, &found);
            assert_int_equal(found, cases[c].bytes[i]);
            assert_int_equal(view.count, found + 1);
            assert_int_equal(view.ids[found], 299);
        }
        bo_texts_close(texts);
    }
    bo_tokenizer_destroy(bytes);
}

static void test_refused(void **state)
{
    test_directory *f = *state;
    bo_tokenizer *bytes;
    bo_texts *texts;
    assert_ok(f->context, bo_tokenizer_create(f->context, &bytes));
    bo_texts_desc desc = {
        .kind = BO_TEXTS_ALONE_PAIR, .tokenizer = bytes, .memory = "a\tb\nc", .memory_bytes = 5, .before = 10};
    assert_int_equal(bo_texts_open(f->context, &desc, &texts), BO_FORMAT);
    assert_non_null(strstr(bo_context_error(f->context), "standard input, line 12"));
    desc.kind = BO_TEXTS_ALONE;
    desc.memory_bytes = 0;
    assert_int_equal(bo_texts_open(f->context, &desc, &texts), BO_INVALID);
    bo_tokenizer_destroy(bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_lines, test_setup, test_teardown),
        cmocka_unit_test_setup_teardown(test_empty_lines, test_setup, test_teardown),
        cmocka_unit_test_setup_teardown(test_refused, test_setup, test_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
