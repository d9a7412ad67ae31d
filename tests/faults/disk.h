/* A model of a disk that loses power. The functions that change files are replaced in this program by versions that
 * record every change below a watched directory. From the record, the directory is reconstructed as a crash could have
 * left it.
 *
 * What survives a crash after n operations:
 *   - data of a file up to its last fsync, and any subset of its later writes, each of them whole or torn at a multiple
 *     of 512 bytes;
 *   - names in a directory up to the directory's last fsync, and any subset of its later changes. A rename is one
 * change. fsync of a file does not save its name, and fsync of a directory saves neither the data of its files nor the
 * names in its subdirectories. Real file systems promise more. */
#ifndef BO_TEST_DISK_H
#define BO_TEST_DISK_H

#include "testing.h"
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { DISK_OPERATIONS = 4096, DISK_OBJECTS = 1024, DISK_DESCRIPTORS = 256, DISK_PATH = 256, DISK_SECTOR = 512 };

typedef enum disk_kind {
    DISK_WRITE,  /* data of object */
    DISK_NAME,   /* object gets the name in the directory; `other` is the name it had before in the same directory, or
                    empty */
    DISK_REMOVE, /* the name is removed from the directory */
    DISK_FLUSH   /* fsync of object */
} disk_kind;

typedef struct disk_operation {
    disk_kind kind;
    int directory, object;
    char name[96], other[96];
    size_t offset, size;
    unsigned char *data;
} disk_operation;

/* A file or a directory. Object 0 is the watched directory. A directory is identified by the path of its creation, a
 * file by its current name. */
typedef struct disk_object {
    bool directory;
    size_t size; /* of the file, in the running program */
} disk_object;

typedef struct disk_name {
    int directory, object;
    char name[96];
} disk_name;

typedef struct disk_record {
    char root[DISK_PATH]; /* empty: nothing is recorded */
    disk_operation operations[DISK_OPERATIONS];
    size_t count;
    disk_object objects[DISK_OBJECTS];
    int object_count;
    disk_name names[DISK_OBJECTS]; /* in the running program */
    int name_count;
    int descriptors[DISK_DESCRIPTORS]; /* objects + 1 */
} disk_record;

static disk_record disk;
static bool disk_flushes = true; /* false: fsync does nothing, for speed */

/* ---- names ------------------------------------------------------------------------------------------------------- */

static inline disk_name *disk_entry(disk_name *names, int count, int directory, const char *name)
{
    for (int i = 0; i < count; i++)
        if (names[i].directory == directory && strcmp(names[i].name, name) == 0) return &names[i];
    return NULL;
}

static inline void disk_set(disk_name *names, int *count, int directory, const char *name, int object)
{
    disk_name *entry = disk_entry(names, *count, directory, name);
    if (!entry) {
        if (*count == DISK_OBJECTS) abort();
        entry = &names[(*count)++];
        entry->directory = directory;
        snprintf(entry->name, sizeof entry->name, "%s", name);
    }
    entry->object = object;
}

static inline void disk_unset(disk_name *names, int *count, int directory, const char *name)
{
    disk_name *entry = disk_entry(names, *count, directory, name);
    if (entry) *entry = names[--*count];
}

/* The directory that contains the path and its last name. False: the path is not below the watched directory. */
static inline bool disk_find(const char *path, int *directory, char name[96])
{
    const size_t length = strlen(disk.root);
    if (!length || strncmp(path, disk.root, length) != 0 || path[length] != '/') return false;
    path += length + 1;
    *directory = 0;
    for (const char *slash; (slash = strchr(path, '/')); path = slash + 1) {
        char part[96];
        snprintf(part, sizeof part, "%.*s", (int)(slash - path), path);
        const disk_name *entry = disk_entry(disk.names, disk.name_count, *directory, part);
        if (!entry) return false;
        *directory = entry->object;
    }
    snprintf(name, 96, "%s", path);
    return true;
}

static inline int disk_object_at(const char *path)
{
    int directory;
    char name[96];
    if (strcmp(path, disk.root) == 0 && *path) return 0;
    if (!disk_find(path, &directory, name)) return -1;
    const disk_name *entry = disk_entry(disk.names, disk.name_count, directory, name);
    return entry ? entry->object : -1;
}

/* ---- recording --------------------------------------------------------------------------------------------------- */

static inline disk_operation *disk_add(disk_kind kind, int directory, int object, const char *name)
{
    if (disk.count == DISK_OPERATIONS) abort();
    disk_operation *operation = &disk.operations[disk.count++];
    *operation = (disk_operation){.kind = kind, .directory = directory, .object = object};
    snprintf(operation->name, sizeof operation->name, "%s", name);
    return operation;
}

