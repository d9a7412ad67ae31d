/* The store in memory: the longest prefix, eviction by last use within the budget, kept states, many threads, failures
 * of memory. */
#include "stores.h"
#include <pthread.h>

enum { SIZE = 8000 };

typedef struct setting {
    counting counted;
    bo_context *context;
    bo_store *store;
} setting;

static size_t stored_size(size_t size)
{
    return BO_SNAPSHOT_OVERHEAD + size;
}

static int setup(void **state)
{
    setting *s = *state = calloc(1, sizeof *s);
    s->context = counting_context(&s->counted, 1);
    return 0;
}

/* A store with capacity for `states` states of SIZE bytes, and a little more. */
static bo_store *open_store(setting *s, size_t states)
{
    const bo_store_desc desc = {
        .memory_bytes = states * stored_size(SIZE) + SIZE / 2, .accepts = test_accepts, .user = "A"};
    assert_ok(s->context, bo_store_create(s->context, &desc, &s->store));
    return s->store;
}

static int teardown(void **state)
{
    setting *s = *state;
    bo_store_destroy(s->store);
    bo_context_destroy(s->context);
    assert_int_equal(s->counted.live, 0);
    free(s);
    return 0;
}

static void test_longest(void **state)
{
    enum { TOKENS = 12 };
    setting *s = *state;
    bo_store *store = open_store(s, 10);
    bo_prefix chain[TOKENS];
    size_t index = 99;
    for (int32_t i = 0; i < TOKENS; i++) chain[i] = test_prefix(store, i + 1);
    assert_null(bo_store_find(s->context, store, chain, TOKENS, &index));
    assert_null(bo_store_find(s->context, store, chain, 0, &index));
    test_cache(s->context, store, 3, SIZE);
    test_cache(s->context, store, 7, SIZE);
    for (size_t count = 0; count <= TOKENS; count++) {
        bo_snapshot *found = bo_store_find(s->context, store, chain, count, &index);
        if (count < 3) {
            assert_null(found);
            continue;
        }
        const int32_t expected = count < 7 ? 3 : 7;
        test_check(found, expected, SIZE);
        assert_int_equal(index, expected - 1);
        bo_snapshot_release(found);
    }
    const bo_store_stats stats = test_stats(store);
    assert_int_equal(stats.hits, TOKENS - 2);
    assert_int_equal(stats.misses, 2 + 3);
    assert_int_equal(stats.prefixes, 2);
    assert_int_equal(stats.kept, 0);
    assert_int_equal(stats.memory_bytes, 2 * stored_size(SIZE));
    assert_int_equal(stats.disk_bytes, 0);
    /* the hash of a text is not the key of a kept state */
    assert_null(bo_store_get(s->context, store, bo_prefix_of_nothing(), "a"));
}

static void test_eviction(void **state)
{
    setting *s = *state;
    bo_store *store = open_store(s, 3);
    for (int32_t i = 1; i <= 3; i++) test_cache(s->context, store, i, SIZE);
    assert_true(test_is_cached(s->context, store, 1, SIZE)); /* now 2 was used longest ago */
    test_cache(s->context, store, 4, SIZE);
    assert_false(test_is_cached(s->context, store, 2, SIZE));
    test_cache(s->context, store, 3, SIZE); /* cached again: it is a use */
    test_cache(s->context, store, 5, SIZE);
    assert_false(test_is_cached(s->context, store, 1, SIZE));
    assert_true(test_is_cached(s->context, store, 3, SIZE));
    assert_true(test_is_cached(s->context, store, 4, SIZE));
    assert_true(test_is_cached(s->context, store, 5, SIZE));
    assert_int_equal(test_stats(store).evictions, 2);
    /* one large state takes the place of several */
    test_cache(s->context, store, 6, 2 * SIZE);
    assert_true(test_is_cached(s->context, store, 6, 2 * SIZE));
    assert_true(test_is_cached(s->context, store, 5, SIZE));
    assert_false(test_is_cached(s->context, store, 4, SIZE));
    assert_false(test_is_cached(s->context, store, 3, SIZE));
    /* a state that never fits is not stored, and the other states are kept */
    test_cache(s->context, store, 7, 4 * SIZE);
    assert_false(test_is_cached(s->context, store, 7, 4 * SIZE));
    assert_true(test_is_cached(s->context, store, 6, 2 * SIZE));
    assert_true(test_is_cached(s->context, store, 5, SIZE));
    assert_int_equal(test_stats(store).evictions, 4);
}

