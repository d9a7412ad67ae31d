/* Gated linear attention in bfloat16 on tensor cores. src/attention/gla.h has the formulas. A block of threads has a
 * chunk of 64 tokens; S before every chunk is the scan of the chunks' parts (parts, then memories).
 *
 * A chunk has four sub-blocks of 16 tokens. With L_i the sum of a channel's log gates from the start of its sub-block
 * to token i, R_j from after token j to the end of its sub-block, and T_m of a whole sub-block:
 *
 *     Q_i = s q_i ∘ exp(L_i)      K_j = k_j ∘ exp(R_j)      J_j = k_j ∘ exp(-L_j)
 *
 * Scores of sub-blocks n > m are Q_i·(exp(T of the sub-blocks between) ∘ K_j): all factors are in [0, 1]. Scores within
 * a sub-block are Q_i·J_j in the rows whose sums are at least -LIMIT in every channel, and are exact products of gates
 * in the others. So every gate is allowed, and a row depends on earlier tokens only.
 *
 * Backward: the gradients between sub-blocks are accumulated from the furthest sub-block to the next one, and decay by
 * exp(T) before each; within sub-blocks, one thread per channel multiplies gates one by one. Gradients of gates are
 * sums of terms that contain the gate.
 *
 * For n tokens and heads of dim = value_dim = d, elements of t = 2 bytes: forward reads k, v, log_gate twice and q
 * once, writes out, and writes and reads 4 + 4 + 2 bytes per number of S: 8 n d t + 16 n d² / 64 bytes; backward 21 n d
 * t + 36 n d² / 64. */
#include "launches.cuh"
#include "memory_fast.cuh"

