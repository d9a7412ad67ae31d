/* bo_attention_call: each kind of call is bit-identical to the function that computes it; strides, workspaces and
 * float64 agree with plain calls; and contradictory calls are refused. */
#include "base/base.h"
#include "../base/counting.h"
#include "cases.h"

enum { SEQUENCES = 3, TOKENS = 9, HEADS = 4, KEY_HEADS = 2, DIM = 8, VALUE = 6, WIDE = HEADS * DIM + 5 };
enum { ROWS = SEQUENCES * TOKENS, OUTS = ROWS * HEADS * VALUE };

typedef struct arrays {
    float q[ROWS * HEADS * DIM], k[ROWS * KEY_HEADS * DIM], v[ROWS * KEY_HEADS * VALUE], log_gate[ROWS * KEY_HEADS];
    float dout[OUTS];
} arrays;

static const char *const presets[] = {"softmax", "favor", "rfa-gate", "hybrid", "gated-delta", "ridge"};
enum { PRESETS = sizeof presets / sizeof *presets };

static void fill(bo_rng *rng, float *x, size_t count)
{
    for (size_t i = 0; i < count; i++) x[i] = (float)(0.4 * bo_rng_normal(rng));
}

static arrays *make_arrays(uint64_t seed)
{
    arrays *a = malloc(sizeof *a);
    bo_rng rng = bo_rng_make(seed, 1);
    fill(&rng, a->q, sizeof a->q / sizeof *a->q);
    fill(&rng, a->k, sizeof a->k / sizeof *a->k);
    fill(&rng, a->v, sizeof a->v / sizeof *a->v);
    fill(&rng, a->dout, OUTS);
    for (size_t i = 0; i < ROWS * KEY_HEADS; i++) a->log_gate[i] = -0.1F - (float)(i % 5) / 10;
    return a;
}

static bo_attention *open_preset(bo_context *context, const char *name, bo_attention_desc *desc)
{
    bo_attention *attention;
    *desc = (bo_attention_desc){.heads = HEADS,
                                .key_heads = KEY_HEADS,
                                .dim = DIM,
                                .value_dim = VALUE,
                                .causal = true,
                                .capacity = 64,
                                .features = {.features = 16, .seed = 3}};
    assert_true(bo_attention_preset(name, desc));
    if (desc->kind != BO_ATTENTION_SOFTMAX) desc->capacity = 0;
    if (desc->kind == BO_ATTENTION_HYBRID) desc->window = 4;
    assert_ok(context, bo_attention_create(context, desc, &attention));
    return attention;
}

static bo_attention_inputs inputs_of(const arrays *a, const bo_attention_desc *d)
{
    return (bo_attention_inputs){.q = a->q, .k = a->k, .v = a->v, .log_gate = bo_gate_width(d) ? a->log_gate : NULL};
}

static bo_attention_call plain_call(const arrays *a, const bo_attention_desc *d, float *out)
{
    return (bo_attention_call){.sequences = SEQUENCES,
                               .tokens = TOKENS,
                               .q = {a->q},
                               .k = {a->k},
                               .v = {a->v},
                               .out = {out},
                               .log_gate = {bo_gate_width(d) ? a->log_gate : NULL}};
}

static void open_states(bo_context *context, const bo_attention *attention, void *states[SEQUENCES])
{
    for (size_t s = 0; s < SEQUENCES; s++) {
        states[s] = aligned_alloc(64, (bo_attention_state_bytes(attention) + 63) / 64 * 64);
        assert_ok(context, bo_attention_state_init(context, attention, states[s]));
    }
}

static void expect_states(const bo_attention *attention, void *const *expected, void *const *found)
{
    for (size_t s = 0; s < SEQUENCES; s++)
        assert_memory_equal(found[s], expected[s], bo_attention_state_bytes(attention));
}

/* ---- the same bits ----------------------------------------------------------------------------------------------- */

/* A block in place, then one token: bit-identical to the functions for blocks and for single tokens, which for some
 * kinds differ from a block of one token. */
