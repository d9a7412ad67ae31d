/* Gram matrices of features, in float64. All kernels are memory-bound. */
#include "device.cuh"
#include "launches.cuh"

namespace bo {

enum { THREADS = 256, MAX_ROWS = 32768 };

static dim3 grid_of(size_t rows, size_t columns)
{
    return dim3((unsigned)ceil_div(columns, THREADS), (unsigned)min(rows, (size_t)MAX_ROWS));
}

/* Reads 4 + 8 and writes 8 bytes per element. */
template <typename T> __global__ void gram_add_kernel(bo_gpu_gram_add a)
{
    const size_t column = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (column >= a.columns) return;
    for (size_t row = blockIdx.y; row < a.rows; row += gridDim.y)
        a.g[row * a.ldg + column] += a.scale * (double)((const T *)a.s)[row * a.lds + column];
}

bo_gpu_error gram_add(bo_gpu *cuda, const bo_gpu_gram_add *a)
{
    return launch(cuda, grid_of(a->rows, a->columns), dim3(THREADS), 0,
                  a->type == BO_ELEMENT_INT32 ? gram_add_kernel<int32_t> : gram_add_kernel<float>, *a);
}

__global__ void gram_margins_kernel(bo_gpu_gram_margins a)
{
    const size_t columns = a.size - a.first, k = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (k < a.size * columns) a.columns[k] = a.g[k / columns * a.ldg + a.first + k % columns];
    if (k < a.size) a.diagonal[k] = a.g[k * a.ldg + k];
}

bo_gpu_error gram_margins(bo_gpu *cuda, const bo_gpu_gram_margins *a)
{
    const size_t count = a->size * (a->size - a->first);
    return launch(cuda, dim3((unsigned)ceil_div(count, THREADS)), dim3(THREADS), 0, gram_margins_kernel, *a);
}

enum { TILE = 32, TILE_ROWS = 8 };

/* Transposes tiles above the diagonal through shared memory: 8 bytes read and written per element. */
__global__ void gram_mirror_kernel(bo_gpu_gram_mirror a)
{
    __shared__ double tile[TILE][TILE + 1];
    if (blockIdx.x < blockIdx.y) return; /* below the diagonal */
    const size_t row0 = (size_t)blockIdx.y * TILE, column0 = (size_t)blockIdx.x * TILE, x = threadIdx.x;
    for (size_t y = threadIdx.y; y < TILE; y += TILE_ROWS)
        if (row0 + y < a.n && column0 + x < a.n) tile[y][x] = a.g[(row0 + y) * a.ldg + column0 + x];
    __syncthreads();
    for (size_t y = threadIdx.y; y < TILE; y += TILE_ROWS) {
        const size_t row = column0 + y, column = row0 + x;
        if (row < a.n && column < row) a.g[row * a.ldg + column] = tile[x][y];
    }
}

bo_gpu_error gram_mirror(bo_gpu *cuda, const bo_gpu_gram_mirror *a)
{
    const unsigned tiles = (unsigned)ceil_div(a->n, TILE);
    return launch(cuda, dim3(tiles, tiles), dim3(TILE, TILE_ROWS), 0, gram_mirror_kernel, *a);
}

/* Reads and writes 8 bytes per element of the upper triangle. */
__global__ void ridge_assemble_kernel(bo_gpu_ridge_assemble a)
{
    const size_t column = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (column >= a.n) return;
    const double pull = a.weight * a.center[column];
    for (size_t row = blockIdx.y; row <= column; row += gridDim.y) {
        double value = a.g[row * a.ldg + column] - a.center[row] * pull;
        a.a[row * a.lda + column] = row == column ? value + a.penalty[row] : value;
    }
}

bo_gpu_error ridge_assemble(bo_gpu *cuda, const bo_gpu_ridge_assemble *a)
{
    return launch(cuda, grid_of(a->n, a->n), dim3(THREADS), 0, ridge_assemble_kernel, *a);
}

} // namespace bo
