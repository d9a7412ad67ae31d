/* Softmax attention, forward: online softmax over tiles of keys (2205.14135, 2307.08691), on tensor cores.
 *
 * A block computes 128 queries of one head; a warp 16 MT of them. Tiles of 64 keys and values are copied to shared
 * memory while the previous tile is used. Operations: 2 (dim + value_dim) per pair of query and seen key; tiles without
 * visible keys are skipped. Bytes: q and out once, k and v once per tile of queries (from the L2 cache). Shared memory:
 * a warp reads each tile of keys once for 16 MT queries. */
#include "exact.cuh"
#include "launches.cuh"

namespace bo {
namespace {

enum { kBlockN = 64 };

template <int D, int MT> struct forward_shape {
    enum { WARPS = 8 / MT, THREADS = WARPS * WARP, kBlockM = 128 };
    enum { SHARED = (kBlockM + 4 * kBlockN) * D * 2 };
};

/* Copies positions first … first + 63 of a state to tiles; positions from `end` on are zero. */
template <int D, int THREADS>
__device__ void load_kept(const kept_keys &kept, int first, int end, exact_tile<D> keys, exact_tile<D> values)
{
    for (int i = (int)threadIdx.x; i < kBlockN * D; i += THREADS) {
        const int key = i % kBlockN, c = i / kBlockN, position = first + key;
        const bool present = position < end && c < kept.dim;
        const float x = present ? kept.keys[kept_key_at(kept, position % kept.ring, c)] : 0.0f;
        keys.chunk(key, c / 8)[c % 8] = from_float<bf16>(x);
    }
    for (int i = (int)threadIdx.x; i < kBlockN * D; i += THREADS) {
        const int key = i / D, c = i % D, position = first + key;
        const bool present = position < end && c < kept.value_dim;
        const float x = present ? kept_value(kept, position % kept.ring, c) : 0.0f;
        values.chunk(key, c / 8)[c % 8] = from_float<bf16>(x);
    }
}

/* The accumulators of one warp: MT tiles of 16 queries. A lane has the rows g and g + 8 of each, g = lane / 4. */
template <int D, int MT> struct forward_rows {
    float out[MT][D / 8][4];
    float top[MT][2]; /* running row maximum, without the scale */
    float sum[MT][2]; /* of the columns of this lane */

    __device__ void clear()
    {
        for (int m = 0; m < MT; m++) {
            for (int n = 0; n < D / 8; n++)
                for (int i = 0; i < 4; i++) out[m][n][i] = 0;
            for (int h = 0; h < 2; h++) top[m][h] = -INFINITY, sum[m][h] = 0;
        }
    }
};

/* Sets the scores of masked keys to -INFINITY. Column c of the tile is position first + c; row r of the warp's m-tile
 * is the query at position + 16 m + r. */
template <int MT>
__device__ inline void mask_scores(const bo_gpu_exact &a, const exact_keys &keys, int position, int first, int end,
                                   float (&s)[MT][kBlockN / 8][4])
{
    const int lane = (int)(threadIdx.x % WARP), g = lane / 4, c = 2 * (lane % 4);
#pragma unroll
    for (int m = 0; m < MT; m++)
#pragma unroll
        for (int h = 0; h < 2; h++) {
            const exact_span key_span = visible_keys(a, keys, position + 16 * m + g + 8 * h);
            const int low = key_span.first - first - c, high = min(key_span.end, end) - first - c;
#pragma unroll
            for (int n = 0; n < kBlockN / 8; n++)
#pragma unroll
                for (int i = 0; i < 2; i++)
                    if (8 * n + i < low || 8 * n + i >= high) s[m][n][2 * h + i] = -INFINITY;
        }
}

/* Turns scores into weights exp(scale (s - top)), after raising top to the new row maximum, and rescales the rows. */
template <int D, int MT>
__device__ inline void online_softmax(float scale2, float (&s)[MT][kBlockN / 8][4], forward_rows<D, MT> &rows)
{
#pragma unroll
    for (int m = 0; m < MT; m++)
#pragma unroll
        for (int h = 0; h < 2; h++) {
            float row_max = rows.top[m][h];
#pragma unroll
            for (int n = 0; n < kBlockN / 8; n++) row_max = fmaxf(row_max, fmaxf(s[m][n][2 * h], s[m][n][2 * h + 1]));
            row_max = fmaxf(row_max, __shfl_xor_sync(0xFFFFFFFFu, row_max, 1));
            row_max = fmaxf(row_max, __shfl_xor_sync(0xFFFFFFFFu, row_max, 2));
            const float base = row_max == -INFINITY ? 0.0f : row_max * scale2; /* no visible key: all weights are 0 */
            const float shrink = exp2_fast(rows.top[m][h] * scale2 - base);
            float sum = 0;
#pragma unroll
            for (int n = 0; n < kBlockN / 8; n++)
#pragma unroll
                for (int i = 0; i < 2; i++) {
                    float &x = s[m][n][2 * h + i];
                    x = exp2_fast(fmaf(x, scale2, -base));
                    sum += x;
                }
            rows.top[m][h] = row_max;
            rows.sum[m][h] = rows.sum[m][h] * shrink + sum;
            if (!__any_sync(0xFFFFFFFFu, shrink != 1.0f)) continue; /* after many keys, row maxima rarely change */
#pragma unroll
            for (int n = 0; n < D / 8; n++) rows.out[m][n][2 * h] *= shrink, rows.out[m][n][2 * h + 1] *= shrink;
        }
}

template <int D, int MT> __device__ inline void finish_rows(forward_rows<D, MT> &rows)
{
    for (int m = 0; m < MT; m++)
        for (int h = 0; h < 2; h++) {
            rows.sum[m][h] += __shfl_xor_sync(0xFFFFFFFFu, rows.sum[m][h], 1);
            rows.sum[m][h] += __shfl_xor_sync(0xFFFFFFFFu, rows.sum[m][h], 2);
        }
}

/* Writes the outputs of a warp through its rows of the tile of queries, and the base-2 lse for backward. */
template <int D, int MT>
__device__ inline void write_rows(const bo_gpu_exact &a, const row_tile &at, int head, int row,
                                  const exact_tile<D> &queries, float scale2, forward_rows<D, MT> &rows)
{
    const int lane = (int)(threadIdx.x % WARP), g = lane / 4;
    const bo_gpu_strides &by = a.at.strides.out;
    bf16 *out = numbers_at(static_cast<bf16 *>(a.at.out), by, at.sequence, (size_t)(at.start + at.first), head);
    finish_rows(rows);
    __syncwarp();
#pragma unroll
    for (int m = 0; m < MT; m++) {
        float inverse[2];
        for (int h = 0; h < 2; h++) {
            const int r = row + 16 * m + g + 8 * h;
            const float sum = rows.sum[m][h];
            inverse[h] = sum > 0 ? 1.0f / sum : 0.0f;
            if (a.top && lane % 4 == 0 && at.first + r < at.length)
                a.top[tape_at(a, head, at.start + at.first + r)] =
                    sum > 0 ? rows.top[m][h] * scale2 + log2f(sum) : INFINITY;
        }
        queries.store_accumulator(row + 16 * m, rows.out[m], inverse[0], inverse[1]);
    }
    __syncwarp();
    queries.store(row, 16 * MT, out, by.row, at.length - at.first, a.at.value_dim);
}

/* STATES: keys of states precede the keys of the call. */
template <int D, int MT, bool STATES>
__global__ void __launch_bounds__(forward_shape<D, MT>::THREADS, MT == 2 ? 2 : 1) exact_forward_kernel(bo_gpu_exact a)
{
    enum { THREADS = forward_shape<D, MT>::THREADS, kBlockM = forward_shape<D, MT>::kBlockM };
    BO_SHARED(shared);
    row_tile at;
    const exact_place place = exact_place_of(a.at.heads, true); /* the most keys are visible to late queries */
    if (!find_tile(a.at.queries, kBlockM, place.tile, &at)) return;
    const int head = place.head, key_head = head / (a.at.heads / a.at.key_heads);
    const int warp = (int)(threadIdx.x / WARP), row = warp * 16 * MT;
    const exact_tile<D> queries = {reinterpret_cast<bf16 *>(shared)}, keys = {queries.at + kBlockM * D},
                        values = {keys.at + 2 * kBlockN * D};
    const exact_keys all = keys_of(a, at.sequence);
    const int position = all.old + at.first, last = min(at.first + kBlockM, at.length) - 1;
    const exact_span key_span = {visible_keys(a, all, position).first, visible_keys(a, all, all.old + last).end};
    const int boundary = STATES ? min(max(all.old, key_span.first), key_span.end) : key_span.first;
    const int before = STATES ? (int)ceil_div((size_t)(boundary - key_span.first), kBlockN) : 0;
    const int tiles = before + (key_span.end > boundary ? (key_span.end - boundary + kBlockN - 1) / kBlockN : 0);
    const bo_gpu_attention_strides &by = a.at.strides;
    const bf16 *k = numbers_at(static_cast<const bf16 *>(a.at.k), by.k, at.sequence, (size_t)all.start, key_head);
    const bf16 *v = numbers_at(static_cast<const bf16 *>(a.at.v), by.v, at.sequence, (size_t)all.start, key_head);
    const float scale2 = a.at.scale * LOG2_E;

    /* the first position of tile j, and its end */
    auto first_of = [&](int j) {
        return j < before ? key_span.first + j * kBlockN : boundary + (j - before) * kBlockN;
    };
    auto end_of = [&](int j) { return j < before ? boundary : key_span.end; };
    auto fetch = [&](int j) {
        const exact_tile<D> to_keys = {keys.at + j % 2 * kBlockN * D}, to_values = {values.at + j % 2 * kBlockN * D};
        const int first = first_of(j);
        if (STATES && j < before) {
            load_kept<D, THREADS>(kept_of(a, at.sequence, key_head), first, boundary, to_keys, to_values);
        } else {
            const size_t from = (size_t)(first - all.old);
            to_keys.template load<kBlockN, THREADS>(k + from * by.k.row, by.k.row, key_span.end - first, a.at.dim);
            to_values.template load<kBlockN, THREADS>(v + from * by.v.row, by.v.row, key_span.end - first,
                                                      a.at.value_dim);
        }
        copy_commit();
    };

    queries.template load<kBlockM, THREADS>(
        numbers_at(static_cast<const bf16 *>(a.at.q), by.q, at.sequence, (size_t)(at.start + at.first), head), by.q.row,
        at.length - at.first, a.at.dim);
    if (tiles) fetch(0);
    copy_commit();
    forward_rows<D, MT> rows;
    rows.clear();
    uint32_t q[D == 64 ? MT : 1][D == 64 ? D / 16 : 1][4];
    for (int j = 0; j < tiles; j++) {
        copy_wait<0>();
        __syncthreads();
        if (j == 0 && D == 64)
#pragma unroll
            for (int m = 0; m < MT; m++)
#pragma unroll
                for (int k16 = 0; k16 < D / 16; k16++) queries.left(q[m][k16], row + 16 * m, k16);
        if (j + 1 < tiles) fetch(j + 1);
        const int first = first_of(j), end = end_of(j), top = position + row, bottom = top + 16 * MT - 1;
        if (first >= visible_keys(a, all, bottom).end || first + kBlockN <= visible_keys(a, all, top).first) continue;
        const exact_tile<D> key_tile = {keys.at + j % 2 * kBlockN * D}, value_tile = {values.at + j % 2 * kBlockN * D};
        float s[MT][kBlockN / 8][4] = {};
#pragma unroll
        for (int k16 = 0; k16 < D / 16; k16++) {
            uint32_t left[MT][4];
#pragma unroll
            for (int m = 0; m < MT; m++)
                if (D == 64)
                    for (int i = 0; i < 4; i++) left[m][i] = q[m][k16][i];
                else
                    queries.left(left[m], row + 16 * m, k16);
#pragma unroll
            for (int n = 0; n < kBlockN / 16; n++) {
                uint32_t b[4];
                key_tile.right(b, 16 * n, k16);
#pragma unroll
                for (int m = 0; m < MT; m++) mma_pair(s[m][2 * n], s[m][2 * n + 1], left[m], b);
            }
        }
        const bool whole = first + kBlockN <= end && visible_keys(a, all, top).end >= first + kBlockN &&
                           visible_keys(a, all, bottom).first <= first;
        if (!whole) mask_scores<MT>(a, all, top, first, end, s);
        online_softmax<D, MT>(scale2, s, rows);
#pragma unroll
        for (int k16 = 0; k16 < kBlockN / 16; k16++) {
            uint32_t p[MT][4];
#pragma unroll
            for (int m = 0; m < MT; m++) as_left(p[m], s[m][2 * k16], s[m][2 * k16 + 1]);
#pragma unroll
            for (int n = 0; n < D / 16; n++) {
                uint32_t b[4];
                value_tile.right_rows(b, 16 * k16, n);
#pragma unroll
                for (int m = 0; m < MT; m++) mma_pair(rows.out[m][2 * n], rows.out[m][2 * n + 1], p[m], b);
            }
        }
    }
    copy_wait<0>();
    __syncthreads();
    write_rows<D, MT>(a, at, head, row, queries, scale2, rows);
}

template <int D, int MT> bo_gpu_error forward_in_tiles(bo_gpu *cuda, const bo_gpu_exact *a)
{
    typedef forward_shape<D, MT> shape;
    const dim3 grid(tiles_of(a->at.queries, shape::kBlockM) * (unsigned)a->at.heads), block(shape::THREADS);
    if (a->at.states) return launch(cuda, grid, block, shape::SHARED, exact_forward_kernel<D, MT, true>, *a);
    return launch(cuda, grid, block, shape::SHARED, exact_forward_kernel<D, MT, false>, *a);
}

} // namespace

bo_gpu_error exact_forward(bo_gpu *cuda, const bo_gpu_exact *a)
{
    if (exact_way_of(*a) == EXACT_SIMPLE) return exact_simple_forward(cuda, a);
    if (exact_way_of(*a) == EXACT_FLOAT) return exact_float_forward(cuda, a);
    if (a->at.dim <= 64 && a->at.value_dim <= 64) return forward_in_tiles<64, 2>(cuda, a);
    return forward_in_tiles<128, 1>(cuda, a);
}

} // namespace bo
