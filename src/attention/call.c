/* The public calls. A bo_attention_call is dispatched to attention.h, arrays.h or reference.c by its element type,
 * arrays and states. Nothing is copied, and only a workspace is allocated. */
#include "arrays.h"
#include "calls.h"
#include "given.h"
#include "gpu/host.h"

/* ---- parts of a call --------------------------------------------------------------------------------------------- */

static bo_attention_shape shape_of(const bo_attention_call *c)
{
    return (bo_attention_shape){.sequences = c->sequences,
                                .tokens = c->tokens,
                                .key_tokens = c->key_tokens,
                                .lengths = c->lengths,
                                .key_lengths = c->key_lengths,
                                .no_keys = c->no_keys,
                                .no_queries = c->no_queries,
                                .layout = c->layout};
}

#define TOKENS(BIT, member)             .member = c->member.data,
#define PARAMETER(BIT, member)          .member = c->member,
#define TOKENS_GRADIENT(BIT, member)    .member = c->d##member.data,
#define PARAMETER_GRADIENT(BIT, member) .member = c->d##member,
#define ARRAYS                          .q = c->q.data, .k = c->k.data, .v = c->v.data
#define GRADIENTS                       .q = c->dq.data, .k = c->dk.data, .v = c->dv.data

static bo_attention_inputs inputs_of(const bo_attention_call *c)
{
    return (bo_attention_inputs){ARRAYS, BO_ATTENTION_GIVEN_LIST(TOKENS, PARAMETER).solves = c->solves};
}

static bo_attention_inputs_f64 inputs_f64_of(const bo_attention_call *c)
{
    return (bo_attention_inputs_f64){ARRAYS, BO_ATTENTION_GIVEN_LIST(TOKENS, PARAMETER)};
}

static bo_attention_gradients gradients_of(const bo_attention_call *c)
{
    return (bo_attention_gradients){GRADIENTS,
                                    BO_ATTENTION_GIVEN_LIST(TOKENS_GRADIENT, PARAMETER_GRADIENT).initial = c->dinitial};
}

static bo_attention_gradients_f64 gradients_f64_of(const bo_attention_call *c)
{
    return (bo_attention_gradients_f64){GRADIENTS, BO_ATTENTION_GIVEN_LIST(TOKENS_GRADIENT, PARAMETER_GRADIENT)};
}

#undef GRADIENTS
#undef ARRAYS
#undef PARAMETER_GRADIENT
#undef TOKENS_GRADIENT
#undef PARAMETER
#undef TOKENS

static size_t stride_of_input(const bo_attention_input *a)
{
    return a->sequence | a->token | a->head;
}

static size_t stride_of_output(const bo_attention_output *a)
{
    return a->sequence | a->token | a->head;
}

static bool has_strides(const bo_attention_call *c, bool backward)
{
    size_t any = stride_of_input(&c->q) | stride_of_input(&c->k) | stride_of_input(&c->v) | stride_of_output(&c->out) |
                 stride_of_input(&c->log_gate) | stride_of_input(&c->beta);
    if (backward)
        any |= stride_of_input(&c->dout) | stride_of_output(&c->dq) | stride_of_output(&c->dk) |
               stride_of_output(&c->dv) | stride_of_output(&c->dlog_gate) | stride_of_output(&c->dbeta);
    return any;
}

/* True if arrays.h handles the call. */
static bool is_strided(const bo_attention_call *c, bool backward)
{
    return c->workspace || c->stream || c->offsets || c->key_offsets || c->element == BO_ELEMENT_BFLOAT16 ||
           has_strides(c, backward);
}

