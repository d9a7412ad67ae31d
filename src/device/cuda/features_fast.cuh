/* Linear attention in bfloat16 on tensor cores: shared helpers. A block has four warps; a chunk has 64 tokens, 16 per
 * warp. Features are computed in registers, in the operand layout of mma. Sums, log scales and gates are float32. v~ =
 * [v, 1], S~ = [S, z], so denominators are computed like numerators. */
#ifndef BO_CUDA_FEATURES_FAST_CUH
#define BO_CUDA_FEATURES_FAST_CUH

#include "features.cuh"

namespace bo {
namespace features {

enum { FAST_WARPS = 4, FAST_THREADS = FAST_WARPS * WARP, CHUNK = 16 * FAST_WARPS };

__device__ inline int lane_id()
{
    return (int)threadIdx.x % WARP;
}
__device__ inline int warp_id()
{
    return (int)threadIdx.x / WARP;
}
/* The row and the column of a lane in a fragment: lane / 4 and 2 (lane % 4). */
__device__ inline int lane_row()
{
    return lane_id() / 4;
}
__device__ inline int lane_column()
{
    return 2 * (lane_id() % 4);
}

/* Over the four lanes that share a row. */
__device__ inline float quad_sum(float x)
{
    x += __shfl_xor_sync(0xFFFFFFFFu, x, 1);
    return x + __shfl_xor_sync(0xFFFFFFFFu, x, 2);
}
__device__ inline float quad_max(float x)
{
    x = fmaxf(x, __shfl_xor_sync(0xFFFFFFFFu, x, 1));
    return fmaxf(x, __shfl_xor_sync(0xFFFFFFFFu, x, 2));
}

/* e^x with a relative error below 2^-21; results below the smallest normal float are 0. */
__device__ inline float exp_fast(float x)
{
    return exp2_fast(1.44269504f * x);
}

__device__ inline void unpack_bf16(uint32_t bits, float &low, float &high)
{
    low = __uint_as_float(bits << 16), high = __uint_as_float(bits & 0xFFFF0000u);
}

/* ---- factors from shared memory ---------------------------------------------------------------------------------- */

/* Matrices are row-major with `stride` elements per row, an odd multiple of 8, so the rows of a fragment are in
 * different banks. */

/* A (16 x 16) at (row, column) of a matrix; of its transpose: (row, column) of A is (column, row) of the matrix. */
__device__ inline void load_a(uint32_t (&a)[4], const bf16 *x, int stride, int row, int column)
{
    const int part = lane_id() / 8, at = lane_id() % 8;
    ldmatrix(a, x + (row + part % 2 * 8 + at) * stride + column + part / 2 * 8);
}
__device__ inline void load_a_transposed(uint32_t (&a)[4], const bf16 *x, int stride, int row, int column)
{
    const int part = lane_id() / 8, at = lane_id() % 8;
    ldmatrix_transposed(a, x + (column + part / 2 * 8 + at) * stride + row + part % 2 * 8);
}

/* Two B (16 x 8, side by side) at row k, column n: B is the transpose of the matrix, whose rows are n; or the matrix
 * itself, whose rows are k. b[0], b[1]: the first; b[2], b[3]: the second. */
__device__ inline void load_b(uint32_t (&b)[4], const bf16 *x, int stride, int k, int n)
{
    const int part = lane_id() / 8, at = lane_id() % 8;
    ldmatrix(b, x + (n + part / 2 * 8 + at) * stride + k + part % 2 * 8);
}
__device__ inline void load_b_rows(uint32_t (&b)[4], const bf16 *x, int stride, int k, int n)
{
    const int part = lane_id() / 8, at = lane_id() % 8;
    ldmatrix_transposed(b, x + (k + part % 2 * 8 + at) * stride + n + part / 2 * 8);
}
/* Two B one below the other: rows k and k + 16, column n. */
__device__ inline void load_b_below(uint32_t (&b)[4], const bf16 *x, int stride, int k, int n)
{
    ldmatrix(b, x + (n + lane_id() % 8) * stride + k + lane_id() / 8 * 8);
}
__device__ inline void load_b_rows_below(uint32_t (&b)[4], const bf16 *x, int stride, int k, int n)
{
    ldmatrix_transposed(b, x + (k + lane_id()) * stride + n);
}

__device__ inline void mma_two(float (&d0)[4], float (&d1)[4], const uint32_t (&a)[4], const uint32_t (&b)[4])
{
    const uint32_t first[2] = {b[0], b[1]}, second[2] = {b[2], b[3]};
    mma(d0, a, first);
    mma(d1, a, second);
}

/* d (16 x 8 TILES) += A X, A in registers (16 x 16 STEPS), X: rows `k0` … of a row-major matrix, columns 0 … 8 TILES
 * - 1. TILES is odd (columns of v~), STEPS even; or TILES even. */
template <int STEPS, int TILES>
__device__ inline void multiply_rows(float (&d)[TILES][4], const uint32_t (&a)[STEPS][4], const bf16 *x, int stride,
                                     int k0)
{
    uint32_t b[4];
#pragma unroll
    for (int s = 0; s < STEPS; s++)
#pragma unroll
        for (int t = 0; t + 1 < TILES; t += 2) {
            load_b_rows(b, x, stride, k0 + 16 * s, 8 * t);
            mma_two(d[t], d[t + 1], a[s], b);
        }
    if constexpr (TILES % 2 == 1 && STEPS > 1) {
#pragma unroll
        for (int s = 0; s + 1 < STEPS; s += 2) {
            load_b_rows_below(b, x, stride, k0 + 16 * s, 8 * (TILES - 1));
            const uint32_t first[2] = {b[0], b[1]}, second[2] = {b[2], b[3]};
            mma(d[TILES - 1], a[s], first);
            mma(d[TILES - 1], a[s + 1], second);
        }
    }
    if constexpr (TILES % 2 == 1 && STEPS % 2 == 1) {
        const int upper = k0 + 16 * STEPS >= 32 ? 16 : 0; /* 32 rows are read: the preceding rows, if they exist */
        load_b_rows_below(b, x, stride, k0 + 16 * (STEPS - 1) - upper, 8 * (TILES - 1));
        const uint32_t last[2] = {upper ? b[2] : b[0], upper ? b[3] : b[1]};
        mma(d[TILES - 1], a[STEPS - 1], last);
    }
}

/* The accumulators of two neighboring tiles as A. */
__device__ inline void accumulators_to_a(uint32_t (&a)[4], const float (&left)[4], const float (&right)[4])
{
    a[0] = pack_bf16(left[0], left[1]), a[1] = pack_bf16(left[2], left[3]);
    a[2] = pack_bf16(right[0], right[1]), a[3] = pack_bf16(right[2], right[3]);
}

/* ---- sizes ------------------------------------------------------------------------------------------------------- */

/* A map from DIM columns to M frequencies with PER features each, and values of V columns. */
template <int DIM, int M, int PER, int V> struct sizes {
    enum {
        D = M * PER,
        X_STEPS = DIM / 16,          /* mma steps over the columns of a row */
        U_TILES = M / 8,             /* tiles of u */
        F_STEPS = D / 16,            /* steps over the features */
        V_TILES = V / 8 + 1,         /* tiles of v~ */
        OWNED = D / 16 / FAST_WARPS, /* tiles of 16 features of S~ that a warp owns */
        W_STRIDE = DIM + 8,
        F_STRIDE = D + 8,
        V_STRIDE = V + 8
    };
};

/* ---- maps -------------------------------------------------------------------------------------------------------- */

/* The map of a key head in shared memory. */
struct shared_map {
    bf16 *w;       /* M x W_STRIDE, with σ */
    float *offset; /* M: offsets as logarithms to the base 2, or weights */
    float *square; /* DIM */
};

/* σ, but not 0, since the gradient of σ x is divided by σ. */
__device__ inline float sigma_of(float sigma)
{
    return fabsf(sigma) < 1e-12f ? 1e-12f : sigma;
}

template <typename Z> __device__ inline void load_map(const arguments &a, int key_head, const shared_map &to)
{
    enum { M = 8 * Z::U_TILES, DIM = 16 * Z::X_STEPS, PACKS = M * DIM / 4 };
    const size_t head = (size_t)key_head * a.map.stride;
    const bool exponential = a.map.form == BO_MAP_EXP || a.map.form == BO_MAP_EXP_BOTH;
    const float *sigma = a.call.sigma ? a.call.sigma + (size_t)key_head * DIM : nullptr;
    const pack<float, 4> *w = reinterpret_cast<const pack<float, 4> *>(a.map.w + head);
#pragma unroll 8
    for (int e = (int)threadIdx.x; e < PACKS; e += FAST_THREADS) {
        pack<float, 4> x = w[e];
        const int row = e / (DIM / 4), column = e % (DIM / 4) * 4;
        for (int i = 0; sigma && i < 4; i++) x.at[i] *= sigma_of(sigma[column + i]);
        uint32_t *at = reinterpret_cast<uint32_t *>(to.w + row * Z::W_STRIDE + column);
        at[0] = pack_bf16(x.at[0], x.at[1]), at[1] = pack_bf16(x.at[2], x.at[3]);
    }
    for (int i = (int)threadIdx.x; i < M; i += FAST_THREADS)
        to.offset[i] = exponential ? 1.44269504f * a.map.offset[head + (size_t)i] : a.map.weight[head + (size_t)i];
    for (int j = (int)threadIdx.x; j < DIM; j += FAST_THREADS)
        to.square[j] = a.transform == BO_ROW_TRANSFORM_UNIT ? 1.0f : a.map.square[head + (size_t)j];
}

/* Starts the copy of this warp's 16 rows, from `first` on, to its rows of a matrix in shared memory; rows from
 * `count` on are 0. */
template <int COLUMNS>
__device__ inline void stage_rows(const bf16 *rows, size_t stride, int first, int count, bf16 *to, int to_stride)
{
    enum { PACKS = COLUMNS / 8, EACH = WARP / PACKS }; /* rows at a time */
    const int row = lane_id() / PACKS, column = lane_id() % PACKS * 8;
    const bf16 *from = rows + (size_t)(first + row) * stride + column;
    bf16 *at = to + (16 * warp_id() + row) * to_stride + column;
#pragma unroll
    for (int i = 0; i < 16 / EACH; i++, from += EACH * stride)
        copy_async(at + EACH * i * to_stride, from, first + row + EACH * i < count);
}

/* This warp's 16 rows of a matrix as A. */
template <int STEPS> __device__ inline void load_staged(uint32_t (&x)[STEPS][4], const bf16 *from, int stride)
{
#pragma unroll
    for (int s = 0; s < STEPS; s++) load_a(x[s], from, stride, 16 * warp_id(), 16 * s);
    __syncwarp();
}

/* Writes 16 rows of this warp (8 TILES columns), through its rows of a matrix in shared memory. */
template <int TILES>
__device__ inline void write_rows(const float (&x)[TILES][4], const float (&factor)[2], bf16 *tile, int tile_stride,
                                  bf16 *rows, size_t stride, int count)
{
    bf16 *at = tile + (16 * warp_id() + lane_row()) * tile_stride + lane_column();
#pragma unroll
    for (int t = 0; t < TILES; t++)
#pragma unroll
        for (int r = 0; r < 2; r++)
            *reinterpret_cast<uint32_t *>(at + 8 * r * tile_stride + 8 * t) =
                pack_bf16(factor[r] * x[t][2 * r], factor[r] * x[t][2 * r + 1]);
    __syncwarp();
#pragma unroll
    for (int i = 0; i < TILES / 2; i++) {
        const int e = lane_id() + WARP * i, row = 16 * warp_id() + e / TILES, column = e % TILES * 8;
        if (row < count)
            *reinterpret_cast<pack<bf16, 8> *>(rows + (size_t)row * stride + column) =
                *reinterpret_cast<const pack<bf16, 8> *>(tile + row * tile_stride + column);
    }
    __syncwarp();
}

/* Σ_j square_j x_j² of the rows lane_row() and lane_row() + 8. */
template <int STEPS>
__device__ inline void square_norms(const uint32_t (&x)[STEPS][4], const float *square, float (&norm)[2])
{
    float low, high, sum[2] = {0, 0};
#pragma unroll
    for (int s = 0; s < STEPS; s++)
#pragma unroll
        for (int part = 0; part < 4; part++) {
            const float *q = square + 16 * s + part / 2 * 8 + lane_column();
            unpack_bf16(x[s][part], low, high);
            sum[part % 2] += q[0] * low * low + q[1] * high * high;
        }
    norm[0] = quad_sum(sum[0]), norm[1] = quad_sum(sum[1]);
}

/* u -> exp(±u + offset - top + constant), in place; `minus` receives the results for -u. Returns the maxima. Exponents
 * are to the base 2. */
template <int TILES>
__device__ inline void exponentials(const float *offset, bool both, float constant, float (&u)[TILES][4],
                                    float (&minus)[TILES][4], float (&top)[2])
{
    const float unit = 1.44269504f;
    float max_exponent[2] = {-INFINITY, -INFINITY};
#pragma unroll
    for (int t = 0; t < TILES; t++)
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const float o = offset[8 * t + lane_column() + i % 2];
            if (both) minus[t][i] = o - unit * u[t][i];
            u[t][i] = o + unit * u[t][i];
            max_exponent[i / 2] = fmaxf(max_exponent[i / 2], both ? fmaxf(u[t][i], minus[t][i]) : u[t][i]);
        }
    for (int r = 0; r < 2; r++) {
        max_exponent[r] = quad_max(max_exponent[r]);
        top[r] = 0.693147181f * max_exponent[r], max_exponent[r] = unit * constant - max_exponent[r];
    }
#pragma unroll
    for (int t = 0; t < TILES; t++)
#pragma unroll
        for (int i = 0; i < 4; i++) {
            u[t][i] = exp2_fast(u[t][i] + max_exponent[i / 2]);
            if (both) minus[t][i] = exp2_fast(minus[t][i] + max_exponent[i / 2]);
        }
}

/* The features of 16 rows as A, and the log scales of the rows lane_row() and lane_row() + 8. `unit` receives 1 /
 * (|x| + e) of both rows with the transform UNIT, else 1; `norms` |x|². */
template <typename Z>
__device__ inline void map_fragments(const arguments &a, float common, const shared_map &map,
                                     const uint32_t (&x)[Z::X_STEPS][4], uint32_t (&f)[Z::F_STEPS][4],
                                     float (&scale)[2], float (&unit)[2])
{
    float u[Z::U_TILES][4] = {}, second[Z::U_TILES][4], norm[2] = {0, 0};
    const bool both = Z::D > 8 * Z::U_TILES;
#pragma unroll
    for (int s = 0; s < Z::X_STEPS; s++)
#pragma unroll
        for (int t = 0; t < Z::U_TILES; t += 2) {
            uint32_t b[4];
            load_b(b, map.w, Z::W_STRIDE, 16 * s, 8 * t);
            mma_two(u[t], u[t + 1], x[s], b);
        }
    unit[0] = unit[1] = 1;
    if (a.map.norm != 0 || a.transform == BO_ROW_TRANSFORM_UNIT) square_norms(x, map.square, norm);
    if (a.transform == BO_ROW_TRANSFORM_UNIT) {
        for (int r = 0; r < 2; r++) unit[r] = 1 / (sqrtf(norm[r]) + 1e-3f);
#pragma unroll
        for (int t = 0; t < Z::U_TILES; t++)
#pragma unroll
            for (int i = 0; i < 4; i++) u[t][i] *= unit[i / 2];
    }
    scale[0] = scale[1] = 0;
    if (a.map.form == BO_MAP_EXP || a.map.form == BO_MAP_EXP_BOTH) {
        exponentials(map.offset, both, a.map.constant, u, second, scale);
        for (int r = 0; r < 2; r++) scale[r] += common + 0.5f * a.map.norm * norm[r];
    } else {
        for (int r = 0; r < 2; r++) scale[r] = a.map.scaled ? 0.5f * norm[r] : 0.0f;
#pragma unroll
        for (int t = 0; t < Z::U_TILES; t++)
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const float weight = a.map.factor * map.offset[8 * t + lane_column() + i % 2], value = u[t][i];
                if (both) {
                    float sine, cosine;
                    __sincosf(value, &sine, &cosine);
                    u[t][i] = weight * cosine, second[t][i] = weight * sine;
                } else if (a.map.form == BO_MAP_RELU) {
                    u[t][i] = value < 0 ? 0.0f : weight * value;
                } else if (a.map.form == BO_MAP_ELU) {
                    u[t][i] = value < 0 ? exp_fast(value) : value + 1;
                }
            }
    }
#pragma unroll
    for (int s = 0; s < Z::U_TILES / 2; s++) {
        accumulators_to_a(f[s], u[2 * s], u[2 * s + 1]);
        if (both) accumulators_to_a(f[(s + Z::U_TILES / 2) % Z::F_STEPS], second[2 * s], second[2 * s + 1]);
    }
}

