/* Files for the tests of src/io: each test program has its own directory, which is removed at the end. */
#ifndef BO_TEST_FILES_H
#define BO_TEST_FILES_H

#include "testing.h"
#include "io/schema.h"
#include <bochner/data.h>
#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

typedef struct test_directory {
    bo_context *context;
    char path[512];
    char file[8][640]; /* results of test_path, used cyclically */
    int turn;
    int warnings, infos; /* messages logged */
    char last_log[1024];
} test_directory;

static void test_log(void *user, bo_log_level level, const char *message)
{
    test_directory *directory = user;
    if (level == BO_LOG_WARNING) ++directory->warnings;
    if (level == BO_LOG_INFO) ++directory->infos;
    snprintf(directory->last_log, sizeof directory->last_log, "%s", message);
}

static int test_setup(void **state)
{
    test_directory *directory = calloc(1, sizeof *directory);
    const char *base = getenv("TMPDIR");
    snprintf(directory->path, sizeof directory->path, "%s/bochner-test-XXXXXX", base && *base ? base : "/tmp");
    if (!mkdtemp(directory->path)) return -1;
    bo_context_desc desc = {.threads = 1, .log = test_log, .user = directory};
    if (bo_context_create(&desc, &directory->context) != BO_OK) return -1;
    *state = directory;
    return 0;
}

static int test_teardown(void **state)
{
    test_directory *directory = *state;
    DIR *listing = opendir(directory->path);
    for (struct dirent *entry; listing && (entry = readdir(listing));) {
        char name[1024];
        snprintf(name, sizeof name, "%s/%.300s", directory->path, entry->d_name);
        if (entry->d_name[0] != '.') unlink(name);
    }
    if (listing) closedir(listing);
    rmdir(directory->path);
    bo_context_destroy(directory->context);
    free(directory);
    return 0;
}

static inline const char *test_path(test_directory *directory, const char *name)
{
    char *out = directory->file[directory->turn++ % 8];
    snprintf(out, sizeof directory->file[0], "%s/%s", directory->path, name);
    return out;
}

static inline const char *test_write(test_directory *directory, const char *name, const void *bytes, size_t size)
{
    const char *path = test_path(directory, name);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, size, file), size);
    fclose(file);
    return path;
}

static inline const char *test_text(test_directory *directory, const char *name, const char *text)
{
    return test_write(directory, name, text, strlen(text));
}

static inline const char *test_gzip(test_directory *directory, const char *name, const void *bytes, size_t size)
{
    const char *path = test_path(directory, name);
    gzFile file = gzopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(gzwrite(file, bytes, (unsigned)size), size);
    gzclose(file);
    return path;
}

/* A .npy file, version 1, with this header text and data. */
static inline const char *test_npy(test_directory *directory, const char *name, const char *header, const void *data,
                                   size_t size)
{
    unsigned char bytes[8192];
    size_t length = strlen(header);
    assert_true(length + size + 10 <= sizeof bytes);
    memcpy(bytes, "\x93NUMPY\x01\x00", 8);
    bytes[8] = (unsigned char)length;
    bytes[9] = (unsigned char)(length >> 8);
    memcpy(bytes + 10, header, length);
    if (size) memcpy(bytes + 10 + length, data, size);
    return test_write(directory, name, bytes, 10 + length + size);
}

static inline size_t test_files_left(test_directory *directory)
{
    size_t count = 0;
    DIR *listing = opendir(directory->path);
    for (struct dirent *entry; (entry = readdir(listing));) count += entry->d_name[0] != '.';
    closedir(listing);
    return count;
}

/* Each allocation fails once; the call must report it and leak nothing (the allocator counts). */
typedef struct test_memory {
    long left, live;
} test_memory;

static inline void *test_allocate(void *user, size_t bytes)
{
    test_memory *memory = user;
    if (memory->left-- <= 0) return NULL;
    ++memory->live;
    return aligned_alloc(64, (bytes + 63) / 64 * 64);
}

static inline void test_release(void *user, void *pointer)
{
    if (pointer) --((test_memory *)user)->live;
    free(pointer);
}

static inline void test_starve(bo_status (*work)(bo_context *, const void *), const void *arg)
{
    bo_status status = BO_MEMORY;
    for (long allowed = 0; status != BO_OK; ++allowed) {
        test_memory memory = {.left = 1000};
        bo_context_desc desc = {.threads = 1, .allocator = {test_allocate, test_release, &memory}};
        bo_context *context;
        assert_int_equal(bo_context_create(&desc, &context), BO_OK);
        const long before = memory.live;
        memory.left = allowed;
        status = work(context, arg);
        if (status != BO_OK) {
            assert_int_equal(status, BO_MEMORY);
            assert_true(bo_context_error(context)[0] != 0);
        }
        assert_int_equal(memory.live, before);
        bo_context_destroy(context);
        assert_true(allowed < 500);
    }
}

#endif
