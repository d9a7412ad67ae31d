/* Quantized features of kernel machines. Memory-bound: reads and writes 8 bytes and writes one per feature. */
#include "device.cuh"
#include "launches.cuh"

namespace bo {

enum { TILE = 64, TILE_THREADS = 256 };

/* A block rounds a tile of TILE x TILE elements and transposes it in shared memory: rows of q are written in runs of 64
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
