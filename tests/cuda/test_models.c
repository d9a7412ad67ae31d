/* Models on a device and on the CPU: equal logits in sessions and lanes, for every mixer that the device supports;
 * states that move between devices; weights in narrow storage types. */
#include "model/lanes.h"
#include <bochner/devices.h>
#include <bochner/tasks.h>
#include "nn/enums.h"
#include "model/models.h"

enum { FIRST = 11, STEPS = 5, ALL = FIRST + STEPS, LANES = 3 };

static bo_context *host, *device;

/* The same model on both. Returns false if the device lacks an operation of the model; the context has the message. */
static bool make_pair(const bo_model_desc *desc, bo_model **on_host, bo_model **on_device)
{
    const bo_status status = bo_model_create(device, desc, NULL, on_device);
    if (status == BO_UNSUPPORTED) return false;
    assert_ok(device, status);
    *on_host = test_model(host, desc, NULL);
    assert_ok(device, bo_model_adopt(device, *on_device, *on_host, NULL));
    return true;
}

/* Models are created without running: unsupported attention may be detected when a graph is created. */
static bool is_refused(const bo_model *model)
{
    bo_model_graph graph;
    const bo_status status =
        bo_model_graph_create(device, model, &(bo_model_graph_desc){.rows = 1, .outputs = true, .chosen = 1}, &graph);
    if (status == BO_OK) bo_model_graph_destroy(&graph);
    return status == BO_UNSUPPORTED;
}

static void compare(const char *what, const char *kind, size_t step, const float *found, const float *expected,
                    double tolerance)
{
    for (size_t i = 0; i < VOCAB; i++)
        if (!(fabs((double)found[i] - (double)expected[i]) <= tolerance))
            fail_msg("%s: %s: step %zu, logit %zu: %g, expected %g", kind, what, step, i, (double)found[i],
                     (double)expected[i]);
}

/* Processes the first tokens in one call and the remaining ones one at a time. */
static void read_steps(bo_context *context, bo_session *session, const int32_t *ids, float (*logits)[VOCAB])
{
    assert_ok(context, bo_session_feed(context, session, ids, FIRST, NULL));
    for (size_t t = 0; t < STEPS; t++)
        assert_ok(context, bo_session_feed(context, session, ids + FIRST + t, 1, logits[t]));
}

static void check_session(const char *kind, const bo_model *on_host, const bo_model *on_device, const int32_t *ids,
                          float (*expected)[VOCAB], double tolerance)
{
    static float found[STEPS][VOCAB];
    bo_session *a, *b;
    assert_ok(host, bo_session_create(host, on_host, NULL, &a));
    assert_ok(device, bo_session_create(device, on_device, NULL, &b));
    read_steps(host, a, ids, expected);
    for (int again = 0; again < 2; again++) {
        read_steps(device, b, ids, found);
        for (size_t t = 0; t < STEPS; t++) compare("session", kind, t, found[t], expected[t], tolerance);
        assert_ok(device, bo_session_reset(device, b));
    }
    bo_session_destroy(a);
    bo_session_destroy(b);
}

/* Reads the beginning on one device and the rest on the other. */
static void check_crossing(const char *kind, bo_context *from, const bo_model *source, bo_context *to,
                           const bo_model *target, const int32_t *ids, float (*expected)[VOCAB])
{
    bo_session *a, *b;
    void *bytes;
    size_t size;
    float logits[VOCAB];
    assert_ok(from, bo_session_create(from, source, &(bo_session_desc){.capacity = CONTEXT}, &a));
    assert_ok(to, bo_session_create(to, target, &(bo_session_desc){.capacity = 2 * CONTEXT}, &b));
    assert_ok(from, bo_session_feed(from, a, ids, FIRST, NULL));
    assert_ok(from, bo_session_save(from, a, &(bo_sink){.bytes = &bytes, .size = &size}));
    assert_ok(to, bo_session_load(to, b, &(bo_source){.bytes = bytes, .size = size}));
    bo_free(bytes);
    assert_int_equal(bo_session_tokens(b), FIRST);
    for (size_t t = 0; t < STEPS; t++) {
        assert_ok(to, bo_session_feed(to, b, ids + FIRST + t, 1, logits));
        compare("a state of the other device", kind, t, logits, expected[t], 2e-4);
    }
    bo_session_destroy(a);
    bo_session_destroy(b);
}

