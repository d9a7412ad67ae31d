/* Snapshots as bytes: the format, there and back, with every byte changed and every length, hostile sizes with a valid
 * checksum; owners; memory failures. */
#include "base/counting.h"
#include "io/checksum.h"
#include "serve/snapshot.h"

enum { STATE = 37, TALKS = 1 }; /* TALKS: the number of pending tokens of snapshots that have a conversation */
static const char MESSAGES[] = "[{\"role\":\"user\",\"content\":\"\xc3\xa9\"}]";

typedef struct setting {
    counting counted;
    bo_context *context;
} setting;

static int setup(void **state)
{
    setting *s = *state = calloc(1, sizeof *s);
    s->context = counting_context(&s->counted, 1);
    return 0;
}

static int teardown(void **state)
{
    setting *s = *state;
    bo_context_destroy(s->context);
    assert_int_equal(s->counted.live, 0);
    free(s);
    return 0;
}

static bo_snapshot *create_snapshot(bo_context *context, size_t pending, size_t size)
{
    bo_snapshot from = {.prefix = {{UINT64_C(0x1122334455667788), UINT64_C(0x99aabbccddeeff00)}},
                        .tokens = size ? 1234567 : 0,
                        .pending_count = pending,
                        .partial_count = pending % (BO_SNAPSHOT_PARTIAL + 1),
                        .size = size},
                *out;
    for (size_t i = 0; i < pending; i++) from.pending[i] = (int32_t)(1000 * i + 7);
    memcpy(from.partial, "\xf0\x9f\x98", from.partial_count);
    if (size) from.bytes = bo_alloc(context, size, 1, "test");
    for (size_t i = 0; i < size; i++) ((unsigned char *)from.bytes)[i] = (unsigned char)(i * 29 + 3);
    if (pending == TALKS) {
        from.messages = bo_strdup(context, MESSAGES);
        from.ids_hash = UINT64_C(0x0123456789abcdef);
    }
    assert_ok(context, bo_snapshot_create(context, &from, &out));
    return out;
}

/* A valid checksum, as in a file that was forged deliberately. */
static void seal(unsigned char *bytes, size_t size)
{
    bo_xxh64 hash;
    bo_xxh64_start(&hash);
    bo_xxh64_add(&hash, bytes, 48);
    bo_xxh64_add(&hash, bytes + 56, size - 56);
    const uint64_t sum = bo_xxh64_end(&hash);
    for (int i = 0; i < 8; i++) bytes[48 + i] = (unsigned char)(sum >> 8 * i);
}

static void test_round_trip(void **state)
{
    bo_context *context = ((setting *)*state)->context;
    static const char *const ids[] = {NULL, "", "a",
                                      "0123456789012345678901234567890123456789012345678901234567890123"};
    for (size_t pending = 0; pending <= BO_SNAPSHOT_PENDING; pending++)
        for (size_t size = 0; size <= STATE; size += STATE)
            for (size_t i = 0; i < sizeof ids / sizeof *ids; i++)
                for (int hashed = 0; hashed < 2; hashed++) {
                    bo_snapshot *one = create_snapshot(context, pending, size), *back;
                    char id[BO_SNAPSHOT_ID + 1] = "?";
                    void *bytes;
                    size_t length;
                    assert_ok(context, bo_snapshot_write(context, one, ids[i], hashed, &bytes, &length));
                    const size_t talk = pending == TALKS ? 8 + strlen(MESSAGES) : 0;
                    assert_int_equal(length,
                                     BO_SNAPSHOT_HEADER + 4 * pending + (ids[i] ? strlen(ids[i]) : 0) + size + talk);
                    assert_ok(context, bo_snapshot_read(context, "test", bytes, length, id, &back));
                    assert_string_equal(id, ids[i] ? ids[i] : "");
                    assert_int_equal(back->tokens, one->tokens);
                    assert_int_equal(back->pending_count, pending);
                    assert_memory_equal(back->pending, one->pending, sizeof one->pending);
                    assert_int_equal(back->partial_count, one->partial_count);
                    assert_memory_equal(back->partial, one->partial, sizeof one->partial);
                    assert_true(bo_prefix_equal(back->prefix, hashed ? one->prefix : bo_prefix_of_nothing()));
                    assert_int_equal(back->size, size);
                    assert_int_equal(back->bytes == NULL, size == 0);
                    if (size) assert_memory_equal(back->bytes, one->bytes, size);
                    assert_int_equal(bo_snapshot_length(back), one->tokens + pending);
                    assert_int_equal(bo_snapshot_memory(back), BO_SNAPSHOT_OVERHEAD + size + talk);
                    assert_int_equal(back->messages == NULL, talk == 0);
                    if (talk) assert_string_equal(back->messages, MESSAGES);
                    assert_true(back->ids_hash == one->ids_hash);
                    bo_free(bytes);
                    bo_snapshot_release(one);
                    bo_snapshot_release(back);
                }
}

