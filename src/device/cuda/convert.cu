/* Type conversion, and detection of NaNs and infinities. */
#include "device.cuh"
#include "launches.cuh"

namespace bo {

enum { THREADS = 256, EACH = 4 };

template <typename F, typename T> __global__ void convert_kernel(size_t count, const F *from, T *to)
{
    size_t first = ((size_t)blockIdx.x * blockDim.x + threadIdx.x) * EACH;
    if (first + EACH <= count) {
        pack<F, EACH> in = *reinterpret_cast<const pack<F, EACH> *>(from + first);
        pack<T, EACH> out;
        for (int i = 0; i < EACH; i++) out.at[i] = from_float<T>(to_float(in.at[i]));
        *reinterpret_cast<pack<T, EACH> *>(to + first) = out;
        return;
    }
    for (size_t i = first; i < count; i++) to[i] = from_float<T>(to_float(from[i]));
}

template <typename F, typename T> static bo_gpu_error convert_typed(bo_gpu *cuda, const bo_gpu_convert *a)
{
    return launch(cuda, dim3((unsigned)ceil_div(a->count, THREADS * EACH)), dim3(THREADS), 0, convert_kernel<F, T>,
                  a->count, (const F *)a->from, (T *)a->to);
}

bo_gpu_error convert(bo_gpu *cuda, const bo_gpu_convert *a)
{
    if (a->from_type == BO_ELEMENT_FLOAT32)
        return a->to_type == BO_ELEMENT_FLOAT32 ? convert_typed<float, float>(cuda, a)
                                                : convert_typed<float, bf16>(cuda, a);
    return a->to_type == BO_ELEMENT_FLOAT32 ? convert_typed<bf16, float>(cuda, a) : convert_typed<bf16, bf16>(cuda, a);
}

__global__ void set_kernel(int32_t *out, int32_t value)
{
    *out = value;
}

/* All threads that find a NaN or infinity write the same value. */
template <typename T> __global__ void finite_kernel(size_t count, const T *x, int32_t *out)
{
    size_t step = (size_t)gridDim.x * blockDim.x;
    bool all = true;
    for (size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step)
        all &= isfinite(to_float(x[i])) != 0;
    if (!all) *out = 0;
}

bo_gpu_error finite(bo_gpu *cuda, const bo_gpu_finite *a)
{
    size_t blocks = ceil_div(a->count, THREADS);
    dim3 grid((unsigned)(blocks < 1024 ? blocks : 1024));
    if (bo_gpu_error error = launch(cuda, dim3(1), dim3(1), 0, set_kernel, a->out, 1)) return error;
    return a->type == BO_ELEMENT_FLOAT32
               ? launch(cuda, grid, dim3(THREADS), 0, finite_kernel<float>, a->count, (const float *)a->x, a->out)
               : launch(cuda, grid, dim3(THREADS), 0, finite_kernel<bf16>, a->count, (const bf16 *)a->x, a->out);
}

/* ---- argmax of rows --------------------------------------------------------------------------------- */

/* Keeps the larger value; if both are equal, the smaller column. NaN never replaces a number. */
__device__ inline void keep_larger(float *x, int *column, float other, int other_column)
{
    if (other > *x || (other == *x && other_column < *column)) *x = other, *column = other_column;
}

/* One block per row: reads it once. */
__global__ void largest_kernel(int columns, const float *x, int32_t *out)
{
    __shared__ float best[THREADS / WARP];
    __shared__ int place[THREADS / WARP];
    const float *row = x + (size_t)blockIdx.x * (size_t)columns;
    float largest = -INFINITY;
    int column = columns;
    for (int j = (int)threadIdx.x; j < columns; j += THREADS) keep_larger(&largest, &column, row[j], j);
    for (int step = WARP / 2; step > 0; step /= 2) {
        float other = __shfl_xor_sync(0xFFFFFFFFu, largest, step);
        int other_column = __shfl_xor_sync(0xFFFFFFFFu, column, step);
        keep_larger(&largest, &column, other, other_column);
    }
    if (threadIdx.x % WARP == 0) best[threadIdx.x / WARP] = largest, place[threadIdx.x / WARP] = column;
    __syncthreads();
    if (threadIdx.x > 0) return;
    for (int w = 1; w < THREADS / WARP; w++) keep_larger(&largest, &column, best[w], place[w]);
    out[blockIdx.x] = column < columns ? column : 0;
}

bo_gpu_error largest(bo_gpu *cuda, const bo_gpu_largest *a)
{
    return launch(cuda, dim3((unsigned)a->rows), dim3(THREADS), 0, largest_kernel, (int)a->columns, a->x, a->out);
}

} // namespace bo
