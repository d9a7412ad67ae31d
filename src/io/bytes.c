/* Bytes from files, standard input and memory. gzip is recognized by its first bytes. */
#include <bochner/data.h>
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
_Static_assert(2 <= FIRST_BYTES && FIRST_BYTES <= BO_RAW_BYTES, "the peeked bytes fit the buffer");

/* The raw bytes come from `fd` (pread when regular, read otherwise) or from `memory`. When compressed they pass through
 * `raw` into the inflater. `ahead` holds bytes that were peeked and not consumed: [begin, end). Invariant: produced <=
 * limits.bytes, where `produced` counts the bytes after decompression since the start of the input. */
struct bo_bytes {
    char *path;
    bo_limits limits;
    uint64_t produced;
    int fd;
    bool owns_fd, regular, compressed;
    bool spooled; /* `fd` is a temporary copy */
    const unsigned char *memory;
    void *collected; /* memory that it owns; NULL: none */
    uint64_t raw_size, raw_at;
    unsigned char *raw;
    size_t raw_begin, raw_end;
    bo_inflater *inflater;
    unsigned char *ahead;
    size_t begin, end, capacity;
};

/* Waits until a pipe has data. Unlike a blocking read, it checks for cancellation meanwhile. */
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

static bo_status read_raw(bo_context *context, bo_bytes *bytes, void *data, size_t size, size_t *got)
{
    *got = 0;
    if (bytes->memory) {
        size_t left = (size_t)(bytes->raw_size - bytes->raw_at);
        *got = size < left ? size : left;
        memcpy(data, bytes->memory + bytes->raw_at, *got);
        bytes->raw_at += *got;
        return BO_OK;
    }
    while (*got < size) {
        size_t piece = size - *got < ((size_t)1 << 30) ? size - *got : (size_t)1 << 30;
        char *to = (char *)data + *got;
        if (!bytes->regular) BO_TRY(wait_for_bytes(context, bytes));
        ssize_t n = bytes->regular ? pread(bytes->fd, to, piece, (off_t)bytes->raw_at) : read(bytes->fd, to, piece);
        if (n < 0 && (errno == EINTR || errno == EAGAIN)) continue;
        if (n < 0) return bo_fail(context, BO_IO, "%s: reading failed: %s", bytes->path, strerror(errno));
        if (n == 0) break;
        *got += (size_t)n;
        bytes->raw_at += (uint64_t)n;
    }
    return BO_OK;
}

static bo_status read_inflated(bo_context *context, bo_bytes *bytes, void *data, size_t size, size_t *got)
{
    *got = 0;
    while (*got < size) {
        if (bytes->raw_begin == bytes->raw_end) {
            bytes->raw_begin = 0;
            BO_TRY(read_raw(context, bytes, bytes->raw, BO_RAW_BYTES, &bytes->raw_end));
        }
        size_t consumed, produced;
        bool ended;
        BO_TRY(bo_inflater_run(context, bytes->inflater, bytes->path, bytes->raw + bytes->raw_begin,
                               bytes->raw_end - bytes->raw_begin, (unsigned char *)data + *got, size - *got, &consumed,
                               &produced, &ended));
        bytes->raw_begin += consumed;
        *got += produced;
        if (ended) break;
    }
    return BO_OK;
}

/* Counts bytes after decompression and compares them with the limits. */
static bo_status count_produced(bo_context *context, bo_bytes *bytes, size_t count)
{
    const bo_limits *limits = &bytes->limits;
    if (count > limits->bytes - bytes->produced)
        return bo_input_too_large(context, bytes->path, limits->bytes + 1, true, limits->bytes);
    bytes->produced += count;
    if (!bytes->compressed || !limits->whole || bytes->produced <= BO_RATIO_BYTES ||
        bytes->produced / BO_MAX_RATIO <= bytes->raw_at)
        return BO_OK;
    return bo_fail(
        context, BO_FORMAT,
        "%s: the gzip data expands to more than %d times its size; decompress the file first if it is correct",
        bytes->path, BO_MAX_RATIO);
}

static bo_status read_plain(bo_context *context, bo_bytes *bytes, void *data, size_t size, size_t *got)
{
    BO_TRY(bytes->compressed ? read_inflated(context, bytes, data, size, got)
                             : read_raw(context, bytes, data, size, got));
    return count_produced(context, bytes, *got);
}

