/* Common definitions of kernels. nvcc compiles kernels for GPUs; a C++ compiler compiles the same files for the
 * emulator of the tests (BO_GPU_EMULATED, tests/cuda/emulator), which runs blocks on the CPU with one fiber per thread.
 *
 * Rules for kernels: BO_SHARED declares dynamic shared memory. All threads of a warp that have not returned call warp
 * functions (warp_sum, mma, …) together, and all such threads of a block call block barriers together. Inline assembly
 * only in this file. No atomics on floats, so results are bitwise reproducible. */
#ifndef BO_CUDA_DEVICE_CUH
#define BO_CUDA_DEVICE_CUH

#include "../gpu/plugin.h"

#ifdef BO_GPU_EMULATED
#include "emulator.h"
#else
#include <cuda_bf16.h>
#include <cuda_runtime.h>
#include "runtime.cuh"
#define BO_SHARED(name) extern __shared__ __align__(128) unsigned char name[]
#endif

#include <math.h>
#include <string.h>

namespace bo {

typedef __nv_bfloat16 bf16;

/* ---- numbers ----------------------------------------------------------------------------------------------------- */

__host__ __device__ inline float to_float(float x)
{
    return x;
}
__host__ __device__ inline float to_float(bf16 x)
{
    return __bfloat162float(x);
}
template <typename T> __host__ __device__ inline T from_float(float x);
template <> __host__ __device__ inline float from_float<float>(float x)
{
    return x;
}
template <> __host__ __device__ inline bf16 from_float<bf16>(float x)
{
    return __float2bfloat16(x);
}

/* N elements that one instruction loads or stores: N sizeof(T) is 4, 8 or 16 bytes, which is also the alignment. */
template <typename T, int N> struct alignas(N * sizeof(T)) pack {
    T at[N];
};

/* Two floats as bfloat16 in one register, the first in the lower half: the operand layout of mma. */
__device__ inline uint32_t pack_bf16(float low, float high)
{
    pack<bf16, 2> both;
    both.at[0] = __float2bfloat16(low), both.at[1] = __float2bfloat16(high);
    uint32_t bits;
    memcpy(&bits, &both, sizeof bits);
    return bits;
}

/* Converts eight bfloat16 to float with one instruction per element. */
__device__ inline void widen_bf16(const uint4 &raw, float (&x)[8])
{
    const uint32_t pairs[4] = {raw.x, raw.y, raw.z, raw.w};
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const uint32_t low = pairs[i] << 16, high = pairs[i] & 0xFFFF0000u;
        memcpy(&x[2 * i], &low, sizeof low);
        memcpy(&x[2 * i + 1], &high, sizeof high);
    }
}

constexpr float LOG2_E = 1.4426950408889634f;

/* 2^x with a relative error below 2^-22; results below the smallest normal float are 0. */
__device__ inline float exp2_fast(float x)
{
#ifdef BO_GPU_EMULATED
    return exp2f(x);
#else
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
#endif
}

/* 1 / x with a relative error below 2^-22; 0 for infinities and numbers above 2^126. */
__device__ inline float reciprocal_fast(float x)
{
#ifdef BO_GPU_EMULATED
    return 1.0f / x;
#else
    float y;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
#endif
}

__host__ __device__ inline size_t ceil_div(size_t a, size_t b)
{
    return (a + b - 1) / b;
}

/* ---- warps and blocks -------------------------------------------------------------------------------------------- */

enum { WARP = 32 };

__device__ inline float warp_sum(float x)
{
    for (int step = WARP / 2; step > 0; step /= 2) x += __shfl_xor_sync(0xFFFFFFFFu, x, step);
    return x;
}

__device__ inline double warp_sum_double(double x)
{
    for (int step = WARP / 2; step > 0; step /= 2) x += __shfl_xor_sync(0xFFFFFFFFu, x, step);
    return x;
}

__device__ inline float warp_max(float x)
{
    for (int step = WARP / 2; step > 0; step /= 2) x = fmaxf(x, __shfl_xor_sync(0xFFFFFFFFu, x, step));
    return x;
}

/* The sum over all threads of a block of at most 1024 threads, a multiple of 32. Every thread receives the result.
 * `smem`: 32 elements of shared memory, reusable after the call. S: float or double. */
template <typename S> __device__ inline S block_total(S x, S *smem)
{
    const int warps = (int)(blockDim.x / WARP), lane = (int)(threadIdx.x % WARP);
    for (int step = WARP / 2; step > 0; step /= 2) x += __shfl_xor_sync(0xFFFFFFFFu, x, step);
    if (lane == 0) smem[threadIdx.x / WARP] = x;
    __syncthreads();
    x = lane < warps ? smem[lane] : (S)0;
    for (int step = WARP / 2; step > 0; step /= 2) x += __shfl_xor_sync(0xFFFFFFFFu, x, step);
    __syncthreads();
    return x;
}

