/* Bytes in: a file, standard input or memory, with gzip undone on the way. The readers see plain bytes only. */
#ifndef BO_IO_BYTES_H
#define BO_IO_BYTES_H

#include "../base/base.h"

typedef struct bo_bytes bo_bytes;

/* path "-" is standard input. With `spool`, what cannot be rewound (standard input, a pipe) is first copied into an
 * unlinked temporary file, so that two passes become possible. */
bo_status bo_bytes_open(bo_context *context, const char *path, bool spool, bo_bytes **out);
/* Bytes in memory under a name for messages; the memory is the caller's and must outlive the object. */
bo_status bo_bytes_open_memory(bo_context *context, const char *name, const void *data, size_t size, bo_bytes **out);
void bo_bytes_close(bo_bytes *bytes);

const char *bo_bytes_path(const bo_bytes *bytes);
bool bo_bytes_rewindable(const bo_bytes *bytes);
/* Uncompressed and of known size: bo_bytes_read_at works. */
bool bo_bytes_seekable(const bo_bytes *bytes);
/* The most bytes that can come out: the size of a plain file, 1032 times that of a gzip file (no DEFLATE stream expands
 * more), UINT64_MAX for a pipe. A header that promises more is lying. */
uint64_t bo_bytes_bound(const bo_bytes *bytes);
/* Bytes of the file consumed so far, compressed or not, and its size (0: unknown). */
double bo_bytes_progress(const bo_bytes *bytes, double *total);

/* Looks ahead without consuming: at least `want` bytes unless the input ends before. Valid until the next call. */
bo_status bo_bytes_peek(bo_context *context, bo_bytes *bytes, size_t want, const unsigned char **data, size_t *have);
/* *got < want only at the end of the input. */
bo_status bo_bytes_read(bo_context *context, bo_bytes *bytes, void *data, size_t want, size_t *got);
/* Exactly `size` bytes from `offset`; does not move the position of bo_bytes_read. */
bo_status bo_bytes_read_at(bo_context *context, bo_bytes *bytes, uint64_t offset, void *data, size_t size);
bo_status bo_bytes_rewind(bo_context *context, bo_bytes *bytes);

/* A whole file, with a NUL after it that *length does not count; freed with bo_free. */
bo_status bo_bytes_text(bo_context *context, const char *path, char **out, size_t *length);

#endif
