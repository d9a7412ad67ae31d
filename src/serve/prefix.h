/* Hashes of token sequences: a chain in which the hash of a sequence is computed from the hash of all but its last
 * token. The hashes are keyed with a secret, so that nobody can construct two sequences with the same hash. */
#ifndef BO_SERVE_PREFIX_H
#define BO_SERVE_PREFIX_H

#include "../base/base.h"

typedef struct bo_prefix {
    uint64_t words[2];
} bo_prefix;

typedef struct bo_prefix_secret {
    uint64_t words[2];
} bo_prefix_secret;

bo_prefix bo_prefix_of_nothing(void);
bo_prefix bo_prefix_next(const bo_prefix_secret *secret, bo_prefix before, int32_t token);
bool bo_prefix_equal(bo_prefix a, bo_prefix b);
/* A hash of bytes, such as the id of a state. */
bo_prefix bo_prefix_of_bytes(const bo_prefix_secret *secret, const void *bytes, size_t count);

enum { BO_PREFIX_DIGITS = 32 };
void bo_prefix_format(bo_prefix prefix, char out[BO_PREFIX_DIGITS + 1]); /* hexadecimal */

/* Gets random bytes from the system. False: there are none. */
bool bo_random_bytes(void *out, size_t count);

#endif
