/* Whole files, mapped or read into memory. */
#include "mapping.h"
#include "bytes.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* Reads the rest of `bytes` into memory that doubles as needed. */
static bo_status read_whole(bo_context *context, bo_bytes *bytes, bo_mapping *out)
{
    enum { FIRST_BYTES = BO_SIZE(1 << 20, 16) };
    size_t capacity = 0, got = 1;
    while (got > 0) {
        if (out->size == capacity) {
            capacity = capacity ? 2 * capacity : FIRST_BYTES;
            char *larger = bo_realloc(context, out->memory, capacity, 1, bo_bytes_path(bytes));
            if (!larger) return BO_MEMORY;
            out->memory = larger;
        }
        double total = 0, done = bo_bytes_progress(bytes, &total);
        BO_TRY(bo_progress(context, "reading", done, total));
        size_t want = capacity - out->size < FIRST_BYTES ? capacity - out->size : FIRST_BYTES;
        BO_TRY(bo_bytes_read(context, bytes, out->memory + out->size, want, &got));
        out->size += got;
    }
    out->data = out->memory;
    return BO_OK;
}

static bo_status map_file(bo_context *context, const char *path, bo_mapping *out)
{
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) return bo_fail(context, BO_IO, "%s: cannot be opened: %s", path, strerror(errno));
    struct stat about;
    bo_status status = BO_OK;
    if (fstat(file, &about) != 0) {
        status = bo_fail(context, BO_IO, "%s: cannot get its status: %s", path, strerror(errno));
    } else if (about.st_size > 0) {
        void *data = mmap(NULL, (size_t)about.st_size, PROT_READ, MAP_PRIVATE, file, 0);
        if (data == MAP_FAILED)
            status = bo_fail(context, BO_IO, "%s: cannot be mapped into memory: %s", path, strerror(errno));
        else
            *out = (bo_mapping){.data = data,
                                .size = (size_t)about.st_size,
                                .mapped = true,
                                .device = about.st_dev,
                                .inode = about.st_ino};
    }
    close(file);
    return status;
}

static bo_status open_file(bo_context *context, const char *path, bool map, bo_mapping *out)
{
    *out = (bo_mapping){.data = ""};
    bo_bytes *bytes;
    BO_TRY(bo_bytes_open(context, path, false, &bytes));
    const bool plain = map && bo_bytes_seekable(bytes);
    bo_status status = plain ? map_file(context, path, out) : read_whole(context, bytes, out);
    bo_bytes_close(bytes);
    if (status != BO_OK) bo_mapping_close(out);
    return status;
}

bo_status bo_mapping_open(bo_context *context, const char *path, bo_mapping *out)
{
    return open_file(context, path, true, out);
}

bo_status bo_mapping_read(bo_context *context, const char *path, bo_mapping *out)
{
    return open_file(context, path, false, out);
}

bo_status bo_mapping_copy(bo_context *context, const void *bytes, size_t size, bo_mapping *out)
{
    *out = (bo_mapping){.data = ""};
    char *copy = bo_alloc_raw(context, size, 1, "a copy of text in memory");
    if (!copy) return BO_MEMORY;
    memcpy(copy, bytes, size);
    *out = (bo_mapping){.data = copy, .memory = copy, .size = size};
    return BO_OK;
}

bo_status bo_mapping_check(bo_context *context, const bo_mapping *mapping, const char *path)
{
    struct stat about;
    if (!mapping->mapped || stat(path, &about) != 0) return BO_OK;
    const bool same = about.st_dev == mapping->device && about.st_ino == mapping->inode;
    if (!same || (size_t)about.st_size >= mapping->size) return BO_OK;
    return bo_fail(context, BO_IO, "%s: the file became shorter while it was read: expected %zu bytes, found %zu", path,
                   mapping->size, (size_t)about.st_size);
}

void bo_mapping_close(bo_mapping *mapping)
{
    if (mapping->mapped) munmap((void *)(uintptr_t)mapping->data, mapping->size);
    bo_free(mapping->memory);
    *mapping = (bo_mapping){.data = ""};
}
