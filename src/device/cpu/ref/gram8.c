/* Exact products of signed bytes in plain C. A sliver holds the bytes of q row by row, after its head. */
#include <math.h>
#include <string.h>
#include "../kernels.h"
#include "ref.h"

enum { MR = BO_REF_MR8, NR = BO_REF_NR8 };

static void pack(size_t width, size_t k, size_t lines, const int8_t *q, size_t ldq, int8_t *out)
{
    for (size_t line = 0; line < lines; line += width) {
        size_t count = lines - line < width ? lines - line : width;
        out += BO_S8_HEAD;
        for (size_t p = 0; p < k; p++) {
            memset(out + p * width, 0, width);
            memcpy(out + p * width, q + p * ldq + line, count);
        }
        out += (k * width + 63) / 64 * 64;
    }
}

void bo_ref_gram8_pack_a(size_t k, size_t lines, const int8_t *q, size_t ldq, void *out)
{
    pack(MR, k, lines, q, ldq, out);
}

void bo_ref_gram8_pack_b(size_t k, size_t lines, const int8_t *q, size_t ldq, void *out)
{
    pack(NR, k, lines, q, ldq, out);
}

void bo_ref_gram8(size_t k, const void *a, const void *b, double *c, size_t ldc, double scale, size_t m, size_t n)
{
    const int8_t *left = (const int8_t *)a + BO_S8_HEAD, *right = (const int8_t *)b + BO_S8_HEAD;
    int32_t sum[MR][NR] = {{0}};
    for (size_t p = 0; p < k; p++) {
        for (size_t i = 0; i < MR; i++) {
            for (size_t j = 0; j < NR; j++) sum[i][j] += left[p * MR + i] * right[p * NR + j];
        }
    }
    for (size_t i = 0; i < m; i++) {
        for (size_t j = 0; j < n; j++) c[i * ldc + j] = fma(scale, sum[i][j], c[i * ldc + j]);
    }
}
