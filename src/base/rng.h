/* Counter-based random numbers: Philox4x32-10 (Salmon et al. 2011, Random123). Number `index` of stream `stream` of
 * seed `seed` is a pure function of these three numbers, so any thread may generate any part. Streams are 64-bit
 * labels. Each use has its own stream (bo_rng_stream("features.frequencies", block)), so no two uses share numbers. */
#ifndef BO_BASE_RNG_H
#define BO_BASE_RNG_H

#include <stddef.h>
#include <stdint.h>

typedef struct bo_rng {
    uint64_t seed, stream;
    uint64_t next; /* index of the next number */
} bo_rng;

uint64_t bo_rng_stream(const char *purpose, uint64_t number); /* hash of a label: FNV-1a, then mixed with number */
uint64_t bo_hash(uint64_t seed, uint64_t index);              /* well mixed by splitmix64, the same in every version */
bo_rng bo_rng_make(uint64_t seed, uint64_t stream);

uint64_t bo_rng_bits(bo_rng *rng);                  /* 64 uniform bits */
double bo_rng_uniform(bo_rng *rng);                 /* in (0, 1), excluding both ends */
double bo_rng_normal(bo_rng *rng);                  /* N(0, 1): Box-Muller in double */
double bo_rng_gamma(bo_rng *rng, double shape);     /* Gamma(shape, 1): Marsaglia-Tsang */
uint64_t bo_rng_below(bo_rng *rng, uint64_t bound); /* uniform in [0, bound), unbiased */
/* writes 4 x blocks 32-bit words, starting at block rng->next; rng is unchanged */
void bo_rng_words(const bo_rng *rng, size_t blocks, uint32_t *out);
void bo_rng_permutation(bo_rng *rng, size_t n, size_t *out); /* Fisher-Yates */

/* A keyed permutation of [0, count), computed on demand: returns the position of `index` in permutation number `number`
 * of `seed`. */
uint64_t bo_permute(uint64_t seed, uint64_t number, uint64_t count, uint64_t index);

#endif
