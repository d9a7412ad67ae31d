/* Softmax attention on a device in bfloat16 and float32, compared with the CPU on the same inputs: outputs, gradients,
 * and states that move between the two. */
#include <bochner/devices.h>
#include "testing.h"
#include "attention/attention.h"
#include "backend/backend.h"
#include "base/rng.h"

enum { MAX_SEQUENCES = 8, LAYER = 1, LAYERS = 2 };

static bo_context *host, *device;

/* One call of attention: its shape, and its arrays on the host. */
typedef struct trial {
    const char *name;
    bo_attention_desc desc;
    size_t sequences, lengths[MAX_SEQUENCES], key_lengths[MAX_SEQUENCES]; /* key_lengths: cross attention */
    bool cross, queries_only;                                             /* queries_only: without keys, from states */
} trial;

typedef struct arrays {
    float *in[3], *dout, *out, *d[3];
    size_t rows[4], columns[4]; /* of q, k, v and the output */
} arrays;

static size_t sum(const size_t *lengths, size_t count)
{
    size_t out = 0;
    for (size_t s = 0; s < count; s++) out += lengths[s];
    return out;
}

/* Values that are exact in bfloat16. */
static float *random_floats(size_t count, uint64_t seed)
{
    float *x = aligned_alloc(64, (count * sizeof *x + 63) / 64 * 64 + 64);
    uint16_t *rounded = malloc(count * sizeof *rounded + 1);
    bo_rng rng = bo_rng_make(seed, 7);
    for (size_t i = 0; i < count; i++) x[i] = (float)bo_rng_normal(&rng);
    assert_ok(host, bo_backend_cpu()->narrow(host, BO_ELEMENT_BFLOAT16, 1, count, x, rounded));
    assert_ok(host, bo_backend_cpu()->widen(host, BO_ELEMENT_BFLOAT16, 1, count, rounded, x));
    free(rounded);
    return x;
}

static arrays arrays_make(const trial *t, const bo_attention *attention, uint64_t seed)
{
    const bo_attention_desc *d = bo_attention_describe(attention);
    const size_t queries = sum(t->lengths, t->sequences), keys = t->cross ? sum(t->key_lengths, t->sequences) : queries;
    arrays a = {
        .rows = {queries, keys, keys, queries},
        .columns = {d->heads * d->dim, d->key_heads * d->dim, d->key_heads * d->value_dim, d->heads * d->value_dim}};
    for (size_t i = 0; i < 3; i++) {
        a.in[i] = random_floats(a.rows[i] * a.columns[i], seed + i);
        a.d[i] = random_floats(a.rows[i] * a.columns[i], seed);
    }
    a.dout = random_floats(queries * a.columns[3], seed + 4);
    a.out = random_floats(queries * a.columns[3], seed);
    return a;
}

static void arrays_drop(arrays *a)
{
    for (size_t i = 0; i < 3; i++) free(a->in[i]), free(a->d[i]);
    free(a->dout);
    free(a->out);
}

/* ---- one call on either backend ---------------------------------------------------------------------------------- */

static size_t bytes_of(bo_element element, size_t count)
{
    return count * (element == BO_ELEMENT_BFLOAT16 ? 2 : 4);
}

static void *upload(bo_context *context, bo_element element, const float *x, size_t count)
{
    bo_device *target = bo_device_of(context);
    void *at = bo_buffer_allocate(context, target, bytes_of(element, count) + 64, "an operand"),
         *rounded = malloc(bytes_of(element, count) + 1);
    assert_non_null(at);
    memcpy(rounded, x, element == BO_ELEMENT_FLOAT32 ? bytes_of(element, count) : 0);
    if (element == BO_ELEMENT_BFLOAT16) assert_ok(host, bo_backend_cpu()->narrow(host, element, 1, count, x, rounded));
    assert_ok(context, bo_buffer_write(context, target, at, rounded, bytes_of(element, count)));
    free(rounded);
    return at;
}

