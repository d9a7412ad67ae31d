/* Softmax attention, backward, on tensor cores. With scores S = scale Q Kᵀ, P = exp(S - lse), δ = dO·O of a row:
 *
 *     dV = Pᵀ dO,   dS = P ∘ (dO Vᵀ - δ),   dQ = scale dS K,   dK = scale dSᵀ Q.
 *
 * Two kernels, so every sum has a fixed order: one per tile of queries (δ and dQ: three products), one per tile of
 * keys (dK and dV: four products, computed transposed, so Pᵀ and dSᵀ are left-hand factors in registers).
 * Operations: 2 (4 dim + 3 value_dim) per pair of query and visible key. Bytes: q, dO and their gradients once and k, v
 * once per tile of queries, then the other way around; repeated reads are from the L2 cache. */
#include "exact.cuh"
#include "launches.cuh"

namespace bo {
namespace {

enum { WARPS = 4, THREADS = WARPS * WARP };

/* A warp computes the gradients of 16 MT rows of its tile, and loops over tiles of INNER rows of the other side, PIECE
 * rows at a time. BLOCKS is the number of blocks per multiprocessor. More rows per warp mean fewer shared-memory reads
 * per product; fewer rows mean more warps. */
template <int D, int MT_> struct backward_shape {
    enum { MT = MT_, ROWS = WARPS * 16 * MT, INNER = 64, PIECE = 32, BLOCKS = D == 64 && MT == 1 ? 4 : 2 };
    enum { TILES = (2 * ROWS + 4 * INNER) * D * 2 }; /* bytes */
    enum { DQ_SHARED = TILES + ROWS * 4, DKV_SHARED = TILES + 4 * INNER * 4 };
};
template <int D> using dq_shape = backward_shape<D, 1>;
template <int D> using dkv_shape = backward_shape<D, D == 64 ? 2 : 1>;

/* acc += left · tile[first … first + 31]ᵀ, for fragments of 16 MT rows. */
template <int D, int MT>
__device__ inline void scores(float (&acc)[MT][4][4], const uint32_t (&left)[MT][D / 16][4], const exact_tile<D> &tile,
                              int first)
{
#pragma unroll
    for (int k16 = 0; k16 < D / 16; k16++)
#pragma unroll
        for (int n = 0; n < 2; n++) {
            uint32_t b[4];
            tile.right(b, first + 16 * n, k16);
#pragma unroll
            for (int m = 0; m < MT; m++) mma_pair(acc[m][2 * n], acc[m][2 * n + 1], left[m][k16], b);
        }
}

/* A variant with the left-hand factor in shared memory. */
template <int D, int MT>
__device__ inline void scores(float (&acc)[MT][4][4], const exact_tile<D> &rows, int row, const exact_tile<D> &tile,
                              int first)
{
#pragma unroll
    for (int k16 = 0; k16 < D / 16; k16++) {
        uint32_t left[MT][4];
#pragma unroll
        for (int m = 0; m < MT; m++) rows.left(left[m], row + 16 * m, k16);
#pragma unroll
        for (int n = 0; n < 2; n++) {
            uint32_t b[4];
            tile.right(b, first + 16 * n, k16);
#pragma unroll
            for (int m = 0; m < MT; m++) mma_pair(acc[m][2 * n], acc[m][2 * n + 1], left[m], b);
        }
    }
}

/* acc += weights · tile[first … first + 31]. */
template <int D, int MT>
__device__ inline void weigh(float (&acc)[MT][D / 8][4], const float (&weights)[MT][4][4], const exact_tile<D> &tile,
                             int first)
{
#pragma unroll
    for (int k16 = 0; k16 < 2; k16++) {
        uint32_t left[MT][4];
#pragma unroll
        for (int m = 0; m < MT; m++) as_left(left[m], weights[m][2 * k16], weights[m][2 * k16 + 1]);
#pragma unroll
        for (int n = 0; n < D / 16; n++) {
            uint32_t b[4];
            tile.right_rows(b, first + 16 * k16, n);
#pragma unroll
            for (int m = 0; m < MT; m++) mma_pair(acc[m][2 * n], acc[m][2 * n + 1], left[m], b);
        }
    }
}

/* ---- gradients of queries ---------------------------------------------------------------------------------------- */

/* δ of the tile's rows, to shared memory and for the other kernel: EACH neighboring threads per row, with one chunk in
 * EACH. The outputs are read while the tile of dO arrives. */
template <int D> struct row_deltas {
    enum { EACH = THREADS / dq_shape<D>::ROWS, CHUNKS = D / 8 / EACH };
    uint4 out[CHUNKS];

    __device__ void read(const bo_gpu_exact &a, const row_tile &at, int head)
    {
        const int r = (int)threadIdx.x / EACH, part = (int)threadIdx.x % EACH, width = a.at.value_dim;
        const bf16 *from = numbers_at(static_cast<const bf16 *>(a.at.out), a.at.strides.out, at.sequence,
                                      (size_t)(at.start + at.first + r), head);
#pragma unroll
        for (int i = 0; i < CHUNKS; i++) {
            const int c = i * EACH + part;
            out[i] = uint4{};
            if (at.first + r < at.length && c * 8 < width) out[i] = *reinterpret_cast<const uint4 *>(from + c * 8);
        }
    }

    __device__ void find(const bo_gpu_exact &a, const row_tile &at, int head, const exact_tile<D> &dO_tiles,
                         float *delta)
    {
        const int r = (int)threadIdx.x / EACH, part = (int)threadIdx.x % EACH;
        float sum = 0, x[8], y[8];
#pragma unroll
        for (int i = 0; i < CHUNKS; i++) {
            widen_bf16(out[i], x);
            widen_bf16(*reinterpret_cast<const uint4 *>(dO_tiles.chunk(r, i * EACH + part)), y);
#pragma unroll
            for (int j = 0; j < 8; j++) sum += x[j] * y[j];
        }
        for (int step = 1; step < EACH; step *= 2) sum += __shfl_xor_sync(0xFFFFFFFFu, sum, step);
        if (part) return;
        delta[r] = sum;
        if (at.first + r < at.length) a.delta[tape_at(a, head, at.start + at.first + r)] = sum;
    }
};

template <int D> __global__ void __launch_bounds__(THREADS, dq_shape<D>::BLOCKS) exact_dq_kernel(bo_gpu_exact a)
{
    typedef dq_shape<D> shape;
    enum { MT = shape::MT, ROWS = shape::ROWS, INNER = shape::INNER };
    BO_SHARED(shared);
    row_tile at;
    const exact_place place = exact_place_of(a.at.heads, true);
    if (!find_tile(a.at.queries, ROWS, place.tile, &at)) return;
    const int head = place.head, key_head = head / (a.at.heads / a.at.key_heads);
    const int lane = (int)(threadIdx.x % WARP), row = (int)(threadIdx.x / WARP) * 16 * MT, g = lane / 4,
              c = 2 * (lane % 4);
    const exact_tile<D> queries = {reinterpret_cast<bf16 *>(shared)}, dO_tiles = {queries.at + ROWS * D},
                        keys = {dO_tiles.at + ROWS * D}, values = {keys.at + 2 * INNER * D};
    float *smem_delta = reinterpret_cast<float *>(values.at + 2 * INNER * D);
    const exact_keys all = keys_of(a, at.sequence);
    const int last = min(at.first + ROWS, at.length) - 1;
    const exact_span key_span = {visible_keys(a, all, at.first).first, visible_keys(a, all, last).end};
    const int tiles =
        a.at.dq && key_span.end > key_span.first ? (key_span.end - key_span.first + INNER - 1) / INNER : 0;
    const bo_gpu_attention_strides &by = a.at.strides;
    const bf16 *k = numbers_at(static_cast<const bf16 *>(a.at.k), by.k, at.sequence, (size_t)all.start, key_head);
    const bf16 *v = numbers_at(static_cast<const bf16 *>(a.at.v), by.v, at.sequence, (size_t)all.start, key_head);
    const size_t first_row = (size_t)(at.start + at.first);
    const float scale2 = a.at.scale * LOG2_E;

    auto fetch = [&](int j) {
        const exact_tile<D> to_keys = {keys.at + j % 2 * INNER * D}, to_values = {values.at + j % 2 * INNER * D};
        const int first = key_span.first + j * INNER;
        const size_t from = (size_t)first;
        to_keys.template load<INNER, THREADS>(k + from * by.k.row, by.k.row, key_span.end - first, a.at.dim);
        to_values.template load<INNER, THREADS>(v + from * by.v.row, by.v.row, key_span.end - first, a.at.value_dim);
        copy_commit();
    };

    queries.template load<ROWS, THREADS>(
        numbers_at(static_cast<const bf16 *>(a.at.q), by.q, at.sequence, first_row, head), by.q.row,
        at.length - at.first, a.at.dim);
    dO_tiles.template load<ROWS, THREADS>(
        numbers_at(static_cast<const bf16 *>(a.at.dout), by.dout, at.sequence, first_row, head), by.dout.row,
        at.length - at.first, a.at.value_dim);
    copy_commit();
    if (tiles) fetch(0);
    row_deltas<D> found;
    found.read(a, at, head);
    copy_wait<0>();
    __syncthreads();
    found.find(a, at, head, dO_tiles, smem_delta);
    __syncthreads();
    if (!a.at.dq) return;

    uint32_t q[MT][D / 16][4], dO[MT][D / 16][4];
    float lse[MT][2], delta[MT][2], dQ[MT][D / 8][4] = {};
#pragma unroll
    for (int m = 0; m < MT; m++) {
#pragma unroll
        for (int k16 = 0; k16 < D / 16; k16++) {
            queries.left(q[m][k16], row + 16 * m, k16);
            dO_tiles.left(dO[m][k16], row + 16 * m, k16);
        }
        for (int h = 0; h < 2; h++) {
            const int r = row + 16 * m + g + 8 * h;
            lse[m][h] = at.first + r < at.length ? a.top[tape_at(a, head, at.start + at.first + r)] : INFINITY;
            delta[m][h] = smem_delta[r];
        }
    }
    for (int j = 0; j < tiles; j++) {
        copy_wait<0>();
        __syncthreads();
        if (j + 1 < tiles) fetch(j + 1);
        const exact_tile<D> key_tile = {keys.at + j % 2 * INNER * D}, value_tile = {values.at + j % 2 * INNER * D};
#pragma unroll 1
        for (int piece = 0; piece < INNER; piece += shape::PIECE) {
            const int first = key_span.first + j * INNER + piece;
            const exact_span upper = visible_keys(a, all, at.first + row),
                             lower = visible_keys(a, all, at.first + row + 16 * MT - 1);
            if (first >= lower.end || first + shape::PIECE <= upper.first) continue;
            const bool whole = upper.end >= first + shape::PIECE && lower.first <= first;
            float s[MT][4][4] = {}, dP[MT][4][4] = {};
            scores<D, MT>(s, q, key_tile, piece);
            scores<D, MT>(dP, dO, value_tile, piece);
#pragma unroll
            for (int m = 0; m < MT; m++)
#pragma unroll
                for (int n = 0; n < 4; n++)
#pragma unroll
                    for (int i = 0; i < 4; i++) {
                        const float p = exp2_fast(fmaf(s[m][n][i], scale2, -lse[m][i / 2]));
                        s[m][n][i] = p * (dP[m][n][i] - delta[m][i / 2]);
                    }
            if (!whole)
#pragma unroll
                for (int m = 0; m < MT; m++)
#pragma unroll
                    for (int h = 0; h < 2; h++) {
                        const exact_span row_span = visible_keys(a, all, at.first + row + 16 * m + g + 8 * h);
                        const int low = row_span.first - first - c, high = row_span.end - first - c;
#pragma unroll
                        for (int n = 0; n < 4; n++)
#pragma unroll
                            for (int i = 0; i < 2; i++)
                                if (8 * n + i < low || 8 * n + i >= high) s[m][n][2 * h + i] = 0.0f;
                    }
            weigh<D, MT>(dQ, s, key_tile, piece);
        }
    }
    __syncwarp(); /* this warp owns these rows of the query tile */
#pragma unroll
    for (int m = 0; m < MT; m++) queries.store_accumulator(row + 16 * m, dQ[m], a.at.scale, a.at.scale);
    __syncwarp();
    queries.store(row, 16 * MT, numbers_at(static_cast<bf16 *>(a.at.dq), by.dq, at.sequence, first_row, head),
                  by.dq.row, at.length - at.first, a.at.dim);
}

/* ---- gradients of keys and values -------------------------------------------------------------------------------- */

template <int D> __global__ void __launch_bounds__(THREADS, dkv_shape<D>::BLOCKS) exact_dkv_kernel(bo_gpu_exact a)
{
    typedef dkv_shape<D> shape;
    enum { MT = shape::MT, ROWS = shape::ROWS, INNER = shape::INNER };
    BO_SHARED(shared);
    row_tile at;
    const exact_place place = exact_place_of(a.at.key_heads, false); /* early keys are visible to the most queries */
    if (!find_tile(a.at.keys, ROWS, place.tile, &at)) return;
    const int key_head = place.head, group = a.at.heads / a.at.key_heads;
    const int lane = (int)(threadIdx.x % WARP), row = (int)(threadIdx.x / WARP) * 16 * MT, g = lane / 4,
              c = 2 * (lane % 4);
    const exact_tile<D> keys = {reinterpret_cast<bf16 *>(shared)}, values = {keys.at + ROWS * D},
                        queries = {values.at + ROWS * D}, dO_tiles = {queries.at + 2 * INNER * D};
    float *smem_lse = reinterpret_cast<float *>(dO_tiles.at + 2 * INNER * D), *smem_delta = smem_lse + 2 * INNER;
    const exact_keys all = keys_of(a, at.sequence);
    const int query_start = rows_before(a.at.queries, at.sequence),
              count = rows_before(a.at.queries, at.sequence + 1) - query_start;
    const int last = min(at.first + ROWS, at.length) - 1;
    exact_span query_span = {visible_queries(a, all, count, max(at.first, all.oldest)).first,
                             visible_queries(a, all, count, last).end};
    const int each = query_span.end > query_span.first ? (query_span.end - query_span.first + INNER - 1) / INNER : 0,
              tiles = each * group;
    const bo_gpu_attention_strides &by = a.at.strides;
    const size_t first_row = (size_t)(at.start + at.first);
    const float scale2 = a.at.scale * LOG2_E;

    auto fetch = [&](int j) {
        const exact_tile<D> to_queries = {queries.at + j % 2 * INNER * D}, to_dO = {dO_tiles.at + j % 2 * INNER * D};
        const int head = key_head * group + j / each, first = query_span.first + j % each * INNER;
        const size_t from = (size_t)(query_start + first);
        to_queries.template load<INNER, THREADS>(
            numbers_at(static_cast<const bf16 *>(a.at.q), by.q, at.sequence, from, head), by.q.row,
            query_span.end - first, a.at.dim);
        to_dO.template load<INNER, THREADS>(
            numbers_at(static_cast<const bf16 *>(a.at.dout), by.dout, at.sequence, from, head), by.dout.row,
            query_span.end - first, a.at.value_dim);
        if (threadIdx.x < INNER) { /* missing rows: 0 for dO, lse and delta, so their dV and dS are 0 */
            const int r = (int)threadIdx.x;
            const bool present = first + r < query_span.end;
            const size_t tape = tape_at(a, head, query_start + first + (present ? r : 0));
            copy_async_float(smem_lse + j % 2 * INNER + r, a.top + tape, present);
            copy_async_float(smem_delta + j % 2 * INNER + r, a.delta + tape, present);
        }
        copy_commit();
    };

    keys.template load<ROWS, THREADS>(
        numbers_at(static_cast<const bf16 *>(a.at.k), by.k, at.sequence, first_row, key_head), by.k.row,
        at.length - at.first, a.at.dim);
    values.template load<ROWS, THREADS>(
        numbers_at(static_cast<const bf16 *>(a.at.v), by.v, at.sequence, first_row, key_head), by.v.row,
        at.length - at.first, a.at.value_dim);
    copy_commit();
    if (tiles) fetch(0);
    float dK[MT][D / 8][4] = {}, dV[MT][D / 8][4] = {};
    for (int j = 0; j < tiles; j++) {
        copy_wait<0>();
        __syncthreads();
        if (j + 1 < tiles) fetch(j + 1);
        const exact_tile<D> query_tile = {queries.at + j % 2 * INNER * D}, dO_tile = {dO_tiles.at + j % 2 * INNER * D};
        const float *lse = smem_lse + j % 2 * INNER, *delta = smem_delta + j % 2 * INNER;
#pragma unroll 1
        for (int piece = 0; piece < INNER; piece += shape::PIECE) {
            const int first = query_span.first + j % each * INNER + piece;
            const exact_span upper = visible_queries(a, all, count, at.first + row),
                             lower = visible_queries(a, all, count, at.first + row + 16 * MT - 1);
            const bool whole = lower.end && upper.end && lower.first <= first && upper.end >= first + shape::PIECE;
            if (a.at.causal && first + shape::PIECE <= upper.first) continue;
            float s[MT][4][4] = {}, dP[MT][4][4] = {};
            scores<D, MT>(s, keys, row, query_tile, piece);
            scores<D, MT>(dP, values, row, dO_tile, piece);
#pragma unroll
            for (int n = 0; n < 4; n++)
#pragma unroll
                for (int i = 0; i < 2; i++) {
                    const float t = lse[piece + 8 * n + c + i];
#pragma unroll
                    for (int m = 0; m < MT; m++)
#pragma unroll
                        for (int h = 0; h < 2; h++)
                            s[m][n][2 * h + i] = exp2_fast(fmaf(s[m][n][2 * h + i], scale2, -t));
                }
            if (!whole)
#pragma unroll
                for (int m = 0; m < MT; m++)
#pragma unroll
                    for (int h = 0; h < 2; h++) {
                        const exact_span row_span = visible_queries(a, all, count, at.first + row + 16 * m + g + 8 * h);
                        const int low = row_span.first - first - c, high = row_span.end - first - c;
#pragma unroll
                        for (int n = 0; n < 4; n++)
#pragma unroll
                            for (int i = 0; i < 2; i++)
                                if (8 * n + i < low || 8 * n + i >= high)
                                    s[m][n][2 * h + i] = dP[m][n][2 * h + i] = 0.0f;
                    }
            weigh<D, MT>(dV, s, dO_tile, piece);
            /* computes dS while the tensor cores compute dV */
#pragma unroll
            for (int n = 0; n < 4; n++)
#pragma unroll
                for (int i = 0; i < 2; i++) {
                    const float d = delta[piece + 8 * n + c + i];
#pragma unroll
                    for (int m = 0; m < MT; m++)
#pragma unroll
                        for (int h = 0; h < 2; h++)
                            dP[m][n][2 * h + i] = s[m][n][2 * h + i] * (dP[m][n][2 * h + i] - d);
                }
            weigh<D, MT>(dK, dP, query_tile, piece);
        }
    }
    copy_wait<0>();
    __syncthreads();
#pragma unroll
    for (int m = 0; m < MT; m++) {
        keys.store_accumulator(row + 16 * m, dK[m], a.at.scale, a.at.scale);
        values.store_accumulator(row + 16 * m, dV[m], 1.0f, 1.0f);
    }
    __syncwarp();
    if (a.at.dk)
        keys.store(row, 16 * MT, numbers_at(static_cast<bf16 *>(a.at.dk), by.dk, at.sequence, first_row, key_head),
                   by.dk.row, at.length - at.first, a.at.dim);
    if (a.at.dv)
        values.store(row, 16 * MT, numbers_at(static_cast<bf16 *>(a.at.dv), by.dv, at.sequence, first_row, key_head),
                     by.dv.row, at.length - at.first, a.at.value_dim);
}

/* ---- launches ---------------------------------------------------------------------------------------------------- */

template <int D> bo_gpu_error backward_in_tiles(bo_gpu *cuda, const bo_gpu_exact *a)
{
    bo_gpu_error error = launch(cuda, dim3(tiles_of(a->at.queries, dq_shape<D>::ROWS) * (unsigned)a->at.heads),
                                dim3(THREADS), dq_shape<D>::DQ_SHARED, exact_dq_kernel<D>, *a);
    if (error || !(a->at.dk || a->at.dv)) return error;
    return launch(cuda, dim3(tiles_of(a->at.keys, dkv_shape<D>::ROWS) * (unsigned)a->at.key_heads), dim3(THREADS),
                  dkv_shape<D>::DKV_SHARED, exact_dkv_kernel<D>, *a);
}

} // namespace

bo_gpu_error exact_backward(bo_gpu *cuda, const bo_gpu_exact *a)
{
    if (exact_way_of(*a) == EXACT_SIMPLE) return exact_simple_backward(cuda, a);
    if (exact_way_of(*a) == EXACT_FLOAT) return exact_float_backward(cuda, a);
    return a->at.dim <= 64 && a->at.value_dim <= 64 ? backward_in_tiles<64>(cuda, a) : backward_in_tiles<128>(cuda, a);
}

} // namespace bo
