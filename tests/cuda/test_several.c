/* Several devices in one process: contexts on the CPU and on two GPUs, ownership of objects, exhausted memory,
 * concurrent reads, and the current CUDA device. */
#include <bochner/devices.h>
#include <bochner/graph.h>
#include <dlfcn.h>
#include <pthread.h>
#include "attention/attention.h"
#include "device/internal.h"
#include "testing.h"

enum { HEADS = 2, DIM = 16, TOKENS = 50, COUNT = TOKENS * HEADS * DIM };

static bool emulated(bo_context *context)
{
    return bo_device_properties(bo_device_of(context))->emulated;
}

/* NULL: there is no such device. */
static bo_context *context_on(const char *device)
{
    bo_context *context;
    assert_int_equal(bo_context_create(&(bo_context_desc){.threads = 1}, &context), BO_OK);
    if (bo_context_use_device(context, device) == BO_OK) return context;
    bo_context_destroy(context);
    return NULL;
}

/* The test is skipped on a host with one GPU. */
static void require_two(void)
{
    bo_context *second = context_on("cuda:1");
    if (!second) skip();
    bo_context_destroy(second);
}

static bo_attention *attention_of(bo_context *context)
{
    bo_attention *attention;
    const bo_attention_desc desc = {.kind = BO_ATTENTION_FAVOR,
                                    .heads = HEADS,
                                    .dim = DIM,
                                    .causal = true,
                                    .features = {.features = 32, .seed = 1}};
    assert_ok(context, bo_attention_create(context, &desc, &attention));
    return attention;
}

static const bo_attention_shape shape = {.sequences = 1, .tokens = TOKENS};

static void fill(float *x)
{
    for (size_t i = 0; i < COUNT; i++) x[i] = (float)((i * 2654435761u >> 9) % 1000) / 1000 - 0.5F;
}

static void attend(bo_context *context, const bo_attention *attention, const float *x, float *out)
{
    const bo_attention_inputs in = {.q = x, .k = x, .v = x};
    assert_ok(context, bo_attention_forward_arrays(context, attention, &shape, &in, NULL, NULL, out, NULL));
}

/* ---- one process, several devices -------------------------------------------------------------------------------- */

/* One attention serves all contexts; GPUs of one model have bitwise equal results. */
static void contexts_work_side_by_side(void **state)
{
    (void)state;
    require_two();
    bo_context *contexts[] = {context_on("cpu"), context_on("cuda:0"), context_on("cuda:1"), context_on("cuda:0")};
    float x[COUNT], out[4][COUNT];
    fill(x);
    bo_attention *attention = attention_of(contexts[0]);
    for (int round = 0; round < 2; round++) {
        for (size_t i = 0; i < 4; i++) attend(contexts[i], attention, x, out[i]);
        assert_memory_equal(out[1], out[2], sizeof out[1]);
        assert_memory_equal(out[1], out[3], sizeof out[1]);
        for (size_t i = 0; i < COUNT; i++) assert_close(out[1][i], out[0][i], 1e-4);
        assert_ok(contexts[1], bo_attention_redraw(contexts[1], attention, 3)); /* all copies are replaced */
    }
    bo_attention_destroy(attention);
    for (size_t i = 0; i < 4; i++) bo_context_destroy(contexts[i]);
}

static void arrays_and_weights_belong_to_one_device(void **state)
{
    (void)state;
    require_two();
    bo_context *first = context_on("cuda:0"), *second = context_on("cuda:1"), *cpu = context_on("cpu");
    bo_attention *attention = attention_of(cpu);
    bo_weights *weights;
    bo_graph *graph;
    void *memory;
    float out[COUNT];
    assert_ok(first, bo_device_allocate(first, sizeof out, &memory));
    const bo_attention_inputs in = {.q = memory, .k = memory, .v = memory};
    assert_fails(second, BO_INVALID, "an array is in the memory of cuda:0, but the context computes on cuda:1",
                 bo_attention_forward_arrays(second, attention, &shape, &in, NULL, NULL, out, NULL));
    assert_ok(first, bo_weights_create(first, &weights));
    assert_fails(second, BO_INVALID,
                 "a set of weights in the memory of cuda:0 cannot be used by a context that computes on cuda:1",
                 bo_graph_create(second, weights, &graph));
    assert_fails(cpu, BO_INVALID, "cannot be used by a context that computes on cpu",
                 bo_graph_create(cpu, weights, &graph));
    bo_weights_destroy(weights);
    bo_device_free(first, memory);
    bo_attention_destroy(attention);
    bo_context_destroy(first), bo_context_destroy(second), bo_context_destroy(cpu);
}

