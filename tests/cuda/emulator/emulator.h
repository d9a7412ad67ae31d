/* An emulator of the CUDA subset used by kernels (src/device/cuda/device.cuh), to test the same kernels without a GPU.
 * A block runs on one host thread, with one fiber per thread of the block. Barriers and warp functions switch fibers. A
 * barrier that not all threads reach is an error, which ends the process. Dynamic shared memory is initialized with
 * NaNs. Blocks, warps and the lanes of a warp run in random order, which BOCHNER_EMULATOR_SEED repeats; a test that
 * fails prints it. Asynchronous copies write when their thread waits for them. races.h finds races. Not emulated:
 * speed. */
#ifndef BO_GPU_EMULATOR_H
#define BO_GPU_EMULATOR_H

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <functional>
#include <vector>

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __restrict__
#define __launch_bounds__(...)
#define __shared__      static thread_local
#define __align__(n)    alignas(n)
#define __constant__    static
#define __ldg(address)  (*(address))
#define BO_SHARED(name) unsigned char *const name = bo::emulate_shared()

struct dim3 {
    unsigned x, y, z;
    constexpr dim3(unsigned a = 1, unsigned b = 1, unsigned c = 1) : x(a), y(b), z(c)
    {
    }
};
inline thread_local dim3 blockIdx, blockDim, gridDim, threadIdx;

struct float2 {
    float x, y;
};
struct alignas(16) float4 {
    float x, y, z, w;
};
struct alignas(16) uint4 {
    uint32_t x, y, z, w;
};
struct alignas(8) uint2 {
    uint32_t x, y;
};
struct alignas(8) int2 {
    int x, y;
};
inline float2 make_float2(float x, float y)
{
    return {x, y};
}
inline float4 make_float4(float x, float y, float z, float w)
{
    return {x, y, z, w};
}
inline uint2 make_uint2(uint32_t x, uint32_t y)
{
    return {x, y};
}
inline uint4 make_uint4(uint32_t x, uint32_t y, uint32_t z, uint32_t w)
{
    return {x, y, z, w};
}

/* bfloat16: the upper half of a float, rounded to nearest, ties to even. */
struct __nv_bfloat16 {
    uint16_t bits;
};
inline float __bfloat162float(__nv_bfloat16 x)
{
    uint32_t bits = (uint32_t)x.bits << 16;
    float y;
    memcpy(&y, &bits, sizeof y);
    return y;
}
inline __nv_bfloat16 __float2bfloat16(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    if ((bits & 0x7FFFFFFF) > 0x7F800000) return {0x7FFF};
    return {(uint16_t)((bits + 0x7FFF + (bits >> 16 & 1)) >> 16)};
}

struct bo_gpu {
    int device;
    bool recording;
    std::vector<std::function<void()>> *recorded;
    double marks[4];
    void *stream;   /* of a caller: the address of a counter */
    size_t foreign; /* work that was submitted to it */
};

namespace bo {

/* Sets the current device of this thread, and restores the previous one at the end (runtime.cpp). */
struct current_device {
    explicit current_device(const bo_gpu *gpu);
    ~current_device();
};
bool device_is_current(int device);

/* Device memory. The memory of a device is accessible while a device_access for it exists, which requires that the
 * device is current (memory.cpp). */
enum { MAX_DEVICES = 4 };
void *device_allocate(int device, size_t bytes); /* nullptr: out of memory */
void device_release(int device, void *address);
bool device_used(int device);           /* some of it was not released */
int device_locate(const void *address); /* -1: no device */
struct device_access {
    explicit device_access(int device);
    ~device_access();

  private:
    int device;
};

unsigned char *emulate_shared();
void emulate_block_barrier();
/* Every lane of the warp passes `bytes` bytes (at most 64) and can read the bytes of all lanes at result + lane * 64
 * until its next call. */
const unsigned char *emulate_exchange(const void *value, size_t bytes);
void emulate_warp_barrier();
void emulate_grid(dim3 grid, dim3 block, size_t shared, const void *kernel, const std::function<void()> &thread);

void emulate_mma(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]);
void emulate_ldmatrix(uint32_t (&r)[4], const void *row, bool transposed);
void emulate_copy(void *shared, const void *global, unsigned bytes, bool present);
void emulate_copy_commit();
void emulate_copy_wait(unsigned pending);

