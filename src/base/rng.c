/* Counter-based random numbers with Philox4x32-10 of Random123. */
#include "rng.h"
#include <bochner/base.h>

#include <Random123/philox.h>
#include <math.h>

static const double two_pi = 6.283185307179586476925286766559;

/* splitmix64's finalizer */
static uint64_t mixed(uint64_t bits)
{
    bits = (bits ^ (bits >> 30)) * 0xBF58476D1CE4E5B9u;
    bits = (bits ^ (bits >> 27)) * 0x94D049BB133111EBu;
    return bits ^ (bits >> 31);
}

uint64_t bo_rng_stream(const char *purpose, uint64_t number)
{
    uint64_t hash = 14695981039346656037u; /* FNV-1a, 64 bits */
    for (const char *p = purpose; *p; p++) hash = (hash ^ (unsigned char)*p) * 1099511628211u;
    return mixed(hash ^ (number * 0x9E3779B97F4A7C15u));
}

uint64_t bo_hash(uint64_t seed, uint64_t index)
{
    return mixed(seed * 0xD1342543DE82EF95u + (index + 1) * 0x9E3779B97F4A7C15u);
}

bo_rng bo_rng_make(uint64_t seed, uint64_t stream)
{
    return (bo_rng){seed, stream, 0};
}

/* Computes block `index` of the stream: two 64-bit numbers. The key is the seed; the counter is the stream and the
 * index. */
static void block(const bo_rng *rng, uint64_t index, uint64_t out[2])
{
    philox4x32_ctr_t counter = {
        {(uint32_t)index, (uint32_t)(index >> 32), (uint32_t)rng->stream, (uint32_t)(rng->stream >> 32)}};
    philox4x32_key_t key = {{(uint32_t)rng->seed, (uint32_t)(rng->seed >> 32)}};
    philox4x32_ctr_t r = philox4x32(counter, key);
    out[0] = r.v[0] | (uint64_t)r.v[1] << 32;
    out[1] = r.v[2] | (uint64_t)r.v[3] << 32;
}

void bo_rng_words(const bo_rng *rng, size_t blocks, uint32_t *out)
{
    for (size_t i = 0; i < blocks; i++) {
        uint64_t pair[2];
        block(rng, rng->next + i, pair);
        for (size_t j = 0; j < 4; j++) out[4 * i + j] = (uint32_t)(pair[j / 2] >> (j % 2 * 32));
    }
}

static double to_unit(uint64_t bits)
{
    return ((double)(bits >> 11) + 0.5) * 0x1p-53;
}

uint64_t bo_rng_bits(bo_rng *rng)
{
    uint64_t pair[2];
    block(rng, rng->next++, pair);
    return pair[0];
}

double bo_rng_uniform(bo_rng *rng)
{
    return to_unit(bo_rng_bits(rng));
}

double bo_rng_normal(bo_rng *rng)
{
    uint64_t pair[2];
    block(rng, rng->next++, pair);
    return sqrt(-2 * log(to_unit(pair[0]))) * cos(two_pi * to_unit(pair[1]));
}

double bo_rng_gamma(bo_rng *rng, double shape)
{
    /* Marsaglia and Tsang 2000; shapes below 1 by Gamma(a) = Gamma(a + 1) U^(1/a). */
    if (shape < 1) return bo_rng_gamma(rng, shape + 1) * pow(bo_rng_uniform(rng), 1 / shape);
    double d = shape - 1.0 / 3, c = 1 / sqrt(9 * d);
    for (;;) {
        double x = bo_rng_normal(rng), v = 1 + c * x;
        if (v <= 0) continue;
        v = v * v * v;
        if (log(bo_rng_uniform(rng)) < 0.5 * x * x + d - d * v + d * log(v)) return d * v;
    }
}

uint64_t bo_rng_below(bo_rng *rng, uint64_t bound)
{
    uint64_t threshold = -bound % bound; /* numbers below the threshold would favor small remainders */
    for (;;) {
        uint64_t bits = bo_rng_bits(rng);
        if (bits >= threshold) return bits % bound;
    }
}

void bo_rng_permutation(bo_rng *rng, size_t n, size_t *out)
{
    for (size_t i = 0; i < n; i++) {
        size_t j = (size_t)bo_rng_below(rng, i + 1);
        out[i] = out[j];
        out[j] = i;
    }
}

/* ---- a keyed permutation ----------------------------------------------------------------------------------------- */

/* A Feistel network on the smallest even number of bits that holds the range. The function of each round is one number
 * of the counter-based generator. Values outside the range are mapped again until they are inside (cycle walking; Black
 * and Rogaway, "Ciphers with arbitrary finite domains", 2002). The domain of the network is smaller than four times the
 * range, so fewer than four passes are expected. */
enum { ROUNDS = 8 }; /* small ranges have halves of few bits, which need more rounds to mix */

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
