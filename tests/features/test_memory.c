/* Memory: no crash and no leak if any allocation fails; bo_features_estimate is correct. */
#include "maps.h"
#include "features/facts.h"
#include "../base/counting.h"

typedef struct account {
    size_t live, bytes; /* live blocks, and bytes requested since the last reset */
    long until_failure; /* allocations that still succeed; negative: all */
} account;

static void *allocate(void *user, size_t bytes)
{
    account *a = user;
    if (a->until_failure == 0) return NULL;
    if (a->until_failure > 0) a->until_failure--;
    size_t rounded = (bytes + 127) / 64 * 64;
    char *block = aligned_alloc(64, rounded + 64);
    if (!block) return NULL;
    memcpy(block, &bytes, sizeof bytes);
    a->live++;
    a->bytes += bytes;
    return block + 64;
}

static void release(void *user, void *pointer)
{
    account *a = user;
    size_t bytes;
    if (!pointer) return;
    memcpy(&bytes, (char *)pointer - 64, sizeof bytes);
    a->live--;
    a->bytes -= bytes;
    free((char *)pointer - 64);
}

static bo_context *accounted_context(account *a)
{
    bo_context_desc desc = {.threads = 1, .allocator = {allocate, release, a}};
    bo_context *context = NULL;
    a->until_failure = -1;
    assert_int_equal(bo_context_create(&desc, &context), BO_OK);
    return context;
}

typedef struct use {
    account *account;
    const float *x;
} use;

/* Calls all functions of a map, stopping at the first failure. */
static bo_status use_map(bo_context *context, const bo_features_desc *desc, const float *x)
{
    bo_features *f = NULL;
    static float z[SAMPLE_ROWS * 128], dx[SAMPLE_ROWS * DIM], dl[DIM];
    bo_features_accuracy accuracy;
    bo_status status = bo_features_create(context, desc, &f);
    size_t length = status == BO_OK ? bo_features_describe(f)->features : 0;
    if (status == BO_OK)
        status = bo_features_apply(context, f, &(bo_inputs){.rows = SAMPLE_ROWS, .x = x, .stride = DIM}, z, length);
    float *scales = desc->function == BO_FUNCTION_LANDMARKS ? NULL : dl;
    if (status == BO_OK)
        status = bo_features_backward(context, f, &(bo_inputs){.rows = SAMPLE_ROWS, .x = x}, z, length, dx, DIM, scales,
                                      NULL);
    if (status == BO_OK && desc->kernel != BO_KERNEL_CUSTOM)
        status = bo_features_measure(context, f, &(bo_inputs){.rows = SAMPLE_ROWS, .x = x}, 4, 1, &accuracy);
    bo_features_destroy(f);
    return status;
}

static void check_failures(bo_context *context, const bo_features_desc *desc, void *user)
{
    use *u = user;
    size_t before = u->account->live;
    for (long k = 0;; k++) {
        u->account->until_failure = k;
        bo_status status = use_map(context, desc, u->x);
        bool reached = u->account->until_failure == 0;
        u->account->until_failure = -1;
        if (u->account->live != before) fail_msg("%s: allocation %ld failing leaks", map_name(desc), k);
        if (status == BO_OK) break;
        if (status != BO_MEMORY || !reached)
            fail_msg("%s: allocation %ld failing gives %s: %s", map_name(desc), k, bo_status_string(status),
                     bo_context_error(context));
    }
}

static void any_allocation_may_fail(void **state)
{
    (void)state;
    account a = {0};
    bo_context *context = accounted_context(&a);
    float x[SAMPLE_ROWS * DIM];
    test_inputs(1, SAMPLE_ROWS * DIM, x);
    use u = {&a, x};
    assert_true(for_each_map(context, x, check_failures, &u) > 200);
    bo_context_destroy(context);
    assert_int_equal(a.live, 0);
}