/* A snapshot that is in use outlives its eviction. */
static void test_in_use(void **state)
{
    setting *s = *state;
    bo_store *store = open_store(s, 1);
    const bo_prefix prefix = test_prefix(store, 1);
    size_t index;
    test_cache(s->context, store, 1, SIZE);
    bo_snapshot *found = bo_store_find(s->context, store, &prefix, 1, &index);
    test_cache(s->context, store, 2, SIZE);
    assert_false(test_is_cached(s->context, store, 1, SIZE));
    test_check(found, 1, SIZE);
    bo_snapshot_release(found);
}

static void test_kept(void **state)
{
    setting *s = *state;
    bo_store *store = open_store(s, 3);
    assert_true(test_keep(s->context, store, "a", 1, SIZE));
    assert_true(test_keep(s->context, store, "b", 2, SIZE));
    for (int32_t i = 3; i < 9; i++) { /* the cache has the rest */
        test_cache(s->context, store, i, SIZE);
        assert_true(test_is_cached(s->context, store, i, SIZE));
    }
    assert_true(test_is_kept(s->context, store, "a", 1, SIZE));
    assert_true(test_is_kept(s->context, store, "b", 2, SIZE));
    assert_int_equal(test_stats(store).kept, 2);
    assert_int_equal(test_stats(store).prefixes, 1);
    /* kept states fill the budget: a further one is refused, and nothing changes */
    assert_true(test_keep(s->context, store, "c", 3, SIZE));
    assert_int_equal(test_stats(store).prefixes, 0);
    assert_false(test_keep(s->context, store, "d", 4, SIZE));
    assert_null(bo_store_get(s->context, store, bo_prefix_of_nothing(), "d"));
    test_cache(s->context, store, 20, SIZE);
    assert_false(test_is_cached(s->context, store, 20, SIZE));
    assert_int_equal(test_stats(store).memory_bytes, 3 * stored_size(SIZE));
    assert_int_equal(test_stats(store).evictions, 6);
    /* an id is replaced in place, also in a full store, but not by more than fits */
    assert_true(test_keep(s->context, store, "b", 5, SIZE));
    assert_true(test_is_kept(s->context, store, "b", 5, SIZE));
    assert_true(test_keep(s->context, store, "b", 6, SIZE / 2));
    assert_false(test_keep(s->context, store, "b", 7, 2 * SIZE));
    assert_true(test_is_kept(s->context, store, "b", 6, SIZE / 2));
    assert_int_equal(test_stats(store).kept, 3);
    assert_int_equal(test_stats(store).memory_bytes, 2 * stored_size(SIZE) + stored_size(SIZE / 2));
    assert_true(bo_store_drop(store, bo_prefix_of_nothing(), "a"));
    assert_false(bo_store_drop(store, bo_prefix_of_nothing(), "a"));
    assert_false(bo_store_drop(store, bo_prefix_of_nothing(), "x"));
    assert_null(bo_store_get(s->context, store, bo_prefix_of_nothing(), "a"));
    assert_true(test_keep(s->context, store, "d", 4, SIZE));
    assert_int_equal(test_stats(store).kept, 3);
}

/* A state that cannot be kept does not empty the cache. */
static void test_refused_keep(void **state)
{
    setting *s = *state;
    bo_store *store = open_store(s, 3);
    assert_true(test_keep(s->context, store, "a", 1, SIZE));
    test_cache(s->context, store, 2, SIZE);
    test_cache(s->context, store, 3, SIZE);
    assert_false(test_keep(s->context, store, "b", 4, 3 * SIZE));
    assert_true(test_is_cached(s->context, store, 2, SIZE));
    assert_true(test_is_cached(s->context, store, 3, SIZE));
    assert_int_equal(test_stats(store).evictions, 0);
}

static void test_no_budget(void **state)
{
    setting *s = *state;
    const bo_store_desc desc = {.memory_bytes = 0, .accepts = test_accepts, .user = "A"};
    assert_ok(s->context, bo_store_create(s->context, &desc, &s->store));
    test_cache(s->context, s->store, 1, SIZE);
    assert_false(test_is_cached(s->context, s->store, 1, SIZE));
    assert_false(test_keep(s->context, s->store, "a", 1, SIZE));
    assert_int_equal(test_stats(s->store).memory_bytes, 0);
}

