/* Arithmetic modulo the prime 2³¹ − 1: ranks without rounding. A nonzero polynomial of degree D over the integers is
 * zero at a random point modulo the prime with probability at most D / (2³¹ − 1) (Schwartz 1980, Zippel 1979), and a
 * minor of rank r of a matrix of its values has degree rD. The rank at random points is therefore the generic one,
 * except with this probability, and then it is smaller. */
#ifndef BO_LAB_TOOLS_MODULAR_H
#define BO_LAB_TOOLS_MODULAR_H

#include "../../src/base/base.h"
#include "../../src/base/rng.h"

enum { LAB_PRIME = 2147483647 };

/* Residues are below LAB_PRIME. */
static inline uint32_t lab_mod_reduce(uint64_t x) /* for any x below 2⁶² + 2³¹ */
{
    x = (x & LAB_PRIME) + (x >> 31);
    x = (x & LAB_PRIME) + (x >> 31);
    return (uint32_t)(x >= LAB_PRIME ? x - LAB_PRIME : x);
}

/* Congruent to x and below 2³³ + 2³¹, for sums of products that are reduced once, at the end. */
static inline uint64_t lab_mod_fold(uint64_t x)
{
    return (x & LAB_PRIME) + (x >> 31);
}

static inline uint32_t lab_mod_add(uint32_t a, uint32_t b)
{
    const uint32_t sum = a + b;
    return sum >= LAB_PRIME ? sum - LAB_PRIME : sum;
}

static inline uint32_t lab_mod_multiply(uint32_t a, uint32_t b)
{
    return lab_mod_reduce((uint64_t)a * b);
}

uint32_t lab_mod_of(int64_t x); /* the residue of an integer */
uint32_t lab_mod_power(uint32_t base, uint64_t exponent);
uint32_t lab_mod_inverse(uint32_t a); /* for a nonzero a */
uint32_t lab_mod_random(bo_rng *rng);

/* The rank of a matrix (rows x columns of residues, overwritten), by elimination. */
size_t lab_mod_rank(uint32_t *a, size_t rows, size_t columns);

#endif
