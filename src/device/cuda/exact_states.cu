/* Keys and values in states (the layout of src/attention/kv_cache.h, in float32), and steps of few tokens per sequence.
 *
 * A step reads every kept key and value once for all query heads of its group (at most four at a time): 4 (dim +
 * value_dim) bytes per key and key head, the minimum memory traffic of a step. The keys of a sequence are divided among
 * `parts` blocks, and a second kernel combines their results in a fixed order. */
#include "exact.cuh"
#include "launches.cuh"

namespace bo {
namespace {

enum { STEP_WARPS = 4, STEP_THREADS = STEP_WARPS * WARP, PANEL = 64, PAIR = PANEL / WARP, BATCH = 8 };

/* ---- storing ----------------------------------------------------------------------------------------------------- */

/* True if key i of the `count` keys of a call is kept: the latest `ring` keys; none if a state without a window is
 * full. */
__device__ inline bool is_kept(const bo_gpu_exact &a, const exact_keys &keys, int i)
{
    const int count = keys.end - keys.old;
    return count - i <= a.capacity && (a.window || keys.old + i < a.capacity);
}

template <typename T>
__device__ inline void keep(const bo_gpu_exact &a, const exact_keys &keys, int sequence, int key_head, int i, int lane,
                            int lanes)
{
    if (!is_kept(a, keys, i)) return;
    const kept_keys kept = kept_of(a, sequence, key_head);
    const int slot = (keys.old + i) % kept.ring;
    const size_t row = (size_t)(keys.start + i);
    const T *k = numbers_at(static_cast<const T *>(a.at.k), a.at.strides.k, sequence, row, key_head),
            *v = numbers_at(static_cast<const T *>(a.at.v), a.at.strides.v, sequence, row, key_head);
    float *to_keys = const_cast<float *>(kept.keys), *to_values = const_cast<float *>(kept.values);
    for (int c = lane; c < kept.dim; c += lanes) to_keys[kept_key_at(kept, slot, c)] = to_float(k[c]);
    for (int c = lane; c < kept.value_dim; c += lanes) to_values[(size_t)slot * kept.value_dim + c] = to_float(v[c]);
}

enum { APPEND_ROWS = 32, APPEND_THREADS = 256 };

/* A block stores 32 rows of a key head; neighboring lanes have neighboring keys, which are neighbors in a panel. */
template <typename T> __global__ void append_kernel(bo_gpu_exact a)
{
    row_tile at;
    if (!find_tile(a.at.keys, APPEND_ROWS, (int)blockIdx.x, &at)) return;
    const int i = at.first + (int)threadIdx.x % APPEND_ROWS;
    if (i >= at.length) return;
    keep<T>(a, keys_of(a, at.sequence), at.sequence, (int)blockIdx.y, i, (int)threadIdx.x / APPEND_ROWS,
            APPEND_THREADS / APPEND_ROWS);
}

/* ---- steps ------------------------------------------------------------------------------------------------------- */

/* The sums of a warp for G query heads over the keys that it has read; columns lane + 32 i of the values, i < C. */
template <int G, int C> struct step_sums {
    float top[G], sum[G], acc[G][C];

    /* Adds `present` <= 32 N keys: key 32 n + l has the scores[·][n] of lane l, and the values value(key, column). */
    template <int N, typename V> __device__ void add(const float (&scores)[G][N], int present, int width, V value)
    {
        const int lane = (int)(threadIdx.x % WARP);
        float weights[G][N];
#pragma unroll
        for (int h = 0; h < G; h++) {
            float row_max = top[h];
            for (int n = 0; n < N; n++) row_max = fmaxf(row_max, scores[h][n]);
            row_max = warp_max(row_max);
            const float base = row_max == -INFINITY ? 0.0f : row_max, shrink = expf(top[h] - base);
            float more = 0;
            for (int n = 0; n < N; n++) more += weights[h][n] = expf(scores[h][n] - base);
            top[h] = row_max, sum[h] = sum[h] * shrink + warp_sum(more);
            for (int i = 0; i < C; i++) acc[h][i] *= shrink;
        }
#pragma unroll
        for (int n = 0; n < N; n++)
            for (int first = 0; first < min(present - n * WARP, (int)WARP); first += BATCH) {
                float x[BATCH][C]; /* loaded together */
#pragma unroll
                for (int j = 0; j < BATCH; j++)
#pragma unroll
                    for (int i = 0; i < C; i++) {
                        const int key = n * WARP + first + j, column = lane + i * WARP;
                        x[j][i] = key < present && column < width ? value(key, column) : 0.0f;
                    }
#pragma unroll
                for (int j = 0; j < BATCH; j++)
#pragma unroll
                    for (int h = 0; h < G; h++) {
                        const float w = __shfl_sync(0xFFFFFFFFu, weights[h][n], first + j);
#pragma unroll
                        for (int i = 0; i < C; i++) acc[h][i] = fmaf(w, x[j][i], acc[h][i]);
                    }
            }
    }
};

/* The position in a slot of a ring after `old` tokens; negative: empty slot. */
__device__ inline int position_in(int slot, int old, int ring)
{
    const int newest = old % ring; /* the slot after the latest position */
    return slot < newest ? old - newest + slot : old - newest - ring + slot;
}

/* Merges two partial results with separate row maxima. */
__device__ inline void merge(float &top, float &sum, float other_top, float other_sum, float &row_span, float &other)
{
    const float row_max = fmaxf(top, other_top), base = row_max == -INFINITY ? 0.0f : row_max;
    row_span = expf(top - base), other = expf(other_top - base);
    sum = sum * row_span + other_sum * other;
    top = row_max;
}

template <typename T, int G, int C> __global__ void __launch_bounds__(STEP_THREADS) step_kernel(bo_gpu_exact a)
{
    BO_SHARED(shared);
    float *q = reinterpret_cast<float *>(shared); /* G x dim, scaled; later the sums of the warps */
    row_tile at;
    if (!find_tile(a.at.queries, 1, (int)blockIdx.x, &at)) return;
    const int group = a.at.heads / a.at.key_heads, passes = (group + G - 1) / G;
    const int key_head = (int)blockIdx.y / passes, first_head = key_head * group + (int)blockIdx.y % passes * G,
              heads = min(G, (key_head + 1) * group - first_head);
    const int lane = (int)(threadIdx.x % WARP), warp = (int)(threadIdx.x / WARP), row = at.start + at.first,
              width = a.at.value_dim, dim = a.at.dim;
    const exact_keys keys = keys_of(a, at.sequence);
    const exact_span key_span = visible_keys(a, keys, keys.old + at.first);
    for (int h = 0; h < G; h++) {
        const T *from = numbers_at(static_cast<const T *>(a.at.q), a.at.strides.q, at.sequence, (size_t)row,
                                   first_head + (h < heads ? h : 0));
        for (int i = (int)threadIdx.x; i < dim; i += STEP_THREADS)
            q[h * dim + i] = h < heads ? a.at.scale * to_float(from[i]) : 0.0f;
    }
    __syncthreads();

    step_sums<G, C> sums;
    for (int h = 0; h < G; h++) {
        sums.top[h] = -INFINITY, sums.sum[h] = 0;
        for (int i = 0; i < C; i++) sums.acc[h][i] = 0;
    }
    const kept_keys kept = kept_of(a, at.sequence, key_head);
    const int slots = min(keys.old, kept.ring), panels = (slots + PANEL - 1) / PANEL,
              each = (int)ceil_div((size_t)panels, (size_t)(a.parts * STEP_WARPS)) * STEP_WARPS,
              from = (int)blockIdx.z * each;
    for (int panel = from + warp; panel < min(from + each, panels); panel += STEP_WARPS) {
        const float *at_keys = kept.keys + (size_t)panel * PANEL * dim + lane,
                    *values = kept.values + (size_t)panel * PANEL * width;
        const int present = min(slots - panel * PANEL, (int)PANEL);
        float scores[G][PAIR] = {};
#pragma unroll 16
        for (int i = 0; i < dim; i++) {
            const float x0 = at_keys[i * PANEL], x1 = at_keys[i * PANEL + WARP];
#pragma unroll
            for (int h = 0; h < G; h++) {
                scores[h][0] = fmaf(q[h * dim + i], x0, scores[h][0]);
                scores[h][1] = fmaf(q[h * dim + i], x1, scores[h][1]);
            }
        }
        for (int n = 0; n < PAIR; n++) {
            const int slot = panel * PANEL + n * WARP + lane, position = position_in(slot, keys.old, kept.ring);
            if (slot < slots && position >= key_span.first && position < key_span.end) continue;
            for (int h = 0; h < G; h++) scores[h][n] = -INFINITY;
        }
        sums.template add<PAIR>(scores, present, width, [&](int l, int c) { return values[(size_t)l * width + c]; });
    }
    /* the keys of the call: the key of this token or of a few earlier tokens */
    const int fresh = key_span.end - max(keys.old, key_span.first);
    for (int j = (int)blockIdx.z == 0 && warp == 0 ? 0 : fresh; j < fresh; j++) {
        const size_t key = (size_t)(keys.start + max(keys.old, key_span.first) - keys.old + j);
        const T *k = numbers_at(static_cast<const T *>(a.at.k), a.at.strides.k, at.sequence, key, key_head),
                *v = numbers_at(static_cast<const T *>(a.at.v), a.at.strides.v, at.sequence, key, key_head);
        float scores[G][1];
        for (int h = 0; h < G; h++) {
            float s = 0;
            for (int i = lane; i < dim; i += WARP) s = fmaf(q[h * dim + i], to_float(k[i]), s);
            s = warp_sum(s);
            scores[h][0] = lane == 0 ? s : -INFINITY;
        }
        sums.template add<1>(scores, 1, width, [&](int, int c) { return to_float(v[c]); });
    }
    __syncthreads();

    /* the warps in their order */
    float *smem = reinterpret_cast<float *>(shared);
    const int numbers = width + 2;
    for (int h = 0; h < heads; h++) {
        float *row_span = smem + ((size_t)warp * G + h) * numbers;
        for (int i = 0; i < C; i++)
            if (lane + i * WARP < width) row_span[lane + i * WARP] = sums.acc[h][i];
        if (lane == 0) row_span[width] = sums.top[h], row_span[width + 1] = sums.sum[h];
    }
    __syncthreads();
    for (int h = warp; h < heads; h += STEP_WARPS) {
        float *to =
            a.partial + (((size_t)blockIdx.z * a.at.queries.rows + row) * a.at.heads + first_head + h) * numbers;
        float top = -INFINITY, sum = 0, acc[C] = {};
        for (int w = 0; w < STEP_WARPS; w++) {
            const float *other = smem + ((size_t)w * G + h) * numbers;
            float x, y;
            merge(top, sum, other[width], other[width + 1], x, y);
            for (int i = 0; i < C; i++)
                if (lane + i * WARP < width) acc[i] = acc[i] * x + other[lane + i * WARP] * y;
        }
        for (int i = 0; i < C; i++)
            if (lane + i * WARP < width) to[lane + i * WARP] = acc[i];
        if (lane == 0) to[width] = top, to[width + 1] = sum;
    }
}

/* Combines the parts of a row and key head in their order, and stores the row's key. A warp per query head. */
template <typename T, int C> __global__ void combine_kernel(bo_gpu_exact a)
{
    row_tile at;
    if (!find_tile(a.at.queries, 1, (int)blockIdx.x, &at)) return;
    const int key_head = (int)blockIdx.y, group = a.at.heads / a.at.key_heads, lane = (int)(threadIdx.x % WARP),
              warp = (int)(threadIdx.x / WARP), row = at.start + at.first, width = a.at.value_dim, numbers = width + 2;
    for (int head = key_head * group + warp; head < (key_head + 1) * group; head += STEP_WARPS) {
        float top = -INFINITY, sum = 0, acc[C] = {};
        for (int part = 0; part < a.parts; part++) {
            const float *other = a.partial + (((size_t)part * a.at.queries.rows + row) * a.at.heads + head) * numbers;
            float x, y;
            merge(top, sum, other[width], other[width + 1], x, y);
            for (int i = 0; i < C; i++)
                if (lane + i * WARP < width) acc[i] = acc[i] * x + other[lane + i * WARP] * y;
        }
        T *out = numbers_at(static_cast<T *>(a.at.out), a.at.strides.out, at.sequence, (size_t)row, head);
        for (int i = 0; i < C; i++)
            if (lane + i * WARP < width) out[lane + i * WARP] = from_float<T>(sum > 0 ? acc[i] / sum : 0.0f);
    }
    if (a.at.k) keep<T>(a, keys_of(a, at.sequence), at.sequence, key_head, at.first, (int)threadIdx.x, STEP_THREADS);
}

template <typename T, int G, int C> bo_gpu_error step_of(bo_gpu *cuda, const bo_gpu_exact *a)
{
    const int group = a->at.heads / a->at.key_heads, passes = (group + G - 1) / G;
    const size_t q = (size_t)G * a->at.dim, sums = (size_t)STEP_WARPS * G * (a->at.value_dim + 2);
    const unsigned rows = tiles_of(a->at.queries, 1);
    bo_gpu_error error = launch(cuda, dim3(rows, (unsigned)(a->at.key_heads * passes), (unsigned)a->parts),
                                dim3(STEP_THREADS), (q > sums ? q : sums) * sizeof(float), step_kernel<T, G, C>, *a);
    if (error) return error;
    return launch(cuda, dim3(rows, (unsigned)a->at.key_heads), dim3(STEP_THREADS), 0, combine_kernel<T, C>, *a);
}

template <typename T> bo_gpu_error step(bo_gpu *cuda, const bo_gpu_exact *a)
{
    const bool grouped = a->at.heads != a->at.key_heads;
    if (a->at.value_dim <= 2 * WARP) return grouped ? step_of<T, 4, 2>(cuda, a) : step_of<T, 1, 2>(cuda, a);
    return grouped ? step_of<T, 4, 4>(cuda, a) : step_of<T, 1, 4>(cuda, a);
}

} // namespace

bo_gpu_error exact_append(bo_gpu *cuda, const bo_gpu_exact *a)
{
    const dim3 grid(tiles_of(a->at.keys, APPEND_ROWS), (unsigned)a->at.key_heads), block(APPEND_THREADS);
    if (a->at.type == BO_ELEMENT_FLOAT32) return launch(cuda, grid, block, 0, append_kernel<float>, *a);
    return launch(cuda, grid, block, 0, append_kernel<bf16>, *a);
}

bo_gpu_error exact_step(bo_gpu *cuda, const bo_gpu_exact *a)
{
    return a->at.type == BO_ELEMENT_FLOAT32 ? step<float>(cuda, a) : step<bf16>(cuda, a);
}

} // namespace bo
