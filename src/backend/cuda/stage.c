/* The settings of a pass in memory of the device. */
#include <string.h>
#include "cuda.h"

/* The arrays after bo_cuda_pass: state addresses, then first rows of the sequences of both streams. */
typedef struct layout {
    size_t states, starts, sources, bytes;
} layout;

static layout layout_of(const bo_graph_pass *pass, size_t layers, size_t sequences)
{
    layout l = {.states = bo_padded_bytes(sizeof(bo_cuda_pass))};
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
    const bo_cuda_device *d = bo_cuda_open_device();
    if (s->bytes >= bytes) return BO_OK;
    *moved = true;
    if (s->device) d->functions->release(d->cuda, s->device);
    bo_free(s->room);
    s->device = NULL;
    s->bytes = 0;
    void *memory = NULL;
    s->room = bo_alloc(context, bytes, 1, "settings of a pass");
    if (!s->room) return BO_MEMORY;
    BO_TRY(bo_cuda_check(context, d->functions->allocate(d->cuda, bytes, &memory)));
    s->device = memory;
    s->bytes = bytes;
    return BO_OK;
}

bo_status bo_cuda_stage(bo_context *context, const bo_graph_pass *pass, size_t layers, size_t sequences,
                        bo_staged **staged, bool *moved)
{
    const bo_cuda_device *d = bo_cuda_open_device();
    if (!*staged) *staged = bo_alloc(context, 1, sizeof **staged, "settings of a pass");
    if (!*staged) return BO_MEMORY;
    bo_staged *s = *staged;
    if (pass->sequences) sequences = pass->sequences;
    const layout l = layout_of(pass, layers, sequences);
    BO_TRY(reserve(context, l.bytes, s, moved));
    char *at = (char *)s->device;
    s->host = (bo_cuda_pass){.seed = pass->seed,
                             .starts = pass->lengths ? (const int32_t *)(void *)(at + l.starts) : NULL,
                             .source_starts = pass->source_lengths ? (const int32_t *)(void *)(at + l.sources) : NULL,
                             .states = pass->states ? (void *const *)(void *)(at + l.states) : NULL,
                             .sequences = (int32_t)sequences,
                             .training = pass->training};
    memcpy(s->room, &s->host, sizeof s->host);
    if (pass->states) memcpy(s->room + l.states, pass->states, layers * sequences * sizeof(void *));
    if (pass->lengths) fill_starts(pass->lengths, pass->sequences, (int32_t *)(void *)(s->room + l.starts));
    if (pass->source_lengths)
        fill_starts(pass->source_lengths, pass->sequences, (int32_t *)(void *)(s->room + l.sources));
    return bo_cuda_check(context, d->functions->write(d->cuda, s->device, s->room, l.bytes));
}

void bo_cuda_unstage(bo_staged *staged)
{
    const bo_cuda_device *d = bo_cuda_open_device();
    if (!staged) return;
    bo_cuda_lock();
    if (staged->device) d->functions->release(d->cuda, staged->device);
    bo_cuda_unlock();
    bo_free(staged->room);
    bo_free(staged);
}
