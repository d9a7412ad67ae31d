/* Arrays and the format name in the files of machines and embeddings. */
#ifndef BO_MACHINES_FILE_ARRAYS_H
#define BO_MACHINES_FILE_ARRAYS_H

#include "../io/tensors.h"

/* An array of an object, for writing and reading. */
typedef struct bo_file_array {
    const char *name;
    bo_dtype dtype;       /* F64 or F32 */
    void **data;          /* bo_file_array_load frees the old array */
    size_t rows, columns; /* columns 0: a vector */
    const char *former;   /* the name in files of earlier versions; NULL: the same */
} bo_file_array;

/* What is subtracted from rows before they are scaled; optional. */
#define BO_SHIFT_TENSOR "scaling.shift"
static inline bo_file_array bo_file_array_shift(double **shift, size_t dim)
{
    return (bo_file_array){BO_SHIFT_TENSOR, BO_F64, (void **)shift, dim, 0, NULL};
}

bo_file_tensor bo_file_array_tensor(const bo_file_array *array);
/* BO_FORMAT if it is missing, has another shape, or contains a NaN or infinity. */
bo_status bo_file_array_load(bo_context *context, const bo_tensors *file, const bo_file_array *array);
/* BO_FORMAT if the file is not of this format; BO_VERSION if its version is above `version`. `expected` names the
 * format in messages. */
bo_status bo_file_format_check(bo_context *context, const bo_tensors *file, const char *expected, const char *name,
                               int version);

#endif