static bo_status check(bo_context *context, const bo_attention_call *c)
{
    BO_TRY(bo_check_reserved(context, "bo_attention_call", c->reserved));
    if (c->layout != BO_LAYOUT_HEADS_FIRST && c->layout != BO_LAYOUT_TOKENS_FIRST)
        return bo_fail(context, BO_INVALID, "attention: layout %d is unknown", (int)c->layout);
    if (c->element == BO_ELEMENT_FLOAT32 || c->element == BO_ELEMENT_BFLOAT16 || c->element == BO_ELEMENT_FLOAT64)
        return BO_OK;
    return bo_fail(context, BO_INVALID, "attention: element must be FLOAT32, BFLOAT16 or FLOAT64, found %d",
                   (int)c->element);
}

/* For functions on contiguous float32 arrays. */
static bo_status check_plain(bo_context *context, const bo_attention_call *c)
{
    BO_TRY(check(context, c));
    if (c->element == BO_ELEMENT_FLOAT32 && !c->offsets && !c->key_offsets && !has_strides(c, false)) return BO_OK;
    return bo_fail(context, BO_UNSUPPORTED,
                   "attention: this function supports only float32 arrays without strides and offsets");
}

static bool updates_in_place(const bo_attention_call *c)
{
    if (!c->initial || !c->final) return false;
    for (size_t s = 0; c->initial != c->final && s < c->sequences; s++)
        if (c->initial[s] != c->final[s]) return false;
    return true;
}

/* ---- arrays with strides, or a workspace ------------------------------------------------------------------------- */

/* True if keys are tokens of another stream. Otherwise keys use the offsets of the queries. */
static bool is_cross(const bo_attention_call *c)
{
    return !c->no_keys && (c->key_offsets || (!c->offsets && c->key_tokens && c->key_tokens != c->tokens));
}

static bo_attention_array array_of_input(const bo_attention_input *a)
{
    return (bo_attention_array){(void *)(uintptr_t)a->data, a->sequence, a->token, a->head};
}

static bo_attention_array array_of_output(const bo_attention_output *a)
{
    return (bo_attention_array){a->data, a->sequence, a->token, a->head};
}

static bo_status check_strided(bo_context *context, const bo_attention_call *c, bool backward)
{
    const char *refused = NULL;
    if (c->lengths || c->key_lengths) refused = "lengths; set offsets";
    if (c->no_queries) refused = "keys without queries";
    if (!backward && (c->initial || c->final) && !updates_in_place(c) && !(c->no_keys && c->initial && !c->final))
        refused = "states that are not updated in place; set final to initial";
    if (backward && (c->dfinal || c->dinitial)) refused = "gradients of states";
    if (!refused) return BO_OK;
    return bo_fail(context, BO_UNSUPPORTED,
                   "attention: a call with strides, offsets, bfloat16, a stream or a workspace does not support %s",
                   refused);
}

static bo_strided_call strided_of(const bo_attention_call *c, bool tape)
{
#define TOKENS(BIT, member)    .member = array_of_input(&c->member), .d##member = array_of_output(&c->d##member),
#define PARAMETER(BIT, member) .member = c->member, .d##member = c->d##member,
    const bool cross = is_cross(c);
    return (bo_strided_call){.element = c->element,
                             .layout = c->layout,
                             .training = tape,
                             .no_keys = c->no_keys,
                             .sequences = c->sequences,
                             .tokens = c->tokens,
                             .key_tokens = cross ? c->key_tokens : 0,
                             .offsets = c->offsets,
                             .key_offsets = c->key_offsets,
                             .rows = c->rows,
                             .key_rows = c->key_rows,
                             .cross = cross,
                             .q = array_of_input(&c->q),
                             .k = array_of_input(&c->k),
                             .v = array_of_input(&c->v),
                             .out = array_of_output(&c->out),
                             .dout = array_of_input(&c->dout),
                             .dq = array_of_output(&c->dq),
                             .dk = array_of_output(&c->dk),
                             .dv = array_of_output(&c->dv),
                             BO_ATTENTION_GIVEN_LIST(TOKENS, PARAMETER).states = c->initial,
                             .tape = c->tape,
                             .workspace = c->workspace,
                             .stream = c->stream,
                             .solves = c->solves};
#undef PARAMETER
#undef TOKENS
}

