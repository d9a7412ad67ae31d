/* bo_attention_call with a workspace allocates nothing after bo_attention_call_bytes: neither host memory, which an
 * allocator counts, nor device memory, which is exhausted in the emulator. On a GPU it can be recorded, and the
 * recording replayed. */
#include <bochner/devices.h>
#include "attention/attention.h"
#include "base/counting.h"
#include "device/device.h"
#include "testing.h"

enum { HEADS = 4, KEY_HEADS = 2, DIM = 16, TOKENS = 9, SEQUENCES = 3, ROWS = SEQUENCES * TOKENS };

/* The devices: the CPU with two threads, and the GPU. */
static struct place {
    const char *name;
    counting count;
    bo_context *context;
} places[] = {{.name = "cpu"}, {.name = "cuda"}};
static struct place *const gpu = &places[1];

static bool emulated(const struct place *at)
{
    return at == gpu && bo_device_properties(bo_device_of(at->context))->emulated;
}

/* ---- arrays ------------------------------------------------------------------------------------------------------ */

/* Device allocations of a test. */
typedef struct pool {
    struct place *at;
    size_t count;
    void *all[64];
} pool;

static void *pool_allocate(pool *p, size_t bytes)
{
    void *out;
    assert_true(p->count < sizeof p->all / sizeof *p->all);
    assert_ok(p->at->context, bo_device_allocate(p->at->context, bytes ? bytes : 1, &out));
    return p->all[p->count++] = out;
}

static void pool_release(pool *p)
{
    for (size_t i = 0; i < p->count; i++) bo_device_free(p->at->context, p->all[i]);
}

/* Small values in the type of the call; `less`: at most 0. */
static void *noise(pool *p, bo_element element, size_t count, uint64_t stream, bool less)
{
    const size_t bytes = element == BO_ELEMENT_BFLOAT16 ? 2 : 4;
    char *x = malloc(count * bytes);
    bo_rng rng = bo_rng_make(11, stream);
    for (size_t i = 0; i < count; i++) {
        float number = (float)(0.3 * bo_rng_normal(&rng));
        if (less) number = -0.2F * fabsf(number);
        uint32_t bits;
        memcpy(&bits, &number, sizeof bits);
        if (bytes == 2) bits >>= 16; /* the upper half: little-endian */
        memcpy(x + i * bytes, &bits, bytes);
    }
    void *out = pool_allocate(p, count * bytes);
    assert_ok(p->at->context, bo_device_write(p->at->context, out, x, count * bytes));
    free(x);
    return out;
}

static float *parameter(pool *p, size_t count, uint64_t stream)
{
    return noise(p, BO_ELEMENT_FLOAT32, count, stream, false);
}

/* A form of a call. */
typedef struct form {
    const char *message;
    bool training, offsets, states, cross, no_keys;
    size_t tokens;
    bo_element element;
} form;

static bo_attention_desc desc_of(const char *kind, bool causal)
{
    bo_attention_desc desc = {
        .heads = HEADS, .key_heads = KEY_HEADS, .dim = DIM, .causal = causal, .features = {.features = 32, .seed = 5}};
    assert_true(bo_attention_preset(kind, &desc));
    if (desc.kind == BO_ATTENTION_LINEAR || desc.kind == BO_ATTENTION_LEARNED) desc.features.features = 0;
    return desc;
}

/* Every array and parameter that the attention supports, with gradients in training. */
static bo_attention_call call_of(pool *p, const bo_attention_desc *d, const form *f)
{
    static const int32_t starts[] = {0, 1, 1 + TOKENS, ROWS};
    const bo_element e = f->element;
    const bool channels = bo_attention_has(d, BO_TRAIT_CHANNELS);
    const size_t q = ROWS * HEADS * DIM, k = ROWS * KEY_HEADS * DIM, gate = ROWS * KEY_HEADS * (channels ? DIM : 1);
    bo_attention_call c = {.element = e,
                           .layout = BO_LAYOUT_TOKENS_FIRST,
                           .sequences = SEQUENCES,
                           .tokens = f->tokens,
                           .no_keys = f->no_keys,
                           .key_tokens = f->cross && !f->no_keys && !f->offsets ? f->tokens : 0,
                           .rows = ROWS,
                           .key_rows = ROWS};
    if (f->offsets) {
        int32_t *at = pool_allocate(p, sizeof starts);
        assert_ok(p->at->context, bo_device_write(p->at->context, at, starts, sizeof starts));
        c.offsets = at;
        if (f->cross) c.key_offsets = at;
    }
    c.q.data = noise(p, e, q, 1, false), c.out.data = pool_allocate(p, q * sizeof(float));
    if (!f->no_keys) c.k.data = noise(p, e, k, 2, false), c.v.data = noise(p, e, k, 3, false);
    if (!f->no_keys && (channels || d->gate == BO_GATE_CONVEX || d->gate == BO_GATE_DECAY))
        c.log_gate.data = noise(p, e, gate, 4, true);
    if (bo_attention_has(d, BO_TRAIT_SIGMA)) c.sigma = parameter(p, KEY_HEADS * DIM, 5);
    if (d->rank) c.m = parameter(p, KEY_HEADS * d->rank * DIM, 6);
    if (f->training) {
        c.dout.data = noise(p, e, q, 7, false), c.dq.data = pool_allocate(p, q * sizeof(float));
        c.dk.data = pool_allocate(p, k * sizeof(float)), c.dv.data = pool_allocate(p, k * sizeof(float));
        if (c.log_gate.data) c.dlog_gate.data = pool_allocate(p, gate * sizeof(float));
        if (c.sigma) c.dsigma = pool_allocate(p, KEY_HEADS * DIM * sizeof(float));
        if (c.m) c.dm = pool_allocate(p, KEY_HEADS * d->rank * DIM * sizeof(float));
    }
    return c;
}