static inline void disk_create(const char *path, bool is_directory)
{
    int directory;
    char name[96];
    if (!disk_find(path, &directory, name)) return;
    if (disk.object_count == DISK_OBJECTS) abort();
    disk.objects[disk.object_count] = (disk_object){.directory = is_directory};
    disk_set(disk.names, &disk.name_count, directory, name, disk.object_count);
    disk_add(DISK_NAME, directory, disk.object_count++, name);
}

/* Watches a directory that exists and is empty. */
static inline void disk_watch(const char *root)
{
    memset(&disk, 0, sizeof disk);
    snprintf(disk.root, sizeof disk.root, "%s", root);
    disk.objects[disk.object_count++] = (disk_object){.directory = true};
}

static inline void disk_stop(void)
{
    disk.root[0] = 0;
}

static inline void disk_free(void)
{
    for (size_t i = 0; i < disk.count; i++) free(disk.operations[i].data);
    disk.count = 0;
}

/* ---- the functions that change files ----------------------------------------------------------------------------- */

int open(const char *path, int flags, ...)
{
    unsigned mode = 0;
    if (flags & O_CREAT) {
        va_list arguments;
        va_start(arguments, flags);
        mode = va_arg(arguments, unsigned);
        va_end(arguments);
    }
    const bool existed = syscall(SYS_faccessat, AT_FDCWD, path, F_OK) == 0;
    const int fd = (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
    if (fd < 0 || fd >= DISK_DESCRIPTORS || !disk.root[0]) return fd;
    if (!existed) disk_create(path, false);
    if (flags & O_TRUNC) abort(); /* not modeled: no file is overwritten in place */
    disk.descriptors[fd] = disk_object_at(path) + 1;
    return fd;
}

int close(int fd)
{
    if (fd >= 0 && fd < DISK_DESCRIPTORS) disk.descriptors[fd] = 0;
    return (int)syscall(SYS_close, fd);
}

ssize_t write(int fd, const void *data, size_t size)
{
    const ssize_t written = syscall(SYS_write, fd, data, size);
    const int object = fd >= 0 && fd < DISK_DESCRIPTORS ? disk.descriptors[fd] - 1 : -1;
    if (written <= 0 || object < 0 || !disk.root[0]) return written;
    disk_operation *operation = disk_add(DISK_WRITE, -1, object, "");
    operation->offset = disk.objects[object].size; /* every file is written from its start to its end, or appended to */
    operation->size = (size_t)written;
    operation->data = malloc(operation->size);
    memcpy(operation->data, data, operation->size);
    disk.objects[object].size += operation->size;
    return written;
}

int fsync(int fd)
{
    const int object = fd >= 0 && fd < DISK_DESCRIPTORS ? disk.descriptors[fd] - 1 : -1;
    if (object >= 0 && disk.root[0]) disk_add(DISK_FLUSH, -1, object, "");
    return disk_flushes ? (int)syscall(SYS_fsync, fd) : 0;
}

int rename(const char *from, const char *to)
{
    int directory, target;
    char name[96], other[96];
    const int object = disk_object_at(from);
    const int result = (int)syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0);
    if (result != 0 || !disk_find(to, &target, name) || !disk_find(from, &directory, other)) return result;
    if (directory != target) abort();                /* not modeled: every rename is within one directory */
    if (disk_object_at(to) == object) return result; /* two names of the same file: rename does nothing */
    disk_operation *operation = disk_add(DISK_NAME, directory, object, name);
    snprintf(operation->other, sizeof operation->other, "%s", other);
    disk_unset(disk.names, &disk.name_count, directory, other);
    disk_set(disk.names, &disk.name_count, directory, name, object);
    return result;
}

int link(const char *from, const char *to)
{
    int directory;
    char name[96];
    const int object = disk_object_at(from);
    const int result = (int)syscall(SYS_linkat, AT_FDCWD, from, AT_FDCWD, to, 0);
    if (result != 0 || !disk_find(to, &directory, name)) return result;
    disk_add(DISK_NAME, directory, object, name);
    disk_set(disk.names, &disk.name_count, directory, name, object);
    return result;
}

static inline int disk_remove(const char *path, int flags)
{
    int directory;
    char name[96];
    const int result = (int)syscall(SYS_unlinkat, AT_FDCWD, path, flags);
    if (result != 0 || !disk_find(path, &directory, name)) return result;
    disk_add(DISK_REMOVE, directory, -1, name);
    disk_unset(disk.names, &disk.name_count, directory, name);
    return result;
}