static bo_status run_strided(bo_context *context, const bo_attention *attention, const bo_attention_call *c,
                             bool backward)
{
    BO_TRY(check_strided(context, c, backward));
    bo_strided_call s = strided_of(c, c->tape || backward);
    if (s.workspace) return (backward ? bo_strided_backward : bo_strided_forward)(context, attention, &s);
    if (bo_context_is_on_gpu(context) && s.stream)
        return bo_fail(context, BO_INVALID, "attention: a call with a stream needs a workspace, found NULL");
    if (bo_context_is_on_gpu(context)) return bo_gpu_strided_run(context, attention, &s, backward);
    size_t tape, bytes;
    BO_TRY(bo_strided_bytes(context, attention, &s, backward, &tape, &bytes));
    s.workspace = bo_alloc(context, bytes, 1, "attention's workspace");
    if (!s.workspace) return BO_MEMORY;
    const bo_status status = (backward ? bo_strided_backward : bo_strided_forward)(context, attention, &s);
    bo_free(s.workspace);
    return status;
}

/* ---- float64 ----------------------------------------------------------------------------------------------------- */

static bo_status check_f64(bo_context *context, const bo_attention_call *c, bool backward)
{
    const char *refused = NULL;
    if (has_strides(c, backward)) refused = "strides";
    if (c->offsets || c->key_offsets) refused = "offsets; set lengths";
    if (c->stream) refused = "a stream";
    if (c->initial || (c->final && !backward) || c->dfinal || c->dinitial) refused = "states";
    if (!refused) return BO_OK;
    return bo_fail(context, BO_UNSUPPORTED, "attention: a call in float64 does not support %s", refused);
}

/* ---- public ------------------------------------------------------------------------------------------------------ */

/* True if every sequence has one token that continues its state. */
static bool is_step(const bo_attention_call *c)
{
    if (c->tokens != 1 || !c->initial || c->key_tokens > 1 || c->lengths || c->key_lengths || c->tape || c->no_queries)
        return false;
    if (c->no_keys != !c->k.data) return false;
    return c->no_keys && !c->final ? true : updates_in_place(c);
}

bo_status bo_attention_forward(bo_context *context, const bo_attention *attention, const bo_attention_call *call)
{
    BO_REQUIRE(context, attention, call);
    BO_TRY(check(context, call));
    if (call->element == BO_ELEMENT_FLOAT64) {
        const bo_attention_shape shape = shape_of(call);
        const bo_attention_inputs_f64 in = inputs_f64_of(call);
        BO_TRY(check_f64(context, call, false));
        return bo_attention_forward_f64(context, attention, &shape, &in, call->out.data);
    }
    if (is_strided(call, false)) return run_strided(context, attention, call, false);
    const bo_attention_inputs in = inputs_of(call);
    if (is_step(call))
        return bo_attention_step(context, attention, call->sequences, &in, call->initial, call->out.data);
    const bo_attention_shape shape = shape_of(call);
    return bo_attention_forward_arrays(context, attention, &shape, &in, (const void *const *)call->initial, call->final,
                                       call->out.data, call->tape);
}

bo_status bo_attention_backward(bo_context *context, const bo_attention *attention, const bo_attention_call *call)
{
    BO_REQUIRE(context, attention, call);
    BO_TRY(check(context, call));
    const bo_attention_shape shape = shape_of(call);
    if (call->element == BO_ELEMENT_FLOAT64) {
        const bo_attention_inputs_f64 in = inputs_f64_of(call);
        const bo_attention_gradients_f64 gradients = gradients_f64_of(call);
        BO_TRY(check_f64(context, call, true));
        return bo_attention_backward_f64(context, attention, &shape, &in, call->dout.data, &gradients);
    }
    if (is_strided(call, true)) return run_strided(context, attention, call, true);
    const bo_attention_inputs in = inputs_of(call);
    const bo_attention_gradients gradients = gradients_of(call);
    return bo_attention_backward_arrays(context, attention, &shape, &in, (const void *const *)call->initial,
                                        call->out.data, call->tape, call->dout.data, call->dfinal, &gradients);
}

