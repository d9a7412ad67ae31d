/* Sizes, and one block of memory cut into aligned pieces. */
#ifndef BO_BASE_CARVER_H
#define BO_BASE_CARVER_H

#include <stddef.h>

static inline size_t bo_least(size_t a, size_t b)
{
    return a < b ? a : b;
}

static inline size_t bo_most(size_t a, size_t b)
{
    return a > b ? a : b;
}

/* Floats up to the next multiple of 64 bytes. */
static inline size_t bo_padded(size_t floats)
{
    return (floats + 15) / 16 * 16;
}

/* Cuts aligned pieces from a block; with at == NULL it only counts. So one function both lays out and measures. */
typedef struct bo_carver {
    char *at;
    size_t bytes;
} bo_carver;

static inline void *bo_carve(bo_carver *carver, size_t count, size_t size)
{
    void *piece = carver->at ? carver->at + carver->bytes : NULL;
    carver->bytes += (count * size + 63) / 64 * 64;
    return piece;
}

static inline float *bo_carve_floats(bo_carver *carver, size_t count)
{
    return bo_carve(carver, count, sizeof(float));
}

#endif
