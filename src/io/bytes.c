/* Bytes from files, standard input and memory. gzip is recognized by its first bytes. */
#include "bytes.h"
#include "foreign.h"
#include "gzip.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { BO_RAW_BYTES = BO_SIZE(1 << 18, 16), FIRST_BYTES = BO_SIZE(4096, 8) };
_Static_assert(2 <= FIRST_BYTES && FIRST_BYTES <= BO_RAW_BYTES, "the bytes that are looked at first fit the buffer");

/* The raw bytes come from `fd` (pread when regular, read otherwise) or from `memory`. When compressed they pass through
 * `raw` into the inflater. `ahead` holds bytes that were looked at and not consumed: [begin, end). */
struct bo_bytes {
    char *path;
    int fd;
    bool owns_fd, regular, compressed;
    const unsigned char *memory;
    uint64_t raw_size, raw_at;
    unsigned char *raw;
    size_t raw_begin, raw_end;
    bo_inflater *inflater;
    unsigned char *ahead;
    size_t begin, end, capacity;
};

/* Waits until a pipe has data and checks for cancellation meanwhile, which a blocking read could not. */
static bo_status wait_for_bytes(bo_context *context, const bo_bytes *bytes)
{
    enum { MILLISECONDS = 200 };
    for (;;) {
        struct pollfd input = {.fd = bytes->fd, .events = POLLIN};
        int ready = poll(&input, 1, MILLISECONDS);
        if (ready < 0 && errno != EINTR)
            return bo_fail(context, BO_IO, "%s: reading failed: %s", bytes->path, strerror(errno));
        if (ready > 0) return BO_OK;
        BO_TRY(bo_progress(context, "reading", (double)bytes->raw_at, 0));
    }
}

static bo_status read_raw(bo_context *context, bo_bytes *bytes, void *data, size_t want, size_t *got)
{
    *got = 0;
    if (bytes->memory) {
        size_t left = (size_t)(bytes->raw_size - bytes->raw_at);
        *got = want < left ? want : left;
        memcpy(data, bytes->memory + bytes->raw_at, *got);
        bytes->raw_at += *got;
        return BO_OK;
    }
    while (*got < want) {
        size_t piece = want - *got < ((size_t)1 << 30) ? want - *got : (size_t)1 << 30;
        char *to = (char *)data + *got;
        if (!bytes->regular) BO_TRY(wait_for_bytes(context, bytes));
        ssize_t n = bytes->regular ? pread(bytes->fd, to, piece, (off_t)bytes->raw_at) : read(bytes->fd, to, piece);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return bo_fail(context, BO_IO, "%s: reading failed: %s", bytes->path, strerror(errno));
        if (n == 0) break;
        *got += (size_t)n;
        bytes->raw_at += (uint64_t)n;
    }
    return BO_OK;
}

static bo_status read_inflated(bo_context *context, bo_bytes *bytes, void *data, size_t want, size_t *got)
{
    *got = 0;
    while (*got < want) {
        if (bytes->raw_begin == bytes->raw_end) {
            bytes->raw_begin = 0;
            BO_TRY(read_raw(context, bytes, bytes->raw, BO_RAW_BYTES, &bytes->raw_end));
        }
        size_t eaten, made;
        bool ended;
        BO_TRY(bo_inflater_run(context, bytes->inflater, bytes->path, bytes->raw + bytes->raw_begin,
                               bytes->raw_end - bytes->raw_begin, (unsigned char *)data + *got, want - *got, &eaten,
                               &made, &ended));
        bytes->raw_begin += eaten;
        *got += made;
        if (ended) break;
    }
    return BO_OK;
}

static bo_status read_plain(bo_context *context, bo_bytes *bytes, void *data, size_t want, size_t *got)
{
    return bytes->compressed ? read_inflated(context, bytes, data, want, got)
                             : read_raw(context, bytes, data, want, got);
}

