/* Bodies of requests to bochner serve: parsed or refused with a reason, and what was parsed is within its bounds. The
 * first byte selects the kind of the request. */
#include <stdlib.h>
#include "fuzz.h"
#include "serve/request.h"

enum { FUZZ_VOCAB = 1000, KINDS = BO_REQUEST_STATE + 1 };

static void require(bool condition)
{
    if (!condition) abort();
}

static void check_text(const char *text, size_t bytes)
{
    require(strlen(text) == bytes);
    for (size_t at = 0, length; at < bytes; at += length) require((length = bo_utf8_length(text + at, bytes - at)) > 0);
}

static void check_prompts(const bo_request *q)
{
    for (size_t i = 0; i < q->prompt_count; i++) {
        const bo_prompt *prompt = &q->prompts[i];
        require(!prompt->text != !prompt->ids);
        if (prompt->text) check_text(prompt->text, prompt->bytes);
        for (size_t t = 0; t < prompt->count; t++) require(prompt->ids[t] >= 0 && prompt->ids[t] < FUZZ_VOCAB);
    }
}

static void check_variables(bo_context *context, const char *variables)
{
    bo_json *json, *message;
    check_text(variables, strlen(variables));
    require(fuzz_ok(context, bo_json_parse(context, "variables", variables, strlen(variables), 100, &json)));
    BO_JSON_EACH(message, bo_json_member(json, "messages"))
    {
        require(bo_json_is(bo_json_member(message, "role"), BO_JSON_TEXT));
        require(bo_json_is(bo_json_member(message, "content"), BO_JSON_TEXT));
    }
    bo_json_delete(json);
}

static void check(bo_context *context, const bo_request *q)
{
    bo_sampler *sampler;
    require((q->prompt_count > 0) != (q->variables != NULL));
    require(q->prompt_count <= BO_REQUEST_MAX_INPUTS && q->n >= 1 && q->n <= BO_REQUEST_MAX_N);
    require(q->top >= -1 && q->top <= BO_MAX_TOP && q->stop_count <= BO_REQUEST_MAX_STOPS);
    check_prompts(q);
    if (q->variables) check_variables(context, q->variables);
    for (size_t i = 0; i < q->bias_count; i++)
        require(q->biases[i].id >= 0 && q->biases[i].id < FUZZ_VOCAB && q->biases[i].amount >= -100 &&
                q->biases[i].amount <= 100);
    for (size_t i = 0; i < q->stop_count; i++) {
        check_text(q->stops[i], strlen(q->stops[i]));
        require(*q->stops[i]);
    }
    if (q->state) require(bo_state_id_is_valid(q->state));
    require(
        fuzz_ok(context, bo_sampler_create(context, &q->sampling, &sampler))); /* what was accepted can be sampled */
    bo_sampler_destroy(sampler);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    bo_context *context = fuzz_context();
    bo_request request;
    bo_refusal refusal = {0};
    if (!size) return 0;
    char *body = malloc(size); /* of exactly this size, without a trailing NUL */
    memcpy(body, data + 1, size - 1);
    const bo_request_kind kind = (bo_request_kind)(data[0] % KINDS);
    if (bo_request_parse(context, kind, body, size - 1, FUZZ_VOCAB, &request, &refusal)) {
        check(context, &request);
        bo_request_free(&request);
    } else {
        require(refusal.status == 400 || refusal.status == 500);
        require(*refusal.message);
    }
    free(body);
    return 0;
}
