/* Linear attention in bfloat16, backward. The gradient G of the sums flows from the last segment to the first:
 * query_sums_kernel sums the contributions of the queries of each segment, and a scan computes G after every segment.
 * Then query_gradients_kernel goes forward through each segment with S~ (dq), key_gradients_kernel backward with G (dk,
 * dv). With D features, d columns of q, k and v, per token and head: 4 d D, about 10 d D + 80 (2 D + d) and about 12
 * d D + 80 (2 D + 2 d) operations. Formulas: src/attention/linear_backward.h. */
#include "features_fast.cuh"
#include "features_sets.cuh"

namespace bo {
namespace features {

/* ---- shared memory ----------------------------------------------------------------------------------------------- */

template <typename Z> struct backward_smem {
    shared_map map;
    bf16 *fk, *fq;   /* features of the chunk's keys and queries: CHUNK x F_STRIDE */
    bf16 *v, *dn;    /* v~ and dn~: CHUNK x V_STRIDE */
    bf16 *weighed;   /* one of them times weights */
    bf16 *s;         /* S~ or G~: D x V_STRIDE */
    float *last, *z; /* the last columns of dn~ and of S~ or G~ */
    float *sigma;    /* partial sums of the gradient of σ: FAST_THREADS x X_STEPS * 4 */
    chunk_exponents e;
};

template <typename Z> struct back_layout {
    enum {
        W = 0,
        FK = W + Z::U_TILES * 8 * Z::W_STRIDE * 2,
        FQ = FK + CHUNK * Z::F_STRIDE * 2,
        VALUES = FQ + CHUNK * Z::F_STRIDE * 2,
        GRADIENTS = VALUES + CHUNK * Z::V_STRIDE * 2,
        WEIGHED = GRADIENTS + CHUNK * Z::V_STRIDE * 2,
        SUMS = WEIGHED + CHUNK * Z::V_STRIDE * 2,
        FLOATS = SUMS + Z::D * Z::V_STRIDE * 2,
        COUNT = Z::U_TILES * 8 + Z::X_STEPS * 16 + (2 + 2 * FAST_WARPS) * CHUNK + Z::D + FAST_THREADS * Z::X_STEPS * 4,
        BYTES = FLOATS + COUNT * 4
    };
};

template <typename Z> __device__ inline backward_smem<Z> backward_smem_in(unsigned char *shared)
{
    typedef back_layout<Z> L;
    backward_smem<Z> m;
    float *at = reinterpret_cast<float *>(shared + L::FLOATS);
    m.map.w = reinterpret_cast<bf16 *>(shared + L::W);
    m.fk = reinterpret_cast<bf16 *>(shared + L::FK), m.fq = reinterpret_cast<bf16 *>(shared + L::FQ);
    m.v = reinterpret_cast<bf16 *>(shared + L::VALUES), m.dn = reinterpret_cast<bf16 *>(shared + L::GRADIENTS);
    m.weighed = reinterpret_cast<bf16 *>(shared + L::WEIGHED), m.s = reinterpret_cast<bf16 *>(shared + L::SUMS);
    m.map.offset = at, at += Z::U_TILES * 8;
    m.map.square = at, at += Z::X_STEPS * 16;
    float *e = at + (2 + 2 * warp_id()) * CHUNK;
    m.e = {e, e + CHUNK, at, nullptr}, m.last = at + CHUNK, at += (2 + 2 * FAST_WARPS) * CHUNK;
    m.z = at, at += Z::D;
    m.sigma = at;
    return m;
}

/* ---- rows -------------------------------------------------------------------------------------------------------- */

/* Starts the copy of this warp's rows of a chunk to `tile` (V_STRIDE). */
template <typename Z> __device__ inline void stage(const bf16 *rows, size_t stride, int count, bf16 *tile)
{
    stage_rows<16 * Z::X_STEPS>(rows, stride, 16 * warp_id(), count, tile, Z::V_STRIDE);
    copy_commit();
}

/* Features of this warp's 16 rows, which are in `tile`, to shared memory. If `scale` is not NULL, these are keys of a
 * chunk that starts at row `first`, and their log scales are written, too. */
template <typename Z>
__device__ inline void share_features(const arguments &a, int key_head, const shared_map &map, const bf16 *tile,
                                      bf16 *to, float *scale, size_t first = 0, int count = 0)
{
    uint32_t x[Z::X_STEPS][4], f[Z::F_STEPS][4];
    float scales[2], unit[2];
    load_staged(x, tile, Z::V_STRIDE);
    map_fragments<Z>(a, a.map.common[(size_t)key_head * a.map.stride], map, x, f, scales, unit);
    store_a(f, to, Z::F_STRIDE, 16 * warp_id());
    if (scale) share_scales(a, scales, first, count, key_head, scale);
}

/* The gradients and outputs of 16 rows of this warp, loaded early: rows 4 i + lane / 8 of them, the columns from 8
 * (lane % 8) on. */
struct lane_gradients {
    pack<uint32_t, 4> gradients[4], outputs[4];
    float norms[4];
};

template <int V>
__device__ inline lane_gradients load_gradients(const arguments &a, int sequence, int head, size_t first, int count)
{
    static_assert(V == 64, "eight lanes share a row");
    const bo_gpu_strides &outs = a.call.strides.out, &douts = a.call.strides.dout;
    const bf16 *out_rows = numbers_at((const bf16 *)a.call.out, outs, sequence, first, head) + lane_id() % 8 * 8,
               *dout_rows = numbers_at((const bf16 *)a.call.dout, douts, sequence, first, head) + lane_id() % 8 * 8;
    lane_gradients out;
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const int row = 16 * warp_id() + 4 * i + lane_id() / 8;
        const size_t at = (size_t)(row < count ? row : 0);
        out.gradients[i] = *reinterpret_cast<const pack<uint32_t, 4> *>(dout_rows + at * douts.row);
        out.outputs[i] = *reinterpret_cast<const pack<uint32_t, 4> *>(out_rows + at * outs.row);
        out.norms[i] = row < count ? a.norms[(first + at) * (size_t)a.call.heads + (size_t)head] : INFINITY;
    }
    return out;
}

/* dn~ of the 16 rows of this warp: o = n / denominator. */
template <typename Z, int V> __device__ inline void share_gradients(lane_gradients &x, bf16 *dn, float *last)
{
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const int row = 16 * warp_id() + 4 * i + lane_id() / 8;
        const float norm = x.norms[i], factor = isfinite(norm) ? 1 / fabsf(norm) : 0.0f;
        float inner = 0, max_size = 0, dO[2], out[2];
#pragma unroll
        for (int j = 0; j < 4; j++) {
            unpack_bf16(x.gradients[i].at[j], dO[0], dO[1]);
            unpack_bf16(x.outputs[i].at[j], out[0], out[1]);
            inner += dO[0] * out[0] + dO[1] * out[1];
            max_size = fmaxf(max_size, fmaxf(fabsf(dO[0]), fabsf(dO[1])));
        }
        for (int step = 1; step < 8; step *= 2) {
            inner += __shfl_xor_sync(0xFFFFFFFFu, inner, step);
            max_size = fmaxf(max_size, __shfl_xor_sync(0xFFFFFFFFu, max_size, step));
        }
        const float final = norm > 0 && factor > 0 ? -factor * inner : 0.0f;
        const bool kept = fmaxf(factor * max_size, fabsf(final)) <= 1e36f;
#pragma unroll
        for (int j = 0; j < 4; j++) {
            unpack_bf16(x.gradients[i].at[j], dO[0], dO[1]);
            x.gradients[i].at[j] = kept ? pack_bf16(factor * dO[0], factor * dO[1]) : 0u;
        }
        *reinterpret_cast<pack<uint32_t, 4> *>(dn + row * Z::V_STRIDE + lane_id() % 8 * 8) = x.gradients[i];
        if (lane_id() % 8 == 0) {
            const pack<uint32_t, 4> end = {{pack_bf16(kept ? final : 0.0f, 0), 0, 0, 0}};
            *reinterpret_cast<pack<uint32_t, 4> *>(dn + row * Z::V_STRIDE + V) = end;
            last[row] = kept ? final : 0.0f;
        }
    }
}