/* ---- ownership --------------------------------------------------------------------------------------------------- */

/* A GPU is closed with its last user. */
static void copies_are_freed_with_their_owner(void **state)
{
    (void)state;
    float x[COUNT], out[COUNT], again[COUNT];
    fill(x);
    for (int first = 0; first < 2; first++) {
        bo_context *gpu = context_on("cuda"), *cpu = context_on("cpu");
        bo_attention *attention = attention_of(first ? gpu : cpu);
        attend(gpu, attention, x, first ? again : out);
        if (first) bo_context_destroy(gpu); /* the attention keeps the GPU open */
        assert_int_equal(bo_devices_open(), 1);
        bo_attention_destroy(attention);
        if (!first) bo_context_destroy(gpu);
        assert_int_equal(bo_devices_open(), 0);
        bo_context_destroy(cpu);
    }
    assert_memory_equal(out, again, sizeof out);
}

/* A new attention at the address of a destroyed one is not confused with it. */
static void addresses_that_return_are_not_confused(void **state)
{
    (void)state;
    bo_context *gpu = context_on("cuda"), *cpu = context_on("cpu");
    float x[COUNT], expected[COUNT], out[COUNT];
    fill(x);
    for (uint64_t seed = 1; seed < 6; seed++) {
        const bo_attention_desc desc = {.kind = BO_ATTENTION_FAVOR,
                                        .heads = HEADS,
                                        .dim = DIM,
                                        .causal = true,
                                        .features = {.features = 32, .seed = seed}};
        bo_attention *attention;
        assert_ok(gpu, bo_attention_create(gpu, &desc, &attention));
        attend(cpu, attention, x, expected);
        attend(gpu, attention, x, out);
        for (size_t i = 0; i < COUNT; i++) assert_close(out[i], expected[i], 1e-4);
        bo_attention_destroy(attention);
    }
    bo_context_destroy(gpu), bo_context_destroy(cpu);
}

/* ---- exhausted memory -------------------------------------------------------------------------------------------- */

static void exhausted_memory_loses_nothing(void **state)
{
    (void)state;
    bo_context *gpu = context_on("cuda");
    if (!emulated(gpu)) {
        bo_context_destroy(gpu);
        skip();
    }
    bo_attention *attention = attention_of(gpu);
    float x[COUNT], expected[COUNT], out[COUNT];
    fill(x);
    const bo_attention_inputs in = {.q = x, .k = x, .v = x};
    const size_t bytes = bo_attention_state_bytes(attention);
    void *memory = aligned_alloc(64, (bytes + 63) / 64 * 64), *before = malloc(bytes);
    assert_ok(gpu, bo_attention_state_init(gpu, attention, memory));
    attend(gpu, attention, x, expected);
    memcpy(before, memory, bytes);
    int refused = 0;
    for (size_t limit = 4096; limit < (size_t)1 << 24; limit *= 2) {
        char text[32];
        snprintf(text, sizeof text, "%zu", limit);
        setenv("BOCHNER_EMULATED_BYTES", text, 1);
        const bo_status status = bo_attention_extend(gpu, attention, &shape, &in, &memory, out);
        if (status == BO_OK) break;
        refused++;
        assert_int_equal(status, BO_MEMORY);
        assert_non_null(strstr(bo_context_error(gpu), "out of memory of the GPU"));
        assert_memory_equal(memory, before, bytes);
    }
    unsetenv("BOCHNER_EMULATED_BYTES");
    assert_true(refused > 2);
    assert_memory_equal(out, expected, sizeof out);
    assert_int_equal(bo_attention_state_tokens(memory), TOKENS);
    free(memory), free(before);
    bo_attention_destroy(attention);
    bo_context_destroy(gpu);
}

