/* Softmax attention for all types and dims, in float32: a warp per row and head, a lane per key (or query). For head
 * dimensions without other kernels; not optimized. Operations: 2 (dim + value_dim) per pair of query and seen key in
 * forward, 2 (4 dim + 3 value_dim) in backward, once more for every 128 columns after the first. */
#include "exact.cuh"
#include "launches.cuh"

namespace bo {
namespace {

enum { WARPS = 4, THREADS = WARPS * WARP, COLUMNS = 4, BLOCK_COLUMNS = COLUMNS * WARP };

/* A row with elements `stride` apart: of the call, or floats of a state. */
template <typename T> struct row_of {
    const T *at;
    const float *kept; /* not NULL: instead of `at` */
    int stride;
    __device__ float operator[](int i) const
    {
        return kept ? kept[(size_t)i * stride] : to_float(at[i]);
    }
};

template <typename T>
__device__ inline row_of<T> row_at(const void *array, const bo_gpu_strides &by, int sequence, int row, int head)
{
    return row_of<T>{numbers_at(static_cast<const T *>(array), by, sequence, (size_t)row, head), nullptr, 1};
}

/* The key or value at a position. */
template <typename T>
__device__ inline row_of<T> key_at(const bo_gpu_exact &a, const exact_keys &keys, int sequence, int key_head,
                                   int position, bool value)
{
    const int width = value ? a.at.value_dim : a.at.dim;
    if (position >= keys.old)
        return row_at<T>(value ? a.at.v : a.at.k, value ? a.at.strides.v : a.at.strides.k, sequence,
                         keys.start + position - keys.old, key_head);
    const kept_keys kept = kept_of(a, sequence, key_head);
    const int slot = position % kept.ring;
    if (value) return row_of<T>{nullptr, kept.values + (size_t)slot * width, 1};
    return row_of<T>{nullptr, kept.keys + kept_key_at(kept, slot, 0), kept.panel};
}

template <typename T> __device__ inline float dot(int width, const row_of<T> &x, const row_of<T> &y)
{
    float sum = 0;
    for (int i = 0; i < width; i++) sum = fmaf(x[i], y[i], sum);
    return sum;
}

/* acc[c] += weight of lane j · row j, for the 32 rows of the lanes, of which `count` exist. */
template <typename T, typename ROW>
__device__ inline void weigh(float (&acc)[COLUMNS], float weight, int count, int width, int column, ROW row)
{
    for (int j = 0; j < WARP; j++) {
        const float w = __shfl_sync(0xFFFFFFFFu, weight, j);
        if (j >= count) continue;
        const row_of<T> x = row(j);
        for (int i = 0; i < COLUMNS; i++)
            if (column + i * WARP < width) acc[i] = fmaf(w, x[column + i * WARP], acc[i]);
    }
}

template <typename T>
__device__ inline void write(const float (&acc)[COLUMNS], float factor, void *array, const bo_gpu_strides &by,
                             int sequence, int row, int head, int width, int column)
{
    T *to = numbers_at(static_cast<T *>(array), by, sequence, (size_t)row, head);
    for (int i = 0; i < COLUMNS; i++)
        if (column + i * WARP < width) to[column + i * WARP] = from_float<T>(acc[i] * factor);
}

/* Finds the row of this warp. */
__device__ inline bool find_row(const bo_gpu_rows &rows, row_tile *out)
{
    if (!find_tile(rows, WARPS, (int)blockIdx.x, out)) return false;
    out->first += (int)(threadIdx.x / WARP);
    return out->first < out->length;
}

template <typename T> __global__ void simple_forward_kernel(bo_gpu_exact a)
{
    row_tile at;
    if (!find_row(a.at.queries, &at)) return;
    const int lane = (int)(threadIdx.x % WARP), head = (int)blockIdx.y, key_head = head / (a.at.heads / a.at.key_heads),
              row = at.start + at.first, width = a.at.value_dim;
    const exact_keys keys = keys_of(a, at.sequence);
    const exact_span key_span = visible_keys(a, keys, keys.old + at.first);
    const row_of<T> q = row_at<T>(a.at.q, a.at.strides.q, at.sequence, row, head);
    for (int column = lane; column - lane < width; column += BLOCK_COLUMNS) {
        float top = -INFINITY, sum = 0, acc[COLUMNS] = {};
        for (int first = key_span.first; first < key_span.end; first += WARP) {
            const int position = first + lane;
            float s = -INFINITY;
            if (position < key_span.end)
                s = log_weight(a, dot(a.at.dim, q, key_at<T>(a, keys, at.sequence, key_head, position, false)));
            const float row_max = fmaxf(top, warp_max(s)), base = row_max == -INFINITY ? 0.0f : row_max;
            const float shrink = expf(top - base), w = expf(s - base);
            top = row_max, sum = sum * shrink + warp_sum(w);
            for (int i = 0; i < COLUMNS; i++) acc[i] *= shrink;
            weigh<T>(acc, w, key_span.end - first, width, column,
                     [&](int j) { return key_at<T>(a, keys, at.sequence, key_head, first + j, true); });
        }
        write<T>(acc, sum > 0 ? 1 / sum : 0.0f, a.at.out, a.at.strides.out, at.sequence, row, head, width, column);
        if (!a.top || lane || column) continue;
        a.top[tape_at(a, head, row)] = sum > 0 ? top : INFINITY;
        a.sum[tape_at(a, head, row)] = sum > 0 ? sum : INFINITY;
    }
}

/* The weight P and the gradient of the score of one pair. */
struct pair_gradient {
    float P, dS;
};
template <typename T>
__device__ inline pair_gradient gradient_of(const bo_gpu_exact &a, int sequence, int head, int row, float delta,
                                            const row_of<T> &k, const row_of<T> &v)
{
    const size_t tape = tape_at(a, head, row);
    const float product = dot(a.at.dim, row_at<T>(a.at.q, a.at.strides.q, sequence, row, head), k);
    const float dP = dot(a.at.value_dim, row_at<T>(a.at.dout, a.at.strides.dout, sequence, row, head), v);
    const float P = expf(log_weight(a, product) - a.top[tape]) / a.sum[tape];
    return pair_gradient{P, P * (dP - delta) * log_weight_derivative(a, product)};
}

template <typename T> __global__ void simple_dq_kernel(bo_gpu_exact a)
{
    row_tile at;
    if (!find_row(a.at.queries, &at)) return;
    const int lane = (int)(threadIdx.x % WARP), head = (int)blockIdx.y, key_head = head / (a.at.heads / a.at.key_heads),
              row = at.start + at.first;
    const row_of<T> out = row_at<T>(a.at.out, a.at.strides.out, at.sequence, row, head),
                    dO = row_at<T>(a.at.dout, a.at.strides.dout, at.sequence, row, head);
    float delta = 0;
    for (int i = lane; i < a.at.value_dim; i += WARP) delta = fmaf(out[i], dO[i], delta);
    delta = warp_sum(delta);
    if (lane == 0) a.delta[tape_at(a, head, row)] = delta;
    const exact_keys keys = keys_of(a, at.sequence);
    const exact_span key_span = visible_keys(a, keys, at.first);
    for (int column = lane; a.at.dq && column - lane < a.at.dim; column += BLOCK_COLUMNS) {
        float acc[COLUMNS] = {};
        for (int first = key_span.first; first < key_span.end; first += WARP) {
            pair_gradient x = {0, 0};
            if (first + lane < key_span.end)
                x = gradient_of<T>(a, at.sequence, head, row, delta,
                                   key_at<T>(a, keys, at.sequence, key_head, first + lane, false),
                                   key_at<T>(a, keys, at.sequence, key_head, first + lane, true));
            weigh<T>(acc, x.dS, key_span.end - first, a.at.dim, column,
                     [&](int j) { return key_at<T>(a, keys, at.sequence, key_head, first + j, false); });
        }
        write<T>(acc, a.at.scale, a.at.dq, a.at.strides.dq, at.sequence, row, head, a.at.dim, column);
    }
}

template <typename T> __global__ void simple_dkv_kernel(bo_gpu_exact a)
{
    row_tile at;
    if (!find_row(a.at.keys, &at)) return;
    const int lane = (int)(threadIdx.x % WARP), key_head = (int)blockIdx.y, group = a.at.heads / a.at.key_heads,
              row = at.start + at.first;
    const exact_keys keys = keys_of(a, at.sequence);
    const int start = rows_before(a.at.queries, at.sequence),
              count = rows_before(a.at.queries, at.sequence + 1) - start;
    const exact_span query_span = visible_queries(a, keys, count, at.first);
    const bo_gpu_attention_strides &by = a.at.strides;
    const row_of<T> k = row_at<T>(a.at.k, by.k, at.sequence, row, key_head),
                    v = row_at<T>(a.at.v, by.v, at.sequence, row, key_head);
    for (int column = lane; column - lane < max(a.at.dim, a.at.value_dim); column += BLOCK_COLUMNS) {
        float dK[COLUMNS] = {}, dV[COLUMNS] = {};
        for (int head = key_head * group; head < (key_head + 1) * group; head++)
            for (int first = query_span.first; first < query_span.end; first += WARP) {
                const int query = start + first + lane;
                pair_gradient x = {0, 0};
                if (first + lane < query_span.end)
                    x = gradient_of<T>(a, at.sequence, head, query, a.delta[tape_at(a, head, query)], k, v);
                weigh<T>(dK, x.dS, query_span.end - first, a.at.dim, column,
                         [&](int j) { return row_at<T>(a.at.q, by.q, at.sequence, start + first + j, head); });
                weigh<T>(dV, x.P, query_span.end - first, a.at.value_dim, column,
                         [&](int j) { return row_at<T>(a.at.dout, by.dout, at.sequence, start + first + j, head); });
            }
        if (a.at.dk) write<T>(dK, a.at.scale, a.at.dk, by.dk, at.sequence, row, key_head, a.at.dim, column);
        if (a.at.dv) write<T>(dV, 1.0f, a.at.dv, by.dv, at.sequence, row, key_head, a.at.value_dim, column);
    }
}

template <typename T> bo_gpu_error backward(bo_gpu *cuda, const bo_gpu_exact *a)
{
    bo_gpu_error error = launch(cuda, dim3(tiles_of(a->at.queries, WARPS), (unsigned)a->at.heads), dim3(THREADS), 0,
                                simple_dq_kernel<T>, *a);
    if (error || !(a->at.dk || a->at.dv)) return error;
    return launch(cuda, dim3(tiles_of(a->at.keys, WARPS), (unsigned)a->at.key_heads), dim3(THREADS), 0,
                  simple_dkv_kernel<T>, *a);
}

} // namespace

bo_gpu_error exact_simple_forward(bo_gpu *cuda, const bo_gpu_exact *a)
{
    const dim3 grid(tiles_of(a->at.queries, WARPS), (unsigned)a->at.heads);
    if (a->at.type == BO_ELEMENT_FLOAT32) return launch(cuda, grid, dim3(THREADS), 0, simple_forward_kernel<float>, *a);
    return launch(cuda, grid, dim3(THREADS), 0, simple_forward_kernel<bf16>, *a);
}

bo_gpu_error exact_simple_backward(bo_gpu *cuda, const bo_gpu_exact *a)
{
    return a->at.type == BO_ELEMENT_FLOAT32 ? backward<float>(cuda, a) : backward<bf16>(cuda, a);
}

} // namespace bo
