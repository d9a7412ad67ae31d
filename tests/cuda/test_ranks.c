/* Sums over processes with one GPU each: one rank, which is what a machine with one GPU can test. */
#include <bochner/devices.h>
#include "testing.h"
#include "backend/backend.h"

static bo_context *context;
static const bo_backend *backend;

static void one_rank_keeps_its_numbers(void **state)
{
    (void)state;
    unsigned char id[BO_RANK_ID];
    float numbers[1000], found[1000];
    if (backend->runs->rank_id(context, id) != BO_OK) {
        print_message("skipped: %s\n", bo_context_error(context));
        skip();
    }
    for (size_t i = 0; i < 1000; i++) numbers[i] = (float)i * 0.37f - 100;
    void *memory = backend->allocate(context, sizeof numbers, "numbers");
    assert_non_null(memory);
    assert_ok(context, backend->runs->join(context, id, 0, 1));
    assert_ok(context, backend->write(context, memory, numbers, sizeof numbers));
    assert_ok(context, backend->runs->sum(context, memory, 1000));
    assert_ok(context, backend->read(context, found, memory, sizeof found));
    assert_memory_equal(found, numbers, sizeof numbers);
    backend->release(memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(one_rank_keeps_its_numbers)};
    context = test_context(1);
    if (bo_context_use_device(context, "cuda") != BO_OK) {
        print_message("skipped: %s\n", bo_context_error(context));
        return 77;
    }
    backend = bo_backend_of(context);
    const int failures = cmocka_run_group_tests(tests, NULL, NULL);
    bo_context_destroy(context);
    return failures;
}