/* Checks the first two bytes. For an uncompressed file, the bytes read become look-ahead. */
static bo_status detect_gzip(bo_context *context, bo_bytes *bytes)
{
    bytes->raw = bo_alloc_raw(context, BO_RAW_BYTES, 1, "an input buffer");
    if (!bytes->raw) return BO_MEMORY;
    BO_TRY(read_raw(context, bytes, bytes->raw, FIRST_BYTES, &bytes->raw_end));
    if (!bytes->limits.raw && bytes->raw_end >= 2 && bytes->raw[0] == 0x1f && bytes->raw[1] == 0x8b) {
        bytes->compressed = true;
        return bo_inflater_create(context, &bytes->inflater);
    }
    bytes->ahead = bytes->raw;
    bytes->capacity = BO_RAW_BYTES;
    bytes->begin = 0;
    bytes->end = bytes->raw_end;
    bytes->raw = NULL;
    bytes->raw_begin = bytes->raw_end = 0;
    return count_produced(context, bytes, bytes->end);
}

static bo_status write_all(bo_context *context, int fd, const char *name, const char *directory,
                           const unsigned char *data, size_t size)
{
    while (size > 0) {
        ssize_t n = write(fd, data, size);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0)
            return bo_fail(
                context, BO_IO,
                "%s: cannot be copied to a temporary file in %s: %s (set TMPDIR to a directory with enough space)",
                name, directory, strerror(errno));
        data += n;
        size -= (size_t)n;
    }
    return BO_OK;
}

/* Refuses unreadable input before it is copied. `data`, the first bytes, may come from a device without an end or from
 * a file of another format. Texts may contain any bytes. */
static bo_status refuse_foreign(bo_context *context, const bo_bytes *bytes, const unsigned char *data, size_t size)
{
    const bool text = bytes->limits.whole;
    const char *path = bytes->path;
    struct stat about;
    if (size == 0) return BO_OK;
    BO_TRY(bo_input_check(context, path, &bytes->limits, bytes->fd, &about));
    BO_TRY(bo_foreign_refuse(context, path, data, size, text ? BO_READABLE_TEXT : BO_READABLE_TABLES));
    if (text || size < 4 || !memchr(data, 0, size)) return BO_OK;
    const bool gzip = data[0] == 0x1f && data[1] == 0x8b, npy = size >= 6 && memcmp(data, "\x93NUMPY", 6) == 0;
    const bool idx = data[0] == 0 && data[1] == 0 && data[2] >= 8 && data[2] <= 14;
    return gzip || npy || idx ? BO_OK : bo_foreign_unknown(context, path, BO_READABLE_TABLES);
}

static bo_status copy_input(bo_context *context, bo_bytes *bytes, int fd, const char *directory, uint64_t *total)
{
    unsigned char *copy = bo_alloc_raw(context, BO_RAW_BYTES, 1, "an input buffer");
    bo_status status = copy ? BO_OK : BO_MEMORY;
    *total = 0;
    for (size_t got = 1; status == BO_OK && got > 0; *total += got) {
        status = read_raw(context, bytes, copy, BO_RAW_BYTES, &got);
        if (status == BO_OK && *total == 0) status = refuse_foreign(context, bytes, copy, got);
        if (status == BO_OK && got > bytes->limits.bytes - *total)
            status = bo_input_too_large(context, bytes->path, bytes->limits.bytes + 1, true, bytes->limits.bytes);
        if (status == BO_OK) status = write_all(context, fd, bytes->path, directory, copy, got);
        if (status == BO_OK) status = bo_progress(context, "copying the input", (double)*total, 0);
    }
    bo_free(copy);
    return status;
}

/* Copies a pipe into an unlinked temporary file and reads from the file instead. */
static bo_status spool_input(bo_context *context, bo_bytes *bytes)
{
    const char *directory = getenv("TMPDIR");
    char name[4096];
    if (!directory || !*directory) directory = "/tmp";
    if (snprintf(name, sizeof name, "%s/bochner-XXXXXX", directory) >= (int)sizeof name)
        return bo_fail(context, BO_INVALID, "TMPDIR: expected a path of fewer than %zu characters", sizeof name);
    int fd = mkostemp(name, O_CLOEXEC);
    if (fd < 0)
        return bo_fail(context, BO_IO,
                       "%s: cannot create a temporary file for it in %s: %s (set TMPDIR to another directory)",
                       bytes->path, directory, strerror(errno));
    unlink(name);
    uint64_t total;
    bo_status status = copy_input(context, bytes, fd, directory, &total);
    if (status != BO_OK) {
        close(fd);
        return status;
    }
    if (bytes->owns_fd) close(bytes->fd);
    bytes->fd = fd;
    bytes->owns_fd = bytes->regular = bytes->spooled = true;
    bytes->raw_at = 0;
    bytes->raw_size = total;
    return BO_OK;
}

