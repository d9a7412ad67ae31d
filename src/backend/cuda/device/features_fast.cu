/* Attention with features in bfloat16, forward. With D features of d columns, values of d columns, and N tokens, per
 * head: segment_sums_kernel 4 N d D operations and D exponentials per key, reads k and v; segment_outputs_kernel
 * about N (8 d D + 192 D + 96 d) operations and 2 D + 96 exponentials per token, reads q, k, v and writes the output.
 * Both read or write the sums of a segment once. */
#include "features_fast.cuh"
#include "features_sets.cuh"

namespace bo {
namespace features {

/* ---- shared memory ----------------------------------------------------------------------------------------------- */

template <typename Z> struct forward_room {
    shared_map map;
    bf16 *f;      /* features of the chunk's keys: CHUNK x F_STRIDE */
    bf16 *v, *vw; /* v~, and v~ times the weights of the keys: CHUNK x V_STRIDE */
    bf16 *s;      /* S~: D x V_STRIDE */
    bf16 *k, *q;  /* rows of the next chunks: CHUNK x W_STRIDE */
    bf16 *fq;     /* features of the chunk's queries: CHUNK x F_STRIDE */
    chunk_exponents e;
    float *query_scale; /* log scales of the chunk's queries */
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
        FQ = QUERIES + CHUNK * Z::W_STRIDE * 2,
        FLOATS = FQ + CHUNK * Z::F_STRIDE * 2,
        BYTES = FLOATS + (Z::U_TILES * 8 + Z::X_STEPS * 16 + 5 * CHUNK) * 4
    };
};

template <typename Z> __device__ inline forward_room<Z> forward_room_in(unsigned char *shared)
{
    typedef forward_layout<Z> L;
    forward_room<Z> m;
    float *floats = reinterpret_cast<float *>(shared + L::FLOATS);
    m.map = {reinterpret_cast<bf16 *>(shared + L::W), floats, floats + Z::U_TILES * 8};
    m.f = reinterpret_cast<bf16 *>(shared + L::F);
    m.v = reinterpret_cast<bf16 *>(shared + L::VALUES), m.vw = reinterpret_cast<bf16 *>(shared + L::WEIGHED);
    m.s = reinterpret_cast<bf16 *>(shared + L::SUMS);
    m.k = reinterpret_cast<bf16 *>(shared + L::KEYS), m.q = reinterpret_cast<bf16 *>(shared + L::QUERIES);
    m.fq = reinterpret_cast<bf16 *>(shared + L::FQ);
    float *e = floats + Z::U_TILES * 8 + Z::X_STEPS * 16;
    m.e = {e, e + CHUNK, e + 2 * CHUNK, e + 3 * CHUNK}, m.query_scale = e + 4 * CHUNK;
    return m;
}

/* Rows of a segment that a warp maps: staged in `room`, W_STRIDE. */
struct mapped_rows {
    const bf16 *rows;
    size_t stride;
    bf16 *room, *features;
    float *scale; /* their log scales */
    bool keys;    /* which have log weights with HYBRID */
};

/* Writes the features and log scales of this warp's rows of the chunk at row `first` of the segment, and starts the
 * copy of its rows from `next` on. */
template <typename Z>
__device__ inline void share_mapped(const arguments &a, float common, const shared_map &map, const mapped_rows &x,
                                    const span &at, int key_head, int first, int next)
{
    uint32_t fragments[Z::X_STEPS][4], f[Z::F_STEPS][4];
    float scale[2], unit[2];
    load_staged(fragments, x.room, Z::W_STRIDE);
    stage_rows<16 * Z::X_STEPS>(x.rows, x.stride, next + 16 * row_warp(), at.count, x.room, Z::W_STRIDE);
    copy_commit();
    map_fragments<Z>(a, common, map, fragments, f, scale, unit);
    store_a(f, x.features, Z::F_STRIDE, 16 * row_warp());
    share_scales(a, scale, at.first + (size_t)first, x.keys ? at.count - first : 0, key_head, x.scale);
}

/* ---- sums of segments -------------------------------------------------------------------------------------------- */

/* Grid: segments, key heads. */
template <typename Z, int V> __global__ void __launch_bounds__(PART_THREADS, 2) segment_sums_kernel(arguments a)
{
    BO_SHARED(shared);
    const sums_room<Z> m = sums_room_in<Z>(shared);
    const int key_head = (int)blockIdx.y, mine = warp_part() * CHUNK;
    span at;
    if (!find_segment(a, a.call.keys, blockIdx.x, at)) return;
    const size_t k_stride = (size_t)a.call.key_heads * (size_t)a.call.dim, v_stride = (size_t)a.call.key_heads * V;
    const bf16 *k = (const bf16 *)a.call.k + at.first * k_stride + (size_t)(key_head * a.call.dim);
    const bf16 *v = (const bf16 *)a.call.v + at.first * v_stride + (size_t)(key_head * V);
    const mapped_rows mapped = {k,   k_stride, m.rows + mine * Z::W_STRIDE, m.f + mine * Z::F_STRIDE, m.e.scale + mine,
                                true};
    const float common = a.map.common[(size_t)key_head * a.map.stride];
    const bool weighted = has_weights(a);
    float scale = empty_scale(a);
    double gates = 0;
    owned_sums<Z, PARTS> sums;
    sums.clear();
    stage_rows<16 * Z::X_STEPS>(k, k_stride, mine + 16 * row_warp(), at.count, mapped.room, Z::W_STRIDE);
    copy_commit();
    load_map<Z>(a, key_head, m.map);
    __syncthreads();
    for (int first = 0; first < at.count; first += PARTS * CHUNK) {
        int count[PARTS];
        lane_gates log_gates[PARTS];
        copy_wait<0>();
        __syncwarp();
#pragma unroll
        for (int p = 0; p < PARTS; p++) {
            const int start = first + p * CHUNK;
            count[p] = max(min((int)CHUNK, at.count - start), 0);
            log_gates[p] = load_gates(a, at.first + (size_t)start, count[p], key_head);
            copy_values<Z, V, PART_THREADS>(v + (size_t)start * v_stride, v_stride, count[p],
                                            m.x + p * CHUNK * Z::V_STRIDE);
        }
        copy_commit();
        share_mapped<Z>(a, common, m.map, mapped, at, key_head, first + mine, first + PARTS * CHUNK + mine);
        copy_wait<1>();
        __syncthreads();
        float kept[PARTS] = {1, 1};
        if (weighted) {
            float shift = 0;
#pragma unroll
            for (int p = 0; p < PARTS; p++) {
                const int from = p * CHUNK;
                const chunk_end end = find_chunk(a, count[p], log_gates[p], scale,
                                                 {m.e.c + from, m.e.shift + from, m.e.scale + from, nullptr});
                if (p == warp_part()) shift = end.shift;
                kept[p] = exp_fast(scale + end.shift);
                scale = end.scale, gates += (double)end.gates;
            }
            weigh_values<Z>(m.x, m.e.c, shift, m.weighed);
            __syncthreads();
        }
#pragma unroll 1
        for (int p = 0; p < PARTS; p++)
            sums.absorb(p ? kept[1] : kept[0], m.f + p * CHUNK * Z::F_STRIDE,
                        (weighted ? m.weighed : m.x) + p * CHUNK * Z::V_STRIDE);
        __syncthreads();
    }
    float *to = a.sums + sums_at(a, blockIdx.x, key_head);
    sums.store(a, to);
    if (threadIdx.x == 0) to[0] = scale, sums_gates(to) = gates;
}

/* ---- outputs of segments ----------------------------------------------------------------------------------------- */

/* The columns of values of a warp, in the order of owned_sums. */
template <typename Z> struct part {
    typedef owned_sums<Z, PARTS> sums;
    enum { TILES = sums::TILES };
};

/* n (16 rows x columns of this warp) += A X, X: rows k … k + 31 of a matrix of all columns of v~. */
template <typename Z>
__device__ inline void multiply_part(float (&n)[part<Z>::TILES][4], const uint32_t (&a)[2][4], const bf16 *x, int k)
{
    enum { TILES = part<Z>::TILES };
    uint32_t b[4];
#pragma unroll
    for (int s = 0; s < 2; s++)
#pragma unroll
        for (int t = 0; t + 1 < TILES; t += 2) {
            load_b_rows(b, x, Z::V_STRIDE, k + 16 * s, part<Z>::sums::tile_column(t));
            mma_two(n[t], n[t + 1], a[s], b);
        }
    load_b_rows_below(b, x, Z::V_STRIDE, k, part<Z>::sums::tile_column(TILES - 1));
    const uint32_t first[2] = {b[0], b[1]}, second[2] = {b[2], b[3]};
    mma(n[TILES - 1], a[0], first);
    mma(n[TILES - 1], a[1], second);
}

/* n += f S~ for the queries of this warp. */
template <typename Z> __device__ inline void multiply_sums(const forward_room<Z> &m, float (&n)[part<Z>::TILES][4])
{
#pragma unroll
    for (int k = 0; k < Z::D; k += 32) {
        uint32_t f[2][4];
        for (int s = 0; s < 2; s++) load_a(f[s], m.fq, Z::F_STRIDE, 16 * row_warp(), k + 16 * s);
        multiply_part<Z>(n, f, m.s, k);
    }
}

/* The weights of the 32 keys from `key` on at this warp's rows, as A: (f_i·f_j) exp(c[j] + shift[i]) for j <= i. */
template <typename Z>
__device__ inline void score_keys(const forward_room<Z> &m, int key, bool weighted, const float (&shift)[2],
                                  uint32_t (&out)[2][4])
{
    float s[4][4] = {};
#pragma unroll
    for (int k = 0; k < Z::F_STEPS; k++) {
        uint32_t f[4], b[4];
        load_a(f, m.fq, Z::F_STRIDE, 16 * row_warp(), 16 * k);
#pragma unroll
        for (int h = 0; h < 2; h++) {
            load_b(b, m.f, Z::F_STRIDE, 16 * k, key + 16 * h);
            mma_two(s[2 * h], s[2 * h + 1], f, b);
        }
    }
#pragma unroll
    for (int t = 0; t < 4; t++)
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const int column = key + 8 * t + lane_column() + i % 2, row = 16 * row_warp() + lane_row() + i / 2 * 8;
            if (weighted) s[t][i] *= weight_of(m.e.c[column], shift[i / 2]);
            if (column > row) s[t][i] = 0;
        }
    for (int h = 0; h < 2; h++) accumulators_to_a(out[h], s[2 * h], s[2 * h + 1]);
}

