/* Random numbers of commands: splitmix64 (Steele, Lea and Flood 2014). */
#ifndef CLI_COMMON_RANDOM_H
#define CLI_COMMON_RANDOM_H

#include <stddef.h>
#include <stdint.h>

/* The state is the seed at first. */
static inline uint64_t cli_random(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

/* In [0, bound). */
static inline size_t cli_random_below(uint64_t *state, size_t bound)
{
    return (size_t)((double)(cli_random(state) >> 11) * 0x1p-53 * (double)bound);
}

#endif
