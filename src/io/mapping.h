/* The bytes of a file, all at once: a plain file is mapped, what is compressed or comes from a pipe is read into memory. */
#ifndef BO_IO_MAPPING_H
#define BO_IO_MAPPING_H

#include "../base/base.h"
#include <sys/types.h>

typedef struct bo_mapping {
    const char *data; /* not NULL, even of an empty file */
    size_t size;
    bool mapped; /* data is the kernel's; else it was allocated (or the file is empty) */
    char *memory;
    dev_t device; /* of a mapped file, whatever has its name by now */
    ino_t inode;
} bo_mapping;

/* path "-" is standard input. */
bo_status bo_mapping_open(bo_context *context, const char *path, bo_mapping *out);
/* The same, in memory even where it could be mapped: what others do to the file no longer matters. */
bo_status bo_mapping_read(bo_context *context, const char *path, bo_mapping *out);
/* A copy of bytes that lie in memory, as if they had been read from a file. */
bo_status bo_mapping_copy(bo_context *context, const void *bytes, size_t size, bo_mapping *out);
/* BO_IO where the file has become shorter: to read beyond its end would end the process (SIGBUS). One that was replaced or
 * removed stays as it was. */
bo_status bo_mapping_check(bo_context *context, const bo_mapping *mapping, const char *path);
void bo_mapping_close(bo_mapping *mapping);

#endif
