/* A file is written completely or not at all. */
#include "files.h"
#include "io/output.h"
#include "io/tensors.h"
#include <errno.h>
#include <signal.h>
#include <sys/resource.h>

/* Replaces the function of the C library: remembers the last directory, and fails for directories if `refusal` is not
 * 0. */
static struct stat flushed;
static int refusal;
int fsync(int fd)
{
    struct stat about;
    if (fstat(fd, &about) != 0 || !S_ISDIR(about.st_mode)) return 0;
    flushed = about;
    errno = refusal;
    return refusal ? -1 : 0;
}

static void assert_content(const char *path, const char *text)
{
    char bytes[256] = {0};
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    size_t size = fread(bytes, 1, sizeof bytes - 1, file);
    fclose(file);
    assert_int_equal(size, strlen(text));
    assert_string_equal(bytes, text);
}

static void replaced_whole(void **state)
{
    test_directory *f = *state;
    const char *path = test_text(f, "a.txt", "old");
    bo_output *output;
    assert_ok(f->context, bo_output_open(f->context, path, &output));
    assert_ok(f->context, bo_output_write(f->context, output, "new", 3));
    assert_content(path, "old"); /* until the end */
    assert_ok(f->context, bo_output_commit(f->context, output));
    assert_content(path, "new");
    assert_int_equal(test_files_left(f), 1);
    assert_ok(f->context, bo_output_open(f->context, path, &output));
    assert_ok(f->context, bo_output_write(f->context, output, "half", 4));
    bo_output_abandon(output);
    assert_content(path, "new");
    assert_int_equal(test_files_left(f), 1);
    unlink(path);
}

/* The name of a new directory is flushed, however the path ends. */
static void new_directories(void **state)
{
    test_directory *f = *state;
    static const char *const names[] = {"new", "new/", "new///"};
    struct stat parent;
    assert_int_equal(stat(f->path, &parent), 0);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *path = test_path(f, names[i]);
        flushed = (struct stat){0};
        assert_ok(f->context, bo_output_directory(f->context, path));
        assert_true(flushed.st_ino == parent.st_ino && flushed.st_dev == parent.st_dev);
        flushed = (struct stat){0}; /* the name of an existing one may not be on disk yet */
        assert_ok(f->context, bo_output_directory(f->context, path));
        assert_true(flushed.st_ino == parent.st_ino && flushed.st_dev == parent.st_dev);
        assert_int_equal(rmdir(path), 0);
    }
}

/* A temporary file that a killed process has left is removed; one that is being written is not. */
static void stale_parts(void **state)
{
    test_directory *f = *state;
    const char *path = test_path(f, "a.txt");
    bo_output *first, *second;
    test_text(f, "a.txt.bochner-0.part", "half");
    assert_ok(f->context, bo_output_open(f->context, path, &first));
    assert_ok(f->context, bo_output_open(f->context, path, &second));
    assert_int_equal(test_files_left(f), 2);
    assert_ok(f->context, bo_output_write(f->context, first, "first", 5));
    assert_ok(f->context, bo_output_write(f->context, second, "second", 6));
    assert_ok(f->context, bo_output_commit(f->context, first));
    assert_content(path, "first");
    assert_ok(f->context, bo_output_commit(f->context, second));
    assert_content(path, "second");
    assert_int_equal(test_files_left(f), 1);
    test_text(f, "target", "mine"); /* a link is not followed */
    assert_int_equal(symlink(test_path(f, "target"), test_path(f, "a.txt.bochner-0.part")), 0);
    assert_ok(f->context, bo_file_save(f->context, path, "third", 5));
    assert_content(test_path(f, "target"), "mine");
    unlink(test_path(f, "target"));
    unlink(test_path(f, "a.txt.bochner-0.part"));
    unlink(path);
}

static void modes_and_links(void **state)
{
    test_directory *f = *state;
    struct stat about;
    const char *path = test_text(f, "a.txt", "old"), *link = test_path(f, "link");
    assert_int_equal(chmod(path, 0640), 0);
    assert_int_equal(symlink(path, link), 0);
    assert_ok(f->context, bo_file_save(f->context, link, "new", 3));
    assert_content(path, "new");
    assert_int_equal(lstat(link, &about), 0);
    assert_true(S_ISLNK(about.st_mode));
    assert_int_equal(stat(path, &about), 0);
    assert_int_equal(about.st_mode & 0777, 0640);
    mode_t mask = umask(027);
    const char *fresh = test_path(f, "b.txt");
    assert_ok(f->context, bo_file_save(f->context, fresh, "x", 1));
    umask(mask);
    assert_int_equal(stat(fresh, &about), 0);
    assert_int_equal(about.st_mode & 0777, 0640);
    assert_ok(f->context, bo_file_save(f->context, "/dev/null", "x", 1)); /* a device is not replaced */
    assert_int_equal(stat("/dev/null", &about), 0);
    assert_true(S_ISCHR(about.st_mode));
    unlink(path);
    unlink(link);
    unlink(fresh);
}

