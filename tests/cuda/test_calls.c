/* The public calls of attention on a GPU: with host arrays and GPU arrays, and bo_attention_call with strides, offsets
 * and a stream. The results equal the same calls on the CPU. */
#include <bochner/devices.h>
#include "attention/attention.h"
#include "features/propose.h"
#include "testing.h"

enum { HEADS = 4, KEY_HEADS = 2, DIM = 16, TOKENS = 37, SEQUENCES = 3, ROWS = SEQUENCES * TOKENS };

static bo_context *host, *gpu;

/* Relative to the largest value: float32 sums in another order. */
static const double tolerance = 2e-4;

static float *noise(size_t count, uint64_t stream)
{
    float *x = malloc(count * sizeof *x);
    bo_rng rng = bo_rng_make(7, stream);
    for (size_t i = 0; i < count; i++) x[i] = (float)(0.5 * bo_rng_normal(&rng));
    return x;
}

static void expect_near(const char *kind, const char *what, size_t count, const float *expected, const float *found)
{
    double largest = 1e-3;
    for (size_t i = 0; i < count; i++) largest = fmax(largest, fabs((double)expected[i]));
    for (size_t i = 0; i < count; i++)
        if (!(fabs((double)found[i] - (double)expected[i]) <= tolerance * largest))
            fail_msg("%s: %s %zu is %g, expected %g", kind, what, i, (double)found[i], (double)expected[i]);
}

static bo_attention_desc desc_of(const char *kind)
{
    bo_attention_desc desc = {
        .heads = HEADS, .key_heads = KEY_HEADS, .dim = DIM, .causal = true, .features = {.features = 32, .seed = 5}};
    assert_true(bo_attention_preset(kind, &desc));
    if (desc.kind == BO_ATTENTION_LINEAR || desc.kind == BO_ATTENTION_LEARNED) desc.features.features = 0;
    return desc;
}

/* The arrays of a call on the host, with their gradients. */
typedef struct arrays {
    float *q, *k, *v, *log_gate, *beta, *out, *dout, *dq, *dk, *dv, *dlog_gate;
    size_t gate;
} arrays;

static arrays arrays_of(const bo_attention_desc *desc)
{
    const bool channels = bo_attention_has(desc, BO_TRAIT_CHANNELS);
    const bool gated = channels || desc->gate == BO_GATE_CONVEX || desc->gate == BO_GATE_DECAY;
    arrays a = {.gate = channels ? DIM : 1};
    a.q = noise(ROWS * HEADS * DIM, 1), a.k = noise(ROWS * KEY_HEADS * DIM, 2), a.v = noise(ROWS * KEY_HEADS * DIM, 3);
    a.out = calloc(ROWS * HEADS * DIM, sizeof(float)), a.dout = noise(ROWS * HEADS * DIM, 4);
    a.dq = calloc(ROWS * HEADS * DIM, sizeof(float)), a.dk = calloc(ROWS * KEY_HEADS * DIM, sizeof(float));
    a.dv = calloc(ROWS * KEY_HEADS * DIM, sizeof(float));
    if (!gated) return a;
    a.log_gate = noise(ROWS * KEY_HEADS * a.gate, 5), a.dlog_gate = calloc(ROWS * KEY_HEADS * a.gate, sizeof(float));
    for (size_t i = 0; i < ROWS * KEY_HEADS * a.gate; i++) a.log_gate[i] = -0.1F * fabsf(a.log_gate[i]);
    return a;
}

static void drop(arrays *a)
{
    free(a->q), free(a->k), free(a->v), free(a->log_gate), free(a->out), free(a->dout), free(a->dq), free(a->dk),
        free(a->dv), free(a->dlog_gate);
}

static bo_attention_inputs inputs_of(const arrays *a)
{
    return (bo_attention_inputs){.q = a->q, .k = a->k, .v = a->v, .log_gate = a->log_gate};
}

