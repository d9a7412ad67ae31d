/* The directory of the store: its files, the thread that writes cached prefixes, and the scan at the start. */
#include "store_internal.h"
#include "../io/output.h"
#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PATH = 4096 };
static const size_t MAX_FILE = (size_t)1 << 40;

typedef char file_path[PATH];

static const char STATE[] = ".state", PART[] = ".state.part";

static void path_of(const bo_store *store, const bo_store_entry *entry, file_path out)
{
    char digits[BO_PREFIX_DIGITS + 1], owner[BO_PREFIX_DIGITS + 1] = "";
    const bool owned = !bo_prefix_equal(entry->owner->id, bo_prefix_of_nothing());
    bo_prefix_format(entry->key, digits);
    if (owned) bo_prefix_format(entry->owner->id, owner);
    snprintf(out, PATH, "%s/%c-%s%s%s%s", store->directory, entry->kept ? 'k' : 'p', digits, owned ? "-" : "", owner,
             STATE);
}

void bo_store_unlink(const bo_store *store, const bo_store_entry *entry)
{
    file_path path;
    path_of(store, entry, path);
    unlink(path);
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */

/* Reads the snapshot of a file. Its key may differ if the file was renamed or belongs to another model. */
static bo_status read_any(bo_context *context, const bo_store *store, const bo_store_entry *entry,
                          char id[BO_SNAPSHOT_ID + 1], bo_snapshot **out, size_t *size)
{
    file_path path;
    void *bytes;
    *out = NULL;
    path_of(store, entry, path);
    BO_TRY(bo_file_load(context, path, MAX_FILE, &bytes, size));
    const bo_status status = bo_snapshot_read(context, path, bytes, *size, id, out);
    bo_free(bytes);
    return status;
}

static bool has_key(const bo_store *store, const bo_store_entry *entry, const bo_snapshot *snapshot, const char *id)
{
    return bo_prefix_equal(entry->key, entry->kept ? bo_store_key_of(store, entry->owner->id, id) : snapshot->prefix);
}

bo_status bo_store_read_file(bo_context *context, const bo_store *store, const bo_store_entry *entry, bo_snapshot **out)
{
    char id[BO_SNAPSHOT_ID + 1];
    size_t size;
    BO_TRY(read_any(context, store, entry, id, out, &size));
    if (has_key(store, entry, *out, id)) return BO_OK;
    bo_snapshot_release(*out);
    *out = NULL;
    return bo_fail(context, BO_FORMAT, "the file of a state was replaced by the file of another state");
}

bool bo_store_file_exists(const bo_store *store, const bo_store_entry *entry)
{
    file_path path;
    path_of(store, entry, path);
    return access(path, F_OK) == 0 || errno != ENOENT;
}

/* ---- writing ----------------------------------------------------------------------------------------------------- */

/* Writes a file without fsync: it survives the end of the process, and its checksum detects damage after a power
 * failure. */
static bo_status write_file(bo_context *context, const char *path, const bo_snapshot *snapshot, const char *id,
                            size_t *size)
{
    file_path part;
    void *bytes;
    BO_TRY(bo_snapshot_write(context, snapshot, id, true, &bytes, size));
    snprintf(part, sizeof part, "%s.part", path);
    const int number = open(part, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600); /* states contain private text */
    FILE *file = number >= 0 ? fdopen(number, "wb") : NULL;
    if (number >= 0 && !file) close(number);
    bool done = file && fwrite(bytes, 1, *size, file) == *size;
    bo_free(bytes);
    done = file && fclose(file) == 0 && done && rename(part, path) == 0;
    if (done) return BO_OK;
    /* clients see this message, which must not contain the path */
    const bo_status status = bo_fail(context, BO_IO, "the state cannot be written to the disk: %s", strerror(errno));
    unlink(part);
    return status;
}

bo_status bo_store_write_now(bo_context *context, bo_store *store, bo_store_entry *entry, const char *id,
                             const bo_snapshot *snapshot)
{
    file_path path;
    size_t size;
    path_of(store, entry, path);
    BO_TRY(write_file(context, path, snapshot, id, &size));
    bo_store_has_file(store, entry, size);
    return BO_OK;
}

void bo_store_write_later(bo_store *store, bo_store_entry *entry)
{
    assert(!entry->writing && entry->snapshot);
    entry->writing = true;
    entry->to_write = NULL;
    *(store->last_to_write ? &store->last_to_write->to_write : &store->first_to_write) = entry;
    store->last_to_write = entry;
    pthread_cond_signal(&store->changed);
}

/* Writes one entry. Releases the lock while writing; `writing` protects the entry. */
static void write_entry(bo_context *context, bo_store *store, bo_store_entry *entry)
{
    file_path path;
    size_t size = 0;
    bo_snapshot *snapshot = bo_snapshot_share(entry->snapshot);
    const size_t bytes = bo_store_file_bytes(bo_snapshot_size(snapshot, NULL));
    const bool fits = bo_store_free_disk(store, entry->owner, bytes);
    path_of(store, entry, path);
    if (fits) store->reserved = bytes;
    pthread_mutex_unlock(&store->lock);
    const bool wrote = fits && write_file(context, path, snapshot, NULL, &size) == BO_OK;
    bo_snapshot_release(snapshot);
    pthread_mutex_lock(&store->lock);
    entry->writing = false;
    store->reserved = 0;
    if (wrote) bo_store_has_file(store, entry, size);
}

static void *write_files(void *arg)
{
    bo_store *store = arg;
    bo_context *context;
    const bool usable = bo_context_create(&(bo_context_desc){.threads = 1}, &context) == BO_OK;
    pthread_mutex_lock(&store->lock);
    for (;;) {
        while (!store->first_to_write && !store->closing) pthread_cond_wait(&store->changed, &store->lock);
        bo_store_entry *entry = store->first_to_write;
        if (!entry) break;
        store->first_to_write = entry->to_write;
        if (!store->first_to_write) store->last_to_write = NULL;
        if (usable)
            write_entry(context, store, entry);
        else
            entry->writing = false;
    }
    pthread_mutex_unlock(&store->lock);
    if (usable) bo_context_destroy(context);
    return NULL;
}

/* ---- opening ----------------------------------------------------------------------------------------------------- */

static bo_status read_secret(bo_context *context, const char *path, bo_prefix_secret *out)
{
    void *bytes;
    size_t size;
    BO_TRY(bo_file_load(context, path, 1024, &bytes, &size));
    const bool whole = size == sizeof *out;
    if (whole) memcpy(out, bytes, size);
    bo_free(bytes);
    if (whole) return BO_OK;
    return bo_fail(context, BO_FORMAT,
                   "%s: expected a key of %zu bytes, found %zu bytes; choose another directory, or remove the file if "
                   "the states in the directory are not needed",
                   path, sizeof *out, size);
}

/* Creates the file empty with mode 0600, so that other users can never read the secret; bo_file_save keeps the mode. */
static bo_status create_secret(bo_context *context, const char *path, bo_prefix_secret *out)
{
    if (!bo_random_bytes(out, sizeof *out))
        return bo_fail(context, BO_IO, "the system has no random numbers (getrandom)");
    const int file = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (file < 0) return bo_fail(context, BO_IO, "%s: %s", path, strerror(errno));
    close(file);
    return bo_file_save(context, path, out, sizeof *out);
}

static bo_status open_secret(bo_context *context, bo_store *store)
{
    file_path path;
    struct stat about;
    bo_prefix_secret secret;
    snprintf(path, sizeof path, "%s/secret", store->directory);
    const bool exists = stat(path, &about) == 0 && (about.st_size > 0 || !S_ISREG(about.st_mode));
    BO_TRY((exists ? read_secret : create_secret)(context, path, &secret));
    return bo_store_set_secret(context, store, &secret);
}

/* Parses the digits of a hash. NULL: other characters. */
static const char *read_hash(const char *digits, bo_prefix *out)
{
    unsigned long long high, low;
    if (strspn(digits, "0123456789abcdef") != BO_PREFIX_DIGITS) return NULL;
    if (sscanf(digits, "%16llx%16llx", &high, &low) != 2) return NULL;
    *out = (bo_prefix){{high, low}};
    return digits + BO_PREFIX_DIGITS;
}

/* True if a name is that of a state file (with the ending PART: of a partial one). Sets its key and owner. */
static bool is_state_name(const char *name, const char *ending, bo_store_entry *as, bo_prefix *owner)
{
    as->kept = name[0] == 'k';
    *owner = bo_prefix_of_nothing();
    if ((name[0] != 'k' && name[0] != 'p') || name[1] != '-') return false;
    const char *at = read_hash(name + 2, &as->key);
    if (at && at[0] == '-') at = read_hash(at + 1, owner);
    return at && strcmp(at, ending) == 0;
}

/* True if a file starts like a file of the store, as far as it goes. */
static bool starts_as_state(const char *path)
{
    char bytes[8];
    const int file = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (file < 0) return false;
    struct stat about;
    const bool plain = fstat(file, &about) == 0 && S_ISREG(about.st_mode);
    const ssize_t count = plain ? read(file, bytes, sizeof bytes) : -1;
    close(file);
    return count >= 0 && bo_snapshot_has_magic(bytes, (size_t)count);
}

/* Removes a damaged or partial file of the store. */
static void discard(bo_store *store, const char *path)
{
    if (starts_as_state(path) && unlink(path) == 0) store->stats.discarded++;
}

typedef enum file_verdict { FILE_GOOD, FILE_FOREIGN, FILE_DAMAGED, FILE_UNREADABLE } file_verdict;

/* Reads the whole file, so that damage is found now and not when a client waits. */
static file_verdict check_file(bo_context *context, const bo_store *store, const bo_store_entry *as, size_t *bytes)
{
    char id[BO_SNAPSHOT_ID + 1];
    bo_snapshot *snapshot;
    const bo_status status = read_any(context, store, as, id, &snapshot, bytes);
    if (status != BO_OK) return status == BO_FORMAT ? FILE_DAMAGED : FILE_UNREADABLE;
    const bool accepted = !snapshot->bytes || store->desc.accepts(store->desc.user, snapshot->bytes, snapshot->size);
    const bool has_right_key = has_key(store, as, snapshot, id);
    bo_snapshot_release(snapshot);
    return accepted && has_right_key ? FILE_GOOD : FILE_FOREIGN;
}

static void load_file(bo_context *context, bo_store *store, const char *name)
{
    bo_store_entry as = {0};
    bo_prefix owner;
    file_path path;
    size_t bytes = 0;
    if (snprintf(path, sizeof path, "%s/%s", store->directory, name) >= PATH) return;
    /* left by a process that was killed while writing */
    if (is_state_name(name, PART, &as, &owner)) discard(store, path);
    if (!is_state_name(name, STATE, &as, &owner)) return;
    as.owner = bo_store_find_owner(context, store, owner);
    if (!as.owner) return;
    switch (check_file(context, store, &as, &bytes)) {
    case FILE_GOOD:
        bo_store_add_file(context, store, &as, bytes);
        break;
    case FILE_FOREIGN:
        store->stats.foreign++;
        break;
    case FILE_DAMAGED:
        discard(store, path);
        break;
    case FILE_UNREADABLE: /* out of memory, or no permission: the file is kept */
        break;
    }
}

/* Returns the number of states whose owners have no share. */
static size_t count_unowned(const bo_store *store)
{
    size_t count = 0;
    for (size_t i = 0; i < store->table_size; i++)
        for (const bo_store_entry *entry = store->table[i]; entry; entry = entry->next)
            count += entry->owner->disk_share == 0;
    return count;
}

static bo_status list_files(bo_context *context, bo_store *store)
{
    DIR *directory = opendir(store->directory);
    if (!directory) return bo_fail(context, BO_IO, "%s: %s", store->directory, strerror(errno));
    for (const struct dirent *file; (file = readdir(directory)) != NULL;) load_file(context, store, file->d_name);
    closedir(directory);
    bo_store_trim_disk(store);
    store->stats.unowned = count_unowned(store);
    return BO_OK;
}

/* Two stores in one directory would remove each other's files. File systems without locks are accepted. */
static bo_status lock_directory(bo_context *context, bo_store *store)
{
    file_path path;
    snprintf(path, sizeof path, "%s/lock", store->directory);
    store->lock_file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (store->lock_file < 0) return bo_fail(context, BO_IO, "%s: %s", path, strerror(errno));
    if (flock(store->lock_file, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) return BO_OK;
    return bo_fail(context, BO_IO, "%s: another server uses this directory; stop it, or choose another directory",
                   store->directory);
}

bo_status bo_store_open_directory(bo_context *context, bo_store *store)
{
    enum { SUFFIX = 96 };
    store->directory = bo_strdup(context, store->desc.directory);
    if (!store->directory) return BO_MEMORY;
    store->desc.directory = store->directory;
    if (strlen(store->directory) + SUFFIX > PATH)
        return bo_fail(context, BO_INVALID,
                       "the path %.80s… of the cache directory is too long: %zu bytes, expected at most %d",
                       store->directory, strlen(store->directory), PATH - SUFFIX);
    if (mkdir(store->directory, 0700) != 0 && errno != EEXIST)
        return bo_fail(context, BO_IO, "%s: %s", store->directory, strerror(errno));
    BO_TRY(lock_directory(context, store));
    BO_TRY(open_secret(context, store));
    BO_TRY(list_files(context, store));
    store->has_writer = pthread_create(&store->writer, NULL, write_files, store) == 0;
    return store->has_writer ? BO_OK : bo_fail(context, BO_MEMORY, "a thread could not be started");
}

void bo_store_close_directory(bo_store *store)
{
    if (store->has_writer) {
        pthread_mutex_lock(&store->lock);
        store->closing = true;
        pthread_cond_signal(&store->changed);
        pthread_mutex_unlock(&store->lock);
        pthread_join(store->writer, NULL);
        store->has_writer = false;
    }
    if (store->lock_file >= 0) close(store->lock_file);
    store->lock_file = -1;
}
