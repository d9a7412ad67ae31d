/* GEMM in shared memory by all threads of a block, for kernels that process tiles of tokens.
 *
 * Factors are tiles of the type of the tensors: bfloat16 products use tensor cores, and float32 products use float32
 * arithmetic. Both accumulate in float32, in an order that depends only on the sizes. Rows and columns of a tile beyond
 * its contents, up to multiples of 16, are zeros. */
#ifndef BO_CUDA_TILE_CUH
#define BO_CUDA_TILE_CUH

#include "device.cuh"

namespace bo {

enum { TILE_THREADS = 256, TILE_WARPS = TILE_THREADS / WARP };

__host__ __device__ inline int tile_pad(int n)
{
    return (n + 15) / 16 * 16;
}

/* Row stride of a tile: rows that are read together are in different banks. */
__host__ __device__ inline int tile_stride(int columns)
{
    return tile_pad(columns) + 8;
}

/* Bytes of a tile, a multiple of 16. */
template <typename E> __host__ __device__ inline size_t tile_bytes(int rows, int columns)
{
    return (size_t)tile_pad(rows) * (size_t)tile_stride(columns) * sizeof(E);
}

/* Carves the shared memory of a block, or only counts bytes if `at` is NULL. */
struct smem_carver {
    unsigned char *at;
    size_t bytes;
    template <typename E> __host__ __device__ E *tile(int rows, int columns)
    {
        E *out = (E *)(at ? at + bytes : nullptr);
        bytes += tile_bytes<E>(rows, columns);
        return out;
    }
    template <typename E> __host__ __device__ E *array(int count)
    {
        E *out = (E *)(at ? at + bytes : nullptr);
        bytes += ceil_div((size_t)count * sizeof(E), 16) * 16;
        return out;
    }
};

/* ---- products ---------------------------------------------------------------------------------------------------- */

/* A matrix in shared memory, or its transpose. */
template <typename E, bool TRANSPOSED> struct tile_factor {
    const E *x;
    int stride;
    __device__ float at(int i, int j) const
    {
        return to_float(TRANSPOSED ? x[j * stride + i] : x[i * stride + j]);
    }
};
template <typename E> __device__ inline tile_factor<E, false> plain(const E *x, int stride)
{
    return {x, stride};
}
template <typename E> __device__ inline tile_factor<E, true> transposed(const E *x, int stride)
{
    return {x, stride};
}

/* Fragments of A: rows from i on, 16 of the sum's indices from l on. */
template <bool TRANSPOSED>
__device__ inline void load_left(uint32_t (&r)[4], tile_factor<bf16, TRANSPOSED> a, int i, int l)
{
    const int lane = (int)(threadIdx.x % WARP), m = lane / 8, row = lane % 8;
    if (TRANSPOSED)
        ldmatrix_transposed(r, a.x + (l + row + (m / 2) * 8) * a.stride + i + (m % 2) * 8);
    else
        ldmatrix(r, a.x + (i + row + (m % 2) * 8) * a.stride + l + (m / 2) * 8);
}

/* Fragments of B: 16 columns from j on; two registers for each 8 of them. */
template <bool TRANSPOSED>
__device__ inline void load_right(uint32_t (&r)[4], tile_factor<bf16, TRANSPOSED> b, int l, int j)
{
    const int lane = (int)(threadIdx.x % WARP), m = lane / 8, row = lane % 8;
    if (TRANSPOSED)
        ldmatrix(r, b.x + (j + row + (m / 2) * 8) * b.stride + l + (m % 2) * 8);
    else
        ldmatrix_transposed(r, b.x + (l + row + (m % 2) * 8) * b.stride + j + (m / 2) * 8);
}

/* The part of one warp: 16 rows, PAIRS groups of 16 columns. */
template <int PAIRS, bool TA, bool TB, typename Store>
__device__ inline void warp_product(int row, int column, int k, tile_factor<bf16, TA> a, tile_factor<bf16, TB> b,
                                    Store store)
{
    const int lane = (int)(threadIdx.x % WARP), g = lane / 4, c = 2 * (lane % 4);
    float d[2 * PAIRS][4];
#pragma unroll
    for (int t = 0; t < 2 * PAIRS; t++) d[t][0] = d[t][1] = d[t][2] = d[t][3] = 0.0f;
#pragma unroll 2
    for (int l = 0; l < k; l += 16) {
        uint32_t fa[4];
        load_left(fa, a, row, l);
#pragma unroll
        for (int t = 0; t < PAIRS; t++) {
            uint32_t fb[4];
            load_right(fb, b, l, column + 16 * t);
            mma(d[2 * t], fa, {fb[0], fb[1]});
            mma(d[2 * t + 1], fa, {fb[2], fb[3]});
        }
    }
#pragma unroll
    for (int t = 0; t < 2 * PAIRS; t++) {
        const int j = column + 8 * t + c;
        store(row + g, j, d[t][0]), store(row + g, j + 1, d[t][1]);
        store(row + g + 8, j, d[t][2]), store(row + g + 8, j + 1, d[t][3]);
    }
}

/* Calls store(i, j, Σ_l A_il B_lj) for all i < m, j < n: multiples of 16, like k. For equal m and n, (i, j) always
 * belongs to the same thread. No barrier: factors must be complete before, and unchanged until the next barrier. */
template <bool TA, bool TB, typename Store>
__device__ inline void tile_product(int m, int n, int k, tile_factor<bf16, TA> a, tile_factor<bf16, TB> b, Store store)
{
    const int warp = (int)(threadIdx.x / WARP), rows = m / 16;
    if (n % 32 == 0 && rows * (n / 32) >= TILE_WARPS) {
        for (int at = warp; at < rows * (n / 32); at += TILE_WARPS)
            warp_product<2>(at % rows * 16, at / rows * 32, k, a, b, store);
    } else {
        for (int at = warp; at < rows * (n / 16); at += TILE_WARPS)
            warp_product<1>(at % rows * 16, at / rows * 16, k, a, b, store);
    }
}

template <bool TA, bool TB, typename Store>
__device__ inline void tile_product(int m, int n, int k, tile_factor<float, TA> a, tile_factor<float, TB> b,
                                    Store store)
{
    const int across = n / 4;
    for (int at = (int)threadIdx.x; at < m / 4 * across; at += TILE_THREADS) {
        const int i = at / across * 4, j = at % across * 4;
        float d[4][4] = {};
        for (int l = 0; l < k; l++) {
            float x[4], y[4];
#pragma unroll
            for (int r = 0; r < 4; r++) x[r] = a.at(i + r, l), y[r] = b.at(l, j + r);
#pragma unroll
            for (int r = 0; r < 4; r++)
#pragma unroll
                for (int s = 0; s < 4; s++) d[r][s] = fmaf(x[r], y[s], d[r][s]);
        }
#pragma unroll
        for (int r = 0; r < 4; r++)
#pragma unroll
            for (int s = 0; s < 4; s++) store(i + r, j + s, d[r][s]);
    }
}

/* ---- rows of memory ---------------------------------------------------------------------------------------------- */

struct tile_one {
    __device__ float operator()(int) const
    {
        return 1.0f;
    }
};

/* Loads rows x columns elements, times factor(row), into a tile of `padded` rows. ld: row stride. */
template <typename E, typename T, typename Factor>
__device__ inline void tile_load(E *to, int stride, int padded, int rows, int columns, const T *from, size_t ld,
                                 Factor factor)
{
    const int width = tile_pad(columns), each = 16 / (int)sizeof(T);
    if (width == columns && ld % (size_t)each == 0 && (uintptr_t)from % 16 == 0) {
        const int across = columns / each;
        for (int at = (int)threadIdx.x; at < padded * across; at += TILE_THREADS) {
            const int i = at / across, j = at % across * each;
            pack<T, 16 / sizeof(T)> p;
            if (i < rows) p = *(const pack<T, 16 / sizeof(T)> *)(from + (size_t)i * ld + j);
            const float f = i < rows ? factor(i) : 0.0f;
#pragma unroll
            for (int e = 0; e < each; e++)
                to[i * stride + j + e] = from_float<E>(i < rows ? f * to_float(p.at[e]) : 0.0f);
        }
        return;
    }
    for (int at = (int)threadIdx.x; at < padded * width; at += TILE_THREADS) {
        const int i = at / width, j = at % width;
        const bool present = i < rows && j < columns;
        to[i * stride + j] = from_float<E>(present ? factor(i) * to_float(from[(size_t)i * ld + j]) : 0.0f);
    }
}

template <typename E, typename T>
__device__ inline void tile_load(E *to, int stride, int padded, int rows, int columns, const T *from, size_t ld)
{
    tile_load(to, stride, padded, rows, columns, from, ld, tile_one());
}

template <typename E> __device__ inline void tile_clear(E *to, int stride, int rows, int columns)
{
    const int width = tile_pad(columns);
    for (int at = (int)threadIdx.x; at < rows * width; at += TILE_THREADS)
        to[at / width * stride + at % width] = from_float<E>(0.0f);
}

/* to += x, for tiles of the same shape. */
__device__ inline void tile_add(float *to, const float *x, int stride, int rows, int columns)
{
    for (int at = (int)threadIdx.x; at < rows * columns; at += TILE_THREADS) {
        const int place = at / columns * stride + at % columns;
        to[place] += x[place];
    }
}

/* Stores rows x columns elements of a tile. */
template <typename E, typename T>
__device__ inline void tile_store(const E *from, int stride, int rows, int columns, T *to, size_t ld)
{
    const int each = 16 / (int)sizeof(T);
    if (columns % each == 0 && ld % (size_t)each == 0 && (uintptr_t)to % 16 == 0) {
        const int across = columns / each;
        for (int at = (int)threadIdx.x; at < rows * across; at += TILE_THREADS) {
            const int i = at / across, j = at % across * each;
            pack<T, 16 / sizeof(T)> p;
#pragma unroll
            for (int e = 0; e < each; e++) p.at[e] = from_float<T>(to_float(from[i * stride + j + e]));
            *(pack<T, 16 / sizeof(T)> *)(to + (size_t)i * ld + j) = p;
        }
        return;
    }
    for (int at = (int)threadIdx.x; at < rows * columns; at += TILE_THREADS) {
        const int i = at / columns, j = at % columns;
        to[(size_t)i * ld + j] = from_float<T>(to_float(from[i * stride + j]));
    }
}

/* Calls store(i, Σ_j x_ij y_ij) on lane 0 of a warp for each row. */
template <typename X, typename Y, typename Store>
__device__ inline void tile_row_dots(int rows, int columns, const X *x, int ldx, const Y *y, int ldy, Store store)
{
    for (int i = (int)(threadIdx.x / WARP); i < rows; i += TILE_WARPS) {
        float sum = 0.0f;
        for (int j = (int)(threadIdx.x % WARP); j < columns; j += WARP)
            sum = fmaf(to_float(x[i * ldx + j]), to_float(y[i * ldy + j]), sum);
        sum = warp_sum(sum);
        if (threadIdx.x % WARP == 0) store(i, sum);
    }
}

} // namespace bo

#endif
