/* Fewer heads than threads: the forward pass runs as a pipeline of rounds (softmax attention: in tiles and blocks)
 * without a visible effect. Outputs, tapes (through the gradients) and final states are bit-identical to one thread. */
#include "attention/attention.h"
#include "../testing.h"

enum { DIM = 9, VALUE = 5, FEATURES = 24, CHUNK = 4, CHUNKS = 128, LONGEST = CHUNKS * CHUNK * 2 + 7 }; /* many rounds */

typedef struct wave_case {
    const char *name;
    bo_attention_desc desc;
    size_t lengths[2], keys[2]; /* of two sequences; keys 0: the same as lengths */
} wave_case;

static const wave_case cases[] = {
    {"favor, causal", {.kind = BO_ATTENTION_FAVOR, .causal = true}, {LONGEST, 33}, {0}},
    {"favor, both ways", {.kind = BO_ATTENTION_FAVOR}, {LONGEST, 1}, {0}},
    {"favor, cross", {.kind = BO_ATTENTION_FAVOR}, {50, LONGEST}, {LONGEST, 3}},
    {"rfa, convex gate", {.kind = BO_ATTENTION_RFA, .causal = true, .gate = BO_GATE_CONVEX}, {LONGEST, 128}, {0}},
    {"arccos",
     {.kind = BO_ATTENTION_LINEAR, .causal = true, .features = {.kernel = BO_KERNEL_ARCCOS}},
     {LONGEST, 0},
     {0}},
    {"softmax, causal", {.kind = BO_ATTENTION_SOFTMAX, .causal = true}, {1100, 33}, {0}},
    {"softmax, window", {.kind = BO_ATTENTION_SOFTMAX, .causal = true, .window = 70}, {1025, 512}, {0}},
    {"softmax, cross", {.kind = BO_ATTENTION_SOFTMAX}, {600, 0}, {130, 70}},
    {"full rounds and one more token",
     {.kind = BO_ATTENTION_FAVOR, .causal = true},
     {CHUNKS * CHUNK, CHUNKS * CHUNK + 1},
     {0}},
};

typedef struct wave_result {
    float *out, *dq, *dk, *dv;
    unsigned char *states[2];
    size_t state_bytes;
} wave_result;

static float *normals(size_t count, uint64_t stream)
{
    float *x = malloc(count * sizeof *x + 1);
    bo_rng rng = bo_rng_make(7, stream);
    for (size_t i = 0; i < count; i++) x[i] = (float)bo_rng_normal(&rng);
    return x;
}

static wave_result run(const wave_case *test, int threads)
{
    bo_context *context = test_context(threads);
    bo_attention_desc desc = test->desc;
    desc.heads = 2, desc.key_heads = 1, desc.dim = DIM, desc.value_dim = VALUE, desc.chunk = CHUNK;
    if (desc.kind != BO_ATTENTION_SOFTMAX) desc.features.features = FEATURES, desc.features.seed = 3;
    bo_attention *attention;
    assert_ok(context, bo_attention_create(context, &desc, &attention));
    bool cross = test->keys[0] != 0;
    bo_attention_shape shape = {.sequences = 2, .lengths = test->lengths, .key_lengths = cross ? test->keys : NULL};
    size_t queries = test->lengths[0] + test->lengths[1], keys = cross ? test->keys[0] + test->keys[1] : queries;
    float *q = normals(queries * 2 * DIM, 1), *k = normals(keys * DIM, 2), *v = normals(keys * VALUE, 3);
    float *gate = normals(keys, 4), *dout = normals(queries * 2 * VALUE, 5);
    for (size_t i = 0; i < keys; i++) gate[i] = -fabsf(gate[i]) * 0.3f;
    bo_attention_inputs in = {.q = q, .k = k, .v = v, .log_gate = desc.gate ? gate : NULL};
    size_t tape_bytes, state_bytes = bo_attention_state_bytes(attention);
    assert_ok(context, bo_attention_tape_bytes(context, attention, &shape, &tape_bytes));
    void *tape = aligned_alloc(64, (tape_bytes + 63) / 64 * 64);
    wave_result result = {.out = malloc(queries * 2 * VALUE * sizeof(float) + 1),
                          .dq = malloc(queries * 2 * DIM * sizeof(float) + 1),
                          .dk = malloc(keys * DIM * sizeof(float) + 1),
                          .dv = malloc(keys * VALUE * sizeof(float) + 1),
                          .state_bytes = state_bytes};
    for (int s = 0; s < 2; s++) result.states[s] = aligned_alloc(64, (state_bytes + 63) / 64 * 64);
    void *final[2] = {result.states[0], result.states[1]};
    assert_ok(context, bo_attention_forward_arrays(context, attention, &shape, &in, NULL, final, result.out, tape));
    bo_attention_gradients gradients = {.q = result.dq, .k = result.dk, .v = result.dv};
    assert_ok(context, bo_attention_backward_arrays(context, attention, &shape, &in, NULL, result.out, tape, dout, NULL,
                                                    &gradients));
    bo_attention_cost plan;
    assert_ok(context, bo_attention_estimate_arrays(context, attention, &shape, &plan));
    assert_true((plan.tasks < (size_t)threads) ==
                (threads > 2)); /* with fewer threads, the pass does not run in waves */
    bo_attention_destroy(attention);
    bo_context_destroy(context);
    free(q), free(k), free(v), free(gate), free(dout), free(tape);
    return result;
}

static void free_result(wave_result result)
{
    free(result.out), free(result.dq), free(result.dk), free(result.dv), free(result.states[0]), free(result.states[1]);
}

static void same(const wave_case *test, const char *what, const void *a, const void *b, size_t bytes)
{
    if (memcmp(a, b, bytes) != 0) fail_msg("%s: %s differ between one thread and waves", test->name, what);
}

static void waves_leave_no_trace(void **state)
{
    (void)state;
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        const wave_case *test = &cases[c];
        size_t queries = test->lengths[0] + test->lengths[1],
               keys = test->keys[0] ? test->keys[0] + test->keys[1] : queries;
        wave_result one = run(test, 1), many = run(test, 8);
        same(test, "outputs", one.out, many.out, queries * 2 * VALUE * sizeof(float));
        same(test, "gradients of q", one.dq, many.dq, queries * 2 * DIM * sizeof(float));
        same(test, "gradients of k", one.dk, many.dk, keys * DIM * sizeof(float));
        same(test, "gradients of v", one.dv, many.dv, keys * VALUE * sizeof(float));
        for (int s = 0; s < 2; s++) same(test, "states", one.states[s], many.states[s], one.state_bytes);
        free_result(one), free_result(many);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(waves_leave_no_trace)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
