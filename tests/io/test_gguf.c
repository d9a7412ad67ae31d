/* GGUF: metadata and tensors are found, and every rule of the format is enforced by name. Hostile files are refused. */
#include "files.h"
#include "foreign.h"
#include "io/gguf.h"

static bo_gguf *open_file(bo_context *context, const foreign_bytes *bytes)
{
    bo_gguf *file;
    assert_ok(context, bo_gguf_open(context, "m.gguf", bytes->data, bytes->size, &file));
    return file;
}

/* The file is refused with this message. */
static void refuse(test_directory *f, foreign_gguf *parts, bo_status status, const char *message)
{
    foreign_bytes bytes = foreign_join(parts);
    bo_gguf *file;
    assert_fails(f->context, status, message, bo_gguf_open(f->context, "m.gguf", bytes.data, bytes.size, &file));
    assert_null(file);
    free(bytes.data);
}

static void metadata(void **state)
{
    test_directory *f = *state;
    foreign_gguf parts = {0};
    const char *const texts[] = {"one", "", "three"};
    const struct {
        const char *key;
        uint32_t type;
        unsigned size;
        uint64_t bits;
        double number;
        bool whole;
    } scalars[] = {{"u8", 0, 1, 200, 200, true},
                   {"i8", 1, 1, 0xFE, -2, false},
                   {"u16", 2, 2, 60000, 60000, true},
                   {"i16", 3, 2, 0xFFFF, -1, false},
                   {"u32", 4, 4, 4000000000, 4e9, true},
                   {"i32", 5, 4, 7, 7, true},
                   {"f32", 6, 4, 0x3F000000, 0.5, false},
                   {"bool", 7, 1, 1, 1, true},
                   {"u64", 10, 8, UINT64_C(1) << 40, 1099511627776.0, true},
                   {"i64", 11, 8, UINT64_MAX, -1, false},
                   {"f64", 12, 8, UINT64_C(0x3FF8000000000000), 1.5, false}};
    enum { SCALARS = sizeof scalars / sizeof *scalars };
    for (size_t i = 0; i < SCALARS; i++) {
        foreign_key(&parts, scalars[i].key, scalars[i].type);
        foreign_put(&parts.entries, &scalars[i].bits, scalars[i].size);
    }
    foreign_text(&parts, "text", "hello");
    foreign_texts(&parts, "texts", texts, 3);
    foreign_array(&parts, "sizes", 2, 2);
    foreign_put(&parts.entries, "\1\0\2\0", 4);
    foreign_array(&parts, "empty", 8, 0);
    foreign_bytes bytes = foreign_join(&parts);
    bo_gguf *file = open_file(f->context, &bytes);
    assert_int_equal(bo_gguf_version(file), 3);
    for (size_t i = 0; i < SCALARS; i++) {
        const bo_gguf_entry *entry = bo_gguf_find(file, scalars[i].key);
        double number;
        uint64_t whole;
        assert_non_null(entry);
        assert_true(bo_gguf_number(entry, 0, &number));
        assert_true(number == scalars[i].number);
        assert_int_equal(bo_gguf_whole(entry, 0, &whole), scalars[i].whole);
        if (scalars[i].whole) assert_true((double)whole == number);
        assert_false(bo_gguf_number(entry, 1, &number));
    }
    const bo_gguf_entry *entry = bo_gguf_find(file, "texts");
    const char *text;
    size_t at = 0, length;
    for (size_t i = 0; i < 3; i++) {
        assert_true(bo_gguf_next_text(entry, &at, &text, &length));
        assert_int_equal(length, strlen(texts[i]));
        assert_memory_equal(text, texts[i], length);
    }
    assert_false(bo_gguf_next_text(entry, &at, &text, &length));
    at = 0;
    assert_false(bo_gguf_next_text(bo_gguf_find(file, "empty"), &at, &text, &length));
    assert_false(bo_gguf_next_text(bo_gguf_find(file, "sizes"), &at, &text, &length));
    uint64_t second;
    assert_true(bo_gguf_whole(bo_gguf_find(file, "sizes"), 1, &second));
    assert_int_equal(second, 2);
    assert_null(bo_gguf_find(file, "absent"));
    bo_gguf_close(file);
    free(bytes.data);
}