static void add_states(pool *p, const bo_attention *attention, bo_attention_call *c, void *states[SEQUENCES])
{
    for (size_t s = 0; s < SEQUENCES; s++) {
        states[s] = pool_allocate(p, bo_attention_state_bytes(attention));
        assert_ok(p->at->context, bo_attention_state_init(p->at->context, attention, states[s]));
    }
    c->initial = states;
    if (!c->no_keys) c->final = states;
}

/* ---- allocations ------------------------------------------------------------------------------------------------- */

/* The calls of a form, without memory for any allocation. Returns false if the device has no kernels for them. */
static bool compute(struct place *at, const char *kind, const form *f)
{
    const bo_attention_desc desc = desc_of(kind, !f->cross);
    void *states[SEQUENCES];
    pool p = {.at = at};
    size_t tape = 0, forward, backward = 0, other;
    bo_attention *attention;
    assert_ok(at->context, bo_attention_create(at->context, &desc, &attention));
    bo_attention_call c = call_of(&p, &desc, f);
    if (f->states) add_states(&p, attention, &c, states);
    bo_status status = bo_attention_call_bytes(at->context, attention, &c, false, f->training ? &tape : NULL, &forward);
    if (status == BO_OK && f->training)
        status = bo_attention_call_bytes(at->context, attention, &c, true, &other, &backward);
    if (status == BO_OK) {
        c.tape = f->training ? pool_allocate(&p, tape) : NULL,
        c.workspace = pool_allocate(&p, bo_max(forward, backward));
        const size_t calls = at->count.calls;
        at->count.fail_at = calls + 1;
        if (emulated(at)) setenv("BOCHNER_EMULATED_BYTES", "1", 1);
        status = bo_attention_forward(at->context, attention, &c);
        if (status == BO_OK && f->training) status = bo_attention_backward(at->context, attention, &c);
        unsetenv("BOCHNER_EMULATED_BYTES");
        at->count.fail_at = 0;
        if (status != BO_OK || at->count.calls != calls)
            fail_msg("%s, %s, %s: %zu allocations (%s)", at->name, kind, f->message, at->count.calls - calls,
                     bo_context_error(at->context));
        assert_ok(at->context, bo_device_synchronize(at->context));
    } else {
        assert_int_equal(status, BO_UNSUPPORTED);
    }
    pool_release(&p);
    bo_attention_destroy(attention);
    return status == BO_OK;
}

static const char *const kinds[] = {"softmax",   "favor", "rfa",   "rfa-gate",    "dark",  "hybrid", "hedgehog",
                                    "retention", "gla",   "delta", "gated-delta", "power", "ridge",  "gated-ridge"};
enum { KINDS = sizeof kinds / sizeof *kinds };

