/* Hashes of indices, as stateless random numbers of commands and benchmarks. */
#ifndef CLI_SHARED_HASH_H
#define CLI_SHARED_HASH_H

#include <stdint.h>

/* A well-mixed number, the same on every host. */
uint64_t cli_hash(uint64_t seed, uint64_t index);

#endif
