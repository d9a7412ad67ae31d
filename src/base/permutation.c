/* A Feistel network on the smallest even number of bits that holds the range, each round's function one number of the
 * counter-based generator; values that leave the range are sent through again until they are inside (cycle walking; Black
 * and Rogaway, "Ciphers with arbitrary finite domains", 2002). The network's domain is below four times the range, so that
 * less than four passes are expected. */
#include "permutation.h"
#include "rng.h"

enum { ROUNDS = 8 }; /* small ranges have halves of few bits, which need more rounds to mix than large ones */

static uint64_t network(bo_rng rng, unsigned half, uint64_t value)
{
    const uint64_t mask = (UINT64_C(1) << half) - 1;
    uint64_t left = value >> half, right = value & mask;
    for (uint64_t round = 0; round < ROUNDS; ++round) {
        rng.next = round << 32 | right;
        uint64_t mixed = left ^ (bo_rng_bits(&rng) & mask);
        left = right;
        right = mixed;
    }
    return left << half | right;
}

uint64_t bo_permute(uint64_t seed, uint64_t number, uint64_t count, uint64_t index)
{
    if (count < 2) return 0;
    unsigned half = 1;
    while (half < 32 && (count - 1) >> 2 * half) ++half;
    bo_rng rng = bo_rng_make(seed, bo_rng_stream("text.permutation", number));
    do index = network(rng, half, index);
    while (index >= count);
    return index;
}
