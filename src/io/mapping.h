/* A complete text as bytes. A plain file is mapped; a compressed file or a pipe is read into memory. The limits are
 * bo_limits_text. */
#ifndef BO_IO_MAPPING_H
#define BO_IO_MAPPING_H

#include "../base/base.h"
#include <sys/types.h>

typedef struct bo_mapping {
    const char *data; /* not NULL, even for an empty file */
    size_t size;
    bool mapped; /* data is mapped; otherwise it is allocated, or the file is empty */
    char *memory;
    dev_t device; /* of the mapped file; its path may name another file later */
    ino_t inode;
} bo_mapping;

/* The path "-" is standard input. */
bo_status bo_mapping_open(bo_context *context, const char *path, bo_mapping *out);
/* The same, always read into memory, so that later changes of the file have no effect. */
bo_status bo_mapping_read(bo_context *context, const char *path, bo_mapping *out);
/* A copy of bytes in memory, as if they had been read from a file. */
bo_status bo_mapping_copy(bo_context *context, const void *bytes, size_t size, bo_mapping *out);
/* BO_IO if the mapped file became shorter: reading beyond its end would kill the process (SIGBUS). A file that was
 * replaced or removed stays readable. */
bo_status bo_mapping_check(bo_context *context, const bo_mapping *mapping, const char *path);
void bo_mapping_close(bo_mapping *mapping);

#endif
