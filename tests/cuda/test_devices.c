/* Selection of the device of a context: names, errors, and device properties. */
#include <bochner/devices.h>
#include "testing.h"
#include "backend/backend.h"

static bo_context *context;

static void devices_are_described(void **state)
{
    (void)state;
    size_t count = 0;
    bo_device_info device;
    const char *plugin;
    assert_ok(context, bo_device_count(context, &count, &plugin));
    assert_true(count > 0);
    for (size_t i = 0; i < count; i++) {
        assert_ok(context, bo_device_describe(context, i, &device));
        assert_true(*device.name && device.major >= 8 && device.minor >= 0 && device.processors > 0);
        assert_true(device.bytes > 0 && device.free_bytes <= device.bytes);
    }
    assert_fails(context, BO_INVALID, "does not exist: this host has", bo_device_describe(context, count, &device));
    assert_non_null(plugin);
}

static void names_choose_devices(void **state)
{
    (void)state;
    static const char *const names[][2] = {{"cuda", "cuda:0"}, {"cpu", "cpu"},     {"cuda:0", "cuda:0"},
                                           {"cpu", "cpu"},     {"auto", "cuda:0"}, {"cpu", "cpu"}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        assert_ok(context, bo_context_use_device(context, names[i][0]));
        assert_string_equal(bo_context_describe(context)->device, names[i][1]);
        assert_string_equal(bo_device_name(bo_device_of(context)), names[i][1]);
    }
}

/* The device is unchanged. */
static void wrong_names_are_refused(void **state)
{
    (void)state;
    static const char *const unknown[] = {"", "gpu", "cuda:", "cuda:x", "cuda:1x", "cuda0", "CUDA", "cuda:-1"};
    for (size_t i = 0; i < sizeof unknown / sizeof *unknown; i++)
        assert_fails(context, BO_INVALID, "is unknown: expected cpu, cuda, cuda:N or auto",
                     bo_context_use_device(context, unknown[i]));
    assert_ok(context, bo_context_use_device(context, "cuda"));
    assert_fails(context, BO_INVALID, "cuda:1000", bo_context_use_device(context, "cuda:1000"));
    assert_string_equal(bo_context_describe(context)->device, "cuda:0");
}

static void memory_is_of_the_device(void **state)
{
    (void)state;
    bo_memory_bound limit, expected;
    bo_context_memory(NULL, &expected);
    assert_ok(context, bo_context_use_device(context, "cpu"));
    bo_context_memory(context, &limit);
    assert_string_equal(limit.source, expected.source);
    assert_ok(context, bo_context_use_device(context, "cuda"));
    bo_context_memory(context, &limit);
    assert_string_equal(limit.source, "free memory of the GPU");
    assert_true(limit.bytes > 0);
}

/* A request beyond the device memory: the message states the requested bytes, and later requests succeed. */
static void too_much_memory_is_refused(void **state)
{
    (void)state;
    assert_ok(context, bo_context_use_device(context, "cuda"));
    bo_device *device = bo_device_of(context);
    assert_null(bo_buffer_allocate(context, device, (size_t)1 << 45, "a large array"));
    assert_non_null(strstr(bo_context_error(context), "out of memory of the GPU: a large array needs 35184372088832"));
    void *memory = bo_buffer_allocate(context, device, 1000, "a small array");
    assert_non_null(memory);
    bo_buffer_release(device, memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(devices_are_described),      cmocka_unit_test(names_choose_devices),
        cmocka_unit_test(wrong_names_are_refused),    cmocka_unit_test(memory_is_of_the_device),
        cmocka_unit_test(too_much_memory_is_refused),
    };
    assert_int_equal(bo_context_create(NULL, &context), BO_OK);
    if (bo_context_use_device(context, "cuda") != BO_OK) {
        print_message("skipped: %s\n", bo_context_error(context));
        return 77;
    }
    const int failures = cmocka_run_group_tests(tests, NULL, NULL);
    bo_context_destroy(context);
    return failures;
}
