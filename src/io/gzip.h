/* gzip (RFC 1952) undone by zlib: several members in a row are one stream; a truncated member, a wrong checksum and
 * bytes after the last member (other than zero padding) are errors. */
#ifndef BO_IO_GZIP_H
#define BO_IO_GZIP_H

#include "../base/base.h"

typedef struct bo_inflater bo_inflater;

bo_status bo_inflater_create(bo_context *context, bo_inflater **out);
void bo_inflater_destroy(bo_inflater *inflater);
void bo_inflater_reset(bo_inflater *inflater);
/* Inflates some of `input` into `output`; available == 0 says that the file has no more. *ended: all is out. */
bo_status bo_inflater_run(bo_context *context, bo_inflater *inflater, const char *path, const unsigned char *input,
                          size_t available, unsigned char *output, size_t room, size_t *eaten, size_t *made,
                          bool *ended);

#endif
