/* Shared by the fuzz targets that load Bochner's own files: mutated bytes become an image of a file again. */
#ifndef BO_FUZZ_CONTAINER_H
#define BO_FUZZ_CONTAINER_H

#include "fuzz.h"
#include "io/tensors.h"
#include <math.h>

enum { FUZZ_MAX_DIM = 256, FUZZ_MAX_OUTPUTS = 1 << 12, FUZZ_APPLIED_ROWS = 3 };

/* The end of the JSON that starts at bytes[8], found by matching braces outside of strings; 0: not found. */
static inline size_t fuzz_header_end(const uint8_t *bytes, size_t size)
{
    size_t depth = 0;
    bool quoted = false;
    for (size_t i = 8; i < size; ++i) {
        if (quoted && bytes[i] == '\\')
            ++i;
        else if (bytes[i] == '"')
            quoted = !quoted;
        else if (!quoted && bytes[i] == '{')
            ++depth;
        else if (!quoted && bytes[i] == '}' && --depth == 0)
            return i + 1;
        else if (depth == 0)
            return 0;
    }
    return 0;
}

/* Corrects the length of the header and the checksum: otherwise the container would refuse nearly every change of the
 * JSON. The container has a separate target. Returns a block of exact size, which the caller frees. */
static inline uint8_t *fuzz_image(const uint8_t *data, size_t size)
{
    uint8_t *bytes = malloc(size ? size : 1);
    memcpy(bytes, data, size);
    size_t end = fuzz_header_end(bytes, size);
    while (end && end < size && bytes[end] == ' ') ++end;
    for (size_t i = 0; end && i < 8; ++i) bytes[i] = (uint8_t)((end - 8) >> 8 * i);
    bo_tensors_seal(bytes, size);
    return bytes;
}

/* Inputs of moderate size, identical in every call. */
static inline void fuzz_inputs(size_t count, float *x)
{
    for (size_t i = 0; i < count; ++i) x[i] = (float)(i % 7) / 7 - 0.4f;
}

#endif
