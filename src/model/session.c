/* Sessions: one sequence, which is a lane, with the logits after its last token. */
#include "lanes.h"
#include <string.h>
#include "internal.h"
#include "session.h"

static bo_lane *lane_of(const bo_session *session)
{
    return &session->lanes->all[0];
}

/* ---- creation and destruction ------------------------------------------------------------------------------------ */

/* Checks the descriptor and fills in its chunk. */
static bo_status resolve(bo_context *context, const bo_model *model, const bo_session_desc *desc, bo_lanes_desc *lane,
                         size_t *chunk)
{
    const bo_session_desc d = desc ? *desc : (bo_session_desc){0};
    *lane = (bo_lanes_desc){.count = 1, .capacity = d.capacity};
    *chunk = d.chunk ? d.chunk : BO_LANES_CHUNK;
    BO_TRY(bo_model_require_language(context, model, "session"));
    BO_TRY(bo_check_reserved(context, "bo_session_desc", d.reserved));
    if (d.chunk > BO_MAX_LANE_CHUNK)
        return bo_fail(context, BO_INVALID, "session: chunk must be at most %d, found %zu", BO_MAX_LANE_CHUNK, d.chunk);
    return BO_OK;
}

bo_status bo_session_estimate(bo_context *context, const bo_model *model, const bo_session_desc *desc,
                              size_t *state_bytes, size_t *all_bytes)
{
    bo_lanes_desc lane;
    size_t chunk, states, last, losses;
    BO_REQUIRE(context, model);
    if (model->desc.task == BO_MODEL_TASK_TRANSLATE && state_bytes && !all_bytes) {
        lane = (bo_lanes_desc){.count = 1, .capacity = desc ? desc->capacity : 0};
        return bo_lanes_measure(context, model, &lane, state_bytes);
    }
    BO_TRY(resolve(context, model, desc, &lane, &chunk));
    BO_TRY(bo_lanes_measure(context, model, &lane, &states));
    if (state_bytes) *state_bytes = states;
    if (!all_bytes) return BO_OK;
    BO_TRY(bo_lanes_workspace(context, model, &lane, chunk, BO_LANES_LAST, &last));
    BO_TRY(bo_lanes_workspace(context, model, &lane, chunk, BO_LANES_LOSSES, &losses));
    *all_bytes = states + last + losses + sizeof(bo_lanes) + sizeof(bo_session) + chunk * sizeof(int32_t) +
                 model->desc.vocab * sizeof(float);
    return BO_OK;
}

static bo_status build(bo_context *context, const bo_model *model, const bo_session_desc *desc, bo_session *session)
{
    bo_lanes_desc lane;
    size_t chunk;
    BO_TRY(resolve(context, model, desc, &lane, &chunk));
    BO_TRY(bo_lanes_build(context, model, &lane, chunk, true, &session->lanes));
    BO_TRY(bo_lanes_reserve(context, session->lanes, 0));
    session->logits = bo_alloc(context, model->desc.vocab, sizeof *session->logits, "logits");
    return session->logits ? BO_OK : BO_MEMORY;
}

bo_status bo_session_create(bo_context *context, const bo_model *model, const bo_session_desc *desc, bo_session **out)
{
    if (out) *out = NULL;
    BO_REQUIRE(context, model, out);
    bo_session *session = bo_alloc(context, 1, sizeof *session, "a session");
    if (!session) return BO_MEMORY;
    const bo_status status = build(context, model, desc, session);
    if (status == BO_OK)
        *out = session;
    else
        bo_session_destroy(session);
    return status;
}

void bo_session_destroy(bo_session *session)
{
    if (!session) return;
    bo_lanes_destroy(session->lanes);
    bo_free(session->logits);
    bo_free(session);
}

bo_status bo_session_reset(bo_context *context, bo_session *session)
{
    BO_REQUIRE(context, session);
    session->has_logits = false;
    return bo_lanes_reset(context, session->lanes);
}

bo_status bo_session_repeat(bo_context *context, bo_session *session, uint64_t tokens)
{
    const bo_lanes *lanes = session->lanes;
    if (tokens > bo_lanes_max_tokens(lanes->model, lanes->desc.capacity))
        return bo_fail(context, BO_INVALID, "session: its capacity is below %llu tokens", (unsigned long long)tokens);
    session->has_logits = false;
    return bo_lanes_repeat(context, session->lanes, 0, tokens);
}

uint64_t bo_session_tokens(const bo_session *session)
{
    return session ? lane_of(session)->tokens : 0;
}

