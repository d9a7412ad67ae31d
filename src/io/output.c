/* Output to files, which are written under a temporary name, flushed and renamed, to growing memory, and to
 * callbacks. */
#include "output.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

/* A file, memory or a callback. For memory, `bytes` and `size` are set; for a callback `write`. Both have no descriptor
 * (fd is -1), and `path` is their name. */
struct bo_output {
    char *path;      /* the final path, with links resolved */
    char *temporary; /* the path being written; NULL: written directly */
    int fd;
    bo_status (*write)(void *user, const void *from, size_t count);
    void *user;
    void **bytes;
    size_t *size;
    char *memory; /* the bytes written: `used` of `capacity`, which leaves one for a NUL */
    size_t used, capacity;
};

static void release(bo_output *output)
{
    if (output->fd >= 0) close(output->fd);
    bo_free(output->memory);
    bo_free(output->path);
    bo_free(output->temporary);
    bo_free(output);
}

void bo_output_abandon(bo_output *output)
{
    if (!output) return;
    if (output->temporary && output->fd >= 0) unlink(output->temporary);
    release(output);
}

static bo_status failed(bo_context *context, const bo_output *output, const char *what, int error)
{
    return bo_fail(context, BO_IO, "%s: %s: %s", output->path, what, strerror(error));
}

/* Resolves a link, so that its target is replaced and not the link. */
static char *resolve(bo_context *context, const char *path)
{
    struct stat about;
    if (lstat(path, &about) == 0 && S_ISLNK(about.st_mode)) {
        char *real = realpath(path, NULL);
        if (real) {
            char *copy = bo_strdup(context, real);
            free(real);
            return copy;
        }
    }
    return bo_strdup(context, path);
}

/* ---- temporary files --------------------------------------------------------------------------------------------- */

