/* A file that appears whole or not at all: written beside its place under another name, flushed, renamed. */
#ifndef BO_IO_OUTPUT_H
#define BO_IO_OUTPUT_H

#include "../base/base.h"

typedef struct bo_output bo_output;

/* What exists and is no regular file (a device, a pipe) is written to directly. */
bo_status bo_output_open(bo_context *context, const char *path, bo_output **out);
bo_status bo_output_write(bo_context *context, bo_output *output, const void *data, size_t size);
/* Flush, rename, flush the folder. The output is gone afterwards, also when it fails; then nothing is left behind. */
bo_status bo_output_commit(bo_context *context, bo_output *output);
void bo_output_abandon(bo_output *output); /* NULL is fine */

#endif
