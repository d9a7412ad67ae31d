/* Batch normalization (1502.03167). Memory-bound: training reads x three times forward; backward reads x and dy twice.
 * The formulas are in backend/cpu/batch_norm.c; sums are in double. */
#include "columns.cuh"
#include "launches.cuh"

namespace bo {

enum { BATCH_THREADS = 128 };

struct squares_of {
    bo_gpu_source x;
    size_t columns;
    const float *mean;
    __device__ void operator()(size_t r, size_t c, double (&values)[1]) const
    {
        const double from = (double)read_one(x, r * columns + c) - (double)mean[c];
        values[0] = from * from;
    }
};

__global__ void batch_mean_kernel(bo_gpu_batch_norm a, size_t parts)
{
    const size_t column = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (column >= a.columns) return;
    a.mean[column] = (float)(column_total(a.partial, parts, 1, 0, a.columns, column) / (double)a.rows);
}

__device__ inline void move_toward(float *kept, double momentum, double value)
{
    *kept = (float)((1 - momentum) * (double)*kept + momentum * value);
}

/* The variance about the rounded mean is the variance about the exact mean plus the square of the difference. The first
 * half of `partial` has the sums of x, the second half the sums of squares. */
__global__ void batch_rate_kernel(bo_gpu_batch_norm a, size_t parts)
{
    const size_t column = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (column >= a.columns) return;
    if (!a.training) {
        a.mean[column] = a.running_mean[column];
        a.rate[column] = (float)(1 / sqrt((double)a.running_variance[column] + a.epsilon));
        return;
    }
    const double rows = (double)a.rows, mean = column_total(a.partial, parts, 1, 0, a.columns, column) / rows,
                 off = mean - (double)a.mean[column],
                 about = column_total(a.partial + parts * a.columns, parts, 1, 0, a.columns, column),
                 squares = fmax(about - rows * off * off, 0.0);
    a.rate[column] = (float)(1 / sqrt(squares / rows + a.epsilon));
    if (!a.moves) return;
    move_toward(&a.running_mean[column], a.momentum, mean);
    move_toward(&a.running_variance[column], a.momentum, squares / (rows - 1));
}

struct batch_map {
    bo_gpu_source gain, bias;
    const float *mean, *rate;
    size_t count, columns;
    __device__ void operator()(const float (&x)[1][OCTET], float (&y)[1][OCTET], size_t first) const
    {
        size_t column = first % columns;
        for (int i = 0; i < OCTET && first + (size_t)i < count; i++) {
            y[0][i] = (x[0][i] - mean[column]) * rate[column] * read_one(gain, column) + read_one(bias, column);
            if (++column == columns) column = 0;
        }
    }
};

bo_gpu_error batch_norm(bo_gpu *cuda, const bo_gpu_batch_norm *a)
{
    const size_t parts = ceil_div(a->rows, part_rows(a->rows)), count = a->rows * a->columns;
    const dim3 grid((unsigned)ceil_div(a->columns, BATCH_THREADS)), block(BATCH_THREADS);
    if (a->training) {
        if (bo_gpu_error e = column_sums<1>(cuda, a->rows, part_rows(a->rows), a->columns,
                                            column_level{a->x, a->columns}, a->partial))
            return e;
        if (bo_gpu_error e = launch(cuda, grid, block, 0, batch_mean_kernel, *a, parts)) return e;
        if (bo_gpu_error e = column_sums<1>(cuda, a->rows, part_rows(a->rows), a->columns,
                                            squares_of{a->x, a->columns, a->mean}, a->partial + parts * a->columns))
            return e;
    }
    if (bo_gpu_error e = launch(cuda, grid, block, 0, batch_rate_kernel, *a, parts)) return e;
    return map_numbers(cuda, count, sources<1>{{a->x}}, targets<1>{{a->y}},
                       batch_map{a->gain, a->bias, a->mean, a->rate, count, a->columns});
}

/* ---- backward ---------------------------------------------------------------------------------------------------- */

/* Σ dy and Σ dy ∘ x̂ */
struct batch_gradients {
    bo_gpu_source x, dy;
    size_t columns;
    const float *mean, *rate;
    __device__ void operator()(size_t r, size_t c, double (&values)[2]) const
    {
        const float d = read_one(dy, r * columns + c);
        values[0] = (double)d;
        values[1] = (double)(d * ((read_one(x, r * columns + c) - mean[c]) * rate[c]));
    }
};

/* Writes dbias and dgain, and the sums of all parts to `totals`. */
__global__ void batch_totals_kernel(bo_gpu_batch_norm_back a, size_t parts, double *totals)
{
    const size_t column = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (column >= a.columns) return;
    const double level = column_total(a.partial, parts, 2, 0, a.columns, column),
                 along = column_total(a.partial, parts, 2, 1, a.columns, column);
    totals[column] = level, totals[a.columns + column] = along;
    if (a.dbias.at) write_one(a.dbias, column, (float)level);
    if (a.dgain.at) write_one(a.dgain, column, (float)along);
}

/* dx = gain r (dy - mean dy - x̂ mean(dy ∘ x̂)); outside training, gain r dy. */
struct batch_back_map {
    bool training;
    bo_gpu_source gain;
    const float *mean, *rate;
    const double *totals;
    size_t rows, columns;
    __device__ void operator()(const float (&x)[2][OCTET], float (&d)[1][OCTET], size_t first) const
    {
        size_t column = first % columns;
        for (int i = 0; i < OCTET && first + (size_t)i < rows * columns; i++) {
            float gradient = x[1][i];
            if (training) {
                const float level = (float)(totals[column] / (double)rows),
                            along = (float)(totals[columns + column] / (double)rows);
                gradient = gradient - level - (x[0][i] - mean[column]) * rate[column] * along;
            }
            d[0][i] = read_one(gain, column) * rate[column] * gradient;
            if (++column == columns) column = 0;
        }
    }
};

bo_gpu_error batch_norm_back(bo_gpu *cuda, const bo_gpu_batch_norm_back *a)
{
    const size_t parts = ceil_div(a->rows, part_rows(a->rows));
    double *totals = a->partial + 2 * parts * a->columns;
    if (bo_gpu_error e = column_sums<2>(cuda, a->rows, part_rows(a->rows), a->columns,
                                        batch_gradients{a->x, a->dy, a->columns, a->mean, a->rate}, a->partial))
        return e;
    if (bo_gpu_error e = launch(cuda, dim3((unsigned)ceil_div(a->columns, BATCH_THREADS)), dim3(BATCH_THREADS), 0,
                                batch_totals_kernel, *a, parts, totals))
        return e;
    if (!a->dx.at) return nullptr;
    return map_numbers(cuda, a->rows * a->columns, sources<2>{{a->x, a->dy}}, targets<1>{{a->dx}},
                       batch_back_map{a->training, a->gain, a->mean, a->rate, totals, a->rows, a->columns});
}

} // namespace bo
