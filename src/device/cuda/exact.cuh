/* Softmax attention over explicit keys: visible positions, and shared-memory tiles as tensor-core operands. */
#ifndef BO_CUDA_EXACT_CUH
#define BO_CUDA_EXACT_CUH

#include "attention.cuh"

namespace bo {

/* ---- positions --------------------------------------------------------------------------------------------------- */

/* The keys of one sequence: positions oldest … old - 1 in its state, old … end - 1 in the call. */
struct exact_keys {
    int oldest, old, end;
    int start; /* row of the call's first key */
};

__device__ inline exact_keys keys_of(const bo_gpu_exact &a, int sequence)
{
    exact_keys keys = {};
    if (a.at.states) keys.old = (int)static_cast<const bo_state_header *>(a.at.states[sequence])->tokens;
    keys.oldest = keys.old > a.capacity ? keys.old - a.capacity : 0;
    keys.end = keys.old;
    if (!a.at.k) return keys;
    keys.start = rows_before(a.at.keys, sequence);
    keys.end += rows_before(a.at.keys, sequence + 1) - keys.start;
    if (a.at.reads_first && a.window && keys.end - a.window > keys.oldest) keys.oldest = keys.end - a.window;
    return keys;
}

/* The positions first … end - 1 that are visible to the query at `position`. */
struct exact_span {
    int first, end;
};
__device__ inline exact_span visible_keys(const bo_gpu_exact &a, const exact_keys &keys, int position)
{
    exact_span visible = {keys.oldest, keys.end};
    if (!a.at.causal) return visible;
    visible.end = min(position + 1, keys.end);
    if (a.window) visible.first = max(position + 1 - a.window, keys.oldest);
    return visible;
}

/* The queries first … end - 1, out of `count` of a sequence, to which key `j` of the call is visible; without states.
 */
__device__ inline exact_span visible_queries(const bo_gpu_exact &a, const exact_keys &keys, int count, int j)
{
    exact_span visible = {0, count};
    if (j < keys.oldest || j >= keys.end) return exact_span{0, 0};
    if (!a.at.causal) return visible;
    visible.first = j;
    if (a.window) visible.end = min(count, j + a.window);
    return visible;
}

/* The index of (head, row) in top, sum and delta. */
__device__ inline size_t tape_at(const bo_gpu_exact &a, int head, int row)
{
    return (size_t)head * a.at.queries.rows + (size_t)row;
}

/* The logarithm of the weight of a key with this q·k; -INFINITY: the weight is 0. */
__device__ inline float log_weight(const bo_gpu_exact &a, float product)
{
    const float score = product * a.at.scale;
    return a.power != 0 ? a.power * logf(fabsf(score)) : score;
}

/* The derivative of log_weight with respect to the score; 0 where it does not exist. */
__device__ inline float log_weight_derivative(const bo_gpu_exact &a, float product)
{
    const float score = product * a.at.scale;
    if (a.power == 0) return 1.0f;
    return fabsf(score) >= 0x1p-126f ? a.power / score : 0.0f;
}

/* Keys and values of one key head in a state. */
struct kept_keys {
    const float *keys, *values;
    int ring, panel, dim, value_dim;
};

/* Padded to 16 floats. */
__device__ inline size_t kept_key_floats(int ring, int panel, int dim)
{
    const size_t slots = (size_t)((ring + panel - 1) / panel * panel);
    return (slots * (size_t)dim + 15) / 16 * 16;
}

__device__ inline kept_keys kept_of(const bo_gpu_exact &a, int sequence, int key_head)
{
    const char *state = static_cast<const char *>(a.at.states[sequence]);
    const float *at = reinterpret_cast<const float *>(
        state + sizeof(bo_state_header) + (size_t)key_head * (a.at.sums_bytes + a.at.kept_bytes) + a.at.sums_bytes);
    return kept_keys{
        at, at + kept_key_floats(a.capacity, a.panel, a.at.dim), a.capacity, a.panel, a.at.dim, a.at.value_dim};
}

/* The offset of entry i of the key in a slot: panels are transposed. */
__device__ inline size_t kept_key_at(const kept_keys &kept, int slot, int i)
{
    return (size_t)(slot / kept.panel * kept.dim + i) * (size_t)kept.panel + (size_t)(slot % kept.panel);
}

__device__ inline float kept_value(const kept_keys &kept, int slot, int i)
{
    return kept.values[(size_t)slot * (size_t)kept.value_dim + (size_t)i];
}

/* The kernels for a call: tensor cores (bo_gpu_exact_in_tiles), float tiles for float32 and head dimensions up to 128,
 * else the simple kernels. */
enum exact_way { EXACT_TENSOR_CORES, EXACT_FLOAT, EXACT_SIMPLE };
inline exact_way exact_way_of(const bo_gpu_exact &a)
{
    const bo_gpu_attention &at = a.at;
    if (bo_gpu_exact_in_tiles(&at, a.power != 0)) return EXACT_TENSOR_CORES;
    return at.type == BO_ELEMENT_FLOAT32 && at.dim <= 128 && at.value_dim <= 128 ? EXACT_FLOAT : EXACT_SIMPLE;
}

/* ---- tiles in shared memory -------------------------------------------------------------------------------------- */

/* Rows of D bfloat16 elements. Chunk c of 16 bytes of row r is stored at chunk c ^ (r % 8), so ldmatrix reads eight
 * rows without bank conflicts. */
template <int D> struct exact_tile {
    bf16 *at;
    __device__ bf16 *chunk(int row, int c) const
    {
        return at + row * D + (c ^ (row & 7)) * 8;
    }

    /* chunk(row, 2 pair + second) for second 0 or 1: the pair enters last, so the compiler can share the other terms.
     */
    __device__ bf16 *chunk_of_pair(int row, int pair, int second) const
    {
        return at + ((row * D + (second ^ (row & 7)) * 8) ^ (pair * 16));
    }

    /* Fragment of a left-hand factor: rows row … row + 15, columns 16 k …. */
    __device__ void left(uint32_t (&a)[4], int row, int k) const
    {
        const int lane = (int)(threadIdx.x % WARP);
        ldmatrix(a, chunk_of_pair(row + lane % 16, k, lane / 16));
    }
    /* Two fragments of a right-hand factor B with B[k][n] = tile[n][k]: n in row … row + 15, k in 16 k …. */
    __device__ void right(uint32_t (&b)[4], int row, int k) const
    {
        const int lane = (int)(threadIdx.x % WARP);
        ldmatrix(b, chunk_of_pair(row + lane % 8 + lane / 16 * 8, k, lane / 8 % 2));
    }
    /* A variant with B[k][n] = tile[k][n]: k in row … row + 15, n in 16 n …. */
    __device__ void right_rows(uint32_t (&b)[4], int row, int n) const
    {
        const int lane = (int)(threadIdx.x % WARP);
        ldmatrix_transposed(b, chunk_of_pair(row + lane % 16, n, lane / 16));
    }
    /* Copies rows of `width` elements, `stride` apart; rows from `present` on and columns from `width` on are zero. */
    template <int ROWS, int THREADS> __device__ void load(const bf16 *from, size_t stride, int present, int width) const
    {
        enum { CHUNKS = D / 8, STEP = THREADS / CHUNKS };
        static_assert(STEP % 8 == 0 && ROWS % STEP == 0, "all rows of a thread have the same place of its chunk");
        const int row = (int)threadIdx.x / CHUNKS, c = (int)threadIdx.x % CHUNKS;
        const bool inside = c * 8 < width;
        bf16 *to = chunk(row, c);
        from += (size_t)row * stride + (size_t)(c * 8);
#pragma unroll
        for (int r = 0; r < ROWS; r += STEP, from += STEP * stride)
            copy_async(to + r * D, from, inside && row + r < present);
    }
    /* Writes rows of this warp to memory: `rows` rows from `row` on, of which the rows before `present` exist. */
    __device__ void store(int row, int rows, bf16 *to, size_t stride, int present, int width) const
    {
        for (int i = (int)(threadIdx.x % WARP); i < rows * (D / 8); i += WARP) {
            const int r = row + i / (D / 8), c = i % (D / 8);
            if (r < present && c * 8 < width)
                *reinterpret_cast<uint4 *>(to + (size_t)r * stride + c * 8) =
                    *reinterpret_cast<const uint4 *>(chunk(r, c));
        }
    }
    /* Rounds an accumulator of 16 rows to the tile. */
    __device__ void store_accumulator(int row, const float (&d)[D / 8][4], float low, float high) const
    {
        const int lane = (int)(threadIdx.x % WARP), g = lane / 4, c = 2 * (lane % 4);
        for (int n = 0; n < D / 8; n++) {
            *reinterpret_cast<uint32_t *>(chunk(row + g, n) + c) = pack_bf16(d[n][0] * low, d[n][1] * low);
            *reinterpret_cast<uint32_t *>(chunk(row + g + 8, n) + c) = pack_bf16(d[n][2] * high, d[n][3] * high);
        }
    }
};

/* Two neighboring accumulators as a left-hand factor of the next product. */
__device__ inline void as_left(uint32_t (&a)[4], const float (&even)[4], const float (&odd)[4])
{
    a[0] = pack_bf16(even[0], even[1]), a[1] = pack_bf16(even[2], even[3]);
    a[2] = pack_bf16(odd[0], odd[1]), a[3] = pack_bf16(odd[2], odd[3]);
}

/* d[0], d[1] += A B for the two fragments of right(). */
__device__ inline void mma_pair(float (&even)[4], float (&odd)[4], const uint32_t (&a)[4], const uint32_t (&b)[4])
{
    const uint32_t low[2] = {b[0], b[1]}, high[2] = {b[2], b[3]};
    mma(even, a, low);
    mma(odd, a, high);
}

/* exact_float.cu: float32, head dimensions up to 128. */
bo_gpu_error exact_float_forward(bo_gpu *cuda, const bo_gpu_exact *a);
bo_gpu_error exact_float_backward(bo_gpu *cuda, const bo_gpu_exact *a);
/* exact_simple.cu: any types and dims. */
bo_gpu_error exact_simple_forward(bo_gpu *cuda, const bo_gpu_exact *a);
bo_gpu_error exact_simple_backward(bo_gpu *cuda, const bo_gpu_exact *a);

/* The tile and head of a block, in grids of tiles times heads. Tiles vary slowest, so blocks with the most work start
 * first. */
struct exact_place {
    int tile, head;
};
__device__ inline exact_place exact_place_of(int heads, bool last_first)
{
    const int tiles = (int)gridDim.x / heads, tile = (int)blockIdx.x / heads;
    return {last_first ? tiles - 1 - tile : tile, (int)blockIdx.x % heads};
}

} // namespace bo

#endif