/* Stores A as rows [first, first + 16) of a matrix. */
template <int STEPS> __device__ inline void store_a(const uint32_t (&a)[STEPS][4], bf16 *x, int stride, int first)
{
    bf16 *at = x + (first + lane_row()) * stride + lane_column();
#pragma unroll
    for (int s = 0; s < STEPS; s++)
#pragma unroll
        for (int part = 0; part < 4; part++)
            *reinterpret_cast<uint32_t *>(at + part % 2 * 8 * stride + 16 * s + part / 2 * 8) = a[s][part];
}

/* ---- exponents --------------------------------------------------------------------------------------------------- */

/* Exponents of the 64 tokens of a chunk relative to its start: key j has the weight exp(c[j] + shift[i]) at row i, the
 * sums before the chunk have exp(begin + shift[i]). In the notation of linear.h, shift = b - r. Every warp has a copy
 * of all but `scale`, so that it reads them without a barrier of the block. */
struct chunk_exponents {
    float *c, *shift, *scale; /* scale: log scales of the keys (an input), including the log weights of HYBRID */
    float *r;                 /* log scales of the sums at each row; NULL: not needed */
};

/* Writes the log scales of this warp's rows lane_row() and lane_row() + 8 of a chunk that starts at row `first`. */
__device__ inline void share_scales(const arguments &a, const float (&scale)[2], size_t first, int count, int key_head,
                                    float *to)
{
    if (lane_column() != 0) return;
    for (int r = 0; r < 2; r++) {
        const int row = 16 * warp_id() + lane_row() + 8 * r;
        const bool enters = a.entries && row < count;
        to[row] = scale[r] + (enters ? log_entry(a, first + (size_t)row, key_head, 0) : 0.0f);
    }
}

