/* Products in bfloat16: factors rounded to bfloat16, sums within the classical bound, for every instruction set; odd
 * sizes, strides, transposes, stored factors; the same bits for any number of threads. */
#include "linalg_testing.h"
#include "isas.h"

static const size_t sizes[][3] = {
    /* more rows than gemv takes; neighbors of tiles of 32 x 32, tasks of 128 x 512 and runs of 512 */
    {9, 1, 1},       {13, 37, 5},     {32, 32, 64},   {33, 31, 65},   {128, 256, 32}, {129, 257, 9},
    {61, 127, 1025}, {127, 131, 911}, {300, 10, 101}, {517, 13, 450}, {40, 530, 9},
};

/* Rounds x * scale to bfloat16 in place. */
static void round_all(size_t n, float scale, float *x)
{
    const bo_kernels *ref = bo_kernels_find("ref");
    for (size_t i = 0; i < n; i++) {
        uint16_t half;
        x[i] *= scale;
        ref->round_bf16(1, &x[i], &half);
        ref->widen_bf16(1, &half, &x[i]);
    }
}

static void check(bo_context *context, const size_t *size, bool ta, bool tb, float alpha, float beta)
{
    size_t m = size[0], n = size[1], k = size[2];
    size_t lda = (ta ? m : k) + 3, ldb = (tb ? k : n) + 1, ldc = n + 2;
    size_t na = lda * (ta ? k : m), nb = ldb * (tb ? n : k);
    float *a = test_floats(na, 1), *b = test_floats(nb, 2), *c = test_floats(ldc * m, 3),
          *before = test_floats(ldc * m, 3);
    void *workspace = aligned_alloc(64, bo_round_up(bo_gemm_bytes(context, BO_PRECISION_BFLOAT16, m, n, k), 64));
    bo_gemm_in(context, BO_PRECISION_BFLOAT16, ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc, workspace);
    round_all(na, alpha, a), round_all(nb, 1, b);
    for (size_t i = 0; i < m; i++) {
        for (size_t j = 0; j < n; j++) {
            double sum = beta == 0 ? 0.0 : (double)(beta * before[i * ldc + j]), total = fabs(sum);
            for (size_t p = 0; p < k; p++) {
                double product =
                    (double)(ta ? a[p * lda + i] : a[i * lda + p]) * (double)(tb ? b[j * ldb + p] : b[p * ldb + j]);
                sum += product, total += fabs(product);
            }
            /* k + 2 roundings of partial sums (bf16.h), and one more per run of 512 */
            assert_close(c[i * ldc + j], sum, (double)(k + k / 16 + 4) * 0x1p-23 * total);
        }
        for (size_t j = n; j < ldc; j++) assert_memory_equal(c + i * ldc + j, before + i * ldc + j, sizeof *c);
    }
    free(a), free(b), free(c), free(before), free(workspace);
}

static void agrees_with_naive_loops(void **state)
{
    (void)state;
    for (size_t i = 0; i < TEST_BF16_ISAS; i++) {
        bo_context *context;
        if (bo_context_create(&(bo_context_desc){.threads = 2, .isa = test_bf16_isas[i]}, &context) != BO_OK) continue;
        for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
            for (int how = 0; how < 4; how++)
                check(context, sizes[s], how & 1, how & 2, how == 1 ? 0.3f : 1, how == 2 ? 1 : how == 3 ? -0.5f : 0);
        bo_context_destroy(context);
    }
}

static void threads_give_the_same_bits(void **state)
{
    (void)state;
    enum { M = 300, N = 530, K = 1100 };
    float *a = test_floats(M * K, 1), *b = test_floats(N * K, 2), *first = NULL;
    for (int threads = 1; threads <= 3; threads++) {
        bo_context *context = test_context(threads);
        float *c = test_floats(M * N, 3);
        void *workspace = aligned_alloc(64, bo_round_up(bo_gemm_bytes(context, BO_PRECISION_BFLOAT16, M, N, K), 64));
        bo_gemm_in(context, BO_PRECISION_BFLOAT16, false, true, M, N, K, 1, a, K, b, K, 1, c, N, workspace);
        if (first) assert_memory_equal(c, first, M * N * sizeof *c);
        if (!first)
            first = c;
        else
            free(c);
        free(workspace);
        bo_context_destroy(context);
    }
    free(a), free(b), free(first);
}