uint64_t bo_session_remaining(const bo_session *session)
{
    if (!session) return 0;
    const uint64_t limit = bo_lanes_max_tokens(session->lanes->model, session->lanes->desc.capacity);
    return limit > lane_of(session)->tokens ? limit - lane_of(session)->tokens : 0;
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */

bo_status bo_session_feed(bo_context *context, bo_session *session, const int32_t *ids, size_t count, float *logits)
{
    BO_REQUIRE(context, session);
    BO_REQUIRE_IF(context, count > 0, ids);
    BO_TRY(bo_lanes_read_tokens(context, session->lanes, 0,
                                &(bo_lane_reading){.ids = ids, .count = count, .out = session->logits}));
    if (count) session->has_logits = true;
    if (!logits) return BO_OK;
    if (!session->has_logits)
        return bo_fail(context, BO_INVALID,
                       "session: no logits are available: no token has been fed yet, or the last tokens were scored");
    memcpy(logits, session->logits, session->lanes->model->desc.vocab * sizeof *logits);
    return BO_OK;
}

static bo_status check_reading(bo_context *context, const bo_session_reading *r)
{
    const int results = (r->logits != NULL) + (r->hidden != NULL) + (r->losses != NULL);
    BO_TRY(bo_check_reserved(context, "bo_session_reading", r->reserved));
    if (!r->count) return BO_OK;
    if (!r->ids) return bo_fail(context, BO_INVALID, "session: ids is NULL");
    if (results != 1)
        return bo_fail(context, BO_INVALID, "session: expected one of logits, hidden and losses, found %d", results);
    if (r->losses && !r->targets) return bo_fail(context, BO_INVALID, "session: losses are requested without targets");
    return BO_OK;
}

bo_status bo_session_read(bo_context *context, bo_session *session, const bo_session_reading *reading)
{
    BO_REQUIRE(context, session, reading);
    BO_TRY(check_reading(context, reading));
    const size_t count = reading->count, vocab = session->lanes->model->desc.vocab;
    const bo_lane_reading r = {.ids = reading->ids,
                               .targets = reading->losses ? reading->targets : NULL,
                               .count = count,
                               .result = reading->logits   ? BO_LANES_ALL
                                         : reading->hidden ? BO_LANES_HIDDEN
                                                           : BO_LANES_LOSSES,
                               .out = reading->logits   ? reading->logits
                                      : reading->hidden ? reading->hidden
                                                        : reading->losses};
    BO_TRY(bo_lanes_read_tokens(context, session->lanes, 0, &r));
    if (!count) return BO_OK;
    if (reading->logits)
        memcpy(session->logits, reading->logits + (count - 1) * vocab, vocab * sizeof *session->logits);
    session->has_logits = reading->logits != NULL;
    return BO_OK;
}

/* ---- saved states ------------------------------------------------------------------------------------------------ */

static bo_status check_whole(bo_context *context, const bo_session *session)
{
    return session->lanes->broken ? bo_fail(context, BO_INVALID, "session: an earlier call failed") : BO_OK;
}

static bo_status write_state(bo_context *context, const bo_session *session, bo_output *output)
{
    const float *logits = session->has_logits ? session->logits : NULL;
    return bo_output_finish(context, output, bo_lanes_write(context, session->lanes, 0, logits, output));
}

bo_status bo_session_save(bo_context *context, const bo_session *session, const bo_sink *sink)
{
    bo_sink_clear(sink);
    BO_REQUIRE(context, session, sink);
    bo_output *output;
    BO_TRY(check_whole(context, session));
    BO_TRY(bo_output_open_sink(context, sink, &output));
    return write_state(context, session, output);
}

bo_status bo_session_load(bo_context *context, bo_session *session, const bo_source *source)
{
    bo_tensors *file;
    BO_REQUIRE(context, session, source);
    BO_TRY(bo_tensors_open_source(context, source, &file));
    const bo_status status = bo_lanes_load(context, session->lanes, 0, file, session->logits, &session->has_logits);
    if (status == BO_OK) session->lanes->broken = false;
    bo_tensors_close(file);
    return status;
}

bo_status bo_session_peek(bo_context *context, const bo_source *source, uint64_t *tokens)
{
    bo_tensors *file;
    if (tokens) *tokens = 0;
    BO_REQUIRE(context, source, tokens);
    BO_TRY(bo_tensors_open_source(context, source, &file));
    const bo_status status = bo_lanes_peek(context, file, tokens);
    bo_tensors_close(file);
    return status;
}
