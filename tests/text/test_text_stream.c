/* Text that grows while it is generated: for every division of a text into pieces, the ready bytes are complete, never
 * change, and end before the first stop text, and no byte is pending without a reason. */
#include "base/counting.h"
#include "text/text_stream.h"

enum { MAX_BYTES = 64 };

typedef struct example {
    const char *text, *stops[4]; /* the stop texts end before NULL */
    const char *expected;
} example;

/* The stop text that is complete first ends the text, for all pieces. */
static const example examples[] = {
    {"", {NULL}, ""},
    {"plain text", {NULL}, "plain text"},
    {"a\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80z", {NULL}, "a\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80z"},
    {"one two three", {" two"}, "one"},
    {"one two three", {"x", "three", "two"}, "one "},
    {"aaab", {"ab"}, "aa"},
    {"aaaa", {"aaa"}, ""},
    {"ababac!", {"abac"}, "ab"},
    {"nearly sto", {"stop"}, "nearly sto"},
    {"sstostopp", {"stop"}, "ssto"},
    {"\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80z", {"\xe2\x82\xac"}, "\xc3\xa4"},
    {"\xe2\x82\xac\xe2\x82\xad\xe2\x82\xac", {"\xe2\x82\xad"}, "\xe2\x82\xac"},
    {"x\xf0\x9f\x98\x80y", {"\xf0\x9f\x98\x81", "\x80"}, "x\xf0\x9f\x98"}, /* the second stop text is not UTF-8 */
    {"abcdef", {"abcdef", "cd"}, "ab"},
    {"abcdef", {"cd", "abcd"}, ""},
    {"abcde", {"bcdef", "de"}, "abc"},
    {"line\nuser: hi", {"\nuser:"}, "line"},
    {"line\n\nuser:", {"\nuser:"}, "line\n"},
    {"bad\xff\xc3(\xe2\x82", {NULL}, "bad\xff\xc3(\xe2\x82"},
    {"bad\xff\xff\xff\xff\x80\x80\x80\x80\x80", {"x"}, "bad\xff\xff\xff\xff\x80\x80\x80\x80\x80"},
};

/* Bytes at the end of a text that are the beginning of a stop text or of a character. */
static size_t expected_pending(const char *text, size_t length, const char *const *stops, size_t count)
{
    size_t pending = 0;
    for (size_t s = 0; s < count; s++)
        for (size_t part = 1; part < strlen(stops[s]) && part <= length; part++)
            if (memcmp(text + length - part, stops[s], part) == 0 && part > pending) pending = part;
    for (size_t part = 1; part <= 3 && part <= length; part++) {
        const unsigned char first = (unsigned char)text[length - part];
        const size_t length_of_character = first < 0xc0 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
        bool follows = true;
        for (size_t i = 1; i < part; i++) follows &= ((unsigned char)text[length - i] & 0xc0) == 0x80;
        if (first >= 0xc0 && follows && length_of_character > part && part > pending) pending = part;
    }
    return pending;
}

/* Adds a text in pieces: border i is after byte i if bit i of the mask is set. */
static void check(bo_context *context, const example *e, uint64_t borders, bool drops)
{
    size_t stops = 0, at = 0;
    while (stops < 4 && e->stops[stops]) stops++;
    bo_text_stream stream = {.stops = e->stops, .stop_count = stops};
    const size_t length = strlen(e->text);
    char received[MAX_BYTES + 1];
    size_t count = 0;
    bool stopped = false;
    while (at < length && !stopped) {
        size_t end = at + 1;
        while (end < length && !(borders >> (end - 1) & 1)) end++;
        char *piece = malloc(end - at); /* exactly the bytes, for ASan */
        memcpy(piece, e->text + at, end - at);
        assert_ok(context, bo_text_stream_add(context, &stream, piece, end - at, &stopped));
        free(piece);
        at = end;
        assert_true(stream.ready <= stream.length);
        assert_int_equal(stream.text[stream.length], 0);
        if (!stopped) {
            const size_t pending = expected_pending(e->text, at, e->stops, stops);
            if (stream.length - stream.ready != pending)
                fail_msg("'%s' to byte %zu: %zu bytes are pending, expected %zu", e->text, at,
                         stream.length - stream.ready, pending);
        } else {
            assert_int_equal(stream.ready, stream.length);
        }
        if (drops) {
            memcpy(received + count, stream.text, stream.ready);
            count += stream.ready;
            bo_text_stream_drop(&stream);
            assert_int_equal(stream.ready, 0);
        }
        /* ready bytes never change afterwards */
        const size_t fixed = drops ? count : stream.ready;
        if (fixed > strlen(e->expected) || memcmp(drops ? received : stream.text, e->expected, fixed) != 0)
            fail_msg("'%s' with borders %llx: '%.*s' is ready after byte %zu", e->text, (unsigned long long)borders,
                     (int)fixed, drops ? received : stream.text, at);
    }
    assert_int_equal(stopped, strlen(e->expected) < length);
    bo_text_stream_end(&stream);
    assert_int_equal(stream.ready, stream.length);
    if (stream.length) memcpy(received + count, stream.text, stream.length);
    count += stream.length;
    assert_int_equal(count, strlen(e->expected));
    assert_memory_equal(received, e->expected, count);
    bo_text_stream_free(&stream);
    assert_null(stream.text);
    assert_int_equal(stream.length + stream.ready + stream.capacity, 0);
}

