/* Sums over processes with one GPU each: one rank, as available on a host with one GPU. */
#include <bochner/devices.h>
#include "testing.h"
#include "backend/backend.h"

static bo_context *context;
static bo_device *device;

static void one_rank_keeps_its_numbers(void **state)
{
    (void)state;
    unsigned char id[BO_RANK_ID];
    float numbers[1000], found[1000];
    if (bo_device_rank_id(context, device, id) != BO_OK) {
        print_message("skipped: %s\n", bo_context_error(context));
        skip();
    }
    for (size_t i = 0; i < 1000; i++) numbers[i] = (float)i * 0.37f - 100;
    void *memory = bo_buffer_allocate(context, device, sizeof numbers, "numbers");
    assert_non_null(memory);
    assert_ok(context, bo_device_join(context, device, id, 0, 1));
    assert_ok(context, bo_buffer_write(context, device, memory, numbers, sizeof numbers));
    assert_ok(context, bo_device_sum(context, device, memory, 1000));
    assert_ok(context, bo_buffer_read(context, device, found, memory, sizeof found));
    assert_memory_equal(found, numbers, sizeof numbers);
    bo_buffer_release(device, memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(one_rank_keeps_its_numbers)};
    context = test_context(1);
    if (bo_context_use_device(context, "cuda") != BO_OK) {
        print_message("skipped: %s\n", bo_context_error(context));
        return 77;
    }
    device = bo_device_of(context);
    const int failures = cmocka_run_group_tests(tests, NULL, NULL);
    bo_context_destroy(context);
    return failures;
}
