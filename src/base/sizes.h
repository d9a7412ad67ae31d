/* Minimum and maximum of two sizes, and sizes rounded up. */
#ifndef BO_BASE_SIZES_H
#define BO_BASE_SIZES_H

#include <stddef.h>

static inline size_t bo_min(size_t a, size_t b)
{
    return a < b ? a : b;
}

static inline size_t bo_max(size_t a, size_t b)
{
    return a > b ? a : b;
}

static inline size_t bo_ceil_div(size_t a, size_t b)
{
    return (a + b - 1) / b;
}

static inline size_t bo_round_up(size_t a, size_t multiple)
{
    return bo_ceil_div(a, multiple) * multiple;
}

/* Rounds bytes up to a multiple of 64: the size of a cache line and of the widest vector. */
static inline size_t bo_padded_bytes(size_t bytes)
{
    return bo_round_up(bytes, 64);
}

/* Rounds a number of floats up to a multiple of 64 bytes. */
static inline size_t bo_padded(size_t floats)
{
    return bo_round_up(floats, 16);
}

#endif
