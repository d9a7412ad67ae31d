/* safetensors: round trips, and every rule of the format is enforced by name. */
#include "files.h"
#include "io/tensors.h"

static void round_trip(void **state)
{
    test_directory *f = *state;
    const float w[] = {1, 2, 3, 4, 5, 6};
    const double d[] = {0.5};
    const uint8_t b[] = {7, 8, 9};
    const bo_file_tensor tensors[] = {
        {.name = "bytes", .dtype = BO_U8, .rank = 1, .shape = {3}, .data = b, .bytes = 3},
        {.name = "w \"q\"", .dtype = BO_F32, .rank = 2, .shape = {2, 3}, .data = w, .bytes = 24},
        {.name = "scalar", .dtype = BO_F64, .rank = 0, .data = d, .bytes = 8},
        {.name = "empty", .dtype = BO_I16, .rank = 2, .shape = {0, 5}, .data = NULL, .bytes = 0}};
    const bo_meta meta[] = {{"version", "1"}, {"json", "{\"a\": \"}\"}\n\x01"}};
    const char *path = test_path(f, "m.safetensors");
    assert_ok(f->context, bo_tensors_write(f->context, path, tensors, 4, meta, 2));
    bo_tensors *file;
    assert_ok(f->context, bo_tensors_open(f->context, path, &file));
    assert_int_equal(bo_tensors_count(file), 4);
    for (size_t i = 0; i < 4; ++i) {
        const bo_file_tensor *tensor = bo_tensors_find(file, tensors[i].name);
        assert_non_null(tensor);
        assert_int_equal(tensor->dtype, tensors[i].dtype);
        assert_int_equal(tensor->bytes, tensors[i].bytes);
        assert_int_equal((uintptr_t)tensor->data % bo_dtype_size(tensor->dtype), 0);
        if (tensor->bytes) assert_memory_equal(tensor->data, tensors[i].data, tensor->bytes);
    }
    assert_string_equal(bo_tensors_meta(file, "json"), meta[1].value);
    assert_null(bo_tensors_meta(file, "absent"));
    assert_int_equal(bo_tensors_meta_count(file), 2);
    const bo_file_tensor *out;
    assert_ok(f->context, bo_tensors_require(f->context, file, "w \"q\"", BO_F32, 2, (size_t[]){0, 3}, &out));
    assert_fails(f->context, BO_FORMAT, "expected shape (any, 4), found (2, 3)",
                 bo_tensors_require(f->context, file, "w \"q\"", BO_F32, 2, (size_t[]){0, 4}, &out));
    assert_fails(f->context, BO_FORMAT, "expected dtype F64, found F32",
                 bo_tensors_require(f->context, file, "w \"q\"", BO_F64, 2, (size_t[]){0, 3}, &out));
    assert_fails(f->context, BO_FORMAT, "expected tensor 'beta'",
                 bo_tensors_require(f->context, file, "beta", BO_F64, 1, (size_t[]){0}, &out));
    bo_tensors_close(file);
    /* The header is a multiple of 8 bytes long. */
    FILE *stream = fopen(path, "rb");
    assert_int_equal(fgetc(stream) % 8, 0);
    fclose(stream);
    /* An image in memory has the bytes of the file. */
    void *bytes;
    size_t size;
    assert_ok(f->context, bo_tensors_write_memory(f->context, tensors, 4, meta, 2, &bytes, &size));
    assert_file_equal(path, bytes, size);
    bo_free(bytes);
    bo_file_tensor bad = tensors[0];
    bad.bytes = 4;
    assert_fails(f->context, BO_INVALID, "do not match its dtype and shape",
                 bo_tensors_write(f->context, path, &bad, 1, NULL, 0));
    const bo_file_tensor twice[] = {tensors[0], tensors[0]};
    assert_fails(f->context, BO_INVALID, "occurs twice", bo_tensors_write(f->context, path, twice, 2, NULL, 0));
    assert_fails(f->context, BO_INVALID, "memory: tensor 'bytes' occurs twice",
                 bo_tensors_write_memory(f->context, twice, 2, NULL, 0, &bytes, &size));
    assert_null(bytes);
    assert_int_equal(size, 0);
}

static void refuse(test_directory *f, const char *header, size_t data, bo_status status, const char *message)
{
    char bytes[2048] = {0};
    size_t length = strlen(header);
    bytes[0] = (char)(length & 255);
    bytes[1] = (char)(length >> 8);
    memcpy(bytes + 8, header, length);
    bo_tensors *file;
    assert_fails(f->context, status, message, bo_tensors_open_memory(f->context, "m", bytes, 8 + length + data, &file));
    assert_null(file);
}

