/* The random generator of the CPU (src/base/rng.h, the kernel `random`): Philox4x32-10 (Salmon et al. 2011), a pure
 * function of seed, stream and index. Value j of group g of 64 is value j / 16 of block 16 g + j % 16. */
#ifndef BO_CUDA_RANDOM_CUH
#define BO_CUDA_RANDOM_CUH

#include "device.cuh"

namespace bo {

struct random_u32x4 {
    uint32_t at[4];
};

/* Block `index` of a stream. A round multiplies two 32-bit values by constants and mixes the halves of the products
 * with the key, which is incremented by Weyl constants. */
__device__ inline random_u32x4 random_block(uint64_t seed, uint64_t stream, uint64_t index)
{
    uint32_t low = (uint32_t)seed, high = (uint32_t)(seed >> 32);
    uint32_t c0 = (uint32_t)index, c1 = (uint32_t)(index >> 32), c2 = (uint32_t)stream, c3 = (uint32_t)(stream >> 32);
#pragma unroll
    for (int round = 0; round < 10; round++) {
        const uint64_t first = (uint64_t)0xD2511F53u * c0, second = (uint64_t)0xCD9E8D57u * c2;
        const uint32_t before = c1;
        c0 = (uint32_t)(second >> 32) ^ before ^ low;
        c1 = (uint32_t)second;
        c2 = (uint32_t)(first >> 32) ^ c3 ^ high;
        c3 = (uint32_t)first;
        low += 0x9E3779B9u, high += 0xBB67AE85u;
    }
    return random_u32x4{{c0, c1, c2, c3}};
}

enum { RANDOM_GROUP = 64, RANDOM_BLOCKS = RANDOM_GROUP / 4 };

/* Value `number` of a stream. */
__device__ inline uint32_t random_u32(uint64_t seed, uint64_t stream, uint64_t number)
{
    const uint64_t group = number / RANDOM_GROUP;
    const unsigned within = (unsigned)(number % RANDOM_GROUP);
    const random_u32x4 bits = random_block(seed, stream, group * RANDOM_BLOCKS + within % RANDOM_BLOCKS);
    uint32_t bits_i = bits.at[0];
#pragma unroll
    for (unsigned i = 1; i < 4; i++)
        if (within / RANDOM_BLOCKS == i) bits_i = bits.at[i];
    return bits_i;
}

} // namespace bo

#endif
