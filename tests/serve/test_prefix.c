/* SipHash-2-4 with 128 bits: the published vectors, and a simple second implementation for every length; the chain of
 * the hashes of a text; formats; random bytes. */
#include "testing.h"
#include "serve/prefix.h"

enum { MAX_LENGTH = 64, BYTES = 16 };

/* Results of the reference implementation (github.com/veorq/SipHash) for the key 00 01 … 0f and the message 00 01 …, as
 * `openssl mac -macopt size:16 SIPHASH` prints them. */
static const struct {
    size_t length;
    const char *digits;
} published[] = {{0, "a3817f04ba25a8e66df67214c7550293"},  {1, "da87c1d86b99af44347659119b22fc45"},
                 {2, "8177228da4a45dc7fca38bdef60affe4"},  {3, "9c70b60c5267a94e5f33b6b02985ed51"},
                 {4, "f88164c12d9c8faf7d0f6e7c7bcd5579"},  {5, "1368875980776f8854527a07690e9627"},
                 {8, "3b62a9ba6258f5610f83e264f31497b4"},  {15, "5493e99933b0a8117e08ec0f97cfc3d9"},
                 {16, "6ee2a4ca67b054bbfd3315bf85230577"}, {63, "5150d1772f50834a503e069a973fbd7c"}};

/* ---- the second implementation: byte by byte, as the paper describes it ------------------------------------------ */

static uint64_t read_word(const unsigned char *bytes, size_t count)
{
    uint64_t word = 0;
    for (size_t i = 0; i < count; i++) word += (uint64_t)bytes[i] << 8 * i;
    return word;
}

static uint64_t rotated(uint64_t word, unsigned bits)
{
    return word << bits | word >> (64 - bits);
}

static void rounds(uint64_t v[4], int count)
{
    while (count-- > 0) {
        v[0] += v[1];
        v[1] = rotated(v[1], 13);
        v[1] ^= v[0];
        v[0] = rotated(v[0], 32);
        v[2] += v[3];
        v[3] = rotated(v[3], 16);
        v[3] ^= v[2];
        v[0] += v[3];
        v[3] = rotated(v[3], 21);
        v[3] ^= v[0];
        v[2] += v[1];
        v[1] = rotated(v[1], 17);
        v[1] ^= v[2];
        v[2] = rotated(v[2], 32);
    }
}

static void expected_hash(const unsigned char key[BYTES], const unsigned char *message, size_t length,
                          unsigned char out[BYTES])
{
    uint64_t v[4];
    const char *start = "uespemos"
                        "modnarod"
                        "arenegyl"
                        "setybdet"; /* "somepseudorandomlygeneratedbytes" in words */
    unsigned char padded[MAX_LENGTH + 8] = {0};
    const size_t words = length / 8 + 1;
    for (int i = 0; i < 4; i++) {
        v[i] = read_word((const unsigned char *)start + 8 * i, 8);
        v[i] ^= read_word(key + 8 * (i % 2), 8);
    }
    v[1] ^= 0xee;
    memcpy(padded, message, length);
    padded[8 * words - 1] = (unsigned char)length;
    for (size_t i = 0; i < words; i++) {
        const uint64_t word = read_word(padded + 8 * i, 8);
        v[3] ^= word;
        rounds(v, 2);
        v[0] ^= word;
    }
    for (int half = 0; half < 2; half++) {
        if (half == 0)
            v[2] ^= 0xee;
        else
            v[1] ^= 0xdd;
        rounds(v, 4);
        const uint64_t word = v[0] ^ v[1] ^ v[2] ^ v[3];
        for (int i = 0; i < 8; i++) out[8 * half + i] = (unsigned char)(word >> 8 * i);
    }
}

/* ---- tests ------------------------------------------------------------------------------------------------------- */

static void bytes_of(bo_prefix prefix, unsigned char out[BYTES])
{
    for (int i = 0; i < BYTES; i++) out[i] = (unsigned char)(prefix.words[i / 8] >> 8 * (i % 8));
}

static bo_prefix_secret secret_of(const unsigned char key[BYTES])
{
    return (bo_prefix_secret){{read_word(key, 8), read_word(key + 8, 8)}};
}

static void counted(unsigned char *out, size_t count)
{
    for (size_t i = 0; i < count; i++) out[i] = (unsigned char)i;
}

static void test_published(void **state)
{
    (void)state;
    unsigned char message[MAX_LENGTH], key[BYTES], found[BYTES];
    counted(message, sizeof message);
    counted(key, sizeof key);
    const bo_prefix_secret secret = secret_of(key);
    for (size_t i = 0; i < sizeof published / sizeof *published; i++) {
        char digits[2 * BYTES + 1];
        bytes_of(bo_prefix_of_bytes(&secret, message, published[i].length), found);
        for (int b = 0; b < BYTES; b++) snprintf(digits + 2 * b, 3, "%02x", found[b]);
        assert_string_equal(digits, published[i].digits);
    }
}