/* Arguments are copied at launch, as by CUDA. */
template <typename... P, typename... A>
inline const char *launch(bo_gpu *cuda, dim3 grid, dim3 block, size_t shared, void (*kernel)(P...), A... arguments)
{
    if (block.x * block.y * block.z > 1024) return "a launch: more than 1024 threads per block";
    if (shared > 227 * 1024) return "a launch: too much shared memory";
    if (grid.y > 65535 || grid.z > 65535 || grid.x > 0x7FFFFFFF) return "a launch: the grid is too large";
    std::function<void()> run = [=] {
        emulate_grid(grid, block, shared, (const void *)kernel, [=] { kernel(P(arguments)...); });
    };
    cuda->foreign += cuda->stream != nullptr;
    if (cuda->recording) {
        cuda->recorded->push_back(run);
    } else {
        device_access access(cuda->device);
        run();
    }
    return nullptr;
}

} // namespace bo

/* ---- functions of CUDA ------------------------------------------------------------------------------------------- */

inline void __syncthreads()
{
    bo::emulate_block_barrier();
}
inline void __syncwarp(unsigned = 0xFFFFFFFFu)
{
    bo::emulate_warp_barrier();
}
inline void __threadfence()
{
}

inline int emulated_lane()
{
    return (int)((threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)) % 32);
}
template <typename T> inline T emulated_from(T value, int lane)
{
    T out;
    memcpy(&out, bo::emulate_exchange(&value, sizeof value) + (size_t)lane * 64, sizeof out);
    return out;
}
template <typename T> inline T __shfl_xor_sync(unsigned, T x, int mask, int = 32)
{
    return emulated_from(x, emulated_lane() ^ mask);
}
template <typename T> inline T __shfl_sync(unsigned, T x, int lane, int width = 32)
{
    return emulated_from(x, emulated_lane() / width * width + lane % width);
}
template <typename T> inline T __shfl_up_sync(unsigned, T x, unsigned step, int width = 32)
{
    int lane = emulated_lane(), within = lane % width;
    return emulated_from(x, within >= (int)step ? lane - (int)step : lane);
}
template <typename T> inline T __shfl_down_sync(unsigned, T x, unsigned step, int width = 32)
{
    int lane = emulated_lane(), within = lane % width;
    return emulated_from(x, within + (int)step < width ? lane + (int)step : lane);
}
inline unsigned __ballot_sync(unsigned, int predicate)
{
    unsigned bits = 0, value = predicate != 0;
    const unsigned char *all = bo::emulate_exchange(&value, sizeof value);
    for (int i = 0; i < 32; i++) {
        unsigned his;
        memcpy(&his, all + (size_t)i * 64, sizeof his);
        bits |= his << i;
    }
    return bits;
}
inline bool __any_sync(unsigned mask, int predicate)
{
    return __ballot_sync(mask, predicate) != 0;
}
inline bool __all_sync(unsigned mask, int predicate)
{
    return __ballot_sync(mask, predicate) == 0xFFFFFFFFu;
}
inline int __syncthreads_or(int predicate); /* emulator.cpp keeps the flag */
int emulated_or(int predicate);
inline int __syncthreads_or(int predicate)
{
    return emulated_or(predicate);
}

inline float __expf(float x)
{
    return expf(x);
}
inline float __logf(float x)
{
    return logf(x);
}
inline float __sinf(float x)
{
    return sinf(x);
}
inline float __cosf(float x)
{
    return cosf(x);
}
inline void __sincosf(float x, float *s, float *c)
{
    *s = sinf(x), *c = cosf(x);
}
inline float __fdividef(float a, float b)
{
    return a / b;
}
inline float __frcp_rn(float x)
{
    return 1 / x;
}
inline float rsqrtf(float x)
{
    return 1 / sqrtf(x);
}
inline double rsqrt(double x)
{
    return 1 / sqrt(x);
}
inline float __fmaf_rn(float a, float b, float c)
{
    return fmaf(a, b, c);
}
inline float normcdff(float x)
{
    return 0.5f * erfcf(-x * 0.70710678f);
}
inline int __popc(unsigned x)
{
    return __builtin_popcount(x);
}
inline unsigned __umulhi(unsigned a, unsigned b)
{
    return (unsigned)((uint64_t)a * b >> 32);
}
inline float __uint_as_float(unsigned x)
{
    float y;
    memcpy(&y, &x, sizeof y);
    return y;
}
inline unsigned __float_as_uint(float x)
{
    unsigned y;
    memcpy(&y, &x, sizeof y);
    return y;
}
using std::isfinite;
using std::isinf;
using std::isnan;
template <typename T> inline T min(T a, T b)
{
    return b < a ? b : a;
}
template <typename T> inline T max(T a, T b)
{
    return a < b ? b : a;
}

#endif
