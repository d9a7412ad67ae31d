/* Rows of a table by index (EMBED, POSITION), and the gradient of the table.
 *
 * Gather: with bfloat16 results and a float32 table, 6 bytes per element, 8 with x.
 *
 * Scatter: the rows of dy are added in the order of the sorted keys. A warp adds a tile of 32 entries, 256 columns. The
 * rows of a key within a tile are summed in registers and written once. Keys at the start and the end of a
 * tile may continue in other tiles: their sums go to `partial` (two rows per tile), and a second kernel adds them in
 * tile order. For 32768 tokens of 768 bfloat16 columns: 50 MB of dy, and 3 or 6 KB per row of the table
 * that is written or added to. */
#include "arrays.cuh"
#include "launches.cuh"

namespace bo {

enum { ROW_THREADS = 256, TILE = BO_GPU_SCATTER_TILE, TILE_COLUMNS = WARP * OCTET, AHEAD = 8 };
static_assert((int)TILE == (int)WARP, "a lane holds an entry of the tile");

__global__ void gather_kernel(bo_gpu_gather a, size_t octets)
{
    const size_t item = (size_t)blockIdx.x * blockDim.x + threadIdx.x, row = item / octets;
    if (row >= a.rows) return;
    const size_t column = item % octets * OCTET;
    const int count = a.columns - column < OCTET ? (int)(a.columns - column) : OCTET;
    const bool whole = a.columns % OCTET == 0;
    const int32_t index = a.index[row];
    const bool valid = index >= 0 && (size_t)index < a.table_rows;
    raw_octet raw_x, raw_row;
    float x[OCTET], y[OCTET];
    if (a.x.at) read_raw(a.x, row * a.columns + column, count, whole, raw_x);
    if (valid) read_raw(a.table, (size_t)index * a.columns + column, count, whole, raw_row);
    if (valid) widen_octet(a.table.type, raw_row, y);
    if (a.x.at) widen_octet(a.x.type, raw_x, x);
#pragma unroll
    for (int i = 0; i < OCTET; i++) {
        if (!valid) y[i] = NAN;
        if (a.x.at) y[i] += x[i];
    }
    write_octet(a.y, row * a.columns + column, count, whole, y);
}

bo_gpu_error gather(bo_gpu *cuda, const bo_gpu_gather *a)
{
    const size_t octets = ceil_div(a->columns, OCTET);
    return launch(cuda, dim3((unsigned)ceil_div(a->rows * octets, ROW_THREADS)), dim3(ROW_THREADS), 0, gather_kernel,
                  *a, octets);
}

/* ---- scatter ----------------------------------------------------------------------------------------------------- */

__device__ inline void store_partial(float *to, size_t column, int valid, const float (&sum)[OCTET])
{
#pragma unroll
    for (int i = 0; i < OCTET; i++)
        if (i < valid) to[column + (size_t)i] = sum[i];
}

/* Stores the sum of a run of equal keys: to partial[2 tile] if it started in an earlier tile, to partial[2 tile + 1] if
 * it starts in this tile and continues, else to the table. */
__device__ inline void store_run(const bo_gpu_scatter &a, size_t tile, size_t column, int valid, int32_t key,
                                 bool continued, bool continues, const float (&sum)[OCTET])
{
    if (key < 0 || (size_t)key >= a.table_rows) return;
    if (continued || continues)
        store_partial(a.partial + (2 * tile + (continued ? 0 : 1)) * a.columns, column, valid, sum);
    else
        write_octet(a.dtable, (size_t)key * a.columns + column, valid, a.columns % OCTET == 0, sum);
}

__global__ void scatter_kernel(bo_gpu_scatter a, size_t strips)
{
    const size_t warp = ((size_t)blockIdx.x * blockDim.x + threadIdx.x) / WARP, tile = warp / strips,
                 begin = tile * TILE;
    if (begin >= a.count) return;
    const int lane = (int)threadIdx.x % WARP, entries = a.count - begin < TILE ? (int)(a.count - begin) : TILE;
    const size_t column = warp % strips * TILE_COLUMNS + (size_t)lane * OCTET;
    const int valid = column >= a.columns ? 0 : a.columns - column < OCTET ? (int)(a.columns - column) : OCTET;
    const bool whole = a.columns % OCTET == 0;
    const int32_t key = lane < entries ? a.sorted[begin + (size_t)lane] : -1,
                  row = lane < entries ? a.order[begin + (size_t)lane] : 0;
    const int32_t earlier = begin ? a.sorted[begin - 1] : -1,
                  later = begin + TILE < a.count ? a.sorted[begin + TILE] : -1;
    float sum[OCTET];
    int32_t current = -1;
    bool continued = false;
    for (int first = 0; first < entries; first += AHEAD) {
        raw_octet raw[AHEAD];
#pragma unroll
        for (int e = 0; e < AHEAD; e++) {
            const size_t from = (size_t)__shfl_sync(0xFFFFFFFFu, row, first + e) * a.columns + column;
            if (first + e < entries && valid) read_raw(a.dy, from, valid, whole, raw[e]);
        }
#pragma unroll
        for (int e = 0; e < AHEAD; e++) {
            const int32_t next = __shfl_sync(0xFFFFFFFFu, key, first + e);
            if (first + e >= entries || !valid) continue;
            float x[OCTET];
            widen_octet(a.dy.type, raw[e], x);
            const bool starts = first + e == 0 || next != current;
            if (starts && first + e) store_run(a, tile, column, valid, current, continued, false, sum);
            if (starts) continued = first + e == 0 && next == earlier, current = next;
#pragma unroll
            for (int i = 0; i < OCTET; i++) sum[i] = starts ? x[i] : sum[i] + x[i];
        }
    }
    if (valid) store_run(a, tile, column, valid, current, continued, current == later, sum);
}

/* A thread adds the sums of a run that starts in a tile and continues in the next tiles. */
__global__ void scatter_join_kernel(bo_gpu_scatter a, size_t tiles, size_t octets)
{
    const size_t item = (size_t)blockIdx.x * blockDim.x + threadIdx.x, tile = item / octets;
    if (tile + 1 >= tiles) return;
    const size_t begin = tile * TILE, column = item % octets * OCTET;
    const int32_t key = a.sorted[begin + TILE - 1];
    if (key != a.sorted[begin + TILE] || (begin && key == a.sorted[begin - 1])) return;
    if (key < 0 || (size_t)key >= a.table_rows) return;
    const int valid = a.columns - column < OCTET ? (int)(a.columns - column) : OCTET;
    float sum[OCTET];
#pragma unroll
    for (int i = 0; i < OCTET; i++) sum[i] = i < valid ? a.partial[(2 * tile + 1) * a.columns + column + (size_t)i] : 0;
    for (size_t t = tile + 1; t < tiles && a.sorted[t * TILE] == key; t++)
#pragma unroll
        for (int i = 0; i < OCTET; i++)
            if (i < valid) sum[i] += a.partial[2 * t * a.columns + column + (size_t)i];
    write_octet(a.dtable, (size_t)key * a.columns + column, valid, a.columns % OCTET == 0, sum);
}

bo_gpu_error scatter(bo_gpu *cuda, const bo_gpu_scatter *a)
{
    const size_t tiles = ceil_div(a->count, TILE), strips = ceil_div(a->columns, TILE_COLUMNS),
                 octets = ceil_div(a->columns, OCTET);
    if (bo_gpu_error error = launch(cuda, dim3((unsigned)ceil_div(tiles * strips * WARP, ROW_THREADS)),
                                    dim3(ROW_THREADS), 0, scatter_kernel, *a, strips))
        return error;
    return launch(cuda, dim3((unsigned)ceil_div(tiles * octets, ROW_THREADS)), dim3(ROW_THREADS), 0,
                  scatter_join_kernel, *a, tiles, octets);
}

} // namespace bo
