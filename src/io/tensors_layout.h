/* Details of the safetensors format, shared by reading and writing. */
#ifndef BO_IO_TENSORS_LAYOUT_H
#define BO_IO_TENSORS_LAYOUT_H

#include "checksum.h"
#include "tensors.h"

enum { BO_TENSORS_MAX_HEADER = 100 * 1000 * 1000, BO_TENSORS_MAX_RANK = 8, BO_DTYPES = BO_BOOL + 1 };

/* The first header entry of every file that Bochner writes. The digits of the checksum follow it. */
#define BO_TENSORS_CHECKSUM "bochner.checksum"
#define BO_TENSORS_MARK     "{\"__metadata__\":{\"" BO_TENSORS_CHECKSUM "\":\"" BO_CHECKSUM_VERSION
/* Bytes before the header, and before the digits. */
enum { BO_TENSORS_LENGTH = 8, BO_TENSORS_DIGITS_AT = BO_TENSORS_LENGTH + sizeof BO_TENSORS_MARK - 1 };

const char *bo_dtype_name(bo_dtype dtype);
/* Bytes of a tensor of this shape; false on overflow. */
bool bo_tensor_size(bo_dtype dtype, size_t rank, const size_t *shape, size_t *bytes);

#endif
