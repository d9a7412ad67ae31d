/* Sizes of blocks, chunks, panels and buffers, which shape the work and not its result.
 *
 * A size has two values: the one that is fast, and a tiny one for the build with BOCHNER_TINY=ON (make test-tiny), in which
 * small inputs already have several blocks, a last block that is not full, and buffers that fill up in the middle of
 * something. What a size must fulfill (a power of two, a multiple of something) holds for both. */
#ifndef BO_BASE_TINY_H
#define BO_BASE_TINY_H

#ifdef BOCHNER_TINY
#define BO_SIZE(normal, tiny) (tiny)
#else
#define BO_SIZE(normal, tiny) (normal)
#endif

#endif