/* Lane 1 reads other tokens; before the last step, it is replaced by a copy of lane 0, and lane 2 is exchanged. */
static void check_lanes(const char *kind, const bo_model *model, const int32_t *ids, float (*expected)[VOCAB])
{
    static float logits[LANES * VOCAB];
    static const size_t from[LANES] = {2, 0, 0};
    bo_lanes *lanes;
    assert_ok(device, bo_lanes_create(device, model, &(bo_lanes_desc){.count = LANES}, &lanes));
    for (size_t l = 0; l < LANES; l++) assert_ok(device, bo_lanes_feed(device, lanes, l, ids + (l == 1), FIRST, NULL));
    for (size_t t = 0; t < STEPS; t++) {
        const bool last = t + 1 == STEPS;
        int32_t next[LANES];
        for (size_t l = 0; l < LANES; l++) next[l] = ids[FIRST + t];
        if (last) assert_ok(device, bo_lanes_choose(device, lanes, LANES, from));
        assert_ok(device, bo_lanes_step(device, lanes, LANES, next, logits));
        for (size_t l = 0; l < LANES; l++)
            if (last || l != 1) compare("lanes", kind, t, logits + l * VOCAB, expected[t], 2e-4);
    }
    bo_lanes_destroy(lanes);
}

static bool check_kind(const char *kind)
{
    static float expected[STEPS][VOCAB];
    const bo_model_desc desc = test_desc(kind);
    bo_model *on_host, *on_device;
    int32_t ids[ALL];
    test_tokens(ALL, ids);
    if (!make_pair(&desc, &on_host, &on_device)) return false;
    const bool supported = !is_refused(on_device);
    if (supported) {
        check_session(kind, on_host, on_device, ids, expected, 2e-4);
        check_crossing(kind, host, on_host, device, on_device, ids, expected);
        check_crossing(kind, device, on_device, host, on_host, ids, expected);
        check_lanes(kind, on_device, ids, expected);
    }
    bo_model_destroy(on_host);
    bo_model_destroy(on_device);
    return supported;
}

static void of_every_mixer(void **state)
{
    (void)state;
    static const char *const expected[] = {"softmax", "rfa-gate", "favor"};
    size_t found = 0;
    for (size_t i = 0; test_kind(i); i++) {
        const char *kind = test_kind(i);
        bool supported = check_kind(kind);
        if (!supported) print_message("%s: %s\n", kind, bo_context_error(device));
        for (size_t e = 0; e < sizeof expected / sizeof *expected; e++)
            found += supported && test_same_word(expected[e], kind);
    }
    assert_int_equal(found, sizeof expected / sizeof *expected);
}

static void weights_in_fewer_bits(void **state)
{
    (void)state;
    static float expected[STEPS][VOCAB];
    static const bo_storage storages[] = {BO_STORAGE_BFLOAT16, BO_STORAGE_INT8, BO_STORAGE_INT4};
    const bo_model_desc desc = test_desc("softmax");
    int32_t ids[ALL];
    test_tokens(ALL, ids);
    for (size_t s = 0; s < sizeof storages / sizeof *storages; s++) {
        const char *name = bo_storage_name(storages[s]);
        bo_model *on_host, *on_device;
        assert_true(make_pair(&desc, &on_host, &on_device));
        assert_ok(host, bo_model_set_storage(host, on_host, storages[s]));
        const bo_status status = bo_model_set_storage(device, on_device, storages[s]);
        const bool supported = status == BO_OK && !is_refused(on_device);
        if (!supported) print_message("%s: %s\n", name, bo_context_error(device));
        if (storages[s] == BO_STORAGE_BFLOAT16) assert_true(supported);
        if (supported) check_session(name, on_host, on_device, ids, expected, 2e-3);
        bo_model_destroy(on_host);
        bo_model_destroy(on_device);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(of_every_mixer),
        cmocka_unit_test(weights_in_fewer_bits),
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