/* Prefetches the rows of the chunk at `first`, 64 elements each, to the L2 cache. */
__device__ inline void prefetch_chunk(const bf16 *rows, size_t stride, int first, int count)
{
    const int row = first + (int)threadIdx.x % CHUNK;
    if (rows && first >= 0 && row < count) prefetch(rows + (size_t)row * stride);
}

/* ---- through the map --------------------------------------------------------------------------------------------- */

/* df -> du in its first tiles, for one form of maps; sum receives f·df of this lane. */
template <typename Z, int FORM>
__device__ inline void map_gradients(const shared_map &map, float factor, const uint32_t (&f)[Z::F_STEPS][4],
                                     float (&df)[Z::D / 8][4], float (&sum)[2])
{
    enum { U = Z::U_TILES };
    const bool both = Z::D > 8 * U;
#pragma unroll
    for (int t = 0; t < U; t++)
#pragma unroll
        for (int r = 0; r < 2; r++) {
            float z[2], more[2] = {0, 0};
            unpack_bf16(f[t / 2][t % 2 * 2 + r], z[0], z[1]);
            if (both) unpack_bf16(f[(t / 2 + U / 2) % Z::F_STEPS][t % 2 * 2 + r], more[0], more[1]);
#pragma unroll
            for (int i = 0; i < 2; i++) {
                const float d = df[t][2 * r + i], e = both ? df[(t + U) % (Z::D / 8)][2 * r + i] : 0.0f;
                const float first = d * z[i], second = e * more[i];
                sum[r] += both ? first + second : first;
                float du = d;
                if (FORM == BO_MAP_EXP) du = first;
                if (FORM == BO_MAP_EXP_BOTH) du = first - second;
                if (FORM == BO_MAP_SINCOS) du = e * z[i] - d * more[i];
                if (FORM == BO_MAP_ELU) du = d * fminf(z[i], 1.0f);
                if (FORM == BO_MAP_RELU) du = z[i] > 0 ? factor * map.offset[8 * t + lane_column() + i] * d : 0.0f;
                df[t][2 * r + i] = du;
            }
        }
}

