/* Hashes of indices, from which commands and benchmarks draw without a state. */
#ifndef CLI_SHARED_HASH_H
#define CLI_SHARED_HASH_H

#include <stdint.h>

/* A well mixed number, the same on every computer. */
uint64_t cli_hash(uint64_t seed, uint64_t index);

#endif