static void states_are_updated_in_place(void **state)
{
    (void)state;
    bo_context *context = test_context(2);
    size_t apart = 0;
    for (size_t i = 0; i < PRESETS; i++) {
        bo_attention_desc d;
        bo_attention *attention = open_preset(context, presets[i], &d);
        arrays *a = make_arrays(i + 1);
        float expected[OUTS] = {0}, found[OUTS] = {0}, block[OUTS] = {0};
        void *of[SEQUENCES], *call_states[SEQUENCES], *forked[SEQUENCES];
        open_states(context, attention, of), open_states(context, attention, call_states);
        open_states(context, attention, forked);
        const bo_attention_inputs in = inputs_of(a, &d);
        const bo_attention_shape shape = {.sequences = SEQUENCES, .tokens = TOKENS},
                                 one = {.sequences = SEQUENCES, .tokens = 1};
        bo_attention_call call = plain_call(a, &d, found);
        call.initial = call.final = call_states;
        assert_ok(context, bo_attention_extend(context, attention, &shape, &in, of, expected));
        assert_ok(context, bo_attention_forward(context, attention, &call));
        assert_memory_equal(found, expected, sizeof found);
        expect_states(attention, of, call_states);
        for (size_t s = 0; s < SEQUENCES; s++) memcpy(forked[s], call_states[s], bo_attention_state_bytes(attention));
        assert_ok(context, bo_attention_step(context, attention, SEQUENCES, &in, of, expected));
        call.tokens = 1;
        assert_ok(context, bo_attention_forward(context, attention, &call));
        assert_memory_equal(found, expected, sizeof found);
        expect_states(attention, of, call_states);
        assert_int_equal(bo_attention_state_tokens(call_states[0]), TOKENS + 1);
        assert_ok(context, bo_attention_extend(context, attention, &one, &in, forked, block));
        apart += memcmp(block, found, SEQUENCES * HEADS * VALUE * sizeof *found) != 0;
        call.k.data = call.v.data = call.log_gate.data = NULL; /* read, but not changed */
        call.no_keys = true, call.final = NULL;
        bo_attention_inputs only = {.q = a->q};
        assert_ok(context, bo_attention_step(context, attention, SEQUENCES, &only, of, expected));
        assert_ok(context, bo_attention_forward(context, attention, &call));
        assert_memory_equal(found, expected, sizeof found);
        expect_states(attention, of, call_states);
        for (size_t s = 0; s < SEQUENCES; s++) free(of[s]), free(call_states[s]), free(forked[s]);
        free(a);
        bo_attention_destroy(attention);
    }
    assert_true(apart > 0); /* the test distinguishes one token from a block */
    bo_context_destroy(context);
}

/* With separate final states, the initial states do not change, also with one token. */
static void initial_states_may_be_kept(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    bo_attention_desc d;
    bo_attention *attention = open_preset(context, "favor", &d);
    arrays *a = make_arrays(7);
    float found[OUTS];
    void *initial[SEQUENCES], *final[SEQUENCES];
    open_states(context, attention, initial), open_states(context, attention, final);
    bo_attention_call call = plain_call(a, &d, found);
    call.tokens = 1, call.initial = initial, call.final = final;
    assert_ok(context, bo_attention_forward(context, attention, &call));
    assert_int_equal(bo_attention_state_tokens(initial[0]), 0);
    assert_int_equal(bo_attention_state_tokens(final[0]), 1);
    for (size_t s = 0; s < SEQUENCES; s++) free(initial[s]), free(final[s]);
    free(a);
    bo_attention_destroy(attention);
    bo_context_destroy(context);
}

/* ---- strides and workspaces -------------------------------------------------------------------------------------- */

/* Copies (sequences, heads, tokens, width) to rows with stride `stride` per token. */
static float *spread(const float *x, size_t heads, size_t width, size_t stride)
{
    float *out = calloc(ROWS * stride, sizeof *out);
    for (size_t i = 0; i < ROWS * heads * width; i++) {
        const size_t s = i / (heads * TOKENS * width), h = i / (TOKENS * width) % heads, t = i / width % TOKENS;
        out[(s * TOKENS + t) * stride + h * width + i % width] = x[i];
    }
    return out;
}

static bo_attention_input rows_of(const float *x, size_t width)
{
    return (bo_attention_input){.data = x, .sequence = (size_t)TOKENS * WIDE, .token = WIDE, .head = width};
}

static bo_attention_output written_rows(float *x, size_t width)
{
    return (bo_attention_output){.data = x, .sequence = (size_t)TOKENS * WIDE, .token = WIDE, .head = width};
}