/* The estimate is the memory of the object, except for the header of a block and the padding of packed slivers. */
static void check_size(bo_context *context, const bo_features_desc *map, void *user)
{
    use *u = user;
    bo_features *f;
    size_t estimated, before = u->account->bytes, blocks = u->account->live;
    bo_features_desc desc = *map;
    if (!bo_function_find(desc.function)->exact) desc.features = desc.function == BO_FUNCTION_SELFTENSOR ? 1035 : 1024;
    assert_ok(context, bo_features_estimate(context, &desc, &estimated));
    if (desc.sampling == BO_SAMPLING_LEVERAGE) return; /* like OPTIMAL, and slow */
    assert_ok(context, bo_features_create(context, &desc, &f));
    double allocated = (double)(u->account->bytes - before) - 64 * (double)(u->account->live - blocks);
    const bool fewer = f->landmarks && f->landmarks->count < SAMPLE_ROWS; /* dependent landmarks were dropped */
    if (fewer ? (double)estimated < allocated : fabs((double)estimated - allocated) > 0.05 * allocated + 1024)
        fail_msg("%s: estimated %zu bytes, allocated %.0f", map_name(&desc), estimated, allocated);
    bo_features_destroy(f);
}

static void sizes_are_estimated(void **state)
{
    (void)state;
    account a = {0};
    bo_context *context = accounted_context(&a);
    float x[SAMPLE_ROWS * DIM];
    test_inputs(1, SAMPLE_ROWS * DIM, x);
    use u = {&a, x};
    for_each_map(context, x, check_size, &u);
    bo_context_destroy(context);
}

/* If there is no memory for new frequencies, the map does not change. */
static void setting_frequencies_is_atomic(void **state)
{
    (void)state;
    enum { COUNT = 16 };
    static const bo_function functions[] = {BO_FUNCTION_POSITIVE, BO_FUNCTION_OPRF};
    for (size_t k = 0; k < 2; k++) {
        counting c = {0};
        bo_context *context = counting_context(&c, 1);
        float x[DIM], w[COUNT * DIM], before[COUNT], after[COUNT];
        test_inputs(2, DIM, x);
        test_inputs(3, COUNT * DIM, w);
        bo_features_desc desc = {
            .kernel = BO_KERNEL_SOFTMAX, .function = functions[k], .dim = DIM, .features = COUNT, .pair_norm = 1};
        bo_features *f;
        assert_ok(context, bo_features_create(context, &desc, &f));
        assert_ok(context,
                  bo_features_apply(context, f, &(bo_inputs){.rows = 1, .x = x, .stride = DIM}, before, COUNT));
        bo_status status = BO_MEMORY;
        for (size_t nth = 1; status == BO_MEMORY; nth++) {
            c.calls = 0;
            c.fail_at = nth;
            c.once = true;
            status = bo_features_set_frequencies(context, f, w);
            c.fail_at = 0;
            assert_ok(context,
                      bo_features_apply(context, f, &(bo_inputs){.rows = 1, .x = x, .stride = DIM}, after, COUNT));
            assert_int_equal(memcmp(before, after, sizeof before) == 0, status == BO_MEMORY);
            assert_true(status == BO_OK || nth < 20);
        }
        assert_int_equal(status, BO_OK);
        bo_features_destroy(f);
        bo_context_destroy(context);
        assert_int_equal(c.live, 0);
    }
}

/* Few frequencies of a wide input: an orthogonal block has as many rows as are used, not dim rows (3.2 GB here). The
 * map stores w twice; creating it also needs w in double and the workspace of QR. */
static void wide_inputs_need_little_memory(void **state)
{
    (void)state;
    enum { WIDE = 20000, COUNT = 8 };
    counting c = {0};
    bo_context *context = counting_context(&c, 1);
    bo_features_desc desc = {.dim = WIDE, .features = 2 * COUNT, .draw = BO_DRAW_ORTHOGONAL};
    bo_features *f;
    assert_ok(context, bo_features_create(context, &desc, &f));
    assert_true(c.peak < (size_t)64 * WIDE * (4 + 4 + 4)); /* w packed in slivers of up to 64 */
    bo_features_destroy(f);
    bo_context_destroy(context);
    assert_int_equal(c.live, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_allocation_may_fail),
        cmocka_unit_test(sizes_are_estimated),
        cmocka_unit_test(setting_frequencies_is_atomic),
        cmocka_unit_test(wide_inputs_need_little_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
