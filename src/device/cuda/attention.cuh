/* Helpers of all attention kernels: rows of sequences, and tiles of rows. */
#ifndef BO_CUDA_ATTENTION_CUH
#define BO_CUDA_ATTENTION_CUH

#include "device.cuh"

namespace bo {

/* The first row of sequence s; for s = sequences, the number of rows. */
__device__ inline int rows_before(const bo_gpu_rows &rows, int s)
{
    return rows.starts ? rows.starts[s] : s * rows.tokens;
}

/* Blocks for one tile of C rows each. */
inline unsigned tiles_of(const bo_gpu_rows &rows, int C)
{
    return rows.starts ? (unsigned)(rows.rows / (size_t)C + (size_t)rows.sequences)
                       : (unsigned)(ceil_div((size_t)rows.tokens, (size_t)C) * (size_t)rows.sequences);
}

/* The block of the first tile of a sequence. */
__device__ inline int first_tile(const bo_gpu_rows &rows, int C, int sequence)
{
    if (rows.starts) return rows.starts[sequence] / C + sequence;
    return sequence * (int)ceil_div((size_t)rows.tokens, (size_t)C);
}

/* The elements of a head at a row of a sequence. */
template <typename T>
__device__ inline T *numbers_at(T *array, const bo_gpu_strides &by, int sequence, size_t row, int head)
{
    return array + ((ptrdiff_t)(row * by.row + (size_t)head * by.head) + (ptrdiff_t)sequence * by.sequence);
}

/* The same; NULL for a NULL array. */
template <typename T>
__device__ inline T *numbers_if_any(T *array, const bo_gpu_strides &by, int sequence, size_t row, int head)
{
    return array ? numbers_at(array, by, sequence, row, head) : nullptr;
}

/* The strides of a workspace array: rows of `heads` heads of `width` elements. */
__device__ inline bo_gpu_strides without_gaps(int heads, int width)
{
    return {(size_t)heads * (size_t)width, (size_t)width, 0};
}

/* The sequence of a row, for kernels that need it only as part of an address. */
__device__ inline int sequence_in(const bo_gpu_rows &rows, const bo_gpu_strides &by, size_t row)
{
    return by.sequence ? (int)(row / (size_t)rows.tokens) : 0;
}

struct row_tile {
    int sequence;
    int start, length; /* of the sequence */
    int first;         /* the first row of the tile in the sequence */
};

/* The tile of a block, 0 <= block < tiles_of(rows, C). Returns false if the block has no tile. With starts, the tiles
 * of sequence s start at block start(s) / C + s, which leaves enough blocks for all tiles. */
__device__ inline bool find_tile(const bo_gpu_rows &rows, int C, int block, row_tile *out)
{
    int low = 0, high = rows.sequences;
    if (rows.starts) {
        while (high - low > 1) { /* the last sequence that starts at this block or before */
            const int middle = (low + high) / 2;
            if (rows.starts[middle] / C + middle <= block)
                low = middle;
            else
                high = middle;
        }
    } else {
        low = block / (int)ceil_div((size_t)rows.tokens, (size_t)C);
    }
    out->sequence = low;
    out->start = rows_before(rows, low);
    out->length = rows_before(rows, low + 1) - out->start;
    out->first = (block - first_tile(rows, C, low)) * C;
    return out->first < out->length;
}

} // namespace bo

#endif