static void forward_and_backward(bo_context *context, const bo_attention *attention, const bo_attention_shape *shape,
                                 arrays *a)
{
    const bo_attention_inputs in = inputs_of(a);
    const bo_attention_gradients gradients = {.q = a->dq, .k = a->dk, .v = a->dv, .log_gate = a->dlog_gate};
    size_t bytes;
    assert_ok(context, bo_attention_tape_bytes(context, attention, shape, &bytes));
    void *tape = aligned_alloc(64, (bytes + 63) / 64 * 64);
    assert_ok(context, bo_attention_forward_arrays(context, attention, shape, &in, NULL, NULL, a->out, tape));
    assert_ok(context, bo_attention_backward_arrays(context, attention, shape, &in, NULL, a->out, tape, a->dout, NULL,
                                                    &gradients));
    free(tape);
}

static void expect_same(const char *kind, const arrays *expected, const arrays *found)
{
    expect_near(kind, "output", ROWS * HEADS * DIM, expected->out, found->out);
    expect_near(kind, "dq", ROWS * HEADS * DIM, expected->dq, found->dq);
    expect_near(kind, "dk", ROWS * KEY_HEADS * DIM, expected->dk, found->dk);
    expect_near(kind, "dv", ROWS * KEY_HEADS * DIM, expected->dv, found->dv);
    if (expected->log_gate)
        expect_near(kind, "dlog_gate", ROWS * KEY_HEADS * expected->gate, expected->dlog_gate, found->dlog_gate);
}

static const char *const kinds[] = {"softmax",   "favor", "rfa",   "rfa-gate",    "dark",  "hybrid", "hedgehog",
                                    "retention", "gla",   "delta", "gated-delta", "power", "ridge",  "gated-ridge"};
enum { KINDS = sizeof kinds / sizeof *kinds };

/* ---- arrays of the host ------------------------------------------------------------------------------------------ */

/* One attention serves both contexts. Kinds without kernels (ridge) are computed on the CPU. */
static void host_arrays_match_the_cpu(void **state)
{
    static const size_t lengths[SEQUENCES] = {1, TOKENS, ROWS - TOKENS - 1};
    (void)state;
    for (size_t i = 0; i < KINDS; i++)
        for (int form = 0; form < 4; form++) {
            const bo_attention_desc desc = desc_of(kinds[i]);
            const bo_attention_shape shape = {.sequences = SEQUENCES,
                                              .tokens = TOKENS,
                                              .lengths = form & 2 ? lengths : NULL,
                                              .layout = form & 1 ? BO_LAYOUT_TOKENS_FIRST : BO_LAYOUT_HEADS_FIRST};
            bo_attention *attention;
            assert_ok(host, bo_attention_create(host, &desc, &attention));
            arrays expected = arrays_of(&desc), found = arrays_of(&desc);
            forward_and_backward(host, attention, &shape, &expected);
            forward_and_backward(gpu, attention, &shape, &found);
            expect_same(kinds[i], &expected, &found);
            drop(&expected), drop(&found);
            bo_attention_destroy(attention);
        }
}

/* Blocks and steps continue from states of the host; a state of one device continues on the other. */
static void states_of_the_host_cross_devices(void **state)
{
    (void)state;
    for (size_t i = 0; i < KINDS; i++) {
        const bo_attention_desc desc = desc_of(kinds[i]);
        bo_attention *attention;
        assert_ok(host, bo_attention_create(host, &desc, &attention));
        arrays a = arrays_of(&desc);
        const bo_attention_shape whole = {.sequences = 1, .tokens = TOKENS, .layout = BO_LAYOUT_TOKENS_FIRST};
        const bo_attention_shape block = {.sequences = 1, .tokens = 20, .layout = BO_LAYOUT_TOKENS_FIRST};
        const bo_attention_inputs in = inputs_of(&a);
        float *expected = calloc(TOKENS * HEADS * DIM, sizeof *expected);
        assert_ok(host, bo_attention_forward_arrays(host, attention, &whole, &in, NULL, NULL, expected, NULL));
        void *memory = aligned_alloc(64, (bo_attention_state_bytes(attention) + 63) / 64 * 64);
        assert_ok(gpu, bo_attention_state_init(gpu, attention, memory));
        assert_ok(gpu, bo_attention_extend(gpu, attention, &block, &in, &memory, a.out));
        assert_int_equal(bo_attention_state_tokens(memory), 20);
        for (size_t t = 20; t < TOKENS; t++) {
            bo_context *context = t % 2 ? gpu : host;
            const bo_attention_inputs one = {.q = a.q + t * HEADS * DIM,
                                             .k = a.k + t * KEY_HEADS * DIM,
                                             .v = a.v + t * KEY_HEADS * DIM,
                                             .log_gate = a.log_gate ? a.log_gate + t * KEY_HEADS * a.gate : NULL};
            assert_ok(context, bo_attention_step(context, attention, 1, &one, &memory, a.out + t * HEADS * DIM));
        }
        assert_int_equal(bo_attention_state_tokens(memory), TOKENS);
        expect_near(kinds[i], "output of blocks and steps", TOKENS * HEADS * DIM, expected, a.out);
        free(memory), free(expected);
        drop(&a);
        bo_attention_destroy(attention);
    }
}

