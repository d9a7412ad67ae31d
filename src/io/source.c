/* Sources of bytes: files, memory and callbacks of a caller. */
#include "bytes.h"
#include "output.h"

const char *bo_source_name(const bo_source *source)
{
    return source->path ? source->path : source->name ? source->name : source->read ? "stream" : "memory";
}

bo_status bo_source_check(bo_context *context, const bo_source *source)
{
    const int origins = (source->path != NULL) + (source->bytes != NULL) + (source->read != NULL);
    BO_TRY(bo_check_reserved(context, "bo_source", source->reserved));
    if (origins == 1) return BO_OK;
    return bo_fail(context, BO_INVALID, "bo_source: expected one of path, bytes and read, found %d of them", origins);
}

/* Appends the bytes of the callback until it has no more. */
static bo_status collect(bo_context *context, const bo_source *source, const bo_limits *limits, bo_output *output)
{
    enum { PIECE = BO_SIZE(1 << 16, 16) };
    char piece[PIECE];
    for (uint64_t total = 0;;) {
        size_t count = 0;
        const bo_status status = source->read(source->user, piece, sizeof piece, &count);
        if (status != BO_OK)
            return bo_fail(context, status, "%s: the callback failed to read: %s", bo_source_name(source),
                           bo_status_string(status));
        if (count > sizeof piece)
            return bo_fail(context, BO_INVALID, "%s: the callback stored %zu bytes, more than the %zu it may store",
                           bo_source_name(source), count, sizeof piece);
        if (!count) return BO_OK;
        total += count;
        if (total > limits->bytes)
            return bo_input_too_large(context, bo_source_name(source), total, true, limits->bytes);
        BO_TRY(bo_progress(context, "reading", (double)total, 0));
        BO_TRY(bo_output_write(context, output, piece, count));
    }
}

bo_status bo_source_collect(bo_context *context, const bo_source *source, const bo_limits *limits, void **bytes,
                            size_t *size)
{
    bo_output *output;
    BO_TRY(bo_output_open_memory(context, bytes, size, &output));
    return bo_output_finish(context, output, collect(context, source, limits, output));
}
