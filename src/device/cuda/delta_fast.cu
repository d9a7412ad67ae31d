/* The delta rule in bfloat16 on tensor cores. src/attention/delta.h and delta.cu have the formulas and names. In a
 * chunk of 64 tokens, with P strictly lower triangular and B = diag(β),
 *
 *     (I + P B)^-1 = I - N B      N strictly lower triangular: N = P - P B N
 *     X = V - N B V    W = exp(b) K - N B exp(b) K     x = X - W S     u = β x
 *     S' = (exp(b_T) - K~ᵀ W) S + K~ᵀ X                K~ = β exp(b_T - b) K
 *     du = R - Nᵀ B R                                  R = exp(b_T - b) K G + Aᵀ do
 *     G before the chunk = (exp(b_T) - Wᵀ K~) G + Qᵀ do - Wᵀ B Aᵀ do        Q = s exp(b) q
 *
 * so every chunk is a matrix (its diagonal: decays, float; the rest: transitions, bfloat16) and a sum (parts) that are
 * computed in parallel, and only S' and G are sequential: one product per chunk, in registers of a warp with 16 columns
 * of values (serial). N is computed by blocks of 16 x 16: the diagonal blocks row by row, the others by products of
 * factors that are split into two bfloat16 each.
 *
 * For n tokens and heads of dim = value_dim = d, elements of t = 2 bytes: forward reads q, k, v, writes out, and writes
 * and reads x, w (2 d), the matrix and S (2 d²/64 each) and the sum (4 d² / 64): about 12 n d t + 16 n d² / 64 bytes.
 */
#include "delta.cuh"
#include "launches.cuh"
#include "memory_fast.cuh"