static void calls_allocate_nothing(void **state)
{
    static const form forms[] = {
        {.message = "training", .training = true, .tokens = TOKENS},
        {.message = "training, offsets", .training = true, .offsets = true},
        {.message = "states", .states = true, .tokens = TOKENS},
        {.message = "states, offsets", .states = true, .offsets = true},
        {.message = "a step", .states = true, .tokens = 1},
        {.message = "states without keys", .states = true, .no_keys = true, .cross = true, .tokens = TOKENS},
        {.message = "cross attention", .training = true, .cross = true, .tokens = TOKENS},
        {.message = "cross attention, offsets", .training = true, .cross = true, .offsets = true},
        {.message = "bfloat16", .training = true, .tokens = TOKENS, .element = BO_ELEMENT_BFLOAT16},
        {.message = "bfloat16, states, offsets", .states = true, .offsets = true, .element = BO_ELEMENT_BFLOAT16}};
    (void)state;
    size_t computed[2] = {0};
    for (size_t i = 0; i < KINDS; i++)
        for (size_t j = 0; j < sizeof forms / sizeof *forms; j++)
            for (size_t k = 0; k < 2; k++) computed[k] += compute(&places[k], kinds[i], &forms[j]);
    print_message("%zu calls on the CPU, %zu on the GPU\n", computed[0], computed[1]);
    assert_true(computed[0] >= KINDS * 5 && computed[1] >= (KINDS - 2) * 7);
}

/* ---- recordings -------------------------------------------------------------------------------------------------- */

/* Replays of a recorded forward and backward are bitwise equal to direct calls, also after the inputs have changed.
 * Operations that cannot be recorded (waits, copies from the host) are errors, in the emulator as on a GPU. */
static void calls_can_be_recorded(void **state)
{
    static const form packed = {.training = true, .offsets = true};
    const size_t bytes = ROWS * HEADS * DIM * sizeof(float), half = ROWS * KEY_HEADS * DIM * sizeof(float);
    bo_context *context = gpu->context;
    bo_device *device = bo_device_of(context);
    (void)state;
    for (size_t i = 0; i < KINDS - 2; i++) { /* without ridge */
        const bo_attention_desc desc = desc_of(kinds[i], true);
        float *expected[2] = {malloc(bytes), malloc(bytes)}, *found = malloc(bytes);
        pool p = {.at = gpu};
        size_t tape, forward, backward;
        void *recording;
        bo_attention *attention;
        assert_ok(context, bo_attention_create(context, &desc, &attention));
        bo_attention_call c = call_of(&p, &desc, &packed);
        assert_ok(context, bo_attention_call_bytes(context, attention, &c, false, &tape, &forward));
        assert_ok(context, bo_attention_call_bytes(context, attention, &c, true, &tape, &backward));
        c.tape = pool_allocate(&p, tape), c.workspace = pool_allocate(&p, bo_max(forward, backward));
        void *const changed = (void *)(uintptr_t)c.v.data, *const values[] = {
                                                               pool_allocate(&p, half),
                                                               parameter(&p, ROWS * KEY_HEADS * DIM, 20)};
        assert_ok(context, bo_device_copy(context, values[0], c.v.data, half));
        for (int round = 0; round < 2; round++) {
            assert_ok(context, bo_device_copy(context, changed, values[round], half));
            assert_ok(context, bo_attention_forward(context, attention, &c));
            assert_ok(context, bo_attention_backward(context, attention, &c));
            assert_ok(context, bo_device_read(context, expected[round], c.dq.data, bytes));
        }
        assert_memory_not_equal(expected[0], expected[1], bytes);
        bo_device_lock(device);
        assert_ok(context, bo_device_record_begin(context, device));
        assert_ok(context, bo_attention_forward(context, attention, &c));
        assert_ok(context, bo_attention_backward(context, attention, &c));
        assert_ok(context, bo_device_record_end(context, device, &recording));
        bo_device_unlock(device);
        for (int round = 0; round < 4; round++) {
            assert_ok(context, bo_device_copy(context, changed, values[round % 2], half));
            assert_ok(context, bo_device_copy(context, c.dq.data, c.q.data, bytes));
            bo_device_lock(device);
            assert_ok(context, bo_device_replay(context, device, recording));
            bo_device_unlock(device);
            assert_ok(context, bo_device_read(context, found, c.dq.data, bytes));
            assert_memory_equal(found, expected[round % 2], bytes);
        }
        bo_device_forget(device, recording);
        free(expected[0]), free(expected[1]), free(found);
        pool_release(&p);
        bo_attention_destroy(attention);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(calls_allocate_nothing),
                                       cmocka_unit_test(calls_can_be_recorded)};
    places[0].context = counting_context(&places[0].count, 2);
    gpu->context = counting_context(&gpu->count, 1);
    if (bo_context_use_device(gpu->context, "cuda") != BO_OK) {
        print_message("skipped: %s\n", bo_context_error(gpu->context));
        return 77;
    }
    const int failures = cmocka_run_group_tests(tests, NULL, NULL);
    for (size_t k = 0; k < 2; k++) bo_context_destroy(places[k].context);
    return failures + (places[0].count.live || gpu->count.live ? 1 : 0);
}