static void download(bo_context *context, bo_element element, float *x, const void *from, size_t count)
{
    bo_device *target = bo_device_of(context);
    void *rounded = malloc(bytes_of(element, count) + 1);
    assert_ok(context, bo_buffer_read(context, target, rounded, from, bytes_of(element, count)));
    memcpy(x, rounded, element == BO_ELEMENT_FLOAT32 ? bytes_of(element, count) : 0);
    if (element == BO_ELEMENT_BFLOAT16) assert_ok(host, bo_backend_cpu()->widen(host, element, 1, count, rounded, x));
    free(rounded);
}

typedef bo_status (*direction)(bo_context *context, const bo_op_call *call);

/* Allocates the workspace and the saved memory of the call. */
static void submit(bo_context *context, bo_op_call *call, bool gradients, direction go)
{
    bo_device *target = bo_device_of(context);
    const bo_op *op = bo_backend_of(target)->ops[BO_OPERATION_ATTENTION];
    size_t saved, scratch;
    bool moved;
    bo_staged *staged = NULL;
    assert_ok(context, op->sizes(context, call, gradients, &saved, &scratch));
    if (gradients && !call->saved) call->saved = bo_buffer_allocate(context, target, saved + 64, "saved");
    call->scratch = bo_buffer_allocate(context, target, scratch + 64, "scratch");
    if (bo_device_is_gpu(target))
        assert_ok(context, bo_backend_of(target)->stage(context, call->pass, LAYERS, 0, &staged, &moved));
    call->staged = staged;
    if (op->prepare) assert_ok(context, op->prepare(context, call));
    assert_ok(context, go(context, call));
    if (bo_device_is_gpu(target)) assert_ok(context, bo_device_wait(context, target));
    if (bo_device_is_gpu(target)) bo_backend_of(target)->unstage(staged);
    bo_buffer_release(target, call->scratch);
}

/* Forward, and backward if there are no states. `states`: bytes on the host, updated. */
static void run(bo_context *context, bo_element element, const trial *t, const bo_attention *attention, arrays *a,
                void *const *states)
{
    bo_device *target = bo_device_of(context);
    const bo_op *op = bo_backend_of(target)->ops[BO_OPERATION_ATTENTION];
    const size_t inputs = t->queries_only ? 1 : 3, state_bytes = bo_attention_state_bytes(attention);
    void *device_states[LAYERS * MAX_SEQUENCES] = {NULL};
    bo_attention_attributes attributes = {.attention = attention,
                                          .layer = LAYER,
                                          .max_sequences = MAX_SEQUENCES,
                                          .cross = t->cross,
                                          .queries_only = t->queries_only};
    bo_graph_pass pass = {.sequences = t->sequences, .lengths = t->lengths, .states = states ? device_states : NULL};
    bo_op_call call = {.attributes = &attributes, .inputs = inputs, .pass = &pass};
    if (t->cross && !t->queries_only) pass.source_lengths = t->key_lengths;
    for (size_t s = 0; states && s < t->sequences; s++) {
        device_states[LAYER * t->sequences + s] = bo_buffer_allocate(context, target, state_bytes, "a state");
        assert_ok(context,
                  bo_buffer_write(context, target, device_states[LAYER * t->sequences + s], states[s], state_bytes));
    }
    for (size_t i = 0; i < inputs; i++) call.in[i] = (bo_tensor){NULL, BO_ELEMENT_FLOAT32, a->rows[i], a->columns[i]};
    assert_ok(context, op->shape(context, &call));
    call.out[0].element = element;
    call.out[0].data = upload(context, element, a->out, a->rows[3] * a->columns[3]);
    for (size_t i = 0; i < inputs; i++) {
        call.in[i].element = element;
        call.in[i].data = upload(context, element, a->in[i], a->rows[i] * a->columns[i]);
    }
    submit(context, &call, !states, op->forward);
    download(context, element, a->out, call.out[0].data, a->rows[3] * a->columns[3]);
    if (!states) {
        call.dout[0] = upload(context, element, a->dout, a->rows[3] * a->columns[3]);
        for (size_t i = 0; i < inputs; i++) {
            call.din[i] = upload(context, element, a->d[i], a->rows[i] * a->columns[i]);
            call.add[i] = i == 1; /* one of them is added */
        }
        submit(context, &call, true, op->backward);
        for (size_t i = 0; i < inputs; i++) {
            download(context, element, a->d[i], call.din[i], a->rows[i] * a->columns[i]);
            bo_buffer_release(target, call.din[i]);
        }
        bo_buffer_release(target, (void *)call.dout[0]);
        bo_buffer_release(target, call.saved);
    }
    for (size_t s = 0; states && s < t->sequences; s++) {
        assert_ok(context,
                  bo_buffer_read(context, target, states[s], device_states[LAYER * t->sequences + s], state_bytes));
        bo_buffer_release(target, device_states[LAYER * t->sequences + s]);
    }
    for (size_t i = 0; i < inputs; i++) bo_buffer_release(target, call.in[i].data);
    bo_buffer_release(target, call.out[0].data);
}