static void tensors(void **state)
{
    test_directory *f = *state;
    foreign_gguf parts = {.version = 2, .alignment = 16};
    const float numbers[] = {1, 2, 3, 4, 5, 6};
    foreign_size(&parts, "general.alignment", 16);
    foreign_tensor(&parts, "z", 2, 3, BO_BLOCK_F32, numbers, sizeof numbers);
    foreign_tensor(&parts, "a", 5, 0, BO_BLOCK_F16, numbers, 10);
    foreign_bytes bytes = foreign_join(&parts);
    bo_gguf *file = open_file(f->context, &bytes);
    assert_int_equal(bo_gguf_tensors(file), 2);
    const bo_gguf_tensor *z = bo_gguf_tensor_find(file, "z"), *a = bo_gguf_tensor_find(file, "a");
    assert_ptr_equal(bo_gguf_tensor_at(file, 0), z); /* the order of the file */
    assert_ptr_equal(bo_gguf_tensor_at(file, 1), a);
    assert_int_equal(z->rank, 2);
    assert_int_equal(z->shape[0], 2);
    assert_int_equal(z->shape[1], 3);
    assert_int_equal(a->bytes, 10);
    assert_memory_equal(z->data, numbers, sizeof numbers);
    assert_null(bo_gguf_tensor_find(file, "b"));
    bo_gguf_close(file);
    free(bytes.data);
}

static void refused(void **state)
{
    test_directory *f = *state;
    const float numbers[64] = {0};
    foreign_gguf parts = {.version = 1};
    refuse(f, &parts, BO_UNSUPPORTED, "GGUF version 1 is not supported");
    parts.version = 3u << 24;
    refuse(f, &parts, BO_UNSUPPORTED, "big-endian");
    parts.version = 4;
    refuse(f, &parts, BO_UNSUPPORTED, "expected GGUF version 2 or 3, found 4");
    parts.tensor_count = UINT64_C(1) << 63;
    refuse(f, &parts, BO_FORMAT, "the number of tensors at byte 8 is 9223372036854775808");
    parts.entry_count = UINT64_MAX;
    refuse(f, &parts, BO_FORMAT, "the number of metadata entries at byte 16");
    foreign_text(&parts, "twice", "1");
    foreign_text(&parts, "twice", "2");
    refuse(f, &parts, BO_FORMAT, "metadata 'twice' occurs twice");
    foreign_key(&parts, "kind", 13);
    refuse(f, &parts, BO_FORMAT, "metadata 'kind' at byte");
    foreign_array(&parts, "deep", 9, 1);
    refuse(f, &parts, BO_UNSUPPORTED, "arrays of arrays");
    foreign_array(&parts, "long", 10, UINT64_C(1) << 61);
    refuse(f, &parts, BO_FORMAT, "metadata 'long' at byte");
    foreign_array(&parts, "texts", 8, UINT64_C(1) << 61);
    refuse(f, &parts, BO_FORMAT, "an array of 2305843009213693952 elements does not fit");
    foreign_key(&parts, "text", 8);
    foreign_long(&parts.entries, UINT64_MAX);
    foreign_put(&parts.entries, numbers, 64);
    refuse(f, &parts, BO_FORMAT, "a string at byte");
    foreign_long(&parts.entries, UINT64_C(1) << 63);
    foreign_put(&parts.entries, numbers, 64);
    parts.entry_count = 1;
    refuse(f, &parts, BO_FORMAT, "expected 1 to 65535 bytes, found a length of 9223372036854775808");
    foreign_long(&parts.entries, 3);
    foreign_put(&parts.entries, "a\0b\0\0\0\0\0", 8);
    parts.entry_count = 1;
    refuse(f, &parts, BO_FORMAT, "contains a zero byte");
    foreign_size(&parts, "general.alignment", 24);
    foreign_tensor(&parts, "a", 1, 0, 0, numbers, 4);
    refuse(f, &parts, BO_FORMAT, "general.alignment: expected a power of two");
    foreign_tensor(&parts, "a", 4, 0, 99, numbers, 16);
    refuse(f, &parts, BO_UNSUPPORTED, "tensor 'a': type 99 is unknown");
    foreign_tensor(&parts, "a", 4, 0, 0, numbers, 16);
    foreign_tensor(&parts, "a", 4, 0, 0, numbers, 16);
    refuse(f, &parts, BO_FORMAT, "tensor 'a' occurs twice");
    foreign_tensor(&parts, "a", UINT64_C(1) << 62, UINT64_C(1) << 62, 0, numbers, 16);
    refuse(f, &parts, BO_FORMAT, "tensor 'a'");
    foreign_tensor(&parts, "a", UINT64_C(1) << 63, 1, 0, numbers, 16);
    refuse(f, &parts, BO_FORMAT, "expected a dimension of 1 to 2^63 - 1, found 9223372036854775808");
    foreign_tensor(&parts, "a", 0, 0, 0, numbers, 16);
    refuse(f, &parts, BO_FORMAT, "expected a dimension of 1 to 2^63 - 1, found 0");
    foreign_tensor(&parts, "a", 33, 0, 2, numbers, 36);
    refuse(f, &parts, BO_FORMAT, "expected rows of a multiple of 32 numbers for type Q4_0, found 33");
    foreign_tensor(&parts, "a", 9, 0, 0, numbers, 32);
    refuse(f, &parts, BO_FORMAT, "36 bytes from offset 0 are outside the data of 32 bytes");
    foreign_tensor(&parts, "a", 8, 0, 0, numbers, 32);
    foreign_tensor(&parts, "b", 9, 0, 0, numbers, 36);
    memset(parts.tensors.data + parts.tensors.size - 8, 0, 8); /* b starts where a starts */
    refuse(f, &parts, BO_FORMAT, "overlaps tensor");
    foreign_tensor(&parts, "a", 1, 0, 0, numbers, 32);
    parts.tensors.data[parts.tensors.size - 8] = 8;
    refuse(f, &parts, BO_FORMAT, "expected an offset that is a multiple of 32, found 8");
    char name[300];
    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = 0;
    foreign_tensor(&parts, name, 1, 0, 0, numbers, 32);
    refuse(f, &parts, BO_FORMAT, "expected 1 to 255 bytes, found a length of 299");
}