static void test_divisions(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    bo_rng rng = bo_rng_make(1, 8);
    for (size_t i = 0; i < sizeof examples / sizeof *examples; i++) {
        const size_t length = strlen(examples[i].text), borders = length ? length - 1 : 0;
        const uint64_t all = (uint64_t)1 << borders;
        assert_true(length < MAX_BYTES);
        for (int drops = 0; drops < 2; drops++)
            if (borders <= 13)
                for (uint64_t mask = 0; mask < all; mask++) check(context, &examples[i], mask, drops);
            else
                for (int round = 0; round < 5000; round++)
                    check(context, &examples[i], round ? bo_rng_below(&rng, all) : all - 1, drops);
    }
    bo_context_destroy(context);
}

/* Pieces without bytes, and use after the text was freed. */
static void test_empty_pieces(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    const char *stops[] = {"xy"};
    bo_text_stream stream = {.stops = stops, .stop_count = 1};
    bool stopped = true;
    bo_text_stream_drop(&stream);
    bo_text_stream_end(&stream);
    assert_ok(context, bo_text_stream_add(context, &stream, NULL, 0, &stopped));
    assert_false(stopped);
    assert_int_equal(stream.length, 0);
    for (int round = 0; round < 2; round++) {
        assert_ok(context, bo_text_stream_add(context, &stream, "ax", 2, &stopped));
        assert_ok(context, bo_text_stream_add(context, &stream, "", 0, &stopped));
        assert_false(stopped);
        assert_int_equal(stream.ready, 1);
        assert_ok(context, bo_text_stream_add(context, &stream, "yz", 2, &stopped));
        assert_true(stopped);
        assert_string_equal(stream.text, "a");
        bo_text_stream_free(&stream);
    }
    bo_text_stream_free(NULL);
    bo_text_stream_end(NULL);
    bo_text_stream_drop(NULL);
    bo_context_destroy(context);
}

/* A text that is dropped as it grows takes little memory. */
static void test_long(void **state)
{
    (void)state;
    counting counted = {0};
    bo_context *context = counting_context(&counted, 1);
    const char *stops[] = {"never\n"};
    bo_text_stream stream = {.stops = stops, .stop_count = 1};
    bool stopped;
    for (int i = 0; i < 20000; i++) {
        assert_ok(context, bo_text_stream_add(context, &stream, "word never ", 11, &stopped));
        assert_false(stopped);
        bo_text_stream_drop(&stream);
    }
    assert_true(stream.capacity < 1000);
    bo_text_stream_free(&stream);
    for (int i = 0; i < 20000; i++)
        assert_ok(context, bo_text_stream_add(context, &stream, "word never ", 11, &stopped));
    assert_int_equal(stream.length, 220000);
    bo_text_stream_free(&stream);
    bo_context_destroy(context);
    assert_int_equal(counted.live, 0);
}

typedef struct exhausted {
    counting counted;
    bo_context *context;
} exhausted;

static bo_status grow(void *what)
{
    exhausted *e = what;
    bo_text_stream stream = {0};
    bo_status status = BO_OK;
    bool stopped;
    for (int i = 0; i < 1000 && status == BO_OK; i++) {
        const size_t before = stream.length;
        status = bo_text_stream_add(e->context, &stream, "0123456789", 10, &stopped);
        if (status != BO_OK) assert_int_equal(stream.length, before);
    }
    bo_text_stream_free(&stream);
    return status;
}

static void test_memory(void **state)
{
    (void)state;
    exhausted e = {0};
    e.context = counting_context(&e.counted, 1);
    counting_inject(
        &(injection){.counted = &e.counted, .context = e.context, .work = grow, .what = &e, .all = 100, .stride = 1});
    bo_context_destroy(e.context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_divisions),
        cmocka_unit_test(test_empty_pieces),
        cmocka_unit_test(test_long),
        cmocka_unit_test(test_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
