/* Philox4x32-10 (Salmon et al. 2011), one block per lane. */

/* Computes one round from the counter values and the round key. */
static inline void philox_round(vi c[4], uint32_t key0, uint32_t key1)
{
    vi high0, low0, high1, low1;
    i_multiply(c[0], 0xD2511F53u, &high0, &low0);
    i_multiply(c[2], 0xCD9E8D57u, &high1, &low1);
    c[0] = i_xor(i_xor(high1, c[1]), i_set(key0));
    c[1] = low1;
    c[2] = i_xor(i_xor(high0, c[3]), i_set(key1));
    c[3] = low0;
}

/* Computes blocks `first` … first + LANES - 1, whose indices share the upper half. Value w of all blocks is written to
 * out + 16 w. */
static inline void philox_blocks(uint64_t seed, uint64_t stream, uint64_t first, uint32_t *out)
{
    uint32_t key0 = (uint32_t)seed, key1 = (uint32_t)(seed >> 32);
    vi c[4] = {i_count((uint32_t)first), i_set((uint32_t)(first >> 32)), i_set((uint32_t)stream),
               i_set((uint32_t)(stream >> 32))};
    for (int round = 0; round < 10; round++, key0 += 0x9E3779B9u, key1 += 0xBB67AE85u) philox_round(c, key0, key1);
    for (int w = 0; w < 4; w++) i_store(out + 16 * w, c[w]);
}

void ISA(random)(uint64_t seed, uint64_t stream, uint64_t first, size_t groups, uint32_t *out)
{
    for (size_t g = 0; g < groups; g++, out += BO_RANDOM_GROUP)
        for (size_t lane = 0; lane < 16; lane += LANES)
            philox_blocks(seed, stream, (first + g) * 16 + lane, out + lane);
}
