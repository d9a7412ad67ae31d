/* Prediction kernels of kernel machines besides GEMM. Memory-bound: feature_center reads 4 bytes and writes 8 per
 * feature, row_squares reads 8. */
#include "device.cuh"
#include "launches.cuh"

namespace bo {

enum { THREADS = 256, MAX_ROWS = 32768 };

/* Rounds as feature_round.cu and the CPU do. */
__device__ inline float rounded(float z, float quantum)
{
    if (!(quantum > 0)) return z;
    return rintf(fminf(fmaxf(z * (1.0f / quantum), -127.0f), 127.0f)) * quantum; /* exact: a power of two */
}

/* A thread computes a feature of several rows, and a pick of them. */
__global__ void feature_center_kernel(bo_gpu_feature_center a)
{
    const size_t j = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    for (size_t row = blockIdx.y; row < a.rows; row += gridDim.y) {
        const float *z = a.z + row * a.features;
        if (j < a.features) a.wide[row * a.features + j] = (double)rounded(z[j], a.quantum) - a.center[j];
        if (j < a.picks_count) a.picks[row * a.picks_count + j] = (double)rounded(z[a.picked[j]], a.quantum);
    }
}

bo_gpu_error feature_center(bo_gpu *cuda, const bo_gpu_feature_center *a)
{
    const dim3 grid((unsigned)ceil_div(max(a->features, a->picks_count), THREADS),
                    (unsigned)min(a->rows, (size_t)MAX_ROWS));
    return launch(cuda, grid, dim3(THREADS), 0, feature_center_kernel, *a);
}

template <typename T> __global__ void factor_unpack_kernel(bo_gpu_factor_unpack a)
{
    const size_t j = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    const T *packed = (const T *)a.packed;
    for (size_t i = blockIdx.y; i < a.n; i += gridDim.y)
        if (j <= i) a.l[i * a.ldl + j] = (double)packed[i * (i + 1) / 2 + j];
}

bo_gpu_error factor_unpack(bo_gpu *cuda, const bo_gpu_factor_unpack *a)
{
    const dim3 grid((unsigned)ceil_div(a->n, THREADS), (unsigned)min(a->n, (size_t)MAX_ROWS));
    return launch(cuda, grid, dim3(THREADS), 0,
                  a->type == BO_ELEMENT_FLOAT64 ? factor_unpack_kernel<double> : factor_unpack_kernel<float>, *a);
}

/* A warp sums a row. */
__global__ void row_squares_kernel(bo_gpu_row_squares a)
{
    const size_t row = ((size_t)blockIdx.x * blockDim.x + threadIdx.x) / WARP, lane = threadIdx.x % WARP;
    if (row >= a.rows) return;
    const double *x = a.x + row * a.ld;
    double sum = 0;
    for (size_t j = lane; j < a.columns; j += WARP) sum += a.divisor ? x[j] * x[j] / a.divisor[j] : x[j] * x[j];
    sum = warp_sum_double(sum);
    if (lane == 0) a.out[row] = a.subtract ? fmax(a.out[row] - sum, 0.0) : sum;
}

bo_gpu_error row_squares(bo_gpu *cuda, const bo_gpu_row_squares *a)
{
    return launch(cuda, dim3((unsigned)ceil_div(a->rows * WARP, THREADS)), dim3(THREADS), 0, row_squares_kernel, *a);
}

} // namespace bo
