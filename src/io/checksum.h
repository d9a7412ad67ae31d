/* Checksums that detect damage to files: flipped bits, lost or torn blocks, truncation. They do not protect against
 * forgery.
 *
 * A checksum is stored in the file as 16 hexadecimal digits, at a place that the format fixes, and covers every other
 * byte. With H = XXH64 of seed 0, it is
 *
 *     H(H(bytes before the digits), H(piece 1), H(piece 2), …)
 *
 * where the pieces are the bytes after the digits in blocks of 1 MiB, and each inner hash is 8 bytes, little-endian.
 * Pieces are hashed in parallel. docs/reference/files.md describes the formats. */
#ifndef BO_IO_CHECKSUM_H
#define BO_IO_CHECKSUM_H

#include "../base/base.h"

enum { BO_CHECKSUM_DIGITS = 16 };

/* XXH64 (Y. Collet) of a stream. Invariant: `block` holds the last used = size % 32 bytes. */
typedef struct bo_xxh64 {
    uint64_t lanes[4], size;
    unsigned char block[32];
} bo_xxh64;

void bo_xxh64_start(bo_xxh64 *hash);
void bo_xxh64_add(bo_xxh64 *hash, const void *bytes, size_t size);
uint64_t bo_xxh64_end(const bo_xxh64 *hash);

/* A checksum that is computed incrementally. */
typedef struct bo_checksum {
    bo_xxh64 whole, piece; /* the outer hash, and the hash of the current piece */
} bo_checksum;

void bo_checksum_start(bo_checksum *sum, const void *before, size_t size); /* the bytes before the digits */
void bo_checksum_add(bo_checksum *sum, const void *bytes, size_t size);    /* bytes after the digits */
void bo_checksum_end(bo_checksum *sum, char digits[BO_CHECKSUM_DIGITS]);

/* The checksum of a file in memory with its digits at `place`; uses all threads of the context. Fails only if the
 * caller requests a stop. */
bo_status bo_checksum_find(bo_context *context, const void *bytes, size_t size, size_t place,
                           char digits[BO_CHECKSUM_DIGITS]);

/* A checksum in a file: its version, and its digits. */
enum { BO_CHECKSUM_TEXT = 3 + BO_CHECKSUM_DIGITS + 1 };
#define BO_CHECKSUM_VERSION "v1:"
/* "v1:" and the digits of a whole text, to be stored in another file. */
void bo_checksum_text(const char *text, size_t length, char out[BO_CHECKSUM_TEXT]);

/* True if the bytes are `mark`, or differ from it in so few bytes that they are a damaged copy of it. The text before
 * the digits announces a checksum; damage to this text must not remove the announcement. */
bool bo_checksum_announced(const void *bytes, const char *mark, size_t size);

#endif
