/* Rows to features in memory, and the gradients of features to those of rows, in bfloat16 on tensor cores: for all maps
 * and sizes (features_stored.cuh). With d columns, m frequencies and D features, per row: 2 d m operations, D
 * exponentials or sines, reads 2 d and writes 2 D bytes; backward 2 d m operations, reads 2 d + 4 D and writes 2 d
 * bytes. The matrix of a key head stays in shared memory while a block maps many rows. */
#include "features_stored.cuh"

namespace bo {
namespace features {

/* Rows of one side. */
struct map_side {
    const bf16 *x, *df;
    bf16 *f, *dx;
    float *scales; /* log scales; NULL: not needed */
    double *flow;  /* NULL: not needed */
    const float *flow_parts;
    int parts; /* of the flow: tiles of features */
    bo_gpu_strides x_by, dx_by;
    bo_gpu_rows rows;
    int heads, group;       /* query heads of a key head */
    unsigned first, blocks; /* of partial sums: the first block, blocks per head */
};

enum { MAP_WARPS = 8, MAP_THREADS = MAP_WARPS * WARP, MAP_ROWS = 16 * MAP_WARPS };

/* Frequency 32 g + 8 q + 2 t + b is row 32 g + 8 t + 2 q + b of the matrix in shared memory, so that the accumulators
 * of lane q of four are 8 consecutive frequencies. */
__device__ inline int matrix_row(int frequency)
{
    const int within = frequency % 32;
    return frequency - within + within % 8 / 2 * 8 + within / 8 * 2 + within % 2;
}

/* The matrix of a key head with σ, padded with zeros: rows x (columns + 8). */
__device__ inline void load_matrix(const arguments &a, int key_head, int rows, int columns, bf16 *to)
{
    const float *w = a.map.w + (size_t)key_head * a.map.stride;
    const float *sigma = a.call.sigma ? a.call.sigma + (size_t)key_head * (size_t)a.call.dim : nullptr;
    const int packs = columns / 4, dim = a.map.dim;
    for (int e = (int)threadIdx.x; e < rows * packs; e += (int)blockDim.x) {
        const int row = e / packs, column = e % packs * 4;
        pack<float, 4> x = {{0, 0, 0, 0}};
        if (row < a.map.frequencies && column < dim)
            x = *reinterpret_cast<const pack<float, 4> *>(w + (size_t)row * (size_t)dim + column);
        for (int i = 0; sigma && i < 4; i++) x.at[i] *= column + i < dim ? sigma_of(sigma[column + i]) : 0.0f;
        uint32_t *at = reinterpret_cast<uint32_t *>(to + matrix_row(row) * (columns + 8) + column);
        at[0] = pack_bf16(x.at[0], x.at[1]), at[1] = pack_bf16(x.at[2], x.at[3]);
    }
}

/* Offsets to the base 2 of exponential maps, else factor times weights; and the weights of the norm. */
__device__ inline void load_numbers(const arguments &a, int key_head, int rows, int columns, float *weight,
                                    float *square)
{
    const size_t head = (size_t)key_head * a.map.stride;
    const bool exponential = a.map.form == BO_MAP_EXP || a.map.form == BO_MAP_EXP_BOTH;
    for (int i = (int)threadIdx.x; i < rows; i += (int)blockDim.x) {
        const bool present = i < a.map.frequencies;
        if (exponential)
            weight[i] = present ? LOG2_E * a.map.offset[head + (size_t)i] : -INFINITY;
        else
            weight[i] = present ? a.map.factor * a.map.weight[head + (size_t)i] : 0.0f;
    }
    for (int j = (int)threadIdx.x; j < columns; j += (int)blockDim.x) {
        const float x =
            a.transform == BO_ROW_TRANSFORM_UNIT ? 1.0f : a.map.square[head + (size_t)min(j, a.map.dim - 1)];
        square[j] = j < a.map.dim ? x : 0.0f;
    }
}

/* Starts the copy of `rows` rows from row `first` on. */
__device__ inline void stage_map_rows(const arguments &a, const map_side &side, int head, size_t first, int rows,
                                      int columns, bf16 *to)
{
    const int packs = columns / 8;
    for (int e = (int)threadIdx.x; e < rows * packs; e += (int)blockDim.x) {
        const int row = e / packs, column = e % packs * 8;
        const size_t at = first + (size_t)row;
        const bool present = at < side.rows.rows && column < a.map.dim;
        const bf16 *from = side.x;
        if (present) from = numbers_at(side.x, side.x_by, sequence_in(side.rows, side.x_by, at), at, head) + column;
        copy_async(to + row * (columns + 8) + column, from, present);
    }
}

/* ---- forward ----------------------------------------------------------------------------------------------------- */

/* Reduces a number of each row over the warps that share rows: consecutive ones, `parts` of them. */
template <bool MAX> __device__ inline void reduce_parts(float (&x)[2], int parts, float *smem)
{
    if (parts == 1) return;
    if (lane_column() == 0)
        for (int r = 0; r < 2; r++) smem[16 * warp_id() + lane_row() + 8 * r] = x[r];
    __syncthreads();
    for (int r = 0; r < 2; r++) {
        const float *all = smem + warp_id() / parts * parts * 16 + lane_row() + 8 * r;
        x[r] = all[0];
        for (int p = 1; p < parts; p++) x[r] = MAX ? fmaxf(x[r], all[16 * p]) : x[r] + all[16 * p];
    }
    __syncthreads();
}

/* Eight consecutive numbers of a row. */
__device__ inline void store_eight(const float (&x)[8], bf16 *to)
{
    pack<uint32_t, 4> out;
#pragma unroll
    for (int i = 0; i < 4; i++) out.at[i] = pack_bf16(x[2 * i], x[2 * i + 1]);
    *reinterpret_cast<pack<uint32_t, 4> *>(to) = out;
}

__device__ inline void load_eight(const float *from, float (&x)[8])
{
    const pack<float, 4> low = *reinterpret_cast<const pack<float, 4> *>(from),
                         high = *reinterpret_cast<const pack<float, 4> *>(from + 4);
#pragma unroll
    for (int i = 0; i < 4; i++) x[i] = low.at[i], x[4 + i] = high.at[i];
}

/* A warp computes UT tiles of 8 frequencies of 16 rows; `parts` warps share rows. A block maps `tiles` tiles of rows.
 * Grid: blocks, heads. */
template <int UT>
__global__ void __launch_bounds__(MAP_THREADS, 2) map_rows_kernel(arguments a, map_side side, int parts, int tiles)
{
    BO_SHARED(shared);
    const int head = (int)blockIdx.y, key_head = head / side.group, columns = round_up(a.map.dim, 16);
    const int stride = columns + 8, padded = 8 * UT * parts, rows = MAP_ROWS / parts;
    const int row = warp_id() / parts * 16, part = warp_id() % parts * 8 * UT, m = a.map.frequencies;
    const bool both = a.map.features == 2 * m;
    bf16 *w = reinterpret_cast<bf16 *>(shared), *x = w + padded * stride;
    float *weight = reinterpret_cast<float *>(x + 2 * rows * stride), *square = weight + padded,
          *smem = square + columns;
    const size_t first = (size_t)blockIdx.x * (size_t)(tiles * rows);
    stage_map_rows(a, side, head, first, rows, columns, x);
    copy_commit();
    load_matrix(a, key_head, padded, columns, w);
    load_numbers(a, key_head, padded, columns, weight, square);
    const float common = a.map.common[(size_t)key_head * a.map.stride];
    for (int tile = 0; tile < tiles; tile++) {
        const size_t begin = first + (size_t)(tile * rows);
        if (begin >= side.rows.rows) return;
        const bf16 *staged = x + tile % 2 * rows * stride;
        if (tile + 1 < tiles)
            stage_map_rows(a, side, head, begin + (size_t)rows, rows, columns, x + (tile + 1) % 2 * rows * stride);
        copy_commit();
        copy_wait<1>();
        __syncthreads();
        float u[UT][4] = {}, norm[2] = {0, 0};
        const bool needs_norm = a.map.norm != 0 || a.transform == BO_ROW_TRANSFORM_UNIT;
        for (int s = 0; s < columns; s += 16) {
            uint32_t in[4], b[4];
            load_a(in, staged, stride, row, s);
#pragma unroll
            for (int t = 0; t < UT; t += 2) {
                load_b(b, w, stride, s, part + 8 * t);
                mma_two(u[t], u[t + 1], in, b);
            }
            for (int i = 0; needs_norm && i < 4; i++) {
                float low, high;
                const float *q = square + s + i / 2 * 8 + lane_column();
                unpack_bf16(in[i], low, high);
                norm[i % 2] += q[0] * low * low + q[1] * high * high;
            }
        }
        for (int r = 0; r < 2; r++) norm[r] = quad_sum(norm[r]);
        if (a.transform == BO_ROW_TRANSFORM_UNIT)
            for (int r = 0; r < 2; r++) {
                const float unit = 1 / (sqrtf(norm[r]) + 1e-3f);
#pragma unroll
                for (int t = 0; t < UT; t++) u[t][2 * r] *= unit, u[t][2 * r + 1] *= unit;
            }
        const bool exponential = a.map.form == BO_MAP_EXP || a.map.form == BO_MAP_EXP_BOTH;
        float scale[2], shift[2] = {0, 0}, share[2] = {1, 1};
        for (int r = 0; r < 2; r++) scale[r] = a.map.scaled ? 0.5f * norm[r] : 0.0f;
        if (exponential || a.map.form == BO_MAP_HEDGEHOG) {
            float top[2] = {-INFINITY, -INFINITY};
#pragma unroll
            for (int t = 0; t < UT; t += 4) {
                float o[8] = {};
                if (exponential) load_eight(weight + part + 8 * t + 4 * lane_column(), o);
#pragma unroll
                for (int i = 0; i < 16; i++) {
                    float &at = u[t + i % 8 / 2][i / 8 * 2 + i % 2];
                    at *= LOG2_E;
                    top[i / 8] = fmaxf(top[i / 8], (both ? fabsf(at) : at) + o[i % 8]);
                }
            }
            for (int r = 0; r < 2; r++) top[r] = quad_max(top[r]);
            reduce_parts<true>(top, parts, smem);
            for (int r = 0; r < 2; r++) shift[r] = -top[r];
            if (exponential)
                for (int r = 0; r < 2; r++) {
                    scale[r] = 0.693147181f * top[r] + common + 0.5f * a.map.norm * norm[r];
                    shift[r] += LOG2_E * a.map.constant;
                }
        }
        if (a.map.form == BO_MAP_HEDGEHOG) {
            float sum[2] = {0, 0};
#pragma unroll
            for (int t = 0; t < UT; t += 4)
#pragma unroll
                for (int i = 0; i < 16; i++) {
                    const float at = u[t + i % 8 / 2][i / 8 * 2 + i % 2];
                    if (part + 8 * t + 4 * lane_column() < m)
                        sum[i / 8] += exp2_fast(at + shift[i / 8]) + exp2_fast(shift[i / 8] - at);
                }
            for (int r = 0; r < 2; r++) sum[r] = quad_sum(sum[r]);
            reduce_parts<false>(sum, parts, smem);
            for (int r = 0; r < 2; r++) share[r] = 1 / sum[r];
        }
#pragma unroll
        for (int t = 0; t < UT; t += 4) {
            const int frequency = part + 8 * t + 4 * lane_column();
            float o[8];
            load_eight(weight + frequency, o);
#pragma unroll
            for (int r = 0; r < 2; r++) {
                const size_t at = begin + (size_t)(row + lane_row() + 8 * r);
                float one[8], two[8];
#pragma unroll
                for (int i = 0; i < 8; i++) {
                    const float value = u[t + i / 2][2 * r + i % 2];
                    one[i] = value, two[i] = 0;
                    if (exponential) {
                        one[i] = exp2_fast(value + o[i] + shift[r]);
                        if (both) two[i] = exp2_fast(o[i] - value + shift[r]);
                    } else if (a.map.form == BO_MAP_SINCOS) {
                        float sine, cosine;
                        __sincosf(value, &sine, &cosine);
                        one[i] = o[i] * cosine, two[i] = o[i] * sine;
                    } else if (a.map.form == BO_MAP_RELU) {
                        one[i] = value < 0 ? 0.0f : o[i] * value;
                    } else if (a.map.form == BO_MAP_ELU) {
                        one[i] = value < 0 ? exp_fast(value) : value + 1;
                    } else if (a.map.form == BO_MAP_HEDGEHOG) {
                        one[i] = share[r] * exp2_fast(value + shift[r]),
                        two[i] = share[r] * exp2_fast(shift[r] - value);
                    }
                }
                if (at >= side.rows.rows || frequency >= m) continue;
                bf16 *to = stored_row(side.f, at, side.heads, head, a.stored_dim) + frequency;
                store_eight(one, to);
                if (both) store_eight(two, to + m);
            }
        }
        for (int r = 0; r < 2 && part == 0 && lane_column() == 0; r++) {
            const size_t at = begin + (size_t)(row + lane_row() + 8 * r);
            const float zeros[8] = {};
            if (at >= side.rows.rows) continue;
            if (side.scales) side.scales[at * (size_t)side.heads + (size_t)head] = scale[r];
            if (a.stored_dim > a.map.features)
                store_eight(zeros, stored_row(side.f, at, side.heads, head, a.stored_dim) + a.map.features);
        }
        __syncthreads();
    }
}

static map_side side_of(const arguments *a, bool keys)
{
    const bo_gpu_attention &c = a->call;
    const int group = c.heads / c.key_heads;
    map_side side = {};
    side.x = (const bf16 *)(keys ? c.k : c.q), side.f = (bf16 *)(keys ? a->fk : a->fq);
    side.df = (const bf16 *)(keys ? a->dfk : a->dfq), side.dx = (bf16 *)(keys ? c.dk : c.dq);
    side.scales = keys ? a->key_scales : a->query_scales, side.flow = keys ? a->key_flow : a->flow;
    side.x_by = keys ? c.strides.k : c.strides.q, side.dx_by = keys ? c.strides.dk : c.strides.dq;
    side.rows = keys ? c.keys : c.queries;
    side.flow_parts = keys ? a->key_flow_parts : a->flow_parts;
    side.parts = (a->stored_dim + gradient_columns(a) - 1) / gradient_columns(a);
    side.heads = keys ? c.key_heads : c.heads, side.group = keys ? 1 : group;
    return side;
}

/* Tiles of rows of a block: about 512 rows, fewer in small calls. */
static int tiles_per_block(const map_side &side, int rows)
{
    int tiles = 512 / rows;
    while (tiles > 1 && ceil_div(side.rows.rows, (size_t)(tiles * rows)) * (size_t)side.heads < 264) tiles /= 2;
    return tiles;
}

template <int UT> static bo_gpu_error map_rows_of(bo_gpu *cuda, const arguments *a, const map_side &side, int parts)
{
    const int rows = MAP_ROWS / parts, columns = round_up(a->map.dim, 16), padded = 8 * UT * parts;
    const int tiles = tiles_per_block(side, rows);
    const size_t shared =
        (size_t)((padded + 2 * rows) * (columns + 8)) * 2 + (size_t)(padded + columns + MAP_ROWS) * sizeof(float);
    const dim3 grid((unsigned)ceil_div(side.rows.rows, (size_t)(tiles * rows)), (unsigned)side.heads);
    return launch(cuda, grid, dim3(MAP_THREADS), shared, map_rows_kernel<UT>, *a, side, parts, tiles);
}

bo_gpu_error map_rows(bo_gpu *cuda, const arguments *a, bool keys)
{
    const map_side side = side_of(a, keys);
    int parts = 1;
    if (a->map.frequencies <= 32) return map_rows_of<4>(cuda, a, side, 1);
    if (a->map.frequencies <= 64) return map_rows_of<8>(cuda, a, side, 1);
    while (128 * parts < a->map.frequencies) parts *= 2;
    return map_rows_of<16>(cuda, a, side, parts);
}

/* ---- backward ---------------------------------------------------------------------------------------------------- */

/* Eight consecutive features of rows lane_row() and + 8 as the accumulators of four tiles: x[r][i]. */
struct feature_rows {
    float x[2][8];
};

__device__ inline feature_rows load_features(const bf16 *const (&at)[2], int column, bool present)
{
    feature_rows out;
#pragma unroll
    for (int r = 0; r < 2; r++) {
        uint4 raw = {0, 0, 0, 0};
        if (present && at[r]) raw = *reinterpret_cast<const uint4 *>(at[r] + column);
        widen_bf16(raw, out.x[r]);
    }
    return out;
}

/* du of one frequency from its features and their gradients; sum += f·df. */
__device__ inline float slope(int form, float weight, float inner, float f, float g, float df, float dg, float &sum)
{
    switch (form) {
    case BO_MAP_EXP:
        sum += f * df;
        return f * df;
    case BO_MAP_EXP_BOTH:
        sum += f * df + g * dg;
        return f * df - g * dg;
    case BO_MAP_SINCOS:
        sum += f * df + g * dg;
        return f * dg - g * df;
    case BO_MAP_RELU:
        sum += f * df;
        return f > 0 ? weight * df : 0.0f;
    case BO_MAP_ELU:
        sum += f * df;
        return df * fminf(f, 1.0f);
    case BO_MAP_HEDGEHOG:
        sum += f * df + g * dg;
        return f * (df - inner) - g * (dg - inner);
    default:
        sum += f * df;
        return df;
    }
}

/* XT: tiles of 8 columns of x. Grid: blocks, heads. */
template <int XT>
__global__ void __launch_bounds__(MAP_THREADS, XT <= 8 ? 2 : 1)
    map_rows_back_kernel(arguments a, map_side side, int tiles)
{
    BO_SHARED(shared);
    enum { COLUMNS = 8 * XT, STRIDE = COLUMNS + 8, EACH = 2 * XT };
    const int head = (int)blockIdx.y, key_head = head / side.group, m = a.map.frequencies, padded = round_up(m, 32);
    const bool both = a.map.features == 2 * m;
    bf16 *w = reinterpret_cast<bf16 *>(shared), *x = w + padded * STRIDE;
    float *weight = reinterpret_cast<float *>(x + MAP_ROWS * STRIDE), *square = weight + padded;
    float *sigma = a.call.dsigma ? square + COLUMNS + (int)threadIdx.x * EACH : nullptr;
    for (int i = 0; sigma && i < EACH; i++) sigma[i] = 0;
    load_matrix(a, key_head, padded, COLUMNS, w);
    load_numbers(a, key_head, padded, COLUMNS, weight, square);
    const int row = 16 * warp_id() + lane_row();
    for (int tile = 0; tile < tiles; tile++) {
        const size_t begin = ((size_t)blockIdx.x * (size_t)tiles + (size_t)tile) * MAP_ROWS;
        if (begin >= side.rows.rows) break;
        __syncthreads();
        stage_map_rows(a, side, head, begin, MAP_ROWS, COLUMNS, x);
        copy_commit();
        const bf16 *f[2], *df[2];
        for (int r = 0; r < 2; r++) {
            const size_t at = begin + (size_t)(row + 8 * r);
            const bool present = at < side.rows.rows;
            f[r] = present ? stored_row((const bf16 *)side.f, at, side.heads, head, a.stored_dim) : nullptr;
            df[r] = present ? stored_row(side.df, at, side.heads, head, a.stored_dim) : nullptr;
        }
        float sum[2] = {0, 0}, inner[2] = {0, 0}, dx[XT][4] = {};
        for (int g = 0; a.map.form == BO_MAP_HEDGEHOG && g < a.map.features; g += 32) {
            const int at = g + 4 * lane_column();
            const feature_rows one = load_features(f, at, at < a.map.features),
                               d = load_features(df, at, at < a.map.features);
#pragma unroll
            for (int r = 0; r < 2; r++)
#pragma unroll
                for (int i = 0; i < 8; i++) inner[r] += one.x[r][i] * d.x[r][i];
        }
        for (int r = 0; r < 2; r++) inner[r] = quad_sum(inner[r]);
#pragma unroll 2
        for (int g = 0; g < padded; g += 32) {
            const int at = g + 4 * lane_column();
            const bool present = at < m;
            feature_rows one = load_features(f, at, present), d = load_features(df, at, present), two = {}, e = {};
            if (both) two = load_features(f, m + at, present), e = load_features(df, m + at, present);
            float o[8];
            load_eight(weight + at, o);
            uint32_t du[2][4];
#pragma unroll
            for (int r = 0; r < 2; r++)
#pragma unroll
                for (int i = 0; i < 8; i += 2) {
                    const float low = slope(a.map.form, o[i], inner[r], one.x[r][i], two.x[r][i], d.x[r][i], e.x[r][i],
                                            sum[r]),
                                high = slope(a.map.form, o[i + 1], inner[r], one.x[r][i + 1], two.x[r][i + 1],
                                             d.x[r][i + 1], e.x[r][i + 1], sum[r]);
                    du[i / 4][i % 4 / 2 * 2 + r] = pack_bf16(low, high);
                }
#pragma unroll
            for (int k = 0; k < 2; k++)
#pragma unroll
                for (int t = 0; t < XT; t += 2) {
                    uint32_t b[4];
                    load_b_rows(b, w, STRIDE, g + 16 * k, 8 * t);
                    mma_two(dx[t], dx[t + 1], du[k], b);
                }
        }
        float flow[2], unit[2] = {1, 1}, push[2], norm[2] = {0, 0}, along[2] = {0, 0};
        for (int r = 0; r < 2; r++) {
            const size_t at = begin + (size_t)(row + 8 * r);
            flow[r] = quad_sum(sum[r]), push[r] = a.map.norm * flow[r];
            if (!side.flow || lane_column() != 0 || at >= side.rows.rows) continue;
            const size_t place = at * (size_t)side.heads + (size_t)head, all = side.rows.rows * (size_t)side.heads;
            double whole = 0; /* of gradients before they were rounded */
            for (int p = 0; p < side.parts; p++) whole += (double)side.flow_parts[(size_t)p * all + place];
            side.flow[place] = whole;
        }
        copy_wait<0>();
        __syncthreads();
        bf16 *lane_x = x + row * STRIDE + lane_column();
        if (a.transform == BO_ROW_TRANSFORM_UNIT) {
#pragma unroll
            for (int t = 0; t < XT; t++)
#pragma unroll
                for (int r = 0; r < 2; r++) {
                    float low, high;
                    unpack_bf16(*reinterpret_cast<const uint32_t *>(lane_x + 8 * r * STRIDE + 8 * t), low, high);
                    norm[r] += low * low + high * high;
                    along[r] += low * dx[t][2 * r] + high * dx[t][2 * r + 1];
                }
            for (int r = 0; r < 2; r++) {
                const float length = sqrtf(quad_sum(norm[r])), product = quad_sum(along[r]);
                unit[r] = 1 / (length + 1e-3f);
                push[r] = length > 0 ? -product * unit[r] * unit[r] / length : 0.0f;
            }
        }
#pragma unroll
        for (int t = 0; t < XT; t++)
#pragma unroll
            for (int r = 0; r < 2; r++) {
                float value[2], out[2];
                uint32_t *at = reinterpret_cast<uint32_t *>(lane_x + 8 * r * STRIDE + 8 * t);
                unpack_bf16(*at, value[0], value[1]);
#pragma unroll
                for (int i = 0; i < 2; i++) {
                    const float d = dx[t][2 * r + i];
                    if (sigma) sigma[2 * t + i] += d * value[i] * unit[r];
                    out[i] = unit[r] * d + push[r] * square[8 * t + lane_column() + i] * value[i];
                }
                *at = pack_bf16(out[0], out[1]);
            }
        __syncwarp();
        for (int e = lane_id(); side.dx && e < 16 * XT; e += WARP) {
            const int r = 16 * warp_id() + e / XT, column = e % XT * 8;
            const size_t at = begin + (size_t)r;
            if (at >= side.rows.rows || column >= a.map.dim) continue;
            bf16 *to = numbers_at(side.dx, side.dx_by, sequence_in(side.rows, side.dx_by, at), at, head) + column;
            *reinterpret_cast<pack<bf16, 8> *>(to) = *reinterpret_cast<const pack<bf16, 8> *>(x + r * STRIDE + column);
        }
    }
    if (!a.call.dsigma) return;
    __syncthreads();
    const size_t block = (size_t)side.first + (size_t)(head % side.group) * side.blocks + blockIdx.x;
    float *to = a.partials + (block * (size_t)a.call.key_heads + (size_t)key_head) * a.partial_floats;
    for (int j = (int)threadIdx.x; j < a.call.dim; j += MAP_THREADS) {
        const int number = j / 8 * 2 + j % 2, quad = j % 8 / 2;
        float total = 0;
        for (int t = quad; t < MAP_THREADS; t += 4) total += square[COLUMNS + t * EACH + number];
        to[j] = total / (a.call.sigma ? sigma_of(a.call.sigma[key_head * a.call.dim + j]) : 1.0f);
    }
}

unsigned map_rows_blocks(const arguments *a, bool keys)
{
    const map_side side = side_of(a, keys);
    return (unsigned)ceil_div(side.rows.rows, (size_t)(tiles_per_block(side, MAP_ROWS) * MAP_ROWS));
}

template <int XT> static bo_gpu_error map_back_of(bo_gpu *cuda, const arguments *a, const map_side &side)
{
    enum { COLUMNS = 8 * XT };
    const int padded = round_up(a->map.frequencies, 32);
    const size_t floats = (size_t)(padded + COLUMNS + (a->call.dsigma ? MAP_THREADS * 2 * XT : 0)),
                 shared = (size_t)((padded + MAP_ROWS) * (COLUMNS + 8)) * 2 + floats * sizeof(float);
    return launch(cuda, dim3(side.blocks, (unsigned)side.heads), dim3(MAP_THREADS), shared, map_rows_back_kernel<XT>,
                  *a, side, tiles_per_block(side, MAP_ROWS));
}

bo_gpu_error map_rows_back(bo_gpu *cuda, const arguments *a, bool keys)
{
    map_side side = side_of(a, keys);
    side.blocks = map_rows_blocks(a, keys);
    side.first = keys ? map_rows_blocks(a, false) * (unsigned)(a->call.heads / a->call.key_heads) : 0;
    if (a->map.dim <= 64) return map_back_of<8>(cuda, a, side);
    if (a->map.dim <= 128) return map_back_of<16>(cuda, a, side);
    return map_back_of<32>(cuda, a, side);
}

} // namespace features
} // namespace bo
