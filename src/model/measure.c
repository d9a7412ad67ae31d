/* The cost of decoding a token after a long context. */
#include "lanes.h"
#include <math.h>
#include <stdlib.h>
#include "../base/rng.h"
#include "internal.h"
#include "session.h"

enum {
    READ = 256,
    WARM_UP = 2,
    MIN_SAMPLES = 5,
    MAX_SAMPLES = 999
}; /* tokens that are really read; numbers of timed tokens */
static const double SECONDS = 0.3; /* time after which LEAST timed tokens suffice */

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static int32_t some_token(const bo_model *model, size_t number)
{
    bo_rng rng = bo_rng_make(0, bo_rng_stream("tokens to measure", number));
    return (int32_t)bo_rng_below(&rng, model->desc.vocab);
}

static bo_status read_some(bo_context *context, bo_session *session, size_t count)
{
    int32_t ids[READ];
    for (size_t i = 0; i < count; i++) ids[i] = some_token(session->lanes->model, i);
    return bo_session_feed(context, session, ids, count, NULL);
}

/* Every timed token is the last one of the context: the session is set back before it. */
static bo_status time_token(bo_context *context, bo_session *session, size_t tokens, size_t number, double *seconds)
{
    const int32_t id = some_token(session->lanes->model, number);
    BO_TRY(bo_session_repeat(context, session, tokens - 1));
    const double start = bo_seconds();
    BO_TRY(bo_session_feed(context, session, &id, 1, NULL));
    *seconds = bo_seconds() - start;
    return BO_OK;
}

static bo_status time_tokens(bo_context *context, bo_session *session, size_t tokens, double *seconds)
{
    double samples[MAX_SAMPLES], warm_up;
    size_t count = 0;
    BO_TRY(read_some(context, session, bo_min(tokens - 1, READ)));
    for (size_t i = 0; i < WARM_UP; i++) BO_TRY(time_token(context, session, tokens, i, &warm_up));
    for (const double start = bo_seconds();
         count < MAX_SAMPLES && (count < MIN_SAMPLES || bo_seconds() - start < SECONDS); count++) {
        BO_TRY(bo_progress(context, "measuring", (double)count, 0));
        BO_TRY(time_token(context, session, tokens, count, &samples[count]));
    }
    qsort(samples, count, sizeof *samples, compare);
    *seconds = (samples[(count - 1) / 2] + samples[count / 2]) / 2;
    return BO_OK;
}

/* The weights are in memory already, but are not part of the bytes of the session. */
static bool fits(const bo_model *model, size_t state_bytes)
{
    bo_device *device = bo_weights_device(model->weights);
    if (bo_device_is_gpu(device)) return (double)state_bytes <= 0.75 * (double)bo_device_memory(device).bytes;
    return (double)state_bytes + (double)bo_model_report(model)->bytes <= (double)bo_default_memory().bytes;
}

static bo_status measure(bo_context *context, const bo_model *model, size_t tokens, bo_session_cost *out)
{
    const bo_session_desc desc = {.chunk = READ, .capacity = tokens};
    bo_session *session;
    *out = (bo_session_cost){.tokens = tokens, .seconds = NAN};
    if (tokens > bo_lanes_max_tokens(model, tokens)) return BO_OK;
    BO_TRY(bo_session_estimate(context, model, &desc, &out->state_bytes, NULL));
    if (!fits(model, out->state_bytes)) return BO_OK;
    BO_TRY(bo_session_create(context, model, &desc, &session));
    const bo_status status = time_tokens(context, session, tokens, &out->seconds);
    bo_session_destroy(session);
    return status;
}

bo_status bo_session_measure(bo_context *context, const bo_model *model, const size_t *lengths, size_t count,
                             bo_session_cost *out)
{
    BO_REQUIRE(context, model);
    BO_REQUIRE_IF(context, count > 0, lengths, out);
    BO_TRY(bo_model_require_language(context, model, "session"));
    for (size_t i = 0; i < count; i++)
        if (!lengths[i]) return bo_fail(context, BO_INVALID, "session: length %zu must be at least 1, found 0", i);
    for (size_t i = 0; i < count; i++) BO_TRY(measure(context, model, lengths[i], &out[i]));
    return BO_OK;
}
