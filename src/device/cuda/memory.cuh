/* Helpers of engines with a matrix-valued memory: chunks of tokens, states, and row normalization. */
#ifndef BO_CUDA_MEMORY_CUH
#define BO_CUDA_MEMORY_CUH

#include "attention.cuh"
#include "tile.cuh"

namespace bo {

/* ---- chunks ------------------------------------------------------------------------------------------------------ */

/* Tokens `row` … `row + tokens - 1`; tokens 0: the tile is not used. */
struct chunk {
    int sequence, tokens;
    size_t row;
};

__device__ inline chunk chunk_of(const bo_gpu_rows &rows, int C, int tile)
{
    row_tile found = {};
    const bool used = find_tile(rows, C, tile, &found);
    return {found.sequence, used ? min(C, found.length - found.first) : 0, (size_t)(found.start + found.first)};
}

/* ---- arrays ------------------------------------------------------------------------------------------------------ */

/* Row `row` of a head in a workspace array of `heads` heads of `width` elements; NULL if the array is NULL. */
template <typename T> __device__ inline T *row_at(T *array, size_t row, int heads, int head, int width)
{
    return array ? array + (row * (size_t)heads + (size_t)head) * (size_t)width : nullptr;
}

/* The matrix of a key head in a state: dim x value_dim. */
__device__ inline float *state_memory(const bo_gpu_attention &call, int sequence, int key_head)
{
    return (float *)((char *)call.states[sequence] + sizeof(bo_state_header) +
                     (size_t)key_head * (call.sums_bytes + call.kept_bytes));
}

/* The matrix of a chunk and key head in an array of them. */
template <typename T> __device__ inline T *chunk_memory(T *array, const bo_gpu_attention &call, int tile, int key_head)
{
    return array + ((size_t)tile * (size_t)call.key_heads + (size_t)key_head) * (size_t)(call.dim * call.value_dim);
}

/* ---- rows -------------------------------------------------------------------------------------------------------- */

/* e of x / (|x| + e) */
#define BO_UNIT_EPSILON 1e-3f

/* Reads rows of q or k into a tile, times factor(row); `unit`: as x / (|x| + e), one warp per row. */
template <typename E, typename T, typename Factor>
__device__ inline void unit_load(E *to, int stride, int padded, int rows, int columns, const T *from, size_t ld,
                                 bool unit, Factor factor)
{
    if (!unit) {
        tile_load(to, stride, padded, rows, columns, from, ld, factor);
        return;
    }
    const int lane = (int)(threadIdx.x % WARP), width = tile_pad(columns);
    for (int i = (int)(threadIdx.x / WARP); i < padded; i += TILE_WARPS) {
        const T *x = from + (size_t)i * ld;
        float square = 0.0f;
        for (int j = lane; i < rows && j < columns; j += WARP) square = fmaf(to_float(x[j]), to_float(x[j]), square);
        const float times = i < rows ? factor(i) / (sqrtf(warp_sum(square)) + BO_UNIT_EPSILON) : 0.0f;
        for (int j = lane; j < width; j += WARP)
            to[i * stride + j] = from_float<E>(i < rows && j < columns ? times * to_float(x[j]) : 0.0f);
    }
}

/* Writes dx = scale dt or, for t = scale x / (n + e) with n = |x|, dx = scale (dt / (n + e) - x (x·dt) / (n (n + e)²)).
 * dt is a tile; x and dx are rows in global memory, ldx and lddx elements apart. */
template <typename T>
__device__ inline void unit_store(const float *dt, int stride, int rows, int columns, bool unit, float scale,
                                  const T *x, size_t ldx, T *dx, size_t lddx)
{
    const int lane = (int)(threadIdx.x % WARP);
    for (int i = (int)(threadIdx.x / WARP); i < rows; i += TILE_WARPS) {
        const float *d = dt + i * stride;
        const T *from = x + (size_t)i * ldx;
        float square = 0.0f, inner = 0.0f;
        for (int j = lane; unit && j < columns; j += WARP) {
            const float xj = to_float(from[j]);
            square = fmaf(xj, xj, square), inner = fmaf(xj, d[j], inner);
        }
        float factor = scale, along = 0.0f;
        if (unit) {
            const float n = sqrtf(warp_sum(square)), over = 1.0f / (n + BO_UNIT_EPSILON);
            inner = warp_sum(inner);
            factor = scale * over, along = n > 0.0f ? scale * inner * over * over / n : 0.0f;
        }
        for (int j = lane; j < columns; j += WARP)
            dx[(size_t)i * lddx + j] = from_float<T>(d[j] * factor - (unit ? to_float(from[j]) * along : 0.0f));
    }
}

/* Clamps a log gate to at least -1e8: the past decays to zero anyway, and sums stay precise. */
__device__ inline float clamp_gate(float log_gate)
{
    return fmaxf(log_gate, -1e8f);
}

} // namespace bo

#endif
