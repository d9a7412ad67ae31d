/* Loads and stores of tensors with a run-time type, eight elements at a time. All threads of a launch take the same
 * branch, so there is no divergence. */
#ifndef BO_CUDA_ARRAYS_CUH
#define BO_CUDA_ARRAYS_CUH

#include "device.cuh"

namespace bo {

enum { OCTET = 8 };

__device__ inline float read_one(const bo_gpu_source &from, size_t i)
{
    return from.type == BO_ELEMENT_FLOAT32 ? ((const float *)from.at)[i] : to_float(((const bf16 *)from.at)[i]);
}

__device__ inline void write_one(const bo_gpu_target &to, size_t i, float value)
{
    if (to.type == BO_ELEMENT_FLOAT32) {
        float *at = (float *)to.at + i;
        *at = to.add ? *at + value : value;
    } else {
        bf16 *at = (bf16 *)to.at + i;
        *at = from_float<bf16>(to.add ? to_float(*at) + value : value);
    }
}

/* Eight elements in the type of the tensor. Loading several octets before widening them keeps several requests in
 * flight. */
struct raw_octet {
    uint4 low, high; /* BF16: only low */
};

/* Reads elements first … first + count - 1, count <= 8; the rest is 0. `whole`: count is 8, and `first` is a multiple
 * of 8. */
__device__ inline void read_raw(const bo_gpu_source &from, size_t first, int count, bool whole, raw_octet &raw)
{
    if (from.type == BO_ELEMENT_FLOAT32) {
        const float *at = (const float *)from.at + first;
        if (whole) {
            raw.low = reinterpret_cast<const uint4 *>(at)[0], raw.high = reinterpret_cast<const uint4 *>(at)[1];
            return;
        }
        float x[OCTET];
#pragma unroll
        for (int i = 0; i < OCTET; i++) x[i] = i < count ? at[i] : 0.0f;
        memcpy(&raw, x, sizeof raw);
    } else {
        const bf16 *at = (const bf16 *)from.at + first;
        if (whole) {
            raw.low = *reinterpret_cast<const uint4 *>(at);
            return;
        }
        pack<bf16, OCTET> x;
#pragma unroll
        for (int i = 0; i < OCTET; i++) x.at[i] = i < count ? at[i] : from_float<bf16>(0);
        memcpy(&raw.low, &x, sizeof x);
    }
}

__device__ inline void widen_octet(bo_element type, const raw_octet &raw, float (&x)[OCTET])
{
    if (type == BO_ELEMENT_FLOAT32) {
        memcpy(x, &raw, sizeof x);
    } else {
        widen_bf16(raw.low, x);
    }
}

__device__ inline void read_octet(const bo_gpu_source &from, size_t first, int count, bool whole, float (&x)[OCTET])
{
    raw_octet raw;
    read_raw(from, first, count, whole, raw);
    widen_octet(from.type, raw, x);
}

/* Writes or accumulates elements first … first + count - 1; `whole` as above. */
__device__ inline void write_octet(const bo_gpu_target &to, size_t first, int count, bool whole,
                                   const float (&value)[OCTET])
{
    if (!whole) {
#pragma unroll
        for (int i = 0; i < OCTET; i++)
            if (i < count) write_one(to, first + (size_t)i, value[i]);
        return;
    }
    float before[OCTET];
    if (to.add) read_octet(bo_gpu_source{to.at, to.type}, first, OCTET, true, before);
    if (to.type == BO_ELEMENT_FLOAT32) {
        pack<float, 4> *at = reinterpret_cast<pack<float, 4> *>((float *)to.at + first), low, high;
#pragma unroll
        for (int i = 0; i < 4; i++) {
            low.at[i] = to.add ? before[i] + value[i] : value[i];
            high.at[i] = to.add ? before[i + 4] + value[i + 4] : value[i + 4];
        }
        at[0] = low, at[1] = high;
    } else {
        pack<bf16, 8> all;
#pragma unroll
        for (int i = 0; i < OCTET; i++) all.at[i] = from_float<bf16>(to.add ? before[i] + value[i] : value[i]);
        *reinterpret_cast<pack<bf16, 8> *>((bf16 *)to.at + first) = all;
    }
}

/* ---- elementwise functions ----------------------------------------------------------------------------------------
 */

template <int N> struct sources {
    bo_gpu_source at[N];
};
template <int N> struct targets {
    bo_gpu_target at[N];
};

/* y = f(x) for octets of elements at the same index of all tensors: f(x, y, first) with x[input][8], y[output][8].
 * Absent tensors are skipped. */
template <int IN, int OUT, typename F> __global__ void map_kernel(size_t count, sources<IN> in, targets<OUT> out, F f)
{
    const size_t first = ((size_t)blockIdx.x * blockDim.x + threadIdx.x) * OCTET;
    if (first >= count) return;
    const bool whole = first + OCTET <= count;
    const int valid = whole ? OCTET : (int)(count - first);
    raw_octet raw[IN];
    float x[IN][OCTET], y[OUT][OCTET];
#pragma unroll
    for (int i = 0; i < IN; i++)
        if (in.at[i].at) read_raw(in.at[i], first, valid, whole, raw[i]);
#pragma unroll
    for (int i = 0; i < IN; i++)
        if (in.at[i].at) widen_octet(in.at[i].type, raw[i], x[i]);
    f(x, y, first);
#pragma unroll
    for (int o = 0; o < OUT; o++)
        if (out.at[o].at) write_octet(out.at[o], first, valid, whole, y[o]);
}

/* A variant for octets of bfloat16 only. A thread reads MAP_TURNS octets before it computes the first. */
enum { MAP_THREADS = 256, MAP_TURNS = 2 };

template <int IN, int OUT, typename F>
__global__ void __launch_bounds__(MAP_THREADS) map_octets_kernel(size_t octets, sources<IN> in, targets<OUT> out, F f)
{
    const size_t first = (size_t)blockIdx.x * MAP_THREADS * MAP_TURNS + threadIdx.x;
    raw_octet raw[MAP_TURNS][IN];
#pragma unroll
    for (int t = 0; t < MAP_TURNS; t++)
#pragma unroll
        for (int i = 0; i < IN; i++)
            if (in.at[i].at && first + t * MAP_THREADS < octets)
                raw[t][i].low = static_cast<const uint4 *>(in.at[i].at)[first + t * MAP_THREADS];
#pragma unroll
    for (int t = 0; t < MAP_TURNS; t++) {
        const size_t octet = first + t * MAP_THREADS;
        if (octet >= octets) return;
        float x[IN][OCTET], y[OUT][OCTET];
#pragma unroll
        for (int i = 0; i < IN; i++)
            if (in.at[i].at) widen_octet(BO_ELEMENT_BFLOAT16, raw[t][i], x[i]);
        f(x, y, octet * OCTET);
#pragma unroll
        for (int o = 0; o < OUT; o++)
            if (out.at[o].at)
                write_octet(bo_gpu_target{out.at[o].at, BO_ELEMENT_BFLOAT16, out.at[o].add}, octet * OCTET, OCTET, true,
                            y[o]);
    }
}

template <int IN, int OUT, typename F>
inline bo_gpu_error map_numbers(bo_gpu *cuda, size_t count, sources<IN> in, targets<OUT> out, F f)
{
    bool octets = count % OCTET == 0;
    for (const bo_gpu_source &from : in.at) octets = octets && (!from.at || from.type == BO_ELEMENT_BFLOAT16);
    for (const bo_gpu_target &to : out.at) octets = octets && (!to.at || to.type == BO_ELEMENT_BFLOAT16);
    if (octets)
        return launch(cuda, dim3((unsigned)ceil_div(count, MAP_THREADS * MAP_TURNS * OCTET)), dim3(MAP_THREADS), 0,
                      map_octets_kernel<IN, OUT, F>, count / OCTET, in, out, f);
    return launch(cuda, dim3((unsigned)ceil_div(count, MAP_THREADS * OCTET)), dim3(MAP_THREADS), 0,
                  map_kernel<IN, OUT, F>, count, in, out, f);
}

} // namespace bo

#endif