/* df (16 x D) -> dx of 16 rows, which are in `tile` or being copied there. f: the features of the rows; flow receives
 * f·df of the rows lane_row() and + 8. */
template <typename Z>
__device__ inline void back_through_map(const arguments &a, const shared_map &map, const bf16 *tile,
                                        const uint32_t (&f)[Z::F_STEPS][4], float (&df)[Z::D / 8][4], float (&flow)[2],
                                        float (&dx)[2 * Z::X_STEPS][4], float *sigma)
{
    enum { U = Z::U_TILES };
    float sum[2] = {0, 0};
    const float factor = a.map.factor;
    if constexpr (Z::D > 8 * U) {
        if (a.map.form == BO_MAP_SINCOS)
            map_gradients<Z, BO_MAP_SINCOS>(map, factor, f, df, sum);
        else
            map_gradients<Z, BO_MAP_EXP_BOTH>(map, factor, f, df, sum);
    } else {
        if (a.map.form == BO_MAP_EXP)
            map_gradients<Z, BO_MAP_EXP>(map, factor, f, df, sum);
        else if (a.map.form == BO_MAP_ELU)
            map_gradients<Z, BO_MAP_ELU>(map, factor, f, df, sum);
        else if (a.map.form == BO_MAP_RELU)
            map_gradients<Z, BO_MAP_RELU>(map, factor, f, df, sum);
        else
            map_gradients<Z, BO_MAP_IDENTITY>(map, factor, f, df, sum);
    }
    for (int r = 0; r < 2; r++) flow[r] = quad_sum(sum[r]);
#pragma unroll
    for (int s = 0; s < U / 2; s++) {
        uint32_t du[1][4];
        accumulators_to_a(du[0], df[2 * s], df[2 * s + 1]);
        multiply_rows<1, 2 * Z::X_STEPS>(dx, du, map.w, Z::W_STRIDE, 16 * s);
    }
    uint32_t x[Z::X_STEPS][4];
    copy_wait<0>();
    __syncwarp();
    load_staged(x, tile, Z::V_STRIDE);
    float unit[2] = {1, 1}, push[2], norm[2], inner[2] = {0, 0};
    for (int r = 0; r < 2; r++) push[r] = a.map.norm * flow[r];
    if (a.transform == BO_ROW_TRANSFORM_UNIT) {
        square_norms(x, map.square, norm);
#pragma unroll
        for (int s = 0; s < Z::X_STEPS; s++)
#pragma unroll
            for (int part = 0; part < 4; part++) {
                float value[2];
                unpack_bf16(x[s][part], value[0], value[1]);
                const float (&d)[4] = dx[2 * s + part / 2];
                inner[part % 2] += value[0] * d[part % 2 * 2] + value[1] * d[part % 2 * 2 + 1];
            }
        for (int r = 0; r < 2; r++) {
            const float length = sqrtf(norm[r]), along = quad_sum(inner[r]);
            unit[r] = 1 / (length + 1e-3f);
            push[r] = length > 0 ? -along * unit[r] * unit[r] / length : 0.0f;
        }
    }
#pragma unroll
    for (int s = 0; s < Z::X_STEPS; s++)
#pragma unroll
        for (int part = 0; part < 4; part++) {
            float value[2];
            unpack_bf16(x[s][part], value[0], value[1]);
            const int r = part % 2;
            float (&d)[4] = dx[2 * s + part / 2];
#pragma unroll
            for (int i = 0; i < 2; i++) {
                if (sigma) sigma[4 * s + part / 2 * 2 + i] += d[2 * r + i] * value[i] * unit[r];
                const float square = map.square[16 * s + part / 2 * 8 + lane_column() + i];
                d[2 * r + i] = unit[r] * d[2 * r + i] + push[r] * square * value[i];
            }
        }
}

__device__ inline void write_flow(const float (&flow)[2], double *to, size_t heads, int head, size_t first, int count)
{
    if (!to || lane_column() != 0) return;
    for (int r = 0; r < 2; r++) {
        const int row = 16 * warp_id() + lane_row() + 8 * r;
        if (row < count) to[(first + (size_t)row) * heads + (size_t)head] = (double)flow[r];
    }
}

