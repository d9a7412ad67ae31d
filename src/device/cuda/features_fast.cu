/* Linear attention in bfloat16, forward. With D features of d columns, values of d columns, and N tokens, per
 * head: segment_sums_kernel 4 N d D operations and D exponentials per key, reads k and v; segment_outputs_kernel
 * about N (8 d D + 160 (D + d)) operations and 2 D + 40 exponentials per token, reads q, k, v and writes the output.
 * Both read or write the sums of a segment once. */
#include "features_fast.cuh"
#include "features_sets.cuh"

namespace bo {
namespace features {

/* ---- shared memory ----------------------------------------------------------------------------------------------- */

template <typename Z> struct forward_smem {
    shared_map map;
    bf16 *f;      /* features of the chunk's keys: CHUNK x F_STRIDE */
    bf16 *v, *vw; /* v~, and v~ times the weights of the keys: CHUNK x V_STRIDE */
    bf16 *s;      /* S~: D x V_STRIDE */
    bf16 *k, *q;  /* rows of the next chunks, 16 of each warp; q also outputs: CHUNK x W_STRIDE */
    chunk_exponents e;
};

template <typename Z> struct forward_layout {
    enum {
        W = 0,
        F = W + Z::U_TILES * 8 * Z::W_STRIDE * 2,
        VALUES = F + CHUNK * Z::F_STRIDE * 2,
        WEIGHED = VALUES + CHUNK * Z::V_STRIDE * 2,
        SUMS = WEIGHED + CHUNK * Z::V_STRIDE * 2,
        KEYS = SUMS + Z::D * Z::V_STRIDE * 2,
        QUERIES = KEYS + CHUNK * Z::W_STRIDE * 2,
        FLOATS = QUERIES + CHUNK * Z::W_STRIDE * 2,
        BYTES = FLOATS + (Z::U_TILES * 8 + Z::X_STEPS * 16 + (1 + 3 * FAST_WARPS) * CHUNK) * 4
    };
};

template <typename Z> __device__ inline forward_smem<Z> forward_smem_in(unsigned char *shared)
{
    typedef forward_layout<Z> L;
    forward_smem<Z> m;
    float *floats = reinterpret_cast<float *>(shared + L::FLOATS);
    m.map = {reinterpret_cast<bf16 *>(shared + L::W), floats, floats + Z::U_TILES * 8};
    m.f = reinterpret_cast<bf16 *>(shared + L::F);
    m.v = reinterpret_cast<bf16 *>(shared + L::VALUES), m.vw = reinterpret_cast<bf16 *>(shared + L::WEIGHED);
    m.s = reinterpret_cast<bf16 *>(shared + L::SUMS);
    m.k = reinterpret_cast<bf16 *>(shared + L::KEYS), m.q = reinterpret_cast<bf16 *>(shared + L::QUERIES);
    float *scale = floats + Z::U_TILES * 8 + Z::X_STEPS * 16, *e = scale + (1 + 3 * warp_id()) * CHUNK;
    m.e = {e, e + CHUNK, scale, e + 2 * CHUNK};
    return m;
}

/* Writes the features and the log scales of this warp's keys. */
template <typename Z>
__device__ inline void share_keys(const arguments &a, float common, const forward_smem<Z> &m,
                                  const uint32_t (&x)[Z::X_STEPS][4], size_t first, int count, int key_head)
{
    uint32_t f[Z::F_STEPS][4];
    float scale[2], unit[2];
    map_fragments<Z>(a, common, m.map, x, f, scale, unit);
    store_a(f, m.f, Z::F_STRIDE, 16 * warp_id());
    share_scales(a, scale, first, count, key_head, m.e.scale);
}

/* ---- sums of segments -------------------------------------------------------------------------------------------- */

/* Grid: segments, key heads. */
template <typename Z, int V> __global__ void __launch_bounds__(FAST_THREADS, 2) segment_sums_kernel(arguments a)
{
    BO_SHARED(shared);
    const forward_smem<Z> m = forward_smem_in<Z>(shared);
    const int key_head = (int)blockIdx.y;
    span at;
    if (!find_segment(a, a.call.keys, blockIdx.x, at)) return;
    const size_t k_stride = a.call.strides.k.row, v_stride = a.call.strides.v.row;
    const bf16 *k = numbers_at((const bf16 *)a.call.k, a.call.strides.k, at.sequence, at.first, key_head);
    const bf16 *v = numbers_at((const bf16 *)a.call.v, a.call.strides.v, at.sequence, at.first, key_head);
    const float common = a.map.common[(size_t)key_head * a.map.stride];
    const bool weighted = has_weights(a);
    float scale = empty_scale(a);
    double gates = 0;
    uint32_t x[Z::X_STEPS][4];
    owned_sums<Z> sums;
    sums.clear();
    stage_rows<16 * Z::X_STEPS>(k, k_stride, 16 * warp_id(), at.count, m.k, Z::W_STRIDE);
    copy_commit();
    load_map<Z>(a, key_head, m.map);
    __syncthreads();
    for (int first = 0; first < at.count; first += CHUNK) {
        const int count = min((int)CHUNK, at.count - first);
        const lane_gates log_gates = load_gates(a, at.sequence, at.first + (size_t)first, count, key_head);
        copy_wait<0>();
        __syncwarp();
        load_staged(x, m.k, Z::W_STRIDE);
        copy_values<Z, V>(v + (size_t)first * v_stride, v_stride, count, m.v);
        copy_commit();
        stage_rows<16 * Z::X_STEPS>(k, k_stride, first + CHUNK + 16 * warp_id(), at.count, m.k, Z::W_STRIDE);
        copy_commit();
        share_keys(a, common, m, x, at.first + (size_t)first, count, key_head);
        copy_wait<1>();
        __syncthreads();
        float kept = 1;
        if (weighted) {
            const chunk_end end = find_chunk(a, count, log_gates, scale, m.e);
            weigh_values<Z>(m.v, m.e.c, end.shift, m.vw);
            kept = exp_fast(scale + end.shift);
            scale = end.scale, gates += (double)end.gates;
            __syncthreads();
        }
        sums.absorb(kept, m.f, weighted ? m.vw : m.v);
        __syncthreads();
    }
    float *to = a.sums + sums_at(a, blockIdx.x, key_head);
    sums.store(a, to);
    if (threadIdx.x == 0) to[0] = scale, sums_gates(to) = gates;
}

/* ---- outputs of segments ----------------------------------------------------------------------------------------- */

/* The weights of the 16 keys from `key` on at this warp's rows, as A: (f_i·f_j) exp(c[j] + shift[i]) for j <= i. */
template <typename Z>
__device__ inline void score_keys(const forward_smem<Z> &m, const uint32_t (&f)[Z::F_STEPS][4], int key, bool weighted,
                                  const float (&shift)[2], uint32_t (&out)[1][4])
{
    float s[2][4] = {};
#pragma unroll
    for (int k = 0; k < Z::F_STEPS; k++) {
        uint32_t b[4];
        load_b(b, m.f, Z::F_STRIDE, 16 * k, key);
        mma_two(s[0], s[1], f[k], b);
    }
#pragma unroll
    for (int t = 0; t < 2; t++)
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const int column = key + 8 * t + lane_column() + i % 2, row = 16 * warp_id() + lane_row() + i / 2 * 8;
            if (weighted) s[t][i] *= weight_of(m.e.c[column], shift[i / 2]);
            if (column > row) s[t][i] = 0;
        }
    accumulators_to_a(out[0], s[0], s[1]);
}

/* Divides and writes this warp's rows, through its rows of q in shared memory. */
template <typename Z, int V>
__device__ inline void write_outputs(const arguments &a, const float (&n)[Z::V_TILES][4], int sequence, int head,
                                     size_t first, int count, bf16 *tile)
{
    float factor[2], out[Z::V_TILES - 1][4];
#pragma unroll
    for (int r = 0; r < 2; r++) {
        const int row = 16 * warp_id() + lane_row() + 8 * r;
        const float denominator = __shfl_sync(0xFFFFFFFFu, n[Z::V_TILES - 1][2 * r], lane_id() / 4 * 4);
        const float norm = normalize(a, denominator, factor[r]);
        if (row < count && lane_column() == 0)
            a.norms[(first + (size_t)row) * (size_t)a.call.heads + (size_t)head] = norm;
    }
#pragma unroll
    for (int t = 0; t < Z::V_TILES - 1; t++)
#pragma unroll
        for (int i = 0; i < 4; i++) out[t][i] = n[t][i];
    write_rows(out, factor, tile, Z::W_STRIDE,
               numbers_at((bf16 *)a.call.out, a.call.strides.out, sequence, first, head), a.call.strides.out.row,
               count);
}

/* HYBRID: writes the numerators of this warp's rows, their denominators and log scales: of the queries, and of the
 * sums. */
template <typename Z, int V>
__device__ inline void write_numerators(const arguments &a, const float (&n)[Z::V_TILES][4], int head, size_t first,
                                        int count, const float (&scale)[2], const float *scales)
{
#pragma unroll
    for (int r = 0; r < 2; r++) {
        const int row = 16 * warp_id() + lane_row() + 8 * r;
        if (row >= count) continue;
        const size_t place = (first + (size_t)row) * (size_t)a.call.heads + (size_t)head;
        float *to = a.numerators + place * V + lane_column();
#pragma unroll
        for (int t = 0; t < Z::V_TILES - 1; t++) {
            const pack<float, 2> x = {{n[t][2 * r], n[t][2 * r + 1]}};
            *reinterpret_cast<pack<float, 2> *>(to + 8 * t) = x;
        }
        if (lane_column() == 0) a.norms[place] = n[Z::V_TILES - 1][2 * r], a.tops[place] = scale[r] + scales[row];
    }
}

/* Grid: segments of queries, heads. */
template <typename Z, int V> __global__ void __launch_bounds__(FAST_THREADS, 2) segment_outputs_kernel(arguments a)
{
    BO_SHARED(shared);
    const forward_smem<Z> m = forward_smem_in<Z>(shared);
    const int head = (int)blockIdx.y, group = a.call.heads / a.call.key_heads, key_head = head / group;
    const bool causal = a.call.causal, weighted = causal && has_weights(a);
    const size_t key_heads = (size_t)a.call.key_heads;
    span at;
    if (!find_segment(a, a.call.queries, blockIdx.x, at)) return;
    const size_t q_stride = a.call.strides.q.row, k_stride = a.call.strides.k.row, v_stride = a.call.strides.v.row;
    const bf16 *q = numbers_at((const bf16 *)a.call.q, a.call.strides.q, at.sequence, at.first, head);
    const bf16 *k = numbers_at((const bf16 *)a.call.k, a.call.strides.k, at.sequence, at.first, key_head);
    const bf16 *v = numbers_at((const bf16 *)a.call.v, a.call.strides.v, at.sequence, at.first, key_head);
    const float common = a.map.common[(size_t)key_head * a.map.stride];
    const float begin = causal && a.map.scaled ? a.begins[blockIdx.x * key_heads + (size_t)key_head] : 0.0f;
    float scale = begin, before = begin; /* before: begin + gates of earlier chunks */
    if (causal) stage_rows<16 * Z::X_STEPS>(k, k_stride, 16 * warp_id(), at.count, m.k, Z::W_STRIDE);
    copy_commit();
    stage_rows<16 * Z::X_STEPS>(q, q_stride, 16 * warp_id(), at.count, m.q, Z::W_STRIDE);
    copy_commit();
    owned_sums<Z> sums;
    sums.load(a, causal ? a.sums + sums_at(a, blockIdx.x, key_head)
                        : a.totals + sums_at(a, (size_t)at.sequence, key_head));
    load_map<Z>(a, key_head, m.map);
    sums.share(m.s);
    __syncthreads();
    for (int first = 0; first < at.count; first += CHUNK) {
        const int count = min((int)CHUNK, at.count - first), rows = 16 * warp_id();
        const lane_gates log_gates = load_gates(a, at.sequence, at.first + (size_t)first, causal ? count : 0, key_head);
        uint32_t x[Z::X_STEPS][4], f[Z::F_STEPS][4];
        float kept = 1, next = scale, shift[2] = {0, 0};
        if (causal) { /* copies in their order: q, v, the next k */
            copy_wait<1>();
            __syncwarp();
            load_staged(x, m.k, Z::W_STRIDE);
            copy_values<Z, V>(v + (size_t)first * v_stride, v_stride, count, m.v);
            copy_commit();
            stage_rows<16 * Z::X_STEPS>(k, k_stride, first + CHUNK + rows, at.count, m.k, Z::W_STRIDE);
            copy_commit();
            share_keys(a, common, m, x, at.first + (size_t)first, count, key_head);
            copy_wait<1>();
            __syncthreads();
        } else {
            copy_wait<0>();
            __syncwarp();
        }
        if (weighted) {
            const chunk_end end = find_chunk(a, count, log_gates, scale, m.e);
            weigh_values<Z>(m.v, m.e.c, end.shift, m.vw);
            for (int r = 0; r < 2; r++) shift[r] = m.e.shift[rows + lane_row() + 8 * r];
            kept = exp_fast(scale + end.shift);
            next = end.scale;
            if (head % group == 0 && lane_column() == 0)
                for (int r = 0; r < 2; r++) {
                    const int row = rows + lane_row() + 8 * r;
                    if (row < count)
                        a.scales[(at.first + (size_t)(first + row)) * key_heads + (size_t)key_head] = before + shift[r];
                }
            if (head % group == 0 && threadIdx.x == 0) chunk_scale(a, blockIdx.x, key_head, first) = scale;
            before += end.gates;
        }
        float n[Z::V_TILES][4] = {}, log_scale[2], unit[2];
        load_staged(x, m.q, Z::W_STRIDE);
        map_fragments<Z>(a, common, m.map, x, f, log_scale, unit);
        multiply_rows<Z::F_STEPS, Z::V_TILES>(n, f, m.s, Z::V_STRIDE, 0);
        if (weighted) {
            const float remains[2] = {exp_fast(scale + shift[0]), exp_fast(scale + shift[1])};
#pragma unroll
            for (int t = 0; t < Z::V_TILES; t++)
#pragma unroll
                for (int i = 0; i < 4; i++) n[t][i] *= remains[i / 2];
            scale = next;
        }
        for (int key = 0; causal && key <= rows; key += 16) {
            uint32_t scores[1][4];
            score_keys(m, f, key, weighted, shift, scores);
            multiply_rows<1, Z::V_TILES>(n, scores, m.v, Z::V_STRIDE, key);
        }
        if (a.numerators) {
            write_numerators<Z, V>(a, n, head, at.first + (size_t)first, count, log_scale, m.e.r);
        } else {
            write_outputs<Z, V>(a, n, at.sequence, head, at.first + (size_t)first, count, m.q);
        }
        stage_rows<16 * Z::X_STEPS>(q, q_stride, first + CHUNK + rows, at.count, m.q, Z::W_STRIDE);
        copy_commit();
        if (!causal || first + CHUNK >= at.count) continue;
        __syncthreads();
        sums.absorb(kept, m.f, weighted ? m.vw : m.v);
        sums.share(m.s);
        __syncthreads();
    }
}

template <typename Z, int V> static bo_gpu_error forward_fast(bo_gpu *cuda, const arguments *a)
{
    const bo_gpu_attention &c = a->call;
    const size_t shared = forward_layout<Z>::BYTES;
    bo_gpu_error error = nullptr;
    if (c.k)
        error = launch(cuda, dim3((unsigned)tiles_of(c.keys, a->segment), (unsigned)c.key_heads), dim3(FAST_THREADS),
                       shared, segment_sums_kernel<Z, V>, *a);
    if (!error) error = scan(cuda, a);
    if (error) return error;
    return launch(cuda, dim3((unsigned)tiles_of(c.queries, a->segment), (unsigned)c.heads), dim3(FAST_THREADS), shared,
                  segment_outputs_kernel<Z, V>, *a);
}

bo_gpu_error fast_forward(bo_gpu *cuda, const arguments *a)
{
#define FORWARD(dim, m, per, v) return forward_fast<sizes<dim, m, per, v>, v>(cuda, a)
    BO_FOR_SET(a->map, a->call, FORWARD)
    return "attention with features: no kernel for these sizes";
}

} // namespace features
} // namespace bo
