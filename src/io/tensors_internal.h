/* What reading and writing of safetensors share. */
#ifndef BO_IO_TENSORS_INTERNAL_H
#define BO_IO_TENSORS_INTERNAL_H

#include "tensors.h"

enum { BO_TENSORS_HEADER = 100 * 1000 * 1000, BO_TENSORS_RANK = 8 };

typedef struct bo_dtype_info {
    const char *name;
    size_t size;
} bo_dtype_info;

/* Indexed by bo_dtype. */
extern const bo_dtype_info bo_dtypes[];
enum { BO_DTYPES = BO_BOOL + 1 };

/* Bytes of a tensor of this shape; false when they overflow. */
bool bo_tensor_size(bo_dtype dtype, size_t rank, const size_t *shape, size_t *bytes);
/* A file in memory; the memory is the caller's and must outlive it. */
bo_status bo_tensors_open_memory(bo_context *context, const char *name, const void *data, size_t size,
                                 bo_tensors **out);

#endif