/* The exponents after the last row of a chunk. */
struct chunk_end {
    float shift, scale, gates; /* b - r, r, b */
};

/* The log gates of the tokens 2 lane and 2 lane + 1 of a chunk, loaded early. Nothing remains after -1000. */
struct lane_gates {
    float at[2];
};
__device__ inline lane_gates load_gates(const arguments &a, int sequence, size_t first, int count, int key_head)
{
    lane_gates gates = {{0, 0}};
    for (int i = 0; a.gated && i < 2; i++) {
        const int token = 2 * lane_id() + i;
        if (token < count) gates.at[i] = fmaxf(log_gate<bf16>(a, sequence, first + (size_t)token, key_head), -1000.0f);
    }
    return gates;
}

/* Every warp computes this redundantly, with the same result. Prefix sums depend on earlier tokens only. */
__device__ inline chunk_end find_chunk(const arguments &a, int count, const lane_gates &gates, float begin,
                                       const chunk_exponents &e)
{
    const int lane = lane_id(), token = 2 * lane;
    const float (&gate)[2] = gates.at;
    float entry_scale[2];
    for (int i = 0; i < 2; i++) {
        const float entry = a.entries ? 0.0f : log_input(a, gate[i]);
        entry_scale[i] = token + i < count ? e.scale[token + i] + entry : -INFINITY;
    }
    float sum = gate[0] + gate[1];
    for (int step = 1; a.gated && step < WARP; step *= 2) {
        const float more = __shfl_up_sync(0xFFFFFFFFu, sum, (unsigned)step);
        if (lane >= step) sum += more;
    }
    float before = __shfl_up_sync(0xFFFFFFFFu, sum, 1u);
    if (lane == 0) before = 0;
    const float b[2] = {before + gate[0], before + gate[0] + gate[1]},
                c[2] = {entry_scale[0] - b[0], entry_scale[1] - b[1]};
    float max_exponent = fmaxf(c[0], c[1]);
    for (int step = 1; a.map.scaled && step < WARP; step *= 2) {
        const float more = __shfl_up_sync(0xFFFFFFFFu, max_exponent, (unsigned)step);
        if (lane >= step) max_exponent = fmaxf(max_exponent, more);
    }
    float top = __shfl_up_sync(0xFFFFFFFFu, max_exponent, 1u);
    top = fmaxf(lane == 0 ? begin : fmaxf(begin, top), c[0]);
    const float tops[2] = {top, fmaxf(top, c[1])};
    float shift[2];
    float r = 0;
    for (int i = 0; i < 2; i++) {
        shift[i] = !a.map.scaled ? b[i] : tops[i] > -INFINITY ? -tops[i] : 0.0f; /* -∞: no keys yet */
        if (a.map.scaled) r = b[i] + tops[i];
        if (e.r) e.r[token + i] = r;
        e.c[token + i] = c[i], e.shift[token + i] = shift[i];
    }
    __syncwarp();
    chunk_end end;
    end.shift = __shfl_sync(0xFFFFFFFFu, shift[1], WARP - 1), end.gates = __shfl_sync(0xFFFFFFFFu, b[1], WARP - 1);
    end.scale = __shfl_sync(0xFFFFFFFFu, r, WARP - 1);
    return end;
}

