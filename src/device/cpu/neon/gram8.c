/* Exact products of signed bytes: widened to shorts, multiplied and summed in 32-bit integers. */
#if defined(__aarch64__)
#include <math.h>
#include <string.h>
#include <arm_neon.h>
#include "../ref/ref.h"
#include "neon.h"

enum { MR = BO_REF_MR8, NR = BO_REF_NR8 };
_Static_assert(MR == 4 && NR == 8, "a vector of shorts holds a row of B, and half a vector holds a column of A");

void bo_neon_gram8(size_t k, const void *a, const void *b, double *c, size_t ldc, double scale, size_t m, size_t n)
{
    const int8_t *left = (const int8_t *)a + BO_S8_HEAD, *right = (const int8_t *)b + BO_S8_HEAD;
    int32x4_t low[MR], high[MR];
    for (int i = 0; i < MR; i++) low[i] = high[i] = vdupq_n_s32(0);
    for (size_t p = 0; p < k; p++, left += MR, right += NR) {
        uint32_t column;
        memcpy(&column, left, MR);
        int16x8_t row = vmovl_s8(vld1_s8(right)), factors = vmovl_s8(vreinterpret_s8_u32(vdup_n_u32(column)));
        _Pragma("GCC unroll 4") for (int i = 0; i < MR; i++)
        {
            low[i] = vmlal_n_s16(low[i], vget_low_s16(row), factors[i]);
            high[i] = vmlal_high_n_s16(high[i], row, factors[i]);
        }
    }
    for (size_t i = 0; i < m; i++, c += ldc) {
        int32_t sums[NR];
        vst1q_s32(sums, low[i]);
        vst1q_s32(sums + NR / 2, high[i]);
        for (size_t j = 0; j < n; j++) c[j] = fma(scale, sums[j], c[j]);
    }
}
#endif
