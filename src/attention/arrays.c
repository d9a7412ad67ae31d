/* Calls on strided arrays in device memory. On the CPU, strided arrays are copied to and from contiguous arrays in the
 * layout of the call. */
#include "arrays.h"
#include "enums.h"
#include <string.h>
#include "given.h"
#include "gpu/arrays.h"
#include "internal.h"

/* ---- arrays ------------------------------------------------------------------------------------------------------ */

/* The rows of an array of a call on the CPU, and their width. */
typedef struct array_shape {
    size_t sequences, tokens; /* tokens: per sequence; packed: in all sequences, and sequences is 1 */
    size_t heads, width;
} array_shape;

static size_t rows_of(const array_shape *shape)
{
    return shape->sequences * shape->tokens;
}

bo_attention_array bo_attention_array_strides(const bo_attention_array *array, bo_layout layout, size_t tokens,
                                              size_t heads, size_t width)
{
    bo_attention_array out = *array;
    if (out.token || out.head || out.sequence) return out;
    out.head = layout == BO_LAYOUT_TOKENS_FIRST ? width : tokens * width;
    out.token = layout == BO_LAYOUT_TOKENS_FIRST ? heads * width : width;
    out.sequence = tokens * heads * width;
    return out;
}

/* The strides of a contiguous array. */
static bo_attention_array plain_strides(const array_shape *shape, bo_layout layout)
{
    return bo_attention_array_strides(&(bo_attention_array){0}, layout, shape->tokens, shape->heads, shape->width);
}

static bool has_gaps(const bo_attention_array *array, const array_shape *shape, bo_layout layout)
{
    if (!array->token && !array->head && !array->sequence) return false;
    const bo_attention_array plain = plain_strides(shape, layout);
    return array->head != plain.head || array->token != plain.token ||
           (shape->sequences > 1 && array->sequence != plain.sequence);
}

/* Copies all rows from an array to a contiguous one (`in`), or back. */
static void move(const bo_attention_array *array, const array_shape *shape, bo_layout layout, float *dense, bool in)
{
    const bo_attention_array to = plain_strides(shape, layout);
    for (size_t s = 0; s < shape->sequences; s++)
        for (size_t t = 0; t < shape->tokens; t++)
            for (size_t h = 0; h < shape->heads; h++) {
                float *at = (float *)array->data + s * array->sequence + t * array->token + h * array->head;
                float *row = dense + s * to.sequence + t * to.token + h * to.head;
                memcpy(in ? row : at, in ? at : row, shape->width * sizeof *row);
            }
}

/* ---- the call on the CPU ----------------------------------------------------------------------------------------- */

enum { Q, K, V, OUT, LOG_GATE, BETA, DOUT, DQ, DK, DV, DLOG_GATE, DBETA, ARRAYS };

/* The workspace: lengths of the sequences, contiguous arrays, and scratch memory of the attention. */
typedef struct host_call {
    bo_attention_shape shape;
    bo_attention_array arrays[ARRAYS];
    array_shape shapes[ARRAYS];
    float *dense[ARRAYS]; /* NULL: the array is used in place */
    size_t *lengths, *key_lengths;
    size_t queries, keys; /* of all sequences */
    bo_work work;
    size_t bytes;
} host_call;

static void shape_arrays(const bo_attention *attention, const bo_strided_call *c, host_call *h)
{
    const bo_attention_desc *d = &attention->desc;
    const array_shape queries = {c->offsets ? 1 : c->sequences, c->offsets ? c->rows : c->tokens, 0, 0};
    array_shape keys = queries;
    if (c->cross && c->key_offsets) keys.sequences = 1, keys.tokens = c->key_rows;
    if (c->cross && !c->key_offsets) keys.tokens = c->key_tokens ? c->key_tokens : c->tokens;
    if (c->no_keys) keys.tokens = 0;
    h->queries = rows_of(&queries), h->keys = rows_of(&keys);
    const bo_attention_array all[ARRAYS] = {c->q,    c->k,  c->v,  c->out, c->log_gate,  c->beta,
                                            c->dout, c->dq, c->dk, c->dv,  c->dlog_gate, c->dbeta};
    const size_t gate = bo_max(bo_gate_width(d), 1);
    const size_t widths[ARRAYS] = {d->dim,       d->dim, d->value_dim, d->value_dim, gate, 1,
                                   d->value_dim, d->dim, d->dim,       d->value_dim, gate, 1};
    for (size_t i = 0; i < ARRAYS; i++) {
        const bool of_queries = i == Q || i == OUT || i == DOUT || i == DQ;
        h->arrays[i] = all[i];
        h->shapes[i] = of_queries ? queries : keys;
        h->shapes[i].heads = of_queries ? d->heads : d->key_heads;
        h->shapes[i].width = widths[i];
    }
}