/* A process that writes a temporary file holds its lock. Files on file systems without locks count as locked. */
static bool lock(int fd)
{
    return flock(fd, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK;
}

static bool has_name(int fd, const char *name)
{
    struct stat file, named;
    return fstat(fd, &file) == 0 && lstat(name, &named) == 0 && S_ISREG(file.st_mode) && file.st_dev == named.st_dev &&
           file.st_ino == named.st_ino;
}

/* Removes a temporary file whose process was killed, so that nobody writes it. */
static bool remove_stale(const char *name)
{
    const int fd = open(name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0) return errno == ENOENT;
    const bool stale = flock(fd, LOCK_EX | LOCK_NB) == 0 && has_name(fd, name);
    const bool removed = stale && unlink(name) == 0;
    close(fd);
    return removed;
}

/* Returns -1 with errno; EEXIST if another process writes the file of this name. Another process may consider the file
 * stale and remove it before it is locked: then it is created again. */
static int create(const char *name)
{
    enum { ATTEMPTS = 100 };
    for (int i = 0; i < ATTEMPTS; i++) {
        const int fd = open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (fd >= 0 && lock(fd) && has_name(fd, name)) return fd;
        if (fd >= 0)
            close(fd);
        else if (errno != EEXIST)
            return -1;
        else if (!remove_stale(name))
            break;
    }
    errno = EEXIST;
    return -1;
}

/* A new file gets the mode of the umask; an existing file keeps its mode. */
static bo_status open_beside(bo_context *context, bo_output *output, const struct stat *old)
{
    enum { WRITERS = 1000 }; /* of the same file at the same time */
    /* a name may have 255 bytes; the temporary name of a longer one starts with a part of it */
    enum { SUFFIX = sizeof ".bochner-1000.part", NAME = 255 - SUFFIX };
    const char *slash = strrchr(output->path, '/');
    const size_t directory = slash ? (size_t)(slash + 1 - output->path) : 0;
    const size_t kept = directory + bo_min(strlen(output->path + directory), NAME), size = kept + SUFFIX + 1;
    output->temporary = bo_alloc(context, size, 1, "a file name");
    if (!output->temporary) return BO_MEMORY;
    for (unsigned i = 0; i < WRITERS; ++i) {
        snprintf(output->temporary, size, "%.*s.bochner-%u.part", (int)kept, output->path, i);
        output->fd = create(output->temporary);
        if (output->fd >= 0 || errno != EEXIST) break;
    }
    if (output->fd < 0) return failed(context, output, "cannot be written", errno);
    if (old && fchmod(output->fd, old->st_mode & 07777) != 0) { /* best effort */
    }
    return BO_OK;
}

/* ---- outputs ----------------------------------------------------------------------------------------------------- */

static bo_status open_output(bo_context *context, bo_output *output, const char *path)
{
    struct stat about;
    output->path = resolve(context, path);
    if (!output->path) return BO_MEMORY;
    const bool exists = stat(output->path, &about) == 0;
    if (exists && S_ISDIR(about.st_mode)) return failed(context, output, "cannot be written", EISDIR);
    if (!exists || S_ISREG(about.st_mode)) return open_beside(context, output, exists ? &about : NULL);
    output->fd = open(output->path, O_WRONLY | O_CLOEXEC);
    return output->fd >= 0 ? BO_OK : failed(context, output, "cannot be written", errno);
}

bo_status bo_output_open(bo_context *context, const char *path, bo_output **out)
{
    if (out) *out = NULL;
    BO_REQUIRE(context, path, out);
    if (!*path) return bo_fail(context, BO_INVALID, "expected the name of a file to write, found none");
    bo_output *output = bo_alloc(context, 1, sizeof *output, "an output");
    if (!output) return BO_MEMORY;
    output->fd = -1;
    bo_status status = open_output(context, output, path);
    if (status != BO_OK)
        bo_output_abandon(output);
    else
        *out = output;
    return status;
}

static bo_status open_named(bo_context *context, const char *name, const bo_output *what, bo_output **out)
{
    bo_output *output = bo_alloc(context, 1, sizeof *output, "an output");
    if (!output) return BO_MEMORY;
    *output = *what;
    output->fd = -1;
    if (!(output->path = bo_strdup(context, name))) {
        bo_output_abandon(output);
        return BO_MEMORY;
    }
    *out = output;
    return BO_OK;
}

bo_status bo_output_open_memory(bo_context *context, void **bytes, size_t *size, bo_output **out)
{
    *out = NULL;
    *bytes = NULL;
    *size = 0;
    return open_named(context, "memory", &(bo_output){.bytes = bytes, .size = size}, out);
}

bo_status bo_sink_check(bo_context *context, const bo_sink *sink)
{
    const int targets = (sink->path != NULL) + (sink->bytes != NULL) + (sink->write != NULL);
    BO_TRY(bo_check_reserved(context, "bo_sink", sink->reserved));
    if (targets != 1)
        return bo_fail(context, BO_INVALID, "bo_sink: expected one of path, bytes and write, found %d of them",
                       targets);
    if (sink->bytes && !sink->size) return bo_fail(context, BO_INVALID, "bo_sink: bytes is given, but size is NULL");
    return BO_OK;
}

void bo_sink_clear(const bo_sink *sink)
{
    if (sink && sink->bytes) *sink->bytes = NULL;
    if (sink && sink->size) *sink->size = 0;
}

bo_status bo_output_open_sink(bo_context *context, const bo_sink *sink, bo_output **out)
{
    *out = NULL;
    bo_sink_clear(sink);
    BO_TRY(bo_sink_check(context, sink));
    if (sink->path) return bo_output_open(context, sink->path, out);
    const bo_output what = {.write = sink->write, .user = sink->user, .bytes = sink->bytes, .size = sink->size};
    return open_named(context, sink->name ? sink->name : sink->write ? "stream" : "memory", &what, out);
}

const char *bo_output_path(const bo_output *output)
{
    return output->path;
}

int bo_output_descriptor(const bo_output *output)
{
    return output ? output->fd : -1;
}

bo_status bo_output_reserve(bo_context *context, bo_output *output, size_t size)
{
    if (!output->bytes || (output->memory && size <= output->capacity - output->used)) return BO_OK;
    if (size > SIZE_MAX - 1 - output->used)
        return bo_fail(context, BO_MEMORY, "%s: %zu + %zu bytes are too many", output->path, output->used, size);
    char *larger = bo_realloc(context, output->memory, output->used + size + 1, 1, "an image in memory");
    if (!larger) return BO_MEMORY;
    output->memory = larger;
    output->capacity = output->used + size;
    return BO_OK;
}

static bo_status write_memory(bo_context *context, bo_output *output, const void *data, size_t size)
{
    enum { MIN_CAPACITY = BO_SIZE(4096, 8) };
    const size_t twice = output->capacity > MIN_CAPACITY ? output->capacity : MIN_CAPACITY;
    if (size > output->capacity - output->used) BO_TRY(bo_output_reserve(context, output, size > twice ? size : twice));
    if (size) memcpy(output->memory + output->used, data, size);
    output->used += size;
    return BO_OK;
}

static bo_status write_callback(bo_context *context, bo_output *output, const void *data, size_t size)
{
    const bo_status status = size ? output->write(output->user, data, size) : BO_OK;
    if (status == BO_OK) return BO_OK;
    return bo_fail(context, status, "%s: the callback failed to write %zu bytes: %s", output->path, size,
                   bo_status_string(status));
}

bo_status bo_output_write(bo_context *context, bo_output *output, const void *data, size_t size)
{
    BO_REQUIRE(context, output);
    BO_REQUIRE_IF(context, size > 0, data);
    if (output->bytes) return write_memory(context, output, data, size);
    if (output->write) return write_callback(context, output, data, size);
    const char *from = data;
    while (size > 0) {
        size_t piece = size < ((size_t)1 << 30) ? size : (size_t)1 << 30;
        ssize_t n = write(output->fd, from, piece);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return failed(context, output, "writing failed", errno);
        from += n;
        size -= (size_t)n;
    }
    return BO_OK;
}

/* ---- flushing ---------------------------------------------------------------------------------------------------- */

bo_status bo_output_flush(bo_context *context, const char *path)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    int error = fd < 0 || fsync(fd) != 0 ? errno : 0;
    if (fd >= 0) close(fd);
    if (error == EINVAL || error == ENOTSUP || error == EACCES) error = 0;
    return error ? bo_fail(context, BO_IO, "%s: cannot be flushed to disk: %s", path, strerror(error)) : BO_OK;
}

