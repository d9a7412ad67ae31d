#include "file_arrays.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static size_t bytes_of(const bo_file_array *array)
{
    return array->rows * (array->columns ? array->columns : 1) * (array->dtype == BO_F64 ? 8 : 4);
}

bo_file_tensor bo_file_array_tensor(const bo_file_array *array)
{
    return (bo_file_tensor){.name = array->name,
                            .dtype = array->dtype,
                            .rank = array->columns ? 2 : 1,
                            .shape = {array->rows, array->columns},
                            .data = *array->data,
                            .bytes = bytes_of(array)};
}

bo_status bo_file_array_load(bo_context *context, const bo_tensors *file, const bo_file_array *array)
{
    const bo_file_tensor *tensor;
    size_t shape[2] = {array->rows, array->columns};
    const char *name = array->former && bo_tensors_find(file, array->former) ? array->former : array->name;
    BO_TRY(bo_tensors_require(context, file, name, array->dtype, array->columns ? 2 : 1, shape, &tensor));
    void *copy = bo_alloc_raw(context, bytes_of(array), 1, array->name);
    if (!copy) return BO_MEMORY;
    memcpy(copy, tensor->data, bytes_of(array));
    bo_free(*array->data);
    *array->data = copy;
    size_t count = array->rows * (array->columns ? array->columns : 1);
    for (size_t i = 0; i < count; i++) {
        double value = array->dtype == BO_F64 ? ((double *)copy)[i] : (double)((float *)copy)[i];
        if (!isfinite(value))
            return bo_fail(context, BO_FORMAT, "%s: tensor %s: expected a finite number at index %zu, found %g",
                           bo_tensors_path(file), array->name, i, value);
    }
    return BO_OK;
}

bo_status bo_file_format_check(bo_context *context, const bo_tensors *file, const char *expected, const char *name,
                               int version)
{
    const char *path = bo_tensors_path(file), *format = bo_tensors_meta(file, "format");
    const char *found = bo_tensors_meta(file, "format_version"), *made = bo_tensors_meta(file, "bochner_version");
    if (!format || strcmp(format, name) != 0)
        return bo_fail(context, BO_FORMAT, "%s: expected %s, found %s", path, expected,
                       format ? format : "a safetensors file of another program");
    long number = found ? strtol(found, NULL, 10) : 0; /* saturates */
    if (number < 1) return bo_fail(context, BO_FORMAT, "%s: the format version is missing", path);
    if (number > version)
        return bo_fail(context, BO_VERSION,
                       "%s: the file was written by Bochner %s in model format %s; this is Bochner %s, which reads "
                       "formats up to %d (install a newer version)",
                       path, made ? made : "(unknown version)", found, bo_version(), version);
    return BO_OK;
}
