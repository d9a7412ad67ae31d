/* Linear attention in bfloat16 with features in memory: sums of segments, and products that give rows of values
 * (outputs, gradients of values). With D features, V value columns and segments of C rows, per row and head:
 * stored_sums 2 D (V + 8) operations, stored_values 2 D (V + 8) + C (D + V + 8) operations and C / 2 exponentials, if
 * keys have weights. Features are read once per tile of values, and those of the keys of a segment about 1.5 times. */
#include "features_stored.cuh"

namespace bo {
namespace features {

/* ---- sums of segments -------------------------------------------------------------------------------------------- */

enum { SUM_WARPS = 4, SUM_THREADS = SUM_WARPS * WARP, SUM_SLOTS = 2 };

template <int VT> struct sum_layout {
    enum {
        STRIDE = VT + 24, /* of values */
        SLOT = STEP * (STEP_STRIDE + STRIDE),
        FLOATS = SUM_SLOTS * SLOT * 2 /* bytes before the weights, c and shifts */
    };
};

/* Exponents of the keys of a segment, by one warp: writes c, shifts and the sums of log gates; lane i computes rows i
 * segment / 32 …, whatever the number of rows, so results do not depend on later rows. Returns the log scale of the
 * sums of the segment and the sum of its gates. */
struct segment_end {
    float top, gates;
};

__device__ inline segment_end stored_exponents(const arguments &a, const span &at, int key_head, float *c, float *shift,
                                               float *gates)
{
    const int each = a.segment / WARP, first = lane_id() * each;
    float sum = 0, top = -INFINITY;
    for (int i = first; i < first + each; i++) {
        const size_t row = at.first + (size_t)i;
        if (i < at.count && a.gated) sum += fmaxf(log_gate<bf16>(a, at.sequence, row, key_head), -1000.0f);
        gates[i] = sum;
    }
    float total = sum;
    for (int step = 1; a.gated && step < WARP; step *= 2) {
        const float more = __shfl_up_sync(0xFFFFFFFFu, total, (unsigned)step);
        if (lane_id() >= step) total += more;
    }
    float before = __shfl_up_sync(0xFFFFFFFFu, total, 1u);
    if (lane_id() == 0) before = 0;
    for (int i = first; i < first + each; i++) {
        const size_t row = at.first + (size_t)i;
        float entry = -INFINITY;
        if (i < at.count) {
            const float gate = a.gated ? fmaxf(log_gate<bf16>(a, at.sequence, row, key_head), -1000.0f) : 0.0f;
            entry = (a.map.scaled ? a.key_scales[key_row(a, row, key_head)] : 0.0f) + log_entry(a, row, key_head, gate);
        }
        gates[i] += before;
        c[i] = entry - gates[i];
        top = fmaxf(top, c[i]);
        shift[i] = top;
    }
    float last = top;
    for (int step = 1; step < WARP; step *= 2) {
        const float more = __shfl_up_sync(0xFFFFFFFFu, last, (unsigned)step);
        if (lane_id() >= step) last = fmaxf(last, more);
    }
    float earlier = __shfl_up_sync(0xFFFFFFFFu, last, 1u);
    if (lane_id() == 0) earlier = -INFINITY;
    for (int i = first; i < first + each; i++) shift[i] = a.map.scaled ? fmaxf(shift[i], earlier) : gates[i];
    return {__shfl_sync(0xFFFFFFFFu, last, WARP - 1), __shfl_sync(0xFFFFFFFFu, total, WARP - 1)};
}

/* The exponents of a segment, to shared memory and, if `keep`, to memory; and the weights of its keys. */
__device__ inline void share_exponents(const arguments &a, const span &at, size_t index, int key_head, bool keep,
                                       float *weight, float *c, float *shift, float *gates)
{
    if (warp_id() == 0) {
        const segment_end end = stored_exponents(a, at, key_head, c, shift, gates);
        __syncwarp();
        const float last = !a.map.scaled ? end.gates : end.top > -INFINITY ? -end.top : 0.0f;
        for (int i = lane_id(); i < a.segment; i += WARP) weight[i] = weight_of(c[i], last);
        if (keep && lane_id() == 0) {
            float *to = a.sums + sums_at(a, index, key_head);
            to[0] = a.map.scaled ? end.gates + end.top : 0.0f, sums_gates(to) = (double)end.gates;
        }
    }
    __syncthreads();
    for (int i = (int)threadIdx.x; keep && i < at.count; i += SUM_THREADS) {
        const size_t place = key_row(a, at.first + (size_t)i, key_head);
        a.scales[place] = c[i], a.shifts[place] = shift[i];
        if (a.entries) a.gate_sums[place] = gates[i];
    }
}

/* Two bfloat16 numbers times two weights. */
__device__ inline uint32_t weigh_pair(uint32_t pair, float low, float high)
{
    float x, y;
    unpack_bf16(pair, x, y);
    return pack_bf16(low * x, high * y);
}

/* The sums Σ_j w_j f_j x~_j of a segment: of its keys, x = v; or of its queries, x = dn, for the gradient of the sums
 * before it. Grid: segments, key heads, tiles of features x tiles of values. */
template <int VT> __global__ void __launch_bounds__(SUM_THREADS, 4) stored_sums_kernel(arguments a, role of, int tiles)
{
    BO_SHARED(shared);
    typedef sum_layout<VT> L;
    bf16 *ring = reinterpret_cast<bf16 *>(shared);
    float *weight = reinterpret_cast<float *>(shared + L::FLOATS);
    const int key_head = (int)blockIdx.y, heads = of == OF_KEYS ? a.call.key_heads : a.call.heads;
    const int group = of == OF_KEYS ? 1 : a.call.heads / a.call.key_heads, values = a.call.value_dim;
    const int feature = (int)blockIdx.z / tiles * STEP, column = (int)blockIdx.z % tiles * VT;
    const bool causal = a.call.causal, weighted = has_weights(a) && (of == OF_KEYS || causal);
    span at;
    if (!find_segment(a, of == OF_KEYS ? a.call.keys : a.call.queries, blockIdx.x, at)) return;
    const bool first_block = blockIdx.z == 0;
    const bool needed =
        !causal || (of == OF_KEYS ? a.call.states || !is_last_segment(a, at) : !is_first_segment(a, at));
    if (!needed && !(of == OF_KEYS && weighted && first_block)) return;
    const bf16 *v = nullptr;
    if (of == OF_KEYS) v = numbers_at((const bf16 *)a.call.v, a.call.strides.v, at.sequence, at.first, key_head);
    const int tiles_of_rows = (at.count + STEP - 1) / STEP, steps = needed ? tiles_of_rows * group : 0;
    auto load = [&](int step) {
        const int row = step % tiles_of_rows * STEP,
                  head = of == OF_KEYS ? key_head : key_head * group + step / tiles_of_rows;
        const size_t first = at.first + (size_t)row;
        bf16 *f = ring + step % SUM_SLOTS * L::SLOT, *x = f + STEP * STEP_STRIDE;
        const bf16 *from = (const bf16 *)(of == OF_KEYS ? a.fk : a.fq);
        copy_tile<STEP / 8>(f, STEP_STRIDE, STEP, stored_row(from, first, heads, head, a.stored_dim) + feature,
                            (size_t)heads * (size_t)a.stored_dim, at.count - row, a.stored_dim - feature);
        if (of == OF_KEYS)
            copy_wide(x, L::STRIDE, STEP, VT, v + (size_t)row * a.call.strides.v.row, a.call.strides.v.row,
                      at.count - row, column, values, END_ONES);
        else
            copy_wide(x, L::STRIDE, STEP, VT, stored_row((const bf16 *)a.dn, first, heads, head, values + EXTRA),
                      (size_t)heads * (size_t)(values + EXTRA), at.count - row, column, values, END_STORED);
    };
    if (steps > 0) load(0);
    copy_commit();
    if (weighted && of == OF_KEYS) {
        share_exponents(a, at, blockIdx.x, key_head, first_block, weight, weight + a.segment, weight + 2 * a.segment,
                        weight + 3 * a.segment);
    } else if (weighted) {
        const float begin = begin_of(a, blockIdx.x, key_head);
        for (int i = (int)threadIdx.x; i < a.segment; i += SUM_THREADS)
            weight[i] = i < at.count
                            ? weight_of(begin, shift_of(a, begin, a.shifts[key_row(a, at.first + (size_t)i, key_head)]))
                            : 0.0f;
    } else if (of == OF_KEYS && first_block && threadIdx.x == 0) {
        float *to = a.sums + sums_at(a, blockIdx.x, key_head);
        to[0] = 0, sums_gates(to) = 0;
    }
    float s[VT / 8 + 1][4] = {};
    for (int step = 0; step < steps; step++) {
        if (step + 1 < steps) load(step + 1);
        copy_commit();
        copy_wait<1>();
        __syncthreads();
        const bf16 *f = ring + step % SUM_SLOTS * L::SLOT, *x = f + STEP * STEP_STRIDE;
#pragma unroll
        for (int k = 0; k < STEP; k += 16) {
            uint32_t rows[4], b[4];
            load_a_transposed(rows, f, STEP_STRIDE, 16 * warp_id(), k);
            if (weighted) {
                const float *w = weight + step % tiles_of_rows * STEP + k + lane_column();
                rows[0] = weigh_pair(rows[0], w[0], w[1]), rows[1] = weigh_pair(rows[1], w[0], w[1]);
                rows[2] = weigh_pair(rows[2], w[8], w[9]), rows[3] = weigh_pair(rows[3], w[8], w[9]);
            }
#pragma unroll
            for (int t = 0; t < VT / 8; t += 2) {
                load_b_rows(b, x, L::STRIDE, k, 8 * t);
                mma_two(s[t], s[t + 1], rows, b);
            }
            load_b_rows(b, x, L::STRIDE, k, VT);
            const uint32_t last[2] = {b[0], b[1]};
            mma(s[VT / 8], rows, last);
        }
        __syncthreads();
    }
    if (!needed) return;
    float *to = (of == OF_KEYS ? a.sums : a.gradients) + sums_at(a, blockIdx.x, key_head);
    for (int r = 0; r < 2; r++) {
        const int i = feature + 16 * warp_id() + lane_row() + 8 * r;
        if (i >= a.map.features) continue;
#pragma unroll
        for (int t = 0; t < VT / 8; t++) {
            const int place = column + 8 * t + lane_column();
            if (place < values)
                *reinterpret_cast<pack<float, 2> *>(to + sums_wide(a, i, place)) = {{s[t][2 * r], s[t][2 * r + 1]}};
        }
        if (column == 0 && lane_column() == 0)
            to[sums_z() + (size_t)i] = s[VT / 8][2 * r] + (of == OF_KEYS ? 0.0f : s[VT / 8][2 * r + 1]);
    }
}

template <int VT> static bo_gpu_error sums_of(bo_gpu *cuda, const arguments *a, bool keys)
{
    const int tiles = (a->call.value_dim + VT - 1) / VT;
    const dim3 grid(tiles_of(keys ? a->call.keys : a->call.queries, a->segment), (unsigned)a->call.key_heads,
                    (unsigned)(round_up(a->stored_dim, STEP) / STEP * tiles));
    const size_t shared = (size_t)sum_layout<VT>::FLOATS + (size_t)(4 * a->segment) * sizeof(float);
    return launch(cuda, grid, dim3(SUM_THREADS), shared, stored_sums_kernel<VT>, *a, keys ? OF_KEYS : OF_QUERIES,
                  tiles);
}

#define FOR_VALUE_TILE(values, CALL)                                                                                   \
    ((values) <= 32                                            ? CALL(32)                                              \
     : (values) <= 64                                          ? CALL(64)                                              \
     : ((values) <= 96 || ((values) > 128 && (values) <= 192)) ? CALL(96)                                              \
                                                               : CALL(128))

bo_gpu_error stored_sums(bo_gpu *cuda, const arguments *a, bool keys)
{
#define SUMS(vt) sums_of<vt>(cuda, a, keys)
    return FOR_VALUE_TILE(a->call.value_dim, SUMS);
}

/* ---- rows of values ---------------------------------------------------------------------------------------------- */

template <int VT> struct values_layout {
    enum { STRIDE = VT + 24, WIDEST = STRIDE > STEP_STRIDE ? STRIDE : STEP_STRIDE, SLOT = STEP * WIDEST };
};

/* Rows of a block: the features of its rows stay in shared memory. */
static int rows_of_values(const arguments *a)
{
    return a->stored_dim > 640 ? 64 : 128;
}

/* HYBRID: writes the numerators of this warp's rows, their denominators and log scales. */
template <int VT>
__device__ inline void write_parts(const arguments &a, const float (&n)[VT / 8 + 1][4], const float (&denominator)[2],
                                   const span &at, int head, int key_head, int first, int column, float begin)
{
    for (int r = 0; r < 2; r++) {
        const int row = first + lane_row() + 8 * r;
        if (row >= at.count) continue;
        const size_t place = (at.first + (size_t)row) * (size_t)a.call.heads + (size_t)head,
                     key = key_row(a, at.first + (size_t)row, key_head);
        float *to = a.numerators + place * (size_t)a.call.value_dim;
#pragma unroll
        for (int t = 0; t < VT / 8; t++) {
            const int v = column + 8 * t + lane_column();
            if (v < a.call.value_dim) *reinterpret_cast<pack<float, 2> *>(to + v) = {{n[t][2 * r], n[t][2 * r + 1]}};
        }
        if (column > 0 || lane_column() > 0) continue;
        const float top = fmaxf(begin, a.map.scaled ? a.shifts[key] : 0.0f);
        a.norms[place] = denominator[r];
        a.tops[place] = (a.map.scaled ? a.query_scales[place] : 0.0f) + (a.map.scaled ? a.gate_sums[key] + top : 0.0f);
    }
}

/* Outputs (rows are queries): o_i = Σ_j (f_i·f_j) w_ij v_j + (S~ᵀ f_i) w_i, divided by the last column. Gradients of
 * values (KEYS: rows are keys): dv_j = Σ_i (f_i·f_j) w_ij dn_i + (Gᵀ f_j) w_j. Grid: segments x tiles of rows, heads,
 * tiles of values. */
template <int VT, bool KEYS>
__global__ void __launch_bounds__(STORED_WARPS *WARP, VT <= 64 ? 2 : 1) stored_values_kernel(arguments a, int tiles)
{
    BO_SHARED(shared);
    typedef values_layout<VT> L;
    enum { TILES = VT / 8 + (KEYS ? 0 : 1) };
    const int group = a.call.heads / a.call.key_heads, own_heads = KEYS ? a.call.key_heads : a.call.heads;
    const int other_heads = KEYS ? a.call.heads : a.call.key_heads, head = (int)blockIdx.y;
    const int key_head = KEYS ? head : head / group, rows = (int)blockDim.x / 2;
    const int first = (int)blockIdx.x % tiles * rows, column = (int)blockIdx.z * VT, values = a.call.value_dim;
    const size_t index = (size_t)blockIdx.x / (size_t)tiles;
    const int dim = a.stored_dim, own_stride = dim + 8, panels = (dim + STEP - 1) / STEP;
    const bool causal = a.call.causal, weighted = has_weights(a) && (KEYS || causal);
    span at;
    if (!find_segment(a, KEYS ? a.call.keys : a.call.queries, index, at) || first >= at.count) return;
    bf16 *own = reinterpret_cast<bf16 *>(shared), *ring = own + rows * own_stride;
    float *exponents = reinterpret_cast<float *>(ring + SLOTS * L::SLOT);
    const float begin = causal || KEYS ? begin_of(a, index, key_head) : 0.0f;
    /* the sums that rows read, and the tiles of columns that they see */
    const bf16 *sums = KEYS     ? wide_sums(a, a.later, index, key_head)
                       : causal ? wide_sums(a, a.before, index, key_head)
                                : wide_sums(a, a.all, (size_t)at.sequence, key_head);
    bool has_sums = !causal;
    if (causal) has_sums = KEYS ? !is_last_segment(a, at) : a.call.states || !is_first_segment(a, at);
    const int first_tile = KEYS ? first / STEP : 0, end = KEYS ? at.count : min(first + rows, at.count);
    const int columns = causal ? (end + STEP - 1) / STEP - first_tile : 0;
    const int sum_steps = has_sums ? panels : 0, steps = sum_steps + columns * (KEYS ? group : 1) * (panels + 1);
    auto tile_of = [&](int step, int &other_head, int &panel) {
        const int tile = (step - sum_steps) / (panels + 1);
        panel = (step - sum_steps) % (panels + 1);
        other_head = KEYS ? head * group + tile / columns : key_head;
        return (first_tile + (KEYS ? tile % columns : tile)) * STEP;
    };
    auto load = [&](int step) {
        bf16 *slot = ring + step % SLOTS * L::SLOT;
        int other_head, panel;
        if (step < sum_steps) {
            const int feature = step * STEP;
            copy_wide(slot, L::STRIDE, STEP, VT, sums + (size_t)feature * (size_t)(values + EXTRA),
                      (size_t)(values + EXTRA), a.map.features - feature, column, values, KEYS ? END_NONE : END_STORED);
            return;
        }
        const int row = tile_of(step, other_head, panel);
        const size_t from = at.first + (size_t)row;
        if (panel < panels)
            copy_tile<STEP / 8>(slot, STEP_STRIDE, STEP,
                                stored_row((const bf16 *)(KEYS ? a.fq : a.fk), from, other_heads, other_head, dim) +
                                    panel * STEP,
                                (size_t)other_heads * (size_t)dim, at.count - row, dim - panel * STEP);
        else if (KEYS)
            copy_wide(slot, L::STRIDE, STEP, VT,
                      stored_row((const bf16 *)a.dn, from, other_heads, other_head, values + EXTRA),
                      (size_t)other_heads * (size_t)(values + EXTRA), at.count - row, column, values, END_NONE);
        else
            copy_wide(slot, L::STRIDE, STEP, VT,
                      numbers_at((const bf16 *)a.call.v, a.call.strides.v, at.sequence, from, key_head),
                      a.call.strides.v.row, at.count - row, column, values, END_ONES);
    };
    copy_columns(own, own_stride, rows, dim / 8,
                 stored_row((const bf16 *)(KEYS ? a.fk : a.fq), at.first + (size_t)first, own_heads, head, dim),
                 (size_t)own_heads * (size_t)dim, at.count - first, dim);
    if (steps > 0) load(0);
    copy_commit();
    if (steps > 1) load(1);
    copy_commit();
    const int warp_row = first + 16 * warp_id();
    float exponent[2] = {0, 0}, n[TILES][4] = {}, s[8][4];
    if (weighted) {
        load_exponents(a, at, KEYS ? OF_QUERIES : OF_KEYS, begin, key_head, exponents);
        row_exponents(a, at, KEYS ? OF_KEYS : OF_QUERIES, begin, key_head, warp_row, exponent);
    }
    for (int step = 0; step < steps; step++) {
        copy_wait<1>();
        __syncthreads();
        if (step + 2 < steps) load(step + 2);
        copy_commit();
        const bf16 *slot = ring + step % SLOTS * L::SLOT;
        uint32_t b[4];
        if (step < sum_steps) {
            const int count = min(dim - step * STEP, (int)STEP);
#pragma unroll
            for (int k = 0; k < STEP; k += 16) {
                uint32_t f[4];
                if (k >= count) break;
                load_a(f, own, own_stride, 16 * warp_id(), step * STEP + k);
#pragma unroll
                for (int t = 0; t + 1 < TILES; t += 2) {
                    load_b_rows(b, slot, L::STRIDE, k, 8 * t);
                    mma_two(n[t], n[t + 1], f, b);
                }
                if (TILES % 2 == 1) {
                    load_b_rows(b, slot, L::STRIDE, k, VT);
                    const uint32_t last[2] = {b[0], b[1]};
                    mma(n[TILES - 1], f, last);
                }
            }
            if (step + 1 < sum_steps || !weighted) continue;
            const float after = KEYS ? end_shift(a, at, begin, key_head) : begin;
#pragma unroll
            for (int t = 0; t < TILES; t++)
#pragma unroll
                for (int i = 0; i < 4; i++) n[t][i] *= weight_of(exponent[i / 2], after);
            continue;
        }
        int other_head, panel;
        const int tile = tile_of(step, other_head, panel);
        if (is_hidden<KEYS>(warp_row, tile)) continue;
        if (panel < panels) {
            const int count = min(dim - panel * STEP, (int)STEP);
            if (panel == 0)
#pragma unroll
                for (int t = 0; t < 8; t++)
#pragma unroll
                    for (int i = 0; i < 4; i++) s[t][i] = 0;
#pragma unroll
            for (int k = 0; k < STEP; k += 16) {
                uint32_t f[4];
                if (k >= count) break;
                load_a(f, own, own_stride, 16 * warp_id(), panel * STEP + k);
#pragma unroll
                for (int t = 0; t < 8; t += 2) {
                    load_b(b, slot, STEP_STRIDE, k, 8 * t);
                    mma_two(s[t], s[t + 1], f, b);
                }
            }
            continue;
        }
        uint32_t p[4][4];
        weigh_scores<KEYS>(s, weighted, exponent, exponents, warp_row, tile, p);
#pragma unroll
        for (int k = 0; k < 4; k++) {
#pragma unroll
            for (int t = 0; t + 1 < TILES; t += 2) {
                load_b_rows(b, slot, L::STRIDE, 16 * k, 8 * t);
                mma_two(n[t], n[t + 1], p[k], b);
            }
            if (TILES % 2 == 1) {
                load_b_rows(b, slot, L::STRIDE, 16 * k, VT);
                const uint32_t last[2] = {b[0], b[1]};
                mma(n[TILES - 1], p[k], last);
            }
        }
    }
    copy_wait<0>();
    __syncthreads();
    float factor[2] = {1, 1}, out[VT / 8][4];
    if constexpr (!KEYS) {
        float denominator[2];
        for (int r = 0; r < 2; r++) {
            const float x = n[TILES - 1][2 * r];
            denominator[r] =
                __shfl_sync(0xFFFFFFFFu, x, lane_id() / 4 * 4) + __shfl_sync(0xFFFFFFFFu, x, lane_id() / 4 * 4 + 1);
        }
        if (a.numerators) {
            write_parts<VT>(a, n, denominator, at, head, key_head, warp_row, column, begin);
            return;
        }
        for (int r = 0; r < 2; r++) {
            const int row = warp_row + lane_row() + 8 * r;
            const float norm = normalize(a, denominator[r], factor[r]);
            if (column == 0 && row < at.count && lane_column() == 0)
                a.norms[(at.first + (size_t)row) * (size_t)a.call.heads + (size_t)head] = norm;
        }
    }
#pragma unroll
    for (int t = 0; t < VT / 8; t++)
#pragma unroll
        for (int i = 0; i < 4; i++) out[t][i] = n[t][i];
    const bo_gpu_strides &by = KEYS ? a.call.strides.dv : a.call.strides.out;
    bf16 *to = numbers_at((bf16 *)(KEYS ? a.call.dv : a.call.out), by, at.sequence, at.first + (size_t)first, head);
    write_tile<VT / 8>(out, factor, ring, to + column, by.row, at.count - first, values - column);
}

template <int VT, bool KEYS> static bo_gpu_error values_of(bo_gpu *cuda, const arguments *a)
{
    const int rows = rows_of_values(a), tiles = (a->segment + rows - 1) / rows;
    const dim3 grid(tiles_of(KEYS ? a->call.keys : a->call.queries, a->segment) * (unsigned)tiles,
                    (unsigned)(KEYS ? a->call.key_heads : a->call.heads),
                    (unsigned)((a->call.value_dim + VT - 1) / VT));
    const size_t shared =
        (size_t)(rows * (a->stored_dim + 8) + SLOTS * values_layout<VT>::SLOT) * 2 + (size_t)a->segment * sizeof(float);
    return launch(cuda, grid, dim3((unsigned)(rows * 2)), shared, stored_values_kernel<VT, KEYS>, *a, tiles);
}

bo_gpu_error stored_values(bo_gpu *cuda, const arguments *a, bool keys)
{
#define OUTPUTS(vt) values_of<vt, false>(cuda, a)
#define VALUES(vt)  values_of<vt, true>(cuda, a)
    return keys ? FOR_VALUE_TILE(a->call.value_dim, VALUES) : FOR_VALUE_TILE(a->call.value_dim, OUTPUTS);
}

/* ---- the pass ---------------------------------------------------------------------------------------------------- */

bo_gpu_error stored_forward(bo_gpu *cuda, const arguments *a)
{
    bo_gpu_error error = nullptr;
    if (a->call.k) error = map_rows(cuda, a, true);
    if (!error && a->call.k) error = stored_sums(cuda, a, true);
    if (!error) error = scan(cuda, a);
    if (error || !a->call.q) return error;
    error = map_rows(cuda, a, false);
    return error ? error : stored_values(cuda, a, false);
}

} // namespace features
} // namespace bo