/* The bytes of a small snapshot, as the header of snapshot.h describes them. */
static void test_format(void **state)
{
    bo_context *context = ((setting *)*state)->context;
    unsigned char expected[BO_SNAPSHOT_HEADER + 8 + 2 + 3] =
        "BOSTATE1\2\0\0\0\2\0\0\0\x88\x77\x66\x55\x44\x33\x22\x11\x00\xff\xee\xdd\xcc\xbb\xaa\x99"
        "\x87\xd6\x12\0\0\0\0\0\3\0\0\0\0\0\0\0........\2\xf0\x9f\0\0\0\0\0\x07\0\0\0\xef\x03\0\0id\x03\x20\x3d";
    bo_snapshot *one = create_snapshot(context, 2, 3);
    void *bytes;
    size_t size;
    seal(expected, sizeof expected);
    assert_ok(context, bo_snapshot_write(context, one, "id", true, &bytes, &size));
    assert_int_equal(size, sizeof expected);
    assert_memory_equal(bytes, expected, size);
    bo_free(bytes);
    /* a download is the same, with zeros in place of the hash */
    memset(expected + 16, 0, 16);
    seal(expected, sizeof expected);
    assert_ok(context, bo_snapshot_write(context, one, "id", false, &bytes, &size));
    assert_memory_equal(bytes, expected, size);
    bo_free(bytes);
    bo_snapshot_release(one);
}

static void refuse(bo_context *context, const unsigned char *bytes, size_t size, const char *message)
{
    char id[BO_SNAPSHOT_ID + 1];
    bo_snapshot *out = (bo_snapshot *)&id;
    unsigned char *exact = malloc(size ? size : 1); /* a block of this size, so that ASan finds reads behind it */
    memcpy(exact, bytes, size);
    assert_fails(context, BO_FORMAT, message, bo_snapshot_read(context, "here", exact, size, id, &out));
    assert_fails(context, BO_FORMAT, "here: ", bo_snapshot_read(context, "here", exact, size, id, &out));
    assert_null(out);
    free(exact);
}

static void check_damaged(bo_context *context, size_t pending)
{
    bo_snapshot *one = create_snapshot(context, pending, STATE);
    unsigned char *bytes;
    void *written;
    size_t size;
    assert_ok(context, bo_snapshot_write(context, one, "name", true, &written, &size));
    bytes = written;
    for (size_t i = 0; i < size; i++) { /* every bit of every byte, alone and all of them */
        for (int b = 0; b < 8; b++) {
            bytes[i] ^= (unsigned char)(1 << b);
            refuse(context, bytes, size, "");
            bytes[i] ^= (unsigned char)(1 << b);
        }
        bytes[i] ^= 0xff;
        refuse(context, bytes, size, i < 8 ? "found other bytes" : "damaged");
        bytes[i] ^= 0xff;
    }
    for (size_t length = 0; length < size; length++)
        refuse(context, bytes, length,
               length < BO_SNAPSHOT_HEADER ? "found other bytes"
               : pending == TALKS          ? "damaged"
                                           : "incomplete");
    unsigned char *longer = calloc(size + 1, 1);
    memcpy(longer, bytes, size);
    refuse(context, longer, size + 1, "incomplete");
    free(longer);
    bo_free(written);
    bo_snapshot_release(one);
}

static void test_damaged(void **state)
{
    bo_context *context = ((setting *)*state)->context;
    check_damaged(context, 3);
    check_damaged(context, TALKS);
}

