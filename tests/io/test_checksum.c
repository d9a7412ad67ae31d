/* Checksums: XXH64 against its published values, and every flipped bit and every truncation of a file is found. */
#include "base/rng.h"
#include "files.h"
#include "io/checksum.h"
#include "io/tensors.h"

static uint64_t xxh64(const void *bytes, size_t size)
{
    bo_xxh64 hash;
    bo_xxh64_start(&hash);
    bo_xxh64_add(&hash, bytes, size);
    return bo_xxh64_end(&hash);
}

/* The values of the sanity check of xxHash for seed 0, whose bytes come from a generator, and some texts. */
static void published_values(void **state)
{
    static const struct {
        size_t size;
        uint64_t hash;
    } cases[] = {{0, 0xEF46DB3751D8E999},
                 {1, 0xE934A84ADB052768},
                 {4, 0x9136A0DCA57457EE},
                 {14, 0x8282DCC4994E35C8},
                 {222, 0xB641AE8CB691C174}};
    unsigned char bytes[222];
    uint64_t generator = 2654435761;
    (void)state;
    for (size_t i = 0; i < sizeof bytes; i++) {
        bytes[i] = (unsigned char)(generator >> 56);
        generator *= 11400714785074694797ULL;
    }
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (xxh64(bytes, cases[i].size) != cases[i].hash) fail_msg("XXH64 of %zu bytes is wrong", cases[i].size);
    assert_true(xxh64("abc", 3) == 0x44BC2CF5AD770999);
    assert_true(xxh64("Nobody inspects the spammish repetition", 39) == 0xFBCEA83C8A378BF1);
}

/* Parts of any size give the checksum of the whole, for sizes around the ends of pieces and of waves of pieces. */
static void parts_and_whole_agree(void **state)
{
    enum { PLACE = 48, PIECE = 1 << 20, START = PLACE + BO_CHECKSUM_DIGITS, MAX_SIZE = 3 * PIECE + START + 9 };
    static const size_t sizes[] = {START, START + 1, START + PIECE - 1, START + PIECE, START + PIECE + 1, MAX_SIZE};
    test_directory *f = *state;
    unsigned char *bytes = malloc(MAX_SIZE);
    for (size_t i = 0; i < MAX_SIZE; i++) bytes[i] = (unsigned char)bo_hash(1, i);
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
        for (size_t part = 1; part <= MAX_SIZE; part = part * 37 + 1) {
            char whole[BO_CHECKSUM_DIGITS], parts[BO_CHECKSUM_DIGITS];
            bo_checksum sum;
            if (part == 1 && sizes[s] > START + 1) continue; /* slow */
            bo_checksum_find(f->context, bytes, sizes[s], PLACE, whole);
            bo_checksum_start(&sum, bytes, PLACE);
            for (size_t at = START; at < sizes[s]; at += part)
                bo_checksum_add(&sum, bytes + at, sizes[s] - at < part ? sizes[s] - at : part);
            bo_checksum_end(&sum, parts);
            assert_memory_equal(whole, parts, sizeof whole);
        }
    free(bytes);
}

static const float numbers[] = {1, 2, 3, 4, 5, 6, 7};
static const uint8_t values[] = {1, 2, 3};
static const bo_file_tensor tensors[] = {
    {.name = "n", .dtype = BO_F32, .rank = 1, .shape = {7}, .data = numbers, .bytes = sizeof numbers},
    {.name = "l", .dtype = BO_U8, .rank = 1, .shape = {3}, .data = values, .bytes = sizeof values}};
static const bo_meta meta = {"version", "1"};

static void *write_file(test_directory *f, size_t *size)
{
    void *bytes;
    assert_ok(f->context, bo_tensors_write_memory(f->context, tensors, 2, &meta, 1, &bytes, size));
    return bytes;
}

static void every_flipped_bit_is_found(void **state)
{
    test_directory *f = *state;
    size_t size;
    unsigned char *bytes = write_file(f, &size);
    bo_tensors *file;
    for (size_t bit = 0; bit < 8 * size; bit++) {
        bytes[bit / 8] ^= (unsigned char)(1 << bit % 8);
        assert_fails(f->context, BO_FORMAT, "m: the file is damaged",
                     bo_tensors_open_memory(f->context, "m", bytes, size, &file));
        bytes[bit / 8] ^= (unsigned char)(1 << bit % 8);
    }
    assert_ok(f->context, bo_tensors_open_memory(f->context, "m", bytes, size, &file));
    bo_tensors_close(file);
    for (size_t less = 1; less <= size; less++)
        assert_fails(f->context, BO_FORMAT, "truncated",
                     bo_tensors_open_memory(f->context, "m", bytes, size - less, &file));
    bo_free(bytes);
}

