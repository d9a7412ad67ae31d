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
    enum { MATRIX = TRANSFORM_DIM * TRANSFORM_DIM, ALL = MATRIX + TRANSFORM_DIM };
    const int i = (int)(blockIdx.x * blockDim.x + threadIdx.x), key_head = (int)blockIdx.y;
    float *to = i < MATRIX ? a.dm : a.dbias;
    if (i >= ALL || !to) return;
    to += i < MATRIX ? key_head * MATRIX + i : key_head * TRANSFORM_DIM + i - MATRIX;
    double sum = (i < MATRIX ? a.add_m : a.add_bias) ? (double)*to : 0;
    for (int part = 0; part < a.parts; part++)
        sum += (double)a.partials[((size_t)part * (size_t)a.key_heads + (size_t)key_head) * ALL + (size_t)i];
    *to = (float)sum;
}

} // namespace features

bo_gpu_error row_transform(bo_gpu *cuda, const bo_gpu_row_transform *a)
{
    return launch(cuda, dim3((unsigned)a->parts, (unsigned)a->heads), dim3(features::FAST_THREADS),
                  features::FORWARD_TRANSFORM_BYTES, features::transform_kernel, *a);
}

bo_gpu_error row_transform_back(bo_gpu *cuda, const bo_gpu_row_transform *a)
{
    enum { NUMBERS = features::TRANSFORM_DIM * (features::TRANSFORM_DIM + 1), THREADS = 128 };
    bo_gpu_error error = launch(cuda, dim3((unsigned)a->parts, (unsigned)a->key_heads), dim3(features::FAST_THREADS),
                                features::BACK_TRANSFORM_BYTES, features::transform_back_kernel, *a);
    if (error || !(a->dm || a->dbias)) return error;
    return launch(cuda, dim3((NUMBERS + THREADS - 1) / THREADS, (unsigned)a->key_heads), dim3(THREADS), 0,
                  features::transform_parameters_kernel, *a);
}

} // namespace bo
