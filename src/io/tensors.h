/* safetensors files: named arrays and string metadata. Layout: u64 header length, JSON header, data. Files that Bochner
 * writes have a checksum of all bytes in their metadata (io/checksum.h). It is verified when a file is opened;
 * bo_tensors_meta does not return it. */
#ifndef BO_IO_TENSORS_H
#define BO_IO_TENSORS_H

#include "../base/base.h"
#include "output.h"

typedef enum bo_dtype { BO_F64, BO_F32, BO_F16, BO_BF16, BO_I64, BO_I32, BO_I16, BO_I8, BO_U8, BO_BOOL } bo_dtype;
size_t bo_dtype_size(bo_dtype dtype); /* bytes per number */

typedef struct bo_file_tensor {
    const char *name;
    bo_dtype dtype;
    size_t rank, shape[8];
    const void *data; /* for files that were read: inside the mapping */
    size_t bytes;
} bo_file_tensor;

typedef struct bo_meta {
    const char *key, *value;
} bo_meta;

typedef struct bo_tensors bo_tensors; /* an open file; immutable */

bo_status bo_tensors_open(bo_context *context, const char *path, bo_tensors **out);
/* Tensors in memory of the caller, presented as a file; the data must outlive the object. */
bo_status bo_tensors_borrow(bo_context *context, const char *path, const bo_file_tensor *tensors, size_t count,
                            bo_tensors **out);
/* Several files with different tensors, presented as one, which then owns the array and the files. */
bo_status bo_tensors_join(bo_context *context, const char *path, bo_tensors **parts, size_t count, bo_tensors **out);
/* A file in memory, which must outlive the object. */
bo_status bo_tensors_open_memory(bo_context *context, const char *name, const void *data, size_t size,
                                 bo_tensors **out);
/* The file of a source. Memory must outlive the object; a callback is read to its end first. */
bo_status bo_tensors_open_source(bo_context *context, const bo_source *source, bo_tensors **out);
/* True if the path is a file with this key in its metadata. Its checksum is not verified: the function only determines
 * the kind of the file, and opening the file reports damage. */
bool bo_tensors_mention(bo_context *context, const char *path, const char *key);
void bo_tensors_close(bo_tensors *file);
size_t bo_tensors_count(const bo_tensors *file);
const bo_file_tensor *bo_tensors_at(const bo_tensors *file, size_t index);
const bo_file_tensor *bo_tensors_find(const bo_tensors *file, const char *name); /* NULL: none */
/* NULL: none. With several files, the first file with the key is used. */
const char *bo_tensors_meta(const bo_tensors *file, const char *key);
size_t bo_tensors_meta_count(const bo_tensors *file); /* 0 for several files */
bo_meta bo_tensors_meta_at(const bo_tensors *file, size_t index);
const char *bo_tensors_path(const bo_tensors *file);
/* Finds a tensor and checks its dtype, rank and shape (a 0 in shape accepts any size); BO_FORMAT if it does not
 * match. */
bo_status bo_tensors_require(bo_context *context, const bo_tensors *file, const char *name, bo_dtype dtype, size_t rank,
                             const size_t *shape, const bo_file_tensor **out);

/* Writes to a temporary file, flushes and renames it. */
bo_status bo_tensors_write(bo_context *context, const char *path, const bo_file_tensor *tensors, size_t count,
                           const bo_meta *meta, size_t meta_count);
/* Writes the same bytes to memory. *bytes is released with bo_free; NULL and 0 after a failure. */
bo_status bo_tensors_write_memory(bo_context *context, const bo_file_tensor *tensors, size_t count, const bo_meta *meta,
                                  size_t meta_count, void **bytes, size_t *size);
/* Writes the same bytes to an output, which the caller closes with bo_output_finish. */
bo_status bo_tensors_write_output(bo_context *context, bo_output *output, const bo_file_tensor *tensors, size_t count,
                                  const bo_meta *meta, size_t meta_count);
/* The metadata key of the checksum of a text file that was written with the tensors. */
#define BO_TENSORS_COMPANION(name) name ".checksum"
/* Logs a warning if the checksum of the companion `path` (bo_checksum_text) differs from the metadata. The text may
 * have been edited, so this is not an error. */
void bo_tensors_compare(bo_context *context, const bo_tensors *file, const char *key, const char *path,
                        const char *checksum);

/* Recomputes the checksum of a file in memory, if it has one: for tests that change its bytes. */
void bo_tensors_seal(void *bytes, size_t size);
#endif
