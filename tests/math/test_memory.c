/* Every allocation of every operation fails once: the call returns BO_MEMORY, frees its memory, and succeeds when
 * memory is available again. */
#include "linalg_testing.h"
#include "math/fft.h"
#include "math/sobol.h"

typedef struct purse {
    long allowed, live; /* allocations that may still succeed; live blocks */
} purse;

static void *allocate(void *user, size_t bytes)
{
    purse *p = user;
    if (p->allowed == 0) return NULL;
    void *block = aligned_alloc(64, (bytes + 63) / 64 * 64);
    if (block) p->allowed--, p->live++;
    return block;
}

static void release(void *user, void *block)
{
    purse *p = user;
    if (block) p->live--;
    free(block);
}

enum { N = 140, M = 20 };

typedef struct buffers {
    float a[N * N], b[N * N], c[N * N];
    double g[N * N], l[N * N], x[N * M], values[N], points[N * M];
    int8_t q[N * N];
} buffers;

static void prepare(buffers *r)
{
    bo_rng rng = bo_rng_make(1, 1);
    for (size_t i = 0; i < N * N; i++) {
        r->a[i] = r->b[i] = (float)bo_rng_normal(&rng);
        r->g[i] = r->l[i] = bo_rng_normal(&rng) * 0.1;
        r->q[i] = (int8_t)(i % 255) - 127;
    }
    for (size_t i = 0; i < N * M; i++) r->x[i] = 1.0;
    for (size_t i = 0; i < N; i++) r->g[i * N + i] = r->l[i * N + i] = 40.0;
}

static bo_status packed_factor(bo_context *context, buffers *r)
{
    bo_packed *packed;
    bo_status status = bo_packed_create(context, BO_PRECISION_FLOAT32, N, N, r->a, N, &packed);
    assert_true((status == BO_OK) == (packed != NULL));
    bo_packed_destroy(packed);
    return status;
}

/* A length with small factors, and one with a large prime factor, which is transformed by a convolution. */
static bo_status fourier(bo_context *context, buffers *r)
{
    (void)r;
    static const size_t lengths[] = {N, 2 * 127};
    bo_status status = BO_OK;
    for (int i = 0; i < 2 && status == BO_OK; i++) {
        bo_fft_plan *plan;
        status = bo_fft_plan_create(context, lengths[i], &plan);
        assert_true((status == BO_OK) == (plan != NULL));
        bo_fft_plan_destroy(plan);
    }
    return status;
}

static bo_status call(int which, bo_context *context, buffers *r)
{
    switch (which) {
    case 0:
        return bo_gemm(context, false, true, N, N, N, 1, r->a, N, r->b, N, 0, r->c, N);
    case 1:
        return bo_gemm64(context, true, false, N, M, N, 1, r->l, N, r->x, M, 0, r->points, M);
    case 2:
        return bo_gemm(context, false, false, N, 2, N, 1, r->a, N, r->b, N, 0, r->c, N);
    case 3:
        return packed_factor(context, r);
    case 4:
        return bo_gram(context, N, N, r->a, N, r->g, N, false);
    case 5:
        return bo_gram(context, N, N, r->a, N, r->g, N, true);
    case 6:
        return bo_cholesky(context, N, r->g, N, NULL);
    case 7:
        return bo_solve_lower(context, N, M, r->l, N, r->x, M);
    case 8:
        return bo_solve_lower_t(context, N, M, r->l, N, r->x, M);
    case 9:
        return bo_solve_lower(context, N, 1, r->l, N, r->x, M);
    case 10:
        return bo_eigen(context, N, r->g, N, r->values);
    case 11:
        return bo_haar(context, N, N, r->g, N);
    case 12:
        return bo_sobol_points(context, M, N, 1, r->points);
    case 13:
        return fourier(context, r);
    case 14:
        return bo_gram8(context, N, N, r->q, N, 1.0, r->g, N);
    case 15:
        return bo_svd(context, N, M, r->x, r->points, r->values, r->l);
    case 16:
        return bo_svd(context, M, N, r->x, r->l, r->values, r->g);
    default:
        return BO_CANCELED;
    }
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    purse money = {.allowed = 1000};
    bo_context_desc desc = {.threads = 2, .allocator = {allocate, release, &money}};
    bo_context *context;
    assert_int_equal(bo_context_create(&desc, &context), BO_OK);
    buffers *r = malloc(sizeof *r);
    long live = money.live;
    for (int which = 0; which < 17; which++) {
        bo_status status = BO_MEMORY;
        for (long granted = 0; status != BO_OK; granted++) {
            prepare(r);
            money.allowed = granted;
            status = call(which, context, r);
            assert_int_equal(money.live, live);
            if (granted == 0) assert_int_equal(status, BO_MEMORY); /* otherwise nothing was tested */
            if (status == BO_OK) break;
            assert_int_equal(status, BO_MEMORY);
            assert_true(bo_context_error(context)[0]);
            assert_true(granted < 1000);
        }
    }
    assert_int_equal(call(17, context, r), BO_CANCELED); /* the list above is complete */
    free(r);
    bo_context_destroy(context);
    assert_int_equal(money.live, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_allocation_may_fail)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