/* More entries than the table has at first, and random calls against a list that is kept by hand. */
static void test_many(void **state)
{
    enum { COUNT = 3000 };
    setting *s = *state;
    bo_store *store = open_store(s, COUNT);
    bo_prefix prefix = bo_prefix_of_nothing(), *all = calloc(COUNT, sizeof *all);
    size_t index;
    for (int32_t i = 0; i < COUNT; i++) {
        all[i] = prefix = bo_prefix_next(bo_store_secret(store), prefix, i);
        bo_snapshot *snapshot = test_snapshot(s->context, prefix, 'A', i, 50);
        bo_store_cache(s->context, store, snapshot);
        bo_snapshot_release(snapshot);
    }
    assert_int_equal(test_stats(store).prefixes, COUNT);
    for (size_t i = 0; i < COUNT; i++) {
        bo_snapshot *found = bo_store_find(s->context, store, all, i + 1, &index);
        test_check(found, (int32_t)i, 50);
        assert_int_equal(index, i);
        bo_snapshot_release(found);
    }
    free(all);
}

/* The order of eviction is that of last use in a long random sequence of calls. */
static void test_order(void **state)
{
    enum { CAPACITY = 5, TEXTS = 12, CALLS = 2000 };
    setting *s = *state;
    bo_store *store = open_store(s, CAPACITY);
    int32_t order[CAPACITY + 1], count = 0; /* most recently used first */
    bo_rng rng = bo_rng_make(9, 9);
    for (int call = 0; call < CALLS; call++) {
        const int32_t number = 1 + (int32_t)bo_rng_below(&rng, TEXTS);
        const bool writes = bo_rng_below(&rng, 2) == 0;
        int32_t at = 0;
        while (at < count && order[at] != number) at++;
        const bool expected = at < count;
        if (writes)
            test_cache(s->context, store, number, SIZE);
        else
            assert_int_equal(test_is_cached(s->context, store, number, SIZE), expected);
        if (!expected && !writes) continue;
        if (!expected) count++;
        memmove(order + 1, order, (size_t)at * sizeof *order);
        order[0] = number;
        if (count > CAPACITY) count = CAPACITY;
        assert_int_equal(test_stats(store).prefixes, count);
        assert_int_equal(test_stats(store).memory_bytes, (size_t)count * stored_size(SIZE));
    }
}

/* The budget counts the memory of a small state in addition to its bytes. */
static void test_small(void **state)
{
    enum { COUNT = 5000, TINY = 4 };
    setting *s = *state;
    bo_store *store = open_store(s, 2 * COUNT);
    const size_t before = s->counted.bytes;
    for (int32_t i = 1; i <= COUNT; i++) {
        char id[16];
        snprintf(id, sizeof id, "%d", (int)i);
        assert_true(test_keep(s->context, store, id, i, TINY));
    }
    const size_t taken = s->counted.bytes - before, counted = test_stats(store).memory_bytes;
    if (taken > counted) fail_msg("%d states take %zu bytes and count as %zu", COUNT, taken, counted);
}

/* Measures the seconds for keeping a batch of states in addition to `kept` states, and for caching a batch of states
 * that do not fit. */
static double keep_batch(setting *s, int32_t kept)
{
    enum { BATCH = 200 };
    const double start = bo_seconds();
    for (int32_t i = 0; i < BATCH; i++) {
        char id[16];
        snprintf(id, sizeof id, "%d", (int)(kept + i));
        test_keep(s->context, s->store, id, kept + i, 4);
        test_cache(s->context, s->store, 1 + i % 3, SIZE);
    }
    return bo_seconds() - start;
}

/* The time of a call does not grow with the number of kept states. The least of many batches is compared, because other
 * programs may interrupt some. */
static void test_many_kept(void **state)
{
    enum { COUNT = 30000, STEP = 200, PART = COUNT / 6 };
    setting *s = *state;
    double first = INFINITY, last = INFINITY;
    open_store(s, COUNT);
    for (int32_t kept = 0; kept < COUNT; kept += STEP) {
        const double seconds = keep_batch(s, kept);
        if (kept < PART) first = fmin(first, seconds);
        if (kept >= COUNT - PART) last = fmin(last, seconds);
    }
    assert_int_equal(test_stats(s->store).kept, COUNT);
    if (last > 8 * first) fail_msg("%g s at first, %g s with %d states", first, last, COUNT);
}

