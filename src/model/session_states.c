/* The states of a session: their places in one piece of memory, copies in memory of the host, and their length. */
#include <assert.h>
#include "../attention/attention.h"
#include "internal.h"
#include "session.h"

size_t bo_session_layer_bytes(const bo_session *session, size_t layer)
{
    return bo_layer_state_bytes(&session->model->desc, layer, session->attentions.all[layer]);
}

static size_t padded_bytes(const bo_session *session, size_t layer)
{
    return bo_layer_state_room(&session->model->desc, layer, session->attentions.all[layer]);
}

size_t bo_session_states_bytes(const bo_session *session)
{
    size_t bytes = 0;
    for (size_t i = 0; i < session->model->desc.layers; i++) bytes += padded_bytes(session, i);
    return bytes;
}

void bo_session_place(const bo_session *session, char *memory, void **states)
{
    char *at = memory;
    for (size_t i = 0; i < session->model->desc.layers; i++) {
        states[i] = at;
        at += padded_bytes(session, i);
    }
    assert(at == memory + session->state_bytes);
}

bo_device *bo_session_device(const bo_session *session)
{
    return bo_weights_device(session->model->weights);
}

bo_status bo_host_states_create(bo_context *context, const bo_session *session, bo_host_states *out)
{
    out->memory = bo_alloc_sparse(context, session->state_bytes, 1, "a session's state");
    out->states = bo_alloc(context, session->model->desc.layers, sizeof *out->states, "a session's states");
    if (!out->memory || !out->states) return BO_MEMORY;
    bo_session_place(session, out->memory, out->states);
    return BO_OK;
}

void bo_host_states_free(bo_host_states *h)
{
    bo_free(h->memory);
    bo_free(h->states);
}

bo_status bo_host_states_read(bo_context *context, const bo_session *session, const bo_host_states *h)
{
    for (size_t i = 0; i < session->model->desc.layers; i++)
        BO_TRY(bo_buffer_read(context, bo_session_device(session), h->states[i], session->states[i],
                              bo_session_layer_bytes(session, i)));
    return BO_OK;
}

bo_status bo_host_states_write(bo_context *context, const bo_session *session, const bo_host_states *h)
{
    for (size_t i = 0; i < session->model->desc.layers; i++)
        BO_TRY(bo_buffer_write(context, bo_session_device(session), session->states[i], h->states[i],
                               bo_session_layer_bytes(session, i)));
    return BO_OK;
}

static bo_status repeat_states(bo_context *context, const bo_session *session, uint64_t tokens, void *const *states)
{
    for (size_t i = 0; i < session->model->desc.layers; i++)
        if (session->attentions.all[i])
            BO_TRY(bo_attention_state_repeat(context, session->attentions.all[i], states[i], tokens));
    return BO_OK;
}

static bo_status repeat_through_host(bo_context *context, const bo_session *session, uint64_t tokens)
{
    bo_host_states h = {0};
    bo_status status = bo_host_states_create(context, session, &h);
    if (status == BO_OK) status = bo_host_states_read(context, session, &h);
    if (status == BO_OK) status = repeat_states(context, session, tokens, h.states);
    if (status == BO_OK) status = bo_host_states_write(context, session, &h);
    bo_host_states_free(&h);
    return status;
}

bo_status bo_session_repeat(bo_context *context, bo_session *session, uint64_t tokens)
{
    if (tokens > bo_session_most(session->model, session->desc.capacity))
        return bo_fail(context, BO_INVALID, "session: it cannot hold %llu tokens", (unsigned long long)tokens);
    session->broken = true; /* until all layers have changed */
    BO_TRY(!bo_device_is_gpu(bo_session_device(session)) ? repeat_states(context, session, tokens, session->states)
                                                         : repeat_through_host(context, session, tokens));
    session->tokens = tokens;
    session->has_logits = session->broken = false;
    return BO_OK;
}
