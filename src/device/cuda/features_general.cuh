/* Features of the rows of a tile in shared memory, for all maps, transforms and sizes; and their gradients. All
 * functions are called by all threads of a block, and end with a barrier. */
#ifndef BO_CUDA_FEATURES_GENERAL_CUH
#define BO_CUDA_FEATURES_GENERAL_CUH

#include "features.cuh"

namespace bo {
namespace features {

enum { GENERAL_THREADS = 128, GENERAL_WARPS = GENERAL_THREADS / WARP };
enum role { OF_QUERIES = 0, OF_KEYS = 1 };

/* Rows of one head of an array: row r starts at `at + r * stride`. */
template <typename T> struct rows_of {
    T *at;
    size_t stride;
    __device__ T &operator()(int row, int column) const
    {
        return at[(size_t)row * stride + (size_t)column];
    }
};

/* Rows from the first one of a span on of head `head` of an array; `at` is NULL if the array is. */
template <typename T> __device__ inline rows_of<T> rows_at(T *array, const bo_gpu_strides &by, const span &at, int head)
{
    return {numbers_if_any(array, by, at.sequence, at.first, head), by.row};
}

/* Stride of feature rows in shared memory: odd, so a column spreads over all banks. */
__host__ __device__ inline int features_stride(const arguments &a)
{
    return a.map.features | 1;
}

/* Rows and their features. */
struct mapped {
    float *t, *f, *scale; /* rows x dim of the map, rows x features_stride, log scales */
};

/* The matrix and the bias of one role and key head; NULL: the identity, 0. */
struct affine {
    const float *m, *bias;
};

__device__ inline affine affine_of(const arguments &a, role of, int key_head)
{
    const float *m = of == OF_KEYS && a.call.m_k ? a.call.m_k : a.call.m;
    const float *bias = of == OF_KEYS && a.call.bias_k ? a.call.bias_k : a.call.bias;
    const size_t head = (size_t)key_head, width = (size_t)a.map.dim;
    return {m ? m + head * width * (size_t)a.call.dim : nullptr, bias ? bias + head * width : nullptr};
}

/* Returns 1 / (|x| + e), for all lanes of a warp. */
template <typename T>
__device__ inline double unit_factor(const arguments &a, rows_of<const T> x, int row, double &norm)
{
    double sum = 0;
    for (int j = (int)threadIdx.x % WARP; j < a.call.dim; j += WARP) {
        const double value = (double)to_float(x(row, j));
        sum += value * value;
    }
    norm = sqrt(warp_sum_double(sum));
    return 1 / (norm + 1e-3);
}

template <typename T>
__device__ void transform_rows(const arguments &a, role of, int key_head, int rows, rows_of<const T> x, float *t)
{
    const int width = a.map.dim, dim = a.call.dim;
    const affine side = affine_of(a, of, key_head);
    if (a.transform == BO_ROW_TRANSFORM_UNIT) {
        const float *sigma = a.call.sigma ? a.call.sigma + (size_t)key_head * (size_t)dim : nullptr;
        for (int r = (int)threadIdx.x / WARP; r < rows; r += GENERAL_WARPS) {
            double norm;
            const float factor = (float)unit_factor(a, x, r, norm);
            for (int j = (int)threadIdx.x % WARP; j < dim; j += WARP)
                t[r * width + j] = factor * to_float(x(r, j)) * (sigma ? sigma[j] : 1.0f);
        }
    } else {
        for (int e = (int)threadIdx.x; e < rows * width; e += GENERAL_THREADS) {
            const int r = e / width, i = e % width;
            float sum = side.bias ? side.bias[i] : 0.0f;
            if (side.m)
                for (int j = 0; j < dim; j++) sum = fmaf(side.m[i * dim + j], to_float(x(r, j)), sum);
            else
                sum += to_float(x(r, i));
            t[e] = sum;
        }
    }
    __syncthreads();
}

/* ---- one row, by one warp ---------------------------------------------------------------------------------------- */

__device__ inline double half_norm(const arguments &a, const float *square, const float *t)
{
    double sum = 0;
    if (a.map.norm == 0) return 0;
    for (int j = (int)threadIdx.x % WARP; j < a.map.dim; j += WARP)
        sum += (double)square[j] * (double)t[j] * (double)t[j];
    return 0.5 * warp_sum_double(sum);
}

/* f holds u and receives the features: exp(±u + offset …), of one sign or both. */
__device__ inline float map_exp(const arguments &a, const float *offset, double common, float *f)
{
    const int m = a.map.frequencies, lane = (int)threadIdx.x % WARP;
    const bool both = a.map.form == BO_MAP_EXP_BOTH;
    float top = -INFINITY;
    for (int i = lane; i < m; i += WARP) top = fmaxf(top, (both ? fabsf(f[i]) : f[i]) + offset[i]);
    top = warp_max(top);
    const float scale = (float)((double)top + common);
    const float shift = (float)(common - (double)scale + (double)a.map.constant);
    for (int i = lane; i < m; i += WARP) {
        const float u = f[i];
        f[i] = expf(u + offset[i] + shift);
        if (both) f[m + i] = expf(-u + offset[i] + shift);
    }
    return scale;
}

__device__ inline void map_hedgehog(int m, float *f)
{
    const int lane = (int)threadIdx.x % WARP;
    float top = 0, sum = 0;
    for (int i = lane; i < m; i += WARP) top = fmaxf(top, fabsf(f[i]));
    top = warp_max(top);
    for (int i = lane; i < m; i += WARP) {
        const float u = f[i];
        f[i] = expf(u - top), f[m + i] = expf(-u - top);
        sum += f[i] + f[m + i];
    }
    sum = 1 / warp_sum(sum);
    for (int i = lane; i < m; i += WARP) f[i] *= sum, f[m + i] *= sum;
}

/* Returns the log scale. */
__device__ inline float map_row(const arguments &a, int key_head, const float *t, float *f)
{
    const size_t head = (size_t)key_head * a.map.stride;
    const float *weight = a.map.weight + head, *offset = a.map.offset + head;
    const int m = a.map.frequencies, lane = (int)threadIdx.x % WARP;
    const double half = half_norm(a, a.map.square + head, t);
    if (a.map.form == BO_MAP_EXP || a.map.form == BO_MAP_EXP_BOTH)
        return map_exp(a, offset, (double)a.map.common[head] + (double)a.map.norm * half, f);
    if (a.map.form == BO_MAP_HEDGEHOG) map_hedgehog(m, f);
    const float scale = a.map.scaled ? (float)half : 0.0f;
    const float size = a.map.scaled ? (float)((double)a.map.factor * exp(half - (double)scale)) : a.map.factor;
    for (int i = lane; i < m; i += WARP) {
        const float u = f[i];
        if (a.map.form == BO_MAP_SINCOS) f[i] = size * weight[i] * cosf(u), f[m + i] = size * weight[i] * sinf(u);
        if (a.map.form == BO_MAP_RELU) f[i] = u < 0 ? 0.0f : size * weight[i] * u;
        if (a.map.form == BO_MAP_ELU) f[i] = u < 0 ? expf(u) : u + 1;
    }
    return scale;
}

/* Replaces df by du in the first m columns. Returns the factor of t in the gradient of |t|²/2. */
__device__ inline float map_row_back(const arguments &a, int key_head, const float *f, float *df)
{
    const float *weight = a.map.weight + (size_t)key_head * a.map.stride;
    const int m = a.map.frequencies, lane = (int)threadIdx.x % WARP;
    float sum = 0;
    for (int i = lane; i < a.map.features; i += WARP) sum = fmaf(f[i], df[i], sum);
    sum = warp_sum(sum);
    __syncwarp();
    for (int i = lane; i < m; i += WARP) {
        const float z = f[i], dz = df[i];
        switch (a.map.form) {
        case BO_MAP_EXP:
            df[i] = dz * z;
            break;
        case BO_MAP_EXP_BOTH:
            df[i] = dz * z - df[m + i] * f[m + i];
            break;
        case BO_MAP_SINCOS:
            df[i] = df[m + i] * z - dz * f[m + i];
            break;
        case BO_MAP_RELU:
            df[i] = z > 0 ? a.map.factor * weight[i] * dz : 0.0f;
            break;
        case BO_MAP_ELU:
            df[i] = dz * fminf(z, 1.0f);
            break;
        case BO_MAP_HEDGEHOG:
            df[i] = z * (dz - sum) - f[m + i] * (df[m + i] - sum);
            break;
        default:
            break;
        }
    }
    return a.map.norm * sum;
}

/* ---- tiles ------------------------------------------------------------------------------------------------------- */

template <typename T>
__device__ void map_rows(const arguments &a, role of, int key_head, int rows, rows_of<const T> x, const mapped &to)
{
    const int m = a.map.frequencies, width = a.map.dim;
    const float *w = a.map.transposed + (size_t)key_head * a.map.stride;
    transform_rows(a, of, key_head, rows, x, to.t);
    for (int e = (int)threadIdx.x; e < rows * m; e += GENERAL_THREADS) {
        const int r = e / m, i = e % m;
        float sum = 0;
        for (int j = 0; j < width; j++) sum = fmaf(w[j * m + i], to.t[r * width + j], sum);
        to.f[r * features_stride(a) + i] = sum;
    }
    __syncthreads();
    for (int r = (int)threadIdx.x / WARP; r < rows; r += GENERAL_WARPS) {
        const float scale = map_row(a, key_head, to.t + r * width, to.f + r * features_stride(a));
        if (threadIdx.x % WARP == 0) to.scale[r] = scale;
    }
    __syncthreads();
}

/* The addresses of the parameter gradients of a role in the partial sums of a block; NULL: not requested. */
struct parameter_gradients {
    float *sigma, *m, *bias;
};

__device__ inline parameter_gradients parameter_gradients_of(const arguments &a, role of, float *partials)
{
    const size_t matrix = (size_t)a.map.dim * (size_t)a.call.dim;
    float *at = partials, *all[5];
    const float *const requested[] = {a.call.dsigma, a.call.dm, a.call.dm_k, a.call.dbias, a.call.dbias_k};
    const size_t sizes[] = {(size_t)a.call.dim, matrix, matrix, (size_t)a.map.dim, (size_t)a.map.dim};
    for (int i = 0; i < 5; i++) {
        all[i] = partials && requested[i] ? at : nullptr;
        if (requested[i]) at += sizes[i];
    }
    return {all[0], all[of == OF_KEYS && a.call.m_k ? 2 : 1], all[of == OF_KEYS && a.call.bias_k ? 4 : 3]};
}

/* y = x / (n + e): dx = dy / (n + e) - x (x·dy) / (n (n + e)²), dy = σ dt. */
template <typename T>
__device__ void unit_back(const arguments &a, int key_head, int rows, rows_of<const T> x, const float *dt,
                          rows_of<T> dx, float *factors)
{
    const int dim = a.call.dim, lane = (int)threadIdx.x % WARP;
    const float *sigma = a.call.sigma ? a.call.sigma + (size_t)key_head * (size_t)dim : nullptr;
    for (int r = (int)threadIdx.x / WARP; r < rows; r += GENERAL_WARPS) {
        double norm, inner = 0;
        const double factor = unit_factor(a, x, r, norm);
        for (int j = lane; j < dim; j += WARP)
            inner += (double)to_float(x(r, j)) * (double)(sigma ? sigma[j] : 1.0f) * (double)dt[r * dim + j];
        inner = warp_sum_double(inner);
        const double along = norm > 0 ? inner * factor * factor / norm : 0;
        for (int j = lane; dx.at && j < dim; j += WARP)
            dx(r, j) = from_float<T>((float)((double)(sigma ? sigma[j] : 1.0f) * (double)dt[r * dim + j] * factor -
                                             (double)to_float(x(r, j)) * along));
        if (lane == 0) factors[r] = (float)factor;
    }
    __syncthreads();
}

template <typename T>
__device__ void transform_back(const arguments &a, role of, int key_head, int rows, rows_of<const T> x, const float *dt,
                               rows_of<T> dx, float *factors, float *partials)
{
    const int dim = a.call.dim, width = a.map.dim;
    const affine side = affine_of(a, of, key_head);
    const parameter_gradients to = parameter_gradients_of(a, of, partials);
    if (a.transform == BO_ROW_TRANSFORM_UNIT) {
        unit_back(a, key_head, rows, x, dt, dx, factors);
        for (int j = (int)threadIdx.x; to.sigma && j < dim; j += GENERAL_THREADS)
            for (int r = 0; r < rows; r++) to.sigma[j] += dt[r * dim + j] * to_float(x(r, j)) * factors[r];
    } else {
        for (int e = (int)threadIdx.x; dx.at && e < rows * dim; e += GENERAL_THREADS) {
            const int r = e / dim, j = e % dim;
            float sum = 0;
            if (side.m)
                for (int i = 0; i < width; i++) sum = fmaf(side.m[i * dim + j], dt[r * width + i], sum);
            else if (j < width)
                sum = dt[r * width + j];
            dx(r, j) = from_float<T>(sum);
        }
        for (int e = (int)threadIdx.x; to.m && e < width * dim; e += GENERAL_THREADS) {
            const int i = e / dim, j = e % dim;
            float sum = 0;
            for (int r = 0; r < rows; r++) sum = fmaf(dt[r * width + i], to_float(x(r, j)), sum);
            to.m[e] += sum;
        }
        for (int i = (int)threadIdx.x; to.bias && i < width; i += GENERAL_THREADS) {
            float sum = 0;
            for (int r = 0; r < rows; r++) sum += dt[r * width + i];
            to.bias[i] += sum;
        }
    }
    __syncthreads();
}

/* Computes dx from df, which is overwritten. dt: rows x dim of the map; smem: one value per row. */
template <typename T>
__device__ void map_back(const arguments &a, role of, int key_head, int rows, rows_of<const T> x, const mapped &at,
                         float *df, float *dt, float *smem, rows_of<T> dx, float *partials)
{
    const int width = a.map.dim, stride = features_stride(a);
    const float *w = a.map.w + (size_t)key_head * a.map.stride,
                *square = a.map.square + (size_t)key_head * a.map.stride;
    for (int r = (int)threadIdx.x / WARP; r < rows; r += GENERAL_WARPS) {
        const float push = map_row_back(a, key_head, at.f + r * stride, df + r * stride);
        if (threadIdx.x % WARP == 0) smem[r] = push;
    }
    __syncthreads();
    for (int e = (int)threadIdx.x; e < rows * width; e += GENERAL_THREADS) {
        const int r = e / width, j = e % width;
        float sum = smem[r] * (square[j] * at.t[e]);
        for (int i = 0; i < a.map.frequencies; i++) sum = fmaf(df[r * stride + i], w[i * width + j], sum);
        dt[e] = sum;
    }
    __syncthreads();
    transform_back(a, of, key_head, rows, x, dt, dx, smem, partials);
}

} // namespace features
} // namespace bo

#endif
