/* Cuts one block of memory into aligned pieces. */
#ifndef BO_BASE_CARVER_H
#define BO_BASE_CARVER_H

#include "sizes.h"

/* Cuts aligned pieces from a block. With at == NULL it only counts bytes, so the same function both measures and lays
 * out. */
typedef struct bo_carver {
    char *at;
    size_t bytes;
} bo_carver;

static inline void *bo_carve(bo_carver *carver, size_t count, size_t size)
{
    void *piece = carver->at ? carver->at + carver->bytes : NULL;
    carver->bytes += bo_padded_bytes(count * size);
    return piece;
}

static inline float *bo_carve_floats(bo_carver *carver, size_t count)
{
    return bo_carve(carver, count, sizeof(float));
}

#endif
