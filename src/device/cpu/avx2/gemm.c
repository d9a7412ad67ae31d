/* GEMM micro-kernels: a tile of 6 rows by two vectors stays in registers over the whole depth. Partial tiles
 * are added element by element from a small buffer. */
#if defined(__x86_64__)
#include <immintrin.h>
#include "avx2.h"

enum { MR = BO_AVX2_MR };

#define EACH_ROW _Pragma("GCC unroll 6") for (size_t i = 0; i < MR; i++)

static inline void prefetch_tile(const void *c, size_t row_bytes, size_t m, size_t width_bytes)
{
    const char *row = c;
    for (size_t i = 0; i < m; i++, row += row_bytes) {
        for (size_t at = 0; at <= width_bytes; at += 64) _mm_prefetch(row + at, _MM_HINT_T0);
    }
}

static inline __attribute__((always_inline)) void sums_f32(size_t k, const float *a, const float *b, __m256 low[MR],
                                                           __m256 high[MR])
{
    EACH_ROW
    {
        low[i] = _mm256_setzero_ps();
        high[i] = _mm256_setzero_ps();
    }
    for (size_t p = 0; p < k; p++, a += MR, b += BO_AVX2_NR) {
        __m256 b0 = _mm256_load_ps(b), b1 = _mm256_load_ps(b + 8);
        EACH_ROW
        {
            __m256 factor = _mm256_broadcast_ss(a + i);
            low[i] = _mm256_fmadd_ps(factor, b0, low[i]);
            high[i] = _mm256_fmadd_ps(factor, b1, high[i]);
        }
    }
}

void bo_avx2_gemm_f32(size_t k, const float *a, const float *b, float *c, size_t ldc, size_t m, size_t n, bool add)
{
    __m256 low[MR], high[MR];
    prefetch_tile(c, ldc * sizeof *c, m, (n - 1) * sizeof *c);
    sums_f32(k, a, b, low, high);
    if (m == MR && n == BO_AVX2_NR) {
        EACH_ROW
        {
            float *row = c + i * ldc;
            _mm256_storeu_ps(row, add ? _mm256_add_ps(_mm256_loadu_ps(row), low[i]) : low[i]);
            _mm256_storeu_ps(row + 8, add ? _mm256_add_ps(_mm256_loadu_ps(row + 8), high[i]) : high[i]);
        }
        return;
    }
    float tile[MR][BO_AVX2_NR];
    EACH_ROW
    {
        _mm256_storeu_ps(tile[i], low[i]);
        _mm256_storeu_ps(tile[i] + 8, high[i]);
    }
    for (size_t i = 0; i < m; i++) {
        for (size_t j = 0; j < n; j++) c[i * ldc + j] = (add ? c[i * ldc + j] : 0) + tile[i][j];
    }
}

static inline __m256d low_half(__m256 x)
{
    return _mm256_cvtps_pd(_mm256_castps256_ps128(x));
}

static inline __m256d high_half(__m256 x)
{
    return _mm256_cvtps_pd(_mm256_extractf128_ps(x, 1));
}

/* Writes row[0..4) = value, or += value. */
static inline void store_f64(double *row, __m256d value, bool add)
{
    _mm256_storeu_pd(row, add ? _mm256_add_pd(_mm256_loadu_pd(row), value) : value);
}

void bo_avx2_gemm_f32_f64(size_t k, const float *a, const float *b, double *c, size_t ldc, size_t m, size_t n, bool add)
{
    __m256 low[MR], high[MR];
    prefetch_tile(c, ldc * sizeof *c, m, (n - 1) * sizeof *c);
    sums_f32(k, a, b, low, high);
    if (m == MR && n == BO_AVX2_NR) {
        EACH_ROW
        {
            double *row = c + i * ldc;
            store_f64(row, low_half(low[i]), add);
            store_f64(row + 4, high_half(low[i]), add);
            store_f64(row + 8, low_half(high[i]), add);
            store_f64(row + 12, high_half(high[i]), add);
        }
        return;
    }
    float tile[MR][BO_AVX2_NR];
    EACH_ROW
    {
        _mm256_storeu_ps(tile[i], low[i]);
        _mm256_storeu_ps(tile[i] + 8, high[i]);
    }
    for (size_t i = 0; i < m; i++) {
        for (size_t j = 0; j < n; j++) c[i * ldc + j] = (add ? c[i * ldc + j] : 0) + (double)tile[i][j];
    }
}

void bo_avx2_gemm_f64(size_t k, const double *a, const double *b, double *c, size_t ldc, size_t m, size_t n, bool add)
{
    __m256d low[MR], high[MR];
    prefetch_tile(c, ldc * sizeof *c, m, (n - 1) * sizeof *c);
    EACH_ROW
    {
        low[i] = _mm256_setzero_pd();
        high[i] = _mm256_setzero_pd();
    }
    for (size_t p = 0; p < k; p++, a += MR, b += BO_AVX2_NR64) {
        __m256d b0 = _mm256_load_pd(b), b1 = _mm256_load_pd(b + 4);
        EACH_ROW
        {
            __m256d factor = _mm256_broadcast_sd(a + i);
            low[i] = _mm256_fmadd_pd(factor, b0, low[i]);
            high[i] = _mm256_fmadd_pd(factor, b1, high[i]);
        }
    }
    if (m == MR && n == BO_AVX2_NR64) {
        EACH_ROW
        {
            store_f64(c + i * ldc, low[i], add);
            store_f64(c + i * ldc + 4, high[i], add);
        }
        return;
    }
    double tile[MR][BO_AVX2_NR64];
    EACH_ROW
    {
        _mm256_storeu_pd(tile[i], low[i]);
        _mm256_storeu_pd(tile[i] + 4, high[i]);
    }
    for (size_t i = 0; i < m; i++) {
        for (size_t j = 0; j < n; j++) c[i * ldc + j] = (add ? c[i * ldc + j] : 0) + tile[i][j];
    }
}
#endif
