/* Gated linear attention (arXiv 2312.06635): src/attention/gla.h has the formulas. S is computed before each chunk of
 * CHUNK tokens; within a chunk, blocks of BLOCK tokens run in parallel. Keys before a block are multiplied by the gates
 * up to its start, and queries by the gates after its start; within a block, gates are multiplied one by one. So every
 * factor is in [0, 1] and there is no division: all gate values are allowed. Gradients of gates are sums of terms that
 * contain the gate, as in src/attention/gla_backward.c.
 *
 * For n tokens and key heads of dim = value_dim = d, elements of t bytes: forward reads q, k, v, log_gate up to CHUNK /
 * BLOCK / 2 times (from the cache except the first) and writes out: 5 n d t bytes; S of a chunk is written twice and
 * read 5 times: 28 d² / CHUNK bytes per token. Multiply-adds per token: 2 d² + CHUNK d. Backward: about 9 n d t + 84 n
 * d² / CHUNK bytes, and 6 d² + 3 CHUNK d. */
#include "launches.cuh"
#include "memory_fast.cuh"

namespace bo {
namespace gla {

enum { CHUNK = 64, BLOCK = 16, BLOCKS = CHUNK / BLOCK };

/* Columns of values per thread block: fewer for larger key dimensions. */
__host__ __device__ inline int slice_of(int dim)
{
    return dim <= 64 ? 64 : dim <= 128 ? 32 : 16;
}

/* ---- rows and gates ---------------------------------------------------------------------------------------------- */

/* Addresses of a key head from token `row` on, and the strides between tokens. */
template <typename T> struct key_rows {
    const T *k, *v, *gate;
    size_t ldk, ldv, ldg;
};

template <typename T>
__device__ inline key_rows<T> keys_from(const bo_gpu_attention &call, int sequence, size_t row, int h)
{
    const bo_gpu_attention_strides &by = call.strides;
    return {numbers_at((const T *)call.k, by.k, sequence, row, h),
            numbers_at((const T *)call.v, by.v, sequence, row, h),
            numbers_if_any((const T *)call.log_gate, by.log_gate, sequence, row, h),
            by.k.row,
            by.v.row,
            by.log_gate.row};
}

/* Loads n keys, and n s q of one head; `padded` rows. */
template <typename E, typename T>
__device__ inline void load_keys(const bo_gpu_memory &a, const key_rows<T> &from, int n, int padded, E *to)
{
    unit_load(to, tile_stride(a.call.dim), padded, n, a.call.dim, from.k, from.ldk, a.unit, tile_one());
}

template <typename T, typename E>
__device__ inline void load_queries(const bo_gpu_memory &a, int sequence, size_t row, int head, int n, int padded,
                                    E *to)
{
    const bo_gpu_attention &call = a.call;
    unit_load(to, tile_stride(call.dim), padded, n, call.dim,
              numbers_at((const T *)call.q, call.strides.q, sequence, row, head), call.strides.q.row, a.unit,
              [&](int) { return call.scale; });
}

/* Multiplies n rows by the gates after each of them; total (NULL: not needed) receives the sum of all log gates. One
 * thread per channel, after a barrier; complete after the next one. */
template <typename T, typename E>
__device__ inline void decay_to_end(E *x, int stride, int n, int dim, const T *gate, size_t ld, float *total)
{
    for (int c = (int)threadIdx.x; c < dim; c += TILE_THREADS) {
        float sum = 0.0f;
        for (int j = n - 1; j >= 0; j--) {
            x[j * stride + c] = from_float<E>(to_float(x[j * stride + c]) * expf(sum));
            sum += clamp_gate(to_float(gate[(size_t)j * ld + (size_t)c]));
        }
        if (total) total[c] = sum;
    }
}

/* Multiplies n rows by the gates from the first row on, up to and including each row's gate. */
template <typename T, typename E>
__device__ inline void decay_from_start(E *x, int stride, int n, int dim, const T *gate, size_t ld, float *total)
{
    for (int c = (int)threadIdx.x; c < dim; c += TILE_THREADS) {
        float sum = 0.0f;
        for (int i = 0; i < n; i++) {
            sum += clamp_gate(to_float(gate[(size_t)i * ld + (size_t)c]));
            x[i * stride + c] = from_float<E>(to_float(x[i * stride + c]) * expf(sum));
        }
        if (total) total[c] = sum;
    }
}

/* Gates of a block of n tokens; gates of absent tokens are 1. */
template <typename T> __device__ inline void load_gates(float *g, int stride, int n, int dim, const T *gate, size_t ld)
{
    for (int at = (int)threadIdx.x; at < BLOCK * dim; at += TILE_THREADS) {
        const int t = at / dim, c = at % dim;
        g[t * stride + c] = t < n ? expf(clamp_gate(to_float(gate[(size_t)t * ld + (size_t)c]))) : 1.0f;
    }
}

/* score_ij = Σ_c q_ic k_jc g_{j+1,c} … g_ic for j <= i, else 0: one warp per row. */
template <typename T>
__device__ inline void block_scores(const float *q, const float *k, const float *g, int stride, int dim, T *to,
                                    int ldto)
{
    const int lane = (int)(threadIdx.x % WARP);
    for (int i = (int)(threadIdx.x / WARP); i < BLOCK; i += TILE_WARPS) {
        float query[8]; /* dim <= 256 */
#pragma unroll
        for (int m = 0; m < 8; m++) query[m] = m * WARP + lane < dim ? q[i * stride + m * WARP + lane] : 0.0f;
        for (int j = BLOCK - 1; j >= 0; j--) {
            float sum = 0.0f;
#pragma unroll
            for (int m = 0; m < 8; m++) {
                const int c = m * WARP + lane;
                if (m * WARP >= dim || j > i) break;
                if (c >= dim) continue;
                sum = fmaf(query[m], k[j * stride + c], sum);
                query[m] *= g[j * stride + c];
            }
            sum = warp_sum(sum);
            if (lane == 0) to[i * ldto + j] = from_float<T>(j <= i ? sum : 0.0f);
        }
    }
}

/* ---- chunks ------------------------------------------------------------------------------------------------------ */

template <typename T> struct local_smem {
    T *x, *y;   /* CHUNK x dim, CHUNK x columns */
    float *sum; /* dim x columns */
    __host__ __device__ local_smem(smem_carver *carver, int dim)
    {
        x = carver->tile<T>(CHUNK, dim);
        y = carver->tile<T>(CHUNK, slice_of(dim));
        sum = carver->tile<float>(dim, slice_of(dim));
    }
};

/* The part of a chunk's keys in S after it (memories), and the sums of its log gates (decays). */
template <typename T> __global__ void __launch_bounds__(TILE_THREADS) gla_local_kernel(bo_gpu_memory a)
{
    BO_SHARED(shared);
    const bo_gpu_attention &call = a.call;
    const int tile = (int)blockIdx.x, h = (int)blockIdx.y, dim = call.dim, slice = slice_of(dim);
    const int first = (int)blockIdx.z * slice, columns = min(slice, call.value_dim - first);
    const int stride = tile_stride(dim), across = tile_stride(slice);
    const chunk at = chunk_of(call.keys, CHUNK, tile);
    if (at.tokens == 0) return;
    smem_carver carver = {shared, 0};
    const local_smem<T> smem(&carver, dim);
    const key_rows<T> keys = keys_from<T>(call, at.sequence, at.row, h);
    load_keys(a, keys, at.tokens, CHUNK, smem.x);
    tile_load(smem.y, across, CHUNK, at.tokens, columns, keys.v + first, keys.ldv);
    __syncthreads();
    decay_to_end(smem.x, stride, at.tokens, dim, keys.gate, keys.ldg,
                 first == 0 ? row_at(a.decays, (size_t)tile, call.key_heads, h, dim) : nullptr);
    __syncthreads();
    tile_product(tile_pad(dim), tile_pad(columns), CHUNK, transposed(smem.x, stride), plain(smem.y, across),
                 [&](int i, int j, float x) { smem.sum[i * across + j] = x; });
    __syncthreads();
    tile_store(smem.sum, across, dim, columns, chunk_memory((float *)a.memories, call, tile, h) + first,
               (size_t)call.value_dim);
}

/* The part of a chunk's outputs in the gradient of S before it (gradients). */
template <typename T> __global__ void __launch_bounds__(TILE_THREADS) gla_local_gradient_kernel(bo_gpu_memory a)
{
    BO_SHARED(shared);
    const bo_gpu_attention &call = a.call;
    const int tile = (int)blockIdx.x, h = (int)blockIdx.y, dim = call.dim, slice = slice_of(dim);
    const int first = (int)blockIdx.z * slice, columns = min(slice, call.value_dim - first);
    const int group = call.reads_first ? 0 : call.heads / call.key_heads;
    const int stride = tile_stride(dim), across = tile_stride(slice);
    const chunk at = chunk_of(call.keys, CHUNK, tile);
    if (at.tokens == 0) return;
    smem_carver carver = {shared, 0};
    const local_smem<T> smem(&carver, dim);
    const key_rows<T> keys = keys_from<T>(call, at.sequence, at.row, h);
    tile_clear(smem.sum, across, tile_pad(dim), columns);
    for (int head = h * group; head < (h + 1) * group; head++) {
        load_queries<T>(a, at.sequence, at.row, head, at.tokens, CHUNK, smem.x);
        tile_load(smem.y, across, CHUNK, at.tokens, columns,
                  numbers_at((const T *)call.dout, call.strides.dout, at.sequence, at.row, head) + first,
                  call.strides.dout.row);
        __syncthreads();
        decay_from_start(smem.x, stride, at.tokens, dim, keys.gate, keys.ldg, nullptr);
        __syncthreads();
        tile_product(tile_pad(dim), tile_pad(columns), CHUNK, transposed(smem.x, stride), plain(smem.y, across),
                     [&](int i, int j, float x) { smem.sum[i * across + j] += x; });
        __syncthreads();
    }
    __syncthreads();
    tile_store(smem.sum, across, dim, columns, chunk_memory((float *)a.gradients, call, tile, h) + first,
               (size_t)call.value_dim);
}

/* Replaces the parts of chunks by sums: S before each chunk, or (BACK) its gradient after each. One thread per element
 * of the matrix of one key head of one sequence. */
template <bool BACK> __global__ void __launch_bounds__(TILE_THREADS) gla_scan_kernel(bo_gpu_memory a)
{
    const bo_gpu_attention &call = a.call;
    const int sequence = (int)blockIdx.x, h = (int)blockIdx.y, count = call.dim * call.value_dim;
    const int at = (int)(blockIdx.z * TILE_THREADS + threadIdx.x), channel = at / call.value_dim;
    if (at >= count) return;
    const int tokens = rows_before(call.keys, sequence + 1) - rows_before(call.keys, sequence);
    const int chunks = (int)ceil_div((size_t)tokens, CHUNK), start = first_tile(call.keys, CHUNK, sequence);
    float *parts = (float *)(BACK ? a.gradients : a.memories), sum = 0.0f;
    if (BACK && a.end_gradients) sum = chunk_memory(a.end_gradients, call, sequence, h)[at];
    if (!BACK && call.states && !call.reads_first) sum = state_memory(call, sequence, h)[at];
    for (int i = 0; i < chunks; i++) {
        const int tile = start + (BACK ? chunks - 1 - i : i);
        float *part = chunk_memory(parts, call, tile, h) + at, increment = *part;
        *part = sum;
        sum = fmaf(expf(row_at(a.decays, (size_t)tile, call.key_heads, h, call.dim)[channel]), sum, increment);
    }
    if (BACK) return;
    if (call.states) state_memory(call, sequence, h)[at] = sum;
    if (a.ends) chunk_memory(a.ends, call, sequence, h)[at] = sum;
}

/* ---- outputs ----------------------------------------------------------------------------------------------------- */

/* n tokens from `row` on, `before` tokens after the start of their chunk, which has `after` tokens after them. */
struct token_block {
    int tile, sequence, before, n, after;
    size_t row;
};

__device__ inline token_block block_of(const bo_gpu_attention &call, int index)
{
    token_block out;
    out.tile = index / BLOCKS;
    const chunk at = chunk_of(call.keys, CHUNK, out.tile);
    out.sequence = at.sequence;
    out.before = index % BLOCKS * BLOCK;
    out.n = max(0, min((int)BLOCK, at.tokens - out.before));
    out.after = at.tokens - out.before - out.n;
    out.row = at.row + (size_t)out.before;
    return out;
}

template <typename T> struct output_smem {
    T *past;            /* keys of the chunk before the block, decayed to its start: CHUNK x dim */
    T *q;               /* s q ∘ upto, then also ∘ since: BLOCK x dim */
    float *plain_q, *k; /* s q, k: BLOCK x dim */
    float *g;           /* BLOCK x dim */
    float *since;       /* dim */
    T *scores;          /* BLOCK x CHUNK */
    T *s;               /* dim x columns */
    T *v;               /* CHUNK x columns */
    float *out;         /* BLOCK x columns */
    __host__ __device__ output_smem(smem_carver *carver, int dim)
    {
        past = carver->tile<T>(CHUNK, dim);
        q = carver->tile<T>(BLOCK, dim);
        plain_q = carver->tile<float>(BLOCK, dim);
        k = carver->tile<float>(BLOCK, dim);
        g = carver->tile<float>(BLOCK, dim);
        since = carver->array<float>(dim);
        scores = carver->tile<T>(BLOCK, CHUNK);
        s = carver->tile<T>(dim, slice_of(dim));
        v = carver->tile<T>(CHUNK, slice_of(dim));
        out = carver->tile<float>(BLOCK, slice_of(dim));
    }
};

template <typename T> __global__ void __launch_bounds__(TILE_THREADS) gla_outputs_kernel(bo_gpu_memory a)
{
    BO_SHARED(shared);
    const bo_gpu_attention &call = a.call;
    const int head = (int)blockIdx.y, h = head / (call.heads / call.key_heads), dim = call.dim;
    const int values = call.value_dim, slice = slice_of(dim);
    const int stride = tile_stride(dim), across = tile_stride(slice), wide = tile_stride(CHUNK);
    const token_block at = block_of(call, (int)blockIdx.x);
    if (at.n == 0) return;
    smem_carver carver = {shared, 0};
    const output_smem<T> smem(&carver, dim);
    const int visible = at.before + BLOCK; /* keys, up to the end of the block */
    const key_rows<T> past = keys_from<T>(call, at.sequence, at.row - (size_t)at.before, h),
                      keys = keys_from<T>(call, at.sequence, at.row, h);
    load_keys(a, past, at.before, at.before, smem.past);
    load_keys(a, keys, at.n, BLOCK, smem.k);
    load_queries<T>(a, at.sequence, at.row, head, at.n, BLOCK, smem.plain_q);
    load_queries<T>(a, at.sequence, at.row, head, at.n, BLOCK, smem.q);
    load_gates(smem.g, stride, at.n, dim, keys.gate, keys.ldg);
    __syncthreads();
    decay_to_end(smem.past, stride, at.before, dim, past.gate, past.ldg, smem.since);
    decay_from_start(smem.q, stride, at.n, dim, keys.gate, keys.ldg, nullptr);
    block_scores(smem.plain_q, smem.k, smem.g, stride, dim, smem.scores + at.before, wide);
    __syncthreads();
    if (at.before) {
        tile_product(BLOCK, at.before, tile_pad(dim), plain(smem.q, stride), transposed(smem.past, stride),
                     [&](int i, int j, float x) { smem.scores[i * wide + j] = from_float<T>(x); });
        __syncthreads();
        for (int n = (int)threadIdx.x; n < BLOCK * dim; n += TILE_THREADS) {
            T *q = smem.q + n / dim * stride + n % dim;
            *q = from_float<T>(to_float(*q) * expf(smem.since[n % dim]));
        }
    }
    const float *memory = chunk_memory((const float *)a.memories, call, at.tile, h);
    T *out = numbers_at((T *)call.out, call.strides.out, at.sequence, at.row, head);
    for (int first = 0; first < values; first += slice) {
        const int columns = min(slice, values - first), width = tile_pad(columns);
        tile_load(smem.s, across, tile_pad(dim), dim, columns, memory + first, (size_t)values);
        tile_load(smem.v, across, visible, at.before + at.n, columns, past.v + first, past.ldv);
        __syncthreads();
        tile_product(BLOCK, width, tile_pad(dim), plain(smem.q, stride), plain(smem.s, across),
                     [&](int i, int j, float x) { smem.out[i * across + j] = x; });
        tile_product(BLOCK, width, visible, plain(smem.scores, wide), plain(smem.v, across),
                     [&](int i, int j, float x) { smem.out[i * across + j] += x; });
        __syncthreads();
        tile_store(smem.out, across, at.n, columns, out + first, call.strides.out.row);
    }
}

/* ---- gradients --------------------------------------------------------------------------------------------------- */

template <typename T> struct gradient_smem {
    T *rows;          /* keys before or queries after the block, decayed to it; then k ∘ after: CHUNK x dim */
    T *other_rows;    /* their values or do: CHUNK x columns */
    float *k, *g, *q; /* BLOCK x dim */
    float *dk, *dq;   /* BLOCK x dim */
    float *dlog;      /* BLOCK x dim */
    float *total;     /* dim: sum of log gates between the block and the start or end of the chunk */
    float *flow;      /* dim: Σ_v S G */
    T *s, *dS;        /* S before the block and its gradient after it: dim x columns */
    T *v, *dout;      /* BLOCK x columns */
    T *scores;        /* BLOCK x BLOCK */
    float *w;         /* BLOCK x BLOCK: do_i·v_j */
    float *dv;        /* BLOCK x columns */
    __host__ __device__ gradient_smem(smem_carver *carver, int dim)
    {
        const int slice = slice_of(dim);
        rows = carver->tile<T>(CHUNK - BLOCK, dim);
        other_rows = carver->tile<T>(CHUNK - BLOCK, slice);
        k = carver->tile<float>(BLOCK, dim);
        g = carver->tile<float>(BLOCK, dim);
        q = carver->tile<float>(BLOCK, dim);
        dk = carver->tile<float>(BLOCK, dim);
        dq = carver->tile<float>(BLOCK, dim);
        dlog = carver->tile<float>(BLOCK, dim);
        total = carver->array<float>(dim);
        flow = carver->array<float>(dim);
        s = carver->tile<T>(dim, slice);
        dS = carver->tile<T>(dim, slice);
        v = carver->tile<T>(BLOCK, slice);
        dout = carver->tile<T>(BLOCK, slice);
        scores = carver->tile<T>(BLOCK, BLOCK);
        w = carver->tile<float>(BLOCK, BLOCK);
        dv = carver->tile<float>(BLOCK, slice);
    }
};

/* The shared state of the parts of the gradient kernel. */
template <typename T> struct gradient_task {
    const bo_gpu_memory &a;
    const bo_gpu_attention &call;
    token_block at;
    int h, group;
    gradient_smem<T> smem;
    key_rows<T> keys;
    int stride, across, height; /* strides of tiles with dim and with `slice` columns; dim, padded */
};

/* Columns of S before the block. */
template <typename T> __device__ inline void find_memory(const gradient_task<T> &t, int first, int columns)
{
    const gradient_smem<T> &smem = t.smem;
    const int dim = t.call.dim, before = t.at.before;
    const float *memory = chunk_memory((const float *)t.a.memories, t.call, t.at.tile, t.h) + first;
    const key_rows<T> past = keys_from<T>(t.call, t.at.sequence, t.at.row - (size_t)before, t.h);
    load_keys(t.a, past, before, before, smem.rows);
    tile_load(smem.other_rows, t.across, before, before, columns, past.v + first, past.ldv);
    __syncthreads();
    decay_to_end(smem.rows, t.stride, before, dim, past.gate, past.ldg, smem.total);
    __syncthreads();
    tile_product(t.height, tile_pad(columns), before, transposed(smem.rows, t.stride), plain(smem.other_rows, t.across),
                 [&](int i, int j, float x) {
                     const bool present = i < dim && j < columns;
                     const float carried =
                         present ? expf(smem.total[i]) * memory[(size_t)i * (size_t)t.call.value_dim + (size_t)j]
                                 : 0.0f;
                     smem.s[i * t.across + j] = from_float<T>(carried + x);
                 });
    __syncthreads();
}

/* Columns of the gradient of S after the block. */
template <typename T> __device__ inline void find_gradient(const gradient_task<T> &t, int first, int columns)
{
    const gradient_smem<T> &smem = t.smem;
    const bo_gpu_attention &call = t.call;
    const int dim = call.dim, n = t.at.after, padded = tile_pad(n), width = tile_pad(columns);
    const size_t row = t.at.row + (size_t)t.at.n;
    const float *dS = chunk_memory((const float *)t.a.gradients, call, t.at.tile, t.h) + first;
    const T *gate = keys_from<T>(call, t.at.sequence, row, t.h).gate;
    for (int g = 0; g < max(t.group, 1); g++) {
        const int head = t.h * t.group + g;
        if (t.group) {
            load_queries<T>(t.a, t.at.sequence, row, head, n, padded, smem.rows);
            tile_load(smem.other_rows, t.across, padded, n, columns,
                      numbers_at((const T *)call.dout, call.strides.dout, t.at.sequence, row, head) + first,
                      call.strides.dout.row);
        } else {
            tile_clear(smem.rows, t.stride, padded, dim);
            tile_clear(smem.other_rows, t.across, padded, columns);
        }
        __syncthreads();
        decay_from_start(smem.rows, t.stride, n, dim, gate, t.keys.ldg, smem.total);
        __syncthreads();
        tile_product(t.height, width, padded, transposed(smem.rows, t.stride), plain(smem.other_rows, t.across),
                     [&](int i, int j, float x) {
                         T *to = smem.dS + i * t.across + j;
                         float carried = g ? to_float(*to) : 0.0f;
                         if (!g && i < dim && j < columns)
                             carried = expf(smem.total[i]) * dS[(size_t)i * (size_t)call.value_dim + (size_t)j];
                         *to = from_float<T>(carried + x);
                     });
        __syncthreads();
    }
}

/* Adds Σ_j S_cj G_cj to the flow of each channel: one warp per channel. */
template <typename T> __device__ inline void add_flow(const gradient_task<T> &t, int columns)
{
    tile_row_dots(t.call.dim, columns, t.smem.s, t.across, t.smem.dS, t.across,
                  [&](int c, float sum) { t.smem.flow[c] += sum; });
}

/* Loads s q of one head, and computes its scores. Starts and ends with a barrier. */
template <typename T> __device__ inline void load_head(const gradient_task<T> &t, int head)
{
    __syncthreads();
    load_queries<T>(t.a, t.at.sequence, t.at.row, head, t.at.n, BLOCK, t.smem.q);
    __syncthreads();
    block_scores(t.smem.q, t.smem.k, t.smem.g, t.stride, t.call.dim, t.smem.scores, tile_stride(BLOCK));
    __syncthreads();
}

template <typename T> __device__ inline void load_dout(const gradient_task<T> &t, int head, int first, int columns)
{
    tile_load(t.smem.dout, t.across, BLOCK, t.at.n, columns,
              numbers_at((const T *)t.call.dout, t.call.strides.dout, t.at.sequence, t.at.row, head) + first,
              t.call.strides.dout.row);
}

/* dv and dk of some columns of values: the parts through the gradient of S, and dv from outputs of the block. */
template <typename T> __device__ inline void back_values(const gradient_task<T> &t, int first, int columns)
{
    const gradient_smem<T> &smem = t.smem;
    const int width = tile_pad(columns), square = tile_stride(BLOCK);
    for (int n = (int)threadIdx.x; n < BLOCK * t.height; n += TILE_THREADS) {
        const int place = n / t.height * t.stride + n % t.height;
        smem.rows[place] = from_float<T>(smem.k[place]);
    }
    tile_load(smem.v, t.across, BLOCK, t.at.n, columns, t.keys.v + first, t.keys.ldv);
    __syncthreads();
    decay_to_end(smem.rows, t.stride, t.at.n, t.call.dim, t.keys.gate, t.keys.ldg, nullptr);
    __syncthreads();
    tile_product(BLOCK, width, t.height, plain(smem.rows, t.stride), plain(smem.dS, t.across),
                 [&](int i, int j, float x) { smem.dv[i * t.across + j] = x; });
    tile_product(BLOCK, t.height, width, plain(smem.v, t.across), transposed(smem.dS, t.across),
                 [&](int i, int j, float x) {
                     float *to = smem.dk + i * t.stride + j;
                     *to = first ? *to + x : x;
                 });
    for (int head = t.h * t.group; head < (t.h + 1) * t.group; head++) {
        load_head(t, head);
        load_dout(t, head, first, columns);
        __syncthreads();
        tile_product(BLOCK, width, BLOCK, transposed(smem.scores, square), plain(smem.dout, t.across),
                     [&](int i, int j, float x) { smem.dv[i * t.across + j] += x; });
    }
    __syncthreads();
    if (t.call.dv)
        tile_store(smem.dv, t.across, t.at.n, columns,
                   numbers_at((T *)t.call.dv, t.call.strides.dv, t.at.sequence, t.at.row, t.h) + first,
                   t.call.strides.dv.row);
    __syncthreads();
}

/* dk through the gradient of S, and its part of the gates: dlog_t = whole flow + Σ_{j<t} k_j dk_j. */
template <typename T> __device__ inline void finish_keys(const gradient_task<T> &t)
{
    const gradient_smem<T> &smem = t.smem;
    for (int c = (int)threadIdx.x; c < t.call.dim; c += TILE_THREADS) {
        float sum = 0.0f;
        for (int j = t.at.n - 1; j >= 0; j--) {
            smem.dk[j * t.stride + c] *= expf(sum);
            sum += clamp_gate(to_float(t.keys.gate[(size_t)j * t.keys.ldg + (size_t)c]));
        }
        float along = expf(sum) * smem.flow[c];
        for (int j = 0; j < BLOCK; j++) {
            smem.dlog[j * t.stride + c] = along;
            along = fmaf(smem.k[j * t.stride + c], smem.dk[j * t.stride + c], along);
        }
    }
}

/* dq of one head with its parts of dk and of the gates: through S, and between the tokens of the block. One thread per
 * channel; for i and the keys j before it, gates are multiplied from i to j. */
template <typename T> __device__ inline void finish_queries(const gradient_task<T> &t)
{
    const gradient_smem<T> &smem = t.smem;
    const int square = tile_stride(BLOCK);
    for (int c = (int)threadIdx.x; c < t.call.dim; c += TILE_THREADS) {
        float k[BLOCK], g[BLOCK], dk[BLOCK], dlog[BLOCK], sum = 0.0f;
#pragma unroll
        for (int j = 0; j < BLOCK; j++) {
            const int place = j * t.stride + c;
            k[j] = smem.k[place], g[j] = smem.g[place], dk[j] = 0.0f, dlog[j] = 0.0f;
            if (j < t.at.n) sum += clamp_gate(to_float(t.keys.gate[(size_t)j * t.keys.ldg + (size_t)c]));
            smem.dq[place] *= expf(sum);
        }
        float later = 0.0f; /* Σ_{i>=t} s q_i ∘ upto_i ∘ S do_i */
#pragma unroll
        for (int i = BLOCK - 1; i >= 0; i--) {
            const int place = i * t.stride + c;
            const float q = smem.q[place];
            float dq = smem.dq[place], product = 1.0f, terms[BLOCK];
            later = fmaf(q, dq, later);
            dlog[i] += later;
#pragma unroll
            for (int j = i; j >= 0; j--) {
                const float w = smem.w[i * square + j] * product;
                dq = fmaf(w, k[j], dq);
                dk[j] = fmaf(w, q, dk[j]);
                terms[j] = w * q * k[j];
                product *= g[j];
            }
            float along = 0.0f;
#pragma unroll
            for (int s = 1; s <= i; s++) dlog[s] += along += terms[s - 1];
            smem.dq[place] = dq;
        }
#pragma unroll
        for (int j = 0; j < BLOCK; j++) smem.dk[j * t.stride + c] += dk[j], smem.dlog[j * t.stride + c] += dlog[j];
    }
}

/* The gradients of one query head; dk and dlog are added to. */
template <typename T> __device__ inline void back_head(const gradient_task<T> &t, int head)
{
    const gradient_smem<T> &smem = t.smem;
    const bo_gpu_attention &call = t.call;
    const int values = call.value_dim, slice = slice_of(call.dim), square = tile_stride(BLOCK);
    load_head(t, head);
    for (int first = 0; first < values; first += slice) {
        const int columns = min(slice, values - first), width = tile_pad(columns);
        if (values > slice) find_memory(t, first, columns);
        load_dout(t, head, first, columns);
        tile_load(smem.v, t.across, BLOCK, t.at.n, columns, t.keys.v + first, t.keys.ldv);
        __syncthreads();
        tile_product(BLOCK, BLOCK, width, plain(smem.dout, t.across), transposed(smem.v, t.across),
                     [&](int i, int j, float x) {
                         float *to = smem.w + i * square + j;
                         *to = first ? *to + x : x;
                     });
        tile_product(BLOCK, t.height, width, plain(smem.dout, t.across), transposed(smem.s, t.across),
                     [&](int i, int j, float x) {
                         float *to = smem.dq + i * t.stride + j;
                         *to = first ? *to + x : x;
                     });
        __syncthreads();
    }
    finish_queries(t);
    __syncthreads();
    if (call.dq)
        unit_store(smem.dq, t.stride, t.at.n, call.dim, t.a.unit, call.scale,
                   numbers_at((const T *)call.q, call.strides.q, t.at.sequence, t.at.row, head), call.strides.q.row,
                   numbers_at((T *)call.dq, call.strides.dq, t.at.sequence, t.at.row, head), call.strides.dq.row);
}

/* All gradients of a block of one key head. */
template <typename T> __global__ void __launch_bounds__(TILE_THREADS) gla_gradients_kernel(bo_gpu_memory a)
{
    BO_SHARED(shared);
    const bo_gpu_attention &call = a.call;
    const int h = (int)blockIdx.y, dim = call.dim, values = call.value_dim, slice = slice_of(dim);
    const token_block at = block_of(call, (int)blockIdx.x);
    if (at.n == 0) return;
    smem_carver carver = {shared, 0};
    const gradient_task<T> t = {a,
                                call,
                                at,
                                h,
                                call.reads_first ? 0 : call.heads / call.key_heads,
                                gradient_smem<T>(&carver, dim),
                                keys_from<T>(call, at.sequence, at.row, h),
                                tile_stride(dim),
                                tile_stride(slice),
                                tile_pad(dim)};
    const gradient_smem<T> &smem = t.smem;
    load_keys(a, t.keys, at.n, BLOCK, smem.k);
    load_gates(smem.g, t.stride, at.n, dim, t.keys.gate, t.keys.ldg);
    for (int c = (int)threadIdx.x; c < dim; c += TILE_THREADS) smem.flow[c] = 0.0f;
    __syncthreads();
    for (int first = 0; first < values; first += slice) {
        const int columns = min(slice, values - first);
        find_memory(t, first, columns);
        find_gradient(t, first, columns);
        add_flow(t, columns);
        back_values(t, first, columns);
    }
    finish_keys(t);
    for (int head = h * t.group; head < (h + 1) * t.group; head++) back_head(t, head);
    __syncthreads();
    if (call.dk)
        unit_store(smem.dk, t.stride, at.n, dim, a.unit, 1.0f, t.keys.k, t.keys.ldk,
                   numbers_at((T *)call.dk, call.strides.dk, at.sequence, at.row, h), call.strides.dk.row);
    if (call.dlog_gate)
        tile_store(smem.dlog, t.stride, at.n, dim,
                   numbers_at((T *)call.dlog_gate, call.strides.dlog_gate, at.sequence, at.row, h),
                   call.strides.dlog_gate.row);
}

/* ---- launches ---------------------------------------------------------------------------------------------------- */

static dim3 slices_of(const bo_gpu_attention &call)
{
    return dim3(tiles_of(call.keys, CHUNK), (unsigned)call.key_heads,
                (unsigned)ceil_div((size_t)call.value_dim, (size_t)slice_of(call.dim)));
}

template <bool BACK> static bo_gpu_error scan(bo_gpu *cuda, const bo_gpu_memory *a)
{
    const bo_gpu_attention &call = a->call;
    const dim3 grid((unsigned)call.keys.sequences, (unsigned)call.key_heads,
                    (unsigned)ceil_div((size_t)(call.dim * call.value_dim), TILE_THREADS));
    return launch(cuda, grid, dim3(TILE_THREADS), 0, gla_scan_kernel<BACK>, *a);
}

template <typename T> static bo_gpu_error memories_typed(bo_gpu *cuda, const bo_gpu_memory *a)
{
    smem_carver carver = {};
    (void)local_smem<T>(&carver, a->call.dim);
    bo_gpu_error error = launch(cuda, slices_of(a->call), dim3(TILE_THREADS), carver.bytes, gla_local_kernel<T>, *a);
    return error ? error : scan<false>(cuda, a);
}

template <typename T> static bo_gpu_error outputs_typed(bo_gpu *cuda, const bo_gpu_memory *a)
{
    smem_carver carver = {};
    (void)output_smem<T>(&carver, a->call.dim);
    return launch(cuda, dim3(tiles_of(a->call.keys, CHUNK) * BLOCKS, (unsigned)a->call.heads), dim3(TILE_THREADS),
                  carver.bytes, gla_outputs_kernel<T>, *a);
}

template <typename T> static bo_gpu_error gradients_typed(bo_gpu *cuda, const bo_gpu_memory *a)
{
    smem_carver local = {}, carver = {};
    (void)local_smem<T>(&local, a->call.dim);
    (void)gradient_smem<T>(&carver, a->call.dim);
    bo_gpu_error error =
        launch(cuda, slices_of(a->call), dim3(TILE_THREADS), local.bytes, gla_local_gradient_kernel<T>, *a);
    if (!error) error = scan<true>(cuda, a);
    if (error) return error;
    return launch(cuda, dim3(tiles_of(a->call.keys, CHUNK) * BLOCKS, (unsigned)a->call.key_heads), dim3(TILE_THREADS),
                  carver.bytes, gla_gradients_kernel<T>, *a);
}

} // namespace gla

bo_gpu_error gla_memories(bo_gpu *cuda, const bo_gpu_memory *a)
{
    if (a->fast) return gla_fast_memories(cuda, a);
    return a->call.type == BO_ELEMENT_FLOAT32 ? gla::memories_typed<float>(cuda, a)
                                              : gla::memories_typed<bf16>(cuda, a);
}

bo_gpu_error gla_outputs(bo_gpu *cuda, const bo_gpu_memory *a)
{
    if (a->fast) return gla_fast_outputs(cuda, a);
    return a->call.type == BO_ELEMENT_FLOAT32 ? gla::outputs_typed<float>(cuda, a) : gla::outputs_typed<bf16>(cuda, a);
}

bo_gpu_error gla_gradients(bo_gpu *cuda, const bo_gpu_memory *a)
{
    if (a->fast) return gla_fast_gradients(cuda, a);
    return a->call.type == BO_ELEMENT_FLOAT32 ? gla::gradients_typed<float>(cuda, a)
                                              : gla::gradients_typed<bf16>(cuda, a);
}

} // namespace bo