int unlink(const char *path)
{
    return disk_remove(path, 0);
}

int rmdir(const char *path)
{
    return disk_remove(path, AT_REMOVEDIR);
}

int mkdir(const char *path, mode_t mode)
{
    const int result = (int)syscall(SYS_mkdirat, AT_FDCWD, path, mode);
    if (result == 0) disk_create(path, true);
    return result;
}

/* ---- after a crash ----------------------------------------------------------------------------------------------- */

/* True for the operations among the first `count` that may or may not survive. */
static inline bool disk_pending(size_t index, size_t count)
{
    const disk_operation *operation = &disk.operations[index];
    if (operation->kind == DISK_FLUSH) return false;
    const int flushed = operation->kind == DISK_WRITE ? operation->object : operation->directory;
    for (size_t i = index + 1; i < count; i++)
        if (disk.operations[i].kind == DISK_FLUSH && disk.operations[i].object == flushed) return false;
    return true;
}

typedef struct disk_file {
    unsigned char *data;
    size_t size;
} disk_file;

/* The contents of files and directories after a crash. */
typedef struct disk_state {
    disk_file files[DISK_OBJECTS];
    disk_name names[DISK_OBJECTS];
    int name_count;
} disk_state;

static inline void disk_apply_write(disk_file *file, const disk_operation *operation, size_t keep)
{
    const size_t end = operation->offset + keep;
    if (end > file->size) {
        file->data = realloc(file->data, end);
        memset(file->data + file->size, 0, end - file->size);
        file->size = end;
    }
    memcpy(file->data + operation->offset, operation->data, keep);
}

static inline void disk_apply(disk_state *state, const disk_operation *operation, size_t keep)
{
    switch (operation->kind) {
    case DISK_WRITE:
        disk_apply_write(&state->files[operation->object], operation, keep);
        break;
    case DISK_NAME:
        if (operation->other[0]) disk_unset(state->names, &state->name_count, operation->directory, operation->other);
        disk_set(state->names, &state->name_count, operation->directory, operation->name, operation->object);
        break;
    case DISK_REMOVE:
        disk_unset(state->names, &state->name_count, operation->directory, operation->name);
        break;
    case DISK_FLUSH:
        break;
    }
}

/* The first `count` operations; survival[i] is the surviving part of operation i: 0 nothing, 1 all, n > 1: n sectors of
 * a write. Operations that were flushed survive in any case. */
static inline void disk_crash(size_t count, const unsigned *survival, disk_state *state)
{
    memset(state, 0, sizeof *state);
    for (size_t i = 0; i < count; i++) {
        const disk_operation *operation = &disk.operations[i];
        const unsigned left = disk_pending(i, count) ? survival[i] : 1;
        const size_t torn = (size_t)left * DISK_SECTOR;
        if (left) disk_apply(state, operation, left > 1 && torn < operation->size ? torn : operation->size);
    }
}

static inline void disk_state_free(disk_state *state)
{
    for (int i = 0; i < DISK_OBJECTS; i++) free(state->files[i].data);
}

static inline uint64_t disk_hash(uint64_t hash, const void *data, size_t size)
{
    const unsigned char *bytes = data;
    for (size_t i = 0; i < size; i++) hash = (hash ^ bytes[i]) * 0x100000001b3; /* FNV-1a */
    return hash;
}

/* Writes all reachable files and directories below `path`, and continues a hash over them. path NULL: only the hash. */
static inline uint64_t disk_restore(const disk_state *state, int directory, const char *path, uint64_t hash)
{
    for (int i = 0; i < state->name_count; i++) {
        const disk_name *entry = &state->names[i];
        char below[2 * DISK_PATH];
        if (entry->directory != directory) continue;
        snprintf(below, sizeof below, "%.300s/%s", path ? path : "", entry->name);
        const bool is_directory = disk.objects[entry->object].directory;
        const disk_file *file = &state->files[entry->object];
        uint64_t inside = disk_hash(0xcbf29ce484222325, entry->name, strlen(entry->name));
        if (is_directory && path && mkdir(below, 0777) != 0) abort();
        if (is_directory) inside = disk_restore(state, entry->object, path ? below : NULL, inside);
        if (!is_directory) inside = disk_hash(inside, file->data, file->size);
        hash += inside * 0x9E3779B97F4A7C15; /* the order of names does not matter */
        if (is_directory || !path) continue;
        FILE *stream = fopen(below, "wb");
        if (!stream || (file->size && fwrite(file->data, file->size, 1, stream) != 1) || fclose(stream) != 0) abort();
    }
    return hash;
}

#endif
