/* Features of kernel machines from their projections. Memory-bound: reads u (4 bytes) and writes every feature (4 or 8
 * bytes) once; for 4096 rows of 8192 features in float32 (sincos) 67 MB + 134 MB, 0.05 ms on an H200. */
#include "device.cuh"
#include "launches.cuh"

namespace bo {

enum { THREADS = 256, MOST_ROWS = 32768 };

/* h of every row, by one warp: the products of x are formed in double, as on the CPU. */
__global__ void feature_norm_kernel(size_t rows, size_t dim, const float *x, const float *square, double *norm)
{
    const size_t row = ((size_t)blockIdx.x * blockDim.x + threadIdx.x) / WARP;
    if (row >= rows) return;
    double sum = 0;
    for (size_t j = threadIdx.x % WARP; j < dim; j += WARP)
        sum += (double)square[j] * (double)x[row * dim + j] * (double)x[row * dim + j];
    for (int step = WARP / 2; step > 0; step /= 2) sum += __shfl_xor_sync(0xFFFFFFFFu, sum, step);
    if (threadIdx.x % WARP == 0) norm[row] = sum;
}

__device__ inline float feature_of(bo_gpu_function function, float u, float shift, float amplitude, float norm)
{
    switch (function) {
    case BO_GPU_COS:
        return amplitude * cosf(u + shift);
    case BO_GPU_RELU:
        return u > 0 ? amplitude * u : 0.0f;
    case BO_GPU_EXP:
        return expf(u + (shift + norm));
    default:
        return u;
    }
}

/* A thread computes one frequency, or one of the other columns, of several rows. */
template <typename T> __global__ void feature_map_kernel(bo_gpu_feature_map a)
{
    const size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= a.frequencies + a.others) return;
    const bool other = i >= a.frequencies, mapped = !other && a.function != BO_GPU_IDENTITY;
    const float shift = mapped ? a.shift[i] : 0.0f, amplitude = mapped ? a.amplitude[i] : 1.0f;
    for (size_t row = blockIdx.y; row < a.rows; row += gridDim.y) {
        T *z = (T *)a.z + row * a.ldz;
        if (other) {
            const size_t t = i - a.frequencies;
            z[a.features + t] = (T)a.columns[row * a.others + t];
            continue;
        }
        const float u = a.u[row * a.frequencies + i], norm = a.square ? (float)a.norm[row] : 0.0f;
        const float root = a.root ? a.root[row] : 1.0f;
        if (a.function == BO_GPU_SINCOS) {
            const float scale = a.square ? amplitude * expf(norm) : amplitude;
            float s, c;
            sincosf(u, &s, &c);
            z[i] = (T)(scale * c * root);
            z[a.frequencies + i] = (T)(scale * s * root);
        } else {
            z[i] = (T)(feature_of(a.function, u, shift, amplitude, norm) * root);
        }
    }
}

bo_gpu_error feature_map(bo_gpu *cuda, const bo_gpu_feature_map *a)
{
    if (a->square) {
        bo_gpu_error error = launch(cuda, dim3((unsigned)ceil_div(a->rows * WARP, THREADS)), dim3(THREADS), 0,
                                     feature_norm_kernel, a->rows, a->dim, a->x, a->square, a->norm);
        if (error) return error;
    }
    const dim3 grid((unsigned)ceil_div(a->frequencies + a->others, THREADS), (unsigned)min(a->rows, (size_t)MOST_ROWS));
    return launch(cuda, grid, dim3(THREADS), 0,
                  a->type == BO_ELEMENT_FLOAT64 ? feature_map_kernel<double> : feature_map_kernel<float>, *a);
}

/* ---- rounding ---------------------------------------------------------------------------------------------------- */

enum { TILE = 64, TILE_THREADS = 256 };

/* A block rounds a tile of TILE x TILE numbers, and transposes it in shared memory: rows of q are written in runs of 64
 * bytes. */
__global__ void feature_round_kernel(bo_gpu_feature_round a)
{
    __shared__ int8_t tile[TILE][TILE + 4];
    const size_t row0 = (size_t)blockIdx.y * TILE, column0 = (size_t)blockIdx.x * TILE;
    const float inverse = 1.0f / a.quantum; /* exact: the quantum is a power of two */
    for (int k = (int)threadIdx.x; k < TILE * TILE; k += TILE_THREADS) {
        const size_t row = row0 + (size_t)(k / TILE), column = column0 + (size_t)(k % TILE);
        int8_t q = 0;
        if (row < a.rows && column < a.features) {
            double *z = a.z + row * a.ldz + column;
            q = (int8_t)rintf(fminf(fmaxf((float)*z * inverse, -127.0f), 127.0f));
            *z = (double)q * (double)a.quantum;
        }
        tile[k % TILE][k / TILE] = q;
    }
    __syncthreads();
    for (int k = (int)threadIdx.x; k < TILE * TILE; k += TILE_THREADS) {
        const size_t column = column0 + (size_t)(k / TILE), row = row0 + (size_t)(k % TILE);
        if (column < a.features && row < a.ldq) a.q[column * a.ldq + row] = tile[k / TILE][k % TILE];
    }
}

bo_gpu_error feature_round(bo_gpu *cuda, const bo_gpu_feature_round *a)
{
    const dim3 grid((unsigned)ceil_div(a->features, TILE), (unsigned)ceil_div(a->ldq, TILE));
    return launch(cuda, grid, dim3(TILE_THREADS), 0, feature_round_kernel, *a);
}

} // namespace bo