/* ---- threads ----------------------------------------------------------------------------------------------------- */

static void *use_store(void *arg)
{
    enum { CALLS = 400 };
    bo_store *store = arg;
    bo_context *context = test_context(1);
    bo_rng rng = bo_rng_make((uint64_t)(uintptr_t)&context, 1);
    for (int call = 0; call < CALLS; call++) {
        const int32_t number = 1 + (int32_t)bo_rng_below(&rng, 12);
        char id[16];
        snprintf(id, sizeof id, "%d", (int)(number % 3));
        switch (bo_rng_below(&rng, 6)) {
        case 0:
        case 1:
            test_cache(context, store, number, SIZE + (size_t)number);
            break;
        case 2:
        case 3:
            test_is_cached(context, store, number, SIZE + (size_t)number);
            break;
        case 4:
            test_keep(context, store, id, number % 3, SIZE);
            break;
        default:
            test_is_kept(context, store, id, number % 3, SIZE);
            if (number == 1) bo_store_drop(store, bo_prefix_of_nothing(), id);
        }
        assert_true(test_stats(store).memory_bytes <= 5 * stored_size(SIZE) + SIZE / 2);
    }
    bo_context_destroy(context);
    return NULL;
}

static void test_threads(void **state)
{
    enum { THREADS = 4 };
    setting *s = *state;
    pthread_t threads[THREADS];
    bo_store *store = open_store(s, 5);
    for (int i = 0; i < THREADS; i++) assert_int_equal(pthread_create(&threads[i], NULL, use_store, store), 0);
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    assert_true(test_stats(store).hits > 0);
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

static bo_status use_once(void *arg)
{
    setting *s = arg;
    const bo_store_desc desc = {.memory_bytes = 100 * SIZE, .accepts = test_accepts, .user = "A"};
    bo_store *store;
    bool full;
    bo_snapshot from = {.tokens = 1, .size = SIZE}, *snapshot = NULL;
    bo_status status = bo_store_create(s->context, &desc, &store);
    if (status != BO_OK) {
        assert_null(store);
        return status;
    }
    from.bytes = bo_alloc(s->context, SIZE, 1, "test");
    status = from.bytes ? bo_snapshot_create(s->context, &from, &snapshot) : BO_MEMORY;
    if (status == BO_OK) status = bo_store_keep(s->context, store, bo_prefix_of_nothing(), "a", snapshot, &full);
    if (status == BO_OK) assert_false(full);
    if (status == BO_OK) assert_true(bo_store_drop(store, bo_prefix_of_nothing(), "a"));
    if (snapshot) bo_store_cache(s->context, store, snapshot); /* without memory it is not cached */
    assert_int_equal(test_stats(store).kept, 0);
    bo_snapshot_release(snapshot);
    bo_store_destroy(store);
    return status;
}

static void test_memory(void **state)
{
    setting *s = *state;
    counting_inject(&(injection){.counted = &s->counted,
                                 .context = s->context,
                                 .work = use_once,
                                 .what = s,
                                 .all = 100,
                                 .stride = 1,
                                 .spared = "a state"});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_longest, setup, teardown),
        cmocka_unit_test_setup_teardown(test_eviction, setup, teardown),
        cmocka_unit_test_setup_teardown(test_in_use, setup, teardown),
        cmocka_unit_test_setup_teardown(test_kept, setup, teardown),
        cmocka_unit_test_setup_teardown(test_refused_keep, setup, teardown),
        cmocka_unit_test_setup_teardown(test_no_budget, setup, teardown),
        cmocka_unit_test_setup_teardown(test_many, setup, teardown),
        cmocka_unit_test_setup_teardown(test_order, setup, teardown),
        cmocka_unit_test_setup_teardown(test_small, setup, teardown),
        cmocka_unit_test_setup_teardown(test_many_kept, setup, teardown),
        cmocka_unit_test_setup_teardown(test_threads, setup, teardown),
        cmocka_unit_test_setup_teardown(test_memory, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
