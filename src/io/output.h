/* Bytes out: a file that appears whole or not at all (written beside its place under another name, flushed, renamed), or
 * memory. Writers see an output only, so that a file and its image in memory have the same bytes. */
#ifndef BO_IO_OUTPUT_H
#define BO_IO_OUTPUT_H

#include "../base/base.h"

typedef struct bo_output bo_output;

/* What exists and is no regular file (a device, a pipe) is written to directly. */
bo_status bo_output_open(bo_context *context, const char *path, bo_output **out);
/* Into memory: committing sets *bytes (released with bo_free) and *size. Until then, and after a failure, they are NULL and 0. */
bo_status bo_output_open_memory(bo_context *context, void **bytes, size_t *size, bo_output **out);
const char *bo_output_path(const bo_output *output); /* for messages; "memory" */
/* In memory: room for `size` more bytes, so that a large image is not moved while it grows. A file ignores it. */
bo_status bo_output_reserve(bo_context *context, bo_output *output, size_t size);
bo_status bo_output_write(bo_context *context, bo_output *output, const void *data, size_t size);
/* Flush, rename, flush the folder. The output is gone afterwards, also when it fails; then nothing is left behind. */
bo_status bo_output_commit(bo_context *context, bo_output *output);
void bo_output_abandon(bo_output *output);
/* Ends an output by what became of it: commits where `status` is BO_OK, else abandons and returns `status`. */
bo_status bo_output_finish(bo_context *context, bo_output *output, bo_status status);

#endif