/* Divides and writes this warp's columns of its rows. */
template <typename Z, int V>
__device__ inline void write_outputs(const arguments &a, const float (&n)[part<Z>::TILES][4], int head, size_t first,
                                     int count)
{
    enum { TILES = part<Z>::TILES };
    const size_t stride = (size_t)a.call.heads * V;
    const int rows = 16 * row_warp() + lane_row();
    bf16 *out = (bf16 *)a.call.out + (first + (size_t)rows) * stride + (size_t)(head * V);
#pragma unroll
    for (int r = 0; r < 2; r++) {
        const int row = rows + 8 * r;
        const float denominator = __shfl_sync(0xFFFFFFFFu, n[TILES - 1][2 * r], lane_id() / 4 * 4);
        float factor;
        const float norm = normalize(a, denominator, factor);
        if (row >= count) continue;
        if (lane_column() == 0 && warp_part() == 0)
            a.norms[(first + (size_t)row) * (size_t)a.call.heads + (size_t)head] = norm;
#pragma unroll
        for (int t = 0; t + 1 < TILES; t++)
            *reinterpret_cast<uint32_t *>(out + (size_t)(8 * r) * stride + part<Z>::sums::column(t, 0)) =
                pack_bf16(factor * n[t][2 * r], factor * n[t][2 * r + 1]);
    }
}

