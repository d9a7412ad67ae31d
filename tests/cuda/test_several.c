/* Several devices in one process: contexts on the CPU and on two GPUs side by side, what belongs to which of them, exhausted
 * memory, reads beside other work, and what CUDA has as the current device. */
#include <bochner/attention.h>
#include <bochner/devices.h>
#include <bochner/graph.h>
#include <dlfcn.h>
#include <pthread.h>
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

/* The test is skipped on a machine with one GPU. */
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
    assert_ok(context, bo_attention_forward(context, attention, &shape, &in, NULL, NULL, out, NULL));
}

/* ---- one process, several devices -------------------------------------------------------------------------------- */

/* One attention serves all contexts; GPUs of one kind give the same bits. */
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
                 bo_attention_forward(second, attention, &shape, &in, NULL, NULL, out, NULL));
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

/* Another attention at the address of a destroyed one is not taken for it. */
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

/* ---- reads beside other work ------------------------------------------------------------------------------------- */

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
    for (int i = 0; i < 20; i++) { /* the reader begins some time after its start */
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

/* Neither a context of the caller nor its absence changes. */
static void the_current_device_stays(void **state)
{
    (void)state;
    bo_context *gpu = context_on("cuda");
    int (*get)(void **), (*set)(void *);
    *(void **)&get = driver("cuCtxGetCurrent"), *(void **)&set = driver("cuCtxSetCurrent");
    int (*retain)(void **, int);
    *(void **)&retain = driver("cuDevicePrimaryCtxRetain");
    if (emulated(gpu) || !get || !set || !retain) {
        bo_context_destroy(gpu);
        skip();
    }
    void *before, *own;
    assert_int_equal(retain(&own, 0), 0);
    for (int i = 0; i < 2; i++) {
        float x[COUNT], out[COUNT];
        fill(x);
        assert_int_equal(set(i ? own : NULL), 0);
        bo_context *other = context_on("cuda");
        bo_attention *attention = attention_of(other);
        attend(other, attention, x, out);
        bo_attention_destroy(attention);
        bo_context_destroy(other);
        assert_int_equal(get(&before), 0);
        assert_ptr_equal(before, i ? own : NULL);
    }
    set(NULL);
    bo_context_destroy(gpu);
}

/* Work of a call goes to the stream of the caller: in the emulator, a counter. */
static void calls_use_the_stream_of_the_caller(void **state)
{
    (void)state;
    bo_context *gpu = context_on("cuda");
    bo_attention *attention = attention_of(gpu);
    float x[COUNT], expected[COUNT], out[COUNT];
    size_t counter = 0, tape, bytes;
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
        void *own;
        assert_int_equal(retain(&own, 0), 0);
        assert_int_equal(set(own), 0);
        assert_int_equal(create(&stream, 1), 0);
    }
    assert_ok(gpu, bo_device_allocate(gpu, sizeof x, &rows));
    assert_ok(gpu, bo_device_allocate(gpu, sizeof out, &result));
    assert_ok(gpu, bo_device_write(gpu, rows, x, sizeof x));
    assert_ok(gpu, bo_device_synchronize(gpu)); /* the stream of the caller does not wait for that of the context */
    bo_attention_call call = {.sequences = 1, .tokens = TOKENS, .stream = stream};
    const bo_attention_array array = {
        .data = rows, .sequence = COUNT, .token = DIM, .head = TOKENS * DIM}; /* heads first, as `shape` */
    call.q = call.k = call.v = call.out = array;
    call.out.data = result;
    assert_ok(gpu, bo_attention_call_bytes(gpu, attention, &call, false, &tape, &bytes));
    assert_int_equal(tape, 0);
    assert_ok(gpu, bo_device_allocate(gpu, bytes, &workspace));
    call.workspace = workspace;
    assert_ok(gpu, bo_device_synchronize(gpu));
    assert_ok(gpu, bo_attention_call_forward(gpu, attention, &call));
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
    setenv("BOCHNER_EMULATED_GPUS", "2", 1); /* a machine has what it has */
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
