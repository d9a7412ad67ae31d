/* Random bits in plain C. */
#include "../../../base/rng.h"
#include "ref.h"

void bo_ref_random(uint64_t seed, uint64_t stream, uint64_t first, size_t groups, uint32_t *out)
{
    enum { BLOCKS = BO_RANDOM_GROUP / 4 };
    for (size_t g = 0; g < groups; g++, out += BO_RANDOM_GROUP) {
        uint32_t bits[BO_RANDOM_GROUP];
        bo_rng_words(&(bo_rng){seed, stream, (first + g) * BLOCKS}, BLOCKS, bits);
        for (size_t j = 0; j < BO_RANDOM_GROUP; j++) out[j] = bits[j % BLOCKS * 4 + j / BLOCKS];
    }
}
