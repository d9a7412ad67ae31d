/* Rounding, products, scaling and copies of columns. Memory-bound: every element is read and written once. */
#include "columns.cuh"
#include "launches.cuh"

namespace bo {

/* ---- rounding ---------------------------------------------------------------------------------------------------- */

/* Values >= `min_normal` have `mantissa` bits after the binary point; smaller values are multiples of one quantum. */
struct small_format {
    int mantissa;
    float min_normal, max_value, large; /* large: adding it rounds to whole quanta, ties to even */
};

static small_format format_of(bo_small_float kind)
{
    switch (kind) {
    case BO_SMALL_FLOAT_E4M3:
        return small_format{3, 0x1p-6f, 448, 0x1.8p23f * 0x1p-9f};
    case BO_SMALL_FLOAT_E5M2:
        return small_format{2, 0x1p-14f, 57344, 0x1.8p23f * 0x1p-16f};
    default: /* bfloat16: the exponents of float32 */
        return small_format{7, 0, 0x1.FEp127f, 0};
    }
}

struct round_map {
    bool rounds;
    small_format f;
    __device__ float one(float x) const
    {
        const float size = fabsf(x);
        const unsigned dropped = 23u - (unsigned)f.mantissa;
        unsigned bits = __float_as_uint(size);
        bits += (1u << (dropped - 1)) - 1 + (bits >> dropped & 1);
        const float normal = __uint_as_float(bits & ~((1u << dropped) - 1)),
                    y = size < f.min_normal ? (size + f.large) - f.large : normal;
        return isnan(x) ? x : copysignf(size >= f.max_value ? f.max_value : y, x);
    }
    __device__ void operator()(const float (&x)[1][OCTET], float (&y)[1][OCTET], size_t) const
    {
#pragma unroll
        for (int i = 0; i < OCTET; i++) y[0][i] = rounds ? one(x[0][i]) : x[0][i];
    }
};

bo_gpu_error round(bo_gpu *cuda, const bo_gpu_round *a)
{
    return map_numbers(cuda, a->count, sources<1>{{a->x}}, targets<1>{{a->y}},
                       round_map{a->format != BO_SMALL_FLOAT_NONE, format_of(a->format)});
}

/* ---- products ---------------------------------------------------------------------------------------------------- */

struct factor_powers {
    int factors;
    float power[BO_GPU_FACTORS]; /* 0: the factor itself */
    __device__ float of(int i, float a) const
    {
        return power[i] == 0 ? a : power[i] == 2 ? a * a : powf(fabsf(a), power[i]);
    }
};

struct product_map {
    factor_powers f;
    __device__ void operator()(const float (&x)[BO_GPU_FACTORS][OCTET], float (&y)[1][OCTET], size_t) const
    {
        for (int i = 0; i < OCTET; i++) {
            y[0][i] = f.of(0, x[0][i]);
#pragma unroll
            for (int k = 1; k < BO_GPU_FACTORS; k++)
                if (k < f.factors) y[0][i] *= f.of(k, x[k][i]);
        }
    }
};

/* x: the factors, then dy. |a|^p has the derivative p |a|^p / a, and 0 at 0. */
struct product_back_map {
    factor_powers f;
    __device__ void operator()(const float (&x)[BO_GPU_FACTORS + 1][OCTET], float (&d)[BO_GPU_FACTORS][OCTET],
                               size_t) const
    {
        for (int i = 0; i < OCTET; i++) {
            float value[BO_GPU_FACTORS];
#pragma unroll
            for (int k = 0; k < BO_GPU_FACTORS; k++)
                if (k < f.factors) value[k] = f.of(k, x[k][i]);
#pragma unroll
            for (int k = 0; k < BO_GPU_FACTORS; k++) {
                if (k >= f.factors) continue;
                float gradient = x[BO_GPU_FACTORS][i];
#pragma unroll
                for (int j = 0; j < BO_GPU_FACTORS; j++)
                    if (j != k && j < f.factors) gradient *= value[j];
                if (f.power[k] != 0) gradient *= value[k] == 0 ? 0 : f.power[k] * (value[k] / x[k][i]);
                d[k][i] = gradient;
            }
        }
    }
};

static factor_powers powers_of(int factors, const float *power)
{
    factor_powers f = {factors, {}};
    memcpy(f.power, power, sizeof f.power);
    return f;
}

bo_gpu_error product(bo_gpu *cuda, const bo_gpu_product *a)
{
    return map_numbers(cuda, a->count, sources<BO_GPU_FACTORS>{{a->a[0], a->a[1], a->a[2], a->a[3]}},
                       targets<1>{{a->y}}, product_map{powers_of(a->factors, a->power)});
}

bo_gpu_error product_back(bo_gpu *cuda, const bo_gpu_product_back *a)
{
    return map_numbers(cuda, a->count, sources<BO_GPU_FACTORS + 1>{{a->a[0], a->a[1], a->a[2], a->a[3], a->dy}},
                       targets<BO_GPU_FACTORS>{{a->da[0], a->da[1], a->da[2], a->da[3]}},
                       product_back_map{powers_of(a->factors, a->power)});
}

/* ---- scales ------------------------------------------------------------------------------------------------------ */

struct scale_map {
    bo_gpu_source s;
    bo_gpu_scale_axis by;
    size_t count, columns;
    __device__ void operator()(const float (&x)[1][OCTET], float (&y)[1][OCTET], size_t first) const
    {
        size_t row = first / columns, column = first % columns;
        for (int i = 0; i < OCTET && first + (size_t)i < count; i++) {
            y[0][i] = x[0][i] * read_one(s, by == BO_GPU_ALL ? 0 : by == BO_GPU_COLUMN ? column : row);
            if (++column == columns) row++, column = 0;
        }
    }
};

bo_gpu_error scale(bo_gpu *cuda, const bo_gpu_scale *a)
{
    const size_t count = a->rows * a->columns;
    return map_numbers(cuda, count, sources<1>{{a->x}}, targets<1>{{a->y}}, scale_map{a->s, a->by, count, a->columns});
}

struct column_products {
    bo_gpu_source x, dy;
    size_t columns;
    __device__ void operator()(size_t r, size_t c, double (&values)[1]) const
    {
        values[0] = (double)read_one(x, r * columns + c) * (double)read_one(dy, r * columns + c);
    }
};

/* One warp per row. */
__global__ void row_products_kernel(bo_gpu_scale_sums a)
{
    const size_t row = ((size_t)blockIdx.x * blockDim.x + threadIdx.x) / WARP;
    const int lane = (int)threadIdx.x % WARP;
    if (row >= a.rows) return;
    double sum = 0;
    for (size_t c = (size_t)lane; c < a.columns; c += WARP)
        sum += (double)read_one(a.x, row * a.columns + c) * (double)read_one(a.dy, row * a.columns + c);
    sum = warp_sum_double(sum);
    if (lane == 0) write_one(a.ds, row, (float)sum);
}

/* Adds the partial sums: per column, or all of them (one block). */
__global__ void scale_totals_kernel(bo_gpu_scale_sums a, size_t parts)
{
    __shared__ double smem[WARP];
    const size_t column = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (a.by == BO_GPU_COLUMN) {
        if (column < a.columns) write_one(a.ds, column, (float)column_total(a.partial, parts, 1, 0, a.columns, column));
        return;
    }
    double sum = 0;
    for (size_t i = threadIdx.x; i < parts * a.columns; i += blockDim.x) sum += a.partial[i];
    sum = block_total(sum, smem);
    if (threadIdx.x == 0) write_one(a.ds, 0, (float)sum);
}

bo_gpu_error scale_sums(bo_gpu *cuda, const bo_gpu_scale_sums *a)
{
    enum { TOTAL_THREADS = 256 };
    if (a->by == BO_GPU_ROW)
        return launch(cuda, dim3((unsigned)ceil_div(a->rows * WARP, TOTAL_THREADS)), dim3(TOTAL_THREADS), 0,
                      row_products_kernel, *a);
    const size_t parts = ceil_div(a->rows, part_rows(a->rows));
    if (bo_gpu_error error = column_sums<1>(cuda, a->rows, part_rows(a->rows), a->columns,
                                            column_products{a->x, a->dy, a->columns}, a->partial))
        return error;
    return launch(cuda, dim3(a->by == BO_GPU_ALL ? 1 : (unsigned)ceil_div(a->columns, TOTAL_THREADS)),
                  dim3(TOTAL_THREADS), 0, scale_totals_kernel, *a, parts);
}

/* ---- columns ----------------------------------------------------------------------------------------------------- */

__global__ void slice_kernel(bo_gpu_slice a, size_t octets, bool whole)
{
    const size_t item = (size_t)blockIdx.x * blockDim.x + threadIdx.x, row = item / octets;
    if (row >= a.rows) return;
    const size_t column = item % octets * OCTET;
    const int valid = a.columns - column < OCTET ? (int)(a.columns - column) : OCTET;
    float x[OCTET];
    read_octet(a.x, row * a.from_columns + a.from + column, valid, whole, x);
    write_octet(a.y, row * a.to_columns + a.to + column, valid, whole, x);
}

bo_gpu_error slice(bo_gpu *cuda, const bo_gpu_slice *a)
{
    enum { SLICE_THREADS = 256 };
    const size_t octets = ceil_div(a->columns, OCTET);
    const bool whole = (a->columns | a->from | a->from_columns | a->to | a->to_columns) % OCTET == 0;
    return launch(cuda, dim3((unsigned)ceil_div(a->rows * octets, SLICE_THREADS)), dim3(SLICE_THREADS), 0, slice_kernel,
                  *a, octets, whole);
}

} // namespace bo