/* exp(c + shift), where c may be -∞. */
__device__ inline float weight_of(float c, float shift)
{
    return exp_fast(c + shift);
}

/* ---- values and sums --------------------------------------------------------------------------------------------- */

/* Starts the copy of rows [0, count) of V elements to v~ (64 rows); later rows are 0, including the last column. */
template <typename Z, int V> __device__ inline void copy_values(const bf16 *rows, size_t stride, int count, bf16 *to)
{
    enum { PACKS = V / 8, EACH = FAST_THREADS / PACKS }; /* rows at a time */
    const int first = (int)threadIdx.x / PACKS, column = (int)threadIdx.x % PACKS * 8;
    const bf16 *from = rows + (size_t)first * stride + column;
#pragma unroll
    for (int row = first; row < CHUNK; row += EACH, from += EACH * stride)
        copy_async(to + row * Z::V_STRIDE + column, from, row < count);
    for (int row = (int)threadIdx.x; row < CHUNK; row += FAST_THREADS) {
        pack<bf16, 8> last;
        for (int i = 0; i < 8; i++) last.at[i] = __float2bfloat16(i == 0 && row < count ? 1.0f : 0.0f);
        *reinterpret_cast<pack<bf16, 8> *>(to + row * Z::V_STRIDE + V) = last;
    }
}