bo_status bo_output_flush_name(bo_context *context, const char *path)
{
    char directory[4096] = ".";
    size_t length = strlen(path);
    while (length > 1 && path[length - 1] == '/') length--;
    while (length > 0 && path[length - 1] != '/') length--; /* the name */
    while (length > 1 && path[length - 1] == '/') length--;
    if (length >= sizeof directory) return bo_fail(context, BO_INVALID, "the path %.80s… is too long", path);
    if (length > 0) {
        memcpy(directory, path, length);
        directory[length] = 0;
    }
    return bo_output_flush(context, directory);
}

/* ---- the end of an output ---------------------------------------------------------------------------------------- */

static bo_status commit_memory(bo_context *context, bo_output *output)
{
    BO_TRY(bo_output_reserve(context, output, 0)); /* an empty output is a valid block */
    output->memory[output->used] = 0;
    *output->bytes = output->memory;
    *output->size = output->used;
    output->memory = NULL;
    return BO_OK;
}

/* Flushes the file and renames it to its final name. Afterwards another output may use the temporary name. */
static bo_status commit_file(bo_context *context, bo_output *output)
{
    if (fsync(output->fd) != 0) return failed(context, output, "writing failed", errno);
    if (rename(output->temporary, output->path) != 0)
        return failed(context, output, "cannot be renamed from its temporary name", errno);
    bo_free(output->temporary);
    output->temporary = NULL;
    const bo_status status = bo_output_flush_name(context, output->path);
    if (status == BO_OK) return BO_OK;
    return bo_fail(context, status, "%s: the file was written, but its name may not be on disk: %s", output->path,
                   bo_context_error(context));
}

bo_status bo_output_commit(bo_context *context, bo_output *output)
{
    BO_REQUIRE(context, output);
    const bo_status status = output->bytes       ? commit_memory(context, output)
                             : output->temporary ? commit_file(context, output)
                                                 : BO_OK;
    if (status != BO_OK)
        bo_output_abandon(output);
    else
        release(output);
    return status;
}

bo_status bo_output_finish(bo_context *context, bo_output *output, bo_status status)
{
    if (status == BO_OK) return bo_output_commit(context, output);
    bo_output_abandon(output);
    return status;
}

bo_status bo_output_finish_all(bo_context *context, bo_output *const *outputs, size_t count, bo_status status)
{
    for (size_t i = 0; i < count && status == BO_OK; i++)
        if (outputs[i]->temporary && fsync(outputs[i]->fd) != 0)
            status = failed(context, outputs[i], "writing failed", errno);
    for (size_t i = 0; i < count; i++) status = bo_output_finish(context, outputs[i], status);
    return status;
}

bo_status bo_output_directory(bo_context *context, const char *path)
{
    struct stat about;
    const int error = mkdir(path, 0777) == 0 ? 0 : errno;
    /* an existing directory may have been created by a program that was killed before it flushed the name */
    if (!error || (error == EEXIST && stat(path, &about) == 0 && S_ISDIR(about.st_mode)))
        return bo_output_flush_name(context, path);
    return bo_fail(context, BO_IO, "%s: the directory cannot be created: %s", path,
                   strerror(error == EEXIST ? ENOTDIR : error));
}

bo_status bo_file_save(bo_context *context, const char *path, const void *bytes, size_t size)
{
    BO_REQUIRE(context, path);
    BO_REQUIRE_IF(context, size > 0, bytes);
    bo_output *output;
    BO_TRY(bo_output_open(context, path, &output));
    return bo_output_finish(context, output, bo_output_write(context, output, bytes, size));
}
