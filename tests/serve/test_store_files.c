/* The store with a directory: files survive reopening, damaged, foreign and temporary files, the budget of the disk,
 * the lock, the secret, many threads, failures of memory and of the disk. */
#include "stores.h"
#include <dirent.h>
#include <pthread.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SIZE = 1000, FILE_SIZE = SIZE + BO_SNAPSHOT_HEADER, BLOCK = BO_STORE_BLOCK }; /* a file takes a block */

typedef struct setting {
    counting counted;
    bo_context *context;
    bo_store *store;
    char directory[64];
} setting;

static const bo_store_desc plenty = {
    .memory_bytes = 1 << 20, .disk_bytes = 1 << 20, .accepts = test_accepts, .user = "A"};

/* Another model: the same tokens and ids have other hashes. */
static const bo_store_desc other_model = {
    .memory_bytes = 1 << 20, .disk_bytes = 1 << 20, .model = {1, 2}, .accepts = test_accepts, .user = "A"};

static int setup(void **state)
{
    setting *s = *state = calloc(1, sizeof *s);
    s->context = counting_context(&s->counted, 1);
    snprintf(s->directory, sizeof s->directory, "/tmp/bochner-test-XXXXXX");
    assert_non_null(mkdtemp(s->directory));
    return 0;
}

static void path_of(const setting *s, const char *name, char out[512])
{
    snprintf(out, 512, "%s/%s", s->directory, name);
}

static void close_store(setting *s)
{
    bo_store_destroy(s->store);
    s->store = NULL;
}

static bo_store *open_store(setting *s, bo_store_desc desc)
{
    close_store(s);
    desc.directory = s->directory;
    assert_ok(s->context, bo_store_create(s->context, &desc, &s->store));
    return s->store;
}

/* The number of files whose names start and end like this; the last of them in `out`. */
static size_t count_files(const setting *s, const char *start, const char *end, char out[512])
{
    DIR *listing = opendir(s->directory);
    size_t count = 0;
    for (struct dirent *entry; (entry = readdir(listing)) != NULL;) {
        const size_t length = strlen(entry->d_name);
        if (entry->d_name[0] == '.' || strncmp(entry->d_name, start, strlen(start)) != 0) continue;
        if (length < strlen(end) || strcmp(entry->d_name + length - strlen(end), end) != 0) continue;
        count++;
        if (out) path_of(s, entry->d_name, out);
    }
    closedir(listing);
    return count;
}

static int teardown(void **state)
{
    setting *s = *state;
    char path[512];
    close_store(s);
    while (count_files(s, "", "", path)) assert_int_equal(remove(path), 0);
    rmdir(s->directory);
    bo_context_destroy(s->context);
    assert_int_equal(s->counted.live, 0);
    free(s);
    return 0;
}

/* Changes a byte in the middle of a file. */
static void damage(const char *path)
{
    FILE *file = fopen(path, "r+b");
    assert_non_null(file);
    fseek(file, 500, SEEK_SET);
    const int byte = fgetc(file);
    fseek(file, 500, SEEK_SET);
    fputc(byte ^ 1, file);
    fclose(file);
}