/* Forward and backward, plain, with a workspace, and on strided arrays: bit-identical in every order. */
static void expect_strides(bo_context *context, const char *preset, bo_layout layout)
{
    bo_attention_desc d;
    bo_attention *attention = open_preset(context, preset, &d);
    arrays *a = make_arrays(5);
    float out[OUTS], call_states[OUTS], dq[ROWS * HEADS * DIM], call_dq[ROWS * HEADS * DIM];
    size_t tape, work, backward;
    bo_attention_call call = plain_call(a, &d, out);
    call.layout = layout, call.dout.data = a->dout, call.dq.data = dq;
    assert_ok(context, bo_attention_call_bytes(context, attention, &call, false, &tape, &work));
    assert_ok(context, bo_attention_call_bytes(context, attention, &call, true, NULL, &backward));
    void *tapes = aligned_alloc(64, (tape + 127) / 64 * 64);
    void *workspace = aligned_alloc(64, (bo_max(work, backward) + 127) / 64 * 64);
    call.tape = tapes;
    assert_ok(context, bo_attention_forward(context, attention, &call));
    assert_ok(context, bo_attention_backward(context, attention, &call));
    call.workspace = workspace, call.out.data = call_states, call.dq.data = call_dq;
    assert_ok(context, bo_attention_forward(context, attention, &call));
    assert_ok(context, bo_attention_backward(context, attention, &call));
    assert_memory_equal(call_states, out, sizeof out);
    assert_memory_equal(call_dq, dq, sizeof dq);
    if (layout == BO_LAYOUT_HEADS_FIRST) {
        float *q = spread(a->q, HEADS, DIM, WIDE), *k = spread(a->k, KEY_HEADS, DIM, WIDE),
              *v = spread(a->v, KEY_HEADS, VALUE, WIDE), *dout = spread(a->dout, HEADS, VALUE, WIDE),
              *expected = spread(out, HEADS, VALUE, WIDE), *expected_dq = spread(dq, HEADS, DIM, WIDE),
              *found = calloc((size_t)ROWS * WIDE, sizeof *found),
              *found_dq = calloc((size_t)ROWS * WIDE, sizeof *found);
        call.q = rows_of(q, DIM), call.k = rows_of(k, DIM), call.v = rows_of(v, VALUE);
        call.out = written_rows(found, VALUE), call.dout = rows_of(dout, VALUE), call.dq = written_rows(found_dq, DIM);
        call.workspace = NULL; /* allocated */
        assert_ok(context, bo_attention_forward(context, attention, &call));
        assert_ok(context, bo_attention_backward(context, attention, &call));
        assert_memory_equal(found, expected, (size_t)ROWS * WIDE * sizeof *found);
        assert_memory_equal(found_dq, expected_dq, (size_t)ROWS * WIDE * sizeof *found);
        float *const all[] = {q, k, v, dout, expected, expected_dq, found, found_dq};
        for (size_t i = 0; i < sizeof all / sizeof *all; i++) free(all[i]);
    }
    free(tapes), free(workspace), free(a);
    bo_attention_destroy(attention);
}

static void strides_and_workspaces_change_no_bit(void **state)
{
    (void)state;
    bo_context *context = test_context(2);
    for (size_t i = 0; i < PRESETS; i++)
        for (int layout = 0; layout < 2; layout++) expect_strides(context, presets[i], (bo_layout)layout);
    bo_context_destroy(context);
}

/* A call with a workspace, and a step, allocate nothing; strides without a workspace allocate one. */
static void workspaces_replace_allocations(void **state)
{
    (void)state;
    counting count = {0};
    bo_context *context = counting_context(&count, 1);
    bo_attention_desc d;
    bo_attention *attention = open_preset(context, "favor", &d);
    arrays *a = make_arrays(9);
    float out[OUTS];
    size_t bytes;
    bo_attention_call call = plain_call(a, &d, out);
    assert_ok(context, bo_attention_call_bytes(context, attention, &call, false, NULL, &bytes));
    void *workspace = aligned_alloc(64, (bytes + 127) / 64 * 64);
    size_t before = count.calls;
    call.workspace = workspace;
    assert_ok(context, bo_attention_forward(context, attention, &call));
    assert_int_equal(count.calls, before);
    call.workspace = NULL;
    assert_ok(context, bo_attention_forward(context, attention, &call));
    assert_true(count.calls > before);
    free(workspace), free(a);
    bo_attention_destroy(attention);
    bo_context_destroy(context);
}

