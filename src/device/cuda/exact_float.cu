/* Softmax attention in float32, without tensor cores: tiles of 64 queries and 64 keys, 4 x 4 elements per thread. Head
 * dimensions up to 128. Operations: 2 (dim + value_dim) per pair of query and seen key in forward, 2 (4 dim + 3
 * value_dim) in backward, which has two kernels, so every sum has a fixed order (formulas: exact_backward.cu). */
#include "exact.cuh"
#include "launches.cuh"

namespace bo {
namespace {

/* Factors are in shared memory with the summation index first: rows of 64 elements, LD apart. */
enum { TILE = 64, LD = TILE + 4, FLOAT_THREADS = 256, SIDE = 4 };

/* A thread has rows 4 y … 4 y + 3, and columns 4 x … 4 x + 3 of every 64. */
__device__ inline int thread_x()
{
    return (int)threadIdx.x % 16;
}
__device__ inline int thread_y()
{
    return (int)threadIdx.x / 16;
}

/* acc[i][j] += Σ_t a[t][4 y + i] b[t][64 n + 4 x + j]; b has rows of LDB elements. */
template <int N, int LDB>
__device__ inline void add_products(float (&acc)[SIDE][SIDE * N], int depth, const float *a, const float *b)
{
#pragma unroll 4
    for (int t = 0; t < depth; t++) {
        const float4 left = *reinterpret_cast<const float4 *>(a + t * LD + SIDE * thread_y());
        const float rows[SIDE] = {left.x, left.y, left.z, left.w};
#pragma unroll
        for (int n = 0; n < N; n++) {
            const float4 right = *reinterpret_cast<const float4 *>(b + t * LDB + TILE * n + SIDE * thread_x());
            const float columns[SIDE] = {right.x, right.y, right.z, right.w};
#pragma unroll
            for (int i = 0; i < SIDE; i++)
#pragma unroll
                for (int j = 0; j < SIDE; j++) acc[i][SIDE * n + j] = fmaf(rows[i], columns[j], acc[i][SIDE * n + j]);
        }
    }
}

/* to[c][row] = value(row, c) for 64 rows; D is at least the width. */
template <int D, typename V> __device__ inline void fill_columns(float *to, int width, V value)
{
    for (int i = (int)threadIdx.x; i < TILE * D; i += FLOAT_THREADS)
        if (i % D < width) to[i % D * LD + i / D] = value(i / D, i % D);
}

/* to[row][c] = value(row, c); columns from `width` on are zero. */
template <int D, typename V> __device__ inline void fill_rows(float *to, int width, V value)
{
    for (int i = (int)threadIdx.x; i < TILE * D; i += FLOAT_THREADS) to[i] = i % D < width ? value(i / D, i % D) : 0.0f;
}

/* Writes a tile with the column index first. */
__device__ inline void store_transposed(float *to, const float (&x)[SIDE][SIDE])
{
    for (int j = 0; j < SIDE; j++)
        *reinterpret_cast<float4 *>(to + (SIDE * thread_x() + j) * LD + SIDE * thread_y()) =
            make_float4(x[0][j], x[1][j], x[2][j], x[3][j]);
}

/* Writes the rows of a tile that exist, times a factor per row, to the rows from `first` on of a head. */
template <int N>
__device__ inline void write_tile(const float (&acc)[SIDE][SIDE * N], const float (&factor)[SIDE], void *array,
                                  const bo_gpu_strides &by, int sequence, int first, int head, int present, int width)
{
    float *to = numbers_at(static_cast<float *>(array), by, sequence, (size_t)first, head);
    for (int i = 0; i < SIDE; i++)
        for (int n = 0; n < N; n++)
            for (int j = 0; j < SIDE; j++) {
                const int row = SIDE * thread_y() + i, column = TILE * n + SIDE * thread_x() + j;
                if (row < present && column < width)
                    to[(size_t)row * by.row + (size_t)column] = acc[i][SIDE * n + j] * factor[i];
            }
}

/* Rows of one head of an array of the call; rows from `present` on are zero. */
struct float_rows {
    const float *at;
    size_t stride;
    int present;
    __device__ float operator()(int row, int c) const
    {
        return row < present ? at[(size_t)row * stride + (size_t)c] : 0.0f;
    }
};

__device__ inline float_rows rows_at(const void *array, const bo_gpu_strides &by, int sequence, int row, int head,
                                     int present)
{
    return float_rows{numbers_at(static_cast<const float *>(array), by, sequence, (size_t)row, head), by.row, present};
}

/* ---- forward ----------------------------------------------------------------------------------------------------- */

template <int D> __global__ void __launch_bounds__(FLOAT_THREADS) float_forward_kernel(bo_gpu_exact a)
{
    enum { N = D / TILE };
    BO_SHARED(shared);
    row_tile at;
    if (!find_tile(a.at.queries, TILE, (int)(gridDim.x - 1 - blockIdx.x), &at)) return;
    float *q = reinterpret_cast<float *>(shared), *k = q + D * LD, *v = k + D * LD, *p = v + TILE * D;
    const int head = (int)blockIdx.y, key_head = head / (a.at.heads / a.at.key_heads), row = at.start + at.first;
    const bo_gpu_attention_strides &by = a.at.strides;
    const exact_keys all = keys_of(a, at.sequence);
    const int position = all.old + at.first, present = min(at.length - at.first, (int)TILE);
    const exact_span key_span = {visible_keys(a, all, position).first,
                                 visible_keys(a, all, position + present - 1).end};
    fill_columns<D>(q, a.at.dim, rows_at(a.at.q, by.q, at.sequence, row, head, present));
    float out[SIDE][SIDE * N] = {}, top[SIDE], sum[SIDE];
    for (int i = 0; i < SIDE; i++) top[i] = -INFINITY, sum[i] = 0;
    for (int first = key_span.first; first < key_span.end; first += TILE) {
        __syncthreads();
        const int from = first - all.old, left = key_span.end - first; /* from < 0: the state comes first */
        const float_rows keys = rows_at(a.at.k, by.k, at.sequence, all.start + from, key_head, left),
                         values = rows_at(a.at.v, by.v, at.sequence, all.start + from, key_head, left);
        const kept_keys kept = from < 0 ? kept_of(a, at.sequence, key_head) : kept_keys{};
        fill_columns<D>(k, a.at.dim, [&](int r, int c) {
            const bool is_kept = from + r < 0 && r < left;
            return is_kept ? kept.keys[kept_key_at(kept, (first + r) % kept.ring, c)] : keys(r, c);
        });
        fill_rows<D>(v, a.at.value_dim, [&](int r, int c) {
            const bool is_kept = from + r < 0 && r < left;
            return is_kept ? kept_value(kept, (first + r) % kept.ring, c) : values(r, c);
        });
        __syncthreads();
        float s[SIDE][SIDE] = {};
        add_products<1, LD>(s, a.at.dim, q, k);
        for (int i = 0; i < SIDE; i++) {
            const exact_span row_span = visible_keys(a, all, position + SIDE * thread_y() + i);
            float row_max = top[i], more = 0;
            for (int j = 0; j < SIDE; j++) {
                const int key = first + SIDE * thread_x() + j;
                s[i][j] = key >= row_span.first && key < row_span.end ? log_weight(a, s[i][j]) : -INFINITY;
                row_max = fmaxf(row_max, s[i][j]);
            }
            for (int step = 8; step > 0; step /= 2)
                row_max = fmaxf(row_max, __shfl_xor_sync(0xFFFFFFFFu, row_max, step));
            const float base = row_max == -INFINITY ? 0.0f : row_max, shrink = expf(top[i] - base);
            for (int j = 0; j < SIDE; j++) more += s[i][j] = expf(s[i][j] - base);
            for (int step = 8; step > 0; step /= 2) more += __shfl_xor_sync(0xFFFFFFFFu, more, step);
            top[i] = row_max, sum[i] = sum[i] * shrink + more;
            for (int j = 0; j < SIDE * N; j++) out[i][j] *= shrink;
        }
        store_transposed(p, s);
        __syncthreads();
        add_products<N, D>(out, TILE, p, v);
    }
    float inverse[SIDE];
    for (int i = 0; i < SIDE; i++) {
        inverse[i] = sum[i] > 0 ? 1 / sum[i] : 0.0f;
        const int r = SIDE * thread_y() + i;
        if (!a.top || thread_x() || r >= present) continue;
        a.top[tape_at(a, head, row + r)] = sum[i] > 0 ? top[i] : INFINITY;
        a.sum[tape_at(a, head, row + r)] = sum[i] > 0 ? sum[i] : INFINITY;
    }
    write_tile<N>(out, inverse, a.at.out, by.out, at.sequence, row, head, present, a.at.value_dim);
}

/* ---- backward ---------------------------------------------------------------------------------------------------- */

/* P of a pair of query and key. */
__device__ inline float weight_of(const bo_gpu_exact &a, float product, float top, float sum)
{
    return expf(log_weight(a, product) - top) / sum;
}

/* δ of the tile's rows, four threads per row. */
template <int D>
__device__ inline void find_deltas(const bo_gpu_exact &a, int sequence, int head, int row, int present, const float *dO,
                                   float *deltas)
{
    const int r = (int)threadIdx.x / 4;
    const float_rows out = rows_at(a.at.out, a.at.strides.out, sequence, row, head, present);
    float delta = 0;
    for (int c = (int)threadIdx.x % 4; c < a.at.value_dim; c += 4) delta = fmaf(out(r, c), dO[c * LD + r], delta);
    delta += __shfl_xor_sync(0xFFFFFFFFu, delta, 1);
    delta += __shfl_xor_sync(0xFFFFFFFFu, delta, 2);
    if (threadIdx.x % 4) return;
    deltas[r] = delta;
    if (r < present) a.delta[tape_at(a, head, row + r)] = delta;
}

template <int D> __global__ void __launch_bounds__(FLOAT_THREADS) float_dq_kernel(bo_gpu_exact a)
{
    enum { N = D / TILE };
    BO_SHARED(shared);
    row_tile at;
    if (!find_tile(a.at.queries, TILE, (int)(gridDim.x - 1 - blockIdx.x), &at)) return;
    float *q = reinterpret_cast<float *>(shared), *dO = q + D * LD, *k = dO + D * LD, *v = k + D * LD,
          *k_rows = v + D * LD, *dS = k_rows + TILE * D, *deltas = dS + TILE * LD;
    const int head = (int)blockIdx.y, key_head = head / (a.at.heads / a.at.key_heads), row = at.start + at.first;
    const bo_gpu_attention_strides &by = a.at.strides;
    const exact_keys all = keys_of(a, at.sequence);
    const int present = min(at.length - at.first, (int)TILE);
    const exact_span key_span = {visible_keys(a, all, at.first).first,
                                 visible_keys(a, all, at.first + present - 1).end};
    fill_columns<D>(q, a.at.dim, rows_at(a.at.q, by.q, at.sequence, row, head, present));
    fill_columns<D>(dO, a.at.value_dim, rows_at(a.at.dout, by.dout, at.sequence, row, head, present));
    __syncthreads();
    find_deltas<D>(a, at.sequence, head, row, present, dO, deltas);
    __syncthreads();
    if (!a.at.dq) return;
    float dQ[SIDE][SIDE * N] = {}, top[SIDE], sum[SIDE];
    for (int i = 0; i < SIDE; i++) {
        const int r = SIDE * thread_y() + i;
        top[i] = r < present ? a.top[tape_at(a, head, row + r)] : INFINITY;
        sum[i] = r < present ? a.sum[tape_at(a, head, row + r)] : INFINITY;
    }
    for (int first = key_span.first; first < key_span.end; first += TILE) {
        const float_rows keys = rows_at(a.at.k, by.k, at.sequence, all.start + first, key_head, key_span.end - first),
                         values = rows_at(a.at.v, by.v, at.sequence, all.start + first, key_head, key_span.end - first);
        __syncthreads();
        fill_columns<D>(k, a.at.dim, keys);
        fill_rows<D>(k_rows, a.at.dim, keys);
        fill_columns<D>(v, a.at.value_dim, values);
        __syncthreads();
        float s[SIDE][SIDE] = {}, dP[SIDE][SIDE] = {};
        add_products<1, LD>(s, a.at.dim, q, k);
        add_products<1, LD>(dP, a.at.value_dim, dO, v);
        for (int i = 0; i < SIDE; i++) {
            const exact_span row_span = visible_keys(a, all, at.first + SIDE * thread_y() + i);
            for (int j = 0; j < SIDE; j++) {
                const int key = first + SIDE * thread_x() + j;
                const bool visible = key >= row_span.first && key < row_span.end;
                const float dS = weight_of(a, s[i][j], top[i], sum[i]) * (dP[i][j] - deltas[SIDE * thread_y() + i]);
                s[i][j] = visible ? dS * log_weight_derivative(a, s[i][j]) : 0.0f;
            }
        }
        store_transposed(dS, s);
        __syncthreads();
        add_products<N, D>(dQ, TILE, dS, k_rows);
    }
    const float scale[SIDE] = {a.at.scale, a.at.scale, a.at.scale, a.at.scale};
    write_tile<N>(dQ, scale, a.at.dq, by.dq, at.sequence, row, head, present, a.at.dim);
}

/* Rows of tiles are keys here, columns are queries. */
template <int D> __global__ void __launch_bounds__(FLOAT_THREADS) float_dkv_kernel(bo_gpu_exact a)
{
    enum { N = D / TILE };
    BO_SHARED(shared);
    row_tile at;
    if (!find_tile(a.at.keys, TILE, (int)blockIdx.x, &at)) return;
    float *k = reinterpret_cast<float *>(shared), *v = k + D * LD, *q = v + D * LD, *dO = q + D * LD,
          *q_rows = dO + D * LD, *dO_rows = q_rows + TILE * D, *weights = dO_rows + TILE * D,
          *tops = weights + TILE * LD, *sums = tops + TILE, *deltas = sums + TILE;
    const int key_head = (int)blockIdx.y, group = a.at.heads / a.at.key_heads, row = at.start + at.first;
    const bo_gpu_attention_strides &by = a.at.strides;
    const exact_keys all = keys_of(a, at.sequence);
    const int query_start = rows_before(a.at.queries, at.sequence),
              count = rows_before(a.at.queries, at.sequence + 1) - query_start;
    const int present = min(at.length - at.first, (int)TILE);
    const exact_span query_span = {visible_queries(a, all, count, max(at.first, all.oldest)).first,
                                   visible_queries(a, all, count, at.first + present - 1).end};
    fill_columns<D>(k, a.at.dim, rows_at(a.at.k, by.k, at.sequence, row, key_head, present));
    fill_columns<D>(v, a.at.value_dim, rows_at(a.at.v, by.v, at.sequence, row, key_head, present));
    float dK[SIDE][SIDE * N] = {}, dV[SIDE][SIDE * N] = {};
    for (int head = key_head * group; head < (key_head + 1) * group; head++)
        for (int first = query_span.first; first < query_span.end; first += TILE) {
            const int from = query_start + first, left = query_span.end - first;
            const float_rows queries = rows_at(a.at.q, by.q, at.sequence, from, head, left),
                             dO_values = rows_at(a.at.dout, by.dout, at.sequence, from, head, left);
            __syncthreads();
            fill_columns<D>(q, a.at.dim, queries);
            fill_rows<D>(q_rows, a.at.dim, queries);
            fill_columns<D>(dO, a.at.value_dim, dO_values);
            fill_rows<D>(dO_rows, a.at.value_dim, dO_values);
            if (threadIdx.x < TILE) {
                const int r = (int)threadIdx.x;
                tops[r] = r < left ? a.top[tape_at(a, head, from + r)] : INFINITY;
                sums[r] = r < left ? a.sum[tape_at(a, head, from + r)] : INFINITY;
                deltas[r] = r < left ? a.delta[tape_at(a, head, from + r)] : 0.0f;
            }
            __syncthreads();
            float s[SIDE][SIDE] = {}, dP[SIDE][SIDE] = {};
            add_products<1, LD>(s, a.at.dim, k, q);
            add_products<1, LD>(dP, a.at.value_dim, v, dO);
            for (int i = 0; i < SIDE; i++) {
                const exact_span row_span = visible_queries(a, all, count, at.first + SIDE * thread_y() + i);
                for (int j = 0; j < SIDE; j++) {
                    const int c = SIDE * thread_x() + j, query = first + c;
                    const bool visible = query >= row_span.first && query < row_span.end;
                    const float derivative = log_weight_derivative(a, s[i][j]);
                    s[i][j] = visible ? weight_of(a, s[i][j], tops[c], sums[c]) : 0.0f;
                    dP[i][j] = visible ? s[i][j] * (dP[i][j] - deltas[c]) * derivative : 0.0f;
                }
            }
            store_transposed(weights, s);
            __syncthreads();
            add_products<N, D>(dV, TILE, weights, dO_rows);
            __syncthreads();
            store_transposed(weights, dP);
            __syncthreads();
            add_products<N, D>(dK, TILE, weights, q_rows);
        }
    const float scale[SIDE] = {a.at.scale, a.at.scale, a.at.scale, a.at.scale}, one[SIDE] = {1, 1, 1, 1};
    if (a.at.dk) write_tile<N>(dK, scale, a.at.dk, by.dk, at.sequence, row, key_head, present, a.at.dim);
    if (a.at.dv) write_tile<N>(dV, one, a.at.dv, by.dv, at.sequence, row, key_head, present, a.at.value_dim);
}

/* ---- launches ---------------------------------------------------------------------------------------------------- */

template <int D> bo_gpu_error forward(bo_gpu *cuda, const bo_gpu_exact *a)
{
    const size_t floats = 2 * D * LD + TILE * D + TILE * LD;
    return launch(cuda, dim3(tiles_of(a->at.queries, TILE), (unsigned)a->at.heads), dim3(FLOAT_THREADS),
                  floats * sizeof(float), float_forward_kernel<D>, *a);
}

template <int D> bo_gpu_error backward(bo_gpu *cuda, const bo_gpu_exact *a)
{
    const size_t dQ = 4 * D * LD + TILE * D + TILE * LD + TILE, dkv = 4 * D * LD + 2 * TILE * D + TILE * LD + 3 * TILE;
    bo_gpu_error error = launch(cuda, dim3(tiles_of(a->at.queries, TILE), (unsigned)a->at.heads), dim3(FLOAT_THREADS),
                                dQ * sizeof(float), float_dq_kernel<D>, *a);
    if (error || !(a->at.dk || a->at.dv)) return error;
    return launch(cuda, dim3(tiles_of(a->at.keys, TILE), (unsigned)a->at.key_heads), dim3(FLOAT_THREADS),
                  dkv * sizeof(float), float_dkv_kernel<D>, *a);
}

} // namespace

bo_gpu_error exact_float_forward(bo_gpu *cuda, const bo_gpu_exact *a)
{
    return a->at.dim <= 64 && a->at.value_dim <= 64 ? forward<64>(cuda, a) : forward<128>(cuda, a);
}

bo_gpu_error exact_float_backward(bo_gpu *cuda, const bo_gpu_exact *a)
{
    return a->at.dim <= 64 && a->at.value_dim <= 64 ? backward<64>(cuda, a) : backward<128>(cuda, a);
}

} // namespace bo
