/* Memory: alignment, zeroing, growth, the caller's allocator, and failed allocations. */
#include "counting.h"

static void test_blocks(void **state)
{
    (void)state;
    counting c = {0};
    bo_context *context = counting_context(&c, 1);
    size_t before = c.live;
    static const size_t sizes[] = {0, 1, 63, 64, 65, 4096, 1000003, (size_t)5 << 20};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        unsigned char *zeroed = bo_alloc(context, sizes[i], 1, "a block"),
                      *raw = bo_alloc_raw(context, sizes[i], 1, "a block");
        assert_non_null(zeroed);
        assert_non_null(raw);
        assert_true((uintptr_t)zeroed % 64 == 0 && (uintptr_t)raw % 64 == 0);
        for (size_t k = 0; k < sizes[i]; k++) assert_int_equal(zeroed[k], 0);
        memset(raw, 1, sizes[i]);
        bo_free(zeroed);
        bo_free(raw);
        assert_true(c.live == before);
    }
    bo_free(NULL);
    bo_context_destroy(context);
    assert_true(c.live == 0);
}

/* The allocator of the C library, with its larger alignment for large blocks. */
static void test_default_allocator(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    for (size_t bytes = 1; bytes <= (size_t)16 << 20; bytes = bytes * 3 + 1) {
        char *block = bo_alloc(context, bytes, 1, "a block");
        assert_non_null(block);
        assert_true((uintptr_t)block % 64 == 0);
        assert_true(block[0] == 0 && block[bytes - 1] == 0);
        block[0] = block[bytes - 1] = 1;
        bo_free(block);
    }
    bo_context_destroy(context);
}

/* More than any host has is refused before it is requested: a system that overcommits memory would return it. */
static void test_more_than_the_host_has(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    assert_null(bo_alloc_raw(context, (size_t)1 << 46, 1, "the ocean"));
    const char *message = bo_context_error(context);
    assert_true(strstr(message, "the ocean needs 70.4 TB of memory, but the limit is") &&
                strstr(message, "use less data or smaller sizes, or raise the limit"));
    bo_context_destroy(context);
}

static void test_overflow(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    assert_null(bo_alloc(context, SIZE_MAX / 2, 3, "the moon"));
    assert_non_null(strstr(bo_context_error(context), "the moon"));
    assert_null(bo_alloc_raw(context, SIZE_MAX, 1, "the sun"));
    assert_non_null(strstr(bo_context_error(context), "the sun"));
    assert_null(bo_alloc_raw(context, SIZE_MAX - 63, 1, "the sky"));
    char *kept = bo_alloc(context, 10, 1, "a block");
    kept[3] = 7;
    assert_null(bo_realloc(context, kept, SIZE_MAX / 2, 4, "the sea"));
    assert_int_equal(kept[3], 7);
    bo_free(kept);
    bo_context_destroy(context);
}

static void test_growing(void **state)
{
    (void)state;
    counting c = {0};
    bo_context *context = counting_context(&c, 1);
    int *block = bo_realloc(context, NULL, 4, sizeof *block, "numbers");
    for (int i = 0; i < 4; i++) block[i] = i;
    for (size_t size = 5; size < 3000; size = size * 2) {
        block = bo_realloc(context, block, size, sizeof *block, "numbers");
        assert_true((uintptr_t)block % 64 == 0);
        for (int i = 0; i < 4; i++) assert_int_equal(block[i], i);
    }
    block = bo_realloc(context, block, 2, sizeof *block, "numbers");
    assert_true(block[0] == 0 && block[1] == 1);
    c.fail_at = c.calls + 1;
    assert_null(bo_realloc(context, block, 100, sizeof *block, "numbers"));
    assert_non_null(strstr(bo_context_error(context), "numbers"));
    assert_true(block[0] == 0 && block[1] == 1);
    c.fail_at = 0;
    bo_free(block);
    char *text = bo_strdup(context, "Bochner 1932");
    assert_string_equal(text, "Bochner 1932");
    bo_free(text);
    bo_context_destroy(context);
    assert_true(c.live == 0);
}

/* A block stores its allocator, so an object may outlive the context that created it. */
static void test_outlives_context(void **state)
{
    (void)state;
    counting c = {0};
    bo_context *context = counting_context(&c, 2);
    char *block = bo_alloc(context, 100, 1, "a survivor");
    bo_context_destroy(context);
    assert_true(c.live == 1);
    block[99] = 1;
    bo_free(block);
    assert_true(c.live == 0);
}

static void test_context_out_of_memory(void **state)
{
    (void)state;
    static const int threads[] = {1, 2, 4};
    for (size_t t = 0; t < 3; t++)
        for (size_t k = 1;; k++) {
            assert_true(k < 100);
            counting c = {.fail_at = k};
            bo_context_desc desc = {.threads = threads[t], .allocator = counting_allocator(&c)};
            bo_context *context = (bo_context *)&c;
            bo_status status = bo_context_create(&desc, &context);
            if (status == BO_OK) {
                assert_true(c.calls < k); /* it did not need the allocation that would have failed */
                bo_context_destroy(context);
                assert_true(c.live == 0);
                break;
            }
            assert_int_equal(status, BO_MEMORY);
            assert_null(context);
            assert_true(c.live == 0);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_blocks),
        cmocka_unit_test(test_default_allocator),
        cmocka_unit_test(test_more_than_the_host_has),
        cmocka_unit_test(test_overflow),
        cmocka_unit_test(test_growing),
        cmocka_unit_test(test_outlives_context),
        cmocka_unit_test(test_context_out_of_memory),
    };
    return cmocka_run_group_tests_name("base.memory", tests, NULL, NULL);
}