/* Checks the first two bytes; of an uncompressed file the bytes read become look-ahead. */
static bo_status detect_gzip(bo_context *context, bo_bytes *bytes)
{
    bytes->raw = bo_alloc_raw(context, BO_RAW_BYTES, 1, "an input buffer");
    if (!bytes->raw) return BO_MEMORY;
    BO_TRY(read_raw(context, bytes, bytes->raw, FIRST_BYTES, &bytes->raw_end));
    if (bytes->raw_end >= 2 && bytes->raw[0] == 0x1f && bytes->raw[1] == 0x8b) {
        bytes->compressed = true;
        return bo_inflater_create(context, &bytes->inflater);
    }
    bytes->ahead = bytes->raw;
    bytes->capacity = BO_RAW_BYTES;
    bytes->begin = 0;
    bytes->end = bytes->raw_end;
    bytes->raw = NULL;
    bytes->raw_begin = bytes->raw_end = 0;
    return BO_OK;
}

static bo_status write_all(bo_context *context, int fd, const char *name, const char *folder, const unsigned char *data,
                           size_t size)
{
    while (size > 0) {
        ssize_t n = write(fd, data, size);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0)
            return bo_fail(
                context, BO_IO,
                "%s: cannot be copied to a temporary file in %s: %s (set TMPDIR to a folder with enough space)", name,
                folder, strerror(errno));
        data += n;
        size -= (size_t)n;
    }
    return BO_OK;
}

/* Refuses what no table reader takes before it is copied: a device may never end. */
static bo_status refuse_foreign(bo_context *context, const char *path, const unsigned char *data, size_t size)
{
    BO_TRY(bo_foreign_refuse(context, path, data, size, BO_READABLE_TABLES));
    if (size < 4 || !memchr(data, 0, size)) return BO_OK;
    const bool gzip = data[0] == 0x1f && data[1] == 0x8b, npy = size >= 6 && memcmp(data, "\x93NUMPY", 6) == 0;
    const bool idx = data[0] == 0 && data[1] == 0 && data[2] >= 8 && data[2] <= 14;
    return gzip || npy || idx ? BO_OK : bo_foreign_unknown(context, path, BO_READABLE_TABLES);
}

static bo_status copy_input(bo_context *context, bo_bytes *bytes, int fd, const char *folder, uint64_t *total)
{
    unsigned char *copy = bo_alloc_raw(context, BO_RAW_BYTES, 1, "an input buffer");
    bo_status status = copy ? BO_OK : BO_MEMORY;
    *total = 0;
    for (size_t got = 1; status == BO_OK && got > 0; *total += got) {
        status = read_raw(context, bytes, copy, BO_RAW_BYTES, &got);
        if (status == BO_OK && *total == 0) status = refuse_foreign(context, bytes->path, copy, got);
        if (status == BO_OK) status = write_all(context, fd, bytes->path, folder, copy, got);
        if (status == BO_OK) status = bo_progress(context, "copying the input", (double)*total, 0);
    }
    bo_free(copy);
    return status;
}

/* Copies a pipe into an unlinked temporary file and reads from that instead. */
static bo_status spool_input(bo_context *context, bo_bytes *bytes)
{
    const char *folder = getenv("TMPDIR");
    char name[4096];
    if (!folder || !*folder) folder = "/tmp";
    if (snprintf(name, sizeof name, "%s/bochner-XXXXXX", folder) >= (int)sizeof name)
        return bo_fail(context, BO_INVALID, "TMPDIR: expected a path of fewer than %zu characters", sizeof name);
    int fd = mkostemp(name, O_CLOEXEC);
    if (fd < 0)
        return bo_fail(context, BO_IO,
                       "%s: cannot create a temporary file for it in %s: %s (set TMPDIR to another folder)",
                       bytes->path, folder, strerror(errno));
    unlink(name);
    uint64_t total;
    bo_status status = copy_input(context, bytes, fd, folder, &total);
    if (status != BO_OK) {
        close(fd);
        return status;
    }
    if (bytes->owns_fd) close(bytes->fd);
    bytes->fd = fd;
    bytes->owns_fd = bytes->regular = true;
    bytes->raw_at = 0;
    bytes->raw_size = total;
    return BO_OK;
}