/* A factor that is stored in fewer bits gives the same bits as the same factor in float32. */
static void stored_factors_agree(void **state)
{
    (void)state;
    enum { M = 40, N = 70, K = 300 };
    static const bo_stored kinds[] = {BO_STORED_BFLOAT16, BO_STORED_INT8, BO_STORED_INT4};
    bo_context *context = test_context(2);
    const bo_kernels *kernels = bo_context_kernels(context);
    float *a = test_floats(M * K, 1), *b = test_floats(N * K, 2), *c = test_floats(M * N, 3),
          *d = test_floats(M * N, 4);
    for (size_t s = 0; s < 3; s++) {
        size_t line = bo_stored_line(kinds[s], K);
        char *stored = malloc(N * line);
        for (size_t j = 0; j < N; j++) {
            bo_stored_write(kernels, kinds[s], K, b + j * K, stored + j * line);
            bo_stored_read(kernels, kinds[s], K, stored + j * line, 0, K, b + j * K);
        }
        bo_gemm_product plain = {.n = N, .tb = true, .b = b, .ldb = K, .c = c, .ldc = N}, kept = plain;
        kept.b = stored, kept.stored = kinds[s], kept.c = d;
        void *workspace =
            aligned_alloc(64, bo_round_up(bo_gemm_shared_bytes(context, BO_PRECISION_BFLOAT16, M, K, 1, &kept), 64));
        bo_gemm_shared(context, BO_PRECISION_BFLOAT16, false, M, K, 1, a, K, 1, &plain, workspace);
        bo_gemm_shared(context, BO_PRECISION_BFLOAT16, false, M, K, 1, a, K, 1, &kept, workspace);
        assert_memory_equal(c, d, M * N * sizeof *c);
        free(stored), free(workspace);
    }
    free(a), free(b), free(c), free(d);
    bo_context_destroy(context);
}

/* A factor that is packed once, with several runs along k, and with none. */
static void packed_factors_agree(void **state)
{
    (void)state;
    static const size_t shapes[][3] = {{40, 70, 600}, {1, 17, 257}, {33, 32, 64}, {5, 3, 0}};
    for (size_t i = 0; i < TEST_BF16_ISAS; i++) {
        bo_context *context;
        if (bo_context_create(&(bo_context_desc){.threads = 2, .isa = test_bf16_isas[i]}, &context) != BO_OK) continue;
        for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
            size_t m = shapes[s][0], n = shapes[s][1], k = shapes[s][2], lda = k + 2;
            float *a = test_floats(m * lda, 1), *b = test_floats(n * lda, 2), *c = test_floats(m * n, 3);
            bo_packed *packed;
            assert_ok(context, bo_packed_create(context, BO_PRECISION_BFLOAT16, n, k, b, lda, &packed));
            bo_packed_multiply(packed, m, a, lda, c, n);
            round_all(m * lda, 1, a), round_all(n * lda, 1, b);
            for (size_t at = 0; at < m * n; at++) {
                double sum = 0, total = 0;
                for (size_t p = 0; p < k; p++) {
                    double product = (double)a[at / n * lda + p] * (double)b[at % n * lda + p];
                    sum += product, total += fabs(product);
                }
                assert_close(c[at], sum, (double)(k + 4) * 0x1p-23 * total);
            }
            bo_packed_destroy(packed);
            free(a), free(b), free(c);
        }
        bo_context_destroy(context);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(agrees_with_naive_loops),
        cmocka_unit_test(threads_give_the_same_bits),
        cmocka_unit_test(stored_factors_agree),
        cmocka_unit_test(packed_factors_agree),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
