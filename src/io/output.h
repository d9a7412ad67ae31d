/* Output bytes: a file or memory. A file appears completely or not at all: it is written under a temporary name in the same
 * folder, flushed and renamed. Files and memory receive the same bytes. */
#ifndef BO_IO_OUTPUT_H
#define BO_IO_OUTPUT_H

#include "../base/base.h"

typedef struct bo_output bo_output;

/* An existing path that is not a regular file (a device, a pipe) is written directly. */
bo_status bo_output_open(bo_context *context, const char *path, bo_output **out);
/* Output to memory: committing sets *bytes (released with bo_free) and *size; before, and after a failure, they are NULL and 0. */
bo_status bo_output_open_memory(bo_context *context, void **bytes, size_t *size, bo_output **out);
const char *bo_output_path(const bo_output *output); /* for messages; "memory" for memory */
/* Memory: reserves room for `size` more bytes, so that large outputs are not copied while they grow. Ignored for files. */
bo_status bo_output_reserve(bo_context *context, bo_output *output, size_t size);
bo_status bo_output_write(bo_context *context, bo_output *output, const void *data, size_t size);
/* Flushes, renames and flushes the folder. Closes the output in any case; after a failure no file is left. */
bo_status bo_output_commit(bo_context *context, bo_output *output);
void bo_output_abandon(bo_output *output);
/* Commits if `status` is BO_OK; otherwise abandons the output and returns `status`. */
bo_status bo_output_finish(bo_context *context, bo_output *output, bo_status status);

#endif