/* The gradient of σ from this block, block `index` of a key head: sums over the rows of all warps. */
template <typename Z>
__device__ inline void write_sigma(const arguments &a, int key_head, const float *sums, size_t index)
{
    if (!a.call.dsigma) return;
    enum { EACH = Z::X_STEPS * 4 };
    __syncthreads();
    float *to = a.partials + (index * (size_t)a.call.key_heads + (size_t)key_head) * a.partial_floats;
    for (int j = (int)threadIdx.x; j < a.call.dim; j += FAST_THREADS) {
        const int number = j / 16 * 4 + j % 16 / 8 * 2 + j % 2, quad = j % 8 / 2;
        float sum = 0;
        for (int t = quad; t < FAST_THREADS; t += 4) sum += sums[t * EACH + number];
        to[j] = sum / (a.call.sigma ? sigma_of(a.call.sigma[key_head * a.call.dim + j]) : 1.0f);
    }
}

template <typename Z> __device__ inline float *begin_sigma(const arguments &a, const backward_smem<Z> &m)
{
    float *lane_sums = m.sigma + (int)threadIdx.x * Z::X_STEPS * 4;
    if (!a.call.dsigma) return nullptr;
    for (int i = 0; i < Z::X_STEPS * 4; i++) lane_sums[i] = 0;
    return lane_sums;
}

__device__ inline void clear_sigma(const arguments &a, int key_head, size_t index)
{
    float *to = a.partials + (index * (size_t)a.call.key_heads + (size_t)key_head) * a.partial_floats;
    for (int j = (int)threadIdx.x; a.call.dsigma && j < a.call.dim; j += FAST_THREADS) to[j] = 0;
}

/* ---- the gradient of the sums by the queries of each segment ----------------------------------------------------- */

/* The log decay of the sums before the segment, for row lane % 16 of this warp. */
__device__ inline float load_remains(const arguments &a, size_t first, int count, int key_head)
{
    const int row = 16 * warp_id() + lane_id() % 16;
    return row < count ? a.scales[(first + (size_t)row) * (size_t)a.call.key_heads + (size_t)key_head] : 0.0f;
}

/* Grid: segments of queries, key heads. */
template <typename Z, int V> __global__ void __launch_bounds__(FAST_THREADS, 2) query_sums_kernel(arguments a)
{
    BO_SHARED(shared);
    const backward_smem<Z> m = backward_smem_in<Z>(shared);
    const int key_head = (int)blockIdx.y, group = a.call.heads / a.call.key_heads;
    const bool weighted = a.call.causal && has_weights(a);
    span at;
    if (!find_segment(a, a.call.queries, blockIdx.x, at)) return;
    const bo_gpu_attention_strides &by = a.call.strides;
    owned_sums<Z> sums;
    sums.clear();
    load_map<Z>(a, key_head, m.map);
    __syncthreads();
    const bf16 *q = numbers_at((const bf16 *)a.call.q, by.q, at.sequence, at.first, key_head * group);
    const int steps = (at.count + CHUNK - 1) / CHUNK * group;
    stage<Z>(q, by.q.row, at.count, m.fk);
    for (int step = 0; step < steps; step++) {
        const int first = step / group * CHUNK, head = key_head * group + step % group;
        const int count = min((int)CHUNK, at.count - first), later = (step + 1) / group * CHUNK;
        const size_t row = at.first + (size_t)first;
        lane_gradients gradients = load_gradients<V>(a, at.sequence, head, row, count);
        const float remains = load_remains(a, row, weighted ? count : 0, key_head);
        if (step % group == 0) {
            prefetch_chunk(numbers_at((const bf16 *)a.call.dout, by.dout, at.sequence, at.first, head), by.dout.row,
                           later, at.count);
            prefetch_chunk(numbers_at((const bf16 *)a.call.out, by.out, at.sequence, at.first, head), by.out.row, later,
                           at.count);
        }
        copy_wait<0>();
        __syncwarp();
        share_features<Z>(a, key_head, m.map, m.fk, m.fq, nullptr);
        if (step + 1 < steps)
            stage<Z>(q + (size_t)later * by.q.row + (size_t)((step + 1) % group) * by.q.head, by.q.row,
                     at.count - later, m.fk);
        share_gradients<Z, V>(gradients, m.dn, m.last);
        if (weighted) {
            if (lane_id() < 16) m.e.c[16 * warp_id() + lane_id()] = remains;
            __syncwarp();
            weigh_values<Z>(m.dn, m.e.c, 0, m.weighed);
        }
        __syncthreads();
        sums.absorb(1, m.fq, weighted ? m.weighed : m.dn);
        __syncthreads();
    }
    sums.store(a, a.gradients + sums_at(a, blockIdx.x, key_head));
}