static void test_every_length(void **state)
{
    (void)state;
    bo_rng rng = bo_rng_make(1, 2);
    for (size_t length = 0; length <= MAX_LENGTH; length++) {
        unsigned char message[MAX_LENGTH], key[BYTES], found[BYTES], expected[BYTES];
        for (size_t i = 0; i < MAX_LENGTH; i++) message[i] = (unsigned char)bo_rng_below(&rng, 256);
        for (size_t i = 0; i < BYTES; i++) key[i] = (unsigned char)bo_rng_below(&rng, 256);
        const bo_prefix_secret secret = secret_of(key);
        expected_hash(key, message, length, expected);
        bytes_of(bo_prefix_of_bytes(&secret, message, length), found);
        assert_memory_equal(found, expected, BYTES);
    }
}

/* The hash of a text is that of 20 bytes: the hash of the text before it, and the token. */
static void test_chain(void **state)
{
    (void)state;
    unsigned char key[BYTES], block[BYTES + 4], expected[BYTES], found[BYTES];
    counted(key, sizeof key);
    const bo_prefix_secret secret = secret_of(key);
    const int32_t tokens[] = {0, 1, 255, 256, 65535, INT32_MAX, 0, 0};
    bo_prefix prefix = bo_prefix_of_nothing();
    for (size_t i = 0; i < sizeof tokens / sizeof *tokens; i++) {
        bytes_of(prefix, block);
        for (int b = 0; b < 4; b++) block[BYTES + b] = (unsigned char)((uint32_t)tokens[i] >> 8 * b);
        expected_hash(key, block, sizeof block, expected);
        prefix = bo_prefix_next(&secret, prefix, tokens[i]);
        bytes_of(prefix, found);
        assert_memory_equal(found, expected, BYTES);
    }
}

/* Texts that differ anywhere, in a token, in order or in length, or secrets that differ, have different hashes. */
static void test_differences(void **state)
{
    (void)state;
    enum { TEXTS = 7, LENGTH = 4 };
    static const int32_t texts[TEXTS][LENGTH] = {{1, 2, 3, 4}, {1, 2, 4, 3}, {2, 1, 3, 4}, {0, 1, 2, 3},
                                                 {1, 2, 3, 0}, {0, 0, 0, 0}, {1, 2, 3, 5}};
    const bo_prefix_secret secret = {{7, 8}}, other = {{7, 9}};
    bo_prefix all[TEXTS * (LENGTH + 1) + 1];
    size_t count = 0;
    for (size_t t = 0; t < TEXTS; t++) {
        bo_prefix prefix = bo_prefix_of_nothing();
        for (size_t i = 0; i < LENGTH; i++) {
            prefix = bo_prefix_next(&secret, prefix, texts[t][i]);
            bool known = false; /* a beginning that an earlier text has, too */
            for (size_t e = 0; e < t; e++) known |= memcmp(texts[e], texts[t], (i + 1) * sizeof **texts) == 0;
            bool found = false;
            for (size_t e = 0; e < count; e++) found |= bo_prefix_equal(all[e], prefix);
            assert_int_equal(found, known);
            if (!known) all[count++] = prefix;
        }
    }
    assert_false(bo_prefix_equal(bo_prefix_next(&secret, bo_prefix_of_nothing(), 1),
                                 bo_prefix_next(&other, bo_prefix_of_nothing(), 1)));
    assert_false(bo_prefix_equal((bo_prefix){{1, 2}}, (bo_prefix){{1, 3}}));
    assert_false(bo_prefix_equal((bo_prefix){{1, 2}}, (bo_prefix){{0, 2}}));
    assert_true(bo_prefix_equal((bo_prefix){{1, 2}}, (bo_prefix){{1, 2}}));
}

static void test_format(void **state)
{
    (void)state;
    char digits[BO_PREFIX_DIGITS + 1];
    bo_prefix_format((bo_prefix){{0x123, UINT64_C(0xfedcba9876543210)}}, digits);
    assert_string_equal(digits, "0000000000000123fedcba9876543210");
}

static void test_random(void **state)
{
    (void)state;
    enum { COUNT = 4096 };
    static unsigned char one[COUNT], other[COUNT];
    size_t bits = 0;
    assert_true(bo_random_bytes(one, 0));
    assert_true(bo_random_bytes(one, COUNT));
    assert_true(bo_random_bytes(other, COUNT));
    assert_memory_not_equal(one, other, COUNT);
    for (size_t i = 0; i < COUNT; i++)
        for (int b = 0; b < 8; b++) bits += one[i] >> b & 1;
    /* the standard deviation of the number of ones among n fair bits is sqrt(n) / 2 = 90 */
    assert_close((double)bits, 4.0 * COUNT, 8 * 90);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_published),   cmocka_unit_test(test_every_length), cmocka_unit_test(test_chain),
        cmocka_unit_test(test_differences), cmocka_unit_test(test_format),       cmocka_unit_test(test_random),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
