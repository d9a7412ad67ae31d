/* The settings of a pass in device memory. */
#include <string.h>
#include "gpu.h"

/* The arrays after bo_gpu_pass: state addresses, then first rows of the sequences of both streams. */
typedef struct layout {
    size_t states, starts, sources, bytes;
} layout;

static layout layout_of(const bo_graph_pass *pass, size_t layers, size_t sequences)
{
    layout l = {.states = bo_padded_bytes(sizeof(bo_gpu_pass))};
    l.starts = l.states + bo_padded_bytes((pass->states ? layers * sequences : 0) * sizeof(void *));
    const size_t each = bo_padded_bytes((pass->sequences + 1) * sizeof(int32_t));
    l.sources = l.starts + (pass->lengths ? each : 0);
    l.bytes = l.sources + (pass->source_lengths ? each : 0);
    return l;
}

static void fill_starts(const size_t *lengths, size_t count, int32_t *out)
{
    size_t at = 0;
    for (size_t s = 0; s < count; s++) {
        out[s] = (int32_t)at;
        at += lengths[s];
    }
    out[count] = (int32_t)at;
}

static bo_status reserve(bo_context *context, size_t bytes, bo_staged *s, bool *moved)
{
    if (s->bytes >= bytes) return BO_OK;
    *moved = true;
    bo_buffer_release(s->owner, s->device);
    bo_free(s->written);
    s->device = NULL;
    s->bytes = 0;
    s->written = bo_alloc(context, bytes, 1, "settings of a pass");
    if (!s->written) return BO_MEMORY;
    s->owner = bo_device_of(context);
    s->device = bo_buffer_allocate(context, s->owner, bytes, "settings of a pass");
    if (!s->device) return BO_MEMORY;
    s->bytes = bytes;
    return BO_OK;
}

bo_status bo_gpu_stage(bo_context *context, const bo_graph_pass *pass, size_t layers, size_t sequences,
                       bo_staged **staged, bool *moved)
{
    if (!*staged) *staged = bo_alloc(context, 1, sizeof **staged, "settings of a pass");
    if (!*staged) return BO_MEMORY;
    bo_staged *s = *staged;
    if (pass->sequences) sequences = pass->sequences;
    const layout l = layout_of(pass, layers, sequences);
    BO_TRY(reserve(context, l.bytes, s, moved));
    char *at = (char *)s->device;
    s->host = (bo_gpu_pass){.seed = pass->seed,
                            .starts = pass->lengths ? (const int32_t *)(void *)(at + l.starts) : NULL,
                            .source_starts = pass->source_lengths ? (const int32_t *)(void *)(at + l.sources) : NULL,
                            .states = pass->states ? (void *const *)(void *)(at + l.states) : NULL,
                            .sequences = (int32_t)sequences,
                            .training = pass->training};
    memcpy(s->written, &s->host, sizeof s->host);
    if (pass->states) memcpy(s->written + l.states, pass->states, layers * sequences * sizeof(void *));
    if (pass->lengths) fill_starts(pass->lengths, pass->sequences, (int32_t *)(void *)(s->written + l.starts));
    if (pass->source_lengths)
        fill_starts(pass->source_lengths, pass->sequences, (int32_t *)(void *)(s->written + l.sources));
    return bo_buffer_write(context, s->owner, s->device, s->written, l.bytes);
}

void bo_gpu_unstage(bo_staged *staged)
{
    if (!staged) return;
    bo_buffer_release(staged->owner, staged->device);
    bo_free(staged->written);
    bo_free(staged);
}
