/* A stable radix sort of integers (least significant bits first), without atomics. Every pass sorts by eight bits:
 * tiles of 1024 keys count their digits, one block computes the start offsets of the digits of every tile, and tiles
 * move their keys. Per pass 16 bytes per key and 2 KB per tile; 32768 keys below 2^16 need two passes of three
 * launches. */
#include "arrays.cuh"
#include "launches.cuh"

namespace bo {

enum {
    DIGITS = 1 << BO_GPU_SORT_BITS,
    SORT_WARPS = 8,
    SORT_THREADS = SORT_WARPS * WARP,
    SORT_STEPS = BO_GPU_SORT_TILE / SORT_THREADS, /* keys of a lane */
    SCAN_THREADS = 1024
};

/* Keys of one pass: NULL positions mean 0, 1, 2, …. */
struct sort_pass {
    size_t count, tiles;
    int32_t limit;
    int shift;
    const int32_t *keys, *positions;
    int32_t *begins; /* digits x tiles */
    int32_t *sorted, *order;
};

__device__ inline int32_t key_at(const sort_pass &p, size_t i)
{
    const int32_t key = p.keys[i];
    return key < 0 || key > p.limit ? p.limit : key;
}

/* The lanes of this warp with the same digit, as bits; `valid`: this lane has a key. */
__device__ inline unsigned lanes_with(int digit, bool valid)
{
    unsigned same = __ballot_sync(0xFFFFFFFFu, valid);
#pragma unroll
    for (int bit = 0; bit < BO_GPU_SORT_BITS; bit++) {
        const unsigned set = __ballot_sync(0xFFFFFFFFu, digit >> bit & 1);
        same &= digit >> bit & 1 ? set : ~set;
    }
    return same;
}

/* Counts the digits of the keys of each warp: counts[warp][digit]. Keys are in the order warp, step, lane; ranks
 * receive the number of earlier keys of the warp with the same digit. */
__device__ inline void count_digits(const sort_pass &p, int32_t (*counts)[DIGITS], int32_t (&keys)[SORT_STEPS],
                                    int32_t (&ranks)[SORT_STEPS])
{
    const int warp = (int)threadIdx.x / WARP, lane = (int)threadIdx.x % WARP;
    for (int d = (int)threadIdx.x; d < SORT_WARPS * DIGITS; d += SORT_THREADS) counts[d / DIGITS][d % DIGITS] = 0;
    __syncthreads();
#pragma unroll
    for (int s = 0; s < SORT_STEPS; s++) {
        const size_t i = (size_t)blockIdx.x * BO_GPU_SORT_TILE + (size_t)((warp * SORT_STEPS + s) * WARP + lane);
        const bool valid = i < p.count;
        keys[s] = valid ? key_at(p, i) : 0;
        const int digit = keys[s] >> p.shift & (DIGITS - 1);
        const unsigned same = lanes_with(digit, valid), before = same & ((1u << lane) - 1);
        const int32_t base = counts[warp][digit];
        ranks[s] = base + __popc(before);
        __syncwarp();
        if (valid && !before) counts[warp][digit] = base + __popc(same);
        __syncwarp();
    }
    __syncthreads();
}

__global__ void sort_count_kernel(sort_pass p)
{
    __shared__ int32_t counts[SORT_WARPS][DIGITS];
    int32_t keys[SORT_STEPS], ranks[SORT_STEPS];
    count_digits(p, counts, keys, ranks);
    for (int d = (int)threadIdx.x; d < DIGITS; d += SORT_THREADS) {
        int32_t total = 0;
        for (int w = 0; w < SORT_WARPS; w++) total += counts[w][d];
        p.begins[(size_t)d * p.tiles + blockIdx.x] = total;
    }
}

/* The sum of x over the threads before this one; *total: over all. */
__device__ inline int32_t sum_before(int32_t x, int32_t *smem, int32_t *total)
{
    const int lane = (int)threadIdx.x % WARP, warp = (int)threadIdx.x / WARP, warps = (int)blockDim.x / WARP;
    int32_t sum = x;
    for (int step = 1; step < WARP; step *= 2) {
        const int32_t left = __shfl_up_sync(0xFFFFFFFFu, sum, (unsigned)step);
        if (lane >= step) sum += left;
    }
    if (lane == WARP - 1) smem[warp] = sum;
    __syncthreads();
    int32_t base = 0;
    *total = 0;
    for (int w = 0; w < warps; w++) {
        if (w < warp) base += smem[w];
        *total += smem[w];
    }
    __syncthreads();
    return base + sum - x;
}

/* Replaces counts by the sums of the counts before them: one block. */
__global__ void sort_scan_kernel(int32_t *counts, size_t count)
{
    __shared__ int32_t smem[WARP];
    int32_t base = 0;
    for (size_t first = 0; first < count; first += SCAN_THREADS) {
        const size_t i = first + threadIdx.x;
        int32_t total, begin = sum_before(i < count ? counts[i] : 0, smem, &total);
        if (i < count) counts[i] = base + begin;
        base += total;
    }
}

__global__ void sort_move_kernel(sort_pass p)
{
    __shared__ int32_t counts[SORT_WARPS][DIGITS];
    const int warp = (int)threadIdx.x / WARP, lane = (int)threadIdx.x % WARP;
    int32_t keys[SORT_STEPS], ranks[SORT_STEPS];
    count_digits(p, counts, keys, ranks);
    for (int d = (int)threadIdx.x; d < DIGITS; d += SORT_THREADS) {
        int32_t begin = p.begins[(size_t)d * p.tiles + blockIdx.x];
        for (int w = 0; w < SORT_WARPS; w++) {
            const int32_t digit_count = counts[w][d];
            counts[w][d] = begin;
            begin += digit_count;
        }
    }
    __syncthreads();
    for (int s = 0; s < SORT_STEPS; s++) {
        const size_t i = (size_t)blockIdx.x * BO_GPU_SORT_TILE + (size_t)((warp * SORT_STEPS + s) * WARP + lane);
        if (i >= p.count) continue;
        const int32_t to = counts[warp][keys[s] >> p.shift & (DIGITS - 1)] + ranks[s];
        p.sorted[to] = keys[s];
        p.order[to] = p.positions ? p.positions[i] : (int32_t)i;
    }
}

static bo_gpu_error sort_by_digit(bo_gpu *cuda, const sort_pass &p)
{
    const dim3 grid((unsigned)p.tiles), block(SORT_THREADS);
    if (bo_gpu_error error = launch(cuda, grid, block, 0, sort_count_kernel, p)) return error;
    if (bo_gpu_error error = launch(cuda, dim3(1), dim3(SCAN_THREADS), 0, sort_scan_kernel, p.begins, p.tiles * DIGITS))
        return error;
    return launch(cuda, grid, block, 0, sort_move_kernel, p);
}

/* Passes alternate between `smem` and the result, so that the last one writes the result. */
bo_gpu_error sort(bo_gpu *cuda, const bo_gpu_sort *a)
{
    int passes = 1;
    while (a->limit >> (passes * BO_GPU_SORT_BITS)) passes++;
    int32_t *spare = (int32_t *)a->workspace, *spare_order = spare + a->count;
    sort_pass p = {};
    p.count = a->count, p.tiles = ceil_div(a->count, BO_GPU_SORT_TILE), p.limit = (int32_t)a->limit;
    p.begins = spare_order + a->count;
    p.keys = a->keys;
    for (int i = 0; i < passes; i++) {
        const bool last = (passes - i) % 2 != 0; /* the last pass, or an even number of passes before it */
        p.shift = i * BO_GPU_SORT_BITS;
        p.sorted = last ? a->sorted : spare, p.order = last ? a->order : spare_order;
        if (bo_gpu_error error = sort_by_digit(cuda, p)) return error;
        p.keys = p.sorted, p.positions = p.order;
    }
    return nullptr;
}

} // namespace bo
