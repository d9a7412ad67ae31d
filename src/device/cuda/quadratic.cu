/* Pairs of elements for quadratic forms (gpu/matrix.h). All kernels are memory-bound: fold and expand write every pair
 * once, unfold reads it once, contract reads it twice (the second time from cache). */
#include "device.cuh"
#include "launches.cuh"

namespace bo {

enum { THREADS = 256 };

/* The index of pair (i, j), i <= j. */
__device__ inline size_t pair_place(size_t width, size_t i, size_t j)
{
    return i * width - i * (i + 1) / 2 + j;
}

/* One block per output and i: the pairs (i, i), (i, i + 1), … The block of i = 0 also writes the padding. */
template <typename O, typename T> __global__ void fold_kernel(bo_gpu_quadratic a)
{
    const size_t o = blockIdx.x, i = blockIdx.y, n = a.width, pairs = n * (n + 1) / 2;
    const O *w = static_cast<const O *>(a.w) + o * n * n;
    T *v = static_cast<T *>(a.v) + o * a.ld;
    for (size_t j = i + threadIdx.x; j < n; j += blockDim.x) {
        const float mirrored = j > i ? to_float(w[j * n + i]) : 0.0f;
        v[pair_place(n, i, j)] = from_float<T>(to_float(w[i * n + j]) + mirrored);
    }
    for (size_t p = pairs + threadIdx.x; i == 0 && p < a.ld; p += blockDim.x) v[p] = from_float<T>(0);
}

template <typename O> __global__ void unfold_kernel(bo_gpu_quadratic a)
{
    const size_t o = blockIdx.x, i = blockIdx.y, n = a.width;
    O *w = static_cast<O *>(a.w) + o * n * n + i * n;
    const float *v = static_cast<const float *>(a.v) + o * a.ld;
    for (size_t j = threadIdx.x; j < n; j += blockDim.x) {
        const float x = v[i < j ? pair_place(n, i, j) : pair_place(n, j, i)];
        w[j] = from_float<O>(a.accumulate ? x + to_float(w[j]) : x);
    }
}

/* One block per row. */
template <typename O, typename T> __global__ void expand_kernel(bo_gpu_quadratic a)
{
    BO_SHARED(memory);
    float *x = reinterpret_cast<float *>(memory);
    const size_t r = blockIdx.x, n = a.width, pairs = n * (n + 1) / 2;
    for (size_t i = threadIdx.x; i < n; i += blockDim.x) x[i] = to_float(static_cast<const O *>(a.x)[r * n + i]);
    __syncthreads();
    T *v = static_cast<T *>(a.v) + r * a.ld;
    for (size_t i = threadIdx.x / WARP; i < n; i += blockDim.x / WARP)
        for (size_t j = i + threadIdx.x % WARP; j < n; j += WARP) v[pair_place(n, i, j)] = from_float<T>(x[i] * x[j]);
    for (size_t p = pairs + threadIdx.x; p < a.ld; p += blockDim.x) v[p] = from_float<T>(0);
}

/* One block per row, one warp per element of dx; lanes process neighboring pairs (k, j). */
template <typename O> __global__ void contract_kernel(bo_gpu_quadratic a)
{
    BO_SHARED(memory);
    float *x = reinterpret_cast<float *>(memory);
    const size_t r = blockIdx.x, n = a.width, lane = threadIdx.x % WARP;
    for (size_t i = threadIdx.x; i < n; i += blockDim.x) x[i] = to_float(static_cast<const O *>(a.x)[r * n + i]);
    __syncthreads();
    const float *v = static_cast<const float *>(a.v) + r * a.ld;
    O *dx = static_cast<O *>(a.dx) + r * n;
    for (size_t k = threadIdx.x / WARP; k < n; k += blockDim.x / WARP) {
        float sum = 0;
        for (size_t j = k + lane; j < n; j += WARP) sum += v[pair_place(n, k, j)] * x[j];
        for (size_t i = lane; i <= k; i += WARP) sum += v[pair_place(n, i, k)] * x[i];
        sum = warp_sum(sum);
        if (lane == 0) dx[k] = from_float<O>(a.accumulate ? sum + to_float(dx[k]) : sum);
    }
}

static dim3 grid_of_outputs(const bo_gpu_quadratic *a)
{
    return dim3((unsigned)a->count, (unsigned)a->width);
}

bo_gpu_error quadratic_fold(bo_gpu *cuda, const bo_gpu_quadratic *a)
{
    if (a->type == BO_ELEMENT_FLOAT32)
        return launch(cuda, grid_of_outputs(a), dim3(THREADS), 0,
                      a->outer_type == BO_ELEMENT_FLOAT32 ? fold_kernel<float, float> : fold_kernel<bf16, float>, *a);
    return launch(cuda, grid_of_outputs(a), dim3(THREADS), 0,
                  a->outer_type == BO_ELEMENT_FLOAT32 ? fold_kernel<float, bf16> : fold_kernel<bf16, bf16>, *a);
}

bo_gpu_error quadratic_unfold(bo_gpu *cuda, const bo_gpu_quadratic *a)
{
    return launch(cuda, grid_of_outputs(a), dim3(THREADS), 0,
                  a->outer_type == BO_ELEMENT_FLOAT32 ? unfold_kernel<float> : unfold_kernel<bf16>, *a);
}

bo_gpu_error quadratic_expand(bo_gpu *cuda, const bo_gpu_quadratic *a)
{
    const dim3 grid((unsigned)a->count);
    const size_t shared = a->width * sizeof(float);
    if (a->type == BO_ELEMENT_FLOAT32)
        return launch(cuda, grid, dim3(THREADS), shared,
                      a->outer_type == BO_ELEMENT_FLOAT32 ? expand_kernel<float, float> : expand_kernel<bf16, float>,
                      *a);
    return launch(cuda, grid, dim3(THREADS), shared,
                  a->outer_type == BO_ELEMENT_FLOAT32 ? expand_kernel<float, bf16> : expand_kernel<bf16, bf16>, *a);
}

bo_gpu_error quadratic_contract(bo_gpu *cuda, const bo_gpu_quadratic *a)
{
    return launch(cuda, dim3((unsigned)a->count), dim3(THREADS), a->width * sizeof(float),
                  a->outer_type == BO_ELEMENT_FLOAT32 ? contract_kernel<float> : contract_kernel<bf16>, *a);
}

} // namespace bo