/* ---- queries ----------------------------------------------------------------------------------------------------- */

/* The last column of S~ or G~, which is added to products with the other columns. */
template <typename Z> __device__ inline void share_last(const owned_sums<Z> &sums, float *z)
{
    if (lane_column() != 0) return;
    for (int m = 0; m < Z::OWNED; m++)
        for (int i = 0; i < 4; i += 2) z[owned_sums<Z>::feature(m, i)] = sums.s[m][Z::V_TILES - 1][i];
}

/* df (16 x D) = factor (rows S~ᵀ): rows are 16 rows of `x` (V_STRIDE) with the last column `last`. */
template <typename Z>
__device__ inline void multiply_sums(const bf16 *x, const float (&last)[2], const bf16 *s, const float *z,
                                     const float (&factor)[2], float (&df)[Z::D / 8][4])
{
#pragma unroll
    for (int t = 0; t < Z::D / 8; t++)
#pragma unroll
        for (int i = 0; i < 4; i++) df[t][i] = last[i / 2] * z[8 * t + lane_column() + i % 2];
#pragma unroll
    for (int k = 0; k < (Z::V_TILES - 1) / 2; k++) {
        uint32_t rows[4];
        load_a(rows, x, Z::V_STRIDE, 16 * warp_id(), 16 * k);
#pragma unroll
        for (int t = 0; t < Z::D / 8; t += 2) {
            uint32_t b[4];
            load_b(b, s, Z::V_STRIDE, 16 * k, 8 * t);
            mma_two(df[t], df[t + 1], rows, b);
        }
    }
#pragma unroll
    for (int t = 0; t < Z::D / 8; t++)
#pragma unroll
        for (int i = 0; i < 4; i++) df[t][i] *= factor[i / 2];
}

/* out (16 x 16) = rows of x times rows of y, from `row` and `column` on: both STEPS * 16 columns. */
template <int STEPS>
__device__ inline void multiply_tile(const bf16 *x, const bf16 *y, int stride, int row, int column, float (&out)[2][4])
{
#pragma unroll
    for (int k = 0; k < STEPS; k++) {
        uint32_t a[4], b[4];
        load_a(a, x, stride, row, 16 * k);
        load_b(b, y, stride, 16 * k, column);
        mma_two(out[0], out[1], a, b);
    }
}

/* Prefetches the inputs of backward for the chunk at row `first` of a segment. */
__device__ inline void prefetch_inputs(const arguments &a, const span &at, int first, int head, int key_head)
{
    const bo_gpu_attention_strides &by = a.call.strides;
    const int s = at.sequence;
    prefetch_chunk(numbers_at((const bf16 *)a.call.dout, by.dout, s, at.first, head), by.dout.row, first, at.count);
    prefetch_chunk(numbers_at((const bf16 *)a.call.out, by.out, s, at.first, head), by.out.row, first, at.count);
    prefetch_chunk(numbers_at((const bf16 *)a.call.q, by.q, s, at.first, head), by.q.row, first, at.count);
    prefetch_chunk(numbers_at((const bf16 *)a.call.k, by.k, s, at.first, key_head), by.k.row, first, at.count);
    prefetch_chunk(numbers_at((const bf16 *)a.call.v, by.v, s, at.first, key_head), by.v.row, first, at.count);
}