static void numbers_that_are_not_finite_are_named(void **state)
{
    (void)state;
    const bo_attention_desc desc = desc_of("favor");
    const bo_attention_shape shape = {.sequences = 1, .tokens = TOKENS, .layout = BO_LAYOUT_TOKENS_FIRST};
    bo_attention *attention;
    assert_ok(gpu, bo_attention_create(gpu, &desc, &attention));
    arrays a = arrays_of(&desc);
    a.v[5 * KEY_HEADS * DIM + DIM + 3] = NAN;
    const bo_attention_inputs in = inputs_of(&a);
    assert_fails(gpu, BO_NUMERIC, "v is nan at sequence 0, head 1, token 5, column 3",
                 bo_attention_forward_arrays(gpu, attention, &shape, &in, NULL, NULL, a.out, NULL));
    drop(&a);
    bo_attention_destroy(attention);
}

/* ---- arrays of the device ---------------------------------------------------------------------------------------- */

static void *upload(bo_context *context, const void *from, size_t bytes)
{
    void *to;
    assert_ok(context, bo_device_allocate(context, bytes ? bytes : 1, &to));
    if (from && bytes) assert_ok(context, bo_device_write(context, to, from, bytes));
    return to;
}

/* Copies of the arrays in memory of a context's device: with q, k and v packed (tokens, heads + 2 key heads, dim), or
 * tokens first without gaps. */
typedef struct copies {
    char *q, *k, *v, *packed, *dpacked, *log_gate, *dlog_gate, *out, *dout;
    bool packs;
} copies;

enum { PACKED = (HEADS + 2 * KEY_HEADS) * DIM };

static float *pack(const float *q, const float *k, const float *v)
{
    float *out = malloc(ROWS * PACKED * sizeof *out);
    for (size_t r = 0; r < ROWS; r++) {
        memcpy(out + r * PACKED, q + r * HEADS * DIM, HEADS * DIM * sizeof *q);
        memcpy(out + r * PACKED + HEADS * DIM, k + r * KEY_HEADS * DIM, KEY_HEADS * DIM * sizeof *k);
        memcpy(out + r * PACKED + (HEADS + KEY_HEADS) * DIM, v + r * KEY_HEADS * DIM, KEY_HEADS * DIM * sizeof *v);
    }
    return out;
}

static void unpack(const float *from, float *q, float *k, float *v)
{
    for (size_t r = 0; r < ROWS; r++) {
        memcpy(q + r * HEADS * DIM, from + r * PACKED, HEADS * DIM * sizeof *q);
        memcpy(k + r * KEY_HEADS * DIM, from + r * PACKED + HEADS * DIM, KEY_HEADS * DIM * sizeof *k);
        memcpy(v + r * KEY_HEADS * DIM, from + r * PACKED + (HEADS + KEY_HEADS) * DIM, KEY_HEADS * DIM * sizeof *v);
    }
}

static bo_attention_input part(const float *packed, size_t first)
{
    return (bo_attention_input){.data = packed + first, .sequence = TOKENS * PACKED, .token = PACKED, .head = DIM};
}

static bo_attention_output written_part(float *packed, size_t first)
{
    return (bo_attention_output){.data = packed + first, .sequence = TOKENS * PACKED, .token = PACKED, .head = DIM};
}