/* to = weights v~ for the 16 rows of this warp. */
template <typename Z> __device__ inline void weigh_values(const bf16 *v, const float *c, float shift, bf16 *to)
{
    enum { PACKS = Z::V_STRIDE / 8, EACH = (16 * PACKS + WARP - 1) / WARP };
    pack<uint32_t, 4> x[EACH];
    float weight[EACH];
#pragma unroll
    for (int i = 0; i < EACH; i++) { /* all loads before the first store */
        const int e = min(lane_id() + WARP * i, 16 * PACKS - 1), row = 16 * warp_id() + e / PACKS;
        x[i] = *reinterpret_cast<const pack<uint32_t, 4> *>(v + row * Z::V_STRIDE + e % PACKS * 8);
        weight[i] = weight_of(c[row], shift);
    }
#pragma unroll
    for (int i = 0; i < EACH; i++) {
        const int e = lane_id() + WARP * i;
        if (e >= 16 * PACKS) continue;
#pragma unroll
        for (int j = 0; j < 4; j++) {
            float low, high;
            unpack_bf16(x[i].at[j], low, high);
            x[i].at[j] = pack_bf16(weight[i] * low, weight[i] * high);
        }
        *reinterpret_cast<pack<uint32_t, 4> *>(to + (16 * warp_id() + e / PACKS) * Z::V_STRIDE + e % PACKS * 8) = x[i];
    }
}