/* Grid: segments of queries, heads. */
template <typename Z, int V> __global__ void __launch_bounds__(FAST_THREADS, 2) query_gradients_kernel(arguments a)
{
    BO_SHARED(shared);
    const backward_smem<Z> m = backward_smem_in<Z>(shared);
    const int head = (int)blockIdx.y, group = a.call.heads / a.call.key_heads, key_head = head / group;
    const bool causal = a.call.causal, weighted = causal && has_weights(a);
    const size_t key_heads = (size_t)a.call.key_heads,
                 block = (size_t)blockIdx.x * (size_t)group + (size_t)(head % group);
    span at;
    if (!find_segment(a, a.call.queries, blockIdx.x, at)) {
        clear_sigma(a, key_head, block);
        return;
    }
    const bo_gpu_attention_strides &by = a.call.strides;
    const float ones[2] = {1, 1};
    float *sigma = begin_sigma(a, m);
    float scale = causal && a.map.scaled ? a.begins[blockIdx.x * key_heads + (size_t)key_head] : 0.0f;
    owned_sums<Z> sums;
    sums.load(a, causal ? a.sums + sums_at(a, blockIdx.x, key_head)
                        : a.totals + sums_at(a, (size_t)at.sequence, key_head));
    load_map<Z>(a, key_head, m.map);
    sums.share(m.s);
    share_last(sums, m.z);
    __syncthreads();
    for (int first = 0; first < at.count; first += CHUNK) {
        const int count = min((int)CHUNK, at.count - first), rows = 16 * warp_id();
        const size_t row = at.first + (size_t)first;
        const lane_gates log_gates = load_gates(a, at.sequence, row, causal ? count : 0, key_head);
        float kept = 1, next = scale, shift[2] = {0, 0}, remains[2] = {1, 1};
        if (causal) {
            copy_values<Z, V>(numbers_at((const bf16 *)a.call.v, by.v, at.sequence, row, key_head), by.v.row, count,
                              m.v);
            stage<Z>(numbers_at((const bf16 *)a.call.k, by.k, at.sequence, row, key_head), by.k.row, count, m.weighed);
        }
        stage<Z>(numbers_at((const bf16 *)a.call.q, by.q, at.sequence, row, head), by.q.row, count, m.fq);
        lane_gradients gradients = load_gradients<V>(a, at.sequence, head, row, count);
        prefetch_inputs(a, at, first + CHUNK, head, key_head);
        copy_wait<0>();
        __syncwarp();
        if (causal) share_features<Z>(a, key_head, m.map, m.weighed, m.fk, m.e.scale, row, count);
        share_gradients<Z, V>(gradients, m.dn, m.last);
        __syncthreads();
        if (weighted) {
            const chunk_end end = find_chunk(a, count, log_gates, scale, m.e);
            weigh_values<Z>(m.v, m.e.c, end.shift, m.weighed);
            for (int r = 0; r < 2; r++) {
                shift[r] = m.e.shift[rows + lane_row() + 8 * r];
                remains[r] = exp_fast(scale + shift[r]);
            }
            kept = exp_fast(scale + end.shift);
            next = end.scale;
        }
        uint32_t x[Z::X_STEPS][4], f[Z::F_STEPS][4];
        float df[Z::D / 8][4], log_scale[2], unit[2];
        const float last[2] = {m.last[rows + lane_row()], m.last[rows + lane_row() + 8]};
        load_staged(x, m.fq, Z::V_STRIDE);
        map_fragments<Z>(a, 0, m.map, x, f, log_scale, unit);
        multiply_sums<Z>(m.dn, last, m.s, m.z, remains, df);
        for (int key = 0; causal && key <= rows; key += 16) {
            float p[2][4] = {};
            uint32_t scores[1][4];
            multiply_tile<(Z::V_TILES - 1) / 2>(m.dn, m.v, Z::V_STRIDE, rows, key, p);
#pragma unroll
            for (int t = 0; t < 2; t++)
#pragma unroll
                for (int i = 0; i < 4; i++) {
                    const int column = key + 8 * t + lane_column() + i % 2;
                    p[t][i] += last[i / 2];
                    if (weighted) p[t][i] *= weight_of(m.e.c[column], shift[i / 2]);
                    if (column > rows + lane_row() + i / 2 * 8) p[t][i] = 0;
                }
            accumulators_to_a(scores[0], p[0], p[1]);
            multiply_rows<1, Z::D / 8>(df, scores, m.fk, Z::F_STRIDE, key);
        }
        float flow[2], dx[2 * Z::X_STEPS][4] = {};
        back_through_map<Z>(a, m.map, m.fq, f, df, flow, dx, sigma);
        write_flow(flow, a.flow, (size_t)a.call.heads, head, row, count);
        if (a.call.dq)
            write_rows(dx, ones, m.fq, Z::V_STRIDE, numbers_at((bf16 *)a.call.dq, by.dq, at.sequence, row, head),
                       by.dq.row, count);
        scale = next;
        __syncthreads();
        if (!causal || first + CHUNK >= at.count) continue;
        sums.absorb(kept, m.fk, weighted ? m.weighed : m.v);
        sums.share(m.s);
        share_last(sums, m.z);
        __syncthreads();
    }
    write_sigma<Z>(a, key_head, m.sigma, block);
}

/* ---- keys -------------------------------------------------------------------------------------------------------- */

/* The gradients of the chunk's keys by the queries of one head in the chunk: adds to df (16 x D) and dv (16 x V). */
template <typename Z>
__device__ inline void keys_by_queries(const backward_smem<Z> &m, bool weighted, float (&df)[Z::D / 8][4],
                                       float (&dv)[Z::V_TILES - 1][4])
{
    const int rows = 16 * warp_id();
    const float c[2] = {m.e.c[rows + lane_row()], m.e.c[rows + lane_row() + 8]};
    for (int query = rows; query < CHUNK; query += 16) {
        float p[2][4] = {}, s[2][4] = {};
        uint32_t factors[1][4];
        multiply_tile<(Z::V_TILES - 1) / 2>(m.v, m.dn, Z::V_STRIDE, rows, query, p);
        multiply_tile<Z::F_STEPS>(m.fk, m.fq, Z::F_STRIDE, rows, query, s);
#pragma unroll
        for (int t = 0; t < 2; t++)
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const int column = query + 8 * t + lane_column() + i % 2;
                const bool visible = column >= rows + lane_row() + i / 2 * 8;
                const float weight = !visible ? 0.0f : weighted ? weight_of(c[i / 2], m.e.shift[column]) : 1.0f;
                p[t][i] = visible ? weight * (p[t][i] + m.last[column]) : 0.0f;
                s[t][i] = visible ? weight * s[t][i] : 0.0f;
            }
        accumulators_to_a(factors[0], p[0], p[1]);
        multiply_rows<1, Z::D / 8>(df, factors, m.fq, Z::F_STRIDE, query);
        accumulators_to_a(factors[0], s[0], s[1]);
        multiply_rows<1, Z::V_TILES - 1>(dv, factors, m.dn, Z::V_STRIDE, query);
    }
}

