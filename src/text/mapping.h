/* The bytes of a file, all at once: a plain file is mapped, what is compressed or comes from a pipe is read into memory. */
#ifndef BO_TEXT_MAPPING_H
#define BO_TEXT_MAPPING_H

#include "../base/base.h"

typedef struct bo_mapping {
    const char *data; /* not NULL, even of an empty file */
    size_t size;
    bool mapped; /* data is the kernel's; else it was allocated (or the file is empty) */
    char *memory;
} bo_mapping;

/* path "-" is standard input. A file that shrinks while it is mapped ends the process, as with any mapping. */
bo_status bo_mapping_open(bo_context *context, const char *path, bo_mapping *out);
void bo_mapping_close(bo_mapping *mapping);

#endif
