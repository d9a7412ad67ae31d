/* GEMM micro-kernels: a tile of 14 rows by two vectors stays in registers over the whole depth. */
#if defined(__x86_64__)
#include <immintrin.h>
#include "tile.h"

static inline __attribute__((always_inline)) void sums_f32(size_t k, const float *a, const float *b, __m512 low[MR],
                                                           __m512 high[MR])
{
    EACH_ROW
    {
        low[i] = _mm512_setzero_ps();
        high[i] = _mm512_setzero_ps();
    }
    for (size_t p = 0; p < k; p++, a += MR, b += BO_AVX512_NR) {
        __m512 b0 = _mm512_load_ps(b), b1 = _mm512_load_ps(b + 16);
        EACH_ROW
        {
            __m512 factor = _mm512_set1_ps(a[i]);
            low[i] = _mm512_fmadd_ps(factor, b0, low[i]);
            high[i] = _mm512_fmadd_ps(factor, b1, high[i]);
        }
    }
}

/* Writes row[0..16) = value, or += value, under a mask. */
static inline void store_f32(float *row, __mmask16 mask, __m512 value, bool add)
{
    if (!mask) return;
    _mm512_mask_storeu_ps(row, mask, add ? _mm512_add_ps(_mm512_maskz_loadu_ps(mask, row), value) : value);
}

void bo_avx512_gemm_f32(size_t k, const float *a, const float *b, float *c, size_t ldc, size_t m, size_t n, bool add)
{
    __m512 low[MR], high[MR];
    prefetch_tile(c, ldc * sizeof *c, m, (n - 1) * sizeof *c);
    sums_f32(k, a, b, low, high);
    if (m == MR && n == BO_AVX512_NR) {
        EACH_ROW
        {
            float *row = c + i * ldc;
            _mm512_storeu_ps(row, add ? _mm512_add_ps(_mm512_loadu_ps(row), low[i]) : low[i]);
            _mm512_storeu_ps(row + 16, add ? _mm512_add_ps(_mm512_loadu_ps(row + 16), high[i]) : high[i]);
        }
        return;
    }
    __mmask16 mask0 = lanes16(n), mask1 = lanes16(beyond(n, 16));
    EACH_ROW
    {
        if (i < m) {
            store_f32(c + i * ldc, mask0, low[i], add);
            store_f32(c + i * ldc + 16, mask1, high[i], add);
        }
    }
}

/* Writes row[0..8) = value, or += value, under a mask. */
static inline void store_f64(double *row, __mmask8 mask, __m512d value, bool add)
{
    if (!mask) return;
    _mm512_mask_storeu_pd(row, mask, add ? _mm512_add_pd(_mm512_maskz_loadu_pd(mask, row), value) : value);
}

static inline __m512d low_half(__m512 x)
{
    return _mm512_cvtps_pd(_mm512_castps512_ps256(x));
}

static inline __m512d high_half(__m512 x)
{
    return _mm512_cvtps_pd(_mm512_extractf32x8_ps(x, 1));
}

void bo_avx512_gemm_f32_f64(size_t k, const float *a, const float *b, double *c, size_t ldc, size_t m, size_t n,
                            bool add)
{
    __m512 low[MR], high[MR];
    prefetch_tile(c, ldc * sizeof *c, m, (n - 1) * sizeof *c);
    sums_f32(k, a, b, low, high);
    if (m == MR && n == BO_AVX512_NR && add) {
        EACH_ROW
        {
            double *row = c + i * ldc;
            _mm512_storeu_pd(row, _mm512_add_pd(_mm512_loadu_pd(row), low_half(low[i])));
            _mm512_storeu_pd(row + 8, _mm512_add_pd(_mm512_loadu_pd(row + 8), high_half(low[i])));
            _mm512_storeu_pd(row + 16, _mm512_add_pd(_mm512_loadu_pd(row + 16), low_half(high[i])));
            _mm512_storeu_pd(row + 24, _mm512_add_pd(_mm512_loadu_pd(row + 24), high_half(high[i])));
        }
        return;
    }
    __mmask8 mask0 = lanes8(n), mask1 = lanes8(beyond(n, 8));
    __mmask8 mask2 = lanes8(beyond(n, 16)), mask3 = lanes8(beyond(n, 24));
    EACH_ROW
    {
        if (i < m) {
            double *row = c + i * ldc;
            store_f64(row, mask0, low_half(low[i]), add);
            store_f64(row + 8, mask1, high_half(low[i]), add);
            store_f64(row + 16, mask2, low_half(high[i]), add);
            store_f64(row + 24, mask3, high_half(high[i]), add);
        }
    }
}

void bo_avx512_gemm_f64(size_t k, const double *a, const double *b, double *c, size_t ldc, size_t m, size_t n, bool add)
{
    __m512d low[MR], high[MR];
    prefetch_tile(c, ldc * sizeof *c, m, (n - 1) * sizeof *c);
    EACH_ROW
    {
        low[i] = _mm512_setzero_pd();
        high[i] = _mm512_setzero_pd();
    }
    for (size_t p = 0; p < k; p++, a += MR, b += BO_AVX512_NR64) {
        __m512d b0 = _mm512_load_pd(b), b1 = _mm512_load_pd(b + 8);
        EACH_ROW
        {
            __m512d factor = _mm512_set1_pd(a[i]);
            low[i] = _mm512_fmadd_pd(factor, b0, low[i]);
            high[i] = _mm512_fmadd_pd(factor, b1, high[i]);
        }
    }
    __mmask8 mask0 = lanes8(n), mask1 = lanes8(beyond(n, 8));
    EACH_ROW
    {
        if (i < m) {
            store_f64(c + i * ldc, mask0, low[i], add);
            store_f64(c + i * ldc + 8, mask1, high[i], add);
        }
    }
}
#endif