/* df and dv of the chunk's keys through the sums after it. */
template <typename Z>
__device__ inline void keys_through_sums(const backward_smem<Z> &m, bool weighted, float end, int count,
                                         float (&df)[Z::D / 8][4], float (&dv)[Z::V_TILES - 1][4])
{
    const int rows = 16 * warp_id();
    float weight[2], ones[2] = {1, 1};
    for (int r = 0; r < 2; r++) {
        const int row = rows + lane_row() + 8 * r;
        weight[r] = row >= count ? 0.0f : weighted ? weight_of(m.e.c[row], end) : 1.0f;
    }
    multiply_sums<Z>(m.v, ones, m.s, m.z, weight, df);
#pragma unroll
    for (int t = 0; t < Z::V_TILES - 1; t++)
        for (int i = 0; i < 4; i++) dv[t][i] = 0;
#pragma unroll
    for (int k = 0; k < Z::F_STEPS; k++) {
        uint32_t f[1][4];
        load_a(f[0], m.fk, Z::F_STRIDE, rows, 16 * k);
        multiply_rows<1, Z::V_TILES - 1>(dv, f, m.s, Z::V_STRIDE, 16 * k);
    }
#pragma unroll
    for (int t = 0; t < Z::V_TILES - 1; t++)
#pragma unroll
        for (int i = 0; i < 4; i++) dv[t][i] *= weight[i / 2];
}

/* GROUPED: key heads have several query heads. before: number of blocks of query_gradients_kernel per key head.
 * Grid: segments of keys, key heads. */