/* Packed QKV, and packed gradients: the strides of PyTorch. Sequences of equal length, or offsets. */
static void run_call(bo_context *context, const bo_attention *attention, bool offsets, void *stream, arrays *a)
{
    static const int32_t starts[SEQUENCES + 1] = {0, 1, 1 + TOKENS, ROWS};
    const size_t gates = a->log_gate ? ROWS * KEY_HEADS * a->gate * sizeof(float) : 0,
                 outs = ROWS * HEADS * DIM * sizeof(float);
    float *packed = pack(a->q, a->k, a->v);
    float *qkv = upload(context, packed, ROWS * PACKED * sizeof *packed),
          *dqkv = upload(context, NULL, ROWS * PACKED * sizeof(float));
    void *at = offsets ? upload(context, starts, sizeof starts) : NULL;
    bo_attention_call c = {.layout = BO_LAYOUT_TOKENS_FIRST,
                           .sequences = SEQUENCES,
                           .tokens = TOKENS,
                           .offsets = at,
                           .rows = ROWS,
                           .q = part(qkv, 0),
                           .k = part(qkv, HEADS * DIM),
                           .v = part(qkv, (HEADS + KEY_HEADS) * DIM),
                           .out = {.data = upload(context, NULL, outs)},
                           .dout = {.data = upload(context, a->dout, outs)},
                           .dq = written_part(dqkv, 0),
                           .dk = written_part(dqkv, HEADS * DIM),
                           .dv = written_part(dqkv, (HEADS + KEY_HEADS) * DIM),
                           .stream = stream};
    if (gates) c.log_gate.data = upload(context, a->log_gate, gates), c.dlog_gate.data = upload(context, NULL, gates);
    size_t tape, bytes, backward;
    assert_ok(context, bo_attention_call_bytes(context, attention, &c, false, &tape, &bytes));
    assert_ok(context, bo_attention_call_bytes(context, attention, &c, true, &tape, &backward));
    c.tape = upload(context, NULL, tape), c.workspace = upload(context, NULL, bytes > backward ? bytes : backward);
    assert_ok(context, bo_attention_forward(context, attention, &c));
    assert_ok(context, bo_attention_backward(context, attention, &c));
    assert_ok(context, bo_device_synchronize(context));
    assert_ok(context, bo_device_read(context, a->out, c.out.data, outs));
    assert_ok(context, bo_device_read(context, packed, dqkv, ROWS * PACKED * sizeof *packed));
    unpack(packed, a->dq, a->dk, a->dv);
    if (gates) assert_ok(context, bo_device_read(context, a->dlog_gate, c.dlog_gate.data, gates));
    const void *const all[] = {qkv,    dqkv,       at, c.out.data, c.dout.data, c.log_gate.data, c.dlog_gate.data,
                               c.tape, c.workspace};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) bo_device_free(context, (void *)(uintptr_t)all[i]);
    free(packed);
}

static void calls_support_packed_arrays(void **state)
{
    static const size_t lengths[SEQUENCES] = {1, TOKENS, ROWS - TOKENS - 1};
    (void)state;
    for (size_t i = 0; i < KINDS; i++)
        for (int packed = 0; packed < 2; packed++) {
            const bo_attention_desc desc = desc_of(kinds[i]);
            const bo_attention_shape shape = {.sequences = SEQUENCES,
                                              .tokens = TOKENS,
                                              .lengths = packed ? lengths : NULL,
                                              .layout = BO_LAYOUT_TOKENS_FIRST};
            bo_attention *attention;
            assert_ok(host, bo_attention_create(host, &desc, &attention));
            arrays expected = arrays_of(&desc), on_host = arrays_of(&desc), on_gpu = arrays_of(&desc);
            forward_and_backward(host, attention, &shape, &expected);
            run_call(host, attention, packed, NULL, &on_host);
            assert_memory_equal(on_host.out, expected.out, ROWS * HEADS * DIM * sizeof(float)); /* bitwise equal */
            assert_memory_equal(on_host.dk, expected.dk, ROWS * KEY_HEADS * DIM * sizeof(float));
            if (desc.kind != BO_ATTENTION_RIDGE) {
                run_call(gpu, attention, packed, NULL, &on_gpu);
                expect_same(kinds[i], &expected, &on_gpu);
            }
            drop(&expected), drop(&on_host), drop(&on_gpu);
            bo_attention_destroy(attention);
        }
}