/* Blocks that a disk lost or wrote to the wrong place. */
static void lost_and_moved_blocks_are_found(void **state)
{
    enum { SIZE = 3 << 20, BLOCK = 4096 };
    test_directory *f = *state;
    uint8_t *data = malloc(SIZE);
    for (size_t i = 0; i < SIZE; i++) data[i] = (uint8_t)bo_hash(2, i);
    const bo_file_tensor tensor = {
        .name = "t", .dtype = BO_U8, .rank = 1, .shape = {SIZE}, .data = data, .bytes = SIZE};
    unsigned char *bytes, block[BLOCK];
    size_t size;
    bo_tensors *file;
    assert_ok(f->context, bo_tensors_write_memory(f->context, &tensor, 1, NULL, 0, (void **)&bytes, &size));
    for (size_t at = BLOCK; at + BLOCK <= size; at += 97 * BLOCK) {
        memcpy(block, bytes + at, BLOCK);
        memset(bytes + at, 0, BLOCK);
        assert_fails(f->context, BO_FORMAT, "damaged", bo_tensors_open_memory(f->context, "m", bytes, size, &file));
        memcpy(bytes + at, bytes + size - BLOCK, BLOCK);
        assert_fails(f->context, BO_FORMAT, "damaged", bo_tensors_open_memory(f->context, "m", bytes, size, &file));
        memcpy(bytes + at, block, BLOCK);
    }
    assert_ok(f->context, bo_tensors_open_memory(f->context, "m", bytes, size, &file));
    bo_tensors_close(file);
    bo_free(bytes);
    free(data);
}

/* The checksum is not part of the metadata, so that a copy gets a new one. */
static void a_copy_has_a_new_checksum(void **state)
{
    test_directory *f = *state;
    size_t size, copied;
    void *bytes = write_file(f, &size), *copy;
    bo_tensors *file;
    assert_ok(f->context, bo_tensors_open_memory(f->context, "m", bytes, size, &file));
    assert_int_equal(bo_tensors_meta_count(file), 1);
    assert_null(bo_tensors_meta(file, "bochner.checksum"));
    const bo_meta again = bo_tensors_meta_at(file, 0);
    assert_ok(f->context, bo_tensors_write_memory(f->context, bo_tensors_at(file, 0), 1, &again, 1, &copy, &copied));
    bo_tensors_close(file);
    assert_ok(f->context, bo_tensors_open_memory(f->context, "m", copy, copied, &file));
    bo_tensors_close(file);
    bo_free(copy);
    /* A file whose bytes were changed on purpose is valid after it is sealed. */
    ((char *)bytes)[size - 1] ^= 1;
    bo_tensors_seal(bytes, size);
    assert_ok(f->context, bo_tensors_open_memory(f->context, "m", bytes, size, &file));
    bo_tensors_close(file);
    bo_free(bytes);
}

/* Files of other programs have no checksum, or another entry first. */
static void files_without_one_load(void **state)
{
    static const char *const headers[] = {"{}", "{\"__metadata__\":{\"format\":\"pt\"}}",
                                          "{\"__metadata__\":{\"format\":\"pt\",\"bochner.checksum\":\"v1:0\"}}"};
    test_directory *f = *state;
    for (size_t i = 0; i < sizeof headers / sizeof *headers; i++) {
        char bytes[256] = {(char)strlen(headers[i])};
        bo_tensors *file;
        memcpy(bytes + 8, headers[i], strlen(headers[i]));
        assert_ok(f->context, bo_tensors_open_memory(f->context, "m", bytes, 8 + strlen(headers[i]), &file));
        assert_null(bo_tensors_meta(file, "bochner.checksum"));
        bo_tensors_close(file);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(published_values),           cmocka_unit_test(parts_and_whole_agree),
        cmocka_unit_test(every_flipped_bit_is_found), cmocka_unit_test(lost_and_moved_blocks_are_found),
        cmocka_unit_test(a_copy_has_a_new_checksum),  cmocka_unit_test(files_without_one_load)};
    return cmocka_run_group_tests(tests, test_setup, test_teardown);
}