static bo_status open_file(bo_context *context, bo_bytes *bytes, const char *path, bool spool)
{
    bool standard = strcmp(path, "-") == 0;
    bytes->path = bo_strdup(context, standard ? "standard input" : path);
    if (!bytes->path) return BO_MEMORY;
    if (standard) {
        bytes->fd = STDIN_FILENO;
    } else {
        bytes->fd = open(path, O_RDONLY | O_CLOEXEC);
        if (bytes->fd < 0) return bo_fail(context, BO_IO, "%s: cannot be opened: %s", path, strerror(errno));
        bytes->owns_fd = true;
        struct stat about;
        if (fstat(bytes->fd, &about) != 0)
            return bo_fail(context, BO_IO, "%s: cannot get its status: %s", path, strerror(errno));
        if (S_ISDIR(about.st_mode)) return bo_fail(context, BO_IO, "%s: is a folder, not a file", path);
        bytes->regular = S_ISREG(about.st_mode);
        bytes->raw_size = bytes->regular ? (uint64_t)about.st_size : 0;
#ifdef POSIX_FADV_SEQUENTIAL
        if (bytes->regular) posix_fadvise(bytes->fd, 0, 0, POSIX_FADV_SEQUENTIAL);
#endif
    }
    if (!bytes->regular && spool) BO_TRY(spool_input(context, bytes));
    return detect_gzip(context, bytes);
}

bo_status bo_bytes_open(bo_context *context, const char *path, bool spool, bo_bytes **out)
{
    *out = NULL;
    if (!path || !*path) return bo_fail(context, BO_INVALID, "expected the name of a file, found none");
    bo_bytes *bytes = bo_alloc(context, 1, sizeof *bytes, "an input");
    if (!bytes) return BO_MEMORY;
    bytes->fd = -1;
    bo_status status = open_file(context, bytes, path, spool);
    if (status != BO_OK)
        bo_bytes_close(bytes);
    else
        *out = bytes;
    return status;
}

bo_status bo_bytes_open_memory(bo_context *context, const char *name, const void *data, size_t size, bo_bytes **out)
{
    *out = NULL;
    bo_bytes *bytes = bo_alloc(context, 1, sizeof *bytes, "an input");
    if (!bytes) return BO_MEMORY;
    bytes->fd = -1;
    bytes->memory = size ? data : (const void *)"";
    bytes->raw_size = size;
    bytes->regular = true;
    bytes->path = bo_strdup(context, name);
    bo_status status = bytes->path ? detect_gzip(context, bytes) : BO_MEMORY;
    if (status != BO_OK)
        bo_bytes_close(bytes);
    else
        *out = bytes;
    return status;
}

void bo_bytes_close(bo_bytes *bytes)
{
    if (!bytes) return;
    if (bytes->owns_fd && bytes->fd >= 0) close(bytes->fd);
    bo_inflater_destroy(bytes->inflater);
    bo_free(bytes->raw);
    bo_free(bytes->ahead);
    bo_free(bytes->path);
    bo_free(bytes);
}

const char *bo_bytes_path(const bo_bytes *bytes)
{
    return bytes->path;
}

bool bo_bytes_rewindable(const bo_bytes *bytes)
{
    return bytes->regular;
}

bool bo_bytes_seekable(const bo_bytes *bytes)
{
    return bytes->regular && !bytes->compressed;
}

uint64_t bo_bytes_bound(const bo_bytes *bytes)
{
    if (!bytes->regular) return UINT64_MAX;
    if (!bytes->compressed) return bytes->raw_size;
    return bytes->raw_size > UINT64_MAX / 1032 ? UINT64_MAX : bytes->raw_size * 1032;
}

