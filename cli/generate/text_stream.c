#include "text_stream.h"
#include "../common/streams.h"

/* Text that was printed is dropped: a text of any length takes the same memory. */
static void show(cli_text_stream *stream)
{
    if (!stream->out || !stream->text.ready) return;
    fwrite(stream->text.text, 1, stream->text.ready, stream->out);
    cli_streams_flush();
    bo_text_stream_drop(&stream->text);
}

bo_status cli_text_stream_add(bo_context *context, cli_text_stream *stream, const char *bytes, size_t count,
                              bool *stopped)
{
    const bo_status status = bo_text_stream_add(context, &stream->text, bytes, count, stopped);
    if (status == BO_OK && !*stopped) show(stream);
    return status;
}

void cli_text_stream_end(cli_text_stream *stream)
{
    bo_text_stream_end(&stream->text);
    show(stream);
}
