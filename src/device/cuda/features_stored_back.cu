/* Linear attention in bfloat16 with features in memory, backward: the gradients of the features, and the pass. The same
 * products give the gradients of queries and keys, with rows and columns exchanged. With D features, V value columns
 * and segments of C rows, per row and head: 2 D (V + 16) + C (D + V + 16) operations for queries and for keys, and C (V
 * + 16) more for each tile of 128 features after the first. Formulas: src/attention/linear_backward.h. */
#include "features_stored.cuh"

namespace bo {
namespace features {

/* ---- gradients of numerators ------------------------------------------------------------------------------------- */

enum { DN_THREADS = 256, DN_LANES = 8 }; /* lanes per row */

/* dn~ of all rows: o = n / denominator. No gradient flows where it would exceed 1e36. */
__global__ void __launch_bounds__(DN_THREADS) numerators_kernel(arguments a)
{
    const size_t item = ((size_t)blockIdx.x * DN_THREADS + threadIdx.x) / DN_LANES, heads = (size_t)a.call.heads;
    const int lane = (int)threadIdx.x % DN_LANES, values = a.call.value_dim;
    const bool present = item < a.call.queries.rows * heads;
    const size_t row = present ? item / heads : 0;
    const int head = present ? (int)(item % heads) : 0;
    const bo_gpu_strides &outs = a.call.strides.out, &douts = a.call.strides.dout;
    const bf16 *out = numbers_at((const bf16 *)a.call.out, outs, sequence_in(a.call.queries, outs, row), row, head),
               *dout = numbers_at((const bf16 *)a.call.dout, douts, sequence_in(a.call.queries, douts, row), row, head);
    const float norm = a.norms[present ? item : 0], factor = isfinite(norm) ? 1 / fabsf(norm) : 0.0f;
    float inner = 0, max_size = 0, x[8], y[8];
    for (int v = 8 * lane; v < values; v += 8 * DN_LANES) {
        widen_bf16(*reinterpret_cast<const uint4 *>(dout + v), x);
        widen_bf16(*reinterpret_cast<const uint4 *>(out + v), y);
#pragma unroll
        for (int i = 0; i < 8; i++) inner += x[i] * y[i], max_size = fmaxf(max_size, fabsf(x[i]));
    }
    for (int step = 1; step < DN_LANES; step *= 2) {
        inner += __shfl_xor_sync(0xFFFFFFFFu, inner, step);
        max_size = fmaxf(max_size, __shfl_xor_sync(0xFFFFFFFFu, max_size, step));
    }
    const float last = norm > 0 && factor > 0 ? -factor * inner : 0.0f;
    const bool kept = fmaxf(factor * max_size, fabsf(last)) <= 1e36f;
    if (!present) return;
    bf16 *to = static_cast<bf16 *>(a.dn) + item * (size_t)(values + EXTRA);
    for (int v = 8 * lane; v < values; v += 8 * DN_LANES) {
        widen_bf16(*reinterpret_cast<const uint4 *>(dout + v), x);
        pack<uint32_t, 4> scaled;
#pragma unroll
        for (int i = 0; i < 4; i++) scaled.at[i] = kept ? pack_bf16(factor * x[2 * i], factor * x[2 * i + 1]) : 0u;
        *reinterpret_cast<pack<uint32_t, 4> *>(to + v) = scaled;
    }
    if (lane > 0) return;
    const float high = kept ? to_float(from_float<bf16>(last)) : 0.0f, low = kept ? last - high : 0.0f;
    const pack<uint32_t, 4> end = {{pack_bf16(high, low), pack_bf16(high, 0), 0, 0}};
    *reinterpret_cast<pack<uint32_t, 4> *>(to + values) = end;
}

/* ---- gradients of features --------------------------------------------------------------------------------------- */

enum { BACK_ROWS = 16 * STORED_WARPS };

/* Elements of a row of values in shared memory, and of a slot of the ring. */
__host__ __device__ inline int wide_stride(int values)
{
    return round_up(values, 16) + 24;
}
template <int DT> __host__ __device__ inline int gradient_slot(int values)
{
    const int sums = (DT > STEP ? DT : (int)STEP) * wide_stride(values), features = STEP * (DT + 8);
    return sums > features ? sums : features;
}

/* A wide row as `width` + 16 columns: values, zeros, the last columns, zeros. */
__device__ inline void copy_factor(bf16 *to, int values, int rows, const bf16 *from, size_t ld, int present,
                                   wide_end end)
{
    const int width = round_up(values, 16), stride = wide_stride(values);
    copy_wide(to, stride, rows, width, from, ld, present, 0, values, end);
    clear_columns(to, stride, rows, width + 8);
}

/* df_i = Σ_j (dn~_i·v~_j) w_ij f_j + (S~ dn~_i) w_i of queries; KEYS: df_j = Σ_i (dn~_i·v~_j) w_ij f_i + (G~ v~_j) w_j.
 * DT: features per block. Grid: segments x tiles of rows, heads, tiles of features. */
template <int DT, bool KEYS>
__global__ void __launch_bounds__(STORED_WARPS *WARP, 2) stored_gradients_kernel(arguments a, int tiles)
{
    BO_SHARED(shared);
    const int group = a.call.heads / a.call.key_heads, own_heads = KEYS ? a.call.key_heads : a.call.heads;
    const int other_heads = KEYS ? a.call.heads : a.call.key_heads, head = (int)blockIdx.y;
    const int key_head = KEYS ? head : head / group, first = (int)blockIdx.x % tiles * BACK_ROWS;
    const int feature = (int)blockIdx.z * DT, values = a.call.value_dim, dim = a.stored_dim;
    const int stride = wide_stride(values), width = stride - 8, slot_size = gradient_slot<DT>(values);
    const size_t index = (size_t)blockIdx.x / (size_t)tiles;
    const bool causal = a.call.causal, weighted = has_weights(a) && (KEYS || causal);
    span at;
    if (!find_segment(a, KEYS ? a.call.keys : a.call.queries, index, at) || first >= at.count) return;
    bf16 *own = reinterpret_cast<bf16 *>(shared), *ring = own + BACK_ROWS * stride;
    float *exponents = reinterpret_cast<float *>(ring + SLOTS * slot_size);
    const float begin = causal || KEYS ? begin_of(a, index, key_head) : 0.0f;
    const bf16 *sums = KEYS     ? wide_sums(a, a.later, index, key_head)
                       : causal ? wide_sums(a, a.before, index, key_head)
                                : wide_sums(a, a.all, (size_t)at.sequence, key_head);
    bool has_sums = !causal;
    if (causal) has_sums = KEYS ? !is_last_segment(a, at) : a.call.states || !is_first_segment(a, at);
    const int first_tile = KEYS ? first / STEP : 0, end = KEYS ? at.count : min(first + (int)BACK_ROWS, at.count);
    const int columns = causal ? (end + STEP - 1) / STEP - first_tile : 0;
    const int sum_steps = has_sums ? 1 : 0, steps = sum_steps + columns * (KEYS ? group : 1) * 2;
    auto tile_of = [&](int step, int &other_head) {
        const int tile = (step - sum_steps) / 2;
        other_head = KEYS ? head * group + tile / columns : key_head;
        return (first_tile + (KEYS ? tile % columns : tile)) * STEP;
    };
    auto load = [&](int step) {
        bf16 *slot = ring + step % SLOTS * slot_size;
        int other_head;
        if (step < sum_steps) {
            copy_factor(slot, values, DT, sums + (size_t)feature * (size_t)(values + EXTRA), (size_t)(values + EXTRA),
                        a.map.features - feature, END_STORED);
            return;
        }
        const int row = tile_of(step, other_head);
        const size_t from = at.first + (size_t)row;
        if ((step - sum_steps) % 2 == 1)
            copy_tile<DT / 8>(slot, DT + 8, STEP,
                              stored_row((const bf16 *)(KEYS ? a.fq : a.fk), from, other_heads, other_head, dim) +
                                  feature,
                              (size_t)other_heads * (size_t)dim, at.count - row, dim - feature);
        else if (KEYS)
            copy_factor(slot, values, STEP,
                        stored_row((const bf16 *)a.dn, from, other_heads, other_head, values + EXTRA),
                        (size_t)other_heads * (size_t)(values + EXTRA), at.count - row, END_STORED);
        else
            copy_factor(slot, values, STEP,
                        numbers_at((const bf16 *)a.call.v, a.call.strides.v, at.sequence, from, key_head),
                        a.call.strides.v.row, at.count - row, END_ONES);
    };
    const size_t row = at.first + (size_t)first;
    if (KEYS)
        copy_factor(own, values, BACK_ROWS,
                    numbers_at((const bf16 *)a.call.v, a.call.strides.v, at.sequence, row, key_head),
                    a.call.strides.v.row, at.count - first, END_ONES);
    else
        copy_factor(own, values, BACK_ROWS, stored_row((const bf16 *)a.dn, row, own_heads, head, values + EXTRA),
                    (size_t)own_heads * (size_t)(values + EXTRA), at.count - first, END_STORED);
    if (steps > 0) load(0);
    copy_commit();
    if (steps > 1) load(1);
    copy_commit();
    const int warp_row = first + 16 * warp_id();
    float exponent[2] = {0, 0}, df[DT / 8][4] = {};
    uint32_t p[4][4] = {};
    if (weighted) {
        load_exponents(a, at, KEYS ? OF_QUERIES : OF_KEYS, begin, key_head, exponents);
        row_exponents(a, at, KEYS ? OF_KEYS : OF_QUERIES, begin, key_head, warp_row, exponent);
    }
    for (int step = 0; step < steps; step++) {
        copy_wait<1>();
        __syncthreads();
        if (step + 2 < steps) load(step + 2);
        copy_commit();
        const bf16 *slot = ring + step % SLOTS * slot_size;
        uint32_t x[4], b[4];
        if (step < sum_steps) {
            for (int k = 0; k < width; k += 16) {
                load_a(x, own, stride, 16 * warp_id(), k);
#pragma unroll
                for (int t = 0; t < DT / 8; t += 2) {
                    load_b(b, slot, stride, k, 8 * t);
                    mma_two(df[t], df[t + 1], x, b);
                }
            }
            if (!weighted) continue;
            const float after = KEYS ? end_shift(a, at, begin, key_head) : begin;
            const float weight[2] = {weight_of(exponent[0], after), weight_of(exponent[1], after)};
#pragma unroll
            for (int t = 0; t < DT / 8; t++)
#pragma unroll
                for (int i = 0; i < 4; i++) df[t][i] *= weight[i / 2];
            continue;
        }
        int other_head;
        const int tile = tile_of(step, other_head);
        if (is_hidden<KEYS>(warp_row, tile)) continue;
        if ((step - sum_steps) % 2 == 0) {
            float s[8][4] = {};
            for (int k = 0; k < width; k += 16) {
                load_a(x, own, stride, 16 * warp_id(), k);
#pragma unroll
                for (int t = 0; t < 8; t += 2) {
                    load_b(b, slot, stride, k, 8 * t);
                    mma_two(s[t], s[t + 1], x, b);
                }
            }
            weigh_scores<KEYS>(s, weighted, exponent, exponents, warp_row, tile, p);
            continue;
        }
#pragma unroll
        for (int k = 0; k < 4; k++)
#pragma unroll
            for (int t = 0; t < DT / 8; t += 2) {
                load_b_rows(b, slot, DT + 8, 16 * k, 8 * t);
                mma_two(df[t], df[t + 1], p[k], b);
            }
    }
    copy_wait<0>();
    __syncthreads();
    if (a.flow) {
        const bf16 *f = stored_row((const bf16 *)(KEYS ? a.fk : a.fq), at.first, own_heads, head, dim) + feature;
        float *parts = KEYS ? a.key_flow_parts : a.flow_parts;
        parts += (size_t)blockIdx.z * (KEYS ? a.call.keys.rows : a.call.queries.rows) * (size_t)own_heads;
        for (int r = 0; r < 2; r++) {
            const int place = warp_row + lane_row() + 8 * r;
            float sum = 0;
#pragma unroll
            for (int t = 0; t < DT / 8; t++) {
                const int column = 8 * t + lane_column();
                float low = 0, high = 0;
                if (place < at.count && feature + column < dim)
                    unpack_bf16(
                        *reinterpret_cast<const uint32_t *>(f + (size_t)place * (size_t)(own_heads * dim) + column),
                        low, high);
                sum += low * df[t][2 * r] + high * df[t][2 * r + 1];
            }
            sum = quad_sum(sum);
            if (place < at.count && lane_column() == 0)
                parts[(at.first + (size_t)place) * (size_t)own_heads + (size_t)head] = sum;
        }
    }
    const float ones[2] = {1, 1};
    bf16 *to = stored_row((bf16 *)(KEYS ? a.dfk : a.dfq), row, own_heads, head, dim) + feature;
    write_tile<DT / 8>(df, ones, ring, to, (size_t)own_heads * (size_t)dim, at.count - first, dim - feature);
}

template <int DT, bool KEYS> static bo_gpu_error gradients_of(bo_gpu *cuda, const arguments *a)
{
    const int tiles = (a->segment + BACK_ROWS - 1) / BACK_ROWS, values = a->call.value_dim;
    const dim3 grid(tiles_of(KEYS ? a->call.keys : a->call.queries, a->segment) * (unsigned)tiles,
                    (unsigned)(KEYS ? a->call.key_heads : a->call.heads), (unsigned)((a->stored_dim + DT - 1) / DT));
    const size_t shared = (size_t)(BACK_ROWS * wide_stride(values) + SLOTS * gradient_slot<DT>(values)) * 2 +
                          (size_t)a->segment * sizeof(float);
    return launch(cuda, grid, dim3(STORED_WARPS * WARP), shared, stored_gradients_kernel<DT, KEYS>, *a, tiles);
}

/* Columns of features per block. */
int gradient_columns(const arguments *a)
{
    return a->stored_dim <= 64 || a->call.value_dim > 64 ? 64 : 128;
}

static bo_gpu_error stored_gradients(bo_gpu *cuda, const arguments *a, bool keys)
{
    if (gradient_columns(a) == 64) return keys ? gradients_of<64, true>(cuda, a) : gradients_of<64, false>(cuda, a);
    return keys ? gradients_of<128, true>(cuda, a) : gradients_of<128, false>(cuda, a);
}

/* ---- the pass ---------------------------------------------------------------------------------------------------- */

bo_gpu_error stored_backward(bo_gpu *cuda, const arguments *a)
{
    const bo_gpu_attention &c = a->call;
    const size_t items = c.queries.rows * (size_t)c.heads;
    bo_gpu_error error = launch(cuda, dim3((unsigned)ceil_div(items * DN_LANES, DN_THREADS)), dim3(DN_THREADS), 0,
                                numerators_kernel, *a);
    if (!error) error = map_rows(cuda, a, false);
    if (!error) error = stored_sums(cuda, a, false);
    if (!error) error = scan_back(cuda, a);
    if (!error) error = map_rows(cuda, a, true);
    if (!error && c.dv) error = stored_values(cuda, a, true);
    if (!error) error = stored_gradients(cuda, a, true);
    if (!error) error = map_rows_back(cuda, a, true);
    if (!error) error = stored_gradients(cuda, a, false);
    if (!error) error = map_rows_back(cuda, a, false);
    if (!error) error = reduce_gate_gradients(cuda, a);
    if (error) return error;
    arguments counted = *a;
    counted.blocks = (int)(map_rows_blocks(a, false) * (unsigned)(c.heads / c.key_heads) + map_rows_blocks(a, true));
    return reduce_parameter_gradients(cuda, &counted);
}

} // namespace features
} // namespace bo
