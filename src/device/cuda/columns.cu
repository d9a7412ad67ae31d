/* Sums over rows: see columns.cuh. Reads every element once; a block sums 32 columns with 16 threads per column. */
#include "columns.cuh"

namespace bo {

enum { ADD_PARTS = 16 };

__global__ void add_rows_kernel(const float *from, size_t rows, size_t columns, size_t apart, bo_gpu_target first,
                                bo_gpu_target second)
{
    __shared__ double parts[ADD_PARTS][COLUMN_LANES];
    const size_t column = (size_t)blockIdx.x * COLUMN_LANES + threadIdx.x;
    const bo_gpu_target to = blockIdx.y ? second : first;
    double sum = 0;
    if (!to.at) return;
    from += blockIdx.y * columns;
    for (size_t r = threadIdx.y; column < columns && r < rows; r += ADD_PARTS) sum += (double)from[r * apart + column];
    parts[threadIdx.y][threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.y || column >= columns) return;
    for (int p = 1; p < ADD_PARTS; p++) sum += parts[p][threadIdx.x];
    write_one(to, column, (float)sum);
}

bo_gpu_error add_rows(bo_gpu *cuda, const float *from, size_t rows, size_t columns, size_t apart, bo_gpu_target first,
                      bo_gpu_target second)
{
    return launch(cuda, dim3((unsigned)ceil_div(columns, COLUMN_LANES), 2), dim3(COLUMN_LANES, ADD_PARTS), 0,
                  add_rows_kernel, from, rows, columns, apart, first, second);
}

} // namespace bo
