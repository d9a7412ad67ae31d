/* Snapshots and hashes for the tests of the store. */
#ifndef BO_TEST_STORES_H
#define BO_TEST_STORES_H

#include "base/counting.h"
#include "serve/store.h"

/* The model of a state is its first byte. */
static inline bool test_accepts(void *user, const void *bytes, size_t size)
{
    return size > 0 && *(const char *)bytes == *(const char *)user;
}

/* The hash of the text 1, 2, …, number. */
static inline bo_prefix test_prefix(const bo_store *store, int32_t number)
{
    bo_prefix prefix = bo_prefix_of_nothing();
    for (int32_t i = 1; i <= number; i++) prefix = bo_prefix_next(bo_store_secret(store), prefix, i);
    return prefix;
}

/* A state of `size` bytes. The first byte is the letter of its model; the remaining bytes depend on the number. */
static inline bo_snapshot *test_snapshot(bo_context *context, bo_prefix prefix, char model, int32_t number, size_t size)
{
    bo_snapshot from = {.prefix = prefix, .tokens = (uint64_t)number, .size = size}, *out;
    from.bytes = bo_alloc_raw(context, size, 1, "test");
    assert_non_null(from.bytes);
    memset(from.bytes, number, size);
    *(char *)from.bytes = model;
    assert_ok(context, bo_snapshot_create(context, &from, &out));
    return out;
}

/* Caches the state of text `number`. */
static inline void test_cache(bo_context *context, bo_store *store, int32_t number, size_t size)
{
    bo_snapshot *snapshot = test_snapshot(context, test_prefix(store, number), 'A', number, size);
    bo_store_cache(context, store, snapshot);
    bo_snapshot_release(snapshot);
}

/* Keeps a state of `size` bytes. Returns true if it fits. */
static inline bool test_keep(bo_context *context, bo_store *store, const char *id, int32_t number, size_t size)
{
    bo_snapshot *snapshot = test_snapshot(context, (bo_prefix){{(uint64_t)number, 0}}, 'A', number, size);
    bool full = true;
    assert_ok(context, bo_store_keep(context, store, bo_prefix_of_nothing(), id, snapshot, &full));
    bo_snapshot_release(snapshot);
    return !full;
}

static inline void test_check(const bo_snapshot *found, int32_t number, size_t size)
{
    assert_non_null(found);
    assert_int_equal(found->tokens, number);
    assert_int_equal(found->size, size);
    assert_int_equal(*(char *)found->bytes, 'A');
    for (size_t i = 1; i < size; i++) assert_int_equal(((unsigned char *)found->bytes)[i], (unsigned char)number);
}

/* Whether the state of text `number` is cached, and right. Counts as a use. */
static inline bool test_is_cached(bo_context *context, bo_store *store, int32_t number, size_t size)
{
    const bo_prefix prefix = test_prefix(store, number);
    size_t index = 9;
    bo_snapshot *found = bo_store_find(context, store, &prefix, 1, &index);
    if (found) {
        test_check(found, number, size);
        assert_int_equal(index, 0);
    }
    bo_snapshot_release(found);
    return found != NULL;
}

static inline bool test_is_kept(bo_context *context, bo_store *store, const char *id, int32_t number, size_t size)
{
    bo_snapshot *found = bo_store_get(context, store, bo_prefix_of_nothing(), id);
    if (found) test_check(found, number, size);
    bo_snapshot_release(found);
    return found != NULL;
}

static inline bo_store_stats test_stats(bo_store *store)
{
    bo_store_stats stats;
    bo_store_get_stats(store, &stats);
    return stats;
}

#endif