/* A limit on the size of files simulates a full disk; /dev/full is one. */
static void full_disk(void **state)
{
    test_directory *f = *state;
    const char *path = test_text(f, "a.npy", "old");
    static float values[100000];
    struct rlimit limit, kept;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &kept), 0);
    limit = kept;
    limit.rlim_cur = 4096;
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    bo_status status = bo_npy_save_f32(f->context, path, 1000, 100, values);
    bo_file_tensor tensor = {
        .name = "w", .dtype = BO_F32, .rank = 1, .shape = {100000}, .data = values, .bytes = sizeof values};
    const char *model = test_path(f, "m.safetensors");
    bo_status second = bo_tensors_write(f->context, model, &tensor, 1, NULL, 0);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &kept), 0);
    signal(SIGXFSZ, handler);
    assert_int_equal(status, BO_IO);
    assert_int_equal(second, BO_IO);
    assert_non_null(strstr(bo_context_error(f->context), "m.safetensors: writing failed"));
    assert_content(path, "old");
    assert_int_equal(test_files_left(f), 1);
    if (access("/dev/full", W_OK) == 0)
        assert_fails(f->context, BO_IO, "No space left", bo_file_save(f->context, "/dev/full", "x", 1));
    unlink(path);
}

static void refused(void **state)
{
    test_directory *f = *state;
    assert_fails(f->context, BO_IO, "No such file", bo_file_save(f->context, test_path(f, "no/where"), "x", 1));
    assert_fails(f->context, BO_IO, "directory", bo_file_save(f->context, f->path, "x", 1));
    assert_fails(f->context, BO_INVALID, "expected the name of a file to write", bo_file_save(f->context, "", "x", 1));
    assert_int_equal(test_files_left(f), 0);
}

/* Output to memory takes pieces of any size and returns the block when it is complete. */
static void memory(void **state)
{
    test_directory *f = *state;
    enum { MAX_BYTES = 200000 };
    bo_output *output;
    void *bytes = f;
    size_t size = 1, written = 0;
    char *piece = malloc(MAX_BYTES);
    for (size_t i = 0; i < MAX_BYTES; ++i) piece[i] = (char)(i * 7);
    assert_ok(f->context, bo_output_open_memory(f->context, &bytes, &size, &output));
    for (size_t length = 0; written + length <= MAX_BYTES; length = length * 3 / 2 + 1) {
        assert_ok(f->context, bo_output_write(f->context, output, piece + written, length));
        written += length;
        assert_null(bytes); /* until the end */
        assert_int_equal(size, 0);
    }
    assert_ok(f->context, bo_output_reserve(f->context, output, 5000));
    assert_fails(f->context, BO_MEMORY, "too many", bo_output_reserve(f->context, output, SIZE_MAX));
    assert_ok(f->context, bo_output_finish(f->context, output, BO_OK));
    assert_int_equal(size, written);
    assert_memory_equal(bytes, piece, written);
    bo_free(bytes);
    assert_ok(f->context, bo_output_open_memory(f->context, &bytes, &size, &output));
    assert_ok(f->context, bo_output_finish(f->context, output, BO_OK)); /* empty: a block of 0 bytes */
    assert_non_null(bytes);
    assert_int_equal(size, 0);
    bo_free(bytes);
    assert_ok(f->context, bo_output_open_memory(f->context, &bytes, &size, &output));
    assert_ok(f->context, bo_output_write(f->context, output, piece, 9));
    assert_int_equal(bo_output_finish(f->context, output, BO_FORMAT), BO_FORMAT);
    assert_null(bytes);
    free(piece);
}

/* The layout that NumPy requires: data at a multiple of 64 bytes, after a newline. */
static void npy_layout(void **state)
{
    test_directory *f = *state;
    static const size_t shapes[][2] = {{0, 3}, {1, 1}, {3, 2}, {10, 1000}};
    for (size_t s = 0; s < 4; ++s) {
        const size_t count = shapes[s][0] * shapes[s][1];
        double *values = calloc(count + 1, sizeof *values), *back = calloc(count + 1, sizeof *values);
        for (size_t i = 0; i < count; ++i) values[i] = (double)i / 3;
        const char *path = test_path(f, "a.npy");
        assert_ok(f->context, bo_npy_save_f64(f->context, path, shapes[s][0], shapes[s][1], values));
        unsigned char header[256];
        FILE *file = fopen(path, "rb");
        assert_int_equal(fread(header, 1, 10, file), 10);
        const size_t start = 10 + header[8] + 256u * header[9];
        assert_int_equal(start % 64, 0);
        assert_int_equal(fread(header, 1, start - 10, file), start - 10);
        assert_int_equal(header[start - 11], '\n');
        assert_int_equal(fread(back, sizeof *back, count + 1, file), count);
        assert_memory_equal(values, back, count * sizeof *back);
        fclose(file);
        unlink(path);
        free(values);
        free(back);
    }
}

/* A name that cannot be flushed is reported, unless the file system does not support it. */
static void unflushed_names(void **state)
{
    test_directory *f = *state;
    const char *path = test_path(f, "a.txt");
    static const int accepted[] = {EINVAL, ENOTSUP, EACCES};
    for (size_t i = 0; i < 3; i++) {
        refusal = accepted[i];
        assert_ok(f->context, bo_file_save(f->context, path, "old", 3));
    }
    refusal = EIO;
    assert_fails(f->context, BO_IO, "a.txt: the file was written, but its name may not be on disk",
                 bo_file_save(f->context, path, "new", 3));
    assert_content(path, "new");
    assert_int_equal(test_files_left(f), 1);
    unlink(path);
    path = test_path(f, "new");
    assert_fails(f->context, BO_IO, "cannot be flushed to disk", bo_output_directory(f->context, path));
    refusal = 0;
    assert_int_equal(rmdir(path), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(replaced_whole), cmocka_unit_test(stale_parts),     cmocka_unit_test(modes_and_links),
        cmocka_unit_test(full_disk),      cmocka_unit_test(refused),         cmocka_unit_test(npy_layout),
        cmocka_unit_test(memory),         cmocka_unit_test(new_directories), cmocka_unit_test(unflushed_names)};
    return cmocka_run_group_tests(tests, test_setup, test_teardown);
}