static bo_status open_file(bo_context *context, bo_bytes *bytes, const char *path, bool spool)
{
    const bool standard = bytes->limits.streams && strcmp(path, "-") == 0;
    bytes->path = bo_strdup(context, standard ? "standard input" : path);
    if (!bytes->path) return BO_MEMORY;
    if (standard) {
        bytes->fd = STDIN_FILENO;
    } else {
        struct stat about;
        BO_TRY(bo_input_open(context, path, &bytes->limits, &bytes->fd, &about));
        bytes->owns_fd = true;
        bytes->regular = S_ISREG(about.st_mode);
        bytes->raw_size = bytes->regular ? (uint64_t)about.st_size : 0;
#ifdef POSIX_FADV_SEQUENTIAL
        if (bytes->regular) posix_fadvise(bytes->fd, 0, 0, POSIX_FADV_SEQUENTIAL);
#endif
    }
    if (!bytes->regular && spool) BO_TRY(spool_input(context, bytes));
    return detect_gzip(context, bytes);
}

bo_status bo_bytes_open(bo_context *context, const char *path, const bo_limits *limits, bool spool, bo_bytes **out)
{
    *out = NULL;
    if (!path || !*path) return bo_fail(context, BO_INVALID, "expected the name of a file, found none");
    bo_bytes *bytes = bo_alloc(context, 1, sizeof *bytes, "an input");
    if (!bytes) return BO_MEMORY;
    bytes->fd = -1;
    bytes->limits = *limits;
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
    bytes->limits = bo_limits_table;
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

bo_status bo_bytes_open_source(bo_context *context, const bo_source *source, const bo_limits *limits, bool spool,
                               bo_bytes **out)
{
    void *collected = NULL;
    size_t size = source->size;
    *out = NULL;
    BO_TRY(bo_source_check(context, source));
    if (source->path) return bo_bytes_open(context, source->path, limits, spool, out);
    if (source->read) BO_TRY(bo_source_collect(context, source, limits, &collected, &size));
    const void *bytes = collected ? collected : source->bytes;
    const bo_status status = bo_bytes_open_memory(context, bo_source_name(source), bytes, size, out);
    if (status == BO_OK)
        (*out)->collected = collected;
    else
        bo_free(collected);
    return status;
}

void bo_bytes_close(bo_bytes *bytes)
{
    if (!bytes) return;
    if (bytes->owns_fd && bytes->fd >= 0) close(bytes->fd);
    bo_inflater_destroy(bytes->inflater);
    bo_free(bytes->raw);
    bo_free(bytes->ahead);
    bo_free(bytes->collected);
    bo_free(bytes->path);
    bo_free(bytes);
}

const char *bo_bytes_path(const bo_bytes *bytes)
{
    return bytes->path;
}

int bo_bytes_descriptor(const bo_bytes *bytes)
{
    return bytes->fd;
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

bo_status bo_bytes_peek(bo_context *context, bo_bytes *bytes, size_t size, const unsigned char **data, size_t *have)
{
    if (bytes->end - bytes->begin < size) {
        if (bytes->begin > 0) memmove(bytes->ahead, bytes->ahead + bytes->begin, bytes->end - bytes->begin);
        bytes->end -= bytes->begin;
        bytes->begin = 0;
        if (bytes->capacity < size) {
            unsigned char *larger = bo_realloc(context, bytes->ahead, size, 1, "a look-ahead buffer");
            if (!larger) return BO_MEMORY;
            bytes->ahead = larger;
            bytes->capacity = size;
        }
        size_t got;
        BO_TRY(read_plain(context, bytes, bytes->ahead + bytes->end, size - bytes->end, &got));
        bytes->end += got;
    }
    *data = bytes->ahead + bytes->begin;
    *have = bytes->end - bytes->begin;
    return BO_OK;
}

bo_status bo_bytes_read(bo_context *context, bo_bytes *bytes, void *data, size_t size, size_t *got)
{
    size_t ready = bytes->end - bytes->begin, more = 0;
    if (ready > size) ready = size;
    if (ready) memcpy(data, bytes->ahead + bytes->begin, ready);
    bytes->begin += ready;
    *got = ready;
    if (ready < size) BO_TRY(read_plain(context, bytes, (unsigned char *)data + ready, size - ready, &more));
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
    bytes->raw_at = bytes->produced = 0;
    bytes->raw_begin = bytes->raw_end = 0;
    bytes->begin = bytes->end = 0;
    if (bytes->inflater) bo_inflater_reset(bytes->inflater);
    return BO_OK;
}

/* ---- whole inputs ------------------------------------------------------------------------------------------------ */

/* Grows the buffer to the whole input if its size is known, otherwise to twice the capacity. */
static bo_status grow(bo_context *context, const bo_bytes *bytes, char **text, size_t *capacity)
{
    enum { FIRST = BO_SIZE(1 << 16, 16), LARGE = 1 << 24 }; /* the limits are not queried for small inputs */
    const uint64_t known = bo_bytes_seekable(bytes) ? bytes->raw_size : 0;
    const uint64_t max_capacity = bytes->limits.bytes < UINT64_MAX - 2 ? bytes->limits.bytes + 2 : UINT64_MAX;
    uint64_t requested = *capacity ? 2 * (uint64_t)*capacity : known + FIRST;
    if (requested > max_capacity) requested = max_capacity; /* one byte more than allowed, and a NUL */
    if (requested >= LARGE)
        BO_TRY(bo_check_memory(context, bytes->path, (double)requested, bo_default_memory(), "use a smaller file"));
    char *larger = bo_realloc(context, *text, (size_t)requested, 1, bytes->path);
    if (!larger) return BO_MEMORY;
    *text = larger;
    *capacity = (size_t)requested;
    return BO_OK;
}

bo_status bo_bytes_rest(bo_context *context, bo_bytes *bytes, char **out, size_t *length)
{
    enum { PIECE = 1 << 20 };
    char *text = NULL;
    size_t capacity = 0, used = 0, got = 1;
    bo_status status = BO_OK;
    while (status == BO_OK && got > 0) {
        double total, done = bo_bytes_progress(bytes, &total);
        if (used + 1 >= capacity) status = grow(context, bytes, &text, &capacity);
        if (status == BO_OK) status = bo_progress(context, "reading", done, total);
        if (status != BO_OK) break;
        const size_t remaining = capacity - 1 - used;
        status = bo_bytes_read(context, bytes, text + used, remaining < PIECE ? remaining : PIECE, &got);
        used += got;
    }
    if (status != BO_OK) {
        bo_free(text);
        return status;
    }
    text[used] = 0;
    *out = text;
    *length = used;
    return BO_OK;
}

bo_status bo_bytes_text(bo_context *context, const char *path, const bo_limits *limits, char **out, size_t *length)
{
    bo_bytes *bytes;
    *out = NULL;
    BO_TRY(bo_bytes_open(context, path, limits, false, &bytes));
    const bo_status status = bo_bytes_rest(context, bytes, out, length);
    bo_bytes_close(bytes);
    return status;
}

bo_status bo_file_load(bo_context *context, const char *path, size_t max_size, void **bytes, size_t *size)
{
    if (bytes) *bytes = NULL;
    if (size) *size = 0;
    BO_REQUIRE(context, path, bytes, size);
    const bo_limits limits = {.bytes = max_size, .streams = strcmp(path, "-") == 0, .raw = true};
    char *text = NULL;
    const bo_status status = bo_bytes_text(context, path, &limits, &text, size);
    *bytes = text;
    return status;
}

bo_status bo_file_spool(bo_context *context, const char *path, int *descriptor)
{
    if (descriptor) *descriptor = -1;
    BO_REQUIRE(context, path, descriptor);
    bo_bytes *bytes;
    bo_status status = BO_OK;
    BO_TRY(bo_bytes_open(context, path, &bo_limits_text, true, &bytes));
    if (bytes->spooled && bytes->raw_size == 0)
        status = bo_fail(context, BO_INVALID, "%s: contains no text", bytes->path);
    if (bytes->spooled && status == BO_OK) {
        *descriptor = bytes->fd;
        bytes->owns_fd = false;
    }
    bo_bytes_close(bytes);
    return status;
}