/* HYBRID: writes this warp's columns of the numerators of its rows; the first part of the warps also their denominators
 * and log scales: of the queries, and of the sums. */
template <typename Z, int V>
__device__ inline void write_numerators(const arguments &a, const float (&n)[part<Z>::TILES][4], int head, size_t first,
                                        int count, const forward_room<Z> &m)
{
    enum { TILES = part<Z>::TILES };
#pragma unroll
    for (int r = 0; r < 2; r++) {
        const int row = 16 * row_warp() + lane_row() + 8 * r;
        if (row >= count) continue;
        const size_t place = (first + (size_t)row) * (size_t)a.call.heads + (size_t)head;
#pragma unroll
        for (int t = 0; t + 1 < TILES; t++) {
            const pack<float, 2> x = {{n[t][2 * r], n[t][2 * r + 1]}};
            *reinterpret_cast<pack<float, 2> *>(a.numerators + place * V + part<Z>::sums::column(t, 0)) = x;
        }
        if (lane_column() == 0 && warp_part() == 0)
            a.norms[place] = n[TILES - 1][2 * r], a.tops[place] = m.query_scale[row] + m.e.r[row];
    }
}

/* Grid: segments of queries, heads. */
template <typename Z, int V> __global__ void __launch_bounds__(PART_THREADS, 2) segment_outputs_kernel(arguments a)
{
    BO_SHARED(shared);
    const forward_room<Z> m = forward_room_in<Z>(shared);
    const int head = (int)blockIdx.y, group = a.call.heads / a.call.key_heads, key_head = head / group;
    const bool causal = a.call.causal, weighted = causal && has_weights(a);
    const size_t key_heads = (size_t)a.call.key_heads;
    span at;
    if (!find_segment(a, a.call.queries, blockIdx.x, at)) return;
    const size_t q_stride = (size_t)(a.call.heads * a.call.dim), k_stride = key_heads * (size_t)a.call.dim,
                 v_stride = key_heads * V;
    const bf16 *q = (const bf16 *)a.call.q + at.first * q_stride + (size_t)(head * a.call.dim);
    const bf16 *k = (const bf16 *)a.call.k + at.first * k_stride + (size_t)(key_head * a.call.dim);
    const bf16 *v = (const bf16 *)a.call.v + at.first * v_stride + (size_t)(key_head * V);
    /* the first part of the warps maps keys, the second queries */
    const mapped_rows mapped = warp_part() ? mapped_rows{q, q_stride, m.q, m.fq, m.query_scale, false}
                                           : mapped_rows{k, k_stride, m.k, m.f, m.e.scale, true};
    const bool maps = causal || warp_part() == 1;
    const float common = a.map.common[(size_t)key_head * a.map.stride];
    const float begin = causal && a.map.scaled ? a.begins[blockIdx.x * key_heads + (size_t)key_head] : 0.0f;
    const int rows = 16 * row_warp() + lane_row();
    float scale = begin, before = begin; /* before: begin + gates of the earlier chunks */
    if (maps)
        stage_rows<16 * Z::X_STEPS>(mapped.rows, mapped.stride, 16 * row_warp(), at.count, mapped.room, Z::W_STRIDE);
    copy_commit();
    typename part<Z>::sums sums;
    sums.load(a, causal ? a.sums + sums_at(a, blockIdx.x, key_head)
                        : a.totals + sums_at(a, (size_t)at.sequence, key_head));
    load_map<Z>(a, key_head, m.map);
    sums.share(m.s);
    __syncthreads();
    for (int first = 0; first < at.count; first += CHUNK) {
        const int count = min((int)CHUNK, at.count - first);
        const lane_gates log_gates = load_gates(a, at.first + (size_t)first, causal ? count : 0, key_head);
        float kept = 1, next = scale, shift[2] = {0, 0}, remains[2] = {1, 1};
        copy_wait<0>();
        __syncwarp();
        if (causal) copy_values<Z, V, PART_THREADS>(v + (size_t)first * v_stride, v_stride, count, m.v);
        copy_commit();
        if (maps) share_mapped<Z>(a, common, m.map, mapped, at, key_head, first, first + CHUNK);
        copy_wait<1>(); /* the values; with `maps`, all but the next rows */
        __syncthreads();
        if (weighted) {
            const chunk_end end = find_chunk(a, count, log_gates, scale, m.e);
            weigh_values<Z, 16 / PARTS>(m.v, m.e.c, end.shift, m.vw);
            for (int r = 0; r < 2; r++) {
                shift[r] = m.e.shift[rows + 8 * r];
                remains[r] = exp_fast(scale + shift[r]);
            }
            kept = exp_fast(scale + end.shift);
            next = end.scale;
            if (head % group == 0 && lane_column() == 0 && warp_part() == 0)
                for (int r = 0; r < 2; r++)
                    if (rows + 8 * r < count)
                        a.scales[(at.first + (size_t)(first + rows + 8 * r)) * key_heads + (size_t)key_head] =
                            before + shift[r];
            if (head % group == 0 && threadIdx.x == 0) chunk_scale(a, blockIdx.x, key_head, first) = scale;
            before += end.gates;
        }
        float n[part<Z>::TILES][4] = {};
        multiply_sums<Z>(m, n);
#pragma unroll
        for (int t = 0; t < part<Z>::TILES; t++)
#pragma unroll
            for (int i = 0; i < 4; i++) n[t][i] *= remains[i / 2];
        scale = next;
        for (int key = 0; causal && key <= 16 * row_warp(); key += 32) {
            uint32_t scores[2][4];
            score_keys(m, key, weighted, shift, scores);
            multiply_part<Z>(n, scores, m.v, key);
        }
        if (a.numerators) {
            write_numerators<Z, V>(a, n, head, at.first + (size_t)first, count, m);
        } else {
            write_outputs<Z, V>(a, n, head, at.first + (size_t)first, count);
        }
        __syncthreads();
        if (!causal || first + CHUNK >= at.count) continue;
        sums.absorb(kept, m.f, weighted ? m.vw : m.v);
        sums.share(m.s);
        __syncthreads();
    }
}

template <typename Z, int V> static bo_cuda_error forward_fast(bo_cuda *cuda, const arguments *a)
{
    const bo_cuda_attention &c = a->call;
    const size_t shared = forward_layout<Z>::BYTES;
    bo_cuda_error error = nullptr;
    if (c.k)
        error = launch(cuda, dim3((unsigned)tiles_of(c.keys, a->segment), (unsigned)c.key_heads), dim3(PART_THREADS),
                       sums_layout<Z>::BYTES, segment_sums_kernel<Z, V>, *a);
    if (!error) error = scan(cuda, a);
    if (error) return error;
    return launch(cuda, dim3((unsigned)tiles_of(c.queries, a->segment), (unsigned)c.heads), dim3(PART_THREADS), shared,
                  segment_outputs_kernel<Z, V>, *a);
}

bo_cuda_error fast_forward(bo_cuda *cuda, const arguments *a)
{
#define FORWARD(dim, m, per, v) return forward_fast<sizes<dim, m, per, v>, v>(cuda, a)
    BO_FOR_SET(a->map, a->call, FORWARD)
    return "attention with features: no kernel for these sizes";
}

} // namespace features
} // namespace bo
