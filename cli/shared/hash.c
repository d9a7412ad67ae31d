/* The hash of the library. */
#include "hash.h"
#include "../../src/base/rng.h"

uint64_t cli_hash(uint64_t seed, uint64_t index)
{
    return bo_hash(seed, index);
}
