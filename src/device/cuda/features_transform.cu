/* The transform of rows before their features, in bfloat16 on tensor cores: t = M x + b for each head (DARK, learned
 * maps), and its gradients dx = Mᵀ dt, dM = Σ dt xᵀ, db = Σ dt. The other kernels then compute features of t. A block
 * has some rows of a head, in chunks of 64; the next chunk is copied while one is multiplied. With d columns, per row
 * and head: forward reads and writes 4 d bytes for 2 d² operations, backward 6 d bytes for 4 d² operations. */
#include "features_fast.cuh"
#include "launches.cuh"

namespace bo {
namespace features {

typedef bo_gpu_row_transform transform_arguments;

/* M as a map from dim to dim columns, and rows as values, so that [dM, db] = Σ dt [x, 1]ᵀ is a matrix S~. */
enum { TRANSFORM_DIM = BO_GPU_ROW_TRANSFORM_DIM };
typedef sizes<TRANSFORM_DIM, TRANSFORM_DIM, 1, TRANSFORM_DIM> transform_sizes;
enum { TRANSFORM_STRIDE = transform_sizes::W_STRIDE, TRANSFORM_TILE = CHUNK * TRANSFORM_STRIDE };

/* ---- shared by both directions ---------------------------------------------------------------------------------- */

/* Loads the rounded M of a key head, or the identity. */
__device__ inline void load_matrix(const transform_arguments &a, int key_head, bf16 *to)
{
    enum { PACKS = TRANSFORM_DIM / 4 };
    const size_t head = (size_t)(key_head * TRANSFORM_DIM * PACKS);
    const pack<float, 4> *m = reinterpret_cast<const pack<float, 4> *>(a.m);
#pragma unroll 8
    for (int e = (int)threadIdx.x; e < TRANSFORM_DIM * PACKS; e += FAST_THREADS) {
        const int row = e / PACKS, column = e % PACKS * 4;
        pack<float, 4> x;
        if (m) x = m[head + (size_t)e];
        for (int i = 0; !m && i < 4; i++) x.at[i] = row == column + i ? 1.0f : 0.0f;
        uint32_t *at = reinterpret_cast<uint32_t *>(to + row * TRANSFORM_STRIDE + column);
        at[0] = pack_bf16(x.at[0], x.at[1]), at[1] = pack_bf16(x.at[2], x.at[3]);
    }
}

/* Rows of one sequence, or of all if addresses do not depend on the sequence. */
struct transform_chunk {
    size_t row;
    int sequence, count;
};
__device__ inline unsigned chunks_of_sequence(const transform_arguments &a)
{
    return (unsigned)((a.tokens + CHUNK - 1) / CHUNK);
}

/* Chunk `index` of all; from `end` on they have no rows. */
__device__ inline transform_chunk transform_chunk_at(const transform_arguments &a, unsigned index, unsigned end)
{
    const unsigned each = chunks_of_sequence(a), sequence = a.tokens < a.rows ? index / each : 0u;
    const size_t first = (size_t)(index - sequence * each) * CHUNK;
    return {sequence * a.tokens + first, (int)sequence, index < end ? (int)min((size_t)CHUNK, a.tokens - first) : 0};
}

/* The chunks of part blockIdx.x: first, and the one after the last. */
__device__ inline unsigned part_begin(const transform_arguments &a, unsigned &end)
{
    const unsigned sequences = a.tokens < a.rows ? (unsigned)(a.rows / a.tokens) : 1u;
    const unsigned chunks = chunks_of_sequence(a) * sequences,
                   each = (chunks + (unsigned)a.parts - 1) / (unsigned)a.parts;
    end = min(chunks, (blockIdx.x + 1) * each);
    return min(end, blockIdx.x * each);
}

/* Addresses of the rows of a chunk. */
template <typename T>
__device__ inline T *chunk_rows(T *x, const bo_gpu_strides &by, const transform_chunk &chunk, int head)
{
    return numbers_at(x, by, chunk.sequence, chunk.row, head);
}

/* ---- forward ----------------------------------------------------------------------------------------------------- */

enum { FORWARD_TRANSFORM_BYTES = (TRANSFORM_DIM * TRANSFORM_STRIDE + 2 * TRANSFORM_TILE) * 2 };

/* Grid: parts, heads. Every warp copies and multiplies separate rows. */
__global__ void __launch_bounds__(FAST_THREADS) transform_kernel(transform_arguments a)
{
    BO_SHARED(shared);
    bf16 *const m = reinterpret_cast<bf16 *>(shared), *const tiles = m + TRANSFORM_DIM * TRANSFORM_STRIDE;
    const int head = (int)blockIdx.y, key_head = head / (a.heads / a.key_heads), rows = 16 * warp_id();
    const bo_gpu_strides whole = without_gaps(a.heads, TRANSFORM_DIM);
    unsigned end;
    const unsigned begin = part_begin(a, end);
    if (begin == end) return;
    const auto stage_chunk = [&](const transform_chunk &chunk, bf16 *to) {
        stage_rows<TRANSFORM_DIM>(chunk_rows((const bf16 *)a.x, a.x_strides, chunk, head), a.x_strides.row, rows,
                                  chunk.count, to, TRANSFORM_STRIDE);
        copy_commit();
    };
    transform_chunk chunk = transform_chunk_at(a, begin, end);
    stage_chunk(chunk, tiles);
    load_matrix(a, key_head, m);
    float bias[TRANSFORM_DIM / 8][2];
#pragma unroll
    for (int i = 0; i < TRANSFORM_DIM / 4; i++) {
        const int column = i / 2 * 8 + lane_column() + i % 2;
        bias[i / 2][i % 2] = a.bias ? a.bias[key_head * TRANSFORM_DIM + column] : 0.0f;
    }
    __syncthreads();
    for (unsigned index = begin, turn = 0; index < end; index++, turn ^= 1) {
        bf16 *tile = tiles + turn * TRANSFORM_TILE;
        uint32_t row[TRANSFORM_DIM / 16][4];
        const transform_chunk next = transform_chunk_at(a, index + 1, end);
        stage_chunk(next, tiles + (turn ^ 1) * TRANSFORM_TILE);
        copy_wait<1>();
        __syncwarp();
        load_staged(row, tile, TRANSFORM_STRIDE);
        float out[TRANSFORM_DIM / 8][4];
#pragma unroll
        for (int c = 0; c < TRANSFORM_DIM / 8; c++)
#pragma unroll
            for (int i = 0; i < 4; i++) out[c][i] = bias[c][i % 2];
#pragma unroll
        for (int s = 0; s < TRANSFORM_DIM / 16; s++)
#pragma unroll
            for (int c = 0; c < TRANSFORM_DIM / 8; c += 2) {
                uint32_t b[4];
                load_b(b, m, TRANSFORM_STRIDE, 16 * s, 8 * c);
                mma_two(out[c], out[c + 1], row[s], b);
            }
        const float ones[2] = {1, 1};
        write_rows(out, ones, tile, TRANSFORM_STRIDE, chunk_rows((bf16 *)a.t, whole, chunk, head), whole.row,
                   chunk.count);
        chunk = next;
    }
}

/* ---- backward ---------------------------------------------------------------------------------------------------- */

enum { BACK_TRANSFORM_BYTES = (TRANSFORM_DIM * TRANSFORM_STRIDE + 5 * TRANSFORM_TILE) * 2 };

/* Starts the copies of dt and [x, 1] of a chunk and head. */
__device__ inline void stage_gradients(const transform_arguments &a, const transform_chunk &chunk, int head, bf16 *dt,
                                       bf16 *x)
{
    const bo_gpu_strides whole = without_gaps(a.heads, TRANSFORM_DIM), &by = a.x_strides;
    if (chunk.count) {
        stage_rows<TRANSFORM_DIM>(chunk_rows((const bf16 *)a.dt, whole, chunk, head), whole.row, 16 * warp_id(),
                                  chunk.count, dt, TRANSFORM_STRIDE);
        copy_values<transform_sizes, TRANSFORM_DIM>(chunk_rows((const bf16 *)a.x, by, chunk, head), by.row, chunk.count,
                                                    x);
    }
    copy_commit();
}

/* Writes the partial sums of this block: dM, then db. */
__device__ inline void write_partial(const transform_arguments &a, const owned_sums<transform_sizes> &sums)
{
    enum { MATRIX = TRANSFORM_DIM * TRANSFORM_DIM };
    float *to = a.partials + ((size_t)blockIdx.x * (size_t)a.key_heads + blockIdx.y) * (MATRIX + TRANSFORM_DIM);
#pragma unroll
    for (int t = 0; t < transform_sizes::V_TILES; t++)
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const int row = sums.feature(0, i), column = sums.column(t, i);
            if (column < TRANSFORM_DIM) to[row * TRANSFORM_DIM + column] = sums.s[0][t][i];
            if (column == TRANSFORM_DIM) to[MATRIX + row] = sums.s[0][t][i];
        }
}

/* Grid: parts, key heads: a block has all heads that share M. */
__global__ void __launch_bounds__(FAST_THREADS, 4) transform_back_kernel(transform_arguments a)
{
    BO_SHARED(shared);
    bf16 *const m = reinterpret_cast<bf16 *>(shared), *const tiles = m + TRANSFORM_DIM * TRANSFORM_STRIDE;
    bf16 *const out_tile = tiles + 4 * TRANSFORM_TILE;
    const int group = a.heads / a.key_heads;
    const bool requested = a.dm || a.dbias;
    unsigned end;
    const unsigned begin = part_begin(a, end);
    const int steps = (int)(end - begin) * group;
    int head = (int)blockIdx.y * group;
    owned_sums<transform_sizes> sums;
    sums.clear();
    transform_chunk chunk = transform_chunk_at(a, begin, end);
    stage_gradients(a, chunk, head, tiles, tiles + TRANSFORM_TILE);
    load_matrix(a, (int)blockIdx.y, m);
    for (int step = 0; step < steps; step++) {
        const bf16 *dt = tiles + step % 2 * 2 * TRANSFORM_TILE, *x = dt + TRANSFORM_TILE;
        bf16 *next = tiles + (step + 1) % 2 * 2 * TRANSFORM_TILE;
        const int later_head = (int)blockIdx.y * group + (step + 1) % group;
        const transform_chunk later = transform_chunk_at(a, begin + (unsigned)((step + 1) / group), end);
        stage_gradients(a, later, later_head, next, next + TRANSFORM_TILE);
        copy_wait<1>();
        __syncthreads();
        if (requested) sums.absorb(1, dt, x);
        if (a.dx) {
            const float ones[2] = {1, 1};
            uint32_t rows[TRANSFORM_DIM / 16][4];
            float dx[TRANSFORM_DIM / 8][4] = {};
            load_staged(rows, dt, TRANSFORM_STRIDE);
            multiply_rows(dx, rows, m, TRANSFORM_STRIDE, 0);
            write_rows(dx, ones, out_tile, TRANSFORM_STRIDE, chunk_rows((bf16 *)a.dx, a.dx_strides, chunk, head),
                       a.dx_strides.row, chunk.count);
        }
        chunk = later, head = later_head;
        __syncthreads();
    }
    if (requested) write_partial(a, sums);
}

/* The sums over all parts, in order. Grid: elements, key heads. */
__global__ void transform_parameters_kernel(transform_arguments a)
{
    const int matrix = a.width * a.dim, all = matrix + a.width;
    const int i = (int)(blockIdx.x * blockDim.x + threadIdx.x), key_head = (int)blockIdx.y;
    float *to = i < matrix ? a.dm : a.dbias;
    if (i >= all || !to) return;
    to += i < matrix ? key_head * matrix + i : key_head * a.width + i - matrix;
    double sum = (i < matrix ? a.add_m : a.add_bias) ? (double)*to : 0;
    for (int part = 0; part < a.parts; part++)
        sum += (double)a.partials[((size_t)part * (size_t)a.key_heads + (size_t)key_head) * (size_t)all + (size_t)i];
    *to = (float)sum;
}

/* ---- other sizes ------------------------------------------------------------------------------------------------- */

/* Products of tiles of 64 rows and columns, for any number of columns: one tile at a time, without overlap of copies
 * and products. They read x once for each tile of 64 columns of t. */
enum { ANY = 64, ANY_STRIDE = ANY + 8, ANY_TILE = ANY * ANY_STRIDE };

/* Rows [first, first + 64) of a head of an array, columns [column, column + 64), to a tile; zeros beyond its ends. */
__device__ inline void load_any(const transform_arguments &a, const bf16 *x, const bo_gpu_strides &by, int head,
                                size_t first, int column, int columns, bf16 *to)
{
    for (int e = (int)threadIdx.x; e < ANY * ANY / 8; e += FAST_THREADS) {
        const int row = e / (ANY / 8), at = column + e % (ANY / 8) * 8;
        const size_t place = first + (size_t)row;
        const bool present = place < a.rows && at < columns;
        const int sequence = by.sequence ? (int)(place / a.tokens) : 0;
        copy_async(to + row * ANY_STRIDE + at - column, present ? numbers_at(x, by, sequence, place, head) + at : x,
                   present);
    }
    copy_commit();
}

/* A tile of M, or of the identity: rows [row, row + 64), columns [column, column + 64). */
__device__ inline void load_any_matrix(const transform_arguments &a, int key_head, int row, int column, bf16 *to)
{
    const float *m = a.m ? a.m + (size_t)key_head * (size_t)(a.width * a.dim) : nullptr;
    for (int e = (int)threadIdx.x; e < ANY * ANY; e += FAST_THREADS) {
        const int i = row + e / ANY, j = column + e % ANY;
        float x = i == j ? 1.0f : 0.0f;
        if (m) x = i < a.width && j < a.dim ? m[(size_t)i * (size_t)a.dim + (size_t)j] : 0.0f;
        to[e / ANY * ANY_STRIDE + e % ANY] = from_float<bf16>(x);
    }
}

/* t = M x + b; BACK: dx = Mᵀ dt. Grid: tiles of rows, heads, tiles of columns. */
template <bool BACK> __global__ void __launch_bounds__(FAST_THREADS) any_transform_kernel(transform_arguments a)
{
    BO_SHARED(shared);
    bf16 *const tile = reinterpret_cast<bf16 *>(shared), *const m = tile + ANY_TILE;
    const int head = (int)blockIdx.y, key_head = head / (a.heads / a.key_heads), column = (int)blockIdx.z * ANY;
    const int depth = BACK ? a.width : a.dim, columns = BACK ? a.dim : a.width;
    const size_t first = (size_t)blockIdx.x * ANY;
    const bo_gpu_strides whole = without_gaps(a.heads, a.width), &from = BACK ? whole : a.x_strides,
                         &by = BACK ? a.dx_strides : whole;
    float out[ANY / 8][4] = {};
    for (int k = 0; k < depth; k += ANY) {
        __syncthreads();
        load_any(a, (const bf16 *)(BACK ? a.dt : a.x), from, head, first, k, depth, tile);
        load_any_matrix(a, key_head, BACK ? k : column, BACK ? column : k, m);
        copy_wait<0>();
        __syncthreads();
#pragma unroll
        for (int s = 0; s < ANY; s += 16) {
            uint32_t rows[4], b[4];
            load_a(rows, tile, ANY_STRIDE, 16 * warp_id(), s);
#pragma unroll
            for (int t = 0; t < ANY / 8; t += 2) {
                if (BACK)
                    load_b_rows(b, m, ANY_STRIDE, s, 8 * t);
                else
                    load_b(b, m, ANY_STRIDE, s, 8 * t);
                mma_two(out[t], out[t + 1], rows, b);
            }
        }
    }
    __syncthreads();
    bf16 *at = tile + (16 * warp_id() + lane_row()) * ANY_STRIDE + lane_column();
#pragma unroll
    for (int t = 0; t < ANY / 8; t++) {
        const int place = column + 8 * t + lane_column();
        float bias[2] = {0, 0};
        for (int i = 0; !BACK && a.bias && place < columns && i < 2; i++)
            bias[i] = a.bias[key_head * a.width + place + i];
#pragma unroll
        for (int r = 0; r < 2; r++)
            *reinterpret_cast<uint32_t *>(at + 8 * r * ANY_STRIDE + 8 * t) =
                pack_bf16(out[t][2 * r] + bias[0], out[t][2 * r + 1] + bias[1]);
    }
    __syncwarp();
    for (int e = lane_id(); e < 16 * ANY / 8; e += WARP) {
        const int row = 16 * warp_id() + e / (ANY / 8), place = column + e % (ANY / 8) * 8;
        const size_t index = first + (size_t)row;
        if (index >= a.rows || place >= columns) continue;
        const int sequence = by.sequence ? (int)(index / a.tokens) : 0;
        bf16 *to = numbers_at((bf16 *)(BACK ? a.dx : a.t), by, sequence, index, head) + place;
        *reinterpret_cast<pack<bf16, 8> *>(to) =
            *reinterpret_cast<const pack<bf16, 8> *>(tile + row * ANY_STRIDE + place - column);
    }
}

/* Partial sums of dM and db. Grid: parts, key heads, tiles of dM. */
__global__ void __launch_bounds__(FAST_THREADS) any_parameters_kernel(transform_arguments a, int across)
{
    BO_SHARED(shared);
    bf16 *const dt = reinterpret_cast<bf16 *>(shared), *const x = dt + ANY_TILE;
    const int key_head = (int)blockIdx.y, group = a.heads / a.key_heads;
    const int row = (int)blockIdx.z / across * ANY, column = (int)blockIdx.z % across * ANY;
    const size_t tiles = (a.rows + ANY - 1) / ANY, each = (tiles + (size_t)a.parts - 1) / (size_t)a.parts,
                 begin = (size_t)blockIdx.x * each, end = min(tiles, begin + each);
    const bo_gpu_strides whole = without_gaps(a.heads, a.width);
    float s[ANY / 8][4] = {}, bias[2] = {0, 0};
    for (size_t tile = begin; tile < end; tile++)
        for (int g = 0; g < group; g++) {
            const int head = key_head * group + g;
            __syncthreads();
            load_any(a, (const bf16 *)a.dt, whole, head, tile * ANY, row, a.width, dt);
            load_any(a, (const bf16 *)a.x, a.x_strides, head, tile * ANY, column, a.dim, x);
            copy_wait<0>();
            __syncthreads();
#pragma unroll
            for (int k = 0; k < ANY; k += 16) {
                uint32_t rows[4], b[4];
                load_a_transposed(rows, dt, ANY_STRIDE, 16 * warp_id(), k);
#pragma unroll
                for (int i = 0; i < 4; i++) {
                    float low, high;
                    unpack_bf16(rows[i], low, high);
                    bias[i % 2] += low + high;
                }
#pragma unroll
                for (int t = 0; t < ANY / 8; t += 2) {
                    load_b_rows(b, x, ANY_STRIDE, k, 8 * t);
                    mma_two(s[t], s[t + 1], rows, b);
                }
            }
        }
    const size_t matrix = (size_t)(a.width * a.dim);
    float *to = a.partials + ((size_t)blockIdx.x * (size_t)a.key_heads + blockIdx.y) * (matrix + (size_t)a.width);
    for (int r = 0; r < 2; r++) {
        const int i = row + 16 * warp_id() + lane_row() + 8 * r;
        const float sum = quad_sum(bias[r]);
        if (i >= a.width) continue;
        if (column == 0 && lane_column() == 0) to[matrix + (size_t)i] = sum;
        for (int t = 0; t < ANY / 8; t++)
            for (int c = 0; c < 2; c++) {
                const int j = column + 8 * t + lane_column() + c;
                if (j < a.dim) to[(size_t)i * (size_t)a.dim + (size_t)j] = s[t][2 * r + c];
            }
    }
}

static unsigned any_tiles(size_t columns)
{
    return (unsigned)ceil_div(columns, ANY);
}

static bool is_tuned(const transform_arguments *a)
{
    return a->dim == TRANSFORM_DIM && a->width == TRANSFORM_DIM;
}

template <bool BACK> static bo_gpu_error any_transform(bo_gpu *cuda, const transform_arguments *a)
{
    const dim3 grid(any_tiles(a->rows), (unsigned)a->heads, any_tiles((size_t)(BACK ? a->dim : a->width)));
    return launch(cuda, grid, dim3(FAST_THREADS), 2 * ANY_TILE * sizeof(bf16), any_transform_kernel<BACK>, *a);
}

static bo_gpu_error any_transform_back(bo_gpu *cuda, const transform_arguments *a)
{
    bo_gpu_error error = a->dx ? any_transform<true>(cuda, a) : nullptr;
    if (error || !(a->dm || a->dbias)) return error;
    const unsigned across = any_tiles((size_t)a->dim);
    return launch(cuda, dim3((unsigned)a->parts, (unsigned)a->key_heads, across * any_tiles((size_t)a->width)),
                  dim3(FAST_THREADS), 2 * ANY_TILE * sizeof(bf16), any_parameters_kernel, *a, (int)across);
}

} // namespace features

bo_gpu_error row_transform(bo_gpu *cuda, const bo_gpu_row_transform *a)
{
    if (!features::is_tuned(a)) return features::any_transform<false>(cuda, a);
    return launch(cuda, dim3((unsigned)a->parts, (unsigned)a->heads), dim3(features::FAST_THREADS),
                  features::FORWARD_TRANSFORM_BYTES, features::transform_kernel, *a);
}

bo_gpu_error row_transform_back(bo_gpu *cuda, const bo_gpu_row_transform *a)
{
    enum { THREADS = 128 };
    const size_t numbers = (size_t)a->width * (size_t)(a->dim + 1);
    bo_gpu_error error = nullptr;
    if (features::is_tuned(a))
        error = launch(cuda, dim3((unsigned)a->parts, (unsigned)a->key_heads), dim3(features::FAST_THREADS),
                       features::BACK_TRANSFORM_BYTES, features::transform_back_kernel, *a);
    else
        error = features::any_transform_back(cuda, a);
    if (error || !(a->dm || a->dbias)) return error;
    return launch(cuda, dim3((unsigned)ceil_div(numbers, THREADS), (unsigned)a->key_heads), dim3(THREADS), 0,
                  features::transform_parameters_kernel, *a);
}

} // namespace bo
