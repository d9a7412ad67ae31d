/* Kernels of linear layers besides GEMM: weight conversion, column sums, residuals.
 *
 * recast:      reads and writes every element once: 6 bytes per weight from float32 to bfloat16.
 * sum_columns: reads x once (sizeof(T) bytes per element); the partial sums are at most 1/32 of that for 64 rows each.
 * store_scaled:  reads and writes every element once. */
#include "device.cuh"
#include "launches.cuh"
#include "stored.cuh"

namespace bo {

enum { THREADS = 256, EACH = 8, TILE = THREADS * EACH };

/* ---- types of weights -------------------------------------------------------------------------------------------- */

/* Element i of a matrix, in row-major order. */
__device__ inline float stored_number(const bo_gpu_recast_item &item, size_t i)
{
    if (item.stored == BO_ELEMENT_FLOAT32) return static_cast<const float *>(item.from)[i];
    if (item.stored == BO_ELEMENT_BFLOAT16) return to_float(static_cast<const bf16 *>(item.from)[i]);
    const unsigned char *line =
        static_cast<const unsigned char *>(item.from) + i / item.columns * stored_line(item.stored, item.columns);
    return item.stored == BO_ELEMENT_INT8 ? s8_number(line, item.columns, i % item.columns)
                                          : s4_number(line, item.columns, i % item.columns);
}

__device__ inline void stored_numbers(const bo_gpu_recast_item &item, size_t first, float (&x)[EACH])
{
    const size_t count = item.rows * item.columns;
    if (first + EACH <= count && item.stored == BO_ELEMENT_FLOAT32) {
        const pack<float, 4> *from =
            reinterpret_cast<const pack<float, 4> *>(static_cast<const float *>(item.from) + first);
        const pack<float, 4> a = from[0], b = from[1];
        for (int i = 0; i < 4; i++) x[i] = a.at[i], x[4 + i] = b.at[i];
    } else {
        for (int i = 0; i < EACH; i++) x[i] = first + i < count ? stored_number(item, first + i) : 0.0f;
    }
}

struct recast_blocks {
    unsigned first[BO_GPU_RECASTS + 1]; /* the first block of each item */
};

__global__ void recast_kernel(bo_gpu_recast a, recast_blocks blocks)
{
    int at = 0;
    unsigned begin = 0;
    for (int i = 1; i < BO_GPU_RECASTS; i++)
        if (blockIdx.x >= blocks.first[i]) at = i, begin = blocks.first[i];
    const bo_gpu_recast_item &item = a.items[at];
    const size_t first = (size_t)(blockIdx.x - begin) * TILE + (size_t)threadIdx.x * EACH,
                 end = item.padded_rows * item.columns;
    if (first >= end) return;
    float x[EACH];
    stored_numbers(item, first, x);
    if (first + EACH > end) {
        for (int i = 0; i < EACH; i++) {
            if (first + i >= end) break;
            if (item.to_type == BO_ELEMENT_BFLOAT16)
                static_cast<bf16 *>(item.to)[first + i] = from_float<bf16>(x[i]);
            else
                static_cast<float *>(item.to)[first + i] = x[i];
        }
    } else if (item.to_type == BO_ELEMENT_BFLOAT16) {
        pack<bf16, EACH> out;
        for (int i = 0; i < EACH; i++) out.at[i] = from_float<bf16>(x[i]);
        *reinterpret_cast<pack<bf16, EACH> *>(static_cast<bf16 *>(item.to) + first) = out;
    } else {
        pack<float, 4> *to = reinterpret_cast<pack<float, 4> *>(static_cast<float *>(item.to) + first);
        pack<float, 4> low, high;
        for (int i = 0; i < 4; i++) low.at[i] = x[i], high.at[i] = x[4 + i];
        to[0] = low, to[1] = high;
    }
}

bo_gpu_error recast(bo_gpu *cuda, const bo_gpu_recast *a)
{
    recast_blocks blocks = {};
    for (size_t i = 0; i < BO_GPU_RECASTS; i++) {
        const size_t numbers = i < a->count ? a->items[i].padded_rows * a->items[i].columns : 0;
        blocks.first[i + 1] = blocks.first[i] + (unsigned)ceil_div(numbers, TILE);
    }
    return launch(cuda, dim3(blocks.first[BO_GPU_RECASTS]), dim3(THREADS), 0, recast_kernel, *a, blocks);
}

/* ---- residuals --------------------------------------------------------------------------------------------------- */

template <typename F, typename T>
__global__ void store_scaled_kernel(size_t count, float factor, bool accumulate, const F *from, T *to)
{
    const size_t first = ((size_t)blockIdx.x * blockDim.x + threadIdx.x) * 4;
    if (first + 4 <= count) {
        const pack<F, 4> in = *reinterpret_cast<const pack<F, 4> *>(from + first);
        pack<T, 4> out = {};
        if (accumulate) out = *reinterpret_cast<const pack<T, 4> *>(to + first);
        for (int i = 0; i < 4; i++)
            out.at[i] = from_float<T>(factor * to_float(in.at[i]) + (accumulate ? to_float(out.at[i]) : 0.0f));
        *reinterpret_cast<pack<T, 4> *>(to + first) = out;
        return;
    }
    for (size_t i = first; i < count; i++)
        to[i] = from_float<T>(factor * to_float(from[i]) + (accumulate ? to_float(to[i]) : 0.0f));
}

template <typename F, typename T> static bo_gpu_error store_scaled_typed(bo_gpu *cuda, const bo_gpu_store_scaled *a)
{
    return launch(cuda, dim3((unsigned)ceil_div(a->count, THREADS * 4)), dim3(THREADS), 0, store_scaled_kernel<F, T>,
                  a->count, a->factor, a->accumulate, (const F *)a->from, (T *)a->to);
}

bo_gpu_error store_scaled(bo_gpu *cuda, const bo_gpu_store_scaled *a)
{
    if (a->from_type == BO_ELEMENT_FLOAT32)
        return a->to_type == BO_ELEMENT_FLOAT32 ? store_scaled_typed<float, float>(cuda, a)
                                                : store_scaled_typed<float, bf16>(cuda, a);
    return a->to_type == BO_ELEMENT_FLOAT32 ? store_scaled_typed<bf16, float>(cuda, a)
                                            : store_scaled_typed<bf16, bf16>(cuda, a);
}

/* ---- sums of columns --------------------------------------------------------------------------------------------- */

enum { WARPS = THREADS / WARP };

/* Block (x, y) sums part y of the rows for V WARP columns; warp w sums the rows w, w + WARPS, … of the part. */
template <typename T, int V>
__global__ void sum_columns_kernel(size_t rows, size_t columns, size_t ld, size_t part_rows, const T *x, float *partial)
{
    __shared__ float smem[WARPS][V * WARP];
    const int lane = (int)(threadIdx.x % WARP), warp = (int)(threadIdx.x / WARP);
    const size_t column = ((size_t)blockIdx.x * WARP + lane) * V;
    const size_t first = blockIdx.y * part_rows, end = first + part_rows < rows ? first + part_rows : rows;
    float sums[V] = {};
    if (column < columns) {
        for (size_t r = first + warp; r < end; r += WARPS) {
            const pack<T, V> in = *reinterpret_cast<const pack<T, V> *>(x + r * ld + column);
            for (int i = 0; i < V; i++) sums[i] += to_float(in.at[i]);
        }
    }
    for (int i = 0; i < V; i++) smem[warp][lane * V + i] = sums[i];
    __syncthreads();
    for (int i = (int)threadIdx.x; i < V * WARP; i += THREADS) {
        const size_t out_column = (size_t)blockIdx.x * WARP * V + i;
        if (out_column >= columns) continue;
        float sum = 0;
        for (int w = 0; w < WARPS; w++) sum += smem[w][i];
        partial[blockIdx.y * columns + out_column] = sum;
    }
}

template <typename T>
__global__ void sum_parts_kernel(size_t parts, size_t columns, const float *partial, bool accumulate, T *out)
{
    const size_t column = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (column >= columns) return;
    double sum = accumulate ? (double)to_float(out[column]) : 0;
    for (size_t p = 0; p < parts; p++) sum += (double)partial[p * columns + column];
    out[column] = from_float<T>((float)sum);
}

template <typename T, int V> static bo_gpu_error sum_columns_typed(bo_gpu *cuda, const bo_gpu_sum_columns *a)
{
    const dim3 grid((unsigned)ceil_div(a->columns, WARP * V), (unsigned)a->parts);
    return launch(cuda, grid, dim3(THREADS), 0, sum_columns_kernel<T, V>, a->rows, a->columns, a->ld,
                  ceil_div(a->rows, a->parts), (const T *)a->x, a->partial);
}

bo_gpu_error sum_columns(bo_gpu *cuda, const bo_gpu_sum_columns *a)
{
    const bool wide = a->columns % 4 == 0 && a->ld % 4 == 0;
    bo_gpu_error error;
    if (a->type == BO_ELEMENT_FLOAT32)
        error = wide ? sum_columns_typed<float, 4>(cuda, a) : sum_columns_typed<float, 1>(cuda, a);
    else
        error = wide ? sum_columns_typed<bf16, 4>(cuda, a) : sum_columns_typed<bf16, 1>(cuda, a);
    if (error) return error;
    const dim3 grid((unsigned)ceil_div(a->columns, THREADS));
    if (a->out_type == BO_ELEMENT_FLOAT32)
        return launch(cuda, grid, dim3(THREADS), 0, sum_parts_kernel<float>, a->parts, a->columns, a->partial,
                      a->accumulate, (float *)a->out);
    return launch(cuda, grid, dim3(THREADS), 0, sum_parts_kernel<bf16>, a->parts, a->columns, a->partial, a->accumulate,
                  (bf16 *)a->out);
}

} // namespace bo
