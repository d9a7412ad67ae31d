/* Kernels of Muon besides GEMM, for batches of matrices of equal shape: 16 bytes per weight to compute the direction, 8
 * to scale it, 12 (10 for X in bfloat16) to update the weight. Transposes go through shared memory. */
#include "device.cuh"
#include "launches.cuh"

namespace bo {

enum { THREADS = 256, TILE = 32 };

__global__ void direction_kernel(bo_gpu_muon_list a)
{
    const size_t at = blockIdx.y, count = a.small * a.large, step = (size_t)gridDim.x * blockDim.x;
    const float *g = a.g[at];
    float *m = a.m[at], *u = a.u + at * a.stride;
    const float rest = a.rest * a.scale, g_factor = a.nesterov ? rest : 0.0f, m_factor = a.nesterov ? a.momentum : 1.0f;
    for (size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step) {
        if (!m) {
            u[i] = a.scale * g[i];
            continue;
        }
        const float moved = a.momentum * m[i] + rest * g[i];
        m[i] = moved;
        u[i] = g_factor * g[i] + m_factor * moved;
    }
}

bo_gpu_error muon_direction(bo_gpu *cuda, const bo_gpu_muon_list *a)
{
    const size_t blocks = ceil_div(a->small * a->large, THREADS);
    return launch(cuda, dim3((unsigned)(blocks < 1024 ? blocks : 1024), (unsigned)a->count), dim3(THREADS), 0,
                  direction_kernel, *a);
}

/* A tile of X: element (row + i, column + j) for threads of lane j (or lane i, where X is transposed). */
struct tile_place {
    size_t row, column;
    int lane, warp;
};

__device__ inline tile_place place_of_tile(const bo_gpu_muon_list &a)
{
    const size_t across = (a.large + TILE - 1) / TILE;
    return {blockIdx.x / across * TILE, blockIdx.x % across * TILE, (int)(threadIdx.x % WARP),
            (int)(threadIdx.x / WARP)};
}

/* Calls store(index in the weight, element of X) for all elements of the tile, so neighboring threads have neighboring
 * indices in the weight; get(index in X) reads X. */
template <typename Get, typename Store>
__device__ inline void from_x(const bo_gpu_muon_list &a, bool tall, float (*smem)[TILE + 1], Get get, Store store)
{
    const tile_place t = place_of_tile(a);
    for (int i = t.warp; i < TILE; i += THREADS / WARP) {
        const size_t row = t.row + i, column = t.column + t.lane;
        if (row >= a.small || column >= a.large) continue;
        const float x = get(row * a.large + column);
        if (tall)
            smem[i][t.lane] = x;
        else
            store(row * a.large + column, x);
    }
    if (!tall) return;
    __syncthreads();
    for (int j = t.warp; j < TILE; j += THREADS / WARP) {
        const size_t row = t.row + t.lane, column = t.column + j;
        if (row < a.small && column < a.large) store(column * a.small + row, smem[t.lane][j]);
    }
}

template <typename T> __global__ void store_kernel(bo_gpu_muon_list a)
{
    __shared__ float smem[TILE][TILE + 1];
    const size_t at = blockIdx.y;
    const T *x = static_cast<const T *>(a.x) + at * a.stride;
    float *w = a.w[at];
    const float rate = a.rate[at], keep = a.keep[at];
    from_x(
        a, a.tall[at], smem, [=](size_t i) { return to_float(x[i]); },
        [=](size_t i, float u) { w[i] = keep * w[i] - rate * u; });
}

static dim3 grid_of_tiles(const bo_gpu_muon_list *a)
{
    return dim3((unsigned)(ceil_div(a->small, TILE) * ceil_div(a->large, TILE)), (unsigned)a->count);
}

bo_gpu_error muon_store(bo_gpu *cuda, const bo_gpu_muon_list *a)
{
    return launch(cuda, grid_of_tiles(a), dim3(THREADS), 0,
                  a->type == BO_ELEMENT_FLOAT32 ? store_kernel<float> : store_kernel<bf16>, *a);
}

__global__ void load_kernel(bo_gpu_muon_list a)
{
    __shared__ float smem[TILE][TILE + 1];
    const size_t at = blockIdx.y;
    const float *u = a.u + at * a.stride;
    float *x = static_cast<float *>(a.x) + at * a.stride;
    const float scale = (float)(1 / (sqrt(a.squares[at]) + 1e-7));
    const tile_place t = place_of_tile(a);
    const bool tall = a.tall[at];
    for (int j = t.warp; tall && j < TILE; j += THREADS / WARP) {
        const size_t row = t.row + t.lane, column = t.column + j;
        if (row < a.small && column < a.large) smem[t.lane][j] = u[column * a.small + row];
    }
    if (tall) __syncthreads();
    for (int i = t.warp; i < TILE; i += THREADS / WARP) {
        const size_t row = t.row + i, column = t.column + t.lane;
        if (row >= a.small || column >= a.large) continue;
        x[row * a.large + column] = scale * (tall ? smem[i][t.lane] : u[row * a.large + column]);
    }
}

bo_gpu_error muon_load(bo_gpu *cuda, const bo_gpu_muon_list *a)
{
    return launch(cuda, grid_of_tiles(a), dim3(THREADS), 0, load_kernel, *a);
}

} // namespace bo
