/* Input bytes: a file, standard input or memory, decompressed if it is gzip. */
#ifndef BO_IO_BYTES_H
#define BO_IO_BYTES_H

#include "input.h"

typedef struct bo_bytes bo_bytes;

/* The path "-" is standard input if `limits` accept streams. More bytes than `limits` allow are an error, even if the
 * file grows while it is read. With `spool`, an input that cannot be rewound (standard input, a pipe) is first copied
 * into an unlinked temporary file, so that several passes are possible. */
bo_status bo_bytes_open(bo_context *context, const char *path, const bo_limits *limits, bool spool, bo_bytes **out);
/* Bytes in memory, which must outlive the object; `name` is used in messages. */
bo_status bo_bytes_open_memory(bo_context *context, const char *name, const void *data, size_t size, bo_bytes **out);
/* The bytes of a source. A callback is read to its end first. */
bo_status bo_bytes_open_source(bo_context *context, const bo_source *source, const bo_limits *limits, bool spool,
                               bo_bytes **out);
void bo_bytes_close(bo_bytes *bytes);

/* Checks that a source has one of path, bytes and read. */
bo_status bo_source_check(bo_context *context, const bo_source *source);
const char *bo_source_name(const bo_source *source); /* for messages */
/* Reads a callback to its end, at most `limits` bytes. *bytes is released with bo_free. */
bo_status bo_source_collect(bo_context *context, const bo_source *source, const bo_limits *limits, void **bytes,
                            size_t *size);

const char *bo_bytes_path(const bo_bytes *bytes);
int bo_bytes_descriptor(const bo_bytes *bytes); /* -1: memory */
bool bo_bytes_rewindable(const bo_bytes *bytes);
/* Uncompressed and of known size: bo_bytes_read_at can be used. */
bool bo_bytes_seekable(const bo_bytes *bytes);
/* Maximum number of bytes of the input: the size of a plain file, 1032 times the size of a gzip file (the maximum
 * expansion of DEFLATE), UINT64_MAX for a pipe. A header that declares more is damaged. */
uint64_t bo_bytes_bound(const bo_bytes *bytes);
/* Bytes of the file read so far, and its size (0: unknown); compressed bytes for gzip. */
double bo_bytes_progress(const bo_bytes *bytes, double *total);

/* Looks ahead without consuming: at least `size` bytes, fewer only at the end of the input. Valid until the next
 * call. */
bo_status bo_bytes_peek(bo_context *context, bo_bytes *bytes, size_t size, const unsigned char **data, size_t *have);
/* *got < size only at the end of the input. */
bo_status bo_bytes_read(bo_context *context, bo_bytes *bytes, void *data, size_t size, size_t *got);
/* Reads exactly `size` bytes from `offset`; does not move the position of bo_bytes_read. */
bo_status bo_bytes_read_at(bo_context *context, bo_bytes *bytes, uint64_t offset, void *data, size_t size);
bo_status bo_bytes_rewind(bo_context *context, bo_bytes *bytes);

/* Reads the rest and appends a NUL that *length does not count; freed with bo_free. */
bo_status bo_bytes_rest(bo_context *context, bo_bytes *bytes, char **out, size_t *length);
/* The same for a whole file. */
bo_status bo_bytes_text(bo_context *context, const char *path, const bo_limits *limits, char **out, size_t *length);

#endif
