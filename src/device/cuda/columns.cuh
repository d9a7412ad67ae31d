/* Sums of columns, in a fixed order: per part of the rows, then over the parts. */
#ifndef BO_CUDA_COLUMNS_CUH
#define BO_CUDA_COLUMNS_CUH

#include "arrays.cuh"

namespace bo {

/* ---- sums of columns --------------------------------------------------------------------------------------------- */

enum { COLUMN_LANES = 32, COLUMN_ROWS = 8 };

/* partial[(part N + n) columns + c] = Σ f(r, c, n) over the rows r of a part. f(r, c, values) computes N values. */
template <int N, typename F>
__global__ void column_sums_kernel(size_t rows, size_t columns, size_t each, F f, double *partial)
{
    __shared__ double sums[N][COLUMN_ROWS][COLUMN_LANES];
    const size_t column = (size_t)blockIdx.x * COLUMN_LANES + threadIdx.x, begin = blockIdx.y * each,
                 end = begin + each < rows ? begin + each : rows;
    double totals[N] = {};
    for (size_t r = begin + threadIdx.y; column < columns && r < end; r += COLUMN_ROWS) {
        double values[N];
        f(r, column, values);
        for (int n = 0; n < N; n++) totals[n] += values[n];
    }
    for (int n = 0; n < N; n++) sums[n][threadIdx.y][threadIdx.x] = totals[n];
    __syncthreads();
    if (threadIdx.y || column >= columns) return;
    for (int n = 0; n < N; n++) {
        for (int p = 1; p < COLUMN_ROWS; p++) totals[n] += sums[n][p][threadIdx.x];
        partial[(blockIdx.y * (size_t)N + (size_t)n) * columns + column] = totals[n];
    }
}

/* Rows per part, for at most `parts` parts. */
inline size_t part_rows(size_t rows, size_t parts = BO_GPU_COLUMN_PARTS)
{
    const size_t each = ceil_div(rows, parts);
    return each < COLUMN_ROWS ? (size_t)COLUMN_ROWS : each;
}

/* Computes partial sums of columns, with `each` rows in a part. */
template <int N, typename F>
inline bo_gpu_error column_sums(bo_gpu *cuda, size_t rows, size_t each, size_t columns, F f, double *partial)
{
    return launch(cuda, dim3((unsigned)ceil_div(columns, COLUMN_LANES), (unsigned)ceil_div(rows, each)),
                  dim3(COLUMN_LANES, COLUMN_ROWS), 0, column_sums_kernel<N, F>, rows, columns, each, f, partial);
}

/* The identity: the elements of a matrix. */
struct column_level {
    bo_gpu_source x;
    size_t columns;
    __device__ void operator()(size_t r, size_t c, double (&values)[1]) const
    {
        values[0] = (double)read_one(x, r * columns + c);
    }
};

/* The sum over the parts of value `which` of column c. */
__device__ inline double column_total(const double *partial, size_t parts, int numbers, int which, size_t columns,
                                      size_t column)
{
    double total = 0;
    for (size_t p = 0; p < parts; p++) total += partial[(p * (size_t)numbers + (size_t)which) * columns + column];
    return total;
}

/* first[j] = Σ_i from[i apart + j] for `columns` columns, and second[j] = the same sums for the following columns.
 * Skips absent targets. */
bo_gpu_error add_rows(bo_gpu *cuda, const float *from, size_t rows, size_t columns, size_t apart, bo_gpu_target first,
                      bo_gpu_target second);

} // namespace bo

#endif