static host_call host_call_of(bo_context *context, const bo_attention *attention, const bo_strided_call *c,
                              bool backward)
{
    host_call h = {.shape = {.sequences = c->sequences,
                             .tokens = c->tokens,
                             .key_tokens = c->cross && !c->key_offsets ? c->key_tokens : 0,
                             .no_keys = c->no_keys,
                             .layout = c->layout}};
    bo_carver carver = {.at = c->workspace};
    shape_arrays(attention, c, &h);
    h.lengths = bo_carve(&carver, c->offsets ? c->sequences : 0, sizeof *h.lengths);
    h.key_lengths = bo_carve(&carver, c->key_offsets ? c->sequences : 0, sizeof *h.key_lengths);
    for (size_t i = 0; i < ARRAYS; i++)
        if (h.arrays[i].data && has_gaps(&h.arrays[i], &h.shapes[i], c->layout))
            h.dense[i] = bo_carve_floats(&carver, rows_of(&h.shapes[i]) * h.shapes[i].heads * h.shapes[i].width);
    h.work.bytes = bo_attention_work_bytes(context, attention, c->sequences, h.queries, h.keys, backward);
    h.work.memory = bo_carve(&carver, h.work.bytes, 1);
    h.bytes = carver.bytes;
    return h;
}

static void lengths_from_offsets(size_t sequences, const int32_t *offsets, size_t *lengths)
{
    for (size_t s = 0; s < sequences; s++) lengths[s] = (size_t)(offsets[s + 1] - offsets[s]);
}

static bo_status check_offsets(bo_context *context, const char *what, size_t sequences, const int32_t *offsets,
                               size_t rows)
{
    bool rising = offsets[0] == 0 && (size_t)offsets[sequences] == rows;
    for (size_t s = 0; s < sequences; s++) rising &= offsets[s] <= offsets[s + 1];
    if (rising) return BO_OK;
    return bo_fail(context, BO_INVALID,
                   "attention: %s must start with 0, increase, and end with the number of rows, %zu", what, rows);
}

/* Fills the inputs of a pass in the workspace. */
static bo_status enter(bo_context *context, const bo_strided_call *c, host_call *h, const unsigned *read, size_t count)
{
    if (c->offsets) {
        BO_TRY(check_offsets(context, "offsets", c->sequences, c->offsets, c->rows));
        lengths_from_offsets(c->sequences, c->offsets, h->lengths);
        h->shape.lengths = h->lengths;
    }
    if (c->key_offsets) {
        BO_TRY(check_offsets(context, "key_offsets", c->sequences, c->key_offsets, c->key_rows));
        lengths_from_offsets(c->sequences, c->key_offsets, h->key_lengths);
        h->shape.key_lengths = h->key_lengths;
    }
    for (size_t i = 0; i < count; i++)
        if (h->dense[read[i]]) move(&h->arrays[read[i]], &h->shapes[read[i]], c->layout, h->dense[read[i]], true);
    return BO_OK;
}

static float *array_at(const host_call *h, size_t i)
{
    return h->dense[i] ? h->dense[i] : h->arrays[i].data;
}

static bo_attention_inputs inputs_of(const bo_strided_call *c, const host_call *h)
{
#define TOKENS(BIT, member)    .member = array_at(h, BIT),
#define PARAMETER(BIT, member) .member = c->member,
    return (bo_attention_inputs){.q = array_at(h, Q),
                                 .k = array_at(h, K),
                                 .v = array_at(h, V),
                                 BO_ATTENTION_GIVEN_LIST(TOKENS, PARAMETER).solves = c->solves};
#undef PARAMETER
#undef TOKENS
}