/* ---- reads concurrent with other work
 * ------------------------------------------------------------------------------------- */

static void *read_slowly(void *arg)
{
    bo_context *gpu = context_on("cuda");
    char byte;
    assert_ok(gpu, bo_device_read(gpu, &byte, arg, 1));
    bo_context_destroy(gpu);
    return NULL;
}

/* While one thread waits for a result, another one submits work. */
static void reads_do_not_hold_the_device(void **state)
{
    (void)state;
    bo_context *gpu = context_on("cuda");
    pthread_t reader;
    void *memory;
    if (!emulated(gpu)) {
        bo_context_destroy(gpu);
        skip();
    }
    assert_ok(gpu, bo_device_allocate(gpu, 64, &memory));
    setenv("BOCHNER_EMULATED_READ_MS", "2000", 1);
    assert_int_equal(pthread_create(&reader, NULL, read_slowly, memory), 0);
    double fastest = INFINITY;
    for (int i = 0; i < 20; i++) { /* the reader starts with a delay */
        const double start = bo_seconds();
        assert_ok(gpu, bo_device_copy(gpu, (char *)memory + 32, memory, 8));
        fastest = fmin(fastest, bo_seconds() - start);
        if (i == 10) nanosleep(&(struct timespec){.tv_nsec = 300 * 1000 * 1000}, NULL);
        if (i > 10) assert_true(bo_seconds() - start < 1);
    }
    assert_true(fastest < 1);
    unsetenv("BOCHNER_EMULATED_READ_MS");
    pthread_join(reader, NULL);
    bo_device_free(gpu, memory);
    bo_context_destroy(gpu);
}

/* ---- CUDA of the caller ------------------------------------------------------------------------------------------ */

static void *driver(const char *name)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    return library ? dlsym(library, name) : NULL;
}

/* The emulator's functions have the same names. */
static void *emulated_driver(const char *name)
{
    void *library = dlopen(getenv("BOCHNER_CUDA"), RTLD_NOW | RTLD_LOCAL);
    return library ? dlsym(library, name) : NULL;
}

/* The current CUDA context of this thread. */
static struct {
    int (*get)(void **), (*set)(void *), (*retain)(void **, int);
    void *expected;
} caller;

static void expect_current(const char *call)
{
    void *found;
    assert_int_equal(caller.get(&found), 0);
    if (found != caller.expected) fail_msg("%s changes the current context", call);
}

