/* Sources and sinks: the same bytes come from, and go to, a file, memory and a callback. */
#include "files.h"
#include "io/bytes.h"
#include "io/output.h"
#include "io/tensors.h"

/* A callback that hands out `size` bytes in pieces of at most `piece`, then ends, or fails at `fails_at`. */
typedef struct reader {
    const char *bytes;
    size_t size, at, piece, fails_at;
    bool lies; /* about how much it stored */
} reader;

static bo_status read_piece(void *user, void *to, size_t capacity, size_t *count)
{
    reader *r = user;
    const size_t left = r->size - r->at, max_count = r->piece < capacity ? r->piece : capacity;
    if (r->fails_at && r->at >= r->fails_at) return BO_IO;
    *count = left < max_count ? left : max_count;
    memcpy(to, r->bytes + r->at, *count);
    r->at += *count;
    if (r->lies) *count = capacity + 1;
    return BO_OK;
}

/* A callback that stores the received bytes, and fails beyond `capacity`. */
typedef struct writer {
    char bytes[4096];
    size_t used, capacity;
} writer;

static bo_status write_piece(void *user, const void *from, size_t count)
{
    writer *w = user;
    if (count > w->capacity - w->used) return BO_IO;
    memcpy(w->bytes + w->used, from, count);
    w->used += count;
    return BO_OK;
}

static const float numbers[3] = {1, 2, 3};
static const bo_file_tensor tensor = {"numbers", BO_F32, 1, {3}, numbers, sizeof numbers};

static bo_status save(bo_context *context, const bo_sink *sink)
{
    bo_output *output;
    BO_TRY(bo_output_open_sink(context, sink, &output));
    return bo_output_finish(context, output, bo_tensors_write_output(context, output, &tensor, 1, NULL, 0));
}

static void check_tensors(bo_context *context, const bo_source *source)
{
    bo_tensors *file;
    assert_ok(context, bo_tensors_open_source(context, source, &file));
    assert_memory_equal(bo_tensors_find(file, "numbers")->data, numbers, sizeof numbers);
    bo_tensors_close(file);
}

static void equal_bytes(void **state)
{
    test_directory *f = *state;
    const char *path = test_path(f, "numbers.safetensors");
    writer written = {.capacity = sizeof written.bytes};
    void *bytes, *file;
    size_t size, file_size;
    assert_ok(f->context, save(f->context, &(bo_sink){.path = path}));
    assert_ok(f->context, save(f->context, &(bo_sink){.bytes = &bytes, .size = &size}));
    assert_ok(f->context, save(f->context, &(bo_sink){.write = write_piece, .user = &written}));
    assert_ok(f->context, bo_file_load(f->context, path, 4096, &file, &file_size));
    assert_int_equal(size, file_size);
    assert_int_equal(size, written.used);
    assert_memory_equal(bytes, file, size);
    assert_memory_equal(bytes, written.bytes, size);
    check_tensors(f->context, &(bo_source){.path = path});
    check_tensors(f->context, &(bo_source){.bytes = bytes, .size = size});
    for (size_t piece = 1; piece < 100000; piece = piece * 7 + 1) {
        reader r = {.bytes = bytes, .size = size, .piece = piece};
        check_tensors(f->context, &(bo_source){.read = read_piece, .user = &r});
    }
    bo_free(file);
    bo_free(bytes);
    unlink(path);
}

static void tables(void **state)
{
    test_directory *f = *state;
    static const char text[] = "a,b\n1,2\n3,4\n";
    reader r = {.bytes = text, .size = sizeof text - 1, .piece = 5};
    char out[64] = {0};
    size_t got;
    bo_bytes *bytes;
    const bo_source source = {.read = read_piece, .user = &r, .name = "pipe"};
    assert_ok(f->context, bo_bytes_open_source(f->context, &source, &bo_limits_table, false, &bytes));
    assert_string_equal(bo_bytes_path(bytes), "pipe");
    assert_ok(f->context, bo_bytes_read(f->context, bytes, out, sizeof out, &got));
    assert_string_equal(out, text);
    bo_bytes_close(bytes);
}

static void refusals(void **state)
{
    test_directory *f = *state;
    void *bytes = f;
    size_t size = 1;
    bo_output *output;
    bo_tensors *file;
    reader r = {.bytes = "0123456789", .size = 10, .piece = 4, .fails_at = 8};
    writer full = {.capacity = 20};
    const bo_limits few = {.bytes = 6};
    assert_fails(f->context, BO_INVALID, "expected one of path, bytes and write, found 0 of them",
                 bo_output_open_sink(f->context, &(bo_sink){0}, &output));
    assert_fails(f->context, BO_INVALID, "found 2 of them",
                 bo_output_open_sink(f->context, &(bo_sink){.path = "x", .bytes = &bytes, .size = &size}, &output));
    assert_null(bytes); /* also after a failure */
    assert_int_equal(size, 0);
    assert_fails(f->context, BO_INVALID, "size is NULL",
                 bo_output_open_sink(f->context, &(bo_sink){.bytes = &bytes}, &output));
    assert_fails(f->context, BO_INVALID, "reserved",
                 bo_output_open_sink(f->context, &(bo_sink){.path = "x", .reserved = {1}}, &output));
    assert_fails(f->context, BO_IO, "stream: the callback failed to write",
                 save(f->context, &(bo_sink){.write = write_piece, .user = &full}));
    assert_fails(f->context, BO_INVALID, "expected one of path, bytes and read, found 0 of them",
                 bo_tensors_open_source(f->context, &(bo_source){.size = 3}, &file));
    assert_fails(
        f->context, BO_IO, "feed: the callback failed to read",
        bo_tensors_open_source(f->context, &(bo_source){.read = read_piece, .user = &r, .name = "feed"}, &file));
    r = (reader){.bytes = "0123456789", .size = 10, .piece = 4};
    assert_fails(f->context, BO_FORMAT, "stream: at least 8 bytes, expected at most 6 bytes",
                 bo_source_collect(f->context, &(bo_source){.read = read_piece, .user = &r}, &few, &bytes, &size));
    assert_null(bytes);
    r = (reader){.bytes = "0123456789", .size = 10, .piece = 4, .lies = true};
    assert_fails(f->context, BO_INVALID, "more than the",
                 bo_source_collect(f->context, &(bo_source){.read = read_piece, .user = &r}, &few, &bytes, &size));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(equal_bytes), cmocka_unit_test(tables),
                                       cmocka_unit_test(refusals)};
    return cmocka_run_group_tests(tests, test_setup, test_teardown);
}