/* ---- comparison -------------------------------------------------------------------------------------------------- */

static void close_to(const char *name, const char *what, bo_element element, const float *found, const float *expected,
                     size_t count)
{
    const double tolerance = element == BO_ELEMENT_BFLOAT16 ? 1e-2 : 1e-5;
    double error = 0, size = 0;
    for (size_t i = 0; i < count; i++) {
        error += pow((double)found[i] - (double)expected[i], 2);
        size += pow((double)expected[i], 2);
    }
    if (!(sqrt(error) <= tolerance * sqrt(size)))
        fail_msg("%s: %s has a relative error of %.3g", name, what, sqrt(error / size));
}

static void check(const trial *t, bo_element element)
{
    bo_attention *attention = NULL;
    static const char *const names[] = {"dq", "dk", "dv"};
    assert_ok(host, bo_attention_create(host, &t->desc, &attention));
    arrays expected = arrays_make(t, attention, 11), found = arrays_make(t, attention, 11);
    run(host, BO_ELEMENT_FLOAT32, t, attention, &expected, NULL);
    run(device, element, t, attention, &found, NULL);
    close_to(t->name, "out", element, found.out, expected.out, found.rows[3] * found.columns[3]);
    for (size_t i = 0; i < 3; i++)
        close_to(t->name, names[i], element, found.d[i], expected.d[i], found.rows[i] * found.columns[i]);
    arrays_drop(&expected);
    arrays_drop(&found);
    bo_attention_destroy(attention);
}

#define HEADS(h, k, d, v) .heads = h, .key_heads = k, .dim = d, .value_dim = v