#define STAYS(call)                                                                                                    \
    do {                                                                                                               \
        assert_ok(gpu, call);                                                                                          \
        expect_current(#call);                                                                                         \
    } while (0)

static void expect_failure(bo_status found, bo_status expected, const char *call)
{
    assert_int_equal(found, expected);
    expect_current(call);
}

/* Calls of attention on arrays of the device. */
static void expect_calls_stay(bo_context *gpu, const bo_attention *attention, void *rows, void *result)
{
    size_t tape, forward, backward, more;
    void *memory[2];
    bo_attention_call c = {.sequences = 1, .tokens = TOKENS, .layout = BO_LAYOUT_TOKENS_FIRST};
    c.q.data = c.k.data = c.v.data = c.dout.data = rows;
    c.out.data = c.dq.data = result;
    STAYS(bo_attention_call_bytes(gpu, attention, &c, false, &tape, &forward));
    STAYS(bo_attention_call_bytes(gpu, attention, &c, true, &more, &backward));
    STAYS(bo_device_allocate(gpu, tape, &memory[0]));
    STAYS(bo_device_allocate(gpu, forward > backward ? forward : backward, &memory[1]));
    c.tape = memory[0], c.workspace = memory[1];
    STAYS(bo_attention_forward(gpu, attention, &c));
    STAYS(bo_attention_backward(gpu, attention, &c));
    c.q.data = memory;
    expect_failure(bo_attention_forward(gpu, attention, &c), BO_INVALID, "bo_attention_forward");
    STAYS(bo_device_synchronize(gpu));
    for (int i = 0; i < 2; i++) bo_device_free(gpu, memory[i]);
    expect_current("bo_device_free");
}

/* A graph whose run is recorded and replayed. */
static void expect_runs_stay(bo_context *gpu, const float *x, float *y)
{
    bo_weights *weights;
    bo_graph *graph;
    STAYS(bo_weights_create(gpu, &weights));
    STAYS(bo_graph_create(gpu, weights, &graph));
    const bo_value in = bo_graph_input(graph, "x", BO_ELEMENT_FLOAT32, TOKENS, HEADS * DIM);
    const bo_value out = bo_graph_add(graph, in, in);
    bo_graph_keep(graph, out);
    STAYS(bo_graph_compile(gpu, graph, &(bo_graph_compile_desc){0}));
    STAYS(bo_weights_allocate(gpu, weights, false));
    STAYS(bo_graph_allocate(gpu, graph));
    for (int run = 0; run < 3; run++) {
        STAYS(bo_graph_write(gpu, graph, in, x));
        STAYS(bo_graph_run(gpu, graph, NULL));
        STAYS(bo_graph_read(gpu, graph, out, y));
    }
    bo_graph_destroy(graph);
    bo_weights_destroy(weights);
    expect_current("bo_graph_destroy");
}

/* Public calls of every kind, from opening a GPU to closing it. */
static void *expect_stays(void *device)
{
    float x[COUNT], out[COUNT];
    void *rows, *result;
    bo_context *gpu = context_on(device), *none;
    expect_current("bo_context_use_device");
    bo_attention *attention = attention_of(gpu);
    const size_t bytes = bo_attention_state_bytes(attention);
    void *state = aligned_alloc(64, (bytes + 63) / 64 * 64);
    const bo_attention_inputs in = {.q = x, .k = x, .v = x};
    fill(x);
    STAYS(bo_attention_forward_arrays(gpu, attention, &shape, &in, NULL, NULL, out, NULL));
    STAYS(bo_attention_state_init(gpu, attention, state));
    STAYS(bo_attention_extend(gpu, attention, &shape, &in, &state, out));
    STAYS(bo_attention_step(gpu, attention, 1, &in, &state, out));
    STAYS(bo_device_allocate(gpu, sizeof x, &rows));
    STAYS(bo_device_allocate(gpu, sizeof x, &result));
    STAYS(bo_device_write(gpu, rows, x, sizeof x));
    STAYS(bo_device_copy(gpu, result, rows, sizeof x));
    STAYS(bo_device_read(gpu, out, result, sizeof x));
    assert_memory_equal(out, x, sizeof x);
    expect_calls_stay(gpu, attention, rows, result);
    expect_runs_stay(gpu, x, out);
    void *much;
    expect_failure(bo_device_allocate(gpu, (size_t)1 << 50, &much), BO_MEMORY, "bo_device_allocate");
    none = context_on("cuda:77");
    assert_null(none);
    expect_current("bo_context_use_device");
    bo_device_free(gpu, rows), bo_device_free(gpu, result);
    bo_attention_destroy(attention);
    expect_current("bo_attention_destroy");
    bo_context_destroy(gpu);
    expect_current("bo_context_destroy");
    free(state);
    return NULL;
}

/* A thread starts without a current context. */
static void *expect_stays_in_thread(void *device)
{
    void *found;
    assert_int_equal(caller.get(&found), 0);
    assert_null(found);
    return expect_stays(device);
}

/* Neither a context of the caller, on this GPU or on another one, nor its absence changes. */
static void the_current_device_stays(void **state)
{
    (void)state;
    bo_context *gpu = context_on("cuda"), *second = context_on("cuda:1");
    void *(*const find)(const char *) = emulated(gpu) ? emulated_driver : driver;
    const int gpus = second ? 2 : 1;
    pthread_t thread;
    *(void **)&caller.get = find("cuCtxGetCurrent"), *(void **)&caller.set = find("cuCtxSetCurrent");
    *(void **)&caller.retain = find("cuDevicePrimaryCtxRetain");
    assert_true(caller.get && caller.set && caller.retain);
    if (second) bo_context_destroy(second); /* so that the test opens and closes the second GPU */
    for (int current = -1; current < gpus; current++) {
        caller.expected = NULL;
        if (current >= 0) assert_int_equal(caller.retain(&caller.expected, current), 0);
        assert_int_equal(caller.set(caller.expected), 0);
        expect_stays("cuda:0");
        if (gpus > 1) expect_stays("cuda:1");
    }
    assert_int_equal(caller.set(NULL), 0);
    caller.expected = NULL;
    assert_int_equal(pthread_create(&thread, NULL, expect_stays_in_thread, "cuda:0"), 0);
    pthread_join(thread, NULL);
    bo_context_destroy(gpu);
}

/* Work of a call goes to the stream of the caller: in the emulator, a counter. */
static void calls_use_the_stream_of_the_caller(void **state)
{
    (void)state;
    bo_context *gpu = context_on("cuda");
    bo_attention *attention = attention_of(gpu);
    float x[COUNT], expected[COUNT], out[COUNT];
    size_t counter = 0, bytes;
    void *stream = &counter, *rows, *result, *workspace;
    int (*create)(void **, unsigned), (*destroy)(void *), (*synchronize)(void *), (*retain)(void **, int),
        (*set)(void *);
    *(void **)&create = driver("cuStreamCreate"), *(void **)&destroy = driver("cuStreamDestroy_v2");
    *(void **)&synchronize = driver("cuStreamSynchronize"), *(void **)&retain = driver("cuDevicePrimaryCtxRetain");
    *(void **)&set = driver("cuCtxSetCurrent");
    const bool real = !emulated(gpu);
    fill(x);
    attend(gpu, attention, x, expected);
    if (real) {
        void *primary;
        assert_int_equal(retain(&primary, 0), 0);
        assert_int_equal(set(primary), 0);
        assert_int_equal(create(&stream, 1), 0);
    }
    assert_ok(gpu, bo_device_allocate(gpu, sizeof x, &rows));
    assert_ok(gpu, bo_device_allocate(gpu, sizeof out, &result));
    assert_ok(gpu, bo_device_write(gpu, rows, x, sizeof x));
    assert_ok(gpu,
              bo_device_synchronize(gpu)); /* the stream of the caller does not wait for the stream of the context */
    bo_attention_call call = {.sequences = 1, .tokens = TOKENS, .stream = stream};
    call.q.data = call.k.data = call.v.data = rows; /* heads first, as `shape` */
    call.out.data = result;
    assert_ok(gpu, bo_attention_call_bytes(gpu, attention, &call, false, NULL, &bytes));
    assert_ok(gpu, bo_device_allocate(gpu, bytes, &workspace));
    call.workspace = workspace;
    assert_ok(gpu, bo_device_synchronize(gpu));
    assert_ok(gpu, bo_attention_forward(gpu, attention, &call));
    if (real) assert_int_equal(synchronize(stream), 0);
    if (!real) assert_true(counter > 0);
    assert_ok(gpu, bo_device_read(gpu, out, result, sizeof out));
    assert_memory_equal(out, expected, sizeof out);
    if (real) destroy(stream);
    bo_device_free(gpu, rows), bo_device_free(gpu, result), bo_device_free(gpu, workspace);
    bo_attention_destroy(attention);
    bo_context_destroy(gpu);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(contexts_work_side_by_side),        cmocka_unit_test(arrays_and_weights_belong_to_one_device),
        cmocka_unit_test(copies_are_freed_with_their_owner), cmocka_unit_test(addresses_that_return_are_not_confused),
        cmocka_unit_test(exhausted_memory_loses_nothing),    cmocka_unit_test(reads_do_not_hold_the_device),
        cmocka_unit_test(the_current_device_stays),          cmocka_unit_test(calls_use_the_stream_of_the_caller),
    };
    setenv("BOCHNER_EMULATED_GPUS", "2", 1); /* no effect on a host with real GPUs */
    bo_context *gpu = context_on("cuda");
    if (!gpu) {
        print_message("skipped: no GPU\n");
        return 77;
    }
    bo_context_destroy(gpu);
    const int failures = cmocka_run_group_tests(tests, NULL, NULL);
    if (failures == 0 && bo_devices_open() != 0) print_error("a GPU is still open\n");
    return failures ? failures : (int)bo_devices_open();
}
