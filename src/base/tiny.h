/* Sizes of blocks, chunks, panels and buffers. They determine how work is divided, but do not change results.
 *
 * A size has two values: the fast one, and a tiny one for the build with BOCHNER_TINY=ON (make test-tiny). In the tiny
 * build small inputs already have several blocks, a partial last block, and buffers that fill up in the middle of an
 * item. Both values must meet the requirements of the size, such as being a power of two. */
#ifndef BO_BASE_TINY_H
#define BO_BASE_TINY_H

#ifdef BOCHNER_TINY
#define BO_SIZE(normal, tiny) (tiny)
#else
#define BO_SIZE(normal, tiny) (normal)
#endif

#endif