namespace bo {
namespace gla_fast {

using namespace memories;

constexpr float LIMIT = 60.0f; /* exp(LIMIT) times a key is finite */

/* ---- rows -------------------------------------------------------------------------------------------------------- */

/* The rows of a chunk in an array. */
struct source {
    const bf16 *at;
    size_t ld;
};

__device__ inline source rows_of(const void *array, const bo_gpu_strides &by, const chunk &at, int head)
{
    return {numbers_if_any((const bf16 *)array, by, at.sequence, at.row, head), by.row};
}

/* The channels c and c + 1 of the tokens of a sub-block. */
__device__ inline void load_pairs(uint32_t (&to)[SUB], const source &from, int first, int tokens, int c, int dim)
{
#pragma unroll
    for (int t = 0; t < SUB; t++)
        to[t] =
            first + t < tokens && from.at ? load_pair(from.at + (size_t)(first + t) * from.ld + (size_t)c, dim - c) : 0;
}

/* The gates of a pair, as logarithms. */
__device__ inline void gate_pair(uint32_t bits, float (&g)[2])
{
    unpack(bits, g[0], g[1]);
    g[0] = clamp_gate(g[0]), g[1] = clamp_gate(g[1]);
}

/* ---- parts of chunks --------------------------------------------------------------------------------------------- */

template <int D> struct local_smem {
    enum { STRIDE = D + 8 };
    bf16 *x, *y;             /* CHUNK x D, CHUNK x SLICE */
    float *totals, *factors; /* SUBS x D, CHUNK */
    __host__ __device__ explicit local_smem(smem_carver *carver)
    {
        x = carver->tile<bf16>(CHUNK, D);
        y = carver->tile<bf16>(CHUNK, SLICE);
        totals = carver->array<float>(SUBS * D);
        factors = carver->array<float>(CHUNK);
    }
};

/* The part of a chunk's keys in S after it, and the product of its gates; BACK: the part of its outputs in the gradient
 * of S before it. */
template <int D, bool BACK> __global__ void __launch_bounds__(TILE_THREADS) gla_fast_local_kernel(bo_gpu_memory a)
{
    BO_SHARED(shared);
    const bo_gpu_attention &call = a.call;
    const int tile = (int)blockIdx.x, head = (int)blockIdx.y, dim = call.dim, values = call.value_dim;
    const int h = BACK ? head / (call.heads / call.key_heads) : head; /* BACK: head is a query head */
    const chunk at = chunk_of(call.keys, CHUNK, tile);
    if (at.tokens == 0) return;
    smem_carver carver = {shared, 0};
    const local_smem<D> smem(&carver);
    enum { STRIDE = local_smem<D>::STRIDE };
    const source x = BACK ? rows_of(call.q, call.strides.q, at, head) : rows_of(call.k, call.strides.k, at, h);
    const source y = BACK ? rows_of(call.dout, call.strides.dout, at, head) : rows_of(call.v, call.strides.v, at, h);
    const source gates = rows_of(call.log_gate, call.strides.log_gate, at, h);
    copy_tile(smem.y, ACROSS, CHUNK, at.tokens, min((int)SLICE, values), y.at, y.ld);
    copy_commit();
    unit_factors(a, x.at, x.ld, at.tokens, smem.factors);
    const int s = (int)threadIdx.x / (D / 2), c = (int)threadIdx.x % (D / 2) * 2, first = s * SUB;
    const bool has_task = s < SUBS;
    float z[SUB][2];
    if (has_task) {
        uint32_t xs[SUB], gs[SUB];
        load_pairs(gs, gates, first, at.tokens, c, dim);
        load_pairs(xs, x, first, at.tokens, c, dim);
        float sum[2] = {0.0f, 0.0f};
#pragma unroll
        for (int i = 0; i < SUB; i++) {
            const int t = BACK ? i : SUB - 1 - i;
            float g[2], value[2];
            gate_pair(gs[t], g), unpack(xs[t], value[0], value[1]);
#pragma unroll
            for (int e = 0; e < 2; e++) {
                if (BACK) sum[e] += g[e];
                z[t][e] = value[e] * exp_fast(sum[e]);
                if (!BACK) sum[e] += g[e];
            }
        }
        smem.totals[s * D + c] = sum[0], smem.totals[s * D + c + 1] = sum[1];
    }
    __syncthreads();
    if (has_task) {
        float sum[2] = {0.0f, 0.0f}, all[2] = {0.0f, 0.0f};
        for (int m = 0; m < SUBS; m++)
            for (int e = 0; e < 2; e++) {
                const float total = smem.totals[m * D + c + e];
                all[e] += total;
                if (BACK ? m < s : m > s) sum[e] += total;
            }
        const float scale = BACK ? call.scale : 1.0f, factor[2] = {scale * exp_fast(sum[0]), scale * exp_fast(sum[1])};
#pragma unroll
        for (int t = 0; t < SUB; t++) {
            const float unit = smem.factors[first + t];
            *(uint32_t *)(smem.x + (first + t) * STRIDE + c) =
                pack_bf16(unit * factor[0] * z[t][0], unit * factor[1] * z[t][1]);
        }
        if (!BACK && s == 0) {
            float *to = decays_at(a, tile, h) + c;
            to[0] = exp_fast(all[0]), to[1] = exp_fast(all[1]);
        }
    }
    float *out = BACK ? query_matrix_at(a.parts, a, tile, head) : matrix_at(a.parts, a, tile, h);
    for (int slice = 0; slice < values; slice += SLICE) {
        if (slice) {
            __syncthreads();
            copy_tile(smem.y, ACROSS, CHUNK, at.tokens, min((int)SLICE, values - slice), y.at + slice, y.ld);
            copy_commit();
        }
        copy_wait<0>();
        __syncthreads();
        warp_parts(tile_pad(min((int)SLICE, values - slice)), D, [&](int row, int column) {
            float d[4][4];
            clear(d);
            accumulate(d, row, column, 0, CHUNK, transposed(smem.y, ACROSS), plain(smem.x, STRIDE));
            each_pair(d, row, column, [&](int i, int j, float p, float q) {
                if (slice + i < values) *(float2 *)(out + (size_t)(slice + i) * D + j) = make_float2(p, q);
            });
        });
    }
}

/* S before each chunk, or (BACK) its gradient after each. A thread has two channels of a row of the matrix. */
template <bool BACK> __global__ void __launch_bounds__(TILE_THREADS) gla_fast_scan_kernel(bo_gpu_memory a)
{
    enum { AHEAD = 16 };
    const bo_gpu_attention &call = a.call;
    const int sequence = (int)blockIdx.x, head = (int)blockIdx.y, half = a.padded / 2;
    const int heads = BACK ? call.heads : call.key_heads, h = head / (heads / call.key_heads);
    const int index = (int)(blockIdx.z * TILE_THREADS + threadIdx.x), v = index / half, c = index % half * 2;
    if (v >= call.value_dim) return;
    const int tokens = rows_before(call.keys, sequence + 1) - rows_before(call.keys, sequence);
    const int chunks = (int)ceil_div((size_t)tokens, CHUNK), start = first_tile(call.keys, CHUNK, sequence);
    float *state = call.states ? state_memory(call, sequence, h) + v : nullptr, sum[2] = {0.0f, 0.0f};
    for (int e = 0; e < 2; e++)
        if (!BACK && state && c + e < call.dim) sum[e] = state[(size_t)(c + e) * (size_t)call.value_dim];
    const size_t by = (size_t)heads * (size_t)(call.value_dim * a.padded),
                 decay_by = (size_t)(call.key_heads * a.padded);
    const int first = BACK ? start + chunks - 1 : start;
    const ptrdiff_t step = BACK ? -(ptrdiff_t)by : (ptrdiff_t)by,
                    decay_step = BACK ? -(ptrdiff_t)decay_by : (ptrdiff_t)decay_by;
    const size_t place = ((size_t)first * (size_t)heads + (size_t)head) * (size_t)(call.value_dim * a.padded) +
                         (size_t)(v * a.padded + c);
    const float *part = a.parts + place, *decay = decays_at(a, first, h) + c;
    bf16 *to = (bf16 *)(BACK ? a.gradients : a.memories) + place;
    for (int i = 0; i < chunks; i += AHEAD) {
        float2 parts[AHEAD], decays[AHEAD];
#pragma unroll
        for (int n = 0; n < AHEAD; n++)
            if (i + n < chunks) {
                parts[n] = *(const float2 *)(part + n * step);
                decays[n] = *(const float2 *)(decay + n * decay_step);
            }
#pragma unroll
        for (int n = 0; n < AHEAD; n++)
            if (i + n < chunks) {
                *(uint32_t *)(to + n * step) = pack_bf16(sum[0], sum[1]);
                sum[0] = fmaf(decays[n].x, sum[0], parts[n].x), sum[1] = fmaf(decays[n].y, sum[1], parts[n].y);
            }
        part += AHEAD * step, decay += AHEAD * decay_step, to += AHEAD * step;
    }
    for (int e = 0; e < 2; e++)
        if (!BACK && state && c + e < call.dim) state[(size_t)(c + e) * (size_t)call.value_dim] = sum[e];
}

/* ---- scores ------------------------------------------------------------------------------------------------------ */

/* Decays between sub-blocks n > m: none if they are neighbors. */
template <int D> struct between {
    const float *table; /* of sub-block 1, of 2, of both: 3 x D */
    __device__ const float *at(int n, int m) const
    {
        return n - m == 3 ? table + 2 * D : table + (m == 0 ? 0 : D);
    }
};

/* The tiles of a chunk, as above. */
template <int D> struct factor_smem {
    enum { STRIDE = D + 8, PARTS = D / 64 };
    bf16 *q, *k, *j;        /* Q, K, J: CHUNK x D */
    bf16 *q_low, *j_low;    /* what Q and J lose by rounding; in the place of arrays that are filled after the scores */
    bf16 *scores;           /* CHUNK x CHUNK; complete for keys of sub-blocks up to the query's */
    float *totals;          /* exp(T): SUBS x D; then the product of all: D */
    float *logs;            /* T: SUBS x D */
    float *table;           /* of `between` */
    float *unit_q, *unit_k; /* CHUNK */
    int *rows;              /* rows of a sub-block that are not exact: SUBS x PARTS */
    __host__ __device__ explicit factor_smem(smem_carver *carver)
    {
        q = carver->tile<bf16>(CHUNK, D);
        k = carver->tile<bf16>(CHUNK, D);
        scores = carver->tile<bf16>(CHUNK, CHUNK);
        j = carver->tile<bf16>(CHUNK, D);
        totals = carver->array<float>((SUBS + 1) * D);
        logs = carver->array<float>(SUBS * D);
        table = carver->array<float>(3 * D);
        unit_q = carver->array<float>(CHUNK);
        unit_k = carver->array<float>(CHUNK);
        rows = carver->array<int>(SUBS * PARTS);
    }
    __device__ between<D> decays() const
    {
        return {table};
    }
};

/* Fills the tiles of queries and keys; starts and ends with a barrier. */
template <int D>
__device__ inline void load_factors(const bo_gpu_memory &a, const chunk &at, const source &q, const source &k,
                                    const source &gates, const factor_smem<D> &smem)
{
    enum { STRIDE = factor_smem<D>::STRIDE, PARTS = factor_smem<D>::PARTS, TASKS = D / 2 * SUBS };
    if (a.unit) {
        unit_factors(a, q.at, q.ld, at.tokens, smem.unit_q);
        unit_factors(a, k.at, k.ld, at.tokens, smem.unit_k);
        __syncthreads();
    }
    for (int task = (int)threadIdx.x; task < 2 * TASKS; task += TILE_THREADS) {
        const bool query = task >= TASKS;
        const int s = task % TASKS / (D / 2), c = task % (D / 2) * 2, first = s * SUB;
        uint32_t xs[SUB], gs[SUB];
        load_pairs(gs, gates, first, at.tokens, c, a.call.dim);
        load_pairs(xs, query ? q : k, first, at.tokens, c, a.call.dim);
        float sum[2] = {0.0f, 0.0f}, g[2], x[2];
        bf16 *to = (query ? smem.q : smem.j) + first * STRIDE + c,
             *low = (query ? smem.q_low : smem.j_low) + first * STRIDE + c;
        int within = 0;
#pragma unroll
        for (int t = 0; t < SUB; t++) {
            gate_pair(gs[t], g), unpack(xs[t], x[0], x[1]);
            sum[0] += g[0], sum[1] += g[1];
            float unit = query ? a.call.scale : 1.0f;
            if (a.unit) unit *= (query ? smem.unit_q : smem.unit_k)[first + t];
            const float sign = query ? 1.0f : -1.0f;
            float high[2];
            x[0] = unit * x[0] * exp_fast(sign * sum[0]), x[1] = unit * x[1] * exp_fast(sign * sum[1]);
            const uint32_t bits = pack_bf16(x[0], x[1]);
            unpack(bits, high[0], high[1]);
            *(uint32_t *)(to + t * STRIDE) = bits;
            *(uint32_t *)(low + t * STRIDE) = pack_bf16(x[0] - high[0], x[1] - high[1]);
            if (!query && !__any_sync(0xFFFFFFFFu, fminf(sum[0], sum[1]) < -LIMIT)) within = t + 1;
        }
        if (query) continue;
        if (lane_id() == 0) smem.rows[s * PARTS + c / 64] = within;
        smem.logs[s * D + c] = sum[0], smem.logs[s * D + c + 1] = sum[1];
        smem.totals[s * D + c] = exp_fast(sum[0]), smem.totals[s * D + c + 1] = exp_fast(sum[1]);
        sum[0] = sum[1] = 0.0f;
#pragma unroll
        for (int t = SUB - 1; t >= 0; t--) {
            gate_pair(gs[t], g), unpack(xs[t], x[0], x[1]);
            const float unit = a.unit ? smem.unit_k[first + t] : 1.0f;
            *(uint32_t *)(smem.k + (first + t) * STRIDE + c) =
                pack_bf16(unit * x[0] * exp_fast(sum[0]), unit * x[1] * exp_fast(sum[1]));
            sum[0] += g[0], sum[1] += g[1];
        }
    }
    __syncthreads();
    for (int c = (int)threadIdx.x; c < D; c += TILE_THREADS) {
        const float *t = smem.logs + c;
        smem.table[c] = exp_fast(t[D]), smem.table[D + c] = exp_fast(t[2 * D]);
        smem.table[2 * D + c] = exp_fast(t[D] + t[2 * D]);
        smem.totals[SUBS * D + c] = exp_fast(t[0] + t[D] + t[2 * D] + t[3 * D]);
    }
    __syncthreads();
}

/* Row `row` of Q as A, times a factor per channel (NULL: 1). */
template <int D>
__device__ inline void scaled_rows(uint32_t (&f)[D / 16][4], const bf16 *x, int row, const float *factor)
{
#pragma unroll
    for (int s = 0; s < D / 16; s++) {
        load_left(f[s], plain(x, D + 8), row, 16 * s);
        if (!factor) continue;
#pragma unroll
        for (int e = 0; e < 4; e++) {
            const float2 by = *(const float2 *)(factor + 16 * s + e / 2 * 8 + lane_column());
            float low, high;
            unpack(f[s][e], low, high);
            f[s][e] = pack_bf16(low * by.x, high * by.y);
        }
    }
}

/* The exact scores of the rows of a sub-block from `row` on, by one warp: gates are multiplied one by one. */
template <int D>
__device__ inline void exact_scores(const bo_gpu_memory &a, const source &q, const source &k, const source &gates,
                                    const factor_smem<D> &smem, int first, int row, int tokens)
{
    for (int i = first + row; i < first + SUB; i++) {
        float query[D / WARP];
#pragma unroll
        for (int m = 0; m < D / WARP; m++) {
            const int c = m * WARP + lane_id();
            const float unit = a.unit ? smem.unit_q[i] : 1.0f;
            query[m] = c < a.call.dim && i < tokens ? a.call.scale * unit * to_float(q.at[(size_t)i * q.ld + (size_t)c])
                                                    : 0.0f;
        }
        for (int j = first + SUB - 1; j >= first; j--) {
            float sum = 0.0f;
            if (j <= i && i < tokens)
#pragma unroll
                for (int m = 0; m < D / WARP; m++) {
                    const int c = m * WARP + lane_id();
                    if (c >= a.call.dim) continue;
                    const float unit = a.unit ? smem.unit_k[j] : 1.0f;
                    sum = fmaf(query[m], unit * to_float(k.at[(size_t)j * k.ld + (size_t)c]), sum);
                    query[m] *= expf(clamp_gate(to_float(gates.at[(size_t)j * gates.ld + (size_t)c])));
                }
            sum = warp_sum(sum);
            if (lane_id() == 0) smem.scores[i * SQUARE + j] = from_float<bf16>(sum);
        }
    }
}

/* The scores of the chunk: a warp has queries of one sub-block and keys of every second one. Complete after the next
 * barrier. */
template <int D>
__device__ inline void find_scores(const bo_gpu_memory &a, const chunk &at, const source &q, const source &k,
                                   const source &gates, const factor_smem<D> &smem)
{
    enum { STRIDE = factor_smem<D>::STRIDE, PARTS = factor_smem<D>::PARTS };
    const int n = warp_id() % SUBS, first = n * SUB;
    int within = SUB;
    for (int p = 0; p < PARTS; p++) within = min(within, smem.rows[n * PARTS + p]);
    for (int m = warp_id() / SUBS; m <= n; m += 2) {
        uint32_t f[D / 16][4];
        float d[2][4];
        clear(d);
        scaled_rows<D>(f, smem.q, first, n - m >= 2 ? smem.decays().at(n, m) : nullptr);
        accumulate(d, f, 16 * m, transposed(m == n ? smem.j : smem.k, STRIDE));
        if (m == n) {
            accumulate(d, f, first, transposed(smem.j_low, STRIDE));
            accumulate(d, first, first, 0, D, plain(smem.q_low, STRIDE), transposed(smem.j, STRIDE));
            each(d, first, first, [&](int i, int j, float &x) {
                if (j > i || i - first >= within) x = 0.0f;
            });
        }
        to_tile(d, first, 16 * m, smem.scores, SQUARE);
        if (m != n || within == SUB) continue;
        __syncwarp();
        exact_scores(a, q, k, gates, smem, first, within, at.tokens);
    }
}

/* ---- outputs ----------------------------------------------------------------------------------------------------- */

template <int D> struct output_smem : factor_smem<D> {
    bf16 *s, *v; /* SLICE x D, CHUNK x SLICE */
    __host__ __device__ explicit output_smem(smem_carver *carver) : factor_smem<D>(carver)
    {
        s = carver->tile<bf16>(SLICE, D);
        v = carver->tile<bf16>(CHUNK, D > SLICE ? D : SLICE);
        this->q_low = s, this->j_low = v;
    }
};

/* Prefetches `rows` rows of 128 bytes or less. */
__device__ inline void prefetch_rows(const bf16 *x, size_t ld, int rows)
{
    if ((int)threadIdx.x < rows) prefetch(x + threadIdx.x * ld);
}

template <int D>
__global__ void __launch_bounds__(TILE_THREADS, D == 64 ? 3 : 2) gla_fast_outputs_kernel(bo_gpu_memory a)
{
    BO_SHARED(shared);
    enum { STRIDE = D + 8 };
    const bo_gpu_attention &call = a.call;
    const int tile = (int)blockIdx.x, head = (int)blockIdx.y, h = head / (call.heads / call.key_heads);
    const int values = call.value_dim;
    const chunk at = chunk_of(call.keys, CHUNK, tile);
    if (at.tokens == 0) return;
    smem_carver carver = {shared, 0};
    const output_smem<D> smem(&carver);
    const source q = rows_of(call.q, call.strides.q, at, head), k = rows_of(call.k, call.strides.k, at, h),
                 v = rows_of(call.v, call.strides.v, at, h),
                 gates = rows_of(call.log_gate, call.strides.log_gate, at, h);
    const bf16 *memory = matrix_at((const bf16 *)a.memories, a, tile, h);
    bf16 *out = numbers_at((bf16 *)call.out, call.strides.out, at.sequence, at.row, head);
    const auto start = [&](int slice) {
        const int columns = min((int)SLICE, values - slice);
        copy_tile(smem.s, STRIDE, tile_pad(columns), columns, D, memory + (size_t)slice * D, D);
        copy_tile(smem.v, ACROSS, CHUNK, at.tokens, columns, v.at + slice, v.ld);
        copy_commit();
    };
    prefetch_rows(v.at, v.ld, at.tokens);
    prefetch_rows(memory, 64, min((int)SLICE, values) * D / 64);
    load_factors(a, at, q, k, gates, smem);
    find_scores(a, at, q, k, gates, smem);
    const int n = warp_id() % SUBS, column = warp_id() / SUBS * 32, first = n * SUB;
    uint32_t f[D / 16][4];
    float *before = smem.logs; /* exp of the sum of T before the sub-block, from the first one on */
    __syncthreads();
    start(0);
    for (int c = (int)threadIdx.x; c < D; c += TILE_THREADS) {
        float sum = 0.0f;
        for (int m = 0; m < SUBS; m++) {
            const float total = smem.logs[m * D + c];
            before[m * D + c] = exp_fast(sum);
            sum += total;
        }
    }
    __syncthreads();
    scaled_rows<D>(f, smem.q, first, n ? before + n * D : nullptr);
    for (int slice = 0; slice < values; slice += SLICE) {
        if (slice) {
            __syncthreads();
            start(slice);
        }
        copy_wait<0>();
        __syncthreads();
        const int columns = min((int)SLICE, values - slice);
        if (column >= tile_pad(columns)) continue;
        float d[4][4];
        clear(d);
        if (column + 16 >= tile_pad(columns)) { /* the tiles of values have 16 more columns */
            float narrow[2][4];
            clear(narrow);
            accumulate(narrow, f, column, transposed(smem.s, STRIDE));
            accumulate(narrow, first, column, 0, first + SUB, plain(smem.scores, SQUARE), plain(smem.v, ACROSS));
            for (int t = 0; t < 2; t++)
                for (int e = 0; e < 4; e++) d[t][e] = narrow[t][e];
        } else {
            accumulate(d, f, column, transposed(smem.s, STRIDE));
            accumulate(d, first, column, 0, first + SUB, plain(smem.scores, SQUARE), plain(smem.v, ACROSS));
        }
        each_pair(d, first, column, [&](int i, int j, float x, float y) {
            if (i < at.tokens && j < columns)
                store_pair(out + (size_t)i * call.strides.out.row + (size_t)(slice + j), columns - j, x, y);
        });
    }
}

/* ---- gradients --------------------------------------------------------------------------------------------------- */

template <int D> struct gradient_smem : factor_smem<D> {
    enum { WIDE = D + 4 };
    bf16 *dscores;    /* dA of keys in earlier sub-blocks than the query: CHUNK x CHUNK */
    float *within;    /* dA within sub-blocks: SUBS x SUB x SUB */
    float *after;     /* exp of the sum of T after each sub-block: SUBS x D */
    float *key_flow;  /* from the keys of each sub-block to the end of the chunk: SUBS x D */
    float *past_flow; /* from before sub-block m to the queries of a later one: 6 x D, see pair_of */
    float *through;   /* Σ_v S G: TILE_THREADS / D partial sums x D */
    float *dq, *dk;   /* CHUNK x D */
    bf16 *s, *g;      /* S before the chunk and its gradient after it: SLICE x D; in the place of dq */
    bf16 *v, *dout;   /* CHUNK x SLICE; in the place of dk */
    __host__ __device__ explicit gradient_smem(smem_carver *carver) : factor_smem<D>(carver)
    {
        dscores = carver->tile<bf16>(CHUNK, D > CHUNK ? D : CHUNK);
        this->q_low = dscores, this->j_low = carver->tile<bf16>(CHUNK, D);
        within = carver->array<float>(SUBS * SUB * SUB);
        after = carver->array<float>(SUBS * D);
        key_flow = carver->array<float>(SUBS * D);
        past_flow = carver->array<float>(6 * D);
        through = carver->array<float>(TILE_THREADS);
        s = carver->tile<bf16>(SLICE, D);
        g = carver->tile<bf16>(SLICE, D);
        dq = (float *)s;
        const size_t second = carver->bytes;
        v = carver->tile<bf16>(CHUNK, SLICE);
        dout = carver->tile<bf16>(CHUNK, SLICE);
        dk = (float *)v;
        const size_t floats = CHUNK * WIDE * sizeof(float);
        if (carver->bytes < second + floats) carver->bytes = second + floats;
        static_assert(2 * SLICE * (D + 8) * sizeof(bf16) >= CHUNK * WIDE * sizeof(float), "dq");
    }
};

/* The index of sub-blocks n > m among pairs. */
__device__ inline int pair_of(int n, int m)
{
    return n * (n - 1) / 2 + m;
}

/* Multiplies each column of fragments by a factor. */
template <int TILES> __device__ inline void scale_columns(float (&d)[TILES][4], const float *factor)
{
#pragma unroll
    for (int t = 0; t < TILES; t++) {
        const float2 by = *(const float2 *)(factor + 8 * t + lane_column());
        d[t][0] *= by.x, d[t][1] *= by.y, d[t][2] *= by.x, d[t][3] *= by.y;
    }
}

/* to_c = factor_c Σ_i x_ic d_ic for the 16 rows of x from `row` on; factor NULL: 1. */
template <int D>
__device__ inline void flow_of(const float (&d)[D / 8][4], const bf16 *x, int row, const float *factor, float *to)
{
#pragma unroll
    for (int t = 0; t < D / 8; t++) {
        const bf16 *at = x + (row + lane_row()) * (D + 8) + 8 * t + lane_column();
        float low[2], high[2];
        unpack(*(const uint32_t *)at, low[0], low[1]);
        unpack(*(const uint32_t *)(at + 8 * (D + 8)), high[0], high[1]);
#pragma unroll
        for (int e = 0; e < 2; e++) {
            float sum = low[e] * d[t][e] + high[e] * d[t][e + 2];
            for (int step = 4; step < WARP; step *= 2) sum += __shfl_xor_sync(0xFFFFFFFFu, sum, step);
            const int c = 8 * t + lane_column() + e;
            if (lane_row() == 0) to[c] = factor ? factor[c] * sum : sum;
        }
    }
}

template <int TILES> __device__ inline void to_floats(const float (&d)[TILES][4], int row, float *to, int stride)
{
    each_pair(d, row, 0, [&](int i, int j, float x, float y) { *(float2 *)(to + i * stride + j) = make_float2(x, y); });
}

/* The task of a thread of the last part: one channel of a sub-block. */
template <int D> struct channel_task {
    const bo_gpu_memory &a;
    const gradient_smem<D> &smem;
    chunk at;
    int h, head, s, c;
};

template <int D> __device__ inline void finish_channel(const channel_task<D> &task)
{
    enum { WIDE = gradient_smem<D>::WIDE };
    const bo_gpu_attention &call = task.a.call;
    const gradient_smem<D> &smem = task.smem;
    const int c = task.c, s = task.s, first = s * SUB, n = task.at.tokens - first;
    const source q = rows_of(call.q, call.strides.q, task.at, task.head),
                 k = rows_of(call.k, call.strides.k, task.at, task.h),
                 gates = rows_of(call.log_gate, call.strides.log_gate, task.at, task.h);
    float keys[SUB], g[SUB], dk[SUB], dlog[SUB];
    float *const dq_at = smem.dq + first * WIDE + c, *const dk_at = smem.dk + first * WIDE + c;
#pragma unroll
    for (int t = 0; t < SUB; t++) {
        const bool present = t < n;
        const float unit = task.a.unit ? smem.unit_k[first + t] : 1.0f;
        keys[t] = present ? unit * to_float(k.at[(size_t)(first + t) * k.ld + (size_t)c]) : 0.0f;
        g[t] = present && gates.at ? clamp_gate(to_float(gates.at[(size_t)(first + t) * gates.ld + (size_t)c])) : 0.0f;
    }
    float queries[SUB];
#pragma unroll
    for (int t = 0; t < SUB; t++) {
        const float unit = task.a.unit ? smem.unit_q[first + t] : 1.0f;
        queries[t] = t < n ? call.scale * unit * to_float(q.at[(size_t)(first + t) * q.ld + (size_t)c]) : 0.0f;
    }
    float flow = 0.0f, sum = 0.0f;
    for (int p = 0; p < TILE_THREADS / D; p++) flow += smem.through[p * D + c];
    flow *= smem.totals[SUBS * D + c];
    for (int m = 0; m < s; m++) flow += smem.key_flow[m * D + c];
    for (int m = s + 1; m < SUBS; m++) flow += smem.past_flow[pair_of(m, s) * D + c];
#pragma unroll
    for (int t = SUB - 1; t >= 0; t--) {
        dk[t] = dk_at[t * WIDE] * exp_fast(sum);
        sum += g[t];
    }
    sum = 0.0f;
#pragma unroll
    for (int t = 0; t < SUB; t++) {
        dlog[t] = flow;
        flow = fmaf(keys[t], dk[t], flow);
        sum += g[t];
        dq_at[t * WIDE] *= exp_fast(sum);
        g[t] = exp_fast(g[t]);
    }
    float later = 0.0f;
#pragma unroll
    for (int i = SUB - 1; i >= 0; i--) {
        float dq = dq_at[i * WIDE], product = 1.0f, terms[SUB], w[SUB];
        const float query = queries[i];
        later = fmaf(query, dq, later);
        dlog[i] += later;
#pragma unroll
        for (int j = 0; j <= i; j += 4) {
            const float4 four = *(const float4 *)(smem.within + (first + i) * SUB + j);
            w[j] = four.x, w[j + 1] = four.y, w[j + 2] = four.z, w[j + 3] = four.w;
        }
#pragma unroll
        for (int j = i; j >= 0; j--) {
            const float x = w[j] * product;
            dq = fmaf(x, keys[j], dq);
            const float y = x * query;
            dk[j] += y;
            terms[j] = y * keys[j];
            product *= g[j];
        }
        float along = 0.0f;
#pragma unroll
        for (int t = 1; t <= i; t++) dlog[t] += along += terms[t - 1];
        dq_at[i * WIDE] = dq;
    }
    const chunk &at = task.at;
    const target dlogs = target_of(task.a, call.dlog_gate, call.strides.dlog_gate, task.a.dlog_parts, at, task.h,
                                   task.head, call.dim),
                 dks = target_of(task.a, call.dk, call.strides.dk, task.a.dk_parts, at, task.h, task.head, call.dim);
    bf16 *dqs =
        task.a.unit ? nullptr : numbers_if_any((bf16 *)call.dq, call.strides.dq, at.sequence, at.row, task.head);
#pragma unroll
    for (int t = 0; t < SUB; t++) {
        dk_at[t * WIDE] = dk[t];
        if (t >= n) continue;
        const size_t row = (size_t)(first + t);
        if (dlogs) dlogs.store(row, c, dlog[t]);
        if (dqs) dqs[row * call.strides.dq.row + (size_t)c] = from_float<bf16>(call.scale * dq_at[t * WIDE]);
        if (dks && !task.a.unit) dks.store(row, c, dk[t]);
    }
}

/* The products with values of a warp of queries: dA of its rows, and do S. */
template <int D>
__device__ inline void query_products(const gradient_smem<D> &smem, int n, int columns, float (&dA)[2 * SUBS][4],
                                      float (&d)[D / 8][4])
{
    const int first = n * SUB;
    accumulate(d, first, 0, 0, columns, plain(smem.dout, ACROSS), plain(smem.s, D + 8));
    for (int l = 0; l < columns; l += 16) {
        uint32_t fa[4], fb[4];
        load_left(fa, plain(smem.dout, ACROSS), first, l);
#pragma unroll
        for (int m = 0; m < SUBS; m++) {
            if (m > n) break;
            load_right(fb, transposed(smem.v, ACROSS), l, 16 * m);
            mma(dA[2 * m], fa, {fb[0], fb[1]});
            mma(dA[2 * m + 1], fa, {fb[2], fb[3]});
        }
    }
}

template <int D>
__global__ void __launch_bounds__(TILE_THREADS, D == 64 ? 2 : 1) gla_fast_gradients_kernel(bo_gpu_memory a)
{
    BO_SHARED(shared);
    enum { STRIDE = D + 8, TILES = D / 8 };
    const bo_gpu_attention &call = a.call;
    const int tile = (int)blockIdx.x, head = (int)blockIdx.y, h = head / (call.heads / call.key_heads);
    const int values = call.value_dim;
    const chunk at = chunk_of(call.keys, CHUNK, tile);
    if (at.tokens == 0) return;
    smem_carver carver = {shared, 0};
    const gradient_smem<D> smem(&carver);
    const source q = rows_of(call.q, call.strides.q, at, head), k = rows_of(call.k, call.strides.k, at, h),
                 v = rows_of(call.v, call.strides.v, at, h), dout = rows_of(call.dout, call.strides.dout, at, head),
                 gates = rows_of(call.log_gate, call.strides.log_gate, at, h);
    const target dv = target_of(a, call.dv, call.strides.dv, a.dv_parts, at, h, head, values);
    const bf16 *memory = matrix_at((const bf16 *)a.memories, a, tile, h),
               *gradient = query_matrix_at((const bf16 *)a.gradients, a, tile, head);
    const auto start = [&](int slice) {
        const int columns = min((int)SLICE, values - slice);
        copy_tile(smem.s, STRIDE, tile_pad(columns), columns, D, memory + (size_t)slice * D, D);
        copy_tile(smem.g, STRIDE, tile_pad(columns), columns, D, gradient + (size_t)slice * D, D);
        copy_tile(smem.v, ACROSS, CHUNK, at.tokens, columns, v.at + slice, v.ld);
        copy_tile(smem.dout, ACROSS, CHUNK, at.tokens, columns, dout.at + slice, dout.ld);
        copy_commit();
    };
    start(0);
    load_factors(a, at, q, k, gates, smem);
    find_scores(a, at, q, k, gates, smem);
    for (int c = (int)threadIdx.x; c < D; c += TILE_THREADS) {
        float sum = 0.0f;
        for (int m = SUBS - 1; m >= 0; m--) smem.after[m * D + c] = exp_fast(sum), sum += smem.logs[m * D + c];
    }
    const bool of_queries = warp_id() < SUBS;
    const int n = warp_id() % SUBS, first = n * SUB;
    float d[TILES][4], other[2 * SUBS][4], through = 0.0f; /* other: dA of queries, or dv of keys */
    clear(d), clear(other);
    for (int slice = 0; slice < values; slice += SLICE) {
        if (slice) {
            __syncthreads();
            start(slice);
        }
        copy_wait<0>();
        __syncthreads();
        const int columns = min((int)SLICE, values - slice), padded = tile_pad(columns);
        for (int i = (int)threadIdx.x / D, c = (int)threadIdx.x % D; i < padded; i += TILE_THREADS / D)
            through = fmaf(to_float(smem.s[i * STRIDE + c]), to_float(smem.g[i * STRIDE + c]), through);
        if (of_queries) {
            query_products<D>(smem, n, padded, other, d);
            continue;
        }
        accumulate(d, first, 0, 0, padded, plain(smem.v, ACROSS), plain(smem.g, STRIDE));
        uint32_t f[D / 16][4];
        scaled_rows<D>(f, smem.k, first, n < SUBS - 1 ? smem.after + n * D : nullptr);
        clear(other);
        accumulate(other, f, 0, transposed(smem.g, STRIDE));
        accumulate(other, first, 0, first, CHUNK - first, transposed(smem.scores, SQUARE), plain(smem.dout, ACROSS));
        if (!dv) continue;
        each_pair(other, first, 0, [&](int i, int j, float x, float y) {
            if (i < at.tokens && j < columns) dv.store_two((size_t)i, slice + j, columns - j, x, y);
        });
    }
    smem.through[threadIdx.x] = through;
    if (of_queries)
#pragma unroll
        for (int m = 0; m < SUBS; m++) {
            float part[2][4];
            for (int t = 0; t < 2; t++)
                for (int e = 0; e < 4; e++) part[t][e] = other[2 * m + t][e];
            if (m < n) to_tile(part, first, 16 * m, smem.dscores, SQUARE);
            if (m == n) each(part, first, 0, [&](int i, int j, float &x) { smem.within[i * SUB + j] = x; });
        }
    __syncthreads();
    if (of_queries) {
        for (int m = 0; m < n; m++) {
            scale_columns(d, smem.totals + m * D);
            flow_of<D>(d, smem.q, first, n - m >= 2 ? smem.decays().at(n, m) : nullptr,
                       smem.past_flow + pair_of(n, m) * D);
            accumulate(d, first, 0, 16 * m, 16, plain(smem.dscores, SQUARE), plain(smem.k, STRIDE));
        }
        to_floats(d, first, smem.dq, gradient_smem<D>::WIDE);
    } else {
        flow_of<D>(d, smem.k, first, smem.after + n * D, smem.key_flow + n * D);
        for (int m = SUBS - 1; m > n; m--) {
            scale_columns(d, smem.totals + m * D);
            accumulate(d, first, 0, 16 * m, 16, transposed(smem.dscores, SQUARE), plain(smem.q, STRIDE));
        }
        to_floats(d, first, smem.dk, gradient_smem<D>::WIDE);
    }
    __syncthreads();
    for (int task = (int)threadIdx.x; task < SUBS * D; task += TILE_THREADS)
        if (task % D < call.dim) finish_channel<D>({a, smem, at, h, head, task / D, task % D});
    if (!a.unit) return;
    __syncthreads();
    if (call.dq)
        unit_store(smem.dq, gradient_smem<D>::WIDE, at.tokens, call.dim, true, call.scale, q.at, q.ld,
                   numbers_at((bf16 *)call.dq, call.strides.dq, at.sequence, at.row, head), call.strides.dq.row);
    if (call.dk)
        store_rows(smem.dk, gradient_smem<D>::WIDE, at.tokens, call.dim, true, 1.0f, k.at, k.ld,
                   target_of(a, call.dk, call.strides.dk, a.dk_parts, at, h, head, call.dim));
}

/* ---- launches ---------------------------------------------------------------------------------------------------- */

template <int D, bool BACK> static bo_gpu_error sums(bo_gpu *cuda, const bo_gpu_memory *a)
{
    const bo_gpu_attention &call = a->call;
    smem_carver carver = {};
    (void)local_smem<D>(&carver);
    const unsigned heads = (unsigned)(BACK ? call.heads : call.key_heads);
    const bo_gpu_error error = launch(cuda, dim3(tiles_of(call.keys, CHUNK), heads), dim3(TILE_THREADS), carver.bytes,
                                      gla_fast_local_kernel<D, BACK>, *a);
    if (error) return error;
    const dim3 grid((unsigned)call.keys.sequences, heads,
                    (unsigned)ceil_div((size_t)(call.value_dim * D / 2), TILE_THREADS));
    return launch(cuda, grid, dim3(TILE_THREADS), 0, gla_fast_scan_kernel<BACK>, *a);
}

template <int D> static bo_gpu_error outputs(bo_gpu *cuda, const bo_gpu_memory *a)
{
    smem_carver carver = {};
    (void)output_smem<D>(&carver);
    return launch(cuda, dim3(tiles_of(a->call.keys, CHUNK), (unsigned)a->call.heads), dim3(TILE_THREADS), carver.bytes,
                  gla_fast_outputs_kernel<D>, *a);
}

template <int D> static bo_gpu_error gradients(bo_gpu *cuda, const bo_gpu_memory *a)
{
    smem_carver carver = {};
    (void)gradient_smem<D>(&carver);
    bo_gpu_error error = sums<D, true>(cuda, a);
    if (!error)
        error = launch(cuda, dim3(tiles_of(a->call.keys, CHUNK), (unsigned)a->call.heads), dim3(TILE_THREADS),
                       carver.bytes, gla_fast_gradients_kernel<D>, *a);
    return error ? error : add_query_heads(cuda, a);
}

} // namespace gla_fast

bo_gpu_error gla_fast_memories(bo_gpu *cuda, const bo_gpu_memory *a)
{
    return a->padded == 64 ? gla_fast::sums<64, false>(cuda, a) : gla_fast::sums<128, false>(cuda, a);
}

bo_gpu_error gla_fast_outputs(bo_gpu *cuda, const bo_gpu_memory *a)
{
    return a->padded == 64 ? gla_fast::outputs<64>(cuda, a) : gla_fast::outputs<128>(cuda, a);
}

bo_gpu_error gla_fast_gradients(bo_gpu *cuda, const bo_gpu_memory *a)
{
    return a->padded == 64 ? gla_fast::gradients<64>(cuda, a) : gla_fast::gradients<128>(cuda, a);
}

} // namespace bo
