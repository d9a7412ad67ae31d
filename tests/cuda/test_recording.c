/* Runs of graphs on a device: the first executes every call, the second records them, later ones repeat the recording,
 * with other inputs, seeds and lengths. */
#include <bochner/devices.h>
#include "testing.h"
#include "tape/internal.h"

enum { ROWS = 6, COLUMNS = 5, ALL = ROWS * COLUMNS, RUNS = 5 };

static bo_context *host, *device;

static void fill(float *x, size_t count, uint64_t seed)
{
    bo_rng rng = bo_rng_make(seed, 3);
    for (size_t i = 0; i < count; i++) x[i] = (float)bo_rng_normal(&rng);
}

/* A graph and its weights. */
typedef struct fixture {
    bo_context *context;
    bo_weights *weights;
    bo_graph *graph;
    bo_value x, y;
} fixture;

static fixture begin(bo_context *context)
{
    fixture f = {.context = context};
    assert_ok(context, bo_weights_create(context, &f.weights));
    assert_ok(context, bo_graph_create(context, f.weights, &f.graph));
    f.x = bo_graph_input(f.graph, "x", BO_ELEMENT_FLOAT32, ROWS, COLUMNS);
    return f;
}

static void compile(fixture *f)
{
    bo_graph_keep(f->graph, f->y);
    assert_ok(f->context, bo_graph_compile(f->context, f->graph, &(bo_graph_compile_desc){0}));
    assert_ok(f->context, bo_weights_allocate(f->context, f->weights, false));
    assert_ok(f->context, bo_graph_allocate(f->context, f->graph));
}

static void run(fixture *f, const bo_graph_pass *pass, const float *x, float *y)
{
    assert_ok(f->context, bo_graph_write(f->context, f->graph, f->x, x));
    assert_ok(f->context, bo_graph_run(f->context, f->graph, pass));
    assert_ok(f->context, bo_graph_read(f->context, f->graph, f->y, y));
}

static void end(fixture *f)
{
    bo_graph_destroy(f->graph);
    bo_weights_destroy(f->weights);
}

static size_t recordings(const bo_graph *graph)
{
    size_t count = 0;
    for (size_t i = 0; i < BO_RECORDED_RUNS; i++) count += graph->recorded[i].recording != NULL;
    return count;
}

static void repeated_with_other_inputs(void **state)
{
    (void)state;
    float x[ALL], y[ALL];
    fixture f = begin(device);
    f.y = bo_graph_add(f.graph, bo_graph_add(f.graph, f.x, f.x), f.x);
    compile(&f);
    const void *recording = NULL;
    for (uint64_t i = 0; i < RUNS; i++) {
        fill(x, ALL, i);
        run(&f, NULL, x, y);
        for (size_t j = 0; j < ALL; j++) assert_true(y[j] == (x[j] + x[j]) + x[j]);
        assert_int_equal(recordings(f.graph), i > 0);
        if (i == 1) recording = f.graph->recorded[0].recording;
        if (i > 1) assert_ptr_equal(f.graph->recorded[0].recording, recording);
    }
    end(&f);
}

/* Passes of several kinds, more than the cache stores: each is recorded when it is repeated, and the oldest recording
 * is dropped. */
static void kinds_of_passes_are_recorded_apart(void **state)
{
    (void)state;
    float x[ALL], y[ALL];
    fixture f = begin(device);
    f.y = bo_graph_add(f.graph, f.x, f.x);
    compile(&f);
    for (size_t i = 0; i < 3 * RUNS; i++) {
        size_t lengths[ROWS], sequences = 1 + i % ROWS;
        for (size_t s = 0; s < sequences; s++) lengths[s] = s ? 1 : ROWS - sequences + 1;
        fill(x, ALL, i);
        run(&f, &(bo_graph_pass){.sequences = sequences, .lengths = lengths, .training = i % 2}, x, y);
        for (size_t j = 0; j < ALL; j++) assert_true(y[j] == x[j] + x[j]);
        assert_true(recordings(f.graph) <= BO_RECORDED_RUNS);
    }
    end(&f);
}

/* A replay reads the seed: every run drops the same elements as the CPU with that seed. */
static void seeds_differ_between_repetitions(void **state)
{
    (void)state;
    float x[ALL], on_host[ALL], on_device[ALL], before[ALL] = {0};
    if (!bo_backend_of(bo_device_of(device))->ops[BO_OPERATION_DROPOUT]) skip();
    fixture f[2];
    for (int i = 0; i < 2; i++) {
        f[i] = begin(i ? device : host);
        f[i].y = bo_graph_one(f[i].graph, BO_OPERATION_DROPOUT, &(bo_dropout_attributes){.rate = 0.5f}, 1, &f[i].x);
        compile(&f[i]);
    }
    fill(x, ALL, 1);
    for (uint64_t i = 0; i < RUNS; i++) {
        const bo_graph_pass pass = {.training = true, .seed = 100 + i};
        run(&f[0], &pass, x, on_host);
        run(&f[1], &pass, x, on_device);
        for (size_t j = 0; j < ALL; j++) assert_close((double)on_device[j], (double)on_host[j], 1e-6);
        assert_memory_not_equal(on_device, before, sizeof before);
        memcpy(before, on_device, sizeof before);
    }
    assert_int_equal(recordings(f[1].graph), 1);
    for (int i = 0; i < 2; i++) end(&f[i]);
}

static void segments_are_refused(void **state)
{
    (void)state;
    void *final = NULL;
    float x[ALL];
    fixture f = begin(device);
    f.y = bo_graph_add(f.graph, f.x, f.x);
    compile(&f);
    fill(x, ALL, 1);
    assert_ok(device, bo_graph_write(device, f.graph, f.x, x));
    assert_fails(device, BO_UNSUPPORTED, "final states (consecutive segments) is not supported on cuda",
                 bo_graph_run(device, f.graph, &(bo_graph_pass){.final_states = &final}));
    end(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(repeated_with_other_inputs),
        cmocka_unit_test(kinds_of_passes_are_recorded_apart),
        cmocka_unit_test(seeds_differ_between_repetitions),
        cmocka_unit_test(segments_are_refused),
    };
    assert_int_equal(bo_context_create(NULL, &host), BO_OK);
    assert_int_equal(bo_context_create(NULL, &device), BO_OK);
    if (bo_context_use_device(device, "cuda") != BO_OK) {
        print_message("skipped: %s\n", bo_context_error(device));
        return 77;
    }
    const int failures = cmocka_run_group_tests(tests, NULL, NULL);
    bo_context_destroy(device);
    bo_context_destroy(host);
    return failures;
}