bo_status bo_attention_call_bytes(bo_context *context, const bo_attention *attention, const bo_attention_call *call,
                                  bool backward, size_t *tape, size_t *workspace)
{
    if (tape) *tape = 0;
    if (workspace) *workspace = 0;
    BO_REQUIRE(context, attention, call);
    BO_TRY(check(context, call));
    if (call->element == BO_ELEMENT_FLOAT64) return check_f64(context, call, backward);
    const bool strided = is_strided(call, backward);
    const bo_attention_shape shape = shape_of(call);
    if (tape && !call->offsets) BO_TRY(bo_attention_tape_bytes(context, attention, &shape, tape));
    if (!workspace && !strided) return BO_OK;
    BO_TRY(check_strided(context, call, backward));
    const bo_strided_call s = strided_of(call, tape || backward);
    size_t kept, work;
    BO_TRY(bo_strided_bytes(context, attention, &s, backward, &kept, &work));
    if (tape) *tape = bo_max(*tape, kept);
    if (workspace) *workspace = work;
    return BO_OK;
}

bo_status bo_attention_estimate(bo_context *context, const bo_attention *attention, const bo_attention_call *call,
                                bo_attention_cost *out)
{
    BO_REQUIRE(context, attention, call, out);
    BO_TRY(check_plain(context, call));
    const bo_attention_shape shape = shape_of(call);
    return bo_attention_estimate_arrays(context, attention, &shape, out);
}

bo_status bo_attention_measure(bo_context *context, const bo_attention *attention, const bo_attention_call *call,
                               size_t queries, bo_attention_accuracy *error)
{
    BO_REQUIRE(context, attention, call, error);
    BO_TRY(check_plain(context, call));
    const bo_attention_shape shape = shape_of(call);
    const bo_attention_inputs in = inputs_of(call);
    return bo_attention_measure_arrays(context, attention, &shape, &in, call->out.data, queries, error);
}

bo_status bo_calibration_add(bo_context *context, bo_calibration *calibration, const bo_attention_call *call)
{
    BO_REQUIRE(context, calibration, call);
    BO_TRY(check_plain(context, call));
    const bo_attention_shape shape = shape_of(call);
    const bo_attention_inputs in = inputs_of(call);
    return bo_calibration_add_arrays(context, calibration, &shape, &in);
}

bo_status bo_attention_whiten(bo_context *context, const bo_attention *attention, const bo_attention_call *call,
                              double amount, float *m)
{
    BO_REQUIRE(context, attention, call, m);
    BO_TRY(check_plain(context, call));
    const bo_attention_shape shape = shape_of(call);
    return bo_attention_whiten_arrays(context, attention, &shape, call->q.data, call->k.data, amount, m);
}

bo_status bo_attention_propose(bo_context *context, bo_attention *attention, const bo_attention_call *call,
                               bo_proposal_report *out)
{
    BO_REQUIRE(context, attention, call);
    BO_TRY(check_plain(context, call));
    const bo_attention_shape shape = shape_of(call);
    return bo_attention_propose_arrays(context, attention, &shape, call->q.data, call->k.data, out);
}

bo_status bo_attention_advise(bo_context *context, const bo_attention_desc *desc, const bo_attention_call *call,
                              double target, size_t max_features, bo_attention_advice **out)
{
    if (out) *out = NULL;
    BO_REQUIRE(context, desc, call, out);
    BO_TRY(check_plain(context, call));
    const bo_attention_shape shape = shape_of(call);
    return bo_attention_advise_arrays(context, desc, &shape, call->q.data, call->k.data, call->v.data, target,
                                      max_features, out);
}
