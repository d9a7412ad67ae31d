/* gzip decompression (RFC 1952). Consecutive members form one stream. A truncated member, a wrong checksum, and bytes
 * other than zero padding after the last member are errors. */
#ifndef BO_IO_GZIP_H
#define BO_IO_GZIP_H

#include "../base/base.h"

typedef struct bo_inflater bo_inflater;

bo_status bo_inflater_create(bo_context *context, bo_inflater **out);
void bo_inflater_destroy(bo_inflater *inflater);
void bo_inflater_reset(bo_inflater *inflater);
/* Decompresses some of `input` into `output`; available == 0 means the end of the file. *ended: all data was
 * returned. */
bo_status bo_inflater_run(bo_context *context, bo_inflater *inflater, const char *path, const unsigned char *input,
                          size_t available, unsigned char *output, size_t output_size, size_t *consumed,
                          size_t *produced, bool *ended);

#endif