static void as_on_the_cpu(void **state)
{
    (void)state;
    const trial trials[] = {
        {.name = "one tile", .desc = {HEADS(2, 2, 64, 64), .causal = true}, .sequences = 1, .lengths = {64}},
        {.name = "several tiles", .desc = {HEADS(1, 1, 64, 64), .causal = true}, .sequences = 1, .lengths = {300}},
        {.name = "lengths",
         .desc = {HEADS(2, 2, 64, 64), .causal = true},
         .sequences = 5,
         .lengths = {1, 130, 0, 65, 128}},
        {.name = "groups, not causal", .desc = {HEADS(4, 2, 64, 64)}, .sequences = 2, .lengths = {70, 150}},
        {.name = "a window",
         .desc = {HEADS(1, 1, 64, 64), .causal = true, .window = 40},
         .sequences = 2,
         .lengths = {200, 33}},
        {.name = "a long window",
         .desc = {HEADS(1, 1, 64, 64), .causal = true, .window = 150},
         .sequences = 1,
         .lengths = {400}},
        {.name = "small heads", .desc = {HEADS(3, 1, 16, 40), .causal = true}, .sequences = 2, .lengths = {50, 140}},
        {.name = "large heads", .desc = {HEADS(2, 1, 128, 128), .causal = true}, .sequences = 2, .lengths = {150, 20}},
        {.name = "heads of 96, 32", .desc = {HEADS(1, 1, 96, 32), .causal = true}, .sequences = 1, .lengths = {140}},
        {.name = "odd heads", .desc = {HEADS(2, 1, 5, 12), .causal = true}, .sequences = 2, .lengths = {50, 14}},
        {.name = "huge heads", .desc = {HEADS(1, 1, 136, 131), .causal = true}, .sequences = 1, .lengths = {40}},
        {.name = "a power",
         .desc = {.kind = BO_ATTENTION_POWER, HEADS(2, 1, 16, 16), .causal = true, .power = 3},
         .sequences = 2,
         .lengths = {70, 9}},
        {.name = "across",
         .desc = {HEADS(2, 1, 64, 64)},
         .sequences = 4,
         .lengths = {5, 0, 130, 3},
         .key_lengths = {140, 3, 20, 0},
         .cross = true},
        {.name = "across, causal",
         .desc = {HEADS(2, 1, 64, 64), .causal = true},
         .sequences = 2,
         .lengths = {5, 130},
         .key_lengths = {140, 20},
         .cross = true},
        {.name = "across, a window",
         .desc = {HEADS(2, 1, 64, 64), .causal = true, .window = 50},
         .sequences = 2,
         .lengths = {5, 130},
         .key_lengths = {140, 20},
         .cross = true},
    };
    for (size_t i = 0; i < sizeof trials / sizeof *trials; i++) {
        check(&trials[i], BO_ELEMENT_BFLOAT16);
        check(&trials[i], BO_ELEMENT_FLOAT32);
    }
}

/* ---- states ------------------------------------------------------------------------------------------------------ */

enum { PIECES = 6 };
static const size_t pieces[PIECES][3] = {{70, 0, 3}, {1, 1, 1}, {0, 130, 3}, {1, 1, 1}, {1, 2, 0}, {1, 1, 1}};

/* A sequence in pieces, which alternate between the device and the CPU; all pieces on the CPU are the truth. */
static void check_states(const char *name, bo_attention_desc desc, bool device_first, bo_element element)
{
    bo_attention *attention = NULL;
    assert_ok(host, bo_attention_create(host, &desc, &attention));
    void *states[2][3];
    const size_t bytes = bo_attention_state_bytes(attention);
    for (size_t i = 0; i < 6; i++) {
        states[i / 3][i % 3] = aligned_alloc(64, (bytes + 63) / 64 * 64);
        assert_ok(host, bo_attention_state_init(host, attention, states[i / 3][i % 3]));
    }
    for (size_t p = 0; p < PIECES; p++) {
        trial t = {.name = name, .desc = desc, .sequences = 3};
        memcpy(t.lengths, pieces[p], sizeof pieces[p]);
        const bool on_device = p % 2 != device_first;
        arrays expected = arrays_make(&t, attention, 100 + p), found = arrays_make(&t, attention, 100 + p);
        run(host, BO_ELEMENT_FLOAT32, &t, attention, &expected, states[0]);
        run(on_device ? device : host, on_device ? element : BO_ELEMENT_FLOAT32, &t, attention, &found, states[1]);
        close_to(name, "a piece", element, found.out, expected.out, found.rows[3] * found.columns[3]);
        for (size_t s = 0; s < 3; s++) /* the inputs are exact in bfloat16, so kept keys are equal */
            if (memcmp(states[0][s], states[1][s], bytes))
                fail_msg("%s: the state of sequence %zu differs after piece %zu", name, s, p);
        arrays_drop(&expected);
        arrays_drop(&found);
    }
    for (size_t i = 0; i < 6; i++) free(states[i / 3][i % 3]);
    bo_attention_destroy(attention);
}

