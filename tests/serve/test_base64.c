/* Base64: the vectors of RFC 4648, every length there and back, and texts that are refused. */
#include "testing.h"
#include "serve/base64.h"

static void expect_text(bo_context *context, const void *bytes, size_t size, const char *expected)
{
    bo_json_text out = {.context = context};
    bo_base64_write(&out, bytes, size);
    assert_false(out.failed);
    assert_int_equal(out.length, strlen(expected) + 2);
    assert_int_equal(out.bytes[0], '"');
    assert_int_equal(out.bytes[out.length - 1], '"');
    assert_memory_equal(out.bytes + 1, expected, strlen(expected));
    bo_free(out.bytes);
}

static void test_vectors(void **state)
{
    (void)state;
    static const char *const pairs[][2] = {{"", ""},
                                           {"f", "Zg=="},
                                           {"fo", "Zm8="},
                                           {"foo", "Zm9v"},
                                           {"foob", "Zm9vYg=="},
                                           {"fooba", "Zm9vYmE="},
                                           {"foobar", "Zm9vYmFy"},
                                           {"\xfb\xff\xbf", "+/+/"}};
    bo_context *context = test_context(1);
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        unsigned char back[16];
        size_t size = 99;
        expect_text(context, pairs[i][0], strlen(pairs[i][0]), pairs[i][1]);
        assert_true(bo_base64_read(pairs[i][1], back, &size));
        assert_int_equal(size, strlen(pairs[i][0]));
        assert_memory_equal(back, pairs[i][0], size);
    }
    bo_context_destroy(context);
}

/* Lengths around the size of the buffer of the writer, which is written several times. */
static void test_round_trips(void **state)
{
    (void)state;
    enum { MAX_SIZE = 3200 };
    bo_context *context = test_context(1);
    static unsigned char bytes[MAX_SIZE];
    bo_rng rng = bo_rng_make(5, 1);
    for (size_t i = 0; i < MAX_SIZE; i++) bytes[i] = (unsigned char)bo_rng_below(&rng, 256);
    for (size_t size = 0; size <= MAX_SIZE; size += size < 1600 ? 1 : 37) {
        bo_json_text out = {.context = context};
        size_t found = 0;
        bo_base64_write(&out, bytes, size);
        assert_int_equal(out.length, (size + 2) / 3 * 4 + 2);
        out.bytes[out.length - 1] = 0;
        unsigned char *back = malloc((out.length - 2) / 4 * 3 + 1); /* exactly the promised space, for ASan */
        assert_true(bo_base64_read(out.bytes + 1, back, &found));
        assert_int_equal(found, size);
        assert_memory_equal(back, bytes, size);
        free(back);
        bo_free(out.bytes);
    }
    bo_context_destroy(context);
}

static void test_refused(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "Z",    "Zg",   "Zg=",  "Z===",     "====", "=Zg=",    "Zm=v",    "Zg==Zg==", "Zm8=Zm8=",     "Zm9v\n",
        "Zm9 ", " Zm9", "Zm-_", "Zm9v====", "Zm9*", "Zm9\xc3", "Zm9vYmF", "Zg=a",     "a\x80\x80\x80"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        unsigned char back[16];
        size_t size;
        if (bo_base64_read(texts[i], back, &size)) fail_msg("'%s' was read", texts[i]);
    }
}

/* Bits after the last byte must be zero, so that bytes have one text only. */
static void test_trailing_bits(void **state)
{
    (void)state;
    unsigned char back[4];
    size_t size;
    assert_true(bo_base64_read("Zg==", back, &size));
    assert_false(bo_base64_read("Zh==", back, &size));
    assert_true(bo_base64_read("Zm8=", back, &size));
    assert_false(bo_base64_read("Zm9=", back, &size));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_vectors),
        cmocka_unit_test(test_round_trips),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_trailing_bits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
