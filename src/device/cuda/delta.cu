/* The delta rule (arXiv 2406.06484; with a gate 2412.06464) in chunks of C tokens. src/attention/delta.h has the
 * formulas: it defines S, b, P, A, x, u = βx, G, du, y = β du. Both triangular systems are linear in S and G, so
 * only two products per chunk are sequential:
 *
 *     x = X - W S          with X, W the solutions of the system for v and for exp(b) k       (delta_prepare)
 *     S' = exp(b_T) S + Σ_j exp(b_T - b_j) k_j u_jᵀ                                           (delta_memories)
 *     R = exp(b_T - b) ∘ K G + Aᵀ do      G = exp(b_T) G + Σ exp(b_i) s q_i do_iᵀ - (βW)ᵀ R   (delta_dS)
 *     du = the solution of the transposed system for R                                        (delta_solve)
 *
 * Everything else is parallel over chunks and heads. Sums of gates are double, since they may be much larger than the
 * relevant differences.
 *
 * For n tokens and key heads of dim = value_dim = d, elements of t bytes (C = 64): forward reads q, k, v and writes out
 * once, and writes and reads x, w (2 d each) and memories (d² / C per token): about 11 n d t bytes, and 7 C d + 3 d²
 * multiply-adds per token. Backward repeats the first two kernels: about 30 n d t bytes, 20 C d + 8 d². */
#include "delta.cuh"
#include "launches.cuh"
#include "memory_fast.cuh"