static bo_attention_gradients gradients_of(const bo_strided_call *c, const host_call *h)
{
#define TOKENS(BIT, member)    .member = array_at(h, D##BIT),
#define PARAMETER(BIT, member) .member = c->d##member,
    return (bo_attention_gradients){
        .q = array_at(h, DQ), .k = array_at(h, DK), .v = array_at(h, DV), BO_ATTENTION_GIVEN_LIST(TOKENS, PARAMETER)};
#undef PARAMETER
#undef TOKENS
}

static bo_status forward_on_host(bo_context *context, const bo_attention *attention, const bo_strided_call *c)
{
    static const unsigned read[] = {Q, K, V, LOG_GATE, BETA};
    host_call h = host_call_of(context, attention, c, false);
    BO_TRY(enter(context, c, &h, read, sizeof read / sizeof *read));
    const bo_attention_inputs in = inputs_of(c, &h);
    float *out = array_at(&h, OUT);
    if (c->states && !c->offsets && c->tokens == 1 && !c->cross && !c->training)
        BO_TRY(bo_attention_step_in(context, attention, c->sequences, &in, c->states, false, out, &h.work));
    else
        BO_TRY(bo_attention_forward_in(context, attention, &h.shape, &in, (const void *const *)c->states,
                                       c->no_keys ? NULL : c->states, out, c->training ? c->tape : NULL, &h.work));
    if (h.dense[OUT]) move(&h.arrays[OUT], &h.shapes[OUT], c->layout, h.dense[OUT], false);
    return BO_OK;
}

static bo_status backward_on_host(bo_context *context, const bo_attention *attention, const bo_strided_call *c)
{
    static const unsigned read[] = {Q, K, V, LOG_GATE, BETA, OUT, DOUT}, written[] = {DQ, DK, DV, DLOG_GATE, DBETA};
    host_call h = host_call_of(context, attention, c, true);
    BO_TRY(enter(context, c, &h, read, sizeof read / sizeof *read));
    const bo_attention_inputs in = inputs_of(c, &h);
    const bo_attention_gradients gradients = gradients_of(c, &h);
    BO_TRY(bo_attention_backward_in(context, attention, &h.shape, &in, NULL, array_at(&h, OUT), c->tape,
                                    array_at(&h, DOUT), NULL, &gradients, &h.work));
    for (size_t i = 0; i < sizeof written / sizeof *written; i++) {
        const size_t a = written[i];
        if (h.dense[a]) move(&h.arrays[a], &h.shapes[a], c->layout, h.dense[a], false);
    }
    return BO_OK;
}

/* ---- checks ------------------------------------------------------------------------------------------------------ */

/* Checks a parameter of a call. The gradient requires only a kind with the parameter. */
static bo_status check_parameters(bo_context *context, const bo_attention *attention, const bo_strided_call *c)
{
#define PARAMETER(BIT, member) {#member, BO_PARAMETER_##BIT, c->member, c->d##member},
    const struct {
        const char *name;
        bo_parameter which;
        const float *values, *gradient;
    } all[] = {BO_ATTENTION_GIVEN_LIST(BO_GIVEN_NONE, PARAMETER)};
#undef PARAMETER
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if ((all[i].values || all[i].gradient) && !bo_parameter_size(attention, all[i].which))
            return bo_fail(context, BO_INVALID, "attention: kind %s does not use %s",
                           bo_attention_kind_name(attention->desc.kind), all[i].name);
    return BO_OK;
}

static bo_status check_arrays(bo_context *context, const bo_attention *attention, const bo_strided_call *c,
                              bool backward)
{
    const bo_attention_desc *d = &attention->desc;
    const char *missing = NULL;
    if (!c->q.data) missing = "q";
    if (!c->no_keys && (!c->k.data || !c->v.data)) missing = c->k.data ? "v" : "k";
    if (!c->out.data) missing = "out";
    if (bo_gate_width(d) && !c->no_keys && !c->log_gate.data) missing = "log_gate";
    if (backward && !c->dout.data) missing = "dout";
    if (missing) return bo_fail(context, BO_INVALID, "attention: %s has no data", missing);
    if (c->no_keys && (c->k.data || c->v.data || c->log_gate.data || c->beta.data))
        return bo_fail(context, BO_INVALID, "attention: with no_keys, k, v, log_gate and beta must have no data");
    if (!bo_gate_width(d) && c->log_gate.data)
        return bo_fail(context, BO_INVALID, "attention: kind %s with gate %s does not use log_gate",
                       bo_attention_kind_name(d->kind), bo_gate_name(d->gate));
    if (!bo_attention_has(d, BO_TRAIT_BETA) && c->beta.data)
        return bo_fail(context, BO_INVALID, "attention: kind %s does not use beta", bo_attention_kind_name(d->kind));
    if (c->no_keys && !c->states)
        return bo_fail(context, BO_INVALID, "attention: with no_keys, states are required, found NULL");
    return BO_OK;
}