/* The simple calls support GPU arrays, including states. */
static void simple_calls_support_gpu_arrays(void **state)
{
    (void)state;
    for (size_t i = 0; i < KINDS - 2; i++) {
        const bo_attention_desc desc = desc_of(kinds[i]);
        const bo_attention_shape shape = {.sequences = SEQUENCES, .tokens = TOKENS};
        bo_attention *attention;
        assert_ok(host, bo_attention_create(host, &desc, &attention));
        arrays expected = arrays_of(&desc), found = arrays_of(&desc);
        const size_t q = ROWS * HEADS * DIM * sizeof(float), k = ROWS * KEY_HEADS * DIM * sizeof(float),
                     gates = found.log_gate ? ROWS * KEY_HEADS * found.gate * sizeof(float) : 0;
        forward_and_backward(host, attention, &shape, &expected);
        const bo_attention_inputs in = {.q = upload(gpu, found.q, q),
                                        .k = upload(gpu, found.k, k),
                                        .v = upload(gpu, found.v, k),
                                        .log_gate = gates ? upload(gpu, found.log_gate, gates) : NULL};
        const bo_attention_gradients d = {.q = upload(gpu, NULL, q),
                                          .k = upload(gpu, NULL, k),
                                          .v = upload(gpu, NULL, k),
                                          .log_gate = gates ? upload(gpu, NULL, gates) : NULL};
        float *out = upload(gpu, NULL, q), *dout = upload(gpu, found.dout, q);
        size_t bytes;
        assert_ok(gpu, bo_attention_tape_bytes(gpu, attention, &shape, &bytes));
        void *tape = upload(gpu, NULL, bytes), *memory = upload(gpu, NULL, bo_attention_state_bytes(attention));
        assert_ok(gpu, bo_attention_forward_arrays(gpu, attention, &shape, &in, NULL, NULL, out, tape));
        assert_ok(gpu, bo_attention_backward_arrays(gpu, attention, &shape, &in, NULL, out, tape, dout, NULL, &d));
        assert_ok(gpu, bo_device_read(gpu, found.out, out, q));
        assert_ok(gpu, bo_device_read(gpu, found.dq, d.q, q));
        assert_ok(gpu, bo_device_read(gpu, found.dk, d.k, k));
        assert_ok(gpu, bo_device_read(gpu, found.dv, d.v, k));
        if (gates) assert_ok(gpu, bo_device_read(gpu, found.dlog_gate, d.log_gate, gates));
        expect_same(kinds[i], &expected, &found);
        const bo_attention_shape one = {.sequences = 1, .tokens = TOKENS, .layout = BO_LAYOUT_TOKENS_FIRST};
        const bo_attention_inputs host_inputs = inputs_of(&expected);
        assert_ok(host,
                  bo_attention_forward_arrays(host, attention, &one, &host_inputs, NULL, NULL, expected.out, NULL));
        assert_ok(gpu, bo_attention_state_init(gpu, attention, memory));
        assert_ok(gpu, bo_attention_extend(gpu, attention, &one, &in, &memory, out));
        assert_ok(gpu, bo_device_read(gpu, found.out, out, q));
        expect_near(kinds[i], "output with a state", TOKENS * HEADS * DIM, expected.out, found.out);
        const void *const all[] = {in.q, in.k, in.v, in.log_gate, d.q, d.k, d.v, d.log_gate, out, dout, tape, memory};
        for (size_t j = 0; j < sizeof all / sizeof *all; j++) bo_device_free(gpu, (void *)(uintptr_t)all[j]);
        drop(&expected), drop(&found);
        bo_attention_destroy(attention);
    }
}

