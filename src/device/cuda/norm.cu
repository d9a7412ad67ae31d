/* LayerNorm and RMSNorm. Memory-bound: with bfloat16, forward moves 4 bytes per element (x, y), backward 6 (x, dy, dx).
 *
 * A team of `lanes` threads handles a group of columns and keeps it in registers: lane l has the octets l, l + lanes,
 * …, SLOTS of them. Teams of up to a warp share a block; wider groups have a block each. In backward, a team handles
 * many groups and sums dgain and dbias of its columns in registers; teams of a block are added in order in shared
 * memory, and blocks by a second kernel.
 *
 * Separate kernels process rows of up to 1024 columns of bfloat16 (norm_rows_kernel, norm_rows_back_kernel). */
#include "arrays.cuh"
#include "columns.cuh"
#include "launches.cuh"

namespace bo {

enum { MAX_SLOTS = 4, NORM_THREADS = 128, MIN_LANES = 8, WIDEST_TEAM = BO_GPU_NORM_WIDEST / OCTET / MAX_SLOTS };

/* ---- teams ------------------------------------------------------------------------------------------------------- */

struct team_shape {
    int lanes, slots, threads; /* threads: of a block */
    int teams() const
    {
        return threads / lanes;
    }
};

static team_shape team_for(size_t width)
{
    const size_t octets = ceil_div(width, OCTET);
    int lanes = MIN_LANES;
    while (lanes < WARP && (size_t)lanes < octets) lanes *= 2;
    if ((size_t)lanes * MAX_SLOTS < octets) lanes = (int)ceil_div(octets, WARP * MAX_SLOTS) * WARP;
    return team_shape{lanes, (int)ceil_div(octets, (size_t)lanes), lanes > WARP ? lanes : NORM_THREADS};
}

/* The sum over the threads of a team; all threads of the block call it. */
__device__ inline float team_sum(float x, int lanes, float *smem)
{
    if (lanes > WARP) return block_sum(x, smem);
    for (int step = lanes / 2; step > 0; step /= 2) x += __shfl_xor_sync(0xFFFFFFFFu, x, step);
    return x;
}

/* One thread's columns of a group. */
struct norm_share {
    int lane, lanes;
    size_t width;
    bool aligned; /* octets are whole, and start at multiples of 16 bytes */
    __device__ size_t column(int slot) const
    {
        return (size_t)(slot * lanes + lane) * OCTET;
    }
    __device__ int valid(int slot) const
    {
        const size_t first = column(slot);
        return first >= width ? 0 : width - first < OCTET ? (int)(width - first) : OCTET;
    }
    __device__ void read(const bo_gpu_source &from, size_t group, int slot, raw_octet &raw) const
    {
        if (valid(slot)) read_raw(from, group * width + column(slot), valid(slot), aligned, raw);
    }
    /* The elements that were read; 0 beyond the width. */
    __device__ void widen(bo_element type, int slot, const raw_octet &raw, float (&x)[OCTET]) const
    {
        if (valid(slot)) widen_octet(type, raw, x);
#pragma unroll
        for (int i = 0; i < OCTET && !valid(slot); i++) x[i] = 0;
    }
    __device__ void read_now(const bo_gpu_source &from, int slot, float (&x)[OCTET]) const
    {
        raw_octet raw;
        read(from, 0, slot, raw);
        widen(from.type, slot, raw, x);
    }
    /* x̂, dy and gain of a slot from the loaded x and dy; beyond the width, dy is 0. */
    __device__ void read_normalized(const bo_gpu_norm_back &a, int slot, const raw_octet &raw_x,
                                    const raw_octet &raw_dy, float mean, float rate, float (&x)[OCTET],
                                    float (&dy)[OCTET], float (&gain)[OCTET]) const
    {
        widen(a.x.type, slot, raw_x, x);
        widen(a.dy.type, slot, raw_dy, dy);
        if (a.gain.at) read_now(a.gain, slot, gain);
#pragma unroll
        for (int i = 0; i < OCTET; i++) {
            x[i] = (x[i] - mean) * rate;
            if (!a.gain.at) gain[i] = 1;
        }
    }
    __device__ void write(const bo_gpu_target &to, size_t group, int slot, const float (&x)[OCTET]) const
    {
        if (valid(slot)) write_octet(to, group * width + column(slot), valid(slot), aligned, x);
    }
};

__device__ inline norm_share share_of(int lanes, size_t width)
{
    return norm_share{(int)threadIdx.x % lanes, lanes, width, width % OCTET == 0};
}

/* ---- forward ----------------------------------------------------------------------------------------------------- */

__device__ inline float square_of(float x)
{
    return x * x;
}

/* x -= mean for the columns of the group, and returns the mean. Columns beyond the width stay 0. */
template <int SLOTS> __device__ inline float center(float (&x)[SLOTS][OCTET], const norm_share &share, float *smem)
{
    float level = 0;
#pragma unroll
    for (int s = 0; s < SLOTS; s++)
#pragma unroll
        for (int i = 0; i < OCTET; i++) level += x[s][i];
    const float mean = team_sum(level, share.lanes, smem) / (float)share.width;
#pragma unroll
    for (int s = 0; s < SLOTS; s++)
#pragma unroll
        for (int i = 0; i < OCTET; i++) x[s][i] = i < share.valid(s) ? x[s][i] - mean : 0.0f;
    return mean;
}

template <int SLOTS> __global__ void __launch_bounds__(WIDEST_TEAM) norm_kernel(bo_gpu_norm a, int lanes)
{
    __shared__ float smem[WARP];
    const norm_share share = share_of(lanes, a.width);
    const size_t group = (size_t)blockIdx.x * (blockDim.x / (unsigned)lanes) + threadIdx.x / (unsigned)lanes;
    const bool present = group < a.groups;
    raw_octet raw[SLOTS];
    float x[SLOTS][OCTET];
#pragma unroll
    for (int s = 0; s < SLOTS; s++) share.read(a.x, present ? group : 0, s, raw[s]);
#pragma unroll
    for (int s = 0; s < SLOTS; s++) share.widen(a.x.type, s, raw[s], x[s]);
    const float mean = a.centered ? center(x, share, smem) : 0.0f;
    float squares = 0;
#pragma unroll
    for (int s = 0; s < SLOTS; s++)
#pragma unroll
        for (int i = 0; i < OCTET; i++) squares += square_of(x[s][i]);
    const float rate = 1.0f / sqrtf(team_sum(squares, lanes, smem) / (float)a.width + a.epsilon);
    if (!present) return;
#pragma unroll
    for (int s = 0; s < SLOTS; s++) {
        if (!share.valid(s)) continue;
        float gain[OCTET], bias[OCTET];
        if (a.gain.at) share.read_now(a.gain, s, gain);
        if (a.bias.at) share.read_now(a.bias, s, bias);
#pragma unroll
        for (int i = 0; i < OCTET; i++) {
            x[s][i] *= rate;
            if (a.gain.at) x[s][i] *= gain[i];
            if (a.bias.at) x[s][i] += bias[i];
        }
        share.write(a.y, group, s, x[s]);
    }
    if (share.lane == 0 && a.rate) a.rate[group] = rate;
    if (share.lane == 0 && a.mean) a.mean[group] = mean;
}

/* ---- forward of rows of bfloat16 --------------------------------------------------------------------------------- */

/* Kernels for rows of up to 1024 columns of bfloat16: a warp handles every n-th group for n warps in one wave of
 * blocks. While it computes one group, the next one is on its way from memory to shared memory. A lane reads only the
 * data that it copied. */
enum { ROWS_WARPS = 8, ROWS_THREADS = ROWS_WARPS * WARP, ROWS_STAGES = 2, FORWARD_BLOCKS = 4 /* per processor */ };

static bool is_row_of_octets(size_t width, team_shape shape)
{
    return shape.lanes == WARP && width % OCTET == 0;
}

static unsigned rows_blocks(size_t groups, size_t max_blocks)
{
    const size_t needed = ceil_div(groups, (size_t)ROWS_WARPS);
    return (unsigned)(needed < max_blocks ? needed : max_blocks);
}

/* Copies a weight of each column to shared memory as float: `other` without weights, 0 after the width. */
__device__ inline void keep_columns(const bo_gpu_source &from, int width, int columns, float other, float *to)
{
    for (int c = (int)threadIdx.x; c < columns; c += ROWS_THREADS)
        to[c] = c >= width ? 0.0f : from.at ? read_one(from, (size_t)c) : other;
}

/* Starts the copy of this lane's octets of a row; zeros after the width. */
template <int SLOTS> __device__ inline void fetch_row(uint4 *to, const bf16 *row, int width)
{
    const int lane = (int)(threadIdx.x % WARP);
#pragma unroll
    for (int s = 0; s < SLOTS; s++) {
        const int column = (s * WARP + lane) * OCTET;
        copy_async(to + s * WARP, row + (column < width ? column : 0), column < width);
    }
}

/* x -> (x - mean) rate gain + bias for a row in registers. Bytes: 4 per element; about 12 instructions per element. */
template <int SLOTS> __global__ void __launch_bounds__(ROWS_THREADS, FORWARD_BLOCKS) norm_rows_kernel(bo_gpu_norm a)
{
    enum { COLUMNS = SLOTS * WARP * OCTET };
    __shared__ pack<float, 4> gains[COLUMNS / 4], biases[COLUMNS / 4];
    __shared__ uint4 rows[ROWS_WARPS][ROWS_STAGES][SLOTS * WARP];
    const int lane = (int)(threadIdx.x % WARP), warp = (int)(threadIdx.x / WARP), width = (int)a.width;
    const size_t first = (size_t)blockIdx.x * ROWS_WARPS + (size_t)warp, step = (size_t)gridDim.x * ROWS_WARPS;
    const float share = 1.0f / (float)width;
    const bf16 *from = static_cast<const bf16 *>(a.x.at);
    if (first < a.groups) fetch_row<SLOTS>(rows[warp][0] + lane, from + first * a.width, width);
    copy_commit();
    keep_columns(a.gain, width, COLUMNS, 1.0f, gains[0].at);
    keep_columns(a.bias, width, COLUMNS, 0.0f, biases[0].at);
    __syncthreads();
    int stage = 0;
    for (size_t group = first; group < a.groups; group += step, stage ^= 1) {
        copy_wait<0>();
        if (group + step < a.groups)
            fetch_row<SLOTS>(rows[warp][stage ^ 1] + lane, from + (group + step) * a.width, width);
        copy_commit();
        float x[SLOTS][OCTET], level = 0, squares = 0;
#pragma unroll
        for (int s = 0; s < SLOTS; s++) {
            widen_bf16(rows[warp][stage][s * WARP + lane], x[s]);
#pragma unroll
            for (int i = 0; i < OCTET; i++) level += x[s][i];
        }
        const float mean = a.centered ? warp_sum(level) * share : 0.0f;
#pragma unroll
        for (int s = 0; s < SLOTS; s++)
#pragma unroll
            for (int i = 0; i < OCTET; i++) {
                x[s][i] = (s * WARP + lane) * OCTET < width ? x[s][i] - mean : 0.0f;
                squares = fmaf(x[s][i], x[s][i], squares);
            }
        const float rate = 1.0f / sqrtf(warp_sum(squares) * share + a.epsilon);
#pragma unroll
        for (int s = 0; s < SLOTS; s++) {
            const int column = (s * WARP + lane) * OCTET;
            pack<bf16, OCTET> out;
#pragma unroll
            for (int half = 0; half < 2; half++) {
                const pack<float, 4> gain = gains[column / 4 + half], bias = biases[column / 4 + half];
#pragma unroll
                for (int i = 0; i < 4; i++)
                    out.at[4 * half + i] = from_float<bf16>(fmaf(x[s][4 * half + i] * rate, gain.at[i], bias.at[i]));
            }
            if (column < width)
                *reinterpret_cast<pack<bf16, OCTET> *>(static_cast<bf16 *>(a.y.at) + group * a.width + (size_t)column) =
                    out;
        }
        if (lane == 0 && a.rate) a.rate[group] = rate;
        if (lane == 0 && a.mean) a.mean[group] = mean;
    }
}

/* ---- launch of forward ------------------------------------------------------------------------------------------- */

bo_gpu_error norm(bo_gpu *cuda, const bo_gpu_norm *a)
{
    static void (*const kernels[MAX_SLOTS])(bo_gpu_norm, int) = {norm_kernel<1>, norm_kernel<2>, norm_kernel<3>,
                                                                 norm_kernel<4>};
    static void (*const of_rows[MAX_SLOTS])(bo_gpu_norm) = {norm_rows_kernel<1>, norm_rows_kernel<2>,
                                                            norm_rows_kernel<3>, norm_rows_kernel<4>};
    const team_shape shape = team_for(a->width);
    if (is_row_of_octets(a->width, shape) && a->x.type == BO_ELEMENT_BFLOAT16 && a->y.type == BO_ELEMENT_BFLOAT16 &&
        !a->y.add)
        return launch(cuda, dim3(rows_blocks(a->groups, a->processors * FORWARD_BLOCKS)), dim3(ROWS_THREADS), 0,
                      of_rows[shape.slots - 1], *a);
    return launch(cuda, dim3((unsigned)ceil_div(a->groups, (size_t)shape.teams())), dim3((unsigned)shape.threads), 0,
                  kernels[shape.slots - 1], *a, shape.lanes);
}

/* ---- backward ---------------------------------------------------------------------------------------------------- */

/* Sums of dgain or dbias of a block. Teams add their sums in order. */
template <int SLOTS>
__device__ inline void add_teams(const norm_share &share, const float (&sums)[SLOTS][OCTET], float *smem, float *out)
{
    const int team = (int)threadIdx.x / share.lanes, teams = (int)blockDim.x / share.lanes;
    for (int t = 0; t < teams; t++) {
        __syncthreads();
        if (team != t) continue;
#pragma unroll
        for (int s = 0; s < SLOTS; s++)
#pragma unroll
            for (int i = 0; i < OCTET; i++) {
                const size_t column = share.column(s) + (size_t)i;
                if (column >= share.width) continue;
                const float sum = t == 0 ? sums[s][i] : smem[column] + sums[s][i];
                (t == teams - 1 ? out : smem)[column] = sum;
            }
    }
}

/* With x̂ = (x - mean) r and g = gain ∘ dy: dx = r (g - mean g [if centered] - x̂ mean(g ∘ x̂)). */
template <int SLOTS, bool SUMS, int THREADS>
__global__ void __launch_bounds__(THREADS, THREADS == NORM_THREADS ? (SLOTS < 4 ? 3 : 2) : 1)
    norm_back_kernel(bo_gpu_norm_back a, int lanes, size_t each)
{
    BO_SHARED(shared);
    __shared__ float smem[WARP];
    const norm_share share = share_of(lanes, a.width);
    const unsigned teams = blockDim.x / (unsigned)lanes, team = threadIdx.x / (unsigned)lanes;
    float dgain[SLOTS][OCTET], dbias[SLOTS][OCTET];
#pragma unroll
    for (int s = 0; s < SLOTS; s++)
#pragma unroll
        for (int i = 0; i < OCTET; i++) dgain[s][i] = dbias[s][i] = 0;
    for (size_t turn = 0; turn < each; turn++) {
        const size_t group = ((size_t)blockIdx.x * each + turn) * teams + team;
        const bool present = group < a.groups;
        const float rate = present ? a.rate[group] : 0.0f, mean = present && a.mean ? a.mean[group] : 0.0f;
        raw_octet raw_x[SLOTS], raw_dy[SLOTS];
        float x[OCTET], dy[OCTET], gain[OCTET], level = 0, along = 0;
#pragma unroll
        for (int s = 0; s < SLOTS; s++) {
            share.read(a.x, present ? group : 0, s, raw_x[s]);
            share.read(a.dy, present ? group : 0, s, raw_dy[s]);
        }
#pragma unroll
        for (int s = 0; s < SLOTS; s++) {
            share.read_normalized(a, s, raw_x[s], raw_dy[s], mean, rate, x, dy, gain);
#pragma unroll
            for (int i = 0; i < OCTET; i++) {
                if (SUMS && present) dgain[s][i] += dy[i] * x[i], dbias[s][i] += dy[i];
                level += gain[i] * dy[i];
                along += gain[i] * dy[i] * x[i];
            }
        }
        if (!a.dx.at) continue;
        along = team_sum(along, lanes, smem) / (float)a.width;
        level = a.mean ? team_sum(level, lanes, smem) / (float)a.width : 0.0f;
        if (!present) continue;
#pragma unroll
        for (int s = 0; s < SLOTS; s++) {
            share.read_normalized(a, s, raw_x[s], raw_dy[s], mean, rate, x, dy, gain);
#pragma unroll
            for (int i = 0; i < OCTET; i++) x[i] = rate * (gain[i] * dy[i] - level - x[i] * along);
            share.write(a.dx, group, s, x);
        }
    }
    if (!SUMS) return;
    float *out = a.partial + (size_t)blockIdx.x * 2 * a.width;
    add_teams(share, dgain, (float *)shared, out);
    add_teams(share, dbias, (float *)shared, out + a.width);
}

template <int SLOTS, int THREADS>
static bo_gpu_error norm_back_of(bo_gpu *cuda, const bo_gpu_norm_back *a, team_shape shape)
{
    const bool sums = a->dgain.at || a->dbias.at;
    const size_t turns = ceil_div(a->groups, (size_t)shape.teams()), each = sums ? ceil_div(turns, a->blocks) : 1,
                 blocks = ceil_div(turns, each ? each : 1);
    const dim3 grid((unsigned)blocks), block((unsigned)shape.threads);
    if (!sums) return launch(cuda, grid, block, 0, norm_back_kernel<SLOTS, false, THREADS>, *a, shape.lanes, each);
    const size_t shared = shape.teams() > 1 ? a->width * sizeof(float) : 0;
    if (bo_gpu_error error =
            launch(cuda, grid, block, shared, norm_back_kernel<SLOTS, true, THREADS>, *a, shape.lanes, each))
        return error;
    return add_rows(cuda, a->partial, blocks, a->width, 2 * a->width, a->dgain, a->dbias);
}

/* ---- backward of rows of bfloat16 -------------------------------------------------------------------------------- */

/* Streams of rows: x, dy and, if it is accumulated, dx. Bytes: 6 per element, 8 if accumulated; about 15 instructions
 * per element. */
template <int SLOTS, bool ADD> struct rows_shape {
    enum { STREAMS = ADD ? 3 : 2, COLUMNS = SLOTS * WARP * OCTET, BLOCKS = SLOTS < 4 ? 2 : 1 /* per processor */ };
    enum { RING = ROWS_WARPS * ROWS_STAGES * STREAMS * SLOTS * WARP * 16, SHARED = RING + COLUMNS * 4 }; /* bytes */
    static_assert((int)RING >= ROWS_WARPS * 2 * COLUMNS * 4, "the sums of all warps replace the groups");
};

/* partial[which width + c] = Σ over the warps of the block, in order; which: 0 dgain, 1 dbias. */
template <int SLOTS>
__device__ inline void add_warps(const float (&dgain)[SLOTS][OCTET], const float (&dbias)[SLOTS][OCTET], float *smem,
                                 size_t width, float *partial)
{
    enum { COLUMNS = SLOTS * WARP * OCTET };
    const int lane = (int)(threadIdx.x % WARP), warp = (int)(threadIdx.x / WARP);
    __syncthreads(); /* all groups were read */
#pragma unroll
    for (int s = 0; s < SLOTS; s++)
#pragma unroll
        for (int i = 0; i < OCTET; i++) {
            float *at = smem + warp * 2 * COLUMNS + (s * OCTET + i) * WARP + lane; /* without bank conflicts */
            at[0] = dgain[s][i], at[COLUMNS] = dbias[s][i];
        }
    __syncthreads();
    for (int c = (int)threadIdx.x; c < (int)width; c += ROWS_THREADS) {
        const int octet = c / OCTET, at = (octet / WARP * OCTET + c % OCTET) * WARP + octet % WARP;
        float gain = smem[at], bias = smem[COLUMNS + at];
        for (int w = 1; w < ROWS_WARPS; w++) {
            gain += smem[w * 2 * COLUMNS + at];
            bias += smem[w * 2 * COLUMNS + COLUMNS + at];
        }
        partial[c] = gain, partial[width + (size_t)c] = bias;
    }
}

template <int SLOTS, bool ADD>
__global__ void __launch_bounds__(ROWS_THREADS, rows_shape<SLOTS, ADD>::BLOCKS)
    norm_rows_back_kernel(bo_gpu_norm_back a)
{
    typedef rows_shape<SLOTS, ADD> shape;
    BO_SHARED(shared);
    const int lane = (int)(threadIdx.x % WARP), warp = (int)(threadIdx.x / WARP), width = (int)a.width;
    uint4 *ring = reinterpret_cast<uint4 *>(shared) + warp * ROWS_STAGES * shape::STREAMS * SLOTS * WARP + lane;
    float *gains = reinterpret_cast<float *>(shared + shape::RING);
    const size_t first = (size_t)blockIdx.x * ROWS_WARPS + (size_t)warp, step = (size_t)gridDim.x * ROWS_WARPS;
    const float share = 1.0f / (float)width;
    const bf16 *from[3] = {static_cast<const bf16 *>(a.x.at), static_cast<const bf16 *>(a.dy.at),
                           static_cast<const bf16 *>(a.dx.at)};
    float next_rate = 0, next_mean = 0;

    auto fetch = [&](size_t group, int stage) {
        uint4 *to = ring + stage * shape::STREAMS * SLOTS * WARP;
#pragma unroll
        for (int stream = 0; stream < shape::STREAMS; stream++)
            fetch_row<SLOTS>(to + stream * SLOTS * WARP, from[stream] + group * a.width, width);
        copy_commit();
        next_rate = a.rate[group], next_mean = a.mean ? a.mean[group] : 0.0f;
    };

    if (first < a.groups) fetch(first, 0);
    keep_columns(a.gain, width, shape::COLUMNS, 1.0f, gains);
    __syncthreads();
    float dgain[SLOTS][OCTET] = {}, dbias[SLOTS][OCTET] = {};
    int stage = 0;
    for (size_t group = first; group < a.groups; group += step, stage ^= 1) {
        const float rate = next_rate, shift = -next_mean * next_rate;
        copy_wait<0>();
        if (group + step < a.groups) fetch(group + step, stage ^ 1);
        const uint4 *octets = ring + stage * shape::STREAMS * SLOTS * WARP;
        float x[SLOTS][OCTET], g[SLOTS][OCTET], level = 0, along = 0; /* x̂ and gain ∘ dy */
#pragma unroll
        for (int s = 0; s < SLOTS; s++) {
            float dy[OCTET];
            widen_bf16(octets[s * WARP], x[s]);
            widen_bf16(octets[(SLOTS + s) * WARP], dy);
            const pack<float, 4> *gain = reinterpret_cast<const pack<float, 4> *>(gains + (s * WARP + lane) * OCTET);
            const pack<float, 4> low = gain[0], high = gain[1];
#pragma unroll
            for (int i = 0; i < OCTET; i++) {
                x[s][i] = fmaf(x[s][i], rate, shift);
                g[s][i] = dy[i] * (i < 4 ? low : high).at[i % 4];
                dgain[s][i] = fmaf(dy[i], x[s][i], dgain[s][i]);
                dbias[s][i] += dy[i];
                level += g[s][i];
                along = fmaf(g[s][i], x[s][i], along);
            }
        }
#pragma unroll
        for (int apart = WARP / 2; apart > 0; apart /= 2) {
            along += __shfl_xor_sync(0xFFFFFFFFu, along, apart);
            level += __shfl_xor_sync(0xFFFFFFFFu, level, apart);
        }
        along *= share, level = a.mean ? level * share : 0.0f;
#pragma unroll
        for (int s = 0; s < SLOTS; s++) {
            float before[OCTET] = {};
            if (ADD) widen_bf16(octets[(2 * SLOTS + s) * WARP], before);
            pack<bf16, OCTET> out;
#pragma unroll
            for (int i = 0; i < OCTET; i++) {
                const float inner = fmaf(-x[s][i], along, g[s][i] - level);
                out.at[i] = from_float<bf16>(ADD ? fmaf(rate, inner, before[i]) : rate * inner);
            }
            const int column = (s * WARP + lane) * OCTET;
            if (column < width)
                *reinterpret_cast<pack<bf16, OCTET> *>(static_cast<bf16 *>(a.dx.at) + group * a.width +
                                                       (size_t)column) = out;
        }
    }
    add_warps<SLOTS>(dgain, dbias, reinterpret_cast<float *>(shared), a.width,
                     a.partial + (size_t)blockIdx.x * 2 * a.width);
}

static bool has_rows_of_bf16(const bo_gpu_norm_back *a, team_shape shape)
{
    return (a->dgain.at || a->dbias.at) && a->dx.at && is_row_of_octets(a->width, shape) &&
           a->x.type == BO_ELEMENT_BFLOAT16 && a->dy.type == BO_ELEMENT_BFLOAT16 && a->dx.type == BO_ELEMENT_BFLOAT16;
}

template <int SLOTS> static bo_gpu_error norm_rows_back(bo_gpu *cuda, const bo_gpu_norm_back *a)
{
    const size_t wave = a->processors * rows_shape<SLOTS, false>::BLOCKS;
    const unsigned blocks = rows_blocks(a->groups, wave < a->blocks ? wave : a->blocks);
    const dim3 grid(blocks), block(ROWS_THREADS);
    if (bo_gpu_error error =
            a->dx.add
                ? launch(cuda, grid, block, rows_shape<SLOTS, true>::SHARED, norm_rows_back_kernel<SLOTS, true>, *a)
                : launch(cuda, grid, block, rows_shape<SLOTS, false>::SHARED, norm_rows_back_kernel<SLOTS, false>, *a))
        return error;
    return add_rows(cuda, a->partial, blocks, a->width, 2 * a->width, a->dgain, a->dbias);
}

/* ---- launch of backward ------------------------------------------------------------------------------------------ */

template <int SLOTS> static bo_gpu_error norm_back_of_warps(bo_gpu *cuda, const bo_gpu_norm_back *a, team_shape shape)
{
    return has_rows_of_bf16(a, shape) ? norm_rows_back<SLOTS>(cuda, a)
                                      : norm_back_of<SLOTS, NORM_THREADS>(cuda, a, shape);
}

bo_gpu_error norm_back(bo_gpu *cuda, const bo_gpu_norm_back *a)
{
    const team_shape shape = team_for(a->width);
    if (shape.lanes > WARP) return norm_back_of<MAX_SLOTS, WIDEST_TEAM>(cuda, a, shape);
    switch (shape.slots) {
    case 1:
        return norm_back_of_warps<1>(cuda, a, shape);
    case 2:
        return norm_back_of_warps<2>(cuda, a, shape);
    case 3:
        return norm_back_of_warps<3>(cuda, a, shape);
    default:
        return norm_back_of_warps<4>(cuda, a, shape);
    }
}

} // namespace bo
