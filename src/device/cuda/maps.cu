/* Feature maps (FEATURES) from their projections u = w x, which are a product of matrices. A warp computes a row. Reads
 * u once and writes φ once; backward reads φ and dφ once and writes du: memory-bound. Formulas: gpu/maps.h. */
#include "arrays.cuh"
#include "launches.cuh"

namespace bo {

enum { MAP_ROW_THREADS = 128 };

/* norm |t|²/2 of a row */
__device__ inline float norm_of_row(const bo_gpu_map_features &f, size_t row, size_t lane)
{
    if (f.norm == 0) return 0;
    double sum = 0;
    for (size_t j = lane; j < f.dim; j += WARP) {
        const double x = (double)f.x[row * f.ldx + j];
        sum += (double)f.square[j] * x * x;
    }
    return f.norm * (float)(0.5 * warp_sum_double(sum));
}

__device__ inline void write_feature(const bo_gpu_map_features &f, size_t row, size_t i, float value)
{
    const size_t at = row * f.ldphi + i;
    if (f.root) value *= f.root[row];
    if (f.phi.type == BO_ELEMENT_FLOAT64)
        ((double *)f.phi.at)[at] = (double)value;
    else
        write_one(f.phi, at, value);
}

/* φ = softmax([u, -u]) */
__device__ inline void hedgehog_row(const bo_gpu_map_features &f, size_t row, size_t lane)
{
    const float *u = f.u + row * f.frequencies;
    float top = 0, sum = 0;
    for (size_t i = lane; i < f.frequencies; i += WARP) top = fmaxf(top, fabsf(u[i]));
    top = warp_max(top);
    for (size_t i = lane; i < f.frequencies; i += WARP) sum += expf(u[i] - top) + expf(-u[i] - top);
    const float share = 1 / warp_sum(sum);
    for (size_t i = lane; i < f.frequencies; i += WARP) {
        write_feature(f, row, i, share * expf(u[i] - top));
        write_feature(f, row, f.frequencies + i, share * expf(-u[i] - top));
    }
}

__global__ void map_features_kernel(bo_gpu_map_features f)
{
    const size_t row = ((size_t)blockIdx.x * blockDim.x + threadIdx.x) / WARP, lane = threadIdx.x % WARP;
    if (row >= f.rows) return;
    if (f.form == BO_MAP_HEDGEHOG) return hedgehog_row(f, row, lane);
    const float level = norm_of_row(f, row, lane);
    for (size_t i = lane; i < f.frequencies; i += WARP) {
        const float u = f.u[row * f.frequencies + i];
        float first = u, second = 0;
        if (f.form == BO_MAP_EXP || f.form == BO_MAP_EXP_BOTH) {
            const float rest = f.offset[i] + *f.common + level + f.constant;
            first = expf(u + rest), second = expf(-u + rest);
        } else if (f.form == BO_MAP_SINCOS) {
            const float size = f.factor * f.weight[i] * expf(level);
            sincosf(u, &second, &first);
            first *= size, second *= size;
        } else if (f.form == BO_MAP_RELU) {
            first = f.factor * f.weight[i] * (u <= 0 ? 0.0f : u);
        } else if (f.form == BO_MAP_ELU) {
            first = u > 0 ? u + 1 : expf(u);
        } else if (f.form == BO_MAP_COS) {
            first = f.factor * f.weight[i] * cosf(u + f.offset[i]);
        }
        write_feature(f, row, i, first);
        if (f.features == 2 * f.frequencies) write_feature(f, row, f.frequencies + i, second);
    }
}

bo_gpu_error map_features(bo_gpu *cuda, const bo_gpu_map_features *f)
{
    return launch(cuda, dim3((unsigned)ceil_div(f->rows * WARP, MAP_ROW_THREADS)), dim3(MAP_ROW_THREADS), 0,
                  map_features_kernel, *f);
}

/* ---- backward ---------------------------------------------------------------------------------------------------- */

/* du of one frequency from its features a, b and their gradients; *total += the gradient of norm |t|²/2. u: of COS.
 * inner: of HEDGEHOG, Σ φ dφ of the row. */
__device__ inline float slope_of(const bo_gpu_map_features &f, size_t i, float u, float a, float b, float da, float db,
                                 float inner, double *total)
{
    switch (f.form) {
    case BO_MAP_EXP:
    case BO_MAP_EXP_BOTH:
        *total += (double)(a * da) + (double)(b * db);
        return a * da - b * db;
    case BO_MAP_SINCOS:
        *total += (double)(a * da) + (double)(b * db);
        return a * db - b * da;
    case BO_MAP_RELU:
        return a == 0 ? 0.0f : f.factor * f.weight[i] * da;
    case BO_MAP_COS:
        return -f.factor * f.weight[i] * sinf(u + f.offset[i]) * da;
    case BO_MAP_ELU:
        return a > 1 ? da : a * da;
    case BO_MAP_HEDGEHOG:
        return a * (da - inner) - b * (db - inner);
    default:
        return da;
    }
}

__global__ void map_features_back_kernel(bo_gpu_map_features_back a)
{
    const bo_gpu_map_features &f = a.of;
    const size_t row = ((size_t)blockIdx.x * blockDim.x + threadIdx.x) / WARP, lane = threadIdx.x % WARP;
    if (row >= f.rows) return;
    const bool both = f.features == 2 * f.frequencies;
    const size_t first = row * f.ldphi;
    double total = 0;
    float inner = 0;
    for (size_t i = lane; f.form == BO_MAP_HEDGEHOG && i < f.features; i += WARP)
        inner += read_one(a.phi, first + i) * read_one(a.dphi, first + i);
    inner = warp_sum(inner);
    for (size_t i = lane; i < f.frequencies; i += WARP) {
        const size_t other = first + f.frequencies + i;
        float &du = a.du[row * f.frequencies + i];
        du = slope_of(f, i, f.form == BO_MAP_COS ? du : 0.0f, read_one(a.phi, first + i),
                      both ? read_one(a.phi, other) : 0.0f, read_one(a.dphi, first + i),
                      both ? read_one(a.dphi, other) : 0.0f, inner, &total);
    }
    total = warp_sum_double(total);
    if (lane == 0) a.dt[row] = (float)total;
}

bo_gpu_error map_features_back(bo_gpu *cuda, const bo_gpu_map_features_back *a)
{
    return launch(cuda, dim3((unsigned)ceil_div(a->of.rows * WARP, MAP_ROW_THREADS)), dim3(MAP_ROW_THREADS), 0,
                  map_features_back_kernel, *a);
}

__global__ void map_features_input_kernel(bo_gpu_map_features_input a)
{
    const size_t item = (size_t)blockIdx.x * blockDim.x + threadIdx.x, row = item / a.dim;
    if (row >= a.rows) return;
    float sum = a.product[item];
    if (a.norm != 0) sum += a.norm * a.square[item % a.dim] * read_one(a.x, item) * a.dt[row];
    write_one(a.dx, item, sum);
}

bo_gpu_error map_features_input(bo_gpu *cuda, const bo_gpu_map_features_input *a)
{
    return launch(cuda, dim3((unsigned)ceil_div(a->rows * a->dim, MAP_ROW_THREADS)), dim3(MAP_ROW_THREADS), 0,
                  map_features_input_kernel, *a);
}

} // namespace bo