/* Wrong memory is an error, not an access by a kernel. */
static void wrong_memory_is_refused(void **state)
{
    (void)state;
    const bo_attention_desc desc = desc_of("favor");
    const bo_attention_shape one = {.sequences = 1, .tokens = TOKENS, .layout = BO_LAYOUT_TOKENS_FIRST};
    bo_attention *attention;
    assert_ok(gpu, bo_attention_create(gpu, &desc, &attention));
    arrays a = arrays_of(&desc);
    float *q = upload(gpu, a.q, ROWS * HEADS * DIM * sizeof *q),
          *k = upload(gpu, a.k, ROWS * KEY_HEADS * DIM * sizeof *k);
    void *workspace;
    size_t bytes;
    bo_attention_inputs in = {.q = q, .k = a.k, .v = a.v};
    assert_fails(gpu, BO_INVALID, "are in host memory, and some in the memory of cuda:0",
                 bo_attention_forward_arrays(gpu, attention, &one, &in, NULL, NULL, a.out, NULL));
    bo_attention_call c = {
        .sequences = 1, .tokens = TOKENS, .q = {q}, .k = {k}, .v = {k}, .layout = BO_LAYOUT_TOKENS_FIRST};
    assert_fails(gpu, BO_INVALID, "out has no data", bo_attention_call_bytes(gpu, attention, &c, false, NULL, &bytes));
    c.out.data = a.out;
    assert_ok(gpu, bo_attention_call_bytes(gpu, attention, &c, false, NULL, &bytes));
    assert_ok(gpu, bo_device_allocate(gpu, bytes, &workspace));
    c.workspace = workspace;
    assert_fails(gpu, BO_INVALID, "out is not in the memory of cuda:0", bo_attention_forward(gpu, attention, &c));
    c.out.data = q, c.workspace = a.out;
    assert_fails(gpu, BO_INVALID, "workspace is not in the memory of cuda:0", bo_attention_forward(gpu, attention, &c));
    c.workspace = workspace, c.initial = c.final = &(void *){a.out};
    assert_fails(gpu, BO_INVALID, "a state is not in the memory", bo_attention_forward(gpu, attention, &c));
    c.initial = c.final = NULL, c.element = BO_ELEMENT_INT8;
    assert_fails(gpu, BO_INVALID, "element must be FLOAT32, BFLOAT16 or FLOAT64",
                 bo_attention_forward(gpu, attention, &c));
    c.element = BO_ELEMENT_BFLOAT16;
    assert_fails(host, BO_UNSUPPORTED, "bfloat16 arrays are supported only on GPUs",
                 bo_attention_forward(host, attention, &c));
    bo_device_free(gpu, q), bo_device_free(gpu, k), bo_device_free(gpu, workspace);
    bo_attention_destroy(attention);
    drop(&a);
}

/* Tapes, absent gradients, and contradictory calls. */
static void backward_is_exact_about_its_forward_pass(void **state)
{
    (void)state;
    const bo_attention_desc desc = desc_of("favor");
    const bo_attention_shape one = {.sequences = 1, .tokens = TOKENS, .layout = BO_LAYOUT_TOKENS_FIRST};
    bo_attention *attention;
    assert_ok(gpu, bo_attention_create(gpu, &desc, &attention));
    arrays a = arrays_of(&desc);
    const bo_attention_inputs in = inputs_of(&a);
    const bo_attention_gradients gradients = {.q = a.dq};
    size_t bytes;
    assert_ok(gpu, bo_attention_tape_bytes(gpu, attention, &one, &bytes));
    void *tape = aligned_alloc(64, (bytes + 63) / 64 * 64);
    assert_ok(gpu, bo_attention_forward_arrays(gpu, attention, &one, &in, NULL, NULL, a.out, tape));
    assert_fails(host, BO_UNSUPPORTED, "the tape was written by a forward pass on a GPU",
                 bo_attention_backward_arrays(host, attention, &one, &in, NULL, a.out, tape, a.dout, NULL, &gradients));
    float *kept = malloc(TOKENS * HEADS * DIM * sizeof *kept); /* out is only read */
    memcpy(kept, a.out, TOKENS * HEADS * DIM * sizeof *kept);
    for (size_t i = 0; i < TOKENS * HEADS * DIM; i++) a.out[i] = 77;
    assert_ok(gpu,
              bo_attention_backward_arrays(gpu, attention, &one, &in, NULL, a.out, tape, a.dout, NULL, &gradients));
    for (size_t i = 0; i < TOKENS * HEADS * DIM; i++) assert_true(a.out[i] == 77);
    assert_true(a.dq[(TOKENS - 1) * HEADS * DIM] != 0); /* the first query sees one key */
    assert_ok(gpu, bo_attention_backward_arrays(gpu, attention, &one, &in, NULL, a.out, tape, NULL, NULL, &gradients));
    for (size_t i = 0; i < TOKENS * HEADS * DIM; i++) assert_true(a.dq[i] == 0); /* no gradient of the output: zero */
    const int32_t offsets[] = {0, TOKENS};
    bo_attention_call c = {
        .sequences = 1, .tokens = TOKENS, .q = {a.q}, .k = {a.k}, .v = {a.v}, .key_offsets = offsets};
    size_t more;
    c.out.data = a.out, c.dout.data = a.dout;
    assert_fails(gpu, BO_UNSUPPORTED, "cross attention of a causal attention",
                 bo_attention_call_bytes(gpu, attention, &c, true, &bytes, &more));
    free(tape), free(kept);
    bo_attention_destroy(attention);
    drop(&a);
}