/* Every prefix of a file is refused with a message, and so is every file with one flipped byte, or it opens. */
static void damaged(void **state)
{
    test_directory *f = *state;
    foreign_bytes bytes = tiny_gguf();
    bo_gguf *file;
    const size_t data = tiny_count(&tiny_tensors[10]) * 4;
    for (size_t size = 0; size < bytes.size; size++) {
        unsigned char *part = malloc(size ? size : 1); /* so that reading beyond the end is found */
        memcpy(part, bytes.data, size);
        const bo_status status = bo_gguf_open(f->context, "m.gguf", part, size, &file);
        if (size + data + 32 <= bytes.size) assert_int_not_equal(status, BO_OK);
        if (status != BO_OK && strlen(bo_context_error(f->context)) < 10) fail_msg("no message at %zu bytes", size);
        bo_gguf_close(file);
        free(part);
    }
    for (size_t i = 0; i < bytes.size && i < 2000; i++) {
        bytes.data[i] ^= 0x81;
        if (bo_gguf_open(f->context, "m.gguf", bytes.data, bytes.size, &file) == BO_OK) bo_gguf_close(file);
        bytes.data[i] ^= 0x81;
    }
    free(bytes.data);
}

/* The formulas of the file format, written for one number of a block. tests/peers compares all types with the package
 * gguf. */
static void blocks(void **state)
{
    (void)state;
    unsigned char block[256] = {0x00, 0x38}; /* 0.5 in float16 */
    float x[256];
    for (int i = 2; i < 256; i++) block[i] = (unsigned char)(i * 37);
    bo_blocks_decode(bo_block_format_find(8), block, 32, x); /* Q8_0 */
    for (int i = 0; i < 32; i++) assert_true(x[i] == 0.5f * (float)(int8_t)block[2 + i]);
    bo_blocks_decode(bo_block_format_find(2), block, 32, x); /* Q4_0 */
    for (int i = 0; i < 16; i++) {
        assert_true(x[i] == 0.5f * (float)((block[2 + i] & 15) - 8));
        assert_true(x[16 + i] == 0.5f * (float)((block[2 + i] >> 4) - 8));
    }
    block[2] = 0x00;
    block[3] = 0xBC;                                         /* -1 */
    bo_blocks_decode(bo_block_format_find(3), block, 32, x); /* Q4_1 */
    for (int i = 0; i < 16; i++) assert_true(x[i] == 0.5f * (float)(block[4 + i] & 15) - 1);
    bo_blocks_decode(bo_block_format_find(7), block, 32, x); /* Q5_1: bit i of the word is the fifth bit of number i */
    for (int i = 0; i < 16; i++) {
        const int high = block[4 + (16 + i) / 8] >> (i % 8) & 1;
        assert_true(x[16 + i] == 0.5f * (float)(block[8 + i] >> 4 | high << 4) - 1);
    }
    bo_blocks_decode(bo_block_format_find(BO_BLOCK_BF16), (const unsigned char *)"\x80\x3F\x00\xC0", 2, x);
    assert_true(x[0] == 1 && x[1] == -2);
    for (uint32_t i = 0; i < 64; i++) {
        const bo_block_format *format = bo_block_format_find(i);
        if (format && format->decode && !strstr(bo_block_formats(), format->name))
            fail_msg("%s is not in the list", format->name);
    }
}

static bo_status open_once(bo_context *context, const void *arg)
{
    const foreign_bytes *bytes = arg;
    bo_gguf *file;
    BO_TRY(bo_gguf_open(context, "m.gguf", bytes->data, bytes->size, &file));
    bo_gguf_close(file);
    return BO_OK;
}

static void memory(void **state)
{
    (void)state;
    foreign_bytes bytes = tiny_gguf();
    test_starve(open_once, &bytes);
    free(bytes.data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(metadata), cmocka_unit_test(tensors), cmocka_unit_test(refused),
                                       cmocka_unit_test(damaged),  cmocka_unit_test(blocks),  cmocka_unit_test(memory)};
    return cmocka_run_group_tests(tests, test_setup, test_teardown);
}