/* ---- refusals ---------------------------------------------------------------------------------------------------- */

static void contradictions_are_refused(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    bo_attention_desc d;
    bo_attention *attention = open_preset(context, "favor", &d);
    arrays *a = make_arrays(3);
    float out[OUTS];
    void *states[SEQUENCES], *other_states[SEQUENCES];
    size_t tape, bytes;
    const size_t lengths[SEQUENCES] = {1, 2, 3};
    const int32_t offsets[SEQUENCES + 1] = {0, 1, 3, 2};
    open_states(context, attention, states), open_states(context, attention, other_states);
#define REFUSED(status, message, ...)                                                                                  \
    do {                                                                                                               \
        bo_attention_call call = plain_call(a, &d, out);                                                               \
        __VA_ARGS__;                                                                                                   \
        assert_fails(context, status, message, bo_attention_forward(context, attention, &call));                       \
    } while (0)
    REFUSED(BO_INVALID, "reserved", call.reserved[1] = 1);
    REFUSED(BO_INVALID, "layout 7 is unknown", call.layout = (bo_layout)7);
    REFUSED(BO_INVALID, "element must be FLOAT32, BFLOAT16 or FLOAT64", call.element = BO_ELEMENT_INT8);
    REFUSED(BO_UNSUPPORTED, "bfloat16 arrays are supported only on GPUs", call.element = BO_ELEMENT_BFLOAT16);
    REFUSED(BO_UNSUPPORTED, "does not support lengths; set offsets", call.lengths = lengths, call.q.token = WIDE);
    REFUSED(BO_UNSUPPORTED, "does not support keys without queries", call.no_queries = true, call.q.token = WIDE);
    REFUSED(BO_UNSUPPORTED, "does not support states that are not updated in place", call.q.token = WIDE,
            call.initial = states, call.final = other_states);
    REFUSED(BO_UNSUPPORTED, "does not support states that are not updated in place", call.q.token = WIDE,
            call.initial = states);
    REFUSED(BO_INVALID, "offsets must start with 0, increase", call.offsets = offsets, call.rows = 2);
    REFUSED(BO_UNSUPPORTED, "in float64 does not support states", call.element = BO_ELEMENT_FLOAT64,
            call.initial = states);
    REFUSED(BO_UNSUPPORTED, "in float64 does not support strides", call.element = BO_ELEMENT_FLOAT64, call.v.head = 1);
    REFUSED(BO_UNSUPPORTED, "in float64 does not support offsets", call.element = BO_ELEMENT_FLOAT64,
            call.offsets = offsets);
    REFUSED(BO_INVALID, "out", call.out.data = NULL);
    REFUSED(BO_INVALID, "the state of sequence 1 is NULL", call.tokens = 1,
            call.initial = call.final = (void *[]){states[0], NULL, states[2]});
#undef REFUSED
    bo_attention_call call = plain_call(a, &d, out);
    call.dout.data = a->dout, call.q.token = WIDE, call.dinitial = (float *[SEQUENCES]){NULL};
    assert_fails(context, BO_UNSUPPORTED, "does not support gradients of states",
                 bo_attention_backward(context, attention, &call));
    call.dinitial = NULL;
    assert_fails(context, BO_INVALID, "tape", bo_attention_backward(context, attention, &call));
    bo_attention_cost cost;
    assert_fails(context, BO_UNSUPPORTED, "without strides and offsets",
                 bo_attention_estimate(context, attention, &call, &cost));
    call.element = BO_ELEMENT_FLOAT64, call.q.token = 0;
    assert_ok(context, bo_attention_call_bytes(context, attention, &call, false, &tape, &bytes));
    assert_true(tape == 0 && bytes == 0);
    for (size_t s = 0; s < SEQUENCES; s++) free(states[s]), free(other_states[s]);
    free(a);
    bo_attention_destroy(attention);
    bo_context_destroy(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(states_are_updated_in_place),          cmocka_unit_test(initial_states_may_be_kept),
        cmocka_unit_test(strides_and_workspaces_change_no_bit), cmocka_unit_test(workspaces_replace_allocations),
        cmocka_unit_test(contradictions_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