/* S~ of the features that a warp owns, as accumulators: features x columns of v~. */
template <typename Z> struct owned_sums {
    float s[Z::OWNED][Z::V_TILES][4];

    __device__ static int feature(int tile, int i)
    {
        return 16 * (Z::OWNED * warp_id() + tile) + lane_row() + i / 2 * 8;
    }
    __device__ static int column(int tile, int i)
    {
        return 8 * tile + lane_column() + i % 2;
    }

    __device__ void clear()
    {
        for (int m = 0; m < Z::OWNED; m++)
            for (int t = 0; t < Z::V_TILES; t++)
                for (int i = 0; i < 4; i++) s[m][t][i] = 0;
    }
    /* From or to memory with the layout of bo_sums. */
    __device__ void load(const arguments &a, const float *sums)
    {
#pragma unroll
        for (int m = 0; m < Z::OWNED; m++)
#pragma unroll
            for (int t = 0; t < Z::V_TILES; t++)
#pragma unroll
                for (int i = 0; i < 4; i++)
                    s[m][t][i] = column(t, i) <= a.call.value_dim ? sums[sums_wide(a, feature(m, i), column(t, i))] : 0;
    }
    __device__ void store(const arguments &a, float *sums) const
    {
#pragma unroll
        for (int m = 0; m < Z::OWNED; m++)
#pragma unroll
            for (int t = 0; t < Z::V_TILES; t++)
#pragma unroll
                for (int i = 0; i < 4; i++)
                    if (column(t, i) <= a.call.value_dim) sums[sums_wide(a, feature(m, i), column(t, i))] = s[m][t][i];
    }
    /* To shared memory, rounded: D x V_STRIDE. */
    __device__ void share(bf16 *to) const
    {
#pragma unroll
        for (int m = 0; m < Z::OWNED; m++)
#pragma unroll
            for (int t = 0; t < Z::V_TILES; t++)
#pragma unroll
                for (int i = 0; i < 4; i += 2)
                    *reinterpret_cast<uint32_t *>(to + feature(m, i) * Z::V_STRIDE + column(t, i)) =
                        pack_bf16(s[m][t][i], s[m][t][i + 1]);
    }
    /* S~ = kept S~ + fᵀ x over the rows of a chunk: f is 64 x F_STRIDE, x 64 x V_STRIDE. */
    __device__ void absorb(float kept, const bf16 *f, const bf16 *x)
    {
        const int entry_scale = 16 * Z::OWNED * warp_id();
#pragma unroll
        for (int m = 0; m < Z::OWNED; m++)
#pragma unroll
            for (int t = 0; t < Z::V_TILES; t++)
#pragma unroll
                for (int i = 0; i < 4; i++) s[m][t][i] *= kept;
#pragma unroll
        for (int k = 0; k < CHUNK; k += 32) {
            uint32_t rows[2][Z::OWNED][4], b[4];
#pragma unroll
            for (int m = 0; m < Z::OWNED; m++)
                for (int h = 0; h < 2; h++)
                    load_a_transposed(rows[h][m], f, Z::F_STRIDE, entry_scale + 16 * m, k + 16 * h);
#pragma unroll
            for (int h = 0; h < 2; h++)
#pragma unroll
                for (int t = 0; t + 1 < Z::V_TILES; t += 2) {
                    load_b_rows(b, x, Z::V_STRIDE, k + 16 * h, 8 * t);
#pragma unroll
                    for (int m = 0; m < Z::OWNED; m++) mma_two(s[m][t], s[m][t + 1], rows[h][m], b);
                }
            load_b_rows_below(b, x, Z::V_STRIDE, k, 8 * (Z::V_TILES - 1));
            const uint32_t first[2] = {b[0], b[1]}, second[2] = {b[2], b[3]};
#pragma unroll
            for (int m = 0; m < Z::OWNED; m++) {
                mma(s[m][Z::V_TILES - 1], rows[0][m], first);
                mma(s[m][Z::V_TILES - 1], rows[1][m], second);
            }
        }
    }
};

} // namespace features
} // namespace bo

#endif