template <typename Z, int V, bool GROUPED>
__global__ void __launch_bounds__(FAST_THREADS, 2) key_gradients_kernel(arguments a, unsigned before)
{
    BO_SHARED(shared);
    const backward_smem<Z> m = backward_smem_in<Z>(shared);
    const int key_head = (int)blockIdx.y, group = a.call.heads / a.call.key_heads;
    const bool causal = a.call.causal, weighted = has_weights(a);
    const size_t key_heads = (size_t)a.call.key_heads, slot = blockIdx.x * key_heads + (size_t)key_head;
    const size_t block = (size_t)before + blockIdx.x;
    span at;
    if (!find_segment(a, a.call.keys, blockIdx.x, at)) {
        clear_sigma(a, key_head, block);
        return;
    }
    const bo_gpu_attention_strides &by = a.call.strides;
    const float ones[2] = {1, 1};
    float *sigma = begin_sigma(a, m);
    owned_sums<Z> sums;
    const bf16 *q = numbers_at((const bf16 *)a.call.q, by.q, at.sequence, 0, key_head * group);
    sums.load(a, a.after + sums_at(a, blockIdx.x, key_head));
    load_map<Z>(a, key_head, m.map);
    sums.share(m.s);
    share_last(sums, m.z);
    __syncthreads();
    for (int first = (at.count - 1) / CHUNK * CHUNK; first >= 0; first -= CHUNK) {
        const int count = min((int)CHUNK, at.count - first), rows = 16 * warp_id();
        const size_t row = at.first + (size_t)first;
        const bf16 *k = numbers_at((const bf16 *)a.call.k, by.k, at.sequence, row, key_head);
        const lane_gates log_gates = load_gates(a, at.sequence, row, count, key_head);
        copy_values<Z, V>(numbers_at((const bf16 *)a.call.v, by.v, at.sequence, row, key_head), by.v.row, count, m.v);
        stage<Z>(k, by.k.row, count, m.dn);
        lane_gradients gradients;
        if (causal) {
            stage<Z>(q + row * by.q.row, by.q.row, count, m.weighed);
            gradients = load_gradients<V>(a, at.sequence, key_head * group, row, count);
            prefetch_inputs(a, at, first - CHUNK, key_head * group, key_head);
        }
        copy_wait<0>();
        __syncwarp();
        share_features<Z>(a, key_head, m.map, m.dn, m.fk, m.e.scale, row, count);
        if (causal) {
            share_features<Z>(a, key_head, m.map, m.weighed, m.fq, nullptr);
            share_gradients<Z, V>(gradients, m.dn, m.last);
        }
        __syncthreads();
        float begin = 0, kept = 1, end_shift = 0;
        if (weighted) {
            if (a.map.scaled) begin = causal ? chunk_scale(a, blockIdx.x, key_head, first) : -INFINITY;
            const chunk_end end = find_chunk(a, count, log_gates, begin, m.e);
            end_shift = end.shift;
            if (a.map.scaled && (!causal || first + CHUNK >= at.count))
                end_shift = a.ends[slot] > -INFINITY ? end.gates - a.ends[slot] : 0.0f;
            kept = causal ? exp_fast(begin + end_shift) : 1.0f;
        }
        float df[Z::D / 8][4], dv[Z::V_TILES - 1][4];
        keys_through_sums(m, weighted, end_shift, count, df, dv);
        for (int g = 0; causal && g < (GROUPED ? group : 1); g++) {
            if (GROUPED && g > 0) {
                __syncthreads();
                stage<Z>(q + row * by.q.row + (size_t)g * by.q.head, by.q.row, count, m.weighed);
                gradients = load_gradients<V>(a, at.sequence, key_head * group + g, row, count);
                copy_wait<0>();
                __syncwarp();
                share_features<Z>(a, key_head, m.map, m.weighed, m.fq, nullptr);
                share_gradients<Z, V>(gradients, m.dn, m.last);
                __syncwarp();
            }
            if (weighted) weigh_values<Z>(m.dn, m.e.shift, begin, m.weighed);
            __syncthreads();
            keys_by_queries(m, weighted, df, dv);
            sums.absorb(g == 0 ? kept : 1.0f, m.fq, weighted ? m.weighed : m.dn);
        }
        __syncthreads();
        uint32_t f[Z::F_STEPS][4];
#pragma unroll
        for (int s = 0; s < Z::F_STEPS; s++) load_a(f[s], m.fk, Z::F_STRIDE, rows, 16 * s);
        stage<Z>(k, by.k.row, count, m.fq);
        if (a.call.dv)
            write_rows(dv, ones, m.weighed, Z::V_STRIDE,
                       numbers_at((bf16 *)a.call.dv, by.dv, at.sequence, row, key_head), by.dv.row, count);
        float flow[2], dx[2 * Z::X_STEPS][4] = {};
        back_through_map<Z>(a, m.map, m.fq, f, df, flow, dx, sigma);
        write_flow(flow, a.key_flow, key_heads, key_head, row, count);
        if (a.call.dk)
            write_rows(dx, ones, m.fq, Z::V_STRIDE, numbers_at((bf16 *)a.call.dk, by.dk, at.sequence, row, key_head),
                       by.dk.row, count);
        __syncthreads();
        if (causal) sums.share(m.s), share_last(sums, m.z);
    }
    write_sigma<Z>(a, key_head, m.sigma, block);
}

/* ---- the pass ---------------------------------------------------------------------------------------------------- */

template <typename Z, int V> static bo_gpu_error backward_fast(bo_gpu *cuda, const arguments *a)
{
    const bo_gpu_attention &c = a->call;
    const size_t shared = back_layout<Z>::BYTES;
    const unsigned queries = tiles_of(c.queries, a->segment), keys = tiles_of(c.keys, a->segment);
    bo_gpu_error error =
        launch(cuda, dim3(queries, (unsigned)c.key_heads), dim3(FAST_THREADS), shared, query_sums_kernel<Z, V>, *a);
    if (!error) error = scan_back(cuda, a);
    if (!error)
        error = launch(cuda, dim3(queries, (unsigned)c.heads), dim3(FAST_THREADS), shared, query_gradients_kernel<Z, V>,
                       *a);
    if (!error)
        error = launch(cuda, dim3(keys, (unsigned)c.key_heads), dim3(FAST_THREADS), shared,
                       c.heads > c.key_heads ? key_gradients_kernel<Z, V, true> : key_gradients_kernel<Z, V, false>, *a,
                       queries * (unsigned)(c.heads / c.key_heads));
    if (!error) error = reduce_gate_gradients(cuda, a);
    return error ? error : reduce_parameter_gradients(cuda, a);
}

bo_gpu_error fast_backward(bo_gpu *cuda, const arguments *a)
{
    arguments counted = *a;
    counted.blocks = (int)(tiles_of(a->call.queries, a->segment) * (unsigned)(a->call.heads / a->call.key_heads) +
                           tiles_of(a->call.keys, a->segment));
#define BACKWARD(dim, m, per, v) return backward_fast<sizes<dim, m, per, v>, v>(cuda, &counted)
    BO_FOR_SET(a->map, a->call, BACKWARD)
    return "attention with features: no kernel for these sizes";
}

} // namespace features
} // namespace bo