__device__ inline float block_sum(float x, float *smem)
{
    return block_total(x, smem);
}

/* A variant for the maximum. */
__device__ inline float block_max(float x, float *smem)
{
    const int warps = (int)(blockDim.x / WARP), lane = (int)(threadIdx.x % WARP);
    x = warp_max(x);
    if (lane == 0) smem[threadIdx.x / WARP] = x;
    __syncthreads();
    x = warp_max(lane < warps ? smem[lane] : -INFINITY);
    __syncthreads();
    return x;
}

/* ---- tensor cores ------------------------------------------------------------------------------------------------ */

/* d += A B for bfloat16 A (16 x 16, row-major fragments) and B (16 x 8, column-major fragments), in the layout of PTX
 * mma.m16n8k16: with g = lane / 4 and c = 2 (lane % 4), a = {A[g][c..], A[g + 8][c..], A[g][c + 8..], A[g + 8][c +
 * 8..]}, b = {B[c..][g], B[c + 8..][g]}, d = {D[g][c], D[g][c + 1], D[g + 8][c], D[g + 8][c + 1]}. */
__device__ inline void mma(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2])
{
#ifdef BO_GPU_EMULATED
    emulate_mma(d, a, b);
#else
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
                 "{%0,%1,%2,%3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#endif
}

/* Loads four 8 x 8 matrices of bfloat16 from shared memory: lane i passes the address of row i % 8 of matrix i / 8 (16
 * bytes, aligned to 16). Register j of a lane receives elements (lane / 4, 2 (lane % 4) …) of matrix j; `transposed`:
 * of its transpose. */
__device__ inline void ldmatrix(uint32_t (&r)[4], const void *row)
{
#ifdef BO_GPU_EMULATED
    emulate_ldmatrix(r, row, false);
#else
    uint32_t at = (uint32_t)__cvta_generic_to_shared(row);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(at)
                 : "memory");
#endif
}

__device__ inline void ldmatrix_transposed(uint32_t (&r)[4], const void *row)
{
#ifdef BO_GPU_EMULATED
    emulate_ldmatrix(r, row, true);
#else
    uint32_t at = (uint32_t)__cvta_generic_to_shared(row);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(at)
                 : "memory");
#endif
}

/* ---- asynchronous copies ----------------------------------------------------------------------------------------- */

/* Copies 16 bytes from global to shared memory, or writes zeros if `present` is false (then nothing is read). */
__device__ inline void copy_async(void *shared, const void *global, bool present = true)
{
#ifdef BO_GPU_EMULATED
    emulate_copy(shared, global, 16, present);
#else
    uint32_t at = (uint32_t)__cvta_generic_to_shared(shared);
    int bytes = present ? 16 : 0;
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(at), "l"(global), "r"(bytes) : "memory");
#endif
}

/* A variant for one float, for data that is not aligned to 16 bytes. */
__device__ inline void copy_async_float(float *shared, const float *global, bool present = true)
{
#ifdef BO_GPU_EMULATED
    emulate_copy(shared, global, 4, present);
#else
    uint32_t at = (uint32_t)__cvta_generic_to_shared(shared);
    int bytes = present ? 4 : 0;
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(at), "l"(global), "r"(bytes) : "memory");
#endif
}

__device__ inline void copy_commit()
{
#ifdef BO_GPU_EMULATED
    emulate_copy_commit();
#else
    asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

/* Prefetches the 128 bytes around an address of global memory to the L2 cache. */
__device__ inline void prefetch(const void *global)
{
#ifdef BO_GPU_EMULATED
    (void)global;
#else
    asm volatile("prefetch.global.L2 [%0];" ::"l"(global));
#endif
}

/* Waits until at most N of the committed groups of this thread are pending. */
template <int N> __device__ inline void copy_wait()
{
#ifdef BO_GPU_EMULATED
    emulate_copy_wait(N);
#else
    asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
#endif
}

/* ---- launches ---------------------------------------------------------------------------------------------------- */

#ifndef BO_GPU_EMULATED
template <typename... P, typename... A>
inline bo_gpu_error launch(bo_gpu *cuda, dim3 grid, dim3 block, size_t shared, void (*kernel)(P...), A... arguments)
{
    if (grid.x == 0 || grid.y == 0 || grid.z == 0) return nullptr;
    if (shared > 48 * 1024) {
        cudaError_t limit = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)shared);
        if (limit != cudaSuccess) return describe("shared memory of a kernel", limit);
    }
    kernel<<<grid, block, shared, cuda->stream>>>(P(arguments)...);
    return describe("a launch", cudaGetLastError());
}
#endif

} // namespace bo

#endif
