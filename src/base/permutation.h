/* A keyed permutation of [0, count), computed where it is asked for. */
#ifndef BO_BASE_PERMUTATION_H
#define BO_BASE_PERMUTATION_H

#include <stdint.h>

/* Where `index` < count goes in permutation number `number` of `seed`. */
uint64_t bo_permute(uint64_t seed, uint64_t number, uint64_t count, uint64_t index);

#endif