namespace bo {
namespace delta_fast {

using namespace memories;
using delta::load_weights;
using delta::token_weights;

typedef token_weights<CHUNK> weights_type;

/* ---- a chunk ----------------------------------------------------------------------------------------------------- */

/* A block's view of a chunk of one head. */
struct chunk_view {
    const bf16 *q, *k, *v, *dout;
    bf16 *x, *w;
    const bf16 *memory, *gradient; /* S before the chunk, its gradient after it */
    bf16 *inverse;
    size_t ldq, ldk, ldv, lddout, ldx, ldw;
};

__device__ inline chunk_view view_of(const bo_gpu_memory &a, const chunk &at, int tile, int head, int h)
{
    const bo_gpu_attention &call = a.call;
    const bo_gpu_attention_strides &by = call.strides;
    const size_t index = (size_t)tile * (size_t)call.key_heads + (size_t)h;
    chunk_view out;
    out.q = numbers_at((const bf16 *)call.q, by.q, at.sequence, at.row, head);
    out.k = numbers_at((const bf16 *)call.k, by.k, at.sequence, at.row, h);
    out.v = numbers_at((const bf16 *)call.v, by.v, at.sequence, at.row, h);
    out.dout = numbers_if_any((const bf16 *)call.dout, by.dout, at.sequence, at.row, head);
    out.x = row_at((bf16 *)a.x, at.row, call.key_heads, h, call.value_dim);
    out.w = row_at((bf16 *)a.w, at.row, call.key_heads, h, call.dim);
    out.memory = matrix_at((const bf16 *)a.memories, a, tile, h);
    out.gradient = a.gradients ? query_matrix_at((const bf16 *)a.gradients, a, tile, head) : nullptr;
    out.inverse = a.inverses ? (bf16 *)a.inverses + index * (2 * CHUNK * CHUNK) : nullptr;
    out.ldq = by.q.row, out.ldk = by.k.row, out.ldv = by.v.row, out.lddout = by.dout.row;
    out.ldx = (size_t)(call.key_heads * call.value_dim), out.ldw = (size_t)(call.key_heads * call.dim);
    return out;
}

/* Normalizes the rows of a tile, after the barrier that completes it; the next one completes the result. */
template <int D> __device__ inline void normalize(bf16 *x)
{
    for (int i = warp_id(); i < CHUNK; i += TILE_WARPS) {
        float square = 0.0f, value[D / WARP];
#pragma unroll
        for (int m = 0; m < D / WARP; m++) {
            value[m] = to_float(x[i * (D + 8) + m * WARP + lane_id()]);
            square = fmaf(value[m], value[m], square);
        }
        const float by = 1.0f / (sqrtf(warp_sum(square)) + BO_UNIT_EPSILON);
#pragma unroll
        for (int m = 0; m < D / WARP; m++) x[i * (D + 8) + m * WARP + lane_id()] = from_float<bf16>(by * value[m]);
    }
}

/* to = factor(row) x, for tiles of keys or queries. */
template <int D, typename Factor> __device__ inline void scale_rows(bf16 *to, const bf16 *x, Factor factor)
{
    for (int at = (int)threadIdx.x; at < CHUNK * D / 2; at += TILE_THREADS) {
        const int i = at / (D / 2), place = i * (D + 8) + at % (D / 2) * 2;
        const float f = factor(i);
        float low, high;
        unpack(*(const uint32_t *)(x + place), low, high);
        *(uint32_t *)(to + place) = pack_bf16(f * low, f * high);
    }
}

/* A_ij = D_ij s q_i·k_j for j <= i, 0 in the rest of the 16 x 32 parts with such elements. */
template <int D>
__device__ inline void find_scores(const weights_type &weights, float scale, const bf16 *q, const bf16 *k, bf16 *to)
{
    warp_parts(CHUNK, CHUNK, [&](int row, int column) {
        if (column > row + 15) return;
        float d[4][4];
        clear(d);
        accumulate(d, row, column, 0, D, plain(q, D + 8), transposed(k, D + 8));
        each(d, row, column, [&](int i, int j, float &x) { x = j <= i ? scale * x * weights.between(i, j) : 0.0f; });
        to_tile(d, row, column, to, SQUARE);
    });
}

/* ---- inverses ---------------------------------------------------------------------------------------------------- */

/* A fragment in two parts: high is the rounded fragment, low its error. */
template <int N> struct split_fragment {
    uint32_t high[N], low[N];
    __device__ void set(int i, float x, float y)
    {
        float a, b;
        high[i] = pack_bf16(x, y);
        unpack(high[i], a, b);
        low[i] = pack_bf16(x - a, y - b);
    }
};

__device__ inline void mma_split(float (&d)[4], const split_fragment<4> &a, const split_fragment<2> &b)
{
    mma(d, a.low, b.high);
    mma(d, a.high, b.low);
    mma(d, a.high, b.high);
}

/* A (16 x 16) at (row, column) of a matrix of floats, column j times factor[column + j]. */
__device__ inline split_fragment<4> split_left(const float *x, int row, int column, const float *factor)
{
    split_fragment<4> out;
#pragma unroll
    for (int e = 0; e < 4; e++) {
        const int i = row + lane_row() + e % 2 * 8, j = column + e / 2 * 8 + lane_column();
        out.set(e, x[i * SQUARE + j] * factor[j], x[i * SQUARE + j + 1] * factor[j + 1]);
    }
    return out;
}

/* B (16 x 8) at (row, column), row i times factor[row + i] (NULL: 1). */
__device__ inline split_fragment<2> split_right(const float *x, int row, int column, const float *factor)
{
    split_fragment<2> out;
#pragma unroll
    for (int e = 0; e < 2; e++) {
        const int i = row + e * 8 + lane_column(), j = column + lane_row();
        const float first = factor ? factor[i] : 1.0f, second = factor ? factor[i + 1] : 1.0f;
        out.set(e, first * x[i * SQUARE + j], second * x[(i + 1) * SQUARE + j]);
    }
    return out;
}

/* Accumulators of 16 x 16 elements as A. */
__device__ inline split_fragment<4> split_accumulators(const float (&d)[2][4])
{
    split_fragment<4> out;
#pragma unroll
    for (int e = 0; e < 4; e++) out.set(e, d[e / 2][e % 2 * 2], d[e / 2][e % 2 * 2 + 1]);
    return out;
}

/* The diagonal block of N from `first` on, by one warp: lane j has column j. */
__device__ inline void invert_diagonal(const float *p, const float *beta, int first, float *n)
{
    const int j = lane_id() % SUB;
    float x[SUB];
#pragma unroll
    for (int i = 0; i < SUB; i++) x[i] = i > j ? p[(first + i) * SQUARE + first + j] : 0.0f;
#pragma unroll
    for (int l = 0; l + 1 < SUB; l++) {
        const float y = beta[first + l] * x[l];
#pragma unroll
        for (int i = l + 1; i < SUB; i++) x[i] = fmaf(-p[(first + i) * SQUARE + first + l], y, x[i]);
    }
#pragma unroll
    for (int i = 0; i < SUB; i++)
        if (lane_id() < SUB) n[(first + i) * SQUARE + first + j] = x[i];
}

/* N = P - P B N for strictly lower triangular P; N is zero elsewhere before. Warp r has the rows of block r. Starts
 * after a barrier, and ends with one. */
__device__ inline void invert(const float *p, const float *beta, float *n)
{
    const int r = warp_id(), row = r * SUB;
    float y[SUBS - 1][2][4]; /* (I - N_rr B) P_rl */
    if (r < SUBS) {
        invert_diagonal(p, beta, row, n);
        __syncwarp();
        const split_fragment<4> diagonal = split_left(n, row, row, beta);
#pragma unroll
        for (int l = 0; l < SUBS - 1; l++) {
            if (l >= r) continue;
#pragma unroll
            for (int t = 0; t < 2; t++) {
                float d[4] = {0.0f, 0.0f, 0.0f, 0.0f};
                mma_split(d, diagonal, split_right(p, row, l * SUB + 8 * t, nullptr));
#pragma unroll
                for (int e = 0; e < 4; e++)
                    y[l][t][e] =
                        p[(row + lane_row() + e / 2 * 8) * SQUARE + l * SUB + 8 * t + lane_column() + e % 2] - d[e];
            }
        }
    }
    for (int level = 1; level < SUBS; level++) {
        __syncthreads();
        const int m = r - level;
        if (r >= SUBS || m < 0) continue;
        float d[2][4];
        clear(d);
#pragma unroll
        for (int l = 0; l < SUBS - 1; l++) {
            if (l < m || l >= r) continue;
            const split_fragment<4> left = split_accumulators(y[l]);
#pragma unroll
            for (int t = 0; t < 2; t++) mma_split(d[t], left, split_right(n, l * SUB, m * SUB + 8 * t, beta));
        }
#pragma unroll
        for (int l = 0; l < SUBS - 1; l++) {
            if (l != m) continue;
#pragma unroll
            for (int t = 0; t < 2; t++)
#pragma unroll
                for (int e = 0; e < 4; e++)
                    n[(row + lane_row() + e / 2 * 8) * SQUARE + m * SUB + 8 * t + lane_column() + e % 2] =
                        y[l][t][e] - d[t][e];
        }
    }
    __syncthreads();
}

/* ---- parts of chunks --------------------------------------------------------------------------------------------- */

template <int D> struct prepare_smem {
    weights_type weights;
    float *factors;    /* β, then β exp(b): CHUNK */
    bf16 *k, *learned; /* K and K~: CHUNK x D */
    float *n, *p;      /* CHUNK x CHUNK */
    bf16 *high, *low;  /* N times factors, in two parts; in the place of p */
    bf16 *v, *x;       /* CHUNK x SLICE */
    bf16 *w;           /* CHUNK x D */
    __host__ __device__ explicit prepare_smem(smem_carver *carver)
    {
        weights = delta::carve_weights<CHUNK>(carver);
        factors = carver->array<float>(CHUNK);
        k = carver->tile<bf16>(CHUNK, D);
        learned = carver->tile<bf16>(CHUNK, D);
        n = carver->tile<float>(CHUNK, CHUNK);
        p = carver->tile<float>(CHUNK, CHUNK);
        high = (bf16 *)p, low = high + CHUNK * SQUARE;
        v = carver->tile<bf16>(CHUNK, SLICE);
        x = carver->tile<bf16>(CHUNK, SLICE);
        w = carver->tile<bf16>(CHUNK, D);
    }
};

/* Splits N, column j times factors[j], into its two tiles. */
template <int D> __device__ inline void split_inverse(const prepare_smem<D> &smem)
{
    for (int at = (int)threadIdx.x; at < CHUNK * CHUNK / 2; at += TILE_THREADS) {
        const int i = at / (CHUNK / 2), j = at % (CHUNK / 2) * 2, place = i * SQUARE + j;
        split_fragment<1> both;
        both.set(0, smem.factors[j] * smem.n[place], smem.factors[j + 1] * smem.n[place + 1]);
        *(uint32_t *)(smem.high + place) = both.high[0], *(uint32_t *)(smem.low + place) = both.low[0];
    }
}

/* Computes X, W, the matrix and the sum of a chunk; for backward also B N, split. */
template <int D>
__global__ void __launch_bounds__(TILE_THREADS, D == 64 ? 2 : 1) delta_fast_prepare_kernel(bo_gpu_memory a)
{
    BO_SHARED(shared);
    enum { STRIDE = D + 8 };
    const bo_gpu_attention &call = a.call;
    const int tile = (int)blockIdx.x, h = (int)blockIdx.y, values = call.value_dim;
    const chunk at = chunk_of(call.keys, CHUNK, tile);
    if (at.tokens == 0) return;
    smem_carver carver = {shared, 0};
    const prepare_smem<D> smem(&carver);
    const weights_type &weights = smem.weights;
    const chunk_view view = view_of(a, at, tile, h, h);
    const size_t index = (size_t)tile * (size_t)call.key_heads + (size_t)h;
    copy_tile(smem.k, STRIDE, CHUNK, at.tokens, call.dim, view.k, view.ldk, D);
    copy_commit();
    copy_tile(smem.v, ACROSS, CHUNK, at.tokens, min((int)SLICE, values), view.v, view.ldv);
    copy_commit();
    load_weights<bf16, CHUNK>(call, at, h, weights);
    for (int i = (int)threadIdx.x; i < CHUNK * SQUARE; i += TILE_THREADS) smem.n[i] = 0.0f;
    copy_wait<1>();
    __syncthreads();
    if (a.unit) {
        normalize<D>(smem.k);
        __syncthreads();
    }
    warp_parts(CHUNK, CHUNK, [&](int row, int column) {
        float d[4][4];
        clear(d);
        if (column <= row) accumulate(d, row, column, 0, D, plain(smem.k, STRIDE), transposed(smem.k, STRIDE));
        each(d, row, column,
             [&](int i, int j, float x) { smem.p[i * SQUARE + j] = j < i ? x * weights.between(i, j) : 0.0f; });
    });
    scale_rows<D>(smem.learned, smem.k, [&](int i) { return weights.beta[i] * weights.after(i); });
    if (threadIdx.x < CHUNK) smem.factors[threadIdx.x] = weights.beta[threadIdx.x];
    __syncthreads();
    invert(smem.p, weights.beta, smem.n);
    split_inverse(smem);
    for (int e = (int)threadIdx.x; view.inverse && e < CHUNK * CHUNK / 2; e += TILE_THREADS) {
        const int i = e / (CHUNK / 2), j = e % (CHUNK / 2) * 2;
        split_fragment<1> both;
        both.set(0, weights.beta[i] * smem.n[i * SQUARE + j], weights.beta[i] * smem.n[i * SQUARE + j + 1]);
        *(uint32_t *)(view.inverse + 2 * e) = both.high[0];
        *(uint32_t *)(view.inverse + CHUNK * CHUNK + 2 * e) = both.low[0];
    }
    float *parts = matrix_at(a.parts, a, tile, h);
    for (int slice = 0; slice < values; slice += SLICE) {
        const int columns = min((int)SLICE, values - slice);
        if (slice) {
            copy_tile(smem.v, ACROSS, CHUNK, at.tokens, columns, view.v + slice, view.ldv);
            copy_commit();
        }
        copy_wait<0>();
        __syncthreads();
        warp_parts(CHUNK, SLICE, [&](int row, int column) {
            float d[4][4];
            clear(d);
            accumulate(d, row, column, 0, row + 16, plain(smem.low, SQUARE), plain(smem.v, ACROSS));
            accumulate(d, row, column, 0, row + 16, plain(smem.high, SQUARE), plain(smem.v, ACROSS));
            each(d, row, column, [&](int i, int j, float &x) { x = to_float(smem.v[i * ACROSS + j]) - x; });
            to_tile(d, row, column, smem.x, ACROSS);
            each_pair(d, row, column, [&](int i, int j, float x, float y) {
                if (i < at.tokens && j < columns)
                    store_pair(view.x + (size_t)i * view.ldx + (size_t)(slice + j), columns - j, x, y);
            });
        });
        __syncthreads();
        warp_parts(tile_pad(columns), D, [&](int row, int column) {
            float d[4][4];
            clear(d);
            accumulate(d, row, column, 0, CHUNK, transposed(smem.x, ACROSS), plain(smem.learned, STRIDE));
            each_pair(d, row, column, [&](int i, int j, float x, float y) {
                if (i < columns) *(float2 *)(parts + (size_t)(slice + i) * D + j) = make_float2(x, y);
            });
        });
    }
    if (threadIdx.x < CHUNK) smem.factors[threadIdx.x] *= weights.before((int)threadIdx.x);
    __syncthreads();
    split_inverse(smem);
    __syncthreads();
    warp_parts(CHUNK, D, [&](int row, int column) {
        float d[4][4];
        clear(d);
        accumulate(d, row, column, 0, row + 16, plain(smem.low, SQUARE), plain(smem.k, STRIDE));
        accumulate(d, row, column, 0, row + 16, plain(smem.high, SQUARE), plain(smem.k, STRIDE));
        each(d, row, column,
             [&](int i, int j, float &x) { x = weights.before(i) * to_float(smem.k[i * STRIDE + j]) - x; });
        to_tile(d, row, column, smem.w, STRIDE);
        each_pair(d, row, column, [&](int i, int j, float x, float y) {
            if (i < at.tokens && j < call.dim)
                store_pair(view.w + (size_t)i * view.ldw + (size_t)j, call.dim - j, x, y);
        });
    });
    __syncthreads();
    bf16 *transition = (bf16 *)a.transitions + index * (size_t)(D * D);
    warp_parts(D, D, [&](int row, int column) {
        float d[4][4];
        clear(d);
        accumulate(d, row, column, 0, CHUNK, transposed(smem.learned, STRIDE), plain(smem.w, STRIDE));
        each(d, row, column, [&](int i, int j, float &x) {
            if (i != j) return;
            decays_at(a, tile, h)[i] = weights.whole() - x;
            x = 0.0f;
        });
        each_pair(d, row, column,
                  [&](int i, int j, float x, float y) { *(uint32_t *)(transition + i * D + j) = pack_bf16(-x, -y); });
    });
}

/* The part of a chunk in the gradient of S before it: Qᵀ do - Wᵀ B Aᵀ do. */
template <int D> struct back_smem {
    weights_type weights;
    bf16 *q, *k, *w; /* CHUNK x D */
    bf16 *scores;    /* CHUNK x CHUNK */
    bf16 *dout, *du; /* CHUNK x SLICE */
    __host__ __device__ explicit back_smem(smem_carver *carver)
    {
        weights = delta::carve_weights<CHUNK>(carver);
        q = carver->tile<bf16>(CHUNK, D);
        k = carver->tile<bf16>(CHUNK, D);
        w = carver->tile<bf16>(CHUNK, D);
        scores = carver->tile<bf16>(CHUNK, CHUNK);
        dout = carver->tile<bf16>(CHUNK, SLICE);
        du = carver->tile<bf16>(CHUNK, SLICE);
    }
};

template <int D> __global__ void __launch_bounds__(TILE_THREADS, 2) delta_fast_back_kernel(bo_gpu_memory a)
{
    BO_SHARED(shared);
    enum { STRIDE = D + 8 };
    const bo_gpu_attention &call = a.call;
    const int tile = (int)blockIdx.x, head = (int)blockIdx.y, h = head / (call.heads / call.key_heads);
    const int values = call.value_dim;
    const chunk at = chunk_of(call.keys, CHUNK, tile);
    if (at.tokens == 0) return;
    smem_carver carver = {shared, 0};
    const back_smem<D> smem(&carver);
    const weights_type &weights = smem.weights;
    const chunk_view view = view_of(a, at, tile, head, h);
    copy_tile(smem.q, STRIDE, CHUNK, at.tokens, call.dim, view.q, view.ldq, D);
    copy_tile(smem.k, STRIDE, CHUNK, at.tokens, call.dim, view.k, view.ldk, D);
    copy_tile(smem.w, STRIDE, CHUNK, at.tokens, call.dim, view.w, view.ldw, D);
    copy_tile(smem.dout, ACROSS, CHUNK, at.tokens, min((int)SLICE, values), view.dout, view.lddout);
    copy_commit();
    load_weights<bf16, CHUNK>(call, at, h, weights);
    copy_wait<0>();
    __syncthreads();
    if (a.unit) {
        normalize<D>(smem.q), normalize<D>(smem.k);
        __syncthreads();
    }
    find_scores<D>(weights, call.scale, smem.q, smem.k, smem.scores);
    __syncthreads();
    scale_rows<D>(smem.q, smem.q, [&](int i) { return call.scale * weights.before(i); });
    scale_rows<D>(smem.w, smem.w, [&](int i) { return -weights.beta[i]; });
    float *parts = query_matrix_at(a.parts, a, tile, head);
    for (int slice = 0; slice < values; slice += SLICE) {
        const int columns = min((int)SLICE, values - slice);
        if (slice) {
            __syncthreads();
            copy_tile(smem.dout, ACROSS, CHUNK, at.tokens, columns, view.dout + slice, view.lddout);
            copy_commit();
            copy_wait<0>();
            __syncthreads();
        }
        warp_parts(CHUNK, SLICE, [&](int row, int column) {
            float d[4][4];
            clear(d);
            accumulate(d, row, column, row, CHUNK - row, transposed(smem.scores, SQUARE), plain(smem.dout, ACROSS));
            to_tile(d, row, column, smem.du, ACROSS);
        });
        __syncthreads();
        warp_parts(tile_pad(columns), D, [&](int row, int column) {
            float d[4][4];
            clear(d);
            accumulate(d, row, column, 0, CHUNK, transposed(smem.dout, ACROSS), plain(smem.q, STRIDE));
            accumulate(d, row, column, 0, CHUNK, transposed(smem.du, ACROSS), plain(smem.w, STRIDE));
            each_pair(d, row, column, [&](int i, int j, float x, float y) {
                if (i < columns) *(float2 *)(parts + (size_t)(slice + i) * D + j) = make_float2(x, y);
            });
        });
    }
}

/* ---- from chunk to chunk ----------------------------------------------------------------------------------------- */

/* A stage: the matrix of a chunk, rows of its sum, its decays. */
template <int D, int WARPS> struct stage_layout {
    enum {
        STRIDE = D + 8,
        MATRIX = D * STRIDE * (int)sizeof(bf16),
        PART = 16 * WARPS * STRIDE * (int)sizeof(float),
        BYTES = MATRIX + PART + D * (int)sizeof(float)
    };
};

/* S before each chunk, or (BACK) its gradient after each. A warp has 16 columns of values in its registers; the
 * matrices of the next chunks are copied to shared memory. */
template <int D, bool BACK, int WARPS, int STAGES>
__global__ void __launch_bounds__(WARPS *WARP) delta_fast_serial_kernel(bo_gpu_memory a)
{
    BO_SHARED(shared);
    typedef stage_layout<D, WARPS> layout;
    enum { STRIDE = layout::STRIDE, THREADS = WARPS * WARP };
    const bo_gpu_attention &call = a.call;
    const int head = (int)blockIdx.y, h = BACK ? head / (call.heads / call.key_heads) : head;
    const int sequence = (int)blockIdx.x, block = (int)blockIdx.z * 16 * WARPS;
    const int values = call.value_dim, first = 16 * warp_id();
    const int tokens = rows_before(call.keys, sequence + 1) - rows_before(call.keys, sequence);
    const int chunks = (int)ceil_div((size_t)tokens, CHUNK), start = first_tile(call.keys, CHUNK, sequence);
    const auto tile_of = [&](int i) { return start + (BACK ? chunks - 1 - i : i); };
    const auto fetch = [&](int i) {
        unsigned char *to = shared + i % STAGES * layout::BYTES;
        if (i < chunks) {
            const int tile = tile_of(i);
            const bf16 *matrix =
                (const bf16 *)a.transitions + ((size_t)tile * (size_t)call.key_heads + (size_t)h) * (D * D);
            const float *part = (BACK ? query_matrix_at((const float *)a.parts, a, tile, head)
                                      : matrix_at((const float *)a.parts, a, tile, h)) +
                                (size_t)block * D;
#pragma unroll 8
            for (int e = (int)threadIdx.x; e < D * D / 8; e += THREADS)
                copy_async((bf16 *)to + e / (D / 8) * STRIDE + e % (D / 8) * 8, matrix + e * 8);
#pragma unroll 8
            for (int e = (int)threadIdx.x; e < 16 * WARPS * D / 4; e += THREADS) {
                const int v = e / (D / 4), c = e % (D / 4) * 4;
                const bool present = block + v < values;
                copy_async((float *)(to + layout::MATRIX) + v * STRIDE + c, present ? part + v * D + c : part, present);
            }
            for (int e = (int)threadIdx.x; e < D / 4; e += THREADS)
                copy_async((float *)(to + layout::MATRIX + layout::PART) + e * 4, decays_at(a, tile, h) + e * 4);
        }
        copy_commit();
    };
#pragma unroll
    for (int i = 0; i < STAGES - 1; i++) fetch(i);
    float s[D / 8][4];
    clear(s);
    float *state = call.states ? state_memory(call, sequence, h) + block : nullptr;
    if (state && !BACK)
        each(s, first, 0, [&](int i, int j, float &x) {
            if (block + i < values && j < call.dim) x = state[(size_t)j * (size_t)values + (size_t)i];
        });
    for (int i = 0; i < chunks; i++) {
        copy_wait<STAGES - 2>();
        __syncthreads();
        fetch(i + STAGES - 1);
        const unsigned char *stage = shared + i % STAGES * layout::BYTES;
        const bf16 *matrix = (const bf16 *)stage;
        const float *part = (const float *)(stage + layout::MATRIX),
                    *decay = (const float *)(stage + layout::MATRIX + layout::PART);
        uint32_t f[D / 16][4];
        bf16 *to = (BACK ? query_matrix_at((bf16 *)a.gradients, a, tile_of(i), head)
                         : matrix_at((bf16 *)a.memories, a, tile_of(i), h)) +
                   (size_t)block * D;
#pragma unroll
        for (int n = 0; n < D / 16; n++)
#pragma unroll
            for (int e = 0; e < 4; e++)
                f[n][e] = pack_bf16(s[2 * n + e / 2][e % 2 * 2], s[2 * n + e / 2][e % 2 * 2 + 1]);
#pragma unroll
        for (int t = 0; t < D / 8; t++) {
            const float2 by = *(const float2 *)(decay + 8 * t + lane_column());
#pragma unroll
            for (int r = 0; r < 2; r++) {
                const int v = first + lane_row() + 8 * r, c = 8 * t + lane_column();
                const float2 add = *(const float2 *)(part + v * STRIDE + c);
                s[t][2 * r] = fmaf(by.x, s[t][2 * r], add.x);
                s[t][2 * r + 1] = fmaf(by.y, s[t][2 * r + 1], add.y);
                if (block + v < values) *(uint32_t *)(to + v * D + c) = f[t / 2][t % 2 * 2 + r];
            }
        }
        if (BACK)
            accumulate(s, f, 0, plain(matrix, STRIDE));
        else
            accumulate(s, f, 0, transposed(matrix, STRIDE));
    }
    if (state && !BACK)
        each(s, first, 0, [&](int i, int j, float x) {
            if (block + i < values && j < call.dim) state[(size_t)j * (size_t)values + (size_t)i] = x;
        });
}

/* ---- outputs ----------------------------------------------------------------------------------------------------- */

template <int D> struct output_smem {
    weights_type weights;
    bf16 *q, *k, *w; /* CHUNK x D */
    bf16 *scores;    /* CHUNK x CHUNK */
    bf16 *s;         /* SLICE x D */
    bf16 *x;         /* x, then u: CHUNK x SLICE */
    __host__ __device__ explicit output_smem(smem_carver *carver)
    {
        weights = delta::carve_weights<CHUNK>(carver);
        q = carver->tile<bf16>(CHUNK, D);
        k = carver->tile<bf16>(CHUNK, D);
        w = carver->tile<bf16>(CHUNK, D);
        scores = carver->tile<bf16>(CHUNK, CHUNK);
        s = carver->tile<bf16>(SLICE, D);
        x = carver->tile<bf16>(CHUNK, SLICE);
    }
};

template <int D>
__global__ void __launch_bounds__(TILE_THREADS, D == 64 ? 3 : 2) delta_fast_outputs_kernel(bo_gpu_memory a)
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
    const weights_type &weights = smem.weights;
    const chunk_view view = view_of(a, at, tile, head, h);
    bf16 *out = numbers_at((bf16 *)call.out, call.strides.out, at.sequence, at.row, head);
    const auto start = [&](int slice) {
        const int columns = min((int)SLICE, values - slice);
        copy_tile(smem.s, STRIDE, SLICE, columns, D, view.memory + (size_t)slice * D, D);
        copy_tile(smem.x, ACROSS, CHUNK, at.tokens, columns, view.x + slice, view.ldx, SLICE);
        copy_commit();
    };
    copy_tile(smem.q, STRIDE, CHUNK, at.tokens, call.dim, view.q, view.ldq, D);
    copy_tile(smem.k, STRIDE, CHUNK, at.tokens, call.dim, view.k, view.ldk, D);
    copy_commit();
    copy_tile(smem.w, STRIDE, CHUNK, at.tokens, call.dim, view.w, view.ldw, D);
    start(0);
    load_weights<bf16, CHUNK>(call, at, h, weights);
    copy_wait<1>();
    __syncthreads();
    if (a.unit) {
        normalize<D>(smem.q), normalize<D>(smem.k);
        __syncthreads();
    }
    find_scores<D>(weights, call.scale, smem.q, smem.k, smem.scores);
    for (int slice = 0; slice < values; slice += SLICE) {
        const int columns = min((int)SLICE, values - slice);
        if (slice) {
            __syncthreads();
            start(slice);
        }
        copy_wait<0>();
        __syncthreads();
        warp_parts(CHUNK, SLICE, [&](int row, int column) {
            float d[4][4];
            clear(d);
            accumulate(d, row, column, 0, D, plain(smem.w, STRIDE), transposed(smem.s, STRIDE));
            each(d, row, column,
                 [&](int i, int j, float &x) { x = weights.beta[i] * (to_float(smem.x[i * ACROSS + j]) - x); });
            to_tile(d, row, column, smem.x, ACROSS);
        });
        __syncthreads();
        warp_parts(CHUNK, SLICE, [&](int row, int column) {
            float d[4][4];
            clear(d);
            accumulate(d, row, column, 0, D, plain(smem.q, STRIDE), transposed(smem.s, STRIDE));
            const float by[2] = {call.scale * weights.before(row + lane_row()),
                                 call.scale * weights.before(row + lane_row() + 8)};
#pragma unroll
            for (int t = 0; t < 4; t++)
#pragma unroll
                for (int e = 0; e < 4; e++) d[t][e] *= by[e / 2];
            accumulate(d, row, column, 0, row + 16, plain(smem.scores, SQUARE), plain(smem.x, ACROSS));
            each_pair(d, row, column, [&](int i, int j, float x, float y) {
                if (i < at.tokens && j < columns)
                    store_pair(out + (size_t)i * call.strides.out.row + (size_t)(slice + j), columns - j, x, y);
            });
        });
    }
}

/* ---- gradients --------------------------------------------------------------------------------------------------- */

template <int D> struct gradient_smem {
    enum { WIDE = D + 8 };
    weights_type weights;
    bf16 *q, *k, *w;        /* CHUNK x D */
    bf16 *scores;           /* CHUNK x CHUNK */
    bf16 *high, *low;       /* B N; then the weights of pairs of a query and a key, and of two keys: CHUNK x CHUNK */
    bf16 *s, *g;            /* SLICE x D */
    float *z;               /* Z: CHUNK x CHUNK; in the place of s and g */
    bf16 *u, *dout, *r, *y; /* CHUNK x SLICE */
    float *dq, *dk;         /* CHUNK x D; in the place of u … y */
    float *from_s, *to_s;   /* Z from S and to S': by 32 columns, D / 32 x CHUNK */
    float *dbeta;           /* 2 x CHUNK */
    float *sums;
    __host__ __device__ explicit gradient_smem(smem_carver *carver)
    {
        weights = delta::carve_weights<CHUNK>(carver);
        q = carver->tile<bf16>(CHUNK, D);
        k = carver->tile<bf16>(CHUNK, D);
        w = carver->tile<bf16>(CHUNK, D);
        scores = carver->tile<bf16>(CHUNK, CHUNK);
        high = carver->tile<bf16>(CHUNK, CHUNK);
        low = carver->tile<bf16>(CHUNK, CHUNK);
        s = carver->tile<bf16>(SLICE, D);
        g = carver->tile<bf16>(SLICE, D);
        z = (float *)s;
        static_assert(2 * SLICE * (D + 8) * sizeof(bf16) >= CHUNK * SQUARE * sizeof(float), "z");
        const size_t start = carver->bytes;
        u = carver->tile<bf16>(CHUNK, SLICE);
        dout = carver->tile<bf16>(CHUNK, SLICE);
        r = carver->tile<bf16>(CHUNK, SLICE);
        y = carver->tile<bf16>(CHUNK, SLICE);
        dq = (float *)u, dk = dq + CHUNK * WIDE;
        const size_t floats = 2 * CHUNK * WIDE * sizeof(float);
        if (carver->bytes < start + floats) carver->bytes = start + floats;
        from_s = carver->array<float>(D / 32 * CHUNK);
        to_s = carver->array<float>(D / 32 * CHUNK);
        dbeta = carver->array<float>(2 * CHUNK);
        sums = carver->array<float>(WARP);
    }
};

/* da_t = Σ_{i>=t} (from_s_i + Σ_{j<t} Z_ij) + Σ_{j<t} to_s_j + through. */
template <int D>
__device__ inline void store_gates(const gradient_smem<D> &smem, int tokens, double through, const target &to)
{
    for (int j = (int)threadIdx.x; j < CHUNK; j += TILE_THREADS) {
        float sum = 0.0f;
#pragma unroll 8
        for (int i = CHUNK - 1; i > j; i--) sum += smem.z[i * SQUARE + j], smem.z[i * SQUARE + j] = sum;
    }
    __syncthreads();
    for (int t = warp_id(); t < tokens; t += TILE_WARPS) { /* one warp per token */
        double sum = 0.0;
        for (int i = lane_id(); i < CHUNK; i += WARP) {
            const float *part = i >= t ? smem.from_s : smem.to_s;
            for (int p = 0; p < D / 32; p++) sum += (double)part[p * CHUNK + i];
            if (i < t) sum += (double)smem.z[t * SQUARE + i];
        }
        sum = warp_sum_double(sum);
        if (lane_id() == 0) to.store((size_t)t, 0, (float)(sum + through));
    }
}

/* All gradients of a chunk of one head. */
template <int D>
__global__ void __launch_bounds__(TILE_THREADS, D == 64 ? 2 : 1) delta_fast_gradients_kernel(bo_gpu_memory a)
{
    BO_SHARED(shared);
    enum { STRIDE = D + 8, PARTS = D / 64, WIDE = gradient_smem<D>::WIDE };
    const bo_gpu_attention &call = a.call;
    const int tile = (int)blockIdx.x, head = (int)blockIdx.y, h = head / (call.heads / call.key_heads);
    const int values = call.value_dim;
    const bool gated = call.dlog_gate != nullptr;
    const chunk at = chunk_of(call.keys, CHUNK, tile);
    if (at.tokens == 0) return;
    smem_carver carver = {shared, 0};
    const gradient_smem<D> smem(&carver);
    const weights_type &weights = smem.weights;
    const chunk_view view = view_of(a, at, tile, head, h);
    const bo_gpu_attention_strides &by = call.strides;
    const target dv = target_of(a, call.dv, by.dv, a.dv_parts, at, h, head, values);
    const auto start = [&](int slice) {
        const int columns = min((int)SLICE, values - slice);
        copy_tile(smem.s, STRIDE, SLICE, columns, D, view.memory + (size_t)slice * D, D);
        copy_tile(smem.g, STRIDE, SLICE, columns, D, view.gradient + (size_t)slice * D, D);
        copy_tile(smem.u, ACROSS, CHUNK, at.tokens, columns, view.x + slice, view.ldx, SLICE);
        copy_tile(smem.dout, ACROSS, CHUNK, at.tokens, columns, view.dout + slice, view.lddout, SLICE);
        copy_commit();
    };
    copy_tile(smem.q, STRIDE, CHUNK, at.tokens, call.dim, view.q, view.ldq, D);
    copy_tile(smem.k, STRIDE, CHUNK, at.tokens, call.dim, view.k, view.ldk, D);
    copy_commit();
    copy_tile(smem.w, STRIDE, CHUNK, at.tokens, call.dim, view.w, view.ldw, D);
    copy_tile(smem.high, SQUARE, CHUNK, CHUNK, CHUNK, view.inverse, CHUNK);
    copy_tile(smem.low, SQUARE, CHUNK, CHUNK, CHUNK, view.inverse + CHUNK * CHUNK, CHUNK);
    start(0);
    load_weights<bf16, CHUNK>(call, at, h, weights);
    copy_wait<1>();
    __syncthreads();
    if (a.unit) {
        normalize<D>(smem.q), normalize<D>(smem.k);
        __syncthreads();
    }
    find_scores<D>(weights, call.scale, smem.q, smem.k, smem.scores);
    /* this warp's parts of products with CHUNK rows: 16 rows, and 32 columns (of dim: for each 64 of them) */
    const int row = warp_id() % SUBS * 16, column = warp_id() / SUBS * 32;
    float dA[4][4], yu[4][4], from_q[PARTS][4][4], to_k[PARTS][4][4], from_k[PARTS][4][4], dbeta[2] = {0.0f, 0.0f};
    float through = 0.0f;
    clear(dA), clear(yu);
#pragma unroll
    for (int p = 0; p < PARTS; p++) clear(from_q[p]), clear(to_k[p]), clear(from_k[p]);
    for (int slice = 0; slice < values; slice += SLICE) {
        const int columns = min((int)SLICE, values - slice);
        if (slice) {
            __syncthreads();
            start(slice);
        }
        copy_wait<0>();
        __syncthreads();
        float d[4][4];
        uint32_t x[4][2];
        clear(d);
        accumulate(d, row, column, 0, D, plain(smem.w, STRIDE), transposed(smem.s, STRIDE));
        each(d, row, column, [&](int i, int j, float &e) { e = to_float(smem.u[i * ACROSS + j]) - e; });
#pragma unroll
        for (int t = 0; t < 4; t++)
#pragma unroll
            for (int r = 0; r < 2; r++) {
                const int i = row + lane_row() + 8 * r;
                x[t][r] = pack_bf16(d[t][2 * r], d[t][2 * r + 1]);
                *(uint32_t *)(smem.u + i * ACROSS + column + 8 * t + lane_column()) =
                    pack_bf16(weights.beta[i] * d[t][2 * r], weights.beta[i] * d[t][2 * r + 1]);
            }
        clear(d);
        accumulate(d, row, column, 0, D, plain(smem.k, STRIDE), transposed(smem.g, STRIDE));
        each(d, row, column, [&](int i, int, float &e) { e = i < at.tokens ? weights.after(i) * e : 0.0f; });
        accumulate(d, row, column, row, CHUNK - row, transposed(smem.scores, SQUARE), plain(smem.dout, ACROSS));
        to_tile(d, row, column, smem.r, ACROSS);
        for (int i = (int)threadIdx.x; i < SLICE * D; i += TILE_THREADS) {
            const int place = i / D * STRIDE + i % D;
            through = fmaf(to_float(smem.s[place]), to_float(smem.g[place]), through);
        }
        __syncthreads();
        clear(d);
        accumulate(d, row, column, row, CHUNK - row, transposed(smem.low, SQUARE), plain(smem.r, ACROSS));
        accumulate(d, row, column, row, CHUNK - row, transposed(smem.high, SQUARE), plain(smem.r, ACROSS));
#pragma unroll
        for (int t = 0; t < 4; t++)
#pragma unroll
            for (int r = 0; r < 2; r++) {
                const int i = row + lane_row() + 8 * r;
                float error[2], du[2];
                unpack(x[t][r], error[0], error[1]);
                unpack(*(const uint32_t *)(smem.r + i * ACROSS + column + 8 * t + lane_column()), du[0], du[1]);
#pragma unroll
                for (int e = 0; e < 2; e++) {
                    du[e] -= d[t][2 * r + e];
                    dbeta[r] = fmaf(du[e], error[e], dbeta[r]);
                    d[t][2 * r + e] = weights.beta[i] * du[e];
                }
            }
        to_tile(d, row, column, smem.y, ACROSS);
        if (dv)
            each_pair(d, row, column, [&](int i, int j, float p, float q) {
                if (i < at.tokens && j < columns) dv.store_two((size_t)i, slice + j, columns - j, p, q);
            });
        __syncthreads();
        if (column <= row + 15) {
            accumulate(dA, row, column, 0, SLICE, plain(smem.dout, ACROSS), transposed(smem.u, ACROSS));
            accumulate(yu, row, column, 0, SLICE, plain(smem.y, ACROSS), transposed(smem.u, ACROSS));
        }
#pragma unroll
        for (int p = 0; p < PARTS; p++) {
            accumulate(from_q[p], row, column + 64 * p, 0, SLICE, plain(smem.dout, ACROSS), plain(smem.s, STRIDE));
            accumulate(to_k[p], row, column + 64 * p, 0, SLICE, plain(smem.u, ACROSS), plain(smem.g, STRIDE));
            accumulate(from_k[p], row, column + 64 * p, 0, SLICE, plain(smem.y, ACROSS), plain(smem.s, STRIDE));
        }
    }
    __syncthreads();
    /* pairs of tokens */
    if (column <= row + 15) {
        float qk[4][4], kk[4][4];
        clear(qk), clear(kk);
        if (gated) {
            accumulate(qk, row, column, 0, D, plain(smem.q, STRIDE), transposed(smem.k, STRIDE));
            accumulate(kk, row, column, 0, D, plain(smem.k, STRIDE), transposed(smem.k, STRIDE));
        }
#pragma unroll
        for (int t = 0; t < 4; t++)
#pragma unroll
            for (int e = 0; e < 4; e++) {
                const int i = row + lane_row() + e / 2 * 8, j = column + 8 * t + lane_column() + e % 2;
                const float decay = j <= i ? weights.between(i, j) : 0.0f;
                dA[t][e] *= call.scale * decay;
                yu[t][e] = j < i ? -decay * yu[t][e] : 0.0f;
                if (gated) smem.z[i * SQUARE + j] = j < i ? dA[t][e] * qk[t][e] + yu[t][e] * kk[t][e] : 0.0f;
            }
        to_tile(dA, row, column, smem.high, SQUARE);
        to_tile(yu, row, column, smem.low, SQUARE);
    }
    /* through S and G */
    const float before[2] = {weights.before(row + lane_row()), weights.before(row + lane_row() + 8)},
                after[2] = {weights.after(row + lane_row()), weights.after(row + lane_row() + 8)};
#pragma unroll
    for (int p = 0; p < PARTS; p++) {
        const int first = column + 64 * p;
        float past[4][4], future[4][4];
#pragma unroll
        for (int t = 0; t < 4; t++)
#pragma unroll
            for (int e = 0; e < 4; e++) {
                const int place = (row + lane_row() + e / 2 * 8) * STRIDE + first + 8 * t + lane_column() + e % 2;
                const float k = to_float(smem.k[place]);
                from_q[p][t][e] *= call.scale * before[e / 2];
                from_k[p][t][e] *= -before[e / 2];
                to_k[p][t][e] *= after[e / 2];
                past[t][e] = to_float(smem.q[place]) * from_q[p][t][e] + k * from_k[p][t][e];
                future[t][e] = k * to_k[p][t][e];
                to_k[p][t][e] += from_k[p][t][e];
            }
        row_sums(past, row, [&](int i, float x) { smem.from_s[first / 32 * CHUNK + i] = x; });
        row_sums(future, row, [&](int i, float x) { smem.to_s[first / 32 * CHUNK + i] = x; });
    }
#pragma unroll
    for (int r = 0; r < 2; r++) {
        dbeta[r] += __shfl_xor_sync(0xFFFFFFFFu, dbeta[r], 1);
        dbeta[r] += __shfl_xor_sync(0xFFFFFFFFu, dbeta[r], 2);
        if (lane_column() == 0) smem.dbeta[column / 32 * CHUNK + row + lane_row() + 8 * r] = dbeta[r];
    }
    __syncthreads();
#pragma unroll
    for (int p = 0; p < PARTS; p++) {
        const int first = column + 64 * p;
        accumulate(from_q[p], row, first, 0, row + 16, plain(smem.high, SQUARE), plain(smem.k, STRIDE));
        accumulate(to_k[p], row, first, row, CHUNK - row, transposed(smem.high, SQUARE), plain(smem.q, STRIDE));
        accumulate(to_k[p], row, first, row, CHUNK - row, transposed(smem.low, SQUARE), plain(smem.k, STRIDE));
        accumulate(to_k[p], row, first, 0, row + 16, plain(smem.low, SQUARE), plain(smem.k, STRIDE));
        each_pair(from_q[p], row, first,
                  [&](int i, int j, float x, float y) { *(float2 *)(smem.dq + i * WIDE + j) = make_float2(x, y); });
        each_pair(to_k[p], row, first,
                  [&](int i, int j, float x, float y) { *(float2 *)(smem.dk + i * WIDE + j) = make_float2(x, y); });
    }
    const float total = gated ? weights.whole() * block_sum(through, smem.sums) : 0.0f;
    __syncthreads();
    if (call.dq)
        unit_store(smem.dq, WIDE, at.tokens, call.dim, a.unit, 1.0f, view.q, view.ldq,
                   numbers_at((bf16 *)call.dq, by.dq, at.sequence, at.row, head), by.dq.row);
    if (call.dk)
        store_rows(smem.dk, WIDE, at.tokens, call.dim, a.unit, 1.0f, view.k, view.ldk,
                   target_of(a, call.dk, by.dk, a.dk_parts, at, h, head, call.dim));
    const target dbetas = target_of(a, call.dbeta, by.dbeta, a.dbeta_parts, at, h, head, 1);
    for (int i = (int)threadIdx.x; dbetas && i < at.tokens; i += TILE_THREADS)
        dbetas.store((size_t)i, 0, smem.dbeta[i] + smem.dbeta[CHUNK + i]);
    if (gated)
        store_gates<D>(smem, at.tokens, (double)total,
                       target_of(a, call.dlog_gate, by.dlog_gate, a.dlog_parts, at, h, head, 1));
}

/* ---- launches ---------------------------------------------------------------------------------------------------- */

static dim3 chunks_of(const bo_gpu_memory *a, int heads)
{
    return dim3(tiles_of(a->call.keys, CHUNK), (unsigned)heads);
}

template <int D, bool BACK, int WARPS, int STAGES>
static bo_gpu_error serial_with(bo_gpu *cuda, const bo_gpu_memory *a, unsigned groups)
{
    const unsigned heads = (unsigned)(BACK ? a->call.heads : a->call.key_heads);
    const dim3 grid((unsigned)a->call.keys.sequences, heads, (unsigned)ceil_div(groups, WARPS));
    return launch(cuda, grid, dim3(WARPS * WARP), (size_t)(STAGES * stage_layout<D, WARPS>::BYTES),
                  delta_fast_serial_kernel<D, BACK, WARPS, STAGES>, *a);
}

/* Few warps per block if there are few columns: they share the copies of matrices, but also a multiprocessor. */
template <int D, bool BACK> static bo_gpu_error serial(bo_gpu *cuda, const bo_gpu_memory *a)
{
    const bo_gpu_attention &call = a->call;
    const unsigned groups = (unsigned)ceil_div((size_t)call.value_dim, 16);
    const bool few = (size_t)call.keys.sequences * (size_t)(BACK ? call.heads : call.key_heads) * groups <=
                     2 * (size_t)call.processors;
    if (few) return serial_with<D, BACK, 1, D == 64 ? 8 : 4>(cuda, a, groups);
    return serial_with<D, BACK, D == 64 ? 4 : 2, 4>(cuda, a, groups);
}

template <int D> static bo_gpu_error memories_sized(bo_gpu *cuda, const bo_gpu_memory *a)
{
    smem_carver carver = {};
    (void)prepare_smem<D>(&carver);
    const bo_gpu_error error = launch(cuda, chunks_of(a, a->call.key_heads), dim3(TILE_THREADS), carver.bytes,
                                      delta_fast_prepare_kernel<D>, *a);
    return error ? error : serial<D, false>(cuda, a);
}

template <int D> static bo_gpu_error outputs_sized(bo_gpu *cuda, const bo_gpu_memory *a)
{
    smem_carver carver = {};
    (void)output_smem<D>(&carver);
    return launch(cuda, chunks_of(a, a->call.heads), dim3(TILE_THREADS), carver.bytes, delta_fast_outputs_kernel<D>,
                  *a);
}

template <int D> static bo_gpu_error gradients_sized(bo_gpu *cuda, const bo_gpu_memory *a)
{
    smem_carver back = {}, gradients = {};
    (void)back_smem<D>(&back);
    (void)gradient_smem<D>(&gradients);
    const dim3 grid = chunks_of(a, a->call.heads), threads(TILE_THREADS);
    bo_gpu_error error = launch(cuda, grid, threads, back.bytes, delta_fast_back_kernel<D>, *a);
    if (!error) error = serial<D, true>(cuda, a);
    if (!error) error = launch(cuda, grid, threads, gradients.bytes, delta_fast_gradients_kernel<D>, *a);
    return error ? error : add_query_heads(cuda, a);
}

} // namespace delta_fast

bo_gpu_error delta_fast_memories(bo_gpu *cuda, const bo_gpu_memory *a)
{
    return a->padded == 64 ? delta_fast::memories_sized<64>(cuda, a) : delta_fast::memories_sized<128>(cuda, a);
}

bo_gpu_error delta_fast_outputs(bo_gpu *cuda, const bo_gpu_memory *a)
{
    return a->padded == 64 ? delta_fast::outputs_sized<64>(cuda, a) : delta_fast::outputs_sized<128>(cuda, a);
}

bo_gpu_error delta_fast_gradients(bo_gpu *cuda, const bo_gpu_memory *a)
{
    return a->padded == 64 ? delta_fast::gradients_sized<64>(cuda, a) : delta_fast::gradients_sized<128>(cuda, a);
}

} // namespace bo