static void refused(void **state)
{
    test_directory *f = *state;
#define A "\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}"
    refuse(f, "{" A "}", 4, BO_FORMAT, "tensor 'a': bytes 0 to 8 are outside the data of 4 bytes");
    refuse(f, "{" A "}", 12, BO_FORMAT, "4 bytes at the end belong to no tensor");
    refuse(f, "{" A "," A "}", 8, BO_FORMAT, "overlaps");
    refuse(f,
           "{\"a\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[0,0]},\"a\":{\"dtype\":\"U8\",\"shape\":[0],"
           "\"data_offsets\":[0,0]}}",
           0, BO_FORMAT, "occurs twice");
    refuse(f, "{" A ",\"b\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[4,8]}}", 8, BO_FORMAT, "overlaps");
    refuse(f, "{" A ",\"b\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[9,13]}}", 13, BO_FORMAT,
           "belong to no tensor");
    refuse(f, "{\"a\":{\"dtype\":\"F32\",\"shape\":[3],\"data_offsets\":[0,8]}}", 8, BO_FORMAT,
           "expected 12 bytes for its shape and dtype, found 8");
    refuse(f, "{\"a\":{\"dtype\":\"F32\",\"shape\":[9007199254740991,9007199254740991],\"data_offsets\":[0,8]}}", 8,
           BO_FORMAT, "too large");
    refuse(f, "{\"a\":{\"dtype\":\"F32\",\"shape\":[1e300],\"data_offsets\":[0,8]}}", 8, BO_FORMAT,
           "expected nonnegative integers in the shape");
    refuse(f, "{\"a\":{\"dtype\":\"F32\",\"shape\":[-2],\"data_offsets\":[0,8]}}", 8, BO_FORMAT,
           "expected nonnegative integers in the shape");
    refuse(f, "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[8,0]}}", 8, BO_FORMAT, "bytes 8 to 0");
    refuse(f, "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0]}}", 8, BO_FORMAT,
           "expected two nonnegative integers as data_offsets");
    refuse(f, "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[-8,0]}}", 8, BO_FORMAT,
           "expected two nonnegative integers as data_offsets");
    refuse(f, "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0.5,8.5]}}", 8, BO_FORMAT,
           "expected two nonnegative integers as data_offsets");
    refuse(f, "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[\"0\",8]}}", 8, BO_FORMAT,
           "expected two nonnegative integers as data_offsets");
    refuse(f, "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,18446744073709551624]}}", 8, BO_FORMAT,
           "expected two nonnegative integers as data_offsets");
    refuse(f, "{\"a\":{\"dtype\":\"F32\",\"shape\":[2.5],\"data_offsets\":[0,10]}}", 10, BO_FORMAT,
           "expected nonnegative integers in the shape");
    /* 2^64 + 8 bytes would be 8 bytes after an overflow, and a factor of 0 hides none */
    refuse(f, "{\"a\":{\"dtype\":\"F32\",\"shape\":[4294967296,1073741824,0],\"data_offsets\":[0,0]}}", 0, BO_FORMAT,
           "the shape is too large");
    refuse(f, "{\"a\":{\"dtype\":\"F8_E4M3\",\"shape\":[8],\"data_offsets\":[0,8]}}", 8, BO_UNSUPPORTED,
           "dtype F8_E4M3 is not supported; expected F64, F32");
    refuse(f, "{\"a\":{\"dtype\":\"F4\",\"shape\":[8],\"data_offsets\":[0,8]}}", 8, BO_UNSUPPORTED, "dtype F4");
    refuse(f, "{\"a\":{\"dtype\":\"U8\",\"shape\":[1,1,1,1,1,1,1,1,8],\"data_offsets\":[0,8]}}", 8, BO_FORMAT,
           "rank of at most 8");
    refuse(f, "{\"a\":{\"dtype\":\"U8\",\"shape\":[8],\"data_offsets\":[0,8],\"x\":1}}", 8, BO_FORMAT,
           "unknown or repeated");
    refuse(f, "{\"a\":3}", 0, BO_FORMAT, "expected an object");
    refuse(f, "{\"__metadata__\":{\"a\":3}}", 0, BO_FORMAT, "expected strings in __metadata__");
    refuse(f, "{\"__metadata__\":{\"a\":\"1\",\"a\":\"2\"}}", 0, BO_FORMAT, "occurs twice");
    refuse(f, "{\"a\":", 0, BO_FORMAT, "malformed");
    refuse(f, "{} x", 0, BO_FORMAT, "expected the end of the JSON");
    refuse(f, " {}", 0, BO_FORMAT, "found another format");
    refuse(f, "[]", 0, BO_FORMAT, "found another format");
    refuse(f, "\"a\"", 0, BO_FORMAT, "found another format");
    refuse(f, "{\"__metadata__\":{},\"__metadata__\":{}}", 0, BO_FORMAT, "__metadata__ occurs twice");
    refuse(f, "", 0, BO_FORMAT, "found another format");
    refuse(f, "{\"a\":{\"b\":{\"c\":{\"d\":{\"e\":1}}}}}", 0, BO_FORMAT, "nested deeper");
#undef A
    bo_tensors *file;
    assert_fails(f->context, BO_FORMAT, "found only", bo_tensors_open_memory(f->context, "m", "1234567", 7, &file));
    assert_fails(f->context, BO_FORMAT, "expected a model or a feature map",
                 bo_tensors_open_memory(f->context, "m", "\xff\xff\xff\xff\0\0\0\0{}", 10, &file));
    assert_fails(f->context, BO_FORMAT,
                 "declare a header of 9223372036854775808 bytes, more than the maximum of 100000000",
                 bo_tensors_open_memory(f->context, "m", "\0\0\0\0\0\0\0\x80{}", 10, &file));
    assert_fails(f->context, BO_FORMAT, "declare a header of 18446744073709551615 bytes",
                 bo_tensors_open_memory(f->context, "m", "\xff\xff\xff\xff\xff\xff\xff\xff{}", 10, &file));
    assert_fails(f->context, BO_FORMAT, "truncated",
                 bo_tensors_open_memory(f->context, "m", "\x09\0\0\0\0\0\0\0{}", 10, &file));
    assert_fails(f->context, BO_FORMAT, "found only",
                 bo_tensors_open(f->context, test_text(f, "e.safetensors", ""), &file));
    assert_fails(f->context, BO_IO, "No such file",
                 bo_tensors_open(f->context, test_path(f, "none.safetensors"), &file));
    assert_fails(f->context, BO_IO, "regular", bo_tensors_open(f->context, f->path, &file));
    /* Padding and an empty file of tensors are valid. */
    assert_ok(f->context, bo_tensors_open_memory(f->context, "m", "\x05\0\0\0\0\0\0\0{}   ", 13, &file));
    assert_int_equal(bo_tensors_count(file), 0);
    bo_tensors_close(file);
}