/* In bfloat16, forward and backward choose the same kernels, or backward returns an error. */
static void gradients_at_odd_addresses_are_refused(void **state)
{
    enum { WIDE = 64, FEATURES = 128 };
    (void)state;
    bo_attention *attention;
    const bo_attention_desc desc = {.kind = BO_ATTENTION_FAVOR,
                                    .heads = 1,
                                    .dim = WIDE,
                                    .causal = true,
                                    .features = {.features = FEATURES, .seed = 1}};
    assert_ok(gpu, bo_attention_create(gpu, &desc, &attention));
    const size_t rows = TOKENS * WIDE * 2;
    char *q = upload(gpu, NULL, rows), *out = upload(gpu, NULL, rows), *dout = upload(gpu, NULL, rows + 2),
         *dq = upload(gpu, NULL, rows);
    bo_attention_call c = {.element = BO_ELEMENT_BFLOAT16,
                           .layout = BO_LAYOUT_TOKENS_FIRST,
                           .sequences = 1,
                           .tokens = TOKENS,
                           .q = {.data = q},
                           .k = {.data = q},
                           .v = {.data = q},
                           .out = {.data = out}};
    size_t tape, bytes, backward, same_tape;
    assert_ok(gpu, bo_attention_call_bytes(gpu, attention, &c, false, &tape, &bytes));
    c.dout.data = dout + 2, c.dq.data = dq;
    assert_ok(gpu, bo_attention_call_bytes(gpu, attention, &c, true, &same_tape, &backward));
    assert_int_equal(same_tape, tape);
    assert_ok(gpu, bo_device_allocate(gpu, tape, &c.tape));
    assert_ok(gpu, bo_device_allocate(gpu, bytes > backward ? bytes : backward, &c.workspace));
    assert_ok(gpu, bo_attention_forward(gpu, attention, &c));
    assert_fails(gpu, BO_INVALID, "the address of the gradient of the output must be a multiple of 16 bytes",
                 bo_attention_backward(gpu, attention, &c));
    c.dout.data = dout;
    assert_ok(gpu, bo_attention_backward(gpu, attention, &c));
    void *const all[] = {q, out, dout, dq, c.tape, c.workspace};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) bo_device_free(gpu, all[i]);
    bo_attention_destroy(attention);
}

/* ---- features ---------------------------------------------------------------------------------------------------- */

