/* Complete texts, mapped or read into memory. */
#include "mapping.h"
#include "bytes.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

static bo_status map_file(bo_context *context, const bo_bytes *bytes, bo_mapping *out)
{
    struct stat about;
    const int file = bo_bytes_descriptor(bytes);
    const char *path = bo_bytes_path(bytes);
    if (fstat(file, &about) != 0)
        return bo_fail(context, BO_IO, "%s: cannot get its status: %s", path, strerror(errno));
    void *data;
    BO_TRY(bo_input_map(context, path, file, (size_t)about.st_size, &data));
    if (data)
        *out = (bo_mapping){
            .data = data, .size = (size_t)about.st_size, .mapped = true, .device = about.st_dev, .inode = about.st_ino};
    return BO_OK;
}

static bo_status open_text(bo_context *context, const char *path, bool map, bo_mapping *out)
{
    *out = (bo_mapping){.data = ""};
    bo_bytes *bytes;
    BO_TRY(bo_bytes_open(context, path, &bo_limits_text, false, &bytes));
    const bool plain = map && bo_bytes_seekable(bytes);
    const bo_status status =
        plain ? map_file(context, bytes, out) : bo_bytes_rest(context, bytes, &out->memory, &out->size);
    bo_bytes_close(bytes);
    if (out->memory) out->data = out->memory;
    return status;
}

bo_status bo_mapping_open(bo_context *context, const char *path, bo_mapping *out)
{
    return open_text(context, path, true, out);
}

bo_status bo_mapping_read(bo_context *context, const char *path, bo_mapping *out)
{
    return open_text(context, path, false, out);
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