namespace bo {
namespace delta {

enum { SLICE = 64, SCAN_SLICE = 32 }; /* columns of values that a block has at a time */

/* ---- a chunk ----------------------------------------------------------------------------------------------------- */

/* The kernel's view of a chunk of one key head. */
template <typename T> struct chunk_arrays {
    const T *k, *v;
    T *x, *w, *du;
    T *memory, *dS;
    size_t ldk, ldv;     /* strides between tokens of k and v, in elements … */
    size_t narrow, wide; /* … of w, and of x and du */
};

template <typename T> __device__ inline chunk_arrays<T> arrays_of(const bo_gpu_memory &a, chunk at, int tile, int h)
{
    const bo_gpu_attention &call = a.call;
    chunk_arrays<T> out;
    out.k = numbers_at((const T *)call.k, call.strides.k, at.sequence, at.row, h);
    out.v = numbers_at((const T *)call.v, call.strides.v, at.sequence, at.row, h);
    out.x = row_at((T *)a.x, at.row, call.key_heads, h, call.value_dim);
    out.w = row_at((T *)a.w, at.row, call.key_heads, h, call.dim);
    out.du = row_at((T *)a.du, at.row, call.key_heads, h, call.value_dim);
    out.memory = chunk_memory((T *)a.memories, call, tile, h);
    out.dS = a.gradients ? chunk_memory((T *)a.gradients, call, tile, h) : nullptr;
    out.ldk = call.strides.k.row, out.ldv = call.strides.v.row;
    out.narrow = (size_t)(call.key_heads * call.dim), out.wide = (size_t)(call.key_heads * call.value_dim);
    return out;
}

template <typename T, int C>
__device__ inline void load_keys(const bo_gpu_memory &a, const chunk_arrays<T> &from, int tokens, T *to)
{
    unit_load(to, tile_stride(a.call.dim), C, tokens, a.call.dim, from.k, from.ldk, a.unit, tile_one());
}

/* Rows of one query head: s q, times factor(row). */
template <typename T, int C, typename Factor>
__device__ inline void load_queries(const bo_gpu_memory &a, chunk at, int head, T *to, Factor factor)
{
    const bo_gpu_attention &call = a.call;
    unit_load(to, tile_stride(call.dim), C, at.tokens, call.dim,
              numbers_at((const T *)call.q, call.strides.q, at.sequence, at.row, head), call.strides.q.row, a.unit,
              [&](int i) { return call.scale * factor(i); });
}

/* Columns first … first + columns - 1 of rows of values of one head. */
template <typename T, int C>
__device__ inline void load_values(const T *from, size_t ld, int tokens, int first, int columns, T *to, int stride)
{
    tile_load(to, stride, C, tokens, columns, from + first, ld);
}

/* ---- forward ----------------------------------------------------------------------------------------------------- */

template <typename T, int C> struct prepare_smem {
    token_weights<C> weights;
    T *k;
    float *p; /* transpose of P: C x C */
    __host__ __device__ prepare_smem(smem_carver *carver, int dim)
    {
        weights = carve_weights<C>(carver);
        k = carver->tile<T>(C, dim);
        p = carver->tile<float>(C, C);
    }
};

/* Computes X and W: a thread solves one column of the system at a time, with its C elements in registers. */
template <typename T, int C> __global__ void __launch_bounds__(TILE_THREADS, 2) delta_prepare_kernel(bo_gpu_memory a)
{
    BO_SHARED(shared);
    const bo_gpu_attention &call = a.call;
    const int tile = (int)blockIdx.x, h = (int)blockIdx.y, dim = call.dim, values = call.value_dim;
    const chunk at = chunk_of(call.keys, C, tile);
    if (at.tokens == 0) return;
    smem_carver carver = {shared, 0};
    const prepare_smem<T, C> smem(&carver, dim);
    const int stride = tile_stride(dim), square = tile_stride(C);
    const chunk_arrays<T> arrays = arrays_of<T>(a, at, tile, h);
    load_weights<T, C>(call, at, h, smem.weights);
    load_keys<T, C>(a, arrays, at.tokens, smem.k);
    __syncthreads();
    tile_product(C, C, tile_pad(dim), plain(smem.k, stride), transposed(smem.k, stride), [&](int i, int j, float x) {
        smem.p[j * square + i] = j < i ? x * smem.weights.between(i, j) : 0.0f;
    });
    __syncthreads();
    for (int c = (int)threadIdx.x; c < values + dim; c += TILE_THREADS) {
        const bool of_values = c < values;
        const int column = of_values ? c : c - values;
        float x[C];
#pragma unroll
        for (int i = 0; i < C; i++) {
            x[i] = 0.0f;
            if (i < at.tokens)
                x[i] = of_values ? to_float(arrays.v[(size_t)i * arrays.ldv + (size_t)column])
                                 : to_float(smem.k[i * stride + column]) * smem.weights.before(i);
        }
#pragma unroll
        for (int j = 0; j < C; j++) {
            const float u = smem.weights.beta[j] * x[j];
            const float *p = smem.p + j * square;
#pragma unroll
            for (int i = j + 1; i < C; i++) x[i] = fmaf(-p[i], u, x[i]);
        }
        T *to = of_values ? arrays.x + column : arrays.w + column;
        const size_t ld = of_values ? arrays.wide : arrays.narrow;
#pragma unroll
        for (int i = 0; i < C; i++)
            if (i < at.tokens) to[(size_t)i * ld] = from_float<T>(x[i]);
    }
}

template <typename T, int C> struct scan_smem {
    token_weights<C> weights;
    float *s;     /* the memory, or its gradient: dim x columns */
    T *factor;    /* s, rounded */
    T *k, *w, *q; /* C x dim */
    T *x, *dout;  /* C x columns */
    float *sum;   /* C x columns */
    __host__ __device__ scan_smem(smem_carver *carver, int dim, bool backward)
    {
        weights = carve_weights<C>(carver);
        s = carver->tile<float>(dim, SCAN_SLICE);
        factor = sizeof(T) == sizeof(float) ? (T *)s : carver->tile<T>(dim, SCAN_SLICE);
        k = carver->tile<T>(C, dim);
        w = carver->tile<T>(C, dim);
        x = carver->tile<T>(C, SCAN_SLICE);
        sum = sizeof(T) == sizeof(float) ? (float *)x : carver->tile<float>(C, SCAN_SLICE);
        q = backward ? carver->tile<T>(C, dim) : nullptr;
        dout = backward ? carver->tile<T>(C, SCAN_SLICE) : nullptr;
    }
};

/* Computes S before each chunk, and x: one block for some columns of the memory of one key head of one sequence. */
template <typename T, int C> __global__ void __launch_bounds__(TILE_THREADS) delta_memories_kernel(bo_gpu_memory a)
{
    BO_SHARED(shared);
    const bo_gpu_attention &call = a.call;
    const int sequence = (int)blockIdx.x, h = (int)blockIdx.y, first = (int)blockIdx.z * SCAN_SLICE;
    const int dim = call.dim, rows = tile_pad(dim), stride = tile_stride(dim), across = tile_stride(SCAN_SLICE);
    const int columns = min((int)SCAN_SLICE, call.value_dim - first), width = tile_pad(columns);
    const size_t ld = (size_t)call.value_dim, matrix = (size_t)dim * ld;
    smem_carver carver = {shared, 0};
    const scan_smem<T, C> smem(&carver, dim, false);
    float *state = call.states && !call.reads_first ? state_memory(call, sequence, h) + first : nullptr;
    if (state)
        tile_load(smem.s, across, rows, dim, columns, state, ld);
    else
        tile_clear(smem.s, across, rows, columns);
    const int start = rows_before(call.keys, sequence), end = rows_before(call.keys, sequence + 1);
    int tile = first_tile(call.keys, C, sequence);
    for (int row = start; row < end; row += C, tile++) {
        const chunk at = {sequence, min(C, end - row), (size_t)row};
        const chunk_arrays<T> arrays = arrays_of<T>(a, at, tile, h);
        load_weights<T, C>(call, at, h, smem.weights);
        tile_load(smem.w, stride, C, at.tokens, dim, arrays.w, arrays.narrow);
        tile_load(smem.sum, across, C, at.tokens, columns, arrays.x + first, arrays.wide);
        __syncthreads();
        unit_load(smem.k, stride, C, at.tokens, dim, arrays.k, arrays.ldk, a.unit,
                  [&](int j) { return smem.weights.beta[j] * smem.weights.after(j); });
        tile_store(smem.s, across, dim, columns, arrays.memory + first, ld);
        if (sizeof(T) != sizeof(float)) {
            tile_load(smem.factor, across, rows, rows, width, smem.s, (size_t)across);
            __syncthreads();
        }
        tile_product(C, width, rows, plain(smem.w, stride), plain(smem.factor, across), [&](int i, int j, float x) {
            smem.sum[i * across + j] -= x;
            if (sizeof(T) != sizeof(float)) smem.x[i * across + j] = from_float<T>(smem.sum[i * across + j]);
        });
        __syncthreads();
        tile_store(smem.sum, across, at.tokens, columns, arrays.x + first, arrays.wide);
        const float whole = smem.weights.whole();
        tile_product(rows, width, C, transposed(smem.k, stride), plain(smem.x, across),
                     [&](int i, int j, float x) { smem.s[i * across + j] = fmaf(whole, smem.s[i * across + j], x); });
        __syncthreads();
    }
    __syncthreads();
    if (call.states) tile_store(smem.s, across, dim, columns, state_memory(call, sequence, h) + first, ld);
    if (a.ends)
        tile_store(smem.s, across, dim, columns,
                   a.ends + ((size_t)sequence * (size_t)call.key_heads + (size_t)h) * matrix + first, ld);
}

template <typename T, int C> struct output_smem {
    token_weights<C> weights;
    T *q, *k;   /* C x dim */
    T *scores;  /* C x C */
    T *s;       /* dim x SLICE */
    T *u;       /* C x SLICE */
    float *out; /* C x SLICE */
    __host__ __device__ output_smem(smem_carver *carver, int dim)
    {
        weights = carve_weights<C>(carver);
        q = carver->tile<T>(C, dim);
        k = carver->tile<T>(C, dim);
        scores = carver->tile<T>(C, C);
        s = carver->tile<T>(dim, SLICE);
        u = carver->tile<T>(C, SLICE);
        out = carver->tile<float>(C, SLICE);
    }
};

/* Computes the outputs of a chunk of one query head. */
template <typename T, int C> __global__ void __launch_bounds__(TILE_THREADS) delta_outputs_kernel(bo_gpu_memory a)
{
    BO_SHARED(shared);
    const bo_gpu_attention &call = a.call;
    const int tile = (int)blockIdx.x, head = (int)blockIdx.y, h = head / (call.heads / call.key_heads);
    const int dim = call.dim, rows = tile_pad(dim), values = call.value_dim;
    const int stride = tile_stride(dim), square = tile_stride(C), across = tile_stride(SLICE);
    const chunk at = chunk_of(call.keys, C, tile);
    if (at.tokens == 0) return;
    smem_carver carver = {shared, 0};
    const output_smem<T, C> smem(&carver, dim);
    const token_weights<C> weights = smem.weights;
    const chunk_arrays<T> arrays = arrays_of<T>(a, at, tile, h);
    T *out = numbers_at((T *)call.out, call.strides.out, at.sequence, at.row, head);
    load_weights<T, C>(call, at, h, weights);
    load_keys<T, C>(a, arrays, at.tokens, smem.k);
    load_queries<T, C>(a, at, head, smem.q, tile_one());
    __syncthreads();
    tile_product(C, C, rows, plain(smem.q, stride), transposed(smem.k, stride), [&](int i, int j, float x) {
        smem.scores[i * square + j] = from_float<T>(j <= i ? x * weights.between(i, j) : 0.0f);
    });
    for (int first = 0; first < values; first += SLICE) {
        const int columns = min((int)SLICE, values - first), width = tile_pad(columns);
        tile_load(smem.s, across, rows, dim, columns, arrays.memory + first, (size_t)values);
        tile_load(smem.u, across, C, at.tokens, columns, arrays.x + first, arrays.wide,
                  [&](int j) { return weights.beta[j]; });
        __syncthreads();
        tile_product(C, width, rows, plain(smem.q, stride), plain(smem.s, across),
                     [&](int i, int j, float x) { smem.out[i * across + j] = x * weights.before(i); });
        tile_product(C, width, C, plain(smem.scores, square), plain(smem.u, across),
                     [&](int i, int j, float x) { smem.out[i * across + j] += x; });
        __syncthreads();
        tile_store(smem.out, across, at.tokens, columns, out + first, call.strides.out.row);
    }
}

/* ---- backward ---------------------------------------------------------------------------------------------------- */

/* Computes Aᵀ do, the sum over the query heads of the group: the part of du that comes from outputs of the chunk. */
template <typename T, int C> __global__ void __launch_bounds__(TILE_THREADS) delta_du_kernel(bo_gpu_memory a)
{
    BO_SHARED(shared);
    const bo_gpu_attention &call = a.call;
    const int tile = (int)blockIdx.x, h = (int)blockIdx.y, group = call.heads / call.key_heads;
    const int dim = call.dim, values = call.value_dim;
    const int stride = tile_stride(dim), square = tile_stride(C), across = tile_stride(SLICE);
    const chunk at = chunk_of(call.keys, C, tile);
    if (at.tokens == 0) return;
    smem_carver carver = {shared, 0};
    const output_smem<T, C> smem(&carver, dim);
    const chunk_arrays<T> arrays = arrays_of<T>(a, at, tile, h);
    load_weights<T, C>(call, at, h, smem.weights);
    load_keys<T, C>(a, arrays, at.tokens, smem.k);
    for (int first = 0; first < values; first += SLICE) {
        const int columns = min((int)SLICE, values - first), width = tile_pad(columns);
        tile_clear(smem.out, across, C, columns);
        for (int head = h * group; !call.reads_first && head < (h + 1) * group; head++) {
            load_queries<T, C>(a, at, head, smem.q, tile_one());
            load_values<T, C>(numbers_at((const T *)call.dout, call.strides.dout, at.sequence, at.row, head),
                              call.strides.dout.row, at.tokens, first, columns, smem.u, across);
            __syncthreads();
            tile_product(
                C, C, tile_pad(dim), plain(smem.q, stride), transposed(smem.k, stride), [&](int i, int j, float x) {
                    smem.scores[i * square + j] = from_float<T>(j <= i ? x * smem.weights.between(i, j) : 0.0f);
                });
            __syncthreads();
            tile_product(C, width, C, transposed(smem.scores, square), plain(smem.u, across),
                         [&](int i, int j, float x) { smem.out[i * across + j] += x; });
            __syncthreads();
        }
        __syncthreads();
        tile_store(smem.out, across, at.tokens, columns, arrays.du + first, arrays.wide);
        __syncthreads();
    }
}

/* Computes G after each chunk, and R. */
template <typename T, int C> __global__ void __launch_bounds__(TILE_THREADS) delta_dS_kernel(bo_gpu_memory a)
{
    BO_SHARED(shared);
    const bo_gpu_attention &call = a.call;
    const int sequence = (int)blockIdx.x, h = (int)blockIdx.y, first = (int)blockIdx.z * SCAN_SLICE;
    const int dim = call.dim, rows = tile_pad(dim), stride = tile_stride(dim), across = tile_stride(SCAN_SLICE);
    const int columns = min((int)SCAN_SLICE, call.value_dim - first), width = tile_pad(columns);
    const int group = call.reads_first ? 0 : call.heads / call.key_heads;
    const size_t ld = (size_t)call.value_dim, matrix = (size_t)dim * ld;
    smem_carver carver = {shared, 0};
    const scan_smem<T, C> smem(&carver, dim, true);
    const token_weights<C> weights = smem.weights;
    if (a.end_gradients)
        tile_load(smem.s, across, rows, dim, columns,
                  a.end_gradients + ((size_t)sequence * (size_t)call.key_heads + (size_t)h) * matrix + first, ld);
    else
        tile_clear(smem.s, across, rows, columns);
    const int start = rows_before(call.keys, sequence), tokens = rows_before(call.keys, sequence + 1) - start;
    for (int index = (int)ceil_div((size_t)tokens, C) - 1; index >= 0; index--) {
        const chunk at = {sequence, min(C, tokens - index * C), (size_t)(start + index * C)};
        const chunk_arrays<T> arrays = arrays_of<T>(a, at, first_tile(call.keys, C, sequence) + index, h);
        load_weights<T, C>(call, at, h, weights);
        load_keys<T, C>(a, arrays, at.tokens, smem.k);
        tile_load(smem.sum, across, C, at.tokens, columns, arrays.du + first, arrays.wide);
        __syncthreads();
        tile_load(smem.w, stride, C, at.tokens, dim, arrays.w, arrays.narrow, [&](int j) { return weights.beta[j]; });
        tile_store(smem.s, across, dim, columns, arrays.dS + first, ld);
        if (sizeof(T) != sizeof(float)) {
            tile_load(smem.factor, across, rows, rows, width, smem.s, (size_t)across);
            __syncthreads();
        }
        tile_product(C, width, rows, plain(smem.k, stride), plain(smem.factor, across), [&](int i, int j, float x) {
            smem.sum[i * across + j] += i < at.tokens ? weights.after(i) * x : 0.0f;
            if (sizeof(T) != sizeof(float)) smem.x[i * across + j] = from_float<T>(smem.sum[i * across + j]);
        });
        __syncthreads();
        tile_store(smem.sum, across, at.tokens, columns, arrays.du + first, arrays.wide);
        const float whole = weights.whole();
        tile_product(rows, width, C, transposed(smem.w, stride), plain(smem.x, across),
                     [&](int i, int j, float x) { smem.s[i * across + j] = fmaf(whole, smem.s[i * across + j], -x); });
        for (int g = 0; g < group; g++) {
            const int head = h * group + g;
            load_queries<T, C>(a, at, head, smem.q, [&](int i) { return weights.before(i); });
            load_values<T, C>(numbers_at((const T *)call.dout, call.strides.dout, at.sequence, at.row, head),
                              call.strides.dout.row, at.tokens, first, columns, smem.dout, across);
            __syncthreads();
            tile_product(rows, width, C, transposed(smem.q, stride), plain(smem.dout, across),
                         [&](int i, int j, float x) { smem.s[i * across + j] += x; });
            __syncthreads();
        }
        __syncthreads();
    }
}

/* Solves for du and replaces R by y; writes dv and dβ. */
template <typename T, int C> __global__ void __launch_bounds__(TILE_THREADS, 2) delta_solve_kernel(bo_gpu_memory a)
{
    BO_SHARED(shared);
    const bo_gpu_attention &call = a.call;
    const int tile = (int)blockIdx.x, h = (int)blockIdx.y, dim = call.dim, values = call.value_dim;
    const int warp = (int)(threadIdx.x / WARP), lane = (int)(threadIdx.x % WARP);
    const chunk at = chunk_of(call.keys, C, tile);
    if (at.tokens == 0) return;
    smem_carver carver = {shared, 0};
    const prepare_smem<T, C> smem(&carver, dim);
    float *partial = carver.array<float>(TILE_WARPS * C); /* of dβ, by warp */
    const int stride = tile_stride(dim), square = tile_stride(C);
    const chunk_arrays<T> arrays = arrays_of<T>(a, at, tile, h);
    const bo_gpu_strides &dvs = call.strides.dv, &dbetas = call.strides.dbeta;
    T *dv = numbers_if_any((T *)call.dv, dvs, at.sequence, at.row, h);
    T *dbeta = numbers_if_any((T *)call.dbeta, dbetas, at.sequence, at.row, h);
    load_weights<T, C>(call, at, h, smem.weights);
    load_keys<T, C>(a, arrays, at.tokens, smem.k);
    for (int i = (int)threadIdx.x; i < TILE_WARPS * C; i += TILE_THREADS) partial[i] = 0.0f;
    __syncthreads();
    tile_product(C, C, tile_pad(dim), plain(smem.k, stride), transposed(smem.k, stride), [&](int i, int j, float x) {
        smem.p[i * square + j] = j < i ? x * smem.weights.between(i, j) : 0.0f;
    });
    __syncthreads();
    for (int from = 0; from < values; from += TILE_THREADS) {
        const int c = from + (int)threadIdx.x;
        const bool present = c < values;
        float d[C];
        if (from + warp * WARP >= values) break;
#pragma unroll
        for (int i = 0; i < C; i++)
            d[i] = present && i < at.tokens ? to_float(arrays.du[(size_t)i * arrays.wide + (size_t)c]) : 0.0f;
#pragma unroll
        for (int j = C - 1; j >= 0; j--) {
            const float y = smem.weights.beta[j] * d[j];
            const float *p = smem.p + j * square;
#pragma unroll
            for (int i = 0; i < j; i++) d[i] = fmaf(-p[i], y, d[i]);
        }
#pragma unroll
        for (int i = 0; i < C; i++) {
            const size_t place = (size_t)i * arrays.wide + (size_t)c;
            const bool valid = present && i < at.tokens;
            const T y = from_float<T>(smem.weights.beta[i] * d[i]);
            if (valid) arrays.du[place] = y;
            if (valid && dv) dv[(size_t)i * dvs.row + (size_t)c] = y;
            if (!dbeta) continue;
            const float sum = warp_sum(valid ? d[i] * to_float(arrays.x[place]) : 0.0f);
            if (lane == 0) partial[warp * C + i] += sum;
        }
    }
    __syncthreads();
    for (int i = (int)threadIdx.x; dbeta && i < at.tokens; i += TILE_THREADS) {
        float sum = 0.0f;
        for (int w = 0; w < TILE_WARPS; w++) sum += partial[w * C + i];
        dbeta[(size_t)i * dbetas.row] = from_float<T>(sum);
    }
}

template <typename T, int C> struct gradient_smem {
    token_weights<C> weights;
    T *k, *q;        /* C x dim */
    T *pairs;        /* C x C */
    T *left, *right; /* C x SLICE: do or y, and u */
    T *memory;       /* dim x SLICE: S or G */
    float *dk, *dq;  /* C x dim */
    float *part;     /* C x dim: gradients through S or G */
    float *raw;      /* C x C */
    float *z;        /* C x C: Z */
    double *from_s, *to_s;
    float *sums; /* for block_sum */
    __host__ __device__ gradient_smem(smem_carver *carver, int dim, bool gated)
    {
        weights = carve_weights<C>(carver);
        k = carver->tile<T>(C, dim);
        q = carver->tile<T>(C, dim);
        pairs = carver->tile<T>(C, C);
        left = carver->tile<T>(C, SLICE);
        right = carver->tile<T>(C, SLICE);
        memory = carver->tile<T>(dim, SLICE);
        dk = carver->tile<float>(C, dim);
        dq = carver->tile<float>(C, dim);
        part = dq; /* dq is complete before it is used for keys, and starts with the part through S */
        raw = carver->tile<float>(C, C);
        z = gated ? carver->tile<float>(C, C) : nullptr;
        from_s = carver->array<double>(C);
        to_s = carver->array<double>(C);
        sums = carver->array<float>(WARP);
    }
};

/* raw_ij = left_i·right_j, summed over all columns of values. */
template <typename T, int C, typename Left, typename Right>
__device__ inline void raw_pairs(const gradient_smem<T, C> &smem, int values, Left load_left_rows,
                                 Right load_right_rows)
{
    const int across = tile_stride(SLICE), square = tile_stride(C);
    for (int first = 0; first < values; first += SLICE) {
        const int columns = min((int)SLICE, values - first);
        load_left_rows(first, columns);
        load_right_rows(first, columns);
        __syncthreads();
        tile_product(C, C, tile_pad(columns), plain(smem.left, across), transposed(smem.right, across),
                     [&](int i, int j, float x) {
                         float *at = smem.raw + i * square + j;
                         *at = first ? *at + x : x;
                     });
        __syncthreads();
    }
}

/* part_i = weight(i) M left_i, summed over all columns of values; M is S or G of the chunk. */
template <typename T, int C, typename Left, typename Weight>
__device__ inline void through_memory(const gradient_smem<T, C> &smem, int dim, int values, const T *memory,
                                      Left load_left_rows, Weight weight, float *part)
{
    const int across = tile_stride(SLICE), stride = tile_stride(dim), rows = tile_pad(dim);
    for (int first = 0; first < values; first += SLICE) {
        const int columns = min((int)SLICE, values - first);
        load_left_rows(first, columns);
        tile_load(smem.memory, across, rows, dim, columns, memory + first, (size_t)values);
        __syncthreads();
        tile_product(C, rows, tile_pad(columns), plain(smem.left, across), transposed(smem.memory, across),
                     [&](int i, int j, float x) {
                         float *at = part + i * stride + j;
                         *at = first ? fmaf(weight(i), x, *at) : weight(i) * x;
                     });
        __syncthreads();
    }
}

/* ⟨S, G⟩ of the chunk. */
template <typename T> __device__ inline float inner_product(const T *s, const T *g, int count, float *smem)
{
    float sum = 0.0f;
    for (int i = (int)threadIdx.x; i < count; i += TILE_THREADS) sum = fmaf(to_float(s[i]), to_float(g[i]), sum);
    return block_sum(sum, smem);
}

/* da_t = Σ_{i>=t} (from_s_i + Σ_{j<t} Z_ij) + Σ_{j<t} to_s_j + through. Z is replaced by its sums over i >= t. */
template <typename T, int C>
__device__ inline void store_gates(const gradient_smem<T, C> &smem, int tokens, double through, T *to, size_t ld)
{
    const int square = tile_stride(C);
    for (int j = (int)threadIdx.x; j < C; j += TILE_THREADS)
        for (int i = C - 2; i > j; i--) smem.z[i * square + j] += smem.z[(i + 1) * square + j];
    __syncthreads();
    for (int t = (int)threadIdx.x; t < tokens; t += TILE_THREADS) {
        double sum = through;
        for (int i = t; i < tokens; i++) sum += smem.from_s[i];
        for (int j = 0; j < t; j++) sum += smem.to_s[j] + (double)smem.z[t * square + j];
        to[(size_t)t * ld] = from_float<T>((float)sum);
    }
}

/* Computes dq, dk and the gradients of the gates of a chunk of one key head, from x, y, S and G. */
template <typename T, int C> __global__ void __launch_bounds__(TILE_THREADS) delta_gradients_kernel(bo_gpu_memory a)
{
    BO_SHARED(shared);
    const bo_gpu_attention &call = a.call;
    const int tile = (int)blockIdx.x, h = (int)blockIdx.y, dim = call.dim, values = call.value_dim;
    const int group = call.reads_first ? 0 : call.heads / call.key_heads;
    const int rows = tile_pad(dim), stride = tile_stride(dim), square = tile_stride(C), across = tile_stride(SLICE);
    const bool gated = call.dlog_gate != nullptr;
    const chunk at = chunk_of(call.keys, C, tile);
    if (at.tokens == 0) return;
    smem_carver carver = {shared, 0};
    const gradient_smem<T, C> smem(&carver, dim, gated);
    const token_weights<C> weights = smem.weights;
    const chunk_arrays<T> arrays = arrays_of<T>(a, at, tile, h);
    const auto load_y = [&](int first, int columns) {
        tile_load(smem.left, across, C, at.tokens, columns, arrays.du + first, arrays.wide);
    };
    const auto load_u_into = [&](T *to, int first, int columns) {
        tile_load(to, across, C, at.tokens, columns, arrays.x + first, arrays.wide,
                  [&](int j) { return weights.beta[j]; });
    };
    const auto load_u = [&](int first, int columns) { load_u_into(smem.right, first, columns); };
    load_weights<T, C>(call, at, h, weights);
    load_keys<T, C>(a, arrays, at.tokens, smem.k);
    __syncthreads();
    /* between keys: N and Z */
    raw_pairs(smem, values, load_y, load_u);
    tile_product(C, C, rows, plain(smem.k, stride), transposed(smem.k, stride), [&](int i, int j, float x) {
        const float n = j < i ? -weights.between(i, j) * smem.raw[i * square + j] : 0.0f;
        smem.pairs[i * square + j] = from_float<T>(n);
        if (gated) smem.z[i * square + j] = n * x;
    });
    __syncthreads();
    tile_product(C, rows, C, plain(smem.pairs, square), plain(smem.k, stride),
                 [&](int i, int j, float x) { smem.dk[i * stride + j] = x; });
    tile_product(C, rows, C, transposed(smem.pairs, square), plain(smem.k, stride),
                 [&](int i, int j, float x) { smem.dk[i * stride + j] += x; });
    __syncthreads();
    /* from keys to S' */
    through_memory(
        smem, dim, values, arrays.dS, [&](int first, int columns) { load_u_into(smem.left, first, columns); },
        [&](int j) { return weights.after(j); }, smem.part);
    tile_row_dots(C, dim, smem.part, stride, smem.k, stride, [&](int j, float sum) { smem.to_s[j] = (double)sum; });
    tile_add(smem.dk, smem.part, stride, C, dim);
    __syncthreads();
    /* from S to keys */
    through_memory(
        smem, dim, values, (const T *)arrays.memory, load_y, [&](int i) { return -weights.before(i); }, smem.part);
    tile_row_dots(C, dim, smem.part, stride, smem.k, stride, [&](int j, float sum) { smem.from_s[j] = (double)sum; });
    tile_add(smem.dk, smem.part, stride, C, dim);
    __syncthreads();
    for (int head = h * group; head < (h + 1) * group; head++) {
        const T *dout = numbers_at((const T *)call.dout, call.strides.dout, at.sequence, at.row, head);
        const auto load_dout = [&](int first, int columns) {
            load_values<T, C>(dout, call.strides.dout.row, at.tokens, first, columns, smem.left, across);
        };
        load_queries<T, C>(a, at, head, smem.q, tile_one());
        through_memory(
            smem, dim, values, (const T *)arrays.memory, load_dout, [&](int i) { return weights.before(i); }, smem.dq);
        tile_row_dots(C, dim, smem.dq, stride, smem.q, stride,
                      [&](int i, float sum) { smem.from_s[i] += (double)sum; });
        raw_pairs(smem, values, load_dout, load_u);
        tile_product(C, C, rows, plain(smem.q, stride), transposed(smem.k, stride), [&](int i, int j, float x) {
            const float p = j <= i ? weights.between(i, j) * smem.raw[i * square + j] : 0.0f;
            smem.pairs[i * square + j] = from_float<T>(p);
            if (gated && j < i) smem.z[i * square + j] += p * x;
        });
        __syncthreads();
        tile_product(C, rows, C, plain(smem.pairs, square), plain(smem.k, stride),
                     [&](int i, int j, float x) { smem.dq[i * stride + j] += x; });
        tile_product(C, rows, C, transposed(smem.pairs, square), plain(smem.q, stride),
                     [&](int i, int j, float x) { smem.dk[i * stride + j] += x; });
        __syncthreads();
        if (call.dq)
            unit_store(smem.dq, stride, at.tokens, dim, a.unit, call.scale,
                       numbers_at((const T *)call.q, call.strides.q, at.sequence, at.row, head), call.strides.q.row,
                       numbers_at((T *)call.dq, call.strides.dq, at.sequence, at.row, head), call.strides.dq.row);
        __syncthreads();
    }
    if (call.dk)
        unit_store(smem.dk, stride, at.tokens, dim, a.unit, 1.0f, arrays.k, arrays.ldk,
                   numbers_at((T *)call.dk, call.strides.dk, at.sequence, at.row, h), call.strides.dk.row);
    if (!gated) return;
    const float through = weights.whole() * inner_product(arrays.memory, arrays.dS, dim * values, smem.sums);
    store_gates(smem, at.tokens, (double)through,
                numbers_at((T *)call.dlog_gate, call.strides.dlog_gate, at.sequence, at.row, h),
                call.strides.dlog_gate.row);
}

/* ---- launches ---------------------------------------------------------------------------------------------------- */

template <typename T, int C> struct memories_of {
    static bo_gpu_error run(bo_gpu *cuda, const bo_gpu_memory *a)
    {
        const bo_gpu_attention &call = a->call;
        const dim3 chunks(tiles_of(call.keys, C), (unsigned)call.key_heads);
        const dim3 scans((unsigned)call.keys.sequences, (unsigned)call.key_heads,
                         (unsigned)ceil_div((size_t)call.value_dim, SCAN_SLICE));
        smem_carver prepare = {}, scan = {};
        (void)prepare_smem<T, C>(&prepare, call.dim);
        (void)scan_smem<T, C>(&scan, call.dim, false);
        bo_gpu_error error = launch(cuda, chunks, dim3(TILE_THREADS), prepare.bytes, delta_prepare_kernel<T, C>, *a);
        if (error) return error;
        return launch(cuda, scans, dim3(TILE_THREADS), scan.bytes, delta_memories_kernel<T, C>, *a);
    }
};

template <typename T, int C> struct outputs_of {
    static bo_gpu_error run(bo_gpu *cuda, const bo_gpu_memory *a)
    {
        smem_carver carver = {};
        (void)output_smem<T, C>(&carver, a->call.dim);
        return launch(cuda, dim3(tiles_of(a->call.keys, C), (unsigned)a->call.heads), dim3(TILE_THREADS), carver.bytes,
                      delta_outputs_kernel<T, C>, *a);
    }
};

template <typename T, int C> struct gradients_of {
    static bo_gpu_error run(bo_gpu *cuda, const bo_gpu_memory *a)
    {
        const bo_gpu_attention &call = a->call;
        const dim3 chunks(tiles_of(call.keys, C), (unsigned)call.key_heads), threads(TILE_THREADS);
        const dim3 scans((unsigned)call.keys.sequences, (unsigned)call.key_heads,
                         (unsigned)ceil_div((size_t)call.value_dim, SCAN_SLICE));
        smem_carver outputs = {}, scan = {}, solve = {}, gradients = {};
        (void)output_smem<T, C>(&outputs, call.dim);
        (void)scan_smem<T, C>(&scan, call.dim, true);
        (void)prepare_smem<T, C>(&solve, call.dim);
        solve.array<float>(TILE_WARPS * C);
        (void)gradient_smem<T, C>(&gradients, call.dim, call.dlog_gate != nullptr);
        bo_gpu_error error = launch(cuda, chunks, threads, outputs.bytes, delta_du_kernel<T, C>, *a);
        if (!error) error = launch(cuda, scans, threads, scan.bytes, delta_dS_kernel<T, C>, *a);
        if (!error) error = launch(cuda, chunks, threads, solve.bytes, delta_solve_kernel<T, C>, *a);
        if (!error) error = launch(cuda, chunks, threads, gradients.bytes, delta_gradients_kernel<T, C>, *a);
        return error;
    }
};

/* Runs the code for the type and the chunk of a call. */
template <template <typename, int> class Code> static bo_gpu_error dispatch(bo_gpu *cuda, const bo_gpu_memory *a)
{
    const bool rounded = a->call.type == BO_ELEMENT_BFLOAT16;
    if (a->chunk == 64) return rounded ? Code<bf16, 64>::run(cuda, a) : Code<float, 64>::run(cuda, a);
    if (a->chunk == 32) return rounded ? Code<bf16, 32>::run(cuda, a) : Code<float, 32>::run(cuda, a);
    return rounded ? Code<bf16, 16>::run(cuda, a) : Code<float, 16>::run(cuda, a);
}

} // namespace delta

bo_gpu_error delta_memories(bo_gpu *cuda, const bo_gpu_memory *a)
{
    if (a->fast) return delta_fast_memories(cuda, a);
    return delta::dispatch<delta::memories_of>(cuda, a);
}
bo_gpu_error delta_outputs(bo_gpu *cuda, const bo_gpu_memory *a)
{
    if (a->fast) return delta_fast_outputs(cuda, a);
    return delta::dispatch<delta::outputs_of>(cuda, a);
}
bo_gpu_error delta_gradients(bo_gpu *cuda, const bo_gpu_memory *a)
{
    if (a->fast) return delta_fast_gradients(cuda, a);
    return delta::dispatch<delta::gradients_of>(cuda, a);
}

} // namespace bo