static void features_match_the_cpu(void **state)
{
    static const bo_features_desc maps[] = {
        {.kernel = BO_KERNEL_RBF, .dim = DIM, .features = 64, .gamma = 0.3, .seed = 1},
        {.kernel = BO_KERNEL_SOFTMAX, .function = BO_FUNCTION_POSITIVE, .dim = DIM, .features = 32, .seed = 2},
        {.kernel = BO_KERNEL_ARCCOS, .dim = DIM, .features = 48, .seed = 3},
        {.kernel = BO_KERNEL_POLYNOMIAL, .dim = DIM, .features = 153}}; /* no kernels: on the CPU */
    enum { STRIDE = DIM + 3, MANY = 40000 };
    (void)state;
    float *x = noise((size_t)MANY * STRIDE, 9);
    for (size_t m = 0; m < sizeof maps / sizeof *maps; m++) {
        const size_t features = maps[m].features, stride = features + 5;
        bo_features *phi;
        assert_ok(host, bo_features_create(host, &maps[m], &phi));
        float *expected = calloc((size_t)MANY * stride, sizeof *expected),
              *found = calloc((size_t)MANY * stride, sizeof *found);
        assert_ok(host,
                  bo_features_apply(host, phi, &(bo_inputs){.rows = MANY, .x = x, .stride = STRIDE}, expected, stride));
        assert_ok(gpu,
                  bo_features_apply(gpu, phi, &(bo_inputs){.rows = MANY, .x = x, .stride = STRIDE}, found, stride));
        expect_near("features", "number", (size_t)MANY * stride, expected, found);
        if (m < 3) {
            float *on_gpu = upload(gpu, x, 100 * STRIDE * sizeof *x), *z = upload(gpu, NULL, 100 * stride * sizeof *z);
            assert_ok(gpu,
                      bo_features_apply(gpu, phi, &(bo_inputs){.rows = 100, .x = on_gpu, .stride = STRIDE}, z, stride));
            assert_ok(gpu, bo_device_read(gpu, found, z, 100 * stride * sizeof *z));
            expect_near("features of the GPU", "number", 100 * stride, expected, found);
            assert_fails(
                gpu, BO_INVALID, "x is in the memory of the GPU, and z in the memory of the host",
                bo_features_apply(gpu, phi, &(bo_inputs){.rows = 100, .x = on_gpu, .stride = STRIDE}, found, stride));
            bo_device_free(gpu, on_gpu), bo_device_free(gpu, z);
        }
        if (m == 3) { /* not computed on the GPU, where its rows are */
            float *on_gpu = upload(gpu, x, 100 * STRIDE * sizeof *x);
            assert_fails(
                gpu, BO_UNSUPPORTED, "function polynomial is not supported on GPUs",
                bo_features_apply(gpu, phi, &(bo_inputs){.rows = 100, .x = on_gpu, .stride = STRIDE}, on_gpu, stride));
            bo_device_free(gpu, on_gpu);
        }
        /* a new draw replaces the data on the GPU */
        if (m < 3) {
            assert_ok(host, bo_features_redraw(host, phi, 77));
            assert_ok(host, bo_features_apply(host, phi, &(bo_inputs){.rows = 100, .x = x, .stride = STRIDE}, expected,
                                              stride));
            assert_ok(gpu,
                      bo_features_apply(gpu, phi, &(bo_inputs){.rows = 100, .x = x, .stride = STRIDE}, found, stride));
            expect_near("features", "number of another draw", 100 * stride, expected, found);
        }
        free(expected), free(found);
        bo_features_destroy(phi);
    }
    free(x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(host_arrays_match_the_cpu),
        cmocka_unit_test(states_of_the_host_cross_devices),
        cmocka_unit_test(numbers_that_are_not_finite_are_named),
        cmocka_unit_test(calls_support_packed_arrays),
        cmocka_unit_test(simple_calls_support_gpu_arrays),
        cmocka_unit_test(wrong_memory_is_refused),
        cmocka_unit_test(backward_is_exact_about_its_forward_pass),
        cmocka_unit_test(gradients_at_odd_addresses_are_refused),
        cmocka_unit_test(features_match_the_cpu),
    };
    assert_int_equal(bo_context_create(&(bo_context_desc){.threads = 2}, &host), BO_OK);
    assert_int_equal(bo_context_create(&(bo_context_desc){.threads = 1}, &gpu), BO_OK);
    if (bo_context_use_device(gpu, "cuda") != BO_OK) {
        print_message("skipped: %s\n", bo_context_error(gpu));
        return 77;
    }
    const int failures = cmocka_run_group_tests(tests, NULL, NULL);
    bo_context_destroy(host);
    bo_context_destroy(gpu);
    return failures;
}