static void states_move(void **state)
{
    (void)state;
    for (int way = 0; way < 4; way++) {
        const bo_element element = way / 2 ? BO_ELEMENT_FLOAT32 : BO_ELEMENT_BFLOAT16;
        const bool first = way % 2;
        check_states("states", (bo_attention_desc){HEADS(4, 2, 64, 64), .causal = true, .capacity = 200}, first,
                     element);
        check_states("states, a window", (bo_attention_desc){HEADS(2, 2, 64, 64), .causal = true, .window = 40}, first,
                     element);
        check_states("states, many heads", (bo_attention_desc){HEADS(6, 1, 16, 24), .causal = true, .window = 130},
                     first, element);
        check_states("states, odd heads", (bo_attention_desc){HEADS(2, 1, 7, 5), .causal = true, .window = 33}, first,
                     element);
        check_states("states, large heads", (bo_attention_desc){HEADS(2, 1, 128, 128), .causal = true}, first, element);
        check_states("states, a power",
                     (bo_attention_desc){.kind = BO_ATTENTION_POWER, HEADS(2, 1, 8, 8), .causal = true}, first,
                     element);
        check_states("states, huge heads", (bo_attention_desc){HEADS(1, 1, 130, 140), .causal = true}, first, element);
    }
}

/* Cross attention that leaves the source in states, then queries that read them. */
static void sources_stay_in_states(void **state)
{
    (void)state;
    const trial read = {.name = "a source",
                        .desc = {HEADS(4, 2, 64, 64), .capacity = 200},
                        .sequences = 2,
                        .lengths = {3, 1},
                        .key_lengths = {1, 150},
                        .cross = true};
    const trial queries[] = {
        {.name = "queries", .desc = read.desc, .sequences = 2, .lengths = {80, 2}, .cross = true, .queries_only = true},
        {.name = "a step", .desc = read.desc, .sequences = 2, .lengths = {1, 1}, .cross = true, .queries_only = true}};
    bo_attention *attention = NULL;
    assert_ok(host, bo_attention_create(host, &read.desc, &attention));
    const size_t bytes = bo_attention_state_bytes(attention);
    void *states[2][2];
    for (size_t i = 0; i < 4; i++) {
        states[i / 2][i % 2] = aligned_alloc(64, (bytes + 63) / 64 * 64);
        memset(states[i / 2][i % 2], 0x11, bytes); /* overwritten */
        assert_ok(host, bo_attention_state_init(host, attention, states[0][i % 2]));
    }
    const trial *calls[] = {&read, &queries[0], &queries[1]};
    for (size_t c = 0; c < 3; c++) {
        arrays expected = arrays_make(calls[c], attention, 50 + c), found = arrays_make(calls[c], attention, 50 + c);
        run(host, BO_ELEMENT_FLOAT32, calls[c], attention, &expected, states[0]);
        run(device, BO_ELEMENT_BFLOAT16, calls[c], attention, &found, states[1]);
        close_to(calls[c]->name, "out", BO_ELEMENT_BFLOAT16, found.out, expected.out, found.rows[3] * found.columns[3]);
        for (size_t s = 0; s < 2; s++) assert_memory_equal(states[0][s], states[1][s], bytes);
        arrays_drop(&expected);
        arrays_drop(&found);
    }
    for (size_t i = 0; i < 4; i++) free(states[i / 2][i % 2]);
    bo_attention_destroy(attention);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(as_on_the_cpu), cmocka_unit_test(states_move),
                                       cmocka_unit_test(sources_stay_in_states)};
    host = test_context(1);
    device = test_context(1);
    if (bo_context_use_device(device, "cuda") != BO_OK) {
        print_message("skipped: %s\n", bo_context_error(device));
        return 77;
    }
    const int failures = cmocka_run_group_tests(tests, NULL, NULL);
    bo_context_destroy(host);
    bo_context_destroy(device);
    return failures;
}