/* Headers with a valid checksum and numbers that would overflow a sum or a buffer. */
static void test_hostile(void **state)
{
    bo_context *context = ((setting *)*state)->context;
    static const struct {
        size_t at;
        uint64_t value;
        int bytes;
    } changes[] = {{8, 5, 4},
                   {8, UINT32_MAX, 4},
                   {8, 0x40000000, 4},
                   {12, BO_SNAPSHOT_ID + 1, 4},
                   {12, UINT32_MAX, 4},
                   {32, UINT64_MAX, 8},
                   {32, (UINT64_C(1) << 56) + 1, 8},
                   {40, UINT64_MAX, 8},
                   {40, UINT64_MAX - 11, 8},
                   {40, STATE + 1, 8},
                   {40, STATE - 1, 8},
                   {40, UINT64_C(1) << 63, 8},
                   {40, 0, 8},
                   {56, BO_SNAPSHOT_PARTIAL + 1, 1},
                   {56, 255, 1},
                   {60, 1, 1},
                   {63, 1, 1}};
    bo_snapshot *one = create_snapshot(context, 3, STATE);
    void *bytes;
    size_t size;
    assert_ok(context, bo_snapshot_write(context, one, "name", true, &bytes, &size));
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        unsigned char *hostile = malloc(size);
        memcpy(hostile, bytes, size);
        for (int b = 0; b < changes[i].bytes; b++)
            hostile[changes[i].at + (size_t)b] = (unsigned char)(changes[i].value >> 8 * b);
        seal(hostile, size);
        refuse(context, hostile, size, "incomplete");
        free(hostile);
    }
    /* messages with a NUL */
    bo_snapshot *talk = create_snapshot(context, TALKS, STATE);
    void *text;
    size_t length;
    assert_ok(context, bo_snapshot_write(context, talk, "name", true, &text, &length));
    ((unsigned char *)text)[length - 2] = 0;
    seal(text, length);
    refuse(context, text, length, "incomplete");
    bo_free(text);
    bo_snapshot_release(talk);
    /* tokens were read, but there is no state */
    unsigned char empty[BO_SNAPSHOT_HEADER] = "BOSTATE1";
    empty[32] = 1;
    seal(empty, sizeof empty);
    refuse(context, empty, sizeof empty, "incomplete");
    bo_free(bytes);
    bo_snapshot_release(one);
}

static void test_owners(void **state)
{
    setting *s = *state;
    const size_t live = s->counted.live;
    bo_snapshot *one = create_snapshot(s->context, 0, STATE);
    assert_ptr_equal(bo_snapshot_share(one), one);
    assert_null(bo_snapshot_share(NULL));
    bo_snapshot_release(NULL);
    bo_snapshot_release(one);
    assert_int_equal(s->counted.live, live + 2); /* the snapshot and its bytes */
    bo_snapshot_release(one);
    assert_int_equal(s->counted.live, live);
}

static bo_status write_and_read(void *arg)
{
    setting *s = arg;
    bo_context *context = s->context;
    bo_snapshot from = {.tokens = 5, .size = STATE}, *one = NULL, *back = NULL;
    char id[BO_SNAPSHOT_ID + 1];
    void *bytes = NULL;
    size_t size;
    from.bytes = bo_alloc(context, STATE, 1, "test");
    from.messages = bo_strdup(context, MESSAGES);
    bo_status status = from.bytes && from.messages ? bo_snapshot_create(context, &from, &one) : BO_MEMORY;
    if (!from.bytes) bo_free(from.messages);
    if (!from.messages) bo_free(from.bytes);
    if (status == BO_OK) status = bo_snapshot_write(context, one, "a", true, &bytes, &size);
    if (status == BO_OK) status = bo_snapshot_read(context, "test", bytes, size, id, &back);
    if (status != BO_OK) assert_null(back);
    bo_free(bytes);
    bo_snapshot_release(one);
    bo_snapshot_release(back);
    return status;
}

static void test_memory(void **state)
{
    setting *s = *state;
    counting_inject(&(injection){
        .counted = &s->counted, .context = s->context, .work = write_and_read, .what = s, .all = 100, .stride = 1});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_round_trip, setup, teardown),
        cmocka_unit_test_setup_teardown(test_format, setup, teardown),
        cmocka_unit_test_setup_teardown(test_damaged, setup, teardown),
        cmocka_unit_test_setup_teardown(test_hostile, setup, teardown),
        cmocka_unit_test_setup_teardown(test_owners, setup, teardown),
        cmocka_unit_test_setup_teardown(test_memory, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