static bo_status check(bo_context *context, const bo_attention *attention, const bo_strided_call *c, bool backward)
{
    if (c->element != BO_ELEMENT_FLOAT32 && c->element != BO_ELEMENT_BFLOAT16)
        return bo_fail(context, BO_INVALID, "attention: element must be FLOAT32 or BFLOAT16, found %d",
                       (int)c->element);
    if (c->element == BO_ELEMENT_BFLOAT16 && !bo_context_is_on_gpu(context))
        return bo_fail(context, BO_UNSUPPORTED, "attention: bfloat16 arrays are supported only on GPUs");
    if (c->sequences == 0 || (!c->offsets && c->tokens == 0))
        return bo_fail(context, BO_INVALID, "attention: sequences and tokens must be positive, found %zu and %zu",
                       c->sequences, c->tokens);
    if (c->key_offsets && !c->cross)
        return bo_fail(context, BO_INVALID, "attention: key_offsets are for calls with keys");
    if (c->cross && c->states && !c->no_keys)
        return bo_fail(context, BO_UNSUPPORTED, "attention: cross attention does not read keys into states");
    const size_t longest = c->offsets ? 0 : bo_max(c->tokens, c->cross ? c->key_tokens : 0);
    if (c->sequences > INT32_MAX || bo_max(c->rows, c->key_rows) > INT32_MAX || longest > INT32_MAX / c->sequences)
        return bo_fail(context, BO_INVALID, "attention: a call has at most 2147483647 tokens and as many keys");
    if (c->cross && attention->desc.causal)
        return bo_fail(context, BO_UNSUPPORTED, "attention: cross attention of a causal attention is not supported");
    if (c->cross && !c->offsets != !c->key_offsets)
        return bo_fail(context, BO_INVALID, "attention: offsets and key_offsets must be given together");
    if (backward && c->states)
        return bo_fail(context, BO_INVALID, "attention: a call that continues from states has no gradients");
    BO_TRY(check_arrays(context, attention, c, backward));
    return check_parameters(context, attention, c);
}

/* ---- calls ------------------------------------------------------------------------------------------------------- */

bo_status bo_strided_bytes(bo_context *context, const bo_attention *attention, const bo_strided_call *call,
                           bool backward, size_t *tape, size_t *workspace)
{
    if (tape) *tape = 0;
    if (workspace) *workspace = 0;
    BO_REQUIRE(context, attention, call, tape, workspace);
    BO_TRY(check(context, attention, call, backward));
    if (bo_context_is_on_gpu(context)) return bo_gpu_arrays_bytes(context, attention, call, backward, tape, workspace);
    bo_strided_call counted = *call;
    counted.workspace = NULL;
    const host_call h = host_call_of(context, attention, &counted, backward);
    if (call->training) *tape = bo_tape_max_bytes(attention, call->sequences, h.queries, h.keys);
    *workspace = h.bytes;
    return BO_OK;
}

bo_status bo_strided_forward(bo_context *context, const bo_attention *attention, const bo_strided_call *call)
{
    BO_REQUIRE(context, attention, call);
    BO_TRY(check(context, attention, call, false));
    BO_REQUIRE(context, call->workspace);
    BO_REQUIRE_IF(context, call->training, call->tape);
    if (bo_context_is_on_gpu(context)) return bo_gpu_arrays_forward(context, attention, call);
    return forward_on_host(context, attention, call);
}

bo_status bo_strided_backward(bo_context *context, const bo_attention *attention, const bo_strided_call *call)
{
    BO_REQUIRE(context, attention, call);
    BO_TRY(check(context, attention, call, true));
    BO_REQUIRE(context, call->workspace, call->tape);
    if (bo_context_is_on_gpu(context)) return bo_gpu_arrays_backward(context, attention, call);
    return backward_on_host(context, attention, call);
}
