/* gzip decompression with zlib, member by member. */
#include "gzip.h"

#include <string.h>
#include <zlib.h>

/* `inside`: between the header and the trailer of a member. `members`: number of members started. */
struct bo_inflater {
    z_stream z;
    bool inside, padding;
    size_t members;
};

static voidpf zlib_allocate(voidpf context, uInt count, uInt size)
{
    return bo_alloc_raw(context, count, size, "gzip");
}

static void zlib_release(voidpf context, voidpf block)
{
    (void)context;
    bo_free(block);
}

bo_status bo_inflater_create(bo_context *context, bo_inflater **out)
{
    *out = NULL;
    bo_inflater *inflater = bo_alloc(context, 1, sizeof *inflater, "a gzip decoder");
    if (!inflater) return BO_MEMORY;
    inflater->z.zalloc = zlib_allocate;
    inflater->z.zfree = zlib_release;
    inflater->z.opaque = context;
    if (inflateInit2(&inflater->z, 16 + MAX_WBITS) != Z_OK) {
        bo_free(inflater);
        return bo_fail(context, BO_MEMORY, "out of memory for a gzip decoder");
    }
    *out = inflater;
    return BO_OK;
}

void bo_inflater_destroy(bo_inflater *inflater)
{
    if (!inflater) return;
    inflateEnd(&inflater->z);
    bo_free(inflater);
}

void bo_inflater_reset(bo_inflater *inflater)
{
    inflateReset(&inflater->z);
    inflater->inside = inflater->padding = false;
    inflater->members = 0;
}

/* At the start of the file or after a member: expects a member, zero padding or the end. */
static bo_status between_members(bo_context *context, bo_inflater *inflater, const char *path,
                                 const unsigned char *input, size_t available, size_t *consumed, bool *ended)
{
    if (available == 0) {
        *ended = true;
        return BO_OK;
    }
    if (inflater->members > 0 && (input[0] == 0 || inflater->padding)) {
        inflater->padding = true;
        while (*consumed < available && input[*consumed] == 0) ++*consumed;
        if (*consumed == available) return BO_OK;
    } else if (input[0] == 0x1f) {
        inflateReset(&inflater->z);
        inflater->inside = true;
        ++inflater->members;
        return BO_OK;
    }
    return bo_fail(context, BO_FORMAT, "%s: expected the end of the file after the gzip data, found other bytes", path);
}

bo_status bo_inflater_run(bo_context *context, bo_inflater *inflater, const char *path, const unsigned char *input,
                          size_t available, unsigned char *output, size_t output_size, size_t *consumed,
                          size_t *produced, bool *ended)
{
    *consumed = *produced = 0;
    *ended = false;
    if (!inflater->inside) {
        BO_TRY(between_members(context, inflater, path, input, available, consumed, ended));
        if (!inflater->inside) return BO_OK;
    }
    if (available == 0)
        return bo_fail(context, BO_FORMAT, "%s: the gzip data is truncated; copy or download the file again", path);
    z_stream *z = &inflater->z;
    const uInt max_piece = (uInt)1 << 30;
    z->opaque = context; /* zlib allocates its window late, with the context of this call */
    z->next_in = (Bytef *)(uintptr_t)input;
    z->avail_in = available < max_piece ? (uInt)available : max_piece;
    z->next_out = output;
    z->avail_out = output_size < max_piece ? (uInt)output_size : max_piece;
    const uInt in_before = z->avail_in, out_before = z->avail_out;
    int code = inflate(z, Z_NO_FLUSH);
    *consumed = in_before - z->avail_in;
    *produced = out_before - z->avail_out;
    if (code == Z_STREAM_END) {
        inflater->inside = false;
        return BO_OK;
    }
    if (code == Z_OK || code == Z_BUF_ERROR) return BO_OK;
    if (code == Z_MEM_ERROR) return bo_fail(context, BO_MEMORY, "%s: out of memory for gzip", path);
    return bo_fail(context, BO_FORMAT, "%s: the gzip data is damaged: %s; copy or download the file again", path,
                   z->msg ? z->msg : "unknown error");
}