static void write_text(const setting *s, const char *name, const char *text)
{
    char path[512];
    path_of(s, name, path);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static bool exists(const setting *s, const char *name)
{
    char path[512];
    path_of(s, name, path);
    return access(path, F_OK) == 0;
}

static void test_reopened(void **state)
{
    setting *s = *state;
    bo_store *store = open_store(s, plenty);
    test_cache(s->context, store, 1, SIZE);
    test_cache(s->context, store, 2, SIZE);
    assert_true(test_keep(s->context, store, "a", 3, SIZE));
    const bo_prefix_secret secret = *bo_store_secret(store);
    close_store(s); /* writes what is not yet on disk */
    assert_int_equal(count_files(s, "p-", ".state", NULL), 2);
    assert_int_equal(count_files(s, "k-", ".state", NULL), 1);
    store = open_store(s, plenty);
    assert_memory_equal(&secret, bo_store_secret(store), sizeof secret);
    bo_store_stats stats = test_stats(store);
    assert_int_equal(stats.prefixes, 2);
    assert_int_equal(stats.kept, 1);
    assert_int_equal(stats.memory_bytes, 0);
    assert_int_equal(stats.disk_bytes, 3 * BLOCK);
    assert_int_equal(stats.discarded + stats.foreign, 0);
    assert_true(test_is_cached(s->context, store, 1, SIZE));
    assert_true(test_is_cached(s->context, store, 2, SIZE));
    assert_false(test_is_cached(s->context, store, 3, SIZE));
    assert_true(test_is_kept(s->context, store, "a", 3, SIZE));
    assert_int_equal(test_stats(store).memory_bytes, 3 * (BO_SNAPSHOT_OVERHEAD + SIZE));
    assert_true(bo_store_drop(store, bo_prefix_of_nothing(), "a"));
    assert_int_equal(count_files(s, "k-", ".state", NULL), 0);
    store = open_store(s, plenty);
    assert_null(bo_store_get(s->context, store, bo_prefix_of_nothing(), "a"));
}

/* After reopening, a budget for exactly the existing files is enough. */
static void test_exact_budget(void **state)
{
    setting *s = *state;
    bo_store *store = open_store(s, plenty);
    for (int32_t i = 1; i <= 3; i++) test_cache(s->context, store, i, SIZE);
    bo_store_desc desc = plenty;
    desc.disk_bytes = 3 * BLOCK;
    store = open_store(s, desc);
    assert_int_equal(test_stats(store).prefixes, 3);
    desc.disk_bytes--;
    store = open_store(s, desc);
    assert_int_equal(test_stats(store).prefixes, 2);
    assert_int_equal(count_files(s, "p-", ".state", NULL), 2);
}

static void test_secret(void **state)
{
    setting *s = *state;
    char path[512];
    struct stat about;
    const mode_t before = umask(0022);
    open_store(s, plenty);
    umask(before);
    path_of(s, "secret", path);
    assert_int_equal(stat(path, &about), 0);
    assert_int_equal(about.st_mode & 0777, 0600);
    assert_int_equal(about.st_size, sizeof(bo_prefix_secret));
    assert_true(bo_store_secret(s->store)->words[0] != 0);
    close_store(s);
    write_text(s, "secret", "short");
    bo_store_desc desc = plenty;
    desc.directory = s->directory;
    assert_fails(s->context, BO_FORMAT, "expected a key of 16 bytes, found 5 bytes; choose another directory",
                 bo_store_create(s->context, &desc, &s->store));
    assert_null(s->store);
    write_text(s, "secret", ""); /* of a process that was killed before it wrote the bytes */
    open_store(s, plenty);
    assert_int_equal(stat(path, &about), 0);
    assert_int_equal(about.st_size, sizeof(bo_prefix_secret));
}

static void test_damaged(void **state)
{
    setting *s = *state;
    char path[512];
    bo_store *store = open_store(s, plenty);
    test_cache(s->context, store, 1, SIZE);
    assert_true(test_keep(s->context, store, "a", 2, SIZE));
    assert_true(test_keep(s->context, store, "b", 3, SIZE));
    close_store(s);
    assert_int_equal(count_files(s, "p-", ".state", path), 1);
    damage(path);
    assert_int_equal(count_files(s, "k-", ".state", path), 2);
    assert_int_equal(truncate(path, 100), 0);
    store = open_store(s, plenty);
    bo_store_stats stats = test_stats(store);
    assert_int_equal(stats.discarded, 2);
    assert_int_equal(stats.prefixes, 0);
    assert_int_equal(stats.kept, 1);
    assert_int_equal(count_files(s, "", ".state", path), 1);
    assert_int_equal(stats.foreign, 0);
}

/* A file whose name is not that of the state inside is not used. */
static void test_renamed(void **state)
{
    setting *s = *state;
    char path[512], other[512];
    bo_store *store = open_store(s, plenty);
    assert_true(test_keep(s->context, store, "a", 1, SIZE));
    close_store(s);
    assert_int_equal(count_files(s, "", ".state", path), 1);
    path_of(s, "k-00000000000000000000000000000000.state", other);
    assert_int_equal(rename(path, other), 0);
    store = open_store(s, plenty);
    assert_int_equal(test_stats(store).foreign, 1);
    assert_int_equal(test_stats(store).kept, 0);
    assert_int_equal(test_stats(store).disk_bytes, 0);
    assert_null(bo_store_get(s->context, store, bo_prefix_of_nothing(), "a"));
    assert_int_equal(count_files(s, "", ".state", NULL), 1);
}

/* A file that is damaged or removed while the store is open is found when it is read. */
static void test_damaged_later(void **state)
{
    setting *s = *state;
    char path[512];
    bo_store *store = open_store(s, plenty);
    assert_true(test_keep(s->context, store, "a", 1, SIZE));
    store = open_store(s, plenty);
    assert_int_equal(count_files(s, "k-", ".state", path), 1);
    damage(path);
    assert_null(bo_store_get(s->context, store, bo_prefix_of_nothing(), "a"));
    assert_int_equal(test_stats(store).discarded, 1);
    assert_int_equal(test_stats(store).kept, 0);
    assert_int_equal(test_stats(store).disk_bytes, 0);
    assert_int_equal(count_files(s, "k-", ".state", NULL), 0);
    assert_true(test_keep(s->context, store, "a", 2, SIZE));
    store = open_store(s, plenty);
    assert_int_equal(unlink(path), 0);
    assert_null(bo_store_get(s->context, store, bo_prefix_of_nothing(), "a"));
    assert_int_equal(test_stats(store).kept, 0);
}

static void test_foreign(void **state)
{
    setting *s = *state;
    bo_store *store = open_store(s, plenty);
    bool full;
    test_cache(s->context, store, 1, SIZE);
    bo_snapshot *other = test_snapshot(s->context, test_prefix(store, 2), 'B', 2, SIZE);
    bo_store_cache(s->context, store, other);
    assert_ok(s->context, bo_store_keep(s->context, store, bo_prefix_of_nothing(), "b", other, &full));
    bo_snapshot_release(other);
    store = open_store(s, plenty);
    assert_int_equal(test_stats(store).foreign, 2);
    assert_int_equal(test_stats(store).prefixes, 1);
    assert_int_equal(test_stats(store).kept, 0);
    assert_int_equal(test_stats(store).disk_bytes, BLOCK);
    assert_null(bo_store_get(s->context, store, bo_prefix_of_nothing(), "b"));
    assert_false(test_is_cached(s->context, store, 2, SIZE));
    assert_int_equal(count_files(s, "", ".state", NULL), 3);
    bo_store_desc desc = plenty; /* the other model finds them again */
    desc.user = "B";
    store = open_store(s, desc);
    assert_int_equal(test_stats(store).foreign, 1);
    assert_int_equal(test_stats(store).prefixes, 1);
    assert_int_equal(test_stats(store).kept, 1);
}

/* Two models take turns in a directory: each finds what it wrote, although ids and texts are the same. */
static void test_two_models(void **state)
{
    setting *s = *state;
    for (int32_t round = 0; round < 3; round++)
        for (int32_t model = 0; model < 2; model++) {
            bo_store *store = open_store(s, model ? other_model : plenty);
            /* cached states of the other model are recognized by their content, which is the same here */
            assert_int_equal(test_stats(store).foreign, round > 0 || model);
            assert_int_equal(test_stats(store).discarded, 0);
            assert_int_equal(test_is_kept(s->context, store, "a", 10 + model, SIZE), round > 0);
            assert_int_equal(test_is_cached(s->context, store, 1, SIZE), round > 0);
            assert_true(test_keep(s->context, store, "a", 10 + model, SIZE));
            test_cache(s->context, store, 1, SIZE);
        }
    close_store(s);
    assert_int_equal(count_files(s, "", ".state", NULL), 4);
}

/* Files of a process that was killed while writing are removed; files of other programs are not changed, whatever their
 * names. */
static void test_other_files(void **state)
{
    static const char *const left[] = {"notes.txt",
                                       "p-123.state",
                                       "p-0000000000000000000000000000000g.state",
                                       "p-+0x0000000000001+0x00000000000002.state",
                                       "P-00000000000000000000000000000001.state",
                                       "k-00000000000000000000000000000001.statf",
                                       "k_00000000000000000000000000000001.state",
                                       "k-00000000000000000000000000000002.state",
                                       "backup.state.tar",
                                       "p-00000000000000000000000000000001.state.bochner-0.part",
                                       "k-00000000000000000000000000000001.state.part.old",
                                       "k-00000000000000000000000000000002.state.part"};
    setting *s = *state;
    open_store(s, plenty);
    close_store(s);
    for (size_t i = 0; i < sizeof left / sizeof *left; i++) write_text(s, left[i], "text");
    write_text(s, "k-00000000000000000000000000000001.state.part", "BOSTATE1, half");
    write_text(s, "p-00000000000000000000000000000001.state.part", "BOST");
    write_text(s, "p-00000000000000000000000000000001-00000000000000000000000000000002.state.part", "");
    bo_store *store = open_store(s, plenty);
    assert_int_equal(test_stats(store).discarded, 3);
    for (size_t i = 0; i < sizeof left / sizeof *left; i++)
        if (!exists(s, left[i])) fail_msg("%s was removed", left[i]);
    assert_int_equal(count_files(s, "", ".part", NULL), 2);
}

/* A kept state is a file when the call returns, and a store that reads the directory afterwards finds it. */
static void test_kept_at_once(void **state)
{
    setting *s = *state;
    char path[512];
    bo_store *store = open_store(s, plenty);
    for (int32_t i = 1; i < 5; i++) {
        struct stat about;
        assert_true(test_keep(s->context, store, "name", i, SIZE + (size_t)i));
        assert_int_equal(count_files(s, "k-", ".state", path), 1);
        assert_int_equal(count_files(s, "k-", ".part", NULL), 0);
        assert_int_equal(stat(path, &about), 0);
        assert_int_equal(about.st_size, FILE_SIZE + i + (int)strlen("name"));
        assert_int_equal(about.st_mode & 0777, 0600); /* what users wrote is private */
        FILE *file = fopen(path, "rb");
        static char bytes[2 * FILE_SIZE];
        char id[BO_SNAPSHOT_ID + 1];
        const size_t size = fread(bytes, 1, sizeof bytes, file);
        fclose(file);
        bo_snapshot *found;
        assert_ok(s->context, bo_snapshot_read(s->context, path, bytes, size, id, &found));
        assert_string_equal(id, "name");
        test_check(found, i, SIZE + (size_t)i);
        bo_snapshot_release(found);
        assert_int_equal(test_stats(store).disk_bytes, BLOCK);
    }
}

/* What leaves memory is found on disk. */
static void test_beyond_memory(void **state)
{
    enum { COUNT = 20 };
    setting *s = *state;
    char path[512];
    bo_store_desc desc = plenty;
    desc.memory_bytes = 3 * (SIZE + BO_SNAPSHOT_OVERHEAD);
    bo_store *store = open_store(s, desc);
    for (int32_t i = 1; i <= COUNT; i++) {
        char id[16];
        snprintf(id, sizeof id, "%d", (int)i);
        assert_true(test_keep(s->context, store, id, i, SIZE));
        for (int waited = 0; !test_is_cached(s->context, store, i, SIZE); waited++) {
            test_cache(s->context, store, i,
                       SIZE); /* not while earlier ones, which are being written, occupy the budget */
            assert_true(waited < 5000);
            usleep(1000);
        }
        assert_true(test_stats(store).memory_bytes <= desc.memory_bytes);
    }
    store = open_store(s, desc);
    assert_int_equal(test_stats(store).prefixes, COUNT);
    assert_int_equal(test_stats(store).kept, COUNT);
    for (int round = 0; round < 2; round++)
        for (int32_t i = 1; i <= COUNT; i++) {
            char id[16];
            snprintf(id, sizeof id, "%d", (int)i);
            assert_true(test_is_cached(s->context, store, i, SIZE));
            assert_true(test_is_kept(s->context, store, id, i, SIZE));
            assert_true(test_stats(store).memory_bytes <= desc.memory_bytes);
        }
    assert_int_equal(test_stats(store).evictions, 0);
    /* a state that is larger than the budget of memory is read from disk each time */
    assert_true(test_keep(s->context, store, "large", 9, 8 * SIZE));
    assert_true(test_is_kept(s->context, store, "large", 9, 8 * SIZE));
    assert_true(test_is_kept(s->context, store, "large", 9, 8 * SIZE));
    assert_true(test_stats(store).memory_bytes <= desc.memory_bytes);
    assert_int_equal(count_files(s, "", ".state", path), 2 * COUNT + 1);
}

static size_t bytes_on_disk(const setting *s)
{
    DIR *listing = opendir(s->directory);
    size_t bytes = 0;
    for (struct dirent *entry; (entry = readdir(listing)) != NULL;) {
        char path[512];
        struct stat about;
        path_of(s, entry->d_name, path);
        if (strstr(entry->d_name, ".state") && stat(path, &about) == 0)
            bytes += ((size_t)about.st_size + BLOCK - 1) / BLOCK * BLOCK;
    }
    closedir(listing);
    return bytes;
}

static void test_disk_budget(void **state)
{
    setting *s = *state;
    bo_store_desc desc = plenty;
    desc.disk_bytes = 4 * BLOCK;
    bo_store *store = open_store(s, desc);
    for (int32_t i = 1; i <= 6; i++) test_cache(s->context, store, i, SIZE);
    store = open_store(s, desc);
    assert_int_equal(test_stats(store).prefixes, 4); /* the other states were in memory only and are lost */
    assert_int_equal(bytes_on_disk(s), test_stats(store).disk_bytes);
    assert_true(test_keep(s->context, store, "a", 1, SIZE)); /* kept states evict cached ones */
    assert_true(test_keep(s->context, store, "b", 2, SIZE));
    assert_true(test_stats(store).disk_bytes <= desc.disk_bytes);
    assert_int_equal(bytes_on_disk(s), test_stats(store).disk_bytes);
    assert_int_equal(test_stats(store).prefixes, 2);
    assert_true(test_keep(s->context, store, "c", 3, SIZE));
    assert_true(test_keep(s->context, store, "d", 4, SIZE));
    assert_false(test_keep(s->context, store, "e", 5, SIZE));
    assert_int_equal(test_stats(store).prefixes, 0);
    assert_int_equal(test_stats(store).kept, 4);
    assert_true(test_keep(s->context, store, "d", 6, SIZE)); /* replaced in place */
    assert_false(test_keep(s->context, store, "d", 7, BLOCK));
    assert_true(test_is_kept(s->context, store, "d", 6, SIZE));
    assert_true(test_is_kept(s->context, store, "a", 1, SIZE));
    assert_int_equal(bytes_on_disk(s), test_stats(store).disk_bytes);
    /* a smaller budget after reopening: kept states are not removed */
    assert_true(bo_store_drop(store, bo_prefix_of_nothing(), "d"));
    test_cache(s->context, store, 1, SIZE);
    desc.disk_bytes = BLOCK;
    store = open_store(s, desc);
    assert_int_equal(test_stats(store).kept, 3);
    assert_int_equal(test_stats(store).prefixes, 0);
    assert_false(test_keep(s->context, store, "z", 1, SIZE));
    assert_int_equal(count_files(s, "", ".state", NULL), 3);
}

static void test_lock(void **state)
{
    setting *s = *state;
    bo_store *second;
    bo_store_desc desc = plenty;
    desc.directory = s->directory;
    open_store(s, plenty);
    assert_true(test_keep(s->context, s->store, "a", 1, SIZE));
    assert_fails(s->context, BO_IO, "another server uses this directory", bo_store_create(s->context, &desc, &second));
    assert_null(second);
    assert_true(test_is_kept(s->context, s->store, "a", 1, SIZE));
    close_store(s);
    assert_ok(s->context, bo_store_create(s->context, &desc, &second));
    bo_store_destroy(second);
}

static void test_refused_directories(void **state)
{
    setting *s = *state;
    char path[512], name[5000];
    bo_store_desc desc = plenty;
    write_text(s, "file", "text");
    path_of(s, "file", path);
    desc.directory = path;
    assert_fails(s->context, BO_IO, "Not a directory", bo_store_create(s->context, &desc, &s->store));
    path_of(s, "missing/directory", path);
    assert_fails(s->context, BO_IO, "No such file", bo_store_create(s->context, &desc, &s->store));
    memset(name, 'x', sizeof name);
    name[sizeof name - 1] = 0;
    desc.directory = name;
    assert_fails(s->context, BO_INVALID, "too long", bo_store_create(s->context, &desc, &s->store));
    assert_null(s->store);
    path_of(s, "new", path); /* a directory that does not exist is created, for its owner only */
    desc.directory = path;
    struct stat about;
    assert_ok(s->context, bo_store_create(s->context, &desc, &s->store));
    assert_int_equal(stat(path, &about), 0);
    assert_int_equal(about.st_mode & 0777, 0700);
    close_store(s);
    path_of(s, "new/secret", path);
    unlink(path);
    path_of(s, "new/lock", path);
    unlink(path);
}

/* ---- failures ---------------------------------------------------------------------------------------------------- */

/* A lack of memory or of file descriptors does not remove a state. */
static void test_transient(void **state)
{
    setting *s = *state;
    struct rlimit before, none;
    bo_store *store = open_store(s, plenty);
    assert_true(test_keep(s->context, store, "a", 1, SIZE));
    test_cache(s->context, store, 2, SIZE);
    store = open_store(s, plenty);
    for (size_t k = 1; k < 6; k++) {
        s->counted.fail_at = s->counted.calls + k;
        bo_snapshot_release(bo_store_get(s->context, store, bo_prefix_of_nothing(), "a"));
        s->counted.fail_at = s->counted.calls + k;
        test_is_cached(s->context, store, 2, SIZE);
        s->counted.fail_at = 0;
        if (test_stats(store).memory_bytes > 0) break;
    }
    store = open_store(s, plenty);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    none = before;
    none.rlim_cur = 0;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    bo_snapshot *found = bo_store_get(s->context, store, bo_prefix_of_nothing(), "a");
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_null(found);
    assert_int_equal(test_stats(store).discarded, 0);
    assert_true(test_is_kept(s->context, store, "a", 1, SIZE));
    assert_true(test_is_cached(s->context, store, 2, SIZE));
    /* also at the start */
    close_store(s);
    bo_store_desc desc = plenty;
    desc.directory = s->directory;
    for (size_t k = 1;; k++) {
        s->counted.fail_at = s->counted.calls + k;
        s->counted.once = true;
        const bool opened = bo_store_create(s->context, &desc, &s->store) == BO_OK;
        const bool reached = s->counted.calls >= s->counted.fail_at;
        s->counted.fail_at = 0;
        s->counted.once = false;
        close_store(s);
        assert_int_equal(count_files(s, "", ".state", NULL), 2);
        if (!reached) {
            assert_true(opened);
            break;
        }
    }
    store = open_store(s, plenty);
    assert_true(test_is_kept(s->context, store, "a", 1, SIZE));
}

/* If the new state cannot be written, the earlier one is kept. */
static void test_failed_write(void **state)
{
    setting *s = *state;
    struct rlimit before, none;
    bo_store *store = open_store(s, plenty);
    assert_true(test_keep(s->context, store, "a", 1, SIZE));
    bo_snapshot *snapshot = test_snapshot(s->context, (bo_prefix){{1, 2}}, 'A', 2, SIZE);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    none = before;
    none.rlim_cur = 0;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    bool full;
    const bo_status status = bo_store_keep(s->context, store, bo_prefix_of_nothing(), "a", snapshot, &full);
    const bo_status other = bo_store_keep(s->context, store, bo_prefix_of_nothing(), "b", snapshot, &full);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_int_equal(status, BO_IO);
    assert_int_equal(other, BO_IO);
    assert_false(full);
    assert_null(bo_store_get(s->context, store, bo_prefix_of_nothing(), "b"));
    assert_true(test_is_kept(s->context, store, "a", 1, SIZE));
    assert_int_equal(test_stats(store).kept, 1);
    assert_ok(s->context, bo_store_keep(s->context, store, bo_prefix_of_nothing(), "a", snapshot, &full));
    assert_true(test_is_kept(s->context, store, "a", 2, SIZE));
    bo_snapshot_release(snapshot);
}

/* ---- threads ----------------------------------------------------------------------------------------------------- */

static const bo_store_desc tight = {
    .memory_bytes = 6 * (SIZE + BO_SNAPSHOT_OVERHEAD), .disk_bytes = 9 * BLOCK, .accepts = test_accepts, .user = "A"};

typedef struct worker {
    pthread_t thread;
    bo_store *store;
    uint64_t seed;
} worker;

static void *use_store(void *arg)
{
    enum { CALLS = 150 };
    const worker *w = arg;
    bo_context *context = test_context(1);
    bo_rng rng = bo_rng_make(w->seed, 1);
    for (int call = 0; call < CALLS; call++) {
        const int32_t number = 1 + (int32_t)bo_rng_below(&rng, 12);
        char id[16];
        snprintf(id, sizeof id, "%d", (int)(number % 3));
        switch (bo_rng_below(&rng, 6)) {
        case 0:
        case 1:
            test_cache(context, w->store, number, SIZE);
            break;
        case 2:
        case 3:
            test_is_cached(context, w->store, number, SIZE);
            break;
        case 4:
            test_keep(context, w->store, id, number % 3, SIZE);
            break;
        default:
            test_is_kept(context, w->store, id, number % 3, SIZE);
            if (number == 1) bo_store_drop(w->store, bo_prefix_of_nothing(), id);
        }
        const bo_store_stats stats = test_stats(w->store);
        assert_true(stats.memory_bytes <= tight.memory_bytes);
        assert_true(stats.disk_bytes <= tight.disk_bytes);
        assert_int_equal(stats.discarded, 0);
    }
    bo_context_destroy(context);
    return NULL;
}

static void test_threads(void **state)
{
    enum { THREADS = 4 };
    setting *s = *state;
    worker workers[THREADS];
    bo_store *store = open_store(s, tight);
    for (uint64_t i = 0; i < THREADS; i++) {
        workers[i] = (worker){.store = store, .seed = i};
        assert_int_equal(pthread_create(&workers[i].thread, NULL, use_store, &workers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) pthread_join(workers[i].thread, NULL);
    store = open_store(s, tight);
    assert_int_equal(test_stats(store).discarded, 0);
    assert_int_equal(bytes_on_disk(s), test_stats(store).disk_bytes);
    assert_int_equal(count_files(s, "", ".part", NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_reopened, setup, teardown),
        cmocka_unit_test_setup_teardown(test_exact_budget, setup, teardown),
        cmocka_unit_test_setup_teardown(test_secret, setup, teardown),
        cmocka_unit_test_setup_teardown(test_damaged, setup, teardown),
        cmocka_unit_test_setup_teardown(test_renamed, setup, teardown),
        cmocka_unit_test_setup_teardown(test_damaged_later, setup, teardown),
        cmocka_unit_test_setup_teardown(test_foreign, setup, teardown),
        cmocka_unit_test_setup_teardown(test_two_models, setup, teardown),
        cmocka_unit_test_setup_teardown(test_other_files, setup, teardown),
        cmocka_unit_test_setup_teardown(test_kept_at_once, setup, teardown),
        cmocka_unit_test_setup_teardown(test_beyond_memory, setup, teardown),
        cmocka_unit_test_setup_teardown(test_disk_budget, setup, teardown),
        cmocka_unit_test_setup_teardown(test_lock, setup, teardown),
        cmocka_unit_test_setup_teardown(test_refused_directories, setup, teardown),
        cmocka_unit_test_setup_teardown(test_transient, setup, teardown),
        cmocka_unit_test_setup_teardown(test_failed_write, setup, teardown),
        cmocka_unit_test_setup_teardown(test_threads, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
