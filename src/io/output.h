/* Output bytes: a file (bochner/data.h), memory or a callback. All receive the same bytes. */
#ifndef BO_IO_OUTPUT_H
#define BO_IO_OUTPUT_H

#include "../base/base.h"
#include <bochner/data.h>

/* Output to memory: committing sets *bytes (released with bo_free) and *size; before, and after a failure, they are
 * NULL and 0. */
bo_status bo_output_open_memory(bo_context *context, void **bytes, size_t *size, bo_output **out);
/* Output to a sink. The memory pointer and size of the sink are NULL and 0 until the output is committed. */
bo_status bo_output_open_sink(bo_context *context, const bo_sink *sink, bo_output **out);
/* Checks that a sink has one of path, bytes and write. */
bo_status bo_sink_check(bo_context *context, const bo_sink *sink);
void bo_sink_clear(const bo_sink *sink); /* sets the memory pointer and size of the sink to NULL and 0; accepts NULL */
const char *bo_output_path(const bo_output *output); /* for messages; "memory" for memory */
/* Memory: reserves `size` more bytes, so that large outputs are not copied while they grow. Ignored for files. */
bo_status bo_output_reserve(bo_context *context, bo_output *output, size_t size);
/* Commits if `status` is BO_OK; otherwise abandons the output and returns `status`. */
bo_status bo_output_finish(bo_context *context, bo_output *output, bo_status status);
/* The same for files that belong together: all are on disk before the first one gets its name. They get their names in
 * this order. */
bo_status bo_output_finish_all(bo_context *context, bo_output *const *outputs, size_t count, bo_status status);
/* Flushes a file or a directory to disk; bo_output_flush_name flushes the directory that contains the path, and with it
 * the name. File systems that do not support this for directories, and directories that may not be read, are not
 * errors. */
bo_status bo_output_flush(bo_context *context, const char *path);
bo_status bo_output_flush_name(bo_context *context, const char *path);
/* Creates a directory unless it exists, and flushes its name. */
bo_status bo_output_directory(bo_context *context, const char *path);

/* Writes a matrix as a .npy file, atomically. */
bo_status bo_npy_save_f32(bo_context *context, const char *path, size_t rows, size_t columns, const float *values);
bo_status bo_npy_save_f64(bo_context *context, const char *path, size_t rows, size_t columns, const double *values);

#endif