/* Numbers at an odd address are moved to an aligned one. */
static void misaligned(void **state)
{
    test_directory *f = *state;
    static const char header[] = "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[1,5]},"
                                 "\"b\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}";
    unsigned char *bytes = aligned_alloc(64, 256);
    const float value = 1.5f;
    memset(bytes, 0, 256);
    bytes[0] = sizeof header - 1;
    memcpy(bytes + 8, header, sizeof header - 1);
    memcpy(bytes + 8 + sizeof header - 1 + 1, &value, sizeof value);
    bo_tensors *file;
    assert_ok(f->context, bo_tensors_open_memory(f->context, "m", bytes, 8 + sizeof header - 1 + 5, &file));
    const bo_file_tensor *tensor = bo_tensors_find(file, "a");
    assert_int_equal((uintptr_t)tensor->data % 4, 0);
    assert_true(*(const float *)tensor->data == 1.5f);
    bo_tensors_close(file);
    free(bytes);
}

static bo_status write_and_read(bo_context *context, const void *path)
{
    const float w[] = {1, 2};
    const bo_file_tensor tensor = {.name = "w", .dtype = BO_F32, .rank = 1, .shape = {2}, .data = w, .bytes = sizeof w};
    const bo_meta meta = {"key", "value"};
    bo_tensors *file = NULL;
    void *bytes = NULL;
    size_t size;
    bo_status status = bo_tensors_write(context, path, &tensor, 1, &meta, 1);
    if (status == BO_OK) status = bo_tensors_open(context, path, &file);
    bo_tensors_close(file);
    file = NULL;
    if (status == BO_OK) status = bo_tensors_write_memory(context, &tensor, 1, &meta, 1, &bytes, &size);
    if (status == BO_OK) status = bo_tensors_open_memory(context, "m", bytes, size, &file);
    bo_tensors_close(file);
    bo_free(bytes);
    return status;
}

static void out_of_memory(void **state)
{
    test_directory *f = *state;
    test_starve(write_and_read, test_path(f, "o.safetensors"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(round_trip), cmocka_unit_test(refused),
                                       cmocka_unit_test(misaligned), cmocka_unit_test(out_of_memory)};
    return cmocka_run_group_tests(tests, test_setup, test_teardown);
}
