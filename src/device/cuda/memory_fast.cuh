/* Helpers of the tensor-core kernels for GLA and DELTA in bfloat16: chunks of 64 tokens in sub-blocks of 16, one memory
 * matrix per chunk. Matrices of chunks are stored transposed: value_dim rows of `padded` columns, with zeros in the
 * columns from dim on. */
#ifndef BO_CUDA_MEMORY_FAST_CUH
#define BO_CUDA_MEMORY_FAST_CUH

#include "memory.cuh"

namespace bo {
namespace memories {

enum { CHUNK = 64, SUB = 16, SUBS = CHUNK / SUB, SLICE = 64 }; /* SLICE: columns of values at a time */
enum { ACROSS = SLICE + 8, SQUARE = CHUNK + 8 };               /* row strides of tiles */

__device__ inline int warp_id()
{
    return (int)threadIdx.x / WARP;
}
__device__ inline int lane_id()
{
    return (int)threadIdx.x % WARP;
}
/* The row and the column of a lane in a fragment. */
__device__ inline int lane_row()
{
    return lane_id() / 4;
}
__device__ inline int lane_column()
{
    return 2 * (lane_id() % 4);
}

/* e^x with a relative error below 2^-21; results below the smallest normal float are 0. */
__device__ inline float exp_fast(float x)
{
    return exp2_fast(LOG2_E * x);
}

__device__ inline void unpack(uint32_t bits, float &low, float &high)
{
    low = __uint_as_float(bits << 16), high = __uint_as_float(bits & 0xFFFF0000u);
}

/* ---- arrays ------------------------------------------------------------------------------------------------------ */

/* The transposed matrix of a chunk and key head; or of a query head, in arrays of backward. */
template <typename T> __device__ inline T *matrix_at(T *array, const bo_gpu_memory &a, int tile, int h)
{
    const size_t index = (size_t)tile * (size_t)a.call.key_heads + (size_t)h;
    return array + index * (size_t)(a.call.value_dim * a.padded);
}
template <typename T> __device__ inline T *query_matrix_at(T *array, const bo_gpu_memory &a, int tile, int head)
{
    const size_t index = (size_t)tile * (size_t)a.call.heads + (size_t)head;
    return array + index * (size_t)(a.call.value_dim * a.padded);
}

/* The decays of a chunk and key head: `padded` floats. */
__device__ inline float *decays_at(const bo_gpu_memory &a, int tile, int h)
{
    return a.decays + ((size_t)tile * (size_t)a.call.key_heads + (size_t)h) * (size_t)a.padded;
}

/* Copies rows x columns elements to a tile of `padded` rows of `width` columns (a multiple of 16; default:
 * tile_pad(columns)); the others are zeros. copy_commit and copy_wait are needed before the next barrier. */
__device__ inline void copy_tile(bf16 *to, int stride, int padded, int rows, int columns, const bf16 *from, size_t ld,
                                 int width = 0)
{
    if (width == 0) width = tile_pad(columns);
    const int across = width / 8;
    if (columns % 8 != 0 || ld % 8 != 0 || (uintptr_t)from % 16 != 0) {
        for (int at = (int)threadIdx.x; at < padded * width; at += TILE_THREADS) {
            const int i = at / width, j = at % width;
            to[i * stride + j] = i < rows && j < columns ? from[(size_t)i * ld + (size_t)j] : from_float<bf16>(0.0f);
        }
        return;
    }
    for (int at = (int)threadIdx.x; at < padded * across; at += TILE_THREADS) {
        const int i = at / across, j = at % across * 8;
        const bool present = i < rows && j < columns;
        copy_async(to + i * stride + j, present ? from + (size_t)i * ld + j : from, present);
    }
}

/* Two neighboring elements of a row, of which `columns` exist, as bfloat16 in a register. */
__device__ inline uint32_t load_pair(const bf16 *x, int columns)
{
    if (columns >= 2 && (uintptr_t)x % 4 == 0) return *(const uint32_t *)x;
    pack<bf16, 2> both;
    both.at[0] = columns >= 1 ? x[0] : from_float<bf16>(0.0f),
    both.at[1] = columns >= 2 ? x[1] : from_float<bf16>(0.0f);
    uint32_t bits;
    memcpy(&bits, &both, sizeof bits);
    return bits;
}

__device__ inline void store_pair(bf16 *x, int columns, float low, float high)
{
    if (columns >= 2 && (uintptr_t)x % 4 == 0) {
        *(uint32_t *)x = pack_bf16(low, high);
        return;
    }
    if (columns >= 1) x[0] = from_float<bf16>(low);
    if (columns >= 2) x[1] = from_float<bf16>(high);
}

/* Where the rows of a chunk of a gradient are written: to an output, or as the part of a query head. */
struct target {
    bf16 *out; /* NULL with parts, or if the gradient is not needed */
    float *parts;
    size_t ld;
    __device__ explicit operator bool() const
    {
        return out || parts;
    }
    __device__ void store(size_t row, int column, float x) const
    {
        if (out)
            out[row * ld + (size_t)column] = from_float<bf16>(x);
        else
            parts[row * ld + (size_t)column] = x;
    }
    __device__ void store_two(size_t row, int column, int columns, float x, float y) const
    {
        if (out) {
            store_pair(out + row * ld + (size_t)column, columns, x, y);
            return;
        }
        float *to = parts + row * ld + (size_t)column;
        to[0] = x;
        if (columns >= 2) to[1] = y;
    }
};

/* The target of a gradient of keys: h and head are the heads of the block. */
__device__ inline target target_of(const bo_gpu_memory &a, void *array, const bo_gpu_strides &by, float *parts,
                                   const chunk &at, int h, int head, int width)
{
    if (array && a.dk_parts)
        return {nullptr, row_at(parts, at.row, a.call.heads, head, width), (size_t)(a.call.heads * width)};
    return {numbers_if_any((bf16 *)array, by, at.sequence, at.row, h), nullptr, by.row};
}

/* As unit_store. */
__device__ inline void store_rows(const float *dt, int stride, int rows, int columns, bool unit, float scale,
                                  const bf16 *x, size_t ldx, const target &to)
{
    for (int i = warp_id(); i < rows; i += TILE_WARPS) {
        const float *d = dt + i * stride;
        const bf16 *from = x + (size_t)i * ldx;
        float square = 0.0f, inner = 0.0f, factor = scale, along = 0.0f;
        for (int j = lane_id(); unit && j < columns; j += WARP) {
            const float xj = to_float(from[j]);
            square = fmaf(xj, xj, square), inner = fmaf(xj, d[j], inner);
        }
        if (unit) {
            const float n = sqrtf(warp_sum(square)), over = 1.0f / (n + BO_UNIT_EPSILON);
            inner = warp_sum(inner);
            factor = scale * over, along = n > 0.0f ? scale * inner * over * over / n : 0.0f;
        }
        for (int j = lane_id(); j < columns; j += WARP)
            to.store((size_t)i, j, d[j] * factor - (unit ? to_float(from[j]) * along : 0.0f));
    }
}

/* 1 / (|x| + e) for the rows of a chunk; without `unit` 1. One warp per row. */
__device__ inline void unit_factors(const bo_gpu_memory &a, const bf16 *x, size_t ld, int rows, float *to)
{
    for (int i = warp_id(); i < CHUNK; i += TILE_WARPS) {
        float square = 0.0f;
        for (int j = lane_id(); a.unit && i < rows && j < a.call.dim; j += WARP) {
            const float value = to_float(x[(size_t)i * ld + (size_t)j]);
            square = fmaf(value, value, square);
        }
        if (a.unit) square = warp_sum(square);
        if (lane_id() == 0) to[i] = a.unit ? 1.0f / (sqrtf(square) + BO_UNIT_EPSILON) : 1.0f;
    }
}

/* ---- fragments --------------------------------------------------------------------------------------------------- */

template <int TILES> __device__ inline void clear(float (&d)[TILES][4])
{
#pragma unroll
    for (int t = 0; t < TILES; t++) d[t][0] = d[t][1] = d[t][2] = d[t][3] = 0.0f;
}

/* d (16 x 8 TILES, from (row, column) of the product on) += Σ_l A_il B_lj for l from `first` on, `count` of them. */
template <int TILES, bool TA, bool TB>
__device__ inline void accumulate(float (&d)[TILES][4], int row, int column, int first, int count,
                                  tile_factor<bf16, TA> a, tile_factor<bf16, TB> b)
{
#pragma unroll 4
    for (int l = first; l < first + count; l += 16) {
        uint32_t fa[4];
        load_left(fa, a, row, l);
#pragma unroll
        for (int t = 0; t < TILES; t += 2) {
            uint32_t fb[4];
            load_right(fb, b, l, column + 8 * t);
            mma(d[t], fa, {fb[0], fb[1]});
            mma(d[t + 1], fa, {fb[2], fb[3]});
        }
    }
}

/* The same with A in registers: rows of a warp, STEPS groups of 16 columns. */
template <int STEPS, int TILES, bool TB>
__device__ inline void accumulate(float (&d)[TILES][4], const uint32_t (&fa)[STEPS][4], int column,
                                  tile_factor<bf16, TB> b)
{
#pragma unroll
    for (int s = 0; s < STEPS; s++)
#pragma unroll
        for (int t = 0; t < TILES; t += 2) {
            uint32_t fb[4];
            load_right(fb, b, 16 * s, column + 8 * t);
            mma(d[t], fa[s], {fb[0], fb[1]});
            mma(d[t + 1], fa[s], {fb[2], fb[3]});
        }
}

/* Calls f(i, j, x) for the elements of fragments at (row, column). */
template <int TILES, typename F> __device__ inline void each(float (&d)[TILES][4], int row, int column, F f)
{
#pragma unroll
    for (int t = 0; t < TILES; t++)
#pragma unroll
        for (int e = 0; e < 4; e++) f(row + lane_row() + e / 2 * 8, column + 8 * t + lane_column() + e % 2, d[t][e]);
}

/* Calls f(i, j, x, y) for pairs of neighbors in a row: elements (i, j) and (i, j + 1). */
template <int TILES, typename F> __device__ inline void each_pair(const float (&d)[TILES][4], int row, int column, F f)
{
#pragma unroll
    for (int t = 0; t < TILES; t++)
#pragma unroll
        for (int r = 0; r < 2; r++)
            f(row + lane_row() + 8 * r, column + 8 * t + lane_column(), d[t][2 * r], d[t][2 * r + 1]);
}

template <int TILES>
__device__ inline void to_tile(const float (&d)[TILES][4], int row, int column, bf16 *to, int stride)
{
    each_pair(d, row, column,
              [&](int i, int j, float x, float y) { *(uint32_t *)(to + i * stride + j) = pack_bf16(x, y); });
}

/* Sums over the rows of fragments: calls f(j, sum) on one lane for each column. */
template <int TILES, typename F> __device__ inline void column_sums(const float (&d)[TILES][4], int column, F f)
{
#pragma unroll
    for (int t = 0; t < TILES; t++)
#pragma unroll
        for (int e = 0; e < 2; e++) {
            float sum = d[t][e] + d[t][e + 2];
            for (int step = 4; step < WARP; step *= 2) sum += __shfl_xor_sync(0xFFFFFFFFu, sum, step);
            if (lane_row() == 0) f(column + 8 * t + lane_column() + e, sum);
        }
}

/* Sums over the columns: f(i, sum) on one lane for each row. */
template <int TILES, typename F> __device__ inline void row_sums(const float (&d)[TILES][4], int row, F f)
{
#pragma unroll
    for (int r = 0; r < 2; r++) {
        float sum = 0.0f;
#pragma unroll
        for (int t = 0; t < TILES; t++) sum += d[t][2 * r] + d[t][2 * r + 1];
        sum += __shfl_xor_sync(0xFFFFFFFFu, sum, 1);
        sum += __shfl_xor_sync(0xFFFFFFFFu, sum, 2);
        if (lane_column() == 0) f(row + lane_row() + 8 * r, sum);
    }
}

/* The 16 x 32 parts of an m x n product, one after the other by warp: f(row, column). */
template <typename F> __device__ inline void warp_parts(int m, int n, F f)
{
    const int rows = m / 16;
    for (int at = warp_id(); at < rows * (n / 32); at += TILE_WARPS) f(at % rows * 16, at / rows * 32);
}

} // namespace memories

/* The kernels for bfloat16 on tensor cores (gla_fast.cu, delta_fast.cu). */
bo_gpu_error add_query_heads(bo_gpu *cuda, const bo_gpu_memory *a); /* sums of dk_parts, … (memory.cu) */
bo_gpu_error gla_fast_memories(bo_gpu *cuda, const bo_gpu_memory *a);
bo_gpu_error gla_fast_outputs(bo_gpu *cuda, const bo_gpu_memory *a);
bo_gpu_error gla_fast_gradients(bo_gpu *cuda, const bo_gpu_memory *a);
bo_gpu_error delta_fast_memories(bo_gpu *cuda, const bo_gpu_memory *a);
bo_gpu_error delta_fast_outputs(bo_gpu *cuda, const bo_gpu_memory *a);
bo_gpu_error delta_fast_gradients(bo_gpu *cuda, const bo_gpu_memory *a);

} // namespace bo

#endif