double bo_bytes_progress(const bo_bytes *bytes, double *total)
{
    *total = (double)bytes->raw_size;
    return (double)bytes->raw_at;
}

bo_status bo_bytes_peek(bo_context *context, bo_bytes *bytes, size_t want, const unsigned char **data, size_t *have)
{
    if (bytes->end - bytes->begin < want) {
        if (bytes->begin > 0) memmove(bytes->ahead, bytes->ahead + bytes->begin, bytes->end - bytes->begin);
        bytes->end -= bytes->begin;
        bytes->begin = 0;
        if (bytes->capacity < want) {
            unsigned char *larger = bo_realloc(context, bytes->ahead, want, 1, "a look-ahead buffer");
            if (!larger) return BO_MEMORY;
            bytes->ahead = larger;
            bytes->capacity = want;
        }
        size_t got;
        BO_TRY(read_plain(context, bytes, bytes->ahead + bytes->end, want - bytes->end, &got));
        bytes->end += got;
    }
    *data = bytes->ahead + bytes->begin;
    *have = bytes->end - bytes->begin;
    return BO_OK;
}

bo_status bo_bytes_read(bo_context *context, bo_bytes *bytes, void *data, size_t want, size_t *got)
{
    size_t ready = bytes->end - bytes->begin, more = 0;
    if (ready > want) ready = want;
    if (ready) memcpy(data, bytes->ahead + bytes->begin, ready);
    bytes->begin += ready;
    *got = ready;
    if (ready < want) BO_TRY(read_plain(context, bytes, (unsigned char *)data + ready, want - ready, &more));
    *got += more;
    return BO_OK;
}

bo_status bo_bytes_read_at(bo_context *context, bo_bytes *bytes, uint64_t offset, void *data, size_t size)
{
    if (!bo_bytes_seekable(bytes))
        return bo_fail(context, BO_UNSUPPORTED, "%s: cannot be read out of order: it is compressed or a pipe",
                       bytes->path);
    uint64_t kept = bytes->raw_at;
    size_t got;
    if (offset > bytes->raw_size) offset = bytes->raw_size;
    bytes->raw_at = offset;
    bo_status status = read_raw(context, bytes, data, size, &got);
    bytes->raw_at = kept;
    if (status == BO_OK && got < size)
        status = bo_fail(context, BO_FORMAT, "%s: the file is truncated: expected %zu bytes at offset %llu, found %zu",
                         bytes->path, size, (unsigned long long)offset, got);
    return status;
}

bo_status bo_bytes_rewind(bo_context *context, bo_bytes *bytes)
{
    if (!bytes->regular)
        return bo_fail(context, BO_UNSUPPORTED,
                       "%s: a pipe can be read only once, but a second pass is needed; use a file", bytes->path);
    bytes->raw_at = 0;
    bytes->raw_begin = bytes->raw_end = 0;
    bytes->begin = bytes->end = 0;
    if (bytes->inflater) bo_inflater_reset(bytes->inflater);
    return BO_OK;
}

bo_status bo_bytes_text(bo_context *context, const char *path, char **out, size_t *length)
{
    bo_bytes *bytes;
    size_t capacity = 1 << 16, used = 0, got = 0;
    *out = NULL;
    BO_TRY(bo_bytes_open(context, path, false, &bytes));
    char *text = bo_alloc_raw(context, capacity, 1, "a file");
    bo_status status = text ? BO_OK : BO_MEMORY;
    while (status == BO_OK) {
        status = bo_bytes_read(context, bytes, text + used, capacity - 1 - used, &got);
        used += got;
        if (status != BO_OK || used < capacity - 1) break;
        char *larger = bo_realloc(context, text, capacity *= 2, 1, "a file");
        if (!larger) status = BO_MEMORY;
        if (larger) text = larger;
    }
    bo_bytes_close(bytes);
    if (status != BO_OK) {
        bo_free(text);
        return status;
    }
    text[used] = 0;
    *out = text;
    *length = used;
    return BO_OK;
}
