/* Blocks of tokens and saved states for single lanes, by a session whose states are those of the lane. */
#include "internal.h"
#include "lanes.h"
#include "session.h"

static bo_status check_lane(bo_context *context, const bo_lanes *lanes, size_t lane)
{
    BO_TRY(bo_model_require_language(context, lanes->model, "lanes"));
    if (lane >= lanes->desc.count)
        return bo_fail(context, BO_INVALID, "lanes: lane %zu is requested, but there are only %zu", lane,
                       lanes->desc.count);
    if (lanes->broken)
        return bo_fail(context, BO_INVALID, "lanes: an earlier call failed; call bo_lanes_reset to start again");
    return BO_OK;
}

/* The session has the capacity of the lanes, so that states have the same layout. */
bo_status bo_lanes_prepare(bo_context *context, bo_lanes *lanes)
{
    if (lanes->reader) return BO_OK;
    if (!lanes->reader_states)
        lanes->reader_states =
            bo_alloc(context, lanes->model->desc.layers, sizeof *lanes->reader_states, "the states of a lane");
    if (!lanes->reader_states) return BO_MEMORY;
    const bo_session_desc desc = {.capacity = lanes->desc.capacity};
    BO_TRY(bo_session_create_reader(context, lanes->model, &desc, &lanes->reader));
    lanes->reader->fingerprint = bo_model_fingerprint(lanes->model);
    BO_TRY(bo_model_digest(context, lanes->model, &lanes->reader->digest));
    lanes->reader->has_hashes = true;
    return BO_OK;
}

/* Exchanges the states of the session for those of the lane. The second call restores them. */
static void exchange_states(bo_lanes *lanes)
{
    void **states = lanes->reader->states;
    lanes->reader->states = lanes->reader_states;
    lanes->reader_states = states;
}

static void attach(bo_lanes *lanes, size_t lane, char *block)
{
    for (size_t i = 0; i < lanes->model->desc.layers; i++) lanes->reader_states[i] = block + lanes->lane.offsets[i];
    exchange_states(lanes);
    lanes->reader->tokens = (uint64_t)lanes->tokens[lane];
    lanes->reader->has_logits = lanes->reader->broken = false;
}

static bool detach(bo_lanes *lanes, size_t lane)
{
    const bool broken = lanes->reader->broken;
    exchange_states(lanes);
    lanes->tokens[lane] = (int32_t)lanes->reader->tokens;
    lanes->reader->broken = lanes->reader->has_logits = false;
    return !broken;
}

uint64_t bo_lanes_tokens(const bo_lanes *lanes, size_t lane)
{
    return lanes && lane < lanes->desc.count ? (uint64_t)lanes->tokens[lane] : 0;
}

typedef bo_status (*read_fn)(bo_context *context, bo_session *session, const int32_t *ids, size_t count, float *out);

static bo_status read_with(bo_context *context, bo_lanes *lanes, size_t lane, const int32_t *ids, size_t count,
                           read_fn read, float *out)
{
    BO_TRY(check_lane(context, lanes, lane));
    if (!count) return bo_fail(context, BO_INVALID, "lanes: at least one token must be read");
    if (count > (size_t)(INT32_MAX - lanes->tokens[lane]))
        return bo_fail(context, BO_INVALID, "lanes: positions are limited to %ld", (long)INT32_MAX);
    BO_TRY(bo_lanes_prepare(context, lanes));
    BO_TRY(bo_lanes_reserve(context, lanes, lane));
    attach(lanes, lane, lanes->blocks[lane]);
    const bo_status status = read(context, lanes->reader, ids, count, out);
    if (!detach(lanes, lane)) bo_lanes_restart(context, lanes, lane);
    return status;
}

bo_status bo_lanes_feed(bo_context *context, bo_lanes *lanes, size_t lane, const int32_t *ids, size_t count,
                        float *logits)
{
    BO_REQUIRE(context, lanes);
    BO_REQUIRE_IF(context, count > 0, ids);
    return read_with(context, lanes, lane, ids, count, bo_session_feed, logits);
}

bo_status bo_lanes_logits(bo_context *context, bo_lanes *lanes, size_t lane, const int32_t *ids, size_t count,
                          float *logits)
{
    BO_REQUIRE(context, lanes, logits);
    BO_REQUIRE_IF(context, count > 0, ids);
    return read_with(context, lanes, lane, ids, count, bo_session_logits, logits);
}

bo_status bo_lanes_hidden(bo_context *context, bo_lanes *lanes, size_t lane, const int32_t *ids, size_t count,
                          float *hidden)
{
    BO_REQUIRE(context, lanes, hidden);
    BO_REQUIRE_IF(context, count > 0, ids);
    return read_with(context, lanes, lane, ids, count, bo_session_hidden, hidden);
}

bo_status bo_lanes_save_memory(bo_context *context, bo_lanes *lanes, size_t lane, void **bytes, size_t *size)
{
    if (bytes) *bytes = NULL;
    if (size) *size = 0;
    BO_REQUIRE(context, lanes, bytes, size);
    BO_TRY(check_lane(context, lanes, lane));
    BO_TRY(bo_lanes_prepare(context, lanes));
    BO_TRY(bo_lanes_reserve(context, lanes, lane));
    attach(lanes, lane, lanes->blocks[lane]);
    const bo_status status = bo_session_save_memory(context, lanes->reader, bytes, size);
    detach(lanes, lane);
    return status;
}

static bo_status load_block(bo_context *context, bo_lanes *lanes, size_t lane, char *block, const void *bytes,
                            size_t size)
{
    const int32_t before = lanes->tokens[lane];
    attach(lanes, lane, block);
    bo_status status = bo_session_restore(context, lanes->reader, bytes, size);
    if (status == BO_OK && lanes->reader->tokens > INT32_MAX)
        status = bo_fail(context, BO_INVALID, "lanes: positions are limited to %ld, the state has read more tokens",
                         (long)INT32_MAX);
    detach(lanes, lane);
    if (status != BO_OK) lanes->tokens[lane] = before;
    return status;
}

bo_status bo_lanes_load_memory(bo_context *context, bo_lanes *lanes, size_t lane, const void *bytes, size_t size)
{
    BO_REQUIRE(context, lanes);
    BO_REQUIRE_IF(context, size > 0, bytes);
    BO_TRY(check_lane(context, lanes, lane));
    BO_TRY(bo_lanes_prepare(context, lanes));
    /* An empty lane needs no second block: it stays empty if the state cannot be loaded. */
    if (!lanes->tokens[lane]) bo_lanes_release(lanes, lane);
    char *block = bo_lanes_block(context, lanes), *unused = block;
    if (!block) return BO_MEMORY;
    const bo_status status = load_block(context, lanes, lane, block, bytes, size);
    if (status == BO_OK) {
        unused = lanes->blocks[lane];
        lanes->blocks[lane] = block;
    }
    bo_layer_states_release(lanes->model, unused);
    return status;
}

bo_status bo_lanes_recognize(bo_context *context, const bo_lanes *lanes, const void *bytes, size_t size)
{
    return bo_session_recognize(context, lanes->reader, bytes, size);
}

bo_status bo_lanes_validate(bo_context *context, const bo_lanes *lanes, const void *bytes, size_t size)
{
    return bo_session_validate(context, lanes->reader, bytes, size);
}

uint64_t bo_lanes_digest(const bo_lanes *lanes)
{
    return lanes->reader->digest;
}
